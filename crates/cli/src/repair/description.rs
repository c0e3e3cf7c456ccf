// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a repair does, in the form in which it is shown, saved and documented (docs/json-schema.md).

use std::collections::BTreeSet;

use fsmend_engine::inodes::Kind;
use fsmend_engine::report::Report;
use fsmend_engine::{Action, FileChange, InodeState, Row};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::json::former_name;
use crate::numbers::{bytes, counted, thousands};
use crate::plan::TreeChange;
use crate::remedies::Remedies;
use crate::style::printable;
use fsmend_session::RecoveredNames;

/// Files beyond these are counted and not named in a saved plan.
const FILES_SAVED: usize = 10_000;
/// Problems of a kind beyond these are counted and not listed in a saved plan.
const PROBLEMS_SAVED: usize = 100;
/// What can be said of a repair beside its problems.
#[derive(Debug, Default)]
pub struct Description {
    /// Files and directories that problems are about, and what happens to them, in the order of inodes.
    pub files: Vec<FileChange>,
    /// What may be lost: how many problems of a kind, its code, and the sentence.
    pub losses: Vec<(u64, &'static str, &'static str)>,
    /// How many bytes are changed of which structure, the most first.
    pub structures: Vec<(&'static str, u64)>,
    /// Losses that only later looks found: what became of the problem, in a sentence of its own, with its code.
    pub later: Vec<(&'static str, String)>,
    remedies: Remedies,
}

impl Description {
    /// Gathers it from what was wrong, from what only `later` looks found, and from what happens to `files`.
    pub fn new(report: &Report, later: &Report, files: Vec<FileChange>, remedies: Remedies) -> Self {
        let mut description = Description { files, remedies, ..Description::default() };
        for group in later.damage() {
            let told = group.problems.iter().map(|problem| (group.row.code, problem.message()));
            description.later.extend(told);
        }
        let of_later = later.damage().map(|group| (group, true));
        for (group, is_later) in report.damage().map(|group| (group, false)).chain(of_later) {
            if let Some(loss) =
                description.losses.iter_mut().find(|loss| is_later && loss.1 == group.row.code)
            {
                loss.0 += group.total;
            } else if group.row.loses {
                description.losses.push((group.total, group.row.code, remedies.of(group.row).loss));
            }
        }
        description
    }

    /// The files of which something may be lost.
    pub fn files_with_losses(&self) -> impl Iterator<Item = &FileChange> {
        self.files
            .iter()
            .filter(|file| !file.losses.is_empty() || file.actions.iter().any(Action::loses_something))
    }

    /// The losses that no file stands for.
    pub fn losses_without_file(&self) -> impl Iterator<Item = &(u64, &'static str, &'static str)> {
        let named: BTreeSet<&str> =
            self.files.iter().flat_map(|file| &file.losses).map(|row| row.code).collect();
        self.losses.iter().filter(move |(_, code, _)| !named.contains(code))
    }

    /// What is lost of a file: its sentences.
    pub fn loss_of(&self, file: &FileChange) -> String {
        let sentences: Vec<&str> = file.losses.iter().map(|row| self.sentence(file, row)).collect();
        sentences.join(" ")
    }

    fn sentence(&self, file: &FileChange, row: &'static Row) -> &'static str {
        if !crate::target::FAMILIES.has(|family| family.unused_names(), row) {
            return self.remedies.of(row).loss;
        }
        match file.state {
            InodeState::Unreadable => {
                "The name. Also the file, unless the device can still read its inode: copy the device with a rescue tool first."
            }
            // Another problem with it tells what else is lost.
            InodeState::InUse if file.actions.contains(&Action::Removed) && file.losses.len() > 1 => {
                "Its name."
            }
            InodeState::InUse if file.actions.contains(&Action::Removed) => "The file and its name.",
            InodeState::InUse => "The name.",
            InodeState::Unused => "The name. Its inode was not in use before this repair.",
        }
    }

    /// As JSON, with at most `files_max` files named.
    pub fn to_json(&self, files_max: usize) -> Json {
        json!(self.told(files_max))
    }

    fn told(&self, files_max: usize) -> Rendered<'_> {
        Rendered {
            files: self.files.iter().take(files_max).map(told_file).collect(),
            files_total: self.files.len(),
            losses: self
                .losses
                .iter()
                .map(|(count, code, loss)| RenderedLoss { code, count: *count, loss })
                .collect(),
            structures: self
                .structures
                .iter()
                .map(|(structure, bytes)| RenderedStructure { structure, bytes: *bytes })
                .collect(),
            tree: crate::plan::tree_of_files(&self.files[..self.files.len().min(files_max)]),
            found_later: self.later.iter().map(|(code, message)| RenderedLater { code, message }).collect(),
        }
    }
}

/// A file as it is called in a list: its path first.
pub fn label(file: &FileChange) -> String {
    let inode = file.inode;
    let mut facts = Vec::new();
    match file.kind {
        Kind::Directory => facts.push("directory".to_owned()),
        Kind::Symlink => facts.push("symbolic link".to_owned()),
        Kind::CharDevice | Kind::BlockDevice => facts.push("device file".to_owned()),
        Kind::Fifo => facts.push("named pipe".to_owned()),
        Kind::Socket => facts.push("socket".to_owned()),
        Kind::Regular | Kind::Unused | Kind::Unknown => {}
    }
    match file.state {
        InodeState::Unused => facts.push("not in use".to_owned()),
        InodeState::Unreadable => facts.push("cannot be read".to_owned()),
        InodeState::InUse => {}
    }
    if let (Some(size), Kind::Regular | Kind::Unknown) = (file.size, file.kind) {
        facts.push(bytes(size));
    }
    match &file.path {
        Some(path) => {
            facts.insert(0, format!("inode {inode}"));
            format!("{} ({})", printable(path), facts.join(", "))
        }
        None => match file.former_names.first() {
            Some(name) => {
                facts
                    .insert(0, format!("inode {inode}, which was probably {}", printable(&name.to_string())));
                facts.join(", ")
            }
            None if facts.is_empty() => format!("inode {inode}"),
            None => format!("inode {inode} ({})", facts.join(", ")),
        },
    }
}

/// What happens to a file.
pub fn verbs(file: &FileChange) -> String {
    let verbs: Vec<String> = file.actions.iter().map(|action| verb(action, file)).collect();
    verbs.join(", ")
}

fn verb(action: &Action, file: &FileChange) -> String {
    match action {
        Action::Removed => "removed".to_owned(),
        Action::Truncated(size) => format!("truncated to {} bytes", thousands(*size)),
        Action::Extended(size) => format!("size set to {} bytes", thousands(*size)),
        Action::Unmapped(count) => {
            format!("{} removed from its block map, reads as zeros there", counted(*count, "block", "blocks"))
        }
        Action::Copied(count) => format!("{} copied", counted(*count, "block", "blocks")),
        Action::Renamed(from, to) => format!("renamed from {} to {}", printable(from), printable(to)),
        Action::MovedToLostFound(name) if name.starts_with("/#") => {
            format!("named {}, without room for lost+found", printable(name))
        }
        Action::MovedToLostFound(name) => format!("moved to lost+found as {}", printable(name)),
        Action::NameRemoved(path) if file.path.as_ref() == Some(path) => "name removed".to_owned(),
        Action::NameRemoved(path) => format!("name {} removed", printable(path)),
        Action::Corrected => "metadata corrected".to_owned(),
        Action::Kept => "kept as it is".to_owned(),
    }
}

fn told_file(file: &FileChange) -> RenderedFile<'_> {
    RenderedFile {
        inode: file.inode.0,
        path: file.path.as_deref(),
        former_names: file.former_names.iter().map(former_name).collect(),
        kind: kind_word(file.kind),
        state: file.state.word(),
        size: file.size,
        actions: file.actions.iter().map(told_action).collect(),
        losses: file.losses.iter().map(|row| row.code).collect(),
    }
}

fn kind_word(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Regular => "regular",
        Kind::Directory => "directory",
        Kind::CharDevice => "char-device",
        Kind::BlockDevice => "block-device",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::Symlink => "symlink",
        Kind::Unused | Kind::Unknown => return None,
    })
}

