// SPDX-License-Identifier: MIT OR Apache-2.0
//! What e2fsck.conf says, of the relations that mean something here (docs/e2fsck-compat.md lists them all).

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsmend_engine::Row;

use super::profile::Profile;

/// Where the file is, unless `E2FSCK_CONFIG` says otherwise.
const PATH: &str = "/etc/e2fsck.conf";
/// A clock that shows an earlier time was never set: 1 January 2010.
const CLOCK_WAS_SET: u64 = 1_262_304_000;

/// The configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    profile: Profile,
    problems: BTreeMap<u32, Treatment>,
}

/// What `[problems]` says about one code of e2fsck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Treatment {
    /// Whether an unattended repair may fix it.
    pub preen_ok: Option<bool>,
    /// Whether an unattended repair keeps silent about it.
    pub preen_nomessage: Option<bool>,
    /// How many of them are printed.
    pub max_count: Option<u64>,
}

impl Config {
    /// Reads the file of this machine. One that is missing or unreadable is empty.
    pub fn load() -> Self {
        let path = std::env::var_os("E2FSCK_CONFIG").map_or_else(|| PathBuf::from(PATH), PathBuf::from);
        let text = std::fs::read(path).unwrap_or_default();
        Config::from_text(&String::from_utf8_lossy(&text))
    }

    fn from_text(text: &str) -> Self {
        let profile = Profile::parse(text);
        let problems = profile
            .subsections("problems")
            .into_iter()
            .filter_map(|name| {
                let code = u32::from_str_radix(name.strip_prefix("0x")?, 16).ok()?;
                let flag = |tag| profile.flag(&["problems", name, tag]);
                let max_count = profile.number(&["problems", name, "max_count"]);
                let (preen_ok, preen_nomessage) = (flag("preen_ok"), flag("preen_nomessage"));
                Some((code, Treatment { preen_ok, preen_nomessage, max_count }))
            })
            .collect();
        Config { profile, problems }
    }

    /// A relation of `[options]` that is true or false.
    pub fn flag_or(&self, name: &str, default: bool) -> bool {
        let alias = if name == "accept_time_fudge" {
            self.profile.flag(&["options", "buggy_init_scripts"])
        } else {
            None
        };
        self.profile.flag(&["options", name]).or(alias).unwrap_or(default)
    }

    /// A relation of `[options]` that is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.profile.get(&["options", name])
    }

    /// `[defaults] undo_dir`.
    pub fn undo_dir(&self) -> Option<&str> {
        self.profile.get(&["defaults", "undo_dir"])
    }

    /// Whether times mean nothing.
    pub fn is_clock_broken(&self, now: u64) -> bool {
        now < CLOCK_WAS_SET || self.flag_or("broken_system_clock", false)
    }

    /// Whether an unattended repair may fix problems of this kind.
    pub fn preen_ok(&self, row: &Row) -> bool {
        self.treatment(row, |treatment| treatment.preen_ok).unwrap_or(row.preen)
    }

    /// Whether an unattended repair keeps silent about problems of this kind, if the file says anything about it.
    pub fn is_silent(&self, row: &Row) -> Option<bool> {
        self.treatment(row, |treatment| treatment.preen_nomessage)
    }

    /// How many problems of this kind are printed.
    pub fn told_max(&self, row: &Row) -> u64 {
        let all = self.profile.number(&["options", "max_count_problems"]).filter(|count| *count > 0);
        self.treatment(row, |treatment| treatment.max_count).or(all).unwrap_or(u64::MAX)
    }

    fn treatment<T>(&self, row: &Row, get: impl Fn(&Treatment) -> Option<T>) -> Option<T> {
        row.peers.iter().filter_map(|code| self.problems.get(code)).find_map(get)
    }
}

#[cfg(test)]
mod tests {
    use fsmend_ext_check::journal::problems::REPLAYED;
    use fsmend_ext_check::links::problems::ROWS;

    use super::*;

    #[test]
    fn an_empty_file_changes_nothing() {
        let config = Config::from_text("");
        assert!(config.flag_or("accept_time_fudge", true) && !config.flag_or("report_time", false));
        assert!(!config.is_clock_broken(1_800_000_000) && config.is_clock_broken(0));
        assert_eq!(config.told_max(&REPLAYED), u64::MAX);
        assert_eq!(config.preen_ok(&REPLAYED), REPLAYED.preen);
    }

    #[test]
    fn relations_are_followed() {
        let row = ROWS[0];
        let text = format!(
            "[options]\nbuggy_init_scripts = 0\nmax_count_problems = 16\n[problems]\n{:#08x} = {{\npreen_ok = {}\nmax_count = 2\n}}\n",
            row.peers[0], !row.preen
        );
        let config = Config::from_text(&text);
        assert!(!config.flag_or("accept_time_fudge", true));
        assert_eq!(config.preen_ok(row), !row.preen);
        assert_eq!((config.told_max(row), config.told_max(&REPLAYED)), (2, 16));
    }
}
