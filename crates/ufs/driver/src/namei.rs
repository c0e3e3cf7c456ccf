// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: making files, giving them more names, taking names away, moving them. The order of the steps is that of the crate's head.

use fsmend_blockcache::acl::Kind;
use fsmend_blockcache::names;
use fsmend_ufs_format::geometry::ROOT;
use fsmend_ufs_format::inode::{Inode as Record, InodeFlags, LINKS_MAX, Stamp};
use fsmend_vfs::{Errno, FileKind, InodeNo, NewFile, NewKind, Permissions, RenameFlags, Result, Time};

use crate::directory::Found;
use crate::inode::Inode;
use crate::volume::Volume;

/// Targets of symbolic links are shorter than this, as paths are for programs.
const TARGET_MAX: u64 = 4096;

fn change_links(inode: &mut Inode, by: i16) {
    inode.raw.set_links(inode.raw.links().saturating_add_signed(by));
}

impl Volume {
    /// A directory that may be changed.
    fn directory_to_change(&mut self, number: InodeNo) -> Result<Inode> {
        let directory = self.load_directory(number)?;
        self.check_changeable(&directory)?;
        // Removed, but held: nothing can be in it any more.
        if directory.raw.links() == 0 { Err(Errno::NotFound) } else { Ok(directory) }
    }

    /// Looks up a name.
    pub fn find(&mut self, parent: InodeNo, name: &[u8]) -> Result<InodeNo> {
        names::check_len(name)?;
        let directory = self.load_directory(parent)?;
        self.find_entry(&directory, name)?.map(|found| found.inode).ok_or(Errno::NotFound)
    }

    fn find_to_change(&mut self, directory: &Inode, name: &[u8]) -> Result<(Found, Inode)> {
        let found = self.find_entry(directory, name)?.ok_or(Errno::NotFound)?;
        Ok((found, self.load_named(found.inode)?))
    }

    /// An inode that a name leads to: one that is not in use is damage.
    fn load_named(&mut self, number: InodeNo) -> Result<Inode> {
        match self.load(number) {
            Err(Errno::NotFound) => {
                Err(self.cache.corrupt(|| format!("a name leads to inode {number}, which is not in use")))
            }
            other => other,
        }
    }

    /// How deep a directory in `parent` lies; 0 where the file system does not keep it.
    fn depth_below(&self, parent: &Inode) -> u32 {
        let depth = parent.raw.depth();
        if depth == 0 && parent.number.0 != ROOT { 0 } else { depth.saturating_add(1) }
    }

    /// Makes a file, as part of an operation.
    pub fn make_file(
        &mut self,
        parent: InodeNo,
        name: &[u8],
        file: &NewFile<'_>,
        now: Time,
    ) -> Result<Inode> {
        names::check(name)?;
        let mut directory = self.directory_to_change(parent)?;
        if names::is_dots(name) || self.find_entry(&directory, name)?.is_some() {
            return Err(Errno::Exists);
        }
        let kind = file.kind.kind();
        let is_directory = kind == FileKind::Directory;
        if is_directory && directory.raw.links() >= LINKS_MAX {
            return Err(Errno::TooManyLinks);
        }
        let group = self.group_for(&directory, is_directory);
        let number = self.take_inode(group, is_directory)?;
        let default = match kind {
            FileKind::Symlink => None,
            _ => self.list(&directory, Kind::Default)?,
        };
        let mode = match &default {
            Some(list) => file.of.mode & !0o777 | list.inherit(file.of.mode).mode(),
            None if kind == FileKind::Symlink => file.of.mode,
            None => file.of.mode & !self.caller.umask,
        };
        let of = Permissions { mode, ..file.of };
        let mut inode =
            self.new_inode(number, kind, names::inherited(directory.permissions(), of, kind), now)?;
        match file.kind {
            NewKind::Directory => {
                inode.raw.set_links(2);
                inode.raw.set_depth(self.depth_below(&directory));
                // Its `..` counts as soon as it is there.
                change_links(&mut directory, 1);
                self.save(&mut directory)?;
                self.start_directory(&mut inode, parent)?;
            }
            NewKind::Symlink(target) => self.write_target(&mut inode, target)?,
            NewKind::CharDevice(device) | NewKind::BlockDevice(device) => {
                self.set_device(&mut inode, device)?;
                self.save(&mut inode)?;
            }
            NewKind::Regular | NewKind::Fifo | NewKind::Socket => self.save(&mut inode)?,
        }
        if let Some(default) = default {
            self.inherit_lists(&mut inode, &default)?;
        }
        directory.touch(now);
        self.add_entry(&mut directory, name, (number, kind))?;
        Ok(inode)
    }

