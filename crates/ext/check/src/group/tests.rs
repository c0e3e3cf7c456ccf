// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `group`: every row is raised once, and sound descriptors raise nothing.

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_device::MemoryDevice;
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::group::{GroupFlags, RawGroupDesc};

use super::{load, problems, refuse_without_room};
use crate::Group;
use crate::mmp;
use crate::superblock::testing::Image;

/// Changes the primary descriptor of group 2 (its checksum stays right) and looks.
fn change(
    mut image: Image,
    everywhere: bool,
    change: impl Fn(&mut RawGroupDesc),
) -> (Vec<Group>, Vec<&'static str>) {
    let mut desc = image.desc(GroupNo(2));
    change(&mut desc);
    image.put_desc(GroupNo(2), desc, everywhere);
    image.load()
}

#[test]
fn sound_descriptors_raise_nothing() {
    let no_resize = |raw: &mut fsmend_ext_format::superblock::RawSuperblock| {
        raw.s_feature_compat -= Compat::RESIZE_INODE.bits();
        raw.s_reserved_gdt_blocks = 0.into();
    };
    let meta_bg = Image::new(|raw| {
        no_resize(raw);
        raw.s_feature_incompat += Incompat::META_BG.bits();
    });
    let no_sparse = Image::new(|raw| {
        no_resize(raw);
        raw.s_feature_ro_compat = 0.into();
    });
    let wide = Image::new(|raw| {
        raw.s_feature_incompat += Incompat::BIT64.bits() | Incompat::EXTENTS.bits();
        raw.s_desc_size = 64.into();
        raw.s_feature_ro_compat += RoCompat::METADATA_CSUM.bits();
        raw.s_checksum_type = 1;
    });
    for image in [Image::plain(), Image::with_checksums(), meta_bg, no_sparse, wide] {
        let (groups, found) = image.load();
        assert_eq!(found, [""; 0]);
        for (group, number) in groups.iter().zip(0..) {
            assert_eq!(
                group.desc.inode_table,
                u64::from(image.desc(GroupNo(number)).bg_inode_table_lo.get())
            );
            assert_eq!(group.scan_inodes, 32);
        }
    }
}

#[test]
fn a_place_out_of_range_is_taken_from_a_backup() {
    let rows = [&problems::BLOCK_BITMAP_PLACE, &problems::INODE_BITMAP_PLACE, &problems::INODE_TABLE_PLACE];
    for (index, row) in rows.into_iter().enumerate() {
        for place in [0, 1, 3000, u32::MAX] {
            let (groups, mut found) = change(Image::plain(), false, |desc| match index {
                0 => desc.bg_block_bitmap_lo = place.into(),
                1 => desc.bg_inode_bitmap_lo = place.into(),
                _ => desc.bg_inode_table_lo = place.into(),
            });
            found.retain(|code| *code != problems::FROM_BACKUP.code);
            assert_eq!(found, [row.code]);
            let sound = Image::plain().desc(GroupNo(2));
            assert_eq!(groups[2].desc.block_bitmap, u64::from(sound.bg_block_bitmap_lo.get()));
            assert_eq!(groups[2].desc.inode_bitmap, u64::from(sound.bg_inode_bitmap_lo.get()));
            assert_eq!(groups[2].desc.inode_table, u64::from(sound.bg_inode_table_lo.get()));
        }
    }
}

#[test]
fn a_bitmap_in_the_wrong_place_does_not_cost_a_table() {
    let sound = Image::plain().desc(GroupNo(2));
    let (groups, found) = change(Image::plain(), false, |desc| {
        desc.bg_inode_table_lo = 3000.into();
        desc.bg_block_bitmap_lo = sound.bg_inode_table_lo + 1;
    });
    assert_eq!(groups[2].desc.inode_table, u64::from(sound.bg_inode_table_lo.get()));
    assert_eq!(groups[2].desc.block_bitmap, u64::from(sound.bg_block_bitmap_lo.get()));
    assert!(found.contains(&problems::BLOCK_BITMAP_CONFLICT.code), "{found:?}");
    assert!(found.contains(&problems::FROM_BACKUP.code), "{found:?}");
}

#[test]
fn a_place_that_no_backup_knows_is_lost() {
    let (groups, found) = change(Image::plain(), true, |desc| desc.bg_inode_table_lo = 5.into());
    assert_eq!(found, [problems::INODE_TABLE_PLACE.code]);
    assert_eq!((groups[2].desc.inode_table, groups[2].scan_inodes), (0, 0));
    assert_ne!(groups[2].desc.block_bitmap, 0);
}

