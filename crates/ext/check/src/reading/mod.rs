// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading many single blocks at once, in disk order.

mod window;

use fsmend_base::{BlockNo, width};
use fsmend_device::{BatchReader, ReadError, Request, coalesce};

use crate::Fs;

use window::GAP_MAX;
pub use window::Window;

/// Reads in flight per worker.
pub const DEPTH: usize = 32;
/// Largest merged request.
const REQUEST_MAX: u32 = 256 * 1024;

/// Longest stretch that is announced in one call.
const ANNOUNCED_MAX: u32 = 1024 * 1024;
/// Shorter stretches are not announced: a call to the kernel for each scattered block costs more than it brings.
const ANNOUNCED_MIN: u32 = 64 * 1024;

/// Tells the kernel that `blocks`, in ascending order, will be read soon.
pub fn announce_blocks(fs: &Fs<'_>, blocks: &[u64]) {
    for part in coalesce(&requests_for(fs, blocks), GAP_MAX, ANNOUNCED_MAX) {
        if part.request.len >= ANNOUNCED_MIN {
            fs.device.readahead(part.request.offset, u64::from(part.request.len));
        }
    }
}

/// Tells the kernel that all of `blocks` will be read, however far apart they are: for blocks that would else be waited for one by one.
pub fn announce_all(fs: &Fs<'_>, mut blocks: Vec<u64>) {
    blocks.sort_unstable();
    for part in coalesce(&requests_for(fs, &blocks), GAP_MAX, ANNOUNCED_MAX) {
        fs.device.readahead(part.request.offset, u64::from(part.request.len));
    }
}

fn requests_for(fs: &Fs<'_>, blocks: &[u64]) -> Vec<Request> {
    let size = fs.geometry.block_size;
    blocks.iter().map(|block| Request { offset: fs.block_offset(BlockNo(*block)), len: size }).collect()
}

/// Called with the index of a block and its contents.
pub type Visit<'v> = dyn FnMut(usize, Result<&[u8], ReadError>) + 'v;

/// What some reading cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Requests after merging.
    pub requests: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

/// Reads `blocks`, which are in ascending order (the same block may stand there twice), and calls `visit` with the index of
/// each block and its contents, in no particular order. A block that cannot be read does not take its neighbours along.
pub fn read_blocks(
    reader: &mut BatchReader<'_>,
    fs: &Fs<'_>,
    blocks: &[u64],
    visit: &mut Visit<'_>,
) -> Reading {
    read_within(&mut Window::default(), reader, fs, blocks, visit)
}

/// The same, within a window that learns from it.
pub fn read_within(
    window: &mut Window,
    reader: &mut BatchReader<'_>,
    fs: &Fs<'_>,
    blocks: &[u64],
    visit: &mut Visit<'_>,
) -> Reading {
    read_stretches(window, reader, fs, blocks, &mut |arrival| {
        if let Arrival::Block(index, contents) = arrival {
            visit(index, contents);
        }
    })
}

/// What has been read.
pub enum Arrival<'b> {
    /// The index of a block, and its contents.
    Block(usize, Result<&'b [u8], ReadError>),
    /// The number of the first block, and the contents of the blocks of a merged request: those handed out before, and what lies between them.
    Stretch(u64, &'b [u8]),
}

/// The same, where what lies between the blocks may be of use, too: each stretch is handed out behind its blocks.
pub fn read_stretches(
    window: &mut Window,
    reader: &mut BatchReader<'_>,
    fs: &Fs<'_>,
    blocks: &[u64],
    visit: &mut dyn FnMut(Arrival<'_>),
) -> Reading {
    let size = fs.geometry.block_size;
    let singles = requests_for(fs, blocks);
    let merged = coalesce(&singles, window.gap(), REQUEST_MAX.max(size));
    let requests: Vec<Request> = merged.iter().map(|part| part.request).collect();
    reader.read(&requests, &mut |index, result| {
        let part = &merged[index];
        for member in part.members.clone() {
            match &result {
                Ok(bytes) => {
                    let at = width::index(singles[member].offset - part.request.offset);
                    visit(Arrival::Block(member, Ok(&bytes[at..at + size as usize])));
                }
                Err(_) => match fs.read_block(BlockNo(blocks[member])) {
                    Ok(bytes) => visit(Arrival::Block(member, Ok(&bytes))),
                    Err(error) => visit(Arrival::Block(member, Err(error))),
                },
            }
        }
        if let Ok(bytes) = result {
            visit(Arrival::Stretch(blocks[part.members.start], bytes));
        }
    });
    let bytes = requests.iter().map(|request| u64::from(request.len)).sum();
    window.learn(blocks.len() as u64 * u64::from(size), bytes);
    Reading { requests: requests.len() as u64, bytes }
}
