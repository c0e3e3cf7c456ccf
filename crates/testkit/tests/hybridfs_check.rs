// SPDX-License-Identifier: MIT OR Apache-2.0
//! hybridfs, checked and repaired: sound images are clean, each damage is found by its row, one repair mends it and loses nothing that could be kept.
#![allow(clippy::unwrap_used, clippy::panic)]

mod hybridfs_common;

use std::collections::BTreeSet;
use std::sync::Arc;

use fsmend_device::WritableMemory;
use fsmend_engine::Row;
use fsmend_engine::problem::Severity;
use fsmend_hybridfs_check::rows;
use fsmend_hybridfs_format::{
    ANCHORS, DATA_BITMAPS, HEADER_LEN, INODE_LEN, Place, ROOT, Record, Run, SUPERBLOCK_OFFSET, Superblock,
};
use fsmend_testkit::hybridfs::{Image, LARGE, MIDDLE, PIECES, dirty_image, image, mounted};
use fsmend_vfs::{FileSystem, Time};

use hybridfs_common::{FILE_2000, FILE_9000, check, mended, plan, put, share, told, tree};

#[test]
fn sound_images_are_clean_at_any_thread_count() {
    for image in [image(), dirty_image(3)] {
        for threads in [1, 2, 64] {
            let report = check(&image.bytes, threads).unwrap();
            assert!(report.findings.is_empty(), "{:#?}", told(&report));
        }
        assert!(plan(&image.bytes, 2).unwrap().changes.is_empty());
    }
}

/// What a damage may cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cost {
    Nothing,
    /// These paths may change or go.
    Paths(&'static [&'static str]),
    /// Files may move to lost+found, but stay.
    Names,
}

struct Damage {
    /// The number in the list of damages of the design, where it is one of these.
    row: &'static Row,
    cost: Cost,
    dirty: usize,
    apply: fn(&mut Image),
}

const fn damage(row: &'static Row, cost: Cost, apply: fn(&mut Image)) -> Damage {
    Damage { row, cost, dirty: 0, apply }
}

const fn in_use(row: &'static Row, cost: Cost, apply: fn(&mut Image)) -> Damage {
    Damage { row, cost, dirty: 3, apply }
}

fn node(records: Vec<(u8, Record)>, level: u8, at: usize) -> Place {
    let mut of_level = records.into_iter().filter(|(of, _)| *of == level).map(|(_, record)| record.place);
    of_level.nth(at).unwrap()
}

fn large_leaf(image: &Image, at: usize) -> Place {
    node(image.records(&image.map(image.lookup(LARGE))), 0, at)
}

fn first_of(image: &Image, folder: &str, at: usize) -> u32 {
    let mut entries = image.entries(image.lookup(folder));
    entries.sort_by_key(|entry| entry.name.clone());
    entries[at].inode
}

