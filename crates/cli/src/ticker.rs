//! Progress on standard error: a bar on a terminal, a line a second elsewhere when it is asked for.

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use fsmend_engine::Progress;
use fsmend_engine::progress::Totals;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::When;
use crate::numbers::{bytes, duration, rate, seconds};

/// Runs that are over sooner show nothing.
const QUIET_FOR: Duration = Duration::from_secs(1);
const BAR_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(1);
/// Below this share done, the time left would be a guess.
const GUESS_BELOW: f64 = 0.02;

/// Shows progress while something runs.
pub struct Ticker {
    show: Show,
    /// Most bytes that are read in a second.
    limit: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    Nothing,
    Bar,
    Lines,
}

impl Ticker {
    /// A ticker that shows itself when `when` says so.
    pub fn new(when: When) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let show = match when {
            When::Never => Show::Nothing,
            When::Auto if !terminal => Show::Nothing,
            When::Always if !terminal => Show::Lines,
            When::Auto | When::Always => Show::Bar,
        };
        Ticker { show, limit: None }
    }

    /// The same for a run that reads no more than `limit` bytes a second.
    pub fn limited(self, limit: Option<u64>) -> Self {
        Ticker { limit, ..self }
    }

    /// Does `work` and shows the sum of `progress` beside it until it is done.
    pub fn run_beside(&self, progress: &[Progress], work: impl FnOnce()) {
        if self.show == Show::Nothing {
            return work();
        }
        std::thread::scope(|scope| {
            let (done, ends) = channel::<()>();
            scope.spawn(move || tick(self, progress, &ends));
            work();
            drop(done);
        });
    }
}

fn tick(ticker: &Ticker, progress: &[Progress], ends: &Receiver<()>) {
    let started = Instant::now();
    if ends.recv_timeout(QUIET_FOR) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let bar = (ticker.show == Show::Bar).then(new_bar);
    loop {
        let (totals, stage) = look(progress);
        let least = ticker.limit.map(|limit| reading_left(progress, limit)).unwrap_or_default();
        let text = words(totals, stage, started.elapsed(), least);
        match &bar {
            Some(bar) => {
                bar.set_length(totals.known.max(1));
                bar.set_position(totals.done);
                bar.set_message(text);
            }
            None => eprintln!("fsmend: {:.0}%, {text}", share(totals) * 100.0),
        }
        let wait = if bar.is_some() { BAR_EVERY } else { LINE_EVERY };
        if ends.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3}%  {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// The sums over all targets, and what the first unfinished one is busy with.
fn look(progress: &[Progress]) -> (Totals, &'static str) {
    let totals = progress.iter().fold(Totals::default(), |sum, one| sum.plus(one.totals()));
    let stage = progress.iter().find_map(Progress::current).map_or("", |stage| stage.name());
    (totals, stage)
}

fn share(totals: Totals) -> f64 {
    if totals.known == 0 { 0.0 } else { totals.done as f64 / totals.known as f64 }
}

/// How long it takes at least to read what is left, at `limit` bytes a second.
fn reading_left(progress: &[Progress], limit: u64) -> Duration {
    let left: u64 = progress.iter().map(Progress::bytes_left).sum();
    seconds(left as f64 / limit.max(1) as f64)
}

/// What is said beside the bar: stage, bytes, rate, time left, which is no less than `least`.
fn words(totals: Totals, stage: &str, elapsed: Duration, least: Duration) -> String {
    let mut parts = Vec::new();
    if !stage.is_empty() {
        parts.push(stage.to_owned());
    }
    parts.push(format!("{} read", bytes(totals.bytes_read)));
    parts.push(rate(totals.bytes_read, elapsed));
    let share = share(totals);
    if (GUESS_BELOW..1.0).contains(&share) {
        let left = seconds(elapsed.as_secs_f64() * (1.0 - share) / share);
        parts.push(format!("{} left", duration(left.max(least))));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_time_left() {
        let totals = Totals { known: 100, done: 25, bytes_read: 30 << 20 };
        let text = words(totals, "directories", Duration::from_secs(10), Duration::ZERO);
        assert_eq!(text, "directories, 30 MiB read, 3 MiB/s, 30.0 s left");
        let start = words(Totals::default(), "", Duration::from_secs(1), Duration::ZERO);
        assert_eq!(start, "0 B read, 0 B/s", "nothing is known of the time left at the start");
    }

    #[test]
    fn time_left_heeds_the_read_limit() {
        // Small records are through quickly; what is left are the large ones.
        let progress = [Progress::new()];
        progress[0].stage("inode tables").expect(100);
        progress[0].stage("inode tables").finish(100);
        progress[0].stage("inode tables").read(10 << 20);
        progress[0].stage("directories").expect(100);
        progress[0].stage("directories").finish(25);
        progress[0].stage("directories").read(20 << 20);
        let (totals, _) = look(&progress);
        let left = |limit: u64| words(totals, "", Duration::from_secs(5), reading_left(&progress, limit));
        assert_eq!(left(1 << 20), "30 MiB read, 6 MiB/s, 1 min 0 s left");
        assert_eq!(left(1 << 30), "30 MiB read, 6 MiB/s, 3.00 s left", "the limit is not what it waits for");
    }

    #[test]
    fn work_is_done_whether_shown_or_not() {
        for when in [When::Never, When::Always] {
            let mut done = false;
            Ticker::new(when).run_beside(&[Progress::new()], || done = true);
            assert!(done);
        }
    }
}
