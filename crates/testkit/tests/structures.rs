// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repair of the file system's own structures: superblock, descriptors, journal, quota, orphan file, MMP. One damage, one plan; then
//! our check and e2fsck find nothing any more.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use fsmend_device::{Device, MemoryDevice, ReadBackend};
use fsmend_engine::Progress;
use fsmend_ext_check::repair::{Repair, RepairOptions, RepairPolicy, plan};
use fsmend_ext_check::run::{CheckOptions, Meter};
use fsmend_ext_check::superblock::SuperblockOptions;
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::Compat;
use fsmend_ext_format::superblock::RawSuperblock;
use fsmend_testkit::contents::Content;
use fsmend_testkit::host::skip;
use fsmend_testkit::image::{After, Built, Recipe, build};
use fsmend_testkit::oracle::{Verdict, e2fsck};
use fsmend_testkit::target_folder;
use zerocopy::{FromBytes, IntoBytes};

const BLOCK: usize = 1024;
const CHECKSUMS: &str =
    "-t ext4 -b 1024 -g 4096 -N 768 -O ^flex_bg,^64bit,metadata_csum,mmp,orphan_file,quota -J size=1";
const PLAIN: &str = "-t ext3 -b 1024 -g 4096 -N 768 -O quota -J size=1";

fn image(name: &'static str, options: &'static str) -> Option<Vec<u8>> {
    let recipe = Recipe::new(name, 12, options)
        .copied(&[Content::Basic, Content::Subdirectories(40), Content::Special])
        .after(After::Optimise);
    match build(&recipe).unwrap() {
        Built::Image(image) => Some(std::fs::read(image).unwrap()),
        Built::Skipped(reason) => {
            skip("repair of structures", &reason);
            None
        }
    }
}

/// The time of this run: e2fsck complains about one in the future, and one in the past is before the images were made.
fn now() -> u64 {
    static NOW: OnceLock<u64> = OnceLock::new();
    *NOW.get_or_init(|| SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs())
}

fn planned(image: &[u8], block: Option<u64>) -> Repair {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("structures", image.to_vec()));
    let check = CheckOptions {
        threads: 2,
        memory: 64 << 20,
        replay: true,
        superblock: SuperblockOptions { block, block_size: None },
        external_journal: None,
        now: now(),
        backend: ReadBackend::Pread,
        want_all_paths: true,
        meter: Meter::default,
        stage_clock: None,
        repair: None,
        schedule: Default::default(),
        allowance: None,
        trace: None,
    };
    let options = RepairOptions { check, policy: RepairPolicy::default() };
    plan(&device, &options, &Progress::new(), &AtomicBool::new(false))
        .unwrap_or_else(|refusal| panic!("refused: {refusal}"))
        .written_out(&device)
        .unwrap()
}