const DAMAGES: &[Damage] = &[
    // 1
    damage(&rows::SUPERBLOCK, Cost::Nothing, |image| image.bytes[SUPERBLOCK_OFFSET as usize + 90] ^= 4),
    damage(&rows::SUPERBLOCK, Cost::Nothing, |image| {
        let at = image.sb.last_copy_offset() as usize;
        image.bytes[at..at + 512].fill(0);
    }),
    // 2
    damage(&rows::SUPERBLOCK_DIFFERS, Cost::Nothing, |image| {
        let other = Superblock { ag_blocks: 77, ..image.sb.clone() }.store();
        image.bytes[SUPERBLOCK_OFFSET as usize..][..512].copy_from_slice(&other);
    }),
    // 3
    damage(&rows::ANCHOR, Cost::Nothing, |image| {
        let number = image.anchors()[1].number;
        let at = image.anchor_offset(number % 4);
        image.bytes[at + 60] ^= 1;
    }),
    damage(&rows::ANCHOR_TORN, Cost::Nothing, |image| {
        let number = image.anchors()[0].number + 1;
        let at = image.anchor_offset(number % 4);
        image.bytes[at..at + 512].fill(7);
    }),
    // 4
    damage(&rows::NO_ANCHOR, Cost::Nothing, |image| {
        for slot in 0..4 {
            let at = image.anchor_offset(slot);
            image.bytes[at..at + 512].fill(0);
        }
    }),
    // 5: the last of some segments
    in_use(&rows::TORN, Cost::Paths(&["/later-2"]), |image| {
        let (_, _, stream) = image.summary_at(image.last().address).unwrap();
        let row = stream.rows[0];
        image.at(Place { address: row.address, len: row.len })[100] ^= 1;
    }),
    // A segment that is known to have been durable
    damage(&rows::BODY, Cost::Nothing, |image| {
        let (_, _, stream) = image.summary_at(image.last().address).unwrap();
        let row = stream.rows[0];
        image.at(Place { address: row.address, len: row.len })[100] ^= 1;
    }),
    // 6
    in_use(&rows::GAP, Cost::Nothing, |image| {
        let chain = image.chain();
        let address = chain[chain.len() - 2];
        image.at(Place { address, len: 4 }).fill(0x33);
    }),
    // 7: the chain goes round, and into another file system
    damage(&rows::NEXT, Cost::Nothing, |image| {
        image.change_last(|summary, _| summary.next = summary.address);
    }),
    in_use(&rows::GAP, Cost::Nothing, |image| {
        let chain = image.chain();
        let mut other = image.clone();
        other.sb.uuid = *b"another--another";
        let address = chain[chain.len() - 2];
        let (summary, _, stream) = image.summary_at(address).unwrap();
        let (block, _) = summary.store(&stream.store(), image.sb.block_size, &other.sb.uuid);
        image.at(Place { address, len: 4 }).copy_from_slice(&block);
    }),
    // 8
    damage(&rows::NEXT, Cost::Nothing, |image| {
        let place = large_leaf(image, 2);
        let next = place.address - place.address % 4;
        image.change_last(|summary, _| summary.next = next);
    }),
    damage(&rows::NEXT, Cost::Nothing, |image| image.change_last(|summary, _| summary.next = 17)),
    damage(&rows::CHECKPOINT, Cost::Nothing, |image| image.change_last(|summary, _| summary.checkpoint -= 1)),
    // 9: a lost write: what stands there is what stood there before
    damage(&rows::INODE_STALE, Cost::Nothing, |image| {
        let inode = image.lookup(FILE_2000);
        image.change_inode(inode, |inode| inode.birth -= 1);
    }),
    // 10: what was written lies elsewhere
    damage(&rows::DIRECTORY_BLOCK, Cost::Names, |image| {
        let (from, to) = (large_leaf(image, 3), large_leaf(image, 5));
        let (len, bytes) = (from.len.min(to.len), image.at(from).to_vec());
        let len = usize::from(len) * 1024;
        image.at(to)[..len].copy_from_slice(&bytes[..len]);
    }),
    // 11
    damage(&rows::IFILE_NODE, Cost::Nothing, |image| {
        let place = node(image.ifile(), 1, 0);
        image.at(place)[500] ^= 1;
    }),
    damage(&rows::IFILE_SUM, Cost::Nothing, |image| {
        image.change_last(|summary, _| summary.ifile.records[0].aux += 1);
    }),
    damage(&rows::INODE_BLOCK, Cost::Names, |image| {
        let inode = image.lookup(FILE_2000);
        image.change_block(inode, |record| record.place.address = 3);
    }),
    // 12
    damage(&rows::LIVE, Cost::Nothing, |image| {
        let (inode, per_block) = (image.lookup(FILE_2000), image.sb.inodes_per_block());
        image.change_bits(inode, |bits| *bits &= !(1 << (inode % per_block)));
    }),
    damage(&rows::LIVE, Cost::Nothing, |image| image.change_bits(2, |bits| *bits |= 1)),
    // 13
    damage(&rows::ORPHAN, Cost::Nothing, |image| {
        let (inode, per_block) = (image.lookup(FILE_2000), image.sb.inodes_per_block());
        image.change_bits(inode, |bits| *bits |= 1 << (32 + inode % per_block));
    }),
    // 14
    damage(&rows::INODE_LOST, Cost::Paths(&["/inline/file-2000", "/inline/deep/second-name"]), |image| {
        let inode = image.lookup(FILE_2000);
        forget_older(image, inode);
        let at = image.inode_at(inode);
        image.bytes[at + 33] ^= 8;
    }),
    damage(&rows::INODE_OLDER, Cost::Nothing, |image| {
        let inode = image.lookup(FILE_2000);
        keep_older(image, inode);
        let at = image.inode_at(inode);
        image.bytes[at + 33] ^= 8;
    }),
    // 15
    damage(&rows::INODE_OLDER, Cost::Nothing, |image| {
        let (one, other) = (image.lookup(FILE_2000), image.lookup(FILE_9000));
        keep_older(image, other);
        let (from, to) = (image.inode_at(one), image.inode_at(other));
        image.bytes.copy_within(from..from + INODE_LEN, to);
    }),
    damage(&rows::LEFTOVER, Cost::Nothing, |image| {
        let at = image.inode_at(2) - 2 * INODE_LEN;
        image.bytes[at + 70] = 1;
        image.seal_rows();
    }),
    // 16
    damage(&rows::MULTIPLE, Cost::Paths(&["/inline/file-9000"]), share),
    damage(&rows::SHARES, Cost::Paths(&["/inline/file-9000"]), share),
    // 17
    damage(&rows::EXTENT_PLACE, Cost::Paths(&["/inline/file-9000"]), |image| {
        let address = image.sb.log_start + 64;
        let inode = image.lookup(FILE_9000);
        image.change_inode(inode, |inode| put(inode, |record| record.place.address = address));
    }),
    damage(&rows::SMALL_PLACE, Cost::Paths(&["/inline/file-2000", "/inline/deep/second-name"]), |image| {
        let address = image.sb.data_start() + 64;
        let inode = image.lookup(FILE_2000);
        image.change_inode(inode, |inode| put(inode, |record| record.place.address = address));
    }),
    damage(&rows::EXTENT_OVERLAP, Cost::Paths(&["/pieces"]), |image| {
        let place = node(image.records(&image.map(image.lookup(PIECES))), 1, 0);
        image.change_node(place, |records| records[3].key = records[2].key + 1);
        image.change_node(place, |records| records[2].place.len = 2);
    }),
    // 18, 19
    damage(&rows::NOT_MARKED, Cost::Nothing, |image| {
        let place = image.bfile()[0].1.place;
        let used = image.block_of(2).place.address - image.sb.log_start;
        image.change_object(place, |_, object| object[HEADER_LEN + used as usize / 8] &= !(1 << (used % 8)));
    }),
    damage(&rows::MARKED, Cost::Nothing, |image| {
        let bitmap = image.bfile().into_iter().find(|(_, record)| record.key == DATA_BITMAPS).unwrap().1;
        image.change_object(bitmap.place, |_, object| object[HEADER_LEN + 200] |= 1);
    }),
    damage(&rows::FREE_COUNT, Cost::Nothing, |image| {
        image.change_last(|summary, _| summary.bfile.records.last_mut().unwrap().aux += 1);
    }),
    damage(&rows::BITMAP, Cost::Nothing, |image| {
        let place = image.bfile()[0].1.place;
        image.at(place)[300] ^= 1;
        image.seal_rows();
    }),
    // 20
    in_use(&rows::NOT_MARKED, Cost::Nothing, |image| {
        let place = large_leaf(image, 1);
        image.change_last(|_, stream| {
            stream.freed.push(Run { address: place.address, len: u64::from(place.len) });
        });
    }),
    // 21
    damage(&rows::DIRECTORY_ORDER, Cost::Nothing, |image| {
        let place = large_leaf(image, 3);
        image.change_entries(place, |entries| entries.swap(1, 2));
    }),
    damage(&rows::DIRECTORY_ORDER, Cost::Nothing, |image| {
        let place = large_leaf(image, 3);
        image.change_entries(place, |entries| entries.last_mut().unwrap().key |= 1 << 62);
    }),
    damage(&rows::DIRECTORY_BLOCK, Cost::Names, |image| {
        let place = large_leaf(image, 3);
        image.at(place)[HEADER_LEN + 70] ^= 1;
    }),
    damage(&rows::MAP_NODE, Cost::Nothing, |image| {
        let place = node(image.records(&image.map(image.lookup(LARGE))), 1, 0);
        image.at(place)[HEADER_LEN + 70] ^= 1;
    }),
    damage(&rows::MAP_NODE, Cost::Paths(&["/pieces"]), |image| {
        let place = node(image.records(&image.map(image.lookup(PIECES))), 1, 0);
        image.at(place)[HEADER_LEN + 70] ^= 1;
    }),
    // Where an older version is left, nothing is lost.
    damage(&rows::MAP_NODE, Cost::Nothing, |image| {
        let place = node(image.records(&image.map(image.lookup(PIECES))), 1, 0);
        keep_older_object(image, place);
        image.at(place)[HEADER_LEN + 70] ^= 1;
    }),
    damage(&rows::DIRECTORY_BLOCK, Cost::Nothing, |image| {
        let place = large_leaf(image, 3);
        keep_older_object(image, place);
        image.at(place).fill(0);
    }),
    damage(&rows::MAP_SUM, Cost::Nothing, |image| {
        let inode = image.lookup(MIDDLE);
        image.change_inode(inode, |inode| put(inode, |record| record.aux += 1));
    }),
    damage(&rows::MAP, Cost::Names, |image| {
        let inode = image.lookup(MIDDLE);
        image.change_inode(inode, |inode| inode.count = 13);
    }),
    damage(&rows::DUPLICATE, Cost::Nothing, |image| {
        let inline = image.lookup("inline");
        image.change_inline(inline, |entries| {
            let mut twin = entries[0].clone();
            twin.key += 1;
            entries.insert(1, twin);
        });
    }),
    // 22
    damage(&rows::ENTRY_GENERATION, Cost::Names, |image| {
        let inline = image.lookup("inline");
        image.change_inline(inline, |entries| entries[0].generation ^= 1);
    }),
    damage(&rows::ENTRY_UNUSED, Cost::Nothing, |image| {
        let inline = image.lookup("inline");
        image.change_inline(inline, |entries| {
            let mut more = entries[0].clone();
            more.name = b"nothing".to_vec();
            more.inode = 7_000;
            more.key = 16;
            entries.insert(0, more);
        });
    }),
    damage(&rows::ENTRY_KIND, Cost::Nothing, |image| {
        let inline = image.lookup("inline");
        image.change_inline(inline, |entries| entries.iter_mut().for_each(|entry| entry.kind = 0o10));
    }),
    // 23
    damage(&rows::SECOND_NAME, Cost::Names, |image| {
        let (deep, inline) = (image.lookup("inline/deep"), image.lookup("inline"));
        let found = image.entries(inline).into_iter().find(|entry| entry.inode == deep).unwrap();
        image.change_inline(ROOT, |entries| {
            let at = entries.partition_point(|entry| entry.key < found.key);
            entries.insert(at, found);
        });
    }),
    damage(&rows::LOOPED, Cost::Names, |image| {
        let (deep, inline) = (image.lookup("inline/deep"), image.lookup("inline"));
        let mut found = image.entries(ROOT).into_iter().find(|entry| entry.inode == inline).unwrap();
        image.change_inline(ROOT, |entries| entries.retain(|entry| entry.inode != inline));
        found.generation = image.inode(inline).generation;
        let generation = image.inode(deep).generation;
        image.change_inode(inline, |inode| inode.used = u64::from(deep) | u64::from(generation) << 32);
        image.change_inline(deep, |entries| {
            let at = entries.partition_point(|entry| entry.key < found.key);
            entries.insert(at, found);
        });
    }),
    damage(&rows::UNCONNECTED, Cost::Names, |image| {
        let inline = image.lookup("inline");
        image.change_inline(ROOT, |entries| entries.retain(|entry| entry.inode != inline));
    }),
    damage(&rows::PARENT, Cost::Nothing, |image| {
        let inode = image.lookup("inline/deep");
        let generation = image.inode(ROOT).generation;
        image.change_inode(inode, |inode| inode.used = u64::from(ROOT) | u64::from(generation) << 32);
    }),
    damage(&rows::ROOT_MISSING, Cost::Names, |image| {
        forget_older(image, ROOT);
        let at = image.inode_at(ROOT);
        image.bytes[at + 40] ^= 1;
    }),
    damage(&rows::UNATTACHED, Cost::Names, |image| {
        let inode = image.lookup(FILE_9000);
        let inline = image.lookup("inline");
        image.change_inline(inline, |entries| entries.retain(|entry| entry.inode != inode));
    }),
    damage(&rows::UNATTACHED_EMPTY, Cost::Names, |image| {
        let inode = first_of(image, LARGE, 0);
        let leaves = image.records(&image.map(image.lookup(LARGE))).into_iter();
        for (_, record) in leaves.filter(|(level, _)| *level == 0).collect::<Vec<_>>() {
            if image.entries_at(record.place).iter().any(|entry| entry.inode == inode) {
                image.change_entries(record.place, |entries| entries.retain(|entry| entry.inode != inode));
            }
        }
    }),
    // 24
    damage(&rows::SMALL_CHECKSUM, Cost::Paths(&["/inline/file-2000", "/inline/deep/second-name"]), |image| {
        let place = Record::parse(image.inode(image.lookup(FILE_2000)).room()).place;
        image.at(place)[1_000] ^= 1;
    }),
    // 25
    damage(&rows::TOTALS, Cost::Nothing, |image| image.change_last(|summary, _| summary.totals.inodes += 3)),
    damage(&rows::LINKS, Cost::Nothing, |image| {
        let inode = image.lookup(FILE_2000);
        image.change_inode(inode, |inode| inode.links = 9);
    }),
    // A directory with names is no removed one, whatever its link count, and what the IFILE says.
    damage(&rows::LINKS, Cost::Nothing, |image| {
        let inode = image.lookup(LARGE);
        image.change_inode(inode, |inode| inode.links = 0);
    }),
    damage(&rows::LINKS, Cost::Nothing, |image| {
        let inode = image.lookup(LARGE);
        image.change_inode(inode, |inode| inode.links = 0);
        image.change_bits(inode, |bits| *bits |= 1 << (32 + inode % 32));
    }),
    damage(&rows::LINKS, Cost::Nothing, |image| image.change_inode(ROOT, |inode| inode.links = 0)),
    damage(&rows::USED, Cost::Nothing, |image| {
        let inode = image.lookup(FILE_9000);
        image.change_inode(inode, |inode| inode.used += 1);
    }),
    damage(&rows::SIZE, Cost::Nothing, |image| {
        let inode = image.lookup(LARGE);
        image.change_inode(inode, |inode| inode.size += 1);
    }),
    damage(&rows::FORMAT, Cost::Paths(&["/inline/file-9000"]), |image| {
        let inode = image.lookup(FILE_9000);
        image.change_inode(inode, |inode| inode.mode = 0o010_644);
    }),
    damage(&rows::ATTRIBUTES, Cost::Nothing, |image| {
        let inode = image.lookup("inline/deep/user.much");
        let place = Record::parse(image.inode(inode).attribute_room()).place;
        image.at(place)[HEADER_LEN + 30] ^= 1;
    }),
    damage(&rows::BFILE_SUM, Cost::Nothing, |image| tall_bfile(image, |records| records[0].aux += 1)),
    damage(&rows::BFILE_NODE, Cost::Nothing, |image| {
        tall_bfile(image, |_| {});
        let place = image.last().bfile.records[0].place;
        image.at(place)[HEADER_LEN + 9] ^= 1;
    }),
];

