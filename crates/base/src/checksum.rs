// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC32C, the checksum of most formats here.

#[cfg(target_arch = "x86_64")]
pub mod wide;

use crc_fast::{CrcAlgorithm, Digest};

/// CRC32C of `bytes` continued from `seed`, without inversion: `crc32c(crc32c(s, a), b) == crc32c(s, ab)`.
#[inline]
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    // The crate's engine inverts neither the state that it is given nor what it keeps, only what it hands out.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(seed));
    digest.update(bytes);
    !(digest.finalize() as u32)
}

/// The same of a record of 256 bytes, which is too short for the general way to be fast.
#[inline]
pub fn crc32c_of_record(seed: u32, record: &[u8; 256]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if wide::is_available() {
        // SAFETY: the processor has the instructions, as asked above.
        #[allow(unsafe_code, reason = "measured hot loop: a sixth of the time of a check of many files")]
        return unsafe { wide::record(seed, record) };
    }
    crc32c(seed, record)
}
