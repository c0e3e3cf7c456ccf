// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was checked, for the head of the report.

use fsmend_engine::claims::Claims;
use fsmend_engine::report::{JournalUse, Summary};
use fsmend_engine::{Findings, Row};
use fsmend_ext_format::features::{Compat, Incompat};
use fsmend_ext_format::superblock::written_uuid;

use crate::Fs;
use crate::allocation::Totals;
use crate::journal::problems::{INODE_BAD, SUPERBLOCK_BAD, SUPERBLOCK_MISSING, UNREADABLE};
use crate::superblock::Settled;

/// The counted half.
pub fn counts(fs: &Fs<'_>, claims: &Claims, totals: &Totals, non_contiguous: u64) -> Summary {
    let geometry = &fs.geometry;
    let free_blocks = totals.free_units * u64::from(geometry.cluster_blocks);
    Summary {
        block_size: u64::from(geometry.block_size),
        files_total: u64::from(geometry.inodes_count),
        files_used: u64::from(geometry.inodes_count).saturating_sub(totals.free_inodes),
        blocks_total: geometry.blocks_count,
        blocks_used: geometry.blocks_count.saturating_sub(free_blocks),
        directories: totals.directories,
        non_contiguous,
        metadata_regions: fs.regions.exist().then(|| fs.regions.fullness(claims.claimed())),
        ..Summary::default()
    }
}

/// What says of a journal that it cannot be used as it is, or whose contents are unknown.
const JOURNAL_IS_DAMAGED: [&Row; 4] = [&INODE_BAD, &SUPERBLOCK_MISSING, &SUPERBLOCK_BAD, &UNREADABLE];

/// Adds what the superblock says, and what was found about the journal.
pub fn fill(
    summary: Summary,
    (fs, settled): (&Fs<'_>, &Settled),
    replayed: bool,
    findings: &Findings,
) -> Summary {
    let features = fs.geometry.features;
    let name = &fs.superblock.s_volume_name;
    let uuid = &fs.superblock.s_uuid;
    let label = name.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let needs_recovery = settled.superblock.features().has_incompat(Incompat::RECOVER);
    let is_damaged = JOURNAL_IS_DAMAGED.iter().any(|row| findings.has(row));
    let journal = match (features.has_compat(Compat::HAS_JOURNAL), replayed) {
        (false, _) => JournalUse::None,
        (true, true) => JournalUse::Replayed,
        (true, false) if needs_recovery => JournalUse::NotReplayed,
        (true, false) if is_damaged => JournalUse::Damaged,
        (true, false) => JournalUse::Clean,
    };
    Summary {
        kind: features.kind(),
        label: fsmend_engine::problem::escape_name(label),
        uuid: if uuid == &[0; 16] { String::new() } else { written_uuid(uuid) },
        features: features.names().join(" "),
        journal,
        superblock: settled.block,
        superblock_is_backup: settled.is_backup(),
        ..summary
    }
}
