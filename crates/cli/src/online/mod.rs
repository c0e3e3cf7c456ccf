// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend check --online`: finds a consistent view of a mounted file system, and checks that.

pub mod args;
mod confirm;
mod freeze;
pub mod keep;
mod lvm;
mod mark;
mod pinned;
mod reflink;
pub mod tell;
pub mod view;
pub mod watchdog;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use fsmend_device::{Device, FileDevice, Mounted, Usage, mounted, mounted_at, usage_of};
use fsmend_engine::options::{CheckOptions, SuperblockOptions};
use fsmend_engine::report::{CheckReport, Report};
use fsmend_engine::{Findings, Progress, Refusal, Refused};
use fsmend_session::Family;
use fsmend_session::live::Live;

use crate::check;
use crate::check_args::CheckArgs;
use crate::outcome::{self, Answer, Checked, Outcome};
use crate::ticker::Ticker;
use crate::{machine, target};
use args::ViewChoice;
use freeze::Freezer;
pub use view::{Online, View};

/// A view that stands still.
struct Taken {
    device: Arc<dyn Device>,
    at: SystemTime,
    frozen: Option<Duration>,
    of: String,
}

/// How the file system is checked, and what tells damage from files in use.
#[derive(Clone, Copy)]
struct Rules {
    family: &'static dyn Family,
    live: &'static dyn Live,
}

/// What a check of some view came to.
struct Seen {
    result: Result<CheckReport, Refused>,
    unconfirmed: Findings,
    online: Online,
}

/// Checks all targets, one after the other: each may have to be still for a moment, and never two at once.
pub fn check_all(arguments: &CheckArgs, options: &CheckOptions, cancel: &AtomicBool) -> Vec<Outcome> {
    let targets = match arguments.online.mounted {
        false => arguments.targets.clone(),
        true => mounted(&target::FAMILIES.kernel_types())
            .unwrap_or_default()
            .into_iter()
            .map(|found| found.at)
            .collect(),
    };
    targets.iter().flat_map(|path| check_target(arguments, path, options, cancel)).collect()
}

fn check_target(
    arguments: &CheckArgs,
    path: &Path,
    options: &CheckOptions,
    cancel: &AtomicBool,
) -> Vec<Outcome> {
    let started = Instant::now();
    let refused = |refusal| vec![outcome_of(path, started, Err(refusal))];
    if let Some(outcome) = pinned::check(arguments, path, options, cancel) {
        return vec![outcome];
    }
    if arguments.common.journal.is_some() {
        return refused(Refusal {
            code: "journal-device",
            message: "With --online, -j is for mounts of fsmend whose log is on another device".to_owned(),
            hint: "Leave it out: the kernel knows the journal of what it has mounted".to_owned(),
        });
    }
    match find(path) {
        Err(refusal) => refused(refusal),
        Ok(Some(found)) if !found.read_only => vec![check_mounted(arguments, path, &found, options, cancel)],
        Ok(Some(found)) => check_still(arguments, path, &found.device, View::ReadOnly, options, cancel),
        Ok(None) => check_still(arguments, path, path, View::NotMounted, options, cancel),
    }
}

/// Where the file system that is meant is mounted, if it is mounted.
fn find(path: &Path) -> Result<Option<Mounted>, Refusal> {
    let kinds = target::FAMILIES.kernel_types();
    let found = mounted_at(path, &kinds).map_err(|error| Refusal {
        code: "cannot-open",
        message: format!("{} cannot be found ({error})", path.display()),
        hint: "Check the name (findmnt lists what is mounted)".to_owned(),
    })?;
    if found.is_some() {
        return Ok(found);
    }
    if path.is_dir() {
        return Err(Refusal {
            code: "not-a-mount-point",
            message: format!("No file system that fsmend knows is mounted at {}", path.display()),
            hint: format!(
                "Give the mount point itself, or the device (findmnt -t {} lists them)",
                kinds.join(",")
            ),
        });
    }
    let mounts: Vec<PathBuf> = usage_of(path).into_iter().filter_map(mount_point).collect();
    match mounts.as_slice() {
        [] => Ok(None),
        [one] => Ok(mounted_at(one, &kinds).unwrap_or_default()),
        [one, ..] => Err(Refusal {
            code: "several-mounts",
            message: format!("Several mounted file systems are on {}", path.display()),
            hint: format!("Give their mount points one by one, {} first", one.display()),
        }),
    }
}

