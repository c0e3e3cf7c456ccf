// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories: chunks of entries. A chunk that cannot be read on keeps the entries on both sides of the damage.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::{InodeNo, width};
use fsmend_device::Request;
use fsmend_engine::checker::{EntryVerdict, judge_entry};
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::names::paths::Directories;
use fsmend_engine::names::with_suffix;
use fsmend_engine::scan::certification::{DirectorySummary, Target, hash_of};
use fsmend_engine::{Findings, Layer, Problem, Row, Value};
use fsmend_ufs_format::ByteOrder;
use fsmend_ufs_format::directory::{
    CHUNK, Entries, HEADER, NAME_MAX, WHITEOUT_INODE, add, clear_chunk, entry, kind, needed, put_entry,
};
use fsmend_ufs_format::geometry::{self, DIRECT};
use fsmend_ufs_format::inode::Inode;

use crate::blocks::{contents, contents_patched};
use crate::{UfsFs, rows};

/// The kind that an entry says; `Unknown` for numbers without one.
pub fn kind_of(kind: u8) -> Kind {
    match kind {
        kind::PIPE => Kind::Fifo,
        kind::CHARACTER => Kind::CharDevice,
        kind::DIRECTORY => Kind::Directory,
        kind::BLOCK => Kind::BlockDevice,
        kind::REGULAR => Kind::Regular,
        kind::LINK => Kind::Symlink,
        kind::SOCKET => Kind::Socket,
        _ => Kind::Unknown,
    }
}

/// What an entry says for a kind.
pub fn number_of(kind: Kind) -> u8 {
    match kind {
        Kind::Fifo => kind::PIPE,
        Kind::CharDevice => kind::CHARACTER,
        Kind::Directory => kind::DIRECTORY,
        Kind::BlockDevice => kind::BLOCK,
        Kind::Regular => kind::REGULAR,
        Kind::Symlink => kind::LINK,
        Kind::Socket => kind::SOCKET,
        Kind::Unused | Kind::Unknown => kind::UNKNOWN,
    }
}

impl UfsFs<'_> {
    /// Calls `visit` with place and bytes of each chunk of a directory, in order, until it returns false. A chunk that cannot be read comes as `None`.
    pub(crate) fn each_chunk(&self, inode: InodeNo, mut visit: impl FnMut(u64, Option<&[u8]>) -> bool) {
        let geometry = self.geometry();
        let Some((record, patches)) = self.mended(inode) else { return };
        if record.file_type() != fsmend_ufs_format::inode::mode::DIRECTORY {
            return;
        }
        for (_, fragment, len) in contents_patched(self, &record, &patches) {
            let place = geometry.place(fragment);
            let len = len.next_multiple_of(CHUNK);
            let bytes = self.read(fragment, len);
            for at in (0..len).step_by(CHUNK) {
                let mut single = [0; CHUNK];
                let chunk = match &bytes {
                    Some(bytes) => bytes.get(at..at + CHUNK),
                    // Chunks beside an unreadable sector can be read by themselves.
                    None => {
                        self.device.read_at(place + at as u64, &mut single).is_ok().then_some(&single[..])
                    }
                };
                if !visit(place + at as u64, chunk) {
                    return;
                }
            }
        }
    }
}

/// The runs of fragments of a directory that has no indirect blocks, with the bytes that belong to it. `None` for others, and where a pointer cannot be right.
fn runs<'i>(
    fs: &'i UfsFs<'_>,
    record: &'i Inode<&[u8]>,
) -> Option<impl Iterator<Item = (u64, usize)> + Clone + use<'i>> {
    let (geometry, size) = (fs.geometry(), record.size());
    let count = Some(geometry.block_count(size)).filter(|count| *count <= DIRECT)?;
    let runs = (0..count).map(move |index| {
        let left = size - index * geometry.block_size;
        (index, record.pointer(width::index(index)), width::index(left.min(geometry.block_size)))
    });
    let is_data = |(index, fragment, _): (u64, u64, usize)| {
        fragment != 0 && geometry.may_be_data(fragment, geometry.block_fragments(size, index))
    };
    let is_direct = record.ends_before(width::index(count)) && runs.clone().all(is_data);
    is_direct.then(|| runs.map(|(_, fragment, len)| (fragment, len.next_multiple_of(CHUNK))))
}

