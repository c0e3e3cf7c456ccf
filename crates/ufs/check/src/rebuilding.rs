// SPDX-License-Identifier: MIT OR Apache-2.0
//! A superblock made again, where none is left: from the cylinder groups.
//!
//! The header of a group tells byte order, version, its number, fragments and inodes, and where its maps are. What it leaves open (the sizes of blocks and fragments, where the first group
//! begins) is tried, and the file system itself decides: inodes of directories lead to blocks whose first entry (`.`) names the inode. A wrong size, or a header that is the content of a file,
//! does not stand this test. What the superblock alone knows (label, flags) is taken from the remains of one where they are plausible.

use std::collections::BTreeSet;

use fsmend_base::width::{index, low_u32, signed};
use fsmend_device::Device;
use fsmend_ufs_format::group::{CylinderGroup, GROUP_MAGIC, HEADER_SIZE, bit};
use fsmend_ufs_format::inode::{Inode, mode};
use fsmend_ufs_format::shape::{Shape, group_offset};
use fsmend_ufs_format::summary::{COUNTS_SIZE, Counts};
use fsmend_ufs_format::superblock::{Hashes, Recovery, SEARCH, SUPERBLOCK_MAX, Superblock, SuperblockFlags};
use fsmend_ufs_format::{ByteOrder, Geometry, Version, directory, geometry};

/// Block sizes, the usual one first.
const BLOCKS: [u64; 5] = [32768, 16384, 65536, 8192, 4096];
/// So many directories convince.
const DIRECTORIES: u32 = 16;
/// They are looked for in so many groups, in so many blocks of inodes of each and of all of them.
const GROUPS: u32 = 16;
const INODE_BLOCKS: usize = 64;
const INODE_BLOCKS_IN_ALL: usize = 256;
/// So many are looked at: where no map tells what is in use, most of what looks like one may be none.
const LOOKED_AT: u32 = 1024;
/// Remains of superblocks are looked for in so many groups.
const REMAINS: u32 = 256;
/// Flags that are taken from remains.
const FLAGS: SuperblockFlags = SuperblockFlags::SOFT_UPDATES
    .union(SuperblockFlags::JOURNAL)
    .union(SuperblockFlags::ACLS)
    .union(SuperblockFlags::MULTILABEL)
    .union(SuperblockFlags::GJOURNAL)
    .union(SuperblockFlags::NFS4_ACLS)
    .union(SuperblockFlags::TRIM);
/// Flags that may be set in remains besides.
const OTHER_FLAGS: SuperblockFlags = SuperblockFlags::UNCLEAN
    .union(SuperblockFlags::NEEDS_FSCK)
    .union(SuperblockFlags::UPDATED)
    .union(SuperblockFlags::HASHES);

/// Places at which the maps of the first group can be: they follow from the block size and the place of the superblock.
pub(crate) fn first_groups() -> BTreeSet<u64> {
    let of_block = |block| SEARCH.map(|primary| group_offset(primary, block));
    BLOCKS.into_iter().flat_map(of_block).collect()
}

/// Whether a cylinder group may begin with these bytes.
pub(crate) fn is_group(bytes: &[u8]) -> bool {
    order_of(bytes).is_some()
}

fn order_of(bytes: &[u8]) -> Option<ByteOrder> {
    [ByteOrder::Little, ByteOrder::Big].into_iter().find(|order| order.u32(bytes, 4) == GROUP_MAGIC)
}

/// The shape of the file system that the cylinder group at `place` belongs to, as far as its size is known; `None` where there is no group, or nothing confirms what it tells.
pub(crate) fn shape_of(device: &dyn Device, place: u64) -> Option<Shape> {
    let header = header(device, place)?;
    let mut best: Option<(u32, Shape)> = None;
    for shape in shapes(&header, place) {
        let Some(geometry) =
            geometry(&shape).filter(|geometry| header.flaw(geometry, header.cgx()).is_none())
        else {
            continue;
        };
        let (confirmed, refuted) = evidence(device, &geometry, header.cgx());
        if confirmed > refuted && best.is_none_or(|(most, _)| confirmed > most) {
            best = Some((confirmed, shape));
        }
    }
    let (_, mut shape) = best?;
    shape.size = size(device, shape)?;
    Some(shape)
}

