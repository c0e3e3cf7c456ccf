// SPDX-License-Identifier: MIT OR Apache-2.0
//! The power fails while a driver works: afterwards there is a sound file system, as it was after one of the operations, and none that somebody
//! had synchronised is missing.

use std::sync::Arc;

use fsmend_device::WritableDevice;
use fsmend_disksim::{Machine, SimDisk};
use fsmend_ext_driver::mkfs::Kind;
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_vfs::{FileSystem, Time};

use super::history::History;
use super::{Base, NOW, complaint, damage_after_crash};

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
        let mut history = History::new();
        let Ok(mut fs) = Ext::mount(device, MountOptions::new(Time::at(NOW))) else { return Ok(history) };
        history.work(&mut fs, self.seed, self.steps, self.base.kind == Kind::Ext4);
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
        history.compare(&mut fs)?;
        fs.unmount(now).map_err(|error| error.to_string())?;
        let said = complaint(&disk.bytes(), history.clock).map_err(|error| error.to_string())?;
        said.map_or(Ok(()), Err)
    }
}
