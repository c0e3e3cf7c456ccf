// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report for programs: one JSON document. Its shape is documented in docs/json-schema.md and fixed by
//! docs/report.schema.json; it grows, but nothing in it changes meaning without a new `version`.

#[cfg(test)]
#[path = "../../tests/support/schema.rs"]
mod schema;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::time::Duration;

use fsmend_engine::report::{Division, Report};
use fsmend_engine::{Problem, Refusal};
use fsmend_session::json as parts;
pub use fsmend_session::json::former_name;
use fsmend_session::json::{counts, object, stage, summary};
use serde::{Serialize, Serializer};
use serde_json::{Value as Json, json};

use crate::online::Online;
use crate::online::tell::seconds;
use crate::outcome::{Answer, Checked, Outcome};

/// The version of the document's shape.
pub const VERSION: u32 = 1;

/// Writes the document. Run times are in it only if `wall`, the time of the whole run, is given.
pub fn write(out: &mut impl Write, outcomes: &[Outcome], wall: Option<Duration>) -> io::Result<()> {
    let mut document = members([
        ("version", json!(VERSION)),
        ("tool", json!({"name": "fsmend", "version": env!("CARGO_PKG_VERSION")})),
    ]);
    match outcomes {
        [one] => document.0.extend(target(one, wall.is_some()).0),
        many => {
            let targets = many.iter().map(|one| target(one, wall.is_some())).collect();
            document.0.push(("targets", Member::Targets(targets)));
            document.push_some("wall_ns", wall.map(nanoseconds));
        }
    }
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}

/// Writes the document on a repair: what a check would say of what was found, and what was done about it.
pub fn write_repair(out: &mut impl Write, outcome: &Outcome, repair: Json) -> io::Result<()> {
    let mut document = members([
        ("version", json!(VERSION)),
        ("tool", json!({"name": "fsmend", "version": env!("CARGO_PKG_VERSION")})),
    ]);
    document.0.extend(target(outcome, false).0);
    document.push_some("repair", Some(repair));
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}

/// Writes the document on options that could not be understood: there is no target in it.
pub fn write_usage_error(out: &mut impl Write, message: &str) -> io::Result<()> {
    write_refusal(out, "usage", message, "fsmend --help lists the options")
}

/// Writes the document on what was refused before there was anything to report.
pub fn write_refusal(out: &mut impl Write, code: &str, message: &str, hint: &str) -> io::Result<()> {
    let document = members([
        ("version", json!(VERSION)),
        ("tool", json!({"name": "fsmend", "version": env!("CARGO_PKG_VERSION")})),
        ("verdict", json!("refused")),
        ("error", json!({"code": code, "message": message, "hint": hint})),
    ]);
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}

/// An object whose problems become JSON one by one while they are written: all of them at once would take many times the memory
/// that the check was allowed.
struct Members<'a>(Vec<(&'static str, Member<'a>)>);

enum Member<'a> {
    Json(Json),
    Problems(&'a Report),
    Targets(Vec<Members<'a>>),
}

impl Members<'_> {
    fn push_some(&mut self, name: &'static str, member: Option<Json>) {
        self.0.extend(member.map(|member| (name, Member::Json(member))));
    }
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, member)| (name, member)))
    }
}

impl Serialize for Member<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Member::Json(json) => json.serialize(serializer),
            Member::Problems(report) => serializer.collect_seq(report.problems().map(problem)),
            Member::Targets(targets) => targets.serialize(serializer),
        }
    }
}

fn members<'a, const N: usize>(members: [(&'static str, Json); N]) -> Members<'a> {
    Members(members.into_iter().map(|(name, member)| (name, Member::Json(member))).collect())
}

fn target(outcome: &Outcome, with_stats: bool) -> Members<'_> {
    let mut target = members([("target", json!(outcome.target))]);
    target.push_some("partition", outcome.partition.map(|number| json!(number)));
    target.push_some("verdict", Some(json!(outcome.verdict())));
    target.push_some("online", outcome.online.as_ref().map(online));
    target.push_some("warnings", (!outcome.warnings.is_empty()).then(|| json!(outcome.warnings)));
    match &outcome.result {
        Ok(Answer::Checked(checked)) => {
            target.0.extend(checked_members(checked).0);
            target.push_some("stats", with_stats.then(|| stats(checked, outcome.wall)));
        }
        Ok(Answer::Estimated(estimate)) => target.push_some("estimate", Some(parts::estimate(estimate))),
        Err(refusal) => target.0.extend(refused_members(refusal, &outcome.found_before).0),
    }
    target
}

fn checked_members(checked: &Checked) -> Members<'_> {
    let mut members = report_members(&checked.report);
    members.push_some("summary", Some(summary(&checked.summary)));
    members.push_some("degraded", (!checked.degraded.is_empty()).then(|| json!(checked.degraded)));
    members
}

/// Programs that only look for problems find those that led to the refusal.
fn refused_members<'a>(refusal: &Refusal, found_before: &'a Report) -> Members<'a> {
    let mut members = report_members(found_before);
    let error = json!({"code": refusal.code, "message": refusal.message, "hint": refusal.hint});
    members.push_some("error", Some(error));
    members
}

fn report_members(report: &Report) -> Members<'_> {
    Members(vec![("problems", Member::Problems(report)), ("counts", Member::Json(counts(report)))])
}

/// A problem, with what other checkers call it.
fn problem(problem: &Problem) -> Json {
    let (row, mut members) = (problem.row, parts::problem(problem));
    let peers = problem.peers().map(|number| json!(format!("0x{number:06x}"))).collect();
    members.insert("e2fsck".to_owned(), Json::Array(peers));
    if !row.messages.is_empty() {
        members.insert("fsck_ffs".to_owned(), json!(row.messages));
    }
    Json::Object(members)
}

fn online(online: &Online) -> Json {
    let mut members = object([("view", json!(online.view.word())), ("as_of", json!(seconds(online.at)))]);
    let mut add = |name: &str, member: Option<Json>| {
        members.extend(member.map(|member| (name.to_owned(), member)));
    };
    add("of", online.of.as_ref().map(|of| json!(of)));
    add("frozen_ns", online.frozen.map(nanoseconds));
    add("unconfirmed", Some(Json::Array(online.unconfirmed.problems().map(problem).collect())));
    add("reason", online.reason.as_ref().map(|reason| json!(reason)));
    add("tried", (!online.tried.is_empty()).then(|| json!(online.tried)));
    add("marked_for_repair", online.marked.as_ref().map(|marked| json!(marked.is_ok())));
    Json::Object(members)
}

fn stats(checked: &Checked, wall: Duration) -> Json {
    let stages: Vec<Json> = checked.stats.iter().map(stage).collect();
    let Division { mode, workers, waited, waited_at_once, waiting_max } = checked.division;
    json!({
        "wall_ns": nanoseconds(wall),
        "schedule": mode.to_string(),
        "workers": workers,
        "delayed_certification": {
            "entries": waited,
            "most_at_once": waited_at_once,
            "room": waiting_max,
        },
        "stages": stages,
    })
}

fn nanoseconds(span: Duration) -> Json {
    json!(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