#[test]
fn an_inode_table_that_no_descriptor_knows_is_found_by_its_inodes() {
    for in_use in [10, 2, 1, 0] {
        let mut image = Image::with_checksums();
        let seed = image.geometry.checksum_seed;
        image.inode(InodeNo(7)).fill(0);
        for number in (1..=in_use).map(InodeNo) {
            let record = image.inode(number);
            record[..2].copy_from_slice(&0o100644u16.to_le_bytes());
            checksum::seal_inode(seed, number, record);
        }
        let mut desc = image.desc(GroupNo(0));
        let place = u64::from(desc.bg_inode_table_lo.get());
        desc.bg_inode_table_lo = 9999.into();
        image.put_desc(GroupNo(0), desc, true);
        let (groups, found) = image.load();
        // One half of a checksum may be right by chance.
        let is_found = in_use >= 2;
        assert_eq!(groups[0].desc.inode_table, if is_found { place } else { 0 }, "{in_use}");
        assert_eq!(found.contains(&problems::TABLE_FOUND.code), is_found);
        assert!(found.contains(&problems::INODE_TABLE_PLACE.code));
        if in_use == 10 {
            // Those of others do not prove it.
            image.bytes.copy_within(place as usize * 1024..(place as usize + 4) * 1024, 1900 * 1024);
            image.bytes[place as usize * 1024..(place as usize + 4) * 1024].fill(0x5A);
            assert_eq!(image.load().0[0].desc.inode_table, 0);
        }
    }
}

#[test]
fn a_table_that_moved_without_a_checksum_is_taken_back_where_its_directories_are() {
    let moved = |other_is_damaged: bool, is_proven: bool| {
        let mut image = Image::plain();
        let block = BlockNo(505);
        image.put_directory(InodeNo(2), block);
        if !is_proven {
            image.block(block)[..12].fill(0);
        }
        let mut desc = image.desc(GroupNo(0));
        let place = desc.bg_inode_table_lo.get();
        desc.bg_inode_table_lo = (place + 2).into();
        image.put_desc(GroupNo(0), desc, false);
        if other_is_damaged {
            let mut desc = image.desc(GroupNo(1));
            desc.bg_block_bitmap_lo = 1.into();
            image.put_desc(GroupNo(1), desc, false);
        }
        let (groups, found) = image.load();
        (groups[0].desc.inode_table - u64::from(place), found.contains(&problems::INODE_TABLE_PLACE.code))
    };
    assert_eq!(moved(true, true), (0, true));
    assert_eq!(moved(true, false), (2, false), "the word of one against that of another");
    assert_eq!(
        moved(false, true),
        (0, true),
        "a table of group 0 without the root directory is always wrong"
    );
}

/// The descriptors of a group were overwritten, and both backups agreed on where its table is; but the files of so damaged a table proved nothing, and
/// the table was read, and written, where the damaged descriptor said.
#[test]
fn two_backups_that_agree_are_believed_where_no_table_proves_itself() {
    let moved = |backups_agree: bool, other_is_damaged: bool| {
        let mut image = Image::plain();
        let right = image.desc(GroupNo(2));
        let place = right.bg_inode_table_lo.get();
        let mut wrong = right;
        wrong.bg_inode_table_lo = (place + 26).into();
        image.put_desc(GroupNo(2), wrong, false);
        if other_is_damaged {
            let mut desc = image.desc(GroupNo(1));
            desc.bg_block_bitmap_lo = 1.into();
            image.put_desc(GroupNo(1), desc, false);
        }
        if !backups_agree {
            let copy = image.geometry.group_head(GroupNo(3)).descriptors.start;
            image.block(copy).fill(0x77);
        }
        let (groups, _) = image.load();
        groups[2].desc.inode_table - u64::from(place)
    };
    assert_eq!(moved(true, true), 0);
    assert_eq!(moved(false, true), 26, "the word of one against that of another");
}

/// Fills the table of group 2 at `place` with `in_use` files whose checksums are right.
fn fill_table(image: &mut Image, place: u32, in_use: u32) {
    let seed = image.geometry.checksum_seed;
    for index in 0..in_use {
        let at = place as usize * 1024 + index as usize * 128;
        let record = &mut image.bytes[at..at + 128];
        record[..2].copy_from_slice(&0o100_644u16.to_le_bytes());
        checksum::seal_inode(seed, InodeNo(65 + index), record);
    }
}

