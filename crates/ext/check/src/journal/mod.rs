// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal: its inode, its superblock, its transactions; and its replay in memory.

mod changes;
pub(crate) mod copies;
pub(crate) mod extents;
mod external;
mod fast_commit;
pub(crate) mod indirect;
mod log;
pub(crate) mod map;
mod names;
mod place;
pub mod problems;
mod recovery;
pub(crate) mod repair;
pub(crate) mod replay_overlay;
mod superblock;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use fsmend_base::{BlockNo, InodeNo};
use fsmend_device::Device;
use fsmend_engine::Findings;
use fsmend_engine::problem::{Problem, Row, Value};
use fsmend_engine::repair::Changes;
use fsmend_ext_format::checksum::crc32c;
use fsmend_ext_format::features::{Compat, Incompat};
use fsmend_ext_format::journal::{
    JOURNAL_BLOCKS_MIN, JOURNAL_MAGIC, JOURNAL_SUPERBLOCK_SIZE, RawJournalSuperblock,
};
use fsmend_ext_format::superblock::{RawSuperblock, SuperblockState};
use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::U32 as Be32;
use zerocopy::little_endian::U32;

use crate::orphan::{self, JournalState};
use crate::{Fs, Refusal};
use log::Log;
use problems::{
    BLOCK_OUTSIDE, DATA_CORRUPT, ERRNO, EXTERNAL_HINT, INODE_BAD, LOG_BROKEN, LOG_CORRUPT,
    NO_ROOM_FOR_FAST_COMMITS, NOT_REPLAYED, NOTHING_TO_REPLAY, RECOVERY_NOT_FLAGGED,
    RECOVERY_WITHOUT_JOURNAL, RECREATED, REPLAYED, STRAY_UUID, SUPERBLOCK_BAD, SUPERBLOCK_MISSING,
    TRANSACTION_CORRUPT, UNREADABLE, V2_FIELDS, WITHOUT_FEATURE,
};
use recovery::{Recovery, Trouble};
use replay_overlay::ReplayOverlay;
use superblock::{Loaded, LogBounds};

/// What came of examining the journal.
#[derive(Clone, Debug, Default)]
pub struct JournalOutcome {
    /// Blocks (file-system block number, contents) that the replay writes, revoked ones left out, fast commits
    /// included. Includes the superblock's changes (recovery flag cleared, journal dropped, ...), also without replay.
    pub changes: Changes,
    /// Whether there was something to replay and it was replayed.
    pub replayed: bool,
    /// The list of orphans as it was before fast commits were applied: these log records of inodes, and with them the links of a list
    /// that they know nothing of.
    pub listed: Vec<InodeNo>,
    /// Whether the journal is unusable and a repair would drop and recreate it.
    pub dropped: bool,
    /// What has to be written to the device of an external journal: byte offsets and bytes.
    pub external_changes: Changes,
}

impl JournalOutcome {
    /// What the release of orphans has to know of it, `was_open` telling that the file system was not left cleanly.
    pub(crate) fn state(&self, was_open: bool) -> JournalState<'_> {
        JournalState { replayed: self.replayed || was_open, dropped: self.dropped, listed: &self.listed }
    }
}

/// Examines the journal of `fs` (internal, or external on `external`) and, if `replay` is set and it is dirty,
/// works out what a replay writes. A read error never makes a journal look empty: it is raised as such.
/// Refuses when the file system needs an external journal that was not given, and when what a replay writes takes more than
/// `room` bytes of memory.
pub fn examine(
    fs: &Fs<'_>,
    external: Option<&dyn Device>,
    replay: bool,
    room: u64,
    findings: &mut Findings,
) -> Result<JournalOutcome, Refusal> {
    let overlay = ReplayOverlay::new(fs);
    let outcome = JournalOutcome::default();
    let mut examination =
        Examination { fs, overlay, findings, outcome, room, needed: 0, is_unreadable: false };
    examination.run(external, replay)?;
    let Examination { overlay, mut outcome, needed, .. } = examination;
    if needed > room {
        return Err(too_large(needed, room));
    }
    outcome.changes = overlay.into_changes();
    Ok(outcome)
}

