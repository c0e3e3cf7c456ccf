// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a UFS1 or UFS2: superblock and its copies, cylinder groups, inodes, the root directory.
//!
//! What is not asked for is chosen as FreeBSD's newfs does: blocks of 32 KiB with eight fragments, groups as large as one block of maps allows but four of them at
//! least, an inode for every two fragments, check hashes on UFS2.

use std::fmt;
use std::sync::Arc;

use fsmend_base::width;
use fsmend_device::WritableDevice;
use fsmend_ufs_format::geometry::{Geometry, ROOT};
use fsmend_ufs_format::group::{CylinderGroup, FragmentSums, GroupLayout, set_bit};
use fsmend_ufs_format::inode::{Inode, Stamp, mode};
use fsmend_ufs_format::order::{ByteOrder, Version};
use fsmend_ufs_format::shape::{CLUSTER_SUMS, Shape, group_offset};
use fsmend_ufs_format::summary::{COUNTS_SIZE, Counts};
use fsmend_ufs_format::superblock::{Hashes, Recovery, SUPERBLOCK_MAX, Superblock, SuperblockFlags};
use fsmend_ufs_format::{SECTOR, directory};
use fsmend_vfs::Time;

/// Inodes that UFS1 can count in a group.
const UFS1_GROUP_INODES_MAX: u64 = 32767;
/// Groups that a file system has if it is large enough for them.
const GROUPS_WANTED: u64 = 4;
/// What to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// Version.
    pub version: Version,
    /// Byte order.
    pub order: ByteOrder,
    /// Bytes of a block.
    pub block_size: u64,
    /// Bytes of a fragment; an eighth of a block if not given.
    pub fragment_size: Option<u64>,
    /// Bytes for each inode; two fragments if not given.
    pub inode_ratio: Option<u64>,
    /// Fragments of the metadata area of each group; half of what is kept free if not given.
    pub metadata_area: Option<u64>,
    /// Check hashes; UFS2 only.
    pub hashes: bool,
    /// Whether access control lists count; UFS2 only.
    pub access_lists: bool,
    /// At most 31 bytes.
    pub label: Vec<u8>,
    /// The file system's number.
    pub id: [u32; 2],
    /// The time.
    pub now: Time,
}

impl Options {
    /// What newfs would make.
    pub fn new(version: Version, id: [u32; 2], now: Time) -> Self {
        Options {
            version,
            order: ByteOrder::Little,
            block_size: 32768,
            fragment_size: None,
            inode_ratio: None,
            metadata_area: None,
            hashes: version == Version::Ufs2,
            access_lists: false,
            label: Vec::new(),
            id,
            now,
        }
    }
}

/// Why no file system can be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MkfsError {
    /// An option that cannot be, and which.
    Option(&'static str),
    /// The device is too small for anything.
    TooSmall,
    /// The device could not be read or written.
    Io(String),
}

