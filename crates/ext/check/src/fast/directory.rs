// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast path for the blocks of one directory: structure, names, checksum, and what each entry leads to.
//!
//! Structure is proved first, into a list of [`Target`]s; nothing is counted before all of it is proved. Targets in
//! chunks that have not been scanned yet are certified later (pFSCK §5.2.2).

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_device::BatchReader;
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::scan::certification::{Certifier, DirectorySummary, Target};
use fsmend_ext_format::checksum;
use fsmend_ext_format::dirhash::NameAt;
use fsmend_ext_format::features::{Compat, Incompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::inode::special;
use fsmend_ext_format::rext3::{self, DirectoryTail};

use crate::Fs;
use crate::fast::htree::IndexedDirectory;
use crate::inode::MapRun;
use crate::reading::read_blocks;

/// Smallest record: 8 bytes of header and a name of up to 4 bytes.
const RECORD_MIN: usize = 12;
const TAIL_LEN: usize = 12;

/// The eight bytes before a name.
#[derive(Clone, Copy)]
struct Header(u64);

impl Header {
    fn inode(self) -> u32 {
        width::low_u32(self.0)
    }

    fn file_type(self) -> u8 {
        (self.0 >> 56) as u8
    }
}

/// What the fast path needs for every directory of one file system.
pub struct DirectoryFastPath<'f> {
    geometry: &'f Geometry,
    /// Compares entries with what is known of the inodes that they lead to.
    pub certifier: Certifier<'f>,
    checksums: bool,
    filetype: bool,
}

impl<'f> DirectoryFastPath<'f> {
    /// The fast path for a file system with this geometry.
    pub fn new(geometry: &'f Geometry, inodes: &'f InodeTable) -> Self {
        DirectoryFastPath {
            geometry,
            certifier: Certifier::new(inodes, geometry.features.has_incompat(Incompat::FILETYPE)),
            checksums: geometry.features.metadata_csum(),
            filetype: geometry.features.has_incompat(Incompat::FILETYPE),
        }
    }

    /// Whether `block` of `directory` (inode and generation) ends with the tail of a rext3 that belongs `at` its place: where
    /// it lies, and which block of the directory it is. Always, where blocks have no such tails.
    pub fn tail_is_right(&self, directory: (InodeNo, u32), block: &[u8], at: (u64, u64)) -> bool {
        if !self.geometry.rext3() {
            return true;
        }
        let ((inode, generation), (place, logical)) = (directory, at);
        let seed = self.geometry.checksum_seed;
        DirectoryTail::parse(block).is_some_and(|tail| {
            tail.inode == inode && tail.generation == generation && u64::from(tail.logical) == logical
        }) && rext3::directory_checksum(seed, BlockNo(place), block).is_some_and(|checked| checked.is_right())
    }

    /// Tries to prove a block of entries (no index block) of `directory` (inode and generation), `at` its place: where it
    /// lies, and which block of the directory it is. `first` says that it begins with `.` and `..`. Adds its entries to
    /// `summary`.
    pub fn summarize_block(
        &self,
        (directory, generation): (InodeNo, u32),
        block: &[u8],
        at: (u64, u64),
        first: bool,
        summary: &mut DirectorySummary,
    ) -> Option<()> {
        let mut end = block.len();
        if self.geometry.rext3() {
            let sound = self.tail_is_right((directory, generation), block, at);
            end = end.checked_sub(rext3::TAIL_SIZE).filter(|_| sound)?;
        }
        if self.checksums {
            let seed = checksum::inode_seed(self.geometry.checksum_seed, directory, generation);
            let sound = checksum::has_leaf_tail(block)
                && checksum::directory_leaf(seed, block).is_some_and(|checked| checked.is_right());
            end = end.checked_sub(TAIL_LEN).filter(|_| sound)?;
        }
        let mut at = 0;
        if first {
            at = self.summarize_dots(directory, &block[..end], summary)?;
        }
        while at < end {
            let record = &block[at..end];
            let header = Header(u64::from_le_bytes(*record.first_chunk()?));
            let len = self.record_len(header);
            let name_len = self.name_len(header);
            if len < RECORD_MIN || !len.is_multiple_of(4) || len > record.len() || name_len + 8 > len {
                return None;
            }
            if header.inode() != 0 {
                let hash = hash_name(record, name_len)?;
                summary.add_name(hash);
                summary.targets.push(self.target(header.inode(), header.file_type(), directory)?);
            } else if at + len == block.len() && name_len == 1 && record.get(8) == Some(&b'.') {
                return None;
            }
            at += len;
        }
        (at == end).then_some(())
    }

