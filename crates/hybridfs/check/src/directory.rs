// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories: entries in the order of their keys, which are hashes of the names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use fsmend_base::{InodeNo, width};
use fsmend_device::Request;
use fsmend_engine::checker::{EntryVerdict, judge_entry};
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::names::paths::Directories;
use fsmend_engine::scan::certification::{DirectorySummary, Target};
use fsmend_engine::{Findings, Problem, Row, Value};
use fsmend_hybridfs_format::{
    Entry, EntryView, Format, HEADER_LEN, Inode, InodeView, KEYS_RESERVED, Map, NameKeys, ROOT, Record, TIES,
    name_key, parse_entries, visit_entries,
};

use crate::facts::{IN_USE, KNOWN};
use crate::inode::{block_of, block_with, judge, kind_of, number_of};
use crate::map::{Flaw, Leaves, Owner, walk};
use crate::salvage::{entries_in, is_hash_of};
use crate::{HybridFs, rows};

/// The names of a directory.
#[derive(Default)]
struct Read {
    /// Those that its blocks have.
    entries: Vec<Entry>,
    /// Those that only older versions of its blocks have.
    older: Vec<Entry>,
    /// A block or node is damaged, which the judgement of the inode says.
    is_damaged: bool,
    /// Entries are not where they should be.
    is_disordered: bool,
    /// Counts beside blocks are wrong.
    sums: Vec<(u64, u64, u64)>,
}

fn read(fs: &HybridFs<'_>, inode: &Inode, searches: bool) -> Read {
    let mut read = Read::default();
    let hash_key = &fs.sb().hash_key;
    match inode.format {
        Format::Inline => {
            let bytes = usize::try_from(inode.size).ok().and_then(|size| inode.room().get(..size));
            match bytes.map(|bytes| parse_entries(bytes, None)) {
                Some(Ok(entries)) => read.entries = entries,
                _ => {
                    read.entries = entries_in(hash_key, inode.room());
                    read.is_disordered = true;
                }
            }
        }
        Format::Map => read_map(fs, inode, searches, &mut read),
        _ => {}
    }
    let is_sorted = read.entries.is_sorted_by(|one, next| one.key < next.key);
    read.is_disordered |= !is_sorted || !read.entries.iter().all(|entry| is_hash_of(hash_key, entry));
    read
}

fn read_map(fs: &HybridFs<'_>, inode: &Inode, searches: bool, read: &mut Read) {
    let (log, hash_key) = (fs.log(), &fs.sb().hash_key);
    let of = Owner { leaves: Leaves::Directories, owner: inode.number, generation: inode.generation };
    let mut lost: Vec<(u64, u64)> = Vec::new();
    match Map::parse(inode.height, inode.count, inode.room()) {
        Ok(map) => {
            let walked = walk(&log, of, &map);
            for flaw in walked.flaws {
                read.is_damaged = true;
                if let Flaw::Node { record, end, .. } = flaw {
                    lost.push((record.key, end));
                }
            }
            for (record, end) in walked.leaves {
                let block = log.headed(record.place, &block_of(inode, &record));
                let Ok((header, bytes)) = block else {
                    read.is_damaged = true;
                    // Whole entries in what lies there are as good as others.
                    if let Ok(bytes) = log.object(record.place) {
                        let found = entries_in(hash_key, &bytes);
                        let is_near = |entry: &Entry| (record.key..end).contains(&entry.key);
                        read.entries.extend(found.into_iter().filter(is_near));
                    }
                    lost.push((record.key, end));
                    continue;
                };
                let body = bytes.get(HEADER_LEN..).unwrap_or_default();
                match parse_entries(body, Some(header.count)) {
                    Ok(entries) => {
                        let is_first = entries.first().is_some_and(|entry| entry.key == record.key);
                        let is_last = entries.last().is_some_and(|entry| entry.key < end);
                        read.is_disordered |= !is_first || !is_last;
                        if entries.len() as u64 != record.aux {
                            read.sums.push((record.place.address, record.aux, entries.len() as u64));
                        }
                        read.entries.extend(entries);
                    }
                    Err(_) => {
                        read.is_disordered = true;
                        read.entries.extend(entries_in(hash_key, body));
                    }
                }
            }
        }
        Err(_) => {
            read.is_damaged = true;
            lost.push((KEYS_RESERVED, u64::MAX));
        }
    }
    for keys in lost.into_iter().filter(|_| searches) {
        let known: BTreeSet<u64> = read.entries.iter().map(|entry| entry.key).collect();
        let relics = fs.state.relics(&log).entries(&log, of, keys);
        for (entry, in_use) in relics.into_iter().filter(|(entry, _)| !known.contains(&entry.key)) {
            if in_use { read.entries.push(entry) } else { read.older.push(entry) }
        }
    }
}

