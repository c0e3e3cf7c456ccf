// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether another process is using a target just now, for a plain warning.
//!
//! A block device is in use when it, one of its partitions, or something built on them (a device-mapper volume, a RAID) is
//! mounted; an image file when a loop device shows it. All of it is in `/proc/self/mountinfo` and `/sys`.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::{Flock, FlockType, fcntl_getlk};

/// One use of a target by another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Usage {
    /// A file system on the target is mounted.
    Mounted {
        /// Name of the block device that is mounted.
        device: String,
        /// Where.
        at: PathBuf,
        /// Whether the mount cannot write.
        read_only: bool,
    },
    /// A loop device shows the file.
    Attached {
        /// Name of the loop device.
        device: String,
    },
    /// Another block device is built on the target, but nothing on it is mounted.
    Held {
        /// Name of that block device.
        by: String,
    },
    /// A process has locked it for writing.
    Locked {
        /// Its number.
        by: u32,
    },
}

impl Usage {
    /// Whether the target can change while it is being read.
    pub fn may_write(&self) -> bool {
        !matches!(self, Usage::Mounted { read_only: true, .. })
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Usage::Mounted { device, at, read_only } => {
                let how = if *read_only { " (read-only)" } else { "" };
                write!(f, "{device} is mounted at {}{how}", at.display())
            }
            Usage::Attached { device } => write!(f, "it is attached to the loop device {device}"),
            Usage::Held { by } => write!(f, "the block device {by} is built on it"),
            Usage::Locked { by } => write!(f, "process {by} has it open for writing"),
        }
    }
}

/// The process that has locked the file or block device at `path` for writing, if it is another one and the system tells which.
/// Do not call it for a target that this process has locked itself: Linux drops one of the two kinds of lock then.
pub fn writer_of(path: &Path) -> Option<u32> {
    let kind = fs::metadata(path).ok()?.file_type();
    // To open a pipe would wait for its other end, and to open a tape would move it.
    if !kind.is_file() && !kind.is_block_device() {
        return None;
    }
    let file = fs::File::open(path).ok()?;
    let lock = fcntl_getlk(&file, &Flock::from(FlockType::ReadLock)).ok()??;
    u32::try_from(lock.pid?.as_raw_nonzero().get()).ok()
}

/// Whether process `pid` sees a FUSE file system that shows the file or block device at `path`.
pub fn is_served_for(pid: u32, path: &Path) -> bool {
    let mounts = read_small(Path::new(&format!("/proc/{pid}/mountinfo"))).unwrap_or_default();
    let Ok(metadata) = fs::metadata(path) else { return false };
    parse_mounts(&mounts).iter().any(|mount| mount.serves(&metadata))
}

/// Who uses the file or block device at `path`; nothing if that cannot be found out.
pub fn usage_of(path: &Path) -> Vec<Usage> {
    let Ok(mounts) = read_small(Path::new("/proc/self/mountinfo")) else { return Vec::new() };
    System { sys: Path::new("/sys"), mounts: parse_mounts(&mounts) }.usage_of(path)
}

/// What a file says that has no length, as those below `/proc` and `/sys`: with room from the start, for else it is asked for in pieces
/// of 32 bytes, and each of them makes the kernel write all of it anew.
pub fn read_small(path: &Path) -> io::Result<String> {
    let mut text = String::with_capacity(SMALL_BYTES);
    fs::File::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Room for what such a file says.
const SMALL_BYTES: usize = 4096;

/// Devices built on devices built on devices: deeper is not looked.
const LAYERS_MAX: u32 = 8;

/// What the kernel tells about block devices and mounts.
struct System<'s> {
    sys: &'s Path,
    mounts: Vec<Mount>,
}

/// A line of mountinfo.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// "major:minor".
    pub(crate) device: String,
    /// Where it is mounted.
    pub(crate) at: PathBuf,
    /// What is mounted, as the one who mounted it calls it.
    pub(crate) source: String,
    /// The file system's type.
    pub(crate) kind: String,
    /// Whether the file system (not only this mount of it) is read-only.
    pub(crate) read_only: bool,
}

