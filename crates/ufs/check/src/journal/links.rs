// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of names. How many names an inode has follows from what it had before the first record, from the names that were to be removed, and from what is found at
//! the places that records name. Inodes without a name become free; what a directory without a name contains loses a name.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::width;
use fsmend_ufs_format::directory::{self, kind};
use fsmend_ufs_format::inode::mode;

use super::Unusable;
use super::blocks;
use super::disk::{Disk, Record};
use super::groups::Groups;

/// Offset of `..` in its directory: `.` takes twelve bytes.
const DOTS_OFFSET: u64 = 12;

/// A directory and a byte offset in it.
pub(super) type Place = (u32, u64);

/// What happened to a name.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Name {
    /// Whether it was there before: its first record removes it.
    was_there: bool,
    /// Where it was, the latest place last.
    places: Vec<Place>,
}

/// What happened to the names of an inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct History {
    /// The link count before.
    links: u16,
    /// The mode.
    mode: u16,
    names: Vec<Name>,
}

impl History {
    pub fn new(links: u16, mode: u16) -> History {
        History { links, mode, names: Vec::new() }
    }

    /// A name is added or removed. Only the first record of a place tells what was there before.
    pub fn add(&mut self, is_removal: bool, place: Place) {
        if self.names.iter().all(|name| name.places.last() != Some(&place)) {
            self.names.push(Name { was_there: is_removal, places: vec![place] });
        }
    }

    /// A name moves within its directory.
    pub fn moved(&mut self, parent: u32, from: u64, to: u64) {
        for name in self.names.iter_mut().filter(|name| name.places.last() == Some(&(parent, from))) {
            name.places.push((parent, to));
        }
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        self.names.iter().flat_map(|name| name.places.iter().copied())
    }
}

/// What becomes of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// It has no name.
    Gone,
    /// It has names, and this link count, if that is known.
    Links(Option<u16>),
}

/// Works out what becomes of the inodes.
struct Judge<'r> {
    histories: &'r BTreeMap<u32, History>,
    /// Inodes that records name as entries of a directory.
    named_in: BTreeMap<u32, BTreeSet<u32>>,
    gone: BTreeSet<u32>,
    /// Names that went with their directory and that no record tells of.
    lost: BTreeMap<u32, u32>,
}

/// Puts link counts and frees what has no name.
pub(super) fn settle(
    disk: &mut Disk<'_>,
    groups: &mut Groups<'_>,
    histories: &BTreeMap<u32, History>,
) -> Result<(), Unusable> {
    let mut named_in: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (inode, history) in histories {
        history.places().for_each(|(parent, _)| {
            named_in.entry(parent).or_default().insert(*inode);
        });
    }
    let mut judge = Judge { histories, named_in, gone: BTreeSet::new(), lost: BTreeMap::new() };
    let mut touched: BTreeSet<u32> = histories.keys().copied().collect();
    let mut waiting = touched.clone();
    while let Some(inode) = waiting.pop_first() {
        if !judge.gone.contains(&inode) && judge.fate(disk, groups, inode)? == Fate::Gone {
            let again = judge.bury(disk, groups, inode)?;
            touched.extend(&again);
            waiting.extend(again);
        }
    }
    let mut fates = Vec::new();
    for inode in touched {
        fates.push((inode, judge.fate(disk, groups, inode)?));
    }
    for (inode, fate) in fates {
        match fate {
            Fate::Gone => blocks::free_inode(disk, groups, inode)?,
            Fate::Links(links) => put_links(disk, groups, inode, links)?,
        }
    }
    Ok(())
}

fn put_links(
    disk: &mut Disk<'_>,
    groups: &Groups<'_>,
    inode: u32,
    links: Option<u16>,
) -> Result<(), Unusable> {
    if let (Some(mut record), Some(links)) = (disk.inode(groups, inode)?, links)
        && record.links() != links
    {
        record.set_links(links);
        disk.put_inode(inode, record)?;
    }
    Ok(())
}

