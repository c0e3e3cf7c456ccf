// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of FreeBSD's fsck_ffs: called as `fsck.ufs`, `fsck_ffs` or `fsck_ufs` the program takes fsck_ffs's options, prints the lines that
//! scripts look for, and ends with its exit codes.
//!
//! `docs/fsck-ffs-compat.md` lists every option with what becomes of it.

mod options;
mod phases;
mod session;

use std::ffi::OsString;

use self::options::{Mode, Options, Wrong};
use self::session::Session;
use crate::getopt::called_by;
use crate::{ask, check, place};

/// The names that mean this command line.
const NAMES: [&str; 3] = ["fsck.ufs", "fsck_ffs", "fsck_ufs"];

/// Exit codes of fsck_ffs.
mod code {
    /// Clean, or all that was asked for is done.
    pub const DONE: u8 = 0;
    /// The command line makes no sense.
    pub const USAGE: u8 = 1;
    /// `-p` or `-F`: no superblock can be read.
    pub const NO_SUPERBLOCK: u8 = 3;
    /// The root file system was modified while mounted; for `-F`: a check in the foreground is needed.
    pub const FOREGROUND: u8 = 4;
    /// `-F`: no soft updates.
    pub const NO_SOFT_UPDATES: u8 = 5;
    /// `-F`: the kernel cannot check in the background.
    pub const NO_KERNEL: u8 = 6;
    /// An error, or with `-p` damage that is not repaired unattended.
    pub const ERROR: u8 = 8;
    /// Interrupted.
    pub const INTERRUPTED: u8 = 12;
    /// It has to be run again.
    pub const RERUN: u8 = 16;
}

/// If the program is called like that: the name it is called by, and the arguments.
pub fn called_as(arguments: &[OsString]) -> Option<(String, &[OsString])> {
    called_by(&NAMES, arguments)
}

/// Runs it and returns the exit code: the first one that is not 0.
pub fn run(program: &str, arguments: &[OsString]) -> u8 {
    let options = match Options::read(arguments) {
        Ok(options) => options,
        Err(Wrong::Value(why)) => {
            eprintln!("{program}: {why}");
            return code::ERROR;
        }
        Err(Wrong::Usage(why)) => {
            if !why.is_empty() {
                eprintln!("{program}: {why}");
            }
            eprintln!("usage: {program} [-BCdEFfnpRrSyZz] [-b block] [-c level] [-m mode] filesystem ...");
            return code::USAGE;
        }
    };
    let asks = options.mode == Mode::Ask && !options.tells_background && !options.in_background;
    if asks && !ask::is_possible() {
        eprintln!("{program}: need a terminal for questions (or one of -p, -n, -y)");
        return code::ERROR;
    }
    for (letter, what) in &options.not_done {
        eprintln!("{program}: -{letter}: {what}");
    }
    let cancel = std::sync::Arc::default();
    if let Err(error) = check::stop_on_signals(&cancel) {
        eprintln!("{program}: cannot handle signals ({error})");
    }
    let run = |name: &OsString| match place::resolve(name) {
        Some(path) => Session::open(program, &options, &path, &cancel).map_or_else(|code| code, Session::run),
        None => {
            eprintln!("{program}: {} cannot be found", name.to_string_lossy());
            code::ERROR
        }
    };
    options.targets.iter().map(run).find(|code| *code != code::DONE).unwrap_or(code::DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_the_face() {
        let called = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            called_as(&words).map(|(name, rest)| (name, rest.len()))
        };
        assert_eq!(called(&["/sbin/fsck.ufs", "-p", "x"]), Some(("fsck.ufs".to_owned(), 2)));
        assert_eq!(called(&["fsmend", "fsck_ffs", "-n", "x"]), Some(("fsck_ffs".to_owned(), 2)));
        assert_eq!(called(&["fsck.ext4", "x"]), None);
    }
}
