// SPDX-License-Identifier: MIT OR Apache-2.0
//! How large files are and in how many pieces they lie: a walk over the table of inodes for histograms. It judges nothing.

use fsmend_base::InodeNo;
use fsmend_device::Device;

use super::{Checkable, Checker, Family, read_record, summary_of};
use crate::Findings;
use crate::format::Volume;
use crate::inodes::Kind;
use crate::options::CheckOptions;
use crate::shapes::FileShapes;

impl<F: Family> Checker<F> {
    /// The shapes of the files on `device`; `None` where it cannot be opened.
    pub fn shapes(&self, device: &dyn Device, options: &CheckOptions) -> Option<FileShapes> {
        let layout = self.0.open(device, (options, &super::nothing_kept()), &mut Findings::new()).ok()?;
        let volume = self.0.volume(layout, device);
        let mut shapes = FileShapes::default();
        let per_chunk = volume.inodes_per_chunk();
        let chunks = volume.inodes_count().div_ceil(per_chunk.max(1));
        for chunk in 0..chunks {
            let first = chunk.saturating_mul(per_chunk).saturating_add(volume.first_inode());
            for inode in (first..first.saturating_add(volume.scanned_in(chunk))).map(InodeNo) {
                if !add(&volume, inode, &mut shapes) {
                    return Some(shapes);
                }
            }
        }
        Some(shapes)
    }
}

/// Adds a file; false once no more are wanted.
fn add<V: Checkable>(volume: &V, inode: InodeNo, shapes: &mut FileShapes) -> bool {
    let size = read_record(volume, inode).and_then(|record| volume.size_of(&record));
    let Some((size, summary)) = size.zip(summary_of(volume, inode)) else { return true };
    let unit_bytes = volume.summary().block_size.saturating_mul(volume.unit_blocks());
    if summary.kind == Some(Kind::Directory) {
        for (first, count) in summary.units {
            shapes.add_directory(first.saturating_mul(unit_bytes), count.saturating_mul(unit_bytes));
        }
        return true;
    }
    if summary.kind != Some(Kind::Regular) {
        return true;
    }
    let (mut units, mut pieces, mut end) = (0u64, 0u64, None);
    for (first, count) in summary.units {
        units = units.saturating_add(count);
        pieces += u64::from(end != Some(first));
        end = first.checked_add(count);
    }
    shapes.add(size, units.saturating_mul(unit_bytes), pieces)
}
