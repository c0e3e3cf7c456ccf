// SPDX-License-Identifier: MIT OR Apache-2.0
//! Check and repair of hybridfs, by the engine's checker.
//!
//! - [`superblock`], `opening`: superblocks, anchors, the segment that counts, IFILE and BFILE; `log`, `map`: objects that prove themselves, and maps of them
//! - `salvage`: what a sweep of the log finds when something is lost
//! - `inode`, `directory`: inodes and what they lead to; `fast`: the fast path of inodes; `facts`: what is known of each of them
//! - `allocation`: bitmaps and totals; [`layout`]: what lies where, for maps
//! - `repair`, `write`, `segment`: the state as it should be, written as one new segment beside the old one; then anchors that lead to it
//! - [`view`]: a state that a mount keeps while it goes on
//! - [`rows`]: every problem that is known
//!
//! Units of claims, and addresses in problems, are fragments. What the fast path of inodes leaves is judged once without a
//! search for what is lost, which clears the rest of the sound ones, and once with it.

// Numbers here come from disks, and go there: a cast that loses bits must say why.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod allocation;
pub mod describe;
mod directory;
mod facts;
mod fast;
mod inode;
pub mod layout;
mod log;
mod map;
mod opening;
mod repair;
pub mod rows;
mod salvage;
mod segment;
pub mod superblock;
pub mod view;
mod write;

use std::sync::{Arc, PoisonError};

use fsmend_base::{InodeNo, width};
use fsmend_device::{Device, Request};
use fsmend_engine::checker::{Checkable, Contents, CopyRows, Family, InodeSummary, Wrongs};
use fsmend_engine::crosscheck::allocation::Sum;
use fsmend_engine::crosscheck::links::{LinkRows, LinkRules, WrongCount};
use fsmend_engine::crosscheck::owners::OwnerRows;
use fsmend_engine::crosscheck::tree::{Rows, TreeRows};
use fsmend_engine::format::Volume;
use fsmend_engine::inodes::{BYTES_PER_INODE, InodeFact, InodeTable};
use fsmend_engine::options::CheckOptions;
use fsmend_engine::pool::PoolConfig;
use fsmend_engine::repair::Mended;
use fsmend_engine::report::{JournalUse, Summary};
use fsmend_engine::scan::certification::DirectorySummary;
use fsmend_engine::scan::memory_plan::Expected;
use fsmend_engine::shared_maps::SharedMapInodes;
use fsmend_engine::{Budget, Findings, Problem, Refusal};
use fsmend_hybridfs_format::{INODE_LEN, ROOT, Superblock, plain_crc};

pub use opening::Layout;

use fast::Verdict;
use log::Log;
use opening::Trust;

/// Blocks of inodes are small: as many are read together as make about two megabytes.
const INODES_TOGETHER: u64 = 4096;

/// Inodes in a chunk: a power of two, as those in a block are, which are no more than this.
const CHUNK_INODES: u32 = 512;

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Hybrid;

/// One file system on a device.
pub struct HybridFs<'d> {
    device: &'d dyn Device,
    state: Layout,
}

impl Family for Hybrid {
    type Layout = Layout;
    type Volume<'d> = HybridFs<'d>;

    fn open(
        &self,
        device: &dyn Device,
        (options, _): (&CheckOptions, &Arc<Budget>),
        findings: &mut Findings,
    ) -> Result<Layout, Refusal> {
        opening::open(device, (options.superblock, options.repair.is_some()), Trust::None, findings)
    }

    fn open_trusting(
        &self,
        device: &dyn Device,
        (options, _): (&CheckOptions, &Arc<Budget>),
        findings: &mut Findings,
    ) -> Result<Layout, Refusal> {
        opening::open(device, (options.superblock, options.repair.is_some()), Trust::InodeBlocks, findings)
    }

    fn volume<'d>(&self, state: Layout, device: &'d dyn Device) -> HybridFs<'d> {
        HybridFs { device, state }
    }

    fn mend(
        &self,
        device: &dyn Device,
        layout: Layout,
        found: Wrongs<'_>,
        (_, budget): (PoolConfig<'_>, &Budget),
    ) -> Result<Mended, Refusal> {
        repair::mend(&HybridFs { device, state: layout }, found, budget)
    }
}