/// Whether a directory has names, or may have some where it cannot be read.
pub(crate) fn holds_names(fs: &HybridFs<'_>, inode: &Inode) -> bool {
    let read = read(fs, inode, false);
    read.is_damaged || !read.entries.is_empty()
}

/// The inode of a directory as it will be.
fn record(fs: &HybridFs<'_>, directory: InodeNo) -> Option<Inode> {
    judge(fs, directory, fs.record(directory).as_deref()).inode
}

/// Whether an inode has this generation, if it was judged. An inode that is not in use is left to those who know kinds: what is said of a record that can be read must not change
/// with its judgement.
fn knows_generation(fs: &HybridFs<'_>, inode: InodeNo, expected: u32) -> Option<bool> {
    fs.state.facts(inode.0).map_or(Some(false), |facts| bears_out(facts, expected))
}

/// The same by what is known of the inode.
#[inline]
fn bears_out((generation, marks): (u32, u8), expected: u32) -> Option<bool> {
    (marks & KNOWN != 0).then_some(marks & IN_USE == 0 || generation == expected)
}

/// The same, before that by its record.
fn has_generation(fs: &HybridFs<'_>, inode: InodeNo, expected: u32) -> bool {
    knows_generation(fs, inode, expected).unwrap_or_else(|| {
        let record = fs.record(inode);
        let parsed = record.and_then(|record| Inode::parse(&record, u64::from(inode.0), &fs.sb().uuid).ok());
        parsed.is_some_and(|inode| inode.generation == expected)
    })
}

/// The parent that a directory names, if that is the one that is there now.
fn parent_of(fs: &HybridFs<'_>, inode: &Inode) -> Option<InodeNo> {
    let (parent, is) = (InodeNo(width::low_u32(inode.used)), width::low_u32(inode.used >> 32));
    (parent.0 != 0 && has_generation(fs, parent, is)).then_some(parent)
}

fn bytes_of(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| entry.stored_len() as u64).sum()
}

/// An entry of a directory that was cleared before it was known what the entry leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unproven {
    directory: InodeNo,
    target: InodeNo,
    generation: u32,
}

/// Entries that may wait for their targets; beyond that, the record of the target is read.
const UNPROVEN_MAX: usize = 1 << 16;
/// Memory for them while their list grows.
pub(crate) const UNPROVEN_BYTES: u64 = (2 * UNPROVEN_MAX * size_of::<Unproven>()) as u64;

/// An inode by its record, whatever its number.
fn view<'r>(fs: &HybridFs<'_>, record: &'r [u8]) -> Option<InodeView<'r>> {
    let number = record.get(4..)?.first_chunk().copied().map(u64::from_le_bytes)?;
    InodeView::parse(record, number, fs.state.seed).ok()
}

/// Adds the blocks of a directory whose map has no nodes. False for others.
pub(crate) fn blocks(fs: &HybridFs<'_>, record: &[u8], blocks: &mut Vec<Request>) -> bool {
    let log = fs.log();
    let inode = view(fs, record).filter(|inode| inode.format == Format::Map);
    let Some(records) = inode.as_ref().and_then(crate::fast::records) else { return false };
    for place in records.map(|record| record.place) {
        if !log.has(place) {
            return false;
        }
        let len = u32::from(place.len).saturating_mul(log.sb.fragment_size);
        blocks.push(Request { offset: log.offset(place.address), len });
    }
    true
}

