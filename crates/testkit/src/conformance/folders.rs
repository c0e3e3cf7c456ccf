// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases for a file system that is mounted in a folder, by whomever: through the kernel's interface, so that a mount by FUSE can be held against the
//! kernel's own ext3.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, RenameFlags, Timespec, Timestamps, UTIME_NOW, XattrFlags};
use rustix::io::Errno;

type Row = (&'static str, fn(&Path));

const CASES: &[Row] = &[
    ("what is written is read, by others too", write_and_read),
    ("appending always goes to the end", append),
    ("a file without a name is used on", unlinked_but_open),
    ("a removed directory that is open is empty", removed_but_open),
    ("the link count follows links and directories", link_counts),
    ("rename answers as POSIX says", rename_errors),
    ("rename with flags", rename_flags),
    ("create, mkdir and link answer as POSIX says", errors),
    ("modes, owners and the umask", modes),
    ("times that are set are kept", times_set),
    ("every operation changes the times that it should", times_changed),
    ("symbolic links of any length", symlinks),
    ("extended attributes", xattrs),
    ("holes and where they are", seek_holes),
    (HOLE_AT_THE_END, hole_at_the_end),
    ("fifos, sockets and devices", specials),
    ("a directory is read while it changes", readdir_while_changing),
    ("many names", many_names),
    ("statfs and sync", statfs),
    ("locks", locks),
    ("large files", large),
];

/// The case that formats which want the last block of a file to be there cannot pass.
pub const HOLE_AT_THE_END: &str = "a hole at the end of a file has no data";

/// Runs the cases, each in a new folder below `root`; returns what failed.
pub fn run(root: &Path) -> Vec<String> {
    let mut failed = Vec::new();
    for (number, (name, case)) in CASES.iter().enumerate() {
        let folder = root.join(format!("case-{number}"));
        fs::create_dir(&folder).expect("a folder can be made");
        if catch_unwind(AssertUnwindSafe(|| case(&folder))).is_err() {
            failed.push(format!("{name} (see the panic above)"));
        }
        let _ = fs::remove_dir_all(&folder);
    }
    failed
}

fn errno<T>(result: io::Result<T>) -> Option<Errno> {
    result.err().and_then(|error| Errno::from_io_error(&error))
}

fn make(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create_new(true).open(path).expect("a file can be made")
}

fn write_and_read(folder: &Path) {
    let path = folder.join("file");
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
    fs::write(&path, &bytes).expect("there is room");
    assert!(fs::read(&path).expect("it is there") == bytes);
    let (one, other) = (OpenOptions::new().write(true).open(&path), File::open(&path));
    let (one, other) = (one.expect("it is there"), other.expect("it is there"));
    one.write_all_at(b"seen at once", 4_090).expect("there is room");
    let mut seen = [0; 12];
    other.read_exact_at(&mut seen, 4_090).expect("it is there");
    assert_eq!(&seen, b"seen at once");
    one.set_len(10).expect("it can be cut");
    assert_eq!(other.metadata().expect("it is there").len(), 10);
    assert_eq!(other.read_at(&mut seen, 10).expect("that is the end"), 0);
    let truncated = OpenOptions::new().write(true).truncate(true).open(&path).expect("it is there");
    assert_eq!(truncated.metadata().expect("it is there").len(), 0);
}

fn append(folder: &Path) {
    let path = folder.join("file");
    let open = || OpenOptions::new().append(true).create(true).open(&path).expect("it can be opened");
    let (mut one, mut other) = (open(), open());
    for n in 0..200 {
        let file = if n % 2 == 0 { &mut one } else { &mut other };
        file.write_all(format!("{n}\n").as_bytes()).expect("there is room");
    }
    let expected: String = (0..200).map(|n| format!("{n}\n")).collect();
    assert_eq!(fs::read_to_string(&path).expect("it is there"), expected);
}

fn unlinked_but_open(folder: &Path) {
    let path = folder.join("file");
    let mut file = make(&path);
    file.write_all(&[5; 100_000]).expect("there is room");
    fs::remove_file(&path).expect("it is there");
    assert_eq!(file.metadata().expect("it is open").nlink(), 0);
    file.write_all(&[6; 100_000]).expect("there is room");
    file.seek(SeekFrom::Start(99_999)).expect("it is open");
    let mut bytes = [0; 2];
    file.read_exact(&mut bytes).expect("it is there");
    assert_eq!(bytes, [5, 6]);
    // Another one under the same name is another one.
    fs::write(&path, b"new").expect("there is room");
    assert_eq!(file.metadata().expect("it is open").len(), 200_000);
    // The same, replaced by a rename.
    let old = File::open(&path).expect("it is there");
    fs::write(folder.join("newer"), b"newer").expect("there is room");
    fs::rename(folder.join("newer"), &path).expect("it is there");
    assert_eq!(io::read_to_string(&old).expect("it is open"), "new");
    assert_eq!(old.metadata().expect("it is open").nlink(), 0);
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "newer");
}

