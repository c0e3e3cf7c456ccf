// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved plans and logs: files that may have been changed, on purpose or not.

use std::sync::{Arc, OnceLock};

use crc_fast::{CrcAlgorithm, checksum};
use fsmend_device::{
    ApplyOptions, Control, Device, MemoryDevice, Plan, PlanBuilder, Way, WritableDevice, apply, inspect_log,
    recover, undo,
};
use fsmend_disksim::{Machine, SimDisk, SimFile};

const TARGET_BYTES: usize = 20_000;

/// A plan: the bytes themselves, or, if the first one is odd, changes to a sound one, whose checksums are then made right. What is
/// still called a plan is carried out.
pub fn plan(data: &[u8]) {
    let Some((mode, data)) = data.split_first() else { return };
    let mut bytes = data.to_vec();
    if mode & 1 == 1 {
        let Some(sound) = sound_plan().and_then(|sound| Some(sound.bytes().ok()?.into_owned())) else {
            return;
        };
        bytes = sound;
        change(&mut bytes, data);
        seal_plan(&mut bytes);
    }
    let Ok(plan) = Plan::parse(bytes) else { return };
    let machine = Machine::new(0);
    let (disk, log) = (target(&machine), SimFile::create("log", &machine));
    assert!(plan.blocks().all(|block| block.offset + block.len <= plan.target_len()));
    let _ = (plan.text(), plan.identity(), plan.bytes_to_write(), plan.compare(&disk));
    if apply(&plan, &disk, &log, &options()).is_ok() {
        undo(&log, &disk, true, Control::unattended()).expect("what was written can be taken back");
        assert!(plan.blocks().any(|block| block.is_unreadable) || disk.bytes() == target_bytes());
    }
}

/// A log: changes to a sound one, whose checksums are made right if the first byte is odd.
pub fn log(data: &[u8]) {
    let (Some((mode, data)), Some(sound)) = (data.split_first(), sound_log()) else { return };
    let mut bytes = sound.clone();
    change(&mut bytes, data);
    if mode & 1 == 1 {
        seal_log(&mut bytes);
    }
    for way in [Way::AsBegun, Way::Forward, Way::Back] {
        let machine = Machine::new(0);
        let (disk, file) = (target(&machine), SimFile::create("log", &machine));
        if file.write_at(0, &bytes).is_ok() {
            let _ = inspect_log(&file);
            let _ = recover(&file, &disk, way, mode & 2 == 2, Control::unattended());
            let _ = undo(&file, &disk, mode & 2 == 2, Control::unattended());
        }
    }
}

/// Where both targets start: the sound one, whole and with a change or two.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let plan = sound_plan().and_then(|plan| Some([&[0], &*plan.bytes().ok()?].concat()));
    let changes = [0, 8, 16, 24, 40, 64, 72, 100, 4096, 4104, 8192, 12_288, 12_300];
    let changed = changes.map(|at: u16| {
        let [low, high] = at.to_le_bytes();
        vec![3, low, high, 2, 0xFF, 1]
    });
    plan.into_iter().chain(changed).collect()
}

fn target_bytes() -> Vec<u8> {
    (0..TARGET_BYTES).map(|at| (at / 9) as u8).collect()
}

fn target(machine: &Machine) -> SimDisk {
    SimDisk::new("target", machine, Arc::new(target_bytes()))
}

fn options() -> ApplyOptions<'static> {
    ApplyOptions { start: 0, keep_undo: true, control: Control::unattended() }
}

fn sound_plan() -> Option<&'static Plan> {
    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
    let make = || {
        let changes = [(5000, vec![1; 30]), (8190, vec![2; 4]), (19_999, vec![3])];
        let builder = PlanBuilder {
            identity: b"identity",
            text: "{}",
            changes: &changes,
            copies: &[],
            marker: &[(1024, vec![4; 1024])],
            last: &[(1024, 1024)],
        };
        Plan::make(&MemoryDevice::new("target", target_bytes()), &builder).ok()
    };
    PLAN.get_or_init(make).as_ref()
}

fn sound_log() -> Option<&'static Vec<u8>> {
    static LOG: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let make = || {
        let machine = Machine::new(0);
        let log = SimFile::create("log", &machine);
        apply(sound_plan()?, &target(&machine), &log, &options()).ok()?;
        let mut bytes = vec![0; log.len() as usize];
        log.read_at(0, &mut bytes).ok()?;
        Some(bytes)
    };
    LOG.get_or_init(make).as_ref()
}

/// `data` is a list of changes: offset in 16 bits, length in 8, the new bytes. The last one may shorten `bytes` to its offset.
fn change(bytes: &mut Vec<u8>, mut data: &[u8]) {
    while let Some((&[low, high, len], rest)) = data.split_first_chunk::<3>() {
        let at = usize::from(u16::from_le_bytes([low, high])) % bytes.len().max(1);
        let len = usize::from(len % 40).min(rest.len()).min(bytes.len() - at);
        if rest.is_empty() {
            bytes.truncate(at);
        }
        if let Some(place) = bytes.get_mut(at..at + len) {
            place.copy_from_slice(&rest[..len]);
        }
        data = &rest[len..];
    }
}

fn sum(bytes: &[u8]) -> [u8; 8] {
    checksum(CrcAlgorithm::Crc64Nvme, bytes).to_le_bytes()
}

/// Length and checksums of a plan.
fn seal_plan(bytes: &mut [u8]) {
    let Some(end) = bytes.len().checked_sub(8).filter(|end| *end >= 64) else { return };
    let len = bytes.len() as u64;
    bytes[48..56].copy_from_slice(&len.to_le_bytes());
    let header = sum(&bytes[..56]);
    bytes[56..64].copy_from_slice(&header);
    let all = sum(&bytes[..end]);
    bytes[end..].copy_from_slice(&all);
}

/// Checksums of header, body and slots of a log, as far as its header says where they are; those of its plan stay.
fn seal_log(bytes: &mut [u8]) {
    if bytes.len() < 12_288 {
        return;
    }
    let header = sum(&bytes[..4088]);
    bytes[4088..4096].copy_from_slice(&header);
    let number = |at: usize| {
        bytes
            .get(at..at + 8)
            .map_or(0, |bytes| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    let plan_end = number(16).saturating_add(12_288).min(bytes.len());
    let images = plan_end.next_multiple_of(4096).min(bytes.len());
    let images_end = number(24).saturating_mul(4096).saturating_add(images).min(bytes.len());
    let body = [&bytes[..4096], &bytes[12_288..plan_end], &bytes[images..images_end]].concat();
    for slot in [4096, 8192] {
        bytes[slot + 24..slot + 32].copy_from_slice(&sum(&body));
        let own = sum(&bytes[slot..slot + 40]);
        bytes[slot + 40..slot + 48].copy_from_slice(&own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_files_are_called_sound_after_sealing() {
        let (plan, log) = (sound_plan().expect("it is made here"), sound_log().expect("it is made here"));
        let mut bytes = plan.bytes().expect("it is in memory").into_owned();
        seal_plan(&mut bytes);
        assert_eq!(bytes, *plan.bytes().expect("it is in memory"));
        let mut bytes = log.clone();
        seal_log(&mut bytes);
        assert!(bytes == *log);
    }
}
