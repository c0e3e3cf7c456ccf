// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that not every program makes: holes, flags, access control lists, whiteouts. Each through the kernel, and where it can do
//! the same, beside its own ext4.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use fsmend_base::SeededRandom;
use fsmend_ext_driver::mkfs::Kind;
use fsmend_mount::Options;
use fsmend_testkit::host::{LoopMount, run};
use rustix::fs::{
    CWD, FallocateFlags, RenameFlags, XattrFlags, fallocate, getxattr, renameat_with, setxattr,
};
use rustix::io::Errno;
use support::{Folder, Guarded, assert_sound, made, may_mount};

const BYTES: usize = 64 << 20;
const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// Does the same in a new file system of each kind, and looks for damage afterwards.
fn on_each_kind(name: &str, case: impl Fn(&Path, Kind)) {
    for kind in [Kind::Ext2, Kind::Ext3, Kind::Rext3, Kind::Ext4] {
        on(name, kind, &case);
    }
}

fn on(name: &str, kind: Kind, case: &impl Fn(&Path, Kind)) {
    let folder = Folder::new(name);
    let (device, served) = made(kind, BYTES);
    let options = Options { allow_other: true, ..Options::default() };
    let mounted = Guarded::new(served, &folder.sub("here"), &options);
    case(&mounted.place, kind);
    mounted.unmount();
    assert_sound(&device);
}

fn on_the_kernels_ext4(name: &str, case: impl Fn(&Path)) {
    let folder = Folder::new(name);
    let image = folder.0.join("image");
    File::create(&image).and_then(|file| file.set_len(BYTES as u64)).unwrap();
    run("mke2fs", ["-q", "-t", "ext4", image.to_str().unwrap()]).unwrap();
    let mounted = LoopMount::new(&image, &folder.sub("there"), "ext4", "").unwrap();
    case(mounted.path());
    mounted.unmount().unwrap();
}

