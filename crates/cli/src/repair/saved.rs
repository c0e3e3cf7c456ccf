// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend apply` and `fsmend undo`: plans and undo files from earlier runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{
    ApplyError, Condition, Control, LogOnDisk, OpenOptions, Plan, Recovered, WriteOptions, inspect_log,
};
use fsmend_engine::options::SuperblockOptions;

use super::args::{ApplyArgs, UndoArgs};
use super::undo_wish;
use crate::numbers::counted;
use crate::plan::target_of;
use crate::style::printable;
use crate::{check, exit, failure, plan, target};
use fsmend_session::hold::may_hold_undo;
use fsmend_session::places::{self, Kind};
use fsmend_session::{Event, Failure, Hold};

/// `fsmend apply`: returns the exit code.
pub fn apply(arguments: &ApplyArgs) -> u8 {
    finish(apply_plan(arguments))
}

/// `fsmend undo`: returns the exit code.
pub fn undo(arguments: &UndoArgs) -> u8 {
    finish(take_back(arguments))
}

/// What to say and the exit code; or what to complain about.
type Rendered = Result<(String, u8), (String, u8)>;

fn finish(told: Rendered) -> u8 {
    match told {
        Ok((text, code)) => {
            text.lines().for_each(|line| println!("{}", printable(line)));
            code
        }
        Err((text, code)) => {
            eprintln!("fsmend: {}.", printable(text.trim_end_matches('.')));
            code
        }
    }
}

fn failed(text: impl ToString) -> (String, u8) {
    (text.to_string(), exit::OPERATIONAL)
}

fn apply_plan(arguments: &ApplyArgs) -> Rendered {
    let name = arguments.plan.display();
    let plan = plan::load(&arguments.plan).map_err(failed)?;
    let journal = arguments.journal.as_deref();
    if arguments.dry_run {
        let fit =
            plan::fit(&plan, &arguments.plan, (arguments.target.as_deref(), journal)).map_err(failed)?;
        return if fit.is_good() {
            Ok((format!("{} Nothing was written.", fit.sentence()), exit::CLEAN))
        } else {
            Err(failed(fit.sentence()))
        };
    }
    let (named, start) = target_of(&plan).unwrap_or_default();
    let path = arguments.target.clone().unwrap_or_else(|| PathBuf::from(&named));
    if path.as_os_str().is_empty() {
        return Err(failed(format!(
            "{name}: the plan does not name its target; give the target after the plan"
        )));
    }
    if let Some(place) = &arguments.undo {
        may_hold_undo(place).map_err(failed)?;
    }
    let hold = hold(&path, start, (&plan, journal))?;
    let target = path.display().to_string();
    let cancel = stop_flag();
    let first = finish_interrupted(&hold, &cancel)?;
    match plan.compare(&hold.device()) {
        Condition::AsPlanned => {}
        Condition::Done => {
            // What an earlier run had begun was finished just now: that is a repair.
            let code = if first.is_empty() { exit::CLEAN } else { exit::CORRECTED };
            return Ok((format!("{first}{target}: the plan was already applied."), code));
        }
        Condition::Other(_) => {
            let error = format!(
                "{target}: the target has changed since the plan was made; nothing was written. Make a new plan (fsmend repair --plan)"
            );
            return Err(failed(error));
        }
    }
    let undo = undo_wish(arguments.undo.as_deref(), arguments.no_undo);
    let written = hold.commit(&plan, &undo, &cancel).map_err(|failure| complaint(&target, &failure))?;
    let kept = match &written.undo {
        Some(place) => {
            format!("An undo file was written: \"fsmend undo {}\" takes the repair back.", place.display())
        }
        None => "No undo file was written.".to_owned(),
    };
    let blocks = counted(written.blocks, "block", "blocks");
    let names = written.names.as_ref().map(|place| {
        format!(" The former names of the files in lost+found are saved in {}.", place.display())
    });
    let warning = written.warning.as_ref().map(|warning| format!(" Warning: {warning}."));
    let also = [names, warning].map(Option::unwrap_or_default).concat();
    Ok((format!("{first}{target}: repaired as planned, {blocks} written. {kept}{also}"), exit::CORRECTED))
}

