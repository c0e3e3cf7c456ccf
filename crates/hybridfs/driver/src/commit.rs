// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing a segment: everything that has changed, in one atomic step.
//!
//! 1. Blocks of data, new and old ones; a sync if there were any.
//! 2. Contents of small files, directories, maps, attributes, then inode blocks, the IFILE, at a checkpoint the bitmaps and the BFILE, and the summary. A sync: now
//!    it has happened.
//! 3. At a checkpoint the anchor, and a sync; then the summaries before it are free.

use fsmend_base::width;
use fsmend_blockcache::MountState;
use fsmend_hybridfs_format::{
    ANCHORS, Anchor, AnchorFlags, BODY_LEN, DATA_BITMAPS, Format, HEADER_LEN, Header, INODE_LEN, Inode, Kind,
    OWNER_BFILE, OWNER_IFILE, Place, RECORD_LEN, Record, Row, Run, SLOT_ATTRIBUTES, Summary, SummaryFlags,
    anchor_offset, plain_crc, store_attributes, store_entries,
};
use fsmend_vfs::{Errno, Result, Time};

use crate::segment::{Segment, write_runs};
use crate::tree::{Child, Slot, Tree, floor};
use crate::volume::{Commit, Contents, Live, Volume, stamp};

/// Bytes of an anchor.
const ANCHOR_BYTES: usize = 512;

/// Bytes that contents may have in the inode, beside its attributes.
pub(crate) fn inline_room(live: &Live) -> usize {
    match attribute_bytes(live).map(|bytes| bytes.len()) {
        None => BODY_LEN,
        // Attributes that leave little room go away from the inode.
        Some(len) if len > BODY_LEN / 2 => BODY_LEN - RECORD_LEN,
        Some(len) => BODY_LEN - len.next_multiple_of(RECORD_LEN),
    }
}

fn attribute_bytes(live: &Live) -> Option<Vec<u8>> {
    if live.attributes.is_empty() { None } else { store_attributes(&live.attributes) }
}

impl Volume {
    /// Writes a segment.
    pub fn commit(&mut self, now: Time, how: Commit) -> Result<()> {
        self.check_writable()?;
        let is_idle = self.dirty.is_empty() && self.io.dirty.get() == 0 && self.io.freed.borrow().is_empty();
        if is_idle && how == Commit::Usual {
            return Ok(());
        }
        self.write_once(now, how)?;
        self.clean(now)
    }

    /// Writes one segment, whether there is something to write or not.
    pub fn write_once(&mut self, now: Time, how: Commit) -> Result<()> {
        let result = self.write_segment(now, how);
        // What is in memory now is neither the old state nor the new one.
        if result.is_err() {
            self.mode = MountState::Failed;
        }
        self.unpin_if_costly();
        self.trim();
        result
    }

