// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode};

use fsmend_base::InodeNo;
use fsmend_engine::{Findings, Row};

use super::problems::*;
use super::{Subject, Told, Walk};
use crate::inode::problems::{SECTORS_WRONG, SIZE_WRONG, SYMLINK_WRONG};
use crate::inode::testing::{BLOCK_SIZE, Bench, FILE, mapped};

/// A file with twelve direct blocks, an indirect block at 60 and a double one at 61 (with 62 below it).
fn three_levels(bench: &mut Bench) -> RawInode {
    bench.put_words(60, &[200, 201]);
    bench.put_words(61, &[62]);
    bench.put_words(62, &[300]);
    let mut words: Vec<u32> = (100..112).collect();
    words.extend([60, 61]);
    let mut raw = mapped(mode::REGULAR, &words);
    raw.set_size((12 + 256 + 1) * BLOCK_SIZE as u64);
    raw.i_blocks_lo.set(2 * (12 + 3 + 3));
    raw
}

#[test]
fn a_sound_map_is_followed() {
    let mut bench = Bench::new();
    let raw = three_levels(&mut bench);
    let inspection = bench.expect(FILE, &raw, &[]);
    assert_eq!(inspection.map_blocks, [60, 61, 62]);
    let runs: Vec<_> = inspection.runs.iter().map(|run| (run.logical, run.physical, run.count)).collect();
    assert_eq!(runs, [(0, 100, 12), (12, 200, 2), (268, 300, 1)]);
}

#[test]
fn wrong_pointers_are_cleared_one_by_one() {
    let mut bench = Bench::new();
    let raw = mapped(mode::REGULAR, &[50, 600, 52]);
    let inspection = bench.expect(FILE, &raw, &[&POINTER_OUTSIDE, &SECTORS_WRONG]);
    assert_eq!((inspection.runs.len(), inspection.raw().block_word(1)), (2, 0));
    let mut raw = three_levels(&mut bench);
    raw.set_block_word(13, 600);
    bench.expect(FILE, &raw, &[&MAP_POINTER_OUTSIDE, &SECTORS_WRONG]);
}

#[test]
fn a_pointer_behind_the_end_goes_if_size_and_space_in_use_are_against_it() {
    let mut bench = Bench::new();
    // In the inode: an empty file, one with two blocks, and a pointer to an indirect block.
    for (blocks, stray, leads_to) in [(0, 8, 70), (0, 0, 70), (2, 2, 70), (0, 12, 60), (2, 14, 60)] {
        bench.put_words(60, &[200, 201]);
        let mut words: Vec<u32> = (100..100 + blocks).collect();
        words.resize(15, 0);
        let mut raw = mapped(mode::REGULAR, &words);
        raw.set_size(u64::from(blocks) * BLOCK_SIZE as u64);
        raw.set_block_word(stray, leads_to);
        let mended = bench.expect(FILE, &raw, &[&POINTER_BEHIND_END]);
        assert_eq!(mended.raw().block_word(stray), 0);
        assert_eq!(mended.runs.iter().map(|run| run.count).sum::<u32>(), blocks, "{stray}");
        assert_eq!(mended.raw().size(), raw.size());
    }
    // In an indirect block.
    let raw = three_levels(&mut bench);
    bench.put_words(62, &[300, 0, 0, 301]);
    let mended = bench.expect(FILE, &raw, &[&POINTER_BEHIND_END]);
    assert_eq!(mended.runs.last().map(|run| (run.logical, run.count)), Some((268, 1)));
}

