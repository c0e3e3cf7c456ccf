// SPDX-License-Identifier: MIT OR Apache-2.0
//! What everything else is read by: the superblock or one of its copies, and the headers of the cylinder groups.
//!
//! The primary superblock is used where its values make sense. Else a copy takes its place: the one of the first group, whose place follows from the block size alone, those that
//! the recovery record or what is left of the primary point to, and at last any that is found on the device. FreeBSD's fsck finds none of UFS1 by itself. Without any copy the superblock is
//! made again (`rebuilding`) from the cylinder groups.

use std::sync::Arc;

use fsmend_base::{GroupNo, width};
use fsmend_device::Device;
use fsmend_engine::kept::Kept;
use fsmend_engine::options::SuperblockOptions;
use fsmend_engine::repair::Changes;
use fsmend_engine::report::JournalUse;
use fsmend_engine::shared_maps::SharedMapInodes;
use fsmend_engine::{Budget, Findings, Layer, Part, Problem, Refusal};
use fsmend_ufs_format::geometry::{Flaw, Geometry};
use fsmend_ufs_format::group::{CylinderGroup, GROUP_MAGIC, HEADER_SIZE};
use fsmend_ufs_format::superblock::{
    Hashes, RECOVERY_SIZE, Recovery, SEARCH, SUPERBLOCK_MAX, Superblock, SuperblockFlags, UNFINISHED_MAGIC,
    recognise,
};
use fsmend_ufs_format::{SECTOR, Version};

use crate::depth::Depths;
use crate::groups::Groups;
use crate::{journal, rebuilding, rows, snapshots};

/// Places of the copy in the first group, for every block size and both versions.
const FIRST_COPIES: [u64; 7] = [16384, 32768, 65536, 73728, 81920, 98304, 131_072];
/// Copies are looked for on so much of a device, from its start on.
const SEARCHED_MAX: u64 = 64 << 30;
/// As long as it is not known that there is a UFS, on so much: as a rule the second group begins there.
const HIDDEN_MAX: u64 = 1 << 30;
/// In steps of the smallest block: groups and their structures begin at multiples of it.
const STEP: u64 = 4096;
/// So many blocks that look like cylinder groups are asked for the shape of the file system.
const GROUPS_ASKED: usize = 16;
/// So many groups tell which of two shapes is right.
const GROUPS_COMPARED: u32 = 64;
/// Bytes that are read at once.
const AT_ONCE: u64 = 1 << 20;

/// What is known of a file system without its device.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Its shape.
    pub geometry: Arc<Geometry>,
    /// Its superblock, as it will be.
    pub superblock: Arc<Superblock>,
    /// Cylinder groups as they are stored.
    pub(crate) kept: Arc<Kept<CylinderGroup>>,
    /// Inodes of each group that were ever written.
    pub initialised: Arc<[u32]>,
    /// Groups whose header cannot be trusted, sorted.
    pub unsound: Arc<[u32]>,
    /// Where the superblock that is used was found, in bytes.
    pub used_place: u64,
    /// Whether the superblock said that the file system was unmounted cleanly.
    was_clean: bool,
    /// Directories that the groups count.
    directories: u64,
    /// Inodes whose maps are given up.
    pub(crate) shared_maps: Arc<SharedMapInodes>,
    /// Depths that directories store.
    pub(crate) depths: Arc<Depths>,
    /// When the run began, in seconds since the epoch.
    pub(crate) now: u64,
}

impl Layout {
    /// Whether the header of a group can be trusted.
    pub fn is_sound(&self, group: u32) -> bool {
        self.unsound.binary_search(&group).is_err()
    }

    /// Whether it was unmounted cleanly.
    pub fn is_clean(&self) -> bool {
        self.was_clean
    }

    /// Whether soft updates were at work when the system stopped: then what is marked in use but is not, link counts that are too high and files without a name
    /// are what a crash leaves, and no damage.
    pub fn expects_leftovers(&self) -> bool {
        let bits = self.superblock.flags();
        !self.was_clean
            && bits.contains(SuperblockFlags::SOFT_UPDATES)
            && !bits.contains(SuperblockFlags::NEEDS_FSCK)
    }