/// Places in the log of everything that looks like an inode with this number, but for the one in use.
fn older(image: &Image, inode: u32) -> Vec<usize> {
    let own = image.inode_at(inode);
    let log = image.offset(image.sb.log().start)..image.offset(image.sb.log().end);
    let is_one = |at: &usize| {
        let bytes = &image.bytes[*at..*at + INODE_LEN];
        *at != own && bytes[4..12] == u64::from(inode).to_le_bytes()
    };
    log.step_by(INODE_LEN).filter(is_one).collect()
}

fn forget_older(image: &mut Image, inode: u32) {
    for at in older(image, inode) {
        image.bytes[at..at + INODE_LEN].fill(0);
    }
}

/// Leaves an older version with the same contents in a free place.
fn keep_older(image: &mut Image, inode: u32) {
    forget_older(image, inode);
    let block = image.block_of(inode);
    let bytes = image.at(block.place).to_vec();
    let end = image.sb.log().end - 8;
    image.at(Place { address: end, len: 4 }).copy_from_slice(&bytes);
}

/// Leaves an older version of an object in a free place.
fn keep_older_object(image: &mut Image, place: Place) {
    use fsmend_hybridfs_format::{Header, seal};
    let (uuid, object) = (image.sb.uuid, image.at(place).to_vec());
    let older = Place { address: image.sb.log().end - 8, len: place.len };
    let header = Header::parse(&object, &uuid).unwrap();
    let copy = image.at(older);
    copy.copy_from_slice(&object);
    Header { address: older.address, birth: header.birth - 1, ..header }.store(copy, &uuid);
    seal(copy, &uuid);
}

