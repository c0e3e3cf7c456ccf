// SPDX-License-Identifier: MIT OR Apache-2.0
//! The judgement of an inode: what is wrong with it, and what it will be; `small`: the contents of small files.

mod small;

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::checker::InodeSummary;
use fsmend_engine::inodes::Kind;
use fsmend_engine::{Problem, Row};
use fsmend_hybridfs_format::{
    Attribute, Format, HEADER_LEN, Inode, Kind as Object, Map, Place, Record, SLOT_ATTRIBUTES,
    parse_attributes,
};

use crate::facts::{DIRECTORY, IN_USE, ORPHAN};
use crate::log::{Expected, Log, is_data};
use crate::map::{Flaw, Leaves, Owner, Walked, walk};
use crate::opening::InodeBlock;
use crate::salvage::Relics;
use crate::{HybridFs, directory, rows};

/// Links of a directory without directories in it: its name, and `.`.
const EMPTY_LINKS: u32 = 2;
/// Slots of attributes in an inode at most.
pub(crate) const SLOTS_MAX: u8 = 12;

/// Contents that have to be written anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum New {
    Small(Vec<u8>),
    Extents(Vec<Record>),
    /// The entries come from the inspection of the directory.
    Entries,
}

/// What an inode is, and what is wrong with it.
#[derive(Default)]
pub(crate) struct Judged {
    pub summary: InodeSummary,
    /// As it will be, but for contents and attributes that are written anew.
    pub inode: Option<Inode>,
    pub contents: Option<New>,
    pub attributes: Option<Vec<Attribute>>,
    pub problems: Vec<Problem>,
}

impl Judged {
    /// Notes what others ask about the inode.
    pub fn leave_facts(&self, fs: &HybridFs<'_>, inode: InodeNo) {
        let Some(at) = fs.state.place_of(inode.0) else { return };
        match &self.inode {
            Some(inode) => {
                fs.state.facts.note(at, inode.generation, marks_of(inode.links, kind_of(inode.mode)));
            }
            None => fs.state.facts.note(at, 0, 0),
        }
    }
}

/// The marks of an inode that is in use.
pub(crate) fn marks_of(links: u32, kind: Option<Kind>) -> u8 {
    let is_orphan = if links == 0 { ORPHAN } else { 0 };
    let is_directory = if kind == Some(Kind::Directory) { DIRECTORY } else { 0 };
    IN_USE | is_orphan | is_directory
}

/// The kind that a mode says.
pub(crate) fn kind_of(mode: u16) -> Option<Kind> {
    Some(match mode >> 12 {
        0o1 => Kind::Fifo,
        0o2 => Kind::CharDevice,
        0o4 => Kind::Directory,
        0o6 => Kind::BlockDevice,
        0o10 => Kind::Regular,
        0o12 => Kind::Symlink,
        0o14 => Kind::Socket,
        _ => return None,
    })
}

/// High four bits of the mode of a kind.
pub(crate) fn number_of(kind: Kind) -> u8 {
    match kind {
        Kind::Fifo => 0o1,
        Kind::CharDevice => 0o2,
        Kind::Directory => 0o4,
        Kind::BlockDevice => 0o6,
        Kind::Regular => 0o10,
        Kind::Symlink => 0o12,
        Kind::Socket => 0o14,
        Kind::Unused | Kind::Unknown => 0,
    }
}

/// Judges the inode with a number; `bytes` are its record, if that can be read. What is lost is looked for in the log.
pub(crate) fn judge(fs: &HybridFs<'_>, number: InodeNo, bytes: Option<&[u8]>) -> Judged {
    judged(fs, number, bytes, Search(Some(fs)))
}

/// The same, without a search for what is lost: the outcome counts only if there is no problem.
pub(crate) fn judge_quickly(fs: &HybridFs<'_>, number: InodeNo, bytes: &[u8]) -> Judged {
    judged(fs, number, Some(bytes), Search(None))
}

