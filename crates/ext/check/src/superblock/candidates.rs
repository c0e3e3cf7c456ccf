// SPDX-License-Identifier: MIT OR Apache-2.0
//! The superblocks that a device offers: the primary and the ladder of backups.
//!
//! A backup is believed only where it should be: its own numbers must say that a group with a backup starts just
//! there. So old superblocks of another file system, or of an image stored inside a file, are not taken for ours.

use fsmend_base::{GroupNo, width};
use fsmend_device::Device;
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Compat, Incompat, RoCompat};
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::settle::Unsound;
use fsmend_ext_format::superblock::{EXT_MAGIC, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use zerocopy::FromBytes;

use super::correction::{self, Correction};

/// More sound backups than this are not looked for.
const BACKUPS_MAX: usize = 8;
/// Largest `s_blocks_per_group` that mke2fs makes without bigalloc.
const BLOCKS_PER_GROUP_MAX: u64 = 65528;

/// How much of the device is searched when no backup is where it should be.
const SWEEP_MAX: u64 = 64 << 20;
/// How much of that is read at once.
const SWEEP_CHUNK: usize = 1 << 20;
/// Where `s_magic` stands in a superblock.
const MAGIC_OFFSET: usize = 0x38;

/// A superblock found on the device.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) raw: RawSuperblock,
    /// Where it was read from, in its own blocks.
    pub(super) block: u64,
    pub(super) geometry: Result<Geometry, Unsound>,
    /// Whether it claims more than the device holds.
    pub(super) is_beyond_device: bool,
    /// Whether a field of it was set right that its checksum, or a backup, told.
    pub(super) is_corrected: bool,
}

impl Candidate {
    fn new(raw: RawSuperblock, block: u64, device_len: u64) -> Self {
        let geometry = Geometry::from_superblock(&raw, device_len);
        let claimed = |geometry: &Geometry| u128::from(raw.blocks_count()) * u128::from(geometry.block_size);
        let is_beyond_device =
            geometry.as_ref().is_ok_and(|geometry| claimed(geometry) > u128::from(device_len));
        Candidate { raw, block, geometry, is_beyond_device, is_corrected: false }
    }

    /// This primary, with `raw` for what was set right in it.
    pub(super) fn set_right(&self, raw: RawSuperblock, device_len: u64) -> Self {
        let candidate = Candidate::new(raw, self.block, device_len);
        let block = u64::from(candidate.geometry.as_ref().is_ok_and(|geometry| geometry.block_size == 1024));
        Candidate { block, is_corrected: true, ..candidate }
    }

    /// Whether nothing is wrong with it by itself.
    pub(super) fn is_sound(&self) -> bool {
        self.geometry.is_ok() && self.doubt().is_none() && !self.is_beyond_device
    }

    /// What makes this superblock doubtful although it can be worked with.
    pub(super) fn doubt(&self) -> Option<String> {
        let Ok(geometry) = &self.geometry else { return None };
        if has_wrong_checksum(&self.raw) {
            return Some("its checksum is wrong".to_owned());
        }
        if !counts_agree(&self.raw, geometry) {
            return Some("its inode count does not match its groups".to_owned());
        }
        if first_meta_bg_is_too_big(geometry) {
            return Some("its first meta block group is too large".to_owned());
        }
        None
    }

    /// What the layout hangs on, to be compared between superblocks of one file system.
    pub(super) fn layout(&self) -> Option<Geometry> {
        let mut geometry = self.geometry.clone().ok()?;
        geometry.blocks_count = self.raw.blocks_count();
        (geometry.first_inode, geometry.revision, geometry.hurd) = (0, 0, false);
        (geometry.uuid, geometry.checksum_seed) = ([0; 16], 0);
        geometry.features.compat &= Compat::SPARSE_SUPER2;
        geometry.features.incompat &=
            Incompat::BIT64 | Incompat::FLEX_BG | Incompat::META_BG | Incompat::REXT3;
        geometry.features.ro_compat &= RoCompat::SPARSE_SUPER;
        Some(geometry)
    }
}

