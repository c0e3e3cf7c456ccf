// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mounted file system: inodes in memory and the numbers of inodes. Room for what an operation will write is made by [`crate::admission`].
//!
//! Operations look first and change afterwards; all that they need is read before. So an operation that fails has changed nothing. What changes
//! is in memory until a segment takes it ([`crate::commit`]); if that fails, nothing can be changed any more.

use fsmend_base::width;
use fsmend_blockcache::{HeldInodes, MountState};
use std::collections::{BTreeMap, BTreeSet, HashMap};

use fsmend_hybridfs_format::{
    Attribute, Entry, Format, HEADER_LEN, INODE_LEN, Inode, Kind, Map, OWNER_IFILE, Place, ROOT, Record, Run,
    SLOT_ATTRIBUTES, parse_attributes,
};
use fsmend_vfs::{Attributes, Caller, DeviceNumber, Errno, FileKind, InodeNo, Permissions, Result, Time};

use crate::cleaner::Cleaner;
use crate::commit::extent_at;
use crate::group::Groups;
use crate::io::{Expected, Io};
use crate::space::Space;
use crate::tree::{Child, Leaves, Slot, Tree};

/// Extents that one step of a removal gives back at most; a file whose map is higher than [`AT_ONCE`] goes in steps.
const STEP_EXTENTS: usize = 1024;
/// The height of a map of which a segment can give back everything.
const AT_ONCE: u8 = 1;
/// Inodes that are kept in memory though they need not be.
const INODES_KEPT: usize = 1 << 15;
/// Inode blocks that are kept in memory though they need not be.
const BLOCKS_KEPT: usize = 1 << 11;
/// Bytes of contents that wait to be written before they are.
pub(crate) const CONTENTS_WAIT: u64 = 16 << 20;

/// Contents of an inode in memory.
pub(crate) enum Contents {
    Nothing,
    /// In the inode, or in one piece in the log; in memory when they have been needed.
    Small {
        bytes: Option<Vec<u8>>,
        at: Option<Record>,
        dirty: bool,
    },
    /// In data blocks. `blocks` wait to be written; `fresh` of them have no place yet.
    Extents {
        map: Tree,
        blocks: BTreeMap<u64, Vec<u8>>,
        fresh: u64,
        placed: u64,
    },
    Directory(Tree),
}

/// An inode in memory.
pub(crate) struct Live {
    pub disk: Inode,
    pub contents: Contents,
    pub attributes: Vec<Attribute>,
    pub attributes_at: Option<Record>,
    pub attributes_dirty: bool,
    pub dirty: bool,
    /// The segment with which its last change becomes durable.
    pub ssn: u64,
}

/// An inode block in memory.
pub(crate) struct InodeBlock {
    pub bytes: Vec<u8>,
    pub live: u32,
    pub orphans: u32,
    pub dirty: bool,
    pub place: Place,
}

/// What the last segment was.
#[derive(Clone, Copy, Default)]
pub(crate) struct Last {
    pub ssn: u64,
    pub address: u64,
    pub crc: u32,
    /// Where the next summary goes.
    pub next: u64,
    pub checkpoint: u64,
    pub checkpoint_address: u64,
    pub checkpoint_crc: u32,
    pub anchor: u64,
    pub mount: u32,
}

/// A checkpoint that stays whole on the device while the file system changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pin {
    /// Its number.
    pub ssn: u64,
    /// Where its summary is.
    pub summary: u64,
}

pub(crate) struct Volume {
    pub io: Io,
    pub space: Space,
    pub ifile: Tree,
    pub bfile: Tree,
    pub inodes: HashMap<u32, Live>,
    pub blocks: BTreeMap<u64, InodeBlock>,
    pub held: HeldInodes,
    pub caller: Caller,
    pub last: Last,
    /// Summaries and continuations since the last checkpoint, itself included.
    pub summaries: Vec<(u64, Vec<Run>)>,
    /// Inodes that the next segment has to write.
    pub dirty: BTreeSet<u32>,
    /// Bytes of contents that wait.
    pub waiting: u64,
    /// Of them those that go to data blocks.
    pub waiting_data: u64,
    /// Inodes without names that are too large to go in one segment: they go in steps after the operation.
    pub doomed: Vec<u32>,
    pub groups: Groups,
    /// Bytes of contents that were written since mkfs, and bytes of everything.
    pub written: [u64; 2],
    /// A state that must stay as it is, for those who read it from the device.
    pub pin: Option<Pin>,
    /// For measuring only.
    pub cleaner: Option<Cleaner>,
    pub generation: u32,
    /// No inode block before this has a free number.
    pub hint: u64,
    /// Failed: a segment could not be written.
    pub mode: MountState,
}

