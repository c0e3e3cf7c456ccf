// SPDX-License-Identifier: MIT OR Apache-2.0
//! hybridfs after what disks do to whole blocks and regions: lost nodes of the IFILE and BFILE, lost anchors, torn and stale segments, blocks in each other's places. One repair makes it
//! sound, the same at any thread count, and costs only what stood in the bytes that changed; what is found sound shows what it showed before.
//! `FSMEND_DISASTERS=30` tries 30 seeds of each damage, from `FSMEND_DISASTERS_FROM` on, `FSMEND_DISASTER` names the damages that are tried.
#![allow(clippy::unwrap_used, clippy::panic)]

mod hybridfs_common;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fsmend_base::SeededRandom;
use fsmend_hybridfs_format::{Format, INODE_LEN, Place, ROOT, Record, SLOT_ATTRIBUTES, SUPERBLOCK_OFFSET};
use fsmend_testkit::hybridfs::{FULL, Image, image, lived_in_image, rare_images};
use hybridfs_common::{check, mended, told, tree};

/// A sound image, and what is known of it.
struct Base {
    image: Image,
    halfway: Vec<u8>,
    tree: BTreeMap<String, (fsmend_vfs::FileKind, Vec<u8>)>,
    /// What each path rests on and nothing else tells: its inode, the blocks with its name and with those of the directories above it, contents and the lowest nodes that lead to them.
    rests_on: BTreeMap<String, Vec<Range<usize>>>,
    /// Places of objects, by kind.
    ifile: Vec<Place>,
    bfile: Vec<Place>,
    inode_blocks: Vec<Place>,
    nodes: Vec<Place>,
    directories: Vec<Place>,
}

impl Base {
    fn of((image, halfway): (Image, Vec<u8>)) -> Base {
        let last = image.last();
        let places = |records: &[(u8, Record)], levels: Range<u8>| -> Vec<Place> {
            let is_there = |(level, _): &&(u8, Record)| levels.contains(level);
            records.iter().filter(is_there).map(|(_, record)| record.place).collect()
        };
        let (ifile, bfile) = (image.records(&last.ifile), image.records(&last.bfile));
        let (mut nodes, mut directories) = (Vec::new(), Vec::new());
        for inode in image.live() {
            let found = image.inode(inode);
            if found.format == Format::Map {
                let records = image.records(&image.map(inode));
                nodes.extend(places(&records, 1..9));
                if found.mode >> 12 == 0o4 {
                    directories.extend(places(&records, 0..1));
                }
            }
        }
        let mut base = Base {
            tree: tree(&image.bytes),
            rests_on: BTreeMap::new(),
            ifile: places(&ifile, 1..9),
            bfile: places(&bfile, 0..9),
            inode_blocks: places(&ifile, 0..1),
            nodes,
            directories,
            image,
            halfway,
        };
        base.walk("", ROOT, &[]);
        base
    }

    fn bytes_of(&self, place: Place) -> Range<usize> {
        let at = self.image.offset(place.address);
        at..at + usize::from(place.len) * self.image.sb.fragment_size as usize
    }

    /// Notes what everything in a directory rests on; the directory itself on `above`.
    fn walk(&mut self, path: &str, directory: u32, above: &[Range<usize>]) {
        let mut own = above.to_vec();
        let at = self.image.inode_at(directory);
        own.push(at..at + INODE_LEN);
        let found = self.image.inode(directory);
        let blocks: Vec<Option<Place>> = match found.format {
            Format::Map => {
                let records = self.image.records(&self.image.map(directory)).into_iter();
                records.filter(|(level, _)| *level == 0).map(|(_, record)| Some(record.place)).collect()
            }
            _ => vec![None],
        };
        for block in blocks {
            let entries = match block {
                Some(place) => self.image.entries_at(place),
                None => self.image.entries(directory),
            };
            let mut within = own.clone();
            within.extend(block.map(|place| self.bytes_of(place)));
            for entry in entries {
                let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
                let found = self.image.inode(entry.inode);
                if found.mode >> 12 == 0o4 {
                    let at = self.image.inode_at(entry.inode);
                    let own = within.iter().cloned().chain(std::iter::once(at..at + INODE_LEN)).collect();
                    self.rests_on.insert(path.clone(), own);
                    self.walk(&path, entry.inode, &within);
                } else {
                    let all = within.iter().cloned().chain(self.contents(entry.inode)).collect();
                    self.rests_on.insert(path, all);
                }
            }
        }
    }

