// SPDX-License-Identifier: MIT OR Apache-2.0
//! The power fails while a file system is mounted and unmounted, with nothing done in between: whatever request it is, a check finds nothing wrong
//! afterwards, `e2fsck -p` asks nothing, and the next mount shows the same tree.

use std::sync::Arc;

use fsmend_device::{WritableDevice, WritableMemory};
use fsmend_disksim::{Machine, SimDisk};
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_vfs::{FileSystem, InodeNo, Permissions, Time};

use super::history::view_of;
use super::workload::View;
use super::{Base, NOW, complaint, damage_after_crash, is_rext3, is_superblock_torn, keep};
use crate::process::Ended;
use crate::repair::{E2fsck, Scratch};

/// e2fsck, which takes longest, looks at the first of so many cuts.
const E2FSCK_EACH: u64 = 8;

/// An image that is mounted and unmounted.
pub struct Mounting {
    image: Arc<Vec<u8>>,
    view: View,
}

/// What a sweep met.
#[derive(Clone, Copy, Default, Debug)]
pub struct Met {
    /// Power cuts.
    pub cuts: u64,
    /// Of these, cuts that left two halves of different superblocks.
    pub torn: u64,
}

impl Mounting {
    /// Of this image, which may need recovery.
    pub fn of(image: Vec<u8>) -> Result<Self, String> {
        let device = Arc::new(WritableMemory::new("before", image.clone()));
        // What recovery makes of it, orphans included, when nothing disturbs it.
        let mut fs = mount(&device)?;
        let view = view_of(&mut fs).map_err(|error| error.to_string())?;
        fs.unmount(Time::at(NOW)).map_err(|error| error.to_string())?;
        Ok(Mounting { image: Arc::new(image), view })
    }

    /// Cuts the power at every request.
    pub fn sweep(&self, seed: u64) -> Result<Met, String> {
        let mut met = Met::default();
        for cut in 0.. {
            let machine = Machine::new(seed ^ cut << 20);
            let disk = Arc::new(SimDisk::new("disk", &machine, Arc::clone(&self.image)));
            machine.cut_power_at(cut);
            if let Ok(mut fs) = mount(&disk) {
                let _ = fs.unmount(Time::at(NOW));
            }
            if machine.is_on() {
                break;
            }
            machine.restart();
            disk.forget_faults();
            met.cuts += 1;
            met.torn += u64::from(is_superblock_torn(&disk.bytes()));
            let left = disk.bytes();
            self.judge(&disk, cut % E2FSCK_EACH == 0).map_err(|what| {
                keep("left-by-cut", &left);
                format!("seed {seed}, cut {cut}: {what}")
            })?;
        }
        Ok(met)
    }

    fn judge(&self, disk: &Arc<SimDisk>, with_e2fsck: bool) -> Result<(), String> {
        let left = disk.bytes();
        if let Some(said) = damage_after_crash(&left, NOW) {
            return Err(format!("a check of what was left: {said}"));
        }
        if with_e2fsck && !is_superblock_torn(&left) && !is_rext3(&left) {
            preened(&left)?;
        }
        let mut fs = mount(disk)?;
        let view = view_of(&mut fs).map_err(|error| format!("{error} ({:?})", fs.trouble()))?;
        fs.unmount(Time::at(NOW)).map_err(|error| error.to_string())?;
        if view != self.view {
            return Err("the next mount shows another tree".to_owned());
        }
        let said = complaint(&disk.bytes(), NOW).map_err(|error| error.to_string())?;
        said.map_or(Ok(()), |said| Err(format!("after the next mount: {said}")))
    }
}

fn mount<D: WritableDevice + 'static>(device: &Arc<D>) -> Result<Ext, String> {
    let device = Arc::clone(device) as Arc<dyn WritableDevice>;
    Ext::mount(device, MountOptions::new(Time::at(NOW))).map_err(|error| error.to_string())
}

/// e2fsck -p ends without asking for an administrator.
fn preened(image: &[u8]) -> Result<(), String> {
    let file = Scratch::with(image).map_err(|error| error.to_string())?;
    let e2fsck = E2fsck { now: NOW.unsigned_abs() + 1 };
    let run = e2fsck.run("-pf", file.path()).map_err(|error| error.to_string())?;
    match run.ended {
        Ended::Code(0 | 1) => Ok(()),
        other => Err(format!("e2fsck -p: {other:?}: {}", String::from_utf8_lossy(&run.stdout))),
    }
}

/// An image that was killed while it was in use: files and directories that are only in the journal, where there is one, and open files without names.
pub fn killed(base: &Base) -> Result<Vec<u8>, String> {
    let device = base.make()?;
    let mut fs = mount(&device)?;
    work_on(&mut fs).map_err(|error| error.to_string())?;
    Ok(device.bytes())
}

fn work_on(fs: &mut Ext) -> fsmend_vfs::Result<()> {
    let (now, root) = (Time::at(NOW), fs.root());
    let of = |mode| Permissions { mode, uid: 1000, gid: 1000 };
    let folder = fs.mkdir(root, b"folder", of(0o755), now)?.inode;
    let mut open = Vec::<InodeNo>::new();
    for number in 0..40_u8 {
        let name = [b'f', b'0' + number / 10, b'0' + number % 10];
        let inode = fs.create(folder, &name, of(0o644), now)?.inode;
        // Blocks here and there, so that there are maps to be cut.
        for piece in 0..u64::from(number / 2) {
            fs.write(inode, piece * 70_000, &[number; 3000], now)?;
        }
        if number % 5 == 0 {
            open.push(inode);
        }
    }
    for (number, inode) in open.into_iter().enumerate() {
        let number = number * 5;
        fs.hold(inode)?;
        fs.unlink(folder, &[b'f', b'0' + (number / 10) as u8, b'0' + (number % 10) as u8], now)?;
    }
    fs.sync(now)
}
