// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multiple-mount protection, as far as it takes time: whether another machine is using a file system shows in whether it goes on
//! counting in the MMP block.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use fsmend_device::Device;
use fsmend_engine::Refusal;
use fsmend_ext_check::mmp::{MmpBlock, hold};

use fsmend_session::{CANCELLED_CODE, Change, Environment};

/// `mmp_seq` while a checker is at work.
const SEQUENCE_FSCK: u32 = 0xE24D_4D50;
/// The longest time to wait.
const WAIT_MAX: u64 = 120;
const PAUSE: Duration = Duration::from_millis(100);

/// Returns when no other host is using the file system on `device`: at once if its MMP block is at rest or there is none, else after
/// the block has not changed for twice the time within which it should have. `tell` is given a sentence before the wait.
pub fn wait_for_rest(
    device: &dyn Device,
    environment: &Environment,
    tell: &mut dyn FnMut(String),
    cancel: &AtomicBool,
) -> Result<(), Refusal> {
    let now = (environment.now)();
    let node = &environment.node;
    let Some(block) = hold(device, node, now).filter(|block| !block.is_clean) else { return Ok(()) };
    if sequence(&block) == SEQUENCE_FSCK {
        // On this machine the lock on the device says that no checker is at work any more.
        return if owner(&block) == *node { Ok(()) } else { Err(in_use(&block, "being checked")) };
    }
    let seconds = (interval(&block) * 2 + 1).min(WAIT_MAX);
    tell(format!("it may be mounted on {}; waiting {seconds} seconds for MMP", owner(&block)));
    pause(Duration::from_secs(seconds), environment, cancel)?;
    match hold(device, node, now) {
        Some(later) if later.found != block.found => Err(in_use(&later, "mounted")),
        _ => Ok(()),
    }
}

/// The change that says in the MMP block that a checker is at work, and the one that puts it to rest afterwards, if it is not at rest.
pub fn mark_and_rest(device: &dyn Device, environment: &Environment) -> (Option<Change>, Option<Change>) {
    let block = hold(device, &environment.node, (environment.now)());
    let rest =
        block.as_ref().filter(|block| !block.is_clean).map(|block| (block.offset, block.clean.clone()));
    (block.map(|block| (block.offset, block.held)), rest)
}

fn pause(span: Duration, environment: &Environment, cancel: &AtomicBool) -> Result<(), Refusal> {
    let pace = environment.pace;
    let started = pace.now_ns();
    while Duration::from_nanos(pace.now_ns().saturating_sub(started)) < span {
        if cancel.load(Relaxed) {
            return Err(Refusal {
                code: CANCELLED_CODE,
                message: "stopped while waiting for another machine".to_owned(),
                hint: "Run it again".to_owned(),
            });
        }
        pace.wait(PAUSE);
    }
    Ok(())
}

fn in_use(block: &MmpBlock, how: &str) -> Refusal {
    Refusal {
        code: "mmp-in-use",
        message: format!("its MMP block says that it is {how} on {}", owner(block)),
        hint: "Unmount it there. If that machine is down permanently: tune2fs -f -E clear_mmp".to_owned(),
    }
}

fn sequence(block: &MmpBlock) -> u32 {
    let bytes = block.found.get(4..8).unwrap_or(&[0; 4]);
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Seconds within which a host that uses the file system changes the block.
fn interval(block: &MmpBlock) -> u64 {
    let bytes = block.found.get(0x70..0x72).unwrap_or(&[0; 2]);
    u64::from(u16::from_le_bytes([bytes[0], bytes[1]])).max(5)
}

fn owner(block: &MmpBlock) -> String {
    let name = block.found.get(0x10..0x50).unwrap_or_default();
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    fsmend_engine::problem::escape_name(name)
}
