// SPDX-License-Identifier: MIT OR Apache-2.0
//! rext3: sound images are called sound, whatever breaks the rules of the format is found, and a repair leaves nothing wrong.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_base::SeededRandom;
use fsmend_device::{Device, MemoryDevice};
use fsmend_engine::Progress;
use fsmend_ext_check::repair::{self, RepairOptions, RepairPolicy};
use fsmend_ext_check::run::CheckReport;
use fsmend_testkit::rext3::{CROWD, DEEP, HOLES, JOURNAL, LINK, MANY, ONE, PLAIN, ROOT, SUB, TWO};
use fsmend_testkit::rext3::{Image, Role, Shape, build};
use fsmend_testkit::within::{Manner, checked, options};

type Codes = BTreeSet<&'static str>;

fn device(bytes: &[u8]) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new("rext3", bytes.to_vec()))
}

fn report(image: &Image) -> CheckReport {
    checked(&device(&image.bytes), Manner::default()).unwrap_or_else(|refused| panic!("{refused}"))
}

/// The codes that a check raises, notes too.
fn codes(image: &Image) -> Codes {
    report(image).findings.counts().into_keys().collect()
}

/// The codes that a check raises. The same has to be said by two workers, and by one that takes work in another order.
#[track_caller]
fn expect(image: &Image, wanted: &[&str]) {
    let found = codes(image);
    let missing: Vec<_> = wanted.iter().filter(|code| !found.contains(**code)).collect();
    assert!(missing.is_empty(), "{missing:?} missing in {found:?}");
    let said = |manner| {
        let report = checked(&device(&image.bytes), manner).unwrap_or_else(|refused| panic!("{refused}"));
        format!("{:?} {:?}", report.findings.into_sorted(), report.summary)
    };
    let one = said(Manner::default());
    assert_eq!(said(Manner { threads: 3, ..Manner::default() }), one);
    sound_after_repair(image);
}

/// Repairs `image`: nothing may be left that is wrong, and a second repair changes nothing.
#[track_caller]
fn sound_after_repair(image: &Image) -> Vec<u8> {
    let asked = RepairOptions { check: options(Manner::default()), policy: RepairPolicy::default() };
    let plan = |bytes: &[u8]| {
        let device = device(bytes);
        let plan = repair::plan(&device, &asked, &Progress::new(), &AtomicBool::new(false)).unwrap();
        plan.written_out(&device).unwrap()
    };
    let first = plan(&image.bytes);
    let left: Vec<_> = first.left.findings.iter().map(|problem| format!("{problem:?}")).collect();
    assert!(first.is_clean(), "{left:#?}");
    let mut bytes = image.bytes.clone();
    for (offset, changed) in &first.changes {
        bytes[*offset as usize..*offset as usize + changed.len()].copy_from_slice(changed);
    }
    assert!(plan(&bytes).changes.is_empty(), "a second repair finds something to do");
    bytes
}

fn stage(report: &CheckReport, name: &str) -> (u64, u64, u64) {
    let stage = report.stats.iter().find(|stage| stage.name == name).unwrap();
    (stage.items, stage.requests, stage.bytes_read)
}

#[test]
fn sound_images_are_sound() {
    let few = Shape { journal_blocks: 0, crowd: 0, region_blocks: 40, ..Shape::default() };
    for shape in [Shape::default(), Shape::with_blocks_of(2048), Shape::with_blocks_of(4096), few] {
        let image = build(shape);
        let report = report(&image);
        assert_eq!(report.summary.kind, "rext3");
        let regions = u64::from(shape.groups * shape.region_blocks);
        assert_eq!(report.summary.metadata_regions, Some((image.owned.len() as u64, regions)));
        let told: Vec<String> = report.findings.into_sorted().iter().map(|one| format!("{one:?}")).collect();
        assert_eq!(told, [""; 0], "{shape:?}");
    }
}

#[test]
fn images_are_the_same_each_time() {
    let (one, other) = (build(Shape::default()), build(Shape::default()));
    assert!(one.bytes == other.bytes);
    let (start, count) = one.region(0);
    assert!((start..start + count).all(|block| one.owned.contains_key(&block)), "the first region is full");
    assert!(one.owned.keys().any(|block| *block >= one.region(1).0), "and the rest lies in the next one");
    assert_eq!(one.of(DEEP, Role::Indirect(3)).len(), 1);
    assert_eq!((one.of(MANY, Role::Indirect(1)).len(), one.of(JOURNAL, Role::Indirect(2)).len()), (1, 1));
}

