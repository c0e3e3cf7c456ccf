// SPDX-License-Identifier: MIT OR Apache-2.0
//! The repairs of the cross-checks, each the counterpart of a check in the [table of passes](super::passes).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

use fsmend_base::{BlockNo, InodeNo};
use fsmend_device::Device;

use super::context::{RepairContext, take_units};
use super::passes::passes;
use super::{Family, Repairable, Wrongs, read_record};
use crate::claims::Claims;
use crate::crosscheck::allocation::{InUse, Sum};
use crate::crosscheck::links::{nameless, wrong_of_chunk};
use crate::crosscheck::owners::GivenUp;
use crate::crosscheck::tree::{TreeRepairs, repairs};
use crate::inodes::{InodeFact, InodeTable, Kind};
use crate::names::recovered::recovered_name;
use crate::passes::Flow;
use crate::pool::PoolConfig;
use crate::repair::{Mended, RepairOverlay, WritableOverlay};
use crate::scan::memory_plan::too_small;
use crate::{Budget, Edit, Findings, Part, Problem, Refusal, Row};

/// The name of the directory for what has lost its name.
pub const LOST_FOUND: &[u8] = b"lost+found";

/// Lays down what inspections mended, and calls the repairs in their order. Nothing is written where something could not be done that had to be done in full.
/// Returns what is lost by it, too; refuses when what is written takes more memory than there is.
pub fn mend_in_place<F: Family>(
    family: &F,
    device: &dyn Device,
    layout: F::Layout,
    Wrongs { edits, input, .. }: Wrongs<'_>,
    (pool, budget): (PoolConfig<'_>, &Budget),
) -> Result<Mended, Refusal>
where
    for<'d> F::Volume<'d>: Repairable,
{
    let overlay = RepairOverlay::new(device);
    // What mends the contents of one file must not be written into a block that another one claims as well: that waits until each has its own.
    let raw = family.volume(layout.clone(), device);
    let (held, edits) = edits.into_iter().partition(|edit| is_contested(&raw, &input.claims, edit));
    let mut held: Vec<Edit> = held;
    drop(raw);
    overlay.lay(edits);
    let mut context = RepairContext::new(family.volume(layout.clone(), &overlay), &overlay, input);
    for repair in passes::<F::Volume<'_>>().iter().filter_map(|pass| pass.repair) {
        overlay.mending(None);
        if repair(&mut context) == Flow::Stops {
            return Ok(Mended::default());
        }
        // The next round looks at the copies, and mends what is in them.
        if context.has_moved && !held.is_empty() {
            break;
        }
        overlay.lay(std::mem::take(&mut held));
        let written = context.overlay.bytes_written();
        // What is written is held once more when it is handed on.
        if written > budget.free() / 2 {
            return Err(too_small(budget, budget.limit().saturating_add(2 * written)));
        }
    }
    let lost = std::mem::take(&mut context.lost);
    drop(context);
    let mends = overlay.take_mends();
    let (changes, copies) = overlay.into_changes(pool);
    match family.volume(layout, device).forbids(&changes) {
        Some(refusal) => Err(refusal),
        None => Ok(Mended { changes, copies, mends, lost }),
    }
}

/// Whether an edit touches a unit that several claim.
fn is_contested<V: Repairable>(volume: &V, claims: &Claims, edit: &Edit) -> bool {
    let (start, len) = volume.unit_place(0);
    let unit = |offset: u64| Some(offset.checked_sub(start)? / (len as u64).max(1));
    let last = edit.offset.saturating_add((edit.bytes.len() as u64).saturating_sub(1));
    let (Some(first), Some(last)) = (unit(edit.offset), unit(last)) else { return false };
    (first..=last).any(|unit| claims.contested().get(unit))
}

