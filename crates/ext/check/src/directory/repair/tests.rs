// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used)]

use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode};

use crate::directory::problems as rows;
use crate::directory::testing::{BLOCK, World};

fn names(list: &[(&str, u32)]) -> Vec<(String, u32)> {
    list.iter().map(|(name, inode)| ((*name).to_owned(), *inode)).collect()
}

fn raw(world: &mut World, inode: u32) -> RawInode {
    RawInode::from_record(world.record(inode))
}

/// Repairs; nothing is wrong afterwards.
fn repair(world: &mut World) {
    assert_eq!(world.repair(), [], "link counts");
    let codes = world.codes();
    assert!(codes.is_empty(), "{codes:?}");
}

#[test]
fn good_names_stay_when_bad_ones_go() {
    let mut world = World::checksummed();
    let entries = [(12, "."), (2, ".."), (14, "sub"), (30, "unused"), (13, "a/b"), (12, "self")];
    world.entries(12, 42, &entries);
    repair(&mut world);
    assert_eq!(world.names(12), names(&[("a.b", 13), ("sub", 14)]));
    assert_eq!(raw(&mut world, 13).i_links_count.get(), 2);
}

#[test]
fn two_files_of_one_name_both_stay() {
    let mut world = World::plain();
    world.entries(12, 42, &[(12, "."), (2, ".."), (14, "sub"), (13, "sub"), (13, "sub"), (13, "sub~0")]);
    repair(&mut world);
    assert_eq!(world.names(12), names(&[("sub", 14), ("sub~0", 13), ("sub~1", 13), ("sub~2", 13)]));
}

#[test]
fn a_dot_that_reaches_over_others_costs_nothing() {
    let mut world = World::checksummed();
    for rec_len in [24_u16, 268, 1012] {
        world.entries(12, 42, &[(12, "."), (2, ".."), (14, "sub")]);
        world.block(42)[4..6].copy_from_slice(&rec_len.to_le_bytes());
        assert!(world.codes().contains(rows::DOT_OVERSIZED.code), "{rec_len}");
        repair(&mut world);
        assert_eq!(world.names(12), names(&[("sub", 14)]));
    }
    // Where the two names lead is wrong as well, and the chain is broken where '.' ends.
    world.entries(12, 42, &[(0x8500_000C, "."), (0x1A00_0002, ".."), (14, "sub")]);
    world.block(42)[4..6].copy_from_slice(&524_u16.to_le_bytes());
    world.block(42)[528..530].copy_from_slice(&0_u16.to_le_bytes());
    repair(&mut world);
    assert_eq!(world.names(12), names(&[("sub", 14)]));
    // And so is its name.
    world.entries(12, 42, &[(12, "/"), (2, ".."), (14, "sub")]);
    world.block(42)[4..6].copy_from_slice(&44_u16.to_le_bytes());
    repair(&mut world);
    assert_eq!(world.names(12), names(&[("sub", 14)]));
}

#[test]
fn a_name_without_a_valid_character_does_not_become_a_dot() {
    let mut world = World::plain();
    world.entries(12, 42, &[(12, "."), (2, ".."), (14, "sub"), (13, "\0"), (13, "./"), (13, "a/")]);
    world.inode(13, mode::REGULAR, InodeFlags::empty(), 4, &[]);
    repair(&mut world);
    assert_eq!(world.names(12), names(&[("._", 13), ("_", 13), ("a.", 13), ("sub", 14)]));
}

#[test]
fn a_hole_costs_nothing_but_itself() {
    let mut world = World::plain();
    world.directory(12, 3, &[42, 0, 50], &[(12, "."), (2, ".."), (14, "sub")]);
    world.entries(12, 50, &[(13, "behind")]);
    repair(&mut world);
    assert_eq!(world.names(12), names(&[("behind", 13), ("sub", 14)]));
    let raw = raw(&mut world, 12);
    assert_eq!((raw.size(), raw.i_blocks_lo.get()), (BLOCK as u64, 2));
}