#[test]
fn a_pointer_behind_the_end_stays_if_a_witness_is_for_it() {
    let mut bench = Bench::new();
    let with = |stray: &[usize]| {
        let mut raw = mapped(mode::REGULAR, &[100, 101]);
        raw.set_size(2 * BLOCK_SIZE as u64);
        stray.iter().for_each(|at| raw.set_block_word(*at, 110 + *at as u32));
        raw
    };
    bench.expect(FILE, &with(&[4, 5]), &[&POINTER_BEHIND_END]);
    let mended = bench.expect(FILE, &with(&[4, 5, 6]), &[&SIZE_WRONG, &SECTORS_WRONG]);
    assert_eq!(mended.runs.len(), 2, "so many are no accident");
    let mut counted = with(&[4]);
    counted.i_blocks_lo.set(2 * 3);
    assert_eq!(bench.expect(FILE, &counted, &[&SIZE_WRONG]).runs.len(), 2, "the space in use counts it");
    let mut within = with(&[4]);
    within.set_size(5 * BLOCK_SIZE as u64);
    assert_eq!(bench.expect(FILE, &within, &[&SECTORS_WRONG]).runs.len(), 2, "the file is so long");
    bench.features().ro_compat |= RoCompat::VERITY;
    let mut clean = with(&[4]);
    clean.set_flag(InodeFlags::VERITY);
    assert_eq!(bench.expect(FILE, &clean, &[&SECTORS_WRONG]).runs.len(), 2, "there lies what proves it");
}

#[test]
fn too_many_wrong_pointers_clear_the_inode() {
    let words: Vec<u32> = (1000..1012).collect();
    let inspection =
        Bench::new().expect(FILE, &mapped(mode::REGULAR, &words), &[&POINTER_OUTSIDE, &HOPELESS]);
    assert!(inspection.cleared && inspection.runs.is_empty());
}

#[test]
fn wrong_pointers_in_holes_leave_a_file_that_has_all_of_its_blocks() {
    let mut bench = Bench::new();
    for (block, at, data) in [(60, 200, 201), (62, 5, 300)] {
        let mut words = [0; 256];
        (0..8).for_each(|word| words[9 * word] = 0x40_0000 + word as u32);
        words[at] = data;
        bench.put_words(block, &words);
    }
    bench.put_words(61, &[62]);
    let mut raw = mapped(mode::REGULAR, &[0; 12]);
    raw.set_block_word(12, 60);
    raw.set_block_word(13, 61);
    raw.set_size((12 + 256 + 6) * BLOCK_SIZE as u64);
    raw.i_blocks_lo.set(2 * (2 + 3));
    let inspection = bench.expect(FILE, &raw, &[&POINTER_OUTSIDE]);
    assert_eq!(inspection.runs.iter().map(|run| run.physical).collect::<Vec<_>>(), [201, 300]);
    // One of its blocks is missing; or it has far more than it uses; and it does not end with one of them.
    raw.set_size((12 + 256 + 7) * BLOCK_SIZE as u64);
    for in_use in [3 + 3, 2] {
        raw.i_blocks_lo.set(2 * in_use);
        assert!(bench.expect(FILE, &raw, &[&POINTER_OUTSIDE, &HOPELESS]).cleared);
    }
}

#[test]
fn an_indirect_block_in_the_metadata_is_followed_and_claimed() {
    let mut bench = Bench::new();
    let mut raw = three_levels(&mut bench);
    bench.put_words(30, &[200, 201]);
    raw.set_block_word(12, 30);
    let inspection = bench.expect(FILE, &raw, &[&MAP_IN_METADATA]);
    assert_eq!(inspection.map_blocks[0], 30);
}

