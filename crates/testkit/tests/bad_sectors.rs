// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repairs of file systems on disks with bad sectors: what was there is lost, nothing else is, and the sectors are written.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, Plan, PlanBuilder};
use fsmend_disksim::{Fault, FaultKind, Machine, SimDisk};
use fsmend_engine::report::JournalUse;
use fsmend_engine::{Action, InodeState, Problem, Progress};
use fsmend_ext_check::repair::{self, Repair, RepairOptions, RepairPolicy};
use fsmend_testkit::crash::Case;
use fsmend_testkit::damage::Survey;
use fsmend_testkit::host::skip;
use fsmend_testkit::image::{Built, build, matrix};
use fsmend_testkit::within::{Manner, checked, options};

const BASES: &[&str] = &["ext4-defaults", "ext3-1k", "ext2-1k"];

/// A tool that empties a journal because it cannot be read just now loses what is in it: that is for the user to decide.
const LEFT_TO_THE_USER: &[&str] = &["journal superblock"];

#[test]
fn bad_sectors_cost_what_stood_in_them_and_are_written() {
    for base in BASES {
        let recipe = matrix::all().into_iter().find(|recipe| recipe.name == *base).unwrap();
        let image = match build(&recipe).unwrap() {
            Built::Image(image) => image,
            Built::Skipped(reason) => {
                skip(&format!("bad sectors of {base}"), &reason);
                continue;
            }
        };
        let survey = Survey::of(&image).unwrap();
        let mut count = 0;
        for (sector, kind) in sectors(&survey) {
            let name = format!("{base}, {kind} in bad sector {sector}");
            count += u32::from(one_bad_sector(name, survey.image.clone(), sector));
        }
        assert!(count > 5, "{count} sectors of {base} mattered");
    }
}

/// A sector with a structure of each kind that the image has.
fn sectors(survey: &Survey) -> BTreeMap<u64, &'static str> {
    let kinds = survey.kinds().into_iter().filter(|kind| !LEFT_TO_THE_USER.contains(kind));
    kinds
        .map(|kind| {
            let structure = survey.structures.iter().rfind(|structure| structure.kind == kind).unwrap();
            let other: Vec<u8> = survey.bytes(structure).iter().map(|byte| !byte).collect();
            (structure.patches(survey, other, false)[0].offset / 512, kind)
        })
        .collect()
}

/// Whether it made a difference.
fn one_bad_sector(name: String, mut image: Vec<u8>, sector: u64) -> bool {
    // What was there is lost.
    image[sector as usize * 512..][..512].fill(0);
    let before = Arc::new(image);
    let disk = SimDisk::new("disk", &Machine::new(1), Arc::clone(&before));
    disk.plan_fault(Fault::lasting(FaultKind::Read, sector..sector + 1));
    let device: Arc<dyn Device> = Arc::new(disk);
    let repair = repaired(&device).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
    let left: Vec<&str> = repair.left.findings.iter().map(|problem| problem.row.code).collect();
    assert!(repair.is_clean(), "{name}: {left:?} is left");
    let (marker, last) = (repair::marker(&device, &repair.changes), repair::last(&repair.changes));
    let builder =
        PlanBuilder { changes: &repair.changes, marker: &marker, last: &last, ..PlanBuilder::default() };
    let plan = Plan::make(&device, &builder).unwrap();
    if !plan.blocks().any(|block| block.is_unreadable) {
        // It is not read: the bitmap of a group without inodes.
        return false;
    }
    let case = Case { name, before, bad_sectors: vec![sector], plan };
    case.sweep(sector..sector + 1).unwrap_or_else(|failure| panic!("{failure}"));
    let done: Arc<dyn Device> = Arc::new(case.done().unwrap());
    let report = checked(&done, Manner::default()).unwrap();
    assert!(!report.findings.is_damaged(), "{}: {:?}", case.name, report.findings.counts());
    done.read_at(sector * 512, &mut [0; 512]).unwrap();
    true
}

