// SPDX-License-Identifier: MIT OR Apache-2.0
//! hybridfs with sectors that cannot be read, without room, and with random damage: one repair mends it, the same at any thread count.
#![allow(clippy::unwrap_used, clippy::panic)]

mod hybridfs_common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_base::SeededRandom;
use fsmend_device::{Device, MemoryDevice, Plan, PlanBuilder};
use fsmend_engine::checker::{Checkable, Checker, Family as _, InodeSummary, read_record};
use fsmend_engine::options::{RepairOptions, RepairPolicy};
use fsmend_engine::repair::Whole;
use fsmend_engine::report::Repair;
use fsmend_engine::{Action, Budget, Findings, Progress};
use fsmend_hybridfs_check::{Hybrid as Family, rows};
use fsmend_hybridfs_format::{Format, INODE_LEN, Place, RECORD_LEN, Record};
use fsmend_testkit::crash::Case;
use fsmend_testkit::hybridfs::{Image, PIECES, dirty_image, image, rare_images};
use fsmend_testkit::within::options;

use hybridfs_common::{FILE_2000, FILE_9000, check, manner, mended, put, share, told, tree, with};

/// A device of which some bytes cannot be read.
struct Bad(MemoryDevice, std::ops::Range<u64>);

impl Device for Bad {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), fsmend_device::ReadError> {
        let end = offset + buf.len() as u64;
        if self.1.start < end && offset < self.1.end {
            return Err(fsmend_device::ReadError::beyond_end(offset, buf.len() as u64));
        }
        self.0.read_at(offset, buf)
    }
}

fn plan_on(device: Arc<dyn Device>) -> Repair {
    let options = RepairOptions { check: options(manner(2)), policy: RepairPolicy::default() };
    Checker(Family).plan(&device, &options, &Progress::new(), &AtomicBool::new(false)).unwrap()
}

#[test]
fn an_inode_that_cannot_be_read_costs_no_other() {
    let sound = image();
    let (before, inode) = (tree(&sound.bytes), sound.lookup(FILE_2000));
    let at = sound.inode_at(inode) as u64;
    let bad = Bad(MemoryDevice::new("bad", sound.bytes.clone()), at..at + INODE_LEN as u64);
    let repair = plan_on(Arc::new(bad));
    assert!(repair.found.findings.has(&rows::INODE_UNREADABLE), "{:#?}", told(&repair.found));
    assert!(repair.is_clean(), "{:#?}", told(&repair.left));
    let after = tree(&with(&sound.bytes, &repair.changes));
    for (path, node) in
        before.iter().filter(|(path, _)| !path.contains("file-2000") && !path.contains("second"))
    {
        assert!(after.get(path) == Some(node), "{path}");
    }
}

/// What the repair of an image does to the file with this path.
fn actions_for(image: &Image, path: &str) -> Vec<Action> {
    let device = Arc::new(MemoryDevice::new("image", image.bytes.clone())) as Arc<dyn Device>;
    let mut repair = plan_on(Arc::clone(&device));
    let inode = image.lookup(path);
    let files = Checker(Family).files(&device, &mut repair, &options(manner(2)));
    files.into_iter().find(|file| file.inode.0 == inode).map(|file| file.actions).unwrap_or_default()
}

#[test]
fn contents_that_are_written_anew_are_no_copies() {
    let mut rotten = image();
    let inode = rotten.inode(rotten.lookup(FILE_2000));
    rotten.at(Record::parse(inode.room()).place)[100] ^= 1;
    assert_eq!(actions_for(&rotten, FILE_2000), [Action::Corrected]);
    let mut shared = image();
    share(&mut shared);
    let actions = actions_for(&shared, "inline/file-70000");
    assert!(matches!(actions[..], [Action::Copied(_)]), "{actions:?}");
}

#[test]
fn what_cannot_be_copied_is_told() {
    let mut image = image();
    share(&mut image);
    let shared = Record::parse(image.inode(image.lookup(FILE_9000)).room()).place;
    let start = image.offset(shared.address) as u64;
    let bad = Bad(MemoryDevice::new("bad", image.bytes.clone()), start..start + 512);
    let repair = plan_on(Arc::new(bad));
    assert!(repair.found.findings.has(&rows::COPY_UNREADABLE), "{:#?}", told(&repair.found));
    assert!(repair.is_clean(), "{:#?}", told(&repair.left));
}

fn blocks_in_use(image: &Image) -> BTreeSet<u64> {
    let extents = image.live().into_iter().flat_map(|inode| image.extents(inode));
    let places = extents.filter(|(level, _)| *level == 0).map(|(_, record)| record.place);
    let runs = places.map(|place| (image.sb.data_index(place.address).unwrap(), u64::from(place.len)));
    runs.flat_map(|(first, len)| first..first + len).collect()
}

