// SPDX-License-Identifier: MIT OR Apache-2.0
//! The write test (`e2fsck -cc`) on simulated disks: sectors that fail in every way are found, and nothing is lost, wherever the power is
//! cut.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::sync::Arc;

use fsmend_base::SeededRandom;
use fsmend_device::{
    ApplyError, Control, Device, LogFile, ReadError, Tested, WritableDevice, WriteError, WriteTest,
    end_write_test,
};
use fsmend_disksim::{Fault, FaultKind, Machine, SimDisk, SimFile};

const LEN: usize = 300 * 1024;

struct World {
    machine: Machine,
    disk: SimDisk,
    log: Arc<SimFile>,
}

fn world(seed: u64) -> World {
    let mut random = SeededRandom::new(seed);
    let bytes: Vec<u8> = (0..LEN).map(|_| random.next_u64() as u8).collect();
    let machine = Machine::new(seed);
    let disk = SimDisk::new("target", &machine, Arc::new(bytes));
    let log = Arc::new(SimFile::create("log", &machine));
    World { machine, disk, log }
}

fn test(target: &dyn WritableDevice, log: &Arc<SimFile>, control: Control<'_>) -> Result<Tested, ApplyError> {
    let marker = [(1024, vec![0xEE; 1024])];
    let new_log = || Ok(Box::new(Arc::clone(log)) as Box<dyn LogFile>);
    let range = 1024..LEN as u64;
    WriteTest { range, piece: 1024, start: 0, marker: &marker, seed: 7, new_log: &new_log, control }
        .run(target)
}

#[test]
fn a_good_disk_keeps_everything_and_has_no_bad_blocks() {
    let World { machine, disk, log } = world(1);
    let before = disk.bytes();
    let tested = test(&disk, &log, Control::unattended()).unwrap();
    assert!(tested.bad.is_empty() && tested.unrestored.is_empty());
    assert!(disk.bytes() == before && !log.is_there());
    let written = machine.requests().len();
    assert!(written > 6, "{written} requests");
}

#[test]
fn whatever_the_moment_of_a_power_cut_the_next_run_gives_everything_back() {
    let (mut seen_begun, mut seen_fresh, mut cuts) = (0, 0, 0);
    for seed in 0..12 {
        for cut in 0.. {
            let World { machine, disk, log } = world(seed);
            let before = disk.bytes();
            machine.cut_power_at(cut);
            let result = test(&disk, &log, Control::unattended());
            if machine.is_on() {
                assert!(result.is_ok() && cut > 5);
                break;
            }
            machine.restart();
            cuts += 1;
            // The recovery is cut short, too.
            for again in 0..3 {
                if log.is_there() {
                    machine.cut_power_at(again * 2);
                    let _ = end_write_test(Box::new(Arc::clone(&log)), &disk);
                    machine.restart();
                }
            }
            seen_begun += u64::from(log.is_there());
            if log.is_there() {
                let left = end_write_test(Box::new(Arc::clone(&log)), &disk).unwrap();
                assert!(left.is_none(), "seed {seed}, cut {cut}: something was not given back");
            } else {
                seen_fresh += 1;
            }
            machine.restart();
            assert!(disk.bytes() == before, "seed {seed}, cut {cut}");
        }
    }
    assert!(cuts > 100 && seen_begun > 50 && seen_fresh > 0, "{cuts} {seen_begun} {seen_fresh}");
}

#[test]
fn as_long_as_patterns_stand_there_the_target_is_marked() {
    for cut in 0..40 {
        let World { machine, disk, log } = world(3);
        let before = disk.bytes();
        machine.cut_power_at(cut);
        let _ = test(&disk, &log, Control::unattended());
        machine.restart();
        let now = disk.bytes();
        let is_marked = now[1024..2048].iter().all(|byte| *byte == 0xEE);
        assert!(is_marked || now[4096..] == before[4096..], "cut {cut}");
    }
}

#[test]
fn blocks_that_cannot_be_read_are_bad_and_are_not_written() {
    let World { disk, log, .. } = world(4);
    disk.plan_fault(Fault::lasting(FaultKind::Read, 201..202));
    let before = disk.bytes();
    let tested = test(&disk, &log, Control::unattended()).unwrap();
    assert_eq!(tested.bad, BTreeSet::from([100]));
    assert!(tested.unrestored.is_empty() && disk.bytes() == before);
    disk.read_at(201 * 512, &mut [0]).unwrap_err();
}

