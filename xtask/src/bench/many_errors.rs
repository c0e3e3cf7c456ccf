// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many errors (pFSCK's Figure 11): checks and repairs of the file-intensive image with more and more bytes of its metadata broken.
//!
//! The image is too large to be copied for each run, and neither checker reads what files hold: so e2image takes its metadata out, and what is
//! broken is a copy of that, in memory.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fsmend_base::SeededRandom;
use fsmend_testkit::host::{find_program, run};
use fsmend_testkit::process::Ended;
use rustix::fs::{SeekFrom, seek};

use super::contest::{Contest, Times};
use super::repair::names_beside;
use super::{Options, images};

/// The image of the bench that is broken, and its name in the options.
pub const IMAGE: &str = "files";
/// What is given to `--only` for this table alone.
pub const ONLY: &str = "many-errors";
/// How much faster than e2fsck checks and repairs have to be, by the clock.
const TARGET: f64 = 5.0;
/// From ten bytes to a hundred thousand.
const MAGNITUDES: std::ops::RangeInclusive<u32> = 1..=5;
/// What is broken is broken in pieces of the image of this length that hold something.
const PIECE: usize = 4096;
/// How many times faster than e2fsck pFSCK's scheduler is with eight threads, as far as its paper (section 6.6) gives numbers.
const PAPER: &[(u32, &str)] = &[(2, "up to 2.7"), (4, "1.1"), (5, "about 1")];

/// One row of the table.
pub struct Row {
    magnitude: u32,
    check: Contest,
    repair: Contest,
    afterwards: String,
}

/// Measures all magnitudes.
pub fn measure_all(fsmend: &Path, e2fsck: &Path, options: &Options) -> io::Result<Vec<Row>> {
    let image = images::existing(&options.cache, IMAGE)?;
    let metadata = Metadata::of(&image)?;
    let mut rows = Vec::new();
    for magnitude in MAGNITUDES {
        let row = measure((fsmend, e2fsck), options, &metadata, magnitude)?;
        print!("{}", line(&row));
        rows.push(row);
    }
    Ok(rows)
}

fn measure(
    (fsmend, e2fsck): (&Path, &Path),
    options: &Options,
    metadata: &Metadata,
    magnitude: u32,
) -> io::Result<Row> {
    let broken = metadata.broken(10_u64.pow(magnitude), u64::from(magnitude));
    if let Some(folder) = &options.keep {
        let kept = metadata.copy(folder.join(format!("{IMAGE}-{}.img", 10_u64.pow(magnitude))), &broken)?;
        std::mem::forget(kept);
    }
    let (mut check, mut repair) = (Contest::default(), Contest::default());
    let mut afterwards = Times::default();
    for round in 0..options.runs {
        let copy = metadata.copy(scratch(), &broken)?;
        // A check changes nothing.
        check.theirs.run(e2fsck, &["-fn"], &copy.0)?;
        check.ours.run(fsmend, &["check"], &copy.0)?;
        repair.ours.run(fsmend, &["repair", "-y", "--no-undo"], &copy.0)?;
        if round == 0 {
            afterwards.run(e2fsck, &["-fn"], &copy.0)?;
        }
        drop(copy);
        repair.theirs.run(e2fsck, &["-fy"], &metadata.copy(scratch(), &broken)?.0)?;
        if repair.theirs.is_slow() || repair.ours.is_slow() {
            break;
        }
    }
    let afterwards = match afterwards.ended {
        Some(Ended::Code(0)) => "sound for e2fsck".to_owned(),
        _ => format!("e2fsck -fn afterwards: {}", afterwards.end()),
    };
    Ok(Row { magnitude, check, repair, afterwards })
}

/// The metadata of an image: its length, and what is not zeroes.
struct Metadata {
    len: u64,
    pieces: Vec<(u64, Vec<u8>)>,
}

/// A file that goes when it is not needed any more.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_file(names_beside(&self.0));
    }
}

