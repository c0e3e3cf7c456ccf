// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast path: tight loops that show, for ordinary shapes, that inspection would find nothing, and extract
//! the facts. They never report. Whatever they cannot prove is a suspect.

pub(crate) mod attributes;
pub(crate) mod claimer;
pub mod directory;
pub(crate) mod htree;
pub mod inode;
pub(crate) mod jobs;
pub mod map;
mod pending;
mod pieces;
pub(crate) mod plain;
pub(crate) mod pointers;
