// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that something without a name had: deleted entries, which stay where they were until their room is used again, and directories that were lost, whose blocks nothing
//! claims any more.

use std::collections::BTreeSet;

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::Witness;
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::InodeTable;
use fsmend_engine::names::traces::{Trace, Traces};
use fsmend_ufs_format::ByteOrder;
use fsmend_ufs_format::directory::{CHUNK, Entries, HEADER, entry, needed};

use crate::UfsFs;
use crate::directory::kind_of;

/// Bytes that nothing claims are read so far, in groups of the inodes that are looked for.
const SEARCHED_MAX: u64 = 1 << 30;

/// A search.
struct Search<'s, 'd> {
    fs: &'s UfsFs<'d>,
    wanted: &'s BTreeSet<InodeNo>,
    inodes: &'s InodeTable,
    traces: Traces,
}

/// Where inodes are still named.
pub(crate) fn traces(
    fs: &UfsFs<'_>,
    wanted: &BTreeSet<InodeNo>,
    (inodes, claims): (&InodeTable, &Claims),
) -> Traces {
    let mut search = Search { fs, wanted, inodes, traces: Traces::default() };
    for holder in inodes.directories().iter().map(|fact| InodeNo(fact.inode)) {
        fs.each_chunk(holder, |place, chunk| {
            if let Some(chunk) = chunk {
                search.chunk((place, chunk), Some(holder), true);
            }
            true
        });
    }
    search.unclaimed(claims);
    search.traces
}

impl Search<'_, '_> {
    /// Looks through what nothing claims in the groups of the inodes, block by block. The files of a directory are put in its own group.
    fn unclaimed(&mut self, claims: &Claims) {
        let geometry = self.fs.geometry();
        let groups: BTreeSet<u32> = self.wanted.iter().map(|inode| geometry.inode_group(inode.0).0).collect();
        let mut left = SEARCHED_MAX;
        for group in groups.into_iter().filter(|group| *group < geometry.groups) {
            let start = geometry.group_start(group);
            let end = start + geometry.group_length(group);
            for block in (start..end).step_by(width::index(geometry.fragments)) {
                let count = geometry.fragments.min(end - block);
                if (block..block + count).all(|fragment| claims.claimed().get(fragment)) {
                    continue;
                }
                let len = count * geometry.fragment_size;
                if left < len {
                    return;
                }
                left -= len;
                if let Some(bytes) = self.fs.read(block, width::index(len)) {
                    self.block((block, &bytes), claims);
                }
            }
        }
    }

    /// Looks through a block: the directory that its first chunks tell holds those behind them, too.
    fn block(&mut self, (block, bytes): (u64, &[u8]), claims: &Claims) {
        let geometry = self.fs.geometry();
        let mut holder = None;
        let fragments = bytes.chunks(width::index(geometry.fragment_size));
        for (fragment, bytes) in (block..).zip(fragments) {
            if claims.claimed().get(fragment) {
                holder = None;
                continue;
            }
            for (chunk, at) in bytes.as_chunks::<CHUNK>().0.iter().zip((0..).step_by(CHUNK)) {
                holder = owner(chunk, geometry.order).or(holder);
                let is_directory = Entries::new(chunk, geometry.order).all(|entry| entry.is_ok());
                match is_directory && chunk.iter().any(|byte| *byte != 0) {
                    true => self.chunk((geometry.place(fragment) + at, chunk), holder, false),
                    false => holder = None,
                }
            }
        }
    }

    /// Takes up what a chunk says of the inodes. In a directory that `stands`, entries that count name none of them.
    fn chunk(&mut self, (place, chunk): (u64, &[u8]), holder: Option<InodeNo>, stands: bool) {
        let geometry = self.fs.geometry();
        let (mut counting, mut broken) = (BTreeSet::new(), CHUNK);
        for entry in Entries::new(chunk, geometry.order) {
            match entry {
                Ok(entry) => {
                    counting.insert(entry.offset);
                }
                Err(error) => broken = error.offset,
            }
        }
        for at in (0..chunk.len().saturating_sub(HEADER)).step_by(4) {
            let inode = InodeNo(geometry.order.u32(chunk, at));
            if !self.wanted.contains(&inode) {
                continue;
            }
            let Some((kind, name)) = mention(chunk, at, geometry.order) else { continue };
            if kind_of(kind) != self.inodes.kind(inode) {
                continue;
            }
            let witness = match () {
                () if at >= broken => Witness::BrokenEntry,
                () if counting.contains(&at) => Witness::Entry,
                () => Witness::DeletedEntry,
            };
            if stands && holder == Some(inode) {
                continue;
            }
            let block = BlockNo(place / geometry.fragment_size);
            let trace = Trace {
                is_elsewhere: false,
                witness,
                is_placeless: holder.is_none(),
                holder,
                name: name.to_vec(),
                block: Some(block),
            };
            self.traces.add(inode, trace);
        }
    }
}

/// The directory whose first chunk this is.
fn owner(chunk: &[u8], order: ByteOrder) -> Option<InodeNo> {
    let first = entry(chunk, 0, order).filter(|first| first.name == b".")?;
    entry(chunk, first.length, order).filter(|second| second.name == b"..")?;
    Some(InodeNo(first.inode))
}

/// Type and name of what may be an entry at `at`, whatever its length.
fn mention(chunk: &[u8], at: usize, order: ByteOrder) -> Option<(u8, &[u8])> {
    let length = usize::from(*chunk.get(at + 7)?);
    let end = at.checked_add(needed(length))?;
    let mut copy = chunk.get(at..end)?.to_vec();
    let room = u16::try_from(copy.len()).ok()?;
    order.put_u16(&mut copy, 4, room);
    let read = entry(&copy, 0, order)?;
    let is_name = length > 0 && !matches!(read.name, b"." | b"..");
    is_name.then(|| (read.kind, &chunk[at + HEADER..at + HEADER + length]))
}
