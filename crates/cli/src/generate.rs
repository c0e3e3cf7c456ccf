// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend generate`: man pages and shell completions, made from the same definitions that read the command line.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Cli;
use crate::exit;

/// `fsmend generate`.
#[derive(Args, Clone, Debug)]
pub struct GenerateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Write the man pages, fsmend(8) and one for each command, to a directory
    Man {
        /// Existing directory
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
    /// Print the completions for a shell
    Completions {
        /// Shell
        #[arg(value_enum, value_name = "SHELL")]
        shell: Shell,
    },
}

/// Runs the command; returns the exit code.
pub fn run(arguments: &GenerateArgs) -> u8 {
    let (result, place) = match &arguments.what {
        What::Man { directory } => (write_man_pages(directory), directory.display().to_string()),
        What::Completions { shell } => (print_completions(*shell), "standard output".to_owned()),
    };
    match result {
        Ok(()) => exit::CLEAN,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit::CLEAN,
        Err(error) => {
            eprintln!("fsmend: {place}: {error}");
            exit::OPERATIONAL
        }
    }
}

/// Pages are called `fsmend.8`, `fsmend-check.8`, `fsmend-fleet-plan.8` and so on. Hidden commands get none.
fn write_man_pages(directory: &Path) -> io::Result<()> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write_pages_of(&command, "fsmend", directory)
}

/// The page of a command called `name`, and those of its commands.
fn write_pages_of(command: &clap::Command, name: &str, directory: &Path) -> io::Result<()> {
    let named = command.clone().display_name(name.replace(' ', "-")).bin_name(name.to_owned());
    page(named.disable_help_subcommand(true)).generate_to(directory)?;
    for shown in command.get_subcommands().filter(|shown| !shown.is_hide_set() && shown.get_name() != "help")
    {
        write_pages_of(shown, &format!("{name} {}", shown.get_name()), directory)?;
    }
    Ok(())
}

fn page(command: clap::Command) -> Man {
    let version = env!("CARGO_PKG_VERSION");
    Man::new(command.version(version).long_version(version))
        .section("8")
        .source(format!("fsmend {version}"))
        .manual("System Administration")
}

fn print_completions(shell: Shell) -> io::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "fsmend", &mut text);
    io::stdout().lock().write_all(&text)
}
