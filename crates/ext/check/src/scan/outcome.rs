// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the stages leave behind, and what they cost.

use std::collections::BTreeSet;

use fsmend_base::InodeNo;
use fsmend_engine::Findings;
use fsmend_engine::budget::growing;
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::{InodeFact, Kind, mark};
use fsmend_engine::laps::StageCost;
use fsmend_ext_format::inode::{InodeFlags, LARGE_FILE, RawInode};

use crate::Fs;
use crate::inode::{Inspection, MapRun, units_of};
use crate::quota::{self, QuotaUsage, bytes_of};
use crate::region::facts::RegionFacts;
use fsmend_engine::scan::certification::Pending;

/// An owner in the sums for quota.
const QUOTA_BYTES: u64 = 96;
/// Everything that the stages leave behind beside the shared tables. Workers fill their own; merged at the end.
#[derive(Default)]
pub struct ScanOutcome {
    /// Problems found by inspection.
    pub findings: Findings,
    /// Entries that have to wait to be certified, until the scan is over.
    pub(super) pending: Vec<Pending>,
    /// How many had to wait.
    pub waited: u64,
    /// Directories that hold entries which the facts contradict.
    pub guilty: BTreeSet<InodeNo>,
    /// Inodes that say that they hold the value of an attribute.
    pub value_holders: Vec<InodeNo>,
    /// Directories that have to be inspected; nothing was counted for them.
    pub suspect_directories: Vec<InodeNo>,
    /// Inodes whose facts changed after they had been published.
    pub revised: Vec<InodeNo>,
    /// Inodes whose maps a repair has to write anew.
    pub rebuilds: Vec<InodeNo>,
    /// References to attribute blocks: block and inode.
    pub xattr_references: Vec<(u64, InodeNo)>,
    /// References to value inodes: value inode, stored hash, referring inode.
    pub value_references: Vec<(InodeNo, u32, InodeNo)>,
    /// Inodes flagged as holders of attribute values that no attribute refers to.
    pub spurious_holders: Vec<InodeNo>,
    /// What the quota files should say.
    pub quota: QuotaUsage,
    /// Files whose blocks are not in one piece.
    pub non_contiguous: u64,
    /// The first large file that was inspected. Those that the fast path proves clean have the feature they need.
    pub first_large_file: Option<InodeNo>,
    /// What is kept of regions until all of them have been read.
    pub(super) regions: RegionFacts,
    /// Work and bytes per stage.
    pub costs: [StageCost; 3],
}

impl ScanOutcome {
    /// Nothing yet, with room for so many problems, and with edits if the run `mends`.
    pub(super) fn with_room(problems: usize, mends: bool) -> Self {
        ScanOutcome { findings: Findings::with_room(problems).gathering(mends), ..ScanOutcome::default() }
    }

    /// Memory of the lists whose length was unknown before; they are held once more while they are merged, but not what edits put in place.
    pub(super) fn bytes_held(&self) -> u64 {
        let numbers = self.suspect_directories.len() + self.revised.len() + self.value_holders.len();
        let references = self.xattr_references.len() + self.value_references.len();
        let (edits, edited) = self.findings.edit_bytes_held();
        2 * (growing::<InodeNo>(numbers)
            + growing::<(u64, InodeNo)>(references)
            + self.quota.owners() as u64 * QUOTA_BYTES
            + edits
            + self.regions.bytes_held())
            + edited
    }

    pub(super) fn absorb(&mut self, other: ScanOutcome) {
        self.findings.merge(other.findings);
        self.waited += other.waited;
        self.guilty.extend(other.guilty);
        self.value_holders.extend(other.value_holders);
        self.suspect_directories.extend(other.suspect_directories);
        self.revised.extend(other.revised);
        self.rebuilds.extend(other.rebuilds);
        self.xattr_references.extend(other.xattr_references);
        self.value_references.extend(other.value_references);
        self.quota.merge(other.quota);
        self.non_contiguous += other.non_contiguous;
        self.first_large_file = first_of(self.first_large_file, other.first_large_file);
        for (mine, theirs) in self.costs.iter_mut().zip(other.costs) {
            mine.add(theirs);
        }
    }

    pub(super) fn sort(&mut self) {
        self.suspect_directories.sort_unstable();
        self.revised.sort_unstable();
        self.xattr_references.sort_unstable();
        self.value_references.sort_unstable();
    }

