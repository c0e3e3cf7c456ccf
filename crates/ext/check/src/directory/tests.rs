// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each row of the catalogue is raised by some damage; sound directories raise nothing.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use fsmend_base::InodeNo;
use fsmend_engine::Row;
use fsmend_engine::inodes::mark;
use fsmend_engine::pool::PoolConfig;
use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::inode::{InodeFlags, mode};

use super::problems as rows;
use super::testing::{BLOCK, World};
use fsmend_engine::names::paths::Paths;

const NAMES: &[(u32, &str)] =
    &[(13, "alpha"), (13, "beta"), (13, "gamma"), (13, "delta"), (13, "epsilon"), (13, "zeta")];

/// Blocks of the indexed directory in `World::directory` 12.
const INDEXED: &[u32] = &[42, 50, 51];

fn indexed() -> World {
    let mut world = World::checksummed();
    world.inode(14, mode::REGULAR, InodeFlags::empty(), 1, &[]);
    world.indexed(12, INDEXED, NAMES);
    world
}

fn encrypted(casefold: InodeFlags) -> World {
    let mut world = World::new(Compat::DIR_INDEX, Incompat::ENCRYPT | Incompat::CASEFOLD, RoCompat::empty());
    world.edit(12, |raw| raw.set_flags(InodeFlags::ENCRYPT | casefold));
    world.edit(13, |raw| raw.set_flags(InodeFlags::ENCRYPT));
    world.edit(14, |raw| raw.set_flags(InodeFlags::ENCRYPT));
    for inode in 12..=14 {
        attribute(&mut world, inode, 9, b"c", &[1; 28]);
    }
    world.entries(12, 42, &[(12, "."), (2, ".."), (13, "0123456789abcdef"), (14, "0123456789abcdeg")]);
    world
}

/// Puts an attribute into an inode, as the only one.
fn attribute(world: &mut World, inode: u32, index: u8, name: &[u8], value: &[u8]) {
    let record = world.record(inode);
    let area = &mut record[160..];
    area.fill(0);
    area[..4].copy_from_slice(&0xEA02_0000u32.to_le_bytes());
    area[4..6].copy_from_slice(&[name.len() as u8, index]);
    area[6..8].copy_from_slice(&40u16.to_le_bytes());
    area[12..16].copy_from_slice(&(value.len() as u32).to_le_bytes());
    area[20..20 + name.len()].copy_from_slice(name);
    area[44..44 + value.len()].copy_from_slice(value);
}

fn inline() -> World {
    let mut world = World::new(Compat::empty(), Incompat::INLINE_DATA, RoCompat::empty());
    world.inode(14, mode::DIRECTORY, InodeFlags::INLINE_DATA, 2, &[]);
    world.edit(14, |raw| {
        raw.i_size_lo.set(60);
        raw.i_block[0] = 12;
        raw.i_block[8] = 56;
    });
    attribute(&mut world, 14, 7, b"data", &[]);
    world
}

#[test]
fn sound_directories_raise_nothing() {
    let clean = |name: &str, mut world: World| assert_eq!(world.codes(), BTreeSet::new(), "{name}");
    clean("plain", World::plain());
    clean("checksums", World::checksummed());
    clean("encrypted", encrypted(InodeFlags::empty()));
    clean("encrypted without case", encrypted(InodeFlags::CASEFOLD));
    clean("inline", inline());
    let mut indexed = indexed();
    assert_eq!(indexed.codes(), [rows::UNCONNECTED.code; 0].into(), "indexed");
    let mut folded = World::new(Compat::empty(), Incompat::CASEFOLD, RoCompat::empty());
    folded.edit(12, |raw| raw.set_flags(InodeFlags::CASEFOLD));
    folded.entries(12, 42, &[(12, "."), (2, ".."), (14, "sub"), (13, "suc")]);
    clean("casefolded", folded);
}

#[test]
fn links_and_parents_are_counted() {
    let (_, inodes) = World::plain().check();
    let links = |inode| inodes.links(InodeNo(inode)).1;
    assert_eq!([links(2), links(11), links(12), links(13), links(14)], [4, 2, 3, 1, 2]);
}

