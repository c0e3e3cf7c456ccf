// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every row of the journal's catalogue is raised by what it describes, and replay writes what it should.

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_device::MemoryDevice;
use fsmend_engine::Findings;
use fsmend_ext_format::checksum::crc32c;
use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode};
use fsmend_ext_format::journal::JournalIncompat;
use fsmend_ext_format::superblock::{EXT_MAGIC, RawSuperblock};
use zerocopy::byteorder::big_endian::U32 as Be32;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::examine;
use super::problems::*;
use super::testing::{BLOCK, JOURNAL, World, assert_raised, written};

fn dirty() -> World {
    World::new(Incompat::RECOVER)
}

#[test]
fn a_clean_journal_raises_nothing_and_changes_nothing() {
    let (outcome, findings) = World::new(Incompat::empty()).examine();
    assert_raised(&findings, &[]);
    assert!(written(&outcome.changes).is_empty() && !outcome.replayed && !outcome.dropped);
}

#[test]
fn an_unused_journal_inode_is_dropped() {
    let mut world = World::new(Incompat::empty());
    world.edit_inode(8, |raw| raw.i_links_count = U16::new(0));
    let (outcome, findings) = world.examine();
    assert_raised(&findings, &[&INODE_BAD, &RECREATED]);
    assert!(outcome.dropped);
}

#[test]
fn a_block_outside_makes_the_journal_unusable() {
    let mut world = World::new(Incompat::empty());
    world.edit_inode(8, |raw| raw.i_block[20..24].copy_from_slice(&9000u32.to_le_bytes()));
    assert_raised(&world.examine().1, &[&INODE_BAD, &RECREATED]);
}

#[test]
fn the_backup_of_the_block_list_saves_the_journal() {
    let mut world = World::new(Incompat::empty());
    let mut backup = None;
    world.edit_inode(8, |raw| {
        backup = Some(*raw);
        raw.i_mode = U16::new(mode::DIRECTORY);
    });
    let backup: RawInode = backup.unwrap();
    world.superblock.s_jnl_backup_type = 1;
    for (index, word) in world.superblock.s_jnl_blocks[..15].iter_mut().enumerate() {
        *word = U32::new(backup.block_word(index));
    }
    world.superblock.s_jnl_blocks[16] = backup.i_size_lo;
    let (outcome, findings) = world.examine();
    assert_raised(&findings, &[&BACKUP_USED]);
    assert!(
        !outcome.dropped && written(&outcome.changes).contains_key(&5),
        "the inode is mended on the overlay"
    );
}

type SuperblockDamage = fn(&mut fsmend_ext_format::journal::RawJournalSuperblock);

#[test]
fn journal_superblocks() {
    let damages: [(&str, SuperblockDamage); 9] = [
        ("a log that begins behind its end", |raw| raw.s_first = Be32::new(0x8000_0001)),
        ("a log that begins too close to its end", |raw| raw.s_first = Be32::new(0x41)),
        ("a log that begins with the superblock", |raw| raw.s_first = Be32::new(0)),
        ("kind", |raw| raw.s_header.h_blocktype = Be32::new(1)),
        ("two checksums", |raw| {
            raw.s_feature_incompat = Be32::new((JournalIncompat::CSUM_V2 | JournalIncompat::CSUM_V3).bits())
        }),
        ("block size", |raw| raw.s_blocksize = Be32::new(4096)),
        ("length", |raw| raw.s_maxlen = Be32::new(u32::MAX)),
        ("start", |raw| raw.s_start = Be32::new(5000)),
        ("no room beside fast commits", |raw| {
            raw.s_feature_incompat = Be32::new(JournalIncompat::FAST_COMMIT.bits())
        }),
    ];
    for (what, damage) in damages {
        let mut world = World::new(Incompat::empty());
        world.journal(damage);
        let (outcome, findings) = world.examine();
        assert!(findings.has(&SUPERBLOCK_BAD) && !outcome.dropped, "{what}");
    }
    let mut world = World::new(Incompat::empty());
    world.dirty_journal();
    world.bytes(JOURNAL, 0xFC, &[1, 2, 3, 4]);
    assert!(world.examine().1.has(&SUPERBLOCK_BAD), "checksum");
    for (what, at, value) in [("an unknown kind", 7, 9), ("unknown features", 0x2A, 1)] {
        let mut world = World::new(Incompat::empty());
        world.dirty_journal();
        world.bytes(JOURNAL, at, &[value]);
        assert!(world.examine().1.has(&SUPERBLOCK_BAD), "{what}, and a wrong checksum");
    }
    let mut world = World::new(Incompat::empty());
    world.bytes(JOURNAL, 0, &[0]);
    assert_raised(&world.examine().1, &[&SUPERBLOCK_MISSING, &RECREATED]);
}

