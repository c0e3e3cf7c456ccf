// SPDX-License-Identifier: MIT OR Apache-2.0
//! hybridfs: the conformance suite, random work against a model, full devices, remounting, and power cuts at every request.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, WritableDevice, WritableMemory};
use fsmend_disksim::{Machine, RequestKind, SimDisk};
use fsmend_engine::Progress;
use fsmend_engine::checker::Checker;
use fsmend_hybridfs_driver::mkfs::{Options, mkfs};
use fsmend_hybridfs_driver::{Hybrid, LINKS_MAX, MountOptions, SIZE_MAX};
use fsmend_testkit::conformance::files::{Driven, work};
use fsmend_testkit::conformance::{Abilities, Bench, Oddities, Room, run};
use fsmend_testkit::driver::NOW;
use fsmend_testkit::driver::history::{History, view_of};
use fsmend_testkit::driver::snapshot::of_driver;
use fsmend_testkit::driver::workload::{View, Workload};
use fsmend_testkit::within::{Manner, options};
use fsmend_vfs::{Errno, FileKind, FileSystem, InodeNo, Permissions, Time};

fn count(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn ours() -> Options {
    Options { log_bytes: Some(8 << 20), ..Options::new(*b"0123456789abcdef", Time::at(NOW)) }
}

fn papers() -> Options {
    Options { log_bytes: Some(8 << 20), ..Options::paper(*b"0123456789abcdef", Time::at(NOW)) }
}

/// Many blocks in little room.
fn small() -> Options {
    Options { fragment_size: 1024, block_size: 4096, log_bytes: Some(4 << 20), ..ours() }
}

/// What stands on a device before mkfs.
const STALE: u8 = 0xA5;

fn made(options: &Options, bytes: usize) -> Arc<WritableMemory> {
    let device = Arc::new(WritableMemory::new("image", vec![STALE; bytes]));
    mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, options).unwrap();
    device
}

fn mounted(device: &Arc<impl WritableDevice + 'static>) -> Hybrid {
    Hybrid::mount(Arc::clone(device) as Arc<dyn WritableDevice>, MountOptions::new(Time::at(NOW))).unwrap()
}

/// Unmounts, mounts again and looks at everything.
fn judge(fs: &mut dyn FileSystem, device: &Arc<WritableMemory>, now: Time) -> Result<(), String> {
    fs.unmount(now).map_err(|error| format!("unmount: {error} ({:?})", fs.trouble()))?;
    sound(device, now)
}

/// What the checker finds; notes only, unless nothing at all may be found.
fn checked(device: &Arc<impl WritableDevice + 'static>, may_note: bool) -> Result<(), String> {
    let device = Arc::clone(device) as Arc<dyn Device>;
    let options = options(Manner { threads: 2, ..Manner::default() });
    let report = Checker(fsmend_hybridfs_check::Hybrid)
        .check(&device, &options, &Progress::new(), &AtomicBool::new(false))
        .map_err(|refused| refused.to_string())?;
    if report.findings.is_empty() || may_note && !report.findings.is_damaged() {
        return Ok(());
    }
    let told = report.findings.iter().map(|problem| format!("{}: {}", problem.row.code, problem.message()));
    Err(format!("the checker finds {:#?}", told.collect::<Vec<_>>()))
}