/// The fast path. It reads on where a block cannot be read, which may only be not there yet. Generations are not its matter: what they contradict is noted
/// ([`contradicted`]), so that what it returns does not depend on what is known by now.
pub(crate) fn summarize(fs: &HybridFs<'_>, record: &[u8], summary: &mut DirectorySummary) -> bool {
    let Some(inode) = view(fs, record).filter(|inode| kind_of(inode.mode()) == Some(Kind::Directory)) else {
        return false;
    };
    let directory = InodeNo(u32::try_from(inode.number()).unwrap_or_default());
    let mut plain = Plain {
        fs,
        directory,
        keys: NameKeys::new(&fs.sb().hash_key),
        last: KEYS_RESERVED - 1,
        stored: 0,
        summary,
        unproven: Vec::new(),
        is_contradicted: false,
        near: (u64::MAX, None),
    };
    // The parent, and its generation.
    let (parent, generation) = (InodeNo(width::low_u32(inode.used())), width::low_u32(inode.used() >> 32));
    let mut is_plain = parent.0 != 0;
    plain.summary.parent_entry = parent;
    plain.prove(parent, generation);
    is_plain &= match inode.format {
        Format::Inline => {
            let bytes = usize::try_from(inode.size()).ok().and_then(|size| inode.room().get(..size));
            bytes.is_some_and(|bytes| plain.block(bytes, None, u64::MAX).is_some())
        }
        Format::Map => plain.map(&inode),
        Format::Nothing | Format::Small => true,
    };
    is_plain &= plain.stored == inode.size();
    let Plain { unproven, is_contradicted, .. } = plain;
    if is_plain && (is_contradicted || !unproven.is_empty()) {
        note(fs, directory, unproven, is_contradicted);
    }
    is_plain
}

/// A directory that is in order, as far as it has been read.
struct Plain<'a> {
    fs: &'a HybridFs<'a>,
    directory: InodeNo,
    keys: NameKeys<'a>,
    /// The last key.
    last: u64,
    /// Bytes of entries.
    stored: u64,
    summary: &'a mut DirectorySummary,
    unproven: Vec<Unproven>,
    is_contradicted: bool,
    /// The block of the last target, and its place in the list.
    near: (u64, Option<usize>),
}

impl Plain<'_> {
    /// The blocks that the inode leads to.
    fn map(&mut self, inode: &InodeView<'_>) -> bool {
        let of = (inode.number(), inode.generation());
        if let Some(mut records) = crate::fast::records(inode).map(Iterator::peekable) {
            let (mut bytes, mut is_plain) = (Vec::new(), true);
            while let Some(record) = records.next() {
                let end = records.peek().map_or(u64::MAX, |next| next.key);
                is_plain &= self.leaf(of, (&record, end), &mut bytes);
            }
            return is_plain;
        }
        let Ok(map) = Map::parse(inode.height(), inode.count(), inode.room()) else { return false };
        let of_nodes = Owner { leaves: Leaves::Directories, owner: of.0, generation: of.1 };
        let walked = walk(&self.fs.log(), of_nodes, &map);
        let mut bytes = Vec::new();
        let leaves = walked
            .leaves
            .iter()
            .fold(true, |is_plain, (record, end)| self.leaf(of, (record, *end), &mut bytes) && is_plain);
        leaves && walked.flaws.is_empty()
    }

    /// A block with entries, whose keys are those from that of its record to before `end`.
    fn leaf(&mut self, of: (u64, u32), (record, end): (&Record, u64), bytes: &mut Vec<u8>) -> bool {
        let log = self.fs.log();
        let block = log.headed_at(record.place, &block_with(of, record), bytes);
        let Ok((header, bytes)) = block else { return false };
        let body = bytes.get(HEADER_LEN..).unwrap_or_default();
        self.block(body, Some(header.count), end) == Some(record.key) && u64::from(header.count) == record.aux
    }

    /// Entries in a row: their first key, if they are in order; that of none is the highest.
    fn block(&mut self, bytes: &[u8], count: Option<u32>, end: u64) -> Option<u64> {
        let (mut first, mut is_plain) = (u64::MAX, true);
        let visited = visit_entries(bytes, count, |entry| {
            first = first.min(entry.key);
            is_plain &= entry.key < end && self.entry(&entry);
        });
        (visited.is_ok() && is_plain).then_some(first)
    }

    fn entry(&mut self, entry: &EntryView<'_>) -> bool {
        let kind = kind_of(u16::from(entry.kind) << 12).filter(|_| entry.kind < 16);
        // Two names with one hash are left to inspection, which compares them.
        let base = entry.key / TIES * TIES;
        let is_next = entry.key > self.last && base > self.last / TIES * TIES;
        let Some(kind) = kind.filter(|_| is_next && entry.inode > ROOT && base == self.keys.key(entry.name))
        else {
            return false;
        };
        self.last = entry.key;
        self.stored += entry.stored_len() as u64;
        self.summary.targets.push(Target { inode: InodeNo(entry.inode), kind });
        self.prove(InodeNo(entry.inode), entry.generation);
        true
    }

    /// Compares the generation of a target, or puts that off.
    #[inline]
    fn prove(&mut self, target: InodeNo, generation: u32) {
        let state = &self.fs.state;
        let (number, at) = state.split(target.0);
        // Most targets are neighbours.
        if number != self.near.0 {
            self.near = (number, state.block(number).map(|(place, _)| place));
        }
        let facts = self.near.1.and_then(|place| state.facts.get(state.facts_place(place, at)));
        match facts.map_or(Some(false), |facts| bears_out(facts, generation)) {
            Some(is_right) => self.is_contradicted |= !is_right,
            None => self.unproven.push(Unproven { directory: self.directory, target, generation }),
        }
    }
}

