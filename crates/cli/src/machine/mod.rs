// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine, or the container we run in, gives us: clocks, cores, memory; and what else it is busy with.

mod disks;
mod groups;
mod load;
mod schedule;
mod tasks;
#[cfg(test)]
pub mod testing;

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use fsmend_device::{Pace, read_small};
use fsmend_engine::Clock;
use fsmend_engine::options::Meter;
use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};

pub use disks::Disks;
use groups::Groups;
pub use load::Load;
pub use schedule::schedule;
pub use tasks::Tasks;

/// Taken when nothing can be learned about memory, and the least that is taken by default if that is not too much.
const MEMORY_MIN: u64 = 64 << 20;

/// The clocks of one thread.
pub const STAGE_CLOCK: Clock =
    Clock { wall: || nanoseconds(ClockId::Monotonic), thread_cpu: || nanoseconds(ClockId::ThreadCPUTime) };

/// The clocks of this process, the most memory it has held, and what it has had fetched.
pub fn meter() -> Meter {
    Meter { peak_memory: peak_memory().unwrap_or(0), fetched: fetched(), ..clocks() }
}

/// Bytes that this process has asked devices for, by all of its threads, read ahead or not; `None` if the system does not say.
pub fn fetched() -> Option<u64> {
    let accounts = fs::read_to_string("/proc/self/io").ok()?;
    accounts.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

/// The clocks of this process alone. To learn about memory takes the kernel longer than to check a small file system.
pub fn clocks() -> Meter {
    Meter {
        wall_ns: nanoseconds(ClockId::Monotonic),
        cpu_ns: nanoseconds(ClockId::ProcessCPUTime),
        peak_memory: 0,
        fetched: None,
    }
}

/// Nanoseconds gone by, and nanoseconds of processor time that all threads of this process have used.
pub fn wall_and_cpu() -> (u64, u64) {
    (nanoseconds(ClockId::Monotonic), nanoseconds(ClockId::ProcessCPUTime))
}

/// The time, for what is written into file systems.
pub fn time() -> fsmend_vfs::Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    fsmend_vfs::Time {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

/// The pace at which time passes.
pub struct RealTime;

impl Pace for RealTime {
    fn now_ns(&self) -> u64 {
        nanoseconds(ClockId::Monotonic)
    }

    fn wait(&self, span: Duration) {
        std::thread::sleep(span);
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

/// The number of the policy SCHED_IDLE.
const SCHED_IDLE: u32 = 5;

/// A field of the `stat` file of a process or a thread by its number in proc(5), from 3 on. The name before, in brackets, may hold anything.
fn stat_field<T: std::str::FromStr>(text: &str, number: usize) -> Option<T> {
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// The folder below which the machine is looked at.
const MACHINE: &str = "/";

/// The cores on which this process may run, by number; none if the system does not say.
fn own_cores() -> Option<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None).ok()?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect();
    Some(cores).filter(|cores| !cores.is_empty())
}

/// How many cores this process may run on, whatever else runs there.
pub fn cores() -> usize {
    own_cores()
        .map_or_else(|| std::thread::available_parallelism().map_or(1, NonZero::get), |cores| cores.len())
}

/// Worker threads when nothing else is said: one per core, as far as the control groups allow.
pub fn default_threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| threads_within(cores(), groups().cores()))
}

/// The control groups that this process was in when it was first asked: to find them takes a hundred system calls.
fn groups() -> &'static Groups {
    static GROUPS: OnceLock<Groups> = OnceLock::new();
    GROUPS.get_or_init(|| Groups::below(Path::new(MACHINE)))
}

/// A part of a core is worth a thread.
fn threads_within(cores: usize, quota: Option<u64>) -> usize {
    let quota = quota.map_or(usize::MAX, |quota| usize::try_from(quota.div_ceil(1000)).unwrap_or(usize::MAX));
    cores.min(quota).max(1)
}

/// What the machine is busy with.
pub fn load() -> Load {
    Load::below(Path::new(MACHINE), rustix::param::clock_ticks_per_second(), own_cores())
}

/// The threads of this process that stand back.
pub fn tasks() -> Tasks {
    Tasks::below(Path::new(MACHINE), rustix::param::clock_ticks_per_second())
}

/// The default memory budget: a quarter of what there is.
pub fn default_memory() -> u64 {
    memory_below(Path::new(MACHINE), groups())
}

/// A quarter of what the machine below `root` has and the control groups allow; but not so little that nothing can be checked, unless
/// that were more than half of it.
fn memory_below(root: &Path, groups: &Groups) -> u64 {
    let machine = read_small(&root.join("proc/meminfo")).ok().and_then(|text| parse_meminfo(&text));
    let known = [machine, groups.memory()].into_iter().flatten().min();
    known.map_or(MEMORY_MIN, |known| (known / 4).max(MEMORY_MIN.min(known / 2)))
}

/// `MemTotal` of /proc/meminfo, in bytes.
fn parse_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::testing::Fixture;
    use super::*;

    #[test]
    fn memory_of_the_machine() {
        assert_eq!(parse_meminfo("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(parse_meminfo("nonsense"), None);
        assert!(default_memory() >= MEMORY_MIN);
    }

    #[test]
    fn limits_of_control_groups_bound_the_defaults() {
        let machine = Fixture::new("defaults");
        assert_eq!(
            memory_below(machine.path(), &Groups::below(machine.path())),
            MEMORY_MIN,
            "nothing is known"
        );
        machine.write("proc/meminfo", "MemTotal:       16777216 kB\n");
        assert_eq!(memory_below(machine.path(), &Groups::below(machine.path())), 4 << 30);
        machine.write("proc/self/cgroup", "0::/a/b\n");
        machine.write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        machine.write("sys/fs/cgroup/a/memory.high", "2147483648\n");
        assert_eq!(memory_below(machine.path(), &Groups::below(machine.path())), 512 << 20);
        machine.write("sys/fs/cgroup/a/b/memory.max", "134217728\n");
        assert_eq!(
            memory_below(machine.path(), &Groups::below(machine.path())),
            64 << 20,
            "half of a small group"
        );
        machine.write("sys/fs/cgroup/a/b/memory.max", "33554432\n");
        assert_eq!(memory_below(machine.path(), &Groups::below(machine.path())), 16 << 20);
        let threads: Vec<usize> =
            [None, Some(8000), Some(1500), Some(300), Some(0)].map(|quota| threads_within(4, quota)).into();
        assert_eq!(threads, [4, 4, 2, 1, 1]);
        assert!(default_threads() >= 1 && default_threads() <= cores());
    }
}
