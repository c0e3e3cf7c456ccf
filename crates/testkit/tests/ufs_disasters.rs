// SPDX-License-Identifier: MIT OR Apache-2.0
//! UFS that were lived in, made by our mkfs, Debian's makefs and FreeBSD's newfs, after what disks and people do to whole blocks, groups and maps: one repair makes them
//! sound, the same at any thread count, for us and for fsck_ffs; no file is lost or changed that fsck_ffs keeps. `FSMEND_DISASTERS=30` tries 30 seeds of each damage on each
//! image, `FSMEND_DISASTER` names the damages that are tried.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command;

use fsmend_base::SeededRandom;
use fsmend_testkit::repair::Scratch;
use fsmend_testkit::ufs::checked::{check, codes, repaired};
use fsmend_testkit::ufs::disaster::{DISASTERS, Inventory, pointer, put_pointer};
use fsmend_testkit::ufs::judged::{Sound, judge, note, report};
use fsmend_testkit::ufs::lived_in::LivedIn;
use fsmend_testkit::ufs::{Image, KINDS, peers, tree};
use fsmend_ufs_check::rows;
use fsmend_ufs_format::ByteOrder::{Big, Little};
use fsmend_ufs_format::Version::{Ufs1, Ufs2};

/// An image filled by our driver after newfs made it, and tunefs gave it a journal if there is to be one; `None` without these programs.
fn by_newfs(arguments: &[&str], has_journal: bool, bytes: usize) -> Option<LivedIn> {
    let file = Scratch::with(&vec![0; bytes]).unwrap();
    let programs = [("newfs", arguments), ("tunefs", &["-j", "enable"])];
    for (program, arguments) in programs.into_iter().take(1 + usize::from(has_journal)) {
        let output =
            Command::new(peers::program(program)?).args(arguments).arg(file.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Some(LivedIn::filled(format!("newfs {arguments:?}"), std::fs::read(file.path()).unwrap()))
}

fn bases() -> Vec<LivedIn> {
    let mut bases = vec![
        LivedIn::made(Ufs2, Little, (4096, 512), 12 << 20),
        LivedIn::made(Ufs1, Little, (8192, 1024), 14 << 20),
        LivedIn::made(Ufs2, Big, (4096, 4096), 14 << 20),
        LivedIn::made(Ufs1, Big, (4096, 512), 12 << 20),
        LivedIn::made(Ufs2, Little, (32768, 4096), 24 << 20),
    ];
    bases.extend(by_newfs(&["-O2", "-U", "-b", "4096", "-f", "512"], true, 24 << 20));
    bases.extend(by_newfs(&["-O1", "-b", "4096", "-f", "1024"], false, 12 << 20));
    for kind in [KINDS[0], KINDS[3]] {
        bases.extend(Image::of(kind).map(|image| {
            let halfway = image.bytes.clone();
            LivedIn { name: format!("makefs {kind:?}"), image, halfway }
        }));
    }
    bases
}

#[test]
fn disasters_are_mended_in_one_run_and_cost_no_more_than_with_fsck_ffs() {
    let seeds: u64 = std::env::var("FSMEND_DISASTERS").map_or(1, |value| value.parse().unwrap());
    let every = if seeds > 1 { 1 } else { 5 };
    let only = std::env::var("FSMEND_DISASTER").ok();
    let (mut failures, mut tried) = (Vec::new(), 0);
    for (number, base) in bases().iter().enumerate() {
        let has = Inventory::of(&base.image, &base.halfway);
        let sound = Sound::of(&base.image.bytes);
        // makefs says of UFS2 that its superblock is where that of UFS1 is, and fsck_ffs takes no such.
        let has_peer =
            base.image.geometry.order == Little && !base.name.contains("makefs Make { version: Ufs2");
        assert_eq!(judge(&base.image.bytes, Some(&sound), has_peer), Ok(()), "{}", base.name);
        for (name, disaster) in DISASTERS.iter().skip(number % every).step_by(every) {
            if only.as_ref().is_some_and(|only| !name.contains(only)) {
                continue;
            }
            for seed in 0..seeds {
                let mut image = base.image.clone();
                disaster(&mut image, &has, &mut SeededRandom::new(seed * 1000 + number as u64));
                tried += 1;
                let judged = std::panic::catch_unwind(|| judge(&image.bytes, Some(&sound), has_peer));
                if let Err(why) = judged.unwrap_or_else(|_| Err("panic".to_owned())) {
                    note(&mut failures, &image.bytes, format!("{}, {name}, seed {seed}: {why}", base.name));
                }
            }
        }
    }
    report(&failures, tried);
}

#[test]
fn several_disasters_at_once_are_mended_in_one_run() {
    let seeds: u64 = std::env::var("FSMEND_DISASTERS").map_or(2, |value| value.parse::<u64>().unwrap() * 2);
    let (mut failures, mut tried) = (Vec::new(), 0);
    for (number, base) in bases().iter().enumerate() {
        let has = Inventory::of(&base.image, &base.halfway);
        for seed in 0..seeds {
            let mut random = SeededRandom::new(seed * 1000 + number as u64);
            let (mut image, mut names) = (base.image.clone(), Vec::new());
            for _ in 0..2 + random.below(4) {
                let (name, disaster) = DISASTERS[random.below(DISASTERS.len() as u64) as usize];
                // What is damaged already may not be found again.
                let next = std::panic::AssertUnwindSafe(|| disaster(&mut image, &has, &mut random));
                if std::panic::catch_unwind(next).is_err() {
                    break;
                }
                names.push(name);
            }
            tried += 1;
            // What fsck_ffs makes of several damages at once is no measure.
            let judged = std::panic::catch_unwind(|| judge(&image.bytes, None, false));
            let judged = judged.unwrap_or_else(|_| Err("panic".to_owned()));
            // Without any copy of the superblock it is refused, and that is all.
            let is_refused = |why: &String| why.contains("no superblock or copy of one was found");
            if let Err(why) = judged.or_else(|why| if is_refused(&why) { Ok(()) } else { Err(why) }) {
                note(&mut failures, &image.bytes, format!("{}, {names:?}, seed {seed}: {why}", base.name));
            }
        }
    }
    report(&failures, tried);
}

/// Names in `/many` that are not there any more, of those that do not stand in the lost blocks.
fn lost_beside(base: &LivedIn, image: &Image, lost: &[u64]) -> Vec<String> {
    let judged = judge(&image.bytes, None, base.image.geometry.order == Little);
    assert_eq!(judged, Ok(()), "{}", base.name);
    let after = tree(&repaired(&image.bytes, &base.name).bytes);
    let geometry = &base.image.geometry;
    let blocks: Vec<u64> = lost.iter().map(|fragment| geometry.place(*fragment)).collect();
    let is_lost = |at: u64| blocks.iter().any(|block| (*block..block + geometry.block_size).contains(&at));
    let before = tree(&base.image.bytes);
    let names =
        before.iter().filter(|(path, node)| path.starts_with("/many/") && !is_lost(node.chunk as u64));
    names.filter(|(path, _)| !after.contains_key(*path)).map(|(path, _)| path.clone()).collect()
}

/// A directory is not cut where a block of it is missing: what is behind moves up.
#[test]
fn a_missing_block_of_a_large_directory_costs_only_the_names_in_it() {
    for (version, order) in [(Ufs2, Little), (Ufs1, Big)] {
        let base = LivedIn::made(version, order, (4096, 512), 12 << 20);
        let inode = base.image.inode("/many");
        let record = base.image.record(inode);
        assert!(record.size() > 13 * 4096, "{}", record.size());
        let indirect = record.pointer(12);
        let behind = pointer(&base.image, indirect, 0);
        let [first, third] = [0, 3].map(|slot| record.pointer(slot));
        let cases: [(&[usize], bool, bool); 6] = [
            (&[3], false, false),
            (&[0], false, false),
            (&[], true, false),
            // The count of sectors knows of the hole: nothing else tells.
            (&[], true, true),
            (&[3], true, true),
            (&[0, 3], true, false),
        ];
        for (slots, is_behind, is_counted) in cases {
            let mut image = base.image.clone();
            let mut lost: Vec<u64> =
                slots.iter().map(|slot| if *slot == 0 { first } else { third }).collect();
            if is_behind {
                put_pointer(&mut image, indirect, 0, 0);
                lost.push(behind);
            }
            image.amend_inode(inode, |record| {
                slots.iter().for_each(|slot| record.set_pointer(*slot, 0));
                if is_counted {
                    record.set_sectors(record.sectors() - lost.len() as u64 * 8);
                }
            });
            let found = codes(&check(&image.bytes, 1));
            assert!(
                found.contains(&rows::DIRECTORY_HOLE.code),
                "{version:?} {slots:?} {is_behind}: {found:?}"
            );
            let gone = lost_beside(&base, &image, &lost);
            // `.` and `..` take the place of a name or two in what becomes the first block.
            let most = if slots.contains(&0) { 2 } else { 0 };
            assert!(gone.len() <= most, "{version:?} {slots:?} {is_behind}: {gone:?}");
        }
    }
}

/// Extended attributes that lie in the block of another file were cut there, before each file had its own.
#[test]
fn what_mends_one_file_is_not_written_into_a_block_of_another() {
    let base = LivedIn::made(Ufs2, Little, (4096, 512), 12 << 20);
    let sound = Sound::of(&base.image.bytes);
    for (one, other) in [("/dir7/file5", "/dir3/file1"), ("/dir3/file1", "/dir7/file5")] {
        let mut image = base.image.clone();
        let to = image.record(image.inode(other)).pointer(0);
        image.amend(one, |record| {
            record.set_attributes_size(64);
            record.set_attribute_block(0, to);
        });
        assert_eq!(judge(&image.bytes, Some(&sound), false), Ok(()), "{one} {other}");
        // A directory there is no other matter.
        let mut image = base.image.clone();
        let inode = image.inode("/dir5");
        image.amend_inode(inode, |record| record.set_pointer(0, to));
        assert_eq!(judge(&image.bytes, Some(&sound), false), Ok(()), "/dir5 {other}");
    }
}

/// Of two names of a directory the one stays that its `..` leads to, whichever is met first, and whether or not the other directory is damaged otherwise.
#[test]
fn the_name_stays_that_the_directory_itself_tells() {
    for (version, order) in [(Ufs2, Little), (Ufs1, Big)] {
        let base = LivedIn::made(version, order, (8192, 1024), 14 << 20);
        for is_damaged in [false, true] {
            let mut image = base.image.clone();
            let path = "/deep/level0/level1";
            let (inode, at) = (image.inode(path), image.entry_at("/", "many"));
            order.put_u32(&mut image.bytes, at, inode);
            if is_damaged {
                let at = image.entry_at("/", "single");
                image.bytes[at + 6] = 4;
            }
            assert_eq!(judge(&image.bytes, None, order == Little), Ok(()), "{version:?} {is_damaged}");
            let (before, after) = (tree(&base.image.bytes), tree(&repaired(&image.bytes, path).bytes));
            let lost: Vec<&String> = before
                .keys()
                .filter(|name| name.starts_with("/deep/") && !after.contains_key(*name))
                .collect();
            assert!(lost.is_empty(), "{version:?} {is_damaged}: {lost:?}");
            assert!(!after.contains_key("/many"), "{version:?} {is_damaged}");
        }
    }
}
