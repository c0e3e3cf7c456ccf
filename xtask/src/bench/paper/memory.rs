//! Figure 8: memory for the metadata of one gigabyte of data on a rext3, as it is on the disk and as the checker keeps it.

use std::fmt::Write as _;

use fsmend_engine::inodes::BYTES_PER_INODE;
use fsmend_ext_check::region::facts::{FileFact, IndirectFact};

const BLOCK: u64 = 4096;
/// Pointers in an indirect block of a rext3.
const POINTERS: u64 = BLOCK / 4 - 2;
/// A record on the disk; the paper's images have the same.
const RECORD: u64 = 128;
/// What is kept of an indirect block above the lowest level, beside the fact of every indirect block.
const CHILDREN: u64 = 16;
/// Average sizes of files, in KiB; the paper's peak is at 49.
const SIZES: [u64; 8] = [4, 16, 48, 49, 256, 1024, 16 << 10, 1 << 20];

/// Indirect blocks of a file of so many blocks: of the lowest level, and above.
fn indirect_blocks(blocks: u64) -> (u64, u64) {
    let mapped = blocks.saturating_sub(12);
    let lowest = mapped.div_ceil(POINTERS);
    // The first one hangs on the inode itself; the next ones on a double indirect block; then on those of the triple one.
    let below_double = lowest.saturating_sub(1);
    let below_triple = below_double.saturating_sub(POINTERS);
    let above =
        u64::from(below_double > 0) + if below_triple > 0 { 1 + below_triple.div_ceil(POINTERS) } else { 0 };
    (lowest, above)
}

/// Bytes on the disk and bytes kept, of inode and indirect blocks of one file.
fn bytes(blocks: u64) -> (u64, u64) {
    let (lowest, above) = indirect_blocks(blocks);
    let on_disk = RECORD + (lowest + above) * BLOCK;
    let file = if lowest > 0 { size_of::<FileFact>() as u64 } else { 0 };
    let kept =
        BYTES_PER_INODE + file + (lowest + above) * size_of::<IndirectFact>() as u64 + above * CHILDREN;
    (on_disk, kept)
}

/// The section of the document.
pub(super) fn text() -> String {
    let mut text = format!(
        "\n## Memory for the metadata of a gigabyte (Figure 8)\n\n\
         What the one-pass check of a rext3 keeps: {BYTES_PER_INODE} bytes of every inode, {} more of a file with indirect blocks, {} of an indirect block, {CHILDREN} more of \
         those above the lowest level. So an inode (of {RECORD} bytes) without indirect blocks is kept {:.0}:1, one with them {:.1}:1 (the paper: nearly 2:1), an \
         indirect block {}:1 (the paper: nearly 250:1). Lists grow by doubling and are merged once, so that up to three times as much is charged to \
         the budget for a moment.\n\n\
         The paper: 86 MB on the disk at the peak, 49 KB; 1 MB as ffsck keeps it.\n\n\
         | average file | files | on the disk | kept | |\n|---|---|---|---|---|\n",
        size_of::<FileFact>(),
        size_of::<IndirectFact>(),
        RECORD as f64 / BYTES_PER_INODE as f64,
        RECORD as f64 / (BYTES_PER_INODE + size_of::<FileFact>() as u64) as f64,
        BLOCK / size_of::<IndirectFact>() as u64,
    );
    for size in SIZES {
        let files = (1 << 20) / size;
        let (on_disk, kept) = bytes((size << 10).div_ceil(BLOCK));
        let (on_disk, kept) = ((files * on_disk) as f64 / 1e6, (files * kept) as f64 / 1e6);
        let _ = writeln!(
            text,
            "| {size} KiB | {files} | {on_disk:.2} MB | {kept:.3} MB | {:.0}:1 |",
            on_disk / kept
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indirect_blocks_of_files() {
        assert_eq!(indirect_blocks(12), (0, 0));
        assert_eq!(indirect_blocks(13), (1, 0));
        assert_eq!(indirect_blocks(12 + 1022), (1, 0));
        assert_eq!(indirect_blocks(12 + 1023), (2, 1));
        assert_eq!(indirect_blocks(12 + 1022 + 1022 * 1022), (1023, 1));
        assert_eq!(indirect_blocks(12 + 1022 + 1022 * 1022 + 1), (1024, 3));
    }

    #[test]
    fn facts_are_as_small_as_the_paper_has_them() {
        let (on_disk, kept) = bytes(13);
        assert_eq!(on_disk, 128 + 4096);
        assert!(kept <= 128 / 2 + 4096 / 250, "{kept}");
    }
}