struct Examination<'a, 'd> {
    fs: &'a Fs<'d>,
    overlay: ReplayOverlay<'d>,
    findings: &'a mut Findings,
    outcome: JournalOutcome,
    /// Memory that replayed blocks may take, and what they need.
    room: u64,
    needed: u64,
    /// Whether some block of the journal could not be read.
    is_unreadable: bool,
}

/// Memory for a replayed block beside its contents: its place in the list of sources, in the overlay of the replay and in that of the run.
const REPLAYED_BLOCK_BYTES: u64 = 160;

fn too_large(needed: u64, room: u64) -> Refusal {
    let [needed, room] = [needed, room].map(|bytes| bytes.div_ceil(1 << 20));
    Refusal {
        code: "memory-too-small",
        message: format!(
            "the blocks that the journal holds take {needed} MiB of memory when they are replayed, and {room} MiB are left"
        ),
        hint: "Allow more (--memory), or check what is on the disk as it is (--no-replay)".to_owned(),
    }
}

impl Examination<'_, '_> {
    fn has_journal(&self) -> bool {
        self.fs.geometry.features.has_compat(Compat::HAS_JOURNAL)
    }

    fn needs_recovery(&self) -> bool {
        self.fs.geometry.features.has_incompat(Incompat::RECOVER)
    }

    /// Whether there is a journal, and the file system was left cleanly.
    fn is_at_rest(&self) -> bool {
        self.has_journal() && !self.needs_recovery()
    }

    fn run(&mut self, external: Option<&dyn Device>, replay: bool) -> Result<(), Refusal> {
        let raw = &self.fs.superblock;
        let named =
            raw.s_journal_inum.get() != 0 || raw.s_journal_uuid != [0; 16] || raw.s_journal_dev.get() != 0;
        if !self.has_journal() && !self.needs_recovery() && !named {
            return Ok(());
        }
        // A journal in a file of the file system goes before one that is only named by its UUID.
        let is_external =
            raw.s_journal_uuid != [0; 16] && (external.is_some() || raw.s_journal_inum.get() == 0);
        if is_external && external.is_none() && !self.has_journal() && !self.needs_recovery() {
            self.findings.raise(Problem::new(&WITHOUT_FEATURE).inode(self.journal_inode()));
            self.edit_superblock(forget_journal);
            return Ok(());
        }
        let log = if is_external {
            if external.is_none() && !replay {
                // What was left cleanly needs nothing from there.
                if self.needs_recovery() {
                    self.findings.raise(Problem::new(&NOT_REPLAYED));
                }
                return Ok(());
            }
            external::open(self.fs, external, self.findings)?
        } else {
            match place::find(self.fs, &mut self.overlay, self.findings) {
                Ok(log) => log,
                Err(place::NoJournal::Unusable(why)) => {
                    self.drop_journal(&INODE_BAD, why);
                    return Ok(());
                }
                Err(place::NoJournal::Unreadable(error)) => {
                    self.unreadable(0, &error.to_string());
                    return Ok(());
                }
            }
        };
        self.judge(&log, replay)
    }

    fn judge(&mut self, log: &Log<'_>, replay: bool) -> Result<(), Refusal> {
        match superblock::load(log, self.fs.geometry.block_size) {
            Loaded::Usable(bounds) => self.consider(log, &bounds, replay),
            Loaded::NotAJournal => self.drop_journal(&SUPERBLOCK_MISSING, ""),
            Loaded::Damaged(why) => self.reset(log, why),
            // No newer program writes such numbers, so nothing can be said about what the log holds.
            loaded
                if loaded.is_rubbish()
                    && log.internal
                    && self.has_journal()
                    && (replay || self.is_at_rest()) =>
            {
                self.reset(log, "its version or its features are invalid");
            }
            // The file system was left cleanly: nothing in the journal is needed, whatever its format is. A check does not judge what it
            // does not know; a repair has to leave a journal that can be used.
            loaded
                if loaded.is_strange()
                    && log.internal
                    && self.is_at_rest()
                    && self.findings.gathers_edits() =>
            {
                self.reset(log, "it has an unknown version or unknown features");
            }
            Loaded::UnknownFeatures(..) | Loaded::UnknownKind(_) | Loaded::Shared(_) if !replay => {
                self.findings.raise(Problem::new(&NOT_REPLAYED));
            }
            Loaded::UnknownFeatures(incompat, ro_compat) => {
                return Err(external::unknown_features(incompat, ro_compat));
            }
            Loaded::UnknownKind(kind) => return Err(external::unknown_kind(kind)),
            Loaded::Shared(users) => return Err(external::shared(users)),
            Loaded::Unreadable(error) => self.unreadable(0, &error.to_string()),
        }
        Ok(())
    }