fn told_action(action: &Action) -> RenderedAction<'_> {
    let told = RenderedAction { action: action.word(), ..RenderedAction::default() };
    match action {
        Action::Truncated(size) | Action::Extended(size) => RenderedAction { size: Some(*size), ..told },
        Action::Unmapped(count) | Action::Copied(count) => RenderedAction { blocks: Some(*count), ..told },
        Action::Renamed(from, to) => RenderedAction { path: Some(from), name: Some(to), ..told },
        Action::MovedToLostFound(name) => RenderedAction { name: Some(name), ..told },
        Action::NameRemoved(path) => RenderedAction { path: Some(path), ..told },
        Action::Removed | Action::Corrected | Action::Kept => told,
    }
}

/// A [`Description`] in the form in which it is written. (A tree of JSON values of it would take longer than all else that is done with a
/// plan.)
#[derive(Serialize)]
struct Rendered<'d> {
    files: Vec<RenderedFile<'d>>,
    files_total: usize,
    losses: Vec<RenderedLoss>,
    structures: Vec<RenderedStructure>,
    tree: Vec<TreeChange>,
    found_later: Vec<RenderedLater<'d>>,
}

#[derive(Serialize)]
struct RenderedStructure {
    structure: &'static str,
    bytes: u64,
}

#[derive(Serialize)]
struct RenderedFile<'d> {
    inode: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'d str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    former_names: Vec<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    actions: Vec<RenderedAction<'d>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    losses: Vec<&'static str>,
}

