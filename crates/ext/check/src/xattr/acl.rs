// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access lists whose tags were overwritten: the kernel refuses everyone but the file's owner, even the superuser, as soon as it cannot read
//! the list.
//!
//! ```text
//! version (32 bits): 1
//! entries: tag (16), permissions (16), and for named users and groups a number (32)
//! ```
//!
//! The tags ascend, and those of the owner, the owning group and all others stand there once. So one wrong tag is nearly always known from
//! the others and the length of the list. Where it is not, the list goes, and the permission bits of the file hold: no list is the same as the shortest one.

use fsmend_ext_format::xattr::{Entry, name_index};

const VERSION: [u8; 4] = 1_u32.to_le_bytes();
const OWNER: u16 = 1;
const NAMED_USER: u16 = 2;
const OWNING_GROUP: u16 = 4;
const NAMED_GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHERS: u16 = 32;
const TAGS: [u16; 6] = [OWNER, NAMED_USER, OWNING_GROUP, NAMED_GROUP, MASK, OTHERS];
/// Longer lists are not restored: their tags are too many to try.
const BYTES_MAX: usize = 512;

/// Whether this is an access list that no hash stands for: whether it was overwritten only its contents tell.
pub(super) fn is_suspect_list(entry: &Entry<'_>) -> bool {
    let is_list = matches!(entry.name_index, name_index::POSIX_ACL_ACCESS | name_index::POSIX_ACL_DEFAULT);
    is_list && entry.name.is_empty() && entry.value_inode == 0 && entry.hash == 0
}

/// Whether `list` can be read to its end, entry by entry. (So can no list at all.) With names the kernel counts on four entries without.
pub(super) fn is_readable(list: &[u8]) -> bool {
    let can_be_counted = |tags: Vec<u16>| {
        let names = tags.iter().filter(|tag| matches!(**tag, NAMED_USER | NAMED_GROUP)).count();
        let others = tags.len() - names;
        others == 4 || names == 0 && others < 4
    };
    list.is_empty() || list.starts_with(&VERSION) && tags_of(list).is_some_and(can_be_counted)
}

/// The length of the sensible list that `bytes` begin with.
pub(super) fn complete_len(bytes: &[u8]) -> Option<usize> {
    let mut at = VERSION.len();
    while let Some(tag) = tag_at(bytes, at).filter(|_| at <= BYTES_MAX) {
        at += entry_len(tag)?;
        if tag == OTHERS {
            let list = bytes.get(..at).filter(|list| list.starts_with(&VERSION))?;
            return tags_of(list).is_some_and(|tags| is_sensible(&tags)).then_some(at);
        }
    }
    None
}

/// The only tag that makes a sensible list of one that cannot be read, and where it belongs; none where there are several, or where one tag
/// is not enough.
pub(super) fn restored(list: &[u8]) -> Option<(usize, u16)> {
    if is_readable(list) || list.len() > BYTES_MAX || !list.starts_with(&VERSION) {
        return None;
    }
    let mut found = None;
    let mut copy = list.to_vec();
    let mut at = VERSION.len();
    // After an invalid tag the place of the next one is unknown: that one, or one before it.
    while let Some(stored) = tag_at(list, at) {
        for tag in TAGS.into_iter().filter(|tag| *tag != stored) {
            copy.get_mut(at..at + 2)?.copy_from_slice(&tag.to_le_bytes());
            if tags_of(&copy).is_some_and(|tags| is_sensible(&tags)) && found.replace((at, tag)).is_some() {
                return None;
            }
        }
        copy.get_mut(at..at + 2)?.copy_from_slice(&stored.to_le_bytes());
        let Some(len) = entry_len(stored) else { break };
        at += len;
    }
    found
}

fn tag_at(list: &[u8], at: usize) -> Option<u16> {
    list.get(at..at + 2)?.first_chunk().copied().map(u16::from_le_bytes)
}

fn entry_len(tag: u16) -> Option<usize> {
    match tag {
        NAMED_USER | NAMED_GROUP => Some(8),
        _ => TAGS.contains(&tag).then_some(4),
    }
}

/// The tags of a list; none where one is unknown, or where the last entry does not end with the list.
fn tags_of(list: &[u8]) -> Option<Vec<u16>> {
    let (mut tags, mut at) = (Vec::new(), VERSION.len());
    while at < list.len() {
        let tag = tag_at(list, at)?;
        at += entry_len(tag)?;
        tags.push(tag);
    }
    (at == list.len()).then_some(tags)
}

/// Whether the tags ascend, none is missing, and those are single that have to be. (With names there has to be a mask.)
fn is_sensible(tags: &[u16]) -> bool {
    let count = |wanted: u16| tags.iter().filter(|tag| **tag == wanted).count();
    let has_names = count(NAMED_USER) + count(NAMED_GROUP) > 0;
    let are_single = [OWNER, OWNING_GROUP, OTHERS].into_iter().all(|tag| count(tag) == 1);
    tags.is_sorted() && are_single && count(MASK) <= 1 && (count(MASK) == 1 || !has_names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(tags: &[u16]) -> Vec<u8> {
        let mut bytes = VERSION.to_vec();
        for tag in tags {
            bytes.extend(tag.to_le_bytes());
            bytes.extend([6, 0]);
            if matches!(*tag, NAMED_USER | NAMED_GROUP) {
                bytes.extend(1000_u32.to_le_bytes());
            }
        }
        bytes
    }

    /// The list with the tag at `at` replaced.
    fn with(tags: &[u16], at: usize, tag: u16) -> Vec<u8> {
        let mut bytes = list(tags);
        bytes[at..at + 2].copy_from_slice(&tag.to_le_bytes());
        bytes
    }

    const USUAL: [u16; 5] = [OWNER, NAMED_USER, OWNING_GROUP, MASK, OTHERS];

    #[test]
    fn lists_that_can_be_read_stay() {
        for tags in [&USUAL[..], &[OWNER, OWNING_GROUP, OTHERS], &[]] {
            assert!(is_readable(&list(tags)));
            assert_eq!(restored(&list(tags)), None);
        }
        assert!(is_readable(&[]));
    }

    #[test]
    fn one_wrong_tag_is_known_from_the_others() {
        for (at, right) in [(4, OWNER), (8, NAMED_USER), (16, OWNING_GROUP), (20, MASK), (24, OTHERS)] {
            for wrong in [0, right | 0x800, 0xFFFF] {
                let bytes = with(&USUAL, at, wrong);
                assert!(!is_readable(&bytes));
                assert_eq!(restored(&bytes), Some((at, right)), "{wrong:#x} at {at}");
            }
        }
        // Where a tag of another length was written.
        assert_eq!(restored(&with(&USUAL, 20, NAMED_USER)), Some((20, MASK)));
    }

    #[test]
    fn what_could_be_two_tags_stays() {
        let (named, group) = ([OWNER, NAMED_USER, NAMED_USER, OWNING_GROUP, MASK, OTHERS], [1, 4, 8, 16, 32]);
        assert_eq!(restored(&with(&named, 16, 0x7777)), Some((16, NAMED_USER)));
        assert_eq!(restored(&with(&group, 8, 0x7777)), Some((8, OWNING_GROUP)));
        let mut two = with(&USUAL, 20, 0x7777);
        two[4] = 0x77;
        assert_eq!(restored(&two), None, "two wrong ones");
        let mut other = with(&USUAL, 20, 0x7777);
        other[0] = 2;
        assert_eq!(restored(&other), None, "another version");
        assert_eq!(restored(&list(&USUAL)[..26]), None, "too short");
        assert_eq!(restored(&vec![1; BYTES_MAX + 1]), None);
    }
}
