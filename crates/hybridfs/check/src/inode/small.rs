// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contents that lie in the log in one piece. Where they are damaged, the log may hold them once more, or an older version: an inode that was written before proves by its number, its
//! generation and its own checksum that it is one of the same file, and has the checksum of its contents. See docs/decisions/2026-11-27-older-contents.md for what is put back.

use fsmend_base::width;
use fsmend_hybridfs_format::{Format, Header, Inode, Place, Record, plain_crc};

use super::{New, Work, kind_of};
use crate::rows;

/// A version of contents, and the segment that wrote it.
struct Version {
    inode: Inode,
    bytes: Vec<u8>,
    segment: u64,
}

impl Work<'_> {
    pub(super) fn small(&mut self) {
        let record = Record::parse(self.inode.room());
        let max = u64::from(record.place.len).saturating_mul(u64::from(self.log.sb.fragment_size));
        let size = self.inode.size;
        let bytes = match self.log.object(record.place) {
            Ok(bytes) if size <= max => Ok(bytes),
            Ok(_) => Err("the place is shorter than the file".to_owned()),
            Err(fault) => Err(fault.to_string()),
        };
        match bytes {
            Ok(whole) => {
                self.claim(record.place, 1);
                let bytes = whole.get(..width::index(size)).unwrap_or_default();
                if u64::from(plain_crc(bytes)) != record.aux {
                    let is_gone = whole.iter().all(|byte| *byte == 0)
                        || Header::parse(&whole, &self.log.sb.uuid).is_ok();
                    let kept = (!is_gone).then(|| bytes.to_vec());
                    self.damaged(&record, "wrong checksum", kept);
                }
                self.used(u64::from(record.place.len));
            }
            Err(why) => self.damaged(&record, &why, None),
        }
    }

    /// Decides what becomes of contents of which at most `kept` is left where they should be.
    fn damaged(&mut self, record: &Record, why: &str, kept: Option<Vec<u8>>) {
        let versions = self.versions(record);
        let is_same = |version: &&Version| {
            version.bytes.len() as u64 == self.inode.size
                && u64::from(plain_crc(&version.bytes)) == record.aux
        };
        let said = |row, segment| self.at(row, record.place, 1).detail("why", why).observed(segment);
        if let Some(same) = versions.iter().find(is_same) {
            self.raise(said(&rows::SMALL_ELSEWHERE, same.segment));
            self.judged.contents = Some(New::Small(same.bytes.clone()));
            return;
        }
        if let Some(kept) = kept {
            self.raise(self.at(&rows::SMALL_CHECKSUM, record.place, 1));
            self.judged.contents = Some(New::Small(kept));
            return;
        }
        // What others may see must not depend on rights that were given later, in the mode or in an access list.
        let has_same_rights = |other: &Inode| {
            let own = &self.inode;
            (other.mode, other.uid, other.gid) == (own.mode, own.uid, own.gid)
                && other.attribute_slots == own.attribute_slots
                && other.attribute_room() == own.attribute_room()
        };
        let mut allowed = versions.into_iter().filter(|version| has_same_rights(&version.inode));
        if let Some(older) = allowed.next() {
            self.raise(said(&rows::SMALL_OLDER, older.segment));
            (self.inode.size, self.inode.mtime) = (older.bytes.len() as u64, older.inode.mtime);
            self.judged.contents = Some(New::Small(older.bytes));
            return;
        }
        self.raise(self.at(&rows::SMALL_PLACE, record.place, 1).detail("why", why));
        // A small file is no longer than a block.
        self.inode.size = self.inode.size.min(u64::from(self.log.sb.block_size));
        self.judged.contents = Some(New::Small(vec![0; width::index(self.inode.size)]));
    }

    /// What older inodes lead to that is whole, the newest first.
    fn versions(&self, current: &Record) -> Vec<Version> {
        let Some(relics) = self.search.relics() else { return Vec::new() };
        let mut tried = vec![current.place];
        let mut versions = Vec::new();
        for inode in relics.inode_versions(&self.log, self.inode.number) {
            let is_older = inode.generation == self.inode.generation && inode.birth < self.inode.birth;
            if is_older && kind_of(inode.mode) == Some(self.kind) {
                versions.extend(self.version(inode, &mut tried));
            }
        }
        versions.sort_by_key(|version| std::cmp::Reverse((version.inode.birth, version.segment)));
        versions
    }

    /// The contents of an inode, if they are whole and were not tried before.
    fn version(&self, inode: Inode, tried: &mut Vec<Place>) -> Option<Version> {
        let size = usize::try_from(inode.size).ok()?;
        match inode.format {
            Format::Inline => {
                let bytes = inode.room().get(..size)?.to_vec();
                Some(Version { segment: inode.birth, inode, bytes })
            }
            Format::Small => {
                let record = Record::parse(inode.room());
                if tried.contains(&record.place) {
                    return None;
                }
                tried.push(record.place);
                let mut bytes = self.log.object(record.place).ok().filter(|bytes| size <= bytes.len())?;
                bytes.truncate(size);
                let is_whole = u64::from(plain_crc(&bytes)) == record.aux;
                is_whole.then_some(Version { segment: record.birth, inode, bytes })
            }
            Format::Nothing | Format::Map => None,
        }
    }
}
