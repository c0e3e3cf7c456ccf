// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC32C, the checksum of most formats here.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC32C of `bytes` continued from `seed`, without inversion: `crc32c(crc32c(s, a), b) == crc32c(s, ab)`.
#[inline]
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    // The crate's engine inverts neither the state that it is given nor what it keeps, only what it hands out.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(seed));
    digest.update(bytes);
    !(digest.finalize() as u32)
}
