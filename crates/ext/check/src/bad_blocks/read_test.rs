// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading every block, to find those that the medium has lost.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::width;
use fsmend_device::Device;

/// Blocks are read in pieces of so many bytes.
const PIECE: u64 = 1 << 20;

/// Reads every block from `first` up to `end`, and returns those that cannot be read, ascending. Blocks that the device does not have
/// are not among them. `None` when `cancel` became true.
pub fn read_test(
    device: &dyn Device,
    block_size: u32,
    (first, end): (u64, u64),
    cancel: &AtomicBool,
) -> Option<Vec<u64>> {
    let size = u64::from(block_size.max(1));
    let end = end.min(device.len() / size);
    let mut buffer = vec![0; width::index(PIECE.max(size))];
    let in_piece = buffer.len() as u64 / size;
    let mut bad = Vec::new();
    let mut block = first;
    while block < end {
        if cancel.load(Relaxed) {
            return None;
        }
        let count = in_piece.min(end - block);
        if device.read_at(block * size, &mut buffer[..width::index(count * size)]).is_err() {
            let mut is_bad =
                |one: u64| device.read_at(one * size, &mut buffer[..width::index(size)]).is_err();
            bad.extend((block..block + count).filter(|one| is_bad(*one)));
        }
        block += count;
    }
    Some(bad)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use fsmend_device::{ReadError, ReadErrorKind};

    use super::*;

    /// A device of 4 MiB whose bytes from 1 MiB + 1024 on cannot be read, 2048 of them.
    struct Failing;

    impl Device for Failing {
        fn name(&self) -> &str {
            "failing"
        }

        fn len(&self) -> u64 {
            4 << 20
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
            let (from, until) = ((1 << 20) + 1024, (1 << 20) + 3072);
            if offset < until && offset + buf.len() as u64 > from {
                let kind = ReadErrorKind::Io("a lost sector".to_owned());
                return Err(ReadError { offset, len: buf.len() as u64, kind });
            }
            Ok(())
        }
    }

    #[test]
    fn only_what_cannot_be_read_is_bad() {
        let cancel = AtomicBool::new(false);
        assert_eq!(read_test(&Failing, 1024, (1, 9999), &cancel).unwrap(), [1025, 1026]);
        assert_eq!(read_test(&Failing, 4096, (0, 1024), &cancel).unwrap(), [256]);
        cancel.store(true, Relaxed);
        assert_eq!(read_test(&Failing, 1024, (1, 9999), &cancel), None);
    }
}
