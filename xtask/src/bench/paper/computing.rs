// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program of our own on a simulated disk: what it computes between two requests passes on the disk's clock, too.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs::File, io};

use fsmend_device::{Device, FileDevice, ReadError};
use fsmend_disksim::{Disk, Drive, Timed};
use rustix::fs::{Advice, fadvise};
use rustix::time::{ClockId, clock_gettime};

/// A page of memory.
const PAGE: u64 = 4096;

/// Nanoseconds of processor time of this process: a check with one worker is all that goes on in it.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A simulated disk over an image, with a page cache, and the processor time of the program that reads it. What the simulation itself takes is left out; to get the bytes
/// from the image is what the program has the kernel do.
pub struct Computing {
    timed: Timed<Metered>,
    clock: Mutex<Clock>,
    /// What the program read: first byte, and the one behind the last.
    reads: Mutex<Vec<(u64, u64)>>,
}

/// What is known of the processor's time.
#[derive(Default)]
struct Clock {
    /// Up to when it is accounted for, in nanoseconds.
    accounted: u64,
    /// How much of it was the program's.
    computed: u64,
}

/// An image, and the processor time that reading it took.
struct Metered {
    image: FileDevice,
    nanoseconds: AtomicU64,
}

impl Computing {
    /// A disk at rest with this image on it, of which nothing is in memory. The program computes from now on.
    pub fn new(image: &Path, drive: impl Into<Drive>) -> io::Result<Self> {
        fadvise(File::open(image)?, 0, None, Advice::DontNeed)?;
        let metered = Metered { image: FileDevice::open(image)?, nanoseconds: AtomicU64::new(0) };
        let clock = Clock { accounted: processor_time(), computed: 0 };
        Ok(Computing {
            timed: Timed::new(metered, drive).keeping_reads(),
            clock: Mutex::new(clock),
            reads: Mutex::default(),
        })
    }

    /// The program has ended: the disk, and the seconds for which the program computed.
    pub fn end(&self) -> (Disk, f64) {
        self.on_the_disk(|_| ());
        let clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        (self.timed.disk(), clock.computed as f64 / 1e9)
    }

    /// What the program has read so far, in the order of the disk, in whole pages, each once.
    pub fn stretches(&self) -> Vec<(u64, u64)> {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner).clone();
        reads.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (start, end) in reads {
            let (start, end) = (start / PAGE * PAGE, end.next_multiple_of(PAGE).min(self.len()));
            match joined.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        joined
    }

    /// Lets the time pass that the program has computed since the last request, and serves one.
    fn on_the_disk<T>(&self, serve: impl FnOnce(&Timed<Metered>) -> T) -> T {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let before = processor_time().saturating_sub(clock.accounted);
        self.timed.spend(Duration::from_nanos(before));
        let served = serve(&self.timed);
        let reading = self.timed.inner().nanoseconds.swap(0, Relaxed);
        self.timed.spend(Duration::from_nanos(reading));
        clock.computed += before + reading;
        clock.accounted = processor_time();
        served
    }
}

impl Device for Computing {
    fn name(&self) -> &str {
        self.timed.name()
    }

    fn len(&self) -> u64 {
        self.timed.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).push((offset, offset + buf.len() as u64));
        self.on_the_disk(|disk| disk.read_at(offset, buf))
    }

    fn readahead(&self, offset: u64, len: u64) {
        self.on_the_disk(|disk| disk.readahead(offset, len));
    }

    fn memory_max(&self) -> u64 {
        self.timed.memory_max()
    }
}

impl Device for Metered {
    fn name(&self) -> &str {
        self.image.name()
    }

    fn len(&self) -> u64 {
        self.image.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let before = processor_time();
        let read = self.image.read_at(offset, buf);
        self.nanoseconds.fetch_add(processor_time().saturating_sub(before), Relaxed);
        read
    }
}

#[cfg(test)]
mod tests {
    use fsmend_disksim::HddDescription;

    use super::*;

    fn compute(for_ns: u64) {
        let begun = processor_time();
        while processor_time() - begun < for_ns {}
    }

    #[test]
    fn computing_passes_on_the_clock_of_the_disk_and_goes_on_beside_it() {
        let path = std::env::temp_dir().join(format!("fsmend-computing-{}", std::process::id()));
        File::create(&path).and_then(|file| file.set_len(1 << 20)).expect("there is room for a file");
        // Other tests run in this process, too: it may be more, and never less.
        let disk = Computing::new(&path, HddDescription::default()).expect("the file is there");
        compute(30_000_000);
        disk.read_at(1 << 19, &mut [0; 512]).expect("within the file");
        let (model, computed) = disk.end();
        assert!(computed >= 0.03 && model.now().as_secs_f64() >= computed + 0.0001, "{computed}");
        let alone = model.now().as_secs_f64() - computed;
        // What is asked for early comes while the program computes.
        let disk = Computing::new(&path, HddDescription::default()).expect("the file is there");
        disk.readahead(1 << 19, 512);
        compute(30_000_000);
        disk.read_at(1 << 19, &mut [0; 512]).expect("within the file");
        let (model, computed) = disk.end();
        let waited = model.now().as_secs_f64() - computed;
        assert!(computed >= 0.03 && waited < alone / 2.0, "{waited} against {alone}");
        std::fs::remove_file(&path).expect("it is still there");
    }
}
