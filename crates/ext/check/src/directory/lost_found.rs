// SPDX-License-Identifier: MIT OR Apache-2.0
//! `lost+found`: whether it is there and can take what a repair will put into it.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::{InodeTable, Kind};
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::directory::{Entries, entries_len};
use fsmend_ext_format::inode::{InodeFlags, RawInode, special};

use super::entries::entries_of;
use super::params::DirectoryParams;
use super::{Directory, problems as rows};
use crate::Fs;

/// What it is called, in the root.
pub(super) const NAME: &[u8] = b"lost+found";
/// Room for a name like `#1234567890`.
const RECONNECT_NAME_LEN: usize = 11;

/// What the check found under the name `lost+found`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LostFound {
    /// A directory that can take what a repair puts into it.
    #[default]
    Fit,
    /// Nothing.
    Missing,
    /// This, which has to give up the name.
    Unfit(InodeNo),
}

/// Checks `lost+found`, into which a repair will put `pending_reconnects` files and directories. Called last of the tree
/// checks. Where there is none, and no inode or block is free for one, that is only a note: nothing can be done about it.
pub fn check_lost_found(
    fs: &Fs<'_>,
    inodes: &InodeTable,
    claims: &Claims,
    pending_reconnects: u64,
    findings: &mut Findings,
) -> LostFound {
    let Some(inode) = find(fs).filter(|inode| inodes.kind(*inode) != Kind::Unused) else {
        let can_be_made = has_free_inode(fs, inodes) && claims.claimed().count() < claims.claimed().len();
        let row = if can_be_made { &rows::LOST_FOUND_MISSING } else { &rows::LOST_FOUND_IMPOSSIBLE };
        findings.raise(Problem::new(row).inode(InodeNo(special::ROOT)));
        return LostFound::Missing;
    };
    let directory = Directory::open(fs, inode).filter(|_| inodes.kind(inode) == Kind::Directory);
    let unfit = match &directory {
        None => Some(&rows::LOST_FOUND_NOT_DIRECTORY),
        Some(directory) if is_encrypted(fs, directory) => Some(&rows::LOST_FOUND_ENCRYPTED),
        Some(directory) if directory.inline => Some(&rows::LOST_FOUND_INLINE),
        Some(_) => None,
    };
    if let Some(row) = unfit {
        replace(inodes, inode, row, findings);
        return LostFound::Unfit(inode);
    }
    if let Some(directory) = directory {
        check_room(fs, &directory, pending_reconnects, findings);
    }
    LostFound::Fit
}

/// Whether an ordinary inode is free, and its table known.
fn has_free_inode(fs: &Fs<'_>, inodes: &InodeTable) -> bool {
    let ordinary = (fs.geometry.first_inode..=fs.geometry.inodes_count).map(InodeNo);
    let mut free = ordinary.filter(|inode| inodes.kind(*inode) == Kind::Unused);
    free.any(|inode| fs.inode_offset(inode).is_some())
}

/// The inode that the name `lost+found` in the root leads to.
pub(crate) fn find(fs: &Fs<'_>) -> Option<InodeNo> {
    let root = Directory::open(fs, InodeNo(special::ROOT))?;
    let mut found = None;
    entries_of(fs, &root, &mut |inode, name| {
        if name == NAME && found.is_none() {
            found = Some(inode);
        }
    });
    found
}

fn is_encrypted(fs: &Fs<'_>, directory: &Directory) -> bool {
    fs.geometry.features.has_incompat(fsmend_ext_format::features::Incompat::ENCRYPT)
        && RawInode::from_record(&directory.record).has_flag(InodeFlags::ENCRYPT)
}

/// Something else takes the name: a new directory is made, and what had the name loses it.
fn replace(inodes: &InodeTable, inode: InodeNo, row: &'static fsmend_engine::Row, findings: &mut Findings) {
    findings.raise(Problem::new(row).inode(inode).stored(inode.0));
    findings.raise(Problem::new(&rows::LOST_FOUND_MISSING).inode(InodeNo(special::ROOT)));
    if inodes.kind(inode) == Kind::Directory {
        findings.raise(Problem::new(&rows::UNCONNECTED).inode(inode).stored(special::ROOT));
    }
    inodes.withdraw_link(inode);
}

fn check_room(fs: &Fs<'_>, directory: &Directory, pending: u64, findings: &mut Findings) {
    if pending == 0 {
        return;
    }
    let room = names_that_fit(fs, directory);
    if room < pending {
        let problem = Problem::new(&rows::LOST_FOUND_FULL).inode(directory.inode);
        findings.raise(problem.stored(room).observed(pending));
    }
}

fn names_that_fit(fs: &Fs<'_>, directory: &Directory) -> u64 {
    let params = DirectoryParams::of(fs, directory);
    let needed = params.layout.needed_len(RECONNECT_NAME_LEN, false);
    let mut room = 0u64;
    for run in &directory.runs {
        for within in 0..u64::from(run.count) {
            let Ok(bytes) = fs.read_block(BlockNo(run.physical.saturating_add(within))) else { continue };
            let end = entries_len(&bytes, fs.geometry.features);
            let first = run.logical == 0 && within == 0;
            for entry in Entries::new(&bytes[..end], params.layout, first).flatten() {
                let taken = match entry.header.inode {
                    0 => 0,
                    _ => params.layout.needed_len(entry.name.len(), entry.is_dot_name()),
                };
                room += (entry.header.rec_len.saturating_sub(taken) / needed) as u64;
            }
        }
    }
    room
}
