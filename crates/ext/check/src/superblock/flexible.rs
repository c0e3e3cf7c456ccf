// SPDX-License-Identifier: MIT OR Apache-2.0
//! Superblocks that have lost the word that tables and bitmaps may lie in other groups than their own (`flex_bg`): without a checksum nothing
//! else tells. Believed as they are, all places outside are wrong, and all files there are lost.

use fsmend_base::{BlockNo, GroupNo};
use fsmend_device::Device;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::group::{GroupDesc, RawGroupDesc};
use zerocopy::{FromZeros, IntoBytes};

use super::candidates::Candidate;

/// Whether the backup has the feature, the primary does not, and most groups need it: not those of a file system on which a user switched it
/// on or off for (backups lag behind), but those of one that was made with it.
pub(super) fn is_forgotten(device: &dyn Device, primary: &Candidate, backup: &Candidate) -> bool {
    let has = |candidate: &Candidate| candidate.raw.features().has_incompat(Incompat::FLEX_BG);
    !has(primary) && has(backup) && most_tables_are_elsewhere(device, primary).unwrap_or(false)
}

/// Looks at the groups of the first block of descriptors.
fn most_tables_are_elsewhere(device: &dyn Device, primary: &Candidate) -> Option<bool> {
    let geometry = primary.geometry.as_ref().ok()?;
    let block = *geometry.descriptor_copies(0, 1).first()?;
    let mut bytes = vec![0; geometry.block_size as usize];
    device.read_at(block.0.checked_mul(u64::from(geometry.block_size))?, &mut bytes).ok()?;
    let descs = bytes.chunks_exact(geometry.desc_size as usize);
    let (mut groups, mut elsewhere) = (0_u32, 0_u32);
    // The first group of all holds its own.
    for (group, bytes) in (0..geometry.group_count).zip(descs).skip(1) {
        let mut raw = RawGroupDesc::new_zeroed();
        let len = bytes.len().min(size_of::<RawGroupDesc>());
        raw.as_mut_bytes()[..len].copy_from_slice(&bytes[..len]);
        let table = GroupDesc::parse(&raw, geometry.wide_descriptors()).inode_table;
        let holder = geometry.group_of_block(BlockNo(table));
        groups += 1;
        elsewhere += u32::from(holder.is_some_and(|holder| holder != GroupNo(group)));
    }
    Some(elsewhere * 2 > groups)
}
