// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inspection of an inode, which mends it.
//!
//! Where size, pointers and the count of sectors contradict each other, two that agree outvote the third: a size that leads beyond the last block is cut, one
//! that leaves blocks out which the count knows of is raised, and pointers that nothing else knows of are taken out.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::{InodeNo, width};
use fsmend_engine::checker::InodeSummary;
use fsmend_engine::inodes::Kind;
use fsmend_engine::{Findings, Layer, Problem, Row, Value};
use fsmend_ufs_format::geometry::{DIRECT, ROOT};
use fsmend_ufs_format::inode::{INDIRECT, Inode, mode};
use fsmend_ufs_format::superblock::Hashes;
use fsmend_ufs_format::{SECTOR, Version, directory};

use crate::blocks::{Patches, Role, Slot, contents_patched, slot_of, walk_patched};
use crate::inode::{
    has_map, has_no_device, is_free, is_snapshot, kind_of, size_max, stored_links, used_slots,
};
use crate::survey::{Settle, Survey};
use crate::{UfsFs, attributes, rows};

/// What an inspection leaves.
pub struct Inspection {
    /// The record as it will be.
    pub record: Vec<u8>,
    /// What its indirect blocks will have.
    pub patches: Patches,
    /// What it leaves in the facts.
    pub summary: InodeSummary,
}

/// Inspects a record: raises what is wrong, with edits that mend it.
pub fn inspect(fs: &UfsFs<'_>, number: InodeNo, bytes: &[u8], findings: &mut Findings) -> Inspection {
    let geometry = fs.geometry();
    let record = Inode::new(bytes.to_vec(), geometry.order, geometry.version);
    let mut subject = Subject {
        fs,
        number,
        record,
        findings: findings.fresh(),
        units: Vec::new(),
        fragments: 0,
        blocks: Patches::new(),
        is_quiet: false,
    };
    let keeps = subject.judge();
    let mut summary = InodeSummary::default();
    if keeps {
        summary.kind = kind_of(subject.record.mode());
        summary.links = stored_links(&subject.record);
        summary.units = std::mem::take(&mut subject.units);
        if summary.kind == Some(Kind::Directory) {
            fs.note_depth(number, subject.record.depth());
        }
    } else {
        subject.clear();
    }
    let changed = subject.record.bytes() != bytes;
    if changed {
        subject.record.seal();
        if let Some(place) = geometry.inode_place(number.0) {
            subject.findings.edit(Layer::Record, place, subject.record.bytes());
        }
    }
    let patches = std::mem::take(&mut subject.blocks);
    for (fragment, pointers) in &patches {
        subject.edit_block(*fragment, pointers);
    }
    findings.merge(subject.findings);
    Inspection { record: subject.record.into_bytes(), patches, summary }
}

/// An inode under inspection.
struct Subject<'s, 'd> {
    fs: &'s UfsFs<'d>,
    number: InodeNo,
    record: Inode<Vec<u8>>,
    findings: Findings,
    units: Vec<(u64, u64)>,
    fragments: u64,
    blocks: Patches,
    is_quiet: bool,
}

impl Subject<'_, '_> {
    fn problem(&self, row: &'static Row) -> Problem {
        Problem::new(row).inode(self.number)
    }

    fn raise(&mut self, problem: Problem) {
        if !self.is_quiet {
            self.findings.raise(problem);
        }
    }

    /// The record becomes that of a free inode; its generation stays.
    fn clear(&mut self) {
        let generation = self.record.generation();
        let size = self.record.bytes().len();
        let geometry = self.fs.geometry();
        self.record = Inode::new(vec![0; size], geometry.order, geometry.version);
        self.record.set_generation(generation);
        self.units.clear();
        self.blocks.clear();
    }

