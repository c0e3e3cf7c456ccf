// SPDX-License-Identifier: MIT OR Apache-2.0
//! A look at everything, for tests: until there is a checker, it says whether a mounted file system is sound.

use std::collections::{BTreeMap, HashMap};

use fsmend_base::width;
use fsmend_hybridfs_format::{Entry, Run};
use fsmend_vfs::{FileKind, InodeNo, Result};

use crate::fs::Hybrid;
use crate::tree::{Child, Slot, Tree};
use crate::volume::{Contents, Volume};

impl Hybrid {
    /// What is wrong, in words. Nothing may wait to be written, and it has to be mounted for writing.
    pub fn audit(&mut self) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        let volume = &mut self.volume;
        let mut claims: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        let mut claim = |wrong: &mut Vec<String>, run: Run, who: String| {
            let before = claims.range(..run.address + run.len).next_back();
            if let Some((start, (len, other))) = before
                && start + len > run.address
            {
                wrong.push(format!("{who} and {other} both have {run:?}"));
            }
            claims.insert(run.address, (run.len, who));
        };
        let place = |record: &fsmend_hybridfs_format::Record| Run {
            address: record.place.address,
            len: u64::from(record.place.len),
        };
        let (mut ifile, mut bfile) = (Vec::new(), Vec::new());
        volume.ifile.visit(&volume.io, &mut |level, record| ifile.push((level, *record)))?;
        volume.bfile.visit(&volume.io, &mut |level, record| bfile.push((level, *record)))?;
        for (_, record) in ifile.iter().chain(&bfile) {
            claim(&mut wrong, place(record), format!("IFILE or BFILE {}", record.key));
        }
        let per_block = u64::from(volume.io.sb.inodes_per_block());
        let (mut links, mut seen): (HashMap<u32, u32>, Vec<u32>) = Default::default();
        let (mut data, mut directories, mut orphans) = (0, 0, 0);
        let mut stored = HashMap::new();
        for (_, record) in ifile.iter().filter(|(level, _)| *level == 0) {
            for at in (0..per_block).filter(|at| record.aux >> at & 1 != 0) {
                let number = width::low_u32(record.key * per_block + at);
                let is_orphan = record.aux >> (32 + at) & 1 != 0;
                orphans += u64::from(is_orphan);
                seen.push(number);
                let facts = look(volume, number)?;
                for run in facts.log {
                    claim(&mut wrong, run, format!("inode {number}"));
                }
                for run in facts.data {
                    data += run.len / volume.io.sb.per_block();
                    if volume.io.sb.data_index(run.address).is_none() {
                        wrong.push(format!("inode {number} has data in the log: {run:?}"));
                    }
                    claim(&mut wrong, run, format!("data of inode {number}"));
                }
                for entry in facts.entries {
                    *links.entry(entry.inode).or_insert(0) += 1;
                    let is_right = stored_generation(volume, entry.inode) == Some(entry.generation);
                    if !is_right {
                        wrong.push(format!("the entry {:?} in {number} leads to another file", entry.name));
                    }
                    if u16::from(entry.kind) << 12 == FileKind::Directory.mode_bits() {
                        *links.entry(number).or_insert(0) += 1;
                    }
                }
                if facts.is_directory {
                    directories += 1;
                    *links.entry(number).or_insert(0) += 1;
                }
                if is_orphan != (facts.links == 0) {
                    wrong.push(format!("inode {number} has {} links, orphan: {is_orphan}", facts.links));
                }
                stored.insert(number, facts.links);
            }
        }
        *links.entry(fsmend_hybridfs_format::ROOT).or_insert(0) += 1;
        for (number, stored) in &stored {
            let observed = links.get(number).copied().unwrap_or(0);
            if observed != *stored && *stored != 0 {
                wrong.push(format!("inode {number} has {observed} links, not {stored}"));
            }
        }
        let totals = volume.space.totals;
        let log: u64 = claims
            .iter()
            .filter(|(at, _)| volume.io.sb.data_index(**at).is_none())
            .map(|(_, (len, _))| len)
            .sum();
        let observed = (log, data, seen.len() as u64, directories, orphans);
        let said = (totals.log, totals.data, totals.inodes, totals.directories, totals.orphans);
        if observed != said {
            wrong.push(format!("totals are {said:?}, and there is {observed:?}"));
        }
        let head = Run { address: volume.io.sb.log_start, len: volume.io.sb.log_head() };
        let per_block = volume.io.sb.per_block();
        let next = Run { address: volume.last.next, len: per_block };
        for run in volume.summaries.iter().flat_map(|(_, runs)| runs.iter().copied()).chain([head, next]) {
            let before = claims.range(..run.address + run.len).next_back();
            if let Some((start, (len, other))) = before
                && start + len > run.address
            {
                wrong.push(format!("a summary and {other} both have {run:?}"));
            }
            claims.insert(run.address, (run.len, "a summary".to_owned()));
        }
        compare(volume, &claims, &mut wrong);
        Ok(wrong)
    }
}

