// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks that one pass reads and a later one needs: kept while there is memory, given back one by one when it is short, and read again then (McKusick, "Improving the performance of
//! fsck in FreeBSD", the cylinder-group cache).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Budget;
use crate::budget::Reclaim;

/// What is kept takes no more than this part of all memory.
const SHARE: u64 = 8;

/// Things of one size, by number.
#[derive(Debug)]
pub struct Kept<T> {
    slots: Mutex<Vec<Option<Arc<T>>>>,
    bytes_each: u64,
    budget: Arc<Budget>,
    held: AtomicU64,
    /// Once memory was short, nothing more is kept.
    was_short: AtomicBool,
    read_again: AtomicU64,
}

impl<T: Send + Sync + 'static> Kept<T> {
    /// Room for `count` things of `bytes_each` bytes, as far as `budget` has it.
    pub fn new(budget: &Arc<Budget>, count: usize, bytes_each: u64) -> Arc<Self> {
        let kept = Arc::new(Kept {
            slots: Mutex::new(std::iter::repeat_with(|| None).take(count).collect()),
            bytes_each,
            budget: Arc::clone(budget),
            held: AtomicU64::new(0),
            was_short: AtomicBool::new(false),
            read_again: AtomicU64::new(0),
        });
        let reclaim: Arc<dyn Reclaim> = Arc::clone(&kept) as Arc<dyn Reclaim>;
        budget.reclaim_from(&reclaim);
        kept
    }

    /// Most memory for what is kept, in bytes. Nothing where nothing is to be kept.
    pub fn room(&self) -> u64 {
        self.budget.limit() / SHARE
    }

    /// Keeps one if there is memory.
    pub fn keep(&self, number: usize, thing: T) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = slots.get_mut(number) else { return };
        let held = self.held.load(Relaxed).saturating_add(self.bytes_each);
        let has_room = held <= self.room() && !self.was_short.load(Relaxed);
        if slot.is_none() && has_room && self.budget.try_reserve_free(self.bytes_each) {
            *slot = Some(Arc::new(thing));
            self.held.store(held, Relaxed);
        }
    }

    /// The one with this number: kept, or read again, which is counted.
    pub fn get(&self, number: usize, read: impl FnOnce() -> Option<T>) -> Option<Arc<T>> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(thing)) = slots.get(number) {
            return Some(Arc::clone(thing));
        }
        drop(slots);
        self.read_again.fetch_add(1, Relaxed);
        read().map(Arc::new)
    }

    /// How many were read again.
    pub fn read_again(&self) -> u64 {
        self.read_again.load(Relaxed)
    }
}

impl<T: Send + Sync> Reclaim for Kept<T> {
    fn give_back(&self, wanted: u64) -> u64 {
        self.was_short.store(true, Relaxed);
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut given = 0;
        for slot in slots.iter_mut().filter(|slot| slot.is_some()) {
            if given >= wanted {
                break;
            }
            *slot = None;
            given += self.bytes_each;
        }
        self.held.fetch_sub(given, Relaxed);
        self.budget.release(given);
        given
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        self.budget.release(self.held.load(Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_makes_room_for_what_is_needed() {
        let budget = Arc::new(Budget::new(800));
        let kept = Kept::new(&budget, 20, 10);
        (0..20).for_each(|number| kept.keep(number, number));
        assert_eq!(budget.free(), 700, "an eighth");
        assert_eq!(kept.get(9, || None).as_deref(), Some(&9));
        assert_eq!((kept.get(10, || Some(7)).as_deref(), kept.read_again()), (Some(&7), 1));
        budget.charge(715);
        assert!(!budget.is_exhausted());
        assert_eq!(budget.free(), 5, "two were given back");
        assert_eq!((kept.get(0, || None), kept.get(1, || None), kept.read_again()), (None, None, 3));
        assert_eq!(kept.get(2, || None).as_deref(), Some(&2));
        kept.keep(0, 0);
        assert_eq!(kept.get(0, || None), None, "nothing more is kept");
        assert!(budget.try_reserve(85) && !budget.is_exhausted() && budget.free() == 0);
        drop(kept);
        budget.release(800);
        assert_eq!(budget.free(), 800);
    }
}
