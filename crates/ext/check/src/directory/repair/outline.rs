// SPDX-License-Identifier: MIT OR Apache-2.0
//! A directory that no longer fits into its inode: the record without its data.

use std::mem::offset_of;

use fsmend_base::width;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags, RawInode};
use fsmend_ext_format::xattr::{Area, Entry, RawXattrEntry, inode_area_start, name_index, padded};

use crate::Fs;

/// The record of an inline directory as one that lies in blocks, of which it has none yet.
pub(super) fn outlined(fs: &Fs<'_>, record: &[u8]) -> Vec<u8> {
    let mut outlined = without_data(record);
    let mut raw = RawInode::from_record(&outlined);
    raw.i_block = [0; I_BLOCK_LEN];
    raw.clear_flag(InodeFlags::INLINE_DATA);
    if fs.geometry.features.has_incompat(Incompat::EXTENTS) {
        raw.set_flag(InodeFlags::EXTENTS);
    }
    raw.store(&mut outlined);
    outlined
}

/// The record with its attributes written anew, all but the one that holds data.
fn without_data(record: &[u8]) -> Vec<u8> {
    let mut copy = record.to_vec();
    let (Some(start), Some(area)) = (inode_area_start(record), Area::of_inode(record)) else { return copy };
    let is_data = |entry: &Entry<'_>| entry.name_index == name_index::SYSTEM && entry.name == b"data";
    let kept = area.entries().filter_map(Result::ok).filter(|entry| !is_data(entry));
    let bytes = &mut copy[start..];
    bytes[area.entries_at..].fill(0);
    let (mut at, mut value_at) = (area.entries_at, bytes.len());
    for entry in kept {
        let old = &area.bytes[entry.at..entry.at + entry.table_len()];
        bytes[at..at + old.len()].copy_from_slice(old);
        let value = if entry.value_inode == 0 { area.value(&entry).unwrap_or_default() } else { &[] };
        if !value.is_empty() {
            value_at -= padded(value.len());
            bytes[value_at..value_at + value.len()].copy_from_slice(value);
            let offset = width::len_u16(value_at - area.values_at).to_le_bytes();
            bytes[at + offset_of!(RawXattrEntry, e_value_offs)..][..2].copy_from_slice(&offset);
        }
        at += old.len();
    }
    if at == area.entries_at {
        bytes.fill(0);
    }
    copy
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A record with the attributes `user.a` (value "one"), `system.data` (eight bytes), `user.b` (value "three").
    fn record() -> Vec<u8> {
        let mut record = vec![0; 256];
        record[128] = 32;
        record[160..164].copy_from_slice(&0xEA02_0000u32.to_le_bytes());
        let area = &mut record[164..];
        let entries: [(u8, &[u8], u16, &[u8]); 3] =
            [(1, b"a", 80, b"one"), (7, b"data", 72, b"12345678"), (1, b"b", 64, b"three")];
        let mut at = 0;
        for (index, name, offset, value) in entries {
            area[at] = name.len() as u8;
            area[at + 1] = index;
            area[at + 2..at + 4].copy_from_slice(&offset.to_le_bytes());
            area[at + 8] = value.len() as u8;
            area[at + 16..at + 16 + name.len()].copy_from_slice(name);
            area[usize::from(offset)..usize::from(offset) + value.len()].copy_from_slice(value);
            at += 20;
        }
        record
    }

    #[test]
    fn other_attributes_stay() {
        let without = without_data(&record());
        let area = Area::of_inode(&without).unwrap();
        assert!(area.find(name_index::SYSTEM, b"data").is_none());
        let values: Vec<&[u8]> = area.entries().flatten().map(|entry| area.value(&entry).unwrap()).collect();
        assert_eq!(values, [&b"one"[..], b"three"]);
    }

    #[test]
    fn the_only_attribute_leaves_nothing() {
        let mut only = record();
        only[164..184].fill(0);
        let data = record()[184..204].to_vec();
        only[164..184].copy_from_slice(&data);
        only[184..].fill(0);
        assert_eq!(without_data(&only)[160..], [0; 96]);
    }
}
