// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of many volumes by an engine that exists already (Slurm, Kubernetes, a shell on each node), and one report over all of them.
//!
//! ```text
//!  list ──► plan ──► run folder: run.json, shards/N.jsonl
//!                        │ work: an attempt at a shard appends to a file of its own, records/N/A.jsonl
//!                        ▼
//!                    merge: every volume once ──► text, JSON, HTML, Prometheus
//! ```
//!
//! All state lies in the run folder. No lock is taken, and no engine is asked what became of a job: an attempt skips what its siblings have
//! finished, two attempts at one volume do no harm, and merging takes one record of each volume. A file that ends in the middle of a line is a
//! file that ends at the line before.
//!
//! A worker never writes to a volume: it checks, and saves plans where that is wanted. Each check is a process of its own, so that a volume
//! that brings it down costs one record. This crate prints nothing, and the time in records is its caller's.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub(crate) mod attempt;
pub(crate) mod child;
pub(crate) mod choices;
pub(crate) mod digest;
pub mod divide;
pub(crate) mod document;
pub mod engine;
pub(crate) mod error;
pub mod html;
pub mod kubernetes;
pub(crate) mod lines;
pub mod list;
pub mod merge;
pub mod part;
pub mod prometheus;
pub mod ranges;
pub(crate) mod record;
pub mod run;
pub mod select;
pub mod slurm;
pub mod status;
pub mod verdict;
pub(crate) mod work;

pub use child::Children;
pub use choices::Choices;
pub use error::Error;
pub use list::Item;
pub use run::{Run, RunFolder};
pub use work::{Check, Ended, Worker};
