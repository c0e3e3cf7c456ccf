// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes UFS images: any version, byte order and shape, filled with what tests ask for. Inodes that were never written hold garbage, as on a real disk.

use std::collections::BTreeMap;

use fsmend_base::SeededRandom;
use fsmend_ufs_format::directory::{self, kind};
use fsmend_ufs_format::geometry::{DIRECT, ROOT};
use fsmend_ufs_format::group::{CylinderGroup, FragmentSums, set_bit};
use fsmend_ufs_format::inode::{Inode, InodeFlags, Stamp, mode};
use fsmend_ufs_format::summary::{COUNTS_SIZE, Counts};
use fsmend_ufs_format::superblock::{Hashes, Recovery, Superblock};
use fsmend_ufs_format::{Geometry, SECTOR, Version};

use super::{Image, Shape};

/// Time of everything, seconds since 1970.
pub const TIME: i64 = 1_600_000_000;

/// What an inode contains while the image is being made.
struct Node {
    mode: u16,
    links: u16,
    flags: InodeFlags,
    depth: u32,
    parent: u32,
    size: u64,
    is_hole: fn(u64) -> bool,
    /// A directory's entries, a link's target.
    entries: Vec<(Vec<u8>, u32, u8)>,
    target: Vec<u8>,
    attributes: Vec<u8>,
}

/// Makes an image.
pub struct Maker {
    shape: Shape,
    superblock: Superblock,
    geometry: Geometry,
    bytes: Vec<u8>,
    used: Vec<bool>,
    nodes: BTreeMap<u32, Node>,
    paths: BTreeMap<String, u32>,
    next: Vec<u32>,
    random: SeededRandom,
}

impl Maker {
    /// One that has a root directory and nothing else.
    pub fn new(shape: Shape) -> Maker {
        let superblock = shape.superblock();
        let (geometry, hints) = Geometry::of(&superblock).expect("the rules hold");
        assert_eq!(hints, []);
        let mut used = vec![false; geometry.size as usize];
        for group in 0..geometry.groups {
            let (start, end) = geometry.reserved(group);
            used[start as usize..end as usize].fill(true);
        }
        let (start, length) = geometry.summary_run();
        used[start as usize..(start + length) as usize].fill(true);
        let bytes = vec![0; geometry.place(geometry.size) as usize];
        let mut next = vec![0; geometry.groups as usize];
        next[0] = ROOT + 1;
        let random = SeededRandom::new(17);
        let (nodes, paths) = (BTreeMap::new(), BTreeMap::new());
        let mut made = Maker { shape, superblock, geometry, bytes, used, nodes, paths, next, random };
        made.add("/", ROOT, mode::DIRECTORY | 0o755, 2);
        made
    }

    /// One with a bit of everything: files of sizes at the edges of fragments and blocks, with single and double indirect blocks and holes, nested directories, one of
    /// many names, hard links, symbolic links of both kinds, devices, extended attributes.
    pub fn filled(shape: Shape) -> Maker {
        let mut made = Maker::new(shape);
        let (block, fragment) = shape.sizes;
        for (index, size) in
            [0, 1, fragment, fragment + 1, block - 1, block, block + 1, 3 * block, 11 * block + fragment]
                .into_iter()
                .enumerate()
        {
            made.file(&format!("/f{index}"), size);
        }
        made.directory("/d");
        made.directory("/d/e");
        made.directory("/d/e/f");
        made.file("/d/e/f/deep", 700);
        made.file("/d/single", 14 * block + 5);
        let pointers = made.geometry.pointers;
        made.sparse("/d/double", (DIRECT + pointers + 3) * block, |index| index % 97 != 5 && index > 3);
        made.link("/f3", "/d/hard");
        made.symbolic("/d/short", b"../f1");
        made.symbolic("/d/long", "long/".repeat(40).as_bytes());
        made.special("/d/pipe", mode::PIPE | 0o600);
        made.directory("/many");
        for index in 0..60 {
            made.file(
                &format!("/many/a name of some length {index:03}"),
                if index % 7 == 0 { 600 } else { 0 },
            );
        }
        if shape.version == Version::Ufs2 {
            made.attribute("/f1", b"colour", b"green");
            made.attribute("/d/hard", b"origin", &[b'x'; 300]);
        }
        made
    }

