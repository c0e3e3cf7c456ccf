// SPDX-License-Identifier: MIT OR Apache-2.0
//! hybridfs: its parsers on any bytes, and its checker, repair and driver on an image in which bytes were put over a block, with right checksums.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use fsmend_device::{Device, MemoryDevice, WritableDevice, WritableMemory};
use fsmend_engine::Progress;
use fsmend_engine::checker::Checker;
use fsmend_engine::options::{RepairOptions, RepairPolicy};
use fsmend_hybridfs_driver::mkfs::{Options, mkfs};
use fsmend_hybridfs_driver::{Hybrid, MountOptions};
use fsmend_hybridfs_format::{
    Anchor, Header, Inode, Map, Stream, Summary, Superblock, parse_attributes, parse_entries, parse_node,
    seal,
};
use fsmend_vfs::{FileSystem, Permissions, Time};

use super::driver::live_in;
use crate::driver::NOW;
use crate::within::{Manner, options};

const UUID: [u8; 16] = *b"0123456789abcdef";
const BLOCK: usize = 4096;

/// The first two bytes choose a block of an image, the third where in it the others go.
pub fn hybridfs(data: &[u8]) {
    parse_all(data);
    let Some(([low, high, at], bytes)) = data.split_first_chunk() else { return };
    let Some((mut image, blocks)) = image() else { return };
    let Some(block) = blocks.get(usize::from(u16::from_le_bytes([*low, *high])) % blocks.len().max(1)) else {
        return;
    };
    let Some(object) = image.get_mut(*block..*block + BLOCK) else { return };
    let at = usize::from(*at) * 8;
    for (place, byte) in object.iter_mut().skip(at).zip(bytes) {
        *place = *byte;
    }
    if Header::parse(object, &UUID).is_err() {
        seal(object, &UUID);
    }
    repaired(&image);
    for options in [MountOptions::read_only(Time::at(NOW)), MountOptions::new(Time::at(NOW))] {
        let device = Arc::new(WritableMemory::new("fuzz", image.clone())) as Arc<dyn WritableDevice>;
        if let Ok(mut fs) = Hybrid::mount(device, options) {
            live_in(&mut fs);
        }
    }
}

/// A repair of the image is worked out, and nothing is left to do after it.
fn repaired(image: &[u8]) {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("fuzz", image.to_vec()));
    let options = RepairOptions { check: options(Manner::default()), policy: RepairPolicy::default() };
    let checker = Checker(fsmend_hybridfs_check::Hybrid);
    if let Ok(repair) = checker.plan(&device, &options, &Progress::new(), &AtomicBool::new(false)) {
        assert!(repair.is_clean(), "one repair does not mend it");
    }
}

fn parse_all(data: &[u8]) {
    let _ = Superblock::parse(data);
    let _ = Anchor::parse(data, &UUID);
    let _ = Header::parse(data, &UUID);
    let _ = Inode::parse(data, 3, &UUID);
    let _ = Summary::parse(data, 9, &UUID);
    let _ = Summary::parse_continuation(data, (1, 2, 3), &UUID);
    let _ = Stream::parse(data, [1, 2, 3]);
    let _ = Map::parse(1, 13, data);
    let _ = parse_node(data, 7);
    let _ = parse_entries(data, None);
    let _ = parse_entries(data, Some(u32::MAX));
    let _ = parse_attributes(data);
}

/// A small file system with files in it, and where its blocks with headers are.
fn image() -> Option<(Vec<u8>, Vec<usize>)> {
    static IMAGE: OnceLock<Option<(Vec<u8>, Vec<usize>)>> = OnceLock::new();
    IMAGE.get_or_init(make).clone()
}

fn make() -> Option<(Vec<u8>, Vec<usize>)> {
    let device = Arc::new(WritableMemory::new("image", vec![0; 3 << 20]));
    let options = Options { fragment_size: 4096, block_size: 4096, ..Options::new(UUID, Time::at(NOW)) };
    mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, &options).ok()?;
    let mut fs =
        Hybrid::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, MountOptions::new(Time::at(NOW)))
            .ok()?;
    let (root, of, now) = (fs.root(), Permissions { mode: 0o755, uid: 0, gid: 0 }, Time::at(NOW));
    let folder = fs.mkdir(root, b"folder", of, now).ok()?.inode;
    for number in 0..150 {
        let file = fs.create(folder, format!("{number:0>60}").as_bytes(), of, now).ok()?.inode;
        fs.write(file, 0, &vec![number as u8; number * 20], now).ok()?;
    }
    // So many pieces that there are nodes above them.
    let file = fs.create(root, b"pieces", of, now).ok()?.inode;
    for number in 0..40 {
        fs.write(file, number * 3 * 4096, b"piece", now).ok()?;
    }
    fs.setxattr(file, b"user.value", &[7; 900], Default::default(), now).ok()?;
    fs.unmount(now).ok()?;
    let image = device.bytes();
    let blocks =
        (0..image.len()).step_by(BLOCK).filter(|at| Header::parse(&image[*at..*at + BLOCK], &UUID).is_ok());
    let blocks = blocks.collect();
    Some((image, blocks))
}
