// SPDX-License-Identifier: MIT OR Apache-2.0
//! A toy format: the smallest that the engine checks and repairs, and the tutorial for new ones (docs/new-format.md). Its bytes are drawn in `format.rs`, its problems stand in
//! [`rows`], what the engine asks of every format is answered here, and what repairs need in `repair.rs`.

pub mod format;
mod repair;
pub mod rows;

use std::sync::Arc;

use fsmend_base::{BlockNo, InodeNo};
use fsmend_device::Device;
use fsmend_engine::checker::{
    Checkable, CopyRows, EntryVerdict, Family, InodeSummary, Wrongs, judge_entry, mend_in_place,
};
use fsmend_engine::crosscheck::allocation::{
    AllocationMaps, Count, Difference, InUse, Observed, ReadMaps, Words,
};
use fsmend_engine::crosscheck::links::{LinkRows, LinkRules};
use fsmend_engine::crosscheck::owners::OwnerRows;
use fsmend_engine::crosscheck::tree::{Rows, TreeRows};
use fsmend_engine::format::Volume;
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::names::paths::Directories;
use fsmend_engine::options::CheckOptions;
use fsmend_engine::pool::PoolConfig;
use fsmend_engine::repair::Mended;
use fsmend_engine::report::Summary;
use fsmend_engine::scan::certification::{DirectorySummary, Target};
use fsmend_engine::scan::memory_plan::Expected;
use fsmend_engine::{Budget, Findings, Layer, Problem, Refusal, Row, Value};

use format::{BLOCK, DIRECTORY, ENTRY, Entry, FILE, POINTERS, RECORD, ROOT, Record, Superblock, TABLE};

/// Inodes that one worker scans at a time.
const CHUNK: u32 = 64;
/// The maps: of blocks, and of inodes.
const BLOCKS: usize = 0;

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Toy;

/// One toy file system.
pub struct ToyFs<'d> {
    device: &'d dyn Device,
    superblock: Superblock,
}

impl Family for Toy {
    type Layout = Superblock;
    type Volume<'d> = ToyFs<'d>;

    fn open(
        &self,
        device: &dyn Device,
        _: (&CheckOptions, &Arc<Budget>),
        findings: &mut Findings,
    ) -> Result<Superblock, Refusal> {
        let refusal = |code, message: &str, hint| {
            Err(Refusal { code, message: message.to_owned(), hint: String::from(hint) })
        };
        let mut bytes = [0; BLOCK];
        let parsed = device.read_at(0, &mut bytes).ok().and_then(|()| Superblock::parse(&bytes));
        let Some((superblock, is_sealed)) = parsed else {
            return refusal("not-toy", "this is no toy file system", "Make one");
        };
        if u64::from(superblock.blocks) * BLOCK as u64 > device.len() {
            return refusal("cut-off", "the toy file system is larger than its device", "Look for the rest");
        }
        if !is_sealed {
            let problem = Problem::new(&rows::SUPERBLOCK_CHECKSUM);
            findings.raise_with_edit(problem, Layer::Record, 0, &superblock.store());
        }
        Ok(superblock)
    }

    fn volume<'d>(&self, superblock: Superblock, device: &'d dyn Device) -> ToyFs<'d> {
        ToyFs { device, superblock }
    }

    fn mend(
        &self,
        device: &dyn Device,
        layout: Self::Layout,
        found: Wrongs<'_>,
        room: (PoolConfig<'_>, &Budget),
    ) -> Result<Mended, Refusal> {
        mend_in_place(self, device, layout, found, room)
    }
}

