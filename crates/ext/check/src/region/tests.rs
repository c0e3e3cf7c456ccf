// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of facts and their comparison: the examples of the paper among them.

#![allow(clippy::unwrap_used)]

use fsmend_base::{BlockRange, InodeNo};
use fsmend_engine::inodes::Kind;
use fsmend_ext_format::inode::RawInode;
use zerocopy::FromZeros;

use super::Regions;
use super::crosscheck::{end, tree};
use super::facts::{FileFact, Gathered, IndirectFact, RegionFacts, mark_of};
use crate::fast::map::{Tally, WalkItem};

const FILE: u32 = 12;
const POINTERS: u64 = 1022;

/// A file with all 12 direct blocks, and these trees.
fn file(trees: [u32; 3]) -> FileFact {
    let mut raw = RawInode::new_zeroed();
    for (index, tree) in (12..).zip(trees) {
        raw.set_block_word(index, tree);
    }
    let item = WalkItem {
        inode: InodeNo(FILE),
        kind: Kind::Regular,
        flags: fsmend_ext_format::inode::InodeFlags::empty(),
        generation: 0,
        size: 5_000_000_000,
        charged_blocks: 77,
        xattr_block: 0,
        owner: crate::quota::owner_of(&raw),
        i_block: raw.i_block,
    };
    let mut tally = Tally::default();
    (tally.data_blocks, tally.written_end, tally.reach) = (12, 12, Some((1000, 1011)));
    FileFact::new(&item, false, &tally).unwrap()
}

fn regions() -> Regions {
    Regions { ranges: vec![BlockRange::new(1, 500)], first_data_block: 0, blocks_per_group: 32768 }
}

/// Adds an indirect block with `count` pointers, the last of them in place `last`; `children` are those above the lowest level.
fn add(facts: &mut RegionFacts, block: u32, level: u8, (count, last): (u32, u32), children: &[u32]) {
    let sum = children.iter().fold(0u64, |sum, child| sum.wrapping_add(mark_of(*child)));
    let edge = children.last().copied().unwrap_or(2000 + 1022 * block);
    let gathered = Gathered { count, last, edge, children: sum, ..Gathered::default() };
    facts.indirect.push(IndirectFact::new(InodeNo(FILE), block, level, &gathered));
    if level > 1 {
        facts.children.push((block, sum));
    }
    facts.sort();
}

#[test]
fn the_end_of_a_file_by_its_last_pointers() {
    // Figure 6: the last pointer of the inode leads to block 36, the double indirect block; the last one there, in place 2, to
    // block 157, where the last one is in place 12. So the last block of the file is number 1034 + 2044 + 12 = 3090.
    let file = file([30, 36, 0]);
    let mut facts = RegionFacts::default();
    add(&mut facts, 30, 1, (1022, 1021), &[]);
    add(&mut facts, 36, 2, (3, 2), &[155, 156, 157]);
    add(&mut facts, 155, 1, (1022, 1021), &[]);
    add(&mut facts, 156, 1, (1022, 1021), &[]);
    add(&mut facts, 157, 1, (13, 12), &[]);
    assert_eq!(end(&file, facts.of(FILE), POINTERS), Some(3090 + 1));
    let tree = tree(&file, &facts, &regions(), POINTERS).unwrap();
    assert_eq!((tree.end, tree.data_blocks, tree.map_blocks), (3091, 12 + 3 * 1022 + 13, 5));
    let with = |trees| {
        let mut other = file;
        other.trees = trees;
        other
    };
    let sparse = with([0, 0, 40]);
    add(&mut facts, 40, 3, (1, 5), &[41]);
    add(&mut facts, 41, 2, (1, 6), &[42]);
    add(&mut facts, 42, 1, (1, 7), &[]);
    let first = 12 + 1022 + 1022 * 1022;
    assert_eq!(end(&sparse, facts.of(FILE), POINTERS), Some(first + 5 * 1022 * 1022 + 6 * 1022 + 7 + 1));
    assert_eq!(end(&with([0; 3]), &[], POINTERS), Some(12));
    assert_eq!(end(&with([0, 99, 0]), facts.of(FILE), POINTERS), None);
}

