// SPDX-License-Identifier: MIT OR Apache-2.0
//! ext2, ext3, ext4 and rext3.

mod description;
pub(crate) mod driving;
mod live;
mod mmp;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, FileDevice, Trace};
use fsmend_engine::layout::Layout;
use fsmend_engine::options::{CheckOptions, RepairOptions, SuperblockOptions};
use fsmend_engine::repair::{Rest, Whole};
use fsmend_engine::report::{CheckReport, Repair};
use fsmend_engine::shapes::FileShapes;
use fsmend_engine::{Estimate, FileChange, Findings, Problem, Progress, Refusal, Refused, Row};
use fsmend_ext_check::superblock::{problems as superblock_rows, settle};
use fsmend_ext_check::{catalogue, directory, links, repair, run};
use fsmend_ext_format::superblock::{
    EXT_MAGIC, JournalElsewhere, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE,
};
use fsmend_session::live::Live;
use fsmend_session::{Change, Description, Driver, Environment, Family, JournalPlace};
use fsmend_vfs::Time;
use zerocopy::FromBytes;

/// Problems whose repair gives a name in `lost+found`.
const RECOVERING: [&Row; 2] = [&links::problems::UNATTACHED, &directory::problems::UNCONNECTED];

/// Names whose inodes are not in use.
const UNUSED_NAMES: [&Row; 1] = [&directory::problems::ENTRY_INODE_UNUSED];

/// A backup of the superblock was used.
const FROM_COPY: [&Row; 1] = [&superblock_rows::PRIMARY_REPLACED];

/// Where the superblock of a journal device has its UUID.
const JOURNAL_UUID: Range<u64> = SUPERBLOCK_OFFSET + 0x68..SUPERBLOCK_OFFSET + 0x78;

/// Logarithm (over 1 KiB) of the largest block: 64 KiB.
const LOG_BLOCK_SIZE_MAX: u32 = 6;

/// The family.
pub struct Ext;

impl Family for Ext {
    fn name(&self) -> &'static str {
        "ext"
    }

    fn title(&self) -> &'static str {
        "an ext2, ext3 or ext4 file system"
    }

    fn kernel_types(&self) -> &'static [&'static str] {
        &["ext2", "ext3", "ext4"]
    }

    fn trace(&self, device: &dyn Device) -> Option<Trace> {
        match superblock(device).filter(|raw| raw.s_magic.get() == EXT_MAGIC) {
            Some(raw) if raw.s_log_block_size.get() <= LOG_BLOCK_SIZE_MAX => Some(Trace::Superblock),
            Some(_) => Some(Trace::Magic),
            None => has_backup(device).then_some(Trace::Copy),
        }
    }

    fn catalogue(&self) -> Vec<&'static Row> {
        catalogue::all()
    }

    fn describe(&self, device: &Arc<dyn Device>, now: Time) -> Result<Description, String> {
        description::describe(device, now)
    }

    fn label(&self, device: &dyn Device) -> Option<String> {
        label(&superblock(device)?)
    }

    fn driver(&self) -> Option<&'static dyn Driver> {
        Some(&driving::ExtDriver)
    }

    fn live(&self) -> Option<&'static dyn Live> {
        Some(&live::ExtLive)
    }

    fn check(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        progress: &Progress,
        cancel: &AtomicBool,
    ) -> Result<CheckReport, Refused> {
        run::check(device, options, progress, cancel)
    }

    fn estimate(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        cancel: &AtomicBool,
    ) -> Result<Estimate, Refusal> {
        run::estimate(device, options, cancel)
    }

    fn plan(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        progress: &Progress,
        cancel: &AtomicBool,
    ) -> Result<Repair, Refused> {
        repair::plan(device, options, progress, cancel)
    }

    fn without(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        repair: Whole<'_>,
        declined: &[&Problem],
        watch: (&Progress, &AtomicBool),
    ) -> Result<Option<Rest>, Refused> {
        repair::without(device, options, repair, declined, watch)
    }

    fn files(&self, device: &Arc<dyn Device>, repair: &mut Repair, check: &CheckOptions) -> Vec<FileChange> {
        repair::files(device, repair, check)
    }

    fn layout(&self, device: &Arc<dyn Device>, check: &CheckOptions, with_free: bool) -> Option<Layout> {
        fsmend_ext_check::layout::layout(device, check, with_free)
    }

    fn shapes(&self, device: &Arc<dyn Device>, check: &CheckOptions) -> Option<FileShapes> {
        fsmend_ext_check::shapes::shapes(device, check)
    }

    fn marker(&self, device: &dyn Device, changes: &[Change]) -> Vec<Change> {
        repair::marker(device, changes)
    }

    fn last(&self, changes: &[Change]) -> Vec<(u64, u64)> {
        repair::last(changes)
    }

    fn recovering(&self) -> &'static [&'static Row] {
        &RECOVERING
    }

    fn sharing(&self) -> &'static [&'static Row] {
        catalogue::SHARING
    }

    fn unused_names(&self) -> &'static [&'static Row] {
        &UNUSED_NAMES
    }

    fn read_by_copy(&self) -> &'static [&'static Row] {
        &FROM_COPY
    }

    fn wait_for_others(
        &self,
        device: &dyn Device,
        environment: &Environment,
        tell: &mut dyn FnMut(String),
        cancel: &AtomicBool,
    ) -> Result<(), Refusal> {
        mmp::wait_for_rest(device, environment, tell, cancel)
    }

    fn keep_out(&self, device: &dyn Device, environment: &Environment) -> (Option<Change>, Option<Change>) {
        mmp::mark_and_rest(device, environment)
    }

    fn external_journal(
        &self,
        device: &dyn Device,
        options: SuperblockOptions,
        now: u64,
    ) -> Option<Box<dyn JournalPlace>> {
        let primary = superblock(device).filter(|raw| raw.s_magic.get() == EXT_MAGIC);
        let elsewhere = match primary.filter(|_| options.block.is_none()) {
            Some(primary) => primary.journal_elsewhere(),
            None => settle(device, options, now, &mut Findings::new()).ok()?.superblock.journal_elsewhere(),
        };
        elsewhere.map(|elsewhere| Box::new(Elsewhere(elsewhere)) as Box<dyn JournalPlace>)
    }

    fn journal_identity(&self) -> Range<u64> {
        JOURNAL_UUID
    }
}