#[test]
fn blocks_that_cannot_be_written_are_bad_and_their_contents_are_known() {
    let World { disk, log, .. } = world(5);
    disk.plan_fault(Fault::lasting(FaultKind::Write, 300..301));
    let before = disk.bytes();
    let mut tested = test(&disk, &log, Control::unattended()).unwrap();
    // A block of the log is four of the file system.
    assert_eq!(tested.bad, BTreeSet::from([148, 149, 150, 151]));
    // The sectors before the bad one hold what they should; the pattern never reached the others.
    assert!(disk.bytes() == before && log.is_there());
    let left = tested.unrestored.pop().unwrap();
    let at = 148 * 1024;
    assert_eq!(left.blocks, [(at as u64, before[at..at + 4096].to_vec())]);
    drop(left);
    let again = end_write_test(Box::new(Arc::clone(&log)), &disk).unwrap().unwrap();
    assert_eq!(again.blocks.len(), 1, "the next run knows it, too");
    again.close().unwrap();
    assert!(!log.is_there());
}

#[test]
fn a_disk_that_is_gone_is_no_disk_of_bad_blocks() {
    let World { machine, disk, log } = world(6);
    let before = disk.bytes();
    disk.plan_fault(Fault::lasting(FaultKind::Sync, 0..0));
    let error = test(&disk, &log, Control::unattended()).err().unwrap();
    assert!(matches!(error, ApplyError::Write(_)) && log.is_there(), "{error}");
    disk.forget_faults();
    machine.restart();
    assert!(end_write_test(Box::new(Arc::clone(&log)), &disk).unwrap().is_none());
    assert!(disk.bytes() == before);
}

#[test]
fn what_was_written_meanwhile_is_not_overwritten() {
    let (mut refused, mut cut) = (false, 0);
    while !refused && cut < 60 {
        let World { machine, disk, log } = world(8);
        machine.cut_power_at(cut);
        let _ = test(&disk, &log, Control::unattended());
        machine.restart();
        cut += 1;
        if !log.is_there() {
            continue;
        }
        disk.write_at(1024, b"mounted").unwrap();
        if let Err(error) = end_write_test(Box::new(Arc::clone(&log)), &disk) {
            refused |= matches!(error, ApplyError::Foreign(_));
        }
    }
    assert!(refused);
}

/// A disk with a sector that keeps nothing but zeroes, and says nothing about it.
struct Forgetful {
    disk: SimDisk,
    sector: u64,
}

impl Device for Forgetful {
    fn name(&self) -> &str {
        self.disk.name()
    }

    fn len(&self) -> u64 {
        self.disk.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.disk.read_at(offset, buf)
    }
}

impl WritableDevice for Forgetful {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.disk.write_at(offset, bytes)?;
        let end = offset + bytes.len() as u64;
        let touches = offset < (self.sector + 1) * 512 && self.sector * 512 < end;
        if touches { self.disk.write_at(self.sector * 512, &[0; 512]) } else { Ok(()) }
    }

    fn sync(&self) -> Result<(), WriteError> {
        self.disk.sync()
    }
}

#[test]
fn a_sector_that_forgets_in_silence_is_found_and_its_contents_are_saved() {
    let World { disk, log, .. } = world(9);
    let before = disk.bytes();
    let target = Forgetful { disk, sector: 403 };
    let tested = test(&target, &log, Control::unattended()).unwrap();
    let block = 403 / 8 * 4096;
    assert!(tested.bad.contains(&201));
    assert_eq!(tested.unrestored[0].blocks, [(block as u64, before[block..block + 4096].to_vec())]);
    drop(tested);
    // The garbage in that sector has no owner: the mark, or the superblock as it was, says so.
    let left = end_write_test(Box::new(Arc::clone(&log)), &target).unwrap().unwrap();
    assert_eq!(left.blocks.len(), 1);
}

#[test]
fn stopped_between_stretches_nothing_is_left_behind() {
    let World { disk, log, .. } = world(10);
    let before = disk.bytes();
    let stop = std::sync::atomic::AtomicBool::new(true);
    let control = Control::new(&stop, &|_| {});
    let error = test(&disk, &log, control).err().unwrap();
    assert!(matches!(error, ApplyError::Stopped { begun: false }) && disk.bytes() == before);
}
