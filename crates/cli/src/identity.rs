//! What the superblock says of a file system, whatever that is worth.

use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use zerocopy::FromBytes;

/// The superblock, whatever it says.
pub fn superblock(device: &dyn fsmend_device::Device) -> Option<RawSuperblock> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes).ok()?;
    RawSuperblock::read_from_bytes(&bytes).ok()
}

/// The label, as far as it is text.
pub fn label(raw: &RawSuperblock) -> String {
    let bytes = raw.s_volume_name.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
