// SPDX-License-Identifier: MIT OR Apache-2.0
//! Group descriptors: read, checked, replaced from backups where they cannot be believed.
//!
//! A descriptor that points out of bounds or on top of other metadata has its places taken from the best backup;
//! what no backup knows has its place set to 0, "to be allocated again". Marks for uninitialised parts are believed only
//! where the descriptor's checksum is right.

mod ahead;
mod descriptors;
mod lost_table;
mod mark;
mod moved;
mod padding;
mod places;
pub(crate) mod problems;
pub(crate) mod repair;
#[cfg(test)]
mod tests;

use std::ops::{Range, RangeInclusive};

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_device::Device;
use fsmend_engine::problem::{Row, Value};
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::checksum::Checked;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::group::{GroupDesc, GroupFlags};
use fsmend_ext_format::inode::{RawInode, special};

use self::descriptors::Slot;
use self::lost_table::Finder;
use self::places::{KINDS, Kind, Occupied, Owner};
use crate::superblock::Settled;
use crate::{Group, Refusal};

use self::ahead::scan_inodes;
pub use self::ahead::{Window, bitmaps_stand_before, first_table, table_stretch};
pub use self::mark::mark_metadata;
pub use self::padding::told_inodes_per_group;

/// How many blocks behind the descriptors can be reserved for more of them, where the superblock says too many: then bitmaps or the inode table of
/// group 0 stand among these. That the table is what stands there, the root directory in it proves; to believe the superblock would cost all
/// files of the group.
pub fn told_reserve(device: &dyn Device, settled: &Settled) -> Option<u16> {
    let geometry = &settled.geometry;
    let reserved = geometry.group_head(GroupNo(0)).reserved;
    if reserved.count == 0 {
        return None;
    }
    let (_, slot) = descriptors::copy_of_block(device, geometry, 0, 0)?.next()?;
    let GroupDesc { block_bitmap, inode_bitmap, inode_table, .. } = slot.desc;
    let first = [block_bitmap, inode_bitmap, inode_table].into_iter().min()?;
    let is_told = reserved.contains(BlockNo(first))
        && slot.is_credible()
        && Finder::new(device, settled).has_root(inode_table) == Some(true);
    u16::try_from(first.checked_sub(reserved.start.0)?).ok().filter(|_| is_told)
}

/// Copies of a block of descriptors among which the one of a group is looked for.
const COPIES_ASKED_MAX: usize = 1024;

/// The descriptors of block `index` of them in the copy that group `host` holds, with the numbers of their groups; of a meta block group, in its first
/// backup. Nothing where it cannot be read.
pub(crate) fn descriptors_in(
    device: &dyn Device,
    geometry: &Geometry,
    index: u32,
    host: GroupNo,
) -> Vec<(u32, GroupDesc)> {
    let copies = geometry.descriptor_copies(index, COPIES_ASKED_MAX);
    let is_of_host = |block: &BlockNo| geometry.group_of_block(*block) == Some(host);
    let copy = copies.iter().position(is_of_host).unwrap_or(1);
    let slots = descriptors::copy_of_block(device, geometry, index, copy);
    slots.into_iter().flatten().map(|(number, slot)| (number, slot.desc)).collect()
}

/// How many of the first descriptors have a right checksum in a copy of theirs, 0 being the primary one.
pub fn right_checksums(device: &dyn Device, geometry: &Geometry, copy: usize) -> usize {
    let slots = descriptors::copy_of_block(device, geometry, 0, copy);
    let is_right = |slot: &Slot| slot.checked.is_some_and(Checked::is_right);
    slots.map_or(0, |slots| slots.filter(|(_, slot)| is_right(slot)).count())
}