#[test]
fn regions_are_read_once_and_no_tree_is_walked() {
    let image = build(Shape::default());
    let report = report(&image);
    // All blocks of all regions, and again the one indirect block of a directory: its map is needed, block by block.
    let (items, requests, bytes) = stage(&report, "block maps");
    assert_eq!(items, image.owned.len() as u64 + 1);
    // A bitmap and one stretch for each group with something in its region, a bitmap for the others; and the directory's block.
    assert_eq!(requests, 6 + 2 + 1, "{bytes}");
    // Directories of one block and of a few are proved as they come by; only the one whose map goes on elsewhere is read after that.
    assert_eq!(stage(&report, "directories").0, u64::from(image.shape.many_blocks));
}

#[test]
fn a_block_that_the_bitmap_does_not_know_is_found_by_the_tree() {
    for (inode, level) in
        [(ONE, 1), (TWO, 1), (TWO, 2), (DEEP, 1), (DEEP, 2), (DEEP, 3), (MANY, 1), (JOURNAL, 2)]
    {
        let mut image = build(Shape::default());
        let block = image.of(inode, Role::Indirect(level))[0];
        let (at, mask) = image.bit_of(block);
        image.bytes[at] &= !mask;
        expect(&image, &["ext.allocation.blocks-used-but-unmarked"]);
        assert_eq!(codes(&image).len(), 1, "level {level} of {inode}: {:?}", codes(&image));
    }
    let mut image = build(Shape::default());
    let (at, mask) = image.bit_of(image.of(SUB, Role::Directory(1))[0]);
    image.bytes[at] &= !mask;
    expect(&image, &["ext.allocation.blocks-used-but-unmarked"]);
}

#[test]
fn a_stale_block_hides_nothing_and_owns_nothing() {
    for (inode, level) in [(ONE, 1), (TWO, 2), (DEEP, 3), (MANY, 1), (PLAIN, 1), (60, 1), (9999, 1)] {
        let mut image = build(Shape::default());
        let (start, count) = image.region(2);
        let block = (start..start + count).nth(3).unwrap();
        let taken = image.word(image.pointer_at(ONE, 3));
        let at = image.at(block);
        image.set_word(at + 8, taken);
        image.set_word(at + 12, taken + 1);
        image.seal(block, inode, Role::Indirect(level));
        assert_eq!(codes(&image).len(), 0, "the bitmap says that it is free");
        let (at, mask) = image.bit_of(block);
        image.bytes[at] |= mask;
        expect(&image, &["ext.allocation.blocks-marked-but-free"]);
        let codes = codes(&image);
        assert_eq!(codes.len(), 1, "level {level} of {inode}: {codes:?}");
    }
}

#[test]
fn the_superblock() {
    // Table II: magic number, inode size, inode count, block count. The backups tell.
    for (at, value, wanted) in [
        (0x38, 0x0001_0000, "ext.superblock.primary-replaced"),
        (0x58, 0x0000_0081, "ext.superblock.primary-replaced"),
        (0x00, 999, "ext.superblock.inodes-count"),
        (0x04, 0x0100_0000, "ext.superblock.primary-replaced"),
        // Ours: no regions, regions as large as a group, no magic number, a feature of ext4, and an ext3 that was a rext3.
        (0x3F8, 0, "ext.superblock.primary-replaced"),
        (0x3F8, 1020, "ext.superblock.primary-replaced"),
        (0x3F4, 0, "ext.superblock.primary-replaced"),
        (0x60, 0x40_0042, "ext.superblock.primary-replaced"),
        (0x60, 0x2, "ext.superblock.primary-replaced"),
    ] {
        let mut image = build(Shape::default());
        image.set_word(1024 + at, value);
        let found = codes(&image);
        let replaced = found.contains("ext.superblock.primary-replaced");
        assert!(found.contains(wanted) || replaced, "{at:#x}: {found:?}");
        sound_after_repair(&image);
    }
}

