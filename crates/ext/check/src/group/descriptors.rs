// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors as they lie on the disk: the primary table, and copies of single descriptors.

use fsmend_base::{BlockNo, GroupNo, width};
use fsmend_device::Device;
use fsmend_ext_format::checksum::{self, Checked};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::{GroupDesc, RawGroupDesc};
use zerocopy::{FromZeros, IntoBytes};

/// Descriptor blocks that are read at once.
const RUN_MAX: u32 = 256;
/// Copies of one descriptor that are looked at: the primary and a few backups.
const COPIES_MAX: usize = 6;

/// One descriptor as found.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) desc: GroupDesc,
    /// Whether it could be read.
    pub(super) is_readable: bool,
    /// Its checksum, when the file system has them.
    pub(super) checked: Option<Checked>,
    /// The block that it lies in.
    pub(super) block: BlockNo,
}

impl Slot {
    /// Whether it could be read and its checksum, if any, is right.
    pub(super) fn is_credible(&self) -> bool {
        self.is_readable && self.checked.is_none_or(Checked::is_right)
    }
}

/// Reads the primary table: one slot for every group.
pub(super) fn read_primary(device: &dyn Device, geometry: &Geometry) -> Vec<Slot> {
    let mut slots = Vec::with_capacity(geometry.group_count as usize);
    let mut index = 0;
    while index < geometry.desc_blocks() {
        let Some(&block) = geometry.descriptor_copies(index, 1).first() else { break };
        let contiguous = geometry.old_desc_blocks().saturating_sub(index);
        let count = contiguous.clamp(1, RUN_MAX);
        match read_blocks(device, geometry, block, count) {
            Some(bytes) => parse_run(geometry, index, block, Some(&bytes), &mut slots),
            None => {
                for step in 0..count {
                    let block = BlockNo(block.0.saturating_add(u64::from(step)));
                    let bytes = read_blocks(device, geometry, block, 1);
                    parse_run(geometry, index + step, block, bytes.as_deref(), &mut slots);
                }
            }
        }
        index += count;
    }
    let missing = Slot { desc: GroupDesc::default(), is_readable: false, checked: None, block: BlockNo(0) };
    slots.resize(geometry.group_count as usize, missing);
    slots
}

/// The backups of the descriptor of `group` that could be read and have a right checksum.
pub(super) fn backups(device: &dyn Device, geometry: &Geometry, group: GroupNo) -> Vec<Slot> {
    let index = group.0 / geometry.descs_per_block();
    let within = (group.0 % geometry.descs_per_block()) as usize;
    let copies = geometry.descriptor_copies(index, COPIES_MAX).into_iter().skip(1);
    let slots = copies.filter_map(|block| {
        let bytes = read_blocks(device, geometry, block, 1)?;
        let size = geometry.desc_size as usize;
        Some(parse(geometry, group, block, bytes.get(within * size..(within + 1) * size)?))
    });
    slots.filter(Slot::is_credible).collect()
}

/// The descriptors in a copy of descriptor block `index`, 0 being the primary one, with the numbers of their groups; `None` where there is none that can be
/// read.
pub(super) fn copy_of_block(
    device: &dyn Device,
    geometry: &Geometry,
    index: u32,
    copy: usize,
) -> Option<impl Iterator<Item = (u32, Slot)>> {
    let block = geometry.descriptor_copies(index, copy + 1).get(copy).copied()?;
    let bytes = read_blocks(device, geometry, block, 1)?;
    let mut slots = Vec::new();
    parse_run(geometry, index, block, Some(&bytes), &mut slots);
    let first = index.saturating_mul(geometry.descs_per_block());
    Some((first..).zip(slots))
}

/// The bytes of `count` blocks; `None` where they cannot be read.
pub(super) fn read_blocks(
    device: &dyn Device,
    geometry: &Geometry,
    block: BlockNo,
    count: u32,
) -> Option<Vec<u8>> {
    let block_size = u64::from(geometry.block_size);
    let offset = block.0.checked_mul(block_size)?;
    let len = u64::from(count) * block_size;
    if offset.checked_add(len)? > device.len() {
        return None;
    }
    let mut bytes = vec![0; width::index(len)];
    device.read_at(offset, &mut bytes).ok().map(|()| bytes)
}

/// Parses the descriptors of the blocks from `index` on; `bytes` is `None` for one block that cannot be read.
fn parse_run(geometry: &Geometry, index: u32, block: BlockNo, bytes: Option<&[u8]>, slots: &mut Vec<Slot>) {
    let per_block = geometry.descs_per_block();
    let blocks = bytes.map_or(1, |bytes| width::len_u32(bytes.len() / geometry.block_size as usize));
    let first = u64::from(index) * u64::from(per_block);
    let end = (first + u64::from(blocks) * u64::from(per_block)).min(u64::from(geometry.group_count));
    for number in first..end {
        let group = GroupNo(width::low_u32(number));
        let (nth, within) =
            ((number - first) / u64::from(per_block), (number - first) % u64::from(per_block));
        let block = BlockNo(block.0 + nth);
        let start = width::index(nth) * geometry.block_size as usize
            + width::index(within) * geometry.desc_size as usize;
        let desc = bytes.and_then(|bytes| bytes.get(start..start + geometry.desc_size as usize));
        slots.push(match desc {
            Some(desc) => parse(geometry, group, block, desc),
            None => Slot { desc: GroupDesc::default(), is_readable: false, checked: None, block },
        });
    }
}

fn parse(geometry: &Geometry, group: GroupNo, block: BlockNo, bytes: &[u8]) -> Slot {
    let mut raw = RawGroupDesc::new_zeroed();
    let len = bytes.len().min(size_of::<RawGroupDesc>());
    raw.as_mut_bytes()[..len].copy_from_slice(&bytes[..len]);
    let checked =
        checksum::group_desc(geometry.features, geometry.checksum_seed, &geometry.uuid, group, bytes);
    Slot { desc: GroupDesc::parse(&raw, geometry.wide_descriptors()), is_readable: true, checked, block }
}
