// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets of symbolic links that lie in the inode.

use fsmend_ext_format::inode::InodeFlags;

use super::subject::Subject;

/// Whether there is a target in the inode as long as the size says: then there is, whatever is said about its blocks.
pub(crate) fn lies_in_inode(subject: &Subject<'_, '_>) -> bool {
    let encrypted = subject.raw.has_flag(InodeFlags::ENCRYPT);
    subject.raw.size() != 0 && text_length(&subject.raw.i_block, encrypted) == Some(subject.raw.size())
}

/// The length of a target that ends with a zero byte, or (encrypted) says itself how long it is.
pub(crate) fn text_length(bytes: &[u8], encrypted: bool) -> Option<u64> {
    if encrypted {
        let length = u64::from(u16::from_le_bytes([*bytes.first()?, *bytes.get(1)?])) + 2;
        return (length < bytes.len() as u64).then_some(length);
    }
    bytes.iter().position(|byte| *byte == 0).map(|length| length as u64)
}
