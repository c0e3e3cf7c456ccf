// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every row of the orphans' catalogue is raised by what it describes, and a release leaves sound bitmaps.

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_base::InodeNo;
use fsmend_engine::Findings;
use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::inode::RawInode;
use fsmend_ext_format::orphan_file::ORPHAN_BLOCK_MAGIC;
use zerocopy::little_endian::{U16, U32};

use super::problems::*;
use super::{JournalState, Orphans, refugees, released};
use crate::journal::testing::{BLOCK, TABLE, World, assert_raised, written};

fn release(world: &mut World, replayed: bool) -> (Orphans, Findings) {
    let mut findings = Findings::new();
    let journal = JournalState { replayed, ..JournalState::default() };
    let orphans = released(&world.fs(), journal, u64::MAX, &mut findings).unwrap();
    (orphans, findings)
}

/// A world with the deleted file 12 (blocks 60 to 62) and the truncated file 13 (blocks 70 to 73) on its list.
fn with_list() -> World {
    let mut world = World::new(Incompat::empty());
    world.file(12, 0, &[(0, 60, 3)], 3000);
    world.file(13, 1, &[(0, 70, 4)], 1500);
    world.edit_inode(12, |raw| raw.i_dtime = U32::new(13));
    world.superblock.s_last_orphan = U32::new(12);
    world
}

#[test]
fn without_orphans_nothing_happens() {
    let (orphans, findings) = release(&mut World::new(Incompat::empty()), false);
    assert_raised(&findings, &[]);
    assert!(written(&orphans.changes).is_empty());
}

#[test]
fn the_list_is_released() {
    let (orphans, findings) = release(&mut with_list(), true);
    assert_raised(&findings, &[&WAITING]);
    assert!(orphans.freed.contains(&InodeNo(12)) && orphans.truncated.contains(&InodeNo(13)));
    assert_eq!(written(&orphans.changes)[&4][1] & 0x18, 0x10, "inode 12 is free, 13 is not");
    assert_eq!(written(&orphans.changes)[&3][7] & 0x38, 0, "blocks 60 to 62 are free");
    assert_eq!(written(&orphans.changes)[&3][8] & 0xE0, 0x60, "blocks 70 and 71 stay, 72 goes");
    assert_eq!(written(&orphans.changes)[&3][9] & 1, 0, "73 goes");
    assert_eq!(written(&orphans.changes)[&1][0xE8..0xEC], [0; 4], "the list is empty");
    assert_raised(&release(&mut with_list(), false).1, &[&UNRELEASED]);
}

#[test]
fn what_a_fast_commit_cuts_off_the_list_is_released() {
    // A fast commit has written a new file over the record of inode 12, where the list began.
    let mut world = with_list();
    world.file(14, 1, &[(0, 90, 2)], 2048);
    world.edit_inode(12, |raw| raw.i_dtime = U32::new(14));
    let mut findings = Findings::new();
    let listed = [InodeNo(12), InodeNo(14), InodeNo(13)];
    world.edit_inode(13, |raw| raw.i_links_count = U16::new(0));
    let journal = JournalState { replayed: true, listed: &listed, ..JournalState::default() };
    let orphans = released(&world.fs(), journal, u64::MAX, &mut findings).unwrap();
    assert_raised(&findings, &[&WAITING]);
    assert!(orphans.freed.contains(&InodeNo(13)), "{orphans:?}");
    assert_eq!(written(&orphans.changes)[&3][9] & 1, 0, "73 goes");
}

/// A world with the truncated file 13, whose blocks 70 to 81 and, through the indirect block 82, 83 to 85 are mapped without extents.
fn with_block_map(size: u32) -> World {
    let mut world = World::new(Incompat::empty());
    world.file(13, 1, &[(0, 70, 16)], u64::from(size));
    world.edit_inode(13, |raw| {
        raw.i_flags = U32::new(0);
        for (word, block) in raw.i_block.chunks_exact_mut(4).zip((70u32..=82).chain([0, 0])) {
            word.copy_from_slice(&block.to_le_bytes());
        }
    });
    let pointers: Vec<u8> = (83u32..86).flat_map(u32::to_le_bytes).collect();
    world.bytes(82, 0, &pointers);
    world.bytes(71, 0, &[7; BLOCK]);
    world.superblock.s_last_orphan = U32::new(13);
    world
}

