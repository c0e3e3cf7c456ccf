// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is in an image: every path with type, length, content and the rest that a user can see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::bytes::{PART_BYTES, Reader, Record};
use super::spoiled::Spoiled;

pub(super) const DIRECTORY: u16 = 0o040_000;
pub(super) const REGULAR: u16 = 0o100_000;
pub(super) const SYMLINK: u16 = 0o120_000;
/// The flag of an inode that holds the value of an attribute.
const EA_INODE: u32 = 0x20_0000;
/// The root directory's inode.
const ROOT: u32 = 2;
/// More names than this are not read.
const NAMES_MAX: usize = 300_000;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Number of the inode.
    pub inode: u32,
    /// Byte of the image at which its record stands: the same inode, whatever number a repair gives it.
    pub at: u64,
    /// Type, as in `i_mode`.
    pub kind: u16,
    /// Permissions.
    pub mode: u16,
    /// Owner, user and group.
    pub owner: (u32, u32),
    /// Length; 0 for directories, which may take more room and hold the same.
    pub size: u64,
    /// What it holds, in one number: bytes, the target of a link, the number of a device.
    pub content: u64,
    /// What every KiB of a regular file holds.
    pub parts: Arc<BTreeMap<u64, u64>>,
    /// Its attributes: what each holds, in one number.
    pub attributes: BTreeMap<Vec<u8>, u64>,
    /// Whether it has blocks in use.
    pub has_blocks: bool,
}

impl Node {
    /// Whether both are of one type, length and content.
    pub fn holds_the_same(&self, other: &Node) -> bool {
        (self.kind, self.size, self.content) == (other.kind, other.size, other.content)
    }

    /// Whether it is a file in which nothing is: what has no name any more and is so is freed.
    pub fn is_empty_file(&self) -> bool {
        self.kind == REGULAR && self.size == 0 && !self.has_blocks && self.attributes.is_empty()
    }

    /// The first thing in which two differ, but for the inode's number.
    pub fn difference(&self, other: &Node) -> Option<&'static str> {
        let differ = [
            ("type", self.kind != other.kind),
            ("length", self.size != other.size),
            ("content", self.content != other.content),
            ("owner", self.owner != other.owner),
            ("permissions", self.mode != other.mode),
            ("attributes", self.attributes != other.attributes),
        ];
        differ.into_iter().find(|(_, differ)| *differ).map(|(what, _)| what)
    }

    /// Whether a regular file still holds all that `theirs` holds as it was `before`: its length, and every part of it. What is in the
    /// other parts, those behind the end that it had, and those that the reference has `spoiled`, are unknown, and each repair may choose. Where the
    /// reference has lost the length, the part in which this one ends may be cut: a length that is a little too short is not noticed. A hole may be
    /// filled for every part that is kept and that the reference has lost: it threw away an entry whose place was overwritten only as it threw
    /// away those around it.
    pub fn keeps_as_much(&self, theirs: &Node, before: &Node, spoiled: &Spoiled) -> bool {
        let are_files = [self, theirs, before].iter().all(|node| node.kind == REGULAR);
        let places = self.parts.keys().chain(theirs.parts.keys()).chain(before.parts.keys());
        let has_less = theirs.size != before.size && self.size < before.size;
        let is_cut = |place: u64| has_less && place == self.size / PART_BYTES as u64;
        let is_kept = |place: &u64| {
            let [ours, theirs, before] = [self, theirs, before].map(|node| node.parts.get(place));
            theirs != before
                || ours == before
                || is_cut(*place)
                || ours.is_some_and(|ours| spoiled.part(self.inode, *place) == Some(*ours))
        };
        let end = before.size.div_ceil(PART_BYTES as u64);
        let saved = before.parts.iter().filter(|(place, part)| {
            self.parts.get(place) == Some(*part) && theirs.parts.get(place) != Some(*part)
        });
        let is_hole = |place: &u64| [theirs, before].iter().all(|node| !node.parts.contains_key(place));
        let lost: BTreeSet<&u64> = places.filter(|place| **place < end && !is_kept(place)).collect();
        are_files
            && (theirs.size != before.size || self.size == before.size)
            && lost.iter().all(|place| is_hole(place))
            && lost.len() <= saved.count()
    }

    /// Whether it is nothing of what it was `before`: of another type, or a regular file of another length of which no part is left. (Of an empty
    /// one, blocks of others are nothing, even where they hold only zeroes.)
    pub fn is_nothing_of(&self, before: &Node) -> bool {
        let has_part = |(place, sum): (&u64, &u64)| self.parts.get(place) == Some(sum);
        let is_other = self.kind == REGULAR && self.size != before.size;
        let is_gone = match before.size {
            0 => !self.parts.is_empty() || self.has_blocks && !before.has_blocks,
            _ => !before.parts.is_empty() && !before.parts.iter().any(has_part),
        };
        self.kind != before.kind || is_other && is_gone
    }

    /// The same, with the length and content of `other`.
    pub fn holding(&self, other: &Node) -> Node {
        Node { size: other.size, content: other.content, parts: Arc::clone(&other.parts), ..self.clone() }
    }

    /// One word for its type.
    pub fn word(&self) -> &'static str {
        match self.kind {
            DIRECTORY => "directory",
            REGULAR => "file",
            SYMLINK => "link",
            _ => "special file",
        }
    }
}

