// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: making files, giving them more names, taking names away, moving them.

use fsmend_blockcache::names;
use fsmend_ext_format::features::RoCompat;
use fsmend_ext_format::inode::{I_BLOCK_LEN, InodeFlags, RawInode};
use fsmend_vfs::{Errno, FileKind, InodeNo, NewFile, NewKind, Permissions, RenameFlags, Result, Time};

use crate::directory::Found;
use crate::directory::block::NewEntry;
use crate::inode::{Inode, LINKS_MAX};
use crate::policy::BlockKind;
use crate::volume::Volume;

/// Bytes of the record that the fields up to `i_projid` take.
const PROJECT_END: usize = std::mem::offset_of!(RawInode, i_projid) + 4;

impl Volume {
    /// A directory that may be changed.
    fn directory_to_change(&mut self, number: InodeNo) -> Result<Inode> {
        let directory = self.load_directory(number)?;
        self.check_changeable(&directory)?;
        // Removed, but held: nothing can be in it any more.
        if directory.links() == 0 { Err(Errno::NotFound) } else { Ok(directory) }
    }

    /// Looks up a name.
    pub fn find(&mut self, parent: InodeNo, name: &[u8]) -> Result<InodeNo> {
        names::check_len(name)?;
        let directory = self.load_directory(parent)?;
        self.find_entry(&directory, name)?.map(|found| found.inode).ok_or(Errno::NotFound)
    }

    fn find_to_change(&mut self, directory: &Inode, name: &[u8]) -> Result<(Found, Inode)> {
        let found = self.find_entry(directory, name)?.ok_or(Errno::NotFound)?;
        let inode = self.load_any(found.inode)?;
        self.check_inode(&inode)?;
        if inode.links() == 0 {
            return Err(self
                .cache
                .corrupt(|| format!("a name points to inode {}, which is free", found.inode)));
        }
        Ok((found, inode))
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
        if is_directory {
            self.check_subdirectories(&directory)?;
        }
        let in_root = parent == InodeNo(fsmend_ext_format::inode::special::ROOT);
        let group = self.group_for(parent, is_directory, in_root)?;
        let number = self.take_inode(group, is_directory)?;
        let (mode, default_list) = self.inherit_list(&directory, kind, file.of.mode)?;
        let of = names::inherited(directory.permissions(), Permissions { mode, ..file.of }, kind);
        let mut inode = self.new_inode(number, kind, of, now);
        self.inherit_project(&mut inode, &directory);
        inode.raw.i_links_count.set(if is_directory { 2 } else { 1 });
        self.charge(&inode, 0, 1)?;
        match file.kind {
            NewKind::Directory => {
                self.start_directory(&mut inode, parent)?;
                count_subdirectory(&mut directory);
            }
            NewKind::Symlink(target) => self.write_target(&mut inode, target)?,
            NewKind::CharDevice(device) | NewKind::BlockDevice(device) => inode.set_device(device)?,
            NewKind::Regular | NewKind::Fifo | NewKind::Socket => {}
        }
        if let Some(list) = default_list {
            self.set_inherited(&mut inode, list, now)?;
        }
        let file_type = self.type_byte(kind);
        self.save(&mut inode)?;
        self.add_entry(&mut directory, &NewEntry { name, inode: number.0, file_type })?;
        directory.touch(now);
        self.save(&mut directory)?;
        Ok(inode)
    }

    /// In directories that say so, what is made belongs to the project of the directory.
    fn inherit_project(&self, inode: &mut Inode, directory: &Inode) {
        if !self.hands_project_down(directory) {
            return;
        }
        if inode.raw.has_extra(PROJECT_END) {
            inode.raw.i_projid.set(directory.raw.project());
        }
        if inode.is_directory() {
            inode.raw.set_flag(InodeFlags::PROJECT_INHERIT);
        }
    }

    fn hands_project_down(&self, directory: &Inode) -> bool {
        self.geometry.features.has_ro_compat(RoCompat::PROJECT)
            && directory.raw.has_flag(InodeFlags::PROJECT_INHERIT)
    }