fn compare(volume: &Volume, claims: &BTreeMap<u64, (u64, String)>, wrong: &mut Vec<String>) {
    let sb = &volume.io.sb;
    let mut log = vec![false; width::index(sb.log_fragments)];
    let mut data = vec![false; width::index(sb.data_blocks())];
    let pending =
        volume.space.pending.iter().flat_map(|(_, runs)| runs.iter().map(|run| (run.address, run.len)));
    for (address, len) in claims.iter().map(|(at, (len, _))| (*at, *len)).chain(pending) {
        match sb.data_index(address) {
            Some(first) => data[width::index(first)..][..width::index(len / sb.per_block())].fill(true),
            None => log[width::index(address - sb.log_start)..][..width::index(len)].fill(true),
        }
    }
    let words = volume.space.log_words();
    let bit = |words: &[u64], at: usize| words.get(at / 64).is_none_or(|word| word >> (at % 64) & 1 != 0);
    for (name, claimed, words) in
        [("log", &log, words.as_slice()), ("data", &data, volume.space.data.words())]
    {
        let differ: Vec<usize> = (0..claimed.len()).filter(|at| claimed[*at] != bit(words, *at)).collect();
        if let Some(first) = differ.first() {
            wrong.push(format!(
                "{} units of the {name} differ from the bitmap, the first is {first}, claimed: {}",
                differ.len(),
                claimed[*first]
            ));
        }
    }
}

#[derive(Default)]
struct Facts {
    log: Vec<Run>,
    data: Vec<Run>,
    entries: Vec<Entry>,
    is_directory: bool,
    links: u32,
}

fn stored_generation(volume: &mut Volume, number: u32) -> Option<u32> {
    volume.with(InodeNo(number), |_, live| Ok(live.disk.generation)).ok()
}

fn look(volume: &mut Volume, number: u32) -> Result<Facts> {
    volume.with(InodeNo(number), |volume, live| {
        let mut facts =
            Facts { links: live.disk.links, is_directory: live.is_directory(), ..Facts::default() };
        let io = &volume.io;
        let run = |record: &fsmend_hybridfs_format::Record, unit: u64| Run {
            address: record.place.address,
            len: u64::from(record.place.len) * unit,
        };
        facts.log.extend(live.attributes_at.iter().map(|record| run(record, 1)));
        match &mut live.contents {
            Contents::Nothing => {}
            Contents::Small { at, .. } => {
                facts.log.extend(at.iter().map(|record| run(record, 1)));
                if facts.links > 0 {
                    volume.small(live)?;
                }
            }
            Contents::Extents { map, .. } => map.visit(io, &mut |level, record| match level {
                0 => facts.data.push(run(record, io.sb.per_block())),
                _ => facts.log.push(run(record, 1)),
            })?,
            Contents::Directory(tree) => {
                tree.visit(io, &mut |_, record| {
                    if record.place.address != 0 {
                        facts.log.push(run(record, 1));
                    }
                })?;
                let mut key = 0;
                while let Some(record) = tree.next(io, key)? {
                    let entries = entries_at(tree, io, record.key)?;
                    facts.entries.extend(entries);
                    key = record.key + 1;
                }
            }
        }
        Ok(facts)
    })
}

fn entries_at(tree: &mut Tree, io: &crate::io::Io, key: u64) -> Result<Vec<Entry>> {
    let loader =
        Tree::new(crate::tree::Leaves::Directories, tree.owner(), tree.generation(), Default::default());
    tree.look(io, key, |slots: &mut Vec<Slot>| {
        let at = crate::tree::floor(slots, key);
        let Some(slot) = slots.get_mut(at) else { return Ok(Vec::new()) };
        loader.entries(io, slot)?;
        Ok(match &slot.child {
            Child::Entries(entries) => entries.clone(),
            _ => Vec::new(),
        })
    })
}
