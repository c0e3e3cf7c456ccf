// SPDX-License-Identifier: MIT OR Apache-2.0
//! Journals of soft updates: what was on its way to the disk when the system stopped is finished or taken back, as fsck_ffs does; then everything is checked.
#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_base::SeededRandom;
use fsmend_engine::report::JournalUse;
use fsmend_testkit::ufs::{Image, Maker, Shape, make, peers, tree};
use fsmend_ufs_check::rows;
use fsmend_ufs_format::group::{bit, set_bit};
use fsmend_ufs_format::inode::{InodeFlags, mode};
use fsmend_ufs_format::journal::{RECORD, SIZE_MIN};
use fsmend_ufs_format::superblock::{SUPERBLOCK_MAX, SuperblockFlags};
use fsmend_ufs_format::{ByteOrder, Version, directory};

use fsmend_testkit::ufs::checked::{check, codes, folder, plan, with};

const JOURNAL: &str = "/.sujournal";
const SECTOR: usize = 512;
const ADDED: u32 = 1;
const REMOVED: u32 = 2;
const ALLOCATED: u32 = 3;
const FREED: u32 = 4;
const MOVED: u32 = 5;
const TRUNCATED: u32 = 6;
const SYNCED: u32 = 7;

type Record = [u8; RECORD];

/// A file system with a journal that was not unmounted.
fn base(version: Version, order: ByteOrder) -> Image {
    let small = Shape::small(version, order);
    let shape = Shape {
        groups: (8, 2048),
        flags: small.flags | SuperblockFlags::SOFT_UPDATES | SuperblockFlags::JOURNAL,
        ..small
    };
    let mut maker = Maker::new(shape);
    maker.file(JOURNAL, SIZE_MIN);
    maker.flags(JOURNAL, InodeFlags::IMMUTABLE | InodeFlags::NO_UNLINK);
    maker.directory("/d");
    maker.file("/d/letter", 5000);
    maker.file("/d/large", 40 * 4096);
    maker.directory("/d/below");
    maker.file("/d/below/leaf", 700);
    maker.link("/d/letter", "/d/below/again");
    let mut image = maker.finish();
    image.amend(JOURNAL, |record| {
        record.set_modification_count(make::TIME as u64);
        record.set_mode(mode::REGULAR | 0o400);
    });
    image.amend_superblock(|superblock| superblock.set_clean(0));
    image
}

fn bases() -> [Image; 3] {
    [
        base(Version::Ufs1, ByteOrder::Little),
        base(Version::Ufs2, ByteOrder::Little),
        base(Version::Ufs2, ByteOrder::Big),
    ]
}

/// Writes a segment into the first block of the journal, from its sector `at` on.
fn put(image: &mut Image, at: usize, (sequence, oldest): (u64, u64), records: &[Record]) {
    let order = image.geometry.order;
    let sectors = records.len().div_ceil(15).max(1);
    let start = image.block_at(JOURNAL, 0) + at * SECTOR;
    for sector in 0..sectors {
        let place = &mut image.bytes[start + sector * SECTOR..start + (sector + 1) * SECTOR];
        place.fill(0);
        order.put_u64(place, 0, sequence);
        order.put_u64(place, 8, oldest);
        order.put_u16(place, 16, records.len() as u16);
        order.put_u16(place, 18, sectors as u16);
        order.put_i64(place, 24, make::TIME);
        for (slot, record) in records.iter().skip(sector * 15).take(15).enumerate() {
            place[(slot + 1) * RECORD..(slot + 2) * RECORD].copy_from_slice(record);
        }
    }
}

fn link(
    image: &Image,
    kind: u32,
    inode: u32,
    (parent, offset): (u32, u64),
    (links, mode): (u16, u16),
) -> Record {
    let (order, mut record) = (image.geometry.order, [0; RECORD]);
    order.put_u32(&mut record, 0, kind);
    order.put_u32(&mut record, 4, inode);
    order.put_u32(&mut record, 8, parent);
    order.put_u16(&mut record, 12, links);
    order.put_u16(&mut record, 14, mode);
    order.put_u64(&mut record, 16, offset);
    record
}

fn block(image: &Image, kind: u32, inode: u32, (fragment, index, count): (u64, i64, u16)) -> Record {
    let (order, mut record) = (image.geometry.order, [0; RECORD]);
    order.put_u32(&mut record, 0, kind);
    order.put_u32(&mut record, 4, inode);
    order.put_u64(&mut record, 8, fragment);
    order.put_i64(&mut record, 16, index);
    order.put_u16(&mut record, 24, count);
    record
}

