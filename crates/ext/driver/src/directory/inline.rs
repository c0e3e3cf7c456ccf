// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories that live in their inode.
//!
//! ```text
//! i_block   0 number of the parent   4 entries, 56 bytes        system.data   more entries
//! ```
//!
//! There are no entries for `.` and `..`. Each of the two areas is a chain of entries of its own. The second one begins when the first one is full, and takes all the room
//! that attributes leave; when that is full, everything moves to a block, in which entries stand in the same order and 20 bytes further
//! behind: so cookies that tell places stay good.

use fsmend_ext_format::directory::{ENTRY_LEN_MIN, EntryHeader, INLINE_PARENT_LEN};
use fsmend_ext_format::inode::I_BLOCK_LEN;
use fsmend_vfs::{FileKind, InodeNo, Result};

use super::block::{self, NewEntry};
use super::{Found, Part, Seat};
use crate::inode::Inode;
use crate::volume::Volume;

/// How much further behind entries stand once they are in a block, behind `.` and `..`.
pub(super) const MOVED: usize = 2 * ENTRY_LEN_MIN - INLINE_PARENT_LEN;

/// The two chains of entries.
pub(super) struct Areas {
    parent: u32,
    pub chains: [Vec<u8>; 2],
}

impl Areas {
    fn bytes(&self) -> Vec<u8> {
        [&self.parent.to_le_bytes(), &self.chains[0][..], &self.chains[1]].concat()
    }
}

impl Volume {
    /// The entries of a directory that lives in its inode.
    pub(super) fn areas(&self, directory: &Inode) -> Areas {
        let mut first = self.inline_data(directory);
        let second = first.split_off(first.len().min(I_BLOCK_LEN));
        Areas {
            parent: directory.raw.block_word(0),
            chains: [first.split_off(INLINE_PARENT_LEN.min(first.len())), second],
        }
    }

    /// Lets a new directory live in its inode, if there is room; returns whether there is.
    pub(super) fn start_inline(&mut self, directory: &mut Inode, parent: InodeNo) -> Result<bool> {
        directory.store_fields();
        if !self.has_inline_data() || self.data_room(directory)?.is_none() {
            return Ok(false);
        }
        let mut first = vec![0; I_BLOCK_LEN - INLINE_PARENT_LEN];
        block::fill(&mut first, self.entry_layout(), &[]);
        let areas = Areas { parent: parent.0, chains: [first, Vec::new()] };
        self.put_inline(directory, &areas.bytes())?;
        Ok(true)
    }

    pub(super) fn find_in_inode(&mut self, directory: &Inode, name: &[u8]) -> Result<Option<Found>> {
        let areas = self.areas(directory);
        match name {
            b"." => return Ok(Some(Found { inode: directory.number, seat: Seat::Own })),
            b".." => return Ok(Some(Found { inode: InodeNo(areas.parent), seat: Seat::Parent })),
            _ => {}
        }
        for (area, chain) in areas.chains.iter().enumerate() {
            match block::find(chain, self.entry_layout(), name) {
                Ok(Some(spot)) => {
                    let seat = Seat::Inline { area, spot };
                    return Ok(Some(Found { inode: InodeNo(spot.inode), seat }));
                }
                Ok(None) => {}
                Err(()) => return Err(self.broken(directory.number)),
            }
        }
        Ok(None)
    }

    /// Changes one of the two chains. The caller saves the directory's inode.
    pub(super) fn change_area(
        &mut self,
        directory: &mut Inode,
        area: usize,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let mut areas = self.areas(directory);
        if let Some(chain) = areas.chains.get_mut(area) {
            change(chain);
        }
        self.put_inline(directory, &areas.bytes())
    }

