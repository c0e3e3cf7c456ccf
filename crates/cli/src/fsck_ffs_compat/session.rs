// SPDX-License-Identifier: MIT OR Apache-2.0
//! One file system, from its name to the exit code.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend::ufs::Ufs;
use fsmend_device::{Device, OpenOptions, WriteOptions, usage_of};
use fsmend_engine::options::{CheckOptions, RepairOptions, RepairPolicy, SuperblockOptions};
use fsmend_engine::repair::{Mend, Whole, Writes};
use fsmend_engine::report::{Repair, Report, Summary};
use fsmend_engine::{Findings, Problem, Progress, Refused};
use fsmend_session::recovered_names::{MEMBER, RecoveredNames};
use fsmend_session::{Family, Hold, Undo};
use fsmend_ufs_check::opening::{Layout, find_layout};
use fsmend_ufs_format::superblock::SuperblockFlags;
use serde_json::json;

use super::code;
use super::options::{Mode, Options};
use super::phases::{PHASES, RESCAN, by_phase, first_unsafe};
use crate::ask::{self, Answer};
use crate::common_args::Show;
use crate::place::{self, Access};
use crate::style::printable;
use crate::ticker::Ticker;
use crate::{check, explain, failure, machine, outcome, target};

/// A run on one file system.
pub struct Session<'a> {
    program: &'a str,
    options: &'a Options,
    name: String,
    device: Arc<dyn Device>,
    /// The device as something that can be written; not with `-n` and `-F`.
    hold: Option<Hold>,
    access: Access,
    cancel: &'a Arc<AtomicBool>,
}

impl<'a> Session<'a> {
    /// Opens the file system at `path`; the exit code if that is not possible or not allowed.
    pub fn open(
        program: &'a str,
        options: &'a Options,
        path: &Path,
        cancel: &'a Arc<AtomicBool>,
    ) -> Result<Self, u8> {
        let name = printable(&path.display().to_string());
        let access = place::access(&usage_of(path));
        let reads_only = options.mode == Mode::No || options.tells_background || options.in_background;
        let fail = |why: String| {
            eprintln!("{program}: {name}: {why}");
            code::ERROR
        };
        let (device, hold) = match (&access, reads_only) {
            (_, true) => (target::plain(path).map_err(|refusal| fail(refusal.to_string()))?, None),
            (Access::Mounted, _) => return Err(fail("it is mounted".to_owned())),
            (Access::Busy(how), _) => return Err(fail(format!("it is in use: {how}"))),
            _ => {
                let whole = OpenOptions { offset: Some(0), partition: None };
                let mounted_read_only = access == Access::ReadOnlyRoot;
                let rights = WriteOptions { mounted_read_only, ..WriteOptions::default() };
                let holds = target::hold(path, &whole, rights)
                    .map_err(|error| fail(format!("{}; {}", error.message(), error.hint())))?;
                let hold = holds.into_iter().next().ok_or_else(|| fail("nothing is in it".to_owned()))?;
                (hold.device(), Some(hold))
            }
        };
        let other = target::FAMILIES.recognise(&*device).filter(|family| family.name() != Ufs.name());
        if let Some(other) = other {
            return Err(fail(format!(
                "it holds {}, which fsmend checks and repairs, but does not take the options of fsck_ffs for",
                other.title()
            )));
        }
        Ok(Session { program, options, name, device, hold, access, cancel })
    }

    /// Does what was asked for and returns the exit code.
    pub fn run(self) -> u8 {
        if self.options.tells_background {
            return self.background();
        }
        if self.options.in_background {
            println!("NOT MOUNTED, CANNOT RUN IN BACKGROUND");
            return code::ERROR;
        }
        if let Err(code) = self.finish_interrupted() {
            return code;
        }
        let layout = self.layout();
        if let Some(sector) = self.options.superblock {
            println!("Alternate super block location: {sector}");
            if layout.is_none() {
                println!("{sector} is not a file system superblock");
                return code::ERROR;
            }
        }
        let is_clean = layout.as_ref().is_some_and(Layout::is_clean);
        let may_skip = self.options.mode == Mode::Preen || self.options.skips_clean;
        if let Some(layout) = layout.as_ref().filter(|_| is_clean && may_skip && !self.options.force) {
            let prefix = self.prefix();
            if prefix.is_empty() {
                println!("** {}", self.name);
            }
            println!("{prefix}FILE SYSTEM CLEAN; SKIPPING CHECKS");
            println!("{prefix}clean, {}", Room::of(layout).text());
            return code::DONE;
        }
        if self.options.mode != Mode::Preen {
            let write = if self.options.mode == Mode::No { " (NO WRITE)" } else { "" };
            println!("** {}{write}", self.name);
            let mounted_on =
                layout.as_ref().map(|layout| String::from_utf8_lossy(layout.superblock.mounted_on()));
            let mounted_on = mounted_on.unwrap_or_default();
            println!("** Last Mounted on {}", printable(&mounted_on));
            if mounted_on == "/" {
                println!("** Root file system");
            }
        }
        match self.options.mode {
            Mode::No => self.look(),
            _ => self.mend(is_clean),
        }
    }

