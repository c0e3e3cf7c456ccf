// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which bytes belong to the objects of problems, for a repair that leaves some of them alone.

use std::sync::Arc;

use fsmend_base::BlockNo;
use fsmend_device::Device;
use fsmend_engine::options::RepairOptions;
use fsmend_engine::repair::Changes;
use fsmend_engine::repair::changes::laid;
use fsmend_engine::{Findings, Problem, Refused};
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, SuperblockState};
use zerocopy::{FromBytes, IntoBytes};

use crate::superblock::repair::seal;
use crate::{Fs, journal, run, superblock};

/// Start and end of the records that belong to the objects of `declined`.
pub(crate) fn spared(
    repaired: &dyn Device,
    options: &RepairOptions,
    declined: &[&Problem],
) -> Result<Vec<(u64, u64)>, Refused> {
    let mut findings = Findings::new();
    let now = options.check.now;
    let settled = superblock::settle(repaired, options.check.superblock, now, &mut findings)
        .map_err(|refusal| Refused { refusal, findings: Box::default() })?;
    let fs = run::open(repaired, settled, now, &mut findings);
    Ok(declined.iter().flat_map(|problem| records(&fs, problem)).collect())
}

fn records(fs: &Fs<'_>, problem: &Problem) -> Vec<(u64, u64)> {
    let object = &problem.object;
    let block_size = u64::from(fs.geometry.block_size);
    let blocks = |start: u64, count: u64| {
        let offset = fs.block_offset(BlockNo(start));
        (offset, offset.saturating_add(count.saturating_mul(block_size)))
    };
    let mut records = Vec::new();
    if let Some(offset) = object.inode.and_then(|inode| fs.inode_offset(inode)) {
        records.push((offset, offset + u64::from(fs.geometry.inode_size)));
    }
    if let Some(block) = object.block {
        records.push(blocks(block.0, object.block_count.unwrap_or(1)));
    }
    if let Some((number, group)) = object.group.and_then(|number| Some((number, fs.group(number)?))) {
        records.extend([group.desc.block_bitmap, group.desc.inode_bitmap].map(|block| blocks(block, 1)));
        let per_block = fs.geometry.descs_per_block().max(1);
        let size = u64::from(fs.geometry.desc_size);
        for block in fs.geometry.descriptor_copies(number.0 / per_block, 1) {
            let offset = fs.block_offset(block) + u64::from(number.0 % per_block) * size;
            records.push((offset, offset + size));
        }
    }
    records
}

/// What a replay of the journal writes to `device`, in the order of the blocks.
pub(crate) fn replayed(device: &Arc<dyn Device>, options: &RepairOptions) -> Result<Changes, Refused> {
    let refused = |refusal| Refused { refusal, findings: Box::default() };
    let (check, mut findings) = (&options.check, Findings::new());
    let settled =
        superblock::settle(&**device, check.superblock, check.now, &mut findings).map_err(refused)?;
    let fs = run::open(&**device, settled, check.now, &mut findings);
    let external = check.external_journal.as_deref();
    let journal = journal::examine(&fs, external, check.replay, check.memory / 4, &mut findings);
    Ok(journal.map_err(refused)?.changes)
}

/// The changes with a superblock that does not call the file system clean.
pub(crate) fn marked_unclean(device: &Arc<dyn Device>, changes: Changes) -> Changes {
    let mut overlay = laid(device, &changes);
    let mut bytes = [0; SUPERBLOCK_SIZE];
    if overlay.read_at(SUPERBLOCK_OFFSET, &mut bytes).is_ok()
        && let Ok(mut superblock) = RawSuperblock::read_from_bytes(&bytes)
    {
        superblock.set_state(superblock.state() & !SuperblockState::VALID);
        seal(&mut superblock);
        // It was read from there.
        let _ = overlay.write(SUPERBLOCK_OFFSET, superblock.as_bytes());
    }
    overlay.runs().map(|(offset, bytes)| (offset, bytes.to_vec())).collect()
}