/// Adds the blocks of a directory that has no indirect ones. False for others.
pub fn blocks(fs: &UfsFs<'_>, record: &Inode<&[u8]>, blocks: &mut Vec<Request>) -> bool {
    let Some(runs) = runs(fs, record) else { return false };
    // A block of a directory has fewer bytes than 32 bits can count.
    blocks.extend(runs.map(|(fragment, len)| Request {
        offset: fs.geometry().place(fragment),
        len: width::low_u32(len as u64),
    }));
    true
}

/// The fast path: every chunk is in order, `.` and `..` stand at the start, no name stands twice.
pub fn summarize(
    fs: &UfsFs<'_>,
    inode: InodeNo,
    record: &Inode<&[u8]>,
    summary: &mut DirectorySummary,
) -> bool {
    let mut looker =
        Looker { fs, inode, is_read: true, is_clean: true, number: 0, buffer: Vec::new(), summary };
    match runs(fs, record) {
        Some(runs) => runs.for_each(|(fragment, len)| looker.look(fragment, len)),
        None => contents(fs, record)
            .into_iter()
            .for_each(|(_, fragment, len)| looker.look(fragment, len.next_multiple_of(CHUNK))),
    }
    let Looker { is_clean, number, summary, .. } = looker;
    is_clean && number >= 2 && summary.names_are_unique()
}

/// What the fast path has seen of a directory.
struct Looker<'l, 'd> {
    fs: &'l UfsFs<'d>,
    inode: InodeNo,
    is_read: bool,
    is_clean: bool,
    /// Of entries.
    number: u64,
    buffer: Vec<u8>,
    summary: &'l mut DirectorySummary,
}

impl Looker<'_, '_> {
    /// Looks at the chunks in `len` bytes.
    fn look(&mut self, fragment: u64, len: usize) {
        let (device, place) = (self.fs.device, self.fs.geometry().place(fragment));
        let bytes = match device.borrow(place, len) {
            Some(bytes) => bytes,
            None => {
                self.buffer.resize(len, 0);
                // What comes behind it is wanted all the same.
                self.is_read &= device.read_at(place, &mut self.buffer).is_ok();
                &self.buffer
            }
        };
        let (inode, number, summary) = (self.inode, &mut self.number, &mut *self.summary);
        let mut chunks = bytes.chunks_exact(CHUNK);
        // A copy for each byte order, which is known then when this is compiled.
        self.is_clean = self.is_clean
            && self.is_read
            && match self.fs.geometry().order {
                order @ ByteOrder::Little => {
                    chunks.all(|chunk| summarize_chunk(chunk, (order, inode), number, summary))
                }
                order @ ByteOrder::Big => {
                    chunks.all(|chunk| summarize_chunk(chunk, (order, inode), number, summary))
                }
            };
    }
}

/// Gathers the entries of a chunk; `number` counts those of the directory. Returns whether all are in order.
#[inline(always)]
fn summarize_chunk(
    chunk: &[u8],
    (order, inode): (ByteOrder, InodeNo),
    number: &mut u64,
    summary: &mut DirectorySummary,
) -> bool {
    let mut is_clean = true;
    for entry in Entries::new(chunk, order) {
        let Ok(entry) = entry else { return false };
        match *number {
            0 => {
                is_clean &= entry.name == b"." && entry.inode == inode.0 && entry.kind == kind::DIRECTORY;
            }
            1 => {
                is_clean &= entry.name == b".." && entry.inode != 0 && entry.kind == kind::DIRECTORY;
                summary.parent_entry = InodeNo(entry.inode);
            }
            _ if entry.inode == 0 => {}
            _ if entry.kind == kind::WHITEOUT => is_clean &= entry.inode == WHITEOUT_INODE,
            _ => {
                // The root has no name.
                is_clean &= entry.inode > geometry::ROOT && !matches!(entry.name, b"." | b"..");
                summary.targets.push(Target { inode: InodeNo(entry.inode), kind: kind_of(entry.kind) });
            }
        }
        if entry.inode != 0 {
            summary.add_name(hash_of(entry.name));
        }
        *number += 1;
    }
    is_clean
}

