// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the journal of a file system is that keeps it on another device, without `-j`.
//!
//! The superblock holds the UUID of the journal and a number that its device once had. The number is tried first, then every block device
//! there is: numbers change from boot to boot. Whatever is found has to be a journal device with that UUID. A copy or a snapshot of the journal
//! has the same UUID, and an old log would undo what was written since: between several of them only the user can choose.

use std::path::{Path, PathBuf};

use crate::family::JournalPlace;

/// The folder in which the kernel has an entry for each block device number.
const BY_NUMBER: &str = "/sys/dev/block";
/// The folder in which the kernel has an entry for each block device.
const BY_NAME: &str = "/sys/class/block";

/// The device of the journal `wanted`, if it is found. `tell` hears a sentence where several could be it; then none is taken.
pub fn find(wanted: &dyn JournalPlace, tell: impl FnOnce(String)) -> Option<PathBuf> {
    let is_it = |path: &PathBuf| wanted.is(path);
    by_number(wanted.number())
        .filter(is_it)
        .or_else(|| the_only(every_device().filter(is_it).collect(), tell))
}

fn the_only(mut found: Vec<PathBuf>, tell: impl FnOnce(String)) -> Option<PathBuf> {
    if found.len() < 2 {
        return found.pop();
    }
    let names: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
    tell(format!("Several devices hold a journal with this UUID: {}. Select one with -j.", names.join(", ")));
    None
}

fn by_number(number: u32) -> Option<PathBuf> {
    let (major, minor) = device_number(number)?;
    let entry = std::fs::canonicalize(format!("{BY_NUMBER}/{major}:{minor}")).ok()?;
    node(entry.file_name()?.to_str()?)
}

/// Major and minor number of a device as superblocks store them: twelve bits in the middle, and the rest. 0 is none.
fn device_number(stored: u32) -> Option<(u32, u32)> {
    (stored != 0).then_some(((stored >> 8) & 0xFFF, (stored & 0xFF) | ((stored >> 12) & 0xF_FF00)))
}

/// The node of the device that the kernel calls `name`; it writes `!` where a path has `/`.
fn node(name: &str) -> Option<PathBuf> {
    let path = Path::new("/dev").join(name.replace('!', "/"));
    path.exists().then_some(path)
}

/// All block devices but those that are parts of others, like one of several paths to a disk: the whole is there, too.
fn every_device() -> impl Iterator<Item = PathBuf> {
    let mut names: Vec<String> = std::fs::read_dir(BY_NAME)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names.into_iter().filter(|name| !is_part(name)).filter_map(|name| node(&name))
}

fn is_part(name: &str) -> bool {
    std::fs::read_dir(Path::new(BY_NAME).join(name).join("holders"))
        .is_ok_and(|mut holders| holders.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_several_the_user_chooses() {
        let (one, other) = (PathBuf::from("/dev/one"), PathBuf::from("/dev/other"));
        let mut said = String::new();
        assert_eq!(the_only(vec![], |text| said = text), None);
        assert_eq!(the_only(vec![one.clone()], |text| said = text), Some(one.clone()));
        assert_eq!(said, "");
        assert_eq!(the_only(vec![one, other], |text| said = text), None);
        assert!(said.contains("/dev/one, /dev/other"), "{said}");
    }

    #[test]
    fn numbers_of_devices_are_taken_apart() {
        assert_eq!(device_number(0), None);
        assert_eq!(device_number(0x0803), Some((8, 3)));
        assert_eq!(device_number(0x0001_0304), Some((0x103, 4)), "a large major one");
        assert_eq!(device_number(0x0050_0811), Some((8, 0x511)), "a large minor one");
    }
}
