// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inspection of one directory, block by block, in the order of the directory.
//!
//! What has to be remembered of a block is its place in the index and 16 bytes for each of its names; the rest is
//! forgotten before the next one is read.

use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::claims::SharedBitmap;
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::problem::Mark;
use fsmend_engine::{Findings, Layer, Problem, Value};
use fsmend_ext_format::checksum::{self, Checked, LEAF_TAIL_SIZE};
use fsmend_ext_format::directory::{
    BrokenRecord, ENTRY_LEN_MIN, Entry, EntryHeader, EntryLayout, entries_len,
};
use fsmend_ext_format::inode::{InodeFlags, RawInode, special};
use fsmend_ext_format::rext3::{self, DirectoryTail};

use super::chain::{self, Break, ChainRules};
use super::entries::entries_of;
use super::entry::{Fate, Judge, Slot};
use super::index::Index;
use super::names::{EntryPlace, NameTable};
use super::params::DirectoryParams;
use super::parent_claims::{DeferredParentClaims, Kept};
use super::{Directory, Mending, Surroundings, dots, inline, leaf, problems as rows};
use crate::inline_data::settle_hash;
use crate::inode::seal::seal_inode;
use crate::region::problems as region;
use crate::{Fs, xattr};

/// How often, and in directories of how many blocks, a name in another directory is looked up: a bound on the work that a
/// hostile directory can ask for.
const LOOKUPS_MAX: u32 = 4;
/// So many directories are asked for their parent before it is their turn.
const PARENTS_MAX: u32 = 256;
const LOOKUP_BLOCKS_MAX: u64 = 16;
/// So many directories above one are looked at.
const CLIMB_MAX: u32 = 256;

/// The records of a block, or of a part of an inode.
#[derive(Clone, Copy)]
struct Chain {
    /// Block of the directory, or number of the part.
    logical: u32,
    /// Whether it begins with `.` and `..`.
    first: bool,
    /// What `..` said on the disk.
    parent: Option<InodeNo>,
    /// Whether it is no index block.
    is_leaf: bool,
}

/// Inspects one directory.
pub(super) struct Inspector<'a> {
    pub fs: &'a Fs<'a>,
    inodes: &'a InodeTable,
    /// What the directory says about others.
    pub parent_claims: DeferredParentClaims<'a>,
    pub directory: &'a Directory,
    pub findings: &'a mut Findings,
    pub params: DirectoryParams,
    pub mending: Mending,
    judge: Judge<'a>,
    index: Option<Index>,
    /// Whether the directory will be written anew, so that missing checksum records do not matter.
    rebuild: bool,
    pub names: NameTable,
    lookups: u32,
    /// Parents that were looked up in directories which have not been inspected yet.
    parents_read: u32,
    /// Whether what is mended is kept, block by block.
    keeps: bool,
    /// Whether others claim a block of it.
    is_shared: bool,
    /// How many bytes what is found may take.
    room: u64,
}

impl<'a> Inspector<'a> {
    pub fn new(
        fs: &'a Fs<'_>,
        directory: &'a Directory,
        surroundings: Surroundings<'a>,
        parent_claims: DeferredParentClaims<'a>,
        findings: &'a mut Findings,
    ) -> Self {
        let inodes = parent_claims.inodes();
        let params = DirectoryParams::of(fs, directory);
        let policy = if params.encrypted { xattr::policy_of(fs, &directory.record) } else { None };
        let judge = Judge { fs, inodes, surroundings, params, policy };
        let names = NameTable::default();
        // A block that others claim as well is mended once it has been copied: it may be their data.
        let is_shared =
            surroundings.contested.is_some_and(|contested| shares_blocks(fs, directory, contested));
        let keeps = findings.gathers_edits() && !is_shared;
        Inspector {
            fs,
            inodes,
            parent_claims,
            directory,
            findings,
            params,
            mending: Mending::default(),
            judge,
            index: None,
            rebuild: false,
            names,
            lookups: 0,
            parents_read: 0,
            keeps,
            is_shared,
            room: u64::MAX,
        }
    }

    /// Does it, and returns what cannot be mended block by block.
    pub fn run(mut self) -> Mending {
        self.inspect();
        self.mending
    }

