// SPDX-License-Identifier: MIT OR Apache-2.0
//! A list of calls, made one after the other on an ext4 that is mounted by us, by the kernel from a loop device, and by fuse2fs. What passes on either of
//! the others passes on ours with the same result. Where it does not, docs/mount.md says so, in the words that stand beside the call's name here.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod beside_calls;
mod support;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use beside_calls::{
    attribute_modes, attribute_names, attribute_sizes, attribute_spaces, change_owner, copy_range,
    cut_and_grow, folders_refused, freeze, group_of_folder, largest, link_length, links_of_file,
    links_of_folder, locks, name_length, names, open_modes, run_program, special_files, statistics,
    sync_folder, times, times_omitted,
};
use fsmend_device::{WritableDevice, WritableMemory};
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_mount::Options;
use fsmend_testkit::host::{LoopMount, find_program, run, skip};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags, fallocate,
    getxattr, linkat, open, renameat_with, setxattr, utimensat,
};
use rustix::io::Errno;
use support::{Folder, Guarded, may_mount, now};

const BYTES: usize = 96 << 20;
const BLOCK: usize = 4096;

/// What a call came to: a text to compare, or why it failed.
type Outcome = Result<String, String>;

/// A call: it is given a folder of its own.
type Call = fn(&Path) -> io::Result<String>;

/// What differs on ours, and a part of the sentence in docs/mount.md that says so.
const DIFFERENCES: &[(&str, &str)] = &[
    ("collapse range", "`fallocate --collapse-range`, `--insert-range` | no"),
    ("insert range", "`fallocate --collapse-range`, `--insert-range` | no"),
    ("unnamed file", "`O_TMPFILE` | no"),
    ("birth time", "birth time (`statx`) | no"),
    ("fiemap", "`FIEMAP` (`filefrag`) | no"),
    ("relatime", "`relatime`, `strictatime` | accepted, without effect"),
    ("times", "a time at the limit of its range | keeps its nanoseconds"),
    ("freeze", "freezing (`fsfreeze`), `sync(2)` | no"),
];

/// All calls, in the order in which they are made.
const CALLS: &[(&str, Call)] = &[
    ("allocate", allocate),
    ("allocate behind the end", allocate_behind),
    ("punch hole", punch),
    ("zero range", zero),
    ("zero range, keep size", zero_keep),
    ("collapse range", |place| shift(place, FallocateFlags::COLLAPSE_RANGE)),
    ("insert range", |place| shift(place, FallocateFlags::INSERT_RANGE)),
    ("unnamed file", unnamed),
    ("unnamed after unlink", unlinked),
    ("access control list", access_list),
    ("default list", default_list),
    ("flag a", |place| flag(place, "a")),
    ("flag A", |place| flag(place, "A")),
    ("flag d", |place| flag(place, "d")),
    ("flag i", |place| flag(place, "i")),
    ("flag S", |place| flag(place, "S")),
    ("flag D", |place| flag_of_folder(place, "D")),
    ("flag T", |place| flag_of_folder(place, "T")),
    ("version", version),
    ("fiemap", fiemap),
    ("birth time", birth),
    ("fsid", fsid),
    ("relatime", relatime),
    ("rename, no replace", |place| renamed(place, RenameFlags::NOREPLACE)),
    ("rename, exchange", |place| renamed(place, RenameFlags::EXCHANGE)),
    ("rename, whiteout", |place| renamed(place, RenameFlags::WHITEOUT)),
    ("rename, whiteout and no replace", |place| {
        renamed(place, RenameFlags::WHITEOUT | RenameFlags::NOREPLACE)
    }),
    ("rename of folders", rename_folders),
    ("memory map", memory_map),
    ("direct write and read", direct),
    ("append", append),
    ("append with two writers", append_twice),
    ("seek hole and data", seek),
    ("attribute names", attribute_names),
    ("attribute sizes", attribute_sizes),
    ("attribute spaces", attribute_spaces),
    ("attribute create and replace", attribute_modes),
    ("times", times),
    ("times omitted", times_omitted),
    ("links of a file", links_of_file),
    ("links of a folder", links_of_folder),
    ("length of a name", name_length),
    ("length of a link", link_length),
    ("special files", special_files),
    ("largest file", largest),
    ("cut and grow", cut_and_grow),
    ("open modes", open_modes),
    ("what is refused of folders", folders_refused),
    ("group of a folder", group_of_folder),
    ("locks", locks),
    ("copy range", copy_range),
    ("run a program", run_program),
    ("sync of a folder", sync_folder),
    ("names of a folder", names),
    ("change of owner", change_owner),
    ("file system statistics", statistics),
    ("freeze", freeze),
];

