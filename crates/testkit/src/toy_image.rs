// SPDX-License-Identifier: MIT OR Apache-2.0
//! Images of the toy format, for tests.

use crate::toy::format::{BLOCK, DIRECTORY, Entry, FILE, POINTERS, RECORD, ROOT, Record, Superblock, TABLE};

/// Makes a file system with `directories` directories in the root, each with `files` files of one block.
pub fn make(blocks: u32, inodes: u32, directories: u32, files: u32) -> Vec<u8> {
    let mut image = vec![0; blocks as usize * BLOCK];
    let empty = Superblock { blocks, inodes, free_blocks: 0, free_inodes: 0 };
    let mut next = (ROOT, empty.first_data() as u32);
    make_directory(&mut image, (ROOT, directories, files), &mut next);
    let (used_inodes, used_blocks) = (next.0 - 1, next.1);
    for block in 0..used_blocks {
        image[BLOCK + block as usize / 8] |= 1 << (block % 8);
    }
    for inode in 0..used_inodes {
        image[2 * BLOCK + inode as usize / 8] |= 1 << (inode % 8);
    }
    for (map, bits) in [(BLOCK, blocks), (2 * BLOCK, inodes)] {
        (bits as usize..BLOCK * 8).for_each(|bit| image[map + bit / 8] |= 1 << (bit % 8));
    }
    let full = Superblock { free_blocks: blocks - used_blocks, free_inodes: inodes - used_inodes, ..empty };
    image[..28].copy_from_slice(&full.store());
    image
}

fn make_directory(
    image: &mut [u8],
    (parent, directories, files): (u32, u32, u32),
    next: &mut (u32, u32),
) -> u32 {
    let inode = next.0;
    next.0 += 1;
    let mut entries = vec![Entry { inode: parent, kind: DIRECTORY, name: b"..".to_vec() }];
    for number in 0..directories {
        let child = make_directory(image, (inode, 0, files), next);
        entries.push(Entry { inode: child, kind: DIRECTORY, name: format!("d{number}").into_bytes() });
    }
    for number in 0..if directories == 0 { files } else { 0 } {
        let record = Record { kind: FILE, links: 1, size: BLOCK as u32, blocks: at_first(next.1, 1) };
        image[next.1 as usize * BLOCK..][..BLOCK].fill(number as u8 + 1);
        next.1 += 1;
        put_record(image, next.0, &record);
        entries.push(Entry { inode: next.0, kind: FILE, name: format!("f{number}").into_bytes() });
        next.0 += 1;
    }
    let bytes: Vec<u8> = entries.iter().flat_map(Entry::store).collect();
    let count = bytes.len().div_ceil(BLOCK);
    image[next.1 as usize * BLOCK..][..bytes.len()].copy_from_slice(&bytes);
    let (links, size) = (2 + directories as u16, (count * BLOCK) as u32);
    put_record(image, inode, &Record { kind: DIRECTORY, links, size, blocks: at_first(next.1, count) });
    next.1 += count as u32;
    inode
}

fn at_first(first: u32, count: usize) -> [u32; POINTERS] {
    std::array::from_fn(|at| if at < count { first + at as u32 } else { 0 })
}

fn put_record(image: &mut [u8], inode: u32, record: &Record) {
    image[TABLE as usize * BLOCK + (inode as usize - 1) * RECORD..][..RECORD]
        .copy_from_slice(&record.store());
}
