// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench paper hfs`: the experiments of the paper on hFS (Zhang and Ghose, EuroSys 2007) on its disk, simulated, with its numbers beside ours. All file systems are worked on by our own drivers
//! through one and the same memory, so that none gathers what others write at once.

mod contestants;
mod ours;
mod tables;

use std::fs;
use std::io;

use crate::workspace;

/// A part that can be run alone: its name, and what makes its section.
type Part = (&'static str, fn() -> io::Result<String>);

const PARTS: [Part; 11] = [
    ("kernel", || Ok(tables::kernel()?.text())),
    ("postmark", || Ok(tables::postmark()?.text())),
    ("order", || section("PostMark out of order", ORDER, ours::order()?)),
    ("archive", || Ok(tables::archive()?.text())),
    ("aging", || Ok(tables::aging()?.text())),
    ("disks", || section("Two disks", TWO, ours::two_disks()?)),
    ("fill", || section("Aged file systems that are nearly full", FILL, ours::by_fill()?)),
    ("log", || section("A log that is nearly full", LOG, ours::by_log()?)),
    ("drives", || section("Other disks", DISKS, ours::drives()?)),
    ("fsync", || section("fsync", FSYNC, ours::fsync()?)),
    ("check", || section("Mounting after a crash, and checking", CHECK, ours::recovery_and_check(100_000)?)),
];

const TWO: &str = "Table 4 with the log on a second disk of the same kind. The paper says that the gap to yFS shrinks, and gives no figures. A computer that waits for one of the disks does not use the other meanwhile.";
const ORDER: &str = "What the order of names and deletions does. PostMark's names count up, and it deletes the oldest file first.";
const FILL: &str = "The aging of Table 4 on 4 GiB; then 10,000 operations more, about half of which delete. All carry out the same operations: full is what the least roomy of them has free when it is new, and files count with whole blocks of 4 KiB.";
const LOG: &str = "Files of 500 to 10,000 bytes are made and deleted at random until they would take this much of a log of 585 MiB, each counted in blocks of 4 KiB; then 10,000 operations more, the same on all. What the \
                   log of hybridfs does not take goes to the data area. The paper did not measure this: it says that a segment of many small pieces is written as slowly as FFS writes.";
const DISKS: &str = "PostMark with 50,000 files on 4 GiB. Requests that touch are joined, and every synchronisation empties the cache of the disk.";
const FSYNC: &str = "500 files of 4 KiB, each made, written and synchronised. Every synchronisation empties the cache of the disk. hybridfs waits for one write of a segment (and one of data, if there are larger files).";
const CHECK: &str = "100,000 files of 500 to 10,000 bytes in folders of a hundred. The check reads from the simulated disk with nothing in memory, with one worker; what it computes is not part of the time.";

fn section(title: &str, what: &str, table: String) -> io::Result<String> {
    Ok(format!("## {title}\n\n{what}\n\n{table}\n"))
}

/// Runs `bench paper hfs [--only PART]`.
pub fn run(options: &[&str]) -> io::Result<()> {
    let only = match options {
        [] => None,
        ["--only", part] => Some(*part),
        other => return Err(io::Error::other(format!("what is {}?", other.join(" ")))),
    };
    let parts: Vec<&Part> = PARTS.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)).collect();
    if parts.is_empty() {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        return Err(io::Error::other(format!("the parts are {}", names.join(", "))));
    }
    let mut sections = Vec::new();
    for (name, part) in parts {
        println!("{name}");
        sections.push(part()?);
    }
    let text = format!("{HEAD}{}{DIFFERENCES}", sections.concat());
    if only.is_some() {
        println!("{text}");
        return Ok(());
    }
    let file = workspace()?.join("docs/bench/paper-hfs.md");
    fs::write(&file, text)?;
    println!("{}", file.display());
    Ok(())
}

const HEAD: &str = "# The paper on hFS, on its disk, simulated

Made by `cargo xtask bench paper hfs`.
";
const DIFFERENCES: &str = "";
