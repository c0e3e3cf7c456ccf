// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::File;
use std::os::unix::fs::FileExt;

use proptest::collection::vec;
use proptest::prelude::{any, proptest};

use super::*;
use crate::testing::{FaultyDevice, TempFile};
use crate::{BlockCopy, MemoryDevice};

fn device(len: usize) -> MemoryDevice {
    MemoryDevice::new("m", (0..len).map(|at| (at / 7) as u8).collect())
}

fn plan_of(device: &dyn Device, changes: &[(u64, Vec<u8>)]) -> Plan {
    let marker = [(1024, vec![0xEE; 10])];
    let builder = PlanBuilder {
        identity: b"uuid",
        text: "{\"lost\":[]}",
        changes,
        copies: &[],
        marker: &marker,
        last: &[(9000, 1)],
    };
    Plan::make(device, &builder).unwrap()
}

#[test]
fn a_plan_tells_what_it_was_made_from() {
    let device = device(20_000);
    let plan = plan_of(&device, &[(5000, vec![1; 3]), (8190, vec![2; 4]), (19_999, vec![3])]);
    assert_eq!((plan.identity(), plan.text()), (b"uuid".as_slice(), "{\"lost\":[]}"));
    let blocks: Vec<(u64, u64, bool)> =
        plan.blocks().map(|block| (block.offset, block.len, block.is_last)).collect();
    assert_eq!(blocks, [(0, 4096, true), (4096, 4096, false), (8192, 4096, true), (16_384, 3616, false)]);
    assert_eq!(plan.blocks().map(|block| block.changed_bytes).collect::<Vec<_>>(), [0, 5, 2, 1]);
    assert_eq!(plan.bytes_to_write(), 4096 * 4 + 3616);
    assert_eq!(Plan::parse(plan.bytes().unwrap().to_vec()).unwrap(), plan);
    assert!(plan.len() < 350, "it holds what changes and not more");
}

#[test]
fn what_changes_nothing_is_left_out() {
    let device = device(20_000);
    let mut same = vec![0; 5000];
    device.read_at(3000, &mut same).unwrap();
    assert!(plan_of(&device, &[(3000, same)]).is_empty());
}

#[test]
fn a_copy_makes_the_same_plan_as_its_bytes() {
    let device = device(20_000);
    let copies =
        [BlockCopy { to: 3000, from: 9001, len: 1500 }, BlockCopy { to: 12_000, from: 4, len: 7996 }];
    let mut changes = vec![(2990, vec![1; 10])];
    let named = PlanBuilder { changes: &changes, copies: &copies, ..PlanBuilder::default() };
    let named = Plan::make(&device, &named).unwrap();
    for copy in copies {
        let mut bytes = vec![0; copy.len as usize];
        device.read_at(copy.from, &mut bytes).unwrap();
        changes.push((copy.to, bytes));
    }
    let written = PlanBuilder { changes: &changes, ..PlanBuilder::default() };
    assert_eq!(named, Plan::make(&device, &written).unwrap());
    for copy in [BlockCopy { to: 12_001, from: 0, len: 8000 }, BlockCopy { to: 0, from: 19_999, len: 2 }] {
        let builder = PlanBuilder { copies: &[copy], ..PlanBuilder::default() };
        assert_eq!(Plan::make(&device, &builder), Err(PlanError::Changes));
    }
    let faulty = FaultyDevice::new(device).with_fault(9500..9501, None);
    let builder = PlanBuilder { copies: &copies, ..PlanBuilder::default() };
    assert!(matches!(Plan::make(&faulty, &builder), Err(PlanError::Read(_))));
}

#[test]
fn changes_out_of_order_or_beyond_the_end_are_refused() {
    let device = device(20_000);
    for changes in [
        vec![(10, vec![1; 5]), (14, vec![1])],
        vec![(10, vec![1]), (5, vec![1])],
        vec![(19_999, vec![1; 2])],
        vec![(u64::MAX, vec![1])],
    ] {
        let builder = PlanBuilder { changes: &changes, ..PlanBuilder::default() };
        assert_eq!(Plan::make(&device, &builder), Err(PlanError::Changes));
    }
}

