// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine: what its disks have in common. That is the power, and the order of requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fsmend_base::SeededRandom;

/// A machine with a power supply that can be cut. Clones are the same machine.
#[derive(Clone)]
pub struct Machine(Arc<Mutex<State>>);

struct State {
    seed: u64,
    is_on: bool,
    /// Requests that change something since it was turned on.
    changes: u64,
    cut_at: Option<u64>,
    /// How often the power was cut.
    cuts: u64,
    disks: u64,
    requests: Vec<Request>,
}

/// A request to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The name of the disk or file.
    pub disk: String,
    /// What was asked for.
    pub kind: RequestKind,
    /// First byte.
    pub offset: u64,
    /// Number of bytes; 0 if it is not about bytes.
    pub len: u64,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To make durable what was written.
    Sync,
    /// To make durable that a file is there.
    SyncEntry,
    /// To remove a file, durably.
    Remove,
}

impl Machine {
    /// A machine that is on, and whose misfortunes belong to `seed`.
    pub fn new(seed: u64) -> Self {
        let (changes, cuts, disks) = (0, 0, 0);
        Machine(Arc::new(Mutex::new(State {
            seed,
            is_on: true,
            changes,
            cut_at: None,
            cuts,
            disks,
            requests: Vec::new(),
        })))
    }

    /// The power fails during the request with this number, counted from 0 since the machine was turned on. Only requests that
    /// change something count.
    pub fn cut_power_at(&self, request: u64) {
        self.state().cut_at = Some(request);
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.state().is_on
    }

    /// Cuts the power now, if it is on, and turns it on again. Nothing is planned any more.
    pub fn restart(&self) {
        let mut state = self.state();
        if state.is_on {
            state.cuts += 1;
        }
        (state.is_on, state.changes, state.cut_at) = (true, 0, None);
    }

    /// How many requests that change something there were since it was turned on.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// Enters a disk; its number makes its luck its own.
    pub(crate) fn add_disk(&self) -> u64 {
        let mut state = self.state();
        state.disks += 1;
        state.disks
    }

    /// How often the power was cut.
    pub(crate) fn cuts(&self) -> u64 {
        self.state().cuts
    }

    /// The luck of a disk when the power was cut for the `cut`th time.
    pub(crate) fn luck(&self, disk: u64, cut: u64) -> SeededRandom {
        let mut random = SeededRandom::new(self.state().seed);
        SeededRandom::new(random.next_u64() ^ cut.rotate_left(32) ^ disk.rotate_left(48))
    }

    /// Notes a request, and says whether the power lasts to its end.
    pub(crate) fn serves(&self, disk: &str, kind: RequestKind, offset: u64, len: u64) -> Power {
        let mut state = self.state();
        if !state.is_on {
            return Power::Off;
        }
        state.requests.push(Request { disk: disk.to_owned(), kind, offset, len });
        if kind == RequestKind::Read {
            return Power::Lasts;
        }
        let number = state.changes;
        state.changes += 1;
        if state.cut_at == Some(number) {
            state.is_on = false;
            state.cuts += 1;
            return Power::Fails;
        }
        Power::Lasts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a request has of the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    /// It is on.
    Lasts,
    /// It fails during the request.
    Fails,
    /// It was off before.
    Off,
}
