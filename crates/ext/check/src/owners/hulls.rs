//! Which parts of the inode tables may own what is contested: nobody else has to be read again.
//!
//! The scan keeps, for every few inodes that are all free or innocent with maps that lie in them, between which blocks they own
//! something. What they own is what was claimed for them, and what a second look at them would find: so no owner is missed where such a part
//! ends before the contested blocks, or begins behind them. Of inodes in no such part nothing is known, and all of them are looked at.

use std::ops::Range;

use fsmend_base::InodeNo;
use fsmend_engine::claims::SharedBitmap;

use crate::fast::inode::{Proof, Verdict};

/// Blocks are counted by so many.
const BLOCKS: u64 = 64;
/// Where more of those hold something contested, nearly everybody has to be looked at, and the list of them is not worth its memory.
const WORDS_MAX: usize = 1 << 16;

/// Each worker keeps no more of them: what is not known is looked at, and memory that nobody foresaw is for what has to be known.
pub const HULLS_MAX: usize = 1 << 14;

/// A few inodes in a row, and between which blocks lies what they own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Hull {
    first: u32,
    /// The first 64 blocks, and those behind the last ones.
    low: u32,
    end: u32,
    count: u8,
}

/// A hull that grows with what the scan proves.
#[derive(Clone, Copy, Debug)]
pub struct Growing {
    low: u64,
    end: u64,
    count: u8,
    is_known: bool,
}

impl Growing {
    /// No inode taken up yet.
    pub fn around_nothing() -> Self {
        Growing { low: u64::MAX, end: 0, count: 0, is_known: true }
    }

    /// Takes up the next inode, with what the fast path said of it.
    #[inline]
    pub fn add(&mut self, verdict: Verdict, proof: &Proof) {
        match self.count.checked_add(1) {
            Some(count) => self.count = count,
            None => self.is_known = false,
        }
        match verdict {
            Verdict::Free => {}
            Verdict::Innocent if !proof.needs_walk => {
                for run in &proof.runs {
                    self.low = self.low.min(run.physical);
                    self.end = self.end.max(run.physical.saturating_add(u64::from(run.count)));
                }
            }
            Verdict::Innocent | Verdict::Suspect => self.is_known = false,
        }
    }

    /// The hull of the inodes from `first` on; none if there is one among them of which nothing is known.
    pub fn around(self, first: InodeNo) -> Option<Hull> {
        let (low, end) = if self.end == 0 { (0, 0) } else { (self.low / BLOCKS, self.end.div_ceil(BLOCKS)) };
        let (low, end) = (u32::try_from(low).ok()?, u32::try_from(end).ok()?);
        self.is_known.then_some(Hull { first: first.0, low, end, count: self.count })
    }
}

/// Hulls, ascending, beside what is contested.
pub(super) struct Hulls<'h> {
    hulls: &'h [Hull],
    /// Where something is contested, ascending.
    contested: Vec<u64>,
}

impl<'h> Hulls<'h> {
    /// Of `hulls`, which are sorted. Units are blocks wherever there are any.
    pub fn beside(hulls: &'h [Hull], contested: &SharedBitmap) -> Self {
        let mut words: Vec<u64> = Vec::new();
        if hulls.is_empty() {
            return Hulls { hulls, contested: words };
        }
        for unit in contested.ones() {
            if words.last() != Some(&(unit / BLOCKS)) {
                words.push(unit / BLOCKS);
            }
            if words.len() > WORDS_MAX {
                return Hulls { hulls: &[], contested: Vec::new() };
            }
        }
        Hulls { hulls, contested: words }
    }

    /// Whether `inode` may own something contested, and the numbers of the inodes around it of which the same is true.
    pub fn may_own(&self, inode: InodeNo) -> (Range<u32>, bool) {
        let behind = self.hulls.partition_point(|hull| hull.first <= inode.0);
        let hull = behind.checked_sub(1).and_then(|index| self.hulls.get(index));
        if let Some(hull) = hull
            && let end = hull.first.saturating_add(u32::from(hull.count))
            && inode.0 < end
        {
            let from = self.contested.partition_point(|word| *word < u64::from(hull.low));
            let may = self.contested.get(from).is_some_and(|word| *word < u64::from(hull.end));
            return (hull.first..end, may);
        }
        (inode.0..self.hulls.get(behind).map_or(u32::MAX, |hull| hull.first), true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::MapRun;

    fn hull(first: u32, verdicts: &[(Verdict, &[(u64, u32)])]) -> Option<Hull> {
        let mut growing = Growing::around_nothing();
        for (verdict, runs) in verdicts {
            let mut proof = Proof::default();
            let run = |(physical, count): &(u64, u32)| MapRun {
                logical: 0,
                physical: *physical,
                count: *count,
                unwritten: false,
            };
            proof.runs.extend(runs.iter().map(run));
            proof.needs_walk = runs.is_empty();
            growing.add(*verdict, &proof);
        }
        growing.around(InodeNo(first))
    }

    #[test]
    fn only_those_are_looked_at_that_may_own_something_contested() {
        let near = hull(11, &[(Verdict::Innocent, &[(130, 2), (640, 1)]), (Verdict::Free, &[(9, 9)])]);
        let far = hull(21, &[(Verdict::Innocent, &[(6400, 64)])]);
        let empty = hull(31, &[(Verdict::Free, &[])]);
        let hulls: Vec<Hull> = [near, far, empty].into_iter().flatten().collect();
        assert_eq!(hulls.len(), 3);
        let contested = SharedBitmap::new(10_000);
        contested.set_word(6399 / 64, 1 << 63);
        contested.set_word(5, 1);
        let beside = Hulls::beside(&hulls, &contested);
        assert_eq!(beside.may_own(InodeNo(11)), (11..13, true), "320 lies between 130 and 640");
        assert_eq!(beside.may_own(InodeNo(12)), (11..13, true));
        assert_eq!(beside.may_own(InodeNo(13)), (13..21, true), "nothing is known of it");
        assert_eq!(beside.may_own(InodeNo(21)), (21..22, false), "6399 lies before 6400");
        assert_eq!(beside.may_own(InodeNo(31)), (31..32, false));
        assert_eq!(beside.may_own(InodeNo(32)), (32..u32::MAX, true));
        assert_eq!(beside.may_own(InodeNo(1)), (1..11, true));
        contested.set_word(6463 / 64, 1 << 63);
        assert!(Hulls::beside(&hulls, &contested).may_own(InodeNo(21)).1);
        assert!(Hulls::beside(&[], &contested).may_own(InodeNo(21)).1);
    }

    #[test]
    fn where_one_inode_is_doubtful_nothing_is_known() {
        let sound: (Verdict, &[(u64, u32)]) = (Verdict::Innocent, &[(130, 2)]);
        assert!(hull(11, &[sound]).is_some());
        assert_eq!(hull(11, &[sound, (Verdict::Suspect, &[(130, 2)])]), None);
        assert_eq!(hull(11, &[sound, (Verdict::Innocent, &[])]), None, "its map lies elsewhere");
        assert_eq!(hull(11, &[(Verdict::Innocent, &[(1 << 40, 2)])]), None);
        assert_eq!(hull(11, &[sound; 256]), None);
    }
}
