// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bodies of the fuzz targets, shared by `fuzz/` (coverage-guided, nightly) and by an ordinary test (seeded, stable).
//!
//! A body takes any bytes and must come back: no panic, no hang, no absurd allocation. Most put the bytes over one structure of a small
//! sound image, make its checksum right when the first byte says so, and run the whole checker over the result: so every parser meets
//! them in the surroundings that it meets in earnest.

mod cut;
mod driver;
mod hybridfs;
mod plans;
mod seeds;
mod ufs;

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use fsmend_device::{Device, MemoryDevice, OpenOptions};
use fsmend_engine::Progress;
use fsmend_ext_check::repair::{self, RepairOptions, RepairPolicy};
use fsmend_ext_check::run::{CheckReport, Refused};
use fsmend_ext_format::{directory, extent, fast_commit, htree, quota, rext3 as format, xattr};

use crate::damage::{Structure, Survey};
use crate::image::{After, Built, Recipe, build};
use crate::repair::laid_over;
use crate::rext3 as images;
use crate::within::{Manner, checked, options};

pub use cut::{Cut, cut_image};
pub use driver::driver_image;
pub use hybridfs::hybridfs;
pub use plans::{log, plan};
pub use seeds::seeds;
pub use ufs::{ufs_image, ufs_parsers};

/// A fuzz target: its name, and its body.
pub struct Target {
    /// Name, also of the file in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// The body.
    pub body: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "parsers", body: parsers },
    Target { name: "superblock", body: superblock },
    Target { name: "groups", body: groups },
    Target { name: "inode", body: inode },
    Target { name: "maps", body: maps },
    Target { name: "directory", body: directory_blocks },
    Target { name: "htree", body: htree_blocks },
    Target { name: "attributes", body: attributes },
    Target { name: "journal", body: journal },
    Target { name: "quota", body: quota_files },
    Target { name: "container", body: container },
    Target { name: "plan", body: plan },
    Target { name: "log", body: log },
    Target { name: "check_image", body: check_image },
    Target { name: "repair_image", body: repair_image },
    Target { name: "cut_image", body: cut_image },
    Target { name: "rext3", body: rext3 },
    Target { name: "driver_image", body: driver_image },
    Target { name: "hybridfs", body: hybridfs },
    Target { name: "ufs_parsers", body: ufs_parsers },
    Target { name: "ufs_image", body: ufs_image },
];

/// The kinds of structures that a target puts its bytes over.
const KINDS: &[(&str, &[&str])] = &[
    ("superblock", &["superblock"]),
    ("groups", &["group", "block bitmap", "inode bitmap"]),
    (
        "inode",
        &["inode of a file", "inode of a directory", "inode of a link", "inode of a device", "special inode"],
    ),
    ("maps", &["extent header", "extent", "extent index", "pointer", "indirect pointer"]),
    ("directory", &["directory entry", "dot entries", "directory tail"]),
    ("htree", &["htree root", "htree node", "htree entry"]),
    (
        "attributes",
        &["attribute block", "attribute in block", "attribute in inode", "attribute magic in inode"],
    ),
    ("journal", &["journal superblock", "journal block"]),
    ("quota", &["quota info", "quota block"]),
];

/// The pure parsers of the format crate: no image around them.
pub fn parsers(data: &[u8]) {
    if let Some(header) = extent::ExtentHeader::parse(data) {
        extent::extents(data, &header).for_each(drop);
        extent::indexes(data, &header).for_each(drop);
    }
    for kind in [quota::QuotaType::User, quota::QuotaType::Group, quota::QuotaType::Project] {
        if let Some(version) = quota::version(data, kind) {
            quota::entries(data, version).for_each(drop);
        }
    }
    quota::references(data).for_each(drop);
    for area in [Some(xattr::Area::of_block(data)), xattr::Area::of_inode(data)].into_iter().flatten() {
        area.entries().take(data.len() + 1).for_each(drop);
        xattr::block_hash(area);
    }
    if let Some(root) = htree::RootInfo::parse(data)
        && let Some(block) = htree::IndexBlock::parse(data, root.count_offset())
    {
        block.entries().for_each(drop);
    }
    fast_commit::records(data).for_each(drop);
    for hash_behind_name in [false, true] {
        let layout = directory::EntryLayout { block_size: data.len().max(1) as u32, hash_behind_name };
        let _ = directory::EntryHeader::at(data, 0, layout);
    }
}

