//! How far a run is: counters that workers add to and a ticker thread reads, without a lock anywhere.
//!
//! A stage announces work as it becomes known and takes it off as it is done, both in the same weighted units
//! (roughly nanoseconds; only their proportions matter). Whoever shows progress reads the sums; nothing here looks
//! at a clock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// More stages than this share the last place.
const STAGES_MAX: usize = 24;

/// The counters of one run.
#[derive(Debug, Default)]
pub struct Progress {
    stages: [OnceLock<StageProgress>; STAGES_MAX],
}

/// The counters of one stage.
#[derive(Debug, Default)]
pub struct StageProgress {
    name: &'static str,
    known: AtomicU64,
    done: AtomicU64,
    bytes_read: AtomicU64,
}

/// The counters of all stages together, as they were at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Weighted work that is known of, done or not.
    pub known: u64,
    /// Weighted work that is done; never shown as more than `known`.
    pub done: u64,
    /// Bytes read so far.
    pub bytes_read: u64,
}

impl Progress {
    /// No stages yet.
    pub fn new() -> Self {
        Self::default()
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
    /// stage that has not begun, as many as in all others together.
    pub fn bytes_left(&self) -> u64 {
        let all = self.totals();
        let left = self.stages().map(|stage| stage.totals()).map(|stage| match stage.done {
            0 => scaled(all.bytes_read, stage.known, all.done),
            done => scaled(stage.bytes_read, stage.known - done, done),
        });
        left.fold(0, u64::saturating_add)
    }

    /// The sums over all stages.
    pub fn totals(&self) -> Totals {
        self.stages().fold(Totals::default(), |sum, stage| sum.plus(stage.totals()))
    }
}

impl StageProgress {
    /// What the stage is called.
    pub fn name(&self) -> &'static str {
        self.name
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

    /// Work that is known of.
    pub fn known(&self) -> u64 {
        self.known.load(Relaxed)
    }

    /// Work that is done.
    pub fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }

    /// The counters as they are now.
    pub fn totals(&self) -> Totals {
        let known = self.known();
        Totals { known, done: self.done().min(known), bytes_read: self.bytes_read.load(Relaxed) }
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
