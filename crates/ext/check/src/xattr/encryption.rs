//! Encryption contexts and policies.

use std::ops::Range;

use fsmend_base::InodeNo;
use fsmend_engine::Findings;
use fsmend_ext_format::encryption::Policy;

use super::{BlockAttributes, InInodeAttributes};
use crate::Fs;

/// What is to become of the encryption of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncryptionState {
    /// Not encrypted (any more: the flag is cleared in the record when the context is missing).
    Plain,
    /// Encrypted under this policy.
    Encrypted(Policy),
    /// Encrypted, but the context is malformed: nobody can read the inode; it has to be cleared.
    Lost,
}

/// Judges encryption flag and context of a regular file, directory or symbolic link.
pub fn inspect_encryption(
    _fs: &Fs<'_>,
    _ino: InodeNo,
    _record: &mut [u8],
    _in_inode: &InInodeAttributes,
    _in_block: Option<&BlockAttributes>,
    _findings: &mut Findings,
) -> EncryptionState {
    EncryptionState::Plain
}

/// The policy of an inode by its mended record, looked up in the record and in its attribute block, raising nothing.
/// `None` when it has none or the context is malformed.
pub fn policy_of(_fs: &Fs<'_>, _record: &[u8]) -> Option<Policy> {
    None
}

/// Whether a file with policy `child` may lie in an encrypted directory with policy `directory`.
pub fn policies_agree(directory: Policy, child: Policy) -> bool {
    directory == child
}

#[allow(dead_code)]
fn slice(record: &[u8], range: Range<usize>) -> &[u8] {
    record.get(range).unwrap_or(&[])
}
