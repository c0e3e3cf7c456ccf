// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MMP block initialised again, and held while a repair is being written.

use fsmend_base::{BlockNo, BlockRange};
use fsmend_device::Device;
use fsmend_engine::Findings;
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::geometry::Geometry;

use super::{MAGIC, SEQUENCE, SEQUENCE_CLEAN, SEQUENCE_FSCK, judge, place};
use crate::Fs;
use crate::group::repair::settle_in;
use crate::repair::RepairContext;
use crate::superblock::{SuperblockOptions, settle};

const TIME: usize = 8;
const NODE: std::ops::Range<usize> = 0x10..0x50;
const CHECK_INTERVAL: usize = 0x70;
/// Seconds between two updates, where the superblock names none.
const USUAL_INTERVAL: u16 = 5;

/// The MMP block of a file system that is about to be written, in the forms that keep others away and let them in again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MmpBlock {
    /// Byte offset on the device.
    pub offset: u64,
    /// As it lies there.
    pub found: Vec<u8>,
    /// Whether it is at rest: the file system is neither mounted nor being checked.
    pub is_clean: bool,
    /// Marked as being checked, to be written first and again every few seconds.
    pub held: Vec<u8>,
    /// At rest again, to be written last of all.
    pub clean: Vec<u8>,
}

/// The MMP block of the file system on `device`, to be held by `node` at second `now`; `None` without the feature, or where the
/// block is not one (the repair sets it up anew, so it cannot be in use).
pub fn hold(device: &dyn Device, node: &str, now: u64) -> Option<MmpBlock> {
    let settled = settle(device, SuperblockOptions::default(), now, &mut Findings::new()).ok()?;
    let block = place(&settled.geometry, &settled.superblock)?;
    let offset = block.0.checked_mul(u64::from(settled.geometry.block_size))?;
    let mut found = vec![0; settled.geometry.block_size as usize];
    device.read_at(offset, &mut found).ok()?;
    if judge(&settled.geometry, &found).is_some() {
        return None;
    }
    let is_clean = super::word(&found, SEQUENCE) == SEQUENCE_CLEAN;
    let mut clean = found.clone();
    clean[TIME..TIME + 8].copy_from_slice(&now.to_le_bytes());
    let mut held = clean.clone();
    held[NODE].fill(0);
    held[NODE].iter_mut().zip(node.bytes()).for_each(|(place, byte)| *place = byte);
    set_sequence(&settled.geometry, &mut held, SEQUENCE_FSCK);
    set_sequence(&settled.geometry, &mut clean, SEQUENCE_CLEAN);
    Some(MmpBlock { offset, found, is_clean, held, clean })
}

/// Puts `sequence` in, and the checksum that goes with it.
pub(super) fn set_sequence(geometry: &Geometry, bytes: &mut [u8], sequence: u32) {
    bytes[SEQUENCE..SEQUENCE + 4].copy_from_slice(&sequence.to_le_bytes());
    if geometry.features.metadata_csum() {
        checksum::seal_mmp_block(geometry.checksum_seed, bytes);
    }
}

/// A new block, at rest.
pub(super) fn fresh(fs: &Fs<'_>) -> Vec<u8> {
    let mut bytes = vec![0; fs.geometry.block_size as usize];
    bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[TIME..TIME + 8].copy_from_slice(&fs.now.to_le_bytes());
    let interval = fs.superblock.s_mmp_update_interval.get().max(USUAL_INTERVAL);
    bytes[CHECK_INTERVAL..CHECK_INTERVAL + 2].copy_from_slice(&interval.to_le_bytes());
    set_sequence(&fs.geometry, &mut bytes, SEQUENCE_CLEAN);
    bytes
}

/// Finds a place for a block that has none.
pub(crate) fn mend(context: &mut RepairContext<'_>) {
    let has_place = context.fs.superblock.s_mmp_block.get() != 0;
    if has_place || !context.fs.geometry.features.has_incompat(Incompat::MMP) {
        return;
    }
    let first = BlockNo(u64::from(context.fs.geometry.first_data_block) + 1);
    let Some(block) = context.allocate_blocks(first, 1) else { return };
    settle_in(context, BlockRange::new(block.0, 1));
    context.write_block(block, &fresh(&context.fs));
    context.fs.superblock.s_mmp_block = block.0.into();
}
