// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options that are about file systems in use.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

/// Options of `fsmend check` for file systems that are mounted, and for unattended checks.
#[derive(Args, Clone, Debug)]
pub struct OnlineArgs {
    /// Check mounted file systems: TARGET is a mount point or its device. The check uses a consistent view (an LVM
    /// snapshot, a reflink copy of an image, or a short freeze)
    // While it is frozen all writers wait for the check: it must not run at a lower priority than they do.
    #[arg(long, conflicts_with_all = ["background", "read_limit", "estimate", "trace"])]
    pub online: bool,

    /// All mounted ext2, ext3 and ext4 file systems
    #[arg(long, requires = "online", conflicts_with = "targets")]
    pub mounted: bool,

    /// Consistent view to use
    #[arg(long, value_enum, value_name = "VIEW", default_value_t = ViewChoice::Auto, requires = "online")]
    pub view: ViewChoice,

    /// Longest freeze in milliseconds. Problems that cannot be confirmed within it are reported as unconfirmed
    #[arg(long, value_name = "MS", default_value_t = 500, requires = "online", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub freeze_limit: u32,

    /// If problems are found, set the error flag of the file system, so that it is repaired at the next boot
    #[arg(long, requires = "online")]
    pub mark_for_repair: bool,

    /// Write the latest report on each target to this directory, as JSON
    #[arg(long, value_name = "FOLDER")]
    pub report_dir: Option<PathBuf>,

    /// Write the results to this file for the textfile collector of the Prometheus node exporter
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
}

/// Views that can be asked for.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ViewChoice {
    /// The first one that is available
    Auto,
    /// An LVM snapshot
    Lvm,
    /// A reflink copy of the image behind a loop device
    Reflink,
    /// The live file system; problems are confirmed during a freeze
    Freeze,
}

/// `fsmend thaw-watchdog`, which `check --online` starts for itself.
#[derive(Args, Clone, Debug)]
pub struct WatchdogArgs {
    /// Mount point
    pub at: PathBuf,
    /// Major number of its device
    pub major: u32,
    /// Minor number of its device
    pub minor: u32,
    /// Milliseconds before it is thawed
    pub limit: u64,
}

impl OnlineArgs {
    /// The limit of a freeze.
    pub fn limit(&self) -> Duration {
        Duration::from_millis(u64::from(self.freeze_limit))
    }
}
