//! The repairs of the cross-checks, each the counterpart of a check in the [table of passes](super::passes).

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{BlockNo, InodeNo};
use fsmend_device::Device;

use super::context::{Input, RepairContext};
use super::passes::passes;
use super::{Family, Repairable};
use crate::crosscheck::allocation::{InUse, Sum};
use crate::crosscheck::links::{nameless, wrong_of_chunk};
use crate::crosscheck::owners::Owner;
use crate::crosscheck::tree::{TreeRepairs, repairs};
use crate::edits::Edit;
use crate::inodes::{InodeFact, Kind};
use crate::passes::Flow;
use crate::pool::PoolConfig;
use crate::repair::{Changes, RepairOverlay};
use crate::scan::memory_plan::too_small;
use crate::{Budget, Findings, Problem, Refusal, Row};

/// The name of the directory for what has lost its name.
const LOST_FOUND: &[u8] = b"lost+found";

/// Lays down what inspections mended, and calls the repairs in their order. Nothing is written where something could not be done that had to be done in full.
/// Returns what is lost by it, too; refuses when what is written takes more memory than there is.
pub fn mend<F: Family>(
    family: &F,
    device: &dyn Device,
    layout: F::Layout,
    (edits, input): (Vec<Edit>, Input),
    (pool, budget): (PoolConfig<'_>, &Budget),
) -> Result<(Changes, Findings), Refusal> {
    let overlay = RepairOverlay::new(device);
    overlay.lay(edits);
    let mut context = RepairContext::new(family.volume(layout, &overlay), &overlay, input);
    for repair in passes::<F::Volume<'_>>().iter().filter_map(|pass| pass.repair) {
        if repair(&mut context) == Flow::Stops {
            return Ok((Changes::new(), Findings::new()));
        }
        let written = context.overlay.bytes_written();
        // What is written is held once more when it is handed on.
        if written > budget.free() / 2 {
            return Err(too_small(budget, budget.limit().saturating_add(2 * written)));
        }
    }
    let lost = std::mem::take(&mut context.lost);
    drop(context);
    Ok((overlay.into_changes(pool), lost))
}

/// Every owner but one gets a copy of a unit that several claim: structures that no inode owns stay, then the inode with the lowest number.
pub fn owners<V: Repairable>(context: &mut RepairContext<'_, V>) -> Flow {
    let Some(contest) = context.input.contest.take() else { return Flow::GoesOn };
    let mut moves: Vec<(u64, InodeNo)> = Vec::new();
    contest.visit_owners(&context.volume, &context.input.claims, |unit, owners| {
        let movers = owners.iter().skip(1).filter_map(|owner| match owner {
            Owner::Inode(inode) => Some((unit, *inode)),
            Owner::Metadata => None,
        });
        moves.extend(movers);
    });
    for (unit, inode) in moves {
        let to = context.take_unit();
        match to {
            Some(to) => copy_unit(context, inode, unit, to),
            None => context.lost.raise(problem_of(
                context.volume.copy_rows().no_room,
                &context.volume,
                inode,
                unit,
            )),
        }
        context.amend(inode, |volume, record| volume.move_unit(record, unit, to));
        context.input.claims.resolve(unit);
    }
    Flow::GoesOn
}

/// Copies what lies in `unit` to `to`; zeroes, where it cannot be read.
fn copy_unit<V: Repairable>(context: &mut RepairContext<'_, V>, inode: InodeNo, unit: u64, to: u64) {
    let (from, len) = context.volume.unit_place(unit);
    let mut bytes = vec![0; len];
    if context.volume.device().read_at(from, &mut bytes).is_err() {
        bytes.fill(0);
        context.lost.raise(problem_of(context.volume.copy_rows().unreadable, &context.volume, inode, unit));
    }
    context.overlay.put(context.volume.unit_place(to).0, bytes);
}

/// A problem of `inode` with one unit.
fn problem_of<V: Repairable>(row: &'static Row, volume: &V, inode: InodeNo, unit: u64) -> Problem {
    let blocks = volume.unit_blocks();
    Problem::new(row).inode(inode).blocks(BlockNo(unit * blocks), blocks).detail("count", blocks)
}

/// Gives the root, and a name in lost+found to everything that has none; makes parent entries lead to where names stand.
pub fn tree<V: Repairable>(context: &mut RepairContext<'_, V>) -> Flow {
    if !has_root(context) {
        return Flow::Stops;
    }
    let TreeRepairs { mut homeless, looped, mut parents } =
        repairs(&context.input.tree, &context.input.parent_entries);
    for inode in looped {
        cut_loop(context, inode);
        homeless.insert(inode);
    }
    let is_kept = |inode: &InodeNo| !context.volume.is_worthless(*inode);
    homeless.extend(nameless(&context.volume, &context.input.inodes).into_iter().filter(is_kept));
    parents.extend(homeless.iter().filter(|inode| context.input.inodes.kind(**inode) == Kind::Directory));
    if !homeless.is_empty() && !shelter(context, homeless) {
        return Flow::Stops;
    }
    for inode in parents {
        settle_parent(context, inode);
    }
    Flow::GoesOn
}

/// Makes a root directory where there is none; the check has put it in the facts.
fn has_root<V: Repairable>(context: &mut RepairContext<'_, V>) -> bool {
    let root = context.volume.root();
    let is_there =
        super::summary_of(&context.volume, root).is_some_and(|found| found.kind == Some(Kind::Directory));
    if is_there {
        return true;
    }
    let Some(unit) = context.take_unit() else { return false };
    context.volume.make_directory(context.overlay, root, unit, root);
    true
}