    /// Only what belongs to the project of such a directory may get a name in it.
    fn check_project(&self, inode: &Inode, directory: &Inode) -> Result<()> {
        let is_foreign = self.hands_project_down(directory) && directory.raw.project() != inode.raw.project();
        if is_foreign { Err(Errno::OtherProject) } else { Ok(()) }
    }

    fn check_subdirectories(&self, directory: &Inode) -> Result<()> {
        let unlimited = self.geometry.features.has_ro_compat(RoCompat::DIR_NLINK);
        if directory.links() >= LINKS_MAX && !unlimited { Err(Errno::TooManyLinks) } else { Ok(()) }
    }

    fn write_target(&mut self, inode: &mut Inode, target: &[u8]) -> Result<()> {
        names::check_target(target)?;
        inode.raw.set_size(target.len() as u64);
        if target.len() < I_BLOCK_LEN {
            inode.raw.i_block[..target.len()].copy_from_slice(target);
            return Ok(());
        }
        let size = self.geometry.block_size as usize;
        // A target of a whole block would leave no room for the zero that ends it.
        if target.len() >= size {
            return Err(Errno::NameTooLong);
        }
        self.start_extents(inode);
        let (place, _) = self.map_new(inode, 0, 1, BlockKind::Data, false)?;
        let mut block = target.to_vec();
        block.resize(size, 0);
        self.cache.write_data(place, 0, &block)
    }

    /// Where a symbolic link leads to.
    pub fn target_of(&mut self, inode: &Inode) -> Result<Vec<u8>> {
        if inode.kind() != Some(FileKind::Symlink) {
            return Err(Errno::Invalid);
        }
        let len =
            usize::try_from(inode.raw.size()).ok().filter(|len| *len <= self.geometry.block_size as usize);
        let Some(len) = len else {
            return Err(self.cache.corrupt(|| format!("the link {} is too long", inode.number)));
        };
        if inode.is_fast_symlink() && !inode.has_inline_data() {
            return Ok(inode.raw.i_block[..len.min(I_BLOCK_LEN)].to_vec());
        }
        let mut target = vec![0; len];
        self.read_file(inode, 0, &mut target)?;
        Ok(target)
    }

    /// One more name for a file, as part of an operation.
    pub fn link_file(&mut self, number: InodeNo, parent: InodeNo, name: &[u8], now: Time) -> Result<Inode> {
        names::check(name)?;
        let mut inode = self.load(number)?;
        if inode.is_directory()
            || inode.raw.has_flag(InodeFlags::IMMUTABLE)
            || inode.raw.has_flag(InodeFlags::APPEND)
        {
            return Err(Errno::NotPermitted);
        }
        let mut directory = self.directory_to_change(parent)?;
        if names::is_dots(name) || self.find_entry(&directory, name)?.is_some() {
            return Err(Errno::Exists);
        }
        self.check_project(&inode, &directory)?;
        if inode.links() >= LINKS_MAX {
            return Err(Errno::TooManyLinks);
        }
        if inode.links() == 0 {
            // Without a name and held: it gets its first one back.
            self.remove_orphan(&mut inode)?;
        }
        inode.raw.i_links_count.set(inode.links() + 1);
        inode.set_ctime(now);
        self.save(&mut inode)?;
        let file_type = self.type_byte(inode.kind().ok_or(Errno::Corrupt)?);
        self.add_entry(&mut directory, &NewEntry { name, inode: number.0, file_type })?;
        directory.touch(now);
        self.save(&mut directory)?;
        Ok(inode)
    }

    /// Takes a name away, as part of an operation. Returns the inode that [`Volume::finish_removal`] has to go on with.
    pub fn unlink_name(
        &mut self,
        parent: InodeNo,
        name: &[u8],
        of_directory: bool,
        now: Time,
    ) -> Result<Option<InodeNo>> {
        names::check_len(name)?;
        let mut directory = self.directory_to_change(parent)?;
        names::check_removal(name, of_directory)?;
        let (found, mut inode) = self.find_to_change(&directory, name)?;
        self.check_removable(&inode, of_directory)?;
        self.remove_entry(&mut directory, found)?;
        let goes_on = self.lose_name(&mut directory, &mut inode, now)?;
        directory.touch(now);
        self.save(&mut directory)?;
        Ok(goes_on.then_some(inode.number))
    }

