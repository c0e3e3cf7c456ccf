// SPDX-License-Identifier: MIT OR Apache-2.0
//! Check and repair of UFS: every kind of problem is found and mended in one run, the same at any thread count; nothing is lost that can be kept. Both versions and byte orders.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use fsmend_base::SeededRandom;
use fsmend_device::{MemoryDevice, Plan, PlanBuilder};
use fsmend_engine::{Row, Severity};
use fsmend_testkit::crash::Case;
use fsmend_testkit::host::skip;
use fsmend_testkit::ufs::checked::{
    check, codes, folder, image, manner, memory, plan, plan_of, repaired, with,
};
use fsmend_testkit::ufs::{Image, KINDS, Kind, Make, Node, peers, tree};
use fsmend_ufs_check::rows;
use fsmend_ufs_format::group::{bit, set_bit};
use fsmend_ufs_format::inode::{Stamp, mode};
use fsmend_ufs_format::superblock::{Recovery, SuperblockFlags};
use fsmend_ufs_format::{ByteOrder, Version, attributes, directory};

const HASHED: Make = KINDS[3];
const BIG_UFS1: Make = KINDS[1];

#[test]
fn what_makefs_makes_is_sound() {
    for make in KINDS {
        let Some(image) = image(make, "what_makefs_makes_is_sound") else { return };
        for threads in [1, 8] {
            let report = check(&image.bytes, threads);
            assert_eq!(codes(&report), [""; 0], "{make:?}");
            // Root, 6 + 4 + many + lost+found directories.
            assert_eq!(report.summary.directories, 13, "{make:?}");
        }
        let paths = tree(&image.bytes);
        assert_eq!(paths["/single"].contents, paths["/d1/other-name"].contents);
        assert_eq!(paths["/n0/n1/n2/deep.txt"].bytes(), b"deep");
    }
}

