//! The file system as the repair under way leaves it: bytes laid over the device, read back by whatever is mended next.

use std::sync::{PoisonError, RwLock};

use fsmend_device::{Device, Direct, Overlay, ReadError};
use fsmend_engine::Edit;

/// An overlay that is written through a shared reference, so that the checks' own functions can read what has been mended.
/// Only one thread writes, in a fixed order.
pub struct Draft<'d> {
    below: &'d dyn Device,
    overlay: RwLock<Overlay<&'d dyn Device>>,
}

/// A device that is written in memory only.
pub trait Sketch: Device {
    /// Puts `bytes` at `offset`. What lies behind the end of the device is left out: nothing could be written there, and the next
    /// look says what is wrong.
    fn write(&self, offset: u64, bytes: &[u8]);

    /// Memory that what was written takes.
    fn bytes_written(&self) -> u64;

    /// Reads what was there before anything was written.
    fn read_before(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError>;
}

impl Sketch for Draft<'_> {
    fn write(&self, offset: u64, bytes: &[u8]) {
        let mut overlay = self.overlay.write().unwrap_or_else(PoisonError::into_inner);
        let _ = overlay.write(offset, bytes);
    }

    fn bytes_written(&self) -> u64 {
        self.memory_max() - self.below.memory_max()
    }

    fn read_before(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.below.read_at(offset, buf)
    }
}

impl<'d> Draft<'d> {
    /// Nothing written yet.
    pub fn new(below: &'d dyn Device) -> Self {
        Draft { below, overlay: RwLock::new(Overlay::new(below)) }
    }

    /// Lays edits down, in their order.
    pub fn lay(&self, edits: Vec<Edit>) {
        let mut overlay = self.overlay.write().unwrap_or_else(PoisonError::into_inner);
        for Edit { offset, bytes, .. } in edits {
            // As in `write`.
            let _ = overlay.write(offset, bytes.into_vec());
        }
    }

    /// What has been written and differs from what lay there, in ascending order.
    pub fn into_changes(self) -> Vec<(u64, Vec<u8>)> {
        let overlay = self.overlay.into_inner().unwrap_or_else(PoisonError::into_inner);
        let differs = |offset: u64, bytes: &[u8]| {
            let mut before = vec![0; bytes.len()];
            self.below.read_at(offset, &mut before).is_err() || before != bytes
        };
        overlay.into_runs().filter(|(offset, bytes)| differs(*offset, bytes)).collect()
    }
}

impl Device for Draft<'_> {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.overlay.read().unwrap_or_else(PoisonError::into_inner).read_at(offset, buf)
    }

    fn direct(&self) -> Option<Direct<'_>> {
        self.below.direct()
    }

    fn readahead(&self, offset: u64, len: u64) {
        self.below.readahead(offset, len);
    }

    fn patch(&self, offset: u64, buf: &mut [u8]) {
        self.overlay.read().unwrap_or_else(PoisonError::into_inner).patch(offset, buf);
    }

    fn memory_max(&self) -> u64 {
        self.overlay.read().unwrap_or_else(PoisonError::into_inner).memory_max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsmend_device::MemoryDevice;

    #[test]
    fn what_is_written_is_read_back_and_only_differences_are_changes() {
        let below = MemoryDevice::new("below", vec![7; 4096]);
        let draft = Draft::new(&below);
        draft.write(10, &[1, 2]);
        draft.write(100, &[7, 7]);
        draft.write(4095, &[1, 2]);
        let mut buf = [0; 4];
        assert!(draft.read_at(9, &mut buf).is_ok());
        assert_eq!(buf, [7, 1, 2, 7]);
        assert!(draft.read_before(9, &mut buf).is_ok());
        assert_eq!(buf, [7; 4]);
        assert!(draft.bytes_written() >= 5);
        assert_eq!(draft.into_changes(), [(10, vec![1, 2])]);
    }
}
