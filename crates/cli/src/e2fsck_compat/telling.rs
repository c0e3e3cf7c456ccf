// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session prints and writes once it knows what is wrong.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fsmend_engine::report::{Report, StageStats, Summary};
use fsmend_engine::{Problem, Refused, Severity};
use fsmend_ext_check::file_types::{self, FileTypeCounts};
use fsmend_ext_check::free_space;
use fsmend_ext_check::precheck;
use fsmend_ext_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use serde_json::json;

use super::options::Mode;
use super::problems::{self, PASSES, Rendered};
use super::session::Session;
use super::summary::{closing_line, file_type_lines};
use super::timing;
use crate::ask::{self, Answer};
use crate::numbers::bytes;
use crate::outcome::CANCELLED_CODE;
use crate::place::Access;
use crate::stopping::Watch;
use crate::style::printable;
use crate::{exit, explain, failure, target};
use fsmend_engine::repair::{Changes, Writes};
use fsmend_session::recovered_names::{MEMBER, RecoveredNames};
use fsmend_session::{Failure, Undo, external};

/// A repair that may be written.
pub(super) struct Outcome<'c> {
    pub writes: Writes<'c>,
    /// What goes to the device of the external journal.
    pub journal_changes: &'c Changes,
    /// What will be in `lost+found`.
    pub recovered_names: &'c RecoveredNames,
    /// Whether there were problems.
    pub was_damaged: bool,
    /// Whether the file system has got a UUID, and nothing else was said of it. Checksums of descriptors change with it; e2fsck does not count that.
    pub gets_only_uuid: bool,
    /// Whether the file system had not been left cleanly.
    pub was_unclean: bool,
}

impl Session {
    /// Says which pass begins, unless the output is closed.
    pub(super) fn announce_pass(&mut self, pass: usize) {
        if self.options.mode != Mode::Preen
            && let Some(name) = pass.checked_sub(1).and_then(|at| PASSES.get(at))
        {
            self.out.print(&format!("Pass {pass}: {name}\n"));
        }
    }

