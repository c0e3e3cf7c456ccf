// SPDX-License-Identifier: MIT OR Apache-2.0
//! Images made to hurt: absurd sizes, cycles, trees that fan out without end. Each is a sound image with a few bytes changed and the
//! checksums made right, so that no check of a header refuses them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsmend_ext_format::features::Incompat;

use crate::damage::{Patch, Structure, Survey};

/// One hostile image.
pub struct Hostile {
    /// What it does.
    pub name: String,
    /// How it differs from its base.
    pub patches: Vec<Patch>,
    /// Length of the file, when it is not that of the base.
    pub length: Option<u64>,
}

impl Hostile {
    /// Writes the image: `base` with the changes.
    pub fn write(&self, base: &Path, to: &Path) -> io::Result<()> {
        fs::copy(base, to)?;
        let file = File::options().write(true).open(to)?;
        self.patches.iter().try_for_each(|patch| file.write_all_at(&patch.new, patch.offset))?;
        self.length.map_or(Ok(()), |length| file.set_len(length))
    }
}

/// What can be done to any image.
pub fn of_any(survey: &Survey) -> Vec<Hostile> {
    let mut cases = Vec::new();
    for (name, changes) in SUPERBLOCKS {
        cases.extend(altered(survey, name, "superblock", changes));
    }
    for (name, changes) in JOURNALS {
        cases.extend(altered(survey, name, "journal superblock", changes));
    }
    for (name, kind, changes) in INODES {
        cases.extend(altered(survey, name, kind, changes));
    }
    let whole = survey.image.len() as u64;
    for length in [0, 1, 1023, 1024, 1500, 2048, 10_000, whole / 3, whole - 1] {
        cases.push(Hostile {
            name: format!("cut to {length} bytes"),
            patches: Vec::new(),
            length: Some(length),
        });
    }
    cases.push(Hostile {
        name: "much longer than the file system".to_owned(),
        patches: Vec::new(),
        length: Some(1 << 40),
    });
    cases.extend(directory_cycles(survey));
    cases.extend(pointer_bombs(survey));
    cases.extend(extent_cycles(survey));
    cases.extend(crowds(survey));
    cases
}

type Changes = &'static [(&'static str, u64)];

const SUPERBLOCKS: &[(&str, Changes)] = &[
    ("2^60 blocks", &[("s_blocks_count_hi", 1 << 28), ("s_blocks_count_lo", 0)]),
    (
        "2^60 blocks of 64 KiB",
        &[("s_blocks_count_hi", 1 << 28), ("s_log_block_size", 6), ("s_first_data_block", 0)],
    ),
    ("2^64 - 1 blocks", &[("s_blocks_count_hi", u32::MAX as u64), ("s_blocks_count_lo", u32::MAX as u64)]),
    ("2^32 - 1 blocks", &[("s_blocks_count_lo", u32::MAX as u64)]),
    ("2^32 - 1 inodes", &[("s_inodes_count", u32::MAX as u64)]),
    ("groups of one block", &[("s_blocks_per_group", 1), ("s_clusters_per_group", 1)]),
    ("groups of no blocks", &[("s_blocks_per_group", 0)]),
    ("groups of no inodes", &[("s_inodes_per_group", 0)]),
    ("one inode in a group", &[("s_inodes_per_group", 1)]),
    ("blocks of 2^(10+255) bytes", &[("s_log_block_size", 255)]),
    ("clusters of 2^(10+31) bytes", &[("s_log_cluster_size", 31)]),
    ("descriptors of 65535 bytes", &[("s_desc_size", 65_535)]),
    ("descriptors of 1 byte", &[("s_desc_size", 1)]),
    ("inodes of 65535 bytes", &[("s_inode_size", 65_535)]),
    ("inodes of 0 bytes", &[("s_inode_size", 0)]),
    ("flexible groups of 2^255", &[("s_log_groups_per_flex", 255)]),
    ("65535 reserved descriptor blocks", &[("s_reserved_gdt_blocks", 65_535)]),
    ("an orphan list that starts beyond the last inode", &[("s_last_orphan", u32::MAX as u64)]),
    ("first inode 2^32 - 1", &[("s_first_ino", u32::MAX as u64)]),
    ("the root as journal", &[("s_journal_inum", 2)]),
    ("the root as orphan file", &[("s_orphan_file_inum", 2), ("s_feature_compat", 0x103C)]),
];

