//! Bitmaps and counts against what the inodes own: what e2fsck calls pass 5.

pub mod problems;
pub(crate) mod repair;

use std::sync::atomic::AtomicBool;

use fsmend_base::{BlockNo, GroupNo, InodeNo};
use fsmend_engine::claims::Claims;
use fsmend_engine::inodes::InodeTable;
use fsmend_engine::pool::{self, PoolConfig, Stage};
use fsmend_engine::{Findings, Problem, Row, Value};
use fsmend_ext_format::checksum;
use fsmend_ext_format::group::{BG_BLOCK_UNINIT, BG_INODE_UNINIT};
use fsmend_ext_format::superblock::RawSuperblock;

use crate::Fs;

/// Groups that one worker takes at a time.
const GROUPS_PER_SLICE: usize = 16;
/// The work of all that goes group by group.
const BITMAPS: [Stage; 1] = [Stage { name: "bitmaps", pass: 0 }];

/// What is free and used, all groups together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Free allocation units (clusters with bigalloc, else blocks).
    pub free_units: u64,
    /// The same as the groups store it.
    pub stored_free_units: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// The same as the groups store it.
    pub stored_free_inodes: u64,
    /// Directories.
    pub directories: u64,
}

/// The superblock's own totals as the disk has them. (Releasing orphans adds to them what becomes free, which makes no sense
/// of nonsense.)
#[derive(Clone, Copy, Debug)]
pub struct StoredTotals {
    /// Free blocks.
    pub free_blocks: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// Whether a backup says so, which stands in for the primary superblock.
    pub is_backup: bool,
}

impl StoredTotals {
    /// What `superblock`, a primary one, says.
    pub fn of(superblock: &RawSuperblock) -> Self {
        StoredTotals {
            free_blocks: superblock.free_blocks_count(),
            free_inodes: u64::from(superblock.s_free_inodes_count.get()),
            is_backup: false,
        }
    }
}

/// Compares bitmaps and counts of all groups.
pub fn check(
    fs: &Fs<'_>,
    inodes: &InodeTable,
    claims: &Claims,
    pool: PoolConfig<'_>,
    cancel: &AtomicBool,
    findings: &mut Findings,
) -> Totals {
    let groups: Vec<u32> = (0..fs.geometry.group_count).collect();
    let room = findings.room();
    let states = pool::run_slices(
        pool,
        &BITMAPS,
        &groups,
        GROUPS_PER_SLICE,
        cancel,
        |_| (Findings::with_room(room), Totals::default()),
        |(findings, totals), part| {
            for group in part {
                let comparison = Comparison { fs, inodes, claims, group: GroupNo(*group) };
                comparison.blocks(findings, totals);
                comparison.inodes(findings, totals);
            }
        },
    );
    let mut totals = Totals::default();
    for (found, part) in states {
        findings.merge(found);
        totals.free_units += part.free_units;
        totals.stored_free_units += part.stored_free_units;
        totals.free_inodes += part.free_inodes;
        totals.stored_free_inodes += part.stored_free_inodes;
        totals.directories += part.directories;
    }
    totals
}

/// The totals are compared through the groups' counts: kernels let the superblock's own lag behind, which is no damage unless a backup
/// stands in. What is wrong is shown as it is `on_disk`.
pub fn check_totals(fs: &Fs<'_>, totals: &Totals, on_disk: StoredTotals, findings: &mut Findings) {
    let unit = u64::from(fs.geometry.cluster_blocks);
    let stored = StoredTotals::of(&fs.superblock);
    if totals.stored_free_units != totals.free_units {
        let problem = Problem::new(&problems::FREE_BLOCKS).stored(totals.stored_free_units * unit);
        findings.raise(problem.observed(totals.free_units * unit));
    } else if stored.free_blocks != totals.free_units * unit {
        let row = if on_disk.is_backup { &problems::FREE_BLOCKS } else { &problems::TOTALS_STALE };
        let problem = Problem::new(row).detail("what", "blocks");
        findings.raise(problem.stored(on_disk.free_blocks).observed(totals.free_units * unit));
    }
    if totals.stored_free_inodes != totals.free_inodes {
        let problem = Problem::new(&problems::FREE_INODES).stored(totals.stored_free_inodes);
        findings.raise(problem.observed(totals.free_inodes));
    } else if stored.free_inodes != totals.free_inodes {
        let row = if on_disk.is_backup { &problems::FREE_INODES } else { &problems::TOTALS_STALE };
        let problem = Problem::new(row).detail("what", "inodes");
        findings.raise(problem.stored(on_disk.free_inodes).observed(totals.free_inodes));
    }
}

