// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the thread that serves requests and the one that commits share.

use fsmend_vfs::Time;

use crate::Served;

/// The file system, and whether there is something to make durable.
pub(crate) struct State {
    pub file_system: Served,
    pub changed: bool,
    pub synchronous: bool,
}

impl State {
    /// With `synchronous`, what a change has made is durable when it returns.
    pub fn new(file_system: Served, synchronous: bool) -> Self {
        State { file_system, changed: false, synchronous }
    }

    /// Makes durable what has changed, if something has.
    pub fn commit(&mut self, now: Time) -> fsmend_vfs::Result<()> {
        if std::mem::take(&mut self.changed) { self.file_system.sync(now) } else { Ok(()) }
    }

    /// Leaves the file system clean; it answers no more requests.
    pub fn end(&mut self, now: Time) -> fsmend_vfs::Result<()> {
        self.file_system.unmount(now)
    }

    /// What went wrong first.
    pub fn trouble(&self) -> Option<String> {
        self.file_system.trouble().map(str::to_owned)
    }
}