/// Whether a backup describes groups of another shape, or with heads in other places. (Another number of blocks may be that of a file
/// system that was enlarged just now.)
pub(super) fn is_contradicted(primary: &Candidate, backup: &Candidate) -> bool {
    let shape = |candidate: &Candidate| {
        let geometry = candidate.layout()?;
        let heads = geometry.features.incompat & (Incompat::BIT64 | Incompat::META_BG | Incompat::REXT3);
        let sparse = (geometry.features.compat, geometry.features.ro_compat);
        let numbers = [
            geometry.blocks_per_group,
            geometry.inodes_per_group,
            geometry.inode_size,
            geometry.region_blocks,
        ];
        Some((numbers, geometry.block_size, geometry.desc_size, heads, sparse))
    };
    shape(primary) != shape(backup)
}

/// Whether the superblock has a checksum and it is wrong.
pub(super) fn has_wrong_checksum(raw: &RawSuperblock) -> bool {
    raw.features().metadata_csum() && !checksum::superblock(raw).is_right()
}

/// Whether the inode count is what the groups give. (A geometry cut to the device has fewer groups than are claimed.)
pub(super) fn counts_agree(raw: &RawSuperblock, geometry: &Geometry) -> bool {
    u64::from(raw.s_inodes_count.get())
        == claimed_groups(raw, geometry) * u64::from(geometry.inodes_per_group)
}

/// The number of groups that the superblock claims.
pub(super) fn claimed_groups(raw: &RawSuperblock, geometry: &Geometry) -> u64 {
    let blocks = raw.blocks_count().saturating_sub(u64::from(geometry.first_data_block));
    blocks.div_ceil(u64::from(geometry.blocks_per_group))
}

/// Whether `first_meta_bg` lies behind all descriptor blocks.
pub(super) fn first_meta_bg_is_too_big(geometry: &Geometry) -> bool {
    geometry.features.has_incompat(Incompat::META_BG) && geometry.first_meta_bg > geometry.desc_blocks()
}

/// Reads the superblock at byte `offset`.
pub(super) fn read(device: &dyn Device, offset: u64) -> Option<RawSuperblock> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read_at(offset, &mut bytes).ok()?;
    RawSuperblock::read_from_bytes(&bytes).ok()
}

/// The primary superblock, whatever it looks like; `None` when it cannot be read.
pub(super) fn primary(device: &dyn Device) -> Option<Candidate> {
    let raw = read(device, SUPERBLOCK_OFFSET)?;
    let mut candidate = Candidate::new(raw, 0, device.len());
    if let Ok(geometry) = &candidate.geometry {
        candidate.block = u64::from(geometry.block_size == 1024);
    }
    Some(candidate)
}

/// The primary with the one damaged field that its checksum betrays set right, if that makes it a superblock beyond doubt.
pub(super) fn corrected(device: &dyn Device, primary: &Candidate) -> Option<(Candidate, Correction)> {
    let accepts = |raw: &RawSuperblock| {
        let candidate = Candidate::new(raw.clone(), 0, device.len());
        let features = raw.features();
        candidate.geometry.is_ok()
            && features.metadata_csum()
            && !features.incompat.intersects(!Incompat::SUPPORTED)
            && !features.ro_compat.intersects(!RoCompat::SUPPORTED)
            && candidate.doubt().is_none()
            && !candidate.is_beyond_device
    };
    let (raw, correction) = correction::find(&primary.raw, accepts)?;
    Some((primary.set_right(raw, device.len()), correction))
}

/// The group with the first backup, by the primary's own numbers.
pub(super) fn group_of_first_backup(geometry: &Geometry) -> Option<GroupNo> {
    (1..geometry.group_count.min(128)).map(GroupNo).find(|group| geometry.has_superblock(*group))
}

