//! Hints to the kernel about what will be read soon.

use std::num::NonZeroU64;

use rustix::fs::{Advice, fadvise};

use crate::Device;

/// Asks the kernel to have `len` bytes from `offset` in memory soon. A hint: it has no effect on devices without a
/// file below, and its failure is no error.
pub fn readahead(device: &dyn Device, offset: u64, len: u64) {
    let len = len.min(device.len().saturating_sub(offset));
    let (Some(direct), Some(len)) = (device.direct(), NonZeroU64::new(len)) else { return };
    if let Some(start) = direct.shift.checked_add(offset) {
        let _ = fadvise(direct.fd, start, Some(len), Advice::WillNeed);
    }
}
