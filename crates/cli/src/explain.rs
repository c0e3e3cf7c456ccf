// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend explain`: the catalogue, for people.

use fsmend_engine::{Evidence, Row, Severity};
use fsmend_session::explain::{peer_number, rows_for};
use strsim::levenshtein;

use crate::args::ExplainArgs;
use crate::exit;
use crate::style::{Paint, Style, printable};
use crate::target;

/// How many similar codes are offered for an unknown one.
const OFFERED: usize = 5;

/// Runs the command and returns the exit code.
pub fn run(arguments: &ExplainArgs) -> u8 {
    let style = Style::for_stdout(arguments.color);
    let mut text = if arguments.list { list(&catalogue(), style) } else { String::new() };
    let mut code = exit::CLEAN;
    for wanted in &arguments.codes {
        match explain(wanted, style) {
            Ok(explained) => {
                let gap = if text.is_empty() { "" } else { "\n" };
                text.push_str(gap);
                text.push_str(&explained);
            }
            Err(complaint) => {
                eprintln!("fsmend: {complaint}");
                code = exit::USAGE;
            }
        }
    }
    print!("{text}");
    code
}

/// Explains one code, or lists the codes that begin like it or stand for that number of e2fsck or that line of fsck_ffs.
fn explain(wanted: &str, style: Style) -> Result<String, String> {
    let begins = |row: &Row| row.code.starts_with(wanted.trim_end_matches(['.', '*']));
    match (&rows_for(&catalogue(), wanted)[..], peer_number(wanted)) {
        ([], Some(number)) => Err(format!(
            "no problem corresponds to e2fsck code 0x{number:06x}; `fsmend explain --list` lists all codes"
        )),
        ([], None) => Err(unknown(wanted)),
        ([row], number) if number.is_some() || row.code == wanted || !begins(row) => Ok(page(row, style)),
        (rows, _) => Ok(list(rows, style)),
    }
}

/// Every kind of problem of all families, sorted by code.
fn catalogue() -> Vec<&'static Row> {
    target::FAMILIES.catalogue()
}

fn unknown(wanted: &str) -> String {
    let mut text = format!("there is no code {:?}. The nearest ones:\n", printable(wanted));
    for row in nearest(wanted, catalogue()) {
        text.push_str(&format!("  {}\n", row.code));
    }
    text.push_str("`fsmend explain --list` lists all.");
    text
}

fn nearest(wanted: &str, mut rows: Vec<&'static Row>) -> Vec<&'static Row> {
    let wanted: String = wanted.chars().take(100).collect();
    rows.sort_by_cached_key(|row| {
        let last = row.code.rsplit('.').next().unwrap_or(row.code);
        let inside = wanted.len() >= 3 && row.code.contains(&wanted);
        (!inside, levenshtein(&wanted, row.code).min(levenshtein(&wanted, last)))
    });
    rows.truncate(OFFERED);
    rows
}

fn list(rows: &[&Row], style: Style) -> String {
    let width = rows.iter().map(|row| row.code.len()).max().unwrap_or(0);
    let line = |row: &&Row| {
        let severity = style.paint(Paint::Severity(row.severity), &format!("{:8}", row.severity.word()));
        format!("{:width$}  {severity}  {}\n", row.code, peers(row)).replace("  \n", "\n")
    };
    rows.iter().map(line).collect()
}

/// What there is to say of a problem in answer to a question about it, without colours.
pub fn plainly(row: &Row) -> String {
    let style = Style { color: false, width: 80 };
    let text = [("Meaning", row.meaning), ("Repair", row.repair), ("Lost", row.loss)];
    text.iter().map(|(name, what)| style.wrap(&format!("  {name:9}"), what)).collect()
}

/// The page on a problem.
pub fn page(row: &Row, style: Style) -> String {
    let mut text = format!("{}\n\n", style.paint(Paint::Bold, row.code));
    for (name, what) in [("Meaning", row.meaning), ("Repair", row.repair), ("Lost", row.loss)] {
        text.push_str(&style.wrap(&format!("  {name:9}"), what));
    }
    text.push('\n');
    text.push_str(&style.wrap("  Says     ", &format!("\u{201c}{}\u{201d}", row.message)));
    text.push_str(&style.wrap("  Severity ", severity_meaning(row.severity)));
    text.push_str(&style.wrap("  Evidence ", evidence_meaning(row.evidence)));
    let preen = if row.preen { "Repaired without asking by -p." } else { "Needs confirmation." };
    text.push_str(&style.wrap("  Preen    ", preen));
    if !row.peers.is_empty() {
        text.push_str(&style.wrap("  e2fsck   ", &peers(row)));
    }
    if !row.messages.is_empty() {
        let said: Vec<String> = row.messages.iter().map(|said| format!("\u{201c}{said}\u{201d}")).collect();
        text.push_str(&style.wrap("  fsck_ffs ", &said.join(", ")));
    }
    text
}

fn peers(row: &Row) -> String {
    row.peers.iter().map(|number| format!("0x{number:06x}")).collect::<Vec<_>>().join(" ")
}

fn severity_meaning(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note: the file system is consistent with it.",
        Severity::Minor => "minor: counts, bitmaps or checksums are wrong; no file is affected.",
        Severity::Major => "major: a file, a directory or a structure is wrong; users may notice.",
        Severity::Critical => "critical: much of the file system depends on it.",
    }
}

fn evidence_meaning(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Local => "self-check: seen in one record alone.",
        Evidence::Cross => "cross-check: seen by comparing several records.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_explained() {
        let style = Style { color: false, width: 80 };
        for row in catalogue() {
            let page = explain(row.code, style).unwrap_or_default();
            assert!(page.contains("Meaning") && page.contains("Lost"), "{}: {page}", row.code);
            for peer in row.peers {
                let found = explain(&format!("0x{peer:06x}"), style).unwrap_or_default();
                assert!(found.contains(row.code), "{}: not found as {peer:#08x}", row.code);
            }
            for said in row.messages.iter().filter(|said| said.len() > 3) {
                let found = explain(&format!("{said} I=12"), style).unwrap_or_default();
                assert!(found.contains(row.code), "{}: not found as {said}", row.code);
            }
        }
    }

    #[test]
    fn unknown_codes_are_complained_about() {
        let style = Style { color: false, width: 80 };
        assert!(explain("ext.nothing.like-this", style).is_err());
        assert!(explain("0xffffff", style).is_err());
        assert!(explain("", style).is_err());
    }
}
