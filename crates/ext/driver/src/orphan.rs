// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files without names: the list of orphans in the superblock, chained through `i_dtime`, so that a crash does not leave them behind; and
//! the end of an inode.

use std::collections::HashSet;

use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Compat, RoCompat};
use fsmend_ext_format::orphan_file;
use fsmend_vfs::{InodeNo, Result, Time};

use crate::inode::Inode;
use crate::volume::Volume;

/// A block of the orphan file that is being emptied. An entry goes in the operation that frees the inode, so that no crash leaves one without the
/// other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrphanBlock {
    place: u64,
    /// The checksum seed of the file.
    seed: u32,
}

impl Volume {
    /// Puts an inode in front of the list; the caller saves it.
    pub fn add_orphan(&mut self, inode: &mut Inode) -> Result<()> {
        let first = self.superblock()?.s_last_orphan.get();
        inode.raw.i_dtime.set(first);
        self.change_superblock(|superblock| superblock.s_last_orphan.set(inode.number.0))
    }

    /// Takes an inode from the list, or from the block of the orphan file that is being emptied, if it is there; the caller saves it.
    pub fn remove_orphan(&mut self, inode: &mut Inode) -> Result<()> {
        if let Some(block) = self.orphan_block {
            self.clear_orphan_entries(block, |number| number == inode.number)?;
        }
        let next = inode.raw.i_dtime.get();
        let mut at = self.superblock()?.s_last_orphan.get();
        if at == inode.number.0 {
            self.change_superblock(|superblock| superblock.s_last_orphan.set(next))?;
        } else {
            for _ in 0..self.geometry.inodes_count {
                if at == 0 {
                    return Ok(());
                }
                let mut other = self.load_any(InodeNo(at))?;
                at = other.raw.i_dtime.get();
                if at == inode.number.0 {
                    other.raw.i_dtime.set(next);
                    self.save(&mut other)?;
                    break;
                }
            }
        }
        inode.raw.i_dtime.set(0);
        Ok(())
    }

    /// An inode has lost its last name, as part of an operation. It goes at once if it is not held and small; otherwise it
    /// becomes an orphan. Returns whether [`Volume::finish_removal`] has to go on.
    pub fn drop_inode(&mut self, inode: &mut Inode, now: Time) -> Result<bool> {
        if self.is_held(inode.number) {
            self.add_orphan(inode)?;
            self.save(inode)?;
            return Ok(false);
        }
        if self.empty_inode(inode)? {
            self.end_inode(inode, now)?;
            return Ok(false);
        }
        self.add_orphan(inode)?;
        self.save(inode)?;
        Ok(true)
    }

    /// Gives back what an inode has; returns whether that is all, or the running transaction is full.
    fn empty_inode(&mut self, inode: &mut Inode) -> Result<bool> {
        if inode.has_map() {
            self.set_size(inode, 0)?;
            if !self.cut_map(inode, 0)? {
                return Ok(false);
            }
        }
        self.drop_attribute_block(inode)?;
        Ok(true)
    }

    /// The number of the inode is free again.
    fn end_inode(&mut self, inode: &mut Inode, now: Time) -> Result<()> {
        // A time of deletion below the number of inodes would look like a link of the list of orphans.
        let deleted =
            u32::try_from(now.seconds).unwrap_or(u32::MAX).max(self.geometry.inodes_count.saturating_add(1));
        inode.raw.i_dtime.set(deleted);
        inode.raw.i_links_count.set(0);
        self.save(inode)?;
        self.charge(inode, 0, -1)?;
        self.free_inode(inode.number, inode.is_directory())
    }

    /// Removes an inode that is on the list of orphans.
    pub fn finish_removal(&mut self, number: InodeNo, now: Time) -> Result<()> {
        loop {
            let is_done = self.operation(now, |volume| {
                let mut inode = volume.load_any(number)?;
                volume.check_inode(&inode)?;
                if !volume.empty_inode(&mut inode)? {
                    volume.save(&mut inode)?;
                    return Ok(false);
                }
                volume.remove_orphan(&mut inode)?;
                volume.end_inode(&mut inode, now)?;
                Ok(true)
            })?;
            if is_done {
                return Ok(());
            }
            self.commit(now)?;
        }
    }

