// SPDX-License-Identifier: MIT OR Apache-2.0
//! What attempts at a shard write and read: a file for each attempt, which it alone appends to.
//!
//! ```text
//!  {"worker":{"run","shard","attempt","node","process","started"}}     first line
//!  {"begin":"vm-1"}                      it begins with a volume
//!  {"id":"vm-1","node",...,"verdict"}    a record: the volume is done
//!  {"crash":"vm-2","how":"signal 9"}     the check did not end, the worker did not
//!  {"stopped":"vm-2"}                    it was told to stop: no fault of the volume
//!  {"end":true}                          every volume of the shard has a record
//! ```
//!
//! A volume that was begun and has no other line behind is in work, or has brought its worker down.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::lines;
use crate::run::RunFolder;
use crate::verdict;

/// The most attempts at one shard.
const ATTEMPTS_MAX: u32 = 100_000;

/// The first line of an attempt.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The run it belongs to.
    pub run: String,
    /// Its shard.
    pub shard: usize,
    /// Its number.
    #[serde(default)]
    pub attempt: u32,
    /// Where it runs.
    pub node: String,
    /// Its process.
    pub process: u32,
    /// When it began, in seconds since 1970.
    pub started: u64,
}

/// An attempt that writes.
#[derive(Debug)]
pub struct Attempt {
    file: File,
    path: PathBuf,
    /// Its number among those at the shard.
    pub number: u32,
}

impl Attempt {
    /// Begins one: the file with the next free number.
    pub fn begin(folder: &RunFolder, header: Header) -> Result<Attempt, Error> {
        let records = folder.records(header.shard);
        fs::create_dir_all(&records).map_err(|error| Error::io(&records, &error))?;
        let first =
            numbers(&records).map_err(|error| Error::io(&records, &error))?.last().map_or(1, |last| last + 1);
        for number in first..ATTEMPTS_MAX {
            let path = file_of(&records, number);
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io(&path, &error)),
                Ok(file) => {
                    let mut attempt = Attempt { file, path, number };
                    attempt.line(&json!({"worker": Header { attempt: number, ..header }}))?;
                    return Ok(attempt);
                }
            }
        }
        Err(Error::Failed(format!("{}: more than {ATTEMPTS_MAX} attempts", records.display())))
    }

    /// Notes that it begins with a volume.
    pub fn begins(&mut self, id: &str) -> Result<(), Error> {
        self.line(&json!({"begin": id}))
    }

    /// Notes that the check of a volume crashed.
    pub fn crashed(&mut self, id: &str, how: &str) -> Result<(), Error> {
        self.line(&json!({"crash": id, "how": how}))
    }

    /// Notes that it was stopped while it checked a volume.
    pub fn stopped(&mut self, id: &str) -> Result<(), Error> {
        self.line(&json!({"stopped": id}))
    }

    /// Notes that every volume of the shard has a record.
    pub fn ends(&mut self) -> Result<(), Error> {
        self.line(&json!({"end": true}))
    }

    /// Keeps the record of a volume.
    pub fn record(&mut self, record: Map<String, Value>) -> Result<(), Error> {
        self.line(&Value::Object(record))
    }

    /// Appends a line, which others see when this returns. What cannot be written whole ends in the middle, and counts for nothing.
    fn line(&mut self, line: &Value) -> Result<(), Error> {
        let mut text = line.to_string();
        text.push('\n');
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| Error::io(&self.path, &error))
    }
}

