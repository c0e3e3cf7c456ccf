// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which inodes quotas count, for whom, and how much.

use fsmend_base::InodeNo;
use fsmend_engine::crosscheck::quota::{Owner, QuotaKind};
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::inode::{InodeFlags, RawInode, special};
use fsmend_ext_format::quota::QuotaType;

use super::hidden_inodes;
use crate::Fs;

/// The owner that an inode's record names.
pub fn owner_of(raw: &RawInode) -> Owner {
    Owner { uid: raw.uid(), gid: raw.gid(), projid: raw.project() }
}

/// The kind of quota that a type of quota file is for.
pub(super) fn kind_of(quota: QuotaType) -> QuotaKind {
    match quota {
        QuotaType::User => QuotaKind::User,
        QuotaType::Group => QuotaKind::Group,
        QuotaType::Project => QuotaKind::Project,
    }
}

/// Whether `inode` counts at all: the root directory and everything that is not reserved, but for quota files, the
/// orphan file, and inodes that hold attribute values (those count for whom the attributes belong to).
pub fn counts(fs: &Fs<'_>, inode: InodeNo, flags: InodeFlags) -> bool {
    let ordinary = inode.0 >= fs.geometry.first_inode && !hidden_inodes(fs).contains(&inode.0);
    (inode.0 == special::ROOT || ordinary) && !flags.contains(InodeFlags::EA_INODE)
}

/// Bytes that an inode takes by its block count.
pub fn bytes_of(geometry: &Geometry, raw: &RawInode) -> u64 {
    let huge = geometry.features.has_ro_compat(RoCompat::HUGE_FILE);
    let high = if huge { u64::from(raw.i_blocks_high.get()) << 32 } else { 0 };
    let count = high | u64::from(raw.i_blocks_lo.get());
    let unit = if huge && raw.has_flag(InodeFlags::HUGE_FILE) { u64::from(geometry.block_size) } else { 512 };
    count.saturating_mul(unit)
}
