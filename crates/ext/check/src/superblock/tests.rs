// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `superblock`: every row is raised once, and sound superblocks raise nothing.

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_device::MemoryDevice;
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::inode::RawInode;
use fsmend_ext_format::superblock::RawSuperblock;

use super::testing::{Image, NOW, codes};
use super::{SuperblockOptions, check_large_files, problems, settle};

/// Changes the primary and expects exactly `expected` (codes without their common start), and the same geometry or
/// whatever the change makes of it.
#[track_caller]
fn raises(change: impl Fn(&mut RawSuperblock), expected: &[&str]) {
    let mut image = Image::plain();
    image.change_superblock(change);
    let (settled, found) = image.settle();
    assert!(settled.is_ok(), "refused");
    let found: Vec<&str> = found.iter().map(|code| code.trim_start_matches("ext.superblock.")).collect();
    assert_eq!(found, expected);
}

/// Changes the primary of an image without backups and expects a refusal and `expected` raised.
#[track_caller]
fn refuses(change: impl Fn(&mut RawSuperblock), code: &str, expected: &[&str]) {
    let mut image = Image::plain().without_backups();
    image.change_superblock(change);
    let (settled, found) = image.settle();
    let Err(refusal) = settled else { panic!("not refused") };
    assert_eq!(refusal.code, code, "{refusal}");
    assert!(!refusal.hint.is_empty());
    let found: Vec<&str> = found.iter().map(|code| code.trim_start_matches("ext.superblock.")).collect();
    assert_eq!(found, expected);
}

#[test]
fn sound_superblocks_raise_nothing() {
    for image in [Image::plain(), Image::with_checksums()] {
        let (settled, found) = image.settle();
        let settled = settled.unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(found, [""; 0]);
        assert_eq!((settled.block, &settled.geometry), (1, &image.geometry));
    }
}

#[test]
fn fields_that_can_be_mended() {
    raises(|raw| raw.s_inodes_count = 127.into(), &["inodes-count"]);
    raises(|raw| raw.s_log_cluster_size = 1.into(), &["fragments"]);
    raises(|raw| raw.s_uuid = [0; 16], &["no-uuid"]);
    raises(|raw| raw.s_creator_os = 1.into(), &["hurd-filetype"]);
    raises(|raw| raw.s_flags = 4.into(), &["test-flag"]);
    raises(|raw| raw.s_clusters_per_group = 8.into(), &["clusters-per-group"]);
    raises(|raw| raw.s_log_groups_per_flex = 32, &["groups-per-flex"]);
    raises(|raw| raw.s_desc_size = 65535.into(), &["descriptor-size-unused"]);
    raises(|raw| raw.s_desc_size = 2048.into(), &["descriptor-size-unused"]);
    raises(|raw| raw.s_desc_size = 64.into(), &[]);
    raises(|raw| raw.s_def_hash_version = 6, &["hash-version"]);
    raises(|raw| raw.s_def_hash_version = 5, &[]);
    raises(|raw| raw.s_mount_opts = [b'x'; 64], &["mount-options"]);
    raises(|raw| raw.s_mount_opts[..63].fill(b'x'), &[]);
    // Names may fill their fields.
    raises(|raw| (raw.s_volume_name, raw.s_last_mounted) = ([b'x'; 16], [b'x'; 64]), &[]);
    let foreign = |raw: &mut RawSuperblock| {
        raw.s_feature_incompat += Incompat::EXTENTS.bits();
        raw.s_creator_os = 7.into();
    };
    raises(foreign, &["creator"]);
    raises(|raw| raw.s_feature_compat = 0.into(), &["reserved-gdt"]);
    raises(|raw| raw.s_r_blocks_count_lo = 1025.into(), &["reserved-blocks"]);
    raises(|raw| raw.s_first_ino = 5.into(), &["first-inode"]);
    raises(|raw| raw.s_first_ino = 129.into(), &["first-inode"]);
    // The backup says otherwise.
    raises(|raw| raw.s_first_ino = 28.into(), &["first-inode"]);
}

