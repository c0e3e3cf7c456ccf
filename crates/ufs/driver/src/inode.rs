// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inodes: reading and writing their records, and what a new one looks like.

use fsmend_base::{GroupNo, width};
use fsmend_ufs_format::inode::{Inode as Record, InodeFlags, Stamp, mode};
use fsmend_ufs_format::order::Version;
use fsmend_ufs_format::superblock::Hashes;
use fsmend_vfs::{Attributes, DeviceNumber, Errno, FileKind, InodeNo, Permissions, Result, Time};

use crate::volume::Volume;

/// An inode in memory.
#[derive(Clone)]
pub(crate) struct Inode {
    pub number: InodeNo,
    pub raw: Record<Vec<u8>>,
}

impl Inode {
    pub fn kind(&self) -> Option<FileKind> {
        FileKind::of_mode(self.raw.mode())
    }

    pub fn is_directory(&self) -> bool {
        self.raw.file_type() == mode::DIRECTORY
    }

    pub fn permissions(&self) -> Permissions {
        Permissions { mode: self.raw.mode() & 0o7777, uid: self.raw.uid(), gid: self.raw.gid() }
    }

    pub fn set_time(&mut self, which: Stamp, time: Time) {
        self.raw.set_time(which, (time.seconds, time.nanoseconds));
    }

    /// Its contents have changed.
    pub fn touch(&mut self, now: Time) {
        self.set_time(Stamp::Modification, now);
        self.set_time(Stamp::Change, now);
    }

    fn time(&self, which: Stamp) -> Time {
        let (seconds, nanoseconds) = self.raw.time(which);
        Time { seconds, nanoseconds: nanoseconds.min(999_999_999) }
    }

    /// Adds to the sectors that it holds, or takes away.
    pub fn count_fragments(&mut self, fragment_size: u64, added: u64, removed: u64) {
        let sectors = fragment_size / fsmend_ufs_format::SECTOR;
        let with_added = self.raw.sectors().saturating_add(added * sectors);
        self.raw.set_sectors(with_added.saturating_sub(removed * sectors));
    }
}

/// The form of a device number on the disk: 32 bits as of old, what does not fit in the half above.
fn encode_device(DeviceNumber { major, minor }: DeviceNumber) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    (major & 0xffff_ff00) << 32 | (major & 0xff) << 8 | (minor & 0xff00) << 24 | minor & 0xffff_00ff
}

fn decode_device(stored: u64) -> DeviceNumber {
    DeviceNumber {
        major: width::low_u32(stored >> 32 & 0xffff_ff00 | stored >> 8 & 0xff),
        minor: width::low_u32(stored >> 24 & 0xff00 | stored & 0xffff_00ff),
    }
}

impl Volume {
    /// Fragment and offset of an inode's record.
    fn place_of(&self, number: InodeNo) -> Result<(u64, usize)> {
        let place = self.geometry.inode_place(number.0).ok_or(Errno::NotFound)?;
        let size = self.geometry.fragment_size;
        Ok((place / size, width::index(place % size)))
    }

    /// An inode, whatever it holds.
    pub fn load_any(&mut self, number: InodeNo) -> Result<Inode> {
        let (fragment, at) = self.place_of(number)?;
        if number.0 < fsmend_ufs_format::geometry::ROOT || !self.is_initialised(number.0)? {
            return Err(Errno::NotFound);
        }
        let (order, version) = (self.geometry.order, self.geometry.version);
        let bytes = self.cache.get(fragment)?;
        let record = bytes.get(at..at + version.inode_size()).ok_or(Errno::Corrupt)?;
        let raw = Record::new(record.to_vec(), order, version);
        let is_hashed = self.geometry.hashes.contains(Hashes::INODES) && raw.mode() != 0;
        if is_hashed && raw.hash() != raw.computed_hash() {
            return Err(self.cache.corrupt(|| format!("inode {number} has a wrong check hash")));
        }
        Ok(Inode { number, raw })
    }

    /// An inode in use.
    pub fn load(&mut self, number: InodeNo) -> Result<Inode> {
        let inode = self.load_any(number)?;
        if inode.raw.mode() == 0 || (inode.raw.links() == 0 && !self.is_held(number)) {
            return Err(Errno::NotFound);
        }
        if inode.kind().is_none() {
            return Err(self.cache.corrupt(|| format!("inode {number} has no known type")));
        }
        let is_too_large = inode.raw.size() > self.geometry.file_max;
        if is_too_large {
            return Err(self.cache.corrupt(|| format!("inode {number} is too large")));
        }
        Ok(inode)
    }

