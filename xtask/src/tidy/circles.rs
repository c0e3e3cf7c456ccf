// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that import each other in a circle can only be read together: how many may, at most.
//!
//! A file imports what its `use` lines and the paths in its code that begin with `crate::`, `super::` or `self::` lead to. A re-export leads on to
//! where the item is defined, and is no import itself. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use super::{Remarks, Source};

/// Folders, and how many files may make up a circle in them.
const LIMITS: [(&str, usize); 5] = [
    ("crates/ext/check/src", 6),
    ("crates/cli/src", 6),
    ("crates/engine/src", 6),
    ("crates/session/src", 6),
    ("crates/fleet/src", 1),
];

/// A module, by its path from the root of its crate.
type Module = Vec<String>;

/// Checks every folder of the list.
pub fn check(sources: &[Source], remarks: &mut Remarks) {
    for (folder, most) in LIMITS {
        for circle in circles(sources, folder).into_iter().filter(|circle| circle.len() > most) {
            let files: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
            let text = format!("{} files import each other in a circle: {}", circle.len(), files.join(", "));
            remarks.error(folder, text);
        }
    }
}

/// The circles of more than one file below `folder`.
fn circles(sources: &[Source], folder: &str) -> Vec<Vec<Module>> {
    let files: BTreeMap<Module, Imports> = sources
        .iter()
        .filter_map(|source| Some((module_of(source.path.strip_prefix(folder)?)?, Imports::of(&source.text))))
        .filter(|(module, _)| !module.iter().any(|part| part == "tests" || part == "testing"))
        .collect();
    let edges: BTreeMap<&Module, BTreeSet<&Module>> = files
        .iter()
        .map(|(module, imports)| {
            let targets = imports.uses.iter().filter_map(|path| resolve(&files, module, path, 0));
            (module, targets.filter(|target| *target != module && !target.is_empty()).collect())
        })
        .collect();
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        edges.keys().map(|module| (*module, reachable(&edges, module))).collect();
    let mut found: Vec<Vec<Module>> = Vec::new();
    let mut seen: BTreeSet<&Module> = BTreeSet::new();
    for module in edges.keys() {
        if seen.contains(module) {
            continue;
        }
        let is_mutual = |other: &&&Module| reach[**other].contains(*module);
        let circle: Vec<&Module> = reach[*module].iter().filter(is_mutual).copied().collect();
        seen.extend(&circle);
        if circle.len() > 1 {
            found.push(circle.into_iter().cloned().collect());
        }
    }
    found
}

fn reachable<'m>(edges: &BTreeMap<&'m Module, BTreeSet<&'m Module>>, from: &Module) -> BTreeSet<&'m Module> {
    let mut reached: BTreeSet<&Module> = BTreeSet::new();
    let mut next: Vec<&Module> = edges.get(from).into_iter().flatten().copied().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(edges.get(module).into_iter().flatten());
        }
    }
    reached
}

/// `/a/mod.rs` and `/a.rs` are `a`, `/lib.rs` is the root.
fn module_of(path: &str) -> Option<Module> {
    let mut module: Module = path.strip_suffix(".rs")?.split('/').skip(1).map(str::to_owned).collect();
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    Some(module)
}

/// What one file imports, as paths.
#[derive(Default)]
struct Imports {
    uses: Vec<Vec<String>>,
    /// Names that it hands on, and where they come from.
    exports: BTreeMap<String, Vec<String>>,
}

impl Imports {
    fn of(text: &str) -> Imports {
        let code: String = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default()
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join("\n");
        let mut imports = Imports::default();
        let mut rest = String::new();
        for statement in code.split_inclusive(';') {
            let Some((before, tree)) = use_tree(statement) else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(before);
            let is_public = before.trim_end().ends_with("pub") || before.trim_end().ends_with(')');
            for path in expanded(tree) {
                match path.last().cloned().filter(|_| is_public) {
                    Some(name) => _ = imports.exports.insert(name, path),
                    None => imports.uses.push(path),
                }
            }
        }
        imports.uses.extend(paths_in(&rest));
        imports
    }
}