    /// Calls `visit` with the name of each used record of a block that was proved.
    pub fn visit_names<'b>(&self, block: &'b [u8], mut visit: impl FnMut(NameAt<'b>)) {
        let tail = match self.checksums {
            _ if self.geometry.rext3() => rext3::TAIL_SIZE,
            true => TAIL_LEN,
            false => 0,
        };
        let end = block.len().saturating_sub(tail);
        let mut at = 0;
        while let Some(header) = block[at..end].first_chunk() {
            let header = Header(u64::from_le_bytes(*header));
            let len = self.name_len(header);
            if header.inode() != 0
                && let Some(name) = block.get(at + 8..)
            {
                visit(NameAt::new(name, len));
            }
            at += self.record_len(header).max(RECORD_MIN);
            if at >= end {
                break;
            }
        }
    }

    /// `.` with a record of 12 bytes leading to the directory itself, then `..`. Returns where the next record begins.
    pub fn summarize_dots(
        &self,
        directory: InodeNo,
        block: &[u8],
        summary: &mut DirectorySummary,
    ) -> Option<usize> {
        let dots: &[u8; 24] = block.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes([dots[at], dots[at + 1], dots[at + 2], dots[at + 3]]);
        let kind = if self.filetype { 2 } else { 0 };
        let second: &[u8; 8] = dots[12..].first_chunk()?;
        let second_len = self.record_len(Header(u64::from_le_bytes(*second)));
        let dot = word(0) == directory.0 && dots[4..8] == [12, 0, 1, kind] && dots[8..10] == *b".\0";
        let dot_dot = second[6..8] == [2, kind] && dots[20..23] == *b"..\0";
        let parent = word(12);
        let ordinary = parent == special::ROOT
            || (parent >= self.geometry.first_inode && parent <= self.geometry.inodes_count);
        if !dot
            || !dot_dot
            || !ordinary
            || second_len < RECORD_MIN
            || !second_len.is_multiple_of(4)
            || second_len > block.len() - 12
        {
            return None;
        }
        summary.parent_entry = InodeNo(parent);
        Some(12 + second_len)
    }

    fn record_len(&self, header: Header) -> usize {
        let stored = usize::from(width::low_u16(header.0 >> 32));
        if self.geometry.block_size < 65536 {
            stored
        } else if stored == 65535 || stored == 0 {
            65536
        } else {
            (stored & 65532) | (stored & 3) << 16
        }
    }

    fn name_len(&self, header: Header) -> usize {
        let stored = (header.0 >> 48) as u16;
        usize::from(if self.filetype { stored & 0xFF } else { stored })
    }

    fn target(&self, inode: u32, file_type: u8, directory: InodeNo) -> Option<Target> {
        let ordinary =
            inode >= self.geometry.first_inode && inode <= self.geometry.inodes_count && inode != directory.0;
        let kind = if self.filetype { Kind::from_number(file_type) } else { Kind::Unused };
        let typed = !self.filetype || (1..=7).contains(&file_type);
        (ordinary && typed).then_some(Target { inode: InodeNo(inode), kind })
    }
}

