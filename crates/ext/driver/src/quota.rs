// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quotas: what users, groups and projects use is kept up in hidden files, in the same transaction as what they use it for, and no caller
//! gets more than the limits there allow.
//!
//! Code that changes what an inode takes reports it here ([`Volume::charge`]). The entry of each id is changed in its block at once: so an operation that fails takes its
//! charges back with its blocks, and a file that has to grow for a new id finds room or lets the operation fail. Limits hold for every id but 0, and for
//! every caller but the superuser, as in the kernel; what passes a soft limit begins its time of grace.

use std::collections::HashMap;

use fsmend_base::width;
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::inode::{InodeFlags, special};
use fsmend_ext_format::quota::build::QuotaInfo;
use fsmend_ext_format::quota::tree::{self, head, leaf};
use fsmend_ext_format::quota::{
    QUOTA_BLOCK_SIZE, QUOTA_TREE_DEPTH, QUOTA_TREE_ROOT, QuotaEntry, QuotaType, QuotaVersion, version,
};
use fsmend_vfs::{Errno, InodeNo, Result};

use crate::inode::Inode;
use crate::policy::BlockKind;
use crate::volume::Volume;

/// Places of entries that are remembered.
const PLACES_MAX: usize = 4096;
/// No implementation reads a longer file.
const FILE_BYTES_MAX: u64 = 1 << 31;

/// One quota file.
#[derive(Clone, Copy, Debug)]
struct QuotaFile {
    kind: QuotaType,
    inode: InodeNo,
    version: QuotaVersion,
    info: QuotaInfo,
}

/// Where an entry stands: block of the device, and byte in it.
#[derive(Clone, Copy, Debug)]
struct Place {
    block: u64,
    leaf: usize,
    at: usize,
}

/// The quota files of a file system; none where it has no quotas.
#[derive(Default)]
pub(crate) struct Quotas {
    files: Vec<QuotaFile>,
    /// Inodes that are not charged, besides the reserved ones.
    hidden: [u32; 4],
    /// Where entries stand, by kind and id. They never move.
    places: HashMap<(u8, u32), Place>,
}

impl Quotas {
    /// An operation has failed: entries that it made are not there any more.
    pub fn take_back(&mut self) {
        self.places.clear();
    }

    fn counts(&self, inode: &Inode, first_inode: u32) -> bool {
        let number = inode.number.0;
        let is_ordinary = number >= first_inode && !self.hidden.contains(&number);
        (number == special::ROOT || is_ordinary) && !inode.raw.has_flag(InodeFlags::EA_INODE)
    }
}

/// Whose an inode is, for each kind of quota.
fn owners(inode: &Inode) -> [u32; 3] {
    [inode.raw.uid(), inode.raw.gid(), inode.raw.project()]
}

/// What an id uses more, or less.
#[derive(Clone, Copy, Debug)]
struct Charge {
    bytes: i64,
    inodes: i64,
}

/// One of the two things that are limited.
struct Limited {
    used: u64,
    hard: u64,
    soft: u64,
}

/// Adds `more` to what is limited, and says when the grace ends (0: it has not begun).
fn add(
    limited: Limited,
    more: i64,
    grace_end: u64,
    (grace, now): (u64, u64),
    is_bound: bool,
) -> Result<(u64, u64)> {
    let Limited { used, hard, soft } = limited;
    let then = used.saturating_add_signed(more);
    if more <= 0 {
        return Ok((then, if then <= soft { 0 } else { grace_end }));
    }
    let passes = |limit: u64| limit != 0 && then > limit;
    let is_over = passes(hard) || (passes(soft) && grace_end != 0 && now >= grace_end);
    if is_over && is_bound {
        return Err(Errno::OverQuota);
    }
    let begins = passes(soft) && grace_end == 0;
    Ok((then, if begins { now.saturating_add(grace) } else { grace_end }))
}

impl Volume {
    /// Finds the quota files, which have to be in order.
    pub fn open_quotas(&mut self) -> Result<()> {
        if !self.geometry.features.has_ro_compat(RoCompat::QUOTA) {
            return Ok(());
        }
        let superblock = self.superblock()?;
        let numbers = [superblock.s_usr_quota_inum, superblock.s_grp_quota_inum, superblock.s_prj_quota_inum]
            .map(|number| number.get());
        let [user, group, project] = numbers;
        self.quotas.hidden = [user, group, project, superblock.s_orphan_file_inum.get()];
        for (kind, number) in QuotaType::ALL.into_iter().zip(numbers).filter(|(_, number)| *number != 0) {
            let file = self.open_quota(kind, InodeNo(number))?;
            self.quotas.files.push(file);
        }
        Ok(())
    }

