// SPDX-License-Identifier: MIT OR Apache-2.0
//! Families of file systems: what a program that works on a target asks of each. One row of the registry per family. What has a default is for
//! formats that have something of the kind: a journal elsewhere, a lock against other machines, a mark of a repair under way.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, Recognise, Trace};
use fsmend_engine::layout::Layout;
use fsmend_engine::options::{CheckOptions, RepairOptions, SuperblockOptions};
use fsmend_engine::repair::{Rest, Whole};
use fsmend_engine::report::{CheckReport, Repair};
use fsmend_engine::shapes::FileShapes;
use fsmend_engine::{Estimate, FileChange, Problem, Progress, Refusal, Refused, Row};
use fsmend_vfs::Time;

use crate::Environment;
use crate::description::Description;
use crate::driver::{Driver, Kind};
use crate::live::{Live, Pins};

/// A change: where, in bytes, and what stands there.
pub type Change = (u64, Vec<u8>);

/// A family of file systems. The numbers that its peers give to its problems stand in the rows of its catalogue.
pub trait Family: Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// What a file system of it is, with an article: for what a user has to know of a device.
    fn title(&self) -> &'static str;

    /// How the kernel calls what it mounts of it; nothing where no kernel does.
    fn kernel_types(&self) -> &'static [&'static str] {
        &[]
    }

    /// How much of one is on `device`, by its superblock and the usual places of copies.
    fn trace(&self, device: &dyn Device) -> Option<Trace>;

    /// Whether one is on `device` of which the usual places show no trace. The first family of a [`Registry`] is not asked: it is what remains.
    fn is_hidden_on(&self, device: &dyn Device) -> bool {
        let _ = device;
        false
    }

    /// Every kind of problem that its checks can name, sorted by code.
    fn catalogue(&self) -> Vec<&'static Row>;

    /// What the file system on `device` is and how full it is, without a check.
    fn describe(&self, device: &Arc<dyn Device>, now: Time) -> Result<Description, String> {
        let _ = (device, now);
        Err(format!("{} is not described", self.title()))
    }

    /// Whether a part of the file system on `device` is on another one, [`Family::external_journal`]. Then nothing but
    /// [`Family::with_external`] works on what was opened alone.
    fn is_divided(&self, device: &dyn Device) -> bool {
        let _ = device;
        false
    }

    /// The file system on `device` with the part of it that is on `external`, for families that divide theirs.
    fn with_external(
        &self,
        device: &Arc<dyn Device>,
        external: &Arc<dyn Device>,
    ) -> Result<Arc<dyn Device>, Refusal> {
        let _ = external;
        Ok(Arc::clone(device))
    }

    /// The label of what `device` holds, where it is easily read.
    fn label(&self, device: &dyn Device) -> Option<String> {
        let _ = device;
        None
    }

    /// What makes and mounts its file systems.
    fn driver(&self) -> Option<&'static dyn Driver> {
        None
    }

    /// How its file systems are checked while a kernel has them mounted for writing.
    fn live(&self) -> Option<&'static dyn Live> {
        None
    }

    /// How its own mounts keep a state for a check.
    fn pins(&self) -> Option<&'static dyn Pins> {
        None
    }

    /// Checks the file system on `device`. When `cancel` becomes true the run ends soon with a refusal.
    fn check(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        progress: &Progress,
        cancel: &AtomicBool,
    ) -> Result<CheckReport, Refused>;

    /// How long a check of the file system on `device` would take.
    fn estimate(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        cancel: &AtomicBool,
    ) -> Result<Estimate, Refusal>;

    /// Works out what makes the file system on `device` sound. Nothing is written.
    fn plan(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        progress: &Progress,
        cancel: &AtomicBool,
    ) -> Result<Repair, Refused>;

    /// What remains of a repair when the problems `declined` are left alone. `None` if the
    /// rest would break what was not broken before.
    fn without(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        repair: Whole<'_>,
        declined: &[&Problem],
        watch: (&Progress, &AtomicBool),
    ) -> Result<Option<Rest>, Refused>;

    /// The files that problems are about, and what a repair does to them.
    fn files(&self, device: &Arc<dyn Device>, repair: &mut Repair, check: &CheckOptions) -> Vec<FileChange>;

    /// What lies where in the file system on `device`, for maps and for what a repair writes; with its free space if that is wanted, which takes
    /// reading all maps. `None` where it cannot be known.
    fn layout(&self, device: &Arc<dyn Device>, check: &CheckOptions, with_free: bool) -> Option<Layout> {
        let _ = (device, check, with_free);
        None
    }

    /// How large the files on `device` are and in how many pieces they lie, for histograms. `None` where that cannot be known.
    fn shapes(&self, device: &Arc<dyn Device>, check: &CheckOptions) -> Option<FileShapes> {
        let _ = (device, check);
        None
    }

    /// What marks the file system as being repaired while `changes` are written; nothing if there is no place for a mark.
    fn marker(&self, device: &dyn Device, changes: &[Change]) -> Vec<Change> {
        let _ = (device, changes);
        Vec::new()
    }

    /// Offset and length of what is written last of `changes`.
    fn last(&self, changes: &[Change]) -> Vec<(u64, u64)>;

    /// Problems whose repair gives a name in `lost+found`.
    fn recovering(&self) -> &'static [&'static Row];

    /// Problems about blocks that several files claim, which a user may have treated in different ways.
    fn sharing(&self) -> &'static [&'static Row] {
        &[]
    }

    /// Problems of names whose inodes are not in use: what is lost depends on the inode.
    fn unused_names(&self) -> &'static [&'static Row] {
        &[]
    }

    /// Notes that the file system was read by a copy of its superblock.
    fn read_by_copy(&self) -> &'static [&'static Row] {
        &[]
    }

    /// Returns when no other machine uses the file system on `device`, or refuses. `tell` is given a sentence before a wait.
    fn wait_for_others(
        &self,
        device: &dyn Device,
        environment: &Environment,
        tell: &mut dyn FnMut(String),
        cancel: &AtomicBool,
    ) -> Result<(), Refusal> {
        let _ = (device, environment, tell, cancel);
        Ok(())
    }

    /// The change that tells other machines that the file system is being written, and the one that lets them in again afterwards, if
    /// they were kept out before.
    fn keep_out(&self, device: &dyn Device, environment: &Environment) -> (Option<Change>, Option<Change>) {
        let _ = (device, environment);
        (None, None)
    }

    /// The journal of what `device` holds, if it is said to lie on another device.
    fn external_journal(
        &self,
        device: &dyn Device,
        options: SuperblockOptions,
        now: u64,
    ) -> Option<Box<dyn JournalPlace>> {
        let _ = (device, options, now);
        None
    }

    /// The bytes of a journal device that tell it from others.
    fn journal_identity(&self) -> Range<u64> {
        0..0
    }
}

