// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a file system is and how full it is, without a check.

use std::collections::BTreeMap;

use fsmend_device::Device;
use fsmend_engine::detail::{Detail, TableRow};
use fsmend_engine::options::SuperblockOptions;
use fsmend_engine::{Findings, Refusal, Value};
use fsmend_hybridfs_format::Superblock;

use crate::allocation::{Area, stored_words};
use crate::log::Log;
use crate::opening::{self, Trust};
use crate::superblock;

/// Names and values, in the order in which they are shown.
pub fn describe(device: &dyn Device) -> Result<Vec<(&'static str, Detail)>, Refusal> {
    if let (Err(_), Some(sb)) = (superblock::find(device), superblock::of_log(device)) {
        return Ok(of_log_alone(&sb));
    }
    let state =
        opening::open(device, (SuperblockOptions::default(), false), Trust::None, &mut Findings::new())?;
    let sb = &*state.sb;
    let log = Log { device, sb };
    let last = &state.last;
    let areas = (0..sb.ags()).map(Area::Data);
    let runs = free_runs(areas.map(|area| (stored_words(&state, &log, area), area.units(sb).1)));
    let maps = (0..sb.log_bitmaps()).map(Area::Log);
    let log_runs = free_runs(maps.map(|area| (stored_words(&state, &log, area), area.units(sb).1)));
    let segments = state.chain.iter().map(|segment| {
        let (ssn, rows) = (segment.summary.ssn, &segment.stream.rows);
        let fragments = rows.iter().map(|row| u64::from(row.len)).sum::<u64>();
        let members = vec![("segment", ssn), ("fragments", fragments)];
        TableRow { text: format!("{ssn}: {fragments}"), members }
    });
    let segments = segments.collect();
    let [contents, all] = last.written;
    let inodes = sb.inodes.saturating_sub(2);
    Ok(vec![
        ("kind", "hybridfs".into()),
        ("label", Value::Text(superblock::label(sb)).into()),
        ("uuid", Value::Text(superblock::uuid(sb)).into()),
        ("fragment-size", sb.fragment_size.into()),
        ("block-size", sb.block_size.into()),
        ("fragments", sb.fragments.into()),
        ("log-start", sb.log_start.into()),
        ("log-fragments", sb.log_fragments.into()),
        ("log-fragments-used", last.totals.log.into()),
        ("log-blocks-reserved", sb.reserve_blocks.into()),
        ("data-blocks", sb.data_blocks().into()),
        ("data-blocks-used", last.totals.data.into()),
        ("data-free-extents", histogram(&runs)),
        ("log-free-extents", histogram(&log_runs)),
        ("groups", sb.ags().into()),
        ("blocks-per-group", sb.ag_blocks.into()),
        ("inodes", inodes.into()),
        ("inodes-used", last.totals.inodes.into()),
        ("directories", last.totals.directories.into()),
        ("orphans", last.totals.orphans.into()),
        ("segment", last.ssn.into()),
        ("segment-fragments-max", sb.segment_fragments.into()),
        ("checkpoint", last.checkpoint.into()),
        ("segments-since-checkpoint", (last.ssn - last.checkpoint.min(last.ssn)).into()),
        ("fragments-by-segment", Detail::Table(segments)),
        ("contents-bytes-written", contents.into()),
        ("bytes-written", all.into()),
        ("write-amplification", Value::Text(amplification(contents, all)).into()),
        ("mounts", last.mount.into()),
        ("clean", if state.is_clean { "yes" } else { "no" }.into()),
    ])
}

/// What can be said of the log of a file system whose data are on another device.
fn of_log_alone(sb: &Superblock) -> Vec<(&'static str, Detail)> {
    vec![
        ("kind", "log of a hybridfs".into()),
        ("label", Value::Text(superblock::label(sb)).into()),
        ("uuid", Value::Text(superblock::uuid(sb)).into()),
        ("fragment-size", sb.fragment_size.into()),
        ("block-size", sb.block_size.into()),
        ("log-fragments", sb.log_fragments.into()),
    ]
}

/// A row for each size of which there are free runs.
fn histogram(runs: &BTreeMap<u64, u64>) -> Detail {
    let row = |(size, count): (&u64, &u64)| {
        let largest = size * 2 - 1;
        let members = vec![("from", *size), ("to", largest), ("count", *count)];
        TableRow { text: format!("{count} of {size} to {largest}"), members }
    };
    Detail::Table(runs.iter().map(row).collect())
}

/// Bytes written for one of contents.
fn amplification(contents: u64, all: u64) -> String {
    if contents == 0 { "none yet".to_owned() } else { format!("{:.2}", all as f64 / contents as f64) }
}

/// How many runs of clear bits there are of each size, by powers of two.
fn free_runs(maps: impl Iterator<Item = (Result<Vec<u64>, String>, u64)>) -> BTreeMap<u64, u64> {
    let mut runs: BTreeMap<u64, u64> = BTreeMap::new();
    let mut note = |run: u64| {
        if run > 0 {
            *runs.entry(1 << run.ilog2()).or_default() += 1;
        }
    };
    for (words, units) in maps {
        let Ok(words) = words else { continue };
        let mut run = 0;
        for at in 0..units {
            let is_used = words.get((at / 64) as usize).is_none_or(|word| word >> (at % 64) & 1 != 0);
            run = if is_used {
                note(run);
                0
            } else {
                run + 1
            };
        }
        note(run);
    }
    runs
}
