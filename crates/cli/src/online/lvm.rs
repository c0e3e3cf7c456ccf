// SPDX-License-Identifier: MIT OR Apache-2.0
//! The view of a logical volume: a snapshot, made, measured and removed with LVM's own commands.
//!
//! Every snapshot of ours carries a tag and our process number in its name. What a run that died has left behind is removed by the next one, for
//! whichever volume that is.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::SystemTime;

use fsmend_device::{Device, FileDevice, Mounted};
use serde_json::Value;

use super::Taken;

/// The tag of our snapshots, and the beginning of their names.
const TAG: &str = "fsmend_online";

/// The least room for what is written while the check runs.
const ROOM_MIN: u64 = 64 << 20;

/// A logical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Volume {
    group: String,
    name: String,
    size: u64,
    /// Free bytes of its group.
    free: u64,
    /// Whether it is thin: its snapshots need no room of their own.
    thin: bool,
}

/// A snapshot of ours. Removed when dropped.
#[derive(Debug)]
pub struct Snapshot {
    /// `group/name`.
    name: String,
}

/// Makes a snapshot of the volume that is mounted; why not, if not.
pub fn take(mounted: &Mounted) -> Result<(Taken, Snapshot), String> {
    if !Path::new(&format!("/sys/dev/block/{}:{}/dm", mounted.number.0, mounted.number.1)).exists() {
        return Err("it is not on a logical volume".to_owned());
    }
    remove_leftovers();
    let volume = volume_of(mounted)?;
    let name = format!("{TAG}_{}", std::process::id());
    let snapshot = Snapshot { name: format!("{}/{name}", volume.group) };
    let origin = format!("{}/{}", volume.group, volume.name);
    let at = SystemTime::now();
    let mut arguments = vec!["--snapshot", "--name", &name, "--addtag", TAG, "--yes"];
    let room = format!("{}b", room_for(&volume)?);
    if volume.thin {
        arguments.extend(["--setactivationskip", "n"]);
    } else {
        arguments.extend(["--permission", "r", "--size", &room]);
    }
    arguments.push(&origin);
    lvm("lvcreate", &arguments)?;
    let path = path_of(&snapshot)?;
    let device =
        FileDevice::open(Path::new(&path)).map_err(|error| format!("{path} cannot be read ({error})"))?;
    let device: Arc<dyn Device> = Arc::new(device);
    Ok((Taken { device, at, frozen: None, of: origin }, snapshot))
}

impl Snapshot {
    /// Whether it still shows what it showed at first: a snapshot that has no room left shows nothing any more.
    pub fn is_whole(&self) -> bool {
        let found = rows(&["-o", "lv_attr,data_percent", &self.name]).unwrap_or_default();
        found.first().is_some_and(|row| {
            let state = row["lv_attr"].as_str().and_then(|attr| attr.chars().nth(4));
            let full = row["data_percent"].as_str().is_some_and(|percent| percent.starts_with("100"));
            !matches!(state, Some('I' | 'S' | 'X') | None) && !full
        })
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // Should it not go now, the next run removes it.
        let _ = lvm("lvremove", &["--yes", &self.name]);
    }
}

/// Bytes for what is written while the check runs: a tenth of the volume, or what there is.
fn room_for(volume: &Volume) -> Result<u64, String> {
    let room = (volume.size / 10).max(ROOM_MIN).min(volume.free);
    if volume.thin || room >= ROOM_MIN.min(volume.size) {
        return Ok(room / 512 * 512);
    }
    Err(format!(
        "the volume group {} has no space for a snapshot ({} bytes are free)",
        volume.group, volume.free
    ))
}

fn volume_of(mounted: &Mounted) -> Result<Volume, String> {
    let (major, minor) = mounted.number;
    let selection = format!("lv_kernel_major={major} && lv_kernel_minor={minor}");
    let columns = "vg_name,lv_name,lv_size,vg_free,segtype";
    let found = rows(&["--units", "b", "--nosuffix", "-o", columns, "--select", &selection])?;
    found.first().and_then(parse_volume).ok_or_else(|| "it is not on a logical volume".to_owned())
}

fn parse_volume(row: &Value) -> Option<Volume> {
    let text = |name: &str| row[name].as_str().map(str::to_owned);
    let number = |name: &str| row[name].as_str()?.parse().ok();
    Some(Volume {
        group: text("vg_name")?,
        name: text("lv_name")?,
        size: number("lv_size")?,
        free: number("vg_free")?,
        thin: text("segtype")? == "thin",
    })
}

