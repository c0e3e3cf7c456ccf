// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where it writes: standard output and, when e2fsck.conf asks for it, a copy in a log file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::config::Config;
use fsmend_session::text::moment;

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

    /// Writes what goes to the log only.
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
    /// Fills in `pattern`. Times are in UTC.
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
        let date = |format: &str| moment(self.now).strftime(format).to_string();
        match letter {
            'd' | 'H' | 'm' | 'M' | 'S' | 'y' | 'Y' => date(&format!("%{letter}")),
            'D' => date("%Y%m%d"),
            'h' => crate::target::environment().node.replace('/', "_"),
            'N' => self.device.replace('/', "_"),
            'p' => std::process::id().to_string(),
            's' => self.now.to_string(),
            'T' => date("%H%M%S"),
            'u' => std::env::var("USER").unwrap_or_else(|_| "unknown".to_owned()).replace('/', "_"),
            'U' => String::new(),
            '%' => "%".to_owned(),
            other => format!("%{other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_logs() {
        let expansion = Expansion { device: "sda3", now: 1_795_183_513 };
        assert_eq!(expansion.fill("e2fsck-%N.%D-%T%U.%Y%m%d"), "e2fsck-sda3.20261120-140513.20261120");
        assert_eq!(expansion.fill("100%% %q %"), "100% %q ");
    }
}