fn sound(device: &Arc<impl WritableDevice + 'static>, now: Time) -> Result<(), String> {
    checked(device, false)?;
    let device = Arc::clone(device) as Arc<dyn WritableDevice>;
    let mut fs = Hybrid::mount(device, MountOptions::new(now)).map_err(|error| error.to_string())?;
    let wrong = fs.audit().map_err(|error| format!("{error}: {:?}", fs.trouble()))?;
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn conforms(options: &Options) {
    let last = std::cell::RefCell::new(None);
    let fresh = |room: Room| {
        let (bytes, inodes, log) = match room {
            Room::Small => (16 << 20, 1 << 10, 8 << 20),
            Room::Plenty => (48 << 20, 8 << 10, 24 << 20),
            // Inodes of 512 bytes, and as much again for what a large operation makes of them.
            Room::Crowd => (224 << 20, 80_000, 160 << 20),
        };
        let options = Options { inodes: Some(inodes), log_bytes: Some(log), ..options.clone() };
        let device = made(&options, bytes);
        let fs = mounted(&device);
        *last.borrow_mut() = Some(device);
        let can = Abilities {
            nanoseconds: true,
            crtime: true,
            file_links_max: LINKS_MAX,
            dir_links_max: Some(LINKS_MAX),
            size_max: SIZE_MAX,
            unwritten: false,
            unit_blocks: u64::from(options.block_size / 4096),
            dir_blocks: 0,
            value_min: 3900,
            odd: Oddities::default(),
        };
        Some(Bench::new(Box::new(fs), can))
    };
    let failed = run(fresh, |mut bench| {
        let now = bench.tick();
        let device = last.borrow_mut().take().ok_or("no image")?;
        judge(&mut *bench.fs, &device, now)
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn hybridfs_does_what_every_file_system_has_to() {
    conforms(&ours());
}

#[test]
fn hybridfs_with_the_sizes_of_the_paper_does_what_every_file_system_has_to() {
    conforms(&papers());
}

#[test]
fn hybridfs_with_small_blocks_does_what_every_file_system_has_to() {
    conforms(&small());
}

#[test]
fn hybridfs_keeps_what_is_written_to_it() {
    for options in [ours(), papers(), small()] {
        for seed in 0..count("FSMEND_FILE_SEEDS", 4) {
            let device = made(&options, 24 << 20);
            let mut fs = mounted(&device);
            let (root, of) = (fs.root(), Permissions { mode: 0o644, uid: 0, gid: 0 });
            let inode = fs.create(root, b"file", of, Time::at(NOW)).unwrap().inode;
            let mut subject = Driven { fs: &mut fs, inode, now: Time::at(NOW) };
            work(&mut subject, seed, 1_500, 1 << 20).unwrap();
            judge(&mut fs, &device, Time::at(NOW)).unwrap();
        }
    }
}

#[test]
fn random_work_leaves_what_a_model_has_also_after_remounting() {
    for options in [ours(), papers(), small()] {
        for seed in 0..count("FSMEND_DRIVER_SEEDS", 4) {
            let device = made(&options, 40 << 20);
            let mut fs = mounted(&device);
            let mut work = Workload::new(&mut fs, seed, false).unwrap();
            for _ in 0..1_500 {
                work.step().unwrap();
            }
            work.release_all().unwrap();
            let (expected, now) = (work.view(), Time::at(work.clock));
            assert!(work.view() == view_of(&mut fs).unwrap());
            let before = of_driver(&mut fs).unwrap();
            judge(&mut fs, &device, now).unwrap();
            let image = device.bytes();
            let mut fs =
                Hybrid::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, MountOptions::read_only(now))
                    .unwrap();
            assert!(view_of(&mut fs).unwrap() == expected, "seed {seed}");
            let after = of_driver(&mut fs).unwrap();
            let difference = fsmend_testkit::driver::snapshot::difference(&before, &after);
            assert_eq!(difference, None, "seed {seed}");
            fs.unmount(now).unwrap();
            assert!(device.bytes() == image, "mounted for reading only, and written");
        }
    }
}

fn worked(disk: &Arc<SimDisk>, seed: u64, steps: u64) -> History {
    let mut history = History::new();
    let device = Arc::clone(disk) as Arc<dyn WritableDevice>;
    let Ok(mut fs) = Hybrid::mount(device, MountOptions::new(Time::at(NOW))) else { return history };
    history.work(&mut fs, seed, steps, false);
    history
}

/// The mount alone makes it sound, what was synchronised is there, and what is there was there at some moment.
fn judge_cut(disk: &Arc<SimDisk>, history: &History) -> Result<(), String> {
    let now = Time::at(history.clock);
    // What the crash has left needs no repair.
    checked(disk, true)?;
    let device = Arc::clone(disk) as Arc<dyn WritableDevice>;
    let mut fs = Hybrid::mount(device, MountOptions::new(now)).map_err(|error| error.to_string())?;
    let view = history.compare(&mut fs)?;
    no_foreign_data(&mut fs, &view)?;
    fs.sync(now).map_err(|error| error.to_string())?;
    let wrong = fs.audit().map_err(|error| format!("{error} ({:?})", fs.trouble()))?;
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    // Nor does what is in use.
    checked(disk, true)?;
    fs.unmount(now).map_err(|error| error.to_string())?;
    sound(disk, now)
}

/// Nothing that stood on the device before mkfs shows in a file. What is written there has no sixteen equal bytes in a row, but zeroes.
fn no_foreign_data(fs: &mut Hybrid, view: &View) -> Result<(), String> {
    for (path, (inode, kind, ..)) in view {
        if *kind != FileKind::Regular {
            continue;
        }
        let extents = fs.extents(InodeNo(*inode), 0, 10_000).map_err(|error| error.to_string())?;
        let places =
            extents.iter().flat_map(|extent| (extent.offset..extent.offset + extent.len).step_by(512));
        for at in places {
            let mut sector = [0; 512];
            match fs.read(InodeNo(*inode), at, &mut sector) {
                Ok(_) => {}
                // A sector that was overwritten in place when the power failed cannot be read until it is written again.
                Err(Errno::Io) => continue,
                Err(error) => return Err(error.to_string()),
            }
            if sector.windows(16).any(|bytes| bytes == [STALE; 16]) {
                return Err(format!("{path:?} shows at {at} what was on the device before"));
            }
        }
    }
    Ok(())
}

fn sweep(options: &Options, seed: u64, steps: u64, every: u64, twice: bool) {
    let image = Arc::new(made(options, 12 << 20).bytes());
    let start = |seed: u64| {
        let machine = Machine::new(seed);
        let disk = Arc::new(SimDisk::new("disk", &machine, Arc::clone(&image)));
        (machine, disk)
    };
    let (machine, disk) = start(seed);
    worked(&disk, seed, steps);
    let requests = machine.changes();
    assert!(requests > 40, "only {requests} requests");
    for cut in (seed % every..requests).step_by(every as usize) {
        let (machine, disk) = start(seed ^ cut << 20);
        machine.cut_power_at(cut);
        let history = worked(&disk, seed, steps);
        // Sectors that were torn stay unreadable: they are none that recovery needs.
        machine.restart();
        if twice {
            machine.cut_power_at(cut % 5);
            let _ = Hybrid::mount(
                Arc::clone(&disk) as Arc<dyn WritableDevice>,
                MountOptions::new(Time::at(history.clock)),
            );
            machine.restart();
        }
        if let Err(why) = judge_cut(&disk, &history) {
            panic!("seed {seed}, cut at request {cut} of {requests}: {why}");
        }
    }
}

#[test]
fn no_power_cut_loses_what_was_synchronised_or_needs_more_than_a_mount() {
    let every = count("FSMEND_CRASH_EVERY", 3);
    for (seed, options) in [ours(), papers(), small()].iter().enumerate() {
        sweep(options, seed as u64, 400, every, false);
    }
}

#[test]
fn no_power_cut_during_recovery_does_either() {
    let every = count("FSMEND_CRASH_EVERY", 5);
    for (seed, options) in [ours(), small()].iter().enumerate() {
        sweep(options, 10 + seed as u64, 250, every, true);
    }
}

#[test]
fn a_full_file_system_can_always_be_emptied() {
    for options in [ours(), small()] {
        for sizes in [[300, 300], [3_000, 5_000], [1_000, 40_000], [12_000, 2_000]] {
            let device = made(&Options { inodes: Some(60_000), ..options.clone() }, 24 << 20);
            let mut fs = mounted(&device);
            let (root, of, now) = (fs.root(), Permissions { mode: 0o644, uid: 0, gid: 0 }, Time::at(NOW));
            let before = fs.statfs().unwrap();
            let mut names = Vec::new();
            // Every other file goes, so that holes are everywhere; then it is filled again.
            for round in 0..3 {
                let error = loop {
                    let name = format!("file-{round}-{}", names.len());
                    match fs.create(root, name.as_bytes(), of, now) {
                        Err(error) => break error,
                        Ok(file) => {
                            names.push(name);
                            let bytes = vec![7; sizes[names.len() % 2]];
                            match fs.write(file.inode, 0, &bytes, now) {
                                Ok(_) | Err(Errno::NoSpace) => {}
                                Err(error) => break error,
                            }
                        }
                    }
                };
                assert_eq!(error, Errno::NoSpace, "{:?}", fs.trouble());
                for at in (0..names.len()).rev().filter(|at| at % 2 == 0) {
                    let name = names.swap_remove(at);
                    fs.unlink(root, name.as_bytes(), now).unwrap();
                }
            }
            for name in names {
                fs.unlink(root, name.as_bytes(), now).unwrap();
            }
            fs.sync(now).unwrap();
            let after = fs.statfs().unwrap();
            assert_eq!((after.blocks_free, after.inodes_free), (before.blocks_free, before.inodes_free));
            judge(&mut fs, &device, now).unwrap();
        }
    }
}

/// Power cuts at random hardly ever let all of a segment reach the disk and none of the data before it; so the order itself is looked at.
#[test]
fn data_is_durable_before_the_segment_that_leads_to_it_and_a_fence_comes_first() {
    let options = ours();
    let image = Arc::new(made(&options, 24 << 20).bytes());
    let machine = Machine::new(1);
    let disk = Arc::new(SimDisk::new("disk", &machine, image));
    let fs = mounted(&disk);
    // Never unmounted: the next one has to recover.
    drop(fs);
    let mut fs = mounted(&disk);
    let (root, of, now) = (fs.root(), Permissions { mode: 0o644, uid: 0, gid: 0 }, Time::at(NOW));
    let file = fs.create(root, b"file", of, now).unwrap().inode;
    for round in 0..3_u64 {
        fs.write(file, round * 100_000, &[round as u8; 200_000], now).unwrap();
        fs.fsync(file, false, now).unwrap();
    }
    drop(fs);
    let before = machine.requests().len();
    let mut fs = mounted(&disk);
    fs.write(file, 0, &[9; 100_000], now).unwrap();
    fs.sync(now).unwrap();
    let (start, len) = log_of(&disk);
    let is_log = |offset: u64| (start..start + len).contains(&offset);
    let mut data_waits = false;
    let mut data_seen = 0;
    let mut log_since_mount = 0;
    for (number, request) in machine.requests().iter().enumerate() {
        match request.kind {
            RequestKind::Sync => data_waits = false,
            RequestKind::Write if is_log(request.offset) => {
                assert!(!data_waits, "request {number}: the log is written before its data is durable");
                log_since_mount += u64::from(number >= before);
            }
            RequestKind::Write if request.offset >= 128 << 10 => {
                (data_waits, data_seen) = (true, data_seen + 1);
                assert!(number < before || log_since_mount > 0, "request {number}: data before the fence");
            }
            _ => {}
        }
    }
    assert!(data_seen >= 4, "only {data_seen} writes of data");
}

/// Files and directories of any length, in an empty log: one segment is a few long requests, whatever gaps its objects leave.
#[test]
fn a_segment_goes_out_in_long_requests() {
    for options in [ours(), papers(), small()] {
        let image = Arc::new(made(&options, 24 << 20).bytes());
        let machine = Machine::new(1);
        let disk = Arc::new(SimDisk::new("disk", &machine, image));
        let mut fs = mounted(&disk);
        let (root, of, now) = (fs.root(), Permissions { mode: 0o644, uid: 0, gid: 0 }, Time::at(NOW));
        for number in 0..120_u32 {
            let name = format!("{number:0>80}");
            let file = fs.create(root, name.as_bytes(), of, now).unwrap().inode;
            fs.write(file, 0, &vec![1; 450 + number as usize * 17], now).unwrap();
        }
        let before = machine.requests().len();
        fs.sync(now).unwrap();
        let requests = machine.requests();
        let writes = requests[before..].iter().filter(|request| request.kind == RequestKind::Write);
        let (count, bytes) = writes.fold((0, 0), |(count, bytes), request| (count + 1, bytes + request.len));
        assert!(bytes > 200_000 && count <= 4, "{count} requests for {bytes} bytes");
    }
}

/// Where the log is.
fn log_of(disk: &SimDisk) -> (u64, u64) {
    let mut bytes = [0; 512];
    disk.peek(fsmend_hybridfs_format::SUPERBLOCK_OFFSET, &mut bytes);
    let superblock = fsmend_hybridfs_format::Superblock::parse(&bytes).unwrap();
    let fragment = u64::from(superblock.fragment_size);
    (superblock.log_start * fragment, superblock.log_fragments * fragment)
}
