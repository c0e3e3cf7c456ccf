// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of every inode: a few bytes each, published chunk by chunk.
//!
//! A chunk is the format's unit of inode scanning (the inode table of a group). A worker scans a chunk, then
//! publishes its [`ChunkFacts`] at once; until then every question about its inodes is answered by `None`, and the
//! asker has to certify later (pFSCK §5.2.2). Published kinds and link counts may still be changed, atomically, by
//! the inspection of suspects; what the chunk covers may not.

use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};
use crate::sync::{Mutex, PoisonError};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use fsmend_base::{InodeNo, width};

use crate::Budget;

/// What an inode is, by its own record (as it will be after repair).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Kind {
    /// Not in use (or to be cleared).
    #[default]
    Unused = 0,
    /// Regular file.
    Regular = 1,
    /// Directory.
    Directory = 2,
    /// Character device.
    CharDevice = 3,
    /// Block device.
    BlockDevice = 4,
    /// Named pipe.
    Fifo = 5,
    /// Socket.
    Socket = 6,
    /// Symbolic link.
    Symlink = 7,
    /// In use, but of a type that no name may lead to.
    Unknown = 8,
}

impl Kind {
    /// The kind with this number; numbers without a kind give `Unknown`.
    pub fn from_number(number: u8) -> Kind {
        match number {
            0 => Kind::Unused,
            1 => Kind::Regular,
            2 => Kind::Directory,
            3 => Kind::CharDevice,
            4 => Kind::BlockDevice,
            5 => Kind::Fifo,
            6 => Kind::Socket,
            7 => Kind::Symlink,
            _ => Kind::Unknown,
        }
    }
}

/// Marks that a format may put on an inode, kept beside its kind.
pub mod mark {
    /// Holds an attribute value; no name may lead to it.
    pub const EA_INODE: u8 = 0x10;
    /// Encrypted.
    pub const ENCRYPTED: u8 = 0x20;
    /// Reserved by the format: used without being reachable by a name.
    pub const RESERVED: u8 = 0x40;
    /// Something about it is unusual; the fast paths leave everything that touches it to inspection.
    pub const SUSPECT: u8 = 0x80;
}

/// One byte of fact: kind and marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InodeFact(pub u8);

/// Where a fact has its kind; 0 for inodes that are not in use.
const KIND: u8 = 0x0F;

impl InodeFact {
    /// The fact for `kind` with `marks`.
    pub fn new(kind: Kind, marks: u8) -> Self {
        InodeFact(kind as u8 | (marks & 0xF0))
    }

    /// The kind.
    pub fn kind(self) -> Kind {
        Kind::from_number(self.0 & KIND)
    }

    /// Whether all of `marks` are set.
    pub fn has(self, marks: u8) -> bool {
        self.0 & marks == marks
    }
}

/// Memory for the facts of one scanned inode.
pub const BYTES_PER_INODE: u64 = 5;

/// Where the facts of one inode are kept, once its chunk has been published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    chunk: u32,
    index: u32,
}

/// What is known of one directory.
#[derive(Debug, Default)]
pub struct DirectoryFact {
    /// The directory.
    pub inode: u32,
    /// The directory that holds its name; 0 while none is known. When several do, the first to say so (the
    /// directory is then in [`InodeTable::contested`]).
    pub parent: AtomicU32,
    /// The directory that its own parent entry names; 0 while unknown.
    pub parent_entry: AtomicU32,
}

/// The facts of one chunk, private to the worker that scans it until they are published.
#[derive(Debug, Default)]
pub struct ChunkFacts {
    facts: Vec<AtomicU8>,
    stored_links: Vec<AtomicU16>,
    /// The low 16 bits of how many names were seen; what goes beyond them is in [`InodeTable::carries`].
    observed_links: Vec<AtomicU16>,
    directories: Vec<DirectoryFact>,
    /// For each 64 inodes which of them have a place in `directories`; empty in a chunk without directories.
    ranks: Vec<Rank>,
}