impl Mount {
    /// Major and minor number.
    pub(crate) fn number(&self) -> Option<(u32, u32)> {
        let (major, minor) = self.device.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }

    /// Whether it is a FUSE file system that names a file or block device.
    pub(crate) fn is_served(&self) -> bool {
        // Other kinds of file systems name no files, and those on networks name hosts.
        let is_fuse = self.kind.starts_with("fuse.") || self.kind == "fuse";
        is_fuse && Path::new(&self.source).is_absolute()
    }

    /// Whether it is a FUSE file system (fsmend mount, fuse2fs) that shows the file or block device with that metadata.
    pub(crate) fn serves(&self, target: &fs::Metadata) -> bool {
        let source = self.is_served().then_some(Path::new(&self.source));
        source.and_then(|source| fs::metadata(source).ok()).is_some_and(|source| is_same(&source, target))
    }
}

/// Whether two names lead to the same file or block device.
fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    match (one.rdev(), other.rdev()) {
        (0, 0) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (one, other) => one == other,
    }
}

impl System<'_> {
    fn usage_of(&self, path: &Path) -> Vec<Usage> {
        let Ok(metadata) = fs::metadata(path) else { return Vec::new() };
        let served = self.mounts.iter().filter(|mount| mount.serves(&metadata));
        let mut usage: Vec<Usage> = served
            .map(|mount| Usage::Mounted {
                device: mount.source.clone(),
                at: mount.at.clone(),
                read_only: mount.read_only,
            })
            .collect();
        if metadata.rdev() != 0 {
            let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
            self.uses_of_device(&self.sys.join(format!("dev/block/{major}:{minor}")), 0, &mut usage);
        } else {
            for device in self.loop_devices(&metadata) {
                usage.push(Usage::Attached { device: device_name(&device) });
                self.uses_of_device(&device, 0, &mut usage);
            }
        }
        usage
    }

    /// Folders under /sys of the loop devices that show the file.
    fn loop_devices(&self, file: &fs::Metadata) -> Vec<PathBuf> {
        let mut devices = entries(&self.sys.join("block"));
        devices.retain(|device| {
            let backing = read_small(&device.join("loop/backing_file")).unwrap_or_default();
            let backing = fs::metadata(backing.trim_end_matches('\n'));
            backing.is_ok_and(|backing| (backing.dev(), backing.ino()) == (file.dev(), file.ino()))
        });
        devices
    }

    /// Mounts of the device in `folder`, of its partitions, and of what is built on them.
    fn uses_of_device(&self, folder: &Path, layer: u32, usage: &mut Vec<Usage>) {
        let number = fs::read_to_string(folder.join("dev")).unwrap_or_default();
        let device = device_name(folder);
        for mount in self.mounts.iter().filter(|mount| mount.device == number.trim_end()) {
            let (device, at) = (device.clone(), mount.at.clone());
            usage.push(Usage::Mounted { device, at, read_only: mount.read_only });
        }
        if layer >= LAYERS_MAX {
            return;
        }
        for partition in entries(folder).iter().filter(|entry| entry.join("partition").exists()) {
            self.uses_of_device(partition, layer + 1, usage);
        }
        for holder in entries(&folder.join("holders")) {
            let before = usage.len();
            self.uses_of_device(&holder, layer + 1, usage);
            if usage.len() == before {
                usage.push(Usage::Held { by: device_name(&holder) });
            }
        }
    }
}

/// What lies in a folder, in a fixed order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The name under /dev of the device in a folder of /sys, whose entries may be links.
pub(crate) fn device_name(folder: &Path) -> String {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let name = folder.file_name().unwrap_or_default().to_string_lossy().replace('!', "/");
    format!("/dev/{name}")
}

/// Lines like `36 35 98:0 / /mnt rw,noatime shared:1 - xfs /dev/root rw,errors=continue`; those not understood are skipped.
pub(crate) fn parse_mounts(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_mount).collect()
}