    fn add(&mut self, path: &str, inode: u32, mode: u16, links: u16) {
        let node = Node {
            mode,
            links,
            flags: InodeFlags::empty(),
            depth: 0,
            parent: ROOT,
            size: 0,
            is_hole: |_| false,
            entries: Vec::new(),
            target: Vec::new(),
            attributes: Vec::new(),
        };
        self.nodes.insert(inode, node);
        self.paths.insert(path.to_owned(), inode);
    }

    fn node(&mut self, path: &str) -> &mut Node {
        self.nodes.get_mut(&self.paths[path]).expect("every path has a node")
    }

    /// Adds an inode with a name. Directories go from group to group, everything else beside its directory.
    fn create(&mut self, path: &str, mode: u16) -> u32 {
        let parent = self.parent_of(path);
        let is_directory = mode & mode::TYPE == mode::DIRECTORY;
        let directories =
            self.nodes.values().filter(|node| node.mode & mode::TYPE == mode::DIRECTORY).count();
        let group = match is_directory {
            true => directories as u32 % self.geometry.groups,
            false => parent / self.geometry.group_inodes,
        };
        let index = &mut self.next[group as usize];
        let inode = group * self.geometry.group_inodes + *index;
        *index += 1;
        assert!(*index <= self.geometry.group_inodes, "the group is full");
        self.add(path, inode, mode, if is_directory { 2 } else { 1 });
        let depth = self.nodes[&parent].depth + 1;
        if is_directory {
            let node = self.node(path);
            (node.depth, node.parent) = (depth, parent);
            self.nodes.get_mut(&parent).expect("it is there").links += 1;
        }
        self.name(path, inode, mode);
        inode
    }

    fn parent_of(&self, path: &str) -> u32 {
        let (parent, _) = path.rsplit_once('/').expect("paths begin with a slash");
        self.paths[if parent.is_empty() { "/" } else { parent }]
    }

    fn name(&mut self, path: &str, inode: u32, mode: u16) {
        let parent = self.parent_of(path);
        let (_, name) = path.rsplit_once('/').expect("paths begin with a slash");
        let entry = (name.as_bytes().to_vec(), inode, directory::kind_of_mode(mode));
        self.nodes.get_mut(&parent).expect("it is there").entries.push(entry);
    }

    /// Adds a directory.
    pub fn directory(&mut self, path: &str) {
        self.create(path, mode::DIRECTORY | 0o755);
    }

    /// Adds a file of `size` bytes.
    pub fn file(&mut self, path: &str, size: u64) {
        self.sparse(path, size, |_| false);
    }

    /// Adds a file of `size` bytes with holes where `is_hole` says, by block. The last block of a file is never a hole.
    pub fn sparse(&mut self, path: &str, size: u64, is_hole: fn(u64) -> bool) {
        self.create(path, mode::REGULAR | 0o644);
        let node = self.node(path);
        (node.size, node.is_hole) = (size, is_hole);
    }

    /// Adds a symbolic link.
    pub fn symbolic(&mut self, path: &str, target: &[u8]) {
        self.create(path, mode::LINK | 0o777);
        let node = self.node(path);
        (node.size, node.target) = (target.len() as u64, target.to_vec());
    }

    /// Adds a pipe or a socket.
    pub fn special(&mut self, path: &str, mode: u16) {
        self.create(path, mode);
    }

    /// Adds a further name of a file.
    pub fn link(&mut self, path: &str, name: &str) {
        let inode = self.paths[path];
        let node = self.node(path);
        node.links += 1;
        let mode = node.mode;
        self.name(name, inode, mode);
        self.paths.insert(name.to_owned(), inode);
    }

