// SPDX-License-Identifier: MIT OR Apache-2.0
//! What servers do all day, after the file server, web proxy and mail server of Filebench: loops of a few operations on files drawn at random,
//! one after the other.

use std::time::Duration;

use fsmend_base::{InodeNo, width};
use fsmend_vfs::{Errno, Result};

use crate::bench::PIECE;
use crate::files::{File, Files};
use crate::{Bench, Clock};

/// One operation of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A new file, written whole.
    Make,
    /// A file is deleted.
    Delete,
    /// A file is read whole.
    ReadWhole,
    /// A file is lengthened.
    Append,
    /// A file is lengthened, and that is made durable.
    AppendAndSync,
    /// A line is added to the one log that all share.
    Log,
    /// A file's attributes are asked for.
    Stat,
}

/// A kind of server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Personality {
    /// What it is called.
    pub name: &'static str,
    /// Files at first.
    pub files: u32,
    /// Files in a folder.
    pub folder_width: u32,
    /// Mean bytes of a file; lengths reach from 1 to twice as many, each as likely as the others.
    pub len_mean: u64,
    /// Mean bytes appended.
    pub append_mean: u64,
    /// What it does, again and again.
    pub steps: &'static [Step],
}

impl Personality {
    /// Files are made, lengthened, read, deleted and looked at.
    pub fn file_server() -> Self {
        use Step::{Append, Delete, Make, ReadWhole, Stat};
        Personality {
            name: "file server",
            files: 10_000,
            folder_width: 20,
            len_mean: 128 << 10,
            append_mean: 16 << 10,
            steps: &[Make, Append, ReadWhole, Delete, Stat],
        }
    }

    /// Of six files that are asked for one is new, and every request is logged.
    pub fn web_proxy() -> Self {
        use Step::{Delete, Log, Make, ReadWhole};
        Personality {
            name: "web proxy",
            files: 10_000,
            folder_width: 1_000_000,
            len_mean: 16 << 10,
            append_mean: 16 << 10,
            steps: &[Delete, Make, ReadWhole, ReadWhole, ReadWhole, ReadWhole, ReadWhole, Log],
        }
    }