#[test]
fn a_right_checksum_does_not_make_a_place_right() {
    const STEP: u32 = 300;
    // How many inodes are in use in the right place, what stands in the wrong one, and whether the backups are led astray as well.
    let found = |in_use: u32, there: &dyn Fn(&mut Image, u32), everywhere: bool| {
        let mut image = Image::with_checksums();
        let right = image.desc(GroupNo(2));
        let place = right.bg_inode_table_lo.get();
        fill_table(&mut image, place, in_use);
        there(&mut image, place + STEP);
        let mut wrong = right;
        wrong.bg_inode_table_lo += STEP;
        image.put_desc(GroupNo(2), wrong, everywhere);
        let (groups, found) = image.load();
        (groups[2].desc.inode_table - u64::from(place), found)
    };
    let nothing = |_: &mut Image, _: u32| ();
    let data = |image: &mut Image, place: u32| image.block(BlockNo(place.into())).fill(b'x');
    let table = |image: &mut Image, place: u32| fill_table(image, place, 3);
    let from_backup = vec![problems::FROM_BACKUP.code, problems::INODE_TABLE_PLACE.code];
    let without = vec![problems::TABLE_FOUND.code, problems::INODE_TABLE_PLACE.code];
    let there = u64::from(STEP);
    assert_eq!(found(5, &nothing, false), (0, from_backup.clone()));
    assert_eq!(found(5, &data, false), (0, from_backup.clone()));
    assert_eq!(found(0, &data, false), (0, from_backup), "data, where an empty table was");
    assert_eq!(found(0, &nothing, false), (there, vec![]), "one word against another");
    assert_eq!(found(5, &table, false), (there, vec![]), "moved, and the backups are old");
    assert_eq!(found(5, &data, true), (there, vec![]), "the backups bear it out");
    // No backup is left that could be asked: the usual place is.
    let mut image = Image::with_checksums();
    let right = image.desc(GroupNo(2));
    fill_table(&mut image, right.bg_inode_table_lo.get(), 5);
    let mut wrong = right;
    wrong.bg_inode_table_lo += STEP;
    data(&mut image, wrong.bg_inode_table_lo.get());
    image.put_desc(GroupNo(2), wrong, false);
    for group in [1, 3] {
        let copy = image.geometry.group_head(GroupNo(group)).descriptors.start;
        image.block(copy).fill(0x77);
    }
    let (groups, found) = image.load();
    assert_eq!((groups[2].desc.inode_table, found), (right.bg_inode_table_lo.get().into(), without));
}

#[test]
fn no_room_for_a_lost_inode_table() {
    let mut image = Image::plain();
    for number in 0..4 {
        let mut desc = image.desc(GroupNo(number));
        desc.bg_free_blocks_count_lo = 0.into();
        if number == 2 {
            desc.bg_inode_table_lo = 5.into();
        }
        image.put_desc(GroupNo(number), desc, true);
    }
    let mut settled = image.settle().0.unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut groups = image.load().0;
    settled.superblock.s_free_blocks_count_lo.set(0);
    assert!(refuse_without_room(&settled, &groups).is_err_and(|refusal| refusal.code == "no-room"));
    groups[0].desc.free_blocks = 4;
    assert_eq!(refuse_without_room(&settled, &groups), Ok(()));
    // The counts of the groups may be as lost as the table.
    groups[0].desc.free_blocks = 0;
    settled.superblock.s_free_blocks_count_lo.set(4);
    assert_eq!(refuse_without_room(&settled, &groups), Ok(()));
}

#[test]
fn places_on_top_of_other_metadata() {
    let sound = Image::plain();
    let own = sound.desc(GroupNo(2));
    let flexible = || Image::new(|raw| raw.s_feature_incompat += Incompat::FLEX_BG.bits());
    let (groups, found) = change(flexible(), false, |desc| desc.bg_block_bitmap_lo = 1.into());
    assert_eq!(found, [problems::BLOCK_BITMAP_CONFLICT.code, problems::FROM_BACKUP.code]);
    assert_eq!(groups[2].desc.block_bitmap, u64::from(own.bg_block_bitmap_lo.get()));
    let (groups, found) = change(flexible(), true, |desc| desc.bg_inode_bitmap_lo = own.bg_inode_table_lo);
    assert_eq!(found, [problems::INODE_BITMAP_CONFLICT.code]);
    assert_eq!(groups[2].desc.inode_bitmap, 0);
    let other = sound.desc(GroupNo(1)).bg_inode_table_lo;
    let (groups, found) = change(flexible(), false, |desc| desc.bg_inode_table_lo = other);
    assert_eq!(found, [problems::FROM_BACKUP.code, problems::INODE_TABLE_CONFLICT.code]);
    assert_eq!(groups[1].desc.inode_table, u64::from(other.get()), "the other group keeps its own");
}

