// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast path of inodes: a record of an ordinary shape is looked at where it stands, and nothing is allocated for it.
//!
//! Invariant: the judgement finds nothing wrong with a record that is cleared here, and says the same of it. What is not cleared goes to the judgement.

use std::cell::RefCell;

use fsmend_base::{InodeNo, width};
use fsmend_device::Request;
use fsmend_engine::checker::{Checkable, Contents, InodeSummary};
use fsmend_engine::inodes::Kind;
use fsmend_hybridfs_format::{Format, InodeView, RECORD_LEN, Record, SLOT_ATTRIBUTES, parse_attributes};

use crate::HybridFs;
use crate::inode::{SLOTS_MAX, block_with, goes_with, kind_of, marks_of};
use crate::log::{Fault, is_data};

/// Blocks of a file are counted below this.
const BLOCKS_END: u64 = 1 << 50;

thread_local! {
    /// What an inode leads to, one object after the other.
    static OBJECT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What the fast path says of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is in order, and its facts are noted.
    Clean,
    /// It takes the judgement to tell.
    Unusual,
    /// Something that it leads to cannot be read, or not yet: it is not in order.
    Unread,
}

/// Looks at the record of an inode. If `defers`, small contents and blocks of directories in the right places are reported to the caller, not read.
pub(crate) fn look(
    fs: &HybridFs<'_>,
    number: InodeNo,
    bytes: &[u8],
    summary: &mut InodeSummary,
    defers: bool,
) -> Verdict {
    let (block, at) = fs.state.split(number.0);
    let Some((place, block)) = fs.state.block(block) else { return Verdict::Unusual };
    let known_at = fs.state.facts_place(place, at);
    (summary.kind, summary.links, summary.contents) = (None, 0, None);
    summary.has_unread_blocks = false;
    summary.units.clear();
    if !block.is_live(at) {
        if bytes.iter().any(|byte| *byte != 0) {
            return Verdict::Unusual;
        }
        fs.state.bear_out(place);
        fs.state.facts.note(known_at, 0, 0);
        return Verdict::Clean;
    }
    let Ok(inode) = InodeView::parse(bytes, u64::from(number.0), fs.state.seed) else {
        return Verdict::Unusual;
    };
    let is_plain = number.0 > 1
        && inode.birth() == block.record.birth
        && inode.links() != 0
        && !block.is_orphan(at)
        && has_plain_attributes(&inode)
        && !(inode.format == Format::Map && fs.state.shared_maps.contains(number));
    let kind = kind_of(inode.mode()).filter(|kind| is_plain && goes_with(*kind, inode.format));
    let Some(kind) = kind else { return Verdict::Unusual };
    let verdict = match (inode.format, kind) {
        (Format::Inline, Kind::Directory) | (Format::Nothing, _) => Verdict::Clean,
        (Format::Inline, _) => clean_if(inode.used() == 0),
        (Format::Small, _) => small(fs, &inode, summary, defers),
        (Format::Map, Kind::Directory) => {
            if defers {
                unread_directory(fs, &inode, summary)
            } else {
                OBJECT.with_borrow_mut(|object| directory(fs, &inode, summary, object))
            }
        }
        (Format::Map, _) => clean_if(file(fs, &inode, summary)),
    };
    if verdict == Verdict::Clean {
        fs.state.bear_out(place);
        summary.kind = Some(kind);
        summary.links = u16::try_from(inode.links()).unwrap_or(u16::MAX);
        fs.state.facts.note(known_at, inode.generation(), marks_of(inode.links(), Some(kind)));
    }
    verdict
}

fn clean_if(is_clean: bool) -> Verdict {
    if is_clean { Verdict::Clean } else { Verdict::Unusual }
}

fn has_plain_attributes(inode: &InodeView<'_>) -> bool {
    match inode.attribute_slots() {
        0 => true,
        SLOT_ATTRIBUTES => false,
        slots => slots <= SLOTS_MAX && parse_attributes(inode.attribute_room()).is_ok(),
    }
}

