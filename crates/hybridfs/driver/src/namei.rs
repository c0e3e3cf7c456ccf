// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making, linking, removing and renaming.

use fsmend_blockcache::acl::Acl;
use fsmend_blockcache::names;
use fsmend_hybridfs_format::{Format, Inode, Map, ROOT};
use fsmend_vfs::{Errno, FileKind, InodeNo, NewFile, NewKind, Permissions, RenameFlags, Result, Time};

use crate::group::Facts;
use crate::tree::{Leaves, Tree};
use crate::volume::{Contents, Live, Volume, stamp};

/// Bytes of the target of a symbolic link.
const TARGET_MAX: usize = 4095;
/// Names that a file can have, and links of a directory.
pub const LINKS_MAX: u32 = 65_000;

/// A directory that may be changed: one that was removed and is held may not.
fn alive(live: &mut Live) -> Result<()> {
    live.directory()?;
    if live.disk.links == 0 { Err(Errno::NotFound) } else { Ok(()) }
}

/// What a name leads to.
#[derive(Clone, Copy)]
struct Found {
    key: u64,
    inode: InodeNo,
}

impl Volume {
    pub fn lookup(&mut self, parent: InodeNo, name: &[u8]) -> Result<InodeNo> {
        names::check_len(name)?;
        self.with(parent, |volume, live| {
            live.directory()?;
            match name {
                b"." => Ok(parent),
                b".." => Ok(InodeNo(live.parent())),
                _ => volume.find(live, name)?.map(|entry| InodeNo(entry.inode)).ok_or(Errno::NotFound),
            }
        })
    }

    fn found(&mut self, parent: InodeNo, name: &[u8]) -> Result<Option<Found>> {
        self.with(parent, |volume, live| {
            alive(live)?;
            let entry = volume.find(live, name)?;
            Ok(entry.map(|entry| Found { key: entry.key, inode: InodeNo(entry.inode) }))
        })
    }

    fn facts(&mut self, number: InodeNo) -> Result<(FileKind, u32, u32)> {
        self.with(number, |_, live| {
            Ok((live.kind().ok_or(Errno::Corrupt)?, live.disk.generation, live.disk.links))
        })
    }

    pub fn make_file(
        &mut self,
        parent: InodeNo,
        name: &[u8],
        file: &NewFile<'_>,
        now: Time,
    ) -> Result<InodeNo> {
        names::check(name)?;
        if let NewKind::Symlink(target) = file.kind {
            names::check_target(target)?;
            if target.len() > TARGET_MAX {
                return Err(Errno::NameTooLong);
            }
        }
        let kind = file.kind.kind();
        let is_directory = kind == FileKind::Directory;
        if self.found(parent, name)?.is_some() || names::is_dots(name) {
            return Err(Errno::Exists);
        }
        let (parent_of, links, parent_generation, group) = self.with(parent, |_, live| {
            Ok((live.permissions(), live.disk.links, live.disk.generation, live.disk.group))
        })?;
        if is_directory && links >= LINKS_MAX {
            return Err(Errno::TooManyLinks);
        }
        let (mode, default_list) = self.inherit_list(parent, kind, file.of.mode)?;
        let of = names::inherited(parent_of, Permissions { mode, ..file.of }, kind);
        let number = self.new_number(parent.0)?;
        self.generation = self.generation.wrapping_add(1);
        let mut live = Live {
            disk: Inode {
                mode: kind.mode_bits() | of.mode & 0o7777,
                format: Format::Nothing,
                uid: of.uid,
                gid: of.gid,
                links: if is_directory { 2 } else { 1 },
                group,
                ..Inode::empty_directory(u64::from(number), self.generation, stamp(now))
            },
            contents: Contents::Nothing,
            attributes: Vec::new(),
            attributes_at: None,
            attributes_dirty: false,
            dirty: false,
            ssn: 0,
        };
        let small = |bytes: &[u8]| Contents::Small { bytes: Some(bytes.to_vec()), at: None, dirty: true };
        match file.kind {
            NewKind::Regular => {
                live.contents = small(b"");
                self.groups.note_file(group);
            }
            NewKind::Symlink(target) => {
                live.contents = small(target);
                live.disk.size = target.len() as u64;
                self.waiting += target.len() as u64;
            }
            NewKind::Directory => {
                live.set_parent(parent.0, parent_generation);
                live.disk.group = self.directory_group(parent, group);
                live.contents = Contents::Directory(Tree::new(
                    Leaves::Directories,
                    u64::from(number),
                    live.disk.generation,
                    Map::default(),
                ));
                self.space.totals.directories = self.space.totals.directories.saturating_add(1);
            }
            NewKind::CharDevice(device) | NewKind::BlockDevice(device) => {
                live.disk.body[..4].copy_from_slice(&device.major.to_le_bytes());
                live.disk.body[4..8].copy_from_slice(&device.minor.to_le_bytes());
            }
            NewKind::Fifo | NewKind::Socket => {}
        }
        if let Some(list) = default_list {
            self.set_inherited(&mut live, list);
        }
        self.mark(&mut live)?;
        let generation = live.disk.generation;
        self.inodes.insert(number, live);
        let added = self.with(parent, |volume, live| {
            volume.add_entry(live, name, (number, generation, kind))?;
            live.disk.links = live.disk.links.saturating_add(u32::from(is_directory));
            live.touch(now);
            volume.mark(live)
        });
        if let Err(error) = added {
            self.remove_inode(number)?;
            return Err(error);
        }
        Ok(InodeNo(number))
    }

