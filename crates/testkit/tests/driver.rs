//! The driver against a model, e2fsck, our own check and the kernel: whatever it does, what it leaves behind is sound, and everybody
//! sees the same in it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use fsmend_device::{WritableDevice, WritableMemory};
use fsmend_ext_driver::mkfs::Kind;
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_testkit::driver::crash::Sweep;
use fsmend_testkit::driver::snapshot::{difference, of_driver, of_kernel};
use fsmend_testkit::driver::workload::Workload;
use fsmend_testkit::driver::{BASES, Base, NOW, complaint, keep};
use fsmend_testkit::host::{LoopMount, is_root, skip};
use fsmend_testkit::repair::Scratch;
use fsmend_vfs::{FileSystem, Time};

fn mounted(device: &Arc<WritableMemory>, now: i64) -> Ext {
    let device = Arc::clone(device) as Arc<dyn WritableDevice>;
    Ext::mount(device, MountOptions::new(Time::at(now))).unwrap()
}

fn assert_sound(name: &str, image: &[u8], now: i64) {
    if let Some(complaint) = complaint(image, now).unwrap() {
        keep(name, image);
        panic!("{name}: {complaint}");
    }
}

#[test]
fn what_is_made_is_sound() {
    for base in BASES {
        let device = base.make().unwrap();
        assert_sound(base.name, &device.bytes(), NOW);
    }
}

fn steps() -> u64 {
    std::env::var("FSMEND_DRIVER_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(3000)
}

fn seeds() -> Vec<u64> {
    match std::env::var("FSMEND_DRIVER_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => vec![1, 2],
    }
}

#[test]
fn random_work_leaves_what_the_model_says() {
    for base in BASES.iter().filter(|base| wanted(base)) {
        for seed in seeds() {
            random_work(base, seed);
        }
    }
}

fn wanted(base: &Base) -> bool {
    std::env::var("FSMEND_DRIVER_BASE").ok().is_none_or(|word| base.name.contains(&word))
}

fn random_work(base: &Base, seed: u64) {
    let name = format!("{} with seed {seed}", base.name);
    let device = base.make().unwrap();
    let mut fs = mounted(&device, NOW);
    let mut work = Workload::new(&mut fs, seed, base.kind == Kind::Ext4).unwrap();
    work.crowd = if seed % 2 == 0 { 400 } else { 30 };
    for step in 0..steps() {
        if let Err(what) = work.step() {
            panic!("{name}, step {step}: {what}");
        }
        if step % 1000 == 999 {
            work.compare().unwrap_or_else(|what| panic!("{name}, step {step}: {what}"));
        }
    }
    work.release_all().unwrap();
    work.compare().unwrap_or_else(|what| panic!("{name}: {what}"));
    let end = work.clock;
    let before = of_driver(&mut fs).unwrap();
    fs.unmount(Time::at(end)).unwrap();
    drop(fs);
    let image = device.bytes();
    assert_sound(base.name, &image, end);
    let mut again = mounted(&device, end);
    let after = of_driver(&mut again).unwrap();
    assert_eq!(difference(&before, &after), None, "{name}, mounted again");
    again.unmount(Time::at(end)).unwrap();
    if !is_root() {
        skip("driver", "only the superuser may mount images");
        return;
    }
    let file = Scratch::with(&image).unwrap();
    let point = std::path::PathBuf::from(format!("{}.mnt", file.path().display()));
    let mount = LoopMount::new(file.path(), &point, "ext4", "ro").unwrap();
    let theirs = of_kernel(mount.path());
    mount.unmount().unwrap();
    assert_eq!(difference(&after, &theirs.unwrap()), None, "{name}, seen by the kernel");
}

/// Small images with the smallest journal, so that it is full now and then.
const CRASH_BASES: &[Base] = &[
    Base { bytes: 8 << 20, ..BASES[2] },
    Base { bytes: 8 << 20, ..BASES[4] },
    Base { bytes: 24 << 20, ..BASES[5] },
];

#[test]
fn a_power_cut_leaves_what_was_after_some_operation() {
    let all = std::env::var_os("FSMEND_DRIVER_CUTS").is_some();
    for base in CRASH_BASES.iter().filter(|base| wanted(base)) {
        for seed in seeds() {
            let sweep = Sweep::new(*base, seed, 900).unwrap();
            let requests = sweep.requests().unwrap();
            assert!(requests > 300, "{requests} requests");
            // A step that is prime to everything in sight, so that cuts fall everywhere.
            let stride = if all { 1 } else { requests / 60 + 1 };
            for cut in (seed % stride..requests).step_by(stride as usize) {
                let again = (cut % 3 == 0).then_some(cut % 11);
                if let Err(what) = sweep.run(cut, again) {
                    panic!(
                        "{} with seed {seed}, cut {cut} of {requests}, again {again:?}: {what}",
                        base.name
                    );
                }
            }
        }
    }
}
