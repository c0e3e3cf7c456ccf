//! How the operating system schedules us, and what follows for how workers are divided.

use std::path::Path;

use fsmend_device::read_small;
use fsmend_engine::pool::{Mode, Priority, Schedule};

/// How workers are divided: as the user wants, else as suits the priority that we were given.
pub fn schedule(wanted: Option<Mode>, background: bool) -> Schedule {
    let mode = wanted.unwrap_or_else(|| Mode::default_for(priority(), background));
    Schedule { mode, ..Schedule::default() }
}

/// How the operating system schedules us.
fn priority() -> Priority {
    read_small(Path::new("/proc/self/stat")).ok().and_then(|text| parse_priority(&text)).unwrap_or_default()
}

/// Nice value and policy (fields 19 and 41) of /proc/self/stat. The name of the program, in brackets, may hold blanks.
fn parse_priority(text: &str) -> Option<Priority> {
    const SCHED_BATCH: u32 = 3;
    const SCHED_IDLE: u32 = 5;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let (nice, policy) = (fields.get(19 - 3)?.parse().ok()?, fields.get(41 - 3)?.parse::<u32>().ok()?);
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
