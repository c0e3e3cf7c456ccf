// SPDX-License-Identifier: MIT OR Apache-2.0
//! One measurement: a program, once, with its wall-clock time and its peak memory.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

use fsmend_testkit::host::{command, find_program};

/// What one run took.
#[derive(Clone, Copy)]
pub struct Sample {
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Peak resident memory in KiB, when it could be measured.
    pub peak_kib: Option<u64>,
}

/// Runs `program` and expects exit code 0. The peak comes from GNU time, where that is installed.
pub fn measure<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> io::Result<Sample> {
    let peak_file = std::env::temp_dir().join(format!("fsmend-bench-peak-{}", std::process::id()));
    let with_time = find_program("time").is_some();
    let mut command = match with_time {
        true => {
            let mut time = command("time");
            time.args(["-q", "-f", "%M", "-o"]).arg(&peak_file).arg(program);
            time
        }
        false => command(&program.to_string_lossy()),
    };
    command.args(arguments);
    let start = Instant::now();
    let output = command.output()?;
    let seconds = start.elapsed().as_secs_f64();
    if !output.status.success() {
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let said: String = said.chars().take(1000).collect();
        return Err(io::Error::other(format!("{command:?}: {}: {said}", output.status)));
    }
    let peak_kib = fs::read_to_string(&peak_file).ok().and_then(|text| text.trim().parse().ok());
    let _ = fs::remove_file(&peak_file);
    Ok(Sample { seconds, peak_kib })
}

/// Empties the page cache; needs the superuser.
pub fn drop_caches() -> io::Result<()> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3")
}

/// Load average of the last minute.
pub fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Median, smallest and largest of some samples.
#[derive(Clone, Copy, Default)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The fastest.
    pub min: f64,
    /// The slowest.
    pub max: f64,
    /// Largest peak memory seen, in KiB.
    pub peak_kib: Option<u64>,
}

/// Sums samples up.
pub fn spread(samples: &[Sample]) -> Spread {
    let mut seconds: Vec<f64> = samples.iter().map(|sample| sample.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let peak_kib = samples.iter().filter_map(|sample| sample.peak_kib).max();
    match (seconds.first(), seconds.last()) {
        (Some(min), Some(max)) => {
            let (low, high) = (seconds[(seconds.len() - 1) / 2], seconds[seconds.len() / 2]);
            Spread { median: (low + high) / 2.0, min: *min, max: *max, peak_kib }
        }
        _ => Spread::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let sample = |seconds| Sample { seconds, peak_kib: None };
        assert_eq!(spread(&[3.0, 1.0, 9.0].map(sample)).median, 3.0);
        assert_eq!(spread(&[3.0, 1.0, 9.0, 5.0].map(sample)).median, 4.0);
    }
}
