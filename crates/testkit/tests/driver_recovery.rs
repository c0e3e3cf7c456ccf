// SPDX-License-Identifier: MIT OR Apache-2.0
//! Journals that the kernel has left behind: the driver's recovery against the kernel's own.
//!
//! The kernel works on a mounted image, and the image is copied while what it did last is in the log alone, as after a power cut. What our driver shows
//! of one copy has to be what the kernel shows of another, once each has recovered its own, and what is left after unmounting has to be sound.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fsmend_device::{WritableDevice, WritableMemory};
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_ext_format::features::Incompat;
use fsmend_testkit::driver::snapshot::{Snapshot, difference, of_driver, of_kernel};
use fsmend_testkit::driver::{complaint, keep};
use fsmend_testkit::host::{LoopMount, is_root, skip};
use fsmend_testkit::repair::Scratch;
use fsmend_vfs::{FileSystem, Time};

/// Bytes of the images.
const IMAGE_LEN: usize = 64 << 20;

const FAST: &str = "ext4 with fast commits";
const FAST_AND_WHOLE: &str = "ext4 with fast commits and a whole one behind them";

/// A kind of journal: name, what mke2fs is asked for, and how the kernel mounts it.
const KINDS: &[(&str, &[&str], &str)] = &[
    ("ext3", &["-t", "ext3", "-b", "4096"], ""),
    ("ext3 with 1 KiB blocks", &["-t", "ext3", "-b", "1024"], ""),
    ("ext3, data in the journal", &["-t", "ext3", "-b", "4096"], "data=journal"),
    ("ext4", &["-t", "ext4", "-b", "4096"], ""),
    ("ext4 with 1 KiB blocks", &["-t", "ext4", "-b", "1024"], ""),
    ("ext4, data in the journal", &["-t", "ext4", "-b", "4096"], "data=journal"),
    (
        "ext4 without checksums but in the journal",
        &["-t", "ext4", "-O", "^metadata_csum,^64bit"],
        "journal_checksum",
    ),
    (FAST, &["-t", "ext4", "-b", "4096", "-O", "fast_commit", "-J", "size=16"], ""),
    (FAST_AND_WHOLE, &["-t", "ext4", "-b", "4096", "-O", "fast_commit", "-J", "size=16"], ""),
];

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// An empty file system; `None` where mke2fs does not know what is wanted.
fn made(arguments: &[&str]) -> Option<Scratch> {
    let file = Scratch::with(&vec![0; IMAGE_LEN]).unwrap();
    let quick = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    let status = Command::new("mke2fs").args(quick).args(arguments).arg(file.path()).status();
    status.is_ok_and(|status| status.success()).then_some(file)
}

fn point_of(file: &Scratch) -> PathBuf {
    PathBuf::from(format!("{}.mnt", file.path().display()))
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + seed * 13 + at / 251) as u8).collect()
}

/// Files, folders, links and attributes of all kinds.
fn first_work(at: &Path) {
    for folder in 0..12 {
        let place = at.join(format!("folder {folder}"));
        fs::create_dir(&place).unwrap();
        for number in 0..15 {
            let file = place.join(format!("file {number}"));
            fs::write(&file, bytes(number, 100 + number * 1777)).unwrap();
            if number % 4 == 0 {
                fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
                chown(&file, Some(1000 + number as u32), Some(70_000)).unwrap();
            }
        }
        symlink("short", place.join("link")).unwrap();
        symlink("long".repeat(40), place.join("long link")).unwrap();
        fs::hard_link(place.join("file 1"), at.join(format!("name {folder}"))).unwrap();
    }
}

/// What is in the log alone when the image is copied. Returns a file that is open and has no name.
fn last_work(at: &Path) -> File {
    let attribute = |path: &Path, name: &str, value: &[u8]| {
        rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
    };
    for folder in 0..12 {
        let place = at.join(format!("folder {folder}"));
        fs::remove_file(place.join("file 0")).unwrap();
        fs::rename(place.join("file 2"), place.join("file 3")).unwrap();
        fs::rename(place.join("file 4"), at.join(format!("moved {folder}"))).unwrap();
        attribute(&place.join("file 5"), "user.small", b"value");
        attribute(&place.join("file 6"), "user.large", &bytes(folder, 700));
        attribute(&place, "user.folder", &bytes(folder, 40));
        let file = OpenOptions::new().write(true).open(place.join("file 7")).unwrap();
        file.set_len(50 + folder as u64).unwrap();
        file.write_all_at(&bytes(folder, 3000), 1 << 20).unwrap();
        fs::create_dir(place.join("below")).unwrap();
        fs::write(place.join("below/new"), bytes(folder, 9000)).unwrap();
    }
    for number in 0..200 {
        fs::write(at.join(format!("folder 1/one of many names, number {number}")), b"").unwrap();
    }
    let nameless = File::create_new(at.join("nameless")).unwrap();
    nameless.write_all_at(&bytes(3, 200_000), 0).unwrap();
    nameless.sync_all().unwrap();
    fs::remove_file(at.join("nameless")).unwrap();
    // With these everything before them is in the log; where there are fast commits, what they write may be such.
    for number in 0..5 {
        let file = File::create_new(at.join(format!("last {number}"))).unwrap();
        file.write_all_at(&bytes(number, 5000), 0).unwrap();
        file.sync_all().unwrap();
    }
    fs::rename(at.join("last 1"), at.join("last but renamed")).unwrap();
    File::open(at.join("last 2")).unwrap().sync_all().unwrap();
    let again = OpenOptions::new().write(true).open(at.join("last 4")).unwrap();
    again.write_all_at(&bytes(9, 20_000), 4000).unwrap();
    again.sync_all().unwrap();
    nameless
}

