// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_base::InodeNo;
use fsmend_engine::Row;
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Incompat, RoCompat};
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode};

use super::problems::*;
use crate::inode::problems::{EMPTY_DIRECTORY, SECTORS_WRONG, SIZE_WRONG};
use crate::inode::testing::{BLOCK_SIZE, Bench, FILE, expect_rows, extent, index, inode, node, tree};

/// A file of one level below the root: eight blocks in two leaves, at 60 and 61.
fn two_leaves(bench: &mut Bench) -> RawInode {
    bench.put(60, &node(BLOCK_SIZE, 0, &[extent(0, 2, 100), extent(2, 2, 110)]));
    bench.put(61, &node(BLOCK_SIZE, 0, &[extent(4, 4, 120)]));
    tree(mode::REGULAR, 1, &[index(0, 60), index(4, 61)], 8, 2)
}

#[test]
fn a_sound_tree_is_mapped() {
    let mut bench = Bench::new();
    let raw = two_leaves(&mut bench);
    let inspection = bench.expect(FILE, &raw, &[]);
    assert_eq!(inspection.map_blocks, [60, 61]);
    assert_eq!(inspection.runs.iter().map(|run| run.physical).collect::<Vec<_>>(), [100, 110, 120]);
    // Neighbours are merged, unwritten ones apart; holes and unwritten blocks behind the end are fine.
    let entries = [extent(0, 2, 100), extent(2, 2, 102), extent(5, 0x8001, 105), extent(90, 0x8002, 106)];
    let mut raw = tree(mode::REGULAR, 0, &entries, 7, 0);
    raw.set_size(5 * 1024);
    let inspection = bench.expect(FILE, &raw, &[]);
    assert_eq!(inspection.runs.iter().map(|run| run.count).collect::<Vec<_>>(), [4, 1, 2]);
}

#[test]
fn wrong_extents_are_taken_out_one_by_one() {
    let cases = [
        (extent(4, 4, 600), &START_OUTSIDE),
        (extent(4, 4, 0), &START_OUTSIDE),
        (extent(4, 200, 400), &END_OUTSIDE),
        (extent(2, 2, 120), &OUT_OF_ORDER),
        (extent(3, 2, 120), &OVERLAP),
        (extent(4, 0, 120), &LENGTH_ZERO),
        (extent(u32::MAX, 2, 120), &BEYOND_PARENT),
        (extent(u32::MAX, 1, 120), &BEYOND_PARENT),
    ];
    for (entry, row) in cases {
        let raw = tree(mode::REGULAR, 0, &[extent(0, 4, 100), entry], 4, 0);
        let inspection = Bench::new().expect(FILE, &raw, &[row]);
        assert_eq!(inspection.runs.len(), 1, "{}", row.code);
    }
}

#[test]
fn one_wrong_extent_leaves_the_others_alone() {
    let stray = [extent(0, 2, 100), extent(9000, 1, 108), extent(2, 1, 110), extent(3, 1, 120)];
    let inspection = Bench::new().expect(FILE, &tree(mode::REGULAR, 0, &stray, 4, 0), &[&OUT_OF_ORDER]);
    assert_eq!(inspection.runs.iter().map(|run| run.physical).collect::<Vec<_>>(), [100, 110, 120]);
    let long = [extent(0, 9, 100), extent(2, 1, 110), extent(3, 1, 120)];
    let inspection = Bench::new().expect(FILE, &tree(mode::REGULAR, 0, &long, 4, 0), &[&TOO_LONG]);
    assert_eq!(inspection.runs.iter().map(|run| run.count).collect::<Vec<_>>(), [2, 1, 1]);
}

#[test]
fn an_extent_ends_where_size_and_space_say_so() {
    let sound = tree(mode::REGULAR, 0, &[extent(0, 2, 100), extent(2, 1, 110)], 3, 0);
    let long = |count| {
        let mut raw = sound;
        raw.i_block = tree(mode::REGULAR, 0, &[extent(0, 2, 100), extent(2, count, 110)], 3, 0).i_block;
        raw
    };
    assert_eq!(Bench::new().expect(FILE, &long(1), &[]).runs.len(), 2);
    let inspection = Bench::new().expect(FILE, &long(9), &[&BEYOND_SIZE]);
    assert_eq!(inspection.runs.iter().map(|run| run.count).collect::<Vec<_>>(), [2, 1]);
    let mut one_witness = long(9);
    one_witness.i_blocks_lo += 2;
    let inspection = Bench::new().expect(FILE, &one_witness, &[&SIZE_WRONG, &SECTORS_WRONG]);
    assert_eq!(inspection.runs.iter().map(|run| run.count).collect::<Vec<_>>(), [2, 9]);
}

