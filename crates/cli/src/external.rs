//! What a repair writes to the device of an external journal: the file system first, then the journal is emptied.
//!
//! It goes with the plan of the file system, in its text, and so with the log and the undo file. It is written when all of the file
//! system is, and before the log is closed: a run that is cut short between the two leaves an open log, and the next run writes both again.

use std::path::{Path, PathBuf};

use fsmend_device::{OpenOptions, Plan, Way, WritableTarget, WriteError, WriteOptions, open_writable};
use serde_json::{Value as Json, json};

use crate::json::member;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;
/// Where the superblock of a journal device has its UUID.
const UUID_OFFSET: u64 = 1024 + 0x68;

/// What has to be written to a journal, in the form in which it goes with a plan. `None` if that is nothing; an error if the journal
/// cannot be read.
pub fn to_json(journal: Option<&Path>, changes: &[(u64, Vec<u8>)]) -> Result<Option<Json>, String> {
    if changes.is_empty() {
        return Ok(None);
    }
    let path = journal.ok_or("it was not named")?;
    let path = std::fs::canonicalize(path).map_err(|error| error.to_string())?;
    let device = crate::target::open_plain(&path).map_err(|refusal| refusal.to_string())?;
    let read = |offset: u64, len: usize| {
        let mut bytes = vec![0; len];
        device.read_at(offset, &mut bytes).map(|()| to_hex(&bytes)).map_err(|error| error.to_string())
    };
    let mut writes = Vec::new();
    for (offset, after) in changes {
        let before = read(*offset, after.len())?;
        writes.push(json!({"offset": offset, "before": before, "after": to_hex(after)}));
    }
    let uuid = read(UUID_OFFSET, 16)?;
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
    pub fn of(plan: &Plan, named: Option<&Path>, force: bool) -> Result<Option<Journal>, String> {
        let damaged = || "the plan is damaged".to_owned();
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
        let opened = open_writable(&path, &whole, WriteOptions::default())
            .map_err(|error| format!("{}: {}; {}", path.display(), error.message(), error.hint()))?;
        let target = opened
            .targets
            .into_iter()
            .next()
            .ok_or_else(|| format!("{}: nothing is in it", path.display()))?;
        let journal = Journal { target, writes };
        let uuid = journal.read(UUID_OFFSET, 16)?;
        if told["uuid"].as_str() != Some(&to_hex(&uuid)) {
            return Err(format!("{}: it is another one than when the repair was planned", path.display()));
        }
        if !force && !journal.is_known()? {
            return Err(format!("{}: it has been used since the repair was planned", path.display()));
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
    fn is_known(&self) -> Result<bool, String> {
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

    fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; len];
        let read = fsmend_device::Device::read_at(&*self.target.device, offset, &mut bytes);
        read.map(|()| bytes).map_err(|error| error.to_string())
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
