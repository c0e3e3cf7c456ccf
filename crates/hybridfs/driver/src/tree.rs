// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps in memory: a tree of records whose nodes are read when they are needed, changed in memory, and written to new places with the next segment.

use fsmend_base::width;
use fsmend_hybridfs_format::{
    Entry, HEADER_LEN, Header, IN_INODE, Kind, Map, Place, Record, node_capacity, parse_entries, parse_node,
    store_entries, store_node,
};
use fsmend_vfs::Result;

use crate::io::{Expected, Io};
use crate::segment::Segment;
use crate::space::Space;

/// Records in an inode at most: one slot is left for attributes.
const ROOT_MAX: usize = IN_INODE - 1;

/// What the leaves of a map lead to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaves {
    Extents,
    Directories,
    Inodes,
    Bitmaps,
}

/// What hangs on a record, where it is in memory.
pub(crate) enum Child {
    Absent,
    Node(Vec<Slot>),
    Entries(Vec<Entry>),
}

/// A record and what it leads to.
pub(crate) struct Slot {
    pub record: Record,
    pub child: Child,
    /// What it leads to has to be written.
    pub dirty: bool,
}

/// A map.
pub(crate) struct Tree {
    leaves: Leaves,
    owner: u64,
    generation: u32,
    pub height: u8,
    pub slots: Vec<Slot>,
}

#[derive(Clone, Copy)]
struct Context<'a> {
    io: &'a Io,
    owner: u64,
    generation: u32,
}

/// The slot in which a key is, or would be.
pub(crate) fn floor(slots: &[Slot], key: u64) -> usize {
    slots.partition_point(|slot| slot.record.key <= key).saturating_sub(1)
}

impl Slot {
    pub fn clean(record: Record) -> Slot {
        Slot { record, child: Child::Absent, dirty: false }
    }

    /// What it leads to has changed: its old place is free with the next segment.
    pub fn touch(&mut self, io: &Io) {
        if !self.dirty {
            self.dirty = true;
            io.add_dirty();
            io.free_place(self.record.place);
            self.record.place = Place::default();
        }
    }

    fn forget(&self, io: &Io) {
        if self.dirty {
            io.remove_dirty();
        } else {
            io.free_place(self.record.place);
        }
    }

    fn fresh(io: &Io, key: u64, child: Child) -> Slot {
        io.add_dirty();
        Slot { record: Record { key, ..Record::default() }, child, dirty: true }
    }

    fn node(&mut self, context: Context<'_>, level: u8) -> Result<&mut Vec<Slot>> {
        if matches!(self.child, Child::Absent) {
            let record = self.record;
            let expected = Expected {
                kind: Kind::Node,
                level,
                owner: context.owner,
                generation: context.generation,
                key: record.key,
                birth: record.birth,
            };
            let (header, bytes) = context.io.headed(record.place, &expected)?;
            let records = parse_node(&bytes, header.count);
            let records = records.map_err(|error| context.io.corrupt(|| format!("a node: {error}")))?;
            if records.first().is_some_and(|first| first.key != record.key) {
                return Err(context.io.corrupt(|| "the first key of a node".to_owned()));
            }
            self.child = Child::Node(records.into_iter().map(Slot::clean).collect());
        }
        match &mut self.child {
            Child::Node(slots) => Ok(slots),
            _ => Err(context.io.corrupt(|| "a leaf in the place of a node".to_owned())),
        }
    }
}

impl Tree {
    pub fn new(leaves: Leaves, owner: u64, generation: u32, map: Map) -> Tree {
        let slots = map.records.into_iter().map(Slot::clean).collect();
        Tree { leaves, owner, generation, height: map.height, slots }
    }

