// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row of the registry for a format that leaves checks and repairs to the engine's checker: what it is called, its rows, how it is recognised, and the
//! little that it adds.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, Trace};
use fsmend_engine::checker::{self, Checker};
use fsmend_engine::detail::Detail;
use fsmend_engine::layout::Layout;
use fsmend_engine::options::{CheckOptions, RepairOptions, SuperblockOptions};
use fsmend_engine::repair::{Rest, Whole};
use fsmend_engine::report::{CheckReport, Repair};
use fsmend_engine::shapes::FileShapes;
use fsmend_engine::{Estimate, FileChange, Problem, Progress, Refusal, Refused, Row};
use fsmend_vfs::Time;

use crate::description::Description;
use crate::driver::Driver;
use crate::family::{Change, Family, JournalPlace};
use crate::live::Pins;

/// A family whose file systems are checked and repaired by [`Checker`]. What is the same for all of them is the implementation of [`Family`] for them.
pub trait Plain: Sync {
    /// The format.
    type Format: checker::Family;

    /// What checks and repairs it.
    const CHECKER: Checker<Self::Format>;
    /// What it is called.
    const NAME: &'static str;
    /// What a file system of it is, with an article.
    const TITLE: &'static str;
    /// How the kernel calls what it mounts of it.
    const KERNEL_TYPES: &'static [&'static str] = &[];
    /// Problems whose repair gives a name in `lost+found`.
    const RECOVERING: &'static [&'static Row];
    /// [`Family::driver`].
    const DRIVER: Option<&'static dyn Driver> = None;
    /// [`Family::pins`].
    const PINS: Option<&'static dyn Pins> = None;

    /// [`Family::trace`].
    fn trace(device: &dyn Device) -> Option<Trace>;

    /// [`Family::is_hidden_on`].
    fn is_hidden_on(device: &dyn Device) -> bool {
        let _ = device;
        false
    }

    /// Every kind of problem that its checks can name, in any order.
    fn rows() -> Vec<&'static Row>;

    /// [`Family::last`].
    fn last(changes: &[Change]) -> Vec<(u64, u64)>;

    /// What the file system on `device` is and how full it is: names and values in the order in which they are shown.
    fn describe(device: &dyn Device) -> Option<Result<Vec<(&'static str, Detail)>, Refusal>> {
        let _ = device;
        None
    }

    /// [`Family::layout`].
    fn layout(device: &dyn Device, check: &CheckOptions, with_free: bool) -> Option<Layout> {
        let _ = (device, check, with_free);
        None
    }

    /// [`Family::marker`].
    fn marker(device: &dyn Device, changes: &[Change]) -> Vec<Change> {
        let _ = (device, changes);
        Vec::new()
    }

    /// [`Family::is_divided`].
    fn is_divided(device: &dyn Device) -> bool {
        let _ = device;
        false
    }

    /// [`Family::with_external`].
    fn whole(device: &Arc<dyn Device>, external: &Arc<dyn Device>) -> Result<Arc<dyn Device>, Refusal> {
        let _ = external;
        Ok(Arc::clone(device))
    }

    /// [`Family::external_journal`].
    fn external_journal(device: &dyn Device) -> Option<Box<dyn JournalPlace>> {
        let _ = device;
        None
    }
}

impl<P: Plain> Family for P {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn title(&self) -> &'static str {
        P::TITLE
    }

    fn kernel_types(&self) -> &'static [&'static str] {
        P::KERNEL_TYPES
    }

    fn trace(&self, device: &dyn Device) -> Option<Trace> {
        P::trace(device)
    }

    fn is_hidden_on(&self, device: &dyn Device) -> bool {
        P::is_hidden_on(device)
    }

    fn describe(&self, device: &Arc<dyn Device>, _now: Time) -> Result<Description, String> {
        let described = P::describe(&**device).ok_or_else(|| format!("{} is not described", P::TITLE))?;
        described.map(Description::of_values).map_err(|refusal| refusal.to_string())
    }

    fn is_divided(&self, device: &dyn Device) -> bool {
        P::is_divided(device)
    }

    fn with_external(
        &self,
        device: &Arc<dyn Device>,
        external: &Arc<dyn Device>,
    ) -> Result<Arc<dyn Device>, Refusal> {
        P::whole(device, external)
    }

    fn external_journal(
        &self,
        device: &dyn Device,
        _options: SuperblockOptions,
        _now: u64,
    ) -> Option<Box<dyn JournalPlace>> {
        P::external_journal(device)
    }

    fn driver(&self) -> Option<&'static dyn Driver> {
        P::DRIVER
    }

    fn pins(&self) -> Option<&'static dyn Pins> {
        P::PINS
    }

    fn catalogue(&self) -> Vec<&'static Row> {
        let mut rows = P::rows();
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
        P::CHECKER.check(device, options, progress, cancel)
    }

    fn estimate(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        cancel: &AtomicBool,
    ) -> Result<Estimate, Refusal> {
        P::CHECKER.estimate(device, options, cancel)
    }

    fn plan(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        progress: &Progress,
        cancel: &AtomicBool,
    ) -> Result<Repair, Refused> {
        P::CHECKER.plan(device, options, progress, cancel)
    }

    fn without(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        repair: Whole<'_>,
        declined: &[&Problem],
        watch: (&Progress, &AtomicBool),
    ) -> Result<Option<Rest>, Refused> {
        fsmend_engine::repair::without(&P::CHECKER, device, options, repair, declined, watch)
    }

    fn files(&self, device: &Arc<dyn Device>, repair: &mut Repair, check: &CheckOptions) -> Vec<FileChange> {
        P::CHECKER.files(device, repair, check)
    }

    fn layout(&self, device: &Arc<dyn Device>, check: &CheckOptions, with_free: bool) -> Option<Layout> {
        P::layout(&**device, check, with_free)
    }

    fn shapes(&self, device: &Arc<dyn Device>, check: &CheckOptions) -> Option<FileShapes> {
        P::CHECKER.shapes(&**device, check)
    }

    fn marker(&self, device: &dyn Device, changes: &[Change]) -> Vec<Change> {
        P::marker(device, changes)
    }

    fn last(&self, changes: &[Change]) -> Vec<(u64, u64)> {
        P::last(changes)
    }

    fn recovering(&self) -> &'static [&'static Row] {
        P::RECOVERING
    }
}
