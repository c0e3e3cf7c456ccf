// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading what lies in the log: objects that prove whose they are, and segments.

use fsmend_base::width;
use fsmend_device::Device;
use fsmend_hybridfs_format::{
    Header, Kind, Parsed, Place, Row, Run, Stream, Summary, Superblock, Wrong, plain_crc,
};

/// A block of the log with its address.
pub(crate) type Block<'b> = (u64, &'b [u8]);
/// Objects of a segment that are read together at most.
const OBJECTS: usize = 16;
/// Bytes that a scan of the log reads at a time.
const SCAN: u64 = 1 << 20;

/// The log of a file system, to be read.
#[derive(Clone, Copy)]
pub(crate) struct Log<'d> {
    pub device: &'d dyn Device,
    pub sb: &'d Superblock,
}

/// What an object has to be.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    pub kind: Kind,
    pub level: u8,
    pub owner: u64,
    pub generation: u32,
    pub key: u64,
    pub birth: u64,
}

/// Why an object cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Its place is not in the log, or too long.
    Place,
    /// The device reports an error.
    Unreadable,
    /// It is damaged.
    Wrong(Wrong),
    /// It is an older or newer one of the same: a write was lost.
    Birth(u64),
    /// It is another one.
    Other,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Place => f.write_str("its place is not in the log"),
            Fault::Unreadable => f.write_str("it cannot be read"),
            Fault::Wrong(wrong) => write!(f, "{wrong}"),
            Fault::Birth(birth) => write!(f, "it holds what segment {birth} wrote"),
            Fault::Other => f.write_str("it belongs to something else"),
        }
    }
}

/// A segment, as far as its summary leads.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub summary: Summary,
    pub crc: u32,
    pub stream: Stream,
    pub continuations: Vec<u64>,
}

impl<'d> Log<'d> {
    /// Byte offset of an address.
    pub fn offset(&self, address: u64) -> u64 {
        address.saturating_mul(u64::from(self.sb.fragment_size))
    }

    /// Whether objects may lie there.
    pub fn has(&self, place: Place) -> bool {
        let log = self.sb.log();
        let longest = self.sb.per_block().max(self.sb.inode_block_fragments());
        let end = place.address.checked_add(u64::from(place.len));
        place.len > 0
            && u64::from(place.len) <= longest
            && place.address >= log.start
            && end.is_some_and(|end| end <= log.end)
    }

    /// Bytes of a run of fragments, wherever it lies.
    pub fn bytes(&self, address: u64, fragments: u64) -> Option<Vec<u8>> {
        let len = usize::try_from(fragments.checked_mul(u64::from(self.sb.fragment_size))?).ok()?;
        let mut bytes = vec![0; len];
        self.device.read_at(self.offset(address), &mut bytes).ok()?;
        Some(bytes)
    }

