// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress on standard error: a bar on a terminal, a line a second elsewhere when it is asked for, lines of JSON for programs.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use fsmend_base::width;
use fsmend_engine::Progress;
use fsmend_engine::progress::{self, Fetched, Totals};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use terminal_size::terminal_size_of;

use crate::common_args::Show as Wanted;
use crate::machine::{self, Disks};
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

/// Columns of the bar: as many as there is room for.
const BAR_WIDTHS: [usize; 2] = [24, 12];
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
    /// Where they come from.
    disks: Disks,
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
        Ticker { show, limit: None, disks: Disks::default() }
    }

    /// The same for a run that reads no more than `limit` bytes a second.
    pub fn limited(self, limit: Option<u64>) -> Self {
        Ticker { limit, ..self }
    }

    /// The same for a run that reads `files`.
    pub fn reading(self, files: &[PathBuf]) -> Self {
        Ticker { disks: Disks::below(files), ..self }
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

/// When it began, what had been fetched by then, and what since: when it was first seen that something was, and at some moments in the last half of the time.
struct Start<'a> {
    time: Instant,
    disks: &'a Disks,
    asked_for: Option<u64>,
    delivered: Option<u64>,
    first: Option<u64>,
    seen: VecDeque<(Duration, u64)>,
}

impl<'a> Start<'a> {
    fn now(disks: &'a Disks) -> Self {
        let (asked_for, delivered) = (machine::fetched(), disks.delivered());
        Start { time: Instant::now(), disks, asked_for, delivered, first: None, seen: VecDeque::new() }
    }

    fn elapsed(&self) -> Duration {
        self.time.elapsed()
    }

    /// Bytes that have come: what was asked for, as far as the disks have delivered as much, to whomever.
    fn came(&self) -> Option<u64> {
        let asked_for = machine::fetched()?.saturating_sub(self.asked_for?);
        let since = |before| Some(self.disks.delivered()?.saturating_sub(before));
        Some(self.delivered.and_then(since).map_or(asked_for, |delivered| delivered.min(asked_for)))
    }

    /// What was fetched since the first requests were under way; nothing by then.
    fn fetched(&mut self) -> Option<Fetched> {
        let (now, bytes) = (self.elapsed(), self.came()?);
        if bytes > 0 {
            self.seen.push_back((now, bytes));
        }
        while self.seen.get(1).is_some_and(|(time, _)| *time <= now / 2) {
            self.seen.pop_front();
        }
        let (since, before) = self.seen.front().copied().unwrap_or((now, bytes));
        let nanoseconds = width::low_u64(now.saturating_sub(since).as_nanos());
        let first = if bytes > 0 { *self.first.get_or_insert(bytes) } else { 0 };
        Some(Fetched {
            bytes: bytes.saturating_sub(first),
            recent: (bytes.saturating_sub(before), nanoseconds),
        })
    }
}

fn tick(ticker: &Ticker, progress: &[Progress], ends: &Receiver<()>) {
    let mut started = Start::now(&ticker.disks);
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
        let words = Words::of(totals, stage, started.elapsed(), left);
        match &bar {
            Some(bar) => bar.set_message(line(share(totals), &words, width())),
            None => eprintln!("fsmend: {:.0}%, {}", share(totals) * 100.0, words.shown(0)),
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
    let mut started = Start::now(&ticker.disks);
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

/// The line of a terminal with so many columns: it never reaches the last one, where some begin a new line. Where there is little room, less is
/// said; the time left goes last.
fn line(share: f64, words: &Words, width: usize) -> String {
    let room = width.saturating_sub(1);
    let percent = (share * 100.0).clamp(0.0, 100.0);
    let text = |left_out| format!("{percent:>3.0}%  {}", words.shown(left_out));
    let text = (0..Words::LEFT_OUT_MAX).map(text).find(|text| text.len() <= room);
    let text = text.unwrap_or_else(|| format!("{percent:.0}%  {}", words.shown(Words::LEFT_OUT_MAX)));
    let bar_width = BAR_WIDTHS.into_iter().find(|bar| bar + 1 + text.len() <= room);
    let whole = match bar_width {
        Some(bar_width) => {
            let filled = width::index(width::whole(percent / 100.0 * bar_width as f64));
            let head = if filled < bar_width { ">" } else { "" };
            format!("{:bar_width$} {text}", format!("{}{head}", "=".repeat(filled)))
        }
        None => text.trim_start().to_owned(),
    };
    whole.chars().take(room).collect()
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

/// What is said beside the bar.
struct Words {
    stage: Option<String>,
    read: String,
    rate: String,
    left: Option<String>,
}

impl Words {
    /// How much can be left out.
    const LEFT_OUT_MAX: usize = 3;

    fn of(totals: Totals, stage: &str, elapsed: Duration, left: Option<Duration>) -> Words {
        Words {
            stage: (!stage.is_empty()).then(|| stage.to_owned()),
            read: format!("{} read", bytes(totals.bytes_read)),
            rate: rate(totals.bytes_read, elapsed),
            left: left
                .filter(|_| (GUESS_BELOW..1.0).contains(&share(totals)))
                .map(|left| format!("{} left", duration(left))),
        }
    }

    /// The words without so many of those that matter least: bytes, rate, stage.
    fn shown(&self, left_out: usize) -> String {
        let parts = [
            self.stage.as_ref().filter(|_| left_out < 3),
            Some(&self.read).filter(|_| left_out < 1),
            Some(&self.rate).filter(|_| left_out < 2),
            self.left.as_ref(),
        ];
        parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_time_left() {
        let totals = Totals { known: 100, done: 25, bytes_read: 30 << 20 };
        let words = Words::of(totals, "directories", Duration::from_secs(10), Some(Duration::from_secs(30)));
        assert_eq!(words.shown(0), "directories, 30 MiB read, 3 MiB/s, 30.0 s left");
        let start = Words::of(Totals::default(), "", Duration::from_secs(1), None);
        assert_eq!(start.shown(0), "0 B read, 0 B/s", "nothing is known of the time left at the start");
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
        let words = Words {
            stage: Some("delayed certification".to_owned()),
            read: "123.4 MiB read".to_owned(),
            rate: "56.7 MiB/s".to_owned(),
            left: Some("1 h 23 min left".to_owned()),
        };
        for width in 0..200 {
            let line = line(0.5, &words, width);
            assert!(line.chars().count() < width.max(1), "{width}: {line}");
            assert!(line.is_ascii());
            // No word is cut while there is room for the time left.
            assert!(width < 22 || line.ends_with("1 h 23 min left"), "{width}: {line}");
        }
        assert_eq!(line(0.5, &words, 22), "50%  1 h 23 min left");
        assert_eq!(line(0.5, &words, 50), "50%  delayed certification, 1 h 23 min left");
        let all = "50%  delayed certification, 123.4 MiB read, 56.7 MiB/s, 1 h 23 min left";
        assert_eq!(line(0.5, &words, 80), all);
        assert_eq!(line(0.5, &words, 90), format!("{}>{}  {all}", "=".repeat(6), " ".repeat(5)));
        assert!(line(1.0, &words, 120).starts_with(&format!("{} 100%", "=".repeat(24))));
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
