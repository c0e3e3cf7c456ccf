// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended attributes: in the inode as far as there is room, the rest in one block, which inodes may share.

use fsmend_base::{BlockNo, width};
use fsmend_blockcache::{Block, acl::Acl};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::xattr::{
    self, Area, BLOCK_HEADER_SIZE, CharSign, Entry, INODE_HEADER_SIZE, RawXattrEntry, RawXattrHeader,
    XATTR_MAGIC, entry_len, inode_area_start, name_index, padded,
};
use fsmend_vfs::{AttributeWrite, Errno, InodeNo, Result, Time};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::acl;
use crate::inode::Inode;
use crate::policy::{Ask, BlockKind};
use crate::volume::Volume;

/// Longest name without its prefix.
const NAME_MAX: usize = 255;
/// The name, behind its prefix, of the attribute in which contents live.
const DATA: &[u8] = b"data";
/// The end mark behind the entries.
const END_MARK: usize = 4;

/// An attribute in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Attribute {
    index: u8,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Attribute {
    fn is_called(&self, index: u8, name: &[u8]) -> bool {
        self.index == index && self.name == name
    }

    /// Whether it is where contents live that have no room in `i_block`.
    fn is_data(&self) -> bool {
        self.is_called(name_index::SYSTEM, DATA)
    }

    fn len(&self) -> usize {
        entry_len(width::len_u8(self.name.len())) + padded(self.value.len())
    }
}

/// Splits a name in the number of its prefix and the rest.
fn split_name(name: &[u8]) -> Result<(u8, &[u8])> {
    let whole = [name_index::POSIX_ACL_ACCESS, name_index::POSIX_ACL_DEFAULT, name_index::RICHACL];
    for index in whole {
        if name == xattr::prefix(index).as_bytes() {
            return Ok((index, &[]));
        }
    }
    for index in [name_index::USER, name_index::TRUSTED, name_index::SECURITY, name_index::SYSTEM] {
        if let Some(rest) = name.strip_prefix(xattr::prefix(index).as_bytes()) {
            // `system.data` is where files keep what does not fit in their inode.
            let is_ours = index == name_index::SYSTEM && rest == DATA;
            return match rest.len() {
                _ if is_ours => Err(Errno::NotSupported),
                0 => Err(Errno::Invalid),
                len if len > NAME_MAX => Err(Errno::NameTooLong),
                _ => Ok((index, rest)),
            };
        }
    }
    Err(Errno::NotSupported)
}

fn is_acl(index: u8) -> bool {
    matches!(index, name_index::POSIX_ACL_ACCESS | name_index::POSIX_ACL_DEFAULT)
}

impl Volume {
    /// The attributes of an area; those whose value lies in an inode of its own are read from there.
    fn collect(&mut self, bytes: &[u8], is_block: bool, number: InodeNo) -> Result<Vec<Attribute>> {
        let area = if is_block { Some(Area::of_block(bytes)) } else { Area::of_inode(bytes) };
        let Some(area) = area else { return Ok(Vec::new()) };
        let entries: std::result::Result<Vec<Entry<'_>>, _> = area.entries().collect();
        let Ok(entries) = entries else { return Err(self.broken_attributes(number)) };
        let mut all = Vec::with_capacity(entries.len());
        for entry in entries {
            let value = if entry.value_inode == 0 {
                area.value(&entry).map(<[u8]>::to_vec)
            } else {
                self.value_in_inode(&entry)?
            };
            let Some(value) = value else { return Err(self.broken_attributes(number)) };
            all.push(Attribute { index: entry.name_index, name: entry.name.to_vec(), value });
        }
        Ok(all)
    }

    fn value_in_inode(&mut self, entry: &Entry<'_>) -> Result<Option<Vec<u8>>> {
        let holder = self.load_any(InodeNo(entry.value_inode))?;
        let len = entry.value_size;
        if len > xattr::VALUE_SIZE_MAX || holder.raw.size() != u64::from(len) || !holder.has_map() {
            return Ok(None);
        }
        let mut value = vec![0; len as usize];
        let read = self.read_file(&holder, 0, &mut value)?;
        Ok((read == value.len()).then_some(value))
    }

