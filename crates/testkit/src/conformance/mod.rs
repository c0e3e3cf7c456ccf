// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every file system has to do, whichever it is: cases from POSIX and from the promises of [`fsmend_vfs::FileSystem`], each on a fresh and empty
//! file system. [`files`] goes on with reads and writes at random, [`folders`] has cases for what is mounted, [`twins`] operations at
//! random in two mounted folders at once.

mod data;
pub mod files;
pub mod folders;
mod inodes;
mod names;
mod rename;
pub mod twins;
mod xattrs;

use std::panic::{AssertUnwindSafe, catch_unwind};

use fsmend_base::InodeNo;
use fsmend_vfs::{Attributes, FileSystem, Permissions, RenameFlags, Result, SetAttributes, Time, Visit};

/// What a file system can do, where formats differ.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// Times have nanoseconds.
    pub nanoseconds: bool,
    /// Files know when they were made.
    pub crtime: bool,
    /// Names that one file can have.
    pub file_links_max: u32,
    /// Links of one directory; [`None`] where they need not be counted.
    pub dir_links_max: Option<u32>,
    /// Bytes that a file can have.
    pub size_max: u64,
    /// Blocks can be had without being written.
    pub unwritten: bool,
    /// Blocks that are had at a time.
    pub unit_blocks: u64,
    /// Blocks that a new directory takes.
    pub dir_blocks: u64,
    /// Bytes that one attribute's value can certainly have; 0 where there are no attributes.
    pub value_min: usize,
    /// Where formats of one family differ from most others.
    pub odd: Oddities,
}

/// What most formats have in common and some do not.
#[derive(Clone, Copy, Default, Debug)]
pub struct Oddities {
    /// Bytes of a block of a file, where room is counted in smaller units.
    pub file_block: Option<u64>,
    /// Room that a file takes which is nothing but a hole, in units of 512 bytes at most: its last block, with what leads to it.
    pub hole_512_max: u64,
    /// Seconds have 32 bits although times have nanoseconds.
    pub short_times: bool,
    /// Numbers of devices have 8 bits for each half.
    pub short_devices: bool,
}

/// A fresh file system, and a clock that a second goes by on with every look.
pub struct Bench {
    /// The file system.
    pub fs: Box<dyn FileSystem + Send>,
    /// What it can do.
    pub can: Abilities,
    root: InodeNo,
    seconds: i64,
}

/// When all cases begin.
const BEGINNING: i64 = 1_700_000_000;

/// A case: what it is about, how many blocks of 4 KiB the file system shall have at least and at most about, and what is done.
pub struct Case {
    /// A sentence without its end.
    pub name: &'static str,
    /// How large the file system shall be.
    pub room: Room,
    /// It is about extended attributes.
    pub needs_attributes: bool,
    /// What is done; it panics if something is not as it should be.
    pub run: fn(&mut Bench),
}

/// How large a file system shall be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Some mebibytes, so that it can be filled.
    Small,
    /// Some tens of mebibytes and a few thousand inodes.
    Plenty,
    /// Inodes and blocks for 70 000 directories.
    Crowd,
}

impl Bench {
    /// A bench for `fs`.
    pub fn new(fs: Box<dyn FileSystem + Send>, can: Abilities) -> Self {
        let root = fs.root();
        Bench { fs, can, root, seconds: BEGINNING }
    }

    /// The next second.
    pub fn tick(&mut self) -> Time {
        self.seconds += 1;
        Time::at(self.seconds)
    }

    /// The second that [`Bench::tick`] has told last.
    fn now(&self) -> Time {
        Time::at(self.seconds)
    }

    /// Bytes of a block of a file.
    fn file_block(&mut self) -> u64 {
        let counted = self.fs.statfs().expect("it is mounted").block_size;
        self.can.odd.file_block.unwrap_or(counted.into())
    }

    fn file(&mut self, parent: InodeNo, name: &str) -> InodeNo {
        let (of, now) = (permissions(0o644), self.tick());
        self.fs.create(parent, name.as_bytes(), of, now).expect("a file can be made").inode
    }