/// The superblock of a file system of this shape, and its geometry.
pub(crate) fn superblock(device: &dyn Device, shape: &Shape) -> Option<(Superblock, Geometry)> {
    let mut made = shape.superblock()?;
    let (bare, _) = Geometry::of(&made).ok()?;
    take_settings(device, &bare, &mut made);
    let hashes = hashes(device, &bare);
    if !hashes.is_empty() {
        made.set_metackhash(hashes.bits());
        made.set_flags(made.flags() | SuperblockFlags::HASHES);
    }
    let mut totals = Counts::<i64>::default();
    for number in 0..bare.groups {
        let Some(group) = group(device, &bare, number) else { continue };
        totals.add(group.counts());
        made.set_time(made.time().max(match bare.version {
            Version::Ufs1 => group.old_time().into(),
            Version::Ufs2 => group.time(),
        }));
    }
    made.set_totals(totals);
    made.set_mtime(made.time());
    if Geometry::of(&made).is_err() {
        // The check counts anyway.
        made.set_totals(Counts::default());
    }
    made.seal();
    let (geometry, _) = Geometry::of(&made).ok()?;
    Some((made, geometry))
}

/// The bytes of a group up to the end of its header.
fn header(device: &dyn Device, place: u64) -> Option<CylinderGroup> {
    let mut bytes = vec![0; index(HEADER_SIZE)];
    device.read_at(place, &mut bytes).ok()?;
    let order = order_of(&bytes)?;
    Some(CylinderGroup::new(bytes, order))
}

/// A group of a known geometry that is without a flaw, whole.
fn group(device: &dyn Device, geometry: &Geometry, number: u32) -> Option<CylinderGroup> {
    let mut bytes = vec![0; index(geometry.group_bytes)];
    device.read_at(geometry.group_place(number), &mut bytes).ok()?;
    let group = CylinderGroup::new(bytes, geometry.order);
    group.flaw(geometry, number).is_none().then_some(group)
}

fn geometry(shape: &Shape) -> Option<Geometry> {
    Geometry::of(&shape.superblock()?).ok().map(|(geometry, _)| geometry)
}

