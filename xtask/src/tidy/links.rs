// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links of the documentation lead somewhere.

use std::path::Path;

use super::{Remarks, Source};

/// Checks the relative links of all Markdown files.
pub fn check(root: &Path, sources: &[Source], remarks: &mut Remarks) {
    for source in sources.iter().filter(|source| source.path.ends_with(".md")) {
        let folder = root.join(&source.path).parent().map(Path::to_owned).unwrap_or_default();
        for target in targets(&source.text) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty()
                && !file.contains("://")
                && !file.starts_with("mailto:")
                && !folder.join(file).exists()
            {
                remarks.error(&source.path, format!("links to {target}, which is not there"));
            }
        }
    }
}

/// What stands in the round brackets of `[text](target)`.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("](")
        .filter_map(move |(at, _)| text[at + 2..].split(')').next())
        .filter(|target| !target.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_link_is_found() {
        let text = "[a](Cargo.toml) [b](not-there.md#x) [c](https://example.invalid) [d](#x)".to_owned();
        let mut remarks = Remarks::default();
        check(
            Path::new(env!("CARGO_MANIFEST_DIR")),
            &[Source { path: "x.md".to_owned(), text }],
            &mut remarks,
        );
        assert_eq!(remarks.errors.len(), 1, "{:?}", remarks.errors);
    }
}
