// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making the checksum of a damaged structure right again.

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_ext_format::checksum::{self, Checked};
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_SIZE};
use zerocopy::FromBytes;

use super::survey::Survey;

/// Which checksum a record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// None that we could set.
    Open,
    /// The superblock's.
    Superblock,
    /// A descriptor's.
    Group(GroupNo),
    /// An inode's.
    Inode(InodeNo),
    /// Behind the entries of an extent block of an inode with this seed.
    ExtentBlock(u32),
    /// In the tail of a directory block.
    DirectoryLeaf(u32),
    /// Behind the entries of an index block whose limit stands at this offset.
    Htree(u32, usize),
    /// In the header of an attribute block.
    Xattr(BlockNo),
    /// The journal superblock's own.
    Journal,
    /// Of multiple-mount protection.
    Mmp,
}

impl Seal {
    /// Puts the right checksum into `record`.
    pub fn close(self, survey: &Survey, record: &mut [u8]) {
        let seed = survey.seed;
        match self {
            Seal::Open => {}
            _ if !survey.features.group_csum() => {}
            Seal::Group(group) => {
                let checked = checksum::group_desc(survey.features, seed, &survey.uuid, group, record);
                put(record, 0x1E, 2, checked);
            }
            _ if !survey.features.metadata_csum() => {}
            Seal::Superblock => {
                let checked = <[u8; SUPERBLOCK_SIZE]>::read_from_bytes(record).ok().map(|bytes| {
                    let superblock: RawSuperblock = zerocopy::transmute!(bytes);
                    checksum::superblock(&superblock)
                });
                put(record, 0x3FC, 4, checked);
            }
            Seal::Inode(inode) => {
                let checked = checksum::inode(seed, inode, record);
                put(record, 0x7C, 2, checked);
                let high = checked.map(|checked| Checked { computed: checked.computed >> 16, ..checked });
                let extra =
                    record.get(0x80..0x82).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
                if extra >= 4 {
                    put(record, 0x82, 2, high);
                }
            }
            Seal::ExtentBlock(inode_seed) => {
                let max = usize::from(u16::from_le_bytes([record[4], record[5]]));
                put(record, 12 + 12 * max, 4, checksum::extent_block(inode_seed, record));
            }
            Seal::DirectoryLeaf(inode_seed) => {
                put(record, record.len() - 4, 4, checksum::directory_leaf(inode_seed, record));
            }
            Seal::Htree(inode_seed, count) => {
                let limit = usize::from(u16::from_le_bytes([record[count], record[count + 1]]));
                put(record, count + 8 * limit + 4, 4, checksum::htree(inode_seed, record, count));
            }
            Seal::Xattr(block) => put(record, 0x10, 4, checksum::xattr_block(seed, block, record)),
            Seal::Mmp => put(record, 0x3FC, 4, checksum::mmp_block(seed, record)),
            Seal::Journal => {
                // Checksums of the journal are big-endian, and counted as zero.
                if record.len() >= 1024 && record[0x50] == 4 {
                    record[0xFC..0x100].fill(0);
                    let crc = checksum::crc32c(checksum::NO_SEED, &record[..1024]);
                    record[0xFC..0x100].copy_from_slice(&crc.to_be_bytes());
                }
            }
        }
    }
}

fn put(record: &mut [u8], at: usize, len: usize, checked: Option<Checked>) {
    if let (Some(checked), Some(field)) = (checked, record.get_mut(at..at + len)) {
        field.copy_from_slice(&checked.computed.to_le_bytes()[..len]);
    }
}