/// Shapes that the header of the group at `place` may belong to. This group is taken for the last.
fn shapes(header: &CylinderGroup, place: u64) -> Vec<Shape> {
    let order = order_of(header.bytes()).unwrap_or(ByteOrder::Little);
    let (version, group_inodes) = match header.niblk() {
        0 => (Version::Ufs1, header.old_niblk().into()),
        inodes => (Version::Ufs2, inodes),
    };
    let (number, length) = (u64::from(header.cgx()), u64::from(header.ndblk()));
    let sums = header.clusteroff().saturating_sub(header.clustersumoff()) / 4;
    let cluster_max = if header.nclusterblks() == 0 { 0 } else { sums.saturating_sub(1) };
    if group_inodes == 0 || length == 0 || cluster_max > 16 {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (block, primary) in BLOCKS.into_iter().flat_map(|block| SEARCH.map(|primary| (block, primary))) {
        for fragments in [8, 4, 2, 1] {
            let sizes = (block, block / fragments);
            let Some(start) = place.checked_sub(group_offset(primary, block)) else { continue };
            let group_sizes = match start.checked_div(number * sizes.1) {
                Some(size) if start % (number * sizes.1) == 0 => size..=size,
                // The only group may be shorter than its maps, which are whole bytes and words.
                None if start == 0 => length..=length.saturating_add(64),
                _ => continue,
            };
            for group_size in group_sizes.filter(|size| size % fragments == 0 && *size >= length) {
                let size = number * group_size + length;
                found.push(Shape {
                    order,
                    version,
                    sizes,
                    place: primary,
                    group_size,
                    group_inodes,
                    size,
                    cluster_max,
                });
            }
        }
    }
    found
}

/// Directories that lead to a block that names them, and those that do not: in group `number` and the first ones.
fn evidence(device: &dyn Device, geometry: &Geometry, number: u32) -> (u32, u32) {
    let (mut confirmed, mut refuted, mut looked_at) = (0, 0, 0);
    let mut blocks = INODE_BLOCKS_IN_ALL;
    // The first group has the root.
    let others = (1..geometry.groups.min(GROUPS)).filter(|other| *other != number);
    for group in BTreeSet::from([0, number]).into_iter().chain(others) {
        visit_inodes(device, geometry, (group, &mut blocks), &mut |number, inode, is_marked| {
            if inode.file_type() == mode::DIRECTORY {
                looked_at += 1;
                match names_itself(device, geometry, number, inode) {
                    true => confirmed += 1,
                    false => refuted += u32::from(is_marked),
                }
            }
            confirmed + refuted < DIRECTORIES && looked_at < LOOKED_AT
        });
        if confirmed + refuted >= DIRECTORIES || looked_at >= LOOKED_AT {
            break;
        }
    }
    (confirmed, refuted)
}

fn names_itself(device: &dyn Device, geometry: &Geometry, number: u32, inode: &Inode<&[u8]>) -> bool {
    let mut chunk = [0; directory::CHUNK];
    // It may lie in a group that is not known yet.
    let place = geometry.place(inode.pointer(0));
    let is_there = inode.pointer(0) != 0 && device.read_at(place, &mut chunk).is_ok();
    let entry = directory::entry(&chunk, 0, geometry.order);
    is_there && entry.is_some_and(|entry| entry.name == b"." && entry.inode == number)
}

/// Told of an inode: its number, its record, whether the map of its group calls it in use. Says whether there is to be another.
type Visit<'v> = dyn FnMut(u32, &Inode<&[u8]>, bool) -> bool + 'v;

/// Visits inodes of a group until there are enough of them, or `blocks` of them were read: those that its map calls in use, or all where it has no map, of which nothing says then that they are
/// in use.
fn visit_inodes(
    device: &dyn Device,
    geometry: &Geometry,
    (number, blocks): (u32, &mut usize),
    visit: &mut Visit<'_>,
) {
    let group = group(device, geometry, number);
    let is_marked = group.is_some();
    let end = group.as_ref().map_or(geometry.group_inodes, |group| group.initialised(geometry));
    let is_wanted =
        |index: u32| group.as_ref().is_none_or(|group| bit(group.inode_map(&geometry.layout), index.into()));
    let size = geometry.version.inode_size();
    let mut block = vec![0; index(geometry.block_size)];
    let first = number.saturating_mul(geometry.group_inodes);
    let starts = (0..end).step_by(geometry.block_inodes as usize);
    let is_in_use = |start: &u32| (*start..start + geometry.block_inodes).any(is_wanted);
    let most = INODE_BLOCKS.min(*blocks);
    for start in starts.filter(is_in_use).take(most) {
        *blocks -= 1;
        let place = geometry.inode_place(first + start);
        if place.is_none_or(|place| device.read_at(place, &mut block).is_err()) {
            continue;
        }
        for (index, record) in (start..).zip(block.chunks_exact(size)) {
            let inode = Inode::new(record, geometry.order, geometry.version);
            if is_wanted(index) && !visit(first + index, &inode, is_marked) {
                return;
            }
        }
    }
}

/// How large the file system is: its last group tells, or the summary area of all groups does which is the last. `None` where nothing does.
fn size(device: &dyn Device, shape: Shape) -> Option<u64> {
    let most = device.len() / shape.sizes.1;
    let (known, largest) = (shape.groups(), most.div_ceil(shape.group_size));
    let whole = geometry(&Shape { size: shape.group_size.saturating_mul(largest.max(known)), ..shape })?;
    let length = |number: u64| {
        let header = header(device, whole.group_place(low_u32(number)))?;
        let length = header.ndblk();
        let mut like_others = header;
        like_others.set_ndblk(low_u32(whole.group_size));
        like_others.set_nclusterblks(if whole.cluster_max > 0 {
            low_u32(whole.group_size / whole.fragments)
        } else {
            0
        });
        (like_others.flaw(&whole, low_u32(number)).is_none()).then_some(u64::from(length))
    };
    // The last one that is there; one that is shorter than the others ends all.
    let (mut last, mut end) = (known - 1, shape.size);
    for number in known - 1..largest {
        let Some(length) = length(number).filter(|length| (1..=shape.group_size).contains(length)) else {
            continue;
        };
        (last, end) = (number, number * shape.group_size + length);
        if length < shape.group_size {
            return (end <= most).then_some(end);
        }
    }
    let has_room = most.saturating_sub(end) > shape.data() + whole.fragments;
    let groups = match has_room {
        false => last + 1,
        true => counted(device, &whole, last).or_else(|| recorded(device, &shape, last))?,
    };
    let size = (groups * shape.group_size).min(most);
    (size > (groups - 1) * shape.group_size).then_some(size)
}

/// Groups that the summary area counts, if they are more than `last`.
fn counted(device: &dyn Device, whole: &Geometry, last: u64) -> Option<u64> {
    let first = whole.structures(0) + whole.data;
    let groups = sensible_counts(device, whole, (first, last + 1));
    (groups > last).then_some(groups)
}

/// How many counts of groups make sense one after the other, in a summary area that begins with fragment `first` and has room for `groups` at least.
fn sensible_counts(device: &dyn Device, geometry: &Geometry, (first, groups): (u64, u64)) -> u64 {
    let bytes = groups.saturating_mul(COUNTS_SIZE as u64).next_multiple_of(geometry.fragment_size);
    let mut area = vec![0; index(bytes)];
    if device.read_at(geometry.place(first), &mut area).is_err() {
        return 0;
    }
    let fits = |count: i32, most: u64| u64::try_from(count).is_ok_and(|count| count <= most);
    let makes_sense = |counts: &Counts<i32>| {
        fits(counts.directories, geometry.group_inodes.into())
            && fits(counts.free_inodes, geometry.group_inodes.into())
            && fits(counts.free_blocks, geometry.group_size)
            && fits(counts.free_fragments, geometry.group_size)
            && *counts != Counts::default()
    };
    let counts = area.chunks_exact(COUNTS_SIZE).map(|bytes| Counts::parse(bytes, geometry.order));
    counts.take_while(makes_sense).count() as u64
}

/// The superblock without what the groups contradict: a size that neither its own count of data nor the last group agrees with, and a place of the summary area where none is, while there
/// is one in the usual place.
pub(crate) fn contradicted(
    device: &dyn Device,
    superblock: &Superblock,
    geometry: &Geometry,
) -> Option<Superblock> {
    let mut mended = superblock.clone();
    let groups = u64::from(geometry.groups);
    let usual = geometry.structures(0) + geometry.data;
    if geometry.summary.0 != usual
        && sensible_counts(device, geometry, (geometry.summary.0, groups)) < groups
        && sensible_counts(device, geometry, (usual, groups)) >= groups
    {
        mended.set_csaddr(signed(usual));
    }
    let last = geometry.groups - 1;
    let size = header(device, geometry.group_place(last))
        .map(|header| geometry.group_start(last).saturating_add(header.ndblk().into()));
    let mut other = mended.clone();
    other.set_size(signed(size.unwrap_or(geometry.size)));
    let agrees = |superblock: &Superblock| {
        let judged =
            Geometry::of(superblock).ok().filter(|(_, flaws)| flaws.iter().all(|flaw| flaw.field != "dsize"));
        judged.is_some_and(|(geometry, _)| group(device, &geometry, last).is_some())
    };
    if !agrees(&mended) && agrees(&other) {
        mended = other;
    }
    if mended.version() == Version::Ufs1 {
        let short = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
        mended.set_old_size(short(mended.size()));
        mended.set_old_csaddr(short(mended.csaddr()));
    }
    let is_other = mended.size() != superblock.size() || mended.csaddr() != superblock.csaddr();
    is_other.then_some(mended)
}

/// Groups that the record before the superblock of UFS2 tells of.
fn recorded(device: &dyn Device, shape: &Shape, last: u64) -> Option<u64> {
    let mut bytes = [0; fsmend_ufs_format::superblock::RECOVERY_SIZE];
    device.read_at(Recovery::PLACE, &mut bytes).ok()?;
    let (order, record) = Recovery::parse(&bytes)?;
    let is_ours = order == shape.order && u64::from(record.fpg) == shape.group_size;
    (is_ours && u64::from(record.ncg) > last).then_some(record.ncg.into())
}

/// What has check hashes: where most are right.
fn hashes(device: &dyn Device, geometry: &Geometry) -> Hashes {
    if geometry.version == Version::Ufs1 {
        return Hashes::empty();
    }
    let (mut groups, mut inodes) = ((0, 0), (0, 0));
    for number in 0..geometry.groups.min(GROUPS) {
        let Some(group) = group(device, geometry, number) else { continue };
        groups.0 += u32::from(group.ckhash() == group.computed_hash());
        groups.1 += 1;
        let (mut left, mut blocks) = (DIRECTORIES, INODE_BLOCKS);
        visit_inodes(device, geometry, (number, &mut blocks), &mut |_, inode, is_marked| {
            if is_marked && inode.mode() != 0 {
                inodes.0 += u32::from(inode.hash() == inode.computed_hash());
                inodes.1 += 1;
                left -= 1;
            }
            left > 0
        });
    }
    let mut found = Hashes::empty();
    found.set(Hashes::GROUPS, 2 * groups.0 > groups.1);
    found.set(Hashes::INODES, 2 * inodes.0 > inodes.1);
    found.set(Hashes::SUPERBLOCK, !found.is_empty());
    found
}

/// Takes settings from what is left of a superblock: of the one that has most in common with the one that was made.
fn take_settings(device: &dyn Device, geometry: &Geometry, made: &mut Superblock) {
    let mut places = vec![geometry.superblock_place];
    places.extend((0..geometry.groups.min(REMAINS)).map(|group| geometry.superblock_copy(group)));
    let remains = places.into_iter().filter_map(|place| {
        let mut bytes = vec![0; SUPERBLOCK_MAX];
        device.read_at(place, &mut bytes).ok()?;
        let mut remains = made.with_bytes(&bytes);
        remains.modernise();
        Some((made.likeness(&remains), remains))
    });
    // The first of those that are most alike.
    let best = remains.reduce(|best, other| if other.0 > best.0 { other } else { best });
    let Some((_, remains)) = best.filter(|(likeness, _)| *likeness >= 75) else { return };
    made.set_id0(remains.id0());
    made.set_id1(remains.id1());
    if (remains.flags() - FLAGS - OTHER_FLAGS).is_empty() {
        made.set_flags(remains.flags() & FLAGS);
    }
    let is_text = |text: &[u8]| text.iter().all(|byte| (b' '..=b'~').contains(byte));
    if is_text(remains.label()) {
        made.set_label(remains.label());
    }
    if is_text(remains.mounted_on()) {
        made.set_mounted_on(remains.mounted_on());
    }
    if (0..=99).contains(&remains.minfree()) {
        made.set_minfree(remains.minfree());
    }
    if (0..=1).contains(&remains.optim()) {
        made.set_optim(remains.optim());
    }
    if (1..=made.nindir().saturating_mul(8)).contains(&remains.maxbpg()) {
        made.set_maxbpg(remains.maxbpg());
    }
    let snapshots: Vec<u32> = remains.snapshots().collect();
    if snapshots.iter().all(|inode| *inode > geometry::ROOT && *inode < geometry.inode_count()) {
        made.set_snapshots(&snapshots);
    }
    if (0..=signed(geometry.group_size / 2)).contains(&remains.metaspace()) {
        made.set_metaspace(remains.metaspace());
    }
}