    fn open_quota(&mut self, kind: QuotaType, number: InodeNo) -> Result<QuotaFile> {
        let info = QuotaInfo::default();
        let file = QuotaFile { kind, inode: number, version: QuotaVersion::R1, info };
        let Ok(inode) = self.load(number) else { return Err(self.broken_quota(&file)) };
        let is_possible =
            inode.is_regular() && inode.has_map() && inode.raw.size() <= FILE_BYTES_MAX && number.0 > 2;
        let head = if is_possible { self.quota_block(&file, 0).ok() } else { None };
        let found = head.and_then(|head| Some((version(&head, kind)?, QuotaInfo::of(&head, kind)?)));
        match found {
            Some((version, info)) => Ok(QuotaFile { version, info, ..file }),
            None => Err(self.broken_quota(&file)),
        }
    }

    fn broken_quota(&mut self, file: &QuotaFile) -> Errno {
        let word = file.kind.word();
        self.cache.corrupt(|| format!("the {word} quota file is damaged (fsmend repair rebuilds it)"))
    }

    /// Where a block of a quota file stands: block of the device, and byte in it.
    fn quota_place(&mut self, file: &QuotaFile, index: u32) -> Result<(u64, usize)> {
        let inode = self.load_any(file.inode)?;
        let byte = u64::from(index) * QUOTA_BLOCK_SIZE as u64;
        let size = u64::from(self.geometry.block_size);
        let run = self.map(&inode, byte / size, 1)?;
        match run.physical.filter(|_| !run.unwritten && byte < inode.raw.size()) {
            Some(block) => Ok((block, width::index(byte % size))),
            None => Err(self.broken_quota(file)),
        }
    }

    fn quota_block(&mut self, file: &QuotaFile, index: u32) -> Result<Vec<u8>> {
        let (block, at) = self.quota_place(file, index)?;
        let bytes = self.cache.get(block)?;
        Ok(bytes.get(at..at + QUOTA_BLOCK_SIZE).ok_or(Errno::Corrupt)?.to_vec())
    }

    fn put_quota_block(&mut self, file: &QuotaFile, index: u32, bytes: &[u8]) -> Result<()> {
        let (block, at) = self.quota_place(file, index)?;
        let place = self.cache.change(block)?.get_mut(at..at + bytes.len()).ok_or(Errno::Corrupt)?;
        place.copy_from_slice(bytes);
        Ok(())
    }

    /// The owner of an inode uses so much more (or less).
    pub fn charge(&mut self, inode: &Inode, bytes: i64, inodes: i64) -> Result<()> {
        if !self.is_charged(inode) || (bytes, inodes) == (0, 0) {
            return Ok(());
        }
        let ids = owners(inode);
        for file in self.quotas.files.clone() {
            self.charge_id(&file, ids[file.kind as usize], Charge { bytes, inodes })?;
        }
        Ok(())
    }

    fn is_charged(&self, inode: &Inode) -> bool {
        !self.quotas.files.is_empty() && self.quotas.counts(inode, self.geometry.first_inode)
    }

    /// Gives an inode to another owner, who is charged for it from now on.
    pub fn give_to(&mut self, inode: &mut Inode, uid: u32, gid: u32) -> Result<()> {
        let before = owners(inode);
        inode.set_owner(uid, gid);
        if !self.is_charged(inode) {
            return Ok(());
        }
        let after = owners(inode);
        let sectors = inode.sectors(self.has_huge_files(), self.geometry.block_size);
        let bytes = i64::try_from(sectors.saturating_mul(512)).map_err(|_| Errno::Corrupt)?;
        for file in self.quotas.files.clone() {
            let (old, new) = (before[file.kind as usize], after[file.kind as usize]);
            if old != new {
                self.charge_id(&file, new, Charge { bytes, inodes: 1 })?;
                self.charge_id(&file, old, Charge { bytes: -bytes, inodes: -1 })?;
            }
        }
        Ok(())
    }