#[test]
fn a_full_data_area_makes_a_hole_and_says_so() {
    let mut image = image();
    // One file has all that is left, and shares its first block with another.
    let small = image.lookup(FILE_9000);
    let before = blocks_in_use(&image);
    for (_, node) in image.extents(image.lookup(PIECES)).into_iter().filter(|(level, _)| *level == 1) {
        let sb = image.sb.clone();
        image.change_node(node.place, |records| {
            for record in records {
                let next = record.place.address + sb.per_block();
                let is_free = sb.data_index(next).is_some_and(|block| !before.contains(&block));
                record.place.len += u16::from(is_free);
            }
        });
    }
    let used = blocks_in_use(&image);
    let big = image.lookup("inline/file-70000");
    let mut free = (0..image.sb.data_blocks()).filter(|block| !used.contains(block)).peekable();
    let mut records = image.map(big).records;
    let mut key = 100;
    while let Some(first) = free.next() {
        let mut len = 1;
        let is_next = |block: &u64, len: u64| {
            *block == first + len
                && image.sb.data_address(*block) == image.sb.data_address(first) + len * image.sb.per_block()
        };
        while len < 60_000 && free.peek().is_some_and(|block| is_next(block, len)) {
            free.next();
            len += 1;
        }
        let place = Place { address: image.sb.data_address(first), len: len as u16 };
        records.push(Record { key, place, birth: 1, aux: 0 });
        key += len;
    }
    assert!(records.len() <= 12, "{}", records.len());
    let shared = records[0].place;
    image.change_inode(big, |inode| {
        inode.count = records.len() as u8;
        for (slot, record) in inode.body.chunks_exact_mut(RECORD_LEN).zip(&records) {
            slot.copy_from_slice(&record.store());
        }
        inode.size = key * 4096;
    });
    image.change_inode(small, |inode| put(inode, |record| record.place.address = shared.address));
    let (repair, _) = mended(&image.bytes);
    assert!(repair.found.findings.has(&rows::NO_ROOM), "{:#?}", told(&repair.found));
}

#[test]
fn a_repair_survives_every_power_cut_and_is_undone() {
    let mut image = image();
    share(&mut image);
    let inode = image.lookup(FILE_2000);
    image.change_inode(inode, |inode| inode.links = 9);
    let number = image.anchors()[1].number % 4;
    let at = image.anchor_offset(number);
    image.bytes[at + 60] ^= 1;
    let (repair, _) = mended(&image.bytes);
    let is_anchor = |(_, bytes): &&(u64, Vec<u8>)| bytes.starts_with(b"hybanchr");
    let last: Vec<(u64, u64)> =
        repair.changes.iter().filter(is_anchor).map(|(at, bytes)| (*at, bytes.len() as u64)).collect();
    assert_eq!(last.len(), 4);
    let device = MemoryDevice::new("hybridfs", image.bytes.clone());
    let builder = PlanBuilder { changes: &repair.changes, last: &last, ..PlanBuilder::default() };
    let plan = Plan::make(&device, &builder).unwrap();
    let before = Arc::new(image.bytes);
    let case = Case { name: "hybridfs".to_owned(), before, bad_sectors: Vec::new(), plan };
    let swept = case.sweep(0..1).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(swept.cuts > 10, "{swept:?}");
}

/// A segment is whole or it is none: what is declined takes all of it along.
#[test]
fn a_part_of_a_repair_is_declined_with_all_of_it() {
    let mut image = image();
    for path in [FILE_2000, FILE_9000] {
        let inode = image.lookup(path);
        image.change_inode(inode, |inode| inode.links = 9);
    }
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("hybridfs", image.bytes.clone()));
    let options = RepairOptions { check: options(manner(2)), policy: RepairPolicy::default() };
    let (repair, _) = mended(&image.bytes);
    let problems: Vec<_> = repair.found.findings.iter().collect();
    assert_eq!(problems.len(), 2);
    let watch = (&Progress::new(), &AtomicBool::new(false));
    let all = Whole { writes: repair.writes(), mends: &repair.mends, found: &problems };
    let rest =
        fsmend_engine::repair::without(&Checker(Family), &device, &options, all, &problems[..1], watch)
            .unwrap();
    assert!(rest.is_none());
}