    /// Whether the target of a symbolic link stands in the inode itself.
    pub fn is_short_link(&self, inode: &Inode) -> bool {
        inode.raw.size() < u64::from(self.geometry.version.short_link_max())
    }

    fn write_target(&mut self, inode: &mut Inode, target: &[u8]) -> Result<()> {
        names::check_target(target)?;
        if target.len() as u64 >= self.geometry.block_size.min(TARGET_MAX) {
            return Err(Errno::NameTooLong);
        }
        if target.len() < self.geometry.version.short_link_max() as usize {
            inode.raw.set_size(target.len() as u64);
            inode.raw.set_short_link(target);
            return self.save(inode);
        }
        self.write_contents(inode, 0, target)
    }

    /// Where a symbolic link leads to.
    pub fn target_of(&mut self, inode: &Inode) -> Result<Vec<u8>> {
        if inode.kind() != Some(FileKind::Symlink) {
            return Err(Errno::Invalid);
        }
        let len = usize::try_from(inode.raw.size()).unwrap_or(usize::MAX);
        if len as u64 > self.geometry.block_size {
            return Err(self.cache.corrupt(|| format!("the link {} is too long", inode.number)));
        }
        if self.is_short_link(inode) {
            return Ok(inode.raw.short_link().get(..len).unwrap_or_default().to_vec());
        }
        let mut target = vec![0; len];
        self.read_file(inode, 0, &mut target)?;
        Ok(target)
    }

    fn check_fixed(&self, inode: &Inode) -> Result<()> {
        if inode.raw.flags().contains(InodeFlags::NO_UNLINK) {
            return Err(Errno::NotPermitted);
        }
        self.check_changeable(inode)
    }

    /// One more name for a file, as part of an operation.
    pub fn link_file(&mut self, number: InodeNo, parent: InodeNo, name: &[u8], now: Time) -> Result<Inode> {
        names::check(name)?;
        let mut inode = self.load(number)?;
        if inode.is_directory() {
            return Err(Errno::NotPermitted);
        }
        self.check_changeable(&inode)?;
        let mut directory = self.directory_to_change(parent)?;
        if names::is_dots(name) || self.find_entry(&directory, name)?.is_some() {
            return Err(Errno::Exists);
        }
        if inode.raw.links() >= LINKS_MAX {
            return Err(Errno::TooManyLinks);
        }
        change_links(&mut inode, 1);
        inode.set_time(Stamp::Change, now);
        self.save(&mut inode)?;
        directory.touch(now);
        let kind = inode.kind().ok_or(Errno::Corrupt)?;
        self.add_entry(&mut directory, name, (number, kind))?;
        Ok(inode)
    }

    /// Takes a name away, as part of an operation.
    pub fn unlink_name(&mut self, parent: InodeNo, name: &[u8], of_directory: bool, now: Time) -> Result<()> {
        names::check_len(name)?;
        let mut directory = self.directory_to_change(parent)?;
        names::check_removal(name, of_directory)?;
        let (found, mut inode) = self.find_to_change(&directory, name)?;
        self.check_removable(&inode, of_directory)?;
        self.remove_entry(&directory, found)?;
        directory.touch(now);
        self.save(&mut directory)?;
        self.cache.then();
        if !inode.is_directory() {
            return self.lose_name(&mut directory, &mut inode, now);
        }
        // As long as the inode is there, its `..` counts as a link of the parent.
        self.lose_name(&mut directory, &mut inode, now)?;
        self.cache.then();
        self.save(&mut directory)
    }

    fn check_removable(&mut self, inode: &Inode, of_directory: bool) -> Result<()> {
        self.check_fixed(inode)?;
        names::check_removable(inode.is_directory(), of_directory, || self.is_empty_directory(inode))
    }

    /// A file has lost a name in `directory`, which the caller saves. With the last one it goes, unless it is held.
    fn lose_name(&mut self, directory: &mut Inode, inode: &mut Inode, now: Time) -> Result<()> {
        inode.set_time(Stamp::Change, now);
        if inode.is_directory() {
            change_links(directory, -1);
            inode.raw.set_links(0);
        } else {
            change_links(inode, -1);
        }
        if inode.raw.links() == 0 && inode.is_directory() && self.is_held(inode.number) {
            // Its `..` would still count as a link of the parent.
            return self.cut(inode, 0);
        }
        if inode.raw.links() > 0 || self.is_held(inode.number) {
            return self.save(inode);
        }
        self.end_inode(inode)
    }