    fn contents(&self, inode: u32) -> Vec<Range<usize>> {
        let (at, found) = (self.image.inode_at(inode), self.image.inode(inode));
        let mut all: Vec<Range<usize>> = std::iter::once(at..at + INODE_LEN).collect();
        if found.attribute_slots == SLOT_ATTRIBUTES {
            all.push(self.bytes_of(Record::parse(found.attribute_room()).place));
        }
        match found.format {
            Format::Small => all.push(self.bytes_of(Record::parse(found.room()).place)),
            Format::Map => {
                let records = self.image.records(&self.image.map(inode));
                let nodes = records.iter().filter(|(level, _)| *level == 1);
                all.extend(nodes.map(|(_, record)| self.bytes_of(record.place)));
                let block = self.image.sb.block_size as usize;
                all.extend(records.iter().filter(|(level, _)| *level == 0).map(|(_, record)| {
                    let at = self.image.offset(record.place.address);
                    at..at + usize::from(record.place.len) * block
                }));
            }
            _ => {}
        }
        all
    }

    /// Paths that rest on bytes that differ.
    fn excused(&self, damaged: &[u8]) -> BTreeSet<&String> {
        let differs = |range: &Range<usize>| damaged[range.clone()] != self.image.bytes[range.clone()];
        let mut known: BTreeMap<(usize, usize), bool> = BTreeMap::new();
        let mut differs =
            |range: &Range<usize>| *known.entry((range.start, range.end)).or_insert_with(|| differs(range));
        self.rests_on.iter().filter(|(_, all)| all.iter().any(&mut differs)).map(|(path, _)| path).collect()
    }

    /// Whether the last segment differs, which nothing tells from one that a power cut tore: the state before it comes back.
    fn hits_last(&self, damaged: &[u8]) -> bool {
        let address = self.image.last().address;
        let Some((_, _, stream)) = self.image.summary_at(address) else { return true };
        let rows = stream.rows.iter().map(|row| Place { address: row.address, len: row.len });
        let summary = Place { address, len: u16::try_from(self.image.sb.per_block()).unwrap() };
        rows.chain([summary]).any(|place| {
            let range = self.bytes_of(place);
            damaged[range.clone()] != self.image.bytes[range]
        })
    }

    /// What is wrong with the repair of what a disaster left.
    fn judge(&self, damaged: &[u8], may_go_back: bool) {
        let report = match check(damaged, 1) {
            Ok(report) => report,
            Err(refused) => panic!("refused: {refused}"),
        };
        let shown = if report.findings.is_damaged() { tree(&mended(damaged).1) } else { tree(damaged) };
        if may_go_back || self.hits_last(damaged) {
            return;
        }
        let excused = self.excused(damaged);
        let is_lost = |(path, node): &(&String, &(fsmend_vfs::FileKind, Vec<u8>))| {
            !excused.contains(path) && shown.get(*path) != Some(node)
        };
        let lost: Vec<&String> = self.tree.iter().filter(is_lost).map(|(path, _)| path).collect();
        assert!(
            lost.is_empty(),
            "{} of {} lost or changed without need: {:?}\nfound: {:#?}",
            lost.len(),
            self.tree.len(),
            lost.iter().take(5).collect::<Vec<_>>(),
            told(&report).iter().take(12).collect::<Vec<_>>()
        );
    }
}

fn any<T: Copy>(of: &[T], random: &mut SeededRandom) -> T {
    of[random.below(of.len() as u64) as usize]
}

/// Overwrites in one of the usual ways.
fn overwrite(bytes: &mut [u8], random: &mut SeededRandom) {
    match random.below(3) {
        0 => bytes.fill(0),
        1 => bytes.fill(0xFF),
        _ => bytes.fill_with(|| random.next_u64() as u8),
    }
}

impl Base {
    fn lose(&self, bytes: &mut [u8], places: &[Place], count: u64, random: &mut SeededRandom) {
        // Large blocks need no nodes.
        for _ in (0..count).filter(|_| !places.is_empty()) {
            overwrite(&mut bytes[self.bytes_of(any(places, random))], random);
        }
    }

    fn swap(&self, bytes: &mut [u8], places: &[Place], random: &mut SeededRandom) {
        if places.is_empty() {
            return;
        }
        let (one, other) = (self.bytes_of(any(places, random)), self.bytes_of(any(places, random)));
        let len = one.len().min(other.len());
        let held = bytes[one.start..one.start + len].to_vec();
        bytes.copy_within(other.start..other.start + len, one.start);
        bytes[other.start..other.start + len].copy_from_slice(&held);
    }

    fn age(&self, bytes: &mut [u8], range: Range<usize>) {
        bytes[range.clone()].copy_from_slice(&self.halfway[range]);
    }

    /// A range in the log, of whole blocks.
    fn region(&self, len: usize, random: &mut SeededRandom) -> Range<usize> {
        let sb = &self.image.sb;
        let start = self.image.offset(sb.log_start);
        let blocks = sb.log_fragments as usize * sb.fragment_size as usize / len;
        let at = start + random.below(blocks as u64) as usize * len;
        at..at + len
    }
}

