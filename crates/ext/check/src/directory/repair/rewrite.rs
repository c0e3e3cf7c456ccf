//! Directories written anew: sorted into an index where they are long enough for one, else one name behind the other.

use fsmend_base::{BlockNo, InodeNo};
use fsmend_engine::inodes::Kind;
use fsmend_ext_format::inode::flags;

use super::contents::{Contents, NameRef, NewName};
use super::outline::outlined;
use super::{htree, linear};
use crate::Fs;
use crate::directory::Directory;
use crate::directory::nature::Nature;
use crate::inode::MapRun;
use crate::repair::map::{FileMap, Runs};
use crate::repair::{Laid, Mender};

/// A directory of fewer blocks has no use for an index.
const INDEXED_BLOCKS_MIN: usize = 3;
/// A directory of more bytes is worked out when it is its turn to be written.
const SMALL_BYTES: u64 = 64 << 10;

/// Writes directory `inode` anew, with `more` names. Holes and blocks that it no longer needs go, names that stand twice are sorted
/// out. `false`, and nothing is changed, when there is no room for it.
pub(super) fn rewrite(mender: &mut Mender<'_>, inode: InodeNo, more: &[NewName]) -> bool {
    let rewrite = work_out(&mender.fs, inode, more);
    rewrite.is_some_and(|rewrite| rewrite.carry_out(mender, &mut Laid::default()))
}

/// A directory as it may be written anew.
pub(super) struct Rewrite {
    directory: Directory,
    /// Its blocks, and whether they have an index: the best first.
    choices: Vec<(Vec<Vec<u8>>, bool)>,
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
    let nature = Nature::of(fs, &directory);
    let mut contents = Contents::gather(fs, &directory);
    for NewName { inode, file_type, name } in more {
        contents.push(NameRef { inode: inode.0, file_type: *file_type, hash: None, name });
    }
    if contents.has_doubles(&nature) {
        contents.make_unique(&nature);
    }
    let held = directory.runs.iter().map(|run| u64::from(run.count)).sum::<u64>();
    let held = usize::try_from(held).unwrap_or(usize::MAX);
    let flat = linear::blocks(&nature, &contents);
    let mut choices = Vec::new();
    if flat.len() >= INDEXED_BLOCKS_MIN && nature.index_feature {
        let indexed = |spare| htree::blocks(fs, &nature, &contents, spare);
        let (roomy, dense) = (indexed(true), indexed(false));
        let dense_is_better = roomy.as_ref().is_some_and(|blocks| blocks.len() > held)
            && dense.as_ref().is_some_and(|blocks| blocks.len() <= held);
        let (one, other) = if dense_is_better { (dense, roomy) } else { (roomy, dense) };
        choices.extend([one, other].into_iter().flatten().map(|blocks| (blocks, true)));
    }
    choices.push((flat, false));
    Rewrite { directory, choices }
}

impl Rewrite {
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
    pub fn carry_out(self, mender: &mut Mender<'_>, laid: &mut Laid) -> bool {
        let Rewrite { directory, choices } = self;
        choices.into_iter().any(|(blocks, indexed)| put(mender, &directory, blocks, indexed, laid))
    }
}

/// Gives the directory these blocks.
fn put(
    mender: &mut Mender<'_>,
    directory: &Directory,
    blocks: Vec<Vec<u8>>,
    indexed: bool,
    laid: &mut Laid,
) -> bool {
    let Some(mut map) = open(mender, directory) else { return false };
    let count = blocks.len() as u64;
    let mut taken = Vec::new();
    let mut places = Vec::with_capacity(blocks.len());
    for logical in 0..count {
        let place = match map.runs.find(logical) {
            Some(block) => block,
            None => {
                let Some((block, is_new)) = mender.place_for(&map, logical) else {
                    taken.iter().for_each(|block| mender.free_blocks(*block, 1));
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
    raw.clear_flag(flags::INDEX);
    raw.set_flag(if indexed { flags::INDEX } else { 0 });
    raw.set_size(count.saturating_mul(u64::from(mender.fs.geometry.block_size)));
    raw.store(&mut map.record);
    let mut shorter = map.clone();
    shorter.runs.unmap(count, u64::MAX);
    if !mender.store_map(shorter) {
        taken.iter().for_each(|block| mender.free_blocks(*block, 1));
        return false;
    }
    mender.remove_blocks(&mut map, count, u64::MAX);
    for (place, bytes) in places.into_iter().zip(blocks) {
        laid.put(mender, mender.fs.block_offset(place), bytes);
    }
    true
}

/// The map of a directory without its holes, as far as blocks may change their places.
fn open(mender: &Mender<'_>, directory: &Directory) -> Option<FileMap> {
    if directory.inline {
        let record = outlined(&mender.fs, &directory.record);
        return Some(FileMap::new(directory.inode, Kind::Directory, record, Runs::new(Vec::new())));
    }
    let mut map = mender.open_map(directory.inode)?;
    let mut next = 0;
    let is_dense = mender.fs.geometry.cluster_blocks == 1;
    let runs = map.runs.iter().map(|run| {
        let logical = if is_dense { next } else { run.logical };
        next += u64::from(run.count);
        MapRun { logical, unwritten: false, ..*run }
    });
    map.runs = Runs::new(runs.collect());
    Some(map)
}
