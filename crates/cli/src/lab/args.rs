// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `fsmend lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::common_args::{PlainFormat, Show};

const AFTER: &str = "The same seed makes the same file system, byte for byte, and the same accesses. lab writes \
                     without asking: use it on image files and on disks without data to keep (docs/lab.md). Exit status: 0 done, 8 could not be done, 16 usage error.";

/// `fsmend lab`.
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub struct LabArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What can be done in the laboratory.
#[derive(Subcommand, Debug)]
pub enum What {
    /// Create an image with an empty file system, from a seed
    Make(MakeArgs),
    /// Fill a file system to a given percentage and age it: create, extend, truncate and delete files
    Fill(FillArgs),
    /// Run a workload on a file system and measure the time
    Run(RunArgs),
    /// List the disks that can be simulated
    Disks,
}

/// How to tell, and from which seed.
#[derive(Args, Debug)]
pub struct Telling {
    /// Seed of all random decisions
    #[arg(long, value_name = "N", default_value_t = 2013)]
    pub seed: u64,

    /// Output format
    #[arg(long, value_enum, default_value_t = PlainFormat::Text)]
    pub format: PlainFormat,

    /// Progress on standard error (auto: on a terminal)
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Show::Auto)]
    pub progress: Show,
}

/// What a file system is mounted with.
#[derive(Args, Debug)]
pub struct Mounting {
    /// Block allocation policy
    #[arg(long, value_enum, default_value_t = Policy::Format)]
    pub policy: Policy,

    /// Report the time on this simulated disk (fsmend lab disks lists them) [default: real time]
    #[arg(long, value_name = "NAME")]
    pub disk: Option<String>,
}

/// `fsmend lab make`.
#[derive(Args, Debug)]
pub struct MakeArgs {
    /// New image file
    pub target: PathBuf,

    /// Its size, e.g. 64G. The file is sparse
    #[arg(value_parser = crate::numbers::parse_size)]
    pub size: u64,

    /// File system type
    #[arg(short = 't', long = "type", default_value = fsmend::LAB_KIND, value_parser = crate::mkfs::kinds())]
    pub kind: &'static str,

    /// As in fsmend mkfs
    #[arg(short = 'E', value_name = "OPTIONS")]
    pub extended: Vec<String>,

    /// UFS: fragments of the metadata area of each cylinder group, 0 for none, as in fsmend mkfs
    #[arg(short = 'k', long, value_name = "FRAGMENTS")]
    pub metadata_area: Option<u64>,

    /// How to tell.
    #[command(flatten)]
    pub telling: Telling,
}

/// `fsmend lab fill`.
#[derive(Args, Debug)]
pub struct FillArgs {
    /// Image file or block device with a file system
    pub target: PathBuf,

    /// Target usage in percent of all blocks
    #[arg(long, value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub utilisation: u8,

    /// Operations per directory afterwards: create, extend, truncate and delete with equal probability
    #[arg(long, value_name = "OPERATIONS", default_value_t = 0)]
    pub age: u32,

    /// Directories [default: one for each block group, 128 MiB]
    #[arg(long, value_name = "N")]
    pub folders: Option<u32>,

    /// Longest new file, in blocks
    #[arg(long, value_name = "BLOCKS", default_value_t = 512)]
    pub file_blocks: u64,

    /// Also write data. Otherwise the blocks of new files keep their old contents
    #[arg(long)]
    pub written: bool,

    /// What it is mounted with.
    #[command(flatten)]
    pub mounting: Mounting,

    /// How to tell.
    #[command(flatten)]
    pub telling: Telling,
}

/// `fsmend lab run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Image file or block device with a file system
    pub target: PathBuf,

    /// What to do on it
    #[arg(value_enum)]
    pub workload: Workload,

    /// File size (sequential, random, strided), e.g. 2G
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = crate::numbers::parse_size)]
    pub size: u64,

    /// Blocks to read (random), transactions (postmark), operations (mix), rounds (servers)
    /// [default: 512; 20000, 500; 10000; 1000]
    #[arg(long, value_name = "N")]
    pub count: Option<u32>,

    /// Initial files (postmark, servers), sources (kernel), packages (archive)
    /// [default: 5000, 50000; 10000, 10000, 1000; 4296; 8332]
    #[arg(long, value_name = "N")]
    pub files: Option<u32>,

    /// What it is mounted with.
    #[command(flatten)]
    pub mounting: Mounting,

    /// How to tell.
    #[command(flatten)]
    pub telling: Telling,
}

/// Block allocation policy.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The policy of the format: near the inode, indirect blocks between data blocks; on rext3 in regions
    Format,
    /// Indirect blocks and directories at the start of each group; the first indirect block of a file with its data
    Metacluster,
    /// The same, including the first indirect block of a file
    MetaclusterAll,
}

/// Workloads.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Write a file sequentially and read it
    Sequential,
    /// Read blocks of a file at random
    Random,
    /// Read one block for each indirect block of a file
    Strided,
    /// Transactions on 5000 files of 4 KB to 4 MB in 50 folders, after PostMark
    Postmark,
    /// The same with 50,000 files of 500 to 10,000 bytes in one folder and 500 transactions
    PostmarkSmall,
    /// Copy a kernel source tree and build it
    Kernel,
    /// Unpack an archive of many small files, mount again and remove everything
    Archive,
    /// Create and delete files and folders, each in a folder chosen at random
    Mix,
    /// After Filebench's file server
    FileServer,
    /// After Filebench's web proxy
    WebProxy,
    /// After Filebench's mail server
    MailServer,
}

impl Workload {
    /// What it is called on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