    fn write_segment(&mut self, now: Time, how: Commit) -> Result<()> {
        let mut segment = Segment::new(self.last.ssn + 1);
        let since = segment.ssn - self.last.checkpoint;
        let is_checkpoint = matches!(how, Commit::Checkpoint | Commit::Clean)
            || since >= u64::from(self.io.sb.checkpoint_segments) && how != Commit::Fence;
        self.write_data(&mut segment)?;
        let dirty: Vec<u32> = std::mem::take(&mut self.dirty).into_iter().collect();
        for number in dirty {
            let Some(mut live) = self.inodes.remove(&number) else { continue };
            let result = self.write_inode(&mut live, &mut segment);
            self.inodes.insert(number, live);
            result?;
        }
        self.write_inode_blocks(&mut segment)?;
        self.ifile.write(&self.io, &mut segment, &mut self.space)?;
        let bitmaps = if is_checkpoint { self.place_bitmaps(&mut segment)? } else { Vec::new() };
        self.bfile.write(&self.io, &mut segment, &mut self.space)?;
        let next = self.space.take_block().ok_or(Errno::NoSpace)?;
        let freed = self.freed_runs();
        let continuations = self.place_continuations(&segment, bitmaps.len(), freed.len())?;
        self.write_bitmaps(&mut segment, &bitmaps, &freed);
        segment.stream.freed = freed;

        let flags = [
            (is_checkpoint, SummaryFlags::CHECKPOINT),
            (how == Commit::Clean, SummaryFlags::CLEAN),
            (how == Commit::Fence, SummaryFlags::FENCE),
        ];
        let flags =
            flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect::<SummaryFlags>();
        let address = self.last.next;
        segment.fill_gaps(&self.io, &self.space);
        let own = (1 + continuations.len()) * self.io.block_size();
        let body: usize = segment.writes.iter().map(|(_, bytes)| bytes.len()).sum();
        let anchor = if is_checkpoint { ANCHOR_BYTES } else { 0 };
        self.written[1] = self.written[1].saturating_add((own + body + anchor) as u64);
        if how == Commit::Fence {
            self.last.mount = self.last.mount.wrapping_add(1);
        }
        let summary = Summary {
            ssn: segment.ssn,
            address,
            previous: self.last.address,
            previous_crc: self.last.crc,
            flags,
            next,
            checkpoint: if is_checkpoint { segment.ssn } else { self.last.checkpoint },
            checkpoint_address: if is_checkpoint { address } else { self.last.checkpoint_address },
            mount: self.last.mount,
            generation: self.generation,
            totals: self.space.totals,
            time: stamp(now).0,
            stream_len: 0,
            stream_crc: 0,
            counts: [segment.stream.rows.len(), segment.stream.data.len(), segment.stream.freed.len()]
                .map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
            continuations: u32::try_from(continuations.len()).unwrap_or(u32::MAX),
            continuation: continuations.first().copied().unwrap_or(0),
            ifile: self.ifile.map(),
            bfile: self.bfile.map(),
            written: self.written,
        };
        let crc = self.add_summary(&mut segment, &summary, &continuations);
        if let Some(cleaner) = &mut self.cleaner {
            cleaner.note(&segment, |address| self.space.zone_of(address));
        }
        segment.write(&self.io)?;
        self.io.sync()?;

        self.last.ssn = segment.ssn;
        (self.last.address, self.last.crc, self.last.next) = (address, crc, next);
        self.space.close();
        self.space.pending.push_back((segment.ssn, segment.stream.freed));
        self.space.settle(&self.io.sb, self.settled());
        let per_block = self.io.sb.per_block();
        let own = [address]
            .into_iter()
            .chain(continuations)
            .map(|address| Run { address, len: per_block })
            .collect();
        self.summaries.push((segment.ssn, own));
        if is_checkpoint {
            self.last.checkpoint = segment.ssn;
            (self.last.checkpoint_address, self.last.checkpoint_crc) = (address, crc);
            self.write_anchor(how == Commit::Clean)?;
            self.free_summaries();
        }
        Ok(())
    }

    /// Writes the anchor of the last checkpoint.
    pub fn write_anchor(&mut self, is_clean: bool) -> Result<()> {
        let anchor = Anchor {
            number: self.last.anchor + 1,
            flags: if is_clean { AnchorFlags::CLEAN } else { AnchorFlags::empty() },
            ssn: self.last.checkpoint,
            summary: self.last.checkpoint_address,
            summary_crc: self.last.checkpoint_crc,
        };
        let sb = &self.io.sb;
        self.io.write(anchor_offset(sb, anchor.number % ANCHORS), &anchor.store(&sb.uuid))?;
        self.io.sync()?;
        self.last.anchor = anchor.number;
        Ok(())
    }

    /// Summaries before the last checkpoint are free: the anchor is durable.
    pub fn free_summaries(&mut self) {
        let (checkpoint, pinned) = (self.last.checkpoint, self.pin.map(|pin| pin.ssn));
        let is_old = |(ssn, _): &mut (u64, Vec<Run>)| *ssn < checkpoint && Some(*ssn) != pinned;
        for (_, runs) in self.summaries.extract_if(.., is_old) {
            for run in runs {
                self.space.mark(&self.io.sb, run, false);
            }
        }
    }