impl Judge<'_> {
    fn fate(&self, disk: &mut Disk<'_>, groups: &Groups<'_>, inode: u32) -> Result<Fate, Unusable> {
        let record = disk.inode(groups, inode)?;
        let history = self.histories.get(&inode);
        let lost = self.lost.get(&inode).copied().unwrap_or(0);
        let Some(record) = record else {
            // It was freed, or never came to the disk: the map may still say that it is in use.
            let found =
                history.map_or(Ok(0), |history| self.found(disk, groups, (inode, history), |_| true))?;
            return Ok(if found == 0 { Fate::Gone } else { Fate::Links(None) });
        };
        if history.is_some_and(|history| (history.mode ^ record.mode()) & mode::TYPE != 0) {
            return Ok(Fate::Links(None));
        }
        match record.file_type() {
            mode::DIRECTORY => self.directory(disk, groups, (inode, &record), lost),
            _ => self.file(disk, groups, (inode, &record), lost),
        }
    }

    fn file(
        &self,
        disk: &mut Disk<'_>,
        groups: &Groups<'_>,
        (inode, record): (u32, &Record),
        lost: u32,
    ) -> Result<Fate, Unusable> {
        let mut links = i64::from(record.links());
        let mut found = 0;
        if let Some(history) = self.histories.get(&inode) {
            let removed = history.names.iter().filter(|name| name.was_there).count();
            found = self.found(disk, groups, (inode, history), |_| true)?;
            links = i64::from(history.links) + width::signed(found as u64) - width::signed(removed as u64);
        }
        match links - i64::from(lost) {
            0 if found == 0 => Ok(Fate::Gone),
            // What has a name is not freed, whatever a record says.
            0 => Err(Unusable::Impossible),
            links => Ok(Fate::Links(Some(u16::try_from(links).map_err(|_| Unusable::Impossible)?))),
        }
    }

    /// A directory has one name: it lives where that is found, or where no record tells of it. Its link count follows from what is in it.
    fn directory(
        &self,
        disk: &mut Disk<'_>,
        groups: &Groups<'_>,
        (inode, record): (u32, &Record),
        lost: u32,
    ) -> Result<Fate, Unusable> {
        let history = self.histories.get(&inode);
        let is_name = |(parent, offset): Place| parent != inode && offset != DOTS_OFFSET;
        let mut was_removed = lost > 0;
        let mut is_new = false;
        let mut is_found = false;
        if let Some(history) = history {
            let is_named = |name: &&Name| name.places.iter().all(|place| is_name(*place));
            was_removed |= history.names.iter().filter(is_named).any(|name| name.was_there);
            is_new = history.links < 2 && history.names.iter().any(|name| is_named(&name));
            is_found = self.found(disk, groups, (inode, history), is_name)? > 0;
        }
        if !is_found && (was_removed || is_new) {
            return Ok(Fate::Gone);
        }
        let below = disk.entries(record)?;
        let directories = below
            .iter()
            .filter(|(_, child, type_)| *type_ == kind::DIRECTORY && !self.gone.contains(child))
            .count();
        Ok(Fate::Links(u16::try_from(directories + 2).ok()))
    }

    /// At how many places of its records that `fit` an inode is found.
    fn found(
        &self,
        disk: &mut Disk<'_>,
        groups: &Groups<'_>,
        (inode, history): (u32, &History),
        fit: impl Fn(Place) -> bool,
    ) -> Result<usize, Unusable> {
        let places: BTreeSet<Place> = history.places().filter(|place| fit(*place)).collect();
        let mut found = 0;
        for (parent, offset) in places {
            if self.gone.contains(&parent) {
                continue;
            }
            let directory =
                disk.inode(groups, parent)?.filter(|record| record.file_type() == mode::DIRECTORY);
            if let Some(directory) = directory {
                found += usize::from(disk.entry_at(&directory, offset)? == Some(inode));
            }
        }
        Ok(found)
    }

    /// An inode has no name. Those of which something changes with it: what it contains if it is a directory, and the directory above.
    fn bury(
        &mut self,
        disk: &mut Disk<'_>,
        groups: &Groups<'_>,
        inode: u32,
    ) -> Result<BTreeSet<u32>, Unusable> {
        self.gone.insert(inode);
        let Some(record) = disk.inode(groups, inode)?.filter(|record| record.file_type() == mode::DIRECTORY)
        else {
            return Ok(BTreeSet::new());
        };
        let mut again = self.named_in.get(&inode).cloned().unwrap_or_default();
        for (offset, child, _) in disk.entries(&record)? {
            let is_told = self
                .histories
                .get(&child)
                .is_some_and(|history| history.places().any(|place| place == (inode, offset)));
            if !is_told && child < disk.geometry.inode_count() {
                *self.lost.entry(child).or_default() += 1;
            }
            again.insert(child);
        }
        again.extend(disk.entry_at(&record, DOTS_OFFSET)?);
        again.retain(|inode| *inode > directory::WHITEOUT_INODE && *inode < disk.geometry.inode_count());
        Ok(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_record_of_a_name_counts() {
        let mut history = History::new(1, mode::REGULAR);
        history.add(false, (2, 24));
        history.moved(2, 24, 512);
        history.add(true, (2, 512));
        history.add(false, (2, 24));
        let places: Vec<Vec<Place>> = history.names.iter().map(|name| name.places.clone()).collect();
        assert_eq!(places, [vec![(2, 24), (2, 512)], vec![(2, 24)]]);
        assert!(history.names.iter().all(|name| !name.was_there));
    }
}
