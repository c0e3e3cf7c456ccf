// SPDX-License-Identifier: MIT OR Apache-2.0
//! The regions of a rext3: read in the order of the disk, each behind its inode table, and compared with the inodes when all of
//! them have been seen. Only files that do not fit what was found have their trees walked.

use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_engine::budget::Reservation;
use fsmend_ext_format::inode::RawInode;
use fsmend_ext_format::rext3::{HEADER_SIZE, IndirectHeader};

use super::kept::Kept;
use super::maps::weight_of;
use super::outcome::is_short;
use super::{Batch, MAPS, Scan, Worker};
use crate::fast::claimer::Claimer;
use crate::fast::inode::{InodeSummary, Verdict};
use crate::fast::jobs::DirectoryJob;
use crate::fast::map::{Walk, WalkItem, WalkMode};
use crate::reading::read_blocks;
use crate::region::crosscheck::{Tree, tree};
use crate::region::facts::{FileFact, Gathered, IndirectFact, RegionFacts, mark_of};

/// Files in a batch of walks.
const WALKS_PER_BATCH: usize = 256;

impl<'a> Scan<'a> {
    /// Whether maps are proved by the regions, not walked.
    pub(super) fn by_region(&self) -> bool {
        self.fs.regions.exist() && self.fast_maps && self.sample.is_none()
    }

    /// Claims what the inodes of these files point to themselves, and keeps what is compared later.
    pub(super) fn keep_files(&self, worker: &mut Worker<'a>, items: Vec<WalkItem>) {
        let mut walks = Vec::new();
        for item in items {
            let tally = self.root(&item, WalkMode::Claim);
            let is_directory = item.kind == fsmend_engine::inodes::Kind::Directory;
            match tally.and_then(|tally| FileFact::new(&item, is_directory, &tally)) {
                Some(fact) => worker.outcome.regions.files.push(fact),
                None => {
                    self.root(&item, WalkMode::Withdraw);
                    walks.push(item);
                }
            }
        }
        self.push_walks(walks, WalkMode::Claim);
    }

    /// Claims, or takes back, what the inode itself points to.
    fn root(&self, item: &WalkItem, mode: WalkMode) -> Option<crate::fast::map::Tally> {
        let (items, fs) = (std::slice::from_ref(item), self.fs);
        let (walk, _) =
            Walk::start(items, mode, &fs.geometry, &self.inode_fast_path, &fs.metadata, self.claims);
        walk.finish().pop()
    }

    pub(super) fn push_walks(&self, items: Vec<WalkItem>, mode: WalkMode) {
        let mut items = items.into_iter();
        loop {
            let part: Vec<WalkItem> = items.by_ref().take(self.batch(WALKS_PER_BATCH)).collect();
            if part.is_empty() {
                return;
            }
            self.push(MAPS, weight_of(&part), Batch::Maps(part, mode));
        }
    }

    /// Reads the blocks of the region of `group` that its bitmap says are in use: keeps what indirect blocks say, and proves
    /// those of the directories all blocks of which are among them, if they are few. Returns the others.
    pub(super) fn region(
        &self,
        worker: &mut Worker<'a>,
        group: GroupNo,
        jobs: Vec<DirectoryJob>,
    ) -> Vec<DirectoryJob> {
        let blocks = self.fs.used_in_region(group);
        let mut is_done = vec![false; jobs.len()];
        let mut kept = Kept::wanting(self.fs, &jobs, self.fs.regions.of_group(group));
        let bytes = kept.bytes();
        let room = self
            .run_context
            .budget
            .try_reserve(bytes)
            .then(|| Reservation::of(self.run_context.budget, bytes));
        if room.is_none() {
            kept.give_up();
        }
        let Worker { reader, directory: summary, outcome, .. } = worker;
        let reading = read_blocks(reader, self.fs, &blocks, &mut |index, result| {
            let (Some(place), Ok(contents)) = (blocks.get(index).copied(), result) else { return };
            if self.indirect_block(place, contents, &mut outcome.regions) {
                return;
            }
            kept.offer(place, contents);
            // The jobs are sorted by their first blocks. Of several for one block, only the first is proved here.
            let at = jobs.partition_point(|job| job.first_block < place);
            let Some(job) = jobs.get(at).filter(|job| job.first_block == place && job.is_single()) else {
                return;
            };
            summary.clear();
            let clean = job.summarize_single(&self.directory_fast_path, contents, summary);
            self.conclude(job.inode, clean, summary, outcome);
            is_done[at] = true;
        });
        if kept.bytes() > 0 {
            let mut reader = kept.reader();
            for (job, is_done) in jobs.iter().zip(&mut is_done).filter(|(job, _)| kept.holds(job)) {
                let reading = job.summarize(&self.directory_fast_path, self.fs, &mut reader, summary);
                self.conclude(job.inode, reading.clean, summary, outcome);
                *is_done = true;
            }
        }
        let cost = &mut outcome.costs[MAPS];
        cost.items += blocks.len() as u64;
        cost.requests += reading.requests + 1;
        cost.bytes += reading.bytes + u64::from(self.fs.geometry.block_size);
        jobs.into_iter().zip(is_done).filter(|(_, is_done)| !is_done).map(|(job, _)| job).collect()
    }