    /// Gives new blocks their places and writes all that wait.
    fn write_data(&mut self, segment: &mut Segment) -> Result<()> {
        let mut writes = Vec::new();
        let numbers: Vec<u32> = self.dirty.iter().copied().collect();
        for number in numbers {
            let Some(live) = self.inodes.get_mut(&number) else { continue };
            let Contents::Extents { map, blocks, fresh, placed } = &mut live.contents else { continue };
            let waiting = std::mem::take(blocks);
            let waited = waiting.len() as u64 * self.io.block_size() as u64;
            self.waiting = self.waiting.saturating_sub(waited);
            self.waiting_data = self.waiting_data.saturating_sub(waited);
            if self.io.all_in_log {
                // What was there before stays as it is.
                for index in waiting.keys() {
                    let gone = take_out(&self.io, map, *index)?;
                    *placed = placed.saturating_sub(gone);
                }
            }
            let mut new: Vec<u64> = Vec::new();
            for index in waiting.keys() {
                if extent_at(map, &self.io, *index)?.is_none() {
                    new.push(*index);
                }
            }
            for run in new.chunk_by(|one, next| one + 1 == *next) {
                place_run(
                    &self.io,
                    &mut self.space,
                    segment,
                    map,
                    (run[0], run.len() as u64),
                    live.disk.group,
                )?;
            }
            self.space.promised = self.space.promised.saturating_sub(*fresh);
            if !self.io.all_in_log {
                self.space.totals.data = self.space.totals.data.saturating_add(new.len() as u64);
            }
            *placed = placed.saturating_add(new.len() as u64);
            *fresh = 0;
            for (index, bytes) in waiting {
                let address = extent_at(map, &self.io, index)?.ok_or(Errno::Corrupt)?;
                if self.cleaner.is_some() {
                    let (kind, owner) = (Kind::Contents, u64::from(number));
                    segment.owned.push(Row { address, len: 0, kind, level: 0, crc: 0, owner, key: index });
                }
                writes.push((address, bytes));
            }
        }
        let bytes = (writes.len() * self.io.block_size()) as u64;
        self.written[0] = self.written[0].saturating_add(bytes);
        if self.io.all_in_log {
            segment.writes.append(&mut writes);
        }
        if writes.is_empty() {
            return Ok(());
        }
        self.written[1] = self.written[1].saturating_add(bytes);
        write_runs(&self.io, writes)?;
        self.io.sync()
    }

