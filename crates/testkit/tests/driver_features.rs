// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver where files can be made by others only: quotas, contents that live in inodes, clusters. What random work leaves there is in `tests/driver.rs`;
//! here are limits, projects, and the kernel and the driver on one image in turns.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fsmend_device::{WritableDevice, WritableMemory};
use fsmend_ext_driver::{Ext, MountError, MountOptions};
use fsmend_testkit::driver::snapshot::{Snapshot, difference, of_driver, of_kernel};
use fsmend_testkit::driver::workload::Workload;
use fsmend_testkit::driver::{FOREIGN, NOW, complaint, keep, made_by_mke2fs};
use fsmend_testkit::host::{self, LoopMount, is_root, skip};
use fsmend_testkit::repair::Scratch;
use fsmend_vfs::{
    Allocation, AttributeWrite, Caller, Errno, FileSystem, InodeNo, Permissions, RenameFlags, SetAttributes,
    Time,
};

const USER: Caller = Caller { uid: 1000, gid: 2000, umask: 0 };
const OF_USER: Permissions = Permissions { mode: 0o644, uid: 1000, gid: 2000 };

fn on(image: Vec<u8>) -> Arc<WritableMemory> {
    Arc::new(WritableMemory::new("image", image))
}

fn mounted(device: &Arc<WritableMemory>, now: i64) -> Ext {
    let device = Arc::clone(device) as Arc<dyn WritableDevice>;
    Ext::mount(device, MountOptions::new(Time::at(now))).unwrap()
}

fn assert_sound(name: &str, image: &[u8], now: i64) {
    if let Some(complaint) = complaint(image, now).unwrap() {
        keep(name, image);
        panic!("{name}: {complaint}");
    }
}

/// Limits of the user 1000, who has one empty file, in a quota file of the newer version.
struct Limits {
    inodes_hard: u64,
    kib_hard: u64,
    kib_soft: u64,
}

/// An image on which the user 1000 has one empty file, `mine`, and these limits.
fn limited(limits: &Limits) -> Vec<u8> {
    let device = on(made_by_mke2fs("-b 1024 -O quota", 16 << 20).unwrap());
    let mut fs = mounted(&device, NOW);
    let root = fs.root();
    fs.create(root, b"mine", OF_USER, Time::at(NOW)).unwrap();
    fs.unmount(Time::at(NOW)).unwrap();
    let mut image = device.bytes();
    assert_sound("before limits", &image, NOW);
    let words = |limits: &Limits| -> Vec<u8> {
        let all = [1000, limits.inodes_hard, 0, 1, limits.kib_hard, limits.kib_soft, 0, 0, 0];
        all.iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
    };
    let entry = words(&Limits { inodes_hard: 0, kib_hard: 0, kib_soft: 0 });
    let places: Vec<usize> =
        (0..image.len() - entry.len()).step_by(8).filter(|at| image[*at..].starts_with(&entry)).collect();
    assert!(!places.is_empty(), "the entry is there");
    // Copies in the log are not replayed any more.
    for at in places {
        image[at..at + entry.len()].copy_from_slice(&words(limits));
    }
    image
}

fn cut(fs: &mut Ext, file: InodeNo, size: u64, now: i64) {
    let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
    fs.setattr(file, &changes, Time::at(now)).unwrap();
}

