// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `mmp`.

#![allow(clippy::unwrap_used, clippy::panic)]

use fsmend_base::BlockNo;
use fsmend_engine::{Findings, Problem};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::{Incompat, RoCompat};

use super::{check, problems};
use crate::superblock::testing::{Image, codes};

const PLACE: BlockNo = BlockNo(600);

fn image() -> Image {
    let mut image = Image::new(|raw| {
        raw.s_feature_incompat += Incompat::MMP.bits();
        raw.s_feature_ro_compat += RoCompat::METADATA_CSUM.bits();
        raw.s_checksum_type = 1;
        raw.s_mmp_block = PLACE.0.into();
    });
    image.block(PLACE)[..8].copy_from_slice(&[0x50, 0x4D, 0x4D, 0, 0x50, 0x4D, 0x4D, 0xFF]);
    image.block(PLACE)[0x10..0x14].copy_from_slice(b"node");
    seal(image)
}

fn seal(mut image: Image) -> Image {
    let seed = image.geometry.checksum_seed;
    let checked = checksum::mmp_block(seed, image.block(PLACE)).unwrap();
    image.block(PLACE)[0x3FC..].copy_from_slice(&checked.computed.to_le_bytes());
    image
}

fn look(image: &Image) -> Vec<&'static str> {
    image.with_fs(|fs, _| {
        let mut findings = Findings::new();
        check(fs, &mut findings);
        assert!(findings.iter().all(|problem| !Problem::message(problem).contains('?')));
        codes(&findings)
    })
}

#[test]
fn a_block_at_rest_raises_nothing() {
    assert_eq!(look(&image()), [""; 0]);
    assert_eq!(look(&Image::plain()), [""; 0]);
}

#[test]
fn a_block_that_is_wrong() {
    let mut damaged = image();
    damaged.block(PLACE)[0] = 0;
    assert_eq!(look(&damaged), [problems::MAGIC.code]);
    let mut damaged = image();
    damaged.block(PLACE)[0x20] = 1;
    assert_eq!(look(&damaged), [problems::CHECKSUM.code]);
}

#[test]
fn a_file_system_in_use_is_noted() {
    for sequence in [[0x50, 0x4D, 0x4D, 0xE2], [7, 0, 0, 0]] {
        let mut used = image();
        used.block(PLACE)[4..8].copy_from_slice(&sequence);
        assert_eq!(look(&seal(used)), [problems::IN_USE.code]);
    }
}

#[test]
fn a_block_behind_the_end_of_the_device_cannot_be_read() {
    let mut image = image();
    image.bytes.truncate(550 << 10);
    assert!(look(&image).contains(&problems::UNREADABLE.code));
}
