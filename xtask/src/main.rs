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
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask COMMAND

  test           install what the tests need, then formatting, lints, tidy and all tests
  test --vm      what needs a kernel of its own (LVM snapshots), in a small guest under qemu
  test --boot [PACKAGE]
                 the package's hooks for initramfs-tools and dracut: guests with damaged root file systems repair
                 themselves and boot (needs the superuser, a mirror of Debian and qemu; skipped otherwise)
  ci             what the continuous integration runs (the same as test)
  tidy           house rules: crate edges, file headers and lengths, printing, links of the documentation
  package        make the Debian package, the static program and the list of components in target/package
                 (--test: make the Debian package and try it in a fresh Debian; needs the superuser)
  example        make examples/damaged.qcow2 anew
  picture        draw docs/run.svg, the README's picture of a run over the example
  fuzz           coverage-guided fuzzing, one target after the other (needs a nightly toolchain and cargo-fuzz;
                 [--seconds N] [--images FOLDER: damaged images for the target cut_image] [--seeds-only] [TARGET...])
  bench images   make the benchmark images
  bench check    measure `fsmend check` against the installed e2fsck and the floor
                 (--cache FOLDER says where the images are, --runs N how often to measure, at least 5)
  bench estimate score `fsmend check --estimate`, and the time left that progress shows, against what runs took
  bench page     measure how long a browser takes to show a report
  bench fleet    measure planning and merging the reports of 100 000 volumes
  bench slow     count the requests in flight on simulated devices that take 20 ms for each (needs the superuser)
  bench scaling  predict runs with up to 64 workers from the batches of real ones (docs/bench/scaling.md)
  bench neighbour
                 measure an application (RocksDB, package rocksdb-tools, or PostgreSQL, package postgresql) beside `fsmend check --background`, beside e2fsck, and alone
                 (--image NAME, --rounds N, --seconds N, --clients N, --only warm|cold; short runs write nothing)
  bench paper ffsck
                 the experiments of the paper on rext3 and ffsck, on a simulated hard disk (--gib N, --large N; needs the superuser)
  bench repair   measure `fsmend repair` against `e2fsck -fy` on broken metadata, and against a plain check
  bench repair-fields
                 damage every field of every structure, repair and judge; goes on where it was interrupted
                 (--cases N, --base NAME, --one NUMBER, --again: what failed, --keep FOLDER: images of examples,
                 --bytes FIRST..END: the block fuzzer with these seeds instead)
  bench same     compare reports, plans, undo files and repaired images of field cases between two builds, at 1, 2 and 64 threads
                 (--old PROGRAM --new PROGRAM, --from PLACE, --cases N)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test" | "ci"] => test::run(),
        ["test", "--vm"] => vm::test(),
        ["test", "--boot"] => vm::boot::test(None),
        ["test", "--boot", package] => vm::boot::test(Some(Path::new(package))),
        ["tidy"] => tidy::run(),
        ["package", rest @ ..] => package::run(rest),
        ["example"] => workspace().and_then(|workspace| example::run(&workspace)),
        ["picture"] => workspace().and_then(|workspace| picture::run(&workspace)),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["bench", rest @ ..] => bench::run(rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(16);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The folder that holds the workspace.
fn workspace() -> io::Result<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).ok_or_else(|| io::Error::other("xtask has no folder above it"))
}
