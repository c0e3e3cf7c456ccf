// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kill or a power cut while a file system is mounted or unmounted leaves a sound file system.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{self, File};
use std::path::PathBuf;

use fsmend_ext_driver::mkfs::Kind;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::superblock::{EXT_MAGIC as MAGIC, RawSuperblock, SUPERBLOCK_SIZE};
use fsmend_testkit::driver::mounting::{Met, Mounting, killed};
use fsmend_testkit::driver::{BASES, Base, FOREIGN, keep, made_by_mke2fs};
use fsmend_testkit::host::{LoopMount, is_root, skip};
use fsmend_testkit::repair::Scratch;
use zerocopy::{FromBytes, IntoBytes};

/// Every kind that has a journal, small.
fn journaled() -> impl Iterator<Item = Base> {
    let ours = BASES.iter().filter(|base| base.kind != Kind::Ext2).map(|base| (base, 12 << 20));
    let theirs = [&FOREIGN[1], &FOREIGN[2], &FOREIGN[7]].into_iter().map(|base| (base, 24 << 20));
    ours.chain(theirs).map(|(base, bytes)| Base { bytes: base.bytes.min(bytes), ..*base })
}

fn sweep(name: &str, image: &[u8], seeds: u64) -> Met {
    let mounting = Mounting::of(image.to_vec()).unwrap_or_else(|what| panic!("{name}: {what}"));
    let mut all = Met::default();
    for seed in 1..=seeds {
        let met = mounting.sweep(seed).unwrap_or_else(|what| {
            keep(name, image);
            panic!("{name}: {what}")
        });
        all.cuts += met.cuts;
        all.torn += met.torn;
    }
    all
}

#[test]
fn a_kill_in_a_mount_or_unmount_of_a_clean_file_system_leaves_no_damage() {
    for base in journaled() {
        let image = base.make().unwrap().bytes();
        let this = sweep(base.name, &image, 1);
        assert!(this.cuts >= 16, "{}: {this:?}", base.name);
    }
}

#[test]
fn a_kill_in_a_mount_after_a_crash_leaves_no_damage() {
    let mut torn = 0;
    let chosen = ["ext3-4k", "ext4-1k", "rext3-4k", "all-of-it"];
    for base in journaled().filter(|base| chosen.contains(&base.name)) {
        let image = killed(&base).unwrap();
        let met = sweep(&format!("{}-killed", base.name), &image, 1);
        torn += met.torn;
        assert!(met.cuts >= 10, "{}: {met:?}", base.name);
    }
    assert!(torn > 0, "the superblock was never torn");
}

/// Older versions of this driver logged superblocks without the flag. It stays on the disk until the log is at home.
#[test]
fn a_kill_while_the_log_of_an_older_version_is_replayed_leaves_no_damage() {
    let base = journaled().find(|base| base.name == "ext3-4k").unwrap();
    let mut image = killed(&base).unwrap();
    let changed = clear_logged_flags(&mut image);
    assert!(changed > 0, "no superblock in the log");
    sweep("older-log", &image, 1);
}

/// Clears `needs_recovery` in all superblocks but the primary one (those in the log of a file system without checksums).
fn clear_logged_flags(image: &mut [u8]) -> usize {
    let mut changed = 0;
    for at in (2048..image.len() - SUPERBLOCK_SIZE).step_by(1024) {
        let bytes = &mut image[at..at + SUPERBLOCK_SIZE];
        let mut superblock = RawSuperblock::read_from_bytes(bytes).unwrap();
        if superblock.s_magic.get() == MAGIC && superblock.features().has_incompat(Incompat::RECOVER) {
            superblock
                .s_feature_incompat
                .set(superblock.s_feature_incompat.get() & !Incompat::RECOVER.bits());
            bytes.copy_from_slice(superblock.as_bytes());
            changed += 1;
        }
    }
    changed
}

/// Without a journal, a file system in use says so, and that is all that a cut between two mounts leaves.
#[test]
fn a_kill_in_a_mount_or_unmount_without_a_journal_leaves_no_damage() {
    for base in BASES.iter().filter(|base| base.kind == Kind::Ext2) {
        let met = sweep(base.name, &base.make().unwrap().bytes(), 2);
        assert!(met.cuts >= 5, "{}: {met:?}", base.name);
    }
}

#[test]
fn a_kill_while_the_orphan_file_is_emptied_leaves_no_damage() {
    if !is_root() {
        return skip("driver mounting", "only the superuser may mount images");
    }
    // The second one has more orphans than one transaction can free, each in a block of the inode table.
    let many = "-b 1024 -I 1024 -N 2048 -J size=1 -O orphan_file";
    for (name, options, orphans) in
        [("orphan-file", "-b 4096 -O orphan_file", 7), ("many-orphans", many, 330)]
    {
        let Some(image) = with_orphan_file(options, orphans) else {
            skip(name, "mke2fs or the kernel of this machine does not know the orphan file");
            continue;
        };
        sweep(name, &image, 1);
    }
}

/// What the kernel leaves when the power fails while files without names are open.
fn with_orphan_file(options: &str, orphans: u32) -> Option<Vec<u8>> {
    let file = Scratch::with(&made_by_mke2fs(options, 32 << 20).ok()?).unwrap();
    let point = PathBuf::from(format!("{}.mnt", file.path().display()));
    let Ok(mount) = LoopMount::new(file.path(), &point, "ext4", "") else {
        let _ = fs::remove_dir(&point);
        return None;
    };
    let mut open = Vec::new();
    for number in 0..orphans {
        let path = mount.path().join(format!("file {number}"));
        fs::write(&path, vec![1; 20_000]).unwrap();
        open.push(File::open(&path).unwrap());
        fs::write(mount.path().join(format!("kept {}", number % 20)), "kept").unwrap();
        fs::remove_file(&path).unwrap();
    }
    rustix::fs::syncfs(File::open(mount.path()).unwrap()).unwrap();
    let image = fs::read(file.path()).unwrap();
    drop(open);
    mount.unmount().unwrap();
    Some(image)
}