/// Figure 7: a single indirect block at 3, a double one at 6, with two below it at 7 and 10.
fn figure_7() -> (FileFact, RegionFacts) {
    let mut facts = RegionFacts::default();
    add(&mut facts, 3, 1, (1022, 1021), &[]);
    add(&mut facts, 6, 2, (2, 1), &[7, 10]);
    add(&mut facts, 7, 1, (1022, 1021), &[]);
    add(&mut facts, 10, 1, (4, 3), &[]);
    (file([3, 6, 0]), facts)
}

#[test]
fn layers_agree_only_with_all_blocks_and_no_others() {
    let (file, facts) = figure_7();
    let whole = tree(&file, &facts, &regions(), POINTERS);
    assert_eq!(whole.map(|tree| tree.map_blocks), Some(4));
    for missing in 0..4 {
        let (file, mut facts) = figure_7();
        facts.indirect.remove(missing);
        assert_eq!(tree(&file, &facts, &regions(), POINTERS), None, "block {missing} was not found");
    }
    for level in 1..=3 {
        let (file, mut facts) = figure_7();
        add(&mut facts, 20, level, (1, 0), if level > 1 { &[7] } else { &[] });
        assert_eq!(tree(&file, &facts, &regions(), POINTERS), None, "a stale block of level {level}");
    }
}

#[test]
fn blocks_that_a_plain_sum_does_not_tell_apart_are_told() {
    // 7 + 10 = 8 + 9.
    let (file, mut facts) = figure_7();
    facts.indirect.retain(|fact| ![7, 10].contains(&fact.block));
    add(&mut facts, 8, 1, (1022, 1021), &[]);
    add(&mut facts, 9, 1, (4, 3), &[]);
    assert_eq!(tree(&file, &facts, &regions(), POINTERS), None);
}

#[test]
fn a_suspect_or_empty_block_asks_for_a_walk() {
    for gathered in [
        Gathered { count: 4, last: 3, edge: 5000, suspect: true, ..Gathered::default() },
        Gathered::default(),
        // On the lowest level of a file that is no directory, pointers lead out of regions.
        Gathered { count: 4, last: 3, edge: 400, ..Gathered::default() },
    ] {
        let (file, mut facts) = figure_7();
        facts.indirect.retain(|fact| fact.block != 10);
        facts.indirect.push(IndirectFact::new(InodeNo(FILE), 10, 1, &gathered));
        facts.sort();
        assert_eq!(tree(&file, &facts, &regions(), POINTERS), None, "{gathered:?}");
    }
}

#[test]
fn facts_are_small() {
    // The paper: inodes nearly 2:1, indirect blocks nearly 250:1.
    assert!(128 / size_of::<FileFact>() >= 2);
    assert!(4096 / size_of::<IndirectFact>() >= 250);
    let gathered =
        Gathered { count: 16382, last: 16381, edge: u32::MAX, gap: true, suspect: true, children: 0 };
    let fact = IndirectFact::new(InodeNo(7), 9, 3, &gathered);
    assert_eq!((fact.count(), fact.last(), fact.level()), (16382, 16381, 3));
    assert!(fact.has_gap() && fact.is_suspect());
    assert_eq!(file([1, 2, 3]).size(), 5_000_000_000);
}

#[test]
fn places_of_regions() {
    let regions = Regions {
        ranges: vec![BlockRange::new(20, 10), BlockRange::new(110, 10), BlockRange::new(0, 0)],
        first_data_block: 1,
        blocks_per_group: 100,
    };
    assert!(regions.contain(20) && regions.contain(29) && regions.contain(119));
    assert!(!regions.contain(19) && !regions.contain(30) && !regions.contain(0) && !regions.contain(5000));
    assert!(
        regions.touch(0, 21) && regions.touch(29, 100) && !regions.touch(30, 80) && !regions.touch(120, 5000)
    );
    assert!(regions.suit(true, 20, 10) && !regions.suit(true, 20, 11) && regions.suit(false, 30, 80));
    let none = Regions::default();
    assert!(
        !none.exist()
            && !none.contain(0)
            && !none.touch(0, 99)
            && none.suit(true, 7, 7)
            && none.suit(false, 7, 7)
    );
}
