// SPDX-License-Identifier: MIT OR Apache-2.0
//! UFS for tests: images of either version and byte order, by a [maker](make) of our own and by Debian's makefs; ways to [damage] them; a [reader] that shares nothing with the
//! code under test; [checks and repairs](checked) in memory; FreeBSD's own [programs](peers) where they are there.
// A test that cannot make its image has to fail.
#![allow(clippy::panic)]

pub mod checked;
pub mod damage;
pub mod disaster;
mod image;
pub mod judged;
pub mod lived_in;
pub mod make;
mod makefs;
pub mod peers;
pub mod reader;
mod shape;

pub use image::Image;
pub use make::Maker;
pub use makefs::{KINDS, Make};
pub use reader::{Kind, Node, tree};
pub use shape::Shape;
