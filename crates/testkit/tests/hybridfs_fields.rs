// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every field of every structure of hybridfs, damaged in eight ways, with checksums that are right and wrong: the check ends, finds the same at any number of threads, and one repair mends
//! it. `FSMEND_FIELDS_EVERY=1` takes all cases.
#![allow(clippy::unwrap_used, clippy::panic)]

mod hybridfs_common;

use fsmend_base::{SeededRandom, crc32c};
use fsmend_hybridfs_format::{HEADER_LEN, INODE_LEN, Place, SUPERBLOCK_OFFSET, seed};
use fsmend_testkit::hybridfs::{Image, LARGE, PIECES, dirty_image, image};
use hybridfs_common::{FILE_2000, FILE_9000, check, mended, plan};

/// Offset and bytes of each field.
type Fields = &'static [(usize, usize)];

const SUPERBLOCK: Fields = &[
    (0, 8),
    (8, 4),
    (12, 4),
    (16, 8),
    (24, 8),
    (32, 8),
    (40, 8),
    (48, 8),
    (56, 8),
    (88, 4),
    (92, 4),
    (96, 8),
    (104, 8),
    (112, 8),
    (120, 4),
    (124, 4),
    (128, 4),
    (132, 4),
    (136, 8),
    (144, 8),
    (152, 8),
    (160, 8),
    (168, 8),
    (176, 8),
];
const ANCHOR: Fields = &[(0, 8), (8, 4), (12, 4), (16, 8), (24, 8), (32, 8), (40, 8), (48, 8), (56, 4)];
const HEADER: Fields = &[
    (0, 4),
    (4, 4),
    (8, 1),
    (9, 1),
    (10, 2),
    (12, 4),
    (16, 8),
    (24, 4),
    (28, 4),
    (32, 8),
    (40, 8),
    (48, 8),
    (56, 8),
];
const RECORD: Fields = &[(0, 8), (8, 6), (14, 2), (16, 8), (24, 8)];
const ENTRY: Fields = &[(0, 8), (8, 4), (12, 4), (16, 1), (17, 1), (18, 2)];
const INODE: Fields = &[
    (0, 4),
    (4, 8),
    (12, 4),
    (16, 2),
    (18, 1),
    (19, 1),
    (20, 4),
    (24, 4),
    (28, 4),
    (32, 8),
    (40, 8),
    (48, 8),
    (56, 8),
    (64, 8),
    (72, 8),
    (80, 4),
    (84, 1),
    (85, 1),
    (86, 1),
    (87, 1),
    (88, 8),
    (96, 8),
    (104, 6),
    (110, 2),
    (112, 8),
    (120, 8),
];
const SUMMARY: Fields = &[
    (64, 8),
    (72, 4),
    (76, 4),
    (80, 8),
    (88, 8),
    (96, 8),
    (104, 4),
    (108, 4),
    (112, 8),
    (120, 8),
    (128, 8),
    (136, 8),
    (144, 8),
    (152, 8),
    (160, 4),
    (164, 4),
    (168, 4),
    (172, 4),
    (176, 4),
    (180, 4),
    (184, 8),
    (192, 1),
    (193, 1),
    (200, 8),
    (208, 6),
    (214, 2),
    (216, 8),
    (224, 8),
    (616, 1),
    (617, 1),
    (624, 8),
    (632, 6),
    (638, 2),
    (640, 8),
    (648, 8),
    (1040, 8),
    (1048, 8),
];

/// The eight ways, on a little-endian number.
fn damaged(field: &mut [u8], way: u64, random: &mut SeededRandom) {
    let bits = field.len() * 8;
    match way {
        0 => field.fill(0),
        1 => field.fill(0xFF),
        2 => field[(bits - 1) / 8] ^= 0x80,
        3 => field[bits / 2 / 8] ^= 1 << (bits / 2 % 8),
        4 => field[0] ^= 1,
        5 | 6 => {
            let mut carry = true;
            for byte in field.iter_mut() {
                let (sum, over) = if way == 5 {
                    byte.overflowing_add(u8::from(carry))
                } else {
                    byte.overflowing_sub(u8::from(carry))
                };
                (*byte, carry) = (sum, over);
            }
        }
        _ => field.iter_mut().for_each(|byte| *byte = random.next_u64() as u8),
    }
}

/// Makes the checksum at `at` in a structure right.
fn sealed(bytes: &mut [u8], at: usize, state: u32) {
    bytes[at..at + 4].fill(0);
    let crc = crc32c(state, bytes).to_le_bytes();
    bytes[at..at + 4].copy_from_slice(&crc);
}

/// A structure in an image.
enum Structure {
    /// A copy of the superblock, or all of them.
    Superblock {
        all: bool,
    },
    /// The newest anchor, or the one before.
    Anchor(usize),
    /// Something in an object with a header.
    Object(Place, usize),
    Inode(usize),
    Summary(u64),
}

