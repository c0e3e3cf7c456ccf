// SPDX-License-Identifier: MIT OR Apache-2.0
//! hybridfs whose superblocks are lost: any one of the three is enough.
#![allow(clippy::unwrap_used, clippy::panic)]

mod hybridfs_common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, MemoryDevice, WritableDevice, WritableMemory};
use fsmend_engine::Progress;
use fsmend_engine::checker::Checker;
use fsmend_engine::options::SuperblockOptions;
use fsmend_engine::report::CheckReport;
use fsmend_hybridfs_check::Hybrid as Family;
use fsmend_hybridfs_check::rows;
use fsmend_hybridfs_driver::mkfs::{Options, mkfs};
use fsmend_hybridfs_driver::{Hybrid, MountOptions};
use fsmend_hybridfs_format::{SUPERBLOCK_OFFSET, Superblock};
use fsmend_testkit::driver::NOW;
use fsmend_vfs::Time;

use hybridfs_common::{check, manner, mended, told};

const UUID: [u8; 16] = *b"three are enough";

fn made(options: &Options, bytes: usize) -> Vec<u8> {
    let device = Arc::new(WritableMemory::new("image", vec![0; bytes]));
    mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, options).unwrap();
    device.bytes()
}

fn superblock(bytes: &[u8]) -> Superblock {
    Superblock::parse(&bytes[SUPERBLOCK_OFFSET as usize..][..512]).unwrap()
}

/// The bytes with only one of the superblocks left.
fn only(bytes: &[u8], kept: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let copies = superblock(&bytes).copies();
    for (_, place) in copies.into_iter().enumerate().filter(|(number, _)| *number != kept) {
        bytes[place as usize..][..512].fill(0x5A);
    }
    bytes
}

#[test]
fn any_one_superblock_is_enough() {
    let now = Time::at(NOW);
    let usual = Options::new(UUID, now);
    // The last one is no whole number of blocks long.
    for (options, bytes) in [
        (usual.clone(), 64 << 20),
        (Options::paper(UUID, now), 64 << 20),
        (Options { fragment_size: 512, block_size: 4096, ..usual.clone() }, 8 << 20),
        (Options { block_size: 65_536, ..usual }, (96 << 20) + 12_288),
    ] {
        let sound = made(&options, bytes);
        for kept in 0..3 {
            let damaged = only(&sound, kept);
            let report = check(&damaged, 2).unwrap();
            let lost = report.findings.iter().filter(|problem| *problem.row == rows::SUPERBLOCK);
            assert_eq!(lost.count(), 2, "copy {kept} of {options:?}: {:?}", told(&report));
            let device = Arc::new(WritableMemory::new("image", damaged.clone()));
            let fs = Hybrid::mount(device, MountOptions::read_only(now));
            assert!(fs.is_ok(), "copy {kept} of {options:?} is not found by a mount: {:?}", fs.err());
            let (_, repaired) = mended(&damaged);
            assert!(superblock(&repaired).copies() == superblock(&sound).copies());
        }
    }
}

#[test]
fn the_superblock_in_a_log_of_a_chosen_size_is_enough() {
    // A size that people choose, and any other.
    for log_bytes in [20 << 20, 13_456_789] {
        let options = Options { log_bytes: Some(log_bytes), ..Options::new(UUID, Time::at(NOW)) };
        let sound = made(&options, 64 << 20);
        for kept in 0..3 {
            let (_, repaired) = mended(&only(&sound, kept));
            assert!(superblock(&repaired).copies() == superblock(&sound).copies());
        }
        // One that lies where it says that it is no log.
        let (mut moved, place) = (only(&sound, 1), superblock(&sound).copies()[1] as usize);
        moved.copy_within(place..place + 512, place + (1 << 20));
        moved[place..place + 512].fill(0);
        let refused = check(&moved, 1).err().map(|refused| refused.refusal.code);
        assert_eq!(refused, Some("not-hybridfs"));
    }
}

/// A device too large to be searched: only where logs are likely to begin.
#[test]
fn large_devices_are_not_searched_everywhere() {
    for (log_bytes, is_found) in [(20 << 20, true), (13_456_789, false)] {
        let options = Options { log_bytes: Some(log_bytes), ..Options::new(UUID, Time::at(NOW)) };
        let bytes = only(&made(&options, 256 << 20), 1);
        assert_eq!(
            fsmend_hybridfs_check::superblock::find(&MemoryDevice::new("image", bytes.clone())).is_ok(),
            is_found
        );
        let device = Arc::new(WritableMemory::new("image", bytes));
        let mounted = Hybrid::mount(device, MountOptions::read_only(Time::at(NOW)));
        assert_eq!(mounted.is_ok(), is_found, "{:?}", mounted.err());
    }
}

/// `-b` was passed over. Two of the three are of an earlier file system, which most have: the one that is named counts.
#[test]
fn the_superblock_that_is_named_is_used() {
    let options = Options::new(UUID, Time::at(NOW));
    let sound = made(&options, 64 << 20);
    let [first, log, last] = superblock(&sound).copies();
    let mut older = superblock(&sound);
    older.reserve_blocks += 1;
    let older = older.store();
    let mut image = sound.clone();
    for place in [first, last] {
        image[place as usize..][..older.len()].copy_from_slice(&older);
    }
    let named = |block: u64, block_size: Option<u32>| {
        let mut options = fsmend_testkit::within::options(manner(1));
        options.superblock = SuperblockOptions { block: Some(block), block_size };
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("image", image.clone()));
        Checker(Family).check(&device, &options, &Progress::new(), &AtomicBool::new(false))
    };
    let used = |report: &CheckReport| {
        let differs = report.findings.iter().filter(|problem| *problem.row == rows::SUPERBLOCK_DIFFERS);
        differs.count()
    };
    assert_eq!(used(&check(&image, 1).unwrap()), 1, "the one in the log differs from the other two");
    for size in [None, Some(4096)] {
        assert_eq!(used(&named(log / 4096, size).unwrap()), 2, "{size:?}: the other two differ from it");
    }
    let refused = named(log / 4096 + 1, Some(4096)).err().map(|refused| refused.refusal.code);
    assert_eq!(refused, Some("no-superblock"));
}
