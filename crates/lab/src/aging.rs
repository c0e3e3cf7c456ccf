// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filling a file system and aging it, as in §3.2 of the paper on ffsck.
//!
//! One folder per block group; each is filled with files of 1 to 512 blocks up to a fifth of the group. Then files are made, or lengthened by 1 to
//! 256 blocks, until the file system is as full as wanted. Aging makes, lengthens, cuts and deletes, each as likely as the others.

use fsmend_base::{InodeNo, width};
use fsmend_vfs::{Errno, Result};

use crate::Bench;
use crate::files::{File, Files};

/// How to fill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filling {
    /// Data is written.
    Written,
    /// Blocks are taken and data is not written ([`fsmend_vfs::Allocation::Claimed`]): a terabyte takes minutes.
    Claimed,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AgingOptions {
    /// Folders: one per block group.
    pub folders: u32,
    /// Bytes in each at first (the paper: 25.6 MB, a fifth of a group).
    pub folder_bytes: u64,
    /// Blocks of a new file, at most (512).
    pub file_blocks_max: u64,
    /// Blocks by which a file is lengthened, at most (256).
    pub append_blocks_max: u64,
    /// How full the file system is to be, 0 to 1.
    pub utilisation: f64,
    /// Operations for each folder, afterwards.
    pub operations_per_folder: u32,
    /// How.
    pub filling: Filling,
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AgingReport {
    /// Files made.
    pub made: u64,
    /// Files lengthened.
    pub lengthened: u64,
    /// Files cut.
    pub cut: u64,
    /// Files deleted.
    pub deleted: u64,
    /// Times that there was no room.
    pub refused: u64,
}

/// A file system that is filled and aged.
pub struct Aging<'b, 'f> {
    bench: &'b mut Bench<'f>,
    options: AgingOptions,
    block: u64,
    folders: Vec<Folder>,
    report: AgingReport,
}

struct Folder {
    inode: InodeNo,
    files: Files,
}

impl<'b, 'f> Aging<'b, 'f> {
    /// Makes the folders and their first files.
    pub fn begin(bench: &'b mut Bench<'f>, options: AgingOptions) -> Result<Self> {
        let block = u64::from(bench.fs.statfs()?.block_size).max(1);
        let root = bench.fs.root();
        let mut folders = Vec::new();
        for number in 0..options.folders.max(1) {
            let inode = bench.make_folder(root, &format!("d{number}"))?;
            folders.push(Folder { inode, files: Files::default() });
        }
        let mut aging = Aging { bench, options, block, folders, report: AgingReport::default() };
        let count = aging.folders.len();
        for folder in 0..count {
            aging.bench.tell("first files", folder as f64 / count as f64);
            let mut bytes = 0;
            while bytes < options.folder_bytes {
                match aging.make(folder)? {
                    0 => break,
                    made => bytes += made,
                }
            }
        }
        Ok(aging)
    }

    /// Makes and lengthens files until the file system is as full as wanted, or until there is no room. Returns how full it is.
    pub fn fill(&mut self) -> Result<f64> {
        // Where nothing fits any more, a while without success is enough to know.
        let mut failures = 0;
        let start = self.utilisation()?;
        let mut now = start;
        while now < self.options.utilisation && failures < 100 {
            self.bench.tell("filling", (now - start) / (self.options.utilisation - start).max(1e-9));
            // How full it is costs a question; a few operations do not change it by much.
            for _ in 0..16 {
                let folder = self.any_folder();
                let bytes =
                    if self.bench.between(0, 1) == 0 { self.make(folder)? } else { self.lengthen(folder)? };
                failures = if bytes == 0 { failures + 1 } else { 0 };
            }
            now = self.utilisation()?;
        }
        Ok(now)
    }

    /// Ages it.
    pub fn age(&mut self) -> Result<()> {
        let operations = u64::from(self.options.operations_per_folder) * self.folders.len() as u64;
        for done in 0..operations {
            if done % 64 == 0 {
                self.bench.tell("aging", done as f64 / operations as f64);
            }
            let folder = self.any_folder();
            match self.bench.between(0, 3) {
                0 => self.make(folder).map(drop)?,
                1 => self.lengthen(folder).map(drop)?,
                2 => self.cut(folder)?,
                _ => self.delete(folder)?,
            }
        }
        Ok(())
    }

    /// Ends it: everything is made durable.
    pub fn finish(self) -> Result<AgingReport> {
        self.bench.sync()?;
        Ok(AgingReport { refused: self.bench.refused(), ..self.report })
    }

    /// The part of all blocks that is in use, 0 to 1.
    pub fn utilisation(&mut self) -> Result<f64> {
        let space = self.bench.fs.statfs()?;
        Ok(1.0 - space.blocks_free as f64 / space.blocks.max(1) as f64)
    }

    fn any_folder(&mut self) -> usize {
        width::index(self.bench.between(0, self.folders.len() as u64 - 1))
    }

    /// Makes a file; its length, or 0 where there was no room.
    fn make(&mut self, folder: usize) -> Result<u64> {
        let blocks = self.bench.between(1, self.options.file_blocks_max.max(1));
        let Folder { inode: parent, files } = &mut self.folders[folder];
        let (parent, name) = (*parent, files.new_name());
        let inode = match self.bench.make_file(parent, &name) {
            Ok(inode) => inode,
            Err(Errno::NoSpace) => return Ok(0),
            Err(error) => return Err(error),
        };
        let len = self.extend(inode, 0, blocks * self.block)?;
        if len == 0 {
            let now = self.bench.tick();
            self.bench.fs.unlink(parent, name.as_bytes(), now)?;
            return Ok(0);
        }
        self.report.made += 1;
        self.folders[folder].files.push(File { name, folder: parent, inode, len });
        Ok(len)
    }

    fn lengthen(&mut self, folder: usize) -> Result<u64> {
        let Some(at) = self.folders[folder].files.any(&mut self.bench.random) else { return Ok(0) };
        let blocks = self.bench.between(1, self.options.append_blocks_max.max(1));
        let Some(File { inode, len, .. }) = self.folders[folder].files.get(at).cloned() else { return Ok(0) };
        let more = self.extend(inode, len, blocks * self.block)?;
        if let Some(file) = self.folders[folder].files.get_mut(at) {
            file.len += more;
        }
        self.report.lengthened += u64::from(more > 0);
        Ok(more)
    }

    /// Gives a file `len` bytes more; how many it got.
    fn extend(&mut self, inode: InodeNo, from: u64, len: u64) -> Result<u64> {
        match self.options.filling {
            Filling::Written => self.bench.write(inode, from, len),
            Filling::Claimed => self.bench.claim(inode, from, len),
        }
    }

    fn cut(&mut self, folder: usize) -> Result<()> {
        let Some(at) = self.folders[folder].files.any(&mut self.bench.random) else { return Ok(()) };
        let Some(len) = self.folders[folder].files.get(at).map(|file| file.len) else { return Ok(()) };
        let size = self.bench.between(0, len.saturating_sub(1));
        let now = self.bench.tick();
        if let Some(file) = self.folders[folder].files.get_mut(at) {
            let changes = fsmend_vfs::SetAttributes { size: Some(size), ..Default::default() };
            self.bench.fs.setattr(file.inode, &changes, now)?;
            file.len = size;
            self.report.cut += 1;
        }
        Ok(())
    }

    fn delete(&mut self, folder: usize) -> Result<()> {
        let Some(at) = self.folders[folder].files.any(&mut self.bench.random) else { return Ok(()) };
        if let Some(file) = self.folders[folder].files.take(at) {
            let now = self.bench.tick();
            self.bench.fs.unlink(file.folder, file.name.as_bytes(), now)?;
            self.report.deleted += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::Fake;

    fn options(filling: Filling) -> AgingOptions {
        AgingOptions {
            folders: 10,
            folder_bytes: 4 << 20,
            file_blocks_max: 512,
            append_blocks_max: 256,
            utilisation: 0.8,
            operations_per_folder: 30,
            filling,
        }
    }

    fn aged(filling: Filling, seed: u64) -> (AgingReport, f64, Vec<String>) {
        let mut fake = Fake::new(50_000);
        let mut bench = Bench::new(&mut fake, seed);
        let mut aging = Aging::begin(&mut bench, options(filling)).unwrap();
        assert!(aging.utilisation().unwrap() > 0.15);
        let full = aging.fill().unwrap();
        aging.age().unwrap();
        let report = aging.finish().unwrap();
        (report, full, fake.log)
    }

    #[test]
    fn it_becomes_as_full_as_wanted_and_then_ages() {
        let (report, full, _) = aged(Filling::Written, 1);
        assert!((0.8..0.95).contains(&full), "{full}");
        let aging = report.cut + report.deleted;
        assert!(report.cut > 50 && report.deleted > 50, "{report:?}");
        assert!((aging as f64 / 300.0 - 0.5).abs() < 0.15, "each as likely as the others: {report:?}");
        assert_eq!(report.refused, 0);
    }

    #[test]
    fn the_same_seed_does_the_same_whatever_the_filling() {
        let (written, _, log) = aged(Filling::Written, 7);
        assert_eq!(aged(Filling::Written, 7), (written, aged(Filling::Written, 7).1, log.clone()));
        let (claimed, _, claims) = aged(Filling::Claimed, 7);
        assert_eq!(claimed, written);
        assert_eq!(claims, log);
        assert_ne!(aged(Filling::Written, 8).2, log);
    }

    #[test]
    fn a_full_disk_ends_the_filling() {
        let mut fake = Fake::new(5000);
        let mut bench = Bench::new(&mut fake, 3);
        let wanted = AgingOptions { utilisation: 1.1, ..options(Filling::Claimed) };
        let mut aging = Aging::begin(&mut bench, wanted).unwrap();
        let full = aging.fill().unwrap();
        assert!(full > 0.99, "{full}");
        assert!(aging.finish().unwrap().refused > 0);
    }
}
