// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench check`: `fsmend check` against `e2fsck -fn` and the floor, alternately, warm and cold.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsmend_testkit::host::{command, find_program, is_root};

use super::Options;
use super::images::{in_xfs, make_all};
use super::measure::{Sample, drop_caches, load_average, measure, spread};
use super::report::{self, Row};
use crate::workspace;

/// Cold runs take their time; these are enough to see their spread.
const COLD_RUNS_MAX: usize = 9;

/// Measures all images and writes `docs/bench/check.{md,json}` (not when only one image was wanted).
pub fn run(options: &Options) -> io::Result<()> {
    let programs = Programs::find(options.build)?;
    let mut rows = Vec::new();
    for (image, path) in make_all(&options.cache, options.only.as_deref())? {
        let in_xfs = in_xfs(&options.cache, &image)?;
        for state in [State::Warm, State::Cold] {
            if state == State::Cold && !is_root() {
                continue;
            }
            let load = load_average();
            let runs = if state == State::Warm { options.runs } else { options.runs.min(COLD_RUNS_MAX) };
            let figures = programs.compare((&path, in_xfs.as_deref()), state, runs)?;
            rows.push(Row {
                image: image.name,
                what: image.what,
                targets: image.targets,
                state,
                figures,
                load,
            });
        }
    }
    println!("{}", report::table(&rows));
    if options.only.is_none() {
        report::write(&workspace()?.join("docs/bench"), &rows, options.runs)
    } else {
        Ok(())
    }
}

/// What the page cache holds when a contestant starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// All that it is going to read.
    Warm,
    /// Nothing.
    Cold,
}

/// Median, spread and peak of the contestants.
pub struct Figures {
    /// `e2fsck -fn`.
    pub e2fsck: super::measure::Spread,
    /// `fsmend check`.
    pub fsmend: super::measure::Spread,
    /// The floor.
    pub floor: super::measure::Spread,
    /// `xfs_repair -n` over the same tree in XFS, where there is one.
    pub xfs: Option<super::measure::Spread>,
}

/// What is compared.
pub struct Programs {
    e2fsck: PathBuf,
    /// Ours.
    pub fsmend: PathBuf,
    floor: PathBuf,
    threads: usize,
}

impl Programs {
    /// Builds ours in the release profile; the floor is this very tool, compiled the same way.
    pub fn find(wanted: bool) -> io::Result<Self> {
        if wanted {
            build()?;
        }
        let e2fsck = find_program("e2fsck")
            .ok_or_else(|| io::Error::other("e2fsck is not installed (Debian package e2fsprogs)"))?;
        let release = fsmend_testkit::target_folder().join("release");
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let (fsmend, floor) = (release.join("fsmend"), release.join("xtask"));
        if let Some(missing) = [&fsmend, &floor].into_iter().find(|program| !program.exists()) {
            return Err(io::Error::other(format!(
                "{} is not there: run this without --no-build",
                missing.display()
            )));
        }
        Ok(Programs { e2fsck, fsmend, floor, threads })
    }

    /// Alternates, so that whatever else the machine does hits all of them alike.
    fn compare(
        &self,
        (image, xfs): (&Path, Option<&Path>),
        state: State,
        runs: usize,
    ) -> io::Result<Figures> {
        let cold = state == State::Cold;
        let (mut e2fsck, mut fsmend, mut floor, mut in_xfs) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for run in 0..=runs {
            let prepare = || if cold { drop_caches() } else { Ok(()) };
            prepare()?;
            let ours = measure(&self.fsmend, &["check".as_ref(), image.as_os_str()])?;
            prepare()?;
            let theirs = measure(&self.e2fsck, &["-fn".as_ref(), image.as_os_str()])?;
            let bottom = self.floor(image, cold)?;
            prepare()?;
            let other = xfs.map(|xfs| measure(Path::new("xfs_repair"), &["-n".as_ref(), xfs.as_os_str()]));
            // The first warm round fills the cache.
            if run > 0 || cold {
                fsmend.push(ours);
                e2fsck.push(theirs);
                floor.push(bottom);
                in_xfs.extend(other.transpose()?);
            }
            if cold && run + 1 >= runs {
                break;
            }
        }
        Ok(Figures {
            e2fsck: spread(&e2fsck),
            fsmend: spread(&fsmend),
            floor: spread(&floor),
            xfs: xfs.map(|_| spread(&in_xfs)),
        })
    }

    /// Runs the floor program once.
    pub fn floor(&self, image: &Path, cold: bool) -> io::Result<Sample> {
        let mut floor = command(&self.floor.to_string_lossy());
        floor.args(["bench", "floor"]).arg(image).arg(self.threads.to_string());
        if cold {
            floor.env("FSMEND_BENCH_COLD", "1");
        }
        let output = floor.output()?;
        let seconds = String::from_utf8_lossy(&output.stdout).trim().parse();
        let seconds = seconds.map_err(|_| {
            io::Error::other(format!("the floor fell: {}", String::from_utf8_lossy(&output.stderr)))
        })?;
        Ok(Sample { seconds, peak_kib: None })
    }
}

/// Builds the program and this tool in the release profile.
pub fn build() -> io::Result<()> {
    let cargo = Command::new(env!("CARGO"))
        .args(["build", "--release", "--package", "fsmend-cli", "--package", "xtask"])
        .current_dir(workspace()?)
        .status()?;
    if !cargo.success() {
        return Err(io::Error::other("the release build failed"));
    }
    Ok(())
}