/// Every owner but one gets a copy of a unit that several claim.
pub fn owners<V: Repairable>(context: &mut RepairContext<'_, V>) -> Flow {
    let Some(contest) = context.input.contest.take() else { return Flow::GoesOn };
    let given_up = contest.given_up(&context.volume, &context.input.claims);
    for (inode, units) in given_up {
        context.has_moved = true;
        let contested: Vec<u64> = units.units().collect();
        let Some(mut record) = read_record(&context.volume, inode) else { continue };
        context.overlay.mending(Some(Part::Inode(inode)));
        let mut lost = Vec::new();
        {
            let RepairContext { volume, overlay, input, free_from, .. } = &mut *context;
            let mut take = |count| take_units(&input.claims, volume.run_units(), count, free_from);
            let mut copy = |from: u64, count: u64, to: u64| copy_units(volume, *overlay, (from, count), to);
            let mut mover = Mover { units, take: &mut take, copy: &mut copy, lost: &mut lost };
            volume.move_units(*overlay, inode, &mut record, &mut mover);
            volume.seal(inode, &mut record);
        }
        context.put(inode, record);
        let rows = context.volume.copy_rows();
        for (first, count, why) in lost {
            let row = if why == Moved::ToNothing { rows.no_room } else { rows.unreadable };
            let problem = problem_of(row, &context.volume, inode, (first, count));
            context.lost.raise(problem);
        }
        contested.into_iter().for_each(|unit| context.input.claims.resolve(unit));
    }
    Flow::GoesOn
}

/// What became of a run of units in a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// It stays.
    Stays,
    /// It was copied to the run that begins here.
    To(u64),
    /// No room was left: the map gets a hole.
    ToNothing,
}

/// Decides which runs of units of one inode move, finds new places and copies what is in them.
pub struct Mover<'a> {
    units: GivenUp,
    take: &'a mut dyn FnMut(u64) -> Option<u64>,
    copy: &'a mut dyn FnMut(u64, u64, u64) -> bool,
    /// Runs that got a hole, or zeroes.
    lost: &'a mut Vec<(u64, u64, Moved)>,
}

impl Mover<'_> {
    /// To be asked once about each run in a map, in the order of the file.
    pub fn moved(&mut self, first: u64, count: u64) -> Moved {
        if !self.units.includes(first, count) {
            return Moved::Stays;
        }
        let Some(to) = (self.take)(count) else {
            self.lost.push((first, count, Moved::ToNothing));
            return Moved::ToNothing;
        };
        if !(self.copy)(first, count, to) {
            self.lost.push((first, count, Moved::To(to)));
        }
        Moved::To(to)
    }
}

/// Copies what lies in a run of units to `to`; zeroes, where it cannot be read: then the answer is false.
fn copy_units<V: Repairable>(
    volume: &V,
    overlay: &dyn WritableOverlay,
    (from, count): (u64, u64),
    to: u64,
) -> bool {
    let mut is_read = true;
    for index in 0..count {
        let (place, len) = volume.unit_place(from + index);
        let mut bytes = vec![0; len];
        if volume.device().read_at(place, &mut bytes).is_err() {
            bytes.fill(0);
            is_read = false;
        }
        overlay.put(volume.unit_place(to + index).0, bytes);
    }
    is_read
}

/// A problem of `inode` with a run of units.
fn problem_of<V: Repairable>(
    row: &'static Row,
    volume: &V,
    inode: InodeNo,
    (first, count): (u64, u64),
) -> Problem {
    let blocks = volume.unit_blocks();
    let count = count * blocks;
    Problem::new(row).inode(inode).blocks(BlockNo(first * blocks), count).detail("count", count)
}

