// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checksums against bytes taken from file systems that mke2fs and debugfs made.

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use zerocopy::FromBytes;

use super::{
    Checked, bitmap, crc16, crc32c, directory_leaf, extent_block, group_desc, has_leaf_tail, htree, inode,
    inode_seed, mmp_block, orphan_block, seed_of_inode, superblock, uuid_seed, xattr_block,
};
use crate::features::{Features, Incompat, RoCompat};
use crate::superblock::RawSuperblock;

/// Bytes that are not zero: offset, how often repeated, in hexadecimal.
type Sparse = &'static [(usize, usize, &'static str)];

const UUID: [u8; 16] =
    [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF];

fn bytes(len: usize, sparse: Sparse) -> Vec<u8> {
    let mut all = vec![0; len];
    for (offset, times, text) in sparse {
        let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
        let piece: Vec<u8> = (0..text.len()).step_by(2).map(digits).collect();
        let piece = piece.repeat(*times);
        all[*offset..offset + piece.len()].copy_from_slice(&piece);
    }
    all
}

#[track_caller]
fn right(checked: Option<Checked>) {
    let checked = checked.expect("long enough");
    assert!(checked.is_right(), "{checked:x?}");
}

#[test]
fn check_values_of_the_two_polynomials() {
    assert_eq!(!crc32c(u32::MAX, b"123456789"), 0xE306_9283);
    assert_eq!(crc32c(crc32c(7, b"1234"), b"56789"), crc32c(7, b"123456789"));
    assert_eq!(crc16(0, b"123456789"), 0xBB3D);
}

#[test]
fn superblock_and_descriptors() {
    let raw = RawSuperblock::read_from_bytes(&bytes(1024, SUPERBLOCK)).expect("1024 bytes");
    assert!(superblock(&raw).is_right());
    let wide =
        Features { incompat: Incompat::BIT64, ro_compat: RoCompat::METADATA_CSUM, ..Features::default() };
    right(group_desc(wide, uuid_seed(&UUID), &UUID, GroupNo(0), &bytes(64, DESC)));
    let old = Features { ro_compat: RoCompat::GDT_CSUM, ..Features::default() };
    right(group_desc(old, 0, &UUID, GroupNo(1), &bytes(32, GDT_DESC)));
    assert_eq!(group_desc(Features::default(), 0, &UUID, GroupNo(1), &bytes(32, GDT_DESC)), None);
}

#[test]
fn bitmaps() {
    let seed = uuid_seed(&UUID);
    assert_eq!(bitmap(seed, &bytes(1024, BLOCK_BITMAP), 8192, true), 0x92B8_16AE);
    assert_eq!(bitmap(seed, &bytes(1024, INODE_BITMAP), 128, true), 0xE333_BBEE);
    assert_eq!(bitmap(seed, &bytes(1024, INODE_BITMAP), 128, false), 0xBBEE);
}

#[test]
fn inodes_of_both_sizes() {
    let record = bytes(256, FILE_13);
    right(inode(uuid_seed(&UUID), InodeNo(13), &record));
    let short = inode(uuid_seed(&UUID), InodeNo(13), &record[..128]).expect("long enough");
    assert!(short.stored <= 0xFFFF && short.computed <= 0xFFFF);
    assert_eq!(inode(0, InodeNo(13), &record[..127]), None);
    assert_eq!(inode(0, InodeNo(13), &record[..130]), None);
}

#[test]
fn blocks_that_belong_to_an_inode() {
    let seed = |number| inode_seed(uuid_seed(&UUID), InodeNo(number), 0);
    right(extent_block(seed(13), &bytes(1024, EXTENT_BLOCK)));
    let leaf = bytes(1024, ROOT_LEAF);
    assert!(has_leaf_tail(&leaf) && !has_leaf_tail(&leaf[..900]));
    right(directory_leaf(seed(2), &leaf));
    right(htree(seed(14), &bytes(1024, HTREE_ROOT), 0x20));
    right(orphan_block(seed(12), BlockNo(1075), &bytes(1024, ORPHAN)));
}

#[test]
fn other_blocks() {
    right(xattr_block(uuid_seed(&UUID), BlockNo(1117), &bytes(1024, XATTR_BLOCK)));
    right(mmp_block(uuid_seed(&UUID), &bytes(1024, MMP)));
}

#[test]
fn counts_that_lead_outside_give_no_checksum() {
    let full = vec![0xFF; 1024];
    assert_eq!(extent_block(0, &full), None);
    assert_eq!(htree(0, &full, 0x20), None);
    assert_eq!(directory_leaf(0, &full[..5]), None);
    assert_eq!(mmp_block(0, &full[..1023]), None);
    assert_eq!(orphan_block(0, BlockNo(0), &full[..7]), None);
    assert_eq!(xattr_block(0, BlockNo(0), &full[..19]), None);
}

