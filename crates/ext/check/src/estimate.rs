//! How long a check would take: the check itself over a sample of the groups, and what that makes for all of them.
//!
//! Superblock and descriptors say how much there is: inodes, directories, blocks in use. What it costs here and now (processor, device, what
//! of it is in memory already) nobody can tell but a trial. So the stages of a check run over a few groups, spread over the whole, with the
//! same reads in the same way; nothing is certified and nothing reported. What comes behind the scan is small and reckoned from
//! what it took elsewhere, but for the reading of bitmaps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_base::BlockNo;
use fsmend_device::Device;
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::InodeTable;
use fsmend_engine::{Budget, Findings, Progress};
use fsmend_ext_format::group::BG_BLOCK_UNINIT;

use crate::plan::{Means, Plan, Shortages};
use crate::run::CheckOptions;
use crate::scan::foresight::{directories, mapped_blocks};
use crate::scan::{STAGE_NAMES, Scan, ScanOutcome};
use crate::{Fs, Refusal, run, superblock};

/// One group in use of so many is tried.
const SAMPLE_ONE_IN: usize = 20;
/// The least and the most groups that are tried.
const SAMPLE: [usize; 2] = [6, 64];
/// What a directory weighs beside an inode, where the sample is drawn.
const DIRECTORY_WEIGHT: u64 = 8;
/// How often a run loads the descriptors: before and after it looks at the journal, and once orphans are released.
const OPENINGS: f64 = 3.0;
/// Nanoseconds for each inode when links are compared, for each directory when the tree is walked, and for the bitmaps of a group,
/// reading them apart. From warm runs; together they are a twentieth of a run.
const LINK_COST: f64 = 3.0;
const TREE_COST: f64 = 15.0;
const BITMAP_COST: f64 = 15_000.0;
/// Nanoseconds that any run takes to start and to end.
const RUN_COST: f64 = 4e6;
/// How far off an estimate is taken to be: the truth should lie between it divided by this and it times this.
const UNCERTAINTY: f64 = 1.35;

/// How long a run would take.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// Bytes that would be read.
    pub bytes: u64,
    /// Read requests.
    pub requests: u64,
    /// The run would take about this long.
    pub seconds: f64,
    /// The run would take at least this long.
    pub seconds_low: f64,
    /// The run would take at most this long.
    pub seconds_high: f64,
    /// What the estimate rests on, in a sentence.
    pub basis: String,
}

/// Sums over all groups, or over the sample.
#[derive(Clone, Copy, Debug, Default)]
struct Amounts {
    /// Inodes that are looked at.
    scanned: f64,
    /// Those of them in use.
    used: f64,
    directories: f64,
}

