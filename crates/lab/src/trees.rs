// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees of sources, as in the paper on hFS (§6.1, §6.3, §6.4): one of a kernel that is copied and built, an archive of many small folders that is unpacked and removed, and
//! a file system that is aged in folders chosen at random.
//!
//! The paper names counts and shares; lengths of files follow from them by lognormal distributions, as its §6.4 has them.

use std::collections::BTreeMap;

use fsmend_base::{InodeNo, SeededRandom, width};
use fsmend_vfs::{Errno, FileKind, Result, Visit};

use crate::Bench;

/// A block of the paper's file systems.
const BLOCK: u64 = 16 << 10;
/// Bytes that a file has at most.
const LEN_MAX: u64 = 1 << 30;

/// Draws of distributions.
struct Draw<'r>(&'r mut SeededRandom);

impl Draw<'_> {
    /// From 0, not included, to 1.
    fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 1.0) / (1_u64 << 53) as f64
    }

    /// The exponential of a normal distribution with this mean and deviation.
    fn lognormal(&mut self, mean: f64, deviation: f64) -> u64 {
        let normal = (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
        width::whole((mean + deviation * normal).exp().min(LEN_MAX as f64))
    }

    /// With this least value; the smaller the exponent, the larger the largest.
    fn pareto(&mut self, least: f64, exponent: f64) -> u64 {
        width::whole((least / self.unit().powf(1.0 / exponent)).min(LEN_MAX as f64))
    }
}

/// A tree like that of a kernel's sources.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KernelOptions {
    /// Files (the paper: 4,296).
    pub files: u32,
    /// Folders that they are in.
    pub folders: u32,
    /// Objects that building it makes.
    pub objects: u32,
    /// Microseconds that one object takes to be compiled.
    pub compiling_us: u64,
}

impl Default for KernelOptions {
    /// The paper's; its build took 203 seconds of computing.
    fn default() -> Self {
        KernelOptions { files: 4296, folders: 330, objects: 1500, compiling_us: 135_000 }
    }
}

/// A file that was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Made {
    /// Its inode.
    pub inode: InodeNo,
    /// Its folder.
    pub folder: InodeNo,
    /// Its length.
    pub len: u64,
}

/// Writes the tree folder by folder, as copying does. Of a hundred files 19 are longer than a block of 16 KiB, as in the paper.
pub fn copy_kernel(bench: &mut Bench<'_>, options: &KernelOptions) -> Result<Vec<Made>> {
    let mut folders = vec![bench.fs.root()];
    let mut made = Vec::new();
    let each = options.files.div_ceil(options.folders.max(1)).max(1);
    for number in 0..options.folders.max(1) {
        bench.tell("copying", f64::from(number) / f64::from(options.folders.max(1)));
        // A few levels deep.
        let parent = folders[width::index(bench.between(0, (folders.len() as u64 - 1) / 3))];
        let folder = bench.make_folder(parent, &format!("k{number}"))?;
        bench.rest()?;
        folders.push(folder);
        for file in 0..each.min(options.files.saturating_sub(number * each)) {
            let len = Draw(&mut bench.random).lognormal(8.586, 1.3);
            made.push(whole(bench, folder, &format!("source-{file}.c"), len)?);
        }
    }
    bench.sync()?;
    Ok(made)
}

/// Reads sources and writes objects, with time for compiling between. Returns how many objects there was room for.
pub fn build_kernel(bench: &mut Bench<'_>, sources: &[Made], options: &KernelOptions) -> Result<u32> {
    let mut objects = 0;
    for number in 0..options.objects {
        bench.tell("building", f64::from(number) / f64::from(options.objects));
        let Some(last) = sources.len().checked_sub(1) else { break };
        let source = sources[width::index(bench.between(0, last as u64))];
        bench.read(source.inode, 0, source.len, width::index(BLOCK))?;
        // Headers: always the same ones, nearly.
        for _ in 0..8 {
            let header = sources[width::index(bench.between(0, (last / 20) as u64))];
            bench.read(header.inode, 0, header.len, width::index(BLOCK))?;
        }
        bench.compute(options.compiling_us);
        let len = Draw(&mut bench.random).lognormal(9.6, 0.9);
        let object = whole(bench, source.folder, &format!("object-{number}.o"), len)?;
        objects += u32::from(object.len == len);
    }
    bench.sync()?;
    Ok(objects)
}

