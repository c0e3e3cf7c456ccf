// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sectors: those on the medium, and those that wait in a cache for a sync.

use std::collections::BTreeMap;
use std::sync::Arc;

use fsmend_base::{SeededRandom, width};

/// What is written whole or not at all.
pub const SECTOR_BYTES: usize = 512;

type Sector = [u8; SECTOR_BYTES];

/// A medium with a cache in front of it. Beyond what was ever written, it is what it was at first, or zero.
#[derive(Clone)]
pub(crate) struct Medium {
    first: Arc<Vec<u8>>,
    durable: BTreeMap<u64, Sector>,
    /// What was written since the last sync, in order.
    pending: Vec<(u64, Sector)>,
    /// The latest of `pending`, and what a failed sync has left: it can be read, but will not reach the medium.
    cached: BTreeMap<u64, Sector>,
}

impl Medium {
    pub fn new(first: Arc<Vec<u8>>) -> Self {
        Medium { first, durable: BTreeMap::new(), pending: Vec::new(), cached: BTreeMap::new() }
    }

    /// What a reader sees.
    pub fn read(&self, offset: u64, buf: &mut [u8]) {
        for_each_piece(offset, buf.len(), |number, within, place| {
            let sector = self.cached.get(&number).copied().unwrap_or_else(|| self.on_medium(number));
            buf[place.clone()].copy_from_slice(&sector[within..within + place.len()]);
        });
    }

    /// Writes into the cache.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for_each_piece(offset, bytes.len(), |number, within, place| {
            let mut sector = self.cached.get(&number).copied().unwrap_or_else(|| self.on_medium(number));
            sector[within..within + place.len()].copy_from_slice(&bytes[place]);
            self.pending.push((number, sector));
            self.cached.insert(number, sector);
        });
    }

    /// What waits reaches the medium.
    pub fn sync(&mut self) {
        for (number, sector) in self.pending.drain(..) {
            self.durable.insert(number, sector);
            self.cached.remove(&number);
        }
    }

    /// What waits is forgotten, though readers still see it: so it is in Linux when a sync fails.
    pub fn fail_sync(&mut self) {
        self.pending.clear();
    }

    /// The power is gone: of what waits, luck says what has reached the medium.
    pub fn lose_power(&mut self, luck: &mut SeededRandom) {
        let manner = luck.below(5);
        let first_lost = width::index(luck.below(self.pending.len() as u64 + 1));
        for (place, (number, sector)) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            let survives = match manner {
                0 => false,
                1 => true,
                // In order, up to some sector.
                2 => place < first_lost,
                // All but a few, or few.
                3 => luck.below(8) != 0,
                _ => luck.below(2) == 0,
            };
            if survives {
                self.durable.insert(number, sector);
            }
        }
        self.cached.clear();
    }

    /// Puts something on the medium that was never written, where nothing has been written yet.
    pub fn leave_garbage(&mut self, sectors: std::ops::Range<u64>, luck: &mut SeededRandom) {
        for number in sectors {
            self.durable.entry(number).or_insert_with(|| {
                let mut sector = [0; SECTOR_BYTES];
                sector.fill_with(|| width::low_u8(luck.next_u64()));
                sector
            });
        }
    }

    /// Nothing at all, as in a new file.
    pub fn clear(&mut self) {
        self.durable.clear();
        self.pending.clear();
        self.cached.clear();
    }

    /// Forgets sectors from `first` on, so that they read as zeroes.
    pub fn cut_off(&mut self, first: u64) {
        self.durable.split_off(&first);
    }

    /// Whether a reader sees the same on both, which have the same beginnings.
    pub fn shows_same_as(&self, other: &Medium) -> bool {
        let numbers = |medium: &Medium| -> Vec<u64> {
            medium.durable.keys().chain(medium.cached.keys()).copied().collect()
        };
        let shown =
            |medium: &Medium, number| medium.cached.get(&number).copied().unwrap_or(medium.on_medium(number));
        numbers(self)
            .into_iter()
            .chain(numbers(other))
            .all(|number| shown(self, number) == shown(other, number))
    }

    fn on_medium(&self, number: u64) -> Sector {
        if let Some(sector) = self.durable.get(&number) {
            return *sector;
        }
        let mut sector = [0; SECTOR_BYTES];
        let start = width::index(number).saturating_mul(SECTOR_BYTES).min(self.first.len());
        let there = &self.first[start..self.first.len().min(start + SECTOR_BYTES)];
        sector[..there.len()].copy_from_slice(there);
        sector
    }
}

/// Cuts `len` bytes from `offset` at the bounds of sectors: number of the sector, where in it the piece starts, and which of
/// the bytes it is.
fn for_each_piece(offset: u64, len: usize, mut piece: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let within = width::index(at % SECTOR_BYTES as u64);
        let count = (SECTOR_BYTES - within).min(len - done);
        piece(at / SECTOR_BYTES as u64, within, done..done + count);
        done += count;
    }
}

/// The sectors that `len` bytes from `offset` touch.
pub(crate) fn sectors_of(offset: u64, len: u64) -> std::ops::Range<u64> {
    let sector = SECTOR_BYTES as u64;
    offset / sector..offset.saturating_add(len).div_ceil(sector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(medium: &Medium, offset: u64) -> u8 {
        let mut byte = [0];
        medium.read(offset, &mut byte);
        byte[0]
    }

    #[test]
    fn what_is_synced_stays_and_what_is_not_may_go() {
        let (mut kept, mut lost) = (0, 0);
        for seed in 0..100 {
            let mut medium = Medium::new(Arc::new(vec![0; 4096]));
            medium.write(0, &[1; 512]);
            medium.sync();
            medium.write(500, &[2; 1000]);
            assert_eq!((shown(&medium, 499), shown(&medium, 500)), (1, 2));
            medium.lose_power(&mut SeededRandom::new(seed));
            assert_eq!(shown(&medium, 499), 1);
            for sector in [500, 600, 1100] {
                *if shown(&medium, sector) == 2 { &mut kept } else { &mut lost } += 1;
            }
            assert_eq!(shown(&medium, 1023), shown(&medium, 512), "a sector is whole");
        }
        assert!(kept > 80 && lost > 80, "{kept} kept, {lost} lost");
    }

    #[test]
    fn the_latest_of_what_reached_the_medium_counts() {
        let mut seen = [0; 3];
        for seed in 0..200 {
            let mut medium = Medium::new(Arc::new(vec![0; 512]));
            medium.write(0, &[1]);
            medium.write(0, &[2]);
            medium.lose_power(&mut SeededRandom::new(seed));
            seen[usize::from(shown(&medium, 0))] += 1;
        }
        assert!(seen.iter().all(|count| *count > 10), "{seen:?}");
    }

    #[test]
    fn a_failed_sync_forgets_what_readers_still_see() {
        let mut medium = Medium::new(Arc::new(vec![0; 512]));
        medium.write(0, &[1]);
        medium.fail_sync();
        medium.sync();
        assert_eq!(shown(&medium, 0), 1);
        medium.lose_power(&mut SeededRandom::new(1));
        assert_eq!(shown(&medium, 0), 0);
    }
}