/// Puts a node above the bitmaps.
fn tall_bfile(image: &mut Image, change: impl FnOnce(&mut Vec<Record>)) {
    use fsmend_hybridfs_format::{Header, Kind, Map, OWNER_BFILE, Row, plain_crc, seal, store_node};
    let last = image.last();
    let records = last.bfile.records;
    let place = Place { address: image.sb.log().end - 8, len: 4 };
    let header = Header {
        kind: Kind::Node,
        level: 1,
        count: records.len() as u32,
        owner: OWNER_BFILE,
        generation: 0,
        flags: 0,
        key: records[0].key,
        address: place.address,
        birth: last.ssn,
    };
    let uuid = image.sb.uuid;
    let object = image.at(place);
    object.fill(0);
    header.store(object, &uuid);
    store_node(object, &records);
    seal(object, &uuid);
    let crc = plain_crc(object);
    let aux = records.iter().map(|record| record.aux).sum();
    let mut above = vec![Record { key: records[0].key, place, birth: last.ssn, aux }];
    change(&mut above);
    image.change_last(|summary, stream| {
        summary.bfile = Map { height: 1, records: above };
        summary.totals.log += 4;
        let (address, len) = (place.address, place.len);
        stream.rows.push(Row { address, len, kind: Kind::Node, level: 1, crc, owner: OWNER_BFILE, key: 0 });
    });
    let first = records[0].place;
    let at = (place.address - image.sb.log_start) as usize;
    image.change_object(first, |_, object| object[HEADER_LEN + at / 8] |= 0xF << (at % 8));
}

