// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damage to any UFS image that is sound: what disks, controllers and people do to whole blocks, groups and maps. `damage` does it to the fields of the images that tests make.

use std::collections::BTreeSet;

use fsmend_base::SeededRandom;
use fsmend_ufs_format::geometry::DIRECT;
use fsmend_ufs_format::superblock::{Recovery, SUPERBLOCK_MAX};
use fsmend_ufs_format::{Version, directory};

use super::{Image, Kind, tree};

/// What a sound image has.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// Inodes in use.
    inodes: Vec<u32>,
    /// Those of directories.
    directories: Vec<u32>,
    /// Directory blocks: first fragment, bytes that belong to the directory.
    entries: Vec<(u64, u64)>,
    /// Indirect blocks.
    indirect: Vec<u64>,
    /// Where pointers to indirect blocks stand: byte offset.
    roots: Vec<(u32, usize)>,
    /// Blocks with extended attributes.
    attributes: Vec<u64>,
    /// What the image was like earlier.
    earlier: Vec<u8>,
}

impl Inventory {
    /// That of an image, which was `earlier` before.
    pub fn of(image: &Image, earlier: &[u8]) -> Inventory {
        let nodes = tree(&image.bytes);
        let inodes: BTreeSet<u32> =
            nodes.values().filter(|node| node.kind != Kind::Nothing).map(|node| node.inode).collect();
        let mut made = Inventory {
            inodes: inodes.iter().copied().collect(),
            directories: Vec::new(),
            entries: Vec::new(),
            indirect: Vec::new(),
            roots: Vec::new(),
            attributes: Vec::new(),
            earlier: earlier.to_vec(),
        };
        let directories: BTreeSet<u32> =
            nodes.values().filter(|node| node.kind == Kind::Directory).map(|node| node.inode).collect();
        let links: BTreeSet<u32> = nodes
            .values()
            .filter(|node| matches!(node.kind, Kind::Link | Kind::Special))
            .map(|node| node.inode)
            .collect();
        for inode in inodes {
            let record = image.record(inode);
            if image.geometry.version == Version::Ufs2 {
                let blocks = [0, 1].map(|index| record.attribute_block(index));
                made.attributes.extend(blocks.into_iter().filter(|block| *block != 0));
            }
            if links.contains(&inode) {
                continue;
            }
            for level in 0..3 {
                let slot = DIRECT as usize + level;
                if record.pointer(slot) != 0 {
                    made.roots.push((inode, slot));
                    made.gather(image, record.pointer(slot), level);
                }
            }
            if directories.contains(&inode) {
                let (size, block) = (record.size(), image.geometry.block_size);
                let blocks = size.div_ceil(block).min(DIRECT);
                made.entries.extend(
                    (0..blocks)
                        .map(|index| (record.pointer(index as usize), (size - index * block).min(block))),
                );
            }
        }
        made.directories = directories.into_iter().collect();
        made
    }

    fn gather(&mut self, image: &Image, fragment: u64, level: usize) {
        self.indirect.push(fragment);
        if level == 0 {
            return;
        }
        for index in 0..image.geometry.pointers as usize {
            let below = pointer(image, fragment, index);
            if below != 0 {
                self.gather(image, below, level - 1);
            }
        }
    }

    fn inode(&self, random: &mut SeededRandom) -> u32 {
        any(&self.inodes, random)
    }

    /// A place in one of the structures.
    fn place(&self, image: &Image, random: &mut SeededRandom) -> usize {
        let geometry = &image.geometry;
        match random.below(6) {
            0 => {
                geometry.group_place(random.below(geometry.groups.into()) as u32) as usize
                    + random.below(geometry.group_bytes) as usize
            }
            1 | 2 => {
                image.record_at(self.inode(random))
                    + random.below(geometry.version.inode_size() as u64) as usize
            }
            3 => {
                let (fragment, len) = any(&self.entries, random);
                geometry.place(fragment) as usize + random.below(len) as usize
            }
            4 if !self.indirect.is_empty() => {
                geometry.place(any(&self.indirect, random)) as usize
                    + random.below(geometry.block_size) as usize
            }
            _ => geometry.superblock_place as usize + random.below(1376) as usize,
        }
    }

    /// The start of a block with one of the structures, or of the part of it that lies in the image.
    fn block(&self, image: &Image, random: &mut SeededRandom) -> usize {
        let (fragment, block) = (image.geometry.fragment_size as usize, image.geometry.block_size as usize);
        (self.place(image, random) / fragment * fragment).min(image.bytes.len() - block)
    }
}

