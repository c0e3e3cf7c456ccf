// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which owner keeps a contested block (docs/decisions, "Which owner keeps a contested block").
//!
//! The file system's own structures never move, then the list of bad blocks, the reserved descriptors, the journal and other
//! system files, in this order; an attribute block stays because its contents prove it to be one. A translator of the Hurd, which is one
//! block, gives way to the data of files. Among files the one keeps a
//! unit whose run of blocks reaches furthest beyond what is contested: a map that was damaged leads somewhere with all it has,
//! while the right one goes on where the contested part begins and ends. Before that, a claim that size and space in use of its own file speak
//! against ([`borne_out`](super::borne_out)) gives way to one that they do not. Then the file that was written last, for its
//! contents are what lies there; then the one with the lower number. Nodes of maps are never kept: they are rewritten, so that no
//! two maps are changed at the same place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use fsmend_base::InodeNo;
use fsmend_engine::inodes::{Kind, mark};
use fsmend_engine::pool::{self, Stage};
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::inode::special;

use super::{Contest, Owner, Share, borne_out};
use crate::inode::Inspection;
use crate::repair::RepairContext;

/// Inodes that one worker weighs at a time.
const INODES_PER_SLICE: usize = 256;
/// Inodes that are weighed first, when it is not known how many claims they have.
const INODES_AT_FIRST: usize = 4;
/// The part of what memory has left that their claims may take while they wait to be entered: one in so many.
const CLAIMS_SHARE: u64 = 8;

/// What stays where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Keeper {
    /// Every claim moves.
    None,
    /// The translator of this inode, on the Hurd.
    Translator(InodeNo),
    /// The data of this inode.
    Data(InodeNo),
    /// This attribute block.
    Attributes(u64),
    /// The data of this system file.
    System(InodeNo),
    /// Static structures, bad blocks, reserved descriptors.
    Fixed,
}

/// How well a claim is founded; the strongest wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Strength {
    class: Class,
    /// Whether nothing in the file itself speaks against it.
    borne_out: bool,
    /// Blocks of the same run that no other owner claims.
    anchored: u64,
    /// Last change of contents.
    modified: u32,
    inode: Reverse<InodeNo>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Node,
    Translator,
    Data,
    Attributes,
    System,
    Fixed,
}

/// The attribute block that an inode keeps.
pub(super) fn attribute_block(context: &RepairContext<'_>, found: &Inspection) -> Option<u64> {
    let geometry = &context.fs.geometry;
    let wide = geometry.features.has_incompat(Incompat::BIT64) && !geometry.hurd;
    Some(found.raw().file_acl(wide)).filter(|block| *block != 0 && found.xattr_block == Some(*block))
}

/// A contested unit.
#[derive(Debug)]
pub(super) struct Place {
    /// The unit.
    pub unit: u64,
    /// Who keeps it.
    pub keeper: Keeper,
    /// How many directories claim it.
    pub directories: u32,
    /// Whether a node of a map lies there.
    pub has_node: bool,
    /// Whether the keeper is a directory.
    pub keeper_is_directory: bool,
    /// Whether the keeper's run of blocks reaches beyond what is contested.
    pub is_anchored: bool,
    /// Whether the claim of the keeper is one that nothing in the file itself speaks against.
    pub borne_out: bool,
    /// Whether the unit is still in use when all is done.
    pub used: bool,
}

/// What one inode claims of contested units.
struct Weighed {
    inode: InodeNo,
    kind: Kind,
    claims: Vec<Claim>,
}

/// A claim on the contested ones among some units.
struct Claim {
    /// The first and the last of them.
    units: (u64, u64),
    strength: Strength,
    keeper: Keeper,
    is_directory: bool,
}

/// Makes one of claims of one inode that follow each other and differ in nothing else: a file in pieces may have as many as blocks.
fn join(claims: &mut Vec<Claim>) {
    claims.sort_by_key(|claim| claim.units);
    claims.dedup_by(|next, claim| {
        let is_next = claim.units.1 + 1 == next.units.0
            && (claim.strength, claim.keeper) == (next.strength, next.keeper)
            && claim.is_directory == next.is_directory;
        if is_next {
            claim.units.1 = next.units.1;
        }
        is_next
    });
    claims.shrink_to_fit();
}

