// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress on standard error: a bar on a terminal, a line a second elsewhere when it is asked for, lines of JSON for programs.

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use fsmend_engine::Progress;
use fsmend_engine::progress::{self, Fetched, Totals};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use terminal_size::terminal_size_of;

use crate::common_args::Show as Wanted;
use crate::machine;
use crate::numbers::{bytes, duration, rate, seconds};

/// Programs get a line at first after so long, and then whenever a twentieth more time has gone by.
const JSON_EVERY_MIN: Duration = Duration::from_millis(5);

/// Runs that are over sooner show nothing.
const QUIET_FOR: Duration = Duration::from_secs(1);
/// Until then, what comes from devices is watched.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const BAR_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(1);
/// Below this share done, the time left would be a guess.
const GUESS_BELOW: f64 = 0.02;

/// Columns of the bar; terminals of fewer than [`BAR_FROM`] columns show none.
const BAR_WIDTH: usize = 24;
const BAR_FROM: usize = 60;
/// Columns of a terminal that does not tell.
const USUAL_WIDTH: usize = 80;

/// While nothing gets done for longer than this, the end cannot be nearer than that again.
const STALL_MIN: Duration = Duration::from_millis(200);

/// Takes the bar off the screen, if `when` says that there is one.
pub fn clear_line(when: Wanted) {
    if Ticker::new(when).show == Show::Bar {
        eprint!("\r\x1b[2K");
    }
}

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
    Json,
}

impl Ticker {
    /// A ticker that shows itself when `when` says so.
    pub fn new(when: Wanted) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let show = match when {
            Wanted::Never => Show::Nothing,
            Wanted::Json => Show::Json,
            Wanted::Auto if !terminal => Show::Nothing,
            Wanted::Always if !terminal => Show::Lines,
            Wanted::Auto | Wanted::Always => Show::Bar,
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
            scope.spawn(move || match self.show {
                Show::Json => tell_programs(self, progress, &ends),
                _ => tick(self, progress, &ends),
            });
            work();
            drop(done);
        });
    }
}

/// For how long nothing has got done.
#[derive(Default)]
struct Stall {
    /// What was done and read when it was seen last that something was, and when.
    last: Option<(Totals, Instant)>,
}

impl Stall {
    /// What is left, if nothing seemed to change but `left`: work that has taken so long already is not taken to end sooner than in as long again.
    fn at_least(&mut self, totals: Totals, now: Instant, left: Option<Duration>) -> Option<Duration> {
        let is_new =
            |(last, _): &(Totals, Instant)| (last.done, last.bytes_read) != (totals.done, totals.bytes_read);
        if self.last.as_ref().is_none_or(is_new) {
            self.last = Some((totals, now));
        }
        let stalled = self.last.map_or(Duration::ZERO, |(_, since)| now.saturating_duration_since(since));
        left.map(|left| if stalled > STALL_MIN { left.max(stalled) } else { left })
    }
}

/// When it began, what had been fetched by then, and what when it was first seen that something was.
struct Start {
    time: Instant,
    fetched: Option<u64>,
    first: Option<(Duration, u64)>,
}

impl Start {
    fn now() -> Self {
        Start { time: Instant::now(), fetched: machine::fetched(), first: None }
    }

    fn elapsed(&self) -> Duration {
        self.time.elapsed()
    }

    /// What was fetched since the first requests were under way; nothing by then.
    fn fetched(&mut self) -> Option<Fetched> {
        let (now, bytes) = (self.elapsed(), machine::fetched()?);
        if self.first.is_none() && bytes > self.fetched? {
            self.first = Some((now, bytes));
        }
        let (since, before) = self.first.unwrap_or((now, bytes));
        let nanoseconds = now.saturating_sub(since).as_nanos() as u64;
        Some(Fetched { bytes: bytes.saturating_sub(before), nanoseconds })
    }
}

fn tick(ticker: &Ticker, progress: &[Progress], ends: &Receiver<()>) {
    let mut started = Start::now();
    while started.elapsed() < QUIET_FOR {
        if ends.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        started.fetched();
    }
    let bar = (ticker.show == Show::Bar).then(new_bar);
    let mut stall = Stall::default();
    loop {
        let (totals, stage) = look(progress);
        let left = time_left(ticker, progress, started.fetched());
        let left = stall.at_least(totals, Instant::now(), left);
        let text = words(totals, stage, started.elapsed(), left);
        match &bar {
            Some(bar) => bar.set_message(line(share(totals), &text, width())),
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

fn tell_programs(ticker: &Ticker, progress: &[Progress], ends: &Receiver<()>) {
    let mut started = Start::now();
    let mut wait = JSON_EVERY_MIN;
    let mut stall = Stall::default();
    while ends.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        let (totals, stage) = look(progress);
        let elapsed = started.elapsed();
        let left = time_left(ticker, progress, started.fetched());
        let left = stall.at_least(totals, Instant::now(), left);
        eprintln!("{}", as_json(totals, stage, elapsed, left));
        wait = JSON_EVERY_MIN.max(elapsed / 20);
    }
}

fn as_json(totals: Totals, stage: &str, elapsed: Duration, left: Option<Duration>) -> serde_json::Value {
    serde_json::json!({
        "elapsed": elapsed.as_secs_f64(),
        "stage": stage,
        "share": share(totals),
        "left": left.map(|left| left.as_secs_f64()),
        "bytes_read": totals.bytes_read,
    })
}

/// Until the last of those that are at it is done, by what was measured; not sooner than the limit of reading allows.
fn time_left(ticker: &Ticker, progress: &[Progress], fetched: Option<Fetched>) -> Option<Duration> {
    let left = progress::time_left(progress, fetched).map(Duration::from_nanos)?;
    Some(left.max(ticker.limit.map(|limit| reading_left(progress, limit)).unwrap_or_default()))
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    bar
}

/// Columns of the terminal just now.
fn width() -> usize {
    terminal_size_of(std::io::stderr()).map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0))
}