fn any<T: Copy>(of: &[T], random: &mut SeededRandom) -> T {
    of[random.below(of.len() as u64) as usize]
}

fn pointer_at(image: &Image, fragment: u64, index: usize) -> usize {
    image.geometry.place(fragment) as usize + index * image.geometry.version.pointer_size()
}

/// A pointer in an indirect block.
pub fn pointer(image: &Image, fragment: u64, index: usize) -> u64 {
    let (at, order) = (pointer_at(image, fragment, index), image.geometry.order);
    match image.geometry.version {
        Version::Ufs1 => order.u32(&image.bytes, at).into(),
        Version::Ufs2 => order.u64(&image.bytes, at),
    }
}

/// Changes a pointer in an indirect block.
pub fn put_pointer(image: &mut Image, fragment: u64, index: usize, to: u64) {
    let (at, order) = (pointer_at(image, fragment, index), image.geometry.order);
    match image.geometry.version {
        Version::Ufs1 => order.put_u32(&mut image.bytes, at, to as u32),
        Version::Ufs2 => order.put_u64(&mut image.bytes, at, to),
    }
}

fn swap(image: &mut Image, (one, other): (usize, usize), len: usize) {
    let bytes = image.bytes[one..one + len].to_vec();
    image.bytes.copy_within(other..other + len, one);
    image.bytes[other..other + len].copy_from_slice(&bytes);
}

/// The block of inodes that has this one.
fn inode_block(image: &Image, inode: u32) -> (usize, usize) {
    let block = image.geometry.block_size as usize;
    let (first, _) = image.geometry.reserved(0);
    let _ = first;
    let per_block = image.geometry.block_inodes;
    (image.record_at(inode / per_block * per_block), block)
}

/// Overwrites in one of the usual ways.
fn overwrite(bytes: &mut [u8], random: &mut SeededRandom) {
    match random.below(4) {
        0 => bytes.fill(0),
        1 => bytes.fill(0xFF),
        2 => bytes.fill_with(|| random.next_u64() as u8),
        _ => {
            let text = b"The quick brown fox jumps over the lazy dog.\n";
            bytes.iter_mut().zip(text.iter().cycle()).for_each(|(byte, text)| *byte = *text);
        }
    }
}

/// A damage.
pub type Disaster = fn(&mut Image, &Inventory, &mut SeededRandom);