#[test]
fn the_condition_of_a_target_is_told() {
    let mut target = device(20_000);
    let plan = plan_of(&target, &[(5000, vec![1; 3])]);
    assert_eq!(plan.compare(&target), Condition::AsPlanned);
    target.bytes_mut()[5000..5003].fill(1);
    assert_eq!(plan.compare(&target), Condition::Done);
    target.bytes_mut()[4096] ^= 1;
    let Condition::Other(differences) = plan.compare(&target) else { panic!("no difference seen") };
    assert_eq!(differences.offsets, [4096]);
    assert!(matches!(plan.compare(&device(20_001)), Condition::Other(_)));
}

#[test]
fn blocks_that_cannot_be_read_are_written_in_full() {
    let faulty = FaultyDevice::new(device(20_000)).with_fault(5000..5001, None);
    let plan = plan_of(&faulty, &[(4100, vec![1; 3])]);
    let block = plan.blocks().find(|block| block.offset == 4096).unwrap();
    assert!(block.is_unreadable);
    assert_eq!(block.changed_bytes, 4096);
    assert_eq!(plan.compare(&faulty), Condition::AsPlanned);
}

#[test]
fn every_damaged_byte_is_noticed() {
    let plan = plan_of(&device(20_000), &[(5000, vec![1; 3]), (19_999, vec![3])]);
    for at in 0..plan.bytes().unwrap().len() {
        let mut bytes = plan.bytes().unwrap().to_vec();
        bytes[at] ^= 0x10;
        assert!(matches!(Plan::parse(bytes), Err(PlanError::Format(_))), "byte {at}");
        assert!(matches!(Plan::parse(plan.bytes().unwrap()[..at].to_vec()), Err(PlanError::Format(_))));
    }
}

proptest! {
    #[test]
    fn hostile_bytes_are_refused_without_harm(
        flips in vec((any::<usize>(), any::<u8>()), 0..8), cut in any::<usize>(), seal in any::<bool>()
    ) {
        let plan = plan_of(&device(20_000), &[(5000, vec![1; 3]), (8190, vec![2; 4]), (19_999, vec![3])]);
        let mut bytes = plan.bytes().unwrap().to_vec();
        for (at, flip) in flips {
            let at = at % bytes.len();
            bytes[at] ^= flip;
        }
        bytes.truncate(if cut % 4 == 0 { cut % bytes.len() } else { bytes.len() });
        if seal {
            reseal(&mut bytes);
        }
        if let Ok(plan) = Plan::parse(bytes) {
            let mut block = vec![0; 4096];
            for entry in plan.entries() {
                let block = &mut block[..plan.block_len(entry)];
                plan.make_marker(entry, block).unwrap();
                plan.make_after(entry, block).unwrap();
            }
            let _ = plan.compare(&device(20_000));
        }
    }
}

/// Makes length and checksums right, so that damage reaches the parser behind them.
pub(crate) fn reseal(bytes: &mut [u8]) {
    let len = bytes.len();
    if len < 72 {
        return;
    }
    bytes[48..56].copy_from_slice(&(len as u64).to_le_bytes());
    let header = checksum(&bytes[..56]);
    bytes[56..64].copy_from_slice(&header.to_le_bytes());
    let all = checksum(&bytes[..len - 8]);
    bytes[len - 8..].copy_from_slice(&all.to_le_bytes());
}

#[test]
fn a_plan_survives_its_file() {
    let plan = plan_of(&device(20_000), &[(5000, vec![1; 3])]);
    let file = TempFile::new("plan", b"an older one");
    plan.save(file.path()).unwrap();
    assert_eq!(Plan::load(file.path(), 1 << 20).unwrap(), plan);
    assert!(matches!(Plan::load(file.path(), 100), Err(PlanError::TooLarge { max: 100, .. })));
    assert!(matches!(Plan::load(std::path::Path::new("/"), 100), Err(PlanError::Format(_))));
}

