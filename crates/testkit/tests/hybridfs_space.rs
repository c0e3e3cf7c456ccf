// SPDX-License-Identifier: MIT OR Apache-2.0
//! hybridfs: deleting works at every fill, files larger than a segment go in steps, and recovery reads as much as there are segments since the last checkpoint.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fsmend_base::SeededRandom;
use fsmend_device::{Device, ReadError, WritableDevice, WritableMemory, WriteError};
use fsmend_disksim::{Machine, SimDisk};
use fsmend_engine::Progress;
use fsmend_engine::checker::Checker;
use fsmend_hybridfs_driver::mkfs::{Options, mkfs};
use fsmend_hybridfs_driver::{Hybrid, MountOptions};
use fsmend_testkit::driver::NOW;
use fsmend_testkit::hybridfs::Image;
use fsmend_testkit::within::{Manner, options};
use fsmend_vfs::{Errno, FileSystem, InodeNo, Permissions, SetAttributes, Time};

const OF: Permissions = Permissions { mode: 0o644, uid: 0, gid: 0 };

fn now() -> Time {
    Time::at(NOW)
}

fn count(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn small() -> Options {
    Options { fragment_size: 1024, block_size: 4096, ..Options::new(*b"0123456789abcdef", now()) }
}

fn made(options: &Options, bytes: usize) -> Arc<WritableMemory> {
    let device = Arc::new(WritableMemory::new("image", vec![0xA5; bytes]));
    mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, options).unwrap();
    device
}

fn mounted(device: &Arc<impl WritableDevice + 'static>) -> Hybrid {
    Hybrid::mount(Arc::clone(device) as Arc<dyn WritableDevice>, MountOptions::new(now())).unwrap()
}

/// What the checker finds; after a crash, notes are nothing.
fn checked(device: &Arc<impl WritableDevice + 'static>, may_note: bool) {
    let device = Arc::clone(device) as Arc<dyn Device>;
    let report = Checker(fsmend_hybridfs_check::Hybrid)
        .check(&device, &options(Manner::default()), &Progress::new(), &AtomicBool::new(false))
        .unwrap();
    let told = report.findings.iter().map(|problem| format!("{}: {}", problem.row.code, problem.message()));
    let told: Vec<String> = told.collect();
    assert!(told.is_empty() || may_note && !report.findings.is_damaged(), "{told:#?}");
}

