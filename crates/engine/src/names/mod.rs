// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: what is reported has a path, and what has lost its name may have had one.

pub mod filter;
pub mod former;
pub mod paths;
pub mod recovered;
pub mod report;
pub mod traces;
