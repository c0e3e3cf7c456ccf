// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replay of fast commits: which of them count, and what they change.
//!
//! The area begins at the end of the log. It counts when its first record is a head of the transaction behind the
//! last full commit; each tail with the right checksum makes everything before it count.

use fsmend_base::InodeNo;
use fsmend_engine::Findings;
use fsmend_engine::problem::Problem;
use fsmend_ext_format::checksum::crc32c;
use fsmend_ext_format::fast_commit::{Change, FastCommitTag, Record, records};

use super::changes::Changes;
use super::log::Log;
use super::problems::{FAST_COMMIT_CORRUPT, FAST_COMMIT_UNAPPLIED, UNREADABLE};
use super::replay_overlay::ReplayOverlay;
use super::superblock::LogBounds;

/// Replays the fast commits of transaction `sequence` on `overlay`, where `orphans` are on the list. Tells whether all of them could be applied.
/// Memory is bounded by the size of the area.
pub(crate) fn replay(
    log: &Log<'_>,
    bounds: &LogBounds,
    sequence: u32,
    overlay: &mut ReplayOverlay<'_>,
    (now, orphans): (u64, &[InodeNo]),
    findings: &mut Findings,
) -> bool {
    let mut scan = Scan { sequence, ..Scan::default() };
    // The block at the end of the log stays unused.
    for index in bounds.last + 1..bounds.end {
        match log.read(index) {
            Ok(block) => {
                if !scan.block(&block) {
                    break;
                }
            }
            Err(error) => {
                findings.raise(Problem::new(&UNREADABLE).stored(index).detail("why", error.to_string()));
                return false;
            }
        }
    }
    if let Some(why) = scan.trouble.filter(|_| scan.tails == 0) {
        findings.raise(Problem::new(&FAST_COMMIT_CORRUPT).detail("why", why));
        return false;
    }
    overlay.promise(scan.valid.iter().filter_map(|change| match *change {
        Change::AddRange { physical, count, .. } if count > 0 => {
            Some((physical, physical.saturating_add(u64::from(count) - 1)))
        }
        _ => None,
    }));
    let mut changes = Changes::new(overlay, now, orphans);
    scan.valid.into_iter().for_each(|change| changes.apply(change));
    let left_out = changes.finish();
    for (inode, why) in &left_out {
        findings.raise(Problem::new(&FAST_COMMIT_UNAPPLIED).inode(InodeNo(*inode)).detail("why", *why));
    }
    left_out.is_empty()
}

/// The records that count, as far as the scan has come.
#[derive(Default)]
struct Scan {
    sequence: u32,
    started: bool,
    /// Checksum since the last tail.
    crc: u32,
    tails: u32,
    pending: Vec<Change>,
    valid: Vec<Change>,
    trouble: Option<&'static str>,
}

impl Scan {
    /// Takes one block of the area in. Tells whether the next one has to be looked at.
    fn block(&mut self, block: &[u8]) -> bool {
        for record in records(block) {
            if !self.started && record.tag != FastCommitTag::HEAD {
                return false;
            }
            self.started = true;
            if !self.record(&record) {
                return false;
            }
        }
        self.started
    }

    fn record(&mut self, record: &Record<'_>) -> bool {
        let transaction = record.transaction();
        match record.tag {
            FastCommitTag::HEAD if transaction.is_none_or(|(sequence, _)| sequence != self.sequence) => {
                return false;
            }
            FastCommitTag::HEAD if transaction.is_some_and(|(_, features)| features != 0) => {
                self.trouble = Some("they have unknown features");
                return false;
            }
            FastCommitTag(1..=9) => {}
            _ => {
                self.trouble = Some("a record has an unknown type");
                return false;
            }
        }
        self.crc = crc32c(self.crc, record.covered());
        if record.tag == FastCommitTag::TAIL {
            return self.tail(transaction);
        }
        self.pending.extend(record.change());
        true
    }

    fn tail(&mut self, transaction: Option<(u32, u32)>) -> bool {
        if transaction != Some((self.sequence, self.crc)) {
            self.trouble = Some("the checksum is wrong");
            return false;
        }
        self.crc = 0;
        self.tails += 1;
        self.valid.append(&mut self.pending);
        true
    }
}
