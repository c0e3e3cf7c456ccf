// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same operations at random in two folders, on different file systems: both have to answer the same, and hold the same in the end.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use fsmend_base::SeededRandom;
use rustix::fs::{CWD, RenameFlags, XattrFlags};

/// Does `count` things that belong to `seed` in both folders. The error says in what they differed.
pub fn work(one: &Path, other: &Path, seed: u64, count: u64) -> Result<(), String> {
    let mut random = SeededRandom::new(seed);
    for number in 0..count {
        let operation = Operation::draw(&mut random);
        let (said, expected) = (operation.perform(one), operation.perform(other));
        if said != expected {
            return Err(format!(
                "seed {seed}, operation {number}: {operation:?} gave {said:?} here and {expected:?} there"
            ));
        }
    }
    let (here, there) = (tree(one).map_err(told)?, tree(other).map_err(told)?);
    for path in here.keys().chain(there.keys()) {
        if here.get(path) != there.get(path) {
            let (here, there) = (here.get(path), there.get(path));
            return Err(format!("seed {seed}: {} is {here:?} here and {there:?} there", path.display()));
        }
    }
    Ok(())
}

fn told(error: io::Error) -> String {
    error.to_string()
}

#[derive(Debug)]
enum Operation {
    Create(PathBuf),
    Mkdir(PathBuf),
    Write(PathBuf, u64, usize, u8),
    Cut(PathBuf, u64),
    Link(PathBuf, PathBuf),
    Symlink(String, PathBuf),
    Rename(PathBuf, PathBuf, RenameFlags),
    Unlink(PathBuf),
    Rmdir(PathBuf),
    Chmod(PathBuf, u32),
    Chown(PathBuf, u32, u32),
    Xattr(PathBuf, String, Vec<u8>),
    Unxattr(PathBuf, String),
    Look(PathBuf),
    List(PathBuf),
    Read(PathBuf),
}

/// A path of up to four of few names, so that many operations meet.
fn path(random: &mut SeededRandom) -> PathBuf {
    let depth = 1 + random.below(3);
    (0..depth).map(|_| ["a", "b", "c", "d", "e", "a longer name"][random.below(6) as usize]).collect()
}

impl Operation {
    fn draw(random: &mut SeededRandom) -> Operation {
        let (at, to) = (path(random), path(random));
        let name = format!("user.{}", random.below(4));
        match random.below(32) {
            0..=3 => Operation::Create(at),
            4..=7 => Operation::Mkdir(at),
            8..=10 => {
                let len = 1 + random.below(20_000) as usize;
                Operation::Write(at, random.below(50_000), len, random.next_u64() as u8)
            }
            11 => Operation::Cut(at, random.below(60_000)),
            12..=13 => Operation::Link(at, to),
            14 => Operation::Symlink("x/".repeat(1 + random.below(50) as usize), at),
            15..=18 => {
                let all = [
                    RenameFlags::empty(),
                    RenameFlags::empty(),
                    RenameFlags::NOREPLACE,
                    RenameFlags::EXCHANGE,
                ];
                Operation::Rename(at, to, all[random.below(4) as usize])
            }
            19..=20 => Operation::Unlink(at),
            21..=22 => Operation::Rmdir(at),
            23 => Operation::Chmod(at, random.below(0o10000) as u32),
            24 => Operation::Chown(at, random.below(1 << 17) as u32, random.below(5) as u32),
            25 => Operation::Xattr(at, name, vec![random.next_u64() as u8; random.below(300) as usize]),
            26 => Operation::Unxattr(at, name),
            27..=28 => Operation::Look(at),
            29..=30 => Operation::List(at),
            _ => Operation::Read(at),
        }
    }

    /// What came of it: the error's number, or what was learned.
    fn perform(&self, root: &Path) -> Result<String, Option<i32>> {
        self.attempt(root).map_err(|error| error.raw_os_error())
    }