fn size(image: &Image, kind: u32, inode: u32, size: u64) -> Record {
    let (order, mut record) = (image.geometry.order, [0; RECORD]);
    order.put_u32(&mut record, 0, kind);
    order.put_u32(&mut record, 4, inode);
    order.put_u64(&mut record, 8, size);
    record
}

/// The image after its repair, which has nothing to say but that the journal is replayed. fsck_ffs leaves the same bytes, the superblock with its times apart.
fn replayed(image: &Image, test: &str) -> Vec<u8> {
    let found = check(&image.bytes, 2);
    assert_eq!((codes(&found), found.summary.journal), (vec![], JournalUse::Replayed), "{test}");
    let repair = plan(&image.bytes, 1);
    assert!(repair.is_clean(), "{test}: {:?}", codes(&repair.left));
    assert_eq!(repair.changes, plan(&image.bytes, 8).changes, "{test}");
    let ours = with(&image.bytes, &repair.changes);
    assert_eq!(codes(&check(&ours, 1)), [""; 0], "{test}");
    assert_ne!(check(&ours, 1).summary.journal, JournalUse::Replayed, "{test}: it is replayed again");
    if image.geometry.order == ByteOrder::Little && peers::program("fsck_ffs").is_some() {
        let folder = folder("journal");
        let path = folder.join("theirs.img");
        std::fs::write(&path, &image.bytes).unwrap();
        let answer = peers::fsck(&["-y"], &path).unwrap().unwrap();
        let mut theirs = std::fs::read(&path).unwrap();
        assert!(!answer.printed.contains("FALLBACK"), "{test}: {}", answer.printed);
        let place = image.geometry.superblock_place as usize;
        theirs[place..place + SUPERBLOCK_MAX].copy_from_slice(&ours[place..place + SUPERBLOCK_MAX]);
        let fragment = image.geometry.fragment_size as usize;
        let differs = (0..ours.len() / fragment).find(|number| {
            let bytes = number * fragment..(number + 1) * fragment;
            // What lies in free fragments does not matter.
            ours[bytes.clone()] != theirs[bytes] && !is_free(image, &ours, *number as u64)
        });
        assert_eq!(differs, None, "{test}: {}", answer.printed);
        let answer = peers::finds(&ours, &folder).unwrap().unwrap();
        assert!(answer.is_clean(), "{test}: {}", answer.printed);
    }
    ours
}

/// Whether the map of an image calls a fragment free.
fn is_free(image: &Image, bytes: &[u8], fragment: u64) -> bool {
    let geometry = &image.geometry;
    let group = geometry.group_of(fragment);
    let map = geometry.group_place(group) as usize + geometry.layout.fragment_map.0 as usize;
    bit(&bytes[map..map + geometry.layout.fragment_map.1 as usize], fragment - geometry.group_start(group))
}

#[test]
fn an_empty_journal_changes_nothing_but_the_superblock() {
    for image in bases() {
        let before = tree(&image.bytes);
        assert_eq!(tree(&replayed(&image, "empty")), before);
    }
}

#[test]
fn a_file_that_was_being_removed_is_removed() {
    for mut image in bases() {
        let (inode, parent) = (image.inode("/d/below/leaf"), image.inode("/d/below"));
        let offset = image.entry_offset("/d/below", "leaf");
        image.remove_name("/d/below", "leaf");
        let record = link(&image, REMOVED, inode, (parent, offset), (1, mode::REGULAR | 0o644));
        put(&mut image, 0, (7, 7), &[record]);
        let after = replayed(&image, "removed");
        assert!(tree(&after).values().all(|node| node.inode != inode));
    }
}

#[test]
fn a_name_that_was_to_be_removed_and_is_still_there_keeps_its_file() {
    for mut image in bases() {
        let (inode, parent) = (image.inode("/d/below/leaf"), image.inode("/d/below"));
        let offset = image.entry_offset("/d/below", "leaf");
        let record = link(&image, REMOVED, inode, (parent, offset), (1, mode::REGULAR | 0o644));
        put(&mut image, 0, (7, 7), &[record]);
        let before = tree(&image.bytes);
        assert_eq!(tree(&replayed(&image, "kept")), before);
    }
}

#[test]
fn a_hard_link_that_was_not_written_is_not_counted() {
    for mut image in bases() {
        let (inode, parent) = (image.inode("/d/letter"), image.inode("/d/below"));
        let offset = image.entry_offset("/d/below", "again");
        image.remove_name("/d/below", "again");
        let record = link(&image, ADDED, inode, (parent, offset), (1, mode::REGULAR | 0o644));
        put(&mut image, 0, (7, 7), &[record]);
        let after = replayed(&image, "uncounted");
        assert_eq!(tree(&after)["/d/letter"].links, 1);
    }
}

