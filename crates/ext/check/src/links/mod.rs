//! Stored link counts against the names that were found: what e2fsck calls pass 4.

pub mod problems;
pub(crate) mod repair;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use fsmend_base::InodeNo;
use fsmend_engine::inodes::{InodeFact, InodeTable, Kind, mark};
use fsmend_engine::pool::{self, PoolConfig, Stage};
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::extent::ExtentHeader;
use fsmend_ext_format::features::ro_compat;
use fsmend_ext_format::inode::{RawInode, flags, mode, special};
use fsmend_ext_format::xattr::Area;

use crate::Fs;

/// The largest link count that an inode may store.
const LINKS_MAX: u32 = 65_000;

/// Changes to the numbers of names by repairs of the tree, e.g. a directory that is reconnected to lost+found.
pub type Adjustments = BTreeMap<InodeNo, i64>;

/// Chunks of inodes that one worker compares in one go.
const CHUNKS_PER_SLICE: usize = 4;
/// One more worker for so many inodes: to start one takes about as long as to compare them.
const INODES_PER_WORKER: u64 = 1 << 16;

/// A count that is not the number of names: inode, fact, stored and observed count.
type Wrong = (InodeNo, InodeFact, u16, u64);

/// Compares the counts of all inodes in use, with this pool. Returns how many inodes without a name have to go to
/// lost+found.
pub fn check(
    fs: &Fs<'_>,
    inodes: &InodeTable,
    adjustments: &Adjustments,
    (pool, cancel): (PoolConfig<'_>, &AtomicBool),
    findings: &mut Findings,
) -> u64 {
    let chunks: Vec<u32> = (0..inodes.chunk_count()).collect();
    let compare_chunk = |wrong: &mut Vec<Wrong>, chunk: u32| {
        let compare_one = |inode, fact: InodeFact, stored: u16, observed: u32| {
            let change = adjustments.get(&inode).copied().unwrap_or(0);
            let observed = (i64::from(observed) + change).max(0) as u64;
            if fact.kind() != Kind::Unused && u64::from(stored) != observed && has_names(fs, inode, fact) {
                wrong.push((inode, fact, stored, observed));
            }
        };
        match adjustments.is_empty() {
            true => inodes.visit_unequal(chunk, compare_one),
            false => inodes.visit_chunk(chunk, compare_one),
        }
    };
    let scanned: u64 = fs.groups.iter().map(|group| u64::from(group.scan_inodes)).sum();
    let lists = pool::run_slices(
        pool.for_work((1 + scanned / INODES_PER_WORKER) as usize),
        &[Stage { name: "links", pass: 0 }],
        &chunks,
        CHUNKS_PER_SLICE,
        cancel,
        |_worker| Vec::new(),
        |wrong, part| part.iter().for_each(|chunk| compare_chunk(wrong, *chunk)),
    );
    let mut wrong = lists.concat();
    wrong.sort_unstable_by_key(|(inode, ..)| *inode);
    let mut unattached = 0;
    for (inode, fact, stored, observed) in wrong {
        unattached += u64::from(compare(fs, inode, fact, stored, observed, findings));
    }
    unattached
}

/// Whether names are expected to lead to the inode at all.
pub(crate) fn has_names(fs: &Fs<'_>, inode: InodeNo, fact: InodeFact) -> bool {
    let reserved = inode.0 < fs.geometry.first_inode && inode.0 != special::ROOT;
    !reserved && fact.0 & (mark::RESERVED | mark::VALUE_HOLDER) == 0
}

/// Raises what is wrong with one count; returns whether the inode has to be attached.
fn compare(
    fs: &Fs<'_>,
    inode: InodeNo,
    fact: InodeFact,
    stored: u16,
    mut observed: u64,
    findings: &mut Findings,
) -> bool {
    let mut attach = false;
    let record = fs.read_inode(inode).and_then(Result::ok).unwrap_or_default();
    let raw = RawInode::from_record(&record);
    if observed == 0 && inode.0 != special::ROOT && fact.kind() != Kind::Directory {
        if is_empty(&record) {
            findings.raise(Problem::new(&problems::UNATTACHED_EMPTY).inode(inode));
            return false;
        }
        findings.raise(Problem::new(&problems::UNATTACHED).inode(inode));
        attach = true;
        observed = 1;
    }
    if fact.kind() == Kind::Directory && observed > u64::from(LINKS_MAX) {
        if !fs.geometry.features.has_ro_compat(ro_compat::DIR_NLINK) {
            findings.raise(Problem::new(&problems::NLINK_FEATURE_MISSING).inode(inode).observed(observed));
        }
        observed = 1;
    }
    if u64::from(stored) != observed {
        let saturated =
            fact.kind() == Kind::Directory && stored == 1 && observed > 1 && raw.has_flag(flags::INDEX);
        let row = if saturated { &problems::SATURATED_WITHOUT_NEED } else { &problems::MISMATCH };
        findings.raise(Problem::new(row).inode(inode).stored(stored).observed(observed));
    }
    attach
}

/// Nothing that could be kept: a file without size, blocks, inline data and attributes, and without a pointer that would lead to any. (Of a
/// device, a pipe or a socket, what it is is all that it ever held.)
pub(crate) fn is_empty(record: &[u8]) -> bool {
    let raw = RawInode::from_record(record);
    raw.file_type() == mode::REGULAR
        && raw.size() == 0
        && raw.i_blocks_lo.get() == 0
        && raw.i_blocks_high.get() == 0
        && !raw.has_flag(flags::INLINE_DATA)
        && leads_nowhere(&raw)
        && !has_attributes(record)
}

/// Whether attributes stand in the inode, among them access lists. Those in a block of their own count as space.
fn has_attributes(record: &[u8]) -> bool {
    Area::of_inode(record).is_some_and(|area| area.entries().any(|entry| entry.is_ok()))
}

/// Whether a map holds no entry. One that holds some, of a file that is empty by its size and its space, is damaged: what it was nobody knows, and it
/// is not for a repair to throw it away.
fn leads_nowhere(raw: &RawInode) -> bool {
    if raw.has_flag(flags::EXTENTS) {
        return ExtentHeader::parse(&raw.i_block).is_none_or(|root| root.entries == 0);
    }
    raw.i_block.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::testing::Image;
    use fsmend_engine::inodes::ChunkFacts;

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
        let of = |flags: u32, block: &[u8]| {
            let mut raw = RawInode::from_record(&[]);
            raw.i_mode.set(mode::REGULAR | 0o644);
            raw.i_flags.set(flags);
            raw.i_block[..block.len()].copy_from_slice(block);
            let mut record = vec![0; 256];
            raw.store(&mut record);
            record
        };
        let root = |entries| [0x0A, 0xF3, entries, 0, 4, 0, 0, 0, 0, 0, 0, 0];
        assert!(is_empty(&of(0, &[])));
        assert!(is_empty(&of(flags::EXTENTS, &root(0))));
        assert!(!is_empty(&of(0, &[7])), "a pointer");
        assert!(!is_empty(&of(flags::EXTENTS, &root(1))), "an extent");
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
            assert_eq!(check(fs, &inodes, &adjustments, alone, findings), 0);
            findings.counts().into_keys().collect::<Vec<_>>()
        });
        assert_eq!(found, [problems::NLINK_FEATURE_MISSING.code]);
    }
}
