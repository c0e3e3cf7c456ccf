// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields of the chosen superblock: what is wrong is raised and mended on our copy.

use fsmend_base::width;
use fsmend_engine::{Findings, Problem, problem::Row, problem::Value};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Compat, Features, Incompat, RoCompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::htree::hash_version;
use fsmend_ext_format::settle::OS_HURD;
use fsmend_ext_format::superblock::{
    GOOD_OLD_FIRST_INO, GOOD_OLD_INODE_SIZE, RawSuperblock, SuperblockState,
};

use super::candidates::{claimed_groups, first_meta_bg_is_too_big, has_wrong_checksum};
use super::problems;
use super::refusal::feature_bits;

/// `s_flags`: for testing development kernels.
const FLAG_TEST: u32 = 4;
/// How far ahead a time may be without a word: clocks are set, time zones are wrong.
const CLOCK_SLACK: u64 = 86_400;
/// Largest `s_log_groups_per_flex`, and what mke2fs makes it.
const FLEX_LOG_MAX: u8 = 31;
const USUAL_FLEX_LOG: u8 = 4;
/// Largest `s_desc_size` that tools let pass, whether it is used or not.
const DESC_SIZE_MAX: u16 = 1024;
/// `s_creator_os`: Linux.
const OS_LINUX: u32 = 0;
/// The extra inode size that every implementation wants today.
const USUAL_EXTRA_SIZE: u16 = 32;

/// Raises what is wrong with the fields of `raw` and mends it. `geometry` is what `raw` gives before mending, and beside it stands what the
/// inode bitmaps tell of the inodes per group where that is something else; `is_backup` says that counts and state are not to be expected.
pub(super) fn mend(
    raw: &mut RawSuperblock,
    (geometry, told): (&Geometry, Option<u32>),
    now: u64,
    is_backup: bool,
    findings: &mut Findings,
) {
    let is_doubtful = has_wrong_checksum(raw);
    if is_doubtful {
        let checked = checksum::superblock(raw);
        let problem = Problem::new(&problems::CHECKSUM).stored(Value::Hex(checked.stored.into()));
        findings.raise(problem.observed(Value::Hex(checked.computed.into())));
    }
    identity(raw, findings);
    features(raw, is_doubtful, findings);
    descriptors(raw, geometry, findings);
    counts(raw, (geometry, told), findings);
    extra_sizes(raw, geometry, findings);
    default_hash(raw, findings);
    mount_options(raw, findings);
    times(raw, now, findings);
    if is_backup {
        // Backups never have the flag, so whether the journal is dirty is for the journal itself to say.
        if raw.features().has_compat(Compat::HAS_JOURNAL) && !raw.features().has_incompat(Incompat::RECOVER) {
            raw.s_feature_incompat += Incompat::RECOVER.bits();
        }
    } else {
        state(raw, findings);
    }
}

fn note(row: &'static Row, findings: &mut Findings) {
    findings.raise(Problem::new(row));
}

fn identity(raw: &mut RawSuperblock, findings: &mut Findings) {
    let features = raw.features();
    if raw.s_uuid == [0; 16] {
        note(&problems::NO_UUID, findings);
    }
    if raw.s_rev_level.get() == 0 && features != Features::default() {
        note(&problems::REVISION_FEATURES, findings);
        raw.s_rev_level = 1.into();
        raw.s_first_ino = GOOD_OLD_FIRST_INO.into();
        raw.s_inode_size = GOOD_OLD_INODE_SIZE.into();
    }
    let modern = features.metadata_csum() || features.has_incompat(Incompat::EXTENTS);
    if raw.s_creator_os.get() != OS_LINUX && modern {
        findings.raise(Problem::new(&problems::CREATOR).stored(raw.s_creator_os.get()));
        raw.s_creator_os = OS_LINUX.into();
    } else if raw.s_creator_os.get() == OS_HURD && features.has_incompat(Incompat::FILETYPE) {
        note(&problems::HURD_FILETYPE, findings);
        raw.s_feature_incompat -= Incompat::FILETYPE.bits();
    }
    if raw.s_flags.get() & FLAG_TEST != 0 {
        note(&problems::TEST_FLAG, findings);
        raw.s_flags -= FLAG_TEST;
    }
}