impl fmt::Display for MkfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MkfsError::Option(which) => write!(f, "{which}"),
            MkfsError::TooSmall => f.write_str("there is too little room for a file system"),
            MkfsError::Io(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for MkfsError {}

fn io(error: impl fmt::Display) -> MkfsError {
    MkfsError::Io(error.to_string())
}

/// Makes a file system on `device`, over all of it.
pub fn mkfs(device: Arc<dyn WritableDevice>, options: &Options) -> Result<(), MkfsError> {
    let superblock = shape(device.len(), options)?;
    let (geometry, _) = Geometry::of(&superblock).map_err(|_| MkfsError::TooSmall)?;
    let mut maker = Maker { device, geometry, options, superblock };
    maker.clear_other_superblocks()?;
    let mut all = Vec::new();
    for group in 0..maker.geometry.groups {
        all.push(maker.write_group(group)?);
    }
    maker.write_root()?;
    maker.finish(&all)
}

/// Sizes that follow from the options.
struct Sizes {
    block: u64,
    fragment: u64,
    fragments: u64,
    inodes_per_block: u64,
    ratio: u64,
    cluster_max: u32,
    version: Version,
}

impl Sizes {
    fn of(options: &Options) -> Result<Sizes, MkfsError> {
        let block = options.block_size;
        if !(4096..=65536).contains(&block) || !block.is_power_of_two() {
            return Err(MkfsError::Option("block size has to be a power of two from 4096 to 65536"));
        }
        let fragment = options.fragment_size.unwrap_or(block / 8);
        let fits = fragment.is_power_of_two() && fragment >= SECTOR && fragment <= block;
        if !fits || block / fragment > 8 {
            return Err(MkfsError::Option(
                "fragment size has to be the block size, a half, a quarter or an eighth of it",
            ));
        }
        let ratio = options.inode_ratio.unwrap_or(2 * fragment);
        if ratio == 0 {
            return Err(MkfsError::Option("bytes for each inode have to be 1 at least"));
        }
        Ok(Sizes {
            block,
            fragment,
            fragments: block / fragment,
            inodes_per_block: block / options.version.inode_size() as u64,
            ratio,
            cluster_max: CLUSTER_SUMS,
            version: options.version,
        })
    }

    /// Inodes of a group of `size` fragments.
    fn inodes(&self, size: u64) -> u64 {
        let wanted = (size * self.fragment).div_ceil(self.ratio).max(1);
        let wanted = wanted.next_multiple_of(self.inodes_per_block);
        match self.version {
            Version::Ufs1 => {
                let most = UFS1_GROUP_INODES_MAX / self.inodes_per_block * self.inodes_per_block;
                wanted.min(most)
            }
            Version::Ufs2 => wanted,
        }
    }

    /// Whether the maps of a group of `size` fragments fit into a block.
    fn fits(&self, size: u64) -> bool {
        let inodes = u32::try_from(self.inodes(size)).unwrap_or(u32::MAX);
        let layout = GroupLayout::new(self.version, (inodes, size, self.fragments), self.cluster_max);
        layout.needed <= self.block && layout.end <= self.block
    }

    /// Fragments of a group: as many as the maps allow, fewer where that makes less than four groups.
    fn group_size(&self, total: u64, most: u64) -> u64 {
        let (mut good, mut bad) = (self.fragments, most / self.fragments * self.fragments + self.fragments);
        while bad - good > self.fragments {
            let middle = (good + bad) / 2 / self.fragments * self.fragments;
            if self.fits(middle) { good = middle } else { bad = middle }
        }
        good.min(total.div_ceil(GROUPS_WANTED).next_multiple_of(self.fragments))
    }
}

/// The superblock of a new file system, without counts.
pub(crate) fn shape(bytes: u64, options: &Options) -> Result<Superblock, MkfsError> {
    let sizes = Sizes::of(options)?;
    let (block, fragment, fragments) = (sizes.block, sizes.fragment, sizes.fragments);
    let total = bytes / fragment / fragments * fragments;
    if options.version == Version::Ufs1 && total > i32::MAX as u64 {
        return Err(MkfsError::Option("UFS1 has no more than 2147483647 fragments"));
    }
    let place: u64 = if options.version == Version::Ufs2 { 65536 } else { 8192 };
    let iblkno = (group_offset(place, block) + block) / fragment;
    let mut fpg = sizes.group_size(total, 1 << 30);
    let inode_fragments = |fpg: u64| sizes.inodes(fpg) / (sizes.inodes_per_block / fragments);
    // A group has to have room for more than its own structures.
    while fpg < iblkno + inode_fragments(fpg) + 2 * fragments && sizes.fits(fpg + fragments) && fpg < total {
        fpg += fragments;
    }
    let ipg = sizes.inodes(fpg);
    let dblkno = iblkno + inode_fragments(fpg);
    if dblkno + fragments > fpg {
        return Err(MkfsError::TooSmall);
    }
    let (mut ncg, mut size) = (total.div_ceil(fpg), total);
    if size - (ncg - 1) * fpg < dblkno + fragments {
        // The last group would not hold its own structures.
        ncg -= 1;
        size = ncg * fpg;
    }
    if ncg == 0 || size < 8 * fragments || ipg.saturating_mul(ncg) > (1 << 32) - sizes.inodes_per_block {
        return Err(if ncg == 0 { MkfsError::TooSmall } else { MkfsError::Option("too many inodes") });
    }
    let cssize = (ncg * COUNTS_SIZE as u64).next_multiple_of(fragment);
    if dblkno + cssize / fragment + fragments > fpg {
        return Err(MkfsError::TooSmall);
    }
    let shape = Shape {
        order: options.order,
        version: options.version,
        sizes: (block, fragment),
        place,
        group_size: fpg,
        group_inodes: u32::try_from(ipg).map_err(|_| MkfsError::Option("too many inodes"))?,
        size,
        cluster_max: CLUSTER_SUMS,
    };
    let mut sb = shape.superblock().ok_or(MkfsError::Option("the device is too large"))?;
    if let Some(area) = options.metadata_area {
        if area >= fpg / 2 {
            return Err(MkfsError::Option("the metadata area has to be smaller than half a group"));
        }
        sb.set_metaspace(width::signed(area / fragments * fragments));
    }
    sb.set_id0(options.id[0]);
    sb.set_id1(options.id[1]);
    sb.set_time(options.now.seconds);
    sb.set_mtime(options.now.seconds);
    sb.set_label(&options.label);
    if options.access_lists && options.version == Version::Ufs1 {
        return Err(MkfsError::Option("access control lists need UFS2"));
    }
    sb.set_flags(if options.access_lists { SuperblockFlags::ACLS } else { SuperblockFlags::empty() });
    if options.hashes && options.version == Version::Ufs2 {
        sb.set_flags(sb.flags() | SuperblockFlags::HASHES);
        sb.set_metackhash(Hashes::ALL.bits());
    }
    Ok(sb)
}

struct Maker<'o> {
    device: Arc<dyn WritableDevice>,
    geometry: Geometry,
    options: &'o Options,
    superblock: Superblock,
}

