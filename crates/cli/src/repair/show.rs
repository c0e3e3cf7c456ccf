// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a repair tells: text as it goes along, or one JSON document at its end.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fsmend_device::Plan;
use fsmend_engine::report::Report;
use fsmend_engine::{Problem, Refusal};
use serde_json::{Value as Json, json};

use super::args::RepairArgs;
use super::description::{Description, label, verbs};
use crate::ask::{self, Answer};
use crate::common_args::Format;
use crate::numbers::{bytes, counted, thousands};
use crate::outcome::{Answer as Result_, Checked, INTERRUPTED_CODE, Outcome};
use crate::remedies::Remedies;
use crate::style::{Style, printable};
use crate::text::{self, Layout};
use crate::{exit, explain, failure, html, json, target};
use fsmend_session::{Failure, RecoveredNames, Written};

/// Files that are listed unless all are wanted.
const LISTED: usize = 10;

/// How a repair ended.
#[derive(Debug)]
pub enum Ending {
    /// Nothing was wrong.
    Nothing,
    /// Nothing was wrong but what an interrupted run had left, and that is finished now.
    FinishedOnly,
    /// It is written.
    Written(Written),
    /// What the user did not decline of it is written.
    WrittenInPart(Written),
    /// What the user declined cannot be left out.
    NotSeparable,
    /// The plan is in this file.
    Saved(PathBuf),
    /// It was only to be shown.
    Shown {
        /// Whether there are problems.
        is_damaged: bool,
    },
    /// There is no repair that leaves nothing wrong.
    Impossible,
    /// It is not safe to do automatically: the first kind of problem that is not.
    NotSafe(&'static str),
    /// There is no terminal to ask at.
    NobodyToAsk,
    /// The user does not want it.
    Declined,
    /// The user stopped it.
    Stopped,
    /// It cannot be repaired at all.
    Refused(Refusal),
    /// Writing failed.
    Failed(Failure),
}

impl Ending {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Ending::Nothing | Ending::Saved(_) | Ending::Shown { is_damaged: false } => exit::CLEAN,
            Ending::FinishedOnly | Ending::Written(_) => exit::CORRECTED,
            Ending::Shown { .. } | Ending::Impossible | Ending::NotSafe(_) => exit::PROBLEMS,
            Ending::NobodyToAsk | Ending::WrittenInPart(_) | Ending::NotSeparable => exit::PROBLEMS,
            Ending::Declined | Ending::Stopped => exit::CANCELLED,
            Ending::Refused(refusal) if refusal.code == INTERRUPTED_CODE => exit::PROBLEMS,
            Ending::Failed(failure) if failure.is_stop() => exit::CANCELLED,
            Ending::Refused(_) | Ending::Failed(_) => exit::OPERATIONAL,
        }
    }

    /// One word for programs.
    fn word(&self) -> &'static str {
        match self {
            Ending::Nothing => "nothing",
            Ending::FinishedOnly => "finished",
            Ending::Written(_) => "written",
            Ending::WrittenInPart(_) => "written-in-part",
            Ending::NotSeparable => "not-separable",
            Ending::Saved(_) => "saved",
            Ending::Shown { .. } => "planned",
            Ending::Impossible => "impossible",
            Ending::NotSafe(_) => "not-safe",
            Ending::NobodyToAsk | Ending::Declined => "declined",
            Ending::Stopped => "stopped",
            Ending::Refused(_) => "refused",
            Ending::Failed(_) => "failed",
        }
    }
}

/// What the user may want to type next: it is not broken into lines, so that it can be copied.
fn command(ending: &Ending) -> String {
    let (command, place) = match ending {
        Ending::Written(Written { undo: Some(place), .. })
        | Ending::WrittenInPart(Written { undo: Some(place), .. }) => ("undo", place),
        Ending::Saved(place) => ("apply", place),
        _ => return String::new(),
    };
    format!("    fsmend {command} {}\n", printable(&place.display().to_string()))
}

/// Tells.
pub struct Show {
    name: String,
    format: Format,
    all: bool,
    style: Style,
    remedies: Remedies,
    /// What the document will hold.
    seen: RefCell<Seen>,
}

