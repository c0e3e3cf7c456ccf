// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended attributes of UFS2: all of an inode's in one area of up to two blocks, which is rewritten with every change.
//!
//! UFS has two namespaces. `user.` is the first; all other names go into the second, those that begin with `system.` without it. Access control lists have a form of
//! their own there (`acl`).

use fsmend_base::width;
use fsmend_blockcache::acl::Kind;
use fsmend_ufs_format::attributes::{Attributes, SYSTEM, USER, append};
use fsmend_ufs_format::inode::ATTRIBUTE_BLOCKS;
use fsmend_ufs_format::order::Version;
use fsmend_vfs::{AttributeWrite, Errno, Result};

use crate::acl;
use crate::inode::Inode;
use crate::policy::BlockKind;
use crate::volume::Volume;

/// Prefixes of names that stand in the namespace of the system as they are.
const KEPT: [&[u8]; 2] = [b"trusted.", b"security."];

/// Namespace, name and value of an attribute.
type Stored = (u8, Vec<u8>, Vec<u8>);

/// Namespace and name on the disk.
fn split(name: &[u8]) -> Result<(u8, &[u8])> {
    let (namespace, own) = if let Some(own) = name.strip_prefix(b"user.") {
        (USER, own)
    } else if let Some(own) = name.strip_prefix(b"system.") {
        let is_kept = KEPT.iter().any(|prefix| own.starts_with(prefix));
        if is_kept || own.starts_with(b"posix_acl_") {
            return Err(Errno::NotSupported);
        }
        (SYSTEM, own)
    } else if KEPT.iter().any(|prefix| name.starts_with(prefix)) {
        (SYSTEM, name)
    } else {
        return Err(Errno::NotSupported);
    };
    match own.len() {
        0 => Err(Errno::Invalid),
        256.. => Err(Errno::NameTooLong),
        _ => Ok((namespace, own)),
    }
}

/// The name that programs see.
fn join(namespace: u8, own: &[u8]) -> Vec<u8> {
    let prefix: &[u8] = match namespace {
        USER => b"user.",
        _ if KEPT.iter().any(|prefix| own.starts_with(prefix)) => b"",
        _ => b"system.",
    };
    [prefix, own].concat()
}

impl Volume {
    fn check_attributes(&self) -> Result<()> {
        if self.geometry.version == Version::Ufs2 { Ok(()) } else { Err(Errno::NotSupported) }
    }

