// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of one target, before anything is said about it.

use std::time::Duration;

use fsmend_engine::layout::Layout;
use fsmend_engine::report::{CheckReport, Division, Report, StageStats, Summary};
use fsmend_engine::shapes::FileShapes;
use fsmend_engine::{Estimate, Refusal};

use crate::exit;
use crate::online::view::Online;

pub use fsmend_session::{CANCELLED_CODE, INTERRUPTED_CODE};

/// It was stopped before it had begun.
pub fn cancelled() -> Refusal {
    Refusal {
        code: CANCELLED_CODE,
        message: "stopped before it was checked".to_owned(),
        hint: "Run it again".to_owned(),
    }
}

/// One file system and what became of it.
#[derive(Debug)]
pub struct Outcome {
    /// The target as the user named it.
    pub target: String,
    /// The partition of the target, when it is one.
    pub partition: Option<u32>,
    /// Things the user should know about how the target was used, in sentences.
    pub warnings: Vec<String>,
    /// How long it took.
    pub wall: Duration,
    /// What came of it.
    pub result: Result<Answer, Refusal>,
    /// The problems that were found before it was refused.
    pub found_before: Report,
    /// How it was checked while it was in use, if that was asked for.
    pub online: Option<Online>,
}

/// What was asked for.
#[derive(Debug)]
pub enum Answer {
    /// The file system was checked.
    Checked(Box<Checked>),
    /// It was only looked at.
    Estimated(Estimate),
}

/// The result of a check.
#[derive(Debug)]
pub struct Checked {
    /// The problems.
    pub report: Report,
    /// The file system.
    pub summary: Summary,
    /// What the stages cost.
    pub stats: Vec<StageStats>,
    /// How the work was divided.
    pub division: Division,
    /// What was left out for want of memory, in sentences.
    pub degraded: Vec<String>,
    /// What lies where, if a map of it is wanted.
    pub layout: Option<Layout>,
    /// How large the files are and in how many pieces they lie, if histograms are wanted.
    pub shapes: Option<FileShapes>,
}

impl Checked {
    /// Takes what a page shows besides: a map, with directories where they are known, and histograms.
    pub fn set_map(&mut self, layout: Option<Layout>, shapes: Option<FileShapes>) {
        let directories = shapes.as_ref().map_or(Vec::new(), FileShapes::directories);
        self.layout = layout.map(|layout| layout.with_directories(&directories));
        self.shapes = shapes;
    }
}

impl From<CheckReport> for Checked {
    fn from(check: CheckReport) -> Self {
        let CheckReport { findings, summary, stats, division, degraded, .. } = check;
        Checked {
            report: Report::new(findings),
            summary,
            stats,
            division,
            degraded,
            layout: None,
            shapes: None,
        }
    }
}

impl Outcome {
    /// What to call the target in text.
    pub fn name(&self) -> String {
        match self.partition {
            Some(number) => format!("{}, partition {number}", self.target),
            None => self.target.clone(),
        }
    }

    /// One word for programs.
    pub fn verdict(&self) -> &'static str {
        match &self.result {
            Ok(Answer::Checked(checked)) if checked.report.is_damaged() => "damaged",
            Ok(Answer::Checked(_)) if self.is_unconfirmed() => "unconfirmed",
            Ok(Answer::Checked(_)) => "sound",
            Ok(Answer::Estimated(_)) => "estimated",
            Err(refusal) if refusal.code == CANCELLED_CODE => "cancelled",
            Err(_) => "refused",
        }
    }

    /// Whether something was seen that could not be confirmed.
    fn is_unconfirmed(&self) -> bool {
        self.online.as_ref().is_some_and(|online| online.unconfirmed.is_damaged())
    }

    /// The bits of the exit code.
    pub fn exit_code(&self) -> u8 {
        if let Err(refusal) = &self.result
            && refusal.code == INTERRUPTED_CODE
        {
            // It is known to be in no state to be mounted.
            return exit::PROBLEMS;
        }
        match self.verdict() {
            "damaged" => exit::PROBLEMS,
            "cancelled" => exit::CANCELLED,
            "refused" | "unconfirmed" => exit::OPERATIONAL,
            _ => exit::CLEAN,
        }
    }
}
