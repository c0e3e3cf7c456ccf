// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a run is: counters that workers add to and a ticker thread reads, without a lock anywhere.
//!
//! A stage announces work as it becomes known and takes it off as it is done, in units of its own (inodes, blocks). Work that will come
//! but is not there yet is foreseen. What a unit costs is measured on the way, where a clock was given; until then each stage's first
//! guess has to do, corrected by how far off those of other stages were. The display of progress reads the sums.

use fsmend_base::width;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// More stages than this share the last place.
const STAGES_MAX: usize = 24;

/// What is done of a stage says what the rest will cost once it is this part of all.
const MEASURED_SHARE: u64 = 50;

/// The counters of one run.
#[derive(Debug, Default)]
pub struct Progress {
    stages: [OnceLock<StageProgress>; STAGES_MAX],
    clock: Option<fn() -> u64>,
}

/// Which cost of a stage is meant: what its workers were busy for, or what they computed.
type Cost = fn(&StageProgress) -> u64;

/// What the process has had fetched from devices, by any reader and however far ahead, since the first requests were under way:
/// those keep the device busy, and are there only when others have taken their place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetched {
    /// Bytes.
    pub bytes: u64,
    /// Bytes of late, and nanoseconds in which they came: the device's pace. It changes with what is asked for.
    pub recent: (u64, u64),
}

/// Nanoseconds until the last of all these runs, which go on side by side, is done; `None` while it is unknown.
///
/// What has to be computed goes on at the pace of each kind of work. What has to come from a device goes on at the device's pace, and
/// the work that waits for it says little: the worker that announced blocks may have waited for those that others will find in memory. So the
/// two are told apart by what of the bytes read so far had to be fetched.
pub fn time_left(all: &[Progress], fetched: Option<Fetched>) -> Option<u64> {
    let by_work = all.iter().filter_map(Progress::time_left).max();
    let read: u64 = all.iter().map(|one| one.totals().bytes_read).sum();
    let left: u64 = all.iter().map(Progress::bytes_left).fold(0, u64::saturating_add);
    let computing = all.iter().map(Progress::computing_left).fold(0.0, f64::max);
    let Some((missed, by_device)) = fetched.and_then(|fetched| fetched.time_left(read, left)) else {
        return by_work;
    };
    let by_device = by_device.max(computing);
    match by_work {
        Some(by_work) => Some(width::whole(by_device * missed + by_work as f64 * (1.0 - missed))),
        None => (missed > 0.5).then_some(width::whole(by_device)),
    }
}

impl Fetched {
    /// When `read` of the bytes are used and `left` are still to be: the share of them that memory did not hold, and nanoseconds until
    /// the rest has been fetched.
    fn time_left(self, read: u64, left: u64) -> Option<(f64, f64)> {
        let (fetched, read, left) = (self.bytes as f64, read as f64, left as f64);
        if fetched <= 0.0 {
            return None;
        }
        let missed = (fetched / read.max(1.0)).min(1.0);
        let ahead = (fetched - read).max(0.0);
        let rest = (left * missed - ahead).max(0.0);
        let (bytes, nanoseconds) = self.recent;
        Some((missed, rest / bytes.max(1) as f64 * nanoseconds as f64))
    }
}

/// The counters of one stage.
#[derive(Debug, Default)]
pub struct StageProgress {
    name: &'static str,
    known: AtomicU64,
    foreseen: AtomicU64,
    done: AtomicU64,
    bytes_read: AtomicU64,
    guess: AtomicU64,
    /// Bytes that a unit of work will have to read, and 1; 0 when unknown.
    guessed_bytes: AtomicU64,
    spent: AtomicU64,
    computed: AtomicU64,
    workers: AtomicU64,
}

/// The counters of all stages together, as they were at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Nanoseconds that all work will take one worker, done or not.
    pub known: u64,
    /// Those of the work that is done; never shown as more than `known`.
    pub done: u64,
    /// Bytes read so far.
    pub bytes_read: u64,
}

