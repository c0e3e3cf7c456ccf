// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ages a mounted ext4: old files with holes all over, and new files in those holes. Nothing is written but metadata.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use fsmend_base::SeededRandom;
use rustix::fs::{FallocateFlags, fallocate};

const BLOCK: u64 = 4096;
/// Longest hole, and longest piece between two holes, in blocks.
const PIECE_MAX: u64 = 12;
/// Files in one directory.
const FILES_PER_DIRECTORY: u32 = 200;

/// How much of what.
pub struct Plan {
    /// Files that fill the space and lose pieces.
    pub old_files: u32,
    /// Blocks of each of them.
    pub old_blocks: u64,
    /// Files that are made afterwards.
    pub new_files: u32,
    /// Seed of sizes and holes.
    pub seed: u64,
}

/// Fills the file system under `root`.
pub fn fill(root: &Path, plan: &Plan) -> io::Result<()> {
    let mut random = SeededRandom::new(plan.seed);
    let old = root.join("old");
    fs::create_dir(&old)?;
    let mut free = 0;
    for number in 0..plan.old_files {
        let file = File::create(old.join(format!("volume-{number:03}.img")))?;
        fallocate(&file, FallocateFlags::empty(), 0, plan.old_blocks * BLOCK)?;
        free += punch(&file, plan.old_blocks, &mut random)?;
    }
    // So that the kernel gives back what was freed and what it holds in reserve.
    rustix::fs::syncfs(File::open(root)?)?;
    let average = free * 9 / 10 / u64::from(plan.new_files.max(1));
    for number in 0..plan.new_files {
        let folder = root.join(format!("new-{:03}", number / FILES_PER_DIRECTORY));
        if number % FILES_PER_DIRECTORY == 0 {
            fs::create_dir(&folder)?;
        }
        let file = File::create(folder.join(format!("file-{number:05}.dat")))?;
        let blocks = 1 + random.below(2 * average);
        fallocate(&file, FallocateFlags::empty(), 0, blocks * BLOCK)?;
    }
    Ok(())
}

/// Takes pieces out of a file; returns how many blocks are free then.
fn punch(file: &File, blocks: u64, random: &mut SeededRandom) -> io::Result<u64> {
    let (mut at, mut free) = (0, 0);
    while at < blocks {
        let kept = 1 + random.below(PIECE_MAX);
        let hole = (1 + random.below(PIECE_MAX)).min(blocks.saturating_sub(at + kept));
        if hole > 0 {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(file, flags, (at + kept) * BLOCK, hole * BLOCK)?;
        }
        free += hole;
        at += kept + hole;
    }
    Ok(free)
}
