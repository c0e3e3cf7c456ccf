// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan as text: what happens to which file, how the tree changes, what is written.

use std::path::Path;

use fsmend_device::Plan;

use super::contents::Contents;
use super::tree;
use crate::numbers::{bytes, counted, thousands};
use crate::repair::{label, verbs};
use crate::style::{Style, printable};

/// All that is known of a plan.
pub fn page(path: &Path, plan: &Plan, contents: &Contents, style: Style) -> String {
    let name = printable(&path.display().to_string());
    let blocks = counted(plan.blocks().count() as u64, "block", "blocks");
    let mut text = String::new();
    let target = match (contents.text("target"), contents.number("start")) {
        (Some(target), None | Some(0)) => format!(" for {}", printable(target)),
        (Some(target), Some(start)) => format!(" for {}, from byte {}", printable(target), thousands(start)),
        (None, _) => String::new(),
    };
    let maker = contents
        .version()
        .map_or(String::new(), |version| format!(" Made by fsmend {}.", printable(version)));
    let head = format!(
        "{name}: a plan{target} ({}). It would write {blocks} ({}).{maker}",
        bytes(plan.target_len()),
        bytes(plan.bytes_to_write())
    );
    text.push_str(&style.wrap("", &head));
    text.push_str(&files(contents, style));
    text.push_str(&tree_text(contents));
    text.push_str(&losses(contents, style));
    let structures: Vec<String> = contents
        .structures()
        .map(|(what, count)| format!("{:>12}  {}\n", bytes(count), printable(what)))
        .collect();
    if !structures.is_empty() {
        text.push_str("\nChanged bytes by structure:\n");
        text.push_str(&structures.concat());
    }
    let problems: Vec<String> = contents
        .problems()
        .map(|(code, count)| format!("{:>12}  {}\n", thousands(count), printable(code)))
        .collect();
    if !problems.is_empty() {
        text.push_str("\nProblems that it repairs (\"fsmend explain CODE\" explains a code):\n");
        text.push_str(&problems.concat());
    }
    text.push_str(&format!("\nTo compare it with its target, and to apply it:\n    fsmend plan verify {name}\n    fsmend apply {name}\n"));
    text
}

fn files(contents: &Contents, style: Style) -> String {
    let total = contents.files_total();
    if total == 0 {
        return "\nNo file or directory is affected.\n".to_owned();
    }
    let mut text = format!("\nWhat happens to which file ({}):\n", thousands(total));
    for file in &contents.files {
        text.push_str(&style.wrap("  - ", &format!("{}: {}", label(file), verbs(file))));
    }
    let more = total.saturating_sub(contents.files.len() as u64);
    if more > 0 {
        text.push_str(&format!("    and {} more, which the plan does not list\n", thousands(more)));
    }
    text
}

/// The names that change, like a diff of the tree.
fn tree_text(contents: &Contents) -> String {
    let changes = tree::of_files(&contents.files);
    if changes.is_empty() {
        return "\nNo name changes.\n".to_owned();
    }
    let mut text = String::from("\nThe tree, before (-) and after (+):\n");
    for change in changes {
        let signs = [('-', change.before), ('+', change.after)];
        for (sign, path) in signs.into_iter().filter_map(|(sign, path)| Some((sign, path?))) {
            text.push_str(&format!("  {sign} {}\n", printable(&path)));
        }
    }
    text
}

fn losses(contents: &Contents, style: Style) -> String {
    let lines: Vec<String> = contents
        .losses()
        .map(|(code, count, loss)| {
            let line = format!("{} ({}): {}", printable(code), thousands(count), printable(loss));
            style.wrap("  - ", &line)
        })
        .collect();
    match lines.is_empty() {
        true => "\nNothing is lost.\n".to_owned(),
        false => format!("\nWhat may be lost:\n{}", lines.concat()),
    }
}