#[test]
fn a_name_that_moved_within_its_directory_is_found() {
    for mut image in bases() {
        let (inode, parent) = (image.inode("/d/letter"), image.inode("/d/below"));
        let offset = image.entry_offset("/d/below", "again");
        let records = [link(&image, ADDED, inode, (parent, 400), (1, mode::REGULAR | 0o644)), {
            let mut moved = link(&image, MOVED, inode, (parent, 400), (0, 0));
            moved[12..16].fill(0);
            image.geometry.order.put_u64(&mut moved, 24, offset);
            moved
        }];
        put(&mut image, 0, (7, 7), &records);
        let before = tree(&image.bytes);
        assert_eq!(tree(&replayed(&image, "moved")), before);
    }
}

#[test]
fn a_block_that_no_file_has_becomes_free() {
    for mut image in bases() {
        // The last block of the file system, which is free.
        let geometry = image.geometry.clone();
        let last = geometry.size - geometry.fragments;
        image.amend_group(geometry.groups - 1, |group, _| {
            let start = last - geometry.group_start(geometry.groups - 1);
            let map = group.fragment_map_mut(&geometry.layout);
            (start..start + geometry.fragments).for_each(|index| set_bit(map, index, false));
        });
        let record = block(&image, ALLOCATED, image.inode("/d/large"), (last, 400, 8));
        put(&mut image, 0, (7, 7), &[record]);
        replayed(&image, "allocated");
    }
}

#[test]
fn an_indirect_block_that_was_freed_takes_its_blocks_with_it() {
    for mut image in bases() {
        let inode = image.inode("/d/large");
        let indirect = image.record(inode).pointer(12);
        image.amend("/d/large", |record| {
            record.set_pointer(12, 0);
            record.set_size(12 * 4096);
            record.set_sectors(12 * 8);
        });
        let record = block(&image, FREED, inode, (indirect, -12, 8));
        put(&mut image, 0, (7, 7), &[record]);
        let after = replayed(&image, "indirect");
        assert_eq!(tree(&after)["/d/large"].size, 12 * 4096);
    }
}

#[test]
fn a_truncation_is_finished_unless_it_was_synced() {
    for image in bases() {
        let inode = image.inode("/d/large");
        let mut cut = image.clone();
        let record = size(&image, TRUNCATED, inode, 3 * 4096);
        put(&mut cut, 0, (7, 7), &[record]);
        assert_eq!(tree(&replayed(&cut, "truncated"))["/d/large"].size, 3 * 4096);
        let mut synced = image.clone();
        put(&mut synced, 0, (7, 7), &[record, size(&image, SYNCED, inode, 40 * 4096)]);
        assert_eq!(tree(&replayed(&synced, "synced"))["/d/large"].size, 40 * 4096);
    }
}

#[test]
fn an_unlinked_file_that_was_in_use_becomes_free() {
    for mut image in bases() {
        let inode = image.inode("/d/below/leaf");
        image.remove_name("/d/below", "leaf");
        image.amend("/d/below/leaf", |record| record.set_links(0));
        image.amend_superblock(|superblock| superblock.set_sujfree(inode));
        let after = replayed(&image, "unlinked");
        assert!(tree(&after).values().all(|node| node.inode != inode));
    }
}

#[test]
fn a_directory_that_was_being_removed_goes_with_what_is_in_it() {
    for mut image in bases() {
        let (inode, parent) = (image.inode("/d/below"), image.inode("/d"));
        let offset = image.entry_offset("/d", "below");
        image.remove_name("/d", "below");
        let records = [
            link(&image, REMOVED, inode, (parent, offset), (2, mode::DIRECTORY | 0o755)),
            link(&image, REMOVED, parent, (inode, 12), (3, mode::DIRECTORY | 0o755)),
            link(&image, REMOVED, inode, (inode, 0), (2, mode::DIRECTORY | 0o755)),
        ];
        put(&mut image, 0, (7, 7), &records);
        let after = check_only(&image);
        let nodes = tree(&after);
        assert!(!nodes.contains_key("/d/below") && !nodes.contains_key("/lost+found"));
        assert_eq!((nodes["/d/letter"].links, nodes["/d"].links), (1, 2));
    }
}

