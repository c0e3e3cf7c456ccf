// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bitmaps, as the last checkpoint has them and segments since then changed them, against what is in use.

use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{BlockNo, GroupNo, width};
use fsmend_engine::crosscheck::allocation::{
    AllocationMaps, Count, Difference, InUse, Observed, ReadMaps, Sum, Words,
};
use fsmend_engine::{Findings, Problem, Row};
use fsmend_hybridfs_format::{DATA_BITMAPS, Run, Superblock};

use crate::log::Log;
use crate::opening::{State, bitmap};
use crate::{HybridFs, rows};

/// Kinds of counts.
const FREE: usize = 0;
const LOG: usize = 1;
const DATA: usize = 2;
const INODES: usize = 3;
const DIRECTORIES: usize = 4;

/// What a map is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Area {
    /// A bitmap of the log.
    Log(u64),
    /// The bitmap of an allocation group.
    Data(u64),
    /// Not a map: what is counted of inodes.
    Inodes,
}

impl Area {
    fn of(sb: &Superblock, area: u32) -> Area {
        let area = u64::from(area);
        match area.checked_sub(sb.log_bitmaps()) {
            None => Area::Log(area),
            Some(group) if group < sb.ags() => Area::Data(group),
            Some(_) => Area::Inodes,
        }
    }

    /// Its key in the BFILE.
    pub fn key(self) -> u64 {
        match self {
            Area::Log(map) => map,
            Area::Data(group) => DATA_BITMAPS + group,
            Area::Inodes => u64::MAX,
        }
    }

    /// The first unit, and how many.
    pub fn units(self, sb: &Superblock) -> (u64, u64) {
        let (number, each, all) = match self {
            Area::Log(map) => (map, sb.bitmap_units(), sb.log_fragments),
            Area::Data(group) => (group, u64::from(sb.ag_blocks), sb.data_blocks()),
            Area::Inodes => (0, 0, 0),
        };
        let start = number.saturating_mul(each);
        (start, each.min(all.saturating_sub(start)))
    }

    /// Which of its units a run covers: from the first to before the last.
    pub fn covered(self, sb: &Superblock, run: Run) -> Option<(u64, u64)> {
        let (start, count) = self.units(sb);
        let (first, len) = match (self, sb.data_index(run.address)) {
            (Area::Data(_), Some(first)) => (first, run.len.div_ceil(sb.per_block())),
            (Area::Log(_), None) => (run.address.checked_sub(sb.log_start)?, run.len),
            _ => return None,
        };
        let (from, until) = (first.max(start), first.saturating_add(len).min(start + count));
        (from < until).then(|| (from - start, until - start))
    }
}

/// Marks units in words.
pub(crate) fn mark(words: &mut [u64], (from, until): (u64, u64), is_used: bool) {
    for at in from..until {
        let Some(word) = words.get_mut((at / 64) as usize) else { break };
        *word = if is_used { *word | 1 << (at % 64) } else { *word & !(1 << (at % 64)) };
    }
}

fn words_of(bytes: &[u8], units: u64) -> Vec<u64> {
    let mut words: Vec<u64> = bytes
        .chunks(8)
        .take(width::index(units.div_ceil(64)))
        .map(|chunk| {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(eight)
        })
        .collect();
    if let Some(last) = words.last_mut().filter(|_| !units.is_multiple_of(64)) {
        *last &= (1 << (units % 64)) - 1;
    }
    words
}

/// The bits of a bitmap as they are on the disk.
pub(crate) fn bits_on_disk(state: &State, log: &Log<'_>, area: Area) -> Result<Vec<u64>, String> {
    let record = state.bfile.get(&area.key()).ok_or("the BFILE has no record of it")?;
    let bytes = bitmap(log, record).map_err(|fault| fault.to_string())?;
    Ok(words_of(&bytes, area.units(log.sb).1))
}