#[test]
fn each_damage_is_found_by_its_row_and_mended_in_one_run() {
    let (clean, dirty) = (image(), dirty_image(3));
    let only = std::env::var("FSMEND_ROW").ok();
    let mut failed = Vec::new();
    for (number, damage) in DAMAGES.iter().enumerate() {
        if only.as_ref().is_some_and(|only| !damage.row.code.contains(only.as_str())) {
            continue;
        }
        let result =
            std::panic::catch_unwind(|| judge(damage, if damage.dirty > 0 { &dirty } else { &clean }));
        if let Err(why) = result {
            let why = why.downcast_ref::<String>().cloned().unwrap_or_else(|| "panic".to_owned());
            failed.push(format!("{number} {}: {why}", damage.row.code));
        }
    }
    assert!(failed.is_empty(), "{} of {} failed:\n{}", failed.len(), DAMAGES.len(), failed.join("\n\n"));
}

fn judge(damage: &Damage, sound: &Image) {
    let before = tree(&sound.bytes);
    let mut image = sound.clone();
    (damage.apply)(&mut image);
    let found = check(&image.bytes, 2).unwrap();
    let code = damage.row.code;
    assert!(found.findings.has(damage.row), "not found, but {:#?}", told(&found));
    let (repair, repaired) = if damage.row.severity == Severity::Note {
        assert!(!found.findings.is_damaged(), "{:#?}", told(&found));
        (plan(&image.bytes, 1).unwrap(), image.bytes.clone())
    } else {
        mended(&image.bytes)
    };
    for problem in repair.found.findings.iter() {
        assert!(problem.missing_operands().is_empty(), "{code}");
    }
    let after = tree(&repaired);
    let is_excused = |path: &String| match damage.cost {
        Cost::Nothing => false,
        Cost::Paths(paths) => paths.contains(&path.as_str()),
        // Its contents have to be somewhere.
        Cost::Names => true,
    };
    for (path, node) in before.iter().filter(|(path, _)| !is_excused(path)) {
        assert_eq!(
            after.get(path).map(|(kind, _)| kind),
            Some(&node.0),
            "{path} is lost: {:#?}",
            told(&repair.found)
        );
        assert!(after.get(path) == Some(node), "{path} has other contents: {:#?}", told(&repair.found));
    }
    if damage.cost == Cost::Names {
        let kept: BTreeSet<&Vec<u8>> = after.values().map(|(_, contents)| contents).collect();
        let lost: Vec<&String> = before
            .iter()
            .filter(|(_, (_, contents))| !kept.contains(contents))
            .map(|(path, _)| path)
            .collect();
        assert!(lost.is_empty(), "contents of {lost:?} are lost: {:#?}", told(&repair.found));
    }
}