#[test]
fn no_superblock_with_possible_regions_is_refused() {
    let mut image = build(Shape::default());
    for group in [0, 1, 3, 5] {
        let at = image.at(1 + group * 1024) + 0x3F8;
        image.set_word(at, 1020);
    }
    let refused = checked(&device(&image.bytes), Manner::default()).unwrap_err();
    assert!(refused.to_string().contains("the size of the indirect regions cannot be 1020"), "{refused}");
    assert!(refused.findings.counts().contains_key("ext.superblock.bad-value"));
}

#[test]
fn group_descriptors() {
    // Table II: the places of inode bitmap, block bitmap and inode table. The backups tell.
    for (field, wanted) in [
        (0, "ext.group.block-bitmap-place"),
        (4, "ext.group.inode-bitmap-place"),
        (8, "ext.group.inode-table-place"),
    ] {
        let mut image = build(Shape::default());
        let at = image.descriptor_at(2) + field;
        image.set_word(at, 0xFFFF_0000);
        let found = codes(&image);
        assert!(found.contains(wanted) || found.contains("ext.group.from-backup"), "{field}: {found:?}");
        sound_after_repair(&image);
    }
}

#[test]
fn inodes() {
    // Table II: link count, number of blocks, size, range of pointers, block of several owners; three each in phase 1.
    for value in [0x0000_0009u32, 0x0000_0001, 0x0000_00FF] {
        let mut image = build(Shape::default());
        let at = image.inode_at(TWO) + 0x1A;
        image.bytes[at..at + 2].copy_from_slice(&(value as u16 + 1).to_le_bytes());
        expect(&image, &["ext.inode.links-mismatch"]);
    }
    for (inode, value) in [(ONE, 2), (TWO, 0), (DEEP, 4096)] {
        let mut image = build(Shape::default());
        let at = image.inode_at(inode) + 0x1C;
        image.set_word(at, value);
        expect(&image, &["ext.inode.blocks-count-wrong"]);
    }
    for (inode, value) in [(ONE, 1024), (TWO, 100 * 1024), (HOLES, 14 * 1024)] {
        let mut image = build(Shape::default());
        let at = image.inode_at(inode) + 4;
        image.set_word(at, value);
        expect(&image, &["ext.inode.size-wrong"]);
    }
    for (inode, index, wanted) in [
        (ONE, 3, "ext.blockmap.pointer-outside"),
        (ONE, 12, "ext.blockmap.map-pointer-outside"),
        (DEEP, 14, "ext.blockmap.map-pointer-outside"),
    ] {
        let mut image = build(Shape::default());
        let at = image.pointer_at(inode, index);
        image.set_word(at, 0x7FFF_FFFF);
        expect(&image, &[wanted]);
    }
    for (inode, index) in [(ONE, 3), (TWO, 11), (HOLES, 3)] {
        let mut image = build(Shape::default());
        let (at, other) = (image.pointer_at(inode, index), image.word(image.pointer_at(PLAIN, 1)));
        image.set_word(at, other);
        expect(&image, &["ext.block.multiply-claimed", "ext.allocation.blocks-marked-but-free"]);
    }
}

#[test]
fn indirect_blocks() {
    // Table II: range of pointers, number of blocks, block of several owners; three each.
    for (inode, level, wanted) in [
        (ONE, 1, "ext.blockmap.pointer-outside"),
        (TWO, 2, "ext.blockmap.map-pointer-outside"),
        (DEEP, 3, "ext.blockmap.map-pointer-outside"),
    ] {
        let mut image = build(Shape::default());
        let at = image.at(image.of(inode, Role::Indirect(level))[0]) + 8 + 3 * 4;
        image.set_word(at, 0x7FFF_FFFF);
        expect(&image, &[wanted]);
    }
    for (inode, slot) in [(ONE, 0), (TWO, 17), (HOLES, 2)] {
        let mut image = build(Shape::default());
        let at = image.at(image.of(inode, Role::Indirect(1))[0]) + 8 + slot * 4;
        assert_ne!(image.word(at), 0);
        image.set_word(at, 0);
        expect(&image, &["ext.inode.blocks-count-wrong", "ext.allocation.blocks-marked-but-free"]);
    }
    for inode in [ONE, TWO, DEEP] {
        let mut image = build(Shape::default());
        let other = image.word(image.pointer_at(PLAIN, 2));
        let block = image.of(inode, Role::Indirect(1))[0];
        let used = (8..1024).step_by(4).find(|at| image.word(image.at(block) + at) != 0).unwrap();
        let at = image.at(block) + used;
        image.set_word(at, other);
        expect(&image, &["ext.block.multiply-claimed", "ext.allocation.blocks-marked-but-free"]);
    }
}

