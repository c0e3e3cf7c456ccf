// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the laboratory says: results in words and as JSON, and how far it is.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use fsmend_base::width;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

use crate::common_args::{PlainFormat as Format, Show};
use crate::numbers;

/// Steps of the bar.
const STEPS: u64 = 1000;
/// Programs and logs hear so often how far it is.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// The JSON document on what was done.
pub struct Said(Map<String, Value>);

impl Said {
    /// On this command.
    pub fn new(command: &str, target: &Path, seed: u64) -> Self {
        let document = json!({
            "version": crate::json::VERSION,
            "tool": { "name": "fsmend", "version": env!("CARGO_PKG_VERSION") },
            "command": format!("lab {command}"),
            "target": target.display().to_string(),
            "seed": seed,
        });
        Said(document.as_object().cloned().unwrap_or_default())
    }

    /// With one thing more.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// In the form that is wanted.
    pub fn told(self, format: Format, text: String) -> String {
        match format {
            Format::Text => text,
            Format::Json => format!("{:#}", Value::Object(self.0)),
        }
    }
}

/// Something that was measured.
pub struct Result {
    what: &'static str,
    /// `bytes` or `operations`.
    unit: &'static str,
    number: u64,
    time: Duration,
}

impl Result {
    /// So many bytes in so much time.
    pub fn moved(what: &'static str, bytes: u64, time: Duration) -> Self {
        Result { what, unit: "bytes", number: bytes, time }
    }

    /// So many operations.
    pub fn operations(what: &'static str, operations: u64, time: Duration) -> Self {
        Result { what, unit: "operations", number: operations, time }
    }

    fn rate(&self) -> Option<f64> {
        let seconds = self.time.as_secs_f64();
        (seconds > 0.0).then(|| self.number as f64 / seconds)
    }

    /// For programs.
    pub fn as_json(&self) -> Value {
        json!({ "what": self.what, (self.unit): self.number, "seconds": self.time.as_secs_f64(), "per_second": self.rate() })
    }

    /// Text.
    pub fn as_text(&self) -> String {
        let is_bytes = self.unit == "bytes";
        let number = if is_bytes { numbers::bytes(self.number) } else { numbers::thousands(self.number) };
        let rate = self.rate().map_or_else(String::new, |rate| match is_bytes {
            true => format!(", {:.2} MB/s", rate / 1e6),
            false => format!(", {rate:.1} a second"),
        });
        format!("  {:<36} {number} in {}{rate}", self.what, numbers::duration(self.time))
    }
}

/// Shows how far it is.
pub struct Shower {
    how: How,
    last: Instant,
}

enum How {
    Nothing,
    Bar(ProgressBar),
    Lines,
    Json,
}

impl Shower {
    /// Shows itself when `when` says so.
    pub fn new(when: Show) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let how = match when {
            Show::Never => How::Nothing,
            Show::Json => How::Json,
            Show::Auto if !terminal => How::Nothing,
            Show::Always if !terminal => How::Lines,
            Show::Auto | Show::Always => {
                let bar = ProgressBar::new(STEPS);
                let style = ProgressStyle::with_template("{msg:14} {bar:40} {percent:>3}% {elapsed}");
                How::Bar(style.into_iter().fold(bar, ProgressBar::with_style))
            }
        };
        Shower { how, last: Instant::now() }
    }

    /// This part is done to this share.
    pub fn show(&mut self, part: &str, share: f64) {
        match &self.how {
            How::Nothing => {}
            How::Bar(bar) => {
                bar.set_message(part.to_owned());
                bar.set_position(width::whole(share * STEPS as f64));
            }
            How::Lines | How::Json if self.last.elapsed() < TOLD_EVERY => {}
            How::Lines => {
                eprintln!("fsmend: {part}, {:.0}%", share * 100.0);
                self.last = Instant::now();
            }
            How::Json => {
                eprintln!("{}", json!({ "stage": part, "share": share }));
                self.last = Instant::now();
            }
        }
    }
}

impl Drop for Shower {
    fn drop(&mut self) {
        if let How::Bar(bar) = &self.how {
            bar.finish_and_clear();
        }
    }
}
