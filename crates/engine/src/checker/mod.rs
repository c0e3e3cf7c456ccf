// SPDX-License-Identifier: MIT OR Apache-2.0
//! A whole check and a whole repair, for a format that implements the traits of this module and of the cross-checks: nothing else is needed. It is written
//! for formats whose directories and maps can be read from the record of an inode alone; a format with more to gain from its own way of scanning
//! (maps and directories read while inode tables are still on their way) calls the cross-checks by itself.
//!
//! The order: static structures are claimed; chunks of inodes are read side by side: a fast path clears healthy records and suspects get the full check at once, then the
//! directories of the chunk are read. What records lead to is read many blocks at a time (`ahead.rs`). Suspect directories are inspected in the order of their numbers; then
//! come the passes of the table in `passes.rs`.
//! [`Checker`] gives all this to the rounds of a repair.

mod ahead;
mod context;
mod directories;
mod estimate;
mod files;
mod former;
mod joined;
mod limit;
mod mend;
mod passes;
mod scan;
mod shapes;
mod window;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fsmend_base::InodeNo;
use fsmend_device::{Counted, Device, Request};

use crate::claims::Claims;
use crate::crosscheck::allocation::{AllocationMaps, Observed, Sum};
use crate::crosscheck::links::LinkRules;
use crate::crosscheck::owners::OwnerRows;
use crate::crosscheck::tree::TreeRows;
use crate::edits::Edit;
use crate::inodes::{InodeTable, Kind};
use crate::laps::Laps;
use crate::names::paths::Directories;
use crate::names::traces::Traces;
use crate::options::{CheckOptions, RepairOptions};
use crate::pool::PoolConfig;
use crate::repair::changes::{joined, laid};
use crate::repair::{Changes, Format, Mended, Partial, Round, WritableOverlay};
use crate::report::{CheckReport, JournalUse, Naming, Summary};
use crate::scan::certification::DirectorySummary;
use crate::scan::memory_plan::Expected;
use crate::shared_maps::SharedMapInodes;
use crate::{Budget, Findings, Problem, Progress, Refusal, Refused, Row};

pub use context::{Input, RepairContext};
pub use mend::{LOST_FOUND, Moved, Mover, lost_found_among, mend_in_place};
pub use scan::RecordGatherer;

/// A family of file systems.
pub trait Family: Sync {
    /// What is known of a file system without the device that it was read from.
    type Layout: Clone + Send;
    /// The file system on a device.
    type Volume<'d>: Checkable;

    /// Reads and judges the superblock and what leads to all the rest. What is wrong with them is raised, with edits that mend it; the layout is what they will be.
    /// Refuses what is no such file system. What it keeps for later passes is charged to the budget ([`Kept`](crate::kept::Kept)).
    fn open(
        &self,
        device: &dyn Device,
        with: (&CheckOptions, &Arc<Budget>),
        findings: &mut Findings,
    ) -> Result<Self::Layout, Refusal>;

    /// The same, but what the scan sees by the way may be taken on trust ([`Checkable::is_misled`]).
    fn open_trusting(
        &self,
        device: &dyn Device,
        with: (&CheckOptions, &Arc<Budget>),
        findings: &mut Findings,
    ) -> Result<Self::Layout, Refusal> {
        self.open(device, with, findings)
    }

    /// The file system on `device`.
    fn volume<'d>(&self, layout: Self::Layout, device: &'d dyn Device) -> Self::Volume<'d>;

    /// What a pending journal writes; raises what there is to say of it. What it leaves is opened again, and that is what is checked.
    fn replay(&self, _layout: &Self::Layout, _device: &dyn Device, _findings: &mut Findings) -> Changes {
        Changes::new()
    }

    /// Works out what mends what a check of `device` has found, and what is lost by that. [`mend_in_place`] does it for formats whose volumes are [`Repairable`]; one that
    /// never overwrites writes what follows from the facts to new places.
    fn mend(
        &self,
        device: &dyn Device,
        layout: Self::Layout,
        found: Wrongs<'_>,
        room: (PoolConfig<'_>, &Budget),
    ) -> Result<Mended, Refusal>;
}