fn errno(result: rustix::io::Result<()>) -> String {
    result.map_or_else(|error| format!("{error:?}"), |()| "done".to_owned())
}

fn kind_of_error<T>(result: io::Result<T>) -> String {
    match result {
        Ok(_) => "done".to_owned(),
        Err(error) => format!("error {}", error.raw_os_error().unwrap_or(0)),
    }
}

fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

/// A file of 32 blocks, each filled with its number.
fn filled(place: &Path) -> io::Result<File> {
    let file = opened(&place.join("file"))?;
    for block in 0..32_u8 {
        file.write_all_at(&[block + 1; BLOCK], u64::from(block) * BLOCK as u64)?;
    }
    Ok(file)
}

/// The first byte of each block of a file, and its length.
fn blocks(file: &File) -> io::Result<String> {
    let len = file.metadata()?.len();
    let mut firsts = Vec::new();
    for start in (0..len).step_by(BLOCK) {
        let mut byte = [0; 1];
        file.read_exact_at(&mut byte, start)?;
        firsts.push(byte[0]);
    }
    Ok(format!("{len} {firsts:?}"))
}

fn allocate(place: &Path) -> io::Result<String> {
    let file = filled(place)?;
    fallocate(&file, FallocateFlags::empty(), 100_000, 100_000)?;
    let allocated = blocks(&file)?;
    // The kernel keeps what it could get.
    let too_much = fallocate(&file, FallocateFlags::empty(), 0, 1 << 30);
    Ok(format!("{allocated} {}", errno(too_much)))
}

fn allocate_behind(place: &Path) -> io::Result<String> {
    let file = filled(place)?;
    file.sync_all()?;
    let before = file.metadata()?.blocks();
    fallocate(&file, FallocateFlags::KEEP_SIZE, 1 << 20, 1 << 20)?;
    file.sync_all()?;
    Ok(format!("{} {} more sectors", blocks(&file)?, (file.metadata()?.blocks() - before) / 512 * 512))
}

fn punch(place: &Path) -> io::Result<String> {
    let file = filled(place)?;
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 5000, 40_000)?;
    let mut edge = [0; 2];
    file.read_exact_at(&mut edge, 4999)?;
    Ok(format!("{} {edge:?}", blocks(&file)?))
}

fn zero(place: &Path) -> io::Result<String> {
    let file = filled(place)?;
    fallocate(&file, FallocateFlags::ZERO_RANGE, 100_000, 100_000)?;
    blocks(&file)
}

fn zero_keep(place: &Path) -> io::Result<String> {
    let file = filled(place)?;
    fallocate(&file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, 100_000, 100_000)?;
    blocks(&file)
}

fn shift(place: &Path, how: FallocateFlags) -> io::Result<String> {
    let file = filled(place)?;
    file.sync_all()?;
    fallocate(&file, how, 4 * BLOCK as u64, 8 * BLOCK as u64)?;
    blocks(&file)
}

fn unnamed(place: &Path) -> io::Result<String> {
    let file = File::from(open(place, OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR | Mode::WUSR)?);
    file.write_all_at(b"text", 0)?;
    let links = file.metadata()?.nlink();
    let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    linkat(CWD, own.as_str(), CWD, place.join("named"), AtFlags::SYMLINK_FOLLOW)?;
    Ok(format!("{links} links, then {}", fs::read_to_string(place.join("named"))?))
}

fn unlinked(place: &Path) -> io::Result<String> {
    let file = filled(place)?;
    fs::remove_file(place.join("file"))?;
    file.write_all_at(&[99; BLOCK], 3 * BLOCK as u64)?;
    file.set_len(5 * BLOCK as u64)?;
    Ok(format!("{} links, {}", file.metadata()?.nlink(), blocks(&file)?))
}

