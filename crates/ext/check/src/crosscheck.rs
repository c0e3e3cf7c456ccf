// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows the parallel stages: delayed certification, inspection of suspect directories, and the cross-checks
//! that need all facts. Everything here works on sorted lists, so that the outcome does not depend on timing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_device::{BatchReader, ReadBackend};
use fsmend_engine::Findings;
use fsmend_engine::claims::Claims;
use fsmend_engine::crosscheck::links;
use fsmend_engine::crosscheck::tree;
use fsmend_engine::inodes::{InodeFact, InodeTable, Kind, mark};
use fsmend_engine::origins::Origin;
use fsmend_engine::pool::{self, Stage};
use fsmend_engine::scan::certification::{DeferredCertification, DirectorySummary};
use fsmend_engine::shared_maps::MapWalkLimiter;
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::inode::{RawInode, special};

use crate::allocation::{StoredTotals, Totals};
use crate::directory::suspects::Suspects;
use crate::directory::{self, Directory, Surroundings};
use crate::fast::directory::DirectoryFastPath;
use crate::fast::inode::{InodeFastPath, InodeSummary, Verdict};
use crate::fast::jobs::DirectoryJob;
use crate::inode::units_of;
use crate::owners::{self, Owner};
use crate::repair::RepairInput;
use crate::resize_inode::ResizeInode;
use crate::scan::{ScanOutcome, charge, limiter_of};
use crate::xattr::value_mend::ValueMend;
use crate::{Fs, inode, xattr};
use fsmend_engine::scan::memory_plan::RunContext;

/// Directories that one worker takes at a time when all of them are searched for names.
const DIRECTORIES_PER_SLICE: usize = 64;

/// The facts after the scan, and what is still to be compared.
pub struct CrossCheck<'a> {
    /// The file system.
    pub fs: &'a Fs<'a>,
    /// Facts of all inodes.
    pub inodes: InodeTable,
    /// Claims on all blocks.
    pub claims: Claims,
    /// What the scan left.
    pub outcome: ScanOutcome,
    /// Workers and memory to be used.
    pub run_context: RunContext<'a>,
    /// Set when the user wants to stop.
    pub cancel: &'a AtomicBool,
    /// Blocks on the list of bad blocks, ascending.
    pub bad_blocks: &'a [u64],
    /// Whether blocks that are shared on purpose are contested, too.
    pub unshares: bool,
    /// Owners of units that no map tells of, ascending: first the units of attribute blocks, then those that inodes of the file system own.
    pub extra: Vec<(u64, Owner)>,
    /// The units that inodes of the file system own.
    pub system: BTreeSet<(u64, Owner)>,
    /// What was found of the resize inode.
    pub resize: ResizeInode,
    /// What is free and used.
    pub totals: Totals,
    /// The same, as the superblock on the disk says.
    pub on_disk: StoredTotals,
    /// What is kept for a repair.
    pub repair_input: RepairInput,
}

/// Which directories hold names of what is doubtful.
#[derive(Default)]
struct Holders {
    /// Holders of names of inodes whose facts changed.
    of_revised: Vec<InodeNo>,
    /// Directories that have several names, each with the holder of one of those.
    of_contested: Vec<(InodeNo, InodeNo)>,
}

