// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walking maps: every node has to prove itself, and what hangs on one that cannot is reported with the keys that it had.

use fsmend_base::width;
use fsmend_hybridfs_format::{Kind, Map, Place, Record, parse_node};

use crate::log::{Expected, Fault, Log};

/// What the leaves of a map lead to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaves {
    Extents,
    Directories,
    Inodes,
    Bitmaps,
}

/// Whose map it is.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub leaves: Leaves,
    pub owner: u64,
    pub generation: u32,
}

/// What is wrong with a map.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flaw {
    /// A node is lost, and all keys from its own to `end` with it.
    Node { record: Record, end: u64, fault: Fault },
    /// A record says of its node what the node does not bear out.
    Sum { place: Place, stored: u64, observed: u64 },
}

/// What a walk finds.
#[derive(Default)]
pub(crate) struct Walked {
    /// Leaves, each with the first key that is not its own any more.
    pub leaves: Vec<(Record, u64)>,
    /// Places of the nodes.
    pub nodes: Vec<Place>,
    pub flaws: Vec<Flaw>,
    /// The records in the inode cannot be used.
    pub is_broken: bool,
}

/// Walks a map from its roots on.
pub(crate) fn walk(log: &Log<'_>, of: Owner, map: &Map) -> Walked {
    let mut leaves = Vec::new();
    let walked = visit(log, of, map, &mut |record, end| leaves.push((record, end)));
    Walked { leaves, ..walked }
}

/// The same, but leaves are shown to `leaf`, not kept.
pub(crate) fn visit(log: &Log<'_>, of: Owner, map: &Map, leaf: &mut dyn FnMut(Record, u64)) -> Walked {
    let mut walk = Walk { log, of, leaf, walked: Walked::default(), buffer: Vec::new() };
    walk.level((&map.records, map.height), u64::MAX);
    walk.walked
}

/// A walk that is under way.
struct Walk<'a> {
    log: &'a Log<'a>,
    of: Owner,
    leaf: &'a mut dyn FnMut(Record, u64),
    walked: Walked,
    buffer: Vec<u8>,
}

impl Walk<'_> {
    fn level(&mut self, (records, height): (&[Record], u8), end: u64) {
        for (at, record) in records.iter().enumerate() {
            let end = records.get(at + 1).map_or(end, |next| next.key);
            if height == 0 {
                (self.leaf)(*record, end);
                continue;
            }
            match node(self.log, self.of, (record, height), end, &mut self.buffer) {
                Ok(below) => {
                    self.walked.nodes.push(record.place);
                    let (place, stored) = (record.place, record.aux);
                    let observed = sum(self.of.leaves, height, &below);
                    if observed != stored {
                        self.walked.flaws.push(Flaw::Sum { place, stored, observed });
                    }
                    self.level((&below, height - 1), end);
                }
                Err(fault) => self.walked.flaws.push(Flaw::Node { record: *record, end, fault }),
            }
        }
    }
}

fn node(
    log: &Log<'_>,
    of: Owner,
    (record, height): (&Record, u8),
    end: u64,
    buffer: &mut Vec<u8>,
) -> Result<Vec<Record>, Fault> {
    let expected = Expected {
        kind: Kind::Node,
        level: height,
        owner: of.owner,
        generation: of.generation,
        key: record.key,
        birth: record.birth,
    };
    let (header, bytes) = log.headed_at(record.place, &expected, buffer)?;
    let records = parse_node(bytes, header.count).map_err(Fault::Wrong)?;
    let is_first = records.first().is_some_and(|first| first.key == record.key);
    let is_last = records.last().is_some_and(|last| last.key < end);
    if is_first && is_last { Ok(records) } else { Err(Fault::Other) }
}

/// What a record says of a node at `level` with these records.
pub(crate) fn sum(leaves: Leaves, level: u8, records: &[Record]) -> u64 {
    let one = |record: &Record| match (leaves, level) {
        (Leaves::Extents, 1) => u64::from(record.place.len),
        (Leaves::Inodes, 1) => {
            let (live, orphans) = (width::low_u32(record.aux), width::low_u32(record.aux >> 32));
            u64::from(live.count_ones()) | u64::from(orphans.count_ones()) << 32
        }
        _ => record.aux,
    };
    records.iter().map(one).fold(0, u64::wrapping_add)
}
