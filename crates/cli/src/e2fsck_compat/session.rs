// SPDX-License-Identifier: MIT OR Apache-2.0
//! One file system, from its name to the exit code.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend::ext::Ext;
use fsmend_device::{Device, OpenOptions, Unrestored, WriteOptions, usage_of};
use fsmend_engine::options::{BadBlockOption, CheckOptions, Improvements, RepairOptions, RepairPolicy};
use fsmend_engine::repair::{Changes, Mend, Whole, Writes};
use fsmend_engine::report::{CheckReport, Repair, Report, StageStats, Summary};
use fsmend_engine::{Problem, Progress, Refusal, Refused};
use fsmend_ext_check::precheck::{Precheck, precheck};
use fsmend_ext_check::superblock::problems::NO_UUID;
use fsmend_ext_format::superblock::SuperblockState;

use super::clean::{self, Circumstances, Verdict};
use super::config::Config;
use super::options::{Mode, Options};
use super::out::{Expansion, Out};
use super::problems;
use super::progress::Meter;
use super::summary::clean_line;
use super::telling::Outcome;
use super::timing::Stopwatch;
use crate::place::{self, Access};
use fsmend_session::hold::may_hold_undo;
use fsmend_session::interrupted::left_half_written;
use fsmend_session::{Family, Hold, RecoveredNames, Undo};

use crate::target::NotedDevice;
use crate::{ask, check, exit, machine, target};

/// A run on one file system.
pub struct Session {
    pub(super) program: String,
    pub(super) options: Options,
    pub(super) config: Config,
    pub(super) out: Out,
    pub(super) watch: Stopwatch,
    pub(super) path: PathBuf,
    pub(super) device: Arc<dyn Device>,
    /// The same, which remembers where it could not be read.
    noted: Arc<NotedDevice>,
    /// The device as something that can be written; not with `-n`.
    pub(super) hold: Option<Hold>,
    /// What to call the file system in messages.
    pub(super) name: String,
    pub(super) access: Access,
    pub(super) meter: Meter,
    pub(super) cancel: Arc<AtomicBool>,
    pub(super) now: u64,
    pub(super) bytes_written: u64,
    /// Whether the superblock said that errors were met.
    pub(super) had_errors: bool,
    /// What bad blocks did not take back from a write test, until the repair has other places for it.
    pub(super) unrestored: Vec<Unrestored>,
}

/// The device, and with anything but `-n` the right to write it.
fn open(
    path: &Path,
    journal: Option<&OsStr>,
    mode: Mode,
    access: &Access,
) -> Result<(Arc<dyn Device>, Option<Hold>), String> {
    if mode == Mode::No {
        return Ok((target::plain(path).map_err(|refusal| refusal.to_string())?, None));
    }
    let whole = OpenOptions { offset: Some(0), partition: None };
    let rights =
        WriteOptions { mounted_read_only: *access == Access::ReadOnlyRoot, ..WriteOptions::default() };
    let holds = target::hold(path, &whole, rights)
        .map_err(|error| format!("{}; {}", error.message(), error.hint()))?;
    let mut hold = holds.into_iter().next().ok_or("nothing is in it")?;
    hold.journal = journal.map(PathBuf::from);
    Ok((hold.device(), Some(hold)))
}

/// Whether the session may go on with a device in this state; the exit code if not.
fn admit(access: &Access, mode: Mode, (program, name): (&str, &str), out: &mut Out) -> Result<(), u8> {
    let why = match access {
        Access::Free | Access::ReadOnlyRoot => return Ok(()),
        Access::Mounted => "is mounted".to_owned(),
        Access::Busy(how) => format!("is in use: {how}"),
    };
    if mode == Mode::No {
        out.complain(&format!("Warning!  {name} {why}.\n"));
        return Ok(());
    }
    out.complain(&format!("{name} {why}.\n{program}: Cannot continue, aborting.\n\n\n"));
    Err(exit::OPERATIONAL)
}

