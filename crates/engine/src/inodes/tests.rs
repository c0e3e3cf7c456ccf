// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts of inodes, chunk by chunk.

#![allow(clippy::unwrap_used)]
use super::*;

#[test]
fn unscanned_is_not_unused() {
    let table = InodeTable::new(20, 10);
    assert_eq!(table.fact(InodeNo(5)), None);
    let mut facts = ChunkFacts::new(6);
    facts.record(4, InodeNo(5), InodeFact::new(Kind::Directory, 0), 2);
    table.publish(0, facts);
    assert_eq!(table.kind(InodeNo(5)), Kind::Directory);
    assert_eq!(table.fact(InodeNo(9)), Some(InodeFact::default()), "behind the high-water mark");
    assert!(!table.is_scanned(InodeNo(9)) && table.is_scanned(InodeNo(6)));
    assert_eq!(table.fact(InodeNo(11)), None);
    assert_eq!(table.fact(InodeNo(21)), Some(InodeFact::default()));
}

#[test]
fn a_second_name_makes_a_directory_contested() {
    let table = InodeTable::new(10, 10);
    let mut facts = ChunkFacts::new(10);
    facts.record(4, InodeNo(5), InodeFact::new(Kind::Directory, 0), 2);
    table.publish(0, facts);
    table.set_parent(InodeNo(5), InodeNo(2));
    assert!(table.contested().is_empty());
    table.set_parent(InodeNo(5), InodeNo(3));
    assert_eq!(table.contested(), [InodeNo(5)]);
    let mut table = table;
    table.revise(InodeNo(7), InodeFact::new(Kind::Directory, 0), 1);
    table.add_directory(InodeNo(7));
    assert_eq!(table.directories().iter().map(|d| d.inode).collect::<Vec<_>>(), [5, 7]);
}

#[test]
fn a_chunk_tells_the_same_of_its_inodes_as_the_table() {
    let table = InodeTable::new(30, 10);
    assert!(table.published(InodeNo(0)).is_none() && table.published(InodeNo(15)).is_none());
    let mut facts = ChunkFacts::new(7);
    facts.record(4, InodeNo(15), InodeFact::new(Kind::Directory, mark::ENCRYPTED), 2);
    table.publish(1, facts);
    assert!(table.published(InodeNo(10)).is_none() && table.published(InodeNo(21)).is_none());
    for inode in 11..=20 {
        let chunk = table.published(InodeNo(inode)).unwrap();
        for other in 0..=40 {
            let expected = table.fact(InodeNo(other)).filter(|_| (11..=17).contains(&other));
            assert_eq!(chunk.fact(InodeNo(other)), expected, "{other}");
            chunk.observe_link(InodeNo(other));
        }
        chunk.set_parent(InodeNo(15), InodeNo(11));
    }
    let links: Vec<u32> = (0..=40).map(|inode| table.links(InodeNo(inode)).1).collect();
    let expected: Vec<u32> = (0..=40).map(|inode| if (11..=17).contains(&inode) { 10 } else { 0 }).collect();
    assert_eq!(links, expected);
    assert_eq!(table.contested(), [InodeNo(15)]);
    let parent = table.directory(InodeNo(15)).map(|directory| directory.parent.load(Relaxed));
    assert_eq!(parent, Some(11));
}

#[test]
fn inodes_in_use_and_unequal_counts_are_found_by_the_word() {
    let table = InodeTable::new(200, 150);
    let mut facts = ChunkFacts::new(130);
    let made = [
        (1, Kind::Unused, mark::RESERVED),
        (2, Kind::Directory, 0),
        (64, Kind::Regular, 0),
        (65, Kind::Directory, mark::SUSPECT),
        (66, Kind::Unused, mark::SUSPECT),
        (130, Kind::Unknown, 0),
    ];
    for (inode, kind, marks) in made {
        facts.record(inode - 1, InodeNo(inode as u32), InodeFact::new(kind, marks), 1);
    }
    table.publish(0, facts);
    let words: Vec<_> = table.used_in_chunk(0).collect();
    let sums = words.iter().fold((0, 0), |(used, directories), (of_used, of_directories)| {
        (used + u64::from(of_used.count_ones()), directories + u64::from(of_directories.count_ones()))
    });
    assert_eq!(table.used(), sums);
    assert_eq!(words, [(1 << 63 | 3, 2), (1, 1), (2, 0)]);
    assert_eq!(table.used_in_chunk(1).count() + table.used_in_chunk(7).count(), 0);
    let unequal = || {
        let mut found = Vec::new();
        table.visit_unequal(0, |inode, _, stored, observed| found.push((inode.0, stored, observed)));
        found
    };
    assert_eq!(unequal().len(), made.len());
    made.iter().for_each(|(inode, ..)| table.observe_link(InodeNo(*inode as u32)));
    assert_eq!(unequal(), []);
    table.observe_link(InodeNo(130));
    table.observe_link(InodeNo(129));
    assert_eq!(unequal(), [(129, 0, 1), (130, 1, 2)]);
    table.withdraw_link(InodeNo(129));
    // The same number but for what 16 bits do not hold.
    (0..65_535).for_each(|_| table.observe_link(InodeNo(130)));
    assert_eq!(unequal(), [(130, 1, 65_537)]);
}

#[test]
fn more_names_than_16_bits_hold_are_counted_by_many_at_once() {
    let table = InodeTable::new(20, 10);
    table.publish(0, ChunkFacts::new(10));
    table.publish(1, ChunkFacts::new(10));
    let (many, few) = (InodeNo(15), InodeNo(4));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let (_, place) = table.look(many);
                for _ in 0..50_000 {
                    table.observe_link(many);
                    place.into_iter().for_each(|place| table.observe_link_at(place));
                }
                table.observe_link(few);
            });
        }
    });
    assert_eq!((table.links(many), table.links(few)), ((0, 300_000), (0, 3)));
    // A multiple of 65 536 is not none.
    (0..300_000 - 4 * 65_536).for_each(|_| table.withdraw_link(many));
    let mut seen = Vec::new();
    table.visit_chunk(1, |inode, _, _, observed| seen.push((inode, observed)));
    assert_eq!(seen, [(many, 4 * 65_536)]);
    (0..4 * 65_536).for_each(|_| table.withdraw_link(many));
    assert_eq!(table.links(many), (0, 0));
}

#[test]
fn every_directory_is_found_whenever_it_was_added() {
    let mut table = InodeTable::new(2000, 1000);
    let (early, late): (Vec<u32>, Vec<u32>) =
        (1001..=2000).filter(|inode| inode % 7 < 2).partition(|inode| inode % 7 == 0);
    let mut facts = ChunkFacts::new(700);
    for inode in early.iter().rev().filter(|inode| **inode <= 1700) {
        facts.record((inode - 1001) as usize, InodeNo(*inode), InodeFact::new(Kind::Directory, 0), 2);
    }
    table.publish(1, facts);
    let later = early.iter().filter(|inode| **inode > 1700).chain(&late).rev();
    later.for_each(|inode| table.add_directory(InodeNo(*inode)));
    for inode in 1..=2000 {
        let found = table.directory(InodeNo(inode)).map(|directory| directory.inode);
        let expected = (early.contains(&inode) || late.contains(&inode)).then_some(inode);
        assert_eq!(found, expected, "inode {inode}");
    }
    assert_eq!(table.directory_count(), (early.len() + late.len()) as u64);
}