    /// Adds an extended attribute of users.
    pub fn attribute(&mut self, path: &str, name: &[u8], value: &[u8]) {
        let order = self.shape.order;
        let area = &mut self.node(path).attributes;
        assert!(fsmend_ufs_format::attributes::append(
            area,
            order,
            fsmend_ufs_format::attributes::USER,
            name,
            value
        ));
    }

    /// Sets the flags of an inode.
    pub fn flags(&mut self, path: &str, flags: InodeFlags) {
        self.node(path).flags = flags;
    }

    /// Writes everything.
    pub fn finish(mut self) -> Image {
        let inodes: Vec<u32> = self.nodes.keys().copied().collect();
        for inode in inodes {
            let node = self.nodes.remove(&inode).expect("it was there");
            self.write(inode, &node);
            self.nodes.insert(inode, node);
        }
        let counts = (0..self.geometry.groups).map(|group| self.write_group(group)).collect::<Vec<_>>();
        self.write_superblocks(&counts);
        Image { bytes: self.bytes, geometry: self.geometry, inodes: self.paths }
    }

    fn write(&mut self, inode: u32, node: &Node) {
        let (order, version) = (self.shape.order, self.shape.version);
        let mut record = Inode::new(vec![0; version.inode_size()], order, version);
        record.set_mode(node.mode);
        record.set_links(node.links);
        record.set_flags(node.flags);
        record.set_generation(1 + self.random.below(1 << 30) as u32);
        for stamp in [Stamp::Access, Stamp::Modification, Stamp::Change] {
            record.set_time(stamp, (TIME, 0));
        }
        let contents = self.contents(inode, node);
        let size = contents.len() as u64;
        record.set_size(size);
        record.set_depth(node.depth);
        let is_short = node.mode & mode::TYPE == mode::LINK && size < version.short_link_max().into();
        let mut fragments = 0;
        if is_short {
            record.set_short_link(&contents);
        } else {
            fragments = self.map(&mut record, &contents, node.is_hole);
        }
        fragments += self.write_attributes(&mut record, &node.attributes);
        record.set_sectors(fragments * (self.geometry.fragment_size / SECTOR));
        if self.geometry.hashes.contains(Hashes::INODES) {
            record.seal();
        }
        let at = self.geometry.inode_place(inode).expect("it exists") as usize;
        let bytes = record.into_bytes();
        self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
    }

    /// What a file contains: a text that tells its inode, so that data in a wrong place is seen.
    fn contents(&self, inode: u32, node: &Node) -> Vec<u8> {
        match node.mode & mode::TYPE {
            mode::DIRECTORY => self.chunks(inode, node),
            mode::LINK => node.target.clone(),
            _ => text(inode).into_iter().cycle().take(node.size as usize).collect(),
        }
    }

    fn chunks(&self, inode: u32, node: &Node) -> Vec<u8> {
        let order = self.shape.order;
        let mut bytes = directory::first_chunk(order, inode, node.parent).to_vec();
        for (name, inode, kind) in &node.entries {
            let last = bytes.len() - directory::CHUNK;
            if !directory::add(&mut bytes[last..], order, (*inode, *kind), name) {
                let mut chunk = vec![0; directory::CHUNK];
                directory::clear_chunk(&mut chunk, order);
                assert!(directory::add(&mut chunk, order, (*inode, *kind), name), "a chunk holds any name");
                bytes.extend(chunk);
            }
        }
        bytes
    }

    fn write_attributes(&mut self, record: &mut Inode<Vec<u8>>, area: &[u8]) -> u64 {
        record.set_attributes_size(area.len() as u32);
        let mut fragments = 0;
        for (index, part) in area.chunks(self.geometry.block_size as usize).enumerate() {
            let count = (part.len() as u64).div_ceil(self.geometry.fragment_size);
            let first = self.put(part, count);
            record.set_attribute_block(index, first);
            fragments += count;
        }
        fragments
    }

