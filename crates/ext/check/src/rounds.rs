// SPDX-License-Identifier: MIT OR Apache-2.0
//! The place above check and repair: what the engine's rounds call. Neither of the two knows the other.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::Device;
use fsmend_engine::names::recovered::last_names;
use fsmend_engine::options::{CheckOptions, RepairOptions};
use fsmend_engine::repair::changes::joined;
use fsmend_engine::repair::{Changes, Format, Mended, Partial, Rest, Round, Whole};
use fsmend_engine::report::{CheckReport, Naming, Repair};
use fsmend_engine::{Problem, Progress, Refusal, Refused};
use fsmend_ext_format::features::RoCompat;

use crate::journal::problems::NOT_REPLAYED;
use crate::precheck::precheck;
use crate::run::{Facts, check_for_repair};
use crate::{bad_blocks, repair, superblock};
use fsmend_engine::scan::memory_plan as memory;

/// Memory that is left for the check of a repair, beside facts and what was written, at the least.
const NEXT_CHECK_BYTES: u64 = 6 << 20;

/// ext2, ext3 and ext4, as the engine's rounds see them.
pub struct Ext;

impl Format for Ext {
    type Facts = Facts;

    fn check(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        naming: Naming,
        watch: (&Progress, &AtomicBool),
    ) -> Result<(CheckReport, Option<Facts>), Refused> {
        check_for_repair(device, options, naming, watch)
    }

    fn repair(
        &self,
        facts: Facts,
        options: &CheckOptions,
        report: &mut CheckReport,
    ) -> Result<Round, Refused> {
        mend(facts, options, report).map_err(|refusal| Refused { refusal, findings: Box::default() })
    }

    fn prepare(&self, device: &Arc<dyn Device>, options: &RepairOptions) -> Result<Changes, Refused> {
        let changes = match &options.policy.bad_blocks {
            Some(option) => bad_blocks::relist(device, &options.check, option)?,
            None => Changes::new(),
        };
        refuse_waiting_journal(device, &options.check)?;
        Ok(changes)
    }
}

impl Partial for Ext {
    fn records(
        &self,
        repaired: &Arc<dyn Device>,
        options: &RepairOptions,
        declined: &[&Problem],
    ) -> Result<Vec<(u64, u64)>, Refused> {
        repair::records::spared(&**repaired, options, declined)
    }

    fn replayed(&self, device: &Arc<dyn Device>, options: &RepairOptions) -> Result<Changes, Refused> {
        repair::records::replayed(device, options)
    }

    fn marked_unclean(&self, device: &Arc<dyn Device>, changes: Changes) -> Changes {
        repair::records::marked_unclean(device, changes)
    }
}

/// Works out what makes the file system on `device` sound. Nothing is written.
pub fn plan(
    device: &Arc<dyn Device>,
    options: &RepairOptions,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<Repair, Refused> {
    fsmend_engine::repair::plan(&Ext, device, options, progress, cancel)
}

/// What remains of a repair when the problems `declined` are left alone. `None` if the rest would break what was not broken before.
pub fn without(
    device: &Arc<dyn Device>,
    options: &RepairOptions,
    repair: Whole<'_>,
    declined: &[&Problem],
    watch: (&Progress, &AtomicBool),
) -> Result<Option<Rest>, Refused> {
    fsmend_engine::repair::without(&Ext, device, options, repair, declined, watch)
}

/// What repairs what was found, as far as one round can.
fn mend(facts: Facts, options: &CheckOptions, report: &mut CheckReport) -> Result<Round, Refusal> {
    let Facts { overlay, layout, cross, journal_changes, budget } = facts;
    let nothing = |journal_changes| Ok(Round { journal_changes, ..Round::default() });
    let (Some((inodes, claims, mut repair_input)), Some(policy)) = (cross, options.repair.clone()) else {
        return nothing(journal_changes);
    };
    let fs = layout.on(&overlay);
    let features = fs.geometry.features;
    let refusal = match features.has_ro_compat(RoCompat::SHARED_BLOCKS) && !policy.unshare {
        true => Some(shared()),
        false => superblock::unknown_to_repairs(features),
    };
    if let Some(refusal) = refusal {
        return if report.findings.is_damaged() { Err(refusal) } else { nothing(journal_changes) };
    }
    if policy.former_names {
        repair_input.last_names = last_names(&report.findings);
    }
    // What is written is handed on, not copied; but what the journal has brought is held twice, and the next check has to find memory beside it all.
    let free = budget.free().saturating_sub(overlay.bytes_held());
    repair_input.room = Some(free.saturating_sub((free / 4).max(NEXT_CHECK_BYTES)));
    let Some(Mended { changes, copies, mends, lost }) =
        repair::mend(fs, (inodes, claims), repair_input, policy, options.repair_pool())
    else {
        budget.charge(budget.free() + 1);
        memory::stop_if_exhausted(&budget)?;
        return nothing(journal_changes);
    };
    report.findings.merge(lost);
    let (changes, copies) = joined(&overlay, changes, copies);
    Ok(Round { changes, copies, journal_changes, mends })
}

/// A file system whose files share blocks on purpose is never written.
fn shared() -> Refusal {
    Refusal {
        code: "shared-blocks",
        message: "The file system is damaged and has the shared_blocks feature: it is read-only".to_owned(),
        hint: "Copy all shared blocks (--unshare) to make it an ordinary file system".to_owned(),
    }
}

/// What the journal holds is newer than what is on the disk: a repair without it would mend what is not wrong, and the next replay
/// would write old blocks over what it has mended.
fn refuse_waiting_journal(device: &Arc<dyn Device>, check: &CheckOptions) -> Result<(), Refused> {
    if check.replay || !precheck(device, check)?.findings.has(&NOT_REPLAYED) {
        return Ok(());
    }
    let refusal = Refusal {
        code: "journal-not-replayed",
        message: "the journal has to be replayed; a repair without the replay would cause damage".to_owned(),
        hint: "Repair without --no-replay: the replay is part of the plan. check --no-replay shows the problems on the disk"
            .to_owned(),
    };
    Err(Refused { refusal, findings: Box::default() })
}
