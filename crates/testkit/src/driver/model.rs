// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file system in memory, as simple as can be: what a driver has to agree with.

use std::collections::{BTreeMap, HashMap};

use fsmend_vfs::{DeviceNumber, FileKind, InodeNo, Permissions};

/// Bytes of a piece of a file.
const PIECE: u64 = 1024;

/// Contents of a file with holes.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Contents {
    /// Length in bytes.
    pub size: u64,
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl Contents {
    /// Writes at an offset.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (at, byte) in bytes.iter().enumerate() {
            let at = offset + at as u64;
            let piece = self.pieces.entry(at / PIECE).or_insert_with(|| vec![0; PIECE as usize]);
            piece[(at % PIECE) as usize] = *byte;
        }
        self.size = self.size.max(offset + bytes.len() as u64);
    }

    /// Cuts, or makes longer.
    pub fn resize(&mut self, size: u64) {
        self.size = size;
        self.pieces.split_off(&size.div_ceil(PIECE));
        if let Some(last) = self.pieces.get_mut(&(size / PIECE)) {
            last[(size % PIECE) as usize..].fill(0);
        }
    }

    /// Reads what is there.
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(len as u64));
        (offset..end.max(offset))
            .map(|at| self.pieces.get(&(at / PIECE)).map_or(0, |piece| piece[(at % PIECE) as usize]))
            .collect()
    }

    /// Where something stands: offsets of pieces.
    pub fn written(&self) -> Vec<u64> {
        self.pieces.keys().map(|piece| piece * PIECE).collect()
    }
}

/// What an inode holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// A regular file.
    File(Contents),
    /// A directory: names and inodes, and the parent.
    Directory(BTreeMap<Vec<u8>, InodeNo>, InodeNo),
    /// A symbolic link.
    Symlink(Vec<u8>),
    /// Anything else.
    Special(FileKind, DeviceNumber),
}

/// An inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// What it holds.
    pub body: Body,
    /// Whose it is.
    pub of: Permissions,
    /// How many names it has (directories: subdirectories and two).
    pub links: u32,
    /// Its attributes.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All inodes.
#[derive(Clone, Default, Debug)]
pub struct Model {
    /// By the numbers that the driver gives them.
    pub nodes: HashMap<u32, Node>,
}

impl Model {
    /// The entries of a directory.
    pub fn entries(&self, directory: InodeNo) -> Option<&BTreeMap<Vec<u8>, InodeNo>> {
        match &self.nodes.get(&directory.0)?.body {
            Body::Directory(entries, _) => Some(entries),
            _ => None,
        }
    }

    /// The entries of a directory, to be changed.
    pub fn entries_mut(&mut self, directory: InodeNo) -> Option<&mut BTreeMap<Vec<u8>, InodeNo>> {
        match &mut self.nodes.get_mut(&directory.0)?.body {
            Body::Directory(entries, _) => Some(entries),
            _ => None,
        }
    }

    /// Whether the inode is a directory.
    pub fn is_directory(&self, inode: InodeNo) -> bool {
        self.entries(inode).is_some()
    }

    /// Counts a link more or less; without links, an inode that is not held is gone.
    pub fn count_link(&mut self, inode: InodeNo, delta: i32, is_held: bool) {
        if let Some(node) = self.nodes.get_mut(&inode.0) {
            node.links = node.links.saturating_add_signed(delta);
            if node.links == 0 && !is_held {
                self.nodes.remove(&inode.0);
            }
        }
    }

    /// Whether `inode` is `directory` or lies below it.
    pub fn is_below(&self, inode: InodeNo, directory: InodeNo) -> bool {
        let mut at = inode;
        loop {
            if at == directory {
                return true;
            }
            match self.nodes.get(&at.0).map(|node| &node.body) {
                Some(Body::Directory(_, parent)) if *parent != at => at = *parent,
                _ => return false,
            }
        }
    }
}
