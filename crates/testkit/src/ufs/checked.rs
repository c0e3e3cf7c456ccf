// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks and repairs of images in memory, for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use fsmend_device::{Device, MemoryDevice};
use fsmend_engine::Progress;
use fsmend_engine::checker::Checker;
use fsmend_engine::options::{RepairOptions, RepairPolicy};
use fsmend_engine::report::{CheckReport, Repair};
use fsmend_ufs_check::Ufs;

use super::{Image, Make};
use crate::host::skip;
use crate::within::{Manner, options};

/// The image of a kind, or a word that the test is skipped.
pub fn image(make: Make, test: &str) -> Option<Image> {
    let image = Image::of(make);
    if image.is_none() {
        skip(test, "makefs is missing (Debian package makefs)");
    }
    image
}

/// Manner of a run with so many threads.
pub fn manner(threads: usize) -> Manner {
    Manner { threads, ..Manner::default() }
}

/// These bytes as a device.
pub fn memory(bytes: &[u8]) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new("ufs", bytes.to_vec()))
}

/// A folder for the files of a test; it is gone when this is dropped.
pub struct Folder(PathBuf);

impl std::ops::Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A new folder for the files of a test.
pub fn folder(test: &str) -> Folder {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let folder = std::env::temp_dir().join(format!("fsmend-ufs-{test}-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
    Folder(folder)
}

/// The report of a check.
pub fn check(bytes: &[u8], threads: usize) -> CheckReport {
    let checked = Checker(Ufs).check(
        &memory(bytes),
        &options(manner(threads)),
        &Progress::new(),
        &AtomicBool::new(false),
    );
    checked.unwrap_or_else(|refused| panic!("{}", refused.refusal))
}

/// The repair of what is on a device, or why there is none.
pub fn plan_of(device: &Arc<dyn Device>, manner: Manner) -> Result<Repair, String> {
    let options = RepairOptions { check: options(manner), policy: RepairPolicy::default() };
    let planned = Checker(Ufs).plan(device, &options, &Progress::new(), &AtomicBool::new(false));
    planned.map_err(|refused| refused.refusal.to_string())
}

/// The repair of an image.
pub fn plan(bytes: &[u8], threads: usize) -> Repair {
    plan_of(&memory(bytes), manner(threads)).unwrap_or_else(|why| panic!("{why}"))
}

/// The image with changes written.
pub fn with(bytes: &[u8], changes: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, change) in changes {
        bytes[*at as usize..][..change.len()].copy_from_slice(change);
    }
    bytes
}

/// Codes of what was found.
pub fn codes(report: &CheckReport) -> Vec<&'static str> {
    report.findings.counts().into_keys().collect()
}

/// The repaired image; fails where the repair is not complete, or the check afterwards not silent.
pub fn repaired(bytes: &[u8], what: &str) -> Image {
    let repair = plan(bytes, 2);
    assert!(repair.is_clean(), "{what}: {:?}", codes(&repair.left));
    let after = with(bytes, &repair.changes);
    assert_eq!(codes(&check(&after, 1)), [""; 0], "{what}");
    Image::open(after).unwrap_or_else(|| panic!("{what}: the superblock is lost"))
}
