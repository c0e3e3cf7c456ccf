// SPDX-License-Identifier: MIT OR Apache-2.0
//! Crash sweeps over random plans and over real repairs.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_base::SeededRandom;
use fsmend_device::{
    ApplyOptions, Condition, Control, Device, MemoryDevice, Plan, PlanBuilder, Way, WritableDevice, apply,
    recover,
};
use fsmend_disksim::{Machine, SimDisk, SimFile};
use fsmend_engine::Progress;
use fsmend_ext_check::repair::{self, RepairOptions, RepairPolicy};
use fsmend_ext_driver::mkfs::Kind;
use fsmend_testkit::crash::{Case, Swept};
use fsmend_testkit::damage::{Damage, Survey};
use fsmend_testkit::driver;
use fsmend_testkit::host::skip;
use fsmend_testkit::image::{Built, build, matrix};
use fsmend_testkit::within::{Manner, options};

/// Writes at random places: single bytes, blocks, runs over many blocks; with or without a marker.
fn random_case(seed: u64) -> Case {
    let mut random = SeededRandom::new(seed);
    let len = 40_000 + random.below(400_000) as usize;
    let before: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
    let (mut changes, mut at) = (Vec::new(), random.below(3000));
    for _ in 0..1 + random.below(12) {
        let count = match random.below(3) {
            0 => 1 + random.below(8),
            1 => 4096,
            _ => random.below(20_000),
        };
        let end = (at + count).min(len as u64);
        if at >= end {
            break;
        }
        changes.push((at, (at..end).map(|_| random.next_u64() as u8).collect::<Vec<u8>>()));
        at = end + random.below(40_000);
    }
    let marker: Vec<(u64, Vec<u8>)> =
        (0..random.below(3)).map(|mark| (1024 + mark * 9000, vec![7; 700])).collect();
    let device = MemoryDevice::new("random", before.clone());
    let builder =
        PlanBuilder { changes: &changes, marker: &marker, last: &[(0, 2048)], ..PlanBuilder::default() };
    let plan = Plan::make(&device, &builder).unwrap();
    Case { name: format!("random plan {seed}"), before: Arc::new(before), bad_sectors: Vec::new(), plan }
}

#[test]
fn random_plans_survive_every_cut() {
    let mut swept = Swept::default();
    for seed in 0..50 {
        swept +=
            random_case(seed).sweep(seed * 10..seed * 10 + 2).unwrap_or_else(|failure| panic!("{failure}"));
    }
    assert!(
        swept.cuts > 5000 && swept.begun_anew > 500 && swept.finished > 500 && swept.taken_back > 500,
        "{swept:?}"
    );
}

#[test]
fn every_failing_request_stops_the_apply_and_loses_nothing() {
    let failed: u64 = (100..130)
        .map(|seed| random_case(seed).sweep_faults(seed).unwrap_or_else(|failure| panic!("{failure}")))
        .sum();
    assert!(failed > 1000, "{failed} requests failed");
}

/// Sound images that are small, of every format and with checksums or without.
const BASES: &[&str] = &[
    "ext4-defaults",
    "ext2-1k",
    "ext3-1k",
    "extents-deep-1k",
    "quota-1k",
    "uninit-bg",
    "revision-0",
    "orphan-file-1k",
];

/// Repairs for the sweep; `FSMEND_CRASH_CASES` asks for more.
fn repairs_wanted() -> usize {
    std::env::var("FSMEND_CRASH_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64)
}

/// The repair of a damaged image, if it needs one and one can be made.
fn repair_case(name: String, image: Vec<u8>) -> Option<Case> {
    let memory: Arc<dyn Device> = Arc::new(MemoryDevice::new(name.clone(), image.clone()));
    let options = RepairOptions { check: options(Manner::default()), policy: RepairPolicy::default() };
    let repair = repair::plan(&memory, &options, &Progress::new(), &AtomicBool::new(false)).ok()?;
    let repair = repair.written_out(&memory).ok()?;
    if repair.changes.is_empty() || !repair.is_clean() {
        return None;
    }
    let (marker, last) = (repair::marker(&memory, &repair.changes), repair::last(&repair.changes));
    let builder =
        PlanBuilder { changes: &repair.changes, marker: &marker, last: &last, ..PlanBuilder::default() };
    let plan = Plan::make(&memory, &builder).unwrap();
    Some(Case { name, before: Arc::new(image), bad_sectors: Vec::new(), plan })
}

#[test]
fn repairs_survive_every_cut() {
    let mut surveys: Vec<(&str, Survey)> =
        BASES.iter().filter_map(|base| Some((*base, survey(base)?))).collect();
    surveys.extend(rext3_surveys());
    if surveys.is_empty() {
        return;
    }
    let (mut swept, mut repairs) = (Swept::default(), 0);
    for seed in 0..repairs_wanted() as u64 * 8 {
        if repairs == repairs_wanted() {
            break;
        }
        let (base, survey) = &surveys[seed as usize % surveys.len()];
        let mut image = survey.image.clone();
        for part in 0..1 + seed % 3 {
            Damage::of_a_field(survey, seed * 3 + part).apply_to_bytes(&mut image);
        }
        let Some(case) = repair_case(format!("{base} with damage {seed}"), image) else { continue };
        swept += case.sweep(seed..seed + 2).unwrap_or_else(|failure| panic!("{failure}"));
        repairs += 1;
    }
    assert_eq!(repairs, repairs_wanted(), "so many could be repaired at all; {swept:?}");
}

/// Every image in the folder `FSMEND_CRASH_FOLDER`, if there is one: for those who have damaged images of their own.
#[test]
fn repairs_of_other_images_survive_every_cut() {
    let Some(folder) = std::env::var_os("FSMEND_CRASH_FOLDER") else { return };
    let mut swept = Swept::default();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let image = std::fs::read(&path).unwrap();
        let Some(case) = repair_case(path.display().to_string(), image) else { continue };
        swept += case.sweep(1..3).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(case.sweep_faults(1).unwrap_or_else(|failure| panic!("{failure}")) > 0);
    }
    assert!(swept.cuts > 0, "nothing in it is repaired");
}

