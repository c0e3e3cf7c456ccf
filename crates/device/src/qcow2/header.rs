// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of a qcow2 image, as far as we judge it ourselves before `imago` reads it.
//!
//! ```text
//! 0   magic "QFI\xfb"     20  cluster_bits           36  l1_size (entries of 8 bytes)
//! 4   version (2, 3)      24  size of the disk       40  l1_table_offset
//! 8   backing file name   32  crypt_method           72  incompatible_features (version 3)
//! ```
//! All numbers are big-endian.

use fsmend_base::width;

use std::io;

/// Bytes of the header that [`check`] looks at.
pub(super) const HEADER_BYTES: usize = 80;

/// Bytes at which the incompatible features stand.
const INCOMPATIBLE: std::ops::Range<usize> = 72..80;

/// "Refcounts may be wrong" and "structures may be corrupt, do not write": both are warnings to writers.
const DIRTY_AND_CORRUPT: u64 = 0b11;

/// The largest table of level 1 that QEMU makes or takes: 32 MiB.
const L1_BYTES_MAX: u64 = 32 << 20;

/// Tables of level 2 that `imago` keeps in memory for each image.
const L2_TABLES_CACHED: u64 = 128;

/// What we need to know of a header that has been found sensible.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// Version of the format.
    pub(super) version: u32,
    /// Size of a cluster.
    pub(super) cluster_bytes: u64,
    /// Most memory that the tables of this image can take.
    pub(super) table_bytes: u64,
}

/// Whether a file that starts with `start` is a qcow2 image. Version 1 is another format.
pub(crate) fn is_qcow2(start: &[u8]) -> bool {
    start.starts_with(b"QFI\xfb") && !start.starts_with(b"QFI\xfb\x00\x00\x00\x01")
}

/// Refuses what `imago` would take on trust: a level-1 table that is absurdly large, lies beyond the end of the file or
/// is too small for the disk, and encryption, which it would hand out as data.
pub(super) fn check(header: &[u8; HEADER_BYTES], file_len: u64) -> io::Result<Header> {
    let cluster_bits = be32(header, 20);
    let (disk_bytes, l1_entries, l1_offset) =
        (be64(header, 24), u64::from(be32(header, 36)), be64(header, 40));
    if !(9..=21).contains(&cluster_bits) {
        return refuse(format!("its clusters of 2^{cluster_bits} bytes are outside 2^9 to 2^21"));
    }
    if be32(header, 32) != 0 {
        return refuse("it is encrypted".into());
    }
    // An entry of level 1 leads to one cluster of entries of 8 bytes, each of which stands for a cluster.
    let bytes_per_entry = 1u64 << (2 * cluster_bits - 3);
    if l1_entries * 8 > L1_BYTES_MAX || l1_entries < disk_bytes.div_ceil(bytes_per_entry) {
        return refuse(format!("its {l1_entries} level-1 entries do not fit a disk of {disk_bytes} bytes"));
    }
    if l1_offset.checked_add(l1_entries * 8).is_none_or(|end| end > file_len) {
        return refuse("its level-1 table is beyond the end of the file".into());
    }
    let cluster_bytes = 1 << cluster_bits;
    // Level 1 stands in memory twice while it is read: as bytes and as numbers. Tables of level 2 are kept by their place in
    // the file: there are no more of them than it has clusters.
    let tables = l1_entries.min(L2_TABLES_CACHED).min(file_len.div_ceil(cluster_bytes));
    let table_bytes = l1_entries * 16 + tables * cluster_bytes;
    Ok(Header { version: be32(header, 4), cluster_bytes, table_bytes })
}

/// Takes the marks for writers out of `bytes`, which were read from `offset`: `imago` refuses images that have them, but
/// an image whose virtual machine has crashed is just what wants to be checked.
pub(super) fn hide_writer_marks(version: u32, offset: u64, bytes: &mut [u8]) {
    let Ok(offset) = usize::try_from(offset) else { return };
    // The marks are the two lowest bits of a big-endian number: in its last byte.
    if let Some(place) = (INCOMPATIBLE.end - 1).checked_sub(offset)
        && version >= 3
        && let Some(byte) = bytes.get_mut(place)
    {
        *byte &= !width::low_u8(DIRTY_AND_CORRUPT);
    }
}

fn refuse<T>(why: String) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidData, format!("the qcow2 image cannot be read: {why}")))
}

fn be32(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn be64(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}