/// What the stages took: each in nanoseconds of one worker, bytes, requests.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    nanoseconds: f64,
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
    drop(run::open(&**device, settled.clone(), options.now, &mut ignored));
    let first = clock() - started;
    let fs = run::open(&**device, settled, options.now, &mut ignored);
    let opening = first + (OPENINGS - 1.0) * (clock() - started - first);

    let in_use: Vec<u32> = groups_in_use(&fs);
    let sample = sample(&fs, &in_use);
    let budget = Arc::new(Budget::new(options.memory));
    let plan = Plan::new(&fs, options, &budget)?;
    let shortages = Shortages::default();
    let means = Means {
        plan: &plan,
        allowance: options.allowance.as_deref(),
        budget: &budget,
        shortages: &shortages,
        cancel,
    };
    let (scan, mapped) = trial(&fs, options, means, &sample);
    let scan = whole(&fs, (&scan, mapped), &Amounts::of(&fs, &in_use), &Amounts::of(&fs, &sample));
    let bitmaps = bitmaps(&fs, &sample, clock);

    let all = Amounts::of(&fs, &in_use);
    let workers = plan.workers as f64;
    let behind =
        LINK_COST * f64::from(fs.geometry.inodes_count) + TREE_COST * all.directories + RUN_COST + opening;
    let seconds = ((scan.nanoseconds + bitmaps.nanoseconds) / workers + behind) / 1e9;
    Ok(Estimate {
        bytes: (scan.bytes + bitmaps.bytes) as u64,
        requests: (scan.requests + bitmaps.requests) as u64,
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
    (0..fs.groups.len() as u32).filter(is_scanned).collect()
}

/// Groups spread over all that are in use, at equal steps of the work in them. More than half of them are never taken, but one.
fn sample(fs: &Fs<'_>, in_use: &[u32]) -> Vec<u32> {
    let wanted = (in_use.len() / SAMPLE_ONE_IN).clamp(SAMPLE[0], SAMPLE[1]).min(in_use.len() / 2).max(1);
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

/// Runs the stages over the sample; returns what each took, and the weight of the maps that were walked.
fn trial(
    fs: &Fs<'_>,
    options: &CheckOptions,
    means: Means<'_>,
    sample: &[u32],
) -> ([Cost; STAGE_NAMES.len()], f64) {
    let progress = options.stage_clock.map_or_else(Progress::new, |clock| Progress::timed(clock.wall));
    let inodes = InodeTable::within(means.budget, fs.geometry.inodes_count, fs.geometry.inodes_per_group);
    let claims = Claims::within(means.budget, fs.geometry.clusters_count());
    // As before any scan; it also brings in the pages of the bitmap, which would else be paid for by the sample alone.
    run::claim_static(fs, &claims);
    let scan = Scan::new(fs, &inodes, &claims, &progress, options.backend, means, true);
    let outcome: ScanOutcome = scan.sampling(sample).run().unwrap_or_default();
    let stage = |index: usize| Cost {
        nanoseconds: progress.stage(STAGE_NAMES[index]).spent() as f64,
        bytes: outcome.costs[index].bytes as f64,
        requests: outcome.costs[index].requests as f64,
    };
    let mapped = progress.stage(STAGE_NAMES[1]).done() as f64;
    ([stage(0), stage(1), stage(2)], mapped)
}

/// What the stages will take for all groups.
fn whole(
    fs: &Fs<'_>,
    (trial, mapped): (&[Cost; STAGE_NAMES.len()], f64),
    all: &Amounts,
    tried: &Amounts,
) -> Cost {
    let ratio = |all: f64, tried: f64| if tried > 0.0 { all / tried } else { 1.0 };
    let maps = match mapped_blocks(fs) {
        Some(blocks) => ratio(blocks as f64, mapped),
        None => ratio(all.used, tried.used),
    };
    let ratios = [ratio(all.scanned, tried.scanned), maps, ratio(all.directories, tried.directories)];
    trial.iter().zip(ratios).fold(Cost::default(), |sum, (cost, ratio)| sum.plus(cost.times(ratio)))
}

/// Reads the bitmaps of the sample, as a run does for every group.
fn bitmaps(fs: &Fs<'_>, sample: &[u32], clock: impl Fn() -> f64) -> Cost {
    let block_size = u64::from(fs.geometry.block_size);
    let mut block = vec![0; block_size as usize];
    let started = clock();
    let mut reads = 0.0;
    for group in sample {
        let desc = &fs.groups[*group as usize].desc;
        for bitmap in [desc.block_bitmap, desc.inode_bitmap] {
            reads +=
                f64::from(u8::from(fs.device.read_at(fs.block_offset(BlockNo(bitmap)), &mut block).is_ok()));
        }
    }
    let took = clock() - started;
    let stored: BTreeSet<u32> = (0..fs.groups.len() as u32)
        .filter(|group| fs.groups[*group as usize].desc.flags & BG_BLOCK_UNINIT == 0)
        .collect();
    let groups = stored.len() as f64;
    let per_group = 2.0 * took / f64::max(reads, 1.0) + BITMAP_COST;
    Cost { nanoseconds: groups * per_group, bytes: groups * 2.0 * block_size as f64, requests: groups * 2.0 }
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

impl Cost {
    fn plus(self, other: Cost) -> Cost {
        Cost {
            nanoseconds: self.nanoseconds + other.nanoseconds,
            bytes: self.bytes + other.bytes,
            requests: self.requests + other.requests,
        }
    }

    fn times(self, factor: f64) -> Cost {
        Cost {
            nanoseconds: self.nanoseconds * factor,
            bytes: self.bytes * factor,
            requests: self.requests * factor,
        }
    }
}