/// The records of those of `inodes`, which are of the first group, that are in use, as far as they can be read where the first descriptor says.
pub fn first_inodes(
    device: &dyn Device,
    geometry: &Geometry,
    inodes: RangeInclusive<u32>,
) -> Vec<(InodeNo, Vec<u8>)> {
    let first = descriptors::copy_of_block(device, geometry, 0, 0).and_then(|mut slots| slots.next());
    let Some((_, slot)) = first else { return Vec::new() };
    let size = u64::from(geometry.inode_size);
    let table = slot.desc.inode_table.saturating_mul(u64::from(geometry.block_size));
    let read = |inode: u32| {
        let mut record = vec![0; geometry.inode_size as usize];
        let place = table.checked_add(u64::from(inode.checked_sub(1)?).checked_mul(size)?)?;
        device.read_at(place, &mut record).ok()?;
        (RawInode::from_record(&record).i_mode.get() != 0).then_some((InodeNo(inode), record))
    };
    inodes.take_while(|inode| *inode <= geometry.inodes_per_group).filter_map(read).collect()
}

/// Whether the table to which the first descriptor leads, with a right checksum or not, begins where it should: its second record is a directory whose first
/// block names it as the root.
pub fn leads_to_root(device: &dyn Device, settled: &Settled) -> bool {
    table_of_first(device, settled)
        .is_some_and(|(_, table)| Finder::new(device, settled).has_directory(table, InodeNo(special::ROOT)))
}

/// Whether the root directory names itself in the table of a first group whose descriptor is right.
pub fn has_root(device: &dyn Device, settled: &Settled) -> bool {
    table_of_first(device, settled).is_some_and(|(is_credible, table)| {
        is_credible && Finder::new(device, settled).has_directory(table, InodeNo(special::ROOT))
    })
}

/// Whether the descriptor of the first group is right, and where it puts the table.
fn table_of_first(device: &dyn Device, settled: &Settled) -> Option<(bool, u64)> {
    let (_, slot) = descriptors::copy_of_block(device, &settled.geometry, 0, 0)?.next()?;
    Some((slot.is_credible(), slot.desc.inode_table))
}

/// So many files show that inodes are not reserved: one could be a damaged record.
const FILES_SHOW: usize = 2;

/// Whether `inodes`, which are of the first group, are used by files: one of them is a directory that names itself, or several are files in use. Nothing
/// that the file system keeps for itself is.
pub fn has_files(device: &dyn Device, settled: &Settled, mut inodes: Range<u32>) -> bool {
    table_of_first(device, settled).is_some_and(|(is_credible, table)| {
        let mut finder = Finder::new(device, settled);
        if !is_credible && !finder.has_directory(table, InodeNo(special::ROOT)) {
            return false;
        }
        let files = inodes.clone().filter(|inode| finder.is_file(table, InodeNo(*inode)));
        files.take(FILES_SHOW).count() == FILES_SHOW
            || inodes.any(|inode| finder.has_directory(table, InodeNo(inode)))
    })
}

/// Reads and checks all group descriptors. Always returns `group_count` groups: what cannot be believed and has no
/// better witness in a backup has its places set to 0 ("to be allocated anew") and nothing to scan.
pub fn load(device: &dyn Device, settled: &Settled, findings: &mut Findings) -> Vec<Group> {
    let geometry = &settled.geometry;
    let mut slots = descriptors::read_primary(device, geometry);
    let is_damaged = settle_places(Finder::new(device, settled), geometry, &mut slots, findings);
    moved::take_back(&mut Finder::new(device, settled), &mut slots, is_damaged, findings);
    settle_root_table(Finder::new(device, settled), &mut slots, findings);
    let last = geometry.group_count - 1;
    let groups = slots.into_iter().zip(0..);
    groups
        .map(|(slot, number)| {
            let desc = check_marks(geometry, GroupNo(number), &slot, number == last, findings);
            Group { desc, scan_inodes: scan_inodes(geometry, &desc) }
        })
        .collect()
}