#[test]
fn a_foreign_indirect_block_is_not_followed() {
    let mut image = build(Shape::default());
    let (own, foreign) = (image.of(ONE, Role::Indirect(1))[0], image.of(TWO, Role::Indirect(1))[0]);
    let at = image.pointer_at(ONE, 12);
    assert_eq!(u64::from(image.word(at)), own);
    image.set_word(at, foreign as u32);
    expect(&image, &["ext.region.backpointer-wrong"]);
    let codes = codes(&image);
    assert!(!codes.contains("ext.block.multiply-claimed"), "what it maps is its own: {codes:?}");
}

#[test]
fn an_indirect_block_of_another_level_is_not_followed() {
    let mut image = build(Shape::default());
    let (double, single) = (image.pointer_at(TWO, 13), image.pointer_at(TWO, 12));
    let below = image.word(single);
    image.set_word(double, below);
    image.set_word(single, 0);
    expect(&image, &["ext.region.level-wrong"]);
    let mut image = build(Shape::default());
    let block = image.of(ONE, Role::Indirect(1))[0];
    image.seal(block, ONE, Role::Indirect(2));
    expect(&image, &["ext.region.level-wrong"]);
}

#[test]
fn a_damaged_header_is_written_anew() {
    for (at, value) in [(0, TWO), (4, 2), (4, 0)] {
        let mut image = build(Shape::default());
        let block = image.of(ONE, Role::Indirect(1))[0];
        let at = image.at(block) + at;
        image.set_word(at, value);
        expect(&image, &["ext.region.header-damaged"]);
        assert_eq!(codes(&image).len(), 1, "{:?}", codes(&image));
        let (sound, repaired) = (build(Shape::default()), sound_after_repair(&image));
        assert!(repaired[at..at + 8] == sound.bytes[at..at + 8]);
    }
}

#[test]
fn blocks_swapped_between_regions() {
    let mut image = build(Shape::default());
    let (one, other) = (image.of(ONE, Role::Indirect(1))[0], image.of(JOURNAL, Role::Indirect(1))[0]);
    exchange(&mut image, one, other);
    // Neither check is right at the other place, nor is the inode.
    expect(&image, &["ext.region.backpointer-wrong"]);
    // The journal is one of the two: it is made anew where need be, and the file has its map again.
    let mut repaired = Image { bytes: sound_after_repair(&image), ..image };
    let place = u64::from(repaired.word(repaired.pointer_at(ONE, 12)));
    assert!(place == one && repaired.block(place) == build(Shape::default()).block(one));
}

fn exchange(image: &mut Image, one: u64, other: u64) {
    let (first, second) = (image.block(one).to_vec(), image.block(other).to_vec());
    image.block(one).copy_from_slice(&second);
    image.block(other).copy_from_slice(&first);
}

fn exchange_words(image: &mut Image, one: usize, other: usize) {
    let (first, second) = (image.word(one), image.word(other));
    image.set_word(one, second);
    image.set_word(other, first);
}

/// Repairs `image`, after which all is as it was in the sound one, but for the superblock.
#[track_caller]
fn all_goes_home(image: &Image, wanted: &str) {
    let (sound, found) = (build(image.shape), codes(image));
    assert!(found.contains(wanted), "{wanted} is missing in {found:?}");
    let repaired = sound_after_repair(image);
    let size = image.block_size();
    let differing: Vec<_> = (2..repaired.len() / size)
        .filter(|block| repaired[block * size..][..size] != sound.bytes[block * size..][..size])
        .collect();
    assert!(differing.is_empty(), "blocks {differing:?} are not what they were");
}

