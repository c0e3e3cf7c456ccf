// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend repair`: works out a plan, shows it, writes it.

mod args;
mod description;
mod saved;
mod show;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use fsmend_device::{Device, OpenOptions, Plan, PlanSpill, ReadLimit, WriteOptions};
use fsmend_engine::options::{Duplicates, RepairOptions, RepairPolicy};
use fsmend_engine::pool::Mode;
use fsmend_engine::repair::{Rest, Whole, Writes};
use fsmend_engine::report::{CheckReport, Repair, Report};
use fsmend_engine::{Findings, Problem, Progress, Refusal, Refused};

pub use args::{ApplyArgs, DuplicatesArg, RepairArgs, UndoArgs};
pub use saved::{apply, undo};

use self::description::{Description, plan_text};
pub use self::description::{label, verbs};
use self::show::{Ending, Show};
use fsmend_session::hold::{self, may_hold_undo};
use fsmend_session::{Failure, Hold, RecoveredNames, Undo, Written, external, interrupted, places};

use crate::common_args::{Common, Format};
use crate::outcome::{CANCELLED_CODE, Checked};
use crate::remedies::Remedies;
use crate::stopping::{self, Watch};
use crate::target::NotedDevice;
use crate::ticker::{self, Ticker};
use crate::{background, check, machine, target};

/// Runs the command and returns the exit code.
pub fn run(arguments: &RepairArgs) -> u8 {
    let cancel = Arc::new(AtomicBool::new(false));
    if let Err(error) = check::stop_on_signals(&cancel) {
        eprintln!("fsmend: cannot handle signals ({error}): an interrupt ends the run at once.");
    }
    stopping::in_thread(|| {
        let show = Show::new(arguments);
        let limit = check::read_limit(arguments.common.read_limit, &cancel);
        let ending = work(arguments, limit, &show, &cancel).unwrap_or_else(|ending| ending);
        show.end(&ending)
    })
}

/// While nothing is written and nothing was said: a signal ends the process, however long reads take.
fn watch_signals(arguments: &RepairArgs) -> Watch {
    let arguments = arguments.clone();
    Watch::new(move || {
        ticker::clear_line(arguments.common.progress);
        match arguments.common.format {
            Format::Text => {
                eprintln!("fsmend: {}: stopped; nothing was written.", arguments.target.display());
            }
            _ => {
                Show::new(&arguments).end(&Ending::Stopped);
            }
        }
    })
}

/// A plan that is likely to take more than one part of so many of `--memory` is put into a file.
const PLAN_SHARE: u64 = 8;

/// What is to be repaired, opened.
struct Work {
    device: Arc<dyn Device>,
    /// The same, which remembers where it could not be read.
    noted: Arc<NotedDevice>,
    /// Not with `--dry-run` and `--plan`.
    hold: Option<Hold>,
    start: u64,
    /// How fast may be read.
    limit: Option<Arc<ReadLimit>>,
    /// The external journal: the one that was named, or the one that was found.
    journal: Option<PathBuf>,
    /// Where the other part of a divided file system is, which `device` includes.
    other_part: Option<PathBuf>,
}

impl Work {
    fn new(start: u64, device: Arc<dyn Device>, hold: Option<Hold>, limit: Option<Arc<ReadLimit>>) -> Work {
        let noted = Arc::new(NotedDevice::new(device));
        let other_part = hold.as_ref().and_then(|hold| hold.other_part.clone());
        let device = Arc::clone(&noted) as Arc<dyn Device>;
        Work { device, noted, hold, start, limit, journal: None, other_part }
    }

    /// Looks for the external journal, if there should be one and none was given.
    fn with_journal(self, common: &Common, show: &Show) -> Work {
        let tell = |sentence: String| show.warn(&sentence);
        let (environment, options) = (target::environment(), common.superblock_options());
        let find = || target::external_journal(&*self.device, &environment, options, tell);
        let journal = common.journal.clone().or_else(find);
        Work { journal, ..self }
    }
}

