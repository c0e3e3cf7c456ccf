// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_engine::Row;
use fsmend_engine::inodes::{Kind, mark};
use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode};

use super::problems::*;
use super::testing::{
    BLOCK_SIZE, Bench, FILE, expect_rows, extent, inode, mapped, plain_directory, plain_file, plain_symlink,
    sized, tree,
};
use crate::extent::problems::{FLAG_MISSING, FLAG_ON_FAST_SYMLINK, FLAG_WITHOUT_TREE, TREE_WITHOUT_FEATURE};
use crate::indirect::problems::NOT_BY_EXTENTS;
use crate::xattr::problems::ENCRYPTION_MISSING;

type Change = fn(&mut RawInode);

/// What every change of one of `base` raises, on a file system with the usual features.
#[track_caller]
fn each(base: fn() -> RawInode, cases: &[(Change, &[&'static Row])]) {
    for (change, rows) in cases {
        let mut raw = base();
        change(&mut raw);
        Bench::new().expect(FILE, &raw, rows);
    }
}

fn device() -> RawInode {
    let mut raw = inode(mode::CHAR_DEVICE);
    raw.set_block_word(0, 0x103);
    raw
}

#[test]
fn sound_inodes_raise_nothing() {
    let bench = Bench::new();
    let kinds = [
        (plain_file(), Kind::Regular),
        (plain_directory(), Kind::Directory),
        (plain_symlink(b"target"), Kind::Symlink),
        (plain_symlink(&[b'x'; 59]), Kind::Symlink),
        (device(), Kind::CharDevice),
        (inode(mode::BLOCK_DEVICE), Kind::BlockDevice),
        (inode(mode::FIFO), Kind::Fifo),
        (inode(mode::SOCKET), Kind::Socket),
        (mapped(mode::REGULAR, &[50, 0, 52]), Kind::Regular),
        (inode(mode::REGULAR), Kind::Regular),
    ];
    for (raw, kind) in kinds {
        let inspection = bench.expect(FILE, &raw, &[]);
        assert_eq!(inspection.kind, kind);
        assert_eq!(inspection.charged_sectors, u64::from(raw.i_blocks_lo.get()));
    }
    let file = bench.expect(FILE, &plain_file(), &[]);
    assert_eq!((file.runs[0].physical, file.runs[0].count), (100, 4));
}

#[test]
fn free_inodes() {
    let bench = Bench::new();
    bench.expect(FILE, &RawInode::from_record(&[]), &[]);
    let mut raw = plain_file();
    raw.i_links_count.set(0);
    let inspection = bench.expect(FILE, &raw, &[&DELETION_TIME_MISSING]);
    assert_eq!((inspection.kind, inspection.runs.len()), (Kind::Unused, 0));
    raw.i_dtime.set(1_600_000_000);
    bench.expect(FILE, &raw, &[]);
    raw.i_dtime.set(20);
    bench.expect(FILE, &raw, &[&ORPHAN_REMAINS]);
}

#[test]
fn fields_of_files() {
    each(
        plain_file,
        &[
            (|raw| raw.i_dtime.set(1_600_000_000), &[&DELETION_TIME_IN_USE]),
            (|raw| raw.i_dtime.set(20), &[&ORPHAN_REMAINS]),
            (|raw| raw.i_faddr.set(1), &[&FRAGMENT_ADDRESS]),
            (|raw| raw.i_file_acl_high.set(1), &[&ATTRIBUTE_POINTER_HIGH]),
            (|raw| raw.i_extra_isize.set(2), &[&EXTRA_SIZE_WRONG]),
            (|raw| raw.i_extra_isize.set(30), &[&EXTRA_SIZE_WRONG]),
            (|raw| raw.i_extra_isize.set(132), &[&EXTRA_SIZE_WRONG]),
            (|raw| raw.set_flag(InodeFlags::IMAGIC), &[&IMAGIC_WITHOUT_FEATURE]),
            (|raw| raw.set_flag(InodeFlags::CASEFOLD), &[&CASEFOLD_NOT_DIRECTORY]),
            (|raw| raw.set_flag(InodeFlags::INDEX), &[&INDEX_NOT_DIRECTORY]),
            (|raw| raw.set_flag(InodeFlags::VERITY), &[&VERITY_WITHOUT_FEATURE]),
            (|raw| raw.set_flag(InodeFlags::IMMUTABLE), &[]),
            (|raw| raw.i_blocks_lo.set(10), &[&SECTORS_WRONG]),
            (|raw| raw.set_size(3 * 1024), &[]),
            (|raw| raw.set_size(3 * 1024 - 1), &[&SIZE_WRONG]),
            (|raw| raw.set_size(1 << 41), &[]),
            (|raw| raw.set_size(1 << 43), &[&SIZE_WRONG]),
            (|raw| raw.i_mode.set(0o170644), &[&TYPE_RESTORED]),
            (|raw| raw.clear_flag(InodeFlags::EXTENTS), &[&FLAG_MISSING]),
            (
                |raw| {
                    raw.i_mtime.set(0x8000_0000);
                    raw.i_mtime_extra.set(3);
                },
                &[&TIMESTAMP_ERA],
            ),
            (
                // Behind what i_extra_isize says that there is, and no attributes either.
                |raw| {
                    raw.i_extra_isize.set(16);
                    raw.i_crtime.set(0x8000_0000);
                    raw.i_crtime_extra.set(3);
                },
                &[&TIMESTAMP_ERA],
            ),
        ],
    );
}

#[test]
fn fields_of_directories() {
    each(
        plain_directory,
        &[
            (|raw| raw.set_flag(InodeFlags::CASEFOLD), &[&CASEFOLD_WITHOUT_FEATURE]),
            (|raw| raw.set_flag(InodeFlags::EA_INODE), &[&VALUE_HOLDER_NOT_REGULAR]),
            (|raw| raw.set_flag(InodeFlags::VERITY), &[]),
            (|raw| raw.set_flag(InodeFlags::INDEX), &[]),
            (|raw| raw.i_size_high.set(1), &[&DIRECTORY_SIZE_HIGH]),
            (|raw| raw.set_size(1000), &[&SIZE_WRONG]),
            (|raw| raw.set_size(2048), &[&SIZE_WRONG]),
            (|raw| raw.set_size(0), &[&SIZE_WRONG]),
        ],
    );
    let empty = tree(mode::DIRECTORY, 0, &[], 0, 0);
    assert!(Bench::new().expect(FILE, &empty, &[&EMPTY_DIRECTORY]).cleared);
    // One that has all else of a directory lost nothing but its map.
    let mut lost = tree(mode::DIRECTORY, 0, &[], 0, 0);
    lost.set_size(1024);
    lost.i_links_count.set(2);
    assert!(!Bench::new().expect(FILE, &lost, &[]).cleared, "it has a hole at its first block");
    lost.set_size(3072);
    let inspection = Bench::new().expect(FILE, &lost, &[&SIZE_WRONG]);
    assert_eq!((inspection.cleared, inspection.raw().size()), (false, 1024));
    lost.set_size(1000);
    assert!(Bench::new().expect(FILE, &lost, &[&EMPTY_DIRECTORY]).cleared);
}

#[test]
fn a_file_whose_type_is_impossible_keeps_its_contents() {
    for mode in [0o170644, 0o644, mode::BLOCK_DEVICE | 0o644, mode::FIFO | 0o644] {
        let mut raw = plain_file();
        raw.i_mode.set(mode);
        let inspection = Bench::new().expect(FILE, &raw, &[&TYPE_RESTORED]);
        assert_eq!((inspection.kind, inspection.raw().i_mode.get()), (Kind::Regular, 0o100_644));
        assert_eq!(inspection.runs.len(), Bench::new().expect(FILE, &plain_file(), &[]).runs.len());
    }
    // A symbolic link has its own type.
    let target = [b'x'; 100];
    for (end, kind) in [(b'x', Kind::Symlink), (b'\n', Kind::Regular)] {
        let mut bench = Bench::new();
        let mut block = [0; BLOCK_SIZE];
        block[..100].copy_from_slice(&target);
        block[99] = end;
        bench.put(100, &block);
        let mut raw = tree(mode::CHAR_DEVICE, 0, &[extent(0, 1, 100)], 1, 0);
        raw.i_mode.set(mode::CHAR_DEVICE | 0o777);
        raw.i_links_count.set(1);
        raw.set_size(100);
        assert_eq!(bench.expect(FILE, &raw, &[&TYPE_RESTORED]).kind, kind);
    }
    // Nothing tells what this one was.
    let mut raw = inode(mode::REGULAR);
    raw.i_mode.set(0o170644);
    assert!(Bench::new().expect(FILE, &raw, &[&MODE_UNKNOWN]).cleared);
}

#[test]
fn special_files() {
    each(
        device,
        &[
            (|raw| raw.set_size(5), &[&SIZE_OF_SPECIAL]),
            (|raw| raw.set_flag(InodeFlags::APPEND), &[&IMMUTABLE_SPECIAL]),
            (|raw| raw.set_flag(InodeFlags::INDEX), &[&INDEX_NOT_DIRECTORY]),
            (|raw| raw.set_flag(InodeFlags::EXTENTS), &[&SPECIAL_WITH_MAP_FLAGS]),
            (|raw| raw.set_flag(InodeFlags::ENCRYPT), &[&ENCRYPTION_MISSING]),
            (|raw| raw.set_block_word(5, 5), &[]),
        ],
    );
    for (kind, row) in [
        (mode::CHAR_DEVICE, &CHAR_DEVICE_WRONG),
        (mode::BLOCK_DEVICE, &BLOCK_DEVICE_WRONG),
        (mode::FIFO, &FIFO_WRONG),
        (mode::SOCKET, &SOCKET_WRONG),
    ] {
        let mut raw = inode(kind);
        raw.set_flag(InodeFlags::IMMUTABLE);
        (5..7).for_each(|word| raw.set_block_word(word, 1));
        assert!(!Bench::new().expect(FILE, &raw, &[&IMMUTABLE_SPECIAL]).cleared, "a little damage");
        raw.set_block_word(7, 1);
        assert!(Bench::new().expect(FILE, &raw, &[row]).cleared);
        let empty = tree(kind, 0, &[], 0, 0);
        assert!(Bench::new().expect(FILE, &empty, &[row]).cleared, "the tree of an empty file");
    }
    let mut raw = inode(mode::FIFO);
    raw.set_flag(InodeFlags::INDEX);
    (5..8).for_each(|word| raw.set_block_word(word, 230));
    assert!(Bench::new().expect(FILE, &raw, &[&FIFO_WRONG]).cleared);
    let mut bench = Bench::new();
    bench.features().compat &= !Compat::DIR_INDEX;
    let stays = bench.expect(FILE, &raw, &[&INDEX_NOT_DIRECTORY]);
    assert!(!stays.cleared, "a flag of nothing that this file system has");
    let mut bench = Bench::new();
    bench.features().incompat |= Incompat::INLINE_DATA;
    let mut raw = device();
    raw.set_flag(InodeFlags::INLINE_DATA);
    bench.expect(FILE, &raw, &[&SPECIAL_WITH_MAP_FLAGS]);
    raw.set_flag(InodeFlags::EXTENTS);
    bench.expect(FILE, &raw, &[&SPECIAL_WITH_MAP_FLAGS]);
}

#[test]
fn a_short_link_with_a_wrong_count_of_blocks_keeps_its_target() {
    let mut raw = plain_symlink(b"target");
    raw.i_blocks_lo.set(7);
    let inspection = Bench::new().expect(FILE, &raw, &[&SECTORS_WRONG]);
    assert_eq!((inspection.raw().i_blocks_lo.get(), &inspection.raw().i_block[..7]), (0, &b"target\0"[..]));
    raw.i_blocks_lo.set(0);
    raw.set_flag(InodeFlags::EXTENTS);
    assert!(!Bench::new().expect(FILE, &raw, &[&FLAG_ON_FAST_SYMLINK]).cleared);
}

#[test]
fn a_long_link_with_a_count_of_no_blocks_keeps_its_target() {
    let mut bench = Bench::new();
    let mut block = vec![0; BLOCK_SIZE];
    block[..60].fill(b'x');
    bench.put(100, &block);
    let extents = [extent(0, 1, 100)];
    for mut raw in [mapped(mode::SYMLINK, &[100]), tree(mode::SYMLINK, 0, &extents, 1, 0)] {
        raw.set_size(60);
        raw.i_blocks_lo.set(0);
        let inspection = bench.expect(FILE, &raw, &[&SECTORS_WRONG]);
        assert_eq!(
            (inspection.cleared, inspection.raw().i_blocks_lo.get()),
            (false, BLOCK_SIZE as u32 / 512)
        );
    }
    let mut junk = plain_symlink(&[b'y'; 59]);
    junk.set_size(60);
    assert!(bench.expect(FILE, &junk, &[&SYMLINK_WRONG]).cleared);
}

/// The first ordinary inode.
const LOST_FOUND: u32 = 11;

#[test]
fn a_directory_with_the_mode_of_a_pipe() {
    let mut bench = Bench::new();
    let mut block = vec![0; BLOCK_SIZE];
    block[..12].copy_from_slice(&[FILE as u8, 0, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0]);
    block[12..24].copy_from_slice(&[2, 0, 0, 0, 0xF4, 3, 2, 2, b'.', b'.', 0, 0]);
    bench.put(100, &block);
    let mut raw = plain_directory();
    raw.i_mode.set(mode::FIFO | 0o755);
    let inspection = bench.expect(FILE, &raw, &[&TREAT_AS_DIRECTORY]);
    assert_eq!(inspection.kind, Kind::Directory);
    assert_eq!(inspection.raw().i_mode.get(), mode::DIRECTORY | 0o755);
    // The permissions may be lost, too; those of lost+found are known.
    raw.i_mode.set(u16::MAX);
    let inspection = bench.expect(FILE, &raw, &[&TREAT_AS_DIRECTORY]);
    assert_eq!(inspection.raw().i_mode.get(), mode::DIRECTORY | 0o7777);
    block[0] = LOST_FOUND as u8;
    bench.put(101, &block);
    let mut lost_found = tree(mode::DIRECTORY, 0, &[extent(0, 1, 101)], 1, 0);
    lost_found.i_mode.set(u16::MAX);
    let inspection = bench.expect(LOST_FOUND, &lost_found, &[&TREAT_AS_DIRECTORY]);
    assert_eq!(inspection.raw().i_mode.get(), mode::DIRECTORY | 0o700);
    let mut raw = mapped(mode::FIFO, &[100]);
    bench.expect(FILE, &raw, &[&TREAT_AS_DIRECTORY]);
    raw.i_mode.set(mode::CHAR_DEVICE | 0o600);
    raw.set_size(0);
    raw.i_blocks_lo.set(0);
    bench.expect(FILE, &raw, &[]);
}

#[test]
fn symbolic_links() {
    each(
        || plain_symlink(b"target"),
        &[
            (|raw| raw.set_size(5), &[&SYMLINK_WRONG]),
            (|raw| raw.set_size(0), &[&SYMLINK_WRONG]),
            (|raw| raw.i_size_high.set(1), &[&SYMLINK_WRONG]),
            (|raw| raw.set_flag(InodeFlags::INDEX), &[&INDEX_NOT_DIRECTORY]),
            (|raw| raw.set_flag(InodeFlags::EXTENTS), &[&FLAG_ON_FAST_SYMLINK]),
            (|raw| raw.set_flag(InodeFlags::APPEND), &[&IMMUTABLE_SPECIAL]),
            (|raw| raw.i_block = [b'x'; 60], &[&SYMLINK_WRONG]),
        ],
    );
    let mut bench = Bench::new();
    bench.put(100, &[b'x'; 100]);
    let mut slow = tree(mode::SYMLINK, 0, &[extent(0, 1, 100)], 1, 0);
    slow.set_size(100);
    bench.expect(FILE, &slow, &[]);
    let mut by_map = mapped(mode::SYMLINK, &[100]);
    by_map.set_size(100);
    bench.expect(FILE, &by_map, &[]);
    by_map.set_size(99);
    assert!(bench.expect(FILE, &by_map, &[&SYMLINK_WRONG]).cleared);
    bench.put(102, &[b'x'; 20]);
    let mut short = mapped(mode::SYMLINK, &[102]);
    short.set_size(20);
    assert!(bench.expect(FILE, &short, &[&SYMLINK_WRONG]).cleared, "it would not be looked for in a block");
    bench.put(101, &[b'x'; BLOCK_SIZE]);
    let mut endless = mapped(mode::SYMLINK, &[101]);
    endless.set_size(BLOCK_SIZE as u64);
    bench.expect(FILE, &endless, &[&SYMLINK_WRONG]);
}

#[test]
fn encrypted_links_say_their_length_themselves() {
    let mut bench = Bench::new();
    bench.put(100, &[98, 0]);
    bench.put(101, &[99, 0]);
    for (block, wrong) in [(100, false), (101, true)] {
        let mut raw = mapped(mode::SYMLINK, &[block]);
        raw.set_size(100);
        raw.set_flag(InodeFlags::ENCRYPT);
        let (inspection, _) = bench.inspect(FILE, &raw);
        // Without a context the flag goes first, and then the target is not text.
        assert!(inspection.cleared, "{wrong}");
    }
}

#[test]
fn the_root() {
    let bench = Bench::new();
    assert!(bench.expect(2, &plain_file(), &[&ROOT_NOT_DIRECTORY]).cleared);
    let mut raw = plain_directory();
    raw.i_dtime.set(1_600_000_000);
    let inspection = bench.expect(2, &raw, &[&ROOT_DELETION_TIME]);
    assert_eq!((inspection.kind, inspection.marks), (Kind::Directory, 0));
}

#[test]
fn reserved_inodes() {
    let mut bench = Bench::new();
    let empty = RawInode::from_record(&[]);
    let mut sized = empty;
    sized.set_size(1 << 43);
    assert_eq!(bench.expect(9, &sized, &[&SIZE_WRONG]).raw().size(), 0);
    for number in [1, 3, 4, 5, 6, 7, 8, 9, 10] {
        assert_eq!(bench.expect(number, &empty, &[]).marks, mark::RESERVED, "{number}");
    }
    let mut pipe = inode(mode::FIFO);
    pipe.i_links_count.set(0);
    for number in [6, 7, 9, 10] {
        bench.expect(number, &pipe, &[&RESERVED_MODE]);
    }
    let file = plain_file();
    assert_eq!(bench.expect(8, &file, &[]).marks, mark::RESERVED);
    bench.expect(8, &plain_directory(), &[&JOURNAL_MODE]);
    for number in [3, 4] {
        assert!(bench.expect(number, &file, &[&QUOTA_NOT_CLEAR]).cleared);
    }
    bench.features().compat &= !Compat::HAS_JOURNAL;
    assert!(bench.expect(8, &file, &[&JOURNAL_NOT_CLEAR]).cleared);
}

#[test]
fn reserved_inodes_that_are_not_in_use_have_neither_attributes_nor_extents_nor_an_index() {
    let mut bench = Bench::new();
    let empty = RawInode::from_record(&[]);
    let (mut with_block, mut with_flag) = (empty, empty);
    with_block.i_file_acl_lo.set(100);
    with_flag.set_flag(InodeFlags::EXTENTS);
    for number in [5, 6, 9, 10] {
        assert_eq!(
            bench.expect(number, &with_block, &[&RESERVED_REMAINS]).raw().i_file_acl_lo.get(),
            0,
            "{number}"
        );
        // The kernel does not follow a pointer that leads out of the file system, or the flag where there are extents.
        let mut outside = empty;
        outside.i_file_acl_lo.set(1 << 30);
        bench.expect(number, &outside, &[]);
        bench.expect(number, &with_flag, &[]);
        let mut with_two = with_flag;
        with_two.set_flag(InodeFlags::INLINE_DATA);
        let mended = bench.expect(number, &with_two, &[&RESERVED_REMAINS]);
        assert!(!mended.raw().has_flag(InodeFlags::INLINE_DATA), "{number}");
        let mut indexed = empty;
        indexed.set_flag(InodeFlags::INDEX);
        let mended = bench.expect(number, &indexed, &[&INDEX_NOT_DIRECTORY]);
        assert!(!mended.raw().has_flag(InodeFlags::INDEX), "{number}");
    }
    bench.features().incompat &= !Incompat::EXTENTS;
    for number in [5, 6, 9, 10] {
        let mended = bench.expect(number, &with_flag, &[&RESERVED_REMAINS]);
        assert!(!mended.raw().has_flag(InodeFlags::EXTENTS), "{number}");
    }
}

#[test]
fn quota_and_orphan_files() {
    let mut bench = Bench::new();
    bench.features().ro_compat |= RoCompat::QUOTA;
    bench.superblock.s_usr_quota_inum.set(3);
    bench.superblock.s_prj_quota_inum.set(FILE);
    assert_eq!(bench.expect(3, &plain_file(), &[]).kind, Kind::Regular);
    assert_eq!(bench.expect(FILE, &plain_file(), &[]).marks, mark::RESERVED);
    bench.expect(3, &plain_directory(), &[&QUOTA_MODE]);
    let mut repair_input = plain_file();
    repair_input.i_dtime.set(17);
    bench.expect(3, &repair_input, &[&ORPHAN_REMAINS]);
    bench.superblock.s_grp_quota_inum.set(20);
    bench.expect(20, &plain_file(), &[&QUOTA_NOT_HIDDEN]);

    bench.superblock.s_orphan_file_inum.set(13);
    assert!(bench.expect(13, &plain_file(), &[&ORPHAN_FILE_NOT_CLEAR]).cleared);
    bench.features().compat |= Compat::ORPHAN_FILE;
    assert_eq!(bench.expect(13, &plain_file(), &[]).marks, mark::RESERVED);
    bench.expect(13, &plain_directory(), &[&ORPHAN_FILE_MODE]);
}

#[test]
fn two_flags_for_one_inode() {
    let mut bench = Bench::new();
    bench.features().incompat |= Incompat::INLINE_DATA;
    let mut raw = plain_file();
    raw.set_flag(InodeFlags::INLINE_DATA);
    bench.expect(FILE, &raw, &[&BOTH_FLAGS_EXTENTS]);
    let mut raw = mapped(mode::REGULAR, &[50]);
    raw.set_flag(InodeFlags::INLINE_DATA | InodeFlags::EXTENTS);
    bench.expect(FILE, &raw, &[&BOTH_FLAGS_BLOCK_MAP]);
    raw.i_block = [0xFF; 60];
    assert!(bench.expect(FILE, &raw, &[&BOTH_FLAGS_JUNK]).cleared);
    raw.set_size(10);
    let (_, problems) = bench.inspect(FILE, &raw);
    assert!(problems.iter().any(|problem| problem.row == &BOTH_FLAGS_INLINE));
}

#[test]
fn flags_without_their_feature() {
    let mut bench = Bench::new();
    let mut raw = sized(inode(mode::REGULAR), 0, 0);
    raw.set_flag(InodeFlags::INLINE_DATA);
    assert!(bench.expect(FILE, &raw, &[&INLINE_FLAG_WITHOUT_FEATURE]).cleared);
    bench.features().incompat &= !Incompat::EXTENTS;
    bench.expect(FILE, &plain_file(), &[&TREE_WITHOUT_FEATURE]);
    let mut raw = inode(mode::REGULAR);
    raw.set_flag(InodeFlags::EXTENTS);
    assert!(bench.expect(FILE, &raw, &[&FLAG_WITHOUT_TREE]).cleared);
    bench.features().ro_compat &= !RoCompat::HUGE_FILE;
    let mut raw = mapped(mode::REGULAR, &[50]);
    raw.i_blocks_high.set(1);
    bench.expect(FILE, &raw, &[&SECTORS_HIGH]);
}

#[test]
fn translators_of_the_hurd() {
    let mut bench = Bench::new();
    let mut raw = mapped(mode::REGULAR, &[50]);
    raw.i_version.set(60);
    assert_eq!(bench.expect(FILE, &raw, &[]).translator, None, "a version elsewhere");
    bench.geometry.hurd = true;
    bench.features().incompat = Incompat::FILETYPE;
    assert_eq!(bench.expect(FILE, &raw, &[]).translator, Some(60));
    raw.i_version.set(u32::MAX);
    let inspection = bench.expect(FILE, &raw, &[&TRANSLATOR_OUTSIDE]);
    assert_eq!((inspection.translator, inspection.raw().i_version.get()), (None, 0));
}

#[test]
fn fragments_of_the_hurd() {
    let mut bench = Bench::new();
    bench.geometry.hurd = true;
    bench.features().incompat = Incompat::FILETYPE;
    let mut raw = mapped(mode::REGULAR, &[50]);
    raw.i_blocks_high.set(0x0100);
    bench.expect(FILE, &raw, &[&FRAGMENT_SIZE]);
    raw.i_blocks_high.set(0x0001);
    bench.expect(FILE, &raw, &[&FRAGMENT_NUMBER]);
}

#[test]
fn checksums() {
    let mut bench = Bench::new();
    bench.features().ro_compat |= RoCompat::METADATA_CSUM;
    bench.expect(FILE, &plain_file(), &[]);
    let mut record = bench.record(FILE, &plain_file());
    record[0x7C] ^= 1;
    let (inspection, problems) = bench.inspect_record(FILE, &record);
    expect_rows(&problems, &[&INODE_CHECKSUM]);
    assert_eq!(inspection.kind, Kind::Regular);
    // A field that is wrong besides is mended, and the checksum with it.
    record[0x14] = 5;
    let (_, problems) = bench.inspect_record(FILE, &record);
    assert!(problems.iter().all(|problem| problem.row != &INODE_CHECKSUM));
    // A deleted inode has a checksum, too.
    let mut deleted = plain_file();
    deleted.i_links_count.set(0);
    deleted.i_dtime.set(1_600_000_000);
    let mut record = bench.record(FILE, &deleted);
    record[0] ^= 1;
    expect_rows(&bench.inspect_record(FILE, &record).1, &[&INODE_CHECKSUM]);
}

#[test]
fn garbage_is_recognised_by_the_neighbours() {
    let mut bench = Bench::new();
    bench.features().ro_compat |= RoCompat::METADATA_CSUM;
    let garbage = vec![0x5A; 256];
    let sound = bench.record(9, &RawInode::from_record(&[0; 128]));
    for inode in 9..=11 {
        bench.put_record(inode, &sound);
    }
    let (_, problems) = bench.inspect_record(FILE, &garbage);
    assert!(problems.iter().all(|problem| problem.row != &INODE_GARBAGE));
    for inode in 9..=12 {
        bench.put_record(inode, &garbage);
    }
    let (inspection, problems) = bench.inspect_record(FILE, &garbage);
    expect_rows(&problems, &[&INODE_GARBAGE]);
    assert!(inspection.cleared);
}

#[test]
fn clusters_want_extents() {
    let mut bench = Bench::new();
    bench.features().ro_compat |= RoCompat::BIGALLOC;
    bench.geometry.cluster_blocks = 4;
    let mut raw = mapped(mode::REGULAR, &[100, 101]);
    raw.i_blocks_lo.set(8);
    bench.expect(FILE, &raw, &[&NOT_BY_EXTENTS]);
}

#[test]
fn random_records_do_no_harm() {
    let mut random = fsmend_base::SeededRandom::new(1);
    let mut bench = Bench::new();
    for block in 40..512 {
        let words: Vec<u32> = (0..256).map(|_| random.below(600) as u32).collect();
        bench.put_words(block, &words);
    }
    bench.features().incompat |= Incompat::INLINE_DATA;
    for round in 0..2000 {
        let mut record: Vec<u8> = (0..256).map(|_| random.next_u64() as u8).collect();
        if round % 2 == 0 {
            record[1] = [0x81, 0x41, 0xA1, 0x21][round / 2 % 4];
            record[0x2B..0x64].fill(0);
            record[0x20..0x24].fill(0);
        }
        let _ = bench.inspect_record(FILE, &record);
    }
}