fn removed_but_open(folder: &Path) {
    let path = folder.join("dir");
    fs::create_dir(&path).expect("there is room");
    let dir = File::open(&path).expect("it is there");
    fs::remove_dir(&path).expect("it is empty");
    assert_eq!(dir.metadata().expect("it is open").nlink(), 0);
    let made = rustix::fs::mkdirat(&dir, "sub", Mode::from(0o755));
    assert_eq!(made.err(), Some(Errno::NOENT));
    fs::create_dir(&path).expect("the name is free");
}

fn link_counts(folder: &Path) {
    let links = |name: &str| fs::symlink_metadata(folder.join(name)).expect("it is there").nlink();
    make(&folder.join("file"));
    fs::create_dir(folder.join("dir")).expect("there is room");
    fs::hard_link(folder.join("file"), folder.join("dir/two")).expect("there is room");
    fs::hard_link(folder.join("file"), folder.join("three")).expect("there is room");
    assert_eq!((links("file"), links("dir/two"), links("dir")), (3, 3, 2));
    fs::create_dir(folder.join("dir/sub")).expect("there is room");
    assert_eq!(links("dir"), 3);
    fs::remove_file(folder.join("dir/two")).expect("it is there");
    assert_eq!((links("file"), links("three")), (2, 2));
    fs::rename(folder.join("dir/sub"), folder.join("sub")).expect("it is there");
    assert_eq!((links("dir"), links("sub")), (2, 2));
    fs::rename(folder.join("file"), folder.join("three")).expect("they are the same");
    assert_eq!(links("file"), 2);
    make(&folder.join("other"));
    fs::rename(folder.join("other"), folder.join("three")).expect("it is there");
    assert_eq!((links("file"), links("three")), (1, 1));
}

fn rename_errors(folder: &Path) {
    let at = |name: &str| folder.join(name);
    make(&at("file"));
    fs::create_dir_all(at("full/sub/deep")).expect("there is room");
    fs::create_dir(at("empty")).expect("there is room");
    let rename = |from: &str, to: &str| errno(fs::rename(at(from), at(to)));
    assert_eq!(rename("none", "x"), Some(Errno::NOENT));
    assert_eq!(rename("file", "empty"), Some(Errno::ISDIR));
    assert_eq!(rename("empty", "file"), Some(Errno::NOTDIR));
    assert_eq!(rename("empty", "full"), Some(Errno::NOTEMPTY));
    assert_eq!(rename("full", "full/sub/x"), Some(Errno::INVAL));
    assert_eq!(rename("full", "full/x"), Some(Errno::INVAL));
    assert_eq!(rename("full/sub", "full"), Some(Errno::NOTEMPTY));
    assert_eq!(rename("file", "file/x"), Some(Errno::NOTDIR));
    assert_eq!(rename("file", &"n".repeat(256)), Some(Errno::NAMETOOLONG));
    assert_eq!(rename("file", &"n".repeat(255)), None);
    assert_eq!(rename("full", "empty"), None);
    assert!(at("empty/sub/deep").is_dir() && !at("full").exists());
}