impl Maker<'_> {
    fn write(&self, place: u64, bytes: &[u8]) -> Result<(), MkfsError> {
        self.device.write_at(place, bytes).map_err(io)
    }

    fn write_zeroes(&self, place: u64, length: u64) -> Result<(), MkfsError> {
        let zeroes = vec![0; length.min(1 << 20) as usize];
        let mut at = 0;
        while at < length {
            let now = (length - at).min(zeroes.len() as u64);
            self.write(place + at, &zeroes[..width::index(now)])?;
            at += now;
        }
        Ok(())
    }

    /// What stands where superblocks are looked for must not be taken for one: everything before the first group's structures.
    fn clear_other_superblocks(&self) -> Result<(), MkfsError> {
        self.write_zeroes(0, self.geometry.place(self.geometry.superblock).min(self.device.len()))?;
        // The last place at which one is looked for, see `superblock::SEARCH`.
        if self.device.len() >= 262_144 + SUPERBLOCK_MAX as u64 {
            self.write_zeroes(262_144, SUPERBLOCK_MAX as u64)?;
        }
        Ok(())
    }

    /// Fragments of the root directory: the first ones behind the summary area.
    fn root_fragment(&self) -> u64 {
        let (start, length) = self.geometry.summary_run();
        start + length
    }

    /// Writes inodes and maps of a group; returns its counts.
    fn write_group(&self, group: u32) -> Result<Counts<i32>, MkfsError> {
        let geometry = &self.geometry;
        let mut cg = CylinderGroup::empty(geometry, group);
        let length = geometry.group_length(group);
        let start = geometry.group_start(group);
        let (reserved_start, reserved_end) = geometry.reserved(group);
        let map = cg.fragment_map_mut(&geometry.layout);
        for index in 0..length {
            let fragment = start + index;
            let is_reserved = fragment >= reserved_start && fragment < reserved_end;
            let is_ours = group == 0 && fragment >= geometry.summary.0 && fragment <= self.root_fragment();
            set_bit(map, index, !is_reserved && !is_ours);
        }
        let mut free_inodes = geometry.group_inodes;
        if group == 0 {
            for inode in 0..=ROOT {
                set_bit(cg.inode_map_mut(&geometry.layout), inode.into(), true);
            }
            free_inodes -= ROOT + 1;
        }
        let counts = settle_counts(&mut cg, geometry, group, (free_inodes, u32::from(group == 0)));
        match geometry.version {
            Version::Ufs1 => cg.set_old_time(width::low_u32(
                self.options.now.seconds.clamp(0, i32::MAX.into()).cast_unsigned(),
            )),
            Version::Ufs2 => cg.set_time(self.options.now.seconds),
        }
        cg.seal(geometry);
        self.write(geometry.group_place(group), cg.bytes())?;
        let inodes = u64::from(cg.initialised(geometry));
        let place = geometry.place(geometry.structures(group) + geometry.inodes);
        self.write_zeroes(place, inodes * geometry.version.inode_size() as u64)?;
        Ok(counts)
    }

    fn write_root(&self) -> Result<(), MkfsError> {
        let geometry = &self.geometry;
        let place = self.root_fragment();
        let mut bytes = vec![0; width::index(geometry.fragment_size)];
        for chunk in bytes.chunks_exact_mut(directory::CHUNK) {
            directory::clear_chunk(chunk, geometry.order);
        }
        bytes[..directory::CHUNK].copy_from_slice(&directory::first_chunk(geometry.order, ROOT, ROOT));
        self.write(geometry.place(place), &bytes)?;
        let record = vec![0; geometry.version.inode_size()];
        let mut inode = Inode::new(record, geometry.order, geometry.version);
        inode.set_mode(mode::DIRECTORY | 0o755);
        inode.set_links(2);
        inode.set_size(directory::CHUNK as u64);
        inode.set_sectors(geometry.fragment_size / SECTOR);
        inode.set_pointer(0, place);
        inode.set_generation(1);
        let time = (self.options.now.seconds, self.options.now.nanoseconds);
        for stamp in [Stamp::Access, Stamp::Modification, Stamp::Change] {
            inode.set_time(stamp, time);
        }
        if geometry.version == Version::Ufs2 {
            inode.set_time(Stamp::Creation, time);
        }
        if geometry.hashes.contains(Hashes::INODES) {
            inode.seal();
        }
        let at = geometry.inode_place(ROOT).ok_or(MkfsError::TooSmall)?;
        self.write(at, inode.bytes())
    }

    /// Writes the summary area, the copies of the superblock and, last of all, the superblock.
    fn finish(&mut self, counts: &[Counts<i32>]) -> Result<(), MkfsError> {
        let geometry = &self.geometry;
        let mut totals = Counts::<i64>::default();
        let mut summary = vec![0; width::index(geometry.summary.1)];
        for (place, group) in summary.chunks_exact_mut(COUNTS_SIZE).zip(counts) {
            group.store(place, geometry.order);
            totals.add(*group);
        }
        self.write(geometry.place(geometry.summary.0), &summary)?;
        set_totals(&mut self.superblock, totals);
        for group in 0..geometry.groups {
            let place = geometry.superblock_copy(group);
            self.write_superblock(place)?;
        }
        if let Some(record) = Recovery::of(&self.superblock) {
            self.write(Recovery::PLACE, &record)?;
        }
        self.device.sync().map_err(io)?;
        self.write_superblock(geometry.superblock_place)?;
        self.device.sync().map_err(io)
    }

    fn write_superblock(&self, place: u64) -> Result<(), MkfsError> {
        let mut copy = self.superblock.clone();
        copy.set_sblockactualloc(width::signed(place));
        copy.seal();
        self.write(place, copy.covered())
    }
}

