// SPDX-License-Identifier: MIT OR Apache-2.0
//! One report over all volumes of a run, from the records of all attempts: each volume once.
//!
//! Records are read shard by shard. What stays in memory of a sound volume is a few numbers, of another one a line.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::time::Duration;

use serde::Serialize;

use crate::attempt::{self, Progress};
use crate::error::Error;
use crate::record::{self, Found, Record, Repair};
use crate::run::{ListFacts, RunFolder};
use crate::verdict;

/// Volumes named as the slowest ones.
const SLOWEST: usize = 10;

/// Characters of a sentence that are kept.
const SENTENCE_MAX: usize = 300;

/// The report.
#[derive(Serialize, Clone, Debug, Default)]
pub struct Merged {
    /// Version of the document.
    pub version: u32,
    /// The program that planned the run, and its version.
    pub tool: String,
    /// What tells the run from others.
    pub run: String,
    /// When it was planned, in seconds since 1970.
    pub created: u64,
    /// What became of the list.
    pub list: ListFacts,
    /// The bits of a check over all volumes, and 8 where some have no record.
    pub exit_code: u8,
    /// Sums.
    pub totals: Totals,
    /// Problems by code, the worst severity first.
    pub codes: Vec<CodeTotal>,
    /// What each node did.
    pub nodes: Vec<NodeTotal>,
    /// Volumes that are not sound, the worst first.
    pub volumes: Vec<Volume>,
    /// Volumes without a record.
    pub missing: Vec<Missing>,
    /// Volumes whose checks took longest.
    pub slowest: Vec<Slow>,
}

/// Sums over all volumes.
#[derive(Serialize, Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Volumes that are planned.
    pub planned: u64,
    /// Volumes whose check came to its end.
    pub checked: u64,
    /// Volumes by verdict.
    pub sound: u64,
    /// With problems.
    pub damaged: u64,
    /// With suspicions.
    pub unconfirmed: u64,
    /// That could not be checked.
    pub refused: u64,
    /// Whose checks came to no end.
    pub crashed: u64,
    /// Without a record.
    pub missing: u64,
    /// Bytes planned, as far as the list says.
    pub bytes_planned: u64,
    /// Bytes of volumes whose check came to its end.
    pub bytes_checked: u64,
    /// Problems, notes not counted.
    pub problems: u64,
    /// Time that checks took, one after the other.
    pub seconds: f64,
    /// When the first of them began, in seconds since 1970.
    pub first_started: Option<u64>,
    /// When the last of them ended.
    pub last_ended: Option<u64>,
    /// Attempts at shards.
    pub attempts: u64,
    /// Records beyond the first of a volume.
    pub duplicates: u64,
    /// Records of volumes that are not in the list.
    pub unlisted: u64,
    /// Lines that could not be read.
    pub unreadable_lines: u64,
    /// Files of attempts that end in the middle of a line.
    pub torn_files: u64,
}

/// Problems of one code.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
pub struct CodeTotal {
    /// The code.
    pub code: String,
    /// How bad it is; empty where this version does not know the code.
    pub severity: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// How many.
    pub problems: u64,
    /// On how many volumes.
    pub volumes: u64,
}

/// What a node did.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct NodeTotal {
    /// Its name.
    pub node: String,
    /// Volumes whose record is its own.
    pub volumes: u64,
    /// Time that their checks took.
    pub seconds: f64,
}

/// A volume that is not sound.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct Volume {
    /// The volume.
    pub id: String,
    /// Its target.
    pub target: String,
    /// Its partition, where the list names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// Where it was checked.
    pub node: String,
    /// What became of it.
    pub verdict: String,
    /// Exit status of the check.
    pub exit: u8,
    /// Problems, notes not counted.
    pub problems: u64,
    /// The severity of the worst one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub severity: String,
    /// The worst problem, or why it was not checked.
    pub message: String,
    /// When the check began, in seconds since 1970.
    pub started: u64,
    /// How long it took.
    pub seconds: f64,
    /// What became of the plan of its repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
}

/// A volume without a record.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The volume.
    pub id: String,
    /// Its target.
    pub target: String,
    /// Its shard.
    pub shard: usize,
    /// Whether a worker has begun with it.
    pub begun: bool,
}

/// A volume and its time.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct Slow {
    /// The volume.
    pub id: String,
    /// Where it was checked.
    pub node: String,
    /// How long that took.
    pub seconds: f64,
}

/// Merges. The records that count are copied to `records`, if that is wanted, one line a volume.
pub fn merge(folder: &RunFolder, mut records: Option<&mut dyn Write>) -> Result<Merged, Error> {
    let run = &folder.run;
    let mut merger = Merger::new(folder);
    for shard in 0..run.shards.len() {
        let chosen = merger.shard(folder, shard)?;
        if let Some(out) = &mut records {
            copy(folder, shard, chosen, *out)?;
        }
    }
    Ok(merger.finish())
}

