// SPDX-License-Identifier: MIT OR Apache-2.0
//! Freezing a mounted file system for a bounded time, and thawing it whatever happens.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

use fsmend_device::{MountPoint, Mounted};

use super::watchdog::Watchdog;

/// So often what waits in memory is written before, until little of it is left.
const SYNCS_MAX: u32 = 4;

/// How often the clock and the user are asked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Beyond the limit by so much, the other process thaws.
const GRACE: Duration = Duration::from_millis(100);

/// The process that may freeze one file system.
pub struct Freezer {
    mount: MountPoint,
    watchdog: Watchdog,
    limit: Duration,
}

/// What a freeze was.
#[derive(Clone, Copy, Debug)]
pub struct Freeze {
    /// When it began.
    pub at: SystemTime,
    /// From the moment at which it was asked for to the moment at which writes went on.
    pub lasted: Duration,
}

impl Freezer {
    /// Makes everything ready to freeze `mounted` for at most `limit` at a time.
    pub fn new(mounted: &Mounted, limit: Duration) -> Result<Self, String> {
        let mount = MountPoint::open(&mounted.at, mounted.number)
            .map_err(|error| format!("{} cannot be opened ({error})", mounted.at.display()))?;
        let watchdog = Watchdog::start(mounted, limit + GRACE)
            .map_err(|error| format!("cannot start the thaw watchdog ({error})"))?;
        Ok(Freezer { mount, watchdog, limit })
    }

    /// The limit.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Writes what waits in memory.
    pub fn sync(&self) -> Result<(), String> {
        self.mount.sync().map_err(|error| format!("cannot sync it ({error})"))
    }

    /// Does `look` while the file system is frozen, and gives it a flag that tells when to stop: shortly before the limit, and when
    /// `cancel` is set. What it returns counts only if the file system was frozen all the time.
    pub fn while_frozen<T>(
        &mut self,
        cancel: &AtomicBool,
        look: impl FnOnce(&AtomicBool) -> T,
    ) -> Result<(T, Freeze), String> {
        self.write_back()?;
        self.watchdog.arm().map_err(|error| format!("the thaw watchdog has died ({error})"))?;
        let result = self.look_frozen(cancel, look);
        self.watchdog.disarm().map_err(|error| format!("the thaw watchdog has died ({error})"))?;
        result
    }

    fn look_frozen<T>(
        &self,
        cancel: &AtomicBool,
        look: impl FnOnce(&AtomicBool) -> T,
    ) -> Result<(T, Freeze), String> {
        let (at, started) = (SystemTime::now(), Instant::now());
        let frozen = self.mount.freeze().map_err(|error| match error.kind() {
            // Root of a container lacks it.
            io::ErrorKind::PermissionDenied => {
                format!("cannot freeze it ({error}): CAP_SYS_ADMIN is required")
            }
            _ => format!("cannot freeze it ({error})"),
        })?;
        let stop_at = started + self.limit.mul_f64(0.9);
        let found = stopping_at(stop_at, cancel, look);
        frozen.thaw().map_err(|_| "another process thawed it".to_owned())?;
        let lasted = started.elapsed();
        if lasted > self.limit + GRACE {
            return Err(format!("the freeze took {} ms, more than the limit", lasted.as_millis()));
        }
        Ok((found, Freeze { at, lasted }))
    }

    /// Writes what waits in memory until that takes less than half of the limit: the freeze itself does it once more while everybody
    /// waits.
    fn write_back(&self) -> Result<(), String> {
        for _ in 0..SYNCS_MAX {
            let started = Instant::now();
            self.sync()?;
            if started.elapsed() < self.limit / 2 {
                return Ok(());
            }
        }
        Err("too much data is being written: a freeze would take longer than the limit".to_owned())
    }
}

/// Runs `look` with a flag that is set at `stop_at`, or when `cancel` is.
pub fn stopping_at<T>(stop_at: Instant, cancel: &AtomicBool, look: impl FnOnce(&AtomicBool) -> T) -> T {
    let stop = AtomicBool::new(cancel.load(Relaxed));
    std::thread::scope(|scope| {
        let (done, ends) = channel::<()>();
        let stop = &stop;
        scope.spawn(move || {
            while ends.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if Instant::now() >= stop_at || cancel.load(Relaxed) {
                    stop.store(true, Relaxed);
                    return;
                }
            }
        });
        let found = look(stop);
        drop(done);
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_set_in_time() {
        let (never, started) = (AtomicBool::new(false), Instant::now());
        let wait = |stop: &AtomicBool| {
            while !stop.load(Relaxed) && started.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.load(Relaxed)
        };
        assert!(stopping_at(started + Duration::from_millis(20), &never, wait));
        assert!(started.elapsed() >= Duration::from_millis(20));
        assert!(stopping_at(started + Duration::from_secs(60), &AtomicBool::new(true), wait));
        assert!(!stopping_at(started + Duration::from_secs(60), &never, |stop| stop.load(Relaxed)));
    }
}