    /// Writes what an inode leads to, and puts the inode into its block.
    fn write_inode(&mut self, live: &mut Live, segment: &mut Segment) -> Result<()> {
        let (io, space) = (&self.io, &mut self.space);
        let number = live.disk.number;
        self.waiting = self.waiting.saturating_sub(match &live.contents {
            Contents::Small { bytes: Some(bytes), dirty: true, .. } => bytes.len() as u64,
            _ => 0,
        });
        live.disk.body = if let Contents::Nothing = live.contents { live.disk.body } else { [0; BODY_LEN] };
        let bytes = attribute_bytes(live);
        match &bytes {
            None => live.disk.attribute_slots = 0,
            Some(bytes) if !leaves_inode(live, bytes.len()) => {
                let slots = bytes.len().div_ceil(RECORD_LEN);
                live.disk.attribute_slots = width::len_u8(slots);
                let start = BODY_LEN - slots * RECORD_LEN;
                live.disk.body[start..start + bytes.len()].copy_from_slice(bytes);
            }
            Some(bytes) => {
                if live.attributes_dirty || live.attributes_at.is_none() {
                    let header = Header {
                        kind: Kind::Attributes,
                        level: 0,
                        count: width::len_u32(live.attributes.len()),
                        owner: number,
                        generation: live.disk.generation,
                        flags: 0,
                        key: 0,
                        address: 0,
                        birth: segment.ssn,
                    };
                    if let Some(record) = live.attributes_at.take() {
                        io.free_place(record.place);
                    }
                    let place = segment.object(io, space, header, bytes)?;
                    live.attributes_at = Some(Record { key: 0, place, birth: segment.ssn, aux: 0 });
                }
                live.disk.attribute_slots = SLOT_ATTRIBUTES;
                if let Some(record) = live.attributes_at {
                    live.disk.body[BODY_LEN - RECORD_LEN..].copy_from_slice(&record.store());
                }
            }
        }
        if live.disk.attribute_slots != SLOT_ATTRIBUTES
            && let Some(record) = live.attributes_at.take()
        {
            io.free_place(record.place);
        }
        live.attributes_dirty = false;
        let room = live.disk.room().len();
        match &mut live.contents {
            Contents::Nothing => live.disk.format = Format::Nothing,
            Contents::Small { bytes, at, dirty } => {
                if *dirty {
                    if let Some(record) = at.take() {
                        io.free_place(record.place);
                    }
                    let contents = bytes.as_deref().unwrap_or_default();
                    self.written[0] = self.written[0].saturating_add(contents.len() as u64);
                    if contents.len() > room {
                        let aux = u64::from(plain_crc(contents));
                        let place =
                            segment.plain(io, space, (Kind::Contents, number, 0), contents.to_vec())?;
                        *at = Some(Record { key: 0, place, birth: segment.ssn, aux });
                    }
                    *dirty = false;
                }
                match (&at, &bytes) {
                    (Some(record), _) => {
                        live.disk.format = Format::Small;
                        live.disk.body[..RECORD_LEN].copy_from_slice(&record.store());
                        // It is read again when it is needed.
                        *bytes = None;
                    }
                    (None, bytes) => {
                        live.disk.format = Format::Inline;
                        let contents = bytes.as_deref().unwrap_or_default();
                        live.disk.body[..contents.len()].copy_from_slice(contents);
                    }
                }
                live.disk.used = at.map_or(0, |record| u64::from(record.place.len));
            }
            Contents::Extents { map, placed, .. } => {
                map.write(io, segment, space)?;
                store_map(&mut live.disk, map);
                live.disk.used = *placed * io.sb.per_block();
            }
            Contents::Directory(tree) => match inline_entries(tree, room) {
                Some(bytes) => {
                    live.disk.format = Format::Inline;
                    live.disk.body[..bytes.len()].copy_from_slice(&bytes);
                    (live.disk.count, live.disk.height) = (0, 0);
                    // The entries stay in memory; there is no block of them.
                    for slot in tree.slots.iter_mut().filter(|slot| slot.dirty) {
                        slot.dirty = false;
                        io.remove_dirty();
                    }
                }
                None => {
                    // Entries that were in the inode until now have no block yet.
                    for slot in tree.slots.iter_mut().filter(|slot| slot.record.place.address == 0) {
                        slot.touch(io);
                    }
                    tree.write(io, segment, space)?;
                    store_map(&mut live.disk, tree);
                }
            },
        }
        live.disk.birth = segment.ssn;
        live.dirty = false;
        let bytes = live.disk.store(&self.io.sb.uuid);
        let per_block = u64::from(self.io.sb.inodes_per_block());
        let block = self.dirty_block(number / per_block)?;
        let at = width::index(number % per_block) * INODE_LEN;
        block.bytes[at..at + INODE_LEN].copy_from_slice(&bytes);
        Ok(())
    }

