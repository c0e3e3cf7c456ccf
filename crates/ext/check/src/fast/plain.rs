//! The proof for the plainest inode records, which most are: a file or directory of at most one extent, without attributes and
//! with nothing unusual. It is the proof in [`inode`](super::inode) for this one shape, a word at a time: what it calls innocent
//! that would call innocent, too, with the same facts; of all else it says nothing.

use fsmend_ext_format::inode::{flags, mode};
use fsmend_ext_format::xattr::XATTR_MAGIC;

use super::inode::{BENIGN_FLAGS, EXTENT_MAGIC, EXTENT_WRITTEN_MAX, InodeProver, Proof};
use crate::inode::MapRun;
use fsmend_engine::inodes::Kind;

/// Words of a record that are looked at: those that the format names, and the one behind the extra fields of today's kernels.
const WORDS: usize = 21;
/// Records have to be so long.
pub(super) const RECORD_BYTES: usize = WORDS * 8;
/// What today's kernels store as the length of the extra fields.
const EXTRA: u64 = 32;
/// The header of a map without a level below it, when it has no entry, and where it counts them.
const ROOT: u64 = 4 << 32 | EXTENT_MAGIC as u64;
const ONE_ENTRY: u64 = 1 << 16;
/// Flags of plain records.
const PLAIN_FLAGS: u32 = BENIGN_FLAGS | flags::IMMUTABLE | flags::APPEND;

impl InodeProver<'_> {
    /// Proves `record` if it is as plain as can be, and fills `proof`. The checksum, and that the inode is nobody's special one, are
    /// the caller's to know.
    #[inline]
    pub(super) fn prove_plain(&self, record: &[u8], proof: &mut Proof) -> bool {
        let Some(words) = record.as_chunks::<8>().0.first_chunk::<WORDS>() else { return false };
        let word = |offset: usize| u64::from_le_bytes(words[offset / 8]);
        let flags_word = word(0x20) as u32;
        let root = word(0x28);
        let epochs = word(0x80) >> 32 | word(0x88) | word(0x88) >> 32 | word(0x90) >> 32;
        // Deletion time, attribute block, the fragment's address with the high halves of blocks and attribute block, all 0.
        let odd = word(0x10) >> 32
            | word(0x68) & 0xFFFF_FFFF
            | word(0x70)
            | epochs & 3
            | (word(0x80) & 0xFFFF ^ EXTRA)
            | (root & !ONE_ENTRY ^ ROOT)
            | u64::from(flags_word & !PLAIN_FLAGS ^ flags::EXTENTS);
        let links = (word(0x18) >> 16) as u16;
        let kind = match word(0) as u16 & mode::TYPE_MASK {
            mode::REGULAR => Kind::Regular,
            mode::DIRECTORY => Kind::Directory,
            _ => return false,
        };
        if odd != 0 || links == 0 || word(0xA0) as u32 == XATTR_MAGIC {
            return false;
        }
        let sectors = word(0x18) >> 32;
        let size = word(0) >> 32 | word(0x68) >> 32 << 32;
        let mut mapped = 0;
        proof.runs.clear();
        if root & ONE_ENTRY != 0 {
            let (logical, extent) = (word(0x30) >> 32, word(0x38));
            let (count, physical) = (extent as u16, extent >> 32 | (extent >> 16 & 0xFFFF) << 32);
            mapped = u64::from(count);
            if logical != 0
                || count == 0
                || count > EXTENT_WRITTEN_MAX
                || !self.is_free_nearby(&mut proof.free_for_files, physical, mapped)
            {
                return false;
            }
            proof.runs.push(MapRun { logical, physical, count: count.into(), unwritten: false });
        }
        if sectors != mapped * self.sectors_per_block || !self.size_fits(kind, size, mapped, mapped, true) {
            return false;
        }
        proof.kind = kind;
        proof.links = links;
        proof.generation = (word(0x60) >> 32) as u32;
        proof.flags = flags_word;
        proof.size = size;
        proof.charged_blocks = mapped;
        proof.xattr_block = 0;
        proof.needs_walk = false;
        true
    }
}
