// SPDX-License-Identifier: MIT OR Apache-2.0
//! UFS: all parsers of the format over any bytes, and the driver on images of any kind.

use std::sync::{Arc, OnceLock};

use fsmend_device::{WritableDevice, WritableMemory};
use fsmend_ufs_driver::mkfs::{Options, mkfs};
use fsmend_ufs_driver::{MountOptions, Ufs};
use fsmend_ufs_format::attributes::Attributes;
use fsmend_ufs_format::directory::{self, Entries};
use fsmend_ufs_format::group::{CylinderGroup, FragmentSums};
use fsmend_ufs_format::inode::{Inode, Path, Stamp};
use fsmend_ufs_format::superblock::{Recovery, Superblock};
use fsmend_ufs_format::{ByteOrder, Geometry, Version};
use fsmend_vfs::{AttributeWrite, FileSystem, Permissions, Time};

use super::driver::live_in;
use super::put_changes;
use crate::driver::NOW;

/// Byte order and version by the low bits of `choice`.
fn shape(choice: u8) -> (ByteOrder, Version) {
    (
        if choice & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big },
        if choice & 2 == 0 { Version::Ufs2 } else { Version::Ufs1 },
    )
}

/// Everything that the format reads, over any bytes.
pub fn ufs_parsers(data: &[u8]) {
    let Some((head, data)) = data.split_first() else { return };
    let (order, version) = shape(*head);
    for (magic_order, bytes) in [(order, data.to_vec()), (order, with_magic(data, order, version))] {
        if let Some(mut superblock) = Superblock::parse(&bytes) {
            superblock.modernise();
            let _ = (superblock.hash_is_right(), superblock.label(), superblock.snapshots().count());
            if let Ok((geometry, _)) = Geometry::of(&superblock) {
                assert!(geometry.fragments > 0 && geometry.groups > 0);
                let _ = (geometry.reserved(geometry.groups - 1), geometry.may_be_data(data.len() as u64, 1));
            }
        }
        let _ = Recovery::parse(&bytes).map(|(_, record)| record.copy(u32::from(*head)));
        assert_eq!(magic_order, order);
    }
    let inode = Inode::new(data, order, version);
    let _ = (inode.computed_hash(), inode.time(Stamp::Creation), inode.short_link().len(), inode.pointer(14));
    let _ = Path::to(inode.size(), 512);
    for chunk in data.chunks(directory::CHUNK) {
        let mut copy = chunk.to_vec();
        let end = Entries::new(chunk, order).flatten().map(|entry| entry.offset + entry.length).max();
        assert!(end.unwrap_or(0) <= chunk.len());
        let first = Entries::new(chunk, order).flatten().next().map(|entry| entry.offset);
        directory::add(&mut copy, order, (7, 8), b"name");
        directory::remove(&mut copy, order, first.unwrap_or(12));
    }
    let values: usize = Attributes::new(data, order).flatten().map(|one| one.value.len()).sum();
    assert!(values <= data.len());
    let base = image(*head);
    if let Some(geometry) = base.and_then(geometry) {
        let mut bytes = data.to_vec();
        bytes.resize(usize::try_from(geometry.group_bytes).unwrap_or(0), 0);
        let group = CylinderGroup::new(bytes, order);
        let _ = (group.flaw(&geometry, 0), group.computed_hash(), group.initialised(&geometry));
        let length = geometry.group_length(0);
        FragmentSums::of(group.fragment_map(&geometry.layout), (length, geometry.fragments), 16, &mut []);
    }
}

/// `data` as a superblock with a magic, over one of ours.
fn with_magic(data: &[u8], order: ByteOrder, version: Version) -> Vec<u8> {
    let mut superblock = Superblock::new(order, version);
    let choice = u8::from(order == ByteOrder::Big) | u8::from(version == Version::Ufs1) << 1;
    if let Some(own) = image(choice).and_then(own_superblock) {
        superblock = own;
    }
    put_changes(superblock.bytes().to_vec(), data)
}

fn own_superblock(image: &[u8]) -> Option<Superblock> {
    [65536, 8192].into_iter().find_map(|place| Superblock::parse(image.get(place..)?))
}

fn geometry(image: &[u8]) -> Option<Geometry> {
    Geometry::of(&own_superblock(image)?).ok().map(|(geometry, _)| geometry)
}

/// The first byte says which of our images is changed, the rest how.
pub fn ufs_image(data: &[u8]) {
    let Some((head, rest)) = data.split_first() else { return };
    let Some(image) = image(*head) else { return };
    let image = put_changes(image.to_vec(), rest);
    for read_only in [true, false] {
        let device = Arc::new(WritableMemory::new("fuzz", image.clone())) as Arc<dyn WritableDevice>;
        let options = MountOptions { read_only, ..MountOptions::new(Time::at(NOW)) };
        if let Ok(mut fs) = Ufs::mount(device, options) {
            live_in(&mut fs);
        }
    }
}

/// A small file system without check hashes, with files in it.
fn image(choice: u8) -> Option<&'static [u8]> {
    static IMAGES: [OnceLock<Option<Vec<u8>>>; 4] = [const { OnceLock::new() }; 4];
    let place = IMAGES.get(usize::from(choice & 3))?;
    place.get_or_init(|| make(choice)).as_deref()
}

fn make(choice: u8) -> Option<Vec<u8>> {
    let (order, version) = shape(choice);
    let device = Arc::new(WritableMemory::new("fuzz", vec![0; 2 << 20]));
    let options = Options {
        order,
        block_size: 4096,
        fragment_size: Some(512),
        inode_ratio: Some(8192),
        hashes: false,
        ..Options::new(version, [1, 2], Time::at(NOW))
    };
    mkfs(device.clone(), &options).ok()?;
    let mut fs = Ufs::mount(device.clone(), MountOptions::new(Time::at(NOW))).ok()?;
    let (root, now) = (fs.root(), Time::at(NOW));
    let folder = fs.mkdir(root, b"folder", Permissions::default(), now).ok()?.inode;
    for number in 0..40 {
        let name = format!("{number:0>40}");
        let file = fs.create(folder, name.as_bytes(), Permissions::default(), now).ok()?.inode;
        fs.write(file, number * 5000, &[7; 1500], now).ok()?;
        if version == Version::Ufs2 {
            fs.setxattr(file, b"user.a", &[1; 150], AttributeWrite::Any, now).ok()?;
        }
    }
    fs.unmount(now).ok()?;
    Some(device.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_images_are_there_and_hold_files() {
        for choice in 0..4 {
            let image = image(choice).expect("it can be made").to_vec();
            let device = Arc::new(WritableMemory::new("fuzz", image));
            let mut fs = Ufs::mount(device, MountOptions::read_only(Time::at(NOW))).expect("it is sound");
            let folder = fs.lookup(fs.root(), b"folder").expect("it was made").inode;
            assert!(fs.lookup(folder, format!("{:0>40}", 39).as_bytes()).is_ok());
        }
    }
}
