// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks that two files claim: planted from a seed, one pointer or extent at a time, in images of ext2, ext3, ext4 and rext3.
//!
//! As in §5.2 of the paper on ffsck: a pointer of one file is made to lead to a block of another one. Nothing else changes, and checksums
//! are right.

use std::collections::BTreeSet;
use std::io;

use fsmend_base::{InodeNo, SeededRandom};
use fsmend_device::Device;
use fsmend_ext_format::checksum;

use crate::repair::bytes::{u16_at, u32_at};

const EXTENTS: u32 = 0x8_0000;
const REGULAR: u16 = 0o100_000;
const WIDE: u32 = 0x80;
const CHECKSUM_SEED: u32 = 0x2000;
const METADATA_CHECKSUMS: u32 = 0x400;

/// A block that two files claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The file whose pointer was changed.
    pub thief: u32,
    /// The file that the block belongs to.
    pub owner: u32,
    /// The block.
    pub block: u64,
    /// Where the record of the thief lies on the device.
    pub at: u64,
    /// The record as it is now.
    pub record: Vec<u8>,
}

/// A run of blocks that a record points to.
struct Claim {
    inode: u32,
    /// Of the record on the device.
    at: u64,
    /// Of the pointer or extent in the record.
    place: usize,
    start: u64,
    len: u64,
}

struct Reader<'d> {
    device: &'d dyn Device,
    superblock: Vec<u8>,
    block_size: u64,
    inode_size: usize,
}

/// Plants up to `count` shared blocks; fewer where there are too few files. No file has a part in two of them.
pub fn plant(device: &dyn Device, count: usize, seed: u64) -> io::Result<Vec<Shared>> {
    let mut superblock = vec![0; 1024];
    device.read_at(1024, &mut superblock).map_err(io::Error::other)?;
    let (block_size, inode_size) =
        (1024 << u32_at(&superblock, 24).min(6), usize::from(u16_at(&superblock, 88)));
    let reader = Reader { device, superblock, block_size, inode_size };
    let claims = reader.claims()?;
    let mut random = SeededRandom::new(seed);
    // A thief steals one block with one pointer, so that one block is contested and no more.
    let mut thieves: Vec<&Claim> = claims.iter().filter(|claim| claim.len == 1).collect();
    let (mut taken, mut planted) = (BTreeSet::new(), Vec::new());
    while planted.len() < count && !thieves.is_empty() {
        let thief = thieves.swap_remove(random.below(thieves.len() as u64) as usize);
        let owner = &claims[random.below(claims.len() as u64) as usize];
        if thief.inode == owner.inode || taken.contains(&thief.inode) || taken.contains(&owner.inode) {
            continue;
        }
        taken.extend([thief.inode, owner.inode]);
        let block = owner.start + random.below(owner.len);
        let record = reader.stolen(thief, block)?;
        planted.push(Shared { thief: thief.inode, owner: owner.inode, block, at: thief.at, record });
    }
    Ok(planted)
}

impl Reader<'_> {
    fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.device.read_at(at, &mut bytes).map_err(io::Error::other)?;
        Ok(bytes)
    }

    /// What the records of ordinary files point to themselves.
    fn claims(&self) -> io::Result<Vec<Claim>> {
        let (inodes, per_group) = (u32_at(&self.superblock, 0), u32_at(&self.superblock, 40).max(1));
        let wide = u32_at(&self.superblock, 96) & WIDE != 0;
        let desc_size = if wide { usize::from(u16_at(&self.superblock, 254)).max(64) } else { 32 };
        let descriptors = (u64::from(u32_at(&self.superblock, 20)) + 1) * self.block_size;
        let mut claims = Vec::new();
        for group in 0..inodes / per_group {
            let desc = self.read(descriptors + u64::from(group) * desc_size as u64, desc_size)?;
            let high = if wide { u64::from(u32_at(&desc, 40)) << 32 } else { 0 };
            let table = (u64::from(u32_at(&desc, 8)) | high) * self.block_size;
            let records = self.read(table, per_group as usize * self.inode_size)?;
            for (index, record) in (0u32..).zip(records.chunks_exact(self.inode_size)) {
                let inode = group * per_group + index + 1;
                let at = table + u64::from(index) * self.inode_size as u64;
                let is_file = u16_at(record, 0) & 0o170_000 == REGULAR && u16_at(record, 26) > 0;
                if inode > 11 && is_file {
                    claims_of(record, (inode, at), &mut claims);
                }
            }
        }
        Ok(claims)
    }

    /// The record of a thief that has taken `block`.
    fn stolen(&self, thief: &Claim, block: u64) -> io::Result<Vec<u8>> {
        let mut record = self.read(thief.at, self.inode_size)?;
        let low = (block as u32).to_le_bytes();
        if u32_at(&record, 32) & EXTENTS != 0 {
            record[thief.place + 6..thief.place + 8].copy_from_slice(&((block >> 32) as u16).to_le_bytes());
            record[thief.place + 8..thief.place + 12].copy_from_slice(&low);
        } else {
            record[thief.place..thief.place + 4].copy_from_slice(&low);
        }
        if u32_at(&self.superblock, 100) & METADATA_CHECKSUMS != 0 {
            let mut uuid = [0; 16];
            uuid.copy_from_slice(&self.superblock[104..120]);
            let has_seed = u32_at(&self.superblock, 96) & CHECKSUM_SEED != 0;
            let seed = if has_seed { u32_at(&self.superblock, 0x270) } else { checksum::uuid_seed(&uuid) };
            if let Some(checked) = checksum::inode(seed, InodeNo(thief.inode), &record) {
                record[0x7C..0x7E].copy_from_slice(&checked.computed.to_le_bytes()[..2]);
                if self.inode_size > 128 && u16_at(&record, 0x80) >= 4 {
                    record[0x82..0x84].copy_from_slice(&checked.computed.to_le_bytes()[2..]);
                }
            }
        }
        Ok(record)
    }
}

fn claims_of(record: &[u8], (inode, at): (u32, u64), claims: &mut Vec<Claim>) {
    const MAP: usize = 40;
    if u32_at(record, 32) & EXTENTS == 0 {
        let pointers = (MAP..MAP + 48).step_by(4).map(|place| (place, u64::from(u32_at(record, place))));
        let used = pointers.filter(|(_, start)| *start != 0);
        claims.extend(used.map(|(place, start)| Claim { inode, at, place, start, len: 1 }));
        return;
    }
    let entries = if u16_at(record, MAP + 6) == 0 { usize::from(u16_at(record, MAP + 2)) } else { 0 };
    for place in (MAP + 12..).step_by(12).take(entries.min(4)) {
        let start = u64::from(u32_at(record, place + 8)) | u64::from(u16_at(record, place + 6)) << 32;
        let len = u64::from(u16_at(record, place + 4));
        if (1..=32768).contains(&len) {
            claims.push(Claim { inode, at, place, start, len });
        }
    }
}
