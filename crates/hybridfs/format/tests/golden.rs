// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every structure comes back as it was stored, and its bytes are those of version 1.
#![allow(clippy::unwrap_used)]

use fsmend_hybridfs_format::*;

const UUID: [u8; 16] = *b"0123456789abcdef";

fn superblock() -> Superblock {
    Superblock {
        compat: 0,
        ro_compat: 0,
        incompat: Incompat::empty(),
        uuid: UUID,
        label: [b'l'; 32],
        fragment_size: 4096,
        block_size: 16384,
        fragments: 16384,
        log_start: 7168,
        log_fragments: 2048,
        ag_blocks: 1024,
        checkpoint_segments: 16,
        segment_fragments: 256,
        reserve_blocks: 64,
        inodes: 8192,
        hash_key: [7; 16],
        made: 12345,
        log_uuid: [0; 16],
    }
}

fn record(key: u64) -> Record {
    Record { key, place: Place { address: 7200 + key, len: 4 }, birth: 9, aux: key * 3 }
}

fn header(kind: Kind) -> Header {
    Header { kind, level: 0, count: 2, owner: 17, generation: 3, flags: 0, key: 160, address: 7300, birth: 9 }
}

fn inode() -> Inode {
    Inode {
        number: 17,
        generation: 3,
        mode: 0o100_644,
        format: Format::Inline,
        flags: 0,
        uid: 1,
        gid: 2,
        links: 1,
        size: 5,
        atime: Stamp::new(0, 1),
        mtime: Stamp::new(-5, 300_000_000),
        ctime: Stamp::new(1 << 33, 0),
        crtime: Stamp::new(i64::from(i32::MIN), 0),
        birth: 9,
        group: 1,
        count: 0,
        height: 0,
        attribute_slots: 1,
        used: 4,
        body: [0x61; BODY_LEN],
    }
}

fn summary() -> (Summary, Stream) {
    let row = Row { address: 7300, len: 4, kind: Kind::Node, level: 1, crc: 5, owner: 17, key: 2 };
    let stream = Stream {
        rows: vec![row; 3],
        data: vec![Run { address: 64, len: 8 }],
        freed: vec![Run { address: 7400, len: 4 }, Run { address: 80, len: 4 }],
    };
    let summary = Summary {
        ssn: 9,
        address: 7500,
        previous: 7400,
        previous_crc: 77,
        flags: SummaryFlags::CHECKPOINT,
        next: 7600,
        checkpoint: 9,
        checkpoint_address: 7500,
        mount: 2,
        generation: 55,
        totals: Totals { log: 1, data: 2, inodes: 3, orphans: 4, directories: 5 },
        time: 6,
        stream_len: stream.store().len() as u32,
        stream_crc: plain_crc(&stream.store()),
        counts: [3, 1, 2],
        continuations: 0,
        continuation: 0,
        ifile: Map { height: 0, records: vec![record(0), record(1)] },
        bfile: Map { height: 1, records: (0..13).map(record).collect() },
        written: [500, 900],
    };
    (summary, stream)
}

#[test]
fn structures_come_back_as_they_were_stored() {
    assert_eq!(Superblock::parse(&superblock().store()), Ok(superblock()));
    let anchor = Anchor { number: 5, flags: AnchorFlags::CLEAN, ssn: 9, summary: 7500, summary_crc: 3 };
    assert_eq!(Anchor::parse(&anchor.store(&UUID), &UUID), Ok(anchor));
    assert_eq!(Inode::parse(&inode().store(&UUID), 17, &UUID), Ok(inode()));
    assert_eq!(Inode::parse(&inode().store(&UUID), 18, &UUID), Err(Wrong::Identity));
    let (summary, stream) = summary();
    let (block, crc) = summary.store(&stream.store(), 16384, &UUID);
    let (again, again_crc, part) = Summary::parse(&block, 7500, &UUID).unwrap();
    assert_eq!((again, again_crc), (summary.clone(), crc));
    assert_eq!(Stream::parse(part, summary.counts), Ok(stream));
    assert_eq!(Summary::parse(&block, 7501, &UUID).err(), Some(Wrong::Identity));
    let records: Vec<Record> = (0..510).map(record).collect();
    let mut node = vec![0; 16384];
    header(Kind::Node).store(&mut node, &UUID);
    store_node(&mut node, &records);
    seal(&mut node, &UUID);
    assert_eq!(Header::parse(&node, &UUID), Ok(header(Kind::Node)));
    assert_eq!(parse_node(&node, 510), Ok(records));
    assert_eq!(parse_node(&node, 511).err(), Some(Wrong::Value("records of a node")));
    let entry = |key: u64, name: &[u8]| Entry { key, inode: 17, generation: 3, kind: 8, name: name.to_vec() };
    let entries = vec![entry(160, b"one"), entry(161, b"two")];
    assert_eq!(parse_entries(&store_entries(&entries), None), Ok(entries));
    let all = vec![Attribute { name: b"user.x".to_vec(), value: vec![1; 300] }];
    assert_eq!(parse_attributes(&store_attributes(&all).unwrap()), Ok(all));
}

#[test]
fn a_flipped_bit_shows() {
    let stored = superblock().store();
    for bit in 0..stored.len() * 8 {
        let mut bytes = stored.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Superblock::parse(&bytes).is_err(), "bit {bit}");
    }
    let stored = inode().store(&UUID);
    for bit in 0..stored.len() * 8 {
        let mut bytes = stored;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Inode::parse(&bytes, 17, &UUID).is_err(), "bit {bit}");
    }
}

/// A change of any of these is a change of the format, and needs another version.
#[test]
fn the_bytes_are_those_of_version_1() {
    let (summary, stream) = summary();
    let anchor = Anchor { number: 5, flags: AnchorFlags::CLEAN, ssn: 9, summary: 7500, summary_crc: 3 };
    let prints = [
        plain_crc(&superblock().store()),
        plain_crc(&anchor.store(&UUID)),
        plain_crc(&inode().store(&UUID)),
        plain_crc(&summary.store(&stream.store(), 16384, &UUID).0),
        name_key(&[7; 16], b"name") as u32,
    ];
    assert_eq!(prints, GOLDEN);
}

const GOLDEN: [u32; 5] = [739_003_527, 3_659_310_339, 4_090_766_276, 3_991_444_305, 404_182_608];
