// SPDX-License-Identifier: MIT OR Apache-2.0
//! The toy format has nothing but the engine's traits, and gets everything that goes with them: a check that finds each damage, a repair in one run that
//! is the same at any thread count, plans that survive every power cut, partial repair.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_base::SeededRandom;
use fsmend_device::{Device, MemoryDevice, Plan, PlanBuilder, Trace};
use fsmend_engine::checker::Checker;
use fsmend_engine::options::{RepairOptions, RepairPolicy};
use fsmend_engine::repair::Whole;
use fsmend_engine::report::{CheckReport, Repair};
use fsmend_engine::{Progress, Row};
use fsmend_session::explain::rows_for;
use fsmend_session::{Change, Plain, Registry, json};
use fsmend_testkit::crash::Case;
use fsmend_testkit::flawed::Flawed;
use fsmend_testkit::toy::format::{BLOCK, DIRECTORY, ENTRY, Entry, FILE, RECORD, Record, Superblock, TABLE};
use fsmend_testkit::toy::{Toy, rows};
use fsmend_testkit::toy_image::make;
use fsmend_testkit::within::{Manner, options};

/// The family, as a registry knows it.
struct ToyFamily;

impl Plain for ToyFamily {
    type Format = Toy;

    const CHECKER: Checker<Toy> = Checker(Toy);
    const NAME: &'static str = "toy";
    const TITLE: &'static str = "a toy file system";
    const RECOVERING: &'static [&'static Row] = &[&rows::UNATTACHED, &rows::UNCONNECTED, &rows::LOOPED];

    fn trace(device: &dyn Device) -> Option<Trace> {
        let mut bytes = [0; BLOCK];
        device.read_at(0, &mut bytes).ok()?;
        Superblock::parse(&bytes).map(|_| Trace::Superblock)
    }

    fn rows() -> Vec<&'static Row> {
        rows::ROWS.to_vec()
    }

    fn last(changes: &[Change]) -> Vec<(u64, u64)> {
        // The superblock.
        let first = changes.iter().filter(|(at, _)| *at < BLOCK as u64);
        first.map(|(at, bytes)| (*at, bytes.len() as u64)).collect()
    }
}

const FAMILIES: Registry = Registry::new(&ToyFamily, &[]);

fn image() -> Vec<u8> {
    make(1024, 200, 6, 20)
}

fn manner(threads: usize) -> Manner {
    Manner { threads, ..Manner::default() }
}

fn check(image: &[u8], threads: usize) -> CheckReport {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("toy", image.to_vec()));
    Checker(Toy).check(&device, &options(manner(threads)), &Progress::new(), &AtomicBool::new(false)).unwrap()
}

fn plan(image: &[u8], threads: usize) -> Repair {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("toy", image.to_vec()));
    let options = RepairOptions { check: options(manner(threads)), policy: RepairPolicy::default() };
    Checker(Toy).plan(&device, &options, &Progress::new(), &AtomicBool::new(false)).unwrap()
}

