// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deeds on inodes and what they map.

use super::editor::{DIRECTORY, EXTENTS, Editor, INLINE, REGULAR, put16, put32};
use crate::repair::bytes::{u16_at, u32_at};

/// Two inodes change places.
pub(super) fn swap_records(editor: &mut Editor<'_>) -> Option<String> {
    let (one, other) = (editor.any_named()?, editor.any_named()?);
    let (first, second) = (editor.inode(one)?, editor.inode(other)?);
    editor.put_inode(one, second);
    editor.put_inode(other, first);
    Some(format!("inodes {one} and {other} swapped"))
}

/// One inode is written over another one.
pub(super) fn copy_record(editor: &mut Editor<'_>) -> Option<String> {
    let (from, to) = (editor.any_named()?, editor.any_named()?);
    let record = editor.inode(from)?;
    editor.put_inode(to, record);
    Some(format!("inode {from} over inode {to}"))
}

/// The map of one inode in another one, with its flags or without, with its size or without.
pub(super) fn copy_map(editor: &mut Editor<'_>) -> Option<String> {
    let kind = editor.one(&[REGULAR, REGULAR, DIRECTORY])?;
    let (from, to) = (editor.some_mapped(kind)?, editor.any_named()?);
    let record = editor.inode(from)?;
    let how = editor.below(4);
    editor.with_inode(to, |victim| {
        victim[40..100].copy_from_slice(&record[40..100]);
        if how & 1 == 1 {
            victim[32..36].copy_from_slice(&record[32..36]);
            victim[28..32].copy_from_slice(&record[28..32]);
        }
        if how & 2 == 2 {
            victim[4..8].copy_from_slice(&record[4..8]);
        }
    })?;
    Some(format!("map of inode {from} in inode {to}, {how}"))
}

/// An inode is zeroed, or only its type, or only its links, or it is marked as deleted.
pub(super) fn clear(editor: &mut Editor<'_>) -> Option<String> {
    let special =
        [2, 7, 8, 11, editor.superblock.s_orphan_file_inum.get(), editor.superblock.s_usr_quota_inum.get()];
    let inode = match editor.below(4) {
        0 => editor.one(&special).filter(|inode| *inode != 0)?,
        _ => editor.any_named()?,
    };
    let how = editor.below(5);
    editor.with_inode(inode, |record| match how {
        0 => record.fill(0),
        1 => put16(record, 0, 0),
        2 => put16(record, 26, 0),
        3 => {
            put16(record, 26, 0);
            put32(record, 20, 1_700_000_000);
        }
        _ => put32(record, 20, 1_700_000_000),
    })?;
    Some(format!("inode {inode} cleared, {how}"))
}

/// An inode gets another type.
pub(super) fn change_type(editor: &mut Editor<'_>) -> Option<String> {
    let inode = editor.any_named()?;
    let kind = editor.one(&[0x1, 0x2, 0x4, 0x6, 0x8, 0xA, 0xC, 0x3, 0xF_u16])?;
    editor.with_inode(inode, |record| {
        let mode = u16_at(record, 0) & 0xFFF | kind << 12;
        put16(record, 0, mode);
    })?;
    Some(format!("inode {inode} has type {kind:x}"))
}

/// A flag is turned over.
pub(super) fn flip_flag(editor: &mut Editor<'_>) -> Option<String> {
    let inode = match editor.below(6) {
        0 => editor.one(&[2, 7, 8, 11])?,
        _ => editor.any_named()?,
    };
    let flag = editor.one(&[
        EXTENTS,
        INLINE,
        0x1000,
        0x800,
        0x10_0000,
        0x20_0000,
        0x4000_0000,
        0x4_0000,
        0x2000_0000,
        0x10,
        0x4000,
        0x40_0000,
        0x4,
        0x100_0000,
    ])?;
    editor.with_inode(inode, |record| {
        let flags = u32_at(record, 32) ^ flag;
        put32(record, 32, flags);
    })?;
    Some(format!("flag {flag:#x} of inode {inode} turned over"))
}

