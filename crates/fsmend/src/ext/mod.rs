//! ext2, ext3, ext4 and rext3.

mod mmp;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, FileDevice};
use fsmend_engine::options::{CheckOptions, RepairOptions, SuperblockOptions};
use fsmend_engine::repair::Rest;
use fsmend_engine::report::{CheckReport, Repair};
use fsmend_engine::{FileChange, Findings, Problem, Progress, Refusal, Refused, Row};
use fsmend_ext_check::superblock::settle;
use fsmend_ext_check::{catalogue, directory, links, repair, run};
use fsmend_ext_format::superblock::{
    EXT_MAGIC, JournalElsewhere, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE,
};
use fsmend_session::{Change, Environment, Family, JournalPlace};
use zerocopy::FromBytes;

/// Problems whose repair gives a name in `lost+found`.
const RECOVERING: [&Row; 2] = [&links::problems::UNATTACHED, &directory::problems::UNCONNECTED];

/// Where the superblock of a journal device has its UUID.
const JOURNAL_UUID: Range<u64> = SUPERBLOCK_OFFSET + 0x68..SUPERBLOCK_OFFSET + 0x78;

/// The family.
pub struct Ext;

impl Family for Ext {
    fn name(&self) -> &'static str {
        "ext"
    }

    fn recognises(&self, device: &dyn Device) -> bool {
        superblock(device).is_some_and(|raw| raw.s_magic.get() == EXT_MAGIC)
    }

    fn catalogue(&self) -> Vec<&'static Row> {
        catalogue::all()
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
        repair: (&Vec<Change>, &[&Problem]),
        declined: &[&Problem],
        watch: (&Progress, &AtomicBool),
    ) -> Result<Option<Rest>, Refused> {
        repair::without(device, options, repair, declined, watch)
    }

    fn files(&self, device: &Arc<dyn Device>, repair: &mut Repair, check: &CheckOptions) -> Vec<FileChange> {
        repair::files(device, repair, check)
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

/// The superblock on `device`, whatever it says.
pub fn superblock(device: &dyn Device) -> Option<RawSuperblock> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes).ok()?;
    RawSuperblock::read_from_bytes(&bytes).ok()
}
