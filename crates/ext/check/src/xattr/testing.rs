// SPDX-License-Identifier: MIT OR Apache-2.0
//! For tests of attributes and inline data: a tiny file system in memory, records and attribute blocks made by hand.

use fsmend_base::{BlockNo, InodeNo, SeededRandom};
use fsmend_device::MemoryDevice;
use fsmend_engine::claims::SharedBitmap;
use fsmend_engine::{Findings, Row};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Compat, Features, Incompat, RoCompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::GroupDesc;
use fsmend_ext_format::inode::{RawInode, mode};
use fsmend_ext_format::superblock::RawSuperblock;
use fsmend_ext_format::xattr::{
    BLOCK_HEADER_SIZE, CharSign, ENTRY_SIZE, Entry, RawXattrEntry, RawXattrHeader, XATTR_MAGIC, entry_len,
    padded,
};
use zerocopy::{FromZeros, IntoBytes};

use crate::{Fs, Group};

pub(crate) const BLOCK_SIZE: usize = 1024;
pub(crate) const INODE_SIZE: usize = 256;
/// Where attributes start in the records made here.
pub(crate) const AREA_AT: usize = 160;
const BLOCKS: usize = 64;
const TABLE: usize = 10;
const INODES: u32 = 64;

/// Every feature that concerns attributes.
pub(crate) fn all_features() -> Features {
    Features {
        compat: Compat::EXT_ATTR,
        incompat: Incompat::EA_INODE | Incompat::INLINE_DATA | Incompat::ENCRYPT | Incompat::EXTENTS,
        ro_compat: RoCompat::METADATA_CSUM,
    }
}

/// An empty device for 64 blocks and 64 inodes.
pub(crate) fn device() -> MemoryDevice {
    MemoryDevice::new("test", vec![0; BLOCKS * BLOCK_SIZE])
}

/// The file system on it.
pub(crate) fn fs(device: &MemoryDevice, features: Features) -> Fs<'_> {
    let desc = GroupDesc { inode_table: TABLE as u64, ..GroupDesc::default() };
    Fs {
        device,
        superblock: RawSuperblock::new_zeroed(),
        geometry: geometry(features),
        groups: vec![Group { desc, scan_inodes: INODES }],
        metadata: SharedBitmap::new(BLOCKS as u64),
        now: 0,
        shared_maps: Default::default(),
        resize_map: Default::default(),
        regions: Default::default(),
        homes: Default::default(),
    }
}

fn geometry(features: Features) -> Geometry {
    Geometry {
        block_size: BLOCK_SIZE as u32,
        cluster_blocks: 1,
        blocks_count: BLOCKS as u64,
        first_data_block: 1,
        blocks_per_group: 8192,
        inodes_per_group: INODES,
        group_count: 1,
        inodes_count: INODES,
        inode_size: INODE_SIZE as u32,
        first_inode: 11,
        desc_size: 32,
        reserved_gdt_blocks: 0,
        first_meta_bg: 0,
        backup_groups: [0; 2],
        features,
        revision: 1,
        checksum_seed: 77,
        uuid: [0; 16],
        hurd: false,
        region_blocks: 0,
    }
}

/// Writes the record of an inode to the device.
pub(crate) fn put_inode(device: &mut MemoryDevice, inode: InodeNo, record: &[u8]) {
    let at = TABLE * BLOCK_SIZE + (inode.0 as usize - 1) * INODE_SIZE;
    device.bytes_mut()[at..at + INODE_SIZE].copy_from_slice(record);
}

/// The record of an ordinary file with room for attributes.
pub(crate) fn file_record() -> Vec<u8> {
    let mut record = vec![0; INODE_SIZE];
    let mut inode = RawInode::from_record(&record);
    inode.i_mode.set(mode::REGULAR | 0o644);
    inode.i_links_count.set(1);
    inode.i_extra_isize.set((AREA_AT - 128) as u16);
    inode.store(&mut record);
    record
}

/// Changes fields of a record.
pub(crate) fn edit(record: &mut [u8], change: impl FnOnce(&mut RawInode)) {
    let mut inode = RawInode::from_record(record);
    change(&mut inode);
    inode.store(record);
}

/// An attribute to be written.
#[derive(Clone, Copy)]
pub(crate) struct Attribute<'a> {
    pub(crate) index: u8,
    pub(crate) name: &'a [u8],
    pub(crate) value: Stored<'a>,
}

