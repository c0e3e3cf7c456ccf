// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks of 4 KiB, the unit of plans and logs: how they are read around bad sectors, compared and summed up.

use crc_fast::{CrcAlgorithm, Digest};

use fsmend_base::width;

use crate::Device;

/// Bytes of a block of a plan, whatever the file system calls a block: the sector of nearly all disks and the page of the page
/// cache, so that no disk and no kernel has to read before it can write one.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// What a disk writes whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

/// CRC-64/NVME of `bytes`.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(bytes);
    digest.finalize()
}

/// A checksum over pieces that come one after the other.
pub(crate) struct Sum(Digest);

impl Sum {
    /// The checksum of nothing.
    pub fn new() -> Self {
        Sum(Digest::new(CrcAlgorithm::Crc64Nvme))
    }

    /// Goes on with `bytes`.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all pieces.
    pub fn finish(&self) -> u64 {
        self.0.finalize()
    }
}

/// Length of block `index` of a device of `device_len` bytes: the last block may be a part of one.
pub(crate) fn block_len(index: u64, device_len: u64) -> usize {
    let start = index.saturating_mul(BLOCK_BYTES as u64);
    width::index(device_len.saturating_sub(start).min(BLOCK_BYTES as u64))
}

/// Fills `buf` from `offset` and says which sectors of it could not be read; those are zeroed. The device has retried what can
/// be retried: what fails here, lasts.
pub(crate) fn read_sectors(device: &dyn Device, offset: u64, buf: &mut [u8]) -> Unreadable {
    if device.read_at(offset, buf).is_ok() {
        return Unreadable::default();
    }
    let mut unreadable = Unreadable::default();
    for (number, sector) in buf.chunks_mut(SECTOR_BYTES).enumerate() {
        if device.read_at(offset.saturating_add((number * SECTOR_BYTES) as u64), sector).is_err() {
            sector.fill(0);
            unreadable.0 |= 1 << number;
        }
    }
    unreadable
}

/// The sectors of a block that could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unreadable(u8);

impl Unreadable {
    /// Whether there is one.
    pub fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether this sector is one.
    pub fn has(self, sector: usize) -> bool {
        self.0 >> sector & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;
    use crate::testing::FaultyDevice;

    #[test]
    fn neighbours_of_a_bad_sector_are_read() {
        let device = FaultyDevice::new(MemoryDevice::new("m", vec![9; 8192])).with_fault(4700..4701, None);
        let mut block = vec![1; BLOCK_BYTES];
        assert_eq!(read_sectors(&device, 0, &mut block), Unreadable::default());
        let unreadable = read_sectors(&device, 4096, &mut block);
        assert!(unreadable.any() && unreadable.has(1) && !unreadable.has(0));
        assert!(block[512..1024].iter().all(|byte| *byte == 0));
        assert_eq!(block.iter().filter(|byte| **byte == 9).count(), BLOCK_BYTES - SECTOR_BYTES);
    }

    #[test]
    fn the_last_block_may_be_short() {
        assert_eq!((block_len(0, 5000), block_len(1, 5000), block_len(2, 5000)), (4096, 904, 0));
    }

    #[test]
    fn pieces_sum_up_to_the_whole() {
        let mut sum = Sum::new();
        sum.add(b"1234");
        sum.add(b"56789");
        assert_eq!((sum.finish(), checksum(b"123456789")), (0xAE8B_1486_0A79_9888, 0xAE8B_1486_0A79_9888));
    }
}