/// A damage; the second is whether the state before the last segment may come back.
type Disaster = (&'static str, bool, fn(&Base, &mut [u8], &mut SeededRandom));

const DISASTERS: &[Disaster] = &[
    ("a node of the IFILE is lost", false, |base, bytes, random| base.lose(bytes, &base.ifile, 1, random)),
    ("all nodes of the IFILE are lost", false, |base, bytes, random| {
        base.ifile.iter().for_each(|place| overwrite(&mut bytes[base.bytes_of(*place)], random));
    }),
    ("bitmaps and nodes of the BFILE are lost", false, |base, bytes, random| {
        base.lose(bytes, &base.bfile, 3, random);
    }),
    ("nodes of maps are lost", false, |base, bytes, random| base.lose(bytes, &base.nodes, 2, random)),
    ("all nodes of maps are lost", false, |base, bytes, random| {
        base.nodes.iter().for_each(|place| overwrite(&mut bytes[base.bytes_of(*place)], random));
    }),
    ("blocks of directories are lost", false, |base, bytes, random| {
        base.lose(bytes, &base.directories, 2, random);
    }),
    ("blocks of inodes are lost", false, |base, bytes, random| {
        base.lose(bytes, &base.inode_blocks, 2, random)
    }),
    ("half a block of inodes is lost", false, |base, bytes, random| {
        let block = base.bytes_of(any(&base.inode_blocks, random));
        let middle = block.start + block.len() / 2;
        overwrite(&mut bytes[middle..block.end], random);
    }),
    ("blocks of inodes are swapped", false, |base, bytes, random| {
        base.swap(bytes, &base.inode_blocks, random)
    }),
    ("nodes are swapped", false, |base, bytes, random| base.swap(bytes, &base.nodes, random)),
    ("blocks of directories are swapped", false, |base, bytes, random| {
        base.swap(bytes, &base.directories, random);
    }),
    ("objects of all kinds are swapped", false, |base, bytes, random| {
        let kinds = [&base.ifile, &base.bfile, &base.inode_blocks, &base.nodes, &base.directories];
        let all: Vec<Place> = kinds.into_iter().flatten().copied().collect();
        base.swap(bytes, &all, random);
        base.swap(bytes, &all, random);
    }),
    ("a block of inodes is an older one", false, |base, bytes, random| {
        base.age(bytes, base.bytes_of(any(&base.inode_blocks, random)));
    }),
    ("a block of a directory is an older one", false, |base, bytes, random| {
        if !base.directories.is_empty() {
            base.age(bytes, base.bytes_of(any(&base.directories, random)));
        }
    }),
    ("a region of the log is an older one", false, |base, bytes, random| {
        base.age(bytes, base.region(1 << 16, random));
    }),
    ("a region of the log is lost", true, |base, bytes, random| {
        overwrite(&mut bytes[base.region(1 << 15, random)], random);
    }),
    ("a few sectors of the log are lost", true, |base, bytes, random| {
        for _ in 0..6 {
            overwrite(&mut bytes[base.region(512, random)], random);
        }
    }),
    ("all anchors but one are lost", false, |base, bytes, random| {
        let kept = random.below(4);
        for slot in (0..4).filter(|slot| *slot != kept) {
            let at = base.image.anchor_offset(slot);
            overwrite(&mut bytes[at..at + 512], random);
        }
    }),
    ("all anchors are lost", false, |base, bytes, random| {
        for slot in 0..4 {
            let at = base.image.anchor_offset(slot);
            overwrite(&mut bytes[at..at + 512], random);
        }
    }),
    ("the anchors are older ones", true, |base, bytes, _| {
        for slot in 0..4 {
            let at = base.image.anchor_offset(slot);
            base.age(bytes, at..at + 512);
        }
    }),
    ("the superblock is lost and half of the anchors", false, |base, bytes, random| {
        let at = SUPERBLOCK_OFFSET as usize;
        overwrite(&mut bytes[at..at + 4096], random);
        for slot in 0..2 {
            let at = base.image.anchor_offset(slot);
            overwrite(&mut bytes[at..at + 512], random);
        }
    }),
    ("the body of the last segment is torn", true, |base, bytes, random| {
        let (_, _, stream) = base.image.summary_at(base.image.last().address).unwrap();
        let Some(row) = stream.rows.last() else { return };
        overwrite(&mut bytes[base.bytes_of(Place { address: row.address, len: row.len })], random);
    }),
    ("the last summary is torn", true, |base, bytes, random| {
        let at = base.image.offset(base.image.last().address) + 512;
        overwrite(&mut bytes[at..at + 512], random);
    }),
    ("a summary in the middle of the chain is lost", true, |base, bytes, random| {
        let chain = base.image.chain();
        let at = base.image.offset(any(&chain, random));
        overwrite(&mut bytes[at..at + 4096], random);
    }),
    ("all summaries of the chain are lost but the first", true, |base, bytes, random| {
        for address in base.image.chain().into_iter().skip(1) {
            let at = base.image.offset(address);
            overwrite(&mut bytes[at..at + 4096], random);
        }
    }),
];

#[test]
fn disasters_are_mended_in_one_run_and_cost_what_they_hit() {
    let bases = [lived_in_image(), {
        let sound = image();
        (sound.clone(), sound.bytes)
    }];
    try_disasters(&bases.map(|base| ("usual", Base::of(base))), 1);
}

#[test]
fn disasters_of_rare_kinds_of_file_systems_are_mended() {
    let bases = rare_images().into_iter();
    let bases: Vec<_> = bases.map(|(name, image, halfway)| (name, Base::of((image, halfway)))).collect();
    for (name, base) in &bases {
        let found = check(&base.image.bytes, 2).unwrap();
        assert!(!found.findings.is_damaged(), "{name}: {:#?}", told(&found));
    }
    try_disasters(&bases, 9);
}

/// `FSMEND_DISASTERS_FROM`.
fn first_seed() -> u64 {
    std::env::var("FSMEND_DISASTERS_FROM").map_or(0, |value| value.parse().unwrap())
}

/// Tries all damages on each image if seeds were asked for, otherwise one in `usual`.
fn try_disasters(bases: &[(&str, Base)], usual: usize) {
    let asked: Option<u64> = std::env::var("FSMEND_DISASTERS").ok().map(|value| value.parse().unwrap());
    let every = if asked.is_some() { 1 } else { usual };
    let first = first_seed();
    let only = std::env::var("FSMEND_DISASTER").ok();
    let (mut failed, mut tried) = (Vec::new(), 0);
    for (number, (kind, base)) in bases.iter().enumerate() {
        for (name, may_go_back, disaster) in DISASTERS.iter().skip(number % every).step_by(every) {
            if only.as_ref().is_some_and(|only| !name.contains(only)) {
                continue;
            }
            for seed in first..first + asked.unwrap_or(1) {
                let mut bytes = base.image.bytes.clone();
                disaster(base, &mut bytes, &mut SeededRandom::new(seed * 100 + number as u64));
                tried += 1;
                if let Err(why) = std::panic::catch_unwind(|| base.judge(&bytes, *may_go_back)) {
                    let why = why.downcast_ref::<String>().cloned().unwrap_or_else(|| "panic".to_owned());
                    failed.push(format!("{kind} ({number}), {name}, seed {seed}: {why}"));
                }
            }
        }
    }
    assert!(tried > 0 && failed.is_empty(), "{} of {tried} failed:\n{}", failed.len(), failed.join("\n\n"));
}

#[test]
fn several_disasters_at_once_are_mended_in_one_run() {
    let seeds: u64 = std::env::var("FSMEND_DISASTERS").map_or(12, |value| value.parse::<u64>().unwrap() * 12);
    let base = Base::of(lived_in_image());
    let mut failed = Vec::new();
    for seed in first_seed()..first_seed() + seeds {
        let (mut bytes, mut random) = (base.image.bytes.clone(), SeededRandom::new(seed));
        let mut names = Vec::new();
        for _ in 0..2 + random.below(3) {
            let (name, _, disaster) = DISASTERS[random.below(DISASTERS.len() as u64) as usize];
            names.push(name);
            disaster(&base, &mut bytes, &mut random);
        }
        let judged = std::panic::catch_unwind(|| match check(&bytes, 1) {
            // Without a superblock, or any segment, it is refused, and that is all.
            Err(refused) => {
                assert!(["not-hybridfs", "no-segment"].contains(&refused.refusal.code), "{refused}")
            }
            Ok(_) => drop(mended(&bytes)),
        });
        if let Err(why) = judged {
            let why = why.downcast_ref::<String>().cloned().unwrap_or_else(|| "panic".to_owned());
            failed.push(format!("seed {seed}, {names:?}: {why}"));
        }
    }
    assert!(failed.is_empty(), "{} of {seeds} failed:\n{}", failed.len(), failed.join("\n\n"));
}

/// The segment of such a repair is larger than what a full log has left. It was refused, with the advice to mount what cannot be mounted.
#[test]
fn a_full_log_is_no_reason_to_refuse_a_repair() {
    let full = rare_images().into_iter().find(|(name, ..)| *name == FULL).unwrap();
    let base = Base::of((full.1, full.2));
    let (_, may_go_back, disaster) =
        DISASTERS.iter().find(|(name, ..)| *name == "all nodes of the IFILE are lost").unwrap();
    let mut bytes = base.image.bytes.clone();
    disaster(&base, &mut bytes, &mut SeededRandom::new(5));
    base.judge(&bytes, *may_go_back);
}