    /// What became of the journal: everything is checked without it, and it must not be replayed afterwards.
    pub fn journal(&self) -> JournalUse {
        match (self.superblock.flags().contains(SuperblockFlags::JOURNAL), self.was_clean) {
            (false, _) => JournalUse::None,
            (true, true) => JournalUse::Clean,
            (true, false) => JournalUse::NotReplayed,
        }
    }

    /// Directories that the groups count.
    pub fn directories(&self) -> u64 {
        self.directories
    }

    /// Names of what is switched on.
    pub fn features(&self) -> String {
        let bits = self.superblock.flags();
        let mut names: Vec<&str> = [
            (SuperblockFlags::SOFT_UPDATES, "soft-updates"),
            (SuperblockFlags::JOURNAL, "journal"),
            (SuperblockFlags::ACLS, "acls"),
            (SuperblockFlags::NFS4_ACLS, "nfsv4acls"),
            (SuperblockFlags::MULTILABEL, "multilabel"),
            (SuperblockFlags::GJOURNAL, "gjournal"),
            (SuperblockFlags::TRIM, "trim"),
        ]
        .into_iter()
        .filter_map(|(bit, name)| bits.contains(bit).then_some(name))
        .collect();
        if !self.geometry.hashes.is_empty() {
            names.push("check-hashes");
        }
        if self.geometry.metadata_area != 0 {
            names.push("metadata-area");
        }
        if self.geometry.order == fsmend_ufs_format::ByteOrder::Big {
            names.push("big-endian");
        }
        names.join(" ")
    }
}

/// A superblock that makes sense, and where it was found.
struct Found {
    superblock: Superblock,
    geometry: Geometry,
    harmless: Vec<Flaw>,
    place: u64,
    /// Whether it was made from the cylinder groups.
    is_rebuilt: bool,
}

/// Opens the file system on `device` for a look: no group is kept.
pub fn find_layout(
    device: &dyn Device,
    wanted: SuperblockOptions,
    now: u64,
    findings: &mut Findings,
) -> Result<Layout, Refusal> {
    open(device, (wanted, now, &Arc::new(Budget::new(0))), findings)
}

/// Opens the file system on `device`, by the superblock that is named if one is. `now` is in seconds since the epoch.
pub fn open(
    device: &dyn Device,
    (wanted, now, budget): (SuperblockOptions, u64, &Arc<Budget>),
    findings: &mut Findings,
) -> Result<Layout, Refusal> {
    let Found { mut superblock, geometry, mut harmless, place, is_rebuilt } = match wanted.block {
        Some(sector) => named(device, sector, findings)?,
        None => find(device, findings)?,
    };
    let end = geometry.place(geometry.size);
    if end > device.len() {
        let message =
            format!("The file system has {end} bytes, but {} has only {}", device.name(), device.len());
        let hint = "Look for the rest of it: a repair would give up everything that lies there".to_owned();
        return Err(Refusal { code: "cut-off", message, hint });
    }
    let was_clean = superblock.clean() == 1 && !superblock.flags().contains(SuperblockFlags::NEEDS_FSCK);
    let primary = geometry.superblock_place;
    let is_copy = is_rebuilt || place != primary;
    if !is_copy {
        harmless.extend(own_place(&superblock, primary));
    }
    for flaw in &harmless {
        raise_flaw(flaw, findings);
        mend(&mut superblock, flaw);
    }
    if is_copy {
        superblock.set_sblockactualloc(width::signed(primary));
    }
    if superblock.clean() == 0 {
        findings.raise(Problem::new(&rows::NOT_CLEAN));
    }
    recovery_record(device, &superblock, findings);
    let kept = Kept::new(budget, geometry.groups as usize, geometry.group_bytes);
    let groups = Groups::read(device, &geometry, &kept, findings);
    for group in &groups.without_copy {
        let problem = Problem::new(&rows::COPY_WRONG).group(GroupNo(*group));
        let mut copy = superblock.clone();
        let place = geometry.superblock_copy(*group);
        copy.set_clean(1);
        copy.set_sblockactualloc(width::signed(place));
        copy.seal();
        findings.raise_with_edit(problem, Layer::Record, place, copy.covered());
    }
    let (lists_others, damaged) =
        snapshots::mend(device, &geometry, (&groups.initialised, &mut superblock), findings);
    if is_copy || !harmless.is_empty() || lists_others || superblock.clean() == 0 {
        let mut written = superblock.clone();
        written.set_clean(1);
        written.seal();
        findings.edit_part(Part::FileSystem, Layer::Record, primary, written.covered());
        for problem in damaged {
            findings.raise_with_edit(problem, Layer::Record, primary, written.covered());
        }
    }
    let group_count = groups.initialised.len();
    Ok(Layout {
        geometry: Arc::new(geometry),
        superblock: Arc::new(superblock),
        kept,
        initialised: groups.initialised.into(),
        unsound: groups.unsound.into(),
        used_place: place,
        was_clean,
        directories: groups.directories,
        shared_maps: Arc::default(),
        depths: Arc::new(Depths::new(group_count)),
        now,
    })
}