/// A number of an inode is a little or very wrong.
pub(super) fn wrong_number(editor: &mut Editor<'_>) -> Option<String> {
    let inode = match editor.below(8) {
        0 => editor.one(&[1, 2, 7, 8, 11])?,
        _ => editor.any_named()?,
    };
    // Links, size, its upper half, blocks, their upper half, attribute block, generation, extra size, project.
    let (at, wide) = editor.one(&[
        (26, false),
        (4, true),
        (108, true),
        (28, true),
        (116, false),
        (104, true),
        (100, true),
        (128, false),
        (0x9C, true),
    ])?;
    let by =
        editor.one(&[1_u32, u32::MAX, 0x100, 0xFFFF_FF00, 0x8000, 0x10000, 0x8000_0000, 3, 4096, 12345])?;
    editor.with_inode(inode, |record| {
        if wide && at + 4 <= record.len() {
            let value = u32_at(record, at).wrapping_add(by);
            put32(record, at, value);
        } else if at + 2 <= record.len() {
            let value = u16_at(record, at).wrapping_add(by as u16);
            put16(record, at, value);
        }
    })?;
    Some(format!("field {at} of inode {inode} plus {by:#x}"))
}

/// Where a leaf or inner node of some map stands: the inode, byte, length, offset of the node in it.
struct NodeAt {
    inode: u32,
    block: Option<u64>,
    record: Vec<u8>,
    at: usize,
}

impl NodeAt {
    fn entries(&self) -> usize {
        usize::from(u16_at(&self.record, self.at + 2))
    }

    fn depth(&self) -> u16 {
        u16_at(&self.record, self.at + 6)
    }

    fn write(self, editor: &mut Editor<'_>) {
        match self.block {
            Some(block) => editor.put_extent_block(self.inode, block * editor.block_size, self.record),
            None => editor.put_inode(self.inode, self.record),
        }
    }
}

/// A node of the extent tree of something.
fn some_node(editor: &mut Editor<'_>) -> Option<NodeAt> {
    for _ in 0..30 {
        let kind = editor.one(&[REGULAR, REGULAR, DIRECTORY])?;
        let inode = match editor.below(8) {
            0 => 8,
            _ => editor.some_mapped(kind)?,
        };
        let record = editor.inode(inode)?;
        if u32_at(&record, 32) & EXTENTS == 0 || u16_at(&record, 40) != 0xF30A {
            continue;
        }
        let mut node = NodeAt { inode, block: None, record, at: 40 };
        while node.depth() > 0 && node.depth() < 6 && editor.below(3) > 0 {
            let entry = node.at + 12 + 12 * editor.below(node.entries());
            let child = u64::from(u32_at(&node.record, entry + 4));
            let Some(record) = editor.block(child) else { break };
            if u16_at(&record, 0) != 0xF30A {
                break;
            }
            node = NodeAt { inode, block: Some(child), record, at: 0 };
        }
        if node.entries() > 0 && node.at + 12 + 12 * node.entries() <= node.record.len() {
            return Some(node);
        }
    }
    None
}

/// A block of the file system of some kind: of a file, of a directory, a bitmap, a table, the superblock, out of it, or any.
pub(super) fn some_block(editor: &mut Editor<'_>) -> Option<u64> {
    let group = editor.below(editor.groups as usize) as u32;
    let places = editor.places(group)?;
    Some(match editor.below(12) {
        0 => places[0],
        1 => places[1],
        2 => places[2] + editor.random.below(editor.table_blocks()),
        3 => editor.random.below(4),
        4 => editor.blocks() + editor.random.below(100),
        5 => {
            let journal = editor.sound_blocks(8);
            editor.one(&journal)?
        }
        6 | 7 => {
            let directory = editor.some_mapped(DIRECTORY)?;
            let blocks = editor.sound_blocks(directory);
            editor.one(&blocks)?
        }
        8 => {
            let with_attributes: Vec<u64> =
                editor.tree.paths.keys().filter_map(|inode| attribute_block(editor, *inode)).collect();
            editor.one(&with_attributes)?
        }
        9 => editor.random.below(editor.blocks()),
        _ => {
            let file = editor.some_mapped(REGULAR)?;
            let blocks = editor.sound_blocks(file);
            editor.one(&blocks)?
        }
    })
}

