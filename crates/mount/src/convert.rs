// SPDX-License-Identifier: MIT OR Apache-2.0
//! Between the words of FUSE and those of [`fsmend_vfs`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fsmend_base::{InodeNo, width};
use fsmend_vfs::{Attributes, DeviceNumber, FileKind, NewKind, SetTime, Time};
use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};

/// The number of an error for the kernel.
pub fn errno(error: fsmend_vfs::Errno) -> Errno {
    Errno::from_i32(error.code())
}

/// A kind of file in FUSE's words.
pub fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

/// What mknod(2) is asked for, by the type bits of `mode`. No type bits mean a regular file.
pub fn new_kind(mode: u32, rdev: u32) -> Option<NewKind<'static>> {
    let kind = match mode & 0o170_000 {
        0 => FileKind::Regular,
        bits => FileKind::of_mode(width::low_u16(bits.into()))?,
    };
    match kind {
        FileKind::Regular => Some(NewKind::Regular),
        FileKind::Fifo => Some(NewKind::Fifo),
        FileKind::Socket => Some(NewKind::Socket),
        FileKind::CharDevice => Some(NewKind::CharDevice(device_number(rdev))),
        FileKind::BlockDevice => Some(NewKind::BlockDevice(device_number(rdev))),
        FileKind::Directory | FileKind::Symlink => None,
    }
}

/// The number of a device node, from the 32 bits in which FUSE has it: twelve of the major number between the two parts of the minor one.
pub fn device_number(rdev: u32) -> DeviceNumber {
    DeviceNumber { major: (rdev >> 8) & 0xfff, minor: (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00) }
}

/// The other way round.
pub fn rdev(device: DeviceNumber) -> u32 {
    (device.minor & 0xff) | ((device.major & 0xfff) << 8) | ((device.minor & 0xf_ff00) << 12)
}

/// What FUSE wants to know about an inode, which it calls `node`.
pub fn file_attr(of: &Attributes, node: INodeNo, block_size: u32) -> FileAttr {
    FileAttr {
        ino: node,
        size: of.size,
        blocks: of.blocks_512,
        atime: system_time(of.atime),
        mtime: system_time(of.mtime),
        ctime: system_time(of.ctime),
        crtime: system_time(of.crtime.unwrap_or_default()),
        kind: file_type(of.kind),
        perm: of.of.mode,
        nlink: of.links,
        uid: of.of.uid,
        gid: of.of.gid,
        rdev: rdev(of.device),
        blksize: block_size,
        flags: 0,
    }
}

/// The answer that there is no such name, for as long as it may be believed: FUSE takes it from an inode number of 0.
pub fn no_attributes() -> FileAttr {
    let none = Attributes {
        inode: InodeNo(0),
        generation: 0,
        kind: FileKind::Regular,
        of: Default::default(),
        links: 0,
        size: 0,
        blocks_512: 0,
        device: DeviceNumber::default(),
        atime: Time::default(),
        mtime: Time::default(),
        ctime: Time::default(),
        crtime: None,
    };
    file_attr(&none, INodeNo(0), 0)
}

/// A moment as the standard library has it. What it cannot say is the beginning of 1970.
pub fn system_time(time: Time) -> SystemTime {
    let nanoseconds = Duration::from_nanos(u64::from(time.nanoseconds));
    let second = Duration::from_secs(time.seconds.unsigned_abs());
    let second =
        if time.seconds < 0 { UNIX_EPOCH.checked_sub(second) } else { UNIX_EPOCH.checked_add(second) };
    second.and_then(|second| second.checked_add(nanoseconds)).unwrap_or(UNIX_EPOCH)
}

/// A moment that fuser has read from a request. Before 1970 fuser counts nanoseconds backwards too, where the kernel means them forwards from
/// the second before: what it makes of (-5 s, 300 ms) is 5.3 s before 1970, from which both numbers can still be had.
pub fn time_of_request(time: SystemTime) -> Time {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Time {
            seconds: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: after.subsec_nanos(),
        },
        Err(error) => {
            let before = error.duration();
            let seconds = i64::try_from(before.as_secs()).map_or(i64::MIN, |seconds| -seconds);
            Time { seconds, nanoseconds: before.subsec_nanos() }
        }
    }
}

/// A time to be set.
pub fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::To(time_of_request(time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_come_back() {
        for (major, minor) in [(0, 0), (8, 1), (259, 300), (0xfff, 0xf_ffff), (1, 0x100)] {
            let device = DeviceNumber { major, minor };
            assert_eq!(device_number(rdev(device)), device);
        }
        // As makedev(3) has it in 32 bits.
        assert_eq!(rdev(DeviceNumber { major: 259, minor: 300 }), 0x11_032c);
    }

    #[test]
    fn times_before_1970_are_what_they_are() {
        let time = Time { seconds: -5, nanoseconds: 300_000_000 };
        let shown = UNIX_EPOCH.duration_since(system_time(time)).map_err(|_| ()).map(|ago| ago.as_millis());
        assert_eq!(shown, Ok(4700));
        // What fuser makes of the same two numbers in a request.
        let from_fuser = UNIX_EPOCH - Duration::new(5, 300_000_000);
        assert_eq!(time_of_request(from_fuser), time);
        assert_eq!(time_of_request(UNIX_EPOCH - Duration::from_secs(7)), Time::at(-7));
        assert_eq!(time_of_request(UNIX_EPOCH + Duration::new(7, 9)), Time { seconds: 7, nanoseconds: 9 });
    }

    #[test]
    fn every_kind_of_node_can_be_asked_for() {
        assert_eq!(new_kind(0o644, 0), Some(NewKind::Regular));
        assert_eq!(new_kind(0o010_644, 0), Some(NewKind::Fifo));
        assert_eq!(new_kind(0o140_644, 0), Some(NewKind::Socket));
        let null = DeviceNumber { major: 1, minor: 3 };
        assert_eq!(new_kind(0o020_644, rdev(null)), Some(NewKind::CharDevice(null)));
        assert_eq!(new_kind(0o060_644, rdev(null)), Some(NewKind::BlockDevice(null)));
        assert_eq!(new_kind(0o040_755, 0), None);
        assert_eq!(new_kind(0o030_755, 0), None);
    }
}
