// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that can be seen of a tree, through a driver or through the kernel: for comparing the two.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fsmend_ext_format::checksum::{NO_SEED, crc32c};
use fsmend_vfs::{Attributes, Errno, FileKind, FileSystem, InodeNo, Time, Visit};

/// Files longer than this are not read in full, only where they hold something.
const READ_MAX: u64 = 64 << 20;

/// What a path leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Type and permissions.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Names.
    pub links: u64,
    /// Length; 0 for directories.
    pub size: u64,
    /// Last written.
    pub mtime: Time,
    /// CRC of the contents or of the target of a link; the number of a device.
    pub content: u64,
    /// Attributes.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Room in units of 512 bytes.
    pub blocks: u64,
}

/// Everything by its path.
pub type Snapshot = BTreeMap<Vec<u8>, Seen>;

/// A tree as a driver shows it. Directories are read in small portions.
pub fn of_driver(fs: &mut dyn FileSystem) -> Result<Snapshot, Errno> {
    let mut all = Snapshot::new();
    let root = fs.root();
    let mut waiting = vec![(b"/".to_vec(), root)];
    while let Some((path, number)) = waiting.pop() {
        let attributes = fs.getattr(number)?;
        if attributes.kind == FileKind::Directory {
            for (name, inode) in names(fs, number, 5)? {
                if name != b"." && name != b".." {
                    let mut below = path.clone();
                    if below.len() > 1 {
                        below.push(b'/');
                    }
                    below.extend_from_slice(&name);
                    waiting.push((below, inode));
                }
            }
        }
        let seen = seen(fs, &attributes)?;
        all.insert(path, seen);
    }
    Ok(all)
}

/// The names in a directory, read in portions of `portion`.
pub fn names(
    fs: &mut dyn FileSystem,
    directory: InodeNo,
    portion: usize,
) -> Result<Vec<(Vec<u8>, InodeNo)>, Errno> {
    let mut all = Vec::new();
    let mut cookie = 0;
    loop {
        let mut taken = 0;
        fs.readdir(directory, cookie, &mut |entry| {
            if taken == portion {
                return Visit::Full;
            }
            taken += 1;
            cookie = entry.cookie;
            all.push((entry.name.to_vec(), entry.inode));
            Visit::More
        })?;
        if taken < portion {
            return Ok(all);
        }
    }
}

fn seen(fs: &mut dyn FileSystem, attributes: &Attributes) -> Result<Seen, Errno> {
    let number = attributes.inode;
    let content = match attributes.kind {
        FileKind::Regular => crc_of_file(fs, number, attributes.size)?,
        FileKind::Symlink => u64::from(crc32c(NO_SEED, &fs.readlink(number)?)),
        FileKind::CharDevice | FileKind::BlockDevice => {
            u64::from(attributes.device.major) << 32 | u64::from(attributes.device.minor)
        }
        _ => 0,
    };
    let mut values = BTreeMap::new();
    for name in fs.listxattr(number)? {
        let value = fs.getxattr(number, &name)?;
        values.insert(name, value);
    }
    let is_directory = attributes.kind == FileKind::Directory;
    Ok(Seen {
        mode: u32::from(attributes.kind.mode_bits() | attributes.of.mode),
        owner: (attributes.of.uid, attributes.of.gid),
        links: u64::from(attributes.links),
        size: if is_directory { 0 } else { attributes.size },
        mtime: attributes.mtime,
        content,
        attributes: values,
        blocks: attributes.blocks_512,
    })
}

fn crc_of_file(fs: &mut dyn FileSystem, number: InodeNo, size: u64) -> Result<u64, Errno> {
    let mut crc = NO_SEED;
    let mut buf = vec![0; 100_000];
    let mut at = 0;
    while at < size.min(READ_MAX) {
        let read = fs.read(number, at, &mut buf)?;
        if read == 0 {
            return Err(Errno::Corrupt);
        }
        crc = crc32c(crc, &buf[..read.min((size.min(READ_MAX) - at) as usize)]);
        at += read as u64;
    }
    Ok(u64::from(crc))
}

/// A tree as the kernel shows it.
pub fn of_kernel(root: &Path) -> io::Result<Snapshot> {
    let mut all = Snapshot::new();
    let mut waiting = vec![(b"/".to_vec(), root.to_owned())];
    while let Some((path, place)) = waiting.pop() {
        let meta = fs::symlink_metadata(&place)?;
        if meta.is_dir() {
            for entry in fs::read_dir(&place)? {
                let entry = entry?;
                let mut below = path.clone();
                if below.len() > 1 {
                    below.push(b'/');
                }
                below.extend_from_slice(entry.file_name().as_bytes());
                waiting.push((below, entry.path()));
            }
        }
        let content = if meta.is_file() {
            crc_of_path(&place, meta.len())?
        } else if meta.is_symlink() {
            u64::from(crc32c(NO_SEED, fs::read_link(&place)?.as_os_str().as_bytes()))
        } else if meta.rdev() != 0 {
            let device = meta.rdev();
            u64::from(rustix::fs::major(device)) << 32 | u64::from(rustix::fs::minor(device))
        } else {
            0
        };
        let seen = Seen {
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            links: meta.nlink(),
            size: if meta.is_dir() { 0 } else { meta.len() },
            mtime: Time { seconds: meta.mtime(), nanoseconds: meta.mtime_nsec() as u32 },
            content,
            attributes: attributes_of(&place)?,
            blocks: meta.blocks(),
        };
        all.insert(path, seen);
    }
    Ok(all)
}

fn crc_of_path(path: &Path, size: u64) -> io::Result<u64> {
    use std::io::Read;
    let mut file = fs::File::open(path)?.take(size.min(READ_MAX));
    let mut crc = NO_SEED;
    let mut buf = vec![0; 1 << 16];
    loop {
        match file.read(&mut buf)? {
            0 => return Ok(u64::from(crc)),
            read => crc = crc32c(crc, &buf[..read]),
        }
    }
}

fn attributes_of(path: &Path) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut list = vec![0u8; 1 << 16];
    let len = rustix::fs::llistxattr(path, &mut list[..])?;
    let mut all = BTreeMap::new();
    for name in list[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0u8; 1 << 16];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..])?;
        value.truncate(len);
        all.insert(name.to_vec(), value);
    }
    Ok(all)
}

/// The first difference between two trees, in words.
pub fn difference(one: &Snapshot, other: &Snapshot) -> Option<String> {
    for (path, seen) in one {
        match other.get(path) {
            None => return Some(format!("{} is missing", String::from_utf8_lossy(path))),
            Some(there) if there != seen => {
                return Some(format!("{}: {seen:?} and {there:?}", String::from_utf8_lossy(path)));
            }
            Some(_) => {}
        }
    }
    let more = other.keys().find(|path| !one.contains_key(*path));
    more.map(|path| format!("{} is there too", String::from_utf8_lossy(path)))
}
