// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entries of a directory, read by themselves: for names in reports.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::Findings;
use fsmend_engine::names::paths::Directories;
use fsmend_ext_format::directory::{Entries, entries_len};

use super::inline::InlineEntries;
use super::inspect::mend_block;
use super::params::DirectoryParams;
use super::{Directory, inline};
use crate::Fs;

/// Calls `visit` for every entry of `directory` but `.` and `..`, in the order of the directory, broken chains mended.
/// Entries that an inspection would remove are among them.
pub fn entries_of(fs: &Fs<'_>, directory: &Directory, visit: &mut dyn FnMut(InodeNo, &[u8])) {
    let params = DirectoryParams::of(fs, directory);
    let mut quiet = Findings::new();
    if directory.inline {
        for (_, area) in inline::gather(&directory.record).iter().flat_map(InlineEntries::filled) {
            let mut records = directory.record.get(area).unwrap_or_default().to_vec();
            mend_block(&mut records, &params, None, false, &mut quiet);
            visit_block(&records, &params, false, visit);
        }
        return;
    }
    for run in &directory.runs {
        for within in 0..u64::from(run.count) {
            let block = BlockNo(run.physical.saturating_add(within));
            let Ok(mut bytes) = fs.read_block(block) else { continue };
            let end = entries_len(&bytes, fs.geometry.features);
            let first = run.logical == 0 && within == 0;
            mend_block(&mut bytes[..end], &params, Some(block), first, &mut quiet);
            visit_block(&bytes[..end], &params, first, visit);
            quiet = Findings::new();
        }
    }
}

/// Whether a look at the bare records leaves it possible that `directory` holds a name of a wanted inode. (Nearly all
/// directories do not, and need not be looked at with care.)
fn may_mention(fs: &Fs<'_>, directory: &Directory, wanted: &dyn Fn(InodeNo) -> bool) -> bool {
    let layout = DirectoryParams::of(fs, directory).layout;
    let mut blocks =
        directory.runs.iter().flat_map(|run| (0..u64::from(run.count)).map(|at| run.physical + at));
    directory.inline
        || blocks.any(|block| match fs.read_block(BlockNo(block)) {
            Ok(bytes) => {
                let end = entries_len(&bytes, fs.geometry.features);
                let mention = |inode| wanted(InodeNo(inode));
                Entries::new(&bytes[..end], layout, false)
                    .any(|entry| entry.map_or(true, |entry| mention(entry.header.inode)))
            }
            Err(_) => false,
        })
}

fn visit_block(bytes: &[u8], params: &DirectoryParams, first: bool, visit: &mut dyn FnMut(InodeNo, &[u8])) {
    let dots = if first { 2 } else { 0 };
    for entry in Entries::new(bytes, params.layout, first).flatten().skip(dots) {
        if entry.header.inode != 0 {
            visit(InodeNo(entry.header.inode), entry.name);
        }
    }
}

impl Directories for Fs<'_> {
    fn visit_entries(
        &self,
        holder: InodeNo,
        wanted: &dyn Fn(InodeNo) -> bool,
        visit: &mut dyn FnMut(InodeNo, &[u8]),
    ) {
        if let Some(directory) = Directory::open(self, holder)
            && may_mention(self, &directory, wanted)
        {
            entries_of(self, &directory, visit);
        }
    }
}
