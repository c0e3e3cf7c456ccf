// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask test --boot [PACKAGE]`: the hooks for initial memory disks. A fresh Debian with the package has its root file system damaged, and boots: with the memory disk of initramfs-tools,
//! and with that of dracut. fsmend is its fsck.
//!
//! Passed means: systemd came up on the repaired file system and found its files as they should be, and afterwards e2fsck finds nothing wrong.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fsmend_testkit::host::{find_program, is_root, run};

use super::{boot, needed};
use crate::{package, workspace};

/// Programs that are needed here, and their Debian packages.
const NEEDS: [(&str, &str); 5] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("debootstrap", "debootstrap"),
    ("mke2fs", "e2fsprogs"),
    ("debugfs", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
];

/// What the Debian has besides its smallest set.
const INCLUDE: &str = "systemd-sysv,udev,e2fsprogs,initramfs-tools,dracut-core,zstd,linux-image-cloud-amd64";

/// A guest has to be through by then: it takes some two minutes of processor time.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What makes memory disks.
const MAKERS: [&str; 2] = ["initramfs-tools", "dracut"];

/// What is damaged: counts, a bitmap, a name that is lost, a directory whose inode is gone.
const DAMAGE: [&str; 5] = [
    "sif /srv/counted links_count 7",
    "freeb 9000 40",
    "unlink /srv/nameless",
    "clri /srv/folder",
    "set_super_value free_inodes_count 3",
];

/// Makes the Debian, and boots it once with each memory disk. The package is made first, unless one is given.
pub fn test(package: Option<&Path>) -> io::Result<()> {
    if let Some(why) = obstacle() {
        println!("skipped: {why}");
        return Ok(());
    }
    let root = workspace()?;
    let folder = root.join("target/boot");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let package = package.map_or_else(|| package::debian_package(&root), |given| Ok(given.to_owned()))?;
    let tree = debian(&folder, &package)?;
    let kernel = folder.join("vmlinuz");
    fs::copy(tree.join("vmlinuz"), &kernel)?;
    let mut failed = Vec::new();
    for maker in MAKERS {
        println!("== {maker}");
        if let Err(why) = boots(&folder, &tree, &kernel, maker) {
            println!("{maker}: {why}");
            failed.push(maker);
        }
    }
    fs::remove_dir_all(&folder)?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(io::Error::other(format!("it does not boot with {}", failed.join(" and ")))),
    }
}

/// Why the test cannot be made here.
fn obstacle() -> Option<String> {
    if !is_root() {
        return Some("not run as root".to_owned());
    }
    if std::env::consts::ARCH != "x86_64" {
        return Some("the guest is an x86_64".to_owned());
    }
    let missing = NEEDS.iter().find(|(program, _)| find_program(program).is_none())?;
    Some(format!("{} is missing (Debian package {})", missing.0, missing.1))
}

/// A tree with a Debian that has fsmend as its fsck, a kernel (`vmlinuz`) and both memory disks (`initrd.MAKER`).
fn debian(folder: &Path, package: &Path) -> io::Result<PathBuf> {
    let tree = folder.join("tree");
    let mut bootstrap = Command::new(needed("debootstrap")?);
    bootstrap.args(["--variant=minbase", &format!("--include={INCLUDE}"), "bookworm"]).arg(&tree);
    println!("a fresh Debian");
    succeed(bootstrap.stdout(Stdio::null()))?;
    fs::copy(package, tree.join("fsmend.deb"))?;
    fs::write(tree.join("booted"), include_str!("booted.sh"))?;
    fs::write(tree.join("etc/systemd/system/booted.service"), include_str!("booted.service"))?;
    println!("memory disks");
    let script = include_str!("boot.sh");
    let mut inside = Command::new("chroot");
    inside.arg(&tree).args(["/bin/sh", "-eu", "-c", script]);
    succeed(inside.stdout(Stdio::null()).stderr(fs::File::create(folder.join("memory-disks.log"))?))?;
    Ok(tree)
}

/// Makes a damaged disk, and boots from it.
fn boots(folder: &Path, tree: &Path, kernel: &Path, maker: &str) -> io::Result<()> {
    let disk = folder.join("disk");
    fs::File::create(&disk)?.set_len(1536 << 20)?;
    let disk_name = disk.display().to_string();
    let tree_name = tree.display().to_string();
    run("mke2fs", ["-q", "-t", "ext4", "-d", &tree_name, &disk_name])?;
    for request in DAMAGE {
        run("debugfs", ["-w", "-R", request, &disk_name])?;
    }
    let before = Command::new(needed("e2fsck")?).args(["-fn", &disk_name]).output()?;
    if before.status.code() != Some(4) {
        return Err(io::Error::other("the disk is not damaged"));
    }
    let memory_disk = tree.join(format!("initrd.{maker}"));
    let started = Instant::now();
    // On a busy machine the guest's timers come late, and the kernel would take them for broken ones.
    let options = "root=/dev/vda ro console=ttyS0 panic=-1 no_timer_check fsck.mode=force fsck.repair=yes systemd.show_status=0 quiet";
    let passed = boot((kernel, &memory_disk), &disk, options, PATIENCE)?;
    println!("the guest ran for {:.0} s", started.elapsed().as_secs_f64());
    if !passed {
        return Err(io::Error::other("the guest did not pass"));
    }
    // The journal of the file system is replayed first, as any boot would do.
    let _ = Command::new(needed("e2fsck")?).args(["-p", &disk_name]).output()?;
    run("e2fsck", ["-fn", &disk_name])?;
    fs::remove_file(&disk)
}

fn succeed(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    let name = command.get_program().display().to_string();
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{name}: {status}"))) }
}