const JOURNALS: &[(&str, Changes)] = &[
    ("a journal of 2^32 - 1 blocks", &[("s_maxlen", u32::MAX as u64)]),
    ("a journal that starts at its end", &[("s_start", u32::MAX as u64)]),
    ("a journal with 2^31 fast-commit blocks", &[("s_num_fc_blks", 0x80)]),
    ("a journal with blocks of 2^31 bytes", &[("s_blocksize", 0x80)]),
];

const INODES: &[(&str, &str, Changes)] = &[
    ("a file of 2^63 bytes", "inode of a file", &[("i_size_high", 0x7FFF_FFFF)]),
    ("a directory of 2^63 bytes", "inode of a directory", &[("i_size_high", 0x7FFF_FFFF)]),
    ("a directory of 2^40 bytes", "inode of a directory", &[("i_size_high", 0x100)]),
    ("a symbolic link of 2^40 bytes", "inode of a link", &[("i_size_high", 0x100)]),
    ("a journal of 2^50 bytes", "special inode", &[("i_size_high", 0x4_0000)]),
    ("extra size 65535", "inode of a file", &[("i_extra_isize", 65_535)]),
    ("an inode that is its own attribute block", "inode of a file", &[("i_file_acl_lo", 1)]),
];

/// The first structure of a kind with some fields set.
fn altered(survey: &Survey, name: &str, kind: &str, changes: Changes) -> Option<Hostile> {
    let structure = survey.structures.iter().find(|structure| structure.kind == kind)?;
    Some(hostile(name, structure.with(survey, changes)))
}

fn hostile(name: &str, patches: Vec<Patch>) -> Hostile {
    Hostile { name: name.to_owned(), patches, length: None }
}

/// Entries that lead to the root, to their own directory, and everything to one inode.
fn directory_cycles(survey: &Survey) -> Vec<Hostile> {
    let entries: Vec<&Structure> =
        survey.structures.iter().filter(|structure| structure.kind == "directory entry").collect();
    let one = entries.get(1).map(|entry| {
        hostile("an entry that leads to the root", entry.with(survey, &[("inode", 2), ("file_type", 2)]))
    });
    let several = |name: &str, changes: &[(&str, u64)]| {
        let patches =
            entries.iter().step_by(40).take(50).flat_map(|entry| entry.with(survey, changes)).collect();
        hostile(name, patches)
    };
    let mut cases = vec![
        several("fifty entries that lead to one directory", &[("inode", 12), ("file_type", 2)]),
        several("fifty entries that lead to the journal", &[("inode", 8), ("file_type", 1)]),
        several("fifty entries without a length", &[("rec_len", 0)]),
    ];
    cases.extend(one);
    let dots = survey
        .structures
        .iter()
        .filter(|structure| structure.kind == "dot entries")
        .skip(1)
        .step_by(2)
        .take(40);
    let patches = dots.flat_map(|dot| dot.with(survey, &[("inode", 12)])).collect();
    cases.push(hostile("forty directories with one parent that is a child", patches));
    for (name, changes) in [
        ("an htree node that leads to the root", &[("block", 0)]),
        ("an htree of 2^28 blocks", &[("block", 0xFFF_FFFF)]),
    ] {
        cases.extend(altered(survey, name, "htree entry", changes));
        cases.extend(altered(survey, name, "htree node", changes));
    }
    cases
}

