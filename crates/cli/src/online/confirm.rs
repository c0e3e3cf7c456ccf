// SPDX-License-Identifier: MIT OR Apache-2.0
//! The view of last resort: the live file system is scanned, and what is found is looked at again while it is frozen for milliseconds.
//!
//! Nothing is called a problem that was not found on the frozen file system, read from the medium: a false alarm would need a file system
//! that is wrong while it stands still. Three looks are possible, the cheapest first (docs/decisions, "Checking online"):
//!
//! 1. No suspicion comes back in further scans: a look at superblock, groups and journal is enough.
//! 2. The whole check fits into the limit (it was tried before, without a freeze): it is run once more, frozen.
//! 3. It does not: those records are looked at that prove a problem by themselves; the rest is called unconfirmed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use fsmend_device::{Device, FileDevice, FreshDevice, Mounted, ReadBackend, missing_permission};
use fsmend_engine::options::CheckOptions;
use fsmend_engine::report::CheckReport;
use fsmend_engine::{Findings, Problem, Progress, Refusal, Refused};
use fsmend_session::text::sentence;

use super::freeze::{Freeze, Freezer, stopping_at};
use super::{Online, Rules, Seen, View, is_cancelled, judged};

/// A whole check is tried on the frozen file system unless it takes longer than so many times the limit while others go on writing: it
/// is quicker when they wait.
const TIMES_LIVE: u32 = 2;

/// The live file system is scanned at most so often; a third time and more only if a scan is short.
const SCANS_MAX: u32 = 5;
const SHORT_SCAN: Duration = Duration::from_secs(30);

/// What the live scans left.
struct Scanned {
    report: CheckReport,
    /// None if even the scan was not possible: then only a whole check can tell.
    suspicions: Option<Vec<Problem>>,
    refused: Option<Refused>,
}

/// What is at hand.
struct Confirmation<'a> {
    rules: Rules,
    path: &'a Path,
    cached: Arc<dyn Device>,
    options: &'a CheckOptions,
    fresh_options: CheckOptions,
    cancel: &'a AtomicBool,
}

