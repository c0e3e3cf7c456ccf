// SPDX-License-Identifier: MIT OR Apache-2.0
//! UFS1 and UFS2.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, Trace};
use fsmend_engine::checker::Checker;
use fsmend_engine::layout::Layout;
use fsmend_engine::options::{CheckOptions, RepairOptions};
use fsmend_engine::repair::{Rest, Whole};
use fsmend_engine::report::{CheckReport, Repair};
use fsmend_engine::shapes::FileShapes;
use fsmend_engine::{Estimate, FileChange, Problem, Progress, Refusal, Refused, Row, Value};
use fsmend_session::{Change, Family};
use fsmend_ufs_check::{opening, rows};
use fsmend_ufs_format::superblock::{SUPERBLOCK_MAX, Superblock};

/// Problems whose repair gives a name in `lost+found`.
const RECOVERING: [&Row; 4] =
    [&rows::UNATTACHED, &rows::UNATTACHED_LEFT, &rows::UNCONNECTED, &rows::UNCONNECTED_LEFT];

/// The family.
pub struct Ufs;

const CHECKER: Checker<fsmend_ufs_check::Ufs> = Checker(fsmend_ufs_check::Ufs);

impl Family for Ufs {
    fn name(&self) -> &'static str {
        "ufs"
    }

    fn title(&self) -> &'static str {
        "a UFS file system"
    }

    fn kernel_types(&self) -> &'static [&'static str] {
        &["ufs"]
    }

    fn trace(&self, device: &dyn Device) -> Option<Trace> {
        match primary(device) {
            Some((_, superblock)) if is_plausible(&superblock) => Some(Trace::Superblock),
            Some(_) => Some(Trace::Magic),
            None => opening::recognises(device).then_some(Trace::Copy),
        }
    }

    fn describe(&self, device: &dyn Device) -> Option<Result<Vec<(&'static str, Value)>, Refusal>> {
        Some(fsmend_ufs_check::describe::describe(device))
    }

    fn catalogue(&self) -> Vec<&'static Row> {
        let mut rows = rows::all();
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
        CHECKER.check(device, options, progress, cancel)
    }

    fn estimate(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        cancel: &AtomicBool,
    ) -> Result<Estimate, Refusal> {
        CHECKER.estimate(device, options, cancel)
    }

    fn plan(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        progress: &Progress,
        cancel: &AtomicBool,
    ) -> Result<Repair, Refused> {
        CHECKER.plan(device, options, progress, cancel)
    }

    fn without(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        repair: Whole<'_>,
        declined: &[&Problem],
        watch: (&Progress, &AtomicBool),
    ) -> Result<Option<Rest>, Refused> {
        fsmend_engine::repair::without(&CHECKER, device, options, repair, declined, watch)
    }

    fn files(&self, device: &Arc<dyn Device>, repair: &mut Repair, check: &CheckOptions) -> Vec<FileChange> {
        CHECKER.files(device, repair, check)
    }

    fn layout(&self, device: &Arc<dyn Device>, check: &CheckOptions, with_free: bool) -> Option<Layout> {
        fsmend_ufs_check::layout::layout(&**device, check, with_free)
    }

    fn shapes(&self, device: &Arc<dyn Device>, check: &CheckOptions) -> Option<FileShapes> {
        CHECKER.shapes(&**device, check)
    }

    fn marker(&self, device: &dyn Device, changes: &[Change]) -> Vec<Change> {
        // While a repair is written the superblock says that the file system is not clean.
        let Some((place, mut superblock)) = primary(device) else { return Vec::new() };
        let is_rewritten = changes.iter().any(|(at, bytes)| (*at..*at + bytes.len() as u64).contains(&place));
        superblock.set_clean(0);
        superblock.seal();
        if is_rewritten { vec![(place, superblock.covered().to_vec())] } else { Vec::new() }
    }

    fn last(&self, changes: &[Change]) -> Vec<(u64, u64)> {
        let superblock = |(at, bytes): &Change| {
            let mut placed = Superblock::parse(bytes)?;
            placed.modernise();
            (placed.sblockactualloc() == *at as i64 || opening::is_primary_place(*at))
                .then_some((*at, bytes.len() as u64))
        };
        changes.iter().filter_map(superblock).collect()
    }

    fn recovering(&self) -> &'static [&'static Row] {
        &RECOVERING
    }
}

/// Whether the sizes in `superblock` can be ones, so that the magic is hardly chance.
fn is_plausible(superblock: &Superblock) -> bool {
    superblock.bsize() >= 4096 && superblock.fsize() >= 512 && superblock.fsize() <= superblock.bsize()
}

/// The primary superblock and where it is, if it bears the magic.
fn primary(device: &dyn Device) -> Option<(u64, Superblock)> {
    fsmend_ufs_format::superblock::SEARCH.into_iter().find_map(|place| {
        let mut bytes = vec![0; SUPERBLOCK_MAX];
        device.read_at(place, &mut bytes).ok()?;
        Some((place, Superblock::parse(&bytes)?))
    })
}
