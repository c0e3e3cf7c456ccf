// SPDX-License-Identifier: MIT OR Apache-2.0
//! What mends: the inodes and directories as they will be, taken from judgements and cross-checks, and then written by [`write`](crate::write) as one segment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::checker::{Input, Wrongs, lost_found_among};
use fsmend_engine::crosscheck::links::LinkRules;
use fsmend_engine::crosscheck::links::{nameless, wrong_of_chunk};
use fsmend_engine::crosscheck::owners::GivenUp;
use fsmend_engine::crosscheck::tree::{TreeRepairs, repairs};
use fsmend_engine::inodes::{InodeFact, Kind};
use fsmend_engine::problem::Severity;
use fsmend_engine::repair::{Changes, Mend, Mended};
use fsmend_engine::{Budget, Findings, Problem, Refusal, Row};
use fsmend_hybridfs_format::{
    Attribute, Entry, Format, Inode, Map, Place, ROOT, Record, SLOT_ATTRIBUTES, Stamp, TIES, name_key,
};

use crate::inode::{New, attributes_at, judge, kind_of, number_of};
use crate::log::is_data;
use crate::map::{Leaves, Owner as MapOwner, walk};
use crate::{HybridFs, directory, rows, write};

/// Problems that are mended where they are.
const IN_PLACE: [&Row; 3] = [&rows::SUPERBLOCK, &rows::SUPERBLOCK_DIFFERS, &rows::ANCHOR];
/// Modes of directories that are made.
const ROOT_MODE: u16 = 0o040_755;
const LOST_FOUND_MODE: u16 = 0o040_700;

/// Contents as they will be.
#[derive(Clone, Debug, Default)]
pub(crate) enum Contents {
    /// As they are.
    #[default]
    Keep,
    Small(Vec<u8>),
    Extents(Vec<Record>),
    Entries(BTreeMap<u64, Entry>),
}

/// An inode that changes.
#[derive(Default)]
pub(crate) struct Node {
    /// `None`: it goes.
    pub inode: Option<Inode>,
    pub contents: Contents,
    pub attributes: Option<Vec<Attribute>>,
    /// What it has claimed.
    pub old: Vec<(u64, u64)>,
}

impl Node {
    /// Whether only the inode itself may change.
    pub fn keeps(&self) -> bool {
        self.attributes.is_none() && matches!(self.contents, Contents::Keep)
    }
}

/// What changes.
pub(crate) struct Model<'a> {
    pub fs: &'a HybridFs<'a>,
    pub input: Input,
    pub nodes: BTreeMap<u32, Node>,
    /// Entries of directories that change.
    pub directories: BTreeMap<u32, BTreeMap<u64, Entry>>,
    /// Data blocks in use, a bit each.
    pub data: Vec<u64>,
    /// Copies of data.
    pub copies: Changes,
    pub generation: u32,
    lost: Findings,
}

/// Works out what mends the file system.
pub(crate) fn mend(fs: &HybridFs<'_>, found: Wrongs<'_>, budget: &Budget) -> Result<Mended, Refusal> {
    let Wrongs { edits, input, findings } = found;
    let mends = Mend::of(&edits, fs.device);
    let mut changes: BTreeMap<u64, Vec<u8>> =
        edits.into_iter().map(|edit| (edit.offset, edit.bytes.into_vec())).collect();
    let needs_segment = findings
        .iter()
        .any(|problem| problem.row.severity > Severity::Note && !IN_PLACE.contains(&problem.row));
    if !needs_segment {
        return Ok(Mended {
            changes: changes.into_iter().collect(),
            copies: Vec::new(),
            mends,
            lost: Findings::new(),
        });
    }
    let mut model = Model {
        fs,
        data: write::data_words(fs, &input.claims),
        input,
        nodes: BTreeMap::new(),
        directories: BTreeMap::new(),
        copies: Vec::new(),
        generation: fs.state.last.generation,
        lost: Findings::new(),
    };
    model.take_judgements();
    model.part_contested();
    model.root();
    model.tree()?;
    model.links();
    let lost = std::mem::take(&mut model.lost);
    let written = write::segment(model)?;
    let bytes: u64 = written.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    if bytes > budget.free() / 2 {
        return Err(fsmend_engine::scan::memory_plan::too_small(
            budget,
            budget.limit().saturating_add(2 * bytes),
        ));
    }
    changes.extend(written);
    Ok(Mended { changes: changes.into_iter().collect(), copies: Vec::new(), mends, lost })
}

fn in_map(fs: &HybridFs<'_>, entries: Vec<Entry>) -> BTreeMap<u64, Entry> {
    let mut map = BTreeMap::new();
    for entry in entries {
        directory::put(fs, &mut map, entry);
    }
    map
}

