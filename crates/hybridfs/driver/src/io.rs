// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device, read and written in fragments, and what operations note on the way: how much is waiting to be written, and what is free once it is.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use fsmend_device::WritableDevice;
use fsmend_hybridfs_format::{Header, Kind, Place, Run, Superblock};
use fsmend_vfs::{Errno, Result};

pub(crate) struct Io {
    device: Arc<dyn WritableDevice>,
    pub sb: Superblock,
    /// Objects with a header that the next segment has to hold.
    pub dirty: Cell<u64>,
    /// What the next segment gives back.
    pub freed: RefCell<Vec<Run>>,
    pub trouble: OnceCell<String>,
    /// Contents of all files go to the log.
    pub all_in_log: bool,
}

/// What a block has to be that a record leads to.
pub(crate) struct Expected {
    pub kind: Kind,
    pub level: u8,
    pub owner: u64,
    pub generation: u32,
    pub key: u64,
    pub birth: u64,
}

impl Io {
    pub fn new(device: Arc<dyn WritableDevice>, sb: Superblock) -> Io {
        Io {
            device,
            sb,
            dirty: Cell::new(0),
            freed: RefCell::default(),
            trouble: OnceCell::new(),
            all_in_log: false,
        }
    }

    /// Notes what is wrong with the contents of the device.
    pub fn corrupt(&self, what: impl FnOnce() -> String) -> Errno {
        self.trouble.get_or_init(what);
        Errno::Corrupt
    }

    fn failed(&self, what: String) -> Errno {
        self.trouble.get_or_init(|| what);
        Errno::Io
    }

    pub fn block_size(&self) -> usize {
        self.sb.block_size as usize
    }

    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, buf).map_err(|error| self.failed(error.to_string()))
    }

    /// Reads what may be unreadable, as after a crash: nothing is noted.
    pub fn peek(&self, offset: u64, buf: &mut [u8]) -> Option<()> {
        self.device.read_at(offset, buf).ok()
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.device.write_at(offset, bytes).map_err(|error| self.failed(error.to_string()))
    }

    pub fn sync(&self) -> Result<()> {
        self.device.sync().map_err(|error| self.failed(error.to_string()))
    }

    /// Byte offset of an address.
    pub fn offset(&self, address: u64) -> u64 {
        address.saturating_mul(u64::from(self.sb.fragment_size))
    }

    pub fn fragments(&self, bytes: usize) -> u64 {
        (bytes as u64).div_ceil(u64::from(self.sb.fragment_size))
    }

    /// Reads what a place in the log holds.
    pub fn object(&self, place: Place) -> Result<Vec<u8>> {
        let log = self.sb.log();
        let is_inside = place.address.checked_add(u64::from(place.len)).is_some_and(|end| end <= log.end);
        let limit = self.sb.per_block().max(self.sb.inode_block_fragments());
        if place.address < log.start || !is_inside || place.len == 0 || u64::from(place.len) > limit {
            return Err(self.corrupt(|| format!("a record leads to {place:?}, which is not in the log")));
        }
        let mut bytes = vec![0; usize::from(place.len) * self.sb.fragment_size as usize];
        self.read(self.offset(place.address), &mut bytes)?;
        Ok(bytes)
    }

    /// Reads an object with a header and checks that it is the one that was meant.
    pub fn headed(&self, place: Place, is: &Expected) -> Result<(Header, Vec<u8>)> {
        let bytes = self.object(place)?;
        let wrong =
            |why: String| self.corrupt(|| format!("{:?} of {} at {place:?}: {why}", is.kind, is.owner));
        let header = Header::parse(&bytes, &self.sb.uuid).map_err(|error| wrong(error.to_string()))?;
        let is_it = header.kind == is.kind
            && header.level == is.level
            && header.owner == is.owner
            && header.generation == is.generation
            && header.key == is.key
            && header.birth == is.birth
            && header.address == place.address;
        if is_it { Ok((header, bytes)) } else { Err(wrong(format!("is another: {header:?}"))) }
    }

    /// One more object waits to be written.
    pub fn add_dirty(&self) {
        self.dirty.set(self.dirty.get() + 1);
    }

    pub fn remove_dirty(&self) {
        self.dirty.set(self.dirty.get().saturating_sub(1));
    }

    /// The next segment gives this back.
    pub fn free(&self, address: u64, len: u64) {
        if address != 0 && len != 0 {
            self.freed.borrow_mut().push(Run { address, len });
        }
    }

    pub fn free_place(&self, place: Place) {
        self.free(place.address, u64::from(place.len));
    }
}