#[test]
fn rubbish_in_the_superblock_of_a_journal_at_rest_is_reset() {
    type Damage = fn(&mut fsmend_ext_format::journal::RawJournalSuperblock);
    let damages: [Damage; 3] = [
        |raw| raw.s_feature_incompat = Be32::new(0xEFFF_FF00),
        |raw| raw.s_feature_ro_compat = Be32::new(u32::MAX),
        |raw| raw.s_header.h_blocktype = Be32::new(u32::MAX),
    ];
    for damage in damages {
        let mut world = World::new(Incompat::empty());
        world.journal(damage);
        let (outcome, findings) = world.examine();
        assert_raised(&findings, &[&SUPERBLOCK_BAD]);
        world.bytes(JOURNAL, 0, &written(&outcome.changes)[&JOURNAL].clone());
        assert_raised(&world.examine().1, &[]);
    }
}

#[test]
fn rubbish_in_the_superblock_of_a_dirty_journal_is_reset_and_the_loss_told() {
    type Damage = fn(&mut fsmend_ext_format::journal::RawJournalSuperblock);
    let damages: [Damage; 3] = [
        |raw| raw.s_feature_incompat = Be32::new(0xEFFF_FF00),
        |raw| raw.s_header.h_blocktype = Be32::new(u32::MAX),
        |raw| raw.s_header.h_blocktype = Be32::new(0),
    ];
    for damage in damages {
        let mut world = World::new(Incompat::RECOVER);
        world.dirty_journal();
        world.journal(damage);
        let (outcome, findings) = world.examine();
        assert!(findings.has(&SUPERBLOCK_BAD) && SUPERBLOCK_BAD.loses);
        assert!(!outcome.replayed && written(&outcome.changes).contains_key(&JOURNAL));
    }
}

#[test]
fn a_repair_resets_a_strange_journal_at_rest_only() {
    for (features, is_reset) in [(Incompat::empty(), true), (Incompat::RECOVER, false)] {
        let mut world = World::new(features);
        world.journal(|raw| raw.s_feature_incompat = Be32::new(0x80));
        let fs = world.fs();
        let mut findings = Findings::new().gathering(true);
        let examined = examine(&fs, None, true, u64::MAX, &mut findings);
        assert_eq!((examined.is_ok(), findings.has(&SUPERBLOCK_BAD)), (is_reset, is_reset));
    }
}

#[test]
fn the_copy_of_the_block_list_tells_which_inode_is_the_journal() {
    for (wrong, is_copied) in [(0x8000_0008, true), (12, true), (0x8000_0008, false)] {
        let mut world = World::new(Incompat::empty());
        let mut journal = None;
        world.edit_inode(8, |raw| journal = Some(*raw));
        let journal: RawInode = journal.unwrap();
        if is_copied {
            world.superblock.s_jnl_backup_type = 1;
            for (index, word) in world.superblock.s_jnl_blocks[..15].iter_mut().enumerate() {
                *word = U32::new(journal.block_word(index));
            }
            world.superblock.s_jnl_blocks[16] = journal.i_size_lo;
        }
        world.superblock.s_journal_inum = U32::new(wrong);
        let (outcome, findings) = world.examine();
        assert!(findings.has(if is_copied { &BACKUP_USED } else { &INODE_BAD }), "{wrong:#x}");
        let primary = written(&outcome.changes)
            .get(&1)
            .map(|block| u32::from_le_bytes([block[0xE0], block[0xE1], block[0xE2], block[0xE3]]));
        assert_eq!(primary == Some(8), is_copied, "{wrong:#x}");
    }
}

#[test]
fn unknown_features_are_refused_unless_nothing_is_replayed() {
    let mut world = World::new(Incompat::empty());
    world.journal(|raw| raw.s_feature_incompat = Be32::new(0x80));
    let fs = world.fs();
    let mut findings = Findings::new();
    assert_eq!(
        examine(&fs, None, true, u64::MAX, &mut findings).unwrap_err().code,
        "journal-unknown-feature"
    );
    assert!(examine(&fs, None, false, u64::MAX, &mut findings).is_ok());
}