/// Scans, freezes and confirms.
pub fn see(
    (found, rules): (&Mounted, Rules),
    freezer: Result<Freezer, String>,
    options: &CheckOptions,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Seen {
    let confirmation = match Confirmation::new((&found.device, rules), options, cancel) {
        Ok(confirmation) => confirmation,
        Err(refusal) => return refused(refusal),
    };
    if let Ok(freezer) = &freezer {
        // What waits in memory would look like damage.
        let _ = freezer.sync();
    }
    let scanned = confirmation.scan(progress);
    if is_cancelled(cancel) {
        return refused(crate::outcome::cancelled());
    }
    match freezer {
        Ok(mut freezer) => confirmation.settle(scanned, &mut freezer),
        Err(why) => unconfirmed(scanned, format!("It was not frozen: {why}")),
    }
}

impl<'a> Confirmation<'a> {
    fn new(
        (path, rules): (&'a Path, Rules),
        options: &'a CheckOptions,
        cancel: &'a AtomicBool,
    ) -> Result<Self, Refusal> {
        let refusal = |error: std::io::Error| cannot_read(path, &error).refusal;
        let cached: Arc<dyn Device> = Arc::new(FileDevice::open(path).map_err(refusal)?);
        // The page cache has nothing to give there.
        let backend = match options.backend {
            ReadBackend::Auto => ReadBackend::Uring,
            other => other,
        };
        let fresh_options = CheckOptions { backend, ..options.clone() };
        let confirmation = Confirmation { rules, path, cached, options, fresh_options, cancel };
        confirmation.fresh().map_err(refusal)?;
        Ok(confirmation)
    }

    /// The device as it is on the medium. What one look has read is not kept for the next one.
    fn fresh(&self) -> std::io::Result<Arc<dyn Device>> {
        Ok(Arc::new(FreshDevice::open(self.path)?))
    }

    /// Scans the live file system, and again as long as that clears suspicions.
    fn scan(&self, progress: &Progress) -> Scanned {
        let live = CheckOptions { replay: false, ..self.options.clone() };
        let mut report = match self.rules.family.check(&self.cached, &live, progress, self.cancel) {
            Ok(report) => report,
            Err(refused) => return Scanned::impossible(refused),
        };
        let mut left = self.suspicions_of(&report);
        let mut scans = 1;
        while !left.is_empty() && scans < SCANS_MAX {
            let (started, before) = (Instant::now(), left);
            report = match self.rules.family.check(&self.cached, &live, &Progress::new(), self.cancel) {
                Ok(report) => report,
                Err(refused) => return Scanned::impossible(refused),
            };
            left = self.rules.live.recurring(self.suspicions_of(&report), &before);
            scans += 1;
            if left.len() == before.len() || started.elapsed() > SHORT_SCAN {
                break;
            }
        }
        Scanned { report, suspicions: Some(left), refused: None }
    }

    fn suspicions_of(&self, report: &CheckReport) -> Vec<Problem> {
        let findings = report.findings.iter().cloned().collect();
        self.rules.live.suspicions(Findings::from_parts(findings, report.findings.counts()))
    }

    fn settle(&self, scanned: Scanned, freezer: &mut Freezer) -> Seen {
        let mut scanned = scanned;
        if scanned.suspicions.as_ref().is_some_and(Vec::is_empty) {
            match self.look_frozen(scanned, freezer) {
                Ok(seen) => return *seen,
                Err((back, _)) if is_cancelled(self.cancel) => {
                    drop(back);
                    return refused(crate::outcome::cancelled());
                }
                Err((back, None)) => scanned = *back,
                Err((back, Some(why))) => return unconfirmed(*back, why),
            }
        }
        match self.check_frozen(freezer) {
            Some(Ok((result, freeze))) => judged(self.rules, result, online(View::FrozenCheck, freeze)),
            Some(Err(why)) => unconfirmed(scanned, why),
            None if is_cancelled(self.cancel) => refused(crate::outcome::cancelled()),
            None => self.confirm_frozen(scanned, freezer),
        }
    }

    /// The first look. If it is not enough, the scan comes back; with a reason if nothing more is possible either.
    #[allow(clippy::type_complexity)]
    fn look_frozen(
        &self,
        scanned: Scanned,
        freezer: &mut Freezer,
    ) -> Result<Box<Seen>, (Box<Scanned>, Option<String>)> {
        let look = |_: &AtomicBool| {
            self.fresh().ok().and_then(|fresh| self.rules.live.look(&fresh, &self.fresh_options).ok())
        };
        match freezer.while_frozen(self.cancel, look) {
            Ok((Some(Some(seen)), freeze)) => {
                // Its suspicions have all gone: what the look saw, and the counts of the scan.
                let mut report = CheckReport { findings: seen.findings, ..scanned.report };
                report.summary.journal = seen.journal;
                Ok(Box::new(judged(self.rules, Ok(report), online(View::FrozenLook, freeze))))
            }
            Ok(_) => Err((Box::new(scanned), None)),
            Err(why) => Err((Box::new(scanned), Some(format!("It was not frozen: {why}")))),
        }
    }

    /// The second look; none if it does not fit into the limit.
    #[allow(clippy::type_complexity)]
    fn check_frozen(
        &self,
        freezer: &mut Freezer,
    ) -> Option<Result<(Result<CheckReport, Refused>, Freeze), String>> {
        let check = |stop: &AtomicBool| match self.fresh() {
            Ok(fresh) => self.rules.family.check(&fresh, &self.fresh_options, &Progress::new(), stop),
            Err(error) => Err(cannot_read(self.path, &error)),
        };
        let rehearsed = stopping_at(Instant::now() + freezer.limit() * TIMES_LIVE, self.cancel, check);
        if is_stopped(&rehearsed) {
            return None;
        }
        match freezer.while_frozen(self.cancel, check) {
            Ok((result, _)) if is_stopped(&result) => None,
            Ok(found) => Some(Ok(found)),
            Err(why) => Some(Err(format!("It was not frozen: {why}"))),
        }
    }

    /// The third look.
    fn confirm_frozen(&self, scanned: Scanned, freezer: &mut Freezer) -> Seen {
        let reason = format!(
            "A complete check takes longer than a freeze of {} ms; only problems within single files were confirmed",
            freezer.limit().as_millis()
        );
        let Some(suspicions) = scanned.suspicions.clone() else { return unconfirmed(scanned, reason) };
        let look = |stop: &AtomicBool| match self.fresh() {
            Ok(fresh) => self.rules.live.confirm(&fresh, &self.fresh_options, suspicions, stop),
            Err(_) => (Vec::new(), suspicions),
        };
        match freezer.while_frozen(self.cancel, look) {
            Ok(((stands, left), freeze)) => {
                let findings = together(stands);
                let mut online = online(View::FrozenRecords, freeze);
                online.reason = (!left.is_empty()).then_some(reason);
                let result = Ok(CheckReport { findings, ..scanned.report });
                Seen { result, unconfirmed: together(left), online }
            }
            Err(why) => unconfirmed(scanned, format!("It was not frozen: {why}")),
        }
    }
}

impl Scanned {
    fn impossible(refused: Refused) -> Self {
        Scanned { report: CheckReport::default(), suspicions: None, refused: Some(refused) }
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Refused {
    let refusal = Refusal {
        code: "cannot-open",
        message: format!("{} cannot be read ({error})", path.display()),
        hint: sentence(&missing_permission(error, "read")),
    };
    Refused { refusal, findings: Box::new(Findings::new()) }
}

fn together(problems: Vec<Problem>) -> Findings {
    let mut findings = Findings::new();
    problems.into_iter().for_each(|problem| findings.raise(problem));
    findings
}

fn is_stopped(result: &Result<CheckReport, Refused>) -> bool {
    matches!(result, Err(refused) if refused.refusal.code == crate::outcome::CANCELLED_CODE)
}

fn online(view: View, freeze: Freeze) -> Online {
    Online { frozen: Some(freeze.lasted), ..Online::new(view, freeze.at) }
}

/// What the scan left, none of it confirmed.
fn unconfirmed(scanned: Scanned, reason: String) -> Seen {
    let Scanned { report, suspicions, refused } = scanned;
    let suspicions = suspicions.unwrap_or_default();
    let online = Online { reason: Some(reason), ..Online::new(View::Live, SystemTime::now()) };
    let result = match refused {
        Some(refused) => Err(refused),
        None => Ok(CheckReport { findings: Findings::new(), ..report }),
    };
    Seen { result, unconfirmed: together(suspicions), online }
}

fn refused(refusal: Refusal) -> Seen {
    let result = Err(Refused { refusal, findings: Box::new(Findings::new()) });
    Seen { result, unconfirmed: Findings::new(), online: Online::new(View::Live, SystemTime::now()) }
}
