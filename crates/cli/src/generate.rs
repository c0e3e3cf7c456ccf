// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend generate`: man pages and shell completions, made from the same definitions that read the command line.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, Subcommand};
use clap_complete::Shell;

use crate::args::Cli;
use crate::{exit, manual};

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
        /// Directory; created if it is missing
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
    std::fs::create_dir_all(directory)?;
    for page in manual::pages(&Cli::command()) {
        std::fs::write(directory.join(&page.file), page.text)?;
    }
    Ok(())
}

fn print_completions(shell: Shell) -> io::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "fsmend", &mut text);
    io::stdout().lock().write_all(&text)
}
