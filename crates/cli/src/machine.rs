//! What the machine, or the container we run in, gives us: cores and memory.

use std::fs;
use std::num::NonZero;
use std::time::SystemTime;

use fsmend_ext_check::run::{Meter, StageClock};
use rustix::time::{ClockId, clock_gettime};

/// Taken when nothing can be learned about memory, and the least that is ever taken by default.
const MEMORY_MIN: u64 = 64 << 20;

/// The clocks of one thread.
pub const STAGE_CLOCK: StageClock = StageClock {
    wall: || nanoseconds(ClockId::Monotonic),
    thread_cpu: || nanoseconds(ClockId::ThreadCPUTime),
};

/// The clocks of this process, and the most memory it has held.
pub fn meter() -> Meter {
    Meter { peak_memory: peak_memory().unwrap_or(0), ..clocks() }
}

/// The clocks of this process alone. To learn about memory takes the kernel longer than to check a small file system.
pub fn clocks() -> Meter {
    Meter {
        wall_ns: nanoseconds(ClockId::Monotonic),
        cpu_ns: nanoseconds(ClockId::ProcessCPUTime),
        peak_memory: 0,
    }
}

/// Seconds since the epoch.
pub fn seconds_since_epoch() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The most memory this process has held, in bytes.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// The default memory budget: a quarter of what there is.
pub fn default_memory() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse_meminfo(&text));
    let known = [machine, cgroup_limit()].into_iter().flatten().min();
    (known.unwrap_or(0) / 4).max(MEMORY_MIN)
}

/// `MemTotal` of /proc/meminfo, in bytes.
fn parse_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The smallest limit of the control groups we are in (version 2: every ancestor counts; else version 1).
fn cgroup_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().flat_map(limit_files).filter_map(|file| parse_limit(&fs::read_to_string(file).ok()?)).min()
}

/// The files that may hold a limit for a line `ID:CONTROLLERS:PATH` of /proc/self/cgroup.
fn limit_files(line: &str) -> Vec<String> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let mut files = vec![format!("{root}/{file}")];
    let mut directory = String::from(root);
    for part in path.split('/').filter(|part| !part.is_empty()) {
        directory = format!("{directory}/{part}");
        files.push(format!("{directory}/{file}"));
    }
    files
}

/// A limit in bytes; `max` and absurdly large numbers are none.
fn parse_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|limit| *limit < 1 << 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_machine() {
        assert_eq!(parse_meminfo("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(parse_meminfo("nonsense"), None);
        assert!(default_memory() >= MEMORY_MIN);
    }

    #[test]
    fn limits_of_control_groups() {
        assert_eq!(
            limit_files("0::/a/b"),
            ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/a/b/memory.max"]
        );
        assert_eq!(limit_files("5:cpu,memory:/")[0], "/sys/fs/cgroup/memory/memory.limit_in_bytes");
        assert!(limit_files("3:cpu:/").is_empty() && limit_files("junk").is_empty());
        assert_eq!(
            (parse_limit("1048576\n"), parse_limit("max\n"), parse_limit("9223372036854771712")),
            (Some(1 << 20), None, None)
        );
    }
}
