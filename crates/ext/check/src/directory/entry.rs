// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of one entry: kept, kept with a correction, or removed.

use fsmend_base::InodeNo;
use fsmend_engine::inodes::{InodeFact, InodeTable, Kind, mark};
use fsmend_engine::{Findings, Problem, Row, Value};
use fsmend_ext_format::casefold;
use fsmend_ext_format::directory::{ENTRY_HEADER_LEN, Entry, EntryHeader, EntryLayout};
use fsmend_ext_format::encryption::Policy;
use fsmend_ext_format::group::GroupFlags;
use fsmend_ext_format::inode::{RawInode, special};

use super::params::DirectoryParams;
use super::{Surroundings, encryption, problems as rows};
use crate::Fs;

/// What cannot be read of an inode table is given up in pieces of this size.
const PIECE_BYTES: u64 = 4096;

/// Where an entry stands in its directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    /// First record of the first block.
    Dot,
    /// Second record of the first block.
    DotDot,
    /// Any other.
    Name,
}

/// What has to be changed in an entry that stays.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Correction {
    /// The right file type.
    pub file_type: Option<u8>,
    /// A name that can be one, as long as the old one.
    pub name: Option<Vec<u8>>,
}

/// What becomes of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It stays as it is.
    Same,
    /// It stays, with these changes.
    Corrected(Correction),
    /// It goes.
    Gone,
}

impl Fate {
    /// Does to the record at `offset` what has been decided.
    pub fn apply(&self, bytes: &mut [u8], offset: usize, layout: EntryLayout) {
        let Some(header) = EntryHeader::at(bytes, offset, layout) else { return };
        match self {
            Fate::Same => {}
            Fate::Gone => {
                // The kernel refuses a `.` at the end of a block, even a free one.
                let is_dot = header.name_len == 1 && bytes.get(offset + ENTRY_HEADER_LEN) == Some(&b'.');
                let name_len = if is_dot { 0 } else { header.name_len };
                EntryHeader { inode: 0, name_len, ..header }.store(bytes, offset, layout);
            }
            Fate::Corrected(correction) => {
                let file_type = correction.file_type.unwrap_or(header.file_type);
                EntryHeader { file_type, ..header }.store(bytes, offset, layout);
                let start = offset + ENTRY_HEADER_LEN;
                let name = correction.name.as_deref().unwrap_or_default();
                if let Some(place) = bytes.get_mut(start..start + name.len()) {
                    place.copy_from_slice(name);
                }
            }
        }
    }
}

/// Judges the entries of one directory.
pub(super) struct Judge<'a> {
    pub fs: &'a Fs<'a>,
    pub inodes: &'a InodeTable,
    pub surroundings: Surroundings<'a>,
    pub params: DirectoryParams,
    /// Encryption policy of the directory, when it is encrypted and has one.
    pub policy: Option<Policy>,
}

