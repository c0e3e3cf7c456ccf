//! What a session prints and writes once it knows what is wrong.

use fsmend_engine::report::{JournalUse, Report, StageStats, Summary};
use fsmend_ext_check::glance;
use fsmend_ext_check::run::Refused;

use super::ask::{self, Answer};
use super::options::Mode;
use super::place::Access;
use super::problems::{self, PASSES, Told};
use super::session::Session;
use super::summary::closing_line;
use super::timing;
use crate::outcome::CANCELLED_CODE;
use crate::style::printable;
use crate::{exit, writing};

/// Changes: byte offsets and bytes.
type Changes = Vec<(u64, Vec<u8>)>;

impl Session {
    /// Says which pass begins, unless nobody is there to read it.
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
        mut line: impl FnMut(&Told<'_>) -> Option<String>,
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
    pub(super) fn tell_preening(&mut self, report: &Report, is_clean: bool) -> bool {
        let name = self.name.clone();
        let passes = problems::by_pass(report, &self.config);
        if let Some(told) = problems::first_unsafe(&passes, &self.config) {
            let others = problems::count(report) - 1;
            let mut text = format!("{name}: {}\n", told.sentence());
            if others > 0 {
                text.push_str(&format!("{name}: There are {others} more problems. Nothing was written.\n"));
            }
            self.out.print(&text);
        }
        if !is_clean || problems::first_unsafe(&passes, &self.config).is_some() {
            let text = format!(
                "\n\n{name}: UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.\n\t(that is, without -a or -p)\n"
            );
            self.out.print(&text);
            return false;
        }
        for told in passes.iter().flat_map(|(_, told)| told) {
            let text = format!("{name}: {}  FIXED.\n", told.sentence());
            if told.log_only || self.config.is_silent(told.problem.row) {
                self.out.log_only(&text);
            } else {
                self.out.print(&text);
            }
            self.out.print(&told.rest());
        }
        true
    }

    /// Asks about every problem; whether all of them are to be mended.
    pub(super) fn question(&mut self, report: &Report, stats: &[StageStats]) -> bool {
        let (mut for_all, mut declined) = (false, 0u64);
        self.tell_all(report, stats, |told| {
            let question = format!("{}  Fix<y>? ", told.sentence());
            if for_all {
                return Some(format!("{question}yes\n\n"));
            }
            match ask::ask(&question) {
                Answer::Yes => Some("\n".to_owned()),
                Answer::All => {
                    for_all = true;
                    Some("\n".to_owned())
                }
                Answer::No => {
                    declined += 1;
                    Some("\n".to_owned())
                }
            }
        });
        if declined > 0 {
            let text = format!(
                "{}: The repair was checked as a whole and can only be made as a whole: nothing is written.\n",
                self.name
            );
            self.out.print(&text);
        }
        declined == 0
    }

    /// Says why a repair that does not come out clean is not made.
    pub(super) fn tell_what_is_left(&mut self, left: &Report, rounds: u32) {
        let mut text = format!(
            "{}: No repair was found that leaves nothing wrong ({rounds} rounds): nothing is written. There would be left:\n",
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
        self.out.print(&closing_line(&self.name, summary));
        if self.wants_timing() > 0 {
            let read = stats.iter().map(|stage| stage.bytes_read).sum();
            self.out.print(&self.watch.lines(read, self.bytes_written));
        }
    }

    fn wants_timing(&self) -> u8 {
        if self.config.flag_or("report_time", false) { 2 } else { self.options.timing }
    }

    /// Writes a repair and says so; the exit code.
    pub(super) fn write_repair(&mut self, mut changes: Changes, was_damaged: bool, was_unclean: bool) -> u8 {
        let is_modified = was_damaged || !changes.is_empty();
        if !is_modified {
            // Nothing was wrong: when it was checked is put down, and that is all.
            changes.extend(glance::marked_checked(&self.device, self.now));
        }
        if let Err(code) = self.write(&changes) {
            return code;
        }
        if !is_modified {
            return exit::CLEAN;
        }
        if was_damaged && self.options.mode != Mode::Preen {
            self.out.print(&format!("\n{}: ***** FILE SYSTEM WAS MODIFIED *****\n", self.name));
        }
        let _ = was_unclean;
        if self.access == Access::ReadOnlyRoot {
            self.out.print(&format!("{}: ***** REBOOT SYSTEM *****\n", self.name));
            return exit::CORRECTED | exit::REBOOT;
        }
        exit::CORRECTED
    }

    /// Writes changes; the exit code if that fails.
    pub(super) fn write(&mut self, changes: &[(u64, Vec<u8>)]) -> Result<(), u8> {
        self.bytes_written += changes.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        writing::write(&self.path, changes).map_err(|error| {
            self.out.complain(&format!("{}: {}: cannot be written: {error}\n", self.program, self.name));
            exit::OPERATIONAL
        })
    }

    /// Says why there is no result; the exit code.
    pub(super) fn refuse(&mut self, refused: &Refused) -> u8 {
        self.meter.clear();
        if refused.refusal.code == CANCELLED_CODE {
            self.out.complain(&format!("{}: {}: stopped, nothing was written\n", self.program, self.name));
            let lets_go = self.config.flag_or("allow_cancellation", false) && !self.had_errors;
            return if lets_go { exit::CLEAN } else { exit::CANCELLED };
        }
        let mut text = String::new();
        for problem in
            refused.findings.iter().filter(|problem| problem.row.severity > fsmend_engine::Severity::Note)
        {
            text.push_str(&format!("{}: {}\n", self.name, printable(&problem.message())));
        }
        text.push_str(&format!(
            "{}: {}: {}\n",
            self.program,
            self.name,
            printable(&refused.refusal.to_string())
        ));
        self.out.complain(&text);
        exit::OPERATIONAL
    }

    /// What became of the journal, as far as it matters here.
    pub(super) fn was_replayed(summary: &Summary) -> bool {
        summary.journal == JournalUse::Replayed
    }
}