impl Session {
    /// Opens what the command line names; the exit code if that is not possible or not allowed.
    pub fn new(program: &str, options: Options, config: Config) -> Result<Self, u8> {
        let watch = Stopwatch::start();
        let now = machine::seconds_since_epoch();
        let given = place::name("", options.name.as_ref().unwrap_or(&options.device));
        let device_file = given.rsplit('/').next().unwrap_or_default().to_owned();
        let expansion = Expansion { device: &device_file, now };
        let mut out = Out::new(&config, |pattern| expansion.fill(pattern));
        let meter = Meter::new(options.progress, &given, ask::is_possible()).map_err(|error| {
            out.complain(&format!("{program}: cannot use the file descriptor for -C: {error}\n"));
            exit::OPERATIONAL
        })?;
        let Some(path) = place::resolve(&options.device) else {
            out.complain(&format!("{program}: {given} cannot be found\n"));
            return Err(exit::OPERATIONAL);
        };
        let access = place::access(&usage_of(&path));
        admit(&access, options.mode, (program, &given), &mut out)?;
        let journal = options.journal.as_deref();
        let (device, hold) = open(&path, journal, options.mode, &access).map_err(|why| {
            out.complain(&format!("{program}: {given} cannot be opened: {why}\n"));
            exit::OPERATIONAL
        })?;
        let noted = Arc::new(NotedDevice::new(device));
        let device = Arc::clone(&noted) as Arc<dyn Device>;
        let tell = |sentence: String| out.complain(&format!("{program}: {given}: {sentence}\n"));
        let environment = target::environment();
        let find = || target::external_journal(&*device, &environment, options.superblock_options(), tell);
        let journal = options.journal.clone().or_else(|| find().map(PathBuf::into_os_string));
        let options = Options { journal, ..options };
        let cancel = Arc::new(AtomicBool::new(false));
        let caught = check::stop_on_signals(&cancel).and_then(|()| meter.follow_signals());
        if let Err(error) = caught {
            out.complain(&format!("{program}: signals cannot be caught ({error})\n"));
        }
        let program = program.to_owned();
        Ok(Session {
            program,
            options,
            config,
            out,
            watch,
            path,
            device,
            noted,
            hold,
            name: given,
            access,
            meter,
            cancel,
            now,
            bytes_written: 0,
            had_errors: false,
            unrestored: Vec::new(),
        })
    }

    /// Does what was asked for and returns the exit code.
    pub fn run(mut self) -> u8 {
        // What is found out here need not be found out after hours.
        if self.hold.is_some()
            && let Undo::At(place) = self.undo()
            && let Err(failure) = may_hold_undo(&place)
        {
            return self.fail(&failure);
        }
        let code = match self.finish_interrupted() {
            Ok(false) => self.run_from_start(),
            Ok(true) => match self.run_from_start() {
                exit::CLEAN => exit::CORRECTED,
                other => other,
            },
            Err(code) => code,
        };
        if let Some(told) = target::unreadable(&self.noted) {
            self.out.complain(&format!("{}: {}: {told}\n", self.program, self.name));
        }
        code
    }

    /// Ends what an interrupted run of ours has left; whether there was something.
    fn finish_interrupted(&mut self) -> Result<bool, u8> {
        let Some(hold) = &self.hold else {
            if let Some(told) = left_half_written(&target::environment(), &self.path, 0, &*self.device) {
                // What is half-written is no damage of the file system; it is in no state to be mounted either.
                self.out.print(&format!("{}: {told}\n", self.name));
                return Err(exit::PROBLEMS);
            }
            return Ok(false);
        };
        match hold.finish_as_far_as_possible(&self.cancel) {
            Ok(finished) => {
                for told in &finished.told {
                    self.out.print(&format!("{}: {told}\n", self.name));
                }
                self.options.force |= finished.is_overtaken || !finished.unrestored.is_empty();
                self.keep_unrestored(finished.unrestored);
                Ok(!finished.told.is_empty())
            }
            Err(failure) => Err(self.fail(&failure)),
        }
    }

    fn run_from_start(&mut self) -> u8 {
        if self.hold.is_some()
            && let Err(refusal) = self.wait_for_others()
        {
            return self.refuse(&Refused { refusal, findings: Default::default() });
        }
        let options = match self.check_options() {
            Ok(options) => options,
            Err(refusal) => return self.refuse(&Refused { refusal, findings: Default::default() }),
        };
        let watch = self.watch_signals();
        let prechecked = precheck(&self.device, &options);
        drop(watch);
        let seen = match prechecked {
            Ok(seen) => seen,
            Err(refused) => return self.refuse(&refused),
        };
        self.take_name(&seen.summary.label);
        self.had_errors = seen.state.contains(SuperblockState::ERRORS);
        if seen.replayed {
            self.tell_replay();
        }
        let has_broken_journal = problems::has_broken_journal(&seen.findings);
        if self.options.extended.journal_only && !has_broken_journal {
            return self.settle_journal(&seen);
        }
        if !self.options.force && !self.options.extended.journal_only {
            match clean::judge(&seen, Circumstances::new(self.now, &self.config)) {
                Verdict::Clean(suffix) => return self.pass_over(&seen, &suffix),
                Verdict::Due(why) => self.out.print(&format!("{}{why}, check forced.\n", self.name)),
            }
        }
        let was_unclean = !seen.state.contains(SuperblockState::VALID);
        let bad_blocks = match self.bad_block_option(&seen) {
            Ok(option) => option,
            Err(code) => return code,
        };
        let code = match self.options.mode {
            Mode::No if self.options.extended.journal_only => self.look(&options) | exit::OPERATIONAL,
            Mode::No => self.look(&options),
            _ => self.mend(options, was_unclean, bad_blocks),
        };
        if self.options.extended.fragcheck && code & (exit::OPERATIONAL | exit::CANCELLED) == 0 {
            self.tell_scattered();
        }
        code
    }