/// Something about a node of an extent tree is wrong.
pub(super) fn extents(editor: &mut Editor<'_>) -> Option<String> {
    let mut node = some_node(editor)?;
    let entry = editor.below(node.entries());
    let other = editor.below(node.entries());
    let (at, second) = (node.at + 12 + 12 * entry, node.at + 12 + 12 * other);
    let depth = node.depth();
    let how = editor.below(14);
    let target = some_block(editor)? as u32;
    let own = node.block.unwrap_or(0) as u32;
    let start = if depth > 0 { at + 4 } else { at + 8 };
    let record = &mut node.record;
    match how {
        0 | 1 => put32(record, start, target),
        2 => put32(record, start, own),
        3 => {
            let value = u32_at(record, at).wrapping_add(1);
            put32(record, at, value);
        }
        4 => {
            let value = u16_at(record, at + 4) ^ 0x8000;
            put16(record, at + 4, value);
        }
        5 => {
            let value = u16_at(record, at + 4).wrapping_add(1);
            put16(record, at + 4, value);
        }
        6 => put16(record, at + 4, 0),
        7 => {
            for byte in 0..12 {
                record.swap(at + byte, second + byte);
            }
        }
        8 => {
            let bytes = record[at..at + 12].to_vec();
            record[second..second + 12].copy_from_slice(&bytes);
        }
        9 => put16(record, node.at + 6, depth + 1),
        10 => put16(record, node.at + 6, depth.wrapping_sub(1)),
        11 => {
            let value = u16_at(record, node.at + 2).wrapping_sub(1);
            put16(record, node.at + 2, value);
        }
        12 => {
            let value = u16_at(record, node.at + 2) + 1;
            put16(record, node.at + 2, value);
        }
        _ => {
            let value = u32_at(record, start).wrapping_add(1);
            put32(record, start, value);
        }
    }
    let name = format!(
        "extent tree of inode {}, node {own}, entry {entry} of depth {depth}: {how}, {target}",
        node.inode
    );
    node.write(editor);
    Some(name)
}

/// A node of one file's extent tree is also that of another file.
pub(super) fn shared_node(editor: &mut Editor<'_>) -> Option<String> {
    let (node, mut other) = (some_node(editor)?, some_node(editor)?);
    let (from, to) = (node.at + 12, other.at + 12);
    let bytes = node.record.get(from..from + 12)?.to_vec();
    let depth = [node.depth(), other.depth()];
    other.record.get_mut(to..to + 12)?.copy_from_slice(&bytes);
    let name = format!(
        "first entry of a node of inode {} in a node of inode {}, depths {depth:?}",
        node.inode, other.inode
    );
    other.write(editor);
    Some(name)
}

/// A pointer of an indirect map leads elsewhere.
pub(super) fn pointers(editor: &mut Editor<'_>) -> Option<String> {
    for _ in 0..30 {
        let kind = editor.one(&[REGULAR, REGULAR, DIRECTORY])?;
        let inode = match editor.below(8) {
            0 => editor.one(&[7, 8])?,
            _ => editor.some_mapped(kind)?,
        };
        let record = editor.inode(inode)?;
        if u32_at(&record, 32) & (EXTENTS | INLINE) != 0 {
            continue;
        }
        let words: Vec<usize> = (0..15).filter(|word| u32_at(&record, 40 + word * 4) != 0).collect();
        let mut deep = words.clone();
        deep.retain(|word| *word >= 12);
        let word =
            if deep.is_empty() || editor.below(2) == 0 { editor.one(&words)? } else { editor.one(&deep)? };
        let target = some_block(editor)? as u32;
        let mut block = u32_at(&record, 40 + word * 4);
        let levels = if word >= 12 { editor.below(word - 10) } else { 0 };
        if levels == 0 {
            let target =
                if editor.below(6) == 0 { u32_at(&record, 40 + editor.below(15) * 4) } else { target };
            editor.with_inode(inode, |record| put32(record, 40 + word * 4, target))?;
            return Some(format!("pointer {word} of inode {inode} to {target}"));
        }
        for level in 1..=levels {
            let bytes = editor.block(u64::from(block))?;
            let used: Vec<usize> =
                (0..bytes.len() / 4).filter(|word| u32_at(&bytes, word * 4) != 0).collect();
            let at = editor.one(&used)? * 4;
            if level < levels {
                block = u32_at(&bytes, at);
                continue;
            }
            let target = match editor.below(5) {
                0 => block,
                _ => target,
            };
            let place = u64::from(block) * editor.block_size + at as u64;
            editor.write(place, &target.to_le_bytes());
            return Some(format!("pointer at {at} of indirect block {block} of inode {inode} to {target}"));
        }
    }
    None
}

