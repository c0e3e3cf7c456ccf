// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figure 8: memory for the metadata of a gigabyte of data, by the size of the files, as it is on the disk and as facts.

use super::figure::{Figure, Table};
use super::plot::Plot;

/// Bytes of an inode record, of a block, and pointers of an indirect block on a rext3.
const INODE: f64 = 256.0;
const BLOCK: f64 = 4096.0;
const POINTERS: f64 = 1022.0;
/// Blocks that the inode points to itself.
const DIRECT: f64 = 12.0;
/// What the paper keeps: a half of an inode record of 128 bytes, a 250th of a block.
const PAPER: (f64, f64) = (64.0, BLOCK / 250.0);
/// What a run keeps of a file that has indirect blocks, and of each of these, as `plan` charges them (docs/decisions has the numbers); of every inode in use, besides, 7 bytes.
const OURS: (f64, f64) = (44.0, 16.0);
const EVERY_INODE: f64 = 7.0;
/// Average sizes of files, in KiB.
const KILOBYTES: [f64; 7] = [4.0, 16.0, 49.0, 64.0, 256.0, 1024.0, 16_384.0];

/// Megabytes on the disk, kept by the paper's ffsck, and kept by us.
fn megabytes(kilobytes: f64) -> (f64, f64, f64) {
    let files = 1e9 / (kilobytes * 1024.0);
    let blocks = (kilobytes * 1024.0 / BLOCK).ceil();
    let beyond = (blocks - DIRECT).max(0.0);
    let first = beyond.min(POINTERS);
    let leaves = (first / POINTERS).ceil() + ((beyond - first) / POINTERS).ceil();
    let indirect = leaves + if beyond > first { 1.0 } else { 0.0 };
    let of_file = if indirect > 0.0 { OURS.0 } else { 0.0 };
    let sum = |inode: f64, block: f64| files * (inode + indirect * block) / 1e6;
    (sum(INODE, BLOCK), sum(PAPER.0, PAPER.1), sum(EVERY_INODE + of_file, OURS.1))
}

/// The figure.
pub fn figure() -> Figure {
    let mut table = Table::new(&[
        "average file, KiB",
        "on the disk, MB",
        "the paper's ffsck keeps, MB",
        "fsmend keeps, MB",
    ]);
    let mut curves = ["on the disk", "the paper's ffsck", "fsmend"].map(|name| (name.to_owned(), Vec::new()));
    for kilobytes in KILOBYTES {
        let (disk, paper, ours) = megabytes(kilobytes);
        table.push([kilobytes, disk, paper, ours].iter().map(|value| format!("{value:.2}")).collect());
        for ((_, points), value) in curves.iter_mut().zip([disk, paper, ours]) {
            points.push((kilobytes, value));
        }
    }
    Figure {
        number: "8",
        title: "Memory for the metadata of a gigabyte",
        paper: "most is needed for files of 49 KB, which have an indirect block for a few data blocks: 86 MB on the disk, of which 1 MB is kept (inodes 2:1, indirect blocks 250:1)",
        table,
        ours: "Computed from the sizes of what is kept, not measured in a run.",
        plot: Some(Plot { across: "KiB", upwards: "MB", logarithmic: true, curves: curves.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_peak_is_where_the_paper_has_it() {
        let (disk, paper, ours) = megabytes(49.0);
        // 86 MB in the paper, whose inodes are smaller.
        assert!((84.0..92.0).contains(&disk), "{disk}");
        assert!((1.0..2.0).contains(&paper) && (1.0..2.0).contains(&ours), "{paper} {ours}");
        assert!(megabytes(48.0).0 < disk / 5.0, "twelve blocks need no indirect block");
    }
}
