// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended attributes and access control lists. Lists are kept in the form in which programs see them.

use fsmend_blockcache::acl::{ACCESS, Acl, DEFAULT};
use fsmend_blockcache::names::NAME_MAX;
use fsmend_hybridfs_format::{ATTRIBUTES_MAX, Attribute, HEADER_LEN, store_attributes};
use fsmend_vfs::{AttributeWrite, Errno, FileKind, Result, Time};

use crate::volume::{Live, Volume, stamp};

pub(crate) fn value<'l>(live: &'l Live, name: &[u8]) -> Option<&'l [u8]> {
    live.attributes
        .iter()
        .find(|attribute| attribute.name == name)
        .map(|attribute| attribute.value.as_slice())
}

pub(crate) fn default_list(live: &Live) -> Option<Acl> {
    value(live, DEFAULT).and_then(Acl::from_attribute)
}

/// Sets or removes a value, if there is room for all of them.
fn put(live: &mut Live, name: &[u8], value: Option<&[u8]>, max: usize) -> Result<()> {
    let mut all = live.attributes.clone();
    let at = all.iter().position(|attribute| attribute.name == name);
    match (at, value) {
        (Some(at), Some(value)) => all[at].value = value.to_vec(),
        (Some(at), None) => drop(all.remove(at)),
        (None, Some(value)) => all.push(Attribute { name: name.to_vec(), value: value.to_vec() }),
        (None, None) => return Err(Errno::NoAttribute),
    }
    if store_attributes(&all).is_none_or(|bytes| bytes.len() > max) {
        return Err(Errno::NoSpace);
    }
    live.attributes = all;
    live.attributes_dirty = true;
    // Small contents may have to move where the room in the inode changes.
    if let crate::volume::Contents::Small { bytes: Some(_), dirty, .. } = &mut live.contents {
        *dirty = true;
    }
    Ok(())
}

impl Volume {
    /// Bytes that all attributes of an inode may take: they are one object, which is no larger than a block.
    fn attributes_max(&self) -> usize {
        ATTRIBUTES_MAX.min(self.io.block_size() - HEADER_LEN)
    }

    /// Sets an attribute. The caller marks the inode.
    pub fn set_attribute(
        &mut self,
        live: &mut Live,
        name: &[u8],
        value: Option<&[u8]>,
        how: AttributeWrite,
        now: Time,
    ) -> Result<()> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(Errno::Invalid);
        }
        let is_there = self::value(live, name).is_some();
        match (how, is_there) {
            (AttributeWrite::Create, true) => return Err(Errno::Exists),
            (AttributeWrite::Replace, false) => return Err(Errno::NoAttribute),
            _ => {}
        }
        let value = match (name, value) {
            (ACCESS | DEFAULT, Some(value)) => self.list_to_set(live, name == ACCESS, value)?,
            _ => value,
        };
        if value.is_none() && name.starts_with(b"system.posix_acl_") && !is_there {
            live.disk.ctime = stamp(now);
            return Ok(());
        }
        // What is in the inode has to be in memory where it may have to move.
        if let crate::volume::Contents::Small { .. } = live.contents {
            let before = self.small(live)?.len() as u64;
            if let crate::volume::Contents::Small { dirty: false, .. } = live.contents {
                self.waiting += before;
            }
        }
        let result = put(live, name, value, self.attributes_max());
        if result.is_ok() {
            live.disk.ctime = stamp(now);
        }
        if let crate::volume::Contents::Small { bytes: Some(bytes), dirty: false, .. } = &live.contents {
            self.waiting = self.waiting.saturating_sub(bytes.len() as u64);
        }
        result
    }

    /// A list from a program: the mode goes with it, and one that says no more than the mode is not kept.
    fn list_to_set<'v>(
        &mut self,
        live: &mut Live,
        is_access: bool,
        value: &'v [u8],
    ) -> Result<Option<&'v [u8]>> {
        let acl = Acl::from_attribute(value).ok_or(Errno::Invalid)?;
        if live.kind() == Some(FileKind::Symlink) {
            return Err(Errno::NotSupported);
        }
        if acl.entries.is_empty() {
            return Ok(None);
        }
        if !acl.is_valid() {
            return Err(Errno::Invalid);
        }
        if !is_access {
            return if live.is_directory() { Ok(Some(value)) } else { Err(Errno::NotPermitted) };
        }
        live.disk.mode = acl.mode_for(live.disk.mode, live.disk.gid, &self.caller);
        Ok(if acl.is_mode_only() { None } else { Some(value) })
    }

    /// The mode of an inode has been changed: its access list goes with it.
    pub fn change_list_mode(&mut self, live: &mut Live, mode: u16) -> Result<()> {
        let Some(mut acl) = value(live, ACCESS).and_then(Acl::from_attribute) else { return Ok(()) };
        acl.change_mode(mode);
        put(live, ACCESS, Some(&acl.to_attribute()), self.attributes_max())
    }

    /// Gives a new inode what it inherits from the default list of its directory.
    pub fn set_inherited(&mut self, live: &mut Live, default: Acl) {
        let access = default.inherit(live.disk.mode & 0o7777);
        let mut keep = |name: &[u8], list: &Acl| {
            live.attributes.push(Attribute { name: name.to_vec(), value: list.to_attribute() });
            live.attributes_dirty = true;
        };
        let is_directory = FileKind::of_mode(live.disk.mode) == Some(FileKind::Directory);
        if !access.is_mode_only() {
            keep(ACCESS, &access);
        }
        if is_directory {
            keep(DEFAULT, &default);
        }
    }
}
