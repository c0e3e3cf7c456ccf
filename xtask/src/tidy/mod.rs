// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask tidy`: house rules that neither the compiler nor clippy knows.

mod circles;
mod edges;
mod families;
mod links;
mod manifests;
mod sources;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::workspace;

/// What the rules have to say: errors fail the run, warnings do not.
#[derive(Default)]
pub struct Remarks {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Remarks {
    /// Notes a broken rule.
    pub fn error(&mut self, place: &str, what: impl AsRef<str>) {
        self.errors.push(format!("{place}: {}", what.as_ref()));
    }

    /// Notes something that deserves a look.
    pub fn warn(&mut self, place: &str, what: impl AsRef<str>) {
        self.warnings.push(format!("{place}: {}", what.as_ref()));
    }
}

/// A text file of the repository.
pub struct Source {
    /// Path from the root of the repository, with forward slashes.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Checks all rules over the whole repository.
pub fn run() -> io::Result<()> {
    let root = workspace()?;
    let sources = read_sources(&root)?;
    let mut remarks = Remarks::default();
    edges::check(&sources, &mut remarks);
    families::check(&sources, &mut remarks);
    sources::check(&sources, &mut remarks);
    circles::check(&sources, &mut remarks);
    manifests::check(&sources, &mut remarks);
    links::check(&root, &sources, &mut remarks);
    for warning in &remarks.warnings {
        println!("tidy: warning: {warning}");
    }
    for error in &remarks.errors {
        println!("tidy: {error}");
    }
    match remarks.errors.len() {
        0 => Ok(()),
        errors => Err(io::Error::other(format!("tidy: {errors} broken rules"))),
    }
}

/// All text files of the repository that are not build products, in path order.
fn read_sources(root: &Path) -> io::Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() && !matches!(name.as_str(), "target" | ".git" | "corpus" | "artifacts") {
                folders.push(entry.path());
            } else if kind.is_file() && is_text(&name) {
                sources.push(Source {
                    path: relative(root, entry.path()),
                    text: fs::read_to_string(entry.path())?,
                });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

fn is_text(name: &str) -> bool {
    ["rs", "toml", "md", "sh", "json", "txt", "yml"].iter().any(|end| name.ends_with(&format!(".{end}")))
        || name == "run"
}

fn relative(root: &Path, path: PathBuf) -> String {
    path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/")
}
