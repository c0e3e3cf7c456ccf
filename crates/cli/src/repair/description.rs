//! What a repair does, in the form in which it is told, saved and documented (docs/json-schema.md).

use std::collections::BTreeMap;

use fsmend_base::InodeNo;
use fsmend_device::Plan;
use fsmend_engine::FormerName;
use fsmend_engine::report::Report;
use serde_json::{Value as Json, json};

use crate::json::former_name;
use crate::regained::former_names;

/// Files beyond these are counted and not named in a saved plan.
const FILES_SAVED: usize = 10_000;
/// Problems of a kind beyond these are counted and not listed in a saved plan.
const PROBLEMS_SAVED: usize = 100;
/// What is known of a file or directory that problems are about.
#[derive(Debug, Default)]
pub struct File {
    /// Its path, if a name leads to it.
    pub path: Option<String>,
    /// What it was called before, if it has no name.
    pub former_names: Vec<FormerName>,
}

/// What can be said of a repair beside its problems.
#[derive(Debug, Default)]
pub struct Description {
    /// Inodes that problems are about.
    pub files: BTreeMap<InodeNo, File>,
    /// What may be lost: how many problems of a kind, its code, and the sentence.
    pub losses: Vec<(u64, &'static str, &'static str)>,
    /// Losses that only later looks found: what became of the problem, in a sentence of its own, with its code.
    pub later: Vec<(&'static str, String)>,
}

impl Description {
    /// Gathers it from what was wrong, and from what only `later` looks found.
    pub fn new(report: &Report, later: &Report) -> Self {
        let mut description = Description::default();
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
            } else if group.row.loses_something() {
                description.losses.push((group.total, group.row.code, group.row.loss));
            }
            for problem in &group.problems {
                let Some(inode) = problem.object.inode else { continue };
                let file = description.files.entry(inode).or_default();
                if file.path.is_none() {
                    file.path.clone_from(&problem.object.path);
                }
                if file.former_names.is_empty() {
                    file.former_names = former_names(problem);
                }
            }
        }
        description
    }

    /// As JSON, with at most `files_max` files named.
    pub fn to_json(&self, files_max: usize) -> Json {
        let file = |(inode, file): (&InodeNo, &File)| {
            let mut told = json!({"inode": inode.0});
            if let Some(path) = &file.path {
                told["path"] = json!(path);
            }
            if !file.former_names.is_empty() {
                told["former_names"] = file.former_names.iter().map(former_name).collect();
            }
            told
        };
        let losses: Vec<Json> = self
            .losses
            .iter()
            .map(|(count, code, loss)| json!({"code": code, "count": count, "loss": loss}))
            .collect();
        json!({
            "files": self.files.iter().take(files_max).map(file).collect::<Vec<Json>>(),
            "files_total": self.files.len(),
            "losses": losses,
            "found_later": self.later.iter().map(|(code, message)| json!({"code": code, "message": message})).collect::<Vec<Json>>(),
        })
    }
}

/// The text that is saved with a plan: the target, what was wrong, what is lost, what is written to an external journal.
pub fn plan_text(
    target: &str,
    start: u64,
    (report, later): (&Report, &Report),
    journal: Option<Json>,
) -> Json {
    let mut problems = Vec::new();
    for group in report.damage() {
        let messages: Vec<String> =
            group.problems.iter().take(PROBLEMS_SAVED).map(|problem| problem.message()).collect();
        problems.push(json!({
            "code": group.row.code,
            "count": group.total,
            "messages": messages,
            "repair": group.row.repair,
        }));
    }
    let description = Description::new(report, later).to_json(FILES_SAVED);
    json!({
        "tool": {"name": "fsmend", "version": env!("CARGO_PKG_VERSION")},
        "target": target,
        "start": start,
        "problems": problems,
        "files": description["files"],
        "files_total": description["files_total"],
        "losses": description["losses"],
        "found_later": description["found_later"],
        "journal": journal,
    })
}

/// What a saved plan says of its target: the path, and the byte at which the file system starts.
pub fn target_of(plan: &Plan) -> Option<(String, u64)> {
    let text: Json = serde_json::from_str(plan.text()).ok()?;
    Some((text["target"].as_str()?.to_owned(), text["start"].as_u64()?))
}
