// SPDX-License-Identifier: MIT OR Apache-2.0
//! What something without a name was called before: the entries that named it are gone, or do not count any more, but often they can
//! still be read. Where a file goes to `lost+found` under its number, this says what it was.
//!
//! | file | what |
//! |---|---|
//! | `mentions.rs` | what in a block can be read as a name |
//! | `copies.rs` | blocks of lost directories, older copies in the journal |
//!
//! It changes nothing but the report: names are guesses, however good, and a guess is not written. The cost is bounded: every
//! directory is read once more, and at most so many blocks beside (`copies.rs`).

mod copies;
mod mentions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::pool::{self, PoolConfig, Stage};
use fsmend_engine::{FormerName, Witness};
use fsmend_ext_format::directory::{
    Entries, EntryHeader, EntryLayout, entries_len, file_type, has_file_types,
};
use fsmend_ext_format::features::Incompat;

use self::copies::{Copy, is_index_root};
use self::mentions::Mention;
use super::inline::InlineEntries;
use super::params::DirectoryParams;
use super::{Directory, inline};
use crate::Fs;
use fsmend_engine::names::filter::InodeFilter;
use fsmend_engine::names::paths::Paths;
use fsmend_engine::names::traces::{Trace, Traces};

/// Directories that one worker searches at a time.
const DIRECTORIES_PER_SLICE: usize = 64;
/// Lost directories whose records are followed.
const LOST_MAX: usize = 1024;

/// Checksums of directory blocks that are tried, to find out whose they are.
const CHECKSUMS_MAX: usize = 1 << 16;
/// Directories named in a block that are asked where it belongs.
const PARENTS_MAX: usize = 8;
/// Directories that claim one block, as far as they are kept: those with the smallest numbers.
const OWNERS_MAX: usize = 8;

/// What is looked for: inodes, with the type byte that their entries have.
struct Wanted {
    inodes: BTreeMap<InodeNo, u8>,
    /// Lets all of these through.
    inode_filter: InodeFilter,
}

impl Wanted {
    fn of(inodes: BTreeMap<InodeNo, u8>) -> Self {
        Wanted { inode_filter: InodeFilter::of(inodes.keys().copied()), inodes }
    }

    fn has(&self, inode: InodeNo) -> bool {
        self.inode_filter.passes(inode) && self.inodes.contains_key(&inode)
    }

    /// Whether an entry with this type byte can be its name.
    fn fits(&self, inode: InodeNo, byte: u8) -> bool {
        self.inode_filter.passes(inode) && self.inodes.get(&inode) == Some(&byte)
    }
}

/// Where former names are looked for.
pub(crate) struct Search<'a> {
    /// The file system.
    pub fs: &'a Fs<'a>,
    /// Facts of all inodes.
    pub inodes: &'a InodeTable,
    /// Runs of blocks (the first, and how many) that are marked in use and that nothing owns.
    pub unowned: &'a [(u64, u64)],
    /// Workers.
    pub pool: PoolConfig<'a>,
    /// Set when the user wants to stop.
    pub cancel: &'a AtomicBool,
}

/// What one worker finds in directories that stand.
#[derive(Default)]
struct Standing {
    traces: Traces,
    /// Directories that are named as such and are none.
    lost: BTreeSet<InodeNo>,
    /// Who owns the blocks that there are older copies of; several directories where they share a block.
    owners: BTreeMap<u64, BTreeSet<InodeNo>>,
}

impl Standing {
    /// Takes up owners of `block`. What is kept in the end does not depend on the order.
    fn add_owners(&mut self, block: u64, owners: impl IntoIterator<Item = InodeNo>) {
        let kept = self.owners.entry(block).or_default();
        kept.extend(owners);
        while kept.len() > OWNERS_MAX {
            kept.pop_last();
        }
    }

    fn absorb(&mut self, other: Standing) {
        self.traces.merge(other.traces);
        self.lost.extend(other.lost);
        other.owners.into_iter().for_each(|(block, owners)| self.add_owners(block, owners));
    }
}

/// How entries are laid out where nothing more is known.
fn layout(fs: &Fs<'_>) -> EntryLayout {
    EntryLayout { block_size: fs.geometry.block_size, hash_behind_name: false }
}

