// SPDX-License-Identifier: MIT OR Apache-2.0
//! Summaries of segments, and the stream that says what a segment holds.

use bitflags::bitflags;

use crate::bytes::{get_u8, get_u16, get_u32, get_u64, put, put_u16, put_u32, put_u64};
use crate::header::{HEADER_LEN, Header, Kind, seal};
use crate::record::{IN_INODE, Map, RECORD_LEN};
use crate::{OWNER_LOG, Parsed, Wrong, plain_crc};

bitflags! {
    /// Flags of a segment.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SummaryFlags: u32 {
        /// The bitmaps are written with this segment.
        const CHECKPOINT = 1;
        /// The last one before unmounting.
        const CLEAN = 2;
        /// Written by recovery, so that what was discarded never counts again.
        const FENCE = 4;
        // All other bits: operators keep them.
        const _ = !0;
    }
}

const STREAM: usize = 1056;
const ROW_LEN: usize = 32;
const RUN_LEN: usize = 16;
/// Bytes of a continuation before its part of the stream.
const CONTINUED: usize = HEADER_LEN + 8;

/// What there is of everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Fragments of the log, without summaries, continuations and the log head.
    pub log: u64,
    /// Data blocks.
    pub data: u64,
    /// Inodes.
    pub inodes: u64,
    /// Inodes without a name.
    pub orphans: u64,
    /// Directories.
    pub directories: u64,
}

/// The first block of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Number of the segment.
    pub ssn: u64,
    /// Its own address.
    pub address: u64,
    /// The summary before.
    pub previous: u64,
    /// The checksum of that.
    pub previous_crc: u32,
    /// What kind of segment.
    pub flags: SummaryFlags,
    /// Where the next summary will be.
    pub next: u64,
    /// The last checkpoint.
    pub checkpoint: u64,
    /// Where its summary is.
    pub checkpoint_address: u64,
    /// How many times it was mounted for writing.
    pub mount: u32,
    /// The generation of the next inode.
    pub generation: u32,
    /// Totals.
    pub totals: Totals,
    /// Time.
    pub time: u64,
    /// Bytes of the stream.
    pub stream_len: u32,
    /// Its checksum.
    pub stream_crc: u32,
    /// Rows, data runs and freed runs in it.
    pub counts: [u32; 3],
    /// Continuations.
    pub continuations: u32,
    /// Where the first one is.
    pub continuation: u64,
    /// Root of the IFILE.
    pub ifile: Map,
    /// Root of the BFILE.
    pub bfile: Map,
    /// Bytes of contents of files that were written since mkfs, and bytes of everything that was written for them.
    pub written: [u64; 2],
}

/// An object of the body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Where.
    pub address: u64,
    /// How many fragments.
    pub len: u16,
    /// What.
    pub kind: Kind,
    /// Of a node, its level.
    pub level: u8,
    /// Checksum of its bytes.
    pub crc: u32,
    /// Whose.
    pub owner: u64,
    /// Key of its first record or entry; number of an inode block or bitmap.
    pub key: u64,
}

/// Some fragments in a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Run {
    /// The first.
    pub address: u64,
    /// How many.
    pub len: u64,
}

/// What a segment holds, takes and gives back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stream {
    /// Objects of the body.
    pub rows: Vec<Row>,
    /// Data extents taken.
    pub data: Vec<Run>,
    /// Runs given back, of both areas.
    pub freed: Vec<Run>,
}

