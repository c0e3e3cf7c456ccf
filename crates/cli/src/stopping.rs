// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends a run that only reads soon after a signal, even if a slow device keeps its reads waiting.
//!
//! A run that is asked to stop does so after the batches in progress, which takes long where each read does. Nothing was written and nothing is left to
//! clean up, so the process may end in the middle. A thread waits for SIGINT and SIGTERM, gives the run a moment to end by itself, and ends the
//! process otherwise. The work is done in a thread of its own: the kernel hands signals to the first thread, and one that waits for a page does not
//! take them.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit;

/// A run has so long to end by itself.
const GRACE: Duration = Duration::from_millis(100);

/// The stack of a first thread.
const STACK_BYTES: usize = 8 << 20;

/// Does `work`. From now until it has ended, a signal ends the process after a short while, with these last words. Where signals cannot be caught,
/// the run ends after the batches in progress.
pub fn watched<T: Send>(last_words: impl FnOnce() + Send + 'static, work: impl FnOnce() -> T + Send) -> T {
    let _watch = Watch::new(last_words);
    in_thread(work)
}

/// Does `work` in a thread of its own and waits for it where signals arrive.
pub fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("work".to_owned()).stack_size(STACK_BYTES);
        let started = builder.spawn_scoped(scope, work).expect("without threads nothing can be checked");
        started.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// As long as it lives, a signal ends the process after a short while. The work it stands for has to be done [beside the first thread](in_thread).
pub struct Watch {
    /// Whether the run has ended by itself.
    is_over: Arc<Mutex<bool>>,
    registered: Vec<SigId>,
}

impl Watch {
    /// Watches from now on. Where signals cannot be caught it does nothing.
    pub fn new(last_words: impl FnOnce() + Send + 'static) -> Self {
        Watch::ending_with(exit::CANCELLED, last_words)
    }

    /// The same; a signal ends the process with this exit code.
    pub fn ending_with(code: u8, last_words: impl FnOnce() + Send + 'static) -> Self {
        let mut watch = Watch { is_over: Arc::default(), registered: Vec::new() };
        let _ = watch.begin(code, last_words);
        watch
    }

    fn begin(&mut self, code: u8, last_words: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let (mut reader, writer) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            self.registered.push(signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?);
        }
        let is_over = Arc::clone(&self.is_over);
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            if reader.read_exact(&mut [0; 1]).is_err() {
                return;
            }
            thread::sleep(GRACE);
            let is_over = is_over.lock().unwrap_or_else(PoisonError::into_inner);
            if !*is_over {
                last_words();
                std::process::exit(i32::from(code));
            }
        })?;
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // If the last words are being said, this waits for the end of the process.
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
