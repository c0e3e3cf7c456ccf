// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transactions on many files, as PostMark makes them (Katcher, "PostMark: a new file system benchmark").
//!
//! Files are spread over folders; then each transaction reads a whole file or appends to one, and makes a file or deletes one.

use std::time::Duration;

use fsmend_base::{InodeNo, SeededRandom, width};
use fsmend_vfs::{Errno, Result};

use crate::files::{File, Files};
use crate::{Bench, Clock};

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PostmarkOptions {
    /// Files at first.
    pub files: u32,
    /// Folders that they are spread over.
    pub folders: u32,
    /// Bytes of a file, from and to; appended are so many at most.
    pub len: (u64, u64),
    /// Transactions.
    pub transactions: u32,
    /// Of ten transactions so many read, the others append.
    pub reads_of_ten: u64,
    /// Of ten transactions so many make a file, the others delete one.
    pub makes_of_ten: u64,
    /// Bytes read or written at a time.
    pub piece: usize,
    /// Names and final deletions in the order of making, as PostMark has them; otherwise at random.
    pub in_order: Order,
}

/// What of PostMark is in the order of making.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Names count up; otherwise they are hashes of their numbers.
    pub names: bool,
    /// At the end, the oldest file goes first.
    pub deletions: bool,
}

impl Default for Order {
    fn default() -> Self {
        Order { names: true, deletions: true }
    }
}

impl Default for PostmarkOptions {
    /// The settings of the paper on ffsck (§5.3): 5000 files of 4 KB to 4 MB in 50 folders, half reads, half made.
    fn default() -> Self {
        PostmarkOptions {
            files: 5000,
            folders: 50,
            len: (4 << 10, 4 << 20),
            transactions: 20_000,
            reads_of_ten: 5,
            makes_of_ten: 5,
            piece: 4096,
            in_order: Order::default(),
        }
    }
}

