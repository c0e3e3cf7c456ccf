// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress as callers of e2fsck read it: lines `PASS CURRENT MAX NAME` on a descriptor, or a bar on the terminal.
//!
//! Stages overlap; callers know five passes and give them fixed shares of the whole. So the share of the work that is done is
//! shown as a place in five virtual passes.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fsmend_engine::Progress;

/// Where the passes end, in thousandths of the whole: what systemd and others reckon with.
const ENDS: [u32; 5] = [700, 900, 920, 950, 1000];
/// Where the scan ends.
const SCANNED: u32 = ENDS[3];
const EVERY: Duration = Duration::from_millis(100);
const BAR_WIDTH: usize = 56;

/// Shows how far a run is.
pub struct Meter {
    /// Whether anything is shown just now.
    shown: AtomicBool,
    /// Set by SIGUSR1, until it is seen.
    switched_on: Arc<AtomicBool>,
    /// Set by SIGUSR2, until it is seen.
    switched_off: Arc<AtomicBool>,
    drawn: Mutex<Drawn>,
    name: String,
}

struct Drawn {
    sink: Sink,
    /// Thousandths of the whole that were printed last; nothing is printed before the first.
    told: Option<u32>,
    bar_is_on_screen: bool,
}

enum Sink {
    Nothing,
    Lines(File),
    Bar,
}

impl Meter {
    /// A meter for `-C`: `None` shows nothing (until SIGUSR1 asks for a bar), 0 a bar, others write to that descriptor, negative
    /// ones once SIGUSR1 came.
    pub fn new(descriptor: Option<i32>, name: &str, is_terminal: bool) -> std::io::Result<Self> {
        let sink = match descriptor {
            None | Some(0) if is_terminal => Sink::Bar,
            None | Some(0) => Sink::Nothing,
            Some(number) => Sink::Lines(fsmend_device::inherited(number.unsigned_abs())?),
        };
        let shown = descriptor.is_some_and(|number| number >= 0);
        let drawn = Drawn { sink, told: None, bar_is_on_screen: false };
        Ok(Meter {
            shown: AtomicBool::new(shown),
            switched_on: Arc::default(),
            switched_off: Arc::default(),
            drawn: Mutex::new(drawn),
            name: name.to_owned(),
        })
    }

    /// What the file system is called from now on.
    pub fn set_name(&mut self, name: &str) {
        self.name = name.to_owned();
    }

    /// Lets SIGUSR1 switch it on and SIGUSR2 off.
    pub fn follow_signals(&self) -> std::io::Result<()> {
        use signal_hook::consts::{SIGUSR1, SIGUSR2};
        signal_hook::flag::register(SIGUSR1, Arc::clone(&self.switched_on))?;
        signal_hook::flag::register(SIGUSR2, Arc::clone(&self.switched_off))?;
        Ok(())
    }

    /// Does `work` and shows `progress` beside it. The passes are closed when `finish` is called, not here.
    pub fn run_beside<T>(&self, progress: &Progress, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let (done, ends) = channel::<()>();
            scope.spawn(move || self.tick(progress, &ends));
            let result = work();
            drop(done);
            result
        })
    }

    fn tick(&self, progress: &Progress, ends: &Receiver<()>) {
        while ends.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            if self.switched_on.swap(false, Relaxed) {
                self.shown.store(true, Relaxed);
            }
            if self.switched_off.swap(false, Relaxed) {
                self.shown.store(false, Relaxed);
                self.clear();
            }
            let totals = progress.totals();
            // What comes behind the scan (links, bitmaps, the look at the repaired file system) is not measured: the last pass is
            // printed when all is over.
            let share = u128::from(totals.done) * u128::from(SCANNED) / u128::from(totals.known.max(1));
            self.tell(u32::try_from(share).map_or(SCANNED, |share| share.min(SCANNED)));
        }
    }

    /// Says that all passes are over.
    pub fn finish(&self) {
        self.tell(1000);
        self.clear();
    }

    /// Takes the bar off the screen, so that text can be written.
    pub fn clear(&self) {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut drawn.bar_is_on_screen) {
            print!("\r{}\r", " ".repeat(79));
        }
    }

    fn tell(&self, share: u32) {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.shown.load(Relaxed) || drawn.told.is_some_and(|told| told >= share) {
            return;
        }
        let text = match &drawn.sink {
            Sink::Nothing => return,
            Sink::Lines(_) => lines(drawn.told, share, &self.name),
            Sink::Bar => bar(share, &self.name),
        };
        drawn.told = Some(share);
        match &mut drawn.sink {
            // The reader may be gone; that does not stop a repair.
            Sink::Lines(file) => drop(file.write_all(text.as_bytes())),
            Sink::Bar | Sink::Nothing => print!("{text}"),
        }
        drawn.bar_is_on_screen = matches!(drawn.sink, Sink::Bar);
    }
}