fn small(fs: &HybridFs<'_>, inode: &InodeView<'_>, summary: &mut InodeSummary, defers: bool) -> Verdict {
    let (log, record) = (fs.log(), Record::parse(inode.room()));
    let (place, units) = (record.place, u64::from(record.place.len));
    let len = u32::from(place.len).checked_mul(log.sb.fragment_size).filter(|_| log.has(place));
    let Some(len) = len.filter(|len| inode.size() <= u64::from(*len) && inode.used() == units) else {
        return Verdict::Unusual;
    };
    let Ok(checksum) = u32::try_from(record.aux) else { return Verdict::Unusual };
    let contents = Contents {
        place: Request { offset: log.offset(place.address), len },
        // No more than the length.
        size: width::low_u32(inode.size()),
        checksum,
        units: (place.address, units),
    };
    if defers {
        summary.contents = Some(contents);
        return Verdict::Clean;
    }
    summary.units.push(contents.units);
    OBJECT.with_borrow_mut(|object| match log.object_in(place, object) {
        Ok(()) => clean_if(fs.has_checksum(&contents, object)),
        Err(_) => Verdict::Unread,
    })
}

/// The records of a map that has no nodes, if they are in order.
pub(crate) fn records<'b>(inode: &InodeView<'b>) -> Option<impl Iterator<Item = Record> + Clone + use<'b>> {
    let room = inode.room();
    let records =
        room.get(..usize::from(inode.count()) * RECORD_LEN)?.chunks_exact(RECORD_LEN).map(Record::parse);
    let is_flat = inode.height() == 0 && usize::from(inode.count()) <= fsmend_hybridfs_format::IN_INODE;
    (is_flat && records.clone().is_sorted_by(|one, next| one.key < next.key)).then_some(records)
}

/// The places of the blocks of a directory, which are left to the fast path of its entries.
fn unread_directory(fs: &HybridFs<'_>, inode: &InodeView<'_>, summary: &mut InodeSummary) -> Verdict {
    let Some(records) = records(inode) else { return Verdict::Unusual };
    let log = fs.log();
    for record in records {
        if !log.has(record.place) {
            return Verdict::Unusual;
        }
        summary.units.push((record.place.address, record.place.len.into()));
    }
    summary.has_unread_blocks = true;
    Verdict::Clean
}

fn directory(
    fs: &HybridFs<'_>,
    inode: &InodeView<'_>,
    summary: &mut InodeSummary,
    object: &mut Vec<u8>,
) -> Verdict {
    let Some(records) = records(inode) else { return Verdict::Unusual };
    let (log, of) = (fs.log(), (inode.number(), inode.generation()));
    let mut verdict = Verdict::Clean;
    for record in records {
        match log.headed_in(record.place, &block_with(of, &record), object) {
            Ok(_) => summary.units.push((record.place.address, record.place.len.into())),
            // The others are asked for at the same time.
            Err(Fault::Unreadable) => verdict = Verdict::Unread,
            Err(_) => return Verdict::Unusual,
        }
    }
    verdict
}

fn file(fs: &HybridFs<'_>, inode: &InodeView<'_>, summary: &mut InodeSummary) -> bool {
    let Some(records) = records(inode) else { return false };
    let (sb, mut blocks, mut end) = (fs.sb(), 0, 0);
    for record in records {
        let len = u64::from(record.place.len);
        let behind = record.key.checked_add(len).filter(|behind| *behind <= BLOCKS_END);
        let Some(behind) = behind.filter(|_| record.key >= end && is_data(sb, record.place)) else {
            return false;
        };
        (blocks, end) = (blocks + len, behind);
        summary.units.push((record.place.address, len * sb.per_block()));
    }
    inode.used() == blocks * sb.per_block() && end <= inode.size().div_ceil(u64::from(sb.block_size))
}
