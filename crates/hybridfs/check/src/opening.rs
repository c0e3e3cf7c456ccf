// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening: which segment counts, and what its roots lead to. All that is read here is what no inode owns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_device::Device;
use fsmend_engine::options::SuperblockOptions;
use fsmend_engine::shared_maps::SharedMapInodes;
use fsmend_engine::{Findings, Problem, Refusal};
use fsmend_hybridfs_format::{
    Anchor, AnchorFlags, DATA_BITMAPS, Entry, HEADER_LEN, INODE_LEN, Inode, Kind, OWNER_BFILE, OWNER_IFILE,
    Place, Record, Run, Summary, SummaryFlags, Superblock, seed,
};

use crate::allocation::Area;
use crate::directory::Unproven;
use crate::facts::Facts;
use crate::log::{Expected, Log, Segment, run_of};
use crate::map::{Flaw, Leaves, Owner, Walked, visit, walk};
use crate::salvage::Relics;
use crate::{rows, superblock};

/// Segments that are followed at most, as recovery does.
const CHAIN_MAX: usize = 256;
/// The owner of the nodes of the IFILE.
pub(crate) const IFILE: Owner = Owner { leaves: Leaves::Inodes, owner: OWNER_IFILE, generation: 0 };
const BFILE: Owner = Owner { leaves: Leaves::Bitmaps, owner: OWNER_BFILE, generation: 0 };

/// A block of inodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InodeBlock {
    pub record: Record,
    /// Its bits in the IFILE are lost, or cannot be right.
    pub is_salvaged: bool,
}

impl InodeBlock {
    pub fn is_live(&self, at: u32) -> bool {
        self.record.aux >> at & 1 != 0
    }

    pub fn is_orphan(&self, at: u32) -> bool {
        self.record.aux >> (32 + at) & 1 != 0
    }
}

/// What is known of a file system without its device. Facts that workers add are shared.
pub struct State {
    pub(crate) sb: Arc<Superblock>,
    pub(crate) used_place: u64,
    pub(crate) last: Summary,
    /// From the last checkpoint to the last segment that counts.
    pub(crate) chain: Vec<Segment>,
    /// The chain has a gap: what was taken and given back since the checkpoint is not known.
    pub(crate) has_gap: bool,
    pub(crate) is_clean: bool,
    pub(crate) anchor: u64,
    /// By number.
    pub(crate) blocks: Vec<InodeBlock>,
    pub(crate) bfile: BTreeMap<u64, Record>,
    /// Runs in the log that no inode owns and that a repair writes anew, without blocks of inodes.
    pub(crate) replaced: Vec<Run>,
    /// All that no inode owns, sorted, without overlaps.
    pub(crate) fixed: Vec<(u64, u64)>,
    /// The binary logarithm of the inodes in a block.
    inode_shift: u32,
    /// From which checksums go on.
    pub(crate) seed: u32,
    /// What opening took on trust.
    trust: Trust,
    /// Blocks of inodes in which the scan has found what should be there.
    borne_out: Vec<AtomicBool>,
    /// What is known of the inodes of all blocks.
    pub(crate) facts: Facts,
    relics: OnceLock<Relics>,
    /// Inodes in all blocks, with those between them.
    pub(crate) scanned: OnceLock<u64>,
    /// Inodes whose maps are given up.
    pub(crate) shared_maps: SharedMapInodes,
    /// Something lies in the place of the next summary.
    pub(crate) next_in_use: AtomicBool,
    /// Entries of directories that were cleared before it was known what they lead to.
    pub(crate) unproven: Mutex<Vec<Unproven>>,
    /// Directories that were cleared, and that lead to inodes of other generations.
    pub(crate) contradicted: Mutex<BTreeSet<InodeNo>>,
    /// Inodes that inspection mends.
    pub(crate) touched: Mutex<BTreeSet<u32>>,
    /// Entries of the directories that inspection mends.
    pub(crate) mended: Mutex<BTreeMap<u32, Vec<Entry>>>,
}