/// The lines from what was printed last to `share`: every pass on the way is opened and closed.
fn lines(told: Option<u32>, share: u32, name: &str) -> String {
    let mut text = String::new();
    let mut start = 0;
    for (pass, end) in (1..).zip(ENDS) {
        let max = end - start;
        let before = told.map(|told| told.clamp(start, end) - start);
        let now = share.clamp(start, end) - start;
        let is_new = told.is_none_or(|told| told < start) && share >= start && (pass == 1 || share > start);
        if is_new || (pass > 1 && told == Some(start) && share > start) {
            text.push_str(&format!("{pass} 0 {max} {name}\n"));
        }
        if now > before.unwrap_or(0) {
            text.push_str(&format!("{pass} {now} {max} {name}\n"));
        }
        start = end;
    }
    text
}

fn bar(share: u32, name: &str) -> String {
    let filled = (BAR_WIDTH * share as usize / 1000).min(BAR_WIDTH);
    let percent = f64::from(share) / 10.0;
    format!("\r{name}: |{}{}| {percent:.1}%   ", "=".repeat(filled), " ".repeat(BAR_WIDTH - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_passes_at_once() {
        let all = "1 0 700 x\n1 700 700 x\n2 0 200 x\n2 200 200 x\n3 0 20 x\n3 20 20 x\n4 0 30 x\n4 30 30 x\n5 0 50 x\n5 50 50 x\n";
        assert_eq!(lines(None, 1000, "x"), all);
    }

    #[test]
    fn step_by_step() {
        assert_eq!(lines(None, 0, "x"), "1 0 700 x\n");
        assert_eq!(lines(Some(0), 350, "x"), "1 350 700 x\n");
        assert_eq!(lines(Some(350), 800, "x"), "1 700 700 x\n2 0 200 x\n2 100 200 x\n");
        assert_eq!(lines(Some(800), 900, "x"), "2 200 200 x\n");
        assert_eq!(lines(Some(900), 910, "x"), "3 0 20 x\n3 10 20 x\n");
    }

    #[test]
    fn any_steps_tell_every_pass_in_order() {
        for step in 1..200 {
            let (mut told, mut text) = (None, String::new());
            for share in (0..1000).step_by(step).chain([1000]) {
                text.push_str(&lines(told, share, "x"));
                told = Some(share);
            }
            let read: Vec<(u32, u32, u32)> = text
                .lines()
                .filter_map(|line| {
                    let numbers: Vec<u32> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
                    Some((*numbers.first()?, *numbers.get(1)?, *numbers.get(2)?))
                })
                .collect();
            assert!(read.is_sorted_by(|a, b| a < b), "{step}: {text}");
            for pass in 1..=5 {
                assert!(read.iter().any(|(at, now, _)| *at == pass && *now == 0), "{step}");
                assert!(read.iter().any(|(at, now, max)| *at == pass && now == max), "{step}");
            }
        }
    }

    #[test]
    fn the_bar_is_full_at_the_end() {
        assert!(bar(1000, "x").contains(&"=".repeat(BAR_WIDTH)));
        assert!(bar(0, "x").contains("|  ") && bar(500, "x").contains("50.0%"));
    }
}
