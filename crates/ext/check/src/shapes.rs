// SPDX-License-Identifier: MIT OR Apache-2.0
//! How large files are and in how many pieces they lie: a walk over the inode tables for histograms. It judges nothing.

use std::sync::Arc;

use fsmend_base::{GroupNo, InodeNo};
use fsmend_device::Device;
use fsmend_engine::Findings;
use fsmend_engine::inodes::Kind;
use fsmend_engine::options::CheckOptions;
use fsmend_engine::shapes::FileShapes;
use fsmend_ext_format::inode::RawInode;

use crate::inode::subject::kind_of;
use crate::{Fs, inode, run, superblock};

/// Records that are read at once.
const CHUNK: u32 = 1024;

/// The shapes of the files on `device`; `None` where it has no superblock that can be used.
pub fn shapes(device: &Arc<dyn Device>, options: &CheckOptions) -> Option<FileShapes> {
    let mut ignored = Findings::new();
    let settled = superblock::settle(device, options.superblock, options.now, &mut ignored).ok()?;
    let fs = run::open(device, settled, options.now, &mut ignored);
    let mut shapes = FileShapes::default();
    for (number, group) in (0..).zip(&fs.groups) {
        for first in (0..group.scan_inodes).step_by(CHUNK as usize) {
            let count = (group.scan_inodes - first).min(CHUNK);
            if !add_chunk(&fs, fs.geometry.inode_at(GroupNo(number), first), count, &mut shapes) {
                return Some(shapes);
            }
        }
    }
    Some(shapes)
}

/// Adds the files among `count` inodes from `first` on; those that cannot be read are left out. False once no more are wanted.
fn add_chunk(fs: &Fs<'_>, first: InodeNo, count: u32, shapes: &mut FileShapes) -> bool {
    let size = fs.geometry.inode_size as usize;
    let mut table = vec![0; count as usize * size];
    let is_read = fs.inode_offset(first).is_some_and(|offset| fs.device.read_at(offset, &mut table).is_ok());
    if !is_read {
        return true;
    }
    for (number, record) in (first.0..).zip(table.chunks_exact(size)) {
        let raw = RawInode::from_record(record);
        let kind = kind_of(raw.file_type()).filter(|_| raw.is_in_use());
        let is_file = kind == Some(Kind::Regular) && number >= fs.geometry.first_inode;
        if !is_file && kind != Some(Kind::Directory) {
            continue;
        }
        let (mut blocks, mut pieces, mut end) = (0u64, 0u64, None);
        let block_size = u64::from(fs.geometry.block_size);
        for run in inode::inspect(fs, InodeNo(number), record, &mut Findings::new()).runs {
            if !is_file {
                let offset = run.physical.saturating_mul(block_size);
                shapes.add_directory(offset, u64::from(run.count).saturating_mul(block_size));
                continue;
            }
            blocks = blocks.saturating_add(u64::from(run.count));
            pieces += u64::from(end != Some(run.physical));
            end = run.physical.checked_add(u64::from(run.count));
        }
        if is_file && !shapes.add(raw.size(), blocks.saturating_mul(block_size), pieces) {
            return false;
        }
    }
    true
}
