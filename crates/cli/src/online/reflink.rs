// SPDX-License-Identifier: MIT OR Apache-2.0
//! The view of a loop-backed file system: a copy of its image that shares all blocks, made during a freeze of milliseconds.

use std::io::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, FileClone, FreshDevice, Mounted, Slice};

use super::Taken;
use super::freeze::Freezer;

/// So much from the start of the device has to be the same in the copy.
const COMPARED: usize = 4096;

/// Makes the copy; why not, if not.
pub fn take(mounted: &Mounted, freezer: &mut Freezer, cancel: &AtomicBool) -> Result<Taken, String> {
    let backing = mounted.backing().ok_or("it is not on a loop device")?;
    let file = backing.file.display();
    let copy = FileClone::beside(&backing.file)
        .map_err(|error| format!("cannot create a file beside {file} ({error})"))?;
    let cannot_share =
        |error: Error| format!("the file system that holds {file} cannot share its blocks ({error})");
    // Tried once before: do not freeze for what cannot be done.
    copy.share().map_err(cannot_share)?;
    let fresh = FreshDevice::open(&mounted.device).map_err(|error| format!("it cannot be read ({error})"))?;
    let ((shared, start), freeze) = freezer.while_frozen(cancel, |_| (copy.share(), start_of(&fresh)))?;
    shared.map_err(cannot_share)?;
    let image = copy
        .into_device(mounted.device.display().to_string())
        .map_err(|error| format!("the copy cannot be read ({error})"))?;
    let len = if backing.len == 0 { image.len().saturating_sub(backing.start) } else { backing.len };
    let device: Arc<dyn Device> =
        Arc::new(Slice::new(mounted.device.display().to_string(), Arc::new(image), backing.start, len));
    // The kernel tells a path, and in another mount namespace another file may be found by it.
    if start.is_none() || start_of(&*device) != start {
        return Err(format!("{file} is not the backing file of {}", mounted.device.display()));
    }
    Ok(Taken { device, at: freeze.at, frozen: Some(freeze.lasted), of: format!("{file}") })
}

fn start_of(device: &dyn Device) -> Option<Vec<u8>> {
    let mut bytes = vec![0; COMPARED];
    device.read_at(0, &mut bytes).ok().map(|()| bytes)
}
