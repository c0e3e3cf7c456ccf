// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a workload works on: a file system, a clock, and where the luck comes from.

use std::time::Duration;

use fsmend_base::{InodeNo, SeededRandom, width};
use fsmend_vfs::{Allocation, Errno, FileSystem, Permissions, Result, Time};

/// Tells how much time has passed: that of a simulated disk, or the real one.
pub type Clock<'c> = dyn Fn() -> Duration + 'c;

/// Hears which part of a workload is being done, and how much of that part is done, 0 to 1.
pub type Observer<'o> = dyn FnMut(&str, f64) + 'o;

/// What goes on beside a workload.
pub trait Pace {
    /// Between two operations: time passes, and what has waited for long is made durable.
    fn rest(&mut self, fs: &mut dyn FileSystem, now: Time) -> Result<()>;

    /// The workload computes for so long.
    fn compute(&mut self, time: Duration);
}

/// A file system to work on. All times that files are given come from `time`, which moves by a second with each operation.
pub struct Bench<'f> {
    /// The file system.
    pub fs: &'f mut dyn FileSystem,
    /// Where decisions come from.
    pub random: SeededRandom,
    time: Time,
    buffer: Vec<u8>,
    refused: u64,
    observer: Option<&'f mut Observer<'f>>,
    pace: Option<&'f mut dyn Pace>,
}

/// Bytes written at a time.
pub(crate) const PIECE: usize = 1 << 20;

impl<'f> Bench<'f> {
    /// Works on `fs`; the same seed makes the same decisions.
    pub fn new(fs: &'f mut dyn FileSystem, seed: u64) -> Self {
        let mut content = SeededRandom::new(seed ^ 0x5EED);
        let buffer = (0..PIECE / 8).flat_map(|_| content.next_u64().to_le_bytes()).collect();
        let (random, time) = (SeededRandom::new(seed), Time::at(1_000_000_000));
        Bench { fs, random, time, buffer, refused: 0, observer: None, pace: None }
    }

    /// The same, with progress.
    pub fn observed(self, observer: &'f mut Observer<'f>) -> Self {
        Bench { observer: Some(observer), ..self }
    }

    /// The same, with something that goes on beside it.
    pub fn paced(self, pace: &'f mut dyn Pace) -> Self {
        Bench { pace: Some(pace), ..self }
    }

    /// The same, with files that hold nothing but zeroes: they take no room in a memory that leaves them out.
    pub fn with_zeroes(mut self) -> Self {
        self.buffer.fill(0);
        self
    }

    /// An operation is done.
    pub fn rest(&mut self) -> Result<()> {
        match &mut self.pace {
            Some(pace) => pace.rest(self.fs, self.time),
            None => Ok(()),
        }
    }

    /// Computes for so many microseconds.
    pub(crate) fn compute(&mut self, microseconds: u64) {
        if let Some(pace) = &mut self.pace {
            pace.compute(Duration::from_micros(microseconds));
        }
    }

    /// Says how much of a part is done.
    pub(crate) fn tell(&mut self, part: &str, done: f64) {
        if let Some(observer) = &mut self.observer {
            observer(part, done.clamp(0.0, 1.0));
        }
    }

    /// Files that were not made, or got fewer bytes than they should have, as there was no room: a workload goes on without.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// A moment later than all before.
    pub fn tick(&mut self) -> Time {
        self.time.seconds += 1;
        self.time
    }

    /// A number from `range`, both ends included, each as likely as the others.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.random.next_u64() % (high.saturating_sub(low) + 1)
    }

    /// Makes a folder.
    pub fn make_folder(&mut self, parent: InodeNo, name: &str) -> Result<InodeNo> {
        let now = self.tick();
        self.fs.mkdir(parent, name.as_bytes(), OWNER_OF_FOLDERS, now).map(|made| made.inode)
    }

    /// Makes an empty file.
    pub fn make_file(&mut self, parent: InodeNo, name: &str) -> Result<InodeNo> {
        let now = self.tick();
        let made = self.fs.create(parent, name.as_bytes(), OWNER_OF_FILES, now);
        self.refused += u64::from(matches!(made, Err(Errno::NoSpace)));
        made.map(|made| made.inode)
    }

    /// Writes `len` bytes from `offset` on. Returns how many were written: fewer when there is no more room.
    pub fn write(&mut self, inode: InodeNo, offset: u64, len: u64) -> Result<u64> {
        let now = self.tick();
        let mut done = 0;
        while done < len {
            let piece = width::index((len - done).min(PIECE as u64));
            match self.fs.write(inode, offset + done, &self.buffer[..piece], now) {
                Ok(0) | Err(Errno::NoSpace) => break,
                Ok(written) => done += written as u64,
                Err(error) => return Err(error),
            }
        }
        self.refused += u64::from(done < len);
        Ok(done)
    }

    /// Reads `len` bytes from `offset` on, in pieces of at most `piece` bytes; returns how many there were.
    pub fn read(&mut self, inode: InodeNo, offset: u64, len: u64, piece: usize) -> Result<u64> {
        let mut buf = vec![0; piece.clamp(1, PIECE)];
        let mut done = 0;
        while done < len {
            let want = width::index((len - done).min(buf.len() as u64));
            match self.fs.read(inode, offset + done, &mut buf[..want])? {
                0 => break,
                count => done += count as u64,
            }
        }
        Ok(done)
    }

    /// Gives `len` bytes of a file blocks from `offset` on, without writing data. Returns how many: fewer when there is no more room.
    pub fn claim(&mut self, inode: InodeNo, offset: u64, len: u64) -> Result<u64> {
        let now = self.tick();
        match self.fs.allocate(inode, offset, len, Allocation::Claimed, now) {
            Ok(()) => Ok(len),
            Err(Errno::NoSpace) => {
                self.refused += 1;
                // A part may have been done, and the file has that length.
                Ok(self.fs.getattr(inode)?.size.saturating_sub(offset))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes everything durable.
    pub fn sync(&mut self) -> Result<()> {
        let now = self.tick();
        self.fs.sync(now)
    }
}

const OWNER_OF_FILES: Permissions = Permissions { mode: 0o644, uid: 0, gid: 0 };
const OWNER_OF_FOLDERS: Permissions = Permissions { mode: 0o755, uid: 0, gid: 0 };