    /// Mails come in, are answered, read and deleted; none must be lost.
    pub fn mail_server() -> Self {
        use Step::{AppendAndSync, Delete, ReadWhole};
        Personality {
            name: "mail server",
            files: 1000,
            folder_width: 1_000_000,
            len_mean: 16 << 10,
            append_mean: 16 << 10,
            steps: &[Delete, Step::Make, AppendAndSync, ReadWhole, AppendAndSync, ReadWhole],
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PersonalityReport {
    /// Operations done.
    pub operations: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// The clock's time for them, without making the first files.
    pub time: Duration,
}

impl PersonalityReport {
    /// Operations per second; 0 if no time has passed.
    pub fn rate(&self) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 { self.operations as f64 / seconds } else { 0.0 }
    }
}

/// Makes the files, and then goes round `rounds` times.
pub fn run(
    bench: &mut Bench<'_>,
    clock: &Clock<'_>,
    personality: &Personality,
    rounds: u32,
) -> Result<PersonalityReport> {
    let root = bench.fs.root();
    let mut folders = Vec::new();
    for number in 0..personality.files.div_ceil(personality.folder_width.max(1)).max(1) {
        folders.push(bench.make_folder(root, &format!("p{number}"))?);
    }
    let log = bench.make_file(root, "log")?;
    let mut server = Server {
        bench,
        personality,
        folders,
        log,
        log_len: 0,
        files: Files::default(),
        report: PersonalityReport::default(),
    };
    for number in 0..personality.files {
        server.bench.tell("first files", f64::from(number) / f64::from(personality.files));
        server.make()?;
    }
    server.bench.sync()?;
    server.report = PersonalityReport::default();
    let start = clock();
    for round in 0..rounds {
        server.bench.tell("rounds", f64::from(round) / f64::from(rounds));
        for step in personality.steps {
            server.step(*step)?;
        }
    }
    server.bench.sync()?;
    server.report.time = clock().saturating_sub(start);
    Ok(server.report)
}

struct Server<'b, 'f> {
    bench: &'b mut Bench<'f>,
    personality: &'b Personality,
    folders: Vec<InodeNo>,
    log: InodeNo,
    log_len: u64,
    files: Files,
    report: PersonalityReport,
}

impl Server<'_, '_> {
    fn step(&mut self, step: Step) -> Result<()> {
        self.report.operations += 1;
        match step {
            Step::Make => self.make(),
            Step::Delete => self.delete(),
            Step::ReadWhole => self.read_whole(),
            Step::Append => self.append(false),
            Step::AppendAndSync => self.append(true),
            Step::Log => {
                let len = self.around(self.personality.append_mean);
                let written = self.bench.write(self.log, self.log_len, len)?;
                self.log_len += written;
                self.report.bytes_written += written;
                Ok(())
            }
            Step::Stat => match self.any() {
                Some((_, file)) => self.bench.fs.getattr(file.inode).map(drop),
                None => Ok(()),
            },
        }
    }

    /// A length about this one.
    fn around(&mut self, mean: u64) -> u64 {
        self.bench.between(1, (2 * mean).max(1))
    }

    fn any(&mut self) -> Option<(usize, File)> {
        let at = self.files.any(&mut self.bench.random)?;
        Some((at, self.files.get(at)?.clone()))
    }

    fn make(&mut self) -> Result<()> {
        let folder = width::index(self.bench.between(0, self.folders.len() as u64 - 1));
        let (folder, name) = (self.folders[folder], self.files.new_name());
        let inode = match self.bench.make_file(folder, &name) {
            Ok(inode) => inode,
            Err(Errno::NoSpace) => return Ok(()),
            Err(error) => return Err(error),
        };
        let wanted = self.around(self.personality.len_mean);
        let len = self.bench.write(inode, 0, wanted)?;
        self.report.bytes_written += len;
        self.files.push(File { name, folder, inode, len });
        Ok(())
    }

    fn delete(&mut self) -> Result<()> {
        let Some(file) = self.any().and_then(|(at, _)| self.files.take(at)) else { return Ok(()) };
        let now = self.bench.tick();
        self.bench.fs.unlink(file.folder, file.name.as_bytes(), now)
    }

    fn read_whole(&mut self) -> Result<()> {
        if let Some((_, file)) = self.any() {
            self.report.bytes_read += self.bench.read(file.inode, 0, file.len, PIECE)?;
        }
        Ok(())
    }

    fn append(&mut self, sync: bool) -> Result<()> {
        let Some((at, file)) = self.any() else { return Ok(()) };
        let len = self.around(self.personality.append_mean);
        let written = self.bench.write(file.inode, file.len, len)?;
        self.report.bytes_written += written;
        if let Some(file) = self.files.get_mut(at) {
            file.len += written;
        }
        if sync {
            let now = self.bench.tick();
            self.bench.fs.fsync(file.inode, false, now)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::Fake;

    #[test]
    fn a_full_file_system_is_told_of() {
        let refused = |blocks: u64| {
            let personality = Personality { files: 100, ..Personality::file_server() };
            let mut fake = Fake::new(blocks);
            let mut bench = Bench::new(&mut fake, 9);
            run(&mut bench, &|| Duration::ZERO, &personality, 20).unwrap();
            bench.refused()
        };
        assert_eq!(refused(1_000_000), 0);
        // A hundred files of 128 KiB, on average, take three times as much.
        assert!((50..140).contains(&refused(1000)), "{}", refused(1000));
    }

    #[test]
    fn each_server_does_what_it_is_there_for() {
        for (personality, syncs) in [
            (Personality::file_server(), 0),
            (Personality::web_proxy(), 0),
            (Personality::mail_server(), 200),
        ] {
            let personality = Personality { files: 200, ..personality };
            let mut fake = Fake::new(1_000_000);
            let mut bench = Bench::new(&mut fake, 9);
            let report = run(&mut bench, &|| Duration::ZERO, &personality, 100).unwrap();
            assert_eq!(report.operations, 100 * personality.steps.len() as u64, "{}", personality.name);
            assert!(report.bytes_read > 0 && report.bytes_written > 0);
            let synced = fake.log.iter().filter(|line| line.starts_with("fsync")).count();
            assert_eq!(synced, syncs, "{}", personality.name);
        }
    }
}
