// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processor on which requests are served: that of the caller.
//!
//! A caller that waits for an answer leaves its processor idle. On another one the server costs two wake-ups of an idle processor for each request, in
//! a guest 20 to 30 µs each; on the same one it costs two changes of context, about 1 µs each. The scheduler prefers the idle processor. So as long as
//! requests come from one caller, the thread that serves them stays on the processor of that caller. As soon as another one asks, the scheduler decides
//! again: callers that run side by side must not wait for each other.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Requests of the same caller in a row after which it is followed.
const SETTLED: u32 = 8;

/// Requests after which its processor is looked up again: reading it costs about as much as a tenth of a request.
const AGAIN: u32 = 32;

/// The field of `/proc/PID/stat` that names the processor (`processor`, 39), counted from the state (3), which comes after the name in brackets.
const PROCESSOR: usize = 39 - 3;

thread_local! {
    static FOLLOWED: RefCell<Followed> = RefCell::new(Followed::default());
}

/// Called with the thread that asks, as the kernel numbers it, on the thread that serves; 0 if it is the kernel itself that asks.
pub(crate) fn follow(caller: u32) {
    FOLLOWED.with_borrow_mut(|followed| followed.request(caller));
}

/// Whom the thread follows.
#[derive(Default)]
struct Followed {
    caller: u32,
    /// Its requests since another one asked.
    row: u32,
    /// Where it says on which processor it was last.
    stat: Option<File>,
    /// The processor this thread is bound to.
    bound: Option<usize>,
    /// Where this thread may run when it follows no one.
    free: Option<CpuSet>,
}

impl Followed {
    fn request(&mut self, caller: u32) {
        if caller == 0 {
            return;
        }
        if caller != self.caller {
            self.let_go();
            *self = Followed { caller, free: self.free, ..Followed::default() };
        }
        self.row = self.row.wrapping_add(1);
        if self.row % AGAIN == SETTLED {
            self.bind();
        }
    }

    /// Goes to the processor of the caller, if this thread may run there.
    fn bind(&mut self) {
        if self.stat.is_none() {
            self.stat = File::open(format!("/proc/{}/stat", self.caller)).ok();
        }
        let Some(processor) = self.stat.as_ref().and_then(processor_in) else { return };
        if self.free.is_none() {
            self.free = sched_getaffinity(None).ok();
        }
        let may = self.free.is_some_and(|free| processor < CpuSet::MAX_CPU && free.is_set(processor));
        if !may || self.bound == Some(processor) {
            return;
        }
        let mut only = CpuSet::new();
        only.set(processor);
        if sched_setaffinity(None, &only).is_ok() {
            self.bound = Some(processor);
        }
    }

    /// Lets the scheduler decide again.
    fn let_go(&mut self) {
        if let (Some(_), Some(free)) = (self.bound.take(), &self.free) {
            let _ = sched_setaffinity(None, free);
        }
    }
}

/// The processor on which a thread ran last.
fn processor_in(stat: &File) -> Option<usize> {
    let mut text = [0; 1024];
    let len = stat.read_at(&mut text, 0).ok()?;
    processor_of(text.get(..len)?)
}

/// The same, from what `/proc/PID/stat` says.
fn processor_of(stat: &[u8]) -> Option<usize> {
    // The name may hold brackets and spaces.
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(PROCESSOR)?.parse().ok()
}
