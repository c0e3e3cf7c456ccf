// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets that are written: opened so that no other process uses them, finished where an earlier run was cut short, written through a
//! log that survives anything.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{
    ApplyError, ApplyOptions, Control, Device, FoundLog, LogFile, LogOnDisk, OpenError, OpenOptions, Plan,
    PlanBuilder, PlanError, PlanSpill, Tested, Unrestored, Way, WritableDevice, WritableTarget, WriteError,
    WriteErrorKind, WriteOptions, WriteTest, apply, create_log, create_log_in, end_write_test, inspect_log,
    is_write_test, log_len, open_writable, overtaken_write_test, recover, remove_closed_logs,
};
use fsmend_engine::Refusal;
use fsmend_engine::options::SuperblockOptions;
use fsmend_engine::repair::Writes;

use crate::external::{Journal, JournalError};
use crate::family::{Change, Family};
use crate::interrupted::{self, Event};
use crate::recovered_names::RecoveredNames;
use crate::undo_place::Reserved;
use crate::{Environment, ending, open, places};

/// A target that no other process uses as long as this lives.
pub struct Hold {
    /// The path as the user named it.
    pub path: PathBuf,
    /// What is behind it.
    pub target: WritableTarget,
    /// Where the user says that its external journal is.
    pub journal: Option<PathBuf>,
    /// Where the other part of a divided file system is.
    pub other_part: Option<PathBuf>,
    environment: Environment,
}

/// What becomes of the log when all is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undo {
    /// It stays where it is.
    Keep,
    /// It stays, in this place.
    At(PathBuf),
    /// It goes.
    Drop,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Blocks of 4 KiB.
    pub blocks: u64,
    /// The undo file, if there is one.
    pub undo: Option<PathBuf>,
    /// What did not go as it should, though all is written.
    pub warning: Option<String>,
    /// What tells the former names of what is in `lost+found` by now, if there is anything to tell.
    pub names: Option<PathBuf>,
}

impl Written {
    fn warn(&mut self, why: String) {
        self.warning = Some(self.warning.take().map_or(why.clone(), |first| format!("{first}; {why}")));
    }
}

/// Where former names were kept, or why they could not be.
type Kept = io::Result<Option<PathBuf>>;

/// Why something was not written.
#[derive(Debug)]
pub enum Failure {
    /// There is no place for a log: where it was tried, and why not.
    NoLog(io::Error),
    /// The undo file, or the plan, cannot be put where the user wants it: where, and why.
    Place(PathBuf, String),
    /// The plan cannot be made.
    Plan(PlanError),
    /// The plan could not be carried out. The place of the log, if it waits for the next run.
    Apply(ApplyError, Option<PathBuf>),
    /// A block could not be written.
    Write(WriteError),
    /// The external journal cannot be written: why. Nothing was written to the file system either.
    Journal(JournalError),
    /// There is no superblock that could say that the target is being tested.
    NoMark,
    /// What an interrupted write test had saved cannot be kept in a file.
    NotKept(io::Error),
    /// An interrupted write test has left blocks that do not take back what they held, so many; the log that has it.
    Unrestored(usize, String),
}

/// What was found of interrupted runs.
#[derive(Default)]
pub struct Finished {
    /// What became of it.
    pub told: Vec<Event>,
    /// What a write test could not give back to bad blocks.
    pub unrestored: Vec<Unrestored>,
    /// Whether a write test was not ended, because the file system was used since: blocks may have lost what they held.
    pub is_overtaken: bool,
}

impl Failure {
    /// Whether a log waits for the next run.
    pub fn leaves_log(&self) -> bool {
        matches!(self, Failure::Apply(_, Some(_)))
    }

    /// Whether the user stopped it.
    pub fn is_stop(&self) -> bool {
        matches!(self, Failure::Apply(ApplyError::Stopped { .. }, _))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NoLog(error) => write!(
                f,
                "no log can be kept ({error}), and without one nothing is written; FSMEND_STATE_DIR can name a folder for it"
            ),
            Failure::Place(place, why) => {
                write!(f, "nothing can be kept in {}: {why}; nothing was written", place.display())
            }
            Failure::Plan(error) => error.fmt(f),
            Failure::Apply(error, None) => error.fmt(f),
            Failure::Apply(error, Some(log)) => write!(f, "{error}. The log is {}", log.display()),
            Failure::Write(error) => error.fmt(f),
            Failure::Journal(why) => {
                write!(f, "the external journal cannot be written: {why}; nothing was written")
            }
            Failure::NoMark => write!(
                f,
                "its superblock cannot be believed, and could not say that the blocks are being tested; repair it first"
            ),
            Failure::NotKept(error) => {
                write!(
                    f,
                    "what a write test had saved cannot be kept in a file ({error}); nothing was written"
                )
            }
            Failure::Unrestored(blocks, log) => write!(
                f,
                "{blocks} blocks do not take back what they held before an interrupted write test; it is kept in {log}"
            ),
        }
    }
}

