// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended attributes.

use crate::bytes::{get_u8, get_u16};
use crate::{Parsed, Wrong};

/// Bytes that all attributes of an inode take at most.
pub const ATTRIBUTES_MAX: usize = 8192;

/// An attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attribute {
    /// Name, prefix included.
    pub name: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
}

/// Reads attributes, their length in front.
pub fn parse_attributes(bytes: &[u8]) -> Parsed<Vec<Attribute>> {
    let len = usize::from(get_u16(bytes, 0));
    let mut bytes = bytes.get(2..2 + len).ok_or(Wrong::Short)?;
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let name_end = 3 + usize::from(get_u8(bytes, 0));
        let value_end = name_end + usize::from(get_u16(bytes, 1));
        let name = bytes.get(3..name_end).ok_or(Wrong::Short)?;
        let value = bytes.get(name_end..value_end).ok_or(Wrong::Short)?;
        all.push(Attribute { name: name.to_vec(), value: value.to_vec() });
        bytes = bytes.get(value_end..).unwrap_or_default();
    }
    Ok(all)
}

/// Their bytes, the length in front; `None` if there are more than may be.
pub fn store_attributes(all: &[Attribute]) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 2];
    for attribute in all {
        bytes.push(u8::try_from(attribute.name.len()).ok()?);
        bytes.extend_from_slice(&u16::try_from(attribute.value.len()).ok()?.to_le_bytes());
        bytes.extend_from_slice(&attribute.name);
        bytes.extend_from_slice(&attribute.value);
    }
    let len = u16::try_from(bytes.len() - 2).ok().filter(|_| bytes.len() <= ATTRIBUTES_MAX)?;
    bytes[..2].copy_from_slice(&len.to_le_bytes());
    Some(bytes)
}