fn rename_flags(folder: &Path) {
    let at = |name: &str| folder.join(name);
    fs::write(at("one"), b"1").expect("there is room");
    fs::write(at("two"), b"2").expect("there is room");
    fs::create_dir(at("dir")).expect("there is room");
    make(&at("dir/inside"));
    let rename =
        |from: &str, to: &str, flags| rustix::fs::renameat_with(CWD, at(from), CWD, at(to), flags).err();
    assert_eq!(rename("one", "two", RenameFlags::NOREPLACE), Some(Errno::EXIST));
    assert_eq!(rename("one", "three", RenameFlags::NOREPLACE), None);
    assert_eq!(rename("three", "none", RenameFlags::EXCHANGE), Some(Errno::NOENT));
    assert_eq!(rename("three", "two", RenameFlags::EXCHANGE), None);
    assert_eq!(fs::read(at("two")).expect("it is there"), b"1");
    assert_eq!(rename("three", "dir", RenameFlags::EXCHANGE), None);
    assert!(at("three/inside").exists() && at("dir").is_file());
}

fn errors(folder: &Path) {
    let at = |name: &str| folder.join(name);
    make(&at("file"));
    fs::create_dir_all(at("dir/sub")).expect("there is room");
    assert_eq!(errno(File::open(at("none"))), Some(Errno::NOENT));
    assert_eq!(errno(File::open(at("file/x"))), Some(Errno::NOTDIR));
    assert_eq!(errno(OpenOptions::new().write(true).open(at("dir"))), Some(Errno::ISDIR));
    assert_eq!(errno(File::create_new(at("file"))), Some(Errno::EXIST));
    assert_eq!(errno(fs::create_dir(at("file"))), Some(Errno::EXIST));
    assert_eq!(errno(fs::create_dir(at("none/x"))), Some(Errno::NOENT));
    assert_eq!(errno(symlink("x", at("dir"))), Some(Errno::EXIST));
    assert_eq!(errno(fs::hard_link(at("dir"), at("x"))), Some(Errno::PERM));
    assert_eq!(errno(fs::hard_link(at("file"), at("dir"))), Some(Errno::EXIST));
    assert_eq!(errno(fs::hard_link(at("none"), at("x"))), Some(Errno::NOENT));
    assert_eq!(errno(fs::remove_file(at("dir"))), Some(Errno::ISDIR));
    assert_eq!(errno(fs::remove_dir(at("file"))), Some(Errno::NOTDIR));
    assert_eq!(errno(fs::remove_dir(at("dir"))), Some(Errno::NOTEMPTY));
    assert_eq!(errno(fs::remove_dir(at("none"))), Some(Errno::NOENT));
    assert_eq!(errno(fs::remove_dir(at("dir/sub/."))), Some(Errno::INVAL));
    assert_eq!(errno(fs::remove_dir(at("dir/sub/.."))), Some(Errno::NOTEMPTY));
    let long = "n".repeat(256);
    assert_eq!(errno(File::create_new(at(&long))), Some(Errno::NAMETOOLONG));
    assert_eq!(errno(fs::create_dir(at(&long))), Some(Errno::NAMETOOLONG));
    assert_eq!(errno(fs::symlink_metadata(at(&long))), Some(Errno::NAMETOOLONG));
    symlink("loop", at("loop")).expect("there is room");
    assert_eq!(errno(File::open(at("loop"))), Some(Errno::LOOP));
    assert_eq!(errno(fs::read_link(at("file"))), Some(Errno::INVAL));
    let file = File::open(at("file")).expect("it is there");
    assert_eq!(errno(file.set_len(5)), Some(Errno::INVAL), "it is open for reading only");
}

fn modes(folder: &Path) {
    let path = folder.join("file");
    make(&path);
    for mode in [0, 0o644, 0o4755, 0o2755, 0o1777, 0o7777] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("we are root");
        assert_eq!(fs::metadata(&path).expect("it is there").mode(), 0o100_000 | mode);
    }
    std::os::unix::fs::chown(&path, Some(1234), Some(4_000_000_000)).expect("we are root");
    let of = fs::metadata(&path).expect("it is there");
    assert_eq!((of.uid(), of.gid()), (1234, 4_000_000_000));
    assert_eq!(of.mode() & 0o6000, 0, "set-user-id is gone with its owner");
    // A write takes it, too.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2775)).expect("we are root");
    let dir = folder.join("dir");
    fs::create_dir(&dir).expect("there is room");
    std::os::unix::fs::chown(&dir, None, Some(77)).expect("we are root");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o2775)).expect("we are root");
    make(&dir.join("file"));
    fs::create_dir(dir.join("sub")).expect("there is room");
    let gid = |name: &str| fs::metadata(dir.join(name)).expect("it is there").gid();
    assert_eq!((gid("file"), gid("sub")), (77, 77));
    assert_eq!(fs::metadata(dir.join("sub")).expect("it is there").mode() & 0o2000, 0o2000);
    let made = rustix::fs::open(
        folder.join("made"),
        rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY,
        Mode::from(0o400),
    );
    let mut made = File::from(made.expect("there is room"));
    made.write_all(b"it was opened for writing when it was made").expect("there is room");
    assert_eq!(made.metadata().expect("it is open").mode() & 0o777, 0o400);
}

