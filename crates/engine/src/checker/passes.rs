// SPDX-License-Identifier: MIT OR Apache-2.0
//! The passes of a check and of its repair, in their order.

use std::sync::atomic::AtomicBool;

use super::context::{Input, RepairContext};
use super::scan::{Run, Scanned, scan};
use super::{Checkable, Repairable, former, mend, stopped};
use crate::crosscheck::allocation::{self, InUse, Sum};
use crate::crosscheck::links;
use crate::crosscheck::owners::{Contest, SHARES_MIN, Search};
use crate::crosscheck::tree::{self, TreeFinding};
use crate::edits::Edit;
use crate::inodes::InodeTable;
use crate::laps::Laps;
use crate::names::recovered;
use crate::names::report::name_objects;
use crate::passes::{Flow, Pass};
use crate::report::{CheckReport, Division, Summary};
use crate::scan::memory_plan::{self, MemoryPlan, RunContext, Shortages};
use crate::{Findings, Refusal};

/// The facts after the scan, and what the passes find.
pub struct Cross<'a, V> {
    volume: &'a V,
    scanned: Scanned,
    findings: Findings,
    context: RunContext<'a>,
    cancel: &'a AtomicBool,
    contest: Option<Contest>,
    tree: Vec<TreeFinding>,
    parent_entries: Vec<fsmend_base::InodeNo>,
    sums: Vec<Sum>,
}

type CheckPass<V> = fn(&mut Cross<'_, V>);
type RepairPass<V> = fn(&mut RepairContext<'_, V>) -> Flow;

/// All of them, with the repairs of a format that is mended in place.
#[rustfmt::skip]
pub fn passes<V: Repairable>() -> [Pass<CheckPass<V>, RepairPass<V>>; 4] {
    with_repairs([Some(mend::owners), Some(mend::tree), Some(mend::links), Some(mend::maps)])
}

#[rustfmt::skip]
fn with_repairs<V: Checkable, R: Copy>(repairs: [Option<R>; 4]) -> [Pass<CheckPass<V>, R>; 4] {
    [
        Pass { name: "owners", needs: &[], check: Some(owners), repair: repairs[0] },
        Pass { name: "tree", needs: &["owners"], check: Some(tree_and_links), repair: repairs[1] },
        Pass { name: "links", needs: &["tree"], check: None, repair: repairs[2] },
        Pass { name: "maps", needs: &["owners", "links"], check: Some(maps), repair: repairs[3] },
    ]
}

/// What a repair needs; the report, and the edits of all inspections.
type Found = (Input, (CheckReport, Vec<Edit>));

/// Checks what `volume` holds. `None` if what opening took on trust does not hold.
pub fn check<V: Checkable>(
    volume: &V,
    run: Run<'_>,
    laps: &mut Laps<'_>,
    early: Findings,
) -> Result<Option<Found>, Refusal> {
    let Run { options, naming, cancel, budget, .. } = run;
    let plan = MemoryPlan::new(&volume.expected(), options, budget)?;
    let shortages = Shortages::default();
    let context = RunContext::new(options, (&plan, &shortages), budget, cancel);
    let mut findings = Findings::with_room(plan.problems).gathering(early.gathers_edits());
    findings.merge(early);
    let scanned = scan(volume, (run, context), &mut findings);
    stopped(cancel)?;
    memory_plan::stop_if_exhausted(budget)?;
    if volume.is_misled() {
        return Ok(None);
    }
    plan.scan_is_over(budget);
    laps.lap("scan", u64::from(volume.inodes_count()));
    let mut cross = Cross {
        volume,
        scanned,
        findings,
        context,
        cancel,
        contest: None,
        tree: Vec::new(),
        parent_entries: Vec::new(),
        sums: Vec::new(),
    };
    for (pass, check) in with_repairs::<V, ()>([None; 4]).iter().filter_map(|pass| Some((pass, pass.check?)))
    {
        check(&mut cross);
        stopped(cancel)?;
        memory_plan::stop_if_exhausted(budget)?;
        laps.lap(pass.name, 1);
    }
    let mut findings = std::mem::take(&mut cross.findings);
    let edits = findings.take_edits();
    let mut degraded = plan.degraded.clone();
    degraded.extend(shortages.sentences(&plan));
    degraded.extend(volume.degraded());
    degraded.extend(memory_plan::fewer_kept(findings.kept_per_row(), budget));
    let pool = (context.pool(), cancel);
    let inodes = &cross.scanned.inodes;
    let wanted = (naming, options.want_all_paths);
    let findings = name_objects((volume, inodes), findings, wanted, budget, pool, &mut degraded);
    let former = options.repair.as_ref().is_some_and(|policy| policy.former_names);
    let all = former || options.want_all_paths;
    let findings = former::tell((volume, &cross.scanned), findings, all, budget, pool, &mut degraded);
    laps.lap("names", findings.counts().values().sum());
    let division = Division { mode: options.schedule.mode, workers: plan.workers, ..Division::default() };
    let summary =
        Summary { blocks_used: cross.scanned.claims.claimed().count(), ..counted(volume.summary(), inodes) };
    let report = CheckReport { findings, summary, stats: Vec::new(), division, degraded };
    let Cross { scanned: Scanned { inodes, claims }, contest, tree, parent_entries, .. } = cross;
    let last_names = if former { recovered::last_names(&report.findings) } else { Default::default() };
    Ok(Some((Input { inodes, claims, contest, tree, parent_entries, last_names }, (report, edits))))
}

fn owners<V: Checkable>(cross: &mut Cross<'_, V>) {
    let budget = cross.context.budget;
    let search = Search {
        volume: cross.volume,
        inodes: &cross.scanned.inodes,
        claims: &cross.scanned.claims,
        extra: &[],
        pool: cross.context.pool(),
        room: cross.context.plan.owners,
        shares_min: SHARES_MIN,
        cancel: cross.cancel,
    };
    cross.contest = search.report(|| budget.is_exhausted(), &mut cross.findings);
}

fn tree_and_links<V: Checkable>(cross: &mut Cross<'_, V>) {
    let (volume, inodes, findings) = (cross.volume, &cross.scanned.inodes, &mut cross.findings);
    let pool = (cross.context.pool(), cross.cancel);
    tree::check_root(volume, inodes, findings);
    let found = tree::check(inodes, volume.root(), pool.0, pool.1);
    let adjustments = tree::adjustments(inodes, &found.findings);
    cross.parent_entries = tree::report(volume, inodes, &found, findings);
    let scanned = u64::from(volume.inodes_count());
    links::check(volume, (inodes, scanned), &adjustments, pool, findings);
    volume.check_depths(inodes, findings);
    cross.tree = found.findings;
}

fn maps<V: Checkable>(cross: &mut Cross<'_, V>) {
    let in_use = InUse { inodes: &cross.scanned.inodes, claims: &cross.scanned.claims };
    let pool = (cross.context.pool(), cross.cancel);
    cross.sums = allocation::check(cross.volume, in_use, pool, &mut cross.findings);
    cross.volume.check_totals(&cross.sums, &mut cross.findings);
    cross.volume.check_quotas(&mut cross.findings);
}

/// The summary with the files and directories that were found.
fn counted(summary: Summary, inodes: &InodeTable) -> Summary {
    let (files, directories) = inodes.used();
    Summary { files_used: files, directories, ..summary }
}
