// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a block of a file to its fragments, and back: pointers in the inode and in indirect blocks.
//!
//! An operation that gives a file new blocks gathers its changes of indirect blocks that were there before ([`Changes`]), since they have to reach the device after
//! the inode with its new size.

use std::collections::{HashMap, HashSet};

use fsmend_base::width;
use fsmend_ufs_format::inode::Path;
use fsmend_ufs_format::order::Version;
use fsmend_vfs::{Errno, Result};

use crate::inode::Inode;
use crate::policy::BlockKind;
use crate::volume::Volume;

/// What an operation changes in indirect blocks.
#[derive(Default)]
pub(crate) struct Changes {
    /// Indirect blocks that the operation has made.
    fresh: HashSet<u64>,
    /// Pointers in others: indirect block and index, value.
    late: HashMap<(u64, u64), u64>,
    /// Runs that the file has left, and whether they held metadata.
    left: Vec<(u64, u64, bool)>,
    /// The block that was taken last, so that the next one follows it.
    last: Option<(u64, u64)>,
}

/// Where a block of a file is after [`Volume::obtain`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// First fragment.
    pub at: u64,
    /// Fragments.
    pub fragments: u64,
    /// Fragments that it had.
    pub had: u64,
    /// Where they were, if it had to move.
    pub moved_from: Option<u64>,
}

/// Who holds a pointer.
#[derive(Clone, Copy)]
enum Holder {
    Inode(usize),
    Block(u64, u64),
}

impl Volume {
    fn pointer_place(&self, block: u64, index: u64) -> (u64, usize) {
        let byte = index * self.geometry.version.pointer_size() as u64;
        (block + byte / self.geometry.fragment_size, width::index(byte % self.geometry.fragment_size))
    }

    /// A pointer in an indirect block.
    pub fn read_pointer(&mut self, block: u64, index: u64) -> Result<u64> {
        let (fragment, at) = self.pointer_place(block, index);
        let order = self.geometry.order;
        let bytes = self.cache.get(fragment)?;
        Ok(match self.geometry.version {
            Version::Ufs1 => order.u32(&bytes, at).into(),
            Version::Ufs2 => order.u64(&bytes, at),
        })
    }

    pub fn write_pointer(&mut self, block: u64, index: u64, value: u64) -> Result<()> {
        let (fragment, at) = self.pointer_place(block, index);
        let (order, version) = (self.geometry.order, self.geometry.version);
        let bytes = self.cache.change(fragment)?;
        match version {
            Version::Ufs1 => order.put_u32(bytes, at, u32::try_from(value).map_err(|_| Errno::TooLarge)?),
            Version::Ufs2 => order.put_u64(bytes, at, value),
        }
        Ok(())
    }

    /// An error for a pointer that cannot be that of `count` fragments of a file.
    pub fn check_run(&mut self, inode: &Inode, first: u64, count: u64) -> Result<()> {
        if self.geometry.may_be_data(first, count) {
            return Ok(());
        }
        let number = inode.number;
        Err(self
            .cache
            .corrupt(|| format!("inode {number} points to fragment {first}, which is not for files")))
    }

    /// First fragment of block `index` of a file; 0 is a hole.
    pub fn map(&mut self, inode: &Inode, index: u64) -> Result<u64> {
        let path = Path::to(index, self.geometry.pointers).ok_or(Errno::TooLarge)?;
        let mut at = inode.raw.pointer(path.pointer(index));
        for level in 0..path.levels {
            if at == 0 {
                return Ok(0);
            }
            self.check_run(inode, at, self.geometry.fragments)?;
            at = self.read_pointer(at, path.indices[level])?;
        }
        if at != 0 {
            let fragments = self.geometry.block_fragments(inode.raw.size(), index).max(1);
            self.check_run(inode, at, fragments)?;
        }
        Ok(at)
    }

