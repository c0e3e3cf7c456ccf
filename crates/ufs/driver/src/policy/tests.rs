// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::mkfs::{Options, shape};
use fsmend_ufs_format::Version;
use fsmend_vfs::Time;

/// Groups of which some are full.
struct Fake {
    count: u32,
    full: Vec<u32>,
    directories: Vec<u32>,
}

impl Fake {
    fn of(count: u32) -> Self {
        Fake { count, full: Vec::new(), directories: vec![0; count as usize] }
    }
}

impl Groups for Fake {
    fn count(&self) -> u32 {
        self.count
    }

    fn usage(&mut self, group: GroupNo) -> Option<GroupUse> {
        let free = if self.full.contains(&group.0) { 0 } else { 20_000 };
        Some(GroupUse {
            free_blocks: free,
            free_inodes: free,
            directories: self.directories[group.0 as usize],
            first_free_for_files: 0,
            region: BlockRange::new(0, 0),
        })
    }

    fn totals(&self) -> (u64, u64) {
        let free = u64::from(self.count - self.full.len() as u32) * 20_000;
        (free, free)
    }
}

fn policy(groups: u32) -> FfsPolicy {
    let options = Options::new(Version::Ufs2, [1, 2], Time::at(0));
    let superblock = shape(64 << 30, &options).expect("it can be made");
    let (mut geometry, _) = Geometry::of(&superblock).expect("it makes sense");
    geometry.groups = groups;
    FfsPolicy::new(&geometry, &superblock)
}

fn ask(parent: u32, depth: Option<u32>, siblings: u32) -> DirectoryAsk {
    DirectoryAsk { parent_group: GroupNo(parent), parent_depth: depth, siblings }
}

#[test]
fn directories_near_the_root_are_spread_and_deeper_ones_stay_near_their_parent() {
    let (mut policy, mut groups) = (policy(64), Fake::of(64));
    let mut chosen = |parent, depth| -> Vec<u32> {
        (0..7).map(|siblings| policy.directory_group(&ask(parent, depth, siblings), &mut groups).0).collect()
    };
    assert_eq!(chosen(0, Some(0)), [0, 48, 16, 40, 56, 8, 24]);
    assert_eq!(
        chosen(16, Some(2)),
        [16, 12, 20, 10, 14, 18, 22],
        "a quarter of all groups, around the parent"
    );
    assert_eq!(chosen(16, Some(6)), [16; 7], "no range is left");
    assert_eq!(chosen(63, Some(40)), [63; 7]);
    assert_eq!(chosen(16, None), [16; 7], "the depth is not known");
}

#[test]
fn only_so_many_directories_follow_each_other_in_a_group_without_files() {
    let (mut policy, mut groups) = (policy(8), Fake::of(8));
    let mut make = |policy: &mut FfsPolicy| {
        let group = policy.directory_group(&ask(2, None, 0), &mut groups);
        policy.made(group, true);
        group.0
    };
    // A directory is expected to hold 64 files of 16 KiB, and a group has 20 000 free fragments of 4 KiB.
    let row = (20_000 * 4096) / (64 * 16384);
    for _ in 0..row {
        assert_eq!(make(&mut policy), 2);
    }
    assert_eq!(make(&mut policy), 3);
    policy.made(GroupNo(2), false);
    assert_eq!(make(&mut policy), 2, "a file has come in between");
}

#[test]
fn groups_that_are_crowded_or_full_are_passed_over() {
    let (mut policy, mut groups) = (policy(8), Fake::of(8));
    groups.full = vec![2, 3];
    groups.directories[4] = 40;
    assert_eq!(policy.directory_group(&ask(2, Some(3), 0), &mut groups).0, 5);
    groups.full = (0..8).collect();
    assert_eq!(policy.directory_group(&ask(2, Some(3), 0), &mut groups).0, 2, "there is no room anywhere");
}
