//! How long a check would take: sizes from the superblock and the descriptors, speed from a short read probe.

use std::sync::Arc;

use fsmend_base::BlockNo;
use fsmend_device::{BatchReader, Device, Request};
use fsmend_engine::Findings;
use fsmend_ext_format::features::incompat;

use crate::reading::DEPTH;
use crate::run::{CheckOptions, Meter};
use crate::{Fs, Refusal, run, superblock};

/// Requests of the probe, spread over all inode tables.
const PROBE_REQUESTS: usize = 16;
/// Bytes of one of them.
const PROBE_LEN: u32 = 256 * 1024;
/// Neighbouring directory and map blocks are read together, about so many at a time.
const BLOCKS_PER_REQUEST: u64 = 32;
/// A check of what is in memory already handles about this many bytes a second on one core.
const CHECK_BYTES_PER_SECOND: f64 = 4e9;

/// How long a run would take.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// Bytes that would be read.
    pub bytes: u64,
    /// Read requests.
    pub requests: u64,
    /// The run would take at least this long.
    pub seconds_low: f64,
    /// The run would take at most this long.
    pub seconds_high: f64,
    /// What the estimate rests on, in a sentence.
    pub basis: String,
}

/// What has to be read, by kind.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    inode_tables: u64,
    bitmaps: u64,
    /// Directory blocks: at least one for each directory.
    directories: u64,
    /// Indirect blocks, if all files are mapped by them and have no holes.
    maps: u64,
    groups_in_use: u64,
}

/// Estimates how long [`check`](crate::run::check) would take, without scanning.
pub fn estimate(device: &Arc<dyn Device>, options: &CheckOptions) -> Result<Estimate, Refusal> {
    let mut ignored = Findings::new();
    let settled = superblock::settle(&**device, options.superblock, options.now, &mut ignored)?;
    let fs = run::open(&**device, settled, options.now, &mut ignored);
    let demand = demand(&fs);
    let (probed, elapsed) = probe(&fs, options);
    let rate = if elapsed > 0.0 && probed > 0 { probed as f64 / elapsed } else { 100e6 };
    let bytes = demand.inode_tables + demand.bitmaps + demand.directories + demand.maps;
    let requests = demand.groups_in_use
        + demand.bitmaps.div_ceil(u64::from(PROBE_LEN))
        + (demand.directories + demand.maps).div_ceil(BLOCKS_PER_REQUEST * u64::from(fs.geometry.block_size));
    let workers = options.threads.max(1) as f64;
    let low = bytes as f64 / rate.max(1.0) / 1.5 + bytes as f64 / CHECK_BYTES_PER_SECOND / workers;
    // Directories and maps may lie scattered, and files with holes have more of the latter.
    let high = 3.0 * low + (demand.directories + demand.maps) as f64 / rate.max(1.0) * 3.0 + 0.05;
    let basis = format!(
        "{} groups with inodes in use, {} directories, and a probe that read {:.1} MB/s",
        demand.groups_in_use,
        demand.directories / u64::from(fs.geometry.block_size),
        rate / 1e6
    );
    Ok(Estimate { bytes, requests, seconds_low: low, seconds_high: high, basis })
}

fn demand(fs: &Fs<'_>) -> Demand {
    let block_size = u64::from(fs.geometry.block_size);
    let mut demand = Demand::default();
    for group in &fs.groups {
        demand.inode_tables += u64::from(group.scan_inodes) * u64::from(fs.geometry.inode_size);
        demand.bitmaps += 2 * block_size;
        demand.directories += u64::from(group.desc.used_dirs) * block_size;
        demand.groups_in_use += u64::from(group.scan_inodes > 0);
    }
    if !fs.geometry.features.has_incompat(incompat::EXTENTS) {
        let free: u64 = fs.groups.iter().map(|group| u64::from(group.desc.free_blocks)).sum();
        let used = fs.geometry.blocks_count.saturating_sub(free);
        demand.maps = used.saturating_sub(demand.inode_tables / block_size) / (block_size / 4) * block_size;
    }
    demand
}

/// Reads pieces of inode tables; returns bytes and seconds.
fn probe(fs: &Fs<'_>, options: &CheckOptions) -> (u64, f64) {
    let tables: Vec<u64> =
        fs.groups.iter().filter(|group| group.scan_inodes > 0).map(|group| group.desc.inode_table).collect();
    let step = tables.len().div_ceil(PROBE_REQUESTS).max(1);
    let mut requests: Vec<Request> = tables
        .iter()
        .step_by(step)
        .map(|table| Request { offset: fs.block_offset(BlockNo(*table)), len: PROBE_LEN })
        .filter(|request| request.offset.saturating_add(u64::from(request.len)) <= fs.device.len())
        .collect();
    requests.sort_unstable_by_key(|request| request.offset);
    let mut reader = BatchReader::new(fs.device, options.backend, DEPTH);
    let before: Meter = (options.meter)();
    let mut bytes = 0;
    reader.read(&requests, &mut |_, result| bytes += result.map_or(0, |data| data.len() as u64));
    let after: Meter = (options.meter)();
    (bytes, after.wall_ns.saturating_sub(before.wall_ns) as f64 / 1e9)
}
