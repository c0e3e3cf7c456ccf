// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line. Help texts are the doc comments here.

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::check_args::CheckArgs;
use crate::common_args::When;

/// How one begins.
const START: &str = "To begin:
  fsmend check /dev/sdb1     what is wrong, and with which file; never writes
  fsmend repair /dev/sdb1    shows the repair and what may be lost, then asks once
  fsmend COMMAND --help      the options of a command

Exit status (bits, combined over all targets): 0 clean, 1 repaired, 4 problems left uncorrected, 8 operational error, 16 usage error, \
                     32 cancelled.";

/// Checks and repairs ext2, ext3, ext4, UFS1, UFS2 and hybridfs file systems
#[derive(Parser, Debug)]
#[command(name = "fsmend", version = crate::version::short(), long_version = crate::version::long(), max_term_width = 100, after_help = START)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Check file systems and report every problem. Never writes
    ///
    /// Reports what is wrong, with which file, what a repair would do to it and what may be lost. A dirty journal is replayed in memory. The
    /// target is opened read-only and not locked; for a mounted file system use --online.
    Check(CheckArgs),
    /// Repair a file system: compute a plan, check the result in memory, write it
    ///
    /// The repair is computed in memory and the result is checked there. What happens to which file, and what may be lost, is shown before the
    /// first write. If problems would remain, nothing is written. All writes go through a log: the next run finishes
    /// a repair that a crash interrupted. The undo file takes the repair back byte for byte. Mounted file systems are refused.
    Repair(crate::repair::RepairArgs),
    /// Apply a plan saved by fsmend repair --plan
    ///
    /// Nothing is computed again. The plan is written only if the target has not changed since the plan was made.
    Apply(crate::repair::ApplyArgs),
    /// Show a saved plan, or compare its target with it
    Plan(crate::plan::PlanArgs),
    /// Undo a repair, byte for byte
    ///
    /// Refused if blocks that the repair wrote have changed since (see --force).
    Undo(crate::repair::UndoArgs),
    /// Mount a file system on a directory through FUSE and serve it until it is unmounted
    Mount(crate::mount::MountArgs),
    /// Create a file system on an image file or a block device
    Mkfs(crate::mkfs::MkfsArgs),
    /// Show the type and usage of a file system, including the indirect regions of rext3. Does not check
    Inspect(crate::inspect::InspectArgs),
    /// Fill and age file systems from a seed and run workloads on real and simulated disks
    Lab(crate::lab::args::LabArgs),
    /// Check many volumes with Slurm, Kubernetes or a shell on each node, and merge the reports
    Fleet(crate::fleet::args::FleetArgs),
    /// Explain a problem code: meaning, repair, and what may be lost
    Explain(ExplainArgs),
    /// Write man pages or shell completions
    Generate(crate::generate::GenerateArgs),
    /// Internal: thaws a file system if check --online dies while it is frozen
    #[command(hide = true)]
    ThawWatchdog(crate::online::args::WatchdogArgs),
}

/// `fsmend explain`.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// A problem code (ext.inode.links-mismatch), a prefix (ext.inode), or an e2fsck code (0x010007)
    #[arg(required_unless_present = "list", value_name = "CODE", action = ArgAction::Append)]
    pub codes: Vec<String>,

    /// List all codes
    #[arg(long)]
    pub list: bool,

    /// Colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto)]
    pub color: When,
}
