// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block devices as a checker sees them: bytes at offsets, read in large disk-order batches.
//!
//! Everything above this crate takes a [`Device`], which cannot be written; what lies below (a file, a block device, a
//! qcow2 image, a partition, memory, an overlay) is chosen once, when a target is opened. What a repair writes is a [`Plan`], and the one
//! way in which it comes to a [`WritableDevice`] is [`apply()`], which keeps a log.

// Numbers here come from disks, and go there: a cast that loses bits must say why.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod apply;
mod batch;
mod blocks;
mod cached;
mod content;
mod counted;
mod fetcher;
mod file;
mod freeze;
mod fresh;
mod inherited;
mod joined;
mod limit;
mod memory;
mod mounted;
mod mounts;
mod noted;
mod open;
mod overlay;
mod partition;
mod plan;
pub mod priority;
mod qcow2;
mod remembered;
mod salvage;
mod slice;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod write;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

pub use apply::{
    Applied, ApplyError, ApplyOptions, Control, FoundLog, LogContents, LogFile, LogOnDisk, LogState,
    Progress, Recovered, Step, Tested, Unrestored, Way, WriteTest, apply, close_write_test, create_log,
    create_log_in, end_write_test, find_logs, find_open_log, inspect_log, is_write_test, log_len,
    overtaken_write_test, recover, remove_closed_logs, scratch_in, undo,
};
pub use batch::{BatchReader, Coalesced, ReadBackend, Request, coalesce};
pub use content::{Content, Mark, Recognise, Remedy, Trace, Whatever, foreign_mark, recognise};
pub use counted::Counted;
pub use file::FileDevice;
pub use freeze::{Frozen, MountPoint};
pub use fresh::FreshDevice;
pub use inherited::inherited;
pub use joined::Joined;
pub use limit::{Limited, Pace, ReadLimit};
pub use memory::MemoryDevice;
pub use mounted::{Backing, FileClone, Mounted, Served, configure, mounted, mounted_at, served_at};
pub use mounts::{Usage, is_served_for, read_small, usage_of, writer_of};
pub use noted::Noted;
pub use open::{OpenError, OpenErrorKind, OpenOptions, Opened, Skipped, Target, missing_permission, open};
pub use overlay::{BlockCopy, Overlay};
pub use partition::{Partition, partitions};
pub use plan::{Condition, Differences, Plan, PlanBuilder, PlanError, PlanSpill, PlannedBlock};
pub use qcow2::{Qcow2Device, WritableQcow2};
pub use remembered::Remembered;
pub use salvage::salvage;
pub use slice::Slice;
pub use write::{
    GrowingFile, OpenedForWriting, ReadHold, WritableDevice, WritableFile, WritableMemory, WritableTarget,
    WriteError, WriteErrorKind, WriteOptions, open_writable,
};

/// Something with a length from which bytes can be read at any offset, by many threads at once.
pub trait Device: Send + Sync {
    /// What to call the device in messages (usually its path).
    fn name(&self) -> &str;

    /// Length in bytes.
    fn len(&self) -> u64;

    /// Whether the device has no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buf` from `offset`. Reading beyond the end is an error, as is a failing medium; `buf` is then unspecified.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError>;

    /// The `len` bytes from `offset` on themselves, if the device has them in memory: then they need not be copied.
    fn borrow(&self, _offset: u64, _len: usize) -> Option<&[u8]> {
        None
    }

