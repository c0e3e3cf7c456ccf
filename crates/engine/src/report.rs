// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run found, in the order of the report: groups of problems of one kind, worst first, notes apart,
//! with the totals beside them. Format-independent and without a word of layout: `cli` turns it into text and JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use fsmend_device::{BlockCopy, Device, ReadError};

use crate::pool::Mode;
use crate::problem::{Findings, Problem, Row, Severity};
use crate::repair::changes::with_copies;
use crate::repair::{Changes, Mend, Writes};

/// All problems of one row.
#[derive(Debug)]
pub struct ProblemGroup {
    /// The row.
    pub row: &'static Row,
    /// How many there are.
    pub total: u64,
    /// The kept ones (see [`crate::problem::KEPT_PER_ROW`]), in report order. Never empty.
    pub problems: Vec<Problem>,
}

/// The findings of a run, ready to be rendered.
#[derive(Debug, Default)]
pub struct Report {
    /// One group per row, worst severity first, then by code; notes come last.
    pub groups: Vec<ProblemGroup>,
    damaged: bool,
}

impl Report {
    /// Sorts and groups `findings`.
    pub fn new(findings: Findings) -> Self {
        let damaged = findings.is_damaged();
        let totals = findings.counts();
        let group = |problems: Vec<Problem>| {
            let row = problems.first()?.row;
            Some(ProblemGroup { row, total: totals.get(row.code).copied().unwrap_or(1), problems })
        };
        Report { groups: findings.into_rows().into_iter().filter_map(group).collect(), damaged }
    }

    /// Whether anything counts for the verdict.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// How many problems there are of `severity`.
    pub fn count(&self, severity: Severity) -> u64 {
        self.groups.iter().filter(|group| group.row.severity == severity).map(|group| group.total).sum()
    }

    /// How many problems count for the verdict.
    pub fn problem_count(&self) -> u64 {
        self.damage().map(|group| group.total).sum()
    }

    /// The groups that count for the verdict.
    pub fn damage(&self) -> impl Iterator<Item = &ProblemGroup> {
        self.groups.iter().filter(|group| group.row.severity > Severity::Note)
    }

    /// The groups that do not.
    pub fn notes(&self) -> impl Iterator<Item = &ProblemGroup> {
        self.groups.iter().filter(|group| group.row.severity == Severity::Note)
    }

    /// Every kept problem in report order.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.groups.iter().flat_map(|group| &group.problems)
    }

    /// How many problems there are of each row, by code.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.groups.iter().map(|group| (group.row.code, group.total)).collect()
    }
}

/// What became of the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum JournalUse {
    /// There is none.
    #[default]
    None,
    /// There is one, and nothing in it waits to be written.
    Clean,
    /// It was dirty and was replayed in memory; the result is what was checked.
    Replayed,
    /// It was dirty and was left alone; what was checked is what is on the disk.
    NotReplayed,
    /// There is one that cannot be used, or whose contents are unknown.
    Damaged,
}

impl JournalUse {
    /// The word used in reports.
    pub fn word(self) -> &'static str {
        match self {
            JournalUse::None => "none",
            JournalUse::Clean => "clean",
            JournalUse::Replayed => "replayed",
            JournalUse::NotReplayed => "not replayed",
            JournalUse::Damaged => "damaged",
        }
    }
}

/// What a file system is and how full it is, as counted by the run (not as its superblock claims).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// The type, as its users call it.
    pub kind: &'static str,
    /// The label; empty when there is none.
    pub label: String,
    /// The UUID in its usual form; empty when there is none.
    pub uuid: String,
    /// Names of the features, separated by blanks.
    pub features: String,
    /// Bytes in a block.
    pub block_size: u64,
    /// Inodes in use.
    pub files_used: u64,
    /// Inodes in all.
    pub files_total: u64,
    /// Blocks in use.
    pub blocks_used: u64,
    /// Blocks in all.
    pub blocks_total: u64,
    /// Directories among the files.
    pub directories: u64,
    /// Files whose blocks do not lie in one piece.
    pub non_contiguous: u64,
    /// In a format that keeps regions for metadata: how many of their blocks are in use, and how many there are.
    pub metadata_regions: Option<(u64, u64)>,
    /// What became of the journal.
    pub journal: JournalUse,
    /// The block of the superblock that was used.
    pub superblock: u64,
    /// Whether that superblock was a backup.
    pub superblock_is_backup: bool,
}