/// What one operation needs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Need {
    /// It gives back more than it takes, or as much.
    pub removes: bool,
    /// Blocks of the log besides the usual ones.
    pub log: u64,
}

impl Live {
    pub fn number(&self) -> u32 {
        width::low_u32(self.disk.number)
    }

    pub fn kind(&self) -> Option<FileKind> {
        FileKind::of_mode(self.disk.mode)
    }

    pub fn is_directory(&self) -> bool {
        self.kind() == Some(FileKind::Directory)
    }

    pub fn parent(&self) -> u32 {
        width::low_u32(self.disk.used)
    }

    pub fn set_parent(&mut self, parent: u32, generation: u32) {
        self.disk.used = u64::from(parent) | u64::from(generation) << 32;
    }

    pub fn touch(&mut self, now: Time) {
        let stamp = stamp(now);
        (self.disk.mtime, self.disk.ctime) = (stamp, stamp);
    }

    pub fn directory(&mut self) -> Result<&mut Tree> {
        match &mut self.contents {
            Contents::Directory(tree) => Ok(tree),
            _ => Err(Errno::NotDirectory),
        }
    }

    pub fn permissions(&self) -> Permissions {
        Permissions { mode: self.disk.mode & 0o7777, uid: self.disk.uid, gid: self.disk.gid }
    }
}

pub(crate) fn stamp(time: Time) -> fsmend_hybridfs_format::Stamp {
    fsmend_hybridfs_format::Stamp::new(time.seconds, time.nanoseconds)
}

fn time(stamp: fsmend_hybridfs_format::Stamp) -> Time {
    let (seconds, nanoseconds) = stamp.parts();
    Time { seconds, nanoseconds }
}

impl Volume {
    pub fn check_mounted(&self) -> Result<()> {
        self.mode.check_mounted()
    }

    pub fn check_writable(&self) -> Result<()> {
        self.mode.check_writable()
    }

    fn per_block(&self) -> u64 {
        u64::from(self.io.sb.inodes_per_block())
    }

    fn place_of(&self, number: u32) -> (u64, u32) {
        let per_block = self.per_block();
        (u64::from(number) / per_block, width::low_u32(u64::from(number) % per_block))
    }

    /// The inode block with a number, in memory.
    pub fn inode_block(&mut self, number: u64) -> Result<&mut InodeBlock> {
        if !self.blocks.contains_key(&number) {
            let len = width::index(self.io.sb.inode_block_fragments()) * self.io.sb.fragment_size as usize;
            let block = match self.ifile.get(&self.io, number)? {
                Some(record) => InodeBlock {
                    bytes: self.io.object(record.place)?,
                    live: width::low_u32(record.aux),
                    orphans: (record.aux >> 32) as u32,
                    dirty: false,
                    place: record.place,
                },
                None => InodeBlock {
                    bytes: vec![0; len],
                    live: 0,
                    orphans: 0,
                    dirty: false,
                    place: Place::default(),
                },
            };
            if block.bytes.len() != len {
                return Err(self.io.corrupt(|| format!("inode block {number} is too short")));
            }
            self.blocks.insert(number, block);
        }
        self.blocks.get_mut(&number).ok_or(Errno::Corrupt)
    }

    /// The block, to be changed: its old place is free with the next segment.
    pub fn dirty_block(&mut self, number: u64) -> Result<&mut InodeBlock> {
        let block = self.inode_block(number)?;
        let place = std::mem::take(&mut block.place);
        let was_clean = !std::mem::replace(&mut block.dirty, true);
        if was_clean {
            self.io.add_dirty();
            self.io.free_place(place);
        }
        self.inode_block(number)
    }

    fn load_from_disk(&mut self, number: u32) -> Result<Live> {
        if number <= 1 || u64::from(number) >= self.io.sb.inodes {
            return Err(Errno::NotFound);
        }
        let (block, at) = self.place_of(number);
        let uuid = self.io.sb.uuid;
        let birth = self.ifile.get(&self.io, block)?.map_or(0, |record| record.birth);
        let inodes = self.inode_block(block)?;
        if inodes.live >> at & 1 == 0 {
            return Err(Errno::NotFound);
        }
        let is_clean = !inodes.dirty;
        let bytes = inodes.bytes.get(at as usize * INODE_LEN..).unwrap_or_default();
        let disk = Inode::parse(bytes, u64::from(number), &uuid);
        let disk = disk.map_err(|error| self.io.corrupt(|| format!("inode {number}: {error}")))?;
        if is_clean && disk.birth != birth {
            return Err(self
                .io
                .corrupt(|| format!("inode {number} is of segment {}, not {birth}", disk.birth)));
        }
        self.revive(disk)
    }

