// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and writes of single large files, as in §5.3 of the paper on ffsck.

use std::time::Duration;

use fsmend_base::{InodeNo, width};
use fsmend_vfs::Result;

use crate::{Bench, Clock};

/// What was moved in which time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// Bytes.
    pub bytes: u64,
    /// The clock's time for it.
    pub time: Duration,
}

impl Moved {
    /// Millions of bytes per second; 0 if no time has passed.
    pub fn rate(&self) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 { self.bytes as f64 / seconds / 1e6 } else { 0.0 }
    }
}

/// Does something, and says what time it took.
fn timed(clock: &Clock<'_>, work: impl FnOnce() -> Result<u64>) -> Result<Moved> {
    let before = clock();
    let bytes = work()?;
    Ok(Moved { bytes, time: clock().saturating_sub(before) })
}

/// How often a file system that is written to commits by itself if nothing else is said.
const COMMIT_EVERY: Duration = Duration::from_secs(5);
/// Bytes that are written before the clock is read.
const WRITTEN_BETWEEN: u64 = 16 << 20;

/// Makes a file of `len` bytes from start to end, and makes it durable: that is a part of the time. Every five seconds of it, what was done so far is committed.
pub fn write_in_a_row(
    bench: &mut Bench<'_>,
    clock: &Clock<'_>,
    (folder, name): (InodeNo, &str),
    len: u64,
) -> Result<(InodeNo, Moved)> {
    let inode = bench.make_file(folder, name)?;
    let moved = timed(clock, || {
        let (mut written, mut committed) = (0, clock());
        while written < len {
            bench.tell("writing", written as f64 / len as f64);
            let part = bench.write(inode, written, (len - written).min(WRITTEN_BETWEEN))?;
            if part == 0 {
                break;
            }
            written += part;
            if clock().saturating_sub(committed) >= COMMIT_EVERY {
                bench.sync()?;
                committed = clock();
            }
        }
        let now = bench.tick();
        bench.fs.fsync(inode, false, now)?;
        Ok(written)
    })?;
    Ok((inode, moved))
}

/// Reads a file from start to end, `piece` bytes at a time.
pub fn read_in_a_row(
    bench: &mut Bench<'_>,
    clock: &Clock<'_>,
    inode: InodeNo,
    piece: usize,
) -> Result<Moved> {
    let len = bench.fs.getattr(inode)?.size;
    timed(clock, || bench.read(inode, 0, len, piece))
}

/// Reads `count` blocks of a file, each as likely as the others (Figure 15).
pub fn read_at_random(bench: &mut Bench<'_>, clock: &Clock<'_>, inode: InodeNo, count: u64) -> Result<Moved> {
    let (block, blocks) = blocks_of(bench, inode)?;
    timed(clock, || {
        (0..count).try_fold(0, |sum, number| {
            bench.tell("reading", number as f64 / count as f64);
            let at = bench.between(0, blocks - 1);
            Ok(sum + bench.read(inode, at * block, block, width::index(block))?)
        })
    })
}

/// Reads one block at random of each stretch of `stride` blocks: with as many as an indirect block maps, all indirect blocks in turn and
/// hardly any data (Figures 16 and 17).
pub fn read_in_strides(
    bench: &mut Bench<'_>,
    clock: &Clock<'_>,
    inode: InodeNo,
    stride: u64,
) -> Result<Moved> {
    let (block, blocks) = blocks_of(bench, inode)?;
    let stride = stride.max(1);
    timed(clock, || {
        (0..blocks).step_by(width::index(stride)).try_fold(0, |sum, first| {
            bench.tell("reading", first as f64 / blocks as f64);
            let at = bench.between(first, (first + stride).min(blocks) - 1);
            Ok(sum + bench.read(inode, at * block, block, width::index(block))?)
        })
    })
}

/// Bytes of a block, and blocks of a file: one at least.
fn blocks_of(bench: &mut Bench<'_>, inode: InodeNo) -> Result<(u64, u64)> {
    let block = u64::from(bench.fs.statfs()?.block_size).max(1);
    Ok((block, bench.fs.getattr(inode)?.size.div_ceil(block).max(1)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::Cell;

    use super::*;
    use crate::testing::Fake;

    #[test]
    fn bytes_and_times_are_those_of_the_work() {
        let mut fake = Fake::new(100_000);
        let mut bench = Bench::new(&mut fake, 1);
        let ticks = Cell::new(0);
        let clock = || {
            ticks.set(ticks.get() + 1);
            Duration::from_secs(ticks.get())
        };
        let root = bench.fs.root();
        let (file, written) = write_in_a_row(&mut bench, &clock, (root, "large"), 10_000_000).unwrap();
        // The clock was asked four times: before and behind it, when the first piece began, and when it was written.
        assert_eq!(written, Moved { bytes: 10_000_000, time: Duration::from_secs(3) });
        assert!((written.rate() - 3.33).abs() < 0.01);
        assert_eq!(read_in_a_row(&mut bench, &clock, file, 65_536).unwrap().bytes, 10_000_000);
        assert!(read_at_random(&mut bench, &clock, file, 128).unwrap().bytes > 127 * 4096);
        let strides = read_in_strides(&mut bench, &clock, file, 1024).unwrap();
        assert!((2 * 4096..=3 * 4096).contains(&strides.bytes), "10 MB are 2442 blocks");
        let reads = fake.log.iter().filter(|line| line.starts_with("read")).count();
        assert_eq!(reads, 10_000_000usize.div_ceil(65_536) + 128 + 3);
        assert!(fake.log.iter().any(|line| line.starts_with("fsync")));
    }
}
