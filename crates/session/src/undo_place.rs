// SPDX-License-Identifier: MIT OR Apache-2.0
//! The place of an undo file that the user names, made sure of before anything is written: a file beside it that can be created, with
//! room for the log where it lies in another file system. Nothing of it stays unless the undo file is complete.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// Names that are tried for the file beside it.
const NAMES_MAX: u32 = 100;

/// A file beside the place, which becomes the undo file.
pub struct Reserved {
    place: PathBuf,
    builder: PathBuf,
    file: File,
}

impl Reserved {
    /// Makes sure that a file can be created in the folder of `place`.
    pub fn new(place: &Path) -> io::Result<Reserved> {
        let name = place.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        for number in 0..NAMES_MAX {
            let mut name = name.to_owned();
            name.push(format!(".part{number}"));
            let builder = place.with_file_name(name);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&builder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                opened => return Ok(Reserved { place: place.to_owned(), builder, file: opened? }),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    /// Makes sure of room for `len` bytes, unless the log at `log` lies in the same file system and only gets another name.
    pub fn with_room(self, log: &Path, len: u64) -> io::Result<Reserved> {
        if fs::metadata(log)?.dev() == self.file.metadata()?.dev() {
            return Ok(self);
        }
        match fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            // Some file systems cannot tell.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(self),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves the log at `log` to the place. What was there before is replaced.
    pub fn fill(mut self, log: &Path) -> io::Result<()> {
        match fs::rename(log, &self.place) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            other => return other,
        }
        let copied = io::copy(&mut File::open(log)?, &mut self.file)?;
        // More room than that may have been kept.
        self.file.set_len(copied)?;
        self.file.sync_all()?;
        fs::rename(&self.builder, &self.place)?;
        fs::remove_file(log)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // It is gone already where it became the undo file.
        let _ = fs::remove_file(&self.builder);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn nothing_stays_beside_the_place() {
        let folder = std::env::temp_dir().join(format!("fsmend-undo-place-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (log, place) = (folder.join("log"), folder.join("undo"));
        fs::write(&log, b"a log").unwrap();
        drop(Reserved::new(&place).unwrap().with_room(&log, 1 << 20).unwrap());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        Reserved::new(&place).unwrap().with_room(&log, 5).unwrap().fill(&log).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"a log");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(Reserved::new(&folder.join("none/undo")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
