// SPDX-License-Identifier: MIT OR Apache-2.0
//! The superblock against itself, the device and its backups.
//!
//! The primary is used when it is in order. When it cannot be worked with, or is doubtful (wrong checksum, counts that
//! do not fit) and a sound backup describes another layout, the best backup stands in for it. What is wrong with the
//! chosen one is raised and mended in [`Settled`].

mod ahead;
mod backups;
mod candidates;
mod correction;
mod desc_size;
mod fields;
mod flexible;
mod identity;
pub(crate) mod overhead;
pub mod problems;
mod refusal;
pub(crate) mod repair;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_device::{Device, foreign_mark};
pub use fsmend_engine::options::SuperblockOptions;
use fsmend_engine::problem::{Row, Value};
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::features::{Features, Incompat, RoCompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::inode::RawInode;
use fsmend_ext_format::settle::Unsound;
use fsmend_ext_format::superblock::{EXT_MAGIC, GOOD_OLD_FIRST_INO, RawSuperblock};

pub use self::ahead::announce_opening;
use self::candidates::Candidate;
pub(crate) use self::refusal::unknown_to_repairs;
use crate::allocation::StoredTotals;
use crate::{Fs, Refusal, group};

/// A superblock that can be worked with.
#[derive(Clone)]
pub struct Settled {
    /// As it will be after repair (copied from the best backup if the primary was lost).
    pub superblock: RawSuperblock,
    /// The numbers.
    pub geometry: Geometry,
    /// The block that it was read from: 0 or 1 for the primary.
    pub block: u64,
    /// Whether it is the primary with a field set right that its checksum told, with the identity that the backup has, or with the usual size of descriptors.
    pub is_corrected: bool,
}

impl Settled {
    /// Whether a backup stands in for the primary: counts, state and the recovery flag are then not to be trusted.
    pub fn is_backup(&self) -> bool {
        self.block > 1
    }

    /// Takes back the recovery flag, once the journal has turned out to be clean.
    pub fn clear_recovery(&mut self) {
        self.superblock.s_feature_incompat &= !Incompat::RECOVER.bits();
        self.geometry.features.incompat = self.superblock.features().incompat;
    }
}

/// Finds a superblock that can be worked with: the primary, else the backups, best first; raises what is wrong with
/// it. Refuses what is not ext at all, and what has incompatible features that are not known here.
pub fn settle(
    device: &dyn Device,
    options: SuperblockOptions,
    now: u64,
    findings: &mut Findings,
) -> Result<Settled, Refusal> {
    let chosen = match options.block {
        Some(block) => named(device, block, options.block_size, findings)?,
        None => choose(device, findings)?,
    };
    refuse_unknown(device, &chosen.raw)?;
    let Ok(geometry) = &chosen.geometry else {
        return Err(refusal::bad_superblock(device, "it contradicts itself"));
    };
    let is_backup = chosen.block > 1;
    let mut superblock = chosen.raw.clone();
    let total = u64::from(superblock.s_inodes_count.get());
    let groups = candidates::claimed_groups(&superblock, geometry);
    let told = group::told_inodes_per_group(device, geometry, (total, groups));
    fields::mend(&mut superblock, (geometry, told), now, is_backup, findings);
    let geometry = Geometry::from_superblock(&superblock, device.len())
        .map_err(|unsound| refusal::bad_superblock(device, &unsound.to_string()))?;
    if u128::from(superblock.blocks_count()) * u128::from(geometry.block_size) > u128::from(device.len()) {
        let holds = device.len() / u64::from(geometry.block_size);
        findings
            .raise(Problem::new(&problems::BEYOND_DEVICE).stored(superblock.blocks_count()).observed(holds));
    }
    let is_corrected = chosen.is_corrected;
    let mut settled = Settled { superblock, geometry, block: chosen.block, is_corrected };
    if options.block.is_none() && !is_backup {
        first_inode(device, &mut settled, findings);
        compare_backup(device, &settled.geometry, findings);
    }
    trim_reserve(device, settled, findings)
}

/// Takes no more blocks for reserved ones than there are.
fn trim_reserve(
    device: &dyn Device,
    mut settled: Settled,
    findings: &mut Findings,
) -> Result<Settled, Refusal> {
    let Some(told) = group::told_reserve(device, &settled) else { return Ok(settled) };
    let stored = settled.superblock.s_reserved_gdt_blocks.get();
    findings.raise(Problem::new(&problems::RESERVED_GDT_TAKEN).stored(stored).observed(told));
    settled.superblock.s_reserved_gdt_blocks.set(told);
    settled.geometry = Geometry::from_superblock(&settled.superblock, device.len())
        .map_err(|unsound| refusal::bad_superblock(device, &unsound.to_string()))?;
    Ok(settled)
}

/// So many inodes that should be reserved are looked at.
const RESERVED_LOOKED_AT: u32 = 256;

/// Inodes above the usual first one are reserved only where no backup contradicts and no files lie in them: else these would be lost.
fn first_inode(device: &dyn Device, settled: &mut Settled, findings: &mut Findings) {
    let stored = settled.superblock.s_first_ino.get();
    if settled.superblock.s_rev_level.get() == 0 || stored == GOOD_OLD_FIRST_INO {
        return;
    }
    let looked_at =
        stored.min(GOOD_OLD_FIRST_INO + RESERVED_LOOKED_AT).min(settled.geometry.inodes_per_group);
    let backup = candidates::first_backup(device, &settled.geometry);
    if backup.is_some_and(|backup| backup.raw.s_first_ino.get() == GOOD_OLD_FIRST_INO)
        || group::has_files(device, settled, GOOD_OLD_FIRST_INO..looked_at)
    {
        findings.raise(Problem::new(&problems::FIRST_INODE).stored(stored));
        settled.superblock.s_first_ino = GOOD_OLD_FIRST_INO.into();
        settled.geometry.first_inode = GOOD_OLD_FIRST_INO;
    }
}

/// The totals in the superblock, or backup of it, in `block`.
pub(crate) fn totals_in(device: &dyn Device, geometry: &Geometry, block: BlockNo) -> Option<StoredTotals> {
    let offset = block.0.checked_mul(u64::from(geometry.block_size))?;
    let raw = candidates::read(device, offset).filter(|raw| raw.s_magic.get() == EXT_MAGIC)?;
    Some(StoredTotals { is_backup: true, ..StoredTotals::of(&raw) })
}

/// Whether the feature that large files need is on; `first` is the first of them that does not show that it is.
pub fn check_large_files(fs: &Fs<'_>, first: Option<InodeNo>, findings: &mut Findings) {
    let Some(inode) = first else { return };
    if fs.geometry.features.has_ro_compat(RoCompat::LARGE_FILE) {
        return;
    }
    let size = fs.read_inode(inode).and_then(Result::ok).map(|record| RawInode::from_record(&record).size());
    let problem = Problem::new(&problems::LARGE_FILE_MISSING).inode(inode);
    findings.raise(problem.observed(size.unwrap_or_default()));
}

fn named(
    device: &dyn Device,
    block: u64,
    block_size: Option<u32>,
    findings: &mut Findings,
) -> Result<Candidate, Refusal> {
    let Some(candidate) = candidates::named(device, block, block_size) else {
        return Err(refusal::bad_choice(device, block, "nothing there has its magic number"));
    };
    match &candidate.geometry {
        Ok(_) => Ok(candidate),
        Err(unsound) => {
            let identity = refuse_unknown(device, &candidate.raw);
            raise_unsound(*unsound, findings);
            identity.and(Err(refusal::bad_choice(device, block, &unsound.to_string())))
        }
    }
}

/// The primary, or the backup that is better than it.
fn choose(device: &dyn Device, findings: &mut Findings) -> Result<Candidate, Refusal> {
    if device.len() < 2048 {
        return Err(refusal::too_short(device));
    }
    let mut primary = candidates::primary(device);
    if let Some((candidate, correction)) =
        primary.as_ref().and_then(|primary| candidates::corrected(device, primary))
    {
        let problem = Problem::new(&problems::FIELD_CORRECTED).detail("byte", correction.offset as u64);
        let [stored, right] = [correction.stored, correction.right].map(|word| Value::Hex(word.into()));
        findings.raise(problem.stored(stored).observed(right));
        primary = Some(candidate);
    }
    let geometry = primary.as_ref().and_then(|primary| primary.geometry.as_ref().ok());
    let backup = geometry.and_then(|geometry| candidates::first_backup(device, geometry));
    if let Some((candidate, backup)) = primary
        .as_ref()
        .zip(backup.as_ref())
        .and_then(|(primary, backup)| Some((identity::taken_back(device, primary, backup)?, backup)))
    {
        findings.raise(Problem::new(&problems::IDENTITY_LOST).block(BlockNo(backup.block)));
        primary = Some(candidate);
    } else if let Some(candidate) =
        primary.as_ref().and_then(|primary| identity::with_seed_of_inodes(device, primary))
    {
        let seed = Value::Hex(candidate.raw.s_checksum_seed.get().into());
        findings.raise(Problem::new(&problems::SEED_LOST).observed(seed));
        primary = Some(candidate);
    }
    if let Some(candidate) = &primary {
        let is_ext = candidate.raw.s_magic.get() == EXT_MAGIC;
        if is_ext
            && candidate.raw.features().has_incompat(Incompat::JOURNAL_DEV)
            && is_journal_device(&candidate.raw)
        {
            return Err(refusal::journal_device(device));
        }
        if let (false, Some(mark)) = (is_ext, foreign_mark(device)) {
            return Err(refusal::foreign(device, mark));
        }
        let is_contradicted = backup.is_some_and(|backup| {
            candidates::is_contradicted(candidate, &backup)
                || flexible::is_forgotten(device, candidate, &backup)
        });
        if candidate.is_sound() && !is_contradicted {
            return Ok(candidate.clone());
        }
    }
    let best = candidates::backups(device, primary.as_ref().map(|primary| &primary.raw)).into_iter().next();
    match (primary, best) {
        (Some(primary), Some(best))
            if primary.geometry.is_ok()
                && primary.layout() == best.layout()
                && stray_features(&primary, &best).is_empty() =>
        {
            Ok(primary)
        }
        (primary, Some(best)) => {
            if primary.as_ref().is_some_and(Candidate::is_sound) {
                findings.raise(Problem::new(&problems::CONTRADICTED).block(BlockNo(best.block)));
            }
            let why = primary.as_ref().map_or_else(|| "it cannot be read".to_owned(), why_not);
            let problem = Problem::new(&problems::PRIMARY_REPLACED).block(BlockNo(best.block));
            findings.raise(problem.stored(why));
            raise_stray_features(primary.as_ref(), &best, findings);
            if let Some(primary) =
                primary.filter(|primary| primary.is_beyond_device && !best.is_beyond_device)
            {
                raise_beyond_device(device, &primary, findings);
            }
            Ok(best)
        }
        (Some(primary), None) => no_backup(device, primary, findings),
        (None, None) => Err(refusal::unreadable(device)),
    }
}

fn raise_beyond_device(device: &dyn Device, candidate: &Candidate, findings: &mut Findings) {
    let Ok(geometry) = &candidate.geometry else { return };
    let problem = Problem::new(&problems::BEYOND_DEVICE).stored(candidate.raw.blocks_count());
    findings.raise(problem.observed(device.len() / u64::from(geometry.block_size)));
}

fn why_not(primary: &Candidate) -> String {
    match (&primary.geometry, primary.doubt()) {
        (Err(Unsound::Magic(_)), _) => "its magic number is missing".to_owned(),
        (Err(unsound), _) => unsound.to_string(),
        (_, Some(doubt)) => doubt,
        _ if primary.is_beyond_device => "it claims more blocks than the device holds".to_owned(),
        _ => "its layout is not that of the backups".to_owned(),
    }
}

/// The primary has to do, if it can.
fn no_backup(device: &dyn Device, primary: Candidate, findings: &mut Findings) -> Result<Candidate, Refusal> {
    match primary.geometry {
        Ok(_) => Ok(primary),
        Err(Unsound::Magic(_)) => {
            // Only what was an ext file system can have lost its superblock.
            if was_ext(device, &primary.raw) {
                findings.raise(Problem::new(&problems::UNUSABLE).observed("no magic number"));
            }
            Err(refusal::no_magic(device))
        }
        Err(unsound) => {
            if let (Unsound::DescSize(stored), Some(right)) = (unsound, desc_size::settled(device, &primary))
            {
                findings.raise(Problem::new(&problems::DESC_SIZE).stored(stored));
                return Ok(right);
            }
            raise_unsound(unsound, findings);
            Err(refusal::bad_superblock(device, &unsound.to_string()))
        }
    }
}

/// Whether a superblock without its magic number makes sense with it.
fn was_ext(device: &dyn Device, raw: &RawSuperblock) -> bool {
    let mut raw = raw.clone();
    raw.s_magic.set(EXT_MAGIC);
    Geometry::from_superblock(&raw, device.len()).is_ok()
}

fn raise_unsound(unsound: Unsound, findings: &mut Findings) {
    let row: &'static Row = match unsound {
        Unsound::BlocksPerGroup(_) => &problems::BLOCKS_PER_GROUP,
        Unsound::FirstDataBlock(_) => &problems::FIRST_DATA_BLOCK,
        Unsound::InodesOverflow(_) => &problems::INODES_OVERFLOW,
        _ => &problems::BAD_VALUE,
    };
    findings.raise(Problem::new(row).stored(unsound.stored()).detail("field", unsound.field()));
    findings.raise(Problem::new(&problems::UNUSABLE).observed(unsound.to_string()));
}