/// The first backup, where the primary's own numbers place it.
pub(super) fn first_backup(device: &dyn Device, geometry: &Geometry) -> Option<Candidate> {
    let group = group_of_first_backup(geometry)?;
    let block = geometry.group_head_start(group);
    backup_at(device, Rung { block_size: geometry.block_size, group: group.0, block })
}

/// The superblock that the user named: in `block`, with blocks of `block_size` or any size that fits what it says itself.
pub(super) fn named(device: &dyn Device, block: u64, block_size: Option<u32>) -> Option<Candidate> {
    let sizes: Vec<u32> =
        block_size.map_or_else(|| (0..=6).map(|log| 1024 << log).collect(), |size| vec![size]);
    let found: Vec<Candidate> = sizes
        .into_iter()
        .filter_map(|size| {
            let primary = block == 0 || (block == 1 && size == 1024);
            let offset = if primary { SUPERBLOCK_OFFSET } else { block.checked_mul(u64::from(size))? };
            let candidate = Candidate::new(read(device, offset)?, block, device.len());
            let fits = |geometry: &Geometry| block_size.is_some() || geometry.block_size == size;
            (candidate.raw.s_magic.get() == EXT_MAGIC && candidate.geometry.as_ref().map_or(true, fits))
                .then_some(candidate)
        })
        .collect();
    found.iter().find(|candidate| candidate.geometry.is_ok()).or(found.first()).cloned()
}

/// The sound backups, best first: those on which most agree, then the one written last, then the first on the disk.
/// `hint` is the primary as far as it could be read: its block size and group size are tried first.
pub(super) fn backups(device: &dyn Device, hint: Option<&RawSuperblock>) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for rung in ladder(device.len(), hint) {
        if found.len() >= BACKUPS_MAX {
            break;
        }
        if let Some(candidate) = backup_at(device, rung) {
            found.push(candidate);
        }
    }
    if found.is_empty() {
        found = sweep(device);
    }
    let agreeing = |layout: &Option<Geometry>| found.iter().filter(|other| other.layout() == *layout).count();
    let votes: Vec<usize> = found.iter().map(|candidate| agreeing(&candidate.layout())).collect();
    let mut ranked: Vec<(usize, Candidate)> = votes.into_iter().zip(found).collect();
    ranked.sort_by_key(|(votes, candidate)| {
        let newest = std::cmp::Reverse(candidate.raw.s_wtime.get());
        (std::cmp::Reverse(*votes), newest, candidate.block)
    });
    ranked.into_iter().map(|(_, candidate)| candidate).collect()
}

/// A place where a backup may lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rung {
    block_size: u32,
    group: u32,
    block: u64,
}

fn backup_at(device: &dyn Device, rung: Rung) -> Option<Candidate> {
    let raw = read(device, rung.block.checked_mul(u64::from(rung.block_size))?)?;
    if raw.s_magic.get() != EXT_MAGIC {
        return None;
    }
    let candidate = Candidate::new(raw, rung.block, device.len());
    let geometry = candidate.geometry.as_ref().ok()?;
    let group = GroupNo(rung.group);
    let said = u32::from(candidate.raw.s_block_group_nr.get());
    let belongs = geometry.block_size == rung.block_size
        && rung.group < geometry.group_count
        && geometry.group_head_start(group) == rung.block
        && geometry.has_superblock(group)
        && (geometry.revision == 0 || said == rung.group & 0xFFFF);
    (belongs && candidate.doubt().is_none()).then_some(candidate)
}

