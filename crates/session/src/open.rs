// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a name to file systems that can be read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fsmend_device::{Device, Limited, Noted, OpenError, OpenOptions, Opened, ReadLimit, Usage, Whatever};
use fsmend_engine::Refusal;
use fsmend_engine::options::SuperblockOptions;

use crate::text::sentence;
use crate::{Environment, ending, journal_device};

/// One file system to check.
pub struct Volume {
    /// The target as the user named it.
    pub target: String,
    /// Its path.
    pub path: PathBuf,
    /// The partition of the target, when it is one.
    pub partition: Option<u32>,
    /// Byte of the target at which it starts.
    pub start: u64,
    /// Things the user should know, in sentences.
    pub warnings: Vec<String>,
    /// The device, or why there is none.
    pub device: Result<Arc<dyn Device>, Refusal>,
    /// Its external journal, if it has one and the user did not name one.
    pub journal: Option<Arc<dyn Device>>,
    /// What remembers where the device could not be read.
    pub noted: Option<Arc<NotedDevice>>,
}

/// A device that remembers where it could not be read.
pub type NotedDevice = Noted<Arc<dyn Device>>;

impl Volume {
    /// Remembers where it cannot be read.
    pub fn noted(mut self) -> Volume {
        if let Ok(device) = &mut self.device {
            let noted = Arc::new(Noted::new(Arc::clone(device)));
            *device = Arc::clone(&noted) as Arc<dyn Device>;
            self.noted = Some(noted);
        }
        self
    }

    /// With the part that is on another device, if its file system is divided: the one at `named`, or else the one that is found.
    pub fn whole(
        mut self,
        named: Option<&Path>,
        environment: &Environment,
        options: SuperblockOptions,
    ) -> Volume {
        let Ok(device) = &self.device else { return self };
        let tell = |sentence| self.warnings.push(sentence);
        let whole = whole(device, named, (environment, options), tell);
        Volume { device: whole, ..self }
    }

    /// Looks for its external journal, if it has one.
    pub fn with_journal(mut self, environment: &Environment, options: SuperblockOptions) -> Volume {
        let Ok(device) = &self.device else { return self };
        let warn = |sentence| self.warnings.push(sentence);
        let found = external_journal(&**device, environment, options, warn);
        let journal = found.and_then(|path| plain(&path).ok());
        Volume { journal, ..self }
    }
}

/// The device of the external journal of what `device` holds, if it has one and this is found. `tell` hears a sentence where several could
/// be it; then none is taken.
pub fn external_journal(
    device: &dyn Device,
    environment: &Environment,
    options: SuperblockOptions,
    tell: impl FnOnce(String),
) -> Option<PathBuf> {
    let family = environment.families.of(device);
    let wanted = family.external_journal(device, options, (environment.now)())?;
    journal_device::find(&*wanted, tell)
}

/// `device`, with the part that is on another one if its file system is divided: the one at `named`, or else the one that is found. Where there is none it stays as it is, and a
/// check says what is missing.
pub fn whole(
    device: &Arc<dyn Device>,
    named: Option<&Path>,
    (environment, options): (&Environment, SuperblockOptions),
    tell: impl FnOnce(String),
) -> Result<Arc<dyn Device>, Refusal> {
    match other_part(&**device, named, (environment, options), tell) {
        Some(place) => {
            let external = plain(&place).map_err(|refusal| unusable_part(&place, refusal))?;
            environment.families.of(&**device).with_external(device, &external)
        }
        None => Ok(Arc::clone(device)),
    }
}

/// Where the other part of a divided file system is: what is `named`, or else what is found.
pub fn other_part(
    device: &dyn Device,
    named: Option<&Path>,
    (environment, options): (&Environment, SuperblockOptions),
    tell: impl FnOnce(String),
) -> Option<PathBuf> {
    if !environment.families.of(device).is_divided(device) {
        return None;
    }
    named.map(Path::to_owned).or_else(|| external_journal(device, environment, options, tell))
}

