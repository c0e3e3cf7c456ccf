// SPDX-License-Identifier: MIT OR Apache-2.0
//! What interrupted runs have left: logs that are open, write tests that were not ended; who must not go on before they are, and what
//! became of them.

use std::fmt;
use std::fs::OpenOptions as OpenFile;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fsmend_device::{Device, FoundLog, LogOnDisk, LogState, Recovered, close_write_test, find_open_log};
use fsmend_engine::Refusal;

use crate::Environment;
use crate::hold::Failure;
use crate::text::printable;

/// The code that a target is refused with which an interrupted repair has left half-written.
pub const INTERRUPTED_CODE: &str = "interrupted-repair";

/// What stands behind the name of a target in that of a file with what a write test had saved.
const SAVED_SUFFIX: &str = "fsmend-saved";
/// So many of those are tried.
const SAVED_MAX: u32 = 1000;
/// Places named in a message, at most.
const PLACES_TOLD: usize = 5;

/// What became of something that an interrupted run had left. As text, it is a sentence without its full stop.
#[derive(Debug)]
pub enum Event {
    /// A repair had written nothing yet; its log was removed.
    Removed,
    /// A repair was finished: so many blocks were written.
    Finished(u64),
    /// An undo was finished: so many blocks were written.
    TakenBack(u64),
    /// Former names of what the repair put into `lost+found` are kept there.
    NamesKept(PathBuf),
    /// They could not be kept.
    NamesNotKept(io::Error),
    /// A write test was ended, but for so many blocks that do not take back what they held.
    TestEnded {
        /// Those blocks.
        left_behind: usize,
    },
    /// A write test could not be ended, since the file system was used after it.
    Overtaken {
        /// Pieces of 4 KiB that do not hold what they held then.
        pieces: usize,
        /// Where they are, in bytes.
        places: Vec<Range<u64>>,
        /// The file that has what they held; none if every block holds what it held.
        file: Option<PathBuf>,
    },
}

impl Event {
    /// What became of the log of a repair.
    pub(crate) fn of(recovered: &Recovered) -> Option<Event> {
        match recovered {
            Recovered::Nothing(LogState::Incomplete) | Recovered::Dropped => Some(Event::Removed),
            Recovered::Nothing(_) => None,
            Recovered::Finished { blocks, .. } => Some(Event::Finished(*blocks)),
            Recovered::TakenBack { blocks } => Some(Event::TakenBack(*blocks)),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Removed => f.write_str(
                "an earlier repair was interrupted before it had written anything; its log was removed",
            ),
            Event::Finished(blocks) => write!(
                f,
                "an earlier repair was interrupted; it was finished first ({blocks} blocks written)"
            ),
            Event::TakenBack(blocks) => {
                write!(f, "an undo was interrupted earlier; it was finished first ({blocks} blocks written)")
            }
            Event::NamesKept(place) => {
                let place = printable(&place.display().to_string());
                write!(f, "the former names of what it put into lost+found are kept in {place}")
            }
            Event::NamesNotKept(error) => {
                write!(f, "the names of what is in lost+found cannot be kept ({error})")
            }
            Event::TestEnded { left_behind } => {
                f.write_str("a write test was interrupted; what it had overwritten was written back first")?;
                match left_behind {
                    0 => Ok(()),
                    blocks => write!(f, ", but for {blocks} blocks that do not take it"),
                }
            }
            Event::Overtaken { pieces, places, file } => {
                f.write_str(
                    "a write test was interrupted, and the file system was used before it could be ended",
                )?;
                match file {
                    None => f.write_str("; every block that it had tested holds what it held"),
                    Some(file) => write!(
                        f,
                        ": {pieces} blocks of 4 KiB do not hold what they held then ({}). They were left as they are. What they \
                         held is kept in {}, at the same places",
                        told(places),
                        file.display()
                    ),
                }
            }
        }
    }
}

/// A few of the places.
fn told(places: &[Range<u64>]) -> String {
    let told: Vec<String> = places
        .iter()
        .take(PLACES_TOLD)
        .map(|place| format!("{} to {}", place.start, place.end.saturating_sub(1)))
        .collect();
    let more = if places.len() > PLACES_TOLD { " and others" } else { "" };
    format!("bytes {}{more}", told.join(", "))
}

/// Keeps what an interrupted write test had saved, and what the target does not hold any more, in a file, and closes its log.
pub(crate) fn keep_overtaken(log: &LogOnDisk, lost: &[(u64, Vec<u8>)]) -> Result<Event, Failure> {
    let file =
        if lost.is_empty() { None } else { Some(save_beside(log.path(), lost).map_err(Failure::NotKept)?) };
    close_write_test(log).map_err(|error| Failure::Apply(error, Some(log.path().to_owned())))?;
    Ok(Event::Overtaken { pieces: lost.len(), places: places_of(lost), file })
}

/// Where the blocks lie, in bytes.
fn places_of(blocks: &[(u64, Vec<u8>)]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for (at, bytes) in blocks {
        let end = at.saturating_add(bytes.len() as u64);
        match runs.last_mut() {
            Some(last) if last.end == *at => last.end = end,
            _ => runs.push(*at..end),
        }
    }
    runs
}

/// Writes `blocks` to a new file beside `log`, each where it stood in the target, with holes between them. It is for the owner's eyes only.
fn save_beside(log: &Path, blocks: &[(u64, Vec<u8>)]) -> io::Result<PathBuf> {
    let name = log.with_extension(SAVED_SUFFIX);
    let numbered = (1..SAVED_MAX).map(|number| name.with_extension(format!("{SAVED_SUFFIX}.{number}")));
    for place in std::iter::once(name.clone()).chain(numbered) {
        let file = match OpenFile::new().write(true).create_new(true).mode(0o600).open(&place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            opened => opened?,
        };
        for (at, bytes) in blocks {
            file.write_all_at(bytes, *at)?;
        }
        file.sync_all()?;
        // The log goes only once the file's name will survive a power cut, too.
        place.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())?;
        return Ok(place);
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// The log that an interrupted run has left.
pub(crate) fn open_log(
    environment: &Environment,
    path: &Path,
    start: u64,
    device: &dyn Device,
) -> Option<FoundLog> {
    environment.state_folders.iter().find_map(|folder| find_open_log(path, start, device, folder))
}

/// Why a target is neither checked nor planned for: an interrupted run has left it half-written, and what is wrong with it now says nothing
/// about the file system.
pub fn refuse(
    environment: &Environment,
    path: &Path,
    start: u64,
    device: &dyn Device,
) -> Result<(), Refusal> {
    let Some(told) = left_half_written(environment, path, start, device) else { return Ok(()) };
    Err(Refusal {
        code: INTERRUPTED_CODE,
        message: format!("{}: {told}", path.display()),
        hint: "Finish it first (fsmend repair)".to_owned(),
    })
}

/// What those should know who only look at a target: whether an interrupted run has left it half-written.
pub fn left_half_written(
    environment: &Environment,
    path: &Path,
    start: u64,
    device: &dyn Device,
) -> Option<String> {
    let found = open_log(environment, path, start, device).filter(|found| found.state.is_open())?;
    let what = if found.state == LogState::Undoing {
        "an undo was interrupted earlier"
    } else {
        "an earlier repair was interrupted"
    };
    Some(format!("{what}; a run that may write will finish it first (log {})", found.log.path().display()))
}
