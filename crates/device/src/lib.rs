//! Block devices as a checker sees them: bytes at offsets, read in large disk-order batches, never written.
//!
//! Everything above this crate takes a [`Device`]; what lies below (a file, a block device, a qcow2 image, a
//! partition, memory, an overlay) is chosen once, when a target is opened.

mod memory;

use std::fmt;

pub use memory::MemoryDevice;

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

    /// If all bytes of this device can be read from one file descriptor at a constant shift: that descriptor.
    /// After such a direct read the reader calls [`Device::patch`] on what it got.
    fn direct(&self) -> Option<Direct> {
        None
    }

    /// Puts this device's own bytes over what a direct read of `offset..` delivered (an overlay does).
    fn patch(&self, _offset: u64, _buf: &mut [u8]) {}
}

/// Where the bytes of a device lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Open file descriptor, valid as long as the device lives.
    pub fd: std::os::fd::RawFd,
    /// Byte of the file at which the device starts.
    pub shift: u64,
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
                    "bytes {} to {} lie beyond the end of the device",
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
