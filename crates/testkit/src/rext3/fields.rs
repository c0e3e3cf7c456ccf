// SPDX-License-Identifier: MIT OR Apache-2.0
//! The field fuzzer for what only a rext3 has: every field of the structures that make it one, in the eight ways of XFS's field fuzzer, with
//! the check left wrong or made right; and blocks of regions that change places.
//!
//! There is no other checker to ask, so the file system before the damage is the judge: a repair leaves nothing wrong in one run, and nothing may be
//! lost or different but what hung on the field alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_base::SeededRandom;
use fsmend_device::{Device, MemoryDevice};
use fsmend_engine::Progress;
use fsmend_ext_check::repair::{self, RepairOptions, RepairPolicy};

use super::{DEEP, HOLES, Image, JOURNAL, LINK, MANY, ONE, PLAIN, ROOT, Role, SUB, TWO, bytes};
use crate::damage::{MUTATIONS, Mutation};
use crate::repair::{Node, Tree};
use crate::within::{Manner, options};

/// Blocks of the map that the inode itself points to.
const DIRECT_BLOCKS: u64 = 12;

/// A field that is damaged, or two blocks that change places.
#[derive(Clone, Debug)]
struct Target {
    label: String,
    what: What,
    /// The inodes that may lose something by it.
    harmed: Vec<u32>,
    /// The same where the check is made right: what the block says then cannot be doubted.
    harmed_sealed: Vec<u32>,
    /// The block whose check can be made right.
    block: Option<(u64, Role)>,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Byte offset and length.
    Field(usize, usize),
    /// Two blocks.
    Swap(u64, u64),
}

/// One way to damage an image.
#[derive(Clone, Debug)]
pub struct Case {
    /// Structure, field and mutation.
    pub label: String,
    /// The damaged image.
    pub image: Image,
    harmed: BTreeSet<u32>,
}

/// All cases on one image, by number.
pub struct Cases {
    sound: Image,
    tree: Tree,
    targets: Vec<Target>,
}

impl Cases {
    /// The cases on `sound`. `None` if its tree cannot be read.
    pub fn on(sound: Image) -> Option<Self> {
        let tree = Tree::of(&sound.bytes)?;
        let targets = targets(&sound);
        Some(Cases { sound, tree, targets })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.targets.len() as u64 * MUTATIONS.len() as u64 * 2
    }

    /// Case number `number`; `None` if it would change nothing, or be the same as another one.
    pub fn case(&self, number: u64) -> Option<Case> {
        let (target, sealed) = (number / 16, number % 2 == 1);
        let target = self.targets.get(usize::try_from(target).ok()?)?;
        let mutation = MUTATIONS[(number / 2 % 8) as usize];
        let mut image = self.sound.clone();
        match target.what {
            What::Field(at, len) => {
                mutation.apply(&mut image.bytes[at..at + len], &mut SeededRandom::new(number));
            }
            What::Swap(..) if mutation != Mutation::Zero => return None,
            What::Swap(one, other) => {
                let (first, second) = (image.block(one).to_vec(), image.block(other).to_vec());
                image.block(one).copy_from_slice(&second);
                image.block(other).copy_from_slice(&first);
            }
        }
        if sealed {
            seal(&mut image, target.block?);
        }
        let harmed = if sealed { &target.harmed_sealed } else { &target.harmed };
        let check = if sealed { ", check right" } else { "" };
        let case = Case {
            label: format!("{number}: {}, {mutation:?}{check}", target.label),
            image,
            harmed: harmed.iter().copied().collect(),
        };
        (case.image.bytes != self.sound.bytes).then_some(case)
    }

    /// Repairs a case, and says what is wrong with what comes of it.
    pub fn judge(&self, case: &Case) -> Vec<String> {
        let first = match plan(&case.image.bytes) {
            Ok(first) => first,
            Err(refused) => return vec![format!("{}: refused: {refused}", case.label)],
        };
        let (left, changes) = first;
        let mut wrong = Vec::new();
        if !left.is_empty() {
            wrong.push(format!("left: {left:?}"));
        }
        let mut bytes = case.image.bytes.clone();
        for (offset, changed) in &changes {
            bytes[*offset as usize..*offset as usize + changed.len()].copy_from_slice(changed);
        }
        match plan(&bytes) {
            Ok((_, changes)) if changes.is_empty() => {}
            _ => wrong.push("a second repair finds something to do".to_owned()),
        }
        match Tree::of(&bytes) {
            Some(after) => wrong.extend(self.losses(&after, &case.harmed)),
            None => wrong.push("there is no root directory".to_owned()),
        }
        wrong.iter().map(|wrong| format!("{}: {wrong}", case.label)).collect()
    }

