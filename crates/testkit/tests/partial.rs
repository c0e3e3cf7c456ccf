// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repairs of which the user declines a part, while a transaction waits in the journal: what it brings is not to be lost.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_base::InodeNo;
use fsmend_device::{Device, MemoryDevice};
use fsmend_engine::repair::Whole;
use fsmend_engine::{Problem, Progress};
use fsmend_ext_check::repair::{self, RepairOptions, RepairPolicy};
use fsmend_ext_check::run::CheckOptions;
use fsmend_testkit::host::{find_program, run, skip};
use fsmend_testkit::target_folder;
use fsmend_testkit::within::{Manner, options};

const BLOCK: usize = 1024;
/// The time that the transaction gives inode 12.
const TIME: u32 = 1_700_000_123;

/// An image in which inode 13 stores a wrong link count, and a transaction waits that gives inode 12 another one, and another time;
/// with the place of the record of inode 12.
fn image(label: &str) -> Option<(Vec<u8>, usize)> {
    if find_program("mke2fs").is_none() || find_program("debugfs").is_none() {
        skip("repairs in part", "needs mke2fs and debugfs");
        return None;
    }
    let folder = target_folder().join(format!("partial-{label}"));
    fs::create_dir_all(&folder).unwrap();
    let [image, block, script] = ["image", "block", "script"].map(|name| folder.join(name));
    let _ = fs::remove_file(&image);
    File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let features = "-q -F -t ext4 -b 1024 -I 256 -N 64 -O ^metadata_csum,^resize_inode -J size=1";
    run("mke2fs", features.split(' ').map(std::ffi::OsStr::new).chain([image.as_os_str()])).unwrap();
    let debugfs = |commands: &str| {
        fs::write(&script, commands).unwrap();
        run("debugfs", ["-w".as_ref(), "-f".as_ref(), script.as_os_str(), image.as_os_str()]).unwrap();
    };
    fs::write(&block, b"hello").unwrap();
    let file = block.display();
    debugfs(&format!("write {file} one\nwrite {file} other\nsif <13> links_count 7\n"));
    let bytes = fs::read(&image).unwrap();
    let table = u32::from_le_bytes(bytes[2 * BLOCK + 8..2 * BLOCK + 12].try_into().unwrap()) as usize;
    let place = table * BLOCK + 11 * 256;
    let number = place / BLOCK;
    let mut journaled = bytes[number * BLOCK..(number + 1) * BLOCK].to_vec();
    journaled[place % BLOCK + 16..place % BLOCK + 20].copy_from_slice(&TIME.to_le_bytes());
    journaled[place % BLOCK + 26] = 5;
    fs::write(&block, journaled).unwrap();
    debugfs(&format!("jo\njw -b {number} {file}\njc\n"));
    Some((fs::read(&image).unwrap(), place))
}

#[test]
fn what_the_journal_brings_to_a_declined_record_is_written() {
    let Some((bytes, place)) = image("declined") else { return };
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("partial", bytes.clone()));
    let options = RepairOptions { check: options(Manner::default()), policy: RepairPolicy::default() };
    let (progress, cancel) = (Progress::new(), AtomicBool::new(false));
    let plan = repair::plan(&device, &options, &progress, &cancel).unwrap();
    let found: Vec<&Problem> = plan.found.findings.iter().collect();
    let declined: Vec<&Problem> =
        found.iter().copied().filter(|problem| problem.object.inode == Some(InodeNo(12))).collect();
    assert!(!declined.is_empty() && declined.len() < found.len(), "inode 12 is one of several");
    let asked = Whole { writes: plan.writes(), mends: &plan.mends, found: &found };
    let rest = repair::without(&device, &options, asked, &declined, (&progress, &cancel)).unwrap().unwrap();
    let mut mended = bytes;
    for (offset, change) in &rest.changes {
        mended[*offset as usize..*offset as usize + change.len()].copy_from_slice(change);
    }
    let one = &mended[place..place + 256];
    assert_eq!(one[16..20], TIME.to_le_bytes(), "the time is that of the transaction");
    assert_eq!(one[26], 5, "and so is the count, which was to be left alone");
    assert_eq!(mended[place + 256 + 26], 1, "the other inode is mended");
}

#[test]
fn a_repair_that_ignores_a_waiting_journal_is_refused() {
    let Some((bytes, _)) = image("refused") else { return };
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("unreplayed", bytes));
    let check = CheckOptions { replay: false, ..options(Manner::default()) };
    let options = RepairOptions { check, policy: RepairPolicy::default() };
    let refused = repair::plan(&device, &options, &Progress::new(), &AtomicBool::new(false)).unwrap_err();
    assert!(refused.refusal.message.contains("journal"), "{}", refused.refusal.message);
    assert!(!refused.refusal.hint.is_empty());
}

#[test]
fn totals_that_are_declined_stay_and_inodes_are_mended() {
    if find_program("mke2fs").is_none() || find_program("debugfs").is_none() {
        return skip("repairs without totals", "needs mke2fs and debugfs");
    }
    let folder = target_folder().join("partial-totals");
    fs::create_dir_all(&folder).unwrap();
    let [image, contents, script] = ["image", "contents", "script"].map(|name| folder.join(name));
    let _ = fs::remove_file(&image);
    File::create(&image).unwrap().set_len(4 << 20).unwrap();
    let features = "-q -F -t ext4 -b 1024 -I 256 -N 64 -O ^metadata_csum,^resize_inode,^has_journal";
    run("mke2fs", features.split(' ').map(std::ffi::OsStr::new).chain([image.as_os_str()])).unwrap();
    fs::write(&contents, b"hello").unwrap();
    let commands =
        format!("write {} one\nsif <12> links_count 7\nssv free_blocks_count 77\n", contents.display());
    fs::write(&script, commands).unwrap();
    run("debugfs", ["-w".as_ref(), "-f".as_ref(), script.as_os_str(), image.as_os_str()]).unwrap();
    let bytes = fs::read(&image).unwrap();
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("totals", bytes.clone()));
    let options = RepairOptions { check: options(Manner::default()), policy: RepairPolicy::default() };
    let watch = (&Progress::new(), &AtomicBool::new(false));
    let plan = repair::plan(&device, &options, watch.0, watch.1).unwrap();
    let found: Vec<&Problem> = plan.found.findings.iter().collect();
    let declined: Vec<&Problem> =
        found.iter().copied().filter(|problem| problem.object.inode.is_none()).collect();
    assert!(!declined.is_empty() && declined.len() < found.len(), "{found:?}");
    let whole = Whole { writes: plan.writes(), mends: &plan.mends, found: &found };
    let rest = repair::without(&device, &options, whole, &declined, watch).unwrap().unwrap();
    let mut mended = bytes;
    for (offset, change) in &rest.changes {
        mended[*offset as usize..*offset as usize + change.len()].copy_from_slice(change);
    }
    assert_eq!(mended[BLOCK + 12..BLOCK + 16], 77_u32.to_le_bytes(), "the total is as it was");
    let table = u32::from_le_bytes(mended[2 * BLOCK + 8..2 * BLOCK + 12].try_into().unwrap()) as usize;
    assert_eq!(mended[table * BLOCK + 11 * 256 + 26], 1, "the link count is mended");
}
