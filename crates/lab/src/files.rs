// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that a workload has made and not deleted yet.

use fsmend_base::{InodeNo, SeededRandom, width};

/// A file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub name: String,
    pub folder: InodeNo,
    pub inode: InodeNo,
    pub len: u64,
}

/// Files to choose from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    list: Vec<File>,
    /// Names are numbers that are never used twice.
    made: u64,
}

impl Files {
    /// A name that no file had yet.
    pub fn new_name(&mut self) -> String {
        self.made += 1;
        format!("f{}", self.made)
    }

    pub fn push(&mut self, file: File) {
        self.list.push(file);
    }

    /// A place in the list, each as likely as the others; `None` if it is empty.
    pub fn any(&self, random: &mut SeededRandom) -> Option<usize> {
        (!self.list.is_empty()).then(|| width::index(random.next_u64() % self.list.len() as u64))
    }

    pub fn get(&self, at: usize) -> Option<&File> {
        self.list.get(at)
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut File> {
        self.list.get_mut(at)
    }

    /// Takes all files out, those that were made first at the front.
    pub fn take_by_age(&mut self) -> Vec<File> {
        let mut list = std::mem::take(&mut self.list);
        // Names are numbers: a longer one is higher.
        list.sort_unstable_by(|one, other| (one.name.len(), &one.name).cmp(&(other.name.len(), &other.name)));
        list
    }

    /// Takes a file out of the list.
    pub fn take(&mut self, at: usize) -> Option<File> {
        (at < self.list.len()).then(|| self.list.swap_remove(at))
    }
}
