// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types that every crate uses: numbers that cannot be mixed up, ranges, bitmaps, a checksum and a
//! seeded random source.
//!
//! This crate does no I/O.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod bitmap;
pub mod checksum;
pub mod neighbours;
mod rng;
mod units;
pub mod width;

pub use bitmap::Bitmap;
pub use checksum::{crc32c, crc32c_of_record_without};
pub use rng::SeededRandom;
pub use units::{BlockNo, BlockRange, ByteLen, GroupNo, InodeNo};
