// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures 1, 3, 10 and 11: how long a check takes, by how full the file system is and by its age.

use std::io;
use std::path::Path;

use super::checkers::{self, Cost};
use super::figure::{Figure, Table};
use super::images::{self, CONTESTANTS, Contestant, EXT3};
use super::plot::{Curves, Plot};

/// Operations per folder; the paper's Figures 3 and 11.
const AGES: [u32; 4] = [0, 20, 60, 120];
/// How full, in percent; the paper has 150 to 600 GB of 698 (Figures 1 and 10).
const FULL: [u32; 4] = [20, 40, 60, 80];
/// How full the aged ones are.
pub const AGED_FULL: f64 = 0.93;

/// A check of one image, by e2fsck and by us.
pub struct Row {
    pub contestant: &'static str,
    /// Operations per folder, or percent full.
    pub step: u32,
    pub utilisation: f64,
    pub e2fsck: Option<(Cost, [f64; 5])>,
    pub fsmend: Cost,
    /// Seconds foretold from the superblock, where that can be done.
    foretold: Option<f64>,
}

impl Row {
    /// How many times as fast as e2fsck.
    pub fn times(&self) -> Option<f64> {
        self.e2fsck.map(|(cost, _)| cost.seconds / self.fsmend.seconds.max(1e-9))
    }
}

/// Makes an image, and has both checkers look.
pub fn measure(
    image: &Path,
    gib: u64,
    contestant: &Contestant,
    (full, age): (f64, u32),
    step: u32,
) -> io::Result<Row> {
    let utilisation = images::make_aged(image, gib, contestant, full, age)?;
    // e2fsck does not know the format of a rext3.
    let e2fsck = contestant.is_known_to_e2fsck().then(|| checkers::e2fsck(image)).transpose()?;
    let foretold = (!contestant.is_known_to_e2fsck()).then(|| checkers::foretold(image)).transpose()?;
    let row = Row {
        contestant: contestant.name,
        step,
        utilisation,
        e2fsck,
        fsmend: checkers::ours(image)?,
        foretold,
    };
    println!(
        "{} {step} of {gib} GiB: {:.0} % full, fsmend {:.2} s ({:.2} computing, heads {:.3?}, at once {:.2} s, {} requests), e2fsck {}",
        row.contestant,
        utilisation * 100.0,
        row.fsmend.seconds,
        row.fsmend.computing,
        row.fsmend.heads,
        row.fsmend.at_once.unwrap_or_default(),
        row.fsmend.requests,
        row.e2fsck.map_or_else(
            || "-".to_owned(),
            |(cost, _)| format!("{:.2} s ({:.2} computing)", cost.seconds, cost.computing)
        ),
    );
    Ok(row)
}

/// Figures 1 and 10.
pub fn by_utilisation(image: &Path, gib: u64) -> io::Result<Vec<Figure>> {
    let mut rows = Vec::new();
    for contestant in CONTESTANTS.iter().filter(|one| one.name == EXT3.name || !one.is_known_to_e2fsck()) {
        for full in FULL {
            rows.push(measure(image, gib, contestant, (f64::from(full) / 100.0, 0), full)?);
        }
    }
    Ok(vec![passes(&rows), both(&rows)])
}

fn passes(rows: &[Row]) -> Figure {
    let mut table = Table::new(&[
        "full",
        "e2fsck -fn",
        "pass 1",
        "pass 2",
        "pass 3",
        "pass 4",
        "pass 5",
        "share of pass 1",
    ]);
    let mut curve = Vec::new();
    for row in rows {
        let Some((cost, passes)) = row.e2fsck else { continue };
        let mut cells = vec![format!("{:.0} %", row.utilisation * 100.0), format!("{:.1} s", cost.seconds)];
        cells.extend(passes.iter().map(|seconds| format!("{seconds:.2} s")));
        cells.push(format!("{:.1} %", passes[0] / cost.seconds.max(1e-9) * 100.0));
        table.push(cells);
        curve.push((f64::from(row.step), cost.seconds));
    }
    Figure {
        number: "1",
        title: "e2fsck by how full an ext3 is",
        paper: "the time grows quickly with what is in use, and more than 95 % of it is pass 1",
        table,
        ours: "The shape is the same: map blocks lie between the data, so each costs a seek, and there are as many as the files are many.",
        plot: Some(Plot {
            across: "percent full",
            upwards: "seconds",
            logarithmic: false,
            curves: vec![("e2fsck, ext3".to_owned(), curve)],
        }),
    }
}

fn both(rows: &[Row]) -> Figure {
    let mut table = Table::new(&["file system", "full", "e2fsck -fn", "fsmend check", "times faster"]);
    let (mut curves, mut theirs): (Curves, Vec<(f64, f64)>) = (Vec::new(), Vec::new());
    for row in rows {
        table.push(vec![
            row.contestant.to_owned(),
            format!("{:.0} %", row.utilisation * 100.0),
            row.e2fsck.map_or_else(|| "-".to_owned(), |(cost, _)| format!("{:.1} s", cost.seconds)),
            format!("{:.1} s", row.fsmend.seconds),
            row.times().map_or_else(|| "-".to_owned(), |times| format!("{times:.1}")),
        ]);
        theirs.extend(row.e2fsck.map(|(cost, _)| (f64::from(row.step), cost.seconds)));
        push(&mut curves, &format!("fsmend, {}", row.contestant), (f64::from(row.step), row.fsmend.seconds));
    }
    curves.insert(0, ("e2fsck, ext3".to_owned(), theirs));
    Figure {
        number: "10",
        title: "Checks by how full the file system is",
        paper: "e2fsck's time grows with what is in use, that of ffsck on rext3 hardly does",
        table,
        ours: "Inode tables are read as far as they are in use, so a little grows with what is in use.",
        plot: Some(Plot { across: "percent full", upwards: "seconds", logarithmic: false, curves }),
    }
}

