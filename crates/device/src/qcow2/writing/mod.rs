// SPDX-License-Identifier: MIT OR Apache-2.0
//! Disks inside qcow2 images that are written.
//!
//! Writing has two parts. [`WritableDevice::prepare`] gives every cluster that will be written a place of its own in the file: what lay in a backing image, in a
//! compressed cluster, in a snapshot or nowhere is copied to new clusters behind all others. The disk shows the same before and after, and at any moment
//! between: an interruption leaves clusters that nothing leads to, and no more. Then blocks are written in place, as in a raw image, so that the log
//! of a repair does for both.
//!
//! ```text
//! contents of new clusters, new tables ─ sync ─ refcounts of new clusters ─ sync ─ entries that lead to them ─ sync ─ refcounts of what they replace
//! ```
//!
//! Each arrow (`sync`) has a reason: nothing is counted that has no contents, nothing leads to what is not counted, and nothing is given up that something may still lead to.
//! All tables are gone through first ([`survey`]): an image that contradicts itself is not written.

mod growth;
mod head;
mod refcounts;
mod survey;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use fsmend_base::width;

use super::Qcow2Device;
use crate::write::check_write;
use crate::{Device, ReadError, WritableDevice, WriteError, check_bounds};
use head::{AUTOCLEAR_AT, Head, number_bytes, read_numbers};
use refcounts::Refcounts;
use survey::survey;

/// The offset in an entry of a table.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// Only one entry leads there.
const COPIED: u64 = 1 << 63;
/// An entry of level 2 that leads to compressed bytes.
const COMPRESSED: u64 = 1 << 62;
/// An entry of level 2 that reads as zeroes, wherever it leads.
const ZERO: u64 = 1;

/// Memory for tables of level 2.
const L2_BYTES_MAX: u64 = 8 << 20;
/// Memory for what is prepared at a time: contents of new tables of level 2.
const STEP_BYTES: u64 = 32 << 20;

/// The disk inside a qcow2 image, to be read and written.
pub struct WritableQcow2 {
    path: PathBuf,
    name: String,
    file: Arc<dyn WritableDevice>,
    /// `None` after a failure: they are read again then.
    tables: Mutex<Option<Tables>>,
    /// Opened anew when entries have changed.
    reader: RwLock<Qcow2Device>,
}

/// What leads from the disk to the file.
struct Tables {
    head: Head,
    l1: Vec<u64>,
    l2: BTreeMap<usize, Vec<u64>>,
    refcounts: Refcounts,
    /// The first cluster behind all that is in use.
    next: u64,
}

impl WritableQcow2 {
    /// Opens the image in `file`, which grows when it is written beyond its end. Names of other images in it are resolved against `path`.
    pub fn open(path: &Path, file: Arc<dyn WritableDevice>) -> io::Result<Self> {
        let tables = Tables::read(&*file)?;
        let reader = Qcow2Device::open_in(path, Arc::clone(&file) as Arc<dyn Device>)?;
        Ok(WritableQcow2 {
            path: path.to_owned(),
            name: path.display().to_string(),
            file,
            tables: Mutex::new(Some(tables)),
            reader: RwLock::new(reader),
        })
    }

    /// Calls `work` with the tables; after a failure in it they are read again.
    fn with_tables<T>(
        &self,
        offset: u64,
        work: impl FnOnce(&mut Tables) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        let mut guard: MutexGuard<'_, Option<Tables>> =
            self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tables = match guard.take() {
            Some(tables) => tables,
            None => {
                self.open_reader().map_err(|error| WriteError::io(offset, 0, error))?;
                Tables::read(&*self.file).map_err(|error| WriteError::io(offset, 0, error))?
            }
        };
        let done = work(&mut tables)?;
        *guard = Some(tables);
        Ok(done)
    }

