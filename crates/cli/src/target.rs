// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what the user named to file systems that can be checked.

use std::path::Path;
use std::sync::Arc;

use fsmend_device::{OpenError, OpenOptions, ReadLimit, WriteOptions};
use fsmend_session::{Environment, Hold, Registry};
pub use fsmend_session::{NotedDevice, Volume, open::*};

use crate::check_args::CheckArgs;
use crate::common_args::Common;
use crate::machine;
use crate::numbers::counted;

/// Places named in a message, at most.
const PLACES_TOLD: usize = 20;

/// The families that are known.
pub const FAMILIES: Registry = fsmend::FAMILIES;

/// What this program brings along for its work on targets.
pub fn environment() -> Environment {
    Environment::new(FAMILIES, machine::seconds_since_epoch, &machine::RealTime)
}

/// Opens everything that `arguments` name, to be read within `limit`. Every target gives at least one volume, if only to say
/// why it cannot be opened.
pub fn volumes(arguments: &CheckArgs, limit: Option<&Arc<ReadLimit>>) -> Vec<Volume> {
    let options = arguments.open_options();
    let limited = |volume: Volume| Volume {
        journal: volume.journal.map(|device| limited(device, limit)),
        device: volume.device.map(|device| limited(device, limit)),
        ..volume
    };
    let volumes = arguments.targets.iter().flat_map(|path| volumes_of(path, &options));
    let environment = environment();
    let whole = |volume: Volume| {
        let options = arguments.common.superblock_options();
        volume.whole(arguments.common.journal.as_deref(), &environment, options)
    };
    volumes
        .map(whole)
        .map(|volume| with_journal(volume, &arguments.common))
        .map(limited)
        .map(Volume::noted)
        .collect()
}

/// Looks for the external journal of a volume, unless the options name one or exclude replay.
pub fn with_journal(volume: Volume, common: &Common) -> Volume {
    if common.journal.is_some() || common.no_replay {
        return volume;
    }
    volume.with_journal(&environment(), common.superblock_options())
}

/// What `path` holds.
pub fn volumes_of(path: &Path, options: &OpenOptions) -> Vec<Volume> {
    fsmend_session::open::volumes(path, options, &environment(), &mut announcer(path))
}

/// Opens all file systems behind `path` for writing.
pub fn hold(path: &Path, options: &OpenOptions, rights: WriteOptions) -> Result<Vec<Hold>, OpenError> {
    Hold::open(path, options, rights, &environment(), &mut announcer(path))
}

/// Waits for a mount of the target at `path` that is ending.
pub fn wait_for_ending_mount(path: &Path) {
    fsmend_session::ending::wait(path, &machine::RealTime, &mut announcer(path));
}

fn announcer(path: &Path) -> impl FnMut(u32) {
    move |process| {
        eprintln!("fsmend: {}: waiting for process {process}, which unmounts it.", path.display());
    }
}

/// The sectors that could not be read, as a sentence; `None` if there are none.
pub fn unreadable(device: &NotedDevice) -> Option<String> {
    let sectors = device.sectors();
    let told = sectors.iter().take(PLACES_TOLD).map(|range| match range.end - range.start {
        1 => range.start.to_string(),
        _ => format!("{} to {}", range.start, range.end - 1),
    });
    let more = sectors.len().saturating_sub(PLACES_TOLD);
    let more = if more > 0 {
        format!(" and {} more", counted(more as u64, "place", "places"))
    } else {
        String::new()
    };
    let told = told.collect::<Vec<_>>().join(", ");
    (!told.is_empty()).then(|| {
        format!(
            "these sectors (of 512 bytes) could not be read: {told}{more}. If that lasts, copy the disk to a good one before \
             anything else (ddrescue)."
        )
    })
}
