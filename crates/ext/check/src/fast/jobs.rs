// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories that wait to be read, and the fast path through each.

use fsmend_base::InodeNo;
use fsmend_device::BatchReader;
use fsmend_engine::scan::certification::DirectorySummary;
use fsmend_ext_format::inode::{InodeFlags, RawInode};

use crate::Fs;
use crate::fast::directory::{DirectoryFastPath, LargeDirectorySummary, summarize_large};
use crate::inode::MapRun;
use crate::reading::read_blocks;

/// What one directory block weighs beside other work: about as much as so many inodes.
pub const WEIGHT_PER_BLOCK: u64 = 16;

/// A directory whose blocks are known and filled without holes. Small, as there are millions of them.
#[derive(Clone, Debug, Default)]
pub struct DirectoryJob {
    /// The directory.
    pub inode: InodeNo,
    /// Its generation.
    pub generation: u32,
    /// Where its first block lies.
    pub first_block: u64,
    /// What directories of one block without an index do not have.
    larger: Option<Box<Larger>>,
}

/// What there is to know of larger directories.
#[derive(Clone, Debug)]
struct Larger {
    /// Whether it says that it has an index.
    indexed: bool,
    /// Its map; empty when the first block is the only one.
    runs: Box<[MapRun]>,
}

impl DirectoryJob {
    /// The job for a directory with this map, which has no holes.
    pub fn new(inode: InodeNo, generation: u32, flags: InodeFlags, runs: &[MapRun]) -> Self {
        let indexed = flags.contains(InodeFlags::INDEX);
        let several = runs.len() > 1 || runs.first().is_some_and(|run| run.count > 1);
        let runs_kept = || if several { Box::from(runs) } else { Box::default() };
        DirectoryJob {
            inode,
            generation,
            first_block: runs.first().map_or(0, |run| run.physical),
            larger: (indexed || several).then(|| Box::new(Larger { indexed, runs: runs_kept() })),
        }
    }

    /// Its map; empty when `first_block` is the only block.
    pub fn runs(&self) -> &[MapRun] {
        self.larger.as_ref().map_or(&[], |larger| &larger.runs)
    }

    /// Whether it has only one block.
    pub fn is_single(&self) -> bool {
        self.runs().is_empty()
    }

    /// Memory that it holds beside its own size.
    pub fn bytes_beside(&self) -> usize {
        self.larger.as_ref().map_or(0, |larger| size_of::<Larger>() + size_of_val(&*larger.runs))
    }

    fn is_indexed(&self) -> bool {
        self.larger.as_ref().is_some_and(|larger| larger.indexed)
    }

    /// The job for a directory that was inspected, if there is nothing unusual about its contents.
    pub fn of_inspected(inode: InodeNo, record: &[u8], runs: &[MapRun], inline: bool) -> Option<Self> {
        let raw = RawInode::from_record(record);
        let unusual = InodeFlags::CASEFOLD | InodeFlags::ENCRYPT | InodeFlags::INLINE_DATA;
        let mut next = 0;
        let filled = runs.iter().all(|run| {
            let follows = run.logical == next && !run.unwritten;
            next = run.logical + u64::from(run.count);
            follows
        });
        let plain = !inline && filled && next > 0 && !raw.flags().intersects(unusual);
        plain.then(|| DirectoryJob::new(inode, raw.i_generation.get(), raw.flags(), runs))
    }

    /// What it weighs beside other work, in blocks of inode tables.
    pub fn weight(&self) -> u64 {
        WEIGHT_PER_BLOCK * self.runs().iter().map(|run| u64::from(run.count)).sum::<u64>().max(1)
    }

    /// Tries to prove the directory, whose only block holds `block`.
    pub fn summarize_single(
        &self,
        fast_path: &DirectoryFastPath<'_>,
        block: &[u8],
        summary: &mut DirectorySummary,
    ) -> bool {
        !self.is_indexed()
            && fast_path
                .summarize_block((self.inode, self.generation), block, (self.first_block, 0), true, summary)
                .is_some()
            && summary.names_are_unique()
    }

    /// Reads the directory, whatever its size, and tries to prove it.
    pub fn summarize(
        &self,
        fast_path: &DirectoryFastPath<'_>,
        fs: &Fs<'_>,
        reader: &mut BatchReader<'_>,
        summary: &mut DirectorySummary,
    ) -> LargeDirectorySummary {
        summary.clear();
        if !self.is_single() {
            let place = (self.inode, self.generation, self.is_indexed());
            return summarize_large(fast_path, fs, reader, place, self.runs(), summary);
        }
        let mut clean = false;
        let reading = read_blocks(reader, fs, &[self.first_block], &mut |_, result| {
            clean = result.is_ok_and(|block| self.summarize_single(fast_path, block, summary));
        });
        LargeDirectorySummary { clean, blocks: 1, requests: reading.requests, bytes: reading.bytes }
    }
}
