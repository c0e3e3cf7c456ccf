// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a file system that seems clean may be passed over, and the one line that says so.

use fsmend_ext_check::precheck::Precheck;
use fsmend_ext_format::superblock::{RawSuperblock, SuperblockState};

use super::config::Config;

/// How far the clock may be off when it is believed at all: time zones.
const CLOCK_SLACK: u64 = 24 * 3600;
/// The number of mounts left from which on it is said.
const MOUNTS_WORTH_SAYING: u64 = 5;

/// What the rules look at beside the superblock.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// Seconds since the epoch.
    pub now: u64,
    /// Whether the clock cannot be trusted.
    pub broken_clock: bool,
    /// How far times may lie ahead.
    pub slack: u64,
    /// Whether checks that are only due may wait because the machine runs on battery.
    pub on_battery: bool,
}

impl Circumstances {
    /// The circumstances now.
    pub fn new(now: u64, config: &Config) -> Self {
        Circumstances {
            now,
            broken_clock: config.is_clock_broken(now),
            slack: if config.flag_or("accept_time_fudge", true) { CLOCK_SLACK } else { 0 },
            on_battery: config.flag_or("defer_check_on_battery", true) && super::power::on_battery(),
        }
    }
}

/// What comes of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is due. What may be added to the line.
    Clean(String),
    /// A check is due, and why: follows the name.
    Due(String),
}

/// Applies the rules to what a precheck saw.
pub fn judge(precheck: &Precheck, at: Circumstances) -> Verdict {
    let raw = &precheck.superblock;
    match why_due(raw, precheck.state, precheck.is_doubtful(), at) {
        Some(why) => Verdict::Due(why),
        None => Verdict::Clean(mounts_left(raw, at)),
    }
}

fn why_due(
    raw: &RawSuperblock,
    state: SuperblockState,
    is_doubtful: bool,
    at: Circumstances,
) -> Option<String> {
    if state.contains(SuperblockState::ERRORS) || is_doubtful {
        return Some(" contains a file system with errors".to_owned());
    }
    if !state.contains(SuperblockState::VALID) {
        return Some(" was not cleanly unmounted".to_owned());
    }
    // A check that is only due waits twice as long on battery.
    let patience = if at.on_battery { 2 } else { 1 };
    if let Some(limit) = mount_limit(raw)
        && mounts(raw) >= limit
    {
        let why = format!(" has been mounted {} times without being checked", mounts(raw));
        return (mounts(raw) >= limit * patience).then_some(why);
    }
    let (interval, last) = (u64::from(raw.s_checkinterval.get()), last_check(raw));
    if at.broken_clock || interval == 0 {
        return None;
    }
    if last > at.now.saturating_add(at.slack) {
        let why = " has filesystem last checked time in the future".to_owned();
        return (!at.on_battery).then_some(why);
    }
    let gone = at.now.saturating_sub(last);
    let why = format!(" has gone {} days without being checked", gone / (24 * 3600));
    (gone >= interval * patience).then_some(why)
}

/// How many mounts are left when there are few.
fn mounts_left(raw: &RawSuperblock, at: Circumstances) -> String {
    let mut left = mount_limit(raw).map(|limit| limit.saturating_sub(mounts(raw)).max(1));
    let interval = u64::from(raw.s_checkinterval.get());
    if !at.broken_clock && interval > 0 && at.now.saturating_sub(last_check(raw)) >= interval {
        left = Some(1);
    }
    match left {
        Some(1) if at.on_battery => " (check deferred; on battery)".to_owned(),
        Some(1) => " (check after next mount)".to_owned(),
        Some(left) if left <= MOUNTS_WORTH_SAYING => format!(" (check in {left} mounts)"),
        _ => String::new(),
    }
}

fn mounts(raw: &RawSuperblock) -> u64 {
    u64::from(raw.s_mnt_count.get())
}

/// After how many mounts a check is due; 0 and negative numbers stand for never.
fn mount_limit(raw: &RawSuperblock) -> Option<u64> {
    let limit = raw.s_max_mnt_count.get().cast_signed();
    u64::try_from(limit).ok().filter(|limit| *limit > 0)
}

