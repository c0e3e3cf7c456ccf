// SPDX-License-Identifier: MIT OR Apache-2.0
//! The superblock as it has to be: identity, totals, state, times, checksum; in the place of the primary.

use fsmend_base::{SeededRandom, width};
use fsmend_engine::{Findings, Part, Row};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Features, Incompat, RoCompat};
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, SuperblockState};
use zerocopy::IntoBytes;

use super::{Settled, problems};
use crate::journal;
use crate::repair::RepairContext;
use crate::{extent, inline_data, links, xattr};

/// Rows that ask for a feature, with the feature.
const ASKING: [(&Row, Features); 5] = [
    (&extent::problems::TREE_WITHOUT_FEATURE, incompatible(Incompat::EXTENTS)),
    (&inline_data::problems::FEATURE, incompatible(Incompat::INLINE_DATA)),
    (&xattr::problems::VALUE_INODE_FEATURE, incompatible(Incompat::EA_INODE)),
    (&problems::LARGE_FILE_MISSING, read_only(RoCompat::LARGE_FILE)),
    (&links::problems::NLINK_FEATURE_MISSING, read_only(RoCompat::DIR_NLINK)),
];

const fn incompatible(feature: Incompat) -> Features {
    Features::from_words(0, feature.bits(), 0)
}

const fn read_only(feature: RoCompat) -> Features {
    Features::from_words(0, 0, feature.bits())
}

/// The features that files were found to need.
pub(crate) fn missing_features(findings: &Findings) -> Features {
    let asked = ASKING.iter().filter(|(row, _)| findings.has(row));
    asked.fold(Features::default(), |all, (_, feature)| Features {
        compat: all.compat | feature.compat,
        incompat: all.incompat | feature.incompat,
        ro_compat: all.ro_compat | feature.ro_compat,
    })
}

/// The bytes of a primary superblock that says what `settled`, a backup, says.
pub(crate) fn as_primary(settled: &Settled) -> Vec<u8> {
    let mut superblock = settled.superblock.clone();
    superblock.s_block_group_nr = 0.into();
    seal(&mut superblock);
    superblock.as_bytes().to_vec()
}

/// Gives a file system without UUID one, before anything gets a checksum. It follows from what the superblock says and from the
/// time, so that the same repair gives the same UUID at any number of threads.
pub(crate) fn identify(context: &mut RepairContext<'_>) {
    let superblock = &mut context.fs.superblock;
    if superblock.s_uuid != [0; 16] {
        return;
    }
    superblock.s_uuid = fresh_uuid(superblock, context.fs.now);
    let features = superblock.features();
    if features.metadata_csum() && !features.has_incompat(Incompat::CSUM_SEED) {
        // All checksums hang on the old UUID: its seed is kept, as after a change of the UUID by the usual tools.
        superblock.s_checksum_seed = context.fs.geometry.checksum_seed.into();
        superblock.s_feature_incompat |= Incompat::CSUM_SEED.bits();
        context.fs.geometry.features = superblock.features();
    }
    context.fs.geometry.uuid = superblock.s_uuid;
    context.backups_lag |= features.has_ro_compat(RoCompat::GDT_CSUM);
}

/// A UUID of the random kind (version 4), drawn from the contents of the superblock.
fn fresh_uuid(superblock: &RawSuperblock, now: u64) -> [u8; 16] {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let seed = superblock.as_bytes().iter().chain(&now.to_le_bytes()).fold(0xCBF2_9CE4_8422_2325, fnv);
    let mut random = SeededRandom::new(seed);
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&random.next_u64().to_le_bytes());
    uuid[8..].copy_from_slice(&random.next_u64().to_le_bytes());
    uuid[6] = uuid[6] & 0x0F | 0x40;
    uuid[8] = uuid[8] & 0x3F | 0x80;
    uuid
}

/// Writes the primary superblock if it is not as it has to be.
pub(crate) fn mend(context: &mut RepairContext<'_>) {
    let totals = context.totals;
    context.overlay.mending(Some(Part::FileSystem));
    journal::repair::copy_block_list(context);
    let unit = u64::from(context.fs.geometry.cluster_blocks);
    let superblock = &mut context.fs.superblock;
    let free_blocks = totals.free_units * unit;
    superblock.s_free_blocks_count_lo.set(width::low_u32(free_blocks));
    if superblock.features().has_incompat(Incompat::BIT64) {
        superblock.s_free_blocks_count_hi.set((free_blocks >> 32) as u32);
    }
    let missing = context.repair_input.features;
    superblock.s_feature_incompat |= missing.incompat.bits();
    superblock.s_feature_ro_compat |= missing.ro_compat.bits();
    superblock.s_free_inodes_count.set(width::low_u32(totals.free_inodes));
    superblock.set_state((superblock.state() | SuperblockState::VALID) & !SuperblockState::ERRORS);
    forget_errors(superblock);
    seal(superblock);
    let mut stored = [0; SUPERBLOCK_SIZE];
    let is_readable = context.overlay.read_at(SUPERBLOCK_OFFSET, &mut stored).is_ok();
    if !is_readable || stored[..] != *superblock.as_bytes() {
        mark_checked(superblock, context.fs.now);
        seal(superblock);
        context.overlay.write(SUPERBLOCK_OFFSET, superblock.as_bytes());
    }
    super::backups::refresh(context);
}

/// A file system that has just been checked: no mounts since.
pub(crate) fn mark_checked(superblock: &mut RawSuperblock, now: u64) {
    superblock.s_mnt_count.set(0);
    superblock.s_lastcheck.set(width::low_u32(now));
    superblock.s_lastcheck_hi = width::low_u8(now >> 32);
    superblock.s_wtime.set(width::low_u32(now));
    superblock.s_wtime_hi = width::low_u8(now >> 32);
}

/// Clears what the kernel has recorded of errors: they are mended.
fn forget_errors(raw: &mut RawSuperblock) {
    raw.s_error_count = 0.into();
    raw.s_first_error_time = 0.into();
    raw.s_first_error_time_hi = 0;
    raw.s_first_error_ino = 0.into();
    raw.s_first_error_block = 0.into();
    raw.s_first_error_func = [0; 32];
    raw.s_first_error_line = 0.into();
    raw.s_first_error_errcode = 0;
    raw.s_last_error_time = 0.into();
    raw.s_last_error_time_hi = 0;
    raw.s_last_error_ino = 0.into();
    raw.s_last_error_line = 0.into();
    raw.s_last_error_block = 0.into();
    raw.s_last_error_func = [0; 32];
    raw.s_last_error_errcode = 0;
}

/// Puts the right checksum into a superblock, where the file system has checksums.
pub(crate) fn seal(superblock: &mut RawSuperblock) {
    if superblock.features().metadata_csum() {
        checksum::seal_superblock(superblock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsmend_base::InodeNo;
    use fsmend_engine::Problem;

    #[test]
    fn features_are_what_the_problems_ask_for() {
        let mut findings = Findings::new();
        assert_eq!(missing_features(&findings), Features::default());
        let problem = |row| Problem::new(row).inode(InodeNo(12));
        findings.raise(problem(&extent::problems::TREE_WITHOUT_FEATURE));
        findings.raise(problem(&problems::LARGE_FILE_MISSING).observed(1u64 << 31));
        let expected =
            Features { incompat: Incompat::EXTENTS, ro_compat: RoCompat::LARGE_FILE, ..Features::default() };
        assert_eq!(missing_features(&findings), expected);
    }
}