    /// Puts the contents of a file where there is room, and the pointers to them; how many fragments it takes.
    fn map(&mut self, record: &mut Inode<Vec<u8>>, contents: &[u8], is_hole: fn(u64) -> bool) -> u64 {
        let (size, block) = (contents.len() as u64, self.geometry.block_size);
        let mut fragments = 0;
        let mut pointers = Vec::new();
        let last = self.geometry.block_count(size).saturating_sub(1);
        for (index, part) in contents.chunks(block as usize).enumerate() {
            let index = index as u64;
            if is_hole(index) && index != last {
                pointers.push(0);
                continue;
            }
            let count = self.geometry.block_fragments(size, index);
            pointers.push(self.put(part, count));
            fragments += count;
        }
        let mut rest = pointers.split_off(pointers.len().min(DIRECT as usize));
        pointers.iter().enumerate().for_each(|(slot, pointer)| record.set_pointer(slot, *pointer));
        for level in 1..=3 {
            let reach = self.geometry.pointers.pow(level) as usize;
            let below = rest.drain(..rest.len().min(reach)).collect::<Vec<_>>();
            let (root, more) = self.indirect(&below, level);
            record.set_pointer(DIRECT as usize + level as usize - 1, root);
            fragments += more;
        }
        fragments
    }

    /// Makes an indirect block that leads to these blocks; 0 where all of them are holes.
    fn indirect(&mut self, pointers: &[u64], level: u32) -> (u64, u64) {
        if pointers.iter().all(|pointer| *pointer == 0) {
            return (0, 0);
        }
        let mut fragments = 0;
        let mut own = pointers.to_vec();
        if level > 1 {
            let reach = self.geometry.pointers.pow(level - 1) as usize;
            own = Vec::new();
            for below in pointers.chunks(reach) {
                let (pointer, more) = self.indirect(below, level - 1);
                own.push(pointer);
                fragments += more;
            }
        }
        let mut bytes = vec![0; self.geometry.block_size as usize];
        let (order, size) = (self.shape.order, self.shape.version.pointer_size());
        for (place, pointer) in bytes.chunks_exact_mut(size).zip(own) {
            match self.shape.version {
                Version::Ufs1 => order.put_u32(place, 0, pointer as u32),
                Version::Ufs2 => order.put_u64(place, 0, pointer),
            }
        }
        let count = self.geometry.fragments;
        (self.put(&bytes, count), fragments + count)
    }

    /// Puts bytes into a run of `count` free fragments within a block.
    fn put(&mut self, part: &[u8], count: u64) -> u64 {
        let (fragments, size) = (self.geometry.fragments, self.geometry.size);
        let free = |first: &u64| {
            let run = *first as usize..(*first + count) as usize;
            first % fragments + count <= fragments
                && self.used.get(run).is_some_and(|run| !run.contains(&true))
        };
        let first = (0..size).find(free).expect("there is room");
        self.used[first as usize..(first + count) as usize].fill(true);
        let at = self.geometry.place(first) as usize;
        self.bytes[at..at + part.len()].copy_from_slice(part);
        first
    }

