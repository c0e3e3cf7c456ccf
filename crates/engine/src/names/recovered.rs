// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names that files and directories without one get in `lost+found`: their number behind a hash sign, by which scripts find them, and
//! the last part of the name that they had before, where something still tells it.

use std::collections::BTreeMap;

use fsmend_base::InodeNo;

use super::former::Witness;
use crate::Findings;

/// Longest name, in bytes. No format that is repaired allows more.
pub const NAME_LEN_MAX: usize = 255;

/// What each inode that has lost its name was called, without the path: the most trustworthy name that the findings tell.
pub fn last_names(findings: &Findings) -> BTreeMap<InodeNo, String> {
    let mut names = BTreeMap::new();
    for problem in findings.iter() {
        let Some(inode) = problem.object.inode else { continue };
        let former = problem.former_names();
        let name = former.iter().filter(|name| name.witness != Witness::ParentEntry);
        // A `/` cannot be part of a name, and bytes that are no text are written out in the path.
        let mut last = name.filter_map(|name| name.path.rsplit('/').next());
        if let Some(last) = last.find(|last| !matches!(*last, "" | "." | "..")) {
            names.entry(inode).or_insert_with(|| last.to_owned());
        }
    }
    names
}

/// The name in `lost+found`: `number`, e.g. `#46`, and behind it what the file was called. It stays within [`NAME_LEN_MAX`] bytes and keeps
/// the end of the name, which tells what kind of file it is.
pub fn recovered_name(number: &str, last_name: Option<&str>) -> String {
    let Some(last_name) = last_name else { return number.to_owned() };
    let is_text = |character: &char| !character.is_control() && *character != '/';
    let clean: String = last_name.chars().filter(is_text).collect();
    let room = NAME_LEN_MAX.saturating_sub(number.len() + 1);
    let mut from = clean.len().saturating_sub(room);
    while !clean.is_char_boundary(from) {
        from += 1;
    }
    match &clean[from..] {
        "" => number.to_owned(),
        kept => format!("{number}.{kept}"),
    }
}

#[cfg(test)]
mod tests {
    use fsmend_base::BlockNo;

    use super::*;
    use crate::{FormerName, Problem, Value};

    crate::problem_rows! {
        /// Without a name.
        NAMELESS = "demo.inode.nameless" {
            severity: Major, evidence: Cross, preen: true, message: "{inode} has no name",
            meaning: "m", repair: "r", loss: nothing, peers: [],
        }
    }

    #[test]
    fn the_number_comes_first() {
        assert_eq!(recovered_name("#46", Some("thesis.txt")), "#46.thesis.txt");
        assert_eq!(recovered_name("#46", None), "#46");
        assert_eq!(recovered_name("#46", Some("")), "#46");
        assert_eq!(recovered_name("#46", Some("a\u{7}/b")), "#46.ab");
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        let long = format!("{}.txt", "\u{e9}".repeat(130));
        let name = recovered_name("#46", Some(&long));
        assert!(name.len() <= NAME_LEN_MAX && name.len() > NAME_LEN_MAX - 2, "{}", name.len());
        assert!(name.starts_with("#46.\u{e9}") && name.ends_with("\u{e9}.txt"), "{name}");
    }

    #[test]
    fn the_most_trustworthy_name_counts() {
        let name = |witness, path: &str| {
            Value::Former(FormerName { witness, path: path.to_owned(), block: Some(BlockNo(7)) })
        };
        let mut findings = Findings::new();
        let mut raise = |inode, names| {
            let problem = Problem::new(&NAMELESS).inode(InodeNo(inode));
            findings.raise(problem.detail("former_names", Value::List(names)));
        };
        raise(12, vec![name(Witness::Entry, "/a/b\\xff"), name(Witness::Journal, "/a/c")]);
        raise(13, vec![name(Witness::ParentEntry, "/a")]);
        raise(14, vec![name(Witness::DeletedEntry, "<9>/..")]);
        assert_eq!(last_names(&findings), BTreeMap::from([(InodeNo(12), "b\\xff".to_owned())]));
        assert_eq!(ROWS.len(), 1);
    }
}
