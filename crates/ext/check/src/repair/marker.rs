// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which a repair reaches the disk: what marks the file system as being repaired, and what is written last.
//!
//! Between the two the superblock says that there are errors, so that a program that meets it half repaired without the log of the repair
//! (a kernel at boot, another checker) is warned. The journal's own superblock comes last, too: as long as it has not said that the
//! journal is empty, a replay can be done again.

use fsmend_device::{Device, Overlay};
use fsmend_ext_format::checksum;
use fsmend_ext_format::journal::JOURNAL_MAGIC;
use fsmend_ext_format::superblock::{
    EXT_MAGIC, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, SuperblockState,
};
use zerocopy::{FromBytes, IntoBytes};

/// `h_blocktype` of the two versions of a journal's superblock.
const JOURNAL_SUPERBLOCKS: [u32; 2] = [3, 4];

/// The bytes with which the primary superblock of `device` is marked while `changes` are being written: what stands there, or, if that is
/// no valid superblock, what will stand there, with its state changed. Empty if neither is one.
pub fn marker(device: &dyn Device, changes: &[(u64, Vec<u8>)]) -> Vec<(u64, Vec<u8>)> {
    let mut planned = Overlay::new(device);
    for (offset, bytes) in changes.iter().filter(|(offset, bytes)| touches_superblock(*offset, bytes)) {
        // What lies beyond the end is no superblock.
        let _ = planned.write(*offset, bytes.as_slice());
    }
    let Some(mut superblock) = believable(device).or_else(|| believable(&planned)) else { return Vec::new() };
    superblock.set_state((superblock.state() & !SuperblockState::VALID) | SuperblockState::ERRORS);
    if superblock.features().metadata_csum() {
        checksum::seal_superblock(&mut superblock);
    }
    vec![(SUPERBLOCK_OFFSET, superblock.as_bytes().to_vec())]
}

fn touches_superblock(offset: u64, bytes: &[u8]) -> bool {
    let end = SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE as u64;
    offset < end && offset.saturating_add(bytes.len() as u64) > SUPERBLOCK_OFFSET
}

fn believable(device: &dyn Device) -> Option<RawSuperblock> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes).ok()?;
    let superblock = RawSuperblock::read_from_bytes(&bytes).ok()?;
    let is_sealed = !superblock.features().metadata_csum() || checksum::superblock(&superblock).is_right();
    (superblock.s_magic.get() == EXT_MAGIC && is_sealed).then_some(superblock)
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
    use fsmend_ext_format::features::RoCompat;
    use zerocopy::FromZeros;

    use super::*;

    fn superblock() -> RawSuperblock {
        let mut superblock = RawSuperblock::new_zeroed();
        superblock.s_magic.set(EXT_MAGIC);
        superblock.set_state(SuperblockState::VALID);
        superblock.s_feature_ro_compat.set(RoCompat::METADATA_CSUM.bits());
        checksum::seal_superblock(&mut superblock);
        superblock
    }

    fn device(superblock: &RawSuperblock) -> MemoryDevice {
        let mut bytes = vec![0; 4096];
        bytes[1024..2048].copy_from_slice(superblock.as_bytes());
        MemoryDevice::new("m", bytes)
    }

    #[test]
    fn the_superblock_says_that_there_are_errors_and_is_sealed() {
        let marker = marker(&device(&superblock()), &[]);
        let marked = RawSuperblock::read_from_bytes(&marker[0].1).unwrap();
        assert_eq!((marker[0].0, marked.state()), (1024, SuperblockState::ERRORS));
        assert!(checksum::superblock(&marked).is_right());
    }

    #[test]
    fn a_broken_superblock_is_marked_as_it_will_be() {
        let mut broken = superblock();
        broken.s_inodes_count.set(7);
        assert!(marker(&device(&broken), &[]).is_empty(), "there is nothing to be believed");
        let repaired = [(1024, superblock().as_bytes().to_vec())];
        let marked = RawSuperblock::read_from_bytes(&marker(&device(&broken), &repaired)[0].1).unwrap();
        assert_eq!((marked.s_inodes_count.get(), marked.state()), (0, SuperblockState::ERRORS));
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