#[derive(Default)]
struct Seen {
    outcome: Option<Outcome>,
    description: Description,
    finished: Option<String>,
    rounds: u32,
    left: Vec<(String, String)>,
    blocks: Vec<(u64, u64)>,
    bytes: u64,
    /// What only later looks found.
    later: Report,
    /// What stands in `lost+found` once it is written.
    recovered_names: RecoveredNames,
    /// The first kind of problem that only a later look found and that is not safe to mend unattended.
    later_unsafe: Option<&'static str>,
}

impl Show {
    /// As the command line wants it.
    pub fn new(arguments: &RepairArgs) -> Self {
        let target = arguments.target.display();
        let name = match arguments.common.partition {
            Some(number) => format!("{target}, partition {number}"),
            None => target.to_string(),
        };
        Show {
            name,
            format: arguments.common.format,
            all: arguments.common.all,
            remedies: Remedies { duplicates: arguments.duplicates },
            style: Style::for_stdout(arguments.common.color),
            seen: RefCell::default(),
        }
    }

    /// Whether a page for a browser is wanted.
    pub fn is_html(&self) -> bool {
        self.format == Format::Html
    }

    /// Tells something that the user should know, on standard error.
    pub fn warn(&self, sentence: &str) {
        eprintln!("fsmend: {}: {}", printable(&self.name), printable(sentence));
    }

    /// Tells what became of an interrupted run.
    pub fn tell_first(&self, sentence: &str) {
        self.seen.borrow_mut().finished = Some(sentence.to_owned());
        self.print(&self.style.wrap("", &format!("{}: {sentence}.", printable(&self.name))));
        self.print("\n");
    }

    /// Tells what was found before a target was refused.
    pub fn found_before(&self, report: &Report) {
        for problem in report.problems() {
            self.print(&self.style.wrap("  - ", &printable(&problem.message())));
        }
    }

    /// Tells what is wrong and what would be done about it.
    pub fn plan(
        &self,
        (checked, later): (Checked, Report),
        description: Description,
        took: Duration,
        plan: &Plan,
        (rounds, left): (u32, &Report),
    ) {
        let outcome = Outcome {
            target: self.name.clone(),
            partition: None,
            warnings: Vec::new(),
            wall: took,
            result: Ok(Result_::Checked(Box::new(checked))),
            found_before: Report::default(),
            online: None,
        };
        let (style, all, remedies) = (self.style, self.all, self.remedies);
        let layout = Layout { style, all, quiet: false, stats: false, remedies };
        if !plan.is_empty() && !left.is_damaged() {
            let told = self.plan_text(&description, plan, rounds);
            self.print(&text::report_with(&outcome, layout, &told));
        } else {
            self.print(&text::report(std::slice::from_ref(&outcome), layout));
        }
        if left.is_damaged() {
            self.print(&self.left_text(left, rounds));
        }
        let mut seen = self.seen.borrow_mut();
        seen.rounds = rounds;
        seen.later_unsafe = later.damage().map(|group| group.row).find(|row| !row.preen).map(|row| row.code);
        seen.left = left
            .damage()
            .flat_map(|group| &group.problems)
            .map(|problem| (problem.row.code.to_owned(), problem.message()))
            .collect();
        seen.blocks = plan.blocks().map(|block| (block.offset, block.len)).collect();
        seen.bytes = plan.bytes_to_write();
        (seen.outcome, seen.description, seen.later) = (Some(outcome), description, later);
    }

    fn plan_text(&self, description: &Description, plan: &Plan, rounds: u32) -> String {
        let blocks = plan.blocks().count() as u64;
        let mut text = self.style.wrap(
            "\nThe repair: ",
            &format!(
                "{} ({}) would be written. It was computed in memory and the result was checked: no problems remain \
                 ({}).",
                counted(blocks, "block", "blocks"),
                bytes(plan.bytes_to_write()),
                counted(u64::from(rounds), "round", "rounds"),
            ),
        );
        text.push_str(&self.files_text(description));
        text
    }

