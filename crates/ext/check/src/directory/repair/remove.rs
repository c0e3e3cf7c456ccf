//! Names that go.

use fsmend_base::InodeNo;
use fsmend_ext_format::directory::{Entry, EntryHeader};

use super::chains;
use crate::directory::Directory;
use crate::directory::nature::Nature;
use crate::repair::Mender;

/// Removes the names from directory `holder` that `goes` picks out (never `.` and `..`); returns how many.
pub(super) fn names(mender: &Mender<'_>, holder: InodeNo, goes: &dyn Fn(InodeNo, &[u8]) -> bool) -> usize {
    let Some(directory) = Directory::open(&mender.fs, holder) else { return 0 };
    let nature = Nature::of(&mender.fs, &directory);
    let mut removed = 0;
    chains::change(mender, &directory, &nature, &mut |bytes, first| {
        let before = removed;
        let (mut at, mut index) = (0, 0);
        while let Ok(entry) = Entry::at(bytes, at, nature.layout, first && index < 2) {
            let (header, here) = (entry.header, at);
            let is_name = header.inode != 0 && !(first && index < 2);
            let gone = is_name && goes(InodeNo(header.inode), entry.name);
            (at, index) = (at + header.rec_len, index + 1);
            if gone {
                EntryHeader { inode: 0, ..header }.store(bytes, here, nature.layout);
                removed += 1;
            }
        }
        removed > before
    });
    removed
}