/// Blocks of pointers that lead to themselves: three blocks that claim to map a whole disk.
fn pointer_bombs(survey: &Survey) -> Vec<Hostile> {
    let Some(pointer) = survey.structures.iter().find(|structure| structure.kind == "indirect pointer")
    else {
        return Vec::new();
    };
    let record = survey.bytes(pointer);
    let block = pointer.record() / record.len() as u64;
    let bomb = (block as u32).to_le_bytes().repeat(record.len() / 4);
    let patches = pointer.patches(survey, bomb, true);
    let mut cases = vec![hostile("an indirect block whose pointers all lead to itself", patches.clone())];
    for word in ["pointer 12", "pointer 13", "pointer 14"] {
        let inode = survey
            .structures
            .iter()
            .find(|structure| structure.kind == "pointer" && structure.name.starts_with(word));
        if let Some(inode) = inode {
            let mut both = patches.clone();
            both.extend(inode.with(survey, &[("block", block)]));
            cases.push(hostile(&format!("{word} of an inode leads to a block that leads to itself"), both));
        }
    }
    cases
}

/// Extent trees that lead back into themselves, or fan out from one block without end.
fn extent_cycles(survey: &Survey) -> Vec<Hostile> {
    let in_block = |structure: &&Structure| survey.bytes(structure).len() >= 1024;
    let header =
        survey.structures.iter().filter(|structure| structure.kind == "extent header").find(in_block);
    let root_index =
        survey.structures.iter().find(|structure| structure.kind == "extent index" && !in_block(structure));
    let (Some(header), Some(root_index)) = (header, root_index) else { return Vec::new() };
    let len = survey.bytes(header).len();
    let block = header.record() / len as u64;
    [1_u16, 2, 4, 5, 60_000]
        .into_iter()
        .map(|depth| {
            let mut bomb = survey.bytes(header).to_vec();
            let max = u16::from_le_bytes([bomb[4], bomb[5]]);
            bomb[2..4].copy_from_slice(&max.to_le_bytes());
            bomb[6..8].copy_from_slice(&depth.to_le_bytes());
            for entry in 0..usize::from(max) {
                let at = 12 + entry * 12;
                bomb[at..at + 4].copy_from_slice(&(entry as u32).to_le_bytes());
                bomb[at + 4..at + 8].copy_from_slice(&(block as u32).to_le_bytes());
                bomb[at + 8..at + 12].fill(0);
            }
            let mut patches = header.patches(survey, bomb, true);
            patches.extend(root_index.with(survey, &[("ei_leaf_lo", block)]));
            hostile(&format!("an extent block of depth {depth} whose entries all lead to itself"), patches)
        })
        .collect()
}

/// One structure that all inodes claim.
fn crowds(survey: &Survey) -> Vec<Hostile> {
    let files: Vec<&Structure> =
        survey.structures.iter().filter(|structure| structure.kind == "inode of a file").collect();
    let all = |name: &str, change: &dyn Fn(&mut [u8])| {
        let patches = files.iter().flat_map(|file| {
            let mut record = survey.bytes(file).to_vec();
            change(&mut record);
            file.patches(survey, record, true)
        });
        hostile(name, patches.collect())
    };
    let by_extents = survey.features.has_incompat(Incompat::EXTENTS);
    let mut cases = vec![
        all("one block claimed by every file", &|record| {
            let (map, flags) = if by_extents { (ONE_EXTENT, 0x8_0000_u32) } else { (ONE_POINTER, 0) };
            record[0x04..0x08].copy_from_slice(&1024_u32.to_le_bytes());
            record[0x1C..0x20].copy_from_slice(&2_u32.to_le_bytes());
            record[0x20..0x24].copy_from_slice(&flags.to_le_bytes());
            record[0x28..0x64].fill(0);
            record[0x28..0x28 + map.len()].copy_from_slice(map);
        }),
        all("one attribute block for every file", &|record| {
            record[0x68..0x6C].copy_from_slice(&0x1000_u32.to_le_bytes());
        }),
    ];
    cases.extend(orphan_loop(survey, &files));
    cases.push(hostile("a directory whose every entry names the same inode", same_names(survey)));
    cases
}

/// A map whose one block is block 4096.
const ONE_EXTENT: &[u8] = &[0x0A, 0xF3, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x10, 0, 0];
const ONE_POINTER: &[u8] = &[0, 0x10, 0, 0];