    /// Keeps what an indirect block says, and claims what it points to. `false` if the block is none. Those of inodes that are
    /// never proved (the journal's) are claimed when these are inspected.
    fn indirect_block(&self, place: u64, contents: &[u8], facts: &mut RegionFacts) -> bool {
        let header = IndirectHeader::parse(contents)
            .filter(|header| header.is_right(self.fs.geometry.checksum_seed, BlockNo(place)));
        let (Some(header), Ok(block)) = (header, u32::try_from(place)) else { return false };
        if header.inode.0 >= self.fs.geometry.first_inode {
            let gathered = self.gather(contents, (header.inode, header.level), WalkMode::Claim);
            facts.indirect.push(IndirectFact::new(header.inode, block, header.level, &gathered));
            if header.level > 1 {
                facts.children.push((block, gathered.children));
            }
        }
        true
    }

    /// Looks at all pointers of an indirect block, and claims what they lead to, or takes that back. What cannot be right is
    /// left out, as in a walk.
    fn gather(&self, contents: &[u8], (inode, level): (InodeNo, u8), mode: WalkMode) -> Gathered {
        let (regions, mut found) = (&self.fs.regions, Gathered::default());
        let (mut inside, mut previous) = (None, 0u32);
        let mut claimer = Claimer::new(self.claims, &self.fs.metadata, mode, inode);
        let (words, _) = contents.get(HEADER_SIZE..).unwrap_or_default().as_chunks::<4>();
        for (at, word) in (0u32..).zip(words) {
            let pointer = u32::from_le_bytes(*word);
            if pointer == 0 {
                continue;
            }
            let is_inside = regions.contain(pointer.into());
            let is_valid = self.fs.is_valid_block(BlockNo(pointer.into()));
            found.suspect |=
                !is_valid || *inside.get_or_insert(is_inside) != is_inside || (level > 1 && !is_inside);
            if !is_valid {
                continue;
            }
            if level == 1 || is_inside {
                claimer.claim_one(pointer.into());
            }
            found.gap |= previous != 0 && pointer != previous.wrapping_add(1);
            previous = pointer;
            if level > 1 {
                found.children = found.children.wrapping_add(mark_of(pointer));
                found.edge = pointer;
            } else if found.count == 0 {
                found.edge = pointer;
            }
            (found.count, found.last) = (found.count + 1, at);
        }
        found.suspect |= claimer.finish(&mut Vec::new());
        found
    }

    /// Compares all files with the indirect blocks that were found. What does not fit is taken back, and walked.
    pub(super) fn judge_regions(&self, workers: &mut [Worker<'a>]) {
        let mut facts = RegionFacts::default();
        workers.iter_mut().for_each(|worker| facts.absorb(std::mem::take(&mut worker.outcome.regions)));
        facts.sort();
        let Some(worker) = workers.first_mut() else { return };
        let (mut looks, mut walks) = (Vec::new(), Vec::new());
        let pointers = u64::from(self.fs.geometry.pointers_per_block());
        let mut strays = facts.indirect.as_slice();
        for file in &facts.files {
            let before = strays.partition_point(|fact| fact.inode < file.inode);
            let behind = strays.partition_point(|fact| fact.inode <= file.inode);
            self.withdraw(&strays[..before]);
            strays = &strays[behind..];
            let tree = tree(file, &facts, &self.fs.regions, pointers).filter(|tree| self.fits(file, tree));
            match tree {
                Some(tree) if !file.is_directory => self.take_file(file, &tree, worker),
                Some(_) => looks.extend(self.item(file.inode)),
                None => {
                    let item = self.item(file.inode);
                    item.iter().for_each(|item| drop(self.root(item, WalkMode::Withdraw)));
                    self.withdraw(facts.of(file.inode));
                    walks.extend(item);
                }
            }
        }
        self.withdraw(strays);
        // Of directories the map is needed: where which block lies. Everything in it has been claimed.
        self.push_walks(looks, WalkMode::Look);
        self.push_walks(walks, WalkMode::Claim);
    }

    /// Whether size and space of a file are what its tree comes to.
    fn fits(&self, file: &FileFact, tree: &Tree) -> bool {
        let kind = if file.is_directory {
            fsmend_engine::inodes::Kind::Directory
        } else {
            fsmend_engine::inodes::Kind::Regular
        };
        let blocks = tree.data_blocks + tree.map_blocks + u64::from(file.xattr_block != 0);
        blocks == u64::from(file.charged_blocks)
            && self.inode_fast_path.size_fits(kind, file.size(), tree.end, tree.data_blocks, false)
    }

    fn take_file(&self, file: &FileFact, tree: &Tree, worker: &mut Worker<'a>) {
        let is_short = is_short(self.fs, file.charged_blocks.into());
        worker.outcome.non_contiguous += u64::from(tree.is_scattered && is_short);
        if file.xattr_block != 0 {
            worker.outcome.xattr_references.push((file.xattr_block.into(), InodeNo(file.inode)));
        }
    }

    /// Takes back what these indirect blocks claimed: they have no owner, or their file is walked.
    fn withdraw(&self, facts: &[IndirectFact]) {
        for fact in facts.iter().take_while(|_| !self.run_context.cancel.load(Relaxed)) {
            if let Ok(contents) = self.fs.read_block(BlockNo(fact.block.into())) {
                self.gather(&contents, (InodeNo(fact.inode), fact.level()), WalkMode::Withdraw);
            }
        }
    }

    /// What a walk has to know of an inode that was clean before.
    fn item(&self, inode: u32) -> Option<WalkItem> {
        let inode = InodeNo(inode);
        let record = self.fs.read_inode(inode)?.ok()?;
        let mut summary = InodeSummary::default();
        let verdict = self.inode_fast_path.summarize(inode, &record, &mut summary);
        (verdict == Verdict::Clean).then(|| WalkItem::new(inode, &summary, &RawInode::from_record(&record)))
    }
}
