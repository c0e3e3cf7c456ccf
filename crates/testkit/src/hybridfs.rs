// SPDX-License-Identifier: MIT OR Apache-2.0
//! Images of hybridfs with one of everything, and damage to them that knows the format: what is changed is sealed again, up to the anchors, if it should be.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, WritableDevice, WritableMemory};
use fsmend_engine::Progress;
use fsmend_engine::checker::Checker;
use fsmend_hybridfs_driver::mkfs::{Options, mkfs};
use fsmend_hybridfs_driver::{Hybrid, MountOptions, PIN_ATTRIBUTE};
use fsmend_hybridfs_format::{
    Anchor, Entry, Format, HEADER_LEN, Header, INODE_LEN, Inode, Map, Place, ROOT, Record, Stream, Summary,
    Superblock, anchor_offset, parse_entries, parse_node, plain_crc, seal, store_entries, store_node,
};
use fsmend_vfs::{
    AttributeWrite, DeviceNumber, FileSystem, NewFile, NewKind, Permissions, RenameFlags, Time,
};

use crate::driver::NOW;
use crate::within::{Manner, options as options_of};

/// Identity of the images.
pub const UUID: [u8; 16] = *b"0123456789abcdef";
/// A file of many extents.
pub const PIECES: &str = "pieces";
/// A directory with a tree of blocks.
pub const LARGE: &str = "large";
/// A directory with a few blocks right below its inode.
pub const MIDDLE: &str = "middle";

/// An image.
#[derive(Clone)]
pub struct Image {
    /// All of it.
    pub bytes: Vec<u8>,
    /// Its superblock.
    pub sb: Superblock,
}

fn now() -> Time {
    Time::at(NOW)
}

/// Mounts for writing.
pub fn mounted(device: &Arc<WritableMemory>) -> Hybrid {
    let device = Arc::clone(device) as Arc<dyn WritableDevice>;
    Hybrid::mount(device, MountOptions::new(now())).unwrap_or_else(|error| unusable(&error))
}

#[allow(clippy::panic, reason = "a test without its image cannot go on")]
fn unusable<T>(why: &dyn std::fmt::Display) -> T {
    panic!("{why}")
}

fn done<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| unusable(&error))
}

/// What the checker finds on a device, or why it cannot check; `None` if there is nothing to say.
pub fn complaint(device: &Arc<dyn Device>) -> Option<String> {
    let options = options_of(Manner { threads: 2, ..Manner::default() });
    let checker = Checker(fsmend_hybridfs_check::Hybrid);
    let report = match checker.check(device, &options, &Progress::new(), &AtomicBool::new(false)) {
        Ok(report) => report,
        Err(refused) => return Some(refused.to_string()),
    };
    let told = report.findings.iter().map(|problem| format!("{}: {}", problem.row.code, problem.message()));
    let told = told.collect::<Vec<_>>().join("\n");
    if told.is_empty() { None } else { Some(told) }
}

/// Contents that tell their place.
pub fn contents(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u32 ^ (number as u32).wrapping_mul(2_654_435_761) >> 7) as u8 | 1).collect()
}

/// Small blocks, so that there is a lot of everything in little room.
pub fn options() -> Options {
    let small = Options::new(UUID, now());
    Options { fragment_size: 1024, block_size: 4096, log_bytes: Some(4 << 20), ..small }
}