/// An entry that stays.
#[derive(Clone, Debug)]
struct Kept {
    inode: u32,
    kind: u8,
    name: Vec<u8>,
    /// Another inode has the name already.
    is_double: bool,
}

/// Entries of a chunk that can be read, and whether some could not.
fn salvage(chunk: &[u8], order: ByteOrder) -> (Vec<Kept>, bool) {
    let mut kept = Vec::new();
    let mut is_broken = false;
    let mut at = 0;
    while at < chunk.len() {
        if let Some(entry) = entry(chunk, at, order) {
            if entry.inode != 0 {
                kept.push(Kept {
                    inode: entry.inode,
                    kind: entry.kind,
                    name: entry.name.to_vec(),
                    is_double: false,
                });
            }
            at += entry.length;
            continue;
        }
        is_broken = true;
        let (end, is_length_right) = end_of(chunk, at, order);
        kept.extend(mended(&chunk[at..end], is_length_right, order));
        at = end;
    }
    (kept, is_broken)
}

/// Where what follows the damaged entry at `at` begins: where its length says if that leads on, otherwise where entries from there reach the end of the chunk. What an entry
/// has behind its name may be former entries, which would do so too. Also whether its length is right.
fn end_of(chunk: &[u8], at: usize, order: ByteOrder) -> (usize, bool) {
    let own = chunk.get(at + 4..at + 6).map_or(0, |_| usize::from(order.u16(chunk, at + 4)));
    let leads_on = |end: &usize| *end <= chunk.len() && reaches_end(chunk, *end, order);
    let said = Some(at + own).filter(|_| own >= needed(1) && own % 4 == 0).filter(leads_on);
    let is_used = |start: &usize| entry(chunk, *start, order).is_some_and(|entry| entry.inode != 0);
    let next = || (at + 4..chunk.len()).step_by(4).filter(is_used).find(leads_on);
    match said {
        Some(end) => (end, true),
        None => (next().unwrap_or(chunk.len()), false),
    }
}

/// Whether entries from `at` on reach the end of the chunk.
fn reaches_end(chunk: &[u8], at: usize, order: ByteOrder) -> bool {
    let mut here = at;
    while here < chunk.len() {
        let Some(entry) = entry(chunk, here, order) else { return false };
        here += entry.length;
    }
    true
}

/// The entry that fills these bytes, if no more than one of its fields is wrong: length, type, or name with its length.
fn mended(bytes: &[u8], is_length_right: bool, order: ByteOrder) -> Option<Kept> {
    if bytes.len() < needed(1) {
        return None;
    }
    let (inode, kind, said) = (order.u32(bytes, 0), bytes[6], usize::from(bytes[7]));
    let name = mended_name(said, &bytes[HEADER..])?;
    let is_name_right = bytes[HEADER..].get(..=said).is_some_and(|own| own.strip_suffix(&[0]) == Some(&name));
    let wrong = [is_length_right, kind <= 15, is_name_right].iter().filter(|is_right| !**is_right).count();
    // The inode knows its type.
    let kind = if kind <= 15 { kind } else { kind::UNKNOWN };
    (inode != 0 && wrong <= 1).then_some(Kept { inode, kind, name, is_double: false })
}