/// A list: owner, user 1000, group, mask, others.
fn list(permissions: [u16; 5]) -> Vec<u8> {
    let tags = [(1_u16, u32::MAX), (2, 1000), (4, u32::MAX), (0x10, u32::MAX), (0x20, u32::MAX)];
    let mut bytes = vec![2, 0, 0, 0];
    for ((tag, id), permissions) in tags.into_iter().zip(permissions) {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&permissions.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

fn attribute(path: &Path, name: &str) -> rustix::io::Result<Vec<u8>> {
    let mut bytes = vec![0; 70_000];
    let len = getxattr(path, name, &mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

fn mode(path: &Path) -> io::Result<u32> {
    Ok(fs::symlink_metadata(path)?.permissions().mode() & 0o7777)
}

fn access_list(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    fs::write(&path, "text")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    setxattr(&path, "system.posix_acl_access", &list([6, 4, 0, 4, 0]), XattrFlags::empty())?;
    let shown = mode(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660))?;
    let kept = attribute(&path, "system.posix_acl_access")?;
    Ok(format!("{shown:o}, then {kept:?}"))
}

fn default_list(place: &Path) -> io::Result<String> {
    setxattr(place, "system.posix_acl_default", &list([7, 5, 5, 5, 0]), XattrFlags::empty())?;
    fs::create_dir(place.join("below"))?;
    File::create(place.join("file"))?;
    let inherited = attribute(&place.join("below"), "system.posix_acl_default")?;
    Ok(format!("{:o} {:o} {}", mode(&place.join("below"))?, mode(&place.join("file"))?, inherited.len()))
}

/// The flags of a file, but for the one that says how it is mapped.
fn flags(path: &Path) -> io::Result<String> {
    let out = run("lsattr", ["-d", &path.to_string_lossy()])?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    Ok(text.split_whitespace().next().unwrap_or_default().replace(['e', '-'], ""))
}

fn flag(place: &Path, letter: &str) -> io::Result<String> {
    let path = place.join("file");
    fs::write(&path, "text")?;
    flag_on(&path, letter)
}

fn flag_of_folder(place: &Path, letter: &str) -> io::Result<String> {
    let path = place.join("folder");
    fs::create_dir(&path)?;
    flag_on(&path, letter)
}

fn flag_on(path: &Path, letter: &str) -> io::Result<String> {
    let name = path.to_string_lossy().into_owned();
    run("chattr", [&format!("+{letter}"), &name])?;
    let set = flags(path)?;
    let renamed = kind_of_error(fs::rename(path, path.with_extension("new")));
    let other = if renamed == "done" { path.with_extension("new") } else { path.to_owned() };
    run("chattr", [&format!("-{letter}"), &*other.to_string_lossy()])?;
    Ok(format!("{set}; {renamed}; {}", flags(&other)?))
}

fn version(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    fs::write(&path, "text")?;
    run("chattr", ["-v", "1234", &path.to_string_lossy()])?;
    let out = run("lsattr", ["-v", &path.to_string_lossy()])?;
    Ok(String::from_utf8_lossy(&out.stdout).split_whitespace().next().unwrap_or_default().to_owned())
}

fn fiemap(place: &Path) -> io::Result<String> {
    let file = filled(place)?;
    file.sync_all()?;
    let out = run("filefrag", ["-v", &*place.join("file").to_string_lossy()])?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    // What it asks for one block after the other says nothing of flags.
    if !text.contains("last,eof") {
        return Err(io::Error::other(text.replace(&*place.to_string_lossy(), "")));
    }
    Ok("extents".to_owned())
}

fn birth(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    fs::write(&path, "text")?;
    let born = fs::metadata(&path)?.created()?;
    Ok(format!("in this century: {}", born > std::time::UNIX_EPOCH))
}

fn fsid(place: &Path) -> io::Result<String> {
    let text = run("stat", ["-f", "-c", "%i", &place.to_string_lossy()])?;
    let id = String::from_utf8_lossy(&text.stdout).trim().to_owned();
    Ok(format!("zero: {}", id.chars().all(|digit| digit == '0')))
}

fn time(seconds: i64) -> Timespec {
    Timespec { tv_sec: seconds, tv_nsec: 0 }
}

fn set_times(path: &Path, accessed: Timespec, modified: Timespec) -> rustix::io::Result<()> {
    let times = Timestamps { last_access: accessed, last_modification: modified };
    utimensat(CWD, path, &times, AtFlags::empty())
}

fn relatime(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    fs::write(&path, "text")?;
    set_times(&path, time(1_000_000_000), time(1_100_000_000))?;
    fs::read(&path)?;
    Ok(format!("noted: {}", fs::metadata(&path)?.atime() > 1_000_000_000))
}

fn renamed(place: &Path, how: RenameFlags) -> io::Result<String> {
    let (one, other) = (place.join("one"), place.join("other"));
    fs::write(&one, "1")?;
    fs::write(&other, "2")?;
    let onto = renameat_with(CWD, &one, CWD, &other, how);
    let aside = renameat_with(CWD, &other, CWD, place.join("new"), how);
    let mut left = Vec::new();
    for name in ["one", "other", "new"] {
        left.push(match fs::symlink_metadata(place.join(name)) {
            Ok(found) if found.file_type().is_char_device() => format!("device {}", found.rdev()),
            Ok(_) => fs::read_to_string(place.join(name))?,
            Err(_) => "none".to_owned(),
        });
    }
    if onto == Err(Errno::INVAL) && aside == Err(Errno::INVAL) {
        return Err(io::Error::other("not supported"));
    }
    Ok(format!("{}, {}: {left:?}", errno(onto), errno(aside)))
}

fn rename_folders(place: &Path) -> io::Result<String> {
    for name in ["a/b", "c/d", "e"] {
        fs::create_dir_all(place.join(name))?;
    }
    let moved = |from: &str, to: &str| kind_of_error(fs::rename(place.join(from), place.join(to)));
    let all = [moved("a", "a/b/a"), moved("a", "c"), moved("a", "e"), moved("c/d", "d")];
    Ok(format!("{all:?} {} {}", fs::metadata(place)?.nlink(), fs::metadata(place.join("e"))?.nlink()))
}

#[allow(unsafe_code, reason = "to call what is tested")]
fn memory_map(place: &Path) -> io::Result<String> {
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
    let file = filled(place)?;
    let len = 32 * BLOCK;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the map is as long as the file, which nothing else has open, and no reference to it outlives it.
    let seen = unsafe {
        let map = mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, &file, 0)?;
        let bytes = std::slice::from_raw_parts_mut(map.cast::<u8>(), len);
        let seen = (bytes[0], bytes[31 * BLOCK]);
        bytes[7 * BLOCK] = 77;
        file.write_all_at(&[88], 9 * BLOCK as u64)?;
        let coherent = bytes[9 * BLOCK];
        msync(map, len, MsyncFlags::SYNC)?;
        munmap(map, len)?;
        (seen, coherent)
    };
    Ok(format!("{seen:?} {}", blocks(&file)?))
}

fn direct(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    let flags = i32::try_from(OFlags::DIRECT.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(flags)
        .open(&path)?;
    let mut room = vec![0; 4 * BLOCK];
    let start = room.as_ptr().align_offset(BLOCK);
    let buffer = &mut room[start..start + 2 * BLOCK];
    buffer.fill(7);
    file.write_all_at(buffer, 0)?;
    buffer.fill(8);
    file.write_all_at(buffer, 6 * BLOCK as u64)?;
    buffer.fill(0);
    file.read_exact_at(buffer, BLOCK as u64 * 6)?;
    let read = buffer.iter().all(|byte| *byte == 8);
    drop(file);
    Ok(format!("{read} {}", blocks(&File::open(&path)?)?))
}

fn append(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    fs::write(&path, "one")?;
    let mut file = OpenOptions::new().append(true).read(true).open(&path)?;
    file.write_all(b"two")?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(b"three")?;
    // As Linux does it, pwrite(2) appends as well.
    file.write_all_at(b"four", 0)?;
    fs::read_to_string(&path)
}

fn append_twice(place: &Path) -> io::Result<String> {
    let path = place.join("file");
    let append = || OpenOptions::new().append(true).create(true).open(&path);
    let (mut one, mut other) = (append()?, append()?);
    for _ in 0..50 {
        one.write_all(b"1")?;
        other.write_all(b"22")?;
    }
    let text = fs::read_to_string(&path)?;
    Ok(format!("{} {}", text.len(), text.matches("122").count()))
}

fn seek(place: &Path) -> io::Result<String> {
    use rustix::fs::{SeekFrom, seek};
    let file = opened(&place.join("file"))?;
    file.write_all_at(&[1; BLOCK], 10 * BLOCK as u64)?;
    file.write_all_at(&[1; 10], 20 * BLOCK as u64)?;
    file.set_len(30 * BLOCK as u64)?;
    file.sync_all()?;
    let at = |how| seek(&file, how).map_err(|error| format!("{error:?}"));
    let block = BLOCK as u64;
    Ok(format!(
        "{:?}",
        [
            at(SeekFrom::Data(0)),
            at(SeekFrom::Hole(0)),
            at(SeekFrom::Hole(10 * block)),
            at(SeekFrom::Data(12 * block)),
            at(SeekFrom::Hole(20 * block + 5)),
            at(SeekFrom::Data(25 * block)),
            at(SeekFrom::Hole(30 * block)),
            at(SeekFrom::Data(99 * block)),
        ]
    ))
}

/// An ext4 as mke2fs makes it, with what takes tens of thousands of calls to get: a file and a folder of many links.
fn prepared(image: &Path) {
    File::create(image).and_then(|file| file.set_len(BYTES as u64)).unwrap();
    let name = image.to_str().unwrap();
    run("mke2fs", ["-q", "-F", "-t", "ext4", "-b", "4096", name]).unwrap();
    for request in [
        "write /dev/null of-many-links",
        "sif of-many-links links_count 64998",
        "mkdir of-many-folders",
        "sif of-many-folders links_count 64999",
    ] {
        run("debugfs", ["-w", "-R", request, name]).unwrap();
    }
}

fn outcomes(root: &Path) -> BTreeMap<&'static str, Outcome> {
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = |(at, (name, call)): (usize, &(&'static str, Call))| {
        let place = root.join(format!("call{at}"));
        fs::create_dir(&place).unwrap();
        let outcome = call(&place).map_err(|error| error.to_string());
        // Room for the next ones.
        let _ = fs::remove_dir_all(&place);
        (*name, outcome)
    };
    CALLS.iter().enumerate().map(outcome).collect()
}

fn on_ours(folder: &Folder) -> BTreeMap<&'static str, Outcome> {
    let image = folder.0.join("image");
    prepared(&image);
    let device = Arc::new(WritableMemory::new("image", fs::read(&image).unwrap()));
    let ext = Ext::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, MountOptions::new(now())).unwrap();
    let options = Options { allow_other: true, ..Options::default() };
    let mounted = Guarded::new(Box::new(ext), &folder.sub("here"), &options);
    let outcomes = outcomes(&mounted.place);
    mounted.unmount();
    outcomes
}

fn on_the_kernels(folder: &Folder) -> BTreeMap<&'static str, Outcome> {
    let image = folder.0.join("image");
    prepared(&image);
    let mounted = LoopMount::new(&image, &folder.sub("there"), "ext4", "").unwrap();
    let outcomes = outcomes(mounted.path());
    mounted.unmount().unwrap();
    outcomes
}