#[test]
fn the_one_that_no_backup_confirms_gives_way() {
    let mut image = Image::new(|raw| raw.s_feature_incompat += Incompat::FLEX_BG.bits());
    let mut desc = image.desc(GroupNo(0));
    desc.bg_inode_table_lo = image.desc(GroupNo(3)).bg_inode_table_lo;
    image.put_desc(GroupNo(0), desc, false);
    let (groups, _) = image.load();
    for number in [0, 3] {
        let expected = image.desc(GroupNo(number)).bg_inode_table_lo.get();
        assert_eq!(groups[number as usize].desc.inode_table, u64::from(expected));
    }
}

#[test]
fn a_wiped_table_is_taken_from_a_backup() {
    for mut image in [Image::plain(), Image::with_checksums()] {
        image.block(BlockNo(2)).fill(0);
        let (groups, found) = image.load();
        assert!(found.contains(&problems::FROM_BACKUP.code));
        for (group, number) in groups.iter().zip(0..) {
            assert_eq!(
                group.desc.inode_table,
                u64::from(image.desc(GroupNo(number)).bg_inode_table_lo.get())
            );
        }
    }
}

#[test]
fn marks_are_believed_only_with_a_right_checksum() {
    let used = |desc: &mut RawGroupDesc| {
        desc.bg_itable_unused_lo = 10.into();
        desc.bg_flags = GroupFlags::BLOCK_UNINIT.bits().into();
    };
    let (groups, found) = change(Image::with_checksums(), true, used);
    assert_eq!(found, [""; 0]);
    assert_eq!(groups[2].scan_inodes, 22);
    let mut image = Image::with_checksums();
    let mut desc = image.desc(GroupNo(2));
    used(&mut desc);
    desc.bg_flags = (GroupFlags::BLOCK_UNINIT | GroupFlags::INODE_UNINIT).bits().into();
    image.put_desc(GroupNo(2), desc, true);
    assert_eq!(image.load().0[2].scan_inodes, 0);
    image.block(BlockNo(2))[2 * 32 + 0x1E] ^= 1;
    let (groups, found) = image.load();
    assert_eq!(found, [problems::CHECKSUM.code]);
    assert_eq!((groups[2].scan_inodes, groups[2].desc.flags), (32, GroupFlags::empty()));
}

#[test]
fn marks_that_cannot_be() {
    let (groups, found) =
        change(Image::plain(), true, |desc| desc.bg_flags = GroupFlags::INODE_UNINIT.bits().into());
    assert_eq!(found, [problems::UNINIT_WITHOUT_CHECKSUM.code]);
    assert_eq!(groups[2].scan_inodes, 32);
    let (groups, found) = change(Image::with_checksums(), true, |desc| desc.bg_itable_unused_lo = 33.into());
    assert_eq!(found, [problems::UNUSED_TOO_MANY.code]);
    assert_eq!(groups[2].scan_inodes, 32);
    let mut image = Image::with_checksums();
    let mut desc = image.desc(GroupNo(3));
    desc.bg_flags = GroupFlags::BLOCK_UNINIT.bits().into();
    image.put_desc(GroupNo(3), desc, true);
    assert_eq!(image.load().1, [problems::LAST_UNINIT.code]);
}

