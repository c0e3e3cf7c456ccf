// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deeds on what belongs to the whole file system: superblock, descriptors, bitmaps, tables, journal, lists; and on stretches of the disk.

use super::editor::{Editor, REGULAR, put16, put32};
use super::inodes::some_block;
use crate::repair::bytes::{u16_at, u32_at};

fn some_group(editor: &mut Editor<'_>) -> u32 {
    editor.below(editor.groups as usize) as u32
}

/// Bitmaps of two groups change places, or one is zeroed or filled or shifted; their checksums are right or not.
pub(super) fn bitmaps(editor: &mut Editor<'_>) -> Option<String> {
    let (one, other) = (some_group(editor), some_group(editor));
    let kind = editor.below(2);
    let (first, second) = (*editor.places(one)?.get(kind)?, *editor.places(other)?.get(kind)?);
    let (this, that) = (editor.block(first)?, editor.block(second)?);
    let size = editor.block_size;
    let how = editor.below(4);
    match how {
        0 => {
            editor.write(first * size, &that);
            editor.write(second * size, &this);
        }
        1 => editor.write(first * size, &vec![0; size as usize]),
        2 => editor.write(first * size, &vec![0xFF; size as usize]),
        _ => {
            let shifted: Vec<u8> = [&this[1..], &[0]].concat();
            editor.write(first * size, &shifted);
        }
    }
    if editor.below(2) == 0 {
        editor.seal_bitmaps(one)?;
        editor.seal_bitmaps(other)?;
    }
    Some(format!("bitmaps {kind} of groups {one} and {other}: {how}"))
}

/// Bits of a bitmap, with right checksums: what is in use is free, what is free is in use.
pub(super) fn bits(editor: &mut Editor<'_>) -> Option<String> {
    let group = some_group(editor);
    let kind = editor.below(2);
    let at = *editor.places(group)?.get(kind)? * editor.block_size;
    let bits = match kind {
        0 => editor.superblock.s_clusters_per_group.get(),
        _ => editor.superblock.s_inodes_per_group.get(),
    };
    for _ in 0..1 + editor.below(40) {
        let bit = editor.below(bits as usize);
        let byte = *editor.read(at + bit as u64 / 8, 1)?.first()?;
        editor.write(at + bit as u64 / 8, &[byte ^ 1 << (bit % 8)]);
    }
    editor.seal_bitmaps(group)?;
    Some(format!("bits of bitmap {kind} of group {group}"))
}

/// A descriptor is wrong.
pub(super) fn descriptors(editor: &mut Editor<'_>) -> Option<String> {
    let (one, other) = (some_group(editor), some_group(editor));
    let how = editor.below(8);
    let target = some_block(editor)? as u32;
    match how {
        0 => {
            let at = editor.descriptor_at(other)?;
            let bytes = editor.read(at, editor.desc_size as usize)?;
            editor.with_descriptor(one, |desc| desc.copy_from_slice(&bytes))?;
        }
        1 => {
            let flags = editor.below(8) as u16;
            editor.with_descriptor(one, |desc| put16(desc, 0x12, flags))?;
        }
        2 => {
            let place = editor.one(&[0, 4, 8])?;
            editor.with_descriptor(one, |desc| put32(desc, place, target))?;
        }
        3 => {
            let place = editor.one(&[0x0C, 0x0E, 0x10, 0x1C])?;
            let count = editor.one(&[0, 1, 7, 100, 0xFFFF])?;
            editor.with_descriptor(one, |desc| put16(desc, place, count))?;
        }
        4 => editor.with_descriptor(one, |desc| desc.fill(0))?,
        5 => {
            let place = editor.one(&[0, 4, 8])?;
            editor.with_descriptor(one, |desc| put32(desc, place, u32_at(desc, place) + 1))?;
        }
        6 => {
            let at = editor.descriptor_at(one)? / editor.block_size;
            let zeroes = vec![0; editor.block_size as usize];
            editor.write(at * editor.block_size, &zeroes);
        }
        _ => {
            // The place of the table is that of the other group.
            let table = editor.places(other)?[2] as u32;
            editor.with_descriptor(one, |desc| put32(desc, 8, table))?;
        }
    }
    Some(format!("descriptor of group {one}, {other}: {how}, {target}"))
}

