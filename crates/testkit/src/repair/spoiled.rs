// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the reference itself destroyed. e2fsck takes a block that a broken pointer calls an indirect block for one, and clears the "wrong
//! pointers" in it before it finds out that another file's data lie there; the copies that it then makes are of what it has left. Whoever
//! keeps those bytes is not to blame that the reference has zeroes instead.

use std::collections::{BTreeMap, BTreeSet};

use super::bytes::Reader;
use super::tree::Tree;

/// Parts of files that lie, in the damaged image, in intact blocks of other files' data that the reference overwrote: by inode and place,
/// with what they hold.
#[derive(Debug, Default)]
pub struct Spoiled(BTreeMap<u32, BTreeMap<u64, u64>>);

impl Spoiled {
    /// Compares the image as it was, as it was damaged, and as the reference left it.
    pub fn of(sound: (&[u8], &Tree), damaged: &[u8], theirs: &[u8]) -> Spoiled {
        let Some((was, is)) = Reader::new(sound.0).zip(Reader::new(damaged)) else {
            return Spoiled::default();
        };
        let mut overwritten = BTreeSet::new();
        for inode in sound.1.paths.keys() {
            let Some(record) = was.inode(*inode).filter(|record| record.kind() == 0o100_000) else {
                continue;
            };
            for (_, bytes) in was.pieces(record) {
                let place = was.place_of(bytes);
                let [before, after] = [damaged, theirs].map(|image| image.get(place..place + bytes.len()));
                if before == Some(bytes) && after != Some(bytes) {
                    overwritten.insert(place);
                }
            }
        }
        if overwritten.is_empty() {
            return Spoiled::default();
        }
        let parts = |inode: &u32| {
            let record = is.inode(*inode)?;
            Some((*inode, is.parts_at(record, |bytes| overwritten.contains(&is.place_of(bytes)))))
        };
        Spoiled(sound.1.paths.keys().filter_map(parts).filter(|(_, parts)| !parts.is_empty()).collect())
    }

    /// What a part of an inode held in such a block.
    pub fn part(&self, inode: u32, place: u64) -> Option<u64> {
        self.0.get(&inode)?.get(&place).copied()
    }
}
