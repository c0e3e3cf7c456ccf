// SPDX-License-Identifier: MIT OR Apache-2.0
//! fallocate(2): its modes by the calls of [`FileSystem`], and by writing zeroes where a format has no other way.

use std::ops::Range;

use fsmend_base::InodeNo;
use fsmend_vfs::{Allocation, Errno, FileSystem, Result, SetAttributes, Time};

// Modes of fallocate(2), whose numbers reach us as they are.
const KEEP_SIZE: i32 = 0x1;
const PUNCH_HOLE: i32 = 0x2;
const ZERO_RANGE: i32 = 0x10;

/// Most zeroes of one write.
const ZEROES_MAX: u64 = 1 << 20;

/// Does what `mode` says with `length` bytes from `offset` on.
pub(crate) fn fallocate(
    fs: &mut dyn FileSystem,
    inode: InodeNo,
    (offset, length): (u64, u64),
    mode: i32,
    now: Time,
) -> Result<()> {
    let end = offset.checked_add(length).ok_or(Errno::TooLarge)?;
    if length == 0 {
        return Err(Errno::Invalid);
    }
    let range = offset..end;
    let keep_size = mode & KEEP_SIZE != 0;
    match mode & !KEEP_SIZE {
        0 => preallocate(fs, inode, range, keep_size, now),
        PUNCH_HOLE if keep_size => fs.punch(inode, offset, length, now),
        ZERO_RANGE => {
            // First what may be refused, then what changes something, and then the blocks of the hole again.
            preallocate(fs, inode, range.clone(), keep_size, now)?;
            fs.punch(inode, offset, length, now)?;
            preallocate(fs, inode, range, keep_size, now)
        }
        _ => Err(Errno::NotSupported),
    }
}

fn preallocate(
    fs: &mut dyn FileSystem,
    inode: InodeNo,
    range: Range<u64>,
    keep_size: bool,
    now: Time,
) -> Result<()> {
    let how = if keep_size { Allocation::UnwrittenKeepSize } else { Allocation::Unwritten };
    match fs.allocate(inode, range.start, range.end - range.start, how, now) {
        Err(Errno::NotSupported) => fill_holes(fs, inode, range, keep_size, now),
        other => other,
    }
}

/// Gives holes blocks of zeroes, in a format that cannot say that a block was never written.
fn fill_holes(
    fs: &mut dyn FileSystem,
    inode: InodeNo,
    range: Range<u64>,
    keep_size: bool,
    now: Time,
) -> Result<()> {
    let size = fs.getattr(inode)?.size;
    if keep_size && range.end > size {
        // Blocks behind the end would count as damage there.
        return Err(Errno::NotSupported);
    }
    let mut holes = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let next = fs.extents(inode, at, 1)?.first().map(|data| data.offset..data.offset + data.len);
        let data = next.filter(|data| data.start < range.end).unwrap_or(range.end..range.end);
        if data.start > at {
            holes.push(at..data.start);
        }
        at = data.end.max(at + 1);
    }
    let missing: u64 = holes.iter().map(|hole| hole.end - hole.start).sum();
    let space = fs.statfs()?;
    if missing / u64::from(space.block_size.max(1)) > space.blocks_free {
        return Err(Errno::NoSpace);
    }
    holes.into_iter().try_for_each(|hole| write_zeroes(fs, inode, hole, now))?;
    if fs.getattr(inode)?.size < range.end {
        let longer = SetAttributes { size: Some(range.end), ..SetAttributes::default() };
        fs.setattr(inode, &longer, now)?;
    }
    Ok(())
}

fn write_zeroes(fs: &mut dyn FileSystem, inode: InodeNo, range: Range<u64>, now: Time) -> Result<()> {
    let zeroes = vec![0; usize::try_from(ZEROES_MAX.min(range.end - range.start)).unwrap_or(0)];
    let mut at = range.start;
    while at < range.end {
        let len = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(zeroes.len());
        let written = fs.write(inode, at, &zeroes[..len], now)?;
        if written == 0 {
            return Err(Errno::NoSpace);
        }
        at += written as u64;
    }
    Ok(())
}
