// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of inodes in ascending order, read many at a time.

use fsmend_base::{InodeNo, width};

use crate::Fs;

/// Bytes of an inode table that are read at once.
const READ_BYTES: u64 = 256 << 10;

/// The part of an inode table that was read last.
#[derive(Default)]
pub struct Records {
    start: u64,
    bytes: Vec<u8>,
    /// Up to here records are read one by one, because all of them together could not be read.
    lone_until: u64,
    /// Nothing from here on is wanted.
    until: u64,
}

impl Records {
    /// Says which inode of its group is the last one that will be asked for.
    pub fn expect(&mut self, fs: &Fs<'_>, last: InodeNo) {
        self.until = fs.inode_offset(last).map_or(0, |offset| offset + u64::from(fs.geometry.inode_size));
    }

    /// The record of `inode`; `None` where there is none, or it cannot be read.
    pub fn record(&mut self, fs: &Fs<'_>, inode: InodeNo) -> Option<&[u8]> {
        let offset = fs.inode_offset(inode)?;
        let size = u64::from(fs.geometry.inode_size);
        let is_here = self.start <= offset && offset + size <= self.start + self.bytes.len() as u64;
        if !is_here {
            let (_, index) = fs.geometry.inode_place(inode)?;
            let rest = u64::from(fs.geometry.inodes_per_group.saturating_sub(index)) * size;
            let len = rest.min(READ_BYTES).min(self.until.saturating_sub(offset)).max(size);
            let is_lone = offset < self.lone_until;
            if is_lone || !self.fill(fs, offset, len) {
                self.lone_until = self.lone_until.max(if is_lone { 0 } else { offset + len });
                self.fill(fs, offset, size);
            }
        }
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(at..at + width::index(size))
    }

    fn fill(&mut self, fs: &Fs<'_>, offset: u64, len: u64) -> bool {
        self.start = offset;
        self.bytes.resize(width::index(len), 0);
        let is_read = fs.device.read_at(offset, &mut self.bytes).is_ok();
        if !is_read {
            self.bytes.clear();
        }
        is_read
    }
}
