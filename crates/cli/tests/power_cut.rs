// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel works on a sound file system, and the power fails during any of its requests: that is no damage, whatever the features are.
//!
//! A loop device on a file that records what is written to it takes the mount; what was recorded is played to a simulated disk up to some request, of
//! whose unsynchronised sectors any may be lost. `FSMEND_KERNEL_CUTS=500` cuts so often at each kind of work; `FSMEND_KERNEL_KIND=quota` takes the kinds
//! with that word in their name.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/images.rs"]
mod images;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fsmend_base::SeededRandom;
use fsmend_device::WritableDevice;
use fsmend_disksim::{Machine, SimDisk};
use fsmend_mount::recorded::{Change, RecordedFile};
use fsmend_testkit::contents::{Content, fill};
use fsmend_testkit::driver::{damage_after_crash, keep};
use fsmend_testkit::host::{self, LoopMount};
use images::Folder;

/// Cuts of each piece of work, unless the environment wants more.
const CUTS: u64 = 8;
/// Requests at the beginning and at the end of a mount.
const ENDS: u64 = 60;

/// A kind of file system: name, bytes, what mke2fs is asked for, and how the kernel mounts it.
struct Kind(&'static str, u64, &'static str, &'static str);

const KINDS: &[Kind] = &[
    Kind("ext3-1k", 24 << 20, "-t ext3 -b 1024", ""),
    Kind("ext3-data-journal", 48 << 20, "-t ext3 -b 4096", "data=journal"),
    Kind(
        "ext3-writeback-no-index",
        24 << 20,
        "-t ext3 -b 1024 -O ^dir_index,^resize_inode",
        "data=writeback",
    ),
    Kind("ext4-4k", 64 << 20, "-t ext4 -b 4096", ""),
    Kind("ext4-1k-flex", 32 << 20, "-t ext4 -b 1024 -G 2 -g 2048", "nodelalloc"),
    Kind("ext4-data-journal", 24 << 20, "-t ext4 -b 1024", "data=journal"),
    Kind("uninit", 32 << 20, "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg -g 4096", "journal_checksum"),
    Kind(
        "no-checksums",
        32 << 20,
        "-t ext4 -b 1024 -O ^metadata_csum,^uninit_bg,^64bit",
        "data=writeback,journal_async_commit",
    ),
    Kind(
        "lazy",
        64 << 20,
        "-t ext4 -b 1024 -g 4096 -E lazy_itable_init=1,lazy_journal_init=1",
        "init_itable=0",
    ),
    Kind("orphan-list", 24 << 20, "-t ext4 -b 1024 -O ^orphan_file", ""),
    Kind("orphan-file", 24 << 20, "-t ext4 -b 1024 -O orphan_file", ""),
    Kind("fast-commit", 64 << 20, "-t ext4 -b 4096 -O fast_commit -J size=8", ""),
    Kind("fast-commit-1k", 32 << 20, "-t ext4 -b 1024 -O fast_commit,inline_data -J size=4", ""),
    Kind("quota", 32 << 20, "-t ext4 -b 1024 -O quota,project", "prjquota"),
    Kind("inline", 24 << 20, "-t ext4 -b 1024 -O inline_data -I 512", ""),
    Kind("ea-inode", 24 << 20, "-t ext4 -b 1024 -O ea_inode", ""),
    Kind("bigalloc", 64 << 20, "-t ext4 -b 1024 -O bigalloc -C 8192", ""),
    Kind("bigalloc-quota", 64 << 20, "-t ext4 -b 1024 -O bigalloc,quota -C 8192", ""),
    Kind("mmp", 24 << 20, "-t ext4 -b 1024 -O mmp -E mmp_update_interval=1", ""),
    Kind("meta-bg", 64 << 20, "-t ext4 -b 1024 -O meta_bg,^resize_inode -g 2048", ""),
    Kind("large-dir", 24 << 20, "-t ext4 -b 1024 -O large_dir,encrypt,stable_inodes", ""),
    Kind("casefold", 24 << 20, "-t ext4 -b 1024 -O casefold,verity", ""),
    Kind(
        "sparse-super2",
        32 << 20,
        "-t ext4 -b 1024 -g 4096 -O sparse_super2,^resize_inode,metadata_csum_seed",
        "",
    ),
    Kind("small-inodes", 24 << 20, "-t ext4 -b 1024 -I 128", ""),
];

fn cuts() -> u64 {
    std::env::var("FSMEND_KERNEL_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(CUTS)
}

fn may_mount(test: &str) -> bool {
    let may = host::is_root() && Path::new("/dev/fuse").exists();
    if !may {
        host::skip(test, "mounting takes the superuser and /dev/fuse");
    }
    may && images::have(test, &["mke2fs", "losetup"])
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// What the kernel writes while `work` is done on a mount of `image`; `None` where it does not mount it.
fn recorded(folder: &Folder, image: Vec<u8>, options: &str, work: impl FnOnce(&Path)) -> Option<Vec<Change>> {
    let (shown, point) = (folder.path("shown"), folder.path("mounted"));
    fs::create_dir_all(&shown).unwrap();
    let file = RecordedFile::mount(image, &shown).unwrap();
    let mount = LoopMount::new(&file.path(), &point, "ext4", options).ok()?;
    work(mount.path());
    mount.unmount().unwrap();
    Some(file.into_changes())
}

/// An empty file system; `None` where mke2fs does not know what is wanted.
fn made(folder: &Folder, kind: &Kind) -> Option<Vec<u8>> {
    let path = folder.path("made");
    File::create(&path).unwrap().set_len(kind.1).unwrap();
    let arguments = ["-q", "-F"].into_iter().chain(kind.2.split_whitespace());
    host::run("mke2fs", arguments.chain([path.to_str().unwrap()])).ok()?;
    let image = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    Some(image)
}

/// Makes, changes and removes what an ordinary day has; much of it is synchronised.
fn a_day(at: &Path) {
    // A full file system says so here; it is a sound one all the same.
    let sync = || {
        let _ = rustix::fs::syncfs(File::open(at).unwrap());
    };
    let bytes =
        |seed: usize, len: usize| -> Vec<u8> { (0..len).map(|at| (at * 7 + seed * 13) as u8).collect() };
    let contents = [
        Content::Basic,
        Content::Entries(150),
        Content::Nested(4),
        Content::Fragmented,
        Content::HardLinks,
        Content::Symlinks,
        Content::Attributes,
        Content::Owners,
        Content::Tiny,
    ];
    for content in contents {
        fill(at, &[content]).unwrap_or_else(|error| panic!("{content:?}: {error}"));
        sync();
    }
    // Not every kind can.
    let _ = fill(at, &[Content::Preallocated]);
    sync();
    let _ = fill(at, &[Content::Punched]);
    sync();
    // Open files without a name, some of them large.
    let mut open = Vec::new();
    for number in 0..12_usize {
        let path = at.join(format!("orphan {number}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all_at(&bytes(number, 3000), (number as u64) << 18).unwrap();
        if number % 3 == 0 {
            for piece in 0..40 {
                file.write_all_at(&bytes(piece, 1500), (piece as u64) * 9000).unwrap();
            }
        }
        file.sync_data().unwrap();
        fs::remove_file(&path).unwrap();
        open.push(file);
    }
    sync();
    // Cut, in several ways, and written again.
    for number in 0..10_u64 {
        let path = at.join(format!("cut {number}"));
        fs::write(&path, bytes(number as usize, 150_000)).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.sync_all().unwrap();
        file.set_len(number * 7777).unwrap();
        if number % 2 == 0 {
            file.sync_all().unwrap();
            file.write_all_at(&bytes(3, 5000), number * 20_000).unwrap();
        }
    }
    sync();
    open.truncate(5);
    for number in 0..30_usize {
        let path = at.join(format!("fast {number}"));
        let file = File::create(&path).unwrap();
        file.write_all_at(&bytes(number, 700 * number), 0).unwrap();
        file.sync_all().unwrap();
        if number % 3 == 1 {
            fs::rename(&path, at.join(format!("fast {}", number - 1))).unwrap();
        } else if number % 4 == 3 {
            fs::remove_file(&path).unwrap();
        }
    }
    let _ = fs::remove_dir_all(at.join("entries"));
    let _ = fs::remove_dir_all(at.join("fragmented"));
    sync();
    drop(open);
}

/// The image with the changes up to `cut` in it, of which any that were not synchronised may be lost.
fn cut_off(image: &Arc<Vec<u8>>, changes: &[Change], cut: u64, seed: u64) -> Vec<u8> {
    let machine = Machine::new(seed);
    let disk = SimDisk::new("disk", &machine, Arc::clone(image));
    machine.cut_power_at(cut);
    for change in changes {
        let done = match change {
            Change::Write { offset, bytes } => disk.write_at(*offset, bytes),
            Change::Sync => disk.sync(),
        };
        if done.is_err() {
            break;
        }
    }
    machine.restart();
    disk.forget_faults();
    disk.bytes()
}

struct Sweep<'a> {
    name: String,
    image: Arc<Vec<u8>>,
    changes: &'a [Change],
    wrong: &'a mut Vec<String>,
}

impl Sweep<'_> {
    /// Cuts here and there, most often near the beginning and the end, where little happens and much matters. Returns an image from in between.
    fn run(&mut self) -> Vec<u8> {
        let (count, wanted) = (self.changes.len() as u64, cuts());
        let mut random = SeededRandom::new(count);
        let mut between = Vec::new();
        for number in 0..wanted {
            let near = count.min(ENDS);
            let cut = match number % 4 {
                0 => random.below(near),
                1 => count - near + random.below(near),
                _ => random.below(count),
            };
            let image = cut_off(&self.image, self.changes, cut, random.next_u64());
            if let Some(said) = damage(&image) {
                let case = format!("{}-{cut}", self.name);
                keep(&case, &image);
                self.wrong.push(format!("{case} of {count}: {said}"));
            }
            if number % 4 == 2 {
                between = image;
            }
        }
        between
    }
}

/// What a check calls damage. The block of multiple-mount protection has two sectors and is in no journal: when it is torn, the kernel refuses to mount.
fn damage(image: &[u8]) -> Option<String> {
    let said = damage_after_crash(image, now())?;
    said.lines().any(|line| !line.starts_with("ext.mmp.checksum ")).then_some(said)
}

#[test]
fn a_power_cut_while_the_kernel_works_is_never_called_damage() {
    const TEST: &str = "a_power_cut_while_the_kernel_works_is_never_called_damage";
    if !may_mount(TEST) {
        return;
    }
    let folder = Folder::new("power-cut");
    let wanted = std::env::var("FSMEND_KERNEL_KIND").unwrap_or_default();
    let mut wrong = Vec::new();
    for kind in KINDS.iter().filter(|kind| kind.0.contains(&wanted)) {
        let Some(image) = made(&folder, kind) else {
            host::skip(kind.0, "mke2fs of this machine does not know it");
            continue;
        };
        let Some(changes) = recorded(&folder, image.clone(), kind.3, a_day) else {
            host::skip(kind.0, "the kernel of this machine does not mount it");
            continue;
        };
        assert!(changes.contains(&Change::Sync), "{}: nothing was flushed", kind.0);
        let (name, image) = (kind.0.to_owned(), Arc::new(image));
        let crashed = Sweep { name: name.clone(), image, changes: &changes, wrong: &mut wrong }.run();
        // Recovery is work of the kernel, too. With multiple-mount protection it begins with half a minute of waiting. A replay of fast commits
        // leaves wrong counts and lost blocks itself, and gives up where the room for them is full.
        if kind.0 == "mmp" && cuts() == CUTS || kind.2.contains("fast_commit") {
            continue;
        }
        let Some(changes) = recorded(&folder, crashed.clone(), kind.3, |_| ()) else {
            wrong.push(format!("{name}: the kernel does not mount what a cut leaves"));
            keep(&format!("{name}-refused"), &crashed);
            continue;
        };
        let (name, image) = (format!("{name}-recovery"), Arc::new(crashed));
        Sweep { name, image, changes: &changes, wrong: &mut wrong }.run();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A file is made in a directory that lives in its inode, and fsync writes a fast commit: its name is in that commit alone. Before, a check left the name out and called the file unattached.
#[test]
fn a_fast_commit_brings_names_into_directories_that_live_in_their_inodes() {
    const TEST: &str = "a_fast_commit_brings_names_into_directories_that_live_in_their_inodes";
    if !may_mount(TEST) {
        return;
    }
    let folder = Folder::new("fast-commit-inline");
    let kind = KINDS.iter().find(|kind| kind.0 == "fast-commit-1k").unwrap();
    let Some(image) = made(&folder, kind) else {
        return host::skip(TEST, "mke2fs of this machine does not know fast commits");
    };
    let file = folder.path("image");
    fs::write(&file, image).unwrap();
    let Ok(mount) = LoopMount::new(&file, &folder.path("at"), "ext4", "") else {
        return host::skip(TEST, "the kernel of this machine does not mount it");
    };
    let directory = mount.path().join("directory");
    fs::create_dir(&directory).unwrap();
    rustix::fs::syncfs(File::open(mount.path()).unwrap()).unwrap();
    for (name, len) in [("one", 0), ("two", 160_000)] {
        fs::write(directory.join(name), vec![1; len]).unwrap();
        File::open(directory.join(name)).unwrap().sync_all().unwrap();
    }
    let crashed = fs::read(&file).unwrap();
    mount.unmount().unwrap();
    assert_eq!(damage(&crashed), None);
}
