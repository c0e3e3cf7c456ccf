// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `fsmend fleet`. Help texts are the doc comments here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use fsmend_fleet::part::Part;

use crate::common_args::{PlainFormat as Format, When};

const AFTER: &str = "fleet never writes to a volume. A worker checks, and saves repair plans if `plan --plans` was given; apply them with \
                     `fsmend apply`. docs/fleet.md describes lists, records and engines.";

const PLAN_CODES: &str = "Exit status: 0 planned, 8 operational error, 16 usage error, wrong list, or the folder holds another run, 75 the folder is full.";

const SUBMIT_CODES: &str =
    "Exit status: 0 submitted, or nothing is left to do, 8 the engine refused, 16 usage error, 75 try again.";

const WORK_CODES: &str = "Exit status: 0 every volume of the shards has a record, whatever its verdict, 16 usage error, or list or program \
                          changed since the plan, 32 stopped, 75 try again (run folder full, file server does not answer).";

const STATUS_CODES: &str = "Exit status: 0 every volume has a record, 8 some have none, 16 usage error.";

const MERGE_CODES: &str = "Exit status (bits, combined over all volumes): 0 clean, 4 problems found, 8 volumes not checked or without a \
                           record, 16 usage error.";

/// `fsmend fleet`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER)]
pub struct FleetArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What can be done with fleets.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// Divide a list of volumes into shards and create the run folder
    Plan(PlanArgs),
    /// Submit the shards that lack records to Slurm or Kubernetes
    Submit(Box<SubmitArgs>),
    /// Check the volumes of shards, as a job of an engine or by hand
    Work(WorkArgs),
    /// Show how far a run is
    Status(StatusArgs),
    /// Write one report over all volumes
    Merge(MergeArgs),
    /// Internal: checks one volume for a worker, and ends with it
    #[command(hide = true)]
    Volume(VolumeArgs),
}

/// `fsmend fleet plan`.
#[derive(Args, Clone, Debug)]
#[command(after_help = PLAN_CODES)]
pub struct PlanArgs {
    /// Volumes, one JSON object a line: {"id", "target", "size"?, "partition"?, "node"?, "options"?}; - for standard input
    #[arg(value_name = "LIST")]
    pub list: PathBuf,

    /// Run folder: new, on a file system that every worker sees
    #[arg(long, value_name = "DIR")]
    pub run: PathBuf,

    /// Number of shards. Each is the work of one job; there are more if volumes belong to more nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99_999))]
    pub shards: u32,

    /// Plan only one of so many parts of the list, e.g. 3/28. The id of a volume decides which part it is in
    #[arg(long, value_name = "N/T")]
    pub part: Option<Part>,

    /// Leave out volumes that a run of --previous found clean within this time, e.g. 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = crate::numbers::parse_span, requires = "previous")]
    pub outdated_after: Option<Duration>,

    /// Folders of earlier runs, for --outdated-after
    #[arg(long, value_name = "DIR", num_args = 1.., requires = "outdated_after")]
    pub previous: Vec<PathBuf>,

    /// Save the plan of a repair of each damaged volume in DIR/plans. Nothing is repaired
    #[arg(long)]
    pub plans: bool,

    /// Problems of a volume that its record lists, the worst first. All of them are counted
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub problems: u32,

    /// Worker threads of each check [default: what the engine grants, or all CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,

    /// Memory limit of each check, e.g. 512M [default: half of what Slurm grants, or a quarter of the machine or container]
    #[arg(long, value_name = "SIZE", value_parser = crate::numbers::parse_size)]
    pub memory: Option<u64>,

    /// Read at most this many bytes per second in each check, e.g. 50M
    #[arg(long, value_name = "BYTES", value_parser = crate::numbers::parse_rate)]
    pub read_limit: Option<u64>,

    /// Check at the lowest CPU and I/O priority, with only as many threads as CPUs are idle
    #[arg(long)]
    pub background: bool,

    /// Skip journal replay
    #[arg(long)]
    pub no_replay: bool,
}

/// Engines.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// Job arrays, submitted with sbatch
    Slurm,
    /// Indexed Jobs, created with kubectl
    Kubernetes,
}

/// `fsmend fleet submit`.
#[derive(Args, Clone, Debug)]
#[command(after_help = SUBMIT_CODES)]
pub struct SubmitArgs {
    /// Run folder
    #[arg(long, value_name = "DIR")]
    pub run: PathBuf,

