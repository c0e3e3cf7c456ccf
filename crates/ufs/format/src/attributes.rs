// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended attributes of UFS2: entries of a length that is a multiple of eight, one after the other, in up to two blocks of their own.

use crate::order::ByteOrder;
use fsmend_base::width::low_u8;

/// Bytes before the name.
pub const HEADER: usize = 7;
/// The namespace of users.
pub const USER: u8 = 1;
/// The namespace of the system: access lists, labels.
pub const SYSTEM: u8 = 2;

/// An attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attribute<'a> {
    /// Offset in the area.
    pub offset: usize,
    /// Bytes up to the next one.
    pub length: usize,
    /// See [`USER`] and [`SYSTEM`].
    pub namespace: u8,
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// The attributes of an area, from the start to its end or to the first one that makes no sense (`Err` with its offset). Unused room at the end, a length of 0, is no error.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    area: &'a [u8],
    order: ByteOrder,
    at: usize,
}

impl<'a> Attributes<'a> {
    /// The attributes in `area`.
    pub fn new(area: &'a [u8], order: ByteOrder) -> Attributes<'a> {
        Attributes { area, order, at: 0 }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.at;
        let rest = self.area.get(offset..).filter(|rest| !rest.is_empty())?;
        if rest.iter().all(|byte| *byte == 0) {
            self.at = self.area.len();
            return None;
        }
        let attribute = parse(rest, offset, self.order);
        self.at = attribute.map_or(self.area.len(), |attribute| offset + attribute.length);
        Some(attribute.ok_or(offset))
    }
}

fn parse(rest: &[u8], offset: usize, order: ByteOrder) -> Option<Attribute<'_>> {
    let header = rest.get(..HEADER)?;
    let length = usize::try_from(order.u32(header, 0)).ok()?;
    let (namespace, padding, name_length) = (header[4], usize::from(header[5]), usize::from(header[6]));
    if length < HEADER || length % 8 != 0 || length > rest.len() || padding > 7 || name_length == 0 {
        return None;
    }
    let name = rest.get(HEADER..HEADER + name_length)?;
    let value = rest.get((HEADER + name_length).next_multiple_of(8)..length.checked_sub(padding)?)?;
    let is_sound = matches!(namespace, USER | SYSTEM) && !name.contains(&0);
    is_sound.then_some(Attribute { offset, length, namespace, name, value })
}

/// Bytes of an attribute with a name and a value of these lengths.
pub fn needed(name: usize, value: usize) -> usize {
    (HEADER + name).next_multiple_of(8) + value.next_multiple_of(8)
}

/// Adds an attribute to the end of `area`. `false` if its name is empty or longer than 255 bytes, or its value longer than its length can tell.
pub fn append(area: &mut Vec<u8>, order: ByteOrder, namespace: u8, name: &[u8], value: &[u8]) -> bool {
    let length = needed(name.len(), value.len());
    let (Ok(stored), Ok(name_length)) = (u32::try_from(length), u8::try_from(name.len())) else {
        return false;
    };
    if name.is_empty() {
        return false;
    }
    let at = area.len();
    area.resize(at + length, 0);
    let place = &mut area[at..];
    order.put_u32(place, 0, stored);
    place[4] = namespace;
    place[5] = low_u8((value.len().next_multiple_of(8) - value.len()) as u64);
    place[6] = name_length;
    place[HEADER..HEADER + name.len()].copy_from_slice(name);
    let from = (HEADER + name.len()).next_multiple_of(8);
    place[from..from + value.len()].copy_from_slice(value);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_put() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut area = Vec::new();
            assert!(append(&mut area, order, USER, b"colour", b"green"));
            assert!(append(&mut area, order, SYSTEM, b"posix1e.acl_access", b""));
            let good = area.clone();
            area.extend([0; 16]);
            let read: Vec<_> = Attributes::new(&area, order).map(|one| one.expect("sound")).collect();
            assert_eq!((read[0].name, read[0].value), (b"colour".as_slice(), b"green".as_slice()));
            assert_eq!((read.len(), read[1].namespace, read[1].value), (2, SYSTEM, b"".as_slice()));
            let second = read[1].offset;
            let mut bad = good;
            bad[second + 6] = 0;
            assert_eq!(Attributes::new(&bad, order).last(), Some(Err(second)));
        }
    }
}
