// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units that were freed, but not durably yet. Until they are, an older state of the disk may still point to them, so they are not taken again.

use fsmend_base::width;
use std::collections::HashMap;

/// Freed units by group, as bits. The driver adds them to what is taken, and clears them once the freeing is on the disk (or in the log).
#[derive(Default)]
pub struct PendingFrees {
    groups: HashMap<u32, Vec<u64>>,
    /// What the current operation has added: group, first unit, count.
    noted: Vec<(u32, u64, u64)>,
    is_noting: bool,
}

impl PendingFrees {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// All that was freed is durable.
    pub fn clear(&mut self) {
        self.groups.clear();
    }

    /// An operation begins.
    pub fn begin(&mut self) {
        self.noted.clear();
        self.is_noting = true;
    }

    /// The operation has succeeded.
    pub fn finish(&mut self) {
        self.is_noting = false;
    }

    /// The operation has failed: what it has added is removed. (A unit that is pending cannot be freed a second time, so nothing else goes with it.)
    pub fn take_back(&mut self) {
        self.is_noting = false;
        for (group, start, count) in std::mem::take(&mut self.noted) {
            let Some(words) = self.groups.get_mut(&group) else { continue };
            for bit in start..start + count {
                if let Some(word) = words.get_mut((bit / 64) as usize) {
                    *word &= !(1 << (bit % 64));
                }
            }
            if words.iter().all(|word| *word == 0) {
                self.groups.remove(&group);
            }
        }
    }

    /// `count` units of a group from `start` on have been freed. The range has to lie within the group.
    pub fn add(&mut self, group: u32, start: u64, count: u64) {
        let words = self.groups.entry(group).or_default();
        let needed = width::index((start + count).div_ceil(64));
        if words.len() < needed {
            words.resize(needed, 0);
        }
        for bit in start..start + count {
            words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        if self.is_noting {
            self.noted.push((group, start, count));
        }
    }

    /// The pending units of a group, as words of bits; shorter than the group where the rest is not pending.
    pub fn of_group(&self, group: u32) -> &[u64] {
        self.groups.get(&group).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_operation_leaves_no_pending_units() {
        let mut frees = PendingFrees::default();
        frees.begin();
        frees.add(3, 60, 8);
        frees.finish();
        frees.begin();
        frees.add(3, 100, 1);
        frees.add(5, 0, 1);
        frees.take_back();
        assert_eq!(frees.of_group(3), [0xF << 60, 0xF]);
        assert!(frees.of_group(5).is_empty());
        frees.clear();
        assert!(frees.is_empty());
    }
}
