// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where sectors lie on the platters, and how long it takes to get there.

use super::HddDescription;
use fsmend_base::width;

/// Bytes of a sector.
pub(super) const SECTOR: u64 = 512;
/// Zones of equal numbers of cylinders: tracks are longer outside.
const ZONES: u64 = 16;
/// A wait that lacks so many nanoseconds to a whole turn is none: the place is under the head, and the difference is what rounding left. A sector takes thousands.
const ROUNDING_NS: f64 = 100.0;

/// A sector's place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub cylinder: u64,
    /// Counted over the whole disk.
    track: u64,
    /// Sector within the track, and sectors of the track.
    sector: u64,
    sectors: u64,
}

/// Places and times of one disk. Times are nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    /// First sector, first track and sectors per track of each zone.
    zones: Vec<(u64, u64, u64)>,
    heads: u64,
    cylinders: u64,
    turn: f64,
    head_switch: f64,
    /// Seek times are `settle + root * sqrt(distance)` up to a third of the way, and grow evenly from there.
    settle: f64,
    root: f64,
    third: f64,
    per_cylinder: f64,
}

impl Geometry {
    pub fn new(of: &HddDescription) -> Self {
        let sectors = of.capacity.div_ceil(SECTOR).max(1);
        let heads = u64::from(of.heads.max(1));
        let (rim, hub) = (u64::from(of.sectors_per_track.0.max(1)), u64::from(of.sectors_per_track.1.max(1)));
        let in_zone = |zone: u64| (rim * (ZONES - 1 - zone) + hub * zone) / (ZONES - 1);
        let per_cylinder_of_each: u64 = (0..ZONES).map(|zone| in_zone(zone).max(1) * heads).sum();
        let cylinders_of_zone = sectors.div_ceil(per_cylinder_of_each).max(1);
        let mut zones = Vec::new();
        let (mut first, mut track) = (0, 0);
        for zone in 0..ZONES {
            let sectors = in_zone(zone).max(1);
            zones.push((first, track, sectors));
            first += cylinders_of_zone * heads * sectors;
            track += cylinders_of_zone * heads;
        }
        let cylinders = (cylinders_of_zone * ZONES).max(2);
        let (next, average, full) = (of.seek_ms.0 * 1e6, of.seek_ms.1 * 1e6, of.seek_ms.2 * 1e6);
        let third = (cylinders as f64 / 3.0).max(2.0);
        // The mean distance between two random cylinders is a third of the way.
        let root = ((average - next) / (third.sqrt() - 1.0)).max(0.0);
        let rest = (cylinders as f64 - third).max(1.0);
        Geometry {
            zones,
            heads,
            cylinders,
            turn: 60e9 / f64::from(of.rpm.max(1)),
            head_switch: of.head_switch_ms * 1e6,
            settle: next - root,
            root,
            third,
            per_cylinder: ((full - average) / rest).max(0.0),
        }
    }

    pub fn place(&self, sector: u64) -> Place {
        let zone = self.zones.partition_point(|zone| zone.0 <= sector).saturating_sub(1);
        let (first, track, sectors) = self.zones[zone];
        let track = track + (sector - first) / sectors;
        Place { cylinder: track / self.heads, track, sector: (sector - first) % sectors, sectors }
    }

    /// From one cylinder to another.
    pub fn seek(&self, from: u64, to: u64) -> f64 {
        let distance = from.abs_diff(to).min(self.cylinders) as f64;
        if distance == 0.0 {
            0.0
        } else if distance <= self.third {
            self.settle + self.root * distance.sqrt()
        } else {
            self.settle + self.root * self.third.sqrt() + self.per_cylinder * (distance - self.third)
        }
    }

    /// How long, from the moment `now` on, the place takes to come round to the head.
    pub fn rotation(&self, now: f64, place: Place) -> f64 {
        let skew = place.track as f64 * self.head_switch / self.turn;
        let angle = (place.sector as f64 / place.sectors as f64 + skew).fract();
        let under_head = (now / self.turn).fract();
        let wait = (angle - under_head).rem_euclid(1.0) * self.turn;
        if self.turn - wait < ROUNDING_NS { 0.0 } else { wait }
    }

    /// How many sectors before a place pass the head in such a wait for it, on its track.
    pub fn passed(&self, wait: f64, place: Place) -> u64 {
        width::whole(wait / self.turn * place.sectors as f64).min(place.sector)
    }

    /// How long so many sectors from `start` on take to pass the heads, once the first is there.
    pub fn transfer(&self, start: u64, count: u64) -> f64 {
        let (mut at, mut left, mut time) = (start, count, 0.0);
        while left > 0 {
            let place = self.place(at);
            let here = left.min(place.sectors - place.sector);
            time += here as f64 / place.sectors as f64 * self.turn;
            (at, left) = (at + here, left - here);
            if left > 0 {
                time += self.head_switch;
            }
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeks_are_those_of_the_data_sheet() {
        let geometry = Geometry::new(&HddDescription::default());
        let about = |time: f64, ms: f64| assert!((time / 1e6 - ms).abs() < 0.02, "{time} ns for {ms} ms");
        about(geometry.seek(0, 0), 0.0);
        about(geometry.seek(5, 6), 1.0);
        about(geometry.seek(0, geometry.cylinders / 3), 14.0);
        about(geometry.seek(geometry.cylinders, 0), 24.0);
    }

    #[test]
    fn every_sector_has_its_place() {
        let geometry = Geometry::new(&HddDescription::default());
        assert_eq!(geometry.place(0), Place { cylinder: 0, track: 0, sector: 0, sectors: 2250 });
        assert_eq!(geometry.place(2250 * 4), Place { cylinder: 1, track: 4, sector: 0, sectors: 2250 });
        let last = geometry.place(750_000_000_000 / SECTOR - 1);
        assert_eq!(last.sectors, 1190);
        assert!(last.cylinder < geometry.cylinders);
    }

    #[test]
    fn a_track_takes_a_turn_and_the_next_one_begins_where_the_head_arrives() {
        let geometry = Geometry::new(&HddDescription::default());
        let turn = geometry.turn;
        assert!((geometry.transfer(0, 2250) - turn).abs() < 1.0);
        let two = geometry.transfer(0, 4500);
        assert!((two - 2.0 * turn - 900_000.0).abs() < 1.0);
        // Having read the first track the head is on the second one just when its first sector comes.
        let wait = geometry.rotation(turn + 900_000.0, geometry.place(2250));
        assert!(wait < 1.0, "{wait}");
        // Wherever one stretch ends, the next one goes on without a turn being lost.
        for end in (0..1000).map(|at| 2250 * 1000 + at * 8) {
            let time = 1e9 + geometry.transfer(0, end);
            assert!(geometry.rotation(time, geometry.place(end)) < 1e6, "{end}");
        }
        assert!((geometry.rotation(0.0, geometry.place(1125)) - turn / 2.0).abs() < 1.0);
    }
}
