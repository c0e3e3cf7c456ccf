// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes what changes: inode blocks, maps, directories and bitmaps as one new segment in space that nothing uses, and anchors that lead to it. Nothing of the old
//! state is overwritten, so the old anchors would bring it back; but where the log is full, the segment takes the places of what it replaces.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::{InodeNo, width};
use fsmend_engine::Refusal;
use fsmend_engine::claims::Claims;
use fsmend_engine::repair::Changes;
use fsmend_hybridfs_format::{
    ANCHORS, Anchor, AnchorFlags, Attribute, BODY_LEN, Entry, Format, HEADER_LEN, Header, INODE_LEN, Inode,
    Kind, Map, OWNER_BFILE, OWNER_IFILE, RECORD_LEN, Record, Run, SLOT_ATTRIBUTES, Summary, SummaryFlags,
    Superblock, Totals, anchor_offset, plain_crc, store_attributes, store_entries,
};

use crate::allocation::{Area, bits_on_disk, mark};
use crate::facts::DIRECTORY;
use crate::inode::kind_of;
use crate::map::{Leaves, Owner};
use crate::opening::IFILE;
use crate::repair::{Contents, Model, Node, attributes_of};
use crate::segment::{Full, ROOT_MAX, Segment};
use crate::{HybridFs, log};

impl From<Full> for Refusal {
    fn from(_: Full) -> Refusal {
        Refusal {
            code: "log-full",
            message: "The log has no room left for the repair".to_owned(),
            hint: "Mount the file system and remove files, then repair".to_owned(),
        }
    }
}

/// Data blocks that are claimed, a bit each.
pub(crate) fn data_words(fs: &HybridFs<'_>, claims: &Claims) -> Vec<u64> {
    let sb = fs.sb();
    let mut words = vec![0; width::index(sb.data_blocks().div_ceil(64))];
    for block in 0..sb.data_blocks() {
        if claims.claimed().any(sb.data_address(block), sb.per_block()) {
            mark(&mut words, (block, block + 1), true);
        }
    }
    words
}

fn log_words(fs: &HybridFs<'_>, claims: &Claims) -> Vec<u64> {
    let sb = fs.sb();
    (0..sb.log_fragments.div_ceil(64))
        .map(|word| claims.claimed().load_word_at(sb.log_start + word * 64))
        .collect()
}

/// What is in use at the end.
struct Final {
    log: Vec<u64>,
    data: Vec<u64>,
}

impl Final {
    fn mark(&mut self, sb: &Superblock, run: Run, is_used: bool) {
        match sb.data_index(run.address) {
            Some(first) => mark(&mut self.data, (first, first + run.len.div_ceil(sb.per_block())), is_used),
            None => {
                let start = run.address.saturating_sub(sb.log_start);
                mark(&mut self.log, (start, start.saturating_add(run.len)), is_used);
            }
        }
    }

    /// Gives units back that nothing else claims.
    fn release(&mut self, sb: &Superblock, claims: &Claims, run: Run) {
        for unit in run.address..run.address.saturating_add(run.len) {
            if !claims.contested().get(unit) {
                let whole = unit - unit % sb.per_block();
                match sb.data_index(whole) {
                    Some(_) => self.mark(sb, Run { address: whole, len: sb.per_block() }, false),
                    None => self.mark(sb, Run { address: unit, len: 1 }, false),
                }
            }
        }
    }

    fn words(&self, sb: &Superblock, area: Area) -> Vec<u64> {
        let (start, count) = area.units(sb);
        let words = if matches!(area, Area::Data(_)) { &self.data } else { &self.log };
        let bit = |at: u64| words.get((at / 64) as usize).is_none_or(|word| word >> (at % 64) & 1 != 0);
        let mut cut = vec![0; width::index(count.div_ceil(64))];
        (0..count).filter(|at| bit(start + at)).for_each(|at| mark(&mut cut, (at, at + 1), true));
        cut
    }
}