#[test]
fn an_indirect_block_that_is_something_else_goes_alone() {
    let mut bench = Bench::new();
    let mut raw = three_levels(&mut bench);
    let rubbish: Vec<u32> = (0..200).map(|word| 0x6F6C_6200 + word).collect();
    bench.put_words(30, &[&rubbish[..], &[200, 201]].concat());
    raw.set_block_word(14, 30);
    raw.i_blocks_lo.set(2 * (12 + 3 + 3));
    // The pointer stands for a part of the file that is a hole.
    raw.set_size((12 + 256 + 256 * 256 + 1) * BLOCK_SIZE as u64);
    let inspection = bench.expect(FILE, &raw, &[&MAP_IN_METADATA, &MAP_FOREIGN]);
    assert!(!inspection.cleared);
    assert_eq!((inspection.raw().block_word(14), inspection.map_blocks.len()), (0, 3));
    // As many wrong ones among more that are right: these stay, and the file.
    let right: Vec<u32> = (300..330).collect();
    bench.put_words(60, &[&right[..], &rubbish[..12]].concat());
    let (inspection, _) = bench.inspect(FILE, &three_levels_again(60));
    assert_eq!((inspection.cleared, inspection.runs[0].count, inspection.runs.len()), (false, 30, 1));
    // Fewer than a dozen, and a dozen, in the inode and in the block together, among eight that are right.
    bench.put_words(64, &[&right[..7], &rubbish[..4]].concat());
    let mixed = |wrong: usize| {
        let mut raw = three_levels_again(64);
        raw.set_size(raw.size() + 40 * BLOCK_SIZE as u64);
        rubbish[..wrong].iter().enumerate().for_each(|(at, word)| raw.set_block_word(at, *word));
        raw
    };
    assert!(!bench.inspect(FILE, &mixed(7)).0.cleared);
    assert!(bench.inspect(FILE, &mixed(8)).0.cleared);
}

/// A file whose one block of data lies behind a hole: a stray pointer in its double indirect block led to a page of text, whose words counted
/// against it, and it was cleared.
#[test]
fn what_a_stray_pointer_leads_to_does_not_condemn_a_sparse_file() {
    let mut bench = Bench::new();
    let text: Vec<u32> = (0..5).map(|word| 0x6F6C_6200 + word).collect();
    let stray: Vec<u32> = (0..5).map(|word| 0x2000_0000 + word).collect();
    bench.put_words(62, &text);
    bench.put_words(63, &[&stray[..], &[300]].concat());
    bench.put_words(61, &[&[62, 0, 63][..], &stray[..3]].concat());
    let mut words = vec![0; 13];
    words.push(61);
    let mut raw = mapped(mode::REGULAR, &words);
    raw.set_size((12 + 256 + 2 * 256 + 6) * BLOCK_SIZE as u64);
    let (inspection, problems) = bench.inspect(FILE, &raw);
    assert!(!inspection.cleared);
    assert!(problems.iter().any(|problem| problem.row == &MAP_FOREIGN));
    let left: Vec<u64> = inspection.runs.iter().map(|run| run.physical).collect();
    assert_eq!(left, [300]);
}

/// The flag of another feature on a file does not make its stray pointers believable.
#[test]
fn a_stray_pointer_goes_whatever_flags_the_file_has_without_the_feature() {
    for flag in [InodeFlags::empty(), InodeFlags::VERITY] {
        let mut raw = mapped(mode::REGULAR, &[100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 70]);
        raw.set_size(1000);
        raw.i_blocks_lo.set(2);
        raw.set_flag(flag);
        let (inspection, _) = Bench::new().inspect(FILE, &raw);
        assert_eq!((inspection.raw().size(), inspection.runs.len()), (1000, 1), "{flag:x}");
    }
}

/// The file of [`three_levels`] with nothing but its indirect block.
fn three_levels_again(indirect: u32) -> RawInode {
    let mut words = vec![0; 12];
    words.push(indirect);
    mapped(mode::REGULAR, &words)
}

#[test]
fn loops_end() {
    let mut bench = Bench::new();
    let mut raw = three_levels(&mut bench);
    bench.put_words(61, &[61, 61]);
    raw.set_size(14 * BLOCK_SIZE as u64);
    bench.expect(FILE, &raw, &[&MAP_REPEATED, &SECTORS_WRONG]);
}

