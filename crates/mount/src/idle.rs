// SPDX-License-Identifier: MIT OR Apache-2.0
//! `-o idle=poll`: processors stay awake while requests follow each other closely.
//!
//! A request wakes the server, and the answer wakes the caller. Where the processor that is to run them sleeps, each of the two costs a wake-up: a few
//! microseconds on a machine, 25 to 60 in a guest, whose processor is handed back to the host meanwhile. The kernel lets a program limit that latency
//! (`/dev/cpu_dma_latency`, Documentation/power/pm_qos_interface.rst); at 0, idle processors poll. The limit holds for all processors and ends with the
//! process, so it is set during a burst of requests only.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The kernel's file.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// No limit, in microseconds (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
const NO_LIMIT: i32 = 2_000_000_000;

/// So many requests within [`SHORT`] are a burst.
const MANY: u32 = 64;

/// How long a burst goes on without as many requests.
pub(crate) const SHORT: Duration = Duration::from_millis(20);

/// Keeps processors awake during bursts.
pub(crate) struct Polling {
    limit: Mutex<File>,
    requests: AtomicU32,
    counted_from: Mutex<Instant>,
    is_burst: AtomicBool,
}

impl Polling {
    /// Fails where the kernel does not allow it: it takes the superuser.
    pub fn new() -> io::Result<Polling> {
        Polling::with(Path::new(LATENCY))
    }

    fn with(path: &Path) -> io::Result<Polling> {
        let polling = Polling {
            limit: Mutex::new(OpenOptions::new().write(true).open(path)?),
            requests: AtomicU32::new(0),
            counted_from: Mutex::new(Instant::now()),
            is_burst: AtomicBool::new(false),
        };
        polling.set(NO_LIMIT)?;
        Ok(polling)
    }

    /// Counts a request. True where a burst begins: the caller then has to call [`Polling::is_over`] every [`SHORT`] until it is.
    pub fn request(&self) -> bool {
        if self.requests.fetch_add(1, Relaxed) % MANY != MANY - 1 || self.is_burst.load(Relaxed) {
            return false;
        }
        let begins = self.since_counted() < SHORT && self.set(0).is_ok();
        begins && !self.is_burst.swap(true, Relaxed)
    }

    /// Whether the burst has ended; then processors may sleep again.
    pub fn is_over(&self) -> bool {
        if self.requests.swap(0, Relaxed) >= MANY {
            return false;
        }
        // First, so that the limit of a burst that begins now stays. One that cannot be removed ends with the process.
        let _ = self.set(NO_LIMIT);
        self.is_burst.store(false, Relaxed);
        true
    }

    /// Time since this was asked last.
    fn since_counted(&self) -> Duration {
        let mut from = self.counted_from.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut *from, now))
    }

    fn set(&self, microseconds: i32) -> io::Result<()> {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner).write_all(&microseconds.to_ne_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits that were written, in order.
    fn written(path: &Path) -> Vec<i32> {
        let bytes = std::fs::read(path).expect("it is there");
        bytes.chunks_exact(4).map(|limit| i32::from_ne_bytes(limit.try_into().expect("four"))).collect()
    }

    #[test]
    fn the_limit_is_set_in_a_burst_and_taken_back_after_it() {
        let path = std::env::temp_dir().join(format!("fsmend-idle-{}", std::process::id()));
        std::fs::write(&path, b"").expect("a file");
        let polling = Polling::with(&path).expect("it can be written");
        // Requests far apart are no burst.
        *polling.counted_from.lock().expect("a lock") = Instant::now() - 2 * SHORT;
        assert!((0..MANY).all(|_| !polling.request()));
        assert_eq!(written(&path), [NO_LIMIT]);
        // As many at once are one; it begins once.
        *polling.counted_from.lock().expect("a lock") = Instant::now() + SHORT;
        assert_eq!((0..10 * MANY).filter(|_| polling.request()).count(), 1);
        assert_eq!(written(&path), [NO_LIMIT, 0]);
        // It goes on while requests come, and ends when they do not.
        assert!(!polling.is_over());
        assert!(polling.is_over());
        assert_eq!(written(&path), [NO_LIMIT, 0, NO_LIMIT]);
        std::fs::remove_file(&path).expect("it is there");
    }
}
