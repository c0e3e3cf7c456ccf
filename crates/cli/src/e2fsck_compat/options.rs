// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of e2fsck.

use std::ffi::{OsStr, OsString};

use fsmend_engine::options::SuperblockOptions;

use super::extended::{self, Extended};
use crate::exit;
use crate::getopt::{self, Trouble};

/// The letters as getopt lists them. `-I`, `-P` and `-N` are known to e2fsck and documented nowhere; the first two do nothing.
const LETTERS: &str = "panyrcC:B:dE:fvtFVb:I:j:P:l:L:N:Dkz:";

/// Who answers the questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A user at a terminal.
    #[default]
    Ask,
    /// `-p` or `-a`: what is safe is mended, nothing else.
    Preen,
    /// `-n`: nothing is written.
    No,
    /// `-y`: everything is mended.
    Yes,
}

/// Where bad blocks are known from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadBlocks {
    /// `-c`: all blocks are read.
    ReadTest,
    /// `-cc`: all blocks are written, too, and get back what they held.
    WriteTest,
    /// `-l`: this file has more of them.
    More(OsString),
    /// `-L`: this file has all of them.
    All(OsString),
}

/// What the command line asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Who answers.
    pub mode: Mode,
    /// `-f`: check it even if it seems clean.
    pub force: bool,
    /// `-v`.
    pub verbose: bool,
    /// `-t`, once or twice.
    pub timing: u8,
    /// `-d`.
    pub debug: bool,
    /// `-F`: give the kernel's cached blocks of the device back first.
    pub flush: bool,
    /// `-V`: say the version and nothing else.
    pub version: bool,
    /// `-C`: where progress goes; 0 stands for a bar, negative numbers for a start in silence.
    pub progress: Option<i32>,
    /// `-b`.
    pub superblock: Option<u64>,
    /// `-B`.
    pub block_size: Option<u32>,
    /// `-j`.
    pub journal: Option<OsString>,
    /// `-z`: where the undo file goes; an empty name stands for a default one.
    pub undo: Option<OsString>,
    /// `-N`: what to call the device in messages.
    pub name: Option<OsString>,
    /// What becomes of the list of bad blocks, if anything.
    pub bad_blocks: Option<BadBlocks>,
    /// `-k`: what stands on the list of bad blocks stays there.
    pub keep_bad_blocks: bool,
    /// `-D`: write all directories anew.
    pub optimize: bool,
    /// `-E`.
    pub extended: Extended,
    /// The device as it was named.
    pub device: OsString,
}

/// Why a command line is refused: the text, and whether the list of options helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What is wrong.
    pub message: String,
    /// What follows the message.
    pub help: Help,
}

/// What helps after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Help {
    /// Nothing: the message says it all.
    Nothing,
    /// The list of options.
    Options,
    /// The list of extended options.
    Extended,
}

impl Usage {
    fn conflict(message: &str) -> Self {
        Usage { message: message.to_owned(), help: Help::Nothing }
    }

    fn options(message: String) -> Self {
        Usage { message, help: Help::Options }
    }

    /// An option that means something to e2fsck and cannot be followed.
    pub fn unsupported(option: &str, why: &str) -> Self {
        Usage { message: format!("{option} is not supported: {why}"), help: Help::Nothing }
    }

    /// A word behind `-E` that means nothing.
    pub fn extended(message: String) -> Self {
        Usage { message, help: Help::Extended }
    }

    /// The whole text for standard error.
    pub fn text(&self, program: &str) -> String {
        let mut text = String::new();
        if !self.message.is_empty() {
            text.push_str(&format!("{program}: {}\n", self.message));
        }
        match self.help {
            Help::Nothing => {}
            Help::Options => text.push_str(&usage(program)),
            Help::Extended => text.push_str(&format!("Extended options: {}\n", extended::WORDS)),
        }
        text
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        exit::USAGE
    }
}

