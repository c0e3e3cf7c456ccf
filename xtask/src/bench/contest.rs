// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two programs in turns at the same task: how long each takes by the clock, and how much of it the processors work for it.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fsmend_testkit::process::{Ended, Limits, run_limited};

/// The longest wait for a run.
const PATIENCE: Duration = Duration::from_secs(300);
/// What takes more seconds than this is done once.
const SLOW: f64 = 4.0;
/// Runs a program, and has the shell write down what it took: seconds by the clock, of the program itself, of the kernel for it. After twenty
/// seconds of processor time it is killed: the shell alone could be, and the program would go on.
const TIMED: &str =
    r#"ulimit -t 20; TIMEFORMAT="%3R %3U %3S"; file=$1; shift; { time "$@" >&3 2>&4; } 3>&1 4>&2 2>"$file""#;

/// What several runs of one program took, and how they ended.
#[derive(Default)]
pub struct Times {
    wall: Vec<f64>,
    cpu: Vec<f64>,
    /// How the last of them ended.
    pub ended: Option<Ended>,
    /// What the last of them complained about.
    pub said: String,
}

impl Times {
    /// Runs `program` once more, on `image`.
    pub fn run(&mut self, program: &Path, options: &[&str], image: &Path) -> io::Result<()> {
        let notes = std::env::temp_dir().join(format!("fsmend-bench-time-{}", std::process::id()));
        let mut command = Command::new("bash");
        command.env("LC_ALL", "C").args(["-c", TIMED, "bash"]).arg(&notes);
        command.arg(program).args(options).arg(image);
        let run = run_limited(command, Limits { patience: PATIENCE, ..Limits::default() })?;
        let text = fs::read_to_string(&notes)?;
        fs::remove_file(&notes)?;
        // Of a program that was killed, the shell says that first.
        let last = text.lines().last().unwrap_or_default();
        let seconds: Vec<f64> = last.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        match seconds.as_slice() {
            [wall, user, system] => {
                self.wall.push(*wall);
                self.cpu.push(user + system);
            }
            _ => {
                return Err(io::Error::other(format!("bash did not tell the time of {}", program.display())));
            }
        }
        self.wall.sort_by(f64::total_cmp);
        self.cpu.sort_by(f64::total_cmp);
        self.ended = Some(run.ended);
        self.said = String::from_utf8_lossy(&run.stderr).into_owned();
        Ok(())
    }

    /// Median of the seconds by the clock.
    pub fn wall(&self) -> f64 {
        median(&self.wall)
    }

    /// Whether it takes so long that it is not repeated.
    pub fn is_slow(&self) -> bool {
        self.wall() > SLOW
    }

    /// Median of the seconds of processor time. It comes in whole milliseconds, and nothing takes none.
    pub fn cpu(&self) -> f64 {
        median(&self.cpu).max(1e-3)
    }

    /// Processor time, time by the clock and its spread, in milliseconds, for a table.
    pub fn cell(&self) -> String {
        let ms = |seconds: Option<&f64>| seconds.map_or(0.0, |seconds| seconds * 1e3);
        let (first, last) = (ms(self.wall.first()), ms(self.wall.last()));
        if self.wall.len() == 1 {
            return format!("{:.0}; {last:.0} (once)", self.cpu() * 1e3);
        }
        format!("{:.0}; {:.0} ({first:.0} to {last:.0})", self.cpu() * 1e3, self.wall() * 1e3)
    }

    /// How it ended, in two words.
    pub fn end(&self) -> String {
        match self.ended {
            // That is how the shell tells of a signal.
            Some(Ended::Code(137)) => "killed after 20 s of processor time".to_owned(),
            Some(Ended::Code(code)) => format!("exit {code}"),
            Some(Ended::Signal) => "crashed".to_owned(),
            Some(Ended::TimedOut) => "hung".to_owned(),
            None => "never ran".to_owned(),
        }
    }
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// The two contestants at one task.
#[derive(Default)]
pub struct Contest {
    /// e2fsck.
    pub theirs: Times,
    /// Ours.
    pub ours: Times,
}

impl Contest {
    /// How many times faster ours is, by processor time and by the clock.
    pub fn ratios(&self) -> (f64, f64) {
        (self.theirs.cpu() / self.ours.cpu(), self.theirs.wall() / self.ours.wall().max(1e-6))
    }

    /// Cells of a table: both times, how they ended, how many times faster.
    pub fn cells(&self) -> String {
        let Contest { theirs, ours } = self;
        let (cpu, wall) = self.ratios();
        format!(
            "{} | {} | {}; {} | {cpu:.1}; {wall:.1}",
            theirs.cell(),
            ours.cell(),
            theirs.end(),
            ours.end()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ends_of_a_program_are_told() -> io::Result<()> {
        let mut times = Times::default();
        times.run(Path::new("bash"), &["-c", "sleep 0.02; echo no >&2; exit 3"], Path::new("image"))?;
        assert_eq!((times.end().as_str(), times.said.as_str()), ("exit 3", "no\n"));
        assert!(times.wall() >= 0.02 && times.cpu() < times.wall() + 1.0, "{}", times.cell());
        Ok(())
    }
}