#[test]
fn nobody_gets_more_than_his_hard_limits() {
    let device = on(limited(&Limits { inodes_hard: 3, kib_hard: 100, kib_soft: 0 }));
    let mut fs = mounted(&device, NOW);
    let (root, now) = (fs.root(), Time::at(NOW));
    let mine = fs.lookup(root, b"mine").unwrap().inode;
    let theirs = fs.create(root, b"theirs", Permissions { mode: 0o644, uid: 5, gid: 5 }, now).unwrap().inode;
    fs.write(theirs, 0, &[7; 200_000], now).unwrap();
    fs.act_for(USER);
    let written = fs.write(mine, 0, &[1; 300_000], now).unwrap() as u64;
    let taken = fs.getattr(mine).unwrap().blocks_512 * 512;
    assert!(written < 300_000 && taken <= 100 << 10 && taken > 95 << 10, "{written} written, {taken} taken");
    assert_eq!(fs.write(mine, written, &[2; 5000], now), Err(Errno::OverQuota));
    // A hole that is written takes blocks, too; what is there already does not.
    assert_eq!(fs.write(mine, 0, &[3; 5000], now), Ok(5000));
    assert_eq!(fs.allocate(mine, 1 << 20, 50_000, Allocation::Unwritten, now), Err(Errno::OverQuota));
    for name in [&b"second"[..], b"third"] {
        fs.create(root, name, OF_USER, now).unwrap();
    }
    assert_eq!(fs.create(root, b"fourth", OF_USER, now).err(), Some(Errno::OverQuota));
    assert_eq!(fs.mkdir(root, b"fourth", OF_USER, now).err(), Some(Errno::OverQuota));
    assert_eq!(fs.lookup(root, b"fourth").err(), Some(Errno::NotFound));
    let to_me = SetAttributes { uid: Some(1000), ..SetAttributes::default() };
    assert_eq!(fs.setattr(theirs, &to_me, now).err(), Some(Errno::OverQuota));
    assert_eq!(fs.getattr(theirs).unwrap().of.uid, 5);
    // Others, and whom nothing binds.
    assert_eq!(fs.write(theirs, 200_000, &[7; 50_000], now), Ok(50_000));
    fs.act_for(Caller::SUPERUSER);
    fs.create(root, b"fourth", OF_USER, now).unwrap();
    assert_eq!(fs.write(mine, written, &[2; 50_000], now), Ok(50_000));
    // What is given back may be used again.
    fs.act_for(USER);
    assert_eq!(fs.write(mine, 200_000, &[2; 5000], now), Err(Errno::OverQuota));
    cut(&mut fs, mine, 10_000, NOW);
    assert_eq!(fs.write(mine, 10_000, &[2; 50_000], now), Ok(50_000));
    fs.unmount(now).unwrap();
    assert_sound("hard-limits", &device.bytes(), NOW);
}

#[test]
fn soft_limits_bind_when_the_grace_is_over() {
    const WEEK: i64 = 7 * 24 * 3600;
    let device = on(limited(&Limits { inodes_hard: 0, kib_hard: 0, kib_soft: 20 }));
    let mut fs = mounted(&device, NOW);
    let mine = fs.lookup(fs.root(), b"mine").unwrap().inode;
    fs.act_for(USER);
    let mut write = |at: u64, now: i64| fs.write(mine, at, &[1; 10_240], Time::at(now));
    assert_eq!([write(0, NOW), write(10_240, NOW), write(20_480, NOW)], [Ok(10_240); 3]);
    assert_eq!(write(30_720, NOW + WEEK - 9), Ok(10_240), "there is grace");
    assert_eq!(write(40_960, NOW + WEEK + 9), Err(Errno::OverQuota));
    fs.unmount(Time::at(NOW)).unwrap();
    // The beginning of the grace is on the disk.
    let mut fs = mounted(&device, NOW);
    fs.act_for(USER);
    let late = NOW + WEEK + 9;
    assert_eq!(fs.write(mine, 40_960, &[1; 10_240], Time::at(late)), Err(Errno::OverQuota));
    cut(&mut fs, mine, 5_120, late);
    assert_eq!(fs.write(mine, 5_120, &[1; 30_720], Time::at(late)), Ok(30_720), "a new grace");
    fs.unmount(Time::at(late)).unwrap();
    assert_sound("soft-limits", &device.bytes(), late);
}

#[test]
fn a_damaged_quota_file_is_not_written_to() {
    let mut image = limited(&Limits { inodes_hard: 0, kib_hard: 0, kib_soft: 0 });
    let magic = [0x11, 0x1F, 0xC0, 0xD9, 1];
    let places: Vec<usize> =
        (0..image.len()).step_by(1024).filter(|at| image[*at..].starts_with(&magic)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| image[at] = 0x12);
    let device = on(image.clone());
    let as_device = Arc::clone(&device) as Arc<dyn WritableDevice>;
    match Ext::mount(as_device, MountOptions::new(Time::at(NOW))).err() {
        Some(MountError::Corrupt(what)) => assert!(what.contains("user quota file"), "{what}"),
        other => panic!("{other:?}"),
    }
    assert!(device.bytes() == image, "it was refused, and written");
    let as_device = Arc::clone(&device) as Arc<dyn WritableDevice>;
    assert!(Ext::mount(as_device, MountOptions::read_only(Time::at(NOW))).is_ok());
}

