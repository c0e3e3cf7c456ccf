// SPDX-License-Identifier: MIT OR Apache-2.0
//! An ext file system that a kernel has mounted for writing while it is checked.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::Device;
use fsmend_engine::options::CheckOptions;
use fsmend_engine::report::JournalUse;
use fsmend_engine::{Findings, Problem, Refused};
use fsmend_ext_check::online;
use fsmend_session::live::{Judged, Live, Look};

/// The rules of [`fsmend_ext_check::online`].
pub struct ExtLive;

impl Live for ExtLive {
    fn judge(&self, findings: Findings, journal: JournalUse) -> Judged {
        let online::Judged { stands, undecided } = online::judge(findings, journal);
        Judged { stands, undecided }
    }

    fn suspicions(&self, findings: Findings) -> Vec<Problem> {
        online::suspicions(findings)
    }

    fn recurring(&self, now: Vec<Problem>, before: &[Problem]) -> Vec<Problem> {
        online::recurring(now, before)
    }

    fn look(&self, device: &Arc<dyn Device>, options: &CheckOptions) -> Result<Option<Look>, Refused> {
        let seen = online::look(device, options)?;
        Ok(seen.map(|seen| Look { findings: seen.findings, journal: seen.summary.journal }))
    }

    fn confirm(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        suspicions: Vec<Problem>,
        stop: &AtomicBool,
    ) -> (Vec<Problem>, Vec<Problem>) {
        online::confirm(device, options, suspicions, stop)
    }
}