/// Notes of a directory that was cleared what is still to be proven, or that something contradicts it.
fn note(fs: &HybridFs<'_>, directory: InodeNo, unproven: Vec<Unproven>, mut is_contradicted: bool) {
    let mut waiting = fs.state.unproven.lock().unwrap_or_else(PoisonError::into_inner);
    let has_room = waiting.len() + unproven.len() <= UNPROVEN_MAX;
    if has_room && !is_contradicted {
        waiting.extend(unproven);
        return;
    }
    drop(waiting);
    is_contradicted |= unproven.iter().any(|entry| !has_generation(fs, entry.target, entry.generation));
    if is_contradicted {
        fs.state.contradicted.lock().unwrap_or_else(PoisonError::into_inner).insert(directory);
    }
}

/// Directories that were cleared, and that the generation of something that they lead to contradicts. Asked when everything is known.
pub(crate) fn contradicted(fs: &HybridFs<'_>) -> Vec<InodeNo> {
    let take = |entries: &Mutex<Vec<Unproven>>| {
        std::mem::take(&mut *entries.lock().unwrap_or_else(PoisonError::into_inner))
    };
    let unproven = take(&fs.state.unproven);
    let mut found =
        std::mem::take(&mut *fs.state.contradicted.lock().unwrap_or_else(PoisonError::into_inner));
    let wrong = unproven.iter().filter(|entry| !has_generation(fs, entry.target, entry.generation));
    found.extend(wrong.map(|entry| entry.directory));
    found.into_iter().collect()
}

/// The full check: returns the entries as they will be, if anything changes.
pub(crate) fn inspect(
    fs: &HybridFs<'_>,
    directory: InodeNo,
    inodes: &InodeTable,
    findings: &mut Findings,
    summary: &mut DirectorySummary,
) -> Option<Vec<Entry>> {
    let inode = record(fs, directory)?;
    let mut read = read(fs, &inode, true);
    let before = read.entries.clone();
    let mut is_wrong = read.is_damaged || read.is_disordered || !read.sums.is_empty();
    let about = |row: &'static Row| Problem::new(row).inode(directory);
    if read.is_disordered {
        findings.raise(about(&rows::DIRECTORY_ORDER));
    }
    for (address, stored, observed) in &read.sums {
        let problem = about(&rows::MAP_SUM).block(fsmend_base::BlockNo(*address));
        findings.raise(problem.stored(*stored).observed(*observed));
    }
    let stored_bytes = bytes_of(&read.entries);
    if !read.is_damaged && !read.is_disordered && stored_bytes != inode.size {
        findings.raise(about(&rows::SIZE).stored(inode.size).observed(stored_bytes));
        is_wrong = true;
    }
    if let Some(parent) = parent_of(fs, &inode)
        && inodes.kind(parent) == Kind::Directory
    {
        summary.parent_entry = parent;
    }
    let mut judge = Judge { fs, directory, inodes, names: BTreeSet::new(), directories: BTreeSet::new() };
    let mut kept: BTreeMap<u64, Entry> = BTreeMap::new();
    read.entries.sort_by_key(|entry| entry.key);
    for mut entry in std::mem::take(&mut read.entries) {
        if judge.stays(&mut entry, findings) {
            put(fs, &mut kept, entry);
        }
    }
    // What only older versions know counts where its file would have no name without it.
    for mut entry in read.older {
        let (stored, observed) = inodes.links(InodeNo(entry.inode));
        let is_wanted = u32::from(stored) > observed;
        if is_wanted && judge.stays(&mut entry, &mut Findings::new()) {
            put(fs, &mut kept, entry);
        }
    }
    let kept: Vec<Entry> = kept.into_values().collect();
    for entry in &kept {
        let inode = InodeNo(entry.inode);
        summary.targets.push(Target { inode, kind: inodes.kind(inode) });
    }
    is_wrong |= kept != before;
    is_wrong.then_some(kept)
}

