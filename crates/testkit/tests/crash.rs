//! Crash sweeps over random plans and over real repairs.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use fsmend_base::SeededRandom;
use fsmend_device::{Draft, MemoryDevice, Plan};
use fsmend_testkit::crash::{Case, Swept};

/// Writes at random places: single bytes, blocks, runs over many blocks; with or without a marker.
fn random_case(seed: u64) -> Case {
    let mut random = SeededRandom::new(seed);
    let len = 40_000 + random.below(400_000) as usize;
    let before: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
    let (mut changes, mut at) = (Vec::new(), random.below(3000));
    for _ in 0..1 + random.below(12) {
        let count = match random.below(3) {
            0 => 1 + random.below(8),
            1 => 4096,
            _ => random.below(20_000),
        };
        let end = (at + count).min(len as u64);
        if at >= end {
            break;
        }
        changes.push((at, (at..end).map(|_| random.next_u64() as u8).collect::<Vec<u8>>()));
        at = end + random.below(40_000);
    }
    let marker: Vec<(u64, Vec<u8>)> =
        (0..random.below(3)).map(|mark| (1024 + mark * 9000, vec![7; 700])).collect();
    let device = MemoryDevice::new("random", before.clone());
    let draft = Draft { changes: &changes, marker: &marker, last: &[(0, 2048)], ..Draft::default() };
    let plan = Plan::make(&device, &draft).unwrap();
    Case { name: format!("random plan {seed}"), before: Arc::new(before), plan }
}

#[test]
fn random_plans_survive_every_cut() {
    let mut swept = Swept::default();
    for seed in 0..60 {
        swept +=
            random_case(seed).sweep(seed * 10..seed * 10 + 4).unwrap_or_else(|failure| panic!("{failure}"));
    }
    assert!(
        swept.cuts > 5000 && swept.begun_anew > 500 && swept.finished > 500 && swept.taken_back > 500,
        "{swept:?}"
    );
    println!("{swept:?}");
}
