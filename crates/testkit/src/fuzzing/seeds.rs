// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where coverage-guided fuzzing starts: for each target, inputs that reach the heart of what it tries.

use std::fs;
use std::io;
use std::path::Path;

use super::{Cut, base, fitting, plans};
use crate::damage::Damage;
use crate::host::command;

/// Structures of the base image that one target starts with.
const STRUCTURES: usize = 200;
/// Damaged images that `check_image` and `repair_image` start with.
const DAMAGES: u64 = 300;
/// A cut image that is longer is left out: mutating it would mostly change what does not matter.
const CUT_BYTES_MAX: usize = 128 << 10;

/// Inputs to start `target` with. `images` is a folder of images, plain or packed by xz, for `cut_image`.
pub fn seeds(target: &str, images: Option<&Path>) -> io::Result<Vec<Vec<u8>>> {
    Ok(match target {
        "parsers" => records(),
        "plan" | "log" => plans::seeds(),
        "ufs_parsers" | "ufs_image" => (0..4).map(|choice| vec![choice, 0, 0, 1, 0]).collect(),
        "container" => containers()?,
        "check_image" | "repair_image" => damages(),
        "cut_image" => match images {
            Some(folder) => cuts(folder)?,
            None => Cut::of(base_image(), CUT_BYTES_MAX).into_iter().collect(),
        },
        _ => over_structures(target),
    })
}

fn base_image() -> Vec<u8> {
    base().map(|base| base.image.clone()).unwrap_or_default()
}

/// Every structure that fits, as it is.
fn over_structures(target: &str) -> Vec<Vec<u8>> {
    let Some(base) = base() else { return Vec::new() };
    let fitting = fitting(base, target);
    let step = fitting.len().div_ceil(STRUCTURES).max(1);
    let numbered = fitting.iter().enumerate().step_by(step);
    numbered
        .map(|(number, structure)| {
            let [low, high] = (number as u16).to_le_bytes();
            let mut seed = vec![low, high, 0, 1];
            seed.extend(&base.bytes(structure)[structure.at..]);
            seed
        })
        .collect()
}

/// All records of the base image, for the pure parsers.
fn records() -> Vec<Vec<u8>> {
    let Some(base) = base() else { return Vec::new() };
    let step = base.structures.len().div_ceil(4 * STRUCTURES).max(1);
    let structures = base.structures.iter().step_by(step);
    structures.map(|structure| base.bytes(structure)[structure.at..].to_vec()).collect()
}

/// Damage to the base image, in the form of a list of changes.
fn damages() -> Vec<Vec<u8>> {
    let Some(base) = base() else { return Vec::new() };
    (0..DAMAGES).map(|seed| as_changes(&Damage::of_a_field(base, seed))).collect()
}

fn as_changes(damage: &Damage) -> Vec<u8> {
    let mut changes = Vec::new();
    for patch in &damage.patches {
        let differs = |at: &usize| patch.old[*at] != patch.new[*at];
        for at in (0..patch.new.len()).filter(differs) {
            let [low, middle, high, ..] = (patch.offset as usize + at).to_le_bytes();
            changes.extend([low, middle, high, 1, patch.new[at]]);
        }
    }
    changes
}

/// Files of every kind that is recognised: a plain image, qcow2, partition tables.
fn containers() -> io::Result<Vec<Vec<u8>>> {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/damaged.qcow2");
    let qcow2 = fs::read(example)?;
    let mut image = base_image();
    image.truncate(64 << 10);
    let mut mbr = vec![0; 512];
    mbr[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 0, 0, 1, 0, 0, 0, 100, 0, 0, 0]);
    mbr[510..].copy_from_slice(&[0x55, 0xAA]);
    let mut gpt = mbr.clone();
    gpt[450] = 0xEE;
    gpt.extend(b"EFI PART");
    gpt.resize(20_000, 0);
    let disk = [mbr, image.clone()].concat();
    Ok(vec![qcow2[..qcow2.len().min(200 << 10)].to_vec(), image, disk, gpt])
}

/// The images of a folder, cut to what a check reads.
fn cuts(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut cuts = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let image = match path.extension().is_some_and(|extension| extension == "xz") {
            true => command("xz").arg("-dc").arg(&path).output()?.stdout,
            false => fs::read(&path)?,
        };
        cuts.extend(Cut::of(image, CUT_BYTES_MAX));
    }
    Ok(cuts)
}
