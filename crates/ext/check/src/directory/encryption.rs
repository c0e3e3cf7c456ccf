// SPDX-License-Identifier: MIT OR Apache-2.0
//! What may be in an encrypted directory: names that can be encrypted ones, files under the directory's own policy.

use fsmend_base::InodeNo;
use fsmend_engine::Row;
use fsmend_engine::inodes::{InodeFact, Kind, mark};
use fsmend_ext_format::encryption::Policy;

use super::problems as rows;
use crate::{Fs, xattr};

/// Shortest encrypted name.
const ENCRYPTED_NAME_MIN: usize = 16;

/// Why an entry of an encrypted directory cannot stay: its name, or what it leads to. `directory_policy` is the policy
/// of the directory. (Devices, pipes and sockets have encrypted names, but are not encrypted themselves.)
pub(super) fn objection(
    fs: &Fs<'_>,
    directory_policy: Option<Policy>,
    name: &[u8],
    target: InodeNo,
    fact: InodeFact,
) -> Option<&'static Row> {
    if name.len() < ENCRYPTED_NAME_MIN {
        return Some(&rows::ENCRYPTED_NAME_SHORT);
    }
    if !matches!(fact.kind(), Kind::Regular | Kind::Directory | Kind::Symlink) {
        return None;
    }
    if !fact.has(mark::ENCRYPTED) {
        return Some(&rows::ENTRY_UNENCRYPTED);
    }
    let record = fs.read_inode(target)?.ok()?;
    (xattr::policy_of(fs, &record) != directory_policy).then_some(&rows::ENTRY_OTHER_POLICY)
}