#[test]
fn a_missing_parent_entry_counts_for_the_parent() {
    let mut world = World::plain();
    world.block(43)[12] = 0;
    let (findings, inodes) = world.check();
    assert!(findings.has(&rows::DOT_DOT_MISSING) && findings.has(&rows::PARENT_WRONG));
    assert_eq!([2, 12, 14].map(|inode| inodes.links(InodeNo(inode)).1), [4, 3, 2]);
}

#[test]
fn inodes_in_bad_blocks_are_those_of_the_table() {
    let world = World::plain();
    let inodes = world.with_fs(|fs, _, _| super::inodes_in_bad_blocks(fs, &[4, 6, 40]));
    assert_eq!(inodes, (5..=8).map(InodeNo).collect::<Vec<_>>());
}

#[test]
fn of_two_names_the_one_that_the_parent_entry_bears_out_stays() {
    let mut world = World::plain();
    world.entries(14, 43, &[(14, "."), (12, ".."), (11, "moved")]);
    world.block(41)[12] = 14;
    let (findings, inodes) = world.check();
    let twice = findings.iter().find(|problem| problem.row == &rows::DIRECTORY_NAMED_TWICE);
    let holder = twice.and_then(|problem| problem.object.inode);
    assert_eq!(holder, Some(InodeNo(2)), "the name in the root goes");
    assert_eq!(inodes.links(InodeNo(11)).1, 2);
    let parent = inodes.directory(InodeNo(11)).unwrap().parent.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(parent, 14);
}

#[test]
fn the_parent_entry_is_read_where_it_usually_stands() {
    let mut world = World::plain();
    world.entries(14, 43, &[(14, "."), (12, ".."), (15, "x")]);
    world.with_fs(|fs, _, _| {
        let directory = super::Directory::open(fs, InodeNo(14)).unwrap();
        assert_eq!(directory.parent_entry(fs), 12);
    });
    world.block(43)[12 + 8] = b'x';
    world.with_fs(|fs, _, _| {
        assert_eq!(super::Directory::open(fs, InodeNo(14)).unwrap().parent_entry(fs), 0);
    });
}

/// Rows whose repair is not for this folder, or not to be had in this small world: inode tables and group descriptors,
/// an inode in a bad block, a file of another policy, a feature of the superblock that a later look has to see.
const NOT_HERE: &[&Row] = &[
    &rows::ENTRY_IN_UNUSED_TAIL,
    &rows::ENTRY_IN_UNINIT_GROUP,
    &rows::ENTRY_IN_BAD_BLOCK,
    // The only block that cannot be read here is one that the device does not have.
    &rows::BLOCK_UNREADABLE,
    &rows::LOST_FOUND_IMPOSSIBLE,
    &rows::LOST_FOUND_FULL,
];

