// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a repair does to each file: one structure, from which text, JSON and saved plans are made.

use fsmend_base::InodeNo;

use crate::inodes::Kind;
use crate::names::former::FormerName;
use crate::problem::Row;

/// The state of an inode before the repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InodeState {
    /// In use.
    InUse,
    /// Not in use.
    Unused,
    /// The device does not give back the record.
    Unreadable,
}

impl InodeState {
    /// The word used in reports.
    pub fn word(self) -> &'static str {
        match self {
            InodeState::InUse => "in-use",
            InodeState::Unused => "unused",
            InodeState::Unreadable => "unreadable",
        }
    }
}

/// What a repair does to a file or directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Action {
    /// Its inode is freed.
    Removed,
    /// It becomes shorter: its new size.
    Truncated(u64),
    /// Its size is set to a higher value.
    Extended(u64),
    /// So many of its blocks are mapped no longer, though its size covers them.
    Unmapped(u64),
    /// So many of its blocks are copied to places of its own.
    Copied(u64),
    /// It gets another name: both paths.
    Renamed(String, String),
    /// It gets this name in `lost+found`.
    MovedToLostFound(String),
    /// This name of it (a path) is removed.
    NameRemoved(String),
    /// Fields of its inode, its map, its attributes or its entries are set right.
    Corrected,
    /// Nothing.
    Kept,
}

impl Action {
    /// The word used in reports.
    pub fn word(&self) -> &'static str {
        match self {
            Action::Removed => "removed",
            Action::Truncated(_) => "truncated",
            Action::Extended(_) => "extended",
            Action::Unmapped(_) => "unmapped",
            Action::Copied(_) => "copied",
            Action::Renamed(..) => "renamed",
            Action::MovedToLostFound(_) => "moved-to-lost-found",
            Action::NameRemoved(_) => "name-removed",
            Action::Corrected => "corrected",
            Action::Kept => "kept",
        }
    }

    /// What is said of a directory. The size and the blocks of a directory follow its entries: it is corrected where they change. What
    /// becomes of its names is said of the files that they lead to.
    pub fn of_directory(actions: Vec<Action>) -> Vec<Action> {
        let mut told: Vec<Action> = Vec::with_capacity(actions.len());
        for action in actions {
            let action = match action {
                Action::Truncated(_) | Action::Extended(_) | Action::Unmapped(_) => Action::Corrected,
                other => other,
            };
            if !told.contains(&action) {
                told.push(action);
            }
        }
        told
    }

    /// Whether it takes something away, whatever the problem was.
    pub fn loses_something(&self) -> bool {
        matches!(self, Action::Removed | Action::Truncated(_) | Action::Unmapped(_) | Action::NameRemoved(_))
    }
}

/// A file or directory that a repair is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileChange {
    /// Its inode.
    pub inode: InodeNo,
    /// Its path, if a name leads to it; the path of the name that is removed, if it has no other.
    pub path: Option<String>,
    /// What it was called before, if it has no name.
    pub former_names: Vec<FormerName>,
    /// What it is; of what is removed, what it was.
    pub kind: Kind,
    /// The state of the inode before the repair.
    pub state: InodeState,
    /// The size that the inode stored before the repair, in bytes.
    pub size: Option<u64>,
    /// What happens to it, at least one thing.
    pub actions: Vec<Action>,
    /// The kinds of problems with it whose repair may lose something.
    pub losses: Vec<&'static Row>,
}
