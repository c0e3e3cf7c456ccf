// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads that fill a file system, age it and measure it, the same every time: they draw from a seed, and they ask only the file
//! system ([`fsmend_vfs::FileSystem`]) and a clock that the caller passes in.
//!
//! - [`aging`]: filling and aging as in the paper on ffsck (§3.2): one folder per block group, files of 1 to 512 blocks, made,
//!   lengthened, cut and deleted.
//! - [`reading`]: sequential, random and strided reads and writes of large files (§5.3).
//! - [`postmark`]: small-file transactions with the paper's settings.
//! - [`trees`]: a kernel's sources, an archive of small packages, and aging in random folders, as in the paper on hFS (§6).
//! - [`personality`]: a file server, a web proxy and a mail server, after Filebench.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod aging;
mod bench;
mod files;
pub mod personality;
pub mod postmark;
pub mod reading;
#[cfg(test)]
mod testing;
pub mod trees;

pub use bench::{Bench, Clock, Observer, Pace};
