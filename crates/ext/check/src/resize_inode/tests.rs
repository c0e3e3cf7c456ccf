// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `resize_inode`.

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::Findings;
use fsmend_ext_format::features::Compat;
use fsmend_ext_format::inode::RawInode;

use super::{ResizeInode, check, claims, extent, lists_its_copies, problems};
use crate::superblock::testing::{Image, codes};

fn look(image: &Image) -> (ResizeInode, Vec<&'static str>) {
    image.with_fs(|fs, _| {
        let mut findings = Findings::new();
        let resize = check(fs, &mut findings);
        let mut again = Findings::new();
        assert_eq!(
            (check(fs, &mut again), codes(&again)),
            (resize.clone(), codes(&findings)),
            "in either order"
        );
        (resize, codes(&findings))
    })
}

#[test]
fn a_sound_inode_claims_its_double_indirect_block() {
    let image = Image::plain();
    assert_eq!(look(&image).1, [""; 0]);
    assert_eq!(image.with_fs(|fs, _| claims(fs)), [image.free_block().0]);
}

#[test]
fn a_reserved_block_proves_itself_by_its_copies() {
    let mut image = Image::plain();
    let reserved = image.geometry.group_head(fsmend_base::GroupNo(0)).reserved;
    let proves = |image: &Image, block| image.with_fs(|fs, _| lists_its_copies(fs, BlockNo(block)));
    assert!(reserved.count > 0);
    for block in reserved.start.0..reserved.end() {
        assert!(proves(&image, block), "{block}");
        assert!(!proves(&image, block + u64::from(image.geometry.blocks_per_group)), "a copy is no map");
    }
    assert!(!proves(&image, reserved.start.0 - 1) && !proves(&image, reserved.end()));
    // Other pointers beside the right ones do not matter, and wrong ones in their place do.
    image.put_pointer(reserved.start, 77, 900);
    assert!(proves(&image, reserved.start.0));
    image.put_pointer(reserved.start, 0, 900);
    assert!(!proves(&image, reserved.start.0));
}

#[test]
fn backups_of_sparse_super2_are_listed_in_ascending_order() {
    let image = Image::new(|raw| {
        raw.s_feature_compat += Compat::SPARSE_SUPER2.bits();
        raw.s_backup_bgs = [3.into(), 1.into()];
    });
    assert_eq!(look(&image).1, [""; 0]);
}

#[test]
fn every_deviation_is_found() {
    let changes: [fn(&mut Image); 11] = [
        |image| image.inode(InodeNo(7))[33] = 0x10,
        |image| image.inode(InodeNo(7))[26] = 0,
        |image| image.inode(InodeNo(7))[1] = 0x41,
        |image| image.inode(InodeNo(7))[0x28] = 9,
        |image| image.inode(InodeNo(7))[0x68] = 1,
        |image| image.inode(InodeNo(7))[0x28 + 13 * 4..][..4].fill(0),
        |image| image.inode(InodeNo(7))[0x28 + 13 * 4..][..4].fill(0xFF),
        |image| image.put_pointer(image.free_block(), 1, 999),
        |image| image.put_pointer(BlockNo(4), 1, 999),
        |image| image.put_pointer(BlockNo(4), 200, 999),
        |image| image.put_pointer(image.free_block(), 200, 999),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut image = Image::plain();
        change(&mut image);
        assert_eq!(look(&image).1, [problems::INVALID.code], "change {index}");
    }
}

#[test]
fn a_map_that_was_sound_is_looked_at_again_when_the_inode_is_another() {
    let image = Image::plain();
    image.with_fs(|fs, _| {
        let record = fs.read_inode(InodeNo(7)).unwrap().unwrap();
        let mut raw = RawInode::from_record(&record);
        assert!(extent(fs, &raw).is_some() && extent(fs, &raw) == fs.resize_map.of(&raw));
        raw.i_links_count.set(0);
        assert_eq!((extent(fs, &raw), fs.resize_map.of(&raw)), (None, None));
    });
}

#[test]
fn without_the_feature_it_has_to_be_empty() {
    let mut image = Image::new(|raw| {
        raw.s_feature_compat -= Compat::RESIZE_INODE.bits();
        raw.s_reserved_gdt_blocks = 0.into();
    });
    assert_eq!(look(&image), (ResizeInode::default(), Vec::new()));
    assert_eq!(image.with_fs(|fs, _| claims(fs)), [0; 0]);
    image.inode(InodeNo(7))[0x28] = 9;
    assert_eq!(look(&image).1, [problems::NOT_CLEAR.code]);
}
