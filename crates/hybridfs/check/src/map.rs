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
    let mut walked = Walked::default();
    level(log, of, (&map.records, map.height), u64::MAX, &mut walked);
    walked
}

fn level(log: &Log<'_>, of: Owner, (records, height): (&[Record], u8), end: u64, walked: &mut Walked) {
    for (at, record) in records.iter().enumerate() {
        let end = records.get(at + 1).map_or(end, |next| next.key);
        if height == 0 {
            walked.leaves.push((*record, end));
            continue;
        }
        match node(log, of, (record, height), end) {
            Ok(below) => {
                walked.nodes.push(record.place);
                let observed = sum(of.leaves, height, &below);
                if observed != record.aux {
                    walked.flaws.push(Flaw::Sum { place: record.place, stored: record.aux, observed });
                }
                level(log, of, (&below, height - 1), end, walked);
            }
            Err(fault) => walked.flaws.push(Flaw::Node { record: *record, end, fault }),
        }
    }
}

fn node(log: &Log<'_>, of: Owner, (record, height): (&Record, u8), end: u64) -> Result<Vec<Record>, Fault> {
    let expected = Expected {
        kind: Kind::Node,
        level: height,
        owner: of.owner,
        generation: of.generation,
        key: record.key,
        birth: record.birth,
    };
    let (header, bytes) = log.headed(record.place, &expected)?;
    let records = parse_node(&bytes, header.count).map_err(Fault::Wrong)?;
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
