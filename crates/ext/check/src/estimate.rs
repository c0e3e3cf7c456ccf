// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a check would take: the check itself over a sample of the groups, and what that makes for all of them.
//!
//! Superblock and descriptors say how much there is: inodes, directories, blocks in use. What it costs here and now (processor, device, what
//! of it is in memory already) only a trial can show. So the stages of a check run over a few groups, spread over the whole, with the
//! same reads in the same way; nothing is certified and nothing reported. What comes behind the scan is small and reckoned from
//! what it took elsewhere, but for the reading of bitmaps.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_base::{BlockNo, width};
use fsmend_device::Device;
pub use fsmend_engine::Estimate;
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::InodeTable;
use fsmend_engine::{Budget, Findings, Progress};

use crate::expected;
use crate::reading::announce_all;
use crate::scan::foresight::{directories, mapped_blocks};
use crate::scan::pace::Pace;
use crate::scan::{STAGES, Sample, Scan, ScanOutcome};
use crate::{Fs, Refusal, run, superblock};
use fsmend_engine::options::CheckOptions;
use fsmend_engine::scan::memory_plan::{MemoryPlan, RunContext, Shortages};

/// One group in use of so many is tried, or as many as hold so many inodes: all of a small file system.
const SAMPLE_ONE_IN: usize = 20;
const SAMPLE_INODES_MIN: u64 = 32 << 10;
/// The least and the most groups that are tried for the sake of their number.
const SAMPLE: [usize; 2] = [6, 64];
/// Where it comes from a cold device, more is tried, until the trial took so many nanoseconds or one group in so many was tried: devices
/// have their ups and downs.
const COLD_TRIAL: f64 = 1e8;
const COLD_ONE_IN: usize = 4;
/// Trials of a cold device are so many times as large: until everything is under way, and when the last requests come back, it idles.
const COLD_TIMES: usize = 3;
/// The first trial ends after so many nanoseconds, further ones when they have taken this part of what they foretell, and all of them after the
/// longest time that an estimate may take.
const FIRST_TRIAL: f64 = 1e8;
const TRIAL_ONE_IN: f64 = 10.0;
const TRIALS_MAX: f64 = 2e9;
/// What a directory weighs beside an inode, where the sample is drawn.
const DIRECTORY_WEIGHT: u64 = 8;
/// Nanoseconds of one worker for each inode when links are compared, for each directory when the tree is walked, and for the bitmaps of
/// a group, reading them apart. From warm runs; together they are a twentieth of a run.
const LINK_COST: f64 = 1.2;
const TREE_COST: f64 = 30.0;
const BITMAP_COST: f64 = 11_000.0;
/// Nanoseconds that any run takes to start and to end.
const RUN_COST: f64 = 4e6;
/// How far off an estimate is taken to be: the truth should lie between it divided by this and it times this.
const UNCERTAINTY: f64 = 1.35;

/// Sums over all groups, or over the sample.
#[derive(Clone, Copy, Debug, Default)]
struct Amounts {
    /// Inodes that are looked at.
    scanned: f64,
    /// Those of them in use.
    used: f64,
    directories: f64,
}

/// What a stage cost in the trial.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    /// Work that was found, and the part of it that was done, in the units of the stage.
    found: f64,
    done: f64,
    /// The part of it that was measured (see `Settled`), and its nanoseconds of one worker by the clock on the wall and by that of the
    /// processor.
    measured: f64,
    wall: f64,
    cpu: f64,
    /// What the part that was done read.
    bytes: f64,
    requests: f64,
}

/// The stages over the sample, all together.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    stages: [Tried; STAGES.len()],
    /// Nanoseconds that it took.
    nanoseconds: f64,
    /// Bytes that devices delivered meanwhile, as far as that is known.
    fetched: f64,
}

/// What the stages will take: nanoseconds of one worker by both clocks, bytes, requests.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    wall: f64,
    cpu: f64,
    bytes: f64,
    requests: f64,
}

