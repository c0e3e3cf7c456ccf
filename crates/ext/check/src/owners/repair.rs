// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places of their own for all that share blocks, window by window; within one, directories first, then by number. Where there is no room for all, those that
//! need least come first: a map that was overwritten claims much, and would take the room of many.
//!
//! What a unit held before the repair is what files get: an inspection may have mended it for another owner. Where a directory or
//! a map had a part in it, what stays gets that back as well, and mends it in the next round, if need be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use fsmend_base::{BlockNo, InodeNo, width};
use fsmend_engine::Findings;
use fsmend_engine::crosscheck::links::LinkRules;
use fsmend_engine::inodes::{InodeFact, Kind, mark};
use fsmend_engine::pool::Stage;
use fsmend_ext_format::features::{Incompat, RoCompat};

use super::copy_room::CopyRoom;
use super::keepers::{Keeper, Place, Places, attribute_block};
use super::relocate::relocate;
use super::{Contest, Owner, Search, names};
use crate::Fs;
use crate::directory::lost_found::LostFound;
use crate::inode::{self, Inspection};
use crate::repair::{Duplicates, RepairContext};

/// Bytes of a name in lost+found, a hash sign and a number.
const NAME_BYTES: u64 = 24;
/// Units that a directory may need when it is written anew: a block more than it has, and one of its map or its index.
const REWRITE_UNITS: u64 = 2;
/// So many blocks of a directory need one of a map, at most; and a repair has a use for so many besides (lost+found may have to be made).
const MAP_PART: u64 = 64;
const SPARE_UNITS: u64 = 4;
/// The work, as traces call it.
const MOVES: [Stage; 1] = [Stage { name: "moves", pass: 1 }];
/// Inodes that are inspected before the first of them moves, and the longest map, in runs and nodes, that is kept meanwhile.
const MOVED_AT_ONCE: usize = 512;
const RUNS_MAX: usize = 1024;

/// Deals with everything that is contested. `false` when that cannot be done, and nothing may be written.
pub(crate) fn mend(context: &mut RepairContext<'_>) -> bool {
    let Some(mut contest) = context.repair_input.contest.take() else { return true };
    let unshares = context.fs.geometry.features.has_ro_compat(RoCompat::SHARED_BLOCKS);
    let mut copy_room = CopyRoom::new(context, reserve(context));
    let mut has_room = true;
    loop {
        let unwanted = unwanted(context, &contest);
        match context.policy.duplicates {
            Duplicates::Delete => delete(context, &unwanted, &mut contest),
            Duplicates::LostFound => names::strip(context, &unwanted),
            Duplicates::Clone | Duplicates::Zero => {}
        }
        has_room &= deal(context, &contest, &mut copy_room);
        let Some(next) = context.claims.contested().ones_from(contest.end).next() else { break };
        contest = search(context, next, &contest);
    }
    redirect_attributes(context, &copy_room.attributes);
    if unshares && has_room {
        let superblock = &mut context.fs.superblock;
        let features = superblock.s_feature_ro_compat.get() & !RoCompat::SHARED_BLOCKS.bits();
        superblock.s_feature_ro_compat.set(features);
        context.fs.geometry.features.ro_compat &= !RoCompat::SHARED_BLOCKS;
    }
    has_room || !unshares
}

/// Units that copies leave free, for what names in lost+found and directories that are written anew will need. A file system that is filled to
/// the last block with copies could not be mended to its end.
fn reserve(context: &RepairContext<'_>) -> u64 {
    let names = &context.repair_input.names;
    let mut nameless = names.tree.len() as u64;
    for chunk in 0..context.inodes.chunk_count() {
        context.inodes.visit_chunk(chunk, |inode, fact, _, names| {
            let needs_one = fact.kind() != Kind::Unused && context.fs.has_names(inode, fact);
            nameless += u64::from(needs_one && names == 0);
        });
    }
    let rewrites = REWRITE_UNITS * names.rewrites.len() as u64;
    if nameless == 0 && names.lost_found == LostFound::Fit {
        return rewrites;
    }
    let geometry = &context.fs.geometry;
    let bytes_per_unit = u64::from(geometry.block_size) * u64::from(geometry.cluster_blocks);
    let units = (nameless * NAME_BYTES).div_ceil(bytes_per_unit);
    units + units / MAP_PART + SPARE_UNITS + rewrites
}

fn search(context: &RepairContext<'_>, start: u64, last: &Contest) -> Contest {
    let search = Search {
        volume: &context.fs,
        inodes: &context.inodes,
        claims: &context.claims,
        extra: &last.extra,
        pool: context.pool,
        room: last.room,
        shares_min: super::SHARES_MIN,
        cancel: &AtomicBool::new(false),
    };
    search.window(start)
}

