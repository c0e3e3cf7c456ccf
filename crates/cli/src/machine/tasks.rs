// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of this process with the lowest priority (SCHED_IDLE): on which cores they have worked, and keeping them to some cores.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use fsmend_device::read_small;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{SCHED_IDLE, stat_field};

/// The threads that stand back.
#[derive(Debug)]
pub struct Tasks {
    folder: PathBuf,
    tick_ns: u64,
    /// Ticks that each has used, when it was last seen.
    ticks: HashMap<i32, u64>,
    by_core: BTreeMap<usize, u64>,
}

/// A line of /proc/self/task/*/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    ticks: u64,
    core: usize,
    policy: u32,
}

impl Tasks {
    /// Those of this process, on the machine below `root` with `ticks_per_second` of its kernel.
    pub fn below(root: &Path, ticks_per_second: u64) -> Tasks {
        let tick_ns = 1_000_000_000 / ticks_per_second.max(1);
        Tasks {
            folder: root.join("proc/self/task"),
            tick_ns,
            ticks: HashMap::new(),
            by_core: BTreeMap::new(),
        }
    }

    /// Looks at them again. What a thread has used since it was last seen, it has used on the core that it was last on, as far as that is known.
    pub fn look(&mut self) {
        let before = std::mem::take(&mut self.ticks);
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let text = read_small(&entry.path().join("stat"));
            let (Some(id), Some(task)) = (id, text.ok().and_then(|text| parse(&text))) else { continue };
            if task.policy == SCHED_IDLE {
                let new = task.ticks.saturating_sub(before.get(&id).copied().unwrap_or(0));
                let sum = self.by_core.entry(task.core).or_default();
                *sum = sum.saturating_add(new.saturating_mul(self.tick_ns));
                self.ticks.insert(id, task.ticks);
            }
        }
    }

    /// For how long `core` has worked for them, in nanoseconds.
    pub fn own_ns(&self, core: usize) -> u64 {
        self.by_core.get(&core).copied().unwrap_or(0)
    }

    /// Keeps all that were there at the last look, and what they start from now on, to `cores`. Those that have ended since need no place, and
    /// where the system does not allow it they go on where they are.
    pub fn keep_to(&self, cores: &[usize]) {
        let mut set = CpuSet::new();
        cores.iter().filter(|core| **core < CpuSet::MAX_CPU).for_each(|core| set.set(*core));
        for id in self.ticks.keys().filter_map(|id| Pid::from_raw(*id)) {
            let _ = sched_setaffinity(Some(id), &set);
        }
    }
}

fn parse(text: &str) -> Option<Task> {
    let (user, system): (u64, u64) = (stat_field(text, 14)?, stat_field(text, 15)?);
    Some(Task {
        ticks: user.saturating_add(system),
        core: stat_field(text, 39)?,
        policy: stat_field(text, 41)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::*;
    use crate::machine::testing::Fixture;

    fn stat(user: u64, system: u64, core: u64, policy: u32) -> String {
        format!(
            "7 (a) name) R 1 1 1 0 -1 0 0 0 0 0 {user} {system} 0 0 20 0 3 0 99 {} {core} 0 {policy} 0 0\n",
            "0 ".repeat(16).trim()
        )
    }

    #[test]
    fn what_those_that_stand_back_have_used_is_counted_by_core() {
        let machine = Fixture::new("tasks");
        let mut tasks = Tasks::below(machine.path(), 100);
        machine.write("proc/self/task/7/stat", &stat(3, 4, 1, SCHED_IDLE));
        machine.write("proc/self/task/8/stat", &stat(50, 0, 1, 0));
        tasks.look();
        assert_eq!((tasks.own_ns(1), tasks.own_ns(0)), (70_000_000, 0));
        machine.write("proc/self/task/7/stat", &stat(5, 4, 0, SCHED_IDLE));
        machine.write("proc/self/task/9/stat", "9 (x) R");
        tasks.look();
        assert_eq!((tasks.own_ns(1), tasks.own_ns(0)), (70_000_000, 20_000_000));
        assert_eq!(tasks.ticks.keys().copied().collect::<Vec<_>>(), [7]);
    }

    proptest! {
        #[test]
        fn garbage_is_survived(text in "([(]?[ -~]{0,20}[)]?( [0-9]{1,22}){0,45})?") {
            let _ = parse(&text);
        }
    }
}