fn mount_point(usage: Usage) -> Option<PathBuf> {
    match usage {
        Usage::Mounted { at, .. } => Some(at),
        _ => None,
    }
}

/// Checks what no process can write to just now.
fn check_still(
    arguments: &CheckArgs,
    named: &Path,
    path: &Path,
    view: View,
    options: &CheckOptions,
    cancel: &AtomicBool,
) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for volume in target::volumes_of(path, &arguments.open_options()) {
        let progress = [Progress::new()];
        let mut outcome = None;
        let volume = target::with_journal(volume, &arguments.common);
        Ticker::new(arguments.common.progress).run_beside(&progress, || {
            outcome = Some(check::check_one(arguments, &volume, options, &progress[0], cancel));
        });
        outcomes.extend(outcome.map(|outcome| Outcome {
            target: named.display().to_string(),
            online: Some(Online::new(view, SystemTime::now())),
            ..outcome
        }));
    }
    outcomes
}

fn check_mounted(
    arguments: &CheckArgs,
    path: &Path,
    found: &Mounted,
    options: &CheckOptions,
    cancel: &AtomicBool,
) -> Outcome {
    let started = Instant::now();
    let family = FileDevice::open(&found.device)
        .map_or_else(|_| target::FAMILIES.usual(), |device| target::FAMILIES.of(&device));
    // Rules of the family distinguish damage from the traces of files in use.
    let Some(live) = family.live() else {
        let message = format!(
            "it holds {}, which fsmend checks and repairs, but does not check while it is mounted read-write",
            family.title()
        );
        let hint = "Mount it read-only, or unmount it".to_owned();
        return outcome_of(path, started, Err(Refusal { code: "cannot-check-online", message, hint }));
    };
    let rules = Rules { family, live };
    let progress = [Progress::new()];
    let mut seen = None;
    Ticker::new(arguments.common.progress).run_beside(&progress, || {
        seen = Some(see(arguments, (found, rules), options, &progress[0], cancel));
    });
    let Some(Seen { result, unconfirmed, mut online }) = seen else {
        return outcome_of(path, started, Err(outcome::cancelled()));
    };
    online.unconfirmed = Report::new(unconfirmed);
    match result {
        Ok(report) => {
            if arguments.online.mark_for_repair && report.findings.is_damaged() {
                online.marked = Some(mark::for_repair(found));
            }
            let answer = Answer::Checked(Box::new(Checked::from(report)));
            Outcome { online: Some(online), ..outcome_of(path, started, Ok(answer)) }
        }
        Err(refused) => Outcome {
            found_before: Report::new(*refused.findings),
            online: Some(online),
            ..outcome_of(path, started, Err(refused.refusal))
        },
    }
}

