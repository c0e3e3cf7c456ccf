// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control groups that this process is in, and what they allow it: memory and processor time. Version 2, where the group
//! and every one above it counts, and version 1 for the limits that matter.
//!
//! Everything is read below a folder that stands for `/`, so that tests can bring their own. What cannot be read or understood
//! is no limit.

use std::path::{Component, Path, PathBuf};

use fsmend_device::read_small;
use fsmend_engine::cores::Quota;

/// Limits larger than this are none (version 1 writes a number near the end of the number space).
const MEMORY_MAX: u64 = 1 << 60;

/// The folders of our groups: of each hierarchy our own group first, then those above it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    folders: Vec<PathBuf>,
    /// Our own group of version 2.
    own: Option<PathBuf>,
}

/// Where a hierarchy of groups is mounted.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// The group that is seen there.
    root: String,
    point: String,
    /// Of version 1: the controllers; empty in version 2.
    controllers: Vec<String>,
}

impl Groups {
    /// The groups of this process on the machine below `root`.
    pub fn below(root: &Path) -> Groups {
        let read = |file| read_small(&root.join(file)).unwrap_or_default();
        let mounts: Vec<Mount> = read("proc/self/mountinfo").lines().filter_map(mount).collect();
        let mut groups = Groups::default();
        for line in read("proc/self/cgroup").lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let Some(mount) = mounts.iter().find(|mount| mount.serves(controllers)) else { continue };
            let folders = mount.folders(root, path);
            if controllers.is_empty() {
                groups.own = folders.first().cloned();
            }
            groups.folders.extend(folders);
        }
        groups
    }

    /// The least memory that one of the groups allows, in bytes. Beyond `memory.high` a group is slowed down until it is of no
    /// use, so that counts as well.
    pub fn memory(&self) -> Option<u64> {
        let files = ["memory.max", "memory.high", "memory.limit_in_bytes"];
        let limits = self.folders.iter().flat_map(|folder| files.map(|file| folder.join(file)));
        limits.filter_map(|file| parse_memory(&read_small(&file).ok()?)).min()
    }

    /// The least processor time that one of the groups allows, in thousandths of a core.
    pub fn cores(&self) -> Option<u64> {
        self.folders.iter().filter_map(|folder| quota(folder)).min()
    }

    /// The groups of version 2 that have a quota, with what they have used.
    pub fn quotas(&self) -> Vec<Quota> {
        let quota = |folder: &PathBuf| {
            let stat = read_small(&folder.join("cpu.stat")).ok()?;
            Some(Quota { cores: quota(folder)?, used_ns: parse_used(&stat)? })
        };
        self.folders.iter().filter_map(quota).collect()
    }

    /// The file that tells how long tasks of our own group waited for a core.
    pub fn pressure(&self) -> Option<PathBuf> {
        self.own.as_ref().map(|folder| folder.join("cpu.pressure")).filter(|file| file.is_file())
    }
}

impl Mount {
    /// Whether a line of /proc/self/cgroup with these controllers belongs here.
    fn serves(&self, controllers: &str) -> bool {
        let matters = |name: &str| {
            (name == "memory" || name == "cpu") && self.controllers.iter().any(|own| own == name)
        };
        if controllers.is_empty() { self.controllers.is_empty() } else { controllers.split(',').any(matters) }
    }

    /// The folder of the group `path`, and those above it as far as they are mounted.
    fn folders(&self, root: &Path, path: &str) -> Vec<PathBuf> {
        let point = root.join(self.point.trim_start_matches('/'));
        let below = Path::new(path).strip_prefix(&self.root).unwrap_or(Path::new(""));
        // A group above the one that is mounted (`/../x`, seen from within a namespace) cannot be looked at.
        let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        let own = if is_plain { point.join(below) } else { point.clone() };
        own.ancestors().take_while(|folder| folder.starts_with(&point)).map(Path::to_owned).collect()
    }
}

/// A line of mountinfo, if a hierarchy of groups is mounted there (proc(5): `ID PARENT DEV ROOT POINT OPTIONS FIELDS... - TYPE SOURCE
/// OPTIONS`).
fn mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut right = right.split(' ');
    let controllers = match right.next()? {
        "cgroup2" => Vec::new(),
        "cgroup" => right.nth(1)?.split(',').map(str::to_owned).collect(),
        _ => return None,
    };
    let mut left = left.split(' ').skip(3);
    Some(Mount { root: unescaped(left.next()?), point: unescaped(left.next()?), controllers })
}

/// Blanks and the like stand as `\040` in mountinfo.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, character)| text.replace(escape, character))
}

/// A limit in bytes; `max` and absurdly large numbers are none.
fn parse_memory(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|limit| *limit < MEMORY_MAX)
}

/// The quota of one group, in thousandths of a core.
fn quota(folder: &Path) -> Option<u64> {
    let read = |file| read_small(&folder.join(file)).ok();
    match read("cpu.max") {
        Some(text) => {
            let (quota, period) = text.trim().split_once(' ').unwrap_or((text.trim(), "100000"));
            thousandths(quota, period)
        }
        // Version 1; -1 is none.
        None => thousandths(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?),
    }
}

