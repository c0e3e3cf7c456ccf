// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figure 11 once more, on a file system that is not quite so small: there, what a check costs at its start is next to nothing.

use std::io;
use std::path::Path;

use super::figure::{Figure, Table};
use super::images::{EXT3, EXT4};
use super::speed::{AGED_FULL, measure};

/// Operations per folder.
const AGES: [u32; 3] = [0, 20, 120];

/// The figure, with file systems of so many GiB.
pub fn larger(image: &Path, gib: u64) -> io::Result<Vec<Figure>> {
    let mut table = Table::new(&[
        "file system",
        "GiB",
        "operations per folder",
        "full",
        "e2fsck -fn",
        "fsmend check",
        "times faster",
        "the same blocks in one sweep",
        "requests of e2fsck",
        "of fsmend",
    ]);
    for contestant in [&EXT3, &EXT4] {
        for age in AGES {
            let row = measure(image, gib, contestant, (AGED_FULL, age), age)?;
            let theirs = row.e2fsck.map(|(cost, _)| cost).unwrap_or_default();
            table.push(vec![
                row.contestant.to_owned(),
                gib.to_string(),
                age.to_string(),
                format!("{:.0} %", row.utilisation * 100.0),
                format!("{:.2} s", theirs.seconds),
                format!("{:.2} s", row.fsmend.seconds),
                row.times().map_or_else(|| "-".to_owned(), |times| format!("**{times:.2}**")),
                row.fsmend.at_once.map_or_else(|| "-".to_owned(), |time| format!("{time:.2} s")),
                theirs.requests.to_string(),
                row.fsmend.requests.to_string(),
            ]);
        }
    }
    Ok(vec![Figure {
        number: "11 again",
        title: "The same on a larger file system",
        paper: "its file systems have 750 GB",
        table,
        ours: "What it takes to begin is the same at any size, and weighs less the larger a file system is. One sweep is what the disk would need if a checker knew all of its blocks before it asked for the first: it \
               cannot, as inode tables tell where maps and directories are.",
        plot: None,
    }])
}
