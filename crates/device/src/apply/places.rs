// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where logs lie, and how the next run finds them.
//!
//! The log of an image file lies beside it (`IMAGE.fsmend-undo`, or with a number behind it). That of a block device, or of an image in a folder
//! that cannot be written, lies in a state folder, where many may lie: names of block devices change from boot to boot, so that there
//! it is the contents that say whose log it is. A log is as good as an order to write: only those are followed that the user, the superuser or
//! the owner of the target has made.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::layout::{Header, LogState};
use super::log::{Log, LogSummary, begins_like_log, summarize};
use super::recover::compare;
use super::{LogFile, LogOnDisk};
use crate::Device;
use crate::plan::sync_folder_of;
use rustix::fs::{Mode, OFlags};

/// What the name of a log has behind that of its target.
const SUFFIX: &str = ".fsmend-undo";

/// So many logs of one name are tried or looked for.
const NUMBER_MAX: u32 = 10_000;

/// A log that was found.
#[derive(Debug)]
pub struct FoundLog {
    /// The log, locked.
    pub log: LogOnDisk,
    /// What it says about itself.
    pub state: LogState,
}

/// A new, empty log for the target at `path`: beside an image file; in `state_folder`, which is made if need be, for a block device
/// and where the folder of the image cannot be written.
pub fn create_log(path: &Path, state_folder: &Path) -> io::Result<LogOnDisk> {
    if let Some(beside) = place_beside(path) {
        match create_numbered(&beside) {
            Err(error) if cannot_be_written(&error) => {}
            created => return created,
        }
    }
    create_log_in(state_folder, path)
}

/// A new, empty log for the target at `path` in `folder`, which is made if need be, wherever the target lies.
pub fn create_log_in(folder: &Path, path: &Path) -> io::Result<LogOnDisk> {
    make_folder(folder)?;
    create_numbered(&folder.join(name_of(path)))
}

/// An empty file in `folder`, which is made if need be and must have room for `room` bytes. No name leads to the file: it is gone when it is closed, however the
/// process ends.
pub fn scratch_in(folder: &Path, room: u64) -> io::Result<File> {
    make_folder(folder)?;
    let free = rustix::fs::statvfs(folder)?;
    if free.f_bavail.saturating_mul(free.f_frsize) < room {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// The logs of the target at `path`, open or not, that lie where [`create_log`] puts them, by their names only.
pub fn find_logs(path: &Path, state_folder: &Path) -> Vec<FoundLog> {
    let mut places: Vec<PathBuf> = place_beside(path).into_iter().collect();
    places.push(state_folder.join(name_of(path)));
    let mut logs = Vec::new();
    for place in places {
        let names = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for file in logs_in(place.parent().unwrap_or(Path::new(".")), |name| is_numbered(name, &names)) {
            if let Ok(log) = LogOnDisk::open(&file) {
                let state = summarize(&log).map_or(LogState::Incomplete, |summarize| summarize.state);
                logs.push(FoundLog { log, state });
            }
        }
    }
    logs
}

/// The log that an interrupted run has left for `device`, which starts at byte `start` of the file or block device at `path`:
/// one that is open, or one that was never completed; [`super::recover()`] knows what to do with either. Logs that another program
/// holds are left alone.
pub fn find_open_log(path: &Path, start: u64, device: &dyn Device, state_folder: &Path) -> Option<FoundLog> {
    let target = Wanted { start, device };
    let beside = place_beside(path).and_then(|place| {
        let names = place.file_name()?.to_string_lossy().into_owned();
        let mut files = logs_in(place.parent()?, |name| is_numbered(name, &names));
        files.retain(|file| is_trusted(file, path));
        first_open(files, true, |log, summarize| target.may_own(log, summarize))
    });
    beside.or_else(|| {
        let mut files = logs_in(state_folder, |name| name.contains(SUFFIX));
        files.retain(|file| is_trusted(file, path));
        first_open(files, false, |log, summarize| target.owns(log, summarize))
    })
}

/// Removes the logs of `device`, which starts at byte `start` of the file or block device at `path`, that were closed and not to be kept, and that a run
/// which was cut short right then could not remove any more. In a state folder the logs of other targets may have the same file name.
pub fn remove_closed_logs(path: &Path, start: u64, device: &dyn Device, state_folder: &Path) {
    let beside = place_beside(path);
    for FoundLog { log, state } in find_logs(path, state_folder) {
        let is_done = matches!(state, LogState::Applied | LogState::Undone) && is_trusted(log.path(), path);
        let is_beside = beside.as_ref().is_some_and(|place| place.parent() == log.path().parent());
        let is_ours =
            |header: &Header| header.start == start && (is_beside || header.target_name == device.name());
        let header = summarize(&log).ok().and_then(|summary| summary.header);
        if is_done && header.is_some_and(|header| is_ours(&header) && !header.keep_undo) {
            // That it cannot be removed does no harm.
            let _ = log.remove();
        }
    }
}

/// The target whose log is looked for.
struct Wanted<'w> {
    start: u64,
    device: &'w dyn Device,
}

impl Wanted<'_> {
    /// Whether nothing in the header speaks against it. A log without a header was cut short when it was begun, or has been damaged.
    fn may_own(&self, log: &LogOnDisk, summarize: &LogSummary) -> bool {
        let Some(header) = &summarize.header else {
            return summarize.state.is_open() || begins_like_log(log);
        };
        header.start == self.start
            && (summarize.state == LogState::Incomplete || summarize.target_len == self.device.len())
    }

    /// Whether the contents of the target say that it is this one.
    fn owns(&self, log: &LogOnDisk, summarize: &LogSummary) -> bool {
        let Some(header) = &summarize.header else { return false };
        let same_name = header.target_name == self.device.name() && header.start == self.start;
        if summarize.state == LogState::Incomplete {
            return same_name;
        }
        if summarize.target_len != self.device.len() {
            return false;
        }
        let Ok(Some(log)) = Log::read(log) else { return same_name };
        let Ok(standing) = compare(&log, self.device) else { return false };
        match standing.foreign.count {
            // A copy of the target, if nothing was written: then the log is that of the other copy.
            0 => same_name || !standing.not_before.is_empty(),
            // It was written to since; or it is another disk that has the name today.
            foreign => same_name && foreign * 2 < log.plan.entries().len() as u64,
        }
    }
}