fn last_check(raw: &RawSuperblock) -> u64 {
    u64::from(raw.s_lastcheck_hi) << 32 | u64::from(raw.s_lastcheck.get())
}

#[cfg(test)]
mod tests {
    use fsmend_ext_format::superblock::RawSuperblock;
    use zerocopy::FromZeros;

    use super::*;

    const NOW: u64 = 1_800_000_000;
    const DAY: u64 = 24 * 3600;

    fn superblock(mounts: u16, limit: i16, interval: u64, last: u64) -> RawSuperblock {
        let mut raw = RawSuperblock::new_zeroed();
        raw.s_mnt_count = mounts.into();
        raw.s_max_mnt_count = (limit as u16).into();
        raw.s_checkinterval = (interval as u32).into();
        raw.s_lastcheck = (last as u32).into();
        raw
    }

    fn usual() -> Circumstances {
        Circumstances { now: NOW, broken_clock: false, slack: CLOCK_SLACK, on_battery: false }
    }

    fn due(raw: &RawSuperblock, state: SuperblockState, at: Circumstances) -> String {
        why_due(raw, state, false, at).unwrap_or_default()
    }

    #[test]
    fn the_state_comes_first() {
        let raw = superblock(9, 3, 0, 0);
        assert!(due(&raw, SuperblockState::VALID | SuperblockState::ERRORS, usual()).contains("with errors"));
        assert!(due(&raw, SuperblockState::empty(), usual()).contains("not cleanly unmounted"));
        assert!(
            why_due(&raw, SuperblockState::VALID, true, usual())
                .is_some_and(|why| why.contains("with errors"))
        );
        assert!(due(&raw, SuperblockState::VALID, usual()).contains("mounted 9 times"));
    }

    #[test]
    fn mounts_are_counted() {
        for (mounts, limit, is_due) in [(2, 3, false), (3, 3, true), (900, 0, false), (900, -1, false)] {
            let raw = superblock(mounts, limit, 0, 0);
            assert_eq!(!due(&raw, SuperblockState::VALID, usual()).is_empty(), is_due, "{mounts} of {limit}");
        }
    }

    #[test]
    fn days_are_counted_unless_the_clock_is_broken() {
        let old = superblock(0, -1, 10 * DAY, NOW - 30 * DAY);
        assert!(due(&old, SuperblockState::VALID, usual()).contains("gone 30 days"));
        assert_eq!(due(&old, SuperblockState::VALID, Circumstances { broken_clock: true, ..usual() }), "");
        let ahead = superblock(0, -1, 10 * DAY, NOW + 2 * DAY);
        assert!(due(&ahead, SuperblockState::VALID, usual()).contains("in the future"));
        let zone = superblock(0, -1, 10 * DAY, NOW + DAY / 2);
        assert_eq!(due(&zone, SuperblockState::VALID, usual()), "", "a time zone is no reason");
        assert!(
            due(&zone, SuperblockState::VALID, Circumstances { slack: 0, ..usual() })
                .contains("in the future")
        );
        assert_eq!(due(&superblock(0, -1, 0, NOW + 9 * DAY), SuperblockState::VALID, usual()), "");
    }

    #[test]
    fn on_battery_a_check_waits_twice_as_long() {
        let battery = Circumstances { on_battery: true, ..usual() };
        assert_eq!(due(&superblock(5, 3, 0, 0), SuperblockState::VALID, battery), "");
        assert_ne!(due(&superblock(6, 3, 0, 0), SuperblockState::VALID, battery), "");
        assert_eq!(due(&superblock(0, -1, 20 * DAY, NOW - 30 * DAY), SuperblockState::VALID, battery), "");
        assert_eq!(mounts_left(&superblock(5, 3, 0, 0), battery), " (check deferred; on battery)");
    }

    #[test]
    fn few_mounts_left_are_told() {
        let left = |mounts| mounts_left(&superblock(mounts, 10, 0, 0), usual());
        assert_eq!(left(4), "");
        assert_eq!(left(5), " (check in 5 mounts)");
        assert_eq!(left(9), " (check after next mount)");
    }
}
