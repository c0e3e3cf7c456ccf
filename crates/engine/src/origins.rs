// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where claims came from, coarsely: for each area of neighbouring units, which bands of inodes have claimed something there. So
//! the owners of a few contested units are found by looking at a few bands of inodes again, not at all of them.
//!
//! What is kept of an area are two words of 64 bits, for the upper and the lower digit of the bands' numbers (to base 64): 4096 bands, of which
//! all those are taken to have claimed something there whose two digits both occur. That is never too few, and too many only where several
//! bands meet. Bits are only ever set, so that what is there at the end does not depend on the order of claims; a claim that is taken
//! back leaves its bits, which costs a look in vain.
//!
//! Source of the idea: Ma et al., "ffsck: The Fast File System Checker", §4.3.3; what is different here, and why, is in the decision
//! on claims and where they came from.

use std::ops::Range;
use std::sync::Arc;

use fsmend_base::width;

use crate::Budget;
use crate::claims::SharedBitmap;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bands of inodes.
const BANDS: u32 = 64 * 64;
/// No band has fewer inodes: smaller ones would split what is read in one go.
const INODES_PER_BAND_MIN: u32 = 16;
/// An area has so many units at least: those that are claimed in one go.
const AREA_UNITS_MIN: u64 = 1 << WORD_SHIFT;
const WORD_SHIFT: u32 = 6;
/// And so many where there is memory for that: few enough that only files which lie beside each other meet in one.
const AREA_UNITS: u64 = 512;
/// Where there are fewer areas than this, they may be smaller: so many stay in the processor's cache.
const AREAS: u64 = 1 << 16;
/// Larger areas are not worth their memory: in such a stretch, an owner of something near owns something there.
const AREA_UNITS_MAX: u64 = 1 << 16;

/// Who makes a claim: a band of inodes, or an owner whose claims are known anyway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin(u16);

impl Origin {
    /// Static metadata, and others whose units are on a list: they are not searched among the inodes.
    pub const KNOWN: Origin = Origin(u16::MAX);
}

/// The area in which an origin was noted last, for callers that claim word by word: most words lie in the same area as the ones before.
#[derive(Clone, Copy, Debug)]
pub struct Noted(u64);

impl Default for Noted {
    fn default() -> Self {
        Noted(u64::MAX)
    }
}

/// What has claimed something in one area: a bit for each digit that occurs.
#[cfg_attr(not(all(test, feature = "model")), derive(zerocopy::FromZeros))]
#[cfg_attr(all(test, feature = "model"), derive(Default))]
struct Area {
    upper: AtomicU64,
    lower: AtomicU64,
}

/// Where claims came from.
pub struct Origins {
    areas: Vec<Area>,
    area_shift: u32,
    band_shift: u32,
    /// What the areas take is charged to it.
    budget: Arc<Budget>,
}

impl Origins {
    /// Memory that is worth spending for `units` units.
    pub fn bytes_wanted(units: u64) -> u64 {
        bytes_for(units, area_units(units))
    }

    /// For `units` units and `inodes` inodes, with areas as small as `bytes` allow; those are charged to `budget`. `None` where not even
    /// large areas fit.
    pub fn within(budget: &Arc<Budget>, bytes: u64, units: u64, inodes: u32) -> Option<Self> {
        let sizes = std::iter::successors(Some(area_units(units)), |size| Some(size * 2));
        let mut sizes = sizes.take_while(|size| *size <= AREA_UNITS_MAX);
        let size = sizes.find(|size| bytes_for(units, *size) <= bytes)?;
        let areas = clear_areas(usize::try_from(units.div_ceil(size)).ok()?)?;
        budget.charge(bytes_for(units, size));
        let per_band = inodes.div_ceil(BANDS).max(INODES_PER_BAND_MIN).next_power_of_two();
        Some(Origins {
            areas,
            area_shift: size.trailing_zeros(),
            band_shift: per_band.trailing_zeros(),
            budget: Arc::clone(budget),
        })
    }

    /// Units in an area.
    pub fn area_units(&self) -> u64 {
        1 << self.area_shift
    }

    /// Inodes in a band.
    pub fn band_inodes(&self) -> u64 {
        1 << self.band_shift
    }

