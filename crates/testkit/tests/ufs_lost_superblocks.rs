// SPDX-License-Identifier: MIT OR Apache-2.0
//! UFS without any superblock that could be used: the cylinder groups tell the layout, one repair makes the superblock and its copies again, and every file is kept. Where the groups do not
//! agree, it is refused.
#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend::FAMILIES;
use fsmend_testkit::repair::Scratch;
use fsmend_testkit::ufs::checked::{check, codes, manner, memory, plan_of, repaired};
use fsmend_testkit::ufs::judged::{Sound, judge};
use fsmend_testkit::ufs::lived_in::LivedIn;
use fsmend_testkit::ufs::{Image, KINDS, Maker, Shape, peers};
use fsmend_ufs_check::{opening, rows};
use fsmend_ufs_format::ByteOrder::{Big, Little};
use fsmend_ufs_format::Geometry;
use fsmend_ufs_format::Version::{self, Ufs1, Ufs2};
use fsmend_ufs_format::superblock::{Recovery, SUPERBLOCK_MAX, Superblock};

/// Calls `change` with the bytes of the superblock and of each copy.
fn each_superblock(image: &mut Image, change: &mut dyn FnMut(&mut [u8])) {
    let mut places = vec![image.geometry.superblock_place];
    places.extend((0..image.geometry.groups).map(|group| image.geometry.superblock_copy(group)));
    for place in places {
        change(&mut image.bytes[place as usize..][..SUPERBLOCK_MAX]);
    }
}

/// Wipes the superblock, its copies and the record that helps to find them.
fn wipe(image: &mut Image) {
    each_superblock(image, &mut |bytes| bytes.fill(0));
    if image.geometry.version == Version::Ufs2 {
        image.bytes[Recovery::PLACE as usize..][..20].fill(0);
    }
}

fn wipe_group(image: &mut Image, group: u32) {
    let (at, len) = (image.geometry.group_place(group) as usize, image.geometry.group_bytes as usize);
    image.bytes[at..at + len].fill(0);
}

/// Every file is there after one repair; fsck_ffs agrees where it can be asked.
fn mended(image: &Image, sound: &Sound, what: &str) -> Image {
    assert!(codes(&check(&image.bytes, 2)).contains(&rows::SUPERBLOCK_REBUILT.code), "{what}");
    // fsck_ffs looks for a superblock of UFS2 in one place only.
    let is_known = image.geometry.order == Little
        && (image.geometry.version == Ufs1 || image.geometry.superblock_place == 65536);
    assert_eq!(judge(&image.bytes, Some(sound), is_known), Ok(()), "{what}");
    repaired(&image.bytes, what)
}

fn lost_and_found(name: &str, image: &Image) {
    let sound = Sound::of(&image.bytes);
    let last = image.geometry.groups - 1;
    let mut damaged = image.clone();
    wipe(&mut damaged);
    assert!(opening::recognises(&*memory(&damaged.bytes)), "{name}");
    let after = mended(&damaged, &sound, name);
    // The metadata area is a hint.
    let metadata_area = image.geometry.metadata_area;
    assert_eq!(Geometry { metadata_area, ..after.geometry }, image.geometry, "{name}");
    for group in [0, last] {
        // The only group that is known cannot be done without.
        if last > 0 {
            let mut damaged = damaged.clone();
            wipe_group(&mut damaged, group);
            let after = mended(&damaged, &sound, &format!("{name}, group {group}"));
            assert_eq!(after.geometry.size, image.geometry.size, "{name} {group}");
        }
    }
}

#[test]
fn all_superblocks_are_made_again_from_the_groups() {
    for (version, order, sizes, mebibytes) in [
        (Ufs2, Little, (4096, 512), 12),
        (Ufs1, Little, (8192, 1024), 14),
        (Ufs2, Big, (4096, 4096), 14),
        (Ufs1, Big, (4096, 512), 12),
        (Ufs2, Little, (32768, 4096), 24),
        (Ufs1, Little, (16384, 4096), 24),
        (Ufs2, Big, (65536, 8192), 40),
        (Ufs1, Big, (65536, 32768), 40),
    ] {
        let base = LivedIn::made(version, order, sizes, mebibytes << 20);
        lost_and_found(&base.name, &base.image);
    }
}