    /// Judges and mends the record. False if it has to be cleared.
    fn judge(&mut self) -> bool {
        let geometry = self.fs.geometry();
        let stored_mode = self.record.mode();
        if stored_mode == 0 {
            if is_free(&self.record) {
                return true;
            }
            if self.number.0 < ROOT || !self.is_file_without_mode() {
                self.raise(self.problem(&rows::FREE_WITH_REMAINS));
                return false;
            }
        }
        if self.number.0 < ROOT {
            self.raise(self.problem(&rows::RESERVED_IN_USE));
            return false;
        }
        if kind_of(stored_mode).is_none() {
            let problem = self.problem(&rows::TYPE_UNKNOWN).stored(Value::Text(format!("{stored_mode:#o}")));
            self.raise(problem);
            let Some(kind) = self.guess_type() else { return false };
            // Without a mode, only the owner may have it.
            let rights = if stored_mode == 0 { 0o600 } else { stored_mode & !mode::TYPE };
            self.record.set_mode(kind | rights);
        }
        let is_hash_wrong =
            geometry.hashes.contains(Hashes::INODES) && self.record.hash() != self.record.computed_hash();
        let keeps = match has_map(geometry, &self.record) {
            true => self.map(),
            false => self.no_map(),
        };
        if !keeps {
            return false;
        }
        self.attributes();
        self.sectors();
        if is_hash_wrong && self.findings.is_empty() {
            self.raise(self.problem(&rows::INODE_HASH));
            self.record.seal();
        }
        true
    }

    /// Whether a free inode is one in use whose mode was overwritten: it has links, and a map in which all is as it should be, or the target of a short link. (The mode is what
    /// is taken from an inode last, after its blocks.)
    fn is_file_without_mode(&self) -> bool {
        let (geometry, size) = (self.fs.geometry(), self.record.size());
        if self.record.links() == 0 || size == 0 || size > geometry.file_max {
            return false;
        }
        if self.is_short_link() {
            return true;
        }
        let survey = self.survey(size);
        let sectors = survey.fragments * (geometry.fragment_size / SECTOR);
        survey.fragments > 0 && survey.is_sound() && sectors == self.own_sectors()
    }

    /// Whether a text as long as the file stands where pointers would stand, and no more.
    fn is_short_link(&self) -> bool {
        let room = self.record.short_link();
        let Some((target, rest)) =
            usize::try_from(self.record.size()).ok().and_then(|size| room.split_at_checked(size))
        else {
            return false;
        };
        let is_text = std::str::from_utf8(target).is_ok_and(|text| !text.contains(char::is_control));
        !target.is_empty() && !rest.is_empty() && is_text && rest.iter().all(|byte| *byte == 0)
    }

    /// What an inode with an impossible type is, by its contents: a directory where its first block begins with `.`, a link with a text in place of pointers, else a file if it
    /// has blocks, or neither blocks nor a size.
    fn guess_type(&self) -> Option<u16> {
        let geometry = self.fs.geometry();
        if is_free(&self.record) {
            return Some(mode::REGULAR);
        }
        if self.is_short_link() {
            return Some(mode::LINK);
        }
        let first = self.record.pointer(0);
        // Only what was found sound may begin with a hole.
        let has_block = first != 0 && geometry.may_be_data(first, 1) || self.record.mode() == 0;
        if !has_block || self.record.size() > geometry.file_max {
            return None;
        }
        let begins_with_dot = || {
            let chunk = self.fs.read(first, directory::CHUNK)?;
            let entry = directory::entry(&chunk, 0, geometry.order)?;
            Some(entry.name == b"." && entry.inode == self.number.0)
        };
        let is_directory = first != 0 && begins_with_dot().unwrap_or(false);
        Some(if is_directory { mode::DIRECTORY } else { mode::REGULAR })
    }

    /// A device, a pipe, a socket or a short link.
    fn no_map(&mut self) -> bool {
        let geometry = self.fs.geometry();
        let is_link = self.record.file_type() == mode::LINK;
        let size = self.record.size();
        if is_link && size == 0 {
            self.raise(self.problem(&rows::LINK_EMPTY));
            return false;
        }
        if has_no_device(geometry, &self.record) {
            self.raise(self.problem(&rows::DEVICE_NONE));
            return false;
        }
        if !is_link && size != 0 {
            self.raise(self.problem(&rows::SPECIAL_SIZE).stored(size));
            self.record.set_size(0);
        }
        let used = used_slots(geometry, &self.record);
        let total = width::index(DIRECT) + INDIRECT;
        let strays: Vec<usize> = (used..total).filter(|slot| self.record.pointer(*slot) != 0).collect();
        if !strays.is_empty() {
            let problem = self.problem(&rows::POINTER_STRAY).detail("count", strays.len() as u64);
            self.raise(problem);
            strays.into_iter().for_each(|slot| self.record.set_pointer(slot, 0));
        }
        true
    }