/// Where the value of an attribute goes.
#[derive(Clone, Copy)]
pub(crate) enum Stored<'a> {
    Here(&'a [u8]),
    /// In inode `.0`, which stores hash `.1`; `.2` bytes.
    Inode(u32, u32, u32),
}

/// `user.NAME` with a value beside it.
pub(crate) fn user<'a>(name: &'a [u8], value: &'a [u8]) -> Attribute<'a> {
    Attribute { index: 1, name, value: Stored::Here(value) }
}

/// A file's record with these attributes.
pub(crate) fn record_with(attributes: &[Attribute<'_>]) -> Vec<u8> {
    let mut record = file_record();
    record[AREA_AT..AREA_AT + 4].copy_from_slice(&XATTR_MAGIC.to_le_bytes());
    fill(&mut record[AREA_AT + 4..], 0, attributes);
    record
}

/// An attribute block with these attributes, as it lies at `block`.
pub(crate) fn block_with(block: BlockNo, attributes: &[Attribute<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_SIZE];
    let header = RawXattrHeader {
        h_magic: XATTR_MAGIC.into(),
        h_refcount: 1.into(),
        h_blocks: 1.into(),
        ..RawXattrHeader::default()
    };
    header.store(&mut bytes);
    fill(&mut bytes, BLOCK_HEADER_SIZE, attributes);
    seal(block, &mut bytes);
    bytes
}

/// Sets the checksum of an attribute block right.
pub(crate) fn seal(block: BlockNo, bytes: &mut [u8]) {
    if let Some(checked) = checksum::xattr_block(77, block, bytes) {
        bytes[16..20].copy_from_slice(&checked.computed.to_le_bytes());
    }
}

/// Puts entries from `at` and values from the end; value offsets count from the start of `bytes`.
fn fill(bytes: &mut [u8], mut at: usize, attributes: &[Attribute<'_>]) {
    let mut end = bytes.len();
    for attribute in attributes {
        let mut entry = Entry {
            at,
            name: attribute.name,
            name_index: attribute.index,
            value_offset: 0,
            value_inode: 0,
            value_size: 0,
            hash: 0,
        };
        match attribute.value {
            Stored::Here(value) => {
                end -= padded(value.len());
                bytes[end..end + value.len()].copy_from_slice(value);
                entry.value_offset = if value.is_empty() { 0 } else { end as u16 };
                entry.value_size = value.len() as u32;
                entry.hash = entry.hash_with_value(value, CharSign::Unsigned);
            }
            Stored::Inode(inode, hash, size) => {
                entry.value_inode = inode;
                entry.value_size = size;
                entry.hash = entry.hash_with_value_hash(hash, CharSign::Unsigned);
            }
        }
        put_entry(bytes, &entry);
        at += entry_len(attribute.name.len() as u8);
    }
}

fn put_entry(bytes: &mut [u8], entry: &Entry<'_>) {
    let raw = RawXattrEntry {
        e_name_len: entry.name.len() as u8,
        e_name_index: entry.name_index,
        e_value_offs: entry.value_offset.into(),
        e_value_inum: entry.value_inode.into(),
        e_value_size: entry.value_size.into(),
        e_hash: entry.hash.into(),
    };
    bytes[entry.at..entry.at + ENTRY_SIZE].copy_from_slice(raw.as_bytes());
    bytes[entry.at + ENTRY_SIZE..][..entry.name.len()].copy_from_slice(entry.name);
}

/// The codes of the rows, in the order of the report's codes.
pub(crate) fn codes(rows: &[&'static Row]) -> Vec<&'static str> {
    let mut codes: Vec<_> = rows.iter().map(|row| row.code).collect();
    codes.sort_unstable();
    codes
}

/// The codes that were raised, each once.
pub(crate) fn raised(findings: &Findings) -> Vec<&'static str> {
    findings.counts().into_keys().collect()
}

/// Damages a few bytes of `bytes[from..]`, mostly by small changes.
pub(crate) fn mutate(random: &mut SeededRandom, bytes: &mut [u8], from: usize) {
    let len = (bytes.len() - from) as u64;
    for _ in 0..=random.below(4) {
        // Half of the damage hits the first quarter, where the table is.
        let reach = if random.below(2) == 0 { len.div_ceil(4) } else { len };
        let at = from + random.below(reach) as usize;
        bytes[at] = match random.below(4) {
            0 => bytes[at] ^ 1 << random.below(8),
            1 => 0,
            2 => 0xFF,
            _ => random.next_u64() as u8,
        };
    }
}
