// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of fsck_ffs.

use std::ffi::OsString;

use crate::getopt::{self, Trouble};

/// The letters as getopt lists them.
const LETTERS: &str = "Bb:Cc:dEFfm:npRrSyZz";

/// Who answers the questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The user.
    Ask,
    /// `-p`: what is safe is repaired, at anything else it ends.
    Preen,
    /// `-n`: no.
    No,
    /// `-y`: yes.
    Yes,
}

/// A command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    pub mode: Mode,
    /// `-f`: a clean file system is checked, too.
    pub force: bool,
    /// `-C`: a clean file system is passed over.
    pub skips_clean: bool,
    /// `-F`: whether a check in the background would do.
    pub tells_background: bool,
    /// `-B`: a check in the background, which takes a kernel that makes snapshots.
    pub in_background: bool,
    /// `-b`: the sector of the superblock.
    pub superblock: Option<u64>,
    /// Options that ask for something that is not done here, with a sentence.
    pub not_done: Vec<(char, &'static str)>,
    pub targets: Vec<OsString>,
}

/// Why a command line makes no sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// An option that does not exist, or no file system; perhaps with a sentence.
    Usage(String),
    /// An option needs another value.
    Value(&'static str),
}

impl Options {
    /// Reads a command line; why it makes no sense.
    pub fn read(arguments: &[OsString]) -> Result<Options, Wrong> {
        let words = getopt::parse(arguments, LETTERS).map_err(|trouble| {
            Wrong::Usage(match trouble {
                Trouble::Unknown(letter) => format!("illegal option -- {letter}"),
                Trouble::ValueMissing(letter) => format!("option requires an argument -- {letter}"),
            })
        })?;
        let mut options = Options {
            mode: Mode::Ask,
            force: false,
            skips_clean: false,
            tells_background: false,
            in_background: false,
            superblock: None,
            not_done: Vec::new(),
            targets: words.operands,
        };
        let mut preens = false;
        for (letter, value) in &words.options {
            let number =
                || value.as_deref().and_then(getopt::number).and_then(|value| u64::try_from(value).ok());
            match letter {
                'b' => {
                    let sector = number().filter(|sector| *sector > 0);
                    options.superblock = Some(sector.ok_or(Wrong::Value("-b flag requires a number"))?);
                }
                'm' => {
                    let is_mode = |text: &str| u32::from_str_radix(text, 8).is_ok_and(|mode| mode <= 0o7777);
                    if !value.as_deref().and_then(|text| text.to_str()).is_some_and(is_mode) {
                        return Err(Wrong::Value("-m flag requires a mode"));
                    }
                }
                // All that are known have the newest format already.
                'c' => {
                    number().ok_or(Wrong::Value("-c flag requires a conversion level"))?;
                }
                'B' => options.in_background = true,
                'C' => options.skips_clean = true,
                'E' => options.not_done.push(('E', "free blocks are not trimmed")),
                'F' => options.tells_background = true,
                'f' => options.force = true,
                'n' => options.mode = Mode::No,
                'p' => preens = true,
                'y' => options.mode = Mode::Yes,
                'Z' => options.not_done.push(('Z', "free blocks are not overwritten with zeros")),
                'z' => options.not_done.push(('z', "unused parts of directories are not cleared")),
                // Every run counts all, goes on after read errors and comes to its end in one run.
                _ => {}
            }
        }
        if preens {
            options.mode = Mode::Preen;
        }
        if options.targets.is_empty() { Err(Wrong::Usage(String::new())) } else { Ok(options) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Options, Wrong> {
        Options::read(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_as_getopt_does() {
        let options = read(&["-fyb", "160", "x", "y"]).expect("it makes sense");
        assert_eq!((options.mode, options.force, options.superblock), (Mode::Yes, true, Some(160)));
        assert_eq!(options.targets.len(), 2);
        let modes = ["-n", "-y", "-p", "-ny", "-yn", "-yp"];
        let modes = modes.map(|word| read(&[word, "x"]).expect("it makes sense").mode);
        assert_eq!(modes, [Mode::No, Mode::Yes, Mode::Preen, Mode::Yes, Mode::No, Mode::Preen]);
        assert_eq!(read(&["-dRrSCm", "0755", "x"]).expect("it makes sense").mode, Mode::Ask);
        for wrong in [&["-n"][..], &["-Q", "x"], &["-b"]] {
            assert!(matches!(read(wrong), Err(Wrong::Usage(_))), "{wrong:?}");
        }
        for wrong in [&["-b", "none", "x"], &["-m", "9", "x"], &["-c", "new", "x"]] {
            assert!(matches!(read(wrong), Err(Wrong::Value(_))), "{wrong:?}");
        }
        assert!(read(&["-Bc", "3", "x"]).expect("it makes sense").in_background);
    }
}
