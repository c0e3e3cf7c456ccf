// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding the journal in the file system: its inode, or the copy of its block list in the superblock.

use fsmend_base::{InodeNo, width};
use fsmend_device::ReadError;
use fsmend_engine::Findings;
use fsmend_engine::problem::Problem;
use fsmend_ext_format::inode::{InodeFlags, RawInode, mode, special};
use fsmend_ext_format::journal::{JOURNAL_BLOCKS_MIN, RawJournalSuperblock};
use fsmend_ext_format::superblock::RawSuperblock;
use zerocopy::little_endian::{U16, U32};

use super::log::Log;
use super::map;
use super::problems::BACKUP_USED;
use super::replay_overlay::{EditError, ReplayOverlay};
use crate::Fs;

/// `s_jnl_backup_type` when `s_jnl_blocks` holds the journal's block list.
const BACKUP_OF_BLOCKS: u8 = 1;

/// Why there is no journal to be had.
pub(crate) enum NoJournal {
    /// What is there cannot be one.
    Unusable(&'static str),
    /// It cannot be read, so it is unknown.
    Unreadable(ReadError),
}

/// Finds the journal that lies in the file system itself, as the overlay stands. Where only the copy of its block list
/// is good, the inode is mended on the overlay from it. What is copied is always the list of the journal's own inode: where the superblock
/// names another one, the number is what is wrong.
pub(crate) fn find<'d>(
    fs: &Fs<'d>,
    overlay: &mut ReplayOverlay<'d>,
    findings: &mut Findings,
) -> Result<Log<'d>, NoJournal> {
    let superblock = overlay.superblock();
    let inode = InodeNo(superblock.s_journal_inum.get());
    if inode.0 == 0 {
        return Err(NoJournal::Unusable("the superblock names no inode"));
    }
    let stored = stored_inode(overlay, inode);
    let first = stored.and_then(|raw| usable(fs, overlay, &raw));
    let why = match &first {
        Err(NoJournal::Unusable(why)) => *why,
        Ok(log) if inode.0 != special::JOURNAL && is_another_file(log) => "it is another file",
        _ => return first,
    };
    if superblock.s_jnl_backup_type != BACKUP_OF_BLOCKS {
        return first;
    }
    let backup = backup_inode(&superblock);
    match usable(fs, overlay, &backup) {
        Ok(log) => {
            findings.raise(Problem::new(&BACKUP_USED).inode(inode).detail("why", why));
            mend(overlay, &backup, &log);
            Ok(log)
        }
        Err(NoJournal::Unusable(_)) => first,
        Err(unreadable) => Err(unreadable),
    }
}

/// Whether what the first block of the log holds can be read, and is no part of a journal.
fn is_another_file(log: &Log<'_>) -> bool {
    log.read(log.head).is_ok_and(|block| {
        RawJournalSuperblock::of(&block).is_none_or(|raw| !raw.s_header.is_journal_block())
    })
}

/// Writes into the record of the journal what its copy knows, and into the superblock which inode that is.
fn mend(overlay: &mut ReplayOverlay<'_>, backup: &RawInode, log: &Log<'_>) {
    let inode = InodeNo(special::JOURNAL);
    // A superblock that cannot be read was settled from a backup, and then there is nothing to keep in step.
    let _ = overlay.edit_superblock(|raw| raw.s_journal_inum = inode.0.into());
    let Ok(mut record) = overlay.inode(inode) else { return };
    let mut raw = RawInode::from_record(&record);
    let sectors = log.blocks_in_use().saturating_mul(u64::from(overlay.geometry.block_size / 512));
    raw.i_mode = backup.i_mode;
    raw.i_links_count = backup.i_links_count;
    raw.i_flags = backup.i_flags;
    raw.i_block = backup.i_block;
    (raw.i_size_lo, raw.i_size_high) = (backup.i_size_lo, backup.i_size_high);
    (raw.i_blocks_lo, raw.i_blocks_high) =
        (U32::new(width::low_u32(sectors)), U16::new(width::low_u16(sectors >> 32)));
    (raw.i_file_acl_lo, raw.i_file_acl_high) = (U32::new(0), U16::new(0));
    raw.i_dtime = U32::new(0);
    raw.store(&mut record);
    // Where the inode has no place, the journal has been found nevertheless.
    let _ = overlay.put_inode(inode, &mut record);
}

fn stored_inode(overlay: &ReplayOverlay<'_>, inode: InodeNo) -> Result<RawInode, NoJournal> {
    match overlay.inode(inode) {
        Ok(record) => Ok(RawInode::from_record(&record)),
        Err(EditError::Read(error)) => Err(NoJournal::Unreadable(error)),
        Err(EditError::Impossible) => Err(NoJournal::Unusable("there is no such inode")),
    }
}

/// The inode that the superblock keeps a copy of: block list and size.
fn backup_inode(superblock: &RawSuperblock) -> RawInode {
    let words = &superblock.s_jnl_blocks;
    let mut raw = RawInode::from_record(&[]);
    for (place, word) in raw.i_block.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.get().to_le_bytes());
    }
    raw.i_size_high = words[15];
    raw.i_size_lo = words[16];
    raw.i_links_count = U16::new(1);
    raw.i_mode = U16::new(mode::REGULAR | 0o600);
    if raw.i_block.starts_with(&[0x0A, 0xF3]) {
        raw.set_flags(InodeFlags::EXTENTS);
    }
    raw
}

fn usable<'d>(fs: &Fs<'d>, overlay: &ReplayOverlay<'d>, raw: &RawInode) -> Result<Log<'d>, NoJournal> {
    if raw.i_links_count.get() == 0 {
        return Err(NoJournal::Unusable("the inode is not in use"));
    }
    if raw.file_type() != mode::REGULAR {
        return Err(NoJournal::Unusable("it is not a regular file"));
    }
    if raw.has_flag(InodeFlags::ENCRYPT) {
        return Err(NoJournal::Unusable("it is encrypted"));
    }
    let len = raw.size() / u64::from(fs.geometry.block_size);
    if len < JOURNAL_BLOCKS_MIN {
        return Err(NoJournal::Unusable("it is too short"));
    }
    let map = map::read(overlay, raw);
    if let Some(error) = map.unreadable {
        return Err(NoJournal::Unreadable(error));
    }
    if map.solid_blocks().saturating_mul(u64::from(fs.geometry.block_size)) < raw.size() {
        return Err(NoJournal::Unusable("its block list has holes, or blocks outside the file system"));
    }
    Ok(Log::internal(fs.device, fs.geometry.block_size, map, len))
}