/// Puts an entry where its name is looked for.
pub(crate) fn put(fs: &HybridFs<'_>, entries: &mut BTreeMap<u64, Entry>, mut entry: Entry) -> bool {
    let base = name_key(&fs.sb().hash_key, &entry.name);
    let is_free = |key: &u64| !entries.contains_key(key);
    let own = Some(entry.key).filter(|key| key / TIES * TIES == base && is_free(key));
    let Some(key) = own.or_else(|| (base..base + TIES).find(|key| is_free(key))) else { return false };
    entry.key = key;
    entries.insert(key, entry);
    true
}

/// Judges entries of one directory.
struct Judge<'a> {
    fs: &'a HybridFs<'a>,
    directory: InodeNo,
    inodes: &'a InodeTable,
    names: BTreeSet<Vec<u8>>,
    directories: BTreeSet<u32>,
}

impl Judge<'_> {
    fn stays(&mut self, entry: &mut Entry, findings: &mut Findings) -> bool {
        let about = |row: &'static Row| {
            Problem::new(row).inode(self.directory).detail("name", Value::name(&entry.name))
        };
        let target = InodeNo(entry.inode);
        if self.names.contains(&entry.name) {
            findings.raise(about(&rows::DUPLICATE));
            return false;
        }
        let said = kind_of(u16::from(entry.kind) << 12).filter(|_| entry.kind < 16).unwrap_or(Kind::Unknown);
        let mut verdict = judge_entry(self.inodes, self.directory, target, said);
        let kind = self.inodes.kind(target);
        if kind == Kind::Unknown {
            verdict = EntryVerdict::LeadsNowhere;
        }
        if verdict != EntryVerdict::LeadsNowhere && !has_generation(self.fs, target, entry.generation) {
            findings.raise(about(&rows::ENTRY_GENERATION).stored(entry.inode));
            return false;
        }
        let is_second =
            kind == Kind::Directory && (entry.inode == ROOT || self.directories.contains(&entry.inode));
        if verdict != EntryVerdict::LeadsNowhere && is_second {
            verdict = EntryVerdict::SecondName;
        }
        match verdict {
            EntryVerdict::Right => {}
            EntryVerdict::IsReally(kind) => {
                let (stored, observed) = (u64::from(entry.kind), u64::from(number_of(kind)));
                findings.raise(about(&rows::ENTRY_KIND).stored(stored).observed(observed));
                entry.kind = number_of(kind);
            }
            EntryVerdict::LeadsNowhere => {
                findings.raise(about(&rows::ENTRY_UNUSED).stored(entry.inode));
                return false;
            }
            EntryVerdict::SecondName => {
                findings.raise(about(&rows::SECOND_NAME).stored(entry.inode));
                return false;
            }
        }
        self.names.insert(entry.name.clone());
        if kind == Kind::Directory {
            self.directories.insert(entry.inode);
        }
        true
    }
}

/// All entries of a directory, as far as they can be read.
pub(crate) fn entries(fs: &HybridFs<'_>, directory: InodeNo) -> Vec<Entry> {
    record(fs, directory).map(|inode| read(fs, &inode, true).entries).unwrap_or_default()
}

impl Directories for HybridFs<'_> {
    fn visit_entries(
        &self,
        holder: InodeNo,
        wanted: &dyn Fn(InodeNo) -> bool,
        visit: &mut dyn FnMut(InodeNo, &[u8]),
    ) {
        for entry in entries(self, holder) {
            if wanted(InodeNo(entry.inode)) {
                visit(InodeNo(entry.inode), &entry.name);
            }
        }
    }
}
