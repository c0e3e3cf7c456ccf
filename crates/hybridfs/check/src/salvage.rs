// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a sweep of the whole log finds: objects that can still prove whose they are, in use or not. Only damage makes it necessary.

use std::collections::BTreeMap;

use fsmend_hybridfs_format::{
    Entry, HEADER_LEN, Header, INODE_LEN, Inode, Kind, Place, Record, TIES, name_key, parse_attributes,
    parse_entries, parse_node,
};

use crate::log::Log;
use crate::map::Owner;

/// Older versions of one thing that are kept.
const VERSIONS: usize = 32;

/// Something found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relic {
    pub place: Place,
    pub birth: u64,
    /// The bitmaps say that something lies there.
    pub in_use: bool,
}

type Owned = (Kind, u64, u32);

/// All that was found.
#[derive(Default)]
pub(crate) struct Relics {
    /// Nodes right above leaves, directory blocks and attributes, by owner, newest first.
    objects: BTreeMap<(u8, u64, u32), Vec<Relic>>,
    /// Inodes by number: where, birth, whether in use; newest first.
    inodes: BTreeMap<u64, Vec<(u64, u64, bool)>>,
}

impl Relics {
    /// Sweeps the log. `is_used` says whether fragments are in use, as far as that is known.
    pub fn sweep(log: &Log<'_>, is_used: &dyn Fn(u64, u64) -> bool) -> Relics {
        let mut relics = Relics::default();
        let fragment = log.sb.fragment_size as usize;
        log.scan(&mut |(address, block)| {
            for (at, bytes) in block.chunks_exact(fragment).enumerate() {
                let here = address + at as u64;
                if bytes.starts_with(b"hyb1") {
                    relics.note_object(log, here, block.get(at * fragment..).unwrap_or_default(), is_used);
                }
                relics.note_inodes(log, here, bytes, is_used);
            }
        });
        for found in relics.objects.values_mut() {
            found.sort_by_key(|relic| (std::cmp::Reverse((relic.in_use, relic.birth)), relic.place));
        }
        for found in relics.inodes.values_mut() {
            found.sort_by_key(|(place, birth, in_use)| (std::cmp::Reverse((*in_use, *birth)), *place));
            found.truncate(VERSIONS);
        }
        relics
    }

    fn note_object(&mut self, log: &Log<'_>, address: u64, rest: &[u8], is_used: &dyn Fn(u64, u64) -> bool) {
        let fragment = log.sb.fragment_size as usize;
        // The header does not say how long the object is.
        let found = (1..=rest.len() / fragment).find_map(|len| {
            let header = Header::parse(rest.get(..len * fragment)?, &log.sb.uuid).ok()?;
            Some((header, u16::try_from(len).ok()?))
        });
        let Some((header, len)) = found.filter(|(header, _)| header.address == address) else { return };
        let is_wanted = match header.kind {
            Kind::Node => header.level == 1,
            Kind::Directory | Kind::Attributes => true,
            _ => false,
        };
        if is_wanted {
            let relic = Relic {
                place: Place { address, len },
                birth: header.birth,
                in_use: is_used(address, u64::from(len)),
            };
            let owned = (header.kind as u8, header.owner, header.generation);
            self.objects.entry(owned).or_default().push(relic);
        }
    }

    fn note_inodes(&mut self, log: &Log<'_>, address: u64, bytes: &[u8], is_used: &dyn Fn(u64, u64) -> bool) {
        for (at, bytes) in bytes.chunks_exact(INODE_LEN).enumerate() {
            let number = bytes.get(4..).and_then(|rest| rest.first_chunk()).copied().map(u64::from_le_bytes);
            let Some(number) = number.filter(|number| *number > 1 && *number < log.sb.inodes) else {
                continue;
            };
            if let Ok(inode) = Inode::parse(bytes, number, &log.sb.uuid) {
                let place = log.offset(address).saturating_add((at * INODE_LEN) as u64);
                self.inodes.entry(number).or_default().push((place, inode.birth, is_used(address, 1)));
            }
        }
    }

    fn owned(&self, (kind, owner, generation): Owned) -> &[Relic] {
        self.objects.get(&(kind as u8, owner, generation)).map_or(&[], Vec::as_slice)
    }

    /// The newest version of an inode that can be read.
    pub fn inode(&self, log: &Log<'_>, number: u64) -> Option<Inode> {
        self.inode_versions(log, number).next()
    }