/// A file, written whole; as much as there is room for.
fn whole(bench: &mut Bench<'_>, folder: InodeNo, name: &str, len: u64) -> Result<Made> {
    let inode = bench.make_file(folder, name)?;
    let len = bench.write(inode, 0, len)?;
    bench.rest()?;
    Ok(Made { inode, folder, len })
}

/// An archive of many small packages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ArchiveOptions {
    /// Packages (the paper: 8,332), in folders of 140.
    pub packages: u32,
    /// Of a hundred packages so many have a folder with patches.
    pub with_patches: u64,
}

impl Default for ArchiveOptions {
    /// The paper's: 13 000 small folders.
    fn default() -> Self {
        ArchiveOptions { packages: 8332, with_patches: 56 }
    }
}

/// What was unpacked or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArchiveReport {
    /// Folders.
    pub folders: u64,
    /// Files.
    pub files: u64,
    /// Of them those longer than a block of 16 KiB.
    pub large: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Unpacks it. About one file in a hundred is longer than a block, as in the paper (649).
pub fn unpack(bench: &mut Bench<'_>, options: &ArchiveOptions) -> Result<ArchiveReport> {
    let root = bench.fs.root();
    let mut report = ArchiveReport::default();
    let top = folder(bench, root, "ports", &mut report)?;
    let mut category = top;
    for number in 0..options.packages {
        bench.tell("unpacking", f64::from(number) / f64::from(options.packages));
        if number % 140 == 0 {
            category = folder(bench, top, &format!("category-{}", number / 140), &mut report)?;
        }
        let package = folder(bench, category, &format!("package-{number}"), &mut report)?;
        for name in ["Makefile", "distinfo", "pkg-comment", "pkg-descr", "pkg-plist"] {
            unpack_file(bench, package, name, &mut report)?;
        }
        if bench.between(1, 100) <= options.with_patches {
            let patches = folder(bench, package, "files", &mut report)?;
            for patch in 0..bench.between(1, 5) {
                unpack_file(bench, patches, &format!("patch-{patch}"), &mut report)?;
            }
        }
    }
    bench.sync()?;
    Ok(report)
}

fn folder(bench: &mut Bench<'_>, parent: InodeNo, name: &str, report: &mut ArchiveReport) -> Result<InodeNo> {
    let made = bench.make_folder(parent, name)?;
    bench.rest()?;
    report.folders += 1;
    Ok(made)
}

fn unpack_file(bench: &mut Bench<'_>, folder: InodeNo, name: &str, report: &mut ArchiveReport) -> Result<()> {
    let len = Draw(&mut bench.random).lognormal(6.4, 1.4);
    let made = whole(bench, folder, name, len)?;
    report.files += 1;
    report.large += u64::from(made.len > BLOCK);
    report.bytes += made.len;
    Ok(())
}

/// Removes all that is below the root, as `rm -r` does: in the order in which folders show their names.
pub fn remove_all(bench: &mut Bench<'_>) -> Result<ArchiveReport> {
    let mut report = ArchiveReport::default();
    let root = bench.fs.root();
    // A folder, its name and its parent; and whether its contents are gone.
    let mut left = vec![(root, root, Vec::new(), false)];
    while let Some((at, parent, name, is_empty)) = left.pop() {
        if is_empty {
            if at != root {
                let now = bench.tick();
                bench.fs.rmdir(parent, &name, now)?;
                bench.rest()?;
                report.folders += 1;
            }
            continue;
        }
        let mut entries = Vec::new();
        bench.fs.readdir(at, 0, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                entries.push((entry.inode, entry.name.to_vec()));
            }
            Visit::More
        })?;
        left.push((at, parent, name, true));
        for (inode, name) in entries {
            // What rm asks before it removes something.
            let found = bench.fs.lookup(at, &name)?;
            if found.kind == FileKind::Directory {
                left.push((inode, at, name, false));
                continue;
            }
            let now = bench.tick();
            bench.fs.unlink(at, &name, now)?;
            bench.rest()?;
            report.files += 1;
            report.large += u64::from(found.size > BLOCK);
            report.bytes += found.size;
        }
    }
    bench.sync()?;
    Ok(report)
}

