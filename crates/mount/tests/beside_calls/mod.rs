// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls about attributes, times, names, special files and whole file systems.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use fsmend_testkit::host::run;
use rustix::fs::{
    CWD, FileType, FlockOperation, Mode, OFlags, Timespec, XattrFlags, copy_file_range, flock, getxattr,
    listxattr, mknodat, open, removexattr, setxattr, statfs,
};

use crate::{BLOCK, attribute, blocks, errno, filled, kind_of_error, opened, set_times, time};

pub fn attribute_names(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    fs::write(&path, "text")?;
    let named = |len: usize| {
        let name = format!("user.{}", "n".repeat(len));
        errno(setxattr(&path, name.as_str(), b"value", XattrFlags::empty()))
    };
    let set = [named(1), named(250), named(251), named(0)];
    let mut names = vec![0; 1000];
    let len = listxattr(&path, &mut names)?;
    Ok(format!("{set:?} {len}"))
}

pub fn attribute_sizes(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    fs::write(&path, "text")?;
    let mut all = Vec::new();
    for len in [0, 1, 100, 3000, 5000, 65_536, 65_537] {
        let set = errno(setxattr(&path, "user.value", &vec![7; len], XattrFlags::empty()));
        all.push((set, attribute(&path, "user.value").map_or(0, |value| value.len())));
    }
    Ok(format!("{all:?}"))
}

pub fn attribute_spaces(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    fs::write(&path, "text")?;
    let link = place.join("link");
    symlink("file", &link)?;
    let mut all = Vec::new();
    for name in ["user.a", "trusted.a", "security.a", "system.a", "other.a"] {
        all.push(errno(setxattr(&path, name, b"value", XattrFlags::empty())));
        all.push(errno(rustix::fs::lsetxattr(&link, name, b"value", XattrFlags::empty())));
    }
    Ok(format!("{all:?}"))
}

pub fn attribute_modes(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    fs::write(&path, "text")?;
    let set = |how| errno(setxattr(&path, "user.a", b"value", how));
    let all = [
        set(XattrFlags::REPLACE),
        set(XattrFlags::CREATE),
        set(XattrFlags::CREATE),
        set(XattrFlags::REPLACE),
        errno(removexattr(&path, "user.a")),
        errno(removexattr(&path, "user.a")),
        errno(getxattr(&path, "user.a", &mut [0; 9][..]).map(|_| ())),
    ];
    Ok(format!("{all:?}"))
}

pub fn times(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    fs::write(&path, "text")?;
    let mut all = Vec::new();
    for seconds in
        [0, -1, -(1 << 31), -(1 << 31) - 1, (1 << 31) - 1, 1 << 31, 1 << 32, 15_032_385_535, 15_032_385_536]
    {
        let precise = Timespec { tv_sec: seconds, tv_nsec: 123_456_789 };
        let set = errno(set_times(&path, precise, precise));
        let found = fs::metadata(&path)?;
        all.push((set, found.mtime(), found.mtime_nsec(), found.atime()));
    }
    Ok(format!("{all:?}"))
}

pub fn times_omitted(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    fs::write(&path, "text")?;
    set_times(&path, time(1000), time(2000))?;
    let omitted = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    set_times(&path, omitted, time(3000))?;
    let found = fs::metadata(&path)?;
    Ok(format!("{} {}", found.atime(), found.mtime()))
}

/// `prepared` gave it 64 998 links.
pub fn links_of_file(place: &Path) -> io::Result<String> {
    let path = place.join("../of-many-links");
    let linked = ["a", "b", "c"].map(|name| kind_of_error(fs::hard_link(&path, place.join(name))));
    Ok(format!("{linked:?} {}", fs::metadata(&path)?.nlink()))
}

/// `prepared` gave it 64 999 links.
pub fn links_of_folder(place: &Path) -> io::Result<String> {
    let path = place.join("../of-many-folders");
    let made = kind_of_error(fs::create_dir(path.join("a")));
    Ok(format!("{made} {}", fs::metadata(&path)?.nlink()))
}