impl Progress {
    /// No stages yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with a clock (nanoseconds from any fixed point), so that costs can be measured.
    pub fn timed(clock: fn() -> u64) -> Self {
        Progress { clock: Some(clock), ..Self::default() }
    }

    /// Nanoseconds from any fixed point, where there is a clock.
    pub fn now(&self) -> Option<u64> {
        self.clock.map(|clock| clock())
    }

    /// The stage called `name`, added if it is new. Stages keep the order in which they were added.
    pub fn stage(&self, name: &'static str) -> &StageProgress {
        let mut last = None;
        for slot in &self.stages {
            let stage = slot.get_or_init(|| StageProgress { name, ..StageProgress::default() });
            if stage.name == name {
                return stage;
            }
            last = Some(stage);
        }
        last.expect("there is at least one slot, and every slot was filled on the way")
    }

    /// All stages in the order in which they were added.
    pub fn stages(&self) -> impl Iterator<Item = &StageProgress> {
        self.stages.iter().map_while(OnceLock::get)
    }

    /// The first stage that has work outstanding: what the run is busy with.
    pub fn current(&self) -> Option<&StageProgress> {
        self.stages().find(|stage| stage.done() < stage.known())
    }

    /// About how many bytes are still to be read: in each stage as many for the work that is left as for the work that is done; in a
    /// stage that has not begun, as many as was said, or else as many as in all others together.
    pub fn bytes_left(&self) -> u64 {
        let (all, ratio) = (self.totals(), self.ratio(StageProgress::spent));
        let left =
            self.stages().map(|stage| (stage, stage.totals(ratio))).map(|(stage, sums)| match sums.done {
                0 => stage.foreseen_bytes().unwrap_or_else(|| scaled(all.bytes_read, sums.known, all.done)),
                done => scaled(sums.bytes_read, sums.known - done, done),
            });
        left.fold(0, u64::saturating_add)
    }

    /// The sums over all stages, every unit of work weighed with what it costs.
    pub fn totals(&self) -> Totals {
        let ratio = self.ratio(StageProgress::spent);
        self.stages().fold(Totals::default(), |sum, stage| sum.plus(stage.totals(ratio)))
    }

    /// Nanoseconds until all is done, if nothing changes; `None` while nothing was measured.
    pub fn time_left(&self) -> Option<u64> {
        let measured = self.stages().any(|stage| stage.measured(StageProgress::spent).is_some());
        measured.then_some(width::whole(self.nanoseconds_left(StageProgress::spent)))
    }

    /// Nanoseconds until all is computed, if nothing had to be waited for; 0 while nothing was measured.
    fn computing_left(&self) -> f64 {
        let measured = self.stages().any(|stage| stage.measured(StageProgress::computed).is_some());
        if measured { self.nanoseconds_left(StageProgress::computed) } else { 0.0 }
    }

    fn nanoseconds_left(&self, of: Cost) -> f64 {
        let ratio = self.ratio(of);
        self.stages().map(|stage| stage.nanoseconds_left(of, ratio)).sum()
    }

    /// How much longer work takes than was guessed, over all that was measured.
    fn ratio(&self, of: Cost) -> f64 {
        let measured = self.stages().filter(|stage| of(stage) > 0);
        let (spent, guessed) = measured.fold((0.0, 0.0), |(spent, guessed), stage| {
            (spent + of(stage) as f64, guessed + stage.done() as f64 * stage.guess())
        });
        if spent > 0.0 && guessed > 0.0 { spent / guessed } else { 1.0 }
    }
}

impl StageProgress {
    /// What the stage is called.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Says what a unit of its work will cost, in nanoseconds of one worker, and how many workers it will have.
    pub fn guess_cost(&self, nanoseconds: u64, workers: usize) {
        self.guess.store(nanoseconds, Relaxed);
        self.workers.store(workers as u64, Relaxed);
    }

    /// Says how many bytes a unit of its work will have to read.
    pub fn guess_bytes(&self, bytes: u64) {
        self.guessed_bytes.store(bytes.saturating_add(1), Relaxed);
    }