#[test]
fn a_mark_of_unused_inodes_that_the_group_itself_contradicts() {
    let marked = |group: u32, free: u16, unused: u16, flags: GroupFlags| {
        let mut image = Image::with_checksums();
        let mut desc = image.desc(GroupNo(group));
        desc.bg_free_inodes_count_lo = free.into();
        desc.bg_itable_unused_lo = unused.into();
        desc.bg_flags = (GroupFlags::INODE_UNINIT | flags).bits().into();
        image.put_desc(GroupNo(group), desc, true);
        let (groups, found) = image.load();
        (groups[group as usize].scan_inodes, found)
    };
    let contradicted = problems::INODES_UNINIT_CONTRADICTED.code;
    assert_eq!(marked(2, 32, 32, GroupFlags::empty()), (0, vec![]), "never used");
    assert_eq!(marked(2, 32, 0, GroupFlags::empty()), (0, vec![]), "nothing counted");
    assert_eq!(marked(2, 20, 12, GroupFlags::empty()), (20, vec![contradicted]));
    let too_many = problems::UNUSED_TOO_MANY.code;
    assert_eq!(marked(2, 20, 32, GroupFlags::INODE_ZEROED), (32, vec![contradicted, too_many]));
    assert_eq!(marked(2, 20, 32, GroupFlags::empty()), (0, vec![too_many]), "a table that may hold anything");
    assert_eq!(
        marked(0, 32, 0, GroupFlags::empty()),
        (32, vec![contradicted]),
        "the root directory is there"
    );
    assert_eq!(marked(0, 32, 32, GroupFlags::empty()), (32, vec![contradicted, too_many]));
}

#[test]
fn a_table_without_the_root_directory_is_another_groups_or_none() {
    let mut image = Image::plain();
    let leaf = image.free_block();
    image.inode(InodeNo(2))[..2].copy_from_slice(&0o040_755u16.to_le_bytes());
    image.inode(InodeNo(2))[40..44].copy_from_slice(&(leaf.0 as u32).to_le_bytes());
    image.block(leaf)[..12].copy_from_slice(&[2, 0, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0]);
    assert_eq!(image.load().1, [""; 0]);
    let right = image.desc(GroupNo(0));
    let table = u64::from(right.bg_inode_table_lo.get());
    let mut wrong = right;
    wrong.bg_inode_table_lo += 17;
    let looked_at = |image: &Image| {
        let (groups, found) = image.load();
        (groups[0].desc.inode_table, found)
    };
    image.put_desc(GroupNo(0), wrong, false);
    let (place, from_backup) = (problems::INODE_TABLE_PLACE.code, problems::FROM_BACKUP.code);
    assert_eq!(looked_at(&image), (table, vec![from_backup, place]));
    // Where the backups say the same, what stands in the blocks of the group tells.
    image.put_desc(GroupNo(0), wrong, true);
    assert_eq!(looked_at(&image), (table, vec![problems::TABLE_FOUND.code, place]));
    // A root directory that is damaged does not make the table another one.
    image.put_desc(GroupNo(0), right, true);
    image.inode(InodeNo(2))[..2].fill(0);
    assert_eq!(looked_at(&image), (table, vec![]));
}

#[test]
fn descriptors_behind_the_end_cannot_be_read() {
    let image = Image::plain();
    let mut settled = image.settle().0.unwrap_or_else(|refusal| panic!("{refusal}"));
    settled.geometry.group_count = 200;
    settled.geometry.blocks_count = 200 * 512 + 1;
    settled.geometry.inodes_count = 200 * 32;
    let device = MemoryDevice::new("image", image.bytes[..3 << 10].to_vec());
    let mut findings = Findings::new();
    let groups = load(&device, &settled, &mut findings);
    assert_eq!(groups.len(), 200);
    assert!(findings.has(&problems::UNREADABLE));
    assert!(groups[100..].iter().all(|group| group.desc.inode_table == 0));
    let messages: Vec<String> = findings.iter().map(Problem::message).collect();
    assert!(messages.iter().all(|message| !message.contains('?')), "{messages:?}");
}

#[test]
fn the_map_of_metadata() {
    let image = Image::plain();
    let marked = image.with_fs(|fs, _| fs.metadata.ones().collect::<Vec<_>>());
    // Superblock, descriptors, two reserved, two bitmaps, four of inode table; then the same or less in other groups.
    assert_eq!(marked[..10], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(marked.len(), 3 * 10 + 6);
}

#[test]
fn an_mmp_block_must_have_a_place_of_its_own() {
    for (place, is_good) in
        [(0, false), (1, false), (2, false), (600, true), (2048, false), (u64::MAX, false)]
    {
        let image = Image::new(|raw| {
            raw.s_feature_incompat += Incompat::MMP.bits();
            raw.s_mmp_block = place.into();
        });
        let (found, marked) =
            image.with_fs(|fs, findings| (findings.has(&mmp::problems::PLACE), fs.metadata.get(place)));
        assert_eq!((found, marked && is_good), (!is_good, is_good), "{place}");
    }
}
