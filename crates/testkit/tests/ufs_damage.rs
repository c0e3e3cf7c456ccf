// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every field of a UFS image in eight ways, misdirected writes, random bytes: one repair makes it sound, the same at any thread count, for us and for fsck_ffs, and
//! keeps every name that fsck_ffs keeps.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::ops::Range;

use fsmend_base::SeededRandom;
use fsmend_testkit::damage::{MUTATIONS, Mutation};
use fsmend_testkit::ufs::checked::{check, codes};
use fsmend_testkit::ufs::damage::{STRUCTURED, spots};
use fsmend_testkit::ufs::judged::{judge, note, report};
use fsmend_testkit::ufs::{Image, Maker, Shape};
use fsmend_ufs_check::rows;
use fsmend_ufs_format::inode::mode;
use fsmend_ufs_format::{ByteOrder, Version};

fn bases() -> Vec<(Shape, Image)> {
    Shape::all().into_iter().map(|shape| (shape, Maker::filled(shape).finish())).collect()
}

fn has_peer(shape: &Shape) -> bool {
    shape.order == ByteOrder::Little
}

/// How many cases of the grid are tried: one in so many, all with `FSMEND_GRID=1`, one in ten with `FSMEND_GRID=10`.
fn step(usual: usize) -> usize {
    let asked = std::env::var("FSMEND_GRID").ok();
    asked.map_or(usual, |step| step.parse().ok().filter(|step| *step > 0).expect("FSMEND_GRID is a number"))
}

/// Seeds of random damage: `usual` ones, ten times as many with `FSMEND_GRID`; or those that `FSMEND_UFS_SEEDS` names, as in `100..300`.
fn seeds(usual: u64) -> Range<u64> {
    let Ok(asked) = std::env::var("FSMEND_UFS_SEEDS") else {
        return 0..if step(0) == 0 { usual } else { usual * 10 };
    };
    let (first, end) = asked.split_once("..").expect("FSMEND_UFS_SEEDS is FIRST..END");
    let number = |text: &str| text.parse().expect("FSMEND_UFS_SEEDS has numbers");
    number(first)..number(end)
}

#[test]
fn every_field_is_mended() {
    let (mut failures, mut tried) = (Vec::new(), 0);
    for (number, (shape, base)) in bases().into_iter().enumerate() {
        let cases = spots(&base)
            .into_iter()
            .flat_map(|spot| MUTATIONS.map(|mutation| (spot.clone(), mutation)))
            .flat_map(|(spot, mutation)| [false, true].map(|is_sealed| (spot.clone(), mutation, is_sealed)));
        for (index, (spot, mutation, is_sealed)) in cases.enumerate().skip(number * 5).step_by(step(41)) {
            let mut image = base.clone();
            spot.damage(&mut image, mutation, index as u64, is_sealed);
            tried += 1;
            // fsck_ffs takes a mode of all ones for a block held back as bad, and makes a file of one sector of anything.
            let is_held =
                spot.name.starts_with("inode") && spot.name.ends_with("+ 0") && mutation == Mutation::Ones;
            // It believes a wrong size of groups, and makes other files of what it finds by that.
            let is_believed = spot.name == "superblock + 188";
            if let Err(why) = judge(&image.bytes, None, has_peer(&shape) && !is_held && !is_believed) {
                note(
                    &mut failures,
                    &image.bytes,
                    format!(
                        "{:?} {:?} {} {mutation:?} sealed {is_sealed} ({index}): {why}",
                        shape.version, shape.order, spot.name
                    ),
                );
            }
        }
    }
    report(&failures, tried);
}

/// fsck_ffs clears device files with the number of no device: they cannot be opened.
#[test]
fn a_device_file_without_a_device_is_found() {
    for shape in Shape::all() {
        for device in [mode::CHARACTER, mode::BLOCK] {
            let mut made = Maker::filled(shape);
            made.special("/d/device", device | 0o600);
            let mut image = made.finish();
            assert_eq!(codes(&check(&image.bytes, 1)), [""; 0], "{shape:?}");
            let none = if shape.version == Version::Ufs1 { u32::MAX.into() } else { u64::MAX };
            image.amend("/d/device", |record| record.set_pointer(0, none));
            let found = codes(&check(&image.bytes, 1));
            assert!(found.contains(&rows::DEVICE_NONE.code), "{shape:?}: {found:?}");
            assert_eq!(judge(&image.bytes, None, has_peer(&shape)), Ok(()), "{shape:?}");
        }
    }
}

#[test]
fn structured_damage_is_mended() {
    let (mut failures, mut tried) = (Vec::new(), 0);
    for (shape, base) in bases() {
        for (name, damage) in STRUCTURED {
            for seed in seeds(2) {
                let mut image = base.clone();
                damage(&mut image, &mut SeededRandom::new(seed));
                tried += 1;
                if let Err(why) = judge(&image.bytes, None, has_peer(&shape)) {
                    note(
                        &mut failures,
                        &image.bytes,
                        format!("{:?} {:?} {name} seed {seed}: {why}", shape.version, shape.order),
                    );
                }
            }
        }
    }
    report(&failures, tried);
}

#[test]
fn random_damage_is_mended() {
    let (mut failures, mut tried) = (Vec::new(), 0);
    for (shape, base) in bases() {
        for seed in seeds(10) {
            let mut random = SeededRandom::new(seed);
            let mut image = base.clone();
            for _ in 0..1 + random.below(20) {
                // Where metadata is: what lies before the data of any group.
                let group = random.below(image.geometry.groups.into()) as u32;
                let (start, end) = image.geometry.reserved(group);
                let end = image.geometry.place(end + 64);
                let at = image.geometry.place(start) + random.below(end - image.geometry.place(start));
                image.bytes[at as usize] = random.next_u64() as u8;
            }
            tried += 1;
            // What fsck_ffs makes of several damages at once is no measure.
            if let Err(why) = judge(&image.bytes, None, false) {
                note(
                    &mut failures,
                    &image.bytes,
                    format!("{:?} {:?} seed {seed}: {why}", shape.version, shape.order),
                );
            }
        }
    }
    report(&failures, tried);
}

#[test]
fn several_misdirected_writes_are_mended_at_once() {
    let (mut failures, mut tried) = (Vec::new(), 0);
    for (shape, base) in bases() {
        for seed in seeds(4) {
            let mut random = SeededRandom::new(seed);
            let mut image = base.clone();
            let mut names = Vec::new();
            for _ in 0..2 + random.below(3) {
                let (name, damage) = STRUCTURED[random.below(STRUCTURED.len() as u64) as usize];
                names.push(name);
                // What is damaged already may not be found again.
                let next = std::panic::AssertUnwindSafe(|| damage(&mut image, &mut random));
                if std::panic::catch_unwind(next).is_err() {
                    break;
                }
            }
            tried += 1;
            // What fsck_ffs makes of several damages at once is no measure.
            if let Err(why) = judge(&image.bytes, None, false) {
                note(
                    &mut failures,
                    &image.bytes,
                    format!("{:?} {:?} {names:?} seed {seed}: {why}", shape.version, shape.order),
                );
            }
        }
    }
    report(&failures, tried);
}
