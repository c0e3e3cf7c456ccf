// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of the cross-checks: small damage to one sound image raises exactly what it should, and nothing else.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, MemoryDevice, ReadBackend};
use fsmend_engine::{Findings, Progress};
use fsmend_ext_check::run::{CheckOptions, Meter, check};
use fsmend_ext_check::superblock::SuperblockOptions;
use fsmend_testkit::contents::Content;
use fsmend_testkit::damage::{Patch, Structure, Survey};
use fsmend_testkit::flawed::Flawed;
use fsmend_testkit::host::skip;
use fsmend_testkit::image::{After, Built, Recipe, build};

const BLOCK: u64 = 1024;

/// Three groups of 1 KiB blocks with checksums, filled without a mount.
fn base() -> Option<Survey> {
    let options = "-t ext4 -b 1024 -g 4096 -N 768 -O ^flex_bg,^resize_inode,metadata_csum -J size=1";
    let recipe = Recipe::new("rows", 12, options)
        .copied(&[Content::Basic, Content::Subdirectories(200), Content::Special])
        .after(After::Optimise);
    match build(&recipe).unwrap() {
        Built::Image(image) => Some(Survey::of(&image).unwrap()),
        Built::Skipped(reason) => {
            skip("rows of the cross-checks", &reason);
            None
        }
    }
}

/// The codes that a check of `image` raises, notes too; reading `flaw` fails.
fn codes(image: Vec<u8>, flaw: Range<u64>) -> Vec<&'static str> {
    findings(image, flaw).counts().into_keys().collect()
}

fn findings(image: Vec<u8>, flaw: Range<u64>) -> Findings {
    let device: Arc<dyn Device> = Arc::new(Flawed { memory: MemoryDevice::new("rows", image), flaw });
    let options = CheckOptions {
        threads: 2,
        memory: 64 << 20,
        replay: true,
        superblock: SuperblockOptions::default(),
        external_journal: None,
        now: 4_000_000_000,
        backend: ReadBackend::Pread,
        want_all_paths: true,
        meter: Meter::default,
        stage_clock: None,
        repair: None,
        schedule: Default::default(),
        allowance: None,
        trace: None,
    };
    let report = check(&device, &options, &Progress::new(), &AtomicBool::new(false));
    let report = report.unwrap_or_else(|refusal| panic!("refused: {refusal}"));
    report.findings
}

fn put(image: &mut [u8], patch: &Patch) {
    image[patch.offset as usize..][..patch.new.len()].copy_from_slice(&patch.new);
}

#[track_caller]
fn raises(base: &Survey, patches: &[Patch], expected: &[&str]) {
    let mut image = base.image.clone();
    patches.iter().for_each(|patch| put(&mut image, patch));
    assert_eq!(codes(image, 0..0), expected);
}

/// The first structure of a kind whose name starts so.
fn find<'b>(base: &'b Survey, kind: &str, name: &str) -> &'b Structure {
    let mut found = base.structures.iter().filter(|structure| structure.kind == kind);
    found.find(|structure| structure.name.starts_with(name)).unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The bytes of a block bitmap or inode bitmap, from `at` on.
fn bitmap(base: &Survey, kind: &str, group: u32, at: u64, new: &[u8]) -> Vec<Patch> {
    let first = find(base, kind, &format!("{kind} of group {group}, byte 0"));
    vec![Patch { offset: first.record() + at, old: Vec::new(), new: new.to_vec() }]
}

/// The directory entry called `name`.
fn entry(base: &Survey, name: &str) -> Structure {
    for structure in base.structures.iter().filter(|structure| structure.kind == "directory entry") {
        let bytes = base.bytes(structure);
        let mut at = structure.at;
        while at + 8 + name.len() < bytes.len() {
            if usize::from(bytes[at + 6]) == name.len() && bytes[at + 8..].starts_with(name.as_bytes()) {
                let mut found = structure.clone();
                found.at = at;
                return found;
            }
            at += usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
        }
    }
    panic!("no entry {name}")
}

