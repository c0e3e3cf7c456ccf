// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks in processes of their own: one that crashes, or that the system kills for want of memory, costs a record and not the worker.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};

use crate::choices::Choices;
use crate::document;
use crate::error::Error;
use crate::list::Item;
use crate::run::RunFolder;
use crate::verdict;
use crate::work::{Check, Ended};

/// How long a check may take to end after it was told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// The longest pause between two looks at a check.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Bytes kept of what a check says beside its document.
const SAID_MAX: usize = 4096;

/// The bits that a check may end with. Others tell of a crash, as 101 does of a panic.
const EXIT_BITS: u8 = 0x3f;

/// How errors of the system read that pass: no space, no quota, a stale file handle.
const PASSING: [&str; 3] = ["(os error 28)", "(os error 122)", "(os error 116)"];

/// How readily the system kills a check for want of memory, compared with its worker.
const OOM_SCORE: &str = "500";

/// Runs a program for each volume.
#[derive(Clone, Debug)]
pub struct Children {
    /// The program: `fsmend` itself.
    pub program: PathBuf,
    /// What stands before `check` or `repair` and its options.
    pub before: Vec<String>,
    /// What tells this worker from all others: drafts of plans are named after it.
    pub stamp: String,
    /// What the engine allows, where neither the volume nor the run says.
    pub limits: Choices,
}

/// What is left of a process.
struct Over {
    status: ExitStatus,
    document: Result<Map<String, Value>, serde_json::Error>,
    said: String,
}

impl Check for Children {
    fn check(&self, folder: &RunFolder, item: &Item, cancel: &AtomicBool) -> Ended {
        let over = match self.run(folder, item, &["check".to_owned()], cancel) {
            Ok(Some(over)) => over,
            Ok(None) => return Ended::Stopped,
            Err(error) => return Ended::NotRun(Error::io(&self.program, &error)),
        };
        let (exit, mut document) = match ended(&over) {
            Ok(ended) => ended,
            Err(how) => return Ended::Crashed(how),
        };
        if !over.said.is_empty() {
            document.insert("said".to_owned(), json!(over.said));
        }
        match document::verdict(&document) {
            // It was stopped by another than this worker, so it is no fault of the volume.
            Some("cancelled") => return Ended::Stopped,
            Some(verdict::DAMAGED) if folder.run.plans => match self.plan(folder, item, cancel) {
                Ok(repair) => _ = document.insert("repair".to_owned(), Value::Object(repair)),
                Err(ended) => return ended,
            },
            _ => {}
        }
        Ended::Checked { exit, document }
    }
}

/// Exit status and document; how it crashed where it has not both.
fn ended(over: &Over) -> Result<(u8, Map<String, Value>), String> {
    let exit =
        over.status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| code & !EXIT_BITS == 0);
    match (exit, &over.document) {
        (Some(exit), Ok(document)) if document::verdict(document).is_some() => Ok((exit, document.clone())),
        _ => {
            let last = over.said.lines().last().unwrap_or_default();
            Err([over.status.to_string(), last.to_owned()].join(": ").trim_end_matches(": ").to_owned())
        }
    }
}

impl Children {
    /// Saves the plan of a repair. What is recorded of it, or why the worker ends here.
    fn plan(
        &self,
        folder: &RunFolder,
        item: &Item,
        cancel: &AtomicBool,
    ) -> Result<Map<String, Value>, Ended> {
        let name = RunFolder::plan_name(&item.id);
        let plans = folder.path().join("plans");
        let (place, draft) = (plans.join(&name), plans.join(format!(".{name}.{}", self.stamp)));
        let words = ["repair".to_owned(), format!("--plan={}", draft.display())];
        let failed = |how: String| {
            Map::from_iter([("outcome".to_owned(), json!("failed")), ("error".to_owned(), json!(how))])
        };
        let repair = match self.run(folder, item, &words, cancel) {
            Ok(None) => Err(Ended::Stopped),
            Err(error) => Err(Ended::NotRun(Error::io(&self.program, &error))),
            Ok(Some(over)) => match ended(&over) {
                Err(how) => Ok(failed(how)),
                Ok((_, mut document)) => match document.remove("repair") {
                    Some(Value::Object(repair)) => kept(repair, &draft, &place, &name),
                    _ => Ok(failed("it says nothing about a repair".to_owned())),
                },
            },
        };
        let _ = fs::remove_file(&draft);
        repair
    }