fn judged(fs: &HybridFs<'_>, number: InodeNo, bytes: Option<&[u8]>, search: Search<'_>) -> Judged {
    let mut judged = Judged::default();
    let Some(inode) = found(fs, (number, bytes), search, &mut judged) else { return judged };
    let Some(kind) = kind_of(inode.mode).filter(|kind| goes_with(*kind, inode.format)) else {
        let problem = Problem::new(&rows::FORMAT).inode(number);
        judged.problems.push(problem.stored(u64::from(inode.mode)).observed(inode.format as u64));
        return judged;
    };
    if inode.format == Format::Map && fs.state.shared_maps.contains(number) {
        judged.problems.push(Problem::new(&rows::MAP_CROWDED).inode(number));
        return judged;
    }
    let mut work = Work { search, log: fs.log(), number, inode, kind, judged };
    work.attributes();
    work.contents();
    let Work { mut inode, mut kind, mut judged, .. } = work;
    judged.summary.links = u16::try_from(inode.links).unwrap_or(u16::MAX);
    if kind == Kind::Directory && inode.links == 0 {
        if is_removed(fs, &inode) {
            // No name may lead to it.
            kind = Kind::Unknown;
        } else {
            // The count is what is wrong, whatever names lead here: the links are counted anew.
            (inode.links, judged.summary.links) = (EMPTY_LINKS, u16::MAX);
        }
    }
    judged.summary.kind = Some(kind);
    judged.inode = Some(inode);
    judged
}

/// Whether a directory without links was removed and waits for the next mount: the IFILE says so as well, and it is empty.
fn is_removed(fs: &HybridFs<'_>, inode: &Inode) -> bool {
    let (number, per_block) = (width::low_u32(inode.number), fs.sb().inodes_per_block());
    let is_marked = |(_, block): (usize, &InodeBlock)| block.is_orphan(number % per_block);
    fs.state.block(u64::from(number / per_block)).is_some_and(is_marked) && !directory::holds_names(fs, inode)
}

pub(crate) fn goes_with(kind: Kind, format: Format) -> bool {
    match kind {
        Kind::Regular => format != Format::Nothing,
        Kind::Directory => matches!(format, Format::Inline | Format::Map),
        Kind::Symlink => matches!(format, Format::Inline | Format::Small),
        _ => format == Format::Nothing,
    }
}

/// The inode, or an older version of it; `None` where there is none, or none is left.
fn found(
    fs: &HybridFs<'_>,
    (number, bytes): (InodeNo, Option<&[u8]>),
    search: Search<'_>,
    judged: &mut Judged,
) -> Option<Inode> {
    let per_block = fs.sb().inodes_per_block();
    let (place, block) = fs.state.block(u64::from(number.0 / per_block))?;
    let at = number.0 % per_block;
    let about = |row: &'static Row| Problem::new(row).inode(number);
    let is_zero = bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
    if is_zero {
        fs.state.bear_out(place);
    }
    if is_zero && !block.is_live(at) {
        return None;
    }
    let parsed = bytes.map(|bytes| Inode::parse(bytes, u64::from(number.0), &fs.sb().uuid));
    if let Some(Ok(_)) = parsed {
        fs.state.bear_out(place);
    }
    let is_stale = |inode: &Inode| inode.birth != block.record.birth;
    match parsed {
        Some(Ok(inode)) if number.0 > 1 => {
            if !block.is_live(at) {
                if is_stale(&inode) {
                    judged.problems.push(about(&rows::LEFTOVER));
                    return None;
                }
                judged.problems.push(about(&rows::LIVE).stored("not in use").observed("in use"));
            }
            if is_stale(&inode) {
                let stale = about(&rows::INODE_STALE).stored(inode.birth).observed(block.record.birth);
                judged.problems.push(stale);
            }
            let is_marked = block.is_orphan(at);
            if is_marked != (inode.links == 0) {
                let said = if is_marked { "is to be removed" } else { "is to be kept" };
                judged.problems.push(about(&rows::ORPHAN).stored(inode.links).observed(said));
            }
            Some(inode)
        }
        _ if !block.is_live(at) => {
            judged.problems.push(about(&rows::LEFTOVER));
            None
        }
        parsed => {
            let older = search.relics().and_then(|relics| relics.inode(&fs.log(), u64::from(number.0)));
            let why = match parsed {
                Some(Err(wrong)) if !is_zero => wrong.to_string(),
                None => "it cannot be read".to_owned(),
                _ => "it is empty".to_owned(),
            };
            judged.problems.push(match &older {
                Some(older) => about(&rows::INODE_OLDER).detail("why", why).observed(older.birth),
                None if is_zero => about(&rows::LIVE).stored("in use").observed("not in use"),
                None => about(&rows::INODE_LOST).detail("why", why),
            });
            older
        }
    }
}

