// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program brings along: the families that it knows, clocks, the name of the machine, folders for logs.

use std::fs::File;
use std::path::{Path, PathBuf};

use fsmend_device::{Pace, scratch_in};

use crate::family::Registry;

/// What a program brings along.
#[derive(Clone)]
pub struct Environment {
    /// The families that it knows.
    pub families: Registry,
    /// Seconds since the epoch.
    pub now: fn() -> u64,
    /// Waits.
    pub pace: &'static dyn Pace,
    /// The name of this machine, by which others know who holds a file system.
    pub node: String,
    /// Folders for logs that cannot lie beside their target, the best first.
    pub state_folders: Vec<PathBuf>,
}

impl Environment {
    /// That of this process: its machine, its variables.
    pub fn new(families: Registry, now: fn() -> u64, pace: &'static dyn Pace) -> Environment {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let state_folders = state_folders(rustix::process::geteuid().is_root(), variable);
        Environment { families, now, pace, node: node(), state_folders }
    }

    /// An empty file for the bytes of a large plan, which no name leads to, in the first of the state folders that takes one and has room for `room` bytes.
    pub fn scratch(&self, room: u64) -> Option<File> {
        self.state_folders.iter().find_map(|folder| scratch_in(folder, room).ok())
    }
}

/// The name of this machine.
fn node() -> String {
    let name = fsmend_device::read_small(Path::new("/proc/sys/kernel/hostname")).unwrap_or_default();
    name.trim().chars().take(63).collect()
}

/// Folders for logs that cannot lie beside their target, the best first, as `variable` of the process says.
pub fn state_folders(is_root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    // An empty one would be the current directory, /tmp perhaps.
    let variable = |name: &str| variable(name).filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = variable("FSMEND_STATE_DIR") {
        return vec![folder];
    }
    if is_root {
        // Early at boot only /run can be written. What lies there does not survive a power cut; the marked superblock does.
        return vec![PathBuf::from("/var/lib/fsmend"), PathBuf::from("/run/fsmend")];
    }
    // Not in /tmp: there, anybody could lay a log for us to finish.
    let home = || variable("HOME").map(|home| home.join(".local/state"));
    let state = variable("XDG_STATE_HOME").or_else(home);
    state.map(|state| state.join("fsmend")).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_lie_where_no_other_user_can_put_one() {
        let of = |is_root, known: &[(&str, &str)]| {
            state_folders(is_root, |name| {
                known.iter().find(|(known, _)| *known == name).map(|(_, folder)| PathBuf::from(folder))
            })
        };
        assert_eq!(of(false, &[("HOME", "/h")]), [Path::new("/h/.local/state/fsmend")]);
        assert_eq!(of(false, &[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]), [Path::new("/s/fsmend")]);
        assert_eq!(of(true, &[("HOME", "/h"), ("FSMEND_STATE_DIR", "/d")]), [Path::new("/d")]);
        assert_eq!(of(true, &[])[0], Path::new("/var/lib/fsmend"));
        assert_eq!(of(true, &[("FSMEND_STATE_DIR", "")])[0], Path::new("/var/lib/fsmend"));
        assert!(of(false, &[("HOME", ""), ("XDG_STATE_HOME", "")]).is_empty(), "not the current directory");
        assert!(of(false, &[]).is_empty(), "not a folder that all users can write");
    }
}