#[test]
fn files_with_swapped_indirect_blocks_get_each_its_own() {
    let sound = build(Shape::default());
    let wrong = "ext.region.backpointer-wrong";
    // The pointers of two files, and of a file to its two trees.
    for (one, other) in [((ONE, 12), (CROWD, 12)), ((ONE, 12), (TWO, 12)), ((TWO, 13), (DEEP, 14))] {
        let mut image = sound.clone();
        let places = [one, other].map(|(inode, index)| image.pointer_at(inode, index));
        exchange_words(&mut image, places[0], places[1]);
        all_goes_home(&image, wrong);
    }
    let mut image = sound.clone();
    let places = [12, 13].map(|index| image.pointer_at(TWO, index));
    exchange_words(&mut image, places[0], places[1]);
    all_goes_home(&image, "ext.region.level-wrong");
    // What stands in the blocks.
    for (one, other) in [((ONE, 1), (CROWD, 1)), ((TWO, 2), (ONE, 1)), ((TWO, 2), (DEEP, 2))] {
        let mut image = sound.clone();
        let places = [one, other].map(|(inode, level)| image.of(inode, Role::Indirect(level))[0]);
        exchange(&mut image, places[0], places[1]);
        all_goes_home(&image, wrong);
    }
}

#[test]
fn a_wrong_pointer_finds_the_block_that_it_led_to() {
    let sound = build(Shape::default());
    for pointer in [sound.word(sound.pointer_at(CROWD, 12)), 0xFFFF_0000, sound.free_block(3) as u32] {
        let mut image = sound.clone();
        let at = image.pointer_at(ONE, 12);
        image.set_word(at, pointer);
        let found = codes(&image);
        assert!(!found.is_empty());
        all_goes_home(&image, found.iter().next().unwrap());
    }
}

#[test]
fn an_indirect_block_with_a_wrecked_header_is_known_by_its_children() {
    for (inode, level) in [(TWO, 2), (DEEP, 3), (DEEP, 2), (ONE, 1), (MANY, 1)] {
        let mut image = build(Shape::default());
        let block = image.of(inode, Role::Indirect(level))[0];
        image.block(block)[..8].fill(0xE5);
        all_goes_home(&image, "ext.region.header-damaged");
    }
}

#[test]
fn swapped_directory_blocks_go_home() {
    let sound = build(Shape::default());
    let wrong = "ext.region.tail-wrong";
    let place = |role: (u32, u32)| sound.of(role.0, Role::Directory(role.1))[0];
    for (one, other) in
        [((SUB, 1), (MANY, 3)), ((SUB, 0), (MANY, 0)), ((MANY, 2), (MANY, 5)), ((ROOT, 0), (SUB, 0))]
    {
        let mut image = sound.clone();
        exchange(&mut image, place(one), place(other));
        all_goes_home(&image, wrong);
    }
    // Pointers: each directory keeps the block that its pointer now leads to, with its own names in it.
    let mut image = sound.clone();
    let places = [(SUB, 1), (MANY, 3)].map(|(inode, index)| image.pointer_at(inode, index));
    exchange_words(&mut image, places[0], places[1]);
    assert!(codes(&image).contains(wrong));
    let repaired = Image { bytes: sound_after_repair(&image), ..image };
    for (inode, index) in [(SUB, 1), (MANY, 3)] {
        let (mut after, mut before) = (repaired.clone(), sound.clone());
        let place = u64::from(after.word(after.pointer_at(inode, index)));
        let home = u64::from(before.word(before.pointer_at(inode, index)));
        assert!(after.block(place)[..992] == before.block(home)[..992], "names of directory {inode}");
    }
}

#[test]
fn what_lies_on_the_wrong_side_of_a_border() {
    let mut image = build(Shape::default());
    let (at, map) = (image.pointer_at(PLAIN, 1), image.of(TWO, Role::Indirect(2))[0]);
    image.set_word(at, map as u32);
    expect(&image, &["ext.region.data-inside"]);

    let mut image = build(Shape::default());
    let (at, data) = (image.pointer_at(ONE, 12), image.word(image.pointer_at(PLAIN, 1)));
    image.set_word(at, data);
    expect(&image, &["ext.region.map-outside"]);

    let mut image = build(Shape::default());
    let (at, data) = (image.pointer_at(SUB, 1), image.word(image.pointer_at(PLAIN, 1)));
    image.set_word(at, data);
    expect(&image, &["ext.region.directory-outside"]);

    let mut image = build(Shape::default());
    let (start, count) = image.region(3);
    let at = image.inode_at(LINK) + 0x68;
    image.set_word(at, (start + count - 1) as u32);
    expect(&image, &["ext.region.attributes-inside"]);
}

