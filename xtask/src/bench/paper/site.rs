// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file system on the simulated disk, to be worked on.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fsmend_device::{Device, ReadError, WritableDevice, WritableFile, WriteError};
use fsmend_disksim::{DiskStatistics, HddDescription, Timed};
use fsmend_lab::Bench;
use fsmend_vfs::{Errno, FileSystem};

use super::images::{self, Contestant, failed};

/// The disk under a file system. What is read of certain places is told apart from the rest.
pub struct Site<'c> {
    contestant: &'c Contestant,
    home_at_sync: bool,
    disk: Arc<Split>,
}

/// A simulated disk that knows which of its bytes are data of the file that is looked at.
struct Split {
    timed: Timed<WritableFile>,
    /// First byte and the one behind the last of each run, ascending.
    data: Mutex<Vec<(u64, u64)>>,
    /// Time for reading data, and for everything else that was read.
    times: Mutex<(Duration, Duration)>,
}

impl<'c> Site<'c> {
    /// An empty file system of so many GiB in a new file.
    pub fn new(image: &Path, gib: u64, contestant: &'c Contestant) -> io::Result<Self> {
        Site::with(image, gib, contestant, (HddDescription::default(), false))
    }

    /// The same on another disk, and with what is synchronised written home at once if that is wanted.
    pub fn with(
        image: &Path,
        gib: u64,
        contestant: &'c Contestant,
        (drive, home_at_sync): (HddDescription, bool),
    ) -> io::Result<Self> {
        images::make_empty(image, gib << 30, contestant)?;
        let timed = Timed::new(WritableFile::open(image, false)?, drive);
        let disk = Arc::new(Split { timed, data: Mutex::default(), times: Mutex::default() });
        Ok(Site { contestant, home_at_sync, disk })
    }

    /// The time that has passed on the disk.
    pub fn now(&self) -> Duration {
        self.disk.timed.now()
    }

    /// What the disk has done.
    pub fn statistics(&self) -> DiskStatistics {
        self.disk.timed.disk().statistics()
    }

    /// From here on, reads of these runs are data.
    pub fn watch(&self, mut runs: Vec<(u64, u64)>) {
        runs.sort_unstable();
        *self.disk.data.lock().unwrap_or_else(PoisonError::into_inner) = runs;
        *self.disk.times.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
    }

    /// Time for reading data since then, and for everything else.
    pub fn times(&self) -> (Duration, Duration) {
        *self.disk.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Mounts, with nothing in memory; works; unmounts. Returns what came of it, and the time of the work and of unmounting.
    pub fn mounted<T>(
        &self,
        seed: u64,
        work: impl FnOnce(&mut Bench<'_>, &dyn Fn() -> Duration) -> Result<T, Errno>,
    ) -> io::Result<(T, Duration, Duration)> {
        self.disk.timed.drop_caches();
        let device = Arc::clone(&self.disk) as Arc<dyn WritableDevice>;
        let mut driver = images::mount_with(device, self.contestant, self.home_at_sync)?;
        let clock = || self.now();
        let begin = self.now();
        let (value, end) = {
            let mut bench = Bench::new(&mut driver, seed);
            let value = work(&mut bench, &clock).map_err(failed)?;
            (value, bench.tick())
        };
        let worked = self.now();
        driver.unmount(end).map_err(failed)?;
        Ok((value, worked.saturating_sub(begin), self.now().saturating_sub(worked)))
    }
}

impl Device for Split {
    fn name(&self) -> &str {
        self.timed.name()
    }

    fn len(&self) -> u64 {
        self.timed.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let before = self.timed.now();
        self.timed.read_at(offset, buf)?;
        let took = self.timed.now().saturating_sub(before);
        let data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        let at = data.partition_point(|run| run.1 <= offset);
        let is_data = data.get(at).is_some_and(|run| run.0 <= offset);
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        if is_data {
            times.0 += took
        } else {
            times.1 += took
        }
        Ok(())
    }
}

impl WritableDevice for Split {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.timed.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<(), WriteError> {
        self.timed.sync()
    }
}