/// The name in this room, which `said` bytes are said to have.
fn mended_name(said: usize, room: &[u8]) -> Option<Vec<u8>> {
    let to_zero = &room[..room.iter().position(|byte| *byte == 0)?];
    let is_text = std::str::from_utf8(to_zero).is_ok_and(|text| !text.contains(char::is_control));
    let mut name = match room.get(said) {
        // Its length is right, but perhaps for zeros at the end.
        Some(0) => room[..room[..said].iter().rposition(|byte| *byte != 0)? + 1].to_vec(),
        // The zero behind it is wrong.
        Some(_) if said > 0 && said < to_zero.len() && !is_text => room[..said].to_vec(),
        _ => to_zero.to_vec(),
    };
    let mut wrong = name.iter_mut().filter(|byte| matches!(**byte, 0 | b'/'));
    if let Some(byte) = wrong.next() {
        *byte = b'_';
    }
    // More than one such byte is no name.
    (wrong.next().is_none() && !name.is_empty() && name.len() <= NAME_MAX).then_some(name)
}

/// The full check, entry by entry.
pub fn inspect(
    fs: &UfsFs<'_>,
    inode: InodeNo,
    inodes: &InodeTable,
    findings: &mut Findings,
    summary: &mut DirectorySummary,
) {
    let mut inspector = Inspector {
        fs,
        inode,
        inodes,
        names: BTreeMap::new(),
        directories: BTreeSet::new(),
        suffixes: BTreeMap::new(),
    };
    let mut number = 0;
    fs.each_chunk(inode, |place, chunk| {
        inspector.chunk((place, number), chunk, findings, summary);
        number += 1;
        true
    });
}

/// A directory under inspection.
struct Inspector<'i, 'd> {
    fs: &'i UfsFs<'d>,
    inode: InodeNo,
    inodes: &'i InodeTable,
    /// The names that stay, and what they lead to.
    names: BTreeMap<Vec<u8>, u32>,
    directories: BTreeSet<u32>,
    /// The number to try first for names that begin so.
    suffixes: BTreeMap<Vec<u8>, u32>,
}

impl Inspector<'_, '_> {
    fn problem(&self, row: &'static Row) -> Problem {
        Problem::new(row).inode(self.inode)
    }

    fn about(&self, row: &'static Row, entry: &Kept) -> Problem {
        self.problem(row).detail("name", Value::name(&entry.name))
    }

    fn chunk(
        &mut self,
        (place, number): (u64, u64),
        chunk: Option<&[u8]>,
        findings: &mut Findings,
        summary: &mut DirectorySummary,
    ) {
        let order = self.fs.geometry().order;
        let Some(chunk) = chunk else {
            findings.raise(self.problem(&rows::CHUNK_UNREADABLE).detail("chunk", number));
            let mut fresh = [0; CHUNK];
            clear_chunk(&mut fresh, order);
            self.lay((place, number), &fresh, Vec::new(), None, findings);
            return;
        };
        let (mut kept, is_broken) = salvage(chunk, order);
        if is_broken {
            findings.raise(
                self.problem(&rows::CHUNK_BROKEN).detail("chunk", number).detail("kept", kept.len() as u64),
            );
        }
        let before = kept.len();
        let dots = if number == 0 { Some(self.dots(chunk, &mut kept, findings, summary)) } else { None };
        let mut is_changed = is_broken || dots.is_some_and(|(_, is_changed)| is_changed);
        let mut stays = Vec::with_capacity(before);
        for mut entry in kept {
            match self.judge(&mut entry, findings) {
                Judged::Stays => stays.push(entry),
                Judged::Changes => {
                    is_changed = true;
                    stays.push(entry);
                }
                Judged::Goes => is_changed = true,
            }
        }
        if is_changed {
            stays = self.lay((place, number), chunk, stays, dots.map(|(parent, _)| parent), findings);
        }
        for entry in stays.iter().filter(|entry| entry.kind != kind::WHITEOUT) {
            let target = InodeNo(entry.inode);
            summary.targets.push(Target { inode: target, kind: self.inodes.kind(target) });
        }
    }