    /// What a crash has left: files without names go, files that were being cut are cut.
    pub fn clean_up_orphans(&mut self, now: Time) -> Result<()> {
        let mut seen = HashSet::new();
        loop {
            let first = self.superblock()?.s_last_orphan.get();
            if first == 0 {
                break;
            }
            let usable = InodeNo(first);
            if !seen.insert(first) || !self.may_be_orphan(usable) {
                return Err(self.cache.corrupt(|| format!("inode {first} cannot be an orphan")));
            }
            self.finish_orphan(usable, now)?;
        }
        if self.geometry.features.has_ro_compat(RoCompat::ORPHAN_PRESENT) {
            self.clean_up_orphan_file(now)?;
        }
        Ok(())
    }

    fn may_be_orphan(&mut self, inode: InodeNo) -> bool {
        inode.0 >= self.geometry.first_inode && self.is_inode_in_use(inode).unwrap_or(false)
    }

    fn finish_orphan(&mut self, number: InodeNo, now: Time) -> Result<()> {
        let inode = self.load_any(number)?;
        self.check_inode(&inode)?;
        if inode.links() == 0 { self.finish_removal(number, now) } else { self.finish_cut(number, now) }
    }

    fn clean_up_orphan_file(&mut self, now: Time) -> Result<()> {
        let number = InodeNo(self.superblock()?.s_orphan_file_inum.get());
        if !self.geometry.features.has_compat(Compat::ORPHAN_FILE) {
            return Err(self.cache.corrupt(|| "orphans in an orphan file that is not there".into()));
        }
        let file = self.load(number)?;
        let seed = self.seed_of(&file);
        let blocks = file.raw.size() / u64::from(self.geometry.block_size);
        for logical in 0..blocks.min(self.geometry.blocks_count) {
            let Some(place) = self.map(&file, logical, 1)?.physical else { continue };
            let bytes = self.cache.get(place)?;
            if !orphan_file::has_magic(&bytes) {
                return Err(self.cache.corrupt(|| format!("block {logical} of the orphan file is none")));
            }
            let orphans: Vec<InodeNo> = orphan_file::entries(&bytes).collect();
            drop(bytes);
            let block = OrphanBlock { place, seed };
            self.orphan_block = Some(block);
            for orphan in orphans {
                if orphan.0 < self.geometry.first_inode || orphan.0 > self.geometry.inodes_count {
                    return Err(self.cache.corrupt(|| format!("inode {orphan} cannot be an orphan")));
                }
                // An older version of this driver freed an inode first and removed its entry later.
                if self.is_inode_in_use(orphan)? {
                    self.finish_orphan(orphan, now)?;
                }
            }
            self.orphan_block = None;
            self.operation(now, |volume| volume.clear_orphan_entries(block, |_| true))?;
        }
        self.operation(now, |volume| {
            volume.change_superblock(|superblock| {
                let features = superblock.s_feature_ro_compat.get() & !RoCompat::ORPHAN_PRESENT.bits();
                superblock.s_feature_ro_compat.set(features);
            })
        })?;
        self.geometry.features.ro_compat &= !RoCompat::ORPHAN_PRESENT;
        Ok(())
    }

    /// Removes entries from a block of the orphan file, as part of an operation.
    fn clear_orphan_entries(&mut self, block: OrphanBlock, is_gone: impl Fn(InodeNo) -> bool) -> Result<()> {
        let bytes = self.cache.change(block.place)?;
        orphan_file::clear(bytes, is_gone);
        if self.geometry.features.metadata_csum() {
            checksum::seal_orphan_block(block.seed, fsmend_base::BlockNo(block.place), bytes);
        }
        Ok(())
    }

    /// Notes that an inode is held once more.
    pub fn hold(&mut self, number: InodeNo) -> Result<()> {
        self.load(number)?;
        self.held.hold(number);
        Ok(())
    }

    /// An inode is held `count` times fewer.
    pub fn release(&mut self, number: InodeNo, count: u64, now: Time) -> Result<()> {
        if !self.held.release(number, count)? {
            return Ok(());
        }
        let inode = self.load_any(number)?;
        if inode.links() == 0 && self.check_writable().is_ok() {
            return self.finish_removal(number, now);
        }
        Ok(())
    }
}