/// Damages a plain file system; the row has to be among what is found. One repair leaves nothing wrong.
fn damage(row: &'static Row, mut world: World, damage: impl FnOnce(&mut World)) -> &'static str {
    damage(&mut world);
    let codes = world.codes();
    assert!(codes.contains(row.code), "{} is not among {codes:?}", row.code);
    let wrong_counts = world.repair();
    if !NOT_HERE.contains(&row) {
        assert_eq!(world.codes(), BTreeSet::new(), "left after the repair of {}", row.code);
        // The counts of inodes that hold values are not about names.
        let of_values = |inode: &InodeNo| world.marks.iter().any(|(marked, _)| *marked == inode.0);
        assert!(wrong_counts.iter().all(of_values), "link counts after the repair of {}", row.code);
    }
    row.code
}

/// Other entries than `.`, `..` and `sub` in directory 12.
fn entries(row: &'static Row, more: &'static [(u32, &'static str)]) -> &'static str {
    damage(row, World::plain(), |world| {
        let all = [&[(12, "."), (2, ".."), (14, "sub")], more].concat();
        world.entries(12, 42, &all);
    })
}

fn bytes(row: &'static Row, offset: usize, bytes: &'static [u8]) -> &'static str {
    damage(row, World::plain(), |world| world.block(42)[offset..offset + bytes.len()].copy_from_slice(bytes))
}

fn index_bytes(row: &'static Row, block: u32, offset: usize, bytes: &'static [u8]) -> &'static str {
    damage(row, indexed(), |world| {
        world.block(block)[offset..offset + bytes.len()].copy_from_slice(bytes);
        world.seal_index(12, block, 32);
    })
}

fn damaged_dots() -> Vec<&'static str> {
    vec![
        bytes(&rows::DOT_WRONG_INODE, 0, &[13]),
        bytes(&rows::DOT_MISSING, 0, &[0]),
        bytes(&rows::FIRST_NOT_DOT, 8, b"x"),
        bytes(&rows::DOT_UNTERMINATED, 9, b"x"),
        bytes(&rows::DOT_DOT_MISSING, 12, &[0]),
        bytes(&rows::SECOND_NOT_DOT_DOT, 20, b"x"),
        bytes(&rows::DOT_DOT_UNTERMINATED, 22, b"x"),
        damage(&rows::DOT_OVERSIZED, World::plain(), |world| {
            world.block(42)[4] = 28;
            world.block(42)[28..40].copy_from_slice(b"\x02\0\0\0\xe4\x03\x02\x02..\0\0");
        }),
        entries(&rows::DOT_AGAIN, &[(13, ".")]),
        entries(&rows::DOT_DOT_AGAIN, &[(13, "..")]),
        entries(&rows::FREE_DOT, &[(0, ".")]),
    ]
}

fn damaged_entries() -> Vec<&'static str> {
    vec![
        entries(&rows::ENTRY_INODE_INVALID, &[(1000, "x")]),
        entries(&rows::ENTRY_INODE_INVALID, &[(8, "journal")]),
        entries(&rows::ENTRY_INODE_UNUSED, &[(20, "x")]),
        entries(&rows::ENTRY_TO_ITSELF, &[(12, "x")]),
        entries(&rows::ENTRY_TO_ROOT, &[(2, "x")]),
        entries(&rows::DIRECTORY_NAMED_TWICE, &[(14, "again")]),
        entries(&rows::DIRECTORY_NAMED_TWICE, &[(11, "elsewhere")]),
        entries(&rows::NAME_INVALID, &[(13, "a/b")]),
        entries(&rows::NAME_EMPTY, &[(13, "")]),
        entries(&rows::ENTRY_TWICE, &[(13, "x"), (13, "x")]),
        entries(&rows::NAME_TWICE, &[(13, "sub")]),
        damage(&rows::ENTRY_IN_BAD_BLOCK, World::plain(), |world| world.bad_blocks = vec![5 + 3]),
        bytes(&rows::FILE_TYPE_MISSING, 31, &[0]),
        bytes(&rows::FILE_TYPE_WRONG, 31, &[1]),
        damage(&rows::FILE_TYPE_UNEXPECTED, World::plain(), |world| {
            world.geometry.features.incompat = Incompat::empty()
        }),
        damage(&rows::ENTRY_TO_VALUE_INODE, World::plain(), |world| world.marks = vec![(13, mark::EA_INODE)]),
        damage(&rows::ENTRY_INODE_INVALID, World::plain(), |world| world.marks = vec![(13, mark::RESERVED)]),
        damage(
            &rows::ENTRY_IN_UNUSED_TAIL,
            World::new(Compat::empty(), Incompat::empty(), RoCompat::GDT_CSUM),
            |world| {
                world.entries(12, 42, &[(12, "."), (2, ".."), (14, "sub"), (40, "x")]);
            },
        ),
        damage(
            &rows::ENTRY_IN_UNINIT_GROUP,
            World::new(Compat::empty(), Incompat::empty(), RoCompat::GDT_CSUM),
            |world| world.desc.flags = fsmend_ext_format::group::GroupFlags::INODE_UNINIT,
        ),
        damage(
            &rows::NAME_NOT_UTF8,
            World::new(Compat::empty(), Incompat::CASEFOLD, RoCompat::empty()),
            |world| {
                world.superblock.s_encoding_flags.set(1);
                world.edit(12, |raw| raw.set_flags(InodeFlags::CASEFOLD));
                world.raw_entries(12, 42, &[(12, b"."), (2, b".."), (14, b"sub\xff")]);
            },
        ),
        damage(
            &rows::NAME_TWICE,
            World::new(Compat::empty(), Incompat::CASEFOLD, RoCompat::empty()),
            |world| {
                world.edit(12, |raw| raw.set_flags(InodeFlags::CASEFOLD));
                world.entries(12, 42, &[(12, "."), (2, ".."), (14, "straße"), (13, "STRASSE")]);
            },
        ),
        damage(&rows::ENCRYPTED_NAME_SHORT, encrypted(InodeFlags::empty()), |world| {
            world.entries(12, 42, &[(12, "."), (2, ".."), (14, "short")]);
        }),
        damage(&rows::ENTRY_UNENCRYPTED, encrypted(InodeFlags::empty()), |world| {
            world.edit(13, |raw| raw.i_flags.set(0))
        }),
        damage(&rows::ENTRY_OTHER_POLICY, encrypted(InodeFlags::empty()), |world| {
            let mut other = [1; 28];
            other[5] = 2;
            attribute(world, 13, 9, b"c", &other);
        }),
        damage(&rows::NAME_TWICE_ENCRYPTED, encrypted(InodeFlags::empty()), |world| {
            let name = "0123456789abcdef";
            world.entries(12, 42, &[(12, "."), (2, ".."), (13, name), (14, name)]);
        }),
    ]
}

