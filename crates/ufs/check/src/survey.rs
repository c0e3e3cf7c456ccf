// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two walks over the map of an inode under inspection: one that looks at every pointer, one that claims what is left once the size is settled.

use fsmend_ufs_format::geometry::{DIRECT, Geometry};

use crate::blocks::{Next, Pointer, Role, Slot, Visit, is_mark};

/// What all pointers of a map are like.
pub(crate) struct Survey {
    pub geometry: Geometry,
    pub is_snapshot: bool,
    /// Fragments of good pointers within the size.
    pub fragments: u64,
    /// The last block of the file that is there, within the size.
    pub last: Option<u64>,
    /// The last block of the file, if it begins so far behind the start of a block that it cannot be a whole one: then it is the last one.
    pub tail: Option<Pointer>,
    /// Whether more is claimed than there is room for on the file system.
    pub is_full: bool,
    /// Pointers within the size that cannot be right.
    pub bad: Vec<Pointer>,
    /// Good ones behind it.
    pub strays: Vec<Pointer>,
    /// Indirect blocks that cannot be read.
    pub unreadable: Vec<Pointer>,
}

impl Survey {
    /// Where a file that ends with its last block ends.
    pub fn end(&self, last: u64) -> u64 {
        let fragments = self.tail.map_or(self.geometry.fragments, |tail| tail.count);
        last * self.geometry.block_size + fragments * self.geometry.fragment_size
    }

    /// Whether all pointers make sense, and none is behind the size.
    pub fn is_sound(&self) -> bool {
        !self.is_full && self.bad.is_empty() && self.strays.is_empty() && self.unreadable.is_empty()
    }

    /// The tail is not the last block: its pointer cannot be right.
    fn drop_tail(&mut self) {
        if let Some(tail) = self.tail.take() {
            self.fragments -= tail.count;
            self.bad.push(tail);
        }
    }
}

impl Visit for Survey {
    fn pointer(&mut self, pointer: Pointer, is_within: bool) -> Next {
        let Pointer { role, fragment, count, .. } = pointer;
        if is_mark(self.is_snapshot, fragment) {
            if let (Role::Data(index), true) = (role, is_within) {
                self.last = Some(index);
            }
            return Next::Over;
        }
        let is_good = self.geometry.may_be_data(fragment, count);
        if !is_within {
            if is_good {
                self.strays.push(pointer);
            }
            return Next::Over;
        }
        self.drop_tail();
        if !is_good {
            let room = self.geometry.fragments - fragment % self.geometry.fragments;
            let may_end = matches!(role, Role::Data(index) if index < DIRECT) && room < count;
            if may_end && self.geometry.may_be_data(fragment, room) {
                self.tail = Some(Pointer { count: room, ..pointer });
                self.fragments += room;
                if let Role::Data(index) = role {
                    self.last = Some(index);
                }
                return Next::Over;
            }
            self.bad.push(pointer);
            return Next::Over;
        }
        self.fragments += count;
        if self.fragments > self.geometry.size {
            self.is_full = true;
            return Next::Stop;
        }
        match role {
            Role::Data(index) => self.last = Some(index),
            Role::Indirect(..) => self.unreadable.push(pointer),
        }
        Next::Into
    }

    fn met_again(&mut self, pointer: Pointer) -> Next {
        self.drop_tail();
        self.bad.push(pointer);
        Next::Over
    }

    fn block(&mut self, bytes: Option<&[u8]>) {
        // It was noted before it was read.
        if bytes.is_some() {
            self.unreadable.pop();
        } else {
            self.fragments = self.fragments.saturating_sub(self.geometry.fragments);
        }
    }
}

/// Claims what is left once the size is settled.
pub(crate) struct Settle {
    pub geometry: Geometry,
    pub is_snapshot: bool,
    pub gone: Vec<Slot>,
    pub strays: Vec<Slot>,
    pub units: Vec<(u64, u64)>,
    pub fragments: u64,
}

impl Visit for Settle {
    fn pointer(&mut self, pointer: Pointer, is_within: bool) -> Next {
        let Pointer { fragment, count, slot, .. } = pointer;
        if !is_within {
            self.strays.push(slot);
            return Next::Over;
        }
        if is_mark(self.is_snapshot, fragment) || self.gone.contains(&slot) {
            return Next::Over;
        }
        if !self.geometry.may_be_data(fragment, count) {
            return Next::Over;
        }
        if self.fragments + count > self.geometry.size {
            self.strays.push(slot);
            return Next::Over;
        }
        self.fragments += count;
        self.units.push((fragment, count));
        Next::Into
    }
}