    fn journal_inode(&self) -> InodeNo {
        InodeNo(self.fs.superblock.s_journal_inum.get())
    }

    fn raise_about_superblock(&mut self, problem: Problem, log: &Log<'_>) {
        let problem = match log.place(log.head).filter(|_| log.internal) {
            Some(block) => problem.inode(self.journal_inode()).block(BlockNo(block)),
            None => problem,
        };
        self.findings.raise(problem);
    }

    fn unreadable(&mut self, journal_block: u64, why: &str) {
        self.is_unreadable = true;
        self.findings.raise(Problem::new(&UNREADABLE).stored(journal_block).detail("why", why));
    }

    /// The journal cannot be used: forget it, as far as the superblock is concerned.
    fn drop_journal(&mut self, row: &'static Row, why: &'static str) {
        let named = self.fs.superblock.s_journal_inum.get() != 0;
        if self.has_journal() || named {
            self.findings.raise(Problem::new(row).inode(self.journal_inode()).detail("why", why));
            self.findings.raise(Problem::new(&RECREATED));
            self.outcome.dropped = true;
        } else if self.needs_recovery() {
            self.findings.raise(Problem::new(&RECOVERY_WITHOUT_JOURNAL));
        }
        self.edit_superblock(|raw| {
            forget_journal(raw);
            clear_recovery(raw, true);
        });
    }

    /// The journal's superblock is damaged: a repair resets it, and nothing is replayed.
    fn reset(&mut self, log: &Log<'_>, why: &'static str) {
        if !self.has_journal() {
            self.drop_journal(&INODE_BAD, why);
            return;
        }
        self.raise_about_superblock(Problem::new(&SUPERBLOCK_BAD).detail("why", why), log);
        // Old transactions still lie in the log: their numbers must not be met again soon.
        let sequence = log.read(log.head).map_or(1, |old| crc32c(u32::MAX, &old));
        let uuid = self.fs.superblock.s_uuid;
        if let Some(raw) = superblock::fresh(log.len, self.fs.geometry.block_size, uuid, sequence) {
            self.store(log, &raw);
        }
        self.edit_superblock(|raw| clear_recovery(raw, true));
    }

    /// Puts the journal's superblock in place, with its checksum.
    fn store(&mut self, log: &Log<'_>, raw: &RawJournalSuperblock) {
        let Some(block) = log.place(log.head) else { return };
        let mut raw = raw.clone();
        if raw.has_csum() {
            raw.s_checksum = Be32::new(raw.computed_checksum());
        }
        if !log.internal {
            let offset = block.saturating_mul(u64::from(self.fs.geometry.block_size));
            self.outcome.external_changes = vec![(offset, raw.as_bytes().to_vec())];
            return;
        }
        let Ok(mut contents) = self.overlay.read(block) else { return };
        if let Some(place) = contents.get_mut(..JOURNAL_SUPERBLOCK_SIZE) {
            place.copy_from_slice(raw.as_bytes());
            self.overlay.put(block, contents);
        }
    }