    /// What is lost or different, though nothing that it hangs on was damaged.
    fn losses(&self, after: &Tree, harmed: &BTreeSet<u32>) -> Vec<String> {
        let mut losses = Vec::new();
        for (inode, paths) in &self.tree.paths {
            let Some((before, _)) = self.tree.by_inode(*inode) else { continue };
            let name = String::from_utf8_lossy(&paths[0]).into_owned();
            let here = after.by_inode(*inode).map(|(node, _)| node);
            match here {
                None if harmed.contains(inode) => {}
                None => losses.push(format!("<{inode}> {name:?} is lost")),
                Some(here) if !harmed.contains(inode) => {
                    losses.extend(before.difference(here).map(|what| format!("{what} of {name:?} differs")));
                }
                Some(here) => losses.extend(directly_lost(before, here, self.sound.block_size() as u64)),
            }
        }
        // Names stay, where no directory on the way to them was damaged.
        for (path, node) in &self.tree.nodes {
            let mut way =
                (0..path.len()).filter(|at| path[*at] == b'/').map(|at| &path[..at]).chain([&path[..0]]);
            let is_safe = way.all(|folder| {
                self.tree.nodes.get(folder).is_some_and(|folder| !harmed.contains(&folder.inode))
            });
            let is_there = after.nodes.get(path).is_some_and(|here| here.inode == node.inode);
            if is_safe && !is_there && !harmed.contains(&node.inode) {
                losses.push(format!("the name {:?} is lost", String::from_utf8_lossy(path)));
            }
        }
        losses.truncate(5);
        losses
    }
}

/// Of a file that was harmed: what its own pointers lead to differs in one block at most. (Whether the rest could have been kept depends on
/// what was damaged.)
fn directly_lost(before: &Node, here: &Node, block_size: u64) -> Option<String> {
    if before.kind != here.kind || before.parts.is_empty() {
        return None;
    }
    let direct = before.parts.iter().filter(|(place, _)| **place < DIRECT_BLOCKS * block_size / 1024);
    let lost = direct.filter(|(place, part)| here.parts.get(place) != Some(part)).count() as u64;
    (lost > block_size / 1024).then(|| format!("{lost} KiB of the first blocks of <{}> differ", before.inode))
}

/// What is left, and the changes.
type Plan = (Vec<String>, Vec<(u64, Vec<u8>)>);

fn plan(image: &[u8]) -> Result<Plan, String> {
    let asked = RepairOptions { check: options(Manner::default()), policy: RepairPolicy::default() };
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("rext3", image.to_vec()));
    let repair = repair::plan(&device, &asked, &Progress::new(), &AtomicBool::new(false))
        .map_err(|refused| refused.to_string())?
        .written_out(&device)
        .map_err(|error| error.to_string())?;
    let is_clean = repair.is_clean();
    let left = repair.left.findings.counts().keys().map(|code| (*code).to_owned()).collect();
    Ok((if is_clean { Vec::new() } else { left }, repair.changes))
}

/// Makes the check of a block right for whatever it says now.
fn seal(image: &mut Image, (block, role): (u64, Role)) {
    let at = image.at(block);
    match role {
        Role::Indirect(_) => {
            let (inode, level) = (image.word(at), image.bytes[at + 4]);
            bytes::seal_indirect(bytes::seed(), block, inode, level, image.block(block));
        }
        Role::Directory(_) => {
            let end = image.block_size() - 4;
            let crc = bytes::crc32c(bytes::seed(), &block.to_le_bytes());
            let crc = bytes::crc32c(crc, &image.block(block)[..end]);
            image.set_word(at + end, crc);
        }
    }
}