#[test]
fn a_directory_that_lost_its_only_block_stays_and_is_empty() {
    let mut world = World::plain();
    world.directory(14, 2, &[0], &[]);
    repair(&mut world);
    assert_eq!((world.names(12), world.names(14)), (names(&[("sub", 14)]), names(&[])));
    let raw = raw(&mut world, 14);
    assert_eq!((raw.size(), raw.i_blocks_lo.get(), raw.i_links_count.get()), (BLOCK as u64, 2, 2));
}

#[test]
fn without_room_a_directory_that_lost_its_only_block_is_cleared_in_the_next_round() {
    let mut world = World::plain();
    world.full = true;
    world.directory(14, 2, &[0], &[]);
    world.repair();
    assert_eq!(raw(&mut world, 14).size(), 0);
}

#[test]
fn a_lost_first_block_is_made_anew() {
    let mut world = World::plain();
    world.directory(14, 2, &[0, 43], &[]);
    world.entries(14, 43, &[(13, "kept")]);
    repair(&mut world);
    assert_eq!(world.names(14), names(&[("kept", 13)]));
}

/// Two directories in the root, 12 with 14 in it, and 15.
fn two_in_the_root(first: [&str; 2]) -> World {
    let mut world = World::checksummed();
    world.directory(15, 2, &[44], &[(15, "."), (2, ".."), (12, first[1])]);
    let names = [(2, "."), (2, ".."), (11, "lost+found"), (12, first[0]), (13, "f"), (15, "e")];
    let names: Vec<_> = names.into_iter().filter(|(_, name)| !name.is_empty()).collect();
    world.directory(2, 5, &[40], &names);
    world
}

#[test]
fn a_name_within_the_directory_itself_does_not_cost_it_its_good_one() {
    // `..` speaks for the circle each time.
    let mut world = World::checksummed();
    world.directory(12, 4, &[42], &[(12, "."), (14, ".."), (14, "sub")]);
    world.directory(14, 3, &[43], &[(14, "."), (12, ".."), (12, "up")]);
    repair(&mut world);
    assert_eq!(world.names(2), names(&[("d", 12), ("f", 13), ("lost+found", 11)]));
    assert_eq!((world.names(12), world.names(14)), (names(&[("sub", 14)]), vec![]));
    // Each of two directories within the other.
    let mut world = two_in_the_root(["d", "x"]);
    world.directory(12, 4, &[42], &[(12, "."), (15, ".."), (14, "sub"), (15, "y")]);
    world.directory(15, 3, &[44], &[(15, "."), (12, ".."), (12, "x")]);
    repair(&mut world);
    assert_eq!(world.names(2), names(&[("d", 12), ("e", 15), ("f", 13), ("lost+found", 11)]));
    assert_eq!((world.names(12), world.names(15)), (names(&[("sub", 14)]), vec![]));
    // The good name is seen last.
    let mut world = two_in_the_root(["", "d"]);
    world.directory(12, 4, &[42], &[(12, "."), (14, ".."), (14, "sub")]);
    world.directory(14, 3, &[43], &[(14, "."), (12, ".."), (12, "up")]);
    repair(&mut world);
    assert_eq!((world.names(15), world.names(14)), (names(&[("d", 12)]), vec![]));
    assert_eq!(world.names(11), vec![]);
}

#[test]
fn directories_without_a_name_go_to_lost_and_found() {
    let mut world = World::checksummed();
    world.entries(12, 42, &[(12, "."), (2, "..")]);
    repair(&mut world);
    assert_eq!(world.names(11), names(&[("#14", 14)]));
    assert_eq!([2, 11, 12, 14].map(|inode| raw(&mut world, inode).i_links_count.get()), [4, 3, 2, 2]);
}

