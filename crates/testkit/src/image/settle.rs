// SPDX-License-Identifier: MIT OR Apache-2.0
//! What e2fsprogs takes from the machine whatever it is told: the name of the host and of the image, and the time of a commit.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::damage::Survey;

/// Names of the host and of the device, in the block of multiple-mount protection.
const MMP_NAMES: Range<usize> = 16..112;
const MMP_TIME: Range<usize> = 8..16;
/// Magic number and type of a journal's commit block, and where its time stands.
const COMMIT: [u8; 8] = [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 2];
const COMMIT_TIME: Range<usize> = 48..60;
/// Blocks are this long or longer.
const BLOCK_MIN: usize = 1024;

/// Puts fixed values in their places. Checksums stay right; journals with checksums are left alone.
pub fn settle(path: &Path, clock: u64) -> io::Result<()> {
    let mut image = fs::read(path)?;
    settle_mmp(&mut image, clock);
    for block in image.chunks_exact_mut(BLOCK_MIN).filter(|block| block.starts_with(&COMMIT)) {
        block[COMMIT_TIME].fill(0);
    }
    fs::write(path, image)
}

fn settle_mmp(image: &mut [u8], clock: u64) {
    let Some(survey) = Survey::of_bytes(image.to_vec()) else { return };
    for structure in survey.structures.iter().filter(|structure| structure.kind == "mmp") {
        let mut record = survey.bytes(structure).to_vec();
        record[MMP_NAMES].fill(0);
        record[MMP_TIME].copy_from_slice(&clock.to_le_bytes());
        for patch in structure.patches(&survey, record, true) {
            let at = patch.offset as usize;
            image[at..at + patch.new.len()].copy_from_slice(&patch.new);
        }
    }
}