/// One group: what its bitmaps and counts say beside what is owned.
struct Comparison<'a> {
    fs: &'a Fs<'a>,
    inodes: &'a InodeTable,
    claims: &'a Claims,
    group: GroupNo,
}

impl Comparison<'_> {
    fn blocks(&self, findings: &mut Findings, totals: &mut Totals) {
        let geometry = &self.fs.geometry;
        let desc = &self.fs.groups[self.group.0 as usize].desc;
        let used = self.used_units();
        let units = used.bits;
        let free = (units - used.count()).saturating_sub(self.owed_units());
        totals.free_units += free;
        totals.stored_free_units += u64::from(desc.free_blocks);
        if free != u64::from(desc.free_blocks) {
            let problem = Problem::new(&problems::GROUP_FREE_BLOCKS).group(self.group);
            findings.raise(problem.stored(desc.free_blocks).observed(free));
        }
        if geometry.features.group_csum() && desc.has_flag(BG_BLOCK_UNINIT) {
            let own = self.metadata_units();
            let extra = used.count().saturating_sub(own.count());
            if extra > 0 {
                findings
                    .raise(Problem::new(&problems::BLOCK_UNINIT_IN_USE).group(self.group).observed(extra));
                // The bitmap that such a flag stands for has only the metadata set.
                self.compare(&own, &used, &BLOCK_ROWS, findings);
            }
            return;
        }
        let Some(stored) = self.read_bitmap(desc.block_bitmap, findings) else {
            if desc.block_bitmap == 0 {
                self.compare(&Words::new(units), &used, &BLOCK_ROWS, findings);
            }
            return;
        };
        let bits = geometry.blocks_per_group / geometry.cluster_blocks;
        if geometry.features.metadata_csum() {
            let right = checksum::bitmap(geometry.checksum_seed, &stored, bits, geometry.wide_descriptors());
            self.check_checksum(&problems::BLOCK_BITMAP_CHECKSUM, desc.block_bitmap_csum, right, findings);
        }
        let on_disk = Words::from_bytes(&stored, units);
        self.compare(&on_disk, &used, &BLOCK_ROWS, findings);
        if !padding_is_set(&stored, units) {
            findings.raise(Problem::new(&problems::BLOCK_BITMAP_PADDING).group(self.group));
        }
    }

    /// The units of the group that are in use.
    fn used_units(&self) -> Words {
        self.units(|unit| self.claims.claimed().load_word_at(unit))
    }

    /// The units of the group that hold static metadata.
    fn metadata_units(&self) -> Words {
        self.units(|unit| self.metadata_word(unit))
    }

    fn units(&self, source: impl Fn(u64) -> u64) -> Words {
        let geometry = &self.fs.geometry;
        let blocks = geometry.group_blocks(self.group);
        let mut units = Words::new(blocks.count.div_ceil(u64::from(geometry.cluster_blocks)));
        let first = geometry.cluster_of(blocks.start.0);
        units.fill(|at| source(first + at));
        units
    }

    /// The inodes of the group that are in use, and the number of directories among them.
    fn used_inodes(&self) -> (Words, u64) {
        let geometry = &self.fs.geometry;
        let first = geometry.inode_at(self.group, 0).0;
        let (mut used, mut directories) = (Words::new(u64::from(geometry.inodes_per_group)), 0u64);
        for reserved in first..geometry.first_inode.min(first.saturating_add(geometry.inodes_per_group)) {
            used.set(u64::from(reserved - first));
        }
        for (word, (of_chunk, are_directories)) in
            used.words.iter_mut().zip(self.inodes.used_in_chunk(self.group.0))
        {
            *word |= of_chunk;
            directories += u64::from(are_directories.count_ones());
        }
        (used, directories)
    }

    /// What a repair will take in the group for bitmaps and an inode table whose places are lost.
    fn owed_units(&self) -> u64 {
        let desc = &self.fs.groups[self.group.0 as usize].desc;
        let table = u64::from(self.fs.geometry.inode_table_blocks());
        let pieces = [(desc.block_bitmap, 1), (desc.inode_bitmap, 1), (desc.inode_table, table)];
        let blocks: u64 = pieces.iter().filter(|(place, _)| *place == 0).map(|(_, count)| count).sum();
        blocks.div_ceil(u64::from(self.fs.geometry.cluster_blocks))
    }

    /// 64 units' worth of static metadata from `unit` on.
    fn metadata_word(&self, unit: u64) -> u64 {
        let per_unit = u64::from(self.fs.geometry.cluster_blocks);
        if per_unit == 1 {
            return self.fs.metadata.load_word_at(unit);
        }
        (0..64)
            .filter(|at| self.fs.metadata.any((unit + at) * per_unit, per_unit))
            .fold(0, |word, at| word | 1 << at)
    }

    fn inodes(&self, findings: &mut Findings, totals: &mut Totals) {
        let geometry = &self.fs.geometry;
        let desc = &self.fs.groups[self.group.0 as usize].desc;
        let count = u64::from(geometry.inodes_per_group);
        let (used, directories) = self.used_inodes();
        let free = count - used.count();
        totals.free_inodes += free;
        totals.stored_free_inodes += u64::from(desc.free_inodes);
        totals.directories += directories;
        let mut compare = |row, stored: u32, observed: u64| {
            if u64::from(stored) != observed {
                findings.raise(Problem::new(row).group(self.group).stored(stored).observed(observed));
            }
        };
        compare(&problems::GROUP_FREE_INODES, desc.free_inodes, free);
        compare(&problems::GROUP_DIRECTORIES, desc.used_dirs, directories);
        if geometry.features.group_csum() && desc.has_flag(BG_INODE_UNINIT) {
            if used.count() > 0 {
                let problem = Problem::new(&problems::INODE_UNINIT_IN_USE).group(self.group);
                findings.raise(problem.observed(used.count()));
                self.compare(&Words::new(count), &used, &INODE_ROWS, findings);
            }
            return;
        }
        let Some(stored) = self.read_bitmap(desc.inode_bitmap, findings) else {
            if desc.inode_bitmap == 0 {
                self.compare(&Words::new(count), &used, &INODE_ROWS, findings);
            }
            return;
        };
        if geometry.features.metadata_csum() {
            let right = checksum::bitmap(
                geometry.checksum_seed,
                &stored,
                geometry.inodes_per_group,
                geometry.wide_descriptors(),
            );
            self.check_checksum(&problems::INODE_BITMAP_CHECKSUM, desc.inode_bitmap_csum, right, findings);
        }
        self.compare(&Words::from_bytes(&stored, count), &used, &INODE_ROWS, findings);
        if !padding_is_set(&stored, count) {
            findings.raise(Problem::new(&problems::INODE_BITMAP_PADDING).group(self.group));
        }
    }

    /// The bitmap in `block`; `None` (and a problem) when it cannot be read, `None` alone when its place is lost.
    fn read_bitmap(&self, block: u64, findings: &mut Findings) -> Option<Vec<u8>> {
        if block == 0 {
            return None;
        }
        match self.fs.read_block(BlockNo(block)) {
            Ok(bytes) => Some(bytes),
            Err(_) => {
                let problem = Problem::new(&problems::BITMAP_UNREADABLE).group(self.group);
                findings.raise(problem.block(BlockNo(block)));
                None
            }
        }
    }

    fn check_checksum(&self, row: &'static Row, stored: u32, right: u32, findings: &mut Findings) {
        if stored != right {
            let problem = Problem::new(row).group(self.group).stored(Value::Hex(stored.into()));
            findings.raise(problem.observed(Value::Hex(right.into())));
        }
    }

    fn compare(&self, stored: &Words, owned: &Words, rows: &DifferenceRows, findings: &mut Findings) {
        for (only_stored, row) in [(true, rows.marked_but_free), (false, rows.used_but_free)] {
            let (left, right) = if only_stored { (stored, owned) } else { (owned, stored) };
            left.runs_without(right, |first, count| {
                findings.raise(self.difference(row, rows.inodes, first, count))
            });
        }
    }

    fn difference(&self, row: &'static Row, inodes: bool, first: u64, count: u64) -> Problem {
        let problem = Problem::new(row).group(self.group);
        if inodes {
            let first = self.fs.geometry.inode_at(self.group, first as u32);
            let last = InodeNo(first.0 + count as u32 - 1);
            let range =
                if first == last { format!("inode {first}") } else { format!("inodes {first} to {last}") };
            return problem.detail("first", first.0).detail("last", last.0).detail("inodes", range);
        }
        let geometry = &self.fs.geometry;
        let unit = u64::from(geometry.cluster_blocks);
        let start = geometry.cluster_of(geometry.group_blocks(self.group).start.0) + first;
        problem.blocks(BlockNo(start * unit), count * unit)
    }
}