/// Estimates how long [`check`](crate::run::check) would take. Needs the clock that `options` may name
/// ([`CheckOptions::stage_clock`]).
pub fn estimate(
    device: &Arc<dyn Device>,
    options: &CheckOptions,
    cancel: &AtomicBool,
) -> Result<Estimate, Refusal> {
    let clock = || options.stage_clock.map_or(0, |clock| (clock.wall)()) as f64;
    let mut ignored = Findings::new();
    let started = clock();
    let settled = superblock::settle(&**device, options.superblock, options.now, &mut ignored)?;
    let fs = run::open(&**device, settled, options.now, &mut ignored);
    let opening = clock() - started;

    let in_use: Vec<u32> = groups_in_use(&fs);
    let budget = Arc::new(Budget::new(options.memory));
    let plan = MemoryPlan::new(&expected::expected(&fs), options, &budget)?;
    let shortages = Shortages::default();
    let run_context =
        RunContext { trace: None, ..RunContext::new(options, (&plan, &shortages), &budget, cancel) };
    let workers = plan.workers as f64;
    let pace = Pace::default();
    let (sample, trial) = trials(&fs, options, run_context, &in_use, &pace);
    let all = Amounts::of(&fs, &in_use);
    let scan = whole(&fs, &trial, &all, &Amounts::of(&fs, &sample));
    let per_request = pace.per_request(plan.workers);
    let bitmaps = bitmaps(&fs, if per_request.is_none() { &sample } else { &[] }, clock);
    let behind = LINK_COST * f64::from(fs.geometry.inodes_count) + TREE_COST * all.directories + bitmaps.wall;
    let scan_time = match per_request {
        // The trial was too short for the pace that comes later, which is none below its own: a check has at least as many requests in flight.
        Some(each) => {
            let paced = each * (scan.requests + bitmaps.requests) + scan.cpu / workers;
            paced.min(trial.time_of(&scan, workers))
        }
        None => trial.time_of(&scan, workers),
    };
    let seconds = (scan_time + behind / workers + RUN_COST + opening) / 1e9;
    Ok(Estimate {
        bytes: width::whole(scan.bytes + bitmaps.bytes),
        requests: width::whole(scan.requests + bitmaps.requests),
        seconds,
        seconds_low: seconds / UNCERTAINTY,
        seconds_high: seconds * UNCERTAINTY,
        basis: format!(
            "a trial of {} of {} groups with inodes in use, which hold {} of {} directories",
            sample.len(),
            in_use.len(),
            directories(&fs, &sample),
            directories(&fs, &in_use),
        ),
    })
}

fn groups_in_use(fs: &Fs<'_>) -> Vec<u32> {
    let is_scanned = |index: &u32| fs.groups[*index as usize].scan_inodes > 0;
    (0..width::len_u32(fs.groups.len())).filter(is_scanned).collect()
}

/// Groups spread over all that are in use, at equal steps of the work in them; `times` as many as usual.
fn sample(fs: &Fs<'_>, in_use: &[u32], times: usize) -> Vec<u32> {
    let inodes: u64 = in_use.iter().map(|group| u64::from(fs.groups[*group as usize].scan_inodes)).sum();
    let for_inodes = width::index((in_use.len() as u64 * SAMPLE_INODES_MIN).div_ceil(inodes.max(1)));
    let for_number = (in_use.len() / SAMPLE_ONE_IN).clamp(SAMPLE[0], SAMPLE[1]).min(in_use.len() / 2);
    let wanted = for_number.max(for_inodes).max(1) * times;
    if wanted >= in_use.len() {
        return in_use.to_vec();
    }
    let weight = |group: &u32| {
        let state = &fs.groups[*group as usize];
        u64::from(state.scan_inodes) + DIRECTORY_WEIGHT * u64::from(state.desc.used_dirs)
    };
    let step = in_use.iter().map(weight).sum::<u64>().div_ceil(wanted as u64).max(1);
    let (mut passed, mut next) = (0, step / 2);
    let mut sample = Vec::new();
    for group in in_use {
        passed += weight(group);
        if passed > next {
            sample.push(*group);
            next += (passed - next).div_ceil(step) * step;
        }
    }
    sample
}

/// Tries a sample, and where that had to be fetched, further ones. The first of several is not counted: the device had nothing to do before.
fn trials(
    fs: &Fs<'_>,
    options: &CheckOptions,
    run_context: RunContext<'_>,
    in_use: &[u32],
    pace: &Pace,
) -> (Vec<u32>, Trial) {
    let mut rest = in_use.to_vec();
    let (mut tried, mut sum, mut first) = (Vec::new(), Trial::default(), Trial::default());
    let clock = || options.stage_clock.map_or(0, |clock| (clock.wall)());
    let (started, all) = (clock(), Amounts::of(fs, in_use));
    let mut time = FIRST_TRIAL;
    for round in 0.. {
        let next = sample(fs, &rest, if round == 0 { 1 } else { COLD_TIMES });
        rest.retain(|group| next.binary_search(group).is_err());
        let groups = Amounts::of(fs, &next);
        let last = trial(
            fs,
            options,
            run_context,
            Sample {
                groups: &next,
                times: all.scanned / groups.scanned.max(1.0),
                started,
                end: started.saturating_add(width::whole(time)),
                share: (1.0 / TRIAL_ONE_IN, TRIALS_MAX),
                pace,
            },
        );
        let foretold = last.time_of(&whole(fs, &last, &all, &groups), run_context.plan.workers as f64);
        time = (foretold / TRIAL_ONE_IN).min(TRIALS_MAX);
        // One of a slow device went on for as long as it may.
        let goes_on = last.is_cold()
            && pace.per_request(run_context.plan.workers).is_none()
            && COLD_ONE_IN * (tried.len() + next.len()) < in_use.len()
            && (round == 0 || sum.nanoseconds + last.nanoseconds < COLD_TRIAL)
            && (clock().saturating_sub(started) as f64) < time
            && !rest.is_empty();
        if round == 0 {
            first = last;
        }
        if round > 0 || !goes_on {
            sum = sum.plus(Trial { nanoseconds: last.nanoseconds - last.idle(first), ..last });
            tried.extend(next);
        }
        if !goes_on {
            break;
        }
    }
    (tried, sum)
}