/// All places to try: those that the primary's own numbers give, then the defaults of every block size.
fn ladder(device_len: u64, hint: Option<&RawSuperblock>) -> Vec<Rung> {
    let mut rungs = Vec::new();
    if let Some(hint) =
        hint.filter(|hint| hint.s_magic.get() == EXT_MAGIC && hint.s_log_block_size.get() <= 6)
    {
        let block_size = 1024 << hint.s_log_block_size.get();
        let extra = hint.s_backup_bgs.map(|group| group.get());
        push_rungs(&mut rungs, device_len, block_size, u64::from(hint.s_blocks_per_group.get()), &extra);
    }
    for log in 0..=6 {
        let block_size = 1024 << log;
        let full = u64::from(block_size) * 8;
        for per_group in [full.min(BLOCKS_PER_GROUP_MAX), full, full.min(BLOCKS_PER_GROUP_MAX) * 16] {
            push_rungs(&mut rungs, device_len, block_size, per_group, &[]);
        }
    }
    rungs
}

fn push_rungs(rungs: &mut Vec<Rung>, device_len: u64, block_size: u32, per_group: u64, extra: &[u32]) {
    let blocks = device_len / u64::from(block_size);
    if per_group < 8 || per_group >= blocks {
        return;
    }
    let last = width::low_u32((blocks / per_group).min(u64::from(u32::MAX)));
    let mut groups = sparse_groups(last);
    groups.extend(extra.iter().copied().chain([last, last.saturating_sub(1)]));
    for group in groups.into_iter().filter(|group| *group > 0 && *group <= last) {
        for first in 0..=u64::from(block_size == 1024) {
            let block = u64::from(group) * per_group + first;
            let rung = Rung { block_size, group, block };
            if block < blocks && !rungs.contains(&rung) {
                rungs.push(rung);
            }
        }
    }
}

/// The last resort: every KiB at the start of the device. Finds backups of groups of unusual size.
fn sweep(device: &dyn Device) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut chunk = vec![0; SWEEP_CHUNK];
    for start in (0..device.len().min(SWEEP_MAX)).step_by(SWEEP_CHUNK) {
        let len = width::index((device.len() - start).min(SWEEP_CHUNK as u64));
        if device.read_at(start, &mut chunk[..len]).is_err() {
            continue;
        }
        for (nth, bytes) in chunk[..len].chunks_exact(SUPERBLOCK_SIZE).enumerate() {
            if bytes[MAGIC_OFFSET..MAGIC_OFFSET + 2] != EXT_MAGIC.to_le_bytes() || found.len() >= BACKUPS_MAX
            {
                continue;
            }
            let Ok(raw) = RawSuperblock::read_from_bytes(bytes) else { continue };
            let (group, log) = (u32::from(raw.s_block_group_nr.get()), raw.s_log_block_size.get());
            let offset = start + (nth * SUPERBLOCK_SIZE) as u64;
            if group > 0 && log <= 6 && offset.is_multiple_of(1024 << log) {
                let rung = Rung { block_size: 1024 << log, group, block: offset >> (10 + log) };
                found.extend(backup_at(device, rung));
            }
        }
    }
    found
}

/// 1 and the powers of 3, 5 and 7 up to `last`, ascending.
fn sparse_groups(last: u32) -> Vec<u32> {
    let mut groups = vec![1];
    for base in [3u32, 5, 7] {
        let powers = std::iter::successors(Some(base), |power| power.checked_mul(base));
        groups.extend(powers.take_while(|power| *power <= last));
    }
    groups.sort_unstable();
    groups
}

#[cfg(test)]
mod tests {
    use super::{Rung, ladder, sparse_groups};

    #[test]
    fn the_ladder_has_the_places_of_every_block_size() {
        let rungs = ladder(64 << 30, None);
        for (block_size, group, block) in
            [(1024, 1, 8193), (1024, 1, 8192), (4096, 1, 32768), (4096, 49, 49 * 32768), (65536, 1, 65528)]
        {
            assert!(rungs.contains(&Rung { block_size, group, block }), "{block_size} {group} {block}");
        }
        assert!(rungs.len() < 2000);
        assert!(ladder(0, None).is_empty());
    }

    #[test]
    fn backup_groups_are_powers() {
        assert_eq!(sparse_groups(50), [1, 3, 5, 7, 9, 25, 27, 49]);
    }
}
