// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast path for an indexed directory: the index from the root down, then every leaf against its range of hashes.

use fsmend_base::InodeNo;
use fsmend_device::BatchReader;
use fsmend_engine::scan::certification::DirectorySummary;
use fsmend_ext_format::checksum;
use fsmend_ext_format::directory::EntryLayout;
use fsmend_ext_format::dirhash::{self, LANES, NameAt};
use fsmend_ext_format::htree::{self, IndexBlock, NODE_COUNT_OFFSET, ROOT_INFO_LEN, RootInfo, hash_version};

use crate::Fs;
use crate::fast::directory::{DirectoryFastPath, LargeDirectorySummary};
use crate::inode::MapRun;
use crate::reading::{Reading, read_blocks};

/// A block of the directory and the hashes that belong into it: from `low`, whose bit 0 is no part of the hash, up to
/// `high`, or without an end.
#[derive(Clone, Copy, Debug)]
struct Child {
    logical: u64,
    low: u32,
    high: Option<u32>,
}

/// One directory on the fast path.
pub struct IndexedDirectory<'a, 'f> {
    /// The fast path of single blocks.
    pub fast_path: &'a DirectoryFastPath<'f>,
    /// The file system.
    pub fs: &'a Fs<'a>,
    /// The directory.
    pub inode: InodeNo,
    /// Its generation.
    pub generation: u32,
    /// Its map, in the order of the file, without holes.
    pub runs: &'a [MapRun],
}

impl IndexedDirectory<'_, '_> {
    /// Tries to prove the directory; adds its entries to `summary`.
    pub fn summarize(
        &self,
        reader: &mut BatchReader<'_>,
        summary: &mut DirectorySummary,
    ) -> LargeDirectorySummary {
        let mut result = LargeDirectorySummary::default();
        let mut cost = Reading::default();
        result.clean = self.summarize_all(reader, summary, &mut cost).is_some();
        result.blocks = self.block_count();
        result.requests = cost.requests;
        result.bytes = cost.bytes;
        result
    }

