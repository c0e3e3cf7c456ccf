// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks that an inode leads to: a walk over its map.

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::width;
use fsmend_ufs_format::geometry::{DIRECT, Geometry};
use fsmend_ufs_format::inode::{INDIRECT, Inode, Path, indirect_range};
use fsmend_ufs_format::snapshot;

use crate::UfsFs;

/// What a pointer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Block of the file with this number.
    Data(u64),
    /// An indirect block of this level (1 to 3), whose first block of the file has this number.
    Indirect(usize, u64),
}

/// Where a pointer is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// In the inode: as [`Inode::pointer`] counts.
    Inode(usize),
    /// In an indirect block: its first fragment, and the index in it.
    Block(u64, u64),
}

/// A pointer that was met on the walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pointer {
    /// What it is for.
    pub role: Role,
    /// Where it is stored.
    pub slot: Slot,
    /// The first fragment; never 0.
    pub fragment: u64,
    /// How many fragments belong to it.
    pub count: u64,
}

/// What the walk does after a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Goes on; into the block, if it is an indirect one.
    Into,
    /// Goes into the block in another place.
    IntoMoved(u64),
    /// Goes on behind it.
    Over,
    /// Ends.
    Stop,
}

/// Receives what the walk meets, in the order of the file.
pub trait Visit {
    /// A pointer that is not 0, within the size of the file or behind it.
    fn pointer(&mut self, pointer: Pointer, is_within: bool) -> Next;

    /// The bytes of an indirect block, before its pointers; `None` where it cannot be read.
    fn block(&mut self, _bytes: Option<&[u8]>) {}

    /// A pointer to an indirect block of the same map that was met before. The walk goes on behind it, or ends.
    fn met_again(&mut self, _pointer: Pointer) -> Next {
        Next::Over
    }
}

/// Pointers in indirect blocks that a repair changes: by block, its first fragment, and by the index in it.
pub type Patches = BTreeMap<u64, BTreeMap<u64, u64>>;

/// Walks over the map of `inode` for a file of `size` bytes. False if the visitor stopped it.
///
/// Pointers behind the size are visited as well, with a whole block each; blocks behind indirect pointers there are not read. No indirect block is walked twice: a map that
/// leads back to itself would have more blocks than any device.
pub fn walk<B: AsRef<[u8]>>(fs: &UfsFs<'_>, inode: &Inode<B>, size: u64, visit: &mut impl Visit) -> bool {
    walk_patched(fs, inode, size, &Patches::new(), visit)
}

/// The same, with indirect blocks as they will be.
pub fn walk_patched<B: AsRef<[u8]>>(
    fs: &UfsFs<'_>,
    inode: &Inode<B>,
    size: u64,
    patches: &Patches,
    visit: &mut impl Visit,
) -> bool {
    let geometry = fs.geometry();
    let blocks = geometry.block_count(size);
    for index in 0..DIRECT {
        let fragment = inode.pointer(width::index(index));
        if fragment == 0 {
            continue;
        }
        let is_within = index < blocks;
        let count = if is_within { geometry.block_fragments(size, index) } else { geometry.fragments };
        let role = Role::Data(index);
        let pointer = Pointer { role, slot: Slot::Inode(width::index(index)), fragment, count };
        if visit.pointer(pointer, is_within) == Next::Stop {
            return false;
        }
    }
    let mut walk = Walk { fs, blocks, patches, met: BTreeSet::new(), visit };
    (1..=INDIRECT).all(|level| {
        let slot = width::index(DIRECT) + level - 1;
        let (first, _) = indirect_range(level, geometry.pointers);
        walk.indirect(inode.pointer(slot), Slot::Inode(slot), level, first)
    })
}

struct Walk<'w, 'd, V> {
    fs: &'w UfsFs<'d>,
    blocks: u64,
    patches: &'w Patches,
    /// Indirect blocks that were walked.
    met: BTreeSet<u64>,
    visit: &'w mut V,
}