    /// `-F`: whether a check in the background would do. There is no kernel here that could help with one.
    fn background(&self) -> u8 {
        let Some(layout) = self.layout() else { return code::NO_SUPERBLOCK };
        let bits = layout.superblock.flags();
        match bits {
            _ if bits.intersects(SuperblockFlags::NEEDS_FSCK | SuperblockFlags::JOURNAL) => code::FOREGROUND,
            _ if !bits.contains(SuperblockFlags::SOFT_UPDATES) => code::NO_SOFT_UPDATES,
            _ => code::NO_KERNEL,
        }
    }

    fn superblock(&self) -> SuperblockOptions {
        SuperblockOptions { block: self.options.superblock, ..SuperblockOptions::default() }
    }

    fn layout(&self) -> Option<Layout> {
        find_layout(&*self.device, self.superblock(), machine::seconds_since_epoch(), &mut Findings::new())
            .ok()
    }

    /// Ends what an interrupted run of ours has left.
    fn finish_interrupted(&self) -> Result<(), u8> {
        let Some(hold) = &self.hold else { return Ok(()) };
        let told = hold.finish_interrupted(self.cancel).map_err(|why| self.fail(&failure::told(&why)))?;
        told.iter().for_each(|told| println!("{}: {told}", self.name));
        Ok(())
    }

    fn check_options(&self) -> CheckOptions {
        check::plain_options(self.superblock(), None)
    }

    /// Shows how far `work` is on a terminal.
    fn beside<T>(&self, work: impl FnOnce(&Progress) -> T) -> Option<T> {
        let progress = [Progress::timed(machine::STAGE_CLOCK.wall)];
        let mut done = None;
        Ticker::new(Show::Auto).run_beside(&progress, || done = Some(work(&progress[0])));
        done
    }

    /// `-n`: a check, and the answer to every question is no.
    fn look(&self) -> u8 {
        let options = self.check_options();
        let checked = self.beside(|progress| Ufs.check(&self.device, &options, progress, self.cancel));
        match checked {
            Some(Ok(checked)) => {
                let (report, summary) = (Report::new(checked.findings), checked.summary);
                self.tell(&report, |problem| {
                    println!("{}\nFIX? no\n", sentence(problem));
                    Some(())
                });
                self.close(&summary);
                code::DONE
            }
            Some(Err(refused)) => self.refuse(&refused),
            None => code::INTERRUPTED,
        }
    }

