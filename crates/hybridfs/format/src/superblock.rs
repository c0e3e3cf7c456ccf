// SPDX-License-Identifier: MIT OR Apache-2.0
//! The superblock: what never changes.

use std::collections::BTreeSet;
use std::ops::Range;

use bitflags::bitflags;
use fsmend_base::width::low_u32;

use crate::bytes::{crc_without, get, get_u32, get_u64, put, put_u32, put_u64};
use crate::header::HEADER_LEN;
use crate::inode::INODE_LEN;
use crate::{Parsed, Wrong};

const MAGIC: &[u8; 8] = b"hybridfs";
const LEN: usize = 512;
/// The version of the format.
pub const VERSION: u32 = 1;
/// Where the first superblock is.
pub const SUPERBLOCK_OFFSET: u64 = 64 << 10;
/// Bytes that each static structure has for itself.
pub const STATIC_LEN: u64 = 4096;
/// Bytes at the start of the log that static structures take; rounded up to blocks.
pub const LOG_HEAD: u64 = 16 << 10;

bitflags! {
    /// Features that must be known.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Incompat: u64 {
        /// The log is on another device.
        const LOG_DEVICE = 1;
        // All other bits: operators keep them.
        const _ = !0;
    }
}

/// Data begins here at the earliest.
const DATA_START: u64 = 128 << 10;
/// Blocks that a log has at least.
const LOG_BLOCKS_MIN: u64 = 160;
/// Blocks of a device that are not in the log, at least.
const BLOCKS_BESIDE_MIN: u64 = 64;

/// Geometry and identity of a file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Features that may be ignored.
    pub compat: u64,
    /// Features that readers may ignore.
    pub ro_compat: u64,
    /// Features that must be known.
    pub incompat: Incompat,
    /// Identity.
    pub uuid: [u8; 16],
    /// Name.
    pub label: [u8; 32],
    /// Bytes in a fragment.
    pub fragment_size: u32,
    /// Bytes in a block.
    pub block_size: u32,
    /// Fragments of the device.
    pub fragments: u64,
    /// First fragment of the log.
    pub log_start: u64,
    /// Fragments of the log.
    pub log_fragments: u64,
    /// Data blocks in an allocation group.
    pub ag_blocks: u32,
    /// Segments between checkpoints.
    pub checkpoint_segments: u32,
    /// Most fragments in a segment.
    pub segment_fragments: u32,
    /// Blocks of the log that only removing may use.
    pub reserve_blocks: u32,
    /// Inode numbers are below this.
    pub inodes: u64,
    /// Key of the name hash.
    pub hash_key: [u8; 16],
    /// When it was made.
    pub made: u64,
    /// The log's device; zero: this one.
    pub log_uuid: [u8; 16],
}

/// The log that mkfs makes on a device of `len` bytes, in blocks: its first, and how many. In the middle; `None` where there is no room for one.
pub fn usual_log(len: u64, block: u64, log_bytes: Option<u64>) -> Option<(u64, u64)> {
    let all = len.checked_div(block)?;
    let count = log_bytes.unwrap_or(len / 8).div_ceil(block).max(LOG_BLOCKS_MIN);
    let first = (all.checked_sub(count)? / 2).max(DATA_START / block);
    (count.checked_add(BLOCKS_BESIDE_MIN)? <= all).then_some((first, count))
}

impl Superblock {
    /// Reads a superblock and checks that everything can be computed with it.
    pub fn parse(bytes: &[u8]) -> Parsed<Superblock> {
        let bytes = bytes.get(..LEN).ok_or(Wrong::Short)?;
        if &get::<8>(bytes, 0) != MAGIC {
            return Err(Wrong::Magic);
        }
        if get_u32(bytes, 12) != VERSION {
            return Err(Wrong::Version);
        }
        if crc_without(u32::MAX, bytes, 8) != get_u32(bytes, 8) {
            return Err(Wrong::Checksum);
        }
        let superblock = Superblock {
            compat: get_u64(bytes, 16),
            ro_compat: get_u64(bytes, 24),
            incompat: Incompat::from_bits_retain(get_u64(bytes, 32)),
            uuid: get(bytes, 40),
            label: get(bytes, 56),
            fragment_size: get_u32(bytes, 88),
            block_size: get_u32(bytes, 92),
            fragments: get_u64(bytes, 96),
            log_start: get_u64(bytes, 104),
            log_fragments: get_u64(bytes, 112),
            ag_blocks: get_u32(bytes, 120),
            checkpoint_segments: get_u32(bytes, 124),
            segment_fragments: get_u32(bytes, 128),
            reserve_blocks: get_u32(bytes, 132),
            inodes: get_u64(bytes, 136),
            hash_key: get(bytes, 144),
            made: get_u64(bytes, 160),
            log_uuid: get(bytes, 168),
        };
        superblock.check()?;
        Ok(superblock)
    }

