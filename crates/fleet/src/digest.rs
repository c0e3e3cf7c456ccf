// SPDX-License-Identifier: MIT OR Apache-2.0
//! Digests: what tells one list or run from another, if it was changed by accident.

use crc_fast::CrcAlgorithm;

/// A checksum that tells texts apart which were changed by accident.
pub fn digest(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// A digest as it stands in files.
pub fn written(digest: u64) -> String {
    format!("{digest:016x}")
}