/// A node of any map.
fn node_of(image: &Image, random: &mut SeededRandom) -> Option<Place> {
    let last = image.last();
    let mut nodes: Vec<Place> = Vec::new();
    let mut add = |records: Vec<(u8, Record)>| {
        nodes.extend(records.into_iter().filter(|(level, _)| *level > 0).map(|(_, record)| record.place));
    };
    match random.below(4) {
        0 => add(image.ifile()),
        1 => add(image.records(&last.bfile)),
        _ => image.live().into_iter().for_each(|inode| {
            if image.inode(inode).format == Format::Map {
                add(image.records(&image.map(inode)));
            }
        }),
    }
    (!nodes.is_empty()).then(|| nodes[random.below(nodes.len() as u64) as usize])
}

/// A record of any map.
fn record_of(image: &Image, random: &mut SeededRandom) -> Option<Record> {
    let of_inode = |inode: u32| match image.inode(inode).format {
        Format::Map => image.records(&image.map(inode)),
        _ => Vec::new(),
    };
    let records = match random.below(4) {
        0 => image.ifile(),
        1 => image.bfile(),
        _ => image.live().into_iter().flat_map(of_inode).collect(),
    };
    (!records.is_empty()).then(|| records[random.below(records.len() as u64) as usize].1)
}

/// A block of a directory.
fn directory_of(image: &Image, random: &mut SeededRandom) -> Option<Place> {
    let is_large = |inode: &u32| {
        let found = image.inode(*inode);
        found.format == Format::Map && found.mode >> 12 == 0o4
    };
    let blocks: Vec<Place> = image
        .live()
        .into_iter()
        .filter(is_large)
        .flat_map(|inode| image.records(&image.map(inode)))
        .filter(|(level, _)| *level == 0)
        .map(|(_, record)| record.place)
        .collect();
    (!blocks.is_empty()).then(|| blocks[random.below(blocks.len() as u64) as usize])
}

/// One random damage.
fn spoil(image: &mut Image, random: &mut SeededRandom) {
    let live = image.live();
    let inode = live[random.below(live.len() as u64) as usize];
    let mut word = random.next_u64().to_le_bytes();
    if random.below(3) == 0 {
        word = [[0; 8], [0xFF; 8], [1, 0, 0, 0, 0, 0, 0, 0]][random.below(3) as usize];
    }
    let len = 1 + random.below(8) as usize;
    match random.below(9) {
        6 => {
            // An object has the place of another, or none at all; sealed.
            let (Some(one), Some(other)) = (node_of(image, random), record_of(image, random)) else { return };
            let at = random.next_u64();
            let wild = random.below(4);
            let sb = image.sb.clone();
            image.change_node(one, |records| {
                let which = at as usize % records.len().max(1);
                if let Some(record) = records.get_mut(which) {
                    match wild {
                        0 => *record = other,
                        1 => record.place = other.place,
                        2 => record.place.address = at % (sb.log_start + sb.log_fragments),
                        _ => record.birth = at % 100,
                    }
                }
            });
        }
        7 => {
            // Records move, are lost, or stand there twice; sealed.
            let Some(one) = node_of(image, random) else { return };
            let (at, wild) = (random.next_u64() as usize, random.below(4));
            image.change_node(one, |records| {
                let len = records.len().max(1);
                match wild {
                    0 if !records.is_empty() => drop(records.remove(at % len)),
                    1 if !records.is_empty() => records.insert(at % len, records[at / 7 % len]),
                    2 => records.truncate(at % len),
                    _ if !records.is_empty() => records.swap(at % len, at / 7 % len),
                    _ => {}
                }
            });
        }
        8 => {
            // A directory block has names twice, of other inodes, or too few; an inode is that of another.
            let other = live[random.below(live.len() as u64) as usize];
            let place = directory_of(image, random);
            let (at, wild) = (random.next_u64() as usize, random.below(5));
            match place {
                Some(place) if wild < 4 => image.change_entries(place, |entries| {
                    let len = entries.len().max(1);
                    match wild {
                        0 if !entries.is_empty() => drop(entries.remove(at % len)),
                        1 if !entries.is_empty() => entries.insert(at % len, entries[at / 7 % len].clone()),
                        2 if !entries.is_empty() => entries[at % len].inode = other,
                        _ if !entries.is_empty() => entries.swap(at % len, at / 7 % len),
                        _ => {}
                    }
                }),
                _ => {
                    let (from, to) = (image.inode_at(other), image.inode_at(inode));
                    image.bytes.copy_within(from..from + INODE_LEN, to);
                    image.seal_inode(to);
                }
            }
        }
        // Anywhere in the log, or in what stands before and behind it.
        0 | 1 => {
            let log =
                image.offset(image.sb.log_start)..image.offset(image.sb.log_start + image.sb.log_fragments);
            let (start, count) = match random.below(4) {
                0 => (64 << 10, 12 << 10),
                1 => (log.start, 16 << 10),
                _ => (log.start, log.len()),
            };
            let at = start + random.below(count as u64) as usize;
            let len = if random.below(4) == 0 { 2_000 } else { len };
            for byte in image.bytes.iter_mut().skip(at).take(len) {
                *byte = random.next_u64() as u8;
            }
        }
        // A field of an inode, sealed.
        2 | 3 => {
            let at = image.inode_at(inode);
            let field = 12 + random.below(200) as usize;
            image.bytes[at + field..at + field + len].copy_from_slice(&word[..len]);
            image.seal_inode(at);
        }
        // An object, sealed.
        4 => {
            let objects = image.objects();
            let place = objects[random.below(objects.len() as u64) as usize];
            let field = 8 + random.below(250) as usize;
            image.at(place)[field..field + len].copy_from_slice(&word[..len]);
            image.seal_object(place);
        }
        _ => {
            let address = image.last().address;
            let at = image.offset(address) + 64 + random.below(900) as usize;
            image.bytes[at..at + len].copy_from_slice(&word[..len]);
            image.seal_summary(address);
        }
    }
}

