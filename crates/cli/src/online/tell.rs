// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said about the view: which one, from when, what it cost those who were writing, and what could not be confirmed.

use std::time::{SystemTime, UNIX_EPOCH};

use fsmend_engine::report::Report;

use super::{Online, View};
use crate::numbers::{counted, duration};
use crate::style::{Style, printable};
use fsmend_session::text::utc;

/// Unconfirmed suspicions of which each kind lists at most so many.
const LISTED: usize = 3;

impl View {
    /// One word for programs.
    pub fn word(self) -> &'static str {
        match self {
            View::LvmSnapshot => "lvm-snapshot",
            View::ReflinkCopy => "reflink-copy",
            View::FrozenCheck => "frozen-check",
            View::FrozenLook => "frozen-look",
            View::FrozenRecords => "frozen-records",
            View::Live => "live",
            View::Pinned => "kept-state",
            View::ReadOnly => "read-only",
            View::NotMounted => "not-mounted",
        }
    }

    fn sentence(self, of: &str) -> String {
        match self {
            View::LvmSnapshot => format!("a snapshot of {of}"),
            View::ReflinkCopy => format!("a copy of {of} that shares its blocks"),
            View::FrozenCheck => "all of the file system, while it was frozen".to_owned(),
            View::FrozenLook => {
                "the live file system, and superblock, groups and journal while it was frozen".to_owned()
            }
            View::FrozenRecords => {
                "the live file system, and everything that was found again while it was frozen".to_owned()
            }
            View::Live => "the live file system".to_owned(),
            View::Pinned => "a state that the mount kept whole, while it went on".to_owned(),
            View::ReadOnly => "the file system, which is mounted read-only".to_owned(),
            View::NotMounted => "the file system, which is not mounted".to_owned(),
        }
    }
}

/// Seconds since the epoch.
pub fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The view in a sentence or two, and what could not be confirmed.
pub fn text(online: &Online, style: Style) -> String {
    let of = printable(online.of.as_deref().unwrap_or("the file system"));
    let mut view = format!("Checked: {}; as of {}", online.view.sentence(&of), utc(seconds(online.at)));
    if let Some(frozen) = online.frozen {
        view.push_str(&format!("; frozen for {}", duration(frozen)));
    }
    let mut text = style.wrap("", &format!("{view}."));
    text.push_str(&unconfirmed_text(online, style));
    match &online.marked {
        None => {}
        Some(Ok(())) => text.push_str("It is marked for repair at the next boot.\n"),
        Some(Err(why)) => {
            text.push_str(&style.wrap("", &format!("Could not mark it for repair: {}.", printable(why))));
        }
    }
    text
}

fn unconfirmed_text(online: &Online, style: Style) -> String {
    let mut text = String::new();
    if let Some(reason) = &online.reason {
        text.push_str(&style.wrap("", &format!("{}.", printable(reason))));
    }
    let count = count(&online.unconfirmed);
    if count == 0 {
        return text;
    }
    text.push_str(&format!(
        "Not confirmed (may be a false positive): {}\n",
        counted(count, "suspicion", "suspicions")
    ));
    for group in online.unconfirmed.damage() {
        text.push_str(&format!("  {} ({})\n", group.row.code, group.total));
        for problem in group.problems.iter().take(LISTED) {
            text.push_str(&style.wrap("  - ", &printable(&problem.message())));
        }
    }
    text
}

/// How many suspicions there are.
pub fn count(unconfirmed: &Report) -> u64 {
    unconfirmed.problem_count()
}
