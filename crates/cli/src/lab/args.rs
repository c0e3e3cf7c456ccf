//! The command line of `fsmend lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::common_args::{Format, Show};

const AFTER: &str = "The same seed makes the same file system, byte for byte, and the same accesses. Nothing here asks before it writes: lab \
                     is for image files and disks that hold nothing of worth (docs/lab.md). Exit codes: 0 done, 8 could not be done, 16 usage error.";

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
    /// Make a new image with an empty file system, from a seed
    Make(MakeArgs),
    /// Fill a file system up to a share of its room, and age it: files are made, lengthened, cut and deleted
    Fill(FillArgs),
    /// Run a workload on a file system, and say how long it took
    Run(RunArgs),
    /// List the disks that can be simulated
    Disks,
}

/// How to tell, and from which seed.
#[derive(Args, Debug)]
pub struct Telling {
    /// Where all decisions come from
    #[arg(long, value_name = "N", default_value_t = 2013)]
    pub seed: u64,

    /// How to tell the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,

    /// Progress on standard error (auto: on a terminal)
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Show::Auto)]
    pub progress: Show,
}

/// What a file system is mounted with.
#[derive(Args, Debug)]
pub struct Mounting {
    /// Where blocks are wished for
    #[arg(long, value_enum, default_value_t = Policy::Format)]
    pub policy: Policy,

    /// Tell the time that this simulated disk would take (fsmend lab disks lists them) [default: the time that passes]
    #[arg(long, value_name = "NAME")]
    pub disk: Option<String>,
}

/// `fsmend lab make`.
#[derive(Args, Debug)]
pub struct MakeArgs {
    /// Image file that is not there yet
    pub target: PathBuf,

    /// Its size, e.g. 64G. The file is sparse
    #[arg(value_parser = crate::numbers::parse_size)]
    pub size: u64,

    /// Which file system
    #[arg(short = 't', long = "type", value_enum, default_value_t = crate::mkfs::Type::Ext3)]
    pub kind: crate::mkfs::Type,

    /// As with fsmend mkfs
    #[arg(short = 'E', value_name = "OPTIONS")]
    pub extended: Vec<String>,

    /// How to tell.
    #[command(flatten)]
    pub telling: Telling,
}

/// `fsmend lab fill`.
#[derive(Args, Debug)]
pub struct FillArgs {
    /// Image file or block device with a file system
    pub target: PathBuf,

    /// How full it is to be, in percent of all blocks
    #[arg(long, value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub utilisation: u8,

    /// Operations for each folder afterwards: files are made, lengthened, cut and deleted, each as likely as the others
    #[arg(long, value_name = "OPERATIONS", default_value_t = 0)]
    pub age: u32,

    /// Folders [default: one for each block group, 128 MiB]
    #[arg(long, value_name = "N")]
    pub folders: Option<u32>,

    /// Longest new file, in blocks
    #[arg(long, value_name = "BLOCKS", default_value_t = 512)]
    pub file_blocks: u64,

    /// Write data, too. Otherwise files get blocks that nothing is written to, and show whatever stands there
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

    /// Length of the file that is written and read (sequential, random, strided), e.g. 2G
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = crate::numbers::parse_size)]
    pub size: u64,

    /// Blocks that are read (random), transactions (postmark), rounds (servers) [default: 512, 20000, 1000]
    #[arg(long, value_name = "N")]
    pub count: Option<u32>,

    /// Files at first (postmark, servers) [default: 5000, 10000, 10000, 1000]
    #[arg(long, value_name = "N")]
    pub files: Option<u32>,

    /// What it is mounted with.
    #[command(flatten)]
    pub mounting: Mounting,

    /// How to tell.
    #[command(flatten)]
    pub telling: Telling,
}

/// Where blocks are wished for.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// What the format has: near the inode, map blocks in line with data; on a rext3 in regions
    Format,
    /// Map blocks and directories at the start of each group, as far as there is room; the first map block of a file in line
    Metacluster,
    /// The same, and the first map block of a file with the others
    MetaclusterAll,
}

/// Workloads.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Write a file from start to end, and read it
    Sequential,
    /// Read blocks of a file at random
    Random,
    /// Read one block for each map block of a file
    Strided,
    /// Transactions on 5000 files of 4 KB to 4 MB in 50 folders, after PostMark
    Postmark,
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
