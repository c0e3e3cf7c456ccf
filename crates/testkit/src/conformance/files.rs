// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading and writing one file at random, beside the bytes that it should hold: through a driver, or through the kernel from a mount.

use std::fs::File;
use std::os::unix::fs::FileExt;

use fsmend_base::{InodeNo, SeededRandom};
use fsmend_vfs::{Allocation, Errno, FileSystem, SetAttributes, Time};

/// A file to be worked on.
pub trait Subject {
    /// Reads up to `buf.len()` bytes.
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize, String>;
    /// Writes all of it.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String>;
    /// Cuts it, or makes it longer.
    fn cut(&mut self, size: u64) -> Result<(), String>;
    /// Has room for a range; whether that can be done at all.
    fn allocate(&mut self, offset: u64, len: u64, keep_size: bool) -> Result<bool, String>;
    /// Makes a hole; whether that can be done at all.
    fn punch(&mut self, offset: u64, len: u64) -> Result<bool, String>;
    /// Length.
    fn size(&mut self) -> Result<u64, String>;
    /// Makes it durable, and has the next read come from below where that can be had.
    fn settle(&mut self) -> Result<(), String>;
}

/// Does `count` things that belong to `seed` to an empty file, which may get as long as `size_max`. The error says what went wrong with which operation.
pub fn work(subject: &mut dyn Subject, seed: u64, count: u64, size_max: u64) -> Result<(), String> {
    let mut random = SeededRandom::new(seed);
    let mut model: Vec<u8> = Vec::new();
    for number in 0..count {
        let mut said = String::new();
        one(subject, &mut random, &mut model, size_max, &mut said)
            .map_err(|why| format!("seed {seed}, operation {number} ({said}): {why}"))?;
        let size = subject.size()?;
        if size != model.len() as u64 {
            return Err(format!(
                "seed {seed}, operation {number} ({said}): {size} bytes long, not {}",
                model.len()
            ));
        }
    }
    subject.settle()?;
    compare(subject, &model, 0, model.len()).map_err(|why| format!("seed {seed}, at the end: {why}"))
}

fn one(
    subject: &mut dyn Subject,
    random: &mut SeededRandom,
    model: &mut Vec<u8>,
    size_max: u64,
    said: &mut String,
) -> Result<(), String> {
    // Most of the time not far behind the end, and often at the edge of a page.
    let near = (model.len() as u64 + 20_000).min(size_max);
    let reach = if random.below(20) == 0 { size_max } else { near };
    let offset = random.below(reach);
    let offset = if random.below(4) == 0 { offset & !4095 } else { offset };
    let longest = if random.below(4) == 0 { 70_000 } else { 6_000 };
    let len = (1 + random.below(longest)).min(size_max - offset);
    let end = (offset + len) as usize;
    match random.below(20) {
        0..=7 => {
            *said = format!("write {len} at {offset}");
            let bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8 | 1).collect();
            subject.write(offset, &bytes)?;
            model.resize(model.len().max(end), 0);
            model[offset as usize..end].copy_from_slice(&bytes);
        }
        8..=13 => {
            *said = format!("read {len} at {offset}");
            return compare(subject, model, offset as usize, end);
        }
        14 => {
            *said = format!("cut to {offset}");
            subject.cut(offset)?;
            model.resize(offset as usize, 0);
        }
        15 => {
            *said = format!("cut near the end, by {}", len.min(5_000));
            let size = (model.len() as u64).saturating_sub(len.min(5_000));
            subject.cut(size)?;
            model.truncate(size as usize);
        }
        16 => {
            *said = format!("allocate {len} at {offset}");
            if subject.allocate(offset, len, false)? {
                model.resize(model.len().max(end), 0);
            }
        }
        17 => {
            *said = format!("allocate {len} at {offset} within the size");
            subject.allocate(offset, len, true)?;
        }
        18 => {
            *said = format!("punch {len} at {offset}");
            if subject.punch(offset, len)? {
                let (from, to) = ((offset as usize).min(model.len()), end.min(model.len()));
                model[from..to].fill(0);
            }
        }
        _ => {
            *said = "settle".to_owned();
            subject.settle()?;
        }
    }
    Ok(())
}