pub fn name_length(place: &Path) -> io::Result<String> {
    let made = [255, 256].map(|len| kind_of_error(fs::write(place.join("n".repeat(len)), "text")));
    Ok(format!("{made:?}"))
}

pub fn link_length(place: &Path) -> io::Result<String> {
    let made = [1, 59, 60, 4000, 4095]
        .map(|len| kind_of_error(symlink("t".repeat(len), place.join(format!("link{len}")))));
    Ok(format!("{made:?} {}", fs::read_link(place.join("link4000"))?.as_os_str().len()))
}

pub fn special_files(place: &Path) -> io::Result<String> {
    let mut all = Vec::new();
    for (name, kind) in [
        ("pipe", FileType::Fifo),
        ("socket", FileType::Socket),
        ("character", FileType::CharacterDevice),
        ("block", FileType::BlockDevice),
    ] {
        let device = rustix::fs::makedev(300, 70_000);
        let made = errno(mknodat(CWD, place.join(name), kind, Mode::RUSR, device));
        let found = fs::symlink_metadata(place.join(name))?;
        let is_device = found.file_type().is_char_device() || found.file_type().is_block_device();
        all.push(format!("{made} {:o} {}", found.mode(), if is_device { found.rdev() } else { 0 }));
    }
    Ok(format!("{all:?}"))
}

pub fn largest(place: &Path) -> io::Result<String> {
    let file = opened(&place.join("file"))?;
    let mut all = Vec::new();
    for end in [1_u64 << 32, (1 << 44) - 8192, (1 << 44) - 4096, 1 << 44, 1 << 45] {
        all.push(kind_of_error(file.set_len(end)));
    }
    file.set_len(0)?;
    all.push(kind_of_error(file.write_all_at(b"end", (1 << 44) - 8192)));
    all.push(file.metadata()?.len().to_string());
    Ok(format!("{all:?}"))
}

pub fn cut_and_grow(place: &Path) -> io::Result<String> {
    let file = filled(place)?;
    file.set_len(10_000)?;
    file.set_len(50_000)?;
    let mut around = [9; 4];
    file.read_exact_at(&mut around, 9_998)?;
    Ok(format!("{around:?} {}", blocks(&file)?))
}

pub fn open_modes(place: &Path) -> io::Result<String> {
    fs::write(place.join("file"), "text")?;
    symlink("file", place.join("link"))?;
    symlink("loop", place.join("loop"))?;
    let tried = |name: &str, flags: OFlags| errno(open(place.join(name), flags, Mode::RUSR).map(|_| ()));
    Ok(format!(
        "{:?}",
        [
            tried("file", OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY),
            tried("link", OFlags::NOFOLLOW),
            tried("loop", OFlags::RDONLY),
            tried("file", OFlags::DIRECTORY),
            tried("file/below", OFlags::RDONLY),
            tried(".", OFlags::WRONLY),
            tried("link", OFlags::PATH | OFlags::NOFOLLOW),
            tried("none", OFlags::RDONLY),
            tried("file", OFlags::NOATIME | OFlags::SYNC | OFlags::RDWR),
        ]
    ))
}

pub fn folders_refused(place: &Path) -> io::Result<String> {
    fs::create_dir_all(place.join("full/below"))?;
    fs::write(place.join("file"), "text")?;
    let at = |name: &str| place.join(name);
    Ok(format!(
        "{:?}",
        [
            kind_of_error(fs::remove_dir(at("full"))),
            kind_of_error(fs::remove_file(at("full"))),
            kind_of_error(fs::remove_dir(at("file"))),
            kind_of_error(fs::hard_link(at("full"), at("other"))),
            kind_of_error(fs::rename(at("file"), at("full"))),
            kind_of_error(fs::rename(at("full"), at("file"))),
            kind_of_error(fs::create_dir(at("full"))),
            kind_of_error(File::open(at("full")).and_then(|mut folder| folder.read(&mut [0; 9]))),
        ]
    ))
}