/// Which of 64 inodes are directories, and how many directories come before them.
#[derive(Clone, Copy, Debug, Default)]
struct Rank {
    members: u64,
    before: u32,
}

impl Rank {
    /// The place of the directory at `bit` in the list of its chunk.
    #[inline]
    fn place(self, bit: usize) -> Option<usize> {
        let below = self.members & ((1 << (bit % 64)) - 1);
        let is_member = self.members >> (bit % 64) & 1 == 1;
        is_member.then(|| self.before as usize + below.count_ones() as usize)
    }
}

impl ChunkFacts {
    /// Facts for the first `scanned` inodes of the chunk whose first inode is `first`: all unused at first.
    /// Inodes of the chunk behind `scanned` are never-used and cost nothing.
    pub fn new(scanned: usize) -> Self {
        ChunkFacts {
            facts: zeroed(scanned),
            stored_links: zeroed(scanned),
            observed_links: zeroed(scanned),
            directories: Vec::new(),
            ranks: Vec::new(),
        }
    }

    /// How many inodes they are about.
    pub fn scanned(&self) -> usize {
        self.facts.len()
    }

    /// Memory that these facts take.
    pub fn bytes_held(&self) -> u64 {
        let inodes = self.facts.len() * width::index(BYTES_PER_INODE);
        let directories = self.directories.capacity() * size_of::<DirectoryFact>();
        let ranks = self.ranks.capacity() * size_of::<Rank>();
        (inodes + directories + ranks + size_of::<ChunkFacts>()) as u64
    }

    /// Sorts the directories of the chunk whose first inode is `first`, so that each is found at once.
    fn rank(&mut self, first: u32) {
        self.directories.sort_unstable_by_key(|directory| directory.inode);
        for (before, directory) in self.directories.iter().enumerate() {
            let index = directory.inode.saturating_sub(first) as usize;
            self.ranks.resize(index / 64 + 1, Rank { members: 0, before: width::len_u32(before) });
            if let Some(rank) = self.ranks.last_mut() {
                rank.members |= 1 << (index % 64);
            }
        }
        self.ranks.shrink_to_fit();
    }

    /// Takes one more directory in, at `index`, which has none.
    fn count_rank(&mut self, index: usize) {
        let words = self.ranks.len().max(index / 64 + 1);
        let others = width::len_u32(self.directories.len()) - 1;
        self.ranks.resize(words, Rank { members: 0, before: others });
        self.ranks[index / 64].members |= 1 << (index % 64);
        for rank in &mut self.ranks[index / 64 + 1..] {
            rank.before += 1;
        }
    }

    #[inline]
    fn directory(&self, index: usize) -> Option<&DirectoryFact> {
        self.directories.get(self.ranks.get(index / 64)?.place(index)?)
    }

    /// Records an inode in use at `index`, in any order.
    pub fn record(&mut self, index: usize, inode: InodeNo, fact: InodeFact, stored_links: u16) {
        *self.facts[index].get_mut() = fact.0;
        *self.stored_links[index].get_mut() = stored_links;
        if fact.kind() == Kind::Directory {
            self.directories.push(DirectoryFact { inode: inode.0, ..DirectoryFact::default() });
        }
    }
}

/// What numbers of names have beyond 16 bits: so many names lead to few inodes, if to any. Counting wraps around, and the worker that
/// makes it do so notes that here, in any order. Whole numbers are known once all workers have counted.
#[derive(Debug, Default)]
struct Carries {
    exist: AtomicBool,
    by_inode: Mutex<BTreeMap<u32, i32>>,
}

impl Carries {
    #[cold]
    fn carry(&self, inode: u32, by: i32) {
        let mut by_inode = self.by_inode.lock().unwrap_or_else(PoisonError::into_inner);
        let carried = by_inode.entry(inode).or_default();
        *carried = carried.saturating_add(by);
        self.exist.store(true, Relaxed);
    }