impl Stream {
    /// Its bytes.
    pub fn store(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.rows.len() * ROW_LEN);
        for row in &self.rows {
            let mut raw = [0; ROW_LEN];
            put_u64(&mut raw, 0, row.address);
            put_u16(&mut raw, 8, row.len);
            put(&mut raw, 10, &[row.kind as u8, row.level]);
            put_u32(&mut raw, 12, row.crc);
            put_u64(&mut raw, 16, row.owner);
            put_u64(&mut raw, 24, row.key);
            bytes.extend_from_slice(&raw);
        }
        for run in self.data.iter().chain(&self.freed) {
            bytes.extend_from_slice(&run.address.to_le_bytes());
            bytes.extend_from_slice(&run.len.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`Summary::counts`] says that there is.
    pub fn parse(bytes: &[u8], counts: [u32; 3]) -> Parsed<Stream> {
        let len =
            |count: u32, each: usize| usize::try_from(count).ok().and_then(|count| count.checked_mul(each));
        let (Some(rows_len), Some(data_len), Some(freed_len)) =
            (len(counts[0], ROW_LEN), len(counts[1], RUN_LEN), len(counts[2], RUN_LEN))
        else {
            return Err(Wrong::Value("length of a stream"));
        };
        let behind_rows = rows_len.checked_add(data_len).ok_or(Wrong::Short)?;
        if behind_rows.checked_add(freed_len) != Some(bytes.len()) {
            return Err(Wrong::Value("length of a stream"));
        }
        let row = |raw: &[u8]| {
            Ok(Row {
                address: get_u64(raw, 0),
                len: get_u16(raw, 8),
                kind: Kind::from_number(get_u8(raw, 10)).ok_or(Wrong::Value("type of a row"))?,
                level: get_u8(raw, 11),
                crc: get_u32(raw, 12),
                owner: get_u64(raw, 16),
                key: get_u64(raw, 24),
            })
        };
        let run = |raw: &[u8]| Run { address: get_u64(raw, 0), len: get_u64(raw, 8) };
        let (rows, runs) = bytes.split_at(rows_len);
        let (data, freed) = runs.split_at(data_len);
        Ok(Stream {
            rows: rows.chunks_exact(ROW_LEN).map(row).collect::<Parsed<_>>()?,
            data: data.chunks_exact(RUN_LEN).map(run).collect(),
            freed: freed.chunks_exact(RUN_LEN).map(run).collect(),
        })
    }
}

impl Summary {
    /// Bytes of the stream that a summary holds.
    pub fn inline_stream(block_size: u32) -> usize {
        (block_size as usize).saturating_sub(STREAM)
    }

    /// Bytes of the stream that a continuation holds.
    pub fn continued_stream(block_size: u32) -> usize {
        (block_size as usize).saturating_sub(CONTINUED)
    }

    /// Reads the summary at `address`; returns its checksum and the part of the stream that it holds, too.
    pub fn parse<'b>(block: &'b [u8], address: u64, uuid: &[u8; 16]) -> Parsed<(Summary, u32, &'b [u8])> {
        let header = Header::parse(block, uuid)?;
        if block.len() < STREAM {
            return Err(Wrong::Short);
        }
        let is_it = header.kind == Kind::Summary && header.owner == OWNER_LOG && header.key == header.birth;
        if !is_it || header.address != address {
            return Err(Wrong::Identity);
        }
        let map = |at: usize| {
            Map::parse(get_u8(block, at), get_u8(block, at + 1), &block[at + 8..][..IN_INODE * RECORD_LEN])
        };
        let summary = Summary {
            ssn: header.key,
            address,
            previous: get_u64(block, 64),
            previous_crc: get_u32(block, 72),
            flags: SummaryFlags::from_bits_retain(get_u32(block, 76)),
            next: get_u64(block, 80),
            checkpoint: get_u64(block, 88),
            checkpoint_address: get_u64(block, 96),
            mount: get_u32(block, 104),
            generation: get_u32(block, 108),
            totals: Totals {
                log: get_u64(block, 112),
                data: get_u64(block, 120),
                inodes: get_u64(block, 128),
                orphans: get_u64(block, 136),
                directories: get_u64(block, 144),
            },
            time: get_u64(block, 152),
            stream_len: get_u32(block, 160),
            stream_crc: get_u32(block, 164),
            counts: [get_u32(block, 168), get_u32(block, 172), get_u32(block, 176)],
            continuations: get_u32(block, 180),
            continuation: get_u64(block, 184),
            ifile: map(192)?,
            bfile: map(616)?,
            written: [get_u64(block, 1040), get_u64(block, 1048)],
        };
        let len = block.len().saturating_sub(STREAM).min(summary.stream_len as usize);
        Ok((summary, get_u32(block, 4), &block[STREAM..STREAM + len]))
    }

