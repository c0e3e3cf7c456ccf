// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a benchmark needs of the machine, looked for before it begins: programs, the superuser, room on the disk.

use std::io;
use std::path::Path;

use fsmend_testkit::host::{find_program, is_root};

/// Programs, and the Debian package that each comes with.
const PACKAGES: [(&str, &str); 12] = [
    ("e2fsck", "e2fsprogs"),
    ("mke2fs", "e2fsprogs"),
    ("debugfs", "e2fsprogs"),
    ("e2image", "e2fsprogs"),
    ("losetup", "mount"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("taskset", "util-linux"),
    ("bash", "bash"),
    ("valgrind", "valgrind"),
    ("qemu-img", "qemu-utils"),
    ("chrt", "util-linux"),
];

/// What every benchmark over the images needs: the programs that make and judge them.
const IMAGES: [&str; 4] = ["e2fsck", "mke2fs", "mount", "umount"];

/// Benchmarks, and the programs that each needs beside those for the images.
const BENCHMARKS: [(&str, &[&str]); 8] = [
    ("images", &[]),
    ("check", &[]),
    ("estimate", &[]),
    ("scaling", &[]),
    ("repair", &["e2image"]),
    ("repair-fields", &["debugfs"]),
    ("instructions", &["valgrind"]),
    ("neighbour", &["taskset", "chrt"]),
];

/// Fails if something is missing that this benchmark needs; those which it does not know say so themselves.
pub fn of_benchmark(name: &str) -> io::Result<()> {
    if name == "slow" {
        programs(&["mke2fs", "debugfs", "qemu-img"])?;
        superuser("it mounts files that are slow to read")?;
        return fuse();
    }
    match BENCHMARKS.iter().find(|(known, _)| *known == name) {
        Some((_, more)) => programs(&[&IMAGES[..], more].concat()),
        None => Ok(()),
    }
}

/// Fails where FUSE cannot be used.
fn fuse() -> io::Result<()> {
    match Path::new("/dev/fuse").exists() {
        true => Ok(()),
        false => Err(io::Error::other("/dev/fuse is missing: load the module (modprobe fuse)")),
    }
}

/// Fails with the name of every one of these programs that is not installed.
pub fn programs(names: &[&str]) -> io::Result<()> {
    let missing: Vec<String> = names
        .iter()
        .filter(|name| find_program(name).is_none())
        .map(|name| format!("{name} (Debian package {})", package_of(name)))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(io::Error::other(format!("not installed: {}", missing.join(", "))))
}

fn package_of(name: &str) -> &str {
    PACKAGES.iter().find(|(known, _)| *known == name).map_or(name, |(_, from)| from)
}

/// Fails unless root runs this; `why` says what for.
pub fn superuser(why: &str) -> io::Result<()> {
    if is_root() { Ok(()) } else { Err(io::Error::other(format!("run this as root: {why}"))) }
}

/// Fails if the file system that holds `folder` has less than this many bytes free.
pub fn room(folder: &Path, bytes: u64) -> io::Result<()> {
    let found = rustix::fs::statvfs(folder)?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free >= bytes {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{} has {} MiB free, and this benchmark needs {} MiB: use --cache FOLDER",
        folder.display(),
        free >> 20,
        bytes >> 20
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let said = programs(&["sh", "no-such-program"]).map_err(|error| error.to_string());
        assert_eq!(said, Err("not installed: no-such-program (Debian package no-such-program)".to_owned()));
        assert!(programs(&["sh"]).is_ok());
    }

    #[test]
    fn every_benchmark_over_images_names_its_packages() {
        for (_, more) in BENCHMARKS {
            let needed = IMAGES.iter().chain(more);
            assert!(needed.clone().all(|name| PACKAGES.iter().any(|(known, _)| known == name)));
        }
        assert!(of_benchmark("no-such-benchmark").is_ok());
    }

    #[test]
    fn too_little_room_is_said_with_both_figures() {
        assert!(room(&std::env::temp_dir(), 1).is_ok());
        let said = room(&std::env::temp_dir(), u64::MAX).map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("MiB free") && said.contains("--cache")));
    }
}