#[test]
fn features_and_fields_that_contradict_each_other() {
    let mut world = World::new(Incompat::empty());
    world.superblock.s_feature_compat = U32::new(0);
    assert_raised(&world.examine().1, &[&WITHOUT_FEATURE]);

    let mut world = dirty();
    world.superblock.s_feature_compat = U32::new(0);
    world.superblock.s_journal_inum = U32::new(0);
    assert_raised(&world.examine().1, &[&RECOVERY_WITHOUT_JOURNAL]);

    let mut world = World::new(Incompat::empty());
    world.journal(|raw| {
        raw.s_header.h_blocktype = Be32::new(3);
        raw.s_nr_users = Be32::new(1);
    });
    assert_raised(&world.examine().1, &[&V2_FIELDS]);

    let mut world = World::new(Incompat::empty());
    world.journal(|raw| raw.s_errno = Be32::new(5u32.wrapping_neg()));
    assert_raised(&world.examine().1, &[&ERRNO]);

    let mut world = World::new(Incompat::empty());
    world.superblock.s_journal_dev = U32::new(0x801);
    assert_raised(&world.examine().1, &[&EXTERNAL_HINT]);
}

#[test]
fn a_journal_without_anything_to_replay_is_closed() {
    let (outcome, findings) = dirty().examine();
    assert_raised(&findings, &[&NOTHING_TO_REPLAY]);
    let superblock = RawSuperblock::read_from_bytes(&written(&outcome.changes)[&1]).unwrap();
    assert!(!outcome.replayed && !superblock.features().has_incompat(Incompat::RECOVER));
}

#[test]
fn fast_commits_need_room_behind_the_log() {
    let examined = |incompat: u32, fast: u32| {
        let mut world = World::new(Incompat::empty());
        world.superblock.s_feature_compat |= Compat::FAST_COMMIT.bits();
        world.file(8, 1, &[(0, JOURNAL as u32, 1200)], 1200 * BLOCK as u64);
        world.journal(|raw| {
            raw.s_maxlen = Be32::new(1200);
            raw.s_feature_incompat = Be32::new(incompat);
            raw.s_num_fc_blocks = Be32::new(fast);
        });
        world.examine()
    };
    assert_raised(&examined(0, 176).1, &[]);
    let (outcome, findings) = examined(0, 177);
    assert_raised(&findings, &[&NO_ROOM_FOR_FAST_COMMITS]);
    let superblock = RawSuperblock::read_from_bytes(&written(&outcome.changes)[&1]).unwrap();
    assert!(!superblock.features().has_compat(Compat::FAST_COMMIT), "the feature goes");
    assert_raised(&examined(0, 0).1, &[&NO_ROOM_FOR_FAST_COMMITS]);
    assert_raised(&examined(JournalIncompat::FAST_COMMIT.bits(), 177).1, &[&SUPERBLOCK_BAD]);
}

#[test]
fn replay_writes_the_last_copy_and_leaves_revoked_blocks_alone() {
    let mut world = dirty();
    let format = world.dirty_journal();
    let next = world.transaction(format, 1, 7, &[(50, 0xAA), (51, 0xBB), (52, 0xCC)]);
    world.revoke(format, next, 8, 51);
    world.transaction(format, next + 1, 8, &[(52, 0xDD)]);
    let (outcome, findings) = world.examine();
    assert_raised(&findings, &[&REPLAYED]);
    assert!(outcome.replayed);
    let first = |block: u64| written(&outcome.changes).get(&block).map(|contents| contents[0]);
    assert_eq!([first(50), first(51), first(52)], [Some(0xAA), None, Some(0xDD)]);
    assert_eq!(written(&outcome.changes)[&1][0x60] & 4, 0, "needs_recovery is off");
    assert_eq!(written(&outcome.changes)[&JOURNAL][0x1C..0x20], [0; 4], "the log is empty");
}

#[test]
fn without_replay_the_disk_is_left_as_it_is() {
    let mut world = dirty();
    let format = world.dirty_journal();
    world.transaction(format, 1, 7, &[(50, 0xAA)]);
    let mut findings = Findings::new();
    let outcome = examine(&world.fs(), None, false, u64::MAX, &mut findings).unwrap();
    assert_raised(&findings, &[&NOT_REPLAYED]);
    assert!(written(&outcome.changes).is_empty());
}

