// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::{InodeFact, InodeTable};
use fsmend_engine::origins::Origin;
use fsmend_engine::pool::PoolConfig;
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::inode::mode;

use super::*;
use crate::Fs;
use crate::inode::testing::{BLOCK_SIZE, Bench, FILE, FIRST_FREE, extent, mapped, plain_directory, tree};
use crate::repair::{RepairInput, RepairOverlay, RepairPolicy};
use crate::scan::claim_inspection;

const INODE: InodeNo = InodeNo(FILE);

/// Calls `change` with a repair over `bench`, whose inode [`FILE`] is `raw`; afterwards its claims and record have to be right.
fn mend(bench: &mut Bench, raw: &RawInode, change: impl FnOnce(&mut RepairContext<'_>)) {
    bench.put_record(FILE, &bench.record(FILE, raw));
    let fs = bench.fs();
    let overlay = RepairOverlay::new(fs.device);
    let fs = fs.over(&overlay);
    let geometry = &fs.geometry;
    let inodes = InodeTable::new(geometry.inodes_count, geometry.inodes_per_group);
    inodes.publish(0, fsmend_engine::inodes::ChunkFacts::new(geometry.inodes_count as usize));
    inodes.revise(INODE, InodeFact::new(Kind::Regular, 0), 1);
    let claims = claims_of(&fs);
    let repair_input = RepairInput::default();
    let policy = RepairPolicy::default();
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
    change(&mut context);
    let record = context.read_inode(INODE).unwrap();
    let mut findings = Findings::new();
    inode::inspect(&context.fs, INODE, &record, &mut findings);
    let problems: Vec<String> = findings.into_sorted().iter().map(|problem| problem.message()).collect();
    assert!(problems.is_empty(), "{problems:?}");
    let owned: Vec<u64> = claims_of(&context.fs).claimed().ones().collect();
    assert_eq!(context.claims.claimed().ones().collect::<Vec<_>>(), owned);
}

fn claims_of(fs: &Fs<'_>) -> Claims {
    let claims = Claims::new(fs.geometry.clusters_count());
    let unit = u64::from(fs.geometry.cluster_blocks);
    claims.claim(0, u64::from(FIRST_FREE).div_ceil(unit), Origin::KNOWN);
    let record = fs.read_inode(INODE).unwrap().unwrap();
    let found = inode::inspect(fs, INODE, &record, &mut Findings::new());
    claim_inspection(fs, &claims, INODE, &found);
    claims
}

fn runs_of(context: &RepairContext<'_>) -> Vec<(u64, u64, u32)> {
    let map = context.open_map(INODE).unwrap();
    map.runs.iter().map(|run| (run.logical, run.physical, run.count)).collect()
}

#[test]
fn a_directory_grows_by_extents() {
    mend(&mut Bench::new(), &plain_directory(), |context| {
        assert_eq!(context.append_block(INODE, &[7; BLOCK_SIZE]), Some(BlockNo(101)));
        assert_eq!(runs_of(context), [(0, 100, 2)]);
        assert_eq!(context.read_block(BlockNo(101)).unwrap(), [7; BLOCK_SIZE]);
        assert_eq!(context.open_map(INODE).unwrap().raw().size(), 2048);
        assert_eq!(context.open_map(INODE).unwrap().raw().i_blocks_lo.get(), 4);
    });
}

#[test]
fn a_directory_grows_by_pointers() {
    let words: Vec<u32> = (100..112).collect();
    mend(&mut Bench::new(), &mapped(mode::DIRECTORY, &words), |context| {
        assert_eq!(context.append_block(INODE, &[7; BLOCK_SIZE]), Some(BlockNo(112)));
        let map = context.open_map(INODE).unwrap();
        assert_eq!((map.nodes.len(), map.raw().i_blocks_lo.get()), (1, 28));
        assert_eq!(map.raw().block_word(12), map.nodes[0] as u32);
    });
}

#[test]
fn holes_are_filled_and_blocks_replaced() {
    let mut raw = tree(mode::REGULAR, 0, &[extent(0, 4, 100), extent(5, 4, 105)], 8, 0);
    raw.set_size(9 * BLOCK_SIZE as u64);
    mend(&mut Bench::new(), &raw, |context| {
        assert_eq!(context.insert_block(INODE, 4, &[7; BLOCK_SIZE]), Some(BlockNo(104)));
        assert_eq!(context.insert_block(INODE, 4, &[7; BLOCK_SIZE]), None);
        assert_eq!(runs_of(context), [(0, 100, 9)]);
        let to = context.allocate_blocks(BlockNo(300), 1).unwrap();
        assert!(context.replace_block(INODE, 2, to));
        assert!(!context.replace_block(INODE, 20, to));
        context.free_blocks(BlockNo(102), 1);
        assert_eq!(runs_of(context), [(0, 100, 2), (2, 300, 1), (3, 103, 6)]);
    });
}

/// Replaces every other of 200 blocks; returns how many blocks the map itself takes then.
fn fragment(context: &mut RepairContext<'_>) -> usize {
    for logical in (0..200).step_by(2) {
        let to = context.allocate_blocks(BlockNo(400), 1).unwrap();
        let from = context.open_map(INODE).unwrap().runs.find(logical).unwrap();
        assert!(context.replace_block(INODE, logical, to));
        context.free_blocks(from, 1);
    }
    context.open_map(INODE).unwrap().nodes.len()
}

#[test]
fn a_tree_grows_and_shrinks() {
    for checksums in [false, true] {
        let mut bench = Bench::new();
        if checksums {
            bench.features().ro_compat |= RoCompat::METADATA_CSUM;
        }
        let raw = tree(mode::REGULAR, 0, &[extent(0, 200, 100)], 200, 0);
        mend(&mut bench, &raw, |context| {
            assert_eq!(fragment(context), 4, "200 extents, halved when 84 do not suffice");
            let map = context.open_map(INODE).unwrap();
            let seed = seed_of(&context.fs, INODE, &map.record);
            assert_eq!(seed.is_some(), checksums);
            let nodes = map.nodes.iter().map(|node| context.read_block(BlockNo(*node)).unwrap());
            let is_right =
                |bytes: Vec<u8>| checksum::extent_block(seed.unwrap_or(0), &bytes).unwrap().is_right();
            assert!(!checksums || nodes.into_iter().all(is_right));
            let mut map = map;
            context.remove_blocks(&mut map, 2, 198);
            map.set_size(2048);
            assert!(context.store_map(map));
            assert_eq!(context.open_map(INODE).unwrap().nodes.len(), 1);
        });
    }
}

#[test]
fn indirect_blocks_come_and_go() {
    mend(&mut Bench::new(), &mapped(mode::REGULAR, &[100]), |context| {
        let mut map = context.open_map(INODE).unwrap();
        // Direct, indirect, double and triple indirect.
        for (logical, physical) in [(0, 100), (12, 101), (267, 102), (268, 103), (70_000, 104)] {
            context.claims.settle(physical, true);
            map.runs.map(MapRun { logical, physical, count: 1, unwritten: false });
        }
        assert!(context.store_map(map));
        let map = context.open_map(INODE).unwrap();
        assert_eq!((map.nodes.len(), map.runs.find(70_000)), (6, Some(BlockNo(104))));
        let mut map = map;
        context.remove_blocks(&mut map, 1, u64::MAX);
        map.set_size(1024);
        assert!(context.store_map(map));
        assert!(context.open_map(INODE).unwrap().nodes.is_empty());
    });
}

#[test]
fn with_clusters_a_block_goes_where_its_cluster_lies() {
    let mut bench = Bench::new();
    bench.features().ro_compat |= RoCompat::BIGALLOC;
    bench.geometry.cluster_blocks = 4;
    let raw = tree(mode::DIRECTORY, 0, &[extent(0, 3, 100)], 4, 0);
    let mut raw = raw;
    raw.set_size(3 * 1024);
    mend(&mut bench, &raw, |context| {
        assert_eq!(context.append_block(INODE, &[7; BLOCK_SIZE]), Some(BlockNo(103)));
        assert_eq!(context.append_block(INODE, &[7; BLOCK_SIZE]), Some(BlockNo(104)));
        assert_eq!(context.append_block(INODE, &[7; BLOCK_SIZE]), Some(BlockNo(105)));
        assert_eq!(context.open_map(INODE).unwrap().raw().i_blocks_lo.get(), 16);
        let mut map = context.open_map(INODE).unwrap();
        context.remove_blocks(&mut map, 5, 1);
        map.set_size(5 * 1024);
        assert!(context.store_map(map));
    });
}

#[test]
fn where_nothing_is_free_nothing_is_changed() {
    mend(&mut Bench::new(), &plain_directory(), |context| {
        let free: Vec<u64> = (0..512).filter(|unit| !context.claims.claimed().get(*unit)).collect();
        free.iter().for_each(|unit| context.claims.settle(*unit, true));
        assert_eq!(context.append_block(INODE, &[7; BLOCK_SIZE]), None);
        free.iter().for_each(|unit| context.claims.settle(*unit, false));
        let mut bytes = [0; 4];
        assert!(context.overlay.read_at(101 * 1024, &mut bytes).is_ok());
        assert_eq!(bytes, [0; 4]);
    });
}
