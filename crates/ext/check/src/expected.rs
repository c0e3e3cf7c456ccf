// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the geometry and the descriptors tell of the work before it begins, for the [memory plan](fsmend_engine::scan::memory_plan).

use fsmend_base::GroupNo;
use fsmend_engine::Budget;
use fsmend_engine::claims::SharedBitmap;
use fsmend_engine::inodes::BYTES_PER_INODE;
use fsmend_engine::scan::memory_plan::{DIRECTORY_BYTES, Expected, charge_tables};
use fsmend_ext_format::geometry::Geometry;

use crate::{Fs, Refusal};

/// Memory for a group: its descriptor and state, twice while descriptors are settled, and its place in the tables of facts.
const GROUP_BYTES: u64 = 512;
/// The facts of an indirect block and the file that it is the only one of, twice while they are merged. Directory blocks leave nothing
/// here, so this is too much, which does no harm.
const REGION_BYTES_PER_BLOCK: u64 = 2 * (16 + 44);
/// The share of the blocks in use that is taken to be maps and directories.
const METADATA_SHARE: u64 = 64;

/// Refuses a file system whose group tables alone do not fit, before they are read; charges them.
pub fn charge_groups(geometry: &Geometry, device_bytes: u64, budget: &Budget) -> Result<(), Refusal> {
    let groups = u64::from(geometry.group_count) * GROUP_BYTES;
    charge_tables(groups + device_bytes, (geometry.blocks_count, geometry.clusters_count()), budget)
}

/// What will be known if the descriptors tell the truth.
pub fn expected(fs: &Fs<'_>) -> Expected {
    let geometry = &fs.geometry;
    let mut bytes = 2 * SharedBitmap::index_bytes(geometry.clusters_count());
    let (mut pages, mut all_directories, mut to_read) = (0, 0, 0);
    for (number, group) in (0..).zip(&fs.groups) {
        let directories = group.desc.used_dirs.min(group.scan_inodes);
        all_directories += u64::from(directories);
        bytes += u64::from(group.scan_inodes) * BYTES_PER_INODE + u64::from(directories) * DIRECTORY_BYTES;
        let units = geometry.group_blocks(GroupNo(number)).count.div_ceil(u64::from(geometry.cluster_blocks));
        let used = units.saturating_sub(u64::from(group.desc.free_blocks));
        to_read += u64::from(group.scan_inodes) * u64::from(geometry.inode_size)
            + used * u64::from(geometry.cluster_blocks) * u64::from(geometry.block_size) / METADATA_SHARE;
        let region = fs.regions.of_group(GroupNo(number)).count;
        bytes += region.min(used) * REGION_BYTES_PER_BLOCK;
        to_read += region.min(used) * u64::from(geometry.block_size);
        if used > 0 {
            // A bit for each, rounded up to pages: groups are pages in most file systems.
            pages += units.div_ceil(8) + 16;
        }
    }
    Expected {
        units: geometry.clusters_count(),
        fact_bytes: bytes + pages + 2 * 4096,
        directories: all_directories,
        to_read,
        chunk_inodes: fs.groups.iter().map(|group| u64::from(group.scan_inodes)).max().unwrap_or(0),
        together: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fsmend_device::ReadBackend;
    use fsmend_engine::options::CheckOptions;
    use fsmend_engine::pool::Schedule;
    use fsmend_engine::scan::memory_plan::MemoryPlan;

    use super::*;
    use crate::superblock::SuperblockOptions;
    use crate::superblock::testing::Image;
    use fsmend_engine::options::Meter;

    /// A repair of very much damage holds what it puts in place besides.
    #[test]
    fn what_workers_cannot_use_stays_free() {
        let options = CheckOptions {
            threads: 1,
            memory: 256 << 20,
            replay: true,
            superblock: SuperblockOptions::default(),
            external_journal: None,
            now: 0,
            backend: ReadBackend::Pread,
            want_all_paths: true,
            repair: None,
            meter: Meter::default,
            stage_clock: None,
            schedule: Schedule { every_worker: true, ..Schedule::default() },
            allowance: None,
            trace: None,
        };
        for (threads, part) in [(1, 2), (2, 3), (64, 8)] {
            let budget = Arc::new(Budget::new(options.memory));
            let options = CheckOptions { threads, ..options.clone() };
            let planned =
                Image::plain().with_fs(|fs, _| MemoryPlan::new(&expected(fs), &options, &budget).is_ok());
            let free = budget.free();
            assert!(planned && free >= budget.limit() / part * 9 / 10, "{threads} threads: {free}");
        }
    }
}
