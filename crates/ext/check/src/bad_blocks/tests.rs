// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `bad_blocks`.

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_engine::{Findings, Problem};

use super::{BadBlocks, check, problems};
use crate::superblock::testing::{Image, codes};

/// Looks, mends, and looks again: nothing but `stays` is left.
#[track_caller]
fn mended(image: &mut Image, stays: &[&'static str]) -> BadBlocks {
    let look = |image: &Image| {
        image.with_fs(|fs, _| {
            let mut findings = Findings::new().gathering(true);
            (check(fs, &mut findings), codes(&findings), findings.take_edits())
        })
    };
    let (bad, _, edits) = look(image);
    for edit in edits {
        let at = edit.offset as usize;
        image.bytes[at..at + edit.bytes.len()].copy_from_slice(&edit.bytes);
    }
    let (again, left, edits) = look(image);
    assert_eq!((left, edits.len()), (stays.to_vec(), 0));
    assert_eq!(again.blocks, bad.blocks, "the facts are those of the mended list");
    again
}

#[test]
fn a_mended_list_is_in_order() {
    let mut image = listing(&[(0, 300), (1, 1 << 30), (2, 1), (12, 200), (13, 200)]);
    image.put_pointer(BlockNo(200), 3, 301);
    image.put_pointer(BlockNo(200), 4, 1 << 30);
    assert_eq!(mended(&mut image, &[]).blocks, [300, 301]);
    let mut image = listing(&[(0, 300)]);
    image.inode(InodeNo(1))[0] = 1;
    assert!(mended(&mut image, &[]).blocks.is_empty());
}

/// An image whose list has `pointers` in `i_block` from the given index on.
fn listing(pointers: &[(usize, u32)]) -> Image {
    let mut image = Image::plain();
    for (index, pointer) in pointers {
        image.inode(InodeNo(1))[0x28 + index * 4..][..4].copy_from_slice(&pointer.to_le_bytes());
    }
    image
}

fn look(image: &Image) -> (BadBlocks, Vec<&'static str>) {
    image.with_fs(|fs, _| {
        let mut findings = Findings::new();
        let bad = check(fs, &mut findings);
        bad.apply(&mut fs.groups);
        for group in &bad.lost_block_bitmaps {
            assert_eq!(fs.groups[group.0 as usize].desc.block_bitmap, 0);
        }
        assert!(findings.iter().all(|problem| !Problem::message(problem).contains('?')));
        (bad, codes(&findings))
    })
}

#[test]
fn an_empty_list_and_an_ordinary_one_raise_nothing() {
    assert_eq!(look(&Image::plain()), (BadBlocks::default(), Vec::new()));
    let mut image = listing(&[(0, 300), (5, 100), (12, 200)]);
    image.put_pointer(BlockNo(200), 3, 301);
    let (bad, found) = look(&image);
    assert_eq!(found, [""; 0]);
    assert_eq!((bad.blocks.as_slice(), bad.map_blocks.as_slice()), (&[100, 300, 301][..], &[200][..]));
    assert!(bad.contains(BlockNo(301)) && !bad.contains(BlockNo(200)));
}

#[test]
fn a_bad_block_in_an_inode_table_or_backup_stays_listed_but_is_not_claimed() {
    let backup = listing(&[(0, 513), (1, 522)]);
    let (bad, found) = look(&backup);
    assert_eq!(found, [problems::BACKUP.code]);
    assert_eq!((bad.blocks.as_slice(), bad.claims.as_slice()), (&[513, 522][..], &[][..]));
}

#[test]
fn an_inode_that_is_more_than_a_list() {
    for (offset, value) in [(0, 1), (2, 1), (24, 1), (26, 1), (0x68, 1)] {
        let mut image = listing(&[(0, 300)]);
        image.inode(InodeNo(1))[offset] = value;
        assert_eq!(look(&image), (BadBlocks::default(), vec![problems::INVALID_INODE.code]), "{offset}");
    }
}

#[test]
fn entries_that_cannot_be() {
    assert_eq!(look(&listing(&[(3, 2048), (4, u32::MAX)])).1, [problems::ILLEGAL_BLOCK.code]);
    assert_eq!(look(&listing(&[(0, 1)])).1, [problems::PRIMARY_SUPERBLOCK.code]);
    assert_eq!(look(&listing(&[(0, 2)])).1, [problems::PRIMARY_DESCRIPTORS.code]);
    assert_eq!(look(&listing(&[(12, 5)])).1, [problems::MAP_BLOCK_IN_METADATA.code]);
    assert_eq!(look(&listing(&[(12, 200), (13, 200)])).1, [problems::BAD_MAP_BLOCK.code]);
    assert_eq!(look(&listing(&[(12, 200), (0, 200)])).1, [problems::BAD_MAP_BLOCK.code]);
}

#[test]
fn a_map_that_leads_back_to_itself_comes_to_an_end() {
    let mut image = listing(&[(14, 200)]);
    for index in 0..256 {
        image.put_pointer(BlockNo(200), index, 200);
    }
    assert_eq!(look(&image).1, [problems::BAD_MAP_BLOCK.code]);
}

#[test]
fn a_list_that_names_its_own_inode_is_dropped() {
    let (bad, found) = look(&listing(&[(0, 7), (1, 300)]));
    assert_eq!((bad, found), (BadBlocks::default(), vec![problems::LIST_IN_BAD_BLOCK.code]));
}

#[test]
fn bitmaps_on_bad_blocks_are_lost() {
    let (bad, found) = look(&listing(&[(0, 5), (1, 6)]));
    assert_eq!(found, [problems::BLOCK_BITMAP.code, problems::INODE_BITMAP.code]);
    assert_eq!((bad.lost_block_bitmaps, bad.lost_inode_bitmaps), (vec![GroupNo(0)], vec![GroupNo(0)]));
}
