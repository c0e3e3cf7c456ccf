//! What is on the example image: a small home directory and a bit of a server, as a debugfs script.

use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const DIRECTORIES: &[&str] = &[
    "etc",
    "etc/network",
    "home",
    "home/alice",
    "home/alice/letters",
    "home/alice/photos",
    "home/alice/photos/2026-06",
    "home/alice/photos/2026-07",
    "home/alice/recipes",
    "home/bob",
    "home/bob/thesis",
    "home/bob/thesis/figures",
    "home/bob/src",
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
    ("home/alice/letters/grandma.txt", 1_450),
    ("home/alice/letters/landlord.txt", 1_700),
    ("home/alice/letters/insurance.txt", 1_650),
    ("home/alice/letters/draft-1.txt", 900),
    ("home/alice/letters/draft-2.txt", 1_100),
    ("home/alice/photos/2026-06/lake.jpg", 4_500),
    ("home/alice/photos/2026-06/sunset.jpg", 3_750),
    ("home/alice/photos/2026-06/picnic.jpg", 4_100),
    ("home/alice/photos/2026-07/beach.jpg", 4_950),
    ("home/alice/photos/2026-07/harbour.jpg", 3_050),
    ("home/alice/recipes/bread.md", 1_250),
    ("home/alice/recipes/soup.md", 980),
    ("home/alice/recipes/apple-pie.md", 2_210),
    ("home/bob/thesis/thesis.tex", 7_000),
    ("home/bob/thesis/references.bib", 2_550),
    ("home/bob/thesis/figures/plot-1.svg", 2_000),
    ("home/bob/thesis/figures/plot-2.svg", 2_300),
    ("home/bob/src/main.c", 1_900),
    ("home/bob/src/Makefile", 260),
    ("home/bob/todo.txt", 500),
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
    script.push_str("symlink /home/alice/latest photos/2026-07\nsymlink /etc/motd /home/bob/todo.txt\n");
    let long = "../shared/archive/of/everything/that/was/ever/written/by/anybody/in/this/house/index.html";
    let _ = writeln!(script, "symlink /home/bob/archive {long}");
    let attribute = scratch.join("attribute");
    std::fs::write(&attribute, "x".repeat(400))?;
    let _ = writeln!(script, "ea_set -f {} /home/bob/thesis/thesis.tex user.abstract", attribute.display());
    let path = scratch.join("script");
    std::fs::write(&path, script)?;
    Ok(path)
}

/// `length` bytes of text that tell where they belong.
fn content(path: &str, length: usize) -> Vec<u8> {
    let line = |number: usize| format!("{path}, line {number}: all is well here.\n").into_bytes();
    (1..).flat_map(line).take(length).collect()
}
