// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inodes: what their fields say, and the fast path that clears healthy ones. `inspection` looks at the others.

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::Problem;
use fsmend_engine::checker::InodeSummary;
use fsmend_engine::inodes::Kind;
use fsmend_ufs_format::geometry::{DIRECT, DIRECTORY_MAX, Geometry, ROOT};
use fsmend_ufs_format::inode::{Inode, InodeFlags, mode};
use fsmend_ufs_format::superblock::Hashes;
use fsmend_ufs_format::{ByteOrder, SECTOR, Version, directory};

use crate::blocks::{Next, Pointer, Role, Visit, is_mark, walk};
use crate::{UfsFs, attributes};

/// The kind of a mode; `None` for types that no inode has.
pub fn kind_of(mode: u16) -> Option<Kind> {
    Some(match mode & mode::TYPE {
        mode::PIPE => Kind::Fifo,
        mode::CHARACTER => Kind::CharDevice,
        mode::DIRECTORY => Kind::Directory,
        mode::BLOCK => Kind::BlockDevice,
        mode::REGULAR => Kind::Regular,
        mode::LINK => Kind::Symlink,
        mode::SOCKET => Kind::Socket,
        _ => return None,
    })
}

/// Whether the inode has a map: a file, a directory, or a link that is too long to stand in the inode.
pub fn has_map<B: AsRef<[u8]>>(geometry: &Geometry, inode: &Inode<B>) -> bool {
    match inode.file_type() {
        mode::REGULAR | mode::DIRECTORY => true,
        mode::LINK => inode.size() >= geometry.version.short_link_max().into(),
        _ => false,
    }
}

/// Pointers, counted as [`Inode::pointer`] does, that an inode without a map uses for something else.
pub(crate) fn used_slots<B: AsRef<[u8]>>(geometry: &Geometry, inode: &Inode<B>) -> usize {
    match inode.file_type() {
        mode::CHARACTER | mode::BLOCK => 1,
        mode::LINK => width::index(inode.size()).div_ceil(geometry.version.pointer_size()),
        _ => 0,
    }
}

/// Whether it is a device file whose number stands for no device.
pub(crate) fn has_no_device<B: AsRef<[u8]>>(geometry: &Geometry, inode: &Inode<B>) -> bool {
    let none = match geometry.version {
        Version::Ufs1 => u32::MAX.into(),
        Version::Ufs2 => u64::MAX,
    };
    matches!(inode.file_type(), mode::CHARACTER | mode::BLOCK) && inode.pointer(0) == none
}

/// Largest size that an inode of its type may have.
pub(crate) fn size_max<B: AsRef<[u8]>>(geometry: &Geometry, inode: &Inode<B>) -> u64 {
    match inode.file_type() {
        mode::DIRECTORY => DIRECTORY_MAX,
        mode::REGULAR | mode::LINK => geometry.file_max,
        _ => 0,
    }
}

/// The fast path.
pub fn summarize(fs: &UfsFs<'_>, number: InodeNo, bytes: &[u8], summary: &mut InodeSummary) -> bool {
    // One copy of it for each shape of a record, whose fields are then at known places.
    macro_rules! shape {
        ($order:ident, $version:ident) => {
            bytes.first_chunk::<{ Version::$version.inode_size() }>().is_some_and(|record| {
                let inode = Inode::new(record, ByteOrder::$order, Version::$version);
                summarize_shape(fs, number, &inode, summary)
            })
        };
    }
    match (fs.geometry().order, fs.geometry().version) {
        (ByteOrder::Little, Version::Ufs1) => shape!(Little, Ufs1),
        (ByteOrder::Big, Version::Ufs1) => shape!(Big, Ufs1),
        (ByteOrder::Little, Version::Ufs2) => shape!(Little, Ufs2),
        (ByteOrder::Big, Version::Ufs2) => shape!(Big, Ufs2),
    }
}

#[inline(always)]
fn summarize_shape<const SIZE: usize>(
    fs: &UfsFs<'_>,
    number: InodeNo,
    inode: &Inode<&[u8; SIZE]>,
    summary: &mut InodeSummary,
) -> bool {
    let geometry = fs.geometry();
    summary.kind = None;
    summary.links = 0;
    summary.units.clear();
    if inode.mode() == 0 {
        return is_free(inode);
    }
    let Some(kind) = kind_of(inode.mode()) else { return false };
    if number.0 < ROOT || inode.size() > size_max(geometry, inode) {
        return false;
    }
    if geometry.hashes.contains(Hashes::INODES) && inode.hash() != inode.computed_hash() {
        return false;
    }
    summary.kind = Some(kind);
    summary.links = stored_links(inode);
    let mut claims = Claims {
        geometry,
        is_snapshot: is_snapshot(inode),
        last: 0,
        blocks: 0,
        units: &mut summary.units,
        fragments: 0,
        is_read: true,
    };
    if has_map(geometry, inode) {
        if fs.layout.shared_maps.contains(number) {
            return false;
        }
        let size = inode.size();
        let blocks = geometry.block_count(size);
        let is_mapped = match blocks <= DIRECT && !claims.is_snapshot {
            true => claims.direct(inode, (size, blocks)),
            false => walk(fs, inode, size, &mut claims),
        };
        if !is_mapped || claims.is_read && claims.last != blocks {
            return false;
        }
        let is_directory = kind == Kind::Directory;
        if is_directory && (size == 0 || !size.is_multiple_of(directory::CHUNK as u64)) {
            return false;
        }
        if is_directory {
            if !has_no_holes(geometry, inode) || blocks > DIRECT && claims.blocks != blocks {
                return false;
            }
            fs.note_depth(number, inode.depth());
        }
    } else {
        let used = used_slots(geometry, inode);
        if !inode.ends_before(used) {
            return false;
        }
        if kind == Kind::Symlink && inode.size() == 0 || has_no_device(geometry, inode) {
            return false;
        }
    }
    if geometry.version == Version::Ufs2
        && (inode.attributes_size() != 0 || inode.attribute_block(0) != 0 || inode.attribute_block(1) != 0)
    {
        let Some(runs) = attributes::runs(geometry, inode) else { return false };
        if attributes::flaw(fs, inode).is_some() {
            return false;
        }
        for (first, count) in runs {
            claims.fragments += count;
            claims.units.push((first, count));
        }
    }
    claims.is_read && claims.fragments * (geometry.fragment_size / SECTOR) == inode.sectors()
}

