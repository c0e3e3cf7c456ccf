// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of bytes to be written: byte offsets and bytes.

use std::sync::Arc;

use fsmend_base::width;
use fsmend_device::{BlockCopy, Device, Overlay, ReadError};

/// What has to be written to a device: byte offsets and bytes, ascending and without overlaps unless said otherwise.
pub type Changes = Vec<(u64, Vec<u8>)>;

/// All that a repair writes to a device.
#[derive(Clone, Copy, Debug)]
pub struct Writes<'w> {
    /// Bytes.
    pub changes: &'w [(u64, Vec<u8>)],
    /// Copies of what lies on the device: ascending, apart from each other and from `changes`.
    pub copies: &'w [BlockCopy],
}

impl Writes<'_> {
    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.copies.is_empty()
    }

    /// Where something is written: offset and length.
    pub fn places(&self) -> impl Iterator<Item = (u64, u64)> {
        let changes = self.changes.iter().map(|(offset, bytes)| (*offset, bytes.len() as u64));
        changes.chain(self.copies.iter().map(|copy| (copy.to, copy.len)))
    }
}

impl<'w> From<&'w Changes> for Writes<'w> {
    fn from(changes: &'w Changes) -> Self {
        Writes { changes, copies: &[] }
    }
}

/// Lays `changes` over what was laid over the device before.
pub fn lay(overlay: &mut Overlay<Arc<dyn Device>>, changes: Changes) {
    for (offset, bytes) in changes {
        // Changes were worked out on a device of the same length, which takes nothing beyond its end.
        let _ = overlay.write(offset, bytes);
    }
}

/// The device as it is with `changes` written.
pub fn laid(device: &Arc<dyn Device>, changes: &Changes) -> Overlay<Arc<dyn Device>> {
    let mut overlay = Overlay::new(Arc::clone(device));
    for (offset, bytes) in changes {
        // As in `lay`.
        let _ = overlay.write(*offset, bytes);
    }
    overlay
}

/// Lays copies over what was laid over the device before. They refer to the device itself.
pub fn lay_copies(overlay: &mut Overlay<Arc<dyn Device>>, copies: &[BlockCopy]) {
    for copy in copies {
        // As in `lay`.
        let _ = overlay.copy(*copy);
    }
}

/// What `overlay` holds with `changes` and `copies` over it, all laid over the same device.
pub fn joined(
    overlay: &Overlay<Arc<dyn Device>>,
    changes: Changes,
    mut copies: Vec<BlockCopy>,
) -> (Changes, Vec<BlockCopy>) {
    if overlay.is_unchanged() {
        return (changes, copies);
    }
    let mut all = Overlay::new(Arc::clone(overlay.inner()));
    lay(&mut all, overlay.runs().map(|(offset, bytes)| (offset, bytes.to_vec())).collect());
    copies.splice(0..0, overlay.copies());
    lay_copies(&mut all, &copies);
    lay(&mut all, changes);
    let (changes, copies) = all.into_runs();
    (changes.collect(), copies)
}

/// `changes` and `copies`, those as bytes of `device`.
pub fn with_copies(
    device: &Arc<dyn Device>,
    changes: Changes,
    copies: &[BlockCopy],
) -> Result<Changes, ReadError> {
    let mut all = Overlay::new(device);
    for (offset, bytes) in changes {
        // As in `lay`.
        let _ = all.write(offset, bytes);
    }
    for copy in copies {
        let mut bytes = vec![0; width::index(copy.len)];
        device.read_at(copy.from, &mut bytes)?;
        // As in `lay`.
        let _ = all.write(copy.to, bytes);
    }
    Ok(all.into_runs().0.collect())
}

/// What of `changes` lies in `ranges` (start and end).
pub fn within(changes: &Changes, ranges: &[(u64, u64)]) -> Changes {
    let mut parts = Vec::new();
    for (offset, bytes) in changes {
        for (from, until) in ranges {
            let start = width::index(from.saturating_sub(*offset).min(bytes.len() as u64));
            let end = width::index(until.saturating_sub(*offset).min(bytes.len() as u64));
            if start < end {
                parts.push((offset + start as u64, bytes[start..end].to_vec()));
            }
        }
    }
    parts
}

/// `changes` without what lies in `ranges` (start and end).
pub fn cut(changes: &Changes, ranges: &[(u64, u64)]) -> Changes {
    let mut kept = changes.clone();
    for (from, until) in ranges {
        kept = kept.into_iter().flat_map(|change| cut_one(change, *from, *until)).collect();
    }
    kept
}

/// The parts of a change before and behind a range.
fn cut_one((offset, bytes): (u64, Vec<u8>), from: u64, until: u64) -> Changes {
    let end = offset.saturating_add(bytes.len() as u64);
    if until <= offset || end <= from {
        return vec![(offset, bytes)];
    }
    let mut parts = Vec::new();
    if offset < from {
        parts.push((offset, bytes[..width::index(from - offset)].to_vec()));
    }
    if until < end {
        parts.push((until, bytes[width::index(until - offset)..].to_vec()));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_is_what_a_cut_takes_away() {
        let changes = vec![(10, vec![1, 2, 3, 4]), (20, vec![5, 6])];
        assert_eq!(within(&changes, &[]), []);
        assert_eq!(within(&changes, &[(11, 13)]), [(11, vec![2, 3])]);
        assert_eq!(within(&changes, &[(0, 11), (13, 21)]), [(10, vec![1]), (13, vec![4]), (20, vec![5])]);
        assert_eq!(within(&changes, &[(0, 100)]), changes);
        assert_eq!(within(&changes, &[(14, 20), (0, 10)]), []);
    }

    #[test]
    fn changes_are_cut() {
        let changes = vec![(10, vec![1, 2, 3, 4]), (20, vec![5, 6])];
        assert_eq!(cut(&changes, &[]), changes);
        assert_eq!(cut(&changes, &[(11, 13)]), [(10, vec![1]), (13, vec![4]), (20, vec![5, 6])]);
        assert_eq!(cut(&changes, &[(0, 11), (13, 21)]), [(11, vec![2, 3]), (21, vec![6])]);
        assert_eq!(cut(&changes, &[(0, 100)]), []);
        assert_eq!(cut(&changes, &[(14, 20), (0, 10)]), changes);
    }
}