    /// The same, and what the directory says about others, if that is kept; `None` if what is found takes more than `room` bytes.
    pub fn run_within(mut self, room: u64) -> Option<(Mending, Kept)> {
        self.room = room;
        let is_through = self.inspect();
        is_through.then(|| (self.mending, self.parent_claims.into_kept()))
    }

    /// `false` where it was left off for want of room.
    fn inspect(&mut self) -> bool {
        self.open_index();
        if self.directory.inline {
            self.inspect_inline();
        } else if !self.inspect_blocks() {
            return false;
        }
        if let Some(index) = self.index.take() {
            self.mending.rewrite |= !index.check(&self.params, self.findings);
        }
        self.check_names();
        self.mending.rewrite &= self.keeps;
        true
    }

    fn has_room(&self) -> bool {
        self.room == u64::MAX || self.findings.bytes_held() + self.parent_claims.bytes_held() <= self.room
    }

    fn open_index(&mut self) {
        if !self.params.index_flag {
            return;
        }
        if !self.params.index_feature {
            self.findings.raise(Problem::new(&rows::INDEX_WITHOUT_FEATURE).inode(self.params.inode));
        } else if !self.directory.inline {
            let root = self.physical(0).and_then(|block| {
                let bytes = self.fs.read_block(block).ok()?;
                Some(self.moved(&bytes, 0, block).unwrap_or(bytes))
            });
            self.index = Index::open(self.fs, &self.params, root.as_deref(), self.findings);
            self.mending.needs_large_dir =
                self.index.as_ref().is_some_and(|index| index.is_too_deep(&self.params));
        }
        if self.directory.inline && self.params.index_feature {
            self.findings.raise(Problem::new(&rows::ROOT_MALFORMED).inode(self.params.inode));
        }
        self.rebuild = self.index.is_none();
        self.mending.rewrite |= self.rebuild && !self.directory.inline;
    }

    /// Where block `logical` of the directory lies.
    pub fn physical(&self, logical: u64) -> Option<BlockNo> {
        let runs = &self.directory.runs;
        let at = runs.partition_point(|run| run.logical <= logical).checked_sub(1)?;
        let run = runs.get(at)?;
        let within = logical - run.logical;
        (within < u64::from(run.count)).then(|| BlockNo(run.physical.saturating_add(within)))
    }

    /// Length of the directory in blocks.
    fn blocks_count(&self) -> u64 {
        self.directory.runs.last().map_or(0, |run| run.logical.saturating_add(u64::from(run.count)))
    }

    fn inspect_blocks(&mut self) -> bool {
        let directory = self.directory;
        let mut next = 0;
        for run in &directory.runs {
            if run.logical > next {
                self.hole(next, run.logical - next);
            }
            let end = run.logical.saturating_add(u64::from(run.count));
            for logical in run.logical.max(next)..end.min(u64::from(u32::MAX)) {
                self.inspect_block(
                    width::low_u32(logical),
                    BlockNo(run.physical.saturating_add(logical - run.logical)),
                );
                if !self.has_room() {
                    return false;
                }
            }
            next = next.max(end);
        }
        if next == 0 {
            self.hole(0, 1);
        }
        true
    }

    /// Blocks that are not there: empty ones take their place.
    fn hole(&mut self, first: u64, count: u64) {
        let problem = Problem::new(&rows::HOLE).inode(self.params.inode);
        self.findings.raise(problem.stored(first).observed(count));
        self.mending.rewrite = true;
        self.empty_block(width::low_u32(first));
    }

    /// Counts what stands in a new, empty block that takes the place of a lost one.
    fn empty_block(&mut self, logical: u32) {
        if let Some(index) = &mut self.index {
            index.add_hole(logical);
        }
        if logical == 0 {
            self.parent_claims.observe_link(self.params.inode);
            self.take_parent(InodeNo(special::ROOT));
        }
    }