#[test]
fn directory_blocks_say_whose_they_are() {
    let mut image = build(Shape::default());
    let block = image.of(SUB, Role::Directory(1))[0];
    let end = image.at(block) + image.block_size();
    image.set_word(end - 24, 0);
    expect(&image, &["ext.region.tail-missing"]);

    for (inode, role) in [(MANY, Role::Directory(1)), (SUB, Role::Directory(7))] {
        let mut image = build(Shape::default());
        image.seal(block, inode, role);
        expect(&image, &["ext.region.tail-wrong"]);
    }
    for (inode, logical) in [(ROOT, 0), (SUB, 1), (MANY, 5)] {
        let mut image = build(Shape::default());
        let at = image.at(image.of(inode, Role::Directory(logical))[0]) + 950;
        image.bytes[at] ^= 0x20;
        expect(&image, &["ext.region.tail-checksum"]);
    }
}

#[test]
fn flipped_bits_of_bitmaps_over_regions_are_all_told() {
    let sound = build(Shape::default());
    let (start, count) = sound.region(0);
    for seed in 0..24 {
        let mut random = SeededRandom::new(seed);
        let mut image = sound.clone();
        let mut flipped = BTreeSet::new();
        for _ in 0..=random.below(6) {
            let block = start + random.below(count);
            if flipped.insert(block) {
                let (at, mask) = image.bit_of(block);
                image.bytes[at] ^= mask;
            }
        }
        // The first region is full, so every flipped bit is one that was set.
        assert_eq!(codes(&image), Codes::from(["ext.allocation.blocks-used-but-unmarked"]), "{flipped:?}");
    }
}

#[test]
fn what_was_put_on_the_wrong_side_moves() {
    // Data in a free block of a region, a directory block and an indirect block outside: each intact, and its own.
    let sound = build(Shape::default());
    let (start, count) = sound.region(4);
    let (inside, outside) = (start + count - 1, sound.free_block(4));
    for (inode, role, at, to, wanted) in [
        (PLAIN, None, sound.pointer_at(PLAIN, 1), inside, "ext.region.data-inside"),
        (SUB, Some(Role::Directory(1)), sound.pointer_at(SUB, 1), outside, "ext.region.directory-outside"),
        (ONE, Some(Role::Indirect(1)), sound.pointer_at(ONE, 12), outside, "ext.region.map-outside"),
    ] {
        let mut image = sound.clone();
        let from = u64::from(image.word(at));
        let contents = image.block(from).to_vec();
        image.block(to).copy_from_slice(&contents);
        image.set_word(at, to as u32);
        if let Some(role) = role {
            image.seal(to, inode, role);
        }
        for block in [from, to] {
            let (at, mask) = image.bit_of(block);
            image.bytes[at] ^= mask;
        }
        expect(&image, &[wanted]);
        let repaired = sound_after_repair(&image);
        let mut after = Image { bytes: repaired, ..image };
        let place = u64::from(after.word(at));
        let (end, start) = (contents.len() - 32, if role.is_some() { 8 } else { 0 });
        assert_ne!(place, to);
        assert!(after.block(place)[start..end] == contents[start..end], "{wanted}: nothing is lost");
    }
}

#[test]
fn a_directory_that_is_written_anew_gets_an_index() {
    const DIR_INDEX: u32 = 0x20;
    const INDEX_FLAG: u32 = 0x1000;
    let mut image = build(Shape::default());
    let compat = image.word(1024 + 0x5C);
    image.set_word(1024 + 0x5C, compat | DIR_INDEX);
    assert_eq!(codes(&image).len(), 0);
    let at = image.pointer_at(MANY, 3);
    image.set_word(at, 0);
    expect(&image, &["ext.directory.hole"]);
    let mut repaired = Image { bytes: sound_after_repair(&image), ..image };
    let flags = repaired.word(repaired.inode_at(MANY) + 0x20);
    assert_eq!(flags & INDEX_FLAG, INDEX_FLAG);
    // The limit of the root leaves room for the tail.
    let root = u64::from(repaired.word(repaired.pointer_at(MANY, 0)));
    assert_eq!(repaired.block(root)[32..34], ((1024u16 - 32 - 32) / 8).to_le_bytes());
    // What is wrong in an index block is reported, too.
    let at = repaired.at(root) + 40;
    repaired.bytes[at] ^= 2;
    expect(&repaired, &["ext.region.tail-checksum"]);
}
