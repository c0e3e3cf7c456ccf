// SPDX-License-Identifier: MIT OR Apache-2.0
//! A segment that holds what a repair changes, put together in memory: objects get places that nothing uses, and lists say where they are.

use fsmend_hybridfs_format::{
    HEADER_LEN, Header, Kind, Map, OWNER_BFILE, Place, RECORD_LEN, Record, Row, Stream, Summary, Superblock,
    node_capacity, plain_crc, seal, store_node,
};

use crate::allocation::{Area, mark};
use crate::map::{Owner, sum};

/// Records in an inode or a summary at most: one slot is left for attributes.
pub(crate) const ROOT_MAX: usize = 12;

/// No room is left in the log.
pub(crate) struct Full;

pub(crate) struct Segment<'a> {
    sb: &'a Superblock,
    pub ssn: u64,
    /// Fragments of the log that must not be used.
    taken: Vec<u64>,
    /// Those among them that only the old state uses: the last resort.
    given_up: Vec<u64>,
    /// Where the search for whole blocks goes on.
    cursor: u64,
    /// The block that small objects go into, and its first free fragment.
    open: Option<(u64, u64)>,
    pub writes: Vec<(u64, Vec<u8>)>,
    pub stream: Stream,
}

impl<'a> Segment<'a> {
    pub fn new(sb: &'a Superblock, ssn: u64, (taken, given_up): (Vec<u64>, Vec<u64>)) -> Self {
        let (writes, stream) = (Vec::new(), Stream::default());
        Segment { sb, ssn, taken, given_up, cursor: 0, open: None, writes, stream }
    }

