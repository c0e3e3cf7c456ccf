//! What a repair does, in the form in which it is told, saved and documented (docs/json-schema.md).

use std::collections::BTreeMap;

use fsmend_base::InodeNo;
use fsmend_device::Plan;
use fsmend_engine::FormerName;
use fsmend_engine::report::Report;
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::json::former_name;
use crate::regained::{Regained, former_names};
use crate::remedies::Remedies;

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

impl File {
    fn told(&self, inode: InodeNo) -> ToldFile<'_> {
        ToldFile {
            inode: inode.0,
            path: self.path.as_deref(),
            former_names: self.former_names.iter().map(former_name).collect(),
        }
    }
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
    pub fn new(report: &Report, later: &Report, remedies: Remedies) -> Self {
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
                description.losses.push((group.total, group.row.code, remedies.of(group.row).loss));
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
        json!(self.told(files_max))
    }

    fn told(&self, files_max: usize) -> Told<'_> {
        Told {
            files: self.files.iter().take(files_max).map(|(inode, file)| file.told(*inode)).collect(),
            files_total: self.files.len(),
            losses: self
                .losses
                .iter()
                .map(|(count, code, loss)| ToldLoss { code, count: *count, loss })
                .collect(),
            found_later: self.later.iter().map(|(code, message)| ToldLater { code, message }).collect(),
        }
    }
}

/// A [`Description`] in the form in which it is written. (A tree of JSON values of it would take longer than all else that is done with a
/// plan.)
#[derive(Serialize)]
struct Told<'d> {
    files: Vec<ToldFile<'d>>,
    files_total: usize,
    losses: Vec<ToldLoss>,
    found_later: Vec<ToldLater<'d>>,
}

#[derive(Serialize)]
struct ToldFile<'d> {
    inode: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'d str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    former_names: Vec<Json>,
}

#[derive(Serialize)]
struct ToldLoss {
    code: &'static str,
    count: u64,
    loss: &'static str,
}

#[derive(Serialize)]
struct ToldLater<'d> {
    code: &'static str,
    message: &'d str,
}

/// The text of a plan.
#[derive(Serialize)]
struct PlanText<'d> {
    tool: Tool,
    target: &'d str,
    start: u64,
    problems: Vec<ToldProblems>,
    #[serde(flatten)]
    told: Told<'d>,
    journal: Option<Json>,
    regained: Vec<&'d str>,
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

/// Problems of one kind.
#[derive(Serialize)]
struct ToldProblems {
    code: &'static str,
    count: u64,
    messages: Vec<String>,
    repair: &'static str,
}

/// The text that is saved with a plan: the target, what was wrong, what is lost, what is written to an external journal, what is found again
/// in lost+found.
pub fn plan_text(
    target: &str,
    start: u64,
    (report, later): (&Report, &Report),
    remedies: Remedies,
    (journal, regained): (Option<Json>, &Regained),
) -> String {
    let problems = report.damage().map(|group| ToldProblems {
        code: group.row.code,
        count: group.total,
        messages: group.problems.iter().take(PROBLEMS_SAVED).map(|problem| problem.message()).collect(),
        repair: remedies.of(group.row).repair,
    });
    let description = Description::new(report, later, remedies);
    let text = PlanText {
        tool: Tool { name: "fsmend", version: env!("CARGO_PKG_VERSION") },
        target,
        start,
        problems: problems.collect(),
        told: description.told(FILES_SAVED),
        journal,
        regained: regained.lines().collect(),
    };
    serde_json::to_string(&text).expect("text and numbers, under names that are text, are JSON")
}

/// What a saved plan says of its target: the path, and the byte at which the file system starts.
pub fn target_of(plan: &Plan) -> Option<(String, u64)> {
    let text: Json = serde_json::from_str(plan.text()).ok()?;
    Some((text["target"].as_str()?.to_owned(), text["start"].as_u64()?))
}
