// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench repair-fields`: every field of every structure, in eight ways, on every feature set: repaired and judged.
//!
//! There are many cases, so they are taken in an order drawn from a seed (any part of the run is a fair sample), the place reached is
//! kept, and the next run goes on from there. Damage that comes to the same bytes as that of an earlier place is not judged again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use fsmend_base::SeededRandom;
use fsmend_testkit::repair::{
    Case, Depth, Finding, Judged, bases, bytes_case, field_cases, findings_of, judged, table, write_sparse,
};
use fsmend_testkit::target_folder;

/// The seed of the order.
const SEED: u64 = 7;
/// Cases between two notes of the place reached.
const CHUNK: usize = 1024;
/// Every so many cases everything is asked for.
const DEEPER_EVERY: usize = 50;

/// What the command line says.
#[derive(Default)]
struct Wanted {
    cases: Option<usize>,
    base: Option<String>,
    /// Structures of this kind only.
    kind: Option<String>,
    /// Everything is asked for in every case.
    is_deep: bool,
    one: Option<u64>,
    /// The place to begin at, if not where the last run ended.
    from: Option<usize>,
    again: bool,
    keep: Option<PathBuf>,
    /// Seeds of the block fuzzer, if that is wanted instead.
    seeds: Option<Range<u64>>,
}

/// Runs `bench repair-fields [--cases N] [--from PLACE] [--base NAME] [--kind STRUCTURE] [--deep] [--one NUMBER] [--again] [--keep FOLDER] [--bytes FIRST..END]`.
pub fn run(words: &[&str]) -> io::Result<()> {
    let wanted = parse(words)?;
    let folder = target_folder().join(if wanted.seeds.is_some() { "repair-bytes" } else { "repair-fields" });
    fs::create_dir_all(&folder)?;
    if let Some(number) = wanted.one {
        let findings = findings_of(number, Depth::FULL, wanted.keep.as_deref())?;
        println!("{}", if findings.is_empty() { "nothing wrong".to_owned() } else { table(&findings) });
        return Ok(());
    }
    let notes = Notes { folder, keep: wanted.keep.clone() };
    let (numbers, mut findings) = if wanted.again {
        let failed: BTreeSet<u64> = notes.findings()?.iter().map(|finding| finding.number).collect();
        (failed.into_iter().collect(), Vec::new())
    } else if let Some(seeds) = &wanted.seeds {
        (broken_bytes(seeds, wanted.base.as_deref()), Vec::new())
    } else {
        (shuffled(wanted.base.as_deref(), wanted.kind.as_deref())?, notes.findings()?)
    };
    let is_whole = wanted.again || wanted.seeds.is_some();
    let first = if is_whole { 0 } else { wanted.from.map_or_else(|| notes.place(), Ok)? };
    let end = wanted.cases.map_or(numbers.len(), |cases| (first + cases).min(numbers.len()));
    println!("{} cases, from {first} to {end}", numbers.len());
    let mut seen = Seen::default();
    seen.only_new(numbers.get(..first).unwrap_or_default())?;
    let start = Instant::now();
    let mut done = first;
    for chunk in numbers.get(first..end).unwrap_or_default().chunks(CHUNK) {
        let (new, mut tally) = seen.only_new(chunk)?;
        findings.extend(judge(&new, wanted.is_deep, &mut tally)?);
        done += chunk.len();
        notes.write(if wanted.again { notes.place()? } else { done }, &findings)?;
        if !is_whole {
            notes.enter(done - chunk.len()..done, &tally)?;
        }
        println!("{done}: {} failures, {:.0} s", findings.len(), start.elapsed().as_secs_f64());
    }
    notes.write(if wanted.again { notes.place()? } else { done }, &findings)?;
    println!("{}", notes.folder.join("failures.txt").display());
    Ok(())
}

/// How many cases ended in which way: judged (by what e2fsck did), equal to another one, or no damage at all.
type Tally = BTreeMap<String, usize>;

/// The damaged images that have been judged.
#[derive(Default)]
struct Seen(HashSet<(String, u128)>);

impl Seen {
    /// Those of the cases that change something, and are not the same bytes as one before.
    fn only_new(&mut self, numbers: &[u64]) -> io::Result<(Vec<u64>, Tally)> {
        let (mut new, mut tally) = (Vec::new(), Tally::new());
        for number in numbers {
            let fate = match Case::of(*number)? {
                None => "no damage",
                Some(case) if self.0.insert((case.base.name.to_owned(), case.image().fingerprint())) => {
                    new.push(*number);
                    continue;
                }
                Some(_) => "equal",
            };
            *tally.entry(fate.to_owned()).or_default() += 1;
        }
        Ok((new, tally))
    }
}

fn parse(words: &[&str]) -> io::Result<Wanted> {
    let mut wanted = Wanted::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| io::Error::other(format!("{word} needs a value")));
        let number = |word: &str| word.parse().map_err(|_| io::Error::other(format!("{word} is no number")));
        match *word {
            "--cases" => wanted.cases = Some(number(next()?)? as usize),
            "--from" => wanted.from = Some(number(next()?)? as usize),
            "--one" => wanted.one = Some(number(next()?)?),
            "--kind" => wanted.kind = Some((*next()?).to_owned()),
            "--deep" => wanted.is_deep = true,
            "--base" => wanted.base = Some((*next()?).to_owned()),
            "--keep" => wanted.keep = Some(PathBuf::from(*next()?)),
            "--again" => wanted.again = true,
            "--bytes" => wanted.seeds = Some(seeds(next()?)?),
            other => return Err(io::Error::other(format!("what is {other}?"))),
        }
    }
    Ok(wanted)
}

