//! Every row of the problem catalogue is raised by a test: its static or its code is named in one.

use std::collections::BTreeSet;

use super::sources::is_test_file;
use super::{Remarks, Source};

/// Checks the rows of all `problems.rs` files of the ext checker.
pub fn check(sources: &[Source], remarks: &mut Remarks) {
    let ours: Vec<&Source> = sources
        .iter()
        .filter(|source| {
            source.path.ends_with(".rs")
                && (source.path.starts_with("crates/ext/check/")
                    || source.path.starts_with("crates/testkit/"))
        })
        .collect();
    let named = names_in_tests(&ours);
    for source in ours.iter().filter(|source| source.path.ends_with("/problems.rs")) {
        for (name, code) in rows(&source.text) {
            if !named.contains(name) && !named.contains(code) {
                remarks.error(&source.path, format!("no test names {name} ({code})"));
            }
        }
    }
}

/// Every identifier and every quoted text that stands in test code.
fn names_in_tests<'t>(sources: &[&'t Source]) -> BTreeSet<&'t str> {
    let mut names = BTreeSet::new();
    for source in sources {
        let tests = if is_test_file(&source.path) {
            source.text.as_str()
        } else {
            source.text.find("#[cfg(test)]").map_or("", |at| &source.text[at..])
        };
        names.extend(
            tests
                .split(|character: char| !character.is_alphanumeric() && character != '_')
                .filter(|word| !word.is_empty()),
        );
        names.extend(tests.split('"').skip(1).step_by(2));
    }
    names
}

/// Static name and code of each row (`NAME = "code" {`).
fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (name, rest) = line.trim().split_once(" = \"")?;
        let code = rest.strip_suffix("\" {")?;
        name.chars()
            .all(|character| character.is_ascii_uppercase() || character.is_ascii_digit() || character == '_')
            .then_some((name, code))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_a_test_is_found() {
        let row = |name: &str, code: &str| format!("    {name} = \"{code}\" {{\n");
        let problems = row("ONE", "ext.a.one") + &row("TWO", "ext.a.two") + &row("THREE", "ext.a.three");
        let test = "//! Tests.\nassert!(found.has(&ONE)); assert_eq!(code, \"ext.a.two\");";
        let sources = [
            Source { path: "crates/ext/check/src/a/problems.rs".to_owned(), text: problems },
            Source { path: "crates/ext/check/src/a/tests.rs".to_owned(), text: test.to_owned() },
        ];
        let mut remarks = Remarks::default();
        check(&sources, &mut remarks);
        assert_eq!(remarks.errors.len(), 1, "{:?}", remarks.errors);
        assert!(remarks.errors[0].contains("ext.a.three"));
    }
}