    /// Where the files of a new directory should go.
    fn directory_group(&mut self, parent: InodeNo, group: u32) -> u32 {
        let sb = &self.io.sb;
        let (blocks, size) = (u64::from(sb.ag_blocks), u64::from(sb.block_size));
        let all = sb.data_blocks();
        let free = |ag: u64| self.space.data.free_in(ag * blocks..((ag + 1) * blocks).min(all)) * size;
        let free: Vec<u64> = (0..sb.ags()).map(free).collect();
        let totals = &self.space.totals;
        let facts =
            Facts { free: &free, used: totals.data.saturating_mul(size), directories: totals.directories };
        // Any number that differs from one directory to the next.
        let luck = self.generation.wrapping_mul(2_654_435_761) >> 8;
        self.groups.choose((parent.0 != ROOT).then_some(group), luck, &facts)
    }

    pub fn link_file(&mut self, number: InodeNo, parent: InodeNo, name: &[u8], now: Time) -> Result<()> {
        names::check(name)?;
        let (kind, generation, links) = self.facts(number)?;
        if kind == FileKind::Directory {
            return Err(Errno::NotPermitted);
        }
        if self.found(parent, name)?.is_some() || names::is_dots(name) {
            return Err(Errno::Exists);
        }
        if links >= LINKS_MAX {
            return Err(Errno::TooManyLinks);
        }
        self.with(parent, |volume, live| {
            volume.add_entry(live, name, (number.0, generation, kind))?;
            live.touch(now);
            volume.mark(live)
        })?;
        if links == 0 {
            self.set_orphan(number.0, false)?;
        }
        self.with(number, |volume, live| {
            live.disk.links = live.disk.links.saturating_add(1);
            live.disk.ctime = stamp(now);
            volume.mark(live)
        })
    }

    fn check_removable(&mut self, number: InodeNo, as_directory: bool) -> Result<()> {
        self.with(number, |_, live| {
            names::check_removable(live.is_directory(), as_directory, || Ok(live.disk.size == 0))
        })
    }

    pub fn unlink_name(&mut self, parent: InodeNo, name: &[u8], as_directory: bool, now: Time) -> Result<()> {
        names::check_len(name)?;
        self.with(parent, |_, live| alive(live))?;
        names::check_removal(name, as_directory)?;
        let found = self.found(parent, name)?.ok_or(Errno::NotFound)?;
        self.check_removable(found.inode, as_directory)?;
        self.with(parent, |volume, live| {
            volume.remove_entry(live, found.key)?;
            live.disk.links = live.disk.links.saturating_sub(u32::from(as_directory));
            live.touch(now);
            volume.mark(live)
        })?;
        self.lose_name(found.inode, now)
    }

    /// An inode has lost a name.
    fn lose_name(&mut self, number: InodeNo, now: Time) -> Result<()> {
        let links = self.with(number, |volume, live| {
            live.disk.links = if live.is_directory() { 0 } else { live.disk.links.saturating_sub(1) };
            live.disk.ctime = stamp(now);
            volume.mark(live)?;
            Ok(live.disk.links)
        })?;
        if links == 0 { self.drop_or_keep(number.0) } else { Ok(()) }
    }

