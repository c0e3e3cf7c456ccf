// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories rewritten: sorted into an index where they are long enough for one, else one name after the other.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::inodes::Kind;
use fsmend_ext_format::inode::InodeFlags;

use super::contents::{Contents, NameRef, NewName};
use super::htree::{self, Sorted};
use super::linear;
use super::outline::outlined;
use crate::Fs;
use crate::directory::Directory;
use crate::directory::params::DirectoryParams;
use crate::inode::MapRun;
use crate::repair::map::{FileMap, Runs};
use crate::repair::{Laid, RepairContext};

/// A directory of fewer blocks has no use for an index.
const INDEXED_BLOCKS_MIN: usize = 3;
/// A directory of more bytes is worked out when it is its turn to be written.
const SMALL_BYTES: u64 = 64 << 10;

/// Writes directory `inode` anew, with `more` names. Holes and blocks that it no longer needs go, names that stand twice are sorted
/// out. `false`, and nothing is changed, when there is no room for it.
pub(super) fn rewrite(context: &mut RepairContext<'_>, inode: InodeNo, more: &[NewName]) -> bool {
    let rewrite = work_out(&context.fs, inode, more);
    rewrite.is_some_and(|rewrite| rewrite.carry_out(context, &mut Laid::default()))
}

/// A directory as it may be written anew.
pub(super) struct Rewrite {
    directory: Directory,
    params: DirectoryParams,
    contents: Contents,
    /// What an index can be made of.
    sorted: Option<Sorted>,
    /// The best first. All but that are made when there was no room for the one before.
    choices: Vec<Choice>,
}

/// How the names may be laid out.
enum Choice {
    /// As these blocks.
    Made(Vec<Vec<u8>>, Form),
    /// In blocks that have still to be made.
    Unmade(Form),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// With an index, and room in its leaves.
    Roomy,
    /// With an index.
    Dense,
    /// One name behind the other.
    Flat,
}

/// Works out what directory `inode` will hold, if it is small enough to wait until it is its turn to be written.
pub(super) fn work_out_small(fs: &Fs<'_>, inode: InodeNo) -> Option<Rewrite> {
    let directory = Directory::open(fs, inode)?;
    let blocks = directory.runs.iter().map(|run| u64::from(run.count)).sum::<u64>();
    let is_small = blocks.saturating_mul(u64::from(fs.geometry.block_size)) <= SMALL_BYTES;
    is_small.then(|| worked_out(fs, directory, &[]))
}

/// Works out what directory `inode` will hold, with `more` names.
pub(super) fn work_out(fs: &Fs<'_>, inode: InodeNo, more: &[NewName]) -> Option<Rewrite> {
    Some(worked_out(fs, Directory::open(fs, inode)?, more))
}

fn worked_out(fs: &Fs<'_>, directory: Directory, more: &[NewName]) -> Rewrite {
    let params = DirectoryParams::of(fs, &directory);
    let mut contents = Contents::gather(fs, &directory);
    for NewName { inode, file_type, name } in more {
        contents.push(NameRef { inode: inode.0, file_type: *file_type, hash: None, name });
    }
    contents.make_unique(&params, Some(htree::hasher(fs, &params)));
    let is_long = linear::blocks_count(&params, &contents) >= INDEXED_BLOCKS_MIN;
    let sorted = if is_long && params.index_feature { Sorted::of(fs, &params, &contents) } else { None };
    let mut rewrite = Rewrite { directory, params, contents, sorted, choices: Vec::new() };
    rewrite.choices = rewrite.choices();
    rewrite
}

impl Rewrite {
    /// How it may be laid out. With room in the leaves of an index, unless that takes blocks which it can do without.
    fn choices(&self) -> Vec<Choice> {
        let held = self.directory.runs.iter().map(|run| u64::from(run.count)).sum::<u64>();
        let held = usize::try_from(held).unwrap_or(usize::MAX);
        let made = |form| self.blocks(form).map_or(Choice::Unmade(form), |blocks| Choice::Made(blocks, form));
        let flat = Choice::Unmade(Form::Flat);
        if self.sorted.is_none() {
            return vec![made(Form::Flat)];
        }
        let roomy = made(Form::Roomy);
        if !matches!(&roomy, Choice::Made(blocks, _) if blocks.len() > held) {
            return vec![roomy, Choice::Unmade(Form::Dense), flat];
        }
        let dense = made(Form::Dense);
        let is_better = matches!(&dense, Choice::Made(blocks, _) if blocks.len() <= held);
        if is_better { vec![dense, roomy, flat] } else { vec![roomy, dense, flat] }
    }

