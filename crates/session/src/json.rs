// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports for programs: the parts of the document whose shape docs/json-schema.md explains.

use fsmend_engine::report::{CheckReport, Report, StageStats, Summary};
use fsmend_engine::{Estimate, FormerName, Object, Problem, Value};
use serde_json::{Map, Value as Json, json};

/// The result of a check: its problems and their numbers, what the file system is, what was done in a poorer way for want of memory. A report with very many problems takes
/// several times its memory this way; [`problem`] turns them into JSON one by one.
pub fn check_report(checked: CheckReport) -> Json {
    let report = Report::new(checked.findings);
    let mut members = object([
        ("problems", report.problems().map(problem).collect()),
        ("counts", counts(&report)),
        ("summary", summary(&checked.summary)),
    ]);
    if !checked.degraded.is_empty() {
        members.insert("degraded".to_owned(), json!(checked.degraded));
    }
    Json::Object(members)
}

/// How many problems there are of each code.
pub fn counts(report: &Report) -> Json {
    let counts = report.counts().into_iter().map(|(code, count)| (code.to_owned(), json!(count)));
    Json::Object(counts.collect())
}

/// A problem, without what other checkers call it.
pub fn problem(problem: &Problem) -> Map<String, Json> {
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
    members
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
        Value::Former(name) => former_name(name),
        Value::List(values) => Json::Array(values.iter().map(value).collect()),
    }
}

/// A former name: path, what tells it, and in which block.
pub fn former_name(name: &FormerName) -> Json {
    let mut members = object([("path", json!(name.path)), ("witness", json!(name.witness.word()))]);
    members.extend(name.block.map(|block| ("block".to_owned(), json!(block.0))));
    Json::Object(members)
}

/// What a file system is, and how full it is.
pub fn summary(summary: &Summary) -> Json {
    let mut told = json!({
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
    });
    if let (Some((used, all)), Some(fields)) = (summary.metadata_regions, told.as_object_mut()) {
        fields.insert("metadata_regions".to_owned(), json!({"blocks_used": used, "blocks_total": all}));
    }
    told
}

/// How long a check would take.
pub fn estimate(estimate: &Estimate) -> Json {
    json!({
        "bytes": estimate.bytes,
        "requests": estimate.requests,
        "seconds": estimate.seconds,
        "seconds_low": estimate.seconds_low,
        "seconds_high": estimate.seconds_high,
        "basis": estimate.basis,
    })
}

/// What a stage has cost.
pub fn stage(stage: &StageStats) -> Json {
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

/// An object with these members.
pub fn object<const N: usize>(members: [(&str, Json); N]) -> Map<String, Json> {
    members.into_iter().map(|(name, member)| (name.to_owned(), member)).collect()
}
