// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damage to UFS images: every field of every structure in XFS's eight ways, and what misdirected writes do.

use fsmend_base::SeededRandom;
use fsmend_ufs_format::geometry::DIRECT;
use fsmend_ufs_format::group::HEADER_SIZE;
use fsmend_ufs_format::superblock::{Hashes, SUPERBLOCK_MAX, Superblock};
use fsmend_ufs_format::{Version, directory};

use super::Image;
use crate::damage::Mutation;

/// What has a check hash over the place of a damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seal {
    /// Nothing.
    None,
    /// The superblock.
    Superblock,
    /// A cylinder group.
    Group(u32),
    /// An inode.
    Inode(u32),
}

/// A field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spot {
    /// What it is.
    pub name: String,
    /// Byte offset in the image.
    pub at: usize,
    /// Its bytes.
    pub size: usize,
    /// Whose check hash covers it.
    pub seal: Seal,
}

/// Fields of the superblock: offset, size.
const SUPERBLOCK: &[(usize, usize)] = &[
    (8, 4),
    (12, 4),
    (16, 4),
    (20, 4),
    (24, 4),
    (28, 4),
    (44, 4),
    (48, 4),
    (52, 4),
    (56, 4),
    (60, 4),
    (72, 4),
    (76, 4),
    (80, 4),
    (84, 4),
    (88, 4),
    (92, 4),
    (96, 4),
    (100, 4),
    (104, 4),
    (116, 4),
    (120, 4),
    (124, 4),
    (128, 4),
    (152, 4),
    (156, 4),
    (160, 4),
    (180, 4),
    (184, 4),
    (188, 4),
    (192, 4),
    (209, 1),
    (211, 1),
    (724, 4),
    (860, 4),
    (880, 8),
    (992, 8),
    (1000, 8),
    (1008, 8),
    (1016, 8),
    (1024, 8),
    (1032, 8),
    (1080, 8),
    (1088, 8),
    (1096, 8),
    (1104, 8),
    (1112, 4),
    (1116, 4),
    (1304, 4),
    (1308, 4),
    (1312, 4),
    (1316, 4),
    (1320, 4),
    (1328, 8),
    (1336, 8),
    (1344, 8),
    (1372, 4),
];
/// Fields of a cylinder group.
const GROUP: &[(usize, usize)] = &[
    (4, 4),
    (12, 4),
    (16, 2),
    (18, 2),
    (20, 4),
    (24, 4),
    (28, 4),
    (32, 4),
    (36, 4),
    (40, 4),
    (44, 4),
    (48, 4),
    (56, 4),
    (60, 4),
    (84, 4),
    (92, 4),
    (96, 4),
    (100, 4),
    (104, 4),
    (108, 4),
    (112, 4),
    (116, 4),
    (120, 4),
    (132, 4),
];
/// Fields of inodes.
const INODE1: &[(usize, usize)] = &[
    (0, 2),
    (2, 2),
    (4, 4),
    (8, 8),
    (40, 4),
    (44, 4),
    (80, 4),
    (88, 4),
    (92, 4),
    (96, 4),
    (100, 4),
    (104, 4),
    (108, 4),
    (112, 4),
];
const INODE2: &[(usize, usize)] = &[
    (0, 2),
    (2, 2),
    (4, 4),
    (16, 8),
    (24, 8),
    (32, 8),
    (80, 4),
    (88, 4),
    (92, 4),
    (96, 8),
    (104, 8),
    (112, 8),
    (120, 8),
    (192, 8),
    (208, 8),
    (216, 8),
    (224, 8),
    (240, 4),
    (244, 4),
];
/// Fields of a directory entry; its name in the first byte.
const ENTRY: &[(usize, usize)] = &[(0, 4), (4, 2), (6, 1), (7, 1), (8, 1)];
/// Fields of an extended attribute.
const ATTRIBUTE: &[(usize, usize)] = &[(0, 4), (4, 1), (5, 1), (6, 1), (7, 1)];

