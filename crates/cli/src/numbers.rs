// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers for people: sizes with suffixes in, thousands separators and units out.

use fsmend_base::width;
use std::time::Duration;

pub use fsmend_session::numbers::{bytes, counted, parse_size, percent, thousands};

/// Parses a number of bytes a second: a size, with or without `/s`; nothing at all would never end.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_size(text.trim_end_matches("/s"))? {
        0 => Err("the limit must be at least one byte".to_owned()),
        rate => Ok(rate),
    }
}

/// Parses a block size: a power of two from 1 KiB to 64 KiB.
pub fn parse_block_size(text: &str) -> Result<u32, String> {
    let size = parse_size(text)?;
    match u32::try_from(size) {
        Ok(size) if size.is_power_of_two() && (1024..=65536).contains(&size) => Ok(size),
        _ => Err("a block size is a power of two from 1024 to 65536".to_owned()),
    }
}

/// Parses a span of time: a number with the unit s, m, h, d or w.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as 90m, 12h or 7d".to_owned();
    let unit = text.char_indices().last().map(|(at, _)| at).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit);
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// A span of time in the unit that suits it: `13 ms`, `1.25 s`, `2 min 5 s`, `3 h 12 min`.
pub fn duration(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 if span.as_micros() < 1000 => format!("{} µs", span.as_micros()),
        0 => format!("{} ms", span.as_millis()),
        1..10 => format!("{:.2} s", span.as_secs_f64()),
        10..60 => format!("{:.1} s", span.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", thousands(seconds / 3600), seconds / 60 % 60),
    }
}

/// Seconds as a span of time; nonsense (negative, infinite, not a number) is none.
pub fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or_default()
}

/// Bytes per second over `span`; nothing for an empty span.
pub fn rate(number: u64, span: Duration) -> String {
    if span.is_zero() {
        return "-".to_owned();
    }
    format!("{}/s", bytes(width::whole(number as f64 / span.as_secs_f64())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_block_sizes_are_understood() {
        assert_eq!((parse_rate("50M"), parse_rate("1GiB/s")), (Ok(50 << 20), Ok(1 << 30)));
        assert!(parse_rate("0").is_err() && parse_rate("/s").is_err() && parse_rate("5/h").is_err());
        assert_eq!(parse_block_size("4K"), Ok(4096));
        assert!(parse_block_size("3K").is_err() && parse_block_size("128K").is_err());
    }

    #[test]
    fn spans_of_time_are_understood() {
        for (text, seconds) in
            [("45s", 45), ("90m", 5400), ("12h", 43_200), ("7d", 604_800), ("2w", 1_209_600)]
        {
            assert_eq!(parse_span(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "7", "d", "7 d", "-1d", "99999999999999999999d", "7µ", "é"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_read_well() {
        let written: Vec<_> =
            [0.0004, 0.013, 1.25, 42.04, 125.0, 11_520.0].into_iter().map(seconds).map(duration).collect();
        assert_eq!(written, ["400 µs", "13 ms", "1.25 s", "42.0 s", "2 min 5 s", "3 h 12 min"]);
        assert_eq!(seconds(f64::NAN), Duration::ZERO);
        assert_eq!(rate(2 << 20, Duration::from_secs(2)), "1 MiB/s");
    }
}