    /// Gives a place of its own to every cluster of `ranges` (offset and length) that has none.
    fn make_room(&self, tables: &mut Tables, ranges: &[(u64, u64)]) -> Result<(), WriteError> {
        tables.begin(&*self.file)?;
        let mut wanted: Vec<u64> = Vec::new();
        for (offset, len) in ranges.iter().filter(|(_, len)| *len > 0) {
            let last = (offset + len - 1) >> tables.head.cluster_bits;
            for cluster in offset >> tables.head.cluster_bits..=last {
                if wanted.last() != Some(&cluster) && tables.place(&*self.file, cluster)?.is_none() {
                    wanted.push(cluster);
                }
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        let step = width::index((STEP_BYTES / tables.head.cluster_bytes()).max(1));
        for wanted in wanted.chunks(step) {
            let reader = self.reader.read().unwrap_or_else(PoisonError::into_inner);
            tables.grow(&*self.file, &*reader, wanted)?;
            drop(reader);
            self.open_reader().map_err(|error| WriteError::io(0, 0, error))?;
        }
        Ok(())
    }

    fn open_reader(&self) -> io::Result<()> {
        let reader = Qcow2Device::open_in(&self.path, Arc::clone(&self.file) as Arc<dyn Device>)?;
        *self.reader.write().unwrap_or_else(PoisonError::into_inner) = reader;
        Ok(())
    }
}

impl Tables {
    /// Reads and examines the tables.
    fn read(file: &dyn Device) -> io::Result<Tables> {
        let refused = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let failed = |error: ReadError| io::Error::other(error);
        let head = Head::read(file).map_err(refused)?;
        let l1 = read_numbers(file, head.l1_offset, width::index(head.l1_entries)).map_err(failed)?;
        let mut refcounts = Refcounts::read(file, &head).map_err(failed)?;
        let next = survey(file, &head, &l1, &mut refcounts).map_err(refused)?;
        Ok(Tables { head, l1, l2: BTreeMap::new(), refcounts, next })
    }

    /// Clears the features that describe contents in a way that we do not keep up to date, before the first write.
    fn begin(&mut self, file: &dyn WritableDevice) -> Result<(), WriteError> {
        if self.head.has_autoclear {
            file.write_at(AUTOCLEAR_AT, &[0; 8])?;
            file.sync()?;
            self.head.has_autoclear = false;
        }
        Ok(())
    }

    /// Where `cluster` of the disk can be written in place: a cluster of the file that nothing else uses.
    fn place(&mut self, file: &dyn Device, cluster: u64) -> Result<Option<u64>, WriteError> {
        let entry = self.entry(file, cluster)?;
        let is_zero = self.head.has_zero_clusters && entry & ZERO != 0;
        if entry & COPIED == 0 || entry & COMPRESSED != 0 || is_zero || entry & OFFSET == 0 {
            return Ok(None);
        }
        let place = (entry & OFFSET) >> self.head.cluster_bits;
        let is_ours = self.head.is_dirty || self.refcounts.get(file, place).map_err(unread)? == 1;
        Ok(is_ours.then_some(place))
    }

    /// The entry of level 2 for `cluster` of the disk, without the mark of those in place if their table is shared; 0 if there is no table.
    fn entry(&mut self, file: &dyn Device, cluster: u64) -> Result<u64, WriteError> {
        if self.l2.len() as u64 * self.head.cluster_bytes() > L2_BYTES_MAX {
            self.l2.clear();
        }
        let (number, at) = self.split(cluster);
        let Some(table) = self.l2_table(file, number)? else { return Ok(0) };
        let entry = table.get(at).copied().unwrap_or(0);
        Ok(if self.is_own_table(number) { entry } else { entry & !COPIED })
    }

    /// Table and entry of level 2 for a cluster of the disk.
    fn split(&self, cluster: u64) -> (usize, usize) {
        (width::index(cluster / self.head.entries()), width::index(cluster % self.head.entries()))
    }

    fn is_own_table(&self, number: usize) -> bool {
        self.l1.get(number).is_some_and(|entry| entry & COPIED != 0 && entry & OFFSET != 0)
    }

    fn l2_table(&mut self, file: &dyn Device, number: usize) -> Result<Option<&mut Vec<u64>>, WriteError> {
        let Some(place) = self.l1.get(number).map(|entry| entry & OFFSET).filter(|place| *place != 0) else {
            return Ok(None);
        };
        if !self.l2.contains_key(&number) {
            let table = read_numbers(file, place, width::index(self.head.entries())).map_err(unread)?;
            self.l2.insert(number, table);
        }
        Ok(self.l2.get_mut(&number))
    }
}

/// A table that could not be read keeps from writing.
fn unread(error: ReadError) -> WriteError {
    WriteError::io(error.offset, error.len, error)
}

impl Device for WritableQcow2 {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.reader.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.reader.read().unwrap_or_else(PoisonError::into_inner).read_at(offset, buf)
    }

    fn readahead(&self, offset: u64, len: u64) {
        self.reader.read().unwrap_or_else(PoisonError::into_inner).readahead(offset, len);
    }

    fn memory_max(&self) -> u64 {
        let reader = self.reader.read().unwrap_or_else(PoisonError::into_inner).memory_max();
        // Both caches, a step that is prepared, and level 1 once more.
        reader.saturating_mul(2).saturating_add(2 * L2_BYTES_MAX + STEP_BYTES)
    }
}

impl WritableDevice for WritableQcow2 {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        check_write(offset, bytes, self.len())?;
        self.with_tables(offset, |tables| {
            self.make_room(tables, &[(offset, bytes.len() as u64)])?;
            let (mut at, mut rest) = (offset, bytes);
            while !rest.is_empty() {
                let within = at & (tables.head.cluster_bytes() - 1);
                let count = rest.len().min(width::index(tables.head.cluster_bytes() - within));
                let place = tables.place(&*self.file, at >> tables.head.cluster_bits)?;
                let place = place.ok_or_else(|| WriteError::io(at, 0, "the image has changed meanwhile"))?;
                let (part, others) = rest.split_at(count);
                self.file.write_at((place << tables.head.cluster_bits) + within, part)?;
                (at, rest) = (at + count as u64, others);
            }
            Ok(())
        })
    }

    fn sync(&self) -> Result<(), WriteError> {
        self.file.sync()
    }

    fn len_now(&self) -> Option<u64> {
        self.file.len_now().map(|_| self.len())
    }

    fn forget(&self, _offset: u64, _len: u64) {
        self.file.forget(0, self.file.len());
    }

    fn prepare(&self, ranges: &[(u64, u64)]) -> Result<(), WriteError> {
        for (offset, len) in ranges {
            check_bounds(*offset, *len, self.len()).map_err(unread)?;
        }
        self.with_tables(0, |tables| self.make_room(tables, ranges))
    }
}