    #[inline]
    fn whole(&self, inode: u32, low: u16) -> u32 {
        if self.exist.load(Relaxed) { self.joined(inode, low) } else { u32::from(low) }
    }

    #[cold]
    fn joined(&self, inode: u32, low: u16) -> u32 {
        let by_inode = self.by_inode.lock().unwrap_or_else(PoisonError::into_inner);
        let carried = i64::from(by_inode.get(&inode).copied().unwrap_or(0));
        u32::try_from(carried << 16 | i64::from(low)).unwrap_or(if carried < 0 { 0 } else { u32::MAX })
    }
}

fn zeroed<T: Default>(len: usize) -> Vec<T> {
    std::iter::repeat_with(T::default).take(len).collect()
}

/// The facts of all inodes. Inode numbers start at 1, or at 0; with `first` the first one, chunk `c` covers `per_chunk` numbers from `c * per_chunk + first` on.
#[derive(Debug)]
pub struct InodeTable {
    per_chunk: u32,
    inodes_count: u32,
    first: u32,
    chunks: Vec<OnceLock<ChunkFacts>>,
    contested: Mutex<Vec<InodeNo>>,
    /// Of directories with several names: the directory whose name is to stay.
    preferred: OnceLock<BTreeMap<InodeNo, InodeNo>>,
    carries: Carries,
    /// Chunks are charged to it as they are published.
    budget: Option<Arc<Budget>>,
}

impl InodeTable {
    /// A table for inodes `1..=inodes_count` in chunks of `per_chunk` (at least 1).
    pub fn new(inodes_count: u32, per_chunk: u32) -> Self {
        let per_chunk = per_chunk.max(1);
        let chunks = zeroed(inodes_count.div_ceil(per_chunk) as usize);
        InodeTable {
            per_chunk,
            inodes_count,
            first: 1,
            chunks,
            contested: Mutex::default(),
            preferred: OnceLock::new(),
            carries: Carries::default(),
            budget: None,
        }
    }

    /// Such a table; what it takes is charged to `budget` as chunks are published.
    pub fn within(budget: &Arc<Budget>, inodes_count: u32, per_chunk: u32) -> Self {
        let mut table = InodeTable::new(inodes_count, per_chunk);
        table.budget = Some(Arc::clone(budget));
        table
    }

    /// The same table for inodes that are numbered from `first`, 0 or 1, on. Inode 0 is never in use: it stands for none.
    pub fn numbered_from(mut self, first: u32) -> Self {
        self.first = first.min(1);
        self
    }

    /// Number of inodes.
    pub fn inodes_count(&self) -> u32 {
        self.inodes_count
    }

    /// Number of inodes in a chunk.
    pub fn per_chunk(&self) -> u32 {
        self.per_chunk
    }

    /// Publishes a scanned chunk to all workers. A chunk can be published once; a second time is ignored.
    pub fn publish(&self, chunk: u32, mut facts: ChunkFacts) {
        facts.directories.shrink_to_fit();
        facts.rank(chunk.saturating_mul(self.per_chunk).saturating_add(self.first));
        if let Some(budget) = &self.budget {
            budget.charge(facts.bytes_held());
        }
        if let Some(slot) = self.chunks.get(chunk as usize) {
            let _ = slot.set(facts);
        }
    }

    /// Makes a published chunk cover its first `scanned` inodes, the new ones unused at first; in a phase when no worker
    /// else looks. A chunk never shrinks.
    pub fn extend(&mut self, chunk: u32, scanned: usize) {
        let before = self.bytes_held_by(chunk);
        if let Some(facts) = self.chunks.get_mut(chunk as usize).and_then(OnceLock::get_mut) {
            let scanned = scanned.max(facts.facts.len());
            facts.facts.resize_with(scanned, AtomicU8::default);
            facts.stored_links.resize_with(scanned, AtomicU16::default);
            facts.observed_links.resize_with(scanned, AtomicU16::default);
        }
        self.charge_growth(chunk, before);
    }

