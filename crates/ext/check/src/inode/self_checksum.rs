// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checksum of an inode record, and what it says together with the fields: intact, stale, or garbage.

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::Value;
use fsmend_ext_format::checksum::{self, Checked};
use fsmend_ext_format::extent::ExtentHeader;
use fsmend_ext_format::inode::InodeFlags;

use super::problems::{INODE_CHECKSUM, INODE_GARBAGE};
use super::subject::Subject;

/// What the checksum says.
pub(crate) enum Verdict {
    /// It is right, or there is none.
    Right,
    /// It is wrong, but the fields are worth a look.
    Wrong(Checked),
    /// It is wrong and the record is garbage (which has been raised).
    Garbage,
}

/// Compares the checksum. A record is garbage when its own fields make no sense *and* most records in its block of
/// the inode table fail their checksums too; one bad record in a sound block is mended field by field.
pub(crate) fn judge(subject: &mut Subject<'_, '_>) -> Verdict {
    let geometry = &subject.fs.geometry;
    if !geometry.features.metadata_csum() || subject.record.iter().all(|byte| *byte == 0) {
        return Verdict::Right;
    }
    match checksum::inode(geometry.checksum_seed, subject.inode, &subject.record) {
        Some(checked) if !checked.is_right() => {
            if is_nonsense(subject) && neighbours_are_wrong(subject) {
                let problem = subject.problem(&INODE_GARBAGE);
                subject.raise(problem);
                return Verdict::Garbage;
            }
            Verdict::Wrong(checked)
        }
        _ => Verdict::Right,
    }
}

/// Raises that only the checksum of the inode is wrong.
pub(crate) fn raise(subject: &mut Subject<'_, '_>, checked: Checked) {
    let problem = subject.problem(&INODE_CHECKSUM).stored(Value::Hex(u64::from(checked.stored)));
    subject.raise(problem.observed(Value::Hex(u64::from(checked.computed))));
}

/// Whether at least two of the fields are what no implementation writes.
fn is_nonsense(subject: &Subject<'_, '_>) -> bool {
    const UNUSED_FLAGS: InodeFlags = InodeFlags::from_bits_retain(0x8C80_0000);
    let raw = &subject.raw;
    let extra = usize::from(raw.i_extra_isize.get());
    let extents = raw.has_flag(InodeFlags::EXTENTS);
    let signs = [
        subject.kind().is_none() && raw.i_mode.get() != 0,
        raw.i_faddr.get() != 0,
        raw.flags().intersects(UNUSED_FLAGS),
        extra % 4 != 0 || extra + 128 > subject.record.len().max(128),
        raw.size() >> 48 != 0,
        extents && ExtentHeader::parse(&raw.i_block).is_none(),
        !extents && subject.is_regular() && raw.block_word(0) as u64 >= subject.fs.geometry.blocks_count,
    ];
    signs.into_iter().filter(|sign| *sign).count() >= 2
}

/// Whether more than half of the records in this record's block of the inode table have a wrong checksum.
fn neighbours_are_wrong(subject: &Subject<'_, '_>) -> bool {
    let (fs, geometry) = (subject.fs, &subject.fs.geometry);
    let size = u64::from(geometry.inode_size.max(128));
    let block_size = u64::from(geometry.block_size);
    let Some(offset) = fs.inode_offset(subject.inode) else { return false };
    let Ok(block) = fs.read_block(BlockNo(offset / block_size)) else { return false };
    let before = width::low_u32(offset % block_size / size);
    let first = subject.inode.0.saturating_sub(before);
    let wrong = |(index, record): (usize, &[u8])| {
        let inode = InodeNo(first.saturating_add(width::len_u32(index)));
        let checked = checksum::inode(geometry.checksum_seed, inode, record);
        record.iter().any(|byte| *byte != 0) && checked.is_some_and(|checked| !checked.is_right())
    };
    let records = block.chunks_exact(width::index(size));
    let all = records.len();
    records.enumerate().filter(|record| wrong(*record)).count() > all / 2
}
