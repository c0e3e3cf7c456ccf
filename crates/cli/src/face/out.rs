//! Where the face writes: standard output and, when e2fsck.conf asks for it, a copy in a log file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::config::Config;

/// Standard output and its copy.
pub struct Out {
    log: Option<File>,
}

impl Out {
    /// Opens the log that `config` asks for, if it can be had. `expand` fills in what percent signs in its name stand for.
    pub fn new(config: &Config, expand: impl Fn(&str) -> String) -> Self {
        let log = config.text("log_filename").map(expand).and_then(|name| open_log(config, &name));
        Out { log }
    }

    /// Writes `text`.
    pub fn print(&mut self, text: &str) {
        self.log_only(text);
        // A reader that has gone away does not stop a repair.
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }

    /// Writes `text` to standard error.
    pub fn complain(&mut self, text: &str) {
        self.log_only(text);
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// Writes what is only told in the log.
    pub fn log_only(&mut self, text: &str) {
        if let Some(log) = &mut self.log {
            let _ = log.write_all(text.as_bytes());
        }
    }
}

/// A relative name lies in `log_dir`, or else in `log_dir_fallback`.
fn open_log(config: &Config, name: &str) -> Option<File> {
    let folders: Vec<PathBuf> = ["log_dir", "log_dir_fallback"]
        .iter()
        .filter_map(|relation| config.text(relation).map(PathBuf::from))
        .collect();
    let append = |path: PathBuf| OpenOptions::new().append(true).create(true).open(path).ok();
    if Path::new(name).is_absolute() || folders.is_empty() {
        return append(PathBuf::from(name));
    }
    folders.into_iter().find_map(|folder| append(folder.join(name)))
}

/// What percent signs stand for in names of logs.
pub struct Expansion<'a> {
    /// The device's name without its folder.
    pub device: &'a str,
    /// Seconds since the epoch.
    pub now: u64,
}

impl Expansion<'_> {
    /// Fills in `pattern`. Times are told in UTC.
    pub fn fill(&self, pattern: &str) -> String {
        let mut text = String::new();
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            match character {
                '%' => {
                    text.push_str(&characters.next().map_or_else(String::new, |letter| self.expand(letter)))
                }
                other => text.push(other),
            }
        }
        text
    }

    fn expand(&self, letter: char) -> String {
        let (year, month, day) = civil_date(self.now / 86_400);
        let (hour, minute, second) = (self.now / 3600 % 24, self.now / 60 % 60, self.now % 60);
        match letter {
            'd' => format!("{day:02}"),
            'D' => format!("{year}{month:02}{day:02}"),
            'h' => crate::mmp::node().replace('/', "_"),
            'H' => format!("{hour:02}"),
            'm' => format!("{month:02}"),
            'M' => format!("{minute:02}"),
            'N' => self.device.replace('/', "_"),
            'p' => std::process::id().to_string(),
            's' => self.now.to_string(),
            'S' => format!("{second:02}"),
            'T' => format!("{hour:02}{minute:02}{second:02}"),
            'u' => std::env::var("USER").unwrap_or_else(|_| "unknown".to_owned()).replace('/', "_"),
            'U' => String::new(),
            'y' => format!("{:02}", year % 100),
            'Y' => year.to_string(),
            '%' => "%".to_owned(),
            other => format!("%{other}"),
        }
    }
}

/// A moment, given in seconds since the epoch, for people.
pub fn utc(now: u64) -> String {
    Expansion { device: "", now }.fill("%Y-%m-%d %H:%M:%S UTC")
}

/// Year, month and day of a day counted from the beginning of 1970, by whole cycles of 400 years.
fn civil_date(days: u64) -> (u64, u64, u64) {
    const CYCLE_DAYS: u64 = 146_097;
    let mut left = days % CYCLE_DAYS;
    let mut year = 1970 + days / CYCLE_DAYS * 400;
    loop {
        let len = if is_leap(year) { 366 } else { 365 };
        if left < len {
            break;
        }
        left -= len;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    for (month, len) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
        if left < len {
            return (year, month, left + 1);
        }
        left -= len;
    }
    (year, 12, 31)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(civil_date(0), (1970, 1, 1));
        assert_eq!(civil_date(11_016), (2000, 2, 29));
        assert_eq!(civil_date(20_777), (2026, 11, 20));
        assert_eq!(civil_date(365), (1971, 1, 1));
        assert!(civil_date(u64::MAX / 86_400).0 > 2_000_000);
    }

    #[test]
    fn names_of_logs() {
        let expansion = Expansion { device: "sda3", now: 1_795_183_513 };
        assert_eq!(expansion.fill("e2fsck-%N.%D-%T%U.%Y%m%d"), "e2fsck-sda3.20261120-140513.20261120");
        assert_eq!(expansion.fill("100%% %q %"), "100% %q ");
    }
}