#[test]
fn a_name_of_an_unreadable_inode_is_not_said_to_lead_to_a_file_that_is_gone() {
    let recipe = matrix::all().into_iter().find(|recipe| recipe.name == "ext4-defaults").unwrap();
    let image = match build(&recipe).unwrap() {
        Built::Image(image) => image,
        Built::Skipped(reason) => return skip("names of unreadable inodes", &reason),
    };
    let survey = Survey::of(&image).unwrap();
    let inode = survey.structures.iter().rfind(|structure| structure.kind == "inode of a file").unwrap();
    let byte = inode.patches(&survey, vec![0], false)[0].offset;
    let disk = SimDisk::new("disk", &Machine::new(1), Arc::new(survey.image.clone()));
    disk.plan_fault(Fault::lasting(FaultKind::Read, byte / 512..byte / 512 + 1));
    let device: Arc<dyn Device> = Arc::new(disk);
    let mut repair = repaired(&device).unwrap();
    let row = "ext.directory.entry-inode-unused";
    let names: Vec<_> = repair.found.findings.iter().filter(|problem| problem.row.code == row).collect();
    assert!(!names.is_empty(), "{:?}", repair.found.findings.counts());
    // Tables are read in pieces: what stands beside the sector is given up with it, and not said to be damaged.
    let says = |problem: &&&Problem, why: &str| problem.message().ends_with(why);
    assert!(names.iter().any(|problem| says(&problem, "which cannot be read")), "{names:?}");
    let beside = |problem: &&Problem| says(&problem, "which is next to bytes that cannot be read");
    assert!(
        names.iter().all(|problem| says(&problem, "which cannot be read") || beside(problem)),
        "{names:?}"
    );
    let changes = repair.changes.clone();
    let files = repair::files(&device, &mut repair, &options(Manner::default()));
    assert_eq!(repair.changes, changes, "they are only looked at");
    let lost: Vec<_> = files.iter().filter(|file| file.state == InodeState::Unreadable).collect();
    assert!(!lost.is_empty(), "{files:#?}");
    for file in lost {
        let is_name =
            |action: &Action| matches!(action, Action::NameRemoved(path) if file.path.as_ref() == Some(path));
        assert!(
            file.actions.iter().all(is_name) && file.losses.iter().any(|lost| lost.code == row),
            "{file:?}"
        );
    }
}

#[test]
fn a_journal_that_cannot_be_read_is_not_called_clean() {
    for recipe in
        matrix::all().into_iter().filter(|recipe| ["ext4-defaults", "ext3-1k"].contains(&recipe.name))
    {
        let Built::Image(image) = build(&recipe).unwrap() else {
            skip(&format!("unreadable journal of {}", recipe.name), "it cannot be made here");
            continue;
        };
        let survey = Survey::of(&image).unwrap();
        let head = survey.structures.iter().find(|structure| structure.kind == "journal superblock").unwrap();
        let sector = head.record() / 512;
        let uses = |fault: Option<Fault>| {
            let disk = SimDisk::new("disk", &Machine::new(1), Arc::new(survey.image.clone()));
            fault.into_iter().for_each(|fault| disk.plan_fault(fault));
            let device: Arc<dyn Device> = Arc::new(disk);
            let report = checked(&device, Manner::default()).unwrap();
            (report.findings.counts().contains_key("ext.journal.unreadable"), report.summary.journal)
        };
        assert_eq!(uses(None), (false, JournalUse::Clean), "{}", recipe.name);
        let fault = Fault::lasting(FaultKind::Read, sector..sector + 1);
        assert_eq!(uses(Some(fault)), (true, JournalUse::Damaged), "{}", recipe.name);
    }
}

fn repaired(device: &Arc<dyn Device>) -> Result<Repair, String> {
    let options = RepairOptions { check: options(Manner::default()), policy: RepairPolicy::default() };
    let repair = repair::plan(device, &options, &Progress::new(), &AtomicBool::new(false));
    repair.map_err(|refused| refused.to_string())?.written_out(device).map_err(|error| error.to_string())
}