impl HybridFs<'_> {
    /// The fast path, and the judgement of what it leaves. Small contents are left to be read later if `defers`.
    fn looked(&self, inode: InodeNo, bytes: &[u8], summary: &mut InodeSummary, defers: bool) -> bool {
        match fast::look(self, inode, bytes, summary, defers) {
            Verdict::Clean => return true,
            Verdict::Unread => return false,
            Verdict::Unusual => {}
        }
        let judged = inode::judge_quickly(self, inode, bytes);
        if !judged.problems.is_empty() {
            return false;
        }
        judged.leave_facts(self, inode);
        *summary = judged.summary;
        true
    }

    fn sb(&self) -> &Superblock {
        &self.state.sb
    }

    fn log(&self) -> Log<'_> {
        Log { device: self.device, sb: &self.state.sb }
    }

    /// The record of an inode as it is on the disk.
    fn record(&self, inode: InodeNo) -> Option<Vec<u8>> {
        fsmend_engine::checker::read_record(self, inode)
    }

    /// What [`Checkable::scanned_in`] says of all chunks together.
    fn scanned(&self) -> u64 {
        let blocks_in_chunk = u64::from(self.inodes_per_chunk() / self.sb().inodes_per_block()).max(1);
        let chunk_of = |block: &opening::InodeBlock| block.record.key / blocks_in_chunk;
        let chunks = self.state.blocks.chunk_by(|one, next| chunk_of(one) == chunk_of(next));
        let lasts = chunks.filter_map(|blocks| blocks.last());
        lasts.map(|last| u64::from(self.scanned_in(width::low_u32(chunk_of(last))))).sum()
    }

    /// Orphans, and directories among them.
    fn orphans(&self) -> (u64, u64) {
        self.state.facts.orphans().fold((0, 0), |(all, directories), mark| {
            (all + 1, directories + u64::from(mark & facts::DIRECTORY != 0))
        })
    }
}

impl Volume for HybridFs<'_> {
    fn device(&self) -> &dyn Device {
        self.device
    }

    fn root(&self) -> InodeNo {
        InodeNo(ROOT)
    }

    fn first_inode(&self) -> u32 {
        0
    }

    fn inodes_per_chunk(&self) -> u32 {
        CHUNK_INODES.max(self.sb().inodes_per_block())
    }

    fn unit_blocks(&self) -> u64 {
        1
    }

    fn is_static(&self, unit: u64) -> bool {
        let fixed = &self.state.fixed;
        let at = fixed.partition_point(|(start, _)| *start <= unit);
        at.checked_sub(1).and_then(|at| fixed.get(at)).is_some_and(|(start, len)| unit - start < *len)
    }
}

