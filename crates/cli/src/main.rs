// SPDX-License-Identifier: MIT OR Apache-2.0
//! The binary `fsmend`: reads the command line, opens targets, runs the checks, tells what they found.
//!
//! This is the only crate that prints, that looks at clocks, and that knows about terminals and signals.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
// Printing is what this crate is for.
#![allow(clippy::print_stdout, clippy::print_stderr)]

// Before all that says something.
#[macro_use]
mod say;

mod args;
mod ask;
mod background;
mod check;
mod check_args;
mod common_args;
mod e2fsck_compat;
mod exit;
mod explain;
mod failure;
mod fleet;
mod fsck_ffs_compat;
mod generate;
mod getopt;
mod html;
mod inspect;
mod json;
mod lab;
mod machine;
mod manual;
mod mkfs;
mod mount;
mod numbers;
mod online;
mod outcome;
mod output;
mod place;
mod plan;
mod remedies;
mod repair;
mod stopping;
mod style;
mod target;
mod text;
mod ticker;
mod trace;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    ExitCode::from(run())
}

fn run() -> u8 {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some((program, arguments)) = e2fsck_compat::called_as(&arguments) {
        return e2fsck_compat::run(&program, arguments);
    }
    if let Some((program, arguments)) = fsck_ffs_compat::called_as(&arguments) {
        return fsck_ffs_compat::run(&program, arguments);
    }
    if let Some(arguments) = mount::helper::called_as(&arguments) {
        return mount::helper::run(arguments);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return say::settled(usage(&error, &arguments)),
    };
    let code = match &cli.command {
        Command::Check(arguments) => check::run(arguments),
        Command::Repair(arguments) => repair::run(arguments),
        Command::Apply(arguments) => repair::apply(arguments),
        Command::Plan(arguments) => plan::run(arguments),
        Command::Undo(arguments) => repair::undo(arguments),
        Command::Mount(arguments) => mount::run(arguments),
        Command::Mkfs(arguments) => mkfs::run(arguments),
        Command::Inspect(arguments) => inspect::run(arguments),
        Command::Lab(arguments) => lab::run(arguments),
        Command::Fleet(arguments) => fleet::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Generate(arguments) => generate::run(arguments),
        Command::ThawWatchdog(arguments) => online::watchdog::run(arguments),
    };
    // Those who call us as another checker know only its codes.
    say::settled(code)
}

/// Prints what the command-line parser has to say: help and version are no errors, everything else is.
/// Programs that asked for JSON get the error as JSON.
fn usage(error: &clap::Error, arguments: &[OsString]) -> u8 {
    let printed = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            say::note(printed);
            exit::CLEAN
        }
        _ => {
            if asks_for_json(arguments) {
                let message = first_paragraph(&error.to_string());
                let _ = json::write_usage_error(&mut std::io::stdout().lock(), &message);
            }
            exit::USAGE
        }
    }
}

/// What is wrong, in one line: the parser lists the options that are missing or exclude one another below its first line.
fn first_paragraph(text: &str) -> String {
    let mut lines = text.trim_start_matches("error: ").lines().map(str::trim);
    let first = lines.next().unwrap_or_default().to_owned();
    let listed: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    if listed.is_empty() { first } else { format!("{first} {}", listed.join(", ")) }
}

/// Whether the options, which could not be understood, have `--format json` or `--format=json` among them.
fn asks_for_json(arguments: &[OsString]) -> bool {
    let options = || arguments.iter().skip(1).take_while(|argument| *argument != "--");
    let in_two = options().zip(options().skip(1)).any(|(name, value)| name == "--format" && value == "json");
    in_two || options().any(|argument| argument == "--format=json")
}