/// What a check leaves behind for a repair.
pub struct Wrongs<'a> {
    /// What inspections mended.
    pub edits: Vec<Edit>,
    /// The facts of the whole file system.
    pub input: Input,
    /// What is wrong.
    pub findings: &'a Findings,
}

/// What a record of an inode leaves behind.
#[derive(Clone, Debug, Default)]
pub struct InodeSummary {
    /// What it is.
    pub kind: Option<Kind>,
    /// Its link count.
    pub links: u16,
    /// The claim units of its map, in runs: first unit, number of units.
    pub units: Vec<(u64, u64)>,
    /// Contents that are still to be read ([`Checkable::summarize_but_contents`]); their units are not among `units`.
    pub contents: Option<Contents>,
    /// The units are those of a directory whose blocks are still to be read ([`Checkable::summarize_but_contents`]).
    pub has_unread_blocks: bool,
}

/// Contents in one piece whose checksum the record of the inode has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contents {
    /// Where they lie.
    pub place: Request,
    /// How many of the bytes there count.
    pub size: u32,
    /// What their checksum has to be.
    pub checksum: u32,
    /// Their claim units: the first, and how many.
    pub units: (u64, u64),
}

/// A file system that can be checked.
pub trait Checkable: LinkRules + AllocationMaps + TreeRows + Directories {
    /// The same file system on another device.
    type On<'a>: Checkable + Send
    where
        Self: 'a;

    /// The same file system, read from `device`.
    fn on<'a>(&'a self, device: &'a dyn Device) -> Self::On<'a>;

    /// What the report says of it.
    fn summary(&self) -> Summary;

    /// What is known of the work before it begins.
    fn expected(&self) -> Expected;

    /// How many inodes there are.
    fn inodes_count(&self) -> u32;

    /// How many inodes of a chunk have to be looked at, from its first one on: all, but where some were never written.
    fn scanned_in(&self, chunk: u32) -> u32 {
        let before = self.inodes_per_chunk().saturating_mul(chunk);
        self.inodes_count().saturating_sub(before).min(self.inodes_per_chunk())
    }

    /// Bytes of the record of an inode.
    fn record_bytes(&self) -> usize;

    /// How many records follow one another, counted from the first inode of a chunk on: all of it, but for formats whose blocks of inodes lie anywhere. Such make their chunks of several
    /// blocks, since a chunk of few inodes takes more memory than its facts. Of a block without a place no inode is in use.
    fn records_in_a_row(&self) -> u32 {
        self.inodes_per_chunk()
    }

    /// Where the record of an inode lies.
    fn record_place(&self, inode: InodeNo) -> Option<u64>;

    /// Calls `claim` for each run of units that no inode owns, and that is in use.
    fn visit_static(&self, claim: &mut dyn FnMut(u64, u64));

    /// The fast path: fills `summary` from a record that is in order, and returns whether it is. Raises nothing. It may be called several times, with more to be read each time: it
    /// goes on reading what can be found where a read fails.
    fn summarize(&self, inode: InodeNo, record: &[u8], summary: &mut InodeSummary) -> bool;

    /// The same, but contents whose checksum the record has need not be read: then the summary says what they have to be, and the record is in order if they are
    /// ([`has_checksum`](Self::has_checksum)). So the scan can read those of many inodes at once, in the order of the disk.
    ///
    /// Nor need the blocks of a directory be read: then the record is in order, and the units are claimed, if [`summarize_directory`](Self::summarize_directory) says that the
    /// blocks are. Otherwise the record is looked at again with its blocks, which must not come to another kind or link count.
    fn summarize_but_contents(&self, inode: InodeNo, record: &[u8], summary: &mut InodeSummary) -> bool {
        self.summarize(inode, record, summary)
    }

    /// Whether `contents` are these bytes of their place.
    fn has_checksum(&self, _contents: &Contents, _bytes: &[u8]) -> bool {
        false
    }

    /// The full check of a record: raises what is wrong with it, with edits that mend it; the summary is that of the record as it will be.
    fn inspect(&self, inode: InodeNo, record: &[u8], findings: &mut Findings) -> InodeSummary;

    /// The size that a record stores, in bytes, if it is in use.
    fn size_of(&self, record: &[u8]) -> Option<u64>;

    /// The problem of a record that cannot be read.
    fn unreadable(&self, inode: InodeNo) -> Problem;

