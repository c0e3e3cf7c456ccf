// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables 1 to 4 of the paper, with its numbers beside ours.

use std::fmt::Write as _;
use std::io;

use fsmend_lab::postmark::{self, PostmarkOptions};
use fsmend_lab::trees::{
    ArchiveOptions, KernelOptions, Mix, MixOptions, build_kernel, copy_kernel, remove_all, unpack,
};

use super::contestants::{CONTESTANTS, Contestant, Cost, Ground, PAPER};
use crate::bench::paper::figure::Table;

/// What one table measures of everybody: a column of the paper's seconds, one of its requests, and ours.
pub struct Column {
    pub what: &'static str,
    /// hFS, FFS, LFS, yFS.
    pub seconds: [f64; 4],
    pub requests: [u64; 4],
}

/// What the paper says, and what was measured of each contestant.
pub struct Measured {
    pub number: &'static str,
    pub title: &'static str,
    pub columns: Vec<Column>,
    /// By contestant, then by column.
    pub costs: Vec<Vec<Cost>>,
    pub remarks: String,
}

const fn column(what: &'static str, seconds: [f64; 4], requests: [u64; 4]) -> Column {
    Column { what, seconds, requests }
}

fn each(
    mut work: impl FnMut(&Contestant, &mut String) -> io::Result<Vec<Cost>>,
) -> io::Result<(Vec<Vec<Cost>>, String)> {
    let (mut costs, mut remarks) = (Vec::new(), String::new());
    for contestant in &CONTESTANTS {
        let of_it = work(contestant, &mut remarks)?;
        println!("{}: {}", contestant.name, told(&of_it));
        costs.push(of_it);
    }
    Ok((costs, remarks))
}

fn told(costs: &[Cost]) -> String {
    costs.iter().map(|cost| format!("{:.1} s, {}", cost.seconds, cost.text())).collect::<Vec<_>>().join("; ")
}

/// Table 1.
pub fn kernel() -> io::Result<Measured> {
    let options = KernelOptions::default();
    let (costs, remarks) = each(|contestant, _| {
        let ground = Ground::new(contestant.kind)?;
        let ((copied, built), all) = ground.work(|bench, clock| {
            let begin = clock();
            let sources = copy_kernel(bench, &options)?;
            let copied = clock() - begin;
            build_kernel(bench, &sources, &options)?;
            Ok((copied, clock() - begin - copied))
        })?;
        let part = |time: std::time::Duration| Cost { seconds: time.as_secs_f64(), ..Cost::default() };
        Ok(vec![part(copied), part(built), all])
    })?;
    Ok(Measured {
        number: "1",
        title: "kernel build",
        columns: vec![
            column("copy", [21.0, 27.0, 17.0, 23.0], [0; 4]),
            column("build", [207.0, 203.0, 204.0, 203.0], [0; 4]),
            column("both", [228.0, 230.0, 221.0, 226.0], [4011, 12887, 1920, 8981]),
        ],
        costs,
        remarks,
    })
}

/// The paper's PostMark.
pub fn postmark_options(files: u32) -> PostmarkOptions {
    PostmarkOptions { files, ..PostmarkOptions::small() }
}

/// Table 2.
pub fn postmark() -> io::Result<Measured> {
    let sizes = [50_000, 100_000, 150_000];
    let (costs, remarks) = each(|contestant, remarks| {
        let mut costs = Vec::new();
        let mut rates = Vec::new();
        for files in sizes {
            let ground = Ground::new(contestant.kind)?;
            let (report, cost) =
                ground.work(|bench, clock| postmark::run(bench, clock, &postmark_options(files)))?;
            let payload = report.bytes_written.max(1);
            rates.push(format!(
                "{:.0} a second, {:.2} bytes written for one of contents",
                f64::from(files) / report.deleting.as_secs_f64().max(1e-9),
                cost.bytes_written as f64 / payload as f64
            ));
            costs.push(cost);
        }
        let _ = writeln!(remarks, "- {}: deletes {}.", contestant.name, rates.join("; "));
        Ok(costs)
    })?;
    Ok(Measured {
        number: "2",
        title: "PostMark",
        columns: vec![
            column("50,000 files", [19.0, 51.0, 20.0, 43.0], [4186, 54522, 4801, 56237]),
            column("100,000", [45.0, 104.0, 49.0, 78.0], [9844, 109_165, 12931, 112_390]),
            column("150,000", [74.0, 159.0, 75.0, 120.0], [15774, 163_604, 19930, 168_577]),
        ],
        costs,
        remarks,
    })
}