    fn write_inode_blocks(&mut self, segment: &mut Segment) -> Result<()> {
        let uuid = self.io.sb.uuid;
        let numbers: Vec<u64> =
            self.blocks.iter().filter(|(_, block)| block.dirty).map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(block) = self.blocks.get_mut(&number) else { continue };
            block.dirty = false;
            self.io.remove_dirty();
            if block.live == 0 {
                self.blocks.remove(&number);
                if self.ifile.get(&self.io, number)?.is_some() {
                    self.ifile.take(&self.io, number)?;
                }
                continue;
            }
            for (at, inode) in block.bytes.chunks_exact_mut(INODE_LEN).enumerate().take(32) {
                if block.live >> at & 1 != 0 {
                    Inode::reseal(inode, segment.ssn, &uuid);
                }
            }
            let kind = (Kind::Inodes, OWNER_IFILE, number);
            block.place = segment.plain(&self.io, &mut self.space, kind, block.bytes.clone())?;
            let aux = u64::from(block.live) | u64::from(block.orphans) << 32;
            let record = Record { key: number, place: block.place, birth: segment.ssn, aux };
            self.ifile.put(&self.io, record)?;
        }
        Ok(())
    }

    /// Gives all bitmaps new places.
    fn place_bitmaps(&mut self, segment: &mut Segment) -> Result<Vec<Record>> {
        let sb = &self.io.sb;
        let keys = (0..sb.log_bitmaps()).chain((0..sb.ags()).map(|ag| DATA_BITMAPS + ag));
        let (len, ag_blocks) = (sb.per_block(), u64::from(sb.ag_blocks));
        // What was given back is free in the bitmaps, and counted as such.
        let mut data = self.space.data.words().to_vec();
        let pending = self.space.pending.iter().flat_map(|(_, runs)| runs);
        for run in pending.chain(self.io.freed.borrow().iter()) {
            if let Some(first) = sb.data_index(run.address) {
                clear(&mut data, first, run.len / len);
            }
        }
        let is_free =
            |block: u64| data.get((block / 64) as usize).is_some_and(|word| word >> (block % 64) & 1 == 0);
        let mut placed = Vec::new();
        for key in keys {
            if let Some(old) = self.bfile.get(&self.io, key)? {
                self.io.free_place(old.place);
            }
            let place = segment.take(&mut self.space, len)?;
            let aux = match key.checked_sub(DATA_BITMAPS) {
                None => 0,
                Some(ag) => {
                    let blocks = ag * ag_blocks..((ag + 1) * ag_blocks).min(self.space.data.len());
                    blocks.filter(|block| is_free(*block)).count() as u64
                }
            };
            let record = Record { key, place, birth: segment.ssn, aux };
            self.bfile.put(&self.io, record)?;
            placed.push(record);
        }
        Ok(placed)
    }

    /// What the segment gives back. The totals of the log count it from now on.
    fn freed_runs(&mut self) -> Vec<Run> {
        let freed = std::mem::take(&mut *self.io.freed.borrow_mut());
        for run in freed.iter().filter(|run| self.io.sb.data_index(run.address).is_none()) {
            self.space.totals.log = self.space.totals.log.saturating_sub(run.len);
        }
        freed
    }

    fn place_continuations(&mut self, segment: &Segment, bitmaps: usize, freed: usize) -> Result<Vec<u64>> {
        let stream = &segment.stream;
        let len = (stream.rows.len() + bitmaps) * 32 + (stream.data.len() + freed) * 16;
        let block_size = self.io.sb.block_size;
        let left = len.saturating_sub(Summary::inline_stream(block_size));
        (0..left.div_ceil(Summary::continued_stream(block_size)))
            .map(|_| self.space.take_block().ok_or(Errno::NoSpace))
            .collect()
    }

    fn add_summary(&self, segment: &mut Segment, summary: &Summary, continuations: &[u64]) -> u32 {
        let (block_size, uuid) = (self.io.sb.block_size, &self.io.sb.uuid);
        let stream = segment.stream.store();
        let (block, crc) = summary.store(&stream, block_size, uuid);
        segment.writes.push((summary.address, block));
        let rest = stream.get(Summary::inline_stream(block_size)..).unwrap_or_default();
        for (number, (address, part)) in
            continuations.iter().zip(rest.chunks(Summary::continued_stream(block_size))).enumerate()
        {
            let next = continuations.get(number + 1).copied().unwrap_or(0);
            let block = Summary::store_continuation(
                (segment.ssn, number as u64),
                (*address, next),
                part,
                block_size,
                uuid,
            );
            segment.writes.push((*address, block));
        }
        crc
    }

    /// The bitmaps as they are when all that was given back so far is free.
    fn write_bitmaps(&mut self, segment: &mut Segment, placed: &[Record], freed: &[Run]) {
        if placed.is_empty() {
            return;
        }
        let sb = &self.io.sb;
        let (mut log, mut data) = (self.space.log_words(), self.space.data.words().to_vec());
        let old = self.summaries.iter().flat_map(|(_, runs)| runs);
        let pending = self.space.pending.iter().flat_map(|(_, runs)| runs);
        for run in old.chain(pending).chain(freed) {
            match sb.data_index(run.address) {
                Some(first) => clear(&mut data, first, run.len / sb.per_block()),
                None => clear(&mut log, run.address.saturating_sub(sb.log_start), run.len),
            }
        }
        for record in placed {
            let (words, start, units, end) = match record.key.checked_sub(DATA_BITMAPS) {
                None => (&log, record.key * sb.bitmap_units(), sb.bitmap_units(), sb.log_fragments),
                Some(ag) => (&data, ag * u64::from(sb.ag_blocks), u64::from(sb.ag_blocks), sb.data_blocks()),
            };
            let mut bits = vec![0xFF; sb.block_size as usize - HEADER_LEN];
            for at in 0..units.min(end.saturating_sub(start)) {
                let unit = start + at;
                let is_used = words.get((unit / 64) as usize).is_none_or(|word| word >> (unit % 64) & 1 != 0);
                if !is_used && let Some(byte) = bits.get_mut((at / 8) as usize) {
                    *byte &= !(1 << (at % 8));
                }
            }
            let header = Header {
                kind: Kind::Bitmap,
                level: 0,
                count: u32::try_from(units).unwrap_or(u32::MAX),
                owner: OWNER_BFILE,
                generation: 0,
                flags: 0,
                key: record.key,
                address: 0,
                birth: segment.ssn,
            };
            segment.put(&self.io, record.place, header, &bits);
        }
    }
}