    /// Tells all problems under their passes (the first of which has been announced). `line` gives the text of each; `None`
    /// stops.
    pub(super) fn tell_all(
        &mut self,
        report: &Report,
        stats: &[StageStats],
        mut line: impl FnMut(&Rendered<'_>) -> Option<String>,
    ) -> bool {
        for (pass, told) in problems::by_pass(report, &self.config) {
            if pass > 1 {
                self.announce_pass(pass);
            }
            for told in &told {
                let Some(text) = line(told) else { return false };
                if told.log_only {
                    self.out.log_only(&text)
                } else {
                    self.out.print(&text)
                }
                self.out.print(&told.rest());
            }
            if self.wants_timing() > 1 && (1..=5).contains(&pass) {
                self.out.print(&timing::pass_lines(pass, stats));
            }
        }
        true
    }

    /// Tells what an unattended repair does; whether it may.
    pub(super) fn tell_preening(
        &mut self,
        (report, later): (&Report, &Report),
        left: Option<&Report>,
        rounds: u32,
    ) -> bool {
        let name = self.name.clone();
        let passes = problems::by_pass(report, &self.config);
        let passes_later = problems::by_pass(later, &self.config);
        let stopper = problems::first_unsafe(&passes, &self.config)
            .or_else(|| problems::first_unsafe(&passes_later, &self.config));
        match (stopper, left) {
            (Some(told), _) => {
                let more = match problems::count(report) {
                    0 | 1 => String::new(),
                    all => format!("{name}: It is one of {all} problems. Nothing was written.\n"),
                };
                self.out.print(&format!("{name}: {}\n{more}", told.sentence()));
            }
            (None, Some(left)) => self.tell_what_is_left(left, rounds),
            (None, None) => {}
        }
        if stopper.is_some() || left.is_some() {
            let text = format!(
                "\n\n{name}: UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.\n\t(that is, without -a or -p)\n"
            );
            self.out.print(&text);
            return false;
        }
        for told in passes.iter().flat_map(|(_, told)| told) {
            let text = format!("{name}: {}  FIXED.\n", told.sentence());
            let row = told.problem.row;
            if told.log_only || self.config.is_silent(row).unwrap_or_else(|| problems::is_unspoken(row)) {
                self.out.log_only(&text);
            } else {
                self.out.print(&text);
            }
            self.out.print(&told.rest());
        }
        true
    }

    /// Tells what only later looks found, and what loses something.
    pub(super) fn tell_later(&mut self, later: &Report) {
        for problem in later.damage().flat_map(|group| &group.problems) {
            let text = format!("Found during the repair: {}.  FIXED.\n", printable(&problem.message()));
            self.out.print(&text);
        }
    }

    /// Asks about every problem; those that are to be left alone, or `None` if the user has stopped it all.
    pub(super) fn question(&mut self, report: &Report, stats: &[StageStats]) -> Option<Vec<Problem>> {
        let (mut for_all, mut declined) = (false, Vec::new());
        let stop = Arc::clone(&self.cancel);
        let is_answered = self.tell_all(report, stats, |told| {
            let question = format!("{}  Fix<y>? ", told.sentence());
            if for_all {
                return Some(format!("{question}yes\n\n"));
            }
            match ask::ask(&question, &explain::plainly(told.problem.row), Some(Answer::Yes), &stop) {
                Answer::Yes => {}
                Answer::All => for_all = true,
                Answer::No => declined.push(told.problem.clone()),
                Answer::Stop => return None,
            }
            Some("\n".to_owned())
        });
        is_answered.then_some(declined)
    }

    /// Says why a repair that does not come out clean is not made.
    pub(super) fn tell_what_is_left(&mut self, left: &Report, rounds: u32) {
        let mut text = format!(
            "{}: No complete repair was found ({rounds} rounds): nothing is written. These problems would remain:\n",
            self.name
        );
        for problem in left.damage().flat_map(|group| group.problems.iter().take(5)) {
            text.push_str(&format!("  [{}] {}\n", problem.row.code, printable(&problem.message())));
        }
        self.out.print(&text);
    }

    pub(super) fn warn_of_errors(&mut self) {
        let text = format!("\n{}: ********** WARNING: Filesystem still has errors **********\n\n", self.name);
        self.out.print(&text);
    }

    /// The closing lines.
    pub(super) fn close(&mut self, summary: &Summary, stats: &[StageStats]) {
        let is_verbose = self.options.verbose || self.config.flag_or("report_verbose", false);
        if is_verbose && self.config.flag_or("report_features", false) {
            self.out.print(&format!("\nFilesystem features: {}\n", summary.features));
        }
        if is_verbose && let Some(file_types) = self.file_types() {
            // The counts of blocks and files are among them.
            self.out.print(&file_type_lines(summary, &file_types));
        } else {
            self.out.print(&closing_line(&self.name, summary));
        }
        if self.wants_timing() > 0 {
            let read = stats.iter().map(|stage| stage.bytes_read).sum();
            self.out.print(&self.watch.lines(read, self.bytes_written));
        }
    }

    /// The counts of `-v`, of the file system as it is by now.
    fn file_types(&self) -> Option<FileTypeCounts> {
        let options = self.check_options().ok()?;
        file_types::count(&self.device, &options).ok()
    }

    fn wants_timing(&self) -> u8 {
        if self.config.flag_or("report_time", false) { 2 } else { self.options.timing }
    }

    /// Writes a repair and says so; the exit code.
    pub(super) fn write_repair(&mut self, repair: &Outcome<'_>) -> u8 {
        let is_passed_over = |change| repair.gets_only_uuid || is_superblock(change);
        let is_modified = repair.was_damaged
            || !(repair.writes.changes.iter().all(is_passed_over) && repair.writes.copies.is_empty());
        if let Err(code) = self.write(repair.writes, repair.journal_changes, repair.recovered_names) {
            return code;
        }
        if repair.writes.is_empty() {
            // Nothing was wrong: when it was checked is put down, and that is all.
            let code = self.mark_checked();
            if code == exit::CLEAN && self.options.extended.discard {
                self.discard_free();
            }
            return code;
        }
        if !is_modified {
            return if repair.was_unclean { exit::CORRECTED } else { exit::CLEAN };
        }
        if self.options.mode != Mode::Preen {
            self.out.print(&format!("\n{}: ***** FILE SYSTEM WAS MODIFIED *****\n", self.name));
        }
        if self.access == Access::ReadOnlyRoot {
            self.out.print(&format!("{}: ***** REBOOT SYSTEM *****\n", self.name));
            return exit::CORRECTED | exit::REBOOT;
        }
        exit::CORRECTED
    }

    /// `-E discard`: free space is discarded.
    fn discard_free(&mut self) {
        let (Some(hold), Ok(options)) = (&self.hold, self.check_options()) else { return };
        let (mut told, mut refused) = (0u64, 0u64);
        let visited = free_space::visit_free(&self.device, &options, &mut |offset, len| {
            if hold.discard(offset, len) { told += len } else { refused += len }
        });
        if visited.is_err() || refused > 0 {
            let text = format!("{}: {}: some free blocks could not be discarded\n", self.program, self.name);
            self.out.complain(&text);
        }
        if self.options.verbose {
            self.out.print(&format!("{}: {} discarded\n", self.name, bytes(told)));
        }
    }

    fn mark_checked(&mut self) -> u8 {
        let Some(hold) = &self.hold else { return exit::CLEAN };
        let Some((offset, bytes)) = precheck::marked_checked(&self.device, self.now) else {
            return exit::CLEAN;
        };
        self.bytes_written += bytes.len() as u64;
        match hold.note(offset, &bytes) {
            Ok(()) => exit::CLEAN,
            Err(failure) => self.fail(&failure),
        }
    }

    /// Writes what puts `recovered_names` into `lost+found`; the exit code if that fails.
    pub(super) fn write(
        &mut self,
        writes: Writes<'_>,
        journal_changes: &Changes,
        recovered_names: &RecoveredNames,
    ) -> Result<(), u8> {
        let Some(hold) = &self.hold else { return Ok(()) };
        let undo = self.undo();
        let journal = self.options.journal.as_ref().map(Path::new);
        let journal = match external::to_json(target::FAMILIES.of(&self.device), journal, journal_changes) {
            Ok(journal) => journal,
            Err(why) => return Err(self.fail(&Failure::Journal(why))),
        };
        let text = json!({"journal": journal, MEMBER: recovered_names.to_json()}).to_string();
        let written = hold
            .plan(&self.name, &text, writes)
            .and_then(|plan| Ok((plan.bytes_to_write(), hold.commit(&plan, &undo, &self.cancel)?)));
        let (bytes, written) = written.map_err(|failure| self.fail(&failure))?;
        self.bytes_written += bytes;
        if let Some(place) = &written.undo {
            let text = format!(
                "{}: An undo file was written. To take the repair back:\n    fsmend undo {} {}\n",
                self.name,
                place.display(),
                self.options.device.to_string_lossy()
            );
            self.out.print(&printable_lines(&text));
        }
        for line in recovered_names.lines() {
            self.out.print(&format!("{}: lost+found: {line}\n", self.name));
        }
        if let Some(place) = &written.names {
            let place = printable(&place.display().to_string());
            self.out.print(&format!("{}: These names are saved in {place}\n", self.name));
        }
        if let Some(warning) = written.warning {
            self.out.complain(&format!("{}: {}: {warning}\n", self.program, self.name));
        }
        Ok(())
    }

    /// What becomes of the log: without `-z`, and without a folder for undo files, e2fsck keeps none.
    pub(super) fn undo(&self) -> Undo {
        let folder = std::env::var_os("E2FSPROGS_UNDO_DIR").map(PathBuf::from);
        let folder = folder.or_else(|| self.config.undo_dir().map(PathBuf::from));
        let folder = folder.filter(|folder| folder.as_os_str() != "none" && folder.is_dir());
        let name = self.options.device.to_string_lossy();
        let file = format!("e2fsck-{}.fsmend-undo", name.rsplit('/').next().unwrap_or_default());
        match (&self.options.undo, folder) {
            (Some(place), _) if !place.is_empty() => Undo::At(PathBuf::from(place)),
            (_, Some(folder)) => Undo::At(folder.join(file)),
            (Some(_), None) => Undo::Keep,
            (None, None) => Undo::Drop,
        }
    }

    /// Says why something was not written; the exit code.
    pub(super) fn fail(&mut self, failure: &Failure) -> u8 {
        self.out.complain(&format!(
            "{}: {}: {}\n",
            self.program,
            self.name,
            printable(&failure::told(failure))
        ));
        match self.options.mode {
            _ if failure.is_stop() && !failure.leaves_log() => exit::CANCELLED,
            // Those who mount whatever the code says above 4 must not mount what is damaged or half-written.
            Mode::Preen => exit::PROBLEMS,
            _ if failure.is_stop() => exit::CANCELLED,
            _ => exit::OPERATIONAL,
        }
    }

    /// Says that the user has stopped it before anything was written; the exit code.
    pub(super) fn stop(&mut self) -> u8 {
        self.out.complain(&self.stopped());
        self.code_of_stop()
    }

    fn stopped(&self) -> String {
        format!("{}: {}: stopped, nothing was written\n", self.program, self.name)
    }

    fn code_of_stop(&self) -> u8 {
        let lets_go = self.config.flag_or("allow_cancellation", false) && !self.had_errors;
        if lets_go { exit::CLEAN } else { exit::CANCELLED }
    }

    /// While nothing is written: a signal ends the process, however long reads take.
    pub(super) fn watch_signals(&self) -> Watch {
        let told = self.stopped();
        Watch::ending_with(self.code_of_stop(), move || eprint!("\n{told}"))
    }

    /// Says why there is no result; the exit code.
    pub(super) fn refuse(&mut self, refused: &Refused) -> u8 {
        self.meter.clear();
        if refused.refusal.code == CANCELLED_CODE {
            return self.stop();
        }
        let mut text = String::new();
        for problem in refused.findings.iter().filter(|problem| problem.row.severity > Severity::Note) {
            text.push_str(&format!("{}: {}\n", self.name, printable(&problem.message())));
        }
        let why = refused.refusal.to_string();
        // Some refusals already name the device.
        let why = why.strip_prefix(&format!("{}: ", self.name)).unwrap_or(&why);
        // What helps may be an option that e2fsck does not have.
        let whose = if why.contains(" --") || why.contains("(--") {
            " (an option of fsmend check and fsmend repair)"
        } else {
            ""
        };
        text.push_str(&format!("{}: {}: {}{whose}\n", self.program, self.name, printable(why)));
        self.out.complain(&text);
        match refused.refusal.code == "external-journal-missing" {
            // What waits in that journal is missing.
            true => exit::OPERATIONAL | exit::PROBLEMS,
            false => exit::OPERATIONAL,
        }
    }
}

fn is_superblock((offset, bytes): &(u64, Vec<u8>)) -> bool {
    *offset >= SUPERBLOCK_OFFSET
        && offset.saturating_add(bytes.len() as u64) <= SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE as u64
}

/// Lines stay lines.
fn printable_lines(text: &str) -> String {
    text.lines().map(|line| printable(line) + "\n").collect()
}
