// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inode tables whose place no descriptor tells any more, or a wrong one with a right checksum: e2fsck makes empty ones, or follows; ours are found
//! where they are.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fsmend_base::GroupNo;
use fsmend_device::{Device, MemoryDevice};
use fsmend_engine::Progress;
use fsmend_ext_check::repair::{self, Repair, RepairOptions, RepairPolicy};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_SIZE};
use fsmend_testkit::host::{find_program, run, skip};
use fsmend_testkit::oracle::{Verdict, e2fsck};
use fsmend_testkit::target_folder;
use fsmend_testkit::within::{Manner, options};
use zerocopy::FromBytes;

const FILES: usize = 40;

fn image(name: &str, mke2fs: &str) -> Option<PathBuf> {
    if find_program("mke2fs").is_none() || find_program("debugfs").is_none() {
        skip(name, "needs mke2fs and debugfs");
        return None;
    }
    let path = target_folder().join(format!("{name}-{}.img", std::process::id()));
    let tree = path.with_extension("tree");
    for number in 0..FILES {
        let folder = tree.join(format!("folder-{}", number % 7));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("file-{number}")), vec![number as u8; 300 * number]).unwrap();
    }
    fs::File::create(&path).unwrap().set_len(24 << 20).unwrap();
    let folder = ["-d", tree.to_str().unwrap(), path.to_str().unwrap()];
    run("mke2fs", "-q -F".split(' ').chain(mke2fs.split(' ')).chain(folder)).unwrap();
    fs::remove_dir_all(tree).unwrap();
    Some(path)
}

/// Places of the inode tables, group by group, by dumpe2fs.
fn tables(path: &Path) -> Vec<u32> {
    let output = run("dumpe2fs", [path.to_str().unwrap()]).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let places = text.split("Inode table at ").skip(1);
    places.map(|rest| rest.split('-').next().unwrap().parse().unwrap()).collect()
}

/// Leads the descriptors of `group`, which gives `table`, elsewhere, the backups too.
fn mislead(image: &mut [u8], group: usize, table: u32, to: u32) -> usize {
    let number = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize;
    let (block_size, first, per_group) = (1024 << number(1024 + 24), number(1024 + 20), number(1024 + 32));
    let blocks = number(1024 + 4);
    let wide = number(1024 + 96) & 0x80 != 0;
    let size = if wide { 64 } else { 32 };
    let mut changed = 0;
    for host in 0..(blocks - first).div_ceil(per_group) {
        let at = (first + host * per_group + 1) * block_size + group * size + 8;
        if image.get(at..at + 4) == Some(&table.to_le_bytes()[..]) {
            image[at..at + 4].copy_from_slice(&to.to_le_bytes());
            changed += 1;
        }
    }
    changed
}

/// Leads the primary descriptor of `group` elsewhere, with a right checksum.
fn mislead_primary(image: &mut [u8], group: usize, to: u32) {
    let bytes = <[u8; SUPERBLOCK_SIZE]>::read_from_bytes(&image[1024..1024 + SUPERBLOCK_SIZE]).unwrap();
    let superblock: RawSuperblock = zerocopy::transmute!(bytes);
    let features = superblock.features();
    let size = if features.has_incompat(Incompat::BIT64) { 64 } else { 32 };
    let block_size = 1024 << superblock.s_log_block_size.get();
    let at = (superblock.s_first_data_block.get() as usize + 1) * block_size + group * size;
    let desc = &mut image[at..at + size];
    desc[8..12].copy_from_slice(&to.to_le_bytes());
    let has_seed = features.has_incompat(Incompat::CSUM_SEED);
    let stored = superblock.s_checksum_seed.get();
    let seed = if has_seed { stored } else { checksum::uuid_seed(&superblock.s_uuid) };
    checksum::seal_group_desc(features, seed, &superblock.s_uuid, GroupNo(group as u32), desc);
}

fn plan(image: &[u8], threads: usize) -> Repair {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("tables", image.to_vec()));
    let mut check = options(Manner::default());
    check.threads = threads;
    let options = RepairOptions { check, policy: RepairPolicy::default() };
    repair::plan(&device, &options, &Progress::new(), &AtomicBool::new(false))
        .unwrap_or_else(|refused| panic!("{refused}"))
        .written_out(&device)
        .unwrap()
}

/// Every file of the image.
fn contents(path: &Path) -> BTreeMap<usize, Vec<u8>> {
    let out = path.with_extension("out");
    fs::create_dir_all(&out).unwrap();
    run("debugfs", ["-R", &format!("rdump / {}", out.display()), path.to_str().unwrap()]).unwrap();
    let read = |number: usize| {
        let file = out.join(format!("folder-{}/file-{number}", number % 7));
        Some((number, fs::read(file).ok()?))
    };
    let files = (0..FILES).filter_map(read).collect();
    fs::remove_dir_all(out).unwrap();
    files
}

/// Damages `groups` of an image, repairs it, and returns how many files are as they were; e2fsck finds nothing wrong.
fn kept(name: &str, mke2fs: &str, groups: &[usize], to: u32) -> Option<usize> {
    kept_by(name, mke2fs, groups, to, |image, places| {
        for group in groups {
            assert!(mislead(image, *group, places[*group], to) >= 1, "{name}");
        }
    })
}

