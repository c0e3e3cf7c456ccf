// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that the tests call, and the Debian packages they come from.

use std::path::Path;
use std::process::Command;

use fsmend_testkit::host::{find_program, is_root};
use fsmend_testkit::target_folder;

/// From PyPI: a file that tells that it is there, in a folder of its own, what is asked for, and what is not tested without it.
const FROM_PYPI: [(&str, &str, &str); 2] = [
    (
        "bin/kubernetes-validate",
        "kubernetes-validate==1.37.0",
        "manifests of Kubernetes against their schemas",
    ),
    ("lib/*/site-packages/duckdb", "duckdb==2.0.0", "the guide's questions to records of a fleet"),
];

/// A program, its package, and what is not tested without it.
struct Need {
    program: &'static str,
    package: &'static str,
    without: &'static str,
}

const NEEDS: &[Need] = &[
    Need {
        program: "mke2fs",
        package: "e2fsprogs",
        without: "the feature matrix, damage and hostile images",
    },
    Need { program: "e2fsck", package: "e2fsprogs", without: "every comparison with e2fsck" },
    Need { program: "debugfs", package: "e2fsprogs", without: "images that the kernel cannot fill" },
    Need { program: "fuse2fs", package: "fuse2fs", without: "calls on our mount beside others" },
    Need { program: "xfs_io", package: "xfsprogs", without: "encrypted directories and crash images" },
    Need { program: "mkfs.btrfs", package: "btrfs-progs", without: "images that lie on btrfs" },
    Need { program: "debootstrap", package: "debootstrap", without: "the Debian package" },
    Need { program: "chromium", package: "chromium", without: "the pages of reports in a browser" },
    Need { program: "lintian", package: "lintian", without: "the Debian package" },
    Need { program: "qemu-img", package: "qemu-utils", without: "repairs of qcow2 images" },
    Need { program: "makefs", package: "makefs", without: "everything about UFS" },
    Need { program: "slurmctld", package: "slurmctld", without: "fleets on a real Slurm" },
    Need { program: "slurmd", package: "slurmd", without: "fleets on a real Slurm" },
    Need { program: "sbatch", package: "slurm-client", without: "fleets on a real Slurm" },
    Need { program: "munged", package: "munge", without: "fleets on a real Slurm" },
    Need {
        program: "python3",
        package: "python3-venv",
        without: "manifests of Kubernetes against their schemas",
    },
    Need { program: "mount", package: "mount", without: "images filled through the kernel" },
    Need { program: "losetup", package: "mount", without: "images filled through the kernel" },
];

/// Installs what is missing as far as we may; returns a line for each program that is still missing.
pub fn provide() -> Vec<String> {
    let missing = packages_of_missing();
    if !missing.is_empty() {
        install(&missing);
    }
    let mut notes: Vec<String> = NEEDS
        .iter()
        .filter(|need| find_program(need.program).is_none())
        .map(|need| {
            format!("{} is missing (Debian package {}): skips {}", need.program, need.package, need.without)
        })
        .collect();
    notes.extend(FROM_PYPI.into_iter().filter_map(|wanted| provide_from_pypi(wanted).err()));
    if !is_root() {
        notes.push(
            "not run as root: skips images filled through kernel loop mounts, and cold cache measurements"
                .to_owned(),
        );
    }
    notes
}

/// Installs something from PyPI into a folder of our own, unless it is there.
fn provide_from_pypi((place, wanted, without): (&str, &str, &str)) -> Result<(), String> {
    let folder = target_folder().join("python");
    if is_there(&folder, place) {
        return Ok(());
    }
    println!("installing {wanted} in {}", folder.display());
    let succeeds = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    let is_installed = succeeds(Command::new("python3").args(["-m", "venv"]).arg(&folder))
        && succeeds(Command::new(folder.join("bin/pip")).args(["install", "--quiet", wanted]));
    is_installed.then_some(()).ok_or_else(|| format!("{wanted} is missing (PyPI): skips {without}"))
}

/// Whether there is such a place below `folder`; `*` stands for any one name.
fn is_there(folder: &Path, place: &str) -> bool {
    let Some((before, behind)) = place.split_once("*/") else { return folder.join(place).exists() };
    let names = std::fs::read_dir(folder.join(before)).into_iter().flatten().flatten();
    names.into_iter().any(|name| is_there(&name.path(), behind))
}

fn packages_of_missing() -> Vec<&'static str> {
    let mut packages: Vec<_> =
        NEEDS.iter().filter(|need| find_program(need.program).is_none()).map(|need| need.package).collect();
    packages.dedup();
    packages
}

fn install(packages: &[&str]) {
    if find_program("apt-get").is_none() {
        return;
    }
    let Some(prefix) = superuser_prefix() else { return };
    println!("installing {}", packages.join(", "));
    let apt_get = |arguments: &[&str]| {
        let mut words: Vec<&str> = prefix.to_vec();
        words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]);
        words.extend(arguments);
        Command::new(words[0]).args(&words[1..]).status().is_ok_and(|status| status.success())
    };
    let mut arguments = vec!["install", "-y", "--no-install-recommends"];
    arguments.extend(packages);
    let updated = !has_package_lists() && apt_get(&["update"]);
    if !apt_get(&arguments) && !updated && apt_get(&["update"]) {
        apt_get(&arguments);
    }
}

fn has_package_lists() -> bool {
    let Ok(lists) = std::fs::read_dir("/var/lib/apt/lists") else { return false };
    lists.flatten().any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}

/// What has to stand before a command that needs the superuser; `None` when there is no way without a password.
fn superuser_prefix() -> Option<&'static [&'static str]> {
    if is_root() {
        return Some(&[]);
    }
    find_program("sudo")?;
    let allowed = Command::new("sudo").args(["-n", "true"]).status().is_ok_and(|status| status.success());
    allowed.then_some(&["sudo", "-n"])
}
