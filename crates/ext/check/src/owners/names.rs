// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of files that are not to keep them: deleted, or on their way to lost+found.

use std::collections::BTreeSet;

use fsmend_base::{BlockNo, InodeNo};
use fsmend_ext_format::checksum;
use fsmend_ext_format::directory::entries_len;

use crate::directory::Directory;
use crate::inline_data::{directory_areas, settle_hash};
use crate::repair::{RepairContext, seed_of};

/// Takes all names of `files`, which are no directories, out of all directories.
pub(super) fn strip(context: &RepairContext<'_>, files: &BTreeSet<InodeNo>) {
    if files.is_empty() {
        return;
    }
    let directories: Vec<u32> = context.inodes.directories().iter().map(|fact| fact.inode).collect();
    for directory in directories.into_iter().filter_map(|inode| Directory::open(&context.fs, InodeNo(inode)))
    {
        if directory.inline {
            strip_inline(context, directory, files);
            continue;
        }
        let seed = seed_of(&context.fs, directory.inode, &directory.record);
        for run in &directory.runs {
            for block in (run.physical..run.physical + u64::from(run.count)).map(BlockNo) {
                strip_block(context, block, seed, files);
            }
        }
    }
}

fn strip_inline(context: &RepairContext<'_>, directory: Directory, files: &BTreeSet<InodeNo>) {
    let mut record = directory.record;
    let mut stripped = false;
    for area in directory_areas(&record).into_iter().flat_map(|areas| [areas.first, areas.second]) {
        let Some(entries) = record.get_mut(area) else { continue };
        for (at, inode) in names_of(entries, files) {
            entries[at..at + 4].fill(0);
            context.inodes.withdraw_link(inode);
            stripped = true;
        }
    }
    if stripped {
        settle_hash(&mut record);
        context.write_inode(directory.inode, &mut record);
    }
}

fn strip_block(context: &RepairContext<'_>, block: BlockNo, seed: Option<u32>, files: &BTreeSet<InodeNo>) {
    let Ok(mut bytes) = context.read_block(block) else { return };
    let end = entries_len(&bytes, context.fs.geometry.features);
    let mut stripped = false;
    for (at, inode) in names_of(&bytes[..end], files) {
        bytes[at..at + 4].fill(0);
        context.inodes.withdraw_link(inode);
        stripped = true;
    }
    if let Some(seed) = seed.filter(|_| stripped && end < bytes.len()) {
        checksum::seal_directory_leaf(seed, &mut bytes);
    }
    if stripped {
        context.write_block(block, &bytes);
    }
}

/// Where the entries stand that lead to `files`, which are no directories.
fn names_of(entries: &[u8], files: &BTreeSet<InodeNo>) -> Vec<(usize, InodeNo)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(head) = entries.get(at..at + 8) {
        let inode = InodeNo(u32::from_le_bytes([head[0], head[1], head[2], head[3]]));
        let len = usize::from(u16::from_le_bytes([head[4], head[5]]));
        if files.contains(&inode) {
            found.push((at, inode));
        }
        if len < 8 {
            break;
        }
        at += len;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whatever_the_lengths_say() {
        let files = BTreeSet::from([InodeNo(12)]);
        let mut block = vec![0; 64];
        block[..8].copy_from_slice(&[11, 0, 0, 0, 12, 0, 1, 1]);
        block[12..20].copy_from_slice(&[12, 0, 0, 0, 12, 0, 1, 1]);
        block[24..32].copy_from_slice(&[12, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(names_of(&block, &files), [(12, InodeNo(12)), (24, InodeNo(12))]);
        block[28] = 200;
        assert_eq!(names_of(&block, &files).len(), 2);
        assert!(names_of(&block[..5], &files).is_empty());
    }
}