    fn block_count(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.count)).sum()
    }

    fn place(&self, logical: u64) -> Option<u64> {
        let after = self.runs.partition_point(|run| run.logical <= logical);
        let run = self.runs.get(after.checked_sub(1)?)?;
        (logical < run.logical + u64::from(run.count)).then(|| run.physical + (logical - run.logical))
    }

    fn summarize_all(
        &self,
        reader: &mut BatchReader<'_>,
        summary: &mut DirectorySummary,
        cost: &mut Reading,
    ) -> Option<()> {
        let count = self.block_count();
        let mut seen = fsmend_base::Bitmap::new(count);
        seen.set(0);
        let mut info = None;
        let root = [Child { logical: 0, low: 0, high: None }];
        let mut level = self.read_level(reader, &root, cost, |block, child, children| {
            info = Some(self.root(block, child, summary, children)?);
            Some(())
        })?;
        let info = info?;
        for _ in 0..info.indirect_levels {
            self.mark(&level, &mut seen)?;
            level = self.read_level(reader, &level, cost, |block, child, children| {
                self.node(block, child, children)
            })?;
        }
        self.mark(&level, &mut seen)?;
        if seen.count() != count {
            return None;
        }
        let version = dirhash::effective_version(info.hash_version, self.fs.superblock.s_flags.get());
        let seed = self.fs.superblock.s_hash_seed.map(|word| word.get());
        self.read_level(reader, &level, cost, |block, child, _| {
            self.leaf(block, child, version, &seed, summary)
        })?;
        Some(())
    }

    /// Each block of the directory has to be referenced exactly once.
    fn mark(&self, children: &[Child], seen: &mut fsmend_base::Bitmap) -> Option<()> {
        children.iter().all(|child| child.logical < seen.len() && !seen.set(child.logical)).then_some(())
    }

    /// Reads blocks in disk order, hands each to `visit`, and returns the children that it found, by logical block.
    fn read_level(
        &self,
        reader: &mut BatchReader<'_>,
        level: &[Child],
        cost: &mut Reading,
        mut visit: impl FnMut(&[u8], Child, &mut Vec<Child>) -> Option<()>,
    ) -> Option<Vec<Child>> {
        let places: Option<Vec<(u64, Child)>> =
            level.iter().map(|child| Some((self.place(child.logical)?, *child))).collect();
        let mut places = places?;
        places.sort_unstable_by_key(|(place, _)| *place);
        let blocks: Vec<u64> = places.iter().map(|(place, _)| *place).collect();
        let (mut children, mut sound) = (Vec::new(), true);
        let reading = read_blocks(reader, self.fs, &blocks, &mut |index, result| {
            sound = sound && result.is_ok_and(|block| visit(block, places[index].1, &mut children).is_some());
        });
        cost.requests += reading.requests;
        cost.bytes += reading.bytes;
        sound.then_some(children)
    }

    fn root(
        &self,
        block: &[u8],
        child: Child,
        summary: &mut DirectorySummary,
        children: &mut Vec<Child>,
    ) -> Option<RootInfo> {
        let info = RootInfo::parse(block)?;
        let dots_end = self.fast_path.summarize_dots(self.inode, block, summary)?;
        let ordinary = dots_end == block.len()
            && info.reserved_zero == 0
            && info.info_length == ROOT_INFO_LEN
            && info.unused_flags == 0
            && info.indirect_levels < htree::levels_max(self.fs.geometry.features)
            && htree::is_known_hash_version(info.hash_version)
            && info.hash_version != hash_version::SIPHASH;
        if !ordinary {
            return None;
        }
        self.index(block, info.count_offset(), child, children)?;
        Some(info)
    }

    fn node(&self, block: &[u8], child: Child, children: &mut Vec<Child>) -> Option<()> {
        let layout = EntryLayout { block_size: self.fs.geometry.block_size, hash_behind_name: false };
        if !htree::looks_like_node(block, layout, htree::tail_len(self.fs.geometry.features)) {
            return None;
        }
        self.index(block, NODE_COUNT_OFFSET, child, children)
    }

    fn index(
        &self,
        block: &[u8],
        count_offset: usize,
        parent: Child,
        children: &mut Vec<Child>,
    ) -> Option<()> {
        let checksums = self.fs.geometry.features.metadata_csum();
        let index = IndexBlock::parse(block, count_offset)?;
        let limit =
            htree::expected_limit(block.len(), count_offset, htree::tail_len(self.fs.geometry.features));
        if index.limit != limit || index.count == 0 || index.count > limit {
            return None;
        }
        let place = self.place(parent.logical)?;
        if !self.fast_path.tail_is_right((self.inode, self.generation), block, (place, parent.logical)) {
            return None;
        }
        if checksums {
            let seed = checksum::inode_seed(self.fs.geometry.checksum_seed, self.inode, self.generation);
            checksum::htree(seed, block, count_offset).filter(|checked| checked.is_right())?;
        }
        let mut last = Child { low: parent.low, high: parent.high, logical: 0 };
        for (at, entry) in index.entries().enumerate() {
            if at > 0 {
                // A range that continues the hash of the one before may hold equal names in both: rare, inspected.
                let continued = entry.hash & 1 == 1;
                if continued || entry.hash <= last.low || parent.high.is_some_and(|high| entry.hash >= high) {
                    return None;
                }
                children.push(Child { high: Some(entry.hash), ..last });
                last.low = entry.hash;
            }
            last.logical = u64::from(entry.block);
        }
        children.push(last);
        Some(())
    }

    fn leaf(
        &self,
        block: &[u8],
        child: Child,
        version: u8,
        seed: &[u32; 4],
        summary: &mut DirectorySummary,
    ) -> Option<()> {
        summary.forget_names();
        let place = self.place(child.logical)?;
        self.fast_path.summarize_block(
            (self.inode, self.generation),
            block,
            (place, child.logical),
            false,
            summary,
        )?;
        if !summary.names_are_unique() {
            return None;
        }
        let mut range = HashRange { version, seed, child, names: [NameAt::default(); LANES], waiting: 0 };
        let mut in_range = true;
        self.fast_path.visit_names(block, |name| in_range = in_range && range.take(name));
        (in_range && range.finish()).then_some(())
    }
}

/// Names whose hashes are to lie in the range of a leaf; they wait until there are enough to be hashed side by side.
struct HashRange<'n> {
    version: u8,
    seed: &'n [u32; 4],
    child: Child,
    names: [NameAt<'n>; LANES],
    waiting: usize,
}

impl<'n> HashRange<'n> {
    /// Takes a name in; false if one of those that it made complete does not belong here.
    #[inline]
    fn take(&mut self, name: NameAt<'n>) -> bool {
        self.names[self.waiting] = name;
        self.waiting += 1;
        self.waiting < LANES || self.finish()
    }

    /// Whether the names that wait belong here.
    fn finish(&mut self) -> bool {
        let waiting = std::mem::take(&mut self.waiting);
        let Some(majors) = dirhash::majors(self.version, self.seed, &self.names) else { return waiting == 0 };
        let Child { low, high, .. } = self.child;
        majors[..waiting].iter().all(|major| *major >= low && high.is_none_or(|high| *major < high))
    }
}
