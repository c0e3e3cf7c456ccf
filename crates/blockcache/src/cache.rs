// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks of metadata in memory: what was read, what has been changed since the last commit (the running transaction), what is in the log but not at
//! home yet.
//!
//! A block is an `Arc` of its bytes. The running transaction, the log's list of what has to be written home, and the notes from which a failed
//! operation is undone all keep such an `Arc`; a change makes a copy if the old bytes are still needed. So no change waits for a write, and a
//! version that was committed stays what it was.
//!
//! # Order without a journal
//!
//! A driver that writes in place has to write some blocks before others: the inode before the name that leads to it, the cleared pointer before
//! the bitmap that says its block is free (the rules of soft updates). It calls [`BlockCache::then`] between the steps of an operation:
//!
//! ```text
//! create:  change(bitmap) change(inode block)  then()  change(directory block)
//! unlink:  change(directory block)  then()  change(inode block)  then()  change(bitmap), PendingFrees::add
//! ```
//!
//! [`BlockCache::write_changed`] writes the changes in stages, with a sync of the device between two. A block goes into the lowest stage that lies behind all
//! earlier steps of the operation, and never into a lower one than its older version. Where the older version has a lower stage, it is kept and
//! written at its own, so a block that has to be both before and behind another one is written twice, and there is no circle to be resolved.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use fsmend_base::width;
use fsmend_device::WritableDevice;
use fsmend_vfs::{Errno, Result};

/// The bytes of a block.
pub type Block = Arc<Vec<u8>>;

/// Most bytes of one write to the device when blocks lie side by side.
const WRITE_BYTES_MAX: usize = 1 << 20;

struct Cached {
    bytes: Block,
    /// When it was last asked for, in operations.
    used: u64,
    /// Whether its checksum has been compared, or we wrote it ourselves.
    checked: bool,
}

/// What a block was before the operation changed it.
struct Before {
    block: u64,
    bytes: Option<Block>,
    /// The stage of the change that was waiting already.
    stage: Option<u32>,
}

/// What an operation has to take back if it fails.
#[derive(Default)]
struct Notes {
    blocks: Vec<Before>,
    noted: HashSet<u64>,
    forgotten: usize,
    /// Versions that the operation has added to the earlier ones.
    kept: Vec<(u64, u32)>,
    /// The lowest stage for what is changed now.
    floor: u32,
    /// The stage behind everything that the operation has written or changed in this step.
    next_floor: u32,
}

/// All metadata that is in memory, and the device behind it.
pub struct BlockCache {
    device: Arc<dyn WritableDevice>,
    block_size: usize,
    blocks_count: u64,
    cached: HashMap<u64, Cached>,
    /// What the running transaction has changed: the stage of the newest version.
    changed: BTreeMap<u64, u32>,
    /// Older versions that are written before the newest one, by block and stage.
    earlier: BTreeMap<(u64, u32), Block>,
    /// Metadata blocks that the running transaction has freed, in order.
    forgotten: Vec<u64>,
    /// Committed, but not at home yet.
    waiting: BTreeMap<u64, Block>,
    /// Blocks as a journal would leave them, for file systems that may not be written.
    replayed: HashMap<u64, Block>,
    notes: Option<Notes>,
    clock: u64,
    cached_max: usize,
    data_written: bool,
    trouble: Option<String>,
}

impl BlockCache {
    /// Nothing in memory yet. About `cached_bytes_max` bytes of unchanged blocks are kept.
    pub fn new(
        device: Arc<dyn WritableDevice>,
        block_size: u32,
        blocks_count: u64,
        cached_bytes_max: usize,
    ) -> Self {
        BlockCache {
            device,
            block_size: block_size as usize,
            blocks_count,
            cached: HashMap::new(),
            changed: BTreeMap::new(),
            earlier: BTreeMap::new(),
            forgotten: Vec::new(),
            waiting: BTreeMap::new(),
            replayed: HashMap::new(),
            notes: None,
            clock: 0,
            cached_max: (cached_bytes_max / block_size as usize).max(64),
            data_written: false,
            trouble: None,
        }
    }

    /// The first thing that went wrong: a device error, or what [`BlockCache::corrupt`] was given.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Notes what is wrong, if it is the first thing to be.
    pub fn corrupt(&mut self, what: impl FnOnce() -> String) -> Errno {
        self.trouble.get_or_insert_with(what);
        Errno::Corrupt
    }

    fn failed(&mut self, what: impl std::fmt::Display) -> Errno {
        self.trouble.get_or_insert_with(|| what.to_string());
        Errno::Io
    }

