// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask test --vm`: what needs a kernel of its own is tested in a small guest: logical volumes and their snapshots.
//!
//! The guest is Debian's kernel for clouds and an initial memory disk with busybox, LVM, e2fsprogs and `fsmend`, put together here. It runs
//! in qemu's software emulation, which every machine can do, and prints what came of it on its serial line.

pub mod boot;

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fsmend_testkit::host::{find_program, run};

use crate::workspace;

/// Programs that are needed here, and their Debian packages.
const NEEDS: [(&str, &str); 6] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("lvm", "lvm2"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("mke2fs", "e2fsprogs"),
    ("debugfs", "e2fsprogs"),
];

/// The package that names the newest kernel.
const KERNEL: &str = "linux-image-cloud-amd64";

/// What the guest needs of it beyond what is built in.
const MODULES: [&str; 9] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_blk",
    "dm-mod",
    "dm-bufio",
    "dm-snapshot",
];

/// The guest has to be through by then: it takes some 45 s of processor time, which may be long on a busy machine.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Makes the guest, runs it, and fails if it does not pass.
pub fn test() -> io::Result<()> {
    let missing: Vec<&str> = NEEDS
        .iter()
        .filter(|(program, _)| find_program(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        return Err(io::Error::other(format!("install these packages: {}", missing.join(", "))));
    }
    let root = workspace()?;
    let folder = root.join("target/vm");
    fs::create_dir_all(&folder)?;
    let fsmend = build(&root)?;
    let kernel = kernel(&folder)?;
    let disk = folder.join("disk");
    fs::File::create(&disk)?.set_len(512 << 20)?;
    let started = Instant::now();
    let memory_disk = memory_disk(&folder, &kernel, &fsmend)?;
    let passed = boot(
        (&kernel.join("vmlinuz"), &memory_disk),
        &disk,
        "console=ttyS0 quiet panic=-1 no_timer_check",
        PATIENCE,
    );
    fs::remove_file(&disk)?;
    println!("the guest ran for {:.0} s", started.elapsed().as_secs_f64());
    if passed? { Ok(()) } else { Err(io::Error::other("the guest did not pass")) }
}

fn build(root: &Path) -> io::Result<PathBuf> {
    let built =
        Command::new(env!("CARGO")).args(["build", "--package", "fsmend-cli"]).current_dir(root).status()?;
    let program = root.join("target/debug/fsmend");
    if built.success() { Ok(program) } else { Err(io::Error::other("fsmend cannot be built")) }
}

/// A folder with the kernel (`vmlinuz`) and its modules; fetched once.
fn kernel(folder: &Path) -> io::Result<PathBuf> {
    let kernel = folder.join("kernel");
    if kernel.join("vmlinuz").exists() {
        return Ok(kernel);
    }
    let depends = run("apt-cache", ["depends", KERNEL])?;
    let depends = String::from_utf8_lossy(&depends.stdout).into_owned();
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image"));
    let package = package.ok_or_else(|| io::Error::other(format!("no package {KERNEL}")))?;
    let package = format!("linux-image{package}");
    println!("fetching {package}");
    let fetch = folder.join("fetch");
    let _ = fs::remove_dir_all(&fetch);
    fs::create_dir_all(&fetch)?;
    let fetched = Command::new("apt-get").args(["-qq", "download", &package]).current_dir(&fetch).status()?;
    let archive = find(&fetch, &|name| name.ends_with(".deb"));
    let archive = archive.filter(|_| fetched.success());
    let archive = archive.ok_or_else(|| io::Error::other(format!("{package} cannot be fetched")))?;
    run("dpkg-deb", ["-x".as_ref(), archive.as_os_str(), fetch.join("all").as_os_str()])?;
    let image = find(&fetch.join("all/boot"), &|name| name.starts_with("vmlinuz"));
    let image = image.ok_or_else(|| io::Error::other("the package holds no kernel"))?;
    let _ = fs::remove_dir_all(&kernel);
    fs::create_dir_all(kernel.join("modules"))?;
    for module in MODULES {
        // What is not there is built in.
        if let Some(file) = find(&fetch.join("all/lib/modules"), &|name| name == format!("{module}.ko")) {
            fs::copy(file, kernel.join("modules").join(format!("{module}.ko")))?;
        }
    }
    fs::copy(image, kernel.join("vmlinuz"))?;
    fs::remove_dir_all(fetch)?;
    Ok(kernel)
}

/// A file somewhere below `folder` whose name suits.
fn find(folder: &Path, suits: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ if suits(&entry.file_name().to_string_lossy()) => return Some(entry.path()),
                _ => {}
            }
        }
    }
    None
}