impl std::error::Error for Failure {}

impl Hold {
    /// Opens all file systems behind `path`, when a mount of it that is ending has ended (`announce`: [`ending::wait`]).
    pub fn open(
        path: &Path,
        options: &OpenOptions,
        rights: WriteOptions,
        environment: &Environment,
        announce: &mut dyn FnMut(u32),
    ) -> Result<Vec<Hold>, OpenError> {
        ending::wait(path, environment.pace, announce);
        let opened = open_writable(path, options, rights, &environment.families)?;
        let hold = |target| Hold {
            path: path.to_owned(),
            target,
            journal: None,
            other_part: None,
            environment: environment.clone(),
        };
        Ok(opened.targets.into_iter().map(hold).collect())
    }

    /// With the part that is on another device, if its file system is divided: the one at `named`, or else the one that is found. So a plan is carried out on both, in one order.
    pub fn whole(
        mut self,
        named: Option<&Path>,
        options: SuperblockOptions,
        tell: impl FnOnce(String),
    ) -> Result<Hold, Refusal> {
        let device = self.device();
        let Some(place) = open::other_part(&*device, named, (&self.environment, options), tell) else {
            return Ok(self);
        };
        let refused = |message| {
            let hint = "Give the device of the log with -j".to_owned();
            open::unusable_part(&place, Refusal { code: "journal-device", message, hint })
        };
        let driver = self.family().driver().ok_or_else(|| refused("nothing writes it".to_owned()))?;
        let joined = driver.with_log(Arc::clone(&self.target.device), &place, false).map_err(refused)?;
        self.target.device = joined;
        self.other_part = Some(place);
        Ok(self)
    }

