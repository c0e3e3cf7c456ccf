// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words, checksums, and what blocks in regions say about themselves.

/// Bytes of an inode record.
pub const INODE_SIZE: usize = 128;
/// The UUID of all images.
pub const UUID: [u8; 16] = *b"rext3 test image";

/// The word at `at`.
pub fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Puts a word.
pub fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Puts half a word.
pub fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// CRC32C, bit by bit, from a state and without inversion.
pub fn crc32c(state: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(state, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 },
        )
    })
}

/// Where all checksums of an image start.
pub fn seed() -> u32 {
    crc32c(u32::MAX, &UUID)
}

/// Puts inode number, level and check at the start of an indirect block.
pub fn seal_indirect(seed: u32, number: u64, inode: u32, level: u8, block: &mut [u8]) {
    let mut told = number.to_le_bytes().to_vec();
    told.extend(inode.to_le_bytes());
    told.push(level);
    let check = crc32c(seed, &told) & 0xFFFF_FF00;
    put(block, 0, inode);
    put(block, 4, check | u32::from(level));
}

/// Puts the tail at the end of a directory block.
pub fn seal_directory(
    seed: u32,
    number: u64,
    (inode, generation, logical): (u32, u32, u32),
    block: &mut [u8],
) {
    let at = block.len() - 32;
    block[at..at + 8].copy_from_slice(&[0, 0, 0, 0, 32, 0, 0, 0xDF]);
    block[at + 8..at + 12].copy_from_slice(b"rdir");
    for (nth, value) in [inode, generation, logical, 0].into_iter().enumerate() {
        put(block, at + 12 + nth * 4, value);
    }
    let crc = crc32c(crc32c(seed, &number.to_le_bytes()), &block[..at + 28]);
    put(block, at + 28, crc);
}