/// What the journal of soft updates writes, if the file system was not unmounted cleanly and has one that can be used. One that cannot is dropped: the kernel does not
/// read it either, and everything is checked.
pub(crate) fn replay(layout: &Layout, device: &dyn Device, findings: &mut Findings) -> Changes {
    let superblock = &layout.superblock;
    if !superblock.flags().contains(SuperblockFlags::JOURNAL) || superblock.clean() != 0 {
        return Changes::new();
    }
    let primary = read(device, layout.geometry.superblock_place);
    let is_sound = layout.used_place == layout.geometry.superblock_place
        && primary.is_some_and(|primary| primary.hash_is_right());
    let replayed = match is_sound {
        true => journal::replay(device, &layout.geometry, superblock).map_err(|why| why.to_string()),
        false => Err("the superblock is damaged".to_owned()),
    };
    match replayed {
        Ok(replay) => replay.writes,
        Err(why) => {
            findings.raise(Problem::new(&rows::JOURNAL_DROPPED).detail("why", why));
            Changes::new()
        }
    }
}

fn not_ufs(device: &dyn Device) -> Refusal {
    Refusal {
        code: "not-ufs",
        message: format!(
            "{} holds no UFS file system: no superblock or copy of one was found, and no cylinder groups that agree",
            device.name()
        ),
        hint: "Check that this is the right device or partition".to_owned(),
    }
}

/// The superblock at `sector`, which the user named.
fn named(device: &dyn Device, sector: u64, findings: &mut Findings) -> Result<Found, Refusal> {
    let place = sector.saturating_mul(SECTOR);
    let found = read(device, place).and_then(|superblock| judge(superblock, place).ok());
    let found = found.ok_or_else(|| Refusal {
        code: "no-superblock",
        message: format!("There is no usable UFS superblock in sector {sector} of {}", device.name()),
        hint: "Give the sector (512 bytes) of a copy, or leave -b out: copies are found without it"
            .to_owned(),
    })?;
    if found.place != found.geometry.superblock_place {
        findings.raise(Problem::new(&rows::SUPERBLOCK_REPLACED).detail("sector", sector));
    }
    Ok(found)
}

/// The superblock at `place`, with old fields taken over.
fn read(device: &dyn Device, place: u64) -> Option<Superblock> {
    let room = device.len().checked_sub(place)?.min(SUPERBLOCK_MAX as u64);
    let mut bytes = vec![0; width::index(room)];
    device.read_at(place, &mut bytes).ok()?;
    let mut superblock = Superblock::parse(&bytes)?;
    superblock.modernise();
    Some(superblock)
}

fn judge(superblock: Superblock, place: u64) -> Result<Found, (Superblock, Vec<Flaw>)> {
    match Geometry::of(&superblock) {
        Ok((geometry, harmless)) => Ok(Found { superblock, geometry, harmless, place, is_rebuilt: false }),
        Err(flaws) => Err((superblock, flaws)),
    }
}

