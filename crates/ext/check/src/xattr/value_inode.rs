// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inodes that hold attribute values.
//!
//! Such an inode has the flag `EA_INODE`, no name, and stores hash and reference count of its value in fields that
//! are times elsewhere. Lustre's older scheme stored its one parent instead and counted nothing.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::Findings;
use fsmend_engine::problem::{Problem, Value};
use fsmend_ext_format::checksum;
use fsmend_ext_format::extent::{ExtentHeader, extents};
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode};
use fsmend_ext_format::xattr::{CharSign, Entry, VALUE_SIZE_MAX, ValueHolder};

use super::area::Owner;
use super::problems;
use super::value_mend::ValueMend;
use crate::Fs;

/// Bytes of a value that are read at most to find out its length: all that Linux lets a value have.
const READ_MAX: u32 = 1 << 16;

/// What a reference to a value inode is worth.
pub(super) enum Reference {
    /// It stays.
    Good {
        /// The inode lacks its flag and will get it.
        newly_flagged: bool,
        /// Bytes that the owner's `i_blocks` counts for the value.
        charged_bytes: u64,
        /// Length of the value, whatever the entry says.
        size: u32,
    },
    /// The entry has to go.
    Bad(Box<Problem>),
}

/// Inspects the reference of `entry` to a value inode. `has_read` is whether the value of another entry of its area was read already.
pub(super) fn inspect_reference(
    fs: &Fs<'_>,
    owner: Owner,
    entry: &Entry<'_>,
    has_read: &mut bool,
    findings: &mut Findings,
) -> Reference {
    let number = entry.value_inode;
    let bad = |problem| Reference::Bad(Box::new(problem));
    let Some(inode) = read_holder(fs, owner, number) else {
        return bad(owner.problem_with(&problems::VALUE_INODE, entry).stored(number));
    };
    let holder = ValueHolder::of(&inode);
    // A value lies in a regular file, or in what will be one again.
    let is_file = inode.i_mode.get() & mode::TYPE_MASK == mode::REGULAR;
    if !is_file && (std::mem::replace(has_read, true) || !holds_value(fs, &inode)) {
        return bad(owner.problem_with(&problems::VALUE_INODE, entry).stored(number));
    }
    let flagged = inode.has_flag(InodeFlags::EA_INODE);
    let expected = entry.hash_with_value_hash(holder.hash, CharSign::Unsigned);
    let matches =
        entry.hash == expected || entry.hash == entry.hash_with_value_hash(holder.hash, CharSign::Signed);
    let is_in_doubt = matches && inode.size() != u64::from(entry.value_size);
    let may_read = is_in_doubt && !std::mem::replace(has_read, *has_read || is_in_doubt);
    let right_size = if may_read { told_size(fs, &inode, holder.hash) } else { None };
    let size = right_size.unwrap_or(entry.value_size);
    if size == 0 || size > VALUE_SIZE_MAX {
        return bad(owner.problem_with(&problems::VALUE_SIZE, entry).stored(entry.value_size));
    }
    let old_scheme = holder.parent == owner.inode.0 && holder.parent_generation == owner.generation;
    if !matches && !old_scheme {
        return bad(if flagged {
            let stored = Value::Hex(u64::from(entry.hash));
            let observed = Value::Hex(u64::from(expected));
            owner.problem_with(&problems::HASH, entry).stored(stored).observed(observed)
        } else {
            owner.problem_with(&problems::VALUE_INODE_FOREIGN, entry).stored(number)
        });
    }
    if matches && inode.size() != u64::from(size) {
        let problem = owner.problem_with(&problems::VALUE_SIZE, entry).stored(entry.value_size);
        return bad(problem.observed(inode.size()));
    }
    if lacks_blocks(fs, &inode, size) {
        return bad(owner.problem_with(&problems::VALUE_INODE, entry).stored(number));
    }
    if let Some(size) = right_size {
        let problem = owner.problem_with(&problems::VALUE_SIZE_ASTRAY, entry).stored(entry.value_size);
        findings.raise(problem.observed(size));
    }
    raise_mendable(fs, owner, entry, flagged, findings);
    let charged_bytes = if matches { in_clusters(fs, size) } else { 0 };
    Reference::Good { newly_flagged: !flagged, charged_bytes, size }
}

/// Whether blocks of the value are missing from a map that has no blocks of its own: the kernel reads no value with holes.
fn lacks_blocks(fs: &Fs<'_>, inode: &RawInode, size: u32) -> bool {
    let header = ExtentHeader::parse(&inode.i_block).filter(|header| header.depth == 0);
    let Some(header) = header.filter(|_| inode.has_flag(InodeFlags::EXTENTS)) else { return false };
    let is_possible = |block: u64| fs.is_valid_block(BlockNo(block));
    let mapped: u64 = extents(&inode.i_block, &header)
        .filter(|extent| is_possible(extent.physical) && is_possible(extent.physical_end().saturating_sub(1)))
        .map(|extent| u64::from(extent.count))
        .sum();
    mapped < u64::from(size).div_ceil(u64::from(fs.geometry.block_size))
}