fn on_fuse2fs(folder: &Folder) -> BTreeMap<&'static str, Outcome> {
    let (image, place) = (folder.0.join("image"), folder.sub("there"));
    prepared(&image);
    run("fuse2fs", [image.to_str().unwrap(), place.to_str().unwrap(), "-o", "allow_other,rw"]).unwrap();
    let mounted = LoopMount::of(&place);
    let outcomes = outcomes(mounted.path());
    mounted.unmount().unwrap();
    outcomes
}

#[test]
fn nothing_fails_that_passes_on_the_kernels_ext4_or_fuse2fs() {
    const TEST: &str = "beside";
    if !may_mount(TEST) {
        return;
    }
    if find_program("fuse2fs").is_none() {
        // Some calls may go as they do there, though not as in the kernel.
        return skip(TEST, "needs fuse2fs");
    }
    let folder = Folder::new(TEST);
    let others = [on_the_kernels(&folder), on_fuse2fs(&folder)];
    let ours = on_ours(&folder);
    let documented = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mount.md")).unwrap();
    let mut wrong = Vec::new();
    for (name, _) in CALLS {
        let theirs: Vec<&Outcome> = others.iter().filter_map(|outcomes| outcomes.get(name)).collect();
        let passes = theirs.iter().any(|outcome| outcome.is_ok());
        let is_same = theirs.iter().any(|outcome| outcome.is_ok() && Some(*outcome) == ours.get(name));
        let reason = DIFFERENCES.iter().find(|(of, _)| of == name).map(|(_, reason)| *reason);
        match reason {
            None if passes && !is_same => {
                wrong.push(format!("{name}: {:?}, others {theirs:#?}", ours.get(name)))
            }
            Some(_) if is_same => wrong.push(format!("{name} is the same now: take it from the list")),
            Some(reason) if !documented.contains(reason) => {
                wrong.push(format!("{name}: docs/mount.md lacks: {reason}"))
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