fn compare(subject: &mut dyn Subject, model: &[u8], from: usize, to: usize) -> Result<(), String> {
    let expected = &model[from.min(model.len())..to.min(model.len())];
    let mut bytes = vec![0xEE; to - from];
    let mut read = 0;
    while read < bytes.len() {
        match subject.read((from + read) as u64, &mut bytes[read..])? {
            0 => break,
            more => read += more,
        }
    }
    if read != expected.len() {
        return Err(format!("{read} bytes were read, not {}", expected.len()));
    }
    match expected.iter().zip(&bytes).position(|(one, other)| one != other) {
        Some(at) => Err(format!("byte {} is {:#x}, not {:#x}", from + at, bytes[at], expected[at])),
        None => Ok(()),
    }
}

/// A file of a driver.
pub struct Driven<'f> {
    /// The file system.
    pub fs: &'f mut dyn FileSystem,
    /// The file.
    pub inode: InodeNo,
    /// The time, which stands still.
    pub now: Time,
}

impl Driven<'_> {
    fn words<T>(result: Result<T, Errno>) -> Result<T, String> {
        result.map_err(|error| error.to_string())
    }
}

impl Subject for Driven<'_> {
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize, String> {
        Self::words(self.fs.read(self.inode, offset, buf))
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let mut at = 0;
        while at < bytes.len() {
            at += Self::words(self.fs.write(self.inode, offset + at as u64, &bytes[at..], self.now))?;
        }
        Ok(())
    }

    fn cut(&mut self, size: u64) -> Result<(), String> {
        let changes = SetAttributes { size: Some(size), ..Default::default() };
        Self::words(self.fs.setattr(self.inode, &changes, self.now)).map(|_| ())
    }

    fn allocate(&mut self, offset: u64, len: u64, keep_size: bool) -> Result<bool, String> {
        let how = if keep_size { Allocation::UnwrittenKeepSize } else { Allocation::Unwritten };
        match self.fs.allocate(self.inode, offset, len, how, self.now) {
            Err(Errno::NotSupported) => Ok(false),
            result => Self::words(result).map(|()| true),
        }
    }

    fn punch(&mut self, _: u64, _: u64) -> Result<bool, String> {
        Ok(false)
    }

    fn size(&mut self) -> Result<u64, String> {
        Self::words(self.fs.getattr(self.inode)).map(|of| of.size)
    }

    fn settle(&mut self) -> Result<(), String> {
        Self::words(self.fs.fsync(self.inode, false, self.now))
    }
}

impl Subject for File {
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize, String> {
        self.read_at(buf, offset).map_err(|error| error.to_string())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        self.write_all_at(bytes, offset).map_err(|error| error.to_string())
    }

    fn cut(&mut self, size: u64) -> Result<(), String> {
        self.set_len(size).map_err(|error| error.to_string())
    }

    fn allocate(&mut self, offset: u64, len: u64, keep_size: bool) -> Result<bool, String> {
        use rustix::fs::FallocateFlags;
        let flags = if keep_size { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        can_be_done(rustix::fs::fallocate(&*self, flags, offset, len))
    }

    fn punch(&mut self, offset: u64, len: u64) -> Result<bool, String> {
        use rustix::fs::FallocateFlags;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        can_be_done(rustix::fs::fallocate(&*self, flags, offset, len))
    }

    fn size(&mut self) -> Result<u64, String> {
        self.metadata().map(|of| of.len()).map_err(|error| error.to_string())
    }

    fn settle(&mut self) -> Result<(), String> {
        self.sync_all().map_err(|error| error.to_string())?;
        let all = rustix::fs::fadvise(&*self, 0, None, rustix::fs::Advice::DontNeed);
        all.map_err(|error| error.to_string())
    }
}

fn can_be_done(result: rustix::io::Result<()>) -> Result<bool, String> {
    match result {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}
