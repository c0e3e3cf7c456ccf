// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask fuzz`: coverage-guided fuzzing of one target after the other, from seeds, on nightly.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsmend_testkit::fuzzing::{TARGETS, seeds};

use crate::workspace;

/// Seconds for each target, unless `--seconds` says otherwise.
const SECONDS: u64 = 60;
/// A run that holds more memory, in MiB, is a finding.
const MEMORY_MIB: u32 = 2048;
/// A single input that takes longer, in seconds, is a finding.
const PATIENCE: u32 = 10;

/// What the command line says.
struct Options {
    seconds: u64,
    /// Folder of images for `cut_image`.
    images: Option<PathBuf>,
    /// Whether to write the seeds, and no more.
    seeds_only: bool,
    /// The targets; all when there is none.
    targets: Vec<String>,
}

/// Runs `fuzz [--seconds N] [--images FOLDER] [--seeds-only] [TARGET...]`.
pub fn run(words: &[&str]) -> io::Result<()> {
    let options = Options::parse(words)?;
    let mut failed = Vec::new();
    for target in TARGETS.iter().map(|target| target.name) {
        if !options.targets.is_empty() && !options.targets.iter().any(|wanted| wanted == target) {
            continue;
        }
        let corpus = workspace()?.join("fuzz/corpus").join(target);
        plant(target, &corpus, options.images.as_deref())?;
        if !options.seeds_only && !fuzz(target, &corpus, options.seconds)? {
            failed.push(target);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(io::Error::other(format!("see fuzz/artifacts: {}", failed.join(", "))))
}

impl Options {
    fn parse(words: &[&str]) -> io::Result<Self> {
        let mut options = Options { seconds: SECONDS, images: None, seeds_only: false, targets: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| io::Error::other(format!("{word} needs a value")));
            match *word {
                "--seconds" => options.seconds = value()?.parse().map_err(io::Error::other)?,
                "--images" => options.images = Some(PathBuf::from(value()?)),
                "--seeds-only" => options.seeds_only = true,
                target if TARGETS.iter().any(|known| known.name == target) => {
                    options.targets.push(target.to_owned());
                }
                other => return Err(io::Error::other(format!("there is no target {other}"))),
            }
        }
        Ok(options)
    }
}

/// Puts the seeds into the corpus, beside what earlier runs left there.
fn plant(target: &str, corpus: &Path, images: Option<&Path>) -> io::Result<()> {
    fs::create_dir_all(corpus)?;
    for (number, seed) in seeds(target, images)?.iter().enumerate() {
        fs::write(corpus.join(format!("seed-{number:04}")), seed)?;
    }
    Ok(())
}

fn fuzz(target: &str, corpus: &Path, seconds: u64) -> io::Result<bool> {
    println!("{target}: {seconds} s");
    let status = Command::new("cargo")
        .args(["+nightly", "fuzz", "run", target])
        .arg(corpus)
        .args(["--", "-print_final_stats=1", "-max_len=262144"])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        .arg(format!("-timeout={PATIENCE}"))
        .current_dir(workspace()?)
        .env_remove("RUSTUP_TOOLCHAIN")
        .status()?;
    Ok(status.success())
}
