// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row of the registry for a format that leaves everything to the engine's checker: its name, its rows, how it is recognised.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, Trace};
use fsmend_engine::checker::{self, Checker};
use fsmend_engine::options::{CheckOptions, RepairOptions};
use fsmend_engine::repair::{Rest, Whole};
use fsmend_engine::report::{CheckReport, Repair};
use fsmend_engine::shapes::FileShapes;
use fsmend_engine::{Estimate, FileChange, Problem, Progress, Refusal, Refused, Row};

use crate::family::{Change, Family};

/// A family whose file systems are checked and repaired by [`Checker`], with nothing of their own beside it.
pub struct Plain<F> {
    /// The format.
    pub format: Checker<F>,
    /// What it is called.
    pub name: &'static str,
    /// What a file system of it is, with an article.
    pub title: &'static str,
    /// How much of one is on a device.
    pub trace: fn(&dyn Device) -> Option<Trace>,
    /// Its catalogue.
    pub rows: &'static [&'static Row],
    /// Those whose repair gives a name in `lost+found`.
    pub recovering: &'static [&'static Row],
    /// Offset and length of what is written last of a repair: as a rule the superblock.
    pub last: (u64, u64),
}

impl<F: checker::Family> Family for Plain<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn trace(&self, device: &dyn Device) -> Option<Trace> {
        (self.trace)(device)
    }

    fn catalogue(&self) -> Vec<&'static Row> {
        let mut rows = self.rows.to_vec();
        rows.sort_by_key(|row| row.code);
        rows
    }

    fn check(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        progress: &Progress,
        cancel: &AtomicBool,
    ) -> Result<CheckReport, Refused> {
        self.format.check(device, options, progress, cancel)
    }

    fn estimate(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        cancel: &AtomicBool,
    ) -> Result<Estimate, Refusal> {
        self.format.estimate(device, options, cancel)
    }

    fn plan(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        progress: &Progress,
        cancel: &AtomicBool,
    ) -> Result<Repair, Refused> {
        self.format.plan(device, options, progress, cancel)
    }

    fn without(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        repair: Whole<'_>,
        declined: &[&Problem],
        watch: (&Progress, &AtomicBool),
    ) -> Result<Option<Rest>, Refused> {
        fsmend_engine::repair::without(&self.format, device, options, repair, declined, watch)
    }

    fn files(&self, device: &Arc<dyn Device>, repair: &mut Repair, check: &CheckOptions) -> Vec<FileChange> {
        self.format.files(device, repair, check)
    }

    fn shapes(&self, device: &Arc<dyn Device>, check: &CheckOptions) -> Option<FileShapes> {
        self.format.shapes(&**device, check)
    }

    fn last(&self, changes: &[Change]) -> Vec<(u64, u64)> {
        let (start, len) = self.last;
        let is_in =
            |(at, bytes): &&Change| *at < start + len && start < at.saturating_add(bytes.len() as u64);
        changes.iter().filter(is_in).map(|(at, bytes)| (*at, bytes.len() as u64)).collect()
    }

    fn recovering(&self) -> &'static [&'static Row] {
        self.recovering
    }
}