#[test]
fn an_inode_that_is_a_directory_is_not_reserved() {
    // Usually it is lost+found, in the first one; but any of them tells.
    for (image, inode) in [(Image::plain(), 11), (Image::with_checksums(), 11), (Image::plain(), 27)] {
        let mut image = image.without_backups();
        image.change_superblock(|raw| raw.s_first_ino = 28.into());
        let block = image.free_block();
        let mut record = RawInode::from_record(image.inode(InodeNo(inode)));
        record.i_mode.set(0o040_700);
        record.set_block_word(0, block.0 as u32);
        record.store(image.inode(InodeNo(inode)));
        image.block(block)[..12].copy_from_slice(&[12, 0, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0]);
        let lost = problems::BACKUP_DIFFERS.code;
        assert_eq!(image.settle().1, [lost], "it names another inode");
        image.block(block)[0] = inode as u8;
        let (settled, found) = image.settle();
        assert_eq!(found, [lost, problems::FIRST_INODE.code]);
        let settled = settled.unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!((settled.superblock.s_first_ino.get(), settled.geometry.first_inode), (11, 11));
    }
}

#[test]
fn inodes_that_are_files_are_not_reserved() {
    let mut image = Image::plain().without_backups();
    image.change_superblock(|raw| raw.s_first_ino = 28.into());
    let lost = problems::BACKUP_DIFFERS.code;
    for (inode, found) in [(13, vec![lost]), (20, vec![lost, problems::FIRST_INODE.code])] {
        let mut record = RawInode::from_record(image.inode(InodeNo(inode)));
        record.i_mode.set(0o100_644);
        record.i_links_count.set(1);
        record.store(image.inode(InodeNo(inode)));
        assert_eq!(image.settle().1, found, "one may be a damaged record, two are files");
    }
    // Where inodes have checksums, only records that are right count.
    let mut image = Image::with_checksums().without_backups();
    image.change_superblock(|raw| raw.s_first_ino = 28.into());
    for inode in [13, 20] {
        let mut record = RawInode::from_record(image.inode(InodeNo(inode)));
        record.i_mode.set(0o100_644);
        record.i_links_count.set(1);
        record.store(image.inode(InodeNo(inode)));
    }
    assert_eq!(image.settle().1, [lost]);
}

#[test]
fn blocks_that_hold_the_root_directory_are_not_reserved() {
    for mut image in [Image::plain(), Image::with_checksums()] {
        image.change_superblock(|raw| raw.s_reserved_gdt_blocks = 100.into());
        let without_root = image.settle();
        assert_eq!(without_root.1, [""; 0], "it cannot be known which is right");
        image.change_superblock(|raw| raw.s_reserved_gdt_blocks = 2.into());
        image.inode(InodeNo(2))[..2].copy_from_slice(&0o040_755u16.to_le_bytes());
        assert_eq!(image.settle().1, [""; 0]);
        image.change_superblock(|raw| raw.s_reserved_gdt_blocks = 100.into());
        let (settled, found) = image.settle();
        assert_eq!(found, [problems::RESERVED_GDT_TAKEN.code]);
        let settled = settled.unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(settled.superblock.s_reserved_gdt_blocks.get(), 2);
        assert_eq!(settled.geometry.reserved_gdt_blocks, 2);
    }
}

#[test]
fn features_that_exclude_one_another() {
    let seed = |raw: &mut RawSuperblock| raw.s_feature_incompat += Incompat::CSUM_SEED.bits();
    raises(seed, &["seed-without-checksums"]);
    let wide = |raw: &mut RawSuperblock| {
        raw.s_feature_incompat += Incompat::BIT64.bits();
        raw.s_desc_size = 64.into();
    };
    let (_, found) = Image::new(wide).settle();
    assert_eq!(found, [problems::WIDE_WITHOUT_EXTENTS.code]);
    raises(wide, &["contradicted", "primary-replaced"]);
    let (_, found) = Image::new(|raw| raw.s_feature_incompat += Incompat::META_BG.bits()).settle();
    assert!(found.contains(&problems::META_BG_RESIZE.code));
    assert_eq!(problems::CONTRADICTED.code, "ext.superblock.contradicted");
    raises(|raw| raw.s_rev_level = 0.into(), &["revision-features"]);
    let both = Image::new(|raw| {
        raw.s_feature_ro_compat += RoCompat::METADATA_CSUM.bits() | RoCompat::GDT_CSUM.bits();
        raw.s_checksum_type = 1;
    });
    let (settled, found) = both.settle();
    assert_eq!(found, [problems::BOTH_CHECKSUMS.code]);
    assert!(
        !settled
            .unwrap_or_else(|refusal| panic!("{refusal}"))
            .geometry
            .features
            .has_ro_compat(RoCompat::GDT_CSUM)
    );
}