/// What is known of a file system without its device.
pub type Layout = Arc<State>;

impl State {
    /// The number of the block of an inode, and the place of the inode in that.
    pub(crate) fn split(&self, inode: u32) -> (u64, u32) {
        // Inodes in a block are a power of two.
        (u64::from(inode >> self.inode_shift), inode & ((1 << self.inode_shift) - 1))
    }

    /// The block with a number, and its place in the list.
    pub(crate) fn block(&self, number: u64) -> Option<(usize, &InodeBlock)> {
        let is_it = |at: &usize| self.blocks.get(*at).is_some_and(|block| block.record.key == number);
        // As long as no block was given back, they stand where their numbers say.
        let guess = usize::try_from(number).ok().filter(is_it);
        let search = || self.blocks.binary_search_by_key(&number, |block| block.record.key).ok();
        let at = guess.or_else(search)?;
        Some((at, self.blocks.get(at)?))
    }

    /// The generation of an inode, and its marks.
    pub(crate) fn facts(&self, inode: u32) -> Option<(u32, u8)> {
        self.facts.get(self.place_of(inode)?)
    }

    /// The place of an inode among the facts.
    pub(crate) fn place_of(&self, inode: u32) -> Option<usize> {
        let (block, at) = self.split(inode);
        Some(self.facts_place(self.block(block)?.0, at))
    }

    /// The same for an inode of a block, by the place of that in the list.
    pub(crate) fn facts_place(&self, place: usize, at: u32) -> usize {
        (place << self.inode_shift) + at as usize
    }

    /// Notes that a block of inodes holds what it should.
    pub(crate) fn bear_out(&self, place: usize) {
        if let Some(block) = self.borne_out.get(place).filter(|block| !block.load(Relaxed)) {
            block.store(true, Relaxed);
        }
    }

    /// Whether some block of inodes that was taken on trust turned out to hold something else.
    pub(crate) fn is_misled(&self) -> bool {
        self.trust == Trust::InodeBlocks && self.borne_out.iter().any(|block| !block.load(Relaxed))
    }

    pub(crate) fn relics(&self, log: &Log<'_>) -> &Relics {
        self.relics.get_or_init(|| {
            let maps: Vec<Option<Vec<u64>>> = (0..self.sb.log_bitmaps())
                .map(|map| crate::allocation::stored_words(self, log, Area::Log(map)).ok())
                .collect();
            // Where bitmaps say nothing, everything may be in use.
            let is_used = |at: u64| {
                let (map, bit) = (at / self.sb.bitmap_units(), at % self.sb.bitmap_units());
                maps.get(width::index(map)).and_then(Option::as_ref).is_none_or(|words| {
                    words.get((bit / 64) as usize).is_none_or(|word| word >> (bit % 64) & 1 != 0)
                })
            };
            Relics::sweep(log, &|address, len| {
                let start = address.saturating_sub(self.sb.log_start);
                (start..start.saturating_add(len)).all(is_used)
            })
        })
    }

    pub(crate) fn touch(&self, inode: u32) {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner).insert(inode);
    }
}

/// What opening may take on trust.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trust {
    /// Nothing.
    None,
    /// That a block of inodes holds what the IFILE says, which the scan sees when it reads the block.
    InodeBlocks,
}