/// The tree of a `use` statement, and what stands before it.
fn use_tree(statement: &str) -> Option<(&str, &str)> {
    let at = statement.rfind("use ")?;
    let before = &statement[..at];
    let is_start = before.trim_end_matches(' ').is_empty()
        || before.ends_with('\n')
        || before.trim_end().ends_with("pub")
        || before.trim_end().ends_with("(crate)")
        || before.trim_end().ends_with("(super)");
    let tree = statement[at + 4..].trim_end().strip_suffix(';')?;
    (is_start && !tree.contains('=')).then_some((before, tree))
}

/// The paths of a tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expanded(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let words = |path: &str| -> Vec<String> {
        let path = path.split(" as ").next().unwrap_or_default();
        path.split("::").map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
    };
    let Some((head, body)) = tree.split_once('{') else { return vec![words(tree)] };
    let body = body.trim_end().strip_suffix('}').unwrap_or(body);
    let (mut depth, mut parts, mut part) = (0, Vec::new(), String::new());
    for letter in body.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(letter);
    }
    parts.push(part);
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| expanded(part)).map(|path| [words(head), path].concat()).collect()
}

/// Paths within code.
fn paths_in(code: &str) -> Vec<Vec<String>> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = code.split(|letter: char| !is_word(letter));
    let starts = ["crate::", "super::", "self::"];
    words
        .filter(|word| starts.iter().any(|start| word.starts_with(start)))
        .map(|word| word.split("::").map(str::to_owned).collect())
        .collect()
}

/// The file that a path in `module` leads to.
fn resolve<'f>(
    files: &'f BTreeMap<Module, Imports>,
    module: &Module,
    path: &[String],
    depth: u32,
) -> Option<&'f Module> {
    let (first, mut rest) = path.split_first()?;
    let mut at: Module = match first.as_str() {
        "crate" => Module::new(),
        "self" => module.clone(),
        "super" => {
            let mut at = module.clone();
            at.pop()?;
            while rest.first().is_some_and(|word| word == "super") {
                at.pop()?;
                rest = &rest[1..];
            }
            at
        }
        name => {
            let child = [module.as_slice(), &[name.to_owned()]].concat();
            files.contains_key(&child).then_some(child)?
        }
    };
    while let Some((word, behind)) = rest.split_first() {
        let child = [at.as_slice(), std::slice::from_ref(word)].concat();
        if !files.contains_key(&child) {
            break;
        }
        (at, rest) = (child, behind);
    }
    let (found, imports) = files.get_key_value(&at)?;
    let handed_on = rest.first().filter(|_| depth < 8).and_then(|name| imports.exports.get(name));
    handed_on.and_then(|path| resolve(files, found, path, depth + 1)).or(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let source =
            |(path, text): &(&str, &str)| Source { path: format!("src{path}"), text: (*text).to_owned() };
        let sources: Vec<Source> = files.iter().map(source).collect();
        let names = |circle: Vec<Module>| circle.iter().map(|module| module.join("/")).collect();
        circles(&sources, "src").into_iter().map(names).collect()
    }

    #[test]
    fn circles_are_found_through_lists_and_paths() {
        let found = circles_of(&[
            ("/lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("/a.rs", "use crate::{b::{self, B}, Fs};\n"),
            ("/b/mod.rs", "fn f() { super::c::g() }\n"),
            ("/c.rs", "use crate::a::A;\n"),
        ]);
        assert_eq!(found, [["a", "b", "c"]]);
    }

    #[test]
    fn a_name_that_is_handed_on_leads_to_where_it_is_defined() {
        let files = |leaf| {
            circles_of(&[
                ("/lib.rs", ""),
                ("/a/mod.rs", "mod leaf;\npub use leaf::Leaf;\nuse crate::b::B;\n"),
                ("/a/leaf.rs", leaf),
                ("/b.rs", "use crate::a::Leaf;\n"),
            ])
        };
        assert_eq!(files("pub struct Leaf;\n"), Vec::<Vec<String>>::new());
        assert_eq!(files("use crate::a::other;\n"), [["a", "a/leaf", "b"]]);
    }

    #[test]
    fn tests_and_comments_do_not_count() {
        let found = circles_of(&[
            ("/lib.rs", ""),
            ("/a.rs", "use crate::b::B;\n"),
            ("/b.rs", "//! See crate::a.\n\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
            ("/b/tests.rs", "use crate::a::A;\n"),
        ]);
        assert_eq!(found, Vec::<Vec<String>>::new());
    }
}