fn set_times(path: &Path, atime: (i64, i64), mtime: (i64, i64)) {
    let time = |time: (i64, i64)| Timespec { tv_sec: time.0, tv_nsec: time.1 };
    let times = Timestamps { last_access: time(atime), last_modification: time(mtime) };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("we are root");
}

fn times_set(folder: &Path) {
    let path = folder.join("file");
    make(&path);
    symlink("file", folder.join("link")).expect("there is room");
    for path in [path.clone(), folder.join("link"), folder.to_owned()] {
        for time in
            [(0, 0), (1_234_567_890, 123_456_789), (-5, 300_000_000), (-2_000_000_000, 0), (6_000_000_000, 1)]
        {
            set_times(&path, time, (time.0 + 1, time.1));
            let of = fs::symlink_metadata(&path).expect("it is there");
            assert_eq!((of.atime(), of.atime_nsec()), time);
            assert_eq!((of.mtime(), of.mtime_nsec()), (time.0 + 1, time.1));
        }
    }
    set_times(&path, (0, UTIME_NOW), (5, 0));
    let of = fs::metadata(&path).expect("it is there");
    assert!(of.atime() > 1_600_000_000 && of.mtime() == 5);
}

/// Whether modification and change time have moved, set far back before.
fn touched(path: &Path, do_it: impl FnOnce()) -> (bool, bool) {
    set_times(path, (1_000, 0), (1_000, 0));
    let before = fs::symlink_metadata(path).expect("it is there");
    std::thread::sleep(std::time::Duration::from_millis(15));
    do_it();
    let after = fs::symlink_metadata(path).expect("it is there");
    let change = |of: &fs::Metadata| (of.ctime(), of.ctime_nsec());
    (after.mtime() != 1_000, change(&after) != change(&before))
}

fn times_changed(folder: &Path) {
    let (file, other) = (folder.join("file"), folder.join("other"));
    const MODIFY: (bool, bool) = (true, true);
    const CHANGE: (bool, bool) = (false, true);
    const NONE: (bool, bool) = (false, false);
    assert_eq!(touched(folder, || drop(make(&file))), MODIFY);
    let write = || OpenOptions::new().write(true).open(&file).expect("it is there");
    assert_eq!(touched(&file, || write().write_all(b"bytes").expect("there is room")), MODIFY);
    assert_eq!(touched(folder, || write().write_all(b"bytes").expect("there is room")), NONE);
    assert_eq!(touched(&file, || write().set_len(2).expect("it can be cut")), MODIFY);
    assert_eq!(touched(&file, || drop(fs::read(&file))), NONE);
    assert_eq!(touched(&file, || fs::hard_link(&file, &other).expect("there is room")), CHANGE);
    assert_eq!(touched(folder, || fs::remove_file(&other).expect("it is there")), MODIFY);
    fs::hard_link(&file, &other).expect("there is room");
    assert_eq!(touched(&file, || fs::remove_file(&other).expect("it is there")), CHANGE);
    // Renaming is a change of the file, whatever it is called then; the link is another name of it.
    let third = folder.join("third");
    fs::hard_link(&file, &third).expect("there is room");
    assert_eq!(touched(&third, || fs::rename(&file, &other).expect("it is there")), CHANGE);
    fs::remove_file(&third).expect("it is there");
    assert_eq!(touched(folder, || fs::rename(&other, &file).expect("it is there")), MODIFY);
    let mode = fs::Permissions::from_mode(0o600);
    assert_eq!(touched(&file, || fs::set_permissions(&file, mode).expect("we are root")), CHANGE);
    assert_eq!(touched(folder, || fs::create_dir(&other).expect("there is room")), MODIFY);
    assert_eq!(touched(folder, || fs::remove_dir(&other).expect("it is empty")), MODIFY);
}

