// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_base::{BlockNo, InodeNo, SeededRandom};
use fsmend_device::MemoryDevice;
use fsmend_engine::{Findings, Row};
use fsmend_ext_format::checksum::crc32c;
use fsmend_ext_format::encryption::Policy;
use fsmend_ext_format::features::{Compat, Features, Incompat};
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags, RawInode, mode};
use fsmend_ext_format::xattr::{Area, name_index};

mod unseen;

use super::testing::{
    AREA_AT, Attribute, BLOCK_SIZE, Stored, all_features, block_with, codes, device, edit, file_record, fs,
    mutate, put_inode, raised, record_with, seal, user,
};
use super::value_mend::ValueMend;
use crate::inode::testing::{extent, node};

use super::{
    BlockAttributes, EncryptionState, InInodeAttributes, check_value_inodes, inspect_block,
    inspect_encryption, inspect_in_inode, inspect_pointer, policies_agree, policy_of, problems,
    read_and_inspect_block, settle_block,
};

const OWNER: InodeNo = InodeNo(12);
const HOLDER: InodeNo = InodeNo(13);
const BLOCK: BlockNo = BlockNo(50);
const VALUE_HASH: u32 = 0x1234_5678;

/// Inspects a record and expects these rows; the mended record has to be in order.
fn expect_in_inode(
    device: &MemoryDevice,
    features: Features,
    record: &mut [u8],
    rows: &[&'static Row],
) -> InInodeAttributes {
    let fs = fs(device, features);
    let mut findings = Findings::new();
    let found = inspect_in_inode(&fs, OWNER, record, &mut findings);
    assert_eq!(raised(&findings), codes(rows));
    let mut again = Findings::new();
    let second = inspect_in_inode(&fs, OWNER, &mut record.to_vec(), &mut again);
    let mended_elsewhere = [&problems::VALUE_INODE_FEATURE, &problems::VALUE_INODE_UNFLAGGED];
    if !mended_elsewhere.iter().any(|row| again.has(row)) {
        assert_eq!(raised(&again), [""; 0], "the mended record is in order");
    }
    assert_eq!(found, second);
    found
}

fn expect_plain(record: &mut [u8], rows: &[&'static Row]) -> InInodeAttributes {
    expect_in_inode(&device(), all_features(), record, rows)
}

/// Inspects a block and expects these rows; a mended block has to be in order.
fn expect_block(bytes: &mut [u8], rows: &[&'static Row]) -> BlockAttributes {
    let device = device();
    let fs = fs(&device, all_features());
    let mut findings = Findings::new();
    let found = inspect_block(&fs, OWNER, BLOCK, bytes, &mut findings);
    assert_eq!(raised(&findings), codes(rows));
    if found.plausible {
        let mut again = Findings::new();
        assert_eq!(found, inspect_block(&fs, OWNER, BLOCK, &mut bytes.to_vec(), &mut again));
        assert_eq!(raised(&again), [""; 0], "the mended block is in order");
    }
    found
}

fn two() -> [Attribute<'static>; 2] {
    [user(b"one", b"value 1"), user(b"other", b"v2")]
}

fn names(bytes: &[u8]) -> Vec<Vec<u8>> {
    let area = Area::of_inode(bytes);
    area.map_or_else(Vec::new, |area| area.entries().map(|entry| entry.unwrap().name.to_vec()).collect())
}

/// Where the fields of the first entry of a record stand.
const NAME_LEN: usize = AREA_AT + 4;
const VALUE_OFFSET: usize = AREA_AT + 6;
const VALUE_SIZE: usize = AREA_AT + 12;
const HASH: usize = AREA_AT + 16;

#[test]
fn attributes_in_order_raise_nothing() {
    assert_eq!(expect_plain(&mut file_record(), &[]).entries, 0);
    assert_eq!(expect_plain(&mut [0; 128], &[]).entries, 0);
    let data = Attribute { index: name_index::SYSTEM, name: b"data", value: Stored::Here(b"hello") };
    let mut record = record_with(&[user(b"empty", b""), data, two()[0]]);
    let found = expect_plain(&mut record, &[]);
    assert_eq!(found.entries, 3);
    assert_eq!(&record[found.inline_data.unwrap()], b"hello");
    assert_eq!(expect_block(&mut block_with(BLOCK, &two()), &[]).entries, 2);
    assert!(expect_block(&mut block_with(BLOCK, &[]), &[]).plausible);
}

#[test]
fn an_old_attribute_without_hash_is_fine_in_an_inode_only() {
    let mut record = record_with(&two());
    record[HASH..HASH + 4].fill(0);
    assert_eq!(expect_plain(&mut record, &[]).entries, 2);
    let mut block = block_with(BLOCK, &two());
    block[44..48].fill(0);
    seal(BLOCK, &mut block);
    assert_eq!(expect_block(&mut block, &[&problems::HASH]).entries, 1);
}

#[test]
fn an_access_list_gets_back_the_tag_that_its_others_tell() {
    let words = [1, 0x6_0001, 0x4_0002, 1000, 0x4_0004, 0x4_0810, 0x20_u32];
    let list: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let acl = Attribute { index: name_index::POSIX_ACL_ACCESS, name: b"", value: Stored::Here(&list) };
    let mut record = record_with(&[acl]);
    expect_plain(&mut record, &[]);
    expect_block(&mut block_with(BLOCK, &[acl]), &[]);
    // Without a hash, which proves that it was written like that.
    record[HASH..HASH + 4].fill(0);
    assert_eq!(expect_plain(&mut record, &[&problems::ACL_TAG]).entries, 1);
    assert!(record.windows(4).any(|entry| entry == [0x10, 0, 4, 0]));
}

/// The kernel refuses to open such a file, even for root, until the list is gone.
#[test]
fn an_access_list_with_several_wrong_tags_gives_way_to_the_permission_bits() {
    let words = [1, 0x6_0777, 0x4_0002, 1000, 0x4_0004, 0x4_0810, 0x20_u32];
    let list: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let acl = Attribute { index: name_index::POSIX_ACL_ACCESS, name: b"", value: Stored::Here(&list) };
    let mut record = record_with(&[acl]);
    record[HASH..HASH + 4].fill(0);
    assert_eq!(expect_plain(&mut record, &[&problems::ACL_UNREADABLE]).entries, 0);
    expect_plain(&mut record, &[]);
}

#[test]
fn a_wrong_hash_costs_one_attribute() {
    let mut record = record_with(&two());
    record[HASH] ^= 1;
    assert_eq!(expect_plain(&mut record, &[&problems::HASH]).entries, 1);
    assert_eq!(names(&record), [b"other"]);
    let mut block = block_with(BLOCK, &two());
    block[44] ^= 1;
    assert_eq!(expect_block(&mut block, &[&problems::HASH]).entries, 1);
}

#[test]
fn a_name_ends_where_its_first_zero_stands() {
    let mut record = record_with(&two()[..1]);
    let len = record[AREA_AT + 4];
    for longer in [len + 1, len + 17] {
        record[AREA_AT + 4] = longer;
        assert_eq!(expect_plain(&mut record, &[&problems::NAME_WITH_ZERO]).entries, 1);
        assert_eq!(record[AREA_AT + 4], len);
        assert_eq!(expect_plain(&mut record, &[]).entries, 1);
    }
    let mut block = block_with(BLOCK, &two()[..1]);
    let sound = block.clone();
    block[32] += 17;
    seal(BLOCK, &mut block);
    assert_eq!(expect_block(&mut block, &[&problems::NAME_WITH_ZERO]).entries, 1);
    assert_eq!(block[32..64], sound[32..64]);
}

#[test]
fn a_name_that_swallows_entries_gives_them_back() {
    let data = Attribute { index: name_index::SYSTEM, name: b"data", value: Stored::Here(b"hello") };
    let mut record = record_with(&[data, two()[0], two()[1]]);
    record[HASH..HASH + 4].fill(0);
    for len in [19, 37] {
        record[NAME_LEN] = len;
        let found = expect_plain(&mut record, &[&problems::NAME_WITH_ZERO]);
        assert_eq!((found.entries, record[NAME_LEN]), (3, 4), "{len}");
        assert_eq!(&record[found.inline_data.unwrap()], b"hello");
    }
}

#[test]
fn letters_that_are_gone_are_replaced() {
    let mut record = record_with(&two());
    record[HASH..HASH + 4].fill(0);
    record[HASH + 4..HASH + 7].fill(0);
    assert_eq!(expect_plain(&mut record, &[&problems::NAME_OVERWRITTEN]).entries, 2);
    assert_eq!(names(&record), [&b"___"[..], b"other"]);
    let mut record = record_with(&two());
    record[HASH..HASH + 4].fill(0);
    record[HASH + 5] = 0;
    assert_eq!(expect_plain(&mut record, &[&problems::NAME_OVERWRITTEN]).entries, 2);
    assert_eq!(names(&record), [&b"o_e"[..], b"other"]);
    // The hash of the entry says that it is not this name.
    let mut record = record_with(&two());
    record[HASH + 5] = 0;
    assert_eq!(expect_plain(&mut record, &[&problems::NAME_OVERWRITTEN, &problems::HASH]).entries, 1);
}

#[test]
fn an_area_that_loses_all_its_attributes_is_empty() {
    let mut record = record_with(&two()[..1]);
    record[HASH] ^= 1;
    assert_eq!(expect_plain(&mut record, &[&problems::HASH]).entries, 0);
    assert_eq!(record[AREA_AT..AREA_AT + 4], [0; 4]);
    let mut block = block_with(BLOCK, &two()[..1]);
    block[44] ^= 1;
    assert!(!expect_block(&mut block, &[&problems::HASH]).plausible);
}

#[test]
fn overlapping_attributes_clear_the_area() {
    let mut record = record_with(&two());
    let second = AREA_AT + 4 + 20;
    let offset = [record[VALUE_OFFSET], record[VALUE_OFFSET + 1]];
    record[second + 2..second + 4].copy_from_slice(&offset);
    assert_eq!(expect_plain(&mut record, &[&problems::INODE_OVERLAP]).entries, 0);
    let mut block = block_with(BLOCK, &two());
    let offset = [block[34], block[35]];
    block[54..56].copy_from_slice(&offset);
    assert!(!expect_block(&mut block, &[&problems::BLOCK_OVERLAP]).plausible);
}

#[test]
fn a_table_without_room_for_its_end_clears_the_area() {
    let mut record = record_with(&[user(&[b'n'; 76], b"")]);
    assert_eq!(record.len(), AREA_AT + 4 + 92);
    expect_plain(&mut record, &[&problems::INODE_OVERLAP]);
}

#[test]
fn names_and_values_have_to_lie_in_the_inode() {
    let mut record = record_with(&two());
    record[NAME_LEN] = 200;
    expect_plain(&mut record, &[&problems::INODE_NAME_OUTSIDE]);
    let mut record = record_with(&two());
    record[VALUE_OFFSET + 1] = 7;
    assert_eq!(expect_plain(&mut record, &[&problems::INODE_VALUE_OUTSIDE]).entries, 1);
    let mut record = record_with(&two());
    record[VALUE_SIZE + 3] = 1;
    assert_eq!(expect_plain(&mut record, &[&problems::VALUE_SIZE]).entries, 1);
}

#[test]
fn names_and_values_have_to_lie_in_the_block() {
    let mut block = block_with(BLOCK, &two());
    block[33] = 0;
    assert_eq!(expect_block(&mut block, &[&problems::BLOCK_NAME]).entries, 1);
    let mut block = block_with(BLOCK, &two());
    block[35] = 0x7F;
    assert_eq!(expect_block(&mut block, &[&problems::BLOCK_VALUE_OUTSIDE]).entries, 1);
}

#[test]
fn headers_of_blocks() {
    let mut block = block_with(BLOCK, &two());
    block[0] = 1;
    assert!(!expect_block(&mut block, &[&problems::BLOCK_MAGIC]).plausible);
    let mut block = block_with(BLOCK, &two());
    block[8] = 2;
    assert_eq!(expect_block(&mut block, &[&problems::BLOCK_COUNT]).entries, 2);
    let mut block = block_with(BLOCK, &two());
    block[16] ^= 1;
    assert_eq!(expect_block(&mut block, &[&problems::BLOCK_CHECKSUM]).entries, 2);
    assert_eq!(block, block_with(BLOCK, &two()), "the checksum is set right");
}

#[test]
fn pointers_to_blocks() {
    let device = device();
    let judge = |features, pointer| {
        let mut findings = Findings::new();
        let block = inspect_pointer(&fs(&device, features), OWNER, pointer, &mut findings);
        (block, raised(&findings))
    };
    assert_eq!(judge(all_features(), 0), (None, vec![]));
    assert_eq!(judge(all_features(), 50), (Some(BLOCK), vec![]));
    assert_eq!(judge(all_features(), 999), (None, codes(&[&problems::POINTER_OUTSIDE])));
    let bare = Features { compat: Compat::empty(), ..all_features() };
    assert_eq!(judge(bare, 50), (None, codes(&[&problems::POINTER_WITHOUT_FEATURE])));
    assert!(!bare.compat.contains(Compat::EXT_ATTR));
}

#[test]
fn an_unreadable_block_is_not_plausible() {
    let device = MemoryDevice::new("short", vec![0; 20 * BLOCK_SIZE]);
    let mut findings = Findings::new();
    let found = read_and_inspect_block(&fs(&device, all_features()), OWNER, BLOCK, &mut findings);
    assert!(!found.plausible);
    assert_eq!(raised(&findings), codes(&[&problems::BLOCK_UNREADABLE]));
}

#[test]
fn reference_counts_of_blocks() {
    let mut device = device();
    let mut block = block_with(BLOCK, &[user(b"a", b"1")]);
    block[4] = 2;
    seal(BLOCK, &mut block);
    let at = BLOCK.0 as usize * BLOCK_SIZE;
    device.bytes_mut()[at..at + BLOCK_SIZE].copy_from_slice(&block);
    let settle = |device: &MemoryDevice, references| {
        let mut findings = Findings::new().gathering(true);
        let found = settle_block(&fs(device, all_features()), OWNER, BLOCK, references, &mut findings);
        assert!(found.plausible);
        (raised(&findings), findings.take_edits())
    };
    assert_eq!(settle(&device, 2), (codes(&[]), Vec::new()));
    let (rows, edits) = settle(&device, 1);
    assert_eq!(rows, codes(&[&problems::REFCOUNT]));
    // What is kept for the repair is right the second time.
    assert_eq!((edits.len(), edits[0].offset), (1, at as u64));
    device.bytes_mut()[at..at + BLOCK_SIZE].copy_from_slice(&edits[0].bytes);
    assert_eq!(settle(&device, 1), (codes(&[]), Vec::new()));
}

/// A value inode with `references` counted references and 3000 bytes.
fn holder_record(references: u32) -> Vec<u8> {
    let mut record = file_record();
    edit(&mut record, |inode| {
        inode.set_flags(InodeFlags::EA_INODE);
        inode.i_atime.set(VALUE_HASH);
        inode.i_version.set(references);
        inode.i_size_lo.set(3000);
    });
    record
}

fn device_with_holder(record: &[u8]) -> MemoryDevice {
    let mut device = device();
    put_inode(&mut device, HOLDER, record);
    device
}

fn referring(inode: u32, hash: u32, size: u32) -> [Attribute<'static>; 1] {
    [Attribute { index: 1, name: b"big", value: Stored::Inode(inode, hash, size) }]
}

#[test]
fn a_value_in_an_inode_of_its_own() {
    let device = device_with_holder(&holder_record(1));
    let mut record = record_with(&referring(HOLDER.0, VALUE_HASH, 3000));
    let found = expect_in_inode(&device, all_features(), &mut record, &[]);
    assert_eq!(found.value_inodes.len(), 1);
    assert_eq!(found.value_inodes[0].0, HOLDER);
    assert_eq!(found.charged_bytes, 3072, "whole clusters count for the owner");
}

#[test]
fn a_value_inode_that_cannot_be() {
    let device = device_with_holder(&holder_record(1));
    for wrong in [5, OWNER.0, 14, 5000] {
        let mut record = record_with(&referring(wrong, VALUE_HASH, 3000));
        let found = expect_in_inode(&device, all_features(), &mut record, &[&problems::VALUE_INODE]);
        assert_eq!(found, InInodeAttributes::default());
    }
    for wrong in [0, 2999, 1 << 25] {
        let mut record = record_with(&referring(HOLDER.0, VALUE_HASH, wrong));
        expect_in_inode(&device, all_features(), &mut record, &[&problems::VALUE_SIZE]);
    }
}

/// What holds `value` in the blocks of [`device_with_value`].
fn holder_of(value: &[u8], hash: u32) -> RawInode {
    let mut inode = RawInode::from_record(&holder_record(1));
    inode.set_flag(InodeFlags::EXTENTS);
    inode.i_atime.set(hash);
    inode.i_size_lo.set(value.len() as u32);
    let pieces = [extent(0, 1, 40), extent(1, 2, 45)];
    inode.i_block.copy_from_slice(&node(I_BLOCK_LEN, 0, &pieces));
    inode
}

/// A device with a value of `value` in an inode of its own, and the hash of that.
fn device_with_value(value: &[u8]) -> (MemoryDevice, u32) {
    let hash = crc32c(77, value);
    let mut record = holder_record(1);
    edit(&mut record, |inode| *inode = holder_of(value, hash));
    let mut device = device_with_holder(&record);
    for (piece, block) in value.chunks(BLOCK_SIZE).zip([40, 45, 46]) {
        device.bytes_mut()[block * BLOCK_SIZE..][..piece.len()].copy_from_slice(piece);
    }
    (device, hash)
}

#[test]
fn a_value_in_an_inode_of_its_own_tells_its_length() {
    let value: Vec<u8> = (0..2500_u32).map(|at| ((at * at) >> 3) as u8).collect();
    let (mut device, hash) = device_with_value(&value);
    let sound = record_with(&referring(HOLDER.0, hash, 2500));
    for wrong in [0, 2499, 9216, u32::MAX] {
        let mut record = record_with(&referring(HOLDER.0, hash, wrong));
        let found = expect_in_inode(&device, all_features(), &mut record, &[&problems::VALUE_SIZE_ASTRAY]);
        assert_eq!((found.entries, found.charged_bytes), (1, 3072), "{wrong}");
        assert_eq!(record, sound, "{wrong}");
    }
    // With other bytes the inode may be wrong about the length as well as the entry.
    device.bytes_mut()[40 * BLOCK_SIZE] ^= 1;
    let mut record = record_with(&referring(HOLDER.0, hash, 9216));
    assert_eq!(expect_in_inode(&device, all_features(), &mut record, &[&problems::VALUE_SIZE]).entries, 0);
    let mut record = sound;
    assert_eq!(expect_in_inode(&device, all_features(), &mut record, &[]).entries, 1);
}

#[test]
fn a_value_lies_in_a_regular_file_or_in_what_was_one() {
    let value = [9; 2000];
    let (mut device, hash) = device_with_value(&value);
    let mut holder = holder_record(1);
    edit(&mut holder, |inode| *inode = holder_of(&value, hash));
    edit(&mut holder, |inode| inode.i_mode.set(mode::DIRECTORY | 0o600));
    put_inode(&mut device, HOLDER, &holder);
    let mut record = record_with(&referring(HOLDER.0, hash, 2000));
    // The inode itself will be mended.
    assert_eq!(expect_in_inode(&device, all_features(), &mut record, &[]).entries, 1);
    device.bytes_mut()[40 * BLOCK_SIZE] ^= 1;
    assert_eq!(expect_in_inode(&device, all_features(), &mut record, &[&problems::VALUE_INODE]).entries, 0);
}

#[test]
fn a_length_in_a_block_is_set_right_as_well() {
    let (device, hash) = device_with_value(&[7; 1500]);
    let fs = fs(&device, all_features());
    let sound = block_with(BLOCK, &referring(HOLDER.0, hash, 1500));
    let mut bytes = block_with(BLOCK, &referring(HOLDER.0, hash, 1501));
    let mut findings = Findings::new();
    let found = inspect_block(&fs, OWNER, BLOCK, &mut bytes, &mut findings);
    assert_eq!(raised(&findings), codes(&[&problems::VALUE_SIZE_ASTRAY]));
    assert_eq!((found.entries, found.charged_bytes), (1, 2048));
    let size = 32 + 8..32 + 12;
    assert_eq!(bytes[size.clone()], sound[size]);
    assert!(inspect_block(&fs, OWNER, BLOCK, &mut bytes, &mut Findings::new()).plausible);
}

#[test]
fn a_table_whose_end_was_overwritten_keeps_its_attributes() {
    // Two lists of rights, which leave no more room between them and the table than its end takes.
    let value: Vec<u8> = (1..29).collect();
    let rights = [name_index::POSIX_ACL_DEFAULT, name_index::POSIX_ACL_ACCESS].map(|index| Attribute {
        index,
        name: b"",
        value: Stored::Here(&value),
    });
    let sound = record_with(&rights);
    let end = AREA_AT + 4 + 2 * 16;
    for wrong in [[4, 0, 0, 0], [0x6B, 0, 0, 0], [0, 1, 0, 0], [0xFF; 4]] {
        let mut record = sound.clone();
        record[end..end + 4].copy_from_slice(&wrong);
        assert_eq!(expect_plain(&mut record, &[&problems::END_OVERWRITTEN]).entries, 2, "{wrong:?}");
        assert_eq!(record, sound, "{wrong:?}");
    }
    // What can be an attribute is not taken for the end: one of the others may be wrong.
    let mut record = record_with(&two());
    let second = AREA_AT + 4 + 20;
    record[VALUE_OFFSET..VALUE_OFFSET + 2].copy_from_slice(&(second as u16 - 160).to_le_bytes());
    assert!(names(&record).contains(&b"other".to_vec()));
    let found = expect_plain(&mut record, &[&problems::HASH, &problems::INODE_OVERLAP]);
    assert_eq!(found.entries, 0);
}

#[test]
fn the_table_of_a_block_that_reaches_into_its_values_ends_before_them() {
    // Values that fill all the room behind the table and its end.
    let (one, other) = ([1; 512], [2; 1024 - 512 - 32 - 2 * 20 - 4]);
    let sound = block_with(BLOCK, &[user(b"one", &one), user(b"two", &other)]);
    let mut block = sound.clone();
    block[72] = 9;
    seal(BLOCK, &mut block);
    assert_eq!(expect_block(&mut block, &[&problems::END_OVERWRITTEN]).entries, 2);
    assert_eq!(block[32..], sound[32..]);
}

#[test]
fn a_value_beside_its_entry_is_believed_more_than_the_inode_that_the_entry_names() {
    let device = device_with_holder(&holder_record(1));
    let attributes = [user(b"one", b"first value"), user(b"two", b"the second")];
    let sound = record_with(&attributes);
    let at = |record: &[u8], name: &[u8]| {
        AREA_AT + Area::of_inode(record).unwrap().find(name_index::USER, name).unwrap().at
    };
    for (name, inode) in [(b"one", 5_u32), (b"two", 5000), (b"two", HOLDER.0)] {
        let mut record = sound.clone();
        let entry = at(&record, name);
        record[entry + 4..entry + 8].copy_from_slice(&inode.to_le_bytes());
        let found = expect_in_inode(&device, all_features(), &mut record, &[&problems::VALUE_INODE_ASTRAY]);
        assert_eq!((record, found.entries), (sound.clone(), 2));
    }
    // Neither here nor there: the hash tells.
    let mut record = sound.clone();
    let entry = at(&record, b"two");
    record[entry + 4] = 5;
    record[entry + 12] ^= 1;
    let found = expect_in_inode(&device, all_features(), &mut record, &[&problems::VALUE_INODE]);
    assert_eq!(found.entries, 1);
    // Attributes in inodes may have no hash: then the place tells, if it belongs to no other attribute.
    let mut without = sound.clone();
    for name in [&b"one"[..], b"two"] {
        let entry = at(&without, name);
        without[entry + 12..entry + 16].fill(0);
    }
    let mut record = without.clone();
    let (one, two) = (at(&record, b"one"), at(&record, b"two"));
    record[one + 4] = 5;
    let found = expect_in_inode(&device, all_features(), &mut record, &[&problems::VALUE_INODE_ASTRAY]);
    assert_eq!((record, found.entries), (without.clone(), 2));
    for (place, what) in [(without[two + 2], "the other's place"), (0, "none"), (32, "in the table")] {
        let mut record = without.clone();
        (record[one + 2], record[one + 4]) = (place, 5);
        let found = expect_in_inode(&device, all_features(), &mut record, &[&problems::VALUE_INODE]);
        assert_eq!(found.entries, 1, "{what}");
    }
    let sound = block_with(BLOCK, &attributes);
    let mut block = sound.clone();
    let entry = Area::of_block(&block).find(name_index::USER, b"one").unwrap().at;
    block[entry + 4] = 5;
    expect_block(&mut block, &[&problems::VALUE_INODE_ASTRAY]);
    assert_eq!(block[32..], sound[32..], "all but the sums in its header");
}

#[test]
fn flag_and_hash_of_a_value_inode() {
    let mut holder = holder_record(1);
    let mut other = record_with(&referring(HOLDER.0, 9, 3000));
    expect_in_inode(&device_with_holder(&holder), all_features(), &mut other, &[&problems::HASH]);
    edit(&mut holder, |inode| inode.i_flags.set(0));
    let device = device_with_holder(&holder);
    let mut record = record_with(&referring(HOLDER.0, VALUE_HASH, 3000));
    let found = expect_in_inode(&device, all_features(), &mut record, &[&problems::VALUE_INODE_UNFLAGGED]);
    assert_eq!(found.newly_flagged, [HOLDER]);
    let mut other = record_with(&referring(HOLDER.0, 9, 3000));
    expect_in_inode(&device, all_features(), &mut other, &[&problems::VALUE_INODE_FOREIGN]);
}

#[test]
fn the_older_scheme_stores_a_parent_instead_of_a_hash() {
    let mut holder = holder_record(0);
    edit(&mut holder, |inode| {
        inode.i_mtime.set(OWNER.0);
        inode.i_generation.set(5);
        inode.i_ctime.set(VALUE_HASH);
    });
    let device = device_with_holder(&holder);
    let mut record = record_with(&referring(HOLDER.0, 9, 2000));
    edit(&mut record, |inode| inode.i_generation.set(5));
    let found = expect_in_inode(&device, all_features(), &mut record, &[]);
    assert_eq!((found.value_inodes.len(), found.charged_bytes), (1, 0));
    let mut findings = Findings::new();
    check_value_inodes([(HOLDER, RawInode::from_record(&holder))], |_| 1, &mut findings);
    assert!(findings.is_empty(), "and counts nothing");
}

#[test]
fn value_inodes_need_their_feature() {
    let device = device_with_holder(&holder_record(1));
    let mut features = all_features();
    features.incompat &= !Incompat::EA_INODE;
    let mut record = record_with(&referring(HOLDER.0, VALUE_HASH, 3000));
    let found = expect_in_inode(&device, features, &mut record, &[&problems::VALUE_INODE_FEATURE]);
    assert_eq!(found.value_inodes.len(), 1, "the attribute stays");
}

#[test]
fn a_value_inode_has_one_link() {
    let mut holder = holder_record(2);
    edit(&mut holder, |inode| inode.i_links_count.set(38));
    let mut findings = Findings::new();
    let mends = check_value_inodes([(HOLDER, RawInode::from_record(&holder))], |_| 2, &mut findings);
    assert_eq!(
        (mends, raised(&findings)),
        (vec![(HOLDER, ValueMend::Link)], codes(&[&problems::VALUE_INODE_LINKS]))
    );
}

#[test]
fn references_of_value_inodes() {
    let inode = RawInode::from_record(&holder_record(2));
    let judge = |references: u64| {
        let mut findings = Findings::new();
        let mends = check_value_inodes([(HOLDER, inode)], |_| references, &mut findings);
        (mends, raised(&findings))
    };
    assert_eq!(judge(2), (vec![], vec![]));
    assert_eq!(
        judge(3),
        (vec![(HOLDER, ValueMend::References(3))], codes(&[&problems::VALUE_INODE_REFERENCES]))
    );
    assert_eq!(judge(0), (vec![(HOLDER, ValueMend::Unflag)], codes(&[&problems::VALUE_INODE_SPURIOUS])));
}

fn context(version: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![9; len];
    bytes[0] = version;
    bytes
}

fn encrypted(context: Option<&[u8]>) -> Vec<u8> {
    let attribute =
        |value| Attribute { index: name_index::ENCRYPTION, name: b"c", value: Stored::Here(value) };
    let mut record = record_with(context.map(attribute).as_slice());
    edit(&mut record, |inode| inode.set_flags(InodeFlags::ENCRYPT));
    record
}

fn judge_encryption(
    record: &mut [u8],
    block: Option<&BlockAttributes>,
) -> (EncryptionState, Vec<&'static str>) {
    let device = device();
    let mut findings = Findings::new();
    let attributes = inspect_in_inode(&fs(&device, all_features()), OWNER, record, &mut findings);
    (inspect_encryption(OWNER, record, &attributes, block, &mut findings), raised(&findings))
}

#[test]
fn encryption_contexts() {
    for (version, len) in [(1, 28), (2, 40)] {
        let mut record = encrypted(Some(&context(version, len)));
        let (state, problems) = judge_encryption(&mut record, None);
        assert_eq!(problems, [""; 0]);
        let device = device();
        let policy = policy_of(&fs(&device, all_features()), &record).unwrap();
        assert_eq!(state, EncryptionState::Encrypted(policy));
        assert!(policies_agree(policy, policy) && !policies_agree(policy, Policy::Unrecognized));
    }
    let corrupt = judge_encryption(&mut encrypted(Some(&context(2, 39))), None);
    assert_eq!(corrupt, (EncryptionState::Lost, codes(&[&problems::ENCRYPTION_CORRUPT])));
    let mut record = encrypted(None);
    let missing = judge_encryption(&mut record, None);
    assert_eq!(missing, (EncryptionState::Plain, codes(&[&problems::ENCRYPTION_MISSING])));
    assert_eq!(RawInode::from_record(&record).i_flags.get(), 0);
    assert_eq!(judge_encryption(&mut file_record(), None), (EncryptionState::Plain, vec![]));
}

#[test]
fn an_encryption_context_in_a_block() {
    let value = context(1, 28);
    let attribute = Attribute { index: name_index::ENCRYPTION, name: b"c", value: Stored::Here(&value) };
    let mut block = block_with(BLOCK, &[attribute]);
    let found = expect_block(&mut block, &[]);
    let mut device = device();
    let at = BLOCK.0 as usize * BLOCK_SIZE;
    device.bytes_mut()[at..at + BLOCK_SIZE].copy_from_slice(&block);
    let mut record = encrypted(None);
    edit(&mut record, |inode| inode.i_file_acl_lo.set(BLOCK.0 as u32));
    let policy = policy_of(&fs(&device, all_features()), &record).unwrap();
    let judged = judge_encryption(&mut record, Some(&found));
    assert_eq!(judged, (EncryptionState::Encrypted(policy), vec![]));
}

/// Whatever lies in a record or block: no panic, and what is left after mending is in order.
#[test]
fn damaged_attributes_are_mended_in_one_go() {
    let mut random = SeededRandom::new(11);
    let device = device_with_holder(&holder_record(1));
    let fs = fs(&device, all_features());
    let long = [7; 30];
    let big = referring(HOLDER.0, VALUE_HASH, 3000);
    let attributes = [two()[0], big[0], user(b"third", &long), two()[1]];
    let (sound_record, sound_block) = (record_with(&attributes[..3]), block_with(BLOCK, &attributes));
    for _ in 0..20_000 {
        let mut record = sound_record.clone();
        mutate(&mut random, &mut record, AREA_AT);
        let mut findings = Findings::new();
        let found = inspect_in_inode(&fs, OWNER, &mut record, &mut findings);
        let mut again = Findings::new();
        assert_eq!(inspect_in_inode(&fs, OWNER, &mut record, &mut again), found);
        assert!(again.is_empty(), "{:?}", raised(&again));
        let mut block = sound_block.clone();
        mutate(&mut random, &mut block, 0);
        let found = inspect_block(&fs, OWNER, BLOCK, &mut block, &mut findings);
        if found.plausible {
            assert_eq!(inspect_block(&fs, OWNER, BLOCK, &mut block, &mut again), found);
            assert!(again.is_empty(), "{:?}", raised(&again));
        }
    }
}

#[test]
fn arbitrary_bytes_never_panic() {
    let mut random = SeededRandom::new(12);
    let device = device();
    let fs = fs(&device, all_features());
    for _ in 0..3000 {
        let mut bytes: Vec<u8> = (0..BLOCK_SIZE).map(|_| random.next_u64() as u8 & 0x3F).collect();
        bytes[..12].copy_from_slice(&[0, 0, 2, 0xEA, 1, 0, 0, 0, 1, 0, 0, 0]);
        let len = random.below(BLOCK_SIZE as u64 + 1) as usize;
        inspect_block(&fs, OWNER, BLOCK, &mut bytes[..len], &mut Findings::new());
        bytes[128..130].copy_from_slice(&(random.below(300) as u16).to_le_bytes());
        inspect_in_inode(&fs, OWNER, &mut bytes[..len], &mut Findings::new());
        bytes[160..164].copy_from_slice(&[0, 0, 2, 0xEA]);
        bytes[128] = 32;
        inspect_in_inode(&fs, OWNER, &mut bytes[..len], &mut Findings::new());
        policy_of(&fs, &bytes[..len]);
    }
}

#[test]
fn every_row_of_this_module_is_raised_by_a_test() {
    let source = concat!(include_str!("tests.rs"), include_str!("tests/unseen.rs"));
    for line in include_str!("problems.rs").lines().filter(|line| line.contains("= \"ext.xattr.")) {
        let name = line.split_whitespace().next().unwrap();
        assert!(source.contains(&format!("problems::{name}]")), "{name}");
    }
}