/// The primary superblock, or else a copy.
fn find(device: &dyn Device, findings: &mut Findings) -> Result<Found, Refusal> {
    let mut broken = None;
    for place in SEARCH {
        let Some(superblock) = read(device, place) else { continue };
        let is_first_copy = place == 65536 && superblock.version() == Version::Ufs1;
        if is_first_copy || broken.is_some() {
            continue;
        }
        match judge(superblock, place) {
            Ok(found) if found.geometry.superblock_place != place && place != 0 => continue,
            Ok(found) if is_contradicted(device, &found.geometry) => {
                broken = Some((found.superblock, Vec::new()));
            }
            Ok(found) if found.superblock.hash_is_right() => {
                let is_sealed = found.superblock.hashes().contains(Hashes::SUPERBLOCK);
                return Ok(if is_sealed { found } else { mended_by_groups(device, found, findings) });
            }
            Ok(found) => {
                let mut found = mended_by_groups(device, found, findings);
                // The values make sense and the copy agrees on the shape: only the hash is wrong, or something that nothing depends on.
                let shape_agrees = copy_of(device, &found.geometry).is_none_or(|copy| {
                    copy.geometry.size == found.geometry.size
                        && copy.geometry
                            == Geometry { hashes: copy.geometry.hashes, ..found.geometry.clone() }
                });
                if shape_agrees {
                    found.superblock.seal();
                    let problem = Problem::new(&rows::SUPERBLOCK_HASH);
                    findings.raise_with_edit(problem, Layer::Record, place, found.superblock.covered());
                    return Ok(found);
                }
                broken = Some((found.superblock, Vec::new()));
            }
            Err(flawed) => broken = Some(flawed),
        }
    }
    if broken.is_none() && unfinished(device) {
        return Err(Refusal {
            code: "unfinished",
            message: format!("newfs did not finish on {}: there is no file system yet", device.name()),
            hint: "Run newfs again".to_owned(),
        });
    }
    let Some(found) = copies(device, broken.as_ref().map(|(superblock, _)| superblock)) else {
        return Err(match broken {
            Some((_, flaws)) => {
                flaws.iter().for_each(|flaw| raise_flaw(flaw, findings));
                Refusal {
                    code: "no-superblock",
                    message: format!(
                        "The superblock of {} cannot be used. No copy of it was found, and no cylinder groups that agree",
                        device.name()
                    ),
                    hint: "Give the sector of a copy with -b, if you know one".to_owned(),
                }
            }
            None => not_ufs(device),
        });
    };
    if let Some((_, flaws)) = &broken {
        flaws.iter().for_each(|flaw| raise_flaw(flaw, findings));
    }
    findings.raise(match found.is_rebuilt {
        true => Problem::new(&rows::SUPERBLOCK_REBUILT),
        false => Problem::new(&rows::SUPERBLOCK_REPLACED).detail("sector", found.place / SECTOR),
    });
    Ok(found)
}

fn unfinished(device: &dyn Device) -> bool {
    SEARCH.into_iter().any(|place| {
        let mut magic = [0; 4];
        let read = device.read_at(place.saturating_add(1372), &mut magic);
        read.is_ok() && [u32::from_le_bytes(magic), u32::from_be_bytes(magic)].contains(&UNFINISHED_MAGIC)
    })
}

/// The copy in the first group, if it can be used.
fn copy_of(device: &dyn Device, geometry: &Geometry) -> Option<Found> {
    usable(device, geometry.superblock_copy(0))
}

/// Whether the copy in the first group tells of another shape, and that is where more groups are found. Without check hashes a wrong value may make sense.
fn is_contradicted(device: &dyn Device, geometry: &Geometry) -> bool {
    let shape = |geometry: &Geometry| (geometry.groups, geometry.group_size, geometry.group_inodes);
    copy_of(device, geometry).is_some_and(|copy| {
        shape(&copy.geometry) != shape(geometry)
            && groups_found(device, &copy.geometry) > groups_found(device, geometry)
    })
}

/// Of the first groups: those whose header is where it should be.
fn groups_found(device: &dyn Device, geometry: &Geometry) -> usize {
    let is_there = |group: &u32| {
        let mut header = vec![0; width::index(HEADER_SIZE)];
        let is_read = device.read_at(geometry.group_place(*group), &mut header).is_ok();
        let header = CylinderGroup::new(header, geometry.order);
        is_read && header.magic() == GROUP_MAGIC && header.cgx() == *group
    };
    (0..geometry.groups.min(GROUPS_COMPARED)).filter(is_there).count()
}

/// A copy at `place` whose values make sense, whose hash is right, and that belongs to this place.
fn usable(device: &dyn Device, place: u64) -> Option<Found> {
    let found = judge(read(device, place)?, place).ok()?;
    let geometry = &found.geometry;
    let belongs = (0..geometry.groups).any(|group| geometry.superblock_copy(group) == place);
    let is_right = found.superblock.hash_is_right() && geometry.place(geometry.size) <= device.len();
    (belongs && is_right).then_some(found)
}

