// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damage with a structure, as random bytes do not make it: inodes and blocks that change places, maps and nodes that two share, directories
//! within their own children, lost stretches of the disk; with right checksums, where those are wanted. One number is one case.

mod editor;
mod inodes;
mod names;
mod regions;
mod victim;

use fsmend_base::SeededRandom;

use crate::repair::{Image, Tree};
use editor::Editor;
pub use victim::{Trial, Victim};

/// Does something, and says what; `None` where the image has nothing to do it to.
type Deed = fn(&mut Editor<'_>) -> Option<String>;

/// All deeds, by name.
const DEEDS: &[(&str, Deed)] = &[
    ("records swapped", inodes::swap_records),
    ("record copied", inodes::copy_record),
    ("map copied", inodes::copy_map),
    ("inode cleared", inodes::clear),
    ("type changed", inodes::change_type),
    ("flag turned over", inodes::flip_flag),
    ("number of an inode", inodes::wrong_number),
    ("extents", inodes::extents),
    ("extent node shared", inodes::shared_node),
    ("pointers", inodes::pointers),
    ("attributes", inodes::attributes),
    ("tails swapped", inodes::swap_tails),
    ("inode of a value", inodes::value_inodes),
    ("name leads elsewhere", names::lead_elsewhere),
    ("names swapped", names::swap_targets),
    ("cycle", names::cycle),
    ("dots", names::dots),
    ("name gone", names::unname),
    ("name changed", names::rename),
    ("directory blocks", names::blocks),
    ("index", names::index),
    ("directory reshaped", names::reshape),
    ("bitmaps", regions::bitmaps),
    ("bits", regions::bits),
    ("descriptors", regions::descriptors),
    ("tables", regions::tables),
    ("stretch", regions::stretch),
    ("misdirected write", regions::misdirected),
    ("superblock", regions::superblock),
    ("geometry", regions::geometry),
    ("orphans", regions::orphans),
    ("journal", regions::journal),
    ("system file", regions::system_file),
];

/// The names of all deeds.
pub const DEED_NAMES: [&str; DEEDS.len()] = {
    let mut names = [""; DEEDS.len()];
    let mut at = 0;
    while at < DEEDS.len() {
        names[at] = DEEDS[at].0;
        at += 1;
    }
    names
};

/// A damaged image, and what was done to it.
pub struct Mischief {
    /// The names of the deeds.
    pub class: String,
    /// What each did.
    pub label: String,
    /// The damaged image.
    pub image: Image,
}

/// Damages a sound image: the same number, the same damage. `None` where there is nothing to be done to it, or nothing came of it.
///
/// One deed in most cases, two or three in others; every sixth case leaves checksums wrong.
pub fn mischief(sound: &'static [u8], tree: &Tree, seed: u64) -> Option<Mischief> {
    let mut random = SeededRandom::new(seed);
    let count = [1, 1, 1, 1, 2, 2, 3].get(random.below(7) as usize).copied().unwrap_or(1);
    let mut editor = Editor::new(sound, tree, random.next_u64())?;
    editor.sealed = random.below(6) > 0;
    let (mut classes, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let Some((name, deed)) = DEEDS.get(random.below(DEEDS.len() as u64) as usize) else { continue };
        let before = editor.image.clone();
        match deed(&mut editor) {
            Some(label) if editor.image != before => {
                classes.push(*name);
                labels.push(label);
            }
            _ => editor.image = before,
        }
        if labels.len() == count {
            break;
        }
    }
    if labels.is_empty() {
        return None;
    }
    classes.sort_unstable();
    let seals = if editor.sealed { "" } else { " (checksums left wrong)" };
    Some(Mischief { class: classes.join(" + "), label: labels.join("; ") + seals, image: editor.image })
}
