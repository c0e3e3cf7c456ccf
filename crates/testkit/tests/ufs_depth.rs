// SPDX-License-Identifier: MIT OR Apache-2.0
//! What inodes say of their depth in the tree, and what lies between the maps of a cylinder group: fsck_ffs corrects the one in silence, and asks about the other.
#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_engine::Severity;
use fsmend_testkit::ufs::checked::{check, codes, folder, plan, with};
use fsmend_testkit::ufs::{Image, Maker, Shape, peers};
use fsmend_ufs_check::rows;
use fsmend_ufs_format::ByteOrder;

fn depth_of(bytes: &[u8], inode: u32) -> u32 {
    Image::open(bytes.to_vec()).unwrap().record(inode).depth()
}

/// What is left after a repair: nothing for us, and nothing for fsck_ffs, not even the offer to track depths.
fn mended(image: &Image, shape: &Shape) -> Vec<u8> {
    let repair = plan(&image.bytes, 2);
    assert!(repair.is_clean(), "{shape:?}: {:?}", codes(&repair.left));
    let repaired = with(&image.bytes, &repair.changes);
    assert_eq!(codes(&check(&repaired, 1)), [""; 0], "{shape:?}");
    if shape.order == ByteOrder::Little
        && let Some(answer) = peers::finds(&repaired, &folder("depth")).unwrap()
    {
        assert!(answer.is_clean() && !answer.printed.contains("TRACK DIRECTORY"), "{}", answer.printed);
    }
    repaired
}

#[test]
fn a_wrong_depth_is_noted_and_corrected() {
    for shape in Shape::all() {
        let mut image = Maker::filled(shape).finish();
        assert_eq!(codes(&check(&image.bytes, 2)), [""; 0]);
        let (inner, deepest) = (image.inode("/d/e"), image.inode("/d/e/f"));
        assert_eq!((depth_of(&image.bytes, inner), depth_of(&image.bytes, deepest)), (2, 3));
        for wrong in [40, 300] {
            image.amend_inode(inner, |record| record.set_depth(wrong));
            let found = check(&image.bytes, 2);
            assert_eq!(codes(&found), [rows::DEPTH.code], "{shape:?}");
            assert!(found.findings.iter().all(|problem| problem.row.severity == Severity::Note));
            assert_eq!(depth_of(&mended(&image, &shape), inner), 2);
        }
        // Of what is not tracked nothing is said, nor of what is no depth in most inodes.
        image.amend_inode(inner, |record| record.set_depth(0));
        assert_eq!(codes(&check(&image.bytes, 2)), [""; 0], "{shape:?}");
        for path in ["/d", "/d/e", "/d/e/f", "/many"] {
            image.amend(path, |record| record.set_depth(0x0102_0304));
        }
        assert_eq!(codes(&check(&image.bytes, 2)), [""; 0], "{shape:?}");
    }
}

/// What a kernel that knows no depths leaves: nothing is wrong, but what is repaired anyway gets them, so that fsck_ffs does not offer it.
#[test]
fn a_repair_of_something_else_fills_in_what_is_not_known() {
    for shape in Shape::all() {
        let mut image = Maker::filled(shape).finish();
        for path in ["/d", "/d/e/f"] {
            image.amend(path, |record| record.set_depth(0));
        }
        assert!(plan(&image.bytes, 2).changes.is_empty(), "{shape:?}");
        let mut damaged = image.clone();
        damaged.amend("/d/e", |record| record.set_links(9));
        assert_eq!(codes(&check(&damaged.bytes, 2)), [rows::LINKS.code], "{shape:?}");
        let repaired = mended(&damaged, &shape);
        let depths = ["/", "/d", "/d/e", "/d/e/f"].map(|path| depth_of(&repaired, image.inode(path)));
        assert_eq!(depths, [0, 1, 2, 3], "{shape:?}");
        // Without any it is not begun.
        for path in ["/d", "/d/e", "/d/e/f", "/many"] {
            damaged.amend(path, |record| record.set_depth(0));
        }
        let untracked = with(&damaged.bytes, &plan(&damaged.bytes, 1).changes);
        let depths = ["/d", "/d/e"].map(|path| depth_of(&untracked, image.inode(path)));
        assert_eq!(depths, [0, 0], "{shape:?}");
    }
}

#[test]
fn what_moves_to_lost_and_found_gets_the_depth_of_its_place() {
    for shape in Shape::all() {
        let mut image = Maker::filled(shape).finish();
        let (moved, below) = (image.inode("/d/e"), image.inode("/d/e/f"));
        image.remove_name("/d", "e");
        let repaired = mended(&image, &shape);
        let home = Image::open(repaired.clone()).unwrap().inode("/lost+found");
        let depths = [home, moved, below].map(|inode| depth_of(&repaired, inode));
        assert_eq!(depths, [1, 2, 3], "{shape:?}");
    }
}

#[test]
fn depths_are_corrected_when_most_directories_have_moved() {
    for shape in Shape::all() {
        let mut image = Maker::filled(shape).finish();
        let inner = image.inode("/d/e");
        // The root is no directory any more: all that it held comes into the lost+found of a new one.
        image.amend_inode(2, |record| record.set_mode(0o100_644));
        let at = image.block_at("/", 0);
        image.bytes[at..at + 512].fill(0);
        let repaired = mended(&image, &shape);
        assert_eq!(depth_of(&repaired, inner), 3, "{shape:?}");
    }
}

#[test]
fn deep_trees_are_no_trouble() {
    for shape in Shape::all() {
        let mut maker = Maker::new(shape);
        maker.directory("/shallow");
        let (mut path, deep) = (String::new(), 300);
        for _ in 0..deep {
            path.push_str("/x");
            maker.directory(&path);
        }
        (0..deep).for_each(|number| maker.directory(&format!("/flat{number}")));
        let mut image = maker.finish();
        assert_eq!(codes(&check(&image.bytes, 2)), [""; 0], "{shape:?}");
        let shallow = image.inode("/shallow");
        image.amend_inode(shallow, |record| record.set_depth(300));
        assert_eq!(codes(&check(&image.bytes, 2)), [rows::DEPTH.code], "{shape:?}");
        let repaired = mended(&image, &shape);
        assert_eq!((depth_of(&repaired, shallow), depth_of(&repaired, image.inode(&path))), (1, deep));
    }
}

#[test]
fn bytes_between_the_maps_are_cleared() {
    let mut tried = 0;
    for shape in Shape::all() {
        let mut image = Maker::filled(shape).finish();
        let geometry = image.geometry.clone();
        let (start, length) = geometry.layout.fragment_map;
        let behind = start + length;
        // There is no gap where the map ends with a word.
        if image.geometry.layout.cluster_sums + 4 <= behind {
            continue;
        }
        tried += 1;
        let at = (geometry.group_place(1) + behind) as usize;
        image.bytes[at] = 0x5A;
        image.amend_group(1, |_, _| {});
        assert_eq!(codes(&check(&image.bytes, 2)), [rows::MAP_TAIL.code], "{shape:?}");
        assert_eq!(mended(&image, &shape)[at], 0);
    }
    assert!(tried > 0);
}
