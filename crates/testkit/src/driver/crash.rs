// SPDX-License-Identifier: MIT OR Apache-2.0
//! The power fails while a driver works: afterwards there is a sound file system, as it was after one of the operations, and none that somebody
//! had synchronised is missing.

use std::sync::Arc;

use fsmend_device::WritableDevice;
use fsmend_disksim::{Machine, SimDisk};
use fsmend_ext_driver::mkfs::Kind;
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_vfs::{Attributes, Errno, FileKind, FileSystem, InodeNo, Time};

use super::model::{Body, Model};
use super::snapshot::names;
use super::workload::{View, Workload};
use super::{Base, NOW, complaint, damage_after_crash};

/// What was done before the power failed.
struct History {
    /// How the tree looked after each operation.
    views: Vec<View>,
    /// The latest of them that is durable, and what it held.
    durable: usize,
    model: Model,
    /// Files whose contents may have changed since.
    touched: std::collections::BTreeSet<u32>,
    clock: i64,
}

/// A sweep over one kind of work.
pub struct Sweep {
    base: Base,
    image: Arc<Vec<u8>>,
    seed: u64,
    steps: u64,
}

impl Sweep {
    /// Work of `steps` operations that belongs to `seed`.
    pub fn new(base: Base, seed: u64, steps: u64) -> Result<Self, String> {
        let image = Arc::new(base.make()?.bytes());
        Ok(Sweep { base, image, seed, steps })
    }

    /// How many requests that change something there are without a power cut.
    pub fn requests(&self) -> Result<u64, String> {
        let machine = Machine::new(self.seed);
        let disk = Arc::new(SimDisk::new("disk", &machine, Arc::clone(&self.image)));
        self.work(&disk)?;
        Ok(machine.changes())
    }

    /// Cuts the power during request `cut`, and if `again` is given once more during a request of the recovery.
    pub fn run(&self, cut: u64, again: Option<u64>) -> Result<(), String> {
        let machine = Machine::new(self.seed ^ cut << 20);
        let disk = Arc::new(SimDisk::new("disk", &machine, Arc::clone(&self.image)));
        machine.cut_power_at(cut);
        let history = self.work(&disk)?;
        machine.restart();
        // Sectors are whole, old or new: an unreadable one in a superblock is more than any ext3 survives.
        disk.forget_faults();
        if let Some(again) = again {
            machine.cut_power_at(again);
            let now = Time::at(history.clock);
            // It may also get through before the power fails.
            if let Ok(mut fs) =
                Ext::mount(Arc::clone(&disk) as Arc<dyn WritableDevice>, MountOptions::new(now))
            {
                let _ = fs.unmount(now);
            }
            machine.restart();
            disk.forget_faults();
        }
        self.judge(&disk, &history)
    }

    fn work(&self, disk: &Arc<SimDisk>) -> Result<History, String> {
        let device = Arc::clone(disk) as Arc<dyn WritableDevice>;
        let mut history = History {
            views: Vec::new(),
            durable: 0,
            model: Model::default(),
            touched: Default::default(),
            clock: NOW,
        };
        let Ok(mut fs) = Ext::mount(device, MountOptions::new(Time::at(NOW))) else { return Ok(history) };
        {
            let has_unwritten = self.base.kind == Kind::Ext4;
            let Ok(mut work) = Workload::new(&mut fs, self.seed, has_unwritten) else { return Ok(history) };
            work.small = true;
            history.views.push(work.view());
            history.model = work.model.clone();
            for step in 0..self.steps {
                let is_sync = step % 7 == 6;
                let done = if is_sync { work.durable() } else { work.step() };
                history.touched.clone_from(&work.touched);
                history.clock = work.clock;
                if done.is_err() {
                    break;
                }
                history.views.push(work.view());
                if is_sync {
                    history.durable = history.views.len() - 1;
                    history.model = work.model.clone();
                    work.touched.clear();
                    history.touched.clear();
                }
            }
            let _ = work.release_all();
            history.views.push(work.view());
        }
        if fs.unmount(Time::at(history.clock)).is_ok() {
            history.durable = history.views.len() - 1;
        }
        Ok(history)
    }

    fn judge(&self, disk: &Arc<SimDisk>, history: &History) -> Result<(), String> {
        let now = Time::at(history.clock);
        if self.base.kind != Kind::Ext2
            && let Some(said) = damage_after_crash(&disk.bytes(), history.clock)
        {
            return Err(format!("called damaged before it is mounted again: {said}"));
        }
        let device = Arc::clone(disk) as Arc<dyn WritableDevice>;
        let mut fs = Ext::mount(device, MountOptions::new(now)).map_err(|error| error.to_string())?;
        let view = view_of(&mut fs).map_err(|error| format!("{error} ({:?})", fs.trouble()))?;
        if !history.views.is_empty() && !history.views[history.durable..].contains(&view) {
            let was = history.views.iter().position(|old| *old == view);
            return Err(format!(
                "the tree is none that was after operation {} (but {was:?})",
                history.durable
            ));
        }
        self.compare_contents(&mut fs, &view, history)?;
        fs.unmount(now).map_err(|error| error.to_string())?;
        let said = complaint(&disk.bytes(), history.clock).map_err(|error| error.to_string())?;
        said.map_or(Ok(()), Err)
    }

    /// Files that were synchronised, and not written since, hold what they held.
    fn compare_contents(&self, fs: &mut Ext, view: &View, history: &History) -> Result<(), String> {
        for (inode, kind, ..) in view.values() {
            if *kind != FileKind::Regular || history.touched.contains(inode) {
                continue;
            }
            let Some(Body::File(contents)) = history.model.nodes.get(inode).map(|node| &node.body) else {
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
        Ok(())
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
