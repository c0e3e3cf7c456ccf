// SPDX-License-Identifier: MIT OR Apache-2.0
//! A UFS that was lived in: our driver fills it with a varied tree, and the state halfway is kept, so that blocks can go back to what they were.

use std::sync::Arc;

use fsmend_device::{WritableDevice, WritableMemory};
use fsmend_ufs_driver::mkfs::{Options, mkfs};
use fsmend_ufs_driver::{MountOptions, Ufs};
use fsmend_ufs_format::{ByteOrder, Version};
use fsmend_vfs::{
    AttributeWrite, DeviceNumber, Errno, FileSystem, InodeNo, NewFile, NewKind, Permissions, RenameFlags,
    Time,
};

use super::Image;
use super::make::text;

/// When everything happens.
const NOW: Time = Time { seconds: 1_700_000_000, nanoseconds: 0 };
const OF: Permissions = Permissions { mode: 0o755, uid: 1000, gid: 100 };

/// An image, and what it was like halfway.
#[derive(Clone, Debug)]
pub struct LivedIn {
    /// What it is, for messages.
    pub name: String,
    /// The image as it is.
    pub image: Image,
    /// Its bytes halfway through the work.
    pub halfway: Vec<u8>,
}

impl LivedIn {
    /// One that our mkfs makes, of `bytes` bytes.
    pub fn made(version: Version, order: ByteOrder, sizes: (u64, u64), bytes: usize) -> LivedIn {
        let device = Arc::new(WritableMemory::new("ufs", vec![0xA5; bytes]));
        let options = Options {
            order,
            block_size: sizes.0,
            fragment_size: Some(sizes.1),
            ..Options::new(version, [7, 8], NOW)
        };
        mkfs(device.clone(), &options).unwrap_or_else(|error| panic!("{error}: {options:?}"));
        LivedIn::filled(format!("{version:?} {order:?} {sizes:?}"), device.bytes())
    }

    /// An empty file system, filled.
    pub fn filled(name: String, bytes: Vec<u8>) -> LivedIn {
        let half = |bytes: Vec<u8>, work: fn(&mut Ufs) -> Result<(), Errno>| {
            let device = Arc::new(WritableMemory::new("ufs", bytes));
            let as_device = device.clone() as Arc<dyn WritableDevice>;
            let mut ufs =
                Ufs::mount(as_device, MountOptions::new(NOW)).unwrap_or_else(|error| panic!("{error}"));
            work(&mut ufs).unwrap_or_else(|error| panic!("{name}: {error}"));
            ufs.unmount(NOW).unwrap_or_else(|error| panic!("{name}: {error}"));
            device.bytes()
        };
        let halfway = half(bytes, first_half);
        let image = Image::open(half(halfway.clone(), second_half))
            .unwrap_or_else(|| panic!("{name}: no superblock"));
        LivedIn { name, image, halfway }
    }
}

/// A file of so many bytes that repeats a text with its number.
fn file(ufs: &mut Ufs, parent: InodeNo, name: &str, len: u64) -> Result<InodeNo, Errno> {
    let inode = ufs.create(parent, name.as_bytes(), OF, NOW)?.inode;
    put(ufs, inode, 0, len)?;
    Ok(inode)
}

/// Writes a part of a file, with the text that [`text`] gives its inode.
fn put(ufs: &mut Ufs, inode: InodeNo, at: u64, len: u64) -> Result<(), Errno> {
    let text = text(inode.0);
    let bytes: Vec<u8> = text.into_iter().cycle().skip((at % 16) as usize).take(len as usize).collect();
    ufs.write(inode, at, &bytes, NOW).map(|_| ())
}

fn first_half(ufs: &mut Ufs) -> Result<(), Errno> {
    let root = ufs.root();
    for number in 0..10 {
        let directory = ufs.mkdir(root, format!("dir{number}").as_bytes(), OF, NOW)?.inode;
        for (index, len) in [0, 1, 511, 600, 4095, 4096, 5000, 12_000, 30_000].into_iter().enumerate() {
            file(ufs, directory, &format!("file{index}"), len)?;
        }
    }
    let mut below = ufs.mkdir(root, b"deep", OF, NOW)?.inode;
    for level in 0..8 {
        file(ufs, below, &format!("at-level-{level}"), 900)?;
        below = ufs.mkdir(below, format!("level{level}").as_bytes(), OF, NOW)?.inode;
    }
    // More names than direct blocks hold, if blocks are of 4 KiB.
    let many = ufs.mkdir(root, b"many", OF, NOW)?.inode;
    for number in 0..280 {
        let name = format!("{number:04}-{}", "long-name-".repeat(20));
        file(ufs, many, &name, if number % 16 == 0 { 700 } else { 0 })?;
    }
    file(ufs, root, "single", 150_000)?;
    file(ufs, root, "single-too", 170_000)?;
    let grows = file(ufs, root, "grows", 40_000)?;
    ufs.link(grows, root, b"dir-of-nothing", NOW)?;
    file(ufs, root, "goes", 200_000)?;
    Ok(())
}

fn second_half(ufs: &mut Ufs) -> Result<(), Errno> {
    let root = ufs.root();
    let find = |ufs: &mut Ufs, parent: InodeNo, name: &str| {
        ufs.lookup(parent, name.as_bytes()).map(|found| found.inode)
    };
    ufs.unlink(root, b"goes", NOW)?;
    let grows = find(ufs, root, "grows")?;
    put(ufs, grows, 40_000, 260_000)?;
    // Indirect blocks of all levels, with holes.
    let tall = ufs.create(root, b"tall", OF, NOW)?.inode;
    for at in [0, 300_000, 2_500_000, 6_000_000, 40_000_000, 900_000_000, 1_200_000_000] {
        put(ufs, tall, at, 20_000)?;
    }
    for number in 0..10 {
        let directory = find(ufs, root, &format!("dir{number}"))?;
        ufs.unlink(directory, b"file3", NOW)?;
        ufs.rename(directory, b"file4", directory, b"renamed-file", RenameFlags::Replace, NOW)?;
        file(ufs, directory, &format!("a-later-file-{number}"), 2_000 * number)?;
    }
    for number in (0..280).step_by(9) {
        let many = find(ufs, root, "many")?;
        let name = format!("{number:04}-{}", "long-name-".repeat(20));
        ufs.unlink(many, name.as_bytes(), NOW)?;
    }
    let (dir1, dir2) = (find(ufs, root, "dir1")?, find(ufs, root, "dir2")?);
    let one = find(ufs, dir1, "file6")?;
    ufs.link(one, dir2, b"hard", NOW)?;
    ufs.link(one, root, b"hard-too", NOW)?;
    ufs.symlink(root, b"short-link", b"dir1/file6", OF, NOW)?;
    ufs.symlink(root, b"long-link", "far/away/".repeat(70).as_bytes(), OF, NOW)?;
    for (name, kind) in [
        ("pipe", NewKind::Fifo),
        ("socket", NewKind::Socket),
        ("device", NewKind::CharDevice(DeviceNumber { major: 1, minor: 3 })),
    ] {
        ufs.make(dir2, name.as_bytes(), &NewFile { kind, of: OF }, NOW)?;
    }
    ufs.mkdir(root, b"lost+found", OF, NOW)?;
    for (name, len) in [("user.little", 40), ("user.more", 3_000)] {
        let inode = find(ufs, dir1, "file7")?;
        match ufs.setxattr(inode, name.as_bytes(), &vec![b'v'; len], AttributeWrite::Any, NOW) {
            // UFS1 has none.
            Ok(()) | Err(Errno::NotSupported) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
