// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who takes part, and the ground: a file system on the paper's disk, behind one and the same memory.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fsmend_device::{Device, Joined, ReadError, WritableDevice, WriteError};
use fsmend_disksim::{Buffered, Drive, HddDescription, MemoryDescription, SparseMemory};
use fsmend_ext_driver::{Ext, mkfs as ext};
use fsmend_hybridfs_driver::{Cleaning, Hybrid, mkfs as hybrid};
use fsmend_lab::{Bench, Pace};
use fsmend_ufs_driver::{Ufs, mkfs as ufs};
use fsmend_ufs_format::Version;
use fsmend_vfs::{FileSystem, Result, Time};

use crate::bench::paper::images::{SEED, failed};

/// The paper's partition.
pub const BYTES: u64 = 30_720 << 20;
/// The paper's log.
const LOG_BYTES: u64 = 4096 << 20;
/// On smaller disks the log has one in so many bytes.
pub const LOG_SHARE: u64 = 7;
/// What LFS mode leaves to data.
pub const LFS_REST: u64 = 64 << 20;
/// What each operation computes: the paper's machine deleted 12 000 files in a second, and its fastest rival 37 000.
const OPERATION: Duration = Duration::from_micros(60);
/// How often everything is made durable.
const UPDATE_EVERY: Duration = Duration::from_secs(30);
const BLOCK: u32 = 16 << 10;
const FRAGMENT: u32 = 2 << 10;

/// The memory of the paper's machine: 512 MiB, of which FreeBSD 4.8 lets some megabytes wait, in requests of 128 KiB; nothing empties the cache of the disk.
pub const PAPER_MEMORY: MemoryDescription = MemoryDescription {
    waiting_max: 32 << 20,
    kept_max: 384 << 20,
    request_max: 128 << 10,
    joins: false,
    flushes: false,
    obeys: true,
};

/// A file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// With the sizes of the paper.
    Hybrid,
    /// With ours: segments of 16 MiB.
    HybridOurs,
    /// Everything in the log.
    Lfs,
    Ext3,
    /// With a log of 32 MiB.
    Ext4,
    /// UFS1; nothing is ordered.
    Ufs,
    /// UFS1; between two steps of an order everything is written.
    UfsOrdered,
    /// Everything in the log, with a cleaner that takes the emptiest segments.
    LfsGreedy,
    /// The same, and the age of segments counts.
    LfsCostBenefit,
}

/// Who takes part.
pub struct Contestant {
    pub name: &'static str,
    pub kind: Kind,
    /// Whose place it takes in the tables of the paper.
    pub stands_for: Option<usize>,
}

/// The columns of the paper's tables.
pub const PAPER: [&str; 4] = ["hFS", "FFS", "LFS", "yFS"];

pub const CONTESTANTS: [Contestant; 9] = [
    Contestant { name: "hybridfs, sizes of the paper", kind: Kind::Hybrid, stands_for: Some(0) },
    Contestant { name: "hybridfs, ours", kind: Kind::HybridOurs, stands_for: None },
    Contestant { name: "UFS1, unordered", kind: Kind::Ufs, stands_for: Some(1) },
    Contestant { name: "UFS1, in our driver's order", kind: Kind::UfsOrdered, stands_for: Some(1) },
    Contestant { name: "ext3", kind: Kind::Ext3, stands_for: Some(1) },
    Contestant { name: "LFS mode, no cleaner", kind: Kind::Lfs, stands_for: Some(2) },
    Contestant { name: "LFS mode, greedy cleaner", kind: Kind::LfsGreedy, stands_for: None },
    Contestant { name: "LFS mode, cost-benefit cleaner", kind: Kind::LfsCostBenefit, stands_for: None },
    Contestant { name: "ext4, log of 32 MiB", kind: Kind::Ext4, stands_for: Some(3) },
];

/// A file system on its disk.
pub struct Ground {
    pub kind: Kind,
    pub device: Buffered<Arc<SparseMemory>>,
}

/// What a piece of work came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub seconds: f64,
    pub reads: u64,
    pub writes: u64,
    pub bytes_written: u64,
}

impl Cost {
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// What was added since then.
    pub fn since(&self, before: &Cost) -> Cost {
        Cost {
            seconds: self.seconds - before.seconds,
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            bytes_written: self.bytes_written - before.bytes_written,
        }
    }

    /// As the paper has it.
    pub fn text(&self) -> String {
        format!("{} ({}+{})", self.requests(), self.reads, self.writes)
    }
}

impl Ground {
    /// An empty file system on the paper's disk.
    pub fn new(kind: Kind) -> io::Result<Self> {
        Ground::with(kind, HddDescription::barracuda_ata_iv().into(), PAPER_MEMORY, BYTES)
    }

