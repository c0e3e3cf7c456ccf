// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ops::RangeInclusive;

use std::sync::atomic::AtomicBool;

use fsmend_base::{BlockNo, InodeNo};
use fsmend_device::{Device, ReadError, ReadErrorKind};
use fsmend_engine::crosscheck::owners::Pair;
use fsmend_engine::inodes::{ChunkFacts, InodeFact, InodeTable, Kind};
use fsmend_engine::origins::Origin;
use fsmend_engine::pool::PoolConfig;
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::inode::{RawInode, mode};

use super::problems::{COPY_UNREADABLE, GIVEN_UP, MULTIPLY_CLAIMED, NO_ROOM, SHARES_BLOCKS};
use super::*;
use crate::inode;
use crate::inode::testing::{
    BLOCK_SIZE, BLOCKS, Bench, FIRST_FREE, expect_rows, extent, mapped, node, plain_directory, tree,
};
use crate::repair::{Duplicates, RepairContext, RepairInput, RepairOverlay, RepairPolicy};
use crate::scan::claim_inspection;

const FIRST: u32 = 12;
const LAST: u32 = 16;
/// The head of an attribute block without attributes, for two inodes.
const ATTRIBUTES: [u8; 32] =
    [0, 0, 2, 0xEA, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A bench whose blocks all say where they lie.
fn bench() -> Bench {
    let mut bench = Bench::new();
    for block in FIRST_FREE..BLOCKS as u32 {
        bench.put(block, &[block as u8; BLOCK_SIZE]);
    }
    bench
}

fn put(bench: &mut Bench, inode: u32, raw: &RawInode) {
    bench.put_record(inode, &bench.record(inode, raw));
}

fn file(extents: &[[u8; 12]], blocks: u64) -> RawInode {
    tree(mode::REGULAR, 0, extents, blocks, 0)
}

fn used(fs: &Fs<'_>) -> Vec<(InodeNo, crate::inode::Inspection)> {
    let inspect = |number| {
        let record = fs.read_inode(InodeNo(number)).unwrap().unwrap();
        (InodeNo(number), inode::inspect(fs, InodeNo(number), &record, &mut Findings::new()))
    };
    (FIRST..=LAST).map(inspect).filter(|(_, found)| found.kind != Kind::Unused).collect()
}

fn claims_of(fs: &Fs<'_>) -> Claims {
    let claims = Claims::new(fs.geometry.clusters_count());
    let unit = u64::from(fs.geometry.cluster_blocks);
    claims.claim(0, u64::from(FIRST_FREE).div_ceil(unit), Origin::KNOWN);
    used(fs).iter().for_each(|(inode, found)| claim_inspection(fs, &claims, *inode, found));
    claims
}

/// Looks for owners on `bench`, whose attribute blocks are `extra`, and mends what is contested, with as much room as
/// `room` has; calls `look` with the repair and with whether anything may be written. Afterwards nothing is contested.
fn mend_with(
    bench: &Bench,
    (device, policy, extra): (&dyn Device, RepairPolicy, &[Pair]),
    room: usize,
    look: impl FnOnce(&mut RepairContext<'_>, bool),
) -> Vec<Problem> {
    mend_nameless(bench, (device, policy, extra), room, (&[], &[]), look)
}

/// The same; no name leads to the inodes `nameless`, and the directories `rewrites` will be written anew.
fn mend_nameless(
    bench: &Bench,
    (device, policy, extra): (&dyn Device, RepairPolicy, &[Pair]),
    room: usize,
    (nameless, rewrites): (&[u32], &[u32]),
    look: impl FnOnce(&mut RepairContext<'_>, bool),
) -> Vec<Problem> {
    let overlay = RepairOverlay::new(device);
    let fs = bench.fs().over(&overlay);
    let inodes = InodeTable::new(fs.geometry.inodes_count, fs.geometry.inodes_per_group);
    inodes.publish(0, ChunkFacts::new(fs.geometry.inodes_count as usize));
    for (inode, found) in used(&fs) {
        inodes.revise(inode, InodeFact::new(found.kind, found.marks), 1);
        if !nameless.contains(&inode.0) {
            inodes.observe_link(inode);
        }
    }
    let claims = claims_of(&fs);
    for (unit, _) in extra {
        claims.claim(*unit, 1, Origin::KNOWN);
    }
    let mut findings = Findings::new().gathering(true);
    let cancel = AtomicBool::new(false);
    let search = Search {
        volume: &fs,
        inodes: &inodes,
        claims: &claims,
        extra,
        pool: PoolConfig::of(1),
        room,
        shares_min: SHARES_MIN,
        cancel: &cancel,
    };
    let contest = search.report(|| false, &mut findings);
    let mut repair_input = RepairInput { contest, ..RepairInput::default() };
    repair_input.names.rewrites.extend(rewrites.iter().copied().map(InodeNo));
    let mut context = RepairContext {
        fs,
        overlay: &overlay,
        inodes,
        claims,
        repair_input,
        policy,
        pool: PoolConfig::of(1),
        backups_lag: false,
        totals: Default::default(),
    };
    let done = repair::mend(&mut context);
    look(&mut context, done);
    if done {
        let after = claims_of(&context.fs);
        let attributes = used(&context.fs).into_iter().filter_map(|(_, found)| found.xattr_block);
        let attributes: std::collections::BTreeSet<u64> = attributes.collect();
        for block in attributes {
            after.claim(block, 1, Origin::KNOWN);
        }
        assert_eq!(after.contested().ones().collect::<Vec<_>>(), [0; 0]);
        assert!(after.claimed().ones().eq(context.claims.claimed().ones()), "the claims are up to date");
    }
    findings.merge(std::mem::take(&mut context.repair_input.lost));
    findings.into_sorted()
}

fn mend(bench: &Bench, look: impl FnOnce(&mut RepairContext<'_>, bool)) -> Vec<Problem> {
    mend_with(bench, (&bench.device, RepairPolicy::default(), &[]), 1 << 20, look)
}

/// Where the blocks of an inode lie, and the first byte of each.
fn blocks_of(context: &RepairContext<'_>, inode: u32) -> Vec<(u64, u8)> {
    let map = context.open_map(InodeNo(inode)).unwrap();
    let blocks = map.runs.iter().flat_map(|run| run.physical..run.physical + u64::from(run.count));
    blocks.map(|block| (block, context.read_block(BlockNo(block)).unwrap()[0])).collect()
}

fn bytes_of(context: &RepairContext<'_>, inode: u32) -> Vec<u8> {
    blocks_of(context, inode).into_iter().map(|(_, byte)| byte).collect()
}

#[test]
fn the_file_whose_run_goes_on_keeps_its_blocks() {
    let mut bench = bench();
    put(&mut bench, 12, &file(&[extent(0, 4, 60), extent(4, 3, 102)], 7));
    put(&mut bench, 13, &file(&[extent(0, 10, 100)], 10));
    let problems = mend(&bench, |context, _| {
        assert_eq!(bytes_of(context, 12), [60, 61, 62, 63, 102, 103, 104]);
        assert_eq!(blocks_of(context, 12)[4].0, 64, "right behind the block before");
        assert_eq!(blocks_of(context, 13)[9], (109, 109));
        assert_eq!(bytes_of(context, 13), (100..110).collect::<Vec<u8>>());
    });
    expect_rows(&problems, &[&MULTIPLY_CLAIMED, &SHARES_BLOCKS]);
}

#[test]
fn the_file_written_last_keeps_its_blocks() {
    let mut bench = bench();
    let raw = mapped(mode::REGULAR, &[100, 101]);
    put(&mut bench, 12, &raw);
    let mut newer = raw;
    newer.i_mtime.set(5);
    put(&mut bench, 13, &newer);
    put(&mut bench, 14, &raw);
    mend(&bench, |context, _| {
        assert_eq!(blocks_of(context, 13), [(100, 100), (101, 101)]);
        assert_eq!((bytes_of(context, 12), bytes_of(context, 14)), (vec![100, 101], vec![100, 101]));
    });
}

#[test]
fn blocks_of_the_file_system_never_move() {
    let mut bench = bench();
    bench.put(30, &[30; BLOCK_SIZE]);
    put(&mut bench, 12, &file(&[extent(0, 2, 30)], 2));
    mend(&bench, |context, _| {
        assert_eq!(bytes_of(context, 12), [30, 0]);
        assert!(blocks_of(context, 12)[0].0 >= u64::from(FIRST_FREE));
    });
}

#[test]
fn a_file_that_names_a_block_twice() {
    let mut bench = bench();
    put(&mut bench, 12, &mapped(mode::REGULAR, &[100, 101, 100, 101, 100]));
    mend(&bench, |context, _| {
        assert_eq!(bytes_of(context, 12), [100, 101, 100, 101, 100]);
        assert_eq!(blocks_of(context, 12)[..2], [(100, 100), (101, 101)]);
    });
}

#[test]
fn nodes_that_are_shared_are_written_anew() {
    let mut bench = bench();
    // Two files with one node, and a third that has the node for data.
    bench.put(200, &node(BLOCK_SIZE, 0, &[extent(0, 2, 100), extent(2, 2, 110)]));
    put(&mut bench, 12, &tree(mode::REGULAR, 1, &[crate::inode::testing::index(0, 200)], 4, 1));
    put(&mut bench, 13, &tree(mode::REGULAR, 1, &[crate::inode::testing::index(0, 200)], 4, 1));
    put(&mut bench, 14, &file(&[extent(0, 3, 199)], 3));
    mend(&bench, |context, _| {
        assert_eq!(bytes_of(context, 12), [100, 101, 110, 111]);
        assert_eq!(bytes_of(context, 13), [100, 101, 110, 111]);
        assert_eq!(blocks_of(context, 14), [(199, 199), (200, 0x0A), (201, 201)]);
    });
    // The same with indirect blocks.
    let mut bench = self::bench();
    let words: Vec<u32> = (100..112).chain([200]).collect();
    bench.put_words(200, &[112, 113]);
    bench
        .put(200, &[[112u32.to_le_bytes(), 113u32.to_le_bytes()].concat(), vec![0; BLOCK_SIZE - 8]].concat());
    let mut raw = mapped(mode::REGULAR, &words);
    raw.set_size(14 * BLOCK_SIZE as u64);
    raw.i_blocks_lo.set(30);
    put(&mut bench, 12, &raw);
    put(&mut bench, 13, &raw);
    mend(&bench, |context, _| {
        let expected: Vec<u8> = (100..114).collect();
        assert_eq!((bytes_of(context, 12), bytes_of(context, 13)), (expected.clone(), expected));
    });
}

#[test]
fn what_a_directory_changed_is_given_back_to_the_file() {
    let mut bench = bench();
    put(&mut bench, 12, &file(&[extent(0, 4, 98)], 4));
    put(&mut bench, 13, &plain_directory());
    mend(&bench, |context, _| {
        assert_eq!(bytes_of(context, 12), [98, 99, 100, 101]);
        assert_eq!(bytes_of(context, 13), [100]);
        assert_ne!(blocks_of(context, 13)[0].0, 100);
    });
}

#[test]
fn a_block_in_the_midst_of_a_directory_is_copied_for_no_file() {
    let mut bench = bench();
    // A directory of four blocks without names; a file of which one pointer leads there, and one to a block that holds no records.
    let mut empty = [0; BLOCK_SIZE];
    empty[4..6].copy_from_slice(&(BLOCK_SIZE as u16).to_le_bytes());
    empty[8] = 77;
    bench.put(101, &empty);
    put(&mut bench, 12, &mapped(mode::DIRECTORY, &[100, 101, 102, 103]));
    put(&mut bench, 13, &mapped(mode::REGULAR, &[60, 101, 102]));
    mend(&bench, |context, _| {
        assert_eq!(blocks_of(context, 12)[1].0, 101);
        let second = BlockNo(blocks_of(context, 13)[1].0);
        assert!(second.0 != 101 && context.read_block(second).unwrap().iter().all(|byte| *byte == 0));
        assert_eq!(blocks_of(context, 13)[2].1, 102, "it may be the file's: it is no block of a directory");
    });
}

#[test]
fn clusters_move_whole_and_to_their_own_place() {
    let mut bench = bench();
    bench.features().ro_compat |= RoCompat::BIGALLOC;
    bench.geometry.cluster_blocks = 4;
    // Shares a cluster with the second file, which has a misaligned extent of its own.
    put(&mut bench, 12, &file(&[extent(0, 8, 100)], 8));
    put(&mut bench, 13, &file(&[extent(0, 4, 104), extent(4, 3, 121)], 10));
    mend(&bench, |context, _| {
        assert_eq!(bytes_of(context, 12), (100..108).collect::<Vec<u8>>());
        assert_eq!(bytes_of(context, 13), [104, 105, 106, 107, 121, 122, 123]);
        let is_aligned = |(index, (block, _)): (u64, &(u64, u8))| index % 4 == block % 4;
        assert!((0..).zip(&blocks_of(context, 13)).all(is_aligned));
    });
}

#[test]
fn zeroes_instead_of_copies() {
    let mut bench = bench();
    put(&mut bench, 12, &file(&[extent(0, 3, 100)], 3));
    put(&mut bench, 13, &file(&[extent(0, 1, 101)], 1));
    let policy = RepairPolicy { duplicates: Duplicates::Zero, ..RepairPolicy::default() };
    mend_with(&bench, (&bench.device, policy, &[]), 1 << 20, |context, _| {
        assert_eq!((bytes_of(context, 12), bytes_of(context, 13)), (vec![100, 101, 102], vec![0]));
    });
}

#[test]
fn files_that_share_are_deleted_on_request() {
    let mut bench = bench();
    put(&mut bench, 12, &file(&[extent(0, 3, 100)], 3));
    put(&mut bench, 13, &file(&[extent(0, 1, 101)], 1));
    put(&mut bench, 14, &file(&[extent(0, 1, 110)], 1));
    let policy = RepairPolicy { duplicates: Duplicates::Delete, ..RepairPolicy::default() };
    mend_with(&bench, (&bench.device, policy, &[]), 1 << 20, |context, _| {
        assert!(context.open_map(InodeNo(12)).is_none() && context.open_map(InodeNo(13)).is_none());
        assert_eq!(bytes_of(context, 14), [110]);
    });
}

#[test]
fn without_room_those_that_need_least_come_first() {
    let mut bench = bench();
    put(&mut bench, 12, &file(&[extent(0, 400, 110)], 400));
    // A map that was overwritten claims what several others own. Blocks 100 to 109 and 510 to 511 are free.
    put(&mut bench, 13, &file(&[extent(0, 100, 110), extent(100, 60, 40)], 160));
    put(&mut bench, 14, &file(&[extent(0, 60, 40)], 60));
    put(&mut bench, 15, &file(&[extent(0, 3, 42)], 3));
    put(&mut bench, 16, &file(&[extent(0, 4, 150)], 4));
    let problems = mend(&bench, |context, done| {
        assert!(done);
        assert_eq!(bytes_of(context, 15), [42, 43, 44]);
        assert_eq!(bytes_of(context, 16), [150, 151, 152, 153]);
    });
    expect_rows(&problems, &[&MULTIPLY_CLAIMED, &SHARES_BLOCKS, &NO_ROOM]);
}

#[test]
fn without_room_the_later_files_have_holes() {
    let mut bench = bench();
    put(&mut bench, 12, &file(&[extent(0, 3, 100)], 3));
    put(&mut bench, 13, &file(&[extent(0, 3, 100)], 3));
    put(&mut bench, 14, &file(&[extent(0, 400, 110)], 400));
    put(&mut bench, 15, &file(&[extent(0, 60, 40)], 60));
    // Blocks 103 to 109 and 510 to 511 are free: nine; the second file takes three, the third six.
    put(&mut bench, 16, &file(&[extent(0, 8, 40)], 8));
    let problems = mend(&bench, |context, done| {
        assert!(done);
        assert_eq!(bytes_of(context, 13), [100, 101, 102]);
        assert_eq!(bytes_of(context, 16), (40..46).collect::<Vec<u8>>());
    });
    expect_rows(&problems, &[&MULTIPLY_CLAIMED, &SHARES_BLOCKS, &NO_ROOM]);
}

#[test]
fn what_neither_size_nor_space_tells_of_is_not_copied_where_there_is_no_room() {
    let bench_of = |size, blocks: u32, others: RangeInclusive<u32>, is_full: bool| {
        let mut bench = bench();
        let mut astray = file(&[extent(0, 30, 100)], 30);
        astray.set_size(size);
        astray.i_blocks_lo.set(blocks * 2);
        put(&mut bench, 12, &astray);
        others.for_each(|inode| put(&mut bench, inode, &file(&[extent(0, 3, 71 + inode * 3)], 3)));
        if is_full {
            // Only blocks 510 and 511 are left.
            put(&mut bench, 16, &file(&[extent(0, 380, 130), extent(380, 60, 40)], 440));
        }
        bench
    };
    // Space in use tells of two blocks, the size of very many, or of none that the map has.
    for (size, blocks, kept) in [(1 << 40, 2, 2), (1500, 99, 2), (1024, 7, 1)] {
        let problems = mend(&bench_of(size, blocks, 13..=15, true), |context, done| {
            assert!(done);
            assert_eq!(
                blocks_of(context, 12),
                (100..100 + kept).map(|at| (at, at as u8)).collect::<Vec<_>>()
            );
            assert_eq!(context.open_map(InodeNo(12)).unwrap().raw().size(), size);
            assert_eq!(blocks_of(context, 13)[0].0, 110);
        });
        expect_rows(&problems, &[&MULTIPLY_CLAIMED, &SHARES_BLOCKS, &GIVEN_UP]);
        let problems = mend(&bench_of(size, blocks, 13..=15, false), |context, _| {
            assert_eq!(bytes_of(context, 12), (100..130).collect::<Vec<u8>>());
            assert_eq!(blocks_of(context, 13)[0].0, 110);
        });
        expect_rows(&problems, &[&MULTIPLY_CLAIMED, &SHARES_BLOCKS]);
    }
    // One witness for the map, or one other owner, and as much is copied as there is room for.
    for (size, blocks, others) in [(30 << 10, 7, 13..=15), (1500, 30, 13..=15), (1500, 7, 13..=13)] {
        let problems = mend(&bench_of(size, blocks, others, true), |_, _| {});
        expect_rows(&problems, &[&MULTIPLY_CLAIMED, &SHARES_BLOCKS, &NO_ROOM]);
    }
}

#[test]
fn copies_leave_room_for_names() {
    let mut bench = bench();
    put(&mut bench, 12, &file(&[extent(0, 400, 110)], 400));
    put(&mut bench, 13, &file(&[extent(0, 60, 40)], 60));
    put(&mut bench, 14, &file(&[extent(0, 8, 40)], 8));
    mend(&bench, |context, _| {
        // Twelve are free, and all are named.
        assert_eq!(bytes_of(context, 14).len(), 8);
    });
    let usual = (&bench.device as &dyn Device, RepairPolicy::default(), &[] as &[Pair]);
    let problems = mend_nameless(&bench, usual, 1 << 20, (&[12, 13], &[]), |context, _| {
        assert_eq!(bytes_of(context, 14), (40..47).collect::<Vec<u8>>());
        assert_eq!(context.free_units(), 5);
    });
    expect_rows(&problems, &[&MULTIPLY_CLAIMED, &SHARES_BLOCKS, &NO_ROOM]);
}

/// They took all that was kept free for lost+found, and no repair was found.
#[test]
fn copies_leave_room_for_directories_that_are_written_anew() {
    let mut bench = bench();
    put(&mut bench, 12, &file(&[extent(0, 400, 110)], 400));
    put(&mut bench, 13, &file(&[extent(0, 60, 40)], 60));
    put(&mut bench, 14, &file(&[extent(0, 8, 40)], 8));
    let usual = (&bench.device as &dyn Device, RepairPolicy::default(), &[] as &[Pair]);
    // Twelve are free. Three directories may take six of them.
    let problems = mend_nameless(&bench, usual, 1 << 20, (&[], &[15, 16, 17]), |context, _| {
        assert_eq!(context.free_units(), 6);
    });
    expect_rows(&problems, &[&MULTIPLY_CLAIMED, &SHARES_BLOCKS, &NO_ROOM]);
}

#[test]
fn what_is_shared_on_purpose_gets_copies_only_where_all_have_room() {
    let mut bench = bench();
    bench.features().ro_compat |= RoCompat::SHARED_BLOCKS;
    put(&mut bench, 12, &file(&[extent(0, 3, 100)], 3));
    put(&mut bench, 13, &file(&[extent(0, 3, 100)], 3));
    mend(&bench, |context, done| {
        assert!(done && !context.fs.geometry.features.has_ro_compat(RoCompat::SHARED_BLOCKS));
    });
    put(&mut bench, 14, &file(&[extent(0, 470, 42)], 470));
    put(&mut bench, 15, &file(&[extent(0, 470, 42)], 470));
    mend(&bench, |_, done| assert!(!done));
}

#[test]
fn attribute_blocks_stay() {
    let mut bench = bench();
    put(&mut bench, 12, &file(&[extent(0, 3, 100)], 3));
    let mut raw = file(&[extent(0, 1, 120)], 2);
    raw.i_file_acl_lo.set(101);
    bench.put(101, &[0; BLOCK_SIZE]);
    bench.put(101, &ATTRIBUTES);
    put(&mut bench, 13, &raw);
    let extra = [(101, Owner::Inode(InodeNo(13)))];
    mend_with(&bench, (&bench.device, RepairPolicy::default(), &extra), 1 << 20, |context, _| {
        assert_eq!(context.open_map(InodeNo(13)).unwrap().xattr_block, Some(101));
        assert_eq!(bytes_of(context, 12), [100, 0, 102]);
    });
}

#[test]
fn attribute_blocks_among_the_file_systems_own_move() {
    let mut bench = bench();
    let mut raw = file(&[extent(0, 1, 120)], 2);
    raw.i_file_acl_lo.set(30);
    bench.put(30, &ATTRIBUTES);
    put(&mut bench, 12, &raw);
    raw.i_block.copy_from_slice(&node(60, 0, &[extent(0, 1, 121)]));
    put(&mut bench, 13, &raw);
    let extra = [(30, Owner::Inode(InodeNo(12)))];
    mend_with(&bench, (&bench.device, RepairPolicy::default(), &extra), 1 << 20, |context, _| {
        let places = [12, 13].map(|inode| context.open_map(InodeNo(inode)).unwrap().xattr_block.unwrap());
        assert!(places[0] == places[1] && places[0] >= u64::from(FIRST_FREE), "{places:?}");
    });
}

/// A device with a block that cannot be read.
struct Flawed<'a>(&'a Bench);

impl Device for Flawed<'_> {
    fn name(&self) -> &str {
        "flawed"
    }

    fn len(&self) -> u64 {
        self.0.device.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let flaw = 101 * BLOCK_SIZE as u64;
        if offset < flaw + BLOCK_SIZE as u64 && offset + buf.len() as u64 > flaw {
            let kind = ReadErrorKind::Io("flaw".to_owned());
            return Err(ReadError { offset, len: buf.len() as u64, kind });
        }
        self.0.device.read_at(offset, buf)
    }
}

#[test]
fn what_cannot_be_read_is_copied_as_zeroes() {
    let mut bench = bench();
    put(&mut bench, 12, &file(&[extent(0, 5, 99)], 5));
    put(&mut bench, 13, &file(&[extent(0, 3, 100)], 3));
    let flawed = Flawed(&bench);
    let problems = mend_with(&bench, (&flawed, RepairPolicy::default(), &[]), 1 << 20, |context, _| {
        assert_eq!(bytes_of(context, 13), [100, 0, 102]);
    });
    expect_rows(&problems, &[&MULTIPLY_CLAIMED, &SHARES_BLOCKS, &COPY_UNREADABLE]);
}

#[test]
fn several_windows() {
    let mut bench = bench();
    for inode in FIRST..=LAST {
        put(&mut bench, inode, &file(&[extent(0, 60, 100)], 60));
    }
    mend_with(&bench, (&bench.device, RepairPolicy::default(), &[]), 1, |context, _| {
        for inode in FIRST..=LAST {
            assert_eq!(bytes_of(context, inode), (100..160).collect::<Vec<u8>>());
        }
    });
}