fn symlinks(folder: &Path) {
    for len in [1, 59, 60, 61, 255, 1_000] {
        let target: String = (0..len).map(|n| if n % 40 == 39 { '/' } else { 'x' }).collect();
        let path = folder.join(format!("link-{len}"));
        symlink(&target, &path).expect("there is room");
        assert_eq!(fs::read_link(&path).expect("it is there").to_str(), Some(target.as_str()));
        assert_eq!(fs::symlink_metadata(&path).expect("it is there").len(), len);
    }
    fs::write(folder.join("file"), b"through a link").expect("there is room");
    symlink("file", folder.join("short")).expect("there is room");
    assert_eq!(fs::read(folder.join("short")).expect("it leads there"), b"through a link");
}

fn xattrs(folder: &Path) {
    let path = folder.join("file");
    make(&path);
    let mut buf = [0; 4096];
    let set = |name: &str, value: &[u8], flags| rustix::fs::setxattr(&path, name, value, flags).err();
    assert_eq!(set("user.one", b"value", XattrFlags::empty()), None);
    assert_eq!(set("user.one", b"other", XattrFlags::CREATE), Some(Errno::EXIST));
    assert_eq!(set("user.two", b"other", XattrFlags::REPLACE), Some(Errno::NODATA));
    assert_eq!(set("trusted.three", &[3; 300], XattrFlags::CREATE), None);
    assert_eq!(set("user.empty", b"", XattrFlags::CREATE), None);
    assert_eq!(rustix::fs::getxattr(&path, "user.one", &mut buf), Ok(5));
    assert_eq!(&buf[..5], b"value");
    assert_eq!(rustix::fs::getxattr(&path, "trusted.three", &mut buf), Ok(300));
    assert_eq!(rustix::fs::getxattr(&path, "trusted.three", &mut buf[..100]), Err(Errno::RANGE));
    assert_eq!(rustix::fs::getxattr(&path, "user.none", &mut buf), Err(Errno::NODATA));
    assert_eq!(rustix::fs::getxattr(&path, "user.empty", &mut buf), Ok(0));
    let len = rustix::fs::listxattr(&path, &mut buf).expect("it is there");
    let names: BTreeSet<&[u8]> =
        buf[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    assert_eq!(names, BTreeSet::from([b"user.one".as_slice(), b"trusted.three", b"user.empty"]));
    assert_eq!(rustix::fs::removexattr(&path, "user.one").err(), None);
    assert_eq!(rustix::fs::removexattr(&path, "user.one").err(), Some(Errno::NODATA));
    assert!(set("user.large", &[0; 65_536], XattrFlags::empty()).is_some());
    assert_eq!(rustix::fs::getxattr(&path, "trusted.three", &mut buf), Ok(300));
}

/// A file of a mebibyte with a little data within.
fn with_holes(folder: &Path) -> File {
    let file = make(&folder.join("file"));
    file.set_len(1 << 20).expect("a hole is no room");
    file.write_all_at(&[1; 8_192], 409_600).expect("there is room");
    file.sync_all().expect("it can be written");
    file
}

fn hole_at_the_end(folder: &Path) {
    let file = with_holes(folder);
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(500_000)), Err(Errno::NXIO));
}

fn seek_holes(folder: &Path) {
    use rustix::fs::SeekFrom as At;
    let file = with_holes(folder);
    let seek = |to| rustix::fs::seek(&file, to);
    assert_eq!(seek(At::Data(0)), Ok(409_600));
    assert_eq!(seek(At::Data(410_000)), Ok(410_000));
    assert_eq!(seek(At::Hole(0)), Ok(0));
    assert_eq!(seek(At::Hole(409_600)), Ok(417_792));
    assert_eq!(seek(At::Hole(900_000)), Ok(900_000));
    assert_eq!(seek(At::Hole(2 << 20)), Err(Errno::NXIO));
    let before = file.metadata().expect("it is open").blocks();
    assert!((16..=64).contains(&before), "{before}");
}