/// The fields of an image that [`super::Maker::filled`] made.
pub fn spots(image: &Image) -> Vec<Spot> {
    let mut spots = Vec::new();
    let mut add = |name: &str, at: usize, fields: &[(usize, usize)], seal| {
        spots.extend(fields.iter().map(|(offset, size)| Spot {
            name: format!("{name} + {offset}"),
            at: at + offset,
            size: *size,
            seal,
        }));
    };
    let geometry = &image.geometry;
    add("superblock", geometry.superblock_place as usize, SUPERBLOCK, Seal::Superblock);
    add("copy of group 1", geometry.superblock_copy(1) as usize, SUPERBLOCK, Seal::None);
    for group in [0, 1] {
        let at = geometry.group_place(group) as usize;
        add(&format!("group {group}"), at, GROUP, Seal::Group(group));
        let layout = geometry.layout;
        for (map, (start, length)) in
            [("inode", layout.inode_map), ("fragment", layout.fragment_map), ("cluster", layout.cluster_map)]
        {
            let bytes = [(0, 1), (length as usize / 4, 1), (length as usize - 1, 1)];
            add(&format!("{map} map of group {group}"), at + start as usize, &bytes, Seal::Group(group));
        }
        let sums = at + layout.cluster_sums as usize;
        add(&format!("sums of group {group}"), sums, &[(4, 4), (64, 4)], Seal::Group(group));
    }
    let summary = geometry.place(geometry.summary.0) as usize;
    add("summary area", summary, &[(0, 4), (4, 4), (8, 4), (28, 4)], Seal::None);
    let fields = if geometry.version == Version::Ufs1 { INODE1 } else { INODE2 };
    for path in [
        "/",
        "/f0",
        "/f3",
        "/f8",
        "/d",
        "/d/single",
        "/d/double",
        "/d/short",
        "/d/long",
        "/d/pipe",
        "/many",
        "/f1",
    ] {
        let inode = image.inode(path);
        add(&format!("inode of {path}"), image.record_at(inode), fields, Seal::Inode(inode));
    }
    for (directory, name) in [
        ("/", "."),
        ("/", ".."),
        ("/", "f0"),
        ("/", "d"),
        ("/d", "."),
        ("/d", ".."),
        ("/d", "e"),
        ("/d", "pipe"),
        ("/d/e", "f"),
        ("/d/e/f", ".."),
    ] {
        add(&format!("entry {name} of {directory}"), image.entry_at(directory, name), ENTRY, Seal::None);
    }
    for (path, slot) in [("/d/single", DIRECT), ("/d/double", DIRECT), ("/d/double", DIRECT + 1)] {
        let block = image.record(image.inode(path)).pointer(slot as usize);
        let width = geometry.version.pointer_size();
        let fields = [(0, width), (width, width), (geometry.block_size as usize - width, width)];
        add(&format!("indirect block {slot} of {path}"), geometry.place(block) as usize, &fields, Seal::None);
    }
    if geometry.version == Version::Ufs2 {
        let block = image.record(image.inode("/f1")).attribute_block(0);
        add("attribute of /f1", geometry.place(block) as usize, ATTRIBUTE, Seal::None);
    }
    spots
}

impl Spot {
    /// Damages an image here; makes the check hash right if `is_sealed`.
    pub fn damage(&self, image: &mut Image, mutation: Mutation, seed: u64, is_sealed: bool) {
        mutation.apply(&mut image.bytes[self.at..self.at + self.size], &mut SeededRandom::new(seed));
        let is_hash = [1304, 132, 244].iter().any(|hash| self.name.ends_with(&format!("+ {hash}")));
        if !is_sealed || is_hash || image.geometry.version == Version::Ufs1 {
            return;
        }
        match self.seal {
            Seal::None => {}
            Seal::Superblock => {
                let at = image.geometry.superblock_place as usize;
                let Some(mut superblock) = Superblock::parse(&image.bytes[at..at + SUPERBLOCK_MAX]) else {
                    return;
                };
                superblock.seal();
                let covered = superblock.covered().to_vec();
                image.bytes[at..at + covered.len()].copy_from_slice(&covered);
            }
            Seal::Group(group) => image.amend_group(group, |_, _| {}),
            Seal::Inode(inode) if image.geometry.hashes.contains(Hashes::INODES) => {
                image.amend_inode(inode, |_| {})
            }
            Seal::Inode(_) => {}
        }
    }
}