/// Opens the file system on a device.
pub(crate) fn open(
    device: &dyn Device,
    (wanted, is_repair): (SuperblockOptions, bool),
    trust: Trust,
    findings: &mut Findings,
) -> Result<Layout, Refusal> {
    let (used_place, sb) = superblock::settle(device, wanted, is_repair, findings)?;
    let log = Log { device, sb: &sb };
    let Found { anchor, chain, has_gap, is_clean } = chain(&log, findings)?;
    let Some(last) = chain.last().map(|segment| segment.summary.clone()) else {
        return Err(nothing_left(&log));
    };
    let is_checkpoint = |segment: &Segment| segment.summary.flags.contains(SummaryFlags::CHECKPOINT);
    let start = chain.iter().rposition(is_checkpoint);
    let named = (last.checkpoint, last.checkpoint_address);
    let is_right =
        start.is_some_and(|start| named == (chain[start].summary.ssn, chain[start].summary.address));
    if !is_right && !has_gap {
        findings.raise(Problem::new(&rows::CHECKPOINT).stored(last.checkpoint));
    }
    let chain = start.map_or_else(Vec::new, |start| chain[start..].to_vec());
    let mut state = State {
        used_place,
        has_gap: has_gap || chain.is_empty(),
        chain,
        is_clean,
        anchor,
        blocks: Vec::new(),
        bfile: BTreeMap::new(),
        replaced: Vec::new(),
        fixed: Vec::new(),
        inode_shift: sb.inodes_per_block().ilog2(),
        seed: seed(&sb.uuid),
        trust,
        borne_out: Vec::new(),
        facts: Facts::new(0),
        relics: OnceLock::new(),
        scanned: OnceLock::new(),
        unproven: Mutex::default(),
        contradicted: Mutex::default(),
        shared_maps: SharedMapInodes::default(),
        next_in_use: AtomicBool::new(false),
        touched: Mutex::default(),
        mended: Mutex::default(),
        last,
        sb: Arc::clone(&sb),
    };
    read_bfile(&mut state, &log, findings);
    read_ifile(&mut state, &log, findings);
    claim_fixed(&mut state);
    Ok(Arc::new(state))
}

fn nothing_left(log: &Log<'_>) -> Refusal {
    let hint = match log.sb.log_device() {
        Some(_) => {
            "Check that -j gives the device with its log; otherwise restore the file system from a backup"
        }
        None => "Restore the file system from a backup",
    };
    Refusal {
        code: "no-segment",
        message: "No usable segment was found in the log".to_owned(),
        hint: hint.to_owned(),
    }
}

struct Found {
    /// The number of the best anchor.
    anchor: u64,
    chain: Vec<Segment>,
    has_gap: bool,
    is_clean: bool,
}

/// Finds the segments from where recovery begins to the last one that counts.
fn chain(log: &Log<'_>, findings: &mut Findings) -> Result<Found, Refusal> {
    let anchors = superblock::anchors(log);
    let number = anchors.first().map_or(0, |anchor| anchor.number);
    let start = anchors.iter().find_map(|anchor| Some((*anchor, superblock::segment_of(log, anchor)?)));
    let Some((anchor, first)) = start else { return searched(log, number, findings) };
    superblock::check_anchors(log, &anchors[0], findings);
    let mut chain = vec![first];
    while let Some(last) = chain.last().filter(|_| chain.len() < CHAIN_MAX) {
        let Some(next) = log.segment(last.summary.next).filter(|next| follows(last, next)) else { break };
        chain.push(next);
    }
    let is_clean = anchor.number == number && anchor.flags.contains(AnchorFlags::CLEAN) && chain.len() == 1;
    let mut has_gap = false;
    if !is_clean {
        has_gap = jump(log, &mut chain, findings);
    }
    // A newer anchor than the one that is used proves a segment that is not on the way.
    let proven = anchors.iter().map(|anchor| anchor.ssn).max().unwrap_or(0);
    if !has_gap && chain.last().is_some_and(|last| last.summary.ssn < proven) {
        return searched(log, number, findings);
    }
    settle_end(log, &mut chain, (&anchor, proven), findings);
    Ok(Found { anchor: number, chain, has_gap, is_clean })
}

fn follows(last: &Segment, next: &Segment) -> bool {
    next.summary.ssn == last.summary.ssn.wrapping_add(1)
        && next.summary.previous == last.summary.address
        && next.summary.previous_crc == last.crc
}