    /// Its block, with the first part of `stream`; returns the checksum, too.
    pub fn store(&self, stream: &[u8], block_size: u32, uuid: &[u8; 16]) -> (Vec<u8>, u32) {
        let mut block = vec![0; block_size as usize];
        let header = Header {
            kind: Kind::Summary,
            level: 0,
            count: 0,
            owner: OWNER_LOG,
            generation: 0,
            flags: 0,
            key: self.ssn,
            address: self.address,
            birth: self.ssn,
        };
        header.store(&mut block, uuid);
        put_u64(&mut block, 64, self.previous);
        put_u32(&mut block, 72, self.previous_crc);
        put_u32(&mut block, 76, self.flags.bits());
        put_u64(&mut block, 80, self.next);
        put_u64(&mut block, 88, self.checkpoint);
        put_u64(&mut block, 96, self.checkpoint_address);
        put_u32(&mut block, 104, self.mount);
        put_u32(&mut block, 108, self.generation);
        let totals = &self.totals;
        for (at, value) in
            [totals.log, totals.data, totals.inodes, totals.orphans, totals.directories, self.time]
                .into_iter()
                .enumerate()
        {
            put_u64(&mut block, 112 + at * 8, value);
        }
        put_u32(&mut block, 160, u32::try_from(stream.len()).unwrap_or(u32::MAX));
        put_u32(&mut block, 164, plain_crc(stream));
        for (at, count) in self.counts.into_iter().enumerate() {
            put_u32(&mut block, 168 + at * 4, count);
        }
        put_u32(&mut block, 180, self.continuations);
        put_u64(&mut block, 184, self.continuation);
        for (at, map) in [(192, &self.ifile), (616, &self.bfile)] {
            put(&mut block, at, &[map.height, u8::try_from(map.records.len()).unwrap_or(u8::MAX)]);
            put(&mut block, at + 8, &map.store());
        }
        put_u64(&mut block, 1040, self.written[0]);
        put_u64(&mut block, 1048, self.written[1]);
        let inline = stream.len().min(Self::inline_stream(block_size));
        put(&mut block, STREAM, &stream[..inline]);
        let crc = seal(&mut block, uuid);
        (block, crc)
    }

    /// A continuation: its block with a part of the stream.
    pub fn store_continuation(
        (ssn, number): (u64, u64),
        (address, next): (u64, u64),
        part: &[u8],
        block_size: u32,
        uuid: &[u8; 16],
    ) -> Vec<u8> {
        let mut block = vec![0; block_size as usize];
        let header = Header {
            kind: Kind::Continuation,
            level: 0,
            count: u32::try_from(part.len()).unwrap_or(u32::MAX),
            owner: OWNER_LOG,
            generation: 0,
            flags: 0,
            key: number,
            address,
            birth: ssn,
        };
        header.store(&mut block, uuid);
        put_u64(&mut block, HEADER_LEN, next);
        put(&mut block, CONTINUED, part);
        seal(&mut block, uuid);
        block
    }

    /// Reads continuation `number` of segment `ssn`: where the next one is, and its part of the stream.
    pub fn parse_continuation<'b>(
        block: &'b [u8],
        (ssn, number, address): (u64, u64, u64),
        uuid: &[u8; 16],
    ) -> Parsed<(u64, &'b [u8])> {
        let header = Header::parse(block, uuid)?;
        let is_it = header.kind == Kind::Continuation && header.birth == ssn && header.key == number;
        if !is_it || header.address != address {
            return Err(Wrong::Identity);
        }
        let len = usize::try_from(header.count).map_err(|_| Wrong::Short)?;
        let part = block.get(CONTINUED..).and_then(|rest| rest.get(..len)).ok_or(Wrong::Short)?;
        Ok((get_u64(block, HEADER_LEN), part))
    }
}