    fn check_removable(&mut self, inode: &Inode, of_directory: bool) -> Result<()> {
        if inode.raw.has_flag(InodeFlags::IMMUTABLE) || inode.raw.has_flag(InodeFlags::APPEND) {
            return Err(Errno::NotPermitted);
        }
        names::check_removable(inode.is_directory(), of_directory, || self.is_empty_directory(inode))
    }

    /// A file has lost a name in `directory`; returns whether its removal goes on.
    fn lose_name(&mut self, directory: &mut Inode, inode: &mut Inode, now: Time) -> Result<bool> {
        inode.set_ctime(now);
        if inode.is_directory() {
            uncount_subdirectory(directory);
            inode.raw.i_links_count.set(0);
        } else {
            inode.raw.i_links_count.set(inode.links().saturating_sub(1));
        }
        if inode.links() > 0 {
            self.save(inode)?;
            return Ok(false);
        }
        self.drop_inode(inode, now)
    }

    /// Moves a name, as part of an operation. Returns the inode that [`Volume::finish_removal`] has to go on with.
    pub fn rename_name(
        &mut self,
        from: (InodeNo, &[u8]),
        to: (InodeNo, &[u8]),
        how: RenameFlags,
        now: Time,
    ) -> Result<Option<InodeNo>> {
        names::check_rename(from.1, to.1)?;
        let old_parent = self.directory_to_change(from.0)?;
        let new_parent = self.directory_to_change(to.0)?;
        let (old, inode) = self.find_to_change(&old_parent, from.1)?;
        let there = self.find_entry(&new_parent, to.1)?;
        names::check_new_name(there.is_some(), how)?;
        if inode.raw.has_flag(InodeFlags::IMMUTABLE) || inode.raw.has_flag(InodeFlags::APPEND) {
            return Err(Errno::NotPermitted);
        }
        if there.is_some_and(|there| there.inode == old.inode) {
            // Two names of the same file stay two names.
            return Ok(None);
        }
        self.check_project(&inode, &new_parent)?;
        if inode.is_directory() && from.0 != to.0 {
            self.check_not_below(inode.number, to.0)?;
        }
        if how == RenameFlags::Exchange {
            return self.exchange(old_parent, old, inode, (to.0, to.1), now).map(|()| None);
        }
        let goes_on = self.replace(old_parent, (from.1, inode), new_parent, (to.1, there), now)?;
        if how == RenameFlags::Whiteout {
            let whiteout = names::whiteout(self.caller.uid, self.caller.gid);
            self.make_file(from.0, from.1, &whiteout, now)?;
        }
        Ok(goes_on)
    }

    /// A directory must not become its own ancestor.
    fn check_not_below(&mut self, moved: InodeNo, at: InodeNo) -> Result<()> {
        let below = names::check_not_below(moved, at, self.geometry.inodes_count.into(), |at| {
            let directory = self.load_directory(at)?;
            Ok(self.find_entry(&directory, b"..")?.map(|found| found.inode))
        });
        below.unwrap_or_else(|| Err(self.cache.corrupt(|| format!("directory {at} is contained in itself"))))
    }

