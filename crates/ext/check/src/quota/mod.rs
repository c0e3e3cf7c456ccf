// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quota files against the usage that the inodes add up to.

pub(crate) mod problems;
pub(crate) mod repair;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use fsmend_base::{InodeNo, width};
use fsmend_device::ReadError;
use fsmend_engine::Findings;
use fsmend_engine::problem::Problem;
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode, special};
use fsmend_ext_format::quota::{
    QUOTA_BLOCK_SIZE, QUOTA_TREE_DEPTH, QUOTA_TREE_ROOT, QuotaType, QuotaVersion, entries, free_lists,
    references, stored_blocks, version,
};

use fsmend_ext_format::superblock::RawSuperblock;

use crate::Fs;
use crate::journal::map::{self, FileMap};
use crate::journal::replay_overlay::ReplayOverlay;
pub use fsmend_engine::crosscheck::quota::{Owner, QuotaUsage, Used};
use problems::{FILE_DAMAGED, INODE_NUMBER, USAGE_WRONG};
pub use usage::{bytes_of, counts, owner_of};

/// No implementation reads a longer quota file.
const SIZE_MAX: u64 = 1 << 31;

/// The inode that holds the quota of type `kind` by the superblock of `fs`; `None` when there is none, or when its
/// number cannot be right.
pub fn inode_of(fs: &Fs<'_>, kind: QuotaType) -> Option<InodeNo> {
    let inode = stored_inode(fs, kind);
    (inode.0 != 0 && is_possible(fs, kind, inode)).then_some(inode)
}

/// The inodes that hold quota, and the orphan file; 0 where there is none. They are used without having names, and
/// they are not charged.
pub fn hidden_inodes(fs: &Fs<'_>) -> [u32; 4] {
    let [user, group, project] = QuotaType::ALL.map(|kind| stored_inode(fs, kind).0);
    [user, group, project, fs.superblock.s_orphan_file_inum.get()]
}

/// The numbers of the quota inodes as they have to be. One that cannot be right, or that leads to something else, gives way to the
/// inode that is kept for its kind, if that holds a quota file.
pub fn settled_numbers(fs: &Fs<'_>, findings: &mut Findings) -> [u32; 3] {
    QuotaType::ALL.map(|kind| {
        let stored = stored_inode(fs, kind);
        let reserved = match kind {
            QuotaType::User => special::USER_QUOTA,
            QuotaType::Group => special::GROUP_QUOTA,
            QuotaType::Project => 0,
        };
        if stored.0 == 0 || stored.0 == reserved {
            return stored.0;
        }
        let is_possible = is_possible(fs, kind, stored) && !is_stray(fs, kind, stored);
        let has_better = has_quota(fs) && reserved != 0 && holds_quota(fs, kind, InodeNo(reserved));
        if is_possible && (!has_better || holds_quota(fs, kind, stored)) {
            return stored.0;
        }
        findings.raise(Problem::new(&INODE_NUMBER).stored(stored.0).detail("kind", kind.word()));
        if has_better { reserved } else { 0 }
    })
}

fn holds_quota(fs: &Fs<'_>, kind: QuotaType, inode: InodeNo) -> bool {
    let head = QuotaFile::open(fs, inode).and_then(|file| file.block(0));
    head.is_ok_and(|head| version(&head, kind).is_some())
}

/// Puts the numbers of the quota inodes into a superblock.
pub fn put_numbers(raw: &mut RawSuperblock, numbers: [u32; 3]) {
    let fields = [&mut raw.s_usr_quota_inum, &mut raw.s_grp_quota_inum, &mut raw.s_prj_quota_inum];
    fields.into_iter().zip(numbers).for_each(|(field, number)| field.set(number));
}

/// Compares the quota files of `fs` with what is in use. `usage` has to hold what the release of orphans freed, too:
/// see [`crate::orphan::Orphans::used`].
pub fn check(fs: &Fs<'_>, usage: &QuotaUsage, findings: &mut Findings) {
    if !has_quota(fs) {
        return;
    }
    for kind in QuotaType::ALL {
        let Some(inode) = inode_of(fs, kind) else { continue };
        match QuotaFile::open(fs, inode).and_then(|file| file.read(kind)) {
            Ok(stored) => compare(kind, &stored, &usage.of(usage::kind_of(kind)), findings),
            Err(why) => {
                let problem = Problem::new(&FILE_DAMAGED).inode(inode).detail("kind", kind.word());
                findings.raise(problem.detail("why", why));
            }
        }
    }
}

fn has_quota(fs: &Fs<'_>) -> bool {
    fs.geometry.features.has_ro_compat(RoCompat::QUOTA)
}

fn stored_inode(fs: &Fs<'_>, kind: QuotaType) -> InodeNo {
    let raw = &fs.superblock;
    InodeNo(match kind {
        QuotaType::User => raw.s_usr_quota_inum.get(),
        QuotaType::Group => raw.s_grp_quota_inum.get(),
        QuotaType::Project => raw.s_prj_quota_inum.get(),
    })
}

/// Whether quota of type `kind` may live in `inode`: its own reserved inode, or an ordinary one.
fn is_possible(fs: &Fs<'_>, kind: QuotaType, inode: InodeNo) -> bool {
    let ordinary = inode.0 >= fs.geometry.first_inode && inode.0 <= fs.geometry.inodes_count;
    match kind {
        QuotaType::User => inode.0 == special::USER_QUOTA || ordinary,
        QuotaType::Group => inode.0 == special::GROUP_QUOTA || ordinary,
        QuotaType::Project => ordinary,
    }
}

