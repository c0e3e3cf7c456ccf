// SPDX-License-Identifier: MIT OR Apache-2.0
//! The oldest Rust that the workspace promises to build with (`rust-version`): everything is checked with it.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use fsmend_testkit::host::find_program;

/// Checks the workspace with that version, where it can be had; why not is noted in `skip_log` otherwise.
pub fn check(root: &Path, skip_log: &Path) -> io::Result<()> {
    let version = promised(&fs::read_to_string(root.join("Cargo.toml"))?)
        .ok_or_else(|| io::Error::other("Cargo.toml names no rust-version"))?;
    if let Some(why) = obstacle(&version) {
        let mut log = fs::OpenOptions::new().create(true).append(true).open(skip_log)?;
        return log.write_all(format!("Rust {version}: {why}\n").as_bytes());
    }
    // Results of another compiler are of no use to it.
    let mut command = Command::new("rustup");
    command.args(["run", &version, "cargo", "check", "--workspace", "--locked", "--target-dir"]);
    command.arg(root.join("target/minimum")).current_dir(root);
    // The one that runs us has said which cargo and rustc to take.
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTDOC"] {
        command.env_remove(name);
    }
    match command.status()?.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("it does not build with Rust {version}"))),
    }
}

/// What `rust-version` says, as a toolchain is called.
fn promised(manifest: &str) -> Option<String> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = \""))?;
    let version = line.strip_suffix('"')?;
    Some(if version.matches('.').count() == 1 { format!("{version}.0") } else { version.to_owned() })
}

/// Why there is no such toolchain.
fn obstacle(version: &str) -> Option<String> {
    if find_program("rustup").is_none() && Command::new("rustup").arg("--version").output().is_err() {
        return Some("rustup is missing".to_owned());
    }
    let mut install = Command::new("rustup");
    install.args(["toolchain", "install", version, "--profile", "minimal", "--no-self-update"]);
    let installed = install.output().ok()?;
    (!installed.status.success()).then(|| format!("rustup cannot install {version}"))
}

#[cfg(test)]
mod tests {
    use super::promised;

    #[test]
    fn the_promise_is_read() {
        assert_eq!(promised("[a]\nrust-version = \"1.90\"\n").as_deref(), Some("1.90.0"));
        assert_eq!(promised("rust-version = \"1.90.1\"\n").as_deref(), Some("1.90.1"));
        assert_eq!(promised("edition = \"2024\"\n"), None);
    }
}