    fn revive(&mut self, disk: Inode) -> Result<Live> {
        let number = disk.number;
        let wrong = |io: &Io, what: &str| io.corrupt(|| format!("inode {number}: {what}"));
        let kind = FileKind::of_mode(disk.mode).ok_or_else(|| wrong(&self.io, "its type"))?;
        let map = || Map::parse(disk.height, disk.count, disk.room());
        let contents = match (disk.format, kind) {
            (Format::Nothing, FileKind::Regular | FileKind::Symlink | FileKind::Directory) => {
                return Err(wrong(&self.io, "its format"));
            }
            (Format::Nothing, _) => Contents::Nothing,
            (Format::Inline, FileKind::Regular | FileKind::Symlink) => {
                let bytes = disk.room().get(..width::index(disk.size)).unwrap_or_default().to_vec();
                Contents::Small { bytes: Some(bytes), at: None, dirty: false }
            }
            (Format::Small, FileKind::Regular | FileKind::Symlink) => {
                let record = Record::parse(disk.room());
                Contents::Small { bytes: None, at: Some(record), dirty: false }
            }
            (Format::Map, FileKind::Regular) => {
                let map = map().map_err(|error| wrong(&self.io, &error.to_string()))?;
                let map = Tree::new(Leaves::Extents, number, disk.generation, map);
                let placed = disk.used / self.io.sb.per_block();
                Contents::Extents { map, blocks: BTreeMap::new(), fresh: 0, placed }
            }
            (Format::Inline, FileKind::Directory) => Contents::Directory(self.inline_directory(&disk)?),
            (Format::Map, FileKind::Directory) => {
                let map = map().map_err(|error| wrong(&self.io, &error.to_string()))?;
                Contents::Directory(Tree::new(Leaves::Directories, number, disk.generation, map))
            }
            _ => return Err(wrong(&self.io, "its format")),
        };
        let (attributes, attributes_at) = self.attributes_of(&disk)?;
        Ok(Live { disk, contents, attributes, attributes_at, attributes_dirty: false, dirty: false, ssn: 0 })
    }

    fn attributes_of(&mut self, disk: &Inode) -> Result<(Vec<Attribute>, Option<Record>)> {
        let number = disk.number;
        let (bytes, record) = match disk.attribute_slots {
            0 => return Ok((Vec::new(), None)),
            SLOT_ATTRIBUTES => {
                let record = Record::parse(disk.attribute_room());
                let expected = Expected {
                    kind: Kind::Attributes,
                    level: 0,
                    owner: number,
                    generation: disk.generation,
                    key: 0,
                    birth: record.birth,
                };
                let (_, bytes) = self.io.headed(record.place, &expected)?;
                (bytes.get(fsmend_hybridfs_format::HEADER_LEN..).unwrap_or_default().to_vec(), Some(record))
            }
            _ => (disk.attribute_room().to_vec(), None),
        };
        let parsed = parse_attributes(&bytes);
        let attributes =
            parsed.map_err(|error| self.io.corrupt(|| format!("attributes of {number}: {error}")))?;
        Ok((attributes, record))
    }

    /// Hands an inode to `work`, and keeps it afterwards. `work` must not ask for the same inode again.
    pub fn with<R>(
        &mut self,
        number: InodeNo,
        work: impl FnOnce(&mut Volume, &mut Live) -> Result<R>,
    ) -> Result<R> {
        let mut live = match self.inodes.remove(&number.0) {
            Some(live) => live,
            None => self.load_from_disk(number.0)?,
        };
        let result = work(self, &mut live);
        self.inodes.insert(number.0, live);
        result
    }

    /// The inode has changed. Its block is read here, so nothing can fail later.
    pub fn mark(&mut self, live: &mut Live) -> Result<()> {
        let (block, _) = self.place_of(live.number());
        self.dirty_block(block)?;
        live.dirty = true;
        live.ssn = self.last.ssn + 1;
        self.dirty.insert(live.number());
        Ok(())
    }

