// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended attributes of UFS2: an area of up to two blocks. FreeBSD's fsck counts the blocks and never looks into them.

use fsmend_base::width;
use fsmend_ufs_format::Geometry;
use fsmend_ufs_format::attributes::Attributes;
use fsmend_ufs_format::inode::{ATTRIBUTE_BLOCKS, Inode};

use crate::UfsFs;

/// Fragments of block `index` of an area of `size` bytes.
fn block_fragments(geometry: &Geometry, size: u64, index: u64) -> u64 {
    let left = size.saturating_sub(index * geometry.block_size).min(geometry.block_size);
    left.div_ceil(geometry.fragment_size)
}

/// The runs of fragments of the area; `None` where size and pointers cannot be right.
pub fn runs<B: AsRef<[u8]>>(geometry: &Geometry, inode: &Inode<B>) -> Option<Vec<(u64, u64)>> {
    let size = u64::from(inode.attributes_size());
    if size == 0 || size > ATTRIBUTE_BLOCKS as u64 * geometry.block_size {
        return None;
    }
    let mut runs = Vec::with_capacity(ATTRIBUTE_BLOCKS);
    for index in 0..ATTRIBUTE_BLOCKS {
        let fragment = inode.attribute_block(index);
        let count = block_fragments(geometry, size, index as u64);
        let is_right = if count == 0 { fragment == 0 } else { geometry.may_be_data(fragment, count) };
        if !is_right {
            return None;
        }
        if count != 0 {
            runs.push((fragment, count));
        }
    }
    Some(runs)
}

/// Fragments of the area, if it is in order.
pub fn fragments<B: AsRef<[u8]>>(geometry: &Geometry, inode: &Inode<B>) -> u64 {
    runs(geometry, inode).map_or(0, |runs| runs.iter().map(|(_, count)| count).sum())
}

/// The bytes of the area; `None` where they cannot be read.
fn area<B: AsRef<[u8]>>(fs: &UfsFs<'_>, inode: &Inode<B>) -> Option<Vec<u8>> {
    let geometry = fs.geometry();
    let mut area = Vec::new();
    for (first, count) in runs(geometry, inode)? {
        area.extend(fs.read(first, width::index(count * geometry.fragment_size))?);
    }
    area.truncate(inode.attributes_size() as usize);
    Some(area)
}

/// How many bytes of the area are in order, if not all are.
pub fn flaw<B: AsRef<[u8]>>(fs: &UfsFs<'_>, inode: &Inode<B>) -> Option<usize> {
    let Some(area) = area(fs, inode) else { return Some(0) };
    Attributes::new(&area, fs.geometry().order).find_map(Result::err)
}

/// What has to be written so that only the first `keeps` bytes of the area hold attributes: the area stays, the rest of it is zeroes.
pub fn cut<B: AsRef<[u8]>>(fs: &UfsFs<'_>, inode: &Inode<B>, keeps: usize) -> Vec<(u64, Vec<u8>)> {
    let geometry = fs.geometry();
    let mut writes = Vec::new();
    let mut at = 0;
    for (first, count) in runs(geometry, inode).unwrap_or_default() {
        let len = width::index(count * geometry.fragment_size);
        let from = keeps.saturating_sub(at).min(len);
        if from < len {
            writes.push((geometry.place(first) + from as u64, vec![0; len - from]));
        }
        at += len;
    }
    writes
}
