// SPDX-License-Identifier: MIT OR Apache-2.0
//! Root of a container: a check says which permission is missing, not to run it as root.
//!
//! Needs the superuser, loop devices, and for devices that may not be opened a control group of version 1, which takes no program of the kernel.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fsmend_testkit::host::{LoopDevice, LoopMount, find_program, is_root, run, skip};
use fsmend_testkit::target_folder;

const FSMEND: &str = env!("CARGO_BIN_EXE_fsmend");

/// A mounted file system, and its loop device.
struct Target {
    folder: PathBuf,
    mount: Option<LoopMount>,
    device: LoopDevice,
}

impl Target {
    fn new(test: &str) -> Option<Target> {
        let missing = ["mke2fs", "setpriv", "mount"].into_iter().find(|name| find_program(name).is_none());
        let why = match missing {
            _ if !is_root() => "needs the superuser",
            _ if !Path::new("/dev/loop-control").exists() => "needs loop devices",
            Some(_) => "needs mke2fs, setpriv and mount",
            None => "",
        };
        if !why.is_empty() {
            skip(test, why);
            return None;
        }
        let folder = target_folder().join(format!("container-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let folder = folder.canonicalize().unwrap();
        let image = folder.join("image");
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        run("mke2fs", ["-q", "-F", "-t", "ext4", image.to_str().unwrap()]).unwrap();
        let device = LoopDevice::new(&image).unwrap();
        let point = folder.join("mounted");
        fs::create_dir_all(&point).unwrap();
        run("mount", ["-t", "ext4", device.path(), point.to_str().unwrap()]).unwrap();
        let mount = Some(LoopMount::of(&point));
        Some(Target { folder, mount, device })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.mount.take());
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A control group whose processes may not use a device; goes when dropped.
struct Fence(PathBuf);

impl Fence {
    fn around(device: &str) -> Option<Fence> {
        let number =
            fs::read_to_string(Path::new("/sys/class/block").join(device.strip_prefix("/dev/")?).join("dev"));
        let folder = PathBuf::from(format!("/sys/fs/cgroup/devices/fsmend-test-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let fence = Fence(folder);
        fs::write(fence.0.join("devices.deny"), format!("b {} rwm", number.ok()?.trim())).ok()?;
        Some(fence)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        // The shell goes into the group and becomes the program.
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        Command::new("sh").args(["-c", script]).arg(&self.0).arg(FSMEND).args(arguments).output().unwrap()
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        // The group is free once the kernel has put the process away.
        for _ in 0..1000 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_device_that_the_container_may_not_use_is_named_with_the_permission() {
    let Some(target) = Target::new("device") else { return };
    let Some(fence) = Fence::around(target.device.path()) else {
        return skip("a device that the container may not use", "no control group of version 1 can be made");
    };
    let device = target.device.path();
    for arguments in
        [&["check", "--online", device][..], &["check", "--online", "--mounted"], &["check", device]]
    {
        let output = fence.run(arguments);
        let all = told(&output);
        // Of other file systems, the run says what it likes.
        let line =
            all.lines().find(|line| line.contains(device)).unwrap_or_else(|| panic!("{arguments:?}: {all}"));
        assert_eq!(output.status.code(), Some(8), "{arguments:?}: {all}");
        assert!(line.contains("Operation not permitted"), "{arguments:?}: {line}");
        assert!(
            line.contains("A device cgroup or a security module does not let this process read"),
            "{line}"
        );
        assert!(
            line.contains("docker run --device") && !line.to_lowercase().contains("run as root"),
            "{line}"
        );
    }
}

#[test]
fn root_without_the_right_to_freeze_is_told_so() {
    let Some(target) = Target::new("freeze") else { return };
    let output = Command::new("setpriv")
        .args(["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", FSMEND, "check", "--online"])
        .arg(target.device.path())
        .output()
        .unwrap();
    let all = told(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(0), "{all}");
    assert!(all.contains("It was not frozen") && all.contains("CAP_SYS_ADMIN is required"), "{all}");
}
