// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many files that share one large map: what is read does not grow with the number of files, and the verdict does not
//! depend on threads, nor on memory.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use fsmend_device::{Counted, Device, MemoryDevice};
use fsmend_engine::options::{RepairOptions, RepairPolicy};
use fsmend_engine::{Findings, Problem, Progress};
use fsmend_ext_check::repair;
use fsmend_ext_check::run::{CheckOptions, check};
use fsmend_testkit::host::{find_program, run, skip};
use fsmend_testkit::target_folder;
use fsmend_testkit::within::{Manner, options};

const BLOCK: u64 = 1024;
const BLOCKS: u64 = 16_384;
/// Where the shared tree begins.
const ROOT: u64 = 1000;
/// Double indirect blocks in it; each leads to 256 blocks of pointers.
const DOUBLE: u64 = 16;

/// The name of a file that no other test uses.
fn own_file(ending: &str) -> PathBuf {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    target_folder().join(format!("crowd-{}-{number}.{ending}", std::process::id()))
}

/// The bytes of an image that mke2fs makes with the options `shape`, that debugfs fills by `commands`, and that `plant` changes. `None` where these programs
/// are missing.
fn made(what: &str, len: u64, shape: &[&str], commands: &str, plant: impl FnOnce(&Path)) -> Option<Vec<u8>> {
    if find_program("mke2fs").is_none() || find_program("debugfs").is_none() {
        skip(what, "needs mke2fs and debugfs");
        return None;
    }
    let path = own_file("img");
    File::create(&path).unwrap().set_len(len).unwrap();
    let (target, script) = (path.to_str().unwrap(), path.with_extension("commands"));
    run("mke2fs", ["-q", "-F"].iter().chain(shape).chain(&[target])).unwrap();
    fs::write(&script, commands).unwrap();
    run("debugfs", ["-w", "-f", script.to_str().unwrap(), target]).unwrap();
    plant(&path);
    let bytes = fs::read(&path).unwrap();
    [path, script].iter().for_each(|file| fs::remove_file(file).unwrap());
    Some(bytes)
}

/// What a check finds, and the blocks that it reads.
fn found(image: &[u8], how: &CheckOptions) -> (Findings, u64) {
    let counted = Arc::new(Counted::new(MemoryDevice::new("crowd", image.to_vec())));
    let device: Arc<dyn Device> = Arc::clone(&counted) as Arc<dyn Device>;
    let report = check(&device, how, &Progress::new(), &AtomicBool::new(false)).unwrap();
    (report.findings, counted.total().0 / BLOCK)
}

/// An image with `files` files that share a tree, all with this time of deletion.
fn image(files: usize, dtime: u32) -> Option<Vec<u8>> {
    let file = |file| {
        format!(
            "write /dev/null f{file}\nsif f{file} block[TIND] {ROOT}\nsif f{file} size 100000000\nsif f{file} dtime {dtime}\nsif f{file} blocks 8226\n"
        )
    };
    let shape = ["-t", "ext2", "-b", "1024", "-N", "512", "-O", "^resize_inode"];
    let commands: String = (0..files).map(file).collect();
    made("files that share a map", BLOCK * BLOCKS, &shape, &commands, plant_tree)
}

/// A tree of indirect blocks at [`ROOT`]: `DOUBLE * 257 + 1` blocks of map that map nothing.
fn plant_tree(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    let put = |block: u64, first: u64, count: u64| {
        let words: Vec<u8> = (first..first + count).flat_map(|block| (block as u32).to_le_bytes()).collect();
        file.write_all_at(&words, block * BLOCK).unwrap();
    };
    put(ROOT, ROOT + 1, DOUBLE);
    for double in 0..DOUBLE {
        put(ROOT + 1 + double, ROOT + 1 + DOUBLE + double * 256, 256);
    }
}

/// Codes and messages of what is found, and the blocks that were read.
fn checked(image: &[u8], threads: usize) -> (Vec<String>, u64) {
    let manner = Manner { threads, ..Manner::default() };
    let (findings, reads) =
        found(image, &CheckOptions { memory: 256 << 20, now: 4_000_000_000, ..options(manner) });
    let line = |problem: Problem| format!("{} {}", problem.row.code, problem.message());
    (findings.into_sorted().into_iter().map(line).collect(), reads)
}

fn bounded(dtime: u32) {
    let (Some(some), Some(many)) = (image(20, dtime), image(200, dtime)) else { return };
    let (lines, reads) = checked(&some, 2);
    assert!(lines.iter().any(|line| line.starts_with("ext.inode.map-crowded")), "{lines:?}");
    let (lines, reads_of_many) = checked(&many, 2);
    assert!(lines.iter().any(|line| line.starts_with("ext.block.multiply-claimed")), "{lines:?}");
    assert!(reads < 20 * BLOCKS, "{reads} blocks read");
    assert!(reads_of_many < reads + 4 * BLOCKS, "{reads} blocks read for 20 files, {reads_of_many} for 200");
    for threads in [1, 7] {
        assert_eq!(checked(&many, threads).0, lines, "{threads} threads");
    }
}

#[test]
fn the_work_for_a_shared_map_is_bounded() {
    bounded(0);
}

/// Inodes that are inspected from the start, since their records are wrong.
#[test]
fn the_work_for_a_map_shared_by_suspects_is_bounded() {
    bounded(1_600_000_000);
}

#[test]
fn a_few_that_share_a_map_are_all_named() {
    let Some(image) = image(3, 0) else { return };
    let (lines, _) = checked(&image, 2);
    assert!(lines.iter().all(|line| !line.starts_with("ext.inode.map-crowded")), "{lines:?}");
    let sharing = lines.iter().filter(|line| line.starts_with("ext.inode.shares-blocks")).count();
    assert_eq!(sharing, 3, "{lines:?}");
}