/// All that can be reached from the root of an image.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// By path, without a leading slash; the root is the empty path.
    pub nodes: BTreeMap<Vec<u8>, Node>,
    /// Paths of each inode.
    pub paths: BTreeMap<u32, Vec<Vec<u8>>>,
    /// Which inode's record stands where.
    pub records: BTreeMap<u64, u32>,
    /// The highest number that an inode can have.
    pub inodes_count: u32,
    /// Whether the kernel reads only the lower halves of owners.
    pub has_short_owners: bool,
}

impl Tree {
    /// Reads the tree of an image; `None` without a superblock or a root directory.
    pub fn of(image: &[u8]) -> Option<Tree> {
        let reader = Reader::new(image)?;
        let root = reader.inode(ROOT).filter(|root| root.kind() == DIRECTORY)?;
        let mut tree = Tree {
            inodes_count: reader.inodes_count(),
            has_short_owners: reader.has_short_owners(),
            ..Tree::default()
        };
        tree.add(Vec::new(), node(&reader, ROOT, root));
        let mut ahead = vec![(Vec::new(), root)];
        let mut seen = BTreeSet::from([ROOT]);
        while let Some((path, directory)) = ahead.pop() {
            for (name, number) in reader.names(directory) {
                let Some(inode) = reader.inode(number).filter(|_| tree.nodes.len() < NAMES_MAX) else {
                    continue;
                };
                // A value of an attribute cannot be opened by a name: the kernel refuses.
                if inode.flags() & EA_INODE != 0 && inode.kind() == REGULAR {
                    continue;
                }
                let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
                let path = [&path, slash, &name].concat();
                tree.add(path.clone(), node(&reader, number, inode));
                if inode.kind() == DIRECTORY && seen.insert(number) {
                    ahead.push((path, inode));
                }
            }
        }
        Some(tree)
    }

    fn add(&mut self, path: Vec<u8>, node: Node) {
        self.paths.entry(node.inode).or_default().push(path.clone());
        self.records.insert(node.at, node.inode);
        self.nodes.insert(path, node);
    }

    /// All that one inode is called; every name leads to the same.
    pub fn by_inode(&self, inode: u32) -> Option<(&Node, &[Vec<u8>])> {
        let paths = self.paths.get(&inode)?;
        Some((self.nodes.get(paths.first()?)?, paths))
    }
}

fn node(reader: &Reader<'_>, number: u32, inode: Record<'_>) -> Node {
    let kind = inode.kind();
    let parts = if kind == REGULAR { reader.parts(inode) } else { BTreeMap::new() };
    let (size, content) = match kind {
        DIRECTORY => (0, 0),
        REGULAR => (inode.size(), parts.values().fold(0, |sum: u64, part| sum.wrapping_add(*part))),
        SYMLINK => (inode.size(), link_target(reader, inode)),
        _ => (
            0,
            u64::from(super::bytes::u32_at(inode.map(), 0)) << 32
                | u64::from(super::bytes::u32_at(inode.map(), 4)),
        ),
    };
    let attributes = reader.attributes(inode);
    Node {
        inode: number,
        at: inode.at,
        kind,
        mode: inode.mode() & 0o7777,
        owner: inode.owner(),
        size,
        content,
        parts: Arc::new(parts),
        attributes,
        has_blocks: inode.has_blocks(),
    }
}

fn link_target(reader: &Reader<'_>, inode: Record<'_>) -> u64 {
    let has_map = inode.flags() & 0x8_0000 != 0 || inode.is_inline() || inode.size() >= 60;
    if has_map {
        return reader.content(inode);
    }
    let len = inode.size() as usize;
    short_target(inode.map().get(..len).unwrap_or_default())
}

/// The target of a link that lies in its inode, in one number.
pub(super) fn short_target(target: &[u8]) -> u64 {
    target.iter().fold(1, |hash: u64, byte| hash.wrapping_mul(0x100_0000_01B3) ^ u64::from(*byte))
}
