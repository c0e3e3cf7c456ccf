// SPDX-License-Identifier: MIT OR Apache-2.0
//! A merged report as one self-contained page: nothing is fetched, nothing runs but the browser's own folding and searching.
//!
//! Every text of a list or a record is escaped by the template engine: what a volume calls itself cannot become markup.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;

use crate::error::Error;
use crate::merge::{CodeTotal, Merged, Missing, NodeTotal, Slow, Totals, Volume, whole_seconds};
use crate::run::ListFacts;

/// Rows of a table. A page with more is slow to open; the JSON document has them all.
const ROWS_MAX: usize = 2000;

const TEMPLATE: &str = include_str!("report.html");

/// What the template is given: the report with its lists cut to [`ROWS_MAX`].
#[derive(Serialize)]
struct Page<'m> {
    run: &'m str,
    tool: &'m str,
    created: String,
    exit_code: u8,
    list: &'m ListFacts,
    totals: &'m Totals,
    sum: String,
    span: String,
    checked_percent: String,
    bytes_percent: String,
    codes: &'m [CodeTotal],
    nodes: &'m [NodeTotal],
    volumes: &'m [Volume],
    volumes_left_out: usize,
    missing: &'m [Missing],
    missing_left_out: usize,
    slowest: &'m [Slow],
}

/// The page.
pub fn page(merged: &Merged) -> Result<String, Error> {
    let totals = &merged.totals;
    let first = |len: usize| len.min(ROWS_MAX);
    let span = match (totals.first_started, totals.last_ended) {
        (Some(first), Some(last)) => last.saturating_sub(first) as f64,
        _ => 0.0,
    };
    let page = Page {
        run: &merged.run,
        tool: &merged.tool,
        created: date(merged.created),
        exit_code: merged.exit_code,
        list: &merged.list,
        totals,
        sum: time(totals.seconds),
        span: if span < 1.0 { String::new() } else { time(span) },
        checked_percent: percent(totals.checked, totals.planned),
        bytes_percent: percent(totals.bytes_checked, totals.bytes_planned),
        codes: &merged.codes[..first(merged.codes.len())],
        nodes: &merged.nodes[..first(merged.nodes.len())],
        volumes: &merged.volumes[..first(merged.volumes.len())],
        volumes_left_out: merged.volumes.len().saturating_sub(ROWS_MAX),
        missing: &merged.missing[..first(merged.missing.len())],
        missing_left_out: merged.missing.len().saturating_sub(ROWS_MAX),
        slowest: &merged.slowest,
    };
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_filter("time", time);
    let rendered = environment.render_str(TEMPLATE, context! { page => Serde(page) });
    rendered.map_err(|error| Error::Failed(format!("the page cannot be written: {error}")))
}

/// What share of `whole` a part is; all of nothing is whole.
fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 1.0 } else { part as f64 / whole as f64 };
    format!("{:.1} %", share * 100.0)
}

/// Seconds as people read them.
fn time(seconds: f64) -> String {
    let whole = whole_seconds(seconds);
    match whole {
        0..60 => format!("{seconds:.2} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

/// Seconds since 1970 as a date in UTC.
fn date(seconds: u64) -> String {
    let at = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    at.map(|at| at.to_string()).unwrap_or_default()
}
