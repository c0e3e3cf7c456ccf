// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that do not lie in one piece: for those who want to know which.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_device::Device;
use fsmend_engine::Findings;
use fsmend_engine::inodes::Kind;
use fsmend_ext_format::group::GroupFlags;
use fsmend_ext_format::inode::special;

use crate::inode::Inspection;
use crate::run;
use crate::{Fs, Refusal, inode, superblock};
use fsmend_engine::options::CheckOptions;

/// A file or directory in several pieces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scattered {
    /// Which one.
    pub inode: InodeNo,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Number of its blocks.
    pub blocks: u64,
    /// Where it goes on elsewhere: block of the file, where the block before it would have it lie, where it lies.
    pub gaps: Vec<(u64, BlockNo, BlockNo)>,
}

/// Calls `visit` with every file and directory in several pieces, in ascending order.
pub fn visit_scattered(
    device: &Arc<dyn Device>,
    options: &CheckOptions,
    cancel: &AtomicBool,
    visit: &mut dyn FnMut(Scattered),
) -> Result<(), Refusal> {
    let mut ignored = Findings::new();
    let settled = superblock::settle(device, options.superblock, options.now, &mut ignored)?;
    let fs = run::open(device, settled, options.now, &mut ignored);
    for number in (0..fs.geometry.group_count).map(GroupNo) {
        for index in 0..inodes_of(&fs, number) {
            if cancel.load(Relaxed) {
                return Ok(());
            }
            scattered(&fs, fs.geometry.inode_at(number, index)).into_iter().for_each(&mut *visit);
        }
    }
    Ok(())
}

/// Number of inodes of a group that have ever been used.
fn inodes_of(fs: &Fs<'_>, number: GroupNo) -> u32 {
    let Some(group) = fs.group(number).filter(|group| group.desc.inode_table != 0) else { return 0 };
    let has_tails = fs.geometry.features.group_csum();
    if has_tails && group.desc.has_flag(GroupFlags::INODE_UNINIT) {
        return 0;
    }
    fs.geometry.inodes_per_group
}

fn scattered(fs: &Fs<'_>, inode: InodeNo) -> Option<Scattered> {
    if inode.0 < fs.geometry.first_inode && inode.0 != special::ROOT {
        return None;
    }
    let record = fs.read_inode(inode)?.ok()?;
    if record.iter().all(|byte| *byte == 0) {
        return None;
    }
    let found = inode::inspect(fs, inode, &record, &mut Findings::new());
    let gaps = gaps(&found);
    let blocks = found.runs.iter().map(|run| u64::from(run.count)).sum();
    let is_directory = found.kind == Kind::Directory;
    let is_used = found.kind != Kind::Unused && found.raw().i_links_count.get() != 0;
    (is_used && !gaps.is_empty()).then_some(Scattered { inode, is_directory, blocks, gaps })
}

/// Where a file goes on elsewhere than behind its last block. Holes are passed over, and so are indirect blocks and nodes in between.
fn gaps(found: &Inspection) -> Vec<(u64, BlockNo, BlockNo)> {
    let nodes: BTreeSet<u64> = found.map_blocks.iter().copied().collect();
    let mut gaps = Vec::new();
    let mut next: Option<u64> = None;
    for run in &found.runs {
        if let Some(mut expected) = next {
            while nodes.contains(&expected) {
                expected += 1;
            }
            if expected != run.physical {
                gaps.push((run.logical, BlockNo(expected), BlockNo(run.physical)));
            }
        }
        next = Some(run.physical.saturating_add(u64::from(run.count)));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::MapRun;

    #[test]
    fn nodes_in_between_do_not_count() {
        let run = |logical, physical, count| MapRun { logical, physical, count, unwritten: false };
        let mut found = Inspection {
            runs: vec![run(0, 100, 12), run(12, 113, 3), run(20, 116, 1)],
            ..Inspection::default()
        };
        found.map_blocks = vec![112];
        assert_eq!(gaps(&found), []);
        found.runs.push(run(30, 50, 1));
        assert_eq!(gaps(&found), [(30, BlockNo(117), BlockNo(50))]);
    }
}
