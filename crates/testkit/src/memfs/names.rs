// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and what they lead to: making, linking, removing, renaming.

use fsmend_base::InodeNo;
use fsmend_vfs::{Attributes, Errno, FileKind, FileSystem, NewFile, NewKind, RenameFlags, Result, Time};

use super::{Body, DIR_LINKS_COUNTED_MAX, MemFs, NAME_MAX};

/// A name in a directory.
type Place<'a> = (InodeNo, &'a [u8]);

impl MemFs {
    pub(super) fn find(&self, parent: InodeNo, name: &[u8]) -> Result<InodeNo> {
        let directory = self.directory(parent)?;
        match name {
            b"." => Ok(parent),
            b".." => Ok(directory.parent),
            _ if name.len() > NAME_MAX => Err(Errno::NameTooLong),
            _ => {
                let entry = directory.numbers.get(name).and_then(|number| directory.entries.get(number));
                entry.map(|(_, inode)| *inode).ok_or(Errno::NotFound)
            }
        }
    }

    /// An error unless `name` can be made in `parent`.
    fn check_new(&self, parent: InodeNo, name: &[u8]) -> Result<()> {
        if self.find(parent, name).map(|_| true).or_else(none_is_fine)? {
            return Err(Errno::Exists);
        }
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
            return Err(Errno::Invalid);
        }
        // A directory that has been removed is held, but nothing can be made in it.
        if self.node(parent)?.attributes.links == 0 { Err(Errno::NotFound) } else { Ok(()) }
    }

    pub(super) fn make_node(
        &mut self,
        parent: InodeNo,
        name: &[u8],
        file: &NewFile<'_>,
        now: Time,
    ) -> Result<Attributes> {
        self.check_new(parent, name)?;
        if let NewKind::Symlink(target) = file.kind {
            match target.len() {
                0 => return Err(Errno::NotFound),
                len if len > self.limits.target_max => return Err(Errno::NameTooLong),
                _ => {}
            }
        }
        let is_directory = file.kind.kind() == FileKind::Directory;
        if is_directory {
            self.check_subdirectory(parent)?;
        }
        let inode = self.free_number()?;
        let mut of = file.of;
        of.mode &= 0o7777;
        if file.kind.kind() != FileKind::Symlink {
            of.mode &= !self.umask;
        }
        let above = self.node(parent)?.attributes.of;
        if above.mode & 0o2000 != 0 {
            of.gid = above.gid;
            of.mode |= if is_directory { 0o2000 } else { 0 };
        }
        let node = self.new_node(&NewFile { kind: file.kind, of }, parent, now);
        if self.used + Self::blocks_of(&node) > self.limits.blocks {
            return Err(Errno::NoSpace);
        }
        self.insert(node);
        self.add_entry((parent, name), inode, now)?;
        if is_directory {
            self.count_subdirectory(parent, 1)?;
        }
        self.getattr(inode)
    }

    pub(super) fn link_node(
        &mut self,
        inode: InodeNo,
        parent: InodeNo,
        name: &[u8],
        now: Time,
    ) -> Result<()> {
        self.check_new(parent, name)?;
        let links_max = self.limits.file_links_max;
        let of = &mut self.node_mut(inode)?.attributes;
        if of.kind == FileKind::Directory {
            return Err(Errno::NotPermitted);
        }
        if of.links >= links_max {
            return Err(Errno::TooManyLinks);
        }
        of.links += 1;
        of.ctime = now;
        self.add_entry((parent, name), inode, now)
    }

    pub(super) fn unlink_node(&mut self, parent: InodeNo, name: &[u8], now: Time) -> Result<()> {
        let inode = self.find(parent, name)?;
        if self.node(inode)?.attributes.kind == FileKind::Directory {
            return Err(Errno::IsDirectory);
        }
        self.remove_entry((parent, name), now)?;
        self.drop_name(inode, now)
    }

    pub(super) fn rmdir_node(&mut self, parent: InodeNo, name: &[u8], now: Time) -> Result<()> {
        match name {
            b"." => return Err(Errno::Invalid),
            b".." => return Err(Errno::NotEmpty),
            _ => {}
        }
        let inode = self.find(parent, name)?;
        if !self.directory(inode)?.entries.is_empty() {
            return Err(Errno::NotEmpty);
        }
        self.remove_entry((parent, name), now)?;
        self.drop_directory(inode, parent, now)
    }

    pub(super) fn rename_node(
        &mut self,
        from: Place<'_>,
        to: Place<'_>,
        flags: RenameFlags,
        now: Time,
    ) -> Result<()> {
        if [from.1, to.1].iter().any(|name| matches!(*name, b"." | b"..")) {
            return Err(Errno::Invalid);
        }
        if flags == RenameFlags::Whiteout {
            return Err(Errno::NotSupported);
        }
        let moved = self.find(from.0, from.1)?;
        let met = match self.find(to.0, to.1) {
            Ok(met) => Some(met),
            Err(Errno::NotFound) => None,
            Err(error) => return Err(error),
        };
        match (met, flags) {
            (Some(_), RenameFlags::NoReplace) => return Err(Errno::Exists),
            (Some(met), RenameFlags::Exchange) => return self.exchange((from, moved), (to, met), now),
            (None, RenameFlags::Exchange) => return Err(Errno::NotFound),
            (Some(met), RenameFlags::Replace) if met == moved => return Ok(()),
            _ => {}
        }
        self.check_not_below(to.0, moved)?;
        let is_directory = self.node(moved)?.attributes.kind == FileKind::Directory;
        if let Some(met) = met {
            match &self.node(met)?.body {
                Body::Directory(_) if !is_directory => return Err(Errno::IsDirectory),
                Body::Directory(directory) if !directory.entries.is_empty() => return Err(Errno::NotEmpty),
                Body::Directory(_) => {}
                _ if is_directory => return Err(Errno::NotDirectory),
                _ => {}
            }
        } else {
            self.check_new(to.0, to.1)?;
        }
        if is_directory && from.0 != to.0 && met.is_none() {
            self.check_subdirectory(to.0)?;
        }
        if let Some(met) = met {
            self.remove_entry(to, now)?;
            if is_directory { self.drop_directory(met, to.0, now)? } else { self.drop_name(met, now)? }
        }
        self.remove_entry(from, now)?;
        self.add_entry(to, moved, now)?;
        self.move_parent(moved, from.0, to.0)?;
        self.node_mut(moved)?.attributes.ctime = now;
        Ok(())
    }

    fn exchange(&mut self, one: (Place<'_>, InodeNo), other: (Place<'_>, InodeNo), now: Time) -> Result<()> {
        let ((from, moved), (to, met)) = (one, other);
        self.check_not_below(to.0, moved)?;
        self.check_not_below(from.0, met)?;
        if moved == met {
            return Ok(());
        }
        let is_directory = |fs: &Self, inode| Ok(fs.node(inode)?.attributes.kind == FileKind::Directory);
        if from.0 != to.0 && is_directory(self, moved)? != is_directory(self, met)? {
            self.check_subdirectory(if is_directory(self, moved)? { to.0 } else { from.0 })?;
        }
        for ((parent, name), inode) in [(from, met), (to, moved)] {
            let directory = self.directory_mut(parent)?;
            let number = directory.numbers.get(name).copied().ok_or(Errno::NotFound)?;
            directory.entries.insert(number, (name.to_vec(), inode));
            self.modified(parent, now);
        }
        self.move_parent(moved, from.0, to.0)?;
        self.move_parent(met, to.0, from.0)?;
        self.node_mut(moved)?.attributes.ctime = now;
        self.node_mut(met)?.attributes.ctime = now;
        Ok(())
    }

    /// A directory that has moved has another parent, and is counted there.
    fn move_parent(&mut self, moved: InodeNo, from: InodeNo, to: InodeNo) -> Result<()> {
        if from != to
            && let Body::Directory(directory) = &mut self.node_mut(moved)?.body
        {
            directory.parent = to;
            self.count_subdirectory(from, -1)?;
            self.count_subdirectory(to, 1)?;
        }
        Ok(())
    }

    /// An error if `place` is `above` or lies below it.
    fn check_not_below(&self, mut place: InodeNo, above: InodeNo) -> Result<()> {
        loop {
            if place == above {
                return Err(Errno::Invalid);
            }
            let parent = self.directory(place)?.parent;
            if parent == place {
                return Ok(());
            }
            place = parent;
        }
    }

    fn check_subdirectory(&self, parent: InodeNo) -> Result<()> {
        let links = self.node(parent)?.attributes.links;
        match self.limits.dir_links_max {
            Some(max) if links >= max => Err(Errno::TooManyLinks),
            _ => Ok(()),
        }
    }

    fn count_subdirectory(&mut self, parent: InodeNo, change: i32) -> Result<()> {
        let counted_for_ever = self.limits.dir_links_max.is_some();
        let of = &mut self.node_mut(parent)?.attributes;
        if counted_for_ever || of.links != 1 {
            of.links = of.links.saturating_add_signed(change);
            if !counted_for_ever && of.links >= DIR_LINKS_COUNTED_MAX {
                of.links = 1;
            }
        }
        Ok(())
    }

    fn add_entry(&mut self, place: Place<'_>, inode: InodeNo, now: Time) -> Result<()> {
        let directory = self.directory_mut(place.0)?;
        let number = directory.next;
        directory.next += 1;
        directory.entries.insert(number, (place.1.to_vec(), inode));
        directory.numbers.insert(place.1.to_vec(), number);
        self.modified(place.0, now);
        Ok(())
    }

    fn remove_entry(&mut self, place: Place<'_>, now: Time) -> Result<()> {
        let directory = self.directory_mut(place.0)?;
        let number = directory.numbers.remove(place.1).ok_or(Errno::NotFound)?;
        directory.entries.remove(&number);
        self.modified(place.0, now);
        Ok(())
    }

    /// A file has one name less.
    fn drop_name(&mut self, inode: InodeNo, now: Time) -> Result<()> {
        let of = &mut self.node_mut(inode)?.attributes;
        of.links -= 1;
        of.ctime = now;
        self.reap(inode);
        Ok(())
    }

    /// An empty directory has no name any more.
    fn drop_directory(&mut self, inode: InodeNo, parent: InodeNo, now: Time) -> Result<()> {
        let of = &mut self.node_mut(inode)?.attributes;
        of.links = 0;
        (of.ctime, of.size) = (now, 0);
        self.count_subdirectory(parent, -1)?;
        self.reap(inode);
        Ok(())
    }
}

fn none_is_fine(error: Errno) -> Result<bool> {
    if error == Errno::NotFound { Ok(false) } else { Err(error) }
}