fn clear(words: &mut [u64], start: u64, len: u64) {
    for at in start..start.saturating_add(len) {
        let Some(word) = words.get_mut((at / 64) as usize) else { break };
        *word &= !(1 << (at % 64));
    }
}

/// Whether so many bytes of attributes go into an object of their own.
fn leaves_inode(live: &Live, len: usize) -> bool {
    let is_map = matches!(live.contents, Contents::Extents { .. } | Contents::Nothing);
    len > BODY_LEN / 2 || is_map || !room_is_enough(live, inline_room(live))
}

/// Bytes of attributes that are in an object of their own, or will be.
pub(crate) fn attributes_outside(live: &Live) -> usize {
    let len = attribute_bytes(live).map_or(0, |bytes| bytes.len());
    if len > 0 && leaves_inode(live, len) { len } else { 0 }
}

/// Whether contents fit beside attributes in the inode, or need no more than a record.
fn room_is_enough(live: &Live, room: usize) -> bool {
    match &live.contents {
        Contents::Small { .. } => true,
        Contents::Directory(tree) => tree.height == 0 && tree.slots.len() * RECORD_LEN <= room,
        _ => false,
    }
}

fn store_map(disk: &mut Inode, tree: &Tree) {
    let map = tree.map();
    disk.format = Format::Map;
    (disk.count, disk.height) = (width::len_u8(map.records.len()), map.height);
    let bytes = map.store();
    disk.body[..bytes.len()].copy_from_slice(&bytes);
}

/// The entries of a directory that fits into its inode.
pub(crate) fn inline_entries(tree: &Tree, room: usize) -> Option<Vec<u8>> {
    match tree.slots.as_slice() {
        [] => Some(Vec::new()),
        // A block that is not in memory has not changed, and is where it is because it did not fit.
        [Slot { child: Child::Entries(entries), dirty, record }]
            if tree.height == 0 && (*dirty || record.place.address == 0) =>
        {
            Some(store_entries(entries)).filter(|bytes| bytes.len() <= room)
        }
        _ => None,
    }
}

/// Where a block of a file is.
pub(crate) fn extent_at(map: &mut Tree, io: &crate::io::Io, index: u64) -> Result<Option<u64>> {
    let Some(record) = map.at(io, index)?.filter(|record| index - record.key < u64::from(record.place.len))
    else {
        return Ok(None);
    };
    let address = record.place.address + (index - record.key) * io.sb.per_block();
    if io.sb.data_index(address).is_none() && !io.all_in_log {
        return Err(io.corrupt(|| format!("an extent leads to {address}, which is not in data")));
    }
    Ok(Some(address))
}