    /// Engine
    #[arg(long, value_enum)]
    pub engine: Engine,

    /// Print the job scripts or manifests, and submit nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,

    /// Shards of one job array or Job that run at the same time, at most [default: no limit; 10 for Kubernetes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub parallel: Option<u32>,

    /// Also submit shards with volumes that could not be checked, or whose check crashed, and check these again
    #[arg(long)]
    pub retry: bool,

    /// Slurm: a further option of sbatch, e.g. --slurm-option=--partition=night. May be given several times
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub slurm_option: Vec<String>,

    /// Slurm: fsmend as the nodes see it [default: the path of this program]
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,

    /// Tasks of one job array or Job, at most [default: MaxArraySize of Slurm; 1000 for Kubernetes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99_999))]
    pub array_max: Option<u32>,

    /// Kubernetes options.
    #[command(flatten, next_help_heading = "Kubernetes")]
    pub kubernetes: KubernetesArgs,
}

/// What a manifest needs.
#[derive(Args, Clone, Debug)]
pub struct KubernetesArgs {
    /// Container image with fsmend
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,

    /// Namespace
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// PersistentVolumeClaim with the run folder, and where it lies in it: CLAIM or CLAIM:PATH
    #[arg(long, value_name = "CLAIM")]
    pub run_claim: Option<String>,

    /// Claim with images, mounted read-only: CLAIM=/PATH. May be given several times
    #[arg(long, value_name = "CLAIM=PATH")]
    pub claim: Vec<String>,

    /// Claim of a block device: CLAIM=/dev/NAME. May be given several times
    #[arg(long, value_name = "CLAIM=DEVICE")]
    pub device_claim: Vec<String>,
}

/// `fsmend fleet work`.
#[derive(Args, Clone, Debug)]
#[command(after_help = WORK_CODES)]
pub struct WorkArgs {
    /// Run folder
    #[arg(long, value_name = "DIR")]
    pub run: PathBuf,

    /// Shards, e.g. 7 or 3,77,1500-1503 [default: all that belong to no node]
    #[arg(long, value_name = "LIST", conflicts_with = "only_node")]
    pub shard: Option<String>,

    /// Work only on this element of the list of --shard, counted from 0: the index that an engine gives to a task
    #[arg(long, value_name = "INDEX", requires = "shard")]
    pub pick: Option<usize>,

    /// Work on the shards that belong to this node
    #[arg(long = "node", value_name = "NAME")]
    pub only_node: Option<String>,

    /// Check volumes again that could not be checked, or whose check crashed
    #[arg(long)]
    pub retry: bool,
}

/// `fsmend fleet status`.
#[derive(Args, Clone, Debug)]
#[command(after_help = STATUS_CODES)]
pub struct StatusArgs {
    /// Run folder
    #[arg(long, value_name = "DIR")]
    pub run: PathBuf,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Forms of a merged report.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum MergeFormat {
    /// Text
    Text,
    /// One JSON document (docs/fleet.md)
    Json,
    /// One self-contained page
    Html,
}

/// `fsmend fleet merge`.
#[derive(Args, Clone, Debug)]
#[command(after_help = MERGE_CODES)]
pub struct MergeArgs {
    /// Run folder
    #[arg(long, value_name = "DIR")]
    pub run: PathBuf,

    /// Output format
    #[arg(long, value_enum, default_value_t = MergeFormat::Text)]
    pub format: MergeFormat,

    /// List every volume that is not clean, not only the first few of each kind
    #[arg(long)]
    pub all: bool,

    /// Also write metrics for the textfile collector of Prometheus to this file
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,

    /// Also write the records to this file, one JSON line for each volume
    #[arg(long, value_name = "FILE")]
    pub records: Option<PathBuf>,

    /// Colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto)]
    pub color: When,
}

/// `fsmend fleet volume`.
#[derive(Args, Clone, Debug)]
pub struct VolumeArgs {
    /// Process of the worker
    #[arg(long, value_name = "PROCESS")]
    pub worker: i32,

    /// A check, or a repair that saves a plan, with its options
    #[arg(last = true, value_name = "ARGUMENT")]
    pub arguments: Vec<OsString>,
}
