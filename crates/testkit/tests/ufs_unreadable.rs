// SPDX-License-Identifier: MIT OR Apache-2.0
//! UFS on a device that cannot be read in places, and without room for copies: what is lost by it is said, and the rest is repaired.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use fsmend_device::{Device, MemoryDevice};
use fsmend_testkit::flawed::Flawed;
use fsmend_testkit::ufs::checked::{codes, image, manner, plan, plan_of};
use fsmend_testkit::ufs::{KINDS, Make};
use fsmend_ufs_check::rows;
use fsmend_ufs_format::group::bit;

const HASHED: Make = KINDS[3];

#[test]
fn what_cannot_be_read_is_said_and_the_rest_is_repaired() {
    let Some(image) = image(HASHED, "what_cannot_be_read") else { return };
    let geometry = image.geometry.clone();
    let inode = image.find("/d3").0;
    let double = image.record(image.find("/double").0);
    let chunk = geometry.place(image.record(inode).pointer(0));
    for (flaw, row) in [
        (geometry.group_place(1)..geometry.group_place(1) + 512, &rows::GROUP_UNREADABLE),
        (
            image.record_at(inode) as u64 / 512 * 512..image.record_at(inode) as u64 / 512 * 512 + 512,
            &rows::INODE_UNREADABLE,
        ),
        (
            geometry.place(double.pointer(13))..geometry.place(double.pointer(13)) + 512,
            &rows::INDIRECT_UNREADABLE,
        ),
        (chunk..chunk + 512, &rows::CHUNK_UNREADABLE),
    ] {
        let device: Arc<dyn Device> =
            Arc::new(Flawed { memory: MemoryDevice::new("ufs", image.bytes.clone()), flaw });
        let repair = plan_of(&device, manner(2)).unwrap_or_else(|why| panic!("{}: {why}", row.code));
        assert!(codes(&repair.found).contains(&row.code), "{}: {:?}", row.code, codes(&repair.found));
    }
}

#[test]
fn a_copy_that_cannot_be_read_or_has_no_room_is_said() {
    let Some(mut image) = image(HASHED, "a_copy_that_cannot_be_read") else { return };
    let double = image.find("/double").0;
    let own = image.record(double).pointer(0);
    let first = image.record(image.find("/single").0).pointer(0);
    image.amend_inode(double, |inode| inode.set_pointer(0, first));
    let shared = image.geometry.place(first);
    let device: Arc<dyn Device> = Arc::new(Flawed {
        memory: MemoryDevice::new("ufs", image.bytes.clone()),
        flaw: shared..shared + 512,
    });
    let repair = plan_of(&device, manner(2)).unwrap();
    assert!(codes(&repair.found).contains(&rows::COPY_UNREADABLE.code), "{:?}", codes(&repair.found));
    // A file that owns every free block.
    let big = image.find("/d2/f6").0;
    let geometry = image.geometry.clone();
    let mut free = vec![own];
    for number in 0..geometry.groups {
        image.amend_group(number, |group, geometry| {
            let start = geometry.group_start(number);
            let map = group.fragment_map(&geometry.layout);
            let blocks = geometry.group_length(number) / geometry.fragments;
            let whole = |block: &u64| (0..8).all(|at| bit(map, block * 8 + at));
            free.extend((0..blocks).filter(whole).map(|block| start + block * 8));
        });
    }
    free.rotate_left(1);
    let pointers = geometry.pointers as usize;
    let leaves = free.len() / (pointers + 1) + 1;
    let (maps, data) = free.split_at(1 + leaves);
    for (at, leaf) in maps[1..].iter().enumerate() {
        for (slot, fragment) in data.chunks(pointers).nth(at).unwrap_or_default().iter().enumerate() {
            image.fragments(*leaf, 8)[slot * 8..slot * 8 + 8].copy_from_slice(&fragment.to_le_bytes());
        }
        image.fragments(maps[0], 8)[at * 8..at * 8 + 8].copy_from_slice(&leaf.to_le_bytes());
    }
    image.amend_inode(big, |inode| {
        inode.set_pointer(13, maps[0]);
        inode.set_size((12 + (pointers + data.len()) as u64) * geometry.block_size);
    });
    let repair = plan(&image.bytes, 2);
    assert!(codes(&repair.found).contains(&rows::NO_ROOM.code), "{:?}", codes(&repair.found));
}