struct DifferenceRows {
    marked_but_free: &'static Row,
    used_but_free: &'static Row,
    inodes: bool,
}

static BLOCK_ROWS: DifferenceRows = DifferenceRows {
    marked_but_free: &problems::BLOCKS_MARKED_BUT_FREE,
    used_but_free: &problems::BLOCKS_USED_BUT_FREE,
    inodes: false,
};
static INODE_ROWS: DifferenceRows = DifferenceRows {
    marked_but_free: &problems::INODES_MARKED_BUT_FREE,
    used_but_free: &problems::INODES_USED_BUT_FREE,
    inodes: true,
};

/// The bits of one group.
struct Words {
    words: Vec<u64>,
    bits: u64,
}

impl Words {
    fn new(bits: u64) -> Self {
        Words { words: vec![0; bits.div_ceil(64) as usize], bits }
    }

    /// Takes `bits` bits from bytes; bits that the bytes lack are clear.
    fn from_bytes(bytes: &[u8], bits: u64) -> Self {
        let mut words = Words::new(bits);
        for (word, chunk) in words.words.iter_mut().zip(bytes.chunks(8)) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_le_bytes(eight);
        }
        words.cut();
        words
    }

    /// Fills each word with what `source` says for its first bit.
    fn fill(&mut self, source: impl Fn(u64) -> u64) {
        for (index, word) in self.words.iter_mut().enumerate() {
            *word = source(index as u64 * 64);
        }
        self.cut();
    }

    fn cut(&mut self) {
        let rest = self.bits % 64;
        if rest != 0
            && let Some(last) = self.words.last_mut()
        {
            *last &= (1 << rest) - 1;
        }
    }

    fn set(&mut self, bit: u64) {
        if bit < self.bits {
            self.words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Calls `visit(first, count)` for each run of bits that are set here and clear in `other`.
    fn runs_without(&self, other: &Words, mut visit: impl FnMut(u64, u64)) {
        let mut run: Option<(u64, u64)> = None;
        for (index, (mine, theirs)) in self.words.iter().zip(&other.words).enumerate() {
            let mut left = mine & !theirs;
            while left != 0 {
                let low = u64::from(left.trailing_zeros());
                let len = u64::from((left >> low).trailing_ones());
                let start = index as u64 * 64 + low;
                run = match run {
                    Some((first, count)) if first + count == start => Some((first, count + len)),
                    other => {
                        if let Some((first, count)) = other {
                            visit(first, count);
                        }
                        Some((start, len))
                    }
                };
                left = if low + len >= 64 { 0 } else { left & (u64::MAX << (low + len)) };
            }
        }
        if let Some((first, count)) = run {
            visit(first, count);
        }
    }
}

/// Whether all bits of a bitmap block behind the first `bits` are set.
fn padding_is_set(bytes: &[u8], bits: u64) -> bool {
    let whole = bits.div_ceil(8) as usize;
    let partial = bits.is_multiple_of(8)
        || bytes.get(whole - 1).is_none_or(|byte| byte >> (bits % 8) == 0xFF >> (bits % 8));
    partial && bytes.get(whole..).is_none_or(|rest| rest.iter().all(|byte| *byte == 0xFF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_across_words() {
        let mut left = Words::new(200);
        (10..130).for_each(|bit| left.set(bit));
        left.set(199);
        let mut right = Words::new(200);
        right.set(20);
        let mut runs = Vec::new();
        left.runs_without(&right, |first, count| runs.push((first, count)));
        assert_eq!(runs, [(10, 10), (21, 109), (199, 1)]);
    }

    #[test]
    fn padding() {
        assert!(padding_is_set(&[0, 0xF0, 0xFF], 12));
        assert!(!padding_is_set(&[0, 0x70, 0xFF], 12));
        assert!(!padding_is_set(&[0, 0xF0, 0xFE], 12));
        assert!(padding_is_set(&[0, 0], 16));
        assert!(!padding_is_set(&[0, 0, 0], 16));
    }
}
