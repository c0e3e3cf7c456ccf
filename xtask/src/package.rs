// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask package`: what is handed out. A Debian package, an archive with a static program, and a list of what they are made of.
//!
//! With `--test` the Debian package alone is made, and tried in a fresh Debian: it installs beside e2fsprogs without touching it, checks the example, its manual pages and
//! units are in order, and it goes without a trace.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fsmend_testkit::host::{find_program, is_root};

use crate::workspace;

/// Tools from crates.io: program, crate and version.
const CARGO_DEB: (&str, &str, &str) = ("cargo-deb", "cargo-deb", "3.8.0");
const CYCLONEDX: (&str, &str, &str) = ("cargo-cyclonedx", "cargo-cyclonedx", "0.5.9");

/// The target of the static program.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// Links that lie in /usr/lib/fsmend, for places that belong to other packages (e2fsprogs, ufsutils).
const FACES: [&str; 7] =
    ["e2fsck", "fsck.ext2", "fsck.ext3", "fsck.ext4", "fsck.ufs", "fsck_ffs", "fsck_ufs"];
/// Links in /usr/sbin: no other package has them.
const LINKS: [&str; 2] = ["fsck.rext3", "mount.fuse.fsmend"];

/// What lintian wants of packages that are uploaded to Debian.
const NOT_IN_DEBIAN: &str = "initial-upload-closes-no-bugs";

/// Highest exposure, in tenths, that `systemd-analyze security` may tell of a unit.
const EXPOSURE_MAX: &str = "50";

/// Makes everything.
pub fn run() -> io::Result<()> {
    let root = workspace()?;
    let folder = root.join("target/package");
    let package = debian(&root, &folder)?;
    let archive = static_archive(&root, &folder)?;
    let list = components(&root, &folder)?;
    for made in [package, archive, list] {
        println!("{}", made.display());
    }
    Ok(())
}

/// Makes and tries the Debian package.
pub fn test() -> io::Result<()> {
    let root = workspace()?;
    let folder = root.join("target/package");
    try_in_debian(&root, &folder, &debian(&root, &folder)?)
}

/// Makes and tries the Debian package, where that can be done; why not is noted in `skip_log` otherwise.
pub fn try_it(skip_log: &Path) -> io::Result<()> {
    let missing =
        ["debootstrap", "lintian", "chroot"].into_iter().find(|program| find_program(program).is_none());
    let why = match missing {
        Some(program) => format!("{program} is missing"),
        None if !is_root() => "not run as root".to_owned(),
        None => return test(),
    };
    let mut log = fs::OpenOptions::new().create(true).append(true).open(skip_log)?;
    io::Write::write_all(&mut log, format!("the Debian package: {why}\n").as_bytes())
}

/// Builds the Debian package in its usual place.
pub fn debian_package(root: &Path) -> io::Result<PathBuf> {
    debian(root, &root.join("target/package"))
}

/// Builds the Debian package.
fn debian(root: &Path, folder: &Path) -> io::Result<PathBuf> {
    let program = build(root, None)?;
    stage(root, folder, &program)?;
    let cargo_deb = tool(root, CARGO_DEB)?;
    let package = folder.join("fsmend.deb");
    let _ = fs::remove_file(&package);
    let mut command = Command::new(cargo_deb);
    command.args(["--no-build", "--package", "fsmend-cli", "--strip", "--quiet", "--output"]).arg(&package);
    succeed(command.current_dir(root))?;
    Ok(package)
}

/// Builds the program for release, statically for a target if one is named.
fn build(root: &Path, target: Option<&str>) -> io::Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--release", "--locked", "--package", "fsmend-cli"]).current_dir(root);
    let mut built = root.join("target");
    if let Some(target) = target {
        command.args(["--target", target]);
        built.push(target);
    }
    succeed(&mut command)?;
    Ok(built.join("release/fsmend"))
}

/// Puts what goes into a package beside the program into `folder`.
fn stage(root: &Path, folder: &Path, program: &Path) -> io::Result<()> {
    for part in ["man", "completions", "links/lib", "links/sbin"] {
        let part = folder.join(part);
        let _ = fs::remove_dir_all(&part);
        fs::create_dir_all(&part)?;
    }
    succeed(Command::new(program).args(["generate", "man"]).arg(folder.join("man")))?;
    for (shell, file) in [("bash", "fsmend.bash"), ("zsh", "_fsmend"), ("fish", "fsmend.fish")] {
        let text = output(Command::new(program).args(["generate", "completions", shell]))?;
        fs::write(folder.join("completions").join(file), text)?;
    }
    for name in FACES {
        symlink("../../bin/fsmend", folder.join("links/lib").join(name))?;
    }
    for name in LINKS {
        symlink("../bin/fsmend", folder.join("links/sbin").join(name))?;
    }
    fs::write(folder.join("changelog.Debian"), changelog(root)?)
}

