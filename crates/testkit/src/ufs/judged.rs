// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judges repairs of images: one is enough, the same at any thread count, for us and for fsck_ffs, and it loses nothing that fsck_ffs keeps.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::checked::{check, codes, folder, memory, plan_of, with};
use super::{Kind, Node, peers, tree};
use crate::host::skip;
use crate::within::{Manner, other_manners, told};

/// All names of an image.
pub type Tree = BTreeMap<String, Node>;

/// A file system before the damage.
pub struct Sound {
    bytes: Vec<u8>,
    tree: Tree,
}

impl Sound {
    /// With these bytes.
    pub fn of(bytes: &[u8]) -> Sound {
        Sound { bytes: bytes.to_vec(), tree: tree(bytes) }
    }
}

/// What is wrong with the repair of an image. With the state before the damage, files are to be kept of which nothing changed, and those that
/// fsck_ffs keeps.
pub fn judge(image: &[u8], sound: Option<&Sound>, has_peer: bool) -> Result<(), String> {
    let one = plan_of(&memory(image), Manner::default()).map_err(|why| format!("refused: {why}"))?;
    if !one.is_clean() {
        return Err(format!("not mended: {:?} left {:?}", codes(&one.found), codes(&one.left)));
    }
    for manner in other_manners(image.len() as u64) {
        let other = plan_of(&memory(image), manner).map_err(|why| format!("refused: {why}"))?;
        if one.changes != other.changes {
            return Err(format!("other bytes with {manner:?}"));
        }
        if told(&one.found) != told(&other.found) {
            return Err(format!("{:?} is found with {manner:?}, {:?}", told(&other.found), told(&one.found)));
        }
    }
    let repaired = with(image, &one.changes);
    let again = codes(&check(&repaired, 2));
    if !again.is_empty() {
        return Err(format!("found afterwards: {again:?}"));
    }
    if let Some(sound) = sound {
        needless(sound, image, &tree(&repaired))?;
    }
    if has_peer { beside_fsck(image, &repaired, sound) } else { Ok(()) }
}

/// Whether the file is there as it was, or with more behind its end.
fn is_kept(of: &Tree, path: &str, node: &Node) -> bool {
    of.get(path).is_some_and(|other| {
        other.kind == node.kind
            && (node.kind == Kind::Directory
                || other.size >= node.size && other.bytes_that_count() == node.bytes_that_count())
    })
}

/// Names that are lost, or lead to something else, although nothing changed of all that they rest on: inodes and indirect blocks of their files and of all directories above
/// them, and the chunks with the names on the way.
fn needless(sound: &Sound, damaged: &[u8], ours: &Tree) -> Result<(), String> {
    let differs = |at: usize, len: usize| sound.bytes.get(at..at + len) != damaged.get(at..at + len);
    let is_hit = |node: &Node| {
        node.record.iter().any(|(at, len)| differs(*at, *len)) || node.chunk != 0 && differs(node.chunk, 512)
    };
    let mut hit: BTreeMap<&str, bool> = BTreeMap::new();
    let mut lost = Vec::new();
    // Directories come before what is in them.
    for (path, node) in &sound.tree {
        let parent =
            path.rsplit_once('/').map_or("/", |(parent, _)| if parent.is_empty() { "/" } else { parent });
        let is_above = path != "/" && hit.get(parent).copied().unwrap_or(false);
        let is_hit = is_above || is_hit(node);
        hit.insert(path, is_hit);
        let data = |node: &Node| {
            let parts = node.blocks.iter().zip(node.contents.values());
            node.kind != Kind::Directory && parts.into_iter().any(|(at, part)| differs(*at, part.len()))
        };
        if !is_hit && !data(node) && !is_kept(ours, path, node) {
            lost.push(format!("{path} ({})", node.inode));
        }
    }
    if lost.is_empty() {
        Ok(())
    } else {
        Err(format!("{} lost without need: {:?}", lost.len(), lost.iter().take(6).collect::<Vec<_>>()))
    }
}