/// Aging in folders chosen at random.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MixOptions {
    /// One of so many things made is a folder.
    pub files_per_folder: u64,
    /// Of a hundred operations so many delete when the file system is full; none when it is empty.
    pub deletes_when_full: f64,
    /// When so much of it is in use, 0 to 1, everything deletes.
    pub fill_max: f64,
    /// Lengths of files, from and to, each as likely as the others; otherwise those of the paper.
    pub lens: Option<(u64, u64)>,
    /// It is full when the files have so many bytes, each rounded up to 4 KiB: then the operations are the same on every file system.
    /// Otherwise the file system says how full it is.
    pub room: Option<u64>,
}

impl Default for MixOptions {
    /// The paper's.
    fn default() -> Self {
        MixOptions { files_per_folder: 64, deletes_when_full: 50.0, fill_max: 1.0, lens: None, room: None }
    }
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MixReport {
    /// Files made.
    pub made: u64,
    /// Of them those of at most a block of 16 KiB.
    pub small: u64,
    /// Folders made.
    pub folders: u64,
    /// Files deleted.
    pub deleted: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Files and folders for which there was no room, in part or at all.
    pub refused: u64,
}

struct MixFolder {
    inode: InodeNo,
    /// In order, as the paper has it: so the same file goes whatever the directory looks like on the disk. With their lengths.
    files: BTreeMap<String, u64>,
}

/// Each operation is done in another folder: a file is made, or a folder, or a file is deleted.
pub struct Mix {
    options: MixOptions,
    folders: Vec<MixFolder>,
    operations: u64,
    fill: f64,
    /// Bytes of the files that are there, each rounded up to 4 KiB.
    live: u64,
    report: MixReport,
}

impl Mix {
    /// Begins in the root.
    pub fn new(bench: &Bench<'_>, options: MixOptions) -> Self {
        let folders = vec![MixFolder { inode: bench.fs.root(), files: BTreeMap::new() }];
        Mix { options, folders, operations: 0, fill: 0.0, live: 0, report: MixReport::default() }
    }

    /// What was done so far.
    pub fn report(&self) -> MixReport {
        self.report
    }

    /// Does so many operations, and makes them durable.
    pub fn run(&mut self, bench: &mut Bench<'_>, operations: u64) -> Result<()> {
        for number in 0..operations {
            if number % 64 == 0 {
                bench.tell("aging", number as f64 / operations as f64);
                self.look(bench)?;
            }
            self.one(bench)?;
        }
        bench.sync()
    }

    /// Goes on until it is as full as it may become, or so many operations are done.
    pub fn fill(&mut self, bench: &mut Bench<'_>, operations_max: u64) -> Result<()> {
        for _ in 0..operations_max / 64 {
            bench.tell("filling", self.fill / self.options.fill_max);
            self.look(bench)?;
            if self.fill >= self.options.fill_max {
                break;
            }
            for _ in 0..64 {
                self.one(bench)?;
            }
        }
        bench.sync()
    }

    fn look(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        if let Some(room) = self.options.room {
            self.fill = self.live as f64 / room.max(1) as f64;
            return Ok(());
        }
        let space = bench.fs.statfs()?;
        self.fill = 1.0 - space.blocks_free as f64 / space.blocks.max(1) as f64;
        Ok(())
    }