impl ToyFs<'_> {
    fn read(&self, block: u32) -> Option<Vec<u8>> {
        let mut bytes = vec![0; BLOCK];
        self.device.read_at(u64::from(block) * BLOCK as u64, &mut bytes).ok()?;
        Some(bytes)
    }

    /// What a record will be, and what is wrong with it.
    fn judge(&self, bytes: &[u8]) -> (Record, Vec<&'static Row>) {
        let (mut record, is_sealed) = Record::parse(bytes);
        if record.kind > DIRECTORY || (record.kind == 0 && !is_sealed) {
            return (Record::default(), vec![&rows::KIND]);
        }
        let mut wrong = Vec::new();
        if record.kind == 0 {
            return (record, wrong);
        }
        for block in &mut record.blocks {
            if *block >= self.superblock.blocks {
                *block = 0;
                wrong.push(&rows::POINTER);
            }
        }
        if record.kind == DIRECTORY {
            // Directories have no holes.
            let len = record.blocks.iter().take_while(|block| **block != 0).count();
            if len == 0 {
                return (Record::default(), vec![&rows::EMPTY_DIRECTORY]);
            }
            record.blocks[len..].fill(0);
        }
        let end = record.blocks.iter().rposition(|block| *block != 0).map_or(0, |last| last + 1) * BLOCK;
        let max = if record.kind == DIRECTORY { end } else { POINTERS * BLOCK };
        let min = if record.kind == DIRECTORY { end } else { (end + 1).saturating_sub(BLOCK) };
        if !(min..=max).contains(&(record.size as usize)) {
            record.size = end as u32;
            wrong.push(&rows::SIZE);
        }
        if !is_sealed {
            wrong.push(&rows::CHECKSUM);
        }
        (record, wrong)
    }

    /// The record of an inode as it will be.
    fn record(&self, inode: InodeNo) -> Record {
        let bytes = fsmend_engine::checker::read_record(self, inode);
        bytes.map_or_else(Record::default, |bytes| self.judge(&bytes).0)
    }

    /// Calls `visit` with the place of every entry of a directory, in use or not.
    fn each_entry(&self, inode: InodeNo, mut visit: impl FnMut(u64, Option<Entry>)) {
        let record = self.record(inode);
        let blocks = record.blocks.into_iter().filter(|block| *block != 0 && record.kind == DIRECTORY);
        for block in blocks {
            let bytes = self.read(block).unwrap_or_else(|| vec![0; BLOCK]);
            for (at, entry) in bytes.chunks_exact(ENTRY).enumerate() {
                visit(u64::from(block) * BLOCK as u64 + (at * ENTRY) as u64, Entry::parse(entry));
            }
        }
    }
}

fn kind_of(kind: u8) -> Kind {
    match kind {
        FILE => Kind::Regular,
        DIRECTORY => Kind::Directory,
        _ => Kind::Unused,
    }
}

impl Volume for ToyFs<'_> {
    fn device(&self) -> &dyn Device {
        self.device
    }

    fn root(&self) -> InodeNo {
        InodeNo(ROOT)
    }

    fn inodes_per_chunk(&self) -> u32 {
        CHUNK
    }

    fn is_static(&self, unit: u64) -> bool {
        unit < self.superblock.first_data()
    }
}