fn damaged_blocks() -> Vec<&'static str> {
    vec![
        bytes(&rows::CHAIN_BROKEN, 28, &[0xF1, 0xFF]),
        bytes(&rows::NAME_BEYOND_RECORD, 18, &[7]),
        damage(&rows::HOLE, World::plain(), |world| {
            world.directory(12, 3, &[42, 0, 50], &[(12, "."), (2, ".."), (14, "sub")])
        }),
        damage(&rows::HOLE, World::plain(), |world| world.directory(14, 2, &[0, 43], &[])),
        damage(&rows::BLOCK_UNREADABLE, World::plain(), |world| world.edit(14, |raw| raw.i_block[0] = 200)),
        damage(&rows::CHECKSUM_MISSING, World::checksummed(), |world| {
            world.block(42)[28..30].copy_from_slice(&1000u16.to_le_bytes());
            world.block(42)[BLOCK - 12..].fill(0);
        }),
        damage(&rows::CHECKSUM_WRONG, World::checksummed(), |world| world.block(42)[BLOCK - 1] ^= 1),
        damage(&rows::DOT_DOT_MISSING, inline(), |world| world.edit(14, |raw| raw.i_block[0] = 0)),
        damage(&rows::ROOT_MALFORMED, inline(), |world| {
            world.geometry.features.compat |= Compat::DIR_INDEX;
            world.edit(14, |raw| raw.set_flag(InodeFlags::INDEX));
        }),
        damage(&rows::CHAIN_BROKEN, inline(), |world| world.edit(14, |raw| raw.i_block[8] = 3)),
    ]
}

#[test]
fn broken_records_are_placed_where_they_are() {
    let message = |mut world: World| {
        let (findings, _) = world.check();
        findings.iter().find(|problem| *problem.row == rows::CHAIN_BROKEN).unwrap().message()
    };
    let mut in_block = World::plain();
    in_block.block(42)[28..30].copy_from_slice(&[0xF1, 0xFF]);
    assert!(message(in_block).contains("(block 42, offset 24:"));
    let mut in_inode = inline();
    in_inode.edit(14, |raw| raw.i_block[8] = 3);
    assert!(message(in_inode).contains("(in the inode, offset 0:"));
}

