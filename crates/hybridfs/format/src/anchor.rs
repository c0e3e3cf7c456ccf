// SPDX-License-Identifier: MIT OR Apache-2.0
//! Anchors: where recovery begins.

use bitflags::bitflags;

use crate::bytes::{crc_without, get, get_u32, get_u64, put, put_u32, put_u64};
use crate::superblock::{STATIC_LEN, SUPERBLOCK_OFFSET};
use crate::{Parsed, Superblock, Wrong, seed};

const MAGIC: &[u8; 8] = b"hybanchr";
const LEN: usize = 512;

bitflags! {
    /// Flags of an anchor.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct AnchorFlags: u32 {
        /// The file system was unmounted, and nothing follows the segment.
        const CLEAN = 1;
        // All other bits: operators keep them.
        const _ = !0;
    }
}

/// Leads to the segment from which recovery goes on; always a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Anchor {
    /// Counts up with each anchor written.
    pub number: u64,
    /// [`AnchorFlags::CLEAN`] or nothing.
    pub flags: AnchorFlags,
    /// The segment.
    pub ssn: u64,
    /// Where its summary is.
    pub summary: u64,
    /// Checksum of the summary.
    pub summary_crc: u32,
}

/// Slots of anchors: the one with number `n` is in slot `n % ANCHORS`.
pub const ANCHORS: u64 = 4;

/// Where on the device the slot of an anchor is.
pub fn anchor_offset(superblock: &Superblock, slot: u64) -> u64 {
    let base = if slot.is_multiple_of(2) {
        SUPERBLOCK_OFFSET
    } else {
        superblock.log_start.saturating_mul(u64::from(superblock.fragment_size))
    };
    base.saturating_add(STATIC_LEN * (1 + slot / 2 % 2))
}

impl Anchor {
    /// Reads an anchor.
    pub fn parse(bytes: &[u8], uuid: &[u8; 16]) -> Parsed<Anchor> {
        let bytes = bytes.get(..LEN).ok_or(Wrong::Short)?;
        if &get::<8>(bytes, 0) != MAGIC {
            return Err(Wrong::Magic);
        }
        if &get::<16>(bytes, 16) != uuid {
            return Err(Wrong::Uuid);
        }
        if crc_without(seed(uuid), bytes, 8) != get_u32(bytes, 8) {
            return Err(Wrong::Checksum);
        }
        Ok(Anchor {
            flags: AnchorFlags::from_bits_retain(get_u32(bytes, 12)),
            number: get_u64(bytes, 32),
            ssn: get_u64(bytes, 40),
            summary: get_u64(bytes, 48),
            summary_crc: get_u32(bytes, 56),
        })
    }

    /// Its bytes.
    pub fn store(&self, uuid: &[u8; 16]) -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        put(&mut bytes, 0, MAGIC);
        put_u32(&mut bytes, 12, self.flags.bits());
        put(&mut bytes, 16, uuid);
        put_u64(&mut bytes, 32, self.number);
        put_u64(&mut bytes, 40, self.ssn);
        put_u64(&mut bytes, 48, self.summary);
        put_u32(&mut bytes, 56, self.summary_crc);
        let crc = crc_without(seed(uuid), &bytes, 8);
        put_u32(&mut bytes, 8, crc);
        bytes
    }
}
