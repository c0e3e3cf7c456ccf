// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the superblock says of a file system, whatever that is worth.

pub use fsmend::ext::superblock;
use fsmend_ext_format::superblock::RawSuperblock;

/// The label, as far as it is text.
pub fn label(raw: &RawSuperblock) -> String {
    let bytes = raw.s_volume_name.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