fn damaged_indexes() -> Vec<&'static str> {
    let flag = |world: &mut World, set: InodeFlags| world.edit(12, |raw| raw.set_flag(set));
    vec![
        damage(&rows::INDEX_WITHOUT_FEATURE, indexed(), |world| {
            world.geometry.features.compat = Compat::empty()
        }),
        index_bytes(&rows::ROOT_MALFORMED, 42, 24, &[1]),
        index_bytes(&rows::HASH_UNKNOWN, 42, 28, &[77]),
        index_bytes(&rows::FLAGS_UNKNOWN, 42, 31, &[1]),
        index_bytes(&rows::TOO_DEEP, 42, 30, &[2]),
        index_bytes(&rows::CANNOT_SIPHASH, 42, 28, &[6]),
        damage(&rows::NEEDS_SIPHASH, indexed(), |world| {
            world.geometry.features.incompat |= Incompat::ENCRYPT | Incompat::CASEFOLD;
            flag(world, InodeFlags::ENCRYPT | InodeFlags::CASEFOLD);
        }),
        index_bytes(&rows::NOT_REFERENCED, 42, 44, &[1]),
        index_bytes(&rows::REFERENCED_TWICE, 42, 44, &[1]),
        index_bytes(&rows::REBUILD, 42, 44, &[1]),
        index_bytes(&rows::HASH_TOO_LARGE, 42, 40, &[2, 0, 0, 0]),
        index_bytes(&rows::HASH_TOO_SMALL, 42, 40, &[0xFE, 0xFF, 0xFF, 0xFF]),
        index_bytes(&rows::BLOCK_OUT_OF_RANGE, 42, 44, &[9]),
        index_bytes(&rows::LIMIT_WRONG, 42, 32, &[100]),
        index_bytes(&rows::COUNT_WRONG, 42, 34, &[0]),
        index_bytes(&rows::DEPTH_WRONG, 42, 30, &[1]),
        damage(&rows::HASHES_NOT_ASCENDING, indexed(), |world| {
            world.block(42)[34] = 3;
            world.block(42)[48..56].copy_from_slice(&[2, 0, 0, 0, 1, 0, 0, 0]);
            world.seal_index(12, 42, 32);
        }),
        damage(&rows::ROOT_CHECKSUM, indexed(), |world| world.block(42)[BLOCK - 1] ^= 1),
        damage(&rows::NODE_CHECKSUM, indexed(), |world| {
            world.inode(12, mode::DIRECTORY, InodeFlags::INDEX, 2, &[42, 50, 51, 52]);
            world.block(52)[4..6].copy_from_slice(&(BLOCK as u16).to_le_bytes());
            world.block(52)[8..12].copy_from_slice(&[126, 0, 1, 0]);
        }),
        damage(&rows::LARGE_DIR_MISSING, indexed(), |world| {
            world.block(42)[30] = 2;
            world.seal_index(12, 42, 32);
            world.edit(12, |raw| raw.i_size_lo.set(1 << 30));
        }),
    ]
}

fn damaged_trees() -> Vec<&'static str> {
    vec![
        damage(&rows::ROOT_MISSING, World::plain(), |world| world.edit(2, |raw| raw.i_mode.set(0))),
        damage(&rows::UNCONNECTED, World::plain(), |world| world.entries(12, 42, &[(12, "."), (2, "..")])),
        bytes(&rows::PARENT_WRONG, 12, &[11]),
        bytes(&rows::PARENT_WRONG, 12, &[0]),
        damage(&rows::LOOPED, World::plain(), |world| {
            world.entries(2, 40, &[(2, "."), (2, ".."), (11, "lost+found"), (13, "f")]);
            world.entries(14, 43, &[(14, "."), (12, ".."), (12, "up")]);
        }),
        damage(&rows::LOST_FOUND_MISSING, World::plain(), |world| {
            world.entries(2, 40, &[(2, "."), (2, ".."), (11, "found"), (12, "d"), (13, "f")]);
        }),
        damage(&rows::LOST_FOUND_IMPOSSIBLE, World::plain(), |world| {
            world.full = true;
            world.entries(2, 40, &[(2, "."), (2, ".."), (11, "found"), (12, "d"), (13, "f")]);
        }),
        damage(&rows::LOST_FOUND_NOT_DIRECTORY, World::plain(), |world| {
            world.entries(2, 40, &[(2, "."), (2, ".."), (11, "x"), (12, "d"), (13, "lost+found")]);
        }),
        damage(
            &rows::LOST_FOUND_ENCRYPTED,
            World::new(Compat::empty(), Incompat::ENCRYPT, RoCompat::empty()),
            |world| {
                world.edit(11, |raw| raw.set_flags(InodeFlags::ENCRYPT));
                attribute(world, 11, 9, b"c", &[1; 28]);
            },
        ),
        damage(&rows::LOST_FOUND_INLINE, inline(), |world| {
            world.entries(12, 42, &[(12, "."), (2, ".."), (11, "sub")]);
            world.entries(2, 40, &[(2, "."), (2, ".."), (14, "lost+found"), (12, "d"), (13, "f")]);
        }),
        damage(&rows::LOST_FOUND_FULL, World::plain(), |world| world.reconnects = 60),
    ]
}