    fn wait_for_others(&mut self) -> Result<(), Refusal> {
        let (out, name) = (&mut self.out, &self.name);
        let mut tell = |sentence: String| out.print(&format!("{name}: {sentence}\n"));
        let family = target::FAMILIES.of(&self.device);
        family.wait_for_others(&self.device, &target::environment(), &mut tell, &self.cancel)
    }

    pub(super) fn check_options(&self) -> Result<CheckOptions, Refusal> {
        let external_journal = check::external_journal(self.options.journal.as_ref().map(Path::new), None)?;
        let superblock = self.options.superblock_options();
        Ok(CheckOptions { now: self.now, ..check::plain_options(superblock, external_journal) })
    }

    fn take_name(&mut self, label: &str) {
        if self.options.name.is_none() && !label.is_empty() {
            self.name = place::name(label, &self.options.device);
            self.meter.set_name(&self.name);
        }
    }

    fn tell_replay(&mut self) {
        let name = &self.name;
        let text = match self.options.mode {
            Mode::No => {
                format!(
                    "{name}: the journal has to be replayed; the report shows the state after the replay\n"
                )
            }
            _ => format!("{name}: recovering journal\n"),
        };
        self.out.print(&text);
    }

    /// `-E journal_only`, with a journal that can be used. One that cannot is made anew, which takes a whole check.
    fn settle_journal(&mut self, seen: &Precheck) -> u8 {
        if self.options.mode == Mode::No || seen.changes.is_empty() {
            return exit::CLEAN;
        }
        self.write(Writes::from(&seen.changes), &seen.journal_changes, &RecoveredNames::default())
            .err()
            .unwrap_or(exit::CLEAN)
    }

    /// The file system is clean: it is said, and what the replay of its journal changes is written.
    fn pass_over(&mut self, seen: &Precheck, suffix: &str) -> u8 {
        let reads_only = self.options.mode == Mode::No;
        if !reads_only && !seen.changes.is_empty() {
            if seen.orphans > 0 {
                let text = format!("{}: releasing {} orphaned inodes\n", self.name, seen.orphans);
                self.out.print(&text);
            }
            if let Err(code) =
                self.write(Writes::from(&seen.changes), &seen.journal_changes, &RecoveredNames::default())
            {
                return code;
            }
        }
        let sum = &seen.summary;
        let as_stored = reads_only && !seen.replayed;
        let files = if as_stored { seen.stored_files } else { sum.files_used };
        let blocks = if as_stored { seen.stored_blocks } else { sum.blocks_used };
        let line = clean_line(&self.name, (files, sum.files_total), (blocks, sum.blocks_total), suffix);
        self.out.print(&line);
        exit::CLEAN
    }

    /// `-n`: a check, and the answer to every question is no.
    fn look(&mut self, options: &CheckOptions) -> u8 {
        self.announce_pass(1);
        let progress = Progress::new();
        let watch = self.watch_signals();
        let checked =
            self.meter.run_beside(&progress, || Ext.check(&self.device, options, &progress, &self.cancel));
        drop(watch);
        let CheckReport { findings, summary, stats, .. } = match checked {
            Ok(report) => report,
            Err(refused) => return self.refuse(&refused),
        };
        self.meter.finish();
        let report = Report::new(findings);
        self.tell_all(&report, &stats, |told| Some(format!("{}  Fix? no\n\n", told.sentence())));
        let leaves_errors = problems::leaves_errors(&report);
        if leaves_errors {
            self.warn_of_errors();
        }
        self.close(&summary, &stats);
        if leaves_errors { exit::PROBLEMS } else { exit::CLEAN }
    }

