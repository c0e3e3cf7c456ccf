// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an online check looked at.

use std::time::{Duration, SystemTime};

use fsmend_engine::report::Report;

/// What was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// A snapshot.
    LvmSnapshot,
    /// A copy of the image.
    ReflinkCopy,
    /// All of the frozen file system.
    FrozenCheck,
    /// The live file system, which left no suspicions, and superblock, groups and journal of the frozen one.
    FrozenLook,
    /// The live file system, and some records of the frozen one.
    FrozenRecords,
    /// The live file system, nothing of which could be confirmed.
    Live,
    /// A state that its own mount kept.
    Pinned,
    /// It is mounted read-only.
    ReadOnly,
    /// It is not mounted.
    NotMounted,
}

/// How a file system in use was checked.
#[derive(Debug)]
pub struct Online {
    /// What was looked at.
    pub view: View,
    /// What the view was made of, where that has a name of its own.
    pub of: Option<String>,
    /// The moment that the view shows.
    pub at: SystemTime,
    /// For how long writers had to wait.
    pub frozen: Option<Duration>,
    /// What may be wrong, but could not be confirmed.
    pub unconfirmed: Report,
    /// Why not, in a sentence.
    pub reason: Option<String>,
    /// Why views that are better were not possible, in sentences.
    pub tried: Vec<String>,
    /// What came of marking it for repair, if that was done.
    pub marked: Option<Result<(), String>>,
}

impl Online {
    /// A view of `at`, about which nothing more is known yet.
    pub fn new(view: View, at: SystemTime) -> Self {
        let (unconfirmed, tried) = (Report::default(), Vec::new());
        Online { view, of: None, at, frozen: None, unconfirmed, reason: None, tried, marked: None }
    }
}
