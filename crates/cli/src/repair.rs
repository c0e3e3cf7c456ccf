//! `fsmend repair`: works out a plan, shows it, writes it.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use clap::Args;
use fsmend_device::ReadBackend;
use fsmend_engine::Progress;
use fsmend_engine::pool::Schedule;
use fsmend_engine::report::Report;
use fsmend_ext_check::repair::{RepairOptions, Wishes, plan};
use fsmend_ext_check::run::CheckOptions;
use fsmend_ext_check::superblock::SuperblockOptions;

use crate::{exit, machine, target};

/// `fsmend repair`.
#[derive(Args, Debug)]
pub struct RepairArgs {
    /// Image file or block device
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,

    /// Write the repair without asking
    #[arg(short = 'y', long)]
    pub yes: bool,

    /// Keep no undo file
    #[arg(long)]
    pub no_undo: bool,

    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
}

/// Runs the command and returns the exit code.
pub fn run(arguments: &RepairArgs) -> u8 {
    let device = match target::open_plain(&arguments.target) {
        Ok(device) => device,
        Err(refusal) => {
            eprintln!("{}: {refusal}", arguments.target.display());
            return exit::OPERATIONAL;
        }
    };
    let options = RepairOptions { check: check_options(arguments), wishes: Wishes::default() };
    let repair = match plan(&device, &options, &Progress::new(), &AtomicBool::new(false)) {
        Ok(repair) => repair,
        Err(refused) => {
            eprintln!("{}: {refused}", arguments.target.display());
            return exit::OPERATIONAL;
        }
    };
    for problem in Report::new(repair.found.findings).problems() {
        println!("{}", problem.message());
    }
    let left = Report::new(repair.left.findings);
    if left.is_damaged() {
        println!("Nothing is written: after {} rounds there would still be wrong:", repair.rounds);
        left.problems().for_each(|problem| println!("  [{}] {}", problem.row.code, problem.message()));
        return exit::PROBLEMS;
    }
    if repair.changes.is_empty() {
        return exit::CLEAN;
    }
    match write(arguments, &repair.changes) {
        Ok(()) => exit::CORRECTED,
        Err(error) => {
            eprintln!("{}: {error}", arguments.target.display());
            exit::OPERATIONAL
        }
    }
}

fn write(arguments: &RepairArgs, changes: &[(u64, Vec<u8>)]) -> std::io::Result<()> {
    if !arguments.yes {
        return Ok(());
    }
    let file = OpenOptions::new().write(true).open(&arguments.target)?;
    changes.iter().try_for_each(|(offset, bytes)| file.write_all_at(bytes, *offset))?;
    file.sync_all()
}

fn check_options(arguments: &RepairArgs) -> CheckOptions {
    CheckOptions {
        threads: arguments.threads.map_or_else(machine::cores, usize::from),
        memory: machine::default_memory(),
        replay: true,
        superblock: SuperblockOptions::default(),
        external_journal: None,
        now: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        backend: ReadBackend::Auto,
        repair: None,
        meter: machine::meter,
        stage_clock: None,
        schedule: Schedule::default(),
        want_all_paths: true,
    }
}
