// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a repair puts in place: bytes at offsets, gathered by the same walk that finds the problems. Each edit knows the problems that it mends, so that a
//! repair without some of them is a filter ([`without`](crate::repair::without)).

use std::sync::Arc;

use fsmend_base::{GroupNo, InodeNo};

use crate::budget::growing;
use crate::problem::{Key, Problem};

/// What the allocator takes for the bytes of an edit beside them.
const ALLOCATION_BYTES: u64 = 16;

/// Which edits win where several touch the same bytes: those of a higher layer are laid over those of a lower one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Layer {
    /// A record as its own inspection mended it.
    Record,
    /// A block that belongs to a record.
    Block,
    /// Contents that were judged with the facts of all records at hand (directories).
    Contents,
    /// Amendments by cross-checks.
    Amendment,
}

/// What bytes of a repair are for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// These problems; with none of them, what follows from something that is wrong elsewhere.
    Problems(Arc<[Key]>),
    /// Whatever is wrong with this part of the file system.
    Part(Part),
}

/// A part of a file system that problems are about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// An inode.
    Inode(InodeNo),
    /// A group, but none of its inodes.
    Group(GroupNo),
    /// What no inode and no group has for itself.
    FileSystem,
}

impl Part {
    /// The part that `problem` is about.
    pub fn of(problem: &Problem) -> Part {
        match (problem.object.inode, problem.object.group) {
            (Some(inode), _) => Part::Inode(inode),
            (None, Some(group)) => Part::Group(group),
            (None, None) => Part::FileSystem,
        }
    }
}

impl Cause {
    /// Whether `problem` is one of what the bytes are for.
    pub fn is(&self, problem: &Problem) -> bool {
        match self {
            Cause::Problems(keys) => keys.contains(&problem.key()),
            Cause::Part(part) => *part == Part::of(problem),
        }
    }

    /// Memory behind it.
    fn bytes(&self) -> u64 {
        match self {
            Cause::Problems(keys) => size_of_val::<[Key]>(keys) as u64,
            Cause::Part(_) => 0,
        }
    }
}

/// Bytes that a repair writes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Edit {
    /// See [`Layer`].
    pub layer: Layer,
    /// Byte offset on the device.
    pub offset: u64,
    /// The bytes.
    pub bytes: Box<[u8]>,
    /// What is mended by them.
    pub mends: Cause,
}

/// A growing list of edits, private to one worker until it is merged. In a check nothing is gathered.
#[derive(Debug, Default)]
pub struct Edits {
    list: Option<Vec<Edit>>,
    /// Bytes of all of them.
    bytes: u64,
}

impl Edits {
    /// A list that gathers, if `wanted`.
    pub fn gathering(wanted: bool) -> Self {
        Edits { list: wanted.then(Vec::new), bytes: 0 }
    }

    /// Whether edits are gathered.
    pub fn is_gathering(&self) -> bool {
        self.list.is_some()
    }

    /// Adds an edit, where edits are gathered.
    pub fn add(&mut self, layer: Layer, offset: u64, bytes: &[u8], mends: impl FnOnce() -> Cause) {
        if let Some(list) = &mut self.list {
            let mends = mends();
            self.bytes += bytes.len() as u64 + mends.bytes();
            list.push(Edit { layer, offset, bytes: bytes.into(), mends });
        }
    }

    /// Adds all of `other`, where edits are gathered.
    pub fn merge(&mut self, other: Edits) {
        if let (Some(list), Some(others)) = (&mut self.list, other.list) {
            list.extend(others);
            self.bytes += other.bytes;
        }
    }

    /// Memory that the list holds, while it grows, and what the bytes in it take.
    pub fn bytes_held(&self) -> (u64, u64) {
        self.list.as_ref().map_or((0, 0), |list| {
            (growing::<Edit>(list.len()), self.bytes + list.len() as u64 * ALLOCATION_BYTES)
        })
    }

    /// Takes the edits out in the order in which they have to be laid down: an order that does not depend on who found what.
    pub fn take_sorted(&mut self) -> Vec<Edit> {
        self.bytes = 0;
        let mut edits = self.list.as_mut().map(std::mem::take).unwrap_or_default();
        edits.sort();
        edits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause() -> Cause {
        Cause::Part(Part::FileSystem)
    }

    #[test]
    fn the_order_is_by_layer_and_place() {
        let mut edits = Edits::gathering(true);
        edits.add(Layer::Contents, 5, b"c", cause);
        let mut others = Edits::gathering(true);
        others.add(Layer::Record, 9, b"b", cause);
        others.add(Layer::Record, 7, b"a", cause);
        edits.merge(others);
        assert!(edits.bytes_held() >= (3 * size_of::<Edit>() as u64, 3));
        let places: Vec<u64> = edits.take_sorted().iter().map(|edit| edit.offset).collect();
        assert_eq!(places, [7, 9, 5]);
        assert!(edits.take_sorted().is_empty() && edits.is_gathering());
    }

    #[test]
    fn a_check_gathers_nothing() {
        let mut edits = Edits::default();
        edits.add(Layer::Record, 9, b"b", cause);
        assert!(edits.take_sorted().is_empty());
    }
}