/// The length of a file's only extent and its size were overwritten: the file got copies of thousands of blocks of others, and e2fsck found fault with
/// the extents.
#[test]
fn an_extent_ends_where_space_says_and_its_own_length_bears_it_out() {
    let of = |count, sectors, size: u64| {
        let mut raw = tree(mode::REGULAR, 0, &[extent(0, count, 100)], 1, 0);
        raw.i_blocks_lo.set(sectors);
        raw.set_size(size * BLOCK_SIZE as u64);
        raw
    };
    let bench = Bench::new();
    for (count, sectors) in [(0x101, 2), (0x43, 6), (0x8101, 2)] {
        let mended = bench.expect(FILE, &of(count, sectors, 45), &[&BEYOND_SPACE]);
        assert_eq!(mended.raw().i_blocks_lo.get(), 2 * mended.runs[0].count);
        assert_eq!(mended.raw().size(), 45 * BLOCK_SIZE as u64);
    }
    // The length is no other one of which a byte or bit was overwritten; or the size bears it out.
    assert_eq!(bench.expect(FILE, &of(0x35, 2, 60), &[&SECTORS_WRONG]).runs[0].count, 0x35);
    assert_eq!(bench.expect(FILE, &of(0x101, 2, 0x101), &[&SECTORS_WRONG]).runs[0].count, 0x101);
}

#[test]
fn an_extent_of_the_only_leaf_ends_where_size_and_space_say_so() {
    let mut bench = Bench::new();
    let raw = tree(mode::REGULAR, 1, &[index(0, 60)], 12, 1);
    let mut with = |entries: &[[u8; 12]], raw: &RawInode, rows: &[&'static Row]| {
        bench.put(60, &node(BLOCK_SIZE, 0, entries));
        bench.expect(FILE, raw, rows).runs.iter().map(|run| run.count).collect::<Vec<_>>()
    };
    let [first, second] = [extent(0, 4, 100), extent(4, 4, 110)];
    assert_eq!(with(&[first, second, extent(8, 4, 120)], &raw, &[]), [4, 4, 4]);
    let long = [first, second, extent(8, 132, 120)];
    assert_eq!(with(&long, &raw, &[&BEYOND_SIZE]), [4, 4, 4]);
    let mut one_witness = raw;
    one_witness.i_blocks_lo += 2;
    assert_eq!(with(&long, &one_witness, &[&SIZE_WRONG, &SECTORS_WRONG]), [4, 4, 132]);
}

/// One block that claimed 47 took the holes behind it too, though the space in use tells its length.
#[test]
fn the_space_in_use_tells_the_length_of_an_extent_in_one_leaf_of_several() {
    let mut bench = Bench::new();
    let raw = tree(mode::REGULAR, 1, &[index(0, 60), index(16, 61)], 8, 2);
    let counts = |bench: &Bench, raw: &RawInode, rows: &[&'static Row]| {
        bench.expect(FILE, raw, rows).runs.iter().map(|run| run.count).collect::<Vec<_>>()
    };
    let first = |count| {
        let entries = [extent(0, 1, 100), extent(4, count, 110), extent(8, 1, 120), extent(12, 1, 130)];
        node(BLOCK_SIZE, 0, &entries)
    };
    let mut sized = raw;
    sized.set_size(20 * BLOCK_SIZE as u64);
    bench.put(61, &node(BLOCK_SIZE, 0, &[extent(16, 4, 140)]));
    bench.put(60, &first(1));
    assert_eq!(counts(&bench, &sized, &[]), [1, 1, 1, 1, 4]);
    bench.put(60, &first(47));
    assert_eq!(counts(&bench, &sized, &[&TOO_LONG]), [1, 1, 1, 1, 4]);
    // Another leaf that is out of order tells nothing.
    bench.put(
        61,
        &node(
            BLOCK_SIZE,
            0,
            &[extent(16, 40, 140), extent(17, 1, 150), extent(18, 1, 152), extent(19, 1, 154)],
        ),
    );
    assert_eq!(counts(&bench, &sized, &[&TOO_LONG, &SECTORS_WRONG])[1], 4);
}

