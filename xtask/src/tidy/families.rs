// SPDX-License-Identifier: MIT OR Apache-2.0
//! Crates that serve all families of file systems name none.

use super::{Remarks, Source};

/// Crates whose sources name no family.
const NEUTRAL: &[&str] =
    &["base", "blockcache", "device", "disksim", "engine", "lab", "mount", "session", "vfs"];
/// Words that name one, as parts of identifiers or of sentences.
const FAMILIES: &[&str] =
    &["ext", "ext2", "ext3", "ext4", "rext3", "e2fsck", "ufs", "ufs1", "ufs2", "ffs", "hybridfs"];
/// Files of these crates that say how others call what they hold.
const EXEMPT: &[&str] = &["crates/device/src/partition/types.rs"];

/// Checks every source of those crates, tests and comments included.
pub fn check(sources: &[Source], remarks: &mut Remarks) {
    for source in sources.iter().filter(|source| is_neutral(&source.path)) {
        for (number, line) in source.text.lines().enumerate() {
            if let Some(family) = family_in(line) {
                remarks.error(
                    &format!("{}:{}", source.path, number + 1),
                    format!("names {family}; this crate serves all families"),
                );
            }
        }
    }
}

fn is_neutral(path: &str) -> bool {
    let of_neutral = NEUTRAL.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
    of_neutral && !EXEMPT.contains(&path)
}

/// A family that the line names as a word, or as a word of an identifier.
fn family_in(line: &str) -> Option<String> {
    let words = line.split(|character: char| !character.is_ascii_alphanumeric());
    words.flat_map(|word| humps(word).into_iter().enumerate()).find_map(|(at, word)| {
        // The traits of the standard library that extend a type end so (`FileExt`).
        let is_extension = at > 0 && word == "ext";
        (FAMILIES.contains(&word.as_str()) && !is_extension).then_some(word)
    })
}

/// The words of `Ext3Policy`, in small letters.
fn humps(word: &str) -> Vec<String> {
    let mut humps: Vec<String> = Vec::new();
    let mut was_small = false;
    for character in word.chars() {
        match humps.last_mut() {
            Some(hump) if !(was_small && character.is_uppercase()) => {
                hump.push(character.to_ascii_lowercase())
            }
            _ => humps.push(character.to_ascii_lowercase().to_string()),
        }
        was_small = !character.is_uppercase();
    }
    humps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_word_is_found_in_each_neutral_crate() {
        for name in NEUTRAL {
            let path = format!("crates/{name}/src/lib.rs");
            let mut remarks = Remarks::default();
            check(
                &[Source { path: path.clone(), text: "//! Whole.\n// As ext4 does.\n".to_owned() }],
                &mut remarks,
            );
            assert_eq!(remarks.errors, [format!("{path}:2: names ext4; this crate serves all families")]);
        }
        let mut remarks = Remarks::default();
        check(
            &[Source { path: "crates/ext/check/src/lib.rs".to_owned(), text: "// ext4".to_owned() }],
            &mut remarks,
        );
        assert!(remarks.errors.is_empty(), "a family may name itself");
    }

    #[test]
    fn families_are_found_in_words_and_identifiers() {
        assert_eq!(family_in("/// The way of ext3:").as_deref(), Some("ext3"));
        assert_eq!(family_in("pub struct Ext3Policy;").as_deref(), Some("ext3"));
        assert_eq!(family_in("fn mount_ufs()").as_deref(), Some("ufs"));
        assert_eq!(family_in("no ext superblock").as_deref(), Some("ext"));
        assert_eq!(family_in("let next = buffer.extend(extent); use std::os::unix::fs::FileExt;"), None);
    }
}