fn path_of(snapshot: &Snapshot) -> Result<String, String> {
    let found = rows(&["-o", "lv_kernel_major,lv_kernel_minor,lv_path", &snapshot.name])?;
    let row = found.first().ok_or("the snapshot does not exist")?;
    let path = row["lv_path"].as_str().unwrap_or_default();
    // Without udev there is no link; device-mapper's own node is there all the same.
    if Path::new(path).exists() {
        return Ok(path.to_owned());
    }
    let number = |name: &str| row[name].as_str().unwrap_or_default().trim().to_owned();
    let uevent = format!("/sys/dev/block/{}:{}", number("lv_kernel_major"), number("lv_kernel_minor"));
    let name = std::fs::canonicalize(uevent).ok().and_then(|folder| Some(folder.file_name()?.to_owned()));
    name.map(|name| format!("/dev/{}", name.to_string_lossy())).ok_or_else(|| format!("{path} is not there"))
}

/// Removes the snapshots of runs that are over; returns how many.
pub fn remove_leftovers() -> u32 {
    let selection = format!("lv_tags={TAG}");
    let Ok(found) = rows(&["-o", "vg_name,lv_name", "--select", &selection]) else { return 0 };
    let mut removed = 0;
    for row in &found {
        let (Some(group), Some(name)) = (row["vg_name"].as_str(), row["lv_name"].as_str()) else { continue };
        if is_over(name) && lvm("lvremove", &["--yes", &format!("{group}/{name}")]).is_ok() {
            removed += 1;
        }
    }
    removed
}

/// Whether the process that made the snapshot called `name` runs no more.
fn is_over(name: &str) -> bool {
    let Some(process) = name.strip_prefix(TAG).and_then(|rest| rest.strip_prefix('_')) else { return false };
    if process.is_empty() || !process.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let runs = std::fs::read_to_string(format!("/proc/{process}/comm"));
    !runs.is_ok_and(|program| program.starts_with("fsmend") || program.starts_with("fsck"))
        || process == std::process::id().to_string()
}

/// The rows of a report of `lvs`.
fn rows(arguments: &[&str]) -> Result<Vec<Value>, String> {
    let mut all = vec!["--reportformat", "json"];
    all.extend(arguments);
    let text = lvm("lvs", &all)?;
    let report: Value =
        serde_json::from_str(&text).map_err(|error| format!("unexpected output of lvs ({error})"))?;
    let rows = report["report"].get(0).and_then(|first| first["lv"].as_array()).cloned();
    Ok(rows.unwrap_or_default())
}

/// Runs one of LVM's commands and returns what it printed.
fn lvm(command: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(command)
        .args(arguments)
        .env("LC_ALL", "C")
        .env("LVM_SUPPRESS_FD_WARNINGS", "1")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command} cannot be run ({error})"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command} failed: {}", said.trim().lines().last().unwrap_or("no error message").trim()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(size: u64, free: u64, thin: bool) -> Volume {
        Volume { group: "vg".to_owned(), name: "lv".to_owned(), size, free, thin }
    }

    #[test]
    fn volumes_are_understood() {
        let row = json!({"vg_name": "vg", "lv_name": "lv", "lv_size": "1073741824", "vg_free": "4096", "segtype": "linear"});
        assert_eq!(parse_volume(&row), Some(volume(1 << 30, 4096, false)));
        assert_eq!(parse_volume(&json!({})), None);
    }

    #[test]
    fn snapshots_get_the_room_that_there_is() {
        assert_eq!(room_for(&volume(10 << 30, 1 << 40, false)), Ok(1 << 30));
        assert_eq!(room_for(&volume(10 << 30, 100 << 20, false)), Ok(100 << 20));
        assert_eq!(room_for(&volume(1 << 30, 1 << 30, false)), Ok(107_374_080));
        assert!(room_for(&volume(10 << 30, 1 << 20, false)).is_err());
        assert!(room_for(&volume(10 << 30, 0, true)).is_ok());
    }

    #[test]
    fn only_what_a_dead_run_left_is_removed() {
        assert!(is_over(&format!("{TAG}_{}", std::process::id())), "our own number, so not of this run");
        assert!(is_over(&format!("{TAG}_4194305")), "no process has that number");
        for other in ["home", "fsmend_online", "fsmend_online_", "fsmend_online_x1", "fsmend_online_1x"] {
            assert!(!is_over(other), "{other}");
        }
    }
}
