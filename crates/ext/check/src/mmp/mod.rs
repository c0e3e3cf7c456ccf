// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multiple-mount protection: the MMP block.
//!
//! ```text
//! 0x00 mmp_magic  0x04 mmp_seq  0x08 mmp_time (64)  0x10 mmp_nodename[64]  0x50 mmp_bdevname[32]
//! 0x70 mmp_check_interval (16)  ...  0x3FC mmp_checksum
//! ```

pub(crate) mod problems;
pub(crate) mod repair;
#[cfg(test)]
mod tests;

use fsmend_base::BlockNo;
use fsmend_engine::problem::Value;
use fsmend_engine::{Findings, Layer, Problem};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::superblock::RawSuperblock;

use crate::Fs;
pub use repair::{MmpBlock, hold};

/// `mmp_magic`.
const MAGIC: u32 = 0x004D_4D50;
/// `mmp_seq`: cleanly unmounted.
const SEQUENCE_CLEAN: u32 = 0xFF4D_4D50;
/// `mmp_seq`: being checked.
const SEQUENCE_FSCK: u32 = 0xE24D_4D50;

/// Where `mmp_seq` stands.
const SEQUENCE: usize = 4;

/// Checks the MMP block, if the file system has the feature. (Its place was checked with the static metadata.) A repair leaves it
/// as after a clean unmount.
pub fn check(fs: &Fs<'_>, findings: &mut Findings) {
    let Some(block) = place(&fs.geometry, &fs.superblock) else { return };
    let reset = |findings: &mut Findings, problem: Problem, bytes: Vec<u8>| {
        findings.raise_with_edit(problem, Layer::Record, fs.block_offset(block), &bytes);
    };
    let Ok(mut bytes) = fs.read_block(block) else {
        let problem = Problem::new(&problems::UNREADABLE).block(block);
        return reset(findings, problem, repair::fresh(fs));
    };
    if let Some(problem) = judge(&fs.geometry, &bytes) {
        return reset(findings, problem.block(block), repair::fresh(fs));
    }
    let state = match word(&bytes, SEQUENCE) {
        SEQUENCE_CLEAN => return,
        SEQUENCE_FSCK => "being checked",
        _ => "mounted",
    };
    let problem = Problem::new(&problems::IN_USE).observed(state);
    let problem = problem.detail("node", text(&bytes[0x10..0x50])).detail("device", text(&bytes[0x50..0x70]));
    repair::set_sequence(&fs.geometry, &mut bytes, SEQUENCE_CLEAN);
    reset(findings, problem, bytes);
}

/// Where the block lies; `None` without the feature, or where it cannot be there.
fn place(geometry: &Geometry, superblock: &RawSuperblock) -> Option<BlockNo> {
    let block = superblock.s_mmp_block.get();
    let is_there = geometry.features.has_incompat(Incompat::MMP)
        && block > u64::from(geometry.first_data_block)
        && block < geometry.blocks_count;
    is_there.then_some(BlockNo(block))
}

/// What makes these contents unusable.
fn judge(geometry: &Geometry, bytes: &[u8]) -> Option<Problem> {
    let magic = word(bytes, 0);
    if magic != MAGIC {
        let problem = Problem::new(&problems::MAGIC).stored(Value::Hex(magic.into()));
        return Some(problem.observed(Value::Hex(MAGIC.into())));
    }
    let checked = checksum::mmp_block(geometry.checksum_seed, bytes)
        .filter(|checked| geometry.features.metadata_csum() && !checked.is_right())?;
    let problem = Problem::new(&problems::CHECKSUM).stored(Value::Hex(checked.stored.into()));
    Some(problem.observed(Value::Hex(checked.computed.into())))
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..offset + 4).map_or(0, |word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

fn text(bytes: &[u8]) -> Value {
    Value::name(bytes.split(|byte| *byte == 0).next().unwrap_or(bytes))
}
