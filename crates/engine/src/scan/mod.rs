// SPDX-License-Identifier: MIT OR Apache-2.0
//! What scans of all formats share.
//!
//! | module | what |
//! |---|---|
//! | [`certification`] | directory entries whose other half has not been scanned yet |
//! | [`memory_plan`] | how a run divides its memory |

pub mod certification;
pub mod memory_plan;