    fn broken_attributes(&mut self, number: InodeNo) -> Errno {
        self.cache.corrupt(|| format!("the attributes of inode {number} are broken"))
    }

    fn acl_block(&self, inode: &Inode) -> u64 {
        inode.raw.file_acl(self.geometry.features.has_incompat(Incompat::BIT64))
    }

    fn set_acl_block(&self, inode: &mut Inode, block: u64) {
        inode.raw.i_file_acl_lo.set(width::low_u32(block));
        inode.raw.i_file_acl_high.set(width::low_u16(block >> 32));
    }

    fn attribute_block(&mut self, inode: &Inode) -> Result<Option<(u64, Block)>> {
        let place = self.acl_block(inode);
        if place == 0 {
            return Ok(None);
        }
        let (seed, has_sums) = (self.geometry.checksum_seed, self.geometry.features.metadata_csum());
        let bytes = self.cache.get_checked(place, "an attribute block", |bytes| {
            !has_sums || checksum::xattr_block(seed, BlockNo(place), bytes).is_some_and(|sum| sum.is_right())
        })?;
        if RawXattrHeader::from_block(&bytes).h_magic.get() != XATTR_MAGIC {
            return Err(self.broken_attributes(inode.number));
        }
        Ok(Some((place, bytes)))
    }

    fn in_block(&mut self, inode: &Inode) -> Result<Vec<Attribute>> {
        match self.attribute_block(inode)? {
            Some((_, bytes)) => self.collect(&bytes, true, inode.number),
            None => Ok(Vec::new()),
        }
    }

    /// The value of an attribute.
    pub fn attribute(&mut self, inode: &Inode, name: &[u8]) -> Result<Vec<u8>> {
        let (index, rest) = split_name(name)?;
        let mut all = self.collect(&inode.record, false, inode.number)?;
        all.extend(self.in_block(inode)?);
        let found = all.into_iter().find(|attribute| attribute.is_called(index, rest));
        let value = found.ok_or(Errno::NoAttribute)?.value;
        if is_acl(index) {
            let list = acl::from_disk(&value).ok_or_else(|| self.broken_attributes(inode.number))?;
            Ok(list.to_attribute())
        } else {
            Ok(value)
        }
    }

    /// The names of all attributes.
    pub fn attribute_names(&mut self, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        let mut all = self.collect(&inode.record, false, inode.number)?;
        all.extend(self.in_block(inode)?);
        let is_hidden = |attribute: &Attribute| {
            let has_no_prefix = xattr::prefix(attribute.index).is_empty();
            has_no_prefix || attribute.is_data()
        };
        let shown = all.iter().filter(|attribute| !is_hidden(attribute));
        Ok(shown
            .map(|attribute| [xattr::prefix(attribute.index).as_bytes(), &attribute.name].concat())
            .collect())
    }

    /// Sets the value of the attribute in which contents live, or removes it; the others stay. The caller saves the inode.
    pub fn set_data(&mut self, inode: &mut Inode, value: Option<&[u8]>) -> Result<()> {
        let mut near = self.collect(&inode.record, false, inode.number)?;
        take_data(&mut near);
        let index = name_index::SYSTEM;
        near.extend(value.map(|value| Attribute { index, name: DATA.to_vec(), value: value.to_vec() }));
        write_to_inode(inode, &mut near)
    }

    /// Bytes that the value of that attribute can have, in fours; `None` where there is no room for the attribute.
    pub fn data_room(&mut self, inode: &Inode) -> Result<Option<usize>> {
        let mut near = self.collect(&inode.record, false, inode.number)?;
        take_data(&mut near);
        let used: usize = near.iter().map(Attribute::len).sum();
        let room = inode_room(inode).checked_sub(used + entry_len(width::len_u8(DATA.len())) + END_MARK);
        Ok(room.map(|room| room & !3))
    }