impl Checkable for ToyFs<'_> {
    type On<'a>
        = ToyFs<'a>
    where
        Self: 'a;

    fn on<'a>(&'a self, device: &'a dyn Device) -> ToyFs<'a> {
        ToyFs { device, superblock: self.superblock }
    }

    fn summary(&self) -> Summary {
        let blocks_total = self.superblock.blocks.into();
        Summary { kind: "toy", block_size: BLOCK as u64, blocks_total, ..Summary::default() }
    }

    fn expected(&self) -> Expected {
        let Superblock { blocks, inodes, .. } = self.superblock;
        let (units, inodes) = (u64::from(blocks), u64::from(inodes));
        let (fact_bytes, to_read) = (8 * (units + inodes), units * BLOCK as u64);
        Expected { units, fact_bytes, to_read, directories: 0, chunk_inodes: CHUNK.into(), together: 0 }
    }

    fn inodes_count(&self) -> u32 {
        self.superblock.inodes
    }

    fn record_bytes(&self) -> usize {
        RECORD
    }

    fn record_place(&self, inode: InodeNo) -> Option<u64> {
        let index = inode.0.checked_sub(1).filter(|index| *index < self.superblock.inodes);
        index.map(|index| TABLE * BLOCK as u64 + u64::from(index) * RECORD as u64)
    }

    fn visit_static(&self, claim: &mut dyn FnMut(u64, u64)) {
        claim(0, self.superblock.first_data());
    }

    fn summarize(&self, _inode: InodeNo, bytes: &[u8], summary: &mut InodeSummary) -> bool {
        let (record, wrong) = self.judge(bytes);
        summary.kind = (record.kind != 0).then(|| kind_of(record.kind));
        summary.links = record.links;
        summary.units.clear();
        summary
            .units
            .extend(record.blocks.iter().filter(|block| **block != 0).map(|block| (u64::from(*block), 1)));
        wrong.is_empty()
    }

    fn inspect(&self, inode: InodeNo, bytes: &[u8], findings: &mut Findings) -> InodeSummary {
        let (record, wrong) = self.judge(bytes);
        for row in wrong {
            findings.raise(Problem::new(row).inode(inode));
        }
        if let Some(place) = self.record_place(inode) {
            findings.edit(Layer::Record, place, &record.store());
        }
        let mut summary = InodeSummary::default();
        self.summarize(inode, &record.store(), &mut summary);
        summary
    }

    fn size_of(&self, bytes: &[u8]) -> Option<u64> {
        let record = Record::parse(bytes).0;
        (record.kind != 0).then_some(record.size.into())
    }

    fn unreadable(&self, inode: InodeNo) -> Problem {
        Problem::new(&rows::UNREADABLE).inode(inode)
    }

    fn summarize_directory(&self, inode: InodeNo, _record: &[u8], summary: &mut DirectorySummary) -> bool {
        let (mut is_first, mut is_clean) = (true, true);
        self.each_entry(inode, |_, entry| {
            match entry {
                Some(entry) if is_first => {
                    is_clean &= entry.name == b".." && entry.kind == DIRECTORY && entry.inode != 0;
                    summary.parent_entry = InodeNo(entry.inode);
                }
                Some(entry) if entry.inode == 0 => {}
                Some(entry) => {
                    is_clean &=
                        (FILE..=DIRECTORY).contains(&entry.kind) && entry.inode <= self.superblock.inodes;
                    summary.targets.push(Target { inode: InodeNo(entry.inode), kind: kind_of(entry.kind) });
                }
                None => is_clean = false,
            }
            is_first = false;
        });
        is_clean && !is_first
    }

    fn inspect_directory(
        &self,
        inode: InodeNo,
        inodes: &InodeTable,
        findings: &mut Findings,
        summary: &mut DirectorySummary,
    ) {
        let mut is_first = true;
        let mut seen = std::collections::BTreeSet::new();
        self.each_entry(inode, |place, entry| {
            let entry = entry.unwrap_or(Entry { inode: u32::MAX, kind: 0, name: b"?".to_vec() });
            if std::mem::take(&mut is_first) {
                let is_right = entry.name == b".." && entry.kind == DIRECTORY;
                if is_right && inodes.kind(InodeNo(entry.inode)) == Kind::Directory {
                    summary.parent_entry = InodeNo(entry.inode);
                } else if !is_right {
                    findings.raise(Problem::new(&rows::DOTS).inode(inode));
                }
                return;
            }
            if entry.inode == 0 {
                return;
            }
            let target = InodeNo(entry.inode);
            let kind = kind_of(entry.kind);
            let mut verdict = judge_entry(inodes, inode, target, kind);
            let mut is_second = || kind != Kind::Regular && !seen.insert(target);
            if verdict != EntryVerdict::LeadsNowhere && is_second() {
                verdict = EntryVerdict::SecondName;
            }
            let problem = |row| Problem::new(row).inode(inode).detail("name", Value::name(&entry.name));
            match verdict {
                EntryVerdict::Right => {}
                EntryVerdict::IsReally(kind) => {
                    let problem = problem(&rows::ENTRY_KIND);
                    let kind = if kind == Kind::Directory { DIRECTORY } else { FILE };
                    let entry = Entry { kind, ..entry }.store();
                    findings.raise_with_edit(problem, Layer::Contents, place, &entry);
                }
                EntryVerdict::LeadsNowhere | EntryVerdict::SecondName => {
                    findings.raise_with_edit(problem(&rows::ENTRY), Layer::Contents, place, &[0; ENTRY]);
                    return;
                }
            }
            summary.targets.push(Target { inode: target, kind: inodes.kind(target) });
        });
    }

    fn contest_rows(&self) -> OwnerRows {
        OwnerRows { multiply_claimed: &rows::MULTIPLY_CLAIMED, shares: &rows::SHARES }
    }

    fn copy_rows(&self) -> CopyRows {
        CopyRows { no_room: &rows::NO_ROOM, unreadable: &rows::COPY_UNREADABLE }
    }
}