impl Judge<'_> {
    /// Why `entry`, which names an inode, cannot stay; `None` when it can.
    pub fn objection(&self, entry: &Entry<'_>, slot: Slot) -> Option<&'static Row> {
        let inode = InodeNo(entry.header.inode);
        if slot == Slot::Name && inode == self.params.inode {
            return Some(&rows::ENTRY_TO_ITSELF);
        }
        let reserved = inode.0 != special::ROOT && inode.0 < self.fs.geometry.first_inode;
        if reserved || inode.0 > self.params.inodes_count {
            return Some(&rows::ENTRY_INODE_INVALID);
        }
        if self.lies_in_bad_block(inode) {
            return Some(&rows::ENTRY_IN_BAD_BLOCK);
        }
        if slot == Slot::Name {
            let row = match entry.name {
                b"." => Some(&rows::DOT_AGAIN),
                b".." => Some(&rows::DOT_DOT_AGAIN),
                _ if inode.0 == special::ROOT => Some(&rows::ENTRY_TO_ROOT),
                b"" => Some(&rows::NAME_EMPTY),
                _ => None,
            };
            if row.is_some() {
                return row;
            }
        }
        self.target_objection(entry, inode, slot)
    }

    /// Objections to what the entry leads to.
    fn target_objection(&self, entry: &Entry<'_>, inode: InodeNo, slot: Slot) -> Option<&'static Row> {
        let fact = self.known(inode)?;
        if fact.kind() == Kind::Unused {
            return Some(&rows::ENTRY_INODE_UNUSED);
        }
        // What is left among ordinary numbers: the files of project quota and of orphans.
        if fact.has(mark::RESERVED) && inode.0 >= self.fs.geometry.first_inode {
            return Some(&rows::ENTRY_INODE_INVALID);
        }
        if fact.has(mark::EA_INODE) {
            return Some(&rows::ENTRY_TO_VALUE_INODE);
        }
        if self.params.encrypted && slot == Slot::Name {
            return encryption::objection(self.fs, self.policy, entry.name, inode, fact);
        }
        None
    }

    /// What is known of `inode`; `None` when it has not been looked at.
    fn known(&self, inode: InodeNo) -> Option<InodeFact> {
        if self.unused_mark(inode).is_some() && !self.inodes.is_scanned(inode) {
            return None;
        }
        self.inodes.fact(inode)
    }

    /// The row for an inode that its group's descriptor says was never used.
    fn unused_mark(&self, inode: InodeNo) -> Option<&'static Row> {
        if !self.fs.geometry.features.group_csum() {
            return None;
        }
        let (group, index) = self.fs.geometry.inode_place(inode)?;
        let desc = &self.fs.group(group)?.desc;
        let used = self.fs.geometry.inodes_per_group.saturating_sub(desc.itable_unused);
        if desc.has_flag(GroupFlags::INODE_UNINIT) {
            Some(&rows::ENTRY_IN_UNINIT_GROUP)
        } else {
            (index >= used).then_some(&rows::ENTRY_IN_UNUSED_TAIL)
        }
    }

    fn lies_in_bad_block(&self, inode: InodeNo) -> bool {
        if self.surroundings.bad_blocks.is_empty() {
            return false;
        }
        let block = self.fs.inode_offset(inode).map(|offset| offset / u64::from(self.fs.geometry.block_size));
        block.is_some_and(|block| self.surroundings.bad_blocks.binary_search(&block).is_ok())
    }

    /// Raises what is wrong with an entry that stays, and returns what has to be changed in it.
    pub fn correct(&self, entry: &Entry<'_>, slot: Slot, findings: &mut Findings) -> Correction {
        let inode = InodeNo(entry.header.inode);
        if let Some(row) = self.unused_mark(inode) {
            let problem = self.problem(row, entry);
            findings.raise(match self.fs.geometry.inode_place(inode) {
                Some((group, _)) => problem.group(group),
                None => problem,
            });
        }
        if !self.params.encrypted && has_invalid_character(entry.name) {
            findings.raise(self.problem(&rows::NAME_INVALID, entry));
        }
        let folds = self.params.casefold && !self.params.encrypted && slot == Slot::Name;
        if folds && self.params.strict && !casefold::is_valid(entry.name) {
            findings.raise(self.problem(&rows::NAME_NOT_UTF8, entry));
        }
        let name = if slot == Slot::Name { mended_name(&self.params, entry.name) } else { None };
        Correction { file_type: self.check_file_type(entry, findings), name }
    }

    /// The type that the entry should say, if it says another.
    fn check_file_type(&self, entry: &Entry<'_>, findings: &mut Findings) -> Option<u8> {
        let stored = entry.header.file_type;
        if !self.params.file_types {
            if stored != 0 {
                let problem = self.problem(&rows::FILE_TYPE_UNEXPECTED, entry);
                findings.raise(problem.stored(stored));
            }
            return (stored != 0).then_some(0);
        }
        let kind = self.known(InodeNo(entry.header.inode)).map(InodeFact::kind)?;
        if stored == kind as u8 || matches!(kind, Kind::Unused | Kind::Unknown) {
            return None;
        }
        if stored == 0 {
            findings.raise(self.problem(&rows::FILE_TYPE_MISSING, entry));
        } else {
            let problem = self.problem(&rows::FILE_TYPE_WRONG, entry).stored(type_word(stored));
            let target = problem.observed(type_word(kind as u8)).detail("target", entry.header.inode);
            findings.raise(target);
        }
        Some(kind as u8)
    }

    /// A problem of this entry. `stored` is the inode that it leads to.
    pub fn problem(&self, row: &'static Row, entry: &Entry<'_>) -> Problem {
        let problem = Problem::new(row)
            .inode(self.params.inode)
            .stored(entry.header.inode)
            .detail("name", Value::name(entry.name));
        if *row == rows::ENTRY_INODE_UNUSED {
            return problem.detail("state", self.state_of(InodeNo(entry.header.inode)));
        }
        problem
    }

    /// Why an inode counts as unused.
    fn state_of(&self, inode: InodeNo) -> &'static str {
        match self.fs.read_inode(inode) {
            Some(Err(_)) => "cannot be read",
            Some(Ok(record)) if !RawInode::from_record(&record).is_in_use() => "is not in use",
            Some(Ok(_)) if self.is_beside_unreadable(inode) => "is next to bytes that cannot be read",
            Some(Ok(_)) => "is too damaged to keep",
            None => "is not in use",
        }
    }

    /// Whether something cannot be read so near to an inode that it was given up with it: tables are read in pieces of several inodes.
    fn is_beside_unreadable(&self, inode: InodeNo) -> bool {
        let Some(offset) = self.fs.inode_offset(inode) else { return false };
        let start = offset.saturating_sub(PIECE_BYTES);
        let end = offset.saturating_add(2 * PIECE_BYTES).min(self.fs.device.len());
        let mut bytes = vec![0; end.saturating_sub(start).min(3 * PIECE_BYTES) as usize];
        self.fs.device.read_at(start, &mut bytes).is_err()
    }
}

