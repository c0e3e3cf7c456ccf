// SPDX-License-Identifier: MIT OR Apache-2.0
//! Check and repair of UFS1 and UFS2, by the engine's checker.
//!
//! - [`opening`]: the superblock and its copies, what everything else is read by; `rebuilding` a superblock made from the groups; `groups` the cylinder groups; `snapshots` the list of active ones
//! - `blocks`: the blocks that an inode leads to; `inode`: the fast path of an inode; `inspection`: what mends one; `attributes`: extended attributes
//! - `directory`: chunks of entries; `former`: names that something had
//! - `allocation`: maps and counts of the cylinder groups; `quota`: quota files
//! - `repair`: what repairs write
//! - [`layout`]: what lies where, for maps
//! - [`rows`]: every problem that is known
//!
//! Units of claims are fragments. Addresses in problems are fragments too, as in the messages of FreeBSD's fsck_ffs.

// Numbers here come from disks, and go there: a cast that loses bits must say why.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub(crate) mod allocation;
pub(crate) mod attributes;
pub(crate) mod blocks;
mod depth;
pub mod describe;
pub(crate) mod directory;
mod former;
mod groups;
pub(crate) mod inode;
pub(crate) mod inspection;
pub(crate) mod journal;
pub mod layout;
pub mod opening;
mod quota;
mod rebuilding;
pub(crate) mod repair;
pub mod rows;
mod snapshots;
mod survey;

use std::collections::BTreeSet;
use std::sync::Arc;

use fsmend_base::InodeNo;
use fsmend_device::{Device, Request};
use fsmend_engine::checker::{Checkable, CopyRows, Family, InodeSummary, Wrongs, mend_in_place};
use fsmend_engine::claims::Claims;
use fsmend_engine::crosscheck::allocation::Sum;
use fsmend_engine::crosscheck::links::{LinkRows, LinkRules, WrongCount};
use fsmend_engine::crosscheck::owners::OwnerRows;
use fsmend_engine::crosscheck::tree::{Rows, TreeRows};
use fsmend_engine::format::Volume;
use fsmend_engine::inodes::{InodeFact, InodeTable};
use fsmend_engine::names::traces::Traces;
use fsmend_engine::options::CheckOptions;
use fsmend_engine::pool::PoolConfig;
use fsmend_engine::repair::{Changes, Mended};
use fsmend_engine::report::Summary;
use fsmend_engine::scan::certification::DirectorySummary;
use fsmend_engine::scan::memory_plan::Expected;
use fsmend_engine::shared_maps::SharedMapInodes;
use fsmend_engine::{Budget, Findings, Problem, Refusal, Row};
use fsmend_ufs_format::inode::Inode;
use fsmend_ufs_format::{Geometry, geometry};

pub use opening::Layout;

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Ufs;

/// One file system on a device.
pub struct UfsFs<'d> {
    device: &'d dyn Device,
    layout: Layout,
}

impl Family for Ufs {
    type Layout = Layout;
    type Volume<'d> = UfsFs<'d>;

    fn open(
        &self,
        device: &dyn Device,
        (options, budget): (&CheckOptions, &Arc<Budget>),
        findings: &mut Findings,
    ) -> Result<Layout, Refusal> {
        opening::open(device, (options.superblock, options.now, budget), findings)
    }

    fn volume<'d>(&self, layout: Layout, device: &'d dyn Device) -> UfsFs<'d> {
        UfsFs { device, layout }
    }

    fn replay(&self, layout: &Layout, device: &dyn Device, findings: &mut Findings) -> Changes {
        opening::replay(layout, device, findings)
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

impl UfsFs<'_> {
    /// Its geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.layout.geometry
    }

    /// Bytes of a run of fragments; `None` where they cannot be read.
    fn read(&self, fragment: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.device.read_at(self.geometry().place(fragment), &mut bytes).ok()?;
        Some(bytes)
    }

    /// The record in `bytes`.
    fn view<'b>(&self, bytes: &'b [u8]) -> Inode<&'b [u8]> {
        Inode::new(bytes, self.geometry().order, self.geometry().version)
    }

    /// The record of an inode as it will be; `None` where it cannot be read.
    fn record(&self, inode: InodeNo) -> Option<Inode<Vec<u8>>> {
        self.mended(inode).map(|(record, _)| record)
    }

    /// The same, with what will be different in its indirect blocks.
    fn mended(&self, inode: InodeNo) -> Option<(Inode<Vec<u8>>, blocks::Patches)> {
        let bytes = fsmend_engine::checker::read_record(self, inode)?;
        let mut summary = InodeSummary::default();
        let (bytes, patches) = if self.summarize(inode, &bytes, &mut summary) {
            (bytes, blocks::Patches::new())
        } else {
            let inspected = inspection::inspect(self, inode, &bytes, &mut Findings::new());
            (inspected.record, inspected.patches)
        };
        Some((Inode::new(bytes, self.geometry().order, self.geometry().version), patches))
    }
}