    fn place(&mut self, block: u64) -> Result<u64> {
        if block >= self.blocks_count {
            return Err(self.corrupt(|| format!("block {block} is beyond the end")));
        }
        Ok(block * self.block_size as u64)
    }

    fn load(&mut self, block: u64) -> Result<&mut Cached> {
        self.clock += 1;
        if !self.cached.contains_key(&block) {
            let bytes = self.read_block(block)?;
            self.cached.insert(block, Cached { bytes, used: 0, checked: false });
        }
        let used = self.clock;
        let cached = self.cached.get_mut(&block).ok_or(Errno::Io)?;
        cached.used = used;
        Ok(cached)
    }

    fn read_block(&mut self, block: u64) -> Result<Block> {
        let latest = self.waiting.get(&block).or_else(|| self.replayed.get(&block));
        if let Some(bytes) = latest {
            return Ok(Arc::clone(bytes));
        }
        let mut bytes = vec![0; self.block_size];
        let place = self.place(block)?;
        self.device.clone().read_at(place, &mut bytes).map_err(|error| self.failed(error))?;
        Ok(Arc::new(bytes))
    }

    /// Whether a block is in memory.
    pub fn holds(&self, block: u64) -> bool {
        self.cached.contains_key(&block)
            || self.waiting.contains_key(&block)
            || self.replayed.contains_key(&block)
    }

    /// Reads `count` blocks from `start` on in one go, and keeps those that are not in memory yet. If that fails nothing is kept, and each block is
    /// read when it is asked for.
    pub fn bring(&mut self, start: u64, count: u64) {
        let Ok(len) = usize::try_from(count.saturating_mul(self.block_size as u64)) else { return };
        let mut bytes = vec![0; len];
        if start.saturating_add(count) > self.blocks_count
            || self.device.clone().read_at(start * self.block_size as u64, &mut bytes).is_err()
        {
            return;
        }
        self.clock += 1;
        for (block, bytes) in (start..).zip(bytes.chunks_exact(self.block_size)) {
            if !self.holds(block) {
                let bytes = Arc::new(bytes.to_vec());
                self.cached.insert(block, Cached { bytes, used: self.clock, checked: false });
            }
        }
        if self.notes.is_none()
            && self.cached.len() > self.cached_max + self.changed.len() + self.waiting.len()
        {
            self.evict();
        }
    }

    /// A block of metadata.
    pub fn get(&mut self, block: u64) -> Result<Block> {
        Ok(Arc::clone(&self.load(block)?.bytes))
    }

