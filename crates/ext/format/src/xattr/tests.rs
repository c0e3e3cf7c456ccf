// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

/// An attribute block with the given entries: name index, name, value.
fn block(entries: &[(u8, &[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    let header = RawXattrHeader {
        h_magic: U32::new(XATTR_MAGIC),
        h_refcount: U32::new(1),
        h_blocks: U32::new(1),
        ..RawXattrHeader::default()
    };
    header.store(&mut bytes);
    let (mut at, mut end) = (BLOCK_HEADER_SIZE, bytes.len());
    for (name_index, name, value) in entries {
        end -= padded(value.len());
        let raw = RawXattrEntry {
            e_name_len: name.len() as u8,
            e_name_index: *name_index,
            e_value_offs: U16::new(end as u16),
            e_value_size: U32::new(value.len() as u32),
            ..RawXattrEntry::default()
        };
        bytes[at..at + ENTRY_SIZE].copy_from_slice(raw.as_bytes());
        bytes[at + ENTRY_SIZE..at + ENTRY_SIZE + name.len()].copy_from_slice(name);
        bytes[end..end + value.len()].copy_from_slice(value);
        at += entry_len(name.len() as u8);
    }
    bytes
}

#[test]
fn entries_come_in_order_and_end_at_the_mark() {
    let bytes = block(&[(1, b"one", b"value 1"), (7, b"data", b""), (6, b"selinux", b"x")]);
    let area = Area::of_block(&bytes);
    let entries: Vec<_> = area.entries().map(Result::unwrap).collect();
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[0].full_name(), b"user.one");
    assert_eq!(area.value(&entries[0]), Some(&b"value 1"[..]));
    assert_eq!(area.value(&entries[1]), Some(&b""[..]));
    assert_eq!(area.find(6, b"selinux"), Some(entries[2]));
    assert_eq!(area.find(1, b"selinux"), None);
}

#[test]
fn a_name_ends_with_its_first_zero() {
    let bytes = block(&[(7, b"data\0\0more", b"value")]);
    let area = Area::of_block(&bytes);
    assert!(area.find(7, b"data").is_some() && area.find(7, b"dat").is_none());
}

#[test]
fn an_entry_that_reaches_out_ends_the_walk() {
    let mut bytes = vec![0; 64];
    bytes[32..34].copy_from_slice(&[200, 1]);
    let mut entries = Area::of_block(&bytes).entries();
    assert_eq!(entries.next(), Some(Err(Truncated { at: 32, name_len: Some(200) })));
    assert_eq!(entries.next(), None);
}

#[test]
fn hashes_of_names_over_127_differ_by_sign() {
    let bytes = block(&[(1, b"\xE4", b"abcdef")]);
    let area = Area::of_block(&bytes);
    let entry = area.entries().next().unwrap().unwrap();
    let value = area.value(&entry).unwrap();
    let unsigned = entry.hash_with_value(value, CharSign::Unsigned);
    assert_eq!(unsigned, (0xE4u32.rotate_left(16) ^ 0x6463_6261).rotate_left(16) ^ 0x6665);
    assert_ne!(unsigned, entry.hash_with_value(value, CharSign::Signed));
    let ascii = Entry { name: b"plain", ..entry };
    assert_eq!(
        ascii.hash_with_value(value, CharSign::Signed),
        ascii.hash_with_value(value, CharSign::Unsigned)
    );
}

#[test]
fn arbitrary_bytes_never_panic() {
    let mut random = fsmend_base::SeededRandom::new(5);
    for round in 0..4000u64 {
        let mut bytes: Vec<u8> = (0..256).map(|_| random.next_u64() as u8).collect();
        bytes[..4].copy_from_slice(&XATTR_MAGIC.to_le_bytes());
        bytes[128..130].copy_from_slice(&(random.below(140) as u16).to_le_bytes());
        if round % 2 == 0 {
            bytes.iter_mut().for_each(|byte| *byte &= 0x1F);
        }
        for len in [0, 3, 31, 33, 129, 131, 132, 140, 256] {
            let _ = Area::of_inode(&bytes[..len]);
            let area = Area::of_block(&bytes[..len]);
            for entry in area.entries().filter_map(Result::ok) {
                let value = area.value(&entry).unwrap_or(&[]);
                let _ = entry.hash_with_value(value, CharSign::Signed);
                let _ = entry.full_name();
            }
            let _ = block_hash(area);
            let _ = RawXattrHeader::from_block(&bytes[..len]);
        }
    }
}