fn usage(program: &str) -> String {
    format!(
        "Usage: {program} [-panyrcdfktvDFV] [-b block] [-B size] [-C fd] [-j journal]\n\
         \x20       [-l|-L bad_blocks_file] [-E word,...] [-z undo_file] device\n\n\
         \x20 -p, -a      repair what is safe to repair without asking\n\
         \x20 -n          write nothing, answer no\n\
         \x20 -y          answer yes to everything\n\
         \x20 -f          check even if the file system seems clean\n\
         \x20 -b block    use the superblock in this block\n\
         \x20 -B size     block size that goes with -b\n\
         \x20 -c          read all blocks and write a new bad block list\n\
         \x20 -cc         the same with a non-destructive read-write test\n\
         \x20 -k          with -c: keep the entries of the old list\n\
         \x20 -l file     add the blocks in this file to the bad block list\n\
         \x20 -L file     replace the bad block list by the blocks in this file\n\
         \x20 -D          rewrite all directories without gaps\n\
         \x20 -C fd       write progress to this file descriptor (0: a progress bar)\n\
         \x20 -j journal  device of the external journal\n\
         \x20 -z file     write an undo file (fsmend undo takes the repair back)\n\
         \x20 -t, -tt     print time and memory, in total or by pass\n\
         \x20 -v          be verbose\n\
         \x20 -V          print the version\n"
    )
}

/// Letters that were given and exclude one another.
#[derive(Default)]
struct Given {
    modes: Vec<Mode>,
    /// How often `-c` was.
    bad_block_tests: u32,
    bad_block_files: Vec<BadBlocks>,
}

impl Options {
    /// Which superblock is meant.
    pub fn superblock_options(&self) -> SuperblockOptions {
        SuperblockOptions { block: self.superblock, block_size: self.block_size }
    }

    /// Reads the arguments behind the program's name.
    pub fn read(arguments: &[OsString]) -> Result<Self, Usage> {
        let words = getopt::parse(arguments, LETTERS).map_err(|trouble| match trouble {
            Trouble::Unknown(letter) => {
                Usage::options(format!("invalid option -{}", letter.escape_default()))
            }
            Trouble::ValueMissing(letter) => Usage::options(format!("-{letter} needs a value")),
        })?;
        let (mut options, mut given) = (Options::default(), Given::default());
        for (letter, value) in words.options {
            options.read_option(letter, &value.unwrap_or_default(), &mut given)?;
        }
        if options.version {
            return Ok(options);
        }
        options.settle(&given)?;
        match words.operands.as_slice() {
            [device] => options.device = device.clone(),
            [] => return Err(Usage::options(String::new())),
            _ => return Err(Usage::options("one device at a time".to_owned())),
        }
        Ok(options)
    }

    fn read_option(&mut self, letter: char, value: &OsStr, given: &mut Given) -> Result<(), Usage> {
        match letter {
            'p' | 'a' => given.modes.push(Mode::Preen),
            'n' => given.modes.push(Mode::No),
            'y' => given.modes.push(Mode::Yes),
            'f' => self.force = true,
            'v' => self.verbose = true,
            't' => self.timing = self.timing.saturating_add(1).min(2),
            'd' => self.debug = true,
            'F' => self.flush = true,
            'V' => self.version = true,
            'C' => self.progress = Some(number('C', value)?),
            'b' => self.superblock = Some(number('b', value)?),
            'B' => self.block_size = Some(block_size(value)?),
            'j' => self.journal = Some(value.to_owned()),
            'z' => self.undo = Some(value.to_owned()),
            'N' => self.name = Some(value.to_owned()),
            'E' => self.extended.read(&value.to_string_lossy())?,
            'c' => given.bad_block_tests += 1,
            'l' => given.bad_block_files.push(BadBlocks::More(value.to_owned())),
            'L' => given.bad_block_files.push(BadBlocks::All(value.to_owned())),
            'k' => self.keep_bad_blocks = true,
            'D' => self.optimize = true,
            // -r, -I and -P do nothing.
            _ => {}
        }
        Ok(())
    }

    /// What excludes one another, and what cannot be done.
    fn settle(&mut self, given: &Given) -> Result<(), Usage> {
        self.mode = given.modes.first().copied().unwrap_or_default();
        if given.modes.iter().any(|mode| *mode != self.mode) {
            return Err(Usage::conflict("only one of -p (or -a), -n and -y can be given"));
        }
        let (tests, has_file) = (given.bad_block_tests > 0, !given.bad_block_files.is_empty());
        if tests && has_file {
            return Err(Usage::conflict("-c and -l (or -L) exclude one another"));
        }
        if given.bad_block_files.len() > 1 {
            return Err(Usage::conflict("only one of -l and -L can be given, and once"));
        }
        for (is_given, letters) in [(tests, "-c"), (has_file, "-l (or -L)"), (self.optimize, "-D")] {
            if self.mode == Mode::No && is_given {
                return Err(Usage::conflict(&format!("-n and {letters} exclude one another")));
            }
        }
        for (is_given, option) in [(self.optimize, "-D"), (self.extended.to_extents, "-E bmap2extent")] {
            if is_given && self.extended.fixes_only {
                return Err(Usage::conflict(&format!("{option} and -E fixes_only exclude one another")));
            }
        }
        let test = match given.bad_block_tests {
            0 => None,
            1 => Some(BadBlocks::ReadTest),
            _ => Some(BadBlocks::WriteTest),
        };
        self.bad_blocks = given.bad_block_files.first().cloned().or(test);
        // Nothing of this can be done, or answered, by a look at the superblock.
        self.force |= self.bad_blocks.is_some() || self.extended.unshare_blocks;
        Ok(())
    }
}

