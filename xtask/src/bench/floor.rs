// SPDX-License-Identifier: MIT OR Apache-2.0
//! The floor: what merely looking at all the metadata costs. Reads the same inode tables, directory blocks and pointer blocks in
//! large requests on all cores, runs CRC32c over each record and steps over the entries. Nothing is checked or kept.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use super::layout::{BLOCK, Layout, find};

/// Largest request.
const REQUEST: usize = 1 << 20;
/// Gaps up to this many bytes are read over.
const GAP: u64 = 16 << 10;
/// Readers per core when the device has to be waited for: a device wants many requests at once, and a floor with
/// fewer of them than `fsmend check` has would be none.
const COLD_READERS: usize = 32;

/// A piece of work: one request and what is in it.
enum Piece {
    Table { start: u64, len: usize },
    Directories { blocks: std::ops::Range<usize> },
    Pointers { blocks: std::ops::Range<usize> },
}

/// Measures the floor of `image` once, with the cache as it is, and prints seconds; beside them, as an error, those of processor time.
///
/// Finding the blocks warms the cache, so a cold measurement (`FSMEND_BENCH_COLD`) drops it between finding and reading,
/// and then reads everything from the device.
pub fn run_once(image: &Path, threads: usize) -> io::Result<()> {
    let layout = find(image)?;
    let is_cold = std::env::var_os("FSMEND_BENCH_COLD").is_some();
    let pieces = pieces(&layout);
    if is_cold {
        super::measure::drop_caches()?;
    }
    let readers = if is_cold { threads * COLD_READERS } else { threads };
    let (start, computed) = (Instant::now(), processor_time());
    read_all(image, &layout, &pieces, readers)?;
    println!("{}", start.elapsed().as_secs_f64());
    eprintln!("{} of processor time", processor_time() - computed);
    Ok(())
}

/// Seconds of processor time that this process has taken so far.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn read_all(image: &Path, layout: &Layout, pieces: &[Piece], threads: usize) -> io::Result<()> {
    let file = File::open(image)?;
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| -> io::Result<()> {
                    let mut buffer = vec![0; REQUEST];
                    while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                        step_over(&file, layout, piece, &mut buffer)?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")))
        })
    })
}

/// All work, in disk order.
fn pieces(layout: &Layout) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (start, len) in &layout.tables {
        for offset in (0..*len).step_by(REQUEST) {
            pieces.push(Piece::Table { start: start + offset as u64, len: (len - offset).min(REQUEST) });
        }
    }
    pieces.extend(requests(&layout.directories).map(|blocks| Piece::Directories { blocks }));
    pieces.extend(requests(&layout.pointers).map(|blocks| Piece::Pointers { blocks }));
    pieces.sort_by_key(|piece| match piece {
        Piece::Table { start, .. } => *start,
        Piece::Directories { blocks } => layout.directories[blocks.start],
        Piece::Pointers { blocks } => layout.pointers[blocks.start],
    });
    pieces
}

/// Cuts sorted block offsets into requests.
fn requests(offsets: &[u64]) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = *offsets.get(start)?;
        let mut end = start + 1;
        while end < offsets.len()
            && offsets[end] - offsets[end - 1] <= GAP
            && offsets[end] + BLOCK as u64 - first <= REQUEST as u64
        {
            end += 1;
        }
        let range = start..end;
        start = end;
        Some(range)
    })
}

fn step_over(file: &File, layout: &Layout, piece: &Piece, buffer: &mut [u8]) -> io::Result<()> {
    match piece {
        Piece::Table { start, len } => {
            file.read_exact_at(&mut buffer[..*len], *start)?;
            for record in buffer[..*len].chunks(layout.inode_size) {
                if record[0] != 0 || record[1] != 0 {
                    black_box(fsmend_ext_format::checksum::crc32c(0, record));
                }
            }
            Ok(())
        }
        Piece::Directories { blocks } => {
            each_block(file, &layout.directories[blocks.clone()], buffer, |block| {
                if layout.are_directories_sealed {
                    black_box(fsmend_ext_format::checksum::crc32c(0, block));
                }
                black_box(step_over_entries(block));
            })
        }
        Piece::Pointers { blocks } => each_block(file, &layout.pointers[blocks.clone()], buffer, |block| {
            let pointers = block
                .chunks_exact(4)
                .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
            black_box(pointers.fold(0, u32::wrapping_add));
        }),
    }
}

fn each_block(file: &File, offsets: &[u64], buffer: &mut [u8], look: impl Fn(&[u8])) -> io::Result<()> {
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return Ok(()) };
    file.read_exact_at(&mut buffer[..(last - first) as usize + BLOCK], *first)?;
    for offset in offsets {
        let at = (offset - first) as usize;
        look(&buffer[at..at + BLOCK]);
    }
    Ok(())
}

fn step_over_entries(block: &[u8]) -> u32 {
    let (mut at, mut names) = (0, 0);
    while at + 8 <= block.len() {
        let len = usize::from(u16::from_le_bytes([block[at + 4], block[at + 5]]));
        names += u32::from(block[at + 6]);
        at += len.max(8);
    }
    names
}