    /// A directory.
    pub fn load_directory(&mut self, number: InodeNo) -> Result<Inode> {
        let inode = self.load(number)?;
        if inode.is_directory() { Ok(inode) } else { Err(Errno::NotDirectory) }
    }

    /// Puts an inode into memory's version of its block.
    pub fn save(&mut self, inode: &mut Inode) -> Result<()> {
        let (fragment, at) = self.place_of(inode.number)?;
        if self.geometry.hashes.contains(Hashes::INODES) {
            inode.raw.seal();
        }
        let bytes = self.cache.change(fragment)?;
        let record = inode.raw.bytes();
        bytes.get_mut(at..at + record.len()).ok_or(Errno::Corrupt)?.copy_from_slice(record);
        Ok(())
    }

    /// A new inode with a number that was taken for it. The generation goes on from that of its last use.
    pub fn new_inode(
        &mut self,
        number: InodeNo,
        kind: FileKind,
        of: Permissions,
        now: Time,
    ) -> Result<Inode> {
        let old = self.load_any(number)?;
        if old.raw.mode() != 0 {
            return Err(self.cache.corrupt(|| format!("inode {number} is in use, but marked as free")));
        }
        self.generation = self.generation.wrapping_add(1);
        let version = self.geometry.version;
        let mut raw = Record::new(vec![0; version.inode_size()], self.geometry.order, version);
        raw.set_mode(kind.mode_bits() | of.mode & 0o7777);
        raw.set_links(1);
        raw.set_uid(of.uid);
        raw.set_gid(of.gid);
        raw.set_generation(old.raw.generation().wrapping_add(self.generation).max(1));
        let mut inode = Inode { number, raw };
        inode.set_time(Stamp::Access, now);
        inode.touch(now);
        if version == Version::Ufs2 {
            inode.set_time(Stamp::Creation, now);
        }
        Ok(inode)
    }

    /// Sets the number of a device.
    pub fn set_device(&self, inode: &mut Inode, device: DeviceNumber) -> Result<()> {
        let stored = encode_device(device);
        let no_device = u64::from(u32::MAX);
        if self.geometry.version == Version::Ufs1 && stored >= no_device {
            return Err(Errno::Invalid);
        }
        inode.raw.set_pointer(0, stored);
        Ok(())
    }

    /// The group of an inode.
    pub fn group_of_inode(&self, number: InodeNo) -> GroupNo {
        GroupNo(self.geometry.inode_group(number.0).0)
    }

    /// What the rest of the world may know of an inode.
    pub fn attributes(&self, inode: &Inode) -> Result<Attributes> {
        let raw = &inode.raw;
        let kind = inode.kind().ok_or(Errno::Corrupt)?;
        let device = match kind {
            FileKind::CharDevice | FileKind::BlockDevice => decode_device(raw.device()),
            _ => DeviceNumber::default(),
        };
        let crtime = (self.geometry.version == Version::Ufs2).then(|| inode.time(Stamp::Creation));
        Ok(Attributes {
            inode: inode.number,
            generation: raw.generation(),
            kind,
            of: inode.permissions(),
            links: raw.links().into(),
            size: raw.size(),
            blocks_512: raw.sectors(),
            device,
            atime: inode.time(Stamp::Access),
            mtime: inode.time(Stamp::Modification),
            ctime: inode.time(Stamp::Change),
            crtime,
        })
    }

    /// An error for inodes that say of themselves that they may not be changed.
    pub fn check_changeable(&self, inode: &Inode) -> Result<()> {
        let fixed =
            InodeFlags::IMMUTABLE | InodeFlags::APPEND | InodeFlags::SNAPSHOT | crate::flags::USER_FIXED;
        if inode.raw.flags().intersects(fixed) { Err(Errno::NotPermitted) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_come_back() {
        for (major, minor) in [(1, 3), (8, 17), (0, 0), (0x1234_5678, 0x9abc_def0), (255, 0xffff_00ff)] {
            let device = DeviceNumber { major, minor };
            assert_eq!(decode_device(encode_device(device)), device);
        }
        assert_eq!(encode_device(DeviceNumber { major: 1, minor: 3 }), 0x103);
    }
}
