// SPDX-License-Identifier: MIT OR Apache-2.0
//! POSIX access control lists: their meaning, and the form in which programs see them. How a format stores them is its own business.
//!
//! ```text
//! programs:  u32 version 2 | { u16 tag, u16 permissions, u32 id } ...      attribute system.posix_acl_access or ..._default
//! ```
//! Source: the kernel's `posix_acl_xattr.h`; acl(5).

use fsmend_vfs::Caller;

use crate::names::SET_GROUP_ID;

/// The attribute that programs know the access list by.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute that programs know the default list of a directory by.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The version of the form that programs see.
const VERSION: u32 = 2;
/// Stands in the place of an id where the tag needs none.
const NO_ID: u32 = u32::MAX;
/// Permission bits of one entry.
const PERMISSIONS: u16 = 0o7;

/// The permission bits that a list stands for.
pub const PERMISSION_BITS: u16 = 0o777;

/// Which of the two lists of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Says what may be done with the inode.
    Access,
    /// What new files in the directory get.
    Default,
}

impl Kind {
    /// The list that programs know by this name; `None` for other attributes.
    pub fn of_name(name: &[u8]) -> Option<Kind> {
        match name {
            ACCESS => Some(Kind::Access),
            DEFAULT => Some(Kind::Default),
            _ => None,
        }
    }

    /// The name for programs.
    pub fn name(self) -> &'static [u8] {
        match self {
            Kind::Access => ACCESS,
            Kind::Default => DEFAULT,
        }
    }
}

/// Whom an entry is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tag {
    /// The owner.
    Owner,
    /// The user with this id.
    User(u32),
    /// The owning group.
    OwningGroup,
    /// The group with this id.
    Group(u32),
    /// The most that named users and all groups can have.
    Mask,
    /// All others.
    Other,
}

impl Tag {
    /// From the numbers that both the kernel and disk formats use; `None` for an unknown tag.
    pub fn from_parts(tag: u16, id: u32) -> Option<Tag> {
        Some(match tag {
            0x01 => Tag::Owner,
            0x02 => Tag::User(id),
            0x04 => Tag::OwningGroup,
            0x08 => Tag::Group(id),
            0x10 => Tag::Mask,
            0x20 => Tag::Other,
            _ => return None,
        })
    }

    /// The number of the tag, and the id if it has one.
    pub fn parts(self) -> (u16, Option<u32>) {
        match self {
            Tag::Owner => (0x01, None),
            Tag::User(id) => (0x02, Some(id)),
            Tag::OwningGroup => (0x04, None),
            Tag::Group(id) => (0x08, Some(id)),
            Tag::Mask => (0x10, None),
            Tag::Other => (0x20, None),
        }
    }
}

/// An entry of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Whom it is for.
    pub tag: Tag,
    /// Read 4, write 2, execute 1.
    pub permissions: u16,
}

/// An access control list, or the default list of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acl {
    /// The entries in their order.
    pub entries: Vec<Entry>,
}

impl Acl {
    /// What becomes of `mode`, that of an inode of group `gid`, when `caller` gives it this access list: only members of the group may keep the
    /// set-group-ID bit. (Further groups of the caller are not known here.)
    pub fn mode_for(&self, mode: u16, gid: u32, caller: &Caller) -> u16 {
        let mode = mode & !PERMISSION_BITS | self.mode();
        if caller.uid != 0 && caller.gid != gid { mode & !SET_GROUP_ID } else { mode }
    }

    /// From the form that programs see; `None` if it is broken.
    pub fn from_attribute(bytes: &[u8]) -> Option<Acl> {
        let (version, entries) = bytes.split_first_chunk()?;
        if u32::from_le_bytes(*version) != VERSION || !entries.len().is_multiple_of(8) {
            return None;
        }
        let entry = |bytes: &[u8]| {
            let [tag0, tag1, permissions0, permissions1, id @ ..] = *bytes.first_chunk::<8>()?;
            let tag = Tag::from_parts(u16::from_le_bytes([tag0, tag1]), u32::from_le_bytes(id))?;
            Some(Entry { tag, permissions: u16::from_le_bytes([permissions0, permissions1]) })
        };
        Some(Acl { entries: entries.chunks_exact(8).map(entry).collect::<Option<_>>()? })
    }

