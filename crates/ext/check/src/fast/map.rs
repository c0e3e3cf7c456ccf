// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast path for maps that continue outside the inode: extent trees and indirect blocks, walked level by level for
//! a batch of inodes at once, so that their blocks can be read in disk order.
//!
//! Claims are made while walking. The walk does not stop at what it finds suspicious: it leaves that piece out, marks
//! the inode as suspect and goes on. So a second walk of the same inode visits exactly the same pieces, and takes the
//! claims back ([`WalkMode::Withdraw`]).

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::claims::{Claims, SharedBitmap};
use fsmend_engine::inodes::Kind;
use fsmend_ext_format::checksum;
use fsmend_ext_format::extent::EXTENT_MAGIC;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags, RawInode};
use fsmend_ext_format::rext3::{HEADER_SIZE, IndirectHeader};

use crate::extent::LAST_BLOCK;
use crate::fast::claimer::Claimer;
use crate::fast::inode::{InodeFastPath, InodeSummary};
use crate::fast::pending::PendingClaims;
use crate::fast::pieces::{Claiming, Leaf, Piece, Pointers};
use crate::fast::pointers::without_zeros;
use crate::inode::MapRun;
use crate::quota::{self, Owner};
use crate::region::Regions;

/// An inode whose map is walked.
#[derive(Clone, Debug)]
pub struct WalkItem {
    /// The inode.
    pub inode: InodeNo,
    /// What it is.
    pub kind: Kind,
    /// `i_flags`.
    pub flags: InodeFlags,
    /// Generation.
    pub generation: u32,
    /// Size in bytes.
    pub size: u64,
    /// Blocks that `i_blocks` stands for.
    pub charged_blocks: u64,
    /// Attribute block, 0 without one.
    pub xattr_block: u64,
    /// Who owns it.
    pub owner: Owner,
    /// `i_block`: where the map begins.
    pub i_block: [u8; I_BLOCK_LEN],
}

impl WalkItem {
    /// The item for an clean inode whose fields are `raw`.
    pub fn new(inode: InodeNo, summary: &InodeSummary, raw: &RawInode) -> Self {
        WalkItem {
            inode,
            kind: summary.kind,
            flags: summary.flags,
            generation: summary.generation,
            size: summary.size,
            charged_blocks: summary.charged_blocks,
            xattr_block: summary.xattr_block,
            owner: quota::owner_of(raw),
            i_block: raw.i_block,
        }
    }

    /// The `index`th 32-bit word of `i_block` (0 to 14).
    pub fn block_word(&self, index: usize) -> u32 {
        u32::from_le_bytes([0, 1, 2, 3].map(|byte| self.i_block[4 * index + byte]))
    }

    /// Where about its map begins outside of the inode: only good for an order in which to read.
    pub fn first_map_block(&self) -> u64 {
        self.first_map_blocks().next().unwrap_or(0)
    }

    /// All blocks that the inode leads to itself, as they stand there: not yet checked to exist.
    pub fn first_map_blocks(&self) -> impl Iterator<Item = u64> {
        let low = |index| u64::from(self.block_word(index));
        let places = if self.by_extents() {
            // Index entries: behind its first block of the file, each has 32 low and 16 high bits.
            let high = |at: usize| u64::from(u16::from_le_bytes([self.i_block[at], self.i_block[at + 1]]));
            let entries = usize::from(u16::from_le_bytes([self.i_block[2], self.i_block[3]]));
            let entry = |index: usize| {
                if index < entries { high(20 + 12 * index) << 32 | low(4 + 3 * index) } else { 0 }
            };
            [0, 1, 2, 3].map(entry)
        } else {
            [low(12), low(13), low(14), 0]
        };
        places.into_iter().filter(|block| *block != 0)
    }

    fn by_extents(&self) -> bool {
        self.flags.contains(InodeFlags::EXTENTS)
    }
}

/// What a walk does with the blocks that it meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkMode {
    /// Claim them.
    Claim,
    /// Take the claims back.
    Withdraw,
    /// Leave them as they are: all of them are claimed for the same inode.
    Look,
    /// The same, but find those that are contested.
    Search,
}

/// A block of a map that has to be read.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// Index of the item that it belongs to.
    pub item: u32,
    /// Where it lies.
    pub block: u64,
    /// 0 for a leaf (extents) or a block of data pointers (indirect), more above.
    level: u8,
    /// First block of the file that it maps.
    first: u64,
    /// The block of the file that it must not reach.
    end: u64,
}

/// What the walk of one inode came to.
#[derive(Clone, Debug)]
pub struct Walked {
    /// Whether inspection would find nothing.
    pub clean: bool,
    /// Whether its blocks do not lie in one piece, indirect blocks in line with the data.
    pub scattered: bool,
    /// The map, for directories only.
    pub runs: Vec<MapRun>,
}