/// What is contested within one window, and who has a part in it.
#[derive(Default)]
pub(super) struct Places {
    list: Vec<Place>,
    /// The units that were looked at.
    window: Range<u64>,
    /// The inodes with claims on these units, directories first.
    pub inodes: Vec<InodeNo>,
}

impl Places {
    /// How many of the units from `first` to `last` were looked at.
    pub fn looked_at(&self, first: u64, last: u64) -> u64 {
        self.window.end.min(last.saturating_add(1)).saturating_sub(self.window.start.max(first))
    }

    /// Decides about all units of `contest` that have more than one claim. The others are settled at once.
    pub fn decide(context: &RepairContext<'_>, contest: &Contest) -> Places {
        let mut units = Vec::new();
        let mut inodes = BTreeMap::new();
        let mut last = Vec::new();
        contest.visit_owners(&context.fs, &context.claims, |unit, owners| {
            if owners.len() < 2 {
                context.claims.settle(unit, owners.len() == 1);
                context.claims.resolve(unit);
                return;
            }
            units.push((unit, owners.contains(&Owner::Metadata)));
            if *owners == last {
                // As usual: the next unit of the same run.
                return;
            }
            last.clone_from(owners);
            let numbers = owners.iter().filter_map(|owner| match owner {
                Owner::Inode(inode) => Some(*inode),
                Owner::Metadata => None,
            });
            inodes.extend(numbers.map(|inode| (inode, Kind::Unused)));
        });
        let place = |(unit, fixed): (u64, bool)| Place {
            unit,
            keeper: if fixed { Keeper::Fixed } else { Keeper::None },
            directories: 0,
            has_node: false,
            keeper_is_directory: false,
            is_anchored: false,
            borne_out: fixed,
            used: fixed,
        };
        let list = units.into_iter().map(place).collect();
        let mut places = Places { list, window: contest.start..contest.end, inodes: Vec::new() };
        let mut strengths = vec![None; places.list.len()];
        places.weigh_all(context, contest, &mut inodes, &mut strengths);
        let staying = places.settle_staying(context, contest);
        places.inodes = inodes.keys().filter(|inode| !staying.contains(inode)).copied().collect();
        places.inodes.sort_by_key(|inode| (inodes.get(inode) != Some(&Kind::Directory), *inode));
        places
    }

    /// Enters the claims of all of `inodes`, in the order of their numbers, and what kinds they are of. Most of the work is to inspect them, which can be
    /// done side by side: of so many at a time as leave no more claims than memory has room for.
    fn weigh_all(
        &mut self,
        context: &RepairContext<'_>,
        contest: &Contest,
        inodes: &mut BTreeMap<InodeNo, Kind>,
        strengths: &mut [Option<Strength>],
    ) {
        let numbers: Vec<InodeNo> = inodes.keys().copied().collect();
        let claims_max = context.bytes_left() / CLAIMS_SHARE / size_of::<Claim>() as u64;
        let (mut left, mut at_once) = (numbers.as_slice(), INODES_AT_FIRST);
        while !left.is_empty() {
            let (part, rest) = left.split_at(at_once.min(left.len()));
            left = rest;
            let mut claims = 0;
            for weighed in self.weigh_some(context, contest, part) {
                claims += weighed.claims.len() as u64;
                weighed.claims.iter().for_each(|claim| self.enter(claim, strengths));
                inodes.insert(weighed.inode, weighed.kind);
            }
            at_once = match claims > claims_max / 2 {
                true => (at_once / 2).max(1),
                false => (at_once * 2).min(INODES_PER_SLICE * 64),
            };
        }
    }