/// Looks for segments behind the end of the chain, and goes on with the newest one that is whole.
fn jump(log: &Log<'_>, chain: &mut Vec<Segment>, findings: &mut Findings) -> bool {
    let Some(end) = chain.last().map(|last| last.summary.ssn) else { return false };
    let later: Vec<(u64, u64)> = log.summaries().into_iter().filter(|(ssn, _)| *ssn > end).collect();
    let newest = later.iter().rev().find_map(|(_, address)| {
        let segment = log.segment(*address).filter(|segment| segment.summary.ssn < 1 << 60)?;
        // The one right behind would follow if its body were whole, and the summary before it the right one.
        (segment.summary.ssn > end + 1 && log.is_whole(&segment)).then_some(segment)
    });
    let Some(newest) = newest else { return false };
    let observed = newest.summary.ssn;
    findings.raise(Problem::new(&rows::GAP).stored(end + 1).observed(observed));
    *chain = backwards(log, newest);
    true
}

/// A segment, and those before it as far as they can be read.
fn backwards(log: &Log<'_>, last: Segment) -> Vec<Segment> {
    let mut chain = vec![last];
    while let Some(first) = chain.last().filter(|_| chain.len() < CHAIN_MAX) {
        if first.summary.ssn <= first.summary.checkpoint {
            break;
        }
        let before = log.segment(first.summary.previous);
        let Some(before) = before.filter(|before| follows(before, first)) else { break };
        chain.push(before);
    }
    chain.reverse();
    chain
}

/// No anchor can be used: the newest whole segment is looked for.
fn searched(log: &Log<'_>, number: u64, findings: &mut Findings) -> Result<Found, Refusal> {
    let summaries = log.summaries();
    let mut readable =
        summaries.iter().rev().filter_map(|(_, address)| log.segment(*address)).take(CHAIN_MAX);
    let mut newest: Option<Segment> = None;
    let whole = readable.by_ref().find(|segment| {
        newest.get_or_insert_with(|| segment.clone());
        log.is_whole(segment)
    });
    let Some(last) = whole.or(newest).filter(|last| last.summary.ssn < 1 << 60) else {
        return Err(nothing_left(log));
    };
    findings.raise(Problem::new(&rows::NO_ANCHOR).observed(last.summary.ssn));
    let chain = backwards(log, last);
    let is_complete = chain
        .first()
        .zip(chain.last())
        .is_some_and(|(first, last)| first.summary.ssn <= last.summary.checkpoint);
    Ok(Found { anchor: number, chain, has_gap: !is_complete, is_clean: false })
}

/// The last segment may be torn, the one before cannot be: it was durable before that one was begun.
fn settle_end(
    log: &Log<'_>,
    chain: &mut Vec<Segment>,
    (anchor, proven): (&Anchor, u64),
    findings: &mut Findings,
) {
    let Some(last) = chain.last() else { return };
    if log.is_whole(last) {
        return;
    }
    let ssn = last.summary.ssn;
    if ssn > proven && ssn > anchor.ssn && chain.len() > 1 {
        chain.pop();
        findings.raise(Problem::new(&rows::TORN).stored(ssn));
        if chain.last().is_none_or(|last| log.is_whole(last)) {
            return;
        }
    }
    let ssn = chain.last().map_or(0, |last| last.summary.ssn);
    findings.raise(Problem::new(&rows::BODY).stored(ssn));
}