/// Where to search for what is lost, if at all.
#[derive(Clone, Copy)]
struct Search<'a>(Option<&'a HybridFs<'a>>);

impl<'a> Search<'a> {
    fn relics(self) -> Option<&'a Relics> {
        self.0.map(|fs| fs.state.relics(&fs.log()))
    }
}

/// An inode under judgement.
struct Work<'a> {
    search: Search<'a>,
    log: Log<'a>,
    number: InodeNo,
    inode: Inode,
    kind: Kind,
    judged: Judged,
}

impl Work<'_> {
    fn about(&self, row: &'static Row) -> Problem {
        Problem::new(row).inode(self.number)
    }

    fn at(&self, row: &'static Row, place: Place, unit: u64) -> Problem {
        self.about(row).blocks(BlockNo(place.address), (u64::from(place.len) * unit).max(1))
    }

    fn raise(&mut self, problem: Problem) {
        self.judged.problems.push(problem);
    }

    fn owner(&self, leaves: Leaves) -> Owner {
        Owner { leaves, owner: self.inode.number, generation: self.inode.generation }
    }

    fn claim(&mut self, place: Place, unit: u64) {
        self.judged.summary.units.push((place.address, u64::from(place.len) * unit));
    }

    fn attributes(&mut self) {
        let why = match self.inode.attribute_slots {
            0 => return,
            SLOT_ATTRIBUTES => {
                let record = Record::parse(self.inode.attribute_room());
                let read = attributes_at(&self.log, &self.inode, &record);
                match read {
                    Ok(_) => {
                        self.claim(record.place, 1);
                        return;
                    }
                    Err(why) => why,
                }
            }
            slots if slots > SLOTS_MAX => "there are too many slots of them".to_owned(),
            _ => match parse_attributes(self.inode.attribute_room()) {
                Ok(_) => return,
                Err(wrong) => wrong.to_string(),
            },
        };
        let of = self.owner(Leaves::Extents);
        let older = self.search.relics().and_then(|relics| relics.attributes(&self.log, of));
        self.judged.attributes = Some(older.unwrap_or_default());
        let problem = self.about(&rows::ATTRIBUTES).detail("why", why);
        self.raise(problem);
    }

    fn contents(&mut self) {
        match (self.inode.format, self.kind) {
            (Format::Small, _) => self.small(),
            (Format::Map, Kind::Directory) => self.directory(),
            (Format::Map, _) => self.file(),
            (Format::Inline, Kind::Directory) | (Format::Nothing, _) => {}
            (Format::Inline, _) => self.used(0),
        }
    }

    fn used(&mut self, observed: u64) {
        if self.inode.used != observed {
            let problem = self.about(&rows::USED).stored(self.inode.used).observed(observed);
            self.raise(problem);
            self.inode.used = observed;
        }
    }

    /// Walks the map in the inode.
    fn walked(&mut self, leaves: Leaves) -> Walked {
        match Map::parse(self.inode.height, self.inode.count, self.inode.room()) {
            Ok(map) => walk(&self.log, self.owner(leaves), &map),
            Err(wrong) => {
                let problem = self.about(&rows::MAP).detail("why", wrong.to_string());
                self.raise(problem);
                Walked { is_broken: true, ..Walked::default() }
            }
        }
    }

    fn sum(&mut self, flaw: &Flaw) {
        if let Flaw::Sum { place, stored, observed } = *flaw {
            let problem = self.at(&rows::MAP_SUM, place, 1).stored(stored).observed(observed);
            self.raise(problem);
        }
    }

    fn directory(&mut self) {
        let Walked { leaves, nodes, flaws, is_broken } = self.walked(Leaves::Directories);
        let mut is_damaged = is_broken;
        for flaw in &flaws {
            is_damaged = true;
            self.sum(flaw);
            if let Flaw::Node { record, end, fault } = flaw {
                let of = self.owner(Leaves::Directories);
                let found = self
                    .search
                    .relics()
                    .map_or(0, |relics| relics.entries(&self.log, of, (record.key, *end)).len());
                let problem = self.at(&rows::MAP_NODE, record.place, 1).detail("why", fault.to_string());
                self.raise(problem.observed(found as u64));
            }
        }
        nodes.into_iter().for_each(|place| self.claim(place, 1));
        for (record, _) in leaves {
            match self.log.headed(record.place, &block_of(&self.inode, &record)) {
                Ok(_) => self.claim(record.place, 1),
                Err(fault) => {
                    is_damaged = true;
                    let problem = self.at(&rows::DIRECTORY_BLOCK, record.place, 1);
                    self.raise(problem.detail("why", fault.to_string()));
                }
            }
        }
        if is_damaged {
            self.judged.contents = Some(New::Entries);
        }
    }

    fn file(&mut self) {
        let Walked { leaves, nodes, flaws, is_broken } = self.walked(Leaves::Extents);
        let mut extents: Vec<Record> = leaves.into_iter().map(|(record, _)| record).collect();
        let of = self.owner(Leaves::Extents);
        if is_broken {
            extents = self.older_extents(of, (0, u64::MAX));
        }
        for flaw in &flaws {
            self.sum(flaw);
            if let Flaw::Node { record, end, fault } = flaw {
                let found = self.older_extents(of, (record.key, *end));
                let problem = self.at(&rows::MAP_NODE, record.place, 1).detail("why", fault.to_string());
                self.raise(problem.observed(found.len() as u64));
                extents.extend(found);
            }
        }
        nodes.into_iter().for_each(|place| self.claim(place, 1));
        extents.sort_unstable_by_key(|record| record.key);
        let before = self.judged.problems.len();
        let kept = self.sound_extents(extents);
        if is_broken || !flaws.is_empty() || self.judged.problems.len() > before {
            self.judged.contents = Some(New::Extents(kept.clone()));
        }
        let (per_block, block) = (self.log.sb.per_block(), u64::from(self.log.sb.block_size));
        let blocks: u64 = kept.iter().map(|record| u64::from(record.place.len)).sum();
        self.used(blocks * per_block);
        let end = kept.last().map_or(0, |last| last.key.saturating_add(u64::from(last.place.len)));
        if end > self.inode.size.div_ceil(block) {
            let observed = end.saturating_mul(block);
            let problem = self.about(&rows::SIZE).stored(self.inode.size).observed(observed);
            self.raise(problem);
            self.inode.size = observed;
        }
        for record in kept {
            self.claim(record.place, per_block);
        }
    }

    fn older_extents(&self, of: Owner, keys: (u64, u64)) -> Vec<Record> {
        let Some(relics) = self.search.relics() else { return Vec::new() };
        relics.extents(&self.log, of, keys, &|record| is_data(self.log.sb, record.place))
    }

    /// Takes out extents that lead elsewhere, and the older of two that overlap.
    fn sound_extents(&mut self, extents: Vec<Record>) -> Vec<Record> {
        let mut kept: Vec<Record> = Vec::with_capacity(extents.len());
        for record in extents {
            let (key, len) = (record.key, u64::from(record.place.len));
            let is_low = key.checked_add(len).is_some_and(|end| end <= 1 << 50);
            if !is_data(self.log.sb, record.place) || !is_low {
                let problem = self.at(&rows::EXTENT_PLACE, record.place, self.log.sb.per_block());
                self.raise(problem.stored(key).detail("count", len));
                continue;
            }
            if let Some(last) = kept.last().filter(|last| last.key + u64::from(last.place.len) > key) {
                let is_newer = record.birth > last.birth;
                let problem = self.about(&rows::EXTENT_OVERLAP).stored(key);
                self.raise(problem);
                if !is_newer {
                    continue;
                }
                kept.pop();
            }
            kept.push(record);
        }
        kept
    }
}

/// What the block of a directory has to be.
pub(crate) fn block_of(inode: &Inode, record: &Record) -> Expected {
    block_with((inode.number, inode.generation), record)
}

/// The same, for a directory with this number and generation.
pub(crate) fn block_with((owner, generation): (u64, u32), record: &Record) -> Expected {
    Expected { kind: Object::Directory, level: 0, owner, generation, key: record.key, birth: record.birth }
}

/// The attributes that a record leads to.
pub(crate) fn attributes_at(log: &Log<'_>, inode: &Inode, record: &Record) -> Result<Vec<Attribute>, String> {
    let expected = Expected { kind: Object::Attributes, key: 0, ..block_of(inode, record) };
    let (_, bytes) = log.headed(record.place, &expected).map_err(|fault| fault.to_string())?;
    parse_attributes(bytes.get(HEADER_LEN..).unwrap_or_default()).map_err(|wrong| wrong.to_string())
}
