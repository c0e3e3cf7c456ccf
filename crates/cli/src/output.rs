// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where reports go: text or JSON to standard output, warnings and refusals to standard error.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use crate::check_args::CheckArgs;
use crate::common_args::Format;
use crate::outcome::{CANCELLED_CODE, Outcome};
use crate::remedies::Remedies;
use crate::style::{Style, printable};
use crate::target::{self, Volume};
use crate::{html, json, text};

/// Prints what the user should know before the check begins.
pub fn warn(volumes: &[Volume]) {
    for volume in volumes {
        for warning in &volume.warnings {
            eprintln!("fsmend: {}: {}", printable(&volume.target), printable(warning));
        }
    }
}

/// Tells which sectors could not be read. (On standard error: which of them are asked for depends on how is read, and a report does not.)
pub fn warn_of_unreadable(volumes: &[Volume]) {
    for volume in volumes {
        if let Some(told) = volume.noted.as_deref().and_then(target::unreadable) {
            eprintln!("fsmend: {}: {told}", printable(&volume.target));
        }
    }
}

/// Prints the report. A reader that has seen enough (a closed pipe) is no error.
pub fn print(arguments: &CheckArgs, outcomes: &[Outcome], wall: Duration) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let written = match arguments.common.format {
        Format::Json => json::write(&mut out, outcomes, arguments.stats.then_some(wall)),
        Format::Html => html_page(outcomes, wall).and_then(|page| out.write_all(page.as_bytes())),
        Format::Text => {
            refusals(outcomes);
            let style = Style::for_stdout(arguments.common.color);
            let layout = text::Layout {
                style,
                all: arguments.common.all,
                quiet: arguments.quiet,
                stats: arguments.stats,
                remedies: Remedies::USUAL,
            };
            out.write_all(text::report(outcomes, layout).as_bytes())
        }
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// The report as a page. What a browser shows beside the report has the costs of the stages in it.
fn html_page(outcomes: &[Outcome], wall: Duration) -> io::Result<String> {
    let mut bytes = Vec::new();
    json::write(&mut bytes, outcomes, Some(wall))?;
    let mut document = serde_json::from_slice(&bytes)?;
    html::describe(&mut document, outcomes);
    let names: Vec<String> = outcomes.iter().map(Outcome::name).collect();
    Ok(html::page(&format!("Check of {}", names.join(", ")), &document))
}

/// Prints a text. A reader that has seen enough (a closed pipe) is no error.
pub fn print_text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

fn refusals(outcomes: &[Outcome]) {
    for outcome in outcomes {
        if let Err(refusal) = &outcome.result {
            let stop = if refusal.code == CANCELLED_CODE { "cancelled" } else { "not checked" };
            let text = refusal.to_string();
            // Some refusals already name the device.
            let text = text.strip_prefix(&format!("{}: ", outcome.target)).unwrap_or(&text);
            let lines: Vec<String> = text.trim_end_matches('.').lines().map(printable).collect();
            eprintln!("fsmend: {}: {stop}: {}.", printable(&outcome.name()), lines.join("\n"));
        }
    }
}