/// The result of the fast path for a directory of several blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargeDirectorySummary {
    /// Whether it is clean.
    pub clean: bool,
    /// Blocks looked at.
    pub blocks: u64,
    /// Read requests.
    pub requests: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// Tries to prove a directory of several blocks (`runs`, in the order of the file, without holes). Indexed directories
/// are proved by their index; see `htree.rs`.
pub fn summarize_large(
    fast_path: &DirectoryFastPath<'_>,
    fs: &Fs<'_>,
    reader: &mut BatchReader<'_>,
    (inode, generation, indexed): (InodeNo, u32, bool),
    runs: &[MapRun],
    summary: &mut DirectorySummary,
) -> LargeDirectorySummary {
    if indexed && !fs.geometry.features.has_compat(Compat::DIR_INDEX) {
        // An index that the file system does not have: not for the fast path.
        return LargeDirectorySummary { clean: false, blocks: 0, requests: 0, bytes: 0 };
    }
    if indexed {
        return IndexedDirectory { fast_path, fs, inode, generation, runs }.summarize(reader, summary);
    }
    let mut blocks: Vec<(u64, u64)> = runs
        .iter()
        .flat_map(|run| (0..u64::from(run.count)).map(|at| (run.physical + at, run.logical + at)))
        .collect();
    blocks.sort_unstable();
    let places: Vec<u64> = blocks.iter().map(|(block, _)| *block).collect();
    let mut clean = true;
    let reading = read_blocks(reader, fs, &places, &mut |index, result| {
        clean = clean
            && result.is_ok_and(|block| {
                let (place, logical) = blocks[index];
                fast_path
                    .summarize_block((inode, generation), block, (place, logical), logical == 0, summary)
                    .is_some()
            });
    });
    clean = clean && summary.names_are_unique();
    LargeDirectorySummary {
        clean,
        blocks: blocks.len() as u64,
        requests: reading.requests,
        bytes: reading.bytes,
    }
}

/// Names of up to so many bytes are hashed in one go, which most are.
const SHORT_NAME: usize = 16;
/// For each length of a short name, which bytes of its two words belong to it.
const OF_NAME: [[u64; 2]; SHORT_NAME + 1] = bytes_of_names();

const fn bytes_of_names() -> [[u64; 2]; SHORT_NAME + 1] {
    let (mut all, mut len) = ([[0; 2]; SHORT_NAME + 1], 1);
    while len <= SHORT_NAME {
        let upto = u128::MAX >> (128 - 8 * len);
        all[len] = [width::low_u64(upto), (upto >> 64) as u64];
        len += 1;
    }
    all
}

/// A hash of the first `len` bytes behind the record's header, never 0; `None` for an empty name, a name of more than
/// 255 bytes and names with a slash or a zero byte, and for `.` and `..`.
#[inline]
fn hash_name(record: &[u8], len: usize) -> Option<u64> {
    if len > SHORT_NAME {
        return hash_long_name(record, len);
    }
    let words = match record.get(8..8 + SHORT_NAME) {
        Some(words) => *words.first_chunk()?,
        // The last record of a block.
        None => {
            let mut words = [0; SHORT_NAME];
            words[..len].copy_from_slice(record.get(8..8 + len)?);
            words
        }
    };
    let [low, high] = OF_NAME[len];
    let whole = u128::from_le_bytes(words);
    // What does not belong to the name is neither a zero nor a slash.
    let (first, second) =
        (width::low_u64(whole) & low | FILL & !low, (whole >> 64) as u64 & high | FILL & !high);
    let bad =
        zero_bytes(first) | zero_bytes(second) | zero_bytes(first ^ SLASHES) | zero_bytes(second ^ SLASHES);
    let dots = (first == DOT && len == 1) || (first == DOT_DOT && len == 2);
    (bad == 0 && len > 0 && !dots).then(|| mix(mix(first ^ len as u64) ^ second).max(1))
}

