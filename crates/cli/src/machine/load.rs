// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine is busy with: samples for the core budget (`engine::cores`) from /proc/stat, from pressure stall information, and
//! from the control groups we are in. Read only; whatever cannot be understood is left out.

use std::path::{Path, PathBuf};

use fsmend_device::read_small;
use fsmend_engine::cores::Sample;

use super::groups::Groups;

/// Where samples come from.
#[derive(Debug)]
pub struct Load {
    stat: PathBuf,
    pressure: PathBuf,
    groups: Groups,
    /// Cores on which this process may run; all of them if that is not known.
    cores: Option<Vec<usize>>,
    tick_ns: u64,
}

/// What /proc/stat says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stat {
    /// Our cores by number, each with the ticks for which it has been idle.
    idle: Vec<(usize, u64)>,
    /// Tasks that run or want to, on the whole machine.
    running: Option<u64>,
}

impl Load {
    /// The load of the machine below `root`, with `ticks_per_second` of its kernel, seen by a process that may run on `cores`.
    pub fn below(root: &Path, ticks_per_second: u64, cores: Option<Vec<usize>>) -> Load {
        let groups = Groups::below(root);
        let pressure = groups.pressure().unwrap_or_else(|| root.join("proc/pressure/cpu"));
        let tick_ns = 1_000_000_000 / ticks_per_second.max(1);
        Load { stat: root.join("proc/stat"), pressure, groups, cores, tick_ns }
    }

    /// A sample, taken at `at_ns` when this process had used `own_ns` of processor time, and for how many nanoseconds each of our cores has been
    /// idle. None where there is no /proc.
    pub fn sample(&self, at_ns: u64, own_ns: u64) -> Option<(Sample, Vec<(usize, u64)>)> {
        let ticks = self.stat()?.idle.into_iter();
        let by_core: Vec<_> = ticks.map(|(core, idle)| (core, idle.saturating_mul(self.tick_ns))).collect();
        let sample = Sample {
            at_ns,
            own_ns,
            idle_ns: by_core.iter().fold(0, |sum, (_, idle)| sum.saturating_add(*idle)),
            waited_ns: read_small(&self.pressure).ok().and_then(|text| parse_pressure(&text)),
            quotas: self.groups.quotas(),
        };
        Some((sample, by_core))
    }

    /// How many tasks run or want to just now, this one among them.
    pub fn running(&self) -> Option<u64> {
        self.stat()?.running
    }

    fn stat(&self) -> Option<Stat> {
        let is_ours = |core| self.cores.as_ref().is_none_or(|cores| cores.contains(&core));
        parse_stat(&read_small(&self.stat).ok()?, is_ours)
    }
}

/// Idle time (waiting for disks is idle, too) of the cores that are ours. None if no line of such a core can be read.
fn parse_stat(text: &str, is_ours: impl Fn(usize) -> bool) -> Option<Stat> {
    let idle = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let core: usize =
            words.next().filter(|word| !line.starts_with("cpu ") && !word.is_empty())?.parse().ok()?;
        let mut ticks = words.skip(3).map(|word| word.parse::<u64>().ok());
        let (idle, waiting) = (ticks.next()??, ticks.next().flatten().unwrap_or(0));
        is_ours(core).then(|| (core, idle.saturating_add(waiting)))
    };
    let idle: Vec<_> = text.lines().filter_map(idle).collect();
    let running = text.lines().find_map(|line| line.strip_prefix("procs_running "));
    (!idle.is_empty()).then(|| Stat { idle, running: running.and_then(|number| number.trim().parse().ok()) })
}

/// Nanoseconds in which some task waited: `some avg10=... total=MICROSECONDS`.
fn parse_pressure(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?;
    total.parse::<u64>().ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::proptest;

    use super::*;
    use crate::machine::testing::Fixture;

    const STAT: &str = "cpu  79845 2133 39177 108247 7020 0 531 232 0 0\n\
                        cpu0 33444 1275 18108 62046 3439 0 159 117 0 0\n\
                        cpu1 46401 858 21069 46200 3580 0 372 114 0 0\n\
                        intr 1 2 3\nprocs_running 3\nprocs_blocked 0\n";

    #[test]
    fn a_machine_as_it_is() {
        let machine = Fixture::new("load");
        machine.write("proc/stat", STAT);
        machine.write(
            "proc/pressure/cpu",
            "some avg10=88.13 avg60=42.84 avg300=14.83 total=111565336\nfull avg10=0.00 total=0\n",
        );
        let load = Load::below(machine.path(), 100, None);
        let (sample, by_core) = load.sample(5, 7).unwrap();
        assert_eq!((sample.at_ns, sample.own_ns, sample.waited_ns), (5, 7, Some(111_565_336_000)));
        assert_eq!(sample.idle_ns, (62_046 + 3439 + 46_200 + 3580) * 10_000_000);
        assert_eq!(by_core, [(0, (62_046 + 3439) * 10_000_000), (1, (46_200 + 3580) * 10_000_000)]);
        assert_eq!((load.running(), sample.quotas), (Some(3), Vec::new()));
        let bound = Load::below(machine.path(), 100, Some(vec![1]));
        assert_eq!(bound.sample(0, 0).unwrap().0.idle_ns, (46_200 + 3580) * 10_000_000);
    }

    #[test]
    fn half_a_file_is_better_than_none() {
        let stat =
            parse_stat("cpu0 1 2 3 4\ncpu1 x\ncpu2 1 2 3\ncpufreq 1 2 3 4\nprocs_running many", |_| true);
        assert_eq!(stat, Some(Stat { idle: vec![(0, 4)], running: None }));
        assert_eq!(parse_stat(STAT, |core| core == 7), None);
        assert_eq!(parse_pressure("full total=5"), None);
        let nothing = Fixture::new("no-proc");
        assert!(Load::below(nothing.path(), 0, None).sample(0, 0).is_none());
    }

    proptest! {
        #[test]
        fn garbage_is_survived(text in "(cpu[0-9 ]{0,40}\n|[ -~]{0,30}\n|procs_running [0-9]{0,25}\n|some total=[0-9]{0,25}\n){0,9}") {
            let _ = (parse_stat(&text, |_| true), parse_pressure(&text));
        }
    }
}
