// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `fsmend check`.

use std::path::PathBuf;

use clap::Args;
use fsmend_device::OpenOptions;
use fsmend_engine::pool::Mode;

use crate::common_args::{Common, EXIT_CODES, heading};
use crate::online::args::OnlineArgs;

/// `fsmend check`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct CheckArgs {
    /// Image file (raw or qcow2), block device, or disk with partitions; with --online also a mount point
    #[arg(required_unless_present = "mounted", value_name = "TARGET")]
    pub targets: Vec<PathBuf>,

    /// Print only the headline of each target
    #[arg(short, long)]
    pub quiet: bool,

    /// Do not check; estimate how long a check would take
    #[arg(long)]
    pub estimate: bool,

    /// File systems in use.
    #[command(flatten, next_help_heading = "File systems in use")]
    pub online: OnlineArgs,

    /// What a repair takes, too.
    #[command(flatten)]
    pub common: Common,

    /// Print the cost of each stage: time, CPU time, memory, bytes read, rate
    #[arg(long, help_heading = heading::MEASURING)]
    pub stats: bool,

    /// Write a trace of all workers for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE", help_heading = heading::MEASURING)]
    pub trace: Option<PathBuf>,

    /// How workers are scheduled: serial, data, pipeline-equal, pipeline=A:B, dynamic or resource-aware
    /// [default: resource-aware at low priority (nice, SCHED_BATCH, SCHED_IDLE), else dynamic]
    #[arg(long, value_name = "MODE", help_heading = heading::MEASURING)]
    pub schedule: Option<Mode>,
}

impl CheckArgs {
    /// Which part of each target is meant.
    pub fn open_options(&self) -> OpenOptions {
        OpenOptions { offset: self.common.offset, partition: self.common.partition }
    }
}