#[test]
fn the_fast_path_clears_only_inodes_in_which_inspection_finds_nothing() {
    let bases = [image(), dirty_image(4)];
    let (check, budget) = (options(manner(1)), Arc::new(Budget::new(1 << 30)));
    let (mut cleared, mut left) = (0, 0);
    for seed in 0..24 {
        let (mut random, mut image) = (SeededRandom::new(seed), bases[seed as usize % 2].clone());
        for _ in 0..seed / 2 {
            let spoiled = std::panic::AssertUnwindSafe(|| spoil(&mut image, &mut random));
            let _ = std::panic::catch_unwind(spoiled);
        }
        let device = MemoryDevice::new("spoiled", image.bytes.clone());
        let Ok(layout) = Family.open(&device, (&check, &budget), &mut Findings::new()) else { continue };
        let volume = Family.volume(layout, &device);
        for inode in (0..volume.inodes_count()).map(fsmend_base::InodeNo) {
            let Some(record) = read_record(&volume, inode) else { continue };
            let mut summary = InodeSummary::default();
            if !volume.summarize(inode, &record, &mut summary) {
                left += 1;
                continue;
            }
            let mut findings = Findings::new();
            let judged = volume.inspect(inode, &record, &mut findings);
            assert!(findings.is_empty(), "seed {seed}, {inode:?}: {findings:#?}");
            let facts = |of: &InodeSummary| (of.kind, of.links, of.units.clone());
            assert_eq!(facts(&summary), facts(&judged), "seed {seed}, {inode:?}");
            cleared += 1;
        }
    }
    assert!(cleared > 1000 && left > 10, "{cleared} cleared, {left} left");
}

#[test]
fn random_damage_is_mended_in_one_run_with_the_same_bytes_at_any_thread_count() {
    let seeds =
        std::env::var("FSMEND_HYBRIDFS_SEEDS").ok().and_then(|value| value.parse().ok()).unwrap_or(120);
    let first: u64 =
        std::env::var("FSMEND_HYBRIDFS_FIRST").ok().and_then(|value| value.parse().ok()).unwrap_or(0);
    let mut bases = vec![image(), dirty_image(4)];
    bases.extend(rare_images().into_iter().map(|(_, image, _)| image));
    let (mut failed, mut damaged) = (Vec::new(), 0);
    for seed in first..first + seeds {
        let mut random = SeededRandom::new(seed);
        let mut image = bases[seed as usize % bases.len()].clone();
        for _ in 0..1 + random.below(4) {
            // What is spoiled already may not be found again.
            let spoiled = std::panic::AssertUnwindSafe(|| spoil(&mut image, &mut random));
            if std::panic::catch_unwind(spoiled).is_err() {
                break;
            }
        }
        let result = std::panic::catch_unwind(|| match check(&image.bytes, 1) {
            // Without a superblock, or any segment, it is refused, and that is all.
            Err(refused) => {
                let known = ["not-hybridfs", "no-segment", "cut-off", "memory-too-small"];
                assert!(known.contains(&refused.refusal.code), "{refused}");
                false
            }
            Ok(report) => {
                let _ = mended(&image.bytes);
                report.findings.is_damaged()
            }
        });
        match result {
            Ok(is_damaged) => damaged += u64::from(is_damaged),
            Err(why) => {
                let why = why.downcast_ref::<String>().cloned().unwrap_or_else(|| "panic".to_owned());
                failed.push(format!("seed {seed}: {why}"));
            }
        }
    }
    assert!(failed.len() as u64 + damaged * 2 > seeds, "only {damaged} of {seeds} are damaged");
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n\n"));
}