    /// Runs a check of `item`, or what else `words` say; nothing is returned where the worker has to stop.
    fn run(
        &self,
        folder: &RunFolder,
        item: &Item,
        words: &[String],
        cancel: &AtomicBool,
    ) -> io::Result<Option<Over>> {
        let choices = item.options.or(&folder.run.options).or(&self.limits);
        let mut command = Command::new(&self.program);
        command.args(&self.before).args(words).args(["--format=json", "--progress=never", "--all"]);
        command.args(choices.arguments());
        if let Some(partition) = item.partition {
            command.arg(format!("--partition={partition}"));
        }
        command.arg("--").arg(&item.target);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        // A system that does not take it kills what it likes.
        let _ = fs::write(format!("/proc/{}/oom_score_adj", child.id()), OOM_SCORE);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let most = folder.run.problems_max;
        thread::scope(|scope| {
            let document = scope.spawn(move || read_document(stdout, most));
            let said = scope.spawn(move || last_of(stderr));
            let status = wait(&mut child, cancel);
            let document = document.join().unwrap_or_else(|_| Err(serde::de::Error::custom("not read")));
            let said = said.join().unwrap_or_default();
            Ok(status?.map(|status| Over { status, document, said }))
        })
    }
}

/// The plan of `repair` in its place. Where there is no room for it now, there may be later.
fn kept(
    mut repair: Map<String, Value>,
    draft: &Path,
    place: &Path,
    name: &str,
) -> Result<Map<String, Value>, Ended> {
    repair.remove("plan_file");
    if draft.exists() {
        fs::rename(draft, place).map_err(|error| Ended::NotRun(Error::io(place, &error)))?;
        repair.insert("plan_file".to_owned(), json!(format!("plans/{name}")));
    } else if let Some(why) = repair.get("error").map(Value::to_string)
        && PASSING.iter().any(|errno| why.contains(errno))
    {
        return Err(Ended::NotRun(Error::Again(format!("{}: {why}", place.display()))));
    }
    Ok(repair)
}

fn read_document(pipe: Option<impl Read>, most: usize) -> Result<Map<String, Value>, serde_json::Error> {
    let Some(pipe) = pipe else { return Err(serde::de::Error::custom("no output")) };
    let mut pipe = io::BufReader::new(pipe);
    let document = document::read(&mut pipe, most);
    // A check whose output is not read would wait for ever.
    let _ = io::copy(&mut pipe, &mut io::sink());
    document
}

/// The last bytes that come out of a pipe, as text.
fn last_of(pipe: Option<impl Read>) -> String {
    let (mut last, mut piece) = (Vec::new(), [0; 4096]);
    let Some(mut pipe) = pipe else { return String::new() };
    while let Ok(len @ 1..) = pipe.read(&mut piece) {
        last.extend_from_slice(&piece[..len]);
        let over = last.len().saturating_sub(SAID_MAX);
        last.drain(..over);
    }
    String::from_utf8_lossy(&last).trim().to_owned()
}

/// Waits for the end of a check, and ends it when the worker has to stop.
fn wait(child: &mut Child, cancel: &AtomicBool) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if cancel.load(Relaxed) {
            end(child);
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Tells a check to stop, and kills it where it does not.
fn end(child: &mut Child) {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(process) = process {
        let _ = kill_process(process, Signal::TERM);
    }
    let deadline = Instant::now() + GRACE;
    while Instant::now() < deadline {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(PAUSE_MAX);
    }
    let _ = child.kill();
    let _ = child.wait();
}
