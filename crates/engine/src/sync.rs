// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks, atomic words and threads: the standard library's; in tests with the feature `model` those of the model checker
//! (shuttle), which runs the same code in thousands of interleavings.

#[cfg(not(all(test, feature = "model")))]
pub use std::{sync::*, thread};

#[cfg(all(test, feature = "model"))]
pub use shuttle::{sync::*, thread};