    /// Takes `.` and `..` out of the entries of the first chunk; returns what `..` will lead to, and whether they change.
    fn dots(
        &mut self,
        chunk: &[u8],
        kept: &mut Vec<Kept>,
        findings: &mut Findings,
        summary: &mut DirectorySummary,
    ) -> (u32, bool) {
        let order = self.fs.geometry().order;
        let mut is_changed = false;
        let first = entry(chunk, 0, order);
        let is_dot = first.is_some_and(|entry| {
            entry.name == b"." && entry.inode == self.inode.0 && entry.kind == kind::DIRECTORY
        });
        if !is_dot {
            is_changed = true;
            findings.raise(self.problem(&rows::DOT_WRONG));
        }
        if let Some(at) = kept.iter().position(|entry| entry.name == b".") {
            kept.remove(at);
        }
        let parent = kept.iter().position(|entry| entry.name == b"..").map(|at| kept.remove(at));
        let stands = first.and_then(|first| entry(chunk, first.length, order));
        let in_place = stands.is_some_and(|entry| entry.name == b".." && entry.kind == kind::DIRECTORY);
        let target = parent.map_or(0, |entry| entry.inode);
        let leads = self.inodes.kind(InodeNo(target)) == Kind::Directory;
        if !in_place || !leads {
            is_changed = true;
            findings.raise(self.problem(&rows::DOT_DOT_WRONG).stored(target));
        }
        if leads {
            summary.parent_entry = InodeNo(target);
        }
        // The tree says where one that leads nowhere has to lead; until then to the root.
        (if leads { target } else { fsmend_ufs_format::geometry::ROOT }, is_changed)
    }

    fn judge(&mut self, entry: &mut Kept, findings: &mut Findings) -> Judged {
        if matches!(entry.name.as_slice(), b"." | b"..") {
            findings.raise(self.about(&rows::DOT_EXTRA, entry));
            return Judged::Goes;
        }
        let judged = self.judge_target(entry, findings);
        if judged == Judged::Goes {
            return judged;
        }
        let Some(first) = self.names.get(&entry.name).copied() else {
            self.names.insert(entry.name.clone(), entry.inode);
            return judged;
        };
        if first == entry.inode {
            findings.raise(self.about(&rows::ENTRY_TWICE, entry).stored(entry.inode));
            return Judged::Goes;
        }
        findings.raise(self.about(&rows::NAME_TWICE, entry).stored(first).observed(u64::from(entry.inode)));
        entry.is_double = true;
        Judged::Changes
    }

    /// What becomes of an entry by what it leads to.
    fn judge_target(&mut self, entry: &mut Kept, findings: &mut Findings) -> Judged {
        if entry.kind == kind::WHITEOUT || entry.inode == WHITEOUT_INODE {
            if entry.kind == kind::WHITEOUT && entry.inode == WHITEOUT_INODE {
                return Judged::Stays;
            }
            if entry.inode == WHITEOUT_INODE || self.inodes.kind(InodeNo(entry.inode)) == Kind::Unused {
                findings.raise(self.about(&rows::WHITEOUT, entry));
                (entry.inode, entry.kind) = (WHITEOUT_INODE, kind::WHITEOUT);
                return Judged::Changes;
            }
        }
        let target = InodeNo(entry.inode);
        let mut verdict = judge_entry(self.inodes, self.inode, target, kind_of(entry.kind));
        if verdict != EntryVerdict::LeadsNowhere
            && self.inodes.kind(target) == Kind::Directory
            && (entry.inode == geometry::ROOT || !self.directories.insert(entry.inode))
        {
            verdict = EntryVerdict::SecondName;
        }
        match verdict {
            EntryVerdict::Right => Judged::Stays,
            EntryVerdict::IsReally(kind) => {
                let stored = u64::from(entry.kind);
                entry.kind = number_of(kind);
                let problem = self.about(&rows::ENTRY_TYPE, entry).stored(stored);
                findings.raise(problem.observed(u64::from(entry.kind)));
                Judged::Changes
            }
            EntryVerdict::LeadsNowhere => {
                findings.raise(self.about(&rows::ENTRY_UNUSED, entry).stored(entry.inode));
                Judged::Goes
            }
            EntryVerdict::SecondName => {
                findings.raise(self.about(&rows::DIRECTORY_SECOND_NAME, entry).stored(entry.inode));
                Judged::Goes
            }
        }
    }