    pub fn rename_name(
        &mut self,
        (old_parent, old_name): (InodeNo, &[u8]),
        (new_parent, new_name): (InodeNo, &[u8]),
        how: RenameFlags,
        now: Time,
    ) -> Result<()> {
        names::check_rename(old_name, new_name)?;
        self.with(new_parent, |_, live| alive(live))?;
        let old = self.found(old_parent, old_name)?.ok_or(Errno::NotFound)?;
        let there = self.found(new_parent, new_name)?;
        names::check_new_name(there.is_some(), how)?;
        if there.is_some_and(|there| there.inode == old.inode) {
            return Ok(());
        }
        let (kind, generation, _) = self.facts(old.inode)?;
        let is_directory = kind == FileKind::Directory;
        if is_directory && old_parent != new_parent {
            self.check_not_below(old.inode, new_parent)?;
        }
        if let (RenameFlags::Exchange, Some(there)) = (how, there) {
            return self.exchange((old_parent, old), (new_parent, there), now);
        }
        if let Some(there) = there {
            self.check_removable(there.inode, is_directory)?;
        } else if is_directory && old_parent != new_parent {
            let links = self.with(new_parent, |_, live| Ok(live.disk.links))?;
            if links >= LINKS_MAX {
                return Err(Errno::TooManyLinks);
            }
        }
        if how == RenameFlags::Whiteout {
            // Its number has to be there before anything changes.
            let (near, blocks) = (self.io.sb.inodes, self.space.totals.inodes + 3);
            if blocks >= near {
                return Err(Errno::NoSpace);
            }
        }
        let leads_to = (old.inode.0, generation, kind);
        self.with(new_parent, |volume, live| {
            match there {
                Some(there) => volume.redirect(live, there.key, leads_to)?,
                None => volume.add_entry(live, new_name, leads_to)?,
            }
            live.disk.links = live.disk.links.saturating_add(u32::from(is_directory && there.is_none()));
            live.touch(now);
            volume.mark(live)
        })?;
        self.with(old_parent, |volume, live| {
            volume.remove_entry(live, old.key)?;
            live.disk.links = live.disk.links.saturating_sub(u32::from(is_directory));
            live.touch(now);
            volume.mark(live)
        })?;
        self.moved(old.inode, new_parent, now)?;
        if let Some(there) = there {
            self.lose_name(there.inode, now)?;
        }
        if how == RenameFlags::Whiteout {
            let whiteout = names::whiteout(self.caller.uid, self.caller.gid);
            self.make_file(old_parent, old_name, &whiteout, now)?;
        }
        Ok(())
    }

    /// The inode has another name now, perhaps in another directory.
    fn moved(&mut self, number: InodeNo, parent: InodeNo, now: Time) -> Result<()> {
        let (_, parent_generation, _) = self.facts(parent)?;
        self.with(number, |volume, live| {
            if live.is_directory() {
                live.set_parent(parent.0, parent_generation);
            }
            live.disk.ctime = stamp(now);
            volume.mark(live)
        })
    }

    fn exchange(
        &mut self,
        (one_parent, one): (InodeNo, Found),
        (other_parent, other): (InodeNo, Found),
        now: Time,
    ) -> Result<()> {
        let (one_kind, one_generation, _) = self.facts(one.inode)?;
        let (other_kind, other_generation, _) = self.facts(other.inode)?;
        let is_directory = |kind| u32::from(kind == FileKind::Directory && one_parent != other_parent);
        if is_directory(other_kind) != 0 {
            self.check_not_below(other.inode, one_parent)?;
        }
        let sides = [
            (one_parent, one.key, (other.inode.0, other_generation, other_kind), one_kind),
            (other_parent, other.key, (one.inode.0, one_generation, one_kind), other_kind),
        ];
        for (parent, key, leads_to, gone) in sides {
            self.with(parent, |volume, live| {
                volume.redirect(live, key, leads_to)?;
                let links = live.disk.links.saturating_add(is_directory(leads_to.2));
                live.disk.links = links.saturating_sub(is_directory(gone));
                live.touch(now);
                volume.mark(live)
            })?;
        }
        self.moved(one.inode, other_parent, now)?;
        self.moved(other.inode, one_parent, now)
    }

    /// A directory must not become its own ancestor.
    fn check_not_below(&mut self, moved: InodeNo, at: InodeNo) -> Result<()> {
        let below = names::check_not_below(moved, at, self.io.sb.inodes, |at| {
            self.with(at, |_, live| {
                live.directory()?;
                Ok((at.0 != ROOT).then(|| InodeNo(live.parent())))
            })
        });
        below.unwrap_or_else(|| Err(self.io.corrupt(|| format!("directory {at} is contained in itself"))))
    }

    /// The default list of a directory makes the mode of what is new in it.
    fn inherit_list(&mut self, parent: InodeNo, kind: FileKind, mode: u16) -> Result<(u16, Option<Acl>)> {
        if kind == FileKind::Symlink {
            return Ok((mode, None));
        }
        let default = self.with(parent, |_, live| Ok(crate::attributes::default_list(live)))?;
        match default {
            Some(list) => Ok((mode & !0o777 | list.inherit(mode).mode(), Some(list))),
            None => Ok((mode & !self.caller.umask, None)),
        }
    }
}