#[test]
fn a_wrong_first_entry_does_not_move_its_node() {
    let mut bench = Bench::new();
    let raw = two_leaves(&mut bench);
    bench.put(60, &node(BLOCK_SIZE, 0, &[extent(9000, 2, 100), extent(2, 2, 110)]));
    let inspection = bench.expect(FILE, &raw, &[&INDEX_START, &MISPLACED]);
    assert_eq!(inspection.runs.iter().map(|run| run.physical).collect::<Vec<_>>(), [100, 110, 120]);
    assert!(!inspection.rebuild);
    // What fits nowhere goes.
    bench.put(60, &node(BLOCK_SIZE, 0, &[extent(9000, 1, 100), extent(2, 2, 110)]));
    let inspection = bench.expect(FILE, &raw, &[&INDEX_START, &BEYOND_PARENT, &SECTORS_WRONG]);
    assert_eq!(inspection.runs.iter().map(|run| run.physical).collect::<Vec<_>>(), [110, 120]);
}

#[test]
fn a_file_with_holes_does_not_grow_by_an_overwritten_upper_byte() {
    let entries = [extent(4, 4, 100), extent(0x1000_000C, 4, 110), extent(0x9200_0014, 4, 120)];
    let mut raw = tree(mode::REGULAR, 0, &entries, 12, 0);
    raw.set_size(24 * BLOCK_SIZE as u64);
    let inspection = Bench::new().expect(FILE, &raw, &[&MISPLACED]);
    assert_eq!(inspection.runs.iter().map(|run| run.logical).collect::<Vec<_>>(), [4, 12, 20]);
    assert_eq!(inspection.raw().size(), 24 * BLOCK_SIZE as u64);
}

#[test]
fn a_tree_of_nothing_has_no_levels() {
    let raw = tree(mode::REGULAR, 1, &[], 0, 0);
    let inspection = Bench::new().expect(FILE, &raw, &[&TOO_DEEP]);
    assert_eq!(inspection.raw().i_block[6..8], [0, 0]);
    Bench::new().expect(FILE, &tree(mode::REGULAR, 0, &[], 0, 0), &[]);
}

#[test]
fn a_tree_whose_keys_do_not_ascend_is_written_anew() {
    let mut bench = Bench::new();
    two_leaves(&mut bench);
    let raw = tree(mode::REGULAR, 1, &[index(4, 61), index(0, 60)], 8, 2);
    let (inspection, problems) = bench.inspect(FILE, &raw);
    expect_rows(&problems, &[&OUT_OF_ORDER]);
    assert!(inspection.rebuild);
    assert_eq!(inspection.runs.iter().map(|run| run.physical).collect::<Vec<_>>(), [100, 110, 120]);
}

#[test]
fn no_written_block_of_a_deep_tree_lies_behind_the_size() {
    let mut bench = Bench::new();
    let mut raw = two_leaves(&mut bench);
    raw.set_size(7 * 1024);
    assert_eq!(bench.expect(FILE, &raw, &[&SIZE_WRONG]).raw().size(), 8 * 1024);
}

