// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orphans: the list that starts in the superblock, and the orphan file.
//!
//! Orphans are released before anything else is checked: on an overlay, freed inodes and their blocks leave the bitmaps,
//! so that the other checks see the file system as it will be, and need not know about orphans at all. What stands beyond the size of a truncated
//! file never comes back, even where its map is damaged or the list cannot be trusted.

mod file;
pub(crate) mod problems;
mod release;
pub(crate) mod repair;
#[cfg(test)]
mod tests;
mod trim;

use std::collections::BTreeSet;

use fsmend_base::{InodeNo, width};
use fsmend_engine::Findings;
use fsmend_engine::problem::Problem;
use fsmend_engine::repair::Changes;
use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::inode::RawInode;
use fsmend_ext_format::superblock::{RawSuperblock, SuperblockState};
use zerocopy::little_endian::U32;

use crate::journal::replay_overlay::ReplayOverlay;
use crate::quota::QuotaUsage;
use crate::{Fs, Refusal};
use problems::{
    FILE_WITHOUT_JOURNAL, HEAD_ILLEGAL, LINK_ILLEGAL, NOT_TRUSTED, PRESENT_CLEAN, PRESENT_WITHOUT_FILE,
    REFUGEES, UNRELEASED, WAITING,
};
use release::Release;

/// What came of the orphans.
#[derive(Clone, Debug, Default)]
pub struct Orphans {
    /// Deleted files that were released: their inodes are free, their blocks too.
    pub freed: BTreeSet<InodeNo>,
    /// Files that were cut to their size.
    pub truncated: BTreeSet<InodeNo>,
    /// Blocks (file-system block number, contents) that the release changes. Laid over the device, they make the file
    /// system as it is after the release; superblock and descriptors have to be loaded again.
    pub changes: Changes,
    /// Whether the inode that the superblock names as the orphan file is none, whatever else it is.
    pub file_is_unusable: bool,
    /// What the released files used. Quota files still count it: it has to be added to the use that is found.
    pub used: QuotaUsage,
}

/// What the journal has to say about orphans.
#[derive(Clone, Copy, Debug, Default)]
pub struct JournalState<'a> {
    /// Whether a journal was replayed before: then orphans are nothing special.
    pub replayed: bool,
    /// Whether the journal will be made anew.
    pub dropped: bool,
    /// The list as it was before fast commits.
    pub listed: &'a [InodeNo],
}

/// Releases the orphans of `fs` on an overlay: those of the list, then those of the orphan file. Bounded: the list ends at the first inode that is met
/// a second time. Refuses when what changes takes more than `room` bytes of memory.
pub fn released(
    fs: &Fs<'_>,
    journal: JournalState<'_>,
    room: u64,
    findings: &mut Findings,
) -> Result<Orphans, Refusal> {
    let crashed = journal.replayed || fs.geometry.features.has_incompat(Incompat::RECOVER);
    let mut release = Release::new(fs, room, findings);
    let superblock = release.overlay.superblock();
    let trusted = !superblock.state().contains(SuperblockState::ERRORS);
    let head = InodeNo(superblock.s_last_orphan.get());
    if head.0 != 0 && trusted {
        follow_list(&mut release, head);
        release_rest(&mut release, journal.listed);
    } else if head.0 != 0 {
        release.findings.raise(Problem::new(&NOT_TRUSTED).inode(head));
        cut_listed(&mut release, head);
    }
    let entries = orphan_file(&mut release, trusted, journal.dropped);
    if release.is_over_budget() {
        return Err(too_many(room));
    }
    let count = (release.orphans.freed.len() + release.orphans.truncated.len()) as u64;
    let row = if crashed { &WAITING } else { &UNRELEASED };
    if count > 0 {
        release.findings.raise(Problem::new(row).stored(count));
    }
    if entries == Some(0) && !crashed && present(fs) {
        release.findings.raise(Problem::new(&PRESENT_CLEAN));
    }
    Ok(close(release, head, entries.is_some()))
}

fn too_many(room: u64) -> Refusal {
    Refusal {
        code: "memory-too-small",
        message: format!(
            "the inodes of the files that wait to be released take more memory than the {} MiB that are left",
            room >> 20
        ),
        hint: "Allow more (--memory)".to_owned(),
    }
}

/// Raises that `count` inodes look like parts of a broken list of orphans (deletion times that are inode numbers).
pub fn refugees(count: u64, findings: &mut Findings) {
    if count > 0 {
        findings.raise(Problem::new(&REFUGEES).stored(count));
    }
}

fn present(fs: &Fs<'_>) -> bool {
    fs.geometry.features.has_ro_compat(RoCompat::ORPHAN_PRESENT)
}

/// Whether a file that a user can have may have this number.
fn is_ordinary(fs: &Fs<'_>, inode: InodeNo) -> bool {
    inode.0 >= fs.geometry.first_inode && inode.0 <= fs.geometry.inodes_count
}

