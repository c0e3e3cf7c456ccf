//! `cargo xtask`: the tooling of the workspace.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the console")]

mod bench;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask COMMAND

  test           install what the tests need, then formatting, lints, tidy and all tests
  ci             what the continuous integration runs (the same as test)
  tidy           house rules: crate edges, file headers and lengths, printing, links of the documentation
  bench images   make the benchmark images
  bench check    measure `fsmend check` against the installed e2fsck and the floor";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
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