    /// What happens to files, and what may be lost.
    fn files_text(&self, description: &Description) -> String {
        let mut text = String::new();
        if !description.files.is_empty() {
            text.push_str(&format!(
                "Affected files and directories ({}):\n",
                thousands(description.files.len() as u64)
            ));
        }
        let listed = if self.all { usize::MAX } else { LISTED };
        for file in description.files.iter().take(listed) {
            text.push_str(&self.style.wrap("  - ", &format!("{}: {}", label(file), verbs(file))));
        }
        if description.files.len() > listed {
            let rest = thousands((description.files.len() - listed) as u64);
            text.push_str(&format!("    and {rest} more (--all lists them)\n"));
        }
        text.push_str(&self.losses_text(description, listed));
        if !description.later.is_empty() {
            text.push_str("Found during the repair:\n");
        }
        for (code, message) in description.later.iter().take(listed) {
            text.push_str(&self.style.wrap("  - ", &format!("[{code}] {}", printable(message))));
        }
        if description.later.len() > listed {
            let rest = thousands((description.later.len() - listed) as u64);
            text.push_str(&format!("    and {rest} more (--all lists them)\n"));
        }
        text
    }

    /// Tells what is written where some problems were declined.
    pub fn rest(&self, description: &Description, plan: &Plan) {
        let blocks = counted(plan.blocks().count() as u64, "block", "blocks");
        let head = format!("{blocks} ({}) are written.", bytes(plan.bytes_to_write()));
        let mut text = self.style.wrap("\nThe repair without what was declined: ", &head);
        text.push_str(&self.files_text(description));
        self.print(&text);
    }

    /// What may be lost, file by file, and then what no file stands for.
    fn losses_text(&self, description: &Description, listed: usize) -> String {
        let files: Vec<_> = description.files_with_losses().collect();
        let rest: Vec<_> = description.losses_without_file().collect();
        if files.is_empty() && rest.is_empty() {
            return "Nothing is lost.\n".to_owned();
        }
        let mut text = String::from("What may be lost:\n");
        for file in files.iter().take(listed) {
            let mut line = format!("{}: {}.", label(file), verbs(file));
            if !file.losses.is_empty() {
                let codes: Vec<&str> = file.losses.iter().map(|row| row.code).collect();
                line.push_str(&format!(" {} [{}]", description.loss_of(file), codes.join(", ")));
            }
            text.push_str(&self.style.wrap("  - ", &line));
        }
        if files.len() > listed {
            let more = thousands((files.len() - listed) as u64);
            text.push_str(&format!("    and {more} more files (--all lists them)\n"));
        }
        for (count, code, loss) in rest {
            text.push_str(&self.style.wrap("  - ", &format!("{code} ({}): {loss}", thousands(*count))));
        }
        text
    }

    fn left_text(&self, left: &Report, rounds: u32) -> String {
        let head = format!(
            "{}: no complete repair was found ({}). These problems would remain:",
            printable(&self.name),
            counted(u64::from(rounds), "round", "rounds")
        );
        let mut text = String::from("\n") + &self.style.wrap("", &head);
        for group in left.damage() {
            for problem in group.problems.iter().take(LISTED) {
                let line = format!("[{}] {}", problem.row.code, printable(&problem.message()));
                text.push_str(&self.style.wrap("  - ", &line));
            }
        }
        text
    }

    /// Whether the repair may be written, and which problems are to be left alone; how it ends if not.
    pub fn may_write(
        &self,
        arguments: &RepairArgs,
        is_damaged: bool,
        stop: &AtomicBool,
    ) -> Result<Vec<Problem>, Ending> {
        if arguments.dry_run {
            return Err(Ending::Shown { is_damaged });
        }
        if arguments.yes {
            return Ok(Vec::new());
        }
        if arguments.preen {
            return self.first_unsafe().map_or(Ok(Vec::new()), |code| Err(Ending::NotSafe(code)));
        }
        // A question within a document would make it invalid.
        if self.format != Format::Text || !ask::is_possible() {
            return Err(Ending::NobodyToAsk);
        }
        if arguments.step {
            return self.ask_step_by_step(stop);
        }
        let what = "The whole repair is written, and checked before that. An undo file takes it back, unless --no-undo is given.\n";
        match ask::ask("\nWrite this repair? [y/n/?] ", what, Some(Answer::No), stop) {
            Answer::Stop => Err(Ending::Stopped),
            Answer::No => Err(Ending::Declined),
            Answer::Yes | Answer::All => Ok(Vec::new()),
        }
    }

