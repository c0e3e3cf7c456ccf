// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the operating system schedules us, and what follows for how workers are divided.

use std::path::Path;

use fsmend_device::read_small;
use fsmend_engine::pool::{Mode, Priority, Schedule};

use super::{SCHED_IDLE, stat_field};

/// How workers are divided: as the user wants, else as suits the priority that we were given.
pub fn schedule(wanted: Option<Mode>, background: bool) -> Schedule {
    let mode = wanted.unwrap_or_else(|| Mode::default_for(priority(), background));
    Schedule { mode, ..Schedule::default() }
}

/// How the operating system schedules us.
fn priority() -> Priority {
    read_small(Path::new("/proc/self/stat")).ok().and_then(|text| parse_priority(&text)).unwrap_or_default()
}

/// Nice value and policy of /proc/self/stat.
fn parse_priority(text: &str) -> Option<Priority> {
    const SCHED_BATCH: u32 = 3;
    let (nice, policy) = (stat_field(text, 19)?, stat_field::<u32>(text, 41)?);
    Some(Priority { nice, yields: policy == SCHED_BATCH || policy == SCHED_IDLE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities() {
        let stat = |nice: i32, policy: u32| {
            format!("7 (a ) b) R {} 20 {nice} {} {policy} 0 0", ["0"; 14].join(" "), ["0"; 21].join(" "))
        };
        assert_eq!(parse_priority(&stat(0, 0)), Some(Priority::default()));
        assert_eq!(parse_priority(&stat(19, 0)), Some(Priority { nice: 19, yields: false }));
        assert_eq!(parse_priority(&stat(-3, 5)), Some(Priority { nice: -3, yields: true }));
        assert_eq!(parse_priority("7 (x) R 1"), None);
    }

    #[test]
    fn what_is_wanted_counts_for_more() {
        assert_eq!(schedule(Some(Mode::Data), true).mode, Mode::Data);
        assert_eq!(schedule(None, true).mode, Mode::ResourceAware);
    }
}