impl Node {
    /// Whether more nodes hang below it.
    pub fn leads_on(&self) -> bool {
        self.level > 0
    }
}

/// What the walk of one inode, or a part of it, has gathered.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Blocks of data, of names and of the map itself.
    pub blocks: u64,
    /// Blocks of data, or of names.
    pub data_blocks: u64,
    /// The block of the file behind the last written one.
    pub written_end: u64,
    /// Whether something about it asks for inspection.
    pub suspect: bool,
    /// Whether there is a gap within one node, or between a node and the first block below it.
    pub gap: bool,
    /// The lowest and the highest block in line.
    pub reach: Option<(u64, u64)>,
    /// The map in pieces, kept for directories only.
    pub runs: Vec<MapRun>,
    /// In a search: blocks that are contested, once for each time that the map leads to them.
    pub contested: Vec<u64>,
}

impl Tally {
    /// Notes blocks that lie in line.
    pub fn stretch(&mut self, first: u64, last: u64) {
        let (low, high) = self.reach.unwrap_or((first, last));
        self.reach = Some((low.min(first), high.max(last)));
    }

    /// Takes over what another part of the same walk has gathered; in which order does not matter.
    fn absorb(&mut self, part: Tally) {
        self.blocks += part.blocks;
        self.data_blocks += part.data_blocks;
        self.written_end = self.written_end.max(part.written_end);
        self.suspect |= part.suspect;
        self.gap |= part.gap;
        if let Some((first, last)) = part.reach {
            self.stretch(first, last);
        }
        self.runs.extend(part.runs);
        self.contested.extend(part.contested);
    }

    /// Pieces without gaps that fill their reach, whatever their order: close enough to lying in one piece. `apart` says
    /// that the blocks of the map are not in line with the data.
    fn is_scattered(&self, apart: bool) -> bool {
        let in_line = if apart { self.data_blocks } else { self.blocks };
        self.gap || self.reach.is_some_and(|(low, high)| high - low + 1 != in_line)
    }
}

/// Adds what one part of a walk has gathered to what the others have.
pub fn join(tallies: &mut Vec<Tally>, part: Vec<Tally>) {
    if tallies.is_empty() {
        *tallies = part;
        return;
    }
    tallies.iter_mut().zip(part).for_each(|(tally, part)| tally.absorb(part));
}

/// What the walk of all its parts came to, item by item.
pub fn verdicts(items: &[WalkItem], tallies: Vec<Tally>, fast_path: &InodeFastPath<'_>) -> Vec<Walked> {
    let verdict = |(item, mut tally): (&WalkItem, Tally)| {
        tally.runs.sort_unstable_by_key(|run| run.logical);
        let clean = !tally.suspect
            && tally.blocks + u64::from(item.xattr_block != 0) == item.charged_blocks
            && fast_path.size_fits(
                item.kind,
                item.size,
                tally.written_end,
                tally.data_blocks,
                item.by_extents(),
            );
        let scattered = tally.is_scattered(item.by_extents() || fast_path.regions.exist());
        Walked { clean, scattered, runs: tally.runs }
    };
    items.iter().zip(tallies).map(verdict).collect()
}

/// A walk over the maps of a batch of inodes, or a part of it.
pub struct Walk<'a> {
    items: &'a [WalkItem],
    tallies: Vec<Tally>,
    mode: WalkMode,
    geometry: &'a Geometry,
    fast_path: &'a InodeFastPath<'a>,
    metadata: &'a SharedBitmap,
    claims: &'a Claims,
    pending: PendingClaims<'a>,
    checksums: bool,
    regions: &'a Regions,
}

impl<'a> Walk<'a> {
    /// Starts a walk. Returns it with the first blocks to be read.
    pub fn start(
        items: &'a [WalkItem],
        mode: WalkMode,
        geometry: &'a Geometry,
        fast_path: &'a InodeFastPath<'a>,
        metadata: &'a SharedBitmap,
        claims: &'a Claims,
    ) -> (Self, Vec<Node>) {
        let mut walk = Walk::part(items, mode, geometry, fast_path, metadata, claims);
        let mut nodes = Vec::new();
        for (index, item) in items.iter().enumerate() {
            if item.by_extents() {
                walk.extent_root(index, item, &mut nodes);
            } else {
                walk.indirect_root(index, item, &mut nodes);
            }
        }
        (walk, nodes)
    }

    /// A walk that is given blocks which another one has found, and gathers what hangs there.
    pub fn part(
        items: &'a [WalkItem],
        mode: WalkMode,
        geometry: &'a Geometry,
        fast_path: &'a InodeFastPath<'a>,
        metadata: &'a SharedBitmap,
        claims: &'a Claims,
    ) -> Self {
        Walk {
            items,
            tallies: vec![Tally::default(); items.len()],
            mode,
            geometry,
            fast_path,
            metadata,
            claims,
            pending: PendingClaims::new(claims, metadata),
            checksums: geometry.features.metadata_csum(),
            regions: fast_path.regions,
        }
    }

