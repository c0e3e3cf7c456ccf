// SPDX-License-Identifier: MIT OR Apache-2.0
//! The catalogue: every kind of problem that the checks of ext2, ext3 and ext4 can name.

use fsmend_engine::Row;

use crate::{
    allocation, bad_blocks, directory, extent, group, indirect, inline_data, inode, journal, links, mmp,
    orphan, owners, quota, region, resize_inode, scan, superblock, xattr,
};

/// Rows about blocks that several files claim.
pub const SHARING: &[&Row] = &[&owners::problems::MULTIPLY_CLAIMED, &owners::problems::SHARES_BLOCKS];

/// Every row, sorted by code.
pub fn all() -> Vec<&'static Row> {
    let modules = [
        superblock::problems::ROWS,
        group::problems::ROWS,
        inode::problems::ROWS,
        extent::problems::ROWS,
        indirect::problems::ROWS,
        inline_data::problems::ROWS,
        xattr::problems::ROWS,
        directory::problems::ROWS,
        journal::problems::ROWS,
        orphan::problems::ROWS,
        quota::problems::ROWS,
        mmp::problems::ROWS,
        resize_inode::problems::ROWS,
        bad_blocks::problems::ROWS,
        allocation::problems::ROWS,
        links::problems::ROWS,
        owners::problems::ROWS,
        scan::problems::ROWS,
        region::problems::ROWS,
    ];
    let mut rows: Vec<&'static Row> = modules.into_iter().flatten().copied().collect();
    rows.sort_by_key(|row| row.code);
    rows
}

/// The row with this code.
pub fn find(code: &str) -> Option<&'static Row> {
    all().into_iter().find(|row| row.code == code)
}

/// The rows that stand for this code number of e2fsck.
pub fn find_peer(number: u32) -> Vec<&'static Row> {
    all().into_iter().filter(|row| row.peers.contains(&number)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    /// What a code may be about: its second word.
    const OBJECTS: &[&str] = &[
        "allocation",
        "block",
        "superblock",
        "group",
        "inode",
        "extent",
        "blockmap",
        "xattr",
        "inline",
        "directory",
        "htree",
        "journal",
        "orphan",
        "quota",
        "mmp",
        "resize",
        "badblocks",
        "region",
    ];

    #[test]
    fn codes_are_unique() {
        let rows = all();
        for pair in rows.windows(2) {
            assert_ne!(pair[0].code, pair[1].code);
        }
    }

    #[test]
    fn codes_are_well_formed() {
        for row in all() {
            let words: Vec<&str> = row.code.split('.').collect();
            let [family, object, what] = words[..] else { panic!("{} does not have three words", row.code) };
            assert_eq!(family, "ext", "{}", row.code);
            assert!(OBJECTS.contains(&object), "{}: unknown object", row.code);
            assert!(!what.is_empty() && !what.starts_with('-') && !what.ends_with('-'), "{}", row.code);
            assert!(
                what.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{}",
                row.code
            );
        }
    }

    #[test]
    fn every_row_explains_itself() {
        for row in all() {
            for text in [row.meaning, row.repair, row.loss] {
                assert!(text.len() > 4, "{}: an explanation is missing", row.code);
                assert!(text.ends_with('.'), "{}: not a sentence: {text}", row.code);
                // Names from the format, like `uninit_bg`, keep their lower case.
                let name = text.split(' ').next().is_some_and(|word| word.contains('_'));
                let capital = text.starts_with(|c: char| !c.is_lowercase());
                assert!(capital || name, "{}: not a sentence: {text}", row.code);
            }
            assert!(row.message.len() > 10, "{}: the message says too little", row.code);
            assert!(!row.message.ends_with('.'), "{}: a message has no full stop", row.code);
            let acronym = row.message.chars().take(2).all(|c| c.is_ascii_uppercase());
            assert!(acronym || !row.message.starts_with(|c: char| c.is_uppercase()), "{}: capital", row.code);
        }
    }

    #[test]
    fn message_placeholders_are_well_formed() {
        for row in all() {
            let mut rest = row.message;
            while let Some(open) = rest.find(['{', '}']) {
                assert!(rest[open..].starts_with('{'), "{}: stray brace", row.code);
                let Some(close) = rest[open..].find('}') else { panic!("{}: open brace", row.code) };
                let operand = &rest[open + 1..open + close];
                // What stands behind a question mark comes before the operand, if there is one.
                let mut parts = operand.split_once('?').map_or(operand, |(name, _)| name).split(':');
                let name = parts.next().unwrap_or_default();
                let words = parts.filter(|word| !word.is_empty()).count();
                assert!(words == 0 || words == 2, "{}: {name} takes two words", row.code);
                assert!(!name.is_empty(), "{}: empty placeholder", row.code);
                assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}: {{{name}}}", row.code);
                rest = &rest[open + close + 1..];
            }
        }
    }

    #[test]
    fn peers_are_numbers_of_e2fsck() {
        for row in all() {
            for peer in row.peers {
                assert!((1..=0x06_FFFF).contains(peer), "{}: {peer:#08x}", row.code);
            }
        }
    }
}