    fn consider(&mut self, log: &Log<'_>, bounds: &LogBounds, replay: bool) {
        if bounds.had_v2_fields {
            self.raise_about_superblock(Problem::new(&V2_FIELDS), log);
        }
        let hint = self.fs.superblock.s_journal_dev.get();
        if log.internal && self.fs.superblock.s_journal_uuid != [0; 16] {
            self.findings.raise(Problem::new(&STRAY_UUID).inode(self.journal_inode()));
            self.edit_superblock(|raw| raw.s_journal_uuid = [0; 16]);
        }
        if hint != 0 && log.internal {
            let problem = Problem::new(&EXTERNAL_HINT).inode(self.journal_inode());
            self.findings.raise(problem.stored(Value::Hex(u64::from(hint))));
            self.edit_superblock(|raw| raw.s_journal_dev = U32::new(0));
        }
        let start = bounds.raw.s_start.get();
        if !self.has_journal() {
            self.findings.raise(Problem::new(&WITHOUT_FEATURE).inode(self.journal_inode()));
            if self.needs_recovery() {
                self.findings.raise(Problem::new(&RECOVERY_WITHOUT_JOURNAL));
            }
            self.edit_superblock(|raw| {
                forget_journal(raw);
                clear_recovery(raw, true);
            });
            return;
        }
        self.make_sure_of_room(bounds);
        let unflagged = !self.needs_recovery() && start != 0;
        if unflagged {
            let sequence = bounds.raw.s_sequence.get();
            self.findings.raise(Problem::new(&RECOVERY_NOT_FLAGGED).stored(sequence));
        }
        let errno = bounds.raw.s_errno.get();
        if errno != 0 && !self.needs_recovery() {
            self.raise_about_superblock(Problem::new(&ERRNO).stored(errno.wrapping_neg()), log);
            self.edit_superblock(|raw| raw.set_state(raw.state() | SuperblockState::ERRORS));
        }
        if bounds.had_v2_fields || (errno != 0 && !self.needs_recovery()) {
            let mut raw = bounds.raw.clone();
            raw.s_errno = Be32::new(0);
            self.store(log, &raw);
        }
        match (self.needs_recovery() || unflagged, replay) {
            (false, _) => {}
            (true, false) => self.findings.raise(Problem::new(&NOT_REPLAYED)),
            (true, true) => self.replay(log, bounds),
        }
    }

    /// The kernel switches fast commits on in a journal that does not have them yet, and has to find room for them and for a log.
    fn make_sure_of_room(&mut self, bounds: &LogBounds) {
        let (raw, blocks) = (&bounds.raw, bounds.end);
        let needed = JOURNAL_BLOCKS_MIN + u64::from(raw.fast_commit_blocks_if_on());
        let is_wanted = self.fs.geometry.features.has_compat(Compat::FAST_COMMIT);
        // Where the journal has them, its own superblock was judged by that.
        if is_wanted && raw.fast_commit_blocks() == 0 && blocks < needed {
            self.findings.raise(Problem::new(&NO_ROOM_FOR_FAST_COMMITS).stored(blocks).observed(needed));
            self.edit_superblock(|raw| {
                raw.s_feature_compat = U32::new(raw.s_feature_compat.get() & !Compat::FAST_COMMIT.bits());
            });
        }
    }

    fn replay(&mut self, log: &Log<'_>, bounds: &LogBounds) {
        if bounds.raw.s_start.get() == 0 {
            self.findings.raise(Problem::new(&NOTHING_TO_REPLAY));
            self.edit_superblock(|raw| clear_recovery(raw, false));
            return;
        }
        let recovery = recovery::recover(log, bounds, self.fs.geometry.blocks_count);
        self.report(&recovery);
        let mut whole = !recovery.refused && recovery.troubles.is_empty();
        if !recovery.refused {
            whole &= self.write_sources(log, &recovery);
            if bounds.raw.fast_commit_blocks() > 0 {
                let unreadable = self.findings.has(&UNREADABLE);
                self.outcome.listed = orphan::listed(self.fs, &self.overlay);
                whole &= fast_commit::replay(
                    log,
                    bounds,
                    recovery.end,
                    &mut self.overlay,
                    (self.fs.now, &self.outcome.listed),
                    self.findings,
                );
                self.is_unreadable |= !unreadable && self.findings.has(&UNREADABLE);
            }
            self.outcome.replayed = true;
        }
        if self.is_unreadable {
            // What cannot be read just now may still be there: the journal stays as it is.
            return;
        }
        self.close_log(log, bounds, &recovery);
        let errno = bounds.raw.s_errno.get() != 0 || recovery.failed_commit.is_some();
        self.edit_superblock(|raw| {
            clear_recovery(raw, !whole);
            if errno {
                raw.set_state(raw.state() | SuperblockState::ERRORS);
            }
        });
        self.look_again(log);
    }