fn follow_list(release: &mut Release<'_, '_>, head: InodeNo) {
    if !is_ordinary(release.fs, head) {
        release.findings.raise(Problem::new(&HEAD_ILLEGAL).stored(head.0));
        return;
    }
    let mut next = head;
    while next.0 != 0 {
        let inode = next;
        let Some(link) = release.link_of(inode) else { return };
        let seen = link == inode || release.is_released(link);
        if link.0 != 0 && (seen || !is_ordinary(release.fs, link)) {
            release.findings.raise(Problem::new(&LINK_ILLEGAL).inode(inode).stored(link.0));
            return cut_listed(release, inode);
        }
        if !release.release(inode) {
            return cut_listed(release, link);
        }
        next = link;
    }
}

/// Cuts truncated files to their size on a list that is not trusted, from `head` on: what lies beyond was thrown away by the user. Deleted files are
/// left to the other checks.
fn cut_listed(release: &mut Release<'_, '_>, head: InodeNo) {
    release.free_no_more();
    for inode in listed_from(release.fs, &release.overlay, head) {
        if !release.is_released(inode) {
            release.release(inode);
        }
    }
}

/// The inodes on the list of orphans as `overlay` has it, up to the first link that leads nowhere.
pub(crate) fn listed(fs: &Fs<'_>, overlay: &ReplayOverlay<'_>) -> Vec<InodeNo> {
    listed_from(fs, overlay, InodeNo(overlay.superblock().s_last_orphan.get()))
}

fn listed_from(fs: &Fs<'_>, overlay: &ReplayOverlay<'_>, head: InodeNo) -> Vec<InodeNo> {
    let (mut list, mut seen) = (Vec::new(), BTreeSet::new());
    let mut next = head;
    while is_ordinary(fs, next) && seen.insert(next) {
        let Ok(record) = overlay.inode(next) else { break };
        list.push(next);
        next = InodeNo(RawInode::from_record(&record).i_dtime.get());
    }
    list
}

/// Releases what was on the list before fast commits and is an orphan still. A fast commit that logs the inode of a new file in the place of an orphan
/// cuts the list there, and the kernel never finds the rest.
fn release_rest(release: &mut Release<'_, '_>, listed: &[InodeNo]) {
    for inode in listed {
        if !release.is_released(*inode) && release.is_orphan(*inode) && !release.release(*inode) {
            release.free_no_more();
        }
    }
}

/// The orphan file and its features. Gives the number of its entries, `None` without a usable file.
fn orphan_file(release: &mut Release<'_, '_>, trusted: bool, journal_dropped: bool) -> Option<u64> {
    let features = release.fs.geometry.features;
    if !features.has_compat(Compat::ORPHAN_FILE) {
        if present(release.fs) {
            release.findings.raise(Problem::new(&PRESENT_WITHOUT_FILE));
        }
        return None;
    }
    if !features.has_compat(Compat::HAS_JOURNAL) && !journal_dropped {
        release.findings.raise(Problem::new(&FILE_WITHOUT_JOURNAL));
    }
    if !trusted {
        release.free_no_more();
    }
    file::check(release, present(release.fs))
}

/// Takes the list and the feature out of the superblock and sets its counts.
fn close(release: Release<'_, '_>, head: InodeNo, file_is_clean: bool) -> Orphans {
    let (mut overlay, mut orphans, freed) = release.into_parts();
    let cluster_blocks = u64::from(overlay.geometry.cluster_blocks);
    let was_present = overlay.geometry.features.has_ro_compat(RoCompat::ORPHAN_PRESENT);
    if head.0 != 0 || (was_present && file_is_clean) || freed != (0, 0) {
        // A superblock that cannot be read was settled from a backup, and then there is nothing to keep in step.
        let _ = overlay.edit_superblock(|raw| {
            raw.s_last_orphan = U32::new(0);
            if file_is_clean {
                raw.s_feature_ro_compat =
                    U32::new(raw.s_feature_ro_compat.get() & !RoCompat::ORPHAN_PRESENT.bits());
            }
            add_free(raw, freed.0.saturating_mul(cluster_blocks), freed.1);
        });
    }
    orphans.changes = overlay.into_changes();
    orphans
}

fn add_free(raw: &mut RawSuperblock, blocks: u64, inodes: u32) {
    let free = raw.free_blocks_count().saturating_add(blocks);
    raw.s_free_blocks_count_lo = U32::new(width::low_u32(free));
    if raw.features().has_incompat(Incompat::BIT64) {
        raw.s_free_blocks_count_hi = U32::new((free >> 32) as u32);
    }
    raw.s_free_inodes_count = U32::new(raw.s_free_inodes_count.get().saturating_add(inodes));
}