/// Puts one of everything into a file system.
pub fn fill(fs: &mut Hybrid) {
    let (root, of) = (fs.root(), Permissions { mode: 0o755, uid: 0, gid: 0 });
    let inline = done(fs.mkdir(root, b"inline", of, now())).inode;
    let deep = done(fs.mkdir(inline, b"deep", of, now())).inode;
    for (folder, count) in [(MIDDLE, 90), (LARGE, 1_200)] {
        let folder = done(fs.mkdir(root, folder.as_bytes(), of, now())).inode;
        for number in 0..count {
            let name = format!("{number:0>40}");
            let file = done(fs.create(folder, name.as_bytes(), of, now())).inode;
            if number % 3 == 0 {
                let len = [0, 100, 700, 3_000, 4_096][number / 3 % 5];
                done(fs.write(file, 0, &contents(number, len), now()));
            }
        }
    }
    for (number, len) in [300, 2_000, 9_000, 70_000].into_iter().enumerate() {
        let file = done(fs.create(inline, format!("file-{len}").as_bytes(), of, now())).inode;
        done(fs.write(file, 0, &contents(number, len), now()));
    }
    // Every second block, in small steps: so many extents that they need a tree.
    let pieces = done(fs.create(root, PIECES.as_bytes(), of, now())).inode;
    for number in 0..200_u64 {
        done(fs.write(pieces, number * 8192, &contents(number as usize, 4096), now()));
    }
    let target = done(fs.lookup(inline, b"file-2000")).inode;
    done(fs.link(target, deep, b"second-name", now()));
    for (name, len) in [("short", 20), ("long", 900)] {
        done(fs.symlink(deep, name.as_bytes(), &contents(7, len), of, now()));
    }
    let device = NewFile { kind: NewKind::CharDevice(DeviceNumber { major: 1, minor: 3 }), of };
    done(fs.make(deep, b"device", &device, now()));
    for (name, len) in [("user.little", 30), ("user.much", 1_500)] {
        let file = done(fs.create(deep, name.as_bytes(), of, now())).inode;
        done(fs.setxattr(file, name.as_bytes(), &contents(3, len), AttributeWrite::Any, now()));
        done(fs.write(file, 0, &contents(1, 5), now()));
    }
}

/// A file system with one of everything, unmounted; its last segment has nothing but bitmaps.
pub fn image() -> Image {
    let device = Arc::new(WritableMemory::new("image", vec![0x5A; 12 << 20]));
    done(mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, &options()));
    let mut fs = mounted(&device);
    fill(&mut fs);
    done(fs.unmount(now()));
    let mut fs = mounted(&device);
    done(fs.unmount(now()));
    Image::of(device.bytes())
}

/// The same in use: some segments stand behind the last checkpoint.
pub fn dirty_image(segments: usize) -> Image {
    let device = Arc::new(WritableMemory::new("image", image().bytes));
    let mut fs = mounted(&device);
    let (root, of) = (fs.root(), Permissions { mode: 0o644, uid: 0, gid: 0 });
    for number in 0..segments {
        let file = done(fs.create(root, format!("later-{number}").as_bytes(), of, now())).inode;
        done(fs.write(file, 0, &contents(number, 900 + number * 3_000), now()));
        done(fs.sync(now()));
    }
    Image::of(device.bytes())
}

/// The same after more work, in segments behind the last checkpoint, and what it was like halfway: so that there are old versions of everything, and blocks can become them.
pub fn lived_in_image() -> (Image, Vec<u8>) {
    let device = Arc::new(WritableMemory::new("image", image().bytes));
    let mut fs = mounted(&device);
    let halfway = live_on(&mut fs, &device);
    (Image::of(device.bytes()), halfway)
}

/// Changes this and that, in eight segments; returns what the device was like halfway.
fn live_on(fs: &mut Hybrid, device: &WritableMemory) -> Vec<u8> {
    let (root, of) = (fs.root(), Permissions { mode: 0o755, uid: 0, gid: 0 });
    let folders = [MIDDLE, LARGE].map(|name| done(fs.lookup(root, name.as_bytes())).inode);
    let mut halfway = Vec::new();
    for round in 0..8_usize {
        let folder = folders[round % 2];
        let name = |number: usize| format!("{number:0>40}");
        done(fs.unlink(folder, name(round * 5).as_bytes(), now()));
        let (from, to) = (name(round * 5 + 1), format!("renamed-{round}"));
        done(fs.rename(folder, from.as_bytes(), folder, to.as_bytes(), RenameFlags::Replace, now()));
        let changed = done(fs.lookup(folder, name(round * 5 + 2).as_bytes())).inode;
        done(fs.write(changed, 0, &contents(round, 500 + round * 700), now()));
        let within = done(fs.mkdir(root, format!("new-{round}").as_bytes(), of, now())).inode;
        let file = done(fs.create(within, b"file", of, now())).inode;
        done(fs.write(file, 0, &contents(round + 50, 900 + round * 3_000), now()));
        done(fs.sync(now()));
        if round == 3 {
            halfway = device.bytes();
        }
    }
    halfway
}

