// SPDX-License-Identifier: MIT OR Apache-2.0
//! hybridfs.

mod driving;
mod pins;

use std::sync::Arc;

use fsmend_device::{Device, Joined, Trace};
use fsmend_engine::checker::Checker;
use fsmend_engine::layout::Layout;
use fsmend_engine::options::CheckOptions;
use fsmend_engine::{Refusal, Row, Value};
use fsmend_hybridfs_check::{rows, superblock};
use fsmend_hybridfs_format::SUPERBLOCK_OFFSET;
use fsmend_session::live::Pins;
use fsmend_session::{Change, Driver, Plain};

/// The family.
pub struct Hybrid;

impl Plain for Hybrid {
    type Format = fsmend_hybridfs_check::Hybrid;

    const CHECKER: Checker<Self::Format> = Checker(fsmend_hybridfs_check::Hybrid);
    const NAME: &'static str = "hybridfs";
    const TITLE: &'static str = "a hybridfs file system";
    const RECOVERING: &'static [&'static Row] = &[&rows::UNATTACHED, &rows::UNCONNECTED, &rows::LOOPED];

    const DRIVER: Option<&'static dyn Driver> = Some(&driving::HybridDriver);
    const PINS: Option<&'static dyn Pins> = Some(&pins::HybridPins);

    fn trace(device: &dyn Device) -> Option<Trace> {
        let (place, _) = superblock::find(device).ok()?;
        Some(if place == SUPERBLOCK_OFFSET { Trace::Superblock } else { Trace::Copy })
    }

    fn rows() -> Vec<&'static Row> {
        rows::ROWS.to_vec()
    }

    fn describe(device: &dyn Device) -> Option<Result<Vec<(&'static str, Value)>, Refusal>> {
        Some(fsmend_hybridfs_check::describe::describe(device))
    }

    fn layout(device: &dyn Device, _check: &CheckOptions, with_free: bool) -> Option<Layout> {
        fsmend_hybridfs_check::layout::layout(device, with_free)
    }

    // No mark is needed: until the anchors are written, the file system is as it was.
    fn last(changes: &[Change]) -> Vec<(u64, u64)> {
        let is_anchor = |bytes: &[u8]| bytes.starts_with(b"hybanchr");
        let anchors = changes.iter().filter(|(_, bytes)| is_anchor(bytes));
        anchors.map(|(at, bytes)| (*at, bytes.len() as u64)).collect()
    }

    /// With its log, where that is on another device which was given.
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

    /// A plan is carried out on one device.
    fn check_repairable(device: &dyn Device, options: &CheckOptions) -> Result<(), Refusal> {
        let has_log = options.external_journal.is_some();
        if has_log && superblock::find(device).is_ok_and(|(_, sb)| sb.log_device().is_some()) {
            return Err(Refusal {
                code: "log-elsewhere",
                message: "A file system whose log is on another device can be checked, but not repaired"
                    .to_owned(),
                hint: "Save what can be read (fsmend mount -o ro,log=PATH), and create the file system again"
                    .to_owned(),
            });
        }
        Ok(())
    }
}