fn kept_by(
    name: &str,
    mke2fs: &str,
    groups: &[usize],
    to: u32,
    damage: impl Fn(&mut [u8], &[u32]),
) -> Option<usize> {
    let path = image(name, mke2fs)?;
    let before = contents(&path);
    assert_eq!(before.len(), FILES);
    let places = tables(&path);
    let mut image = fs::read(&path).unwrap();
    damage(&mut image, &places);
    let repair = plan(&image, 2);
    assert!(repair.is_clean(), "{name}: {:?}", repair.left.findings.counts());
    assert_eq!(plan(&image, 7).changes, repair.changes, "{name}");
    let mut mended = image.clone();
    for (offset, bytes) in &repair.changes {
        mended[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    fs::write(&path, &mended).unwrap();
    let (verdict, said) = e2fsck(&path, Duration::from_secs(30)).unwrap();
    assert_eq!(verdict, Verdict::Sound, "{name}: {said}");
    assert!(plan(&mended, 1).changes.is_empty(), "{name}: a second repair");
    let after = contents(&path);
    // Backups that would lead the next one astray are of no use.
    if repair.found.findings.counts().contains_key("ext.group.inode-table-found") {
        for group in groups {
            assert_eq!(mislead(&mut mended, *group, to, to), 0, "{name}: a backup is still wrong");
        }
    }
    fs::remove_file(path).unwrap();
    Some(before.iter().filter(|(number, bytes)| after.get(number) == Some(bytes)).count())
}

#[test]
fn tables_are_found_in_every_layout() {
    let layouts = [
        ("tables-one-group", "-t ext4 -b 4096"),
        ("tables-flex", "-t ext4 -b 1024 -N 2048 -O metadata_csum"),
        ("tables-plain", "-t ext4 -b 1024 -N 2048 -O metadata_csum,^flex_bg"),
        ("tables-ext2", "-t ext2 -b 1024 -N 2048"),
        ("tables-ext3", "-t ext3 -b 1024 -N 2048 -I 128"),
        ("tables-small", "-t ext4 -b 1024 -N 2048 -I 128 -O metadata_csum"),
    ];
    for (name, mke2fs) in layouts {
        for to in [99_999_999, 1] {
            let Some(kept) = kept(name, mke2fs, &[0], to) else { return };
            assert_eq!(kept, FILES, "{name}: {to}");
        }
    }
}

#[test]
fn several_tables_are_found() {
    let mke2fs = "-t ext4 -b 1024 -N 2048 -O metadata_csum,^flex_bg";
    let Some(kept) = kept("tables-several", mke2fs, &[0, 1, 2], 99_999_999) else { return };
    assert_eq!(kept, FILES);
}

#[test]
fn a_wrong_place_that_could_be_right_is_seen_through() {
    // One group, so that there is no backup; the checksum of the descriptor is wrong.
    let Some(path) = image("tables-shifted", "-t ext4 -b 4096 -O metadata_csum") else { return };
    let place = tables(&path)[0];
    fs::remove_file(path).unwrap();
    let Some(kept) = kept("tables-shifted", "-t ext4 -b 4096 -O metadata_csum", &[0], place + 1) else {
        return;
    };
    assert_eq!(kept, FILES);
}

/// Over what lies in the wrong place: free blocks, the journal or files, the middle of the table.
#[test]
fn a_descriptor_with_a_right_checksum_is_not_followed_astray() {
    let layouts = [
        ("tables-astray-one-group", "-t ext4 -b 4096"),
        ("tables-astray-flex", "-t ext4 -b 1024 -N 2048"),
        ("tables-astray-plain", "-t ext4 -b 1024 -N 2048 -O ^flex_bg"),
        ("tables-astray-uninit", "-t ext4 -b 1024 -N 2048 -O ^metadata_csum,uninit_bg"),
        ("tables-astray-ext2", "-t ext2 -b 1024 -N 2048"),
        ("tables-astray-ext3", "-t ext3 -b 1024 -N 2048 -I 128"),
    ];
    for (name, mke2fs) in layouts {
        for (group, by) in [(0, 2), (0, 150), (0, 1500), (1, 3), (1, 600), (1, 1700)] {
            let is_there = !(group == 1 && name.contains("one-group"));
            let damage = |image: &mut [u8], places: &[u32]| {
                mislead_primary(image, group, places[group] + by);
            };
            let kept = if is_there { kept_by(name, mke2fs, &[group], 0, damage) } else { continue };
            let Some(kept) = kept else { return };
            assert_eq!(kept, FILES, "{name}: group {group} by {by}");
        }
    }
}

#[test]
fn a_table_that_is_gone_is_made_anew() {
    let Some(path) = image("tables-gone", "-t ext4 -b 4096 -O metadata_csum") else { return };
    let place = tables(&path)[0];
    let mut image = fs::read(&path).unwrap();
    mislead(&mut image, 0, place, 99_999_999);
    // Half a megabyte of garbage, longer than the table needs to prove itself.
    image[place as usize * 4096..][..512 << 10].fill(0xC3);
    let repair = plan(&image, 2);
    assert!(repair.is_clean(), "{:?}", repair.left.findings.counts());
    assert!(!repair.found.findings.counts().contains_key("ext.group.inode-table-found"));
    for (offset, bytes) in &repair.changes {
        image[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    fs::write(&path, &image).unwrap();
    let (verdict, said) = e2fsck(&path, Duration::from_secs(30)).unwrap();
    assert_eq!(verdict, Verdict::Sound, "{said}");
    fs::remove_file(path).unwrap();
}