/// Adds a point to the curve of that name.
fn push(curves: &mut Curves, name: &str, point: (f64, f64)) {
    match curves.iter_mut().find(|(known, _)| known == name) {
        Some((_, points)) => points.push(point),
        None => curves.push((name.to_owned(), vec![point])),
    }
}

/// Figures 3 and 11.
pub fn by_age(image: &Path, gib: u64) -> io::Result<Vec<Figure>> {
    let mut rows = Vec::new();
    for contestant in CONTESTANTS {
        for age in AGES {
            rows.push(measure(image, gib, contestant, (AGED_FULL, age), age)?);
        }
    }
    let bandwidth = checkers::bandwidth(gib);
    Ok(vec![rate_of_e2fsck(&rows, bandwidth), rates(&rows, bandwidth)])
}

fn rate_of_e2fsck(rows: &[Row], bandwidth: f64) -> Figure {
    let mut table =
        Table::new(&["file system", "operations per folder", "e2fsck reads", "of the disk's bandwidth"]);
    let mut curves = Vec::new();
    for row in rows {
        let Some((cost, _)) = row.e2fsck else { continue };
        table.push(vec![
            row.contestant.to_owned(),
            row.step.to_string(),
            format!("{:.1} MB/s", cost.rate()),
            format!("{:.1} %", cost.rate() / bandwidth * 100.0),
        ]);
        push(&mut curves, row.contestant, (f64::from(row.step), cost.rate()));
    }
    Figure {
        number: "3",
        title: "e2fsck by age",
        paper: "less than 10 % of the disk's 100 MB/s on aged ext3; ext4 begins better and is hardly better when it has aged",
        table,
        ours: "The e2fsck of today reads inode tables ahead and skips what is not in use, which on ext4 leaves few bytes to be read at all: its rate says little there, its time \
               (Figure 11) more.",
        plot: Some(Plot { across: "operations per folder", upwards: "MB/s", logarithmic: false, curves }),
    }
}

fn rates(rows: &[Row], bandwidth: f64) -> Figure {
    let mut table = Table::new(&[
        "file system",
        "operations per folder",
        "full",
        "e2fsck -fn",
        "fsmend check",
        "times faster",
        "than e2fsck on ext3",
        "e2fsck computes",
        "fsmend computes",
        "e2fsck reads",
        "fsmend reads",
        "of the bandwidth",
        "requests of e2fsck",
        "of fsmend",
        "its blocks in one sweep",
        "foretold",
    ]);
    let on_ext3 = |age: u32| {
        rows.iter()
            .find(|row| row.contestant == EXT3.name && row.step == age)
            .and_then(|row| row.e2fsck.map(|(cost, _)| cost.seconds))
    };
    let mut curves = Vec::new();
    for row in rows {
        let dash = || "-".to_owned();
        let theirs = row.e2fsck.map(|(cost, _)| cost);
        table.push(vec![
            row.contestant.to_owned(),
            row.step.to_string(),
            format!("{:.0} %", row.utilisation * 100.0),
            theirs.map_or_else(dash, |cost| format!("{:.2} s", cost.seconds)),
            format!("{:.2} s", row.fsmend.seconds),
            row.times().map_or_else(dash, |times| format!("**{times:.1}**")),
            on_ext3(row.step).map_or_else(dash, |time| format!("{:.1}", time / row.fsmend.seconds.max(1e-9))),
            theirs.map_or_else(dash, |cost| format!("{:.2} s", cost.computing)),
            format!("{:.2} s", row.fsmend.computing),
            theirs.map_or_else(dash, |cost| format!("{:.1} MB/s", cost.rate())),
            format!("{:.1} MB/s", row.fsmend.rate()),
            format!("{:.0} %", row.fsmend.rate() / bandwidth * 100.0),
            theirs.map_or_else(dash, |cost| cost.requests.to_string()),
            row.fsmend.requests.to_string(),
            row.fsmend.at_once.map_or_else(dash, |time| format!("{time:.2} s")),
            row.foretold.map_or_else(dash, |time| format!("{time:.2} s")),
        ]);
        if let Some(cost) = theirs {
            push(&mut curves, &format!("e2fsck, {}", row.contestant), (f64::from(row.step), cost.rate()));
        }
        push(&mut curves, &format!("fsmend, {}", row.contestant), (f64::from(row.step), row.fsmend.rate()));
    }
    Figure {
        number: "11",
        title: "Checks by age",
        paper: "ffsck reads rext3 at 61 % of the disk's bandwidth at any age, e2fsck ext3 at 5 to 6 %; ffsck is nearly 10 times as fast. Wanted here, besides: three times e2fsck's speed \
                on aged ext3 and ext4, without a new format",
        table,
        ours: "On ext3, map blocks lie among the data. They are gathered from all inode tables and read in one sweep: a disk that has a queue full of them needs a fraction of what it needs for each alone. On rext3, bitmaps and regions come with the inode table that they lie beside, so that each group is one way. What is foretold comes from the superblock's \
               counts and a trial of the disk. On ext4, hardly anything is left to be read, and each block of it is a seek: what is used of the inode tables of a flexible group, \
               which the disk is told about long before, and each map block or directory. \
               What e2fsck reads ahead fills the disk's queue as well. One sweep is what the disk would need for the same blocks if all of them were known at once.",
        plot: Some(Plot { across: "operations per folder", upwards: "MB/s", logarithmic: false, curves }),
    }
}