    /// The form that programs see.
    pub fn to_attribute(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            let (tag, id) = entry.tag.parts();
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&entry.permissions.to_le_bytes());
            bytes.extend_from_slice(&id.unwrap_or(NO_ID).to_le_bytes());
        }
        bytes
    }

    /// Whether the list may be set: entries in order, no id twice, owner, owning group and others once each, and a mask where ids are named.
    pub fn is_valid(&self) -> bool {
        let is_sorted = self.entries.is_sorted_by(|one, next| {
            let (one, next) = (one.tag.parts(), next.tag.parts());
            // The kernel takes named entries in any order of their ids.
            one.0 < next.0 || (one.0 == next.0 && one.1.is_some() && one.1 != next.1)
        });
        let names_ids = self.entries.iter().any(|entry| entry.tag.parts().1.is_some());
        is_sorted
            && self.entries.iter().all(|entry| entry.permissions & !PERMISSIONS == 0)
            && [Tag::Owner, Tag::OwningGroup, Tag::Other].iter().all(|tag| self.find(*tag).is_some())
            && (!names_ids || self.find(Tag::Mask).is_some())
    }

    fn find(&self, tag: Tag) -> Option<u16> {
        self.entries.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions & PERMISSIONS)
    }

    fn set(&mut self, tag: Tag, permissions: u16) {
        for entry in self.entries.iter_mut().filter(|entry| entry.tag == tag) {
            entry.permissions = permissions & PERMISSIONS;
        }
    }

    /// The entry that the group bits of the mode show: the mask, or the owning group where there is none.
    fn group_class(&self) -> Tag {
        if self.find(Tag::Mask).is_some() { Tag::Mask } else { Tag::OwningGroup }
    }

    /// The nine permission bits of a mode that go with this list.
    pub fn mode(&self) -> u16 {
        let bits = |tag| self.find(tag).unwrap_or(0);
        bits(Tag::Owner) << 6 | bits(self.group_class()) << 3 | bits(Tag::Other)
    }

    /// Whether the nine bits of the mode say all of it, so that no list has to be stored.
    pub fn is_mode_only(&self) -> bool {
        self.entries.iter().all(|entry| matches!(entry.tag, Tag::Owner | Tag::OwningGroup | Tag::Other))
    }

    /// The list after a change of the mode.
    pub fn change_mode(&mut self, mode: u16) {
        self.set(Tag::Owner, mode >> 6);
        self.set(self.group_class(), mode >> 3);
        self.set(Tag::Other, mode);
    }

    /// The list of a new file below a directory with this default list, when `mode` is asked for: no entry allows more than `mode` does.
    pub fn inherit(&self, mode: u16) -> Acl {
        let mut list = self.clone();
        list.change_mode(mode & self.mode());
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(Tag, u16)]) -> Acl {
        Acl { entries: entries.iter().map(|&(tag, permissions)| Entry { tag, permissions }).collect() }
    }

    fn full() -> Acl {
        list(&[
            (Tag::Owner, 7),
            (Tag::User(1000), 6),
            (Tag::OwningGroup, 5),
            (Tag::Group(7), 4),
            (Tag::Mask, 6),
            (Tag::Other, 1),
        ])
    }

    #[test]
    fn lists_come_back_from_the_form_of_programs() {
        let bytes = full().to_attribute();
        assert_eq!(bytes.len(), 4 + 6 * 8);
        assert_eq!(Acl::from_attribute(&bytes), Some(full()));
        assert_eq!(Acl::from_attribute(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Acl::from_attribute(&[2, 0, 0, 0, 99, 0, 6, 0, 0, 0, 0, 0]), None, "an unknown tag");
        assert_eq!(Acl::from_attribute(&[3, 0, 0, 0]), None, "an unknown version");
    }

    #[test]
    fn lists_that_lack_an_entry_or_are_out_of_order_are_not_valid() {
        assert!(full().is_valid());
        for missing in [0, 2, 4, 5] {
            let mut without = full();
            without.entries.remove(missing);
            assert!(!without.is_valid(), "{missing}");
        }
        let mut turned = full();
        turned.entries.swap(1, 2);
        assert!(!turned.is_valid());
        let mut double = full();
        double.entries.insert(2, Entry { tag: Tag::User(1000), permissions: 0 });
        assert!(!double.is_valid());
        assert!(!list(&[]).is_valid());
    }

    #[test]
    fn the_mode_shows_the_mask_and_changes_it() {
        let mut acl = full();
        assert_eq!(acl.mode(), 0o761);
        assert!(!acl.is_mode_only());
        acl.change_mode(0o644);
        assert_eq!(acl.mode(), 0o644);
        assert_eq!(acl.find(Tag::OwningGroup), Some(5), "what the mask covers stays");
        let plain = list(&[(Tag::Owner, 6), (Tag::OwningGroup, 4), (Tag::Other, 0)]);
        assert!(plain.is_mode_only());
        assert_eq!(plain.mode(), 0o640);
    }

    #[test]
    fn a_new_file_gets_no_more_than_it_asks_for() {
        let acl = full().inherit(0o666);
        assert_eq!(acl.mode(), 0o660);
        assert_eq!(acl.find(Tag::User(1000)), Some(6));
    }
}
