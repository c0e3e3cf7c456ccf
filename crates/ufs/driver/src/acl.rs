// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access control lists, on a UFS2 whose superblock has the flag for them. They are attributes of the system's namespace, `posix1e.acl_access` and `posix1e.acl_default`:
//!
//! ```text
//! i32 number of entries | 32 times { i32 tag, u32 id, u16 permissions, u16 0 }     in the byte order of the file system
//! ```
//! What the owner, the group class and all others may do is the mode's to say: those entries of an access list may be old. Source: FreeBSD's `sys/acl.h`.

use fsmend_blockcache::acl::{Acl, Entry, Kind, Tag};
use fsmend_ufs_format::attributes::SYSTEM;
use fsmend_ufs_format::order::{ByteOrder, Version};
use fsmend_ufs_format::superblock::SuperblockFlags;
use fsmend_vfs::{AttributeWrite, Errno, FileKind, Result};

use crate::inode::Inode;
use crate::volume::Volume;

/// Entries that a list has room for.
const ENTRIES: usize = 32;
/// Bytes of an entry.
const ENTRY: usize = 12;
/// Bytes of a list.
const LIST: usize = 4 + ENTRIES * ENTRY;
/// Stands in the place of an id where the tag needs none.
const NO_ID: u32 = u32::MAX;
/// The attribute of the system that holds a list.
fn stored(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Access => b"posix1e.acl_access",
        Kind::Default => b"posix1e.acl_default",
    }
}

/// The list that an attribute of the system holds.
pub(crate) fn kind_of_stored(own: &[u8]) -> Option<Kind> {
    [Kind::Access, Kind::Default].into_iter().find(|kind| stored(*kind) == own)
}

/// A list as it is stored, its entries in the order of [`Tag`]; `None` if it is broken.
fn from_disk(bytes: &[u8], order: ByteOrder) -> Option<Acl> {
    let count = usize::try_from(order.i32(bytes, 0)).ok().filter(|count| *count <= ENTRIES)?;
    let stored = bytes.get(4..LIST).filter(|_| bytes.len() == LIST)?.chunks_exact(ENTRY).take(count);
    let entry = |stored: &[u8]| {
        let tag = u16::try_from(order.u32(stored, 0)).ok()?;
        Some(Entry { tag: Tag::from_parts(tag, order.u32(stored, 4))?, permissions: order.u16(stored, 8) })
    };
    let mut entries = stored.map(entry).collect::<Option<Vec<_>>>()?;
    entries.sort_by_key(|entry| entry.tag);
    Some(Acl { entries }).filter(Acl::is_valid)
}

/// A list in the form that is stored; `None` if it has too many entries.
fn to_disk(list: &Acl, order: ByteOrder) -> Option<Vec<u8>> {
    let mut bytes = vec![0; LIST];
    order.put_i32(&mut bytes, 0, i32::try_from(list.entries.len()).ok()?);
    for (index, entry) in list.entries.iter().enumerate() {
        let place = bytes.get_mut(4..)?.chunks_exact_mut(ENTRY).nth(index)?;
        let (tag, id) = entry.tag.parts();
        order.put_u32(place, 0, tag.into());
        order.put_u32(place, 4, id.unwrap_or(NO_ID));
        order.put_u16(place, 8, entry.permissions);
    }
    Some(bytes)
}

impl Volume {
    /// Whether access control lists count.
    pub fn obeys_lists(&self) -> bool {
        self.geometry.version == Version::Ufs2 && self.superblock.flags().contains(SuperblockFlags::ACLS)
    }

    /// A list of an inode, if it has one.
    pub(crate) fn list(&mut self, inode: &Inode, kind: Kind) -> Result<Option<Acl>> {
        if !self.obeys_lists() {
            return Ok(None);
        }
        let value = match self.stored_attribute(inode, SYSTEM, stored(kind)) {
            Err(Errno::NoAttribute) => return Ok(None),
            value => value?,
        };
        let Some(mut list) = from_disk(&value, self.geometry.order) else {
            let number = inode.number;
            return Err(self
                .cache
                .corrupt(|| format!("an access control list of inode {number} is damaged")));
        };
        if kind == Kind::Access {
            list.change_mode(inode.raw.mode());
        }
        Ok(Some(list))
    }