#[test]
fn lists_of_a_quota_file_that_lead_astray_are_not_followed() {
    let image = limited(&Limits { inodes_hard: 0, kib_hard: 0, kib_soft: 0 });
    let magic = [0x11, 0x1F, 0xC0, 0xD9, 1];
    let heads: Vec<usize> =
        (0..image.len()).step_by(1024).filter(|at| image[*at..].starts_with(&magic)).collect();
    // Free blocks and leaves with room would be the root of the tree, or lie beyond the end.
    for (word, value) in [(24, 1u32), (24, 9999), (28, 1), (28, 9999)] {
        let mut image = image.clone();
        for head in &heads {
            image[head + word..head + word + 4].copy_from_slice(&value.to_le_bytes());
        }
        let device = on(image);
        let mut fs = mounted(&device, NOW);
        let root = fs.root();
        // The first new id takes a block of the tree, if not of the leaves.
        let of = Permissions { mode: 0o644, uid: 0x0102_0304, gid: 0 };
        let made = fs.create(root, b"new", of, Time::at(NOW)).err();
        assert_eq!(made, Some(Errno::Corrupt), "word {word}, {value}");
        assert!(fs.trouble().is_some_and(|what| what.contains("user quota file")), "{:?}", fs.trouble());
        assert_eq!(fs.lookup(root, b"new").err(), Some(Errno::NotFound));
    }
}

/// Runs debugfs and then e2fsck, which counts anew who uses what.
fn edited(image: &[u8], commands: &[&str]) -> Vec<u8> {
    let file = Scratch::with(image).unwrap();
    for command in commands {
        host::run("debugfs", ["-w", "-R", command, &file.path().display().to_string()]).unwrap();
    }
    // Exit code 1 says that something was mended.
    let path = file.path().display().to_string();
    let status = host::command("e2fsck").args(["-fy", &path]).output().unwrap().status;
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    fs::read(file.path()).unwrap()
}

