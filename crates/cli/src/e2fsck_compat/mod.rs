// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of e2fsck: called as `e2fsck` or as `fsck.` and `ext2`, `ext3`, `ext4` or `rext3` the program takes e2fsck's options, prints the lines
//! that scripts look for, and ends with the exit codes that fsck(8), systemd and others act on.
//!
//! `docs/e2fsck-compat.md` lists every option with what becomes of it.

mod bad_blocks;
mod clean;
mod config;
mod extended;
mod options;
mod out;
mod power;
mod problems;
mod profile;
mod progress;
mod scatter;
mod session;
mod summary;
mod telling;
mod timing;

use std::ffi::OsString;

use self::config::Config;
use self::options::{Mode, Options};
use self::session::Session;
use crate::getopt::called_by;
use crate::{ask, exit, stopping};

/// The names that mean this command line.
const NAMES: [&str; 5] = ["e2fsck", "fsck.ext2", "fsck.ext3", "fsck.ext4", "fsck.rext3"];
/// The release of e2fsck whose options are followed.
const FOLLOWED: &str = "1.47.4";

/// If the program is called like that: the name it is called by, and the arguments. It does when the program's own name is one of
/// [`NAMES`], or when the first argument is (so that it can be tried without a link).
pub fn called_as(arguments: &[OsString]) -> Option<(String, &[OsString])> {
    called_by(&NAMES, arguments)
}

/// Runs it and returns the exit code.
pub fn run(program: &str, arguments: &[OsString]) -> u8 {
    let options = match Options::read(arguments) {
        Ok(options) => options,
        Err(usage) => {
            eprint!("{}", usage.text(program));
            return usage.code();
        }
    };
    if options.version {
        eprintln!("{}\n\tThis is fsmend; it takes the options of e2fsck {FOLLOWED}.", version_line());
        return exit::CLEAN;
    }
    if options.mode != Mode::Preen {
        eprintln!("{}", version_line());
    }
    if options.mode == Mode::Ask && !ask::is_possible_or_forced() {
        eprintln!("{program}: need terminal for interactive repairs (or one of -p, -n, -y)");
        return exit::OPERATIONAL;
    }
    stopping::in_thread(|| {
        Session::new(program, options, Config::load()).map_or_else(|code| code, Session::run)
    })
}

/// The first line, in which scripts look for a version of e2fsck behind the first blank.
fn version_line() -> String {
    format!("e2fsck {FOLLOWED} (fsmend {})", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(words: &[&str]) -> Option<(String, usize)> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        called_as(&words).map(|(name, rest)| (name, rest.len()))
    }

    #[test]
    fn names_that_mean_the_face() {
        assert_eq!(called(&["/sbin/fsck.ext4", "-a", "x"]), Some(("fsck.ext4".to_owned(), 2)));
        assert_eq!(called(&["e2fsck"]), Some(("e2fsck".to_owned(), 0)));
        assert_eq!(called(&["fsmend", "e2fsck", "-n", "x"]), Some(("e2fsck".to_owned(), 2)));
        assert_eq!(called(&["fsmend", "check", "e2fsck"]), None);
        assert_eq!(called(&["fsmend", "./e2fsck"]), None);
        assert_eq!(called(&["fsck.xfs", "x"]), None);
        assert_eq!(called(&[]), None);
    }
}