impl CrossCheck<'_> {
    /// Settles everything about directories: certifications, suspects, tails of inode tables that turn out to be used.
    pub fn directories(&mut self) {
        for inode in self.outcome.revised.clone() {
            if self.inodes.kind(inode) == Kind::Directory {
                self.inodes.add_directory(inode);
            }
        }
        let mut suspects: BTreeSet<InodeNo> =
            std::mem::take(&mut self.outcome.suspect_directories).into_iter().collect();
        let guilty = self.withdraw_guilty(&suspects);
        suspects.extend(guilty);
        suspects.retain(|inode| self.inodes.kind(*inode) == Kind::Directory);
        self.open_tails(&mut suspects);
        if !suspects.is_empty() {
            self.unmark_spurious_holders();
            self.drop_claims_of_strays();
        }
        let suspects: Vec<InodeNo> = suspects.into_iter().collect();
        let contested = Some(self.claims.contested());
        let inspection = Suspects {
            fs: self.fs,
            inodes: &self.inodes,
            surroundings: Surroundings { bad_blocks: self.bad_blocks, contested },
            pool: self.run_context.pool(),
            budget: self.run_context.budget,
            cancel: self.cancel,
        };
        let names = &mut self.repair_input.names;
        inspection
            .inspect(&suspects, &mut self.outcome.findings, &mut |inode, mending| names.note(inode, mending));
    }

    /// A stale indirect block in a region claims what it points to until it turns out to have no owner. What only such a block has contested with the true
    /// owner has to be mended like anything else, and a repair that left it alone would leave it alone in every round.
    fn drop_claims_of_strays(&self) {
        if !self.fs.regions.exist() || !self.outcome.findings.gathers_edits() {
            return;
        }
        let references = self.outcome.xattr_references.iter();
        let attributes: BTreeSet<u64> =
            references.map(|(block, _)| self.fs.geometry.cluster_of(*block)).collect();
        let is_spared =
            |unit: u64| attributes.contains(&unit) || self.bad_blocks.binary_search(&unit).is_ok();
        self.search(&[]).drop_spurious(is_spared);
    }

    fn search<'s>(&'s self, extra: &'s [(u64, Owner)]) -> owners::Search<'s, Fs<'s>> {
        owners::Search {
            volume: self.fs,
            inodes: &self.inodes,
            claims: &self.claims,
            extra,
            pool: self.run_context.pool(),
            room: self.run_context.plan.owners,
            shares_min: owners::SHARES_MIN,
            cancel: self.cancel,
        }
    }

    /// A file that says that it holds an attribute value, but that no attribute refers to, is a file like any other: its names stay.
    fn unmark_spurious_holders(&mut self) {
        let mut holders = self.value_holders();
        if holders.is_empty() {
            return;
        }
        let named = self.outcome.value_references.iter().map(|(value, _, _)| *value);
        let mut referred: BTreeSet<InodeNo> = named.collect();
        let blocks: BTreeMap<u64, InodeNo> = self.outcome.xattr_references.iter().copied().collect();
        for (block, inode) in blocks {
            let ignored = &mut Findings::new();
            let attributes = xattr::read_and_inspect_block(self.fs, inode, BlockNo(block), ignored);
            referred.extend(attributes.value_inodes.iter().map(|(value, _)| *value));
        }
        holders.retain(|inode| !referred.contains(inode));
        for inode in &holders {
            let (links, _) = self.inodes.links(*inode);
            self.inodes.revise(*inode, InodeFact::new(Kind::Regular, 0), links);
        }
        self.outcome.spurious_holders = holders;
    }

    /// Inodes in use that are marked as holders of attribute values, ascending.
    fn value_holders(&self) -> Vec<InodeNo> {
        let mut holders = self.outcome.value_holders.clone();
        holders.sort_unstable();
        holders.dedup();
        holders.retain(|inode| {
            let fact = self.inodes.fact(*inode).unwrap_or_default();
            fact.has(mark::EA_INODE) && fact.kind() != Kind::Unused
        });
        holders
    }

    /// Takes back what was counted for directories that turn out not to be clean, and returns them. For `suspects` nothing was counted. Why this does not depend on timing stands in
    /// [`deferred certification`](fsmend_engine::scan::certification).
    fn withdraw_guilty(&mut self, suspects: &BTreeSet<InodeNo>) -> BTreeSet<InodeNo> {
        let fast_path = DirectoryFastPath::new(&self.fs.geometry, &self.inodes);
        let deferred = DeferredCertification::new(&fast_path.certifier);
        let mut guilty = std::mem::take(&mut self.outcome.guilty);
        for inode in self.lost_inodes() {
            if self.inodes.kind(inode) == Kind::Directory {
                guilty.insert(inode);
            }
            if self.inodes.kind(inode) != Kind::Unused {
                self.withdraw_claims(inode);
                self.outcome.revised.push(inode);
            }
            // It must not be used again.
            self.inodes.revise(inode, InodeFact::new(Kind::Unused, mark::RESERVED), 0);
        }
        let contested = self.inodes.contested();
        let holders = self.holders_of_doubtful_names(&contested);
        guilty.extend(&holders.of_revised);
        guilty.retain(|inode| !suspects.contains(inode));
        let clean = |holder: &InodeNo| !guilty.contains(holder) && !suspects.contains(holder);
        // What contested directories are called in clean ones.
        let mut names: BTreeMap<InodeNo, Vec<InodeNo>> = BTreeMap::new();
        for (child, holder) in holders.of_contested.iter().filter(|(_, holder)| clean(holder)) {
            names.entry(*child).or_default().push(*holder);
        }
        guilty.extend(names.values().filter(|holders| holders.len() > 1).flatten());
        let mut reader = BatchReader::new(self.fs.device, ReadBackend::Pread, 1);
        let mut summary = DirectorySummary::default();
        for inode in &guilty {
            if self.summarize_again(*inode, &fast_path, &mut reader, &mut summary) {
                deferred.withdraw(*inode, &summary);
            }
        }
        for fact in contested.iter().filter_map(|child| self.inodes.directory(*child)) {
            let holder = names.get(&InodeNo(fact.inode)).and_then(|holders| holders.first());
            let parent = holder.filter(|holder| !guilty.contains(holder)).map_or(0, |holder| holder.0);
            fact.parent.store(parent, Relaxed);
        }
        guilty
    }

    /// The fast path with which the directory was counted.
    fn summarize_again(
        &self,
        inode: InodeNo,
        fast_path: &DirectoryFastPath<'_>,
        reader: &mut BatchReader<'_>,
        summary: &mut DirectorySummary,
    ) -> bool {
        let job = Directory::open(self.fs, inode).and_then(|directory| {
            DirectoryJob::of_inspected(inode, &directory.record, &directory.runs, directory.inline)
        });
        job.is_some_and(|job| job.summarize(fast_path, self.fs, reader, summary).clean)
    }

    /// Inodes whose records lie in bad blocks: they are lost.
    fn lost_inodes(&self) -> Vec<InodeNo> {
        let mut lost = directory::inodes_in_bad_blocks(self.fs, self.bad_blocks);
        lost.retain(|inode| inode.0 >= self.fs.geometry.first_inode && self.inodes.is_scanned(*inode));
        lost
    }

    /// Takes back what a lost inode has claimed.
    fn withdraw_claims(&self, inode: InodeNo) {
        let Some(Ok(record)) = self.fs.read_inode(inode) else { return };
        let inspection = inode::inspect(self.fs, inode, &record, &mut Findings::new());
        for (start, count) in units_of(&inspection, &self.fs.geometry) {
            self.claims.withdraw(start, count);
        }
    }

    /// Looks for the names of inodes whose facts changed after they may have been certified, and of `contested`
    /// directories. A parent entry counts as a name of a revised inode.
    fn holders_of_doubtful_names(&self, contested: &[InodeNo]) -> Holders {
        let revised: BTreeSet<InodeNo> = self.outcome.revised.iter().copied().collect();
        if revised.is_empty() && contested.is_empty() {
            return Holders::default();
        }
        let directories: Vec<InodeNo> =
            self.inodes.directories().iter().map(|fact| InodeNo(fact.inode)).collect();
        let found = pool::run_slices(
            self.run_context.pool(),
            &[Stage { name: "doubtful names", pass: 0 }],
            &directories,
            DIRECTORIES_PER_SLICE,
            self.cancel,
            |_| Holders::default(),
            |found, part| part.iter().for_each(|inode| self.find_names(*inode, &revised, contested, found)),
        );
        found.into_iter().fold(Holders::default(), |mut all, part| {
            all.of_revised.extend(part.of_revised);
            all.of_contested.extend(part.of_contested);
            all
        })
    }

    fn find_names(
        &self,
        holder: InodeNo,
        revised: &BTreeSet<InodeNo>,
        contested: &[InodeNo],
        found: &mut Holders,
    ) {
        let Some(directory) = Directory::open(self.fs, holder) else { return };
        let parent = self.inodes.directory(holder).map_or(0, |fact| fact.parent_entry.load(Relaxed));
        let mut holds_revised = revised.contains(&InodeNo(parent));
        directory::entries::entries_of(self.fs, &directory, &mut |target, _| {
            holds_revised |= revised.contains(&target);
            if contested.binary_search(&target).is_ok() {
                found.of_contested.push((target, holder));
            }
        });
        if holds_revised {
            found.of_revised.push(holder);
        }
    }

    /// Names in suspect directories may lead into the never-used tail of an inode table, or into a group flagged as
    /// having no inodes. Those inodes are looked at after all; what is found in use there joins the facts, and
    /// directories among it join the suspects.
    fn open_tails(&mut self, suspects: &mut BTreeSet<InodeNo>) {
        let mut searched = BTreeSet::new();
        // Two maps of all blocks, which hardly any file system needs.
        let mut limiter = None;
        loop {
            let fresh: Vec<InodeNo> = suspects.difference(&searched).copied().collect();
            let groups = self.tails_named_in(&fresh);
            searched.extend(fresh);
            if groups.is_empty() {
                return;
            }
            for group in groups {
                self.open_tail(group, suspects, limiter.get_or_insert_with(|| limiter_of(self.fs)));
            }
        }
    }

    /// The groups in whose tails, which were not scanned, there are inodes that names in `directories` lead to.
    fn tails_named_in(&self, directories: &[InodeNo]) -> BTreeSet<u32> {
        let search = |groups: &mut BTreeSet<u32>, inode: InodeNo| {
            let Some(directory) = Directory::open(self.fs, inode) else { return };
            directory::entries::entries_of(self.fs, &directory, &mut |target, _| {
                if !self.inodes.is_scanned(target)
                    && let Some((group, _)) = self.fs.geometry.inode_place(target)
                    && self.fs.group(group).is_some_and(|group| group.desc.inode_table != 0)
                {
                    groups.insert(group.0);
                }
            });
        };
        let found = pool::run_slices(
            self.run_context.pool().for_work(1 + directories.len() / DIRECTORIES_PER_SLICE),
            &[Stage { name: "tails", pass: 0 }],
            directories,
            DIRECTORIES_PER_SLICE / 4,
            self.cancel,
            |_| BTreeSet::new(),
            |groups, part| part.iter().for_each(|inode| search(groups, *inode)),
        );
        found.into_iter().flatten().collect()
    }

    fn open_tail(&mut self, group: u32, suspects: &mut BTreeSet<InodeNo>, limiter: &mut MapWalkLimiter) {
        let per_group = self.fs.geometry.inodes_per_group;
        let first = group * per_group + 1;
        let scanned =
            (0..per_group).find(|at| !self.inodes.is_scanned(InodeNo(first + at))).unwrap_or(per_group);
        self.inodes.extend(group, per_group as usize);
        for inode in (first + scanned..=first + (per_group - 1)).map(InodeNo) {
            let Some(Ok(record)) = self.fs.read_inode(inode) else { continue };
            if record.iter().all(|byte| *byte == 0) {
                continue;
            }
            inode::limit_walk(limiter, self.fs, inode, &record);
            let mut found = self.outcome.findings.fresh();
            let inspection = inode::inspect(self.fs, inode, &record, &mut found);
            let fact = self.outcome.take_inspection(inode, &inspection, &self.claims, self.fs);
            let links = RawInode::from_record(&inspection.record).i_links_count.get();
            self.inodes.revise(inode, fact, links);
            if fact.kind() == Kind::Directory {
                self.inodes.add_directory(inode);
                suspects.insert(inode);
            }
            self.outcome.findings.merge(found);
        }
    }

    /// Attribute blocks: contents once per block, references counted, value inodes judged.
    pub fn attributes(&mut self) {
        let is_used = |holder: InodeNo| self.inodes.kind(holder) != Kind::Unused;
        self.outcome.value_references.retain(|(_, _, holder)| is_used(*holder));
        let mut references = std::mem::take(&mut self.outcome.xattr_references);
        references.retain(|(_, holder)| is_used(*holder));
        references.sort_unstable();
        let mut extra = Vec::new();
        for group in references.chunk_by(|a, b| a.0 == b.0) {
            let (block, inode) = group[0];
            let (block_no, findings) = (BlockNo(block), &mut self.outcome.findings);
            let attributes =
                xattr::settle_block(self.fs, inode, block_no, width::len_u32(group.len()), findings);
            if !attributes.plausible {
                self.without_attribute_block(group);
                continue;
            }
            let unit = self.fs.geometry.cluster_of(block);
            // Whose it is stands in the list that is returned.
            self.claims.claim(unit, 1, Origin::KNOWN);
            extra.push((unit, Owner::Inode(inode)));
            self.outcome
                .value_references
                .extend(attributes.value_inodes.iter().map(|(value, hash)| (*value, *hash, inode)));
            if self.fs.counts_quota() && !attributes.value_inodes.is_empty() {
                self.charge_values(group, attributes.value_inodes.len() as u64);
            }
        }
        self.value_inodes();
        self.extra = extra;
    }

    /// Inspects the clean ones among inodes whose attribute block goes: their space is wrong without it. (The
    /// inspection of the others has seen that already.)
    fn without_attribute_block(&mut self, references: &[(u64, InodeNo)]) {
        let fast_path = InodeFastPath::new(self.fs);
        let mut summary = InodeSummary::default();
        for (_, inode) in references {
            let Some(Ok(record)) = self.fs.read_inode(*inode) else { continue };
            if fast_path.summarize(*inode, &record, &mut summary) == Verdict::Clean {
                inode::inspect(self.fs, *inode, &record, &mut self.outcome.findings);
            }
        }
    }

    /// Everybody who shares an attribute block is charged with the inodes that hold its values.
    fn charge_values(&mut self, references: &[(u64, InodeNo)], values: u64) {
        for (_, inode) in references {
            if let Some(Ok(record)) = self.fs.read_inode(*inode) {
                let raw = RawInode::from_record(&record);
                charge(&mut self.outcome.quota, self.fs, *inode, &raw, (0, values));
            }
        }
    }

    fn value_inodes(&mut self) {
        let mut holders = self.value_holders();
        holders.append(&mut self.outcome.spurious_holders);
        holders.sort_unstable();
        let mut references: BTreeMap<InodeNo, u64> = BTreeMap::new();
        for (value, _, _) in &self.outcome.value_references {
            *references.entry(*value).or_default() += 1;
        }
        // An attribute that stays proves what its value inode is, even where that has lost its flag.
        let is_unmarked = |inode: &&InodeNo| {
            holders.binary_search(inode).is_err() && self.inodes.kind(**inode) == Kind::Regular
        };
        for inode in references.keys().filter(is_unmarked) {
            let (links, _) = self.inodes.links(*inode);
            self.inodes.revise(*inode, InodeFact::new(Kind::Regular, mark::EA_INODE), links);
            self.repair_input.value_inodes.push((*inode, ValueMend::Flag));
        }
        let flagged: Vec<_> = holders
            .into_iter()
            .filter_map(|inode| {
                let record = self.fs.read_inode(inode)?.ok()?;
                let inspection = inode::inspect(self.fs, inode, &record, &mut Findings::new());
                Some((inode, RawInode::from_record(&inspection.record)))
            })
            .collect();
        let count = |inode| references.get(&inode).copied().unwrap_or(0);
        let mends = xattr::check_value_inodes(flagged, count, &mut self.outcome.findings);
        for (spurious, _) in mends.iter().filter(|(_, mend)| *mend == ValueMend::Unflag) {
            let (links, _) = self.inodes.links(*spurious);
            self.inodes.revise(*spurious, InodeFact::new(Kind::Regular, 0), links);
        }
        self.repair_input.value_inodes.extend(mends);
    }

    /// Owners of contested blocks.
    pub fn owners(&mut self) {
        let attributes = self.extra.len();
        self.extra.extend(self.system.iter().copied());
        self.search_owners();
        if self.outcome.findings.gathers_edits() {
            let units = self.extra.iter().take(attributes).map(|(unit, _)| *unit);
            let contested = self.claims.contested();
            self.repair_input.attribute_units = units.filter(|unit| contested.get(*unit)).collect();
        }
    }

    fn search_owners(&mut self) {
        if self.fs.geometry.features.has_ro_compat(RoCompat::SHARED_BLOCKS) && !self.unshares {
            // Sharing is what this feature is for; such a file system is never written.
            return;
        }
        if self.claims.origins().is_none() && self.claims.contested().ones().next().is_some() {
            self.run_context.shortages.origins.store(true, Relaxed);
        }
        let mut findings = std::mem::take(&mut self.outcome.findings);
        let is_exhausted = || self.run_context.budget.is_exhausted();
        let contest = self.search(&self.extra).report(is_exhausted, &mut findings);
        self.outcome.findings = findings;
        self.repair_input.contest = contest;
    }

    /// Root, tree, lost+found, link counts.
    pub fn tree_and_links(&mut self) {
        let root = InodeNo(special::ROOT);
        let findings = &mut self.outcome.findings;
        tree::check_root(self.fs, &self.inodes, findings);
        let (pool, cancel) = (self.run_context.pool(), self.cancel);
        let found = tree::check(&self.inodes, root, pool, cancel);
        let adjustments = tree::adjustments(&self.inodes, &found.findings);
        let findings = &mut self.outcome.findings;
        let parent_entries = tree::report(self.fs, &self.inodes, &found, findings);
        let scanned = self.fs.groups.iter().map(|group| u64::from(group.scan_inodes)).sum();
        let unattached =
            links::check(self.fs, (&self.inodes, scanned), &adjustments, (pool, cancel), findings);
        let pending = unattached + tree::reconnected(&found.findings);
        let lost_found =
            directory::lost_found::check_lost_found(self.fs, &self.inodes, &self.claims, pending, findings);
        self.repair_input.names.tree = found.findings;
        self.repair_input.names.parent_entries = parent_entries;
        self.repair_input.names.lost_found = lost_found;
        self.repair_input.adjustments = adjustments;
    }
}