#[test]
fn what_is_made_in_a_projects_folder_belongs_to_the_project() {
    let image = made_by_mke2fs("-b 1024 -O quota,project", 16 << 20).unwrap();
    let commands = ["mkdir /shared", "sif /shared projid 77", "sif /shared flags 0x20080000"];
    let device = on(edited(&image, &commands));
    let mut fs = mounted(&device, NOW);
    let (root, now) = (fs.root(), Time::at(NOW));
    let shared = fs.lookup(root, b"shared").unwrap().inode;
    let below = fs.mkdir(shared, b"below", OF_USER, now).unwrap().inode;
    let file = fs.create(below, b"file", OF_USER, now).unwrap().inode;
    fs.write(file, 0, &[7; 50_000], now).unwrap();
    let other = fs.create(root, b"other", OF_USER, now).unwrap().inode;
    assert_eq!(fs.link(other, below, b"name", now).err(), Some(Errno::OtherProject));
    let replace = RenameFlags::Replace;
    assert_eq!(fs.rename(root, b"other", shared, b"name", replace, now), Err(Errno::OtherProject));
    assert_eq!(
        fs.rename(below, b"file", root, b"other", RenameFlags::Exchange, now),
        Err(Errno::OtherProject)
    );
    fs.rename(below, b"file", shared, b"moved", replace, now).unwrap();
    fs.link(file, below, b"again", now).unwrap();
    // To where no project is handed down, everything may go.
    fs.rename(shared, b"moved", root, b"outside", replace, now).unwrap();
    fs.unmount(now).unwrap();
    assert_sound("projects", &device.bytes(), NOW);
    let path = Scratch::with(&device.bytes()).unwrap();
    let told = |name: &str| {
        let command = format!("stat {name}");
        let said = host::run("debugfs", ["-R", &command, &path.path().display().to_string()]).unwrap().stdout;
        String::from_utf8_lossy(&said).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (name, project) in [("/shared/below", 77), ("/outside", 77), ("/other", 0)] {
        assert!(told(name).contains(&format!("Project: {project} ")), "{name}: {}", told(name));
    }
}

fn free_blocks(fs: &mut Ext) -> u64 {
    fs.statfs().unwrap().blocks_free
}

#[test]
fn what_is_small_takes_no_blocks() {
    for base in [FOREIGN[3], FOREIGN[4]] {
        let device = base.make().unwrap();
        let mut fs = mounted(&device, NOW);
        let (root, now) = (fs.root(), Time::at(NOW));
        let before = free_blocks(&mut fs);
        let folder = fs.mkdir(root, b"folder", Permissions::default(), now).unwrap().inode;
        let file = fs.create(folder, b"file", Permissions::default(), now).unwrap().inode;
        for at in (0..100).step_by(10) {
            fs.write(file, at, &[at as u8 + 1; 10], now).unwrap();
        }
        fs.setxattr(file, b"user.a", b"beside", AttributeWrite::Any, now).unwrap();
        assert_eq!(free_blocks(&mut fs), before, "{}", base.name);
        let extents = fs.extents(file, 0, 9).unwrap();
        assert_eq!(extents.iter().map(|extent| (extent.offset, extent.len)).collect::<Vec<_>>(), [(0, 100)]);
        // Cut, and longer again: what was cut is gone.
        cut(&mut fs, file, 75, NOW);
        cut(&mut fs, file, 90, NOW);
        let mut buf = [9; 100];
        assert_eq!(fs.read(file, 0, &mut buf), Ok(90));
        assert!(buf[..75].iter().enumerate().all(|(at, byte)| usize::from(*byte) == at / 10 * 10 + 1));
        assert!(buf[75..90].iter().all(|byte| *byte == 0));
        // Attributes that want the room of the contents go to a block; the contents stay.
        fs.setxattr(file, b"user.b", &[5; 700], AttributeWrite::Any, now).unwrap();
        assert_eq!(fs.getxattr(file, b"user.b"), Ok(vec![5; 700]));
        fs.removexattr(file, b"user.b", now).unwrap();
        assert_eq!(free_blocks(&mut fs), before, "{}", base.name);
        // What grows moves to blocks, with all that it holds.
        fs.write(file, 2000, b"far behind", now).unwrap();
        assert!(free_blocks(&mut fs) < before);
        let mut buf = [9; 3000];
        assert_eq!(fs.read(file, 0, &mut buf), Ok(2010));
        assert_eq!((buf[74], buf[75], &buf[2000..2010]), (71, 0, &b"far behind"[..]));
        let allocated = fs.create(folder, b"allocated", Permissions::default(), now).unwrap().inode;
        fs.write(allocated, 0, b"short", now).unwrap();
        fs.allocate(allocated, 0, 9000, Allocation::UnwrittenKeepSize, now).unwrap();
        assert_eq!((fs.read(allocated, 0, &mut buf), &buf[..5]), (Ok(5), &b"short"[..]));
        assert_sound_after(&base, fs, &device);
    }
}

fn assert_sound_after(base: &fsmend_testkit::driver::Base, mut fs: Ext, device: &Arc<WritableMemory>) {
    fs.unmount(Time::at(NOW)).unwrap();
    assert_sound(base.name, &device.bytes(), NOW);
}

#[test]
fn neighbours_in_a_file_share_clusters() {
    let base = FOREIGN[5];
    let device = base.make().unwrap();
    let mut fs = mounted(&device, NOW);
    let (root, now) = (fs.root(), Time::at(NOW));
    let before = free_blocks(&mut fs);
    let file = fs.create(root, b"file", Permissions::default(), now).unwrap().inode;
    // Block 2 and block 0 of one cluster of four, then block 5 of the next.
    for block in [2u64, 0, 5] {
        fs.write(file, block * 4096, &[block as u8 + 1; 4096], now).unwrap();
    }
    assert_eq!(before - free_blocks(&mut fs), 8);
    assert_eq!(fs.getattr(file).unwrap().blocks_512, 8 * 8);
    // A hole whose end is in a cluster that is there already.
    fs.write(file, 3 * 4096, &[9; 2 * 4096], now).unwrap();
    assert_eq!(before - free_blocks(&mut fs), 8);
    cut(&mut fs, file, 4 * 4096 + 1, NOW);
    assert_eq!(before - free_blocks(&mut fs), 8);
    cut(&mut fs, file, 2 * 4096, NOW);
    fs.sync(now).unwrap();
    assert_eq!(before - free_blocks(&mut fs), 4);
    let mut buf = [7; 8192];
    assert_eq!(fs.read(file, 0, &mut buf), Ok(8192));
    assert!(buf[..4096].iter().all(|byte| *byte == 1) && buf[4096..].iter().all(|byte| *byte == 0));
    cut(&mut fs, file, 0, NOW);
    fs.sync(now).unwrap();
    assert_eq!(free_blocks(&mut fs), before);
    assert_sound_after(&base, fs, &device);
}

/// Some of everything, by the kernel: small things that grow, large ones that are cut, names that come and go.
fn kernel_works(at: &Path, round: usize) {
    let bytes = |seed: usize, len: usize| -> Vec<u8> {
        (0..len).map(|at| (at * 7 + seed * 13 + at / 251) as u8).collect()
    };
    let place = at.join(format!("kernel {round}"));
    fs::create_dir(&place).unwrap();
    for number in 0..40usize {
        let file = place.join(format!("file {number}"));
        fs::write(&file, bytes(number, number * number * 11)).unwrap();
        if number % 3 == 0 {
            let mut more = fs::OpenOptions::new().append(true).open(&file).unwrap();
            more.write_all(&bytes(number, 90)).unwrap();
        }
        if number % 4 == 0 {
            fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(number as u64 * 40).unwrap();
        }
        if number % 7 == 0 {
            fs::remove_file(&file).unwrap();
        }
        if number % 5 == 0 {
            let folder = place.join(format!("folder {number}"));
            fs::create_dir(&folder).unwrap();
            (0..number).for_each(|name| fs::write(folder.join(format!("{name}")), b"small").unwrap());
        }
    }
    // What the driver has left is worked on, too.
    for entry in fs::read_dir(at).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_file() {
            let mut more = fs::OpenOptions::new().append(true).open(entry.path()).unwrap();
            more.write_all(&bytes(round, 333)).unwrap();
        } else if kind.is_dir() && entry.file_name() != "lost+found" {
            fs::write(entry.path().join(format!("by the kernel, {round}")), bytes(round, 77)).unwrap();
        }
    }
}