#[test]
fn a_node_that_is_wrong_about_its_depth_keeps_what_it_maps() {
    let mut bench = Bench::new();
    let raw = two_leaves(&mut bench);
    for depth in [1, 2, 0xFFFF] {
        bench.put(61, &node(BLOCK_SIZE, depth, &[extent(4, 4, 120)]));
        let inspection = bench.expect(FILE, &raw, &[&NODE_DEPTH]);
        assert_eq!((inspection.runs.len(), inspection.map_blocks), (3, vec![60, 61]));
    }
    // Not what its parent says, or nothing that could be extents.
    bench.put(61, &node(BLOCK_SIZE, 1, &[extent(5, 3, 120)]));
    bench.expect(FILE, &raw, &[&HEADER_INVALID, &SECTORS_WRONG]);
    bench.put(61, &node(BLOCK_SIZE, 1, &[extent(4, 2, 120), extent(5, 2, 122)]));
    bench.expect(FILE, &raw, &[&HEADER_INVALID, &SECTORS_WRONG]);
    bench.put(61, &node(BLOCK_SIZE, 1, &[extent(4, 4, 120), extent(8, 1, 600)]));
    bench.expect(FILE, &raw, &[&HEADER_INVALID, &SECTORS_WRONG]);
    // More is wrong than the depth, and most of it is a leaf.
    let most = [extent(9000, 1, 120), extent(5, 1, 122), extent(6, 1, 124), extent(7, 1, 126)];
    bench.put(61, &node(BLOCK_SIZE, 2, &most));
    let inspection = bench.expect(FILE, &raw, &[&INDEX_START, &NODE_DEPTH, &MISPLACED]);
    assert_eq!((inspection.runs.len(), inspection.map_blocks), (6, vec![60, 61]));
    bench.put(61, &node(BLOCK_SIZE, 2, &[extent(9000, 1, 120), extent(5, 1, 122), extent(6, 2, 600)]));
    bench.expect(FILE, &raw, &[&HEADER_INVALID, &SECTORS_WRONG]);
    // An inner node, recognised by the leaf below it.
    bench.put(61, &node(BLOCK_SIZE, 0, &[extent(4, 4, 120)]));
    bench.put(62, &node(BLOCK_SIZE, 0, &[index(0, 60), index(4, 61)]));
    let deep = tree(mode::REGULAR, 2, &[index(0, 62)], 8, 3);
    let inspection = bench.expect(FILE, &deep, &[&NODE_DEPTH]);
    assert_eq!((inspection.runs.len(), inspection.map_blocks), (3, vec![62, 60, 61]));
}

#[test]
fn nodes_that_are_none() {
    let mut bench = Bench::new();
    let raw = two_leaves(&mut bench);
    bench.put(61, &[0]);
    let inspection = bench.expect(FILE, &raw, &[&HEADER_INVALID, &SECTORS_WRONG]);
    assert_eq!((inspection.runs.len(), inspection.map_blocks), (2, vec![60]));
    bench.put(61, &node(BLOCK_SIZE, 1, &[index(4, 62)]));
    bench.expect(FILE, &raw, &[&HEADER_INVALID, &SECTORS_WRONG]);
    let outside = tree(mode::REGULAR, 1, &[index(0, 60), index(4, 600)], 4, 1);
    bench.expect(FILE, &outside, &[&START_OUTSIDE]);
    let mut none = inode(mode::REGULAR);
    none.set_flag(InodeFlags::EXTENTS);
    assert!(bench.expect(FILE, &none, &[&TREE_ROOT_INVALID]).cleared);
}

#[test]
fn one_wrong_word_in_the_head_of_the_root_costs_nothing() {
    let mut bench = Bench::new();
    let extents = [extent(0, 2, 60), extent(4, 3, 70)];
    let mut shallow = tree(mode::REGULAR, 0, &extents, 5, 0);
    shallow.set_size(7 * BLOCK_SIZE as u64);
    let deep = two_leaves(&mut bench);
    let empty = tree(mode::REGULAR, 0, &[], 0, 0);
    // The magic number, the room; the number of entries of a tree whose extents tell how many they are.
    for (at, wrong) in [(0, 0xF302_u16), (0, 0x1234), (4, 0), (4, 7), (4, 0x8004), (2, 7), (2, 0x8002)] {
        let damaged = |raw: &RawInode| {
            let mut raw = *raw;
            raw.i_block[at..at + 2].copy_from_slice(&wrong.to_le_bytes());
            raw
        };
        let inspection = bench.expect(FILE, &damaged(&shallow), &[&TREE_HEAD_DAMAGED]);
        assert_eq!(inspection.raw().i_block, shallow.i_block, "{at} {wrong:#x}");
        if at != 2 {
            for raw in [&deep, &empty] {
                let inspection = bench.expect(FILE, &damaged(raw), &[&TREE_HEAD_DAMAGED]);
                assert_eq!(inspection.raw().i_block, raw.i_block, "{at} {wrong:#x}");
            }
        }
    }
    // Two wrong words, extents that cannot be, a number of entries that nothing tells.
    let mut two = shallow;
    two.i_block[0] = 2;
    two.i_block[4] = 9;
    let mut astray = tree(mode::REGULAR, 0, &[extent(0, 2, 60_000)], 2, 0);
    astray.i_block[0] = 2;
    let mut untold = tree(mode::REGULAR, 0, &extents, 6, 0);
    untold.i_block[2] = 9;
    let mut filled = empty;
    filled.i_block[0] = 2;
    filled.i_block[40] = 1;
    for raw in [two, astray, untold, filled] {
        assert!(bench.expect(FILE, &raw, &[&TREE_ROOT_INVALID]).cleared);
    }
}

