// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is on the example image: a small home directory and a bit of a server, as a debugfs script.

use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const DIRECTORIES: &[&str] = &[
    "etc",
    "etc/network",
    "users",
    "users/alice",
    "users/alice/letters",
    "users/alice/photos",
    "users/alice/photos/2026-06",
    "users/alice/photos/2026-07",
    "users/alice/recipes",
    "users/bob",
    "users/bob/thesis",
    "users/bob/thesis/figures",
    "users/bob/src",
    "srv",
    "srv/mail",
    "var",
    "var/log",
    "var/backups",
];

/// Files with their lengths in bytes.
const FILES: &[(&str, usize)] = &[
    ("etc/hostname", 8),
    ("etc/fstab", 420),
    ("etc/passwd", 1_400),
    ("etc/network/interfaces", 310),
    ("users/alice/letters/grandma.txt", 1_450),
    ("users/alice/letters/landlord.txt", 1_700),
    ("users/alice/letters/insurance.txt", 1_650),
    ("users/alice/letters/draft-1.txt", 900),
    ("users/alice/letters/draft-2.txt", 1_100),
    ("users/alice/photos/2026-06/lake.jpg", 4_500),
    ("users/alice/photos/2026-06/sunset.jpg", 3_750),
    ("users/alice/photos/2026-06/picnic.jpg", 4_100),
    ("users/alice/photos/2026-07/beach.jpg", 4_950),
    ("users/alice/photos/2026-07/harbour.jpg", 3_050),
    ("users/alice/recipes/bread.md", 1_250),
    ("users/alice/recipes/soup.md", 980),
    ("users/alice/recipes/apple-pie.md", 2_210),
    ("users/bob/thesis/thesis.tex", 7_000),
    ("users/bob/thesis/references.bib", 2_550),
    ("users/bob/thesis/figures/plot-1.svg", 2_000),
    ("users/bob/thesis/figures/plot-2.svg", 2_300),
    ("users/bob/src/main.c", 1_900),
    ("users/bob/src/Makefile", 260),
    ("users/bob/todo.txt", 500),
    ("var/log/syslog", 5_500),
    ("var/log/auth.log", 2_600),
    ("var/log/kern.log", 3_500),
    ("var/backups/passwd.bak", 1_400),
    ("var/backups/mail.tar", 5_120),
];

/// Enough messages to fill several directory blocks, so that the directory gets an index.
const MESSAGES: usize = 40;

/// Writes the contents and a debugfs script that puts them in place into `scratch`; returns the script.
pub fn write(scratch: &Path) -> io::Result<PathBuf> {
    let mut script = String::new();
    for directory in DIRECTORIES {
        let _ = writeln!(script, "mkdir /{directory}");
    }
    let messages =
        (0..MESSAGES).map(|number| (format!("srv/mail/1782{:06}.M{number:04}.example", number * 977), 300));
    let files = FILES.iter().map(|(path, length)| ((*path).to_owned(), *length));
    for (number, (path, length)) in files.chain(messages).enumerate() {
        let source = scratch.join(format!("content-{number}"));
        std::fs::write(&source, content(&path, length))?;
        std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o644))?;
        let _ = writeln!(script, "write {} /{path}", source.display());
    }
    script.push_str("symlink /users/alice/latest photos/2026-07\nsymlink /etc/motd /users/bob/todo.txt\n");
    let long = "../shared/archive/of/everything/that/was/ever/written/by/anybody/in/this/house/index.html";
    let _ = writeln!(script, "symlink /users/bob/archive {long}");
    let attribute = scratch.join("attribute");
    std::fs::write(&attribute, "x".repeat(400))?;
    let _ = writeln!(script, "ea_set -f {} /users/bob/thesis/thesis.tex user.abstract", attribute.display());
    let path = scratch.join("script");
    std::fs::write(&path, script)?;
    Ok(path)
}

/// `length` bytes of text that tell where they belong.
fn content(path: &str, length: usize) -> Vec<u8> {
    let line = |number: usize| format!("{path}, line {number}: all is well here.\n").into_bytes();
    (1..).flat_map(line).take(length).collect()
}
