// SPDX-License-Identifier: MIT OR Apache-2.0
//! hybridfs: a pinned state stays whole on the device while the file system goes on, as long as that does not cost too much.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, WritableDevice, WritableMemory};
use fsmend_engine::Progress;
use fsmend_engine::checker::Checker;
use fsmend_hybridfs_check::view::of_pinned;
use fsmend_hybridfs_driver::mkfs::{Options, mkfs};
use fsmend_hybridfs_driver::{Hybrid, MountOptions, PIN_ATTRIBUTE};
use fsmend_testkit::driver::NOW;
use fsmend_testkit::driver::history::view_of;
use fsmend_testkit::driver::workload::Workload;
use fsmend_testkit::within::{Manner, options};
use fsmend_vfs::{AttributeWrite, Errno, FileSystem, Permissions, Time};

const OF: Permissions = Permissions { mode: 0o644, uid: 0, gid: 0 };

fn now() -> Time {
    Time::at(NOW)
}

fn made(log: u64, bytes: usize) -> (Arc<WritableMemory>, Hybrid) {
    let options = Options {
        fragment_size: 1024,
        block_size: 4096,
        log_bytes: Some(log),
        ..Options::new([7; 16], now())
    };
    let device = Arc::new(WritableMemory::new("image", vec![0xA5; bytes]));
    mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, &options).unwrap();
    let fs = Hybrid::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, MountOptions::new(now())).unwrap();
    (device, fs)
}

fn pin(fs: &mut Hybrid) -> (u64, u64) {
    let root = fs.root();
    fs.setxattr(root, PIN_ATTRIBUTE, b"", AttributeWrite::Any, now()).unwrap();
    place(fs).unwrap()
}

fn place(fs: &mut Hybrid) -> Option<(u64, u64)> {
    let root = fs.root();
    match fs.getxattr(root, PIN_ATTRIBUTE) {
        Err(Errno::NoAttribute) => None,
        value => {
            let value = String::from_utf8(value.unwrap()).unwrap();
            let (ssn, summary) = value.split_once(' ').unwrap();
            Some((ssn.parse().unwrap(), summary.parse().unwrap()))
        }
    }
}

/// The pinned state, mounted for reading, when the checker has found nothing in it.
fn pinned(device: &Arc<WritableMemory>, place: (u64, u64)) -> Hybrid {
    let below = Arc::clone(device) as Arc<dyn Device>;
    let view: Arc<dyn Device> = Arc::new(of_pinned(below, place).unwrap());
    let report = Checker(fsmend_hybridfs_check::Hybrid)
        .check(
            &view,
            &options(Manner { threads: 2, ..Manner::default() }),
            &Progress::new(),
            &AtomicBool::new(false),
        )
        .unwrap();
    let told: Vec<String> = report
        .findings
        .iter()
        .map(|problem| format!("{}: {}", problem.row.code, problem.message()))
        .collect();
    assert!(told.is_empty(), "{told:#?}");
    let mut bytes = vec![0; view.len() as usize];
    view.read_at(0, &mut bytes).unwrap();
    let copy = Arc::new(WritableMemory::new("copy", bytes));
    Hybrid::mount(copy as Arc<dyn WritableDevice>, MountOptions::read_only(now())).unwrap()
}

#[test]
fn a_pinned_state_is_whole_whatever_happens_afterwards() {
    for seed in 0..4 {
        let (device, mut fs) = made(16 << 20, 40 << 20);
        let (expected, place_then) = {
            let mut work = Workload::new(&mut fs, seed, false).unwrap();
            for _ in 0..300 {
                work.step().unwrap();
            }
            work.release_all().unwrap();
            let place = pin(&mut fs);
            (view_of(&mut fs).unwrap(), place)
        };
        let root = fs.root();
        let mut checks = 0;
        for round in 0..6_u32 {
            for number in 0..40_u32 {
                let name = format!("beside-{round}-{number}");
                let file = fs.create(root, name.as_bytes(), OF, now()).unwrap().inode;
                fs.write(file, 0, &vec![round as u8; 300 + number as usize * 200], now()).unwrap();
                if number % 3 == 0 {
                    fs.unlink(root, name.as_bytes(), now()).unwrap();
                }
                if number % 5 == 0 {
                    fs.sync(now()).unwrap();
                }
            }
            if place(&mut fs) == Some(place_then) {
                checks += 1;
                let mut then = pinned(&device, place_then);
                let seen = view_of(&mut then).unwrap();
                assert!(seen.keys().eq(expected.keys()), "seed {seed}, round {round}");
            }
        }
        assert!(checks >= 3, "seed {seed}: it was let go after {checks} rounds");
        fs.removexattr(root, PIN_ATTRIBUTE, now()).unwrap_or(());
        assert_eq!(place(&mut fs), None);
        assert!(!fs.listxattr(root).unwrap().iter().any(|name| name == PIN_ATTRIBUTE));
        fs.sync(now()).unwrap();
        assert_eq!(fs.audit().unwrap(), Vec::<String>::new());
        fs.unmount(now()).unwrap();
    }
}

/// A new checkpoint is pinned each time, and a forgotten one does not fill the disk.
#[test]
fn a_pin_that_costs_too_much_is_let_go() {
    let (_, mut fs) = made(2 << 20, 8 << 20);
    let root = fs.root();
    let first = pin(&mut fs);
    assert!(pin(&mut fs).0 > first.0);
    let file = fs.create(root, b"file", OF, now()).unwrap().inode;
    let mut rounds = 0;
    while place(&mut fs).is_some() {
        fs.write(file, 0, &[rounds as u8; 3_000], now()).unwrap();
        fs.sync(now()).unwrap();
        rounds += 1;
        assert!(rounds < 10_000, "it holds back everything");
    }
    assert!(rounds > 10, "let go after {rounds} small changes");
    // It would be full if anything were still held back.
    for _ in 0..2_000 {
        fs.write(file, 0, &[7; 3_000], now()).unwrap();
        fs.sync(now()).unwrap();
    }
    assert_eq!(fs.removexattr(root, PIN_ATTRIBUTE, now()), Err(Errno::NoAttribute));
    assert_eq!(fs.audit().unwrap(), Vec::<String>::new());
}

/// As much room as without it: the last bytes are worth more than a view. The checkpoint of a pin moves where segments end, and each begins with a new block of the
/// log; so the files of one block may fit in addition, or not.
#[test]
fn a_pin_gives_way_before_space_runs_out() {
    let full = |is_pinned: bool| {
        let (_, mut fs) = made(2 << 20, 8 << 20);
        let root = fs.root();
        if is_pinned {
            pin(&mut fs);
        }
        let mut files = 0_u32;
        while let Ok(file) = fs.create(root, format!("{files}").as_bytes(), OF, now()) {
            if fs.write(file.inode, 0, &[1; 2_000], now()).is_err() {
                break;
            }
            files += 1;
        }
        assert_eq!(place(&mut fs), None, "ENOSPC while a view holds room back");
        for number in 0..files {
            fs.unlink(root, format!("{number}").as_bytes(), now()).unwrap();
        }
        fs.sync(now()).unwrap();
        assert_eq!(fs.audit().unwrap(), Vec::<String>::new());
        files
    };
    let (with, without) = (full(true), full(false));
    let files_of_a_block = 4096 / 2_048;
    assert!(with.abs_diff(without) <= files_of_a_block, "{with} files with it, {without} without");
}