    fn first_unsafe(&self) -> Option<&'static str> {
        let seen = self.seen.borrow();
        let Some(Ok(Result_::Checked(checked))) = seen.outcome.as_ref().map(|outcome| &outcome.result) else {
            return None;
        };
        checked
            .report
            .damage()
            .map(|group| group.row)
            .find(|row| !row.preen)
            .map(|row| row.code)
            .or(seen.later_unsafe)
    }

    /// Asks about every problem; those that are to be left alone.
    fn ask_step_by_step(&self, stop: &AtomicBool) -> Result<Vec<Problem>, Ending> {
        let problems = self.problems();
        let mut declined = Vec::new();
        for problem in &problems {
            let text =
                format!("{}\n  {}", printable(&problem.message()), self.remedies.of(problem.row).repair);
            let question = format!("\n{text}\n  Repair? [y/n/a/q/?] ");
            match ask::ask(&question, &explain::page(problem.row, self.style), None, stop) {
                Answer::Stop => return Err(Ending::Stopped),
                Answer::Yes => {}
                Answer::All => break,
                Answer::No => declined.push(problem.clone()),
            }
        }
        if !problems.is_empty() && declined.len() == problems.len() {
            Err(Ending::Declined)
        } else {
            Ok(declined)
        }
    }

    /// What is wrong.
    pub fn problems(&self) -> Vec<Problem> {
        match self.seen.borrow().outcome.as_ref().map(|outcome| &outcome.result) {
            Some(Ok(Result_::Checked(checked))) => {
                checked.report.damage().flat_map(|group| &group.problems).cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Tells how it ended and returns the exit code.
    pub fn end(&self, ending: &Ending) -> u8 {
        let code = ending.code();
        if self.format != Format::Text {
            let written = self.document(ending, code).and_then(|document| {
                let mut out = io::stdout().lock();
                out.write_all(&document).and_then(|()| out.flush())
            });
            if let Err(error) = written
                && error.kind() != io::ErrorKind::BrokenPipe
            {
                eprintln!("fsmend: cannot write the report: {error}");
                return exit::OPERATIONAL;
            }
            return code;
        }
        let name = printable(&self.name);
        match ending {
            Ending::Refused(refusal) => {
                let text = refusal.to_string();
                let text = text.strip_prefix(&format!("{}: ", self.name)).unwrap_or(&text);
                eprintln!("fsmend: {name}: not repaired: {}.", printable(text.trim_end_matches('.')));
            }
            Ending::Failed(failure) => eprintln!("fsmend: {name}: {}.", printable(&failure::told(failure))),
            Ending::Stopped => eprintln!("fsmend: {name}: stopped; nothing was written."),
            told => {
                let sentence = format!("{name}: {}", self.sentence(told));
                self.print(&format!("\n{}{}", self.style.wrap("", &sentence), command(told)));
                if let Ending::Written(written) | Ending::WrittenInPart(written) = told {
                    self.tell_recovered_names(written);
                }
            }
        }
        if let Ending::Written(written) | Ending::WrittenInPart(written) = ending
            && let Some(warning) = &written.warning
        {
            self.warn(warning);
        }
        code
    }

    /// What is going to stand in `lost+found`, without what was declined.
    pub fn recovered_names(&self, declined: &[Problem]) -> RecoveredNames {
        let mut seen = self.seen.borrow_mut();
        let Some(Ok(Result_::Checked(checked))) = seen.outcome.as_ref().map(|outcome| &outcome.result) else {
            return RecoveredNames::default();
        };
        let recovered_names =
            RecoveredNames::of(&target::FAMILIES.recovering(), &[&checked.report, &seen.later], declined);
        seen.recovered_names = recovered_names.clone();
        recovered_names
    }

    /// Tells what stands in `lost+found` by now, and what it was before.
    fn tell_recovered_names(&self, written: &Written) {
        let seen = self.seen.borrow();
        let all = seen.recovered_names.len();
        if all == 0 {
            return;
        }
        let listed = if self.all { usize::MAX } else { LISTED };
        let what = counted(all as u64, "file or directory", "files and directories");
        let mut text = self.style.wrap("", &format!("In lost+found, former name known ({what}):"));
        for line in seen.recovered_names.lines().take(listed) {
            text.push_str(&self.style.wrap("  - ", line));
        }
        if all > listed {
            text.push_str(&format!("    and {} more\n", thousands((all - listed) as u64)));
        }
        if let Some(place) = &written.names {
            text.push_str(&format!("These names are saved in {}\n", printable(&place.display().to_string())));
        }
        self.print(&text);
    }

    fn sentence(&self, ending: &Ending) -> String {
        match ending {
            Ending::Nothing => "nothing to do.".to_owned(),
            Ending::FinishedOnly => "nothing else to do.".to_owned(),
            Ending::NotSeparable => {
                "nothing was written: the repair depends on the declined part.".to_owned()
            }
            Ending::Written(written) | Ending::WrittenInPart(written) => {
                let undo = match &written.undo {
                    Some(_) => "An undo file was written. To take the repair back:",
                    None => "No undo file was written.",
                };
                let done = if matches!(ending, Ending::Written(_)) {
                    "repaired"
                } else {
                    "partly repaired (declined problems are unchanged)"
                };
                format!("{done}, {} written. {undo}", counted(written.blocks, "block", "blocks"))
            }
            Ending::Saved(_) => "nothing was written. To apply the plan:".to_owned(),
            Ending::Shown { .. } => "nothing was written.".to_owned(),
            Ending::Impossible => "nothing was written.".to_owned(),
            Ending::NotSafe(code) => {
                format!("nothing was written: {code} is not safe to repair automatically. Run without -p.")
            }
            Ending::NobodyToAsk => {
                "nothing was written: no terminal to ask at. -y writes without asking.".to_owned()
            }
            _ => "nothing was written.".to_owned(),
        }
    }

    fn document(&self, ending: &Ending, code: u8) -> io::Result<Vec<u8>> {
        let seen = self.seen.borrow();
        let refused;
        let outcome = match (&seen.outcome, ending) {
            (Some(outcome), _) => outcome,
            (None, Ending::Refused(refusal)) => {
                refused = self.without_result(refusal.clone());
                &refused
            }
            (None, _) => {
                refused = self.without_result(Refusal {
                    code: crate::outcome::CANCELLED_CODE,
                    message: self.sentence(ending),
                    hint: "Run it again".to_owned(),
                });
                &refused
            }
        };
        let mut bytes = Vec::new();
        json::write_repair(&mut bytes, outcome, self.repair_json(&seen, ending, code))?;
        if self.is_html() {
            let mut document = serde_json::from_slice(&bytes)?;
            html::describe(&mut document, std::slice::from_ref(outcome));
            bytes = html::page(&format!("Repair of {}", self.name), &document).into_bytes();
        }
        Ok(bytes)
    }

    fn without_result(&self, refusal: Refusal) -> Outcome {
        Outcome {
            target: self.name.clone(),
            partition: None,
            warnings: Vec::new(),
            wall: Duration::ZERO,
            result: Err(refusal),
            found_before: Report::default(),
            online: None,
        }
    }

    fn repair_json(&self, seen: &Seen, ending: &Ending, code: u8) -> Json {
        let mut repair = json!({
            "outcome": ending.word(),
            "exit_code": code,
            "rounds": seen.rounds,
            "bytes": seen.bytes,
            "blocks": seen.blocks.iter().map(|(offset, len)| json!({"offset": offset, "length": len})).collect::<Vec<Json>>(),
            "left": seen.left.iter().map(|(code, message)| json!({"code": code, "message": message})).collect::<Vec<Json>>(),
        });
        let description = seen.description.to_json(usize::MAX);
        for name in ["files", "losses", "structures", "tree", "found_later"] {
            repair[name] = description[name].clone();
        }
        if let Some(finished) = &seen.finished {
            repair["finished_first"] = json!(finished);
        }
        match ending {
            Ending::Written(written) | Ending::WrittenInPart(written) => {
                if let Some(place) = &written.undo {
                    repair["undo_file"] = json!(place.display().to_string());
                }
                if let Some(place) = &written.names {
                    repair["names_file"] = json!(place.display().to_string());
                }
                if let Some(warning) = &written.warning {
                    repair["warning"] = json!(warning);
                }
            }
            Ending::Saved(place) => repair["plan_file"] = json!(place.display().to_string()),
            Ending::Failed(failure) => repair["error"] = json!(failure::told(failure)),
            _ => {}
        }
        repair
    }

    fn print(&self, text: &str) {
        if self.format == Format::Text {
            print!("{text}");
        }
    }
}