#[test]
fn a_primary_that_forgot_that_tables_lie_in_other_groups_is_replaced() {
    let mut image = Image::new(|raw| raw.s_feature_incompat += Incompat::FLEX_BG.bits());
    let forget = |raw: &mut RawSuperblock| raw.s_feature_incompat -= Incompat::FLEX_BG.bits();
    // Every table lies in its own group: the feature was switched off, and the backup does not know.
    image.change_superblock(forget);
    assert_eq!(image.settle().1, [""; 0]);
    for (group, table) in [(1, 300), (2, 310)] {
        let mut desc = image.desc(GroupNo(group));
        desc.bg_inode_table_lo = table.into();
        image.put_desc(GroupNo(group), desc, true);
    }
    let (settled, found) = image.settle();
    assert_eq!(found, [problems::CONTRADICTED.code, problems::PRIMARY_REPLACED.code]);
    assert!(settled.is_ok_and(|settled| settled.geometry.features.has_incompat(Incompat::FLEX_BG)));
    // Of one group of three alone, it is the place that is wrong.
    image.put_desc(GroupNo(2), image.desc(GroupNo(2)), true);
    assert_eq!(image.settle().1, [""; 0]);
}

#[test]
fn an_odd_number_of_inodes_per_group_is_corrected_by_the_total() {
    let mut image = Image::plain().without_backups();
    image.change_superblock(|raw| raw.s_inodes_per_group = 31.into());
    let (settled, found) = image.settle();
    assert_eq!(found, [problems::BACKUP_DIFFERS.code, problems::INODES_PER_GROUP.code]);
    assert!(settled.is_ok_and(|settled| settled.geometry.inodes_per_group == 32));
}

#[test]
fn an_odd_number_of_inodes_per_group_beside_an_odd_total_is_rounded() {
    // e2fsck finds that the padding of the inode bitmaps is not set, and mends it in vain.
    for per_group in [37, 33, 39] {
        let mut image = Image::plain().without_backups();
        image.change_superblock(|raw| {
            raw.s_inodes_per_group = per_group.into();
            raw.s_inodes_count = 131.into();
        });
        let (settled, found) = image.settle();
        assert!(found.contains(&problems::INODES_PER_GROUP.code), "{per_group}: {found:?}");
        assert!(found.contains(&problems::INODES_COUNT.code), "{per_group}: {found:?}");
        assert!(settled.is_ok_and(|settled| settled.geometry == image.geometry), "{per_group}");
    }
}

/// Four groups of 32 inodes without backups, whose bitmaps are filled up with ones from the 33rd bit on; a few inodes are in use.
fn with_bitmaps() -> Image {
    let mut image = Image::plain().without_backups();
    for group in (0..4).map(GroupNo) {
        let bitmap = BlockNo(image.desc(group).bg_inode_bitmap_lo.get().into());
        let bytes = image.block(bitmap);
        bytes[..2].fill(0xFF);
        bytes[4..].fill(0xFF);
    }
    image
}

#[test]
fn a_wrong_number_of_inodes_per_group_is_told_by_the_ones_behind_them() {
    for wrong in [40, 64, 128, 24] {
        let mut image = with_bitmaps();
        image.change_superblock(|raw| raw.s_inodes_per_group = wrong.into());
        let (settled, found) = image.settle();
        assert!(found.contains(&problems::INODES_PER_GROUP.code), "{wrong}: {found:?}");
        let settled = settled.unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(settled.geometry, image.geometry, "{wrong}");
    }
}