/// Numbers of the attempts at a shard, in order.
pub fn numbers(records: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    let entries = match fs::read_dir(records) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(numbers),
        other => other?,
    };
    for entry in entries {
        let name = entry?.file_name();
        let number: Option<u32> = name.to_str().and_then(|name| name.strip_suffix(".jsonl")?.parse().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The file of an attempt.
pub fn file_of(records: &Path, number: u32) -> PathBuf {
    records.join(format!("{number:04}.jsonl"))
}

/// A line, as far as others than a report need it.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
struct Line<'a> {
    worker: Option<Header>,
    #[serde(borrow)]
    begin: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    verdict: Option<Cow<'a, str>>,
    #[serde(borrow)]
    crash: Option<Cow<'a, str>>,
    #[serde(borrow)]
    stopped: Option<Cow<'a, str>>,
    end: bool,
}

/// What is known of one attempt.
#[derive(Debug, Default)]
pub struct Seen {
    /// Its first line, once that is there.
    pub header: Option<Header>,
    /// Whether it belongs to another run and counts for nothing.
    pub is_foreign: bool,
    /// The volume it began and did not finish.
    pub open: Option<String>,
    /// Whether it has come to its end.
    pub has_ended: bool,
    /// Lines that belong to no attempt.
    pub unreadable: u64,
    position: lines::Position,
}

/// What all attempts at a shard have done so far.
#[derive(Debug, Default)]
pub struct Progress {
    /// The attempts by number.
    pub attempts: BTreeMap<u32, Seen>,
    /// Volumes with a record, and whether one of the records tells of a check that came to its end.
    pub done: HashMap<String, bool>,
    /// Volumes whose check crashed, with the attempts that saw it.
    crashes: HashMap<String, Vec<u32>>,
}

impl Progress {
    /// Reads what is new since the last time.
    pub fn refresh(&mut self, folder: &RunFolder, shard: usize) -> Result<(), Error> {
        let records = folder.records(shard);
        for number in numbers(&records).map_err(|error| Error::io(&records, &error))? {
            let path = file_of(&records, number);
            let mut seen = self.attempts.remove(&number).unwrap_or_default();
            let read = lines::read(&path, seen.position.offset, |_, text| {
                match serde_json::from_slice::<Line<'_>>(text) {
                    Ok(line) => self.take(number, &mut seen, line, &folder.run.id),
                    Err(_) => seen.unreadable += 1,
                }
            });
            seen.position = read.map_err(|error| Error::io(&path, &error))?;
            self.attempts.insert(number, seen);
        }
        Ok(())
    }

    fn take(&mut self, number: u32, seen: &mut Seen, line: Line<'_>, run: &str) {
        if let Some(header) = line.worker {
            seen.is_foreign = header.run != run;
            seen.header = Some(header);
        }
        if seen.is_foreign {
            return;
        }
        if let Some(id) = line.begin {
            seen.open = Some(id.into_owned());
        } else if let Some(id) = line.id {
            seen.open = None;
            let is_checked = line.verdict.is_some_and(|verdict| verdict::is_of_check(&verdict));
            *self.done.entry(id.into_owned()).or_default() |= is_checked;
        } else if let Some(id) = line.crash {
            seen.open = None;
            self.crashes.entry(id.into_owned()).or_default().push(number);
        } else if line.stopped.is_some() {
            seen.open = None;
        }
        seen.has_ended |= line.end;
    }

    /// How often a check of the volume did not come to its end: it crashed, or its worker went away. With `alone`, only what this attempt saw.
    pub fn failures(&self, id: &str, own: Option<u32>, alone: bool) -> usize {
        let crashes = self.crashes.get(id).into_iter().flatten();
        let crashes = crashes.filter(|number| !alone || Some(**number) == own).count();
        crashes + if alone { 0 } else { self.others_at(id, own).count() }
    }

    /// Whether another attempt has begun with the volume and not finished it.
    pub fn is_begun_by_others(&self, id: &str, own: Option<u32>) -> bool {
        self.others_at(id, own).next().is_some()
    }

    fn others_at<'p>(&'p self, id: &'p str, own: Option<u32>) -> impl Iterator<Item = u32> + 'p {
        let open = self.attempts.iter().filter(move |(_, seen)| seen.open.as_deref() == Some(id));
        open.map(|(number, _)| *number).filter(move |number| Some(*number) != own)
    }
}