fn opened(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// A file as it should be, changed by random writes, holes, zeroed ranges and cuts.
fn random_holes(place: &Path, seed: u64) {
    let path = place.join("holes");
    let file = opened(&path);
    let mut model: Vec<u8> = Vec::new();
    let mut random = SeededRandom::new(seed);
    for step in 0..400_u32 {
        let (start, len) = (random.below(3 << 20), 1 + random.below(300_000));
        let end = start + len;
        let (from, to) = (start as usize, end as usize);
        match random.below(8) {
            0..4 => {
                let bytes = vec![1 + (step % 250) as u8; len as usize];
                file.write_all_at(&bytes, start).unwrap();
                model.resize(model.len().max(to), 0);
                model[from..to].copy_from_slice(&bytes);
            }
            4 | 5 => {
                fallocate(&file, PUNCH, start, len).unwrap();
                let end = to.min(model.len());
                model[from.min(end)..end].fill(0);
            }
            6 => {
                fallocate(&file, FallocateFlags::ZERO_RANGE, start, len).unwrap();
                model.resize(model.len().max(to), 0);
                model[from..to].fill(0);
            }
            _ => {
                file.set_len(start).unwrap();
                model.resize(from, 0);
            }
        }
    }
    assert!(fs::read(&path).unwrap() == model, "seed {seed}: other contents");
    // Single blocks, one in two, so that the map gets many pieces; then all of it.
    file.write_all_at(&vec![7; 4 << 20], 0).unwrap();
    for block in (0..1024).step_by(2) {
        fallocate(&file, PUNCH, block * 4096, 4096).unwrap();
    }
    file.sync_all().unwrap();
    let half = file.metadata().unwrap().blocks();
    assert!((512 * 8..620 * 8).contains(&half), "{half} sectors for half of 4 MiB");
    fallocate(&file, PUNCH, 0, 64 << 20).unwrap();
    file.sync_all().unwrap();
    let left = file.metadata().unwrap().blocks();
    assert!(left <= 8, "{left} sectors left of a file that is one hole");
    assert_eq!(file.metadata().unwrap().len(), (4 << 20).max(model.len() as u64));
}

#[test]
fn holes_are_punched_and_ranges_zeroed_as_on_the_kernels_ext4() {
    if !may_mount("holes") {
        return;
    }
    on_the_kernels_ext4("holes-kernel", |place| random_holes(place, 1));
    on_each_kind("holes", |place, kind| random_holes(place, 1 + kind as u64));
}

#[test]
fn room_is_allocated_ahead_also_where_blocks_cannot_be_marked_as_unwritten() {
    if !may_mount("allocated") {
        return;
    }
    on_each_kind("allocated", |place, kind| {
        let file = opened(&place.join("ahead"));
        file.write_all_at(b"begin", 0).unwrap();
        fallocate(&file, FallocateFlags::empty(), 100_000, 500_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 600_000);
        file.sync_all().unwrap();
        let sectors = file.metadata().unwrap().blocks();
        assert!((123 * 8..130 * 8).contains(&sectors), "{kind:?}: {sectors} sectors");
        let mut bytes = vec![1; 600_000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes.starts_with(b"begin") && bytes[5..].iter().all(|byte| *byte == 0));
        // Blocks behind the end only where the format knows them.
        let behind = fallocate(&file, FallocateFlags::KEEP_SIZE, 600_000, 100_000);
        assert_eq!(behind, if kind == Kind::Ext4 { Ok(()) } else { Err(Errno::OPNOTSUPP) });
        assert_eq!(fallocate(&file, FallocateFlags::empty(), 0, 1 << 30), Err(Errno::NOSPC));
        // The kernel's FUSE passes no others.
        let collapse = fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
        assert_eq!(collapse, Err(Errno::OPNOTSUPP));
    });
}

fn flags_of(path: &Path) -> String {
    let out = run("lsattr", ["-d", path.to_str().unwrap()]).unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let flags = text.split_whitespace().next().unwrap().to_owned();
    // How the file is mapped, others decide.
    flags.replace(['e', '-'], "")
}

fn flags_are_kept(place: &Path) {
    let path = place.join("file");
    fs::write(&path, "contents").unwrap();
    let name = path.to_str().unwrap();
    run("chattr", ["+dA", name]).unwrap();
    assert_eq!(flags_of(&path), "dA");
    run("chattr", ["+i", name]).unwrap();
    assert_eq!(flags_of(&path), "idA");
    assert!(fs::write(&path, "other").is_err());
    assert!(fs::remove_file(&path).is_err());
    run("chattr", ["-i", name]).unwrap();
    run("chattr", ["+a", name]).unwrap();
    assert!(fs::remove_file(&path).is_err());
    run("chattr", ["-dAa", name]).unwrap();
    assert_eq!(flags_of(&path), "");
    fs::remove_file(&path).unwrap();
    fs::create_dir(place.join("folder")).unwrap();
    run("chattr", ["+T", place.join("folder").to_str().unwrap()]).unwrap();
    assert_eq!(flags_of(&place.join("folder")), "T");
}

#[test]
fn flags_are_set_and_seen_with_chattr_and_lsattr() {
    if !may_mount("flags") {
        return;
    }
    on_the_kernels_ext4("flags-kernel", flags_are_kept);
    on_each_kind("flags", |place, _| flags_are_kept(place));
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

fn list_of(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; 200];
    let len = getxattr(path, name, &mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Whether user 1000 can read the file.
fn is_readable_to_user(path: &Path) -> bool {
    as_user(&["cat"], path)
}

/// Whether a program ends well that user 1000 runs with `path` as its last word.
fn as_user(words: &[&str], path: &Path) -> bool {
    let user = ["--reuid", "1000", "--regid", "1000", "--clear-groups"];
    Command::new("setpriv").args(user).args(words).arg(path).output().unwrap().status.success()
}

fn lists_are_obeyed(place: &Path) {
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
    let path = place.join("secret");
    fs::write(&path, "secret").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!is_readable_to_user(&path));
    setxattr(&path, ACCESS, &list([6, 4, 0, 4, 0]), XattrFlags::empty()).unwrap();
    assert_eq!(mode(&path), 0o640, "the group bits show the mask");
    assert!(is_readable_to_user(&path));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(list_of(&path, ACCESS), Ok(list([6, 4, 0, 0, 0])), "chmod changes the mask");
    assert!(!is_readable_to_user(&path));
    // A list that the mode says as well is not kept.
    let plain: Vec<u8> = [
        &[2, 0, 0, 0][..],
        &list([6, 0, 4, 0, 0])[4..12],
        &list([6, 0, 4, 0, 0])[20..28],
        &list([0; 5])[36..44],
    ]
    .concat();
    setxattr(&path, ACCESS, &plain, XattrFlags::empty()).unwrap();
    assert_eq!(list_of(&path, ACCESS), Err(Errno::NODATA));
    assert_eq!(mode(&path), 0o640);
    assert!(setxattr(&path, ACCESS, &list([6, 4, 0, 4, 9]), XattrFlags::empty()).is_err());
    lists_are_inherited(place);
}

fn lists_are_inherited(place: &Path) {
    let folder = place.join("folder");
    fs::create_dir(&folder).unwrap();
    setxattr(&folder, DEFAULT, &list([7, 5, 5, 5, 0]), XattrFlags::empty()).unwrap();
    let (file, below) = (folder.join("file"), folder.join("below"));
    File::create(&file).unwrap().write_all(b"text").unwrap();
    fs::create_dir(&below).unwrap();
    assert_eq!(
        (mode(&file), mode(&below)),
        (0o640, 0o750),
        "the umask does not count where a default list is"
    );
    assert_eq!(list_of(&file, ACCESS), Ok(list([6, 5, 5, 4, 0])));
    assert_eq!(list_of(&below, DEFAULT), Ok(list([7, 5, 5, 5, 0])));
    let outside = place.join("outside");
    File::create(&outside).unwrap();
    assert_eq!(mode(&outside), 0o644, "elsewhere it does");
    assert!(setxattr(&outside, DEFAULT, &list([7, 5, 5, 5, 0]), XattrFlags::empty()).is_err());
}

#[test]
fn access_control_lists_are_set_obeyed_and_inherited() {
    if !may_mount("lists") {
        return;
    }
    on_the_kernels_ext4("lists-kernel", lists_are_obeyed);
    on_each_kind("lists", |place, _| lists_are_obeyed(place));
}

fn renames(place: &Path) {
    let (one, other) = (place.join("one"), place.join("other"));
    let moved = |from: &Path, to: &Path, how| renameat_with(CWD, from, CWD, to, how);
    fs::write(&one, "1").unwrap();
    fs::write(&other, "2").unwrap();
    assert_eq!(moved(&one, &other, RenameFlags::NOREPLACE), Err(Errno::EXIST));
    moved(&one, &other, RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(&one).unwrap(), b"2");
    moved(&one, &other, RenameFlags::WHITEOUT).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"2");
    let left = fs::symlink_metadata(&one).unwrap();
    assert!(left.file_type().is_char_device() && left.rdev() == 0, "a whiteout under the old name");
    fs::remove_file(&one).unwrap();
    fs::create_dir(place.join("folder")).unwrap();
    moved(&place.join("folder"), &place.join("new"), RenameFlags::WHITEOUT).unwrap();
    assert!(fs::symlink_metadata(place.join("folder")).unwrap().file_type().is_char_device());
}

#[test]
fn names_are_exchanged_kept_and_left_as_whiteouts() {
    if !may_mount("renames") {
        return;
    }
    on_the_kernels_ext4("renames-kernel", renames);
    on_each_kind("renames", |place, _| renames(place));
}

/// The mode of a new file with `mode` after something was done to it.
fn mode_after(place: &Path, mode_before: u32, done: impl FnOnce(&Path)) -> u32 {
    let path = place.join("file");
    let _ = fs::remove_file(&path);
    fs::write(&path, "some text").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode_before)).unwrap();
    done(&path);
    mode(&path)
}