fn with(image: &[u8], changes: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut image = image.to_vec();
    for (at, bytes) in changes {
        image[*at as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    image
}

fn codes(report: &CheckReport) -> Vec<&'static str> {
    report.findings.counts().into_keys().collect()
}

fn record_at(inode: u32) -> usize {
    TABLE as usize * BLOCK + (inode as usize - 1) * RECORD
}

/// Changes a record and seals it again.
fn amend(image: &mut [u8], inode: u32, change: impl FnOnce(&mut Record)) {
    let mut record = Record::parse(&image[record_at(inode)..][..RECORD]).0;
    change(&mut record);
    image[record_at(inode)..][..RECORD].copy_from_slice(&record.store());
}

/// The place of entry `at` of the first block of a directory.
fn entry_at(image: &[u8], inode: u32, at: usize) -> usize {
    Record::parse(&image[record_at(inode)..][..RECORD]).0.blocks[0] as usize * BLOCK + at * ENTRY
}

#[test]
fn a_sound_one_is_clean() {
    for threads in [1, 2, 8] {
        assert_eq!(codes(&check(&image(), threads)), [""; 0]);
    }
}

/// A damage, and what is found.
type Damage = (&'static Row, fn(&mut Vec<u8>));

const DAMAGES: &[Damage] = &[
    (&rows::SUPERBLOCK_CHECKSUM, |image| image[24] ^= 1),
    (&rows::CHECKSUM, |image| image[record_at(3) + 60] ^= 1),
    (&rows::KIND, |image| amend(image, 3, |record| record.kind = 7)),
    (&rows::POINTER, |image| amend(image, 3, |record| record.blocks[0] = 5000)),
    (&rows::SIZE, |image| amend(image, 3, |record| record.size = 9999)),
    (&rows::EMPTY_DIRECTORY, |image| amend(image, 2, |record| record.blocks[0] = 0)),
    (&rows::ENTRY, |image| {
        let at = entry_at(image, 2, 1);
        image[at..at + ENTRY]
            .copy_from_slice(&Entry { inode: 190, kind: FILE, name: b"lost".to_vec() }.store());
    }),
    (&rows::ENTRY_KIND, |image| {
        let at = entry_at(image, 2, 1);
        image[at + 4] = DIRECTORY;
    }),
    (&rows::DOTS, |image| {
        let at = entry_at(image, 2, 0);
        image[at..at + ENTRY].fill(0);
    }),
    (&rows::MULTIPLY_CLAIMED, |image| {
        let other = Record::parse(&image[record_at(4)..][..RECORD]).0.blocks[0];
        amend(image, 3, |record| record.blocks[0] = other);
    }),
    (&rows::SHARES, |image| amend(image, 3, |record| record.blocks[0] = 1)),
    (&rows::MISMATCH, |image| amend(image, 3, |record| record.links = 9)),
    (&rows::UNATTACHED, |image| {
        let at = entry_at(image, 2, 1);
        image[at..at + ENTRY].fill(0);
    }),
    (&rows::UNATTACHED_EMPTY, |image| {
        amend(image, 190, |record| *record = Record { kind: FILE, links: 1, ..Record::default() });
    }),
    (&rows::ROOT_MISSING, |image| image[record_at(1)..][..RECORD].fill(0)),
    (&rows::UNCONNECTED, |image| {
        let at = entry_at(image, 1, 1);
        image[at..at + ENTRY].fill(0);
    }),
    (&rows::LOOPED, |image| {
        // Two directories change from the root into each other.
        let entries = [entry_at(image, 1, 1), entry_at(image, 1, 2)];
        let inodes = entries.map(|at| Entry::parse(&image[at..][..ENTRY]).unwrap().inode);
        for (inode, other) in [(inodes[0], inodes[1]), (inodes[1], inodes[0])] {
            let at = entry_at(image, inode, 1);
            let entry = Entry { inode: other, kind: DIRECTORY, name: b"loop".to_vec() };
            image[at..at + ENTRY].copy_from_slice(&entry.store());
        }
        entries.into_iter().for_each(|at| image[at..at + ENTRY].fill(0));
    }),
    (&rows::PARENT_WRONG, |image| {
        let other = Entry::parse(&image[entry_at(image, 1, 2)..][..ENTRY]).unwrap().inode;
        let at = entry_at(image, 2, 0);
        image[at..at + 4].copy_from_slice(&other.to_le_bytes());
    }),
    (&rows::MARKED, |image| image[BLOCK + 125] |= 8),
    (&rows::UNMARKED, |image| image[BLOCK] &= !8),
    (&rows::FREE, |image| {
        let superblock = Superblock::parse(&image[..BLOCK]).unwrap().0;
        image[..28].copy_from_slice(&Superblock { free_blocks: 3, ..superblock }.store());
    }),
];

#[test]
fn every_damage_is_found_and_mended_in_one_run() {
    for (row, damage) in DAMAGES {
        let mut image = image();
        damage(&mut image);
        let found = codes(&check(&image, 2));
        assert!(found.contains(&row.code), "{}: {found:?}", row.code);
        let repair = plan(&image, 2);
        assert!(repair.is_clean(), "{}: {:?}", row.code, codes(&repair.left));
        assert_eq!(codes(&check(&with(&image, &repair.changes), 1)), [""; 0], "{}", row.code);
    }
    let untried = rows::ROWS.iter().filter(|row| !DAMAGES.iter().any(|(tried, _)| tried == *row));
    // These take a device of another kind: tests of their own.
    let others = [rows::UNREADABLE.code, rows::NO_ROOM.code, rows::COPY_UNREADABLE.code];
    assert_eq!(untried.map(|row| row.code).collect::<Vec<_>>(), others);
}

/// Two files that claim the same block.
fn share_a_block(image: &mut [u8]) -> u32 {
    let shared = Record::parse(&image[record_at(4)..][..RECORD]).0.blocks[0];
    amend(image, 3, |record| record.blocks[0] = shared);
    shared
}

#[test]
fn a_copy_for_which_there_is_no_room_is_a_loss_that_is_told() {
    let mut image = image();
    let superblock = Superblock::parse(&image[..BLOCK]).unwrap().0;
    let mut full = make(superblock.blocks - superblock.free_blocks, 200, 6, 20);
    share_a_block(&mut full);
    // The block that file 3 had is free now, and is given to another file.
    let given = Record::parse(&image[record_at(3)..][..RECORD]).0.blocks[0];
    amend(&mut full, 5, |record| (record.blocks[1], record.size) = (given, 2 * BLOCK as u32));
    image = full;
    let repair = plan(&image, 2);
    assert!(repair.is_clean(), "{:?}", codes(&repair.left));
    assert!(codes(&repair.found).contains(&rows::NO_ROOM.code), "{:?}", codes(&repair.found));
}

#[test]
fn what_cannot_be_read_is_found_and_what_it_costs_is_told() {
    let mut image = image();
    let shared = u64::from(share_a_block(&mut image));
    // The table of inodes, and a block that has to be copied.
    for (bad, row) in [(TABLE + 1, &rows::UNREADABLE), (shared, &rows::COPY_UNREADABLE)] {
        let device: Arc<dyn Device> = Arc::new(Flawed {
            memory: MemoryDevice::new("toy", image.clone()),
            flaw: bad * BLOCK as u64..(bad + 1) * BLOCK as u64,
        });
        let options = RepairOptions { check: options(manner(2)), policy: RepairPolicy::default() };
        let watch = (&Progress::new(), &AtomicBool::new(false));
        let repair = Checker(Toy).plan(&device, &options, watch.0, watch.1).unwrap();
        assert!(codes(&repair.found).contains(&row.code), "{:?}", codes(&repair.found));
    }
}

#[test]
fn random_damage_is_mended_the_same_at_any_thread_count() {
    let mut repaired = 0;
    for seed in 0..400 {
        let mut random = SeededRandom::new(seed);
        let mut image = image();
        for _ in 0..1 + random.below(30) {
            // The sizes in the superblock have no copy.
            let at = 24 + random.below(image.len() as u64 / 8) as usize;
            image[at] = random.next_u64() as u8;
        }
        let one = plan(&image, 1);
        assert!(one.is_clean(), "seed {seed}: {:?}", codes(&one.left));
        assert_eq!(one.changes, plan(&image, 8).changes, "seed {seed}");
        repaired += u32::from(!one.changes.is_empty());
    }
    assert!(repaired > 350, "{repaired}");
}

#[test]
fn a_repair_survives_every_power_cut_and_is_undone() {
    let mut image = image();
    for (_, damage) in
        DAMAGES.iter().filter(|(row, _)| [&rows::DOTS, &rows::MISMATCH, &rows::MARKED].contains(row))
    {
        damage(&mut image);
    }
    let changes = plan(&image, 2).changes;
    let device = MemoryDevice::new("toy", image.clone());
    let builder = PlanBuilder { changes: &changes, last: &[(0, BLOCK as u64)], ..PlanBuilder::default() };
    let plan = Plan::make(&device, &builder).unwrap();
    let case = Case { name: "toy".to_owned(), before: Arc::new(image), bad_sectors: Vec::new(), plan };
    let swept = case.sweep(0..2).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(swept.cuts > 50, "{swept:?}");
}

#[test]
fn what_is_declined_stays_and_the_rest_is_repaired() {
    let mut image = image();
    amend(&mut image, 3, |record| record.links = 9);
    amend(&mut image, 4, |record| record.links = 7);
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("toy", image.clone()));
    let options = RepairOptions { check: options(manner(2)), policy: RepairPolicy::default() };
    let repair = plan(&image, 2);
    let problems: Vec<_> = repair.found.findings.iter().collect();
    let declined: Vec<_> = problems
        .iter()
        .copied()
        .filter(|problem| problem.object.inode.is_some_and(|inode| inode.0 == 4))
        .collect();
    let watch = (&Progress::new(), &AtomicBool::new(false));
    let all = Whole { writes: repair.writes(), mends: &repair.mends, found: &problems };
    let rest = fsmend_engine::repair::without(&Checker(Toy), &device, &options, all, &declined, watch)
        .unwrap()
        .unwrap();
    let left = check(&with(&image, &rest.changes), 1);
    let inodes: Vec<u32> = left.findings.iter().filter_map(|problem| Some(problem.object.inode?.0)).collect();
    assert_eq!(inodes, [4]);
}

/// Of each damage beside another one, its own problems are declined: they are there afterwards, and the other one is not.
#[test]
fn each_problem_can_be_declined_by_itself() {
    // What the rest hangs on: a root, and lost+found with what goes there. Nothing is written.
    let hang_together = [rows::ROOT_MISSING.code, rows::UNCONNECTED.code, rows::LOOPED.code];
    let mut kept_whole = Vec::new();
    for (row, damage) in DAMAGES {
        let mut image = image();
        damage(&mut image);
        let declined_keys: Vec<_> = check(&image, 1).findings.iter().map(|problem| problem.key()).collect();
        amend(&mut image, 30, |record| record.links = 7);
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("toy", image.clone()));
        let options = RepairOptions { check: options(manner(2)), policy: RepairPolicy::default() };
        let repair = plan(&image, 2);
        let problems: Vec<_> = repair.found.findings.iter().collect();
        let declined: Vec<_> =
            problems.iter().copied().filter(|problem| declined_keys.contains(&problem.key())).collect();
        let watch = (&Progress::new(), &AtomicBool::new(false));
        let all = Whole { writes: repair.writes(), mends: &repair.mends, found: &problems };
        let rest = fsmend_engine::repair::without(&Checker(Toy), &device, &options, all, &declined, watch);
        let Some(rest) = rest.unwrap() else {
            kept_whole.push(row.code);
            continue;
        };
        let left = check(&with(&image, &rest.changes), 1);
        let has = |code: &str, inode: Option<u32>| {
            left.findings.iter().any(|problem| {
                problem.row.code == code && inode.is_none_or(|inode| problem.object.inode.unwrap().0 == inode)
            })
        };
        assert!(has(row.code, None), "{}: {:?}", row.code, codes(&left));
        assert!(!has(rows::MISMATCH.code, Some(30)), "{}: {:?}", row.code, codes(&left));
    }
    assert_eq!(kept_whole, hang_together);
}