fn work(
    arguments: &RepairArgs,
    limit: Option<Arc<ReadLimit>>,
    show: &Show,
    cancel: &AtomicBool,
) -> Result<Ending, Ending> {
    let started = Instant::now();
    // What is found out here need not be found out after hours.
    if let Some(place) = &arguments.undo {
        may_hold_undo(place).map_err(Ending::Failed)?;
    }
    if let Some(place) = &arguments.plan {
        places::for_plan(place).map_err(|why| Ending::Failed(Failure::Place(place.clone(), why)))?;
    }
    let watch = watch_signals(arguments);
    let opened = open(arguments, limit, show).map_err(Ending::Refused);
    drop(watch);
    let work = opened?;
    let was_interrupted = finish_interrupted(arguments, &work, show, cancel)?;
    let work = work.with_journal(&arguments.common, show);
    let environment = target::environment();
    let family = environment.families.of(&work.device);
    if work.hold.is_some() {
        let mut tell = |sentence: String| show.warn(&sentence);
        family.wait_for_others(&work.device, &environment, &mut tell, cancel).map_err(refused)?;
    }
    let watch = watch_signals(arguments);
    let planned = plan(arguments, &work, cancel);
    if let Some(told) = target::unreadable(&work.noted) {
        show.warn(&told);
    }
    let mut repair = planned.map_err(|refused| ended(refused, show))?;
    let is_clean = repair.is_clean();
    let check = repair_options(arguments, &work).map_err(Ending::Refused)?.check;
    let files = family.files(&work.device, &mut repair, &check);
    let Repair { found, left, rounds, changes, copies, mends, journal_changes, later } = repair;
    let writes = Writes { changes: &changes, copies: &copies };
    let found_later = if arguments.step { later.iter().cloned().collect() } else { Vec::new() };
    let later = Report::new(later);
    let left = Report::new(left.findings);
    let mut checked = Checked::from(found);
    let journal = external::to_json(family, work.journal.as_deref(), &journal_changes)
        .map_err(|why| Ending::Failed(Failure::Journal(why)))?;
    let recovered_names = RecoveredNames::of(&target::FAMILIES.recovering(), &[&checked.report, &later], &[]);
    let target = absolute(&arguments.target);
    let remedies = Remedies { duplicates: arguments.duplicates };
    let mut description = Description::new(&checked.report, &later, files, remedies);
    if show.is_html() || !writes.is_empty() {
        let layout = family.layout(&work.device, &check, show.is_html());
        description.structures =
            layout.as_ref().map_or(Vec::new(), |layout| layout.by_structure(writes.places()));
        if show.is_html() {
            checked.set_map(layout, family.shapes(&work.device, &check));
        }
    }
    let with = (journal.clone(), &recovered_names);
    let log_device = work.other_part.as_deref().map(absolute);
    let place = (target.as_str(), work.start, log_device.as_deref());
    let text = plan_text(place, &checked.report, &description, with);
    let identity = format!("{} {}", checked.summary.uuid, checked.summary.label);
    // Where nothing is written, no file is made either: the target may be mounted, and the folder lie on it.
    let reads_only = arguments.dry_run || arguments.plan.is_some();
    let above = if reads_only { u64::MAX } else { check.memory / PLAN_SHARE };
    let spill = PlanSpill { above, file: &|room| environment.scratch(room) };
    let plan =
        hold::plan(&environment, &*work.device, &identity, &text, writes, &spill).map_err(Ending::Failed)?;
    let is_sound = plan.is_empty() && is_clean;
    let is_damaged = checked.report.is_damaged();
    drop(watch);
    if cancel.load(Relaxed) {
        return Err(Ending::Stopped);
    }
    show.plan((checked, later), description, started.elapsed(), &plan, (rounds, &left));
    if is_sound {
        return Ok(if was_interrupted { Ending::FinishedOnly } else { Ending::Nothing });
    }
    if !is_clean {
        return Ok(Ending::Impossible);
    }
    if let Some(file) = &arguments.plan {
        plan.save(file).map_err(|error| Ending::Failed(Failure::Place(file.clone(), error.to_string())))?;
        return Ok(Ending::Saved(file.clone()));
    }
    let declined = show.may_write(arguments, is_damaged, cancel)?;
    // It is reported at the end as well.
    let recovered_names = show.recovered_names(&declined);
    if declined.is_empty() {
        return Ok(Ending::Written(write(arguments, &work, &plan, cancel)?));
    }
    let problems = show.problems();
    let found: Vec<&Problem> = problems.iter().collect();
    let progress = Progress::new();
    let rest = in_background(arguments, &work, |options| {
        let declined: Vec<&Problem> = declined.iter().collect();
        let whole = Whole { writes, mends: &mends, found: &found };
        family.without(&work.device, options, whole, &declined, (&progress, cancel))
    });
    let rest = rest.map_err(|refused| ended(refused, show))?;
    let Some(rest) = rest else { return Err(Ending::NotSeparable) };
    let mut rest = rest_of(rest, (&problems, &declined), found_later);
    let files = family.files(&work.device, &mut rest, &check);
    let Repair { found, changes, copies, later, .. } = rest;
    let writes = Writes { changes: &changes, copies: &copies };
    let (found, later) = (Report::new(found.findings), Report::new(later));
    let description = Description::new(&found, &later, files, remedies);
    let text = plan_text(place, &found, &description, (journal, &recovered_names));
    let plan =
        hold::plan(&environment, &*work.device, &identity, &text, writes, &spill).map_err(Ending::Failed)?;
    show.rest(&description, &plan);
    Ok(Ending::WrittenInPart(write(arguments, &work, &plan, cancel)?))
}