const SUPERBLOCK: Sparse = &[
    (0x0, 1, "8000000000100000cc000000a10b00006900000001"),
    (0x21, 1, "2000000020000080"),
    (0x30, 1, "592a006b0000ffff53ef010001000000592a006b"),
    (0x4c, 1, "01"),
    (0x54, 1, "0b000000000100002c100000c20300006b04000000112233445566778899aabbccddeeff"),
    (0xe0, 1, "08"),
    (0xec, 1, "11111111222233334444555555555555010140000c"),
    (0x108, 1, "4e2a006b0af3030004"),
    (0x11c, 1, "0200000011000000020000000f0000001400000011000000ef03000043"),
    (0x14e, 1, "10"),
    (0x15c, 1, "2000200001000000000005003204"),
    (0x174, 1, "0401000067"),
    (0x248, 1, "2504"),
    (0x280, 1, "0c"),
    (0x3fc, 1, "c2dabee9"),
];

const DESC: Sparse =
    &[(0x0, 1, "030000001300000023000000a10b690003"), (0x18, 1, "ae16eebb69007e66"), (0x38, 1, "b89233e3")];

const BLOCK_BITMAP: Sparse = &[(0x0, 139, "ff"), (0x8b, 1, "3f"), (0x1ff, 1, "80"), (0x200, 512, "ff")];

const INODE_BITMAP: Sparse = &[(0x0, 1, "ffff7f"), (0x10, 1008, "ff")];

const FILE_13: Sparse = &[
    (0x0, 1, "a4810000022800004e2a006b4e2a006b4e2a006b"),
    (0x1a, 1, "01001000000000000800000000000af30100040001"),
    (0x38, 1, "5804"),
    (0x40, 1, "02000000010000005404000004000000010000005504000006000000010000005604"),
    (0x68, 1, "5d04"),
    (0x7c, 1, "dd3300002000617d"),
    (0x90, 1, "4e2a006b"),
    (0xa2, 1, "02ea"),
];

const EXTENT_BLOCK: Sparse = &[
    (0x0, 1, "0af3060054"),
    (0x10, 1, "01000000530400000200000001000000540400000400000001000000550400000600000001000000"),
    (0x38, 1, "560400000800000001000000570400000a000000010000005904"),
    (0x3fc, 1, "0d8cbbbc"),
];

const XATTR_BLOCK: Sparse = &[
    (0x2, 1, "02ea0100000001"),
    (0x10, 1, "0bffe172"),
    (0x20, 1, "0301380300000000c800000047850100626967"),
    (0x338, 200, "61"),
];

const ROOT_LEAF: Sparse = &[
    (0x0, 1, "020000000c0001022e000000020000000c0002022e2e00000b00000014000a026c6f73742b666f75"),
    (0x28, 1, "6e6400000d0000000c000101660000000e000000bc030302737562"),
    (0x3f8, 1, "0c0000debf4220de"),
];

const HTREE_ROOT: Sparse = &[
    (0x0, 1, "0e0000000c0001022e00000002000000f40302022e2e"),
    (0x1c, 1, "010800007b000300010000004a72dd3902000000260807e103"),
    (0x3fc, 1, "2d49f0b9"),
];

const MMP: Sparse = &[
    (0x0, 1, "504d4d00504d4dff642a006b00000000766d"),
    (0x50, 1, "6373756d2e696d67"),
    (0x70, 1, "05"),
    (0x3fc, 1, "095b1a84"),
];

const ORPHAN: Sparse = &[(0x3f8, 1, "04ca100b050945fa")];

const GDT_DESC: Sparse = &[(0x0, 1, "530000005600000002020000af1ba806000001"), (0x1c, 1, "a8066ba1")];

#[test]
fn the_seed_is_found_again_from_an_inode() {
    let mut record: Vec<u8> = (0..=255).collect();
    record[128..130].copy_from_slice(&[32, 0]);
    let seed = 0x1234_ABCD;
    let computed = inode(seed, InodeNo(11), &record).map(|checked| checked.computed).unwrap_or_default();
    record[0x7C..0x7E].copy_from_slice(&computed.to_le_bytes()[..2]);
    record[0x82..0x84].copy_from_slice(&computed.to_le_bytes()[2..]);
    assert_eq!(seed_of_inode(InodeNo(11), &record), Some(seed));
    assert_ne!(seed_of_inode(InodeNo(12), &record), Some(seed));
    record[128] = 0;
    assert_eq!(seed_of_inode(InodeNo(11), &record), None, "16 bits are not enough");
}