#[test]
fn a_registry_with_it_gives_json_explanations_and_what_happens_to_files() {
    let mut image = image();
    amend(&mut image, 3, |record| record.blocks[0] = 5000);
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("toy", image));
    let family = FAMILIES.recognise(&*device).unwrap();
    assert_eq!(family.name(), "toy");
    let watch = (&Progress::new(), &AtomicBool::new(false));
    let options = RepairOptions { check: options(manner(2)), policy: RepairPolicy::default() };
    let report = json::check_report(family.check(&device, &options.check, watch.0, watch.1).unwrap());
    assert_eq!(report["problems"][0]["code"], rows::POINTER.code);
    assert_eq!(report["problems"][0]["message"], "/d0/f0 (inode 3) has a block outside of the file system");
    assert_eq!(report["counts"][rows::POINTER.code], 1);
    assert_eq!(report["summary"]["kind"], "toy");
    let explained = rows_for(&FAMILIES.catalogue(), "toy.inode.pointer");
    assert_eq!(explained.iter().map(|row| row.loss).collect::<Vec<_>>(), ["The contents of the block."]);
    assert!(rows_for(&FAMILIES.catalogue(), "toy.inode").len() > 5);
    let mut repair = family.plan(&device, &options, watch.0, watch.1).unwrap();
    let last = family.last(&repair.changes);
    assert!(last.iter().any(|(at, _)| *at == 0), "the superblock is written last: {last:?}");
    let files = family.files(&device, &mut repair, &options.check);
    assert!(files.iter().any(|file| file.path.as_deref() == Some("/d0/f0")), "{files:?}");
}
