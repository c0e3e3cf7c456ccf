// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many files there are of each kind: a walk over the inode tables for those who want to know. It judges nothing, and takes
//! what it reads for what it says.

use std::sync::Arc;

use fsmend_base::{GroupNo, InodeNo, width};
use fsmend_device::Device;
use fsmend_engine::Findings;
use fsmend_ext_format::extent::EXTENT_MAGIC;
use fsmend_ext_format::inode::FAST_SYMLINK_MAX;
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode, special};

use crate::run;
use crate::{Fs, Refusal, bad_blocks, superblock};
use fsmend_engine::options::CheckOptions;

/// Records that are read at once.
const CHUNK: u32 = 1024;
/// Larger files need a feature of their own: 2 GiB.
const LARGE: u64 = 0x7FFF_FFFF;
/// Trees of extents are not deeper than this.
const DEPTH_MAX: usize = 8;
/// Words of `i_block` that lead to single, double and triple indirect blocks.
const INDIRECT_WORDS: [usize; 3] = [12, 13, 14];

/// The counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTypeCounts {
    /// Regular files.
    pub regular: u64,
    /// Directories.
    pub directories: u64,
    /// Character devices.
    pub char_devices: u64,
    /// Block devices.
    pub block_devices: u64,
    /// Named pipes.
    pub fifos: u64,
    /// Sockets.
    pub sockets: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Those of them whose target stands in the inode.
    pub fast_symlinks: u64,
    /// Further names of what is no directory.
    pub links: u64,
    /// Files of 2 GiB and more.
    pub large: u64,
    /// Files with single, double and triple indirect blocks.
    pub indirect: [u64; 3],
    /// Trees of extents by their depth.
    pub extent_depths: Vec<u64>,
    /// Blocks on the list of bad blocks.
    pub bad_blocks: u64,
}

impl FileTypeCounts {
    /// Everything that has a name, every name counted once.
    pub fn names(&self) -> u64 {
        let files = [self.regular, self.directories, self.char_devices, self.block_devices];
        let others = [self.fifos, self.sockets, self.symlinks, self.links];
        files.iter().chain(&others).sum()
    }
}

/// Counts the files of the file system on `device`.
pub fn count(device: &Arc<dyn Device>, options: &CheckOptions) -> Result<FileTypeCounts, Refusal> {
    let mut ignored = Findings::new();
    let settled = superblock::settle(device, options.superblock, options.now, &mut ignored)?;
    let fs = run::open(device, settled, options.now, &mut ignored);
    let mut file_types = FileTypeCounts { extent_depths: vec![0; DEPTH_MAX], ..FileTypeCounts::default() };
    file_types.bad_blocks = bad_blocks::check(&fs, &mut ignored).blocks.len() as u64;
    for (number, group) in (0..).zip(&fs.groups) {
        for first in (0..group.scan_inodes).step_by(CHUNK as usize) {
            count_chunk(
                &fs,
                GroupNo(number),
                first..group.scan_inodes.min(first.saturating_add(CHUNK)),
                &mut file_types,
            );
        }
    }
    let used = file_types.extent_depths.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    file_types.extent_depths.truncate(used);
    Ok(file_types)
}

/// Counts the inodes at `places` of the table of `group`; those that cannot be read are left out.
fn count_chunk(fs: &Fs<'_>, group: GroupNo, places: std::ops::Range<u32>, file_types: &mut FileTypeCounts) {
    let first = u64::from(group.0) * u64::from(fs.geometry.inodes_per_group) + u64::from(places.start) + 1;
    let Some(offset) = u32::try_from(first).ok().and_then(|first| fs.inode_offset(InodeNo(first))) else {
        return;
    };
    let size = fs.geometry.inode_size as usize;
    let mut table = vec![0; places.len() * size];
    if fs.device.read_at(offset, &mut table).is_err() {
        return;
    }
    for (number, record) in (first..).zip(table.chunks_exact(size)) {
        let raw = RawInode::from_record(record);
        if raw.i_links_count.get() > 0 && raw.i_mode.get() != 0 {
            file_types.add(&raw, number, u64::from(fs.geometry.first_inode));
        }
    }
}