    /// Whether everything can be computed with it.
    pub fn check(&self) -> Parsed<()> {
        let wrong = |what| Err(Wrong::Value(what));
        if !self.block_size.is_power_of_two() || !(4096..=65536).contains(&self.block_size) {
            return wrong("block size");
        }
        if !self.fragment_size.is_power_of_two() || !(512..=self.block_size).contains(&self.fragment_size) {
            return wrong("fragment size");
        }
        if self.fragments >= 1 << 48 {
            return wrong("length of the device");
        }
        let per_block = self.per_block();
        let log_end = self.log_start.checked_add(self.log_fragments);
        let is_aligned =
            self.log_start.is_multiple_of(per_block) && self.log_fragments.is_multiple_of(per_block);
        let is_inside = log_end.is_some_and(|end| end <= self.data_end());
        if !is_aligned || !is_inside || self.log_start < self.data_start() {
            return wrong("place of the log");
        }
        if self.log_fragments <= self.log_head() {
            return wrong("length of the log");
        }
        if u64::from(self.ag_blocks) > self.bitmap_units() || self.ag_blocks == 0 {
            return wrong("size of allocation groups");
        }
        if !(1..=64).contains(&self.checkpoint_segments) {
            return wrong("segments between checkpoints");
        }
        if self.inodes > u64::from(u32::MAX) || self.inodes <= u64::from(crate::ROOT) {
            return wrong("number of inodes");
        }
        if (self.log_uuid != [0; 16]) != (self.incompat.contains(Incompat::LOG_DEVICE)) {
            return wrong("log on another device");
        }
        Ok(())
    }

