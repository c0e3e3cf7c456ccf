// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans in files.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::{Plan, PlanError};

impl Plan {
    /// Puts the plan into the file `path`: under another name first, so that there is never half a plan.
    pub fn save(&self, path: &Path) -> Result<(), PlanError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let beside = path.with_file_name(name);
        let saved = self.write_new(&beside).and_then(|()| fs::rename(&beside, path));
        if saved.is_err() {
            let _ = fs::remove_file(&beside);
        }
        saved.and_then(|()| sync_folder_of(path)).map_err(|error| PlanError::Io(error.to_string()))
    }

    fn write_new(&self, path: &Path) -> io::Result<()> {
        let mut file = File::options().write(true).create_new(true).open(path)?;
        self.each_piece(|error| error, |piece| file.write_all(piece))?;
        file.sync_all()
    }

    /// The plan in the file `path`, if that has at most `bytes_max` bytes, and [`Plan::BYTES_MAX`].
    pub fn load(path: &Path, bytes_max: u64) -> Result<Plan, PlanError> {
        let bytes_max = bytes_max.min(Plan::BYTES_MAX);
        let io = |error: io::Error| PlanError::Io(error.to_string());
        let kind = fs::metadata(path).map_err(io)?;
        if !kind.is_file() {
            return Err(PlanError::Format("it is not a regular file"));
        }
        if kind.len() > bytes_max {
            return Err(PlanError::TooLarge { len: kind.len(), max: bytes_max });
        }
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes))
            .map_err(io)?;
        Plan::parse(bytes)
    }
}

/// Makes the entry of `path` in its folder durable.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_owned(),
        None => return Ok(()),
    };
    match File::open(folder)?.sync_all() {
        // Some file systems (of networks, in user space) know no such request: there is nothing more to be done.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        result => result,
    }
}