/// The image as a power cut would leave it.
fn cut_off(arguments: &[&str], options: &str, ends_whole: bool) -> Option<Vec<u8>> {
    let file = made(arguments)?;
    let mount = LoopMount::new(file.path(), &point_of(&file), "ext4", options).ok()?;
    first_work(mount.path());
    // All of this is at home, too.
    rustix::fs::syncfs(File::open(mount.path()).unwrap()).unwrap();
    let nameless = last_work(mount.path());
    if ends_whole {
        // A change of attributes is more than a fast commit can hold.
        let file = File::open(mount.path().join("last 0")).unwrap();
        rustix::fs::fsetxattr(&file, "user.late", b"value", rustix::fs::XattrFlags::empty()).unwrap();
        file.sync_all().unwrap();
    }
    let image = fs::read(file.path()).unwrap();
    drop(nameless);
    mount.unmount().unwrap();
    Some(image)
}

/// What the kernel shows after its own recovery.
fn kernel_recovers(image: &[u8]) -> Snapshot {
    let file = Scratch::with(image).unwrap();
    let mount = LoopMount::new(file.path(), &point_of(&file), "ext4", "").unwrap();
    let seen = of_kernel(mount.path());
    mount.unmount().unwrap();
    seen.unwrap()
}

/// The same image for those who do not know that there is something in the log.
fn unaware(image: &[u8]) -> Vec<u8> {
    let mut image = image.to_vec();
    image[1024 + 0x60] &= !(Incompat::RECOVER.bits() as u8);
    let sum = fsmend_ext_format::checksum::crc32c(u32::MAX, &image[1024..2044]);
    image[2044..2048].copy_from_slice(&sum.to_le_bytes());
    image
}

fn seen_by_driver(device: &Arc<WritableMemory>, options: MountOptions) -> Result<(Snapshot, Ext), String> {
    let device = Arc::clone(device) as Arc<dyn WritableDevice>;
    let mut fs = Ext::mount(device, options).map_err(|error| error.to_string())?;
    let seen = of_driver(&mut fs).map_err(|error| format!("{error}: {:?}", fs.trouble()))?;
    Ok((seen, fs))
}

#[test]
fn what_the_kernel_left_in_the_log_is_recovered_as_the_kernel_does_it() {
    if !is_root() {
        return skip("driver recovery", "only the superuser may mount images");
    }
    let mut wrong = Vec::new();
    for (name, arguments, options) in KINDS {
        let Some(image) = cut_off(arguments, options, *name == FAST_AND_WHOLE) else {
            skip(name, "mke2fs or the kernel of this machine does not know it");
            continue;
        };
        if let Err(what) = judge(&image, *name == FAST) {
            keep(&name.replace(' ', "-"), &image);
            wrong.push(format!("{name}: {what}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Fast commits behind the last transaction are replayed by rules of their own. Our driver does not know them, says so, and touches nothing.
fn refused(image: &[u8], now: i64) -> Result<(), String> {
    let device = Arc::new(WritableMemory::new("image", image.to_vec()));
    match seen_by_driver(&device, MountOptions::new(Time::at(now))) {
        Ok(_) => Err("it was refused for reading, and mounted for writing".to_owned()),
        Err(_) if device.bytes() != image => Err("it was refused, and written".to_owned()),
        Err(why) if why.contains("fast commits") => Ok(()),
        Err(why) => Err(why),
    }
}

fn judge(image: &[u8], may_be_refused: bool) -> Result<(), String> {
    let now = now();
    let device = Arc::new(WritableMemory::new("reader", image.to_vec()));
    let (read, mut reader) = match seen_by_driver(&device, MountOptions::read_only(Time::at(now))) {
        Ok(seen) => seen,
        Err(why) if may_be_refused && why.contains("fast commits") => return refused(image, now),
        Err(why) => return Err(why),
    };
    reader.unmount(Time::at(now)).map_err(|error| error.to_string())?;
    let theirs = kernel_recovers(image);
    // Without the log there is something else, or the comparison would say nothing.
    let old = Arc::new(WritableMemory::new("unaware", unaware(image)));
    if let Ok((old, _)) = seen_by_driver(&old, MountOptions::read_only(Time::at(now)))
        && difference(&old, &theirs).is_none()
    {
        return Err("nothing was in the log alone".to_owned());
    }
    if device.bytes() != image {
        return Err("mounted for reading only, and written".to_owned());
    }
    let device = Arc::new(WritableMemory::new("image", image.to_vec()));
    let (ours, mut fs) = seen_by_driver(&device, MountOptions::new(Time::at(now)))?;
    fs.unmount(Time::at(now)).map_err(|error| error.to_string())?;
    for (how, seen) in [("for reading only", read), ("for writing", ours)] {
        if let Some(difference) = difference(&seen, &theirs) {
            return Err(format!("mounted {how}: {difference}"));
        }
    }
    complaint(&device.bytes(), now).map_err(|error| error.to_string())?.map_or(Ok(()), Err)
}