    fn bytes_held_by(&self, chunk: u32) -> u64 {
        self.chunks.get(chunk as usize).and_then(OnceLock::get).map_or(0, ChunkFacts::bytes_held)
    }

    fn charge_growth(&self, chunk: u32, before: u64) {
        if let Some(budget) = &self.budget {
            budget.charge(self.bytes_held_by(chunk).saturating_sub(before));
        }
    }

    fn bytes_held(&self) -> u64 {
        self.chunks.iter().filter_map(OnceLock::get).map(ChunkFacts::bytes_held).sum()
    }

    /// Whether there is an inode of this number.
    #[inline]
    fn has(&self, inode: InodeNo) -> bool {
        inode.0 != 0 && inode.0 - self.first < self.inodes_count
    }

    fn place(&self, inode: InodeNo) -> Option<(&ChunkFacts, usize)> {
        let index = inode.0.checked_sub(self.first)?;
        let chunk = self.chunks.get((index / self.per_chunk) as usize)?.get()?;
        Some((chunk, (index % self.per_chunk) as usize))
    }

    /// The chunk of `inode`, once it has been published: for callers that ask for several inodes that are likely to lie near each other.
    #[inline]
    pub fn published(&self, inode: InodeNo) -> Option<Published<'_>> {
        let chunk = inode.0.checked_sub(self.first)? / self.per_chunk;
        let facts = self.chunks.get(chunk as usize)?.get()?;
        Some(Published { table: self, facts, first: chunk * self.per_chunk + self.first, chunk })
    }

    /// What `inode` is: `None` while its chunk has not been scanned; unused for numbers that no inode has.
    #[inline]
    pub fn fact(&self, inode: InodeNo) -> Option<InodeFact> {
        if !self.has(inode) {
            return Some(InodeFact::default());
        }
        let (chunk, index) = self.place(inode)?;
        Some(chunk.facts.get(index).map_or_else(InodeFact::default, |fact| InodeFact(fact.load(Relaxed))))
    }

    /// [`fact`](Self::fact), with the place at which more can be told of the inode; `None` as the place of numbers that no
    /// scanned inode has.
    #[inline]
    pub fn look(&self, inode: InodeNo) -> (Option<InodeFact>, Option<Place>) {
        let Some(number) = inode.0.checked_sub(self.first).filter(|_| self.has(inode)) else {
            return (Some(InodeFact::default()), None);
        };
        let place = Place { chunk: number / self.per_chunk, index: number % self.per_chunk };
        let Some(chunk) = self.chunk_at(place) else { return (None, None) };
        match chunk.facts.get(place.index as usize) {
            Some(fact) => (Some(InodeFact(fact.load(Relaxed))), Some(place)),
            None => (Some(InodeFact::default()), None),
        }
    }

    #[inline]
    fn chunk_at(&self, place: Place) -> Option<&ChunkFacts> {
        self.chunks.get(place.chunk as usize)?.get()
    }

    /// [`observe_link`](Self::observe_link) for an inode that has been looked up.
    #[inline]
    pub fn observe_link_at(&self, place: Place) {
        if let Some(links) =
            self.chunk_at(place).and_then(|chunk| chunk.observed_links.get(place.index as usize))
            && links.fetch_add(1, Relaxed) == u16::MAX
        {
            self.carries.carry(place.chunk * self.per_chunk + place.index + self.first, 1);
        }
    }

    /// The kind of `inode`; unused where nothing is known.
    pub fn kind(&self, inode: InodeNo) -> Kind {
        self.fact(inode).unwrap_or_default().kind()
    }

    /// Whether `inode` lies in the part of its chunk that has been scanned (not in a never-used tail).
    pub fn is_scanned(&self, inode: InodeNo) -> bool {
        self.place(inode).is_some_and(|(chunk, index)| index < chunk.facts.len())
    }

    /// Changes what is known of an inode in a scanned part of a published chunk (inspection of suspects).
    pub fn revise(&self, inode: InodeNo, fact: InodeFact, stored_links: u16) {
        let Some((chunk, index)) = self.place(inode) else { return };
        if let (Some(slot), Some(links)) = (chunk.facts.get(index), chunk.stored_links.get(index)) {
            slot.store(fact.0, Relaxed);
            links.store(stored_links, Relaxed);
        }
    }

    /// Makes room for what is known of a directory that was not one when its chunk was published; in a phase when
    /// no other worker looks.
    pub fn add_directory(&mut self, inode: InodeNo) {
        let Some(index) = inode.0.checked_sub(self.first) else { return };
        let number = index / self.per_chunk;
        let before = self.bytes_held_by(number);
        if let Some(chunk) = self.chunks.get_mut(number as usize).and_then(OnceLock::get_mut)
            && let Err(place) = chunk.directories.binary_search_by_key(&inode.0, |directory| directory.inode)
        {
            chunk.directories.insert(place, DirectoryFact { inode: inode.0, ..DirectoryFact::default() });
            chunk.count_rank((index % self.per_chunk) as usize);
        }
        self.charge_growth(number, before);
    }

    /// Counts one name (or `.`, or `..`) that leads to `inode`; numbers that no scanned inode has are ignored.
    #[inline]
    pub fn observe_link(&self, inode: InodeNo) {
        if let Some((chunk, index)) = self.place(inode)
            && let Some(links) = chunk.observed_links.get(index)
            && links.fetch_add(1, Relaxed) == u16::MAX
        {
            self.carries.carry(inode.0, 1);
        }
    }

    /// Takes back one [`observe_link`](Self::observe_link).
    pub fn withdraw_link(&self, inode: InodeNo) {
        if let Some((chunk, index)) = self.place(inode)
            && let Some(links) = chunk.observed_links.get(index)
            && links.fetch_sub(1, Relaxed) == 0
        {
            self.carries.carry(inode.0, -1);
        }
    }

    /// Counts that `..` of directory `inode` leads to `parent` from now on.
    pub fn lead_up(&self, inode: InodeNo, parent: InodeNo) {
        let Some(fact) = self.directory(inode) else { return };
        let before = InodeNo(fact.parent_entry.swap(parent.0, Relaxed));
        if before != parent {
            if before.0 != 0 {
                self.withdraw_link(before);
            }
            self.observe_link(parent);
        }
    }

    /// Counts an empty directory that a repair has made as `inode` in `parent`: the name there, `.` and `..`.
    pub fn add_new_directory(&mut self, inode: InodeNo, parent: InodeNo) {
        self.revise(inode, InodeFact::new(Kind::Directory, 0), 2);
        self.add_directory(inode);
        self.set_parent(inode, parent);
        for linked in [inode, inode, parent] {
            self.observe_link(linked);
        }
        if let Some(fact) = self.directory(inode) {
            fact.parent_entry.store(parent.0, Relaxed);
        }
    }

    /// The link count that the inode stores and the number of names that were seen.
    pub fn links(&self, inode: InodeNo) -> (u16, u32) {
        self.place(inode)
            .and_then(|(chunk, index)| {
                Some((
                    chunk.stored_links.get(index)?.load(Relaxed),
                    self.carries.whole(inode.0, chunk.observed_links.get(index)?.load(Relaxed)),
                ))
            })
            .unwrap_or_default()
    }

    /// What is known of directory `inode`, if it is one.
    pub fn directory(&self, inode: InodeNo) -> Option<&DirectoryFact> {
        let (chunk, index) = self.place(inode)?;
        chunk.directory(index)
    }

    /// Records that directory `child` has a name in `parent`. A second name puts it on the list of contested ones.
    pub fn set_parent(&self, child: InodeNo, parent: InodeNo) {
        let Some(index) = child.0.checked_sub(self.first) else { return };
        self.set_parent_at(
            Place { chunk: index / self.per_chunk, index: index % self.per_chunk },
            child,
            parent,
        );
    }

    /// [`set_parent`](Self::set_parent) for a child that has been looked up.
    #[inline]
    pub fn set_parent_at(&self, place: Place, child: InodeNo, parent: InodeNo) {
        if let Some(directory) = self.chunk_at(place).and_then(|chunk| chunk.directory(place.index as usize))
            && let Err(_other) = directory.parent.compare_exchange(0, parent.0, Relaxed, Relaxed)
        {
            let mut contested = self.contested.lock().unwrap_or_else(PoisonError::into_inner);
            if contested.len() == contested.capacity() {
                // A hostile image may have any number of names for one directory.
                contested.sort_unstable();
                contested.dedup();
                let different = contested.len();
                contested.reserve(different.max(8));
            }
            contested.push(child);
        }
    }

    /// Directories with more than one name, sorted.
    pub fn contested(&self) -> Vec<InodeNo> {
        let mut list = self.contested.lock().unwrap_or_else(PoisonError::into_inner).clone();
        list.sort();
        list.dedup();
        list
    }

    /// Says, once, in which directories the names of some directories are to stay if they have several.
    pub fn prefer(&self, parents: BTreeMap<InodeNo, InodeNo>) {
        let _ = self.preferred.set(parents);
    }

    /// Whether the name of directory `child` is to stay in another directory than `holder`.
    pub fn prefers_other(&self, child: InodeNo, holder: InodeNo) -> bool {
        let preferred = self.preferred.get().and_then(|parents| parents.get(&child));
        preferred.is_some_and(|parent| *parent != holder)
    }

    /// All directories in ascending order (kinds as they are now; slots of inodes that turned out otherwise are left out).
    pub fn directories(&self) -> Vec<&DirectoryFact> {
        (0..self.chunk_count()).flat_map(|chunk| self.directories_of_chunk(chunk)).collect()
    }

    /// How many places for directories there are: at least as many as there are directories.
    pub fn directory_count(&self) -> u64 {
        self.chunks.iter().filter_map(OnceLock::get).map(|chunk| chunk.directories.len() as u64).sum()
    }

    /// The directories of one chunk, like [`directories`](Self::directories).
    pub fn directories_of_chunk(&self, chunk: u32) -> impl Iterator<Item = &DirectoryFact> {
        let directories = self.chunks.get(chunk as usize).and_then(OnceLock::get);
        directories
            .into_iter()
            .flat_map(|chunk| &chunk.directories)
            .filter(|directory| self.kind(InodeNo(directory.inode)) == Kind::Directory)
    }

    /// Calls `visit(inode, fact, stored_links, observed_links)` for every scanned inode of `chunk` that is in use, marked, or
    /// has names, in ascending order.
    pub fn visit_chunk(&self, chunk: u32, mut visit: impl FnMut(InodeNo, InodeFact, u16, u32)) {
        let Some(facts) = self.chunks.get(chunk as usize).and_then(OnceLock::get) else { return };
        let first = chunk * self.per_chunk + self.first;
        let columns = facts.facts.iter().zip(&facts.stored_links).zip(&facts.observed_links);
        for (index, ((fact, stored), observed)) in columns.enumerate() {
            let inode = first + width::len_u32(index);
            let observed = self.carries.whole(inode, observed.load(Relaxed));
            let fact = InodeFact(fact.load(Relaxed));
            if fact.0 != 0 || observed != 0 {
                visit(InodeNo(inode), fact, stored.load(Relaxed), observed);
            }
        }
    }

    /// Calls `visit` as [`visit_chunk`](Self::visit_chunk) does, but passes over inodes whose stored and observed links are equal: nearly all.
    pub fn visit_unequal(&self, chunk: u32, mut visit: impl FnMut(InodeNo, InodeFact, u16, u32)) {
        const AT_ONCE: usize = 16;
        let Some(facts) = self.chunks.get(chunk as usize).and_then(OnceLock::get) else { return };
        let columns = facts.stored_links.chunks(AT_ONCE).zip(facts.observed_links.chunks(AT_ONCE));
        let differ = |(stored, observed): (&[AtomicU16], &[AtomicU16])| {
            let pairs = stored.iter().zip(observed);
            pairs.fold(0, |bits, (stored, observed)| bits | (stored.load(Relaxed) ^ observed.load(Relaxed)))
                != 0
        };
        if !self.carries.exist.load(Relaxed) && !columns.into_iter().any(differ) {
            return;
        }
        self.visit_chunk(chunk, |inode, fact, stored, observed| {
            if u32::from(stored) != observed {
                visit(inode, fact, stored, observed);
            }
        });
    }

    /// For each 64 inodes of the scanned part of `chunk`, in ascending order: which of them are in use or reserved, and which are directories.
    pub fn used_in_chunk(&self, chunk: u32) -> impl Iterator<Item = (u64, u64)> {
        let facts = self.chunks.get(chunk as usize).and_then(OnceLock::get);
        facts.into_iter().flat_map(|chunk| chunk.facts.chunks(64)).map(|facts| {
            facts.iter().rev().fold((0, 0), |(used, directories), fact| {
                let fact = fact.load(Relaxed);
                let is_used = fact & (KIND | mark::RESERVED) != 0;
                let is_directory = fact & KIND == Kind::Directory as u8;
                (used << 1 | u64::from(is_used), directories << 1 | u64::from(is_directory))
            })
        })
    }

    /// How many inodes are in use or reserved, and how many are directories.
    pub fn used(&self) -> (u64, u64) {
        let mut sums = (0, 0);
        for chunk in self.chunks.iter().filter_map(OnceLock::get) {
            let (mut used, mut directories) = (0, 0);
            for fact in &chunk.facts {
                let fact = fact.load(Relaxed);
                used += u32::from(fact & (KIND | mark::RESERVED) != 0);
                directories += u32::from(fact & KIND == Kind::Directory as u8);
            }
            sums = (sums.0 + u64::from(used), sums.1 + u64::from(directories));
        }
        sums
    }

    /// Number of chunks.
    pub fn chunk_count(&self) -> u32 {
        width::len_u32(self.chunks.len())
    }
}

