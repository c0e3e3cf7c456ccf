// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench instructions`: how many instructions a check takes beside the floor, counted by valgrind. Unlike times, the counts are the same on a busy machine.
//! What the kernel does is not in them, nor what memory costs: they tell whether one version does less than another, not how long it takes.

use std::io;
use std::path::{Path, PathBuf};

use fsmend_testkit::host::command;

use super::Options;
use super::check::build;
use super::images::{existing, make_all};

/// Counts over the images of `bench check`, or over one, and prints a table.
pub fn run(options: &Options) -> io::Result<()> {
    if options.build {
        build()?;
    }
    let release = fsmend_testkit::target_folder().join("release");
    let (fsmend, floor) = (release.join("fsmend"), release.join("xtask"));
    println!("| image | fsmend check, millions | floor | fsmend / floor |");
    println!("|---|--:|--:|--:|");
    for (name, path) in images(options)? {
        let ours = count(&fsmend, &["check", "--threads", "1"], &path, &[])?;
        let bottom = count(&floor, &["bench", "floor"], &path, &["1"])?;
        println!(
            "| {name} | {} | {} | {:.2} |",
            millions(ours),
            millions(bottom),
            ours as f64 / bottom as f64
        );
    }
    Ok(())
}

fn images(options: &Options) -> io::Result<Vec<(String, PathBuf)>> {
    if let Some(only) = &options.only {
        return Ok(vec![(only.clone(), existing(&options.cache, only)?)]);
    }
    let made = make_all(&options.cache, None)?;
    Ok(made.into_iter().map(|(image, path)| (image.name.to_owned(), path)).collect())
}

/// Runs a program over an image below valgrind; instructions of all its threads.
fn count(program: &Path, before: &[&str], image: &Path, behind: &[&str]) -> io::Result<u64> {
    let mut valgrind = command("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let output = valgrind.args(before).arg(image).args(behind).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    counted(&said)
        .filter(|_| output.status.success())
        .ok_or_else(|| io::Error::other(format!("{valgrind:?}: {}: {said}", output.status)))
}

/// The sum in what callgrind says at its end.
fn counted(said: &str) -> Option<u64> {
    let sum = said.lines().find_map(|line| line.split_once("Collected : "))?.1;
    sum.trim().parse().ok()
}

fn millions(count: u64) -> u64 {
    count / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_found_among_other_lines() {
        let said =
            "==7== Events    : Ir\n==7== Collected : 3120616\n==7== \n==7== I   refs:      3,120,616\n";
        assert_eq!(counted(said), Some(3_120_616));
        assert_eq!(counted("==7== Process terminating"), None);
    }
}