impl Search<'_> {
    /// The former names of `inodes`, the most trustworthy first, as far as any are found.
    pub fn names_of(&self, inodes: &BTreeSet<InodeNo>) -> BTreeMap<InodeNo, Vec<FormerName>> {
        let mut copies = BTreeSet::new();
        copies::unowned(self.fs, self.unowned, &mut copies);
        copies::journaled(self.fs, &mut copies);
        let mut lost: BTreeSet<InodeNo> = copies.iter().filter_map(|copy| copy.own).collect();
        lost.extend(inodes.iter().filter_map(|inode| self.parent_entry(*inode)));
        lost.retain(|inode| self.inodes.kind(*inode) != Kind::Directory);
        let mut wanted: BTreeMap<InodeNo, u8> =
            inodes.iter().map(|inode| (*inode, self.type_byte(*inode))).collect();
        let directory = if has_file_types(self.fs.geometry.features) { file_type::DIRECTORY } else { 0 };
        wanted.extend(lost.iter().map(|inode| (*inode, directory)));
        let wanted = Wanted::of(wanted);
        let standing = self.standing(&wanted, &copies);
        lost.extend(&standing.lost);
        let lost = lost.into_iter().take(LOST_MAX).collect();
        copies::of_lost(self.fs, &lost, &mut copies);
        let (mut traces, unowned) = (standing.traces, BTreeSet::new());
        let mut checksums_left = CHECKSUMS_MAX;
        for copy in copies {
            let owners = copy.of.and_then(|block| standing.owners.get(&block));
            let owners = owners.filter(|_| copy.own.is_none()).unwrap_or(&unowned);
            self.search_copy((copy, owners), &wanted, (&lost, &mut checksums_left), &mut traces);
        }
        self.told(inodes, &traces)
    }

    /// Where `..` of a directory leads to, or did before that was lost.
    fn parent_entry(&self, inode: InodeNo) -> Option<InodeNo> {
        let parent = self.inodes.directory(inode)?.parent_entry.load(Relaxed);
        let parent = if parent == 0 { self.stored_parent(inode) } else { Some(InodeNo(parent)) };
        parent.filter(|parent| (1..=self.fs.geometry.inodes_count).contains(&parent.0) && *parent != inode)
    }

    /// What `..` says on the disk.
    fn stored_parent(&self, inode: InodeNo) -> Option<InodeNo> {
        let directory = Directory::open(self.fs, inode)?;
        if directory.inline {
            return Some(inline::gather(&directory.record)?.parent);
        }
        let first = directory.runs.first().filter(|run| run.logical == 0)?;
        let bytes = self.fs.read_block(BlockNo(first.physical)).ok()?;
        let entry = Entries::new(&bytes, layout(self.fs), true).flatten().nth(1)?;
        (entry.name == b"..").then_some(InodeNo(entry.header.inode))
    }

    /// The type byte in entries that name `inode`.
    fn type_byte(&self, inode: InodeNo) -> u8 {
        if has_file_types(self.fs.geometry.features) { self.inodes.kind(inode) as u8 } else { 0 }
    }

    /// Searches the directories that stand.
    fn standing(&self, wanted: &Wanted, copies: &BTreeSet<Copy>) -> Standing {
        let copied: BTreeSet<u64> = copies.iter().filter_map(|copy| copy.of).collect();
        let directories: Vec<InodeNo> =
            self.inodes.directories().iter().map(|fact| InodeNo(fact.inode)).collect();
        let parts = pool::run_slices(
            self.pool,
            &[Stage { name: "former names", pass: 0 }],
            &directories,
            DIRECTORIES_PER_SLICE,
            self.cancel,
            |_| Standing::default(),
            |found, part| part.iter().for_each(|inode| self.search(*inode, wanted, &copied, found)),
        );
        parts.into_iter().fold(Standing::default(), |mut all, part| {
            all.absorb(part);
            all
        })
    }

    /// Searches one directory that stands. Encrypted names say nothing.
    fn search(&self, inode: InodeNo, wanted: &Wanted, copied: &BTreeSet<u64>, found: &mut Standing) {
        let Some(directory) = Directory::open(self.fs, inode) else { return };
        let params = DirectoryParams::of(self.fs, &directory);
        for run in &directory.runs {
            let end = run.physical.saturating_add(u64::from(run.count));
            copied.range(run.physical..end).for_each(|block| found.add_owners(*block, [inode]));
        }
        if params.encrypted {
            return;
        }
        if directory.inline {
            for (_, area) in inline::gather(&directory.record).iter().flat_map(InlineEntries::filled) {
                let bytes = directory.record.get(area).unwrap_or_default();
                self.search_block(bytes, (params.layout, false), (inode, None), wanted, found);
            }
            return;
        }
        for run in &directory.runs {
            for within in 0..u64::from(run.count) {
                let block = BlockNo(run.physical.saturating_add(within));
                let Ok(bytes) = self.fs.read_block(block) else { continue };
                let first = run.logical == 0 && within == 0;
                let is_node = params.index_flag && is_index_node(&bytes, params.layout);
                let is_root = first && is_index_root(&bytes, params.layout);
                if !is_node && !is_root {
                    let end = entries_len(&bytes, self.fs.geometry.features);
                    let place = (inode, Some(block));
                    self.search_block(&bytes[..end], (params.layout, first), place, wanted, found);
                }
            }
        }
    }

    fn search_block(
        &self,
        bytes: &[u8],
        how: (EntryLayout, bool),
        (holder, block): (InodeNo, Option<BlockNo>),
        wanted: &Wanted,
        found: &mut Standing,
    ) {
        let fits = |inode: InodeNo, byte: u8| wanted.fits(inode, byte) || self.is_lost_directory(inode, byte);
        mentions::visit(bytes, how, &fits, &mut |mention| {
            if !wanted.has(mention.inode) {
                if mention.witness != Witness::Entry {
                    return;
                }
                found.lost.insert(mention.inode);
                if found.lost.len() > LOST_MAX {
                    found.lost.pop_last();
                }
            }
            found.traces.add(mention.inode, self.trace(&mention, Some(holder), block));
        });
    }

    /// Whether an entry that names `inode` says that it is a directory, and it is none.
    fn is_lost_directory(&self, inode: InodeNo, byte: u8) -> bool {
        byte == file_type::DIRECTORY
            && inode.0 >= self.fs.geometry.first_inode
            && inode.0 <= self.fs.geometry.inodes_count
            && self.inodes.kind(inode) != Kind::Directory
    }

    fn trace(&self, mention: &Mention<'_>, holder: Option<InodeNo>, block: Option<BlockNo>) -> Trace {
        let parent = self.parent_entry(mention.inode);
        Trace {
            is_elsewhere: parent.is_some_and(|parent| Some(parent) != holder),
            witness: mention.witness,
            is_placeless: holder.is_none(),
            holder,
            name: mention.name.to_vec(),
            block,
        }
    }

    /// Searches a block that no directory leads to; `owners` have the block that it is an older copy of.
    fn search_copy(
        &self,
        (copy, owners): (Copy, &BTreeSet<InodeNo>),
        wanted: &Wanted,
        (lost, checksums_left): (&BTreeSet<InodeNo>, &mut usize),
        traces: &mut Traces,
    ) {
        let Ok(bytes) = self.fs.read_block(BlockNo(copy.block)) else { return };
        let layout = layout(self.fs);
        let first = copies::opening(self.fs, &bytes).is_some_and(|opening| opening.own.is_some());
        if first && is_index_root(&bytes, layout) {
            return;
        }
        let entries = &bytes[..entries_len(&bytes, self.fs.geometry.features)];
        let only_owner = if owners.len() == 1 { owners.first().copied() } else { None };
        let holder = copy
            .own
            .or(only_owner)
            .or_else(|| copies::owner_by_checksum(self.fs, &bytes, owners, checksums_left))
            .or_else(|| copies::owner_by_checksum(self.fs, &bytes, lost, checksums_left))
            .or_else(|| self.common_parent(entries, layout))
            .or_else(|| owners.first().copied());
        let may_be_encrypted = self.fs.geometry.features.has_incompat(Incompat::ENCRYPT);
        let fits = |inode: InodeNo, byte: u8| wanted.fits(inode, byte);
        mentions::visit(entries, (layout, first), &fits, &mut |mention| {
            if may_be_encrypted && std::str::from_utf8(mention.name).is_err() {
                return;
            }
            let witness = if copy.of.is_some() { Witness::Journal } else { mention.witness };
            let trace = self.trace(&Mention { witness, ..mention }, holder, Some(BlockNo(copy.block)));
            traces.add(mention.inode, trace);
        });
    }

    /// Where `..` of the first directories that are named in `bytes` leads to, if all agree.
    fn common_parent(&self, bytes: &[u8], layout: EntryLayout) -> Option<InodeNo> {
        let named = Entries::new(bytes, layout, false).map_while(Result::ok);
        let directories = named
            .map(|entry| InodeNo(entry.header.inode))
            .filter(|inode| self.inodes.kind(*inode) == Kind::Directory);
        let parents: BTreeSet<InodeNo> =
            directories.take(PARENTS_MAX).filter_map(|inode| self.parent_entry(inode)).collect();
        if parents.len() == 1 { parents.first().copied() } else { None }
    }

    /// Paths for what was found.
    fn told(&self, inodes: &BTreeSet<InodeNo>, traces: &Traces) -> BTreeMap<InodeNo, Vec<FormerName>> {
        let mut holders: BTreeSet<InodeNo> = traces.holders().collect();
        holders.extend(inodes.iter().filter_map(|inode| self.parent_entry(*inode)));
        holders.retain(|inode| self.inodes.kind(*inode) == Kind::Directory);
        let holders: Vec<InodeNo> = holders.into_iter().collect();
        let paths = Paths::gather(self.fs, self.inodes, &holders, 1, (self.pool, self.cancel));
        traces.told(inodes, &paths, |inode| self.parent_entry(inode))
    }
}

/// Whether a block behind the first one is a node of an index: one free record that takes all of it.
fn is_index_node(bytes: &[u8], layout: EntryLayout) -> bool {
    EntryHeader::at(bytes, 0, layout).is_some_and(|header| header.inode == 0 && header.rec_len == bytes.len())
}