/// The list of orphans leads through every file, and ends where it began.
fn orphan_loop(survey: &Survey, files: &[&Structure]) -> Option<Hostile> {
    let number = |file: &Structure| file.name.trim_start_matches("inode ").parse::<u64>().ok();
    let superblock = survey.structures.iter().find(|structure| structure.kind == "superblock")?;
    let mut patches = superblock.with(survey, &[("s_last_orphan", number(files.first()?)?)]);
    for (file, next) in files.iter().zip(files.iter().cycle().skip(1)) {
        patches.extend(file.with(survey, &[("i_dtime", number(next)?), ("i_links_count", 0)]));
    }
    Some(hostile(&format!("an endless list of {} orphans", files.len()), patches))
}

/// Every entry but `.` and `..` of every plain directory block leads to inode 12.
fn same_names(survey: &Survey) -> Vec<Patch> {
    let mut patches = Vec::new();
    let mut last = None;
    for entry in survey.structures.iter().filter(|structure| structure.kind == "directory entry") {
        if last.replace(entry.record()) == Some(entry.record()) {
            continue;
        }
        let mut record = survey.bytes(entry).to_vec();
        let mut at = entry.at;
        while at + 8 <= record.len() {
            let len = usize::from(u16::from_le_bytes([record[at + 4], record[at + 5]]));
            if record[at..at + 4] != [0; 4] {
                record[at..at + 4].copy_from_slice(&12_u32.to_le_bytes());
            }
            at += len.max(8);
        }
        patches.extend(entry.patches(survey, record, true));
    }
    patches
}

/// Files that are no file system, but pretend to be some container of one.
pub fn containers() -> Vec<(&'static str, Vec<u8>)> {
    let mut gpt = vec![0; 1 << 20];
    gpt[510..512].copy_from_slice(&[0x55, 0xAA]);
    gpt[450] = 0xEE;
    gpt[512..520].copy_from_slice(b"EFI PART");
    gpt[524..1024].fill(0xFF);
    let mut mbr = vec![0; 1 << 20];
    mbr[510..512].copy_from_slice(&[0x55, 0xAA]);
    // An extended partition that contains itself.
    mbr[446..462].copy_from_slice(&[0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    vec![
        ("nothing", Vec::new()),
        ("zeroes", vec![0; 1 << 20]),
        ("ones", vec![0xFF; 1 << 20]),
        ("a partition table that contains itself", mbr),
        ("a GPT with 2^32 - 1 entries", gpt),
        ("qcow2 with a first-level table of 2^32 - 1 entries", qcow2(16, u32::MAX, None)),
        ("qcow2 with clusters of 2^63 bytes", qcow2(63, 1, None)),
        ("qcow2 whose backing file is itself", qcow2(16, 1, Some("container.img"))),
        ("qcow2 whose backing file is a device", qcow2(16, 1, Some("/dev/zero"))),
    ]
}

fn qcow2(cluster_bits: u32, l1_size: u32, backing: Option<&str>) -> Vec<u8> {
    let mut image = vec![0; 1 << 18];
    let backing = backing.unwrap_or_default().as_bytes();
    let mut header = b"QFI\xfb".to_vec();
    header.extend(2_u32.to_be_bytes());
    header.extend(if backing.is_empty() { 0_u64 } else { 512 }.to_be_bytes());
    header.extend((backing.len() as u32).to_be_bytes());
    header.extend(cluster_bits.to_be_bytes());
    header.extend((1_u64 << 40).to_be_bytes());
    header.extend(0_u32.to_be_bytes());
    header.extend(l1_size.to_be_bytes());
    header.extend(0x1_0000_u64.to_be_bytes());
    header.extend(0x2_0000_u64.to_be_bytes());
    header.extend(1_u32.to_be_bytes());
    header.extend([0; 12]);
    image[..header.len()].copy_from_slice(&header);
    image[512..512 + backing.len()].copy_from_slice(backing);
    image
}
