// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every row of the quota's catalogue is raised by what it describes; right sums raise nothing.

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_base::InodeNo;
use fsmend_engine::Findings;
use fsmend_ext_format::features::{Incompat, RoCompat};
use fsmend_ext_format::inode::{InodeFlags, mode};
use fsmend_ext_format::quota::QuotaType;
use zerocopy::little_endian::U32;

use super::problems::*;
use super::{Owner, QuotaUsage, Used, check, put_numbers, settled_numbers};
use crate::journal::testing::{World, assert_raised};
use fsmend_engine::crosscheck::quota::QuotaKind;

/// A world whose user quota (inode 3, blocks 90 to 95) says that user 5 has 4096 bytes in 2 inodes.
fn world() -> World {
    let mut world = World::new(Incompat::empty());
    world.superblock.s_feature_ro_compat = U32::new(RoCompat::QUOTA.bits());
    world.superblock.s_usr_quota_inum = U32::new(3);
    world.file(3, 1, &[(0, 90, 6)], 6 * 1024);
    world.bytes(90, 0, &[0x11, 0x1F, 0xC0, 0xD9, 1]);
    world.bytes(90, 20, &[6]);
    for (block, index, next) in [(91, 0, 2), (92, 0, 3), (93, 0, 4), (94, 5, 5)] {
        world.bytes(block, index * 4, &[next]);
    }
    world.bytes(95, 16, &[5]);
    world.bytes(95, 16 + 24, &[2]);
    world.bytes(95, 16 + 49, &[16]);
    world
}

fn usage(bytes: u64, inodes: u64) -> QuotaUsage {
    let mut usage = QuotaUsage::new();
    usage.charge_many(Owner { uid: 5, gid: 6, projid: 0 }, bytes, inodes);
    usage
}

fn checked(world: &mut World, usage: &QuotaUsage) -> Findings {
    let mut findings = Findings::new();
    let mut fs = world.fs();
    let numbers = settled_numbers(&fs, &mut findings);
    put_numbers(&mut fs.superblock, numbers);
    check(&fs, usage, &mut findings);
    findings
}

#[test]
fn right_sums_raise_nothing() {
    assert_raised(&checked(&mut world(), &usage(4096, 2)), &[]);
}

#[test]
fn wrong_and_missing_sums() {
    let findings = checked(&mut world(), &usage(8192, 2));
    assert_raised(&findings, &[&USAGE_WRONG]);
    let message = findings.iter().next().unwrap().message();
    assert!(message.contains("quota for user 5 is 4096 bytes in 2 inodes"), "{message}");
    assert_raised(&checked(&mut world(), &QuotaUsage::new()), &[&USAGE_WRONG]);
    let message = checked(&mut world(), &usage(1, 1)).iter().next().unwrap().message();
    assert!(message.contains("should be 1 byte in 1 inode"), "{message}");
}

type Damage = fn(&mut World);

#[test]
fn damaged_files() {
    let damages: [(&str, Damage); 10] = [
        ("count of blocks too large", |world| world.bytes(90, 20, &[7])),
        ("count of blocks too small", |world| world.bytes(90, 20, &[5])),
        ("free blocks outside", |world| world.bytes(90, 24, &[6])),
        ("leaves with room outside", |world| world.bytes(90, 30, &[1])),
        ("too long", |world| world.edit_inode(3, |raw| raw.set_size((1 << 31) + 1))),
        ("an id twice", |world| world.bytes(95, 16 + 72, &[5])),
        ("magic", |world| world.bytes(90, 0, &[0])),
        ("reference outside", |world| world.bytes(92, 0, &[77])),
        ("cycle", |world| world.bytes(93, 0, &[1])),
        ("inode", |world| world.edit_inode(3, |raw| raw.i_links_count.set(0))),
    ];
    for (what, damage) in damages {
        let mut world = world();
        damage(&mut world);
        assert!(checked(&mut world, &usage(4096, 2)).has(&FILE_DAMAGED), "{what}");
    }
}

