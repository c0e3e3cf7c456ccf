// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contents of small files of hybridfs that are damaged: what an older version in the log may and may not give back.
#![allow(clippy::unwrap_used, clippy::panic)]

mod hybridfs_common;

use fsmend_engine::Row;
use fsmend_hybridfs_check::rows;
use fsmend_hybridfs_format::{INODE_LEN, Inode, Place, Record, plain_crc};
use fsmend_testkit::hybridfs::{Image, image};

use hybridfs_common::{FILE_2000, check, mended, put, told, tree};

const PATH: &str = "/inline/file-2000";

/// An image with an older version of the file in a free place: another inode block, with contents of its own.
fn with_older(contents: &[u8], change: impl FnOnce(&mut Inode)) -> Image {
    let mut image = image();
    let number = image.lookup(FILE_2000);
    let (own, block) = (image.inode_at(number), image.block_of(number).place);
    // What the file system has left of others would be in the way.
    let log = image.offset(image.sb.log().start)..image.offset(image.sb.log().end);
    for at in log.step_by(INODE_LEN).filter(|at| *at != own) {
        if image.bytes[at + 4..at + 12] == u64::from(number).to_le_bytes() {
            image.bytes[at..at + INODE_LEN].fill(0);
        }
    }
    let end = image.sb.log().end;
    let (older, place) = (Place { address: end - 8, len: 4 }, Place { address: end - 12, len: 4 });
    let bytes = image.at(block).to_vec();
    image.at(older).copy_from_slice(&bytes);
    let mut inode = image.inode(number);
    put(&mut inode, |record| {
        *record = Record { place, birth: record.birth - 1, aux: plain_crc(contents).into(), ..*record };
    });
    (inode.size, inode.birth) = (contents.len() as u64, inode.birth - 1);
    change(&mut inode);
    let at = image.offset(older.address) + own - image.offset(block.address);
    let uuid = image.sb.uuid;
    image.bytes[at..at + INODE_LEN].copy_from_slice(&inode.store(&uuid));
    image.at(place)[..contents.len()].copy_from_slice(contents);
    image
}

/// Where the contents are now.
fn place(image: &Image) -> Place {
    Record::parse(image.inode(image.lookup(FILE_2000)).room()).place
}

/// The contents after a repair that `row` asks for; nothing else may be lost.
fn contents_after(image: &Image, row: &Row) -> Vec<u8> {
    let found = check(&image.bytes, 2).unwrap();
    assert!(found.findings.has(row), "{:#?}", told(&found));
    let (repair, repaired) = mended(&image.bytes);
    for problem in repair.found.findings.iter() {
        assert!(problem.missing_operands().is_empty(), "{}", problem.message());
    }
    tree(&repaired)[PATH].1.clone()
}

fn sound_contents() -> Vec<u8> {
    tree(&image().bytes)[PATH].1.clone()
}

#[test]
fn the_same_contents_elsewhere_lose_nothing() {
    let sound = sound_contents();
    let mut image = with_older(&sound, |_| {});
    let place = place(&image);
    image.at(place)[1_000] ^= 1;
    assert!(contents_after(&image, &rows::SMALL_ELSEWHERE) == sound);
    image.at(place).fill(0);
    assert!(contents_after(&image, &rows::SMALL_ELSEWHERE) == sound);
    // Who may read them does not matter: these are the contents that the file has.
    let mut image = with_older(&sound, |inode| inode.mode = 0o100_600);
    image.at(place).fill(0);
    assert!(contents_after(&image, &rows::SMALL_ELSEWHERE) == sound);
}

#[test]
fn an_older_version_replaces_contents_that_are_gone() {
    let older = b"what the file said before".repeat(30);
    let mut image = with_older(&older, |_| {});
    let place = place(&image);
    image.at(place).fill(0);
    assert!(contents_after(&image, &rows::SMALL_OLDER) == older);
    let told = told(&check(&image.bytes, 2).unwrap());
    let segment = Record::parse(image.inode(image.lookup(FILE_2000)).room()).birth - 1;
    let said = format!("an older version, of segment {segment},");
    assert!(told.iter().any(|line| line.contains(&said)), "{told:?}");
    // A place outside of the log.
    let mut image = with_older(&older, |_| {});
    let (inode, address) = (image.lookup(FILE_2000), image.sb.data_start() + 64);
    image.change_inode(inode, |inode| put(inode, |record| record.place.address = address));
    assert!(contents_after(&image, &rows::SMALL_OLDER) == older);
}

#[test]
fn damaged_bytes_that_are_still_there_are_not_replaced() {
    let mut image = with_older(b"older", |_| {});
    let place = place(&image);
    image.at(place)[1_000] ^= 1;
    let mut damaged = sound_contents();
    damaged[1_000] ^= 1;
    assert!(contents_after(&image, &rows::SMALL_CHECKSUM) == damaged);
}

#[test]
fn no_other_file_and_no_other_rights_give_contents() {
    let older = b"what the file said before".repeat(30);
    let zeros = vec![0; sound_contents().len()];
    let changes: [fn(&mut Inode); 7] = [
        |inode| inode.generation += 1,
        |inode| inode.mode = 0o100_600,
        |inode| inode.uid += 1,
        |inode| inode.gid += 1,
        // It had attributes, which may be an access list.
        |inode| inode.attribute_slots = 1,
        // It is of a segment that does not count.
        |inode| inode.birth += 5,
        // Its contents are overwritten.
        |inode| put(inode, |record| record.aux ^= 1),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut image = with_older(&older, change);
        let place = place(&image);
        image.at(place).fill(0);
        assert!(contents_after(&image, &rows::SMALL_PLACE) == zeros, "case {number}");
    }
}
