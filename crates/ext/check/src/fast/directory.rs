//! The proof for the blocks of one directory: structure, names, checksum, and what each entry leads to.
//!
//! Structure is proved first, into a list of [`Target`]s; nothing is counted before all of it is proved. Targets in
//! chunks that have not been scanned yet are certified later (pFSCK §5.2.2).

use fsmend_base::{BlockNo, InodeNo};
use fsmend_device::BatchReader;
use fsmend_engine::inodes::{InodeTable, Kind, Place, mark};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{compat, incompat};
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

/// What one entry leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The inode.
    pub inode: InodeNo,
    /// The kind that the entry says it is; `Unused` where entries carry no type.
    pub kind: Kind,
}

/// How the inode facts bear an entry out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Certainty {
    /// They do.
    Right,
    /// They contradict it, or it takes inspection to tell.
    Suspect,
    /// They are not there yet.
    Later,
}

/// What has been gathered from one directory; a buffer that is used again for each.
#[derive(Default, Debug)]
pub struct DirectoryProof {
    /// Where its `..` leads to.
    pub parent_entry: InodeNo,
    /// Its other entries.
    pub targets: Vec<Target>,
    /// Where the facts of the targets are, as far as they are there; for [`Ledger`](crate::fast::ledger::Ledger).
    pub(super) places: Vec<Option<Place>>,
    name_hashes: Vec<u64>,
    seen: Vec<u64>,
}

impl DirectoryProof {
    /// Forgets the last directory.
    pub fn clear(&mut self) {
        self.parent_entry = InodeNo(0);
        self.targets.clear();
        self.name_hashes.clear();
    }

    /// Forgets the names, but not what they lead to.
    pub fn forget_names(&mut self) {
        self.name_hashes.clear();
    }

    /// Whether all names gathered since [`clear`](Self::clear) differ. (Names are compared by 64-bit hashes: two that
    /// collide by chance make the directory a suspect, which is harmless.)
    pub fn names_are_unique(&mut self) -> bool {
        let size = (self.name_hashes.len() * 2).next_power_of_two().max(8);
        self.seen.clear();
        self.seen.resize(size, 0);
        self.name_hashes.iter().all(|hash| {
            let mut slot = (*hash >> 20) as usize & (size - 1);
            while self.seen[slot] != 0 {
                if self.seen[slot] == *hash {
                    return false;
                }
                slot = (slot + 1) & (size - 1);
            }
            self.seen[slot] = *hash;
            true
        })
    }
}

/// What the proof of every directory of one file system needs.
pub struct DirectoryProver<'f> {
    geometry: &'f Geometry,
    inodes: &'f InodeTable,
    checksums: bool,
    filetype: bool,
}

