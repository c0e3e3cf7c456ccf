// SPDX-License-Identifier: MIT OR Apache-2.0
//! Crates depend on each other as the table in ARCHITECTURE.md says, and in no other way.

use std::collections::BTreeMap;

use super::{Remarks, Source};

/// Checks every `Cargo.toml` against the table.
pub fn check(sources: &[Source], remarks: &mut Remarks) {
    let Some(architecture) = sources.iter().find(|source| source.path == "ARCHITECTURE.md") else {
        remarks.error("ARCHITECTURE.md", "is missing, and with it the table of crates");
        return;
    };
    let allowed = read_table(&architecture.text);
    for manifest in sources.iter().filter(|source| source.path.ends_with("/Cargo.toml")) {
        let Some(folder) = manifest.path.strip_suffix("/Cargo.toml") else { continue };
        let Some(name) = folder.strip_prefix("crates/").or(Some(folder).filter(|folder| *folder == "xtask"))
        else {
            continue;
        };
        let Some(crates) = allowed.get(name) else {
            remarks.error(&manifest.path, "this crate has no row in the table of ARCHITECTURE.md");
            continue;
        };
        for dependency in dependencies(&manifest.text) {
            if !crates.contains(&dependency) {
                remarks.error(
                    &manifest.path,
                    format!("depends on {dependency}, which the table in ARCHITECTURE.md does not allow"),
                );
            }
        }
    }
}

/// Rows `| crate | what | depends on |`, as crate and the crates it may depend on.
fn read_table(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut table: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, _, crates, ..] = cells.as_slice() else { continue };
        let name = name.trim_matches('`').trim_start_matches("crates/").to_owned();
        let crates = match crates.strip_prefix("all above") {
            Some(rest) => {
                let but = rest.trim().trim_start_matches("but").trim().trim_matches('`');
                table.keys().filter(|name| *name != but).cloned().collect()
            }
            None => crates.split(',').map(|name| name.trim().trim_matches('`').to_owned()).collect(),
        };
        table.insert(name, crates);
    }
    table
}

/// Our own crates under `[dependencies]` of a manifest (`fsmend-ext-format` is the crate `ext/format`).
/// What stands under `[dev-dependencies]` is left alone: tests may use the testkit.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut crates = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim();
        } else if section == "[dependencies]" && line.starts_with("fsmend.") {
            crates.push("fsmend".to_owned());
        } else if section == "[dependencies]" && line.starts_with("fsmend-") {
            let name = line.trim_start_matches("fsmend-").split(['.', ' ', '=']).next().unwrap_or_default();
            let is_of_family = ["ext-", "ufs-", "hybridfs-"].iter().any(|family| name.starts_with(family));
            crates.push(if is_of_family { name.replacen('-', "/", 1) } else { name.to_owned() });
        }
    }
    crates
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| `crates/base` | x | nothing |\n| `crates/ext/check` | x | base |\n| `crates/cli` | x | all above |\n\
                         | `crates/testkit` | x | all above but cli |\n";

    #[test]
    fn the_table_says_who_may_use_whom() {
        let table = read_table(TABLE);
        assert_eq!(table["cli"], ["base", "ext/check"]);
        assert_eq!(table["testkit"], ["base", "ext/check"]);
        assert_eq!(table["ext/check"], ["base"]);
    }

    #[test]
    fn a_forbidden_edge_is_found() {
        let manifest = "[dependencies]\nfsmend-ext-check.workspace = true\n[dev-dependencies]\nfsmend-testkit.workspace = true\n";
        let sources = [
            Source { path: "ARCHITECTURE.md".to_owned(), text: TABLE.to_owned() },
            Source { path: "crates/base/Cargo.toml".to_owned(), text: manifest.to_owned() },
        ];
        let mut remarks = Remarks::default();
        check(&sources, &mut remarks);
        assert_eq!(remarks.errors.len(), 1, "{:?}", remarks.errors);
    }
}