#[test]
fn a_log_without_the_flag_is_replayed() {
    let mut world = World::new(Incompat::empty());
    let format = world.dirty_journal();
    world.transaction(format, 1, 7, &[(50, 0xAA)]);
    assert_raised(&world.examine().1, &[&RECOVERY_NOT_FLAGGED, &REPLAYED]);
}

#[test]
fn a_bad_commit_block_ends_the_log() {
    let mut world = dirty();
    let format = world.dirty_journal();
    let next = world.transaction(format, 1, 7, &[(50, 0xAA)]);
    world.transaction(format, next, 8, &[(51, 0xBB)]);
    world.bytes(JOURNAL + next + 2, 56, &[1]);
    let (outcome, findings) = world.examine();
    assert_raised(&findings, &[&TRANSACTION_CORRUPT, &REPLAYED]);
    assert!(written(&outcome.changes).contains_key(&50) && !written(&outcome.changes).contains_key(&51));
}

#[test]
fn a_bad_descriptor_stops_the_replay_and_a_bad_copy_is_left_out() {
    let mut world = dirty();
    let format = world.dirty_journal();
    world.transaction(format, 1, 7, &[(50, 0xAA), (51, 0xBB)]);
    world.bytes(JOURNAL + 2, 7, &[1]);
    let (outcome, findings) = world.examine();
    assert_raised(&findings, &[&DATA_CORRUPT, &REPLAYED]);
    assert!(!written(&outcome.changes).contains_key(&50) && written(&outcome.changes).contains_key(&51));
    world.bytes(JOURNAL + 1, 900, &[1]);
    let (outcome, findings) = world.examine();
    assert_raised(&findings, &[&LOG_CORRUPT]);
    assert!(!outcome.replayed && !written(&outcome.changes).contains_key(&51));
}

#[test]
fn blocks_outside_and_inside_the_journal_are_not_written() {
    let mut world = dirty();
    let format = world.dirty_journal();
    world.transaction(format, 1, 7, &[(5000, 1), (JOURNAL as u32 + 3, 2), (50, 3)]);
    let (outcome, findings) = world.examine();
    assert_raised(&findings, &[&BLOCK_OUTSIDE, &REPLAYED]);
    assert!(
        written(&outcome.changes).contains_key(&50)
            && !written(&outcome.changes).contains_key(&(JOURNAL + 3))
    );
}

#[test]
fn a_log_without_an_end_ends() {
    let mut world = dirty();
    let format = world.dirty_journal();
    for index in 1..1024 {
        world.revoke(format, index, 7, 50);
    }
    assert_raised(&world.examine().1, &[&LOG_BROKEN]);
}

#[test]
fn an_unreadable_journal_is_not_an_empty_one() {
    let mut world = dirty();
    let format = world.dirty_journal();
    world.transaction(format, 1, 7, &[(50, 0xAA)]);
    world.device.bytes_mut().truncate((JOURNAL as usize + 2) * BLOCK);
    let (outcome, findings) = world.examine();
    assert!(findings.has(&UNREADABLE) && !written(&outcome.changes).contains_key(&50));
}

fn external(checksum: u32) -> MemoryDevice {
    let mut raw = RawSuperblock::new_zeroed();
    raw.s_magic = U16::new(EXT_MAGIC);
    raw.s_uuid = [9; 16];
    raw.s_blocks_count_lo = U32::new(1100);
    raw.s_feature_incompat = U32::new(Incompat::JOURNAL_DEV.bits());
    raw.s_feature_ro_compat = U32::new(RoCompat::METADATA_CSUM.bits());
    raw.s_checksum = U32::new(checksum);
    let mut world = World::new(Incompat::empty());
    world.journal(|raw| raw.s_first = Be32::new(3));
    let mut bytes = vec![0; 1100 * BLOCK];
    bytes[BLOCK..2 * BLOCK].copy_from_slice(raw.as_bytes());
    let start = JOURNAL as usize * BLOCK;
    bytes[2 * BLOCK..3 * BLOCK].copy_from_slice(&world.device.bytes()[start..start + BLOCK]);
    MemoryDevice::new("journal", bytes)
}

