// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a file system is and how full it is, without a check.

use std::collections::BTreeMap;

use fsmend_device::Device;
use fsmend_engine::options::SuperblockOptions;
use fsmend_engine::problem::escape_name;
use fsmend_engine::{Findings, Refusal, Value};

use crate::allocation::{Area, stored_words};
use crate::log::Log;
use crate::opening::{self, Trust};

/// Names and values, in the order in which they are shown.
pub fn describe(device: &dyn Device) -> Result<Vec<(&'static str, Value)>, Refusal> {
    let state =
        opening::open(device, (SuperblockOptions::default(), false), Trust::None, &mut Findings::new())?;
    let sb = &*state.sb;
    let log = Log { device, sb };
    let last = &state.last;
    let uuid: String = sb.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let label = sb.label.split(|byte| *byte == 0).next().unwrap_or_default();
    let areas = (0..sb.ags()).map(Area::Data);
    let runs = free_runs(areas.map(|area| (stored_words(&state, &log, area), area.units(sb).1)));
    let sizes = runs.iter().map(|(size, count)| format!("{count} of {size} to {}", size * 2 - 1));
    let maps = (0..sb.log_bitmaps()).map(Area::Log);
    let log_runs = free_runs(maps.map(|area| (stored_words(&state, &log, area), area.units(sb).1)));
    let log_sizes = log_runs.iter().map(|(size, count)| format!("{count} of {size} to {}", size * 2 - 1));
    let segments = state.chain.iter().map(|segment| {
        let fragments = segment.stream.rows.iter().map(|row| u64::from(row.len)).sum::<u64>();
        format!("{}: {fragments}", segment.summary.ssn)
    });
    let segments: Vec<String> = segments.collect();
    let [contents, all] = last.written;
    let inodes = sb.inodes.saturating_sub(2);
    Ok(vec![
        ("kind", Value::from("hybridfs")),
        ("label", Value::Text(escape_name(label))),
        ("uuid", Value::Text(uuid)),
        ("fragment-size", sb.fragment_size.into()),
        ("block-size", sb.block_size.into()),
        ("fragments", sb.fragments.into()),
        ("log-start", sb.log_start.into()),
        ("log-fragments", sb.log_fragments.into()),
        ("log-fragments-used", last.totals.log.into()),
        ("log-blocks-reserved", sb.reserve_blocks.into()),
        ("data-blocks", sb.data_blocks().into()),
        ("data-blocks-used", last.totals.data.into()),
        ("data-free-extents", Value::Text(sizes.collect::<Vec<_>>().join(", "))),
        ("log-free-extents", Value::Text(log_sizes.collect::<Vec<_>>().join(", "))),
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
        ("fragments-by-segment", Value::Text(segments.join(", "))),
        ("contents-bytes-written", contents.into()),
        ("bytes-written", all.into()),
        ("write-amplification", Value::Text(amplification(contents, all))),
        ("mounts", last.mount.into()),
        ("clean", Value::from(if state.is_clean { "yes" } else { "no" })),
    ])
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