    fn weigh_some(&self, context: &RepairContext<'_>, contest: &Contest, inodes: &[InodeNo]) -> Vec<Weighed> {
        let per_slice = inodes.len().div_ceil(context.pool.workers.max(1)).clamp(1, INODES_PER_SLICE);
        let parts = pool::run_slices(
            context.pool,
            &[Stage { name: "keepers", pass: 0 }],
            inodes,
            per_slice,
            &AtomicBool::new(false),
            |_| Vec::new(),
            |weighed, part| weighed.extend(part.iter().map(|inode| self.weigh(context, contest, *inode))),
        );
        let mut all: Vec<Weighed> = parts.into_iter().flatten().collect();
        all.sort_unstable_by_key(|weighed| weighed.inode);
        all
    }

    /// The inodes that keep every unit they claim, each for one block of theirs; these units are in use. Most are such: what one map that was damaged
    /// claims belongs to many others, who need not be looked at again.
    fn settle_staying(&mut self, context: &RepairContext<'_>, contest: &Contest) -> BTreeSet<InodeNo> {
        let (mut staying, mut moving) = (BTreeSet::new(), BTreeSet::new());
        if context.fs.geometry.cluster_blocks > 1 {
            // Clusters have to lie right within the file, too.
            return staying;
        }
        // Where the shares of each inode end so far: one that begins before has units that another has, too.
        let mut ends: BTreeMap<InodeNo, u64> = BTreeMap::new();
        for share in &contest.shares {
            let Owner::Inode(inode) = share.owner else { continue };
            let end = ends.entry(inode).or_default();
            let is_double = share.start < *end;
            *end = share.end().max(*end);
            let keeps = |place: &Place| [Keeper::Data(inode), Keeper::System(inode)].contains(&place.keeper);
            let mut within = self.within(share.start, share.end() - 1).peekable();
            if within.peek().is_none() {
                continue;
            }
            let stays = !is_double && within.all(keeps);
            if stays { &mut staying } else { &mut moving }.insert(inode);
        }
        staying.retain(|inode| !moving.contains(inode));
        for place in &mut self.list {
            place.used |= match place.keeper {
                Keeper::Data(inode) | Keeper::System(inode) => staying.contains(&inode),
                _ => false,
            };
        }
        staying
    }

    /// How many claims on these units `shares` are.
    pub fn claims_of(&self, shares: &[Share]) -> u64 {
        let before = |unit| self.list.partition_point(|place| place.unit < unit);
        shares.iter().map(|share| (before(share.end()) - before(share.start)) as u64).sum()
    }

    /// These inodes, those first that have the fewest claims on these units.
    pub fn smallest_first(&self, mut inodes: Vec<InodeNo>, shares: &[Share]) -> Vec<InodeNo> {
        let mut claims: BTreeMap<InodeNo, u64> = BTreeMap::new();
        for share in shares {
            if let Owner::Inode(inode) = share.owner {
                *claims.entry(inode).or_default() += self.claims_of(std::slice::from_ref(share));
            }
        }
        inodes.sort_by_key(|inode| (claims.get(inode).copied().unwrap_or_default(), *inode));
        inodes
    }

    /// The contested unit.
    pub fn get(&self, unit: u64) -> Option<&Place> {
        self.list.binary_search_by_key(&unit, |place| place.unit).ok().map(|index| &self.list[index])
    }

    /// The contested units of `first..=last`.
    pub fn within(&self, first: u64, last: u64) -> impl Iterator<Item = &Place> {
        let from = self.list.partition_point(|place| place.unit < first);
        self.list[from..].iter().take_while(move |place| place.unit <= last)
    }

