//! The command lines of `fsmend repair`, `fsmend apply` and `fsmend undo`. Help texts are the doc comments here.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::common_args::Common;

const EXIT_CODES: &str = "Exit codes: 0 nothing had to be done (or a plan was saved), 1 repaired, 4 problems are left and nothing was written, \
                          8 could not be done, 16 usage error, 32 stopped by the user.";

const APPLY_EXIT_CODES: &str = "Exit codes: 0 the plan has been carried out already, 1 repaired, 8 could not be done, 16 usage error, 32 stopped \
                                by the user.";

const UNDO_EXIT_CODES: &str = "Exit codes: 0 it is as it was before the repair, 8 could not be done, 16 usage error, 32 stopped by the user.";

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

    /// What a check takes, too.
    #[command(flatten)]
    pub common: Common,
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
#[command(after_help = APPLY_EXIT_CODES)]
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
#[command(after_help = UNDO_EXIT_CODES)]
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