#[test]
fn a_journal_that_is_only_named_by_its_uuid_is_forgotten_without_the_feature() {
    let mut world = World::new(Incompat::empty());
    world.superblock.s_journal_uuid = [9; 16];
    assert_raised(&world.examine().1, &[&STRAY_UUID]);
    world.superblock.s_journal_inum = U32::new(0);
    world.superblock.s_feature_compat = U32::new(0);
    let (outcome, findings) = world.examine();
    assert_raised(&findings, &[&WITHOUT_FEATURE]);
    assert!(!outcome.dropped && !written(&outcome.changes).is_empty());
}

#[test]
fn external_journals() {
    let mut world = World::new(Incompat::empty());
    world.superblock.s_journal_inum = U32::new(0);
    world.superblock.s_journal_uuid = [9; 16];
    let device = external(0);
    let mut findings = Findings::new();
    let refusal = examine(&world.fs(), None, true, u64::MAX, &mut findings).unwrap_err();
    assert_eq!(refusal.code, "external-journal-missing");
    // What was left cleanly needs nothing from there; what was not is reported.
    examine(&world.fs(), None, false, u64::MAX, &mut findings).unwrap();
    assert_raised(&findings, &[]);
    world.superblock.s_feature_incompat = U32::new(Incompat::RECOVER.bits());
    let mut waiting = Findings::new();
    examine(&world.fs(), None, false, u64::MAX, &mut waiting).unwrap();
    assert_raised(&waiting, &[&NOT_REPLAYED]);
    world.superblock.s_feature_incompat = U32::new(0);
    examine(&world.fs(), Some(&device), true, u64::MAX, &mut findings).unwrap();
    assert_raised(&findings, &[&EXTERNAL_CHECKSUM]);
    world.superblock.s_journal_uuid = [8; 16];
    let refusal = examine(&world.fs(), Some(&device), true, u64::MAX, &mut findings).unwrap_err();
    assert_eq!(refusal.code, "external-journal-uuid");
}