    /// Notes that `first..=last` are in use.
    pub fn use_up(&mut self, first: u64, last: u64) {
        let from = self.list.partition_point(|place| place.unit < first);
        self.list[from..]
            .iter_mut()
            .take_while(|place| place.unit <= last)
            .for_each(|place| place.used = true);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Place> {
        self.list.iter()
    }

    /// Weighs the claims of one inode, in any order of inodes; what they come to is entered afterwards.
    fn weigh(&self, context: &RepairContext<'_>, contest: &Contest, inode: InodeNo) -> Weighed {
        let mut weighed = Weighed { inode, kind: Kind::Unused, claims: Vec::new() };
        let base = |class, modified| Strength {
            class,
            borne_out: true,
            anchored: 0,
            modified,
            inode: Reverse(inode),
        };
        let claim = |units, strength, keeper| Claim { units, strength, keeper, is_directory: false };
        if matches!(inode.0, special::BAD_BLOCKS | special::RESIZE) {
            let fixed = base(Class::Fixed, u32::from(inode.0 == special::BAD_BLOCKS));
            let shares = contest.shares.iter().filter(|share| share.owner == Owner::Inode(inode));
            let claims = shares.map(|share| claim((share.start, share.end() - 1), fixed, Keeper::Fixed));
            weighed.claims.extend(claims);
            return weighed;
        }
        let Some(found) = context.inspect_inode(inode) else { return weighed };
        weighed.kind = found.kind;
        let is_system = context.inodes.fact(inode).is_some_and(|fact| fact.has(mark::RESERVED));
        let (class, keeper) = match is_system {
            true => (Class::System, Keeper::System(inode)),
            false => (Class::Data, Keeper::Data(inode)),
        };
        let data = base(class, found.raw().i_mtime.get());
        self.weigh_map(context, &found, (data, keeper), &mut weighed.claims);
        if let Some(block) = found.translator {
            let unit = context.fs.geometry.cluster_of(block);
            let strength = base(Class::Translator, data.modified);
            weighed.claims.push(claim((unit, unit), strength, Keeper::Translator(inode)));
        }
        if let Some(block) = attribute_block(context, &found) {
            let unit = context.fs.geometry.cluster_of(block);
            let strength = base(Class::Attributes, 0);
            weighed.claims.push(claim((unit, unit), strength, Keeper::Attributes(block)));
        }
        join(&mut weighed.claims);
        weighed
    }

    fn weigh_map(
        &self,
        context: &RepairContext<'_>,
        found: &Inspection,
        (data, keeper): (Strength, Keeper),
        claims: &mut Vec<Claim>,
    ) {
        let geometry = &context.fs.geometry;
        let is_directory = found.kind == Kind::Directory;
        let mut limit = None;
        for run in &found.runs {
            let first = geometry.cluster_of(run.physical);
            let last = geometry.cluster_of(run.physical + u64::from(run.count) - 1);
            let contested = self.within(first, last).count() as u64;
            if contested == 0 {
                continue;
            }
            let limit = *limit.get_or_insert_with(|| borne_out::limit(context, data.inode.0, found));
            let believed = limit.map_or(u64::MAX, |limit| limit.saturating_sub(run.logical));
            let believed = (believed / u64::from(geometry.cluster_blocks)).min(last - first + 1);
            let strength = Strength { anchored: last - first + 1 - contested, ..data };
            if believed > 0 {
                claims.push(Claim { units: (first, first + believed - 1), strength, keeper, is_directory });
            }
            if first + believed <= last {
                // Not even a system file has a right to that.
                let class = strength.class.min(Class::Data);
                let strength = Strength { class, borne_out: false, ..strength };
                claims.push(Claim { units: (first + believed, last), strength, keeper, is_directory });
            }
        }
        for block in &found.map_blocks {
            let unit = geometry.cluster_of(*block);
            let strength = Strength { class: Class::Node, ..data };
            let (units, keeper) = ((unit, unit), Keeper::None);
            claims.push(Claim { units, strength, keeper, is_directory: false });
        }
    }

    /// Enters a claim.
    fn enter(&mut self, claim: &Claim, strengths: &mut [Option<Strength>]) {
        let Claim { units: (first, last), strength, keeper, is_directory } = *claim;
        let from = self.list.partition_point(|place| place.unit < first);
        let touched = self.list[from..].iter_mut().zip(&mut strengths[from..]);
        for (place, strongest) in touched.take_while(|(place, _)| place.unit <= last) {
            place.directories += u32::from(is_directory);
            place.has_node |= strength.class == Class::Node;
            if place.keeper == Keeper::Fixed && strongest.is_none() || Some(strength) <= *strongest {
                continue;
            }
            *strongest = Some(strength);
            place.keeper = keeper;
            place.keeper_is_directory = is_directory;
            place.is_anchored = strength.anchored > 0;
            place.borne_out = strength.borne_out;
            place.used |= keeper == Keeper::Fixed;
        }
    }
}