fn features(raw: &mut RawSuperblock, is_doubtful: bool, findings: &mut Findings) {
    let found = raw.features();
    if found.has_ro_compat(RoCompat::METADATA_CSUM | RoCompat::GDT_CSUM) {
        note(&problems::BOTH_CHECKSUMS, findings);
        raw.s_feature_ro_compat -= RoCompat::GDT_CSUM.bits();
    }
    if found.has_incompat(Incompat::BIT64) && !found.has_incompat(Incompat::EXTENTS) {
        note(&problems::WIDE_WITHOUT_EXTENTS, findings);
        raw.s_feature_incompat += Incompat::EXTENTS.bits();
    }
    if found.has_incompat(Incompat::CSUM_SEED) && !found.metadata_csum() {
        note(&problems::SEED_WITHOUT_CHECKSUMS, findings);
        raw.s_feature_incompat -= Incompat::CSUM_SEED.bits();
    }
    let unknown = feature_bits(found.unknown_but_readable());
    if !unknown.is_empty() && is_doubtful {
        findings.raise(Problem::new(&problems::DOUBTFUL_FEATURES).observed(unknown));
        raw.s_feature_compat = (found.compat & Compat::KNOWN).bits().into();
        raw.s_feature_ro_compat = (raw.s_feature_ro_compat.get() & RoCompat::SUPPORTED.bits()).into();
    } else if !unknown.is_empty() {
        findings.raise(Problem::new(&problems::UNKNOWN_FEATURE).observed(unknown));
    }
}

fn descriptors(raw: &mut RawSuperblock, geometry: &Geometry, findings: &mut Findings) {
    if first_meta_bg_is_too_big(geometry) {
        let problem = Problem::new(&problems::FIRST_META_BG).stored(geometry.first_meta_bg);
        findings.raise(problem.observed(geometry.desc_blocks()));
        raw.s_feature_incompat -= Incompat::META_BG.bits();
        raw.s_first_meta_bg = 0.into();
    }
    let found = raw.features();
    if found.has_compat(Compat::RESIZE_INODE) && found.has_incompat(Incompat::META_BG) {
        note(&problems::META_BG_RESIZE, findings);
        raw.s_feature_compat -= Compat::RESIZE_INODE.bits();
        raw.s_reserved_gdt_blocks = 0.into();
    }
    let size = raw.s_desc_size.get();
    let is_refused = size != 0 && (!size.is_power_of_two() || size > DESC_SIZE_MAX);
    if !raw.features().has_incompat(Incompat::BIT64) && is_refused {
        findings.raise(Problem::new(&problems::DESC_SIZE_UNUSED).stored(size));
        raw.s_desc_size = 0.into();
    }
    let reserved = raw.s_reserved_gdt_blocks.get();
    if !raw.features().has_compat(Compat::RESIZE_INODE) && reserved != 0 {
        findings.raise(Problem::new(&problems::RESERVED_GDT).stored(reserved));
        raw.s_reserved_gdt_blocks = 0.into();
    }
}

fn counts(raw: &mut RawSuperblock, (geometry, told): (&Geometry, Option<u32>), findings: &mut Findings) {
    let (block, fragment) = (raw.s_log_block_size, raw.s_log_cluster_size);
    if !geometry.bigalloc() && block != fragment {
        findings.raise(Problem::new(&problems::FRAGMENTS).stored(fragment.get()).observed(block.get()));
        raw.s_log_cluster_size = block;
    }
    let clusters = raw.s_clusters_per_group.get();
    if !geometry.bigalloc() && clusters != geometry.blocks_per_group {
        let problem = Problem::new(&problems::CLUSTERS_PER_GROUP).stored(clusters);
        findings.raise(problem.observed(geometry.blocks_per_group));
        raw.s_clusters_per_group = geometry.blocks_per_group.into();
    }
    if raw.s_log_groups_per_flex > FLEX_LOG_MAX {
        findings.raise(Problem::new(&problems::GROUPS_PER_FLEX).stored(raw.s_log_groups_per_flex));
        let has_flex = geometry.features.has_incompat(Incompat::FLEX_BG);
        raw.s_log_groups_per_flex = if has_flex { USUAL_FLEX_LOG } else { 0 };
    }
    let groups = claimed_groups(raw, geometry);
    let told = told.or_else(|| better_inodes_per_group(raw, geometry, groups));
    let per_group = told.unwrap_or_else(|| whole_bytes(geometry.inodes_per_group));
    if per_group != geometry.inodes_per_group {
        let problem = Problem::new(&problems::INODES_PER_GROUP).stored(geometry.inodes_per_group);
        findings.raise(problem.observed(per_group));
        raw.s_inodes_per_group = per_group.into();
    }
    let inodes = groups * u64::from(per_group);
    if u64::from(raw.s_inodes_count.get()) != inodes {
        findings
            .raise(Problem::new(&problems::INODES_COUNT).stored(raw.s_inodes_count.get()).observed(inodes));
        raw.s_inodes_count = u32::try_from(inodes).unwrap_or(u32::MAX).into();
    }
    let (reserved, blocks) = (raw.reserved_blocks_count(), raw.blocks_count());
    if reserved > blocks / 2 {
        findings.raise(Problem::new(&problems::RESERVED_BLOCKS).stored(reserved).observed(blocks));
        raw.s_r_blocks_count_lo = width::low_u32(blocks / 2).into();
        raw.s_r_blocks_count_hi = (((blocks / 2) >> 32) as u32).into();
    }
    let first_inode = raw.s_first_ino.get();
    let last = raw.s_inodes_count.get();
    if raw.s_rev_level.get() > 0
        && !(GOOD_OLD_FIRST_INO..=last.max(GOOD_OLD_FIRST_INO)).contains(&first_inode)
    {
        findings.raise(Problem::new(&problems::FIRST_INODE).stored(first_inode));
        raw.s_first_ino = GOOD_OLD_FIRST_INO.into();
    }
}