    fn charge_id(&mut self, file: &QuotaFile, id: u32, charge: Charge) -> Result<()> {
        let place = match self.find_quota(file, id)? {
            Some(place) => place,
            None if charge.bytes <= 0 && charge.inodes <= 0 => return Ok(()),
            None => self.make_quota(file, id)?,
        };
        let bytes = self.cache.get(place.block)?;
        let block = bytes.get(place.leaf..place.leaf + QUOTA_BLOCK_SIZE).ok_or(Errno::Corrupt)?;
        let entry = tree::entry_at(block, file.version, place.at).filter(|entry| entry.id == id);
        drop(bytes);
        let Some(entry) = entry else { return Err(self.broken_quota(file)) };
        let entry = self.charged(file, entry, charge)?;
        let bytes = self.cache.change(place.block)?;
        let block = bytes.get_mut(place.leaf..place.leaf + QUOTA_BLOCK_SIZE).ok_or(Errno::Corrupt)?;
        // What an entry of the older version cannot say is no limit.
        if tree::put_entry(block, file.version, place.at, &entry) { Ok(()) } else { Err(Errno::OverQuota) }
    }

    /// What an entry says after a charge; an error if limits do not allow it.
    fn charged(&self, file: &QuotaFile, mut entry: QuotaEntry, charge: Charge) -> Result<QuotaEntry> {
        let is_bound = entry.id != 0 && self.caller.uid != 0;
        let now = u64::try_from(self.now.seconds).unwrap_or(0);
        let limits = &mut entry.limits;
        let bytes = |kib: u64| kib.saturating_mul(1024);
        let space = Limited { used: entry.bytes, hard: bytes(limits.kib_hard), soft: bytes(limits.kib_soft) };
        let grace = (u64::from(file.info.space_grace), now);
        (entry.bytes, limits.kib_grace_end) =
            add(space, charge.bytes, limits.kib_grace_end, grace, is_bound)?;
        let inodes = Limited { used: entry.inodes, hard: limits.inodes_hard, soft: limits.inodes_soft };
        let grace = (u64::from(file.info.inodes_grace), now);
        (entry.inodes, limits.inodes_grace_end) =
            add(inodes, charge.inodes, limits.inodes_grace_end, grace, is_bound)?;
        Ok(entry)
    }

    fn find_quota(&mut self, file: &QuotaFile, id: u32) -> Result<Option<Place>> {
        let key = (file.kind as u8, id);
        if let Some(place) = self.quotas.places.get(&key) {
            return Ok(Some(*place));
        }
        let mut index = QUOTA_TREE_ROOT;
        for level in 0..QUOTA_TREE_DEPTH {
            let block = self.quota_block(file, index)?;
            index = tree::number(&block, tree::slot(id, level));
            match index {
                0 => return Ok(None),
                QUOTA_TREE_ROOT => return Err(self.broken_quota(file)),
                _ => {}
            }
        }
        let bytes = self.quota_block(file, index)?;
        match tree::find(&bytes, file.version, id) {
            Some(at) => self.remember(file, id, index, at).map(Some),
            None => Err(self.broken_quota(file)),
        }
    }

    fn remember(&mut self, file: &QuotaFile, id: u32, index: u32, at: usize) -> Result<Place> {
        let (block, leaf) = self.quota_place(file, index)?;
        let place = Place { block, leaf, at };
        if self.quotas.places.len() >= PLACES_MAX {
            self.quotas.places.clear();
        }
        self.quotas.places.insert((file.kind as u8, id), place);
        Ok(place)
    }

    /// Makes the entry of an id that has none.
    fn make_quota(&mut self, file: &QuotaFile, id: u32) -> Result<Place> {
        let (index, at) = self.place_in_leaf(file, id)?;
        let mut above = QUOTA_TREE_ROOT;
        for level in 0..QUOTA_TREE_DEPTH {
            let slot = tree::slot(id, level);
            let below = tree::number(&self.quota_block(file, above)?, slot);
            let is_last = level + 1 == QUOTA_TREE_DEPTH;
            if (is_last && below != 0) || below == QUOTA_TREE_ROOT {
                return Err(self.broken_quota(file));
            }
            let target = match (is_last, below) {
                (true, _) => index,
                (false, 0) => self.new_quota_block(file)?,
                (false, below) => below,
            };
            if target != below {
                let mut block = self.quota_block(file, above)?;
                tree::set_number(&mut block, slot, target);
                self.put_quota_block(file, above, &block)?;
            }
            above = target;
        }
        self.remember(file, id, index, at)
    }