pub fn group_of_folder(place: &Path) -> io::Result<String> {
    let path = place.join("folder");
    fs::create_dir(&path)?;
    std::os::unix::fs::chown(&path, None, Some(77))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2775))?;
    fs::create_dir(path.join("below"))?;
    File::create(path.join("file"))?;
    let (below, file) = (fs::metadata(path.join("below"))?, fs::metadata(path.join("file"))?);
    Ok(format!("{:o} {} {:o} {}", below.mode(), below.gid(), file.mode(), file.gid()))
}

pub fn locks(place: &Path) -> io::Result<String> {
    let (one, other) = (opened(&place.join("file"))?, opened(&place.join("file"))?);
    let all = [
        errno(flock(&one, FlockOperation::NonBlockingLockExclusive)),
        errno(flock(&other, FlockOperation::NonBlockingLockShared)),
        errno(flock(&one, FlockOperation::Unlock)),
        errno(flock(&other, FlockOperation::NonBlockingLockShared)),
        errno(rustix::fs::fcntl_lock(&one, FlockOperation::NonBlockingLockExclusive)),
    ];
    Ok(format!("{all:?}"))
}

pub fn copy_range(place: &Path) -> io::Result<String> {
    let (from, to) = (filled(place)?, opened(&place.join("copy"))?);
    let (mut start, mut end) = (BLOCK as u64, 0);
    let mut left = 10 * BLOCK;
    while left > 0 {
        match copy_file_range(&from, Some(&mut start), &to, Some(&mut end), left)? {
            0 => break,
            copied => left -= copied,
        }
    }
    blocks(&to)
}

pub fn run_program(place: &Path) -> io::Result<String> {
    let path = place.join("program");
    fs::copy("/bin/true", &path)?;
    Ok(format!("{:?}", Command::new(&path).status()?.code()))
}

pub fn sync_folder(place: &Path) -> io::Result<String> {
    fs::write(place.join("file"), "text")?;
    let folder = File::open(place)?;
    folder.sync_all()?;
    Ok(format!("{} {}", errno(rustix::fs::syncfs(&folder)), kind_of_error(folder.sync_data())))
}

pub fn names(place: &Path) -> io::Result<String> {
    for number in 0..500 {
        fs::write(place.join(format!("name{number}")), "")?;
    }
    fs::create_dir(place.join("folder"))?;
    symlink("x", place.join("link"))?;
    let mut seen = BTreeMap::new();
    for (at, entry) in fs::read_dir(place)?.enumerate() {
        let entry = entry?;
        *seen.entry(format!("{:?}", entry.file_type()?)).or_insert(0) += 1;
        // Half of them go while they are read.
        if at % 2 == 0 && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(format!("{:?}", seen.values().collect::<Vec<_>>()))
}

pub fn change_owner(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    fs::write(&path, "text")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6755))?;
    std::os::unix::fs::chown(&path, Some(70_000), Some(80_000))?;
    let found = fs::metadata(&path)?;
    Ok(format!("{} {} {:o}", found.uid(), found.gid(), found.mode()))
}

pub fn statistics(place: &Path) -> io::Result<String> {
    let before = statfs(place)?;
    let file = opened(&place.join("file"))?;
    file.write_all_at(&vec![1; 1 << 20], 0)?;
    file.sync_all()?;
    let after = statfs(place)?;
    let taken = before.f_bfree - after.f_bfree;
    Ok(format!("{} {} {} {taken}", after.f_bsize, after.f_namelen, before.f_ffree - after.f_ffree))
}

/// It is thawed again in any case.
pub fn freeze(place: &Path) -> io::Result<String> {
    let root = place.parent().unwrap_or(place).to_string_lossy().into_owned();
    run("fsfreeze", ["--freeze", &root])?;
    run("fsfreeze", ["--unfreeze", &root])?;
    Ok("frozen".to_owned())
}