    /// Namespace and name on the disk of what is no access control list.
    fn split<'n>(&self, name: &'n [u8]) -> Result<(u8, &'n [u8])> {
        let (namespace, own) = split(name)?;
        let is_list = self.obeys_lists() && namespace == SYSTEM && acl::kind_of_stored(own).is_some();
        if is_list { Err(Errno::NotSupported) } else { Ok((namespace, own)) }
    }

    /// The runs that hold attributes: first fragment, fragments.
    fn areas(&self, inode: &Inode) -> Vec<(u64, u64)> {
        let mut rest = u64::from(inode.raw.attributes_size());
        let mut areas = Vec::new();
        for index in 0..ATTRIBUTE_BLOCKS {
            let length = rest.min(self.geometry.block_size);
            if length > 0 {
                areas.push((inode.raw.attribute_block(index), length.div_ceil(self.geometry.fragment_size)));
            }
            rest -= length;
        }
        areas
    }

    /// What goes when an inode goes.
    pub fn attribute_runs(&self, inode: &Inode) -> Vec<(u64, u64, bool)> {
        let areas = self.areas(inode).into_iter().filter(|(first, _)| *first != 0);
        areas.map(|(first, count)| (first, count, false)).collect()
    }

    fn read_area(&mut self, inode: &Inode) -> Result<Vec<u8>> {
        let size = inode.raw.attributes_size() as usize;
        if size as u64 > ATTRIBUTE_BLOCKS as u64 * self.geometry.block_size {
            let number = inode.number;
            return Err(self.cache.corrupt(|| format!("inode {number} has too many attributes")));
        }
        let mut bytes = vec![0; size];
        let mut at = 0;
        for (first, count) in self.areas(inode) {
            self.check_run(inode, first, count)?;
            let end = size.min(at + width::index(count * self.geometry.fragment_size));
            self.read_place(self.geometry.place(first), &mut bytes[at..end])?;
            at = end;
        }
        Ok(bytes)
    }

    /// All attributes of an inode: namespace, name, value.
    fn all_attributes(&mut self, inode: &Inode) -> Result<Vec<Stored>> {
        let area = self.read_area(inode)?;
        let parsed: std::result::Result<Vec<_>, _> = Attributes::new(&area, self.geometry.order)
            .map(|one| one.map(|one| (one.namespace, one.name.to_vec(), one.value.to_vec())))
            .collect();
        let number = inode.number;
        parsed.map_err(|_| self.cache.corrupt(|| format!("the attributes of inode {number} are damaged")))
    }

    /// The value of an attribute.
    pub fn attribute(&mut self, inode: &Inode, name: &[u8]) -> Result<Vec<u8>> {
        self.check_attributes()?;
        if let Some(kind) = Kind::of_name(name).filter(|_| self.obeys_lists()) {
            return self.list(inode, kind)?.map(|list| list.to_attribute()).ok_or(Errno::NoAttribute);
        }
        let (namespace, own) = self.split(name)?;
        self.stored_attribute(inode, namespace, own)
    }

    /// The value of an attribute by its name on the disk.
    pub(crate) fn stored_attribute(&mut self, inode: &Inode, namespace: u8, own: &[u8]) -> Result<Vec<u8>> {
        let all = self.all_attributes(inode)?;
        let found = all.into_iter().find(|(space, stored, _)| *space == namespace && stored == own);
        found.map(|(_, _, value)| value).ok_or(Errno::NoAttribute)
    }

    /// The names of all attributes.
    pub fn attribute_names(&mut self, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        if self.geometry.version == Version::Ufs1 {
            return Ok(Vec::new());
        }
        let all = self.all_attributes(inode)?;
        let obeys_lists = self.obeys_lists();
        let name = |(namespace, own, _): &Stored| {
            let list = acl::kind_of_stored(own).filter(|_| obeys_lists && *namespace == SYSTEM);
            list.map_or_else(|| join(*namespace, own), |kind| kind.name().to_vec())
        };
        Ok(all.iter().map(name).collect())
    }

    /// Sets an attribute, or removes it where there is no value, and saves the inode.
    pub fn change_attribute(
        &mut self,
        inode: &mut Inode,
        name: &[u8],
        value: Option<&[u8]>,
        how: AttributeWrite,
    ) -> Result<()> {
        self.check_attributes()?;
        if let Some(kind) = Kind::of_name(name).filter(|_| self.obeys_lists()) {
            return self.change_list(inode, kind, value, how);
        }
        let stored = self.split(name)?;
        self.change_stored(inode, stored, value, how)
    }

    /// The same by the name on the disk.
    pub(crate) fn change_stored(
        &mut self,
        inode: &mut Inode,
        (namespace, own): (u8, &[u8]),
        value: Option<&[u8]>,
        how: AttributeWrite,
    ) -> Result<()> {
        let mut all = self.all_attributes(inode)?;
        let at = all.iter().position(|(space, stored, _)| *space == namespace && stored == own);
        match (at, value, how) {
            (Some(_), Some(_), AttributeWrite::Create) => return Err(Errno::Exists),
            (None, None, _) | (None, Some(_), AttributeWrite::Replace) => return Err(Errno::NoAttribute),
            (Some(at), Some(value), _) => all[at].2 = value.to_vec(),
            (None, Some(value), _) => all.push((namespace, own.to_vec(), value.to_vec())),
            (Some(at), None, _) => {
                all.remove(at);
            }
        }
        let mut area = Vec::new();
        for (namespace, own, value) in &all {
            if !append(&mut area, self.geometry.order, *namespace, own, value) {
                return Err(Errno::ValueTooLarge);
            }
        }
        self.write_area(inode, &area)
    }

    fn write_area(&mut self, inode: &mut Inode, area: &[u8]) -> Result<()> {
        let (block_size, size) = (self.geometry.block_size, self.geometry.fragment_size);
        if area.len() as u64 > ATTRIBUTE_BLOCKS as u64 * block_size {
            return Err(Errno::NoSpace);
        }
        let old = self.attribute_runs(inode);
        let mut taken = 0;
        for index in 0..ATTRIBUTE_BLOCKS {
            let part = area.chunks(width::index(block_size)).nth(index).unwrap_or_default();
            let count = (part.len() as u64).div_ceil(size);
            let mut first = 0;
            if count > 0 {
                let ask = self.ask(inode, BlockKind::Attributes, index as u64, None);
                first = self.take_fragments(&ask, count)?;
                let mut bytes = part.to_vec();
                bytes.resize(width::index(count * size), 0);
                self.write_place(self.geometry.place(first), &bytes)?;
            }
            inode.raw.set_attribute_block(index, first);
            taken += count;
        }
        inode.raw.set_attributes_size(u32::try_from(area.len()).map_err(|_| Errno::NoSpace)?);
        let freed = old.iter().map(|(_, count, _)| count).sum();
        inode.count_fragments(size, taken, freed);
        self.cache.then();
        self.save(inode)?;
        self.cache.then();
        self.give_back_all(old)
    }
}
