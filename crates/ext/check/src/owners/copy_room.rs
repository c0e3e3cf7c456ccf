// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all inodes that move out of contested units share: how much room there is, and what was read last.

use std::collections::BTreeMap;

use fsmend_base::BlockNo;

use crate::repair::RepairContext;

/// So many bytes of what was there before are read in one go, at most.
const AHEAD_BYTES: usize = 64 << 10;

/// What all that move share.
pub(super) struct CopyRoom {
    /// New places of attribute blocks; 0 for those that are gone.
    pub attributes: BTreeMap<u64, u64>,
    /// Units that copies may still take.
    pub room: u64,
    /// Free units that no copy takes: a repair cannot do without.
    pub reserve: u64,
    /// Whether there will be no room for copies of all that is contested.
    pub is_short: bool,
    /// What was read last of contested blocks in a row.
    pub ahead: Ahead,
}

/// With less room than this, what the maps of copies have taken is counted, too.
const SCANT_UNITS: u64 = 1 << 14;

impl CopyRoom {
    /// Room for copies on a file system with so many units to keep free.
    pub fn new(context: &RepairContext<'_>, reserve: u64) -> Self {
        let room = context.free_units().saturating_sub(reserve);
        CopyRoom { attributes: BTreeMap::new(), room, reserve, is_short: false, ahead: Ahead::default() }
    }

    /// Weighs the room against copies of all that is contested, if it takes so many `copies` for the first `units` of those units.
    pub fn expect(&mut self, copies: u64, (units, of_units): (u64, u64)) {
        let in_all = u128::from(copies) * u128::from(of_units) / u128::from(units.max(1));
        self.is_short |= in_all > u128::from(self.room);
    }

    /// Looks how much is really free, when that begins to matter.
    pub fn count_again(&mut self, context: &RepairContext<'_>) {
        if (1..SCANT_UNITS).contains(&self.room) {
            self.room = self.room.min(context.free_units().saturating_sub(self.reserve));
        }
    }
}

/// Bytes as they were before the repair.
#[derive(Default)]
pub(super) struct Ahead {
    start: u64,
    bytes: Vec<u8>,
}

impl Ahead {
    /// `len` bytes from block `first` on; they are read together with the blocks behind them that are wanted. `None` where there are no such blocks, or
    /// where they cannot be read: the caller has to see what can.
    pub fn bytes(
        &mut self,
        context: &RepairContext<'_>,
        first: BlockNo,
        len: usize,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Option<&[u8]> {
        let offset = context.fs.block_offset(first);
        if self.place(offset, len).is_none() {
            let size = context.fs.geometry.block_size as usize;
            let most = (AHEAD_BYTES / size) as u64;
            let blocks =
                (first.0..first.0.saturating_add(most)).take_while(|block| is_wanted(*block)).count();
            if blocks * size <= len {
                return None;
            }
            self.start = offset;
            self.bytes.resize(blocks * size, 0);
            if context.overlay.read_before(offset, &mut self.bytes).is_err() {
                self.bytes.clear();
            }
        }
        self.bytes.get(self.place(offset, len)?)
    }

    /// Where `len` bytes at `offset` stand, if all of them are here.
    fn place(&self, offset: u64, len: usize) -> Option<std::ops::Range<usize>> {
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let end = at.checked_add(len).filter(|end| *end <= self.bytes.len())?;
        Some(at..end)
    }
}
