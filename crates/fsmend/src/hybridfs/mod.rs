// SPDX-License-Identifier: MIT OR Apache-2.0
//! hybridfs.

mod driving;
mod pins;

use std::path::Path;
use std::sync::Arc;

use fsmend_device::{Device, FileDevice, Joined, Trace};
use fsmend_engine::checker::Checker;
use fsmend_engine::detail::Detail;
use fsmend_engine::layout::Layout;
use fsmend_engine::options::CheckOptions;
use fsmend_engine::{Refusal, Row};
use fsmend_hybridfs_check::{rows, superblock};
use fsmend_hybridfs_format::{SUPERBLOCK_OFFSET, Superblock};
use fsmend_session::live::Pins;
use fsmend_session::{Change, Driver, JournalPlace, Plain};

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
        let Ok((place, _)) = superblock::find_usual(device) else {
            return superblock::of_log(device).map(|_| Trace::Superblock);
        };
        Some(if place == SUPERBLOCK_OFFSET { Trace::Superblock } else { Trace::Copy })
    }

    fn is_hidden_on(device: &dyn Device) -> bool {
        superblock::find(device).is_ok()
    }

    fn rows() -> Vec<&'static Row> {
        rows::ROWS.to_vec()
    }

    fn describe(device: &dyn Device) -> Option<Result<Vec<(&'static str, Detail)>, Refusal>> {
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

    fn is_divided(device: &dyn Device) -> bool {
        superblock::find(device).is_ok_and(|(_, sb)| sb.log_device().is_some())
    }

    fn whole(device: &Arc<dyn Device>, log: &Arc<dyn Device>) -> Result<Arc<dyn Device>, Refusal> {
        let place = place_of_log(&**device, &**log).map_err(|message| Refusal {
            code: "wrong-log",
            message,
            hint: "Give the right one with -j".to_owned(),
        })?;
        let joined = Joined::new(Arc::clone(device), Arc::clone(log), place).ok_or_else(|| Refusal {
            code: "wrong-log",
            message: "The device of the log is too short".to_owned(),
            hint: "Give the right one with -j".to_owned(),
        })?;
        Ok(Arc::new(joined))
    }

    fn external_journal(device: &dyn Device) -> Option<Box<dyn JournalPlace>> {
        let (_, superblock) = superblock::find(device).ok()?;
        superblock.log_device()?;
        Some(Box::new(LogPlace(superblock)))
    }
}

/// The log of the file system with this superblock, on a device of its own.
struct LogPlace(Superblock);

impl JournalPlace for LogPlace {
    fn number(&self) -> u32 {
        0
    }

    fn is(&self, path: &Path) -> bool {
        let found = FileDevice::open(path).ok().and_then(|device| superblock::of_log(&device));
        found.is_some_and(|found| superblock::are_of_one(&found, &self.0))
    }
}

/// Where the device of a log belongs among the bytes of a file system: the first, and how many. Refuses a log that says that it is that of another one.
pub(crate) fn place_of_log(device: &dyn Device, log: &dyn Device) -> Result<(u64, u64), String> {
    let (_, superblock) = superblock::find(device)?;
    let place = superblock.log_device().ok_or("its log is on no other device")?;
    match superblock::of_log(log) {
        Some(found) if !superblock::are_of_one(&found, &superblock) => Err(format!(
            "The device of the log belongs to another file system ({})",
            superblock::name(&found)
        )),
        // What is damaged is said by the check.
        _ => Ok(place),
    }
}