impl Directories for ToyFs<'_> {
    fn visit_entries(
        &self,
        holder: InodeNo,
        wanted: &dyn Fn(InodeNo) -> bool,
        visit: &mut dyn FnMut(InodeNo, &[u8]),
    ) {
        self.each_entry(holder, |_, entry| {
            if let Some(entry) =
                entry.filter(|entry| entry.inode != 0 && entry.name != b".." && wanted(InodeNo(entry.inode)))
            {
                visit(InodeNo(entry.inode), &entry.name);
            }
        });
    }
}

impl LinkRules for ToyFs<'_> {
    fn link_rows(&self) -> LinkRows {
        let unattached_empty = &rows::UNATTACHED_EMPTY;
        LinkRows { mismatch: &rows::MISMATCH, unattached: &rows::UNATTACHED, unattached_empty }
    }

    fn is_worthless(&self, inode: InodeNo) -> bool {
        let record = self.record(inode);
        record.size == 0 && record.kind != DIRECTORY
    }
}

impl TreeRows for ToyFs<'_> {
    fn tree_rows(&self) -> Rows {
        let (root_missing, unconnected) = (&rows::ROOT_MISSING, &rows::UNCONNECTED);
        Rows { root_missing, unconnected, looped: &rows::LOOPED, parent_wrong: &rows::PARENT_WRONG }
    }
}

impl AllocationMaps for ToyFs<'_> {
    fn maps(&self) -> usize {
        2
    }

    fn observed(&self, _area: u32, map: usize, in_use: InUse<'_>) -> Observed {
        if map == BLOCKS {
            return Observed { used: in_use.units(0, self.superblock.blocks.into()), directories: 0 };
        }
        let mut used = Words::new(self.superblock.inodes.into());
        // A chunk is a word.
        let chunks = 0..self.superblock.inodes.div_ceil(CHUNK);
        used.join(chunks.flat_map(|chunk| in_use.inodes.used_in_chunk(chunk)).map(|(used, _)| used));
        Observed { used, directories: 0 }
    }

    fn stored(
        &self,
        _area: u32,
        map: usize,
        (observed, _): (&Observed, &mut ReadMaps),
        findings: &mut Findings,
    ) -> Option<Words> {
        let Some(bytes) = self.read(1 + map as u32) else {
            findings.raise(Problem::new(&rows::UNREADABLE).block(BlockNo(1 + map as u64)));
            return None;
        };
        Some(Words::from_bytes(&bytes, observed.used.len()))
    }

    fn counts(&self, _area: u32, map: usize, observed: &Observed, count: &mut dyn FnMut(Count)) {
        let Superblock { free_blocks, free_inodes, .. } = self.superblock;
        let stored = u64::from(if map == BLOCKS { free_blocks } else { free_inodes });
        let observed = observed.used.len() - observed.used.count();
        count(Count { kind: map, row: &rows::FREE, stored, observed });
    }

    fn difference(
        &self,
        area: u32,
        map: usize,
        difference: Difference,
        (first, count): (u64, u64),
    ) -> Problem {
        let row = match difference {
            Difference::MarkedButFree => &rows::MARKED,
            Difference::UsedButFree => &rows::UNMARKED,
        };
        let problem = self.at_area(row, area).detail("map", map as u64).detail("first", first);
        problem.detail("last", first + count - 1)
    }
}
