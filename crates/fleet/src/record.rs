// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records as reports read them: what stands in every line, and of the problems only the worst one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::attempt::{self, Header};
use crate::document::first_only;
use crate::error::Error;
use crate::lines;
use crate::run::RunFolder;
use crate::verdict;

/// A record.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub struct Record<'a> {
    /// The volume.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// Where it was checked.
    #[serde(borrow)]
    pub node: Cow<'a, str>,
    /// By which attempt.
    pub attempt: u32,
    /// When, in seconds since 1970.
    pub started: u64,
    /// For how long.
    pub seconds: f64,
    /// Exit status of the check.
    pub exit: Option<u8>,
    /// What became of it.
    #[serde(borrow)]
    pub verdict: Cow<'a, str>,
    /// The worst problem.
    #[serde(deserialize_with = "first_only")]
    pub problems: Option<Problem>,
    /// Problems of each code, all of them.
    #[serde(borrow)]
    pub counts: BTreeMap<Cow<'a, str>, u64>,
    /// Why it was refused.
    pub error: Option<Refusal>,
    /// Partitions, where the target is a disk with several.
    #[serde(borrow)]
    pub targets: Vec<Found<'a>>,
    /// What became of the plan of a repair.
    pub repair: Option<Repair>,
}

/// What was found on one of several partitions.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub struct Found<'a> {
    /// The worst problem.
    #[serde(deserialize_with = "first_only")]
    pub problems: Option<Problem>,
    /// Problems of each code, all of them.
    #[serde(borrow)]
    pub counts: BTreeMap<Cow<'a, str>, u64>,
    /// Why it was refused.
    pub error: Option<Refusal>,
}

/// A problem.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub struct Problem {
    /// How bad it is.
    pub severity: String,
    /// What it says.
    pub message: String,
}

/// Why something was not checked.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub struct Refusal {
    /// A stable word.
    pub code: String,
    /// A sentence.
    pub message: String,
}

/// What became of the plan of a repair.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default)]
pub struct Repair {
    /// A word.
    pub outcome: String,
    /// Where the plan is, from the run folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_file: Option<String>,
}

impl<'a> Record<'a> {
    /// What was found, on the target or on each of its partitions.
    pub fn found(self) -> impl Iterator<Item = Found<'a>> {
        let found = Found { problems: self.problems, counts: self.counts, error: self.error };
        std::iter::once(found).chain(self.targets)
    }

    /// What decides which of several records of a volume counts: a check that came to its end, then any that was begun, then the latest.
    pub fn precedence(&self) -> (u8, u64, u32) {
        let class = match &*self.verdict {
            verdict if verdict::is_of_check(verdict) => 2,
            verdict::CRASHED => 0,
            _ => 1,
        };
        (class, self.started, self.attempt)
    }
}

/// What stands beside records in the files of attempts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Odd {
    /// Lines that belong to no attempt.
    pub unreadable: u64,
    /// Files that end in the middle of a line.
    pub torn: u64,
}

/// A line that is no record: the first one of its file, or a mark.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Kind {
    worker: Option<Header>,
}

/// Gives `take` every record of a shard, with the attempt, the offset of its line and the line.
pub fn of_shard(
    folder: &RunFolder,
    shard: usize,
    mut take: impl FnMut(Record<'_>, (u32, u64, &[u8])),
) -> Result<Odd, Error> {
    let records = folder.records(shard);
    let mut odd = Odd::default();
    for number in attempt::numbers(&records).map_err(|error| Error::io(&records, &error))? {
        let path = attempt::file_of(&records, number);
        let mut is_foreign = false;
        let read = lines::read(&path, 0, |offset, line| {
            if line.starts_with(b"{\"id\"") {
                match serde_json::from_slice::<Record<'_>>(line) {
                    Ok(record) if !is_foreign => take(record, (number, offset, line)),
                    Ok(_) => {}
                    Err(_) => odd.unreadable += 1,
                }
                return;
            }
            match serde_json::from_slice::<Kind>(line) {
                Ok(Kind { worker: Some(header), .. }) => is_foreign = header.run != folder.run.id,
                Ok(_) => {}
                Err(_) => odd.unreadable += 1,
            }
        });
        let position = read.map_err(|error| Error::io(&path, &error))?;
        odd.torn += u64::from(position.is_torn);
    }
    Ok(odd)
}

/// Gives `take` every record of a run.
pub fn visit(folder: &RunFolder, mut take: impl FnMut(Record<'_>)) -> Result<(), Error> {
    for shard in 0..folder.run.shards.len() {
        of_shard(folder, shard, |record, _| take(record))?;
    }
    Ok(())
}
