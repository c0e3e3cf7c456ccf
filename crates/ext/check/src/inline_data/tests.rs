// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_base::{InodeNo, SeededRandom};
use fsmend_engine::{Findings, Row};
use fsmend_ext_format::features::{Features, Incompat};
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags, RawInode, mode};
use fsmend_ext_format::xattr::{Area, inode_area_start, name_index};

use super::{
    I_BLOCK_RANGE, Outcome, directory_areas, inspect, looks_like_block_map, looks_like_extent_tree, problems,
};
use crate::xattr::inspect_in_inode;
use crate::xattr::testing::{
    Attribute, Stored, all_features, codes, device, edit, file_record, fs, mutate, raised, record_with,
};

const INODE: InodeNo = InodeNo(12);

fn inline(kind: u16, size: u32, value: Option<&[u8]>) -> Vec<u8> {
    let data = |value| Attribute { index: name_index::SYSTEM, name: b"data", value: Stored::Here(value) };
    let mut record = record_with(value.map(data).as_slice());
    edit(&mut record, |inode| {
        inode.i_mode.set(kind | 0o755);
        inode.i_size_lo.set(size);
        inode.set_flags(InodeFlags::INLINE_DATA);
        inode.i_block = [2; I_BLOCK_LEN];
    });
    record
}