    fn write_group(&mut self, number: u32) -> Counts<i32> {
        let geometry = self.geometry.clone();
        let layout = geometry.layout;
        let mut group = CylinderGroup::empty(&geometry, number);
        let start = geometry.group_start(number);
        for index in 0..geometry.group_length(number) {
            set_bit(group.fragment_map_mut(&layout), index, !self.used[(start + index) as usize]);
        }
        let first = number * geometry.group_inodes;
        let reserved = if number == 0 { ROOT } else { 0 };
        let inodes = first..first + geometry.group_inodes;
        let in_use: Vec<u32> = self.nodes.range(inodes).map(|(inode, _)| inode - first).collect();
        for index in (0..reserved).chain(in_use.iter().copied()) {
            set_bit(group.inode_map_mut(&layout), index.into(), true);
        }
        let written = in_use.last().map_or(0, |last| last + 1).next_multiple_of(geometry.block_inodes);
        if geometry.version == Version::Ufs2 {
            group.set_initediblk(group.initediblk().max(written));
            self.spoil(first, group.initediblk());
            group.set_time(TIME);
        } else {
            group.set_old_time(TIME as u32);
        }
        let mut clusters = vec![0; group.cluster_map(&layout).len()];
        let fragments = group.fragment_map(&layout).to_vec();
        let extent = (geometry.group_length(number), geometry.fragments);
        let sums = FragmentSums::of(&fragments, extent, geometry.cluster_max, &mut clusters);
        group.cluster_map_mut(&layout).copy_from_slice(&clusters);
        (1..8).for_each(|length| group.set_fragment_sum(length, sums.runs[length] as i32));
        (1..)
            .zip(sums.clusters.iter().skip(1))
            .for_each(|(length, count)| group.set_cluster_sum(&layout, length, *count as i32));
        let is_directory = |index: &&u32| self.nodes[&(first + **index)].mode & mode::TYPE == mode::DIRECTORY;
        let counts = Counts {
            directories: in_use.iter().filter(is_directory).count() as i32,
            free_blocks: sums.free_blocks as i32,
            free_inodes: (geometry.group_inodes - reserved) as i32 - in_use.len() as i32,
            free_fragments: sums.free_fragments as i32,
        };
        group.set_counts(counts);
        group.seal(&geometry);
        let at = geometry.group_place(number) as usize;
        self.bytes[at..at + group.bytes().len()].copy_from_slice(group.bytes());
        counts
    }

    /// Fills inodes that were never written with garbage: they must not be read.
    fn spoil(&mut self, first: u32, initialised: u32) {
        for index in initialised..self.geometry.group_inodes {
            let at = self.geometry.inode_place(first + index).expect("it exists") as usize;
            let size = self.shape.version.inode_size();
            self.bytes[at..at + size].fill_with(|| self.random.next_u64() as u8);
        }
    }

    fn write_superblocks(&mut self, counts: &[Counts<i32>]) {
        let order = self.shape.order;
        let summary = self.geometry.place(self.geometry.summary.0) as usize;
        let mut totals = Counts::default();
        for (counts, place) in counts.iter().zip(self.bytes[summary..].chunks_exact_mut(COUNTS_SIZE)) {
            counts.store(place, order);
            totals.add(*counts);
        }
        self.superblock.set_totals(totals);
        if self.shape.version == Version::Ufs1 {
            self.superblock.set_old_totals(Counts {
                directories: totals.directories as i32,
                free_blocks: totals.free_blocks as i32,
                free_inodes: totals.free_inodes as i32,
                free_fragments: totals.free_fragments as i32,
            });
        }
        let copies = (0..self.geometry.groups).map(|group| self.geometry.superblock_copy(group));
        for place in copies.chain([self.geometry.superblock_place]) {
            let mut written = self.superblock.clone();
            written.set_sblockactualloc(place as i64);
            written.seal();
            let at = place as usize;
            self.bytes[at..at + written.covered().len()].copy_from_slice(written.covered());
        }
        if let Some(record) = Recovery::of(&self.superblock) {
            let at = Recovery::PLACE as usize;
            self.bytes[at..at + record.len()].copy_from_slice(&record);
        }
    }
}

/// The text that the file with this inode repeats: 16 bytes.
pub fn text(inode: u32) -> [u8; 16] {
    let mut text = [b'.'; 16];
    let line = format!("i{inode:07} ufsdata");
    text[..line.len().min(15)].copy_from_slice(&line.as_bytes()[..line.len().min(15)]);
    text[15] = b'\n';
    text
}

/// The type of entries for directories, which tests name often.
pub const DIRECTORY: u8 = kind::DIRECTORY;