/// The block of attributes of an inode.
pub(super) fn attribute_block(editor: &Editor<'_>, inode: u32) -> Option<u64> {
    let record = editor.sound_inode(inode)?;
    let block = u64::from(u32_at(record.bytes, 104));
    (block != 0 && block < editor.blocks()).then_some(block)
}

/// The block of attributes of an inode is wrong, or its count of users.
pub(super) fn attributes(editor: &mut Editor<'_>) -> Option<String> {
    let inodes: Vec<u32> = editor.tree.paths.keys().copied().collect();
    let with_block: Vec<u32> =
        inodes.iter().copied().filter(|inode| attribute_block(editor, *inode).is_some()).collect();
    let owner = editor.one(&with_block)?;
    let block = attribute_block(editor, owner)?;
    let victim = editor.any_named()?;
    let how = editor.below(8);
    match how {
        0 => editor.with_inode(victim, |record| put32(record, 104, block as u32))?,
        1 => {
            let target = some_block(editor)? as u32;
            editor.with_inode(victim, |record| put32(record, 104, target))?;
        }
        2 => editor.with_inode(owner, |record| put32(record, 104, 0))?,
        3 => {
            let other = editor.one(&with_block)?;
            let bytes = editor.block(attribute_block(editor, other)?)?;
            editor.put_attribute_block(block, bytes);
        }
        4 => {
            let mut bytes = editor.block(block)?;
            let count = editor.one(&[0_u32, 2, 1024, 1025, u32::MAX])?;
            put32(&mut bytes, 4, count);
            editor.put_attribute_block(block, bytes);
        }
        5 => {
            let bytes = vec![0; editor.block_size as usize];
            editor.write(block * editor.block_size, &bytes);
        }
        6 => {
            let file = editor.some_mapped(REGULAR)?;
            let blocks = editor.sound_blocks(file);
            let block_of_file = editor.one(&blocks)?;
            let bytes = editor.block(block_of_file)?;
            editor.write(block * editor.block_size, &bytes);
        }
        _ => {
            // An entry of it: the offset, size or inode of a value.
            let mut bytes = editor.block(block)?;
            let at = 32 + editor.one(&[2, 4, 8, 12])?;
            let value = u32_at(&bytes, at) ^ 1 << editor.below(16);
            put32(&mut bytes, at, value);
            editor.put_attribute_block(block, bytes);
        }
    }
    Some(format!("attributes: block {block} of inode {owner}, inode {victim}: {how}"))
}

/// What stands in the inode behind its fields changes places with that of another one: attributes, data.
pub(super) fn swap_tails(editor: &mut Editor<'_>) -> Option<String> {
    let (one, other) = (editor.any_named()?, editor.any_named()?);
    let (mut first, mut second) = (editor.inode(one)?, editor.inode(other)?);
    let from = 160.min(first.len());
    first[from..].swap_with_slice(&mut second[from..]);
    editor.put_inode(one, first);
    editor.put_inode(other, second);
    Some(format!("tails of inodes {one} and {other} swapped"))
}

/// Values that have inodes of their own: their flags, counts, and who refers to them.
pub(super) fn value_inodes(editor: &mut Editor<'_>) -> Option<String> {
    let count = editor.superblock.s_inodes_count.get();
    let is_value = |inode: &u32| {
        editor.sound_inode(*inode).is_some_and(|record| record.flags() & 0x20_0000 != 0 && record.mode() != 0)
    };
    let values: Vec<u32> = (11..=count).filter(is_value).collect();
    let value = editor.one(&values)?;
    let how = editor.below(6);
    match how {
        0 => editor.with_inode(value, |record| put32(record, 32, u32_at(record, 32) & !0x20_0000))?,
        1 => editor.with_inode(value, |record| put16(record, 26, 7))?,
        2 => editor.with_inode(value, |record| record.fill(0))?,
        3 => {
            let entry = editor.some_entry()?;
            editor.lead(&entry, value)?;
        }
        4 => {
            let other = editor.one(&values)?;
            let (first, second) = (editor.inode(value)?, editor.inode(other)?);
            editor.put_inode(value, second);
            editor.put_inode(other, first);
        }
        // The time of last access holds the hash of the value.
        _ => editor.with_inode(value, |record| put32(record, 8, u32_at(record, 8) ^ 1))?,
    }
    Some(format!("inode {value} of a value: {how}"))
}