    /// The number of an inode and all that it has are free again.
    fn end_inode(&mut self, inode: &mut Inode) -> Result<()> {
        let is_directory = inode.is_directory();
        let has_map = match inode.kind() {
            Some(FileKind::Regular | FileKind::Directory) => true,
            Some(FileKind::Symlink) => !self.is_short_link(inode),
            _ => false,
        };
        let mut runs = if has_map { self.cut_pointers(inode, 0)? } else { Vec::new() };
        runs.extend(self.attribute_runs(inode));
        let generation = inode.raw.generation();
        let (order, version) = (self.geometry.order, self.geometry.version);
        inode.raw = Record::new(vec![0; version.inode_size()], order, version);
        inode.raw.set_generation(generation);
        self.save(inode)?;
        self.cache.then();
        self.hints.forget(inode.number.0);
        self.give_back_all(runs)?;
        self.give_back_inode(inode.number, is_directory)
    }

    /// Removes an inode that is not held any more, if it has no name.
    pub fn remove_if_nameless(&mut self, number: InodeNo, now: Time) -> Result<()> {
        let inode = self.load_any(number)?;
        if inode.raw.mode() == 0 || inode.raw.links() != 0 || self.check_writable().is_err() {
            return Ok(());
        }
        self.operation(now, |volume| {
            let mut inode = volume.load_any(number)?;
            volume.end_inode(&mut inode)
        })
    }

    /// Moves a name, as part of an operation.
    pub fn rename_name(
        &mut self,
        from: (InodeNo, &[u8]),
        to: (InodeNo, &[u8]),
        how: RenameFlags,
        now: Time,
    ) -> Result<()> {
        names::check_rename(from.1, to.1)?;
        let old_parent = self.directory_to_change(from.0)?;
        let new_parent = self.directory_to_change(to.0)?;
        let (old, inode) = self.find_to_change(&old_parent, from.1)?;
        let there = self.find_entry(&new_parent, to.1)?;
        names::check_new_name(there.is_some(), how)?;
        self.check_fixed(&inode)?;
        if there.is_some_and(|there| there.inode == old.inode) {
            // Two names of the same file stay two names.
            return Ok(());
        }
        if inode.is_directory() && from.0 != to.0 {
            self.check_not_below(inode.number, to.0)?;
        }
        if how == RenameFlags::Exchange {
            return self.exchange((old_parent, from.1), inode, (new_parent, to.1), now);
        }
        self.replace((old_parent, from.1), inode, (new_parent, to.1, there), now)?;
        if how == RenameFlags::Whiteout {
            let whiteout = names::whiteout(self.caller.uid, self.caller.gid);
            self.cache.then();
            self.make_file(from.0, from.1, &whiteout, now)?;
        }
        Ok(())
    }

    /// A directory must not become its own ancestor.
    fn check_not_below(&mut self, moved: InodeNo, at: InodeNo) -> Result<()> {
        let below = names::check_not_below(moved, at, self.geometry.inode_count().into(), |at| {
            let directory = self.load_directory(at)?;
            Ok(self.find_entry(&directory, b"..")?.map(|found| found.inode))
        });
        below.unwrap_or_else(|| Err(self.cache.corrupt(|| format!("directory {at} is contained in itself"))))
    }