fn sound(fs: &mut Hybrid) {
    fs.sync(now()).unwrap();
    let wrong = fs.audit().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Makes files of one fragment and more, at most so many; how many there was room for.
fn fill(fs: &mut Hybrid, files: u64) -> Vec<String> {
    let root = fs.root();
    let mut names = Vec::new();
    while (names.len() as u64) < files {
        let name = format!("file-{:04}", names.len());
        match fs.create(root, name.as_bytes(), OF, now()) {
            Err(Errno::NoSpace) => break,
            made => {
                let inode = made.unwrap().inode;
                names.push(name);
                match fs.write(inode, 0, &vec![7; 450 + names.len() % 5 * 700], now()) {
                    Ok(_) | Err(Errno::NoSpace) => {}
                    Err(error) => panic!("{error}: {:?}", fs.trouble()),
                }
            }
        }
    }
    names
}

/// Each was alone in its block when what was written beside it had been replaced: contents left the log, and it was called full, with a third of it in use.
#[test]
fn files_that_are_synced_one_by_one_fill_the_log() {
    let options = Options::new(*b"0123456789abcdef", now());
    let device = made(&options, 48 << 20);
    let mut fs = mounted(&device);
    let root = fs.root();
    let full = (0..10_000).find(|number| {
        let made = fs.create(root, format!("s{number}").as_bytes(), OF, now()).and_then(|made| {
            fs.write(made.inode, 0, &[7; 3000], now())?;
            fs.fsync(made.inode, false, now())
        });
        assert!(matches!(made, Ok(()) | Err(Errno::NoSpace)), "{made:?}");
        made.is_err()
    });
    sound(&mut fs);
    fs.unmount(now()).unwrap();
    let last = Image::of(device.bytes());
    let (used, all) = (last.last().totals.log, last.sb.log_fragments);
    assert!(used * 100 > all * 55, "{used} of {all} fragments are in use after {full:?} files");
    checked(&device, false);
}

/// The log has 480 blocks: from one file to as many as there is room for, all of them go, first to last, last to first, or here and there; in one mount, or after
/// another one.
#[test]
fn at_every_fill_everything_can_be_removed() {
    let every = count("FSMEND_FILL_EVERY", 7).max(1);
    let shape = Options { log_bytes: Some(480 * 4096), inodes: Some(2_000), ..small() };
    let mut full = false;
    for files in (1..).step_by(every as usize).take_while(|files| *files < 2_000) {
        let device = made(&shape, 3 << 20);
        let mut fs = mounted(&device);
        let before = fs.statfs().unwrap();
        let mut names = fill(&mut fs, files);
        full = (names.len() as u64) < files;
        assert!(!full || names.len() > 400, "full after {} files", names.len());
        match files / every % 4 {
            0 => names.reverse(),
            1 => names.sort_by_key(|name| fsmend_base::crc32c(7, name.as_bytes())),
            2 => {
                fs.unmount(now()).unwrap();
                fs = mounted(&device);
            }
            _ => {
                // Never unmounted: recovery makes room, too.
                fs.sync(now()).unwrap();
                drop(fs);
                fs = mounted(&device);
            }
        }
        let root = fs.root();
        for name in &names {
            let removed = fs.unlink(root, name.as_bytes(), now());
            assert_eq!(removed, Ok(()), "{name} of {files}: {:?}", fs.trouble());
        }
        sound(&mut fs);
        let after = fs.statfs().unwrap();
        assert_eq!(
            (after.blocks_free, after.inodes_free, after.metadata_blocks_free),
            (before.blocks_free, before.inodes_free, before.metadata_blocks_free),
            "{files} files"
        );
        fs.unmount(now()).unwrap();
        checked(&device, false);
        if full {
            break;
        }
    }
    assert!(full, "it never became full");
}

#[test]
fn inodes_that_the_log_has_no_room_for_are_not_shown_as_in_use() {
    let shape = Options { log_bytes: Some(480 * 4096), inodes: Some(500_000), ..small() };
    for files in [0, 5, 60] {
        let mut fs = mounted(&made(&shape, 3 << 20));
        let in_use = 1 + fill(&mut fs, files).len() as u64;
        let space = fs.statfs().unwrap();
        assert_eq!(space.inodes - space.inodes_free, in_use);
        assert!(space.inodes < 50_000, "{} inodes", space.inodes);
    }
}

/// Every second block of a file, so that each is an extent of its own.
fn pieces(fs: &mut Hybrid, name: &str, pieces: u64) -> InodeNo {
    let root = fs.root();
    let file = fs.create(root, name.as_bytes(), OF, now()).unwrap().inode;
    for number in 0..pieces {
        assert_eq!(fs.write(file, number * 8192, b"piece", now()), Ok(5), "{number}: {:?}", fs.trouble());
    }
    fs.sync(now()).unwrap();
    file
}

const PIECES: u64 = 5_000;

#[test]
fn files_of_more_pieces_than_a_segment_can_give_back_go_in_steps() {
    let shape = Options { log_bytes: Some(4 << 20), ..small() };
    let device = made(&shape, 32 << 20);
    let mut fs = mounted(&device);
    let (root, before) = (fs.root(), fs.statfs().unwrap());
    let file = pieces(&mut fs, "pieces", PIECES);
    let size = |bytes: u64| SetAttributes { size: Some(bytes), ..Default::default() };
    let cut = fs.setattr(file, &size(4_500 * 8192 + 3), now()).unwrap();
    assert_eq!((cut.size, cut.blocks_512), (4_500 * 8192 + 3, 4_501 * 8));
    sound(&mut fs);
    let cut = fs.setattr(file, &size(8192 + 3), now()).unwrap();
    assert_eq!((cut.size, cut.blocks_512), (8192 + 3, 2 * 8));
    sound(&mut fs);
    fs.unlink(root, b"pieces", now()).unwrap();
    for held in [false, true] {
        let file = pieces(&mut fs, "again", PIECES);
        if held {
            fs.hold(file).unwrap();
        }
        fs.unlink(root, b"again", now()).unwrap();
        if held {
            sound(&mut fs);
            let mut buf = [0; 5];
            assert_eq!((fs.read(file, 8192, &mut buf), &buf), (Ok(5), b"piece"));
            fs.release(file, 1, now()).unwrap();
        }
        assert_eq!(fs.getattr(file), Err(Errno::NotFound));
        sound(&mut fs);
        let after = fs.statfs().unwrap();
        assert_eq!((after.blocks_free, after.inodes_free), (before.blocks_free, before.inodes_free));
    }
    fs.unmount(now()).unwrap();
    checked(&device, false);
}

/// The same in a file system without room for anything else.
#[test]
fn a_large_file_goes_from_a_full_file_system() {
    let shape = Options { log_bytes: Some(1 << 20), inodes: Some(2_000), ..small() };
    let device = made(&shape, 16 << 20);
    let mut fs = mounted(&device);
    pieces(&mut fs, "pieces", 1_700);
    fill(&mut fs, 2_000);
    let root = fs.root();
    assert_eq!(fs.create(root, b"one-more", OF, now()).unwrap_err(), Errno::NoSpace);
    fs.unlink(root, b"pieces", now()).unwrap();
    sound(&mut fs);
    fs.create(root, b"one-more", OF, now()).unwrap();
    fs.unmount(now()).unwrap();
    checked(&device, false);
}

#[test]
fn power_cuts_while_a_large_file_goes_leave_what_the_next_mount_finishes() {
    let shape = Options { log_bytes: Some(4 << 20), ..small() };
    let device = made(&shape, 32 << 20);
    let mut fs = mounted(&device);
    let before = fs.statfs().unwrap();
    pieces(&mut fs, "pieces", PIECES);
    fs.unmount(now()).unwrap();
    let image = Arc::new(device.bytes());
    let remove = |machine: &Machine| {
        let disk = Arc::new(SimDisk::new("disk", machine, Arc::clone(&image)));
        let mut fs = mounted(&disk);
        let root = fs.root();
        let _ = fs.unlink(root, b"pieces", now()).and_then(|()| fs.unmount(now()));
        disk
    };
    let machine = Machine::new(1);
    remove(&machine);
    let requests = machine.changes();
    let mut left = 0;
    for cut in (0..requests).step_by(count("FSMEND_CRASH_EVERY", 9) as usize) {
        let machine = Machine::new(cut);
        machine.cut_power_at(cut);
        let disk = remove(&machine);
        machine.restart();
        checked(&disk, true);
        let mut fs = mounted(&disk);
        let root = fs.root();
        let is_there = fs.lookup(root, b"pieces").is_ok();
        left += u64::from(is_there);
        if is_there {
            fs.unlink(root, b"pieces", now()).unwrap();
        }
        sound(&mut fs);
        let after = fs.statfs().unwrap();
        assert_eq!((after.blocks_free, after.inodes_free), (before.blocks_free, before.inodes_free), "{cut}");
        fs.unmount(now()).unwrap();
        checked(&disk, false);
    }
    assert!(left > 0, "every cut came after the name was gone");
}

/// Counts what is read.
struct Counted {
    inner: Arc<WritableMemory>,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl Device for Counted {
    fn name(&self) -> &str {
        "counted"
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.inner.read_at(offset, buf)
    }
}

impl WritableDevice for Counted {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<(), WriteError> {
        self.inner.sync()
    }
}

/// Reads of a mount after `segments` synchronisations without an unmount, with so many files there already.
fn reads_of_recovery(files: u64, segments: u64, crashes: u64) -> (u64, u64) {
    let shape = Options { log_bytes: Some(24 << 20), inodes: Some(20_000), ..small() };
    let device = made(&shape, 32 << 20);
    let mut fs = mounted(&device);
    fill(&mut fs, files);
    fs.unmount(now()).unwrap();
    let mut fs = mounted(&device);
    let root = fs.root();
    for number in 0..segments {
        fs.create(root, format!("later-{number}").as_bytes(), OF, now()).unwrap();
        fs.sync(now()).unwrap();
    }
    drop(fs);
    // Each mount writes a fence and crashes.
    for _ in 0..crashes {
        drop(mounted(&device));
    }
    let counted = Arc::new(Counted { inner: device, reads: AtomicU64::new(0), bytes: AtomicU64::new(0) });
    let mut fs = mounted(&counted);
    let reads = (counted.reads.load(Ordering::Relaxed), counted.bytes.load(Ordering::Relaxed));
    if segments > 0 {
        fs.lookup(root, format!("later-{}", segments - 1).as_bytes()).unwrap();
    }
    sound(&mut fs);
    reads
}

#[test]
fn recovery_reads_at_most_64_summaries_whatever_the_size() {
    let clean = reads_of_recovery(200, 0, 0).0;
    for (files, segments, crashes) in [
        (200, 40, 0),
        (200, 63, 0),
        (200, 300, 0),
        (4_000, 63, 0),
        (4_000, 200, 0),
        (200, 63, 30),
        (200, 10, 200),
    ] {
        let (reads, bytes) = reads_of_recovery(files, segments, crashes);
        // Summaries, a fence, and the next one that is not there; the objects of the last segment; what a clean mount reads, and the orphans' part of the IFILE.
        let most = clean + 64 + 2 + 40;
        assert!(
            reads <= most,
            "{files} files, {segments} segments, {crashes} crashes: {reads} reads, {bytes} bytes"
        );
    }
}

/// Makes small files until there is no room; their names and lengths.
fn small_files(fs: &mut Hybrid, stamp: u64) -> Vec<(String, u64)> {
    let root = fs.root();
    let mut random = SeededRandom::new(stamp);
    let mut made = Vec::new();
    loop {
        let name = format!("{stamp}-{}", made.len());
        let inode = match fs.create(root, name.as_bytes(), OF, now()) {
            Err(Errno::NoSpace) => return made,
            created => created.unwrap().inode,
        };
        let len = 500 + random.below(9_500);
        let written = fs.write(inode, 0, &contents_of(&name, len), now());
        if written == Err(Errno::NoSpace) {
            fs.unlink(root, name.as_bytes(), now()).unwrap();
            return made;
        }
        assert_eq!(written, Ok(len as usize), "{:?}", fs.trouble());
        made.push((name, len));
    }
}

fn contents_of(name: &str, len: u64) -> Vec<u8> {
    name.bytes().cycle().take(len as usize).collect()
}

/// They filled the log, and then no file could be made although nine tenths of the device were free.
#[test]
fn small_files_fill_the_data_area_when_the_log_is_short() {
    let shape = Options {
        log_bytes: Some(8 << 20),
        inodes: Some(20_000),
        ..Options::new(*b"0123456789abcdef", now())
    };
    let device = made(&shape, 48 << 20);
    let mut fs = mounted(&device);
    let mut files = small_files(&mut fs, 1);
    for round in 2..5 {
        let full = fs.statfs().unwrap();
        let bytes: u64 = files.iter().map(|(_, len)| len).sum();
        assert!(bytes > 12 << 20, "full after {} files of {bytes} bytes: {full:?}", files.len());
        assert!(full.blocks_free * 50 < full.blocks || full.inodes_free < 100, "{full:?}");
        let (root, mut random) = (fs.root(), SeededRandom::new(round));
        files.retain(|(name, _)| {
            let stays = random.below(2) == 0;
            if !stays {
                fs.unlink(root, name.as_bytes(), now()).unwrap();
            }
            stays
        });
        let half = files.len();
        let again = small_files(&mut fs, round);
        assert!(again.len() * 10 >= half * 9, "{half} files went, there was room for {}", again.len());
        files.extend(again);
    }
    sound(&mut fs);
    fs.unmount(now()).unwrap();
    checked(&device, false);
    let mut fs = mounted(&device);
    let root = fs.root();
    for (name, len) in files {
        let inode = fs.lookup(root, name.as_bytes()).unwrap().inode;
        let mut found = vec![0; len as usize + 1];
        assert_eq!(fs.read(inode, 0, &mut found), Ok(len as usize));
        assert!(found[..len as usize] == contents_of(&name, len), "{name}");
        // What is cut stays where there is room for it.
        fs.setattr(inode, &SetAttributes { size: Some(len / 2), ..Default::default() }, now()).unwrap();
    }
    sound(&mut fs);
    fs.unmount(now()).unwrap();
    checked(&device, false);
}