    fn attempt(&self, root: &Path) -> io::Result<String> {
        let at = |path: &PathBuf| root.join(path);
        let open = |path| OpenOptions::new().write(true).custom_flags_nofollow().open(at(path));
        match self {
            Operation::Create(path) => fs::File::create_new(at(path)).map(drop)?,
            Operation::Mkdir(path) => fs::create_dir(at(path))?,
            Operation::Write(path, offset, len, byte) => {
                open(path)?.write_all_at(&vec![*byte; *len], *offset)?
            }
            Operation::Cut(path, size) => open(path)?.set_len(*size)?,
            Operation::Link(path, to) => fs::hard_link(at(path), at(to))?,
            Operation::Symlink(target, path) => symlink(target, at(path))?,
            Operation::Rename(path, to, flags) => {
                rustix::fs::renameat_with(CWD, at(path), CWD, at(to), *flags)?;
            }
            Operation::Unlink(path) => fs::remove_file(at(path))?,
            Operation::Rmdir(path) => fs::remove_dir(at(path))?,
            Operation::Chmod(path, mode) => {
                fs::set_permissions(at(path), fs::Permissions::from_mode(*mode))?;
            }
            Operation::Chown(path, uid, gid) => std::os::unix::fs::lchown(at(path), Some(*uid), Some(*gid))?,
            Operation::Xattr(path, name, value) => {
                rustix::fs::lsetxattr(at(path), name.as_str(), value, XattrFlags::empty())?;
            }
            Operation::Unxattr(path, name) => rustix::fs::lremovexattr(at(path), name.as_str())?,
            Operation::Look(path) => return Ok(format!("{:?}", Seen::of(&at(path))?)),
            Operation::List(path) => return Ok(format!("{:?}", names(&at(path))?)),
            Operation::Read(path) => return Ok(format!("{:x}", sum(&fs::read(at(path))?))),
        }
        Ok(String::new())
    }
}

trait NoFollow {
    fn custom_flags_nofollow(&mut self) -> &mut Self;
}

impl NoFollow for OpenOptions {
    fn custom_flags_nofollow(&mut self) -> &mut Self {
        use std::os::unix::fs::OpenOptionsExt;
        self.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
    }
}

/// What can be seen of a path.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    mode: u32,
    owner: (u32, u32),
    links: u64,
    /// Not of directories, whose length is the file system's own business.
    size: u64,
    content: u64,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Seen {
    fn of(path: &Path) -> io::Result<Seen> {
        let of = fs::symlink_metadata(path)?;
        let content = if of.is_file() {
            sum(&fs::read(path)?)
        } else if of.is_symlink() {
            sum(fs::read_link(path)?.as_os_str().as_encoded_bytes())
        } else {
            0
        };
        let size = if of.is_dir() { 0 } else { of.len() };
        let attributes = attributes(path)?;
        Ok(Seen {
            mode: of.mode(),
            owner: (of.uid(), of.gid()),
            links: of.nlink(),
            size,
            content,
            attributes,
        })
    }
}

fn attributes(path: &Path) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut buf = vec![0; 65_536];
    let len = rustix::fs::llistxattr(path, &mut buf)?;
    let names: Vec<Vec<u8>> =
        buf[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
    let mut all = Vec::new();
    for name in names {
        let len = rustix::fs::lgetxattr(path, name.as_slice(), &mut buf)?;
        all.push((name, buf[..len].to_vec()));
    }
    all.sort();
    Ok(all)
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        names.push(format!("{:?} {:?}", entry.file_name(), entry.file_type()?));
    }
    names.sort();
    Ok(names)
}

/// FNV-1a: equal contents, equal sums.
fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

fn tree(root: &Path) -> io::Result<BTreeMap<PathBuf, Seen>> {
    let (mut all, mut ahead) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(folder) = ahead.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                ahead.push(path.clone());
            }
            all.insert(path, Seen::of(&entry.path())?);
        }
    }
    Ok(all)
}
