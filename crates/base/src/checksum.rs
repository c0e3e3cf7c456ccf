// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC32C, the checksum of most formats here.

#[cfg(target_arch = "x86_64")]
mod short;
#[cfg(target_arch = "x86_64")]
pub mod wide;

use crc_fast::{CrcAlgorithm, Digest};

use crate::width;

/// CRC32C of `bytes` continued from `seed`, without inversion: `crc32c(crc32c(s, a), b) == crc32c(s, ab)`.
#[inline]
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if short::suits(bytes.len()) {
        // SAFETY: the processor has the instructions, as asked above.
        #[allow(unsafe_code, reason = "measured hot loop: checksums of directories and small files")]
        return unsafe { short::stretch(seed, bytes) };
    }
    general(seed, bytes)
}

fn general(seed: u32, bytes: &[u8]) -> u32 {
    // The crate's engine inverts neither the state that it is given nor what it keeps, only what it hands out.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(seed));
    digest.update(bytes);
    !width::low_u32(digest.finalize())
}

/// CRC32C of a record with zeroes in the place of its word `WORD` of 32 bits, where its own checksum is stored. `LEN` is a multiple of 256.
#[inline]
pub fn crc32c_of_record_without<const WORD: usize, const LEN: usize>(seed: u32, record: &[u8; LEN]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if wide::is_available() {
        // SAFETY: the processor has the instructions, as asked above.
        #[allow(unsafe_code, reason = "measured hot loop: checksums of all inodes")]
        return unsafe { wide::record_without::<WORD, LEN>(seed, record) };
    } else if short::is_available() {
        // SAFETY: the processor has the instructions, as asked above.
        #[allow(unsafe_code, reason = "measured hot loop: checksums of all inodes")]
        return unsafe { short::record_without::<WORD, LEN>(seed, record) };
    }
    without_word(seed, record, WORD)
}

fn without_word(seed: u32, record: &[u8], word: usize) -> u32 {
    let (before, rest) = record.split_at((4 * word).min(record.len()));
    crc32c(crc32c(crc32c(seed, before), &[0; 4]), rest.get(4..).unwrap_or_default())
}
