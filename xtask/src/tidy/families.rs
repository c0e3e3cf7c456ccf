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

/// The program knows families by the registry alone, but for the folders that take the options of another checker.
const PROGRAM: &str = "crates/cli/src/";
const COMPAT: &[&str] = &["crates/cli/src/e2fsck_compat/", "crates/cli/src/fsck_ffs_compat/"];

/// Checks every source of those crates, tests and comments included, and the code of the program.
pub fn check(sources: &[Source], remarks: &mut Remarks) {
    check_program(sources, remarks);
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

fn check_program(sources: &[Source], remarks: &mut Remarks) {
    let is_compat = |path: &str| COMPAT.iter().any(|folder| path.starts_with(folder));
    let of_program = |source: &&Source| source.path.starts_with(PROGRAM) && !is_compat(&source.path);
    for source in sources.iter().filter(of_program) {
        // Tests may take a row or a type of some family as an example.
        let code = source.text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
        for (number, line) in code.enumerate().filter(|_| !source.path.ends_with("/tests.rs")) {
            if let Some(family) = family_of_code(line) {
                remarks.error(
                    &format!("{}:{}", source.path, number + 1),
                    format!("asks for {family}; the program asks the registry of families"),
                );
            }
        }
    }
}

/// A family whose crates or module the line uses, or whose name it compares with. Sentences for people may name any.
fn family_of_code(line: &str) -> Option<&'static str> {
    let is_used = |family: &&str| {
        let (of_crate, module) = (format!("fsmend_{family}_"), format!("fsmend::{family}"));
        let (name, code) = (format!("\"{family}\""), format!("\"{family}."));
        [of_crate, module, name, code].iter().any(|use_| line.contains(use_.as_str()))
    };
    // What e2fsck calls a problem is said for all families.
    FAMILIES.iter().copied().filter(|family| *family != "e2fsck").find(is_used)
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
    fn the_program_asks_the_registry() {
        let errors = |path: &str, text: &str| {
            let mut remarks = Remarks::default();
            check(&[Source { path: path.to_owned(), text: text.to_owned() }], &mut remarks);
            remarks.errors.len()
        };
        for line in [
            "use fsmend_ufs_driver::Ufs;",
            "use fsmend::ext::Ext;",
            "name == \"hybridfs\"",
            "\"ext.block.x\"",
        ] {
            assert_eq!(errors("crates/cli/src/mount/mod.rs", line), 1, "{line}");
            assert_eq!(errors("crates/cli/src/e2fsck_compat/mod.rs", line), 0, "{line}");
            assert_eq!(errors("crates/cli/src/mount/mod.rs", &format!("#[cfg(test)]\n{line}")), 0, "{line}");
        }
        assert_eq!(errors("crates/cli/src/mount/mod.rs", "/// Mounts an ext4 or UFS."), 0);
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
