//! Inspection of one directory, block by block, in the order of the directory.
//!
//! What has to be remembered of a block is its place in the index and 16 bytes for each of its names; the rest is
//! forgotten before the next one is read.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::{Findings, Problem, Value};
use fsmend_ext_format::casefold;
use fsmend_ext_format::checksum::{self, Checked, LEAF_TAIL_SIZE};
use fsmend_ext_format::directory::{BrokenRecord, Entries, Entry, EntryHeader};
use fsmend_ext_format::inode::special;

use super::chain::{self, Break, ChainRules};
use super::entry::{Judge, Slot, mended_name};
use super::index::Index;
use super::names::{EntryPlace, NameTable};
use super::nature::Nature;
use super::paths::entries_of;
use super::{Directory, Surroundings, dots, inline, problems as rows};
use crate::{Fs, xattr};

/// How often, and in directories of how many blocks, a name in another directory is looked up: a bound on the work that a
/// hostile directory can ask for.
const LOOKUPS_MAX: u32 = 4;
const LOOKUP_BLOCKS_MAX: u64 = 16;

/// Inspects one directory.
pub(super) struct Inspector<'a> {
    fs: &'a Fs<'a>,
    inodes: &'a InodeTable,
    directory: &'a Directory,
    findings: &'a mut Findings,
    nature: Nature,
    judge: Judge<'a>,
    index: Option<Index>,
    /// Whether the directory will be written anew, so that missing checksum records do not matter.
    rebuild: bool,
    names: NameTable,
    lookups: u32,
}

impl<'a> Inspector<'a> {
    pub fn new(
        fs: &'a Fs<'_>,
        inodes: &'a InodeTable,
        directory: &'a Directory,
        surroundings: Surroundings<'a>,
        findings: &'a mut Findings,
    ) -> Self {
        let nature = Nature::of(fs, directory);
        let policy = if nature.encrypted { xattr::policy_of(fs, &directory.record) } else { None };
        let judge = Judge { fs, inodes, surroundings, nature, policy };
        let names = NameTable::default();
        Inspector {
            fs,
            inodes,
            directory,
            findings,
            nature,
            judge,
            index: None,
            rebuild: false,
            names,
            lookups: 0,
        }
    }

    /// Does it.
    pub fn run(mut self) {
        self.open_index();
        if self.directory.inline {
            self.inspect_inline();
        } else {
            self.inspect_blocks();
        }
        if let Some(index) = self.index.take() {
            index.check(&self.nature, self.findings);
        }
        self.check_names();
    }

    fn open_index(&mut self) {
        if !self.nature.index_flag {
            return;
        }
        if !self.nature.index_feature {
            self.findings.raise(Problem::new(&rows::INDEX_WITHOUT_FEATURE).inode(self.nature.inode));
        } else if !self.directory.inline {
            let root = self.physical(0).and_then(|block| self.fs.read_block(block).ok());
            self.index = Index::open(self.fs, &self.nature, root.as_deref(), self.findings);
        }
        self.rebuild = self.index.is_none();
    }