#[test]
fn a_wrong_total_of_inodes_is_not_believed_against_the_bitmaps() {
    for wrong in [64, 96, 160, 256, 1024] {
        let mut image = with_bitmaps();
        image.change_superblock(|raw| raw.s_inodes_count = wrong.into());
        let (settled, found) = image.settle();
        assert!(found.contains(&problems::INODES_COUNT.code), "{wrong}: {found:?}");
        assert!(settled.is_ok_and(|settled| settled.geometry == image.geometry), "{wrong}");
    }
    // All inodes that are in question are in use: the ones are no filling.
    let mut image = with_bitmaps();
    for group in (0..4).map(GroupNo) {
        let desc = image.desc(group);
        image.block(BlockNo(desc.bg_inode_bitmap_lo.get().into())).fill(0xFF);
        for block in 0..4 {
            let table = image.block(BlockNo(u64::from(desc.bg_inode_table_lo.get()) + block));
            for record in table.chunks_exact_mut(128) {
                record[..2].copy_from_slice(&0o100_644_u16.to_le_bytes());
                record[26] = 1;
            }
        }
    }
    image.change_superblock(|raw| raw.s_inodes_count = 64.into());
    let (settled, found) = image.settle();
    assert!(found.contains(&problems::INODES_COUNT.code), "{found:?}");
    assert!(settled.is_ok_and(|settled| settled.geometry == image.geometry));
}

#[test]
fn unknown_features() {
    raises(|raw| raw.s_feature_ro_compat += 0x0100_0000, &["unknown-feature"]);
    raises(|raw| raw.s_feature_compat += 0x0100_0000, &["unknown-feature"]);
    let mut image = Image::plain();
    image.change_superblock(|raw| raw.s_feature_incompat += 0x2000_0000 | Incompat::COMPRESSION.bits());
    let Err(refusal) = image.settle().0 else { panic!("not refused") };
    assert_eq!(refusal.code, "unknown-feature");
    assert!(refusal.message.contains("compression, incompatible 0x20000000"), "{refusal}");
}

#[test]
fn unknown_features_beside_a_wrong_checksum_are_damage() {
    for bit in [0x2000_0000, Incompat::JOURNAL_DEV.bits()] {
        let mut image = Image::with_checksums();
        image.change_superblock(|raw| raw.s_feature_incompat += bit);
        assert!(image.settle().0.is_err(), "the checksum vouches for it");
        image.block(BlockNo(1))[0x3FC] ^= 1;
        let (settled, found) = image.settle();
        assert_eq!(found, [problems::PRIMARY_REPLACED.code, problems::STRAY_FEATURES.code]);
        assert!(settled.is_ok_and(|settled| settled.is_backup()));
    }
}

#[test]
fn unknown_features_beside_a_wrong_checksum_are_taken_out() {
    let mut image = Image::with_checksums();
    image.change_superblock(|raw| {
        raw.s_feature_compat += 0x0100_0000;
        raw.s_feature_ro_compat += 0x0100_0000;
    });
    image.block(BlockNo(1))[0x3FC] ^= 1;
    let (settled, found) = image.settle();
    assert_eq!(found, [problems::CHECKSUM.code, problems::DOUBTFUL_FEATURES.code]);
    assert!(settled.is_ok_and(|settled| settled.geometry.features == image.geometry.features));
}

#[test]
fn meta_block_groups_behind_the_end() {
    let image = Image::new(|raw| {
        raw.s_feature_compat -= Compat::RESIZE_INODE.bits();
        raw.s_reserved_gdt_blocks = 0.into();
        raw.s_feature_incompat += Incompat::META_BG.bits();
        raw.s_first_meta_bg = 2.into();
    });
    let (settled, found) = image.settle();
    assert_eq!(found, [problems::FIRST_META_BG.code]);
    assert!(
        !settled
            .unwrap_or_else(|refusal| panic!("{refusal}"))
            .geometry
            .features
            .has_incompat(Incompat::META_BG)
    );
}