    /// What was replayed may have put another inode in the journal's place.
    fn look_again(&mut self, log: &Log<'_>) {
        if !log.internal || !self.outcome.replayed {
            return;
        }
        if let Err(place::NoJournal::Unusable(why)) = place::find(self.fs, &mut self.overlay, self.findings) {
            self.drop_journal(&INODE_BAD, why);
        }
    }

    fn report(&mut self, recovery: &Recovery) {
        for trouble in &recovery.troubles {
            let problem = match trouble {
                Trouble::Unreadable { journal_block, error } => {
                    self.unreadable(*journal_block, &error.to_string());
                    continue;
                }
                Trouble::Broken { journal_block, why } => {
                    Problem::new(&LOG_BROKEN).stored(*journal_block).detail("why", *why)
                }
                Trouble::Checksum(sequence) => Problem::new(&LOG_CORRUPT).stored(*sequence),
                Trouble::Data { sequence, block } => {
                    Problem::new(&DATA_CORRUPT).stored(*sequence).block(BlockNo(*block))
                }
                Trouble::Place { block, why } => {
                    Problem::new(&BLOCK_OUTSIDE).block(BlockNo(*block)).detail("why", *why)
                }
            };
            self.findings.raise(problem);
        }
        if let Some(sequence) = recovery.failed_commit {
            self.findings.raise(Problem::new(&TRANSACTION_CORRUPT).stored(sequence));
        }
        if !recovery.refused {
            let blocks = recovery.sources.len() as u64;
            self.findings.raise(Problem::new(&REPLAYED).stored(recovery.transactions).observed(blocks));
        }
    }

    /// Puts the contents of all replayed blocks into the overlay. Tells whether all could be read.
    fn write_sources(&mut self, log: &Log<'_>, recovery: &Recovery) -> bool {
        let mut whole = true;
        let block_bytes = u64::from(self.fs.geometry.block_size) + REPLAYED_BLOCK_BYTES;
        self.needed = recovery.sources.len() as u64 * block_bytes;
        if self.needed > self.room {
            return false;
        }
        for (block, source) in &recovery.sources {
            match log.read(source.journal_block) {
                Ok(mut contents) => {
                    if let Some(magic) = contents.get_mut(..4).filter(|_| source.escaped) {
                        magic.copy_from_slice(&JOURNAL_MAGIC.to_be_bytes());
                    }
                    self.overlay.put(*block, contents);
                }
                Err(error) => {
                    whole = false;
                    self.unreadable(source.journal_block, &error.to_string());
                }
            }
        }
        whole
    }

    /// Marks the log as empty in the journal's own superblock.
    fn close_log(&mut self, log: &Log<'_>, bounds: &LogBounds, recovery: &Recovery) {
        let mut raw = bounds.raw.clone();
        raw.s_start = Be32::new(0);
        raw.s_sequence = Be32::new(recovery.end.wrapping_add(1));
        raw.s_errno = Be32::new(0);
        self.store(log, &raw);
    }

    fn edit_superblock(&mut self, edit: impl FnOnce(&mut RawSuperblock)) {
        // A superblock that cannot be read was settled from a backup, and then there is nothing to keep in step.
        let _ = self.overlay.edit_superblock(edit);
    }
}

fn forget_journal(raw: &mut RawSuperblock) {
    raw.s_feature_compat = U32::new(raw.s_feature_compat.get() & !Compat::HAS_JOURNAL.bits());
    raw.s_journal_inum = U32::new(0);
    raw.s_journal_dev = U32::new(0);
    raw.s_journal_uuid = [0; 16];
    raw.s_jnl_blocks = [U32::new(0); 17];
}

/// Switches needs_recovery off; a file system whose journal could not be used as a whole is not clean.
fn clear_recovery(raw: &mut RawSuperblock, unclean: bool) {
    raw.s_feature_incompat = U32::new(raw.s_feature_incompat.get() & !Incompat::RECOVER.bits());
    if unclean {
        raw.set_state(raw.state() & !SuperblockState::VALID);
    }
}