    /// Takes in the contents of one block and adds the blocks below it to `nodes`.
    pub fn visit(&mut self, node: Node, contents: &[u8], nodes: &mut Vec<Node>) {
        let item = &self.items[node.item as usize];
        if item.by_extents() {
            self.extent_node(node, item, contents, nodes);
            return;
        }
        let Some(pointers) = self.pointers_of(node, item, contents) else {
            self.tallies[node.item as usize].suspect = true;
            return;
        };
        if node.level == 0 {
            self.data_pointers(node, item, pointers);
        } else {
            self.pointer_block(node, pointers, nodes);
        }
    }

    /// The pointers in an indirect block; `None` if the block says that it is another one.
    fn pointers_of<'c>(&self, node: Node, item: &WalkItem, contents: &'c [u8]) -> Option<&'c [u8]> {
        if !self.geometry.rext3() {
            return Some(contents);
        }
        let right =
            IndirectHeader::new(self.geometry.checksum_seed, BlockNo(node.block), item.inode, node.level + 1);
        let is_right = IndirectHeader::parse(contents) == Some(right);
        contents.get(HEADER_SIZE..).filter(|_| is_right)
    }

    /// In a search: what of item number `item` was found to be contested since the last call.
    pub fn take_contested(&mut self, item: u32, mut take: impl FnMut(InodeNo, u64)) {
        let item = item as usize;
        if let (Some(found), Some(tally)) = (self.items.get(item), self.tallies.get_mut(item)) {
            tally.contested.drain(..).for_each(|block| take(found.inode, block));
        }
    }

    /// Notes that a block could not be read.
    pub fn unreadable(&mut self, node: Node) {
        self.tallies[node.item as usize].suspect = true;
    }

    /// Ends the walk, or this part of it: what it has gathered of each item.
    pub fn finish(self) -> Vec<Tally> {
        self.tallies
    }

    fn extent_root(&mut self, index: usize, item: &WalkItem, nodes: &mut Vec<Node>) {
        let entries = usize::from(u16::from_le_bytes([item.i_block[2], item.i_block[3]]));
        let depth = item.i_block[6];
        let first = u64::from(u32::from_le_bytes([
            item.i_block[12],
            item.i_block[13],
            item.i_block[14],
            item.i_block[15],
        ]));
        let node = Node { item: width::len_u32(index), block: 0, level: depth, first, end: LAST_BLOCK + 1 };
        self.index_entries(node, &item.i_block[12..12 + entries.min(4) * 12], nodes);
    }

    fn extent_node(&mut self, node: Node, item: &WalkItem, contents: &[u8], nodes: &mut Vec<Node>) {
        let word = |at: usize| u16::from_le_bytes([contents[at], contents[at + 1]]);
        let (magic, entries, max, depth) = (word(0), usize::from(word(2)), usize::from(word(4)), word(6));
        let room = (contents.len() - 12) / 12;
        let sound = magic == EXTENT_MAGIC
            && depth == u16::from(node.level)
            && max == room
            && entries <= max
            && entries > 0
            && (!self.checksums || self.extent_checksum_is_right(item, contents));
        if !sound {
            self.tallies[node.item as usize].suspect = true;
            return;
        }
        let entries = &contents[12..12 + entries * 12];
        if u64::from(u32::from_le_bytes([entries[0], entries[1], entries[2], entries[3]])) != node.first {
            self.tallies[node.item as usize].suspect = true;
        }
        if node.level > 0 {
            self.index_entries(node, entries, nodes);
        } else {
            self.leaf_entries(node, item, entries);
        }
    }

    fn extent_checksum_is_right(&self, item: &WalkItem, contents: &[u8]) -> bool {
        let seed = checksum::inode_seed(self.geometry.checksum_seed, item.inode, item.generation);
        checksum::extent_block(seed, contents).is_some_and(|checked| checked.is_right())
    }

    fn index_entries(&mut self, node: Node, entries: &[u8], nodes: &mut Vec<Node>) {
        let (entries, _) = entries.as_chunks::<12>();
        let first_of =
            |entry: &[u8; 12]| u64::from(u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]));
        for (at, entry) in entries.iter().enumerate() {
            let low = u64::from(u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]));
            let block = u64::from(u16::from_le_bytes([entry[8], entry[9]])) << 32 | low;
            let (first, end) = (first_of(entry), entries.get(at + 1).map_or(node.end, first_of));
            if first >= end || end > node.end || !self.claim_map_block(node.item, block) {
                self.tallies[node.item as usize].suspect = true;
                continue;
            }
            nodes.push(Node { item: node.item, block, level: node.level - 1, first, end });
        }
    }

    fn leaf_entries(&mut self, node: Node, item: &WalkItem, entries: &[u8]) {
        let leaf = Leaf {
            entries: entries.as_chunks().0,
            blocks: self.blocks(),
            first: node.first,
            end: node.end,
            is_directory: item.kind == Kind::Directory,
        };
        self.gather(node, item.inode, &leaf);
    }

    /// Adds a piece to what was gathered of an item, and does with its blocks what the walk is for. Claims wait for those of other
    /// maps, unless they are the few of the inode itself: a walk may be no more than that, and no table is worth it.
    fn gather(&mut self, node: Node, inode: InodeNo, piece: &impl Piece) {
        let tally = &mut self.tallies[node.item as usize];
        if self.mode == WalkMode::Claim && node.block != 0 {
            let origin = self.claims.origin(inode.0);
            let mut claiming = Claiming { pending: &mut self.pending, origin, hit: false };
            piece.gather(tally, &mut claiming);
            tally.suspect |= claiming.hit;
        } else {
            let mut claimer = Claimer::new(self.claims, self.metadata, self.mode, inode);
            piece.gather(tally, &mut claimer);
            tally.suspect |= claimer.finish(&mut tally.contested);
        }
    }

    /// The lowest block that a file may own, and the one behind the last.
    fn blocks(&self) -> (u64, u64) {
        (u64::from(self.geometry.first_data_block).max(1), self.geometry.blocks_count)
    }

    fn indirect_root(&mut self, index: usize, item: &WalkItem, nodes: &mut Vec<Node>) {
        let word = |at: usize| {
            let bytes = &item.i_block[at * 4..at * 4 + 4];
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        let pointers = u64::from(self.geometry.pointers_per_block());
        let direct = Node { item: width::len_u32(index), block: 0, level: 0, first: 0, end: 12 };
        self.data_pointers(direct, item, &item.i_block[..48]);
        let mut first = 12;
        for (level, at) in (12..15).enumerate() {
            let span = pointers.pow(width::len_u32(level) + 1);
            let block = u64::from(word(at));
            if block != 0 {
                if self.claim_map_block(width::len_u32(index), block) {
                    nodes.push(Node {
                        item: width::len_u32(index),
                        block,
                        level: width::len_u8(level),
                        first,
                        end: first + span,
                    });
                } else {
                    self.tallies[index].suspect = true;
                }
            }
            first += span;
        }
    }

    fn pointer_block(&mut self, node: Node, contents: &[u8], nodes: &mut Vec<Node>) {
        let span = (node.end - node.first) / u64::from(self.geometry.pointers_per_block());
        for (at, word) in without_zeros(contents.as_chunks().0).iter().enumerate() {
            let block = u64::from(u32::from_le_bytes(*word));
            if block == 0 {
                continue;
            }
            let first = node.first + at as u64 * span;
            if self.claim_map_block(node.item, block) {
                nodes.push(Node { item: node.item, block, level: node.level - 1, first, end: first + span });
            } else {
                self.tallies[node.item as usize].suspect = true;
            }
        }
    }

    fn data_pointers(&mut self, node: Node, item: &WalkItem, contents: &[u8]) {
        let pointers = Pointers {
            words: contents.as_chunks().0,
            blocks: self.blocks(),
            first: node.first,
            in_line: self.in_line(node),
            is_directory: item.kind == Kind::Directory,
            regions: self.regions,
        };
        self.gather(node, item.inode, &pointers);
    }

    /// The indirect block that the first block below it follows, where indirect blocks stand in line with the data.
    fn in_line(&self, node: Node) -> Option<u64> {
        (node.block != 0 && !self.regions.exist()).then_some(node.block)
    }

    /// Claims a block of the map itself; refuses what cannot hold one. A block that is claimed already is
    /// followed all the same (who is first depends on timing, the answer must not); hostile trees that share their
    /// nodes to grow without end are stopped by the scan, which counts all nodes of the file system.
    fn claim_map_block(&mut self, item: u32, block: u64) -> bool {
        let may_be_there = !self.regions.exist() || self.regions.contain(block);
        if !may_be_there || !self.fast_path.is_free_for_files(block, 1) {
            return false;
        }
        let WalkItem { inode, .. } = self.items[item as usize];
        let tally = &mut self.tallies[item as usize];
        tally.blocks += 1;
        if !self.items[item as usize].by_extents() && !self.regions.exist() {
            tally.stretch(block, block);
        }
        let mut claimer = Claimer::new(self.claims, self.metadata, self.mode, inode);
        claimer.claim_one(block);
        !claimer.finish(&mut tally.contested)
    }
}