    /// If all bytes of this device can be read from one file descriptor at a constant shift: that descriptor.
    /// After such a direct read the reader calls [`Device::patch`] on what it got. Before the bytes are used it takes them from the
    /// [limit](Direct::limit), if there is one.
    fn direct(&self) -> Option<Direct<'_>> {
        None
    }

    /// Tells the operating system that `len` bytes from `offset` will be read soon. Only a hint: it does not wait, and
    /// where it is not possible, nothing happens.
    fn readahead(&self, _offset: u64, _len: u64) {}

    /// Puts this device's own bytes over what a direct read of `offset..` delivered (an overlay does).
    fn patch(&self, _offset: u64, _buf: &mut [u8]) {}

    /// Most memory that the device itself may come to hold (tables and caches of image formats, overlaid bytes).
    fn memory_max(&self) -> u64 {
        0
    }

    /// Whether `len` bytes from `offset` on stay what they are, and where they are, as long as the device is there: a [copy](BlockCopy) of
    /// them can be kept as a reference. A device that lays bytes over another answers no for these bytes; the default is no.
    fn is_at_rest(&self, _offset: u64, _len: u64) -> bool {
        false
    }
}

/// What points at a device is one.
macro_rules! forward {
    ($($pointer:ty),*) => { $(
        impl<T: Device + ?Sized> Device for $pointer {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn len(&self) -> u64 {
                (**self).len()
            }

            fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
                (**self).read_at(offset, buf)
            }

            fn borrow(&self, offset: u64, len: usize) -> Option<&[u8]> {
                (**self).borrow(offset, len)
            }

            fn direct(&self) -> Option<Direct<'_>> {
                (**self).direct()
            }

            fn readahead(&self, offset: u64, len: u64) {
                (**self).readahead(offset, len);
            }

            fn patch(&self, offset: u64, buf: &mut [u8]) {
                (**self).patch(offset, buf);
            }

            fn memory_max(&self) -> u64 {
                (**self).memory_max()
            }

            fn is_at_rest(&self, offset: u64, len: u64) -> bool {
                (**self).is_at_rest(offset, len)
            }
        }
    )* };
}

forward!(&T, Arc<T>);

/// Where the bytes of a device lie in a file.
#[derive(Clone, Copy, Debug)]
pub struct Direct<'d> {
    /// Open file descriptor, borrowed from the device.
    pub fd: BorrowedFd<'d>,
    /// Byte of the file at which the device starts.
    pub shift: u64,
    /// What limits how fast is read.
    pub limit: Option<&'d ReadLimit>,
    /// Whether each read from the descriptor waits for the device, even one that asks not to wait: the page cache keeps nothing of the file. Reads go
    /// through [`Device::readahead`] and [`Device::read_at`] then.
    pub waits: bool,
}

/// A read that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// First byte of the failed request.
    pub offset: u64,
    /// Length of the failed request.
    pub len: u64,
    /// Why it failed.
    pub kind: ReadErrorKind,
}

impl ReadError {
    /// A request that reaches beyond the end.
    pub fn beyond_end(offset: u64, len: u64) -> Self {
        ReadError { offset, len, kind: ReadErrorKind::BeyondEnd }
    }

    /// A request that the operating system or the image format could not fulfil.
    pub fn io(offset: u64, len: u64, why: impl fmt::Display) -> Self {
        ReadError { offset, len, kind: ReadErrorKind::Io(why.to_string()) }
    }
}

/// Whether `offset` and `len` name bytes within a device of `device_len` bytes.
fn check_bounds(offset: u64, len: u64, device_len: u64) -> Result<(), ReadError> {
    match offset.checked_add(len) {
        Some(end) if end <= device_len => Ok(()),
        _ => Err(ReadError::beyond_end(offset, len)),
    }
}

/// Why a read failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadErrorKind {
    /// The request reaches beyond the end of the device.
    BeyondEnd,
    /// The operating system or the image format reported an error.
    Io(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ReadErrorKind::BeyondEnd => {
                write!(
                    f,
                    "bytes {} to {} are beyond the end of the device",
                    self.offset,
                    self.offset.saturating_add(self.len)
                )
            }
            ReadErrorKind::Io(why) => {
                write!(f, "reading {} bytes at {} failed: {why}", self.len, self.offset)
            }
        }
    }
}

impl std::error::Error for ReadError {}
