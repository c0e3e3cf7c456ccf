// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a disk as a qcow2 image (version 3): only clusters that hold something take space.
//!
//! ```text
//! cluster 0: header | 1: refcount table | 2: refcount block | 3: L1 table | then L2 tables | then data
//! ```

const CLUSTER_BITS: u32 = 12;
const CLUSTER: usize = 1 << CLUSTER_BITS;
/// Entries of 8 bytes in a table of one cluster.
const ENTRIES: usize = CLUSTER / 8;
const COPIED: u64 = 1 << 63;
const FIRST_L2: usize = 4;

/// The qcow2 image of `disk`. One refcount block has to do: 2,048 clusters, 8 MiB of data.
pub fn write(disk: &[u8]) -> Vec<u8> {
    let clusters: Vec<&[u8]> = disk.chunks(CLUSTER).collect();
    let tables = clusters.len().div_ceil(ENTRIES);
    let mut data = Vec::new();
    let mut l2 = vec![0u64; tables * ENTRIES];
    for (number, cluster) in clusters.iter().enumerate() {
        if cluster.iter().any(|byte| *byte != 0) {
            let at = (FIRST_L2 + tables) * CLUSTER + data.len();
            l2[number] = at as u64 | COPIED;
            data.extend_from_slice(cluster);
            data.resize(data.len().next_multiple_of(CLUSTER), 0);
        }
    }
    let used = FIRST_L2 + tables + data.len() / CLUSTER;
    assert!(used <= CLUSTER / 2, "the example image needs a second refcount block");
    let l1: Vec<u64> = (0..tables).map(|table| ((FIRST_L2 + table) * CLUSTER) as u64 | COPIED).collect();
    let refcounts: Vec<u8> = (0..used).flat_map(|_| 1u16.to_be_bytes()).collect();
    let parts = [
        header(disk.len(), tables),
        numbers(&[2 * CLUSTER as u64]),
        refcounts,
        numbers(&l1),
        numbers(&l2),
        data,
    ];
    parts.into_iter().flat_map(whole_clusters).collect()
}

fn header(length: usize, tables: usize) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(b"QFI\xFB");
    header.extend(3u32.to_be_bytes());
    header.extend([0; 12]); // no backing file
    header.extend(CLUSTER_BITS.to_be_bytes());
    header.extend((length as u64).to_be_bytes());
    header.extend(0u32.to_be_bytes()); // not encrypted
    header.extend((tables as u32).to_be_bytes());
    header.extend((3 * CLUSTER as u64).to_be_bytes()); // L1 table
    header.extend((CLUSTER as u64).to_be_bytes()); // refcount table
    header.extend(1u32.to_be_bytes());
    header.extend([0; 12]); // no snapshots
    header.extend([0; 24]); // no features
    header.extend(4u32.to_be_bytes()); // refcounts of 16 bits
    header.extend(104u32.to_be_bytes());
    header
}

fn numbers(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn whole_clusters(mut part: Vec<u8>) -> Vec<u8> {
    part.resize(part.len().next_multiple_of(CLUSTER), 0);
    part
}
