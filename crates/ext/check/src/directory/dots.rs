// SPDX-License-Identifier: MIT OR Apache-2.0
//! `.` and `..`, the first two records of a directory's first block.

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::{Findings, Problem, Row, Value};
use fsmend_ext_format::directory::{ENTRY_HEADER_LEN, ENTRY_LEN_MIN, Entry, EntryHeader, file_type};
use fsmend_ext_format::inode::special;

use super::params::DirectoryParams;
use super::problems as rows;

/// Mends `.` and `..` at the start of `bytes`, a sound chain of records. `block` is for the report.
/// Returns what `..` says: `None` when it had to be made anew.
pub(super) fn mend(
    bytes: &mut [u8],
    params: &DirectoryParams,
    block: BlockNo,
    chain_was_broken: bool,
    findings: &mut Findings,
) -> Option<InodeNo> {
    let mut dots = Dots { bytes, params, block, findings };
    dots.mend_dot(chain_was_broken);
    dots.mend_dot_dot()
}

/// Shortens a `.`, known by its name or by where it leads, that reaches over the `..` behind it, so that the chain is followed from there. (Where `..` leads may
/// be wrong as well.)
pub(super) fn shorten_dot(
    bytes: &mut [u8],
    params: &DirectoryParams,
    block: BlockNo,
    findings: &mut Findings,
) {
    let named = |at: usize, name: &[u8]| {
        Entry::at(bytes, at, params.layout, true).is_ok_and(|entry| entry.name == name)
    };
    let Some(dot) = EntryHeader::at(bytes, 0, params.layout) else { return };
    let is_dot = dot.inode == params.inode.0 || named(0, b".");
    if is_dot && dot.rec_len > ENTRY_LEN_MIN && named(ENTRY_LEN_MIN, b"..") && !named(dot.rec_len, b"..") {
        let problem = Problem::new(&rows::DOT_OVERSIZED).inode(params.inode).block(block);
        findings.raise(problem.stored(dot.rec_len as u64));
        EntryHeader { rec_len: ENTRY_LEN_MIN, ..dot }.store(bytes, 0, params.layout);
    }
}

struct Dots<'a> {
    bytes: &'a mut [u8],
    params: &'a DirectoryParams,
    block: BlockNo,
    findings: &'a mut Findings,
}

impl Dots<'_> {
    fn mend_dot(&mut self, chain_was_broken: bool) {
        let Some(header) = EntryHeader::at(self.bytes, 0, self.params.layout) else { return };
        let own = self.params.inode;
        let wrong =
            self.name_problem(0, b".", &rows::DOT_MISSING, &rows::FIRST_NOT_DOT, &rows::DOT_UNTERMINATED);
        match wrong {
            Some(row) => {
                self.raise(row, 0);
                self.write(0, own, b".", header.rec_len);
            }
            None if header.inode != own.0 => {
                self.findings.raise(self.problem(&rows::DOT_WRONG_INODE).stored(header.inode));
                self.write(0, own, b".", header.rec_len);
            }
            None => {}
        }
        if header.rec_len >= 2 * ENTRY_LEN_MIN + 4 || (wrong.is_some() && header.rec_len >= 2 * ENTRY_LEN_MIN)
        {
            if wrong.is_none() && !chain_was_broken {
                self.findings.raise(self.problem(&rows::DOT_OVERSIZED).stored(header.rec_len as u64));
            }
            self.split_dot(header.rec_len);
        }
    }

    fn split_dot(&mut self, rec_len: usize) {
        let free = EntryHeader { inode: 0, rec_len: rec_len - ENTRY_LEN_MIN, name_len: 0, file_type: 0 };
        free.store(self.bytes, ENTRY_LEN_MIN, self.params.layout);
        self.write(0, self.params.inode, b".", ENTRY_LEN_MIN);
    }

    fn mend_dot_dot(&mut self) -> Option<InodeNo> {
        let at = EntryHeader::at(self.bytes, 0, self.params.layout)?.rec_len;
        let header = EntryHeader::at(self.bytes, at, self.params.layout)?;
        let wrong = self.name_problem(
            at,
            b"..",
            &rows::DOT_DOT_MISSING,
            &rows::SECOND_NOT_DOT_DOT,
            &rows::DOT_DOT_UNTERMINATED,
        );
        match wrong {
            Some(row) => {
                self.raise(row, at);
                let known = std::ptr::eq(row, &rows::DOT_DOT_UNTERMINATED).then_some(InodeNo(header.inode));
                self.write(at, known.unwrap_or(InodeNo(special::ROOT)), b"..", header.rec_len);
                known
            }
            None => Some(InodeNo(header.inode)),
        }
    }

    /// What is wrong with the name in the record at `offset`, if anything is.
    fn name_problem(
        &self,
        offset: usize,
        name: &[u8],
        missing: &'static Row,
        other: &'static Row,
        unterminated: &'static Row,
    ) -> Option<&'static Row> {
        let entry = Entry::at(self.bytes, offset, self.params.layout, true).ok()?;
        if entry.header.inode == 0 {
            Some(missing)
        } else if entry.name != name {
            Some(other)
        } else if self.bytes.get(offset + ENTRY_HEADER_LEN + name.len()) != Some(&0) {
            Some(unterminated)
        } else {
            None
        }
    }

    fn write(&mut self, offset: usize, inode: InodeNo, name: &[u8], rec_len: usize) {
        let file_type = if self.params.file_types { file_type::DIRECTORY } else { file_type::UNKNOWN };
        let header = EntryHeader { inode: inode.0, rec_len, name_len: width::len_u8(name.len()), file_type };
        header.store(self.bytes, offset, self.params.layout);
        let start = offset + ENTRY_HEADER_LEN;
        if let Some(place) = self.bytes.get_mut(start..start + name.len() + 1) {
            place[..name.len()].copy_from_slice(name);
            place[name.len()] = 0;
        }
    }

    fn raise(&mut self, row: &'static Row, offset: usize) {
        let name =
            Entry::at(self.bytes, offset, self.params.layout, true).map_or(&[][..], |entry| entry.name);
        let problem = self.problem(row).detail("name", Value::name(name));
        self.findings.raise(problem);
    }

    fn problem(&self, row: &'static Row) -> Problem {
        Problem::new(row).inode(self.params.inode).block(self.block)
    }
}