/// Any copy.
fn copies(device: &dyn Device, broken: Option<&Superblock>) -> Option<Found> {
    if let Some(found) = FIRST_COPIES.into_iter().find_map(|place| usable(device, place)) {
        return Some(found);
    }
    let recorded = recovery(device).and_then(|(_, record)| {
        (0..record.ncg.min(1 << 16))
            .filter_map(|group| record.copy(group))
            .find_map(|place| usable(device, place))
    });
    recorded.or_else(|| {
        let told = broken.and_then(|superblock| {
            let record = Recovery {
                fsbtodb: superblock.fsbtodb().try_into().ok()?,
                sblkno: superblock.sblkno().try_into().ok()?,
                fpg: superblock.fpg().try_into().ok()?,
                ncg: superblock.ncg(),
            };
            (0..record.ncg.min(64))
                .filter_map(|group| record.copy(group))
                .find_map(|place| usable(device, place))
        });
        let by_groups = || rebuilding::first_groups().into_iter().find_map(|place| by_group(device, place));
        told.or_else(by_groups).or_else(|| search(device, SEARCHED_MAX))
    })
}

/// A copy that belongs to the cylinder group at `place` or to one of the same file system, or a superblock that is made from the groups.
fn by_group(device: &dyn Device, place: u64) -> Option<Found> {
    let shape = rebuilding::shape_of(device, place)?;
    let (superblock, geometry) = rebuilding::superblock(device, &shape)?;
    let is_ours = |found: &Found| {
        let (hashes, metadata_area) = (geometry.hashes, geometry.metadata_area);
        Geometry { hashes, metadata_area, ..found.geometry.clone() } == geometry
    };
    let copies = (0..geometry.groups).filter_map(|group| usable(device, geometry.superblock_copy(group)));
    let copy = copies.into_iter().find(is_ours);
    let place = geometry.superblock_place;
    copy.or(Some(Found { superblock, geometry, harmless: Vec::new(), place, is_rebuilt: true }))
}

/// A superblock without a check hash that confirms it: its size, and the place of the summary area, as the groups tell them if they contradict it.
fn mended_by_groups(device: &dyn Device, found: Found, findings: &mut Findings) -> Found {
    let Some(superblock) = rebuilding::contradicted(device, &found.superblock, &found.geometry) else {
        return found;
    };
    let was = &found.superblock;
    for (field, stored, expected) in
        [("size", was.size(), superblock.size()), ("csaddr", was.csaddr(), superblock.csaddr())]
    {
        if stored != expected {
            raise_flaw(&Flaw { field, stored, expected: Some(expected), is_harmless: false }, findings);
        }
    }
    match judge(superblock, found.place) {
        Ok(mended) => {
            findings.edit_part(Part::FileSystem, Layer::Record, found.place, mended.superblock.covered());
            mended
        }
        Err(_) => found,
    }
}