impl Volume for UfsFs<'_> {
    fn device(&self) -> &dyn Device {
        self.device
    }

    fn root(&self) -> InodeNo {
        InodeNo(geometry::ROOT)
    }

    fn first_inode(&self) -> u32 {
        0
    }

    fn inodes_per_chunk(&self) -> u32 {
        self.geometry().group_inodes
    }

    fn unit_blocks(&self) -> u64 {
        1
    }

    fn is_static(&self, unit: u64) -> bool {
        let (start, end) = self.geometry().reserved(self.geometry().group_of(unit));
        let (summary, length) = self.geometry().summary_run();
        (start..end).contains(&unit) || (summary..summary + length).contains(&unit)
    }
}

impl Checkable for UfsFs<'_> {
    type On<'a>
        = UfsFs<'a>
    where
        Self: 'a;

    fn on<'a>(&'a self, device: &'a dyn Device) -> UfsFs<'a> {
        UfsFs { device, layout: self.layout.clone() }
    }

    fn summary(&self) -> Summary {
        let Layout { geometry, superblock, .. } = &self.layout;
        Summary {
            kind: match geometry.version {
                fsmend_ufs_format::Version::Ufs1 => "ufs1",
                fsmend_ufs_format::Version::Ufs2 => "ufs2",
            },
            label: fsmend_engine::problem::escape_name(superblock.label()),
            uuid: format!("{:08x}{:08x}", superblock.id0(), superblock.id1()),
            features: self.layout.features(),
            block_size: geometry.fragment_size,
            blocks_total: geometry.size,
            files_total: geometry.inode_count().into(),
            journal: self.layout.journal(),
            superblock: self.layout.used_place / fsmend_ufs_format::SECTOR,
            superblock_is_backup: self.layout.used_place != geometry.superblock_place,
            ..Summary::default()
        }
    }

    fn expected(&self) -> Expected {
        let geometry = self.geometry();
        let inodes: u64 = self.layout.initialised.iter().map(|count| u64::from(*count)).sum();
        let units = geometry.size;
        Expected {
            units,
            fact_bytes: units / 4 + 7 * inodes,
            to_read: inodes * geometry.version.inode_size() as u64
                + u64::from(geometry.groups) * geometry.block_size,
            directories: self.layout.directories(),
            chunk_inodes: geometry.group_inodes.into(),
            together: 0,
        }
    }

    fn inodes_count(&self) -> u32 {
        self.geometry().inode_count()
    }

    fn scanned_in(&self, chunk: u32) -> u32 {
        self.layout.initialised.get(chunk as usize).copied().unwrap_or(0)
    }

    fn record_bytes(&self) -> usize {
        self.geometry().version.inode_size()
    }

    fn record_place(&self, inode: InodeNo) -> Option<u64> {
        self.geometry().inode_place(inode.0)
    }

    fn visit_static(&self, claim: &mut dyn FnMut(u64, u64)) {
        let geometry = self.geometry();
        for group in 0..geometry.groups {
            let (start, end) = geometry.reserved(group);
            claim(start, end.min(geometry.size).saturating_sub(start));
        }
        let (start, length) = geometry.summary_run();
        claim(start, length);
    }

    fn summarize(&self, inode: InodeNo, bytes: &[u8], summary: &mut InodeSummary) -> bool {
        inode::summarize(self, inode, bytes, summary)
    }

    fn inspect(&self, inode: InodeNo, bytes: &[u8], findings: &mut Findings) -> InodeSummary {
        inspection::inspect(self, inode, bytes, findings).summary
    }

    fn size_of(&self, record: &[u8]) -> Option<u64> {
        let inode = self.view(record);
        (inode.mode() != 0).then(|| inode.size())
    }

    fn unreadable(&self, inode: InodeNo) -> Problem {
        Problem::new(&rows::INODE_UNREADABLE).inode(inode)
    }

    fn summarize_directory(&self, inode: InodeNo, record: &[u8], summary: &mut DirectorySummary) -> bool {
        directory::summarize(self, inode, &self.view(record), summary)
    }

    fn directory_blocks(&self, record: &[u8], blocks: &mut Vec<Request>) -> bool {
        directory::blocks(self, &self.view(record), blocks)
    }

    fn inspect_directory(
        &self,
        inode: InodeNo,
        inodes: &InodeTable,
        findings: &mut Findings,
        summary: &mut DirectorySummary,
    ) {
        directory::inspect(self, inode, inodes, findings, summary);
    }

    fn contest_rows(&self) -> OwnerRows {
        OwnerRows { multiply_claimed: &rows::MULTIPLY_CLAIMED, shares: &rows::SHARES }
    }

    fn copy_rows(&self) -> CopyRows {
        CopyRows { no_room: &rows::NO_ROOM, unreadable: &rows::COPY_UNREADABLE }
    }

    fn shared_maps(&self) -> Option<&SharedMapInodes> {
        Some(&self.layout.shared_maps)
    }

    fn degraded(&self) -> Vec<String> {
        let again = self.layout.kept.read_again();
        if again == 0 {
            return Vec::new();
        }
        vec![format!("Out of memory for cylinder groups: they were read again later, {again} times.")]
    }

    fn traces(&self, wanted: &BTreeSet<InodeNo>, facts: (&InodeTable, &Claims)) -> Option<Traces> {
        Some(former::traces(self, wanted, facts))
    }

    fn check_depths(&self, inodes: &InodeTable, findings: &mut Findings) {
        depth::check(self, inodes, findings);
    }

    fn check_totals(&self, sums: &[Sum], findings: &mut Findings) {
        allocation::check_totals(self, sums, findings);
    }

    fn check_quotas(&self, findings: &mut Findings) {
        quota::check(self, findings);
    }
}

