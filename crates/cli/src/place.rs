// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device: its name, and whether it may be touched.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fsmend_device::Usage;

/// What stands in the way of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is not in use.
    Free,
    /// It is the root file system, mounted read-only: it may be mended, and has to be mounted anew afterwards.
    ReadOnlyRoot,
    /// It is mounted, and may only be read.
    Mounted,
    /// It is used otherwise: a sentence that follows the name.
    Busy(String),
}

/// From what the caller named to a path: `LABEL=x` and the like are looked up where udev keeps its links.
pub fn resolve(device: &OsStr) -> Option<PathBuf> {
    resolve_under(Path::new("/dev/disk"), device)
}

fn resolve_under(disks: &Path, device: &OsStr) -> Option<PathBuf> {
    let Some((kind, value)) = device.to_str().and_then(|text| text.split_once('=')) else {
        return Some(PathBuf::from(device));
    };
    let folder = match kind {
        "LABEL" => "by-label",
        "UUID" => "by-uuid",
        "PARTLABEL" => "by-partlabel",
        "PARTUUID" => "by-partuuid",
        // A file whose name holds an equals sign.
        _ => return Some(PathBuf::from(device)),
    };
    let value = value.trim_matches('"');
    let value = if kind.ends_with("UUID") { value.to_ascii_lowercase() } else { escaped(value) };
    let is_plain = !value.is_empty() && !value.contains('/') && value != "..";
    is_plain.then(|| disks.join(folder).join(value)).filter(|path| path.exists())
}

/// udev writes bytes that names of links should not have as `\xNN`.
fn escaped(label: &str) -> String {
    let is_kept = |character: char| {
        character.is_alphanumeric() || !character.is_ascii() || "#+-.:=@_".contains(character)
    };
    let escape = |character: char| match is_kept(character) {
        true => character.to_string(),
        false => format!("\\x{:02x}", u32::from(character)),
    };
    label.chars().map(escape).collect()
}

/// What the uses of a device mean for a repair.
pub fn access(usage: &[Usage]) -> Access {
    let mounts: Vec<&Usage> = usage.iter().filter(|usage| matches!(usage, Usage::Mounted { .. })).collect();
    if !mounts.is_empty() {
        let is_root = |usage: &&Usage| matches!(usage, Usage::Mounted { at, read_only, .. } if *read_only && at == Path::new("/"));
        return if mounts.iter().all(is_root) { Access::ReadOnlyRoot } else { Access::Mounted };
    }
    match usage.iter().find(|usage| matches!(usage, Usage::Held { .. })) {
        Some(holder) => Access::Busy(holder.to_string()),
        None => Access::Free,
    }
}

/// What to call the file system in messages: its label, else the device as it was named. Characters that would break
/// lines or their columns become underscores.
pub fn name(label: &str, device: &OsStr) -> String {
    let name = if label.is_empty() {
        String::from_utf8_lossy(device.as_bytes()).into_owned()
    } else {
        label.to_owned()
    };
    let is_odd = |character: char| character.is_whitespace() || character.is_control() || character == ':';
    name.chars().map(|character| if is_odd(character) { '_' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_of_devices() {
        assert_eq!(name("", OsStr::new("/dev/sda1")), "/dev/sda1");
        assert_eq!(name("A B:C/d", OsStr::new("x")), "A_B_C/d");
        assert_eq!(name("", OsStr::new("l m:n.img")), "l_m_n.img");
        assert_eq!(name("a\x1b[31m", OsStr::new("")), "a_[31m");
    }

    #[test]
    fn labels_are_looked_up() {
        let disks = std::env::temp_dir().join(format!("fsmend-disks-{}", std::process::id()));
        for (folder, file) in [("by-label", "my\\x20root"), ("by-uuid", "0a-b"), ("by-partuuid", "77")] {
            std::fs::create_dir_all(disks.join(folder)).unwrap();
            std::fs::write(disks.join(folder).join(file), "").unwrap();
        }
        let find = |name: &str| resolve_under(&disks, OsStr::new(name));
        assert_eq!(find("LABEL=my root"), Some(disks.join("by-label/my\\x20root")));
        assert_eq!(find("UUID=0A-B"), Some(disks.join("by-uuid/0a-b")));
        assert_eq!(find("UUID=\"0a-b\""), Some(disks.join("by-uuid/0a-b")));
        assert_eq!(find("PARTUUID=77"), Some(disks.join("by-partuuid/77")));
        assert_eq!([find("LABEL=other"), find("UUID="), find("UUID=..")], [None, None, None]);
        assert_eq!(find("/dev/sda"), Some(PathBuf::from("/dev/sda")));
        assert_eq!(find("a=b.img"), Some(PathBuf::from("a=b.img")));
        std::fs::remove_dir_all(&disks).unwrap();
    }

    #[test]
    fn uses() {
        let mounted =
            |at: &str, read_only| Usage::Mounted { device: "/dev/x".into(), at: at.into(), read_only };
        assert_eq!(access(&[]), Access::Free);
        assert_eq!(access(&[mounted("/", true)]), Access::ReadOnlyRoot);
        assert_eq!(access(&[mounted("/", false)]), Access::Mounted);
        assert_eq!(access(&[mounted("/", true), mounted("/mnt", true)]), Access::Mounted);
        assert_eq!(access(&[mounted("/mnt", true)]), Access::Mounted);
        assert_eq!(access(&[Usage::Attached { device: "/dev/loop0".into() }]), Access::Free);
        assert!(matches!(access(&[Usage::Held { by: "/dev/dm-0".into() }]), Access::Busy(_)));
    }
}
