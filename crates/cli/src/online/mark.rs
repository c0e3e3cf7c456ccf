// SPDX-License-Identifier: MIT OR Apache-2.0
//! Marking a mounted file system as one with errors, so that it is repaired at the next boot.
//!
//! Writing that into the superblock on the disk, as tune2fs does, does not last: the kernel keeps the state of the file system in memory
//! and writes that back when it is unmounted cleanly. So the kernel itself sets it: ext4 has a file in /sys that reports an error found from outside.
//! It then acts as after any error. Where that would mean to become read-only or to panic, its errors= behaviour is set to continue for that moment.

use std::fs;
use std::io;
use std::path::PathBuf;

use fsmend_device::{Mounted, configure};

/// What is said in the kernel's log.
const MESSAGE: &str = "fsmend found damage; marked for repair";

/// Marks it; why not, if not.
pub fn for_repair(mounted: &Mounted) -> Result<(), String> {
    let name = mounted.kernel_name();
    let trigger = PathBuf::from(format!("/sys/fs/ext4/{name}/trigger_fs_error"));
    if !trigger.exists() {
        return Err("the kernel cannot mark it (only file systems mounted by the ext4 driver can be marked)"
            .to_owned());
    }
    let behaviour =
        errors_behaviour(&name).map_err(|error| format!("cannot read the errors= setting ({error})"))?;
    if behaviour == GO_ON {
        return report(&trigger);
    }
    let set = |value: &str| {
        configure(&mounted.at, mounted.number, "errors", value)
            .map_err(|error| format!("cannot set errors={value} ({error})"))
    };
    set(GO_ON)?;
    // Never without looking: with errors=panic the machine would stop.
    let marked = match errors_behaviour(&name) {
        Ok(now) if now == GO_ON => report(&trigger),
        _ => Err("the kernel did not take errors=continue".to_owned()),
    };
    set(&behaviour).map_err(|why| format!("{why}: errors= was {behaviour} before; set it again by hand"))?;
    marked
}

const GO_ON: &str = "continue";

fn report(trigger: &std::path::Path) -> Result<(), String> {
    fs::write(trigger, MESSAGE).map_err(|error| format!("the kernel refused ({error})"))
}

/// What the kernel does on errors.
fn errors_behaviour(name: &str) -> io::Result<String> {
    let options = fs::read_to_string(format!("/proc/fs/ext4/{name}/options"))?;
    let value = options.lines().find_map(|line| line.trim().strip_prefix("errors="));
    Ok(value.ok_or(io::ErrorKind::InvalidData)?.to_owned())
}
