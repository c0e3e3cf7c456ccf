// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading around bad sectors.

use fsmend_base::width;

use crate::{Device, ReadError};

/// Pieces are not made smaller than this: the sector of nearly all disks, and the page of the page cache.
const PIECE_BYTES_MIN: usize = 4096;

/// Fills of `buf` what can be read from `offset`, by halving what fails down to pieces of 4 KiB, and returns what
/// could not be read, in address order, neighbours joined; those bytes are zeroed. One bad sector in a request of
/// 256 KiB costs a dozen reads more; a device that answers nothing at all, two reads for every 4 KiB.
pub fn salvage(device: &dyn Device, offset: u64, buf: &mut [u8]) -> Vec<ReadError> {
    let mut lost = Vec::new();
    let inside = width::index(device.len().saturating_sub(offset).min(buf.len() as u64));
    let (readable, beyond) = buf.split_at_mut(inside);
    if !readable.is_empty() {
        read_or_halve(device, offset, readable, &mut lost);
    }
    if !beyond.is_empty() {
        beyond.fill(0);
        lost.push(ReadError::beyond_end(offset.saturating_add(inside as u64), beyond.len() as u64));
    }
    lost
}

/// Recursion is as deep as `buf` can be halved.
fn read_or_halve(device: &dyn Device, offset: u64, buf: &mut [u8], lost: &mut Vec<ReadError>) {
    let Err(error) = device.read_at(offset, buf) else { return };
    if buf.len() <= PIECE_BYTES_MIN {
        buf.fill(0);
        return note_lost(lost, ReadError { offset, len: buf.len() as u64, kind: error.kind });
    }
    let half = (buf.len() / 2).next_multiple_of(PIECE_BYTES_MIN);
    let (left, right) = buf.split_at_mut(half);
    read_or_halve(device, offset, left, lost);
    read_or_halve(device, offset + half as u64, right, lost);
}

/// Appends `error`, or lengthens the last one if it ends where this one begins and has the same reason.
fn note_lost(lost: &mut Vec<ReadError>, error: ReadError) {
    match lost.last_mut() {
        Some(last) if last.offset + last.len == error.offset && last.kind == error.kind => {
            last.len += error.len
        }
        _ => lost.push(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FaultyDevice;
    use crate::{MemoryDevice, ReadErrorKind};

    #[test]
    fn one_bad_sector_does_not_lose_its_neighbours() {
        let device = FaultyDevice::new(MemoryDevice::new("m", vec![9; 300_000])).with_fault(8192..8193, None);
        let mut buf = vec![0; 262_144];
        let lost = salvage(&device, 0, &mut buf);
        assert_eq!(lost.len(), 1);
        assert_eq!((lost[0].offset, lost[0].len), (8192, 4096));
        assert!(buf[8192..12288].iter().all(|byte| *byte == 0));
        assert!(buf[..8192].iter().chain(&buf[12288..]).all(|byte| *byte == 9));
    }

    #[test]
    fn what_lies_beyond_the_end_is_told_apart() {
        let device = MemoryDevice::new("m", vec![9; 10_000]);
        let mut buf = vec![0; 8192];
        let lost = salvage(&device, 4096, &mut buf);
        assert_eq!(lost, [ReadError::beyond_end(10_000, 4096 + 8192 - 10_000)]);
        assert!(buf[..10_000 - 4096].iter().all(|byte| *byte == 9));
        assert_eq!(salvage(&device, u64::MAX, &mut buf[..1])[0].kind, ReadErrorKind::BeyondEnd);
    }

    #[test]
    fn a_dead_device_gives_one_joined_error() {
        let device = FaultyDevice::new(MemoryDevice::new("m", vec![9; 65536])).with_fault(0..65536, None);
        let lost = salvage(&device, 0, &mut vec![0; 65536]);
        assert_eq!(lost.len(), 1);
        assert_eq!((lost[0].offset, lost[0].len), (0, 65536));
        assert!(device.reads() <= 32);
    }
}