impl<'f> DirectoryProver<'f> {
    /// The prover for a file system with this geometry.
    pub fn new(geometry: &'f Geometry, inodes: &'f InodeTable) -> Self {
        DirectoryProver {
            geometry,
            inodes,
            checksums: geometry.features.metadata_csum(),
            filetype: geometry.features.has_incompat(incompat::FILETYPE),
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
    /// `proof`.
    pub fn prove_block(
        &self,
        (directory, generation): (InodeNo, u32),
        block: &[u8],
        at: (u64, u64),
        first: bool,
        proof: &mut DirectoryProof,
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
            at = self.prove_dots(directory, &block[..end], proof)?;
        }
        while at < end {
            let record = &block[at..end];
            let header: &[u8; 8] = record.first_chunk()?;
            let len = self.record_len(header);
            let name_len = self.name_len(header);
            if len < RECORD_MIN || !len.is_multiple_of(4) || len > record.len() || name_len + 8 > len {
                return None;
            }
            let inode = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
            if inode != 0 {
                let hash = hash_name(record, name_len)?;
                proof.name_hashes.push(hash);
                proof.targets.push(self.target(inode, header[7], directory)?);
            }
            at += len;
        }
        (at == end).then_some(())
    }

    /// Calls `visit` with the name of each used record of a block that was proved.
    pub fn visit_names(&self, block: &[u8], mut visit: impl FnMut(&[u8])) {
        let tail = match self.checksums {
            _ if self.geometry.rext3() => rext3::TAIL_SIZE,
            true => TAIL_LEN,
            false => 0,
        };
        let end = block.len().saturating_sub(tail);
        let mut at = 0;
        while let Some(header) = block[at..end].first_chunk::<8>() {
            let len = self.name_len(header);
            if header[..4] != [0; 4]
                && let Some(name) = block.get(at + 8..at + 8 + len)
            {
                visit(name);
            }
            at += self.record_len(header).max(RECORD_MIN);
            if at >= end {
                break;
            }
        }
    }

    /// `.` with a record of 12 bytes leading to the directory itself, then `..`. Returns where the next record begins.
    pub fn prove_dots(&self, directory: InodeNo, block: &[u8], proof: &mut DirectoryProof) -> Option<usize> {
        let dots: &[u8; 24] = block.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes([dots[at], dots[at + 1], dots[at + 2], dots[at + 3]]);
        let kind = if self.filetype { 2 } else { 0 };
        let second: &[u8; 8] = dots[12..].first_chunk()?;
        let second_len = self.record_len(second);
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
        proof.parent_entry = InodeNo(parent);
        Some(12 + second_len)
    }

    fn record_len(&self, header: &[u8; 8]) -> usize {
        let stored = usize::from(u16::from_le_bytes([header[4], header[5]]));
        if self.geometry.block_size < 65536 {
            stored
        } else if stored == 65535 || stored == 0 {
            65536
        } else {
            (stored & 65532) | (stored & 3) << 16
        }
    }

    fn name_len(&self, header: &[u8; 8]) -> usize {
        if self.filetype {
            usize::from(header[6])
        } else {
            usize::from(u16::from_le_bytes([header[6], header[7]]))
        }
    }

    fn target(&self, inode: u32, file_type: u8, directory: InodeNo) -> Option<Target> {
        let ordinary =
            inode >= self.geometry.first_inode && inode <= self.geometry.inodes_count && inode != directory.0;
        let kind = if self.filetype { Kind::from_number(file_type) } else { Kind::Unused };
        let typed = !self.filetype || (1..=7).contains(&file_type);
        (ordinary && typed).then_some(Target { inode: InodeNo(inode), kind })
    }

    /// Whether what is known of the inode that `..` leads to lets it be a parent.
    pub fn certify_parent(&self, parent: InodeNo) -> Certainty {
        match self.inodes.fact(parent) {
            None => Certainty::Later,
            Some(fact) if fact.kind() == Kind::Directory => Certainty::Right,
            Some(_) => Certainty::Suspect,
        }
    }

    /// Whether what is known of the target bears the entry out, and where it is known.
    #[inline]
    pub fn certify(&self, target: Target) -> (Certainty, Option<Place>) {
        let (fact, place) = self.inodes.look(target.inode);
        let Some(fact) = fact else { return (Certainty::Later, None) };
        let kind = fact.kind();
        let as_said = if self.filetype { kind == target.kind } else { kind != Kind::Unused };
        let plain =
            kind != Kind::Unknown && fact.0 & (mark::VALUE_HOLDER | mark::SUSPECT | mark::RESERVED) == 0;
        (if as_said && plain { Certainty::Right } else { Certainty::Suspect }, place)
    }
}

/// What came of the proof of a directory of several blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargeProof {
    /// Whether it is innocent.
    pub proved: bool,
    /// Blocks looked at.
    pub blocks: u64,
    /// Read requests.
    pub requests: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// Tries to prove a directory of several blocks (`runs`, in the order of the file, without holes). Indexed directories
/// are proved by their index; see [`htree`](crate::fast::htree).
pub fn prove_large(
    prover: &DirectoryProver<'_>,
    fs: &Fs<'_>,
    reader: &mut BatchReader<'_>,
    (inode, generation, indexed): (InodeNo, u32, bool),
    runs: &[MapRun],
    proof: &mut DirectoryProof,
) -> LargeProof {
    if indexed && !fs.geometry.features.has_compat(compat::DIR_INDEX) {
        // An index that the file system has not: no proof.
        return LargeProof { proved: false, blocks: 0, requests: 0, bytes: 0 };
    }
    if indexed {
        return IndexedDirectory { prover, fs, inode, generation, runs }.prove(reader, proof);
    }
    let mut blocks: Vec<(u64, u64)> = runs
        .iter()
        .flat_map(|run| (0..u64::from(run.count)).map(|at| (run.physical + at, run.logical + at)))
        .collect();
    blocks.sort_unstable();
    let places: Vec<u64> = blocks.iter().map(|(block, _)| *block).collect();
    let mut proved = true;
    let reading = read_blocks(reader, fs, &places, &mut |index, result| {
        proved = proved
            && result.is_ok_and(|block| {
                let (place, logical) = blocks[index];
                prover
                    .prove_block((inode, generation), block, (place, logical), logical == 0, proof)
                    .is_some()
            });
    });
    proved = proved && proof.names_are_unique();
    LargeProof { proved, blocks: blocks.len() as u64, requests: reading.requests, bytes: reading.bytes }
}

/// A hash of the first `len` bytes behind the record's header, never 0; `None` for an empty name, a name of more than
/// 255 bytes and names with a slash or a zero byte, and for `.` and `..`.
fn hash_name(record: &[u8], len: usize) -> Option<u64> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    const FILL: u64 = u64::from_le_bytes([b'_'; 8]);
    let name = record.get(8..8 + len).filter(|name| !name.is_empty() && name.len() <= 255)?;
    if name[0] == b'.' && (name.len() == 1 || name == b"..") {
        return None;
    }
    let has_zero_byte = |word: u64| word.wrapping_sub(ONES) & !word & HIGH != 0;
    let mut hash = len as u64;
    let (words, rest) = name.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        if has_zero_byte(word) || has_zero_byte(word ^ (ONES * u64::from(b'/'))) {
            return None;
        }
        hash = mix(hash ^ word);
    }
    if !rest.is_empty() {
        // The eight bytes up to the end of the name, of which the first may be the header's: to copy the rest into a word of its own
        // makes the processor wait for single bytes on their way to memory, and cost half of the time of a proof.
        let upto = u64::from_le_bytes(*record.get(len..)?.first_chunk()?);
        let bits = 8 * rest.len() as u32;
        let word = upto >> (64 - bits) | FILL << bits;
        if has_zero_byte(word) || has_zero_byte(word ^ (ONES * u64::from(b'/'))) {
            return None;
        }
        hash = mix(hash ^ word);
    }
    Some(hash.max(1))
}

fn mix(word: u64) -> u64 {
    let product = u128::from(word ^ 0x9E37_79B9_7F4A_7C15) * u128::from(0xD6E8_FEB8_6659_FD93u64);
    (product >> 64) as u64 ^ product as u64
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
    fn duplicates_are_noticed() {
        let mut proof = DirectoryProof::default();
        proof.name_hashes.extend((1..1000u64).map(mix));
        assert!(proof.names_are_unique());
        proof.name_hashes.push(mix(77));
        assert!(!proof.names_are_unique());
    }
}
