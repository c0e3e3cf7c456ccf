// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver on images of any kind: it may refuse and fail, but neither panic nor hang.

use std::sync::{Arc, OnceLock};

use fsmend_device::{WritableDevice, WritableMemory};
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_ext_format::checksum::seal_superblock;
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use fsmend_vfs::{
    AttributeWrite, FileKind, FileSystem, InodeNo, NewFile, NewKind, Permissions, RenameFlags, SetAttributes,
    Time, Visit,
};
use zerocopy::{FromBytes, IntoBytes};

use super::{base, put_changes};
use crate::driver::{BASES, Base, NOW};

/// Inodes that are looked at.
const INODES_MAX: usize = 60;
/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 100;

/// The first byte says which image: one of ours without checksums, an ext3 or a rext3, changed like that of `check_image`; or the base image with bytes
/// over one of its structures and checksums made right.
pub fn driver_image(data: &[u8]) {
    let Some((head, rest)) = data.split_first() else { return };
    let image = match head & 3 {
        0 => ours(false).map(|image| put_changes(image, rest)),
        2 => ours(true).map(|image| put_changes(image, rest)),
        _ => over_any(rest),
    };
    let Some(image) = image else { return };
    for read_only in [true, false] {
        let device = Arc::new(WritableMemory::new("fuzz", image.clone())) as Arc<dyn WritableDevice>;
        let options = MountOptions { read_only, ..MountOptions::new(Time::at(NOW)) };
        if let Ok(mut fs) = Ext::mount(device, options) {
            live_in(&mut fs);
        }
    }
}

/// A small file system without checksums, with files in it.
fn ours(rext3: bool) -> Option<Vec<u8>> {
    static OURS: [OnceLock<Option<Vec<u8>>>; 2] = [const { OnceLock::new() }; 2];
    // So many blocks that each of the files can have indirect ones.
    let rext3_base = Base { indirect_region: Some(300), ..BASES[6] };
    let base = if rext3 { rext3_base } else { BASES[2] };
    OURS[usize::from(rext3)].get_or_init(|| make_ours(&base)).clone()
}

fn make_ours(base: &Base) -> Option<Vec<u8>> {
    let base = Base { bytes: 3 << 20, ..*base };
    let device = base.make().ok()?;
    let options = MountOptions::new(Time::at(NOW));
    let mut fs = Ext::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, options).ok()?;
    let (root, now) = (fs.root(), Time::at(NOW));
    let folder = fs.mkdir(root, b"folder", Permissions::default(), now).ok()?.inode;
    for number in 0..80 {
        let name = format!("{number:0>40}");
        let file = fs.create(folder, name.as_bytes(), Permissions::default(), now).ok()?.inode;
        fs.write(file, number * 9000, &[7; 3000], now).ok()?;
        fs.setxattr(file, b"user.a", &[1; 150], AttributeWrite::Any, now).ok()?;
    }
    fs.unmount(now).ok()?;
    Some(device.bytes())
}

fn over_any(data: &[u8]) -> Option<Vec<u8>> {
    let (base, (head, data)) = (base()?, data.split_first_chunk::<4>()?);
    let choice = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let structure = base.structures.get(choice % base.structures.len().max(1))?;
    let mut record = base.bytes(structure).to_vec();
    let at = (structure.at + usize::from(head[2])).min(record.len());
    let len = data.len().min(record.len() - at);
    record[at..at + len].copy_from_slice(&data[..len]);
    let mut image = base.image.clone();
    for patch in structure.patches(base, record, true) {
        let at = patch.offset as usize;
        image[at..at + patch.new.len()].copy_from_slice(&patch.new);
    }
    // Quota would keep the driver from writing.
    let place = image.get_mut(SUPERBLOCK_OFFSET as usize..SUPERBLOCK_OFFSET as usize + SUPERBLOCK_SIZE)?;
    let mut raw = RawSuperblock::read_from_bytes(place).ok()?;
    raw.s_feature_ro_compat.set(raw.s_feature_ro_compat.get() & !RoCompat::QUOTA.bits());
    seal_superblock(&mut raw);
    place.copy_from_slice(raw.as_bytes());
    Some(image)
}

/// Uses what is there in every way; errors are fine.
pub(super) fn live_in(fs: &mut dyn FileSystem) {
    let now = Time::at(NOW + 1);
    let mut waiting = vec![fs.root()];
    let mut places: Vec<(InodeNo, Vec<u8>, InodeNo)> = Vec::new();
    let mut seen = 0;
    while let Some(inode) = waiting.pop().filter(|_| seen < INODES_MAX) {
        seen += 1;
        look_at(fs, inode);
        let mut count = 0;
        let _ = fs.readdir(inode, 0, &mut |entry| {
            count += 1;
            if entry.name != b"." && entry.name != b".." {
                waiting.push(entry.inode);
                places.push((inode, entry.name.to_vec(), entry.inode));
            }
            if count < ENTRIES_MAX { Visit::More } else { Visit::Full }
        });
    }
    for (number, (parent, name, inode)) in places.iter().take(INODES_MAX).enumerate() {
        let _ = fs.lookup(*parent, name);
        let _ = match number % 7 {
            0 => fs.unlink(*parent, name, now),
            1 => fs.rename(*parent, name, fs.root(), b"moved", RenameFlags::Replace, now),
            2 => fs.write(*inode, 5000, &[1; 9000], now).map(|_| ()),
            3 => {
                let changes = SetAttributes { size: Some(100), ..SetAttributes::default() };
                fs.setattr(*inode, &changes, now).map(|_| ())
            }
            4 => fs.setxattr(*inode, b"user.b", &[2; 300], AttributeWrite::Any, now),
            5 => fs.link(*inode, *parent, &[b'l'; 200], now).map(|_| ()),
            _ => fs.rmdir(*parent, name, now),
        };
        let kind = if number % 2 == 0 { NewKind::Directory } else { NewKind::Symlink(&[b't'; 90]) };
        let file = NewFile { kind, of: Permissions::default() };
        let _ = fs.make(*parent, format!("new-{number}").as_bytes(), &file, now);
    }
    let _ = fs.statfs();
    let _ = fs.sync(now);
    let _ = fs.unmount(now);
}

fn look_at(fs: &mut dyn FileSystem, inode: InodeNo) {
    let Ok(attributes) = fs.getattr(inode) else { return };
    if attributes.kind == FileKind::Regular {
        let mut buf = vec![0; 5000];
        for at in [0, 20_000, attributes.size / 2, attributes.size.saturating_sub(4000)] {
            let _ = fs.read(inode, at, &mut buf);
        }
        let _ = fs.extents(inode, 0, 50);
    }
    let _ = fs.readlink(inode);
    for name in fs.listxattr(inode).unwrap_or_default().iter().take(20) {
        let _ = fs.getxattr(inode, name);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn all_kinds_of_image_can_be_lived_in() {
        let mount = |image: Vec<u8>| {
            let device = Arc::new(WritableMemory::new("fuzz", image)) as Arc<dyn WritableDevice>;
            Ext::mount(device, MountOptions::new(Time::at(NOW))).unwrap()
        };
        for rext3 in [false, true] {
            let mut fs = mount(ours(rext3).unwrap());
            assert!(fs.lookup(fs.root(), b"folder").is_ok());
            live_in(&mut fs);
        }
        if base().is_some() {
            // Nothing is put over the structure that is chosen.
            let mut fs = mount(over_any(&[0; 4]).unwrap());
            assert!(fs.lookup(fs.root(), b"small").is_ok());
        }
    }
}
