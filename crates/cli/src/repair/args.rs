//! The command lines of `fsmend repair`, `fsmend apply` and `fsmend undo`. Help texts are the doc comments here.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::{Backend, Format, When};

const EXIT_CODES: &str = "Exit codes: 0 nothing had to be done (or a plan was saved), 1 repaired, 4 problems are left and nothing was written, \
                          8 could not be done, 16 usage error, 32 stopped by the user.";

/// `fsmend repair`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct RepairArgs {
    /// Raw image file or block device; with --dry-run or --plan also a qcow2 image
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,

    /// Write the repair without asking
    #[arg(short = 'y', long, conflicts_with_all = ["preen", "dry_run", "step"])]
    pub yes: bool,

    /// Write the repair without asking if all that is wrong is safe to mend, else write nothing
    #[arg(short = 'p', long, conflicts_with_all = ["dry_run", "step"])]
    pub preen: bool,

    /// Only show what would be done
    #[arg(short = 'n', long, conflicts_with = "step")]
    pub dry_run: bool,

    /// Ask about every problem
    #[arg(long)]
    pub step: bool,

    /// Save the plan in this file for `fsmend apply`, and write nothing to the target
    #[arg(long, value_name = "FILE", conflicts_with_all = ["yes", "preen", "dry_run", "step"])]
    pub plan: Option<PathBuf>,

    /// What becomes of blocks that several files claim
    #[arg(long, value_enum, default_value_t = DuplicatesArg::Clone)]
    pub duplicates: DuplicatesArg,

    /// Give files that share blocks on purpose (`shared_blocks`) blocks of their own; without this such a file system is never written
    #[arg(long)]
    pub unshare: bool,

    /// Keep the undo file here [default: beside an image, in /var/lib/fsmend for a block device]
    #[arg(long, value_name = "FILE", conflicts_with = "no_undo")]
    pub undo: Option<PathBuf>,

    /// Keep no undo file
    #[arg(long)]
    pub no_undo: bool,

    /// How to tell what is done
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,

    /// List every problem and every file, not only the first few
    #[arg(long)]
    pub all: bool,

    /// Worker threads [default: one per core, as far as the container allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,

    /// Most memory to use, e.g. 512M or 4G [default: a quarter of what the machine or the container has]
    #[arg(long, value_name = "SIZE", value_parser = crate::numbers::parse_size)]
    pub memory: Option<u64>,

    /// Give way to everything else while the plan is worked out: lowest priority for processor and disk, and only as many threads as cores are idle
    #[arg(long)]
    pub background: bool,

    /// Read at most so many bytes a second, e.g. 50M
    #[arg(long, value_name = "BYTES", value_parser = crate::numbers::parse_rate)]
    pub read_limit: Option<u64>,

    /// Repair this partition of a whole disk (numbered as the kernel does)
    #[arg(long, value_name = "N", conflicts_with = "offset")]
    pub partition: Option<u32>,

    /// The file system starts at this byte of the target, e.g. 1M
    #[arg(long, value_name = "BYTES", value_parser = crate::numbers::parse_size)]
    pub offset: Option<u64>,

    /// The device or image that holds the external journal
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
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto)]
    pub progress: When,
}

/// What becomes of blocks that several files claim.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DuplicatesArg {
    /// Every file gets a copy of its own
    Clone,
    /// One file keeps them, the others get zeroes
    Zero,
    /// Every file gets a copy and moves to lost+found
    #[value(name = "lost+found")]
    LostFound,
    /// The files are deleted
    Delete,
}

/// `fsmend apply`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct ApplyArgs {
    /// A plan that `fsmend repair --plan` saved
    #[arg(value_name = "PLANFILE")]
    pub plan: PathBuf,

    /// The target it was made for [default: the one it names]
    #[arg(value_name = "TARGET")]
    pub target: Option<PathBuf>,

    /// Keep the undo file here
    #[arg(long, value_name = "FILE", conflicts_with = "no_undo")]
    pub undo: Option<PathBuf>,

    /// Keep no undo file
    #[arg(long)]
    pub no_undo: bool,
}

/// `fsmend undo`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct UndoArgs {
    /// The undo file that a repair kept
    #[arg(value_name = "UNDOFILE")]
    pub undo: PathBuf,

    /// The target [default: the one that the file names]
    #[arg(value_name = "TARGET")]
    pub target: Option<PathBuf>,

    /// Take it back even if blocks have changed since the repair: what was written since is lost
    #[arg(long)]
    pub force: bool,
}