/// Whether a name holds what no name can hold.
#[inline]
pub(in crate::directory) fn has_invalid_character(name: &[u8]) -> bool {
    let (words, rest) = name.as_chunks::<8>();
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7) != 0;
    words.iter().any(|word| {
        let word = u64::from_le_bytes(*word);
        has_zero(word) || has_zero(word ^ (ONES * u64::from(b'/')))
    }) || rest.iter().any(|byte| matches!(byte, 0 | b'/'))
}

/// A word whose bytes are all 1.
const ONES: u64 = u64::MAX / 255;

/// The name as it will be after repair, if that differs: what no name can hold becomes a dot, or `_` where the name would become `.` or `..`.
pub(super) fn mended_name(params: &DirectoryParams, name: &[u8]) -> Option<Vec<u8>> {
    if params.encrypted {
        return None;
    }
    let stays = !has_invalid_character(name);
    if stays && !(params.casefold && params.strict) {
        return None;
    }
    let with = |instead: u8| -> Vec<u8> {
        let mended: Vec<u8> =
            name.iter().map(|byte| if matches!(byte, 0 | b'/') { instead } else { *byte }).collect();
        if !(params.casefold && params.strict) || casefold::is_valid(&mended) {
            return mended;
        }
        mended.utf8_chunks().fold(Vec::new(), |mut valid, chunk| {
            valid.extend_from_slice(chunk.valid().as_bytes());
            valid.extend(chunk.invalid().iter().map(|_| instead));
            valid
        })
    };
    let mended = Some(with(b'.')).filter(|name| !matches!(&name[..], b"." | b".."));
    let mended = mended.unwrap_or_else(|| with(b'_'));
    (mended != name).then_some(mended)
}

fn type_word(file_type: u8) -> &'static str {
    match Kind::from_number(file_type) {
        Kind::Regular => "regular file",
        Kind::Directory => "directory",
        Kind::CharDevice => "character device",
        Kind::BlockDevice => "block device",
        Kind::Fifo => "named pipe",
        Kind::Socket => "socket",
        Kind::Symlink => "symbolic link",
        Kind::Unused | Kind::Unknown => "file of unknown type",
    }
}