    fn dir(&mut self, parent: InodeNo, name: &str) -> InodeNo {
        let now = self.tick();
        self.fs
            .mkdir(parent, name.as_bytes(), permissions(0o755), now)
            .expect("a directory can be made")
            .inode
    }

    fn attr(&mut self, inode: InodeNo) -> Attributes {
        self.fs.getattr(inode).expect("the inode is there")
    }

    fn look(&mut self, parent: InodeNo, name: &str) -> Result<InodeNo> {
        self.fs.lookup(parent, name.as_bytes()).map(|found| found.inode)
    }

    /// Writes all of `bytes`.
    fn put(&mut self, inode: InodeNo, offset: u64, bytes: &[u8]) {
        let now = self.tick();
        let mut at = 0;
        while at < bytes.len() {
            let written = self.fs.write(inode, offset + at as u64, &bytes[at..], now);
            at += written.expect("there is room for it");
        }
    }

    /// Reads up to `len` bytes.
    fn get(&mut self, inode: InodeNo, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0xAA; len];
        let read = self.fs.read(inode, offset, &mut bytes).expect("it can be read");
        bytes.truncate(read);
        bytes
    }

    fn cut(&mut self, inode: InodeNo, size: u64) -> Result<Attributes> {
        let now = self.tick();
        self.fs.setattr(inode, &SetAttributes { size: Some(size), ..Default::default() }, now)
    }

    fn link(&mut self, inode: InodeNo, parent: InodeNo, name: &str) -> Result<Attributes> {
        let now = self.tick();
        self.fs.link(inode, parent, name.as_bytes(), now)
    }

    fn unlink(&mut self, parent: InodeNo, name: &str) -> Result<()> {
        let now = self.tick();
        self.fs.unlink(parent, name.as_bytes(), now)
    }

    fn rmdir(&mut self, parent: InodeNo, name: &str) -> Result<()> {
        let now = self.tick();
        self.fs.rmdir(parent, name.as_bytes(), now)
    }

    fn rename(&mut self, from: (InodeNo, &str), to: (InodeNo, &str), flags: RenameFlags) -> Result<()> {
        let now = self.tick();
        self.fs.rename(from.0, from.1.as_bytes(), to.0, to.1.as_bytes(), flags, now)
    }

    /// All names in a directory but the dots, sorted.
    fn names(&mut self, directory: InodeNo) -> Vec<String> {
        let mut names = Vec::new();
        self.fs
            .readdir(directory, 0, &mut |entry| {
                names.push(String::from_utf8_lossy(entry.name).into_owned());
                Visit::More
            })
            .expect("the directory can be read");
        names.retain(|name| name != "." && name != "..");
        names.sort();
        names
    }
}

/// Root's.
fn permissions(mode: u16) -> Permissions {
    Permissions { mode, uid: 0, gid: 0 }
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let all = [names::CASES, rename::CASES, data::CASES, inodes::CASES];
    let case = |needs_attributes: bool, (name, room, run): &Row| Case {
        name,
        room: *room,
        needs_attributes,
        run: *run,
    };
    let others = all.into_iter().flatten().map(|row| case(false, row));
    others.chain(xattrs::CASES.iter().map(|row| case(true, row))).collect()
}

type Row = (&'static str, Room, fn(&mut Bench));

/// Runs the cases for which there is a bench, and returns what failed, each time with the reason. `fresh` makes file systems, `after` looks at each after its
/// case: whatever was done, it has to be sound.
pub fn run(
    mut fresh: impl FnMut(Room) -> Option<Bench>,
    mut after: impl FnMut(Bench) -> std::result::Result<(), String>,
) -> Vec<String> {
    let mut failed = Vec::new();
    for case in cases() {
        let Some(mut bench) = fresh(case.room) else { continue };
        if case.needs_attributes && bench.can.value_min == 0 {
            continue;
        }
        if catch_unwind(AssertUnwindSafe(|| (case.run)(&mut bench))).is_err() {
            failed.push(format!("{} (see the panic above)", case.name));
            continue;
        }
        if let Err(why) = after(bench) {
            failed.push(format!("{}: {why}", case.name));
        }
    }
    failed
}