impl FileTypeCounts {
    fn add(&mut self, raw: &RawInode, number: u64, first_inode: u64) {
        let is_journal = number == u64::from(special::JOURNAL);
        let is_users = number == u64::from(special::ROOT) || number >= first_inode;
        if !is_users && !is_journal {
            return;
        }
        if raw.has_flag(InodeFlags::EXTENTS) {
            self.add_extents(raw);
        }
        if is_users {
            self.add_kind(raw);
        }
    }

    fn add_extents(&mut self, raw: &RawInode) {
        let [header, _, depth] = [0, 4, 6].map(|at| {
            let word = raw.block_word(at / 4);
            if at % 4 == 0 { width::low_u16(u64::from(word)) } else { (word >> 16) as u16 }
        });
        if header == EXTENT_MAGIC
            && let Some(count) = self.extent_depths.get_mut(usize::from(depth))
        {
            *count += 1;
        }
    }

    fn add_kind(&mut self, raw: &RawInode) {
        let kind = raw.file_type();
        match kind {
            mode::REGULAR => self.regular += 1,
            mode::DIRECTORY => self.directories += 1,
            mode::CHAR_DEVICE => self.char_devices += 1,
            mode::BLOCK_DEVICE => self.block_devices += 1,
            mode::FIFO => self.fifos += 1,
            mode::SOCKET => self.sockets += 1,
            mode::SYMLINK => {
                self.symlinks += 1;
                self.fast_symlinks += u64::from(raw.size() <= FAST_SYMLINK_MAX);
            }
            _ => return,
        }
        if kind != mode::DIRECTORY {
            self.links += u64::from(raw.i_links_count.get()) - 1;
        }
        if kind == mode::REGULAR {
            self.large += u64::from(raw.size() > LARGE);
        }
        let is_mapped = matches!(kind, mode::REGULAR | mode::DIRECTORY)
            || kind == mode::SYMLINK && raw.size() > FAST_SYMLINK_MAX;
        if is_mapped && !raw.has_flag(InodeFlags::EXTENTS) && !raw.has_flag(InodeFlags::INLINE_DATA) {
            for (count, word) in self.indirect.iter_mut().zip(INDIRECT_WORDS) {
                *count += u64::from(raw.block_word(word) != 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    fn inode(kind: u16, size: u64, links: u16) -> RawInode {
        let mut raw = RawInode::new_zeroed();
        raw.i_mode.set(kind);
        raw.set_size(size);
        raw.i_links_count.set(links);
        raw
    }

    #[test]
    fn kinds_and_names() {
        let mut file_types =
            FileTypeCounts { extent_depths: vec![0; DEPTH_MAX], ..FileTypeCounts::default() };
        file_types.add(&inode(mode::DIRECTORY, 1024, 9), 2, 11);
        file_types.add(&inode(mode::REGULAR, 3 << 30, 4), 12, 11);
        file_types.add(&inode(mode::SYMLINK, 59, 1), 13, 11);
        file_types.add(&inode(mode::SYMLINK, 60, 1), 14, 11);
        file_types.add(&inode(mode::REGULAR, 5, 1), 7, 11);
        assert_eq!((file_types.directories, file_types.regular, file_types.symlinks), (1, 1, 2));
        assert_eq!((file_types.fast_symlinks, file_types.links, file_types.large), (1, 3, 1));
        assert_eq!(file_types.names(), 7);
    }

    #[test]
    fn maps() {
        let mut file_types =
            FileTypeCounts { extent_depths: vec![0; DEPTH_MAX], ..FileTypeCounts::default() };
        let mut mapped = inode(mode::REGULAR, 5000, 1);
        mapped.set_block_word(12, 77);
        mapped.set_block_word(14, 78);
        file_types.add(&mapped, 12, 11);
        let mut tree = inode(mode::REGULAR, 5000, 1);
        tree.set_flag(InodeFlags::EXTENTS);
        tree.set_block_word(0, u32::from(EXTENT_MAGIC));
        tree.set_block_word(1, 2 << 16);
        tree.set_block_word(12, 79);
        file_types.add(&tree, 13, 11);
        assert_eq!(file_types.indirect, [1, 0, 1]);
        assert_eq!(file_types.extent_depths[..3], [0, 0, 1]);
    }
}