struct Elsewhere(JournalElsewhere);

impl JournalPlace for Elsewhere {
    fn number(&self) -> u32 {
        self.0.number
    }

    fn is(&self, path: &Path) -> bool {
        FileDevice::open(path).is_ok_and(|device| superblock(&device).is_some_and(|raw| self.0.is(&raw)))
    }
}

/// Whether the backup in group 1 is there, for each block size with the usual number of blocks per group (8 bits in
/// each byte of a bitmap block). It names its own group, and its own block size, so that it is not taken for the
/// superblock of something inside the file system.
fn has_backup(device: &dyn Device) -> bool {
    (0..=LOG_BLOCK_SIZE_MAX).any(|log| {
        let block_bytes = 1024u64 << log;
        let first_block = u64::from(log == 0);
        let place = (first_block + (8 * block_bytes).min(65_528)) * block_bytes;
        read(device, place).is_some_and(|raw| {
            raw.s_magic.get() == EXT_MAGIC
                && raw.s_log_block_size.get() == log
                && raw.s_block_group_nr.get() == 1
        })
    })
}

/// The label, as far as it is text; `None` if it is empty.
fn label(raw: &RawSuperblock) -> Option<String> {
    let bytes = raw.s_volume_name.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(bytes).into_owned()).filter(|label| !label.is_empty())
}

/// The superblock on `device`, whatever it says.
pub fn superblock(device: &dyn Device) -> Option<RawSuperblock> {
    read(device, SUPERBLOCK_OFFSET)
}

fn read(device: &dyn Device, place: u64) -> Option<RawSuperblock> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read_at(place, &mut bytes).ok()?;
    RawSuperblock::read_from_bytes(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use fsmend_device::MemoryDevice;

    use super::*;

    #[test]
    fn a_backup_is_enough() {
        let mut bytes = vec![0; 9 << 20];
        let backup = 8193 * 1024;
        bytes[backup + 56..backup + 58].copy_from_slice(&EXT_MAGIC.to_le_bytes());
        bytes[backup + 90] = 1;
        assert_eq!(Ext.trace(&MemoryDevice::new("m", bytes.clone())), Some(Trace::Copy));
        bytes[backup + 24] = 1;
        let wrong = MemoryDevice::new("m", bytes);
        assert_eq!(Ext.trace(&wrong), None, "the wrong block size for its place");
    }
}
