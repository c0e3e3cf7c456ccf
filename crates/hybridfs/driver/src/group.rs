// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which allocation group a new directory prefers: the policy of FreeBSD's dirpref, which hFS took over.
//!
//! Directories stay near their parents, until the files to be expected of those that are there already would fill the group. What lies in the log does not count.
//! (Dowse and Malone, "Recent Filesystem Optimisations on FreeBSD", USENIX 2002.)

use fsmend_base::width;

/// Bytes of a file and files of a directory that are expected while nothing is known.
const FILE_BYTES: u64 = 16 << 10;
const DIRECTORY_FILES: u64 = 64;
/// Directories that may follow each other in a group, at most.
const IN_A_ROW_MAX: u64 = 255;

/// What has been decided since the file system was mounted.
#[derive(Default)]
pub(crate) struct Groups {
    /// Directories that were put into each group and have no files yet.
    waiting: Vec<u32>,
    /// Directories that were put there in all.
    made: Vec<u32>,
}

/// The file system as it is.
pub(crate) struct Facts<'a> {
    /// Free bytes of each group.
    pub free: &'a [u64],
    /// Bytes of data in use.
    pub used: u64,
    pub directories: u64,
}

impl Groups {
    /// The group for a directory whose parent prefers `parent`; [`None`] for directories of the root, which are spread: the search begins at `luck`.
    pub fn choose(&mut self, parent: Option<u32>, luck: u32, facts: &Facts<'_>) -> u32 {
        let groups = facts.free.len() as u64;
        if groups == 0 {
            return 0;
        }
        self.waiting.resize(facts.free.len(), 0);
        self.made.resize(facts.free.len(), 0);
        let average = facts.free.iter().sum::<u64>() / groups;
        let start = u64::from(parent.unwrap_or(luck)) % groups;
        let around = || (0..groups).map(move |step| width::index((start + step) % groups));
        let chosen = if parent.is_none() {
            // The one with the fewest directories, of those that have their share of what is free.
            around().filter(|at| facts.free[*at] >= average).min_by_key(|at| self.made[*at])
        } else {
            let actual = facts.used / facts.directories.max(1);
            let size = actual.max(FILE_BYTES * DIRECTORY_FILES);
            let in_a_row = (average / size).clamp(1, IN_A_ROW_MAX) as u32;
            let enough = average - average / 4;
            around()
                .find(|at| facts.free[*at] >= enough && self.waiting[*at] < in_a_row)
                .or_else(|| around().find(|at| facts.free[*at] >= enough))
        };
        let chosen = chosen.unwrap_or(width::index(start));
        self.waiting[chosen] += 1;
        self.made[chosen] += 1;
        width::len_u32(chosen)
    }

    /// A file was made in a directory that prefers this group.
    pub fn note_file(&mut self, group: u32) {
        if let Some(waiting) = self.waiting.get_mut(group as usize) {
            *waiting = waiting.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn directories_stay_with_their_parents_until_their_files_would_fill_the_group() {
        let free = [100 * MIB; 8];
        let facts = Facts { free: &free, used: 0, directories: 1 };
        let mut groups = Groups::default();
        let chosen: Vec<u32> = (0..250).map(|_| groups.choose(Some(3), 0, &facts)).collect();
        assert!(chosen[..100].iter().all(|group| *group == 3), "a directory is expected to have a megabyte");
        assert!(chosen[100..200].iter().all(|group| *group == 4));
        assert!(chosen[200..].iter().all(|group| *group == 5));
        // Files come: there is room for further directories.
        (0..10).for_each(|_| groups.note_file(3));
        assert_eq!(groups.choose(Some(3), 0, &facts), 3);
    }

    #[test]
    fn large_directories_need_more_room_and_full_groups_get_none() {
        let free = [50 * MIB, 100 * MIB, 100 * MIB, 100 * MIB];
        let facts = Facts { free: &free, used: 400 * MIB, directories: 10 };
        let mut groups = Groups::default();
        let chosen: Vec<u32> = (0..4).map(|_| groups.choose(Some(0), 0, &facts)).collect();
        assert_eq!(chosen, [1, 1, 2, 2], "forty megabytes each");
    }

    #[test]
    fn directories_of_the_root_are_spread() {
        let free = [100 * MIB, 100 * MIB, 0, 100 * MIB];
        let facts = Facts { free: &free, used: 0, directories: 1 };
        let mut groups = Groups::default();
        let mut chosen: Vec<u32> = (0..6).map(|luck| groups.choose(None, luck * 7, &facts)).collect();
        chosen.sort_unstable();
        assert_eq!(chosen, [0, 0, 1, 1, 3, 3]);
        assert_eq!(groups.choose(Some(9), 0, &Facts { free: &[], used: 0, directories: 0 }), 0);
    }
}