fn with_kernel<T>(image: &mut Vec<u8>, options: &str, work: impl FnOnce(&Path) -> T) -> T {
    let file = Scratch::with(image).unwrap();
    let point = PathBuf::from(format!("{}.mnt", file.path().display()));
    let mount = LoopMount::new(file.path(), &point, "ext4", options).unwrap();
    let result = work(mount.path());
    mount.unmount().unwrap();
    *image = fs::read(file.path()).unwrap();
    result
}

fn seen_by_us(image: &[u8], now: i64) -> Snapshot {
    let device = on(image.to_vec());
    let as_device = Arc::clone(&device) as Arc<dyn WritableDevice>;
    let mut fs = Ext::mount(as_device, MountOptions::read_only(Time::at(now))).unwrap();
    of_driver(&mut fs).unwrap()
}

#[test]
fn the_kernel_and_the_driver_work_in_turns() {
    if !is_root() {
        return skip("driver features", "only the superuser may mount images");
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    // A kernel without quotas writes to none of those.
    for base in FOREIGN.iter().filter(|base| !base.name.contains("quota") && base.name != "all-of-it") {
        let mut image = base.make().unwrap().bytes();
        for round in 0..3 {
            let device = on(image);
            let mut fs = mounted(&device, now);
            let folder = format!("driver {round}");
            let mut work = Workload::in_folder(&mut fs, folder.as_bytes(), round, true, now).unwrap();
            for step in 0..400 {
                work.step().unwrap_or_else(|what| panic!("{}, step {step}: {what}", base.name));
            }
            work.release_all().unwrap();
            work.compare().unwrap_or_else(|what| panic!("{}: {what}", base.name));
            let end = work.clock;
            let root = fs.root();
            let left = format!("left {round}");
            let file = fs.create(root, left.as_bytes(), OF_USER, Time::at(end)).unwrap().inode;
            fs.write(file, 0, &[7; 50], Time::at(end)).unwrap();
            let ours = of_driver(&mut fs).unwrap();
            fs.unmount(Time::at(end)).unwrap();
            image = device.bytes();
            assert_sound(base.name, &image, end);
            let theirs = with_kernel(&mut image, "", |path| {
                let seen = of_kernel(path).unwrap();
                kernel_works(path, round as usize);
                seen
            });
            assert_eq!(difference(&ours, &theirs), None, "{}, round {round}", base.name);
            assert_sound(base.name, &image, now);
            let theirs = with_kernel(&mut image.clone(), "ro", |path| of_kernel(path).unwrap());
            assert_eq!(difference(&seen_by_us(&image, now), &theirs), None, "{}, by the kernel", base.name);
        }
    }
}

#[test]
fn attributes_stay_where_fixed_fields_are_shorter() {
    // As old kernels made inodes: without room for the number of a project.
    let image = made_by_mke2fs("-b 1024 -O ^metadata_csum", 16 << 20).unwrap();
    let device = on(edited(&image, &["ssv want_extra_isize 28", "ssv min_extra_isize 28"]));
    let mut fs = mounted(&device, NOW);
    let (root, now) = (fs.root(), Time::at(NOW));
    let file = fs.create(root, b"file", OF_USER, now).unwrap().inode;
    fs.setxattr(file, b"user.a", b"value", AttributeWrite::Any, now).unwrap();
    fs.write(file, 0, &[7; 3000], now).unwrap();
    assert_eq!(fs.getxattr(file, b"user.a"), Ok(b"value".to_vec()));
    fs.unmount(now).unwrap();
    assert_sound("short-fields", &device.bytes(), NOW);
}