fn read_bfile(state: &mut State, log: &Log<'_>, findings: &mut Findings) {
    let Walked { leaves, nodes, flaws, .. } = walk(log, BFILE, &state.last.bfile);
    for flaw in flaws {
        findings.raise(match flaw {
            Flaw::Node { record, fault, .. } => {
                about(&rows::BFILE_NODE, record.place).detail("why", fault.to_string())
            }
            Flaw::Sum { place, stored, observed } => {
                about(&rows::BFILE_SUM, place).stored(stored).observed(observed)
            }
        });
    }
    let known = |key: u64| match key.checked_sub(DATA_BITMAPS) {
        None => key < log.sb.log_bitmaps(),
        Some(group) => group < log.sb.ags(),
    };
    state.bfile = leaves
        .into_iter()
        .map(|(record, _)| (record.key, record))
        .filter(|(key, record)| known(*key) && log.has(record.place))
        .collect();
    state.replaced.extend(nodes.into_iter().map(|place| run_of(place, 1)));
    // Only a bitmap that proves itself takes its place.
    let own = state.bfile.values().filter(|record| bitmap(log, record).is_ok());
    let own: Vec<Run> = own.map(|record| run_of(record.place, 1)).collect();
    state.replaced.extend(own);
}

/// The bits of a bitmap.
pub(crate) fn bitmap(log: &Log<'_>, record: &Record) -> Result<Vec<u8>, crate::log::Fault> {
    let expected = Expected {
        kind: Kind::Bitmap,
        level: 0,
        owner: OWNER_BFILE,
        generation: 0,
        key: record.key,
        birth: record.birth,
    };
    let (_, bytes) = log.headed(record.place, &expected)?;
    Ok(bytes.get(HEADER_LEN..).unwrap_or_default().to_vec())
}

fn about(row: &'static fsmend_engine::Row, place: Place) -> Problem {
    Problem::new(row).blocks(BlockNo(place.address), u64::from(place.len))
}

fn read_ifile(state: &mut State, log: &Log<'_>, findings: &mut Findings) {
    let per_block = u64::from(log.sb.inodes_per_block());
    let limit = log.sb.inodes.div_ceil(per_block);
    // As many blocks as the inodes fill, if the log has room for them.
    let room = log.sb.log_fragments / log.sb.inode_block_fragments().max(1);
    let expected = state.last.totals.inodes.div_ceil(per_block).min(limit).min(room);
    let mut blocks: Vec<InodeBlock> = Vec::with_capacity(width::index(expected));
    let Walked { nodes, flaws, .. } = visit(log, IFILE, &state.last.ifile, &mut |record, _| {
        if record.key >= limit {
            return;
        }
        let why = judge_block(log, &record, state.trust);
        let aux = possible_bits(log.sb, record.aux);
        let has_more = aux != record.aux;
        if has_more {
            findings.raise(about(&rows::IFILE_SUM, record.place).stored(record.aux).observed(aux));
        }
        let record = Record { aux, ..record };
        let mut block = InodeBlock { record, is_salvaged: has_more };
        if let Some(why) = why {
            let found = state.relics(log).inode_blocks(log, record.key, record.key + 1).pop();
            let problem = about(&rows::INODE_BLOCK, record.place).stored(record.key).detail("why", why);
            findings.raise(match &found {
                Some(found) => problem.detail("found", format!("a copy is at {}", found.place.address)),
                None => problem,
            });
            let Some(found) = found else { return };
            block = InodeBlock { record: Record { aux: record.aux, ..found }, is_salvaged: true };
        }
        blocks.push(block);
    });
    for flaw in flaws {
        match flaw {
            Flaw::Node { record, end, fault } => {
                let found = state.relics(log).inode_blocks(log, record.key, end.min(limit));
                let problem = about(&rows::IFILE_NODE, record.place).detail("why", fault.to_string());
                findings.raise(problem.observed(found.len() as u64));
                blocks.extend(found.into_iter().map(|record| {
                    let record = Record { aux: bits_of(log, &record), ..record };
                    InodeBlock { record, is_salvaged: true }
                }));
            }
            Flaw::Sum { place, stored, observed } => {
                findings.raise(about(&rows::IFILE_SUM, place).stored(stored).observed(observed));
            }
        }
    }
    state.replaced.extend(nodes.into_iter().map(|place| run_of(place, 1)));
    // The records of a map are in order; what was found of one that is lost comes last, and those that stand in the map count.
    blocks.sort_by_key(|block| block.record.key);
    blocks.dedup_by_key(|block| block.record.key);
    state.blocks = blocks;
    state.borne_out.resize_with(state.blocks.len(), AtomicBool::default);
    let inodes = state.blocks.len() * state.sb.inodes_per_block() as usize;
    state.facts = Facts::new(inodes);
}

