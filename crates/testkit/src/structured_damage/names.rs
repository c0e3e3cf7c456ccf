// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deeds on directories: names, trees, indexes.

use super::editor::{DIRECTORY, Editor, Entry, INDEX, REGULAR, put16, put32};
use super::inodes::some_block;
use crate::repair::bytes::{u16_at, u32_at};

/// An entry leads elsewhere: to something else, to what is reserved, to what is not there.
pub(super) fn lead_elsewhere(editor: &mut Editor<'_>) -> Option<String> {
    let entry = editor.some_entry()?;
    let count = editor.superblock.s_inodes_count.get();
    let target = match editor.below(8) {
        0 => editor.below(11) as u32,
        1 => count + 1 + editor.below(10) as u32,
        2 => editor.random.below(u64::from(count)) as u32,
        3 => entry.dir,
        4 | 5 => editor.some(DIRECTORY)?,
        _ => editor.any_named()?,
    };
    editor.lead(&entry, target)?;
    Some(format!("{} leads to inode {target}", show(&entry)))
}

/// Two entries change the inodes that they lead to.
pub(super) fn swap_targets(editor: &mut Editor<'_>) -> Option<String> {
    let (one, other) = (editor.some_entry()?, editor.some_entry()?);
    editor.lead(&one, other.inode)?;
    editor.lead(&other, one.inode)?;
    Some(format!("{} and {} change what they lead to", show(&one), show(&other)))
}

/// A directory hangs in its own child, or two in one another, and each, or one of them, or none has its good name as well.
pub(super) fn cycle(editor: &mut Editor<'_>) -> Option<String> {
    let directories: Vec<u32> =
        editor.named(DIRECTORY).into_iter().filter(|inode| *inode != 2 && *inode != 11).collect();
    let holds = |inode: &u32| editor.entries(*inode).iter().any(|entry| !entry.is_dot());
    let full: Vec<u32> = directories.into_iter().filter(holds).collect();
    let (one, other) = (editor.one(&full)?, editor.one(&full)?);
    let how = editor.below(5);
    let inside = |editor: &mut Editor<'_>, directory| {
        let entries: Vec<Entry> =
            editor.entries(directory).into_iter().filter(|entry| !entry.is_dot()).collect();
        editor.one(&entries)
    };
    let place = inside(editor, other)?;
    if how == 1 || how == 2 {
        // Its own name goes, so that only the cycle leads to it.
        let name = editor.entry_of(one)?;
        editor.lead(&name, 0)?;
    }
    editor.lead(&place, one)?;
    if how >= 2 {
        let back = inside(editor, one)?;
        if how < 4 {
            let name = editor.entry_of(other)?;
            editor.lead(&name, 0)?;
        }
        editor.lead(&back, other)?;
        for (child, parent) in [(one, other), (other, one)] {
            lead_dot(editor, child, b"..", parent)?;
        }
    }
    Some(format!("directory {one} within {other}, {how}"))
}

fn lead_dot(editor: &mut Editor<'_>, directory: u32, name: &[u8], inode: u32) -> Option<()> {
    let entry = editor.entries(directory).into_iter().find(|entry| entry.name == name)?;
    editor.lead(&entry, inode)
}

/// `.` or `..` is wrong.
pub(super) fn dots(editor: &mut Editor<'_>) -> Option<String> {
    let directory = editor.some_mapped(DIRECTORY)?;
    let entries = editor.entries(directory);
    let dots: Vec<Entry> = entries.into_iter().filter(Entry::is_dot).collect();
    let dot = editor.one(&dots)?;
    let at = (dot.at - dot.block) as usize;
    let how = editor.below(6);
    let other = editor.any_named()?;
    editor.with_directory_block(directory, dot.block, |bytes| match how {
        0 => put32(bytes, at, other),
        1 => put32(bytes, at, 0),
        2 => bytes[at + 8] = b'x',
        3 => bytes[at + 6] = 3,
        4 => {
            let len = u16_at(bytes, at + 4) + 4;
            put16(bytes, at + 4, len);
        }
        _ => bytes[at + 7] = 1,
    })?;
    Some(format!("{} of {directory}: {how}, {other}", String::from_utf8_lossy(&dot.name)))
}

/// A name is gone, so that what it led to has none.
pub(super) fn unname(editor: &mut Editor<'_>) -> Option<String> {
    let entry = editor.some_entry()?;
    editor.lead(&entry, 0)?;
    Some(format!("{} is gone", show(&entry)))
}

/// A name is another one's, or has letters that none may have, or the entry another length.
pub(super) fn rename(editor: &mut Editor<'_>) -> Option<String> {
    let entry = editor.some_entry()?;
    let entries = editor.entries(entry.dir);
    let other = editor.one(&entries)?;
    let at = (entry.at - entry.block) as usize;
    let room = usize::from(entry.len).saturating_sub(8);
    let how = editor.below(8);
    let letter = editor.below(entry.name.len().max(1));
    editor.with_directory_block(entry.dir, entry.block, |bytes| match how {
        0 | 1 if other.name.len() <= room => {
            bytes[at + 6] = other.name.len() as u8;
            bytes[at + 8..at + 8 + other.name.len()].copy_from_slice(&other.name);
        }
        2 => bytes[at + 8 + letter] = b'/',
        3 => bytes[at + 8 + letter] = 0,
        4 => bytes[at + 6] = 0,
        5 => bytes[at + 7] = (bytes[at + 7] + 1) % 9,
        6 => {
            let len = u16_at(bytes, at + 4) + 4;
            put16(bytes, at + 4, len);
        }
        _ => put16(bytes, at + 4, 0),
    })?;
    Some(format!("{} renamed, {how}, like {}", show(&entry), show(&other)))
}

