// SPDX-License-Identifier: MIT OR Apache-2.0
//! hybridfs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, Joined, Trace};
use fsmend_engine::checker::Checker;
use fsmend_engine::layout::Layout;
use fsmend_engine::options::{CheckOptions, RepairOptions};
use fsmend_engine::repair::{Rest, Whole};
use fsmend_engine::report::{CheckReport, Repair};
use fsmend_engine::shapes::FileShapes;
use fsmend_engine::{Estimate, FileChange, Findings, Problem, Progress, Refusal, Refused, Row, Value};
use fsmend_hybridfs_check::{rows, superblock};
use fsmend_hybridfs_format::SUPERBLOCK_OFFSET;
use fsmend_session::{Change, Family};

/// Problems whose repair gives a name in `lost+found`.
const RECOVERING: [&Row; 3] = [&rows::UNATTACHED, &rows::UNCONNECTED, &rows::LOOPED];

/// The family.
pub struct Hybrid;

/// The file system with its log, where that is on another device which was given.
fn whole(device: &Arc<dyn Device>, log: Option<&Arc<dyn Device>>) -> Result<Arc<dyn Device>, Refusal> {
    let place = superblock::find(&**device).ok().and_then(|(_, sb)| sb.log_device());
    let (Some(place), Some(log)) = (place, log) else { return Ok(Arc::clone(device)) };
    let joined = Joined::new(Arc::clone(device), Arc::clone(log), place).ok_or_else(|| Refusal {
        code: "wrong-log",
        message: "The device of the log is too short".to_owned(),
        hint: "Give the right one with -j".to_owned(),
    })?;
    Ok(Arc::new(joined))
}

fn refused(refusal: Refusal) -> Refused {
    Refused { refusal, findings: Box::new(Findings::new()) }
}

const CHECKER: Checker<fsmend_hybridfs_check::Hybrid> = Checker(fsmend_hybridfs_check::Hybrid);

impl Family for Hybrid {
    fn name(&self) -> &'static str {
        "hybridfs"
    }

    fn title(&self) -> &'static str {
        "a hybridfs file system"
    }

    fn trace(&self, device: &dyn Device) -> Option<Trace> {
        let (place, _) = superblock::find(device).ok()?;
        Some(if place == SUPERBLOCK_OFFSET { Trace::Superblock } else { Trace::Copy })
    }

    fn describe(&self, device: &dyn Device) -> Option<Result<Vec<(&'static str, Value)>, Refusal>> {
        Some(fsmend_hybridfs_check::describe::describe(device))
    }

    fn catalogue(&self) -> Vec<&'static Row> {
        let mut rows = rows::ROWS.to_vec();
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
        let whole = whole(device, options.external_journal.as_ref()).map_err(refused)?;
        CHECKER.check(&whole, options, progress, cancel)
    }

    fn estimate(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        cancel: &AtomicBool,
    ) -> Result<Estimate, Refusal> {
        CHECKER.estimate(&whole(device, options.external_journal.as_ref())?, options, cancel)
    }

    fn plan(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        progress: &Progress,
        cancel: &AtomicBool,
    ) -> Result<Repair, Refused> {
        let has_log = options.check.external_journal.is_some();
        if has_log && superblock::find(&**device).is_ok_and(|(_, sb)| sb.log_device().is_some()) {
            // A plan is carried out on one device.
            return Err(refused(Refusal {
                code: "log-elsewhere",
                message: "A file system whose log is on another device can be checked, but not repaired"
                    .to_owned(),
                hint: "Save what can be read (fsmend mount -o ro,log=PATH), and make it anew".to_owned(),
            }));
        }
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
        let whole = whole(device, check.external_journal.as_ref()).ok()?;
        fsmend_hybridfs_check::layout::layout(&*whole, with_free)
    }

    fn shapes(&self, device: &Arc<dyn Device>, check: &CheckOptions) -> Option<FileShapes> {
        CHECKER.shapes(&*whole(device, check.external_journal.as_ref()).ok()?, check)
    }

    // No mark is needed: until the anchors are written, the file system is as it was.
    fn last(&self, changes: &[Change]) -> Vec<(u64, u64)> {
        let is_anchor = |bytes: &[u8]| bytes.starts_with(b"hybanchr");
        let anchors = changes.iter().filter(|(_, bytes)| is_anchor(bytes));
        anchors.map(|(at, bytes)| (*at, bytes.len() as u64)).collect()
    }

    fn recovering(&self) -> &'static [&'static Row] {
        &RECOVERING
    }
}
