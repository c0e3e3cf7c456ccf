// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench`: how fast is it, beside the established checker and beside the floor?

mod aged;
mod check;
mod contest;
mod curve;
mod estimate;
mod fleet;
mod floor;
mod fragmented;
mod hybridfs;
mod images;
mod instructions;
mod layout;
mod many_errors;
mod measure;
mod mount;
mod needs;
mod neighbour;
mod one_damage;
mod page;
mod paper;
mod populate;
mod repair;
mod repair_fields;
mod replay;
mod report;
mod same;
mod scaling;
mod slow;
mod ufs;

use std::io;
use std::path::{Path, PathBuf};

/// A median of fewer runs says little.
const RUNS_MIN: usize = 5;

/// Runs `bench WHAT [--cache FOLDER] [--runs N] [--quick] [--only NAME] [--keep FOLDER] [--no-build]`.
pub fn run(words: &[&str]) -> io::Result<()> {
    words.first().map_or(Ok(()), |name| needs::of_benchmark(name))?;
    match words {
        ["images", options @ ..] => make_images(&Options::parse(options)?),
        ["check", options @ ..] => check::run(&Options::parse(options)?),
        ["estimate", options @ ..] => estimate::run(&Options::parse(options)?),
        ["fleet", options @ ..] => fleet::run(&Options::parse(options)?),
        ["hybridfs", options @ ..] => hybridfs::run(&Options::parse(options)?),
        ["instructions", options @ ..] => instructions::run(&Options::parse(options)?),
        ["mount", options @ ..] => mount::run(&Options::parse(options)?),
        ["neighbour", options @ ..] => neighbour::run(options),
        ["page", options @ ..] => page::run(&Options::parse(options)?),
        ["paper", rest @ ..] => paper::run(rest),
        ["repair", options @ ..] => repair::run(&Options::parse(options)?),
        ["scaling", options @ ..] => scaling::run(&Options::parse(options)?),
        ["slow", options @ ..] => slow::run(&Options::parse(options)?),
        ["ufs", options @ ..] => ufs::run(&Options::parse(options)?),
        ["repair-fields", options @ ..] => repair_fields::run(options),
        ["same", options @ ..] => same::run(options),
        ["floor", image, threads] => floor::run_once(Path::new(image), number(threads)?),
        _ => Err(io::Error::other(
            "expected `bench` and what: images, check, estimate, fleet, hybridfs, instructions, mount, neighbour, page, paper, repair, repair-fields, same, scaling, slow, ufs",
        )),
    }
}

fn make_images(options: &Options) -> io::Result<()> {
    let made = images::make_all(&options.cache, options.only.as_deref())?;
    made.iter().try_for_each(|(image, _)| images::in_xfs(&options.cache, image).map(|_| ()))
}

/// What the command line says.
pub struct Options {
    /// Where the images are kept.
    pub cache: PathBuf,
    /// How often each thing is measured: at least [`RUNS_MIN`] times, or once if a quick look was asked for.
    pub runs: usize,
    /// Whether to build first, or to measure the release build that is there.
    pub build: bool,
    /// Restricts the run to one image.
    pub only: Option<String>,
    /// Where damaged images are left for those who want to know why something takes long.
    pub keep: Option<PathBuf>,
}

impl Options {
    /// Whether the image called `name` is to be measured.
    fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == name)
    }

    fn parse(words: &[&str]) -> io::Result<Self> {
        let mut options =
            Options { cache: PathBuf::new(), runs: RUNS_MIN, build: true, only: None, keep: None };
        let mut cache = None;
        let switches = words.iter().filter(|word| **word == "--no-build");
        options.build = switches.count() == 0;
        let is_quick = words.contains(&"--quick");
        let is_switch = |word: &&str| matches!(*word, "--no-build" | "--quick");
        let words: Vec<&str> = words.iter().copied().filter(|word| !is_switch(word)).collect();
        for pair in words.chunks(2) {
            match pair {
                ["--cache", folder] => cache = Some(PathBuf::from(folder)),
                ["--runs", runs] => options.runs = number(runs)?.max(RUNS_MIN),
                ["--only", name] => options.only = Some((*name).to_owned()),
                ["--keep", folder] => options.keep = Some(PathBuf::from(folder)),
                other => return Err(io::Error::other(format!("what is {}?", other.join(" ")))),
            }
        }
        options.runs = if is_quick { 1 } else { options.runs };
        options.cache = cache.map_or_else(default_cache, Ok)?;
        Ok(options)
    }
}

fn number(word: &str) -> io::Result<usize> {
    word.parse().map_err(|_| io::Error::other(format!("{word} is not a number")))
}

fn default_cache() -> io::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let unknown = "neither XDG_CACHE_HOME nor HOME is set; use --cache FOLDER";
    Ok(cache.or(home).ok_or_else(|| io::Error::other(unknown))?.join("fsmend-bench"))
}
