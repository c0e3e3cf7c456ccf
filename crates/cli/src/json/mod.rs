//! The report for programs: one JSON document. Its shape is documented in docs/json-schema.md and fixed by
//! docs/report.schema.json; it grows, but nothing in it changes meaning without a new `version`.

#[cfg(test)]
#[path = "../../tests/support/schema.rs"]
mod schema;
#[cfg(test)]
mod tests;

use std::time::Duration;

use fsmend_engine::report::{Report, StageStats, Summary};
use fsmend_engine::{Object, Problem, Value};
use fsmend_ext_check::Refusal;
use fsmend_ext_check::run::Estimate;
use serde_json::{Map, Value as Json, json};

use crate::outcome::{Answer, Checked, Outcome};

/// The version of the document's shape.
pub const VERSION: u32 = 1;

/// The document. Run times are in it only if `wall`, the time of the whole run, is given.
pub fn document(outcomes: &[Outcome], wall: Option<Duration>) -> String {
    let mut document = object([
        ("version", json!(VERSION)),
        ("tool", json!({"name": "fsmend", "version": env!("CARGO_PKG_VERSION")})),
    ]);
    match outcomes {
        [one] => document.extend(target(one, wall.is_some())),
        many => {
            let targets = many.iter().map(|one| Json::Object(target(one, wall.is_some()))).collect();
            document.insert("targets".to_owned(), Json::Array(targets));
            if let Some(wall) = wall {
                document.insert("wall_ns".to_owned(), nanoseconds(wall));
            }
        }
    }
    format!("{:#}\n", Json::Object(document))
}

fn target(outcome: &Outcome, with_stats: bool) -> Map<String, Json> {
    let mut target = object([("target", json!(outcome.target))]);
    if let Some(number) = outcome.partition {
        target.insert("partition".to_owned(), json!(number));
    }
    target.insert("verdict".to_owned(), json!(outcome.verdict()));
    if !outcome.warnings.is_empty() {
        target.insert("warnings".to_owned(), json!(outcome.warnings));
    }
    match &outcome.result {
        Ok(Answer::Checked(checked)) => {
            target.extend(checked_members(checked));
            if with_stats {
                target.insert("stats".to_owned(), stats(&checked.stats, outcome.wall));
            }
        }
        Ok(Answer::Estimated(estimate)) => target.extend(object([("estimate", estimate_json(estimate))])),
        Err(refusal) => target.extend(refused_members(refusal, &outcome.found_before)),
    }
    target
}

fn checked_members(checked: &Checked) -> Map<String, Json> {
    let mut members = report_members(&checked.report);
    members.extend(object([("summary", summary(&checked.summary))]));
    if !checked.degraded.is_empty() {
        members.insert("degraded".to_owned(), json!(checked.degraded));
    }
    members
}

/// Programs that only look for problems find those that led to the refusal.
fn refused_members(refusal: &Refusal, found_before: &Report) -> Map<String, Json> {
    let mut members = report_members(found_before);
    let error = json!({"code": refusal.code, "message": refusal.message, "way_out": refusal.way_out});
    members.extend(object([("error", error)]));
    members
}

fn report_members(report: &Report) -> Map<String, Json> {
    let problems = report.problems().map(problem).collect();
    let counts = report.counts().into_iter().map(|(code, count)| (code.to_owned(), json!(count)));
    object([("problems", Json::Array(problems)), ("counts", Json::Object(counts.collect()))])
}

fn problem(problem: &Problem) -> Json {
    let row = problem.row;
    let mut members = object([
        ("code", json!(row.code)),
        ("severity", json!(row.severity.word())),
        ("evidence", json!(row.evidence.word())),
        ("preen", json!(row.preen)),
        ("message", json!(problem.message())),
        ("object", place(&problem.object)),
    ]);
    for (name, operand) in [("stored", &problem.stored), ("observed", &problem.observed)] {
        if let Some(operand) = operand {
            members.insert(name.to_owned(), value(operand));
        }
    }
    if !problem.details.is_empty() {
        let details = problem.details.iter().map(|(name, operand)| ((*name).to_owned(), value(operand)));
        members.insert("details".to_owned(), Json::Object(details.collect()));
    }
    let peers = row.peers.iter().map(|number| json!(format!("0x{number:06x}"))).collect();
    members.insert("e2fsck".to_owned(), Json::Array(peers));
    Json::Object(members)
}

fn place(place: &Object) -> Json {
    let members = [
        ("inode", place.inode.map(|inode| json!(inode.0))),
        ("path", place.path.as_ref().map(|path| json!(path))),
        ("block", place.block.map(|block| json!(block.0))),
        ("blocks", place.block_count.map(|count| json!(count))),
        ("group", place.group.map(|group| json!(group.0))),
    ];
    Json::Object(members.into_iter().filter_map(|(name, member)| Some((name.to_owned(), member?))).collect())
}

/// Numbers stay numbers; bit patterns and checksums are strings in hexadecimal; inodes are objects.
fn value(operand: &Value) -> Json {
    match operand {
        Value::Number(number) => json!(number),
        Value::Hex(_) | Value::Text(_) => json!(operand.to_string()),
        Value::Inode(inode, path) => {
            place(&Object { inode: Some(*inode), path: path.clone(), ..Object::default() })
        }
        Value::List(values) => Json::Array(values.iter().map(value).collect()),
    }
}

fn summary(summary: &Summary) -> Json {
    json!({
        "kind": summary.kind,
        "label": summary.label,
        "uuid": summary.uuid,
        "features": summary.features.split_whitespace().collect::<Vec<_>>(),
        "block_size": summary.block_size,
        "files_used": summary.files_used,
        "files_total": summary.files_total,
        "directories": summary.directories,
        "non_contiguous": summary.non_contiguous,
        "blocks_used": summary.blocks_used,
        "blocks_total": summary.blocks_total,
        "journal": summary.journal.word(),
        "superblock": {"block": summary.superblock, "backup": summary.superblock_is_backup},
    })
}

fn estimate_json(estimate: &Estimate) -> Json {
    json!({
        "bytes": estimate.bytes,
        "requests": estimate.requests,
        "seconds_low": estimate.seconds_low,
        "seconds_high": estimate.seconds_high,
        "basis": estimate.basis,
    })
}

fn stats(stages: &[StageStats], wall: Duration) -> Json {
    let stages: Vec<Json> = stages.iter().map(stage).collect();
    json!({"wall_ns": nanoseconds(wall), "stages": stages})
}

fn stage(stage: &StageStats) -> Json {
    json!({
        "name": stage.name,
        "wall_ns": stage.wall_ns,
        "cpu_ns": stage.cpu_ns,
        "peak_memory": stage.peak_memory,
        "bytes_read": stage.bytes_read,
        "requests": stage.requests,
        "items": stage.items,
    })
}

fn nanoseconds(span: Duration) -> Json {
    json!(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

fn object<const N: usize>(members: [(&str, Json); N]) -> Map<String, Json> {
    members.into_iter().map(|(name, member)| (name.to_owned(), member)).collect()
}
