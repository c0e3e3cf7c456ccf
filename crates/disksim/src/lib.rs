// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated disk that does to those who write what real ones may do, when a seed says so: the same seed, the same misfortune.
//!
//! All disks and files of one [`Machine`] lose their power at the same request. What was written and not synced by then may have
//! reached the medium or not, sector by sector (512 bytes), in any order; one that was just being written may not be readable; a file whose entry was not synced may not be there at all. Sectors
//! can fail to be read or written, once, a few times or for ever, and a sync can fail and take with it what it should have made durable.
//!
//! And a disk's time ([`Disk`], [`Timed`]): what requests would have taken on a hard disk ([`HddDescription`]) or on flash ([`FlashDescription`]), on a clock of its own. [`Buffered`] puts the memory of a computer before one, for drivers that are
//! compared.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod disk;
mod drive;
mod fault;
mod file;
mod flash;
mod hdd;
mod machine;
mod medium;
mod memory;
mod request_queue;
mod sparse;
mod timed;

pub use disk::SimDisk;
pub use drive::{DRIVES, Disk, DiskStatistics, Drive, Ticket};
pub use fault::{Fault, FaultKind};
pub use file::SimFile;
pub use flash::FlashDescription;
pub use hdd::HddDescription;
pub use machine::{Machine, Request, RequestKind};
pub use medium::SECTOR_BYTES;
pub use memory::{Buffered, MemoryDescription};
pub use sparse::SparseMemory;
pub use timed::Timed;
