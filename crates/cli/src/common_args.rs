// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments that several commands have.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fsmend_engine::options::SuperblockOptions;

pub const EXIT_CODES: &str = "Exit status (bits, combined over all targets): 0 clean, 1 repaired, 4 problems left uncorrected, \
                          8 operational error, 16 usage error, 32 cancelled.";

/// Headings of help texts and man pages.
pub mod heading {
    /// Which file system is meant, and how it is read.
    pub const SELECTION: &str = "Selecting the file system";
    /// What a run may take of the machine.
    pub const LIMITS: &str = "Limits";
    /// For those who measure.
    pub const MEASURING: &str = "Measuring";
}

/// What a check and a repair have in common.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,

    /// List every problem and every file, not only the first few of each kind
    #[arg(long)]
    pub all: bool,

    /// Colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto)]
    pub color: When,

    /// Progress on standard error (auto: on a terminal, after one second)
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Show::Auto)]
    pub progress: Show,

    /// Use only this partition of a disk (kernel numbering)
    #[arg(long, value_name = "N", conflicts_with = "offset", help_heading = heading::SELECTION)]
    pub partition: Option<u32>,

    /// Byte offset of the file system in the target, e.g. 1M
    #[arg(long, value_name = "BYTES", value_parser = crate::numbers::parse_size, help_heading = heading::SELECTION)]
    pub offset: Option<u64>,

    /// Use the superblock in this block instead of the primary one
    #[arg(short = 'b', long, value_name = "BLOCK", help_heading = heading::SELECTION)]
    pub superblock: Option<u64>,

    /// Block size for --superblock [default: try all]
    #[arg(short = 'B', long, value_name = "BYTES", requires = "superblock", value_parser = crate::numbers::parse_block_size, help_heading = heading::SELECTION)]
    pub block_size: Option<u32>,

    /// Device or image of the external journal [default: the device with the UUID in the superblock]
    #[arg(short, long, value_name = "DEVICE", help_heading = heading::SELECTION)]
    pub journal: Option<PathBuf>,

    /// Skip journal replay (the default is to replay it in memory). A repair is then refused
    #[arg(long, help_heading = heading::SELECTION)]
    pub no_replay: bool,

    /// Worker threads, shared by all targets [default: the number of CPUs, or the limit of the container]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096), help_heading = heading::LIMITS)]
    pub threads: Option<u16>,

    /// Memory limit, e.g. 512M or 4G [default: a quarter of the memory of the machine or container]
    #[arg(long, value_name = "SIZE", value_parser = crate::numbers::parse_size, help_heading = heading::LIMITS)]
    pub memory: Option<u64>,

    /// Run at the lowest CPU and I/O priority while checking or planning, with only as many threads as CPUs are idle
    #[arg(long, help_heading = heading::LIMITS)]
    pub background: bool,

    /// Read at most this many bytes per second over all targets, e.g. 50M
    #[arg(long, value_name = "BYTES", value_parser = crate::numbers::parse_rate, help_heading = heading::LIMITS)]
    pub read_limit: Option<u64>,

    /// I/O backend
    #[arg(long, value_enum, default_value_t = Backend::Auto, help_heading = heading::MEASURING)]
    pub backend: Backend,
}

impl Common {
    /// Which superblock is meant.
    pub fn superblock_options(&self) -> SuperblockOptions {
        SuperblockOptions { block: self.superblock, block_size: self.block_size }
    }
}

/// Forms of a report.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Text
    Text,
    /// One JSON document (docs/json-schema.md)
    Json,
    /// One page that needs no network, for a browser
    Html,
}

/// Forms of what is no report.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlainFormat {
    /// Text
    Text,
    /// One JSON document
    Json,
}

/// When to do something that suits a terminal.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// When and how to show progress.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Show {
    /// A bar, on a terminal
    Auto,
    /// Always; one line per second if not on a terminal
    Always,
    /// Never
    Never,
    /// JSON lines: elapsed seconds, fraction done, remaining seconds, bytes read
    Json,
}

/// Ways to read.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// io_uring if available, otherwise pread
    Auto,
    /// io_uring
    Uring,
    /// pread
    Pread,
}