/// In memory, where there is such a thing.
fn scratch() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
    folder.join(format!("fsmend-bench-{}.img", std::process::id()))
}

impl Metadata {
    fn of(image: &Path) -> io::Result<Self> {
        let e2image = find_program("e2image").ok_or_else(|| io::Error::other("e2image is not installed"))?;
        let taken = Scratch(scratch());
        run(&e2image.to_string_lossy(), [Path::new("-r"), image, taken.0.as_path()])?;
        let file = File::open(&taken.0)?;
        let len = file.metadata()?.len();
        let (mut pieces, mut at) = (Vec::new(), 0);
        while let Ok(start) = seek(&file, SeekFrom::Data(at)) {
            let end = seek(&file, SeekFrom::Hole(start))?;
            for offset in (start..end).step_by(PIECE) {
                let mut piece = vec![0; (end - offset).min(PIECE as u64) as usize];
                file.read_exact_at(&mut piece, offset)?;
                if piece.iter().any(|byte| *byte != 0) {
                    pieces.push((offset, piece));
                }
            }
            at = end;
        }
        Ok(Metadata { len, pieces })
    }

    /// Random bytes of it: half of them whole random values, and half single bits.
    fn broken(&self, count: u64, seed: u64) -> Vec<(u64, u8)> {
        let mut random = SeededRandom::new(seed);
        let mut bytes = Vec::new();
        for _ in 0..count {
            let Some((offset, piece)) = self.pieces.get(random.below(self.pieces.len() as u64) as usize)
            else {
                break;
            };
            let at = random.below(piece.len() as u64);
            let (old, value) = (piece.get(at as usize).copied().unwrap_or(0), random.next_u64());
            let new = if value & 0x100 == 0 { value as u8 } else { old ^ 1 << (value & 7) };
            bytes.push((offset + at, new));
        }
        bytes
    }

    fn copy(&self, place: PathBuf, broken: &[(u64, u8)]) -> io::Result<Scratch> {
        let file = File::create(&place)?;
        let copy = Scratch(place);
        file.set_len(self.len)?;
        self.pieces.iter().try_for_each(|(offset, piece)| file.write_all_at(piece, *offset))?;
        broken.iter().try_for_each(|(offset, byte)| file.write_all_at(&[*byte], *offset))?;
        Ok(copy)
    }
}

fn line(row: &Row) -> String {
    let Row { magnitude, check, repair, afterwards } = row;
    let is_there = |contest: &Contest, code| contest.ours.ended == Some(Ended::Code(code));
    let judged = |contest: &Contest, code| match contest.ratios().1 {
        _ if !is_there(contest, code) => "not done",
        ratio if ratio >= TARGET => "met",
        _ if contest.theirs.ended == Some(Ended::Code(12)) => "e2fsck gives up",
        _ => "too slow",
    };
    let paper = PAPER.iter().find(|(known, _)| known == magnitude).map_or("", |(_, told)| told);
    format!(
        "| {} | {} | {} | {} | {} | {afterwards} | {paper} |\n",
        10_u64.pow(*magnitude),
        check.cells(),
        judged(check, 4),
        repair.cells(),
        judged(repair, 1)
    )
}

/// The table, as text.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "\n## Many errors\n\nFigure 11 of the paper on pFSCK: the file-intensive image of `bench check` (a million inodes), as e2image takes its metadata out, in memory, with random \
         bytes of what is not zeroes broken. Target: check and repair {TARGET} times faster than e2fsck at every count, by the clock. Where e2fsck -fn gives up \
         (exit 12), it has not looked at most of the image. The last column is what pFSCK's scheduler reaches with eight threads, as its paper says it (section 6.6), for checks and repairs in \
         one; its figure gives no numbers.\n\n\
         | bytes | e2fsck -fn | fsmend check | ends | times faster | target | e2fsck -fy | fsmend repair -y | ends | times faster | target | repair | pFSCK |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    rows.iter().for_each(|row| text.push_str(&line(row)));
    text
}
