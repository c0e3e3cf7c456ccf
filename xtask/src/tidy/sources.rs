// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules for single files: header, length, printing, `unwrap`, words that must not land.

use super::{Remarks, Source};

const LINES_MAX: usize = 700;
const LINES_WARN: usize = 450;
/// The format that shows how little a format needs, and how many lines of code it may have.
const TOY: (&str, usize) = ("crates/testkit/src/toy/", 600);
/// How every source file begins, so that it can be told apart what it may be used for wherever it is copied.
const LICENCE: &str = "// SPDX-License-Identifier: MIT OR Apache-2.0\n";

/// Checks every file by itself.
pub fn check(sources: &[Source], remarks: &mut Remarks) {
    check_toy(sources, remarks);
    for source in sources {
        check_words(source, remarks);
        if source.path.ends_with(".rs") {
            check_shape(source, remarks);
            check_calls(source, remarks);
        }
    }
}

/// Lines of code are those that are neither empty nor comments.
fn check_toy(sources: &[Source], remarks: &mut Remarks) {
    let (folder, most) = TOY;
    let is_code = |line: &&str| !matches!(line.trim_start().as_bytes(), [] | [b'/', b'/', ..]);
    let toy = sources.iter().filter(|source| source.path.starts_with(folder));
    let lines: usize = toy.map(|source| source.text.lines().filter(is_code).count()).sum();
    if lines > most {
        remarks.error(folder, format!("has {lines} lines of code, {most} are the most"));
    }
}

fn check_shape(source: &Source, remarks: &mut Remarks) {
    // `tests.rs` is explained by the module that it tests; libfuzzer wants its attribute first.
    let Some(text) = source.text.strip_prefix(LICENCE) else {
        remarks.error(&source.path, format!("does not begin with {}", LICENCE.trim_end()));
        return;
    };
    let text = text.trim_start();
    let needs_header = !source.path.ends_with("/tests.rs") && !text.starts_with("#![no_main]");
    if needs_header && !text.starts_with("//!") {
        remarks.error(&source.path, "does not open with `//!`: say what the file is for");
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        remarks.error(&source.path, format!("has {lines} lines, {LINES_MAX} are the most: cut it"));
    } else if lines > LINES_WARN {
        remarks.warn(&source.path, format!("has {lines} lines, more than {LINES_WARN}"));
    }
}

/// Words are put together here, so that this file passes its own rules.
fn check_words(source: &Source, remarks: &mut Remarks) {
    let unfinished = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"]].map(|halves| halves.concat());
    let places = [["/wor", "k/"], ["/hom", "e/"]].map(|halves| halves.concat());
    for (number, line) in source.text.lines().enumerate() {
        let place = format!("{}:{}", source.path, number + 1);
        if let Some(word) = unfinished.iter().find(|word| has_word(line, word)) {
            remarks.error(&place, format!("{word}: finish it, or open an issue"));
        }
        if let Some(path) = places.iter().find(|path| starts_a_path(line, path)) {
            remarks.error(&place, format!("names {path}, a folder of one machine"));
        }
    }
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|character: char| !character.is_alphanumeric() && character != '_').any(|piece| piece == word)
}

/// Whether `path` stands in the line at the start of an absolute path (`base/work/` is none).
fn starts_a_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at].ends_with(|before: char| before.is_alphanumeric() || "._-}".contains(before))
    })
}

fn check_calls(source: &Source, remarks: &mut Remarks) {
    let may_print = ["crates/cli/", "xtask/", "crates/fsmend/examples/"]
        .iter()
        .any(|folder| source.path.starts_with(folder));
    if is_test_file(&source.path) {
        return;
    }
    for (number, line) in code_lines(&source.text) {
        let place = format!("{}:{number}", source.path);
        if !may_print
            && ["println!", "eprintln!", "print!(", "eprint!("].iter().any(|call| line.contains(call))
        {
            remarks.error(&place, "prints; only the command line does");
        }
        if line.contains(concat!(".unw", "rap()")) {
            remarks.error(&place, "unwraps outside a test");
        }
    }
}

/// Whether the whole file is for tests.
pub fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.contains("/tests/") || matches!(name, "tests.rs" | "testing.rs") || name.ends_with("_tests.rs")
}

/// Numbered lines before the first `#[cfg(test)]`, without comments.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| !line.trim_start().starts_with("#[cfg(test)]"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(path: &str, text: &str) -> usize {
        let licence = if path.ends_with(".rs") { LICENCE } else { "" };
        errors_of(path, &format!("{licence}{text}"))
    }

    fn errors_of(path: &str, text: &str) -> usize {
        let mut remarks = Remarks::default();
        check(&[Source { path: path.to_owned(), text: text.to_owned() }], &mut remarks);
        remarks.errors.len()
    }

    #[test]
    fn each_rule_is_enforced() {
        assert_eq!(errors("crates/a/src/x.rs", "//! Fine.\nfn f() {}\n"), 0);
        assert_eq!(errors("crates/a/src/x.rs", "fn f() {}\n"), 1);
        assert_eq!(errors_of("crates/a/src/x.rs", "//! Fine, and without a licence.\n"), 1);
        assert_eq!(errors("crates/a/src/x.rs", "//! X.\nfn f() { println!(\"\") }\n"), 1);
        assert_eq!(errors("crates/cli/src/x.rs", "//! X.\nfn f() { println!(\"\") }\n"), 0);
        assert_eq!(errors("crates/a/src/x.rs", concat!("//! X.\nfn f() { g().unw", "rap() }\n")), 1);
        assert_eq!(
            errors("crates/a/src/x.rs", concat!("//! X.\n#[cfg(test)]\nfn f() { g().unw", "rap() }\n")),
            0
        );
        assert_eq!(errors("a.md", concat!("see /wor", "k/x and TO", "DO\n")), 2);
        assert_eq!(errors("a.md", concat!("see target/wor", "k/x\n")), 0);
    }

    #[test]
    fn the_toy_format_stays_small() {
        let lines = |count: usize| {
            errors("crates/testkit/src/toy/x.rs", &format!("//! X.\n{}", "f();\n".repeat(count)))
        };
        assert_eq!((lines(TOY.1), lines(TOY.1 + 1)), (0, 1));
    }

    #[test]
    fn long_files_are_refused() {
        assert_eq!(errors("crates/a/src/x.rs", &"//! X.\n".repeat(LINES_MAX + 1)), 1);
    }
}
