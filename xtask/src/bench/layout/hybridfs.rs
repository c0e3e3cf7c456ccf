// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the log of a hybridfs image is in use: all of its metadata and its small files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsmend_hybridfs_format::{
    ANCHORS, Anchor, DATA_BITMAPS, HEADER_LEN, Header, Record, SUPERBLOCK_OFFSET, Summary, Superblock,
    anchor_offset, parse_node,
};

use super::Layout;

/// The log of an unmounted `image`, if that is a hybridfs.
pub fn find(image: &Path) -> io::Result<Option<Layout>> {
    let file = File::open(image)?;
    let mut bytes = vec![0; 512];
    file.read_exact_at(&mut bytes, SUPERBLOCK_OFFSET)?;
    let Ok(sb) = Superblock::parse(&bytes) else { return Ok(None) };
    let mut anchors = Vec::new();
    for slot in 0..ANCHORS {
        file.read_exact_at(&mut bytes, anchor_offset(&sb, slot))?;
        anchors.extend(Anchor::parse(&bytes, &sb.uuid));
    }
    let anchor = anchors.iter().max_by_key(|anchor| anchor.number).ok_or_else(|| wrong(&"no anchor"))?;
    let block = read(&file, &sb, anchor.summary, sb.per_block())?;
    let (summary, ..) = Summary::parse(&block, anchor.summary, &sb.uuid).map_err(|why| wrong(&why))?;
    let mut bitmaps = summary.bfile.records;
    for _ in 0..summary.bfile.height {
        bitmaps = below(&file, &sb, &bitmaps)?;
    }
    let mut used = vec![false; usize::try_from(sb.log_fragments).map_err(io::Error::other)?];
    for record in bitmaps.iter().filter(|record| record.key < DATA_BITMAPS) {
        let block = read(&file, &sb, record.place.address, u64::from(record.place.len))?;
        let first = record.key * sb.bitmap_units();
        for (at, used) in used.iter_mut().skip(first as usize).take(sb.bitmap_units() as usize).enumerate() {
            *used = block[HEADER_LEN + at / 8] >> (at % 8) & 1 != 0;
        }
    }
    let mut layout = Layout {
        are_directories_sealed: true,
        inode_size: sb.fragment_size as usize,
        tables: Vec::new(),
        directories: Vec::new(),
        pointers: Vec::new(),
    };
    let mut at = sb.log_start;
    for run in used.chunk_by(|one, next| one == next) {
        if run[0] {
            let fragment = u64::from(sb.fragment_size);
            layout.tables.push((at * fragment, run.len() * layout.inode_size));
        }
        at += run.len() as u64;
    }
    Ok(Some(layout))
}

fn wrong(why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(why.to_string())
}

fn read(file: &File, sb: &Superblock, address: u64, len: u64) -> io::Result<Vec<u8>> {
    let fragment = u64::from(sb.fragment_size);
    let mut bytes = vec![0; (len * fragment) as usize];
    file.read_exact_at(&mut bytes, address * fragment)?;
    Ok(bytes)
}

/// The records of the nodes that records lead to.
fn below(file: &File, sb: &Superblock, records: &[Record]) -> io::Result<Vec<Record>> {
    let mut found = Vec::new();
    for record in records {
        let node = read(file, sb, record.place.address, u64::from(record.place.len))?;
        let header = Header::parse(&node, &sb.uuid).map_err(|why| wrong(&why))?;
        found.extend(parse_node(&node, header.count).map_err(|why| wrong(&why))?);
    }
    Ok(found)
}