    pub fn attributes(&mut self, number: InodeNo) -> Result<Attributes> {
        self.with(number, |volume, live| volume.shown(live))
    }

    pub fn shown(&mut self, live: &Live) -> Result<Attributes> {
        let disk = &live.disk;
        let device = match live.kind() {
            Some(FileKind::CharDevice | FileKind::BlockDevice) => device_of(disk),
            _ => DeviceNumber::default(),
        };
        let size = if live.is_directory() { disk.size.max(1) } else { disk.size };
        Ok(Attributes {
            inode: InodeNo(live.number()),
            generation: disk.generation,
            kind: live.kind().ok_or(Errno::Corrupt)?,
            of: live.permissions(),
            links: disk.links,
            size,
            blocks_512: self.fragments_of(live).saturating_mul(u64::from(self.io.sb.fragment_size)) / 512,
            device,
            atime: time(disk.atime),
            mtime: time(disk.mtime),
            ctime: time(disk.ctime),
            crtime: Some(time(disk.crtime)),
        })
    }

    /// Fragments that an inode uses: contents and attributes.
    pub fn fragments_of(&self, live: &Live) -> u64 {
        let contents = match &live.contents {
            Contents::Nothing => 0,
            Contents::Small { at: Some(record), dirty: false, .. } => u64::from(record.place.len),
            Contents::Small { bytes, .. } => {
                let len = bytes.as_ref().map_or(0, Vec::len);
                if len <= crate::commit::inline_room(live) { 0 } else { self.io.fragments(len) }
            }
            Contents::Extents { fresh, placed, .. } => {
                fresh.saturating_add(*placed).saturating_mul(self.io.sb.per_block())
            }
            Contents::Directory(tree) if tree.height == 0 => self.directory_fragments(live, tree),
            Contents::Directory(_) => {
                self.io.fragments(usize::try_from(live.disk.size).unwrap_or(usize::MAX))
            }
        };
        let attributes = match crate::commit::attributes_outside(live) {
            0 => 0,
            len => self.io.fragments(HEADER_LEN + len),
        };
        contents + attributes
    }

    /// Fragments of the blocks right below the inode of a directory; those that wait count as they will be.
    fn directory_fragments(&self, live: &Live, tree: &Tree) -> u64 {
        if crate::commit::inline_entries(tree, crate::commit::inline_room(live)).is_some() {
            return 0;
        }
        let of = |slot: &Slot| match &slot.child {
            Child::Entries(entries) if slot.record.place.address == 0 => {
                self.io.fragments(HEADER_LEN + entries.iter().map(Entry::stored_len).sum::<usize>())
            }
            _ => u64::from(slot.record.place.len),
        };
        tree.slots.iter().map(of).sum()
    }

    /// A free inode number, near that of its directory, and marks it as live.
    pub fn new_number(&mut self, parent: u32) -> Result<u32> {
        let (near, _) = self.place_of(parent);
        let blocks = self.io.sb.inodes.div_ceil(self.per_block());
        if let Some(number) = self.number_in(near)? {
            return Ok(number);
        }
        while self.hint < blocks {
            if let Some(number) = self.number_in(self.hint)? {
                return Ok(number);
            }
            self.hint += 1;
        }
        Err(Errno::NoSpace)
    }

    fn number_in(&mut self, block: u64) -> Result<Option<u32>> {
        let (per_block, inodes) = (self.per_block(), self.io.sb.inodes);
        let live = match self.blocks.get(&block) {
            Some(block) => block.live,
            None => self.ifile.get(&self.io, block)?.map_or(0, |record| width::low_u32(record.aux)),
        };
        for at in 0..per_block {
            let number = block * per_block + at;
            if live >> at & 1 == 0 && number > 1 && number < inodes {
                let block = self.dirty_block(block)?;
                block.live |= 1 << at;
                self.space.totals.inodes = self.space.totals.inodes.saturating_add(1);
                return Ok(Some(width::low_u32(number)));
            }
        }
        Ok(None)
    }

    /// Sets or clears the orphan bit.
    pub fn set_orphan(&mut self, number: u32, is_orphan: bool) -> Result<()> {
        let (block, at) = self.place_of(number);
        let block = self.dirty_block(block)?;
        let was = block.orphans >> at & 1 != 0;
        block.orphans = if is_orphan { block.orphans | 1 << at } else { block.orphans & !(1 << at) };
        let orphans = &mut self.space.totals.orphans;
        *orphans = match (was, is_orphan) {
            (false, true) => orphans.saturating_add(1),
            (true, false) => orphans.saturating_sub(1),
            _ => *orphans,
        };
        Ok(())
    }