/// All of them, by name.
pub const DISASTERS: &[(&str, Disaster)] = &[
    ("a block of inodes is overwritten", |image, has, random| {
        let (at, len) = inode_block(image, has.inode(random));
        overwrite(&mut image.bytes[at..at + len], random);
    }),
    ("a block of inodes is lost, that of a directory", |image, has, random| {
        let (at, len) = inode_block(image, any(&has.directories, random));
        image.bytes[at..at + len].fill(0);
    }),
    ("two blocks of inodes are swapped", |image, has, random| {
        let ((one, len), (other, _)) =
            (inode_block(image, has.inode(random)), inode_block(image, has.inode(random)));
        swap(image, (one, other), len);
    }),
    ("a block of inodes is another's", |image, has, random| {
        let ((one, len), (other, _)) =
            (inode_block(image, has.inode(random)), inode_block(image, has.inode(random)));
        image.bytes.copy_within(one..one + len, other);
    }),
    ("a block of inodes is an old one", |image, has, random| {
        let (at, len) = inode_block(image, has.inode(random));
        image.bytes[at..at + len].copy_from_slice(&has.earlier[at..at + len]);
    }),
    ("a block of a directory is an old one", |image, has, random| {
        let (fragment, len) = any(&has.entries, random);
        let at = image.geometry.place(fragment) as usize;
        image.bytes[at..at + len as usize].copy_from_slice(&has.earlier[at..at + len as usize]);
    }),
    ("an indirect block is an old one", |image, has, random| {
        let (at, len) =
            (image.geometry.place(any(&has.indirect, random)) as usize, image.geometry.block_size as usize);
        image.bytes[at..at + len].copy_from_slice(&has.earlier[at..at + len]);
    }),
    ("a group is an old one", |image, has, random| {
        let group = random.below(image.geometry.groups.into()) as u32;
        let (at, len) = (image.geometry.group_place(group) as usize, image.geometry.group_bytes as usize);
        image.bytes[at..at + len].copy_from_slice(&has.earlier[at..at + len]);
    }),
    ("everything but the inodes is old", |image, has, _| {
        for group in 0..image.geometry.groups {
            let (at, len) = (image.geometry.group_place(group) as usize, image.geometry.group_bytes as usize);
            image.bytes[at..at + len].copy_from_slice(&has.earlier[at..at + len]);
        }
        let (at, len) = (image.geometry.superblock_place as usize, SUPERBLOCK_MAX);
        image.bytes[at..at + len].copy_from_slice(&has.earlier[at..at + len]);
    }),
    ("the superblock is an old one", |image, has, _| {
        let at = image.geometry.superblock_place as usize;
        image.bytes[at..at + SUPERBLOCK_MAX].copy_from_slice(&has.earlier[at..at + SUPERBLOCK_MAX]);
    }),
    ("two directories have each other's block", |image, has, random| {
        let ((one, len), (other, more)) = (any(&has.entries, random), any(&has.entries, random));
        let places = (image.geometry.place(one) as usize, image.geometry.place(other) as usize);
        swap(image, places, len.min(more) as usize);
    }),
    ("a block of a directory is overwritten", |image, has, random| {
        let (fragment, len) = any(&has.entries, random);
        let at = image.geometry.place(fragment) as usize;
        overwrite(&mut image.bytes[at..at + len as usize], random);
    }),
    ("a chunk of a directory ends in garbage", |image, has, random| {
        let (fragment, len) = any(&has.entries, random);
        let chunk = random.below(len / directory::CHUNK as u64) as usize * directory::CHUNK;
        let at = image.geometry.place(fragment) as usize + chunk;
        let from = random.below(directory::CHUNK as u64) as usize;
        overwrite(&mut image.bytes[at + from..at + directory::CHUNK], random);
    }),
    ("the pointers of a directory are wrong", |image, has, random| {
        let inode = any(&has.directories, random);
        let size = image.geometry.size;
        let slot =
            random.below(DIRECT.min(image.record(inode).size().div_ceil(image.geometry.block_size))) as usize;
        let to = [0, size + 5, 3, random.below(size)][random.below(4) as usize];
        image.amend_inode(inode, |record| record.set_pointer(slot, to));
    }),
    ("the size of a directory is wrong", |image, has, random| {
        let inode = any(&has.directories, random);
        let size = image.record(inode).size();
        let wrong = [0, size / 2, size + 512, size * 3, 1 << 40, size - 100][random.below(6) as usize];
        image.amend_inode(inode, |record| record.set_size(wrong));
    }),
    ("the size of a file is wrong", |image, has, random| {
        let inode = has.inode(random);
        let size = image.record(inode).size();
        let wrong =
            [0, size / 2, size + 1, size + 9_000, size * 3, u64::MAX - 5, 1 << 33][random.below(7) as usize];
        image.amend_inode(inode, |record| record.set_size(wrong));
    }),
    ("the map of one inode is another's", |image, has, random| {
        let other = image.record(has.inode(random));
        image.amend_inode(has.inode(random), |record| {
            (0..15).for_each(|slot| record.set_pointer(slot, other.pointer(slot)));
            record.set_size(other.size());
            record.set_sectors(other.sectors());
        });
    }),
    ("pointers of an inode moved by one", |image, has, random| {
        image.amend_inode(has.inode(random), |record| {
            let all: Vec<u64> = (0..15).map(|slot| record.pointer(slot)).collect();
            (0..15).for_each(|slot| record.set_pointer(slot, all[(slot + 1) % 15]));
        });
    }),
    ("two files have each other's indirect blocks", |image, has, random| {
        let ((one, slot), (other, another)) = (any(&has.roots, random), any(&has.roots, random));
        let (a, b) = (image.record(one).pointer(slot), image.record(other).pointer(another));
        image.amend_inode(one, |record| record.set_pointer(slot, b));
        image.amend_inode(other, |record| record.set_pointer(another, a));
    }),
    ("contents of two indirect blocks are swapped", |image, has, random| {
        let (one, other) = (any(&has.indirect, random), any(&has.indirect, random));
        let (one, other) = (image.geometry.place(one) as usize, image.geometry.place(other) as usize);
        swap(image, (one, other), image.geometry.block_size as usize);
    }),
    ("an indirect block is overwritten", |image, has, random| {
        let at = image.geometry.place(any(&has.indirect, random)) as usize;
        overwrite(&mut image.bytes[at..at + image.geometry.block_size as usize], random);
    }),
    ("an indirect block leads to itself", |image, has, random| {
        let fragment = any(&has.indirect, random);
        put_pointer(image, fragment, random.below(8) as usize, fragment);
    }),
    ("pointers of an indirect block moved", |image, has, random| {
        let at = image.geometry.place(any(&has.indirect, random)) as usize;
        let (len, by) = (image.geometry.block_size as usize, 1 + random.below(9) as usize);
        image.bytes[at..at + len].rotate_right(by);
    }),
    ("an indirect block and a block of data are swapped", |image, has, random| {
        let fragment = any(&has.indirect, random);
        let below =
            (0..8).map(|index| pointer(image, fragment, index)).find(|to| *to != 0).unwrap_or(fragment);
        let places = (image.geometry.place(fragment) as usize, image.geometry.place(below) as usize);
        swap(image, places, image.geometry.block_size as usize);
    }),
    ("the maps of a group moved", |image, _, random| {
        let group = random.below(image.geometry.groups.into()) as u32;
        let (by, which) = (1 + random.below(40) as usize, random.below(3));
        image.amend_group(group, |group, geometry| {
            let map = match which {
                0 => group.fragment_map_mut(&geometry.layout),
                1 => group.inode_map_mut(&geometry.layout),
                _ => group.cluster_map_mut(&geometry.layout),
            };
            // There may be no map of whole blocks.
            let by = by.min(map.len());
            map.rotate_right(by);
        });
    }),
    ("the maps of a group are inverted", |image, _, random| {
        let group = random.below(image.geometry.groups.into()) as u32;
        image.amend_group(group, |group, geometry| {
            group.fragment_map_mut(&geometry.layout).iter_mut().for_each(|byte| *byte = !*byte);
            group.inode_map_mut(&geometry.layout).iter_mut().for_each(|byte| *byte = !*byte);
        });
    }),
    ("the counts of a group are wrong", |image, _, random| {
        let group = random.below(image.geometry.groups.into()) as u32;
        image.amend_group(group, |group, _| {
            let mut counts = group.counts();
            counts.free_blocks -= 3;
            counts.directories = -1;
            counts.free_inodes += random.below(100) as i32;
            counts.free_fragments = i32::MAX;
            group.set_counts(counts);
        });
    }),
    ("fewer inodes were written than are in use", |image, _, random| {
        let group = random.below(image.geometry.groups.into()) as u32;
        let wrong = random.below(u64::from(image.geometry.group_inodes) * 2) as u32;
        image.amend_group(group, |group, _| group.set_initediblk(wrong));
    }),
    ("the start of a group is overwritten", |image, _, random| {
        let group = random.below(image.geometry.groups.into()) as u32;
        let (start, end) = image.geometry.reserved(group);
        let start =
            if group == 0 { image.geometry.superblock_place / image.geometry.fragment_size } else { start };
        let (from, to) = (image.geometry.place(start) as usize, image.geometry.place(end) as usize);
        let len = (to - from).min(1 << 16);
        overwrite(&mut image.bytes[from..from + len], random);
    }),
    ("the inodes of a group are lost, and its maps", |image, _, random| {
        let group = random.below(image.geometry.groups.into()) as u32;
        let (from, end) = (image.geometry.group_place(group) as usize, image.geometry.reserved(group).1);
        let to = image.geometry.place(end) as usize;
        image.bytes[from..to].fill(0);
    }),
    ("all groups are lost", |image, _, random| {
        for group in 0..image.geometry.groups {
            let (at, len) = (image.geometry.group_place(group) as usize, image.geometry.group_bytes as usize);
            overwrite(&mut image.bytes[at..at + len], random);
        }
    }),
    ("the superblock is lost, and all copies but one", |image, _, random| {
        let kept = 1 + random.below(u64::from(image.geometry.groups) - 1) as u32;
        let at = image.geometry.superblock_place as usize;
        overwrite(&mut image.bytes[at..at + SUPERBLOCK_MAX], random);
        for group in (0..image.geometry.groups).filter(|group| *group != kept) {
            let at = image.geometry.superblock_copy(group) as usize;
            image.bytes[at..at + SUPERBLOCK_MAX].fill(0);
        }
    }),
    ("the superblock and all copies are lost", |image, _, random| {
        let copies = (0..image.geometry.groups).map(|group| image.geometry.superblock_copy(group));
        for place in copies.chain([image.geometry.superblock_place]) {
            overwrite(&mut image.bytes[place as usize..][..SUPERBLOCK_MAX], random);
        }
    }),
    ("the superblock and the recovery record are lost", |image, _, random| {
        let at = image.geometry.superblock_place as usize;
        overwrite(&mut image.bytes[at..at + SUPERBLOCK_MAX], random);
        let at = Recovery::PLACE as usize;
        if image.geometry.version == Version::Ufs2 {
            overwrite(&mut image.bytes[at..at + 20], random);
        }
    }),
    ("the copies of the superblock are garbage", |image, _, random| {
        for group in 0..image.geometry.groups {
            let at = image.geometry.superblock_copy(group) as usize;
            overwrite(&mut image.bytes[at..at + SUPERBLOCK_MAX], random);
        }
    }),
    ("the summary area is overwritten", |image, _, random| {
        let (first, count) = image.geometry.summary_run();
        overwrite(image.fragments(first, count), random);
    }),
    ("extended attributes are overwritten", |image, has, random| {
        if has.attributes.is_empty() {
            return;
        }
        let block = any(&has.attributes, random);
        let len = 8 + random.below(200) as usize;
        overwrite(&mut image.fragments(block, 1)[..len], random);
    }),
    ("extended attributes lie in another file", |image, has, random| {
        if image.geometry.version == Version::Ufs1 {
            return;
        }
        let to = image.record(has.inode(random)).pointer(0);
        image.amend_inode(has.inode(random), |record| {
            record.set_attributes_size(64);
            record.set_attribute_block(0, to);
        });
    }),
    ("two names lead to each other's inode", |image, has, random| {
        let ((one, len), (other, more)) = (any(&has.entries, random), any(&has.entries, random));
        let order = image.geometry.order;
        let mut last = |fragment: u64, len: u64| {
            let at = image.geometry.place(fragment) as usize;
            let chunk = random.below(len / directory::CHUNK as u64) as usize * directory::CHUNK;
            let start = at + chunk;
            let bytes = &image.bytes[start..start + directory::CHUNK];
            let entries = directory::Entries::new(bytes, order).flatten();
            start + entries.filter(|entry| entry.inode != 0).last().map_or(0, |entry| entry.offset)
        };
        let (one, other) = (last(one, len), last(other, more));
        swap(image, (one, other), 4);
    }),
    ("a directory leads to the one above it", |image, has, random| {
        let (one, other) = (any(&has.directories, random), any(&has.directories, random));
        let block = image.record(one).pointer(0);
        let at = image.geometry.place(block) as usize;
        let order = image.geometry.order;
        let bytes = &image.bytes[at..at + directory::CHUNK];
        let third = directory::Entries::new(bytes, order).flatten().nth(2).map_or(12, |entry| entry.offset);
        order.put_u32(&mut image.bytes, at + third, other);
    }),
    ("two inodes are directories in the same block", |image, has, random| {
        let block = image.record(any(&has.directories, random)).pointer(0);
        image.amend_inode(any(&has.directories, random), |record| record.set_pointer(0, block));
    }),
    ("bits of metadata flip", |image, has, random| {
        for _ in 0..1 + random.below(12) {
            let at = has.place(image, random);
            image.bytes[at] ^= 1 << random.below(8);
        }
    }),
    ("bytes of metadata change", |image, has, random| {
        for _ in 0..1 + random.below(5) {
            let at = has.place(image, random);
            let len = (1 + random.below(40) as usize).min(image.bytes.len() - at);
            overwrite(&mut image.bytes[at..at + len], random);
        }
    }),
    ("many bytes of metadata change", |image, has, random| {
        for _ in 0..1 << (4 + random.below(8)) {
            let at = has.place(image, random);
            image.bytes[at] = random.next_u64() as u8;
        }
    }),
    ("two blocks of metadata are swapped, of any kinds", |image, has, random| {
        let (one, other) = (has.block(image, random), has.block(image, random));
        // They may overlap if one is no whole block.
        if one.abs_diff(other) >= image.geometry.block_size as usize {
            swap(image, (one, other), image.geometry.block_size as usize);
        }
    }),
    ("a block of metadata is another, of any kind", |image, has, random| {
        let (one, other) = (has.block(image, random), has.block(image, random));
        image.bytes.copy_within(one..one + image.geometry.block_size as usize, other);
    }),
    ("sectors of metadata are lost or old", |image, has, random| {
        for _ in 0..1 + random.below(8) {
            let at = has.place(image, random) & !511;
            match random.below(3) {
                0 => image.bytes[at..at + 512].copy_from_slice(&has.earlier[at..at + 512]),
                _ => overwrite(&mut image.bytes[at..at + 512], random),
            }
        }
    }),
    ("a piece of 64 KiB is overwritten", |image, has, random| {
        let at = has.place(image, random) >> 16 << 16;
        let len = (1 << 16).min(image.bytes.len() - at);
        overwrite(&mut image.bytes[at..at + len], random);
    }),
    ("the file system is cut off in the last group", |image, _, random| {
        let geometry = &image.geometry;
        let start = geometry.place(geometry.group_start(geometry.groups - 1));
        let from = start + random.below(geometry.place(geometry.size) - start);
        image.bytes[from as usize..].fill(0);
    }),
];