    /// Gives block `index` of a file as many fragments as it needs when the file is `new_size` bytes long. What stands in them, the caller sees to; the inode has its old
    /// size still.
    pub fn obtain(
        &mut self,
        inode: &mut Inode,
        index: u64,
        new_size: u64,
        kind: BlockKind,
        changes: &mut Changes,
    ) -> Result<Place> {
        let old = self.map(inode, index)?;
        let needed = self.geometry.block_fragments(new_size, index);
        let had = if old == 0 { 0 } else { self.geometry.block_fragments(inode.raw.size(), index) };
        if had >= needed {
            return Ok(Place { at: old, fragments: had, had, moved_from: None });
        }
        let size = self.geometry.fragment_size;
        if had > 0 && self.extend_run(old, had, needed)? {
            inode.count_fragments(size, needed - had, 0);
            return Ok(Place { at: old, fragments: needed, had, moved_from: None });
        }
        // A block with a pointer behind the end of the file cannot be; it would be lost here.
        if old != 0 && had == 0 {
            let number = inode.number;
            return Err(self.cache.corrupt(|| format!("inode {number} has blocks behind its end")));
        }
        let previous = self.previous(inode, index, changes)?;
        // The way is made first, so that an indirect block comes to lie before its data.
        let holder = self.make_way(inode, index, previous, changes)?;
        let previous = changes.last.filter(|(logical, _)| *logical == index).map(|(_, at)| at).or(previous);
        let at = self.take_fragments(&self.ask(inode, kind, index, previous), needed)?;
        inode.count_fragments(size, needed, had);
        self.put(inode, holder, at, changes)?;
        changes.last = Some((index + 1, at));
        if had > 0 {
            changes.left.push((old, had, kind != BlockKind::Data));
        }
        let moved_from = (had > 0).then_some(old);
        Ok(Place { at, fragments: needed, had, moved_from })
    }

    /// The block before block `index`.
    fn previous(&mut self, inode: &Inode, index: u64, changes: &Changes) -> Result<Option<u64>> {
        if let Some((_, at)) = changes.last.filter(|(logical, _)| *logical == index) {
            return Ok(Some(at));
        }
        if index == 0 {
            return Ok(None);
        }
        let at = self.map(inode, index - 1)?;
        Ok((at != 0).then_some(at))
    }

    /// Makes the indirect blocks on the way to block `index`, and returns who holds its pointer.
    fn make_way(
        &mut self,
        inode: &mut Inode,
        index: u64,
        previous: Option<u64>,
        changes: &mut Changes,
    ) -> Result<Holder> {
        let path = Path::to(index, self.geometry.pointers).ok_or(Errno::TooLarge)?;
        let slot = path.pointer(index);
        let mut holder = Holder::Inode(slot);
        let mut at = inode.raw.pointer(slot);
        let mut previous = previous;
        for level in 0..path.levels {
            if at == 0 {
                let above = u8::try_from(path.levels - level).unwrap_or(1);
                let ask = self.ask(inode, BlockKind::Map(above), index, previous);
                at = self.take_fragments(&ask, self.geometry.fragments)?;
                for fragment in at..at + self.geometry.fragments {
                    self.cache.create(fragment)?;
                }
                changes.fresh.insert(at);
                inode.count_fragments(self.geometry.fragment_size, self.geometry.fragments, 0);
                self.put(inode, holder, at, changes)?;
                let is_in_line = previous.is_some_and(|previous| at == previous + self.geometry.fragments);
                if is_in_line || previous.is_none() {
                    previous = Some(at);
                    changes.last = Some((index, at));
                }
            }
            self.check_run(inode, at, self.geometry.fragments)?;
            holder = Holder::Block(at, path.indices[level]);
            at = match changes.late.get(&(at, path.indices[level])) {
                Some(late) => *late,
                None => self.read_pointer(at, path.indices[level])?,
            };
        }
        Ok(holder)
    }

    fn put(&mut self, inode: &mut Inode, holder: Holder, value: u64, changes: &mut Changes) -> Result<()> {
        match holder {
            Holder::Inode(slot) => inode.raw.set_pointer(slot, value),
            Holder::Block(block, index) if changes.fresh.contains(&block) => {
                self.write_pointer(block, index, value)?;
            }
            Holder::Block(block, index) => {
                changes.late.insert((block, index), value);
            }
        }
        Ok(())
    }

    /// Saves an inode whose blocks have changed, behind the contents of the blocks and before the pointers of indirect blocks that were there.
    pub fn save_with(&mut self, inode: &mut Inode, changes: Changes) -> Result<()> {
        self.cache.then();
        self.save(inode)?;
        if !changes.late.is_empty() {
            self.cache.then();
            for ((block, index), value) in changes.late {
                self.write_pointer(block, index, value)?;
            }
        }
        if !changes.left.is_empty() {
            self.cache.then();
            for (first, count, is_metadata) in changes.left {
                self.give_back(first, count, is_metadata)?;
            }
        }
        Ok(())
    }
}
