// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers at offsets. What lies beyond the end reads as zero and is not written: callers have checked the length of a structure once.

use fsmend_base::crc32c;

pub(crate) fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

pub(crate) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(get(bytes, at))
}

pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(get(bytes, at))
}

pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(get(bytes, at))
}

pub(crate) fn get_u8(bytes: &[u8], at: usize) -> u8 {
    get::<1>(bytes, at)[0]
}

pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..value.len())) {
        place.copy_from_slice(value);
    }
}

pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    put(bytes, at, &value.to_le_bytes());
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, &value.to_le_bytes());
}

pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    put(bytes, at, &value.to_le_bytes());
}

/// The checksum of `bytes` with the four at `at` taken as zero.
pub(crate) fn crc_without(seed: u32, bytes: &[u8], at: usize) -> u32 {
    let (before, rest) = bytes.split_at(at.min(bytes.len()));
    let behind = rest.get(4..).unwrap_or(&[]);
    crc32c(crc32c(crc32c(seed, before), &[0; 4]), behind)
}
