//! Many files that share one large map: what is read does not grow with the number of files, and the verdict does not
//! depend on threads.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Counted, Device, MemoryDevice};
use fsmend_engine::Progress;
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

/// An image with `files` files that share a tree, all with this time of deletion.
fn image(files: usize, dtime: u32) -> Option<Vec<u8>> {
    if find_program("mke2fs").is_none() || find_program("debugfs").is_none() {
        skip("files that share a map", "needs mke2fs and debugfs");
        return None;
    }
    let path = target_folder().join(format!("crowd-{files}-{dtime}-{}.img", std::process::id()));
    File::create(&path).unwrap().set_len(BLOCK * BLOCKS).unwrap();
    let target = path.to_str().unwrap();
    run("mke2fs", ["-q", "-F", "-t", "ext2", "-b", "1024", "-N", "512", "-O", "^resize_inode", target])
        .unwrap();
    let mut commands = String::new();
    for file in 0..files {
        commands += &format!(
            "write /dev/null f{file}\nsif f{file} block[TIND] {ROOT}\nsif f{file} size 100000000\nsif f{file} dtime {dtime}\nsif f{file} blocks 8226\n"
        );
    }
    let script = path.with_extension("commands");
    fs::write(&script, commands).unwrap();
    run("debugfs", ["-w", "-f", script.to_str().unwrap(), target]).unwrap();
    plant_tree(&path);
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::remove_file(&script).unwrap();
    Some(bytes)
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
    let counted = Arc::new(Counted::new(MemoryDevice::new("crowd", image.to_vec())));
    let device: Arc<dyn Device> = Arc::clone(&counted) as Arc<dyn Device>;
    let manner = Manner { threads, ..Manner::default() };
    let options = CheckOptions { memory: 256 << 20, now: 4_000_000_000, ..options(manner) };
    let report = check(&device, &options, &Progress::new(), &AtomicBool::new(false)).unwrap();
    let found = report.findings.into_sorted();
    let lines = found.iter().map(|problem| format!("{} {}", problem.row.code, problem.message())).collect();
    (lines, counted.total().0 / BLOCK)
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
