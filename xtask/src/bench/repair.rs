// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench repair`: how long checks and repairs of damaged images take. Against `e2fsck -fn` and `-fy` with more and more bytes of
//! metadata broken, and against a plain check of the large images with one thing wrong.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsmend_testkit::damage::Survey;
use fsmend_testkit::host::find_program;
use fsmend_testkit::process::Ended;
use fsmend_testkit::repair::{Case, Depth, bases, broken_bytes, bytes_case, judge_case, write_sparse};

use super::contest::{Contest, Times};
use super::measure::load_average;
use super::{Options, images, many_errors, one_damage, report};
use crate::workspace;

/// From ten bytes to a hundred thousand.
const MAGNITUDES: std::ops::RangeInclusive<u32> = 1..=5;
/// How much faster than e2fsck a repair has to be, by the clock.
const TARGET: f64 = 3.0;
/// The image of the bench that is broken as well.
const FILLED: &str = "files50k";
/// What stands below this line in the document is written by hand, and stays.
const NOTES: &str = "\n## Notes\n";
/// Images are kept without pieces of this length that hold nothing but zeroes.
const PIECE: usize = 64 << 10;

/// One row of the first table.
struct Row {
    image: &'static str,
    mebibytes: u64,
    bytes: usize,
    check: Contest,
    repair: Contest,
    judgement: String,
}

/// Where the programs are.
struct Programs {
    fsmend: PathBuf,
    e2fsck: PathBuf,
}

/// Measures everything and writes `docs/bench/repair.md` (not when only one image was wanted).
pub fn run(options: &Options) -> io::Result<()> {
    if options.build {
        super::check::build()?;
    }
    let fsmend = fsmend_testkit::target_folder().join("release/fsmend");
    let e2fsck = find_program("e2fsck").ok_or_else(|| io::Error::other("e2fsck is not installed"))?;
    let programs = Programs { fsmend, e2fsck };
    let (started, load) = (Instant::now(), load_average().unwrap_or_default());
    let mut rows = small_images(&programs, options)?;
    if options.wants(FILLED) {
        rows.extend(filled_image(&programs, options)?);
    }
    let mut many = Vec::new();
    if options.wants(many_errors::ONLY) {
        many = many_errors::measure_all(&programs.fsmend, &programs.e2fsck, options)?;
    }
    let large = one_damage::measure_all(&programs.fsmend, options)?;
    let text = text(&rows, &many, &large, (options.runs, load, started.elapsed()));
    println!("{text}");
    match options.only {
        Some(_) => Ok(()),
        None => write(&workspace()?.join("docs/bench/repair.md"), text),
    }
}

/// Bytes of the small images, judged as the block fuzzer judges them.
fn small_images(programs: &Programs, options: &Options) -> io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (index, recipe) in bases::large_recipes().iter().enumerate() {
        for magnitude in MAGNITUDES.filter(|_| options.wants(recipe.name)) {
            let number = bytes_case(bases::LARGE + index, magnitude, 1);
            let Some(case) = Case::of(number)? else { continue };
            let judgement = judge_case(&case, Depth::USUAL)?;
            let kinds: Vec<String> = judgement.failures.into_iter().map(|failure| failure.kind).collect();
            let judgement = match kinds.as_slice() {
                [] => "right".to_owned(),
                kinds => format!("case {number}: {}", kinds.join("; ")),
            };
            rows.push(measure(
                programs,
                options,
                (recipe.name, 10_usize.pow(magnitude)),
                &case.image().bytes(),
                judgement,
            )?);
        }
    }
    Ok(rows)
}

/// Bytes of an image with many files. What the repair leaves is looked at by e2fsck.
fn filled_image(programs: &Programs, options: &Options) -> io::Result<Vec<Row>> {
    let survey = Survey::of(&images::existing(&options.cache, FILLED)?)?;
    let mut rows = Vec::new();
    for magnitude in MAGNITUDES {
        let bytes = 10_usize.pow(magnitude);
        let mut image = survey.image.clone();
        broken_bytes(&survey, FILLED, bytes, u64::from(magnitude)).apply_to_bytes(&mut image);
        let repaired = Copy::of(&Pieces::of(&image))?;
        let mut again = Times::default();
        again.run(&programs.fsmend, &["repair", "-y", "--no-undo"], &repaired.0)?;
        again.run(&programs.e2fsck, &["-fn"], &repaired.0)?;
        let judgement = match again.ended {
            Some(Ended::Code(0)) => "sound for e2fsck".to_owned(),
            _ => format!("e2fsck -fn afterwards: {}", again.end()),
        };
        drop(repaired);
        rows.push(measure(programs, options, (FILLED, bytes), &image, judgement)?);
    }
    Ok(rows)
}