    /// Bytes that all of its work will have to read, if that is known.
    fn foreseen_bytes(&self) -> Option<u64> {
        let bytes = self.guessed_bytes.load(Relaxed).checked_sub(1)?;
        Some(bytes.saturating_mul(self.known()))
    }

    /// Says how much work there will be in all, as far as that is known.
    pub fn foresee(&self, work: u64) {
        self.foreseen.store(work, Relaxed);
    }

    /// Adds the nanoseconds that one worker was busy with some of its work.
    pub fn spend(&self, nanoseconds: u64) {
        self.spent.fetch_add(nanoseconds, Relaxed);
    }

    /// Adds nanoseconds of processor time that some of its work took.
    pub fn compute(&self, nanoseconds: u64) {
        self.computed.fetch_add(nanoseconds, Relaxed);
    }

    /// Announces `work` more.
    pub fn expect(&self, work: u64) {
        self.known.fetch_add(work, Relaxed);
    }

    /// Takes `work` off.
    pub fn finish(&self, work: u64) {
        self.done.fetch_add(work, Relaxed);
    }

    /// Adds `bytes` that were read.
    pub fn read(&self, bytes: u64) {
        self.bytes_read.fetch_add(bytes, Relaxed);
    }

    /// Work that was announced.
    pub fn announced(&self) -> u64 {
        self.known.load(Relaxed)
    }

    /// Work that is known of: announced, or foreseen.
    pub fn known(&self) -> u64 {
        self.announced().max(self.foreseen.load(Relaxed))
    }

    /// Work that is done.
    pub fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }

    /// Nanoseconds that workers were busy with it, all together.
    pub fn spent(&self) -> u64 {
        self.spent.load(Relaxed)
    }

    /// Nanoseconds of processor time that its work took, as far as that was measured.
    pub fn computed(&self) -> u64 {
        self.computed.load(Relaxed)
    }

    /// The counters as they are now, where work takes `ratio` times as long as was guessed.
    fn totals(&self, ratio: f64) -> Totals {
        let cost = self.cost(StageProgress::spent, ratio);
        let known = self.known();
        let weighed = |work: u64| width::whole(work as f64 * cost);
        Totals {
            known: weighed(known),
            done: weighed(self.done().min(known)),
            bytes_read: self.bytes_read.load(Relaxed),
        }
    }

    fn guess(&self) -> f64 {
        self.guess.load(Relaxed).max(1) as f64
    }

    /// Nanoseconds per unit, once enough is done to tell.
    fn measured(&self, of: Cost) -> Option<f64> {
        let (done, spent) = (self.done(), of(self));
        let enough = done.saturating_mul(MEASURED_SHARE) >= self.known();
        (enough && done > 0 && spent > 0).then(|| spent as f64 / done as f64)
    }

    fn cost(&self, of: Cost, ratio: f64) -> f64 {
        self.measured(of).unwrap_or_else(|| self.guess() * ratio)
    }

    fn nanoseconds_left(&self, of: Cost, ratio: f64) -> f64 {
        let left = self.known().saturating_sub(self.done());
        left as f64 * self.cost(of, ratio) / self.workers.load(Relaxed).max(1) as f64
    }
}

impl Totals {
    /// The sum of two.
    pub fn plus(self, other: Totals) -> Totals {
        Totals {
            known: self.known.saturating_add(other.known),
            done: self.done.saturating_add(other.done),
            bytes_read: self.bytes_read.saturating_add(other.bytes_read),
        }
    }
}