    fn inspect_block(&mut self, logical: u32, block: BlockNo) {
        let mark = self.findings.mark();
        let Ok(mut bytes) = self.fs.read_block(block) else {
            let problem = Problem::new(&rows::BLOCK_UNREADABLE).inode(self.params.inode).block(block);
            self.findings.raise(problem);
            self.empty_block(logical);
            let parent = (logical == 0).then_some(InodeNo(special::ROOT));
            let mut empty = leaf::empty(&self.params, parent);
            let end = leaf::capacity(&self.params);
            self.seal_tail(&mut empty, (logical, end), true, block);
            self.edit(mark, block, &empty);
            return;
        };
        let mut found = self.findings.for_subject();
        let before = self.keeps.then(|| bytes.clone());
        let moved = self.moved(&bytes, logical, block);
        let is_home = moved.is_none();
        if let Some(moved) = moved {
            self.judge_tail(&bytes, logical, block, &mut found);
            bytes = moved;
        }
        let blocks_count = self.blocks_count();
        let is_leaf = match &mut self.index {
            Some(index) => index.add_block(&self.params, logical, &bytes, blocks_count, self.findings),
            None => true,
        };
        let (end, wrong_checksum) = self.leaf_end(is_leaf, &bytes);
        let first = logical == 0;
        let (parent, broken_at) = mend_block(&mut bytes[..end], &self.params, Some(block), first, &mut found);
        if is_home {
            self.judge_tail(&bytes, logical, block, &mut found);
        }
        let tail_lost = is_leaf
            && self.params.checksum_seed.is_some()
            && end == bytes.len()
            && broken_at.is_none_or(|at| at + LEAF_TAIL_SIZE >= end);
        if tail_lost && !self.rebuild {
            found.raise(Problem::new(&rows::CHECKSUM_MISSING).inode(self.params.inode).block(block));
        }
        let chain = Chain { logical, first, parent, is_leaf };
        self.take_entries(&mut bytes[..end], chain, &mut found);
        if let Some(checked) = wrong_checksum
            && found.is_empty()
        {
            let problem = Problem::new(&rows::CHECKSUM_WRONG).inode(self.params.inode).block(block);
            let problem = problem.stored(Value::Hex(u64::from(checked.stored)));
            found.raise(problem.observed(Value::Hex(u64::from(checked.computed))));
        }
        self.findings.merge(found);
        if let Some(before) = before {
            self.seal(&mut bytes, logical, is_leaf);
            self.seal_tail(&mut bytes, (logical, end), is_leaf, block);
            if bytes != before {
                self.edit(mark, block, &bytes);
            }
        }
    }

    /// Puts the right checksum into a mended block. Where there is no room for one, the directory is written anew.
    fn seal(&mut self, bytes: &mut [u8], logical: u32, is_leaf: bool) {
        match (&self.index, self.params.checksum_seed) {
            (Some(index), Some(seed)) if !is_leaf => {
                checksum::seal_htree(seed, bytes, index.count_offset(logical));
            }
            _ => self.mending.rewrite |= is_leaf && !leaf::seal(bytes, &self.params, logical == 0),
        }
    }

    /// On a rext3, what belongs into a block that says that it is another one, if it is found in the regions.
    fn moved(&self, bytes: &[u8], logical: u32, block: BlockNo) -> Option<Vec<u8>> {
        let generation = self.params.tail_generation.filter(|_| !self.is_shared)?;
        let right = DirectoryTail { inode: self.params.inode, generation, logical };
        let is_another = DirectoryTail::parse(bytes) != Some(right);
        is_another.then(|| self.fs.moved_directory_block(right, block)).flatten()
    }

    /// On a rext3, whether the block says what it is.
    fn judge_tail(&self, bytes: &[u8], logical: u32, block: BlockNo, found: &mut Findings) {
        let Some(generation) = self.params.tail_generation else { return };
        let problem = |row| Problem::new(row).inode(self.params.inode).block(block);
        let right = DirectoryTail { inode: self.params.inode, generation, logical };
        match DirectoryTail::parse(bytes) {
            None => found.raise(problem(&region::TAIL_MISSING)),
            Some(tail) if tail != right => {
                let stored = format!("block {} of inode {}", tail.logical, tail.inode.0);
                found.raise(problem(&region::TAIL_WRONG).stored(stored).detail("logical", logical));
            }
            Some(_) => {
                let checked = rext3::directory_checksum(self.fs.geometry.checksum_seed, block, bytes);
                if let Some(checked) = checked.filter(|checked| !checked.is_right()) {
                    let problem = problem(&region::TAIL_CHECKSUM).stored(Value::Hex(checked.stored.into()));
                    found.raise(problem.observed(Value::Hex(checked.computed.into())));
                }
            }
        }
    }