#[test]
fn every_row_is_raised() {
    let cases = [damaged_dots(), damaged_entries(), damaged_blocks(), damaged_indexes(), damaged_trees()];
    let raised: BTreeSet<&str> = cases.into_iter().flatten().collect();
    let all: BTreeSet<&str> = rows::ROWS.iter().map(|row| row.code).collect();
    assert_eq!(all.difference(&raised).collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn one_damage_is_named_once() {
    let mut world = World::plain();
    world.entries(12, 42, &[(12, "."), (2, ".."), (14, "sub"), (20, "gone")]);
    assert_eq!(world.codes(), [rows::ENTRY_INODE_UNUSED.code].into());
    let mut world = World::checksummed();
    world.block(42)[BLOCK - 2] ^= 1;
    assert_eq!(world.codes(), [rows::CHECKSUM_WRONG.code].into());
}

#[test]
fn names_and_paths() {
    let mut world = World::plain();
    world.entries(14, 43, &[(14, "."), (12, ".."), (13, "second\n")]);
    let (_, inodes) = world.check();
    world.with_fs(|fs, _, _| {
        let paths = Paths::gather(
            fs,
            &inodes,
            &[InodeNo(13), InodeNo(14)],
            4,
            (PoolConfig::of(1), &AtomicBool::new(false)),
        );
        assert_eq!(paths.path_of(InodeNo(14)).as_deref(), Some("/d/sub"));
        assert_eq!(paths.path_of(InodeNo(13)).as_deref(), Some("/f"));
        assert_eq!(paths.path_of(InodeNo(2)).as_deref(), Some("/"));
        assert_eq!(paths.path_of(InodeNo(30)), None);
        let names = paths.names_of(InodeNo(13));
        assert_eq!(names, [(InodeNo(2), b"f".to_vec()), (InodeNo(14), b"second\n".to_vec())]);
    });
}

#[test]
fn any_block_is_inspected_to_its_end() {
    let mut random = fsmend_base::SeededRandom::new(11);
    for round in 0..3000 {
        let mut world = if round % 2 == 0 { World::checksummed() } else { indexed() };
        for _ in 0..1 + random.below(8) {
            let block = [40, 42, 43, 50, 51][random.below(5) as usize];
            let at = random.below(BLOCK as u64) as usize % if random.below(2) == 0 { 64 } else { BLOCK };
            world.block(block)[at] = random.next_u64() as u8;
        }
        world.check();
    }
}

/// The kernel leaves what stood at the end of a block when it makes the root of an index of it: there it looks like the checksum of a
/// block of entries.
#[test]
fn the_remains_in_a_root_without_the_feature_are_one_problem() {
    let mut world = indexed();
    world.block(42)[1024 - 12..1024 - 4].copy_from_slice(&[0, 0, 0, 0, 12, 0, 0, 0xDE]);
    world.geometry.features.compat = Compat::empty();
    assert_eq!(world.codes(), BTreeSet::from([rows::INDEX_WITHOUT_FEATURE.code]));
    world.repair();
    assert_eq!(world.codes(), BTreeSet::new());
}
