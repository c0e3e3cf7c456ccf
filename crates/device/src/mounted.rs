// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounted file systems: where they are, on which device, and which file lies behind a loop device.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ioctl_ficlone, open};
use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_string, fspick};

use crate::FileDevice;
use crate::mounts::{Mount, device_name, parse_mounts, read_small};

/// A file system that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Its block device.
    pub device: PathBuf,
    /// Major and minor number of that.
    pub number: (u32, u32),
    /// Where it is mounted (one of the places).
    pub at: PathBuf,
    /// Whether no process can write to it.
    pub read_only: bool,
}

/// A file behind a loop device, and which part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// The file.
    pub file: PathBuf,
    /// Byte of the file at which the device starts.
    pub start: u64,
    /// Bytes of the device; 0 for all the rest of the file.
    pub len: u64,
}

/// The file systems of these `kinds` (as the kernel calls them) that are mounted, each once, in the order in which they were mounted.
pub fn mounted(kinds: &[&str]) -> io::Result<Vec<Mounted>> {
    let mut all: Vec<Mounted> = Vec::new();
    for mount in parse_mounts(&read_small(Path::new("/proc/self/mountinfo"))?) {
        if let Some(found) = kinds.contains(&mount.kind.as_str()).then(|| of_mount(&mount)).flatten()
            && all.iter().all(|other| other.number != found.number)
        {
            all.push(found);
        }
    }
    Ok(all)
}

/// The file system of one of these `kinds` whose mount point, or whose block device, `path` is; none if it is neither. A folder somewhere below a mount
/// point is not one: what lies there was not asked for.
pub fn mounted_at(path: &Path, kinds: &[&str]) -> io::Result<Option<Mounted>> {
    let path = fs::canonicalize(path)?;
    let metadata = fs::metadata(&path)?;
    let mounts = parse_mounts(&read_small(Path::new("/proc/self/mountinfo"))?);
    // Of several mounts on top of one another the last one is seen.
    let found = match metadata.is_dir() {
        true => mounts.iter().rev().find(|mount| mount.at == path),
        false => {
            let number = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
            mounts.iter().find(|mount| metadata.rdev() != 0 && mount.number() == Some(number))
        }
    };
    Ok(found.filter(|mount| kinds.contains(&mount.kind.as_str())).and_then(of_mount))
}

/// A file system that a process shows through FUSE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The file or block device that it is on.
    pub source: PathBuf,
    /// Where it is mounted.
    pub at: PathBuf,
    /// Whether no process can write to it.
    pub read_only: bool,
}

/// The file system in user space whose mount point, or whose file or block device, `path` is.
pub fn served_at(path: &Path) -> io::Result<Option<Served>> {
    let path = fs::canonicalize(path)?;
    let metadata = fs::metadata(&path)?;
    let mounts = parse_mounts(&read_small(Path::new("/proc/self/mountinfo"))?);
    // Of several mounts on top of one another the last one is seen.
    let found = match metadata.is_dir() {
        true => mounts.iter().rev().find(|mount| mount.at == path).filter(|mount| mount.is_served()),
        false => mounts.iter().rev().find(|mount| mount.serves(&metadata)),
    };
    Ok(found.map(|mount| Served {
        source: mount.source.clone().into(),
        at: mount.at.clone(),
        read_only: mount.read_only,
    }))
}

fn of_mount(mount: &Mount) -> Option<Mounted> {
    let number = mount.number()?;
    let folder = PathBuf::from(format!("/sys/dev/block/{}", mount.device));
    let device = device_name(&folder).into();
    Some(Mounted { device, number, at: mount.at.clone(), read_only: mount.read_only })
}

