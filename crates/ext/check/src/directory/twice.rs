// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entries with the same name: which one is kept.

use std::collections::HashMap;

use fsmend_base::InodeNo;
use fsmend_engine::{Findings, Problem, Value};
use fsmend_ext_format::casefold;
use fsmend_ext_format::directory::Entry;

use super::entry::mended_name;
use super::inspect::{Inspector, mend_block};
use super::names::EntryPlace;
use super::{inline, problems as rows};

impl Inspector<'_> {
    /// Looks again at entries whose names may be the same.
    pub(super) fn check_names(&mut self) {
        let groups = std::mem::take(&mut self.names).suspects();
        if groups.is_empty() {
            return;
        }
        let mut places: Vec<EntryPlace> = groups.iter().flatten().copied().collect();
        places.sort_unstable();
        let entries = self.read_again(&places);
        for group in groups {
            self.check_group(&group, &entries);
        }
    }

    /// Inode and name of the entries at `places`, which ascend: each block is read once.
    fn read_again(&self, places: &[EntryPlace]) -> HashMap<(u32, u32), (u32, Vec<u8>)> {
        let mut entries = HashMap::new();
        for block in places.chunk_by(|one, other| one.logical == other.logical) {
            let Some(bytes) = self.mended_again(block[0].logical) else { continue };
            for place in block {
                if let Ok(entry) = Entry::at(&bytes, place.offset as usize, self.params.layout, false) {
                    let name = mended_name(&self.params, entry.name).unwrap_or_else(|| entry.name.to_vec());
                    entries.insert((place.logical, place.offset), (entry.header.inode, name));
                }
            }
        }
        entries
    }

    fn mended_again(&self, logical: u32) -> Option<Vec<u8>> {
        let mut quiet = Findings::new();
        if self.directory.inline {
            let (_, area) =
                inline::gather(&self.directory.record)?.filled().find(|(at, _)| *at == logical)?;
            let mut records = self.directory.record.get(area)?.to_vec();
            mend_block(&mut records, &self.params, None, false, &mut quiet);
            return Some(records);
        }
        let block = self.physical(u64::from(logical))?;
        let mut bytes = self.fs.read_block(block).ok()?;
        let (end, _) = self.leaf_end(true, &bytes);
        mend_block(&mut bytes[..end], &self.params, Some(block), logical == 0, &mut quiet);
        bytes.truncate(end);
        Some(bytes)
    }

    fn check_group(&mut self, group: &[EntryPlace], entries: &HashMap<(u32, u32), (u32, Vec<u8>)>) {
        let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
        for place in group {
            let Some((inode, name)) = entries.get(&(place.logical, place.offset)) else { continue };
            let mut key = name.clone();
            if self.compares_folded() {
                casefold::fold(name, &mut key);
            }
            match seen.get(&key) {
                None => {
                    seen.insert(key, *inode);
                }
                Some(first) => self.name_twice(*first, *inode, name),
            }
        }
    }

    fn name_twice(&mut self, first: u32, inode: u32, name: &[u8]) {
        let row = if first == inode {
            &rows::ENTRY_TWICE
        } else if self.params.encrypted {
            &rows::NAME_TWICE_ENCRYPTED
        } else {
            &rows::NAME_TWICE
        };
        // The names are sorted out when the directory is written anew.
        self.mending.rewrite = true;
        let problem = Problem::new(row).inode(self.params.inode).detail("name", Value::name(name));
        self.findings.raise(problem.stored(first).observed(inode));
        if row != &rows::NAME_TWICE {
            self.parent_claims.withdraw_link(InodeNo(inode));
            if first != inode {
                self.parent_claims.set_parent(InodeNo(inode), InodeNo(0));
            }
        }
    }
}
