// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells `fsmend --version` which commit it is built from, where that is known.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=FSMEND_COMMIT");
    let commit = std::env::var("FSMEND_COMMIT").ok().or_else(commit).unwrap_or_default();
    println!("cargo::rustc-env=FSMEND_COMMIT={commit}");
}

/// The commit of the working tree and its date. A packaged source has none.
fn commit() -> Option<String> {
    for path in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", path])?;
        println!("cargo::rerun-if-changed={path}");
    }
    git(&["log", "-1", "--format=%h %cs"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
