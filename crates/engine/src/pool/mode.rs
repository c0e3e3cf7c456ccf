// SPDX-License-Identifier: MIT OR Apache-2.0
//! How workers are divided between the stages: the modes of pFSCK's Table 3 are policies of one scheduler.
//!
//! A *pass* is a group of stages that one pool of workers serves where pools are fixed (the paper has two: inodes, and
//! directories). The dynamic modes know no pools: a worker that asks for work goes where most workers are missing.

use std::fmt;
use std::str::FromStr;

use super::StageIndex;

/// How workers are divided between the stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// One worker, and one stage after another.
    Serial,
    /// All workers in one stage after another, and no worker goes on before a stage is through.
    Data,
    /// Stages at the same time, with as many workers in each pass.
    PipelineEqual,
    /// The same, with the workers divided between the first pass and the others in this proportion.
    Pipeline(u16, u16),
    /// Workers go where work is outstanding, as equations (1) and (2) of the paper say.
    #[default]
    Dynamic,
    /// The same, with a number of workers that follows idle processors.
    ResourceAware,
}

/// How a process stands with the scheduler of the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Priority {
    /// Its nice value: above 0, others come first.
    pub nice: i32,
    /// Whether its policy is SCHED_BATCH or SCHED_IDLE.
    pub yields: bool,
}

impl Mode {
    /// The mode of a run whose user names none: a run at low priority is to be a good neighbour as well.
    pub fn default_for(priority: Priority, background: bool) -> Mode {
        if background || priority.nice > 0 || priority.yields { Mode::ResourceAware } else { Mode::Dynamic }
    }

    /// How many of `wanted` workers this mode has a use for.
    pub fn workers(self, wanted: usize) -> usize {
        if self == Mode::Serial { 1 } else { wanted.max(1) }
    }

    /// How many workers it takes by default.
    pub fn workers_by_default(self, cores: usize) -> usize {
        match self {
            Mode::Pipeline(first, others) => usize::from(first) + usize::from(others),
            other => other.workers(cores),
        }
    }

    /// Whether a stage is begun only when those before it are through.
    pub(super) fn has_barriers(self) -> bool {
        matches!(self, Mode::Serial | Mode::Data)
    }

    /// Whether idle workers have to be woken for more than new work: of stages that end, of pools that change.
    pub(super) fn divides(self) -> bool {
        !matches!(self, Mode::Dynamic | Mode::ResourceAware)
    }

