// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend plan`: shows what a saved plan does, and whether it still fits its target. Nothing is written.

mod contents;
mod text;
mod tree;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fsmend_device::{Condition, OpenOptions, Plan};
use fsmend_engine::options::SuperblockOptions;
use fsmend_session::interrupted;
use fsmend_session::places::{self, Kind};
use serde_json::json;

use self::contents::Contents;
use crate::common_args::{Format, When};
use crate::numbers::{bytes, counted};
use crate::style::{Style, printable};
use crate::{exit, html, json, output, target};

pub use contents::target_of;
pub use tree::{TreeChange, of_files as tree_of_files};

/// A plan is not longer than this.
pub const PLAN_BYTES_MAX: u64 = 4 << 30;

const EXIT_CODES: &str = "Exit status: 0 shown, or the plan fits its target, 4 the plan does not fit its target, 8 operational error, 16 \
                          usage error.";

/// `fsmend plan`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct PlanArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Show what a plan does: to which file, to the tree, to which structures
    Show {
        /// Plan saved by `fsmend repair --plan`
        #[arg(value_name = "PLANFILE")]
        plan: PathBuf,

        /// Output format
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,

        /// Colours
        #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto)]
        color: When,
    },
    /// Compare a target with the plan that was made for it. Writes nothing
    Verify {
        /// Plan saved by `fsmend repair --plan`
        #[arg(value_name = "PLANFILE")]
        plan: PathBuf,

        /// Target [default: the target in the plan]
        #[arg(value_name = "TARGET")]
        target: Option<PathBuf>,

        /// Device or image of the log, if that is on another device [default: where it was]
        #[arg(short, long, value_name = "DEVICE")]
        journal: Option<PathBuf>,
    },
}

/// Runs the command and returns the exit code.
pub fn run(arguments: &PlanArgs) -> u8 {
    let done = match &arguments.what {
        What::Show { plan, format, color } => show(plan, *format, Style::for_stdout(*color)),
        What::Verify { plan, target, journal } => load(plan).and_then(|loaded| {
            let fit = fit(&loaded, plan, (target.as_deref(), journal.as_deref()))?;
            println!("{}", printable(&fit.sentence()));
            Ok(if fit.is_good() { exit::CLEAN } else { exit::PROBLEMS })
        }),
    };
    done.unwrap_or_else(|why| {
        eprintln!("fsmend: {}.", printable(why.trim_end_matches('.')));
        exit::OPERATIONAL
    })
}

/// Reads a plan; or says why that is not possible.
pub fn load(path: &Path) -> Result<Plan, String> {
    let name = path.display();
    Plan::load(path, PLAN_BYTES_MAX).map_err(|error| match places::kind(path) {
        Kind::Log => {
            format!("{name}: it is an undo file, not a plan; \"fsmend undo {name}\" takes that repair back")
        }
        _ => format!("{name}: {error}"),
    })
}

/// Where the log of the target of `plan` is, if that is on another device: the one that is named, or where it was, if something is there.
pub fn log_of(plan: &Plan, named: Option<&Path>) -> Option<PathBuf> {
    let was = || contents::log_of(plan).filter(|path| path.exists());
    named.map(Path::to_owned).or_else(was)
}

fn show(path: &Path, format: Format, style: Style) -> Result<u8, String> {
    let plan = load(path)?;
    let contents = Contents::of(&plan);
    let text = match format {
        Format::Text => text::page(path, &plan, &contents, style),
        Format::Json | Format::Html => {
            let mut document = json!({
                "version": json::VERSION,
                "tool": {"name": "fsmend", "version": env!("CARGO_PKG_VERSION")},
                "plan": contents.to_json(path, &plan),
            });
            match format {
                Format::Html => {
                    let codes: Vec<&str> = contents.problems().map(|(code, _)| code).collect();
                    html::explain(&mut document, &codes);
                    html::page(&format!("Plan {}", path.display()), &document)
                }
                _ => format!("{document:#}\n"),
            }
        }
    };
    output::print_text(&text).map_err(|error| format!("cannot write the report: {error}"))?;
    Ok(exit::CLEAN)
}

/// How a plan fits a target.
pub struct Fit {
    target: String,
    /// How many blocks it has, and how many bytes would be written.
    size: (u64, u64),
    condition: Condition,
}

impl Fit {
    /// Whether the plan can be applied, or was.
    pub fn is_good(&self) -> bool {
        !matches!(self.condition, Condition::Other(_))
    }

    /// What there is to say.
    pub fn sentence(&self) -> String {
        let Fit { target, size: (blocks, to_write), condition } = self;
        let blocks = counted(*blocks, "block", "blocks");
        match condition {
            Condition::AsPlanned => format!(
                "{target}: unchanged since the plan was made. Applying the plan would write {blocks} ({}).",
                bytes(*to_write)
            ),
            Condition::Done => format!("{target}: the plan was already applied."),
            Condition::Other(differences) if differences.offsets.is_empty() => format!(
                "{target}: it has another length than the target that the plan was made for. Nothing can be applied."
            ),
            Condition::Other(differences) => format!(
                "{target}: it has changed since the plan was made ({differences}). Make a new plan (fsmend repair --plan)."
            ),
        }
    }
}

/// Compares `plan`, from the file `path`, with its target and the log of that, or with others.
pub fn fit(plan: &Plan, path: &Path, (other, log): (Option<&Path>, Option<&Path>)) -> Result<Fit, String> {
    let (named, start) = contents::target_of(plan).unwrap_or_default();
    let target = other.map_or_else(|| PathBuf::from(named), Path::to_owned);
    if target.as_os_str().is_empty() {
        return Err(format!(
            "{}: the plan does not name its target; give the target after the plan",
            path.display()
        ));
    }
    let name = target.display().to_string();
    let options = OpenOptions { offset: Some(start), partition: None };
    let opened = fsmend_device::open(&target, &options, &target::FAMILIES)
        .map_err(|error| format!("{name}: {}", target::refusal(&error)))?;
    let only = opened.targets.into_iter().next().ok_or_else(|| format!("{name}: nothing is in it"))?;
    let said = |refusal| format!("{name}: {refusal}");
    let environment = target::environment();
    let known = (&environment, SuperblockOptions::default());
    let log = log_of(plan, log);
    let device = target::whole(&only.device, log.as_deref(), known, |_| {}).map_err(said)?;
    interrupted::refuse(&environment, &target, start, &*device).map_err(said)?;
    let size = (plan.blocks().count() as u64, plan.bytes_to_write());
    Ok(Fit { target: name, size, condition: plan.compare(&*device) })
}