/// Repairs `image` and returns it as it is then, after making sure that nothing is wrong with it any more.
#[track_caller]
fn repaired(what: &str, mut image: Vec<u8>, code: &str) -> Vec<u8> {
    let repair = planned(&image, None);
    assert!(
        repair.found.findings.counts().contains_key(code),
        "{what}: {:?}",
        repair.found.findings.counts()
    );
    assert!(repair.is_clean(), "{what}: {:?}", repair.left.findings.counts());
    for (offset, bytes) in &repair.changes {
        image[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    let again = planned(&image, None);
    assert!(again.changes.is_empty(), "{what}: again {:?}", again.found.findings.counts());
    let name = what.replace(|character: char| !character.is_alphanumeric(), "-");
    let path = target_folder().join(format!("structures-{name}-{}.img", std::process::id()));
    std::fs::write(&path, &image).unwrap();
    let (verdict, said) = e2fsck(&path, Duration::from_secs(60)).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(verdict, Verdict::Sound, "{what}: {said}");
    image
}

fn superblock(image: &[u8]) -> RawSuperblock {
    RawSuperblock::read_from_bytes(&image[1024..2048]).unwrap()
}

fn change_superblock(image: &mut [u8], change: impl FnOnce(&mut RawSuperblock)) {
    let mut raw = superblock(image);
    change(&mut raw);
    if raw.features().metadata_csum() {
        checksum::seal_superblock(&mut raw);
    }
    image[1024..2048].copy_from_slice(raw.as_bytes());
}

fn word(image: &[u8], at: usize) -> usize {
    u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize
}

/// Byte offset of an inode's record (of group 0).
fn record(image: &[u8], inode: usize) -> usize {
    let table = word(image, 2 * BLOCK + 8);
    table * BLOCK + (inode - 1) * usize::from(superblock(image).s_inode_size.get())
}

/// Byte offset of the first block of an inode's file.
fn first_block(image: &[u8], inode: usize) -> usize {
    let i_block = record(image, inode) + 0x28;
    let has_extents = image[i_block..i_block + 2] == [0x0A, 0xF3];
    word(image, i_block + if has_extents { 20 } else { 0 }) * BLOCK
}

/// Wipes out every backup of superblock and descriptors.
fn without_backups(image: &mut [u8]) {
    for group in [1, 3, 5, 7].map(|group| group * 4096 + 1) {
        if let Some(backup) = image.get_mut(group * BLOCK..(group + 2) * BLOCK) {
            backup.fill(0);
        }
    }
}

#[test]
fn a_lost_superblock_comes_back_from_a_backup() {
    let Some(mut image) = image("structures", CHECKSUMS) else { return };
    let before = superblock(&image);
    image[1024..2048].fill(0);
    let image = repaired("lost superblock", image, "ext.superblock.primary-replaced");
    let after = superblock(&image);
    assert_eq!((after.s_block_group_nr.get(), after.s_uuid), (0, before.s_uuid));
    assert_eq!((after.s_state.get(), after.features()), (1, before.features()));
}

#[test]
fn a_superblock_that_was_named_replaces_the_primary() {
    let Some(mut image) = image("structures", CHECKSUMS) else { return };
    change_superblock(&mut image, |raw| raw.s_volume_name = *b"wrong name......");
    let repair = planned(&image, Some(4097));
    assert!(repair.is_clean(), "{:?}", repair.left.findings.counts());
    for (offset, bytes) in &repair.changes {
        image[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    assert_eq!(superblock(&image).s_volume_name, [0; 16]);
}

#[test]
fn one_field_is_told_by_the_checksum() {
    let Some(mut image) = image("structures", CHECKSUMS) else { return };
    without_backups(&mut image);
    let before = superblock(&image).features();
    image[1024 + 0x38] ^= 0xFF;
    let image = repaired("magic", image, "ext.superblock.field-corrected");
    assert_eq!(superblock(&image).features(), before);
}

#[test]
fn errors_state_and_identity() {
    let Some(mut image) = image("structures-plain", PLAIN) else { return };
    change_superblock(&mut image, |raw| {
        raw.s_uuid = [0; 16];
        raw.s_state = 2.into();
        raw.s_error_count = 5.into();
        raw.s_last_error_func = [b'x'; 32];
    });
    let one = repaired("no uuid", image.clone(), "ext.superblock.no-uuid");
    let raw = superblock(&one);
    assert_eq!((raw.s_uuid[6] >> 4, raw.s_uuid[8] >> 6), (4, 2), "a UUID of version 4");
    assert_eq!((raw.s_state.get(), raw.s_error_count.get(), raw.s_last_error_func), (1, 0, [0; 32]));
    let other = repaired("no uuid again", image, "ext.superblock.no-uuid");
    assert!(one == other, "the same image gets the same UUID");
    let backup = RawSuperblock::read_from_prefix(&one[4097 * BLOCK..]).unwrap().0;
    assert_eq!((backup.s_uuid, backup.s_block_group_nr.get()), (raw.s_uuid, 1));
}

#[test]
fn bitmaps_without_a_place() {
    for (what, at, code) in [
        ("block bitmap", 0, "ext.group.block-bitmap-place"),
        ("inode bitmap", 4, "ext.group.inode-bitmap-place"),
    ] {
        let Some(mut image) = image("structures-plain", PLAIN) else { return };
        without_backups(&mut image);
        image[2 * BLOCK + 32 + at..][..4].fill(0);
        let image = repaired(what, image, code);
        let place = word(&image, 2 * BLOCK + 32 + at);
        assert!((4097..8193).contains(&place), "{what}: in its own group, not in block {place}");
        assert_eq!(word(&image, 4098 * BLOCK + 32 + at), place, "the backup knows the new place");
    }
}

#[test]
fn an_inode_table_without_a_place_starts_empty() {
    let Some(mut image) = image("structures-plain", PLAIN) else { return };
    without_backups(&mut image);
    image[2 * BLOCK + 32 + 8..][..4].fill(0);
    repaired("inode table", image, "ext.group.inode-table-place");
}

#[test]
fn a_uuid_that_no_checksum_knows_is_the_one_of_the_backup_again() {
    const OLD: &str = "-t ext4 -b 1024 -g 4096 -N 768 -O ^flex_bg,^64bit,^metadata_csum,uninit_bg -J size=1";
    for (name, options) in [("structures", CHECKSUMS), ("structures-uninit", OLD)] {
        let Some(sound) = image(name, options) else { return };
        let mut damaged = sound.clone();
        damaged[BLOCK + 0x6B] ^= 0x10;
        let made = repaired(&format!("{name} UUID"), damaged, "ext.superblock.identity-lost");
        let differ = |block: &usize| made[block * BLOCK..][..BLOCK] != sound[block * BLOCK..][..BLOCK];
        let blocks: Vec<usize> = (0..sound.len() / BLOCK).filter(differ).collect();
        assert!(blocks.iter().all(|block| *block == 1), "{name}: no checksum was made anew, but {blocks:?}");
        assert_eq!(superblock(&made).s_uuid, superblock(&sound).s_uuid, "{name}");
    }
}

#[test]
fn journals() {
    for options in [CHECKSUMS, PLAIN] {
        let name = if options == PLAIN { "structures-plain" } else { "structures" };
        let Some(sound) = image(name, options) else { return };
        let head = first_block(&sound, 8);
        let mut damaged = sound.clone();
        damaged[head..head + BLOCK].fill(0);
        let made = repaired(&format!("{name} journal lost"), damaged, "ext.journal.superblock-missing");
        let raw = superblock(&made);
        assert!(raw.features().has_compat(Compat::HAS_JOURNAL), "a new journal was made");
        let place = first_block(&made, 8);
        assert_eq!(made[place..place + 4], [0xC0, 0x3B, 0x39, 0x98]);
        assert_eq!(
            raw.s_jnl_blocks[16].get() as usize,
            word(&made, record(&made, 8) + 4),
            "size in the copy"
        );
        let mut damaged = sound.clone();
        damaged[head + 12..head + 16].fill(0x55);
        repaired(&format!("{name} journal block size"), damaged, "ext.journal.superblock-bad");
        let mut damaged = sound;
        let place = record(&damaged, 8);
        damaged[place..place + 2].fill(0);
        repaired(&format!("{name} journal inode"), damaged, "ext.journal.inode-from-backup");
    }
}

#[test]
fn quota_files() {
    for options in [CHECKSUMS, PLAIN] {
        let name = if options == PLAIN { "structures-plain" } else { "structures" };
        let Some(sound) = image(name, options) else { return };
        let file = first_block(&sound, 3);
        let mut damaged = sound.clone();
        damaged[file..file + BLOCK].fill(0x11);
        repaired(&format!("{name} quota header"), damaged, "ext.quota.file-damaged");
        let mut damaged = sound.clone();
        change_superblock(&mut damaged, |raw| raw.s_grp_quota_inum = 2.into());
        let mended = repaired(&format!("{name} quota number"), damaged, "ext.quota.inode-number");
        assert_eq!(superblock(&mended).s_grp_quota_inum.get(), 4);
    }
}

#[test]
fn orphan_file() {
    let Some(sound) = image("structures", CHECKSUMS) else { return };
    let inode = superblock(&sound).s_orphan_file_inum.get() as usize;
    let mut damaged = sound.clone();
    let block = first_block(&damaged, inode);
    damaged[block + 1016..block + 1020].fill(0);
    let mended = repaired("orphan file magic", damaged, "ext.orphan.file-magic");
    assert_eq!(superblock(&mended).s_orphan_file_inum.get() as usize, inode, "the same file");
    let mut damaged = sound;
    change_superblock(&mut damaged, |raw| raw.s_orphan_file_inum = 2.into());
    repaired("orphan file number", damaged, "ext.orphan.file-unusable");
}

#[test]
fn multiple_mount_protection() {
    let Some(sound) = image("structures", CHECKSUMS) else { return };
    let place = superblock(&sound).s_mmp_block.get() as usize * BLOCK;
    let mut damaged = sound.clone();
    damaged[place..place + BLOCK].fill(0);
    let mended = repaired("mmp magic", damaged, "ext.mmp.magic");
    assert_eq!(mended[place..place + 8], [0x50, 0x4D, 0x4D, 0, 0x50, 0x4D, 0x4D, 0xFF]);
    let mut damaged = sound;
    change_superblock(&mut damaged, |raw| raw.s_mmp_block = 0.into());
    let mended = repaired("mmp place", damaged, "ext.mmp.place");
    assert_ne!(superblock(&mended).s_mmp_block.get(), 0);
}

#[test]
fn the_journal_is_looked_for_where_the_inode_table_really_lies() {
    let Some(mut image) = image("structures-plain", PLAIN) else { return };
    let place = word(&image, 2 * BLOCK + 8);
    image[2 * BLOCK + 8..][..4].copy_from_slice(&(place as u32 - 1).to_le_bytes());
    let found = planned(&image, None).found.findings;
    assert!(!found.counts().contains_key("ext.journal.inode-from-backup"), "{:?}", found.counts());
    repaired("shifted inode table", image, "ext.group.inode-table-conflict");
}
