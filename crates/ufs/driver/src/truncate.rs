// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cutting files: pointers go first, what they pointed to is given back, and the commit sees to it that it is not used too early.

use fsmend_base::width;
use fsmend_ufs_format::geometry::DIRECT;
use fsmend_ufs_format::inode::{INDIRECT, indirect_range};
use fsmend_vfs::{Errno, Result};

use crate::inode::Inode;
use crate::volume::Volume;

impl Volume {
    /// Gives back the blocks of a file behind `new_size`, and saves its inode with that size. The last block that stays has to be there.
    pub fn cut(&mut self, inode: &mut Inode, new_size: u64) -> Result<()> {
        let runs = self.cut_pointers(inode, new_size)?;
        self.cache.then();
        self.save(inode)?;
        self.cache.then();
        self.give_back_all(runs)
    }

    /// Gives back many runs: first fragment, fragments, whether they held metadata.
    pub fn give_back_all(&mut self, runs: Vec<(u64, u64, bool)>) -> Result<()> {
        runs.into_iter().try_for_each(|(first, count, is_metadata)| self.give_back(first, count, is_metadata))
    }

    /// Clears what of a file lies behind `new_size`, sets its size, and returns the runs that it does not need any more. Indirect blocks that stay are
    /// changed in this step; the caller saves the inode in the next one.
    pub fn cut_pointers(&mut self, inode: &mut Inode, new_size: u64) -> Result<Vec<(u64, u64, bool)>> {
        let is_metadata = inode.is_directory();
        let keep = self.geometry.block_count(new_size);
        let old_size = inode.raw.size();
        let mut runs = Vec::new();
        for level in (1..=INDIRECT).rev() {
            let (first, reach) = indirect_range(level, self.geometry.pointers);
            let slot = width::index(DIRECT) + level - 1;
            let root = inode.raw.pointer(slot);
            if root == 0 || first.saturating_add(reach) <= keep {
                continue;
            }
            if first >= keep {
                self.gather(inode, root, level, is_metadata, &mut runs)?;
                inode.raw.set_pointer(slot, 0);
            } else {
                self.cut_tree(inode, root, level, keep - first, is_metadata, &mut runs)?;
            }
        }
        for index in 0..DIRECT {
            let at = inode.raw.pointer(width::index(index));
            let had = self.geometry.block_fragments(old_size, index);
            let stays = self.geometry.block_fragments(new_size, index);
            if at == 0 || had <= stays {
                continue;
            }
            runs.push((at + stays, had - stays, is_metadata));
            if stays == 0 {
                inode.raw.set_pointer(width::index(index), 0);
            }
        }
        inode.raw.set_size(new_size);
        let freed = runs.iter().map(|(_, count, _)| count).sum();
        inode.count_fragments(self.geometry.fragment_size, 0, freed);
        Ok(runs)
    }

    /// Clears the pointers behind the first `keep` blocks of a tree of indirect blocks.
    fn cut_tree(
        &mut self,
        inode: &Inode,
        block: u64,
        level: usize,
        keep: u64,
        is_metadata: bool,
        runs: &mut Vec<(u64, u64, bool)>,
    ) -> Result<()> {
        let fragments = self.geometry.fragments;
        self.check_run(inode, block, fragments)?;
        let reach = self.geometry.pointers.pow(width::len_u32(level) - 1);
        for index in keep / reach..self.geometry.pointers {
            let at = self.read_pointer(block, index)?;
            if at == 0 {
                continue;
            }
            let kept = keep.saturating_sub(index * reach);
            if kept > 0 && level > 1 {
                self.cut_tree(inode, at, level - 1, kept, is_metadata, runs)?;
                continue;
            }
            match level {
                1 => {
                    self.check_run(inode, at, fragments)?;
                    runs.push((at, fragments, is_metadata));
                }
                _ => self.gather(inode, at, level - 1, is_metadata, runs)?,
            }
            self.write_pointer(block, index, 0)?;
        }
        Ok(())
    }

    /// All of a tree of indirect blocks, to be given back.
    fn gather(
        &mut self,
        inode: &Inode,
        block: u64,
        level: usize,
        is_metadata: bool,
        runs: &mut Vec<(u64, u64, bool)>,
    ) -> Result<()> {
        let fragments = self.geometry.fragments;
        self.check_run(inode, block, fragments)?;
        // A circle of damaged indirect blocks has to end.
        if runs.len() as u64 > self.geometry.size {
            return Err(Errno::Corrupt);
        }
        runs.push((block, fragments, true));
        for index in 0..self.geometry.pointers {
            let at = self.read_pointer(block, index)?;
            if at == 0 {
                continue;
            }
            if level > 1 {
                self.gather(inode, at, level - 1, is_metadata, runs)?;
            } else {
                self.check_run(inode, at, fragments)?;
                runs.push((at, fragments, is_metadata));
            }
        }
        Ok(())
    }
}
