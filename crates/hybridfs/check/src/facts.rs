// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of each inode besides what the engine keeps: its generation, and marks. A page of them comes with the first inode of it that is looked at, so the worker that
//! scans these inodes makes it, not the one that opens the file system.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};

/// A mark: the inode has no links, and is removed at the next mount.
pub(crate) const ORPHAN: u8 = 1;
/// A mark: it is a directory.
pub(crate) const DIRECTORY: u8 = 2;
/// A mark: the inode was judged.
pub(crate) const KNOWN: u8 = 4;
/// A mark: it is in use.
pub(crate) const IN_USE: u8 = 8;

/// Inodes in a page: as many as are mostly scanned together.
const PAGE: usize = 1 << 12;

struct Page {
    generations: Vec<AtomicU32>,
    marks: Vec<AtomicU8>,
    /// Whether some inode was an orphan when it was noted.
    may_have_orphans: AtomicBool,
}

/// Generations and marks of inodes, by their places in the list of all blocks of inodes.
pub(crate) struct Facts {
    pages: Vec<OnceLock<Page>>,
    count: usize,
}

impl Facts {
    /// Nothing is known of `count` inodes.
    pub fn new(count: usize) -> Facts {
        let mut pages = Vec::new();
        pages.resize_with(count.div_ceil(PAGE), OnceLock::new);
        Facts { pages, count }
    }

    /// Notes the generation and the marks of an inode, which is known from then on.
    pub fn note(&self, at: usize, generation: u32, marks: u8) {
        let Some(page) = self.pages.get(at / PAGE).filter(|_| at < self.count) else { return };
        let page = page.get_or_init(|| {
            let (mut generations, mut marks) = (Vec::new(), Vec::new());
            generations.resize_with(PAGE, AtomicU32::default);
            marks.resize_with(PAGE, AtomicU8::default);
            Page { generations, marks, may_have_orphans: AtomicBool::new(false) }
        });
        if let (Some(stored), Some(mark)) = (page.generations.get(at % PAGE), page.marks.get(at % PAGE)) {
            if marks & ORPHAN != 0 {
                page.may_have_orphans.store(true, Relaxed);
            }
            stored.store(generation, Relaxed);
            mark.store(marks | KNOWN, Release);
        }
    }

    /// The generation of an inode and its marks, without any if it was not judged; `None` if there is no such inode.
    #[inline]
    pub fn get(&self, at: usize) -> Option<(u32, u8)> {
        let page = self.pages.get(at / PAGE).filter(|_| at < self.count)?;
        let Some(page) = page.get() else { return Some((0, 0)) };
        // The mark comes last, and says whether the generation is there.
        let marks = page.marks.get(at % PAGE)?.load(Acquire);
        Some((page.generations.get(at % PAGE)?.load(Relaxed), marks))
    }

    /// The marks of all orphans.
    pub fn orphans(&self) -> impl Iterator<Item = u8> {
        let pages = self.pages.iter().filter_map(OnceLock::get);
        let pages = pages.filter(|page| page.may_have_orphans.load(Relaxed));
        let marks = pages.flat_map(|page| &page.marks).map(|mark| mark.load(Relaxed));
        marks.filter(|mark| mark & ORPHAN != 0)
    }

    /// The marks of all inodes that were judged, with their places.
    pub fn marks(&self) -> impl Iterator<Item = (usize, u8)> {
        let pages = self.pages.iter().enumerate().filter_map(|(number, page)| Some((number, page.get()?)));
        let marks = pages.flat_map(|(number, page)| {
            page.marks.iter().enumerate().map(move |(at, mark)| (number * PAGE + at, mark.load(Relaxed)))
        });
        marks.filter(|(_, mark)| mark & KNOWN != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_there_once_they_are_noted_and_only_for_inodes_that_exist() {
        let facts = Facts::new(PAGE + 2);
        assert_eq!(facts.get(PAGE + 1), Some((0, 0)));
        assert_eq!(facts.get(PAGE + 2), None);
        facts.note(PAGE + 1, 7, IN_USE);
        facts.note(PAGE + 2, 8, IN_USE);
        assert_eq!(facts.get(PAGE + 1), Some((7, IN_USE | KNOWN)));
        assert_eq!(facts.get(PAGE), Some((0, 0)));
        assert_eq!(facts.get(PAGE + 2), None);
        assert_eq!(facts.marks().collect::<Vec<_>>(), [(PAGE + 1, IN_USE | KNOWN)]);
        assert_eq!(facts.orphans().count(), 0);
        facts.note(PAGE, 7, IN_USE | ORPHAN);
        assert_eq!(facts.orphans().collect::<Vec<_>>(), [IN_USE | ORPHAN | KNOWN]);
        // What turns out to be none is none.
        facts.note(PAGE, 7, IN_USE);
        assert_eq!(facts.orphans().count(), 0);
    }
}