fn bits_go(place: &Path) {
    fs::set_permissions(place, fs::Permissions::from_mode(0o777)).unwrap();
    let give = |uid: Option<u32>| move |path: &Path| std::os::unix::fs::chown(path, uid, None).unwrap();
    assert_eq!(mode_after(place, 0o6755, give(Some(7))), 0o755, "given away");
    assert_eq!(mode_after(place, 0o6755, give(None)), 0o755, "given to the one who has it");
    assert_eq!(mode_after(place, 0o2745, give(Some(7))), 0o2745, "no group runs it");
    let write = |path: &Path| opened(path).write_all_at(b"other", 0).unwrap();
    assert_eq!(mode_after(place, 0o6777, write), 0o6777, "the superuser may write");
    let cut = |path: &Path| opened(path).set_len(3).unwrap();
    assert_eq!(mode_after(place, 0o6777, cut), 0o6777, "and cut");
    let by_user = |words: &'static [&'static str]| move |path: &Path| assert!(as_user(words, path));
    assert_eq!(mode_after(place, 0o6777, by_user(&["cat"])), 0o6777, "reading changes nothing");
    assert_eq!(mode_after(place, 0o6777, by_user(&["truncate", "-s", "3"])), 0o777, "cut by others");
    assert_eq!(mode_after(place, 0o6777, by_user(&["tee", "-a"])), 0o6777, "nothing was written");
    let shell = ["sh", "-c", "echo more >> \"$0\""];
    assert_eq!(mode_after(place, 0o6777, |path| assert!(as_user(&shell, path))), 0o777, "written by others");
    let folder = place.join("folder");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o2755)).unwrap();
    std::os::unix::fs::chown(&folder, Some(7), Some(7)).unwrap();
    assert_eq!(mode(&folder), 0o2755, "of a directory the bit means something else");
}

#[test]
fn bits_that_give_rights_go_when_a_file_is_written_by_others_or_given_away() {
    if !may_mount("bits") {
        return;
    }
    on_the_kernels_ext4("bits-kernel", bits_go);
    on("bits", Kind::Ext4, &|place, _| bits_go(place));
}

/// What FUSE, or the library that speaks it, cannot carry. When this fails, docs/mount.md has to say so.
#[test]
fn what_the_documentation_says_cannot_be_done_is_refused() {
    if !may_mount("refused") {
        return;
    }
    on_each_kind("refused", |place, _| {
        let unnamed = rustix::fs::open(
            place,
            rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::WRONLY,
            rustix::fs::Mode::RUSR,
        );
        assert_eq!(unnamed.map(|_| ()), Err(Errno::OPNOTSUPP));
        let birth = fs::metadata(place).unwrap().created();
        assert_eq!(birth.map_err(|error| error.kind()).err(), Some(io::ErrorKind::Unsupported));
    });
}
