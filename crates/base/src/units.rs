// SPDX-License-Identifier: MIT OR Apache-2.0
//! Newtypes for the numbers that a file system is made of, so that a block number is never taken for an
//! inode number.

use std::fmt;

/// A block number on the device, counted in file-system blocks from the start of the file system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BlockNo(pub u64);

/// An inode number; 0 means "none" in every format we know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct InodeNo(pub u32);

/// A block group or cylinder group number, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct GroupNo(pub u32);

/// A length in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ByteLen(pub u64);

/// A run of consecutive blocks: `start`, `start + 1`, ... `start + count - 1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockRange {
    /// First block of the run.
    pub start: BlockNo,
    /// Number of blocks; a run of zero blocks contains nothing.
    pub count: u64,
}

impl BlockRange {
    /// The run of `count` blocks from `start`.
    pub fn new(start: u64, count: u64) -> Self {
        BlockRange { start: BlockNo(start), count }
    }

    /// The block after the last one, saturating at the end of the number space.
    pub fn end(self) -> u64 {
        self.start.0.saturating_add(self.count)
    }

    /// Whether `block` lies in the run.
    pub fn contains(self, block: BlockNo) -> bool {
        block.0 >= self.start.0 && block.0 < self.end()
    }
}

impl fmt::Display for BlockNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for InodeNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for GroupNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for ByteLen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let (mut value, mut unit) = (self.0 as f64, 0);
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        if unit == 0 { write!(f, "{} B", self.0) } else { write!(f, "{value:.1} {}", UNITS[unit]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_lengths_read_like_words() {
        assert_eq!(ByteLen(17).to_string(), "17 B");
        assert_eq!(ByteLen(1536).to_string(), "1.5 KiB");
        assert_eq!(ByteLen(5 << 40).to_string(), "5.0 TiB");
    }

    #[test]
    fn a_range_at_the_end_of_the_number_space_does_not_wrap() {
        let range = BlockRange::new(u64::MAX - 1, 10);
        assert_eq!(range.end(), u64::MAX);
        assert!(!range.contains(BlockNo(0)));
    }
}