    /// Sets a list from the form of programs, and with the access list the mode; removes it where there is no value. Saves the inode.
    pub(crate) fn change_list(
        &mut self,
        inode: &mut Inode,
        kind: Kind,
        value: Option<&[u8]>,
        how: AttributeWrite,
    ) -> Result<()> {
        if inode.kind() == Some(FileKind::Symlink) {
            return Err(Errno::NotSupported);
        }
        let list = value.map(|value| Acl::from_attribute(value).ok_or(Errno::Invalid)).transpose()?;
        let Some(list) = list.filter(|list| !list.entries.is_empty()) else {
            return self.store_list(inode, kind, None, AttributeWrite::Any);
        };
        if !list.is_valid() {
            return Err(Errno::Invalid);
        }
        if kind == Kind::Default && inode.kind() != Some(FileKind::Directory) {
            return Err(Errno::NotPermitted);
        }
        if kind == Kind::Access {
            self.set_mode_of_list(inode, &list);
            if list.is_mode_only() && how == AttributeWrite::Any {
                return self.store_list(inode, kind, None, how);
            }
        }
        self.store_list(inode, kind, Some(&list), how)
    }

    fn set_mode_of_list(&self, inode: &mut Inode, list: &Acl) {
        let mode = list.mode_for(inode.raw.mode(), inode.permissions().gid, &self.caller);
        inode.raw.set_mode(mode);
    }

    /// Gives a new inode what it gets from the default list of its directory. Its mode has been made by that already.
    pub(crate) fn inherit_lists(&mut self, inode: &mut Inode, default: &Acl) -> Result<()> {
        let access = default.inherit(inode.raw.mode());
        if !access.is_mode_only() {
            self.store_list(inode, Kind::Access, Some(&access), AttributeWrite::Any)?;
        }
        match inode.kind() {
            Some(FileKind::Directory) => {
                self.store_list(inode, Kind::Default, Some(default), AttributeWrite::Any)
            }
            _ => Ok(()),
        }
    }

    fn store_list(
        &mut self,
        inode: &mut Inode,
        kind: Kind,
        list: Option<&Acl>,
        how: AttributeWrite,
    ) -> Result<()> {
        let order = self.geometry.order;
        let value = list.map(|list| to_disk(list, order).ok_or(Errno::Invalid)).transpose()?;
        match self.change_stored(inode, (SYSTEM, stored(kind)), value.as_deref(), how) {
            Err(Errno::NoAttribute) if value.is_none() => self.save(inode),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_the_form_of_freebsd() {
        let entry = |tag, permissions| Entry { tag, permissions };
        let list = Acl {
            entries: vec![
                entry(Tag::Owner, 7),
                entry(Tag::User(1001), 5),
                entry(Tag::OwningGroup, 5),
                entry(Tag::Mask, 5),
                entry(Tag::Other, 0),
            ],
        };
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut stored = to_disk(&list, order).expect("there is room");
            assert_eq!(stored.len(), 388);
            assert_eq!((order.u32(&stored, 0), order.u32(&stored, 16), order.u32(&stored, 20)), (5, 2, 1001));
            assert_eq!(from_disk(&stored, order), Some(list.clone()));
            order.put_i32(&mut stored, 0, 33);
            assert_eq!(from_disk(&stored, order), None);
            order.put_i32(&mut stored, 0, -1);
            assert_eq!(from_disk(&stored, order), None);
            assert_eq!(from_disk(&stored[..387], order), None);
        }
        let many = (0..33).map(|id| entry(Tag::User(id), 4)).collect();
        assert_eq!(to_disk(&Acl { entries: many }, ByteOrder::Little), None);
    }
}
