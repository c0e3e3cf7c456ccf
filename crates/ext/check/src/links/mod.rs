// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stored link counts against the names that were found: what e2fsck calls pass 4.

pub mod problems;
pub(crate) mod repair;

use fsmend_base::InodeNo;
use fsmend_engine::crosscheck::links::{LinkRows, LinkRules, WrongCount};
use fsmend_engine::inodes::{InodeFact, Kind, mark};
use fsmend_engine::{Findings, Problem, Row};
use fsmend_ext_format::extent::ExtentHeader;
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::inode::LINKS_MAX;
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode, special};
use fsmend_ext_format::xattr::Area;

use crate::Fs;

impl LinkRules for Fs<'_> {
    fn link_rows(&self) -> LinkRows {
        LinkRows {
            mismatch: &problems::MISMATCH,
            unattached: &problems::UNATTACHED,
            unattached_empty: &problems::UNATTACHED_EMPTY,
        }
    }

    fn has_names(&self, inode: InodeNo, fact: InodeFact) -> bool {
        let reserved = inode.0 < self.geometry.first_inode && inode.0 != special::ROOT;
        !reserved && fact.0 & (mark::RESERVED | mark::EA_INODE) == 0
    }

    fn is_worthless(&self, inode: InodeNo) -> bool {
        is_empty(&self.read_inode(inode).and_then(Result::ok).unwrap_or_default())
    }

    fn count_for(&self, wrong: &WrongCount, findings: &mut Findings) -> u64 {
        if wrong.fact.kind() != Kind::Directory || wrong.observed <= u64::from(LINKS_MAX) {
            return wrong.observed;
        }
        if !self.geometry.features.has_ro_compat(RoCompat::DIR_NLINK) {
            let problem = Problem::new(&problems::NLINK_FEATURE_MISSING).inode(wrong.inode);
            findings.raise(problem.observed(wrong.observed));
        }
        1
    }

    fn mismatch_row(&self, wrong: &WrongCount) -> &'static Row {
        let may_be_saturated =
            wrong.fact.kind() == Kind::Directory && wrong.stored == 1 && wrong.observed > 1;
        let record = || self.read_inode(wrong.inode).and_then(Result::ok).unwrap_or_default();
        match may_be_saturated && RawInode::from_record(&record()).has_flag(InodeFlags::INDEX) {
            true => &problems::SATURATED_WITHOUT_NEED,
            false => &problems::MISMATCH,
        }
    }
}

/// Nothing that could be kept: a file without size, blocks, inline data and attributes, and without a pointer that would lead to any. (Of a
/// device, a pipe or a socket, what it is is all that it ever held.)
pub(crate) fn is_empty(record: &[u8]) -> bool {
    let raw = RawInode::from_record(record);
    raw.file_type() == mode::REGULAR
        && raw.size() == 0
        && raw.i_blocks_lo.get() == 0
        && raw.i_blocks_high.get() == 0
        && !raw.has_flag(InodeFlags::INLINE_DATA)
        && leads_nowhere(&raw)
        && !has_attributes(record)
}

/// Whether attributes stand in the inode, among them access lists. Those in a block of their own count as space.
fn has_attributes(record: &[u8]) -> bool {
    Area::of_inode(record).is_some_and(|area| area.entries().any(|entry| entry.is_ok()))
}

/// Whether a map holds no entry. One that holds some, of a file that is empty by its size and its space, is damaged: what it was is unknown, and it
/// is not for a repair to throw it away.
fn leads_nowhere(raw: &RawInode) -> bool {
    if raw.has_flag(InodeFlags::EXTENTS) {
        return ExtentHeader::parse(&raw.i_block).is_none_or(|root| root.entries == 0);
    }
    raw.i_block.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::testing::Image;
    use std::sync::atomic::AtomicBool;

    use fsmend_engine::crosscheck::links::{Adjustments, check};
    use fsmend_engine::inodes::{ChunkFacts, InodeTable};
    use fsmend_engine::pool::PoolConfig;

    #[test]
    fn what_a_device_is_is_worth_keeping() {
        let of = |file_type: u16| {
            let (mut record, mut raw) = (vec![0; 256], RawInode::from_record(&[]));
            raw.i_mode.set(file_type | 0o644);
            raw.store(&mut record);
            record
        };
        assert!(is_empty(&of(mode::REGULAR)));
        for kept in [mode::CHAR_DEVICE, mode::BLOCK_DEVICE, mode::FIFO, mode::SOCKET] {
            assert!(!is_empty(&of(kept)));
        }
    }

    #[test]
    fn what_leads_somewhere_is_not_empty() {
        let of = |flags: InodeFlags, block: &[u8]| {
            let mut raw = RawInode::from_record(&[]);
            raw.i_mode.set(mode::REGULAR | 0o644);
            raw.set_flags(flags);
            raw.i_block[..block.len()].copy_from_slice(block);
            let mut record = vec![0; 256];
            raw.store(&mut record);
            record
        };
        let root = |entries| [0x0A, 0xF3, entries, 0, 4, 0, 0, 0, 0, 0, 0, 0];
        assert!(is_empty(&of(InodeFlags::empty(), &[])));
        assert!(is_empty(&of(InodeFlags::EXTENTS, &root(0))));
        assert!(!is_empty(&of(InodeFlags::empty(), &[7])), "a pointer");
        assert!(!is_empty(&of(InodeFlags::EXTENTS, &root(1))), "an extent");
    }

    #[test]
    fn attributes_in_the_inode_are_worth_keeping() {
        let (mut record, mut raw) = (vec![0; 256], RawInode::from_record(&[]));
        raw.i_mode.set(mode::REGULAR | 0o644);
        raw.store(&mut record);
        record[128] = 32;
        record[160..164].copy_from_slice(&[0, 0, 0x02, 0xEA]);
        assert!(is_empty(&record), "a table without entries");
        // The name "user.a" without a value.
        record[164..166].copy_from_slice(&[1, 1]);
        record[180] = b'a';
        assert!(!is_empty(&record));
        record[160] = 1;
        assert!(is_empty(&record), "no table");
    }

    #[test]
    fn more_subdirectories_than_a_count_can_say() {
        let found = Image::plain().with_fs(|fs, findings| {
            let inodes = InodeTable::new(fs.geometry.inodes_count, fs.geometry.inodes_per_group);
            let mut facts = ChunkFacts::new(32);
            facts.record(1, InodeNo(special::ROOT), InodeFact::new(Kind::Directory, 0), 1);
            inodes.publish(0, facts);
            let adjustments = Adjustments::from([(InodeNo(special::ROOT), 66_000)]);
            let alone = (PoolConfig::of(1), &AtomicBool::new(false));
            assert_eq!(check(fs, (&inodes, 32), &adjustments, alone, findings), 0);
            findings.counts().into_keys().collect::<Vec<_>>()
        });
        assert_eq!(found, [problems::NLINK_FEATURE_MISSING.code]);
    }
}