/// Kinds of file systems that are rare: name, the image after some work, and what it was like halfway.
pub fn rare_images() -> Vec<(&'static str, Image, Vec<u8>)> {
    let small = options();
    let kinds: [(&'static str, Options, usize); 7] = [
        ("many groups", Options { group_bytes: 1 << 20, ..small.clone() }, 24 << 20),
        (
            "large blocks",
            Options { fragment_size: 4096, block_size: 65536, log_bytes: Some(16 << 20), ..small.clone() },
            64 << 20,
        ),
        ("small fragments", Options { fragment_size: 512, ..small.clone() }, 16 << 20),
        (
            "no fragments",
            Options { fragment_size: 4096, log_bytes: Some(10 << 20), ..small.clone() },
            24 << 20,
        ),
        (
            "a small log",
            Options { log_bytes: Some(3 << 20), segment_bytes: Some(1 << 15), ..small.clone() },
            12 << 20,
        ),
        (FULL, Options { group_bytes: 3 << 20, ..small.clone() }, 10 << 20),
        (PINNED, small, 14 << 20),
    ];
    let made = |(name, options, bytes): (&'static str, Options, usize)| {
        let device = Arc::new(WritableMemory::new("image", vec![0x5A; bytes]));
        done(mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, &options));
        let mut fs = mounted(&device);
        fill(&mut fs);
        done(fs.sync(now()));
        let root = fs.root();
        if name == PINNED {
            done(fs.setxattr(root, PIN_ATTRIBUTE, b"", AttributeWrite::Any, now()));
        }
        let halfway = live_on(&mut fs, &device);
        if name == FULL {
            fill_up(&mut fs);
        }
        (name, Image::of(device.bytes()), halfway)
    };
    kinds.into_iter().map(made).collect()
}

/// No room is left.
pub const FULL: &str = "full";
/// An earlier state is pinned.
pub const PINNED: &str = "pinned";

/// Takes all room, for data and in the log.
fn fill_up(fs: &mut Hybrid) {
    let (root, of) = (fs.root(), Permissions { mode: 0o644, uid: 0, gid: 0 });
    for (kind, len) in [("data", 300_000), ("log", 600)] {
        for number in 0..20_000 {
            let Ok(file) = fs.create(root, format!("{kind}-{number}").as_bytes(), of, now()) else { break };
            if fs.write(file.inode, 0, &contents(number, len), now()).is_err() {
                break;
            }
        }
    }
    // What had no room is in no segment.
    let _ = fs.sync(now());
}

impl Image {
    /// An image with these bytes.
    pub fn of(bytes: Vec<u8>) -> Image {
        let sb = done(Superblock::parse(&bytes[64 << 10..]));
        Image { bytes, sb }
    }

    /// Bytes of a place.
    pub fn at(&mut self, place: Place) -> &mut [u8] {
        let fragment = self.sb.fragment_size as usize;
        &mut self.bytes[place.address as usize * fragment..][..usize::from(place.len) * fragment]
    }

    /// Offset of an address.
    pub fn offset(&self, address: u64) -> usize {
        (address * u64::from(self.sb.fragment_size)) as usize
    }

    /// Offset of an anchor.
    pub fn anchor_offset(&self, slot: u64) -> usize {
        anchor_offset(&self.sb, slot) as usize
    }

    /// The anchors that can be read, the newest first.
    pub fn anchors(&self) -> Vec<Anchor> {
        let at = |slot| Anchor::parse(&self.bytes[self.anchor_offset(slot)..][..512], &self.sb.uuid).ok();
        let mut anchors: Vec<Anchor> = (0..4).filter_map(at).collect();
        anchors.sort_by_key(|anchor| std::cmp::Reverse(anchor.number));
        anchors
    }