/// Runs the stages over the sample, until its time is over.
fn trial(fs: &Fs<'_>, options: &CheckOptions, run_context: RunContext<'_>, sample: Sample<'_>) -> Trial {
    let progress = options.stage_clock.map_or_else(Progress::new, |clock| Progress::timed(clock.wall));
    let inodes =
        InodeTable::within(run_context.budget, fs.geometry.inodes_count, fs.geometry.inodes_per_group);
    let claims = Claims::within(run_context.budget, fs.geometry.clusters_count());
    // As before any scan; it also brings in the pages of the bitmap, which would else be paid for by the sample alone.
    run::claim_static(fs, &claims, run_context);
    let scan = Scan::new(
        fs,
        &inodes,
        &claims,
        &progress,
        run_context.plan.backend,
        run_context,
        (options.schedule, true),
    );
    let before = (options.meter)();
    let outcome: ScanOutcome = scan.sampling(sample).run().unwrap_or_default();
    let after = (options.meter)();
    let stage = |index: usize| {
        let (cost, counted) = (outcome.costs[index], progress.stage(STAGES[index].name));
        let (units, wall, cpu) = match cost.settled.units {
            // No worker had a second batch.
            0 => (counted.done(), counted.spent(), cost.cpu_ns),
            units => (units, cost.settled.wall_ns, cost.settled.cpu_ns),
        };
        Tried {
            found: counted.announced().max(counted.done()) as f64,
            done: counted.done() as f64,
            measured: units as f64,
            wall: wall as f64,
            cpu: cpu as f64,
            bytes: cost.bytes as f64,
            requests: cost.requests as f64,
        }
    };
    let fetched = after.fetched.zip(before.fetched);
    Trial {
        stages: [stage(0), stage(1), stage(2)],
        nanoseconds: after.wall_ns.saturating_sub(before.wall_ns) as f64,
        fetched: fetched.map_or(0.0, |(after, before)| after.saturating_sub(before) as f64),
    }
}

/// What the stages will take for all groups.
fn whole(fs: &Fs<'_>, trial: &Trial, all: &Amounts, tried: &Amounts) -> Cost {
    let ratio = |all: f64, tried: f64| if tried > 0.0 { all / tried } else { 1.0 };
    let [tables, maps, directories] = &trial.stages;
    // Tables for which there was no time have led to nothing.
    let looked_at = |found: f64| found * ratio(tables.found, tables.done);
    let mapped = match mapped_blocks(fs) {
        Some(blocks) if maps.done > 0.0 => blocks as f64,
        _ => looked_at(maps.found) * ratio(all.used, tried.used),
    };
    let units = [
        tables.found * ratio(all.scanned, tried.scanned),
        mapped,
        looked_at(directories.found) * ratio(all.directories, tried.directories),
    ];
    trial.stages.iter().zip(units).fold(Cost::default(), |sum, (stage, units)| {
        let read = ratio(units, stage.done);
        Cost {
            wall: sum.wall + stage.wall / stage.measured.max(1.0) * units,
            cpu: sum.cpu + stage.cpu / stage.measured.max(1.0) * units,
            bytes: sum.bytes + stage.bytes * read,
            requests: sum.requests + stage.requests * read,
        }
    })
}

impl Trial {
    /// Nanoseconds that work will take which costs so much. What memory holds costs what it took in the trial. What has to be fetched
    /// comes at the pace of the trial, and computing goes on beside it; in the batches the two cannot be told apart.
    fn time_of(&self, cost: &Cost, workers: f64) -> f64 {
        let missed = self.missed();
        // Beside requests, the clock on the wall tells of them.
        let in_memory = if missed > 0.0 { cost.cpu } else { cost.wall } / workers;
        let fetching = self.nanoseconds * cost.bytes / self.came();
        (1.0 - missed) * in_memory + missed * fetching.max(cost.cpu / workers)
    }

