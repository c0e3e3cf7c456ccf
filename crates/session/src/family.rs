//! Families of file systems: what a program that works on a target asks of each. One row of the registry per family.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::Device;
use fsmend_engine::options::{CheckOptions, RepairOptions, SuperblockOptions};
use fsmend_engine::repair::Rest;
use fsmend_engine::report::{CheckReport, Repair};
use fsmend_engine::{FileChange, Problem, Progress, Refusal, Refused, Row};

use crate::Environment;

/// A change: where, in bytes, and what stands there.
pub type Change = (u64, Vec<u8>);

/// A family of file systems. The numbers that its peers give to its problems stand in the rows of its catalogue.
pub trait Family: Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Whether `device` holds one, by its magic.
    fn recognises(&self, device: &dyn Device) -> bool;

    /// Every kind of problem that its checks can name, sorted by code.
    fn catalogue(&self) -> Vec<&'static Row>;

    /// Checks the file system on `device`. When `cancel` becomes true the run ends soon with a refusal.
    fn check(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        progress: &Progress,
        cancel: &AtomicBool,
    ) -> Result<CheckReport, Refused>;

    /// Works out what makes the file system on `device` sound. Nothing is written.
    fn plan(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        progress: &Progress,
        cancel: &AtomicBool,
    ) -> Result<Repair, Refused>;

    /// What remains of a repair, its changes and the problems that it repairs, when the problems `declined` are left alone. `None` if the
    /// rest would break what was not broken before.
    fn without(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        repair: (&Vec<Change>, &[&Problem]),
        declined: &[&Problem],
        watch: (&Progress, &AtomicBool),
    ) -> Result<Option<Rest>, Refused>;

    /// The files that problems are about, and what a repair does to them.
    fn files(&self, device: &Arc<dyn Device>, repair: &mut Repair, check: &CheckOptions) -> Vec<FileChange>;

    /// What marks the file system as being repaired while `changes` are written; nothing if there is no place for a mark.
    fn marker(&self, device: &dyn Device, changes: &[Change]) -> Vec<Change>;

    /// Offset and length of what is written last of `changes`.
    fn last(&self, changes: &[Change]) -> Vec<(u64, u64)>;

    /// Problems whose repair gives a name in `lost+found`.
    fn recovering(&self) -> &'static [&'static Row];

    /// Returns when no other machine uses the file system on `device`, or refuses. `tell` is given a sentence before a wait.
    fn wait_for_others(
        &self,
        device: &dyn Device,
        environment: &Environment,
        tell: &mut dyn FnMut(String),
        cancel: &AtomicBool,
    ) -> Result<(), Refusal>;

    /// The change that tells other machines that the file system is being written, and the one that lets them in again afterwards, if
    /// they were kept out before.
    fn keep_out(&self, device: &dyn Device, environment: &Environment) -> (Option<Change>, Option<Change>);

    /// The journal of what `device` holds, if it is said to lie on another device.
    fn external_journal(
        &self,
        device: &dyn Device,
        options: SuperblockOptions,
        now: u64,
    ) -> Option<Box<dyn JournalPlace>>;

    /// The bytes of a journal device that tell it from others.
    fn journal_identity(&self) -> Range<u64>;
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

    /// The family that recognises what `device` holds.
    pub fn recognise(&self, device: &dyn Device) -> Option<&'static dyn Family> {
        self.all().find(|family| family.recognises(device))
    }

    /// The family that has to judge what `device` holds.
    pub fn of(&self, device: &dyn Device) -> &'static dyn Family {
        // There is nothing to choose from, and nothing to be read, with one family.
        if self.others.is_empty() { self.first } else { self.recognise(device).unwrap_or(self.first) }
    }

    /// The problems of all of them whose repair gives a name in `lost+found`.
    pub fn recovering(&self) -> Vec<&'static Row> {
        self.all().flat_map(|family| family.recovering()).copied().collect()
    }

    /// Every kind of problem that any of them can name, sorted by code.
    pub fn catalogue(&self) -> Vec<&'static Row> {
        let mut rows: Vec<_> = self.all().flat_map(|family| family.catalogue()).collect();
        rows.sort_by_key(|row| row.code);
        rows
    }
}