    fn context<'a>(&self, io: &'a Io) -> Context<'a> {
        Context { io, owner: self.owner, generation: self.generation }
    }

    pub fn owner(&self) -> u64 {
        self.owner
    }

    pub fn generation(&self) -> u32 {
        self.generation
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The entries of a directory block in memory.
    pub fn entries<'s>(&self, io: &Io, slot: &'s mut Slot) -> Result<&'s mut Vec<Entry>> {
        load_entries(self.context(io), slot)
    }

    /// Shows the leaves around `key` to `look`: the slots of one node, in which [`floor`] finds it.
    pub fn look<R>(
        &mut self,
        io: &Io,
        key: u64,
        look: impl FnOnce(&mut Vec<Slot>) -> Result<R>,
    ) -> Result<R> {
        let context = self.context(io);
        let mut slots = &mut self.slots;
        for level in (1..=self.height).rev() {
            let at = floor(slots, key);
            let Some(slot) = slots.get_mut(at) else { return Err(io.corrupt(|| "an empty node".to_owned())) };
            slots = slot.node(context, level)?;
        }
        look(slots)
    }

    /// The same, for changing them.
    pub fn change<R>(
        &mut self,
        io: &Io,
        key: u64,
        change: impl FnOnce(&mut Vec<Slot>) -> Result<R>,
    ) -> Result<R> {
        let context = self.context(io);
        let result = descend(context, &mut self.slots, self.height, key, change)?;
        if self.slots.len() > ROOT_MAX {
            let slots = std::mem::take(&mut self.slots);
            let key = slots.first().map_or(0, |slot| slot.record.key);
            self.slots.push(Slot::fresh(io, key, Child::Node(slots)));
            self.height += 1;
        }
        while self.height > 0 {
            let [only] = self.slots.as_mut_slice() else { break };
            if only.node(context, self.height)?.len() > ROOT_MAX / 2 {
                break;
            }
            only.forget(io);
            let Child::Node(slots) = std::mem::replace(&mut only.child, Child::Absent) else { break };
            self.slots = slots;
            self.height -= 1;
        }
        if self.slots.is_empty() {
            self.height = 0;
        }
        Ok(result)
    }

    /// The first leaf record with this key or a higher one.
    pub fn next(&mut self, io: &Io, key: u64) -> Result<Option<Record>> {
        next_of(self.context(io), &mut self.slots, self.height, key)
    }

    /// The leaf record with exactly this key.
    pub fn get(&mut self, io: &Io, key: u64) -> Result<Option<Record>> {
        Ok(self.next(io, key)?.filter(|record| record.key == key))
    }

    /// The leaf record that counts for a key: the last one that is not behind it.
    pub fn at(&mut self, io: &Io, key: u64) -> Result<Option<Record>> {
        self.look(io, key, |slots| {
            Ok(slots.get(floor(slots, key)).map(|slot| slot.record).filter(|record| record.key <= key))
        })
    }

    /// Puts a leaf record, in the place of one with the same key.
    pub fn put(&mut self, io: &Io, record: Record) -> Result<()> {
        self.change(io, record.key, |slots| {
            let at = slots.partition_point(|slot| slot.record.key < record.key);
            match slots.get_mut(at).filter(|slot| slot.record.key == record.key) {
                Some(slot) => slot.record = record,
                None => slots.insert(at, Slot::clean(record)),
            }
            Ok(())
        })
    }

    /// Takes the leaf record with this key out.
    pub fn take(&mut self, io: &Io, key: u64) -> Result<Option<Record>> {
        self.change(io, key, |slots| {
            let at = slots.iter().position(|slot| slot.record.key == key);
            Ok(at.map(|at| slots.remove(at).record))
        })
    }

    /// Gives all nodes back, and shows every leaf; dirty leaves have no place.
    pub fn release(&mut self, io: &Io, leaf: &mut dyn FnMut(&Record)) -> Result<()> {
        let (context, is_directory) = (self.context(io), self.leaves == Leaves::Directories);
        release(context, &mut self.slots, self.height, is_directory, leaf)?;
        self.slots.clear();
        self.height = 0;
        Ok(())
    }

    /// Shows every node's place and every leaf record, in order.
    pub fn visit(&mut self, io: &Io, see: &mut dyn FnMut(u8, &Record)) -> Result<()> {
        visit(self.context(io), &mut self.slots, self.height, see)
    }

    /// Forgets what is in memory and need not be written.
    pub fn forget_clean(&mut self) {
        forget_clean(&mut self.slots);
    }

    /// The records of the map as they are.
    pub fn map(&self) -> Map {
        Map { height: self.height, records: self.slots.iter().map(|slot| slot.record).collect() }
    }

    /// Writes what has changed with a segment.
    pub fn write(&mut self, io: &Io, segment: &mut Segment, space: &mut Space) -> Result<()> {
        let (owner, generation, leaves) = (self.owner, self.generation, self.leaves);
        write(io, segment, space, (owner, generation, leaves), &mut self.slots, self.height)
    }
}

fn load_entries<'s>(context: Context<'_>, slot: &'s mut Slot) -> Result<&'s mut Vec<Entry>> {
    if matches!(slot.child, Child::Absent) {
        let record = slot.record;
        let expected = Expected {
            kind: Kind::Directory,
            level: 0,
            owner: context.owner,
            generation: context.generation,
            key: record.key,
            birth: record.birth,
        };
        let (header, bytes) = context.io.headed(record.place, &expected)?;
        let entries = parse_entries(bytes.get(HEADER_LEN..).unwrap_or_default(), Some(header.count));
        let entries =
            entries.map_err(|error| context.io.corrupt(|| format!("a directory block: {error}")))?;
        slot.child = Child::Entries(entries);
    }
    match &mut slot.child {
        Child::Entries(entries) => Ok(entries),
        _ => Err(context.io.corrupt(|| "a node in the place of a leaf".to_owned())),
    }
}