    /// A block of metadata that `is_right` has accepted, now or before; `what` it is, for the complaint.
    pub fn get_checked(
        &mut self,
        block: u64,
        what: &str,
        is_right: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Block> {
        let cached = self.load(block)?;
        let bytes = Arc::clone(&cached.bytes);
        if !cached.checked {
            if !is_right(&bytes) {
                return Err(self.corrupt(|| format!("{what} in block {block} has a wrong checksum")));
            }
            self.load(block)?.checked = true;
        }
        Ok(bytes)
    }

    fn note(&mut self, block: u64) {
        let bytes = self.cached.get(&block).map(|cached| Arc::clone(&cached.bytes));
        let stage = self.changed.get(&block).copied();
        if let Some(notes) = &mut self.notes
            && notes.noted.insert(block)
        {
            notes.blocks.push(Before { block, bytes, stage });
        }
    }

    /// Notes that `block` is about to change, and finds the stage of the change.
    fn mark_changed(&mut self, block: u64) {
        self.note(block);
        let old = self.changed.get(&block).copied();
        let floor = self.notes.as_ref().map_or(0, |notes| notes.floor);
        let stage = floor.max(old.unwrap_or_else(|| self.behind_earlier(block)));
        if let Some(old) = old
            && old < stage
        {
            self.keep_version(old, block);
        }
        self.changed.insert(block, stage);
        if let Some(notes) = &mut self.notes {
            notes.next_floor = notes.next_floor.max(stage + 1);
        }
    }

    /// The version of `block` that is in memory is written at `stage`, whatever becomes of the block later.
    fn keep_version(&mut self, stage: u32, block: u64) {
        let Some(cached) = self.cached.get(&block) else { return };
        self.earlier.insert((block, stage), Arc::clone(&cached.bytes));
        if let Some(notes) = &mut self.notes {
            notes.kept.push((block, stage));
        }
    }

    /// The lowest stage behind all older versions of a block.
    fn behind_earlier(&self, block: u64) -> u32 {
        let last = self.earlier.range((block, 0)..=(block, u32::MAX)).next_back();
        last.map_or(0, |((_, stage), _)| stage + 1)
    }

    /// What the operation changes from here on reaches the device only after what it has changed and what data it has written so far. Outside of an
    /// operation it does nothing.
    pub fn then(&mut self) {
        if let Some(notes) = &mut self.notes {
            notes.floor = notes.floor.max(notes.next_floor);
        }
    }

    /// Number of stages in which [`BlockCache::write_changed`] would write. Each costs a sync of the device, so a driver commits before they get many.
    pub fn stages(&self) -> u32 {
        let last = self.earlier.keys().map(|(_, stage)| *stage).chain(self.changed.values().copied()).max();
        last.map_or(0, |last| last + 1)
    }

    /// A block of metadata, to be changed by the running transaction.
    pub fn change(&mut self, block: u64) -> Result<&mut Vec<u8>> {
        self.load(block)?;
        self.mark_changed(block);
        let cached = self.cached.get_mut(&block).ok_or(Errno::Io)?;
        cached.checked = true;
        Ok(Arc::make_mut(&mut cached.bytes))
    }

    /// A new block of metadata, all zeroes, whatever stands on the device.
    pub fn create(&mut self, block: u64) -> Result<&mut Vec<u8>> {
        self.place(block)?;
        self.mark_changed(block);
        self.clock += 1;
        let fresh = Cached { bytes: Arc::new(vec![0; self.block_size]), used: self.clock, checked: true };
        self.cached.insert(block, fresh);
        let cached = self.cached.get_mut(&block).ok_or(Errno::Io)?;
        Ok(Arc::make_mut(&mut cached.bytes))
    }

    /// The running transaction has freed a block that may have been metadata: it must not come back from the log. Versions that lie before
    /// the freeing in the order are written all the same, since other blocks of their time point to them.
    pub fn forget(&mut self, block: u64) {
        self.note(block);
        let floor = self.notes.as_ref().map_or(0, |notes| notes.floor);
        if let Some(stage) = self.changed.remove(&block)
            && stage < floor
        {
            self.keep_version(stage, block);
        }
        self.cached.remove(&block);
        self.forgotten.push(block);
    }

    /// Starts to note what an operation changes.
    pub fn begin(&mut self) {
        self.notes = Some(Notes { forgotten: self.forgotten.len(), ..Notes::default() });
    }

    /// The operation is done.
    pub fn finish(&mut self) {
        self.notes = None;
        if self.cached.len() > self.cached_max + self.changed.len() + self.waiting.len() {
            self.evict();
        }
    }

    /// The operation has failed: everything is as it was before.
    pub fn take_back(&mut self) {
        let Some(notes) = self.notes.take() else { return };
        self.forgotten.truncate(notes.forgotten);
        for version in notes.kept {
            self.earlier.remove(&version);
        }
        for Before { block, bytes, stage } in notes.blocks {
            match bytes {
                Some(bytes) => {
                    let checked = stage.is_some();
                    self.cached.insert(block, Cached { bytes, used: self.clock, checked });
                }
                None => {
                    self.cached.remove(&block);
                }
            }
            match stage {
                Some(stage) => self.changed.insert(block, stage),
                None => self.changed.remove(&block),
            };
        }
    }

    /// Drops the unchanged blocks that were not used for the longest time.
    fn evict(&mut self) {
        let mut stamps: Vec<u64> = self.cached.values().map(|cached| cached.used).collect();
        let middle = stamps.len() / 2;
        let (_, oldest_kept, _) = stamps.select_nth_unstable(middle);
        let oldest_kept = *oldest_kept;
        let changed = &self.changed;
        self.cached.retain(|block, cached| cached.used >= oldest_kept || changed.contains_key(block));
    }

    /// Number of blocks that the running transaction has changed.
    pub fn changed_count(&self) -> usize {
        self.changed.len()
    }

    /// Number of metadata blocks that the running transaction has freed.
    pub fn forgotten_count(&self) -> usize {
        self.forgotten.len()
    }

    /// The blocks that the running transaction has changed, in order.
    pub fn changed_blocks(&self) -> Vec<(u64, Block)> {
        let cached = |block: &u64| Some((*block, Arc::clone(&self.cached.get(block)?.bytes)));
        self.changed.keys().filter_map(cached).collect()
    }

    /// The blocks that the running transaction has freed, in order and each once; some may be in use again.
    pub fn forgotten_blocks(&self) -> BTreeSet<u64> {
        self.forgotten.iter().copied().collect()
    }

    /// The running transaction is in the log: what it changed has to be written home some time, what it freed never.
    pub fn committed(&mut self, blocks: Vec<(u64, Block)>) {
        for block in std::mem::take(&mut self.forgotten) {
            self.waiting.remove(&block);
        }
        self.waiting.extend(blocks);
        self.changed.clear();
        self.earlier.clear();
    }

    /// Number of blocks that are in the log and not at home.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Writes home what waits for it. Nothing is durable before the next [`BlockCache::sync`].
    pub fn write_home(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let written = self.write_blocks(waiting.iter().map(|(block, bytes)| (*block, bytes)));
        if written.is_err() {
            self.waiting = waiting;
        }
        written
    }

    /// Writes home what was changed, without any log: stage by stage, with a sync of the device between two. The last stage is durable after
    /// the next [`BlockCache::sync`].
    pub fn write_changed(&mut self) -> Result<()> {
        let stages = self.stages();
        let earlier =
            self.earlier.iter().map(|((block, stage), bytes)| ((*stage, *block), Arc::clone(bytes)));
        let mut versions: BTreeMap<(u32, u64), Block> = earlier.collect();
        for (block, stage) in &self.changed {
            if let Some(cached) = self.cached.get(block) {
                versions.insert((*stage, *block), Arc::clone(&cached.bytes));
            }
        }
        for stage in 0..stages {
            if stage > 0 {
                self.sync()?;
            }
            let of_stage = versions.range((stage, 0)..=(stage, u64::MAX));
            self.write_blocks(of_stage.map(|((_, block), bytes)| (*block, bytes)))?;
        }
        self.changed.clear();
        self.earlier.clear();
        self.forgotten.clear();
        Ok(())
    }

    /// Writes blocks, those side by side at once.
    pub fn write_blocks<'b>(&mut self, blocks: impl Iterator<Item = (u64, &'b Block)>) -> Result<()> {
        let (mut first, mut gathered): (u64, Vec<u8>) = (0, Vec::new());
        for (block, bytes) in blocks {
            let next = first + (gathered.len() / self.block_size) as u64;
            if !gathered.is_empty() && (block != next || gathered.len() >= WRITE_BYTES_MAX) {
                self.write_bytes(first, &gathered)?;
                gathered.clear();
            }
            if gathered.is_empty() {
                first = block;
            }
            gathered.extend_from_slice(bytes);
        }
        if gathered.is_empty() { Ok(()) } else { self.write_bytes(first, &gathered) }
    }

    /// Writes whole blocks from `block` on, past the cache.
    pub fn write_bytes(&mut self, block: u64, bytes: &[u8]) -> Result<()> {
        let place = self.place(block)?;
        self.device.clone().write_at(place, bytes).map_err(|error| self.failed(error))
    }

    /// Makes durable what was written.
    pub fn sync(&mut self) -> Result<()> {
        self.data_written = false;
        self.device.clone().sync().map_err(|error| self.failed(error))
    }

    /// Whether data was written since the last synchronisation.
    pub fn has_data_to_sync(&self) -> bool {
        self.data_written
    }

    /// Reads the data of files: `buf` from byte `within` of `block` on.
    pub fn read_data(&mut self, block: u64, within: usize, buf: &mut [u8]) -> Result<()> {
        let place = self.place(block)? + within as u64;
        if self.replayed.is_empty() {
            return self.device.clone().read_at(place, buf).map_err(|error| self.failed(error));
        }
        let size = self.block_size as u64;
        let mut done = 0;
        while done < buf.len() {
            let at = place + done as u64;
            let within = width::index(at % size);
            let len = (self.block_size - within).min(buf.len() - done);
            let bytes = self.read_block(at / size)?;
            buf[done..done + len].copy_from_slice(&bytes[within..within + len]);
            done += len;
        }
        Ok(())
    }

    /// Writes the data of files from byte `within` of `block` on. They go to the device at once, and so before the transaction that
    /// makes them part of a file.
    pub fn write_data(&mut self, block: u64, within: usize, bytes: &[u8]) -> Result<()> {
        let place = self.place(block)? + within as u64;
        self.data_written = true;
        if let Some(notes) = &mut self.notes {
            notes.next_floor = notes.next_floor.max(1);
        }
        self.device.clone().write_at(place, bytes).map_err(|error| self.failed(error))
    }

    /// The blocks that a journal holds, in memory only.
    pub fn set_replayed(&mut self, blocks: HashMap<u64, Block>) {
        self.cached.clear();
        self.replayed = blocks;
    }

    /// Nothing in memory is good any more: the device has been changed past it.
    pub fn drop_cache(&mut self) {
        self.cached.clear();
    }
}

#[cfg(test)]
mod tests;