    /// The fast path of a directory, whose record is in order: gathers where its entries lead, and returns whether it is in order by itself. Called as
    /// [`summarize`](Self::summarize) is.
    fn summarize_directory(&self, inode: InodeNo, record: &[u8], summary: &mut DirectorySummary) -> bool;

    /// Adds the blocks that [`summarize_directory`](Self::summarize_directory) reads, if the record alone says which these are; false if it takes more. Then the scan reads many
    /// of them at once, and formats that [borrow](Device::borrow) look at them where they are.
    fn directory_blocks(&self, _record: &[u8], _blocks: &mut Vec<Request>) -> bool {
        false
    }

    /// The full check of a directory, entry by entry, beside what is known of the inodes that they lead to ([`judge_entry`]). Raises what is wrong, with edits; `summary` gets
    /// the entries that stay.
    fn inspect_directory(
        &self,
        inode: InodeNo,
        inodes: &InodeTable,
        findings: &mut Findings,
        summary: &mut DirectorySummary,
    );

    /// Directories that the fast path cleared before all was known that they lead to, and that it contradicts in what facts do not say. Asked once, when all inodes are known; they
    /// are inspected.
    fn contradicted(&self) -> Vec<InodeNo> {
        Vec::new()
    }

    /// Whether the scan contradicts what opening took on trust: then all that was found is dropped, and everything begins again with [`Family::open`].
    fn is_misled(&self) -> bool {
        false
    }

    /// The rows of units that several inodes claim.
    fn contest_rows(&self) -> OwnerRows;

    /// The rows of what copies of such units lose.
    fn copy_rows(&self) -> CopyRows;

    /// Whether whatever a repair writes of a file gets a new place, as in a log: that its blocks lie elsewhere is nothing to tell then.
    fn moves_what_it_writes(&self) -> bool {
        false
    }

    /// The inodes whose maps are given up, since too many share them: neither the fast path clears their records nor does the full check walk their maps. `None` for formats
    /// whose records hold whole maps.
    fn shared_maps(&self) -> Option<&SharedMapInodes> {
        None
    }

    /// What had to be done in a poorer way for want of memory, beside what the engine does: sentences.
    fn degraded(&self) -> Vec<String> {
        Vec::new()
    }

    /// Where something still names one of `wanted`, inodes without a name: entries that were deleted, or are left of lost directories in what nothing claims. `None`
    /// for formats that do not look.
    fn traces(&self, _wanted: &BTreeSet<InodeNo>, _facts: (&InodeTable, &Claims)) -> Option<Traces> {
        None
    }

    /// Compares the depth that inodes of directories store with their place in the tree. Not for formats that store none.
    fn check_depths(&self, _inodes: &InodeTable, _findings: &mut Findings) {}

    /// Compares the totals that the superblock keeps with the sums over all maps, where it keeps some.
    fn check_totals(&self, _sums: &[Sum], _findings: &mut Findings) {}

    /// Compares what the format keeps of the space that owners use with what their inodes say. Not for formats that keep nothing of that.
    fn check_quotas(&self, _findings: &mut Findings) {}
}

/// The catalogue rows of units that could not be copied. Both are raised by the repair.
#[derive(Clone, Copy, Debug)]
pub struct CopyRows {
    /// No unit is free: the file gets a hole.
    pub no_room: &'static Row,
    /// The unit cannot be read: the file gets zeroes.
    pub unreadable: &'static Row,
}

/// A file system that can be repaired. All of these write to the overlay that the volume is read from.
pub trait Repairable: Checkable {
    /// Puts a link count in a record.
    fn set_links(&self, record: &mut [u8], count: u16);

    /// Seals a record that was changed, e.g. with its checksum.
    fn seal(&self, inode: InodeNo, record: &mut [u8]);

    /// Where a claim unit lies, and its bytes. Units follow each other without gaps.
    fn unit_place(&self, unit: u64) -> (u64, usize);

    /// Units that belong together: a run of units of a file never crosses a multiple of this.
    fn run_units(&self) -> u64 {
        1
    }