/// Blocks of two directories change places, as they are or with right checksums; or one is written over the other, or zeroed.
pub(super) fn blocks(editor: &mut Editor<'_>) -> Option<String> {
    let (one, other) = (editor.some_mapped(DIRECTORY)?, editor.some_mapped(DIRECTORY)?);
    let (first, second) = (editor.sound_blocks(one), editor.sound_blocks(other));
    let (first, second) = (editor.one(&first)?, editor.one(&second)?);
    let (this, that) = (editor.block(first)?, editor.block(second)?);
    let size = editor.block_size;
    let how = editor.below(6);
    match how {
        0 => {
            editor.write(first * size, &that);
            editor.write(second * size, &this);
        }
        1 => {
            editor.put_directory_block(one, first * size, that);
            editor.put_directory_block(other, second * size, this);
        }
        2 => editor.put_directory_block(one, first * size, that),
        3 => editor.write(first * size, &vec![0; size as usize]),
        4 => {
            let file = editor.some_mapped(REGULAR)?;
            let blocks = editor.sound_blocks(file);
            let block_of_file = editor.one(&blocks)?;
            let bytes = editor.block(block_of_file)?;
            editor.write(first * size, &bytes);
        }
        _ => {
            // As after power loss: the second half is what stood there before, which may be nothing.
            let half = vec![0; size as usize / 2];
            editor.write(first * size + size / 2, &half);
        }
    }
    Some(format!("block {first} of directory {one}, block {second} of directory {other}: {how}"))
}

/// Something about an index is wrong.
pub(super) fn index(editor: &mut Editor<'_>) -> Option<String> {
    let is_indexed =
        |inode: &u32| editor.sound_inode(*inode).is_some_and(|record| record.flags() & INDEX != 0);
    let indexed: Vec<u32> = editor.named(DIRECTORY).into_iter().filter(is_indexed).collect();
    let directory = editor.one(&indexed)?;
    let blocks = editor.sound_blocks(directory);
    let size = editor.block_size as usize;
    let is_node = |block: &&u64| {
        let start = **block as usize * size;
        let bytes = editor.image.base().get(start..start + 8).unwrap_or_default();
        u32_at(bytes, 0) == 0 && usize::from(u16_at(bytes, 4)) == size
    };
    let mut nodes: Vec<u64> = blocks.iter().filter(is_node).copied().collect();
    nodes.extend(blocks.first());
    let node = editor.one(&nodes)?;
    let table = if Some(&node) == blocks.first() { 0x20 } else { 8 };
    let mut bytes = editor.block(node)?;
    let count = usize::from(u16_at(&bytes, table + 2));
    let (entry, other) = (table + 8 * editor.below(count), table + 8 * editor.below(count));
    let how = editor.below(12);
    let noise = editor.random.next_u64() as u32;
    match how {
        0 => {
            for byte in 4..8 {
                bytes.swap(entry + byte, other + byte);
            }
        }
        1 => {
            let block = u32_at(&bytes, other + 4);
            put32(&mut bytes, entry + 4, block);
        }
        2 => put32(&mut bytes, entry + 4, blocks.len() as u32 + noise % 3),
        3 => put32(&mut bytes, entry + 4, noise % blocks.len() as u32),
        4 if entry > table => put32(&mut bytes, entry, noise),
        5 => put16(&mut bytes, table + 2, count as u16 - 1),
        6 => put16(&mut bytes, table + 2, count as u16 + 1),
        7 => {
            let limit = u16_at(&bytes, table) - 1;
            put16(&mut bytes, table, limit);
        }
        8 if table == 0x20 => bytes[0x1C] = (noise % 7) as u8,
        9 if table == 0x20 => bytes[0x1E] = (noise % 4) as u8,
        10 if table == 0x20 => bytes[0x1D] = (noise % 16) as u8,
        _ => {
            let hash = u32_at(&bytes, entry) ^ 1;
            put32(&mut bytes, entry, hash);
        }
    }
    editor.put_directory_block(directory, node * editor.block_size, bytes);
    Some(format!("index of directory {directory}, node {node}: {how}, {noise}"))
}

/// A directory is shorter or longer than it was, or has a hole, or a block of another owner.
pub(super) fn reshape(editor: &mut Editor<'_>) -> Option<String> {
    let directory = editor.some_mapped(DIRECTORY)?;
    let target = some_block(editor)? as u32;
    let size = editor.block_size as u32;
    let how = editor.below(5);
    editor.with_inode(directory, |record| {
        let old = u32_at(record, 4);
        match how {
            0 => put32(record, 4, old.wrapping_sub(size)),
            1 => put32(record, 4, old.wrapping_add(size)),
            2 => put32(record, 4, old + 1),
            3 if u32_at(record, 32) & 0x8_0000 == 0 => put32(record, 40, target),
            _ => put32(record, 60, target),
        }
    })?;
    Some(format!("directory {directory} reshaped, {how}, {target}"))
}

fn show(entry: &Entry) -> String {
    format!("{} in directory {}", String::from_utf8_lossy(&entry.name), entry.dir)
}