#[test]
fn an_indirect_block_that_cannot_be_read() {
    let mut bench = Bench::new();
    let raw = three_levels(&mut bench);
    bench.device.bytes_mut().truncate(62 * BLOCK_SIZE);
    let (inspection, problems) = bench.inspect(FILE, &raw);
    assert!(problems.iter().any(|problem| problem.row == &MAP_UNREADABLE));
    assert!(!inspection.cleared);
}

#[test]
fn a_directory_beyond_its_limit() {
    let mut bench = Bench::new();
    let mut words = vec![0; 256];
    words[255] = 63;
    bench.put_words(61, &words);
    bench.put_words(62, &words);
    let mut last = vec![0; 256];
    last[200] = 300;
    bench.put_words(63, &last);
    let mut raw = mapped(mode::DIRECTORY, &[100]);
    raw.set_block_word(14, 61);
    bench.put_words(61, &[vec![0; 255], vec![62]].concat());
    raw.i_blocks_lo.set(8);
    bench.expect(FILE, &raw, &[&DIRECTORY_TOO_BIG]);
}

#[test]
fn a_link_of_two_blocks() {
    let mut bench = Bench::new();
    bench.put(100, &[b'x'; 80]);
    let mut raw = mapped(mode::SYMLINK, &[100, 101]);
    raw.set_size(80);
    // The second pointer goes; the target in the first block is whole.
    let inspection = bench.expect(FILE, &raw, &[&SYMLINK_TOO_BIG, &SECTORS_WRONG]);
    assert!(!inspection.cleared);
    raw.set_size(81);
    bench.expect(FILE, &raw, &[&SYMLINK_TOO_BIG, &SECTORS_WRONG, &SYMLINK_WRONG]);
}

#[test]
fn a_size_that_no_block_map_reaches() {
    let bench = Bench::new();
    let mut raw = mapped(mode::REGULAR, &[100]);
    raw.set_size(1 << 40);
    bench.expect(FILE, &raw, &[&SIZE_WRONG]);
}

/// Two TiB of blocks do not fit a test: the walk begins as if it had followed nearly all of them.
#[test]
fn a_file_ends_where_the_count_of_its_sectors_does() {
    let mut bench = Bench::new();
    let raw = mapped(mode::REGULAR, &[100]);
    let most = (1 << 41) / BLOCK_SIZE as u64 - 1;
    for (has_huge_files, before, fits) in [(false, most - 1, true), (false, most, false), (true, most, true)]
    {
        let feature = &mut bench.features().ro_compat;
        feature.set(RoCompat::HUGE_FILE, has_huge_files);
        let fs = bench.fs();
        let mut subject = Subject::new(&fs, InodeNo(FILE), &bench.record(FILE, &raw), Findings::new());
        let mut walk = Walk::new(&subject, Told::default());
        walk.map.clusters = before;
        // A map of more blocks than this small file system has is given up elsewhere.
        walk.pointer(&mut subject, 100, 0, 0);
        let raised = subject.findings.counts();
        assert_eq!(raised.contains_key(FILE_TOO_BIG.code), !fits, "{before}");
    }
}

#[test]
fn a_hole_that_a_pointer_into_metadata_was_written_into_stays_one() {
    let bench = Bench::new();
    // Behind the end, whatever i_blocks says; within it, where that does not count the block.
    for (sectors, stray) in [(4, 5), (66, 5), (2, 1)] {
        let mut raw = mapped(mode::REGULAR, &[100]);
        raw.set_size(3 * BLOCK_SIZE as u64 - 7);
        raw.i_blocks_lo.set(sectors);
        raw.set_block_word(stray, 4);
        let sectors_row: &[&Row] = if sectors == 2 { &[] } else { &[&SECTORS_WRONG] };
        let mended = bench.expect(FILE, &raw, &[&[&POINTER_FALSE], sectors_row].concat());
        assert_eq!((mended.raw().block_word(stray), mended.raw().size()), (0, 3 * BLOCK_SIZE as u64 - 7));
    }
    // What i_blocks counts was a pointer once, and gets a copy.
    let mut raw = mapped(mode::REGULAR, &[100, 4, 102]);
    raw.set_size(3 * BLOCK_SIZE as u64 - 7);
    assert_eq!(bench.expect(FILE, &raw, &[]).raw().block_word(1), 4);
}