/// The initial memory disk.
fn memory_disk(folder: &Path, kernel: &Path, fsmend: &Path) -> io::Result<PathBuf> {
    let tree = folder.join("tree");
    let _ = fs::remove_dir_all(&tree);
    for name in ["bin", "sbin", "modules", "proc", "sys", "dev", "etc/lvm"] {
        fs::create_dir_all(tree.join(name))?;
    }
    fs::write(tree.join("init"), include_str!("guest.sh"))?;
    run("chmod", ["755".as_ref(), tree.join("init").as_os_str()])?;
    fs::write(tree.join("etc/lvm/lvm.conf"), include_str!("lvm.conf"))?;
    fs::copy(needed("busybox")?, tree.join("bin/busybox"))?;
    fs::copy(fsmend, tree.join("sbin/fsmend"))?;
    // Most of it is for debuggers.
    let _ = run("strip", [tree.join("sbin/fsmend")]);
    add_libraries(&tree, fsmend)?;
    for program in ["lvm", "mke2fs", "debugfs"] {
        let from = needed(program)?;
        fs::copy(&from, tree.join("sbin").join(program))?;
        add_libraries(&tree, &from)?;
    }
    for name in ["pvcreate", "vgcreate", "lvcreate", "lvremove", "lvs"] {
        std::os::unix::fs::symlink("lvm", tree.join("sbin").join(name))?;
    }
    for module in fs::read_dir(kernel.join("modules"))?.flatten() {
        fs::copy(module.path(), tree.join("modules").join(module.file_name()))?;
    }
    let archive = folder.join("memory-disk");
    let pack = format!("find . | cpio --quiet -o -H newc > '{}'", archive.display());
    let packed = Command::new("sh").args(["-c", &pack]).current_dir(&tree).status()?;
    if packed.success() { Ok(archive) } else { Err(io::Error::other("cpio failed")) }
}

fn needed(program: &str) -> io::Result<PathBuf> {
    find_program(program).ok_or_else(|| io::Error::other(format!("{program} is missing")))
}

/// Copies the libraries of a program, and what loads them, to where they are expected.
fn add_libraries(tree: &Path, program: &Path) -> io::Result<()> {
    let said = run("ldd", [program])?;
    for word in String::from_utf8_lossy(&said.stdout).split_whitespace().filter(|word| word.starts_with('/'))
    {
        let to = tree.join(word.trim_start_matches('/'));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        if !to.exists() {
            fs::copy(word, to)?;
        }
    }
    Ok(())
}

/// Runs a guest with the options for its kernel; whether it passed.
fn boot(
    (kernel, memory_disk): (&Path, &Path),
    disk: &Path,
    options: &str,
    patience: Duration,
) -> io::Result<bool> {
    let mut qemu = Command::new(needed("qemu-system-x86_64")?);
    qemu.args(["-accel", "tcg", "-m", "1024", "-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio"]);
    qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(memory_disk);
    qemu.args(["-append", options]);
    qemu.arg("-drive").arg(format!("file={},if=virtio,format=raw,cache=unsafe", disk.display()));
    let mut child = qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let lines = child.stdout.take().map(BufReader::new);
    let guard = std::thread::spawn(move || {
        let mut passed = false;
        for line in lines.into_iter().flat_map(|lines| lines.split(b'\n').map_while(Result::ok)) {
            let line = String::from_utf8_lossy(&line);
            println!("  {}", line.trim_end());
            passed |= line.trim_end() == "VM-PASSED";
        }
        passed
    });
    let until = Instant::now() + patience;
    while child.try_wait()?.is_none() {
        if Instant::now() >= until {
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    guard.join().map_err(|_| io::Error::other("its output could not be followed"))
}
