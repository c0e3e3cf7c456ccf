//! Blocks of metadata in memory: what was read, what the running transaction has changed, what is in the log but not at home yet.
//!
//! A block is an `Arc` of its bytes. The running transaction, the log's list of what has to be written home, and the notes from which a failed
//! operation is undone all keep such an `Arc`; whoever changes a block gets a copy of its own if somebody else still needs the old bytes.
//! So nobody ever waits, and a version that was committed stays what it was.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use fsmend_device::WritableDevice;
use fsmend_vfs::{Errno, Result};

/// The bytes of a block.
pub(crate) type Block = Arc<Vec<u8>>;

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
    was_changed: bool,
}

/// What an operation has to take back if it fails.
#[derive(Default)]
struct Notes {
    blocks: Vec<Before>,
    noted: HashSet<u64>,
    forgotten: usize,
}

/// All metadata that is in memory, and the device behind it.
pub(crate) struct Store {
    device: Arc<dyn WritableDevice>,
    block_size: usize,
    blocks_count: u64,
    cached: HashMap<u64, Cached>,
    changed: BTreeSet<u64>,
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

impl Store {
    /// Nothing in memory yet. `cached_max` is how many unchanged blocks are kept, more or less.
    pub fn new(
        device: Arc<dyn WritableDevice>,
        block_size: u32,
        blocks_count: u64,
        cached_bytes_max: usize,
    ) -> Self {
        Store {
            device,
            block_size: block_size as usize,
            blocks_count,
            cached: HashMap::new(),
            changed: BTreeSet::new(),
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
            return Err(self.corrupt(|| format!("block {block} lies beyond the end")));
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
        let was_changed = self.changed.contains(&block);
        if let Some(notes) = &mut self.notes
            && notes.noted.insert(block)
        {
            notes.blocks.push(Before { block, bytes, was_changed });
        }
    }

    /// A block of metadata, to be changed by the running transaction.
    pub fn change(&mut self, block: u64) -> Result<&mut Vec<u8>> {
        self.load(block)?;
        self.note(block);
        self.changed.insert(block);
        let cached = self.cached.get_mut(&block).ok_or(Errno::Io)?;
        cached.checked = true;
        Ok(Arc::make_mut(&mut cached.bytes))
    }

    /// A new block of metadata, all zeroes, whatever stands on the device.
    pub fn create(&mut self, block: u64) -> Result<&mut Vec<u8>> {
        self.place(block)?;
        self.note(block);
        self.changed.insert(block);
        self.clock += 1;
        let fresh = Cached { bytes: Arc::new(vec![0; self.block_size]), used: self.clock, checked: true };
        self.cached.insert(block, fresh);
        let cached = self.cached.get_mut(&block).ok_or(Errno::Io)?;
        Ok(Arc::make_mut(&mut cached.bytes))
    }

    /// The running transaction has freed a block that may have been metadata: it must not come back from the log.
    pub fn forget(&mut self, block: u64) {
        self.note(block);
        self.cached.remove(&block);
        self.changed.remove(&block);
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
        for Before { block, bytes, was_changed } in notes.blocks {
            match bytes {
                Some(bytes) => {
                    let checked = was_changed;
                    self.cached.insert(block, Cached { bytes, used: self.clock, checked });
                }
                None => {
                    self.cached.remove(&block);
                }
            }
            if was_changed {
                self.changed.insert(block);
            } else {
                self.changed.remove(&block);
            }
        }
    }

    /// Lets go of the unchanged blocks that nobody has asked for the longest.
    fn evict(&mut self) {
        let mut stamps: Vec<u64> = self.cached.values().map(|cached| cached.used).collect();
        let middle = stamps.len() / 2;
        let (_, oldest_kept, _) = stamps.select_nth_unstable(middle);
        let oldest_kept = *oldest_kept;
        let changed = &self.changed;
        self.cached.retain(|block, cached| cached.used >= oldest_kept || changed.contains(block));
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
        self.changed.iter().filter_map(cached).collect()
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
    }

    /// Number of blocks that are in the log and not at home.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Writes home what waits for it. Nothing is durable before the next [`Store::sync`].
    pub fn write_home(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let written = self.write_blocks(waiting.iter().map(|(block, bytes)| (*block, bytes)));
        if written.is_err() {
            self.waiting = waiting;
        }
        written
    }

    /// Writes home what was changed, without any log.
    pub fn write_changed(&mut self) -> Result<()> {
        let blocks = self.changed_blocks();
        self.write_blocks(blocks.iter().map(|(block, bytes)| (*block, bytes)))?;
        self.changed.clear();
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
            let within = (at % size) as usize;
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
