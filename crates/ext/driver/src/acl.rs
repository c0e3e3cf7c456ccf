//! Access control lists: the disk has a shorter form of them than programs see.
//!
//! ```text
//! programs:  u32 version 2 | { u16 tag, u16 permissions, u32 id } ...
//! disk:      u32 version 1 | { u16 tag, u16 permissions [, u32 id] } ...     an id only where the tag names somebody
//! ```
//! Source: the kernel's `posix_acl_xattr.h`; "ext4 Data Structures and Algorithms", extended attributes.

const VERSION_SEEN: u32 = 2;
const VERSION_DISK: u32 = 1;
/// Tags that name a user or a group.
const USER: u16 = 0x02;
const GROUP: u16 = 0x08;
/// Tags that name nobody in particular: owner, owning group, mask, others.
const NAMELESS: [u16; 4] = [0x01, 0x04, 0x10, 0x20];
/// What stands in the place of an id that is none.
const NO_ID: u32 = u32::MAX;

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The form that programs see; `None` if the list is broken.
pub(crate) fn to_caller(disk: &[u8]) -> Option<Vec<u8>> {
    if word(disk, 0)? != VERSION_DISK {
        return None;
    }
    let mut seen = VERSION_SEEN.to_le_bytes().to_vec();
    let mut at = 4;
    while at < disk.len() {
        let (tag, permissions) = (half(disk, at)?, disk.get(at + 2..at + 4)?);
        let has_id = matches!(tag, USER | GROUP);
        if !has_id && !NAMELESS.contains(&tag) {
            return None;
        }
        let id = if has_id { word(disk, at + 4)? } else { NO_ID };
        seen.extend_from_slice(&tag.to_le_bytes());
        seen.extend_from_slice(permissions);
        seen.extend_from_slice(&id.to_le_bytes());
        at += if has_id { 8 } else { 4 };
    }
    Some(seen)
}

/// The form of the disk; `None` if the list is broken.
pub(crate) fn to_disk(seen: &[u8]) -> Option<Vec<u8>> {
    let entries = seen.get(4..)?;
    if word(seen, 0)? != VERSION_SEEN || !entries.len().is_multiple_of(8) {
        return None;
    }
    let mut disk = VERSION_DISK.to_le_bytes().to_vec();
    for entry in entries.chunks_exact(8) {
        let tag = half(entry, 0)?;
        match tag {
            USER | GROUP => disk.extend_from_slice(entry),
            _ if NAMELESS.contains(&tag) => disk.extend_from_slice(&entry[..4]),
            _ => return None,
        }
    }
    Some(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_from_the_disk() {
        let mut seen = vec![2, 0, 0, 0];
        for (tag, id) in [(1u16, NO_ID), (2, 1000), (4, NO_ID), (8, 7), (0x10, NO_ID), (0x20, NO_ID)] {
            seen.extend_from_slice(&tag.to_le_bytes());
            seen.extend_from_slice(&[6, 0]);
            seen.extend_from_slice(&id.to_le_bytes());
        }
        let disk = to_disk(&seen);
        assert_eq!(disk.as_ref().map(Vec::len), Some(4 + 4 * 4 + 2 * 8));
        assert_eq!(disk.and_then(|disk| to_caller(&disk)), Some(seen));
        assert_eq!(to_caller(&[1, 0, 0, 0, 99, 0, 6, 0]), None);
    }
}
