// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench paper ext4` is in `fast_fsck.rs`, `bench paper ffs` in `ffs.rs`, `bench paper hfs` in `hfs/`. `bench paper ffsck`: the experiments of the paper on rext3 and ffsck, on a simulated hard disk, with the paper's values beside ours.
//!
//! Images are made by our own driver, filled and aged as in §3.2 (blocks are claimed, data is not written, so that they stay small). What e2fsck asks
//! of its disk is recorded by the kernel (its block layer, below the page cache) and served again by the simulated disk; our own checker and our driver
//! work on the simulated disk itself. What checkers compute passes on its clock. docs/bench/method.md says what can be compared with what.

mod checkers;
mod computing;
mod fast_fsck;
mod ffs;
mod figure;
mod files;
mod hfs;
mod images;
mod map_blocks;
mod memory;
mod plot;
mod record;
mod servers;
mod shared;
mod site;
mod sizes;
mod speed;
mod steps;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::needs;
use crate::workspace;
use figure::Figure;

/// Size if nothing else is said, in GiB; the paper's disk had 698.
const GIB: u64 = 8;

/// Size of the larger file systems if nothing else is said, in GiB.
const LARGE_GIB: u64 = 32;

/// The part of an image that is taken to be metadata, at most: one in so many bytes.
const METADATA_PART: u64 = 16;

/// A part that can be run alone: what it is called, and what makes its figures, in so many GiB.
type Part = (&'static str, fn(&Path, u64) -> io::Result<Vec<Figure>>);

/// The part whose file systems are larger than those of all others.
const LARGE: &str = "size";

const PARTS: [Part; 9] = [
    ("memory", |_, _| Ok(vec![memory::figure()])),
    ("utilisation", speed::by_utilisation),
    ("age", speed::by_age),
    (LARGE, sizes::larger),
    ("shared", shared::shared),
    ("row", files::in_a_row),
    ("random", files::here_and_there),
    ("postmark", |image, gib| Ok(vec![servers::postmark(image, gib)?])),
    ("servers", |image, gib| Ok(vec![servers::servers(image, gib)?])),
];

/// Runs `bench paper ffsck [--gib N] [--large N] [--cache FOLDER] [--only PART]`.
pub fn run(words: &[&str]) -> io::Result<()> {
    let (mut gib, mut large, mut cache, mut only) = (GIB, LARGE_GIB, None, None);
    let rest = match words {
        ["ffsck", rest @ ..] => rest,
        ["ext4", rest @ ..] => return fast_fsck::run(words, rest),
        ["ffs", rest @ ..] => return ffs::run(words, rest),
        ["hfs", rest @ ..] => return hfs::run(rest),
        _ => {
            return Err(io::Error::other(
                "expected `bench paper ffsck`, `bench paper ext4`, `bench paper ffs` or `bench paper hfs`",
            ));
        }
    };
    for pair in rest.chunks(2) {
        match pair {
            ["--gib", number] => gib = (super::number(number)? as u64).max(1),
            ["--large", number] => large = (super::number(number)? as u64).max(1),
            ["--cache", folder] => cache = Some(PathBuf::from(folder)),
            ["--only", part] => only = Some(*part),
            other => return Err(io::Error::other(format!("what is {}?", other.join(" ")))),
        }
    }
    if cfg!(debug_assertions) {
        // Computing counts, too: it has to be the program that people use.
        return optimised(words);
    }
    let folder = cache.map_or_else(super::default_cache, Ok)?;
    fs::create_dir_all(&folder)?;
    if only != Some("memory") {
        can_record(&folder, gib.max(large))?;
    }
    let image = folder.join(format!("paper-ffsck-{}.img", std::process::id()));
    let figures = figures(&image, (gib, large), only);
    // It may not be there, if the first thing went wrong.
    let _ = fs::remove_file(&image);
    let mut figures = figures?;
    figures.sort_by_key(|figure| figure.number.split(' ').next().and_then(|word| word.parse::<u32>().ok()));
    // A run of a part shows its figures and leaves the document as it is.
    let documents = match only {
        None => workspace()?.join("docs/bench"),
        Some(_) => folder,
    };
    let mut text = head(gib, large);
    for figure in &figures {
        text.push_str(&figure.text(&documents)?);
    }
    if only.is_some() {
        println!("{text}");
        return Ok(());
    }
    let file = documents.join("paper-ffsck.md");
    fs::write(&file, text)?;
    println!("{}", file.display());
    Ok(())
}

/// Looks, before anything is made, for what it takes to record e2fsck on images of so many GiB in `folder`: they hold metadata alone.
fn can_record(folder: &Path, gib: u64) -> io::Result<()> {
    needs::superuser("to record what e2fsck reads, and for loop devices")?;
    needs::programs(&["e2fsck", "losetup", "mount", "umount"])?;
    needs::room(folder, (gib << 30) / METADATA_PART)?;
    record::Tracing::open().map(|_| ())
}

/// The same, by an optimised build of this program.
fn optimised(words: &[&str]) -> io::Result<()> {
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--release", "--package", "xtask", "--", "bench", "paper"])
        .args(words)
        .current_dir(workspace()?)
        .status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("it came to no end")) }
}

fn figures(image: &Path, (gib, large): (u64, u64), only: Option<&str>) -> io::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let parts: Vec<&Part> = PARTS.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)).collect();
    if parts.is_empty() {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        return Err(io::Error::other(format!("the parts are {}", names.join(", "))));
    }
    for (name, part) in parts {
        figures.extend(part(image, if *name == LARGE { large } else { gib })?);
    }
    Ok(figures)
}

fn head(gib: u64, large: u64) -> String {
    let bandwidth = checkers::bandwidth(gib);
    format!(
        "# The paper on rext3 and ffsck, on a simulated hard disk\n\n\
         Made by `cargo xtask bench paper ffsck --gib {gib} --large {large}`. File systems of {gib} GiB, made, filled and aged by our own driver as in §3.2 \
         (seed {}), at the rim of the paper's disk (`fsmend_disksim::HddDescription::barracuda_7200_12()`), which reads {bandwidth:.0} MB/s there. Times are by the disk's clock, with what checkers compute: \
         [method.md](method.md) says what they can be compared with.\n\n",
        images::SEED
    )
}