#[test]
fn extra_inode_sizes() {
    let large = |least: u16, wanted: u16| {
        Image::new(move |raw| {
            raw.s_inode_size = 256.into();
            raw.s_min_extra_isize = least.into();
            raw.s_want_extra_isize = wanted.into();
        })
    };
    assert_eq!(large(32, 32).settle().1, [""; 0]);
    assert_eq!(large(0, 128).settle().1, [""; 0]);
    assert_eq!(large(1, 32).settle().1, [problems::MIN_EXTRA_SIZE.code]);
    assert_eq!(large(32, 1024).settle().1, [problems::WANT_EXTRA_SIZE.code]);
}

#[test]
fn times_and_state() {
    raises(|raw| raw.s_mtime = (NOW as u32 + 90_000).into(), &["future-mount"]);
    raises(|raw| raw.s_wtime = (NOW as u32 + 90_000).into(), &["future-write"]);
    raises(|raw| raw.s_wtime = (NOW as u32 + 80_000).into(), &[]);
    raises(|raw| raw.s_state = 0.into(), &["not-clean"]);
    raises(|raw| raw.s_state = 3.into(), &["errors-recorded"]);
    raises(|raw| raw.s_error_count = 3.into(), &["errors-recorded"]);
}

#[test]
fn a_lost_primary_is_replaced_by_a_backup() {
    let changes: [fn(&mut RawSuperblock); 6] = [
        |raw| raw.s_magic = 0.into(),
        |raw| raw.s_log_block_size = 2.into(),
        |raw| raw.s_inode_size = 0.into(),
        |raw| raw.s_inodes_per_group = 40.into(),
        |raw| raw.s_blocks_per_group = 511.into(),
        |raw| raw.s_first_data_block = 0.into(),
    ];
    for change in changes {
        let mut image = Image::plain();
        image.change_superblock(change);
        let (settled, found) = image.settle();
        let settled = settled.unwrap_or_else(|refusal| panic!("{refusal}"));
        assert!(settled.is_backup());
        assert_eq!((settled.block, settled.geometry), (513, image.geometry));
        assert_eq!(found, [problems::PRIMARY_REPLACED.code]);
    }
}

#[test]
fn a_wrong_checksum_alone_does_not_make_the_primary_useless() {
    let mut image = Image::with_checksums();
    image.bytes[1024 + 0x78] ^= 1;
    let (settled, found) = image.settle();
    assert_eq!(found, [problems::CHECKSUM.code]);
    assert!(!settled.unwrap_or_else(|refusal| panic!("{refusal}")).is_backup());
    image.bytes[1024 + 0x28] ^= 8;
    assert_eq!(image.settle().1, [problems::PRIMARY_REPLACED.code]);
}

#[test]
fn without_a_backup_there_is_nothing_to_be_done() {
    refuses(|raw| raw.s_inode_size = 0.into(), "superblock-unusable", &["bad-value", "unusable"]);
    refuses(
        |raw| raw.s_blocks_per_group = 511.into(),
        "superblock-unusable",
        &["blocks-per-group", "unusable"],
    );
    refuses(
        |raw| raw.s_first_data_block = 0.into(),
        "superblock-unusable",
        &["first-data-block", "unusable"],
    );
    refuses(
        |raw| raw.s_blocks_per_group = 0.into(),
        "superblock-unusable",
        &["blocks-per-group", "unusable"],
    );
    refuses(|raw| raw.s_rev_level = 7.into(), "superblock-unusable", &["bad-value", "unusable"]);
    refuses(|raw| raw.s_magic = 0.into(), "not-ext", &["unusable"]);
    let absurd = |raw: &mut RawSuperblock| {
        raw.s_feature_incompat += Incompat::BIT64.bits();
        raw.s_desc_size = 64.into();
        raw.s_blocks_count_hi = u32::MAX.into();
    };
    refuses(absurd, "superblock-unusable", &["too-many-inodes", "unusable"]);
}