/// Journal devices have no inodes; a file system with a stray bit in its feature word has.
fn is_journal_device(raw: &RawSuperblock) -> bool {
    raw.s_inodes_count.get() == 0 || raw.s_inodes_per_group.get() == 0
}

/// Features of a superblock with a wrong checksum that would end the check, and that a sound backup does not have: then
/// the bits are damage, not a newer format.
fn stray_features(primary: &Candidate, backup: &Candidate) -> Incompat {
    let fatal = |candidate: &Candidate| {
        candidate.raw.features().incompat & (!Incompat::SUPPORTED | Incompat::JOURNAL_DEV)
    };
    let is_doubtful = primary.geometry.is_ok() && candidates::has_wrong_checksum(&primary.raw);
    if is_doubtful { fatal(primary) & !fatal(backup) } else { Incompat::empty() }
}

fn raise_stray_features(primary: Option<&Candidate>, backup: &Candidate, findings: &mut Findings) {
    let stray = primary.map_or(Incompat::empty(), |primary| stray_features(primary, backup));
    if !stray.is_empty() {
        let bits = refusal::feature_bits(Features { incompat: stray, ..Features::default() });
        let problem = Problem::new(&problems::STRAY_FEATURES).block(BlockNo(backup.block));
        findings.raise(problem.stored(bits));
    }
}