    /// The family of its file system.
    pub fn family(&self) -> &'static dyn Family {
        self.environment.families.of(&*self.target.device)
    }

    /// Its bytes, to be read.
    pub fn device(&self) -> Arc<dyn Device> {
        Arc::clone(&self.target.device) as Arc<dyn Device>
    }

    /// Ends what interrupted runs have left, and tells what became of it; in full, or not at all.
    pub fn finish_interrupted(&self, stop: &AtomicBool) -> Result<Vec<Event>, Failure> {
        let finished = self.finish_as_far_as_possible(stop)?;
        match finished.unrestored.first() {
            None => Ok(finished.told),
            Some(left) => Err(Failure::Unrestored(left.blocks.len(), left.log.name().to_owned())),
        }
    }

    /// Ends what interrupted runs have left, for a caller who can do something about blocks that turn out to be bad.
    pub fn finish_as_far_as_possible(&self, stop: &AtomicBool) -> Result<Finished, Failure> {
        let mut finished = Finished::default();
        // A log that stays open is locked as long as it is held, so that it is not found again.
        while let Some(FoundLog { log, .. }) = self.open_log() {
            let failed = |error, log: &LogOnDisk| Failure::Apply(error, Some(log.path().to_owned()));
            let plan = inspect_log(&log).ok().flatten().map(|log| log.plan);
            if !plan.as_ref().is_some_and(is_write_test) {
                let journal = plan.as_ref().map_or(Ok(None), |plan| self.journal_of(plan, false))?;
                let kept = RefCell::new(Ok(None));
                let close = |way| {
                    let names = plan.as_ref().map(RecoveredNames::of_plan).unwrap_or_default();
                    self.close(way, journal.as_ref(), &names, log.path(), &kept)
                };
                let control = Control { close: &close, ..Control::new(stop, &|_| {}) };
                let recovered = recover(&log, &*self.target.device, Way::AsBegun, false, control)
                    .map_err(|error| failed(error, &log))?;
                finished.told.extend(Event::of(&recovered));
                finished.told.extend(match kept.into_inner() {
                    Ok(None) => None,
                    Ok(Some(place)) => Some(Event::NamesKept(place)),
                    Err(error) => Some(Event::NamesNotKept(error)),
                });
                break;
            }
            let overtaken = overtaken_write_test(&log, &*self.target.device);
            if let Some(lost) = overtaken.map_err(|error| failed(error, &log))? {
                finished.told.push(interrupted::keep_overtaken(&log, &lost)?);
                finished.is_overtaken = true;
                continue;
            }
            let path = log.path().to_owned();
            let left = end_write_test(Box::new(log), &*self.target.device)
                .map_err(|error| Failure::Apply(error, Some(path)))?;
            let left_behind = left.as_ref().map_or(0, |left| left.blocks.len());
            finished.told.push(Event::TestEnded { left_behind });
            finished.unrestored.extend(left);
        }
        for folder in &self.environment.state_folders {
            remove_closed_logs(&self.path, self.target.start, &*self.target.device, folder);
        }
        Ok(finished)
    }

    /// Tests by writing whether the medium keeps what it is given in bytes `range`, of which `piece` are good or bad together. Everything
    /// is given back.
    pub fn test_writing(&self, range: Range<u64>, piece: u64, stop: &AtomicBool) -> Result<Tested, Failure> {
        let (device, family) = (self.device(), self.family());
        let mut marker = family.marker(&device, &[]);
        if marker.is_empty() {
            return Err(Failure::NoMark);
        }
        marker.extend(family.keep_out(&device, &self.environment).0);
        marker.sort_unstable();
        let new_log = || match self.new_log() {
            Ok(log) => Ok(Box::new(log) as Box<dyn LogFile>),
            Err(error) => Err(WriteError::io(0, 1, error)),
        };
        let control = Control::new(stop, &|_| {});
        let test = WriteTest {
            range,
            piece,
            start: self.target.start,
            marker: &marker,
            seed: (self.environment.now)(),
            new_log: &new_log,
            control,
        };
        test.run(&*self.target.device).map_err(|error| {
            let log = error.is_begun().then(|| self.open_log()).flatten();
            Failure::Apply(error, log.map(|found| found.log.path().to_owned()))
        })
    }

    /// Has the next reads ask the medium itself.
    pub fn forget(&self) {
        self.target.device.forget(0, self.target.device.len());
    }

    /// The log that an interrupted run has left.
    fn open_log(&self) -> Option<FoundLog> {
        interrupted::open_log(&self.environment, &self.path, self.target.start, &*self.device())
    }

    /// The plan that writes `writes` to it. `identity` says who it is, `text` what is done.
    pub fn plan(&self, identity: &str, text: &str, writes: Writes<'_>) -> Result<Plan, Failure> {
        plan(&self.environment, &*self.device(), identity, text, writes, &PlanSpill::NONE)
    }

    /// The external journal that is written with a plan, if one is.
    pub fn journal_of(&self, plan: &Plan, force: bool) -> Result<Option<Journal>, Failure> {
        Journal::of(self.family(), plan, self.journal.as_deref(), force).map_err(Failure::Journal)
    }

    /// Carries out a plan.
    pub fn commit(&self, plan: &Plan, undo: &Undo, stop: &AtomicBool) -> Result<Written, Failure> {
        if plan.is_empty() {
            return Ok(Written { blocks: 0, undo: None, warning: None, names: None });
        }
        let mut reserved = None;
        if let Undo::At(place) = undo {
            reserved = Some(reserve_undo(place)?);
            if places::is_open_log(place) {
                let why = "an unfinished repair has a log there";
                return Err(Failure::Place(place.clone(), why.to_owned()));
            }
        }
        let journal = self.journal_of(plan, false)?;
        let mut log = self.new_log().map_err(Failure::NoLog)?;
        if let (Undo::At(place), Some(free)) = (undo, reserved.take()) {
            match free.with_room(log.path(), log_len(plan)) {
                Ok(kept) => reserved = Some(kept),
                Err(error) => {
                    let _ = log.remove();
                    return Err(Failure::Place(place.clone(), error.to_string()));
                }
            }
        }
        let names = RecoveredNames::of_plan(plan);
        let kept = RefCell::new(Ok(None));
        let carry_out = |log: &LogOnDisk| {
            let close = |way| self.close(way, journal.as_ref(), &names, log.path(), &kept);
            let control = Control { close: &close, ..Control::new(stop, &|_| {}) };
            let options = ApplyOptions { start: self.target.start, keep_undo: *undo != Undo::Drop, control };
            apply(plan, &*self.target.device, log, &options)
        };
        let mut applied = carry_out(&log);
        if let Err(ApplyError::LogNotWritten(WriteError { kind: WriteErrorKind::NoSpace, .. })) = &applied {
            // Nothing is written yet, and another file system may have room.
            if let Some(other) = self.log_elsewhere(log.path()) {
                log = other;
                applied = carry_out(&log);
            }
        }
        let applied = applied.map_err(|error| {
            let waits = error.is_begun().then(|| log.path().to_owned());
            Failure::Apply(error, waits)
        })?;
        let mut written = Written { blocks: applied.blocks, undo: None, warning: None, names: None };
        match kept.into_inner() {
            Ok(place) => written.names = place,
            Err(error) => written.warn(Event::NamesNotKept(error).to_string()),
        }
        if applied.undo_kept {
            written.undo = Some(log.path().to_owned());
            if let (Undo::At(place), Some(reserved)) = (undo, reserved) {
                match reserved.fill(log.path()) {
                    Ok(()) => written.undo = Some(place.clone()),
                    Err(error) => {
                        written.warn(format!("cannot move the undo file to {} ({error})", place.display()));
                    }
                }
            }
        }
        Ok(written)
    }

    /// Writes what goes with a repair when all of it is written and its log is still open: the external journal, and the former names of
    /// what is in `lost+found` now. That these cannot be kept, which `kept` tells, is no reason to leave the log open.
    fn close(
        &self,
        way: Way,
        journal: Option<&Journal>,
        names: &RecoveredNames,
        log: &Path,
        kept: &RefCell<Kept>,
    ) -> Result<(), WriteError> {
        journal.map_or(Ok(()), |journal| journal.write(way))?;
        if way != Way::Back
            && let Some(folder) = log.parent()
        {
            let path = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
            *kept.borrow_mut() = names.keep(folder, &path, (self.environment.now)());
        }
        Ok(())
    }

    fn new_log(&self) -> io::Result<LogOnDisk> {
        let mut last = io::Error::other("there is no folder for it (FSMEND_STATE_DIR can name one)");
        for folder in &self.environment.state_folders {
            match create_log(&self.path, folder) {
                Ok(log) => return Ok(log),
                Err(error) => last = io::Error::other(format!("{}: {error}", folder.display())),
            }
        }
        Err(last)
    }

    /// A new log in another folder than that of `full`, where there is no room for it.
    fn log_elsewhere(&self, full: &Path) -> Option<LogOnDisk> {
        let mut folders =
            self.environment.state_folders.iter().filter(|folder| full.parent() != Some(folder));
        folders.find_map(|folder| create_log_in(folder, &self.path).ok())
    }

    /// Discards bytes of the device; whether it can discard.
    pub fn discard(&self, offset: u64, len: u64) -> bool {
        self.target.device.discard(offset, len)
    }

    /// Writes a change that stands for itself, such as a time in the superblock, without a log.
    pub fn note(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let device = &self.target.device;
        device.write_at(offset, bytes).and_then(|()| device.sync()).map_err(Failure::Write)
    }
}