    /// Link counts go up before a name appears, and down after one has gone.
    fn replace(
        &mut self,
        (mut old_parent, old_name): (Inode, &[u8]),
        mut inode: Inode,
        (mut new_parent, new_name, there): (Inode, &[u8], Option<Found>),
        now: Time,
    ) -> Result<()> {
        let is_same = old_parent.number == new_parent.number;
        let is_moved_directory = inode.is_directory() && !is_same;
        let kind = inode.kind().ok_or(Errno::Corrupt)?;
        let mut victim = match there {
            Some(there) => {
                let victim = self.load_named(there.inode)?;
                self.check_removable(&victim, inode.is_directory())?;
                Some(victim)
            }
            None => None,
        };
        // One that is replaced makes room.
        let gains = is_moved_directory && there.is_none();
        if gains && new_parent.raw.links() >= LINKS_MAX {
            return Err(Errno::TooManyLinks);
        }
        inode.set_time(Stamp::Change, now);
        change_links(&mut inode, 1);
        if is_moved_directory {
            change_links(&mut new_parent, 1);
            inode.raw.set_depth(self.depth_below(&new_parent));
        }
        self.save(&mut inode)?;
        new_parent.touch(now);
        self.save(&mut new_parent)?;
        match there {
            Some(there) => self.redirect_entry(&new_parent, there, inode.number, kind)?,
            None => self.add_entry(&mut new_parent, new_name, (inode.number, kind))?,
        }
        if is_same {
            old_parent = new_parent.clone();
        }
        if is_moved_directory {
            self.set_parent(&inode, new_parent.number)?;
        }
        let old = self.find_entry(&old_parent, old_name)?.ok_or(Errno::Corrupt)?;
        self.remove_entry(&old_parent, old)?;
        self.cache.then();
        change_links(&mut inode, -1);
        self.save(&mut inode)?;
        old_parent.touch(now);
        if is_moved_directory {
            change_links(&mut old_parent, -1);
        }
        if let Some(victim) = &mut victim {
            let holder = if is_same { &mut old_parent } else { &mut new_parent };
            self.lose_name(holder, victim, now)?;
            self.cache.then();
        }
        if !is_same {
            self.save(&mut new_parent)?;
        }
        self.save(&mut old_parent)
    }

    /// Lets the `..` of a directory lead to its new parent.
    fn set_parent(&mut self, directory: &Inode, parent: InodeNo) -> Result<()> {
        match self.find_entry(directory, b"..")? {
            Some(found) => self.redirect_entry(directory, found, parent, FileKind::Directory),
            None => Err(self.cache.corrupt(|| format!("directory {} has no parent", directory.number))),
        }
    }

    /// Two names change their files.
    fn exchange(
        &mut self,
        (mut one_parent, one_name): (Inode, &[u8]),
        mut inode: Inode,
        (mut other_parent, other_name): (Inode, &[u8]),
        now: Time,
    ) -> Result<()> {
        let (_, mut other_inode) = self.find_to_change(&other_parent, other_name)?;
        self.check_fixed(&other_inode)?;
        let is_same = one_parent.number == other_parent.number;
        if other_inode.is_directory() && !is_same {
            self.check_not_below(other_inode.number, one_parent.number)?;
        }
        let (kind, other_kind) =
            (inode.kind().ok_or(Errno::Corrupt)?, other_inode.kind().ok_or(Errno::Corrupt)?);
        let gains =
            |one: &Inode, other: &Inode| i16::from(one.is_directory()) - i16::from(other.is_directory());
        let gain = if is_same { 0 } else { gains(&inode, &other_inode) };
        for moved in [&mut inode, &mut other_inode] {
            moved.set_time(Stamp::Change, now);
            change_links(moved, 1);
        }
        if inode.is_directory() && !is_same {
            inode.raw.set_depth(self.depth_below(&other_parent));
        }
        if other_inode.is_directory() && !is_same {
            other_inode.raw.set_depth(self.depth_below(&one_parent));
        }
        one_parent.touch(now);
        other_parent.touch(now);
        // The parent of the one gains `-gain` directories, that of the other `gain`.
        change_links(&mut one_parent, (-gain).max(0));
        change_links(&mut other_parent, gain.max(0));
        for saved in [&mut inode, &mut other_inode, &mut one_parent] {
            self.save(saved)?;
        }
        if !is_same {
            self.save(&mut other_parent)?;
        }
        let one = self.find_entry(&one_parent, one_name)?.ok_or(Errno::Corrupt)?;
        self.redirect_entry(&one_parent, one, other_inode.number, other_kind)?;
        let other = self.find_entry(&other_parent, other_name)?.ok_or(Errno::Corrupt)?;
        self.redirect_entry(&other_parent, other, inode.number, kind)?;
        if !is_same {
            if inode.is_directory() {
                self.set_parent(&inode, other_parent.number)?;
            }
            if other_inode.is_directory() {
                self.set_parent(&other_inode, one_parent.number)?;
            }
        }
        self.cache.then();
        change_links(&mut inode, -1);
        change_links(&mut other_inode, -1);
        if gain != 0 {
            change_links(&mut one_parent, (-gain).min(0));
            change_links(&mut other_parent, gain.min(0));
            self.save(&mut one_parent)?;
            self.save(&mut other_parent)?;
        }
        self.save(&mut inode)?;
        self.save(&mut other_inode)
    }
}
