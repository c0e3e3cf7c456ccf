// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories of every shape.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `count` empty files, then every tenth removed.
pub fn entries(folder: &Path, count: u32) -> io::Result<()> {
    fs::create_dir(folder)?;
    let name = |number: u32| folder.join(format!("entry-{number}"));
    (0..count).try_for_each(|number| fs::write(name(number), b""))?;
    (0..count).step_by(10).try_for_each(|number| fs::remove_file(name(number)))
}

/// `count` names of 200 to 255 bytes for one file in ten.
pub fn long_names(folder: &Path, count: u32) -> io::Result<()> {
    fs::create_dir(folder)?;
    let first = folder.join("0");
    fs::write(&first, b"")?;
    let mut target = first;
    for number in 0..count {
        let name = format!("{number:-<width$}", width = 200 + (number % 56) as usize);
        let path = folder.join(name);
        // Hard links cost no inode; the limit of links is kept at arm's length.
        if number % 1000 == 999 {
            fs::write(&path, b"")?;
            target = path;
        } else {
            fs::hard_link(&target, &path)?;
        }
    }
    Ok(())
}

/// A chain of directories.
pub fn nested(folder: &Path, depth: u32) -> io::Result<()> {
    let mut path = folder.to_owned();
    fs::create_dir(&path)?;
    for level in 0..depth {
        path.push(format!("level-{level}"));
        fs::create_dir(&path)?;
    }
    fs::write(path.join("at-the-bottom"), b"bottom")
}

/// Many empty subdirectories: beyond 65 000 the link count of the parent is 1, where the format allows it.
pub fn subdirectories(folder: &Path, count: u32) -> io::Result<()> {
    fs::create_dir(folder)?;
    (0..count).try_for_each(|number| fs::create_dir(folder.join(format!("{number}"))))
}

/// Names of every length from 1 to 255, and every byte that a name may hold.
pub fn odd_names(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for length in 1..=255 {
        fs::write(folder.join("l".repeat(length)), b"")?;
    }
    for byte in (1..=255).filter(|byte| *byte != b'/') {
        fs::write(folder.join(OsStr::from_bytes(&[b'b', byte, b'e'])), b"")?;
    }
    for name in ["...", " ", "\n", "ünïcödé", "日本語", "-rf", "*"] {
        fs::write(folder.join(name), b"")?;
    }
    Ok(())
}