    fn is_free(&self, from: u64, until: u64) -> bool {
        (from..until)
            .all(|at| self.taken.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 0))
    }

    /// A free place of so many fragments within a block; where there is none, one that only the old state uses.
    pub fn take(&mut self, len: u64) -> Result<Place, Full> {
        if let Ok(place) = self.take_free(len) {
            return Ok(place);
        }
        let given_up = std::mem::take(&mut self.given_up);
        self.taken.iter_mut().zip(given_up).for_each(|(taken, given_up)| *taken &= !given_up);
        self.take_free(len)
    }

    fn take_free(&mut self, len: u64) -> Result<Place, Full> {
        let per_block = self.sb.per_block();
        let (blocks, head) = (self.sb.log_fragments / per_block, self.sb.log_head() / per_block);
        if let Some((block, used)) = self.open.filter(|(_, used)| used + len <= per_block) {
            self.open = Some((block, used + len));
            return self.took(block * per_block + used, len);
        }
        let whole = (self.cursor.max(head)..blocks).chain(head..self.cursor.max(head));
        for block in whole {
            if self.is_free(block * per_block, (block + 1) * per_block) {
                self.cursor = block + 1;
                if len < per_block {
                    self.open = Some((block, len));
                }
                return self.took(block * per_block, len);
            }
        }
        // Holes, when no whole block is left.
        let hole = (head * per_block..blocks * per_block)
            .find(|at| at % per_block + len <= per_block && self.is_free(*at, at + len));
        self.took(hole.ok_or(Full)?, len)
    }

    fn took(&mut self, at: u64, len: u64) -> Result<Place, Full> {
        mark(&mut self.taken, (at, at + len), true);
        Ok(Place { address: self.sb.log_start + at, len: u16::try_from(len).map_err(|_| Full)? })
    }

    /// A whole block.
    pub fn take_block(&mut self) -> Result<u64, Full> {
        Ok(self.take(self.sb.per_block())?.address)
    }

    fn fragments(&self, bytes: usize) -> u64 {
        (bytes as u64).div_ceil(u64::from(self.sb.fragment_size)).max(1)
    }

    fn offset(&self, address: u64) -> u64 {
        address.saturating_mul(u64::from(self.sb.fragment_size))
    }

    /// An object with a header.
    pub fn object(&mut self, header: Header, body: &[u8]) -> Result<Place, Full> {
        let place = self.take(self.fragments(HEADER_LEN + body.len()))?;
        self.put(place, header, body);
        Ok(place)
    }

    fn put(&mut self, place: Place, header: Header, body: &[u8]) {
        let mut bytes = vec![0; usize::from(place.len) * self.sb.fragment_size as usize];
        Header { address: place.address, birth: self.ssn, ..header }.store(&mut bytes, &self.sb.uuid);
        if let Some(room) = bytes.get_mut(HEADER_LEN..HEADER_LEN + body.len()) {
            room.copy_from_slice(body);
        }
        seal(&mut bytes, &self.sb.uuid);
        self.note(place, (header.kind, header.level), (header.owner, header.key), bytes);
    }

    /// An object without a header.
    pub fn plain(&mut self, kind: Kind, (owner, key): (u64, u64), mut bytes: Vec<u8>) -> Result<Place, Full> {
        let place = self.take(self.fragments(bytes.len()))?;
        bytes.resize(usize::from(place.len) * self.sb.fragment_size as usize, 0);
        self.note(place, (kind, 0), (owner, key), bytes);
        Ok(place)
    }

    fn note(&mut self, place: Place, (kind, level): (Kind, u8), (owner, key): (u64, u64), bytes: Vec<u8>) {
        let crc = plain_crc(&bytes);
        self.stream.rows.push(Row { address: place.address, len: place.len, kind, level, crc, owner, key });
        self.writes.push((self.offset(place.address), bytes));
    }

    /// A bitmap at a place that it has already; `words` begin with its first unit.
    pub fn bitmap(&mut self, place: Place, area: Area, words: &[u64]) {
        let (_, count) = area.units(self.sb);
        let mut bits = vec![0xFF; self.sb.block_size as usize - HEADER_LEN];
        for at in 0..count {
            let is_used = words.get((at / 64) as usize).is_none_or(|word| word >> (at % 64) & 1 != 0);
            if !is_used && let Some(byte) = bits.get_mut((at / 8) as usize) {
                *byte &= !(1 << (at % 8));
            }
        }
        let units = match area {
            Area::Data(_) => u64::from(self.sb.ag_blocks),
            _ => self.sb.bitmap_units(),
        };
        let header = Header {
            count: u32::try_from(units).unwrap_or(u32::MAX),
            key: area.key(),
            ..self.header(Kind::Bitmap, OWNER_BFILE, 0)
        };
        self.put(place, header, &bits);
    }

    pub fn header(&self, kind: Kind, owner: u64, generation: u32) -> Header {
        Header { kind, level: 0, count: 0, owner, generation, flags: 0, key: 0, address: 0, birth: self.ssn }
    }

    /// A map of these leaves, with at most `room` records above.
    pub fn map(&mut self, of: Owner, leaves: Vec<Record>, room: usize) -> Result<Map, Full> {
        let (mut records, mut height) = (leaves, 0);
        let capacity = node_capacity(self.sb.block_size);
        while records.len() > room.min(ROOT_MAX) {
            height += 1;
            let mut above = Vec::new();
            for part in records.chunks(capacity) {
                let key = part.first().map_or(0, |first| first.key);
                let mut body = vec![0; HEADER_LEN + part.len() * RECORD_LEN];
                store_node(&mut body, part);
                let header = Header {
                    level: height,
                    count: u32::try_from(part.len()).unwrap_or(u32::MAX),
                    key,
                    ..self.header(Kind::Node, of.owner, of.generation)
                };
                // Nodes are whole blocks.
                body.resize(self.sb.block_size as usize, 0);
                let place = self.object(header, body.get(HEADER_LEN..).unwrap_or_default())?;
                above.push(Record { key, place, birth: self.ssn, aux: sum(of.leaves, height, part) });
            }
            records = above;
        }
        Ok(Map { height, records })
    }

    /// Places for what of the stream does not fit into the summary, when so many more rows are still to come.
    pub fn continuations(&mut self, rows: usize) -> Result<Vec<u64>, Full> {
        let len = self.stream.store().len() + rows * 32;
        let left = len.saturating_sub(Summary::inline_stream(self.sb.block_size));
        let count = left.div_ceil(Summary::continued_stream(self.sb.block_size));
        (0..count).map(|_| self.take_block()).collect()
    }

    /// Adds the summary; returns its checksum.
    pub fn close(&mut self, summary: &Summary, continuations: &[u64]) -> u32 {
        let (block_size, uuid) = (self.sb.block_size, &self.sb.uuid);
        let stream = self.stream.store();
        let (block, crc) = summary.store(&stream, block_size, uuid);
        self.writes.push((self.offset(summary.address), block));
        let rest = stream.get(Summary::inline_stream(block_size)..).unwrap_or_default();
        let parts = rest.chunks(Summary::continued_stream(block_size));
        for (number, (address, part)) in continuations.iter().zip(parts).enumerate() {
            let next = continuations.get(number + 1).copied().unwrap_or(0);
            let names = ((self.ssn, number as u64), (*address, next));
            let block = Summary::store_continuation(names.0, names.1, part, block_size, uuid);
            self.writes.push((self.offset(*address), block));
        }
        crc
    }
}