    /// Takes a place in a leaf for an id that uses nothing yet. A leaf that is full then goes from the list.
    fn place_in_leaf(&mut self, file: &QuotaFile, id: u32) -> Result<(u32, usize)> {
        let mut head = self.quota_block(file, 0)?;
        let mut index = tree::number(&head, head::FREE_ENTRY);
        let is_new = index == 0;
        if is_new {
            index = self.new_quota_block(file)?;
            head = self.quota_block(file, 0)?;
            tree::set_number(&mut head, head::FREE_ENTRY, index);
        }
        if index <= QUOTA_TREE_ROOT {
            return Err(self.broken_quota(file));
        }
        let mut block = self.quota_block(file, index)?;
        let entry = QuotaEntry { id, ..QuotaEntry::default() };
        let Some(at) = tree::free_place(&block, file.version) else { return Err(self.broken_quota(file)) };
        tree::put_entry(&mut block, file.version, at, &entry);
        let count = tree::count(&block).saturating_add(1);
        tree::set_count(&mut block, count);
        if usize::from(count) >= tree::places(file.version) {
            let next = tree::number(&block, leaf::NEXT);
            tree::set_number(&mut block, leaf::NEXT, 0);
            tree::set_number(&mut block, leaf::PREVIOUS, 0);
            tree::set_number(&mut head, head::FREE_ENTRY, next);
            if next != 0 {
                let mut other = self.quota_block(file, next)?;
                tree::set_number(&mut other, leaf::PREVIOUS, 0);
                self.put_quota_block(file, next, &other)?;
            }
        }
        self.put_quota_block(file, index, &block)?;
        self.put_quota_block(file, 0, &head)?;
        Ok((index, at))
    }

    /// A block of zeroes for the file: a free one of its own, or one more at its end.
    fn new_quota_block(&mut self, file: &QuotaFile) -> Result<u32> {
        let mut head = self.quota_block(file, 0)?;
        let (free, count) = (tree::number(&head, head::FREE_BLOCK), tree::number(&head, head::BLOCKS));
        if free != 0 && (free >= count || free <= QUOTA_TREE_ROOT) || count <= QUOTA_TREE_ROOT {
            return Err(self.broken_quota(file));
        }
        let index = if free == 0 { count } else { free };
        if free == 0 {
            self.grow_quota(file, index)?;
            tree::set_number(&mut head, head::BLOCKS, count.checked_add(1).ok_or(Errno::NoSpace)?);
        } else {
            let next = tree::number(&self.quota_block(file, free)?, leaf::NEXT);
            tree::set_number(&mut head, head::FREE_BLOCK, next);
        }
        self.put_quota_block(file, index, &[0; QUOTA_BLOCK_SIZE])?;
        self.put_quota_block(file, 0, &head)?;
        Ok(index)
    }

    /// Makes the file reach as far as its block `index`.
    fn grow_quota(&mut self, file: &QuotaFile, index: u32) -> Result<()> {
        let mut inode = self.load(file.inode)?;
        let end = (u64::from(index) + 1) * QUOTA_BLOCK_SIZE as u64;
        if end > FILE_BYTES_MAX {
            return Err(Errno::NoSpace);
        }
        let logical = (end - 1) / u64::from(self.geometry.block_size);
        if self.map(&inode, logical, 1)?.physical.is_none() {
            let (place, _) = self.map_new(&mut inode, logical, 1, BlockKind::Data, false)?;
            self.cache.create(place)?;
        }
        if end > inode.raw.size() {
            self.set_size(&mut inode, end)?;
        }
        self.save(&mut inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(used: u64, hard: u64, soft: u64) -> Limited {
        Limited { used, hard, soft }
    }

    #[test]
    fn hard_limits_bind_and_soft_ones_when_the_grace_is_over() {
        let times = (100, 1000);
        assert_eq!(add(with(5, 10, 0), 5, 0, times, true), Ok((10, 0)));
        assert_eq!(add(with(5, 10, 0), 6, 0, times, true), Err(Errno::OverQuota));
        assert_eq!(add(with(5, 10, 0), 6, 0, times, false), Ok((11, 0)), "not for the superuser");
        assert_eq!(add(with(5, 0, 7), 3, 0, times, true), Ok((8, 1100)), "the grace begins");
        assert_eq!(add(with(8, 0, 7), 3, 1100, times, true), Ok((11, 1100)), "and goes on");
        assert_eq!(add(with(8, 0, 7), 3, 1000, times, true), Err(Errno::OverQuota));
        assert_eq!(add(with(8, 0, 7), -1, 1000, times, true), Ok((7, 0)), "back below");
        assert_eq!(add(with(9, 0, 7), -1, 1000, times, true), Ok((8, 1000)));
        assert_eq!(add(with(3, 0, 0), -9, 0, times, true), Ok((0, 0)), "never below nothing");
        assert_eq!(add(with(20, 10, 0), 0, 0, times, true), Ok((20, 0)), "nothing more is not too much");
    }
}