fn targets(image: &Image) -> Vec<Target> {
    let mut targets = Vec::new();
    for (block, (inode, role)) in &image.owned {
        // Of the many files with one indirect block each, a few will do.
        if *inode > super::CROWD + 2 {
            continue;
        }
        match role {
            Role::Indirect(level) => indirect_block(image, (*block, *inode, *level), &mut targets),
            Role::Directory(logical) => directory_block(image, (*block, *inode, *logical), &mut targets),
        }
    }
    let field = |label: String, at: usize, len: usize, harmed: &[u32]| Target {
        label,
        what: What::Field(at, len),
        harmed: harmed.to_vec(),
        harmed_sealed: Vec::new(),
        block: None,
    };
    for (name, at) in
        [("s_rext3_magic", 0x3F4), ("s_rext3_region_blocks", 0x3F8), ("s_feature_incompat", 0x60)]
    {
        targets.push(field(name.to_owned(), 1024 + at, 4, &[]));
    }
    for group in 0..image.shape.groups {
        let (start, count) = image.region(group);
        for step in (0..count).step_by(8) {
            let (at, _) = image.bit_of(start + step);
            targets.push(field(format!("bitmap of region {group}"), at, 1, &[]));
        }
        for (name, at, len) in
            [("block_bitmap", 0, 4), ("inode_bitmap", 4, 4), ("inode_table", 8, 4), ("free_blocks", 12, 2)]
        {
            targets.push(field(
                format!("{name} of group {group}"),
                image.descriptor_at(group) + at,
                len,
                &[],
            ));
        }
    }
    for inode in [ROOT, JOURNAL, PLAIN, ONE, TWO, DEEP, HOLES, MANY, SUB, LINK] {
        for index in [0, 1, 11, 12, 13, 14] {
            targets.push(field(
                format!("pointer {index} of <{inode}>"),
                image.pointer_at(inode, index),
                4,
                &[inode],
            ));
        }
        for (name, at, len) in
            [("i_blocks", 0x1C, 4), ("i_size", 4, 4), ("i_links_count", 0x1A, 2), ("i_generation", 0x64, 4)]
        {
            // How many blocks there are can be counted. But as on ext3, what has no links is deleted, and a symbolic link without blocks has
            // its target in the inode.
            let is_telling = match name {
                "i_size" | "i_links_count" => true,
                "i_blocks" => inode == LINK,
                _ => false,
            };
            let harmed: &[u32] = if is_telling { &[inode] } else { &[] };
            targets.push(field(format!("{name} of <{inode}>"), image.inode_at(inode) + at, len, harmed));
        }
    }
    swaps(image, &mut targets);
    targets
}

fn indirect_block(image: &Image, (block, inode, level): (u64, u32, u8), targets: &mut Vec<Target>) {
    let at = image.at(block);
    let label = |name: &str| format!("{name} of the indirect block {block} of <{inode}>, level {level}");
    for (name, offset, len) in [("inode", 0, 4), ("level", 4, 1), ("check", 5, 3)] {
        targets.push(Target {
            label: label(name),
            what: What::Field(at + offset, len),
            harmed: Vec::new(),
            harmed_sealed: vec![inode],
            block: Some((block, Role::Indirect(level))),
        });
    }
    let used: Vec<usize> =
        (8..image.block_size()).step_by(4).filter(|place| image.word(at + place) != 0).collect();
    let mut places: Vec<usize> = [0, used.len() / 2, used.len().saturating_sub(1)]
        .iter()
        .filter_map(|nth| used.get(*nth).copied())
        .collect();
    // One that is a hole, too.
    places.extend((8..image.block_size()).step_by(4).find(|place| image.word(at + place) == 0));
    places.dedup();
    for place in places {
        targets.push(Target {
            label: label(&format!("pointer at {place}")),
            what: What::Field(at + place, 4),
            harmed: vec![inode],
            harmed_sealed: Vec::new(),
            block: None,
        });
    }
}

fn directory_block(image: &Image, (block, inode, logical): (u64, u32, u32), targets: &mut Vec<Target>) {
    let tail = image.at(block) + image.block_size() - 32;
    let fields = [
        ("tail inode 0", 0, 4),
        ("tail length", 4, 2),
        ("tail name length", 6, 1),
        ("tail type", 7, 1),
        ("tail magic", 8, 4),
        ("inode", 12, 4),
        ("generation", 16, 4),
        ("number", 20, 4),
        ("zero", 24, 4),
        ("checksum", 28, 4),
    ];
    for (name, offset, len) in fields {
        targets.push(Target {
            label: format!("{name} of block {logical} of directory <{inode}>"),
            what: What::Field(tail + offset, len),
            harmed: Vec::new(),
            harmed_sealed: Vec::new(),
            block: Some((block, Role::Directory(logical))),
        });
    }
}

/// Pairs of blocks of one kind, of different owners and of the same one.
fn swaps(image: &Image, targets: &mut Vec<Target>) {
    let blocks: Vec<(u64, (u32, Role))> = image.owned.iter().map(|(block, owner)| (*block, *owner)).collect();
    for (nth, (one, (inode, role))) in blocks.iter().enumerate() {
        for (other, (other_inode, other_role)) in
            [1, 3, 17].iter().filter_map(|ahead| blocks.get(nth + ahead))
        {
            let is_directory = |role: &Role| matches!(role, Role::Directory(_));
            if is_directory(role) != is_directory(other_role) || nth % 3 != 0 {
                continue;
            }
            targets.push(Target {
                label: format!("{role:?} of <{inode}> and {other_role:?} of <{other_inode}> change places"),
                what: What::Swap(*one, *other),
                harmed: vec![*inode, *other_inode],
                harmed_sealed: vec![*inode, *other_inode],
                block: Some((*one, *role)),
            });
        }
    }
}