fn record_of_13(orphans: &Orphans) -> RawInode {
    RawInode::from_record(&written(&orphans.changes)[&(TABLE + 1)][512..640])
}

#[test]
fn a_truncation_on_ext3_stays_done() {
    let (orphans, findings) = release(&mut with_block_map(1500), true);
    assert_raised(&findings, &[&WAITING]);
    let raw = record_of_13(&orphans);
    let map: Vec<u32> = (0..15).map(|index| raw.block_word(index)).collect();
    assert_eq!(map, [70, 71, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((raw.i_blocks_lo.get(), raw.size()), (4, 1500));
    let bits = u32::from_le_bytes(written(&orphans.changes)[&3][8..12].try_into().unwrap());
    assert_eq!(bits >> 5 & 0xFFFF, 0b11, "of blocks 70 to 85 the first two stay");
    let last = written(&orphans.changes)[&71].to_vec();
    assert_eq!((last[475], last[476], last[BLOCK - 1]), (7, 0, 0), "nothing stays behind the end");
}

#[test]
fn a_partial_truncation_keeps_what_the_indirect_block_still_maps() {
    let (orphans, _) = release(&mut with_block_map(13 * 1024), true);
    let raw = record_of_13(&orphans);
    assert_eq!((raw.block_word(11), raw.block_word(12), raw.i_blocks_lo.get()), (81, 82, 28));
    assert_eq!(written(&orphans.changes)[&82][..12], [83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let bits = u32::from_le_bytes(written(&orphans.changes)[&3][8..12].try_into().unwrap());
    assert_eq!(bits >> 5 & 0xFFFF, 0x3FFF, "blocks 84 and 85 go");
    // Behind the size there are only holes: the inode and its map stay as they are.
    let (orphans, _) = release(&mut with_block_map(15 * 1024), true);
    assert!(orphans.truncated.contains(&InodeNo(13)));
    assert!(
        !written(&orphans.changes).contains_key(&(TABLE + 1)) && !written(&orphans.changes).contains_key(&82)
    );
}

#[test]
fn a_release_keeps_to_its_memory() {
    let mut findings = Findings::new();
    let journal = JournalState { replayed: true, ..JournalState::default() };
    let refusal = released(&with_list().fs(), journal, 100, &mut findings).unwrap_err();
    assert_eq!(refusal.code, "memory-too-small");
}

#[test]
fn a_list_in_a_file_system_with_errors_frees_no_file_and_brings_none_back() {
    let mut world = with_list();
    world.superblock.s_state = U16::new(2);
    let (orphans, findings) = release(&mut world, true);
    assert_raised(&findings, &[&NOT_TRUSTED, &WAITING]);
    assert!(orphans.freed.is_empty());
    assert!(orphans.truncated.contains(&InodeNo(13)));
    assert_eq!(written(&orphans.changes)[&3][8] & 0xE0, 0x60, "blocks 70 and 71 stay, 72 goes");
}

#[test]
fn a_damaged_map_is_cut_to_the_size_as_it_stands() {
    // A pointer before the end leads nowhere, and one behind it.
    for (at, left) in [(1, [70, 0xFFFF_FF00]), (12, [70, 71])] {
        let mut world = with_block_map(1500);
        world.edit_inode(13, |raw| raw.set_block_word(at, 0xFFFF_FF00));
        let (orphans, findings) = release(&mut world, true);
        assert_raised(&findings, &[&BLOCK_ILLEGAL, &WAITING]);
        let raw = record_of_13(&orphans);
        let words: Vec<u32> = (0..15).map(|index| raw.block_word(index)).collect();
        assert_eq!((&words[..2], raw.size(), raw.i_dtime.get()), (&left[..], 1500, 0), "{at}");
        assert_eq!(words[2..], [0; 13], "{at}");
    }
    let mut world = with_block_map(13 * 1024);
    world.bytes(82, 0, &0xFFFF_FF00_u32.to_le_bytes());
    let (orphans, _) = release(&mut world, true);
    assert_eq!(written(&orphans.changes)[&82][..12], [0, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0]);
    // The pointers in the inode, all of which are before the end, stay; so do the blocks they lead to.
    let kept = written(&orphans.changes).get(&(TABLE + 1)).map(|_| record_of_13(&orphans));
    if let Some(raw) = kept {
        let words: Vec<u32> = (0..15).map(|index| raw.block_word(index)).collect();
        assert_eq!(words, (70..=82).chain([0, 0]).collect::<Vec<u32>>());
    }
    assert!(
        (70..82).all(|block| !written(&orphans.changes).contains_key(&block)),
        "{:?}",
        written(&orphans.changes).keys()
    );
}

/// Where the tree is damaged in one leaf, the other leaves keep what lies before the end.
#[test]
fn leaves_of_a_damaged_extent_tree_keep_what_lies_before_the_end() {
    use fsmend_ext_format::extent::{Extent, ExtentHeader, extents, indexes, set_entries};
    let mut world = with_list();
    world.file(13, 1, &[(0, 70, 16)], 5 * 1024 + 100);
    // Two leaves: blocks 0 to 3 of the file in 90, 4 to 9 in 91. The first has an extent that leads nowhere.
    let leaf = |list: &[(u32, u64, u32)]| {
        let mut node = vec![0; BLOCK];
        node[..12].copy_from_slice(&[0x0A, 0xF3, 0, 0, 84, 0, 0, 0, 0, 0, 0, 0]);
        let entries: Vec<_> = list
            .iter()
            .map(|&(logical, physical, count)| {
                Extent { logical, physical, count, unwritten: false }.to_bytes()
            })
            .collect();
        set_entries(&mut node, 0, &entries);
        node
    };
    world.bytes(90, 0, &leaf(&[(0, 70, 2), (2, 9999, 2)]));
    world.bytes(91, 0, &leaf(&[(4, 74, 6)]));
    world.edit_inode(13, |raw| {
        raw.i_block = [0; 60];
        raw.i_block[..12].copy_from_slice(&[0x0A, 0xF3, 2, 0, 4, 0, 1, 0, 0, 0, 0, 0]);
        for (at, (logical, block)) in [(0_u8, 90_u8), (4, 91)].into_iter().enumerate() {
            let place = 12 + 12 * at;
            raw.i_block[place] = logical;
            raw.i_block[place + 4] = block;
        }
    });
    let (orphans, findings) = release(&mut world, true);
    assert_raised(&findings, &[&BLOCK_ILLEGAL, &WAITING]);
    let cut = written(&orphans.changes)[&91].to_vec();
    let left: Vec<_> = extents(&cut, &ExtentHeader::parse(&cut).unwrap())
        .map(|extent| (extent.logical, extent.physical, extent.count))
        .collect();
    assert_eq!(left, [(4, 74, 2)], "4 and 5 stay, 6 to 9 go");
    assert!(!written(&orphans.changes).contains_key(&90), "what lies before the end is not touched");
    if written(&orphans.changes).contains_key(&(TABLE + 1)) {
        let raw = record_of_13(&orphans);
        let header = ExtentHeader::parse(&raw.i_block).unwrap();
        let children: Vec<u64> = indexes(&raw.i_block, &header).map(|index| index.child).collect();
        assert_eq!((children, raw.size()), (vec![90, 91], 5 * 1024 + 100));
    }
}

#[test]
fn a_damaged_extent_tree_is_cut_to_the_size_as_it_stands() {
    let mut world = with_list();
    world.file(13, 1, &[(0, 9999, 1), (1, 70, 4), (9, 90, 2)], 2500);
    let (orphans, findings) = release(&mut world, true);
    assert_raised(&findings, &[&BLOCK_ILLEGAL, &WAITING]);
    let raw = record_of_13(&orphans);
    let header = fsmend_ext_format::extent::ExtentHeader::parse(&raw.i_block).unwrap();
    let left: Vec<_> = fsmend_ext_format::extent::extents(&raw.i_block, &header)
        .map(|extent| (extent.logical, extent.physical, extent.count))
        .collect();
    assert_eq!(left, [(0, 9999, 1), (1, 70, 2)]);
}

#[test]
fn illegal_numbers_end_the_list() {
    let mut world = with_list();
    world.superblock.s_last_orphan = U32::new(3);
    assert_raised(&release(&mut world, true).1, &[&HEAD_ILLEGAL]);
    for link in [5, 12, 5000] {
        let mut world = with_list();
        world.edit_inode(12, |raw| raw.i_dtime = U32::new(link));
        assert_raised(&release(&mut world, true).1, &[&LINK_ILLEGAL]);
    }
    let mut world = with_list();
    world.edit_inode(13, |raw| raw.i_dtime = U32::new(12));
    assert!(release(&mut world, true).1.has(&LINK_ILLEGAL), "a list that bites its tail");
}

#[test]
fn orphans_with_impossible_blocks_are_left_alone() {
    let mut world = with_list();
    world.edit_inode(12, |raw| raw.i_block[20..24].copy_from_slice(&9999u32.to_le_bytes()));
    // The truncated file behind it is cut all the same.
    let (orphans, findings) = release(&mut world, true);
    assert_raised(&findings, &[&BLOCK_ILLEGAL, &WAITING]);
    assert!(orphans.freed.is_empty() && orphans.truncated.contains(&InodeNo(13)));
    let mut world = with_list();
    world.bytes(3, 7, &[0]);
    assert_raised(&release(&mut world, true).1, &[&BLOCK_FREE, &WAITING]);
}

#[test]
fn refugees_are_counted() {
    let mut findings = Findings::new();
    refugees(0, &mut findings);
    assert_raised(&findings, &[]);
    refugees(3, &mut findings);
    assert_raised(&findings, &[&REFUGEES]);
}

/// A world with an orphan file of two blocks (80, 81) that holds inode 12.
fn with_file(present: bool) -> World {
    let mut world = World::new(Incompat::empty());
    world.file(12, 0, &[(0, 60, 3)], 3000);
    world.file(14, 1, &[(0, 80, 2)], 2 * BLOCK as u64);
    for block in [80, 81] {
        world.bytes(block, BLOCK - 8, &ORPHAN_BLOCK_MAGIC.to_le_bytes());
    }
    world.bytes(80, 4, &[12]);
    world.superblock.s_orphan_file_inum = U32::new(14);
    world.superblock.s_feature_compat = U32::new(Compat::HAS_JOURNAL.bits() | Compat::ORPHAN_FILE.bits());
    world.superblock.s_feature_ro_compat =
        U32::new(if present { RoCompat::ORPHAN_PRESENT.bits() } else { 0 });
    world
}

#[test]
fn the_orphan_file_is_released() {
    let (orphans, findings) = release(&mut with_file(true), true);
    assert_raised(&findings, &[&WAITING]);
    assert!(orphans.freed.contains(&InodeNo(12)));
    assert_eq!(written(&orphans.changes)[&80][..8], [0; 8], "its entry is cleared");
    assert_eq!(written(&orphans.changes)[&1][0x66] & 1, 0, "orphan_present is off");
    assert_raised(&release(&mut with_file(false), true).1, &[&FILE_DIRTY]);
}

#[test]
fn features_that_do_not_go_together() {
    let mut world = with_file(true);
    world.bytes(80, 4, &[0]);
    assert_raised(&release(&mut world, true).1, &[]);
    assert_raised(&release(&mut world, false).1, &[&PRESENT_CLEAN]);
    world.superblock.s_feature_compat = U32::new(Compat::HAS_JOURNAL.bits());
    assert_raised(&release(&mut world, true).1, &[&PRESENT_WITHOUT_FILE]);
    world.superblock.s_feature_compat = U32::new(Compat::ORPHAN_FILE.bits());
    assert_raised(&release(&mut world, true).1, &[&FILE_WITHOUT_JOURNAL]);
}

#[test]
fn damaged_orphan_files() {
    let mut world = with_file(false);
    world.bytes(80, 4, &[0]);
    world.edit_inode(14, |raw| raw.i_size_lo = U32::new(1000));
    assert_raised(&release(&mut world, true).1, &[&FILE_SIZE]);
    world.edit_inode(14, |raw| raw.i_size_lo = U32::new(3 * BLOCK as u32));
    assert_raised(&release(&mut world, true).1, &[&FILE_HOLE]);
    world.edit_inode(14, |raw| raw.i_size_lo = U32::new(2 * BLOCK as u32));
    world.bytes(81, BLOCK - 8, &[0]);
    assert_raised(&release(&mut world, true).1, &[&FILE_MAGIC]);
    world.bytes(81, BLOCK - 8, &ORPHAN_BLOCK_MAGIC.to_le_bytes());
    world.superblock.s_feature_ro_compat = U32::new(RoCompat::METADATA_CSUM.bits());
    assert_raised(&release(&mut world, true).1, &[&FILE_CHECKSUM]);
    world.superblock.s_orphan_file_inum = U32::new(20);
    assert_raised(&release(&mut world, true).1, &[&FILE_UNUSABLE]);
}
