// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench neighbour`: what a check costs an application beside it, and the application the check (the paper's Figure 10 a).
//!
//! The application works alone; beside e2fsck, as it is and softened as an administrator would; beside `fsmend check`, as it is and in the
//! background. Then once more with each on cores of its own, which is what the checks' times are compared with. All of them in
//! each round, so that whatever else the machine does hits them alike.

mod application;
mod checker;
mod postgres;
mod report;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use application::{Application, Speed};
use checker::{Checker, Checkers};
use report::Row;

use super::measure::load_average;
use super::{check, default_cache, images, number};
use crate::workspace;

/// Fewer or shorter rounds are a trial: nothing is written.
const ROUNDS: usize = 9;
const SECONDS: u64 = 2;

/// What the command line says.
pub struct Setting {
    cache: PathBuf,
    /// The benchmark image that is checked.
    pub image: String,
    /// How often everything is measured.
    pub rounds: usize,
    /// For how long, each.
    pub seconds: u64,
    /// Clients of the application.
    pub clients: usize,
    only: Option<String>,
    application: Option<String>,
    build: bool,
}

impl Setting {
    fn parse(words: &[&str]) -> io::Result<Setting> {
        let build = !words.contains(&"--no-build");
        let words: Vec<&str> = words.iter().copied().filter(|word| *word != "--no-build").collect();
        // The paper's application had three quarters of the cores.
        let clients = (cores() * 3 / 4).max(1);
        let mut setting = Setting {
            cache: PathBuf::new(),
            image: "files".to_owned(),
            rounds: ROUNDS,
            seconds: SECONDS,
            clients,
            only: None,
            application: None,
            build,
        };
        let mut cache = None;
        for pair in words.chunks(2) {
            match pair {
                ["--cache", folder] => cache = Some(PathBuf::from(folder)),
                ["--image", name] => setting.image = (*name).to_owned(),
                ["--rounds", rounds] => setting.rounds = number(rounds)?.max(1),
                ["--seconds", seconds] => setting.seconds = number(seconds)?.max(1) as u64,
                ["--clients", clients] => setting.clients = number(clients)?.max(1),
                ["--application", name] => setting.application = Some((*name).to_owned()),
                ["--only", state @ ("warm" | "cold")] => setting.only = Some((*state).to_owned()),
                other => return Err(io::Error::other(format!("what is {}?", other.join(" ")))),
            }
        }
        setting.cache = cache.map_or_else(default_cache, Ok)?;
        Ok(setting)
    }

    /// Whether the figures are worth keeping.
    fn is_whole(&self) -> bool {
        self.rounds >= ROUNDS && self.seconds >= SECONDS && self.only.is_none()
    }
}

/// Cores of the machine, as far as we may use them.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// Measures, prints the tables, and writes `docs/bench/neighbour.md` (not after a trial).
pub fn run(words: &[&str]) -> io::Result<()> {
    let setting = Setting::parse(words)?;
    if setting.build {
        check::build()?;
    }
    let image = images::existing(&setting.cache, &setting.image)?;
    let checkers = Checkers::find(&image)?;
    let load = load_average();
    let awake = Awake::keep();
    let application = Application::start(setting.application.as_deref())?;
    let mut tables = Vec::new();
    for state in ["warm", "cold"] {
        if setting.only.as_ref().is_none_or(|only| only == state) {
            println!("{state}");
            let rows =
                Scene { setting: &setting, application: &application, image: &image, cold: state == "cold" }
                    .rows(&checkers)?;
            println!("{}\n{}", report::table(&rows), report::verdict(&rows));
            tables.push((state, rows));
        }
    }
    if setting.is_whole() {
        let about = report::About {
            application: application.description(setting.clients),
            awake: awake.is_some(),
            load,
        };
        report::write(&workspace()?.join("docs/bench"), &setting, &tables, &about)
    } else {
        Ok(())
    }
}

/// Keeps all cores awake as long as it is there: an application that is alone would else wait for cores that have gone to sleep each time one of its
/// threads is woken, and be faster with a checker beside it.
struct Awake(#[expect(dead_code, reason = "the kernel looks at whether it is open")] File);

impl Awake {
    /// Cores may take no time at all to wake up (the kernel's PM QoS). None where that cannot be asked for.
    fn keep() -> Option<Awake> {
        let mut file = File::options().write(true).open("/dev/cpu_dma_latency").ok()?;
        file.write_all(&0_i32.to_ne_bytes()).ok()?;
        Some(Awake(file))
    }
}

/// What all measurements of one table have in common.
struct Scene<'s> {
    setting: &'s Setting,
    application: &'s Application,
    image: &'s Path,
    cold: bool,
}

impl Scene<'_> {
    fn rows(&self, checkers: &Checkers) -> io::Result<Vec<Row>> {
        let Checkers { e2fsck, e2fsck_nice, fsmend, background } = checkers;
        let pairs: [(Option<&Checker>, bool); 7] = [
            (None, false),
            (Some(e2fsck), false),
            (Some(e2fsck_nice), false),
            (Some(fsmend), false),
            (Some(background), false),
            (Some(e2fsck), true),
            (Some(background), true),
        ];
        // Each once, unmeasured: what is read stays in the page cache.
        self.application.work(self.setting.clients, 1, &[])?;
        e2fsck.once(&[])?;
        fsmend.once(&[])?;
        let mut rows: Vec<Row> = pairs
            .iter()
            .map(|(checker, apart)| Row::new(checker.map(|checker| checker.name), *apart))
            .collect();
        for _ in 0..self.setting.rounds {
            for ((checker, apart), row) in pairs.iter().zip(&mut rows) {
                let (speed, checks) = self.measure(*checker, *apart)?;
                row.speeds.push(speed);
                row.checks.extend(checks);
            }
        }
        Ok(rows)
    }

    /// The application at work, beside `checker` if there is one; with cores of its own for each if they are `apart`.
    fn measure(&self, checker: Option<&Checker>, apart: bool) -> io::Result<(Speed, Vec<f64>)> {
        let all: Vec<usize> = (0..cores()).collect();
        let (theirs, ours) = all.split_at(if apart { all.len() / 2 } else { 0 });
        let ours = if apart { ours } else { &[] };
        let work = || self.application.work(self.setting.clients, self.setting.seconds, theirs);
        let Some(checker) = checker else { return Ok((work()?, Vec::new())) };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let checks = scope.spawn(|| checker.again_and_again(self.image, self.cold, ours, &stop));
            let speed = work();
            stop.store(true, Relaxed);
            let checks =
                checks.join().unwrap_or_else(|_| Err(io::Error::other("the checker's thread panicked")));
            Ok((speed?, checks?))
        })
    }
}
