// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file system that its own mount keeps a state of: it is asked for one, which stays whole on the device while the mount goes on, and that is checked. Nobody waits.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime};

use fsmend_device::{Device, Served, served_at};
use fsmend_engine::options::CheckOptions;
use fsmend_engine::report::CheckReport;
use fsmend_engine::{Findings, Progress, Refusal, Refused};
use fsmend_session::live::Pins;

use crate::check_args::CheckArgs;
use crate::online::view::{Online, View};
use crate::outcome::{self, Answer, Checked, Outcome};
use crate::target;
use crate::ticker::Ticker;

/// Longer than what such an attribute says.
const VALUE_MAX: usize = 64;

/// A state that is kept; let go when it is dropped.
struct Pinned<'s> {
    at: &'s Path,
    attribute: &'static [u8],
    value: String,
}

impl<'s> Pinned<'s> {
    fn take(at: &'s Path, attribute: &'static [u8]) -> Result<Self, String> {
        rustix::fs::setxattr(at, attribute, b"", rustix::fs::XattrFlags::empty())
            .map_err(|error| error.to_string())?;
        let value = value(at, attribute).ok_or("it was let go at once")?;
        Ok(Pinned { at, attribute, value })
    }

    fn is_kept(&self) -> bool {
        value(self.at, self.attribute).as_ref() == Some(&self.value)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // What another check has asked for meanwhile is not ours.
        if self.is_kept() {
            let _ = rustix::fs::removexattr(self.at, self.attribute);
        }
    }
}

fn value(at: &Path, attribute: &[u8]) -> Option<String> {
    let mut bytes = [0; VALUE_MAX];
    let len = rustix::fs::getxattr(at, attribute, &mut bytes).ok()?;
    String::from_utf8(bytes.get(..len)?.to_vec()).ok()
}

/// Checks what `path` names, if a mount of ours serves it and can keep a state. None: it is something else.
pub fn check(
    arguments: &CheckArgs,
    path: &Path,
    options: &CheckOptions,
    cancel: &AtomicBool,
) -> Option<Outcome> {
    let served = served_at(path).ok().flatten().filter(|served| !served.read_only)?;
    let opened = fsmend_device::open(&served.source, &arguments.open_options(), &target::FAMILIES).ok()?;
    let mut targets = opened.targets;
    let device = targets.pop().filter(|_| targets.is_empty())?.device;
    let family = target::FAMILIES.recognise(&*device)?;
    let pins = family.pins()?;
    let environment = target::environment();
    let options_of = (&environment, arguments.common.superblock_options());
    let mut warnings = Vec::new();
    let named = arguments.common.journal.as_deref();
    let device = target::whole(&device, named, options_of, |sentence| warnings.push(sentence));
    let started = Instant::now();
    let progress = [Progress::new()];
    let mut seen = None;
    Ticker::new(arguments.common.progress).run_beside(&progress, || {
        seen = Some(match &device {
            Ok(device) => see((&served, pins), device, options, &progress[0], cancel),
            Err(refusal) => (Err(plain(refusal.clone())), SystemTime::now()),
        });
    });
    let (result, at) = seen.unwrap_or_else(|| (Err(plain(outcome::cancelled())), SystemTime::now()));
    let (result, found_before) = match result {
        Ok(report) => (Ok(Answer::Checked(Box::new(Checked::from(report)))), Default::default()),
        Err(refused) => (Err(refused.refusal), fsmend_engine::report::Report::new(*refused.findings)),
    };
    Some(Outcome {
        target: path.display().to_string(),
        partition: None,
        warnings,
        wall: started.elapsed(),
        result,
        found_before,
        online: Some(Online::new(View::Pinned, at)),
    })
}

fn plain(refusal: Refusal) -> Refused {
    Refused { refusal, findings: Box::new(Findings::new()) }
}

fn see(
    (served, pins): (&Served, &'static dyn Pins),
    device: &Arc<dyn Device>,
    options: &CheckOptions,
    progress: &Progress,
    cancel: &AtomicBool,
) -> (Result<CheckReport, Refused>, SystemTime) {
    let at = SystemTime::now();
    let refused =
        |code, message: String, hint: &str| Err(plain(Refusal { code, message, hint: hint.to_owned() }));
    let pinned = match Pinned::take(&served.at, pins.attribute()) {
        Ok(pinned) => pinned,
        Err(why) => {
            let message = format!("The mount at {} cannot keep a state ({why})", served.at.display());
            return (
                refused("no-view", message, "Unmount it, or check it as a user who may write to its root"),
                at,
            );
        }
    };
    let view = match pins.view(device, &pinned.value) {
        Ok(view) => view,
        Err(why) => {
            let message = format!("The state that the mount keeps cannot be read: {why}");
            return (refused("no-view", message, "Run it again"), at);
        }
    };
    let family = target::FAMILIES.of(&*view);
    let result = family.check(&view, options, progress, cancel);
    if !pinned.is_kept() {
        let message = "The mount could not keep the state until the end of the check: too much was written, or another check began".to_owned();
        return (refused("view-lost", message, "Run it again when less is written"), at);
    }
    (result, at)
}
