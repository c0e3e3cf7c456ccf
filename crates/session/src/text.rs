// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text that may hold what is on a disk, and moments, for people.

use jiff::Timestamp;

/// `text` with control characters made visible, so that nothing that stands on a disk can steer the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}

/// `text` with a capital at its beginning.
pub fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// A moment, given in seconds since the epoch, for people.
pub fn utc(now: u64) -> String {
    moment(now).strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A moment, given in seconds since the epoch; the last one that has a date for what lies behind it.
pub fn moment(now: u64) -> Timestamp {
    i64::try_from(now).ok().and_then(|now| Timestamp::from_second(now).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_183_513), "2026-11-20 14:05:13 UTC");
        assert!(utc(u64::MAX).starts_with("9999-12-"));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[31mb"), "a\u{FFFD}[31mb");
    }
}