    /// Asks `mover` about every run of units in the map of an inode, and makes the map lead to where it was moved. Asks about a block of the map before
    /// those that it leads to, and changes it in its new place.
    fn move_units(&self, to: &dyn WritableOverlay, inode: InodeNo, record: &mut [u8], mover: &mut Mover<'_>);

    /// Makes `inode` an empty directory in `unit`, below `parent`.
    fn make_directory(&self, to: &dyn WritableOverlay, inode: InodeNo, unit: u64, parent: InodeNo);

    /// Makes room for more entries in a directory, in units that `take` gives: so many in a row that do not cross a multiple of [`run_units`](Self::run_units).
    /// False where its map is full, or no units are left.
    fn extend_directory(
        &self,
        to: &dyn WritableOverlay,
        inode: InodeNo,
        take: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> bool;

    /// The name that a file or directory without a name gets in lost+found: its number. Its former name follows, where that is known and wanted.
    fn recovered_name(&self, inode: InodeNo) -> String {
        format!("#{inode}")
    }

    /// Adds a name to a directory. False where there is no room.
    fn add_name(
        &self,
        to: &dyn WritableOverlay,
        directory: InodeNo,
        name: &[u8],
        target: (InodeNo, Kind),
    ) -> bool;

    /// Takes the names that lead to `target` out of a directory.
    fn remove_names(&self, to: &dyn WritableOverlay, directory: InodeNo, target: InodeNo);

    /// Makes the parent entry of a directory lead to `parent`.
    fn set_parent(&self, to: &dyn WritableOverlay, directory: InodeNo, parent: InodeNo);

    /// Corrects the depth that inodes of directories store, after all directories were reconnected. Calls `mending` with each inode before its record is written.
    fn settle_depths(
        &self,
        _to: &dyn WritableOverlay,
        _inodes: &InodeTable,
        _mending: &mut dyn FnMut(InodeNo),
    ) {
    }

    /// Writes a map, and the counts beside it.
    fn store_map(&self, to: &dyn WritableOverlay, area: u32, map: usize, observed: &Observed);

    /// Writes the totals.
    fn store_totals(&self, to: &dyn WritableOverlay, sums: &[Sum]);

    /// Writes what owners use, after all else.
    fn store_quotas(&self, _to: &dyn WritableOverlay) {}

    /// Why `changes` must not be written to this file system, if so: something beside the checker would have to know of them.
    fn forbids(&self, _changes: &Changes) -> Option<Refusal> {
        None
    }
}

/// What an entry of a directory comes to, beside the facts of what it leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryVerdict {
    /// It stays.
    Right,
    /// It stays, with another type.
    IsReally(Kind),
    /// It leads to an inode that is not in use, or to none.
    LeadsNowhere,
    /// It leads to a directory that has a name already.
    SecondName,
}

/// Judges an entry of the directory `holder` that leads to `target` and says that it is a `said`.
pub fn judge_entry(inodes: &InodeTable, holder: InodeNo, target: InodeNo, said: Kind) -> EntryVerdict {
    let kind = inodes.kind(target);
    if kind == Kind::Unused || target == holder {
        return EntryVerdict::LeadsNowhere;
    }
    let has_name = || inodes.directory(target).is_some_and(|fact| fact.parent.load(Relaxed) != 0);
    if kind == Kind::Directory && (has_name() || inodes.prefers_other(target, holder)) {
        return EntryVerdict::SecondName;
    }
    if kind == said { EntryVerdict::Right } else { EntryVerdict::IsReally(kind) }
}

/// A family, as rounds of repair see it.
#[derive(Clone, Copy, Debug)]
pub struct Checker<F>(pub F);

/// What a check leaves behind for the repair of the same round.
pub struct Facts<L> {
    device: Arc<dyn Device>,
    replayed: Changes,
    layout: L,
    edits: Vec<Edit>,
    input: Input,
    budget: Arc<Budget>,
}

/// A report, and what a repair needs if one is wanted and something is wrong.
type Checked<F> = (CheckReport, Option<Facts<<F as Family>::Layout>>);

/// A way to open a file system.
type Opener<F> = fn(
    &F,
    &dyn Device,
    (&CheckOptions, &Arc<Budget>),
    &mut Findings,
) -> Result<<F as Family>::Layout, Refusal>;

impl<F: Family> Checker<F> {
    /// Checks the file system on `device`.
    pub fn check(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        progress: &Progress,
        cancel: &AtomicBool,
    ) -> Result<CheckReport, Refused> {
        Ok(Format::check(self, device, options, Naming::All, (progress, cancel))?.0)
    }

