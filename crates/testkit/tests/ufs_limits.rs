// SPDX-License-Identifier: MIT OR Apache-2.0
//! Check and repair of UFS within limits: memory, and snapshots that must not change.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::Device;
use fsmend_engine::checker::Checker;
use fsmend_engine::options::{RepairOptions, RepairPolicy};
use fsmend_engine::repair::{self, Whole};
use fsmend_engine::{Problem, Progress};
use fsmend_testkit::ufs::checked::{check, codes, folder, image, manner, memory, plan_of, repaired, with};
use fsmend_testkit::ufs::{Image, KINDS, Make, Maker, Shape, peers};
use fsmend_testkit::within::options;
use fsmend_ufs_check::{Ufs, rows};
use fsmend_ufs_format::group::{bit, set_bit};
use fsmend_ufs_format::inode::{InodeFlags, Path};
use fsmend_ufs_format::summary::Counts;
use fsmend_ufs_format::superblock::{SUPERBLOCK_MAX, Superblock};
use fsmend_ufs_format::{ByteOrder, Geometry, Version};

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

/// Where the list of the snapshot in [`with_snapshot`] stands: a fragment.
fn list_at(image: &Image) -> u64 {
    let geometry = &image.geometry;
    let last = geometry.size.div_ceil(geometry.fragments);
    let path = Path::to(last, geometry.pointers).unwrap();
    let record = image.record(image.find("single").0);
    let size = geometry.version.pointer_size();
    (0..path.levels).fold(record.pointer(path.pointer(last)), |fragment, level| {
        let at = geometry.place(fragment) as usize + path.indices[level] as usize * size;
        let stored = &image.bytes[at..at + size];
        if size == 4 { geometry.order.u32(stored, 0).into() } else { geometry.order.u64(stored, 0) }
    })
}

/// Blocks of which a snapshot has copies from the start, behind its direct pointers.
fn copied(geometry: &Geometry) -> Vec<u64> {
    let groups = (0..geometry.groups).map(|group| geometry.group_place(group) / geometry.block_size);
    let summary = geometry.place(geometry.summary.0) / geometry.block_size;
    let all: BTreeSet<u64> =
        groups.chain([summary, geometry.superblock_place / geometry.block_size, summary + 40]).collect();
    all.into_iter().filter(|block| *block >= 12).collect()
}

/// An image whose file `single` is a snapshot: its first block is shared with the file system, and behind all that it shows stands the list of the blocks that were copied.
fn with_snapshot(make: Make, test: &str) -> Option<Image> {
    let mut image = image(make, test)?;
    let (inode, _) = image.find("single");
    let geometry = image.geometry.clone();
    let (last, order) = (geometry.size.div_ceil(geometry.fragments), geometry.order);
    let path = Path::to(last, geometry.pointers).unwrap();
    // The list, and the indirect blocks on the way to it, are put where nothing is.
    let mut free = Vec::new();
    image.amend_group(geometry.groups - 1, |group, geometry| {
        let map = group.cluster_map(&geometry.layout);
        let start = geometry.group_start(geometry.groups - 1);
        let blocks = (0..geometry.group_length(geometry.groups - 1) / geometry.fragments).rev();
        let whole = blocks.filter(|block| bit(map, *block)).map(|block| start + block * geometry.fragments);
        free.extend(whole.take(path.levels + 1));
    });
    let size = geometry.version.pointer_size();
    for fragment in &free {
        image.fragments(*fragment, geometry.fragments).fill(0);
    }
    for (level, fragments) in free.windows(2).enumerate() {
        let at = path.indices[level] as usize * size;
        let block = image.fragments(fragments[0], geometry.fragments);
        if size == 4 {
            order.put_u32(block, at, fragments[1] as u32);
        } else {
            order.put_u64(block, at, fragments[1]);
        }
    }
    let list = copied(&geometry);
    let block = image.fragments(free[path.levels], geometry.fragments);
    [list.len() as u64]
        .into_iter()
        .chain(list)
        .enumerate()
        .for_each(|(index, entry)| order.put_u64(block, 8 * index, entry));
    image.amend_inode(inode, |record| {
        record.set_pointer(path.pointer(last), free[0]);
        record.set_size((last + 1) * geometry.block_size);
        let more = free.len() as u64 * geometry.block_size / 512;
        record.set_sectors(record.sectors() + more);
    });
    // Only the maps lack the new blocks.
    let mut image = repaired(&image.bytes, "new blocks");
    image.amend_inode(inode, |record| record.set_flags(record.flags() | InodeFlags::SNAPSHOT));
    image.amend_superblock(|sb| sb.set_snapshots(&[inode]));
    assert_eq!(codes(&check(&image.bytes, 1)), [""; 0]);
    Some(image)
}

