//! Access control lists on the disk: a shorter form of them than programs see.
//!
//! ```text
//! u32 version 1 | { u16 tag, u16 permissions [, u32 id] } ...     an id only for named users and groups
//! ```
//! Source: "ext4 Data Structures and Algorithms", extended attributes.

use fsmend_blockcache::acl::{Acl, Entry, Tag};

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