/// The bits of a bitmap with what segments since the checkpoint have taken and given back.
pub(crate) fn stored_words(state: &State, log: &Log<'_>, area: Area) -> Result<Vec<u64>, String> {
    let sb = log.sb;
    let mut words = bits_on_disk(state, log, area)?;
    let per_block = sb.per_block();
    for segment in state.chain.iter().skip(1) {
        let stream = &segment.stream;
        for run in stream.freed.iter().filter_map(|run| area.covered(sb, *run)) {
            mark(&mut words, run, false);
        }
        let rows = stream.rows.iter().map(|row| Run { address: row.address, len: u64::from(row.len) });
        let own = segment.continuations.iter().copied();
        let own = own.chain([segment.summary.address, segment.summary.next]);
        let own = own.map(|address| Run { address, len: per_block });
        for run in rows.chain(stream.data.iter().copied()).chain(own) {
            if let Some(run) = area.covered(sb, run) {
                mark(&mut words, run, true);
            }
        }
    }
    Ok(words)
}

fn clear_bits(words: &[u64], units: u64) -> u64 {
    units.saturating_sub(words.iter().map(|word| u64::from(word.count_ones())).sum())
}

impl HybridFs<'_> {
    fn next_run(&self) -> Run {
        Run { address: self.state.last.next, len: self.sb().per_block() }
    }

    /// Whether the place reserved for the next summary is one.
    fn next_is_placed(&self) -> bool {
        let (log, run) = (self.sb().log(), self.next_run());
        run.address >= log.start
            && run.address.checked_add(run.len).is_some_and(|end| end <= log.end)
            && run.address.is_multiple_of(run.len)
    }

    fn used_units(&self, area: Area, in_use: InUse<'_>) -> Words {
        let sb = self.sb();
        let (start, count) = area.units(sb);
        let Area::Data(_) = area else { return in_use.units(sb.log_start + start, count) };
        let mut used = Words::new(count);
        let per_block = sb.per_block();
        used.fill(|at| {
            let blocks = start + at..start + (at + 64).min(count);
            let claimed = in_use.claims.claimed();
            // Most of 64 blocks lie side by side.
            let first = sb.data_address(blocks.start);
            let is_plain =
                sb.data_address(blocks.end - 1) == first + (blocks.end - 1 - blocks.start) * per_block;
            if is_plain && !claimed.any(first, (blocks.end - blocks.start) * per_block) {
                return 0;
            }
            blocks.enumerate().fold(0, |word, (bit, block)| {
                word | u64::from(claimed.any(sb.data_address(block), per_block)) << bit
            })
        });
        used
    }
}