fn refuse_unknown(device: &dyn Device, raw: &RawSuperblock) -> Result<(), Refusal> {
    let features = raw.features();
    if features.has_incompat(Incompat::JOURNAL_DEV) {
        return Err(refusal::journal_device(device));
    }
    if features.incompat.intersects(!Incompat::SUPPORTED) {
        return Err(refusal::unknown_feature(device, features));
    }
    Ok(())
}

/// Looks whether the first backup would be of use. Counts, times and feature words of backups lag behind in sound
/// file systems; the numbers that place everything do not.
fn compare_backup(device: &dyn Device, geometry: &Geometry, findings: &mut Findings) {
    let mut groups = (1..geometry.group_count.min(128))
        .chain(geometry.backup_groups.into_iter().filter(|group| *group > 0));
    let Some(group) =
        groups.find(|group| geometry.has_superblock(GroupNo(*group)) && *group < geometry.group_count)
    else {
        return;
    };
    let block = geometry.group_head_start(GroupNo(group));
    let Some(offset) = block.checked_mul(u64::from(geometry.block_size)) else { return };
    if offset.saturating_add(u64::from(geometry.block_size)) > device.len() {
        return;
    }
    let what = match candidates::read(device, offset) {
        None => "it cannot be read",
        Some(raw) if raw.s_magic.get() != EXT_MAGIC => "its magic number is missing",
        Some(raw) => match Geometry::from_superblock(&raw, device.len()) {
            Err(unsound) => unsound.field(),
            Ok(backup) => match difference(geometry, &backup) {
                Some(what) => what,
                None => return,
            },
        },
    };
    findings.raise(Problem::new(&problems::BACKUP_DIFFERS).block(BlockNo(block)).observed(what));
}

fn difference(primary: &Geometry, backup: &Geometry) -> Option<&'static str> {
    let numbers = |geometry: &Geometry| {
        [
            ("another block size", geometry.block_size),
            ("another group size", geometry.blocks_per_group),
            ("another number of inodes per group", geometry.inodes_per_group),
            ("another inode size", geometry.inode_size),
            ("another descriptor size", geometry.desc_size),
            ("another size of indirect regions", geometry.region_blocks),
        ]
    };
    numbers(primary)
        .into_iter()
        .zip(numbers(backup))
        .find(|(ours, theirs)| ours.1 != theirs.1)
        .map(|(ours, _)| ours.0)
}
