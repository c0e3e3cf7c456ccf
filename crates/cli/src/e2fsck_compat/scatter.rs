// SPDX-License-Identifier: MIT OR Apache-2.0
//! `-E fragcheck`: which files lie in several pieces.

use fsmend_ext_check::scatter::{Scattered, visit_scattered};

use super::session::Session;

/// More places than these are not printed of one file.
const GAPS_MAX: usize = 20;

impl Session {
    /// Tells which files lie in several pieces, and where they are broken.
    pub(super) fn tell_scattered(&mut self) {
        let Ok(options) = self.check_options() else { return };
        let (out, mut count) = (&mut self.out, 0u64);
        let visited = visit_scattered(&self.device, &options, &self.cancel, &mut |found| {
            count += 1;
            out.print(&told(&found));
        });
        if visited.is_ok() {
            self.out.print(&format!("{}: {count} files and directories are fragmented\n", self.name));
        }
    }
}

fn told(found: &Scattered) -> String {
    let what = if found.is_directory { "Directory" } else { "File" };
    let pieces = found.gaps.len() + 1;
    let mut text =
        format!("{what} with inode {}: {} blocks in {pieces} pieces\n", found.inode.0, found.blocks);
    for (logical, expected, place) in found.gaps.iter().take(GAPS_MAX) {
        text.push_str(&format!("  block {logical} is at {}, not at {}\n", place.0, expected.0));
    }
    if let Some(more) = found.gaps.len().checked_sub(GAPS_MAX).filter(|more| *more > 0) {
        text.push_str(&format!("  and {more} places more\n"));
    }
    text
}
