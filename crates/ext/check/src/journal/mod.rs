//! The journal: its inode, its superblock, its transactions; and its replay in memory.

pub mod problems;

use std::collections::BTreeMap;

use fsmend_device::Device;
use fsmend_engine::Findings;

use crate::{Fs, Refusal};

/// What came of examining the journal.
#[derive(Clone, Debug, Default)]
pub struct JournalOutcome {
    /// Blocks (file-system block number, contents) that the replay writes, revoked ones left out, fast commits
    /// included. Includes the superblock's changes (recovery flag cleared, ...). Empty without replay.
    pub writes: BTreeMap<u64, Box<[u8]>>,
    /// Whether there was something to replay and it was replayed.
    pub replayed: bool,
    /// Whether the journal is unusable and a repair would drop and recreate it.
    pub dropped: bool,
}

/// Examines the journal of `fs` (internal, or external on `external`) and, if `replay` is set and it is dirty,
/// works out what a replay writes. A read error never makes a journal look empty: it is raised as such.
/// Refuses when the file system needs an external journal that was not given.
pub fn examine(
    _fs: &Fs<'_>,
    _external: Option<&dyn Device>,
    _replay: bool,
    _findings: &mut Findings,
) -> Result<JournalOutcome, Refusal> {
    Ok(JournalOutcome::default())
}