/// Gives blocks of a file places, in as few pieces as there can be.
fn place_run(
    io: &crate::io::Io,
    space: &mut crate::space::Space,
    segment: &mut Segment,
    map: &mut Tree,
    (mut index, mut left): (u64, u64),
    group: u32,
) -> Result<()> {
    let per_block = io.sb.per_block();
    while left > 0 {
        let before = map.at(io, index)?.filter(|_| index > 0);
        let goal = before
            .and_then(|record| io.sb.data_index(record.place.address + (index - record.key) * per_block))
            .unwrap_or(u64::from(group) * u64::from(io.sb.ag_blocks));
        let want = left.min(u64::from(u16::MAX));
        let (address, len) = match io.all_in_log {
            true => space.take_blocks(want).ok_or(Errno::NoSpace)?,
            false => take_data(io, space, goal, want)?,
        };
        segment.data(address, len * per_block);
        let ssn = segment.ssn;
        map.change(io, index, |slots| {
            let at = floor(slots, index);
            if let Some(slot) = slots.get_mut(at) {
                let record = &mut slot.record;
                let old = u64::from(record.place.len);
                let follows = index.checked_sub(record.key) == Some(old)
                    && record.place.address + old * per_block == address;
                if follows && let Ok(len) = u16::try_from(old + len) {
                    record.place.len = len;
                    record.birth = ssn;
                    return Ok(());
                }
            }
            let at = slots.partition_point(|slot| slot.record.key < index);
            let place = Place { address, len: u16::try_from(len).map_err(|_| Errno::Corrupt)? };
            slots.insert(at, Slot::clean(Record { key: index, place, birth: ssn, aux: 0 }));
            Ok(())
        })?;
        (index, left) = (index + len, left - len);
    }
    Ok(())
}

/// Takes data blocks.
fn take_data(
    io: &crate::io::Io,
    space: &mut crate::space::Space,
    goal: u64,
    want: u64,
) -> Result<(u64, u64)> {
    let blocks = space.data.take(goal, want).ok_or(Errno::NoSpace)?;
    // A run may reach from the blocks before the log to those behind it, which are no neighbours.
    let edge = io.sb.data_blocks_before();
    let end = if blocks.start < edge && blocks.end > edge { edge } else { blocks.end };
    space.data.mark(end..blocks.end, false);
    Ok((io.sb.data_address(blocks.start), end - blocks.start))
}

/// Takes one block out of the map of a file and gives it back; how many blocks that are.
fn take_out(io: &crate::io::Io, map: &mut Tree, index: u64) -> Result<u64> {
    let per_block = io.sb.per_block();
    let Some(record) = map.at(io, index)?.filter(|record| index - record.key < u64::from(record.place.len))
    else {
        return Ok(0);
    };
    let before = index - record.key;
    let behind = u64::from(record.place.len) - before - 1;
    map.take(io, record.key)?;
    let mut put = |key: u64, first: u64, len: u64| {
        let Ok(len) = u16::try_from(len) else { return Err(Errno::Corrupt) };
        let place = Place { address: record.place.address + first * per_block, len };
        if len > 0 { map.put(io, Record { key, place, ..record }) } else { Ok(()) }
    };
    put(record.key, 0, before)?;
    put(index + 1, before + 1, behind)?;
    io.free(record.place.address + before * per_block, per_block);
    Ok(1)
}

/// Bits of a bitmap block, as words from a bit on.
pub(crate) fn read_bits(words: &mut [u64], start: u64, units: u64, bytes: &[u8]) {
    for at in 0..units {
        let is_used = bytes.get((at / 8) as usize).is_none_or(|byte| byte >> (at % 8) & 1 != 0);
        let unit = start + at;
        if let Some(word) = words.get_mut((unit / 64) as usize) {
            *word = if is_used { *word | 1 << (unit % 64) } else { *word & !(1 << (unit % 64)) };
        }
    }
}