    /// On a rext3, makes a mended block say what it is.
    fn seal_tail(&mut self, bytes: &mut [u8], (logical, end): (u32, usize), is_leaf: bool, block: BlockNo) {
        let Some(generation) = self.params.tail_generation else { return };
        if is_leaf && !leaf::put_tail(bytes, &self.params, end, logical) {
            self.mending.rewrite = true;
            return;
        }
        let tail = DirectoryTail { inode: self.params.inode, generation, logical };
        tail.seal(self.fs.geometry.checksum_seed, block, bytes);
    }

    fn edit(&mut self, mark: Mark, block: BlockNo, bytes: &[u8]) {
        if self.keeps {
            self.findings.edit_since(mark, Layer::Contents, self.fs.block_offset(block), bytes);
        }
    }

    /// Where the entries of a block end, and its checksum when that is wrong.
    pub fn leaf_end(&self, is_leaf: bool, bytes: &[u8]) -> (usize, Option<Checked>) {
        match self.params.checksum_seed {
            // The kernel does not clear what stood in a block before it became the root of an index.
            Some(_) if self.rebuild && reaches_end_at_once(bytes, self.params.layout) => (bytes.len(), None),
            None if is_leaf && self.params.tail_generation.is_some() => {
                (entries_len(bytes, self.fs.geometry.features), None)
            }
            Some(seed) if is_leaf && checksum::has_leaf_tail(bytes) => {
                let wrong = checksum::directory_leaf(seed, bytes).filter(|checked| !checked.is_right());
                (bytes.len() - LEAF_TAIL_SIZE, wrong)
            }
            _ => (bytes.len(), None),
        }
    }

    /// Judges the entries of a sound chain, counts those that stay, and mends them.
    fn take_entries(&mut self, bytes: &mut [u8], chain: Chain, found: &mut Findings) {
        let (mut at, mut index) = (0, 0);
        while let Ok(entry) = Entry::at(bytes, at, self.params.layout, chain.first && index < 2) {
            let slot = match index {
                0 if chain.first => Slot::Dot,
                1 if chain.first => Slot::DotDot,
                _ => Slot::Name,
            };
            let next = at + entry.header.rec_len;
            // A `..` that had to be made anew will lead to the parent, once that is known.
            let is_new = slot == Slot::DotDot && chain.parent.is_none();
            if entry.header.inode != 0 && !is_new {
                let fate = self.take_entry(&entry, slot, chain, found);
                fate.apply(bytes, at, self.params.layout);
            }
            (at, index) = (next, index + 1);
        }
    }

    fn take_entry(&mut self, entry: &Entry<'_>, slot: Slot, chain: Chain, found: &mut Findings) -> Fate {
        if let Some(row) = self.judge.objection(entry, slot) {
            found.raise(self.judge.problem(row, entry));
            // What is wrong with `..` is put right when the parent is known.
            return if slot == Slot::Name { Fate::Gone } else { Fate::Same };
        }
        let correction = self.judge.correct(entry, slot, found);
        match slot {
            Slot::Dot => self.parent_claims.observe_link(self.params.inode),
            Slot::DotDot => self.take_parent(InodeNo(entry.header.inode)),
            Slot::Name => {
                let name = correction.name.as_deref().unwrap_or(entry.name);
                if !self.take_name(entry, name, chain, found) {
                    return Fate::Gone;
                }
            }
        }
        Fate::Corrected(correction)
    }

    /// Counts `..`, and records where it leads to.
    fn take_parent(&mut self, parent: InodeNo) {
        self.parent_claims.observe_link(parent);
        self.parent_claims.set_parent_entry(parent);
    }

    /// Takes up a name, as it will be; returns whether it stays.
    fn take_name(&mut self, entry: &Entry<'_>, name: &[u8], chain: Chain, found: &mut Findings) -> bool {
        let target = InodeNo(entry.header.inode);
        if let Some(index) = self.index.as_mut().filter(|_| chain.is_leaf) {
            index.add_name(&self.params, name, entry.stored_hash);
        }
        if self.inodes.kind(target) == Kind::Directory && !self.take_child(target, entry, found) {
            return false;
        }
        let place = EntryPlace { logical: chain.logical, offset: width::len_u32(entry.offset) };
        self.names.add(name, self.compares_folded(), place);
        self.parent_claims.observe_link(target);
        true
    }

