// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptions of hard disks, and where their numbers come from.

/// What is known of a disk: mostly what a data sheet says.
#[derive(Clone, Debug, PartialEq)]
pub struct HddDescription {
    /// Bytes that it holds.
    pub capacity: u64,
    /// Turns per minute.
    pub rpm: u32,
    /// Surfaces that are used.
    pub heads: u32,
    /// Sectors of a track at the rim, where the numbers begin, and at the hub.
    pub sectors_per_track: (u32, u32),
    /// Milliseconds to the next cylinder, over a third of them (so far apart are random places on average; to most it is quicker), and from rim to hub.
    pub seek_ms: (f64, f64, f64),
    /// Milliseconds from one surface to the next; tracks are turned against each other by as much.
    pub head_switch_ms: f64,
    /// Milliseconds for each command, whatever it asks for.
    pub overhead_ms: f64,
    /// Bytes per second between disk and computer.
    pub interface: u64,
    /// Stretches that the disk remembers having read, and bytes in each: it reads on by itself until one is full.
    pub segments: (usize, u64),
    /// Whether it keeps what passes the head on the way to what was asked for: the track before it.
    pub reads_on_arrival: bool,
    /// Bytes of writes that it takes without having them on the platters.
    pub write_cache: u64,
    /// Commands among which it chooses the one that it can begin soonest.
    pub queue_depth: usize,
}

impl HddDescription {
    /// A Seagate Barracuda 7200.12 of 750 GB, the disk of the paper on ffsck (§3.2).
    ///
    /// - 7200 turns, two platters of 500 GB with four heads, 32 MB of memory: X-bit labs, "1 TB HDD roundup" (on the ST31000528AS, the same with all of its
    ///   cylinders in use).
    /// - 17 ms to a random place, turning included: The Tech Report, "A storage performance retrospective", which calls that disappointing. Without half a turn, and
    ///   the command's own time, 12.7 ms to seek on average, which is 14 for a third of the way. Rim to hub is in the usual proportion to it.
    /// - 206 MB/s at best over its cable: The Tech Report, "7,200-RPM terabytes from Hitachi, Samsung, Seagate, and WD face off".
    /// - 100 MB/s, zones considered: the paper, §3.2. Rim and hub are in the proportion of two to one, nearly, as with all disks of that size.
    /// - It keeps the tracks that it passes: the paper, §4.2.1 and §5.3.
    pub fn barracuda_7200_12() -> Self {
        HddDescription {
            capacity: 750_000_000_000,
            rpm: 7200,
            heads: 4,
            sectors_per_track: (2250, 1190),
            seek_ms: (1.0, 14.0, 24.0),
            head_switch_ms: 0.9,
            overhead_ms: 0.1,
            interface: 206_000_000,
            segments: (16, 1 << 20),
            reads_on_arrival: true,
            write_cache: 16 << 20,
            queue_depth: 32,
        }
    }

    /// A Seagate Barracuda ATA IV of 80 GB (ST380021A), the disk of the paper on hFS (§6).
    ///
    /// - 7200 turns, two platters with four heads, 2 MB of memory, 100 MB/s over its cable, 555 Mbit/s from the head: the maker's product manual. Of these bits some 60 % are data of files, as
    ///   reviews of its time measured 41 to 43 MB/s at the rim and 24 at the hub.
    /// - 10.8 ms to seek on average as measured, which is 11.9 for a third of the way; rim to hub in the usual proportion.
    /// - ATA without a queue: one command after the other, but for the writes in its cache.
    pub fn barracuda_ata_iv() -> Self {
        HddDescription {
            capacity: 80_000_000_000,
            rpm: 7200,
            heads: 4,
            sectors_per_track: (700, 400),
            seek_ms: (1.2, 11.9, 20.0),
            head_switch_ms: 1.2,
            overhead_ms: 0.3,
            interface: 100_000_000,
            segments: (4, 256 << 10),
            reads_on_arrival: false,
            write_cache: 1 << 20,
            queue_depth: 1,
        }
    }

    /// A disk of 250 GB for laptops, a Seagate Momentus 5400.4.
    ///
    /// - 5400 turns, two platters, 12 ms to seek on average, 58 MB/s at the rim, 8 MB of memory: The Tech Report, "Seven 2.5-inch mobile drives compared", from the maker's data sheet.
    /// - A millisecond to the next track and 20 from rim to hub: the specification of the Hitachi Travelstar 5K320 (4.4.2), whose average of 12 ms is the same.
    pub fn laptop() -> Self {
        HddDescription {
            capacity: 250_000_000_000,
            rpm: 5400,
            heads: 4,
            sectors_per_track: (1370, 700),
            seek_ms: (1.0, 13.2, 20.0),
            head_switch_ms: 1.0,
            overhead_ms: 0.2,
            interface: 150_000_000,
            segments: (6, 1 << 20),
            reads_on_arrival: false,
            write_cache: 2 << 20,
            queue_depth: 32,
        }
    }
}

impl Default for HddDescription {
    /// The paper's.
    fn default() -> Self {
        HddDescription::barracuda_7200_12()
    }
}