    /// The summary at an address, its checksum, and its stream (which has to fit into it).
    pub fn summary_at(&self, address: u64) -> Option<(Summary, u32, Stream)> {
        let block = self.bytes.get(self.offset(address)..)?.get(..self.sb.block_size as usize)?;
        let (summary, crc, part) = Summary::parse(block, address, &self.sb.uuid).ok()?;
        let stream = Stream::parse(part, summary.counts).unwrap_or_default();
        Some((summary, crc, stream))
    }

    /// Addresses of the summaries from that of the best anchor to the last.
    pub fn chain(&self) -> Vec<u64> {
        let mut chain = vec![self.anchors()[0].summary];
        while let Some((summary, ..)) = self.summary_at(chain[chain.len() - 1]) {
            match self.summary_at(summary.next) {
                Some((next, ..)) if next.ssn == summary.ssn + 1 => chain.push(next.address),
                _ => break,
            }
        }
        chain
    }

    /// The last summary.
    pub fn last(&self) -> Summary {
        let chain = self.chain();
        match self.summary_at(chain[chain.len() - 1]) {
            Some((summary, ..)) => summary,
            None => unusable(&"there is no summary"),
        }
    }

    /// Changes the last summary, and the anchor that leads to it, if one does.
    pub fn change_last(&mut self, change: impl FnOnce(&mut Summary, &mut Stream)) {
        let address = self.last().address;
        let Some((mut summary, _, mut stream)) = self.summary_at(address) else { return };
        change(&mut summary, &mut stream);
        let bytes = stream.store();
        summary.stream_len = bytes.len() as u32;
        summary.counts = [stream.rows.len(), stream.data.len(), stream.freed.len()].map(|len| len as u32);
        let (block, crc) = summary.store(&bytes, self.sb.block_size, &self.sb.uuid);
        let at = self.offset(address);
        self.bytes[at..at + block.len()].copy_from_slice(&block);
        for anchor in self.anchors().into_iter().filter(|anchor| anchor.summary == address) {
            let at = self.anchor_offset(anchor.number % 4);
            let bytes = Anchor { summary_crc: crc, ..anchor }.store(&self.sb.uuid);
            self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Makes the rows of the last segment right.
    pub fn seal_rows(&mut self) {
        let Some((_, _, stream)) = self.summary_at(self.last().address) else { return };
        let crcs: Vec<u32> = stream
            .rows
            .iter()
            .map(|row| plain_crc(self.at(Place { address: row.address, len: row.len })))
            .collect();
        self.change_last(|_, stream| {
            stream.rows.iter_mut().zip(crcs).for_each(|(row, crc)| row.crc = crc);
        });
    }

    /// Changes an object with a header, and seals it again.
    pub fn change_object(&mut self, place: Place, change: impl FnOnce(&mut Header, &mut [u8])) {
        let uuid = self.sb.uuid;
        let object = self.at(place);
        let mut header = done(Header::parse(object, &uuid));
        change(&mut header, object);
        header.store(object, &uuid);
        seal(object, &uuid);
        self.seal_rows();
    }

    /// Changes the records of a node.
    pub fn change_node(&mut self, place: Place, change: impl FnOnce(&mut Vec<Record>)) {
        self.change_object(place, |header, object| {
            let mut records = done(parse_node(object, header.count));
            change(&mut records);
            header.count = records.len() as u32;
            object[HEADER_LEN..].fill(0);
            store_node(object, &records);
        });
    }

    /// Changes the entries of a directory block.
    pub fn change_entries(&mut self, place: Place, change: impl FnOnce(&mut Vec<Entry>)) {
        self.change_object(place, |header, object| {
            let mut entries = done(parse_entries(&object[HEADER_LEN..], Some(header.count)));
            change(&mut entries);
            header.count = entries.len() as u32;
            object[HEADER_LEN..].fill(0);
            let bytes = store_entries(&entries);
            object[HEADER_LEN..HEADER_LEN + bytes.len()].copy_from_slice(&bytes);
        });
    }

    /// The records of a map and of its nodes, with their levels.
    pub fn records(&self, map: &Map) -> Vec<(u8, Record)> {
        let mut all = Vec::new();
        let mut waiting: Vec<(u8, Record)> = map.records.iter().map(|record| (map.height, *record)).collect();
        while let Some((level, record)) = waiting.pop() {
            all.push((level, record));
            if level > 0 {
                let at = self.offset(record.place.address);
                let object = &self.bytes[at..at + self.sb.block_size as usize];
                let header = done(Header::parse(object, &self.sb.uuid));
                let below = done(parse_node(object, header.count));
                waiting.extend(below.into_iter().map(|record| (level - 1, record)));
            }
        }
        all.sort_by_key(|(level, record)| (*level, record.key));
        all
    }

    /// Records of the IFILE.
    pub fn ifile(&self) -> Vec<(u8, Record)> {
        self.records(&self.last().ifile)
    }

    /// Records of the BFILE.
    pub fn bfile(&self) -> Vec<(u8, Record)> {
        self.records(&self.last().bfile)
    }

    /// The record of the block of an inode.
    pub fn block_of(&self, inode: u32) -> Record {
        let number = u64::from(inode / self.sb.inodes_per_block());
        let found = self.ifile().into_iter().find(|(level, record)| *level == 0 && record.key == number);
        found.unwrap_or_else(|| unusable(&"there is no such block of inodes")).1
    }

    /// Offset of an inode.
    pub fn inode_at(&self, inode: u32) -> usize {
        let at = (inode % self.sb.inodes_per_block()) as usize * INODE_LEN;
        self.offset(self.block_of(inode).place.address) + at
    }

    /// An inode.
    pub fn inode(&self, inode: u32) -> Inode {
        let at = self.inode_at(inode);
        done(Inode::parse(&self.bytes[at..at + INODE_LEN], u64::from(inode), &self.sb.uuid))
    }

    /// Changes an inode.
    pub fn change_inode(&mut self, inode: u32, change: impl FnOnce(&mut Inode)) {
        let (at, mut found) = (self.inode_at(inode), self.inode(inode));
        change(&mut found);
        let uuid = self.sb.uuid;
        self.bytes[at..at + INODE_LEN].copy_from_slice(&found.store(&uuid));
        self.seal_rows();
    }

    /// Changes the bits of the block of an inode in the IFILE.
    pub fn change_bits(&mut self, inode: u32, change: impl FnOnce(&mut u64)) {
        self.change_block(inode, |record| change(&mut record.aux));
    }

    /// Changes the record of the block of an inode in the IFILE.
    pub fn change_block(&mut self, inode: u32, change: impl FnOnce(&mut Record)) {
        let key = self.block_of(inode).key;
        let last = self.last();
        let mut leaf = None;
        for (level, record) in self.records(&last.ifile) {
            if level == 1 && record.key <= key {
                leaf = Some(record);
            }
        }
        match leaf {
            Some(node) => self.change_node(node.place, |records| {
                let record = records.iter_mut().find(|record| record.key == key);
                change(record.unwrap_or_else(|| unusable(&"no record")));
            }),
            None => self.change_last(|summary, _| {
                let record = summary.ifile.records.iter_mut().find(|record| record.key == key);
                change(record.unwrap_or_else(|| unusable(&"no record")));
            }),
        }
    }

    /// The map of an inode.
    pub fn map(&self, inode: u32) -> Map {
        let inode = self.inode(inode);
        done(Map::parse(inode.height, inode.count, inode.room()))
    }

    /// The entries of a directory.
    pub fn entries(&self, directory: u32) -> Vec<Entry> {
        let inode = self.inode(directory);
        if inode.format == Format::Inline {
            return done(parse_entries(&inode.room()[..inode.size as usize], None));
        }
        let leaves = self.records(&self.map(directory)).into_iter().filter(|(level, _)| *level == 0);
        leaves.flat_map(|(_, record)| self.entries_at(record.place)).collect()
    }

    /// The entries of a directory block.
    pub fn entries_at(&self, place: Place) -> Vec<Entry> {
        let at = self.offset(place.address);
        let len = usize::from(place.len) * self.sb.fragment_size as usize;
        let object = &self.bytes[at..at + len];
        let header = done(Header::parse(object, &self.sb.uuid));
        done(parse_entries(&object[HEADER_LEN..], Some(header.count)))
    }

    /// Changes the entries of a directory that has them in its inode.
    pub fn change_inline(&mut self, directory: u32, change: impl FnOnce(&mut Vec<Entry>)) {
        let mut entries = self.entries(directory);
        change(&mut entries);
        self.change_inode(directory, |inode| {
            let bytes = store_entries(&entries);
            inode.body.fill(0);
            inode.size = bytes.len() as u64;
            inode.body[..bytes.len()].copy_from_slice(&bytes);
        });
    }

    /// The inode that a path leads to.
    pub fn lookup(&self, path: &str) -> u32 {
        let mut at = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let entries = self.entries(at);
            let found = entries.iter().find(|entry| entry.name == name.as_bytes());
            at = found.unwrap_or_else(|| unusable(&format!("{path} is not there"))).inode;
        }
        at
    }

    /// Inodes that the IFILE says are in use.
    pub fn live(&self) -> Vec<u32> {
        let per_block = self.sb.inodes_per_block();
        let blocks = self.ifile().into_iter().filter(|(level, _)| *level == 0);
        let inodes = blocks.flat_map(|(_, record)| {
            let live = (0..per_block).filter(move |at| record.aux >> at & 1 != 0);
            live.map(move |at| record.key as u32 * per_block + at)
        });
        inodes.collect()
    }

    /// Records of the map of a file; none where it has no map.
    pub fn extents(&self, inode: u32) -> Vec<(u8, Record)> {
        let found = self.inode(inode);
        let is_file = found.format == Format::Map && found.mode >> 12 == 0o10;
        if is_file { self.records(&self.map(inode)) } else { Vec::new() }
    }

    /// Places of objects with a header: nodes, directory blocks, bitmaps.
    pub fn objects(&self) -> Vec<Place> {
        let last = self.last();
        let above = |records: Vec<(u8, Record)>, lowest: u8| {
            records.into_iter().filter(move |(level, _)| *level >= lowest).map(|(_, record)| record.place)
        };
        let mut places: Vec<Place> = above(self.records(&last.ifile), 1).collect();
        places.extend(above(self.records(&last.bfile), 0));
        for inode in self.live() {
            let found = self.inode(inode);
            if found.format == Format::Map {
                let lowest = u8::from(found.mode >> 12 == 0o10);
                places.extend(above(self.records(&self.map(inode)), lowest));
            }
        }
        places
    }

    /// Makes the checksum of the inode at an offset right.
    pub fn seal_inode(&mut self, at: usize) {
        let birth = self.bytes[at + 72..at + 80].first_chunk().copied().map_or(0, u64::from_le_bytes);
        let uuid = self.sb.uuid;
        Inode::reseal(&mut self.bytes[at..at + INODE_LEN], birth, &uuid);
        self.seal_rows();
    }

    /// Makes the checksum of an object right.
    pub fn seal_object(&mut self, place: Place) {
        let uuid = self.sb.uuid;
        seal(self.at(place), &uuid);
        self.seal_rows();
    }

    /// Makes the checksum of a summary right, and that in the anchor that leads to it.
    pub fn seal_summary(&mut self, address: u64) {
        let (at, uuid) = (self.offset(address), self.sb.uuid);
        let len = self.sb.block_size as usize;
        let crc = seal(&mut self.bytes[at..at + len], &uuid);
        for anchor in self.anchors().into_iter().filter(|anchor| anchor.summary == address) {
            let at = self.anchor_offset(anchor.number % 4);
            let bytes = Anchor { summary_crc: crc, ..anchor }.store(&uuid);
            self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }
}