/// Sets the totals of a superblock, in UFS1 also the copies of old.
pub(crate) fn set_totals(superblock: &mut Superblock, totals: Counts<i64>) {
    superblock.set_totals(totals);
    if superblock.version() == Version::Ufs1 {
        let short = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
        superblock.set_old_time(short(superblock.time()));
        superblock.set_old_totals(Counts {
            directories: short(totals.directories),
            free_blocks: short(totals.free_blocks),
            free_inodes: short(totals.free_inodes),
            free_fragments: short(totals.free_fragments),
        });
    }
}

/// Lets the counts and the map of free blocks of a cylinder group follow from its map of fragments.
pub(crate) fn settle_counts(
    cg: &mut CylinderGroup,
    geometry: &Geometry,
    group: u32,
    (free_inodes, directories): (u32, u32),
) -> Counts<i32> {
    let length = geometry.group_length(group);
    let mut clusters = vec![0; cg.cluster_map(&geometry.layout).len()];
    let fragments = cg.fragment_map(&geometry.layout);
    let extent = (length, geometry.fragments);
    let sums = FragmentSums::of(fragments, extent, geometry.cluster_max, &mut clusters);
    cg.cluster_map_mut(&geometry.layout).copy_from_slice(&clusters);
    for (length, count) in sums.clusters.iter().enumerate().skip(1) {
        cg.set_cluster_sum(&geometry.layout, width::len_u32(length), (*count).cast_signed());
    }
    for length in 1..width::index(geometry.fragments) {
        cg.set_fragment_sum(length, sums.runs[length].cast_signed());
    }
    let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    let counts = Counts {
        directories: number(directories),
        free_blocks: number(sums.free_blocks),
        free_inodes: number(free_inodes),
        free_fragments: number(sums.free_fragments),
    };
    cg.set_counts(counts);
    counts
}