    /// Works out a repair and writes it, as far as it is allowed.
    fn mend(&self, was_clean: bool) -> u8 {
        let options = RepairOptions { check: self.check_options(), policy: RepairPolicy::default() };
        let planned = self.beside(|progress| Ufs.plan(&self.device, &options, progress, self.cancel));
        let repair = match planned {
            Some(Ok(repair)) => repair,
            Some(Err(refused)) => return self.refuse(&refused),
            None => return code::INTERRUPTED,
        };
        let comes_out_clean = repair.is_clean();
        let Repair { found, left, changes, copies, mends, later, rounds, .. } = repair;
        let writes = Writes { changes: &changes, copies: &copies };
        let summary = if rounds > 1 { left.summary.clone() } else { found.summary.clone() };
        let (report, later) = (Report::new(found.findings), Report::new(later));
        let names = RecoveredNames::of(Ufs.recovering(), &[&report, &later], &[]);
        if self.options.mode == Mode::Preen {
            return self.preen((&report, &later), &summary, (writes, &names), comes_out_clean);
        }
        let mut declined = Vec::new();
        let mut answer = if comes_out_clean { self.options.mode } else { Mode::No };
        let is_answered = self.tell(&report, |problem| {
            let question = format!("{}\nFIX? ", sentence(problem));
            match answer {
                Mode::Yes => println!("{question}yes\n"),
                Mode::No | Mode::Preen => println!("{question}no\n"),
                Mode::Ask => {
                    match ask::ask(
                        &format!("{question}[yn] "),
                        &explain::plainly(problem.row),
                        None,
                        self.cancel,
                    ) {
                        Answer::Yes => {}
                        Answer::All => answer = Mode::Yes,
                        Answer::No => declined.push(problem.clone()),
                        Answer::Stop => return None,
                    }
                    println!("");
                }
            }
            Some(())
        });
        if !is_answered {
            return code::INTERRUPTED;
        }
        if !comes_out_clean {
            println!("{}: no complete repair was found: nothing is written", self.name);
            println!("\n***** FILE SYSTEM STILL DIRTY *****");
            return code::ERROR;
        }
        let (written, is_whole) = if declined.is_empty() {
            (self.write(writes, &names), true)
        } else {
            (self.write_rest(&options, (&report, writes, &mends), &declined), false)
        };
        let is_modified = match written {
            Ok(is_modified) => is_modified,
            Err(code) => return code,
        };
        self.close(&summary);
        match (is_whole, was_clean) {
            (true, true) => println!("\n***** FILE SYSTEM IS CLEAN *****"),
            (true, false) => println!("\n***** FILE SYSTEM MARKED CLEAN *****"),
            (false, _) => println!("\n***** FILE SYSTEM STILL DIRTY *****"),
        }
        self.end((is_modified, report.damage().next().is_some()), is_whole)
    }

    /// The closing lines. The mark of a clean file system alone is called no modification.
    fn end(&self, (is_modified, had_damage): (bool, bool), is_whole: bool) -> u8 {
        let asks = self.options.mode != Mode::Preen;
        if is_modified && had_damage && asks {
            println!("\n***** FILE SYSTEM WAS MODIFIED *****");
        }
        if is_modified && self.access == Access::ReadOnlyRoot {
            println!("\n***** REBOOT NOW *****");
            return code::FOREGROUND;
        }
        if !is_whole {
            println!("\n***** PLEASE RERUN FSCK *****");
            return code::RERUN;
        }
        code::DONE
    }

