// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is remembered of directories while a file system is mounted: where their names are, and where there may be room. Nothing of it is needed, it only saves
//! time; the entries themselves are always read.

use std::collections::{BTreeSet, HashMap};

/// Names of all directories that are remembered at most.
const NAMES_MAX: usize = 8 << 20;

/// What is remembered.
#[derive(Default)]
pub(crate) struct Hints {
    /// Hashes of the names of a directory with the positions of their entries, in units of four bytes.
    names: HashMap<u32, BTreeSet<(u32, u32)>>,
    count: usize,
    /// The chunk of a directory in which a search for room begins.
    room: HashMap<u32, u64>,
    /// Directories that the operation has changed.
    touched: Vec<u32>,
}

/// A hash of a name (FNV-1a).
fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn entry(name: &[u8], position: u64) -> (u32, u32) {
    // Directories are shorter than 2 GiB.
    (hash(name), u32::try_from(position / 4).unwrap_or(u32::MAX))
}

impl Hints {
    /// An operation begins.
    pub fn begin(&mut self) {
        self.touched.clear();
    }

    /// The operation has failed.
    pub fn take_back(&mut self) {
        for directory in std::mem::take(&mut self.touched) {
            self.forget(directory);
        }
    }

    /// Nothing of a directory is remembered any more.
    pub fn forget(&mut self, directory: u32) {
        self.room.remove(&directory);
        if let Some(names) = self.names.remove(&directory) {
            self.count = self.count.saturating_sub(names.len());
        }
    }

    /// Whether the names of a directory are remembered.
    pub fn knows(&self, directory: u32) -> bool {
        self.names.contains_key(&directory)
    }

    /// From now on the names of a directory are remembered.
    pub fn learn<'n>(&mut self, directory: u32, names: impl Iterator<Item = (&'n [u8], u64)>) {
        if self.count > NAMES_MAX {
            self.names.clear();
            self.count = 0;
        }
        let names: BTreeSet<_> = names.map(|(name, position)| entry(name, position)).collect();
        self.count += names.len();
        self.names.insert(directory, names);
    }

    /// Where a name may be.
    pub fn positions(&self, directory: u32, name: &[u8]) -> Vec<u64> {
        let hash = hash(name);
        let names = self.names.get(&directory);
        let found = names.into_iter().flat_map(|names| names.range((hash, 0)..=(hash, u32::MAX)));
        found.map(|(_, position)| u64::from(*position) * 4).collect()
    }

    /// A name was added.
    pub fn add(&mut self, directory: u32, name: &[u8], position: u64) {
        self.touched.push(directory);
        if let Some(names) = self.names.get_mut(&directory) {
            self.count += usize::from(names.insert(entry(name, position)));
        }
    }

    /// A name was removed.
    pub fn remove(&mut self, directory: u32, name: &[u8], position: u64) {
        self.touched.push(directory);
        if let Some(names) = self.names.get_mut(&directory) {
            self.count -= usize::from(names.remove(&entry(name, position)));
        }
    }

    /// Where a search for room begins.
    pub fn room(&self, directory: u32) -> u64 {
        self.room.get(&directory).copied().unwrap_or(0)
    }

    /// Sets it.
    pub fn set_room(&mut self, directory: u32, chunk: u64) {
        self.touched.push(directory);
        self.room.insert(directory, chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_operation_makes_the_directory_forgotten() {
        let mut hints = Hints::default();
        hints.learn(5, [(b"one".as_slice(), 24)].into_iter());
        hints.begin();
        hints.add(5, b"two", 36);
        assert_eq!((hints.positions(5, b"two"), hints.positions(5, b"three")), (vec![36], vec![]));
        hints.take_back();
        assert!(!hints.knows(5) && hints.count == 0);
    }
}
