//! The order in which a repair reaches the disk: what marks the file system as being repaired, and what is written last.
//!
//! Between the two the superblock says that there are errors, so that whoever finds the file system half-written, without the log
//! of the repair, checks it. The journal's own superblock comes last, too: as long as it has not said that the journal is empty, a
//! replay can be done again.

use fsmend_device::Device;
use fsmend_ext_format::journal::JOURNAL_MAGIC;
use fsmend_ext_format::superblock::{EXT_MAGIC, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use zerocopy::FromBytes;

use crate::superblock::repair::seal;

/// `s_state`: left cleanly.
const STATE_VALID: u16 = 1;
/// `s_state`: errors were met.
const STATE_ERRORS: u16 = 2;
/// `h_blocktype` of the two versions of a journal's superblock.
const JOURNAL_SUPERBLOCKS: [u32; 2] = [3, 4];

/// The bytes that mark the file system on `device` as being repaired; none if its superblock is not there to be marked.
pub fn marker(device: &dyn Device) -> Vec<(u64, Vec<u8>)> {
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    if device.read_at(SUPERBLOCK_OFFSET, &mut bytes).is_err() {
        return Vec::new();
    }
    let Ok(raw) = RawSuperblock::mut_from_bytes(&mut bytes) else { return Vec::new() };
    if raw.s_magic.get() != EXT_MAGIC {
        return Vec::new();
    }
    raw.s_state.set(raw.s_state.get() & !STATE_VALID | STATE_ERRORS);
    seal(raw);
    vec![(SUPERBLOCK_OFFSET, bytes)]
}

/// Offset and length of what is written last of `changes`: the superblock, and that of the journal.
pub fn last(changes: &[(u64, Vec<u8>)]) -> Vec<(u64, u64)> {
    let journals = changes.iter().filter(|(_, bytes)| is_journal_superblock(bytes));
    let mut last = vec![(SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE as u64)];
    last.extend(journals.map(|(offset, bytes)| (*offset, bytes.len() as u64)));
    last
}

fn is_journal_superblock(bytes: &[u8]) -> bool {
    let word = |at: usize| {
        bytes.get(at..at + 4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
    };
    word(0) == Some(JOURNAL_MAGIC) && word(4).is_some_and(|kind| JOURNAL_SUPERBLOCKS.contains(&kind))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use fsmend_device::MemoryDevice;
    use fsmend_ext_format::checksum;
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;

    fn device_with(superblock: &RawSuperblock) -> MemoryDevice {
        let mut bytes = vec![0; 4096];
        bytes[1024..2048].copy_from_slice(superblock.as_bytes());
        MemoryDevice::new("marker", bytes)
    }

    #[test]
    fn a_marked_file_system_is_not_clean_and_its_checksum_is_right() {
        let mut raw = RawSuperblock::new_zeroed();
        raw.s_magic.set(EXT_MAGIC);
        raw.s_state.set(STATE_VALID);
        raw.s_feature_ro_compat.set(fsmend_ext_format::features::ro_compat::METADATA_CSUM);
        raw.s_checksum_type = 1;
        let marked = marker(&device_with(&raw));
        assert_eq!(marked[0].0, 1024);
        let raw = RawSuperblock::read_from_bytes(&marked[0].1).unwrap();
        assert_eq!(raw.s_state.get(), STATE_ERRORS);
        assert!(checksum::superblock(&raw).is_right());
    }

    #[test]
    fn what_is_no_superblock_is_not_marked() {
        assert!(marker(&device_with(&RawSuperblock::new_zeroed())).is_empty());
        assert!(marker(&MemoryDevice::new("short", vec![0; 100])).is_empty());
    }

    #[test]
    fn superblocks_come_last() {
        let journal = [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 4];
        let descriptor = [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 1];
        let changes =
            vec![(0, vec![1; 10]), (8192, journal.to_vec()), (9216, descriptor.to_vec()), (9999, vec![])];
        assert_eq!(last(&changes), [(1024, 1024), (8192, 8)]);
    }
}
