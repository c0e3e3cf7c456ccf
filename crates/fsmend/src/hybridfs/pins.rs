// SPDX-License-Identifier: MIT OR Apache-2.0
//! A state that a mount of hybridfs keeps for a check.

use std::sync::Arc;

use fsmend_device::Device;
use fsmend_hybridfs_check::view;
use fsmend_hybridfs_driver::PIN_ATTRIBUTE;
use fsmend_session::live::Pins;

/// The attribute of the driver and the view of the checker.
pub struct HybridPins;

impl Pins for HybridPins {
    fn attribute(&self) -> &'static [u8] {
        PIN_ATTRIBUTE
    }

    fn view(&self, device: &Arc<dyn Device>, kept: &str) -> Result<Arc<dyn Device>, String> {
        let place = place(kept).ok_or("it does not say which state it keeps")?;
        Ok(Arc::new(view::of_pinned(Arc::clone(device), place)?))
    }
}

/// The number of the segment, and where its summary is.
fn place(kept: &str) -> Option<(u64, u64)> {
    let (ssn, summary) = kept.split_once(' ')?;
    Some((ssn.parse().ok()?, summary.parse().ok()?))
}