    /// Works out a verified repair of the file system on `device`. Nothing is written.
    pub fn plan(
        &self,
        device: &Arc<dyn Device>,
        options: &RepairOptions,
        progress: &Progress,
        cancel: &AtomicBool,
    ) -> Result<crate::report::Repair, Refused> {
        crate::repair::plan(self, device, options, progress, cancel)
    }

    fn check_from(
        &self,
        device: &Arc<dyn Device>,
        (options, naming): (&CheckOptions, Naming),
        watch: (&Progress, &AtomicBool),
    ) -> Result<Checked<F>, Refused> {
        let mut open: Opener<F> = F::open_trusting;
        loop {
            if let Some(checked) = self.attempt(open, device, (options, naming), watch)? {
                return Ok(checked);
            }
            // This one takes nothing on trust, so it ends.
            open = F::open;
        }
    }

    /// A check of what `open` opens; `None` if that was misled.
    fn attempt(
        &self,
        open: Opener<F>,
        device: &Arc<dyn Device>,
        (options, naming): (&CheckOptions, Naming),
        (progress, cancel): (&Progress, &AtomicBool),
    ) -> Result<Option<Checked<F>>, Refused> {
        let mut findings = Findings::new().gathering(options.repair.is_some());
        let counted = Arc::new(Counted::new(Arc::clone(device)));
        let mut laps = Laps::new(options, Arc::clone(&counted));
        let refused = |refusal, findings| Refused { refusal, findings: Box::new(findings) };
        let below: Arc<dyn Device> = counted;
        let budget = Arc::new(Budget::new(options.memory));
        let (layout, replayed) = match self.open_replayed(open, &below, (options, &budget), &mut findings) {
            Ok(opened) => opened,
            Err(refusal) => return Err(refused(refusal, findings)),
        };
        laps.lap("opening", 1);
        let overlay: Arc<dyn Device> =
            if replayed.is_empty() { below } else { Arc::new(laid(&below, &replayed)) };
        let volume = self.0.volume(layout.clone(), &*overlay);
        let run = scan::Run { options, naming, progress, cancel, budget: &budget };
        let checked = passes::check(&volume, run, &mut laps, findings)
            .map_err(|refusal| refused(refusal, Findings::new()))?;
        let Some((input, report)) = checked else { return Ok(None) };
        drop(volume);
        let (mut report, edits) = report;
        report.stats = laps.take();
        if !replayed.is_empty() {
            report.summary.journal = JournalUse::Replayed;
        }
        let is_wrong = !report.findings.is_empty() || !edits.is_empty() || !replayed.is_empty();
        let facts = (options.repair.is_some() && is_wrong).then(|| Facts {
            device: Arc::clone(device),
            replayed,
            layout,
            edits,
            input,
            budget: Arc::clone(&budget),
        });
        Ok(Some((report, facts)))
    }

    /// Opens the file system as its journal leaves it, and tells what that writes.
    fn open_replayed(
        &self,
        open: Opener<F>,
        device: &Arc<dyn Device>,
        with: (&CheckOptions, &Arc<Budget>),
        findings: &mut Findings,
    ) -> Result<(F::Layout, Changes), Refusal> {
        let mut early = findings.fresh();
        let opened = open(&self.0, &**device, with, &mut early);
        let layout = match opened {
            Ok(layout) if with.0.replay => layout,
            other => {
                findings.merge(early);
                return Ok((other?, Changes::new()));
            }
        };
        let replayed = self.0.replay(&layout, &**device, findings);
        if replayed.is_empty() {
            findings.merge(early);
            return Ok((layout, replayed));
        }
        // What the journal brings up to date is judged as the journal leaves it.
        let layout = open(&self.0, &laid(device, &replayed), with, findings)?;
        Ok((layout, replayed))
    }
}

impl<F: Family> Format for Checker<F> {
    type Facts = Option<Facts<F::Layout>>;

    fn check(
        &self,
        device: &Arc<dyn Device>,
        options: &CheckOptions,
        naming: Naming,
        watch: (&Progress, &AtomicBool),
    ) -> Result<(CheckReport, Option<Self::Facts>), Refused> {
        let (report, facts) = self.check_from(device, (options, naming), watch)?;
        Ok((report, Some(facts)))
    }

