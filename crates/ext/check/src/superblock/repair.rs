//! The primary superblock as it has to be: totals, state, times, checksum.

use fsmend_ext_format::checksum;
use fsmend_ext_format::features::incompat;
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_SIZE};
use zerocopy::IntoBytes;

use crate::allocation::Totals;
use crate::repair::Mender;

/// Byte offset of the primary superblock.
const PRIMARY: u64 = 1024;
/// `s_state`: cleanly unmounted.
const STATE_VALID: u16 = 1;
/// `s_state`: the kernel found errors.
const STATE_ERRORS: u16 = 2;

/// Writes the primary superblock if it is not as it has to be.
pub(crate) fn mend(mender: &mut Mender<'_>, totals: &Totals) {
    let unit = u64::from(mender.fs.geometry.cluster_blocks);
    let superblock = &mut mender.fs.superblock;
    let free_blocks = totals.free_units * unit;
    superblock.s_free_blocks_count_lo.set(free_blocks as u32);
    if superblock.features().has_incompat(incompat::BIT64) {
        superblock.s_free_blocks_count_hi.set((free_blocks >> 32) as u32);
    }
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