/// `FIRST..END` in numbers.
fn seeds(word: &str) -> io::Result<Range<u64>> {
    let parts = word.split_once("..").and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    parts.ok_or_else(|| io::Error::other(format!("{word} are no seeds: FIRST..END")))
}

/// The block fuzzer: every magnitude on every base, the larger ones too, for each seed.
fn broken_bytes(seeds: &Range<u64>, base: Option<&str>) -> Vec<u64> {
    let small = bases::recipes().into_iter().enumerate();
    let large =
        bases::large_recipes().into_iter().enumerate().map(|(index, recipe)| (bases::LARGE + index, recipe));
    let wanted: Vec<usize> = small
        .chain(large)
        .filter(|(_, recipe)| base.is_none_or(|base| recipe.name.contains(base)))
        .map(|(number, _)| number)
        .collect();
    let of_seed = |seed| {
        wanted.iter().flat_map(move |base| (1..=5).map(move |magnitude| bytes_case(*base, magnitude, seed)))
    };
    seeds.clone().flat_map(of_seed).collect()
}

/// The numbers of all field cases, or of those of one base or kind of structure, in an order drawn from a seed.
pub(super) fn shuffled(base: Option<&str>, kind: Option<&str>) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for (number, recipe) in bases::recipes().iter().enumerate() {
        if base.is_none_or(|base| recipe.name.contains(base)) {
            numbers.extend(field_cases(number, kind)?);
        }
    }
    let mut random = SeededRandom::new(SEED);
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, random.below(at as u64 + 1) as usize);
    }
    Ok(numbers)
}

/// Judges a chunk on all cores.
fn judge(numbers: &[u64], is_deep: bool, tally: &mut Tally) -> io::Result<Vec<Finding>> {
    // One base after the other: a worker has one at hand.
    let mut numbers: Vec<(usize, u64)> = numbers.iter().copied().enumerate().collect();
    numbers.sort_by_key(|(at, number)| (number >> 40, *at));
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> io::Result<()> {
        while let Some((at, number)) = numbers.get(next.fetch_add(1, Relaxed)) {
            let depth = if is_deep || at % DEEPER_EVERY == 0 { Depth::FULL } else { Depth::USUAL };
            let judged = judged(*number, depth, None)?;
            done.lock().map_err(|_| io::Error::other("another worker fell"))?.extend(judged);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..std::thread::available_parallelism().map_or(2, usize::from))
            .map(|_| scope.spawn(work))
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| io::Error::other("a worker fell"))?)
    })?;
    let done: Vec<Judged> = done.into_inner().map_err(|_| io::Error::other("a worker fell"))?;
    for judged in &done {
        *tally.entry(format!("e2fsck {:?}", judged.reference)).or_default() += 1;
    }
    Ok(done.into_iter().flat_map(|judged| judged.findings).collect())
}

/// What is kept between runs: the place reached, and what was found.
struct Notes {
    folder: PathBuf,
    keep: Option<PathBuf>,
}

impl Notes {
    fn place(&self) -> io::Result<usize> {
        Ok(read_if_any(&self.folder.join("place"))?.trim().parse().unwrap_or(0))
    }

    /// A line for the deferred certification: which places, and what became of them.
    fn enter(&self, places: Range<usize>, tally: &Tally) -> io::Result<()> {
        let words: Vec<String> = tally.iter().map(|(fate, count)| format!("{fate} {count}")).collect();
        let line = format!("{}..{}: {}\n", places.start, places.end, words.join(", "));
        let path = self.folder.join("judged.txt");
        let text = read_if_any(&path)? + &line;
        fs::write(path, text)
    }

    fn findings(&self) -> io::Result<Vec<Finding>> {
        let text = read_if_any(&self.folder.join("failures.tsv"))?;
        let finding = |line: &str| {
            let mut words = line.split('\t').map(str::to_owned);
            Some(Finding {
                number: words.next()?.parse().ok()?,
                kind: words.next()?,
                class: words.next()?,
                label: words.next()?,
                detail: words.next()?,
            })
        };
        Ok(text.lines().filter_map(finding).collect())
    }

    fn write(&self, place: usize, findings: &[Finding]) -> io::Result<()> {
        let clean = |text: &str| text.replace(['\t', '\n'], " ");
        let lines: Vec<String> = findings
            .iter()
            .map(|finding| {
                let Finding { number, kind, class, label, detail } = finding;
                [&number.to_string(), kind, class, label, detail].map(|word| clean(word)).join("\t") + "\n"
            })
            .collect();
        fs::write(self.folder.join("failures.tsv"), lines.concat())?;
        fs::write(self.folder.join("place"), place.to_string())?;
        let text = format!("{} failures in {place} cases\n{}", findings.len(), table(findings));
        fs::write(self.folder.join("failures.txt"), &text)?;
        match &self.keep {
            Some(folder) => self.keep_examples(folder, &text),
            None => Ok(()),
        }
    }

    /// Leaves the damaged images of the examples in a folder.
    fn keep_examples(&self, folder: &Path, text: &str) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let examples =
            text.split("case ").skip(1).filter_map(|rest| rest.split(':').next()?.parse::<u64>().ok());
        for number in examples {
            let path = folder.join(format!("{number}.img"));
            if !path.exists()
                && let Some(case) = Case::of(number)?
            {
                write_sparse(&path, &case.image().bytes())?;
            }
        }
        Ok(())
    }
}

fn read_if_any(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other,
    }
}
