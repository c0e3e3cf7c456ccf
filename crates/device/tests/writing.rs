// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long it takes to plan, carry out and take back a large repair: `cargo test --release -p fsmend-device --test writing -- --ignored
//! --nocapture`. A measurement, not a check.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use fsmend_device::{
    ApplyOptions, Control, LogOnDisk, OpenOptions, Plan, PlanBuilder, WriteOptions, apply, open_writable,
    undo,
};

/// Blocks that change, each for itself.
const BLOCKS: u64 = 25_000;

#[test]
#[ignore = "a measurement, not a check"]
fn writing() {
    let folder = std::env::temp_dir().join(format!("fsmend-writing-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let image = folder.join("image");
    std::fs::File::create(&image).unwrap().set_len(BLOCKS * 40_960).unwrap();
    let mut opened =
        open_writable(&image, &OpenOptions::default(), WriteOptions::default(), &fsmend_device::Whatever)
            .unwrap();
    let device = opened.targets.remove(0).device;
    let changes: Vec<(u64, Vec<u8>)> =
        (0..BLOCKS).map(|number| (number * 40_960 + 100, vec![number as u8 | 1; 200])).collect();
    let mut clock = Instant::now();
    let mut lap = |what: &str| {
        println!("{what}: {:.3} s", clock.elapsed().as_secs_f64());
        clock = Instant::now();
    };
    let plan = Plan::make(&device, &PlanBuilder { changes: &changes, ..PlanBuilder::default() }).unwrap();
    lap("plan");
    plan.save(&folder.join("plan")).unwrap();
    assert!(Plan::load(&folder.join("plan"), u64::MAX).unwrap() == plan);
    lap("save and load");
    let log = LogOnDisk::create(&folder.join("log")).unwrap();
    let control = Control::unattended();
    apply(&plan, &device, &log, &ApplyOptions { start: 0, keep_undo: true, control }).unwrap();
    lap("apply");
    undo(&log, &device, false, control).unwrap();
    lap("undo");
    std::fs::remove_dir_all(&folder).unwrap();
}
