// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the metadata of a benchmark image lies: found once, before anything is measured.
//!
//! Only for the images that the bench itself makes: sound, 4 KiB blocks (UFS: fragments), below block 2^32.

mod hybridfs;
mod ufs;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsmend_ext_format::features::{Incompat, RoCompat};
use fsmend_ext_format::group::{GroupDesc, GroupFlags, RawGroupDesc};
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode};
use fsmend_ext_format::superblock::{EXT_MAGIC, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use zerocopy::{FromZeros, IntoBytes};

/// Bytes in a block of every benchmark image.
pub const BLOCK: usize = 4096;

/// Metadata by kind, as byte ranges in address order.
pub struct Layout {
    /// Whether directory blocks have checksums.
    pub are_directories_sealed: bool,
    /// Bytes in an inode record; hybridfs: in a fragment.
    pub inode_size: usize,
    /// Used parts of inode tables: start and length; hybridfs: of the log.
    pub tables: Vec<(u64, usize)>,
    /// Directory blocks.
    pub directories: Vec<u64>,
    /// Blocks of pointers.
    pub pointers: Vec<u64>,
}

/// Walks the inode tables of `image`.
pub fn find(image: &Path) -> io::Result<Layout> {
    let file = File::open(image)?;
    let mut bytes = [0; SUPERBLOCK_SIZE];
    file.read_exact_at(&mut bytes, SUPERBLOCK_OFFSET)?;
    let superblock: RawSuperblock = zerocopy::transmute!(bytes);
    if superblock.s_magic.get() != EXT_MAGIC {
        return hybridfs::find(image)?.map_or_else(|| ufs::find(image), Ok);
    }
    let inode_size = usize::from(superblock.s_inode_size.get());
    let mut layout = Layout {
        are_directories_sealed: true,
        inode_size,
        tables: tables(&file, &superblock)?,
        directories: Vec::new(),
        pointers: Vec::new(),
    };
    let mut table = Vec::new();
    for (start, len) in layout.tables.clone() {
        table.resize(len, 0);
        file.read_exact_at(&mut table, start)?;
        for record in table.chunks(inode_size) {
            note_blocks(&file, &RawInode::from_record(record), &mut layout)?;
        }
    }
    layout.directories.sort_unstable();
    layout.pointers.sort_unstable();
    Ok(layout)
}

fn tables(file: &File, superblock: &RawSuperblock) -> io::Result<Vec<(u64, usize)>> {
    let features = superblock.features();
    let wide = features.has_incompat(Incompat::BIT64);
    let size = if wide { usize::from(superblock.s_desc_size.get()) } else { 32 };
    let groups = superblock.blocks_count().div_ceil(u64::from(superblock.s_blocks_per_group.get())) as usize;
    let lazy = features.has_ro_compat(RoCompat::METADATA_CSUM) || features.has_ro_compat(RoCompat::GDT_CSUM);
    let mut bytes = vec![0; groups * size];
    file.read_exact_at(&mut bytes, BLOCK as u64)?;
    let mut tables = Vec::new();
    for record in bytes.chunks(size) {
        let mut raw = RawGroupDesc::new_zeroed();
        let len = record.len().min(size_of::<RawGroupDesc>());
        raw.as_mut_bytes()[..len].copy_from_slice(&record[..len]);
        let desc = GroupDesc::parse(&raw, wide);
        let used = match lazy {
            true if desc.has_flag(GroupFlags::INODE_UNINIT) => 0,
            true => superblock.s_inodes_per_group.get() - desc.itable_unused,
            false => superblock.s_inodes_per_group.get(),
        };
        if used > 0 {
            tables.push((
                desc.inode_table * BLOCK as u64,
                used as usize * usize::from(superblock.s_inode_size.get()),
            ));
        }
    }
    Ok(tables)
}

fn note_blocks(file: &File, inode: &RawInode, layout: &mut Layout) -> io::Result<()> {
    if inode.i_links_count.get() == 0 {
        return Ok(());
    }
    let is_directory = inode.file_type() == mode::DIRECTORY;
    if inode.has_flag(InodeFlags::EXTENTS) {
        if inode.file_type() != mode::SYMLINK {
            note_nodes(file, &inode.i_block, layout)?;
        }
        if is_directory {
            note_extents(inode, &mut layout.directories);
        }
    } else if is_directory || inode.file_type() == mode::REGULAR {
        note_pointers(file, inode, is_directory, layout)?;
    }
    Ok(())
}

/// The blocks of an extent tree below `node`, level by level.
fn note_nodes(file: &File, node: &[u8], layout: &mut Layout) -> io::Result<()> {
    let mut nodes = vec![node.to_vec()];
    while let Some(node) = nodes.pop() {
        let (entries, depth) = (usize::from(u16::from_le_bytes([node[2], node[3]])), node[6]);
        for entry in node[12..].chunks_exact(12).take(if depth > 0 { entries } else { 0 }) {
            let block = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
            let start = u64::from(block) * BLOCK as u64;
            layout.pointers.push(start);
            if depth > 1 {
                let mut bytes = vec![0; BLOCK];
                file.read_exact_at(&mut bytes, start)?;
                nodes.push(bytes);
            }
        }
    }
    Ok(())
}

/// Leaf extents in the inode; deeper trees do not occur in directories of the benchmark images.
fn note_extents(inode: &RawInode, blocks: &mut Vec<u64>) {
    let entries = usize::from(u16::from_le_bytes([inode.i_block[2], inode.i_block[3]])).min(4);
    let depth = inode.i_block[6];
    if depth > 0 {
        return;
    }
    for entry in 0..entries {
        let at = 12 + entry * 12;
        let len = u64::from(u16::from_le_bytes([inode.i_block[at + 4], inode.i_block[at + 5]]));
        let start = u64::from(inode.block_word(at / 4 + 2));
        blocks.extend((start..start + len).map(|block| block * BLOCK as u64));
    }
}

fn note_pointers(file: &File, inode: &RawInode, is_directory: bool, layout: &mut Layout) -> io::Result<()> {
    if is_directory {
        layout.directories.extend(
            (0..12).map(|index| u64::from(inode.block_word(index)) * BLOCK as u64).filter(|at| *at != 0),
        );
    }
    let single = u64::from(inode.block_word(12)) * BLOCK as u64;
    let double = u64::from(inode.block_word(13)) * BLOCK as u64;
    layout.pointers.extend([single, double].into_iter().filter(|at| *at != 0));
    if double != 0 {
        let mut block = vec![0; BLOCK];
        file.read_exact_at(&mut block, double)?;
        let leaves = block
            .chunks(4)
            .map(|bytes| u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])));
        layout.pointers.extend(leaves.filter(|leaf| *leaf != 0).map(|leaf| leaf * BLOCK as u64));
    }
    Ok(())
}
