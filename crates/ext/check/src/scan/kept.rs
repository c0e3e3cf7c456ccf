// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks of directories that come by with their region, kept until the whole directory has: so that none is read twice.

use std::collections::BTreeMap;

use fsmend_base::{BlockRange, width};
use fsmend_device::{BatchReader, Device, ReadBackend, ReadError};

use crate::Fs;
use crate::fast::jobs::DirectoryJob;

/// Most blocks that are kept; what is more is read later.
const BLOCKS_MAX: usize = 256;
/// Larger directories are not kept: their maps are walked anyway, or they take more room than a worker has.
const BLOCKS_OF_ONE: u64 = 12;

/// What is kept of one region, as a device of which nothing else can be read.
pub(super) struct Kept<'f> {
    fs: &'f Fs<'f>,
    /// None yet where a block is wanted and has not come by.
    blocks: BTreeMap<u64, Option<Box<[u8]>>>,
}

impl<'f> Kept<'f> {
    /// Wants the blocks of those of the `jobs` that have several, all of them in `region`.
    pub fn wanting(fs: &'f Fs<'f>, jobs: &[DirectoryJob], region: BlockRange) -> Self {
        let mut kept = Kept { fs, blocks: BTreeMap::new() };
        for job in jobs {
            let count: u64 = job.runs().iter().map(|run| u64::from(run.count)).sum();
            let is_here = |block: u64| block >= region.start.0 && block < region.end();
            let fits = count <= BLOCKS_OF_ONE && kept.blocks.len() + width::index(count) <= BLOCKS_MAX;
            if fits && blocks_of(job).all(is_here) {
                kept.blocks.extend(blocks_of(job).map(|block| (block, None)));
            }
        }
        kept
    }

    /// Wants nothing any more.
    pub fn give_up(&mut self) {
        self.blocks.clear();
    }

    /// Memory for what is wanted, and for reading it.
    pub fn bytes(&self) -> u64 {
        match self.blocks.len() as u64 {
            0 => 0,
            count => count * u64::from(self.fs.geometry.block_size) + BatchReader::BUFFER_BYTES_MIN as u64,
        }
    }

    /// Keeps a block if it is wanted.
    pub fn offer(&mut self, block: u64, contents: &[u8]) {
        if let Some(place) = self.blocks.get_mut(&block) {
            *place = Some(contents.into());
        }
    }

    /// Whether all blocks of a directory of several are there.
    pub fn holds(&self, job: &DirectoryJob) -> bool {
        !job.is_single() && blocks_of(job).all(|block| self.blocks.get(&block).is_some_and(Option::is_some))
    }

    /// Reads what is kept.
    pub fn reader(&self) -> BatchReader<'_> {
        BatchReader::with_buffers(self, ReadBackend::Pread, 1, BatchReader::BUFFER_BYTES_MIN)
    }
}

fn blocks_of(job: &DirectoryJob) -> impl Iterator<Item = u64> {
    job.runs().iter().flat_map(|run| run.physical..run.physical + u64::from(run.count))
}

impl Device for Kept<'_> {
    fn name(&self) -> &str {
        self.fs.device.name()
    }

    fn len(&self) -> u64 {
        self.fs.device.len()
    }

    /// What is not kept reads as zeroes: it lies between blocks that are wanted, where reads are joined.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let size = u64::from(self.fs.geometry.block_size);
        let mut rest = buf;
        let mut at = offset;
        while !rest.is_empty() {
            let within = at % size;
            let len = width::index(size - within).min(rest.len());
            let (part, behind) = rest.split_at_mut(len);
            let contents = self.blocks.get(&(at / size)).and_then(Option::as_deref);
            match contents.and_then(|contents| contents.get(width::index(within)..width::index(within) + len))
            {
                Some(bytes) => part.copy_from_slice(bytes),
                None => part.fill(0),
            }
            (rest, at) = (behind, at + len as u64);
        }
        Ok(())
    }
}