/// A damage of several structures.
pub type Structured = fn(&mut Image, &mut SeededRandom);

/// Blocks that lie in wrong places, or nowhere any more.
pub const STRUCTURED: &[(&str, Structured)] = &[
    ("the header of a group is overwritten", |image, random| {
        let group = random.below(image.geometry.groups.into()) as u32;
        let at = image.geometry.group_place(group) as usize;
        image.bytes[at..at + HEADER_SIZE as usize].fill(0);
    }),
    ("a whole group block is another's", |image, random| {
        let groups = u64::from(image.geometry.groups);
        let (from, to) = (random.below(groups) as u32, random.below(groups) as u32);
        let (from, to) = (image.geometry.group_place(from) as usize, image.geometry.group_place(to) as usize);
        image.bytes.copy_within(from..from + image.geometry.group_bytes as usize, to);
    }),
    ("two inodes are swapped", |image, random| {
        let (one, two) = (any_inode(image, random), any_inode(image, random));
        let (a, b) = (image.record(one).into_bytes(), image.record(two).into_bytes());
        let (at_a, at_b) = (image.record_at(one), image.record_at(two));
        image.bytes[at_a..at_a + a.len()].copy_from_slice(&b);
        image.bytes[at_b..at_b + b.len()].copy_from_slice(&a);
    }),
    ("an inode is another's", |image, random| {
        let (one, two) = (any_inode(image, random), any_inode(image, random));
        let a = image.record(one).into_bytes();
        let at = image.record_at(two);
        image.bytes[at..at + a.len()].copy_from_slice(&a);
    }),
    ("a sector of inodes is lost", |image, random| {
        let inode = any_inode(image, random);
        let at = image.record_at(inode) / 512 * 512;
        image.bytes[at..at + 512].fill(0);
    }),
    ("a chunk of a directory is lost", |image, random| {
        let at = any_chunk(image, random);
        image.bytes[at..at + directory::CHUNK].fill(0);
    }),
    ("a chunk of a directory is another's", |image, random| {
        let (from, to) = (any_chunk(image, random), any_chunk(image, random));
        image.bytes.copy_within(from..from + directory::CHUNK, to);
    }),
    ("a chunk of a directory is garbage", |image, random| {
        let at = any_chunk(image, random);
        image.bytes[at..at + directory::CHUNK].fill_with(|| random.next_u64() as u8);
    }),
    ("an indirect block is garbage", |image, random| {
        let path = if random.below(2) == 0 { "/d/single" } else { "/d/double" };
        let block = image.record(image.inode(path)).pointer(12);
        let at = image.geometry.place(block) as usize;
        image.bytes[at..at + image.geometry.block_size as usize].fill_with(|| random.next_u64() as u8);
    }),
    ("two files share all their blocks", |image, random| {
        let other = image.record(image.inode("/f8"));
        let slot = random.below(10) as usize;
        let sectors = other.sectors();
        image.amend("/f7", |record| {
            record.set_pointer(slot.min(2), other.pointer(slot));
            record.set_sectors(sectors.min(record.sectors()));
        });
    }),
    ("the superblock and the summary area are zeroed", |image, _| {
        let at = image.geometry.superblock_place as usize;
        image.bytes[at..at + SUPERBLOCK_MAX].fill(0);
        let at = image.geometry.place(image.geometry.summary.0) as usize;
        image.bytes[at..at + 64].fill(0);
    }),
];

fn any_inode(image: &Image, random: &mut SeededRandom) -> u32 {
    let inodes: Vec<u32> = image.inodes.values().copied().collect();
    inodes[random.below(inodes.len() as u64) as usize]
}

fn any_chunk(image: &Image, random: &mut SeededRandom) -> usize {
    let directories = ["/", "/d", "/d/e", "/d/e/f", "/many"];
    let path = directories[random.below(directories.len() as u64) as usize];
    let size = image.record(image.inode(path)).size().min(image.geometry.block_size);
    image.block_at(path, 0) + random.below(size / directory::CHUNK as u64) as usize * directory::CHUNK
}