    /// Works out a repair and writes it, as far as it is allowed.
    fn mend(&mut self, check: CheckOptions, was_unclean: bool, bad_blocks: Option<BadBlockOption>) -> u8 {
        self.announce_pass(1);
        let progress = Progress::new();
        let options = RepairOptions { check, policy: self.policy(bad_blocks) };
        let watch = self.watch_signals();
        let planned =
            self.meter.run_beside(&progress, || Ext.plan(&self.device, &options, &progress, &self.cancel));
        drop(watch);
        let Repair { found, left, changes, copies, mends, rounds, journal_changes, later } = match planned {
            Ok(repair) => repair,
            Err(refused) => return self.refuse(&refused),
        };
        let writes = Writes { changes: &changes, copies: &copies };
        self.meter.finish();
        let is_clean = !left.findings.is_damaged();
        let summary = if rounds > 1 { &left.summary } else { &found.summary };
        let (summary, stats) = (summary.clone(), found.stats.clone());
        let (report, remains) = (Report::new(found.findings), Report::new(left.findings));
        let later = Report::new(later);
        let is_allowed = match self.options.mode {
            Mode::Preen => self.tell_preening((&report, &later), (!is_clean).then_some(&remains), rounds),
            _ if !is_clean => {
                self.tell_all(&report, &stats, |told| Some(format!("{}  Fix? no\n\n", told.sentence())));
                false
            }
            Mode::Ask => {
                let Some(declined) = self.question(&report, &stats) else { return self.stop() };
                if !declined.is_empty() {
                    let all = (writes, mends.as_slice(), &journal_changes);
                    return self.mend_partly(&options, (&report, all), &declined, (&summary, &stats));
                }
                true
            }
            _ => {
                self.tell_all(&report, &stats, |told| Some(format!("{}  Fix? yes\n\n", told.sentence())));
                true
            }
        };
        if !is_allowed {
            if self.options.mode != Mode::Preen {
                if !is_clean {
                    self.tell_what_is_left(&remains, rounds);
                }
                self.warn_of_errors();
                self.close(&summary, &stats);
            }
            return exit::PROBLEMS;
        }
        self.tell_later(&later);
        let was_damaged = report.is_damaged();
        let gets_only_uuid =
            !report.groups.is_empty() && report.groups.iter().all(|group| group.row == &NO_UUID);
        let code = self.write_repair(&Outcome {
            writes,
            journal_changes: &journal_changes,
            recovered_names: &RecoveredNames::of(&target::FAMILIES.recovering(), &[&report, &later], &[]),
            was_damaged,
            gets_only_uuid,
            was_unclean,
        });
        if matches!(code, exit::CLEAN | exit::CORRECTED) {
            self.close_unrestored();
        }
        if code & exit::OPERATIONAL == 0 {
            self.close(&summary, &stats);
        }
        code
    }

    /// Writes what the user did not decline of a repair, if it can do without the rest.
    fn mend_partly(
        &mut self,
        options: &RepairOptions,
        (report, (writes, mends, journal_changes)): (&Report, (Writes<'_>, &[Mend], &Changes)),
        declined: &[Problem],
        (summary, stats): (&Summary, &[StageStats]),
    ) -> u8 {
        let all: Vec<&Problem> = report.damage().flat_map(|group| &group.problems).collect();
        if declined.len() < all.len() {
            let recovered_names = RecoveredNames::of(&target::FAMILIES.recovering(), &[report], declined);
            let declined: Vec<&Problem> = declined.iter().collect();
            let (progress, cancel) = (Progress::new(), Arc::clone(&self.cancel));
            let whole = Whole { writes, mends, found: &all };
            match Ext.without(&self.device, options, whole, &declined, (&progress, &cancel)) {
                Ok(Some(rest)) => {
                    if let Err(code) =
                        self.write(Writes::from(&rest.changes), journal_changes, &recovered_names)
                    {
                        return code;
                    }
                    self.out.print(&format!("\n{}: ***** FILE SYSTEM WAS MODIFIED *****\n", self.name));
                    self.warn_of_errors();
                    self.close(&rest.left.summary, stats);
                    return exit::PROBLEMS;
                }
                Ok(None) => {
                    let text = "the repair depends on the declined part: nothing is written";
                    self.out.print(&format!("{}: {text}\n", self.name));
                }
                Err(refused) => return self.refuse(&refused),
            }
        }
        self.warn_of_errors();
        self.close(summary, stats);
        exit::PROBLEMS
    }

    fn policy(&self, bad_blocks: Option<BadBlockOption>) -> RepairPolicy {
        use super::extended::Duplicates as Asked;
        use fsmend_engine::options::Duplicates;
        let duplicates = match self.options.extended.duplicates {
            None | Some(Asked::Clone) => Duplicates::Clone,
            Some(Asked::Zero) => Duplicates::Zero,
            Some(Asked::LostFound) => Duplicates::LostFound,
            Some(Asked::Delete) => Duplicates::Delete,
        };
        let extended = &self.options.extended;
        let improvements = Improvements {
            directories: self.options.optimize,
            extents: extended.to_extents,
            trees: extended.optimize_extents && !extended.fixes_only,
        };
        // Names in lost+found are the numbers that scripts written for e2fsck expect.
        let (unshare, former_names) = (extended.unshare_blocks, false);
        RepairPolicy { duplicates, unshare, bad_blocks, improvements, former_names }
    }
}