/// What one stage (or pass) of a run cost. Shown only with `--stats`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StageStats {
    /// The stage.
    pub name: &'static str,
    /// Nanoseconds from its first to its last moment.
    pub wall_ns: u64,
    /// Nanoseconds of processor time, all workers together.
    pub cpu_ns: u64,
    /// Most memory held at once, in bytes.
    pub peak_memory: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Read requests.
    pub requests: u64,
    /// Records looked at.
    pub items: u64,
}

/// How the work of a run was divided. Shown only with `--stats`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Division {
    /// How workers were divided between the stages.
    pub mode: Mode,
    /// How many there were.
    pub workers: usize,
    /// Entries whose certification had to wait for what they lead to.
    pub waited: u64,
    /// Most of them that waited at the same time.
    pub waited_at_once: u64,
    /// Room for those that wait.
    pub waiting_max: u64,
}

/// What a run found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Every problem.
    pub findings: Findings,
    /// What was checked.
    pub summary: Summary,
    /// What it cost.
    pub stats: Vec<StageStats>,
    /// How the work was divided.
    pub division: Division,
    /// What had to be left out or done in a poorer way to stay within the budget, in sentences.
    pub degraded: Vec<String>,
}

/// Whose problems get paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Naming {
    /// All that are reported.
    All,
    /// Those whose repair loses something: of what the later looks of a repair find, nothing else is reported.
    Losses,
}

/// A repair that has been worked out, and not written.
#[derive(Debug)]
pub struct Repair {
    /// What was wrong.
    pub found: CheckReport,
    /// What is left: nothing above a note when the plan is clean.
    pub left: CheckReport,
    /// How often the file system was looked at, the last look included.
    pub rounds: u32,
    /// What has to be written: byte offsets and bytes, ascending, without overlaps.
    pub changes: Changes,
    /// What has to be copied besides, from where it lies before anything is written: ascending, apart from each other and from `changes`.
    pub copies: Vec<BlockCopy>,
    /// What they are for, as far as that is known.
    pub mends: Vec<Mend>,
    /// What only later looks found, and what loses something: it follows from what was wrong, or from what was mended.
    pub later: Findings,
    /// What has to be written to the device of an external journal, once all that has reached the disk.
    pub journal_changes: Changes,
}

impl Repair {
    /// Whether the file system is sound once the changes are written.
    pub fn is_clean(&self) -> bool {
        !self.left.findings.is_damaged()
    }

    /// What is written to the device.
    pub fn writes(&self) -> Writes<'_> {
        Writes { changes: &self.changes, copies: &self.copies }
    }

    /// The same with all copies as bytes of `device` among the changes.
    pub fn written_out(self, device: &Arc<dyn Device>) -> Result<Repair, ReadError> {
        let changes = with_copies(device, self.changes, &self.copies)?;
        Ok(Repair { changes, copies: Vec::new(), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsmend_base::InodeNo;

    crate::problem_rows! {
        /// A note.
        A_NOTE = "demo.a.note" {
            severity: Note, evidence: Local, preen: true, message: "{inode} is odd",
            meaning: "m", repair: "r", loss: nothing, peers: [],
        }
        /// A mild one.
        B_MINOR = "demo.b.minor" {
            severity: Minor, evidence: Local, preen: true, message: "{inode} is off",
            meaning: "m", repair: "r", loss: nothing, peers: [],
        }
        /// A bad one.
        C_MAJOR = "demo.c.major" {
            severity: Major, evidence: Local, preen: true, message: "{inode} is wrong",
            meaning: "m", repair: "r", loss: "l", peers: [],
        }
    }

    #[test]
    fn groups_come_worst_first_with_notes_last() {
        let mut findings = Findings::new();
        for (row, inode) in [(&A_NOTE, 1), (&B_MINOR, 3), (&C_MAJOR, 9), (&B_MINOR, 2)] {
            findings.raise(Problem::new(row).inode(InodeNo(inode)));
        }
        let report = Report::new(findings);
        let order: Vec<_> = report.groups.iter().map(|group| (group.row.code, group.total)).collect();
        assert_eq!(order, [("demo.c.major", 1), ("demo.b.minor", 2), ("demo.a.note", 1)]);
        assert!(report.is_damaged());
        assert_eq!((report.problem_count(), report.count(Severity::Note)), (3, 1));
        assert_eq!(report.groups[1].problems[0].object.inode, Some(InodeNo(2)));
    }

    #[test]
    fn notes_alone_are_sound() {
        let mut findings = Findings::new();
        findings.raise(Problem::new(&A_NOTE).inode(InodeNo(1)));
        assert!(!Report::new(findings).is_damaged());
        assert_eq!(ROWS.len(), 3);
    }
}
