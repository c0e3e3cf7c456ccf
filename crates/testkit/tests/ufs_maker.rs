// SPDX-License-Identifier: MIT OR Apache-2.0
//! UFS1 and UFS2 in both byte orders: sound images are clean, and read the same by a reader that shares nothing with the program.
#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_testkit::host;
use fsmend_testkit::ufs::{Kind, Maker, Shape, make, peers, tree};
use fsmend_ufs_check::rows;
use fsmend_ufs_format::superblock::{Recovery, Superblock};
use fsmend_ufs_format::{ByteOrder, Version};

use fsmend_testkit::ufs::checked::{check, codes, folder, repaired};

#[test]
fn sound_images_are_clean_at_any_thread_count() {
    for shape in Shape::all() {
        for image in [Maker::new(shape).finish(), Maker::filled(shape).finish()] {
            for threads in [1, 2, 8] {
                assert_eq!(codes(&check(&image.bytes, threads)), [""; 0], "{shape:?}");
            }
        }
    }
}

#[test]
fn images_of_other_sizes_are_clean() {
    for version in [Version::Ufs1, Version::Ufs2] {
        for (sizes, group_size, has_clusters) in [
            ((32768, 4096), 512, true),
            ((8192, 8192), 256, true),
            ((4096, 2048), 1024, false),
            ((65536, 8192), 512, true),
        ] {
            let shape = Shape {
                sizes,
                groups: (3, group_size),
                group_inodes: 512,
                has_clusters,
                ..Shape::small(version, ByteOrder::Little)
            };
            let mut maker = Maker::new(shape);
            maker.directory("/d");
            maker.file("/d/f", sizes.0 + 1);
            let image = maker.finish();
            assert_eq!(codes(&check(&image.bytes, 2)), [""; 0], "{shape:?}");
            if let Some(answer) = peers::finds(&image.bytes, &folder("sizes")).unwrap() {
                assert!(answer.is_clean(), "{shape:?}: {}", answer.printed);
            }
        }
    }
}

#[test]
fn fsck_ffs_finds_them_clean_too() {
    if peers::program("fsck_ffs").is_none() {
        host::skip("fsck_ffs_finds_them_clean_too", &format!("{} is not set", peers::FOLDER));
        return;
    }
    // It refuses the other byte order.
    for shape in Shape::all().into_iter().filter(|shape| shape.order == ByteOrder::Little) {
        let image = Maker::filled(shape).finish();
        let answer = peers::finds(&image.bytes, &folder("clean")).unwrap().unwrap();
        assert!(answer.is_clean(), "{shape:?}: {}", answer.printed);
    }
}

#[test]
fn the_reader_reads_what_the_maker_wrote() {
    for shape in Shape::all() {
        let image = Maker::filled(shape).finish();
        let nodes = tree(&image.bytes);
        assert_eq!(nodes.len(), image.inodes.len(), "{shape:?}");
        for (path, inode) in &image.inodes {
            assert_eq!(nodes[path].inode, *inode, "{path}");
        }
        let single = &nodes["/d/single"];
        let wanted: Vec<u8> =
            make::text(single.inode).into_iter().cycle().take(single.size as usize).collect();
        assert!(single.bytes() == wanted, "{shape:?}");
        assert_eq!((nodes["/f3"].links, nodes["/d"].kind, nodes["/d/long"].size), (2, Kind::Directory, 200));
        assert_eq!(nodes["/d/short"].bytes(), b"../f1");
        assert_eq!(nodes["/d/double"].contents.values().filter(|part| part.is_empty()).count(), 0);
    }
}

/// makefs of Debian makes UFS1 of either byte order; its UFS2 has the superblock where no kernel of FreeBSD looks for it.
#[test]
fn images_by_makefs_are_clean() {
    if host::find_program("makefs").is_none() {
        host::skip("images_by_makefs_are_clean", "makefs is not installed");
        return;
    }
    let folder = folder("makefs");
    let source = folder.join("source");
    std::fs::create_dir_all(source.join("a/b")).unwrap();
    for size in [0, 1, 4096, 5000, 70_000, 600_000] {
        std::fs::write(source.join(format!("a/file-{size}")), vec![7u8; size]).unwrap();
    }
    for order in ["le", "be"] {
        let path = folder.join(format!("{order}.img"));
        let arguments = ["-t", "ffs", "-B", order, "-s", "8m", "-o", "version=1,bsize=4096,fsize=512"];
        host::run(
            "makefs",
            arguments
                .map(Into::into)
                .into_iter()
                .chain([path.clone().into_os_string(), source.clone().into()]),
        )
        .unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(codes(&check(&bytes, 2)), [""; 0], "{order}");
        let nodes = tree(&bytes);
        assert_eq!(nodes["/a/file-600000"].bytes(), vec![7u8; 600_000]);
    }
}

#[test]
fn a_recovery_record_that_misleads_is_put_right() {
    let mut tried = 0;
    for shape in Shape::all() {
        let mut bytes = Maker::filled(shape).finish().bytes;
        let superblock = Superblock::parse(&bytes[65536..]);
        let Some(record) = superblock.as_ref().and_then(Recovery::of) else { continue };
        let place = Recovery::PLACE as usize;
        bytes[place..][..record.len()].copy_from_slice(&record);
        assert_eq!(codes(&check(&bytes, 1)), [""; 0], "{shape:?}");
        // Each of its four numbers, behind the magic.
        for number in 1..5 {
            let mut damaged = bytes.clone();
            damaged[place + 4 * number] ^= 0x10;
            assert_eq!(codes(&check(&damaged, 1)), [rows::RECOVERY_RECORD.code], "{shape:?} {number}");
            assert_eq!(repaired(&damaged, "recovery record").bytes[place..][..record.len()], record);
            tried += 1;
        }
    }
    assert!(tried > 0);
}