/// Why the device at `place` is not the external journal.
pub fn unusable_part(place: &Path, refusal: Refusal) -> Refusal {
    Refusal {
        code: "journal-device",
        message: format!("cannot use the external journal {}: {}", place.display(), refusal.message),
        hint: refusal.hint,
    }
}

/// Where in its file or block device the file system on `device` starts, as far as the device or the user tells.
pub fn start_of(device: &dyn Device, offset: Option<u64>) -> u64 {
    let shift = device.direct().map(|direct| direct.shift);
    shift.or(offset).unwrap_or(0)
}

/// `device`, read within `limit` if there is one.
pub fn limited(device: Arc<dyn Device>, limit: Option<&Arc<ReadLimit>>) -> Arc<dyn Device> {
    match limit {
        Some(limit) => Arc::new(Limited::new(device, Arc::clone(limit))),
        None => device,
    }
}

/// What `path` holds, when a mount of it that is ending has ended (`announce`: [`ending::wait`]). It gives at least one volume, if only to
/// say why it cannot be opened.
pub fn volumes(
    path: &Path,
    options: &OpenOptions,
    environment: &Environment,
    announce: &mut dyn FnMut(u32),
) -> Vec<Volume> {
    let target = path.display().to_string();
    ending::wait(path, environment.pace, announce);
    let opened = match fsmend_device::open(path, options, &environment.families) {
        Ok(opened) => opened,
        Err(error) => {
            let (partition, device) = (options.partition, Err(refusal(&error)));
            return vec![Volume {
                target,
                path: path.to_owned(),
                partition,
                start: options.offset.unwrap_or(0),
                warnings: Vec::new(),
                device,
                journal: None,
                noted: None,
            }];
        }
    };
    let mut warnings = warnings(&opened);
    let volume = |found: fsmend_device::Target| Volume {
        partition: found.partition,
        start: found.start,
        target: target.clone(),
        path: path.to_owned(),
        // What concerns the whole disk is said once.
        warnings: std::mem::take(&mut warnings),
        device: Ok(found.device),
        journal: None,
        noted: None,
    };
    opened.targets.into_iter().map(volume).collect()
}

fn warnings(opened: &Opened) -> Vec<String> {
    let in_use = opened
        .usage
        .iter()
        .filter(|usage| matters(usage))
        .map(|usage| format!("{usage}: problems found while it changes may be false positives. --online checks a view that stands still."));
    let skipped = opened
        .skipped
        .iter()
        .map(|skipped| format!("partition {} is not checked: {}.", skipped.partition.number, skipped.why));
    in_use.chain(skipped).collect()
}

/// A loop device that shows an image changes nothing by itself; a mount or a process that may write does.
fn matters(usage: &Usage) -> bool {
    usage.may_write() && matches!(usage, Usage::Mounted { .. } | Usage::Locked { .. })
}

/// Opens a device that holds no file system to look for (an external journal).
pub fn plain(path: &Path) -> Result<Arc<dyn Device>, Refusal> {
    let whole = OpenOptions { offset: Some(0), partition: None };
    let opened = fsmend_device::open(path, &whole, &Whatever).map_err(|error| refusal(&error))?;
    opened.targets.into_iter().next().map(|found| found.device).ok_or_else(|| Refusal {
        code: "cannot-open",
        message: "nothing was found in it".to_owned(),
        hint: "Check the name".to_owned(),
    })
}

/// An error of opening as a refusal.
pub fn refusal(error: &OpenError) -> Refusal {
    Refusal { code: "cannot-open", message: error.message(), hint: sentence(&error.hint()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_opened_says_why_and_what_to_do() {
        let error = plain(Path::new("/no/such/file")).err().map(|refusal| refusal.to_string());
        let error = error.unwrap_or_default();
        assert!(
            error.starts_with("no such file (expected an image file or a block device). Check"),
            "{error}"
        );
    }
}
