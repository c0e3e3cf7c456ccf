//! The command line. Help texts are the doc comments here.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use fsmend_device::OpenOptions;
use fsmend_engine::pool::Mode;
use fsmend_ext_check::superblock::SuperblockOptions;

use crate::online::args::OnlineArgs;

/// Checks and repairs ext2, ext3 and ext4 file systems.
#[derive(Parser, Debug)]
#[command(name = "fsmend", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes (bits, or'ed over all targets): 0 sound, 1 repaired, 4 problems found and left, \
                          8 could not be done, 16 usage error, 32 cancelled.";

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Check file systems and say exactly what is wrong. Never writes
    Check(CheckArgs),
    /// Repair a file system: works out a plan, checks it, writes it
    Repair(crate::repair::RepairArgs),
    /// Carry out a plan that was saved before (fsmend repair --plan)
    Apply(crate::repair::ApplyArgs),
    /// Take a repair back, byte for byte
    Undo(crate::repair::UndoArgs),
    /// Mount a file system in a folder through FUSE, and serve it until it is unmounted
    Mount(crate::mount::MountArgs),
    /// Make a new file system, on an image file or a block device
    Mkfs(crate::mkfs::MkfsArgs),
    /// Say what a file system is and how full it is, the indirect regions of a rext3 too. Checks nothing
    Inspect(crate::inspect::InspectArgs),
    /// A laboratory: fill and age file systems from seeds, run workloads on them, on real and simulated disks
    Lab(crate::lab::args::LabArgs),
    /// Explain a kind of problem: what it means, what a repair does, what may be lost
    Explain(ExplainArgs),
    /// Started by check --online for itself: thaws a file system if that dies while it is frozen
    #[command(hide = true)]
    ThawWatchdog(crate::online::args::WatchdogArgs),
}

/// `fsmend check`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct CheckArgs {
    /// Image file (raw or qcow2), block device, or whole disk with partitions; with --online a mount point too
    #[arg(required_unless_present = "mounted", value_name = "TARGET")]
    pub targets: Vec<PathBuf>,

    /// How workers are divided between the stages: serial, data, pipeline-equal, pipeline=A:B, dynamic or resource-aware
    /// [default: resource-aware at low priority (nice, SCHED_BATCH, SCHED_IDLE), else dynamic]
    #[arg(long, value_name = "MODE")]
    pub schedule: Option<Mode>,

    /// Print only the headline of each target
    #[arg(short, long)]
    pub quiet: bool,

    /// Add what each stage cost: time, processor time, memory, bytes read, rate
    #[arg(long)]
    pub stats: bool,

    /// Write down what each worker did when, for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Do not check; say how long a check would take
    #[arg(long)]
    pub estimate: bool,

    /// What a repair takes, too.
    #[command(flatten)]
    pub common: Common,

    /// File systems in use.
    #[command(flatten, next_help_heading = "File systems in use")]
    pub online: OnlineArgs,
}

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

impl CheckArgs {
    /// Which part of each target is meant.
    pub fn open_options(&self) -> OpenOptions {
        OpenOptions { offset: self.common.offset, partition: self.common.partition }
    }
}

/// `fsmend explain`.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// A problem's code (ext.inode.links-mismatch), the beginning of some (ext.inode), or a number of e2fsck (0x010007)
    #[arg(required_unless_present = "list", value_name = "CODE", action = ArgAction::Append)]
    pub codes: Vec<String>,

    /// List all codes
    #[arg(long)]
    pub list: bool,

    /// Colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto)]
    pub color: When,
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