/// `quota` of each `period`, in thousandths.
fn thousandths(quota: &str, period: &str) -> Option<u64> {
    let (quota, period): (u64, u64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    quota.checked_mul(1000)?.checked_div(period)
}

/// `usage_usec` of cpu.stat, in nanoseconds.
fn parse_used(text: &str) -> Option<u64> {
    let used = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    used.trim().parse::<u64>().ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::{any, prop_assert, proptest};

    use super::*;
    use crate::machine::testing::Fixture;

    const V2: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_group_and_every_one_above_it_counts() {
        let machine = Fixture::new("groups");
        machine.write("proc/self/cgroup", "0::/system.slice/fsck.service\n");
        machine.write("proc/self/mountinfo", &format!("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n{V2}"));
        let folder = "sys/fs/cgroup/system.slice/fsck.service";
        machine.write(&format!("{folder}/memory.max"), "max\n");
        machine.write(&format!("{folder}/memory.high"), "800000000\n");
        machine.write("sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
        machine.write(&format!("{folder}/cpu.max"), "max 100000\n");
        machine.write("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n");
        machine.write("sys/fs/cgroup/system.slice/cpu.stat", "usage_usec 1234\nuser_usec 1000\n");
        let groups = Groups::below(machine.path());
        assert_eq!((groups.memory(), groups.cores()), (Some(800_000_000), Some(1500)));
        assert_eq!(groups.quotas(), [Quota { cores: 1500, used_ns: 1_234_000 }]);
        assert_eq!(groups.pressure(), None);
        machine.write(&format!("{folder}/memory.high"), "max\n");
        machine.write(&format!("{folder}/cpu.max"), "50000 100000\n");
        machine.write(&format!("{folder}/cpu.pressure"), "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
        assert_eq!((groups.memory(), groups.cores()), (Some(1 << 30), Some(500)));
        assert_eq!(groups.pressure(), Some(machine.path().join(folder).join("cpu.pressure")));
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_root_or_under_its_name() {
        for (path, root) in [("/", "/"), ("/docker/abc", "/docker/abc"), ("/../other", "/")] {
            let machine = Fixture::new("container");
            machine.write("proc/self/cgroup", &format!("0::{path}\n"));
            machine.write("proc/self/mountinfo", &V2.replace(" / /sys", &format!(" {root} /sys")));
            machine.write("sys/fs/cgroup/memory.max", "268435456\n");
            machine.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
            let groups = Groups::below(machine.path());
            assert_eq!((groups.memory(), groups.cores()), (Some(256 << 20), Some(2000)), "{path}");
        }
    }

    #[test]
    fn version_1_beside_an_empty_version_2() {
        let machine = Fixture::new("hybrid");
        machine.write("proc/self/cgroup", "4:memory:/a b\n1:cpu,cpuacct:/\n3:cpuset:/\n0::/\n");
        let mounts = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 / /sys/fs/cgroup/me\\040mory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        machine.write("proc/self/mountinfo", mounts);
        machine.write("sys/fs/cgroup/me mory/a b/memory.limit_in_bytes", "9223372036854771712\n");
        machine.write("sys/fs/cgroup/me mory/memory.limit_in_bytes", "536870912\n");
        machine.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
        machine.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
        let groups = Groups::below(machine.path());
        assert_eq!((groups.memory(), groups.cores()), (Some(512 << 20), None));
        machine.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
        assert_eq!((groups.cores(), groups.quotas()), (Some(2500), Vec::new()));
    }

    #[test]
    fn nothing_known_is_no_limit() {
        let machine = Fixture::new("nothing");
        let groups = Groups::below(machine.path());
        assert_eq!((groups.memory(), groups.cores(), groups.pressure()), (None, None, None));
        assert_eq!(thousandths("100", "0"), None);
    }

    proptest! {
        #[test]
        fn garbage_is_survived(text in ".{0,200}", lines in "([0-9]{1,3}:[a-z,]{0,9}:/?[a-z./]{0,20}\n){0,5}", number in any::<u64>()) {
            let machine = Fixture::new("garbage");
            machine.write("proc/self/cgroup", &format!("{text}\n{lines}0::/{text}\n"));
            machine.write("proc/self/mountinfo", &format!("{text} - cgroup2 {text}\n{text}\n - cgroup\n{V2}"));
            machine.write("sys/fs/cgroup/cpu.max", &format!("{text} {number}"));
            machine.write("sys/fs/cgroup/memory.max", &text);
            let groups = Groups::below(machine.path());
            let inside = |folder: &PathBuf| folder.starts_with(machine.path());
            prop_assert!(groups.folders.iter().all(inside), "{:?}", groups);
            let _ = (groups.memory(), groups.cores(), groups.quotas(), groups.pressure());
            let _ = (mount(&text), parse_used(&text), thousandths(&text, &text));
        }
    }
}
