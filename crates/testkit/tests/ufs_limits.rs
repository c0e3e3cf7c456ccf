// SPDX-License-Identifier: MIT OR Apache-2.0
//! Check and repair of UFS within limits: memory, and snapshots that must not change.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::Device;
use fsmend_engine::Progress;
use fsmend_engine::checker::Checker;
use fsmend_testkit::ufs::checked::{check, codes, image, manner, memory, plan_of};
use fsmend_testkit::ufs::{Image, KINDS, Make, Maker, Shape};
use fsmend_testkit::within::options;
use fsmend_ufs_check::Ufs;
use fsmend_ufs_format::group::{bit, set_bit};
use fsmend_ufs_format::inode::flags as inode_flags;
use fsmend_ufs_format::summary::Counts;
use fsmend_ufs_format::{ByteOrder, Version};

const HASHED: Make = KINDS[3];
const BIG_UFS1: Make = KINDS[1];

fn miscount(image: &mut Image) {
    image.amend_group(0, |group, _| {
        let counts = group.counts();
        group.set_counts(Counts { free_blocks: counts.free_blocks + 1, ..counts });
    });
}

fn leak_a_fragment(image: &mut Image) {
    image.amend_group(1, |group, geometry| {
        let map = group.fragment_map_mut(&geometry.layout);
        let free = (0..geometry.group_size).rev().find(|index| bit(map, *index)).unwrap();
        set_bit(map, free, false);
    });
}

fn miscount_links(image: &mut Image) {
    let inode = image.find("/d1/other-name").0;
    image.amend_inode(inode, |record| record.set_links(7));
}

/// An image whose file `single` is a snapshot: the first block that it shows was shared with the file system.
fn with_snapshot(make: Make, test: &str) -> Option<Image> {
    let mut image = image(make, test)?;
    let (inode, _) = image.find("single");
    image.amend_inode(inode, |record| record.set_flags(record.flags() | inode_flags::SNAPSHOT));
    image.amend_superblock(|sb| sb.set_snapshots(&[inode]));
    assert_eq!(codes(&check(&image.bytes, 1)), [""; 0]);
    Some(image)
}

/// A damage, and whether its repair leaves what a snapshot shows.
type Harm = (fn(&mut Image), bool);

#[test]
fn a_repair_that_would_change_what_a_snapshot_shows_is_refused() {
    for make in [HASHED, BIG_UFS1] {
        let Some(image) = with_snapshot(make, "a_repair_that_would_change_what_a_snapshot_shows_is_refused")
        else {
            return;
        };
        let damages: [Harm; 4] = [
            // Counts alone: the snapshot has its own.
            (miscount, true),
            (|image| image.amend_superblock(|sb| sb.set_minfree(101)), true),
            // What is marked in use and is not may be shown by the snapshot.
            (leak_a_fragment, false),
            (miscount_links, false),
        ];
        for (number, (damage, is_allowed)) in damages.into_iter().enumerate() {
            let mut image = Image::open(image.bytes.clone()).unwrap();
            damage(&mut image);
            assert_ne!(codes(&check(&image.bytes, 1)), [""; 0], "{make:?} {number}");
            match plan_of(&memory(&image.bytes), 2) {
                Ok(repair) => assert!(is_allowed && repair.is_clean(), "{make:?} {number}"),
                Err(why) => {
                    assert!(!is_allowed && why.contains("1 active snapshot,"), "{make:?} {number}: {why}")
                }
            }
        }
    }
}

#[test]
fn cylinder_groups_are_kept_as_far_as_memory_reaches_and_the_report_is_the_same() {
    let small = Shape::small(Version::Ufs1, ByteOrder::Little);
    let mut image = Maker::filled(Shape { groups: (2200, 192), group_inodes: 64, ..small }).finish();
    for group in [3, 400, 2199] {
        image.amend_group(group, |group, _| {
            let counts = group.counts();
            group.set_counts(Counts { free_blocks: counts.free_blocks + 1, ..counts });
        });
    }
    let device = memory(&image.bytes);
    let report = |memory: u64| {
        let counted = Arc::new(fsmend_device::Counted::new(Arc::clone(&device)));
        let shown: Arc<dyn Device> = counted.clone();
        let options = fsmend_engine::options::CheckOptions { memory, ..options(manner(2)) };
        let report = Checker(Ufs).check(&shown, &options, &Progress::new(), &AtomicBool::new(false)).ok()?;
        Some((
            report.findings.into_sorted().iter().map(fsmend_engine::Problem::message).collect::<Vec<_>>(),
            report.degraded,
            counted.total().1,
        ))
    };
    let (problems, degraded, requests) = report(256 << 20).unwrap();
    assert_eq!((problems.len(), degraded.len()), (3, 0), "{problems:?} {degraded:?}");
    let mut fewer = 0;
    for memory in (4..16).map(|mebibytes| mebibytes << 20) {
        let Some((told, degraded, more)) = report(memory) else { continue };
        assert_eq!(told, problems, "{memory}");
        let read_again = degraded
            .iter()
            .find_map(|line| line.strip_suffix(" times.")?.rsplit(' ').next()?.parse::<u64>().ok());
        assert_eq!(more - requests, read_again.unwrap_or(0), "{memory}: {degraded:?}");
        fewer += u32::from(read_again.is_some());
    }
    assert!(fewer > 2, "{fewer}");
}
