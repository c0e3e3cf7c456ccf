// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quota files of UFS: what they count is compared with the inodes and corrected, and nothing else of them changes.
#![allow(clippy::unwrap_used)]

use fsmend_testkit::ufs::checked::{check, codes, plan, with};
use fsmend_testkit::ufs::{Image, Maker, Shape, tree};
use fsmend_ufs_check::rows;
use fsmend_ufs_format::quota::{InUse, Layout, header};
use fsmend_ufs_format::{ByteOrder, Version};

const LIMIT: u8 = 77;

/// An image with quota files that are right: users 0 and 5, group 3. Wide ones with a header, or narrow ones.
fn image(shape: Shape, is_wide: bool) -> Image {
    let mut maker = Maker::new(shape);
    maker.directory("/d");
    for index in 0..6 {
        maker.file(&format!("/d/f{index}"), 700 * index);
    }
    maker.file("/quota.user", 640);
    maker.file("/quota.group", 640);
    let mut image = maker.finish();
    for path in ["/d/f1", "/d/f4"] {
        image.amend(path, |record| {
            record.set_uid(5);
            record.set_gid(3);
        });
    }
    let layout = if is_wide { Layout::Wide } else { Layout::Narrow(shape.order) };
    for (path, is_user) in [("/quota.user", true), ("/quota.group", false)] {
        let start = image.block_at(path, 0);
        image.bytes[start..start + 640].fill(0);
        if is_wide {
            image.bytes[start..start + 64].copy_from_slice(&header());
        }
        for owner in 0..9 {
            let used = used(&image, |record| if is_user { record.0 } else { record.1 } == owner);
            let at = record_at(&image, path, layout, owner);
            let record = &mut image.bytes[at..at + layout.record_size()];
            assert!(layout.write(record, used));
            // A limit, of which nothing may change.
            record[1] = LIMIT;
        }
    }
    image
}

/// Where the record of an owner stands.
fn record_at(image: &Image, path: &str, layout: Layout, owner: u32) -> usize {
    let header = if layout == Layout::Wide { 64 } else { 0 };
    image.block_at(path, 0) + header + owner as usize * layout.record_size()
}

/// What inodes of some owner take, counted without the checker.
fn used(image: &Image, is_theirs: impl Fn((u32, u32)) -> bool) -> InUse {
    let mut used = InUse::default();
    for inode in image.inodes.iter().filter(|(path, _)| !path.contains("quota")).map(|(_, inode)| *inode) {
        let record = image.record(inode);
        if is_theirs((record.uid(), record.gid())) {
            used.inodes += 1;
            used.sectors += record.sectors();
        }
    }
    used
}

fn shapes() -> [(Shape, bool); 4] {
    [
        (Shape::small(Version::Ufs2, ByteOrder::Little), true),
        (Shape::small(Version::Ufs2, ByteOrder::Big), true),
        (Shape::small(Version::Ufs1, ByteOrder::Little), false),
        (Shape::small(Version::Ufs1, ByteOrder::Big), false),
    ]
}

#[test]
fn quota_files_that_are_right_are_clean() {
    for (shape, is_wide) in shapes() {
        assert_eq!(codes(&check(&image(shape, is_wide).bytes, 2)), [""; 0], "{shape:?}");
    }
}

#[test]
fn what_owners_use_is_corrected_and_their_limits_stay() {
    for (shape, is_wide) in shapes() {
        for (path, owner) in [("/quota.user", 5), ("/quota.user", 7), ("/quota.group", 3)] {
            let right = image(shape, is_wide);
            let layout = if is_wide { Layout::Wide } else { Layout::Narrow(shape.order) };
            let at = record_at(&right, path, layout, owner);
            let mut wrong = right.clone();
            assert!(layout.write(&mut wrong.bytes[at..], InUse { sectors: 99, inodes: 98 }));
            let report = check(&wrong.bytes, 1);
            assert_eq!(codes(&report), [rows::QUOTA_USAGE.code]);
            assert_eq!(report.findings.counts()[rows::QUOTA_USAGE.code], 2, "sectors and inodes");
            let repair = plan(&wrong.bytes, 2);
            assert!(repair.is_clean());
            assert_eq!(repair.changes, plan(&wrong.bytes, 8).changes);
            let after = with(&wrong.bytes, &repair.changes);
            let end = at + layout.record_size();
            assert_eq!(after[at..end], right.bytes[at..end], "{path} {owner}");
            assert_eq!(tree(&after), tree(&right.bytes));
        }
    }
}

#[test]
fn numbers_are_stale_after_a_crash_and_that_is_no_damage() {
    let mut image = image(Shape::small(Version::Ufs2, ByteOrder::Little), true);
    image.amend_superblock(|superblock| superblock.set_clean(0));
    let at = record_at(&image, "/quota.user", Layout::Wide, 5);
    assert!(Layout::Wide.write(&mut image.bytes[at..], InUse { sectors: 1, inodes: 1 }));
    let report = check(&image.bytes, 1);
    assert!(codes(&report).contains(&rows::QUOTA_STALE.code));
    let worst = report.findings.iter().map(|problem| problem.row.severity).max();
    assert_eq!(worst, Some(fsmend_engine::Severity::Note));
}

#[test]
fn a_damaged_header_is_written_anew() {
    let right = image(Shape::small(Version::Ufs2, ByteOrder::Big), true);
    let mut wrong = right.clone();
    let at = wrong.block_at("/quota.group", 0);
    wrong.bytes[at + 11] ^= 1;
    assert_eq!(codes(&check(&wrong.bytes, 1)), [rows::QUOTA_HEADER.code]);
    let after = with(&wrong.bytes, &plan(&wrong.bytes, 1).changes);
    assert_eq!(after[at..at + 64], right.bytes[at..at + 64]);
}

#[test]
fn a_repair_of_files_is_counted_in_the_same_run() {
    for (shape, is_wide) in shapes() {
        let mut image = image(shape, is_wide);
        // The file loses its name and gets one in lost+found, which root then owns.
        image.remove_name("/d", "f4");
        let repair = plan(&image.bytes, 2);
        assert!(repair.is_clean(), "{:?}", codes(&repair.left));
        assert_eq!(codes(&check(&with(&image.bytes, &repair.changes), 1)), [""; 0]);
    }
}

#[test]
fn other_files_of_that_name_are_left_alone() {
    let shape = Shape::small(Version::Ufs2, ByteOrder::Little);
    // A text; and one that others may write.
    let mut maker = Maker::new(shape);
    maker.file("/quota.user", 5000);
    assert_eq!(codes(&check(&maker.finish().bytes, 1)), [""; 0]);
    let mut image = image(shape, true);
    for path in ["/quota.user", "/quota.group"] {
        image.amend(path, |record| record.set_mode(record.mode() | 0o002));
    }
    let at = record_at(&image, "/quota.user", Layout::Wide, 5);
    image.bytes[at + 23] ^= 1;
    assert_eq!(codes(&check(&image.bytes, 1)), [""; 0]);
}