/// A path that leads there from any folder.
fn absolute(path: &Path) -> String {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// A repair of all `problems` but those that were `declined`, in the form in which it can be described.
fn rest_of(rest: Rest, (problems, declined): (&[Problem], &[Problem]), found_later: Vec<Problem>) -> Repair {
    let told = |problem: &Problem| (problem.key(), problem.message());
    let declined: BTreeSet<_> = declined.iter().map(told).collect();
    let mut found = Findings::new();
    let wanted = problems.iter().filter(|problem| !declined.contains(&told(problem)));
    wanted.for_each(|problem| found.raise(problem.clone()));
    let mut later = Findings::new();
    found_later.into_iter().for_each(|problem| later.raise(problem));
    let Rest { changes, left } = rest;
    Repair {
        found: CheckReport { findings: found, ..CheckReport::default() },
        left,
        rounds: 1,
        changes,
        copies: Vec::new(),
        mends: Vec::new(),
        later,
        journal_changes: Vec::new(),
    }
}

/// Opens the target, for writing unless nothing is to be written.
fn open(arguments: &RepairArgs, limit: Option<Arc<ReadLimit>>, show: &Show) -> Result<Work, Refusal> {
    let options = OpenOptions { offset: arguments.common.offset, partition: arguments.common.partition };
    let reads_only = arguments.dry_run || arguments.plan.is_some();
    let (environment, named) = (target::environment(), arguments.common.journal.as_deref());
    let (superblock, tell) = (arguments.common.superblock_options(), |text: String| show.warn(&text));
    if reads_only {
        let opened = fsmend_device::open(&arguments.target, &options, &target::FAMILIES)
            .map_err(|error| target::refusal(&error))?;
        for usage in opened.usage.iter().filter(|usage| usage.may_write()) {
            show.warn(&format!("{usage}: a change to the file system makes the plan invalid."));
        }
        let only = only_one(opened.targets, |target| target.partition)?;
        let start = target::start_of(&*only.device, arguments.common.offset);
        let known = (&environment, superblock);
        let other_part = target::other_part(&*only.device, named, known, tell);
        let device = target::whole(&only.device, other_part.as_deref(), known, |_| {})?;
        let work = Work::new(start, target::limited(device, limit.as_ref()), None, limit);
        return Ok(Work { other_part, ..work });
    }
    let holds = target::hold(&arguments.target, &options, WriteOptions::default())
        .map_err(|error| target::refusal(&error))?;
    let mut hold = only_one(holds, |hold| hold.target.partition)?.whole(named, superblock, tell)?;
    hold.journal.clone_from(&arguments.common.journal);
    let device = target::limited(hold.device(), limit.as_ref());
    Ok(Work::new(hold.target.start, device, Some(hold), limit))
}

/// One file system is repaired at a time.
fn only_one<T>(mut found: Vec<T>, partition: impl Fn(&T) -> Option<u32>) -> Result<T, Refusal> {
    if found.len() == 1
        && let Some(only) = found.pop()
    {
        return Ok(only);
    }
    let numbers: Vec<String> = found.iter().filter_map(partition).map(|number| number.to_string()).collect();
    Err(Refusal {
        code: "several-partitions",
        message: format!("it has several file systems: partitions {}", numbers.join(", ")),
        hint: "Select one with --partition".to_owned(),
    })
}

/// Ends what an earlier run has left; whether there was something.
fn finish_interrupted(
    arguments: &RepairArgs,
    work: &Work,
    show: &Show,
    cancel: &AtomicBool,
) -> Result<bool, Ending> {
    let Some(hold) = &work.hold else {
        interrupted::refuse(&target::environment(), &arguments.target, work.start, &*work.device)
            .map_err(Ending::Refused)?;
        return Ok(false);
    };
    let told = hold.finish_interrupted(cancel).map_err(Ending::Failed)?;
    told.iter().for_each(|told| show.tell_first(&told.to_string()));
    Ok(!told.is_empty())
}

fn plan(arguments: &RepairArgs, work: &Work, cancel: &AtomicBool) -> Result<Repair, Refused> {
    let progress = [Progress::timed(machine::STAGE_CLOCK.wall)];
    let mut planned = None;
    let common = &arguments.common;
    let target = std::slice::from_ref(&arguments.target);
    let ticker = Ticker::new(common.progress).limited(common.read_limit).reading(target);
    ticker.run_beside(&progress, || {
        planned = Some(in_background(arguments, work, |options| {
            target::FAMILIES.of(&work.device).plan(&work.device, options, &progress[0], cancel)
        }));
    });
    planned.unwrap_or_else(|| Err(plain(cancelled())))
}

/// Works something out, in the background if that was asked for. What is written is never written there: it would keep a
/// device half-written for as long as others are busy.
fn in_background<T: Send>(
    arguments: &RepairArgs,
    work: &Work,
    work_out: impl FnOnce(&RepairOptions) -> Result<T, Refused> + Send,
) -> Result<T, Refused> {
    let mut options = repair_options(arguments, work).map_err(plain)?;
    options.check.schedule = machine::schedule(None, arguments.common.background);
    let (threads, mode) = (options.check.threads, options.check.schedule.mode);
    let within = |allowance| {
        options.check.allowance = allowance;
        work_out(&options)
    };
    match mode {
        _ if arguments.common.background => background::run(threads, |allowance| within(Some(allowance))),
        Mode::ResourceAware => background::follow_idle(threads, |allowance| within(Some(allowance))),
        _ => within(None),
    }
}

fn plain(refusal: Refusal) -> Refused {
    Refused { refusal, findings: Default::default() }
}

fn repair_options(arguments: &RepairArgs, work: &Work) -> Result<RepairOptions, Refusal> {
    let external = check::external_journal(work.journal.as_deref(), work.limit.as_ref())?;
    let policy = RepairPolicy {
        duplicates: match arguments.duplicates {
            DuplicatesArg::Clone => Duplicates::Clone,
            DuplicatesArg::Zero => Duplicates::Zero,
            DuplicatesArg::LostFound => Duplicates::LostFound,
            DuplicatesArg::Delete => Duplicates::Delete,
        },
        unshare: arguments.unshare,
        former_names: !arguments.bare_numbers,
        ..RepairPolicy::default()
    };
    Ok(RepairOptions { check: check::options(&arguments.common, external), policy })
}

fn cancelled() -> Refusal {
    Refusal {
        code: CANCELLED_CODE,
        message: "stopped before the plan was complete".to_owned(),
        hint: "Run it again".to_owned(),
    }
}

fn refused(refusal: Refusal) -> Ending {
    if refusal.code == CANCELLED_CODE { Ending::Stopped } else { Ending::Refused(refusal) }
}

/// Why there is no plan; what was found on the way is reported.
fn ended(refused: Refused, show: &Show) -> Ending {
    if refused.refusal.code == CANCELLED_CODE {
        return Ending::Stopped;
    }
    show.found_before(&Report::new(*refused.findings));
    Ending::Refused(refused.refusal)
}

fn write(arguments: &RepairArgs, work: &Work, plan: &Plan, cancel: &AtomicBool) -> Result<Written, Ending> {
    let Some(hold) = &work.hold else { return Err(Ending::Stopped) };
    let written = hold.commit(plan, &undo_wish(arguments.undo.as_deref(), arguments.no_undo), cancel);
    written.map_err(Ending::Failed)
}

/// What becomes of the log.
fn undo_wish(place: Option<&Path>, no_undo: bool) -> Undo {
    match place {
        _ if no_undo => Undo::Drop,
        Some(place) => Undo::At(place.to_owned()),
        None => Undo::Keep,
    }
}