/// The line of a terminal with so many columns: it never reaches the last one, where some begin a new line.
fn line(share: f64, text: &str, width: usize) -> String {
    let percent = (share * 100.0).clamp(0.0, 100.0);
    let whole = if width < BAR_FROM {
        format!("{percent:.0}%  {text}")
    } else {
        let filled = (percent / 100.0 * BAR_WIDTH as f64) as usize;
        let head = if filled < BAR_WIDTH { ">" } else { "" };
        let bar = format!("{}{head}", "=".repeat(filled));
        format!("{bar:BAR_WIDTH$} {percent:>3.0}%  {text}")
    };
    whole.chars().take(width.saturating_sub(1)).collect()
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

/// What is said beside the bar: stage, bytes, rate, time left.
fn words(totals: Totals, stage: &str, elapsed: Duration, left: Option<Duration>) -> String {
    let mut parts = Vec::new();
    if !stage.is_empty() {
        parts.push(stage.to_owned());
    }
    parts.push(format!("{} read", bytes(totals.bytes_read)));
    parts.push(rate(totals.bytes_read, elapsed));
    if let Some(left) = left.filter(|_| (GUESS_BELOW..1.0).contains(&share(totals))) {
        parts.push(format!("{} left", duration(left)));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_time_left() {
        let totals = Totals { known: 100, done: 25, bytes_read: 30 << 20 };
        let text = words(totals, "directories", Duration::from_secs(10), Some(Duration::from_secs(30)));
        assert_eq!(text, "directories, 30 MiB read, 3 MiB/s, 30.0 s left");
        let start = words(Totals::default(), "", Duration::from_secs(1), None);
        assert_eq!(start, "0 B read, 0 B/s", "nothing is known of the time left at the start");
    }

    #[test]
    fn programs_get_numbers() {
        let totals = Totals { known: 100, done: 25, bytes_read: 7 };
        let line = as_json(totals, "directories", Duration::from_secs(2), Some(Duration::from_secs(6)));
        let wanted = serde_json::json!({ "elapsed": 2.0, "share": 0.25, "left": 6.0, "bytes_read": 7, "stage": "directories" });
        assert_eq!(line, wanted);
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
        progress[0].stage("directories").spend(1_000_000_000);
        let left = |limit: u64| {
            let ticker = Ticker::new(Wanted::Never).limited(Some(limit));
            time_left(&ticker, &progress, None).map(|left| left.as_secs())
        };
        assert_eq!(left(1 << 20), Some(60));
        assert_eq!(left(1 << 30), Some(3), "the limit is not what it waits for");
    }

    #[test]
    fn the_line_never_wraps_at_any_width() {
        let text = "delayed certification, 123.4 MiB read, 56.7 MiB/s, 1 h 23 min left";
        for width in 0..200 {
            let line = line(0.5, text, width);
            assert!(line.chars().count() < width.max(1), "{width}: {line}");
            assert!(line.is_ascii());
        }
        assert_eq!(line(0.5, "maps", 40), "50%  maps");
        assert_eq!(line(0.5, "maps", 80), format!("{}>{}  50%  maps", "=".repeat(12), " ".repeat(11)));
        assert!(line(1.0, "maps", 80).starts_with(&format!("{} 100%", "=".repeat(24))));
    }

    #[test]
    fn a_run_that_stands_still_does_not_promise_319_ms_for_ten_seconds() {
        let (mut stall, start) = (Stall::default(), Instant::now());
        let said = Some(Duration::from_millis(319));
        let totals = |done| Totals { known: 100, done, bytes_read: 7 };
        let mut left = |done, seconds| {
            stall
                .at_least(totals(done), start + Duration::from_secs(seconds), said)
                .map(|left| left.as_secs())
        };
        assert_eq!([left(88, 0), left(88, 5), left(88, 10)], [Some(0), Some(5), Some(10)]);
        assert_eq!([left(89, 11), left(89, 13)], [Some(0), Some(2)], "something was done");
        assert_eq!(stall.at_least(totals(90), start, None), None, "nothing is known of it");
    }

    #[test]
    fn work_is_done_whether_shown_or_not() {
        for when in [Wanted::Never, Wanted::Always, Wanted::Json] {
            let mut done = false;
            Ticker::new(when).run_beside(&[Progress::new()], || done = true);
            assert!(done);
        }
    }
}