/// Table 3.
pub fn archive() -> io::Result<Measured> {
    let (costs, remarks) = each(|contestant, remarks| {
        let ground = Ground::new(contestant.kind)?;
        let (report, made) = ground.work(|bench, _| unpack(bench, &ArchiveOptions::default()))?;
        if remarks.is_empty() {
            let _ = writeln!(
                remarks,
                "{} folders and {} files, {} of them longer than a block, {} MiB in all.",
                report.folders,
                report.files,
                report.large,
                report.bytes >> 20
            );
        }
        let (_, removed) = ground.work(|bench, _| remove_all(bench))?;
        Ok(vec![made, removed])
    })?;
    Ok(Measured {
        number: "3",
        title: "archive",
        columns: vec![
            column("unpack", [24.0, 151.0, 13.0, 47.0], [2696, 105_333, 2619, 30509]),
            column("remove, after mounting again", [10.0, 41.0, 15.0, 34.0], [2385, 27741, 17868, 7817]),
        ],
        costs,
        remarks,
    })
}

/// Table 4.
pub fn aging() -> io::Result<Measured> {
    let (costs, remarks) = each(|contestant, remarks| {
        let mut costs = Vec::new();
        for operations in [10_000, 20_000, 40_000] {
            let ground = Ground::new(contestant.kind)?;
            let (report, cost) = ground.work(|bench, _| {
                let mut mix = Mix::new(bench, MixOptions::default());
                mix.run(bench, operations)?;
                Ok(mix.report())
            })?;
            if contestant.stands_for == Some(0) {
                let _ = writeln!(
                    remarks,
                    "- {operations} operations: {} files ({} of at most a block), {} folders, {} deleted, {} MiB.",
                    report.made,
                    report.small,
                    report.folders,
                    report.deleted,
                    report.bytes >> 20
                );
            }
            costs.push(cost);
        }
        Ok(costs)
    })?;
    Ok(Measured {
        number: "4",
        title: "aging",
        columns: vec![
            column("10,000 operations", [68.0, 73.0, 21.0, 48.0], [12870, 16000, 4920, 14253]),
            column("20,000", [152.0, 169.0, 64.0, 119.0], [23833, 33888, 13782, 30403]),
            column("40,000", [324.0, 359.0, 124.0, 246.0], [58432, 68623, 25230, 58525]),
        ],
        costs,
        remarks,
    })
}

impl Measured {
    /// Ratios first, then seconds and requests.
    pub fn text(&self) -> String {
        let mut text = format!("## Table {}: {}\n\n", self.number, self.title);
        let mut headings = vec!["time against hFS"];
        headings.extend(self.columns.iter().map(|column| column.what));
        let mut ratios = Table::new(&headings);
        headings[0] = "seconds; requests";
        let mut seconds = Table::new(&headings);
        for (at, contestant) in CONTESTANTS.iter().enumerate() {
            let stands = contestant.stands_for.map_or(String::new(), |paper| format!(" ({})", PAPER[paper]));
            let mut ratio = vec![format!("{}{stands}", contestant.name)];
            let mut row = ratio.clone();
            for (column, of) in self.columns.iter().enumerate() {
                let cost = &self.costs[at][column];
                let ours = cost.seconds / self.costs[0][column].seconds.max(1e-9);
                let (paper, plain) = match contestant.stands_for {
                    Some(paper) => (
                        format!("{:.2} / ", of.seconds[paper] / of.seconds[0]),
                        format!("{:.0} / ", of.seconds[paper]),
                    ),
                    None => Default::default(),
                };
                ratio.push(format!("{paper}**{ours:.2}**"));
                let requests = match contestant.stands_for.map(|paper| of.requests[paper]) {
                    _ if cost.requests() == 0 => String::new(),
                    Some(paper) => format!("; {paper} / {}", cost.text()),
                    None => format!("; {}", cost.text()),
                };
                row.push(format!("{plain}**{:.1} s**{requests}", cost.seconds));
            }
            ratios.push(ratio);
            seconds.push(row);
        }
        text.push_str(&ratios.text());
        text.push_str("\nSeconds, and requests (read + written): the paper's / **ours**.\n\n");
        text.push_str(&seconds.text());
        if !self.remarks.is_empty() {
            let _ = write!(text, "\n{}", self.remarks);
        }
        text.push('\n');
        text
    }
}