/// Takes the best view there is, and checks it.
fn see(
    arguments: &CheckArgs,
    (found, rules): (&Mounted, Rules),
    options: &CheckOptions,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Seen {
    let choice = arguments.online.view;
    // What stands still needs nothing from a journal on another device, which is neither frozen nor in a snapshot.
    let elsewhere = FileDevice::open(&found.device)
        .is_ok_and(|device| has_external_journal(&device, arguments.common.superblock_options()));
    let options = &CheckOptions { replay: options.replay && !elsewhere, ..options.clone() };
    let mut tried = Vec::new();
    let wants = |view| choice == ViewChoice::Auto || choice == view;
    if wants(ViewChoice::Lvm) {
        match see_snapshot((found, rules), options, progress, cancel) {
            Ok(seen) => return seen,
            Err(why) => tried.push(format!("No LVM snapshot: {why}.")),
        }
    }
    let mut freezer =
        if choice == ViewChoice::Lvm { None } else { Some(Freezer::new(found, arguments.online.limit())) };
    if let (true, Some(Ok(freezer))) = (wants(ViewChoice::Reflink), &mut freezer) {
        match reflink::take(found, freezer, cancel) {
            Ok(taken) => {
                return see_taken((View::ReflinkCopy, rules), taken, tried, options, progress, cancel);
            }
            Err(why) => tried.push(format!("No reflink copy: {why}.")),
        }
    }
    if wants(ViewChoice::Freeze) {
        let freezer = freezer.unwrap_or_else(|| Err("it was not asked for".to_owned()));
        let mut seen = confirm::see((found, rules), freezer, options, progress, cancel);
        seen.online.tried = tried;
        return seen;
    }
    if let Some(Err(why)) = freezer {
        tried.push(format!("No freeze: {why}."));
    }
    no_view(tried)
}

/// The view that was asked for is not possible.
fn no_view(tried: Vec<String>) -> Seen {
    let refusal = Refusal {
        code: "no-view",
        message: format!("The requested view is not available. {}", tried.join(" ").trim_end_matches('.')),
        hint: "Let fsmend choose the view (--view auto)".to_owned(),
    };
    let result = Err(Refused { refusal, findings: Box::new(Findings::new()) });
    let online = Online { tried, ..Online::new(View::Live, SystemTime::now()) };
    Seen { result, unconfirmed: Findings::new(), online }
}

fn see_snapshot(
    (found, rules): (&Mounted, Rules),
    options: &CheckOptions,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<Seen, String> {
    let (taken, snapshot) = lvm::take(found)?;
    let seen = see_taken((View::LvmSnapshot, rules), taken, Vec::new(), options, progress, cancel);
    if snapshot.is_whole() {
        return Ok(seen);
    }
    Err("the snapshot is full: too much data was written during the check".to_owned())
}

/// Checks a view that stands still.
fn see_taken(
    (view, rules): (View, Rules),
    taken: Taken,
    tried: Vec<String>,
    options: &CheckOptions,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Seen {
    let (of, frozen) = (Some(taken.of), taken.frozen);
    let online = Online { of, frozen, tried, ..Online::new(view, taken.at) };
    let result = rules.family.check(&taken.device, options, progress, cancel);
    drop(taken.device);
    judged(rules, result, online)
}

/// What is a problem on a view that stands still, and what could be the trace of a file in use.
fn judged(rules: Rules, result: Result<CheckReport, Refused>, mut online: Online) -> Seen {
    let mut report = match result {
        Ok(report) => report,
        Err(refused) => return Seen { result: Err(refused), unconfirmed: Findings::new(), online },
    };
    let judged = rules.live.judge(std::mem::take(&mut report.findings), report.summary.journal);
    report.findings = judged.stands;
    if judged.undecided.is_damaged() {
        online.reason = Some(
            "Without a journal, deleted files that are still open cannot be distinguished from leaked inodes"
                .to_owned(),
        );
    }
    Seen { result: Ok(report), unconfirmed: judged.undecided, online }
}

fn outcome_of(path: &Path, started: Instant, result: Result<Answer, Refusal>) -> Outcome {
    Outcome {
        target: path.display().to_string(),
        partition: None,
        warnings: Vec::new(),
        wall: started.elapsed(),
        result,
        found_before: Report::default(),
        online: None,
    }
}

/// Whether the user wants it to end.
fn is_cancelled(cancel: &AtomicBool) -> bool {
    cancel.load(Relaxed)
}

fn has_external_journal(device: &FileDevice, options: SuperblockOptions) -> bool {
    let family = target::FAMILIES.of(device);
    family.external_journal(device, options, machine::seconds_since_epoch()).is_some()
}