/// The link count for the facts. One of 0 would look right in an inode without a name, which is in use all the same: it is made one that is never right.
pub(crate) fn stored_links<B: AsRef<[u8]>>(inode: &Inode<B>) -> u16 {
    match inode.links() {
        0 => u16::MAX,
        links => links,
    }
}

pub(crate) fn is_snapshot<B: AsRef<[u8]>>(inode: &Inode<B>) -> bool {
    inode.file_type() == mode::REGULAR && inode.flags().contains(InodeFlags::SNAPSHOT)
}

/// Whether an inode that is not in use holds nothing. (UFS1 leaves generations in such.)
pub(crate) fn is_free<B: AsRef<[u8]>>(inode: &Inode<B>) -> bool {
    inode.size() == 0 && inode.ends_before(0)
}

/// Whether the pointers of a directory in the inode have no hole before the last block. (Behind them, the blocks are counted.)
fn has_no_holes<B: AsRef<[u8]>>(geometry: &Geometry, inode: &Inode<B>) -> bool {
    let blocks = geometry.block_count(inode.size());
    (0..blocks.min(DIRECT)).all(|index| inode.pointer(width::index(index)) != 0)
}

/// Claims of the fast path.
struct Claims<'c> {
    geometry: &'c Geometry,
    is_snapshot: bool,
    /// One more than the number of the last block of the file that is there.
    last: u64,
    /// Blocks behind indirect ones and before them that are there; not counted for files without indirect blocks.
    blocks: u64,
    units: &'c mut Vec<(u64, u64)>,
    fragments: u64,
    /// Whether all indirect blocks could be read.
    is_read: bool,
}

impl Claims<'_> {
    /// What [`walk`] comes to for a file without indirect blocks. Most have one block: what stands where is known then when this is compiled.
    #[inline(always)]
    fn direct<B: AsRef<[u8]>>(&mut self, inode: &Inode<B>, (size, blocks): (u64, u64)) -> bool {
        match blocks {
            1 => self.direct_blocks(inode, (size, 1)),
            _ => self.direct_blocks(inode, (size, blocks)),
        }
    }

    #[inline(always)]
    fn direct_blocks<B: AsRef<[u8]>>(&mut self, inode: &Inode<B>, (size, blocks): (u64, u64)) -> bool {
        for index in 0..width::index(blocks) {
            let fragment = inode.pointer(index);
            if fragment == 0 {
                continue;
            }
            // Only the last block may be a part of one.
            let count = match index as u64 + 1 == blocks {
                true => self.geometry.block_fragments(size, index as u64),
                false => self.geometry.fragments,
            };
            if !self.geometry.may_be_data(fragment, count) {
                return false;
            }
            self.last = index as u64 + 1;
            self.claim(fragment, count);
        }
        inode.ends_before(width::index(blocks))
    }

    #[inline]
    fn claim(&mut self, fragment: u64, count: u64) {
        self.fragments += count;
        match self.units.last_mut() {
            Some((first, length)) if *first + *length == fragment => *length += count,
            _ => self.units.push((fragment, count)),
        }
    }
}

impl Visit for Claims<'_> {
    fn pointer(&mut self, pointer: Pointer, is_within: bool) -> Next {
        let Pointer { role, fragment, count, .. } = pointer;
        if !is_within {
            return Next::Stop;
        }
        if let Role::Data(index) = role {
            self.last = index + 1;
            self.blocks += 1;
        }
        if is_mark(self.is_snapshot, fragment) {
            return Next::Over;
        }
        if !self.geometry.may_be_data(fragment, count) || self.fragments + count > self.geometry.size {
            return Next::Stop;
        }
        self.claim(fragment, count);
        Next::Into
    }

    fn met_again(&mut self, _pointer: Pointer) -> Next {
        Next::Stop
    }

    fn block(&mut self, bytes: Option<&[u8]>) {
        // What cannot be read is for the inspection.
        self.is_read &= bytes.is_some();
    }
}

/// Numbers of blocks, for problems about a run of fragments.
pub fn run_of(problem: Problem, (first, count): (u64, u64)) -> Problem {
    problem.blocks(BlockNo(first), count)
}
