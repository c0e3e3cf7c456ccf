//! A repair without a part of it: what the user wants to leave as it is.
//!
//! The changes that lie in the records of the objects concerned are left out. Whether the rest can be written is not argued but
//! checked: what is wrong then must have been wrong before.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_device::{Device, Overlay};
use fsmend_engine::{Findings, Problem, Progress, Severity};
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, state};
use zerocopy::{FromBytes, IntoBytes};

use super::RepairOptions;
use crate::run::{self, CheckReport, Refused, check};
use crate::superblock::repair::seal;
use crate::{Fs, journal, superblock};

/// Changes: byte offsets and bytes.
type Changes = Vec<(u64, Vec<u8>)>;

/// The rest of a repair.
#[derive(Debug)]
pub struct Rest {
    /// What has to be written: ascending, without overlaps.
    pub changes: Changes,
    /// What is wrong after that.
    pub left: CheckReport,
}

/// What remains of `changes`, the repair of everything in `found`, when the problems `declined` are left alone. `None` if the rest
/// would break what was not broken before.
pub fn without(
    device: &Arc<dyn Device>,
    options: &RepairOptions,
    (changes, found): (&Changes, &[&Problem]),
    declined: &[&Problem],
    (progress, cancel): (&Progress, &AtomicBool),
) -> Result<Option<Rest>, Refused> {
    let repaired = laid(device, changes);
    let spared = spared(&repaired, options, declined)?;
    // The journal is emptied by the rest of the repair: what it brings to the records that are left alone has to be written all the same.
    let mut rest = within(&replayed(device, options)?, &spared);
    rest.extend(cut(changes, &spared));
    let mut kept = marked_unclean(device, rest);
    kept.retain(|(_, bytes)| !bytes.is_empty());
    let draft: Arc<dyn Device> = Arc::new(laid(device, &kept));
    let left = check(&draft, &options.check, progress, cancel)?;
    let before: BTreeSet<Key> = found.iter().map(|problem| key(problem)).collect();
    let is_harmless = left
        .findings
        .iter()
        .filter(|problem| problem.row.severity > Severity::Note)
        .all(|problem| before.contains(&key(problem)));
    Ok(is_harmless.then_some(Rest { changes: kept, left }))
}

/// What a replay of the journal writes to `device`, in the order of the blocks.
fn replayed(device: &Arc<dyn Device>, options: &RepairOptions) -> Result<Changes, Refused> {
    let refused = |refusal| Refused { refusal, findings: Box::default() };
    let (check, mut findings) = (&options.check, Findings::new());
    let settled =
        superblock::settle(&**device, check.superblock, check.now, &mut findings).map_err(refused)?;
    let fs = run::open(&**device, settled, check.now, &mut findings);
    let external = check.external_journal.as_deref();
    let journal = journal::examine(&fs, external, check.replay, check.memory / 4, &mut findings);
    let writes = journal.map_err(refused)?.writes;
    Ok(writes.into_iter().map(|(block, bytes)| (fs.block_offset(BlockNo(block)), bytes.into_vec())).collect())
}

/// What of `changes` lies in `spared`.
fn within(changes: &Changes, spared: &[(u64, u64)]) -> Changes {
    let mut parts = Vec::new();
    for (offset, bytes) in changes {
        for (from, until) in spared {
            let start = from.saturating_sub(*offset).min(bytes.len() as u64) as usize;
            let end = until.saturating_sub(*offset).min(bytes.len() as u64) as usize;
            if start < end {
                parts.push((offset + start as u64, bytes[start..end].to_vec()));
            }
        }
    }
    parts
}

/// What a problem is, whatever its numbers are by now.
pub(super) type Key = (&'static str, Option<InodeNo>, Option<BlockNo>, Option<GroupNo>);

pub(super) fn key(problem: &Problem) -> Key {
    let object = &problem.object;
    (problem.row.code, object.inode, object.block, object.group)
}

fn laid(device: &Arc<dyn Device>, changes: &Changes) -> Overlay<Arc<dyn Device>> {
    let mut overlay = Overlay::new(Arc::clone(device));
    for (offset, bytes) in changes {
        // Changes come from a repair of this device, which let nothing through behind its end.
        let _ = overlay.write(*offset, bytes);
    }
    overlay
}

/// Start and end of the records that belong to the objects of `declined`.
fn spared(
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

/// `changes` without what lies in `spared`.
fn cut(changes: &Changes, spared: &[(u64, u64)]) -> Changes {
    let mut kept = changes.clone();
    for (from, until) in spared {
        kept = kept.into_iter().flat_map(|change| cut_one(change, *from, *until)).collect();
    }
    kept
}

/// The parts of a change before and behind a range.
fn cut_one((offset, bytes): (u64, Vec<u8>), from: u64, until: u64) -> Vec<(u64, Vec<u8>)> {
    let end = offset.saturating_add(bytes.len() as u64);
    if until <= offset || end <= from {
        return vec![(offset, bytes)];
    }
    let mut parts = Vec::new();
    if offset < from {
        parts.push((offset, bytes[..(from - offset) as usize].to_vec()));
    }
    if until < end {
        parts.push((until, bytes[(until - offset) as usize..].to_vec()));
    }
    parts
}

/// The changes with a superblock that does not call the file system clean.
fn marked_unclean(device: &Arc<dyn Device>, changes: Changes) -> Changes {
    let mut overlay = laid(device, &changes);
    let mut bytes = [0; SUPERBLOCK_SIZE];
    if overlay.read_at(SUPERBLOCK_OFFSET, &mut bytes).is_ok()
        && let Ok(mut superblock) = RawSuperblock::read_from_bytes(&bytes)
    {
        superblock.s_state.set(superblock.s_state.get() & !state::VALID);
        seal(&mut superblock);
        // It was read from there.
        let _ = overlay.write(SUPERBLOCK_OFFSET, superblock.as_bytes());
    }
    overlay.runs().map(|(offset, bytes)| (offset, bytes.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_is_what_a_cut_takes_away() {
        let changes = vec![(10, vec![1, 2, 3, 4]), (20, vec![5, 6])];
        assert_eq!(within(&changes, &[]), []);
        assert_eq!(within(&changes, &[(11, 13)]), [(11, vec![2, 3])]);
        assert_eq!(within(&changes, &[(0, 11), (13, 21)]), [(10, vec![1]), (13, vec![4]), (20, vec![5])]);
        assert_eq!(within(&changes, &[(0, 100)]), changes);
        assert_eq!(within(&changes, &[(14, 20), (0, 10)]), []);
    }

    #[test]
    fn changes_are_cut() {
        let changes = vec![(10, vec![1, 2, 3, 4]), (20, vec![5, 6])];
        assert_eq!(cut(&changes, &[]), changes);
        assert_eq!(cut(&changes, &[(11, 13)]), [(10, vec![1]), (13, vec![4]), (20, vec![5, 6])]);
        assert_eq!(cut(&changes, &[(0, 11), (13, 21)]), [(11, vec![2, 3]), (21, vec![6])]);
        assert_eq!(cut(&changes, &[(0, 100)]), []);
        assert_eq!(cut(&changes, &[(14, 20), (0, 10)]), changes);
    }
}