    /// An inode without names goes, unless it is held.
    pub fn drop_or_keep(&mut self, number: u32) -> Result<()> {
        if self.held.contains(InodeNo(number)) {
            return self.set_orphan(number, true);
        }
        if self.with(InodeNo(number), |_, live| Ok(goes_in_steps(live)))? {
            self.set_orphan(number, true)?;
            self.doomed.push(number);
            return Ok(());
        }
        self.remove_inode(number)
    }

    /// Removes what is too large to go in one segment. A crash on the way leaves an orphan, with which the next mount goes on.
    fn remove_doomed(&mut self, now: Time) -> Result<()> {
        while let Some(number) = self.doomed.pop() {
            self.remove_in_steps(number, now)?;
        }
        Ok(())
    }

    /// Removes an inode without names, in as many segments as it takes.
    pub fn remove_in_steps(&mut self, number: u32, now: Time) -> Result<()> {
        let removes = Need { removes: true, log: 0 };
        loop {
            self.admit(removes, now)?;
            let is_left = self.with(InodeNo(number), |volume, live| match goes_in_steps(live) {
                true => volume.cut_step(live, 0).map(|_| true),
                false => Ok(false),
            })?;
            if !is_left {
                return self.remove_inode(number);
            }
        }
    }

    /// Cuts a file in steps down to where one operation can do the rest.
    pub fn shorten(&mut self, number: InodeNo, size: u64, now: Time) -> Result<()> {
        let keep = size.div_ceil(u64::from(self.io.sb.block_size));
        loop {
            if !self.with(number, |_, live| Ok(goes_in_steps(live)))? {
                return Ok(());
            }
            self.admit(Need { removes: true, log: 0 }, now)?;
            if !self.with(number, |volume, live| volume.cut_step(live, keep))? {
                return Ok(());
            }
        }
    }

    /// Gives back extents at the end of a file, from block `keep` on; whether there may be more. The file is as long as what is left.
    fn cut_step(&mut self, live: &mut Live, keep: u64) -> Result<bool> {
        let (io, block) = (&self.io, u64::from(self.io.sb.block_size));
        let Contents::Extents { map, blocks, fresh, placed } = &mut live.contents else { return Ok(false) };
        for (index, _) in blocks.split_off(&keep) {
            self.waiting = self.waiting.saturating_sub(block);
            self.waiting_data = self.waiting_data.saturating_sub(block);
            if extent_at(map, io, index)?.is_none() {
                *fresh = fresh.saturating_sub(1);
                self.space.promised = self.space.promised.saturating_sub(1);
            }
        }
        let (mut end, mut freed, mut steps) = (live.disk.size.div_ceil(block).max(keep), 0, 0);
        while let Some(last) = map.at(io, u64::MAX)?.filter(|last| last.key >= keep && steps < STEP_EXTENTS) {
            map.take(io, last.key)?;
            io.free(last.place.address, u64::from(last.place.len) * io.sb.per_block());
            freed += u64::from(last.place.len);
            (end, steps) = (end.min(last.key), steps + 1);
        }
        *placed = placed.saturating_sub(freed);
        self.space.totals.data = self.space.totals.data.saturating_sub(freed);
        if steps > 0 {
            live.disk.size = live.disk.size.min(end.saturating_mul(block));
            self.mark(live)?;
        }
        Ok(steps == STEP_EXTENTS)
    }

    /// Removes an inode and gives back what it has.
    pub fn remove_inode(&mut self, number: u32) -> Result<()> {
        let mut live = match self.inodes.remove(&number) {
            Some(live) => live,
            None => self.load_from_disk(number)?,
        };
        self.give_contents_back(&mut live)?;
        if let Some(record) = live.attributes_at {
            self.free_log(record.place);
        }
        if live.is_directory() {
            self.space.totals.directories = self.space.totals.directories.saturating_sub(1);
        }
        self.set_orphan(number, false)?;
        let (block_number, at) = self.place_of(number);
        let block = self.dirty_block(block_number)?;
        block.live &= !(1 << at);
        if let Some(bytes) =
            block.bytes.get_mut(at as usize * INODE_LEN..).and_then(|rest| rest.get_mut(..INODE_LEN))
        {
            bytes.fill(0);
        }
        self.space.totals.inodes = self.space.totals.inodes.saturating_sub(1);
        self.dirty.remove(&number);
        self.hint = self.hint.min(block_number);
        Ok(())
    }

