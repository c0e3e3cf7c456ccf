// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker: checks the volumes of shards until each has a record.
//!
//! Volumes that another attempt has begun come last: its worker may still be at work, and if it is not, the volume may have brought it down.
//! So two workers on one shard share it, and a volume that kills workers keeps no other volume from its check.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::attempt::{Attempt, Header, Progress};
use crate::document;
use crate::error::Error;
use crate::list::Item;
use crate::run::{Run, RunFolder};
use crate::verdict;

/// So many checks of a volume may come to no end before it is recorded as crashed.
pub const FAILURES_MAX: usize = 3;

/// How the check of one volume ended.
#[derive(Debug)]
pub enum Ended {
    /// With a document.
    Checked {
        /// The exit status of the check.
        exit: u8,
        /// The document.
        document: Map<String, Value>,
    },
    /// In the middle: how.
    Crashed(String),
    /// By the order of the user or the engine.
    Stopped,
    /// Not begun: this machine cannot run checks now.
    NotRun(Error),
}

/// What checks one volume. It never writes to it.
pub trait Check {
    /// Checks `item` of `run`; ends soon when `cancel` becomes true.
    fn check(&self, folder: &RunFolder, item: &Item, cancel: &AtomicBool) -> Ended;
}

/// A worker.
pub struct Worker<'a> {
    /// The run.
    pub folder: &'a RunFolder,
    /// What checks.
    pub checker: &'a dyn Check,
    /// Time since 1970.
    pub now: &'a dyn Fn() -> Duration,
    /// The node that it runs on.
    pub node: &'a str,
    /// Its process.
    pub process: u32,
    /// Whether volumes are checked again that could not be checked, or whose check crashed.
    pub retry: bool,
    /// Becomes true when it has to stop.
    pub cancel: &'a AtomicBool,
}

/// A shard in work.
struct Shard {
    number: usize,
    attempt: Option<Attempt>,
    progress: Progress,
    left: Vec<Item>,
}

impl Worker<'_> {
    /// Works on these shards until every volume of them has a record. Returns how many this worker wrote.
    pub fn work(&self, shards: &[usize]) -> Result<u64, Error> {
        let (mut written, mut in_work) = (0, Vec::new());
        for number in shards {
            let left = self.folder.shard(*number)?;
            let mut shard = Shard { number: *number, attempt: None, progress: Progress::default(), left };
            written += self.pass(&mut shard, true)?;
            if !shard.left.is_empty() {
                in_work.push(shard);
            }
        }
        while !in_work.is_empty() {
            for shard in &mut in_work {
                written += self.pass(shard, false)?;
            }
            in_work.retain(|shard| !shard.left.is_empty());
        }
        Ok(written)
    }

    /// Goes over what is left of a shard once. In the first pass volumes stay left that others have begun.
    fn pass(&self, shard: &mut Shard, is_first: bool) -> Result<u64, Error> {
        let mut written = 0;
        for item in std::mem::take(&mut shard.left) {
            if self.cancel.load(Relaxed) {
                return Err(Error::Stopped);
            }
            self.folder.must_be_unchanged()?;
            shard.progress.refresh(self.folder, shard.number)?;
            let own = shard.attempt.as_ref().map(|attempt| attempt.number);
            if self.is_done(&shard.progress, &item) {
                continue;
            }
            if is_first && shard.progress.is_begun_by_others(&item.id, own) {
                shard.left.push(item);
                continue;
            }
            match self.one(shard, &item)? {
                true => written += 1,
                false => shard.left.push(item),
            }
        }
        if shard.left.is_empty()
            && let Some(attempt) = &mut shard.attempt
        {
            attempt.ends()?;
        }
        Ok(written)
    }

    fn is_done(&self, progress: &Progress, item: &Item) -> bool {
        progress.done.get(&item.id).is_some_and(|is_checked| *is_checked || !self.retry)
    }

    /// Checks one volume; whether it has a record now.
    fn one(&self, shard: &mut Shard, item: &Item) -> Result<bool, Error> {
        if shard.attempt.is_none() {
            shard.attempt = Some(Attempt::begin(self.folder, self.header(shard.number))?);
        }
        let Some(attempt) = &mut shard.attempt else { return Ok(false) };
        let failures = shard.progress.failures(&item.id, Some(attempt.number), self.retry);
        let started = (self.now)();
        if failures >= FAILURES_MAX {
            let record = crashed(item, &self.folder.run, failures);
            attempt.record(self.stamped(attempt.number, item, started, (8, verdict::CRASHED), record))?;
            return Ok(true);
        }
        attempt.begins(&item.id)?;
        match self.checker.check(self.folder, item, self.cancel) {
            Ended::Checked { exit, document } => {
                let verdict = document::verdict(&document).unwrap_or(verdict::REFUSED).to_owned();
                attempt.record(self.stamped(attempt.number, item, started, (exit, &verdict), document))?;
                Ok(true)
            }
            Ended::Crashed(how) => {
                attempt.crashed(&item.id, &how)?;
                Ok(false)
            }
            Ended::Stopped => {
                attempt.stopped(&item.id)?;
                Err(Error::Stopped)
            }
            Ended::NotRun(error) => {
                attempt.stopped(&item.id)?;
                Err(error)
            }
        }
    }

    fn header(&self, shard: usize) -> Header {
        Header {
            run: self.folder.run.id.clone(),
            shard,
            attempt: 0,
            node: self.node.to_owned(),
            process: self.process,
            started: (self.now)().as_secs(),
        }
    }

    /// A document with what the worker knows before it.
    fn stamped(
        &self,
        attempt: u32,
        item: &Item,
        started: Duration,
        (exit, verdict): (u8, &str),
        document: Map<String, Value>,
    ) -> Map<String, Value> {
        let seconds = (self.now)().saturating_sub(started).as_millis() as f64 / 1000.0;
        let members = [
            ("id", json!(item.id)),
            ("node", json!(self.node)),
            ("attempt", json!(attempt)),
            ("started", json!(started.as_secs())),
            ("seconds", json!(seconds)),
            ("exit", json!(exit)),
            ("verdict", json!(verdict)),
        ];
        let mut record: Map<String, Value> =
            members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        for (name, value) in document {
            record.entry(name).or_insert(value);
        }
        record
    }
}

/// What is recorded of a volume whose checks come to no end.
fn crashed(item: &Item, run: &Run, failures: usize) -> Map<String, Value> {
    let error = json!({
        "code": "crashed",
        "message": format!("{failures} checks of it did not come to their end"),
        "hint": "Check it alone, with more memory, and report the crash: fsmend check",
    });
    let members = [
        ("target", json!(item.target)),
        ("tool", json!({"name": "fsmend", "version": run.tool})),
        ("error", error),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