    /// The versions of an inode that can be read: those in use first, and then the newest.
    pub fn inode_versions<'r>(&'r self, log: &'r Log<'_>, number: u64) -> impl Iterator<Item = Inode> + 'r {
        self.inodes.get(&number).into_iter().flatten().filter_map(move |(place, ..)| {
            let mut bytes = vec![0; INODE_LEN];
            log.device.read_at(*place, &mut bytes).ok()?;
            Inode::parse(&bytes, number, &log.sb.uuid).ok()
        })
    }

    /// The inode blocks with numbers from `first` to before `end` that are in use: the newest of each.
    pub fn inode_blocks(&self, log: &Log<'_>, first: u64, end: u64) -> Vec<Record> {
        let per_block = u64::from(log.sb.inodes_per_block());
        let fragment = u64::from(log.sb.fragment_size);
        if first >= end {
            return Vec::new();
        }
        let numbers = first.saturating_mul(per_block)..end.saturating_mul(per_block);
        let mut best: BTreeMap<u64, Record> = BTreeMap::new();
        for (number, versions) in self.inodes.range(numbers) {
            for (offset, birth, _) in versions.iter().filter(|(.., in_use)| *in_use) {
                let Some(start) = offset.checked_sub(number % per_block * INODE_LEN as u64) else { continue };
                let Ok(len) = u16::try_from(log.sb.inode_block_fragments()) else { continue };
                let place = Place { address: start / fragment, len };
                if start % fragment != 0 || !log.has(place) {
                    continue;
                }
                let record = Record { key: number / per_block, place, birth: *birth, aux: 0 };
                let best = best.entry(record.key).or_insert(record);
                if best.birth < *birth {
                    *best = record;
                }
            }
        }
        best.into_values().collect()
    }

    /// Extents of a file with keys from `first` to before `end`: what newer nodes say counts first. `is_plausible` is asked of those that only nodes know which are not in use.
    pub fn extents(
        &self,
        log: &Log<'_>,
        of: Owner,
        (first, end): (u64, u64),
        is_plausible: &dyn Fn(&Record) -> bool,
    ) -> Vec<Record> {
        let mut kept: BTreeMap<u64, Record> = BTreeMap::new();
        for relic in self.owned((Kind::Node, of.owner, of.generation)) {
            let Ok(bytes) = log.object(relic.place) else { continue };
            let Ok(header) = Header::parse(&bytes, &log.sb.uuid) else { continue };
            let Ok(records) = parse_node(&bytes, header.count) else { continue };
            for record in records.into_iter().filter(|record| (first..end).contains(&record.key)) {
                let behind = record.key.saturating_add(u64::from(record.place.len));
                let before = kept.range(..behind).next_back().map(|(_, before)| before);
                let is_free = before.is_none_or(|before| {
                    before.key.saturating_add(u64::from(before.place.len)) <= record.key
                }) && behind <= end;
                if is_free && (relic.in_use || is_plausible(&record)) {
                    kept.insert(record.key, record);
                }
            }
        }
        kept.into_values().collect()
    }

    /// Entries of a directory with keys from `first` to before `end`, and whether a block in use has each: what newer blocks say counts first.
    pub fn entries(&self, log: &Log<'_>, of: Owner, (first, end): (u64, u64)) -> Vec<(Entry, bool)> {
        let mut kept: BTreeMap<u64, (Entry, bool)> = BTreeMap::new();
        for relic in self.owned((Kind::Directory, of.owner, of.generation)) {
            let Ok(bytes) = log.object(relic.place) else { continue };
            let Ok(header) = Header::parse(&bytes, &log.sb.uuid) else { continue };
            let body = bytes.get(HEADER_LEN..).unwrap_or_default();
            let Ok(entries) = parse_entries(body, Some(header.count)) else { continue };
            for entry in entries.into_iter().filter(|entry| (first..end).contains(&entry.key)) {
                kept.entry(entry.key).or_insert((entry, relic.in_use));
            }
        }
        kept.into_values().collect()
    }

    /// The newest attributes of an inode.
    pub fn attributes(&self, log: &Log<'_>, of: Owner) -> Option<Vec<fsmend_hybridfs_format::Attribute>> {
        self.owned((Kind::Attributes, of.owner, of.generation)).iter().find_map(|relic| {
            let bytes = log.object(relic.place).ok()?;
            parse_attributes(bytes.get(HEADER_LEN..)?).ok()
        })
    }
}

/// Entries in bytes that are damaged: the key of each proves its name.
pub(crate) fn entries_in(hash_key: &[u8; 16], bytes: &[u8]) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let entry = bytes.get(at + 17).and_then(|len| {
            let end = at.checked_add(18)?.checked_add(usize::from(*len))?;
            // By itself each is in order.
            parse_entries(bytes.get(at..end)?, None).ok()?.pop()
        });
        match entry.filter(|entry| is_hash_of(hash_key, entry)) {
            Some(entry) => {
                at += entry.stored_len();
                found.push(entry);
            }
            None => at += 1,
        }
    }
    found
}

/// Whether the key of an entry is one of its name.
pub(crate) fn is_hash_of(hash_key: &[u8; 16], entry: &Entry) -> bool {
    entry.key / TIES * TIES == name_key(hash_key, &entry.name)
}
