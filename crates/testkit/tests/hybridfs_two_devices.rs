// SPDX-License-Identifier: MIT OR Apache-2.0
//! A repair of a hybridfs whose log is on another device is cut at any request to either of them: the next run finishes it, or takes it back.
#![allow(clippy::unwrap_used, clippy::panic)]

mod hybridfs_common;

use std::sync::Arc;

use fsmend_device::{
    ApplyOptions, Control, Device, Joined, MemoryDevice, Plan, PlanBuilder, Way, apply, recover,
};
use fsmend_disksim::{Machine, SimDisk, SimFile};
use fsmend_hybridfs_format::SUPERBLOCK_OFFSET;
use fsmend_session::Family;
use fsmend_testkit::hybridfs::{Image, image};

use hybridfs_common::{FILE_2000, plan, with};

/// A file system on two disks, and the log of a repair on a third one, all of one machine.
struct Disks {
    machine: Machine,
    both: Joined<SimDisk, SimDisk>,
    file: SimFile,
}

impl Disks {
    fn new(image: &Image, seed: u64) -> Disks {
        let machine = Machine::new(seed);
        let (start, len) = place(image);
        let log = image.bytes[start..start + len].to_vec();
        let data = [&image.bytes[..start], &image.bytes[start + len..]].concat();
        let disk = |name: &str, bytes: Vec<u8>| SimDisk::new(name, &machine, Arc::new(bytes));
        let place = (start as u64, len as u64);
        let both = Joined::new(disk("data", data), disk("log", log), place).unwrap();
        let file = SimFile::create("undo", &machine);
        Disks { machine, both, file }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.both.len() as usize];
        self.both.read_at(0, &mut bytes).unwrap();
        bytes
    }
}

/// Where the log lies, in bytes.
fn place(image: &Image) -> (usize, usize) {
    let bytes = |fragments: u64| (fragments * u64::from(image.sb.fragment_size)) as usize;
    (bytes(image.sb.log_start), bytes(image.sb.log_fragments))
}

#[test]
fn a_repair_on_two_devices_survives_every_cut() {
    let mut image = image();
    // One change on the first device, and a new segment on that of the log.
    image.bytes[SUPERBLOCK_OFFSET as usize + 90] ^= 4;
    let inode = image.lookup(FILE_2000);
    image.change_inode(inode, |inode| inode.links += 1);
    let changes = plan(&image.bytes, 1).unwrap().changes;
    let (start, len) = place(&image);
    let is_in_log = |at: u64| (start..start + len).contains(&(at as usize));
    assert!(changes.iter().any(|(at, _)| is_in_log(*at)) && changes.iter().any(|(at, _)| !is_in_log(*at)));
    let last = Family::last(&fsmend::hybridfs::Hybrid, &changes);
    let device = MemoryDevice::new("both", image.bytes.clone());
    let builder = PlanBuilder { changes: &changes, last: &last, ..PlanBuilder::default() };
    let plan = Plan::make(&device, &builder).unwrap();
    let repaired = with(&image.bytes, &changes);
    let options = ApplyOptions { start: 0, keep_undo: true, control: Control::unattended() };
    let (mut cuts, mut finished, mut untouched, mut taken_back) = (0, 0, 0, 0);
    for seed in 0..2 {
        for way in [Way::AsBegun, Way::Back] {
            for cut in 0.. {
                let disks = Disks::new(&image, seed * 1000 + cut);
                disks.machine.cut_power_at(cut);
                if apply(&plan, &disks.both, &disks.file, &options).is_ok() {
                    assert!(disks.bytes() == repaired);
                    break;
                }
                cuts += 1;
                disks.machine.restart();
                if !disks.file.is_there() {
                    assert!(disks.bytes() == image.bytes, "cut {cut}: nothing may be written without a log");
                    untouched += 1;
                    continue;
                }
                recover(&disks.file, &disks.both, way, false, Control::unattended()).unwrap();
                let now = disks.bytes();
                match (now == repaired, now == image.bytes) {
                    (true, _) => finished += 1,
                    (_, true) if way == Way::Back => taken_back += 1,
                    (_, true) => untouched += 1,
                    _ => panic!("cut {cut} of seed {seed}: neither as before nor repaired"),
                }
            }
        }
    }
    assert!(
        cuts > 60 && finished > 20 && untouched > 10 && taken_back > 20,
        "{cuts} {finished} {untouched} {taken_back}"
    );
}