/// `bytes` times `part` over `whole`; nothing if there is no whole.
fn scaled(bytes: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(bytes) * u128::from(part);
    u64::try_from(product / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_found_again_and_summed() {
        let progress = Progress::new();
        progress.stage("inode tables").expect(100);
        progress.stage("directories").expect(50);
        progress.stage("inode tables").finish(100);
        progress.stage("directories").finish(70);
        progress.stage("directories").read(4096);
        assert_eq!(
            progress.stages().map(StageProgress::name).collect::<Vec<_>>(),
            ["inode tables", "directories"]
        );
        assert_eq!(progress.totals(), Totals { known: 150, done: 150, bytes_read: 4096 });
        assert!(progress.current().is_none(), "more done than known counts as done");
    }

    #[test]
    fn time_left_comes_from_what_was_measured() {
        let progress = Progress::new();
        let (tables, directories) = (progress.stage("inode tables"), progress.stage("directories"));
        tables.guess_cost(100, 2);
        directories.guess_cost(1000, 2);
        tables.expect(1000);
        directories.foresee(500);
        assert_eq!(progress.time_left(), None, "nothing was measured");
        tables.finish(500);
        tables.spend(100_000);
        assert_eq!(
            progress.time_left(),
            Some((500 * 200 + 500 * 2000) / 2),
            "all is twice as slow as was guessed"
        );
        directories.expect(50);
        directories.finish(50);
        directories.spend(150_000);
        assert_eq!(progress.time_left(), Some((500 * 200 + 450 * 3000) / 2));
        directories.foresee(0);
        assert_eq!(progress.time_left(), Some(500 * 200 / 2), "no more directories came");
    }

    #[test]
    fn bytes_left_are_told_by_stage() {
        let progress = Progress::new();
        assert_eq!(progress.bytes_left(), 0);
        let tables = progress.stage("inode tables");
        tables.expect(100);
        tables.finish(50);
        tables.read(1000);
        progress.stage("directories").expect(30);
        assert_eq!(progress.bytes_left(), 1000 + 600);
        progress.stage("directories").finish(10);
        progress.stage("directories").read(5000);
        assert_eq!(progress.bytes_left(), 1000 + 10_000);
        progress.stage("names").expect(u64::MAX);
        assert!(progress.bytes_left() > 1 << 60);
        progress.stage("names").guess_bytes(0);
        progress.stage("bitmaps").guess_bytes(3);
        progress.stage("bitmaps").expect(5);
        assert_eq!(progress.bytes_left(), 1000 + 10_000 + 15, "it was said how many");
    }

    #[test]
    fn what_comes_from_a_device_comes_at_its_pace() {
        let all = [Progress::new()];
        let (tables, directories) = (all[0].stage("inode tables"), all[0].stage("directories"));
        tables.guess_cost(1, 1);
        tables.guess_bytes(1);
        directories.guess_cost(1, 1);
        directories.guess_bytes(10);
        tables.expect(1000);
        directories.foresee(100);
        let fetched = |bytes, nanoseconds| Some(Fetched { bytes, recent: (bytes, nanoseconds) });
        assert_eq!(time_left(&all, None), None);
        assert_eq!(
            time_left(&all, fetched(500, 1000)),
            Some(3000),
            "a quarter of 2000 bytes, before any of them is used"
        );
        tables.finish(500);
        tables.read(500);
        // Tables wait while directories are fetched: it looks as if they took all the time.
        tables.spend(50_000);
        assert_eq!(time_left(&all, fetched(1000, 1000)), Some(1000), "half of the bytes are there");
        let by_work = all[0].time_left().expect("it was measured");
        assert_eq!(time_left(&all, None), Some(by_work));
        assert_eq!(time_left(&all, fetched(0, 1000)), Some(by_work), "memory held everything");
        let mixed = time_left(&all, fetched(250, 1000)).expect("it was measured");
        assert_eq!(mixed, (by_work + 3000) / 2, "memory held half of it");
        let faster = Some(Fetched { bytes: 1000, recent: (500, 100) });
        assert_eq!(time_left(&all, faster), Some(200), "the device is five times as fast of late");
        tables.compute(5000);
        assert_eq!(
            time_left(&all, fetched(1000, 1000)),
            Some(500 * 10 + 100 * 10),
            "the processor is slower"
        );
    }

    #[test]
    fn too_many_stages_share_the_last_place() {
        let progress = Progress::new();
        let names = (0..100).map(|number| &*Box::leak(number.to_string().into_boxed_str()));
        names.for_each(|name| progress.stage(name).expect(1));
        assert_eq!(progress.totals().known, 100);
        assert_eq!(progress.stages().count(), STAGES_MAX);
    }
}
