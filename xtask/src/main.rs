// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask`: the tooling of the workspace.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the console")]

mod bench;
mod example;
mod fuzz;
mod minimum;
mod package;
mod packages;
mod picture;
mod test;
mod tidy;
mod vm;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// The tooling of the workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = BENCHMARKS)]
enum Command {
    /// Install what the tests need, then formatting, lints, tidy and all tests
    #[command(visible_alias = "ci")]
    Test {
        /// Instead: what needs a kernel of its own (LVM snapshots), in a small guest under qemu
        #[arg(long, conflicts_with = "boot")]
        vm: bool,
        /// Instead: the package's hooks for initramfs-tools and dracut. Guests with damaged root file systems repair
        /// themselves and boot (needs the superuser, a mirror of Debian and qemu; skipped otherwise)
        #[arg(long, value_name = "PACKAGE")]
        #[expect(clippy::option_option, reason = "the option, and its value")]
        boot: Option<Option<PathBuf>>,
    },
    /// House rules: crate edges, file headers and lengths, printing, links of the documentation
    Tidy,
    /// Make the Debian package, the static program and the list of components in target/package
    Package {
        /// Make the Debian package only, and try it in a fresh Debian (needs the superuser)
        #[arg(long)]
        test: bool,
    },
    /// Make examples/damaged.qcow2 anew
    Example,
    /// Draw docs/run.svg, the README's picture of a run over the example
    Picture,
    /// Coverage-guided fuzzing, one target after the other (needs a nightly toolchain and cargo-fuzz):
    /// [--seconds N] [--images FOLDER: damaged images for the target cut_image] [--seeds-only] [TARGET...]
    Fuzz {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure: see below
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

const BENCHMARKS: &str = "Benchmarks (bench WHAT [--cache FOLDER] [--only NAME] [--runs N, at least 5] [--quick] [--no-build]):

  images         make the benchmark images
  check          measure `fsmend check` against the installed e2fsck and the floor
  ufs            the same against FreeBSD's fsck_ffs (FSMEND_UFS_PEERS names the folder of its programs)
  hybridfs       the same against our own check of an ext4 with the same tree
  instructions   count the instructions of a check and of the floor (needs valgrind)
  estimate       score `fsmend check --estimate`, and the time left that progress shows, against what runs took
  repair         measure `fsmend repair` against `e2fsck -fy` on broken metadata, and against a plain check
  mount          measure the mount beside the kernel's ext4 and fuse2fs (needs the superuser)
  slow           count the requests in flight on simulated devices that take 20 ms for each (needs the superuser)
  scaling        predict runs with up to 64 workers from the batches of real ones (docs/bench/scaling.md)
  page           measure how long a browser takes to show a report
  fleet          measure planning and merging the reports of 100 000 volumes
  neighbour      measure an application (RocksDB, package rocksdb-tools, or PostgreSQL, package postgresql) beside
                 `fsmend check --background`, beside e2fsck, and alone (--image NAME, --rounds N, --seconds N,
                 --clients N, --only warm|cold; short runs write nothing)
  paper ffsck    the experiments of the paper on rext3 and ffsck, on a simulated hard disk (--gib N, --large N; needs
                 the superuser); likewise paper ext4, paper ffs, paper hfs
  repair-fields  damage every field of every structure, repair and judge; goes on where it was interrupted
                 (--cases N, --base NAME, --one NUMBER, --again: what failed, --keep FOLDER: images of examples,
                 --bytes FIRST..END: the block fuzzer with these seeds instead)
  same           compare reports, plans, undo files and repaired images of field cases between two builds, at 1, 2 and
                 64 threads (--old PROGRAM --new PROGRAM, --from PLACE, --cases N)";

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Test { vm: true, .. } => vm::test(),
        Command::Test { boot: Some(package), .. } => vm::boot::test(package.as_deref()),
        Command::Test { .. } => test::run(),
        Command::Tidy => tidy::run(),
        Command::Package { test: false } => package::run(),
        Command::Package { test: true } => package::test(),
        Command::Example => workspace().and_then(|workspace| example::run(&workspace)),
        Command::Picture => workspace().and_then(|workspace| picture::run(&workspace)),
        Command::Fuzz { arguments } => fuzz::run(&words(&arguments)),
        Command::Bench { arguments } => bench::run(&words(&arguments)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// The folder that holds the workspace.
fn workspace() -> io::Result<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).ok_or_else(|| io::Error::other("xtask has no folder above it"))
}