/// Looks for a copy on the first `most` bytes, and for cylinder groups.
fn search(device: &dyn Device, most: u64) -> Option<Found> {
    let end = device.len().min(most);
    let (mut bytes, mut asked) = (vec![0; width::index(AT_ONCE)], 0);
    for start in (0..end).step_by(width::index(AT_ONCE)) {
        let len = (end - start).min(AT_ONCE) as usize;
        let part = bytes.get_mut(..len)?;
        if device.read_at(start, part).is_err() {
            continue;
        }
        for at in (0..len).step_by(width::index(STEP)) {
            let (place, bytes) = (start + at as u64, part.get(at..)?);
            let mut found = recognise(bytes).and_then(|_| usable(device, place));
            if found.is_none() && asked < GROUPS_ASKED && rebuilding::is_group(bytes) {
                asked += 1;
                found = by_group(device, place);
            }
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

fn recovery(device: &dyn Device) -> Option<(fsmend_ufs_format::ByteOrder, Recovery)> {
    let mut bytes = [0; RECOVERY_SIZE];
    device.read_at(Recovery::PLACE, &mut bytes).ok()?;
    Recovery::parse(&bytes)
}

/// The record that helps to find copies: missing in old file systems, which is no fault; wrong ones mislead.
fn recovery_record(device: &dyn Device, superblock: &Superblock, findings: &mut Findings) {
    let Some(wanted) = Recovery::of(superblock) else { return };
    let Some((_, stored)) = recovery(device) else { return };
    let is_right = Recovery::parse(&wanted)
        .is_some_and(|(order, record)| order == superblock.order() && record == stored);
    if !is_right {
        let problem = Problem::new(&rows::RECOVERY_RECORD);
        findings.raise_with_edit(problem, Layer::Record, Recovery::PLACE, &wanted);
    }
}

/// What is wrong with the place that the primary superblock says it has. FreeBSD's kernel refuses one that says another; in UFS1 before 2002 other things lay there.
fn own_place(superblock: &Superblock, primary: u64) -> Option<Flaw> {
    let (stored, expected) = (superblock.sblockactualloc(), width::signed(primary));
    let is_taken = match superblock.version() {
        Version::Ufs2 => stored == 0 || stored == expected,
        Version::Ufs1 => (0..=8192).contains(&stored) || superblock.is_old(),
    };
    let flaw = Flaw { field: "sblockactualloc", stored, expected: Some(expected), is_harmless: true };
    (!is_taken).then_some(flaw)
}

fn raise_flaw(flaw: &Flaw, findings: &mut Findings) {
    let row = match (flaw.is_harmless, flaw.field) {
        (false, _) => &rows::SUPERBLOCK_FIELD,
        (true, "dsize") => &rows::DATA_SIZE,
        (true, _) => &rows::SUPERBLOCK_HINT,
    };
    let mut problem = Problem::new(row).detail("field", flaw.field).stored(flaw.stored.to_string());
    if let Some(expected) = flaw.expected {
        problem = problem.observed(expected.to_string());
    }
    findings.raise(problem);
}

/// Gives a field that is only a hint, or a relic, the value that it should have or its usual one.
fn mend(superblock: &mut Superblock, flaw: &Flaw) {
    let expected = flaw.expected.unwrap_or(0);
    let small = i32::try_from(expected).unwrap_or(i32::MAX);
    match flaw.field {
        "metaspace" => superblock.set_metaspace(0),
        "minfree" => superblock.set_minfree(8),
        "optim" => superblock.set_optim(0),
        "maxfilesize" => superblock.set_maxfilesize(expected.try_into().unwrap_or(u64::MAX)),
        "dsize" => {
            superblock.set_dsize(expected);
            if superblock.version() == Version::Ufs1 {
                superblock.set_old_dsize(small);
            }
        }
        "maxcontig" => superblock.set_maxcontig(superblock.contigsumsize().max(1)),
        "maxbsize" => superblock.set_maxbsize(small),
        "old_inodefmt" => superblock.set_old_inodefmt(small),
        "old_rotdelay" => superblock.set_old_rotdelay(small),
        "old_rps" => superblock.set_old_rps(small),
        "old_nspf" => superblock.set_old_nspf(small),
        "old_interleave" => superblock.set_old_interleave(small),
        "old_trackskew" => superblock.set_old_trackskew(small),
        "sblockactualloc" => superblock.set_sblockactualloc(expected),
        "old_cgoffset" => superblock.set_old_cgoffset(small),
        "old_cpc" => superblock.set_old_cpc(small),
        "old_cpg" => superblock.set_old_cpg(small),
        "old_postblformat" => superblock.set_old_postblformat(small),
        "old_spc" => superblock.set_old_spc(small),
        "old_nsect" => superblock.set_old_nsect(small),
        "old_npsect" => superblock.set_old_npsect(small),
        _ => {}
    }
}

/// Whether a primary superblock may stand at `place`.
pub fn is_primary_place(place: u64) -> bool {
    SEARCH.contains(&place)
}

/// Whether `device` holds a UFS file system: by the magic of its superblock, by a copy in the first cylinder group, or by that group.
pub fn recognises(device: &dyn Device) -> bool {
    SEARCH.into_iter().any(|place| read(device, place).is_some())
        || FIRST_COPIES.into_iter().any(|place| usable(device, place).is_some())
        || recovery(device).is_some()
        || rebuilding::first_groups().into_iter().any(|place| rebuilding::shape_of(device, place).is_some())
}

/// Whether `device` holds a UFS whose start is lost: by a copy or a cylinder group further behind.
pub fn is_hidden_on(device: &dyn Device) -> bool {
    search(device, HIDDEN_MAX).is_some()
}
