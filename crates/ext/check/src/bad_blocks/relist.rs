// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of bad blocks rewritten, before anything is checked: whatever it then has in common with files and metadata is mended
//! as if it had been so before.

use std::collections::BTreeSet;
use std::sync::Arc;

use fsmend_base::{BlockNo, GroupNo, InodeNo, width};
use fsmend_device::{Device, Overlay};
use fsmend_engine::Findings;
use fsmend_ext_format::group::GroupFlags;
use fsmend_ext_format::inode::{RawInode, special};
use fsmend_ext_format::rext3::IndirectHeader;

use super::{DIRECT, POINTERS, Walk, stray_field, walk};
use crate::inode::seal::seal_inode;
use crate::precheck::precheck;
use crate::run::open;
use crate::{Fs, Refusal, superblock};
use fsmend_engine::Refused;
use fsmend_engine::options::BadBlockOption;
use fsmend_engine::options::CheckOptions;
use fsmend_engine::repair::Changes;

/// Bytes of a sector, in which `i_blocks` counts.
const SECTOR: u64 = 512;

/// What has to be laid over `device`: what the replay of its journal writes, and then the list as the user wants it. Blocks that the
/// file system does not have are left out.
pub(crate) fn relist(
    device: &Arc<dyn Device>,
    options: &CheckOptions,
    option: &BadBlockOption,
) -> Result<Changes, Refused> {
    let plain = |refusal| Refused { refusal, findings: Box::default() };
    let mut overlay = Overlay::new(Arc::clone(device));
    let seen = precheck(device, options)?;
    if seen.replayed && options.external_journal.is_some() {
        // What is laid over the device cannot close a journal elsewhere.
        return Err(plain(journal_waits()));
    }
    for (offset, bytes) in seen.changes {
        // The look let nothing through behind the end of the device.
        let _ = overlay.write(offset, &bytes);
    }
    let mut quiet = Findings::new();
    let settled = superblock::settle(&overlay, options.superblock, options.now, &mut quiet).map_err(plain)?;
    let fs = open(&overlay, settled, options.now, &mut quiet);
    let writes = List::of(&fs, option).and_then(List::write).ok_or_else(|| plain(no_room()))?;
    drop(fs);
    for (offset, bytes) in writes {
        // Blocks of the file system; the check reports those behind the end of the device.
        let _ = overlay.write(offset, &bytes);
    }
    Ok(overlay.runs().map(|(offset, bytes)| (offset, bytes.to_vec())).collect())
}

fn journal_waits() -> Refusal {
    Refusal {
        code: "bad-block-list",
        message: "Cannot write the bad block list while an external journal has to be replayed".to_owned(),
        hint: "Repair the file system without a new list first".to_owned(),
    }
}

fn no_room() -> Refusal {
    Refusal {
        code: "bad-block-list",
        message: "Cannot write the bad block list: its inode cannot be read, or no block is free".to_owned(),
        hint: "Repair the file system without a new list first".to_owned(),
    }
}

struct List<'l, 'd> {
    fs: &'l Fs<'d>,
    record: Vec<u8>,
    blocks: Vec<u64>,
    /// Where indirect blocks may go: those that the list had, then free ones.
    places: Box<dyn Iterator<Item = u64> + 'l>,
    writes: Changes,
}

impl<'l, 'd> List<'l, 'd> {
    fn of(fs: &'l Fs<'d>, option: &BadBlockOption) -> Option<Self> {
        let mut record = fs.read_inode(InodeNo(special::BAD_BLOCKS))?.ok()?;
        let raw = RawInode::from_record(&record);
        let mut old = Walk::default();
        if stray_field(&raw).is_none() {
            old = walk(fs, &raw, &mut Findings::new());
        } else {
            record.fill(0);
        }
        let mut listed: BTreeSet<u64> = option.blocks.iter().copied().collect();
        if option.keeps {
            listed.extend(&old.listed);
        }
        let last = fs.geometry.blocks_count.min(1 << 32);
        listed.retain(|block| (u64::from(fs.geometry.first_data_block)..last).contains(block));
        let blocks: Vec<u64> = listed.iter().copied().collect();
        let kept: Vec<u64> = old.map_blocks.difference(&listed).copied().collect();
        let places = kept.into_iter().chain(
            free_blocks(fs).filter(move |block| !listed.contains(block) && !old.map_blocks.contains(block)),
        );
        Some(List { fs, record, blocks, places: Box::new(places), writes: Vec::new() })
    }