#[derive(Default, Serialize)]
struct RenderedAction<'d> {
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'d str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'d str>,
}

#[derive(Serialize)]
struct RenderedLoss {
    code: &'static str,
    count: u64,
    loss: &'static str,
}

#[derive(Serialize)]
struct RenderedLater<'d> {
    code: &'static str,
    message: &'d str,
}

/// The text of a plan.
#[derive(Serialize)]
struct PlanText<'d> {
    tool: Tool,
    target: &'d str,
    start: u64,
    problems: Vec<RenderedProblems>,
    #[serde(flatten)]
    told: Rendered<'d>,
    journal: Option<Json>,
    log_device: Option<&'d str>,
    // The word of the format of plans.
    #[serde(rename = "regained")]
    recovered_names: Vec<&'d str>,
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

/// Problems of one kind.
#[derive(Serialize)]
struct RenderedProblems {
    code: &'static str,
    count: u64,
    messages: Vec<String>,
    repair: &'static str,
}

/// The text that is saved with a plan: the target and where its log is, if that is on another device, what was wrong, what is lost, what is written to an external journal, what is found again
/// in lost+found.
pub fn plan_text(
    (target, start, log_device): (&str, u64, Option<&str>),
    report: &Report,
    description: &Description,
    (journal, recovered_names): (Option<Json>, &RecoveredNames),
) -> String {
    let problems = report.damage().map(|group| RenderedProblems {
        code: group.row.code,
        count: group.total,
        messages: group.problems.iter().take(PROBLEMS_SAVED).map(|problem| problem.message()).collect(),
        repair: description.remedies.of(group.row).repair,
    });
    let text = PlanText {
        tool: Tool { name: "fsmend", version: env!("CARGO_PKG_VERSION") },
        target,
        start,
        problems: problems.collect(),
        told: description.told(FILES_SAVED),
        journal,
        log_device,
        recovered_names: recovered_names.lines().collect(),
    };
    serde_json::to_string(&text).expect("text and numbers, under names that are text, are JSON")
}
