// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk of any kind, and its clock: what hard disks and flash have in common.

use std::time::Duration;

use crate::flash::{Flash, FlashDescription};
use crate::hdd::{Hdd, HddDescription};
use crate::request_queue::Model;

/// Something that a disk was asked to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// What a disk has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskStatistics {
    /// Commands to read.
    pub reads: u64,
    /// Commands to write.
    pub writes: u64,
    /// Commands to make durable what was written.
    pub flushes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Reads that needed no movement, since a hard disk had read on by itself.
    pub read_ahead_hits: u64,
    /// Times that the heads moved to another cylinder.
    pub seeks: u64,
    /// Time spent on moving them.
    pub seeking: Duration,
    /// Time spent on waiting for the platter to turn.
    pub turning: Duration,
    /// Time in which bytes passed the heads.
    pub transferring: Duration,
}

/// A description of a disk of any kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Drive {
    /// With platters.
    Hdd(HddDescription),
    /// Without.
    Flash(FlashDescription),
}

/// Those that have names, and what they are.
pub const DRIVES: [(&str, &str); 5] = [
    ("barracuda", "hard disk, 750 GB, 7200 turns a minute (Seagate Barracuda 7200.12)"),
    ("barracuda-iv", "hard disk, 80 GB, 7200 turns a minute, 2001 (Seagate Barracuda ATA IV)"),
    ("laptop", "hard disk for laptops, 250 GB, 5400 turns a minute (Seagate Momentus 5400.4)"),
    ("ssd", "solid-state disk, 1 TB, SATA (Samsung 850 EVO)"),
    ("nvme", "solid-state disk, 1 TB, NVMe (Samsung 960 EVO)"),
];

impl Drive {
    /// One of [`DRIVES`].
    pub fn named(name: &str) -> Option<Drive> {
        Some(match name {
            "barracuda" => HddDescription::barracuda_7200_12().into(),
            "barracuda-iv" => HddDescription::barracuda_ata_iv().into(),
            "laptop" => HddDescription::laptop().into(),
            "ssd" => FlashDescription::ssd().into(),
            "nvme" => FlashDescription::nvme().into(),
            _ => return None,
        })
    }

    /// Bytes that it holds.
    pub fn capacity(&self) -> u64 {
        match self {
            Drive::Hdd(of) => of.capacity,
            Drive::Flash(of) => of.capacity,
        }
    }
}

impl From<HddDescription> for Drive {
    fn from(of: HddDescription) -> Self {
        Drive::Hdd(of)
    }
}

impl From<FlashDescription> for Drive {
    fn from(of: FlashDescription) -> Self {
        Drive::Flash(of)
    }
}

/// A disk of any kind and its clock. It holds no bytes; [`Timed`](crate::Timed) puts it around a device that does.
#[derive(Clone, Debug)]
pub struct Disk(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Hdd(Box<Hdd>),
    Flash(Box<Flash>),
}

impl Disk {
    /// A disk at rest.
    pub fn new(drive: impl Into<Drive>) -> Self {
        Disk(match drive.into() {
            Drive::Hdd(of) => Kind::Hdd(Box::new(Hdd::new(of))),
            Drive::Flash(of) => Kind::Flash(Box::new(Flash::new(of))),
        })
    }

    fn model(&self) -> &dyn Model {
        match &self.0 {
            Kind::Hdd(disk) => &**disk,
            Kind::Flash(disk) => &**disk,
        }
    }

    fn model_mut(&mut self) -> &mut dyn Model {
        match &mut self.0 {
            Kind::Hdd(disk) => &mut **disk,
            Kind::Flash(disk) => &mut **disk,
        }
    }

    /// The time that has passed.
    pub fn now(&self) -> Duration {
        self.model().now()
    }

    /// What was done in it.
    pub fn statistics(&self) -> DiskStatistics {
        self.model().statistics()
    }

    /// The computer does something else for so long.
    pub fn spend(&mut self, time: Duration) {
        self.model_mut().spend(time);
    }

    /// Asks for some bytes without waiting for them.
    pub fn ask(&mut self, offset: u64, len: u64) -> Ticket {
        self.model_mut().ask(offset, len)
    }

    /// Waits for what was asked for. A ticket is good once.
    pub fn wait(&mut self, ticket: Ticket) {
        self.model_mut().wait(ticket);
    }

    /// Reads some bytes, and waits for them.
    pub fn read(&mut self, offset: u64, len: u64) {
        self.model_mut().read(offset, len);
    }

    /// Writes some bytes: into the disk's memory while there is room.
    pub fn write(&mut self, offset: u64, len: u64) {
        self.model_mut().write(offset, len);
    }

    /// Waits until everything that was written is safe.
    pub fn flush(&mut self) {
        self.model_mut().flush();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn those_with_names_are_there_and_the_faster_ones_are_faster() {
        let time = |name: &str| {
            let mut disk = Disk::new(Drive::named(name).unwrap());
            (0..100u64).for_each(|at| disk.read(at * 700_000_000, 65536));
            assert_eq!(disk.statistics().bytes_read, 6_553_600);
            disk.now()
        };
        let times = ["barracuda", "laptop", "ssd", "nvme"].map(time);
        assert!(times[0] < times[1] && times[2] < times[0] / 10 && times[3] < times[2], "{times:?}");
        assert!(DRIVES.iter().all(|(name, _)| Drive::named(name).is_some()));
        assert_eq!(Drive::named("tape"), None);
    }
}