/// What the total says about the inodes per group, where the number itself is none that was ever chosen: each group has a multiple
/// of eight, as its bitmap is made of bytes.
fn better_inodes_per_group(raw: &RawSuperblock, geometry: &Geometry, groups: u64) -> Option<u32> {
    let total = u64::from(raw.s_inodes_count.get());
    let per_group = u32::try_from(total.checked_div(groups)?).ok()?;
    let bits = geometry.block_size.saturating_mul(8);
    let is_right = per_group != 0 && per_group.is_multiple_of(8) && per_group <= bits;
    let is_wrong = !geometry.inodes_per_group.is_multiple_of(8);
    (is_wrong && is_right && total.is_multiple_of(groups)).then_some(per_group)
}

/// Where nothing tells the inodes per group, so many as whole bytes of the bitmap hold: e2fsck never gets clean with others.
fn whole_bytes(per_group: u32) -> u32 {
    (per_group - per_group % 8).max(8)
}

fn extra_sizes(raw: &mut RawSuperblock, geometry: &Geometry, findings: &mut Findings) {
    if geometry.inode_size <= u32::from(GOOD_OLD_INODE_SIZE) {
        return;
    }
    let room = geometry.inode_size - u32::from(GOOD_OLD_INODE_SIZE);
    let is_wrong = |size: u16| size != 0 && (size < 4 || u32::from(size) > room || !size.is_multiple_of(4));
    let (least, wanted) = (raw.s_min_extra_isize.get(), raw.s_want_extra_isize.get());
    if is_wrong(least) {
        findings.raise(Problem::new(&problems::MIN_EXTRA_SIZE).stored(least).observed(geometry.inode_size));
        raw.s_min_extra_isize = USUAL_EXTRA_SIZE.into();
    }
    if is_wrong(wanted) {
        findings.raise(Problem::new(&problems::WANT_EXTRA_SIZE).stored(wanted).observed(geometry.inode_size));
        raw.s_want_extra_isize = USUAL_EXTRA_SIZE.into();
    }
}

/// The kernel refuses to mount with another one, with indexes or without.
fn default_hash(raw: &mut RawSuperblock, findings: &mut Findings) {
    let version = raw.s_def_hash_version;
    if version > hash_version::TEA_UNSIGNED {
        findings.raise(Problem::new(&problems::HASH_VERSION).stored(version));
        raw.s_def_hash_version = hash_version::HALF_MD4;
    }
}

/// The kernel does not mount with a string that has no end. Tools write none that long, so nothing of it is worth keeping.
fn mount_options(raw: &mut RawSuperblock, findings: &mut Findings) {
    if !raw.s_mount_opts.contains(&0) {
        note(&problems::MOUNT_OPTIONS, findings);
        raw.s_mount_opts.fill(0);
    }
}

fn times(raw: &mut RawSuperblock, now: u64, findings: &mut Findings) {
    let whole = |low: u32, high: u8| u64::from(high) << 32 | u64::from(low);
    let (low, high) = (width::low_u32(now), width::low_u8(now >> 32));
    let mounted = whole(raw.s_mtime.get(), raw.s_mtime_hi);
    if mounted > now.saturating_add(CLOCK_SLACK) {
        findings.raise(Problem::new(&problems::FUTURE_MOUNT).stored(mounted).observed(now));
        (raw.s_mtime, raw.s_mtime_hi) = (low.into(), high);
    }
    let written = whole(raw.s_wtime.get(), raw.s_wtime_hi);
    if written > now.saturating_add(CLOCK_SLACK) {
        findings.raise(Problem::new(&problems::FUTURE_WRITE).stored(written).observed(now));
        (raw.s_wtime, raw.s_wtime_hi) = (low.into(), high);
    }
}

fn state(raw: &mut RawSuperblock, findings: &mut Findings) {
    let state = raw.state();
    if !state.contains(SuperblockState::VALID) {
        note(&problems::NOT_CLEAN, findings);
    }
    if state.contains(SuperblockState::ERRORS) || raw.s_error_count.get() != 0 {
        findings.raise(Problem::new(&problems::ERRORS_RECORDED).stored(raw.s_error_count.get()));
    }
    raw.set_state(state | SuperblockState::VALID);
}