impl Mounted {
    /// What the kernel calls the block device (`loop0`, `dm-1`).
    pub fn kernel_name(&self) -> String {
        self.device.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The file behind it, if it is a loop device or a partition of one.
    pub fn backing(&self) -> Option<Backing> {
        backing_of(&PathBuf::from(format!("/sys/dev/block/{}:{}", self.number.0, self.number.1)))
    }
}

/// What stands in the folder of a block device under /sys.
fn backing_of(folder: &Path) -> Option<Backing> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    if folder.join("partition").exists() {
        let disk = backing_of(fs::canonicalize(folder).ok()?.parent()?)?;
        let start = number(folder.join("start"))?.checked_mul(512)?.checked_add(disk.start)?;
        return Some(Backing { start, len: number(folder.join("size"))?.checked_mul(512)?, ..disk });
    }
    let file = fs::read_to_string(folder.join("loop/backing_file")).ok()?;
    let file = PathBuf::from(file.trim_end_matches('\n'));
    let start = number(folder.join("loop/offset"))?;
    Some(Backing { file, start, len: number(folder.join("loop/sizelimit"))? })
}

/// A file without a name that will share the blocks of another one. It vanishes when it is closed, whatever becomes of us.
#[derive(Debug)]
pub struct FileClone {
    original: File,
    copy: File,
}

impl FileClone {
    /// Makes an empty file without a name beside `original`.
    pub fn beside(original: &Path) -> io::Result<Self> {
        let folder = original.parent().ok_or(io::ErrorKind::NotFound)?;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let copy = File::from(open(folder, flags, Mode::RUSR | Mode::WUSR)?);
        Ok(FileClone { original: File::open(original)?, copy })
    }

    /// Lets the copy share all blocks of the original, as it is at this moment.
    pub fn share(&self) -> io::Result<()> {
        Ok(ioctl_ficlone(&self.copy, &self.original)?)
    }

    /// The copy as a device, called `name`.
    pub fn into_device(self, name: String) -> io::Result<FileDevice> {
        FileDevice::from_file(name, self.copy)
    }
}

/// Changes one option of the file system that is mounted at `at` and lies on the block device `number` (major, minor). All other options
/// stay as they are.
pub fn configure(at: &Path, number: (u32, u32), option: &str, value: &str) -> io::Result<()> {
    let lies_on = fs::metadata(at)?.dev();
    if (rustix::fs::major(lies_on), rustix::fs::minor(lies_on)) != number {
        return Err(io::Error::other("another file system is mounted there"));
    }
    let picked = fspick(CWD, at, FsPickFlags::FSPICK_CLOEXEC)?;
    fsconfig_set_string(&picked, option, value)?;
    Ok(fsconfig_reconfigure(&picked)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_folder_that_is_no_mount_point_is_nothing() {
        let folder = std::env::temp_dir();
        let inside = folder.join(format!("fsmend-no-mount-{}", std::process::id()));
        fs::create_dir_all(&inside).unwrap();
        assert_eq!(mounted_at(&inside, &["proc"]).unwrap(), None);
        assert_eq!(mounted_at(Path::new("/proc"), &["xfs"]).unwrap(), None);
        assert_eq!(mounted_at(Path::new("/dev/null"), &["proc"]).unwrap(), None);
        fs::remove_dir(&inside).unwrap();
        assert!(mounted_at(&inside, &["proc"]).is_err());
    }

    #[test]
    fn what_lies_behind_a_loop_device_and_its_partition() {
        let root = std::env::temp_dir().join(format!("fsmend-backing-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("loop3/loop/backing_file", "/srv/a disk.img\n");
        write("loop3/loop/offset", "4096\n");
        write("loop3/loop/sizelimit", "0\n");
        write("loop3/loop3p1/partition", "1\n");
        write("loop3/loop3p1/start", "2048\n");
        write("loop3/loop3p1/size", "100\n");
        let file = PathBuf::from("/srv/a disk.img");
        let whole = Backing { file: file.clone(), start: 4096, len: 0 };
        assert_eq!(backing_of(&root.join("loop3")), Some(whole));
        let part = Backing { file, start: 4096 + (1 << 20), len: 51_200 };
        assert_eq!(backing_of(&root.join("loop3/loop3p1")), Some(part));
        assert_eq!(backing_of(&root), None);
        fs::remove_dir_all(root).unwrap();
    }
}