    /// Gives directory `child` its parent. A directory has one name: one outside of the directory itself, where there is such a name; else
    /// the first that is seen, unless a later one stands where its own `..` leads to. Returns whether this one stays.
    fn take_child(&mut self, child: InodeNo, entry: &Entry<'_>, found: &mut Findings) -> bool {
        let own = self.params.inode;
        let Some(known) = self.parent_claims.parent_of(child) else { return true };
        if known.0 == 0 {
            self.parent_claims.set_parent(child, own);
            return true;
        }
        let leads_to = match self.parent_claims.parent_entry_of(child) {
            // It is still to be inspected.
            0 if known != own => self.parent_entry_of(child),
            parent => parent,
        };
        let prefers_own = known != own
            && match (self.lies_within(own, child), self.lies_within(known, child)) {
                // Its `..` would speak for a circle that hangs nowhere.
                (true, false) => false,
                (false, true) => true,
                _ => leads_to == own.0,
            };
        if !prefers_own {
            found.raise(self.judge.problem(&rows::DIRECTORY_NAMED_TWICE, entry));
            return false;
        }
        self.parent_claims.set_parent(child, own);
        self.parent_claims.withdraw_link(child);
        self.mending.names_elsewhere.push((known, child));
        let other = self.name_in(known, child);
        let problem = Problem::new(&rows::DIRECTORY_NAMED_TWICE).inode(known).stored(child.0);
        found.raise(problem.detail("name", Value::name(&other)));
        true
    }

    /// Whether `holder` hangs below `child`, by what `..` says from there upwards, or by the names known so far.
    fn lies_within(&mut self, holder: InodeNo, child: InodeNo) -> bool {
        let inodes = self.parent_claims.facts_of_others();
        let name = |at: InodeNo| inodes.directory(at).map_or(0, |fact| fact.parent.load(Relaxed));
        let leads_up = |inspector: &mut Self, at: InodeNo| match inodes.directory(at) {
            Some(fact) if fact.parent_entry.load(Relaxed) != 0 => fact.parent_entry.load(Relaxed),
            Some(_) => inspector.parent_entry_of(at),
            None => 0,
        };
        climbs_to(holder, child, name) || climbs_to(holder, child, |at| leads_up(self, at))
    }

    /// Where `..` of a directory leads that has not been inspected yet; 0 when it takes too much work to find.
    fn parent_entry_of(&mut self, child: InodeNo) -> u32 {
        self.parents_read += 1;
        let directory = if self.parents_read <= PARENTS_MAX { Directory::open(self.fs, child) } else { None };
        directory.map_or(0, |directory| directory.parent_entry(self.fs))
    }

    /// A name of `child` in another directory; empty when it takes too much work to find.
    fn name_in(&mut self, holder: InodeNo, child: InodeNo) -> Vec<u8> {
        self.lookups += 1;
        let is_small = |directory: &Directory| {
            directory.runs.iter().map(|run| u64::from(run.count)).sum::<u64>() <= LOOKUP_BLOCKS_MAX
        };
        let directory = if self.lookups <= LOOKUPS_MAX { Directory::open(self.fs, holder) } else { None };
        let mut found = None;
        if let Some(directory) = directory.filter(is_small) {
            entries_of(self.fs, &directory, &mut |inode, name| {
                if inode == child && found.is_none() {
                    found = Some(name.to_vec());
                }
            });
        }
        found.unwrap_or_default()
    }

    pub fn compares_folded(&self) -> bool {
        self.params.casefold && !self.params.encrypted
    }

    fn inspect_inline(&mut self) {
        let Some(data) = inline::gather(&self.directory.record) else { return };
        let mark = self.findings.mark();
        let mut found = self.findings.for_subject();
        self.parent_claims.observe_link(self.params.inode);
        self.inline_parent(data.parent.0, &mut found);
        let mut record = self.directory.record.clone();
        if self.params.index_flag {
            let mut raw = RawInode::from_record(&record);
            raw.clear_flag(InodeFlags::INDEX);
            raw.store(&mut record);
        }
        for (logical, area) in data.filled() {
            // No record at all has room there.
            self.mending.rewrite |= area.len() < ENTRY_LEN_MIN;
            let Some(bytes) = record.get_mut(area) else { continue };
            mend_block(bytes, &self.params, None, false, &mut found);
            let chain = Chain { logical, first: false, parent: None, is_leaf: true };
            self.take_entries(bytes, chain, &mut found);
        }
        self.findings.merge(found);
        if self.keeps && record != self.directory.record {
            settle_hash(&mut record);
            seal_inode(self.fs, self.params.inode, &mut record);
            if let Some(offset) = self.fs.inode_offset(self.params.inode) {
                self.findings.edit_since(mark, Layer::Contents, offset, &record);
            }
        }
    }