fn number<T: TryFrom<i64>>(letter: char, value: &OsStr) -> Result<T, Usage> {
    let number = getopt::number(value).and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| {
        Usage::options(format!("-{letter} needs a number, and '{}' is not one", value.to_string_lossy()))
    })
}

fn block_size(value: &OsStr) -> Result<u32, Usage> {
    let size: u32 = number('B', value)?;
    if size.is_power_of_two() && (1024..=65536).contains(&size) {
        return Ok(size);
    }
    Err(Usage::options(format!("invalid block size {size} (must be a power of two from 1024 to 65536)")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(line: &str) -> Result<Options, Usage> {
        let words: Vec<OsString> =
            line.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect();
        Options::read(&words)
    }

    #[test]
    fn as_systemd_calls_it() {
        let options = read("-a -C5 /dev/sda1").unwrap();
        assert_eq!((options.mode, options.progress), (Mode::Preen, Some(5)));
        assert_eq!(options.device, "/dev/sda1");
        assert!(!options.force);
    }

    #[test]
    fn everything_at_once() {
        let options =
            read("-fyvttdFr -b 32768 -B 4096 -C -2 -j jdev -z undo -E journal_only -N name -I 3 -P 4 dev")
                .unwrap();
        assert_eq!((options.mode, options.timing, options.progress), (Mode::Yes, 2, Some(-2)));
        assert!(options.force && options.verbose && options.debug && options.flush);
        assert_eq!((options.superblock, options.block_size), (Some(32768), Some(4096)));
        assert_eq!(options.journal.unwrap(), "jdev");
        assert_eq!(options.undo.unwrap(), "undo");
        assert!(options.extended.journal_only);
    }

    #[test]
    fn modes_exclude_one_another() {
        for line in ["-p -n x", "-py x", "-ny x", "-an x", "x -y -a"] {
            assert!(read(line).unwrap_err().message.contains("only one of"), "{line}");
        }
        assert!(read("-a -p x").is_ok() && read("-y -y x").is_ok(), "the same twice is no conflict");
    }

    #[test]
    fn what_is_refused_is_a_usage_error() {
        for line in [
            "",
            "-p",
            "x y",
            "-Q x",
            "-C x",
            "-b x x",
            "-B 1000 x",
            "-c -l f x",
            "-n -c x",
            "-n -l f x",
            "-n -D x",
            "-D -E fixes_only x",
            "-n -cc x",
            "-cc -L f x",
            "-l f -L g x",
            "-L x",
            "-E fixes_only,bmap2extent x",
            "-E foo x",
            "-C x x",
        ] {
            let usage = read(line).unwrap_err();
            assert_eq!(usage.code(), 16, "{line}");
            assert!(!usage.text("e2fsck").is_empty(), "{line}");
        }
        assert!(read("-E ea_ver=1 x").unwrap_err().message.contains("not supported"));
    }

    #[test]
    fn version_needs_no_device() {
        assert!(read("-V").unwrap().version && read("-fV").unwrap().version);
    }

    #[test]
    fn lists_of_bad_blocks() {
        let asked =
            |line| read(line).map(|read| (read.bad_blocks, read.keep_bad_blocks, read.force)).unwrap();
        assert_eq!(asked("-l f x"), (Some(BadBlocks::More("f".into())), false, true));
        assert_eq!(asked("-pL f x"), (Some(BadBlocks::All("f".into())), false, true));
        assert_eq!(asked("-ck x"), (Some(BadBlocks::ReadTest), true, true));
        assert_eq!(asked("-cc x"), (Some(BadBlocks::WriteTest), false, true));
        assert_eq!(asked("-c -y -c x"), (Some(BadBlocks::WriteTest), false, true));
        assert_eq!(asked("-k x"), (None, true, false));
        assert!(read("-yD x").unwrap().optimize);
    }

    #[test]
    fn shared_blocks_can_only_be_found_by_a_whole_check() {
        assert!(read("-E unshare_blocks x").unwrap().force);
    }
}