/// fsck_ffs finds nothing in what we leave, and keeps no name that we lose.
fn beside_fsck(image: &[u8], repaired: &[u8], sound: Option<&Sound>) -> Result<(), String> {
    let folder = folder("judged");
    let io = |error: std::io::Error| format!("fsck_ffs cannot be run: {error}");
    let Some(answer) = peers::finds(repaired, &folder).map_err(io)? else {
        skip("fsck_ffs", "FSMEND_UFS_PEERS does not name the folder of FreeBSD's programs");
        return Ok(());
    };
    if !answer.is_clean() {
        return Err(format!("fsck_ffs -fn asks: {:?}\n{}", answer.questions, answer.printed));
    }
    let path = folder.join("theirs.img");
    fs::write(&path, image).map_err(io)?;
    let mut is_through = false;
    for _ in 0..3 {
        is_through = peers::fsck(&["-fy"], &path).map_err(io)?.is_some_and(|answer| !answer.gave_up);
    }
    // What it gives up on, or dies of, has all its names still, right or wrong.
    if !is_through {
        return Ok(());
    }
    let (theirs, ours) = (tree(&fs::read(&path).map_err(io)?), tree(repaired));
    match sound {
        None => lost(&theirs, &ours),
        Some(sound) => lost_of(&sound.tree, &theirs, &ours),
    }
}

/// What fsck_ffs keeps as it was before the damage and we do not.
fn lost_of(sound: &Tree, theirs: &Tree, ours: &Tree) -> Result<(), String> {
    let lost: Vec<String> = sound
        .iter()
        .filter(|(_, node)| node.kind != Kind::Directory)
        .filter(|(path, node)| is_kept(theirs, path, node) && !is_kept(ours, path, node))
        .map(|(path, node)| {
            format!(
                "{path} ({}): {}",
                node.inode,
                ours.get(path).map_or("gone".to_owned(), |own| format!(
                    "{:?} of {} bytes in {}",
                    own.kind, own.size, own.inode
                ))
            )
        })
        .collect();
    if lost.is_empty() {
        Ok(())
    } else {
        Err(format!("{} lost that fsck_ffs keeps: {:?}", lost.len(), lost.iter().take(6).collect::<Vec<_>>()))
    }
}

/// Names that fsck_ffs keeps with their type and size and we do not. lost+found apart, and names of an inode that has further ones: which of them a misdirected write made
/// cannot be known.
fn lost(theirs: &Tree, ours: &Tree) -> Result<(), String> {
    let last = |path: &str| path.rsplit_once('/').map(|(_, name)| name.to_owned());
    let is_kept = |(path, node): &(&String, &Node)| {
        let is_same = |own: &Node| {
            own.kind == node.kind
                && (node.kind != Kind::File || own.size >= node.size)
                && own.inode == node.inode
        };
        let is_elsewhere = || ours.iter().any(|(other, own)| is_same(own) && last(other) == last(path));
        ours.get(*path).is_some_and(is_same)
            || node.links > 1 && is_elsewhere()
            || path.starts_with("/lost+found")
            || node.kind == Kind::Nothing
            // A link without a target leads nowhere.
            || node.kind == Kind::Link && node.size == 0
    };
    let lost: Vec<_> = theirs.iter().filter(|one| !is_kept(one)).map(|(path, _)| path.clone()).collect();
    if lost.is_empty() { Ok(()) } else { Err(format!("lost what fsck_ffs keeps: {lost:?}")) }
}

/// Notes a failure; keeps its image in the folder that `FSMEND_KEEP` names.
pub fn note(failures: &mut Vec<String>, image: &[u8], failure: String) {
    if let Some(folder) = std::env::var_os("FSMEND_KEEP") {
        let name = format!("{}-{:?}.img", failures.len(), std::thread::current().name().unwrap_or("test"));
        fs::write(Path::new(&folder).join(name.replace(['"', ' '], "")), image)
            .expect("the folder can be written");
    }
    failures.push(failure);
}

/// Fails if there are failures, or nothing was tried.
pub fn report(failures: &[String], tried: usize) {
    assert!(tried > 0);
    assert!(failures.is_empty(), "{} of {tried}:\n{}", failures.len(), failures.join("\n"));
}