#[test]
fn a_file_of_nothing_but_a_hole_gets_no_copy_of_the_group_descriptors() {
    let mut bench = Bench::new();
    bench.put_words(2, &[5, 6, 7, 600, 601]);
    let mut raw = mapped(mode::REGULAR, &[0; 15]);
    raw.set_size(1 << 20);
    raw.set_block_word(12, 2);
    raw.i_blocks_lo.set(0);
    let mended = bench.expect(FILE, &raw, &[&POINTER_FALSE]);
    assert_eq!((mended.raw().block_word(12), mended.raw().size(), mended.runs.len()), (0, 1 << 20, 0));
}

#[test]
fn an_indirect_block_of_the_file_itself_is_no_data_of_it() {
    let mut bench = Bench::new();
    let mut raw = three_levels(&mut bench);
    bench.put_words(60, &[200, 201, 0, 0, 61]);
    let inspection = bench.expect(FILE, &raw, &[&POINTER_FALSE]);
    assert_eq!(inspection.runs.iter().map(|run| run.count).sum::<u32>(), 12 + 2 + 1);
    // Where i_blocks counts it, something else stood there, and only a copy can follow.
    raw.i_blocks_lo.set(2 * (12 + 3 + 3 + 1));
    bench.expect(FILE, &raw, &[]);
    // Data that an indirect pointer leads to by mistake map nothing, and stay data.
    let mut bench = Bench::new();
    let mut raw = mapped(mode::REGULAR, &[100, 101]);
    raw.set_block_word(12, 101);
    raw.set_size(2 * BLOCK_SIZE as u64);
    raw.i_blocks_lo.set(4);
    bench.put(101, b"some text that is no block number");
    let mended = bench.expect(FILE, &raw, &[&POINTER_BEHIND_END]);
    assert_eq!(mended.raw().block_word(1), 101);
}

#[test]
fn of_two_pointers_to_an_indirect_block_the_one_stays_with_which_the_file_ends() {
    let mut bench = Bench::new();
    bench.put_words(60, &[0, 200]);
    bench.put_words(61, &[60, 0, 60]);
    let mut raw = mapped(mode::REGULAR, &[0; 15]);
    raw.set_block_word(13, 61);
    raw.i_blocks_lo.set(6);
    let (first, second) = (12 + 256 + 1, 12 + 256 + 2 * 256 + 1);
    for (place, row) in [(second, &MAP_REPEATED), (first, &POINTER_BEHIND_END)] {
        raw.set_size((place + 1) * BLOCK_SIZE as u64);
        let mended = bench.expect(FILE, &raw, &[row]);
        assert_eq!(mended.runs.iter().map(|run| run.logical).collect::<Vec<_>>(), [place]);
    }
}

#[test]
fn a_map_full_of_wrong_pointers_is_no_garbage_if_the_file_ends_with_it() {
    let mut bench = Bench::new();
    let wrong: Vec<u32> = (600..611).collect();
    // In an indirect block of its own, so that the one with the end is not called foreign.
    bench.put_words(60, &[&wrong[..], &[200; 1]].concat());
    let mut raw = mapped(mode::REGULAR, &[600; 11]);
    raw.set_block_word(12, 60);
    raw.i_blocks_lo.set(0x8000_0006);
    raw.set_size((12 + 12) * BLOCK_SIZE as u64 - 3);
    assert!(!bench.inspect(FILE, &raw).0.cleared);
    raw.set_size((12 + 40) * BLOCK_SIZE as u64);
    assert!(bench.inspect(FILE, &raw).0.cleared);
}
