// SPDX-License-Identifier: MIT OR Apache-2.0
//! A look at all tables before anything is written: an image that contradicts itself would be destroyed by writing.

use fsmend_base::{Bitmap, width};

use super::head::{Head, read_numbers};
use super::refcounts::Refcounts;
use super::{COMPRESSED, OFFSET};
use crate::Device;

/// Clusters of the file that can be looked after: 128 TiB in clusters of 64 KiB.
const CLUSTERS_MAX: u64 = 1 << 31;

/// Clusters that may be counted beyond the end of the file, in addition to as many as it has.
const BEYOND_END_MAX: u64 = 1 << 16;

/// Goes through the tables of `file`. Returns the first cluster behind all that is in use, or what is wrong: a cluster of the active disk is used twice, or
/// something lies where nothing can be.
pub(super) fn survey(
    file: &dyn Device,
    head: &Head,
    l1: &[u64],
    refcounts: &mut Refcounts,
) -> Result<u64, String> {
    let clusters = file.len().div_ceil(head.cluster_bytes());
    if clusters > CLUSTERS_MAX {
        return Err("it has too many clusters".into());
    }
    let failed = |error: crate::ReadError| error.to_string();
    let mut used = Used { head, bits: Bitmap::new(clusters), last: 0 };
    used.take(0, "header")?;
    let l1_clusters = (head.l1_entries * 8).div_ceil(head.cluster_bytes());
    for (what, offset, count) in [
        ("level-1 table", head.l1_offset, l1_clusters),
        ("refcount table", head.refcount_table, head.refcount_table_clusters.into()),
    ] {
        (0..count).try_for_each(|at| used.take(offset + at * head.cluster_bytes(), what))?;
    }
    refcounts
        .table
        .iter()
        .filter(|entry| **entry != 0)
        .try_for_each(|at| used.take(*at, "refcount block"))?;
    for entry in l1.iter().filter(|entry| **entry & OFFSET != 0) {
        used.take(entry & OFFSET, "level-2 table")?;
    }
    for entry in l1.iter().filter(|entry| **entry & OFFSET != 0) {
        let table = read_numbers(file, entry & OFFSET, width::index(head.entries())).map_err(failed)?;
        for entry in table {
            if entry & COMPRESSED != 0 {
                used.touch(*head.compressed_clusters(entry).end())?;
            } else if entry & OFFSET != 0 {
                used.take(entry & OFFSET, "data cluster")?;
            }
        }
    }
    let counted = refcounts.last_used(file).map_err(failed)?.unwrap_or(0);
    // Some may be counted that were never written. Far beyond the end there are none.
    if counted > clusters.saturating_mul(2).saturating_add(BEYOND_END_MAX) {
        return Err("its refcounts are invalid".into());
    }
    let behind = used.last.max(counted) + 1;
    // Without refcounts that can be believed, what a snapshot has at the end of the file is not known.
    Ok(if head.is_dirty { behind.max(clusters) } else { behind })
}

struct Used<'h> {
    head: &'h Head,
    bits: Bitmap,
    last: u64,
}

impl Used<'_> {
    /// Notes a cluster that several may share.
    fn touch(&mut self, cluster: u64) -> Result<(), String> {
        if cluster >= self.bits.len() {
            return Err("a compressed cluster is beyond its end".into());
        }
        self.last = self.last.max(cluster);
        Ok(())
    }

    fn take(&mut self, offset: u64, what: &str) -> Result<(), String> {
        let cluster = offset >> self.head.cluster_bits;
        if offset & (self.head.cluster_bytes() - 1) != 0 || cluster >= self.bits.len() {
            return Err(format!("the place of a {what}, byte {offset}, is not valid"));
        }
        self.last = self.last.max(cluster);
        // What is returned is whether the bit was set before.
        if self.bits.set(cluster) {
            return Err(format!("its cluster at byte {offset} ({what}) is used twice"));
        }
        Ok(())
    }
}