    /// The same on another disk.
    pub fn with(kind: Kind, drive: Drive, memory: MemoryDescription, bytes: u64) -> io::Result<Self> {
        let inner = Arc::new(SparseMemory::new("disk", bytes));
        make(kind, Arc::clone(&inner) as Arc<dyn WritableDevice>)?;
        let memory = MemoryDescription { obeys: memory.obeys && kind != Kind::Ufs, ..memory };
        Ok(Ground { kind, device: Buffered::new(inner, drive, memory) })
    }

    pub fn now(&self) -> Duration {
        self.device.now()
    }

    /// What was done so far.
    pub fn count(&self) -> Cost {
        let statistics = self.device.statistics();
        Cost {
            seconds: self.now().as_secs_f64(),
            reads: statistics.reads,
            writes: statistics.writes,
            bytes_written: statistics.bytes_written,
        }
    }

    /// Mounts with nothing in memory, works, and unmounts. Only the work counts, with what it makes durable at its end.
    pub fn work<T>(
        &self,
        work: impl FnOnce(&mut Bench<'_>, &dyn Fn() -> Duration) -> Result<T>,
    ) -> io::Result<(T, Cost)> {
        let (mut driver, end, value, cost) = self.begin(work)?;
        driver.unmount(end).map_err(failed)?;
        Ok((value, cost))
    }

    /// The same, but the power fails at the end.
    pub fn abandon<T>(
        &self,
        work: impl FnOnce(&mut Bench<'_>, &dyn Fn() -> Duration) -> Result<T>,
    ) -> io::Result<()> {
        self.begin(work)?;
        self.device.empty();
        Ok(())
    }

    fn begin<T>(
        &self,
        work: impl FnOnce(&mut Bench<'_>, &dyn Fn() -> Duration) -> Result<T>,
    ) -> io::Result<(Box<dyn FileSystem>, Time, T, Cost)> {
        self.device.empty();
        let mut driver = mount(self.kind, Arc::new(self.device.clone()))?;
        let mut pace = Update { device: self.device.clone(), second: None, last: self.now() };
        let before = self.count();
        let (value, end) = {
            let mut bench = Bench::new(&mut *driver, SEED).with_zeroes().paced(&mut pace);
            let value = work(&mut bench, &|| self.now()).map_err(failed)?;
            (value, bench.tick())
        };
        self.device.write_out();
        let cost = self.count().since(&before);
        Ok((driver, end, value, cost))
    }
}

/// One of two disks on the same machine: each is as late as the other.
struct Together {
    own: Buffered<Arc<SparseMemory>>,
    other: Buffered<Arc<SparseMemory>>,
}

impl Together {
    fn meet(&self) {
        let late = self.other.now().saturating_sub(self.own.now());
        self.own.spend(late);
    }
}

impl Device for Together {
    fn name(&self) -> &str {
        self.own.name()
    }

    fn len(&self) -> u64 {
        self.own.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), ReadError> {
        self.meet();
        self.own.read_at(offset, buf)
    }
}

impl WritableDevice for Together {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> std::result::Result<(), WriteError> {
        self.meet();
        self.own.write_at(offset, bytes)
    }

    fn sync(&self) -> std::result::Result<(), WriteError> {
        self.meet();
        self.own.sync()
    }
}

/// Work on a hybridfs with the sizes of the paper whose log is on a second disk of the same kind: seconds, and requests of both.
pub fn on_two_disks(work: impl FnOnce(&mut Bench<'_>) -> Result<()>) -> io::Result<(f64, u64)> {
    let drive = || Drive::from(HddDescription::barracuda_ata_iv());
    let disk = |bytes| Buffered::new(Arc::new(SparseMemory::new("disk", bytes)), drive(), PAPER_MEMORY);
    let (data, log) = (disk(BYTES - LOG_BYTES), disk(LOG_BYTES));
    let shape = hybrid::Options { log_device: Some(*b"fsmend paper log"), ..paper(LOG_BYTES) };
    let place = hybrid::log_place(BYTES, &shape).map_err(io::Error::other)?;
    let joined = |one: Arc<dyn WritableDevice>, other: Arc<dyn WritableDevice>| {
        Joined::new(one, other, place).ok_or_else(|| io::Error::other("the log has no room"))
    };
    let below = joined(Arc::clone(data.inner()) as _, Arc::clone(log.inner()) as _)?;
    hybrid::mkfs(Arc::new(below), &shape).map_err(io::Error::other)?;
    let one = Together { own: data.clone(), other: log.clone() };
    let other = Together { own: log.clone(), other: data.clone() };
    let device = joined(Arc::new(one), Arc::new(other))?;
    let mut driver = mount(Kind::Hybrid, Arc::new(device))?;
    let mut pace = Update { device: data.clone(), second: Some(log.clone()), last: Duration::ZERO };
    let end = {
        let mut bench = Bench::new(&mut *driver, SEED).with_zeroes().paced(&mut pace);
        work(&mut bench).map_err(failed)?;
        bench.tick()
    };
    data.write_out();
    log.write_out();
    let seconds = data.now().max(log.now()).as_secs_f64();
    let requests = [&data, &log].map(|disk| disk.statistics()).map(|of| of.reads + of.writes);
    driver.unmount(end).map_err(failed)?;
    Ok((seconds, requests.iter().sum()))
}

/// What goes on beside a workload: computing, and the update daemon.
struct Update {
    device: Buffered<Arc<SparseMemory>>,
    /// That of the log, if there is one.
    second: Option<Buffered<Arc<SparseMemory>>>,
    last: Duration,
}

impl Pace for Update {
    fn rest(&mut self, fs: &mut dyn FileSystem, now: Time) -> Result<()> {
        let second = self.second.as_ref();
        let late = second.map_or(Duration::ZERO, |second| second.now().saturating_sub(self.device.now()));
        self.device.spend(late + OPERATION);
        self.device.next_file();
        second.into_iter().for_each(Buffered::next_file);
        if self.device.now() >= self.last + UPDATE_EVERY {
            fs.sync(now)?;
            self.device.write_out();
            second.into_iter().for_each(Buffered::write_out);
            self.last = self.device.now();
        }
        Ok(())
    }

    fn compute(&mut self, time: Duration) {
        self.device.spend(time);
    }
}

const UUID: [u8; 16] = *b"fsmend paper hfs";

fn now() -> Time {
    Time::at(1_000_000_000)
}

fn paper(log: u64) -> hybrid::Options {
    hybrid::Options { log_bytes: Some(log), inodes: Some(1 << 20), ..hybrid::Options::paper(UUID, now()) }
}

fn make(kind: Kind, device: Arc<dyn WritableDevice>) -> io::Result<()> {
    let bytes = device.len();
    // The same share of a smaller disk.
    let log = LOG_BYTES.min(bytes / LOG_SHARE);
    let hybrid = |options| hybrid::mkfs(Arc::clone(&device), &options).map_err(io::Error::other);
    let ext = |options| ext::mkfs(Arc::clone(&device), &options).map_err(io::Error::other);
    match kind {
        Kind::Hybrid => hybrid(paper(log)),
        Kind::HybridOurs => {
            let ours = hybrid::Options::new(UUID, now());
            hybrid(hybrid::Options { log_bytes: Some(log), inodes: Some(1 << 20), ..ours })
        }
        Kind::Lfs | Kind::LfsGreedy | Kind::LfsCostBenefit => hybrid(paper(bytes - LFS_REST)),
        Kind::Ext3 => ext(ext::Options::new(ext::Kind::Ext3, UUID, now())),
        Kind::Ext4 => ext(ext::Options {
            journal_blocks: Some(8192),
            ..ext::Options::new(ext::Kind::Ext4, UUID, now())
        }),
        Kind::Ufs | Kind::UfsOrdered => {
            let options = ufs::Options {
                block_size: BLOCK.into(),
                fragment_size: Some(FRAGMENT.into()),
                metadata_area: Some(0),
                ..ufs::Options::new(Version::Ufs1, [2007, 3], now())
            };
            ufs::mkfs(Arc::clone(&device), &options).map_err(io::Error::other)
        }
    }
}

/// Mounts it.
pub fn mount(kind: Kind, device: Arc<dyn WritableDevice>) -> io::Result<Box<dyn FileSystem>> {
    Ok(match kind {
        Kind::Hybrid | Kind::HybridOurs | Kind::Lfs | Kind::LfsGreedy | Kind::LfsCostBenefit => {
            let mut options = fsmend_hybridfs_driver::MountOptions::new(now());
            options.all_in_log = !matches!(kind, Kind::Hybrid | Kind::HybridOurs);
            options.cleaner = match kind {
                Kind::LfsGreedy => Some(Cleaning::Greedy),
                Kind::LfsCostBenefit => Some(Cleaning::CostBenefit),
                _ => None,
            };
            Box::new(Hybrid::mount(device, options).map_err(io::Error::other)?)
        }
        Kind::Ext3 | Kind::Ext4 => {
            let options = fsmend_ext_driver::MountOptions::new(now());
            Box::new(Ext::mount(device, options).map_err(io::Error::other)?)
        }
        Kind::Ufs | Kind::UfsOrdered => {
            let options = fsmend_ufs_driver::MountOptions::new(now());
            Box::new(Ufs::mount(device, options).map_err(io::Error::other)?)
        }
    })
}
