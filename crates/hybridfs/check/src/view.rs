// SPDX-License-Identifier: MIT OR Apache-2.0
//! A state of a mounted file system that the driver has pinned, as a device of its own: the newest anchors lead to the pinned checkpoint, and nothing follows it. The mount goes on
//! beside it: what the state leads to is not overwritten while it is pinned.

use std::sync::Arc;

use fsmend_device::{Device, Overlay};
use fsmend_hybridfs_format::{ANCHORS, Anchor, AnchorFlags, SummaryFlags, anchor_offset};

use crate::log::Log;
use crate::superblock;

/// The device as it was when checkpoint `ssn`, whose summary is at `summary`, had been written.
pub fn of_pinned(
    device: Arc<dyn Device>,
    (ssn, summary): (u64, u64),
) -> Result<Overlay<Arc<dyn Device>>, String> {
    let (_, sb) = superblock::find(&*device)?;
    if superblock::is_divided(&*device, &sb) {
        return Err("its log is on another device, which -j has to name".to_owned());
    }
    let log = Log { device: &*device, sb: &sb };
    let segment = log.segment(summary).filter(|segment| segment.summary.ssn == ssn);
    let segment = segment.ok_or("the pinned segment does not exist")?;
    if !segment.summary.flags.contains(SummaryFlags::CHECKPOINT) {
        return Err("the pinned segment is not a checkpoint".to_owned());
    }
    let mut view = Overlay::new(Arc::clone(&device));
    let written = |error: fsmend_device::ReadError| error.to_string();
    for number in 4..8 {
        let anchor = Anchor { number, flags: AnchorFlags::CLEAN, ssn, summary, summary_crc: segment.crc };
        let bytes = anchor.store(&sb.uuid);
        view.write(anchor_offset(&sb, number % ANCHORS), bytes).map_err(written)?;
    }
    // The next summary may be there by now.
    let next = log.offset(segment.summary.next);
    view.write(next, vec![0; sb.block_size as usize]).map_err(written)?;
    Ok(view)
}