impl Checkable for HybridFs<'_> {
    type On<'a>
        = HybridFs<'a>
    where
        Self: 'a;

    fn on<'a>(&'a self, device: &'a dyn Device) -> HybridFs<'a> {
        HybridFs { device, state: self.state.clone() }
    }

    fn summary(&self) -> Summary {
        let sb = self.sb();
        Summary {
            kind: "hybridfs",
            label: superblock::label(sb),
            uuid: superblock::uuid(sb),
            block_size: sb.fragment_size.into(),
            blocks_total: sb.fragments,
            // Numbers 0 and 1 are no inodes.
            files_total: sb.inodes.saturating_sub(2),
            journal: if self.state.is_clean { JournalUse::Clean } else { JournalUse::Replayed },
            superblock: self.state.used_place / u64::from(sb.fragment_size),
            superblock_is_backup: self.state.used_place != fsmend_hybridfs_format::SUPERBLOCK_OFFSET,
            ..Summary::default()
        }
    }

    fn expected(&self) -> Expected {
        let units = self.sb().fragments;
        let inodes = self.state.blocks.len() as u64 * u64::from(self.sb().inodes_per_block());
        let chunks = self.inodes_count().div_ceil(self.inodes_per_chunk());
        let scanned = *self.state.scanned.get_or_init(|| self.scanned());
        let totals = &self.state.last.totals;
        Expected {
            units,
            // Generations, and what each chunk of inodes takes; entries that wait for generations.
            fact_bytes: units / 4
                + 4 * inodes
                + BYTES_PER_INODE * scanned
                + 160 * u64::from(chunks)
                + directory::UNPROVEN_BYTES.min(16 * inodes),
            to_read: totals.log.min(self.sb().log_fragments) * u64::from(self.sb().fragment_size),
            directories: totals.directories.min(inodes),
            chunk_inodes: self.inodes_per_chunk().into(),
            together: INODES_TOGETHER,
        }
    }

    fn inodes_count(&self) -> u32 {
        // Those up to the last block that there is, and one block more for what a repair makes.
        let per_block = u64::from(self.sb().inodes_per_block());
        let last = self.state.blocks.last().map_or(0, |block| block.record.key + 1);
        u32::try_from(((last + 1) * per_block).min(self.sb().inodes)).unwrap_or(u32::MAX)
    }

    fn scanned_in(&self, chunk: u32) -> u32 {
        // Up to the end of its last block.
        let (per_chunk, per_block) = (self.inodes_per_chunk(), self.sb().inodes_per_block());
        let start = chunk.saturating_mul(per_chunk);
        let (first, behind) = (start / per_block, start.saturating_add(per_chunk) / per_block);
        let before = self.state.blocks.partition_point(|block| block.record.key < u64::from(behind));
        let last = before.checked_sub(1).and_then(|at| self.state.blocks.get(at));
        let blocks = last.map_or(0, |last| (last.record.key + 1).saturating_sub(first.into()));
        let left = self.inodes_count().saturating_sub(start);
        left.min(width::low_u32(blocks.saturating_mul(per_block.into())))
    }

    fn records_in_a_row(&self) -> u32 {
        self.sb().inodes_per_block()
    }

    fn record_bytes(&self) -> usize {
        INODE_LEN
    }

    fn record_place(&self, inode: InodeNo) -> Option<u64> {
        let per_block = self.sb().inodes_per_block();
        let (_, block) = self.state.block(u64::from(inode.0 / per_block))?;
        let at = u64::from(inode.0 % per_block) * INODE_LEN as u64;
        Some(self.log().offset(block.record.place.address) + at)
    }

    fn visit_static(&self, claim: &mut dyn FnMut(u64, u64)) {
        self.state.fixed.iter().for_each(|(start, len)| claim(*start, *len));
    }

    fn summarize(&self, inode: InodeNo, bytes: &[u8], summary: &mut InodeSummary) -> bool {
        self.looked(inode, bytes, summary, false)
    }

    fn summarize_but_contents(&self, inode: InodeNo, bytes: &[u8], summary: &mut InodeSummary) -> bool {
        self.looked(inode, bytes, summary, true)
    }

    fn has_checksum(&self, contents: &Contents, bytes: &[u8]) -> bool {
        bytes.get(..contents.size as usize).is_some_and(|bytes| plain_crc(bytes) == contents.checksum)
    }

    fn inspect(&self, inode: InodeNo, bytes: &[u8], findings: &mut Findings) -> InodeSummary {
        let judged = inode::judge(self, inode, Some(bytes));
        judged.leave_facts(self, inode);
        judged.problems.into_iter().for_each(|problem| findings.raise(problem));
        if findings.gathers_edits() {
            self.state.touch(inode.0);
        }
        judged.summary
    }

    fn size_of(&self, record: &[u8]) -> Option<u64> {
        let number = record.get(4..).and_then(|rest| rest.first_chunk()).copied().map(u64::from_le_bytes)?;
        fsmend_hybridfs_format::Inode::parse(record, number, &self.sb().uuid).ok().map(|inode| inode.size)
    }

    fn unreadable(&self, inode: InodeNo) -> Problem {
        self.state.touch(inode.0);
        Problem::new(&rows::INODE_UNREADABLE).inode(inode)
    }

    fn summarize_directory(&self, _inode: InodeNo, record: &[u8], summary: &mut DirectorySummary) -> bool {
        directory::summarize(self, record, summary)
    }

    fn directory_blocks(&self, record: &[u8], blocks: &mut Vec<Request>) -> bool {
        directory::blocks(self, record, blocks)
    }

    fn inspect_directory(
        &self,
        inode: InodeNo,
        inodes: &InodeTable,
        findings: &mut Findings,
        summary: &mut DirectorySummary,
    ) {
        let mended = directory::inspect(self, inode, inodes, findings, summary);
        if let Some(entries) = mended.filter(|_| findings.gathers_edits()) {
            self.state.mended.lock().unwrap_or_else(PoisonError::into_inner).insert(inode.0, entries);
        }
    }

    fn contradicted(&self) -> Vec<InodeNo> {
        directory::contradicted(self)
    }

    fn is_misled(&self) -> bool {
        self.state.is_misled()
    }

    fn contest_rows(&self) -> OwnerRows {
        OwnerRows { multiply_claimed: &rows::MULTIPLE, shares: &rows::SHARES }
    }

    fn copy_rows(&self) -> CopyRows {
        CopyRows { no_room: &rows::NO_ROOM, unreadable: &rows::COPY_UNREADABLE }
    }

    fn moves_what_it_writes(&self) -> bool {
        true
    }

    fn shared_maps(&self) -> Option<&SharedMapInodes> {
        Some(&self.state.shared_maps)
    }

    fn check_totals(&self, sums: &[Sum], findings: &mut Findings) {
        allocation::check_totals(self, sums, self.orphans(), findings);
    }
}

impl LinkRules for HybridFs<'_> {
    fn link_rows(&self) -> LinkRows {
        LinkRows {
            mismatch: &rows::LINKS,
            unattached: &rows::UNATTACHED,
            unattached_empty: &rows::UNATTACHED_EMPTY,
        }
    }

    fn has_names(&self, _inode: InodeNo, _fact: InodeFact) -> bool {
        true
    }

    fn is_worthless(&self, inode: InodeNo) -> bool {
        let judged = inode::judge(self, inode, self.record(inode).as_deref());
        judged.inode.is_none_or(|inode| inode.size == 0 && inode.attribute_slots == 0)
    }

    fn stored(&self, wrong: &WrongCount) -> u16 {
        let number = u64::from(wrong.inode.0);
        let record = self.record(wrong.inode);
        let inode = record
            .and_then(|bytes| fsmend_hybridfs_format::Inode::parse(&bytes, number, &self.sb().uuid).ok());
        inode.map_or(wrong.stored, |inode| u16::try_from(inode.links).unwrap_or(u16::MAX))
    }
}

impl TreeRows for HybridFs<'_> {
    fn tree_rows(&self) -> Rows {
        Rows {
            root_missing: &rows::ROOT_MISSING,
            unconnected: &rows::UNCONNECTED,
            looped: &rows::LOOPED,
            parent_wrong: &rows::PARENT,
        }
    }
}