/// The record of the inode that an entry leads to.
fn inode<'b>(base: &'b Survey, name: &str) -> &'b Structure {
    let entry = entry(base, name);
    let at = entry.at;
    let number = u32::from_le_bytes(base.bytes(&entry)[at..at + 4].try_into().unwrap());
    let name = format!("inode {number}");
    let mut found = base.structures.iter().filter(|structure| structure.kind.starts_with("inode of a"));
    found.find(|structure| structure.name == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_sound_image_raises_nothing() {
    let Some(base) = base() else { return };
    raises(&base, &[], &[]);
}

#[test]
fn block_bitmaps() {
    let Some(base) = base() else { return };
    let checksum = "ext.allocation.block-bitmap-checksum";
    let changed = |at, new: &[u8], row| {
        raises(&base, &bitmap(&base, "block bitmap", 0, at, new), &[checksum, row]);
    };
    changed(500, &[0x18], "ext.allocation.blocks-marked-but-free");
    changed(0, &[0xFE], "ext.allocation.blocks-used-but-unmarked");
    // The padding has no part in the checksum.
    let padding = bitmap(&base, "block bitmap", 0, 600, &[0]);
    raises(&base, &padding, &["ext.allocation.block-bitmap-padding"]);
    let group = find(&base, "group", "group 0");
    raises(&base, &group.with(&base, &[("bg_block_bitmap_csum_lo", 1)]), &[checksum]);
}

#[test]
fn inode_bitmaps() {
    let Some(base) = base() else { return };
    let checksum = "ext.allocation.inode-bitmap-checksum";
    let changed = |group, at, new: &[u8], row| {
        raises(&base, &bitmap(&base, "inode bitmap", group, at, new), &[checksum, row]);
    };
    changed(1, 31, &[0x80], "ext.allocation.inodes-marked-but-free");
    changed(0, 0, &[0xFD], "ext.allocation.inodes-used-but-unmarked");
    let padding = bitmap(&base, "inode bitmap", 0, 40, &[0]);
    raises(&base, &padding, &["ext.allocation.inode-bitmap-padding"]);
    let group = find(&base, "group", "group 0");
    raises(&base, &group.with(&base, &[("bg_inode_bitmap_csum_lo", 1)]), &[checksum]);
}

#[test]
fn groups_that_say_they_were_never_used() {
    let Some(base) = base() else { return };
    let group = find(&base, "group", "group 0");
    raises(
        &base,
        &group.with(&base, &[("bg_flags", 2)]),
        &["ext.allocation.block-uninit-in-use", "ext.allocation.blocks-used-but-unmarked"],
    );
    // The root directory has to be there.
    raises(&base, &group.with(&base, &[("bg_flags", 1)]), &["ext.group.inodes-uninit-contradicted"]);
    // Inodes are not searched in a group that counts none; names that lead there do.
    let group = find(&base, "group", "group 1");
    let patches =
        group.with(&base, &[("bg_flags", 1), ("bg_free_inodes_count_lo", 256), ("bg_used_dirs_count_lo", 0)]);
    let mut image = base.image.clone();
    patches.iter().for_each(|patch| put(&mut image, patch));
    let found = codes(image, 0..0);
    assert!(found.contains(&"ext.allocation.inode-uninit-in-use"), "{found:?}");
}

#[test]
fn counts_of_groups_and_of_all() {
    let Some(base) = base() else { return };
    let group = find(&base, "group", "group 0");
    let superblock = find(&base, "superblock", "");
    for (field, expected) in [
        (
            "bg_free_blocks_count_lo",
            &["ext.allocation.free-blocks", "ext.allocation.group-free-blocks"] as &[&str],
        ),
        ("bg_free_inodes_count_lo", &["ext.allocation.free-inodes", "ext.allocation.group-free-inodes"]),
        ("bg_used_dirs_count_lo", &["ext.allocation.group-directories"]),
    ] {
        raises(&base, &group.with(&base, &[(field, 3)]), expected);
    }
    for field in ["s_free_blocks_count_lo", "s_free_inodes_count"] {
        let mut image = base.image.clone();
        superblock.with(&base, &[(field, 3)]).iter().for_each(|patch| put(&mut image, patch));
        let found = findings(image, 0..0);
        let codes: Vec<&str> = found.counts().into_keys().collect();
        assert_eq!((codes, found.is_damaged()), (vec!["ext.allocation.totals-stale"], false));
    }
}

/// An overhead that no file system can have makes df wrong; it is no damage.
#[test]
fn an_overhead_larger_than_what_is_in_use() {
    let Some(base) = base() else { return };
    let superblock = find(&base, "superblock", "");
    for (clusters, expected) in [(0, &[] as &[&str]), (12_000, &["ext.superblock.overhead-wrong"])] {
        let mut image = base.image.clone();
        superblock
            .with(&base, &[("s_overhead_clusters", clusters)])
            .iter()
            .for_each(|patch| put(&mut image, patch));
        let found = findings(image, 0..0);
        let codes: Vec<&str> = found.counts().into_keys().collect();
        assert_eq!((&codes[..], found.is_damaged()), (expected, false));
    }
}

/// Orphans give back what they used, but what is wrong is shown as it stands on the disk.
#[test]
fn totals_beside_orphans() {
    let Some(base) = base() else { return };
    let file = inode(&base, "of-1-bytes");
    let number: u64 = file.name.trim_start_matches("inode ").parse().unwrap();
    let mut patches = file.with(&base, &[("i_links_count", 0)]);
    let superblock = find(&base, "superblock", "");
    patches.extend(superblock.with(&base, &[("s_last_orphan", number), ("s_free_inodes_count", 145_590)]));
    let mut image = base.image.clone();
    patches.iter().for_each(|patch| put(&mut image, patch));
    let found = findings(image, 0..0).into_sorted();
    let stale = found.iter().find(|problem| problem.row.code == "ext.allocation.totals-stale").unwrap();
    assert!(stale.message().contains(" 145590,"), "{}", stale.message());
}

#[test]
fn link_counts() {
    let Some(base) = base() else { return };
    let file = inode(&base, "of-1-bytes");
    raises(&base, &file.with(&base, &[("i_links_count", 7)]), &["ext.inode.links-mismatch"]);
    let many = inode(&base, "subdirectories");
    raises(&base, &many.with(&base, &[("i_links_count", 1)]), &["ext.inode.links-saturated"]);
}

#[test]
fn inodes_without_a_name() {
    let Some(base) = base() else { return };
    let nameless = |name: &str, row| raises(&base, &entry(&base, name).with(&base, &[("inode", 0)]), &[row]);
    nameless("of-1-bytes", "ext.inode.unattached");
    // A pipe holds nothing but what it is, and that is kept.
    nameless("pipe", "ext.inode.unattached");
    nameless("of-0-bytes", "ext.inode.unattached-empty");
}

#[test]
fn blocks_with_two_owners() {
    let Some(base) = base() else { return };
    let extent_of = |name: &str| {
        let inode = inode(&base, name);
        find(&base, "extent", &format!("extent 0 of {} ", inode.name))
    };
    let (one, other) = (extent_of("of-1-bytes"), extent_of("of-1024-bytes"));
    let start = u64::from(u32::from_le_bytes(base.bytes(other)[other.at + 8..][..4].try_into().unwrap()));
    let expected =
        ["ext.allocation.blocks-marked-but-free", "ext.block.multiply-claimed", "ext.inode.shares-blocks"];
    let mut image = base.image.clone();
    one.with(&base, &[("ee_start_lo", start)]).iter().for_each(|patch| put(&mut image, patch));
    let found = codes(image, 0..0);
    assert!(expected.iter().all(|row| found.contains(row)), "{found:?}");
}

#[test]
fn what_cannot_be_read() {
    let Some(base) = base() else { return };
    let unreadable = |start: u64, row| {
        let found = codes(base.image.clone(), start..start + BLOCK);
        assert!(found.contains(&row), "{found:?}");
    };
    for kind in ["block bitmap", "inode bitmap"] {
        let place = find(&base, kind, &format!("{kind} of group 0, byte 0")).record();
        unreadable(place, "ext.allocation.bitmap-unreadable");
    }
    unreadable(inode(&base, "of-1-bytes").record() / BLOCK * BLOCK, "ext.group.inode-table-unreadable");
}

/// What a finding lists of e2fsck's numbers, where the descriptor of group 1 is lost and `change` was made to the backups in group 1.
fn peers_of_backup(change: impl FnOnce(&mut [u8])) -> Option<Vec<u32>> {
    let survey = base()?;
    let mut image = survey.image.clone();
    let (primary, backup) = (BLOCK as usize, 4097 * BLOCK as usize);
    // The backups as fresh as the primary ones, but for the number of the group.
    image.copy_within(primary..primary + 2 * BLOCK as usize, backup);
    image[backup + 0x5A] = 1;
    change(&mut image[backup..backup + 2 * BLOCK as usize]);
    image[2 * BLOCK as usize + DESC_SIZE..][..DESC_SIZE].fill(0);
    let found = findings(image, 0..0);
    let found = found.iter().find(|problem| problem.row.code == "ext.group.from-backup");
    Some(found.map(|problem| problem.peers().collect()).unwrap_or_else(|| panic!("no backup was needed")))
}

/// Bytes of a descriptor of [`base`].
const DESC_SIZE: usize = 64;

#[test]
fn a_backup_that_stands_in_lists_the_codes_of_the_counts_that_differ_in_it_and_no_others() {
    let Some(fresh) = peers_of_backup(|_| {}) else { return };
    assert_eq!(fresh, [0_u32; 0], "its counts are right");
    let descriptor = |group: usize, field: usize| BLOCK as usize + group * DESC_SIZE + field;
    let (free_blocks, free_inodes, directories) = (0x0C, 0x0E, 0x10);
    let old = |at: usize| peers_of_backup(|backup| backup[at] ^= 1).unwrap_or_default();
    assert_eq!(old(descriptor(2, free_blocks)), [0x05_000E]);
    assert_eq!(old(descriptor(0, free_inodes)), [0x05_000B]);
    assert_eq!(old(descriptor(2, directories)), [0x05_000C]);
    let (all_free_blocks, all_free_inodes) = (0x0C, 0x10);
    assert_eq!(old(all_free_inodes), [0x05_000D]);
    assert_eq!(old(all_free_blocks), [0x05_000F]);
}
