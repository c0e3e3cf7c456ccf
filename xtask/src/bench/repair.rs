//! `bench repair`: how long checks and repairs of damaged images take. Against `e2fsck -fn` and `-fy` with more and more bytes of
//! metadata broken, and against a plain check of the large images with one thing wrong.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fsmend_testkit::host::find_program;
use fsmend_testkit::process::{Ended, Limits, Run, run_limited};
use fsmend_testkit::repair::{Case, Depth, Scratch, bases, bytes_case, judge_case};

use super::{Options, one_damage, report};
use crate::workspace;

/// A repair that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(120);
/// From ten bytes to a hundred thousand.
const MAGNITUDES: std::ops::RangeInclusive<u32> = 1..=5;
/// How much faster than e2fsck checks and repairs have to be, and how much faster they are meant to become.
const TARGETS: [f64; 2] = [3.0, 5.0];
/// What stands below this line in the document is written by hand, and stays.
const NOTES: &str = "\n## Notes\n";

/// One row of the first table.
struct Row {
    image: &'static str,
    bytes: usize,
    check: Contest,
    repair: Contest,
    judgement: String,
}

/// The two contestants at one task.
#[derive(Default)]
struct Contest {
    theirs: Times,
    ours: Times,
}

impl Contest {
    /// Runs both once, each on a copy of its own.
    fn round(&mut self, theirs: (&Path, &[&str]), ours: (&Path, &[&str]), image: &[u8]) -> io::Result<()> {
        self.theirs.push(timed(theirs.0, theirs.1, image)?);
        self.ours.push(timed(ours.0, ours.1, image)?);
        Ok(())
    }

    fn ratio(&self) -> f64 {
        self.theirs.median() / self.ours.median().max(1e-6)
    }

    /// Cells of a table: both times, how they ended, how many times faster.
    fn cells(&self) -> String {
        let Contest { theirs, ours } = self;
        let times = format!("{} | {}", theirs.cell(), ours.cell());
        format!("{times} | {}; {} | {:.1}", theirs.ended, ours.ended, self.ratio())
    }
}

/// Measures everything and writes `docs/bench/repair.md` (not when only one image was wanted).
pub fn run(options: &Options) -> io::Result<()> {
    if options.build {
        super::check::build()?;
    }
    let fsmend = fsmend_testkit::target_folder().join("release/fsmend");
    let e2fsck = find_program("e2fsck").ok_or_else(|| io::Error::other("e2fsck is not installed"))?;
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| only == name);
    let mut rows = Vec::new();
    for (index, recipe) in bases::large_recipes().iter().enumerate().filter(|(_, recipe)| wanted(recipe.name))
    {
        for magnitude in MAGNITUDES {
            let number = bytes_case(bases::LARGE + index, magnitude, 1);
            let Some(case) = Case::of(number)? else { continue };
            let image = case.image();
            let (mut check, mut repair) = (Contest::default(), Contest::default());
            for _ in 0..options.runs {
                check.round((&e2fsck, &["-fn"]), (&fsmend, &["check"]), &image)?;
                repair.round((&e2fsck, &["-fy"]), (&fsmend, &["repair", "-y", "--no-undo"]), &image)?;
            }
            let judgement = judge_case(&case, Depth::USUAL)?;
            let kinds: Vec<String> = judgement.failures.into_iter().map(|failure| failure.kind).collect();
            let row = Row {
                image: recipe.name,
                bytes: 10_usize.pow(magnitude),
                check,
                repair,
                judgement: if kinds.is_empty() {
                    "right".to_owned()
                } else {
                    format!("case {number}: {}", kinds.join("; "))
                },
            };
            println!("{}", line(&row));
            rows.push(row);
        }
    }
    let large = one_damage::measure_all(&fsmend, options)?;
    let text = text(&rows, &large, options.runs);
    println!("{text}");
    match options.only {
        Some(_) => Ok(()),
        None => write(&workspace()?.join("docs/bench/repair.md"), text),
    }
}

/// Writes the document; the notes in it stay.
fn write(path: &Path, text: String) -> io::Result<()> {
    let old = fs::read_to_string(path).unwrap_or_default();
    let notes = old.split_once(NOTES).map_or_else(String::new, |(_, notes)| format!("{NOTES}{notes}"));
    fs::write(path, text + &notes)
}

/// Seconds of several runs, and how they ended.
#[derive(Default)]
pub struct Times {
    seconds: Vec<f64>,
    ended: String,
}

impl Times {
    /// Adds a run.
    pub fn push(&mut self, run: Run) {
        self.seconds.push(run.took.as_secs_f64());
        self.seconds.sort_by(f64::total_cmp);
        self.ended = match run.ended {
            Ended::Code(code) => format!("exit {code}"),
            Ended::Signal => "crashed".to_owned(),
            Ended::TimedOut => "hung".to_owned(),
        };
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.seconds.get(self.seconds.len() / 2).copied().unwrap_or_default()
    }

    /// Median in milliseconds and spread, for a table.
    pub fn cell(&self) -> String {
        let ms = |seconds: Option<&f64>| seconds.map_or(0.0, |seconds| seconds * 1e3);
        let (first, last) = (ms(self.seconds.first()), ms(self.seconds.last()));
        format!("{:.0} ms ({first:.0} to {last:.0})", self.median() * 1e3)
    }
}

/// Runs a program on a fresh copy of the image, in memory.
fn timed(program: &Path, options: &[&str], image: &[u8]) -> io::Result<Run> {
    let file = Scratch::with(image)?;
    let mut command = Command::new(program);
    command.env("LC_ALL", "C").args(options).arg(file.path());
    run_limited(command, Limits { patience: PATIENCE, ..Limits::default() })
}

fn line(row: &Row) -> String {
    let slowest = row.check.ratio().min(row.repair.ratio());
    let met = match TARGETS.iter().filter(|target| slowest >= **target).count() {
        0 => "too slow",
        1 => "the first",
        _ => "both",
    };
    let Row { image, bytes, check, repair, judgement } = row;
    format!("| {image} | {bytes} | {} | {} | {met} | {judgement} |\n", check.cells(), repair.cells())
}

fn text(rows: &[Row], large: &[one_damage::Row], runs: usize) -> String {
    let mut text = String::from(
        "# `fsmend repair` against e2fsck\n\nMade by `cargo xtask bench repair`; medians (fastest to slowest).\n\n",
    );
    for (name, value) in report::machine() {
        text.push_str(&format!("- {name}: {value}\n"));
    }
    text.push_str(&format!("- runs: {runs}, alternating between the contestants\n\n## Broken bytes\n\n"));
    text.push_str(&format!(
        "Random bytes of metadata are broken; images of 32 to 128 MiB, in memory, a fresh copy for each run; the undo file is left out, as e2fsck writes none. \
         Targets: {} and {} times faster at every count.\n\n| image | bytes | e2fsck -fn | fsmend check | ends | times faster | e2fsck -fy | \
         fsmend repair -y | ends | times faster | targets met | repair |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        TARGETS[0], TARGETS[1]
    ));
    rows.iter().for_each(|row| text.push_str(&line(row)));
    text.push_str(&one_damage::table(large));
    text
}