impl Model<'_> {
    /// The inode with a number, to be changed.
    fn node(&mut self, number: InodeNo) -> &mut Node {
        let fs = self.fs;
        self.nodes.entry(number.0).or_insert_with(|| {
            let judged = judge(fs, number, fs.record(number).as_deref());
            let contents = match judged.contents {
                None => Contents::Keep,
                Some(New::Small(bytes)) => Contents::Small(bytes),
                Some(New::Extents(extents)) => Contents::Extents(extents),
                Some(New::Entries) => Contents::Entries(BTreeMap::new()),
            };
            Node { inode: judged.inode, contents, attributes: judged.attributes, old: judged.summary.units }
        })
    }

    fn take_judgements(&mut self) {
        let take = |set: &std::sync::Mutex<BTreeSet<u32>>| {
            std::mem::take(&mut *set.lock().unwrap_or_else(PoisonError::into_inner))
        };
        for number in take(&self.fs.state.touched) {
            self.node(InodeNo(number));
        }
        let mended =
            std::mem::take(&mut *self.fs.state.mended.lock().unwrap_or_else(PoisonError::into_inner));
        for (number, entries) in mended {
            self.node(InodeNo(number));
            self.directories.insert(number, in_map(self.fs, entries));
        }
    }

    fn generation_of(&self, inode: InodeNo) -> u32 {
        let node = self.nodes.get(&inode.0).and_then(|node| node.inode.as_ref());
        let known = || self.fs.state.facts(inode.0).map_or(0, |(generation, _)| generation);
        node.map_or_else(known, |inode| inode.generation)
    }

    /// The entries of a directory, to be changed.
    fn entries(&mut self, directory: InodeNo) -> &mut BTreeMap<u64, Entry> {
        self.node(directory);
        let fs = self.fs;
        self.directories.entry(directory.0).or_insert_with(|| in_map(fs, directory::entries(fs, directory)))
    }

    /// Every owner but one gets a copy of what several claim.
    fn part_contested(&mut self) {
        let Some(contest) = self.input.contest.take() else { return };
        for (inode, units) in contest.given_up(self.fs, &self.input.claims) {
            self.part(inode, units);
        }
    }

    fn part(&mut self, number: InodeNo, mut units: GivenUp) {
        let fs = self.fs;
        let per_block = fs.sb().per_block();
        let is_of_log = units.units().any(|unit| fs.sb().data_index(unit - unit % per_block).is_none());
        let node = self.node(number);
        let Some(inode) = node.inode.clone() else { return };
        if is_of_log {
            node.attributes.get_or_insert_with(|| attributes_of(fs, &inode));
            if matches!(node.contents, Contents::Keep) {
                node.contents = contents_of(fs, &inode);
            }
        }
        let extents = match &node.contents {
            Contents::Extents(extents) => extents.clone(),
            Contents::Keep if kind_of(inode.mode) == Some(Kind::Regular) => extents_of(fs, &inode),
            _ => return,
        };
        let mut moved = Vec::new();
        for record in extents {
            let len = u64::from(record.place.len) * per_block;
            match units.includes(record.place.address, len) {
                true => self.copy_extent(number, record, &mut moved),
                false => moved.push(record),
            }
        }
        self.node(number).contents = Contents::Extents(moved);
    }

    /// Copies an extent to free blocks; what finds no room becomes a hole.
    fn copy_extent(&mut self, number: InodeNo, record: Record, moved: &mut Vec<Record>) {
        let (fs, per_block) = (self.fs, self.fs.sb().per_block());
        for at in 0..u64::from(record.place.len) {
            let from = record.place.address + at * per_block;
            let problem = |row| Problem::new(row).inode(number).blocks(BlockNo(from), per_block);
            let Some(block) = self.take_data() else {
                self.lost.raise(problem(&rows::NO_ROOM));
                continue;
            };
            let bytes = fs.log().bytes(from, per_block);
            if bytes.is_none() {
                self.lost.raise(problem(&rows::COPY_UNREADABLE));
            }
            let bytes = bytes.unwrap_or_else(|| vec![0; fs.sb().block_size as usize]);
            let address = fs.sb().data_address(block);
            self.copies.push((fs.log().offset(address), bytes));
            let key = record.key + at;
            match moved.last_mut() {
                Some(last)
                    if last.key + u64::from(last.place.len) == key
                        && last.place.address + u64::from(last.place.len) * per_block == address
                        && is_data(
                            fs.sb(),
                            Place { len: last.place.len.saturating_add(1), ..last.place },
                        ) =>
                {
                    last.place.len = last.place.len.saturating_add(1);
                }
                _ => moved.push(Record { key, place: Place { address, len: 1 }, ..record }),
            }
        }
    }

    fn take_data(&mut self) -> Option<u64> {
        let blocks = self.fs.sb().data_blocks();
        let at = self.data.iter().position(|word| *word != u64::MAX)?;
        let word = self.data.get_mut(at)?;
        let bit = u64::from(word.trailing_ones());
        let block = at as u64 * 64 + bit;
        if block >= blocks {
            return None;
        }
        *word |= 1 << bit;
        Some(block)
    }

    fn new_directory(&mut self, number: InodeNo, mode: u16, parent: InodeNo) {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let parent_generation = if parent == number { generation } else { self.generation_of(parent) };
        let now = Stamp(self.fs.state.last.time);
        let inode = Inode {
            mode,
            used: u64::from(parent.0) | u64::from(parent_generation) << 32,
            ..Inode::empty_directory(u64::from(number.0), generation, now)
        };
        let old = self.nodes.remove(&number.0).map(|node| node.old);
        let old =
            old.unwrap_or_else(|| judge(self.fs, number, self.fs.record(number).as_deref()).summary.units);
        let contents = Contents::Entries(BTreeMap::new());
        self.nodes.insert(number.0, Node { inode: Some(inode), contents, attributes: None, old });
        self.directories.insert(number.0, BTreeMap::new());
    }

    /// Makes a root directory where there is none; the check has put it in the facts.
    fn root(&mut self) {
        let root = InodeNo(ROOT);
        let judged = judge(self.fs, root, self.fs.record(root).as_deref());
        if judged.summary.kind != Some(Kind::Directory) {
            self.cover(root);
            self.new_directory(root, ROOT_MODE, root);
            let inodes = &self.input.inodes;
            if inodes.directory(root).is_none() {
                let inodes = &mut self.input.inodes;
                inodes.revise(root, InodeFact::new(Kind::Directory, 0), 2);
                inodes.add_directory(root);
            }
        }
    }

    /// Makes facts of an inode possible.
    fn cover(&mut self, inode: InodeNo) {
        let per_chunk = self.input.inodes.per_chunk();
        self.input.inodes.extend(inode.0 / per_chunk, (inode.0 % per_chunk) as usize + 1);
    }

    /// Gives a name in lost+found to everything that has none, and makes directories name the parents that hold their names.
    fn tree(&mut self) -> Result<(), Refusal> {
        let TreeRepairs { mut homeless, looped, mut parents } =
            repairs(&self.input.tree, &self.input.parent_entries);
        for inode in looped {
            self.cut_loop(inode);
            homeless.insert(inode);
        }
        let inodes = &self.input.inodes;
        let is_kept = |inode: &InodeNo| inodes.links(*inode).0 > 0 && !self.fs.is_worthless(*inode);
        let more: Vec<InodeNo> = nameless(self.fs, inodes).into_iter().filter(is_kept).collect();
        homeless.extend(more);
        parents.extend(homeless.iter().filter(|inode| self.input.inodes.kind(**inode) == Kind::Directory));
        // The root is its own parent.
        homeless.remove(&InodeNo(ROOT));
        if !homeless.is_empty() {
            self.shelter(&homeless);
        }
        for inode in parents {
            self.settle_parent(inode);
        }
        Ok(())
    }

    fn cut_loop(&mut self, inode: InodeNo) {
        let Some(fact) = self.input.inodes.directory(inode) else { return };
        let holder = InodeNo(fact.parent.swap(0, Relaxed));
        self.entries(holder).retain(|_, entry| entry.inode != inode.0);
        self.input.inodes.withdraw_link(inode);
    }

    fn shelter(&mut self, homeless: &BTreeSet<InodeNo>) {
        let home = self.lost_found().unwrap_or(InodeNo(ROOT));
        for inode in homeless {
            let kind = self.input.inodes.kind(*inode);
            self.add_name(home, format!("#{inode}").as_bytes(), (*inode, kind));
            self.input.inodes.observe_link(*inode);
            if let Some(fact) = self.input.inodes.directory(*inode) {
                fact.parent.store(home.0, Relaxed);
            }
        }
    }

    fn add_name(&mut self, directory: InodeNo, name: &[u8], (inode, kind): (InodeNo, Kind)) {
        let fs = self.fs;
        let generation = self.generation_of(inode);
        let key = name_key(&fs.sb().hash_key, name);
        let entry = Entry { key, inode: inode.0, generation, kind: number_of(kind), name: name.to_vec() };
        let entries = self.entries(directory);
        // The same name from an earlier repair stays: it leads elsewhere.
        let mut entry = entry;
        while has_name(fs, entries, &entry.name) {
            entry.name.push(b'+');
            entry.key = name_key(&fs.sb().hash_key, &entry.name);
        }
        directory::put(fs, entries, entry);
    }

    /// The directory lost+found, which is made where there is none and an inode is free. Where something else has that name, it is called lost+found.1, and so on.
    fn lost_found(&mut self) -> Option<InodeNo> {
        let root = InodeNo(ROOT);
        let taken: BTreeMap<Vec<u8>, InodeNo> =
            self.entries(root).values().map(|entry| (entry.name.clone(), InodeNo(entry.inode))).collect();
        let name = match lost_found_among(&taken, &self.input.inodes) {
            Ok(inode) => return Some(inode),
            Err(name) => name,
        };
        let inode = self.free_inode()?;
        self.cover(inode);
        self.new_directory(inode, LOST_FOUND_MODE, root);
        self.add_name(root, &name, (inode, Kind::Directory));
        self.input.inodes.add_new_directory(inode, root);
        Some(inode)
    }

    fn free_inode(&self) -> Option<InodeNo> {
        let inodes = &self.input.inodes;
        let is_free = |number: &InodeNo| {
            let is_new = self.nodes.get(&number.0).is_some_and(|node| node.inode.is_some());
            let has_block = self.fs.state.block(self.fs.state.split(number.0).0).is_some();
            has_block && inodes.kind(*number) == Kind::Unused && !is_new
        };
        (ROOT + 1..inodes.inodes_count()).map(InodeNo).find(is_free)
    }

    fn settle_parent(&mut self, inode: InodeNo) {
        let root = InodeNo(ROOT);
        let Some(fact) = self.input.inodes.directory(inode) else { return };
        let parent = if inode == root { root } else { InodeNo(fact.parent.load(Relaxed)) };
        if parent.0 == 0 {
            return;
        }
        let generation = self.generation_of(parent);
        if let Some(inode) = &mut self.node(inode).inode {
            inode.used = u64::from(parent.0) | u64::from(generation) << 32;
        }
        self.input.inodes.lead_up(inode, parent);
    }

    /// Sets link counts, and removes what is empty and nameless.
    fn links(&mut self) {
        let mut wrong = Vec::new();
        for chunk in 0..self.input.inodes.chunk_count() {
            wrong_of_chunk(self.fs, &self.input.inodes, chunk, &mut wrong);
        }
        for count in wrong {
            let is_directory = count.fact.kind() == Kind::Directory;
            let node = self.node(count.inode);
            match &mut node.inode {
                Some(inode) if count.observed > 0 || is_directory => {
                    inode.links = u32::try_from(count.observed).unwrap_or(u32::MAX);
                }
                _ => node.inode = None,
            }
        }
    }
}