    /// Its bytes.
    pub fn store(&self) -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        put(&mut bytes, 0, MAGIC);
        put_u32(&mut bytes, 12, VERSION);
        put_u64(&mut bytes, 16, self.compat);
        put_u64(&mut bytes, 24, self.ro_compat);
        put_u64(&mut bytes, 32, self.incompat.bits());
        put(&mut bytes, 40, &self.uuid);
        put(&mut bytes, 56, &self.label);
        put_u32(&mut bytes, 88, self.fragment_size);
        put_u32(&mut bytes, 92, self.block_size);
        put_u64(&mut bytes, 96, self.fragments);
        put_u64(&mut bytes, 104, self.log_start);
        put_u64(&mut bytes, 112, self.log_fragments);
        put_u32(&mut bytes, 120, self.ag_blocks);
        put_u32(&mut bytes, 124, self.checkpoint_segments);
        put_u32(&mut bytes, 128, self.segment_fragments);
        put_u32(&mut bytes, 132, self.reserve_blocks);
        put_u64(&mut bytes, 136, self.inodes);
        put(&mut bytes, 144, &self.hash_key);
        put_u64(&mut bytes, 160, self.made);
        put(&mut bytes, 168, &self.log_uuid);
        let crc = crc_without(u32::MAX, &bytes, 8);
        put_u32(&mut bytes, 8, crc);
        bytes
    }

    /// Of a file system whose log is on another device: the first byte of it among those of both, and how many it has.
    pub fn log_device(&self) -> Option<(u64, u64)> {
        let bytes = |fragments: u64| fragments.checked_mul(u64::from(self.fragment_size));
        let is_elsewhere = self.incompat.contains(Incompat::LOG_DEVICE);
        is_elsewhere.then_some((bytes(self.log_start)?, bytes(self.log_fragments)?))
    }

    /// Fragments in a block.
    pub fn per_block(&self) -> u64 {
        u64::from(self.block_size / self.fragment_size.max(1)).max(1)
    }

    /// Inodes in an inode block.
    pub fn inodes_per_block(&self) -> u32 {
        (self.block_size / low_u32(INODE_LEN as u64)).clamp(1, 32)
    }

    /// Fragments of an inode block.
    pub fn inode_block_fragments(&self) -> u64 {
        (u64::from(self.inodes_per_block()) * INODE_LEN as u64).div_ceil(u64::from(self.fragment_size.max(1)))
    }

    /// Units that a bitmap has.
    pub fn bitmap_units(&self) -> u64 {
        (u64::from(self.block_size) - HEADER_LEN as u64) * 8
    }

    /// Fragments of the log head.
    pub fn log_head(&self) -> u64 {
        let block = u64::from(self.block_size.max(1));
        LOG_HEAD.div_ceil(block) * self.per_block()
    }

    /// First fragment of data.
    pub fn data_start(&self) -> u64 {
        DATA_START / u64::from(self.fragment_size.max(1))
    }

    /// Where the last superblock copy is.
    pub fn last_copy_offset(&self) -> u64 {
        let bytes = self.fragments.saturating_mul(u64::from(self.fragment_size));
        (bytes / STATIC_LEN).saturating_sub(1) * STATIC_LEN
    }

    /// Behind the last fragment of data: the last whole block before the last copy.
    pub fn data_end(&self) -> u64 {
        self.last_copy_offset() / u64::from(self.block_size.max(1)) * self.per_block()
    }

    /// Where a superblock may be on a device of `len` bytes of which nothing is known: at its place, at the end, and at the
    /// start of the log of the default size.
    pub fn usual_places(len: u64) -> Vec<u64> {
        let last = (len / STATIC_LEN).saturating_sub(1) * STATIC_LEN;
        let blocks = (12..=16).map(|shift| 1 << shift);
        let logs = blocks.filter_map(|block| Some(usual_log(len, block, None)?.0 * block));
        [SUPERBLOCK_OFFSET, last].into_iter().chain(logs).collect()
    }

    /// Where the superblock in a log may be whose size was chosen: at the start of logs with sizes that people choose, of two decimal or four binary digits.
    pub fn likely_places(len: u64) -> BTreeSet<u64> {
        let decimal =
            (1..100u64).flat_map(|digits| (0..5).map(move |zeros| (digits * 10u64.pow(zeros)) << 20));
        let binary = (8..16u64).flat_map(|digits| (17..38).map(move |zeros| digits << zeros));
        let sizes = decimal.chain(binary).filter(|size| *size < len);
        let blocks = |size| {
            (12..=16).filter_map(move |shift| Some((usual_log(len, 1 << shift, Some(size))?.0, shift)))
        };
        sizes.flat_map(blocks).map(|(block, shift)| block << shift).collect()
    }

    /// Offsets of the three superblocks.
    pub fn copies(&self) -> [u64; 3] {
        let log = self.log_start.saturating_mul(u64::from(self.fragment_size));
        [SUPERBLOCK_OFFSET, log, self.last_copy_offset()]
    }

    /// The fragments of the log that objects may have.
    pub fn log(&self) -> Range<u64> {
        self.log_start.saturating_add(self.log_head())..self.log_start.saturating_add(self.log_fragments)
    }

    /// Data blocks before the log.
    pub fn data_blocks_before(&self) -> u64 {
        self.log_start.saturating_sub(self.data_start()) / self.per_block()
    }

    /// Data blocks.
    pub fn data_blocks(&self) -> u64 {
        let behind = self.data_end().saturating_sub(self.log_start.saturating_add(self.log_fragments));
        self.data_blocks_before() + behind / self.per_block()
    }

    /// The number of the data block at an address, if there is one.
    pub fn data_index(&self, address: u64) -> Option<u64> {
        let before = self.data_blocks_before();
        if !address.is_multiple_of(self.per_block()) {
            return None;
        }
        if address < self.log_start {
            return Some(address.checked_sub(self.data_start())? / self.per_block());
        }
        let behind = address.checked_sub(self.log_start.checked_add(self.log_fragments)?)?;
        (address < self.data_end()).then_some(before + behind / self.per_block())
    }

    /// Where the data block with a number is.
    pub fn data_address(&self, index: u64) -> u64 {
        let before = self.data_blocks_before();
        match index.checked_sub(before) {
            None => self.data_start() + index * self.per_block(),
            Some(behind) => self.log_start + self.log_fragments + behind * self.per_block(),
        }
    }

    /// Allocation groups.
    pub fn ags(&self) -> u64 {
        self.data_blocks().div_ceil(u64::from(self.ag_blocks.max(1)))
    }

    /// Bitmaps of the log.
    pub fn log_bitmaps(&self) -> u64 {
        self.log_fragments.div_ceil(self.bitmap_units())
    }
}