#[test]
fn a_snapshot_without_the_blocks_that_it_needs_is_none() {
    let test = "a_snapshot_without_the_blocks_that_it_needs_is_none";
    for make in [HASHED, BIG_UFS1, KINDS[0]] {
        let Some(image) = with_snapshot(make, test) else { return };
        let (at, order) = (list_at(&image), image.geometry.order);
        let damages: [fn(&mut [u8], ByteOrder); 3] = [
            |list, order| order.put_u64(list, 0, 1),
            |list, order| {
                // The last one: the last group.
                let at = 8 * order.u64(list, 0) as usize;
                order.put_u64(list, at, order.u64(list, at) + 1);
            },
            |list, _| list.fill(0),
        ];
        for damage in damages {
            let mut damaged = Image::open(image.bytes.clone()).unwrap();
            damage(damaged.fragments(at, 1), order);
            let found = codes(&check(&damaged.bytes, 2));
            assert_eq!(found, [rows::SNAPSHOT_BLOCKS.code], "{make:?}");
            let mended = repaired(&damaged.bytes, "a list");
            let place = mended.geometry.superblock_place as usize;
            let superblock = Superblock::parse(&mended.bytes[place..place + SUPERBLOCK_MAX]).unwrap();
            assert_eq!(superblock.snapshots().count(), 0, "{make:?}");
            if make == KINDS[0]
                && let Some(answer) = peers::finds(&damaged.bytes, &folder(test)).unwrap()
            {
                let says = |said: &&str| answer.printed.contains(*said);
                assert!(rows::SNAPSHOT_BLOCKS.messages.iter().any(says), "{}", answer.printed);
            }
        }
        if make == KINDS[0]
            && let Some(answer) = peers::finds(&image.bytes, &folder(test)).unwrap()
        {
            assert!(answer.is_clean() && !answer.printed.contains("Removing"), "{}", answer.printed);
        }
    }
}

#[test]
fn a_snapshot_that_is_to_stay_stays_and_the_rest_is_mended() {
    for make in [HASHED, BIG_UFS1] {
        let Some(mut image) = with_snapshot(make, "a_snapshot_that_is_to_stay_stays_and_the_rest_is_mended")
        else {
            return;
        };
        let (at, inode) = (list_at(&image), image.find("single").0);
        image.fragments(at, 1).fill(0);
        image.amend("/d1", |record| record.set_links(7));
        let device = memory(&image.bytes);
        let whole = plan_of(&device, manner(2)).unwrap();
        let found: Vec<&Problem> = whole.found.findings.iter().collect();
        let declined: Vec<&Problem> =
            found.iter().copied().filter(|problem| problem.row.code == rows::SNAPSHOT_BLOCKS.code).collect();
        assert_eq!((declined.len(), found.len()), (1, 2), "{make:?}: {found:?}");
        let options = RepairOptions { check: options(manner(2)), policy: RepairPolicy::default() };
        let asked = Whole { writes: whole.writes(), mends: &whole.mends, found: &found };
        let watch = (&Progress::new(), &AtomicBool::new(false));
        let rest = repair::without(&Checker(Ufs), &device, &options, asked, &declined, watch);
        let rest = rest.unwrap().unwrap_or_else(|| panic!("{make:?}: it has to be possible"));
        assert_eq!(codes(&rest.left), [rows::SNAPSHOT_BLOCKS.code], "{make:?}");
        let after = Image::open(with(&image.bytes, &rest.changes)).unwrap();
        let place = after.geometry.superblock_place as usize;
        let superblock = Superblock::parse(&after.bytes[place..place + SUPERBLOCK_MAX]).unwrap();
        assert_eq!(superblock.snapshots().collect::<Vec<_>>(), [inode], "{make:?}");
    }
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
            match plan_of(&memory(&image.bytes), manner(2)) {
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
