//! The primary superblock as it has to be: totals, state, times, checksum.

use fsmend_engine::{Findings, Row};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Features, incompat, ro_compat};
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_SIZE};
use zerocopy::IntoBytes;

use super::problems;
use crate::allocation::Totals;
use crate::repair::Mender;
use crate::{extent, inline_data, links, xattr};

/// Byte offset of the primary superblock.
const PRIMARY: u64 = 1024;
/// `s_state`: cleanly unmounted.
const STATE_VALID: u16 = 1;
/// `s_state`: the kernel found errors.
const STATE_ERRORS: u16 = 2;

/// Rows that ask for a feature, with the feature.
const ASKING: [(&Row, Features); 5] = [
    (&extent::problems::TREE_WITHOUT_FEATURE, incompatible(incompat::EXTENTS)),
    (&inline_data::problems::FEATURE, incompatible(incompat::INLINE_DATA)),
    (&xattr::problems::VALUE_INODE_FEATURE, incompatible(incompat::EA_INODE)),
    (&problems::LARGE_FILE_MISSING, read_only(ro_compat::LARGE_FILE)),
    (&links::problems::NLINK_FEATURE_MISSING, read_only(ro_compat::DIR_NLINK)),
];

const fn incompatible(feature: u32) -> Features {
    Features { compat: 0, incompat: feature, ro_compat: 0 }
}

const fn read_only(feature: u32) -> Features {
    Features { compat: 0, incompat: 0, ro_compat: feature }
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

/// Writes the primary superblock if it is not as it has to be.
pub(crate) fn mend(mender: &mut Mender<'_>, totals: &Totals) {
    let unit = u64::from(mender.fs.geometry.cluster_blocks);
    let superblock = &mut mender.fs.superblock;
    let free_blocks = totals.free_units * unit;
    superblock.s_free_blocks_count_lo.set(free_blocks as u32);
    if superblock.features().has_incompat(incompat::BIT64) {
        superblock.s_free_blocks_count_hi.set((free_blocks >> 32) as u32);
    }
    let missing = mender.remains.features;
    superblock.s_feature_incompat.set(superblock.s_feature_incompat.get() | missing.incompat);
    superblock.s_feature_ro_compat.set(superblock.s_feature_ro_compat.get() | missing.ro_compat);
    superblock.s_free_inodes_count.set(totals.free_inodes as u32);
    superblock.s_state.set((superblock.s_state.get() | STATE_VALID) & !STATE_ERRORS);
    seal(superblock);
    let mut stored = [0; SUPERBLOCK_SIZE];
    let is_readable = mender.draft.read_at(PRIMARY, &mut stored).is_ok();
    if !is_readable || stored[..] != *superblock.as_bytes() {
        mark_checked(superblock, mender.fs.now);
        seal(superblock);
        mender.draft.write(PRIMARY, superblock.as_bytes());
    }
}

/// A file system that has just been checked: no errors on record, no mounts since.
pub(crate) fn mark_checked(superblock: &mut RawSuperblock, now: u64) {
    superblock.s_mnt_count.set(0);
    superblock.s_lastcheck.set(now as u32);
    superblock.s_lastcheck_hi = (now >> 32) as u8;
    superblock.s_wtime.set(now as u32);
    superblock.s_wtime_hi = (now >> 32) as u8;
    superblock.s_error_count.set(0);
}

/// Puts the right checksum into it, where the file system has them.
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
        let expected = Features { compat: 0, incompat: incompat::EXTENTS, ro_compat: ro_compat::LARGE_FILE };
        assert_eq!(missing_features(&findings), expected);
    }
}