/// The place of a line: attempt, offset, length.
type Place = (u32, u64, u64);

/// What is kept of the record of a volume while its shard is read.
struct Chosen {
    precedence: (u8, u64, u32),
    place: Place,
    volume: Volume,
    counts: Vec<(String, u64)>,
}

struct Merger {
    merged: Merged,
    known: HashMap<&'static str, (&'static str, &'static str)>,
    codes: BTreeMap<String, (u64, u64)>,
    nodes: BTreeMap<String, (u64, f64)>,
}

impl Merger {
    fn new(folder: &RunFolder) -> Merger {
        let run = &folder.run;
        let merged = Merged {
            version: 1,
            tool: run.tool.clone(),
            run: run.id.clone(),
            created: run.created,
            list: run.list.clone(),
            ..Merged::default()
        };
        let rows = fsmend::FAMILIES.catalogue();
        let known = rows.into_iter().map(|row| (row.code, (row.severity.word(), row.meaning))).collect();
        Merger { merged, known, codes: BTreeMap::new(), nodes: BTreeMap::new() }
    }

    /// Takes in a shard; the places of the records that count, in the order of the list.
    fn shard(&mut self, folder: &RunFolder, shard: usize) -> Result<Vec<Place>, Error> {
        let items = folder.shard(shard)?;
        let place_of: HashMap<&str, usize> =
            items.iter().enumerate().map(|(at, item)| (item.id.as_str(), at)).collect();
        let mut best: Vec<Option<Chosen>> = items.iter().map(|_| None).collect();
        let (mut duplicates, mut unlisted) = (0, 0);
        let odd = record::of_shard(folder, shard, |record, (attempt, offset, line)| {
            let Some(at) = place_of.get(&*record.id) else {
                unlisted += 1;
                return;
            };
            duplicates += u64::from(best[*at].is_some());
            let precedence = record.precedence();
            if best[*at].as_ref().is_none_or(|known| known.precedence < precedence) {
                let place = (attempt, offset, line.len() as u64);
                best[*at] = Some(self.chosen(record, precedence, place));
            }
        })?;
        let totals = &mut self.merged.totals;
        totals.duplicates += duplicates;
        totals.unlisted += unlisted;
        totals.unreadable_lines += odd.unreadable;
        totals.torn_files += odd.torn;
        totals.planned += items.len() as u64;
        let mut progress = Progress::default();
        if best.iter().any(Option::is_none) {
            progress.refresh(folder, shard)?;
            totals.attempts += progress.attempts.len() as u64;
        } else {
            let records = folder.records(shard);
            totals.attempts +=
                attempt::numbers(&records).map_err(|error| Error::io(&records, &error))?.len() as u64;
        }
        let mut places = Vec::new();
        for (item, chosen) in items.into_iter().zip(best) {
            let size = item.size.unwrap_or(0);
            let totals = &mut self.merged.totals;
            totals.bytes_planned = totals.bytes_planned.saturating_add(size);
            let Some(mut chosen) = chosen else {
                totals.missing += 1;
                let begun = progress.is_begun_by_others(&item.id, None);
                self.merged.missing.push(Missing { id: item.id, target: item.target, shard, begun });
                continue;
            };
            places.push(chosen.place);
            (chosen.volume.target, chosen.volume.partition) = (item.target, item.partition);
            self.count(chosen, size);
        }
        Ok(places)
    }

    fn chosen(&self, mut record: Record<'_>, precedence: (u8, u64, u32), place: Place) -> Chosen {
        let (id, node, verdict) =
            (record.id.to_string(), record.node.to_string(), record.verdict.to_string());
        let exit = record.exit.unwrap_or_else(|| verdict::exit_code(&verdict));
        let (started, seconds, repair) = (record.started, record.seconds, record.repair.take());
        let mut counts: Vec<(String, u64)> = Vec::new();
        let (mut severity, mut message, mut refusal) = (String::new(), String::new(), String::new());
        for found in record.found() {
            let Found { problems, counts: more, error } = found;
            counts.extend(more.into_iter().map(|(code, count)| (code.into_owned(), count)));
            if let Some(problem) = problems
                && severity_rank(&problem.severity) > severity_rank(&severity)
            {
                (severity, message) = (problem.severity, problem.message);
            }
            if let Some(error) = error
                && refusal.is_empty()
            {
                refusal = error.message;
            }
        }
        let is_damaged = verdict == verdict::DAMAGED;
        let message = if is_damaged || refusal.is_empty() { message } else { refusal };
        let problems = counts.iter().filter(|(code, _)| !self.is_note(code)).map(|(_, count)| count).sum();
        let volume = Volume {
            id,
            target: String::new(),
            partition: None,
            node,
            verdict,
            exit,
            problems,
            severity,
            message: message.chars().take(SENTENCE_MAX).collect(),
            started,
            seconds,
            repair,
        };
        Chosen { precedence, place, volume, counts }
    }