    fn write(mut self) -> Option<Vec<(u64, Vec<u8>)>> {
        let mut raw = RawInode::from_record(&self.record);
        let blocks = std::mem::take(&mut self.blocks);
        (0..POINTERS).for_each(|index| raw.set_block_word(index, 0));
        let (direct, mut rest) = blocks.split_at(blocks.len().min(DIRECT));
        for (index, block) in direct.iter().enumerate() {
            raw.set_block_word(index, width::low_u32(*block));
        }
        for level in 1..=width::len_u32(POINTERS - DIRECT) {
            let (part, others) = rest.split_at(rest.len().min(self.span(level)));
            if !part.is_empty() {
                raw.set_block_word(DIRECT - 1 + level as usize, self.tree(part, level)?);
            }
            rest = others;
        }
        let block_size = u64::from(self.fs.geometry.block_size);
        raw.set_size(blocks.len() as u64 * block_size);
        raw.i_blocks_lo.set(width::low_u32(blocks.len() as u64 * (block_size / SECTOR)));
        let now = width::low_u32(self.fs.now);
        raw.i_atime.set(now);
        raw.i_mtime.set(now);
        if raw.i_ctime.get() == 0 {
            raw.i_ctime.set(now);
        }
        raw.store(&mut self.record);
        let inode = InodeNo(special::BAD_BLOCKS);
        seal_inode(self.fs, inode, &mut self.record);
        self.writes.push((self.fs.inode_offset(inode)?, self.record));
        rest.is_empty().then_some(self.writes)
    }

    /// Number of blocks below an indirect block of `level`.
    fn span(&self, level: u32) -> usize {
        (self.fs.geometry.pointers_per_block() as usize).saturating_pow(level)
    }

    /// Writes an indirect block, with those below it; there are at most three levels.
    fn tree(&mut self, part: &[u64], level: u32) -> Option<u32> {
        let place = self.places.next()?;
        let geometry = &self.fs.geometry;
        let mut bytes = Vec::with_capacity(geometry.block_size as usize);
        bytes.resize(geometry.indirect_header(), 0);
        if geometry.rext3() {
            let inode = InodeNo(special::BAD_BLOCKS);
            IndirectHeader::new(
                geometry.checksum_seed,
                BlockNo(place),
                inode,
                width::low_u8(u64::from(level)),
            )
            .store(&mut bytes);
        }
        for child in part.chunks(self.span(level - 1)) {
            let pointer = match child {
                [block] if level == 1 => width::low_u32(*block),
                _ => self.tree(child, level - 1)?,
            };
            bytes.extend_from_slice(&pointer.to_le_bytes());
        }
        bytes.resize(self.fs.geometry.block_size as usize, 0);
        self.writes.push((self.fs.block_offset(BlockNo(place)), bytes));
        u32::try_from(place).ok()
    }
}

/// Blocks that the bitmaps call free and 32 bits can name, one of each cluster.
fn free_blocks<'l>(fs: &'l Fs<'_>) -> impl Iterator<Item = u64> + use<'l> {
    let geometry = &fs.geometry;
    let cluster = u64::from(geometry.cluster_blocks);
    (0..geometry.group_count).flat_map(move |number| {
        let first = geometry.group_first_block(GroupNo(number));
        let bitmap = fs.group(GroupNo(number)).and_then(|group| {
            if group.desc.has_flag(GroupFlags::BLOCK_UNINIT) {
                return Some(Vec::new());
            }
            (group.desc.block_bitmap != 0).then(|| fs.read_block(BlockNo(group.desc.block_bitmap)).ok())?
        });
        let end = geometry.blocks_count.min(first.saturating_add(u64::from(geometry.blocks_per_group)));
        let units = if bitmap.is_some() { end.saturating_sub(first).div_ceil(cluster) } else { 0 };
        let bitmap = bitmap.unwrap_or_default();
        (0..units).filter_map(move |unit| {
            let byte = bitmap.get((unit / 8) as usize).copied().unwrap_or(0);
            let block = first + unit * cluster;
            let is_free = byte & (1 << (unit % 8)) == 0 && !fs.metadata.any(block, cluster);
            let suits = fs.regions.suit(true, block, 1);
            (is_free && suits && block != 0 && block < 1 << 32).then_some(block)
        })
    })
}