fn descend<R>(
    context: Context<'_>,
    slots: &mut Vec<Slot>,
    height: u8,
    key: u64,
    change: impl FnOnce(&mut Vec<Slot>) -> Result<R>,
) -> Result<R> {
    if height == 0 {
        return change(slots);
    }
    let io = context.io;
    let at = floor(slots, key);
    let slot = slots.get_mut(at).ok_or_else(|| io.corrupt(|| "an empty node".to_owned()))?;
    // A neighbour that it may be joined with is read before anything changes.
    slot.node(context, height)?;
    if let Some(neighbour) = slots.get_mut(at + 1) {
        neighbour.node(context, height)?;
    }
    let slot = &mut slots[at];
    let result = descend(context, slot.node(context, height)?, height - 1, key, change)?;
    slot.touch(io);
    let capacity = node_capacity(io.sb.block_size);
    let below = slot.node(context, height)?;
    if below.is_empty() {
        let gone = slots.remove(at);
        gone.forget(io);
        return Ok(result);
    }
    let first = below[0].record.key;
    let (len, behind) =
        (below.len(), if below.len() > capacity { below.split_off(below.len() / 2) } else { Vec::new() });
    slot.record.key = first;
    if let Some(key) = behind.first().map(|slot| slot.record.key) {
        slots.insert(at + 1, Slot::fresh(io, key, Child::Node(behind)));
    } else if len < capacity / 4 && at + 1 < slots.len() {
        let joined = slots[at + 1].node(context, height)?.len() + len;
        if joined <= capacity * 3 / 4 {
            let mut gone = slots.remove(at + 1);
            gone.forget(io);
            let more = std::mem::take(gone.node(context, height)?);
            slots[at].node(context, height)?.extend(more);
        }
    }
    Ok(result)
}

fn next_of(context: Context<'_>, slots: &mut [Slot], height: u8, key: u64) -> Result<Option<Record>> {
    if height == 0 {
        let at = slots.partition_point(|slot| slot.record.key < key);
        return Ok(slots.get(at).map(|slot| slot.record));
    }
    let start = floor(slots, key);
    for slot in slots.iter_mut().skip(start) {
        if let Some(record) = next_of(context, slot.node(context, height)?, height - 1, key)? {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

fn release(
    context: Context<'_>,
    slots: &mut [Slot],
    height: u8,
    is_directory: bool,
    leaf: &mut dyn FnMut(&Record),
) -> Result<()> {
    for slot in slots {
        if height > 0 {
            release(context, slot.node(context, height)?, height - 1, is_directory, leaf)?;
            slot.forget(context.io);
        } else if is_directory {
            slot.forget(context.io);
        } else {
            leaf(&slot.record);
        }
    }
    Ok(())
}

fn visit(
    context: Context<'_>,
    slots: &mut [Slot],
    height: u8,
    see: &mut dyn FnMut(u8, &Record),
) -> Result<()> {
    for slot in slots {
        see(height, &slot.record);
        if height > 0 {
            visit(context, slot.node(context, height)?, height - 1, see)?;
        }
    }
    Ok(())
}

fn forget_clean(slots: &mut [Slot]) {
    for slot in slots {
        if !slot.dirty {
            slot.child = Child::Absent;
        } else if let Child::Node(slots) = &mut slot.child {
            forget_clean(slots);
        }
    }
}

fn write(
    io: &Io,
    segment: &mut Segment,
    space: &mut Space,
    (owner, generation, leaves): (u64, u32, Leaves),
    slots: &mut [Slot],
    height: u8,
) -> Result<()> {
    for slot in slots.iter_mut().filter(|slot| slot.dirty) {
        let mut header = Header {
            kind: Kind::Node,
            level: height,
            count: 0,
            owner,
            generation,
            flags: 0,
            key: slot.record.key,
            address: 0,
            birth: segment.ssn,
        };
        let (body, aux) = match &mut slot.child {
            Child::Node(below) => {
                write(io, segment, space, (owner, generation, leaves), below, height - 1)?;
                let records: Vec<Record> = below.iter().map(|slot| slot.record).collect();
                let mut object = vec![0; io.block_size()];
                store_node(&mut object, &records);
                header.count = u32::try_from(records.len()).unwrap_or(u32::MAX);
                (object.split_off(HEADER_LEN), sum(leaves, height, &records))
            }
            Child::Entries(entries) => {
                header.kind = Kind::Directory;
                header.level = 0;
                header.count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
                (store_entries(entries), entries.len() as u64)
            }
            Child::Absent => return Err(io.corrupt(|| "nothing to write".to_owned())),
        };
        let place = segment.object(io, space, header, &body)?;
        slot.record = Record { key: slot.record.key, place, birth: segment.ssn, aux };
        slot.dirty = false;
        io.remove_dirty();
    }
    Ok(())
}

/// What a record above says of a node at `level` with these records.
pub(crate) fn sum(leaves: Leaves, level: u8, records: &[Record]) -> u64 {
    let of = |record: &Record| match (leaves, level) {
        (Leaves::Extents, 1) => u64::from(record.place.len),
        (Leaves::Inodes, 1) => {
            let (live, orphans) = (width::low_u32(record.aux), (record.aux >> 32) as u32);
            u64::from(live.count_ones()) | u64::from(orphans.count_ones()) << 32
        }
        _ => record.aux,
    };
    records.iter().fold(0, |sum: u64, record| sum.wrapping_add(of(record)))
}
