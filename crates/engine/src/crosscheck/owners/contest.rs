// SPDX-License-Identifier: MIT OR Apache-2.0
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

/// Contested units in a row, and one of their owners.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Share {
    /// The first unit.
    pub start: u64,
    /// How many.
    pub count: u64,
    /// The owner.
    pub owner: Owner,
}

impl Share {
    /// The unit behind the last one.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.count)
    }

    /// The part of it before `end`, if there is one.
    pub fn before(self, end: u64) -> Option<Share> {
        (self.start < end).then(|| Share { count: self.count.min(end - self.start), ..self })
    }
}

/// Contested units in ascending order, as many as there was room for, and who owns them.
#[derive(Clone, Debug, Default)]
pub struct Contest {
    /// The first unit.
    pub start: u64,
    /// The unit behind the last one that was looked at.
    pub end: u64,
    /// Units and the inodes that own them, sorted. An inode with two claims on a unit has two shares in it.
    pub shares: Vec<Share>,
    /// Owners of contested units behind the end that no inode's map knows of.
    pub extra: Vec<Pair>,
    /// Shares that may be held at a time.
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
        let mut coming = self.shares.iter().peekable();
        let units = claims.contested().ones_from(self.start).take_while(|unit| *unit < self.end);
        // The shares that reach the unit, by owner, and where the first of them ends.
        let (mut here, mut until): (Vec<Share>, u64) = (Vec::new(), u64::MAX);
        let mut owners = Vec::new();
        for unit in units {
            if unit >= until || coming.peek().is_some_and(|share| share.start <= unit) {
                while let Some(share) = coming.next_if(|share| share.start <= unit) {
                    here.push(*share);
                }
                here.retain(|share| share.end() > unit);
                here.sort_unstable_by_key(|share| share.owner);
                until = here.iter().map(Share::end).min().unwrap_or(u64::MAX);
            }
            owners.clear();
            if volume.is_static(unit) {
                owners.push(Owner::Metadata);
            }
            owners.extend(here.iter().map(|share| share.owner));
            visit(unit, &mut owners);
        }
    }
}
