//! Multiple-mount protection: the MMP block.
//!
//! ```text
//! 0x00 mmp_magic  0x04 mmp_seq  0x08 mmp_time (64)  0x10 mmp_nodename[64]  0x50 mmp_bdevname[32]
//! 0x70 mmp_check_interval (16)  ...  0x3FC mmp_checksum
//! ```

pub mod problems;
#[cfg(test)]
mod tests;

use fsmend_base::BlockNo;
use fsmend_engine::problem::Value;
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::incompat;

use crate::Fs;

/// `mmp_magic`.
const MAGIC: u32 = 0x004D_4D50;
/// `mmp_seq`: cleanly unmounted.
const SEQUENCE_CLEAN: u32 = 0xFF4D_4D50;
/// `mmp_seq`: being checked.
const SEQUENCE_FSCK: u32 = 0xE24D_4D50;

/// Checks the MMP block, if the file system has the feature. (Its place was checked with the static metadata.)
pub fn check(fs: &Fs<'_>, findings: &mut Findings) {
    let block = BlockNo(fs.superblock.s_mmp_block.get());
    let has_place = block.0 > u64::from(fs.geometry.first_data_block) && fs.is_valid_block(block);
    if !fs.geometry.features.has_incompat(incompat::MMP) || !has_place {
        return;
    }
    let Ok(bytes) = fs.read_block(block) else {
        findings.raise(Problem::new(&problems::UNREADABLE).block(block));
        return;
    };
    let word = |offset: usize| {
        u32::from_le_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
    };
    if word(0) != MAGIC {
        let problem = Problem::new(&problems::MAGIC).block(block).stored(Value::Hex(word(0).into()));
        findings.raise(problem.observed(Value::Hex(MAGIC.into())));
        return;
    }
    let checked = checksum::mmp_block(fs.geometry.checksum_seed, &bytes);
    if let Some(checked) =
        checked.filter(|checked| fs.geometry.features.metadata_csum() && !checked.is_right())
    {
        let problem =
            Problem::new(&problems::CHECKSUM).block(block).stored(Value::Hex(checked.stored.into()));
        findings.raise(problem.observed(Value::Hex(checked.computed.into())));
        return;
    }
    let state = match word(4) {
        SEQUENCE_CLEAN => return,
        SEQUENCE_FSCK => "being checked",
        _ => "mounted",
    };
    let problem = Problem::new(&problems::IN_USE).observed(state);
    findings
        .raise(problem.detail("node", text(&bytes[0x10..0x50])).detail("device", text(&bytes[0x50..0x70])));
}

fn text(bytes: &[u8]) -> Value {
    Value::name(bytes.split(|byte| *byte == 0).next().unwrap_or(bytes))
}