impl Structure {
    /// Damages a field of it; makes its checksums right if they should be.
    fn apply(
        &self,
        image: &mut Image,
        (at, len): (usize, usize),
        seal: bool,
        damage: &mut dyn FnMut(&mut [u8]),
    ) {
        let uuid = image.sb.uuid;
        match self {
            Structure::Superblock { all } => {
                let copies = if *all { image.sb.copies().to_vec() } else { vec![SUPERBLOCK_OFFSET] };
                let mut block = image.bytes[SUPERBLOCK_OFFSET as usize..][..512].to_vec();
                damage(&mut block[at..at + len]);
                if seal {
                    sealed(&mut block, 8, u32::MAX);
                }
                for copy in copies {
                    image.bytes[copy as usize..][..512].copy_from_slice(&block);
                }
            }
            Structure::Anchor(age) => {
                let place = image.anchor_offset(image.anchors()[*age].number % 4);
                let anchor = &mut image.bytes[place..place + 512];
                damage(&mut anchor[at..at + len]);
                if seal {
                    sealed(anchor, 8, seed_of(&uuid));
                }
            }
            Structure::Object(place, within) => {
                let at = within + at;
                damage(&mut image.at(*place)[at..at + len]);
                if seal {
                    image.seal_object(*place);
                }
            }
            Structure::Inode(place) => {
                let at = place + at;
                damage(&mut image.bytes[at..at + len]);
                if seal {
                    let inode = &mut image.bytes[*place..place + INODE_LEN];
                    sealed(inode, 0, seed_of(&uuid));
                    image.seal_rows();
                }
            }
            Structure::Summary(address) => {
                let at = image.offset(*address) + at;
                damage(&mut image.bytes[at..at + len]);
                if seal {
                    image.seal_summary(*address);
                }
            }
        }
    }
}

fn seed_of(uuid: &[u8; 16]) -> u32 {
    seed(uuid)
}

/// Structures of every kind, and their fields.
fn structures(image: &Image) -> Vec<(&'static str, Structure, Fields)> {
    let inode = |path: &str| Structure::Inode(image.inode_at(image.lookup(path)));
    let nodes = |records: Vec<(u8, fsmend_hybridfs_format::Record)>, level: u8| {
        records.into_iter().find(|(at, _)| *at == level).map(|(_, record)| record.place)
    };
    let map = |path: &str| image.records(&image.map(image.lookup(path)));
    let mut all = vec![
        ("superblock", Structure::Superblock { all: false }, SUPERBLOCK),
        ("superblocks", Structure::Superblock { all: true }, SUPERBLOCK),
        ("anchor", Structure::Anchor(0), ANCHOR),
        ("older anchor", Structure::Anchor(1), ANCHOR),
        ("summary", Structure::Summary(image.last().address), SUMMARY),
        ("summary's header", Structure::Summary(image.last().address), HEADER),
        ("small file", inode(FILE_2000), INODE),
        ("file", inode(FILE_9000), INODE),
        ("file with a tree", inode(PIECES), INODE),
        ("directory with a tree", inode(LARGE), INODE),
        ("root", Structure::Inode(image.inode_at(2)), INODE),
        ("device", inode("inline/deep/device"), INODE),
        ("attributes", inode("inline/deep/user.much"), INODE),
    ];
    let objects = [
        ("node of a file", nodes(map(PIECES), 1), RECORD),
        ("node of a directory", nodes(map(LARGE), 1), RECORD),
        ("node of the IFILE", nodes(image.ifile(), 1), RECORD),
        ("directory block", nodes(map(LARGE), 0), ENTRY),
        ("bitmap", nodes(image.bfile(), 0), &[(0, 8), (8, 8)]),
    ];
    for (name, place, fields) in objects {
        let place = place.unwrap_or_else(|| panic!("there is no {name}"));
        all.push((name, Structure::Object(place, 0), HEADER));
        all.push((name, Structure::Object(place, HEADER_LEN), fields));
    }
    all
}

#[test]
fn a_damaged_field_is_found_alike_and_mended_in_one_run_or_the_file_system_is_refused() {
    let every: u64 =
        std::env::var("FSMEND_FIELDS_EVERY").ok().and_then(|value| value.parse().ok()).unwrap_or(97);
    let mut failed = Vec::new();
    let (mut cases, mut run) = (0_u64, 0_u64);
    for base in [image(), dirty_image(3)] {
        for (name, structure, fields) in structures(&base) {
            for (field, way, seal) in fields
                .iter()
                .flat_map(|field| (0..8).flat_map(move |way| [false, true].map(|seal| (*field, way, seal))))
            {
                cases += 1;
                if !cases.is_multiple_of(every) {
                    continue;
                }
                run += 1;
                let mut image = base.clone();
                let mut random = SeededRandom::new(cases);
                structure.apply(&mut image, field, seal, &mut |bytes| damaged(bytes, way, &mut random));
                if let Err(why) = std::panic::catch_unwind(|| judge(&image.bytes)) {
                    let why = why.downcast_ref::<String>().cloned().unwrap_or_else(|| "panic".to_owned());
                    failed.push(format!("{name}, field at {}, way {way}, sealed {seal}: {why}", field.0));
                }
            }
        }
    }
    assert!(run > 0 && failed.is_empty(), "{} of {run} failed:\n{}", failed.len(), failed.join("\n\n"));
}

fn judge(bytes: &[u8]) {
    match check(bytes, 1) {
        // Without a superblock, or any segment, it is refused, and that is all.
        Err(refused) => {
            let known = [
                "not-hybridfs",
                "no-segment",
                "cut-off",
                "memory-too-small",
                "unknown-feature",
                "log-elsewhere",
                "wrong-log",
                "only-log",
            ];
            assert!(known.contains(&refused.refusal.code), "{refused}");
        }
        // What an unknown feature forbids to write can be checked, and no more.
        Ok(_) => match plan(bytes, 1) {
            Err(refused) => assert_eq!(refused.refusal.code, "unknown-feature", "{refused}"),
            Ok(_) => drop(mended(bytes)),
        },
    }
}