#[test]
fn files_without_a_name_go_to_lost_and_found_and_empty_ones_away() {
    let mut world = World::plain();
    world.entries(2, 40, &[(2, "."), (2, ".."), (11, "lost+found"), (12, "d")]);
    world.inode(15, mode::REGULAR, InodeFlags::empty(), 1, &[60]);
    world.inode(16, mode::FIFO, InodeFlags::empty(), 1, &[]);
    repair(&mut world);
    assert_eq!(world.names(11), names(&[("#15", 15), ("#16", 16)]), "a pipe is all that it can be");
    assert_eq!(raw(&mut world, 13).i_mode.get(), 0);
}

#[test]
fn a_name_that_is_taken_gets_a_suffix() {
    let mut world = World::plain();
    world.entries(11, 41, &[(11, "."), (2, ".."), (13, "#14")]);
    world.entries(12, 42, &[(12, "."), (2, "..")]);
    repair(&mut world);
    assert_eq!(world.names(11), names(&[("#14", 13), ("#14~0", 14)]));
}

#[test]
fn a_full_lost_and_found_grows() {
    for ro in [RoCompat::empty(), RoCompat::METADATA_CSUM] {
        let mut world = World::new(Compat::DIR_INDEX, Incompat::empty(), ro);
        let long = "x".repeat(200);
        let filler: Vec<String> = (0..4).map(|index| format!("{long}{index}")).collect();
        let mut entries = vec![(11, "."), (2, "..")];
        entries.extend(filler.iter().map(|name| (13, name.as_str())));
        world.entries(11, 41, &entries);
        for inode in 15..32 {
            world.inode(inode, mode::REGULAR, InodeFlags::empty(), 1, &[60 + inode]);
        }
        repair(&mut world);
        assert_eq!(world.names(11).iter().filter(|(name, _)| name.starts_with('#')).count(), 17);
        assert_eq!(raw(&mut world, 11).size(), 2 * BLOCK as u64);
    }
}

#[test]
fn lost_and_found_is_made_when_there_is_none() {
    for features in [Incompat::empty(), Incompat::EXTENTS] {
        let mut world = World::new(Compat::empty(), features, RoCompat::empty());
        world.entries(2, 40, &[(2, "."), (2, ".."), (12, "d"), (13, "f")]);
        repair(&mut world);
        let root = world.names(2);
        let lost_found = root.iter().find(|(name, _)| name == "lost+found").unwrap().1;
        assert_ne!(lost_found, 11, "inode 11 was in use");
        assert_eq!(world.names(lost_found), names(&[("#11", 11)]));
        assert_eq!(raw(&mut world, lost_found).i_links_count.get(), 3);
    }
}

#[test]
fn what_is_not_lost_and_found_gives_up_the_name() {
    let mut world = World::plain();
    world.inode(13, mode::REGULAR, InodeFlags::empty(), 1, &[70]);
    world.entries(2, 40, &[(2, "."), (2, ".."), (11, "x"), (12, "d"), (13, "lost+found")]);
    repair(&mut world);
    let root = world.names(2);
    let lost_found = root.iter().find(|(name, _)| name == "lost+found").unwrap().1;
    assert_eq!(world.names(lost_found), names(&[("#13", 13)]));
}

#[test]
fn a_missing_root_is_made_anew() {
    let mut world = World::checksummed();
    world.edit(2, |raw| raw.i_mode.set(0));
    repair(&mut world);
    let root = world.names(2);
    assert_eq!(root.len(), 1);
    let lost_found = root[0].1;
    assert_eq!(world.names(lost_found), names(&[("#11", 11), ("#12", 12)]));
    assert_eq!(raw(&mut world, 2).i_mode.get() & 0o777, 0o755);
}

#[test]
fn a_loop_is_cut() {
    let mut world = World::plain();
    world.entries(2, 40, &[(2, "."), (2, ".."), (11, "lost+found"), (13, "f")]);
    world.entries(14, 43, &[(14, "."), (12, ".."), (12, "up")]);
    repair(&mut world);
    assert_eq!(world.names(11), names(&[("#12", 12)]));
    assert_eq!((world.names(12), world.names(14)), (names(&[("sub", 14)]), names(&[])));
}