#[test]
fn a_file_system_larger_than_its_device() {
    let mut image = Image::plain();
    image.bytes.truncate(1500 << 10);
    let (settled, found) = image.settle();
    assert_eq!(found, [problems::BEYOND_DEVICE.code]);
    assert_eq!(
        settled.unwrap_or_else(|refusal| panic!("{refusal}")).geometry,
        image.geometry,
        "the claim is plausible"
    );
    let mut image = Image::plain();
    image.change_superblock(|raw| raw.s_blocks_count_lo = 2_000_000.into());
    let (settled, found) = image.settle();
    assert_eq!(found, [problems::BEYOND_DEVICE.code, problems::PRIMARY_REPLACED.code]);
    assert_eq!(settled.unwrap_or_else(|refusal| panic!("{refusal}")).geometry, image.geometry);
    let (settled, _) = image.without_backups().settle();
    assert_eq!(
        settled.unwrap_or_else(|refusal| panic!("{refusal}")).geometry.blocks_count,
        2048,
        "the claim is not"
    );
}

#[test]
fn a_useless_backup_is_noted() {
    let image = Image::plain().without_backups();
    assert_eq!(image.settle().1, [problems::BACKUP_DIFFERS.code]);
}

#[test]
fn a_superblock_can_be_named() {
    let mut image = Image::plain();
    image.bytes[1024..2048].fill(0);
    let device = MemoryDevice::new("image", image.bytes);
    let named = |block, block_size| {
        let options = SuperblockOptions { block: Some(block), block_size };
        settle(&device, options, NOW, &mut Findings::new()).map(|settled| settled.block)
    };
    assert_eq!(named(513, None), Ok(513));
    assert_eq!(named(1537, Some(1024)), Ok(1537));
    assert!(named(514, None).is_err_and(|refusal| refusal.code == "superblock-unusable"));
    assert!(named(u64::MAX, None).is_err());
}

#[test]
fn large_files_need_their_feature() {
    for (features, expected) in
        [(0, vec![problems::LARGE_FILE_MISSING.code]), (RoCompat::LARGE_FILE.bits(), vec![])]
    {
        let mut image = Image::plain();
        image.change_superblock(|raw| raw.s_feature_ro_compat |= features);
        image.with_fs(|fs, _| {
            let mut findings = Findings::new();
            check_large_files(fs, None, &mut findings);
            assert!(findings.is_empty());
            check_large_files(fs, Some(InodeNo(12)), &mut findings);
            assert_eq!(codes(&findings), expected);
        });
    }
}

#[test]
fn other_contents_are_named() {
    let mut bytes = vec![0; 1 << 20];
    bytes[..4].copy_from_slice(b"XFSB");
    // An old backup must not make it an ext file system again.
    let old = Image::plain();
    bytes[513 << 10..514 << 10].copy_from_slice(&old.bytes[513 << 10..514 << 10]);
    let look = |bytes: Vec<u8>| {
        let device = MemoryDevice::new("disk", bytes);
        settle(&device, SuperblockOptions::default(), NOW, &mut Findings::new()).map(|_| ()).unwrap_err()
    };
    assert!(look(bytes).message.contains("XFS"));
    assert!(look(vec![0; 100]).message.contains("100 bytes"));
    assert_eq!(look(vec![0; 1 << 20]).code, "not-ext");
    let mut journal = Image::plain();
    journal.change_superblock(|raw| {
        raw.s_feature_incompat = Incompat::JOURNAL_DEV.bits().into();
        raw.s_inodes_count = 0.into();
    });
    assert_eq!(look(journal.bytes).code, "journal-device");
}

#[test]
fn messages_have_all_their_operands() {
    let mut image = Image::plain();
    image.change_superblock(|raw| {
        raw.s_inodes_count = 7.into();
        raw.s_first_ino = 1.into();
        raw.s_uuid = [0; 16];
        raw.s_r_blocks_count_lo = 2000.into();
        raw.s_mtime = u32::MAX.into();
    });
    let device = MemoryDevice::new("image", image.bytes);
    let mut findings = Findings::new();
    assert!(settle(&device, SuperblockOptions::default(), NOW, &mut findings).is_ok());
    let messages: Vec<String> = findings.iter().map(Problem::message).collect();
    assert_eq!(messages.len(), 5);
    assert!(messages.iter().all(|message| !message.contains('?')), "{messages:?}");
}
