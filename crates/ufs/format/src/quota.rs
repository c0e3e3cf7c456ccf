// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quota files of FreeBSD: `quota.user` and `quota.group` in the root directory, an array of records with the number of the user or group as index. Holes are records of
//! zeroes.
//!
//! ```text
//! file of 64 bits (big-endian on every machine)      file of 32 bits (byte order of the file system)
//!  0  "QUOTA64" and a NUL                             32 n  record of owner n
//!  8  version 0x20081104
//! 12  bytes of this header: 64                       record: numbers of 64 or 32 bits
//! 16  bytes of a record: 64                           0  most sectors      3  most inodes
//! 64 + 64 n  record of owner n                        1  sectors wished    4  inodes wished     6, 7  end of the grace
//!                                                     2  sectors in use    5  inodes in use
//! ```
//! Sectors have 512 bytes. Source: `sys/ufs/ufs/quota.h` and quotacheck(8) of FreeBSD.

use crate::ByteOrder;
use fsmend_base::width::low_u32;

/// Names of the files in the root directory: of users and of groups.
pub const NAMES: [&[u8]; 2] = [b"quota.user", b"quota.group"];

const MAGIC: &[u8] = b"QUOTA64\0";
const VERSION: u32 = 0x2008_1104;
const HEADER: usize = 64;
/// Which number of a record says what is in use.
const SECTORS: usize = 2;
const INODES: usize = 5;

/// What a record says of one owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InUse {
    /// Sectors of 512 bytes.
    pub sectors: u64,
    /// Inodes.
    pub inodes: u64,
}

/// How a quota file is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// With a header, and numbers of 64 bits.
    Wide,
    /// Numbers of 32 bits.
    Narrow(ByteOrder),
}

impl Layout {
    /// The layout of the file that begins with `start`, in a file system of this order.
    pub fn of(start: &[u8], order: ByteOrder) -> Layout {
        if start.starts_with(MAGIC) { Layout::Wide } else { Layout::Narrow(order) }
    }

    /// Bytes of a record.
    pub fn record_size(self) -> usize {
        8 * self.width()
    }

    /// The owner whose record stands at byte `offset`; `None` in the header and beyond the last owner.
    pub fn owner_at(self, offset: u64) -> Option<u32> {
        let size = self.record_size() as u64;
        let header = if self == Layout::Wide { HEADER as u64 } else { 0 };
        u32::try_from(offset.checked_sub(header)? / size).ok()
    }

    /// What a record says.
    pub fn read(self, record: &[u8]) -> InUse {
        InUse { sectors: self.number(record, SECTORS), inodes: self.number(record, INODES) }
    }

    /// Puts what is in use into a record. False where it does not fit.
    pub fn write(self, record: &mut [u8], used: InUse) -> bool {
        let fits = |value: u64| self == Layout::Wide || u32::try_from(value).is_ok();
        if !fits(used.sectors) || !fits(used.inodes) {
            return false;
        }
        self.put(record, SECTORS, used.sectors);
        self.put(record, INODES, used.inodes);
        true
    }

    fn width(self) -> usize {
        if self == Layout::Wide { 8 } else { 4 }
    }

    fn number(self, record: &[u8], index: usize) -> u64 {
        match self {
            Layout::Wide => ByteOrder::Big.u64(record, index * 8),
            Layout::Narrow(order) => order.u32(record, index * 4).into(),
        }
    }

    fn put(self, record: &mut [u8], index: usize, value: u64) {
        match self {
            Layout::Wide => ByteOrder::Big.put_u64(record, index * 8, value),
            Layout::Narrow(order) => order.put_u32(record, index * 4, low_u32(value)),
        }
    }
}

/// The header of a file with numbers of 64 bits.
pub fn header() -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..MAGIC.len()].copy_from_slice(MAGIC);
    ByteOrder::Big.put_u32(&mut header, 8, VERSION);
    ByteOrder::Big.put_u32(&mut header, 12, low_u32(HEADER as u64));
    ByteOrder::Big.put_u32(&mut header, 16, 64);
    header
}

/// Whether a file with the right magic begins with a header that FreeBSD takes. The rest of the header is reserved.
pub fn header_is_right(start: &[u8]) -> bool {
    start.get(..20) == header().get(..20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_and_changed_in_either_layout() {
        for (layout, size, third) in [(Layout::Wide, 64, 256), (Layout::Narrow(ByteOrder::Little), 32, 96)] {
            assert_eq!(layout.record_size(), size);
            assert_eq!(layout.owner_at(third), Some(3));
            let mut record = vec![0; size];
            let used = InUse { sectors: 1 << 20, inodes: 7 };
            assert!(layout.write(&mut record, used));
            assert_eq!(layout.read(&record), used);
        }
        assert_eq!(Layout::Wide.owner_at(0), None);
        assert_eq!(Layout::Wide.owner_at(64), Some(0));
        let mut record = [0; 32];
        let order = ByteOrder::Big;
        assert!(!Layout::Narrow(order).write(&mut record, InUse { sectors: 1 << 32, inodes: 1 }));
    }

    #[test]
    fn a_header_tells_the_layout() {
        let header = header();
        assert_eq!(Layout::of(&header, ByteOrder::Little), Layout::Wide);
        assert!(header_is_right(&header));
        let mut other = header;
        other[11] ^= 1;
        assert!(!header_is_right(&other));
        assert_eq!(Layout::of(&[0; 64], ByteOrder::Little), Layout::Narrow(ByteOrder::Little));
    }
}
