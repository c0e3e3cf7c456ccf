// SPDX-License-Identifier: MIT OR Apache-2.0
//! Size and space of an inode against what its map holds.

use fsmend_base::width;
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::inode::special::RESIZE;
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags, RawInode};

use super::layout::Layout;
use super::map::Map;
use super::problems::{EMPTY_DIRECTORY, SECTORS_WRONG, SIZE_WRONG};
use super::subject::Subject;
use crate::Fs;

/// The name of a directory, and its own `.`.
const DIRECTORY_LINKS_MIN: u16 = 2;
/// Blocks that the inode itself points to.
const DIRECT_BLOCKS: u64 = 12;

/// A directory has at least one block; `false` when this one has to be cleared. Where all else is as in a directory, it was only the map that was lost:
/// its first block is a hole then, which is filled with an empty one.
pub(crate) fn directory_has_blocks(subject: &mut Subject<'_, '_>, layout: Layout, clusters: u64) -> bool {
    let blocks = subject.raw.size() / subject.block_size();
    let has_lost_map = subject.raw.size().is_multiple_of(subject.block_size())
        && (1..=subject.directory_blocks_max()).contains(&blocks)
        && subject.raw.i_links_count.get() >= DIRECTORY_LINKS_MIN;
    let empty = subject.is_directory() && layout != Layout::Inline && clusters == 0 && !has_lost_map;
    if empty {
        let problem = subject.problem(&EMPTY_DIRECTORY);
        subject.raise(problem);
    }
    !empty
}

/// Checks the size of a file or directory, whose inode has room for `inline` bytes of data; returns whether it was wrong. (Sizes of links
/// and of inline directories are checked with their contents.)
pub(crate) fn inspect(subject: &mut Subject<'_, '_>, layout: Layout, map: &Map, inline: Option<u64>) -> bool {
    let applies = subject.is_directory() || subject.is_regular();
    if layout == Layout::Inline {
        return inline_size(subject, inline.unwrap_or(0));
    } else if !applies {
        return false;
    }
    let wrong = if subject.is_directory() {
        directory_size_wrong(subject, map)
    } else {
        file_size_wrong(subject, layout, map)
    };
    if wrong {
        let end = if subject.is_directory() { map.end().max(1) } else { map.end() };
        let right = end.saturating_mul(subject.block_size());
        let problem = subject.problem(&SIZE_WRONG).stored(subject.raw.size()).observed(right);
        subject.raise(problem);
        subject.raw.set_size(right);
    }
    wrong
}

/// A directory is made of whole blocks and ends with its last one, but for preallocated blocks behind the end.
fn directory_size_wrong(subject: &Subject<'_, '_>, map: &Map) -> bool {
    let size = subject.raw.size();
    let preallocated = u64::from(subject.fs.superblock.s_prealloc_dir_blocks);
    let (blocks, end) = (size / subject.block_size(), map.end().max(1));
    !size.is_multiple_of(subject.block_size()) || blocks > end || end - blocks > preallocated
}

/// A file may end before its last block's end, and behind it (in a hole); no written block lies behind its end.
fn file_size_wrong(subject: &Subject<'_, '_>, layout: Layout, map: &Map) -> bool {
    let (size, block_size) = (subject.raw.size(), subject.block_size());
    let last_written = map.last_written.unwrap_or(0).saturating_mul(block_size);
    let verity = subject.raw.has_flag(InodeFlags::VERITY);
    // The last index of a tree reaches as far as the size: no written block of its subtree may lie behind that.
    let ends_before = map.last_written.is_some() && map.is_deep && size == last_written;
    (size < last_written || ends_before) && !verity || size > size_max(subject, layout)
}

/// A file in its inode may end with a hole (older kernels leave it there when it is made longer), but not behind 4 GiB: there the upper half of the size
/// was overwritten, and the kernel reads gigabytes of zeroes behind the data. Returns whether it does.
fn inline_size(subject: &mut Subject<'_, '_>, capacity: u64) -> bool {
    let size = subject.raw.size();
    let low = size & u64::from(u32::MAX);
    if !subject.is_regular() || low == size && size <= size_max(subject, Layout::BlockMap) {
        return false;
    }
    // One half of the size makes sense where the other was damaged: none in a file that holds nothing but zeroes.
    let is_empty = capacity <= I_BLOCK_LEN as u64 && subject.raw.i_block.iter().all(|byte| *byte == 0);
    let right = if low <= capacity && (low > 0 || is_empty) { low } else { capacity };
    let problem = subject.problem(&SIZE_WRONG).stored(size).observed(right);
    subject.raise(problem);
    subject.raw.set_size(right);
    true
}

/// A reserved inode that is not in use has no size that no file could have.
pub(crate) fn inspect_unused(subject: &mut Subject<'_, '_>) {
    let layout = if subject.raw.has_flag(InodeFlags::EXTENTS) { Layout::Extents } else { Layout::BlockMap };
    let size = subject.raw.size();
    if size > size_max(subject, layout) {
        let problem = subject.problem(&SIZE_WRONG).stored(size).observed(0u64);
        subject.raise(problem);
        subject.raw.set_size(0);
    }
}