#[test]
fn attributes_come_back_from_an_older_version_or_are_lost_and_that_is_told() {
    let name = "inline/deep/user.much";
    for is_kept in [true, false] {
        let mut image = image();
        let inode = image.lookup(name);
        let place = Record::parse(image.inode(inode).attribute_room()).place;
        if is_kept {
            keep_older_object(&mut image, place);
        }
        image.at(place)[HEADER_LEN + 30] ^= 1;
        let (repair, repaired) = mended(&image.bytes);
        assert!(repair.found.findings.has(&rows::ATTRIBUTES), "{:#?}", told(&repair.found));
        let after = Image::of(repaired);
        let slots = after.inode(after.lookup(name)).attribute_slots;
        assert_eq!(slots != 0, is_kept, "{slots} slots");
    }
}

#[test]
fn the_block_of_another_directory_is_not_claimed() {
    let mut image = image();
    let (leaf, middle) = (large_leaf(&image, 0), image.lookup(MIDDLE));
    image.change_inode(middle, |inode| put(inode, |record| record.place = leaf));
    for threads in [1, 2, 64] {
        let found = check(&image.bytes, threads).unwrap();
        let has = |row: &'static Row| found.findings.has(row);
        assert!(has(&rows::DIRECTORY_BLOCK) && has(&rows::MARKED), "{:#?}", told(&found));
        assert!(!has(&rows::MULTIPLE) && !has(&rows::SHARES), "{:#?}", told(&found));
    }
    mended(&image.bytes);
}

