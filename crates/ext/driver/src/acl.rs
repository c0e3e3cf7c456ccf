// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access control lists: how they go with the mode of their inode, and their form on the disk, which is shorter than the one programs see.
//!
//! ```text
//! u32 version 1 | { u16 tag, u16 permissions [, u32 id] } ...     an id only for named users and groups
//! ```
//! Source: "ext4 Data Structures and Algorithms", extended attributes.

use fsmend_blockcache::acl::{ACCESS, Acl, DEFAULT, Entry, Kind, PERMISSION_BITS, Tag};
use fsmend_vfs::{AttributeWrite, Errno, FileKind, Result, Time};

use crate::inode::Inode;
use crate::volume::Volume;

impl Volume {
    /// Sets a list from the form of programs, and with the access list the mode. The caller saves the inode.
    pub fn set_list(
        &mut self,
        inode: &mut Inode,
        kind: Kind,
        value: &[u8],
        how: AttributeWrite,
        now: Time,
    ) -> Result<()> {
        let acl = Acl::from_attribute(value).ok_or(Errno::Invalid)?;
        if inode.kind() == Some(FileKind::Symlink) {
            return Err(Errno::NotSupported);
        }
        if acl.entries.is_empty() {
            return self.remove_list(inode, kind, now);
        }
        if !acl.is_valid() {
            return Err(Errno::Invalid);
        }
        if kind == Kind::Default && !inode.is_directory() {
            return Err(Errno::NotPermitted);
        }
        if kind == Kind::Access {
            self.set_mode_of_list(inode, &acl);
            if acl.is_mode_only() && how == AttributeWrite::Any {
                return self.remove_list(inode, kind, now);
            }
        }
        self.change_attribute(inode, kind.name(), Some(value), how, now)
    }

    fn set_mode_of_list(&mut self, inode: &mut Inode, acl: &Acl) {
        let mode = acl.mode_for(inode.raw.i_mode.get(), inode.permissions().gid, &self.caller);
        inode.raw.i_mode.set(mode);
    }

    fn remove_list(&mut self, inode: &mut Inode, kind: Kind, now: Time) -> Result<()> {
        match self.change_attribute(inode, kind.name(), None, AttributeWrite::Any, now) {
            Err(Errno::NoAttribute) => {
                inode.set_ctime(now);
                Ok(())
            }
            other => other,
        }
    }

    fn list(&mut self, inode: &Inode, kind: Kind) -> Result<Option<Acl>> {
        match self.attribute(inode, kind.name()) {
            Ok(value) => Ok(Acl::from_attribute(&value)),
            Err(Errno::NoAttribute) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The mode of an inode has been changed: its access list goes with it. The caller saves the inode.
    pub fn change_list_mode(&mut self, inode: &mut Inode, mode: u16, now: Time) -> Result<()> {
        let Some(mut acl) = self.list(inode, Kind::Access)? else { return Ok(()) };
        acl.change_mode(mode);
        self.change_attribute(inode, ACCESS, Some(&acl.to_attribute()), AttributeWrite::Any, now)
    }

    /// What a new file in `directory` inherits: its mode, and the lists that [`Volume::set_inherited`] gives it.
    pub fn inherit_list(
        &mut self,
        directory: &Inode,
        kind: FileKind,
        mode: u16,
    ) -> Result<(u16, Option<Acl>)> {
        if kind == FileKind::Symlink {
            return Ok((mode, None));
        }
        match self.list(directory, Kind::Default)? {
            Some(default) => {
                let acl = default.inherit(mode);
                Ok((mode & !PERMISSION_BITS | acl.mode(), Some(default)))
            }
            None => Ok((mode & !self.caller.umask, None)),
        }
    }

    /// Gives a new inode, whose mode is set, what it inherits from the default list of its directory. The caller saves the inode.
    pub fn set_inherited(&mut self, inode: &mut Inode, default: Acl, now: Time) -> Result<()> {
        // Attributes go behind the fields of the record.
        inode.store_fields();
        let access = default.inherit(inode.permissions().mode);
        if !access.is_mode_only() {
            self.change_attribute(inode, ACCESS, Some(&access.to_attribute()), AttributeWrite::Any, now)?;
        }
        if inode.is_directory() {
            self.change_attribute(inode, DEFAULT, Some(&default.to_attribute()), AttributeWrite::Any, now)?;
        }
        Ok(())
    }
}

const VERSION: u32 = 1;

/// Reads the form of the disk; `None` if the list is broken.
pub(crate) fn from_disk(disk: &[u8]) -> Option<Acl> {
    let (version, mut rest) = disk.split_first_chunk()?;
    if u32::from_le_bytes(*version) != VERSION {
        return None;
    }
    let mut entries = Vec::new();
    while let Some(([tag0, tag1, permissions0, permissions1], behind)) = rest.split_first_chunk() {
        let number = u16::from_le_bytes([*tag0, *tag1]);
        rest = behind;
        let has_id = Tag::from_parts(number, 0)?.parts().1.is_some();
        let id = match has_id {
            true => {
                let (id, behind) = rest.split_first_chunk()?;
                rest = behind;
                u32::from_le_bytes(*id)
            }
            false => 0,
        };
        let permissions = u16::from_le_bytes([*permissions0, *permissions1]);
        entries.push(Entry { tag: Tag::from_parts(number, id)?, permissions });
    }
    rest.is_empty().then_some(Acl { entries })
}

/// The form of the disk.
pub(crate) fn to_disk(acl: &Acl) -> Vec<u8> {
    let mut disk = VERSION.to_le_bytes().to_vec();
    for entry in &acl.entries {
        let (tag, id) = entry.tag.parts();
        disk.extend_from_slice(&tag.to_le_bytes());
        disk.extend_from_slice(&entry.permissions.to_le_bytes());
        disk.extend(id.map(u32::to_le_bytes).into_iter().flatten());
    }
    disk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_from_the_disk() {
        let tags = [Tag::Owner, Tag::User(1000), Tag::OwningGroup, Tag::Group(7), Tag::Mask, Tag::Other];
        let acl = Acl { entries: tags.map(|tag| Entry { tag, permissions: 6 }).to_vec() };
        let disk = to_disk(&acl);
        assert_eq!(disk.len(), 4 + 4 * 4 + 2 * 8);
        assert_eq!(from_disk(&disk), Some(acl));
        assert_eq!(from_disk(&disk[..disk.len() - 1]), None);
        assert_eq!(from_disk(&[1, 0, 0, 0, 99, 0, 6, 0]), None);
    }
}
