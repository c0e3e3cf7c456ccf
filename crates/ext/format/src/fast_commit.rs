// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fast commits: little-endian tag-length-value records in the last blocks of the journal, each set closed by a
//! tail that carries the transaction and a CRC32C.
//!
//! ```text
//! 0 fc_tag(16)  2 fc_len(16)  4 value (fc_len bytes)  | next record ...
//! ```
//! Source: "ext4 Data Structures and Algorithms", journal, fast commits.

/// Bytes before the value of a record.
pub const RECORD_HEADER: usize = 4;

/// `fc_tag`; unknown numbers stay as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastCommitTag(pub u16);

impl FastCommitTag {
    /// A run of blocks becomes part of a file.
    pub const ADD_RANGE: Self = Self(1);
    /// A run of a file becomes a hole.
    pub const DEL_RANGE: Self = Self(2);
    /// A new file gets its first name.
    pub const CREAT: Self = Self(3);
    /// A file gets one more name.
    pub const LINK: Self = Self(4);
    /// A name goes.
    pub const UNLINK: Self = Self(5);
    /// The record of an inode.
    pub const INODE: Self = Self(6);
    /// Fills the rest of a block.
    pub const PAD: Self = Self(7);
    /// Ends a fast commit.
    pub const TAIL: Self = Self(8);
    /// Begins the fast commits of one transaction.
    pub const HEAD: Self = Self(9);
}

/// One record as it lies in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'b> {
    /// What it is.
    pub tag: FastCommitTag,
    /// Its value.
    pub value: &'b [u8],
    /// Header and value, as the checksum covers them.
    pub bytes: &'b [u8],
}

/// The records of one block, up to the first that reaches beyond it.
pub fn records(block: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let mut rest = block;
    std::iter::from_fn(move || {
        let header = rest.get(..RECORD_HEADER)?;
        let tag = FastCommitTag(u16::from_le_bytes([header[0], header[1]]));
        let len = usize::from(u16::from_le_bytes([header[2], header[3]]));
        // The value of a tail counts the unused rest of its block, which may be cut short.
        let end = RECORD_HEADER
            + if tag == FastCommitTag::TAIL { len.min(rest.len() - RECORD_HEADER) } else { len };
        let bytes = rest.get(..end)?;
        rest = &rest[end..];
        Some(Record { tag, value: &bytes[RECORD_HEADER..], bytes })
    })
}

/// A change that a fast commit makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// `count` blocks of `inode` from `logical` lie at `physical`.
    AddRange {
        /// The file.
        inode: u32,
        /// First block within the file.
        logical: u32,
        /// Where it lies.
        physical: u64,
        /// Number of blocks.
        count: u16,
        /// Allocated, but never written.
        unwritten: bool,
    },
    /// `count` blocks of `inode` from `logical` become a hole.
    DelRange {
        /// The file.
        inode: u32,
        /// First block within the file.
        logical: u32,
        /// Number of blocks.
        count: u32,
    },
    /// `name` in directory `parent` leads to `inode` (a new file or a further name).
    Link {
        /// The directory.
        parent: u32,
        /// The file.
        inode: u32,
        /// Its name.
        name: Vec<u8>,
    },
    /// `name` goes from directory `parent`.
    Unlink {
        /// The directory.
        parent: u32,
        /// The file.
        inode: u32,
        /// Its name.
        name: Vec<u8>,
    },
    /// The record of `inode`, as far as it was logged.
    Inode {
        /// The inode.
        inode: u32,
        /// Its record.
        record: Vec<u8>,
    },
}

/// Longest run that an extent can hold; longer lengths mark unwritten runs.
const EXTENT_LEN_MAX: u16 = 0x8000;

impl Record<'_> {
    /// What the record changes; `None` for records that change nothing and for such as are too short.
    pub fn change(&self) -> Option<Change> {
        let word = |at: usize| le32(self.value, at);
        match self.tag {
            FastCommitTag::ADD_RANGE => self.add_range(),
            FastCommitTag::DEL_RANGE => {
                Some(Change::DelRange { inode: word(0)?, logical: word(4)?, count: word(8)? })
            }
            FastCommitTag::CREAT | FastCommitTag::LINK => {
                Some(Change::Link { parent: word(0)?, inode: word(4)?, name: self.value.get(8..)?.to_vec() })
            }
            FastCommitTag::UNLINK => Some(Change::Unlink {
                parent: word(0)?,
                inode: word(4)?,
                name: self.value.get(8..)?.to_vec(),
            }),
            FastCommitTag::INODE => {
                Some(Change::Inode { inode: word(0)?, record: self.value.get(4..)?.to_vec() })
            }
            _ => None,
        }
    }

    fn add_range(&self) -> Option<Change> {
        let word = |at: usize| le32(self.value, at);
        let (length, high) = (fsmend_base::width::low_u16(word(8)?.into()), word(8)? >> 16);
        let unwritten = length > EXTENT_LEN_MAX;
        Some(Change::AddRange {
            inode: word(0)?,
            logical: word(4)?,
            physical: u64::from(high) << 32 | u64::from(word(12)?),
            count: if unwritten { length - EXTENT_LEN_MAX } else { length },
            unwritten,
        })
    }

    /// Transaction of a tail or head, and the other word: a tail's checksum, a head's features.
    pub fn transaction(&self) -> Option<(u32, u32)> {
        match self.tag {
            FastCommitTag::TAIL => Some((le32(self.value, 0)?, le32(self.value, 4)?)),
            FastCommitTag::HEAD => Some((le32(self.value, 4)?, le32(self.value, 0)?)),
            _ => None,
        }
    }

    /// What of the record the checksum of its fast commit covers: all of it, but of a tail only what stands before
    /// the checksum.
    pub fn covered(&self) -> &[u8] {
        let covered = if self.tag == FastCommitTag::TAIL { RECORD_HEADER + 4 } else { self.bytes.len() };
        self.bytes.get(..covered).unwrap_or(self.bytes)
    }
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|part| u32::from_le_bytes([part[0], part[1], part[2], part[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_follow_one_another_until_one_does_not_fit() {
        let mut block = vec![9, 0, 8, 0, 0, 0, 0, 0, 6, 0, 0, 0];
        block.extend([5, 0, 9, 0, 12, 0, 0, 0, 13, 0, 0, 0, b'x']);
        block.extend([6, 0, 200, 0]);
        let all: Vec<_> = records(&block).collect();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].transaction(), Some((6, 0)));
        assert_eq!(all[1].change(), Some(Change::Unlink { parent: 12, inode: 13, name: b"x".to_vec() }));
    }

    #[test]
    fn long_lengths_mark_unwritten_runs() {
        let block = [1, 0, 16, 0, 14, 0, 0, 0, 3, 0, 0, 0, 0x02, 0x80, 1, 0, 9, 0, 0, 0];
        let change = records(&block).next().and_then(|record| record.change());
        let expected =
            Change::AddRange { inode: 14, logical: 3, physical: 1 << 32 | 9, count: 2, unwritten: true };
        assert_eq!(change, Some(expected));
    }

    #[test]
    fn a_tail_is_covered_up_to_its_checksum() {
        let block = [8, 0, 100, 0, 6, 0, 0, 0, 0xAA, 0xBB, 0xCC, 0xDD];
        let tail = records(&block).next();
        assert_eq!(tail.map(|tail| tail.covered().len()), Some(8));
        assert_eq!(tail.and_then(|tail| tail.transaction()), Some((6, 0xDDCC_BBAA)));
    }
}