/// The bits that can be: of inodes that the block has, and of orphans that are in use.
fn possible_bits(sb: &Superblock, aux: u64) -> u64 {
    let live = aux & u64::from(u32::MAX) & ((1 << sb.inodes_per_block()) - 1);
    live | (aux >> 32 & live) << 32
}

/// Why a place cannot be that of a block of inodes: none of those that should be in it is, unless that is taken on trust.
fn judge_block(log: &Log<'_>, record: &Record, trust: Trust) -> Option<String> {
    if u64::from(record.place.len) != log.sb.inode_block_fragments() {
        return Some("its length is wrong".to_owned());
    }
    if !log.has(record.place) {
        return Some("its place is not in the log".to_owned());
    }
    if trust == Trust::InodeBlocks {
        return None;
    }
    // Where a sector cannot be read, the others can.
    let mut bytes = vec![0xFF; log.sb.inodes_per_block() as usize * INODE_LEN];
    if log.device.read_at(log.offset(record.place.address), &mut bytes).is_err() {
        for (at, bytes) in bytes.chunks_exact_mut(INODE_LEN).enumerate() {
            let offset = log.offset(record.place.address) + (at * INODE_LEN) as u64;
            if log.device.read_at(offset, bytes).is_err() {
                bytes.fill(0xFF);
            }
        }
    }
    let first = record.key * u64::from(log.sb.inodes_per_block());
    let is_there = |(at, bytes): (usize, &[u8])| {
        bytes.iter().all(|byte| *byte == 0) || Inode::parse(bytes, first + at as u64, &log.sb.uuid).is_ok()
    };
    let any = bytes.chunks_exact(INODE_LEN).enumerate().any(is_there);
    (!any).then(|| "it holds something else".to_owned())
}

/// The bits of the inodes in a block, by what they say of themselves.
fn bits_of(log: &Log<'_>, record: &Record) -> u64 {
    let first = record.key * u64::from(log.sb.inodes_per_block());
    let bytes = log.object(record.place).unwrap_or_default();
    let mut bits = 0;
    for (at, bytes) in bytes.chunks_exact(INODE_LEN).take(32).enumerate() {
        if let Ok(inode) = Inode::parse(bytes, first + at as u64, &log.sb.uuid) {
            bits |= 1 << at | u64::from(inode.links == 0) << (32 + at);
        }
    }
    bits
}

/// Notes everything that no inode owns.
fn claim_fixed(state: &mut State) {
    let sb = &state.sb;
    let per_block = sb.per_block();
    let own = state.chain.iter().flat_map(|segment| {
        std::iter::once(segment.summary.address).chain(segment.continuations.iter().copied())
    });
    let own = own.map(|address| Run { address, len: per_block }).collect::<Vec<_>>();
    state.replaced.extend(own);
    let end = sb.data_end();
    let mut fixed =
        vec![(0, sb.data_start()), (sb.log_start, sb.log_head()), (end, sb.fragments.saturating_sub(end))];
    fixed.extend(state.replaced.iter().map(|run| (run.address, run.len)));
    // Blocks of inodes lie in long rows.
    for block in &state.blocks {
        let (start, len) = (block.record.place.address, u64::from(block.record.place.len));
        match fixed.last_mut() {
            Some((first, count)) if first.checked_add(*count) == Some(start) => *count += len,
            _ => fixed.push((start, len)),
        }
    }
    fixed.sort();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, len) in fixed {
        match joined.last_mut() {
            Some((first, count)) if *first + *count >= start => {
                *count = (*count).max(start.saturating_add(len).saturating_sub(*first));
            }
            _ => joined.push((start, len)),
        }
    }
    state.fixed = joined;
}
