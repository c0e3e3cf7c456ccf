// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that go.

use fsmend_base::InodeNo;
use fsmend_ext_format::directory::{Entry, EntryHeader};

use super::chains;
use crate::Fs;
use crate::directory::Directory;
use crate::directory::params::DirectoryParams;
use crate::repair::{RepairContext, Writes};

/// Removes the names from directory `holder` that `goes` picks out (never `.` and `..`).
pub(super) fn names(context: &RepairContext<'_>, holder: InodeNo, goes: &dyn Fn(InodeNo, &[u8]) -> bool) {
    for (place, bytes) in without(&context.fs, holder, goes) {
        context.overlay.put(place, bytes);
    }
}

/// What has to be written for that.
pub(super) fn without(fs: &Fs<'_>, holder: InodeNo, goes: &dyn Fn(InodeNo, &[u8]) -> bool) -> Writes {
    let Some(directory) = Directory::open(fs, holder) else { return Writes::new() };
    let params = DirectoryParams::of(fs, &directory);
    chains::changed(fs, &directory, &params, &mut |bytes, first| {
        let mut is_changed = false;
        let (mut at, mut index) = (0, 0);
        while let Ok(entry) = Entry::at(bytes, at, params.layout, first && index < 2) {
            let (header, here) = (entry.header, at);
            let is_name = header.inode != 0 && !(first && index < 2);
            let gone = is_name && goes(InodeNo(header.inode), entry.name);
            (at, index) = (at + header.rec_len, index + 1);
            if gone {
                EntryHeader { inode: 0, ..header }.store(bytes, here, params.layout);
                is_changed = true;
            }
        }
        is_changed
    })
}
