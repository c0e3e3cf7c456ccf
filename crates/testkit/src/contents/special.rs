// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links, devices, attributes, owners, encryption: everything that is not bytes in a file.

use std::fs;
use std::io;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::Stdio;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};

use crate::host::{command, is_root, run};

/// Files with up to 200 names, in two directories.
pub fn hard_links(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder.join("other"))?;
    for (file, names) in [("pair", 1), ("many", 200)] {
        fs::write(folder.join(file), file)?;
        for name in 0..names {
            fs::hard_link(folder.join(file), folder.join("other").join(format!("{file}-{name}")))?;
        }
    }
    Ok(())
}

/// Targets around the length that fits into an inode, and as long as they may be in a small block.
pub fn symlinks(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for length in [1, 10, 58, 59, 60, 61, 100, 150, 151, 200, 900, 1022] {
        symlink("t".repeat(length), folder.join(format!("to-{length}")))?;
    }
    Ok(())
}

/// Devices need the superuser; without, there are only pipes and sockets.
pub fn devices(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    let make = |name: &str, kind: FileType, device: u64| -> io::Result<()> {
        Ok(mknodat(CWD, folder.join(name), kind, Mode::from_raw_mode(0o600), device)?)
    };
    make("pipe", FileType::Fifo, 0)?;
    make("socket", FileType::Socket, 0)?;
    if is_root() {
        make("character", FileType::CharacterDevice, makedev(1, 3))?;
        make("block", FileType::BlockDevice, makedev(7, 200))?;
        make("large-numbers", FileType::CharacterDevice, makedev(300, 70_000))?;
    }
    Ok(())
}

/// Sets an attribute; a file system that has none, or no room for it, is not an error.
fn set_attribute(path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
    match setxattr(path, name, value, XattrFlags::empty()) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSPC | rustix::io::Errno::RANGE) => Ok(()),
        Err(rustix::io::Errno::TOOBIG | rustix::io::Errno::PERM) => Ok(()),
        other => Ok(other?),
    }
}

/// From one small value in the inode to a full block; ten files share one block.
pub fn attributes(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for (name, count, length) in
        [("one", 1, 3), ("empty", 1, 0), ("some", 4, 20), ("block", 3, 200), ("many", 30, 10)]
    {
        let path = folder.join(name);
        fs::write(&path, name)?;
        for number in 0..count {
            set_attribute(&path, &format!("user.attribute-{number}"), &vec![b'a'; length])?;
        }
    }
    for number in 0..10 {
        let path = folder.join(format!("shared-{number}"));
        fs::write(&path, b"")?;
        set_attribute(&path, "user.shared", &[b's'; 500])?;
        set_attribute(&path, "trusted.shared", &[b't'; 100])?;
    }
    let directory = folder.join("directory");
    fs::create_dir(&directory)?;
    set_attribute(&directory, "user.of-a-directory", &[b'd'; 300])?;
    symlink("nowhere", folder.join("link"))?;
    // Removed and replaced ones leave gaps.
    set_attribute(&folder.join("many"), "user.attribute-3", b"replaced by something longer")?;
    match rustix::fs::removexattr(folder.join("many"), "user.attribute-5") {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NODATA) => Ok(()),
        other => Ok(other?),
    }
}

/// Values beyond a block, one of them with two users.
pub fn huge_attributes(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for (name, length) in [("five", 5_000), ("twenty", 20_000), ("twenty-again", 20_000), ("sixty", 60_000)] {
        let path = folder.join(name);
        fs::write(&path, name)?;
        set_attribute(&path, "user.huge", &vec![b'h'; length])?;
        set_attribute(&path, "user.small", b"beside it")?;
    }
    Ok(())
}

/// An access control list, in the kernel's version 2 form: tag, permissions, id.
pub fn access_list() -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    let entries: [(u16, u16, u32); 5] = [(1, 6, !0), (2, 4, 1000), (4, 4, !0), (16, 4, !0), (32, 0, !0)];
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

/// Access and default lists.
pub fn acls(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    let list = access_list();
    set_attribute(folder, "system.posix_acl_default", &list)?;
    for number in 0..5 {
        let path = folder.join(format!("file-{number}"));
        fs::write(&path, b"with a list")?;
        set_attribute(&path, "system.posix_acl_access", &list)?;
    }
    fs::create_dir(folder.join("inherits"))
}

/// Files of users and groups with small and large numbers.
pub fn owners(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for owner in [1, 2, 1000, 1001, 65_534, 70_000, 4_000_000_000] {
        let path = folder.join(format!("of-{owner}"));
        fs::write(&path, vec![b'o'; (owner % 50_000) as usize])?;
        chown(&path, Some(owner), Some(owner / 2))?;
    }
    Ok(())
}

/// A directory under a policy of the kernel's, with files, long names, links and subdirectories.
pub fn encrypted(root: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    let key = "0123456789abcdef".repeat(4);
    let mut add = command("xfs_io")
        .args(["-c", "add_enckey"])
        .arg(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = add.stdin.take() {
        io::Write::write_all(&mut input, key.as_bytes())?;
    }
    let said = add.wait_with_output()?.stdout;
    let said = String::from_utf8_lossy(&said);
    let identifier = said.split_whitespace().last().ok_or_else(|| io::Error::other("xfs_io named no key"))?;
    run("xfs_io", ["-c".as_ref(), format!("set_encpolicy {identifier}").as_ref(), folder.as_os_str()])?;
    fs::create_dir(folder.join("subfolder"))?;
    for number in 0..300 {
        fs::write(
            folder.join(format!("secret-{number}-{}", "s".repeat(number % 200))),
            vec![b'e'; number * 20],
        )?;
    }
    symlink("a target that nobody may see", folder.join("link"))?;
    symlink("t".repeat(300), folder.join("long-link"))
}
