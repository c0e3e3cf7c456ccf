// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command lines of `fsmend repair`, `fsmend apply` and `fsmend undo`. Help texts are the doc comments here.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::common_args::Common;

const EXIT_CODES: &str = "Exit status: 0 clean (or a plan was saved), 1 repaired, 4 problems left uncorrected and nothing written, \
                          8 operational error, 16 usage error, 32 stopped by the user.";

const APPLY_EXIT_CODES: &str = "Exit status: 0 the plan was already applied (with --dry-run: it fits), 1 repaired, 8 operational error, 16 usage error, 32 stopped \
                                by the user.";

const UNDO_EXIT_CODES: &str = "Exit status: 0 the target is as it was before the repair, 8 operational error, 16 usage error, 32 stopped by the user.";

/// `fsmend repair`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct RepairArgs {
    /// Image file (raw or qcow2) or block device
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,

    /// Write the repair without asking
    #[arg(short = 'y', long, conflicts_with_all = ["preen", "dry_run", "step"])]
    pub yes: bool,

    /// Repair without asking if every problem is safe to repair automatically; otherwise write nothing
    #[arg(short = 'p', long, conflicts_with_all = ["dry_run", "step"])]
    pub preen: bool,

    /// Show the repair and write nothing
    #[arg(short = 'n', long, conflicts_with = "step")]
    pub dry_run: bool,

    /// Ask about every problem
    #[arg(long)]
    pub step: bool,

    /// Save the plan to this file for `fsmend apply`; write nothing to the target
    #[arg(long, value_name = "FILE", conflicts_with_all = ["yes", "preen", "dry_run", "step"])]
    pub plan: Option<PathBuf>,

    /// What to do with multiply-claimed blocks
    #[arg(long, value_enum, default_value_t = DuplicatesArg::Clone)]
    pub duplicates: DuplicatesArg,

    /// Copy the shared blocks of a file system with the shared_blocks feature. Without this option it is never written
    #[arg(long)]
    pub unshare: bool,

    /// Name files in lost+found by number only (#46), without the former name (#46.thesis.txt)
    #[arg(long)]
    pub bare_numbers: bool,

    /// Undo file [default: beside an image, in /var/lib/fsmend for a block device]
    #[arg(long, value_name = "FILE", conflicts_with = "no_undo")]
    pub undo: Option<PathBuf>,

    /// Do not write an undo file
    #[arg(long)]
    pub no_undo: bool,

    /// What a check takes, too.
    #[command(flatten)]
    pub common: Common,
}

/// What to do with multiply-claimed blocks.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DuplicatesArg {
    /// Each file gets its own copy
    Clone,
    /// One file keeps the blocks, the others get zeros
    Zero,
    /// Each file gets its own copy and is moved to lost+found
    #[value(name = "lost+found")]
    LostFound,
    /// The files are deleted
    Delete,
}

/// `fsmend apply`.
#[derive(Args, Debug)]
#[command(after_help = APPLY_EXIT_CODES)]
pub struct ApplyArgs {
    /// Plan saved by `fsmend repair --plan`
    #[arg(value_name = "PLANFILE")]
    pub plan: PathBuf,

    /// Target [default: the target in the plan]
    #[arg(value_name = "TARGET")]
    pub target: Option<PathBuf>,

    /// Device or image of the external journal or log [default: where it was when it was planned]
    #[arg(short, long, value_name = "DEVICE")]
    pub journal: Option<PathBuf>,

    /// Undo file
    #[arg(long, value_name = "FILE", conflicts_with = "no_undo")]
    pub undo: Option<PathBuf>,

    /// Do not write an undo file
    #[arg(long)]
    pub no_undo: bool,

    /// Compare the target with the plan and write nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// `fsmend undo`.
#[derive(Args, Debug)]
#[command(after_help = UNDO_EXIT_CODES)]
pub struct UndoArgs {
    /// Undo file written by a repair
    #[arg(value_name = "UNDOFILE")]
    pub undo: PathBuf,

    /// Target [default: the target in the undo file]
    #[arg(value_name = "TARGET")]
    pub target: Option<PathBuf>,

    /// Device or image of the external journal or log [default: where it was at the repair]
    #[arg(short, long, value_name = "DEVICE")]
    pub journal: Option<PathBuf>,

    /// Undo even if blocks have changed since the repair. Later changes are lost
    #[arg(long)]
    pub force: bool,
}
