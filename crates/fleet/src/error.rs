// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a command of a fleet ends before it is done. Each kind has an exit status of its own, which engines act upon.

use std::fmt;
use std::io;
use std::path::Path;

use rustix::io::Errno;

/// Why it ended.
#[derive(Debug)]
pub enum Error {
    /// The command, the list or the run folder is not what it has to be. Trying again does not help.
    Usage(String),
    /// Trying again later may help: the folder is full, or its file server does not answer.
    Again(String),
    /// Something else failed.
    Failed(String),
    /// The user or the engine stopped it.
    Stopped,
}

impl Error {
    /// An error of the file at `path`.
    pub fn io(path: &Path, error: &io::Error) -> Error {
        let text = format!("{}: {error}", path.display());
        if passes(error) { Error::Again(text) } else { Error::Failed(text) }
    }
}

/// Whether an error is one that passes without anything being changed here.
pub fn passes(error: &io::Error) -> bool {
    let passing = [
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::STALE,
        Errno::IO,
        Errno::TIMEDOUT,
        Errno::NOTCONN,
        Errno::HOSTDOWN,
        Errno::NOMEM,
        Errno::AGAIN,
        Errno::MFILE,
        Errno::NFILE,
    ];
    Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(text) | Error::Again(text) | Error::Failed(text) => f.write_str(text),
            Error::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Error {}