/// A rext3: what its blocks say about themselves, by themselves and in a small image of which bytes are changed. Each change is four
/// bytes (which block of a region or which static one, where in it, how many bytes) and the bytes; those of a block in a region are
/// sealed if the fourth is odd.
pub fn rext3(data: &[u8]) {
    if let Some(header) = format::IndirectHeader::parse(data) {
        let _ = header.is_right(0, fsmend_base::BlockNo(data.len() as u64));
    }
    let _ = format::DirectoryTail::parse(data);
    let _ = format::directory_checksum(0, fsmend_base::BlockNo(0), data);
    static BASE: OnceLock<images::Image> = OnceLock::new();
    let sound = BASE.get_or_init(|| images::build(images::Shape::default()));
    let mut image = sound.clone();
    let owned: Vec<(u64, (u32, images::Role))> =
        image.owned.iter().map(|(block, own)| (*block, *own)).collect();
    let mut rest = data;
    while let Some((head, tail)) = rest.split_first_chunk::<4>() {
        let (choice, at) = (usize::from(head[0]), usize::from(head[1]) * 4);
        let (block, own) =
            owned.get(choice).map_or((choice as u64 % 64, None), |(block, own)| (*block, Some(*own)));
        let len = usize::from(head[2]).min(tail.len()).min(image.block_size() - at);
        image.block(block)[at..at + len].copy_from_slice(&tail[..len]);
        if let Some((inode, role)) = own.filter(|_| head[3] % 2 == 1) {
            image.seal_for(block, (inode, sound.generation_of(inode)), role);
        }
        rest = &tail[len..];
    }
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("fuzz", image.bytes));
    let _ = checked(&device, Manner::default());
}

/// The superblock, found and settled, and all that follows from it.
pub fn superblock(data: &[u8]) {
    over_structure(data, "superblock");
}

/// Group descriptors and bitmaps.
pub fn groups(data: &[u8]) {
    over_structure(data, "groups");
}

/// Inodes of every kind.
pub fn inode(data: &[u8]) {
    over_structure(data, "inode");
}

/// Extent trees and indirect maps.
pub fn maps(data: &[u8]) {
    over_structure(data, "maps");
}

/// Directory blocks.
pub fn directory_blocks(data: &[u8]) {
    over_structure(data, "directory");
}

/// Index blocks of directories.
pub fn htree_blocks(data: &[u8]) {
    over_structure(data, "htree");
}

/// Attributes in inodes and in blocks.
pub fn attributes(data: &[u8]) {
    over_structure(data, "attributes");
}

/// The journal: its superblock, and what stands in it.
pub fn journal(data: &[u8]) {
    over_structure(data, "journal");
}

/// Quota files.
pub fn quota_files(data: &[u8]) {
    over_structure(data, "quota");
}

/// Whatever the first bytes of a file say it is: qcow2, partitions, a file system.
pub fn container(data: &[u8]) {
    let path = std::env::temp_dir().join(format!("fsmend-fuzz-container-{}", std::process::id()));
    if std::fs::write(&path, data).is_ok() {
        open_and_read(&path);
        let _ = std::fs::remove_file(&path);
    }
}

fn open_and_read(path: &Path) {
    let Ok(opened) = fsmend_device::open(path, &OpenOptions::default(), &fsmend::FAMILIES) else { return };
    for target in opened.targets {
        let mut bytes = [0; 4096];
        for offset in [0, 1024, target.device.len().saturating_sub(4096), u64::MAX - 100] {
            let _ = target.device.read_at(offset, &mut bytes);
        }
    }
}

/// The whole checker: the bytes are a list of changes (offset in 24 bits, length in 8, the new bytes) to a small image.
pub fn check_image(data: &[u8]) {
    if let Some(image) = changed(data) {
        run_check(image);
    }
}

/// A repair of such an image is worked out, and what it leaves is repaired again: nothing is left to do then.
pub fn repair_image(data: &[u8]) {
    let Some(image) = changed(data) else { return };
    let Some(changes) = repaired(&image) else { return };
    let again = repaired(&laid_over(&image, &changes));
    assert!(again.is_none_or(|changes| changes.is_empty()), "a second repair finds something to do");
}

/// The changes of a repair, where there is one that leaves a sound image.
fn repaired(image: &[u8]) -> Option<Vec<(u64, Vec<u8>)>> {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("fuzz", image.to_vec()));
    let options = RepairOptions { check: options(Manner::default()), policy: RepairPolicy::default() };
    let repair = repair::plan(&device, &options, &Progress::new(), &AtomicBool::new(false)).ok()?;
    let repair = repair.written_out(&device).ok()?;
    repair.is_clean().then_some(repair.changes)
}

