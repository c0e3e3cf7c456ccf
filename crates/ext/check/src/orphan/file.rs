// SPDX-License-Identifier: MIT OR Apache-2.0
//! The orphan file: its inode, its blocks, its entries.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::problem::{Problem, Value};
use fsmend_ext_format::checksum;
use fsmend_ext_format::inode::{RawInode, mode};
use fsmend_ext_format::orphan_file::{ORPHAN_TAIL_SIZE, entries, has_magic};

use super::problems::{
    FILE_CHECKSUM, FILE_DIRTY, FILE_HOLE, FILE_MAGIC, FILE_SIZE, FILE_UNUSABLE, LINK_ILLEGAL,
};
use super::release::Release;
use crate::journal::map;
use crate::reading::announce_all;

/// Blocks that the device is told about before they are read one by one; the file hardly ever has more.
const BLOCKS_AHEAD: u64 = 512;

/// Checks the orphan file and, if entries are to be `expected` in it, releases what it lists. Gives the number of entries, `None` when the file
/// is not what it should be.
pub(super) fn check(release: &mut Release<'_, '_>, expected: bool) -> Option<u64> {
    let inode = InodeNo(release.fs.superblock.s_orphan_file_inum.get());
    let raw = match usable(release, inode) {
        Ok(raw) => raw,
        Err(why) => {
            release.findings.raise(Problem::new(&FILE_UNUSABLE).inode(inode).detail("why", why));
            release.orphans.file_is_unusable = true;
            return None;
        }
    };
    let size = u64::from(release.fs.geometry.block_size);
    if !raw.size().is_multiple_of(size) {
        release.findings.raise(Problem::new(&FILE_SIZE).inode(inode).stored(raw.size()));
        return None;
    }
    let map = map::read(&release.overlay, &raw);
    let blocks = raw.size() / size;
    let hole = map.solid_blocks();
    let mut found = Vec::new();
    let mut sound = true;
    let ahead = (0..hole.min(blocks).min(BLOCKS_AHEAD)).map_while(|index| map.find(index));
    announce_all(release.fs, ahead.collect());
    // Only mapped blocks are visited, so an absurd size costs nothing.
    for index in 0..hole.min(blocks) {
        let Some(place) = map.find(index) else { break };
        sound &= block(release, inode, &raw, place, &mut found);
    }
    if hole < blocks {
        release.findings.raise(Problem::new(&FILE_HOLE).inode(inode).stored(hole));
        sound = false;
    }
    if expected {
        release_entries(release, inode, &found);
    } else if !found.is_empty() {
        release.findings.raise(Problem::new(&FILE_DIRTY).inode(inode).stored(found.len() as u64));
    }
    sound.then_some(found.len() as u64)
}

fn usable(release: &Release<'_, '_>, inode: InodeNo) -> Result<RawInode, &'static str> {
    let record = release.overlay.inode(inode).map_err(|_| "there is no such inode")?;
    let raw = RawInode::from_record(&record);
    if raw.i_links_count.get() == 0 {
        return Err("the inode is not in use");
    }
    if raw.file_type() != mode::REGULAR {
        return Err("it is not a regular file");
    }
    Ok(raw)
}

/// Checks one block, gathers its entries and clears them on the overlay. Tells whether it is sound.
fn block(
    release: &mut Release<'_, '_>,
    inode: InodeNo,
    raw: &RawInode,
    place: u64,
    found: &mut Vec<InodeNo>,
) -> bool {
    let Ok(mut contents) = release.overlay.read(place) else {
        release.findings.raise(Problem::new(&FILE_UNUSABLE).inode(inode).detail("why", "it cannot be read"));
        return false;
    };
    let problem = |row| Problem::new(row).inode(inode).block(BlockNo(place));
    if !has_magic(&contents) {
        release.findings.raise(problem(&FILE_MAGIC));
        return false;
    }
    let geometry = &release.fs.geometry;
    let seed = checksum::inode_seed(geometry.checksum_seed, inode, raw.i_generation.get());
    let checked = checksum::orphan_block(seed, BlockNo(place), &contents);
    if let Some(checked) = checked.filter(|checked| geometry.features.metadata_csum() && !checked.is_right())
    {
        let stored = Value::Hex(u64::from(checked.stored));
        let observed = Value::Hex(u64::from(checked.computed));
        release.findings.raise(problem(&FILE_CHECKSUM).stored(stored).observed(observed));
        return false;
    }
    let before = found.len();
    found.extend(entries(&contents));
    if found.len() > before {
        let body = contents.len() - ORPHAN_TAIL_SIZE;
        contents[..body].fill(0);
        if geometry.features.metadata_csum()
            && let Some(checked) = checksum::orphan_block(seed, BlockNo(place), &contents)
        {
            contents[body + 4..].copy_from_slice(&checked.computed.to_le_bytes());
        }
        release.overlay.put(place, contents);
    }
    true
}

fn release_entries(release: &mut Release<'_, '_>, file: InodeNo, found: &[InodeNo]) {
    for inode in found {
        if !super::is_ordinary(release.fs, *inode) {
            release.findings.raise(Problem::new(&LINK_ILLEGAL).inode(file).stored(inode.0));
        } else if !release.is_released(*inode) && !release.release(*inode) {
            release.free_no_more();
        }
    }
}
