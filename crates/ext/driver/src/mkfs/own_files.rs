// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of the file system itself that have no names: the resize inode, which keeps room for descriptors to come, and the orphan file.

use fsmend_base::{GroupNo, width};
use fsmend_ext_format::checksum;
use fsmend_ext_format::inode::special;
use fsmend_ext_format::orphan_file::{ORPHAN_BLOCK_MAGIC, ORPHAN_TAIL_SIZE};
use fsmend_vfs::{Errno, FileKind, InodeNo, Permissions, Result};

use super::Maker;
use crate::policy::{Ask, BlockKind};
use crate::volume::Volume;

/// Word of `i_block` that leads to the double indirect block.
const DOUBLE_INDIRECT: usize = 13;
/// Owner and mode of what only the file system uses.
const PRIVATE: Permissions = Permissions { mode: 0o600, uid: 0, gid: 0 };

impl Maker<'_> {
    /// The resize inode: its double indirect block lists the reserved blocks of group 0, and each of those lists its copies in the groups
    /// with backups.
    pub(super) fn make_resize_inode(&self, volume: &mut Volume) -> Result<()> {
        let geometry = &self.geometry;
        let reserved = geometry.group_head(GroupNo(0)).reserved;
        let number = InodeNo(special::RESIZE);
        let mut inode = volume.new_inode(number, FileKind::Regular, PRIVATE, self.options.now);
        inode.raw.i_links_count.set(1);
        inode.raw.i_generation.set(0);
        // Its map is one of pointers everywhere.
        inode.raw.clear_flag(fsmend_ext_format::inode::InodeFlags::EXTENTS);
        inode.raw.i_block.fill(0);
        let ask = Ask {
            inode: number,
            inode_group: GroupNo(0),
            kind: BlockKind::Map(2),
            logical: 0,
            previous: None,
        };
        let double = volume.take_blocks(&ask, 1)?.start.0;
        let per_block = u64::from(geometry.block_size / 4);
        let backups: Vec<u64> = (1..geometry.group_count)
            .filter(|group| geometry.has_superblock(GroupNo(*group)))
            .map(|group| u64::from(group) * u64::from(geometry.blocks_per_group))
            .take(width::index(per_block))
            .collect();
        volume.cache.create(double)?;
        for (step, block) in (0u64..).zip(reserved.start.0..reserved.end()) {
            let slot = (u64::from(geometry.desc_blocks()) + step) % per_block;
            put_pointer(volume.cache.change(double)?, slot, block)?;
            let list = volume.cache.create(block)?;
            for (slot, ahead) in (0..).zip(&backups) {
                put_pointer(list, slot, block + ahead)?;
            }
        }
        inode.raw.set_block_word(DOUBLE_INDIRECT, u32::try_from(double).map_err(|_| Errno::NoSpace)?);
        volume.count_blocks(&mut inode, width::signed(1 + reserved.count * (1 + backups.len() as u64)))?;
        // As long as everything that its double indirect block could reach.
        volume.set_size(
            &mut inode,
            (12 + per_block + per_block * per_block) * u64::from(geometry.block_size),
        )?;
        volume.save(&mut inode)
    }

    /// The orphan file: blocks of empty slots.
    pub(super) fn make_orphan_file(&self, volume: &mut Volume) -> Result<()> {
        let number = volume.take_inode(GroupNo(0), false)?;
        let mut inode = volume.new_inode(number, FileKind::Regular, PRIVATE, self.options.now);
        inode.raw.i_links_count.set(1);
        let size = u64::from(self.geometry.block_size);
        let has_sums = self.geometry.features.metadata_csum();
        let (mut logical, count) = (0, orphan_blocks(self.geometry.blocks_count));
        while logical < count {
            let (physical, got) =
                volume.map_new(&mut inode, logical, count - logical, BlockKind::Data, false)?;
            for block in physical..physical + got {
                let seed = volume.seed_of(&inode);
                let bytes = volume.cache.create(block)?;
                let at = bytes.len().saturating_sub(ORPHAN_TAIL_SIZE);
                let tail = bytes.get_mut(at..).ok_or(Errno::Corrupt)?;
                tail[..4].copy_from_slice(&ORPHAN_BLOCK_MAGIC.to_le_bytes());
                if has_sums {
                    checksum::seal_orphan_block(seed, fsmend_base::BlockNo(block), bytes);
                }
            }
            logical += got;
        }
        volume.set_size(&mut inode, count * size)?;
        volume.save(&mut inode)?;
        volume.change_superblock(|superblock| superblock.s_orphan_file_inum.set(number.0))
    }
}

/// Blocks of the orphan file: 32 on small file systems, then one for each 4096, up to 512.
fn orphan_blocks(blocks: u64) -> u64 {
    (blocks / 4096).clamp(32, 512)
}

fn put_pointer(list: &mut [u8], slot: u64, block: u64) -> Result<()> {
    let block = u32::try_from(block).map_err(|_| Errno::NoSpace)?;
    let at = width::index(slot * 4);
    list.get_mut(at..at + 4).ok_or(Errno::Corrupt)?.copy_from_slice(&block.to_le_bytes());
    Ok(())
}
