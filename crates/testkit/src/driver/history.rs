// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a driver did before the power failed, and whether what is there afterwards follows from it.

use std::collections::BTreeSet;

use fsmend_vfs::{Attributes, Errno, FileKind, FileSystem, InodeNo, Time};

use super::NOW;
use super::model::{Body, Model};
use super::snapshot::names;
use super::workload::{View, Workload};

/// What was done, up to the operation that failed for want of power.
pub struct History {
    /// How the tree looked after each operation.
    views: Vec<View>,
    /// The latest of them that is durable, and what it held.
    durable: usize,
    model: Model,
    /// Files whose contents may have changed since.
    touched: BTreeSet<u32>,
    /// Seconds at the end.
    pub clock: i64,
}

impl History {
    /// Nothing was done.
    #[must_use]
    pub fn new() -> Self {
        History {
            views: Vec::new(),
            durable: 0,
            model: Model::default(),
            touched: BTreeSet::new(),
            clock: NOW,
        }
    }

    /// Does `steps` operations that belong to `seed`, each seventh a synchronisation, and unmounts. Ends early when one of them fails.
    pub fn work(&mut self, fs: &mut dyn FileSystem, seed: u64, steps: u64, has_unwritten: bool) {
        {
            let Ok(mut work) = Workload::new(fs, seed, has_unwritten) else { return };
            work.small = true;
            self.views.push(work.view());
            self.model = work.model.clone();
            for step in 0..steps {
                let is_sync = step % 7 == 6;
                let done = if is_sync { work.durable() } else { work.step() };
                self.touched.clone_from(&work.touched);
                self.clock = work.clock;
                if done.is_err() {
                    break;
                }
                self.views.push(work.view());
                if is_sync {
                    self.durable = self.views.len() - 1;
                    self.model = work.model.clone();
                    work.touched.clear();
                    self.touched.clear();
                }
            }
            let _ = work.release_all();
            self.views.push(work.view());
        }
        if fs.unmount(Time::at(self.clock)).is_ok() {
            self.durable = self.views.len() - 1;
        }
    }

    /// An error if the tree is none that was there after the last synchronisation, or a file that was synchronised and not written since holds something else.
    /// The tree, otherwise.
    pub fn compare(&self, fs: &mut dyn FileSystem) -> Result<View, String> {
        let view = view_of(fs).map_err(|error| format!("{error} ({:?})", fs.trouble()))?;
        if !self.views.is_empty() && !self.views[self.durable..].contains(&view) {
            let was = self.views.iter().position(|old| *old == view);
            return Err(format!("the tree is none that was after operation {} (but {was:?})", self.durable));
        }
        for (inode, kind, ..) in view.values() {
            if *kind != FileKind::Regular || self.touched.contains(inode) {
                continue;
            }
            let Some(Body::File(contents)) = self.model.nodes.get(inode).map(|node| &node.body) else {
                continue;
            };
            for place in contents.written() {
                let mut buf = vec![0; 1024];
                let count = fs.read(InodeNo(*inode), place, &mut buf).map_err(|error| error.to_string())?;
                if buf[..count] != contents.read(place, 1024) {
                    return Err(format!("inode {inode} was synchronised, and has changed at {place}"));
                }
            }
        }
        Ok(view)
    }
}

impl Default for History {
    fn default() -> Self {
        History::new()
    }
}

/// How the tree looks.
pub fn view_of(fs: &mut dyn FileSystem) -> Result<View, Errno> {
    let mut view = View::new();
    let mut waiting = vec![(Vec::new(), fs.root())];
    while let Some((path, inode)) = waiting.pop() {
        let Attributes { kind, of, links, size, .. } = fs.getattr(inode)?;
        let size = if kind == FileKind::Directory { 0 } else { size };
        if kind == FileKind::Directory {
            for (name, inode) in names(fs, inode, 50)? {
                if name != b"." && name != b".." {
                    waiting.push(([&path[..], b"/", &name].concat(), inode));
                }
            }
        }
        view.insert(path, (inode.0, kind, of, links, size));
    }
    Ok(view)
}