/// The first of `files` that `is_ours` and open; if there is none, the first that was never completed.
/// A log `beside` the target that cannot be read at all is returned, so that the caller reports the error.
fn first_open(
    files: Vec<PathBuf>,
    beside: bool,
    is_ours: impl Fn(&LogOnDisk, &LogSummary) -> bool,
) -> Option<FoundLog> {
    let mut incomplete = None;
    for file in files {
        let Ok(log) = LogOnDisk::open(&file) else { continue };
        let summarize = match summarize(&log) {
            Ok(summarize) => summarize,
            Err(_) if beside => return Some(FoundLog { log, state: LogState::Applying }),
            Err(_) => continue,
        };
        let state = summarize.state;
        if state.is_open() && is_ours(&log, &summarize) {
            return Some(FoundLog { log, state });
        }
        if state == LogState::Incomplete && incomplete.is_none() && is_ours(&log, &summarize) {
            incomplete = Some(FoundLog { log, state });
        }
    }
    incomplete
}

/// Whether a log was made by a user who may write the target, as far as owners tell.
fn is_trusted(log: &Path, target: &Path) -> bool {
    let Ok(log) = fs::symlink_metadata(log) else { return false };
    let owner_of_target = fs::metadata(target).map(|target| target.uid());
    let trusted = [Ok(0), Ok(rustix::process::geteuid().as_raw()), owner_of_target];
    trusted.into_iter().any(|owner| owner.is_ok_and(|owner| owner == log.uid()))
}

/// Where the log of an image file lies, without number; `None` if the target is no regular file.
fn place_beside(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    let is_file = fs::metadata(&path).ok()?.is_file();
    is_file.then(|| path.with_file_name(name_of(&path)))
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or("target".as_ref());
    format!("{}{SUFFIX}", name.to_string_lossy())
}

/// Whether `name` is `base`, or `base` with a number behind it.
fn is_numbered(name: &str, base: &str) -> bool {
    match name.strip_prefix(base) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('.').is_some_and(|number| number.parse::<u32>().is_ok()),
        None => false,
    }
}

/// The files in `folder` whose names `fit`, in a fixed order.
fn logs_in(folder: &Path, fit: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| fit(&entry.file_name().to_string_lossy()))
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
}

fn create_numbered(place: &Path) -> io::Result<LogOnDisk> {
    for number in 1..=NUMBER_MAX {
        let mut file = place.as_os_str().to_owned();
        if number > 1 {
            file.push(format!(".{number}"));
        }
        match LogOnDisk::create(Path::new(&file)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created,
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "there are too many undo files already"))
}

fn cannot_be_written(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull)
}

/// Makes the folder, for its owner only, and makes it durable.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    folder.ancestors().take_while(|part| part.parent().is_some()).try_for_each(sync_folder_of)
}