fn measure(
    programs: &Programs,
    options: &Options,
    (name, bytes): (&'static str, usize),
    image: &[u8],
    judgement: String,
) -> io::Result<Row> {
    if let Some(folder) = &options.keep {
        write_sparse(&folder.join(format!("{name}-{bytes}.img")), image)?;
    }
    let pieces = Pieces::of(image);
    let (mut check, mut repair) = (Contest::default(), Contest::default());
    for _ in 0..options.runs {
        // A check changes nothing.
        let copy = Copy::of(&pieces)?;
        check.theirs.run(&programs.e2fsck, &["-fn"], &copy.0)?;
        check.ours.run(&programs.fsmend, &["check"], &copy.0)?;
        repair.ours.run(&programs.fsmend, &["repair", "-y", "--no-undo"], &copy.0)?;
        drop(copy);
        repair.theirs.run(&programs.e2fsck, &["-fy"], &Copy::of(&pieces)?.0)?;
        if repair.theirs.is_slow() || repair.ours.is_slow() {
            break;
        }
    }
    let row = Row { image: name, mebibytes: image.len() as u64 >> 20, bytes, check, repair, judgement };
    print!("{}", line(&row));
    Ok(row)
}

/// An image without its zeroes.
struct Pieces<'i> {
    len: u64,
    pieces: Vec<(u64, &'i [u8])>,
}

impl<'i> Pieces<'i> {
    fn of(image: &'i [u8]) -> Self {
        let pieces = image.chunks(PIECE).enumerate().map(|(index, piece)| ((index * PIECE) as u64, piece));
        let pieces = pieces.filter(|(_, piece)| piece.iter().any(|byte| *byte != 0)).collect();
        Pieces { len: image.len() as u64, pieces }
    }
}

/// A copy of an image, in memory where there is such a thing; it is gone afterwards.
struct Copy(PathBuf);

impl Copy {
    fn of(image: &Pieces<'_>) -> io::Result<Self> {
        let memory = PathBuf::from("/dev/shm");
        let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let copy = Copy(folder.join(format!("fsmend-bench-{}.img", std::process::id())));
        let file = File::create(&copy.0)?;
        file.set_len(image.len)?;
        image.pieces.iter().try_for_each(|(offset, piece)| file.write_all_at(piece, *offset))?;
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_file(names_beside(&self.0));
    }
}

/// The list of names that a repair found again, which it leaves beside an image.
pub fn names_beside(image: &Path) -> PathBuf {
    let mut path = image.as_os_str().to_owned();
    path.push(".fsmend-names.txt");
    path.into()
}

/// Writes the document; the notes in it stay.
fn write(path: &Path, text: String) -> io::Result<()> {
    let old = fs::read_to_string(path).unwrap_or_default();
    let notes = old.split_once(NOTES).map_or_else(String::new, |(_, notes)| format!("{NOTES}{notes}"));
    fs::write(path, text + &notes)
}

fn line(row: &Row) -> String {
    let met = match &row.repair.ours.ended {
        // To give up is no way to be fast.
        ended if *ended != Some(Ended::Code(1)) => "not repaired",
        _ if row.repair.ratios().1 >= TARGET => "met",
        _ => "too slow",
    };
    let Row { image, mebibytes, bytes, check, repair, judgement } = row;
    format!(
        "| {image} | {mebibytes} | {bytes} | {} | {} | {met} | {judgement} |\n",
        check.cells(),
        repair.cells()
    )
}

fn text(
    rows: &[Row],
    many: &[many_errors::Row],
    large: &[one_damage::Row],
    (runs, load, took): (usize, f64, Duration),
) -> String {
    let mut text =
        String::from("# `fsmend repair` against e2fsck\n\nMade by `cargo xtask bench repair`.\n\n");
    for (name, value) in report::machine() {
        text.push_str(&format!("- {name}: {value}\n"));
    }
    text.push_str(&format!(
        "- runs: {runs}, alternating between the contestants; one of what takes longer than a few seconds\n- load average before: {load:.1}; all of this took {} minutes\n\
         - times in milliseconds: processor time; time by the clock (fastest to slowest); both are medians. Targets are judged by the clock. On a machine that has other things \
         to do, only processor time says much.\n\n## Broken bytes\n\n",
        took.as_secs().div_ceil(60)
    ));
    text.push_str(&format!(
        "Random bytes of metadata are broken, as many as the third column says. A fresh copy in memory for each repair; the undo file is left out, as e2fsck writes none. \
         Target: a repair is {TARGET} times faster by the clock at every count. e2fsck -fn gives up early (exit 12) on most images with 100 bytes broken and more.\n\n\
         | image | MiB | bytes | e2fsck -fn | fsmend check | ends | times faster | e2fsck -fy | fsmend repair -y | ends | times faster | target | repair |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
    ));
    rows.iter().for_each(|row| text.push_str(&line(row)));
    text.push_str(&many_errors::table(many));
    text.push_str(&one_damage::table(large));
    text
}