/// The largest size that the kernel opens: what can be mapped, and where `i_blocks` can count data and map together. It does not open the resize inode as a file, and mke2fs gives
/// that all that its double-indirect block maps.
fn size_max(subject: &Subject<'_, '_>, layout: Layout) -> u64 {
    let block_size = subject.block_size();
    let pointers = u64::from(subject.fs.geometry.pointers_per_block());
    let is_file = subject.inode.0 != RESIZE;
    let counted = match subject.has_ro_compat(RoCompat::HUGE_FILE) || !is_file {
        true => (1 << 48) - 1,
        false => u64::from(u32::MAX) / (block_size / 512),
    };
    let blocks = match layout {
        Layout::Extents => counted.min(u64::from(u32::MAX)),
        _ => blocks_with_map(counted, pointers).min(1 << 32),
    };
    blocks.saturating_mul(block_size)
}

/// How many blocks a file can have that is mapped by pointers, so many in an indirect block, if `counted` blocks can be counted, those of the map
/// included. As the kernel does it, all of `counted` are data when the map is counted.
fn blocks_with_map(counted: u64, pointers: u64) -> u64 {
    let spans = [pointers, pointers.pow(2), pointers.pow(3)];
    let mapped = DIRECT_BLOCKS + spans.iter().sum::<u64>();
    let map_of = |blocks: u64| {
        let (mut left, mut map) = (blocks.saturating_sub(DIRECT_BLOCKS), 0);
        for (level, span) in (1..).zip(spans) {
            let here = left.min(span);
            map += (1..=level).map(|depth| here.div_ceil(pointers.pow(depth))).sum::<u64>();
            left -= here;
        }
        map
    };
    if mapped + map_of(mapped) <= counted { mapped } else { counted.saturating_sub(map_of(counted)) }
}

/// Compares `i_blocks` with `clusters` in use; returns whether it was wrong.
pub(crate) fn inspect_sectors(subject: &mut Subject<'_, '_>, clusters: u64) -> bool {
    if subject.fs.geometry.hurd {
        return false;
    }
    let huge_file = subject.has_ro_compat(RoCompat::HUGE_FILE);
    let in_blocks = huge_file && subject.raw.has_flag(InodeFlags::HUGE_FILE);
    let blocks = clusters.saturating_mul(u64::from(subject.fs.geometry.cluster_blocks));
    let right = if in_blocks { blocks } else { blocks.saturating_mul(subject.block_size() / 512) };
    let stored = sectors(subject.fs, &subject.raw);
    if stored == right {
        return false;
    }
    let problem = subject.problem(&SECTORS_WRONG).stored(stored).observed(right);
    subject.raise(problem);
    subject.raw.i_blocks_lo.set(width::low_u32(right));
    if huge_file {
        subject.raw.i_blocks_high.set(width::low_u16(right >> 32));
    }
    true
}

/// How many blocks are in use as `i_blocks` says; `None` where it says no whole number of them.
pub(crate) fn told(fs: &Fs<'_>, raw: &RawInode) -> Option<u64> {
    let in_blocks = has_huge_files(fs) && raw.has_flag(InodeFlags::HUGE_FILE);
    let unit = if in_blocks { 1 } else { u64::from(fs.geometry.block_size) / 512 };
    let sectors = sectors(fs, raw);
    (!fs.geometry.hurd && sectors.is_multiple_of(unit)).then(|| sectors / unit)
}

/// How many of these are of the map and what it leads to: all but that, or the cluster, of attributes.
pub(crate) fn told_of_map(subject: &Subject<'_, '_>) -> Option<u64> {
    let attributes = if subject.file_acl() != 0 { u64::from(subject.fs.geometry.cluster_blocks) } else { 0 };
    told(subject.fs, &subject.raw)?.checked_sub(attributes)
}

/// `i_blocks` as it stands, in its own unit.
fn sectors(fs: &Fs<'_>, raw: &RawInode) -> u64 {
    let high = if has_huge_files(fs) { raw.i_blocks_high.get() } else { 0 };
    u64::from(high) << 32 | u64::from(raw.i_blocks_lo.get())
}

fn has_huge_files(fs: &Fs<'_>) -> bool {
    fs.geometry.features.has_ro_compat(RoCompat::HUGE_FILE)
}

/// The space of an inode with `clusters` in use, in sectors of 512 bytes.
pub(crate) fn charged_sectors(subject: &Subject<'_, '_>, clusters: u64) -> u64 {
    let blocks = clusters.saturating_mul(u64::from(subject.fs.geometry.cluster_blocks));
    blocks.saturating_mul(subject.block_size() / 512)
}

#[cfg(test)]
mod tests {
    use super::blocks_with_map;

    #[test]
    fn files_are_as_large_as_the_kernel_opens_them() {
        let counted = |block_size: u64| u64::from(u32::MAX) / (block_size / 512);
        assert_eq!(blocks_with_map(counted(1024), 256), 16_843_020, "the map is what ends them");
        assert_eq!(blocks_with_map((1 << 48) - 1, 1024), 1_074_791_436);
        // A file of 2 199 024 304 132 bytes could not be opened: "iget: bad i_size value".
        let largest = blocks_with_map(counted(4096), 1024) << 12;
        assert!((2_190_000_000_000..2_199_024_304_132).contains(&largest), "{largest}");
        assert_eq!(blocks_with_map(counted(4096), 1024), 536_346_110);
    }
}