const FILL: u64 = u64::from_le_bytes([b'_'; 8]);
const SLASHES: u64 = u64::from_le_bytes([b'/'; 8]);
const DOT: u64 = u64::from_le_bytes(*b".\0______") | (b'_' as u64) << 8;
const DOT_DOT: u64 = u64::from_le_bytes(*b"..______");

/// Not 0 if a byte of `word` is.
fn zero_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    word.wrapping_sub(ONES) & !word & HIGH
}

fn hash_long_name(record: &[u8], len: usize) -> Option<u64> {
    let name = record.get(8..8 + len).filter(|name| name.len() <= 255)?;
    let mut hash = len as u64;
    let (words, rest) = name.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        if zero_bytes(word) | zero_bytes(word ^ SLASHES) != 0 {
            return None;
        }
        hash = mix(hash ^ word);
    }
    if !rest.is_empty() {
        // The eight bytes up to the end of the name: to copy the rest into a word of its own makes the processor wait for single bytes
        // on their way to memory, and cost half of the time of the fast path.
        let upto = u64::from_le_bytes(*record.get(len..)?.first_chunk()?);
        let bits = 8 * width::len_u32(rest.len());
        let word = upto >> (64 - bits) | FILL << bits;
        if zero_bytes(word) | zero_bytes(word ^ SLASHES) != 0 {
            return None;
        }
        hash = mix(hash ^ word);
    }
    Some(hash.max(1))
}

fn mix(word: u64) -> u64 {
    let product = u128::from(word ^ 0x9E37_79B9_7F4A_7C15) * u128::from(0xD6E8_FEB8_6659_FD93u64);
    (product >> 64) as u64 ^ width::low_u64(product)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn record(name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(name);
        bytes.resize(300, 0);
        bytes
    }

    #[test]
    fn names_that_no_directory_may_hold_are_not_hashed() {
        for name in [&b"."[..], b"..", b"a/b", b"0123456/", b"01234567/", b"a\0b", b"01234567\0", b""] {
            assert_eq!(hash_name(&record(name), name.len()), None, "{name:?}");
        }
        assert_eq!(hash_name(&record(&[b'x'; 256]), 256), None);
        for name in [&b"..."[..], b".a", b"0123456", b"01234567", b"012345678", &[0xFF; 255]] {
            assert!(hash_name(&record(name), name.len()).is_some(), "{name:?}");
        }
        assert_ne!(hash_name(&record(b"a_"), 1), hash_name(&record(b"a_"), 2), "the length counts");
    }

    #[test]
    fn every_byte_of_a_name_counts_and_none_beside_it() {
        for len in 1..=20 {
            let mut bytes = record(&b"abcdefghijklmnopqrst"[..len]);
            let hash = hash_name(&bytes, len);
            bytes[..8].copy_from_slice(b"/\0header");
            bytes[8 + len..].fill(b'/');
            assert_eq!(hash_name(&bytes, len), hash, "{len}");
            for at in 8..8 + len {
                bytes[at] ^= 1;
                assert_ne!(hash_name(&bytes, len), hash, "{len}: {at}");
                bytes[at] ^= 1;
            }
        }
    }

    #[test]
    fn a_name_at_the_end_of_a_block_is_hashed_like_any_other() {
        for len in 1..=40 {
            let bytes = record(&b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST"[..len]);
            let hash = hash_name(&bytes, len);
            assert!(hash.is_some());
            for end in 8 + len..8 + len + 20 {
                assert_eq!(hash_name(&bytes[..end], len), hash, "{len} bytes, {end} in all");
            }
            assert_eq!(hash_name(&bytes[..8 + len - 1], len), None, "{len}: a part of the name is missing");
        }
    }

    #[test]
    fn duplicates_are_noticed() {
        let mut summary = DirectorySummary::default();
        (1..1000u64).map(mix).for_each(|hash| summary.add_name(hash));
        assert!(summary.names_are_unique());
        summary.add_name(mix(77));
        assert!(!summary.names_are_unique());
    }
}
