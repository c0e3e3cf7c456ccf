// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that the user names for what is kept: a plan, an undo file. They may take the place of an older one of their kind and of nothing
//! else, for a slip of the fingers must not cost an image.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use fsmend_device::{LogOnDisk, Plan, inspect_log};

/// What a file is, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A saved plan.
    Plan,
    /// A log, or an undo file, which is a log that is closed.
    Log,
    /// Empty.
    Empty,
    /// Something else, or nothing that can be read.
    Other,
}

/// What the file at `path` is.
pub fn kind(path: &Path) -> Kind {
    let mut start = Vec::new();
    match File::open(path).and_then(|file| file.take(8).read_to_end(&mut start)) {
        Err(_) => Kind::Other,
        Ok(0) => Kind::Empty,
        Ok(_) if Plan::is_plan(&start) => Kind::Plan,
        Ok(_) if LogOnDisk::is_log(&start) => Kind::Log,
        Ok(_) => Kind::Other,
    }
}

/// Whether a plan can be put into the file `place`; why not.
pub fn for_plan(place: &Path) -> Result<(), String> {
    match occupied(place)? {
        None | Some(Kind::Plan | Kind::Empty) => Ok(()),
        Some(Kind::Log | Kind::Other) => Err("the file exists and is not a plan".to_owned()),
    }
}

/// Whether an undo file can be put into the file `place`; why not.
pub fn for_undo(place: &Path) -> Result<(), String> {
    match occupied(place)? {
        None | Some(Kind::Log | Kind::Empty) => Ok(()),
        Some(Kind::Plan | Kind::Other) => Err("the file exists and is not an undo file".to_owned()),
    }
}

/// Whether `place` holds the log of a repair that is not finished. What this run finishes is asked for again afterwards.
pub fn is_open_log(place: &Path) -> bool {
    let log = LogOnDisk::open(place).ok().and_then(|log| inspect_log(&log).ok().flatten());
    log.is_some_and(|log| log.state.is_open())
}

/// What stands in `place`, if anything does; why nothing can stand there.
fn occupied(place: &Path) -> Result<Option<Kind>, String> {
    match fs::metadata(place) {
        Ok(found) if found.is_dir() => Err("it is a folder".to_owned()),
        Ok(found) if !found.is_file() => Err("it is not a regular file".to_owned()),
        Ok(_) => Ok(Some(kind(place))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
                Err(format!("no such directory: {}", folder.display()))
            }
            _ => Ok(None),
        },
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_their_own_kind_is_replaced() {
        let folder = std::env::temp_dir().join(format!("fsmend-places-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let (image, empty) = (file("image", &[0; 4096]), file("empty", &[]));
        let (plan, log) = (file("plan", b"FSMNDPLN...."), file("log", b"FSMNDLOG...."));
        assert_eq!(
            [&image, &empty, &plan, &log].map(|path| kind(path)),
            [Kind::Other, Kind::Empty, Kind::Plan, Kind::Log]
        );
        let new = folder.join("new");
        assert_eq!([&new, &empty, &plan].map(|path| for_plan(path)), [const { Ok(()) }; 3]);
        assert_eq!([&new, &empty, &log].map(|path| for_undo(path)), [const { Ok(()) }; 3]);
        for place in [&image, &log, &folder, &new.join("below"), Path::new("/dev/null")] {
            assert!(for_plan(place).is_err(), "{}", place.display());
        }
        for place in [&image, &plan, &folder, &new.join("below"), Path::new("/dev/null")] {
            assert!(for_undo(place).is_err(), "{}", place.display());
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
