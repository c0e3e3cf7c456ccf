// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks that two files claim: all owners are named, whatever the number of workers, and to find them costs few requests of the disk.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use fsmend_device::{Device, FileDevice, MemoryDevice, Overlay, ReadError, WritableDevice, WritableFile};
use fsmend_disksim::{HddDescription, Timed};
use fsmend_engine::Progress;
use fsmend_ext_check::run::{CheckOptions, CheckReport, check};
use fsmend_ext_driver::mkfs::{Kind, Options as MkfsOptions, mkfs};
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_lab::Bench;
use fsmend_lab::aging::{Aging, AgingOptions, Filling};
use fsmend_testkit::rext3::{Shape, build};
use fsmend_testkit::sharing::{Shared, plant};
use fsmend_testkit::target_folder;
use fsmend_testkit::within::{Manner, options};
use fsmend_vfs::Time;

const MIB: u64 = 1 << 20;

/// An image that goes when the test is over.
struct Aged(PathBuf);

impl Drop for Aged {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// 1 GiB in 64 groups, filled and aged as in the paper, with small files, so that there are many.
fn aged(kind: Kind, name: &str) -> Aged {
    let path = target_folder().join(format!("origins-{name}-{}.img", std::process::id()));
    File::create(&path).unwrap().set_len(1024 * MIB).unwrap();
    let image = Aged(path);
    let device: Arc<dyn WritableDevice> = Arc::new(WritableFile::open(&image.0, false).unwrap());
    let now = Time::at(1_000_000_000);
    let shape = MkfsOptions {
        blank: true,
        blocks_per_group: Some(4096),
        ..MkfsOptions::new(kind, *b"who claimed that", now)
    };
    mkfs(Arc::clone(&device), &shape).unwrap();
    let mut driver = Ext::mount(device, MountOptions::new(now)).unwrap();
    let mut bench = Bench::new(&mut driver, 7);
    let wanted = AgingOptions {
        folders: 64,
        folder_bytes: 3 * MIB,
        file_blocks_max: 64,
        append_blocks_max: 32,
        utilisation: 0.85,
        operations_per_folder: 40,
        filling: Filling::Claimed,
    };
    let mut aging = Aging::begin(&mut bench, wanted).unwrap();
    aging.fill().unwrap();
    aging.age().unwrap();
    aging.finish().unwrap();
    let end = bench.tick();
    fsmend_vfs::FileSystem::unmount(&mut driver, end).unwrap();
    image
}

/// What a check finds on `device` with these shared blocks, and how many requests the disk served.
fn checked(device: &Arc<dyn Device>, shared: &[Shared], threads: usize) -> (CheckReport, u64) {
    let mut damaged = Overlay::new(Arc::clone(device));
    for Shared { at, record, .. } in shared {
        damaged.write(*at, record.clone()).unwrap();
    }
    let disk = Arc::new(Timed::new(damaged, HddDescription::default()));
    let device: Arc<dyn Device> = Arc::clone(&disk) as Arc<dyn Device>;
    let mut how = options(Manner { threads, ..Manner::default() });
    how.memory = 256 * MIB;
    let report = check(&device, &how, &Progress::new(), &AtomicBool::new(false));
    (report.unwrap_or_else(|refused| panic!("{refused}")), disk.disk().statistics().reads)
}

/// Everything that was found, as text.
fn told(report: CheckReport) -> Vec<String> {
    report.findings.into_sorted().iter().map(|problem| format!("{problem:?}")).collect()
}

/// Plants shared blocks on `device`: one costs at most a tenth more requests than a sound image, however many there are all owners are
/// named, and two or seven workers say the same.
#[track_caller]
fn judge(name: &str, device: &Arc<dyn Device>) {
    let (sound, clean) = checked(device, &[], 1);
    assert!(!sound.findings.is_damaged(), "{name}: {:?}", told(sound));
    for count in [1, 8, 64] {
        let shared = plant(device, count, 4).unwrap();
        assert!(shared.len() == count, "{name}: only {} files with a block to plant", shared.len());
        let (report, requests) = checked(device, &shared, 1);
        if count == 1 {
            assert!(requests * 10 <= clean * 11, "{name}: {requests} requests instead of {clean}");
        }
        let named: BTreeSet<(u32, u64)> = report
            .findings
            .iter()
            .filter(|problem| problem.row.code == "ext.block.multiply-claimed")
            .filter_map(|problem| Some((problem.object.inode?.0, problem.object.block?.0)))
            .collect();
        let wanted: BTreeSet<(u32, u64)> =
            shared.iter().flat_map(|one| [(one.thief, one.block), (one.owner, one.block)]).collect();
        assert_eq!(named, wanted, "{name}");
        let one = told(report);
        for threads in [2, 7] {
            assert_eq!(told(checked(device, &shared, threads).0), one, "{name}, {threads} workers");
        }
    }
}

/// A device that memory holds nothing of, and where it was read.
struct Logged(FileDevice, Mutex<Vec<u64>>);

impl Device for Logged {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.1.lock().unwrap().push(offset);
        self.0.read_at(offset, buf)
    }
}

/// From a cold device, no map is read before the last inode table: then all of them are, in the order of the disk.
#[track_caller]
fn maps_are_swept_up_behind_the_tables(image: &Aged) {
    let logged = Arc::new(Logged(FileDevice::open(&image.0).unwrap(), Mutex::default()));
    let device: Arc<dyn Device> = Arc::clone(&logged) as Arc<dyn Device>;
    let how = CheckOptions { memory: 256 * MIB, ..options(Manner::default()) };
    check(&device, &how, &Progress::new(), &AtomicBool::new(false)).unwrap();
    let reads = logged.1.lock().unwrap();
    let last_group = 63 * 4096 * 4096;
    let before = reads.iter().position(|offset| *offset >= last_group).unwrap();
    assert!(before < 500 && reads.len() > 2000, "{before} of {} reads before the last table", reads.len());
    let maps = &reads[before..before + 1500];
    let backwards = maps.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(backwards < 20, "the disk goes back {backwards} times");
}

#[test]
fn one_shared_block_costs_few_requests_on_aged_ext3() {
    let image = aged(Kind::Ext3, "ext3");
    maps_are_swept_up_behind_the_tables(&image);
    judge("ext3", &(Arc::new(FileDevice::open(&image.0).unwrap()) as Arc<dyn Device>));
}

#[test]
fn one_shared_block_costs_few_requests_on_aged_ext4() {
    let image = aged(Kind::Ext4, "ext4");
    judge("ext4", &(Arc::new(FileDevice::open(&image.0).unwrap()) as Arc<dyn Device>));
}

#[test]
fn one_shared_block_costs_few_requests_on_rext3() {
    // Three hundred files with an indirect block each, which lie in the regions of several groups.
    let shape = Shape { groups: 24, inodes_per_group: 384, crowd: 300, ..Shape::with_blocks_of(4096) };
    judge("rext3", &(Arc::new(MemoryDevice::new("rext3", build(shape).bytes)) as Arc<dyn Device>));
}