    /// What a place in the log holds.
    pub fn object(&self, place: Place) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        self.object_in(place, &mut bytes)?;
        Ok(bytes)
    }

    /// The same, in a buffer that is used again.
    pub fn object_in(&self, place: Place, bytes: &mut Vec<u8>) -> Result<(), Fault> {
        if !self.has(place) {
            return Err(Fault::Place);
        }
        // No more than a block, or one of inodes.
        bytes.resize(usize::from(place.len) * self.sb.fragment_size as usize, 0);
        self.device.read_at(self.offset(place.address), bytes).map_err(|_| Fault::Unreadable)
    }

    /// An object with a header, if it is the one that is expected.
    pub fn headed(&self, place: Place, is: &Expected) -> Result<(Header, Vec<u8>), Fault> {
        let mut bytes = Vec::new();
        let header = self.headed_in(place, is, &mut bytes)?;
        Ok((header, bytes))
    }

    /// The same, in a buffer that is used again.
    pub fn headed_in(&self, place: Place, is: &Expected, bytes: &mut Vec<u8>) -> Result<Header, Fault> {
        Ok(self.headed_at(place, is, bytes)?.0)
    }

    /// The same, where the device has it in memory, or else in the buffer.
    pub fn headed_at<'b>(
        &'b self,
        place: Place,
        is: &Expected,
        buffer: &'b mut Vec<u8>,
    ) -> Result<(Header, &'b [u8]), Fault> {
        // No more than a block, or one of inodes.
        let len = usize::from(place.len) * self.sb.fragment_size as usize;
        let borrowed =
            if self.has(place) { self.device.borrow(self.offset(place.address), len) } else { None };
        let bytes = match borrowed {
            Some(bytes) => bytes,
            None => {
                self.object_in(place, buffer)?;
                buffer
            }
        };
        Ok((self.header(place, is, bytes)?, bytes))
    }

    /// The header of an object, if it is the one that is expected.
    fn header(&self, place: Place, is: &Expected, bytes: &[u8]) -> Result<Header, Fault> {
        let header = Header::parse(bytes, &self.sb.uuid).map_err(Fault::Wrong)?;
        let is_it = header.kind == is.kind
            && header.level == is.level
            && header.owner == is.owner
            && header.generation == is.generation
            && header.address == place.address;
        if !is_it {
            return Err(Fault::Other);
        }
        if header.birth != is.birth {
            return Err(Fault::Birth(header.birth));
        }
        if header.key == is.key { Ok(header) } else { Err(Fault::Other) }
    }

    fn block(&self, address: u64) -> Option<Vec<u8>> {
        let (log, per_block) = (self.sb.log(), self.sb.per_block());
        let is_inside =
            address >= log.start && address.checked_add(per_block).is_some_and(|end| end <= log.end);
        if is_inside { self.bytes(address, per_block) } else { None }
    }

    /// The segment whose summary lies at an address.
    pub fn segment(&self, address: u64) -> Option<Segment> {
        self.segment_of(address, &self.block(address)?).ok()
    }

    fn segment_of(&self, address: u64, block: &[u8]) -> Parsed<Segment> {
        let uuid = &self.sb.uuid;
        let (summary, crc, part) = Summary::parse(block, address, uuid)?;
        let rows_max = self.sb.log_fragments.saturating_mul(64);
        let len = summary.stream_len as usize;
        if len as u64 > rows_max {
            return Err(Wrong::Value("length of a stream"));
        }
        let (mut stream, mut continuations) = (part.to_vec(), Vec::new());
        let mut next = summary.continuation;
        for number in 0..summary.continuations {
            let bytes = self.block(next).ok_or(Wrong::Short)?;
            continuations.push(next);
            let (behind, part) =
                Summary::parse_continuation(&bytes, (summary.ssn, u64::from(number), next), uuid)?;
            stream.extend_from_slice(part);
            if stream.len() > len {
                return Err(Wrong::Value("length of a stream"));
            }
            next = behind;
        }
        if stream.len() != len || plain_crc(&stream) != summary.stream_crc {
            return Err(Wrong::Checksum);
        }
        let stream = Stream::parse(&stream, summary.counts)?;
        Ok(Segment { summary, crc, stream, continuations })
    }

    /// Whether every object of the body is what was written.
    pub fn is_whole(&self, segment: &Segment) -> bool {
        let mut bytes = Vec::new();
        let rows = &segment.stream.rows;
        // Objects that follow one another are read together.
        rows.chunk_by(|one, next| one.address.checked_add(one.len.into()) == Some(next.address))
            .all(|rows| rows.chunks(OBJECTS).all(|rows| self.are_whole(rows, &mut bytes)))
    }

    /// Whether objects that follow one another are what was written.
    fn are_whole(&self, rows: &[Row], bytes: &mut Vec<u8>) -> bool {
        let places = rows.iter().map(|row| Place { address: row.address, len: row.len });
        let len: u64 = rows.iter().map(|row| u64::from(row.len)).sum();
        let Some(first) = rows.first().filter(|_| places.clone().all(|place| self.has(place))) else {
            return rows.is_empty();
        };
        let fragment = self.sb.fragment_size as usize;
        bytes.resize(width::index(len) * fragment, 0);
        if self.device.read_at(self.offset(first.address), bytes).is_err() {
            return false;
        }
        let mut rest = bytes.as_slice();
        rows.iter().all(|row| {
            let Some((object, behind)) = rest.split_at_checked(usize::from(row.len) * fragment) else {
                return false;
            };
            rest = behind;
            plain_crc(object) == row.crc
        })
    }

    /// Shows the log from its head on, in pieces of whole blocks; what cannot be read is left out block by block.
    pub fn scan(&self, visit: &mut dyn FnMut(Block<'_>)) {
        let (log, per_block) = (self.sb.log(), self.sb.per_block());
        let step = (SCAN / u64::from(self.sb.block_size)).max(1) * per_block;
        let size = self.sb.block_size as usize;
        let mut at = log.start;
        while at < log.end {
            let count = step.min(log.end - at);
            match self.bytes(at, count) {
                Some(bytes) => {
                    for (index, block) in bytes.chunks_exact(size).enumerate() {
                        visit((at + index as u64 * per_block, block));
                    }
                }
                None => {
                    for address in (at..at + count).step_by(width::index(per_block)) {
                        if let Some(block) = self.bytes(address, per_block) {
                            visit((address, &block));
                        }
                    }
                }
            }
            at += count;
        }
    }

    /// All summaries that can be read, by number and address.
    pub fn summaries(&self) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        self.scan(&mut |(address, block)| {
            // Most blocks are something else.
            let is_summary = block.starts_with(b"hyb1") && block.get(8) == Some(&(Kind::Summary as u8));
            if is_summary && let Ok((summary, ..)) = Summary::parse(block, address, &self.sb.uuid) {
                found.push((summary.ssn, address));
            }
        });
        found.sort_unstable();
        found
    }
}

/// Whether all of a run of data blocks, at least one, lies in data.
pub(crate) fn is_data(sb: &Superblock, place: Place) -> bool {
    let Some(first) = sb.data_index(place.address) else { return false };
    let last = first.saturating_add(u64::from(place.len)).saturating_sub(1);
    let end = u64::from(place.len).saturating_sub(1).saturating_mul(sb.per_block());
    place.len > 0
        && last < sb.data_blocks()
        && place.address.checked_add(end).is_some_and(|address| sb.data_address(last) == address)
}

/// A run as claims count it.
pub(crate) fn run_of(place: Place, unit: u64) -> Run {
    Run { address: place.address, len: u64::from(place.len).saturating_mul(unit) }
}