fn take_back(arguments: &UndoArgs) -> Rendered {
    let name = arguments.undo.display();
    let log = LogOnDisk::open(&arguments.undo).map_err(|error| failed(format!("{name}: {error}")))?;
    let contents = inspect_log(&log).map_err(|error| failed(format!("{name}: {error}")))?;
    let Some(contents) = contents else {
        let why = match places::kind(&arguments.undo) {
            Kind::Log => "it was never completed; there is nothing to undo".to_owned(),
            Kind::Plan => {
                format!("it is a plan, not an undo file; \"fsmend apply {name}\" applies it")
            }
            _ => "it is not an undo file".to_owned(),
        };
        return Err(failed(format!("{name}: {why}")));
    };
    let path =
        arguments.target.clone().or_else(|| target_of(&contents.plan).map(|(path, _)| PathBuf::from(path)));
    let path = path.unwrap_or_else(|| PathBuf::from(&contents.target_name));
    let hold = hold(&path, contents.start, (&contents.plan, arguments.journal.as_deref()))?;
    let target = path.display().to_string();
    let journal =
        hold.journal_of(&contents.plan, arguments.force).map_err(|failure| complaint(&target, &failure))?;
    let close = |way| journal.as_ref().map_or(Ok(()), |journal| journal.write(way));
    let stop = stop_flag();
    let control = Control { close: &close, ..Control::new(&stop, &|_| {}) };
    let undone = fsmend_device::undo(&log, &*hold.target.device, arguments.force, control);
    let recovered = undone.map_err(|error| match error {
        ApplyError::ChangedSince(_) => {
            failed(format!("{target}: {error}. --force undoes the repair anyway; later changes are lost"))
        }
        ApplyError::Stopped { .. } => (format!("{target}: {error}"), exit::CANCELLED),
        error => failed(format!("{target}: {error}")),
    })?;
    let blocks = match recovered {
        Recovered::TakenBack { blocks } | Recovered::Finished { blocks, .. } => blocks,
        Recovered::Nothing(_) | Recovered::Dropped => 0,
    };
    let blocks = counted(blocks, "block", "blocks");
    Ok((format!("{target}: it is as it was before the repair, {blocks} written."), exit::CLEAN))
}

/// The file system that starts at byte `start` of the target, with its log if that is on another device: the one that is named, or where `plan` says that it was.
fn hold(path: &Path, start: u64, (plan, journal): (&Plan, Option<&Path>)) -> Result<Hold, (String, u8)> {
    let options = OpenOptions { offset: Some(start), partition: None };
    let holds = target::hold(path, &options, WriteOptions::default()).map_err(failed)?;
    let mut hold =
        holds.into_iter().next().ok_or_else(|| failed(format!("{}: nothing is in it", path.display())))?;
    hold.journal = journal.map(PathBuf::from);
    let tell = |text: String| eprintln!("fsmend: {}", printable(&text));
    let whole = hold.whole(plan::log_of(plan, journal).as_deref(), SuperblockOptions::default(), tell);
    whole.map_err(|refusal| failed(format!("{}: {refusal}", path.display())))
}

fn finish_interrupted(hold: &Hold, cancel: &AtomicBool) -> Result<String, (String, u8)> {
    let target = hold.path.display().to_string();
    let told = hold.finish_interrupted(cancel).map_err(|failure| complaint(&target, &failure))?;
    Ok(told.iter().map(|told: &Event| format!("{target}: {told}.\n")).collect())
}

fn complaint(target: &str, failure: &Failure) -> (String, u8) {
    let code = if failure.is_stop() { exit::CANCELLED } else { exit::OPERATIONAL };
    (format!("{target}: {}", failure::told(failure)), code)
}

fn stop_flag() -> Arc<AtomicBool> {
    let cancel = Arc::new(AtomicBool::new(false));
    // Without signals to catch, an interrupt ends the run at once, and the next one finishes what it left.
    let _ = check::stop_on_signals(&cancel);
    cancel
}