/// Blocks of inode tables change places, are zeroed (in part), hold something else, or the same as another.
pub(super) fn tables(editor: &mut Editor<'_>) -> Option<String> {
    let size = editor.block_size;
    let mut draw = || {
        let group = some_group(editor);
        let table = editor.places(group)?[2];
        // What is in use lies at the front.
        let reach = editor.table_blocks().div_ceil(if group == 0 { 4 } else { 2 });
        Some(table + editor.random.below(reach))
    };
    let (one, other) = (draw()?, draw()?);
    let (this, that) = (editor.block(one)?, editor.block(other)?);
    let how = editor.below(6);
    match how {
        0 => {
            editor.write(one * size, &that);
            editor.write(other * size, &this);
        }
        1 => editor.write(one * size, &that),
        2 => editor.write(one * size, &vec![0; size as usize]),
        3 => editor.write(one * size, &vec![0; size as usize / 2]),
        4 => editor.write(one * size + size / 2, &vec![0; size as usize / 2]),
        _ => {
            let file = editor.some_mapped(REGULAR)?;
            let blocks = editor.sound_blocks(file);
            let block_of_file = editor.one(&blocks)?;
            let bytes = editor.block(block_of_file)?;
            editor.write(one * size, &bytes);
        }
    }
    Some(format!("table blocks {one} and {other}: {how}"))
}

/// A stretch of the disk is zero: a whole group, the start, the end.
pub(super) fn stretch(editor: &mut Editor<'_>) -> Option<String> {
    let size = editor.block_size;
    let group = u64::from(some_group(editor));
    let blocks = u64::from(editor.superblock.s_blocks_per_group.get());
    let first = u64::from(editor.superblock.s_first_data_block.get()) + group * blocks;
    let end = editor.image.base().len() as u64;
    let how = editor.below(8);
    let (start, len) = match how {
        0 => (first * size, blocks * size),
        1 => (0, 1024),
        2 => (0, 2048),
        3 => (0, 8192),
        4 => (0, 65536),
        5 => (0, 1 << 20),
        6 => (end.saturating_sub(1 << 20), 1 << 20),
        _ => (editor.random.below(end) / 4096 * 4096, 65536),
    };
    let len = len.min(end.saturating_sub(start));
    if len > end / 2 {
        return None;
    }
    editor.write(start, &vec![0; len as usize]);
    Some(format!("{len} zeroes at {start}, {how}"))
}

/// A block of another owner is written where another one should be.
pub(super) fn misdirected(editor: &mut Editor<'_>) -> Option<String> {
    let (from, to) = (some_block(editor)?, some_block(editor)?);
    let bytes = editor.block(from)?;
    editor.write(to * editor.block_size, &bytes);
    Some(format!("block {from} over block {to}"))
}

/// A value of the superblock is wrong, as from another time or another file system.
pub(super) fn superblock(editor: &mut Editor<'_>) -> Option<String> {
    let how = editor.below(14);
    let noise = editor.random.next_u64() as u32;
    let bit = 1_u32 << (noise % 32);
    let flip = move |bytes: &mut [u8], at: usize, bits: u32| {
        let value = u32_at(bytes, at) ^ bits;
        put32(bytes, at, value);
    };
    let inode = editor.any_named()?;
    let special = editor.one(&[2, 7, 8, 11, 12])?;
    editor.with_superblock(|bytes| match how {
        0 => flip(bytes, 0x5C, bit),
        1 => flip(bytes, 0x60, 1 << (noise % 18)),
        2 => flip(bytes, 0x64, 1 << (noise % 17)),
        3 => put32(bytes, 0x0C, noise % 5000),
        4 => put32(bytes, 0x10, noise % 500),
        5 => put32(bytes, 0xE8, inode),
        6 => put32(bytes, 0xE0, special),
        7 => put16(bytes, 0x3A, (noise % 8) as u16),
        8 => flip(bytes, 0x160, 1 << (noise % 4)),
        9 => flip(bytes, 0xCE, 1 << (noise % 8)),
        10 => bytes[0xFC] = (noise % 8) as u8,
        11 => put32(bytes, 0x108, noise),
        12 => {
            let (user, group) = (u32_at(bytes, 0x240), u32_at(bytes, 0x244));
            put32(bytes, 0x240, group);
            put32(bytes, 0x244, user);
        }
        _ => put32(bytes, [0x240, 0x244, 0x26C, 0x280][noise as usize % 4], inode),
    })?;
    Some(format!("superblock: {how}, {noise}, inode {inode}, {special}"))
}