    /// Takes in what the inspection of an inode left, the claims included; returns its fact.
    pub fn take_inspection(
        &mut self,
        inode: InodeNo,
        inspection: &Inspection,
        claims: &Claims,
        fs: &Fs<'_>,
    ) -> InodeFact {
        // The resize inode, which counts as unused, may have one, too.
        self.xattr_references.extend(inspection.xattr_block.map(|block| (block, inode)));
        if inspection.kind == Kind::Unused {
            return InodeFact::default();
        }
        claim_inspection(fs, claims, inode, inspection);
        self.rebuilds.extend(inspection.rebuild.then_some(inode));
        self.value_holders.extend((inspection.marks & mark::EA_INODE != 0).then_some(inode));
        self.value_references
            .extend(inspection.value_inodes.iter().map(|(value, hash)| (*value, *hash, inode)));
        let blocks = inspection.charged_sectors / u64::from(fs.geometry.block_size / 512);
        self.non_contiguous += u64::from(
            is_short(fs, blocks) && is_scattered(&inspection.runs, map_blocks_in_line(fs, inspection)),
        );
        if inspection.kind == Kind::Regular && inspection.raw().size() >= LARGE_FILE {
            self.first_large_file = first_of(self.first_large_file, Some(inode));
        }
        if fs.counts_quota() && inspection.marks & mark::RESERVED == 0 {
            let raw = RawInode::from_record(&inspection.record);
            let taken = (bytes_of(&fs.geometry, &raw), 1 + inspection.value_inodes.len() as u64);
            charge(&mut self.quota, fs, inode, &raw, taken);
        }
        InodeFact::new(inspection.kind, inspection.marks)
    }
}

/// The lower of two numbers that may be missing.
pub(super) fn first_of(one: Option<InodeNo>, other: Option<InodeNo>) -> Option<InodeNo> {
    one.into_iter().chain(other).min()
}

/// Charges the owner of an inode with what it takes: bytes, and inodes (its own, and those that hold values of its
/// attributes).
pub fn charge(
    quota: &mut QuotaUsage,
    fs: &Fs<'_>,
    inode: InodeNo,
    raw: &RawInode,
    (bytes, inodes): (u64, u64),
) {
    if quota::counts(fs, inode, raw.flags()) {
        quota.charge_many(quota::owner_of(raw), bytes, inodes);
    }
}

/// Claims the data and map blocks of `inode`, which was inspected.
pub(crate) fn claim_inspection(fs: &Fs<'_>, claims: &Claims, inode: InodeNo, inspection: &Inspection) {
    let origin = claims.origin(inode.0);
    for (start, count) in units_of(inspection, &fs.geometry) {
        claims.claim(start, count, origin);
    }
}

/// Whether a file of `blocks` blocks could lie in one piece: what fills a group cannot.
pub(super) fn is_short(fs: &Fs<'_>, blocks: u64) -> bool {
    blocks < u64::from(fs.geometry.blocks_per_group)
}

/// The blocks of a map that stand in line with the data: indirect blocks do, nodes of extent trees do not.
pub(super) fn map_blocks_in_line<'i>(fs: &Fs<'_>, inspection: &'i Inspection) -> &'i [u64] {
    if fs.regions.exist() || inspection.raw().has_flag(InodeFlags::EXTENTS) {
        &[]
    } else {
        &inspection.map_blocks
    }
}

/// Whether the blocks of a file, with those of its map that stand in line with them, do not lie in one piece.
pub(super) fn is_scattered(runs: &[MapRun], map_blocks: &[u64]) -> bool {
    let end = |run: &MapRun| run.physical + u64::from(run.count);
    if map_blocks.is_empty() {
        return runs.windows(2).any(|pair| end(&pair[0]) != pair[1].physical);
    }
    let blocks = runs.iter().map(|run| u64::from(run.count)).sum::<u64>() + map_blocks.len() as u64;
    let low = runs.iter().map(|run| run.physical).chain(map_blocks.iter().copied()).min();
    let high = runs.iter().map(end).chain(map_blocks.iter().map(|block| block + 1)).max();
    let ascending = runs.windows(2).all(|pair| end(&pair[0]) <= pair[1].physical);
    !ascending || high.zip(low).is_some_and(|(high, low)| high - low != blocks)
}