    /// A file, a directory or a long link.
    fn map(&mut self) -> bool {
        let geometry = self.fs.geometry();
        if self.fs.layout.shared_maps.contains(self.number) {
            self.raise(self.problem(&rows::MAP_CROWDED));
            return false;
        }
        let max = size_max(geometry, &self.record);
        let stored_size = self.record.size();
        let mut survey = self.survey(stored_size.min(max));
        if let Some((record, right)) = self.in_order(&survey, stored_size) {
            self.raise(self.problem(&rows::INDIRECT_ORDER));
            (self.record, survey) = (record, right);
        }
        let size = self.settle_size(&survey, stored_size, max);
        if size != stored_size {
            let row = match () {
                () if survey.is_full => &rows::MAP_TOO_LARGE,
                () if stored_size > max => &rows::SIZE_IMPOSSIBLE,
                () => size_row(stored_size, size),
            };
            let problem = self.problem(row).stored(stored_size).observed(size);
            self.raise(problem);
            self.record.set_size(size);
        }
        self.take_out(&survey, size);
        if self.record.file_type() == mode::DIRECTORY {
            return self.directory();
        }
        if self.record.file_type() == mode::LINK && size == 0 {
            self.raise(self.problem(&rows::LINK_EMPTY));
            return false;
        }
        true
    }

    /// Looks at all pointers, within the size and behind it.
    fn survey(&self, size: u64) -> Survey {
        self.survey_of(&self.record, size)
    }

    fn survey_of(&self, record: &Inode<Vec<u8>>, size: u64) -> Survey {
        let geometry = self.fs.geometry();
        let mut survey = Survey {
            geometry: geometry.clone(),
            is_snapshot: is_snapshot(record),
            fragments: 0,
            last: None,
            tail: None,
            is_full: false,
            bad: Vec::new(),
            strays: Vec::new(),
            unreadable: Vec::new(),
        };
        walk_patched(self.fs, record, size, &self.blocks, &mut survey);
        survey
    }

    /// Sectors of the map that the record counts.
    fn own_sectors(&self) -> u64 {
        let geometry = self.fs.geometry();
        let attributes = attributes::fragments(geometry, &self.record);
        self.record.sectors().saturating_sub(attributes * (geometry.fragment_size / SECTOR))
    }