    /// Gives back all that contents have.
    pub fn give_contents_back(&mut self, live: &mut Live) -> Result<()> {
        match &mut live.contents {
            Contents::Nothing => {}
            Contents::Small { bytes, at, dirty } => {
                if let Some(record) = at.take() {
                    self.io.free_place(record.place);
                }
                if std::mem::take(dirty) {
                    self.waiting =
                        self.waiting.saturating_sub(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64));
                }
                *bytes = Some(Vec::new());
            }
            Contents::Extents { map, blocks, fresh, placed } => {
                let (io, per_block) = (&self.io, self.io.sb.per_block());
                map.release(io, &mut |record| {
                    io.free(record.place.address, u64::from(record.place.len) * per_block);
                })?;
                self.space.promised = self.space.promised.saturating_sub(*fresh);
                self.space.totals.data = self.space.totals.data.saturating_sub(*placed);
                let waited = blocks.len() as u64 * self.io.block_size() as u64;
                self.waiting = self.waiting.saturating_sub(waited);
                self.waiting_data = self.waiting_data.saturating_sub(waited);
                blocks.clear();
                (*fresh, *placed) = (0, 0);
            }
            Contents::Directory(tree) => tree.release(&self.io, &mut |_| {})?,
        }
        Ok(())
    }

    fn free_log(&mut self, place: Place) {
        self.io.free_place(place);
    }

    /// Blocks of the log that the next segment needs for what waits.
    pub fn blocks_needed(&self) -> u64 {
        let small = self.waiting / u64::from(self.io.sb.block_size) + self.dirty.len() as u64;
        let small = small.min(self.waiting / u64::from(self.io.sb.fragment_size) + 1);
        let maps = self.dirty.len() as u64 / 8 + self.space.promised / 128 + 4;
        let dirty = self.io.dirty.get();
        // The nodes of the IFILE above the inode blocks.
        let nodes = self.blocks.len().min(self.dirty.len() + 8) as u64 / 16 + 4;
        let all = dirty + small + maps + nodes + self.checkpoint_blocks();
        // What the segment says of itself: a row for each object, a run for each piece that it takes or gives back.
        let runs = self.io.freed.borrow().len() as u64 + self.space.promised;
        let all = if self.io.all_in_log { all + self.space.promised } else { all };
        all + all / 64 + runs.saturating_mul(16) / (u64::from(self.io.sb.block_size) - 128) + 2
    }

    fn checkpoint_blocks(&self) -> u64 {
        let bitmaps = self.io.sb.log_bitmaps() + self.io.sb.ags();
        bitmaps + bitmaps / 64 + 3
    }

    /// Runs an operation that changes something.
    pub fn operation<R>(
        &mut self,
        need: Need,
        now: Time,
        work: impl FnOnce(&mut Volume) -> Result<R>,
    ) -> Result<R> {
        self.admit(need, now)?;
        let done = work(self)?;
        self.remove_doomed(now)?;
        Ok(done)
    }

    /// Forgets what need not be in memory.
    pub fn trim(&mut self) {
        if self.inodes.len() > INODES_KEPT {
            let held = &self.held;
            self.inodes
                .retain(|number, live| live.dirty || held.contains(InodeNo(*number)) || *number == ROOT);
        }
        if self.blocks.len() > BLOCKS_KEPT {
            self.blocks.retain(|_, block| block.dirty);
            self.ifile.forget_clean();
        }
    }
}

/// Whether there is so much of a file that one segment cannot give it back.
fn goes_in_steps(live: &Live) -> bool {
    matches!(&live.contents, Contents::Extents { map, .. } if map.height > AT_ONCE)
}

/// How a segment is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Commit {
    /// If there is something to write.
    Usual,
    /// Even if there is nothing.
    Forced,
    /// With the bitmaps.
    Checkpoint,
    /// The first one of recovery.
    Fence,
    /// The last one.
    Clean,
}

pub(crate) fn device_of(disk: &Inode) -> DeviceNumber {
    let word = |at: usize| {
        disk.body
            .get(at..at + 4)
            .and_then(|bytes| bytes.first_chunk())
            .map_or(0, |bytes| u32::from_le_bytes(*bytes))
    };
    DeviceNumber { major: word(0), minor: word(4) }
}

pub(crate) fn ifile(map: Map) -> Tree {
    Tree::new(Leaves::Inodes, OWNER_IFILE, 0, map)
}