    /// Where block `logical` of the directory lies.
    fn physical(&self, logical: u64) -> Option<BlockNo> {
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

    fn inspect_blocks(&mut self) {
        let directory = self.directory;
        let mut next = 0;
        for run in &directory.runs {
            if run.logical > next {
                self.hole(next, run.logical - next);
            }
            let end = run.logical.saturating_add(u64::from(run.count));
            for logical in run.logical.max(next)..end.min(u64::from(u32::MAX)) {
                self.inspect_block(
                    logical as u32,
                    BlockNo(run.physical.saturating_add(logical - run.logical)),
                );
            }
            next = next.max(end);
        }
        if next == 0 {
            self.hole(0, 1);
        }
    }

    /// Blocks that are not there: empty ones take their place.
    fn hole(&mut self, first: u64, count: u64) {
        let problem = Problem::new(&rows::HOLE).inode(self.nature.inode);
        self.findings.raise(problem.stored(first).observed(count));
        self.empty_block(first as u32);
    }

    /// Counts what stands in a new, empty block that takes the place of a lost one.
    fn empty_block(&mut self, logical: u32) {
        if let Some(index) = &mut self.index {
            index.add_hole(logical);
        }
        if logical == 0 {
            self.inodes.observe_link(self.nature.inode);
            self.take_parent(InodeNo(special::ROOT));
        }
    }

    fn inspect_block(&mut self, logical: u32, block: BlockNo) {
        let Ok(mut bytes) = self.fs.read_block(block) else {
            let problem = Problem::new(&rows::BLOCK_UNREADABLE).inode(self.nature.inode).block(block);
            self.findings.raise(problem);
            self.empty_block(logical);
            return;
        };
        let blocks_count = self.blocks_count();
        let is_leaf = match &mut self.index {
            Some(index) => index.add_block(&self.nature, logical, &bytes, blocks_count, self.findings),
            None => true,
        };
        let mut found = Findings::new();
        let (end, wrong_checksum) = self.leaf_end(is_leaf, &bytes);
        let first = logical == 0;
        let (parent, broken_at) = mend_block(&mut bytes[..end], &self.nature, Some(block), first, &mut found);
        let tail_lost = end == bytes.len() && broken_at.is_none_or(|at| at + LEAF_TAIL_SIZE >= end);
        if is_leaf && self.nature.checksum_seed.is_some() && tail_lost && !self.rebuild {
            found.raise(Problem::new(&rows::CHECKSUM_MISSING).inode(self.nature.inode).block(block));
        }
        self.take_entries(&bytes[..end], logical, first, parent, is_leaf, &mut found);
        if let Some(checked) = wrong_checksum
            && found.is_empty()
        {
            let problem = Problem::new(&rows::CHECKSUM_WRONG).inode(self.nature.inode).block(block);
            let problem = problem.stored(Value::Hex(u64::from(checked.stored)));
            found.raise(problem.observed(Value::Hex(u64::from(checked.computed))));
        }
        self.findings.merge(found);
    }

    /// Where the entries of a block end, and its checksum when that is wrong.
    fn leaf_end(&self, is_leaf: bool, bytes: &[u8]) -> (usize, Option<Checked>) {
        match self.nature.checksum_seed {
            Some(seed) if is_leaf && checksum::has_leaf_tail(bytes) => {
                let wrong = checksum::directory_leaf(seed, bytes).filter(|checked| !checked.is_right());
                (bytes.len() - LEAF_TAIL_SIZE, wrong)
            }
            _ => (bytes.len(), None),
        }
    }

    /// Judges the entries of a block whose chain is sound, and counts those that stay. `parent` is what `..` said on the disk.
    fn take_entries(
        &mut self,
        bytes: &[u8],
        logical: u32,
        first: bool,
        parent: Option<InodeNo>,
        is_leaf: bool,
        found: &mut Findings,
    ) {
        for (index, entry) in Entries::new(bytes, self.nature.layout, first).flatten().enumerate() {
            let slot = match index {
                0 if first => Slot::Dot,
                1 if first => Slot::DotDot,
                _ => Slot::Name,
            };
            // A `..` that had to be made anew will lead to the parent, once that is known.
            if entry.header.inode == 0 || (slot == Slot::DotDot && parent.is_none()) {
                continue;
            }
            if let Some(row) = self.judge.objection(&entry, slot) {
                found.raise(self.judge.problem(row, &entry));
                continue;
            }
            self.judge.correct(&entry, slot, found);
            match slot {
                Slot::Dot => self.inodes.observe_link(self.nature.inode),
                Slot::DotDot => self.take_parent(InodeNo(entry.header.inode)),
                Slot::Name => self.take_name(&entry, logical, is_leaf, found),
            }
        }
    }

    /// Counts `..`, and records where it leads to.
    fn take_parent(&mut self, parent: InodeNo) {
        self.inodes.observe_link(parent);
        if let Some(fact) = self.inodes.directory(self.nature.inode) {
            fact.parent_entry.store(parent.0, Relaxed);
        }
    }

    fn take_name(&mut self, entry: &Entry<'_>, logical: u32, is_leaf: bool, found: &mut Findings) {
        let target = InodeNo(entry.header.inode);
        let mended = mended_name(&self.nature, entry.name);
        let name = mended.as_deref().unwrap_or(entry.name);
        if let Some(index) = self.index.as_mut().filter(|_| is_leaf) {
            index.add_name(&self.nature, name, entry.stored_hash);
        }
        if self.inodes.kind(target) == Kind::Directory && !self.take_child(target, entry, found) {
            return;
        }
        let place = EntryPlace { logical, offset: entry.offset as u32 };
        self.names.add(name, self.compares_folded(), place);
        self.inodes.observe_link(target);
    }

    /// Gives directory `child` its parent. A directory has one name: the first that is seen, unless a later one stands
    /// where its own `..` leads to. Returns whether this one stays.
    fn take_child(&mut self, child: InodeNo, entry: &Entry<'_>, found: &mut Findings) -> bool {
        let own = self.nature.inode;
        let Some(fact) = self.inodes.directory(child) else { return true };
        let known = InodeNo(fact.parent.load(Relaxed));
        if known.0 == 0 {
            self.inodes.set_parent(child, own);
            return true;
        }
        if known == own || InodeNo(fact.parent_entry.load(Relaxed)) != own {
            found.raise(self.judge.problem(&rows::DIRECTORY_NAMED_TWICE, entry));
            return false;
        }
        fact.parent.store(own.0, Relaxed);
        self.inodes.withdraw_link(child);
        let other = self.name_in(known, child);
        let problem = Problem::new(&rows::DIRECTORY_NAMED_TWICE).inode(known).stored(child.0);
        found.raise(problem.detail("name", Value::name(&other)));
        true
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

    fn compares_folded(&self) -> bool {
        self.nature.casefold && !self.nature.encrypted
    }

    fn inspect_inline(&mut self) {
        let Some(mut data) = inline::gather(&self.directory.record) else { return };
        let mut found = Findings::new();
        self.inodes.observe_link(self.nature.inode);
        self.inline_parent(data.parent.0, &mut found);
        mend_block(&mut data.records, &self.nature, None, false, &mut found);
        self.take_entries(&data.records, 0, false, None, true, &mut found);
        self.findings.merge(found);
    }

    fn inline_parent(&mut self, parent: u32, found: &mut Findings) {
        if parent == 0 {
            found.raise(Problem::new(&rows::DOT_DOT_MISSING).inode(self.nature.inode));
            return;
        }
        let file_type = if self.nature.file_types { Kind::Directory as u8 } else { 0 };
        let header = EntryHeader { inode: parent, rec_len: 12, name_len: 2, file_type };
        let entry = Entry { offset: 0, header, name: b"..", stored_hash: None };
        match self.judge.objection(&entry, Slot::DotDot) {
            Some(row) => found.raise(self.judge.problem(row, &entry)),
            None => self.take_parent(InodeNo(parent)),
        }
    }

    /// Looks again at entries whose names may be the same.
    fn check_names(&mut self) {
        let groups = std::mem::take(&mut self.names).suspects();
        if groups.is_empty() {
            return;
        }
        let mut places: Vec<EntryPlace> = groups.iter().flatten().copied().collect();
        places.sort_unstable();
        let entries = self.read_again(&places);
        for group in groups {
            self.check_group(&group, &entries);
        }
    }

    /// Inode and name of the entries at `places`, which ascend: each block is read once.
    fn read_again(&self, places: &[EntryPlace]) -> HashMap<(u32, u32), (u32, Vec<u8>)> {
        let mut entries = HashMap::new();
        for block in places.chunk_by(|one, other| one.logical == other.logical) {
            let Some(bytes) = self.mended_again(block[0].logical) else { continue };
            for place in block {
                if let Ok(entry) = Entry::at(&bytes, place.offset as usize, self.nature.layout, false) {
                    let name = mended_name(&self.nature, entry.name).unwrap_or_else(|| entry.name.to_vec());
                    entries.insert((place.logical, place.offset), (entry.header.inode, name));
                }
            }
        }
        entries
    }

    fn mended_again(&self, logical: u32) -> Option<Vec<u8>> {
        let mut quiet = Findings::new();
        if self.directory.inline {
            let mut records = inline::gather(&self.directory.record)?.records;
            mend_block(&mut records, &self.nature, None, false, &mut quiet);
            return Some(records);
        }
        let block = self.physical(u64::from(logical))?;
        let mut bytes = self.fs.read_block(block).ok()?;
        let (end, _) = self.leaf_end(true, &bytes);
        mend_block(&mut bytes[..end], &self.nature, Some(block), logical == 0, &mut quiet);
        bytes.truncate(end);
        Some(bytes)
    }

    fn check_group(&mut self, group: &[EntryPlace], entries: &HashMap<(u32, u32), (u32, Vec<u8>)>) {
        let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
        for place in group {
            let Some((inode, name)) = entries.get(&(place.logical, place.offset)) else { continue };
            let mut key = name.clone();
            if self.compares_folded() {
                casefold::fold(name, &mut key);
            }
            match seen.get(&key) {
                None => {
                    seen.insert(key, *inode);
                }
                Some(first) => self.name_twice(*first, *inode, name),
            }
        }
    }

    fn name_twice(&mut self, first: u32, inode: u32, name: &[u8]) {
        let row = if first == inode {
            &rows::ENTRY_TWICE
        } else if self.nature.encrypted {
            &rows::NAME_TWICE_ENCRYPTED
        } else {
            &rows::NAME_TWICE
        };
        let problem = Problem::new(row).inode(self.nature.inode).detail("name", Value::name(name));
        self.findings.raise(problem.stored(first).observed(inode));
        if row != &rows::NAME_TWICE {
            self.inodes.withdraw_link(InodeNo(inode));
        }
    }
}

/// Mends the chain of `bytes`, and `.` and `..` in the first block. `block` is for the report; `None` says that the
/// records live in the inode. Returns what `..` said, and where the chain was broken first.
pub(super) fn mend_block(
    bytes: &mut [u8],
    nature: &Nature,
    block: Option<BlockNo>,
    first: bool,
    found: &mut Findings,
) -> (Option<InodeNo>, Option<usize>) {
    let rules = ChainRules { layout: nature.layout, inodes_count: nature.inodes_count, first };
    let mut broken_at = None;
    chain::mend(bytes, rules, &mut |place| {
        broken_at = broken_at.or(Some(place.offset));
        found.raise(break_problem(nature, block, place));
    });
    let first_block = block.filter(|_| first);
    let parent = first_block.and_then(|block| dots::mend(bytes, nature, block, broken_at.is_some(), found));
    (parent, broken_at)
}

fn break_problem(nature: &Nature, block: Option<BlockNo>, place: Break) -> Problem {
    let row =
        if place.why == BrokenRecord::NameTooLong { &rows::NAME_BEYOND_RECORD } else { &rows::CHAIN_BROKEN };
    let problem = Problem::new(row).inode(nature.inode).stored(place.stored_len as u64);
    let (problem, where_it_is) = match block {
        Some(block) => (problem.block(block), format!("block {block}")),
        None => (problem, "in the inode".to_owned()),
    };
    problem.detail("place", where_it_is).detail("offset", place.offset as u64)
}