    /// Sets an attribute, or removes it if there is no value, as part of an operation. The caller saves the inode.
    pub fn change_attribute(
        &mut self,
        inode: &mut Inode,
        name: &[u8],
        value: Option<&[u8]>,
        how: AttributeWrite,
        now: Time,
    ) -> Result<()> {
        let (index, rest) = split_name(name)?;
        let value = match value {
            Some(value) if is_acl(index) => {
                let list = Acl::from_attribute(value).ok_or(Errno::Invalid)?;
                Some(acl::to_disk(&list))
            }
            other => other.map(<[u8]>::to_vec),
        };
        let mut near = self.collect(&inode.record, false, inode.number)?;
        let data = take_data(&mut near);
        let mut far = self.in_block(inode)?;
        let was_far = far.clone();
        let before = near.len() + far.len();
        near.retain(|attribute| !attribute.is_called(index, rest));
        far.retain(|attribute| !attribute.is_called(index, rest));
        let is_there = near.len() + far.len() < before;
        match (is_there, how, &value) {
            (true, AttributeWrite::Create, _) => return Err(Errno::Exists),
            (false, AttributeWrite::Replace, _) | (false, _, None) => return Err(Errno::NoAttribute),
            _ => {}
        }
        if let Some(value) = value {
            let new = Attribute { index, name: rest.to_vec(), value };
            let near_room = inode_room(inode).saturating_sub(data.as_ref().map_or(0, Attribute::len));
            let far_room = self.geometry.block_size as usize - BLOCK_HEADER_SIZE;
            if fits(&near, &new, near_room) {
                near.push(new);
            } else if fits(&far, &new, far_room) {
                far.push(new);
            } else if new.len() + END_MARK > near_room.max(far_room) {
                return Err(Errno::NoSpace);
            } else {
                // One that is there may have to make room in the inode for this one in the block, or the other way round.
                near.append(&mut far);
                near.push(new);
                (near, far) = distribute(near, near_room, far_room).ok_or(Errno::NoSpace)?;
            }
        }
        near.extend(data);
        write_to_inode(inode, &mut near)?;
        if far != was_far {
            self.write_to_block(inode, &mut far)?;
        }
        inode.set_ctime(now);
        Ok(())
    }

    /// Puts attributes in the block of an inode: its own, a new one if it shares one, or none if there are none.
    fn write_to_block(&mut self, inode: &mut Inode, attributes: &mut [Attribute]) -> Result<()> {
        let own = match self.attribute_block(inode)? {
            Some((place, bytes)) if RawXattrHeader::from_block(&bytes).h_refcount.get() <= 1 => Some(place),
            _ => None,
        };
        if attributes.is_empty() {
            return self.drop_attribute_block(inode);
        }
        let place = match own {
            Some(place) => place,
            None => {
                self.drop_attribute_block(inode)?;
                let ask = Ask {
                    inode: inode.number,
                    inode_group: self.inode_group(inode.number),
                    kind: BlockKind::Attributes,
                    logical: 0,
                    previous: None,
                };
                let place = self.take_blocks(&ask, 1)?.start.0;
                self.count_blocks(inode, 1)?;
                self.cache.create(place)?;
                self.set_acl_block(inode, place);
                place
            }
        };
        let (seed, has_sums) = (self.geometry.checksum_seed, self.geometry.features.metadata_csum());
        let bytes = self.cache.change(place)?;
        bytes.fill(0);
        write_area(bytes, BLOCK_HEADER_SIZE, 0, attributes)?;
        let header = RawXattrHeader {
            h_magic: U32::new(XATTR_MAGIC),
            h_refcount: U32::new(1),
            h_blocks: U32::new(1),
            h_hash: U32::new(xattr::block_hash(Area::of_block(bytes))),
            ..RawXattrHeader::default()
        };
        header.store(bytes);
        if has_sums {
            checksum::seal_xattr_block(seed, BlockNo(place), bytes);
        }
        Ok(())
    }

    /// An inode lets go of its attribute block. The caller saves the inode.
    pub fn drop_attribute_block(&mut self, inode: &mut Inode) -> Result<()> {
        let Some((place, bytes)) = self.attribute_block(inode)? else { return Ok(()) };
        let mut header = RawXattrHeader::from_block(&bytes);
        drop(bytes);
        let references = header.h_refcount.get();
        if references <= 1 {
            self.free_blocks(place, 1, true)?;
        } else {
            header.h_refcount.set(references - 1);
            let (seed, has_sums) = (self.geometry.checksum_seed, self.geometry.features.metadata_csum());
            let bytes = self.cache.change(place)?;
            header.store(bytes);
            if has_sums {
                checksum::seal_xattr_block(seed, BlockNo(place), bytes);
            }
        }
        self.count_blocks(inode, -1)?;
        self.set_acl_block(inode, 0);
        Ok(())
    }
}