/// A journal on another device, as its file system describes it.
pub trait JournalPlace {
    /// The number that the device had when it was last used, as the kernel encodes it; 0 if none is known.
    fn number(&self) -> u32;

    /// Whether the device at `path` is it.
    fn is(&self, path: &Path) -> bool;
}

/// The families that a program knows; the first one is asked about what none of them recognises (it may look for copies).
#[derive(Clone, Copy)]
pub struct Registry {
    first: &'static dyn Family,
    others: &'static [&'static dyn Family],
}

impl Registry {
    /// The registry with these families.
    pub const fn new(first: &'static dyn Family, others: &'static [&'static dyn Family]) -> Registry {
        Registry { first, others }
    }

    /// All families.
    pub fn all(&self) -> impl Iterator<Item = &'static dyn Family> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// The family that is asked about what none recognises.
    pub fn usual(&self) -> &'static dyn Family {
        self.first
    }

    /// The family that recognises what `device` holds.
    pub fn recognise(&self, device: &dyn Device) -> Option<&'static dyn Family> {
        self.strongest(device).map(|(_, family)| family)
    }

    /// The family that has left the strongest trace on `device`; the first of several.
    fn strongest(&self, device: &dyn Device) -> Option<(Trace, &'static dyn Family)> {
        let mut strongest = None;
        for family in self.all() {
            let found = family.trace(device).map(|trace| (trace, family));
            if found.as_ref().map(|found| found.0) > strongest.as_ref().map(|found: &(Trace, _)| found.0) {
                strongest = found;
            }
            if strongest.as_ref().is_some_and(|found| found.0 == Trace::Superblock) {
                break;
            }
        }
        strongest
    }

    /// The family that has to judge what `device` holds. What bears no trace of any goes to one that finds more after a longer look, or to the
    /// first one, which searches the device for copies in unusual places, and says what it is if there are none.
    pub fn of(&self, device: &dyn Device) -> &'static dyn Family {
        // There is nothing to choose from, and nothing to be read, with one family.
        if self.others.is_empty() {
            return self.first;
        }
        let hidden = || self.others.iter().copied().find(|family| family.is_hidden_on(device));
        self.recognise(device).or_else(hidden).unwrap_or(self.first)
    }

    /// How the kernel calls what it mounts of all of them.
    pub fn kernel_types(&self) -> Vec<&'static str> {
        self.all().flat_map(|family| family.kernel_types()).copied().collect()
    }

    /// The problems of all of them whose repair gives a name in `lost+found`.
    pub fn recovering(&self) -> Vec<&'static Row> {
        self.all().flat_map(|family| family.recovering()).copied().collect()
    }

    /// The driver of the family that has to judge what `device` holds, for `doing`.
    pub fn driver_of(&self, device: &dyn Device, doing: &str) -> Result<&'static dyn Driver, String> {
        let family = self.of(device);
        let none =
            || format!("it holds {}, which fsmend checks and repairs, but does not {doing}", family.title());
        family.driver().ok_or_else(none)
    }

    /// The types of file systems that can be made, each with what makes it.
    pub fn kinds(&self) -> impl Iterator<Item = (Kind, &'static dyn Driver)> {
        let drivers = self.all().filter_map(|family| family.driver());
        drivers.flat_map(|driver| driver.kinds().iter().map(move |kind| (*kind, driver)))
    }

    /// Whether the problem is one of those that `of` a family names.
    pub fn has(&self, of: fn(&dyn Family) -> &'static [&'static Row], row: &Row) -> bool {
        self.all().any(|family| of(family).contains(&row))
    }

    /// Every kind of problem that any of them can name, sorted by code.
    pub fn catalogue(&self) -> Vec<&'static Row> {
        let mut rows: Vec<_> = self.all().flat_map(|family| family.catalogue()).collect();
        rows.sort_by_key(|row| row.code);
        rows
    }
}

impl Recognise for Registry {
    fn trace(&self, device: &dyn Device) -> Option<(Trace, &'static str)> {
        self.strongest(device).map(|(trace, family)| (trace, family.title()))
    }
}
