// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inspection of one directory: every entry, the index, `.` and `..`, checksums, with all inode facts at hand; and
//! the tree that the directories make.
//!
//! | file | what |
//! |---|---|
//! | `suspects.rs` | suspect directories, side by side |
//! | `inspect.rs` | one directory, block by block |
//! | `parent_claims.rs` | what one directory says about others |
//! | `chain.rs` | the records of one block, salvaged |
//! | `dots.rs` | `.` and `..` |
//! | `entry.rs` | what becomes of one entry |
//! | `names.rs` | duplicate names |
//! | `twice.rs` | which of them stay |
//! | `index.rs` | the hash tree |
//! | `leaf.rs` | blocks as they are written, sealed |
//! | `hashing.rs` | hashes of names |
//! | `inline.rs` | directories that live in their inode |
//! | `encryption.rs` | encryption policies of a directory and what is in it |
//! | `tree.rs` | unconnected and looped directories, wrong parents, the root |
//! | `lost_found.rs` | `lost+found` |
//! | `repair/` | what takes the facts of everything: directories rewritten, the tree |
//! | `paths.rs` | names and paths for reports |
//! | `filter.rs` | who is certainly not looked for |
//! | `former/` | what something without a name was called before |

mod chain;
mod dots;
mod encryption;
pub(crate) mod entries;
mod entry;
pub(crate) mod former;
mod hashing;
mod index;
mod inline;
mod inspect;
mod leaf;
pub(crate) mod lost_found;
pub(crate) mod mending;
mod names;
mod params;
mod parent_claims;
pub mod problems;
pub(crate) mod repair;
pub(crate) mod repair_input;
mod subject;
pub(crate) mod suspects;
pub(crate) mod tree;
mod twice;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use fsmend_base::{BlockNo, GroupNo, InodeNo, width};
use fsmend_engine::Findings;
use fsmend_engine::inodes::{InodeTable, Kind};

use crate::Fs;
use crate::fast::inode::{InodeFastPath, InodeSummary, Verdict};
pub use mending::Mending;
pub use subject::{Directory, Surroundings};

impl Directory {
    /// Reads directory `inode` as it will be after repair; `None` when it cannot be read or will be no directory.
    pub fn open(fs: &Fs<'_>, inode: InodeNo) -> Option<Directory> {
        let record = fs.read_inode(inode)?.ok()?;
        let mut summary = InodeSummary::default();
        if InodeFastPath::new(fs).summarize(inode, &record, &mut summary) == Verdict::Clean
            && !summary.needs_walk
        {
            let directory = Directory { inode, record, runs: summary.runs, inline: false };
            return (summary.kind == Kind::Directory).then_some(directory);
        }
        let found = crate::inode::inspect(fs, inode, &record, &mut Findings::new());
        (found.kind == Kind::Directory).then_some(Directory {
            inode,
            record: found.record,
            runs: found.runs,
            inline: found.inline,
        })
    }

    /// Where its own `..` leads, as it stands in its usual place; 0 where nothing of the kind is there.
    fn parent_entry(&self, fs: &Fs<'_>) -> u32 {
        if self.inline {
            return inline::gather(&self.record).map_or(0, |data| data.parent.0);
        }
        let first = self.runs.first().filter(|run| run.logical == 0);
        let block = first.and_then(|run| fs.read_block(BlockNo(run.physical)).ok()).unwrap_or_default();
        match block.get(DOT_DOT..DOT_DOT + 10) {
            Some(&[a, b, c, d, _, _, 2, _, b'.', b'.']) => u32::from_le_bytes([a, b, c, d]),
            _ => 0,
        }
    }
}

/// Where the record of `..` stands: behind that of `.`, which has twelve bytes.
const DOT_DOT: usize = 12;

/// The inodes whose records lie in `bad_blocks` (ascending), ascending in each group.
pub fn inodes_in_bad_blocks(fs: &Fs<'_>, bad_blocks: &[u64]) -> Vec<InodeNo> {
    let geometry = &fs.geometry;
    let per_block = (geometry.block_size / geometry.inode_size).max(1);
    let mut inodes = Vec::new();
    for (group, table) in (0..).map(GroupNo).zip(fs.groups.iter().map(|group| group.desc.inode_table)) {
        let end = table.saturating_add(u64::from(geometry.inode_table_blocks()));
        let from = bad_blocks.partition_point(|block| *block < table);
        for block in bad_blocks[from..].iter().take_while(|block| table != 0 && **block < end) {
            let first = width::low_u32(block - table) * per_block;
            let last = (first + per_block).min(geometry.inodes_per_group);
            inodes.extend((first..last).map(|index| geometry.inode_at(group, index)));
        }
    }
    inodes
}

/// Inspects `directory` after every inode has been scanned. Entries that stay are counted with
/// `inodes.observe_link`, subdirectories get their parent with `inodes.set_parent`, and the directory's own parent
/// entry is stored in its `DirectoryFact`; it stays 0, and is not counted, where `..` is missing or leads
/// nowhere.
pub fn inspect(fs: &Fs<'_>, inodes: &InodeTable, directory: &Directory, findings: &mut Findings) {
    inspect_with(fs, inodes, directory, Surroundings::default(), findings);
}

/// [`inspect()`], with what else is known; returns what is left for the repair.
pub fn inspect_with(
    fs: &Fs<'_>,
    inodes: &InodeTable,
    directory: &Directory,
    surroundings: Surroundings<'_>,
    findings: &mut Findings,
) -> Mending {
    let parent_claims = parent_claims::DeferredParentClaims::at_once(inodes, directory.inode);
    let mut subject = findings.for_subject();
    let mending = inspect::Inspector::new(fs, directory, surroundings, parent_claims, &mut subject).run();
    findings.merge(subject);
    mending
}