/// Decides and moves. `false` when something was lost for want of room.
fn deal(context: &mut RepairContext<'_>, contest: &Contest, copy_room: &mut CopyRoom) -> bool {
    let mut places = Places::decide(context, contest);
    let units = places.iter().count() as u64;
    let owners = places.claims_of(&contest.shares);
    let in_all = context.claims.contested().ones_from(contest.start).count() as u64;
    copy_room.expect(owners.saturating_sub(units), (units, in_all));
    if copy_room.is_short {
        let is_directory = |inode: &InodeNo| context.inodes.kind(*inode) == Kind::Directory;
        let (mut inodes, files): (Vec<InodeNo>, Vec<InodeNo>) =
            places.inodes.drain(..).partition(is_directory);
        inodes.extend(places.smallest_first(files, &contest.shares));
        places.inodes = inodes;
    }
    let mut has_room = true;
    // What is contested behind this window may hold nodes of two maps: the inode that moves first may write there what the other one reads.
    let may_look_ahead = in_all == units;
    for part in std::mem::take(&mut places.inodes).chunks(MOVED_AT_ONCE) {
        let ahead = if may_look_ahead { look_ahead(context, part) } else { Vec::new() };
        let ahead = ahead.into_iter().chain(std::iter::repeat_with(|| None));
        for (inode, found) in part.iter().zip(ahead) {
            has_room &= relocate(context, &mut places, *inode, found, copy_room);
        }
    }
    for place in places.iter() {
        give_back(context, place);
        context.claims.settle(place.unit, place.used);
        context.claims.resolve(place.unit);
    }
    has_room
}

/// Inspects inodes that may have to move, side by side. None of them reads what the others write when they do: each has its own nodes, and
/// none those that are contested. What is large is left to its turn.
fn look_ahead(context: &RepairContext<'_>, inodes: &[InodeNo]) -> Vec<Option<Inspection>> {
    let inspect = |fs: &Fs<'_>, inode: &InodeNo| {
        let record = fs.read_inode(*inode)?.ok()?;
        let found = inode::inspect(fs, *inode, &record, &mut Findings::new());
        (found.runs.len() + found.map_blocks.len() <= RUNS_MAX).then_some(found)
    };
    context.side_by_side(&MOVES, inodes, |inode| *inode, inspect)
}

/// Puts back what a unit held, where a directory or a map that had a part in it may have changed that.
fn give_back(context: &RepairContext<'_>, place: &Place) {
    let others = place.has_node || place.directories > u32::from(place.keeper_is_directory);
    if !others || !matches!(place.keeper, Keeper::Data(_) | Keeper::Attributes(_) | Keeper::Translator(_)) {
        return;
    }
    let unit = u64::from(context.fs.geometry.cluster_blocks);
    for block in (place.unit * unit..(place.unit + 1) * unit).map(BlockNo) {
        let mut before = vec![0; context.fs.geometry.block_size as usize];
        let was_readable = context.overlay.read_before(context.fs.block_offset(block), &mut before).is_ok();
        if was_readable && context.read_block(block).is_ok_and(|now| now != before) {
            context.write_block(block, &before);
        }
    }
}

/// Leads inodes to the new places of their attribute blocks.
fn redirect_attributes(context: &RepairContext<'_>, moved: &BTreeMap<u64, u64>) {
    if moved.is_empty() {
        return;
    }
    let wide = context.fs.geometry.features.has_incompat(Incompat::BIT64) && !context.fs.geometry.hurd;
    for chunk in 0..context.inodes.chunk_count() {
        let mut used = Vec::new();
        context.inodes.visit_chunk(chunk, |inode, fact, _, _| {
            used.extend((fact.kind() != Kind::Unused).then_some(inode));
        });
        for inode in used {
            let Some(found) = context.inspect_inode(inode) else { continue };
            let Some(to) = attribute_block(context, &found).and_then(|block| moved.get(&block)) else {
                continue;
            };
            context.amend_inode(inode, |raw| {
                raw.i_file_acl_lo.set(width::low_u32(*to));
                if wide {
                    raw.i_file_acl_high.set(width::low_u16(*to >> 32));
                }
            });
        }
    }
}

/// The ordinary files that share blocks with other owners: what the user may want deleted or moved.
fn unwanted(context: &RepairContext<'_>, contest: &Contest) -> BTreeSet<InodeNo> {
    let mut found = BTreeSet::new();
    if matches!(context.policy.duplicates, Duplicates::Clone | Duplicates::Zero) {
        return found;
    }
    contest.visit_owners(&context.fs, &context.claims, |_, owners| {
        owners.dedup();
        if owners.len() > 1 {
            found.extend(owners.iter().filter_map(|owner| match owner {
                Owner::Inode(inode) => Some(*inode),
                Owner::Metadata => None,
            }));
        }
    });
    found.retain(|inode| {
        context.inodes.fact(*inode).is_some_and(|fact| {
            let is_file = fact.kind() != Kind::Unused && fact.kind() != Kind::Directory;
            is_file && !fact.has(mark::RESERVED) && !fact.has(mark::EA_INODE)
        })
    });
    found
}

/// Deletes files, and takes them out of `contest`.
fn delete(context: &mut RepairContext<'_>, files: &BTreeSet<InodeNo>, contest: &mut Contest) {
    names::strip(context, files);
    for inode in files {
        if let Some(mut map) = context.open_map(*inode) {
            context.remove_blocks(&mut map, 0, u64::MAX);
            for node in map.nodes {
                let unit = context.fs.geometry.cluster_of(node);
                if !context.claims.contested().get(unit) {
                    context.claims.settle(unit, false);
                }
            }
        }
        let size = context.fs.geometry.inode_size as usize;
        context.write_inode(*inode, &mut vec![0; size]);
        context.inodes.revise(*inode, InodeFact::default(), 0);
    }
    contest.shares.retain(|share| match &share.owner {
        Owner::Inode(inode) => !files.contains(inode),
        Owner::Metadata => true,
    });
}