    fn replace(
        &mut self,
        mut old_parent: Inode,
        (old_name, mut inode): (&[u8], Inode),
        mut new_parent: Inode,
        (new_name, there): (&[u8], Option<Found>),
        now: Time,
    ) -> Result<Option<InodeNo>> {
        let is_same = old_parent.number == new_parent.number;
        let kind = inode.kind().ok_or(Errno::Corrupt)?;
        let mut goes_on = None;
        if let Some(there) = there {
            let mut victim = self.load_any(there.inode)?;
            self.check_inode(&victim)?;
            self.check_removable(&victim, inode.is_directory())?;
            self.redirect_entry(&mut new_parent, there, inode.number, kind)?;
            if self.lose_name(&mut new_parent, &mut victim, now)? {
                goes_on = Some(victim.number);
            }
        } else {
            if inode.is_directory() && !is_same {
                self.check_subdirectories(&new_parent)?;
            }
            let entry = NewEntry { name: new_name, inode: inode.number.0, file_type: self.type_byte(kind) };
            self.add_entry(&mut new_parent, &entry)?;
        }
        if inode.is_directory() && !is_same {
            count_subdirectory(&mut new_parent);
        }
        let new_number = new_parent.number;
        new_parent.touch(now);
        self.save(&mut new_parent)?;
        if is_same {
            old_parent = new_parent;
        }
        // The new name may have moved the old one, or even its block.
        let old = self.find_entry(&old_parent, old_name)?.ok_or(Errno::Corrupt)?;
        self.remove_entry(&mut old_parent, old)?;
        if inode.is_directory() && !is_same {
            uncount_subdirectory(&mut old_parent);
            self.set_parent(&mut inode, new_number)?;
        }
        old_parent.touch(now);
        self.save(&mut old_parent)?;
        inode.set_ctime(now);
        self.save(&mut inode)?;
        Ok(goes_on)
    }

    /// Lets the `..` of a directory lead to its new parent. The caller saves the directory's inode.
    fn set_parent(&mut self, directory: &mut Inode, parent: InodeNo) -> Result<()> {
        match self.find_entry(directory, b"..")? {
            Some(found) => self.redirect_entry(directory, found, parent, FileKind::Directory),
            None => Err(self.cache.corrupt(|| format!("directory {} has no parent", directory.number))),
        }
    }

    /// Two names change their files.
    fn exchange(
        &mut self,
        mut one_parent: Inode,
        one: Found,
        mut inode: Inode,
        (other_number, other_name): (InodeNo, &[u8]),
        now: Time,
    ) -> Result<()> {
        let mut other_parent = self.directory_to_change(other_number)?;
        let (other, mut other_inode) = self.find_to_change(&other_parent, other_name)?;
        let is_same = one_parent.number == other_parent.number;
        self.check_project(&other_inode, &one_parent)?;
        if other_inode.is_directory() && !is_same {
            self.check_not_below(other_inode.number, one_parent.number)?;
        }
        let (kind, other_kind) =
            (inode.kind().ok_or(Errno::Corrupt)?, other_inode.kind().ok_or(Errno::Corrupt)?);
        self.redirect_entry(&mut one_parent, one, other_inode.number, other_kind)?;
        let holder = if is_same { &mut one_parent } else { &mut other_parent };
        self.redirect_entry(holder, other, inode.number, kind)?;
        if !is_same {
            if inode.is_directory() {
                uncount_subdirectory(&mut one_parent);
                count_subdirectory(&mut other_parent);
                self.set_parent(&mut inode, other_parent.number)?;
            }
            if other_inode.is_directory() {
                uncount_subdirectory(&mut other_parent);
                count_subdirectory(&mut one_parent);
                self.set_parent(&mut other_inode, one_parent.number)?;
            }
            other_parent.touch(now);
            self.save(&mut other_parent)?;
        }
        one_parent.touch(now);
        self.save(&mut one_parent)?;
        inode.set_ctime(now);
        self.save(&mut inode)?;
        other_inode.set_ctime(now);
        self.save(&mut other_inode)
    }
}

/// One subdirectory more; beyond the most that can be counted, 1 says that links are not counted.
fn count_subdirectory(directory: &mut Inode) {
    let links = directory.links();
    if links != 1 {
        directory.raw.i_links_count.set(if links >= LINKS_MAX { 1 } else { links + 1 });
    }
}

fn uncount_subdirectory(directory: &mut Inode) {
    let links = directory.links();
    if links > 2 {
        directory.raw.i_links_count.set(links - 1);
    }
}