impl LinkRules for UfsFs<'_> {
    fn link_rows(&self) -> LinkRows {
        LinkRows {
            mismatch: &rows::LINKS,
            unattached: if self.layout.expects_leftovers() {
                &rows::UNATTACHED_LEFT
            } else {
                &rows::UNATTACHED
            },
            unattached_empty: &rows::UNREFERENCED,
        }
    }

    fn has_names(&self, _inode: InodeNo, _fact: InodeFact) -> bool {
        true
    }

    fn is_worthless(&self, inode: InodeNo) -> bool {
        // A file whose last name was removed waited for its last user. An empty one without a name has nothing to keep.
        self.record(inode)
            .is_none_or(|record| record.links() == 0 || record.size() == 0 && record.attributes_size() == 0)
    }

    fn stored(&self, wrong: &WrongCount) -> u16 {
        let bytes = fsmend_engine::checker::read_record(self, wrong.inode);
        bytes.map_or(wrong.stored, |bytes| self.view(&bytes).links())
    }

    fn mismatch_row(&self, wrong: &WrongCount) -> &'static Row {
        let is_leftover = self.layout.expects_leftovers() && u64::from(self.stored(wrong)) > wrong.observed;
        if is_leftover { &rows::LINKS_LEFT } else { &rows::LINKS }
    }
}

impl TreeRows for UfsFs<'_> {
    fn tree_rows(&self) -> Rows {
        Rows {
            root_missing: &rows::ROOT_MISSING,
            unconnected: if self.layout.expects_leftovers() {
                &rows::UNCONNECTED_LEFT
            } else {
                &rows::UNCONNECTED
            },
            looped: &rows::LOOPED,
            parent_wrong: &rows::PARENT_WRONG,
        }
    }
}