/// The plan that writes `writes` to the file system on `device`. A large one is put into a file of `spill`.
pub fn plan(
    environment: &Environment,
    device: &dyn Device,
    identity: &str,
    text: &str,
    Writes { changes, copies }: Writes<'_>,
    spill: &PlanSpill<'_>,
) -> Result<Plan, Failure> {
    let family = environment.families.of(device);
    let (mark, rest) = family.keep_out(device, environment);
    let is_free = |rest: &Change| {
        changes.iter().all(|change| is_apart(change, rest))
            && copies
                .iter()
                .all(|copy| copy.part(rest.0, rest.0.saturating_add(rest.1.len() as u64)).is_none())
    };
    let rest = rest.filter(is_free);
    let joined;
    let changes = match rest {
        Some(rest) if !changes.is_empty() => {
            joined = with(changes, rest);
            &joined
        }
        _ => changes,
    };
    let mut marker = family.marker(device, changes);
    // What is marked is compared before anything is written: another machine that has mounted the file system meanwhile has changed it.
    marker.extend(mark);
    marker.sort_unstable();
    let last = family.last(changes);
    let identity = identity.as_bytes();
    let builder = PlanBuilder { identity, text, changes, copies, marker: &marker, last: &last };
    Plan::make_within(device, &builder, spill).map_err(Failure::Plan)
}

fn is_apart(one: &Change, other: &Change) -> bool {
    let end = |change: &Change| change.0.saturating_add(change.1.len() as u64);
    end(one) <= other.0 || end(other) <= one.0
}

/// The changes with one more, in its place.
fn with(changes: &[Change], more: Change) -> Vec<Change> {
    let mut all = changes.to_vec();
    let place = all.partition_point(|change| change.0 < more.0);
    all.insert(place, more);
    all
}

/// Whether an undo file may be put into `place`, and can be.
pub fn may_hold_undo(place: &Path) -> Result<(), Failure> {
    reserve_undo(place).map(drop)
}

fn reserve_undo(place: &Path) -> Result<Reserved, Failure> {
    let failed = |why| Failure::Place(place.to_owned(), why);
    places::for_undo(place).map_err(failed)?;
    Reserved::new(place).map_err(|error| failed(error.to_string()))
}