#[test]
fn superblocks_of_other_makers_are_made_again() {
    for kind in KINDS {
        if let Some(image) = Image::of(kind) {
            lost_and_found(&format!("{kind:?}"), &image);
        }
    }
    for arguments in [
        &["-O2", "-U", "-b", "4096", "-f", "512"][..],
        &["-O1", "-b", "8192", "-f", "2048"],
        &["-O2", "-b", "16384", "-f", "16384", "-a", "1"],
    ] {
        let Some(newfs) = peers::program("newfs") else { return };
        let file = Scratch::with(&vec![0; 24 << 20]).unwrap();
        let output = std::process::Command::new(newfs).args(arguments).arg(file.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let base = LivedIn::filled(format!("newfs {arguments:?}"), std::fs::read(file.path()).unwrap());
        lost_and_found(&base.name, &base.image);
    }
}

#[test]
fn one_group_is_enough() {
    for shape in Shape::all() {
        let mut image = Maker::filled(Shape { groups: (1, 2048), ..shape }).finish();
        let (sound, geometry) = (Sound::of(&image.bytes), image.geometry.clone());
        wipe(&mut image);
        assert_eq!(mended(&image, &sound, &format!("{shape:?}")).geometry.size, geometry.size);
    }
}

/// The copies do not help, but settings are taken from what is left of them.
#[test]
fn what_is_left_of_a_superblock_keeps_its_settings() {
    for (version, order) in [(Ufs2, Little), (Ufs1, Big), (Ufs1, Little), (Ufs2, Big)] {
        let mut image = LivedIn::made(version, order, (8192, 1024), 14 << 20).image;
        image.amend_superblock(|superblock| {
            superblock.set_label(b"precious");
            superblock.set_minfree(3);
        });
        let sound = Sound::of(&image.bytes);
        // The first superblock keeps most: the number of groups and the size of blocks are wrong, the magic is gone.
        each_superblock(&mut image, &mut |bytes| {
            order.put_u32(bytes, 44, 77);
            order.put_u32(bytes, 48, 512);
            order.put_u32(bytes, 1372, 0);
        });
        if version == Ufs2 {
            image.bytes[Recovery::PLACE as usize..][..20].fill(0);
        }
        let after = mended(&image, &sound, &format!("{version:?} {order:?}"));
        let superblock = Superblock::parse(&after.bytes[after.geometry.superblock_place as usize..]).unwrap();
        assert_eq!((superblock.label(), superblock.minfree()), (b"precious".as_slice(), 3));
    }
}

/// A superblock of UFS1 has no check hash: a wrong size makes sense, and cuts files.
#[test]
fn a_wrong_size_is_told_from_the_last_group() {
    for order in [Little, Big] {
        let base = LivedIn::made(Ufs1, order, (4096, 512), 12 << 20);
        let sound = Sound::of(&base.image.bytes);
        let size = base.image.geometry.size;
        for (field, wrong) in [("size", size as i64 - 800), ("csaddr", 2500)] {
            let mut image = base.image.clone();
            each_superblock(&mut image, &mut |bytes| {
                let mut superblock = Superblock::parse(bytes).unwrap();
                if field == "size" {
                    superblock.set_size(wrong)
                } else {
                    superblock.set_csaddr(wrong)
                }
                bytes.copy_from_slice(superblock.bytes());
            });
            let found = codes(&check(&image.bytes, 1));
            assert!(found.contains(&rows::SUPERBLOCK_FIELD.code), "{field}: {found:?}");
            assert_eq!(judge(&image.bytes, Some(&sound), order == Little), Ok(()), "{field}");
            assert_eq!(repaired(&image.bytes, field).geometry, base.image.geometry);
        }
    }
}

/// As `dd` to the wrong device leaves it.
#[test]
fn a_file_system_whose_start_is_overwritten_is_found_by_what_is_behind() {
    for (version, order) in [(Ufs2, Big), (Ufs1, Little)] {
        let mut image = LivedIn::made(version, order, (4096, 512), 12 << 20).image;
        let end = image.geometry.place(image.geometry.group_size) as usize;
        image.bytes[..end].fill(0);
        let device = memory(&image.bytes);
        assert!(!opening::recognises(&*device) && opening::is_hidden_on(&*device));
        assert_eq!(FAMILIES.of(&*device).name(), "ufs");
        assert_eq!(judge(&image.bytes, None, order == Little), Ok(()));
    }
}

#[test]
fn where_the_groups_do_not_agree_it_is_refused() {
    let base = LivedIn::made(Ufs2, Little, (4096, 512), 12 << 20);
    let refused = |bytes: &[u8], what: &str| {
        let answer = plan_of(&memory(bytes), manner(1)).map(|_| ());
        assert!(
            answer.clone().is_err_and(|why| why.contains("no cylinder groups that agree")),
            "{what}: {answer:?}"
        );
    };
    let mut wiped = base.image.clone();
    wipe(&mut wiped);
    let mut image = wiped.clone();
    (0..image.geometry.groups).for_each(|group| wipe_group(&mut image, group));
    refused(&image.bytes, "no group");
    // A file system in a file, or in a partition, does not begin where the device does.
    refused(&[vec![0; 1 << 20], wiped.bytes.clone()].concat(), "moved");
    // There is room behind the last group that is left, and nothing tells where the end is.
    let mut image = wiped;
    let last = image.geometry.groups - 1;
    wipe_group(&mut image, last);
    let (first, count) = image.geometry.summary_run();
    image.fragments(first, count).fill(0);
    refused(&image.bytes, "no end");
}