/// A damage, and what is found.
type Damage = (&'static Row, Make, fn(&mut Image));

const DAMAGES: &[Damage] = &[
    (&rows::SUPERBLOCK_HINT, HASHED, |image| image.amend_superblock(|sb| sb.set_minfree(101))),
    (&rows::SUPERBLOCK_HINT, HASHED, |image| image.amend_superblock(|sb| sb.set_old_cpg(1 << 27 | 1))),
    (&rows::SUPERBLOCK_HINT, HASHED, |image| image.amend_superblock(|sb| sb.set_old_cgoffset(8))),
    (&rows::SUPERBLOCK_HINT, HASHED, |image| image.amend_superblock(|sb| sb.set_sblockactualloc(67584))),
    (&rows::SUPERBLOCK_HINT, BIG_UFS1, |image| image.amend_superblock(|sb| sb.set_sblockactualloc(1 << 40))),
    (&rows::SUPERBLOCK_HINT, BIG_UFS1, |image| image.amend_superblock(|sb| sb.set_old_rps(7))),
    (&rows::DATA_SIZE, BIG_UFS1, |image| image.amend_superblock(|sb| sb.set_dsize(sb.dsize() - 9))),
    (&rows::DATA_SIZE, HASHED, |image| image.amend_superblock(|sb| sb.set_dsize(1 << 40))),
    (&rows::SUPERBLOCK_FIELD, HASHED, |image| image.amend_superblock(|sb| sb.set_bsize(4095))),
    (&rows::SUPERBLOCK_HASH, HASHED, |image| image.bytes[8192 + 1304] ^= 1),
    (&rows::SUPERBLOCK_REPLACED, HASHED, |image| image.bytes[8192..16384].fill(0)),
    (&rows::SUPERBLOCK_REPLACED, BIG_UFS1, |image| image.bytes[8192..16384].fill(0xFF)),
    (&rows::COPY_WRONG, HASHED, |image| {
        let place = image.geometry.superblock_copy(1) as usize;
        image.bytes[place + 1372] ^= 1;
    }),
    (&rows::COPY_WRONG, BIG_UFS1, |image| {
        let place = image.geometry.superblock_copy(2) as usize;
        image.bytes[place..place + 8192].fill(0);
    }),
    // Nothing but its check hash: it could not take the place of the primary one.
    (&rows::COPY_WRONG, HASHED, |image| {
        let place = image.geometry.superblock_copy(1) as usize;
        image.bytes[place + 700] ^= 1;
    }),
    (&rows::NOT_CLEAN, BIG_UFS1, |image| image.amend_superblock(|sb| sb.set_clean(0))),
    (&rows::SNAPSHOT_LIST, BIG_UFS1, |image| image.amend_superblock(|sb| sb.set_snapshots(&[2]))),
    (&rows::JOURNAL_DROPPED, HASHED, |image| {
        image.amend_superblock(|sb| {
            sb.set_clean(0);
            sb.set_flags(sb.flags() | SuperblockFlags::JOURNAL);
        });
    }),
    (&rows::TOTALS, BIG_UFS1, |image| {
        let place = image.geometry.superblock_place as usize;
        image.bytes[place + 1051] = 8;
    }),
    (&rows::TOTALS, HASHED, |image| {
        image.amend_superblock(|sb| {
            let totals = sb.totals();
            sb.set_totals(fsmend_ufs_format::summary::Counts {
                free_blocks: totals.free_blocks + 9,
                ..totals
            });
        });
    }),
    (&rows::TOTALS_STALE, BIG_UFS1, |image| {
        image.amend_superblock(|sb| {
            sb.set_clean(0);
            let totals = sb.totals();
            sb.set_totals(fsmend_ufs_format::summary::Counts { directories: 1, ..totals });
        });
    }),
    (&rows::GROUP_FIELD, HASHED, |image| image.amend_group(1, |group, _| group.set_magic(0))),
    (&rows::GROUP_FIELD, BIG_UFS1, |image| image.amend_group(0, |group, _| group.set_freeoff(9))),
    (&rows::GROUP_HASH, HASHED, |image| {
        let at = image.geometry.group_place(1) as usize;
        image.bytes[at + 132] ^= 1;
    }),
    (&rows::GROUP_HEADER, HASHED, |image| image.amend_group(1, |group, _| group.set_rotor(u32::MAX))),
    (&rows::FREE_BLOCKS, BIG_UFS1, |image| counts(image, |counts| counts.free_blocks += 1)),
    (&rows::FREE_FRAGMENTS, HASHED, |image| counts(image, |counts| counts.free_fragments -= 1)),
    (&rows::FREE_INODES, HASHED, |image| counts(image, |counts| counts.free_inodes = -4)),
    (&rows::DIRECTORIES, BIG_UFS1, |image| counts(image, |counts| counts.directories += 3)),
    (&rows::SUMMARY_COUNTS, HASHED, |image| {
        let at = image.geometry.place(image.geometry.summary.0) as usize;
        image.bytes[at + 8] ^= 5;
    }),
    (&rows::CLUSTER_MAP, HASHED, |image| {
        image.amend_group(1, |group, geometry| group.cluster_map_mut(&geometry.layout)[0] ^= 0x80);
    }),
    (&rows::RUN_COUNTS, BIG_UFS1, |image| image.amend_group(1, |group, _| group.set_fragment_sum(3, 77))),
    (&rows::MAP_TAIL, HASHED, |image| {
        let last = image.geometry.groups - 1;
        let length = image.geometry.group_length(last);
        image.amend_group(last, |group, geometry| {
            set_bit(group.fragment_map_mut(&geometry.layout), length, true)
        });
    }),
    (&rows::FRAGMENTS_MARKED_FREE, BIG_UFS1, |image| {
        let fragment = image.record(image.find("/single").0).pointer(0);
        let (group, start) = (image.geometry.group_of(fragment), fragment % image.geometry.group_size);
        image.amend_group(group, |group, geometry| {
            set_bit(group.fragment_map_mut(&geometry.layout), start, true)
        });
    }),
    (&rows::FRAGMENTS_LEAKED, HASHED, leak_a_fragment),
    (&rows::FRAGMENTS_LEFT, HASHED, |image| {
        leak_a_fragment(image);
        crashed(image);
    }),
    (&rows::INODES_MARKED_FREE, HASHED, |image| {
        let (group, index) = image.geometry.inode_group(image.find("/d2/f3").0);
        image.amend_group(group, |group, geometry| {
            set_bit(group.inode_map_mut(&geometry.layout), index.into(), false)
        });
    }),
    (&rows::INODES_LEAKED, BIG_UFS1, leak_an_inode),
    (&rows::INODES_LEFT, HASHED, |image| {
        leak_an_inode(image);
        crashed(image);
    }),
    (&rows::INODE_HASH, HASHED, |image| {
        let at = image.record_at(image.find("/d2/f3").0);
        image.bytes[at + 244] ^= 1;
    }),
    (&rows::FREE_WITH_REMAINS, HASHED, |image| {
        amend(image, "/d2/f4", |inode| (inode.set_mode(0), inode.set_sectors(0)).0)
    }),
    (&rows::RESERVED_IN_USE, BIG_UFS1, |image| image.amend_inode(1, |inode| inode.set_mode(mode::REGULAR))),
    (&rows::TYPE_UNKNOWN, HASHED, |image| amend(image, "/d2/f8", |inode| inode.set_mode(0o150_644))),
    (&rows::LINK_EMPTY, BIG_UFS1, |image| amend(image, "/short-link", |inode| inode.set_size(0))),
    (&rows::SPECIAL_SIZE, HASHED, |image| {
        amend(image, "/d2/f0", |inode| {
            inode.set_mode(mode::PIPE | 0o600);
            inode.set_size(12);
        });
        let (_, at) = image.find("/d2/f0");
        image.bytes[at + 6] = directory::kind::PIPE;
    }),
    (&rows::POINTER_BAD, HASHED, |image| amend(image, "/single", |inode| inode.set_pointer(1, 1 << 50))),
    (&rows::POINTER_BAD, BIG_UFS1, |image| amend(image, "/double", |inode| inode.set_pointer(13, 3))),
    (&rows::POINTER_STRAY, HASHED, |image| amend(image, "/short-link", |inode| inode.set_pointer(12, 4000))),
    (&rows::INDIRECT_ORDER, HASHED, |image| exchange_indirect(image, (12, 13))),
    (&rows::INDIRECT_ORDER, BIG_UFS1, |image| exchange_indirect(image, (12, 14))),
    (&rows::SIZE_IMPOSSIBLE, HASHED, |image| amend(image, "/d2/f8", |inode| inode.set_size(1 << 60))),
    (&rows::SIZE_TOO_LARGE, BIG_UFS1, |image| amend(image, "/d2/f8", |inode| inode.set_size(40_000))),
    (&rows::SIZE_TOO_SMALL, HASHED, |image| amend(image, "/single", |inode| inode.set_size(5000))),
    (&rows::SECTORS, BIG_UFS1, |image| {
        amend(image, "/double", |inode| {
            let sectors = inode.sectors();
            inode.set_sectors(sectors + 64);
        });
    }),
    (&rows::ATTRIBUTES_PLACE, HASHED, |image| amend(image, "/d2/f8", |inode| inode.set_attributes_size(9))),
    (&rows::ATTRIBUTES_CONTENTS, HASHED, |image| {
        put_attributes(image);
        let fragment = image.record(image.find("/d2/f8").0).attribute_block(0);
        // The second attribute's length.
        let second = attributes::needed(6, 5);
        image.fragments(fragment, 1)[second] = 3;
    }),
    (&rows::MULTIPLY_CLAIMED, HASHED, share_a_block),
    (&rows::SHARES, BIG_UFS1, share_a_block),
    (&rows::DIRECTORY_SIZE, HASHED, |image| {
        amend(image, "/d3", |inode| {
            let size = inode.size();
            inode.set_size(size - 100);
        });
    }),
    (&rows::DIRECTORY_HOLE, BIG_UFS1, |image| amend(image, "/many", |inode| inode.set_pointer(1, 0))),
    (&rows::DIRECTORY_EMPTY, HASHED, |image| {
        amend(image, "/d3", |inode| {
            inode.set_size(0);
            inode.set_pointer(0, 0);
        });
    }),
    (&rows::CHUNK_BROKEN, HASHED, |image| {
        let (_, at) = image.find("/d3/f4");
        image.bytes[at + 4] = 7;
    }),
    (&rows::DOT_WRONG, BIG_UFS1, |image| {
        let directory = image.find("/d3").0;
        let at = image.entry(directory, b".").unwrap().1;
        image.bytes[at + 3] ^= 3;
    }),
    (&rows::DOT_DOT_WRONG, HASHED, |image| {
        let directory = image.find("/d3").0;
        let at = image.entry(directory, b"..").unwrap().1;
        image.bytes[at..at + 4].copy_from_slice(&[0xEE, 0xEE, 0, 0]);
    }),
    (&rows::DOT_EXTRA, HASHED, |image| {
        let (_, at) = image.find("/d3/f1");
        image.bytes[at + 7] = 1;
        image.bytes[at + 8..at + 12].copy_from_slice(b".\0\0\0");
    }),
    (&rows::NAME_TWICE, BIG_UFS1, |image| {
        let (_, at) = image.find("/d3/f1");
        image.bytes[at + 9] = b'2';
    }),
    (&rows::ENTRY_TWICE, HASHED, |image| {
        // A second entry of the same file, whose other one is lost, gets its name too.
        let (target, _) = image.find("/d3/f1");
        let (_, at) = image.find("/d3/f2");
        image.bytes[at..at + 4].copy_from_slice(&target.to_le_bytes());
        image.bytes[at + 9] = b'1';
    }),
    (&rows::NAME_NO_ROOM, HASHED, |image| {
        // The first chunk is full of one name.
        let directory = image.find("/d3").0;
        let target = image.find("/d4/f1").0;
        let order = image.geometry.order;
        let fragment = image.record(directory).pointer(0);
        let chunk = &mut image.fragments(fragment, 1)[..directory::CHUNK];
        chunk.fill(0);
        let kind = directory::kind::REGULAR;
        assert!(directory::put_entry(chunk, (0, 256), order, (target, kind), &[b'n'; 240]));
        assert!(directory::put_entry(chunk, (256, 256), order, (target, kind), &[b'm'; 240]));
    }),
    (&rows::WHITEOUT, HASHED, |image| {
        let (_, at) = image.find("/d3/f1");
        image.bytes[at..at + 4].copy_from_slice(&1u32.to_le_bytes());
    }),
    (&rows::ENTRY_TYPE, BIG_UFS1, |image| {
        let (_, at) = image.find("/d3/f1");
        image.bytes[at + 6] = directory::kind::DIRECTORY;
    }),
    (&rows::ENTRY_UNUSED, HASHED, |image| {
        let (_, at) = image.find("/d3/f1");
        let beyond = image.geometry.inode_count() + 17;
        image.bytes[at..at + 4].copy_from_slice(&beyond.to_le_bytes());
    }),
    (&rows::DIRECTORY_SECOND_NAME, HASHED, |image| {
        let (_, at) = image.find("/d3/f1");
        let other = image.find("/d4").0;
        image.bytes[at..at + 4].copy_from_slice(&other.to_le_bytes());
        image.bytes[at + 6] = directory::kind::DIRECTORY;
    }),
    (&rows::LINKS, BIG_UFS1, |image| amend(image, "/single", |inode| inode.set_links(1))),
    (&rows::LINKS_LEFT, HASHED, |image| {
        amend(image, "/single", |inode| inode.set_links(4));
        crashed(image);
    }),
    (&rows::UNATTACHED, HASHED, |image| remove(image, "/d3/f1")),
    (&rows::UNATTACHED_LEFT, HASHED, |image| {
        remove(image, "/d3/f1");
        crashed(image);
    }),
    (&rows::UNREFERENCED, BIG_UFS1, |image| {
        let inode = image.find("/d3/f1").0;
        remove(image, "/d3/f1");
        image.amend_inode(inode, |inode| inode.set_links(0));
    }),
    (&rows::ROOT_MISSING, HASHED, |image| {
        let at = image.record_at(2);
        image.bytes[at..at + 256].fill(0);
    }),
    (&rows::UNCONNECTED, BIG_UFS1, |image| remove(image, "/n0/n1")),
    (&rows::UNCONNECTED_LEFT, HASHED, |image| {
        remove(image, "/n0/n1");
        crashed(image);
    }),
    (&rows::LOOPED, HASHED, |image| {
        let loops = image.find("/n0/n1").0.to_le_bytes();
        let (_, at) = image.find("/n0/n1/n2/n3");
        image.bytes[at..at + 4].copy_from_slice(&loops);
        remove(image, "/n0/n1");
    }),
    (&rows::PARENT_WRONG, HASHED, |image| {
        let (directory, other) = (image.find("/n0/n1").0, image.find("/d3").0.to_le_bytes());
        let at = image.entry(directory, b"..").unwrap().1;
        image.bytes[at..at + 4].copy_from_slice(&other);
    }),
];

fn amend(image: &mut Image, path: &str, change: fn(&mut fsmend_ufs_format::inode::Inode<Vec<u8>>)) {
    let inode = image.find(path).0;
    image.amend_inode(inode, change);
}

/// Makes an entry a free one.
fn remove(image: &mut Image, path: &str) {
    let (_, at) = image.find(path);
    image.bytes[at..at + 4].fill(0);
}

fn counts(image: &mut Image, change: fn(&mut fsmend_ufs_format::summary::Counts<i32>)) {
    image.amend_group(0, |group, _| {
        let mut counts = group.counts();
        change(&mut counts);
        group.set_counts(counts);
    });
}

/// Exchanges two of the pointers to indirect blocks of a file.
fn exchange_indirect(image: &mut Image, (one, other): (usize, usize)) {
    let inode = image.find("/double").0;
    image.amend_inode(inode, |inode| {
        let pointers = [inode.pointer(one), inode.pointer(other)];
        inode.set_pointer(one, pointers[1]);
        inode.set_pointer(other, pointers[0]);
    });
}

/// As after a crash under soft updates.
fn crashed(image: &mut Image) {
    image.amend_superblock(|superblock| {
        superblock.set_clean(0);
        superblock.set_flags(superblock.flags() | SuperblockFlags::SOFT_UPDATES);
    });
}

fn leak_a_fragment(image: &mut Image) {
    image.amend_group(1, |group, geometry| {
        let map = group.fragment_map_mut(&geometry.layout);
        let free = (0..geometry.group_size).rev().find(|index| bit(map, *index)).unwrap();
        set_bit(map, free, false);
    });
}

fn leak_an_inode(image: &mut Image) {
    image.amend_group(1, |group, geometry| set_bit(group.inode_map_mut(&geometry.layout), 5, true));
}

fn share_a_block(image: &mut Image) {
    let shared = image.record(image.find("/single").0).pointer(0);
    let other = image.find("/double").0;
    image.amend_inode(other, |inode| inode.set_pointer(0, shared));
}

/// Two attributes for a file, in a block of their own.
fn put_attributes(image: &mut Image) {
    let order = image.geometry.order;
    let mut area = Vec::new();
    assert!(attributes::append(&mut area, order, attributes::USER, b"colour", b"green"));
    assert!(attributes::append(&mut area, order, attributes::USER, b"shape", b"round"));
    // The last fragment of the last group is free.
    let fragment = image.geometry.size - 8;
    let size = area.len() as u32;
    image.fragments(fragment, 1)[..area.len()].copy_from_slice(&area);
    amend(image, "/d2/f8", |_| {});
    let inode = image.find("/d2/f8").0;
    image.amend_inode(inode, |inode| {
        inode.set_attributes_size(size);
        inode.set_attribute_block(0, fragment);
        let sectors = inode.sectors();
        inode.set_sectors(sectors + 1);
    });
}

#[test]
fn every_damage_is_found_and_mended_in_one_run() {
    for (row, make, damage) in DAMAGES {
        let Some(mut image) = image(*make, "every_damage_is_found_and_mended_in_one_run") else { return };
        damage(&mut image);
        let found = codes(&check(&image.bytes, 2));
        assert!(found.contains(&row.code), "{}: {found:?}", row.code);
        repaired(&image.bytes, row.code);
    }
    let untried = rows::all().into_iter().filter(|row| !DAMAGES.iter().any(|(tried, ..)| tried == row));
    // These take a device of another kind, a map of another size, or what makefs does not write: tests of their own.
    let others = [
        &rows::SUPERBLOCK_REBUILT,
        &rows::SNAPSHOT_BLOCKS,
        &rows::RECOVERY_RECORD,
        &rows::GROUP_UNREADABLE,
        &rows::INODE_UNREADABLE,
        &rows::DEVICE_NONE,
        &rows::MAP_CROWDED,
        &rows::INDIRECT_UNREADABLE,
        &rows::MAP_TOO_LARGE,
        &rows::NO_ROOM,
        &rows::COPY_UNREADABLE,
        &rows::CHUNK_UNREADABLE,
        &rows::DEPTH,
        &rows::QUOTA_USAGE,
        &rows::QUOTA_STALE,
        &rows::QUOTA_HEADER,
    ];
    assert_eq!(untried.map(|row| row.code).collect::<Vec<_>>(), others.map(|row| row.code));
}

#[test]
fn fsck_ffs_says_what_the_rows_name() {
    let test = "fsck_ffs_says_what_the_rows_name";
    let folder = folder(test);
    let mut silent = Vec::new();
    // fsck_ffs refuses the other byte order, and UFS2 where makefs puts its superblock.
    let is_judged = |(row, make, _): &&Damage| !row.messages.is_empty() && make.version == Version::Ufs1;
    for (row, make, damage) in DAMAGES.iter().filter(is_judged) {
        let make = Make { order: ByteOrder::Little, ..*make };
        let Some(mut image) = image(make, test) else { return };
        damage(&mut image);
        let Some(answer) = peers::finds(&image.bytes, &folder).unwrap() else {
            skip(test, peers::FOLDER);
            return;
        };
        if !row.messages.iter().any(|said| answer.printed.contains(said)) {
            silent.push(format!("{}: {:?}: {}", row.code, row.messages, answer.printed));
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

/// Paths of `before` that are gone or changed in `after`.
fn lost(before: &BTreeMap<String, Node>, after: &BTreeMap<String, Node>) -> Vec<String> {
    let differs = |(path, file): &(&String, &Node)| {
        after.get(*path).is_none_or(|now| {
            now.kind != file.kind || now.kind != Kind::Directory && now.contents != file.contents
        })
    };
    before.iter().filter(differs).map(|(path, _)| path.clone()).collect()
}

#[test]
fn a_block_that_two_files_claim_costs_neither_its_own_contents() {
    for make in [HASHED, BIG_UFS1] {
        let Some(mut image) = image(make, "a_block_that_two_files_claim") else { return };
        let before = tree(&image.bytes);
        share_a_block(&mut image);
        let after = tree(&repaired(&image.bytes, "shared block").bytes);
        // FreeBSD's fsck removes both files. The damaged one keeps all but its first block.
        assert_eq!(lost(&before, &after), ["/double"]);
        assert_eq!(after["/double"].bytes()[4096..], before["/double"].bytes()[4096..]);
    }
}

#[test]
fn files_that_share_an_indirect_block_get_each_its_own() {
    let Some(mut image) = image(HASHED, "files_that_share_an_indirect_block") else { return };
    let before = tree(&image.bytes);
    let (single, double) = (image.find("/single").0, image.find("/double").0);
    let shared = image.record(single).pointer(12);
    image.amend_inode(double, |inode| inode.set_pointer(12, shared));
    let image = repaired(&image.bytes, "shared indirect block");
    assert_eq!(lost(&before, &tree(&image.bytes)), ["/double"]);
    assert_ne!(image.record(single).pointer(12), image.record(double).pointer(12));
}

#[test]
fn a_wrong_size_costs_only_what_lies_behind_it() {
    for (size, path) in [(40_000, "/d2/f8"), (1 << 60, "/d2/f6"), (5000, "/single")] {
        let Some(mut image) = image(HASHED, "a_wrong_size") else { return };
        let before = tree(&image.bytes);
        let inode = image.find(path).0;
        image.amend_inode(inode, |inode| inode.set_size(size));
        let after = tree(&repaired(&image.bytes, path).bytes);
        let others: Vec<String> =
            lost(&before, &after).into_iter().filter(|lost| before[lost].inode != inode).collect();
        assert_eq!(others, [""; 0], "{size}: other files are lost");
        let (old, new) = (before[path].bytes(), after[path].bytes());
        assert!(new.starts_with(&old), "{size}: {} of {} bytes", new.len(), old.len());
        assert!(new.len() - old.len() < 4096, "{size}: {} of {} bytes", new.len(), old.len());
    }
}

#[test]
fn a_damaged_entry_costs_its_name_alone() {
    let Some(mut image) = image(HASHED, "a_damaged_entry") else { return };
    let before = tree(&image.bytes);
    let (_, at) = image.find("/d3/f4");
    image.bytes[at + 4..at + 12].fill(0xEE);
    let after = tree(&repaired(&image.bytes, "entry").bytes);
    assert_eq!(lost(&before, &after), ["/d3/f4"]);
    let found = after
        .iter()
        .find(|(path, file)| path.starts_with("/lost+found/#") && file.inode == before["/d3/f4"].inode);
    assert_eq!(found.unwrap().1.contents, before["/d3/f4"].contents);
}

#[test]
fn a_lost_superblock_is_found_without_being_told_where() {
    for make in KINDS {
        let Some(mut image) = image(make, "a_lost_superblock") else { return };
        let before = tree(&image.bytes);
        let at = image.geometry.superblock_place as usize;
        image.bytes[at..at + 8192].fill(0);
        // The copy of the first group, too; and in one case what leads to it.
        let copy = image.geometry.superblock_copy(0) as usize;
        image.bytes[copy..copy + 8192].fill(0);
        if make.has_hashes {
            image.bytes[Recovery::PLACE as usize..][..20].fill(0);
        }
        assert_eq!(lost(&before, &tree(&repaired(&image.bytes, "superblock").bytes)), [""; 0], "{make:?}");
    }
}

#[test]
fn what_a_crash_under_soft_updates_leaves_is_no_damage() {
    let Some(mut image) = image(HASHED, "what_a_crash_under_soft_updates_leaves") else { return };
    leak_a_fragment(&mut image);
    leak_an_inode(&mut image);
    amend(&mut image, "/single", |inode| inode.set_links(4));
    crashed(&mut image);
    let report = check(&image.bytes, 2);
    let worst = report.findings.iter().map(|problem| problem.row.severity).max();
    let minor: Vec<_> =
        report.findings.iter().filter(|problem| problem.row.severity > Severity::Note).collect();
    assert_eq!(worst, Some(Severity::Minor), "the counts of the group");
    assert!(minor.iter().all(|problem| problem.row.code.starts_with("ufs.group.")), "{minor:?}");
    repaired(&image.bytes, "crash");
}

#[test]
fn a_map_that_leads_in_circles_ends() {
    let Some(base) = image(HASHED, "a_map_that_leads_in_circles_ends") else { return };
    let (double, single) = (base.find("/double").0, base.record(base.find("/single").0));
    let root = base.record(double).pointer(13);
    // The double indirect block leads to itself, or to nine blocks that lead to one.
    let nine = (0..9).map(|slot| single.pointer(slot)).collect();
    for (row, to) in [(&rows::POINTER_BAD, vec![root]), (&rows::MAP_TOO_LARGE, nine)] {
        let mut image = base.clone();
        let leaves = to.iter().map(|block| (*block, vec![single.pointer(10)]));
        for (block, to) in leaves.chain([(root, to.clone())]) {
            let pointers = image.fragments(block, 8).as_chunks_mut().0.iter_mut();
            pointers.zip(to.iter().cycle()).for_each(|(at, to)| *at = to.to_le_bytes());
        }
        image.amend_inode(double, |inode| {
            inode.set_pointer(14, root);
            inode.set_size(1 << 37);
        });
        assert!(codes(&check(&image.bytes, 1)).contains(&row.code), "{}", row.code);
        assert!(plan(&image.bytes, 2).is_clean());
    }
}

/// A random damage of metadata.
fn damage(image: &mut Image, random: &mut SeededRandom) {
    let geometry = image.geometry.clone();
    let used: Vec<u32> =
        (2..geometry.inode_count()).filter(|inode| image.record(*inode).mode() != 0).collect();
    for _ in 0..1 + random.below(4) {
        let inode = used[random.below(used.len() as u64) as usize];
        let record = image.record(inode);
        let at = match random.below(8) {
            0 => geometry.superblock_place as usize + random.below(1376) as usize,
            1 => {
                let group = random.below(geometry.groups.into()) as u32;
                geometry.group_place(group) as usize + random.below(geometry.layout.end) as usize
            }
            2 | 3 if record.file_type() == mode::DIRECTORY => {
                geometry.place(record.pointer(0)) as usize + random.below(512) as usize
            }
            4 if record.pointer(12) != 0 => {
                geometry.place(record.pointer(12)) as usize + random.below(4096) as usize
            }
            _ => image.record_at(inode) + random.below(geometry.version.inode_size() as u64) as usize,
        };
        let len = [1, 1, 2, 4, 8][random.below(5) as usize];
        let value = [0, 0xFF, random.next_u64() as u8][random.below(3) as usize];
        let end = (at + len).min(image.bytes.len());
        if let Some(bytes) = image.bytes.get_mut(at..end) {
            bytes.fill(value);
        }
    }
}

#[test]
fn random_damage_is_mended_the_same_at_any_thread_count() {
    let (mut mended, mut refused) = (0, 0);
    for (make, seeds) in [(HASHED, 0..60), (BIG_UFS1, 60..120), (KINDS[2], 120..150)] {
        let Some(whole) = image(make, "random_damage_is_mended") else { return };
        for seed in seeds {
            let mut image = Image::open(whole.bytes.clone()).unwrap();
            damage(&mut image, &mut SeededRandom::new(seed));
            let Ok(one) = plan_of(&memory(&image.bytes), manner(1)) else {
                refused += 1;
                continue;
            };
            assert!(one.is_clean(), "seed {seed}: {:?}", codes(&one.left));
            assert_eq!(one.changes, plan(&image.bytes, 8).changes, "seed {seed}");
            assert_eq!(codes(&check(&with(&image.bytes, &one.changes), 2)), [""; 0], "seed {seed}");
            mended += u32::from(!one.changes.is_empty());
        }
    }
    assert!(mended > 100 && refused == 0, "{mended} mended, {refused} refused");
}

#[test]
fn a_repair_survives_every_power_cut_and_is_undone() {
    let Some(mut image) = image(HASHED, "a_repair_survives_every_power_cut") else { return };
    share_a_block(&mut image);
    remove(&mut image, "/d3/f1");
    let changes = plan(&image.bytes, 2).changes;
    let device = MemoryDevice::new("ufs", image.bytes.clone());
    let place = image.geometry.superblock_place;
    let builder = PlanBuilder { changes: &changes, last: &[(place, 2048)], ..PlanBuilder::default() };
    let plan = Plan::make(&device, &builder).unwrap();
    let case = Case { name: "ufs".to_owned(), before: Arc::new(image.bytes), bad_sectors: Vec::new(), plan };
    let swept = case.sweep(0..1).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(swept.cuts > 20, "{swept:?}");
}

#[test]
fn inodes_that_were_never_written_are_not_looked_at() {
    let Some(mut image) = image(HASHED, "inodes_that_were_never_written") else { return };
    let group = image.geometry.groups - 1;
    let mut written = 0;
    image.amend_group(group, |group, geometry| written = group.initialised(geometry));
    if written == image.geometry.group_inodes {
        // makefs writes all of them: as if they had not been.
        written = 2 * image.geometry.block_inodes;
        image.amend_group(group, |group, _| group.set_initediblk(written));
    }
    let first = image.record_at(group * image.geometry.group_inodes + written);
    image.bytes[first..first + 4096].fill(0xA5);
    assert_eq!(codes(&check(&image.bytes, 2)), [""; 0]);
}

#[test]
fn times_of_repaired_files_stay() {
    let Some(mut image) = image(BIG_UFS1, "times_of_repaired_files_stay") else { return };
    let inode = image.find("/single").0;
    let before = image.record(inode).time(Stamp::Modification);
    image.amend_inode(inode, |inode| inode.set_links(9));
    let image = repaired(&image.bytes, "links");
    assert_eq!(image.record(inode).time(Stamp::Modification), before);
    assert_eq!((image.geometry.order, image.geometry.version), (ByteOrder::Big, Version::Ufs1));
}