    /// Adds an entry if there is room in the inode; returns whether there was.
    pub(super) fn add_inline(&mut self, directory: &mut Inode, new: &NewEntry<'_>) -> Result<bool> {
        let mut areas = self.areas(directory);
        let layout = self.entry_layout();
        let mut inserted = Ok(false);
        for chain in areas.chains.iter_mut().filter(|chain| !chain.is_empty()) {
            inserted = block::insert(chain, layout, new);
            if inserted != Ok(false) {
                break;
            }
        }
        if inserted == Ok(false) {
            let room = self.data_room(directory)?.unwrap_or(0);
            let second = &mut areas.chains[1];
            if room >= second.len() + ENTRY_LEN_MIN {
                inserted = lengthen(second, room, layout).and_then(|()| block::insert(second, layout, new));
            }
        }
        match inserted {
            Ok(true) => self.put_inline(directory, &areas.bytes()).map(|()| true),
            Ok(false) => Ok(false),
            Err(()) => Err(self.broken(directory.number)),
        }
    }

    /// Moves the entries of a directory to a block.
    pub(super) fn unfold_directory(&mut self, directory: &mut Inode) -> Result<()> {
        let areas = self.areas(directory);
        self.leave_inode(directory)?;
        directory.raw.set_size(0);
        let (logical, place) = self.append_block(directory)?;
        let (layout, tail) = (self.entry_layout(), self.leaf_tail());
        let file_type = self.type_byte(FileKind::Directory);
        let mut entries = areas.chains.concat();
        let room = self.leaf_room().saturating_sub(2 * ENTRY_LEN_MIN);
        if lengthen(&mut entries, room, layout).is_err() || entries.len() != room {
            return Err(self.broken(directory.number));
        }
        let bytes = self.cache.change(place)?;
        let dot = NewEntry { name: b".", inode: directory.number.0, file_type };
        block::put(bytes, layout, 0, ENTRY_LEN_MIN, &dot);
        let dots = NewEntry { name: b"..", inode: areas.parent, file_type };
        block::put(bytes, layout, ENTRY_LEN_MIN, ENTRY_LEN_MIN, &dots);
        let end = bytes.len() - tail;
        bytes[2 * ENTRY_LEN_MIN..end].copy_from_slice(&entries);
        self.seal_block(directory, logical, place, Part::Leaf)
    }

    /// Whether a directory that lives in its inode has no entries.
    pub(super) fn is_empty_inline(&mut self, directory: &Inode) -> Result<bool> {
        for chain in self.areas(directory).chains {
            let Some(entries) = block::entries(&chain, self.entry_layout()) else {
                return Err(self.broken(directory.number));
            };
            if entries.iter().any(|entry| entry.header.inode != 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Makes a chain as long as `len`: its last entry gets what it is longer, or a free one does. `Err` where the chain is broken.
fn lengthen(
    chain: &mut Vec<u8>,
    len: usize,
    layout: fsmend_ext_format::directory::EntryLayout,
) -> std::result::Result<(), ()> {
    let last = block::entries(chain, layout).ok_or(())?.last().map(|entry| (entry.offset, entry.header));
    chain.resize(len.max(chain.len()), 0);
    let (offset, header) =
        last.unwrap_or((0, EntryHeader { inode: 0, rec_len: 0, name_len: 0, file_type: 0 }));
    EntryHeader { rec_len: chain.len() - offset, ..header }.store(chain, offset, layout);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use fsmend_ext_format::directory::EntryLayout;

    use super::*;

    const LAYOUT: EntryLayout = EntryLayout { block_size: 1024, hash_behind_name: false };

    #[test]
    fn chains_grow_at_their_end() {
        let mut chain = Vec::new();
        lengthen(&mut chain, 28, LAYOUT).unwrap();
        let new = |name| NewEntry { name, inode: 7, file_type: 1 };
        assert_eq!(block::insert(&mut chain, LAYOUT, &new(b"abcd")), Ok(true));
        assert_eq!(block::insert(&mut chain, LAYOUT, &new(b"efgh")), Ok(true));
        assert_eq!(block::insert(&mut chain, LAYOUT, &new(b"ijkl")), Ok(false));
        lengthen(&mut chain, 40, LAYOUT).unwrap();
        assert_eq!(block::insert(&mut chain, LAYOUT, &new(b"ijkl")), Ok(true));
        let names: Vec<_> = block::entries(&chain, LAYOUT).unwrap().iter().map(|e| e.name.to_vec()).collect();
        assert_eq!(names, [b"abcd", b"efgh", b"ijkl"]);
        chain[4] = 3;
        assert_eq!(lengthen(&mut chain, 80, LAYOUT), Err(()));
    }
}