fn specials(folder: &Path) {
    use rustix::fs::FileType;
    let make = |name: &str, kind, device| {
        rustix::fs::mknodat(CWD, folder.join(name), kind, Mode::from(0o600), device).expect("we are root");
        fs::symlink_metadata(folder.join(name)).expect("it is there")
    };
    assert!(make("fifo", FileType::Fifo, 0).file_type().is_fifo());
    assert!(make("socket", FileType::Socket, 0).file_type().is_socket());
    let device = rustix::fs::makedev(259, 300);
    let of = make("char", FileType::CharacterDevice, device);
    assert!(of.file_type().is_char_device() && of.rdev() == device);
    assert!(make("block", FileType::BlockDevice, device).file_type().is_block_device());
    let fifo = folder.join("fifo");
    let writer = std::thread::spawn(move || fs::write(fifo, b"through the pipe"));
    assert_eq!(fs::read(folder.join("fifo")).expect("it is there"), b"through the pipe");
    writer.join().expect("no panic").expect("it can be written");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it is there");
    entries.map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned()).collect()
}

fn readdir_while_changing(folder: &Path) {
    for n in 0..1_000 {
        make(&folder.join(format!("stays-{n:04}-{}", "s".repeat(n % 50))));
        make(&folder.join(format!("goes-{n:04}")));
    }
    let mut seen = Vec::new();
    for (number, entry) in fs::read_dir(folder).expect("it is there").enumerate() {
        let name = entry.expect("it can be read").file_name().to_string_lossy().into_owned();
        if number < 1_000 {
            let _ = fs::remove_file(folder.join(format!("goes-{:04}", number * 7 % 1_000)));
            make(&folder.join(format!("comes-{number:04}-{}", "c".repeat(number % 60))));
        }
        seen.push(name);
    }
    let stays: Vec<_> = seen.iter().filter(|name| name.starts_with("stays")).collect();
    assert_eq!(stays.len(), 1_000);
    assert_eq!(stays.iter().collect::<BTreeSet<_>>().len(), 1_000);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len(), "something was shown twice");
}

fn many_names(folder: &Path) {
    let name = |n: usize| format!("{n}-{}", "long ".repeat(n % 45));
    for n in 0..3_000 {
        make(&folder.join(name(n)));
    }
    assert_eq!(names(folder).len(), 3_000);
    for n in (0..3_000).filter(|n| n % 3 != 0) {
        fs::remove_file(folder.join(name(n))).expect("it is there");
    }
    let expected: BTreeSet<_> = (0..3_000).filter(|n| n % 3 == 0).map(name).collect();
    assert_eq!(names(folder).into_iter().collect::<BTreeSet<_>>(), expected);
}

fn statfs(folder: &Path) {
    let before = rustix::fs::statvfs(folder).expect("it is mounted");
    assert_eq!(before.f_namemax, 255);
    let file = make(&folder.join("file"));
    file.write_all_at(&vec![1; 1 << 20], 0).expect("there is room");
    file.sync_all().expect("it can be written");
    rustix::fs::syncfs(&file).expect("it can be written");
    let after = rustix::fs::statvfs(folder).expect("it is mounted");
    let taken = (before.f_bfree - after.f_bfree) * before.f_bsize;
    assert!((1 << 20..(1 << 20) + (64 << 10)).contains(&taken), "{taken}");
    assert_eq!(before.f_ffree - after.f_ffree, 1);
}

fn locks(folder: &Path) {
    let path = folder.join("file");
    let (one, other) = (make(&path), File::open(&path).expect("it is there"));
    one.lock().expect("nobody has it");
    assert!(other.try_lock().is_err());
    one.unlock().expect("it is ours");
    other.try_lock().expect("nobody has it");
}

fn large(folder: &Path) {
    let file = make(&folder.join("file"));
    for place in [0, (1 << 31) - 3, (1 << 32) - 3, 10 << 30] {
        file.write_all_at(b"marked", place).expect("there is room");
    }
    let mut bytes = [0; 6];
    for place in [0, (1 << 31) - 3, (1 << 32) - 3, 10 << 30] {
        file.read_exact_at(&mut bytes, place).expect("it is there");
        assert_eq!(&bytes, b"marked");
    }
    file.read_exact_at(&mut bytes, 5 << 30).expect("it is there");
    assert_eq!(bytes, [0; 6]);
    file.set_len(1 << 31).expect("it can be cut");
    file.set_len(1 << 32).expect("it can grow");
    file.read_exact_at(&mut bytes, (1 << 31) - 3).expect("it is there");
    assert_eq!(&bytes, b"mar\0\0\0");
}