fn has_name(fs: &HybridFs<'_>, entries: &BTreeMap<u64, Entry>, name: &[u8]) -> bool {
    let base = name_key(&fs.sb().hash_key, name);
    entries.range(base..base + TIES).any(|(_, entry)| entry.name == name)
}

/// The extents of a file as they are.
fn extents_of(fs: &HybridFs<'_>, inode: &Inode) -> Vec<Record> {
    let of = MapOwner { leaves: Leaves::Extents, owner: inode.number, generation: inode.generation };
    match Map::parse(inode.height, inode.count, inode.room()) {
        Ok(map) if inode.format == Format::Map => {
            walk(&fs.log(), of, &map).leaves.into_iter().map(|(record, _)| record).collect()
        }
        _ => Vec::new(),
    }
}

/// Contents as they are, to be written anew.
pub(crate) fn contents_of(fs: &HybridFs<'_>, inode: &Inode) -> Contents {
    let (size, number) = (usize::try_from(inode.size).unwrap_or(0), InodeNo(width::low_u32(inode.number)));
    match (inode.format, kind_of(inode.mode)) {
        (Format::Nothing, _) => Contents::Keep,
        (_, Some(Kind::Directory)) => Contents::Entries(in_map(fs, directory::entries(fs, number))),
        (Format::Inline, _) => Contents::Small(inode.room().get(..size).unwrap_or_default().to_vec()),
        (Format::Small, _) => {
            let bytes = fs.log().object(Record::parse(inode.room()).place).unwrap_or_default();
            Contents::Small(bytes.get(..size).unwrap_or_default().to_vec())
        }
        (Format::Map, _) => Contents::Extents(extents_of(fs, inode)),
    }
}

/// The attributes of an inode as they are.
pub(crate) fn attributes_of(fs: &HybridFs<'_>, inode: &Inode) -> Vec<Attribute> {
    let read = match inode.attribute_slots {
        0 => return Vec::new(),
        SLOT_ATTRIBUTES => attributes_at(&fs.log(), inode, &Record::parse(inode.attribute_room())).ok(),
        _ => fsmend_hybridfs_format::parse_attributes(inode.attribute_room()).ok(),
    };
    read.unwrap_or_default()
}