fn parse_mount(line: &str) -> Option<Mount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut fields = mount.split(' ');
    let (device, at) = (fields.nth(2)?, fields.nth(1)?);
    let mut file_system = file_system.split(' ');
    let (kind, source, options) = (file_system.next()?, file_system.next()?, file_system.next()?);
    let read_only = options.split(',').any(|option| option == "ro");
    Some(Mount {
        device: device.to_owned(),
        at: unescape(at).into(),
        source: unescape(source),
        kind: kind.to_owned(),
        read_only,
    })
}

/// Turns `\040` and the like back into characters.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                result.push(char::from(code));
                result.push_str(&part[3..]);
            }
            None => {
                result.push('\\');
                result.push_str(part);
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn mountinfo_is_understood() {
        let text = "22 27 0:21 / /proc rw,nosuid shared:14 - proc proc rw\n\
                    36 35 7:3 / /mnt/a\\040b rw,noatime master:1 - xfs /dev/loop3 ro,errors=continue\n\
                    broken\n";
        let mounts = parse_mounts(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(
            mounts[1],
            Mount {
                device: "7:3".into(),
                at: "/mnt/a b".into(),
                source: "/dev/loop3".into(),
                kind: "xfs".into(),
                read_only: true
            }
        );
        assert_eq!(mounts[1].number(), Some((7, 3)));
        assert_eq!(unescape("a\\b\\134c\\"), "a\\b\\c\\");
    }

    #[test]
    fn an_image_in_a_fuse_mount_is_in_use() {
        let image = std::env::temp_dir().join(format!("fsmend-served {}", std::process::id()));
        fs::write(&image, "x").unwrap();
        let shown = image.display().to_string().replace(' ', "\\040");
        let table = |kind: &str, how: &str| {
            parse_mounts(&format!("36 35 0:54 / /mnt {how} - {kind} {shown} {how},user_id=0\n"))
        };
        let usage =
            |kind, how| System { sys: Path::new("/nowhere"), mounts: table(kind, how) }.usage_of(&image);
        let mounted = |read_only| {
            [Usage::Mounted { device: image.display().to_string(), at: "/mnt".into(), read_only }]
        };
        assert_eq!(usage("fuse.fsmend", "rw"), mounted(false));
        assert_eq!(usage("fuse.fuse2fs", "ro"), mounted(true));
        assert_eq!(usage("nfs", "rw"), []);
        fs::remove_file(image).unwrap();
    }

    #[test]
    fn loops_partitions_and_volumes_are_followed() {
        let root = std::env::temp_dir().join(format!("fsmend-sys-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("image", "x");
        write("other", "x");
        let image = root.join("image");
        write("block/loop1/loop/backing_file", &format!("{}\n", image.display()));
        write("block/loop1/dev", "7:1\n");
        write("block/loop1/loop1p1/dev", "259:0\n");
        write("block/loop1/loop1p1/partition", "1\n");
        write("block/loop1/loop1p1/holders/dm-0/dev", "254:0\n");
        write("block/loop1/holders/dm-1/dev", "254:1\n");
        write("block/loop2/loop/backing_file", "/nowhere (deleted)\n");
        let mounts = parse_mounts("36 35 254:0 / /mnt rw - xfs /dev/mapper/a rw\n");
        let usage = System { sys: &root, mounts }.usage_of(&image);
        let expected = [
            Usage::Attached { device: "/dev/loop1".into() },
            Usage::Mounted { device: "/dev/dm-0".into(), at: "/mnt".into(), read_only: false },
            Usage::Held { by: "/dev/dm-1".into() },
        ];
        assert_eq!(usage, expected);
        assert!(usage.iter().all(Usage::may_write));
        assert!(System { sys: &root, mounts: Vec::new() }.usage_of(&root.join("other")).is_empty());
        fs::remove_dir_all(root).unwrap();
    }
}
