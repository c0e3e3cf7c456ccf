// SPDX-License-Identifier: MIT OR Apache-2.0
//! Crates can be published: their manifests say what they are, where they come from and what they may be used for.

use super::{Remarks, Source};

/// What a registry asks for, or shows.
const FIELDS: [&str; 7] =
    ["description", "license", "repository", "keywords", "categories", "rust-version", "version"];

/// Checks the manifest of every crate that is not kept from being published.
pub fn check(sources: &[Source], remarks: &mut Remarks) {
    for source in sources.iter().filter(|source| source.path.ends_with("/Cargo.toml")) {
        let package = source.text.split("[package]").nth(1).unwrap_or_default();
        let package = package.split("\n[").next().unwrap_or_default();
        if package.lines().any(|line| line == "publish = false") {
            continue;
        }
        for field in FIELDS {
            let begins = |line: &str| {
                line.strip_prefix(field)
                    .is_some_and(|rest| rest.starts_with(" =") || rest.starts_with(".workspace"))
            };
            if !package.lines().any(begins) {
                remarks.error(&source.path, format!("has no {field}, and could not be published"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> usize {
        let mut remarks = Remarks::default();
        check(&[Source { path: "crates/a/Cargo.toml".to_owned(), text: text.to_owned() }], &mut remarks);
        remarks.errors.len()
    }

    #[test]
    fn what_is_missing_is_named_unless_the_crate_stays_at_home() {
        assert_eq!(errors("[package]\nname = \"a\"\n\n[dependencies]\ndescription = \"no\"\n"), FIELDS.len());
        assert_eq!(errors("[package]\npublish = false\n"), 0);
        let whole: String = FIELDS.iter().map(|field| format!("{field} = \"x\"\n")).collect();
        assert_eq!(errors(&format!("[package]\n{whole}")), 0);
    }
}