    fn one(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        self.operations += 1;
        let options = self.options;
        let at = width::index(bench.between(0, self.folders.len() as u64 - 1));
        let deletes =
            if self.fill < options.fill_max { options.deletes_when_full * self.fill / 100.0 } else { 1.0 };
        if Draw(&mut bench.random).unit() <= deletes {
            return self.delete(bench, at);
        }
        let name = format!("{:08x}-{}", width::low_u32(bench.random.next_u64()), self.operations);
        let parent = self.folders[at].inode;
        if bench.between(1, options.files_per_folder.max(1)) == 1 {
            match bench.make_folder(parent, &name) {
                Ok(inode) => self.folders.push(MixFolder { inode, files: BTreeMap::new() }),
                Err(Errno::NoSpace) => {
                    self.report.refused += 1;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            self.report.folders += 1;
            return bench.rest();
        }
        let len = match options.lens {
            Some((low, high)) => bench.between(low, high),
            None => {
                let mut draw = Draw(&mut bench.random);
                if draw.unit() <= 0.93 { draw.lognormal(9.357, 1.318) } else { draw.pareto(133e3, 1.1) }
            }
        };
        match whole(bench, parent, &name, len) {
            Ok(made) => {
                self.report.made += 1;
                self.report.small += u64::from(made.len <= BLOCK);
                self.report.bytes += made.len;
                self.report.refused += u64::from(made.len < len);
                self.live += in_blocks(made.len);
                self.folders[at].files.insert(name, made.len);
                Ok(())
            }
            Err(Errno::NoSpace) => {
                self.report.refused += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn delete(&mut self, bench: &mut Bench<'_>, at: usize) -> Result<()> {
        let folder = &mut self.folders[at];
        let Some(last) = (folder.files.len() as u64).checked_sub(1) else { return Ok(()) };
        let victim = width::index(bench.between(0, last));
        let Some(name) = folder.files.keys().nth(victim).cloned() else { return Ok(()) };
        self.live -= folder.files.remove(&name).map_or(0, in_blocks);
        let now = bench.tick();
        bench.fs.unlink(folder.inode, name.as_bytes(), now)?;
        self.report.deleted += 1;
        bench.rest()
    }
}

fn in_blocks(len: u64) -> u64 {
    len.next_multiple_of(4096)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::Fake;

    #[test]
    fn the_kernel_has_as_many_large_files_as_the_papers() {
        let mut fake = Fake::new(1_000_000);
        let mut bench = Bench::new(&mut fake, 5);
        let options = KernelOptions { objects: 50, ..KernelOptions::default() };
        let made = copy_kernel(&mut bench, &options).unwrap();
        let large = made.iter().filter(|file| file.len > BLOCK).count();
        let bytes: u64 = made.iter().map(|file| file.len).sum();
        assert_eq!(made.len(), 4296);
        assert!((760..920).contains(&large), "{large}");
        assert!((45..65).contains(&(bytes >> 20)), "{bytes}");
        assert_eq!(build_kernel(&mut bench, &made, &options).unwrap(), 50);
    }

    #[test]
    fn the_archive_is_like_the_papers() {
        let mut fake = Fake::new(1_000_000);
        let mut bench = Bench::new(&mut fake, 5);
        let report = unpack(&mut bench, &ArchiveOptions::default()).unwrap();
        assert!((12_800..13_300).contains(&report.folders), "{report:?}");
        assert!((450..850).contains(&report.large), "{report:?}");
        assert!((50_000..62_000).contains(&report.files), "{report:?}");
    }

    #[test]
    fn the_mix_has_the_papers_share_of_small_files() {
        let mixed = || {
            let mut fake = Fake::new(400_000);
            let mut bench = Bench::new(&mut fake, 5);
            let mut mix = Mix::new(&bench, MixOptions::default());
            mix.run(&mut bench, 10_000).unwrap();
            mix.report()
        };
        let report = mixed();
        let share = report.small as f64 / report.made as f64;
        assert!((0.53..0.60).contains(&share), "{report:?}");
        assert!((80..220).contains(&report.folders), "{report:?}");
        assert!(report.deleted > 500, "a full disk deletes: {report:?}");
        assert_eq!(mixed(), report);
    }

    #[test]
    fn with_a_room_of_its_own_it_does_the_same_on_every_file_system() {
        let filled = |blocks| {
            let mut fake = Fake::new(blocks);
            let mut bench = Bench::new(&mut fake, 5);
            let options = MixOptions {
                fill_max: 0.8,
                lens: Some((500, 10_000)),
                room: Some(100 << 20),
                ..MixOptions::default()
            };
            let mut mix = Mix::new(&bench, options);
            mix.fill(&mut bench, 1_000_000).unwrap();
            mix.run(&mut bench, 500).unwrap();
            (mix.report(), fake.log)
        };
        let small = filled(30_000);
        assert!(small.0.deleted > 500 && small.0.refused == 0, "{:?}", small.0);
        assert_eq!(small, filled(300_000));
    }

    #[test]
    fn it_becomes_as_full_as_it_may_and_stays_so() {
        let mut fake = Fake::new(50_000);
        let mut bench = Bench::new(&mut fake, 5);
        let options = MixOptions { fill_max: 0.7, lens: Some((500, 10_000)), ..MixOptions::default() };
        let mut mix = Mix::new(&bench, options);
        mix.fill(&mut bench, 1_000_000).unwrap();
        mix.run(&mut bench, 5_000).unwrap();
        let space = bench.fs.statfs().unwrap();
        let full = 1.0 - space.blocks_free as f64 / space.blocks as f64;
        assert!((0.66..0.74).contains(&full), "{full}");
    }
}
