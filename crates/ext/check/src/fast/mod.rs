// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast path: tight loops that show, for ordinary shapes, that inspection would find nothing, and extract
//! the facts. They never report. Whatever they cannot prove is a suspect.

pub mod attributes;
pub(crate) mod claimer;
pub mod directory;
pub mod htree;
pub mod inode;
pub mod jobs;
pub mod map;
mod pending;
mod pieces;
pub mod plain;
mod pointers;
