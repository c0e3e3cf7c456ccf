// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which blocks are free, as the bitmaps of a sound file system say: for those who want to tell the device.

use std::sync::Arc;

use fsmend_base::{BlockNo, GroupNo};
use fsmend_device::Device;
use fsmend_engine::Findings;
use fsmend_ext_format::group::GroupFlags;

use crate::run;
use crate::{Fs, Refusal, superblock};
use fsmend_engine::options::CheckOptions;

/// Calls `visit` with offset and length in bytes of every run of free blocks, in ascending order.
pub fn visit_free(
    device: &Arc<dyn Device>,
    options: &CheckOptions,
    visit: &mut dyn FnMut(u64, u64),
) -> Result<(), Refusal> {
    let mut ignored = Findings::new();
    let settled = superblock::settle(device, options.superblock, options.now, &mut ignored)?;
    let fs = run::open(device, settled, options.now, &mut ignored);
    let mut run: Option<(u64, u64)> = None;
    for number in 0..fs.geometry.group_count {
        let Some(used) = used_in(&fs, GroupNo(number)) else { continue };
        let first = fs.geometry.group_first_block(GroupNo(number));
        let size = u64::from(fs.geometry.cluster_blocks);
        for (index, is_used) in (0..).zip(used) {
            let start = first.saturating_add(u64::saturating_mul(index, size));
            let end = start.saturating_add(size).min(fs.geometry.blocks_count);
            if is_used || start >= end || fs.metadata.any(start, end - start) {
                continue;
            }
            run = match run {
                Some((from, until)) if until == start => Some((from, end)),
                other => {
                    tell(&fs, other, visit);
                    Some((start, end))
                }
            };
        }
    }
    tell(&fs, run, visit);
    Ok(())
}

fn tell(fs: &Fs<'_>, run: Option<(u64, u64)>, visit: &mut dyn FnMut(u64, u64)) {
    if let Some((start, end)) = run {
        visit(
            fs.block_offset(BlockNo(start)),
            fs.block_offset(BlockNo(end)) - fs.block_offset(BlockNo(start)),
        );
    }
}

/// Which clusters of a group are in use; `None` where nothing can be said.
fn used_in(fs: &Fs<'_>, number: GroupNo) -> Option<Vec<bool>> {
    let group = fs.group(number)?;
    let count = fs.geometry.blocks_per_group / fs.geometry.cluster_blocks.max(1);
    if group.desc.has_flag(GroupFlags::BLOCK_UNINIT) {
        return Some(vec![false; count as usize]);
    }
    if group.desc.block_bitmap == 0 {
        return None;
    }
    let bitmap = fs.read_block(BlockNo(group.desc.block_bitmap)).ok()?;
    let is_set = |bit: u32| bitmap.get(bit as usize / 8).is_none_or(|byte| byte >> (bit % 8) & 1 == 1);
    Some((0..count).map(is_set).collect())
}