    /// Its blocks; `None` where they cannot be made.
    fn blocks(&self, form: Form) -> Option<Vec<Vec<u8>>> {
        let Rewrite { params, contents, sorted, .. } = self;
        match form {
            Form::Flat => Some(linear::blocks(params, contents)),
            Form::Roomy | Form::Dense => sorted.as_ref()?.blocks(params, contents, form == Form::Roomy),
        }
    }

    /// Whether the map of the directory leads to no block.
    pub fn has_no_blocks(&self) -> bool {
        !self.directory.inline && self.directory.runs.is_empty()
    }

    /// Whether a block of the directory is among those that were written since.
    pub fn rests_on(&self, fs: &Fs<'_>, laid: &Laid) -> bool {
        let mut blocks = self
            .directory
            .runs
            .iter()
            .flat_map(|run| (0..u64::from(run.count)).map(|within| run.physical.saturating_add(within)));
        blocks.any(|block| laid.has(fs.block_offset(BlockNo(block))))
    }

    /// Writes it. `false`, and nothing is changed, when there is no room for it.
    pub fn carry_out(mut self, context: &mut RepairContext<'_>, laid: &mut Laid) -> bool {
        std::mem::take(&mut self.choices).into_iter().any(|choice| {
            let (blocks, form) = match choice {
                Choice::Made(blocks, form) => (Some(blocks), form),
                Choice::Unmade(form) => (self.blocks(form), form),
            };
            blocks.is_some_and(|blocks| put(context, &self.directory, blocks, form != Form::Flat, laid))
        })
    }
}

/// Gives the directory these blocks.
fn put(
    context: &mut RepairContext<'_>,
    directory: &Directory,
    blocks: Vec<Vec<u8>>,
    indexed: bool,
    laid: &mut Laid,
) -> bool {
    let Some(mut map) = open(context, directory) else { return false };
    let count = blocks.len() as u64;
    let mut taken = Vec::new();
    let mut places = Vec::with_capacity(blocks.len());
    for logical in 0..count {
        let place = match map.runs.find(logical) {
            Some(block) => block,
            None => {
                let Some((block, is_new)) = context.place_for(&map, logical) else {
                    taken.iter().for_each(|block| context.free_blocks(*block, 1));
                    return false;
                };
                map.runs.map(MapRun { logical, physical: block.0, count: 1, unwritten: false });
                taken.extend(is_new.then_some(block));
                block
            }
        };
        places.push(place);
    }
    let mut raw = map.raw();
    let mut flags = raw.flags();
    flags.set(InodeFlags::INDEX, indexed);
    raw.set_flags(flags);
    raw.set_size(count.saturating_mul(u64::from(context.fs.geometry.block_size)));
    raw.store(&mut map.record);
    let mut shorter = map.clone();
    shorter.runs.unmap(count, u64::MAX);
    if !context.store_map(shorter) {
        taken.iter().for_each(|block| context.free_blocks(*block, 1));
        return false;
    }
    context.remove_blocks(&mut map, count, u64::MAX);
    for (place, bytes) in places.into_iter().zip(blocks) {
        laid.put(context, context.fs.block_offset(place), bytes);
    }
    true
}

/// The map of a directory without its holes, as far as blocks may change their places.
fn open(context: &RepairContext<'_>, directory: &Directory) -> Option<FileMap> {
    if directory.inline {
        let record = outlined(&context.fs, &directory.record);
        return Some(FileMap::new(directory.inode, Kind::Directory, record, Runs::new(Vec::new())));
    }
    let mut map = context.open_map(directory.inode)?;
    let mut next = 0;
    let is_dense = context.fs.geometry.cluster_blocks == 1;
    let runs = map.runs.iter().map(|run| {
        let logical = if is_dense { next } else { run.logical };
        next += u64::from(run.count);
        MapRun { logical, unwritten: false, ..*run }
    });
    map.runs = Runs::new(runs.collect());
    Some(map)
}