/// The facts of one chunk that has been published.
#[derive(Clone, Copy, Debug)]
pub struct Published<'a> {
    table: &'a InodeTable,
    facts: &'a ChunkFacts,
    chunk: u32,
    first: u32,
}

impl Published<'_> {
    /// What `inode` is; `None` if it lies outside of the scanned part of this chunk.
    #[inline]
    pub fn fact(&self, inode: InodeNo) -> Option<InodeFact> {
        let fact = self.facts.facts.get(inode.0.wrapping_sub(self.first) as usize)?;
        Some(InodeFact(fact.load(Relaxed)))
    }

    /// [`InodeTable::observe_link`] for an inode of this chunk; others are ignored.
    #[inline]
    pub fn observe_link(&self, inode: InodeNo) {
        if let Some(links) = self.facts.observed_links.get(inode.0.wrapping_sub(self.first) as usize)
            && links.fetch_add(1, Relaxed) == u16::MAX
        {
            self.table.carries.carry(inode.0, 1);
        }
    }

    /// [`InodeTable::set_parent`] for a child in this chunk.
    #[inline]
    pub fn set_parent(&self, child: InodeNo, parent: InodeNo) {
        let place = Place { chunk: self.chunk, index: child.0.wrapping_sub(self.first) };
        self.table.set_parent_at(place, child, parent);
    }
}

impl Drop for InodeTable {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.release(self.bytes_held());
        }
    }
}

#[cfg(test)]
mod tests;