fn count(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// The segment and its anchors.
pub(crate) fn segment(mut model: Model<'_>) -> Result<Changes, Refusal> {
    let fs = model.fs;
    let (sb, state) = (fs.sb(), &fs.state);
    let mut taken = log_words(fs, &model.input.claims);
    // Bits behind the end are no fragments.
    let end = taken.len() as u64 * 64;
    mark(&mut taken, (sb.log_fragments, end), true);
    let mut left = Final { log: taken.clone(), data: std::mem::take(&mut model.data) };
    let (given_up, remapped) = replaced(&model);
    given_up.iter().for_each(|run| left.release(sb, &model.input.claims, *run));
    let given_up = taken.iter().zip(&left.log).map(|(taken, left)| taken & !left).collect();
    remapped.iter().for_each(|run| left.release(sb, &model.input.claims, *run));
    // A segment that was dropped may have the next number.
    let mut segment = Segment::new(sb, state.last.ssn + 2, (taken, given_up));
    let mut nodes = std::mem::take(&mut model.nodes);
    for (number, entries) in std::mem::take(&mut model.directories) {
        if let Some(node) = nodes.get_mut(&number) {
            node.contents = Contents::Entries(entries);
        }
    }
    for node in nodes.values_mut() {
        write_node(&model, node, &mut segment, &mut left)?;
    }
    let (ifile, totals) = write_inodes(&model, &nodes, &mut segment)?;
    let ifile = segment.map(IFILE, ifile, ROOT_MAX)?;
    let (records, placed) = write_bitmaps(fs, &mut segment, &mut left)?;
    let map = segment.map(
        Owner { leaves: Leaves::Bitmaps, owner: OWNER_BFILE, generation: 0 },
        records,
        ROOT_MAX,
    )?;
    let (address, next) = (segment.take_block()?, segment.take_block()?);
    let continuations = segment.continuations(placed.len())?;
    let bodies = segment.stream.rows.iter().map(|row| Run { address: row.address, len: u64::from(row.len) });
    let placed_runs = placed.iter().map(|(record, _)| log::run_of(record.place, 1));
    for run in bodies.chain(placed_runs).collect::<Vec<_>>() {
        left.mark(sb, run, true);
    }
    for address in continuations.iter().copied().chain([address, next]) {
        left.mark(sb, Run { address, len: sb.per_block() }, true);
    }
    for (record, area) in placed {
        segment.bitmap(record.place, area, &left.words(sb, area));
    }
    let own = (2 + continuations.len() as u64) * sb.per_block() + sb.log_head();
    let all_log: u64 = (0..sb.log_bitmaps()).map(|map| count(&left.words(sb, Area::Log(map)))).sum();
    let all_data: u64 = (0..sb.ags()).map(|group| count(&left.words(sb, Area::Data(group)))).sum();
    let is_clean = totals.orphans == 0;
    let summary = Summary {
        ssn: segment.ssn,
        address,
        previous: 0,
        previous_crc: 0,
        flags: SummaryFlags::CHECKPOINT | if is_clean { SummaryFlags::CLEAN } else { SummaryFlags::empty() },
        next,
        checkpoint: segment.ssn,
        checkpoint_address: address,
        mount: state.last.mount,
        generation: model.generation.wrapping_add(1),
        totals: Totals { log: all_log.saturating_sub(own), data: all_data, ..totals },
        time: state.last.time,
        stream_len: 0,
        stream_crc: 0,
        counts: [segment.stream.rows.len(), segment.stream.data.len(), 0]
            .map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        continuations: u32::try_from(continuations.len()).unwrap_or(u32::MAX),
        continuation: continuations.first().copied().unwrap_or(0),
        ifile,
        bfile: map,
        written: state.last.written,
    };
    let crc = segment.close(&summary, &continuations);
    let mut changes = std::mem::take(&mut model.copies);
    changes.extend(segment.writes);
    changes.extend(anchors(sb, (state.anchor, is_clean), &summary, crc));
    Ok(changes)
}

/// What the old state uses and the new one need not: what the last segments replaced, what inodes led to that are gone or written anew, and blocks of inodes that change.
/// Apart from that, what files lead to that get a new map: it may lead to the same.
fn replaced(model: &Model<'_>) -> (Vec<Run>, Vec<Run>) {
    let state = &model.fs.state;
    let changed = changed_blocks(model, &model.nodes);
    let blocks = state.blocks.iter().map(|block| block.record);
    let blocks = blocks.filter(|record| changed.contains(&record.key));
    let mut given_up: Vec<Run> = blocks.map(|record| log::run_of(record.place, 1)).collect();
    given_up.extend(state.replaced.iter().copied());
    let mut remapped = Vec::new();
    for (number, node) in &model.nodes {
        let is_file = |inode: &Inode| kind_of(inode.mode) == Some(fsmend_engine::inodes::Kind::Regular);
        let list = match &node.inode {
            Some(_) if node.keeps() && !model.directories.contains_key(number) => continue,
            Some(inode) if is_file(inode) => &mut remapped,
            _ => &mut given_up,
        };
        list.extend(node.old.iter().map(|(address, len)| Run { address: *address, len: *len }));
    }
    (given_up, remapped)
}

/// Blocks of inodes that are written anew.
fn changed_blocks(model: &Model<'_>, nodes: &BTreeMap<u32, Node>) -> BTreeSet<u64> {
    let per_block = u64::from(model.fs.sb().inodes_per_block());
    // Blocks whose bits were lost are listed anew.
    let blocks = &model.fs.state.blocks;
    let salvaged = blocks.iter().filter(|block| block.is_salvaged).map(|block| block.record.key);
    nodes.keys().map(|number| u64::from(*number) / per_block).chain(salvaged).collect()
}

/// All four lead to the new segment: none of them may bring the damaged state back.
fn anchors(sb: &Superblock, (last, is_clean): (u64, bool), summary: &Summary, crc: u32) -> Changes {
    let anchor = |number: u64| {
        let anchor = Anchor {
            number,
            flags: if is_clean { AnchorFlags::CLEAN } else { AnchorFlags::empty() },
            ssn: summary.ssn,
            summary: summary.address,
            summary_crc: crc,
        };
        (anchor_offset(sb, number % ANCHORS), anchor.store(&sb.uuid))
    };
    (last + 1..=last + 4).map(anchor).collect()
}

/// Writes what an inode leads to, where that changes, and lets the inode lead there.
fn write_node(
    model: &Model<'_>,
    node: &mut Node,
    segment: &mut Segment<'_>,
    left: &mut Final,
) -> Result<(), Full> {
    let fs = model.fs;
    let keeps = node.keeps();
    let Some(inode) = node.inode.as_mut().filter(|_| !keeps) else { return Ok(()) };
    // Both are written anew: the room that one leaves is that of the other.
    let attributes = node.attributes.take().unwrap_or_else(|| attributes_of(fs, inode));
    let contents = match std::mem::take(&mut node.contents) {
        Contents::Keep => crate::repair::contents_of(fs, inode),
        contents => contents,
    };
    // The numbers of a device stand at the start of the body.
    let kept = if inode.format == Format::Nothing { 8 } else { 0 };
    inode.body[kept..].fill(0);
    write_attributes(inode, &attributes, segment)?;
    write_contents(fs, inode, contents, segment, left)
}

fn write_attributes(
    inode: &mut Inode,
    attributes: &[Attribute],
    segment: &mut Segment<'_>,
) -> Result<(), Full> {
    inode.attribute_slots = 0;
    let Some(bytes) = store_attributes(attributes).filter(|_| !attributes.is_empty()) else { return Ok(()) };
    let header = Header {
        count: u32::try_from(attributes.len()).unwrap_or(u32::MAX),
        ..segment.header(Kind::Attributes, inode.number, inode.generation)
    };
    let place = segment.object(header, &bytes)?;
    let record = Record { key: 0, place, birth: segment.ssn, aux: 0 };
    inode.attribute_slots = SLOT_ATTRIBUTES;
    inode.body[BODY_LEN - RECORD_LEN..].copy_from_slice(&record.store());
    Ok(())
}

fn write_contents(
    fs: &HybridFs<'_>,
    inode: &mut Inode,
    contents: Contents,
    segment: &mut Segment<'_>,
    left: &mut Final,
) -> Result<(), Full> {
    let room = inode.room().len();
    match contents {
        Contents::Keep => {}
        Contents::Small(bytes) if bytes.len() <= room => {
            (inode.format, inode.used) = (Format::Inline, 0);
            inode.body[..bytes.len()].copy_from_slice(&bytes);
        }
        Contents::Small(bytes) => {
            let aux = u64::from(plain_crc(&bytes));
            let place = segment.plain(Kind::Contents, (inode.number, 0), bytes)?;
            let record = Record { key: 0, place, birth: segment.ssn, aux };
            (inode.format, inode.used) = (Format::Small, u64::from(place.len));
            inode.body[..RECORD_LEN].copy_from_slice(&record.store());
        }
        Contents::Extents(extents) => {
            let per_block = fs.sb().per_block();
            let blocks: u64 = extents.iter().map(|record| u64::from(record.place.len)).sum();
            for record in &extents {
                left.mark(fs.sb(), log::run_of(record.place, per_block), true);
            }
            inode.used = blocks * per_block;
            let of = Owner { leaves: Leaves::Extents, owner: inode.number, generation: inode.generation };
            let map = segment.map(of, extents, room / RECORD_LEN)?;
            put_map(inode, &map);
        }
        Contents::Entries(entries) => {
            let entries: Vec<Entry> = entries.into_values().collect();
            let bytes = store_entries(&entries);
            inode.size = bytes.len() as u64;
            if bytes.len() <= room {
                (inode.format, inode.count, inode.height) = (Format::Inline, 0, 0);
                inode.body[..bytes.len()].copy_from_slice(&bytes);
                return Ok(());
            }
            let leaves = write_entries(fs, inode, &entries, segment)?;
            let of = Owner { leaves: Leaves::Directories, owner: inode.number, generation: inode.generation };
            let map = segment.map(of, leaves, room / RECORD_LEN)?;
            put_map(inode, &map);
        }
    }
    Ok(())
}

fn put_map(inode: &mut Inode, map: &Map) {
    (inode.format, inode.height) = (Format::Map, map.height);
    inode.count = u8::try_from(map.records.len()).unwrap_or(u8::MAX);
    let bytes = map.store();
    inode.body[..bytes.len()].copy_from_slice(&bytes);
}

fn write_entries(
    fs: &HybridFs<'_>,
    inode: &Inode,
    entries: &[Entry],
    segment: &mut Segment<'_>,
) -> Result<Vec<Record>, Full> {
    // A quarter of each block is left for names to come.
    let room = (fs.sb().block_size as usize - HEADER_LEN) * 3 / 4;
    let mut leaves = Vec::new();
    let mut rest = entries;
    while let Some(first) = rest.first() {
        let mut len = 0;
        let fits = |entry: &&Entry| {
            len += entry.stored_len();
            len <= room
        };
        let (part, behind) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        rest = behind;
        let header = Header {
            count: u32::try_from(part.len()).unwrap_or(u32::MAX),
            key: first.key,
            ..segment.header(Kind::Directory, inode.number, inode.generation)
        };
        let place = segment.object(header, &store_entries(part))?;
        leaves.push(Record { key: first.key, place, birth: segment.ssn, aux: part.len() as u64 });
    }
    Ok(leaves)
}

/// Writes the blocks of inodes that change, and lists all blocks; with the totals of inodes.
fn write_inodes(
    model: &Model<'_>,
    nodes: &BTreeMap<u32, Node>,
    segment: &mut Segment<'_>,
) -> Result<(Vec<Record>, Totals), Full> {
    let (fs, sb) = (model.fs, model.fs.sb());
    let per_block = u64::from(sb.inodes_per_block());
    let mut blocks: BTreeMap<u64, Record> =
        fs.state.blocks.iter().map(|block| (block.record.key, block.record)).collect();
    for number in changed_blocks(model, nodes) {
        blocks.remove(&number);
        let mut bytes = vec![0; width::index(sb.inode_block_fragments() * u64::from(sb.fragment_size))];
        let (mut live, mut orphans) = (0u64, 0u64);
        let first = number * per_block;
        for (at, place) in bytes.chunks_exact_mut(INODE_LEN).take(width::index(per_block)).enumerate() {
            let number = InodeNo(width::low_u32(first + at as u64));
            let inode = match nodes.get(&number.0) {
                Some(node) => node.inode.clone(),
                None => fs
                    .record(number)
                    .and_then(|bytes| Inode::parse(&bytes, u64::from(number.0), &sb.uuid).ok()),
            };
            if let Some(inode) = inode {
                live |= 1 << at;
                orphans |= u64::from(inode.links == 0) << at;
                place.copy_from_slice(&Inode { birth: segment.ssn, ..inode }.store(&sb.uuid));
            }
        }
        if live != 0 {
            let place = segment.plain(Kind::Inodes, (OWNER_IFILE, number), bytes)?;
            let aux = live | orphans << 32;
            blocks.insert(number, Record { key: number, place, birth: segment.ssn, aux });
        }
    }
    let count = |bits: u32| u64::from(bits.count_ones());
    let totals = Totals {
        inodes: blocks.values().map(|record| count(width::low_u32(record.aux))).sum(),
        orphans: blocks.values().map(|record| count(width::low_u32(record.aux >> 32))).sum(),
        directories: directories(model, nodes),
        ..Totals::default()
    };
    Ok((blocks.into_values().collect(), totals))
}

/// Directories as they will be, orphans among them.
fn directories(model: &Model<'_>, nodes: &BTreeMap<u32, Node>) -> u64 {
    let state = &model.fs.state;
    let per_block = state.sb.inodes_per_block();
    let known = state.facts.marks().filter(|(at, mark)| {
        let block = state.blocks.get(at / per_block as usize);
        let number = block
            .map_or(0, |block| block.record.key * u64::from(per_block) + (at % per_block as usize) as u64);
        let is_changed = u32::try_from(number).is_ok_and(|number| nodes.contains_key(&number));
        mark & DIRECTORY != 0 && !is_changed
    });
    let changed = nodes.values().filter_map(|node| node.inode.as_ref());
    let changed =
        changed.filter(|inode| kind_of(inode.mode) == Some(fsmend_engine::inodes::Kind::Directory)).count();
    (known.count() + changed) as u64
}

type Placed = Vec<(Record, Area)>;

/// Gives bitmaps places: those of the log, and those of data that change. Returns all records, and those that have to be written.
fn write_bitmaps(
    fs: &HybridFs<'_>,
    segment: &mut Segment<'_>,
    left: &mut Final,
) -> Result<(Vec<Record>, Placed), Full> {
    let (sb, log) = (fs.sb(), fs.log());
    let (mut records, mut placed) = (Vec::new(), Vec::new());
    let logs = (0..sb.log_bitmaps()).map(Area::Log);
    for area in logs.chain((0..sb.ags()).map(Area::Data)) {
        let mut aux = 0;
        if let Area::Data(_) = area {
            let words = left.words(sb, area);
            aux = area.units(sb).1 - count(&words);
            let old = fs.state.bfile.get(&area.key()).filter(|record| record.aux == aux);
            let is_same = bits_on_disk(&fs.state, &log, area).is_ok_and(|bits| bits == words);
            if let Some(old) = old.filter(|_| is_same) {
                left.mark(sb, log::run_of(old.place, 1), true);
                records.push(*old);
                continue;
            }
        }
        let place = segment.take(sb.per_block())?;
        let record = Record { key: area.key(), place, birth: segment.ssn, aux };
        records.push(record);
        placed.push((record, area));
    }
    Ok((records, placed))
}