/// Refuses a file system that has lost an inode table and has no room for a new one: nothing could be mended.
pub fn refuse_without_room(settled: &Settled, groups: &[Group]) -> Result<(), Refusal> {
    let needed = u64::from(settled.geometry.inode_table_blocks());
    let free: u64 = groups.iter().map(|group| u64::from(group.desc.free_blocks)).sum();
    // Descriptors that have lost their tables may have lost their counts as well; the total is another witness.
    let free = free.max(settled.superblock.free_blocks_count());
    let free = free.saturating_mul(u64::from(settled.geometry.cluster_blocks));
    match groups.iter().position(|group| group.desc.inode_table == 0) {
        Some(lost) if free < needed => Err(Refusal {
            code: "no-room",
            message: format!(
                "the inode table of group {lost} is lost, no backup descriptor says where it was, and of the {needed} blocks \
                 for a new one only {free} are free"
            ),
            hint: "Copy the file system to a larger device and enlarge it there".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// What is wrong with one place.
struct Trouble {
    group: GroupNo,
    kind: Kind,
    /// Who has the blocks, when the place is one that could be.
    other: Option<Owner>,
}

/// Makes every place of `slots` one that could be right, or 0. Returns whether there was any doubt.
fn settle_places(
    finder: Finder<'_>,
    geometry: &Geometry,
    slots: &mut [Slot],
    findings: &mut Findings,
) -> bool {
    let mut placed = Vec::with_capacity(slots.len() * KINDS.len());
    let mut doubtful = Vec::new();
    for (slot, number) in slots.iter().zip(0..) {
        let group = GroupNo(number);
        let sound = KINDS.iter().filter(|kind| kind.is_allowed(geometry, group, &slot.desc));
        let before = placed.len();
        placed.extend(sound.map(|kind| (kind.range(geometry, &slot.desc), Owner::Place(group, *kind))));
        if placed.len() - before < KINDS.len() || !slot.is_credible() {
            doubtful.push(group);
        }
    }
    doubtful.extend(places::groups_in_conflict(geometry, &placed));
    if doubtful.is_empty() {
        return false;
    }
    doubtful.sort_unstable();
    doubtful.dedup();
    placed.retain(
        |(_, owner)| !matches!(owner, Owner::Place(group, _) if doubtful.binary_search(group).is_ok()),
    );
    let mut occupied = Occupied::default();
    occupied.take_heads(geometry);
    for (range, owner) in placed {
        let _ = occupied.take(range, owner);
    }
    settle_doubtful(finder, geometry, slots, &doubtful, &mut occupied, findings);
    true
}

/// Places of doubtful groups get their blocks in this order: those that a backup confirms, then the others.
fn settle_doubtful(
    mut finder: Finder<'_>,
    geometry: &Geometry,
    slots: &mut [Slot],
    doubtful: &[GroupNo],
    occupied: &mut Occupied,
    findings: &mut Findings,
) {
    let backups: Vec<Vec<Slot>> =
        doubtful.iter().map(|group| descriptors::backups(finder.device, geometry, *group)).collect();
    let mut waiting = Vec::new();
    for (&group, backups) in doubtful.iter().zip(&backups) {
        let Some(slot) = slots.get(group.0 as usize) else { continue };
        if !slot.is_readable {
            findings.raise(Problem::new(&problems::UNREADABLE).group(group).block(slot.block));
        }
        for kind in KINDS {
            let confirmed = backups.iter().any(|backup| kind.place(&backup.desc) == kind.place(&slot.desc));
            let range = kind.range(geometry, &slot.desc);
            let taken = confirmed
                && kind.is_allowed(geometry, group, &slot.desc)
                && occupied.take(range, Owner::Place(group, kind)).is_ok();
            if !taken {
                waiting.push((group, kind));
            }
        }
    }
    let tables = tables_elsewhere(geometry, slots, doubtful, &backups);
    let troubles = settle_waiting(geometry, slots, waiting, (doubtful, &backups, &tables), occupied);
    for trouble in &troubles {
        raise_place(slots, trouble, findings);
    }
    for troubles in troubles.chunk_by(|one, next| one.group == next.group) {
        let group = troubles[0].group;
        let index = doubtful.binary_search(&group).unwrap_or(usize::MAX);
        let backups = backups.get(index).map_or(&[][..], Vec::as_slice);
        replace(geometry, slots, group, troubles, backups, occupied, findings);
    }
    // What is found at once does not have to wait for what is searched for everywhere.
    for scans in [false, true] {
        for (group, backups) in doubtful.iter().zip(&backups) {
            find_table((&mut finder, scans), slots, (*group, backups), occupied, findings);
        }
    }
}

/// Where backups say that the inode tables are of those groups whose descriptor places them where none can be. A bitmap that wants to stand
/// there is in the wrong place: it can be made anew, and the files of a table cannot.
fn tables_elsewhere(
    geometry: &Geometry,
    slots: &[Slot],
    doubtful: &[GroupNo],
    backups: &[Vec<Slot>],
) -> Occupied {
    let mut tables = Occupied::default();
    for (&group, backups) in doubtful.iter().zip(backups) {
        let allowed = |slot: &&Slot| Kind::InodeTable.is_allowed(geometry, group, &slot.desc);
        if slots.get(group.0 as usize).is_none_or(|slot| allowed(&slot)) {
            continue;
        }
        if let Some(backup) = backups.iter().find(allowed) {
            // Where two tables meet, one of them is wrong, and the others tell which.
            let range = Kind::InodeTable.range(geometry, &backup.desc);
            let _ = tables.take(range, Owner::Place(group, Kind::InodeTable));
        }
    }
    tables
}

/// The places that no backup confirms: good if they are allowed and free, not contradicted by a backup of a descriptor whose own checksum is
/// wrong, and, of bitmaps, not where a backup knows a table.
fn settle_waiting(
    geometry: &Geometry,
    slots: &[Slot],
    waiting: Vec<(GroupNo, Kind)>,
    (doubtful, backups, tables): (&[GroupNo], &[Vec<Slot>], &Occupied),
    occupied: &mut Occupied,
) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    for (group, kind) in waiting {
        let Some(slot) = slots.get(group.0 as usize) else { continue };
        if !kind.is_allowed(geometry, group, &slot.desc) {
            troubles.push(Trouble { group, kind, other: None });
            continue;
        }
        let range = kind.range(geometry, &slot.desc);
        let witnesses = doubtful.binary_search(&group).ok().and_then(|index| backups.get(index));
        let contradicted = !slot.is_credible()
            && witnesses.is_some_and(|backups| {
                backups.iter().any(|backup| kind.is_allowed(geometry, group, &backup.desc))
            });
        let table = tables.owner(range).filter(|_| kind != Kind::InodeTable);
        if contradicted || table.is_some() {
            troubles.push(Trouble { group, kind, other: table.or_else(|| occupied.owner(range)) });
        } else if let Err(other) = occupied.take(range, Owner::Place(group, kind)) {
            troubles.push(Trouble { group, kind, other: Some(other) });
        }
    }
    troubles
}

/// Looks for the inode table of `group` if its place is unknown; or if only a descriptor that cannot be believed knows one, and what
/// stands there does not prove it.
fn find_table(
    (finder, scans): (&mut Finder<'_>, bool),
    slots: &mut [Slot],
    (group, backups): (GroupNo, &[Slot]),
    occupied: &mut Occupied,
    findings: &mut Findings,
) {
    let desc = |number: u32| slots.get(number as usize).map(|slot| slot.desc);
    let Some(slot) = slots.get(group.0 as usize) else { return };
    let stored = slot.desc.inode_table;
    let is_confirmed = slot.is_credible() || backups.iter().any(|backup| backup.desc.inode_table == stored);
    if stored != 0 && (is_confirmed || finder.is_proven(group, stored)) {
        return;
    }
    let Some(place) = finder.find(group, &desc, occupied, scans) else { return };
    let Some(slot) = slots.get_mut(group.0 as usize).filter(|_| place != stored) else { return };
    if stored != 0 {
        findings.raise(Problem::new(&problems::INODE_TABLE_PLACE).group(group).stored(stored));
    }
    slot.desc.inode_table = place;
    let range = Kind::InodeTable.range(finder.geometry, &slot.desc);
    let _ = occupied.take(range, Owner::Place(group, Kind::InodeTable));
    findings.raise(Problem::new(&problems::TABLE_FOUND).group(group).block(BlockNo(place)));
}

/// Without checksums, a place that could be one is all that is known of it. Of group 0 there is more to know: its second inode is the root
/// directory. If it is none, and what stands there does not prove itself a table in any other way, the place is asked for that a backup has,
/// and then all others; one that proves itself is taken.
fn settle_root_table(mut finder: Finder<'_>, slots: &mut [Slot], findings: &mut Findings) {
    let group = GroupNo(0);
    let Some(Slot { desc: GroupDesc { inode_table: stored, .. }, checked: None, .. }) =
        slots.first().copied()
    else {
        return;
    };
    if stored == 0 || finder.has_root(stored) != Some(false) || finder.is_proven(group, stored) {
        return;
    }
    let geometry = finder.geometry;
    let mut occupied = Occupied::default();
    occupied.take_heads(geometry);
    for (slot, number) in slots.iter().zip(0..) {
        for kind in KINDS.iter().filter(|kind| number > 0 || **kind != Kind::InodeTable) {
            let _ = occupied.take(kind.range(geometry, &slot.desc), Owner::Place(GroupNo(number), *kind));
        }
    }
    let backups = descriptors::backups(finder.device, geometry, group);
    let witness = backups.iter().find(|backup| {
        let is_free = Kind::InodeTable.is_allowed(geometry, group, &backup.desc)
            && occupied.owner(Kind::InodeTable.range(geometry, &backup.desc)).is_none();
        is_free && backup.desc.inode_table != stored && finder.is_proven(group, backup.desc.inode_table)
    });
    let others = |number: u32| slots.get(number as usize).map(|slot| slot.desc);
    let (place, how) = match witness {
        Some(backup) => (
            Some(backup.desc.inode_table),
            Problem::new(&problems::FROM_BACKUP).group(group).block(backup.block),
        ),
        None => {
            let found = finder.find(group, &others, &occupied, true).filter(|place| *place != stored);
            let block = BlockNo(found.unwrap_or_default());
            (found, Problem::new(&problems::TABLE_FOUND).group(group).block(block))
        }
    };
    if let (Some(place), Some(slot)) = (place, slots.first_mut()) {
        findings.raise(Problem::new(&problems::INODE_TABLE_PLACE).group(group).stored(stored));
        findings.raise(how);
        slot.desc.inode_table = place;
    }
}

fn raise_place(slots: &[Slot], trouble: &Trouble, findings: &mut Findings) {
    let Some(slot) = slots.get(trouble.group.0 as usize).filter(|slot| slot.is_readable) else { return };
    let place = trouble.kind.place(&slot.desc);
    let problem = match trouble.other {
        None => Problem::new(place_row(trouble.kind)).stored(place),
        Some(other) => {
            Problem::new(conflict_row(trouble.kind)).block(BlockNo(place)).observed(other.describe())
        }
    };
    findings.raise(problem.group(trouble.group));
}

fn place_row(kind: Kind) -> &'static Row {
    match kind {
        Kind::InodeTable => &problems::INODE_TABLE_PLACE,
        Kind::BlockBitmap => &problems::BLOCK_BITMAP_PLACE,
        Kind::InodeBitmap => &problems::INODE_BITMAP_PLACE,
    }
}

fn conflict_row(kind: Kind) -> &'static Row {
    match kind {
        Kind::InodeTable => &problems::INODE_TABLE_CONFLICT,
        Kind::BlockBitmap => &problems::BLOCK_BITMAP_CONFLICT,
        Kind::InodeBitmap => &problems::INODE_BITMAP_CONFLICT,
    }
}

/// Takes the places in `troubles` from the first backup that has them all free and allowed, else from whichever
/// has one; what none has becomes 0. A descriptor that is lost as a whole is taken from the backup as a whole.
fn replace(
    geometry: &Geometry,
    slots: &mut [Slot],
    group: GroupNo,
    troubles: &[Trouble],
    backups: &[Slot],
    occupied: &mut Occupied,
    findings: &mut Findings,
) {
    let Some(slot) = slots.get_mut(group.0 as usize) else { return };
    let usable = |backup: &Slot, kind: Kind, occupied: &Occupied| {
        kind.is_allowed(geometry, group, &backup.desc)
            && occupied.owner(kind.range(geometry, &backup.desc)).is_none()
    };
    let score =
        |backup: &&Slot| troubles.iter().filter(|trouble| usable(backup, trouble.kind, occupied)).count();
    let mut best: Option<&Slot> = None;
    for backup in backups {
        if score(&backup) > best.as_ref().map_or(0, score) {
            best = Some(backup);
        }
    }
    let mut desc = slot.desc;
    if let Some(backup) = best.filter(|_| troubles.len() == KINDS.len() || !slot.is_credible()) {
        let kept = |kind: &Kind| !troubles.iter().any(|trouble| trouble.kind == *kind);
        desc = whole_backup(&backup.desc);
        for kind in KINDS.iter().filter(|kind| kept(kind)) {
            kind.set_place(&mut desc, kind.place(&slot.desc));
        }
        slot.checked = None;
    }
    for trouble in troubles {
        let from = best.filter(|backup| usable(backup, trouble.kind, occupied));
        trouble.kind.set_place(&mut desc, from.map_or(0, |backup| trouble.kind.place(&backup.desc)));
        if from.is_some() {
            let _ = occupied.take(trouble.kind.range(geometry, &desc), Owner::Place(group, trouble.kind));
        }
    }
    if let Some(backup) = best {
        findings.raise(Problem::new(&problems::FROM_BACKUP).group(group).block(backup.block));
    }
    slot.desc = desc;
}

/// A backup in the place of a lost descriptor. Backups are not kept up to date, so what they say of unused parts is void.
fn whole_backup(backup: &GroupDesc) -> GroupDesc {
    GroupDesc {
        flags: backup.flags & !(GroupFlags::BLOCK_UNINIT | GroupFlags::INODE_UNINIT),
        itable_unused: 0,
        ..*backup
    }
}

/// Checksum and marks of one descriptor; returns it mended.
fn check_marks(
    geometry: &Geometry,
    group: GroupNo,
    slot: &Slot,
    is_last: bool,
    findings: &mut Findings,
) -> GroupDesc {
    let mut desc = slot.desc;
    let uninit = GroupFlags::BLOCK_UNINIT | GroupFlags::INODE_UNINIT;
    if let Some(checked) = slot.checked.filter(|checked| !checked.is_right()) {
        let problem =
            Problem::new(&problems::CHECKSUM).group(group).stored(Value::Hex(checked.stored.into()));
        findings.raise(problem.observed(Value::Hex(checked.computed.into())));
        desc.flags &= !uninit;
        desc.itable_unused = 0;
    }
    let has_checksums = geometry.features.group_csum();
    if !has_checksums && (desc.has_flag(uninit) || desc.itable_unused != 0) {
        findings.raise(Problem::new(&problems::UNINIT_WITHOUT_CHECKSUM).group(group));
        desc.flags &= !uninit;
        desc.itable_unused = 0;
    }
    if is_contradicted(geometry, group, &desc) {
        findings.raise(Problem::new(&problems::INODES_UNINIT_CONTRADICTED).group(group));
        desc.flags &= !GroupFlags::INODE_UNINIT;
    }
    if is_last && desc.has_flag(GroupFlags::BLOCK_UNINIT) {
        findings.raise(Problem::new(&problems::LAST_UNINIT).group(group));
        desc.flags &= !GroupFlags::BLOCK_UNINIT;
    }
    let reserved = if group.0 == 0 { special::ROOT } else { 0 };
    let most = desc.free_inodes.min(geometry.inodes_per_group.saturating_sub(reserved));
    if has_checksums && desc.itable_unused > most {
        findings.raise(
            Problem::new(&problems::UNUSED_TOO_MANY).group(group).stored(desc.itable_unused).observed(most),
        );
        desc.itable_unused = 0;
    }
    desc
}

/// Whether a group that is marked as having no inode in use evidently has some: the first one holds the root directory, and
/// others may count what they have. A table that was never written may hold anything, though, and is left alone.
fn is_contradicted(geometry: &Geometry, group: GroupNo, desc: &GroupDesc) -> bool {
    let counts_some = desc.free_inodes < geometry.inodes_per_group || desc.used_dirs > 0;
    let was_written =
        desc.has_flag(GroupFlags::INODE_ZEROED) || desc.itable_unused < geometry.inodes_per_group;
    desc.has_flag(GroupFlags::INODE_UNINIT) && (group.0 == 0 || (counts_some && was_written))
}