/// Whether what `inode` holds has the hash that it stores, so that it is the value of an attribute.
pub(crate) fn holds_value(fs: &Fs<'_>, inode: &RawInode) -> bool {
    let is_possible = fs.geometry.features.has_incompat(Incompat::EA_INODE);
    is_possible && told_size(fs, inode, ValueHolder::of(inode).hash).is_some()
}

/// The length of the inode that holds a value, if so many bytes of it have the hash that it stores. Only an inode whose map has no blocks of
/// its own is looked at: nearly all values have such a one.
fn told_size(fs: &Fs<'_>, inode: &RawInode, hash: u32) -> Option<u32> {
    let size = u32::try_from(inode.size()).ok().filter(|size| (1..=READ_MAX).contains(size))?;
    if !inode.has_flag(InodeFlags::EXTENTS) {
        return None;
    }
    let header = ExtentHeader::parse(&inode.i_block).filter(|header| header.depth == 0)?;
    let (mut left, mut next, mut crc) = (size as usize, 0, fs.geometry.checksum_seed);
    for extent in extents(&inode.i_block, &header) {
        if u64::from(extent.logical) != next || extent.unwritten {
            return None;
        }
        for block in (extent.physical..extent.physical_end()).map(BlockNo) {
            if left == 0 {
                break;
            }
            let bytes = fs.is_valid_block(block).then(|| fs.read_block(block).ok()).flatten()?;
            let len = left.min(bytes.len());
            crc = checksum::crc32c(crc, bytes.get(..len)?);
            (left, next) = (left - len, next + 1);
        }
    }
    (left == 0 && crc == hash).then_some(size)
}

/// Reads inode `number`; `None` when it cannot hold a value of `owner`, or nothing is known of it.
fn read_holder(fs: &Fs<'_>, owner: Owner, number: u32) -> Option<RawInode> {
    if number < fs.geometry.first_inode || number == owner.inode.0 {
        return None;
    }
    let record = fs.read_inode(InodeNo(number))?.ok()?;
    let inode = RawInode::from_record(&record);
    (inode.i_links_count.get() != 0 || inode.i_mode.get() != 0).then_some(inode)
}

/// Raises what a repair mends without touching the entry.
fn raise_mendable(fs: &Fs<'_>, owner: Owner, entry: &Entry<'_>, flagged: bool, findings: &mut Findings) {
    if !fs.geometry.features.has_incompat(Incompat::EA_INODE) {
        let problem = owner.problem_with(&problems::VALUE_INODE_FEATURE, entry);
        findings.raise(problem.stored(entry.value_inode));
    }
    if !flagged {
        let problem = owner.problem_with(&problems::VALUE_INODE_UNFLAGGED, entry);
        findings.raise(problem.stored(entry.value_inode));
    }
}

fn in_clusters(fs: &Fs<'_>, size: u32) -> u64 {
    let cluster = u64::from(fs.geometry.cluster_blocks) * u64::from(fs.geometry.block_size);
    u64::from(size).div_ceil(cluster.max(1)).saturating_mul(cluster)
}

/// Judges all inodes flagged `EA_INODE` after every inode has been inspected. `flagged` yields each of them as it
/// will be after repair, `references` the number of entries that refer to it. Returns what has to change. Those that no attribute
/// refers to are ordinary files whose flag is spurious, and need a name like any other file. All others need no name, and
/// their link count is 1.
pub fn check_value_inodes(
    flagged: impl IntoIterator<Item = (InodeNo, RawInode)>,
    references: impl Fn(InodeNo) -> u64,
    findings: &mut Findings,
) -> Vec<(InodeNo, ValueMend)> {
    let mut mends = Vec::new();
    for (ino, inode) in flagged {
        let holder = ValueHolder::of(&inode);
        let observed = references(ino);
        if observed == 0 {
            findings.raise(Problem::new(&problems::VALUE_INODE_SPURIOUS).inode(ino));
            mends.push((ino, ValueMend::Unflag));
            continue;
        }
        if observed != holder.references && !holder.uncounted {
            let problem = Problem::new(&problems::VALUE_INODE_REFERENCES).inode(ino);
            findings.raise(problem.stored(holder.references).observed(observed));
            mends.push((ino, ValueMend::References(observed)));
        }
        if inode.i_links_count.get() != 1 {
            findings.raise(
                Problem::new(&problems::VALUE_INODE_LINKS).inode(ino).stored(inode.i_links_count.get()),
            );
            mends.push((ino, ValueMend::Link));
        }
    }
    mends
}