fn changed(data: &[u8]) -> Option<Vec<u8>> {
    Some(put_changes(base()?.image.clone(), data))
}

/// An image with the changes that `data` lists.
fn put_changes(mut image: Vec<u8>, data: &[u8]) -> Vec<u8> {
    let mut rest = data;
    while let Some((head, tail)) = rest.split_first_chunk::<4>() {
        let offset = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize % image.len();
        let len = usize::from(head[3]).min(tail.len()).min(image.len() - offset);
        image[offset..offset + len].copy_from_slice(&tail[..len]);
        rest = &tail[len..];
    }
    image
}

/// The structures of the base image that are of a target's kinds.
fn fitting<'s>(base: &'s Survey, target: &str) -> Vec<&'s Structure> {
    let kinds = KINDS.iter().find(|(name, _)| *name == target).map_or(&[][..], |(_, kinds)| kinds);
    base.structures.iter().filter(|structure| kinds.contains(&structure.kind)).collect()
}

/// Puts `data` over a structure that fits `target`, which its first bytes choose, and checks the image.
fn over_structure(data: &[u8], target: &str) {
    let (Some(base), Some((head, data))) = (base(), data.split_first_chunk::<4>()) else { return };
    let fitting = fitting(base, target);
    let choice = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let Some(structure) = fitting.get(choice % fitting.len().max(1)) else { return };
    let mut record = base.bytes(structure).to_vec();
    // The third byte says from where on the data goes over the structure, the fourth whether its checksum is made right.
    let at = (structure.at + usize::from(head[2])).min(record.len());
    let len = data.len().min(record.len() - at);
    record[at..at + len].copy_from_slice(&data[..len]);
    let mut image = base.image.clone();
    for patch in structure.patches(base, record, head[3] & 1 == 1) {
        let at = patch.offset as usize;
        image[at..at + patch.new.len()].copy_from_slice(&patch.new);
    }
    run_check(image);
}

fn run_check(image: Vec<u8>) {
    let _ = outcome(image);
}

/// What the checker makes of the bytes.
pub fn outcome(image: Vec<u8>) -> Result<CheckReport, Refused> {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("fuzz", image));
    checked(&device, Manner::default())
}

/// The image that the targets damage: small, so that a run takes a millisecond or two, but with one of everything.
pub fn base() -> Option<&'static Survey> {
    static BASE: OnceLock<Option<Survey>> = OnceLock::new();
    BASE.get_or_init(|| make_base().ok().flatten()).as_ref()
}

fn make_base() -> io::Result<Option<Survey>> {
    let recipe = Recipe::new("fuzz-base", 3, "-t ext4 -b 1024 -N 256 -J size=1 -I 256 -O ^extents,^64bit")
        .after(After::Debugfs(old_maps()))
        .after(After::Tune2fs("-O extents"))
        .after(After::Debugfs(everything_else()))
        .after(After::Optimise)
        .after(After::Tune2fs("-O quota"))
        .after(After::Optimise);
    match build(&recipe)? {
        Built::Image(image) => Survey::of(&image).map(Some),
        Built::Skipped(_) => Ok(None),
    }
}

/// Files with indirect maps; the image is filled without a mount, so that fuzzing needs no privileges.
fn old_maps() -> String {
    let mut script = String::from("mkdir /old\n");
    for number in 0..2 {
        script.push_str(&format!("write {SOURCE} /old/file-{number}\n"));
        script.push_str(&format!("fallocate /old/file-{number} 8 20\n"));
    }
    script
}

fn everything_else() -> String {
    let mut script = String::from("mkdir /large\nmkdir /large/below\nmkdir /small\nsymlink /short target\n");
    script.push_str(&format!("symlink /long {}\n", "long/".repeat(40)));
    script.push_str("mknod /pipe p\nmknod /device c 1 3\n");
    for number in 0..60 {
        script.push_str(&format!("mknod /large/{}-{number} p\n", "name".repeat(20)));
    }
    // Holes make extents; more than four make a tree.
    for number in 0..3 {
        script.push_str(&format!("write {SOURCE} /small/file-{number}\n"));
    }
    for hole in 0..30 {
        script.push_str(&format!("fallocate /small/file-0 {} {}\n", 10 + hole * 3, 10 + hole * 3));
    }
    script.push_str(&format!("ea_set /small/file-1 user.in-inode {}\n", "v".repeat(30)));
    script.push_str(&format!("ea_set /small/file-2 user.in-block {}\n", "v".repeat(400)));
    script.push_str("ea_set /small/file-2 user.second value\n");
    script
}

/// What the files hold.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
