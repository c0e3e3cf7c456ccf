// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks of the journal, wherever they lie: in a file of the file system, or on a device of their own.

use fsmend_base::width;
use fsmend_device::{Device, ReadError, ReadErrorKind};

use super::map::FileMap;
use crate::inode::MapRun;

/// The journal as a row of blocks.
pub(crate) struct Log<'d> {
    device: &'d dyn Device,
    block_size: u32,
    map: FileMap,
    by_place: Vec<MapRun>,
    /// Number of blocks that there are, whatever the journal says.
    pub len: u64,
    /// The block with the journal's superblock.
    pub head: u64,
    /// Whether it lies on the file system itself.
    pub internal: bool,
}

impl<'d> Log<'d> {
    /// A journal in a file with this map, whose `len` first blocks are mapped without a hole.
    pub fn internal(device: &'d dyn Device, block_size: u32, map: FileMap, len: u64) -> Self {
        let mut by_place = map.runs.clone();
        by_place.sort_by_key(|run| run.physical);
        Log { device, block_size, map, by_place, len, head: 0, internal: true }
    }

    /// A journal on its own device of `len` blocks, with its superblock in block `head`. Such a journal counts from
    /// the start of the device.
    pub fn external(device: &'d dyn Device, block_size: u32, head: u64, len: u64) -> Self {
        let count = u32::try_from(len).unwrap_or(u32::MAX);
        let map = FileMap {
            runs: vec![MapRun { logical: 0, physical: 0, count, unwritten: false }],
            ..FileMap::default()
        };
        Log { device, block_size, map, by_place: Vec::new(), len: u64::from(count), head, internal: false }
    }

    /// Size of its blocks in bytes.
    pub fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Blocks that the journal's file takes, those of its map included.
    pub fn blocks_in_use(&self) -> u64 {
        self.map.runs.iter().map(|run| u64::from(run.count)).sum::<u64>() + self.map.map_blocks.len() as u64
    }

    /// Where block `index` of the journal lies on its device.
    pub fn place(&self, index: u64) -> Option<u64> {
        if index < self.len { self.map.find(index) } else { None }
    }

    /// Where block `index` of the journal lies on its device, and how many blocks lie there in a row from it on.
    pub fn stretch(&self, index: u64) -> Option<(u64, u64)> {
        let last = self.map.runs.partition_point(|run| run.logical <= index).checked_sub(1)?;
        let run = self.map.runs.get(last)?;
        let left =
            (run.logical + u64::from(run.count)).min(self.len).checked_sub(index).filter(|left| *left > 0)?;
        Some((self.place(index)?, left))
    }

    /// Reads block `index` of the journal.
    pub fn read(&self, index: u64) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; self.block_size as usize];
        let size = u64::from(self.block_size);
        let Some(place) = self.place(index) else {
            let offset = index.saturating_mul(size);
            return Err(ReadError { offset, len: size, kind: ReadErrorKind::BeyondEnd });
        };
        self.device.read_at(place.saturating_mul(size), &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `bytes` with as many blocks from `index` on as lie in a row, at most `most`; with one block where more cannot be read.
    pub fn read_stretch(&self, index: u64, most: u64, bytes: &mut Vec<u8>) -> Result<(), ReadError> {
        let size = u64::from(self.block_size);
        if let Some((place, left)) = self.stretch(index) {
            bytes.resize(width::index(left.min(most) * size), 0);
            if self.device.read_at(place.saturating_mul(size), bytes).is_ok() {
                return Ok(());
            }
        }
        *bytes = self.read(index)?;
        Ok(())
    }

    /// Whether the file system's `block` is one of the journal's own.
    pub fn holds(&self, block: u64) -> bool {
        let index = self.by_place.partition_point(|run| run.physical <= block);
        let run = index.checked_sub(1).and_then(|index| self.by_place.get(index));
        run.is_some_and(|run| block - run.physical < u64::from(run.count))
    }
}