    fn inline_parent(&mut self, parent: u32, found: &mut Findings) {
        if parent == 0 {
            found.raise(Problem::new(&rows::DOT_DOT_MISSING).inode(self.params.inode));
            return;
        }
        let file_type = if self.params.file_types { Kind::Directory as u8 } else { 0 };
        let header = EntryHeader { inode: parent, rec_len: 12, name_len: 2, file_type };
        let entry = Entry { offset: 0, header, name: b"..", stored_hash: None };
        match self.judge.objection(&entry, Slot::DotDot) {
            Some(row) => found.raise(self.judge.problem(row, &entry)),
            None => self.take_parent(InodeNo(parent)),
        }
    }
}

/// Whether `from`, or what comes above it by `parent`, is `to`; 0 is no parent.
fn climbs_to(from: InodeNo, to: InodeNo, mut parent: impl FnMut(InodeNo) -> u32) -> bool {
    let mut at = from;
    for _ in 0..CLIMB_MAX {
        if at == to {
            return true;
        }
        if at.0 == 0 || at.0 == special::ROOT {
            return false;
        }
        at = InodeNo(parent(at));
    }
    false
}

/// Whether the first or second record reaches to the very end of a block, as in the root and the nodes of an index.
fn reaches_end_at_once(bytes: &[u8], layout: EntryLayout) -> bool {
    let end = |at: usize| EntryHeader::at(bytes, at, layout).map(|header| at + header.rec_len);
    let first = end(0);
    [first, first.and_then(end)].contains(&Some(bytes.len()))
}

/// Whether another owner claims blocks of `directory`.
fn shares_blocks(fs: &Fs<'_>, directory: &Directory, contested: &SharedBitmap) -> bool {
    directory.runs.iter().any(|run| {
        let first = fs.geometry.cluster_of(run.physical);
        let end = run.physical.saturating_add(u64::from(run.count).saturating_sub(1));
        contested.any(first, fs.geometry.cluster_of(end).saturating_sub(first).saturating_add(1))
    })
}

/// Mends the chain of `bytes`, and `.` and `..` in the first block. `block` is for the report; `None` says that the
/// records live in the inode. Returns what `..` said, and where the chain was broken first.
pub(super) fn mend_block(
    bytes: &mut [u8],
    params: &DirectoryParams,
    block: Option<BlockNo>,
    first: bool,
    found: &mut Findings,
) -> (Option<InodeNo>, Option<usize>) {
    let rules = ChainRules { layout: params.layout, inodes_count: params.inodes_count, first };
    let mut broken_at = None;
    if let Some(block) = block.filter(|_| first) {
        dots::shorten_dot(bytes, params, block, found);
    }
    chain::mend(bytes, rules, &mut |place| {
        broken_at = broken_at.or(Some(place.offset));
        found.raise(break_problem(params, block, place));
    });
    if let Some(block) = block
        && let Some(at) = leaf::free_dot(bytes, params, first)
    {
        found.raise(Problem::new(&rows::FREE_DOT).inode(params.inode).block(block));
        leaf::take_name(bytes, at, params);
    }
    let first_block = block.filter(|_| first);
    let parent = first_block.and_then(|block| dots::mend(bytes, params, block, broken_at.is_some(), found));
    (parent, broken_at)
}

fn break_problem(params: &DirectoryParams, block: Option<BlockNo>, place: Break) -> Problem {
    let row =
        if place.why == BrokenRecord::NameTooLong { &rows::NAME_BEYOND_RECORD } else { &rows::CHAIN_BROKEN };
    let problem = Problem::new(row).inode(params.inode).stored(place.stored_len as u64);
    let (problem, where_it_is) = match block {
        Some(block) => (problem.block(block), format!("block {block}")),
        None => (problem, "in the inode".to_owned()),
    };
    problem.detail("place", where_it_is).detail("offset", place.offset as u64)
}