    /// The origin of what inode `inode` claims.
    #[inline]
    pub fn of(&self, inode: u32) -> Origin {
        Origin(width::low_u16(u64::from(inode.saturating_sub(1) >> self.band_shift)))
    }

    /// Notes a claim on `count` units from `start`.
    #[inline]
    pub fn note(&self, start: u64, count: u64, origin: Origin) {
        if origin == Origin::KNOWN || count == 0 {
            return;
        }
        let (upper, lower) = digits(u32::from(origin.0));
        let first = width::index(start >> self.area_shift);
        let last = width::index(start.saturating_add(count - 1) >> self.area_shift);
        // What lies behind the end has no owner.
        let behind = last.saturating_add(1).min(self.areas.len());
        for area in self.areas.get(first..behind).unwrap_or_default() {
            // Nearly always they are set already, and to look costs less than to write.
            if area.upper.load(Relaxed) & upper == 0 {
                area.upper.fetch_or(upper, Relaxed);
            }
            if area.lower.load(Relaxed) & lower == 0 {
                area.lower.fetch_or(lower, Relaxed);
            }
        }
    }

    /// Notes claims in word `index` of 64 units, as [`note`](Self::note) does, unless `noted` says that it has been done for this area.
    /// It has to be of the same origin.
    #[inline]
    pub fn note_word(&self, index: u64, origin: Origin, noted: &mut Noted) {
        // No area is smaller than a word.
        let area = index >> (self.area_shift - WORD_SHIFT);
        if noted.0 != area {
            noted.0 = area;
            self.note(index << WORD_SHIFT, 1, origin);
        }
    }

    /// The bands from which the set bits of `units` that are not below `start` may have been claimed.
    pub fn bands(&self, units: &SharedBitmap, start: u64) -> Bands {
        let mut bands = Bands { words: [0; 64], band_shift: self.band_shift };
        let mut next = units.ones_from(start).next();
        while let Some(unit) = next {
            let index = unit >> self.area_shift;
            if let Some(area) = self.areas.get(width::index(index)) {
                let lower = area.lower.load(Relaxed);
                for upper in ones(area.upper.load(Relaxed)) {
                    bands.words[upper] |= lower;
                }
            }
            next = units.ones_from((index + 1) << self.area_shift).next();
        }
        bands
    }
}

impl Drop for Origins {
    fn drop(&mut self) {
        self.budget.release(size_of_val(self.areas.as_slice()) as u64);
    }
}

/// A set of bands of inodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bands {
    words: [u64; 64],
    band_shift: u32,
}

impl Bands {
    /// Whether `inode` is in one of them.
    pub fn contains(&self, inode: u32) -> bool {
        let (upper, lower) = digits(inode.saturating_sub(1) >> self.band_shift);
        self.words.get(upper.trailing_zeros() as usize).is_some_and(|word| word & lower != 0)
    }

    /// Whether any of `inodes` is in one of them.
    pub fn touch(&self, inodes: Range<u32>) -> bool {
        let bands = inodes.clone().step_by(1 << self.band_shift).chain(inodes.last());
        bands.into_iter().any(|inode| self.contains(inode))
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }
}

/// So many areas without a claim; `None` where there is no memory for them. It is not touched: that is for those who
/// claim, all at once. To fill it with zeroes before other workers may begin took a millisecond for 80 000 areas.
#[cfg(not(all(test, feature = "model")))]
fn clear_areas(count: usize) -> Option<Vec<Area>> {
    zerocopy::FromZeros::new_vec_zeroed(count).ok()
}

#[cfg(all(test, feature = "model"))]
fn clear_areas(count: usize) -> Option<Vec<Area>> {
    Some(std::iter::repeat_with(Area::default).take(count).collect())
}

/// Units in an area, where there is memory for that.
fn area_units(units: u64) -> u64 {
    units.div_ceil(AREAS).clamp(AREA_UNITS_MIN, AREA_UNITS).next_power_of_two()
}

fn bytes_for(units: u64, area_units: u64) -> u64 {
    units.div_ceil(area_units).saturating_mul(size_of::<Area>() as u64)
}