    /// Bytes that came meanwhile: what was read ahead for work that the end of the trial left undone as well.
    fn came(&self) -> f64 {
        self.fetched.clamp(self.read(), self.announced().max(self.read()))
    }

    /// Nanoseconds in which the device had less to do than in a check: at the begin, until everything is under way, and at the end, when the last
    /// requests come back. A smaller trial has as many, so that two of them tell.
    fn idle(&self, smaller: Trial) -> f64 {
        let (more, longer) = (self.came() - smaller.came(), self.nanoseconds - smaller.nanoseconds);
        if more * 2.0 < self.came() || longer <= 0.0 {
            return 0.0;
        }
        (smaller.nanoseconds - longer / more * smaller.came()).clamp(0.0, smaller.nanoseconds / 2.0)
    }

    /// Bytes that were read; not 0.
    fn read(&self) -> f64 {
        self.stages.iter().map(|stage| stage.bytes).sum::<f64>().max(1.0)
    }

    /// Bytes of all work that was found, done or not.
    fn announced(&self) -> f64 {
        let bytes = |stage: &Tried| stage.bytes * (stage.found / stage.done.max(1.0)).max(1.0);
        self.stages.iter().map(bytes).sum()
    }

    /// The share of them that memory did not hold.
    fn missed(&self) -> f64 {
        (self.fetched / self.read()).min(1.0)
    }

    fn is_cold(&self) -> bool {
        self.missed() > 0.5
    }

    fn plus(mut self, other: Trial) -> Trial {
        for (one, other) in self.stages.iter_mut().zip(other.stages) {
            one.found += other.found;
            one.done += other.done;
            one.measured += other.measured;
            one.wall += other.wall;
            one.cpu += other.cpu;
            one.bytes += other.bytes;
            one.requests += other.requests;
        }
        self.nanoseconds += other.nanoseconds;
        self.fetched += other.fetched;
        self
    }
}

/// Reads the bitmaps of the sample, as a run does for every group.
fn bitmaps(fs: &Fs<'_>, sample: &[u32], clock: impl Fn() -> f64) -> Cost {
    let block_size = u64::from(fs.geometry.block_size);
    let mut block = vec![0; width::index(block_size)];
    let bitmaps = || sample.iter().flat_map(|group| fs.stored_bitmaps(&fs.groups[*group as usize].desc));
    let started = clock();
    announce_all(fs, bitmaps().collect());
    let mut reads = 0.0;
    for bitmap in bitmaps() {
        reads += f64::from(u8::from(fs.device.read_at(fs.block_offset(BlockNo(bitmap)), &mut block).is_ok()));
    }
    let took = clock() - started;
    let stored: usize = fs.groups.iter().map(|group| fs.stored_bitmaps(&group.desc).count()).sum();
    let wall = stored as f64 * took / f64::max(reads, 1.0) + fs.groups.len() as f64 * BITMAP_COST;
    Cost { wall, cpu: wall, bytes: stored as f64 * block_size as f64, requests: stored as f64 }
}

impl Amounts {
    fn of(fs: &Fs<'_>, groups: &[u32]) -> Amounts {
        groups.iter().fold(Amounts::default(), |sum, group| {
            let state = &fs.groups[*group as usize];
            let used = fs.geometry.inodes_per_group.saturating_sub(state.desc.free_inodes);
            Amounts {
                scanned: sum.scanned + f64::from(state.scan_inodes),
                used: sum.used + f64::from(used),
                directories: sum.directories + f64::from(state.desc.used_dirs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cold trial of a second that did half of the directories it found, each unit a byte.
    fn trial(fetched: f64) -> Trial {
        let half = Tried { found: 200.0, done: 100.0, bytes: 100.0, ..Tried::default() };
        Trial { stages: [Tried::default(), Tried::default(), half], nanoseconds: 1e9, fetched }
    }

    #[test]
    fn what_was_read_ahead_for_work_that_was_left_undone_counts() {
        let all = Cost { bytes: 1000.0, ..Cost::default() };
        assert_eq!(trial(100.0).time_of(&all, 1.0), 1e10);
        assert_eq!(trial(200.0).time_of(&all, 1.0), 5e9, "as much again came for the other half");
        assert_eq!(trial(900.0).time_of(&all, 1.0), 5e9, "what nothing asks for is part of the price");
    }
}
