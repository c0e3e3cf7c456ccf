// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encryption contexts and policies.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::Findings;
use fsmend_engine::problem::Problem;
use fsmend_ext_format::encryption::{CONTEXT_NAME, Policy, parse_context};
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::inode::{InodeFlags, RawInode};
use fsmend_ext_format::xattr::{Area, RawXattrHeader, XATTR_MAGIC, name_index};

use super::in_inode::find_value;
use super::{BlockAttributes, InInodeAttributes, problems};
use crate::Fs;

/// What is to become of the encryption of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncryptionState {
    /// Not encrypted (any more: the flag is cleared in the record when the context is missing).
    Plain,
    /// Encrypted under this policy.
    Encrypted(Policy),
    /// Encrypted, but the context is malformed: the inode cannot be read; it has to be cleared.
    Lost,
}

/// Judges encryption flag and context of an inode of any kind (but not of reserved ones other than the root).
pub fn inspect_encryption(
    ino: InodeNo,
    record: &mut [u8],
    in_inode: &InInodeAttributes,
    in_block: Option<&BlockAttributes>,
    findings: &mut Findings,
) -> EncryptionState {
    let mut inode = RawInode::from_record(record);
    if !inode.has_flag(InodeFlags::ENCRYPT) {
        return EncryptionState::Plain;
    }
    let own = in_inode.encryption_context.clone().and_then(|range| record.get(range));
    let context = own.or_else(|| in_block?.encryption_context.as_deref());
    match context.map(parse_context) {
        Some(Ok(policy)) => EncryptionState::Encrypted(policy),
        Some(Err(_)) => {
            let len = context.map_or(0, <[u8]>::len) as u64;
            findings.raise(Problem::new(&problems::ENCRYPTION_CORRUPT).inode(ino).stored(len));
            EncryptionState::Lost
        }
        None => {
            findings.raise(Problem::new(&problems::ENCRYPTION_MISSING).inode(ino));
            inode.clear_flag(InodeFlags::ENCRYPT);
            inode.store(record);
            EncryptionState::Plain
        }
    }
}

/// The policy of an inode by its mended record, looked up in the record and in its attribute block, raising nothing.
/// `None` when it is not encrypted, or has no context that can be understood.
pub fn policy_of(fs: &Fs<'_>, record: &[u8]) -> Option<Policy> {
    let inode = RawInode::from_record(record);
    if !inode.has_flag(InodeFlags::ENCRYPT) {
        return None;
    }
    if let Some(range) = find_value(record, name_index::ENCRYPTION, CONTEXT_NAME) {
        return parse_context(record.get(range)?).ok();
    }
    let wide = fs.geometry.features.has_incompat(Incompat::BIT64) && !fs.geometry.hurd;
    let pointer = Some(BlockNo(inode.file_acl(wide))).filter(|block| fs.is_valid_block(*block));
    let block = fs.read_block(pointer?).ok()?;
    if RawXattrHeader::from_block(&block).h_magic.get() != XATTR_MAGIC {
        return None;
    }
    let area = Area::of_block(&block);
    parse_context(area.value(&area.find(name_index::ENCRYPTION, CONTEXT_NAME)?)?).ok()
}

/// Whether a file with policy `child` may lie in an encrypted directory with policy `directory`. Policies of versions
/// to come are taken for the same.
pub fn policies_agree(directory: Policy, child: Policy) -> bool {
    directory == child
}