#[test]
fn impossible_inode_numbers() {
    // Inode 12 is free; the quota file is found where it belongs.
    for number in [2, 4, 8, 12, 6000] {
        let mut world = world();
        world.superblock.s_usr_quota_inum = U32::new(number);
        assert_raised(&checked(&mut world, &usage(4096, 2)), &[&INODE_NUMBER]);
    }
}

#[test]
fn the_number_of_a_file_where_there_is_no_quota() {
    let mut world = world();
    world.superblock.s_feature_ro_compat = U32::new(0);
    world.superblock.s_usr_quota_inum = U32::new(14);
    for (links, rows) in [(0, &[][..]), (1, &[&INODE_NUMBER][..])] {
        world.edit_inode(14, |raw| raw.i_links_count.set(links));
        let mut findings = Findings::new();
        settled_numbers(&world.fs(), &mut findings);
        assert_raised(&findings, rows);
    }
}

#[test]
fn the_number_of_a_free_inode_for_projects_where_there_is_no_quota() {
    // e2fsck finds such an inode marked free in the bitmap, wherever it looks at it.
    let mut world = world();
    world.superblock.s_feature_ro_compat = U32::new(0);
    world.superblock.s_prj_quota_inum = U32::new(14);
    let mut findings = Findings::new();
    assert_eq!(settled_numbers(&world.fs(), &mut findings)[2], 0);
    assert_raised(&findings, &[&INODE_NUMBER]);
}

#[test]
fn the_number_of_a_file_that_is_no_quota_file() {
    // A file with other contents is not a quota file; an immutable one may be a damaged quota file, and one that begins like quota is one.
    let file = &[&INODE_NUMBER][..];
    let none = InodeFlags::empty();
    for (flag, begins, rows) in [(none, false, file), (InodeFlags::IMMUTABLE, false, &[]), (none, true, &[])]
    {
        let mut world = world();
        world.superblock.s_prj_quota_inum = U32::new(14);
        world.edit_inode(14, |raw| {
            raw.i_mode.set(mode::REGULAR | 0o600);
            raw.i_links_count.set(1);
            raw.set_flags(flag);
            raw.set_size(1024);
            raw.set_block_word(0, 120);
        });
        let magic = if begins { QuotaType::Project.magic() } else { 0x6c6c_6548 };
        world.bytes(120, 0, &magic.to_le_bytes());
        world.bytes(120, 4, &[1]);
        let mut findings = Findings::new();
        let numbers = settled_numbers(&world.fs(), &mut findings);
        assert_eq!(numbers[2], if rows.is_empty() { 14 } else { 0 });
        assert_raised(&findings, rows);
    }
}

#[test]
fn usage_adds_up_over_workers_and_types() {
    let mut sum = usage(100, 1);
    let mut other = usage(50, 1);
    other.charge(Owner { uid: 7, gid: 6, projid: 9 }, 10);
    sum.merge(other);
    assert_eq!(sum.of(QuotaKind::User)[&5], Used { bytes: 150, inodes: 2 });
    assert_eq!(sum.of(QuotaKind::Group)[&6], Used { bytes: 160, inodes: 3 });
    assert_eq!(sum.of(QuotaKind::Project)[&9], Used { bytes: 10, inodes: 1 });
}

#[test]
fn reserved_inodes_and_attribute_values_do_not_count() {
    let mut world = world();
    world.superblock.s_orphan_file_inum = U32::new(14);
    let fs = world.fs();
    let counts = |inode, flags| super::counts(&fs, InodeNo(inode), flags);
    let none = InodeFlags::empty();
    assert!(counts(2, none) && counts(11, none) && counts(12, none));
    assert!(!counts(3, none) && !counts(14, none) && !counts(8, none) && !counts(12, InodeFlags::EA_INODE));
}