impl AllocationMaps for HybridFs<'_> {
    fn areas(&self) -> u32 {
        let areas = self.sb().log_bitmaps() + self.sb().ags() + 1;
        u32::try_from(areas).unwrap_or(u32::MAX)
    }

    fn maps(&self) -> usize {
        1
    }

    fn count_kinds(&self) -> usize {
        5
    }

    fn observed(&self, area: u32, _map: usize, in_use: InUse<'_>) -> Observed {
        let area = Area::of(self.sb(), area);
        if area == Area::Inodes {
            let (used, directories) = in_use.inodes.used();
            return Observed { used: Words::new(used), directories };
        }
        let mut used = self.used_units(area, in_use);
        if let Some((from, until)) =
            area.covered(self.sb(), self.next_run()).filter(|_| self.next_is_placed())
        {
            let run = self.next_run();
            if in_use.claims.claimed().any(run.address, run.len) {
                self.state.next_in_use.store(true, Relaxed);
            }
            (from..until).for_each(|bit| used.set(bit));
        }
        Observed { used, directories: 0 }
    }

    fn stored(
        &self,
        number: u32,
        _map: usize,
        (observed, _): (&Observed, &mut ReadMaps),
        findings: &mut Findings,
    ) -> Option<Words> {
        let area = Area::of(self.sb(), number);
        let covers_next = area.covered(self.sb(), self.next_run()).is_some();
        let is_wrong = match self.next_is_placed() {
            true => covers_next && self.state.next_in_use.load(Relaxed),
            false => area == Area::Log(0),
        };
        if is_wrong {
            let run = self.next_run();
            findings.raise(Problem::new(&rows::NEXT).blocks(BlockNo(run.address), run.len));
        }
        if area == Area::Inodes || self.state.has_gap {
            return None;
        }
        match stored_words(&self.state, &self.log(), area) {
            Ok(words) => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                Some(Words::from_bytes(&bytes, observed.used.len()))
            }
            Err(why) => {
                findings.raise(self.at_area(&rows::BITMAP, number).detail("why", why));
                None
            }
        }
    }

    fn counts(&self, area: u32, _map: usize, observed: &Observed, count: &mut dyn FnMut(Count)) {
        let area = Area::of(self.sb(), area);
        let mut note =
            |kind: usize, row, stored: u64, observed: u64| count(Count { kind, row, stored, observed });
        let used = observed.used.count();
        match area {
            Area::Log(_) => note(LOG, &rows::TOTALS, used, used),
            Area::Data(_) => {
                note(DATA, &rows::TOTALS, used, used);
                let units = area.units(self.sb()).1;
                // The count is that of the bits at the last checkpoint.
                if let Some(record) = self.state.bfile.get(&area.key())
                    && let Ok(words) = bits_on_disk(&self.state, &self.log(), area)
                {
                    note(FREE, &rows::FREE_COUNT, record.aux, clear_bits(&words, units));
                }
            }
            Area::Inodes => {
                let inodes = observed.used.len();
                note(INODES, &rows::TOTALS, inodes, inodes);
                note(DIRECTORIES, &rows::TOTALS, observed.directories, observed.directories);
            }
        }
    }

    fn difference(
        &self,
        area: u32,
        _map: usize,
        difference: Difference,
        (first, count): (u64, u64),
    ) -> Problem {
        let sb = self.sb();
        let area = Area::of(sb, area);
        let unit = area.units(sb).0 + first;
        let (address, len) = match area {
            Area::Data(_) => (sb.data_address(unit), count * sb.per_block()),
            _ => (sb.log_start + unit, count),
        };
        let row = match difference {
            Difference::MarkedButFree => &rows::MARKED,
            Difference::UsedButFree => &rows::NOT_MARKED,
        };
        Problem::new(row).blocks(BlockNo(address), len)
    }

    fn at_area(&self, row: &'static Row, area: u32) -> Problem {
        Problem::new(row).group(GroupNo(area))
    }
}

/// Compares the totals in the last summary with the sums over everything.
pub(crate) fn check_totals(fs: &HybridFs<'_>, sums: &[Sum], orphans: (u64, u64), findings: &mut Findings) {
    let sum = |kind: usize| sums.get(kind).map_or(0, |sum| sum.observed);
    let sb = fs.sb();
    let own: u64 = fs.state.chain.iter().map(|segment| 1 + segment.continuations.len() as u64).sum();
    let next = u64::from(fs.next_is_placed());
    let log = sum(LOG).saturating_sub(sb.log_head() + (own + next) * sb.per_block());
    let totals = fs.state.last.totals;
    for (what, stored, observed) in [
        ("fragments of the log", totals.log, log),
        ("data blocks", totals.data, sum(DATA)),
        ("inodes", totals.inodes, sum(INODES)),
        ("orphans", totals.orphans, orphans.0),
        ("directories", totals.directories, sum(DIRECTORIES) + orphans.1),
    ] {
        // Where segments are missing, their summaries are not counted either.
        if stored != observed && !(fs.state.has_gap && what.starts_with("fragments")) {
            let problem = Problem::new(&rows::TOTALS).detail("what", what);
            findings.raise(problem.stored(stored).observed(observed));
        }
    }
}