    fn repair(
        &self,
        facts: Self::Facts,
        options: &CheckOptions,
        report: &mut CheckReport,
    ) -> Result<Round, Refused> {
        let Some(Facts { device, replayed, layout, edits, input, budget }) = facts else {
            return Ok(Round::default());
        };
        let overlay = laid(&device, &replayed);
        let found = Wrongs { edits, input, findings: &report.findings };
        let Mended { changes, copies, mends, lost } = self
            .0
            .mend(&overlay, layout, found, (options.repair_pool(), &budget))
            .map_err(|refusal| Refused { refusal, findings: Box::default() })?;
        report.findings.merge(lost);
        let (changes, copies) = joined(&overlay, changes, copies);
        Ok(Round { changes, copies, mends, ..Round::default() })
    }

    fn prepare(&self, _device: &Arc<dyn Device>, _options: &RepairOptions) -> Result<Changes, Refused> {
        Ok(Changes::new())
    }
}

impl<F: Family> Partial for Checker<F> {
    fn records(
        &self,
        repaired: &Arc<dyn Device>,
        options: &RepairOptions,
        declined: &[&Problem],
    ) -> Result<Vec<(u64, u64)>, Refused> {
        let layout = self
            .0
            .open(&**repaired, (&options.check, &nothing_kept()), &mut Findings::new())
            .map_err(|refusal| Refused { refusal, findings: Box::default() })?;
        let volume = self.0.volume(layout, &**repaired);
        let len = volume.record_bytes() as u64;
        let inodes = declined.iter().filter_map(|problem| problem.object.inode);
        Ok(inodes.filter_map(|inode| volume.record_place(inode)).map(|at| (at, at + len)).collect())
    }

    fn replayed(&self, device: &Arc<dyn Device>, options: &RepairOptions) -> Result<Changes, Refused> {
        let (_, replayed) = self
            .open_replayed(F::open, device, (&options.check, &nothing_kept()), &mut Findings::new())
            .map_err(|refusal| Refused { refusal, findings: Box::default() })?;
        Ok(replayed)
    }

    fn marked_unclean(&self, _device: &Arc<dyn Device>, changes: Changes) -> Changes {
        changes
    }
}

/// Records of a chunk that follow one another.
struct Neighbours {
    /// The place of the first of them in the chunk.
    index: usize,
    first: InodeNo,
    count: usize,
    /// Where they lie.
    place: u64,
}

/// The records of a chunk that have to be looked at, in the order of their numbers.
fn neighbours<V: Checkable>(volume: &V, chunk: u32) -> impl Iterator<Item = Neighbours> {
    let (row, count) = (volume.records_in_a_row().max(1), volume.scanned_in(chunk));
    let start = chunk * volume.inodes_per_chunk() + volume.first_inode();
    (0..count).step_by(row as usize).filter_map(move |index| {
        let first = InodeNo(start + index);
        let (index, count) = (index as usize, row.min(count - index) as usize);
        Some(Neighbours { index, first, count, place: volume.record_place(first)? })
    })
}

/// Reads the record of an inode; `None` where there is none, or where it cannot be read.
pub fn read_record<V: Checkable>(volume: &V, inode: InodeNo) -> Option<Vec<u8>> {
    let mut record = vec![0; volume.record_bytes()];
    volume.device().read_at(volume.record_place(inode)?, &mut record).ok()?;
    Some(record)
}

/// The summary of a record as it will be; `None` where it cannot be read.
pub fn summary_of<V: Checkable>(volume: &V, inode: InodeNo) -> Option<InodeSummary> {
    let record = read_record(volume, inode)?;
    let mut summary = InodeSummary::default();
    if !volume.summarize(inode, &record, &mut summary) {
        summary = volume.inspect(inode, &record, &mut Findings::new());
    }
    Some(summary)
}

/// The budget of what is opened for a look: nothing is kept.
fn nothing_kept() -> Arc<Budget> {
    Arc::new(Budget::new(0))
}

fn stopped(cancel: &AtomicBool) -> Result<(), Refusal> {
    if cancel.load(Relaxed) { Err(Refusal::stopped()) } else { Ok(()) }
}