#[test]
fn a_root_with_a_damaged_head_is_known_without_the_flag_of_extents() {
    let mut bench = Bench::new();
    let unmarked = |raw: &RawInode| {
        let mut raw = *raw;
        raw.clear_flag(InodeFlags::EXTENTS);
        raw.i_block[..2].copy_from_slice(&0xF12A_u16.to_le_bytes());
        raw
    };
    let shallow = tree(mode::REGULAR, 0, &[extent(0, 2, 60), extent(2, 3, 70)], 5, 0);
    let (deep, empty) = (two_leaves(&mut bench), tree(mode::REGULAR, 0, &[], 0, 0));
    for raw in [&shallow, &deep, &empty] {
        let inspection = bench.expect(FILE, &unmarked(raw), &[&FLAG_MISSING, &TREE_HEAD_DAMAGED]);
        assert_eq!(inspection.raw().i_block, raw.i_block);
        assert!(inspection.raw().has_flag(InodeFlags::EXTENTS));
    }
    // Space that goes with no tree; and a map of blocks, of which each can be one.
    let rows_of = |bench: &Bench, raw: &RawInode| {
        bench.inspect(FILE, raw).1.iter().map(|problem| problem.row.code).collect::<Vec<_>>()
    };
    for mut raw in [unmarked(&shallow), unmarked(&empty)] {
        raw.i_blocks_lo += 2;
        assert!(!rows_of(&bench, &raw).contains(&FLAG_MISSING.code));
    }
    let mut mapped = unmarked(&empty);
    mapped.i_block[..2].copy_from_slice(&300_u16.to_le_bytes());
    assert!(rows_of(&bench, &mapped).contains(&FLAG_MISSING.code), "block 4 is no file's");
    bench.geometry.features.incompat &= !Incompat::EXTENTS;
    assert!(!rows_of(&bench, &mapped).contains(&FLAG_MISSING.code));
}

#[test]
fn an_extent_of_a_directory_ends_where_no_names_follow() {
    const SPACE: u32 = 1 << 31 | 2;
    let records = |first: &[u8], length: u16| {
        let mut bytes = 13_u32.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend([first.len() as u8, 2]);
        bytes.extend(first);
        bytes.resize(usize::from(length).max(12), 0);
        bytes
    };
    let mut raw = tree(mode::DIRECTORY, 0, &[extent(0, 300, 100)], 300, 0);
    raw.set_size(BLOCK_SIZE as u64);
    let mut lost = raw;
    lost.i_blocks_lo.set(SPACE);
    // The next block holds nothing, no records, or those of the first block of another directory.
    for behind in [vec![0; 16], vec![b'x'; 16], records(b".", BLOCK_SIZE as u16)] {
        let mut bench = Bench::new();
        bench.put(101, &behind);
        let inspection = bench.expect(FILE, &lost, &[&DIRECTORY_BEYOND_SIZE, &SECTORS_WRONG]);
        assert_eq!((inspection.runs.len(), inspection.runs[0].count), (1, 1));
        assert_eq!(inspection.raw().size(), BLOCK_SIZE as u64);
        // The space goes with the extent: it is the size that is wrong.
        assert_eq!(bench.expect(FILE, &raw, &[&SIZE_WRONG]).runs[0].count, 300);
        // Of a file, nothing tells what belongs to it.
        let mut file = lost;
        file.i_mode.set(mode::REGULAR | 0o644);
        assert_eq!(bench.expect(FILE, &file, &[&SIZE_WRONG, &SECTORS_WRONG]).runs[0].count, 300);
    }
    // Blocks of names, as all other blocks of a directory are; one of them alone may be another directory's, too.
    let mut bench = Bench::new();
    bench.put(101, &records(b"name", BLOCK_SIZE as u16));
    assert_eq!(bench.expect(FILE, &lost, &[&DIRECTORY_BEYOND_SIZE, &SECTORS_WRONG]).runs[0].count, 1);
    for block in 101..117 {
        bench.put(block, &records(b"name", BLOCK_SIZE as u16));
    }
    assert_eq!(bench.expect(FILE, &lost, &[&SIZE_WRONG, &SECTORS_WRONG]).runs[0].count, 300);
}