/// The superblock says that there are more or fewer blocks than there are, or inodes, or the groups have another size.
pub(super) fn geometry(editor: &mut Editor<'_>) -> Option<String> {
    let at = editor
        .one(&[0x00, 0x04, 0x14, 0x18, 0x1C, 0x20, 0x24, 0x28, 0x54, 0x58, 0x150, 0xFE, 0x104, 0x174])?;
    let by = editor.one(&[1_u32, u32::MAX, 8, 1024, 0xFFFF_FC00])?;
    editor.with_superblock(|bytes| {
        let value = u32_at(bytes, at).wrapping_add(by);
        put32(bytes, at, value);
    })?;
    Some(format!("superblock field {at:#x} plus {by:#x}"))
}

/// The list of orphans leads to files in use, to what is free, in circles.
pub(super) fn orphans(editor: &mut Editor<'_>) -> Option<String> {
    let how = editor.below(5);
    let (one, other) = (editor.any_named()?, editor.any_named()?);
    let first = match how {
        4 => editor.superblock.s_inodes_count.get() - editor.below(20) as u32,
        _ => one,
    };
    editor.with_superblock(|bytes| put32(bytes, 0xE8, first))?;
    if how < 4 {
        editor.with_inode(one, |record| {
            put32(record, 20, if how == 0 { one } else { other });
            if how != 1 {
                put16(record, 26, 0);
            }
        })?;
        if how == 3 {
            editor.with_inode(other, |record| put32(record, 20, one))?;
        }
    }
    Some(format!("orphans: {one}, {other}, {how}"))
}

/// The journal is damaged, or said to wait.
pub(super) fn journal(editor: &mut Editor<'_>) -> Option<String> {
    let blocks = editor.sound_blocks(8);
    let first = *blocks.first()?;
    let how = editor.below(9);
    let size = editor.block_size;
    let noise = editor.random.next_u64();
    let mut head = editor.block(first)?;
    match how {
        0 => head.fill(0),
        1 => head[0] ^= 0xFF,
        2 => {
            // It says that it waits from some block on.
            head[0x1C..0x20].copy_from_slice(&(1 + noise as u32 % blocks.len() as u32).to_be_bytes());
        }
        3 => head[0x10..0x14].copy_from_slice(&(blocks.len() as u32 + 1).to_be_bytes()),
        4 => head[0x24 + (noise % 12) as usize] ^= 1 << (noise % 8),
        5 => head[0x20..0x24].copy_from_slice(&5_u32.to_be_bytes()),
        _ => {}
    }
    editor.write(first * size, &head);
    match how {
        2 | 6 => editor.with_superblock(|bytes| {
            let value = u32_at(bytes, 0x60) | 4;
            put32(bytes, 0x60, value);
        })?,
        7 => {
            // The feature is gone and the inode stays.
            editor.with_superblock(|bytes| {
                let value = u32_at(bytes, 0x5C) & !4;
                put32(bytes, 0x5C, value);
            })?;
        }
        8 => editor.with_inode(8, |record| {
            let value = u16_at(record, 40 + 20).wrapping_add(noise as u16);
            put16(record, 40 + 20, value);
        })?,
        _ => {}
    }
    Some(format!("journal: {how}, {noise:#x}"))
}

/// A file of metadata is damaged in a block: quota, orphans, resizing.
pub(super) fn system_file(editor: &mut Editor<'_>) -> Option<String> {
    let superblock = &editor.superblock;
    let files = [
        superblock.s_usr_quota_inum.get(),
        superblock.s_grp_quota_inum.get(),
        superblock.s_prj_quota_inum.get(),
        superblock.s_orphan_file_inum.get(),
        7,
    ];
    let used: Vec<u32> =
        files.into_iter().filter(|inode| *inode != 0 && !editor.sound_blocks(*inode).is_empty()).collect();
    let inode = editor.one(&used)?;
    let blocks = editor.sound_blocks(inode);
    let block = editor.one(&blocks)?;
    let how = editor.below(4);
    let mut bytes = editor.block(block)?;
    let at = editor.below(bytes.len() / 4) * 4;
    let value = editor.any_named()?;
    match how {
        0 => bytes.fill(0),
        1 => put32(&mut bytes, at, value),
        2 => put32(&mut bytes, at % 128, value),
        _ => {
            let other = some_block(editor)?;
            bytes = editor.block(other)?;
        }
    }
    editor.write(block * editor.block_size, &bytes);
    Some(format!("block {block} of system file {inode}: {how}, at {at}, {value}"))
}