impl PostmarkOptions {
    /// The settings of the paper on hFS (§6.2): those that PostMark has by itself, but for 50,000 files.
    pub fn small() -> Self {
        PostmarkOptions {
            files: 50_000,
            folders: 1,
            len: (500, 10_000),
            transactions: 500,
            reads_of_ten: 5,
            makes_of_ten: 5,
            piece: 512,
            in_order: Order::default(),
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PostmarkReport {
    /// Files made, also those at first.
    pub made: u64,
    /// Files deleted, without those at the end.
    pub deleted: u64,
    /// Files read.
    pub read: u64,
    /// Files appended to.
    pub appended: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// The clock's time for making the first files.
    pub making: Duration,
    /// For the transactions.
    pub transacting: Duration,
    /// For deleting what was left.
    pub deleting: Duration,
}

/// Runs it. What it has made is gone afterwards, but for the folders.
pub fn run(bench: &mut Bench<'_>, clock: &Clock<'_>, options: &PostmarkOptions) -> Result<PostmarkReport> {
    let mut run = Run { bench, options, files: Files::default(), report: PostmarkReport::default() };
    let root = run.bench.fs.root();
    let folders: Vec<InodeNo> = (0..options.folders.max(1))
        .map(|number| run.bench.make_folder(root, &format!("s{number}")))
        .collect::<Result<_>>()?;
    let start = clock();
    for number in 0..options.files {
        run.bench.tell("first files", f64::from(number) / f64::from(options.files));
        run.make(folders[number as usize % folders.len()])?;
    }
    run.bench.sync()?;
    let made = clock();
    for number in 0..options.transactions {
        run.bench.tell("transactions", f64::from(number) / f64::from(options.transactions));
        if run.bench.between(1, 10) <= options.reads_of_ten {
            run.read()?
        } else {
            run.append()?
        }
        if run.bench.between(1, 10) <= options.makes_of_ten {
            let folder = width::index(run.bench.between(0, folders.len() as u64 - 1));
            run.make(folders[folder])?;
        } else {
            run.delete()?;
        }
    }
    run.bench.sync()?;
    let transacted = clock();
    // PostMark walks its table from the front, and the table is in the order of making.
    let mut left = run.files.take_by_age();
    while !left.is_empty() && !options.in_order.deletions {
        let at = width::index(run.bench.between(0, left.len() as u64 - 1));
        let file = left.swap_remove(at);
        run.unlink(&file)?;
        run.bench.rest()?;
    }
    for file in left {
        run.unlink(&file)?;
        run.bench.rest()?;
    }
    run.bench.sync()?;
    run.report.making = made.saturating_sub(start);
    run.report.transacting = transacted.saturating_sub(made);
    run.report.deleting = clock().saturating_sub(transacted);
    Ok(run.report)
}

struct Run<'b, 'f> {
    bench: &'b mut Bench<'f>,
    options: &'b PostmarkOptions,
    files: Files,
    report: PostmarkReport,
}

impl Run<'_, '_> {
    fn make(&mut self, folder: InodeNo) -> Result<()> {
        let name = self.files.new_name();
        let inode = match self.bench.make_file(folder, &self.stored_name(&name)) {
            Ok(inode) => inode,
            Err(Errno::NoSpace) => return Ok(()),
            Err(error) => return Err(error),
        };
        let wanted = self.bench.between(self.options.len.0, self.options.len.1);
        let len = self.bench.write(inode, 0, wanted)?;
        self.files.push(File { name, folder, inode, len });
        self.report.made += 1;
        self.report.bytes_written += len;
        self.bench.rest()
    }

    fn delete(&mut self) -> Result<()> {
        let Some(at) = self.files.any(&mut self.bench.random) else { return Ok(()) };
        if let Some(file) = self.files.take(at) {
            self.unlink(&file)?;
            self.report.deleted += 1;
        }
        self.bench.rest()
    }

    fn unlink(&mut self, file: &File) -> Result<()> {
        let now = self.bench.tick();
        let name = self.stored_name(&file.name);
        self.bench.fs.unlink(file.folder, name.as_bytes(), now)
    }

    /// The name that a file has in its folder.
    fn stored_name(&self, name: &str) -> String {
        let number = name.get(1..).and_then(|digits| digits.parse().ok());
        match number.filter(|_| !self.options.in_order.names) {
            Some(number) => format!("{:016x}", SeededRandom::new(number).next_u64()),
            None => name.to_owned(),
        }
    }

    fn read(&mut self) -> Result<()> {
        let Some(at) = self.files.any(&mut self.bench.random) else { return Ok(()) };
        if let Some(file) = self.files.get(at) {
            let (inode, len) = (file.inode, file.len);
            self.report.bytes_read += self.bench.read(inode, 0, len, self.options.piece)?;
            self.report.read += 1;
        }
        self.bench.rest()
    }

    fn append(&mut self) -> Result<()> {
        let Some(at) = self.files.any(&mut self.bench.random) else { return Ok(()) };
        let wanted = self.bench.between(1, self.options.len.1);
        if let Some(file) = self.files.get_mut(at) {
            let room = self.options.len.1.saturating_sub(file.len);
            let written = self.bench.write(file.inode, file.len, wanted.min(room))?;
            file.len += written;
            self.report.bytes_written += written;
            self.report.appended += 1;
        }
        self.bench.rest()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::Fake;

    #[test]
    fn transactions_are_mixed_as_asked_and_nothing_stays() {
        let mut fake = Fake::new(1_000_000);
        let mut bench = Bench::new(&mut fake, 4);
        let options = PostmarkOptions { files: 300, transactions: 2000, ..Default::default() };
        let report = run(&mut bench, &|| Duration::ZERO, &options).unwrap();
        assert_eq!(report.read + report.appended, 2000);
        assert_eq!(report.made - 300 + report.deleted, 2000);
        assert!((900..1100).contains(&report.read), "{report:?}");
        assert!(report.bytes_written > 300 << 20);
        let space = bench.fs.statfs().unwrap();
        assert_eq!(space.blocks, space.blocks_free);
    }

    #[test]
    fn at_the_end_the_oldest_file_goes_first() {
        let mut fake = Fake::new(1_000_000);
        let options = PostmarkOptions { files: 200, folders: 1, transactions: 40, ..Default::default() };
        run(&mut Bench::new(&mut fake, 4), &|| Duration::ZERO, &options).unwrap();
        let deleted: Vec<u64> = fake
            .log
            .iter()
            .filter_map(|line| line.split_once(" out of")?.0.strip_prefix('f')?.parse().ok())
            .collect();
        assert!(deleted.len() > 200 && deleted[deleted.len() - 150..].is_sorted(), "{deleted:?}");
    }

    #[test]
    fn without_order_names_and_deletions_are_at_random() {
        let mut fake = Fake::new(1_000_000);
        let in_order = Order { names: false, deletions: false };
        let options =
            PostmarkOptions { files: 200, folders: 1, transactions: 0, in_order, ..Default::default() };
        let report = run(&mut Bench::new(&mut fake, 4), &|| Duration::ZERO, &options).unwrap();
        let named = |line: &String, what: &str| line.split_once(what).map(|(name, _)| name.to_owned());
        let made: Vec<String> = fake.log.iter().filter_map(|line| named(line, " in 10")).collect();
        let gone: Vec<String> = fake.log.iter().filter_map(|line| named(line, " out of")).collect();
        assert!(report.made == 200 && !made.is_sorted() && made != gone, "{made:?}");
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        assert_eq!(sorted(made), sorted(gone));
    }

    #[test]
    fn only_what_is_asked_for() {
        let mut fake = Fake::new(1_000_000);
        let mut bench = Bench::new(&mut fake, 4);
        let options = PostmarkOptions {
            files: 10,
            transactions: 50,
            reads_of_ten: 10,
            makes_of_ten: 10,
            ..Default::default()
        };
        let report = run(&mut bench, &|| Duration::ZERO, &options).unwrap();
        assert_eq!((report.read, report.appended, report.made, report.deleted), (50, 0, 60, 0));
    }
}
