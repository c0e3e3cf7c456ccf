//! Contested units and who owns them.

use fsmend_base::InodeNo;

use crate::claims::Claims;
use crate::format::Volume;

/// An owner of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Owner {
    /// The file system's own static structures.
    Metadata,
    /// An inode, by its map or its attribute block.
    Inode(InodeNo),
}

/// A unit, and one of its owners.
pub type Pair = (u64, Owner);

/// Contested units in ascending order, as many as there was room for, and who owns them.
#[derive(Clone, Debug, Default)]
pub struct Contest {
    /// The first unit.
    pub start: u64,
    /// The unit behind the last one that was looked at.
    pub end: u64,
    /// Units and the inodes that own them, sorted. An inode with two claims on a unit stands there twice.
    pub pairs: Vec<Pair>,
    /// Owners of contested units behind the end that no inode's map knows of.
    pub extra: Vec<Pair>,
    /// Owners that may be held at a time.
    pub room: usize,
}

impl Contest {
    /// Calls `visit` for every contested unit with its owners, in ascending order; an owner with two claims on it stands there twice.
    pub fn visit_owners(
        &self,
        volume: &impl Volume,
        claims: &Claims,
        mut visit: impl FnMut(u64, &mut Vec<Owner>),
    ) {
        let mut pairs = self.pairs.iter().peekable();
        let units = claims.contested().ones_from(self.start).take_while(|unit| *unit < self.end);
        let mut owners = Vec::new();
        for unit in units {
            owners.clear();
            if volume.is_static(unit) {
                owners.push(Owner::Metadata);
            }
            while pairs.next_if(|(other, _)| *other < unit).is_some() {}
            while let Some((_, owner)) = pairs.next_if(|(other, _)| *other == unit) {
                owners.push(*owner);
            }
            visit(unit, &mut owners);
        }
    }
}
