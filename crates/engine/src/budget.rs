// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory budget of a run: what its structures hold is reserved here before it is allocated, or as soon as it is known.
//!
//! A budget counts; it does not ask the system what the process really holds. What is foreseen (tables, buffers, shares of lists) is
//! planned before the run; what only the disk knows (pages of bitmaps, lists that grow with what is found) is charged
//! batch by batch, and when it no longer fits the budget is [exhausted](Budget::is_exhausted): the run then ends with a
//! refusal instead of going on until something kills it. All of it is a few atomic additions, never one per record.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What holds memory that it can do without.
pub trait Reclaim: Send + Sync {
    /// Gives back about `wanted` bytes, if it has them, and releases them. Returns how many.
    fn give_back(&self, wanted: u64) -> u64;
}

/// A limit on memory, and what has been reserved of it. Shared by all workers.
pub struct Budget {
    limit: u64,
    reserved: AtomicU64,
    /// The most that was ever asked for at once.
    peak: AtomicU64,
    /// Asked before memory is found to be short.
    reclaim: Mutex<Option<Weak<dyn Reclaim>>>,
}

impl fmt::Debug for Budget {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Budget")
            .field("limit", &self.limit)
            .field("reserved", &self.reserved)
            .field("peak", &self.peak)
            .finish_non_exhaustive()
    }
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Budget { limit, reserved: AtomicU64::new(0), peak: AtomicU64::new(0), reclaim: Mutex::new(None) }
    }

    /// A budget that is never exhausted.
    pub fn unlimited() -> Self {
        Budget::new(u64::MAX)
    }

    /// All of it.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// What is still free.
    pub fn free(&self) -> u64 {
        self.limit.saturating_sub(self.reserved.load(Relaxed))
    }

    /// The most that was ever reserved or asked for at once.
    pub fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// Asks `what` to give memory back when it is short, in place of what was asked before.
    pub fn reclaim_from(&self, what: &Arc<dyn Reclaim>) {
        *self.reclaim.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::downgrade(what));
    }

    /// Reserves `bytes` if they fit, or can be made to.
    pub fn try_reserve(&self, bytes: u64) -> bool {
        self.try_reserve_free(bytes) || self.make_room(bytes) && self.try_reserve_free(bytes)
    }

    /// Reserves `bytes` if they fit as things are.
    pub fn try_reserve_free(&self, bytes: u64) -> bool {
        let fits = |reserved: u64| reserved.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let before = self.reserved.fetch_update(Relaxed, Relaxed, fits);
        before.is_ok_and(|before| {
            self.peak.fetch_max(before.saturating_add(bytes), Relaxed);
            true
        })
    }

    /// Has memory given back until `bytes` are free. Returns whether anything was.
    pub fn make_room(&self, bytes: u64) -> bool {
        let missing = bytes.saturating_sub(self.free());
        let what =
            self.reclaim.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Weak::upgrade);
        missing > 0 && what.is_some_and(|what| what.give_back(missing) > 0)
    }

    /// Reserves `bytes` that are held already, or cannot be done without; the budget may be exhausted after that.
    pub fn charge(&self, bytes: u64) {
        if !self.try_reserve(bytes) {
            let before = self.reserved.fetch_add(bytes, Relaxed);
            self.peak.fetch_max(before.saturating_add(bytes), Relaxed);
        }
    }

    /// Gives `bytes` back.
    pub fn release(&self, bytes: u64) {
        self.reserved.fetch_sub(bytes, Relaxed);
    }

    /// Whether more was charged than there is, at any time so far.
    pub fn is_exhausted(&self) -> bool {
        self.peak() > self.limit
    }
}

/// What one structure holds of a budget; given back when it goes.
#[derive(Debug)]
pub struct Reservation<'b> {
    budget: &'b Budget,
    bytes: u64,
}

impl<'b> Reservation<'b> {
    /// Nothing reserved yet.
    pub fn new(budget: &'b Budget) -> Self {
        Reservation { budget, bytes: 0 }
    }

    /// What has been [reserved](Budget::try_reserve) already.
    pub fn of(budget: &'b Budget, bytes: u64) -> Self {
        Reservation { budget, bytes }
    }

    /// Says that the structure holds `bytes` now.
    pub fn set(&mut self, bytes: u64) {
        if bytes > self.bytes {
            self.budget.charge(bytes - self.bytes);
        } else if bytes < self.bytes {
            self.budget.release(self.bytes - bytes);
        }
        self.bytes = bytes;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// What a vector of `len` elements of `T` takes at most while it grows: the old one and the new one, twice as large, stand
/// beside each other for a moment.
pub fn growing<T>(len: usize) -> u64 {
    3 * (len as u64) * size_of::<T>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_reserved_and_what_does_not_is_noticed() {
        let budget = Budget::new(100);
        assert!(budget.try_reserve(60) && !budget.try_reserve(41) && budget.try_reserve(40));
        assert_eq!((budget.free(), budget.is_exhausted()), (0, false));
        budget.release(50);
        let mut list = Reservation::new(&budget);
        list.set(30);
        list.set(20);
        assert_eq!(budget.free(), 30);
        list.set(51);
        assert_eq!((budget.is_exhausted(), budget.peak(), budget.free()), (true, 101, 0));
        drop(list);
        assert_eq!((budget.free(), budget.is_exhausted()), (50, true), "once exhausted, for ever");
        assert!(Budget::unlimited().try_reserve(u64::MAX));
    }
}
