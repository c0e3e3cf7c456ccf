// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel shows of a mounted file system, compared with the tree that an image holds: names, types, lengths, contents, owners,
//! attributes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{SeekFrom, lgetxattr, llistxattr, major, minor, seek};
use rustix::io::Errno;

use super::bytes::{PART_BYTES, sum_of_words};
use super::tree::{DIRECTORY, Node, REGULAR, SYMLINK, Tree};

/// So many bytes of a file are read.
const READ_MAX: u64 = 16 << 20;
/// More bytes than any list or value of attributes has.
const ATTRIBUTE_MAX: usize = 1 << 17;
/// The number of attributes that users give.
const USER: u8 = 1;
/// What the kernel puts before the names of attributes, by the number that the disk has for it.
const PREFIXES: &[(u8, &[u8])] = &[
    (USER, b"user."),
    (2, b"system.posix_acl_access"),
    (3, b"system.posix_acl_default"),
    (4, b"trusted."),
    (6, b"security."),
];

/// The first difference between what is mounted at `root` and `tree`; the inner error tells it, with a path.
pub fn compare(root: &Path, tree: &Tree) -> Result<(), String> {
    let mut children: BTreeMap<&[u8], BTreeSet<OsString>> = BTreeMap::new();
    for path in tree.nodes.keys().filter(|path| !path.is_empty()) {
        let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], &path[..]),
        };
        children.entry(parent).or_default().insert(OsString::from_vec(name.to_vec()));
    }
    let nothing = BTreeSet::new();
    let mut buffer = vec![0; ATTRIBUTE_MAX];
    for (path, node) in &tree.nodes {
        let place = root.join(OsStr::from_bytes(path));
        let names = children.get(path.as_slice()).unwrap_or(&nothing);
        let short = |owner: u32| if tree.has_short_owners { owner & 0xFFFF } else { owner };
        let node = &Node { owner: (short(node.owner.0), short(node.owner.1)), ..node.clone() };
        let looked = look(&place, node, names, &mut buffer);
        let is_refused =
            looked.as_ref().is_err_and(|error| error.raw_os_error() == Some(Errno::INVAL.raw_os_error()));
        if is_refused && node.attributes.keys().any(|key| matches!(key.first(), Some(2 | 3))) {
            // The kernel cannot tell who may open it: see `has_attributes`.
            continue;
        }
        let difference = looked.map_err(|error| format!("/{}: {error}", path.escape_ascii()))?;
        if let Some(what) = difference {
            return Err(format!("the kernel sees another {what} of /{}", path.escape_ascii()));
        }
    }
    Ok(())
}

/// In what a file differs from what its record says.
fn look(
    path: &Path,
    node: &Node,
    names: &BTreeSet<OsString>,
    buffer: &mut [u8],
) -> io::Result<Option<&'static str>> {
    let seen = fs::symlink_metadata(path)?;
    let mode = (seen.mode() & 0xFFFF) as u16;
    let holds_the_same = match node.kind {
        DIRECTORY => {
            let listed: io::Result<BTreeSet<OsString>> =
                fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect();
            listed? == *names
        }
        REGULAR => holds(path, node)?,
        SYMLINK => sum_or_hash(fs::read_link(path)?.as_os_str().as_bytes()).contains(&node.content),
        _ => !is_device(node) || device_number(node.content) == (major(seen.rdev()), minor(seen.rdev())),
    };
    let differ = [
        ("number", seen.ino() != u64::from(node.inode)),
        ("type", mode & 0o170_000 != node.kind),
        ("length", node.kind != DIRECTORY && seen.size() != node.size),
        ("content", !holds_the_same),
        ("owner", (seen.uid(), seen.gid()) != node.owner),
        ("permissions", mode & 0o7777 != node.mode),
        ("attributes", !has_attributes(path, node, buffer)?),
    ];
    Ok(differ.into_iter().find(|(_, differ)| *differ).map(|(what, _)| what))
}

fn is_device(node: &Node) -> bool {
    matches!(node.kind, 0o020_000 | 0o060_000)
}

/// The device that two words of a map mean: in the old way, else in the new one.
fn device_number(words: u64) -> (u32, u32) {
    let (old, new) = ((words >> 32) as u32, words as u32);
    match old {
        0 => (new >> 8 & 0xFFF, new & 0xFF | new >> 12 & 0xF_FF00),
        _ => (old >> 8 & 0xFF, old & 0xFF),
    }
}

/// What stands for the target of a link in the tree, in blocks or in the inode.
fn sum_or_hash(target: &[u8]) -> [u64; 2] {
    [sum_of_words(0, target), super::tree::short_target(target)]
}

/// Whether a regular file holds what the record leads to. Holes are passed over: there may be terabytes.
fn holds(path: &Path, node: &Node) -> io::Result<bool> {
    let file = File::open(path)?;
    let (mut parts, mut buffer) = (BTreeMap::new(), vec![0; 1 << 16]);
    let (mut at, mut left) = (0, READ_MAX);
    while left > 0 {
        let data = match seek(&file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Nothing but a hole behind.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(&file, SeekFrom::Hole(data))?;
        at = data;
        while at < end && left > 0 {
            let wanted = buffer.len().min((end - at) as usize);
            let got = file.read_at(&mut buffer[..wanted], at)?;
            if got == 0 {
                return Ok(false);
            }
            for (step, bytes) in buffer[..got].chunks(PART_BYTES).enumerate() {
                let start = at + (step * PART_BYTES) as u64;
                let part: &mut u64 = parts.entry(start / PART_BYTES as u64).or_default();
                *part = part.wrapping_add(sum_of_words(start, bytes));
            }
            (at, left) = (at + got as u64, left.saturating_sub(got as u64));
        }
    }
    parts.retain(|_, sum| *sum != 0);
    Ok(left == 0 || parts == *node.parts)
}

/// Whether the kernel can read every attribute that it knows a name for, and reads the same.
fn has_attributes(path: &Path, node: &Node, buffer: &mut [u8]) -> io::Result<bool> {
    if node.attributes.is_empty() {
        return Ok(llistxattr(path, &mut *buffer)? == 0);
    }
    for (key, stored) in &node.attributes {
        let Some((index, name)) = key.split_first() else { continue };
        let Some((_, prefix)) = PREFIXES.iter().find(|(known, _)| known == index) else { continue };
        // Those of users it shows on files and directories only, whatever is stored.
        if *index == USER && !matches!(node.kind, REGULAR | DIRECTORY) {
            continue;
        }
        let name = [prefix, name].concat();
        let len = match lgetxattr(path, OsStr::from_bytes(&name), &mut *buffer) {
            Err(Errno::NODATA) => return Ok(false),
            // A list with several wrong tags is left as it is, by e2fsck too: the kernel refuses to read it (docs/testing.md).
            Err(Errno::INVAL) if matches!(index, 2 | 3) => continue,
            got => got.map_err(|error| io::Error::other(format!("{}: {error}", name.escape_ascii())))?,
        };
        let value = buffer.get(..len).unwrap_or_default();
        // The kernel keeps access lists in another form on the disk.
        let is_list = matches!(index, 2 | 3);
        if !is_list && sum_of_words(0, value).wrapping_add((len as u64) << 40) != *stored {
            return Ok(false);
        }
    }
    Ok(true)
}