impl<V: Visit> Walk<'_, '_, V> {
    /// An indirect block of `level` whose first block of the file is `first`. False if the visitor stopped.
    fn indirect(&mut self, fragment: u64, slot: Slot, level: usize, first: u64) -> bool {
        if fragment == 0 {
            return true;
        }
        let geometry = self.fs.geometry();
        let is_within = first < self.blocks;
        let count = geometry.fragments;
        let pointer = Pointer { role: Role::Indirect(level, first), slot, fragment, count };
        if is_within && self.met.contains(&fragment) {
            return self.visit.met_again(pointer) != Next::Stop;
        }
        let stored = fragment;
        let fragment = match self.visit.pointer(pointer, is_within) {
            Next::Stop => return false,
            Next::Over => return true,
            Next::Into => fragment,
            Next::IntoMoved(fragment) => fragment,
        };
        if !is_within {
            return true;
        }
        self.met.insert(stored);
        let bytes = self.fs.read(fragment, width::index(geometry.block_size));
        let below = geometry.pointers.saturating_pow(power(level.saturating_sub(1)));
        self.visit.block(bytes.as_deref());
        let Some(bytes) = bytes else { return true };
        let (size, patches) = (geometry.version.pointer_size(), self.patches.get(&fragment));
        for (index, stored) in bytes.chunks_exact(size).enumerate() {
            let patched = patches.and_then(|patches| patches.get(&(index as u64)).copied());
            let to = patched.unwrap_or_else(|| pointer_in(geometry, stored));
            if to == 0 {
                continue;
            }
            let slot = Slot::Block(fragment, index as u64);
            let at = first.saturating_add(below.saturating_mul(index as u64));
            let goes_on = if level > 1 {
                self.indirect(to, slot, level - 1, at)
            } else {
                let pointer = Pointer { role: Role::Data(at), slot, fragment: to, count };
                self.visit.pointer(pointer, at < self.blocks) != Next::Stop
            };
            if !goes_on {
                return false;
            }
        }
        true
    }
}

/// A pointer at the start of these bytes.
fn pointer_in(geometry: &Geometry, stored: &[u8]) -> u64 {
    match geometry.version {
        fsmend_ufs_format::Version::Ufs1 => geometry.order.u32(stored, 0).into(),
        fsmend_ufs_format::Version::Ufs2 => geometry.order.u64(stored, 0),
    }
}

/// Where the pointer to block `index` of a file stands; `None` where an indirect block on the way is missing.
pub fn slot_of<B: AsRef<[u8]>>(
    fs: &UfsFs<'_>,
    inode: &Inode<B>,
    index: u64,
    patches: &Patches,
) -> Option<Slot> {
    let geometry = fs.geometry();
    let path = Path::to(index, geometry.pointers)?;
    let mut slot = Slot::Inode(path.pointer(index));
    for level in path.indices.iter().take(path.levels) {
        let block = match slot {
            Slot::Inode(slot) => inode.pointer(slot),
            Slot::Block(block, index) => match patches.get(&block).and_then(|patches| patches.get(&index)) {
                Some(patched) => *patched,
                None => {
                    let size = geometry.version.pointer_size();
                    let bytes = fs.read(block, width::index(geometry.block_size))?;
                    pointer_in(geometry, bytes.chunks_exact(size).nth(width::index(index))?)
                }
            },
        };
        if !geometry.may_be_data(block, geometry.fragments) {
            return None;
        }
        slot = Slot::Block(block, *level);
    }
    Some(slot)
}

/// Whether a pointer stands for a block that is not there: only snapshots have such.
#[inline]
pub fn is_mark(is_snapshot: bool, fragment: u64) -> bool {
    is_snapshot && matches!(fragment, snapshot::NOT_COPIED | snapshot::OTHER_SNAPSHOT)
}

/// Runs of fragments that hold a file's contents, in order: number of the block of the file, first fragment, bytes that belong to the file. Ends at
/// the first pointer that cannot be right. For directories, links, attributes: what is read as a whole.
pub fn contents<B: AsRef<[u8]>>(fs: &UfsFs<'_>, inode: &Inode<B>) -> Vec<(u64, u64, usize)> {
    contents_patched(fs, inode, &Patches::new())
}

/// The same, with indirect blocks as they will be.
pub fn contents_patched<B: AsRef<[u8]>>(
    fs: &UfsFs<'_>,
    inode: &Inode<B>,
    patches: &Patches,
) -> Vec<(u64, u64, usize)> {
    struct Gather<'f, 'd> {
        fs: &'f UfsFs<'d>,
        size: u64,
        runs: Vec<(u64, u64, usize)>,
    }
    impl Visit for Gather<'_, '_> {
        fn pointer(&mut self, pointer: Pointer, is_within: bool) -> Next {
            let geometry = self.fs.geometry();
            if !is_within || !geometry.may_be_data(pointer.fragment, pointer.count) {
                return if matches!(pointer.role, Role::Data(_)) && is_within {
                    Next::Stop
                } else {
                    Next::Over
                };
            }
            if let Role::Data(index) = pointer.role {
                let left = self.size.saturating_sub(index * geometry.block_size);
                self.runs.push((index, pointer.fragment, width::index(left.min(geometry.block_size))));
            }
            // No more than there is room for on the device, however often a map leads to the same place.
            if self.runs.len() as u64 > geometry.size / geometry.fragments { Next::Stop } else { Next::Into }
        }
    }
    let mut gather = Gather { fs, size: inode.size(), runs: Vec::new() };
    walk_patched(fs, inode, inode.size(), patches, &mut gather);
    gather.runs
}

/// A level of indirection as a power of the number of pointers in a block.
pub(crate) fn power(level: usize) -> u32 {
    u32::try_from(level).unwrap_or(u32::MAX)
}