/// A record of the fast-commit area.
fn record(tag: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from(tag.to_le_bytes());
    bytes.extend((value.len() as u16).to_le_bytes());
    bytes.extend(value);
    bytes
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A journal of one empty transaction with these records as fast commits behind it. Its length leaves room for both.
fn with_fast_commits(records: &[Vec<u8>], damage: bool) -> World {
    let mut world = dirty();
    world.file(8, 1, &[(0, JOURNAL as u32, 1100)], 1100 * BLOCK as u64);
    world.journal(|raw| {
        raw.s_start = Be32::new(1);
        raw.s_maxlen = Be32::new(1100);
        raw.s_num_fc_blocks = Be32::new(60);
        raw.s_feature_incompat = Be32::new((JournalIncompat::CSUM_V3 | JournalIncompat::FAST_COMMIT).bits());
    });
    let format = world.dirty_format();
    world.transaction(format, 1, 7, &[(50, 0xAA)]);
    let mut area = record(9, &words(&[0, 8]));
    records.iter().for_each(|bytes| area.extend(bytes));
    let mut tail = record(8, &words(&[8, 0]));
    let sum = crc32c(crc32c(0, &area), &tail[..8]) ^ u32::from(damage);
    tail[8..].copy_from_slice(&sum.to_le_bytes());
    area.extend(tail);
    world.bytes(JOURNAL + 1041, 0, &area);
    world
}

#[test]
fn fast_commits_change_inodes_runs_and_names() {
    let mut raw = RawInode::from_record(&[]);
    raw.i_mode = U16::new(mode::REGULAR | 0o644);
    raw.i_links_count = U16::new(1);
    raw.set_flags(InodeFlags::EXTENTS);
    raw.i_size_lo = U32::new(2048);
    let mut inode = Vec::from(12u32.to_le_bytes());
    inode.extend(&raw.as_bytes()[..128]);
    let add = record(1, &words(&[12, 0, 2, 60]));
    let mut name = words(&[11, 12]);
    name.extend(b"new");
    let mut world = with_fast_commits(&[record(6, &inode), add, record(3, &name)], false);
    world.file(11, 2, &[(0, 70, 1)], 1024);
    world.edit_inode(11, |raw| raw.i_mode = U16::new(mode::DIRECTORY | 0o755));
    world.bytes(70, 0, &[11, 0, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0, 2, 0, 0, 0, 0xF4, 3, 2, 2, b'.', b'.']);
    let (outcome, findings) = world.examine();
    assert_raised(&findings, &[&REPLAYED]);
    let record = written(&outcome.changes)[&6][3 * 128..4 * 128].to_vec();
    let raw = RawInode::from_record(&record);
    assert_eq!((raw.i_links_count.get(), raw.i_blocks_lo.get()), (1, 4));
    assert_eq!(raw.block_word(5), 60, "the extent leads to block 60");
    assert_eq!(written(&outcome.changes)[&4][1] & 8, 8, "inode 12 is in use");
    assert_eq!(written(&outcome.changes)[&3][7] & 0x18, 0x18, "blocks 60 and 61 are in use");
    assert_eq!(&written(&outcome.changes)[&70][24..35], &[12, 0, 0, 0, 0xE8, 3, 3, 1, b'n', b'e', b'w']);
}

/// The first block of a new directory is not logged, and a file that comes later in the log has blocks that no bitmap marks yet.
#[test]
fn a_new_directory_takes_no_block_that_the_log_gives_to_a_file() {
    let logged = |inode: u32, kind: u16| {
        let mut raw = RawInode::from_record(&[]);
        raw.i_mode = U16::new(kind | 0o755);
        raw.i_links_count = U16::new(if kind == mode::DIRECTORY { 2 } else { 1 });
        raw.set_flags(InodeFlags::EXTENTS);
        raw.i_size_lo = U32::new(1024);
        record(6, &[&inode.to_le_bytes()[..], &raw.as_bytes()[..128]].concat())
    };
    let link = |parent, inode, name: &[u8]| record(3, &[&words(&[parent, inode]), name].concat());
    let run = |file: Option<u32>| {
        let mut records = vec![logged(12, mode::DIRECTORY), link(11, 12, b"new")];
        if let Some(block) = file {
            records.extend([logged(13, mode::REGULAR), record(1, &words(&[13, 0, 1, block]))]);
            records.push(link(12, 13, b"file"));
        }
        let mut world = with_fast_commits(&records, false);
        // The metadata, and what the full transaction writes.
        world.bytes(3, 0, &[0xFF; 8]);
        world.file(11, 2, &[(0, 70, 1)], 1024);
        world.edit_inode(11, |raw| raw.i_mode = U16::new(mode::DIRECTORY | 0o755));
        world.bytes(70, 0, &[11, 0, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0, 2, 0, 0, 0, 0xF4, 3, 2, 2, b'.', b'.']);
        let (outcome, findings) = world.examine();
        assert_raised(&findings, &[&REPLAYED]);
        let table = written(&outcome.changes)[&6].clone();
        let block = |at: usize| RawInode::from_record(&table[at * 128..][..128]).block_word(5);
        (block(3), block(4))
    };
    let (alone, _) = run(None);
    let (directory, file) = run(Some(alone));
    assert_eq!(file, alone);
    assert_ne!(directory, file);
}

#[test]
fn fast_commits_that_cannot_be_followed() {
    let world_of = |records: &[Vec<u8>], damage| with_fast_commits(records, damage).examine().1;
    assert_raised(&world_of(&[], true), &[&FAST_COMMIT_CORRUPT, &REPLAYED]);
    let outside = record(1, &words(&[12, 0, 2, 60_000]));
    assert_raised(&world_of(&[outside], false), &[&FAST_COMMIT_UNAPPLIED, &REPLAYED]);
    assert_raised(&world_of(&[record(77, &[])], false), &[&FAST_COMMIT_CORRUPT, &REPLAYED]);
}

/// A commit block of 1 KiB has two sectors, and a power cut may leave the first without the second. The kernel takes the transaction for committed.
#[test]
fn a_commit_block_whose_second_sector_was_never_written_counts() {
    let mut world = dirty();
    let format = world.dirty_format();
    world.journal(|raw| {
        raw.s_start = Be32::new(1);
        raw.s_feature_incompat = Be32::new(JournalIncompat::CSUM_V3.bits());
    });
    world.transaction(format, 1, 7, &[(50, 0xAA)]);
    world.bytes(JOURNAL + 3, 512, &[0x5A; 512]);
    let (outcome, findings) = world.examine();
    assert_raised(&findings, &[&REPLAYED]);
    assert!(written(&outcome.changes).contains_key(&50));
    // A first sector that is wrong is another matter.
    world.bytes(JOURNAL + 3, 56, &[1]);
    assert!(world.examine().1.has(&TRANSACTION_CORRUPT));
}
