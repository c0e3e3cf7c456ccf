// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a recipe to an image: the programs that are run, one after the other.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::recipe::{After, Fill, Recipe};
use super::{make_journal, settle};
use crate::contents::{self, Script};
use crate::host::{LoopDevice, LoopMount, command};

/// The time at which written images are made, in seconds since the epoch: 2026-11-01.
const WRITTEN_AT: u64 = 1_793_491_200;
/// Names of written images, which are random otherwise; and what their directories' hashes begin with.
const UUID: &str = "6b9e5f1a-2c3d-4e5f-8a9b-0c1d2e3f4a5b";
const HASH_SEED: &str = "d1c2b3a4-9586-4776-9685-a4b3c2d1e0ff";

/// Makes the image as `workshop/image`.
pub fn make(recipe: &Recipe, workshop: &Path) -> io::Result<()> {
    let clock = matches!(recipe.fill, Fill::Written(_)).then_some(WRITTEN_AT);
    let maker = Maker { workshop, image: workshop.join("image"), clock };
    File::create(&maker.image)?.set_len(recipe.size)?;
    let journal = recipe.journal.map(|mke2fs| make_journal(mke2fs, &workshop.join("journal"))).transpose()?;
    maker.format(recipe, journal.as_ref())?;
    recipe.before.iter().try_for_each(|step| maker.apply(step))?;
    match &recipe.fill {
        Fill::Mount { kind, options, contents: wanted } => {
            let options = match &journal {
                Some(journal) => format!("{options},journal_path={}", journal.path()),
                None => (*options).to_owned(),
            };
            let options = options.trim_matches(',');
            let mount = LoopMount::new(&maker.image, &workshop.join("mount"), kind, options)?;
            contents::fill(mount.path(), wanted)?;
            mount.unmount()?;
        }
        Fill::Written(wanted) => maker.write(wanted)?,
        Fill::Nothing | Fill::Copy(_) => {}
    }
    recipe.after.iter().try_for_each(|step| maker.apply(step))?;
    clock.map_or(Ok(()), |clock| settle::settle(&maker.image, clock))
}

struct Maker<'w> {
    workshop: &'w Path,
    image: PathBuf,
    /// What the programs take for the present, where it matters.
    clock: Option<u64>,
}

impl Maker<'_> {
    fn format(&self, recipe: &Recipe, journal: Option<&LoopDevice>) -> io::Result<()> {
        let mut arguments = match self.clock {
            Some(_) => words(&with_names(recipe.mke2fs)),
            None => words(recipe.mke2fs),
        };
        if let Some(journal) = journal {
            arguments.extend(["-J".into(), format!("device={}", journal.path()).into()]);
        }
        if let Fill::Copy(wanted) = &recipe.fill {
            let staging = self.workshop.join("staging");
            fs::create_dir_all(&staging)?;
            contents::fill(&staging, wanted)?;
            arguments.extend(["-d".into(), staging.into_os_string()]);
        }
        self.run("mke2fs", [words("-q -F"), arguments].concat(), &[0]).map(|_| ())
    }

    /// Fills the image without the kernel.
    fn write(&self, wanted: &[contents::Content]) -> io::Result<()> {
        let script = Script::of(wanted, self.workshop)?;
        self.debugfs(&script.make)?;
        self.optimise()?;
        self.debugfs(&script.thin)
    }

    fn apply(&self, step: &After) -> io::Result<()> {
        match step {
            After::Tune2fs(arguments) => {
                // Some changes are refused unless the last check is newer than the last mount.
                self.run("e2fsck", words("-fp"), &[0, 1])?;
                self.run("tune2fs", words(arguments), &[0]).map(|_| ())
            }
            After::Resize(arguments, size) => self.resize(arguments, *size),
            After::Optimise => self.optimise(),
            After::Debugfs(commands) => self.debugfs(commands),
        }
    }

    fn resize(&self, arguments: &str, size: u64) -> io::Result<()> {
        let file = File::options().write(true).open(&self.image)?;
        file.set_len(file.metadata()?.len().max(size))?;
        self.run("e2fsck", words("-fp"), &[0])?;
        let mut resize = self.command("resize2fs", words(&format!("-f {arguments}")));
        finished(resize.arg(format!("{}K", size / 1024)), &[0])?;
        file.set_len(size)
    }

    fn optimise(&self) -> io::Result<()> {
        // Exit code 1 says that something was changed, which is what it is for.
        self.run("e2fsck", words("-fyD"), &[0, 1]).map(|_| ())
    }

    /// Runs commands of debugfs. It does not tell by its exit code when one of them fails; where the bytes matter, its words do.
    fn debugfs(&self, commands: &str) -> io::Result<()> {
        let script = self.workshop.join("debugfs");
        fs::write(&script, commands)?;
        let output = self.run("debugfs", [words("-w -f"), vec![script.into_os_string()]].concat(), &[0])?;
        let said = String::from_utf8_lossy(&output.stderr);
        let complaint = said.lines().find(|line| !line.starts_with("debugfs 1."));
        match complaint.filter(|_| self.clock.is_some()) {
            Some(complaint) => Err(io::Error::other(format!("debugfs: {complaint}"))),
            None => Ok(()),
        }
    }

    fn run(&self, program: &str, arguments: Vec<OsString>, fine: &[i32]) -> io::Result<Output> {
        finished(&mut self.command(program, arguments), fine)
    }

    /// A program, its arguments, and the image.
    fn command(&self, program: &str, arguments: Vec<OsString>) -> Command {
        let mut command = command(program);
        if let Some(clock) = self.clock {
            command.env("E2FSPROGS_FAKE_TIME", clock.to_string()).env("E2FSCK_TIME", clock.to_string());
        }
        command.args(arguments).arg(&self.image);
        command
    }
}

/// Arguments of mke2fs without anything that it would draw by lot.
fn with_names(arguments: &str) -> String {
    let extended = format!("-E hash_seed={HASH_SEED}");
    let arguments = match arguments.contains("-E ") {
        true => arguments.replace("-E ", &format!("{extended},")),
        false => format!("{arguments} {extended}"),
    };
    format!("{arguments} -U {UUID}")
}

fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

/// Runs a program to one of these ends.
fn finished(command: &mut Command, fine: &[i32]) -> io::Result<Output> {
    let output = command.output().map_err(|error| io::Error::other(format!("{command:?}: {error}")))?;
    if output.status.code().is_some_and(|code| fine.contains(&code)) {
        return Ok(output);
    }
    let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let said = String::from_utf8_lossy(&said);
    Err(io::Error::other(format!("{command:?}: {}: {}", output.status, said.trim())))
}
