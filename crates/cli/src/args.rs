//! The command line. Help texts are the doc comments here.

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::check_args::CheckArgs;
use crate::common_args::{EXIT_CODES, When};

/// Checks and repairs ext2, ext3 and ext4 file systems.
#[derive(Parser, Debug)]
#[command(name = "fsmend", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

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
