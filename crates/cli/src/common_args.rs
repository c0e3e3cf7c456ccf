//! Arguments that several commands have.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fsmend_ext_check::superblock::SuperblockOptions;

pub const EXIT_CODES: &str = "Exit codes (bits, or'ed over all targets): 0 sound, 1 repaired, 4 problems found and left, \
                          8 could not be done, 16 usage error, 32 cancelled.";

/// What a check and a repair have in common.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// How to tell the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,

    /// List every problem and every file, not only the first few of a kind
    #[arg(long)]
    pub all: bool,

    /// Worker threads, shared by all targets [default: one per core, as far as the container allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,

    /// Most memory to use, e.g. 512M or 4G [default: a quarter of what the machine or the container has]
    #[arg(long, value_name = "SIZE", value_parser = crate::numbers::parse_size)]
    pub memory: Option<u64>,

    /// Give way to everything else while a target is checked or a plan is worked out: lowest priority for processor and disk, and only as
    /// many threads as cores are idle
    #[arg(long)]
    pub background: bool,

    /// Read at most so many bytes a second, all targets together, e.g. 50M
    #[arg(long, value_name = "BYTES", value_parser = crate::numbers::parse_rate)]
    pub read_limit: Option<u64>,

    /// Look at what is on the disk even if its journal waits to be replayed (the default is to replay it in memory); a repair is refused
    /// then
    #[arg(long)]
    pub no_replay: bool,

    /// Only this partition of a whole disk (numbered as the kernel does)
    #[arg(long, value_name = "N", conflicts_with = "offset")]
    pub partition: Option<u32>,

    /// The file system starts at this byte of the target, e.g. 1M
    #[arg(long, value_name = "BYTES", value_parser = crate::numbers::parse_size)]
    pub offset: Option<u64>,

    /// The device or image that holds the external journal [default: the device with the UUID that the file system names]
    #[arg(short, long, value_name = "DEVICE")]
    pub journal: Option<PathBuf>,

    /// Use the superblock in this block instead of the primary one
    #[arg(short = 'b', long, value_name = "BLOCK")]
    pub superblock: Option<u64>,

    /// Block size that goes with --superblock [default: all are tried]
    #[arg(short = 'B', long, value_name = "BYTES", requires = "superblock", value_parser = crate::numbers::parse_block_size)]
    pub block_size: Option<u32>,

    /// How to read
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,

    /// Colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto)]
    pub color: When,

    /// Progress on standard error (auto: on a terminal, once a run takes over a second)
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Show::Auto)]
    pub progress: Show,
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
    /// For people
    Text,
    /// For programs: one JSON document (docs/json-schema.md)
    Json,
}

/// When to do something that suits a terminal.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// On a terminal
    Auto,
    /// Also elsewhere
    Always,
    /// Not at all
    Never,
}

/// When and how to show progress.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Show {
    /// A bar, on a terminal
    Auto,
    /// Also elsewhere: a line a second
    Always,
    /// Not at all
    Never,
    /// Lines of JSON, for programs: seconds gone by, share done, seconds left, bytes read
    Json,
}

/// Ways to read.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// io_uring where it is allowed, else plain reads
    Auto,
    /// io_uring
    Uring,
    /// Plain reads
    Pread,
}
