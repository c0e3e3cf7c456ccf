//! What clean directories count, and how it is taken back.
//!
//! Directories are proved while other inode tables are still being read, so when an entry is seen, what it leads to may or
//! may not be known: that depends on timing, and the outcome must not. It does not, for these reasons:
//!
//! 1. A directory counts all or nothing. It counts nothing when its bytes are no proof, or when an entry contradicts
//!    facts that are known already. Otherwise it counts its `.`, its `..` and every name once: at once where the fact
//!    is there, else when the pending ones are certified.
//! 2. So after certification, exactly these directories keep what they counted: those whose bytes are a proof and whose
//!    every entry the *final* facts bear out. The others either counted nothing, or are guilty and withdrawn; whichever
//!    it was, they are inspected then. (Facts that changed after they were known do no harm: whoever holds an entry that
//!    leads to such an inode is guilty, whatever it may have been certified with.)
//! 3. Withdrawing runs the same proof over the same bytes, and takes back each thing that [`DeferredCertification::count`] counted.
//! 4. Numbers of links are sums, which have no order. Parents are not: of several names of one directory, the first one
//!    seen would win. But then the directory is contested, and its parent is found anew from the names in those
//!    directories that are clean by 2, however it came to be contested.
//!
//! Inspections come after all that, one by one, in the order of the inodes.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::InodeNo;
use fsmend_device::BatchReader;
use fsmend_engine::inodes::{InodeTable, Kind, Place};
use fsmend_ext_format::inode::{RawInode, flags};

use crate::Fs;
use crate::fast::directory::{
    Certainty, DirectoryFastPath, DirectorySummary, LargeDirectorySummary, Target, summarize_large,
};
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
    pub fn new(inode: InodeNo, generation: u32, flags_word: u32, runs: &[MapRun]) -> Self {
        let indexed = flags_word & flags::INDEX != 0;
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
        let unusual = flags::CASEFOLD | flags::ENCRYPT | flags::INLINE_DATA;
        let mut next = 0;
        let filled = runs.iter().all(|run| {
            let follows = run.logical == next && !run.unwritten;
            next = run.logical + u64::from(run.count);
            follows
        });
        let plain = !inline && filled && next > 0 && raw.i_flags.get() & unusual == 0;
        plain.then(|| DirectoryJob::new(inode, raw.i_generation.get(), raw.i_flags.get(), runs))
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

/// An entry that is certified once all facts are there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pending {
    /// The directory that holds the entry.
    pub directory: InodeNo,
    /// What it leads to.
    pub target: InodeNo,
    /// What the entry says it is.
    pub kind: Kind,
    /// Whether it is a name, not `..`.
    pub is_name: bool,
}

/// Counts for directories that are proved.
#[derive(Clone, Copy)]
pub struct DeferredCertification<'a> {
    fast_path: &'a DirectoryFastPath<'a>,
    inodes: &'a InodeTable,
}

impl<'a> DeferredCertification<'a> {
    /// A deferred certification in which entries are written that `fast path` certifies.
    pub fn new(fast_path: &'a DirectoryFastPath<'a>, inodes: &'a InodeTable) -> Self {
        DeferredCertification { fast_path, inodes }
    }

    /// Counts all entries of a directory, those that have to wait as `pending` ones. Counts nothing, and returns false,
    /// when what is known contradicts one of them.
    pub fn count(
        &self,
        directory: InodeNo,
        summary: &mut DirectorySummary,
        pending: &mut Vec<Pending>,
    ) -> bool {
        let DirectorySummary { parent_entry, targets, places, .. } = summary;
        let parent = self.fast_path.certify_parent(*parent_entry);
        // Most directories lead to neighbours of one another.
        let first = targets.first().and_then(|target| self.inodes.published(target.inode));
        let near = first.filter(|chunk| self.fast_path.certify_all(*chunk, targets));
        places.clear();
        if near.is_none() {
            for target in &*targets {
                let (certainty, place) = self.fast_path.certify(*target);
                if certainty == Certainty::Suspect {
                    return false;
                }
                places.push(place);
            }
        }
        if parent == Certainty::Suspect {
            return false;
        }
        if let Some(fact) = self.inodes.directory(directory) {
            fact.parent_entry.store(parent_entry.0, Relaxed);
        }
        self.inodes.observe_link(directory);
        if parent == Certainty::Right {
            self.inodes.observe_link(*parent_entry);
        } else {
            let (target, kind) = (*parent_entry, Kind::Directory);
            pending.push(Pending { directory, target, kind, is_name: false });
        }
        if let Some(chunk) = near {
            for Target { inode, kind } in &*targets {
                chunk.observe_link(*inode);
                if *kind == Kind::Directory {
                    chunk.set_parent(*inode, directory);
                }
            }
        }
        // Where that was not so.
        for (target, place) in targets.iter().zip(&*places) {
            match place {
                Some(place) => self.observe(directory, *target, *place),
                None => {
                    let Target { inode, kind } = *target;
                    pending.push(Pending { directory, target: inode, kind, is_name: true });
                }
            }
        }
        true
    }

    /// Whether some entry leads to inodes that have not been read.
    pub fn would_wait(&self, summary: &DirectorySummary) -> bool {
        self.fast_path.certify_parent(summary.parent_entry) == Certainty::Later
            || summary.targets.iter().any(|target| self.fast_path.certify(*target).0 == Certainty::Later)
    }

    #[inline]
    fn observe(&self, directory: InodeNo, target: Target, place: Place) {
        self.inodes.observe_link_at(place);
        let is_directory = match target.kind {
            Kind::Directory => true,
            // Entries without types.
            Kind::Unused => self.inodes.kind(target.inode) == Kind::Directory,
            _ => false,
        };
        if is_directory {
            self.inodes.set_parent_at(place, target.inode, directory);
        }
    }

    /// Counts what had to wait, also what the facts contradict: the directories returned hold such entries and have to
    /// be withdrawn as a whole.
    pub fn certify_pending(&self, pending: Vec<Pending>) -> BTreeSet<InodeNo> {
        let mut guilty = BTreeSet::new();
        for Pending { directory, target, kind, is_name } in pending {
            let target = Target { inode: target, kind };
            let (certainty, place) = match is_name {
                true => self.fast_path.certify(target),
                false => (self.fast_path.certify_parent(target.inode), None),
            };
            if certainty != Certainty::Right {
                guilty.insert(directory);
            }
            match place {
                Some(place) => self.observe(directory, target, place),
                None => self.inodes.observe_link(target.inode),
            }
        }
        guilty
    }

    /// Takes back everything that was counted for a directory with this proof.
    pub fn withdraw(&self, directory: InodeNo, summary: &DirectorySummary) {
        self.inodes.withdraw_link(directory);
        self.inodes.withdraw_link(summary.parent_entry);
        if let Some(fact) = self.inodes.directory(directory) {
            fact.parent_entry.store(0, Relaxed);
        }
        for target in &summary.targets {
            self.inodes.withdraw_link(target.inode);
            if let Some(child) = self.inodes.directory(target.inode) {
                let _ = child.parent.compare_exchange(directory.0, 0, Relaxed, Relaxed);
            }
        }
    }
}
