// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cross-checks: what takes several records. One file, or folder, for each; the format supplies catalogue rows, and what only it can read.
//!
//! | module | question |
//! |---|---|
//! | [`allocation`] | do maps and counts say what is in use? |
//! | [`links`] | does every inode store the number of its names? |
//! | [`owners`] | who owns the units that were claimed more than once? |
//! | [`quota`] | who uses how much? |
//! | [`tree`] | does every directory hang on the root, once? |

pub mod allocation;
pub mod links;
pub mod owners;
pub mod quota;
pub mod tree;
mod words;