/// Gives the root, and a name in lost+found to everything that has none; makes parent entries lead to where names stand.
pub fn tree<V: Repairable>(context: &mut RepairContext<'_, V>) -> Flow {
    if !has_root(context) {
        return Flow::Stops;
    }
    let TreeRepairs { mut homeless, looped, mut parents } =
        repairs(&context.input.tree, &context.input.parent_entries);
    for inode in looped {
        context.overlay.mending(Some(Part::Inode(inode)));
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
    let RepairContext { volume, overlay, input, .. } = context;
    volume.settle_depths(*overlay, &input.inodes, &mut |inode| overlay.mending(Some(Part::Inode(inode))));
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

/// Puts names into lost+found, or into the root where there is no inode or no room for that directory. False where there is no room for names.
fn shelter<V: Repairable>(context: &mut RepairContext<'_, V>, homeless: BTreeSet<InodeNo>) -> bool {
    let home = lost_found(context).unwrap_or_else(|| context.volume.root());
    let mut taken = BTreeSet::new();
    context.volume.visit_entries(home, &|_| true, &mut |_, name| {
        if name.starts_with(b"#") {
            taken.insert(name.to_vec());
        }
    });
    for inode in homeless {
        context.overlay.mending(Some(Part::Inode(inode)));
        let kind = context.input.inodes.kind(inode);
        let number = context.volume.recovered_name(inode);
        let full = recovered_name(&number, context.input.last_names.get(&inode).map(String::as_str));
        let mut names = vec![full, number];
        names.dedup();
        // A long name may be taken, or lack the room that a short one finds.
        names.retain(|name| !taken.contains(name.as_bytes()));
        let Some(name) =
            names.into_iter().find(|name| add_name(context, home, name.as_bytes(), (inode, kind)))
        else {
            return false;
        };
        taken.insert(name.into_bytes());
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
    let RepairContext { volume, overlay, input, free_from, .. } = context;
    let mut take = |count| take_units(&input.claims, volume.run_units(), count, free_from);
    volume.extend_directory(*overlay, directory, &mut take)
        && context.volume.add_name(context.overlay, directory, name, target)
}

/// The directory lost+found, which is made where there is none. Where something else has that name, it is called lost+found.1, and so on.
fn lost_found<V: Repairable>(context: &mut RepairContext<'_, V>) -> Option<InodeNo> {
    let root = context.volume.root();
    let mut taken: BTreeMap<Vec<u8>, InodeNo> = BTreeMap::new();
    context.volume.visit_entries(root, &|_| true, &mut |inode, name| {
        if name.starts_with(LOST_FOUND) {
            taken.insert(name.to_vec(), inode);
        }
    });
    let name = match lost_found_among(&taken, &context.input.inodes) {
        Ok(inode) => return Some(inode),
        Err(name) => name,
    };
    let (inode, unit) = (context.free_inode()?, context.take_unit()?);
    if !add_name(context, root, &name, (inode, Kind::Directory)) {
        return None;
    }
    context.volume.make_directory(context.overlay, inode, unit, root);
    context.input.inodes.add_new_directory(inode, root);
    Some(inode)
}

/// The directory lost+found among the names of the root that begin so, or the name of one that is to be made.
pub fn lost_found_among(taken: &BTreeMap<Vec<u8>, InodeNo>, inodes: &InodeTable) -> Result<InodeNo, Vec<u8>> {
    let mut name = LOST_FOUND.to_vec();
    let mut number = 0_u64;
    while let Some(inode) = taken.get(&name) {
        if inodes.kind(*inode) == Kind::Directory {
            return Ok(*inode);
        }
        number += 1;
        name = [LOST_FOUND, format!(".{number}").as_bytes()].concat();
    }
    Err(name)
}

fn settle_parent<V: Repairable>(context: &RepairContext<'_, V>, inode: InodeNo) {
    let (inodes, root) = (&context.input.inodes, context.volume.root());
    let Some(fact) = inodes.directory(inode) else { return };
    let parent = if inode == root { root } else { InodeNo(fact.parent.load(Relaxed)) };
    if parent.0 == 0 {
        return;
    }
    context.overlay.mending(Some(Part::Inode(inode)));
    context.volume.set_parent(context.overlay, inode, parent);
    inodes.lead_up(inode, parent);
}

/// Sets link counts, and frees what is empty and nameless.
pub fn links<V: Repairable>(context: &mut RepairContext<'_, V>) -> Flow {
    let mut wrong = Vec::new();
    for chunk in 0..context.input.inodes.chunk_count() {
        wrong_of_chunk(&context.volume, &context.input.inodes, chunk, &mut wrong);
    }
    for count in wrong {
        context.overlay.mending(Some(Part::Inode(count.inode)));
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

/// What problems of the maps of an area are about.
fn part_of_area<V: Repairable>(volume: &V, area: u32) -> Part {
    Part::of(&volume.at_area(volume.contest_rows().shares, area))
}

/// Writes maps, counts and totals that follow from all the rest.
pub fn maps<V: Repairable>(context: &mut RepairContext<'_, V>) -> Flow {
    let RepairContext { volume, overlay, input, .. } = context;
    let in_use = InUse { inodes: &input.inodes, claims: &input.claims };
    let mut sums = vec![Sum::default(); volume.count_kinds()];
    for (area, map) in (0..volume.areas()).flat_map(|area| (0..volume.maps()).map(move |map| (area, map))) {
        overlay.mending(Some(part_of_area(volume, area)));
        let observed = volume.observed(area, map, in_use);
        volume.counts(area, map, &observed, &mut |count| {
            if let Some(sum) = sums.get_mut(count.kind) {
                sum.stored += count.observed;
                sum.observed += count.observed;
            }
        });
        volume.store_map(*overlay, area, map, &observed);
    }
    overlay.mending(Some(Part::FileSystem));
    volume.store_totals(*overlay, &sums);
    volume.store_quotas(*overlay);
    Flow::GoesOn
}