/// The Debian changelog: one entry, which names the file that people read.
fn changelog(root: &Path) -> io::Result<String> {
    let git = |format: &str| output(Command::new("git").args(["log", "-1", format]).current_dir(root));
    let date = git("--format=%cD").unwrap_or_else(|_| "Thu, 01 Jan 1970 00:00:00 +0000".to_owned());
    let version = env!("CARGO_PKG_VERSION");
    Ok(format!(
        "fsmend ({version}-1) unstable; urgency=medium\n\n  * See CHANGELOG.md of the sources.\n\n -- The fsmend developers <fsmend@example.invalid>  {}\n",
        date.trim()
    ))
}

/// A program that needs no library, with its manual pages and completions, in an archive.
fn static_archive(root: &Path, folder: &Path) -> io::Result<PathBuf> {
    if find_program("rustup").is_some() {
        succeed(Command::new("rustup").args(["target", "add", STATIC]))?;
    }
    let program = build(root, Some(STATIC))?;
    let name = format!("fsmend-{}-{STATIC}", env!("CARGO_PKG_VERSION"));
    let tree = folder.join(&name);
    let _ = fs::remove_dir_all(&tree);
    fs::create_dir_all(&tree)?;
    fs::copy(&program, tree.join("fsmend"))?;
    succeed(Command::new("strip").arg(tree.join("fsmend")))?;
    for part in ["man", "completions"] {
        succeed(Command::new("cp").arg("-r").arg(folder.join(part)).arg(&tree))?;
    }
    for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"] {
        fs::copy(root.join(file), tree.join(file))?;
    }
    let archive = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "-czf"]).arg(&archive).arg(&name).current_dir(folder);
    succeed(&mut tar)?;
    Ok(archive)
}

/// The list of components (CycloneDX).
fn components(root: &Path, folder: &Path) -> io::Result<PathBuf> {
    let tool = tool(root, CYCLONEDX)?;
    let mut command = Command::new(tool);
    command.args(["cyclonedx", "--format", "json", "--override-filename", "fsmend.cdx"]);
    succeed(command.args(["--manifest-path", "crates/cli/Cargo.toml"]).current_dir(root))?;
    let made = folder.join("fsmend.cdx.json");
    fs::copy(root.join("crates/cli/fsmend.cdx.json"), &made)?;
    // The tool leaves one beside every crate of the workspace.
    for folder in output(Command::new("git").args(["ls-files", "*Cargo.toml"]).current_dir(root))?.lines() {
        let _ = fs::remove_file(root.join(folder).with_file_name("fsmend.cdx.json"));
    }
    Ok(made)
}

/// A tool of `cargo`, installed below `target` if the machine has none.
fn tool(root: &Path, (program, name, version): (&str, &str, &str)) -> io::Result<PathBuf> {
    if let Some(found) = find_program(program) {
        return Ok(found);
    }
    let tools = root.join("target/tools");
    let installed = tools.join("bin").join(program);
    if !installed.exists() {
        let mut command = Command::new(env!("CARGO"));
        // Not optimised: it runs for a second, and takes minutes to build.
        command.args(["install", "--debug", "--locked", "--quiet", "--version", version, name, "--root"]);
        command.arg(&tools);
        succeed(command.env("CARGO_TARGET_DIR", tools.join("build")))?;
        let _ = fs::remove_dir_all(tools.join("build"));
    }
    Ok(installed)
}

/// Tries the package in a fresh Debian.
fn try_in_debian(root: &Path, folder: &Path, package: &Path) -> io::Result<()> {
    let lint = output(
        Command::new("lintian")
            .args(["--fail-on", "error,warning", "--tag-display-limit", "0", "--allow-root"])
            .args(["--suppress-tags", NOT_IN_DEBIAN])
            .arg(package),
    );
    println!("{}", lint.map_err(|error| io::Error::other(format!("lintian: {error}")))?);
    let debian = folder.join("debian");
    let _ = fs::remove_dir_all(&debian);
    let mut bootstrap = Command::new("debootstrap");
    bootstrap.args(["--variant=minbase", "--include=systemd,man-db,e2fsprogs", "bookworm"]).arg(&debian);
    succeed(bootstrap.stdout(Stdio::null()))?;
    fs::copy(package, debian.join("fsmend.deb"))?;
    fs::copy(root.join("examples/damaged.qcow2"), debian.join("damaged.qcow2"))?;
    let script = include_str!("package.sh").replace("EXPOSURE_MAX", EXPOSURE_MAX);
    let inside = succeed(Command::new("chroot").arg(&debian).args(["/bin/sh", "-euxc", &script]));
    fs::remove_dir_all(&debian)?;
    inside
}

fn succeed(command: &mut Command) -> io::Result<()> {
    let status = command.status().map_err(|error| named(command, &error.to_string()))?;
    if status.success() { Ok(()) } else { Err(named(command, &status.to_string())) }
}

/// What a command prints; an error, with what it printed, if it fails.
fn output(command: &mut Command) -> io::Result<String> {
    let output = command.output().map_err(|error| named(command, &error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(named(command, &format!("{}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr))))
}

fn named(command: &Command, what: &str) -> io::Error {
    io::Error::other(format!("{}: {what}", command.get_program().display()))
}
