//! The clocks of the process: checks are handed this and never look at a clock themselves.

use std::fs;
use std::sync::LazyLock;
use std::time::Instant;

use fsmend_ext_check::run::Meter;
use rustix::time::{ClockId, clock_gettime};

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Reads all clocks.
pub fn meter() -> Meter {
    let wall_ns = u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Meter { wall_ns, cpu_ns: processor_time(), peak_memory: peak_memory() }
}

fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// The most memory the process ever held; 0 where the system does not say.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    parse_peak(&status).unwrap_or(0)
}

fn parse_peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let (first, second) = (meter(), meter());
        assert!(second.wall_ns >= first.wall_ns && second.cpu_ns >= first.cpu_ns);
        assert!(second.peak_memory >= first.peak_memory);
        assert_eq!(parse_peak("Name:\tx\nVmHWM:\t    2048 kB\n"), Some(2 << 20));
    }
}