    /// The pass that worker number `worker` of `workers` serves, of `passes`; `None` when it serves all of them, for want of
    /// workers or because pools are not fixed.
    pub(super) fn pass_of(self, worker: usize, workers: usize, passes: usize) -> Option<usize> {
        if workers < passes || passes < 2 {
            return None;
        }
        match self {
            Mode::PipelineEqual => Some((worker * passes / workers).min(passes - 1)),
            Mode::Pipeline(first, others) => {
                let (first, others) = (usize::from(first), usize::from(others));
                let all = (first + others).max(1);
                let pool = ((workers * first + all / 2) / all).clamp(1, workers - (passes - 1));
                if worker < pool {
                    return Some(0);
                }
                Some(1 + ((worker - pool) * (passes - 1) / (workers - pool).max(1)).min(passes - 2))
            }
            _ => None,
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(word: &str) -> Result<Mode, String> {
        let modes = [Mode::Serial, Mode::Data, Mode::PipelineEqual, Mode::Dynamic, Mode::ResourceAware];
        if let Some(mode) = modes.into_iter().find(|mode| mode.to_string() == word) {
            return Ok(mode);
        }
        let shares = word.strip_prefix("pipeline=").and_then(|shares| shares.split_once(':'));
        let share = |text: &str| text.parse::<u16>().ok().filter(|share| (1..=2048).contains(share));
        shares.and_then(|(first, others)| Some(Mode::Pipeline(share(first)?, share(others)?))).ok_or_else(|| {
            "one of serial, data, pipeline-equal, pipeline=A:B (A and B from 1 to 2048), dynamic, resource-aware"
                .to_owned()
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Serial => f.write_str("serial"),
            Mode::Data => f.write_str("data"),
            Mode::PipelineEqual => f.write_str("pipeline-equal"),
            Mode::Pipeline(first, others) => write!(f, "pipeline={first}:{others}"),
            Mode::Dynamic => f.write_str("dynamic"),
            Mode::ResourceAware => f.write_str("resource-aware"),
        }
    }
}

/// What a stage has outstanding: `q_i n_i`, the things in all the batches of its queue.
#[derive(Clone, Copy, Debug)]
pub struct Outstanding {
    /// The stage.
    pub stage: StageIndex,
    /// Things that wait.
    pub units: u64,
    /// `w_i`: nanoseconds for one of them; `None` before any was measured.
    pub weight: Option<f64>,
    /// Workers that are at work in it.
    pub active: usize,
}

/// The stage that lacks most workers, `budget` being how many there may be (`C`).
///
/// Equation (1): the work outstanding is the sum of `q_i n_i w_i`; equation (2): stage `i` is due `t_i`, the part of `C` that
/// its work is of that. Who asks goes where the difference between `t_i` and the workers at work there is largest. A stage
/// that was not measured yet gets one worker first, to be measured.
pub fn most_wanted(stages: &[Outstanding], budget: usize) -> Option<StageIndex> {
    if let Some(new) = stages.iter().find(|stage| stage.weight.is_none() && stage.active == 0) {
        return Some(new.stage);
    }
    let work = |stage: &Outstanding| stage.units as f64 * stage.weight.unwrap_or(0.0);
    let total: f64 = stages.iter().map(work).sum();
    let lacks = |stage: &Outstanding| {
        let due = if total > 0.0 { budget as f64 * work(stage) / total } else { 0.0 };
        due - stage.active as f64
    };
    // Of two that lack as many, the earlier one: it may make work for the later.
    let better = |one: &Outstanding, other: &Outstanding| lacks(one) >= lacks(other);
    stages.iter().reduce(|best, next| if better(best, next) { best } else { next }).map(|stage| stage.stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lead_to_modes_and_back() {
        for word in ["serial", "data", "pipeline-equal", "pipeline=3:1", "dynamic", "resource-aware"] {
            assert_eq!(word.parse::<Mode>().unwrap_or_default().to_string(), word);
        }
        for word in ["", "pipeline", "pipeline=0:1", "pipeline=1", "pipeline=1:2:3", "Dynamic"] {
            assert!(word.parse::<Mode>().is_err(), "{word}");
        }
    }

    #[test]
    fn who_asks_for_little_priority_is_a_good_neighbour() {
        let of = |nice, yields, background| Mode::default_for(Priority { nice, yields }, background);
        assert_eq!(of(0, false, false), Mode::Dynamic);
        assert_eq!(of(-5, false, false), Mode::Dynamic);
        for neighbourly in [of(1, false, false), of(0, true, false), of(0, false, true)] {
            assert_eq!(neighbourly, Mode::ResourceAware);
        }
    }

    #[test]
    fn pools() {
        let pools =
            |mode: Mode, workers| (0..workers).map(|at| mode.pass_of(at, workers, 2)).collect::<Vec<_>>();
        let of = |passes: &[usize]| passes.iter().map(|pass| Some(*pass)).collect::<Vec<_>>();
        assert_eq!(pools(Mode::PipelineEqual, 4), of(&[0, 0, 1, 1]));
        assert_eq!(pools(Mode::PipelineEqual, 3), of(&[0, 0, 1]));
        assert_eq!(pools(Mode::Pipeline(3, 1), 4), of(&[0, 0, 0, 1]));
        assert_eq!(pools(Mode::Pipeline(9, 1), 2), of(&[0, 1]), "no worker is left out");
        assert_eq!(pools(Mode::Pipeline(1, 9), 3), of(&[0, 1, 1]));
        assert_eq!(pools(Mode::PipelineEqual, 1), [None], "one worker does everything");
        assert_eq!(pools(Mode::Dynamic, 2), [None, None]);
        assert_eq!(Mode::Pipeline(1, 1).pass_of(2, 3, 3), Some(2));
    }

    #[test]
    fn workers_go_where_the_equations_say() {
        let stage = |stage, units, weight, active| Outstanding { stage, units, weight: Some(weight), active };
        // W = 600 + 200; with 8 workers 6 are due to the first stage, 2 to the second.
        let at = |first, second| most_wanted(&[stage(0, 600, 1.0, first), stage(1, 100, 2.0, second)], 8);
        assert_eq!(at(0, 0), Some(0));
        assert_eq!(at(5, 0), Some(1), "one lacks in the first, two in the second");
        assert_eq!(at(5, 2), Some(0));
        assert_eq!(at(6, 1), Some(1));
        assert_eq!(at(4, 0), Some(0), "of equals the earlier one");
        assert_eq!(most_wanted(&[], 8), None);
    }

    #[test]
    fn what_was_never_measured_is_measured_first() {
        let known = Outstanding { stage: 0, units: 1 << 40, weight: Some(1.0), active: 3 };
        let new = |active| Outstanding { stage: 1, units: 1, weight: None, active };
        assert_eq!(most_wanted(&[known, new(0)], 4), Some(1));
        assert_eq!(most_wanted(&[known, new(1)], 4), Some(0), "by one worker");
    }
}