/// As [`replayed`], where fsck_ffs goes another way to the same tree.
fn check_only(image: &Image) -> Vec<u8> {
    let found = check(&image.bytes, 2);
    assert_eq!((codes(&found), found.summary.journal), (vec![], JournalUse::Replayed));
    let ours = with(&image.bytes, &plan(&image.bytes, 1).changes);
    if let Some(answer) = (image.geometry.order == ByteOrder::Little)
        .then(|| peers::finds(&ours, &folder("journal")).unwrap())
        .flatten()
    {
        assert!(answer.is_clean(), "{}", answer.printed);
    }
    ours
}

#[test]
fn segments_are_taken_in_their_order_up_to_a_gap() {
    for mut image in bases() {
        let (inode, parent) = (image.inode("/d/below/leaf"), image.inode("/d/below"));
        let offset = image.entry_offset("/d/below", "leaf");
        image.remove_name("/d/below", "leaf");
        let removal = link(&image, REMOVED, inode, (parent, offset), (1, mode::REGULAR | 0o644));
        let nothing = block(&image, FREED, inode, (image.record(inode).pointer(0), 5, 1));
        let unknown = [77; RECORD];
        // 5 is no longer needed, 9 lies behind a gap: neither is read.
        put(&mut image, 0, (7, 6), &[removal]);
        put(&mut image, 1, (6, 6), &[nothing]);
        put(&mut image, 2, (5, 5), &[unknown]);
        put(&mut image, 3, (9, 6), &[unknown]);
        let after = check_only(&image);
        assert!(tree(&after).values().all(|node| node.inode != inode));
    }
}

#[test]
fn what_cannot_be_used_is_dropped_and_everything_is_checked() {
    type Spoil = fn(&mut Image);
    let cases: [(&str, Spoil); 6] = [
        ("an unknown record", |image| put(image, 0, (7, 7), &[[77; RECORD]])),
        ("its oldest segments are missing", |image| put(image, 0, (7, 6), &[[0; RECORD]])),
        ("another mount", |image| image.amend(JOURNAL, |record| record.set_modification_count(5))),
        ("no journal", |image| image.amend(JOURNAL, |record| record.set_links(2))),
        ("a full check is wanted", |image| {
            image.amend_superblock(|superblock| {
                superblock.set_flags(superblock.flags() | SuperblockFlags::NEEDS_FSCK)
            });
        }),
        ("an inode that does not exist", |image| {
            let record = link(image, ADDED, u32::MAX, (2, 24), (1, mode::REGULAR));
            put(image, 0, (7, 7), &[record]);
        }),
    ];
    for (name, spoil) in cases {
        for mut image in bases() {
            spoil(&mut image);
            let found = check(&image.bytes, 2);
            assert!(codes(&found).contains(&rows::JOURNAL_DROPPED.code), "{name}: {:?}", codes(&found));
            assert_eq!(found.summary.journal, JournalUse::NotReplayed, "{name}");
            let repair = plan(&image.bytes, 2);
            assert!(repair.is_clean(), "{name}: {:?}", codes(&repair.left));
            let after = check(&with(&image.bytes, &repair.changes), 1);
            assert_eq!(codes(&after), [""; 0], "{name}");
        }
    }
}

#[test]
fn records_of_any_kind_end_in_a_sound_file_system() {
    for image in bases() {
        for seed in 0..60 {
            let mut random = SeededRandom::new(seed);
            let mut hostile = image.clone();
            let inodes: Vec<u32> = image.inodes.values().copied().collect();
            let any = |random: &mut SeededRandom| inodes[random.below(inodes.len() as u64) as usize];
            let records: Vec<Record> = (0..random.below(40))
                .map(|_| {
                    let (one, two) = (any(&mut random), any(&mut random));
                    let number = random.below(image.geometry.size);
                    let count = 1 + random.below(8) as u16;
                    let index = random.below(60) as i64 - 20;
                    match 1 + random.below(7) as u32 {
                        kind @ (ALLOCATED | FREED) => {
                            block(&image, kind, one, (number - number % 8, index, count))
                        }
                        kind @ (TRUNCATED | SYNCED) => size(&image, kind, one, number),
                        kind => {
                            let offset = random.below(directory::CHUNK as u64) / 4 * 4;
                            link(&image, kind, one, (two, offset), (count, mode::REGULAR))
                        }
                    }
                })
                .collect();
            put(&mut hostile, 0, (1, 1), &records);
            let repair = plan(&hostile.bytes, 1);
            assert!(repair.is_clean(), "seed {seed}: {:?}", codes(&repair.left));
            assert_eq!(repair.changes, plan(&hostile.bytes, 8).changes, "seed {seed}");
            let after = check(&with(&hostile.bytes, &repair.changes), 2);
            assert_eq!(codes(&after), [""; 0], "seed {seed}");
        }
    }
}