/// The bits of both digits of a band's number.
#[inline]
fn digits(band: u32) -> (u64, u64) {
    (1 << (band >> 6 & 63), 1 << (band & 63))
}

/// The places of the bits that are set.
fn ones(word: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |bit| word >> bit & 1 == 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn origins(bytes: u64, units: u64, inodes: u32) -> Option<Origins> {
        Origins::within(&Arc::new(Budget::new(1 << 20)), bytes, units, inodes)
    }

    fn bands_of(origins: &Origins, unit: u64) -> Bands {
        let units = SharedBitmap::new(100_000);
        units.set_word(unit / 64, 1 << (unit % 64));
        origins.bands(&units, 0)
    }

    #[test]
    fn who_claimed_is_always_among_the_bands() {
        let origins = origins(u64::MAX, 1 << 26, 1 << 20).unwrap();
        assert_eq!((origins.area_units(), origins.band_inodes()), (512, 256));
        for (inode, start, count) in [(1, 0, 1), (256, 511, 1), (257, 600, 3000), (1 << 20, 99_990, 500)] {
            origins.note(start, count, origins.of(inode));
        }
        let bands = bands_of(&origins, 3);
        assert!(bands.contains(1) && bands.contains(256) && !bands.contains(257));
        assert_eq!(bands.count(), 1);
        for unit in [512, 600, 3599] {
            assert!(bands_of(&origins, unit).contains(300), "{unit}");
        }
        assert_eq!(bands_of(&origins, 4096).count(), 0);
        let last = bands_of(&origins, 99_990);
        assert!(last.contains(1 << 20) && last.count() == 1);
        assert!(last.touch((1 << 20) - 300..(1 << 20) + 1) && !last.touch(1..1 << 19));
    }

    #[test]
    fn where_bands_meet_there_may_be_more_but_never_fewer() {
        let origins = origins(u64::MAX, 1000, 1 << 16).unwrap();
        let inodes = [1, 5000, 40_000, 65_536];
        inodes.iter().for_each(|inode| origins.note(7, 1, origins.of(*inode)));
        let bands = bands_of(&origins, 8);
        assert!(inodes.iter().all(|inode| bands.contains(*inode)));
        assert!(bands.count() <= 16 && !bands.contains(3000));
    }

    #[test]
    fn words_are_noted_once_in_each_area() {
        let origins = origins(u64::MAX, 1 << 26, 1 << 16).unwrap();
        let mut noted = Noted::default();
        for word in [0, 7, 8, 100, 3] {
            origins.note_word(word, origins.of(40_000), &mut noted);
        }
        for (unit, expected) in [(0, 1), (511, 1), (512, 1), (1024, 0), (6400, 1), (100 * 64 + 512, 0)] {
            assert_eq!(bands_of(&origins, unit).count(), expected, "{unit}");
        }
        assert!(bands_of(&origins, 6400).contains(40_000));
    }

    #[test]
    fn claims_of_the_known_leave_nothing() {
        let origins = origins(u64::MAX, 1000, 100).unwrap();
        origins.note(0, 1000, Origin::KNOWN);
        origins.note(5000, 10, origins.of(3));
        origins.note(5, 0, origins.of(3));
        assert_eq!(bands_of(&origins, 5).count(), 0);
    }

    #[test]
    fn areas_are_as_small_as_there_is_memory() {
        let budget = Arc::new(Budget::new(1 << 20));
        let wanted = Origins::bytes_wanted(1 << 25);
        assert_eq!(wanted, (1 << 25) / 512 * 16);
        for (bytes, area) in [(wanted, 512), (wanted - 1, 1024), (wanted / 128, 1 << 16)] {
            let origins = Origins::within(&budget, bytes, 1 << 25, 100).unwrap();
            assert_eq!(origins.area_units(), area);
            assert!(budget.limit() - budget.free() <= bytes);
        }
        assert_eq!(budget.free(), budget.limit());
        for (units, area) in [(1000, 64), (1 << 22, 64), (1 << 23, 128), (1 << 40, 512)] {
            assert_eq!(area_units(units), area);
        }
        assert!(Origins::within(&budget, wanted / 128 - 1, 1 << 25, 100).is_none());
    }
}
