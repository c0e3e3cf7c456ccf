// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many files of a hybridfs that share one large map: what is read does not grow with their number, and the verdict does not depend on threads, nor on memory.
#![allow(clippy::unwrap_used, clippy::panic)]

mod hybridfs_common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Counted, Device, MemoryDevice, WritableDevice, WritableMemory};
use fsmend_engine::Progress;
use fsmend_engine::checker::Checker;
use fsmend_engine::options::CheckOptions;
use fsmend_hybridfs_check::{Hybrid as Family, rows};
use fsmend_hybridfs_driver::mkfs::mkfs;
use fsmend_hybridfs_format::INODE_LEN;
use fsmend_testkit::driver::NOW;
use fsmend_testkit::hybridfs::{Image, mounted, options as small};
use fsmend_testkit::within::options;
use fsmend_vfs::{FileSystem, Permissions, Time};
use hybridfs_common::{manner, plan, told, with};

const OF: Permissions = Permissions { mode: 0o644, uid: 0, gid: 0 };
const MANY: usize = 800;

/// A file system of 16 MiB with a large file and [`MANY`] of a few bytes. The inode of the large one comes first.
fn made() -> (Image, Vec<u32>) {
    let now = Time::at(NOW);
    let device = Arc::new(WritableMemory::new("copies", vec![0; 16 << 20]));
    mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, &small()).unwrap();
    let mut fs = mounted(&device);
    let root = fs.root();
    let mut inodes = Vec::new();
    for number in 0..=MANY {
        let file = fs.create(root, format!("f{number}").as_bytes(), OF, now).unwrap().inode;
        let len = if number == 0 { 8 << 20 } else { 10 };
        fs.write(file, 0, &vec![7; len], now).unwrap();
        inodes.push(file.0 as u32);
    }
    fs.unmount(now).unwrap();
    (Image::of(device.bytes()), inodes)
}

/// The image with the first `files` small files made copies of the large one.
fn share(image: &Image, inodes: &[u32], files: usize) -> Image {
    let (mut image, large) = (image.clone(), image.inode(inodes[0]));
    let uuid = image.sb.uuid;
    for inode in &inodes[1..=files] {
        let (at, own) = (image.inode_at(*inode), image.inode(*inode));
        let copy = fsmend_hybridfs_format::Inode {
            number: own.number,
            generation: own.generation,
            birth: own.birth,
            ..large.clone()
        };
        image.bytes[at..at + INODE_LEN].copy_from_slice(&copy.store(&uuid));
    }
    image.seal_rows();
    image
}

/// The codes that a check finds, with their numbers, and the bytes that it reads.
fn checked(image: &Image, memory: u64, threads: usize) -> (BTreeMap<&'static str, u64>, u64) {
    let counted = Arc::new(Counted::new(MemoryDevice::new("copies", image.bytes.clone())));
    let device: Arc<dyn Device> = Arc::clone(&counted) as Arc<dyn Device>;
    let options = CheckOptions { memory, ..options(manner(threads)) };
    let report = Checker(Family).check(&device, &options, &Progress::new(), &AtomicBool::new(false));
    let report = report.unwrap_or_else(|refused| panic!("{}", refused.refusal));
    (report.findings.counts(), counted.total().0)
}

#[test]
fn what_is_read_for_copies_of_one_map_does_not_grow_with_their_number() {
    let (base, inodes) = made();
    for files in [100, 200, 400, MANY] {
        let image = share(&base, &inodes, files);
        let (found, read) = checked(&image, 256 << 20, 1);
        let (again, within_little) = checked(&image, 8 << 20, 7);
        assert_eq!(again, found, "{files}");
        let most = 2 * image.bytes.len() as u64;
        assert!(read < most && within_little < most, "{files}: {read}, {within_little}");
        let given_up = found.get(rows::MAP_CROWDED.code).copied().unwrap_or(0);
        assert_eq!(given_up > 0, files > 150, "{files}: {found:?}");
    }
}

#[test]
fn the_first_copies_keep_what_they_share_and_one_repair_is_enough() {
    let (base, inodes) = made();
    let image = share(&base, &inodes, 200);
    let repair = plan(&image.bytes, 2).unwrap();
    assert!(repair.is_clean(), "{:?}", told(&repair.left));
    let after = Image::of(with(&image.bytes, &repair.changes));
    let live = after.live();
    assert!(live.contains(&inodes[0]) && !live.contains(&inodes[200]), "{live:?}");
}
