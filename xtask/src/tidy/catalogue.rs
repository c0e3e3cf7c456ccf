//! Every row of the problem catalogue is raised by a test. A test beside the row, or one that imports the row's module,
//! names its static or the last part of its code; any other test names the whole code (`MAGIC` is a row of more than one folder).

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
    let everywhere: BTreeSet<&str> = ours.iter().flat_map(|source| quoted(tests_of(source))).collect();
    for source in ours.iter().filter(|source| source.path.ends_with("/problems.rs")) {
        let folder = source.path.trim_end_matches("problems.rs");
        let imported =
            format!("{}::problems", folder.trim_end_matches('/').rsplit('/').next().unwrap_or_default());
        let beside =
            ours.iter().filter(|other| other.path.starts_with(folder) || tests_of(other).contains(&imported));
        let beside: BTreeSet<&str> =
            beside.flat_map(|source| quoted(tests_of(source)).chain(identifiers(tests_of(source)))).collect();
        for (name, code) in rows(&source.text) {
            let last = code.rsplit('.').next().unwrap_or(code);
            if !everywhere.contains(code) && !beside.contains(name) && !beside.contains(last) {
                remarks.error(&source.path, format!("no test names {name} ({code})"));
            }
        }
    }
}

/// The test code of a file.
fn tests_of<'t>(source: &&'t Source) -> &'t str {
    if is_test_file(&source.path) {
        return &source.text;
    }
    source.text.find("#[cfg(test)]").map_or("", |at| &source.text[at..])
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
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
        let problems = row("ONE", "ext.a.one")
            + &row("TWO", "ext.a.two")
            + &row("THREE", "ext.a.three")
            + &row("FOUR", "ext.a.four");
        let test = "//! Tests.\nassert!(found.has(&ONE)); assert_eq!(code, \"ext.a.two\"); raises(\"four\");";
        let elsewhere = "//! Tests.\nassert!(found.has(&b::THREE));";
        let sources = [
            Source { path: "crates/ext/check/src/a/problems.rs".to_owned(), text: problems },
            Source { path: "crates/ext/check/src/a/tests.rs".to_owned(), text: test.to_owned() },
            Source { path: "crates/ext/check/src/b/tests.rs".to_owned(), text: elsewhere.to_owned() },
        ];
        let mut remarks = Remarks::default();
        check(&sources, &mut remarks);
        assert_eq!(remarks.errors.len(), 1, "{:?}", remarks.errors);
        assert!(remarks.errors[0].contains("ext.a.three"));
    }
}
