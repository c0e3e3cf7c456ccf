// SPDX-License-Identifier: MIT OR Apache-2.0
//! The block of a passive translator, which inodes of the Hurd may have: a command line that serves the file.

use fsmend_base::BlockNo;

use super::problems::TRANSLATOR_OUTSIDE;
use super::subject::Subject;

/// Inspects the pointer to the translator's block; gives it when it can be right. The pointer stands where other
/// creators keep a version.
pub(crate) fn inspect(subject: &mut Subject<'_, '_>) -> Option<u64> {
    let block = u64::from(subject.raw.i_version.get());
    if !subject.fs.geometry.hurd || block == 0 {
        return None;
    }
    if subject.fs.geometry.group_of_block(BlockNo(block)).is_some() {
        return Some(block);
    }
    let problem = subject.problem(&TRANSLATOR_OUTSIDE).stored(block);
    subject.raise(problem);
    subject.raw.i_version.set(0);
    None
}