/// Images of our own format, which only our driver makes.
fn rext3_surveys() -> impl Iterator<Item = (&'static str, Survey)> {
    let bases = driver::BASES.iter().filter(|base| base.kind == Kind::Rext3);
    bases.map(|base| {
        let base = driver::Base { bytes: base.bytes / 3, ..*base };
        let (image, _) = driver::worked(&base, 3, 300).unwrap();
        (base.name, Survey::of_bytes(image).unwrap())
    })
}

fn survey(base: &str) -> Option<Survey> {
    let recipe = matrix::all().into_iter().find(|recipe| recipe.name == base).unwrap();
    match build(&recipe).unwrap() {
        Built::Image(image) => Some(Survey::of(&image).unwrap()),
        Built::Skipped(reason) => {
            skip(&format!("crash sweep of {base}"), &reason);
            None
        }
    }
}

/// A log on one disk, a target, and a journal that is written when the target is.
struct Trio {
    machine: Machine,
    target: SimDisk,
    journal: SimDisk,
    log: SimFile,
}

impl Trio {
    fn new(seed: u64, before: &Arc<Vec<u8>>) -> Trio {
        let machine = Machine::new(seed);
        Trio {
            target: SimDisk::new("target", &machine, Arc::clone(before)),
            journal: SimDisk::new("journal", &machine, Arc::new(vec![1; 4096])),
            log: SimFile::create("log", &machine),
            machine,
        }
    }

    /// Runs `work` with what writes the journal.
    fn with_journal<T>(&self, work: impl FnOnce(Control<'_>) -> T) -> T {
        let close = |way| {
            self.journal.write_at(0, &[if way == Way::Back { 1 } else { 2 }; 1024])?;
            self.journal.sync()
        };
        work(Control { close: &close, ..Control::unattended() })
    }
}

#[test]
fn a_journal_elsewhere_is_emptied_when_the_file_system_is_written_and_not_before() {
    let Case { before, plan, .. } = random_case(7);
    let (mut finished, mut untouched) = (0, 0);
    for (seed, cut) in (0..6).flat_map(|seed| (0..60).map(move |cut| (seed, cut))) {
        let trio = Trio::new(seed, &before);
        trio.machine.cut_power_at(cut);
        let done = trio.with_journal(|control| {
            let options = ApplyOptions { start: 0, keep_undo: false, control };
            apply(&plan, &trio.target, &trio.log, &options)
        });
        if trio.machine.is_on() {
            assert!(done.is_ok() && cut > 8);
            continue;
        }
        trio.machine.restart();
        let is_emptied = trio.journal.bytes()[..1024] != [1; 1024];
        let is_written = plan.compare(&trio.target) == Condition::Done;
        assert!(!is_emptied || is_written, "seed {seed}, cut {cut}: emptied too early");
        if trio.log.is_there() {
            // Once cut short itself.
            trio.machine.cut_power_at(seed);
            let _ =
                trio.with_journal(|control| recover(&trio.log, &trio.target, Way::AsBegun, false, control));
            trio.machine.restart();
        }
        if trio.log.is_there() {
            trio.with_journal(|control| recover(&trio.log, &trio.target, Way::AsBegun, false, control))
                .unwrap();
        }
        trio.machine.restart();
        let is_emptied = trio.journal.bytes()[..1024] == [2; 1024];
        match plan.compare(&trio.target) {
            Condition::Done if is_emptied => finished += 1,
            Condition::AsPlanned if trio.journal.bytes() == [1; 4096] => untouched += 1,
            other => panic!("seed {seed}, cut {cut}: {other:?}, emptied: {is_emptied}"),
        }
    }
    assert!(finished > 20 && untouched > 20, "{finished} {untouched}");
}
