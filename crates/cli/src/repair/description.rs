//! What a repair does, in the form in which it is told, saved and documented (docs/json-schema.md).

use std::collections::BTreeMap;

use fsmend_base::InodeNo;
use fsmend_device::Plan;
use fsmend_engine::FormerName;
use fsmend_engine::report::Report;
use serde::Serialize;
use serde_json::Value as Json;

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

    /// As JSON, with all files named.
    pub fn to_json(&self) -> Json {
        // Numbers and texts: there is nothing in it that JSON has no form for.
        serde_json::to_value(self.told(usize::MAX)).unwrap_or_default()
    }

    /// As it is saved, with at most `files_max` files named.
    fn told(&self, files_max: usize) -> Told<'_> {
        let files = self.files.iter().take(files_max);
        Told {
            files: files.map(|(inode, file)| ToldFile::of(*inode, file)).collect(),
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

/// A [`Description`], in the form in which it is saved. Fields are written in this order.
#[derive(Serialize)]
struct Told<'d> {
    files: Vec<ToldFile<'d>>,
    files_total: usize,
    losses: Vec<ToldLoss<'d>>,
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

impl<'d> ToldFile<'d> {
    fn of(inode: InodeNo, file: &'d File) -> Self {
        let former_names = file.former_names.iter().map(former_name).collect();
        ToldFile { inode: inode.0, path: file.path.as_deref(), former_names }
    }
}

#[derive(Serialize)]
struct ToldLoss<'d> {
    code: &'d str,
    count: u64,
    loss: &'d str,
}

#[derive(Serialize)]
struct ToldLater<'d> {
    code: &'d str,
    message: &'d str,
}

#[derive(Serialize)]
struct ToldProblems<'r> {
    code: &'r str,
    count: u64,
    messages: Vec<String>,
    repair: &'r str,
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

/// What is saved with a plan.
#[derive(Serialize)]
struct Text<'p> {
    tool: Tool,
    target: &'p str,
    start: u64,
    problems: Vec<ToldProblems<'p>>,
    files: Vec<ToldFile<'p>>,
    files_total: usize,
    losses: Vec<ToldLoss<'p>>,
    found_later: Vec<ToldLater<'p>>,
    journal: Option<Json>,
}

/// The text that is saved with a plan: the target, what was wrong, what is lost, what is written to an external journal.
pub fn plan_text(
    target: &str,
    start: u64,
    (report, later): (&Report, &Report),
    journal: Option<Json>,
) -> String {
    let problems = report.damage().map(|group| ToldProblems {
        code: group.row.code,
        count: group.total,
        messages: group.problems.iter().take(PROBLEMS_SAVED).map(|problem| problem.message()).collect(),
        repair: group.row.repair,
    });
    let description = Description::new(report, later);
    let Told { files, files_total, losses, found_later } = description.told(FILES_SAVED);
    let text = Text {
        tool: Tool { name: "fsmend", version: env!("CARGO_PKG_VERSION") },
        target,
        start,
        problems: problems.collect(),
        files,
        files_total,
        losses,
        found_later,
        journal,
    };
    // As above: nothing in it that JSON has no form for.
    serde_json::to_string(&text).unwrap_or_default()
}
/// What a saved plan says of its target: the path, and the byte at which the file system starts.
pub fn target_of(plan: &Plan) -> Option<(String, u64)> {
    let text: Json = serde_json::from_str(plan.text()).ok()?;
    Some((text["target"].as_str()?.to_owned(), text["start"].as_u64()?))
}
