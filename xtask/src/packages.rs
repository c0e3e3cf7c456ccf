//! Programs that the tests call, and the Debian packages they come from.

use std::process::Command;

use fsmend_testkit::host::{find_program, is_root};

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
    Need { program: "xfs_io", package: "xfsprogs", without: "encrypted directories and crash images" },
    Need { program: "mkfs.btrfs", package: "btrfs-progs", without: "images that lie on btrfs" },
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
    if !is_root() {
        notes.push(
            "not run as root: skips images filled through kernel loop mounts, and cold cache measurements"
                .to_owned(),
        );
    }
    notes
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
