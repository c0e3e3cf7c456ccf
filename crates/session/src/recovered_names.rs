// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands in `lost+found` after a repair under its number: what it was called before, as far as that is recorded anywhere. It is said, and
//! kept in a text file where the undo files are, for those who look there later. It goes with the plan, in its text, and so with the log:
//! the run that finishes a repair, perhaps the one that finds the log of an interrupted one, writes that file before the log is closed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fsmend_base::InodeNo;
use fsmend_device::Plan;
use fsmend_engine::report::Report;
use fsmend_engine::{FormerName, Problem, Row};
use serde_json::Value as Json;

use crate::member;
use crate::text::{printable, utc};

/// What the name of the text file has behind that of its target.
const SUFFIX: &str = ".fsmend-names.txt";
/// The member of a plan's text that has them.
pub const MEMBER: &str = "regained";

/// Files and directories that a repair puts into `lost+found`, and that something tells a former name of: a line on each, with the name
/// that it gets, and those that it may have had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredNames(Vec<String>);

impl RecoveredNames {
    /// Gathers them from `reports`, without the problems `declined`: `recovering` are the problems whose repair gives a name there.
    pub fn of(recovering: &[&Row], reports: &[&Report], declined: &[Problem]) -> Self {
        let problems = reports.iter().flat_map(|report| report.damage());
        let problems =
            problems.filter(|group| recovering.contains(&group.row)).flat_map(|group| &group.problems);
        let mut all: Vec<_> = problems
            .filter(|problem| !declined.contains(problem))
            .filter_map(|problem| Some((problem.object.inode?, problem.former_names())))
            .filter(|(_, names)| !names.is_empty())
            .collect();
        all.sort();
        all.dedup_by_key(|(inode, _)| *inode);
        RecoveredNames(all.into_iter().map(line).collect())
    }

    /// Those that go with `plan`.
    pub fn of_plan(plan: &Plan) -> Self {
        let told = member(plan.text(), MEMBER).unwrap_or_default();
        let lines = told.as_array().into_iter().flatten().filter_map(Json::as_str);
        RecoveredNames(lines.map(printable).collect())
    }

    /// In the form in which they go with a plan.
    pub fn to_json(&self) -> Json {
        self.lines().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A line on each.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Adds them to the text file for the target at `path`, in `folder`, unless they are the last that stand there: a run that was cut short
    /// behind this does it again. Its place, if there was anything to write.
    pub fn keep(&self, folder: &Path, path: &Path, now: u64) -> io::Result<Option<PathBuf>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let name = path.file_name().unwrap_or("target".as_ref()).to_string_lossy();
        let place = folder.join(format!("{name}{SUFFIX}"));
        let target = printable(&path.display().to_string());
        let mut text = format!(", repair of {target}: what was put into lost+found\n");
        self.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
        if std::fs::read(&place).is_ok_and(|kept| kept.ends_with(text.as_bytes())) {
            return Ok(Some(place));
        }
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&place)?;
        file.write_all(format!("{}{text}", utc(now)).as_bytes())?;
        file.sync_all()?;
        Ok(Some(place))
    }
}

fn line((inode, names): (InodeNo, Vec<FormerName>)) -> String {
    let names: Vec<String> = names.iter().map(|name| printable(&name.to_string())).collect();
    format!("#{inode} was probably {}", names.join(", or "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use fsmend_base::BlockNo;
    use fsmend_engine::{Findings, Value, Witness};

    use super::*;

    fsmend_engine::problem_rows! {
        /// A file.
        A_FILE = "demo.file" {
            severity: Minor, evidence: Cross, preen: true, message: "{inode} has no name",
            meaning: "m", repair: "r", loss: nothing, peers: [],
        }
        /// A directory.
        A_DIRECTORY = "demo.directory" {
            severity: Minor, evidence: Cross, preen: true, message: "{inode} has no name",
            meaning: "m", repair: "r", loss: nothing, peers: [],
        }
        /// A file that is not kept.
        AN_EMPTY_FILE = "demo.empty" {
            severity: Minor, evidence: Cross, preen: true, message: "{inode} has no name",
            meaning: "m", repair: "r", loss: nothing, peers: [],
        }
    }

    const REGAINING: [&Row; 2] = [&A_FILE, &A_DIRECTORY];

    fn problem(row: &'static Row, inode: u32, path: Option<&str>) -> Problem {
        let problem = Problem::new(row).inode(InodeNo(inode)).stored(2u32);
        let Some(path) = path else { return problem };
        let name = FormerName { witness: Witness::Entry, path: path.to_owned(), block: Some(BlockNo(7)) };
        problem.detail("former_names", Value::List(vec![Value::Former(name)]))
    }

    #[test]
    fn names_are_kept_run_by_run() {
        let mut findings = Findings::new();
        let declined = problem(REGAINING[0], 14, Some("/c"));
        findings.raise(problem(REGAINING[0], 12, Some("/a")));
        findings.raise(problem(REGAINING[0], 15, None));
        findings.raise(declined.clone());
        findings.raise(problem(REGAINING[1], 13, Some("/b\u{7}")));
        findings.raise(problem(&AN_EMPTY_FILE, 16, Some("/gone")));
        let report = Report::new(findings);
        let recovered_names = RecoveredNames::of(&REGAINING, &[&report], &[declined]);
        let lines: Vec<&str> = recovered_names.lines().collect();
        assert_eq!(lines[0], "#12 was probably /a (block 7 still names it)");
        assert_eq!(lines.len(), 2);
        assert!(!lines[1].contains('\u{7}'));
        let folder = std::env::temp_dir().join(format!("fsmend-regained-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = Path::new("/dev/sd\nx1");
        assert_eq!(RecoveredNames::default().keep(&folder, path, 0).unwrap(), None);
        let place = recovered_names.keep(&folder, path, 0).unwrap().unwrap();
        let first = std::fs::read_to_string(&place).unwrap();
        recovered_names.keep(&folder, path, 77).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), first, "twice the same");
        let other = RecoveredNames(vec!["#99 was probably /z".to_owned()]);
        other.keep(&folder, path, 78).unwrap();
        assert_eq!(recovered_names.keep(&folder, path, 1_795_183_513).unwrap().as_ref(), Some(&place));
        let text = std::fs::read_to_string(&place).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(text.matches("#12 was probably /a (block 7 still names it)\n").count(), 2);
        assert_eq!(text.lines().count(), 8);
        assert!(text.starts_with("1970-01-01 00:00:00 UTC, repair of /dev/sd"), "{text}");
        assert!(text.contains("2026-11-20 14:05:13 UTC"), "{text}");
    }
}