/// Whether `inode` is some file: there is no quota at all, or it neither holds quota of type `kind` nor has the flag that all quota files are made
/// with. Where there is no quota, e2fsck takes the inode for project quota for one in use though it is free, if it comes across it.
fn is_stray(fs: &Fs<'_>, kind: QuotaType, inode: InodeNo) -> bool {
    if inode.0 < fs.geometry.first_inode {
        return false;
    }
    let Some(Ok(record)) = fs.read_inode(inode) else { return false };
    let raw = RawInode::from_record(&record);
    let may_hold_quota =
        has_quota(fs) && (raw.has_flag(InodeFlags::IMMUTABLE) || holds_quota(fs, kind, inode));
    let is_taken = kind == QuotaType::Project && !has_quota(fs) && is_scanned(fs, inode);
    (raw.i_links_count.get() > 0 || is_taken) && !may_hold_quota
}

/// Whether an inode lies in the part of its table that has been used.
fn is_scanned(fs: &Fs<'_>, inode: InodeNo) -> bool {
    let place = fs.geometry.inode_place(inode);
    place.is_some_and(|(group, index)| fs.group(group).is_some_and(|group| index < group.scan_inodes))
}

fn compare(
    kind: QuotaType,
    stored: &BTreeMap<u32, Used>,
    observed: &BTreeMap<u32, Used>,
    findings: &mut Findings,
) {
    let ids: BTreeSet<u32> = stored.keys().chain(observed.keys()).copied().collect();
    for id in ids {
        let (stored, observed) = (used(stored, id), used(observed, id));
        if stored != observed {
            let problem = Problem::new(&USAGE_WRONG).stored(text(stored)).observed(text(observed));
            findings.raise(problem.detail("kind", kind.word()).detail("id", id));
        }
    }
}

fn used(map: &BTreeMap<u32, Used>, id: u32) -> Used {
    map.get(&id).copied().unwrap_or_default()
}

fn text(used: Used) -> String {
    let counted = |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    format!("{} in {}", counted(used.bytes, "byte"), counted(used.inodes, "inode"))
}

/// A quota file of the file system.
struct QuotaFile<'d> {
    overlay: ReplayOverlay<'d>,
    map: FileMap,
    blocks: u64,
}

impl<'d> QuotaFile<'d> {
    fn open(fs: &Fs<'d>, inode: InodeNo) -> Result<Self, String> {
        let overlay = ReplayOverlay::new(fs);
        let record = overlay.inode(inode).map_err(|_| "its inode cannot be read".to_owned())?;
        let raw = RawInode::from_record(&record);
        if raw.i_links_count.get() == 0 || raw.file_type() != mode::REGULAR {
            return Err("its inode is no regular file in use".to_owned());
        }
        if raw.size() > SIZE_MAX {
            return Err(format!("it has {} bytes, more than such a file can have", raw.size()));
        }
        let map = map::read(&overlay, &raw);
        Ok(QuotaFile { overlay, map, blocks: raw.size() / QUOTA_BLOCK_SIZE as u64 })
    }

    fn block(&self, index: u32) -> Result<Vec<u8>, String> {
        let size = u64::from(self.overlay.geometry.block_size);
        let byte = u64::from(index) * QUOTA_BLOCK_SIZE as u64;
        if u64::from(index) >= self.blocks {
            return Err(format!("it points to block {index} of the file, which does not exist"));
        }
        let Some(place) = self.map.find(byte / size) else {
            return Err(format!("its block {index} is a hole"));
        };
        let contents = self.overlay.read(place).map_err(|error: ReadError| error.to_string())?;
        let within = width::index(byte % size);
        Ok(contents.get(within..within + QUOTA_BLOCK_SIZE).unwrap_or(&[]).to_vec())
    }

    /// All entries. Level by level; no block is visited twice, so that cycles end.
    fn read(&self, kind: QuotaType) -> Result<BTreeMap<u32, Used>, String> {
        let head = self.block(0)?;
        let version = version(&head, kind).ok_or("it has no plan header")?;
        let counted = stored_blocks(&head);
        if u64::from(counted) > self.blocks {
            return Err(format!("it counts {counted} blocks of its own, more than it has"));
        }
        if let Some(behind) = free_lists(&head).into_iter().find(|first| *first != 0 && *first >= counted) {
            return Err(format!("its free list begins in block {behind}, which does not exist"));
        }
        let mut level = BTreeSet::from([QUOTA_TREE_ROOT]);
        let mut seen = BTreeSet::new();
        for _ in 0..QUOTA_TREE_DEPTH {
            let mut below = BTreeSet::new();
            for index in level {
                if !seen.insert(index) {
                    return Err(format!("its tree comes back to its block {index}"));
                }
                below.extend(references(&self.block(index)?));
            }
            if let Some(behind) = below.iter().find(|index| **index >= counted) {
                return Err(format!("it points to its block {behind}, but counts {counted} blocks"));
            }
            level = below;
        }
        self.leaves(&level, version)
    }

    fn leaves(&self, leaves: &BTreeSet<u32>, version: QuotaVersion) -> Result<BTreeMap<u32, Used>, String> {
        let mut found = BTreeMap::new();
        for index in leaves {
            for entry in entries(&self.block(*index)?, version) {
                let used = Used { bytes: entry.bytes, inodes: entry.inodes };
                if found.insert(entry.id, used).is_some() {
                    return Err(format!("{} is in it twice", entry.id));
                }
            }
        }
        Ok(found)
    }
}