    /// Writes a chunk with these entries and returns them; those that find no room behind `.` and `..` lose their names here and get others in lost+found, if a later chunk does
    /// not have them, too. Entries that need other names come last: what they take is not taken from others.
    fn lay(
        &mut self,
        (place, number): (u64, u64),
        chunk: &[u8],
        mut entries: Vec<Kept>,
        parent: Option<u32>,
        findings: &mut Findings,
    ) -> Vec<Kept> {
        let order = self.fs.geometry().order;
        let mut fresh = match parent {
            Some(parent) => fsmend_ufs_format::directory::first_chunk(order, self.inode.0, parent),
            None => {
                let mut fresh = [0; CHUNK];
                clear_chunk(&mut fresh, order);
                fresh
            }
        };
        entries.sort_by_key(|entry| entry.is_double);
        entries.retain(|entry| {
            let is_laid = if entry.is_double {
                self.rename(&mut fresh, entry)
            } else {
                add(&mut fresh, order, (entry.inode, entry.kind), &entry.name)
            };
            if !is_laid {
                findings.raise(self.about(&rows::NAME_NO_ROOM, entry).detail("chunk", number));
                self.directories.remove(&entry.inode);
                if !entry.is_double {
                    self.names.remove(&entry.name);
                }
            }
            is_laid
        });
        if fresh.as_slice() != chunk {
            findings.edit(Layer::Contents, place, &fresh);
        }
        entries
    }

    /// Adds an entry whose name is taken by another name: with a suffix, which takes the end of the name where the chunk is full.
    fn rename(&mut self, fresh: &mut [u8], entry: &Kept) -> bool {
        let order = self.fs.geometry().order;
        [NAME_MAX, entry.name.len()].into_iter().any(|len_max| {
            let next = self.suffixes.entry(with_suffix(&entry.name, 0, len_max)).or_default();
            let candidates =
                (*next..=u32::MAX).map(|number| (number, with_suffix(&entry.name, number, len_max)));
            let mut candidates = candidates.skip_while(|(_, name)| self.names.contains_key(name));
            let Some((number, name)) = candidates.next() else { return false };
            *next = number;
            let is_laid = add(fresh, order, (entry.inode, entry.kind), &name);
            if is_laid {
                self.names.insert(name, entry.inode);
            }
            is_laid
        })
    }
}

/// What becomes of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judged {
    Stays,
    Changes,
    Goes,
}

impl Directories for UfsFs<'_> {
    fn visit_entries(
        &self,
        holder: InodeNo,
        wanted: &dyn Fn(InodeNo) -> bool,
        visit: &mut dyn FnMut(InodeNo, &[u8]),
    ) {
        let order = self.geometry().order;
        self.each_chunk(holder, |_, chunk| {
            let Some(chunk) = chunk else { return true };
            let (kept, _) = salvage(chunk, order);
            for entry in kept {
                let is_name = !matches!(entry.name.as_slice(), b"." | b"..") && entry.kind != kind::WHITEOUT;
                if is_name && wanted(InodeNo(entry.inode)) {
                    visit(InodeNo(entry.inode), &entry.name);
                }
            }
            true
        });
    }
}

/// Puts `..` of a directory's first chunk, in whatever state that is.
pub fn set_parent(chunk: &mut [u8], order: ByteOrder, inode: InodeNo, parent: u32) {
    let second = entry(chunk, 0, order).map_or(12, |first| first.length);
    let length = entry(chunk, second, order).filter(|entry| entry.name == b"..").map(|entry| entry.length);
    match length {
        Some(length) => {
            put_entry(chunk, (second, length), order, (parent, kind::DIRECTORY), b"..");
        }
        None => chunk.copy_from_slice(&fsmend_ufs_format::directory::first_chunk(order, inode.0, parent)),
    }
    debug_assert!(needed(2) <= CHUNK);
}