#[test]
fn a_node_that_cannot_be_read() {
    let mut bench = Bench::new();
    let raw = two_leaves(&mut bench);
    bench.device.bytes_mut().truncate(61 * BLOCK_SIZE);
    bench.expect(FILE, &raw, &[&NODE_UNREADABLE, &SECTORS_WRONG]);
}

#[test]
fn loops_end() {
    let mut bench = Bench::new();
    bench.put(60, &node(BLOCK_SIZE, 0, &[extent(0, 4, 100)]));
    let raw = tree(mode::REGULAR, 1, &[index(0, 60), index(4, 60)], 4, 1);
    bench.expect(FILE, &raw, &[&NODE_REPEATED]);
    bench.put(61, &node(BLOCK_SIZE, 1, &[index(0, 61)]));
    let raw = tree(mode::REGULAR, 2, &[index(0, 61)], 0, 1);
    // Nothing is left in the node, so that it goes too.
    let inspection = bench.expect(FILE, &raw, &[&NODE_REPEATED, &SECTORS_WRONG]);
    assert!(inspection.map_blocks.is_empty());
}

#[test]
fn a_node_in_the_metadata() {
    let mut bench = Bench::new();
    bench.put(30, &node(BLOCK_SIZE, 0, &[extent(0, 4, 100)]));
    let raw = tree(mode::REGULAR, 1, &[index(0, 30)], 4, 1);
    let inspection = bench.expect(FILE, &raw, &[&NODE_IN_METADATA]);
    assert_eq!(inspection.map_blocks, [30], "the claims have to meet");
}

#[test]
fn keys_and_bounds_of_interior_entries() {
    let mut bench = Bench::new();
    let mut raw = two_leaves(&mut bench);
    raw.i_block.copy_from_slice(&node(60, 1, &[index(0, 60), index(5, 61)]));
    let inspection = bench.expect(FILE, &raw, &[&INDEX_START]);
    assert_eq!(inspection.runs.len(), 3);
    bench.put(60, &node(BLOCK_SIZE, 0, &[extent(0, 2, 100), extent(2, 3, 110)]));
    raw.i_block.copy_from_slice(&node(60, 1, &[index(0, 60), index(4, 61)]));
    let inspection = bench.expect(FILE, &raw, &[&BEYOND_PARENT, &SECTORS_WRONG]);
    assert_eq!(inspection.runs.len(), 2);
}

#[test]
fn checksums_of_nodes() {
    let mut bench = Bench::new();
    bench.features().ro_compat |= RoCompat::METADATA_CSUM;
    let raw = two_leaves(&mut bench);
    let seed = checksum::inode_seed(bench.geometry.checksum_seed, InodeNo(FILE), raw.i_generation.get());
    for block in [60, 61] {
        let at = block as usize * BLOCK_SIZE;
        let bytes = &mut bench.device.bytes_mut()[at..at + BLOCK_SIZE];
        let sum = checksum::extent_block(seed, bytes).unwrap().computed;
        bytes[BLOCK_SIZE - 4..].copy_from_slice(&sum.to_le_bytes());
    }
    bench.expect(FILE, &raw, &[]);
    bench.device.bytes_mut()[61 * BLOCK_SIZE + 1000] ^= 1;
    bench.expect(FILE, &raw, &[&NODE_CHECKSUM]);
    bench.device.bytes_mut()[61 * BLOCK_SIZE + 14] = 1;
    bench.put(61, &node(BLOCK_SIZE, 0, &[extent(4, 4, 600)]));
    bench.expect(FILE, &raw, &[&START_OUTSIDE, &SECTORS_WRONG]);
}