    fn is_note(&self, code: &str) -> bool {
        self.known.get(code).is_some_and(|(severity, _)| *severity == "note")
    }

    /// Adds the record of a volume to the sums.
    fn count(&mut self, chosen: Chosen, size: u64) {
        let Chosen { volume, counts, .. } = chosen;
        let totals = &mut self.merged.totals;
        if verdict::is_of_check(&volume.verdict) {
            totals.checked += 1;
            totals.bytes_checked = totals.bytes_checked.saturating_add(size);
        }
        let of_verdict = match volume.verdict.as_str() {
            verdict::SOUND => &mut totals.sound,
            verdict::DAMAGED => &mut totals.damaged,
            verdict::UNCONFIRMED => &mut totals.unconfirmed,
            verdict::CRASHED => &mut totals.crashed,
            _ => &mut totals.refused,
        };
        *of_verdict += 1;
        totals.problems += volume.problems;
        totals.seconds += volume.seconds;
        let ended = volume.started.saturating_add(whole_seconds(volume.seconds));
        totals.first_started =
            Some(totals.first_started.map_or(volume.started, |first| first.min(volume.started)));
        totals.last_ended = totals.last_ended.max(Some(ended));
        self.merged.exit_code |= volume.exit;
        let mut codes: Vec<&str> = Vec::new();
        for (code, count) in &counts {
            let total = self.codes.entry(code.clone()).or_default();
            total.0 += count;
            // A code of two partitions is on one volume.
            total.1 += u64::from(!codes.contains(&code.as_str()));
            codes.push(code);
        }
        let node = self.nodes.entry(volume.node.clone()).or_default();
        node.0 += 1;
        node.1 += volume.seconds;
        self.slow(&volume);
        if volume.verdict != verdict::SOUND {
            self.merged.volumes.push(volume);
        }
    }

    fn slow(&mut self, volume: &Volume) {
        let slowest = &mut self.merged.slowest;
        let at = slowest.partition_point(|slow| slow.seconds >= volume.seconds);
        if at < SLOWEST {
            let (id, node) = (volume.id.clone(), volume.node.clone());
            slowest.insert(at, Slow { id, node, seconds: volume.seconds });
            slowest.truncate(SLOWEST);
        }
    }

    fn finish(self) -> Merged {
        let Merger { mut merged, known, codes, nodes } = self;
        if merged.totals.missing > 0 {
            merged.exit_code |= 8;
        }
        merged.codes = codes
            .into_iter()
            .map(|(code, (problems, volumes))| {
                let (severity, meaning) = known.get(code.as_str()).copied().unwrap_or_default();
                CodeTotal { code, severity, meaning, problems, volumes }
            })
            .collect();
        merged.codes.sort_by_key(|code| (u8::MAX - severity_rank(code.severity), u64::MAX - code.volumes));
        merged.nodes = nodes
            .into_iter()
            .map(|(node, (volumes, seconds))| NodeTotal { node, volumes, seconds })
            .collect();
        let bad = |volume: &Volume| {
            (verdict::rank(&volume.verdict), severity_rank(&volume.severity), volume.problems)
        };
        merged.volumes.sort_by(|a, b| bad(b).cmp(&bad(a)).then_with(|| a.id.cmp(&b.id)));
        merged
    }
}

/// How bad a severity is.
fn severity_rank(word: &str) -> u8 {
    match word {
        "note" => 1,
        "minor" => 2,
        "major" => 3,
        "critical" => 4,
        _ => 0,
    }
}

/// Copies lines, in the order of `places`.
fn copy(folder: &RunFolder, shard: usize, places: Vec<Place>, out: &mut dyn Write) -> Result<(), Error> {
    let records = folder.records(shard);
    let mut files: HashMap<u32, File> = HashMap::new();
    let mut line = Vec::new();
    for (number, offset, len) in places {
        let path = attempt::file_of(&records, number);
        let mut read = || -> io::Result<()> {
            let file = match files.entry(number) {
                std::collections::hash_map::Entry::Occupied(file) => file.into_mut(),
                std::collections::hash_map::Entry::Vacant(free) => free.insert(File::open(&path)?),
            };
            file.seek(SeekFrom::Start(offset))?;
            line.clear();
            file.take(len).read_to_end(&mut line)?;
            line.push(b'\n');
            Ok(())
        };
        read().map_err(|error| Error::io(&path, &error))?;
        out.write_all(&line)
            .map_err(|error| Error::Failed(format!("the records cannot be written: {error}")))?;
    }
    Ok(())
}

/// The whole seconds of a span: 0 of what is no number or negative.
pub(crate) fn whole_seconds(seconds: f64) -> u64 {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX).as_secs()
}
