// SPDX-License-Identifier: MIT OR Apache-2.0
//! What takes several calls of the file system: entries with their types, the next data or hole.

use fsmend_base::InodeNo;
use fsmend_vfs::{FileSystem, Visit};

/// Directory entries that are looked at together.
const ENTRIES_AT_ONCE: usize = 256;

/// Extents that are looked at together when data or a hole is sought.
const EXTENTS_AT_ONCE: usize = 64;

/// An entry of a directory, to keep.
pub(crate) struct Entry {
    pub number: u64,
    pub kind: fsmend_vfs::FileKind,
    pub name: Vec<u8>,
    pub cookie: u64,
}

/// Some entries from `cookie` on.
pub(crate) fn entries(
    fs: &mut dyn FileSystem,
    directory: InodeNo,
    cookie: u64,
) -> fsmend_vfs::Result<Vec<Entry>> {
    let mut seen = Vec::new();
    fs.readdir(directory, cookie, &mut |entry| {
        if seen.len() == ENTRIES_AT_ONCE {
            return Visit::Full;
        }
        seen.push((entry.inode, entry.kind, entry.name.to_vec(), entry.cookie));
        Visit::More
    })?;
    let kept = seen.into_iter().map(|(inode, kind, name, cookie)| {
        let kind = match kind {
            Some(kind) => kind,
            // Directories of old file systems do not say it.
            None => fs.getattr(inode)?.kind,
        };
        Ok(Entry { number: u64::from(inode.0), kind, name, cookie })
    });
    kept.collect()
}

/// The first byte of data at `from` or behind; `None` if there is none. What was never written counts as a hole.
pub(crate) fn next_data(
    fs: &mut dyn FileSystem,
    inode: InodeNo,
    from: u64,
) -> fsmend_vfs::Result<Option<u64>> {
    let size = fs.getattr(inode)?.size;
    let mut at = from;
    while at < size {
        let Some(extents) = extents(fs, inode, at)? else { return Ok(Some(at)) };
        let data = extents.iter().find(|extent| !extent.unwritten);
        if let Some(data) = data {
            let found = data.offset.max(at);
            return Ok(Some(found).filter(|found| *found < size));
        }
        match extents.last() {
            Some(last) => at = last.offset.saturating_add(last.len),
            None => return Ok(None),
        }
    }
    Ok(None)
}

/// The first byte at `from` or behind in a hole, of which one begins at the end of the file; `None` behind that.
pub(crate) fn next_hole(
    fs: &mut dyn FileSystem,
    inode: InodeNo,
    from: u64,
) -> fsmend_vfs::Result<Option<u64>> {
    let size = fs.getattr(inode)?.size;
    if from >= size {
        return Ok(None);
    }
    let mut at = from;
    while at < size {
        let Some(extents) = extents(fs, inode, at)? else { return Ok(Some(size)) };
        if extents.is_empty() {
            break;
        }
        for extent in extents {
            if extent.unwritten || extent.offset > at {
                return Ok(Some(at.min(size)));
            }
            at = extent.offset.saturating_add(extent.len);
        }
    }
    Ok(Some(at.min(size)))
}

/// Extents that end behind `at`; `None` where the file system cannot tell.
fn extents(
    fs: &mut dyn FileSystem,
    inode: InodeNo,
    at: u64,
) -> fsmend_vfs::Result<Option<Vec<fsmend_vfs::Extent>>> {
    match fs.extents(inode, at, EXTENTS_AT_ONCE) {
        Ok(mut extents) => {
            extents.retain(|extent| extent.offset.saturating_add(extent.len) > at);
            Ok(Some(extents))
        }
        Err(fsmend_vfs::Errno::NotSupported) => Ok(None),
        Err(error) => Err(error),
    }
}