    /// `-p`: what is safe is written, or nothing.
    fn preen(
        &self,
        (report, later): (&Report, &Report),
        summary: &Summary,
        (writes, names): (Writes<'_>, &RecoveredNames),
        comes_out_clean: bool,
    ) -> u8 {
        let name = &self.name;
        let stopper = first_unsafe(&[report, later]);
        if stopper.is_some() || !comes_out_clean {
            if let Some(problem) = stopper {
                println!("{name}: {}", sentence(problem));
            }
            println!("{name}: UNEXPECTED INCONSISTENCY; RUN fsck_ffs MANUALLY.");
            return code::ERROR;
        }
        let is_modified = match self.write(writes, names) {
            Ok(is_modified) => is_modified,
            Err(code) => return code,
        };
        for problem in by_phase(report).iter().flatten() {
            println!("{name}: {} (FIXED)", sentence(problem));
        }
        self.close(summary);
        self.end((is_modified, true), true)
    }

    /// Tells all problems under their phases; `line` tells one. Stops where it gives `None`; whether it came to the end.
    fn tell(&self, report: &Report, mut line: impl FnMut(&Problem) -> Option<()>) -> bool {
        let phases = by_phase(report);
        let titles = std::iter::once(None).chain(PHASES.map(Some));
        titles.zip(&phases).all(|(title, problems)| {
            // Phase 1b is there only where blocks have several owners.
            if let Some(title) = title.filter(|title| *title != RESCAN || !problems.is_empty()) {
                println!("** Phase {title}");
            }
            problems.iter().all(|problem| line(problem).is_some())
        })
    }

    /// Writes what the user did not decline of a repair, if it can do without the rest; whether anything was written.
    fn write_rest(
        &self,
        options: &RepairOptions,
        (report, writes, mends): (&Report, Writes<'_>, &[Mend]),
        declined: &[Problem],
    ) -> Result<bool, u8> {
        let all: Vec<&Problem> = report.damage().flat_map(|group| &group.problems).collect();
        if declined.len() == all.len() {
            return Ok(false);
        }
        let names = RecoveredNames::of(Ufs.recovering(), &[report], declined);
        let declined: Vec<&Problem> = declined.iter().collect();
        let watch = (&Progress::new(), &**self.cancel);
        let whole = Whole { writes, mends, found: &all };
        match Ufs.without(&self.device, options, whole, &declined, watch) {
            Ok(Some(rest)) => self.write(Writes::from(&rest.changes), &names),
            Ok(None) => {
                println!("{}: the repair depends on the declined part: nothing is written", self.name);
                Ok(false)
            }
            Err(refused) => Err(self.refuse(&refused)),
        }
    }

    /// Writes what puts `names` into `lost+found`; whether there was anything to write.
    fn write(&self, writes: Writes<'_>, names: &RecoveredNames) -> Result<bool, u8> {
        let Some(hold) = self.hold.as_ref().filter(|_| !writes.is_empty()) else { return Ok(false) };
        let text = json!({"journal": null, MEMBER: names.to_json()}).to_string();
        let written = hold
            .plan(&self.name, &text, writes)
            .and_then(|plan| hold.commit(&plan, &Undo::Drop, self.cancel));
        let written = written.map_err(|why| {
            let code = self.fail(&failure::told(&why));
            if why.is_stop() { code::INTERRUPTED } else { code }
        })?;
        names.lines().for_each(|line| println!("{}: lost+found: {line}", self.name));
        if let Some(place) = &written.names {
            println!("{}: These names are saved in {}", self.name, printable(&place.display().to_string()));
        }
        if let Some(warning) = written.warning {
            eprintln!("{}: {}: {warning}", self.program, self.name);
        }
        Ok(true)
    }

    /// The line with the counts.
    fn close(&self, summary: &Summary) {
        let Some(layout) = self.layout() else { return };
        let (room, prefix) = (Room::of(&layout), self.prefix());
        println!("{prefix}{} files, {} used, {}", summary.files_used, room.used(), room.text());
    }

    /// What lines begin with: only an unattended run, of which there may be several side by side, names the file system.
    fn prefix(&self) -> String {
        if self.options.mode == Mode::Preen { format!("{}: ", self.name) } else { String::new() }
    }

    fn fail(&self, why: &str) -> u8 {
        eprintln!("{}: {}: {}", self.program, self.name, printable(why));
        code::ERROR
    }

    /// Says why there is no result; the exit code.
    fn refuse(&self, refused: &Refused) -> u8 {
        if refused.refusal.code == outcome::CANCELLED_CODE || self.cancel.load(Relaxed) {
            eprintln!("{}: {}: stopped, nothing was written", self.program, self.name);
            return code::INTERRUPTED;
        }
        let code = self.fail(&refused.refusal.to_string());
        let has_superblock = self.layout().is_some();
        if has_superblock || self.options.mode != Mode::Preen { code } else { code::NO_SUPERBLOCK }
    }
}

fn sentence(problem: &Problem) -> String {
    printable(&problem.message())
}

/// Fragments of a file system as its superblock counts them.
struct Room {
    all: u64,
    free_blocks: u64,
    free_fragments: u64,
    per_block: u64,
}

impl Room {
    fn of(layout: &Layout) -> Room {
        let totals = layout.superblock.totals();
        let number = |value: i64| u64::try_from(value).unwrap_or(0);
        Room {
            all: number(layout.superblock.dsize()),
            free_blocks: number(totals.free_blocks),
            free_fragments: number(totals.free_fragments),
            per_block: (layout.geometry.block_size / layout.geometry.fragment_size.max(1)).max(1),
        }
    }

    fn free(&self) -> u64 {
        self.free_blocks.saturating_mul(self.per_block).saturating_add(self.free_fragments)
    }

    fn used(&self) -> u64 {
        self.all.saturating_sub(self.free())
    }

    /// `1976 free (8 frags, 246 blocks, 0.0% fragmentation)`.
    fn text(&self) -> String {
        let thousandths = self.free_fragments.saturating_mul(1000).checked_div(self.all).unwrap_or(0);
        format!(
            "{} free ({} frags, {} blocks, {}.{}% fragmentation)",
            self.free(),
            self.free_fragments,
            self.free_blocks,
            thousandths / 10,
            thousandths % 10
        )
    }
}
