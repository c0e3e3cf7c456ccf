//! The superblock against itself, the device and its backups.

pub mod problems;

use fsmend_device::Device;
use fsmend_engine::Findings;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::superblock::RawSuperblock;

use crate::Refusal;

/// What the caller wants of the superblock search.
#[derive(Clone, Copy, Debug, Default)]
pub struct SuperblockOptions {
    /// Use the superblock in this block only (`-b`), instead of the primary and the ladder of backups.
    pub block: Option<u64>,
    /// With `block`: the block size that goes with it (`-B`); tried from 1 KiB to 64 KiB when not given.
    pub block_size: Option<u32>,
}

/// A superblock that can be worked with.
#[derive(Clone)]
pub struct Settled {
    /// As it will be after repair (copied from the best backup if the primary was lost).
    pub superblock: RawSuperblock,
    /// The numbers.
    pub geometry: Geometry,
    /// The block that it was read from: the first data block for the primary.
    pub block: u64,
}

/// Finds a superblock that can be worked with: the primary, else the backups, best first; raises what is wrong with
/// it. Refuses what is not ext at all, and what has incompatible features that nobody here knows.
pub fn settle(
    _device: &dyn Device,
    _options: SuperblockOptions,
    _now: u64,
    _findings: &mut Findings,
) -> Result<Settled, Refusal> {
    Err(Refusal { code: "not-ext", message: String::new(), way_out: String::new() })
}