#[test]
fn without_room_names_go_to_the_root() {
    let mut world = World::plain();
    world.full = true;
    world.entries(2, 40, &[(2, "."), (2, ".."), (12, "d"), (13, "f")]);
    world.entries(12, 42, &[(12, "."), (2, "..")]);
    assert_eq!(world.repair(), []);
    assert_eq!(world.names(2), names(&[("#11", 11), ("#14", 14), ("d", 12), ("f", 13)]));
}

#[test]
fn an_inline_directory_that_no_longer_fits_moves_to_a_block() {
    let mut world = World::new(Compat::empty(), Incompat::INLINE_DATA | Incompat::EXTENTS, RoCompat::empty());
    world.inode(14, mode::DIRECTORY, InodeFlags::INLINE_DATA, 2, &[]);
    world.edit(14, |raw| {
        raw.i_size_lo.set(60);
        raw.i_block[0] = 12;
        raw.i_block[4] = 13;
        raw.i_block[8..12].copy_from_slice(&[12, 0, 1, 1]);
        raw.i_block[12] = b'a';
        raw.i_block[16] = 13;
        raw.i_block[20..24].copy_from_slice(&[44, 0, 1, 1]);
        raw.i_block[24] = b'a';
    });
    let record = world.record(14);
    record[160..164].copy_from_slice(&0xEA02_0000u32.to_le_bytes());
    record[164..168].copy_from_slice(&[4, 7, 0, 0]);
    record[180..184].copy_from_slice(b"data");
    repair(&mut world);
    assert_eq!(world.names(14), names(&[("a", 13)]));
    assert!(!raw(&mut world, 14).has_flag(InodeFlags::INLINE_DATA));
}

#[test]
fn an_index_is_made_anew_with_all_names() {
    let mut world = World::checksummed();
    let all: Vec<String> = (0..120).map(|index| format!("a-rather-long-name-{index}")).collect();
    let list: Vec<(u32, &str)> = all.iter().map(|name| (13, name.as_str())).collect();
    world.inode(14, mode::REGULAR, InodeFlags::empty(), 1, &[]);
    world.indexed(12, &[42, 50, 51, 52, 53, 54, 55], &list);
    assert!(world.codes().is_empty());
    for damage in [24, 28, 30, 36, 44, 50] {
        world.block(42)[damage] ^= 0x11;
        repair(&mut world);
        assert_eq!(world.names(12).len(), 120);
        assert!(raw(&mut world, 12).has_flag(InodeFlags::INDEX));
    }
}

#[test]
fn a_short_directory_needs_no_index() {
    let mut world = World::plain();
    world.inode(14, mode::REGULAR, InodeFlags::empty(), 1, &[]);
    world.indexed(12, &[42, 50, 51], &[(13, "alpha"), (13, "beta")]);
    world.block(42)[30] = 9;
    repair(&mut world);
    let raw = raw(&mut world, 12);
    assert!(!raw.has_flag(InodeFlags::INDEX));
    assert_eq!((raw.size(), raw.i_blocks_lo.get()), (BLOCK as u64, 2));
    assert_eq!(world.names(12), names(&[("alpha", 13), ("beta", 13)]));
}

#[test]
fn any_damage_is_mended_in_one_round() {
    let mut random = fsmend_base::SeededRandom::new(12);
    for round in 0..2000 {
        let mut world = World::checksummed();
        for _ in 0..1 + random.below(8) {
            let block = [40, 42, 43][random.below(3) as usize];
            let at = random.below(BLOCK as u64) as usize % if random.below(2) == 0 { 64 } else { BLOCK };
            world.block(block)[at] = random.next_u64() as u8;
        }
        let wrong = world.repair();
        let mut codes = world.codes();
        // The marks of inode tables are mended with the bitmaps.
        codes.remove(rows::ENTRY_IN_UNUSED_TAIL.code);
        assert!(codes.is_empty() && wrong.is_empty(), "round {round}: {codes:?}, {wrong:?}");
    }
}
