//! Words that every room of the house shares: numbers that cannot be mixed up, ranges, bitmaps and a
//! seeded random source.
//!
//! This crate depends on nothing and does no I/O.

mod bitmap;
mod rng;
mod units;

pub use bitmap::Bitmap;
pub use rng::SeededRandom;
pub use units::{BlockNo, BlockRange, ByteLen, GroupNo, InodeNo};
