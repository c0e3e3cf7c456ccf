// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many files of a UFS that share one large map: what is read and claimed does not grow with their number, and the verdict does not depend on threads, nor on memory.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Counted, Device, MemoryDevice};
use fsmend_engine::Progress;
use fsmend_engine::checker::Checker;
use fsmend_engine::options::CheckOptions;
use fsmend_testkit::ufs::checked::{manner, repaired};
use fsmend_testkit::ufs::{Image, Maker, Shape};
use fsmend_testkit::within::options;
use fsmend_ufs_check::{Ufs, rows};
use fsmend_ufs_format::{ByteOrder, Version};

const DIRECTORIES: u32 = 8;
const VERSIONS: [Version; 2] = [Version::Ufs1, Version::Ufs2];

/// Files of 16 MiB of file system: a large one, and so many empty ones, which [`share`] makes copies of it. The large one is there as a whole, or has one block for each
/// indirect block.
fn made(version: Version, files: u32, is_sparse: bool) -> Image {
    let shape =
        Shape { groups: (DIRECTORIES, 4096), group_inodes: 128, ..Shape::small(version, ByteOrder::Little) };
    let mut made = Maker::new(shape);
    match is_sparse {
        false => made.file("/large", 2000 * 4096),
        true => made.sparse("/large", 400 * 1024 * 4096, |block| block % 512 != 511),
    }
    (0..DIRECTORIES).for_each(|directory| made.directory(&format!("/d{directory}")));
    (0..files).for_each(|file| made.file(&name(file), 0));
    made.finish()
}

fn name(file: u32) -> String {
    format!("/d{}/f{file}", file % DIRECTORIES)
}

/// The image with the first `files` empty files made copies of the large one.
fn share(made: &Image, files: u32) -> Image {
    let mut image = made.clone();
    let record = image.record(image.inode("/large"));
    for file in 0..files {
        image.amend(&name(file), |own| own.clone_from(&record));
    }
    image
}

/// The codes that a check finds, with their numbers, and the bytes that it reads.
fn checked(image: &Image, memory: u64, threads: usize) -> (BTreeMap<&'static str, u64>, u64) {
    let counted = Arc::new(Counted::new(MemoryDevice::new("copies", image.bytes.clone())));
    let device: Arc<dyn Device> = Arc::clone(&counted) as Arc<dyn Device>;
    let options = CheckOptions { memory, ..options(manner(threads)) };
    let report = Checker(Ufs).check(&device, &options, &Progress::new(), &AtomicBool::new(false));
    let report = report.unwrap_or_else(|refused| panic!("{}", refused.refusal));
    (report.findings.counts(), counted.total().0)
}

#[test]
fn what_is_read_for_copies_of_one_map_does_not_grow_with_their_number() {
    for (version, is_sparse) in VERSIONS.into_iter().flat_map(|version| [(version, false), (version, true)]) {
        let base = made(version, 800, is_sparse);
        let mut reads = Vec::new();
        for files in [100, 200, 400, 800] {
            let image = share(&base, files);
            let (found, read) = checked(&image, 256 << 20, 1);
            let (again, within_little) = checked(&image, 8 << 20, 7);
            assert_eq!(again, found, "{version:?} {files}");
            let most = 20 * image.bytes.len() as u64;
            assert!(read < most && within_little < most, "{version:?} {files}: {read}, {within_little}");
            let given_up = found.get(rows::MAP_CROWDED.code).copied().unwrap_or(0);
            assert_eq!(given_up > 0, is_sparse || files > 150, "{version:?} {files}: {found:?}");
            reads.push(read);
        }
        // Reading grows by the inodes and, for those given up, by a part of the map that is read before.
        assert!(reads[3] < 2 * reads[2], "{version:?}: {reads:?}");
    }
}

#[test]
fn the_first_copies_keep_what_they_share_and_one_repair_is_enough() {
    for version in VERSIONS {
        let image = share(&made(version, 200, true), 200);
        let after = repaired(&image.bytes, "copies of one map");
        let kept = (0..200).filter(|file| after.record(image.inode(&name(*file))).mode() != 0).count();
        assert!((1..200).contains(&kept), "{version:?}: {kept}");
    }
}