/// A file as the place for every plan.
const SPILL: PlanSpill<'_> = PlanSpill { above: 0, file: &|_| Some(unnamed_file()) };

fn unnamed_file() -> File {
    let place = TempFile::new("spilled", &[]);
    File::options().read(true).write(true).open(place.path()).unwrap()
}

#[test]
fn a_large_plan_in_a_file_is_the_same_plan() {
    let device = MemoryDevice::new("target", (0..24 << 20).map(|at: u32| (at / 4096) as u8).collect());
    let changes = [(5000, vec![0xFF; 9000]), (20 << 20, vec![0xEE; 70_000])];
    let copies = [BlockCopy { from: 0, to: 4 << 20, len: 6 << 20 }];
    let marker = [(1024, vec![9; 8])];
    let builder = PlanBuilder {
        identity: b"who",
        text: "what",
        changes: &changes,
        copies: &copies,
        marker: &marker,
        ..PlanBuilder::default()
    };
    let held = Plan::make(&device, &builder).unwrap();
    let spilled = Plan::make_within(&device, &builder, &SPILL).unwrap();
    assert!(matches!(spilled.data, Data::Spilled { .. }) && matches!(held.data, Data::Held(_)));
    assert_eq!(held.bytes().unwrap(), spilled.bytes().unwrap());
    assert!(held == spilled && held.entries == spilled.entries);
    assert_eq!((spilled.identity(), spilled.text()), (&b"who"[..], "what"));
    assert!(held.blocks().eq(spilled.blocks()));
    for entry in held.entries() {
        let [mut one, mut other] = [vec![3; held.block_len(entry)], vec![3; held.block_len(entry)]];
        held.make_after(entry, &mut one).unwrap();
        spilled.make_after(entry, &mut other).unwrap();
        assert_eq!(one, other);
    }
    // Nothing to be changed: no blocks, and no marker.
    let same = [BlockCopy { from: 0, to: 0, len: 6 << 20 }];
    let nothing = PlanBuilder { copies: &same, marker: &marker, ..PlanBuilder::default() };
    let spilled = Plan::make_within(&device, &nothing, &SPILL).unwrap();
    assert!(spilled.is_empty() && matches!(spilled.data, Data::Spilled { .. }));
    assert_eq!(Plan::parse(spilled.bytes().unwrap().to_vec()).unwrap(), spilled);
    // A file without room for it.
    let full = PlanSpill { above: 0, file: &|_| File::open("/dev/null").ok() };
    let made = Plan::make_within(&device, &builder, &full).unwrap();
    assert!(matches!(made.data, Data::Held(_)) && made == held);
}

#[test]
fn a_plan_whose_file_has_changed_is_not_saved() {
    let device = device(20_000);
    let builder = PlanBuilder { changes: &[(5000, vec![1; 3])], ..PlanBuilder::default() };
    let spilled = Plan::make_within(&device, &builder, &SPILL).unwrap();
    let Data::Spilled { file, body_len, .. } = &spilled.data else { panic!("it is in a file") };
    let saved = TempFile::new("plan", &[]);
    spilled.save(saved.path()).unwrap();
    assert_eq!(Plan::load(saved.path(), u64::MAX).unwrap(), spilled);
    file.write_all_at(&[7], body_len - 1).unwrap();
    assert!(matches!(spilled.save(saved.path()), Err(PlanError::Io(_))));
    file.set_len(body_len - 1).unwrap();
    assert!(matches!(spilled.save(saved.path()), Err(PlanError::Io(_))));
    assert!(Plan::load(saved.path(), u64::MAX).is_ok(), "the one before is still there");
}