#[test]
fn trees_that_are_too_deep() {
    let mut bench = Bench::new();
    for level in 0..7 {
        bench.put(60 + level, &node(BLOCK_SIZE, 6 - level as u16, &[index(0, 61 + level)]));
    }
    bench.put(66, &node(BLOCK_SIZE, 0, &[extent(0, 1, 100)]));
    let raw = tree(mode::REGULAR, 7, &[index(0, 60)], 1, 7);
    assert_eq!(bench.expect(FILE, &raw, &[&TOO_DEEP]).runs.len(), 1);
}

#[test]
fn directories_are_dense_and_written() {
    let bench = Bench::new();
    let raw = tree(mode::DIRECTORY, 0, &[extent(0, 1, 100), extent(3, 1, 101)], 2, 0);
    let inspection = bench.expect(FILE, &raw, &[&DIRECTORY_HOLE]);
    assert_eq!((inspection.runs.len(), inspection.runs[0].count), (1, 2));
    let raw = tree(mode::DIRECTORY, 0, &[extent(0, 0x8001, 100)], 1, 0);
    bench.expect(FILE, &raw, &[&DIRECTORY_UNWRITTEN]);
    let raw = tree(mode::DIRECTORY, 0, &[extent(1 << 21, 1, 100)], 0, 0);
    bench.expect(FILE, &raw, &[&DIRECTORY_TOO_BIG, &EMPTY_DIRECTORY]);
    // By the size there is room for it where the others end.
    let raw = tree(mode::DIRECTORY, 0, &[extent(0, 1, 100), extent(0x0400_0000, 1, 101)], 2, 0);
    let inspection = bench.expect(FILE, &raw, &[&DIRECTORY_HOLE]);
    assert_eq!((inspection.runs.len(), inspection.runs[0].count), (1, 2));
}

#[test]
fn links_and_system_files_are_written() {
    let mut bench = Bench::new();
    bench.put(100, &[b'x'; 80]);
    let mut raw = tree(mode::SYMLINK, 0, &[extent(0, 0x8001, 100)], 1, 0);
    raw.set_size(80);
    bench.expect(FILE, &raw, &[&UNWRITTEN_NOT_ALLOWED]);
    let raw = tree(mode::REGULAR, 0, &[extent(0, 0x8001, 100)], 1, 0);
    bench.expect(8, &raw, &[&UNWRITTEN_NOT_ALLOWED]);
}

#[test]
fn clusters() {
    let mut bench = Bench::new();
    bench.features().ro_compat |= RoCompat::BIGALLOC;
    bench.geometry.cluster_blocks = 4;
    let mut raw = tree(mode::REGULAR, 0, &[extent(0, 2, 100), extent(3, 2, 103)], 5, 0);
    raw.i_blocks_lo.set(16);
    assert!(bench.expect(FILE, &raw, &[]).misaligned.is_empty());
    // Space in use is counted in clusters: the last extent ends where size and space say so, of a directory too.
    let mut raw = tree(mode::REGULAR, 0, &[extent(0, 40, 100)], 2, 0);
    raw.i_blocks_lo.set(8);
    assert_eq!(bench.expect(FILE, &raw, &[&BEYOND_SIZE]).runs[0].count, 2);
    let mut raw = tree(mode::DIRECTORY, 0, &[extent(0, 0x8000 + 40, 100)], 1, 0);
    raw.i_blocks_lo.set(8);
    raw.i_links_count.set(2);
    assert_eq!(bench.expect(FILE, &raw, &[&BEYOND_SIZE, &DIRECTORY_UNWRITTEN]).runs[0].count, 1);
    let mut raw = tree(mode::REGULAR, 0, &[extent(0, 2, 101)], 2, 0);
    raw.i_blocks_lo.set(16);
    assert_eq!(bench.expect(FILE, &raw, &[&MISALIGNED_CLUSTER]).misaligned.len(), 1);
    let mut raw = tree(mode::REGULAR, 0, &[extent(0, 2, 100), extent(2, 2, 106)], 4, 0);
    raw.i_blocks_lo.set(16);
    bench.expect(FILE, &raw, &[&MISALIGNED_CLUSTER]);
}