    /// The record with its indirect blocks in the one other order in which all pointers make sense and add up to the count of sectors, if they do not as they stand.
    fn in_order(&self, survey: &Survey, size: u64) -> Option<(Inode<Vec<u8>>, Survey)> {
        let geometry = self.fs.geometry();
        let sectors = self.own_sectors();
        let agrees = |survey: &Survey| {
            survey.is_sound()
                && survey.fragments * (geometry.fragment_size / SECTOR) == sectors
                && survey.last.is_some_and(|last| last + 1 == geometry.block_count(size))
        };
        let first = width::index(DIRECT);
        let stored: [u64; INDIRECT] = std::array::from_fn(|level| self.record.pointer(first + level));
        if survey.is_snapshot || stored == [0; INDIRECT] || agrees(survey) {
            return None;
        }
        let orders = [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let orders: BTreeSet<[u64; INDIRECT]> =
            orders.into_iter().map(|order| order.map(|level: usize| stored[level])).collect();
        let mut right = orders.into_iter().filter(|order| *order != stored).filter_map(|order| {
            let mut record = self.record.clone();
            order.into_iter().zip(first..).for_each(|(fragment, slot)| record.set_pointer(slot, fragment));
            let survey = self.survey_of(&record, size);
            agrees(&survey).then_some((record, survey))
        });
        right.next().filter(|_| right.next().is_none())
    }

    /// The size that agrees best with pointers and sectors.
    fn settle_size(&self, survey: &Survey, stored: u64, max: u64) -> u64 {
        let geometry = self.fs.geometry();
        let per_fragment = geometry.fragment_size / SECTOR;
        let own = self.own_sectors();
        let is_directory = self.record.file_type() == mode::DIRECTORY;
        // Blocks behind the end that the count of sectors knows of: the size is what is wrong.
        if !survey.strays.is_empty() && own > survey.fragments * per_fragment {
            let whole = self.survey(max);
            let spare =
                (whole.fragments * per_fragment).checked_sub(own).map(|sectors| sectors / per_fragment);
            if let (Some(last), Some(spare), true) =
                (whole.last, spare, whole.bad.is_empty() && !whole.is_full)
                && spare < geometry.fragments
                && (last < DIRECT || spare == 0)
            {
                return (whole.end(last) - spare * geometry.fragment_size).min(max);
            }
        }
        let Some(last) = survey.last else {
            // No block at all.
            return 0;
        };
        let end = survey.end(last);
        if geometry.block_count(stored.min(max)) <= last + 1 {
            return stored.min(max).min(end);
        }
        // It ends behind the last block. The count of sectors tells how long that is.
        let counted = survey.fragments * per_fragment;
        let spare = counted.checked_sub(own).map_or(0, |sectors| sectors / per_fragment);
        let spare = if last < DIRECT && spare < geometry.fragments { spare } else { 0 };
        let size = end - spare * geometry.fragment_size;
        if is_directory { size / directory::CHUNK as u64 * directory::CHUNK as u64 } else { size }
    }

    /// Takes pointers out that cannot be right or lie behind the end, and claims the others.
    fn take_out(&mut self, survey: &Survey, size: u64) {
        let geometry = self.fs.geometry();
        let is_snapshot = is_snapshot(&self.record);
        for (pointer, row) in survey
            .bad
            .iter()
            .map(|pointer| (pointer, &rows::POINTER_BAD))
            .chain(survey.unreadable.iter().map(|pointer| (pointer, &rows::INDIRECT_UNREADABLE)))
        {
            let problem = self.problem(row).stored(pointer.fragment);
            let problem = match pointer.role {
                Role::Data(index) => problem.detail("index", index),
                Role::Indirect(_, first) => problem.detail("index", first),
            };
            self.raise(problem);
            self.remove(pointer.slot);
        }
        let mut claims = Settle {
            geometry: geometry.clone(),
            is_snapshot,
            gone: survey.unreadable.iter().map(|pointer| pointer.slot).collect(),
            strays: Vec::new(),
            units: Vec::new(),
            fragments: 0,
        };
        let record = self.record.clone();
        walk_patched(self.fs, &record, size, &self.blocks, &mut claims);
        if !claims.strays.is_empty() {
            let count = claims.strays.len() as u64;
            let problem = self.problem(&rows::POINTER_STRAY).detail("count", count);
            self.raise(problem);
            for slot in std::mem::take(&mut claims.strays) {
                self.remove(slot);
            }
        }
        self.fragments += claims.fragments;
        self.units.append(&mut claims.units);
    }

    /// Makes a pointer a hole.
    fn remove(&mut self, slot: Slot) {
        self.put(slot, 0);
    }

    fn put(&mut self, slot: Slot, to: u64) {
        match slot {
            Slot::Inode(slot) => self.record.set_pointer(slot, to),
            Slot::Block(fragment, index) => {
                self.blocks.entry(fragment).or_default().insert(index, to);
            }
        }
    }

    fn edit_block(&mut self, fragment: u64, pointers: &BTreeMap<u64, u64>) {
        let geometry = self.fs.geometry();
        let Some(mut bytes) = self.fs.read(fragment, width::index(geometry.block_size)) else { return };
        let size = geometry.version.pointer_size();
        for (index, to) in pointers {
            if let Some(pointer) = bytes.chunks_exact_mut(size).nth(width::index(*index)) {
                match geometry.version {
                    Version::Ufs1 => geometry.order.put_u32(pointer, 0, width::low_u32(*to)),
                    Version::Ufs2 => geometry.order.put_u64(pointer, 0, *to),
                }
            }
        }
        self.findings.edit(Layer::Block, geometry.place(fragment), &bytes);
    }

    /// A directory: no holes, whole chunks, at least one.
    fn directory(&mut self) -> bool {
        let geometry = self.fs.geometry();
        let chunk = directory::CHUNK as u64;
        let size = self.record.size();
        if !size.is_multiple_of(chunk) {
            let rounded = size.next_multiple_of(chunk);
            let problem = self.problem(&rows::DIRECTORY_SIZE).stored(size).observed(rounded);
            self.raise(problem);
            self.record.set_size(rounded);
        }
        let blocks = geometry.block_count(self.record.size());
        let present = contents_patched(self.fs, &self.record, &self.blocks);
        let missing = blocks.saturating_sub(present.len() as u64);
        if missing != 0 {
            let problem = self.problem(&rows::DIRECTORY_HOLE).detail("count", missing);
            self.raise(problem);
            let (moves, size) = self.without_holes(&present);
            moves.into_iter().for_each(|(slot, fragment)| self.put(slot, fragment));
            self.shorten(size);
        }
        if self.record.size() == 0 || self.record.pointer(0) == 0 {
            self.raise(self.problem(&rows::DIRECTORY_EMPTY));
            return false;
        }
        true
    }

    /// Pointers that fill the holes of a directory with the blocks at its end, of which the last one stays last, and the size that it has then. Where indirect blocks are
    /// missing on the way, the directory ends with the blocks that are left before the first hole.
    fn without_holes(&self, present: &[(u64, u64, usize)]) -> (Vec<(Slot, u64)>, u64) {
        let block = self.fs.geometry().block_size;
        let Some((last, before)) = present.split_last() else { return (Vec::new(), 0) };
        let end = before.len() as u64;
        let there: BTreeSet<u64> = before.iter().map(|(index, ..)| *index).collect();
        let holes = (0..end).filter(|index| !there.contains(index));
        let movers = before.iter().filter(|(index, ..)| *index >= end).map(|(_, fragment, _)| *fragment);
        let slot = |index: u64| slot_of(self.fs, &self.record, index, &self.blocks);
        let moves: Option<Vec<(Slot, u64)>> = holes
            .zip(movers)
            .chain([(end, last.1)])
            .map(|(index, fragment)| Some((slot(index)?, fragment)))
            .collect();
        match moves {
            Some(moves) => (moves, end * block + last.2 as u64),
            None => {
                let whole = present.iter().zip(0..).take_while(|((index, ..), number)| index == number);
                (Vec::new(), whole.count() as u64 * block)
            }
        }
    }

    /// Sets the size of a directory that lost blocks. What it claims is worked out anew.
    fn shorten(&mut self, size: u64) {
        self.record.set_size(size);
        self.units.clear();
        self.fragments = 0;
        self.is_quiet = true;
        let survey = self.survey(size);
        self.take_out(&survey, size);
        self.is_quiet = false;
    }

    fn attributes(&mut self) {
        let geometry = self.fs.geometry();
        if geometry.version == Version::Ufs1 {
            return;
        }
        let (size, blocks) =
            (self.record.attributes_size(), [0, 1].map(|index| self.record.attribute_block(index)));
        if size == 0 && blocks == [0, 0] {
            return;
        }
        let Some(runs) = attributes::runs(geometry, &self.record) else {
            let problem = self.problem(&rows::ATTRIBUTES_PLACE).stored(size);
            self.raise(problem);
            self.record.set_attributes_size(0);
            self.record.set_attribute_block(0, 0);
            self.record.set_attribute_block(1, 0);
            return;
        };
        if let Some(keeps) = attributes::flaw(self.fs, &self.record) {
            let problem = self.problem(&rows::ATTRIBUTES_CONTENTS).stored(size).observed(keeps as u64);
            self.raise(problem);
            for (place, bytes) in attributes::cut(self.fs, &self.record, keeps) {
                self.findings.edit(Layer::Block, place, &bytes);
            }
        }
        for (first, count) in runs {
            self.fragments += count;
            self.units.push((first, count));
        }
    }

    fn sectors(&mut self) {
        let geometry = self.fs.geometry();
        let (stored, counted) = (self.record.sectors(), self.fragments * (geometry.fragment_size / SECTOR));
        if stored != counted {
            // Where something else is wrong, the count follows from that.
            if self.findings.is_empty() {
                let problem = self.problem(&rows::SECTORS).stored(stored).observed(counted);
                self.raise(problem);
            }
            self.record.set_sectors(counted);
        }
    }
}

fn size_row(stored: u64, size: u64) -> &'static Row {
    if size > stored { &rows::SIZE_TOO_SMALL } else { &rows::SIZE_TOO_LARGE }
}