fn cut_loop<V: Repairable>(context: &RepairContext<'_, V>, inode: InodeNo) {
    let Some(fact) = context.input.inodes.directory(inode) else { return };
    let holder = InodeNo(fact.parent.load(Relaxed));
    context.volume.remove_names(context.overlay, holder, inode);
    context.input.inodes.withdraw_link(inode);
    fact.parent.store(0, Relaxed);
}

/// Puts names into lost+found. False where there is no room.
fn shelter<V: Repairable>(context: &mut RepairContext<'_, V>, homeless: BTreeSet<InodeNo>) -> bool {
    let Some(home) = lost_found(context) else { return false };
    for inode in homeless {
        let kind = context.input.inodes.kind(inode);
        if !add_name(context, home, format!("#{inode}").as_bytes(), (inode, kind)) {
            return false;
        }
        context.input.inodes.observe_link(inode);
        if let Some(fact) = context.input.inodes.directory(inode) {
            fact.parent.store(home.0, Relaxed);
        }
    }
    true
}

fn add_name<V: Repairable>(
    context: &mut RepairContext<'_, V>,
    directory: InodeNo,
    name: &[u8],
    target: (InodeNo, Kind),
) -> bool {
    if context.volume.add_name(context.overlay, directory, name, target) {
        return true;
    }
    let Some(unit) = context.take_unit() else { return false };
    context.volume.extend_directory(context.overlay, directory, unit)
        && context.volume.add_name(context.overlay, directory, name, target)
}

/// The directory lost+found, which is made where there is none.
fn lost_found<V: Repairable>(context: &mut RepairContext<'_, V>) -> Option<InodeNo> {
    let root = context.volume.root();
    let mut found = None;
    context.volume.visit_entries(root, &|_| true, &mut |inode, name| {
        if name == LOST_FOUND {
            found = Some(inode);
        }
    });
    if let Some(inode) = found {
        return (context.input.inodes.kind(inode) == Kind::Directory).then_some(inode);
    }
    let (inode, unit) = (context.free_inode()?, context.take_unit()?);
    context.volume.make_directory(context.overlay, inode, unit, root);
    if !add_name(context, root, LOST_FOUND, (inode, Kind::Directory)) {
        return None;
    }
    let inodes = &mut context.input.inodes;
    inodes.revise(inode, InodeFact::new(Kind::Directory, 0), 2);
    inodes.add_directory(inode);
    inodes.set_parent(inode, root);
    for linked in [inode, inode, root] {
        inodes.observe_link(linked);
    }
    if let Some(fact) = inodes.directory(inode) {
        fact.parent_entry.store(root.0, Relaxed);
    }
    Some(inode)
}

fn settle_parent<V: Repairable>(context: &RepairContext<'_, V>, inode: InodeNo) {
    let (inodes, root) = (&context.input.inodes, context.volume.root());
    let Some(fact) = inodes.directory(inode) else { return };
    let parent = if inode == root { root } else { InodeNo(fact.parent.load(Relaxed)) };
    if parent.0 == 0 {
        return;
    }
    context.volume.set_parent(context.overlay, inode, parent);
    let before = InodeNo(fact.parent_entry.swap(parent.0, Relaxed));
    if before != parent {
        if before.0 != 0 {
            inodes.withdraw_link(before);
        }
        inodes.observe_link(parent);
    }
}

/// Sets link counts, and frees what is empty and nameless.
pub fn links<V: Repairable>(context: &mut RepairContext<'_, V>) -> Flow {
    let mut wrong = Vec::new();
    for chunk in 0..context.input.inodes.chunk_count() {
        wrong_of_chunk(&context.volume, &context.input.inodes, chunk, &mut wrong);
    }
    for count in wrong {
        if count.observed == 0 && count.fact.kind() != Kind::Directory {
            context.put(count.inode, vec![0; context.volume.record_bytes()]);
            context.input.inodes.revise(count.inode, InodeFact::default(), 0);
            continue;
        }
        // What the format cannot count was raised by the check.
        let links = context.volume.count_for(&count, &mut Findings::new());
        let links = u16::try_from(links).unwrap_or(u16::MAX);
        context.amend(count.inode, |volume, record| volume.set_links(record, links));
        context.input.inodes.revise(count.inode, count.fact, links);
    }
    Flow::GoesOn
}

/// Writes maps, counts and totals that follow from all the rest.
pub fn maps<V: Repairable>(context: &mut RepairContext<'_, V>) -> Flow {
    let RepairContext { volume, overlay, input, .. } = context;
    let in_use = InUse { inodes: &input.inodes, claims: &input.claims };
    let mut sums = vec![Sum::default(); volume.count_kinds()];
    for (area, map) in (0..volume.areas()).flat_map(|area| (0..volume.maps()).map(move |map| (area, map))) {
        let observed = volume.observed(area, map, in_use);
        volume.counts(area, map, &observed, &mut |count| {
            if let Some(sum) = sums.get_mut(count.kind) {
                sum.stored += count.observed;
                sum.observed += count.observed;
            }
        });
        volume.store_map(*overlay, area, map, &observed);
    }
    volume.store_totals(*overlay, &sums);
    Flow::GoesOn
}