/// Rows that tests of their own raise.
const ELSEWHERE: &[&Row] = &[
    &rows::INODE_UNREADABLE,
    &rows::MAP_CROWDED,
    &rows::NO_ROOM,
    &rows::COPY_UNREADABLE,
    &rows::SMALL_OLDER,
    &rows::SMALL_ELSEWHERE,
];

#[test]
fn every_row_has_a_damage() {
    let known: BTreeSet<&str> = DAMAGES
        .iter()
        .map(|damage| damage.row)
        .chain(ELSEWHERE.iter().copied())
        .map(|row| row.code)
        .collect();
    let without: Vec<&str> =
        rows::ROWS.iter().map(|row| row.code).filter(|code| !known.contains(code)).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn a_power_cut_in_an_anchor_is_no_damage_however_many_were_written() {
    let mut bytes = image().bytes;
    // Each mount and its end write anchors: all slots are used more than once.
    for _ in 0..6 {
        let device = Arc::new(WritableMemory::new("image", bytes));
        let mut fs = mounted(&device);
        fs.unmount(Time::at(1_700_000_000)).unwrap();
        drop(fs);
        bytes = device.bytes();
        let mut torn = Image::of(bytes.clone());
        let at = torn.anchor_offset((torn.anchors()[0].number + 1) % ANCHORS);
        for half in [at..at + 256, at + 256..at + 512] {
            let before = torn.bytes.clone();
            torn.bytes[half].fill(7);
            let found = told(&check(&torn.bytes, 2).unwrap());
            let is_torn = |line: &String| line.contains(rows::ANCHOR_TORN.code);
            assert!(found.iter().all(is_torn), "{found:?}");
            torn.bytes = before;
        }
    }
}