/// Takes the attribute out in which contents live.
fn take_data(attributes: &mut Vec<Attribute>) -> Option<Attribute> {
    let at = attributes.iter().position(Attribute::is_data)?;
    Some(attributes.swap_remove(at))
}

/// Bytes for entries, end mark and values in an inode.
fn inode_room(inode: &Inode) -> usize {
    inode_area_start(&inode.record).map_or(0, |start| inode.record.len() - start - INODE_HEADER_SIZE)
}

fn fits(there: &[Attribute], new: &Attribute, room: usize) -> bool {
    there.iter().map(Attribute::len).sum::<usize>() + new.len() + END_MARK <= room
}

/// The largest go to the block as long as it has room, the rest into the inode.
fn distribute(
    mut all: Vec<Attribute>,
    near_room: usize,
    far_room: usize,
) -> Option<(Vec<Attribute>, Vec<Attribute>)> {
    all.sort_by_key(|attribute| std::cmp::Reverse(attribute.len()));
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for attribute in all {
        if fits(&far, &attribute, far_room) {
            far.push(attribute);
        } else if fits(&near, &attribute, near_room) {
            near.push(attribute);
        } else {
            return None;
        }
    }
    Some((near, far))
}

fn write_to_inode(inode: &mut Inode, attributes: &mut [Attribute]) -> Result<()> {
    let Some(start) = inode_area_start(&inode.record) else {
        return if attributes.is_empty() { Ok(()) } else { Err(Errno::NoSpace) };
    };
    let bytes = inode.record.get_mut(start..).ok_or(Errno::Corrupt)?;
    bytes.fill(0);
    if attributes.is_empty() {
        return Ok(());
    }
    bytes[..INODE_HEADER_SIZE].copy_from_slice(&XATTR_MAGIC.to_le_bytes());
    write_area(bytes, INODE_HEADER_SIZE, INODE_HEADER_SIZE, attributes)
}

/// Writes entries from `entries_at` on, in the order in which they are looked for, and values from the end downwards.
fn write_area(
    bytes: &mut [u8],
    entries_at: usize,
    values_at: usize,
    attributes: &mut [Attribute],
) -> Result<()> {
    attributes.sort_by(|one, other| {
        (one.index, one.name.len(), &one.name).cmp(&(other.index, other.name.len(), &other.name))
    });
    let (mut at, mut value_end) = (entries_at, bytes.len());
    for attribute in attributes.iter() {
        let value_start = value_end.checked_sub(padded(attribute.value.len())).ok_or(Errno::NoSpace)?;
        let entry_end = at + entry_len(width::len_u8(attribute.name.len()));
        if entry_end + END_MARK > value_start {
            return Err(Errno::NoSpace);
        }
        let offset = if attribute.value.is_empty() { 0 } else { value_start - values_at };
        let entry = Entry {
            at,
            name: &attribute.name,
            name_index: attribute.index,
            value_offset: width::len_u16(offset),
            value_inode: 0,
            value_size: width::len_u32(attribute.value.len()),
            hash: 0,
        };
        // The kernel writes to contents without looking at their entry.
        let hash =
            if attribute.is_data() { 0 } else { entry.hash_with_value(&attribute.value, CharSign::Unsigned) };
        let raw = RawXattrEntry {
            e_name_len: width::len_u8(attribute.name.len()),
            e_name_index: attribute.index,
            e_value_offs: U16::new(entry.value_offset),
            e_value_inum: U32::new(0),
            e_value_size: U32::new(entry.value_size),
            e_hash: U32::new(hash),
        };
        let name_at = at + size_of::<RawXattrEntry>();
        bytes[at..name_at].copy_from_slice(raw.as_bytes());
        bytes[name_at..name_at + attribute.name.len()].copy_from_slice(&attribute.name);
        bytes[value_start..value_start + attribute.value.len()].copy_from_slice(&attribute.value);
        (at, value_end) = (entry_end, value_start);
    }
    Ok(())
}
