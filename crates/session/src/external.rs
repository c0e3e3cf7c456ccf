// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a repair writes to the device of an external journal: the file system first, then the journal is emptied.
//!
//! It goes with the plan of the file system, in its text, and so with the log and the undo file. It is written when all of the file
//! system is, and before the log is closed: a run that is cut short between the two leaves an open log, and the next run writes both again.

use std::fmt;
use std::path::{Path, PathBuf};

use fsmend_device::{
    OpenError, OpenOptions, Plan, Way, Whatever, WritableTarget, WriteError, WriteOptions, open_writable,
};
use serde_json::{Value as Json, json};

use crate::family::Family;
use crate::{member, open};

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// Why an external journal cannot be written.
#[derive(Debug)]
pub enum JournalError {
    /// Its place is not known.
    NotNamed,
    /// It cannot be read: why.
    Unreadable(String),
    /// What the plan says of it makes no sense.
    PlanDamaged,
    /// It cannot be opened for writing.
    NotOpened(PathBuf, Box<OpenError>),
    /// Nothing is in it.
    Empty(PathBuf),
    /// It is not the one that the plan was made for.
    Another(PathBuf),
    /// Its contents have changed since the plan was made.
    Used(PathBuf),
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::NotNamed => f.write_str("it was not named"),
            JournalError::Unreadable(why) => f.write_str(why),
            JournalError::PlanDamaged => f.write_str("the plan is damaged"),
            JournalError::NotOpened(path, error) => {
                write!(f, "{}: {}; {}", path.display(), error.message(), error.hint())
            }
            JournalError::Empty(path) => write!(f, "{}: nothing is in it", path.display()),
            JournalError::Another(path) => {
                write!(f, "{}: it is another one than when the repair was planned", path.display())
            }
            JournalError::Used(path) => {
                write!(f, "{}: it has been used since the repair was planned", path.display())
            }
        }
    }
}

impl std::error::Error for JournalError {}

/// What has to be written to a journal, in the form in which it goes with a plan. `None` if that is nothing; an error if the journal
/// cannot be read.
pub fn to_json(
    family: &dyn Family,
    journal: Option<&Path>,
    changes: &[(u64, Vec<u8>)],
) -> Result<Option<Json>, JournalError> {
    if changes.is_empty() {
        return Ok(None);
    }
    let path = journal.ok_or(JournalError::NotNamed)?;
    let unreadable = |why: String| JournalError::Unreadable(why);
    let path = std::fs::canonicalize(path).map_err(|error| unreadable(error.to_string()))?;
    let device = open::plain(&path).map_err(|refusal| unreadable(refusal.to_string()))?;
    let read = |offset: u64, len: usize| {
        let mut bytes = vec![0; len];
        device
            .read_at(offset, &mut bytes)
            .map(|()| to_hex(&bytes))
            .map_err(|error| unreadable(error.to_string()))
    };
    let mut writes = Vec::new();
    for (offset, after) in changes {
        let before = read(*offset, after.len())?;
        writes.push(json!({"offset": offset, "before": before, "after": to_hex(after)}));
    }
    let identity = family.journal_identity();
    let uuid = read(identity.start, len_of(&identity))?;
    Ok(Some(json!({"device": path.display().to_string(), "uuid": uuid, "writes": writes})))
}

/// A journal that is to be written, opened for it.
pub struct Journal {
    target: WritableTarget,
    writes: Vec<JournalWrite>,
}

struct JournalWrite {
    offset: u64,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Journal {
    /// The journal that goes with `plan`, if one does; at the place that the user `named`, or else where it was. Refuses one that is
    /// another one, that is in use, or that was written to since, unless `force` says that it does not matter.
    pub fn of(
        family: &dyn Family,
        plan: &Plan,
        named: Option<&Path>,
        force: bool,
    ) -> Result<Option<Journal>, JournalError> {
        let damaged = || JournalError::PlanDamaged;
        // To take what cannot be read for no journal would leave one that is replayed over the repair.
        let told = match plan.text() {
            "" => Json::Null,
            text => member(text, "journal").map_err(|_| damaged())?,
        };
        if told.is_null() {
            return Ok(None);
        }
        let path = named.map(PathBuf::from).or_else(|| told["device"].as_str().map(PathBuf::from));
        let path = path.ok_or_else(damaged)?;
        let writes =
            told["writes"].as_array().and_then(|writes| writes.iter().map(JournalWrite::parse).collect());
        let writes: Vec<JournalWrite> = writes.ok_or_else(damaged)?;
        let whole = OpenOptions { offset: Some(0), partition: None };
        let opened = open_writable(&path, &whole, WriteOptions::default(), &Whatever)
            .map_err(|error| JournalError::NotOpened(path.clone(), Box::new(error)))?;
        let target = opened.targets.into_iter().next().ok_or_else(|| JournalError::Empty(path.clone()))?;
        let journal = Journal { target, writes };
        let identity = family.journal_identity();
        let uuid = journal.read(identity.start, len_of(&identity))?;
        if told["uuid"].as_str() != Some(&to_hex(&uuid)) {
            return Err(JournalError::Another(path));
        }
        if !force && !journal.is_known()? {
            return Err(JournalError::Used(path));
        }
        Ok(Some(journal))
    }

    /// Writes what belongs to the file system after the repair, or before it, and makes it durable.
    pub fn write(&self, way: Way) -> Result<(), WriteError> {
        let device = &self.target.device;
        for write in &self.writes {
            let bytes = if way == Way::Back { &write.before } else { &write.after };
            device.write_at(write.offset, bytes)?;
        }
        device.sync()
    }

    /// Whether every sector is one that the plan knows.
    fn is_known(&self) -> Result<bool, JournalError> {
        for write in &self.writes {
            let found = self.read(write.offset, write.after.len())?;
            let sectors =
                found.chunks(SECTOR).zip(write.before.chunks(SECTOR)).zip(write.after.chunks(SECTOR));
            if sectors.into_iter().any(|((found, before), after)| found != before && found != after) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, JournalError> {
        let mut bytes = vec![0; len];
        let read = fsmend_device::Device::read_at(&*self.target.device, offset, &mut bytes);
        read.map(|()| bytes).map_err(|error| JournalError::Unreadable(error.to_string()))
    }
}

impl JournalWrite {
    fn parse(json: &Json) -> Option<JournalWrite> {
        let bytes = |name: &str| from_hex(json[name].as_str()?);
        let write = JournalWrite {
            offset: json["offset"].as_u64()?,
            before: bytes("before")?,
            after: bytes("after")?,
        };
        (write.before.len() == write.after.len()).then_some(write)
    }
}

fn len_of(range: &std::ops::Range<u64>) -> usize {
    usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0)
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (digits, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |digits: &[u8; 2]| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
    if rest.is_empty() { digits.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_text() {
        assert_eq!(from_hex(&to_hex(&[0, 9, 255])), Some(vec![0, 9, 255]));
        assert_eq!([from_hex("0"), from_hex("zz"), from_hex("é")], [None, None, None]);
    }
}