/// The map of one large file in so many inodes, as a copied inode table leaves it: in 1 KiB blocks below a double indirect block, or
/// in extents that stand in the inodes.
fn copies(files: u32, kind: &str) -> Option<Vec<u8>> {
    let contents = own_file("contents");
    fs::write(&contents, vec![0x5A; 40_000_000]).unwrap();
    let features = "^has_journal,^metadata_csum,^resize_inode,^uninit_bg,^64bit";
    let shape = ["-t", kind, "-b", "1024", "-N", "4096", "-I", "128", "-O", features];
    let names = (1..=files).map(|file| format!("write /dev/null f{file}\n"));
    let commands = format!("write {} f0\n{}", contents.display(), names.collect::<String>());
    let bytes = made("files that are copies of one map", 64 << 20, &shape, &commands, |_| ());
    fs::remove_file(&contents).unwrap();
    let mut bytes = bytes?;
    let per_group = u32::from_le_bytes(bytes[1024 + 40..1024 + 44].try_into().unwrap());
    let record = |inode: u32| {
        let descriptor = 2048 + ((inode - 1) / per_group) as usize * 32;
        let table = u32::from_le_bytes(bytes[descriptor + 8..descriptor + 12].try_into().unwrap()) as usize;
        table * 1024 + ((inode - 1) % per_group) as usize * 128
    };
    let places: Vec<usize> = (12..=12 + files).map(record).collect();
    let first = bytes[places[0]..places[0] + 128].to_vec();
    places.iter().for_each(|place| bytes[*place..*place + 128].copy_from_slice(&first));
    Some(bytes)
}

/// The codes that a check of these files within so much memory finds, with their numbers, and the blocks that it reads.
fn check_of_copies(image: &[u8], memory: u64) -> (BTreeMap<&'static str, u64>, u64) {
    let how = CheckOptions { memory, now: 4_000_000_000, ..options(Manner::default()) };
    let (findings, reads) = found(image, &how);
    (findings.counts(), reads)
}

/// 600 files with one map took 46 s to check in 32 MiB, most of it to find the owners of their blocks again and again.
#[test]
fn copies_of_one_map_are_not_walked_again_and_again_within_little_memory() {
    for kind in ["ext2", "ext4"] {
        let Some(image) = copies(600, kind) else { return };
        let (found, reads) = check_of_copies(&image, 256 << 20);
        assert!(found.get("ext.inode.map-crowded").is_some_and(|count| *count > 450), "{kind}: {found:?}");
        let (within_little, reads_within_little) = check_of_copies(&image, 24 << 20);
        assert_eq!(within_little, found, "{kind}");
        assert!(
            reads_within_little < 2 * reads,
            "{kind}: {reads_within_little} blocks read, {reads} with much memory"
        );
    }
}

/// The plan of 26 MiB was held three times as bytes: a repair within 32 MiB was refused. What is copied is a reference until the plan is made of it.
#[test]
fn a_repair_of_copies_of_one_map_holds_no_copied_bytes() {
    for (files, kind) in [(600, "ext2"), (600, "ext4"), (3000, "ext2")] {
        let Some(image) = copies(files, kind) else { return };
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("copies", image));
        let planned = |memory, threads| {
            let manner = Manner { threads, ..Manner::default() };
            let check = CheckOptions { memory, now: 4_000_000_000, ..options(manner) };
            let options = RepairOptions { check, policy: RepairPolicy::default() };
            repair::plan(&device, &options, &Progress::new(), &AtomicBool::new(false)).unwrap()
        };
        let repair = planned(32 << 20, 1);
        assert!(repair.is_clean(), "{kind}: {:?}", repair.left.findings.counts());
        let held: usize = repair.changes.iter().map(|(_, bytes)| bytes.len()).sum();
        let copied: u64 = repair.copies.iter().map(|copy| copy.len).sum();
        assert!(held < 1 << 20 && copied > 20 << 20, "{kind}: {held} bytes held, {copied} copied");
        assert!(repair.copies.len() < 20_000, "{kind}: {} copies", repair.copies.len());
        let much = planned(256 << 20, 2);
        assert_eq!((much.changes, much.copies), (repair.changes, repair.copies), "{kind}");
    }
}

/// Instructions, counted by callgrind, where that is installed.
#[test]
fn the_work_for_copies_of_one_map_grows_no_faster_than_their_number() {
    let Some(valgrind) = find_program("valgrind") else {
        return skip("instructions for copies of one map", "needs valgrind");
    };
    let program = std::env::current_exe().unwrap();
    let mut counts = Vec::new();
    for files in [100, 200, 400, 800] {
        let Some(image) = copies(files, "ext4") else { return };
        let path = target_folder().join(format!("counted-{files}-{}.img", std::process::id()));
        fs::write(&path, image).unwrap();
        let output = std::process::Command::new(&valgrind)
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&program)
            .args(["--exact", "one_check_of_the_named_image", "--ignored"])
            .env("FSMEND_COUNTED_IMAGE", &path)
            .output()
            .unwrap();
        fs::remove_file(&path).unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let count =
            said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse::<u64>().ok());
        counts.push(count.unwrap_or_else(|| panic!("{said}")));
    }
    for pair in counts.windows(2) {
        assert!(pair[1] < pair[0] * 2, "{counts:?}");
    }
}

/// Run by the test above, under callgrind.
#[test]
#[ignore = "a part of the_work_for_copies_of_one_map_grows_no_faster_than_their_number"]
fn one_check_of_the_named_image() {
    let Some(path) = std::env::var_os("FSMEND_COUNTED_IMAGE") else { return };
    check_of_copies(&fs::read(path).unwrap(), 32 << 20);
}
