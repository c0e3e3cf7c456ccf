// SPDX-License-Identifier: MIT OR Apache-2.0
//! UFS that were lived in, made by our mkfs, Debian's makefs and FreeBSD's newfs, after what disks and people do to whole blocks, groups and maps: one repair makes them
//! sound, the same at any thread count, for us and for fsck_ffs; no file is lost or changed that fsck_ffs keeps. `FSMEND_DISASTERS=30` tries 30 seeds of each damage on each image.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command;

use fsmend_base::SeededRandom;
use fsmend_testkit::repair::Scratch;
use fsmend_testkit::ufs::disaster::{DISASTERS, Inventory};
use fsmend_testkit::ufs::judged::{Sound, judge, note, report};
use fsmend_testkit::ufs::lived_in::LivedIn;
use fsmend_testkit::ufs::{Image, KINDS, peers};
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
    let every = if seeds > 1 { 1 } else { 3 };
    let only = std::env::var("FSMEND_DISASTER").ok();
    let (mut failures, mut tried) = (Vec::new(), 0);
    for (number, base) in bases().iter().enumerate() {
        let has = Inventory::of(&base.image, &base.halfway);
        let sound = Sound::of(&base.image.bytes);
        // makefs says of UFS2 that its superblock is where that of UFS1 is, and fsck_ffs takes no such.
        let has_peer =
            base.image.geometry.order == Little && !base.name.contains("makefs Make { version: Ufs2");
        let has_peer = has_peer && peers::program("fsck_ffs").is_some();
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