fn judge(features: Features, record: &mut [u8], rows: &[&'static Row]) -> Outcome {
    let device = device();
    let fs = fs(&device, features);
    let mut findings = Findings::new();
    let attributes = inspect_in_inode(&fs, INODE, record, &mut findings);
    let outcome = inspect(&fs, INODE, record, &attributes, &mut findings);
    assert_eq!(raised(&findings), codes(rows));
    outcome
}

fn capacity(outcome: &Outcome) -> u64 {
    let Outcome::Inline(data) = outcome else { panic!("not inline: {outcome:?}") };
    data.capacity
}

fn size(record: &[u8]) -> u64 {
    RawInode::from_record(record).size()
}

#[test]
fn small_files_may_have_any_size() {
    for file_size in [0, 5, 60, 63, 5000] {
        let mut record = inline(mode::REGULAR, file_size, Some(b"abc"));
        assert_eq!(capacity(&judge(all_features(), &mut record, &[])), 63);
        assert_eq!(size(&record), u64::from(file_size));
    }
    assert_eq!(capacity(&judge(all_features(), &mut inline(mode::REGULAR, 3, Some(b"")), &[])), 60);
}

#[test]
fn a_missing_attribute_makes_an_empty_file() {
    let mut record = inline(mode::REGULAR, 40, None);
    assert_eq!(judge(all_features(), &mut record, &[&problems::NO_ATTRIBUTE]), Outcome::Truncated);
    let inode = RawInode::from_record(&record);
    assert_eq!((inode.size(), inode.flags(), inode.i_block), (0, InodeFlags::empty(), [0; I_BLOCK_LEN]));
}

#[test]
fn a_file_that_has_blocks_keeps_them() {
    let keeps = |sectors, map: &[u8]| {
        let mut record = inline(mode::REGULAR, 4000, None);
        edit(&mut record, |inode| {
            inode.i_block = [0; I_BLOCK_LEN];
            inode.i_block[..map.len()].copy_from_slice(map);
            inode.i_blocks_lo.set(sectors);
        });
        let outcome = judge(all_features(), &mut record, &[&problems::NO_ATTRIBUTE]);
        let inode = RawInode::from_record(&record);
        assert_eq!(outcome == Outcome::Mapped, inode.size() == 4000);
        assert_eq!(inode.size() == 4000, inode.i_block.starts_with(map));
        (inode.size() == 4000, inode.flags())
    };
    let none = InodeFlags::empty();
    assert_eq!(keeps(4, &[40]), (true, none));
    assert_eq!(keeps(2, &[40]), (false, none), "that may have been the attribute block");
    assert_eq!(keeps(4, b"text"), (false, none));
    assert_eq!(keeps(0, &[0x0A, 0xF3, 1, 0, 4, 0]), (true, InodeFlags::EXTENTS));
}

#[test]
fn inline_data_need_their_feature() {
    let mut features = all_features();
    features.incompat &= !Incompat::INLINE_DATA;
    let mut record = inline(mode::REGULAR, 63, Some(b"abc"));
    assert_eq!(capacity(&judge(features, &mut record, &[&problems::FEATURE])), 63);
    let mut record = inline(mode::REGULAR, 63, None);
    assert_eq!(judge(features, &mut record, &[]), Outcome::NotInline);
}

#[test]
fn the_size_of_a_directory_is_exact() {
    let mut record = inline(mode::DIRECTORY, 60, Some(b""));
    assert_eq!(capacity(&judge(all_features(), &mut record, &[])), 60);
    let mut record = inline(mode::DIRECTORY, 60, Some(b"12345678"));
    assert_eq!(capacity(&judge(all_features(), &mut record, &[&problems::SIZE])), 68);
    assert_eq!(size(&record), 68);
    judge(all_features(), &mut record, &[]);
}

#[test]
fn directory_entries_come_in_fours() {
    let mut record = inline(mode::DIRECTORY, 67, Some(b"1234567"));
    assert_eq!(capacity(&judge(all_features(), &mut record, &[&problems::DIRECTORY_SIZE])), 64);
    assert_eq!(size(&record), 64);
    assert_eq!(capacity(&judge(all_features(), &mut record, &[])), 64);
}

#[test]
fn areas_of_a_directory() {
    let record = inline(mode::DIRECTORY, 68, Some(b"12345678"));
    let areas = directory_areas(&record).unwrap();
    assert_eq!(areas.parent, InodeNo(0x0202_0202));
    assert_eq!(record[areas.first], [2; 56]);
    assert_eq!(&record[areas.second], b"12345678");
    assert_eq!(directory_areas(&inline(mode::DIRECTORY, 60, None)), None);
    let empty = directory_areas(&inline(mode::DIRECTORY, 60, Some(b""))).unwrap();
    assert!(empty.second.is_empty());
}

#[test]
fn shapes() {
    let device = device();
    let fs = fs(&device, all_features());
    let mut extents = [0; I_BLOCK_LEN];
    extents[..6].copy_from_slice(&[0x0A, 0xF3, 1, 0, 4, 0]);
    assert!(looks_like_extent_tree(&extents));
    assert!(!looks_like_block_map(&fs, &extents));
    extents[2] = 5;
    assert!(!looks_like_extent_tree(&extents));
    let mut map = [0; I_BLOCK_LEN];
    map[0] = 63;
    assert!(looks_like_block_map(&fs, &map) && !looks_like_extent_tree(&map));
    map[56] = 64;
    assert!(!looks_like_block_map(&fs, &map));
    assert_eq!(file_record()[I_BLOCK_RANGE].len(), I_BLOCK_LEN);
}

#[test]
fn an_empty_value_that_lies_nowhere_is_put_right() {
    let mut record = inline(mode::REGULAR, 5, Some(b""));
    let start = inode_area_start(&record).unwrap();
    let entry = Area::of_inode(&record).unwrap().find(name_index::SYSTEM, b"data").unwrap().at;
    record[start + entry + 3] = 0xB1;
    assert_eq!(capacity(&judge(all_features(), &mut record, &[&problems::OFFSET])), 60);
    judge(all_features(), &mut record, &[]);
}

#[test]
fn a_value_that_cannot_be_where_it_should_is_found_in_the_gap() {
    let user = |name, value| Attribute { index: name_index::USER, name, value: Stored::Here(value) };
    let data = Attribute { index: name_index::SYSTEM, name: b"data", value: Stored::Here(b"0123456789") };
    let (one, two) = (user(b"one", b"v1"), user(b"two", b"value 2"));
    let place = |record: &[u8]| {
        let start = inode_area_start(record).unwrap();
        start + Area::of_inode(record).unwrap().find(name_index::SYSTEM, b"data").unwrap().at
    };
    for attributes in [&[data][..], &[data, one], &[one, data], &[one, data, two]] {
        let mut sound = record_with(attributes);
        edit(&mut sound, |inode| {
            inode.i_mode.set(mode::REGULAR | 0o644);
            inode.i_size_lo.set(70);
            inode.set_flags(InodeFlags::INLINE_DATA);
        });
        let at = place(&sound);
        for damage in [[sound[at + 2] ^ 1, sound[at + 3]], [0xFF, 0xFF], [0, 0]] {
            let mut record = sound.clone();
            record[at + 2..at + 4].copy_from_slice(&damage);
            judge(all_features(), &mut record, &[&problems::VALUE_MISPLACED]);
            assert_eq!(record, sound, "{} attributes, {damage:?}", attributes.len());
        }
        // The length is wrong: the size of the file tells it.
        let mut record = sound.clone();
        record[at + 9] = 7;
        judge(all_features(), &mut record, &[&problems::VALUE_MISPLACED]);
        assert_eq!(record, sound, "{} attributes", attributes.len());
    }
    // No gap: what lies in `i_block` stays.
    let mut record = record_with(&[data]);
    edit(&mut record, |inode| {
        inode.i_size_lo.set(4000);
        inode.set_flags(InodeFlags::INLINE_DATA);
    });
    let at = place(&record);
    record[at + 9] = 7;
    assert_eq!(capacity(&judge(all_features(), &mut record, &[&problems::VALUE_MISPLACED])), 60);
    assert_eq!(size(&record), 4000);
}

#[test]
fn damaged_inline_directories_are_mended_in_one_go() {
    let mut random = SeededRandom::new(21);
    let device = device();
    let fs = fs(&device, all_features());
    let mut sound = inline(mode::DIRECTORY, 72, Some(b"123456789012"));
    judge(all_features(), &mut sound, &[]);
    for _ in 0..10_000 {
        let mut record = sound.clone();
        mutate(&mut random, &mut record, 128);
        let mut findings = Findings::new();
        let attributes = inspect_in_inode(&fs, INODE, &mut record, &mut findings);
        let outcome = inspect(&fs, INODE, &mut record, &attributes, &mut findings);
        assert_eq!(directory_areas(&record).is_some(), matches!(outcome, Outcome::Inline(_)));
        if let Outcome::Inline(data) = &outcome {
            let mut again = Findings::new();
            let attributes = inspect_in_inode(&fs, INODE, &mut record, &mut again);
            assert_eq!(inspect(&fs, INODE, &mut record, &attributes, &mut again), outcome);
            assert!(again.is_empty(), "{:?}", raised(&again));
            assert_eq!(size(&record), data.capacity);
        }
    }
}
