#![allow(clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::prelude::{any, proptest};

use super::gpt::crc32;
use super::{Partition, partitions};
use crate::MemoryDevice;

const DISK_BYTES: usize = 4 << 20;

/// Type of an ordinary Linux partition, as GPT stores it.
const LINUX: [u8; 16] =
    [0xAF, 0x3D, 0xC6, 0x0F, 0x83, 0x84, 0x72, 0x47, 0x8E, 0x79, 0x3D, 0x69, 0xD8, 0x47, 0x7D, 0xE4];

fn put(disk: &mut [u8], at: usize, bytes: &[u8]) {
    disk[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Writes a table sector at byte `at`: rows of type, first sector, count.
fn put_table(disk: &mut [u8], at: usize, rows: &[(u8, u32, u32)]) {
    put(disk, at + 510, &[0x55, 0xAA]);
    for (index, (kind, first, count)) in rows.iter().enumerate() {
        let row = at + 446 + 16 * index;
        disk[row + 4] = *kind;
        put(disk, row + 8, &first.to_le_bytes());
        put(disk, row + 12, &count.to_le_bytes());
    }
}

/// Writes a GPT header into sector `own`, whose rows stand at sector `rows_at`.
fn put_gpt_header(disk: &mut [u8], sector: usize, own: usize, rows_at: usize, count: u32, size: u32) {
    let rows = &disk[rows_at * sector..rows_at * sector + (count * size) as usize];
    let rows_crc = crc32(rows);
    let header = own * sector;
    put(disk, header, b"EFI PART\0\0\x01\0");
    put(disk, header + 12, &92u32.to_le_bytes());
    put(disk, header + 16, &[0; 4]);
    put(disk, header + 24, &(own as u64).to_le_bytes());
    put(disk, header + 72, &(rows_at as u64).to_le_bytes());
    put(disk, header + 80, &count.to_le_bytes());
    put(disk, header + 84, &size.to_le_bytes());
    put(disk, header + 88, &rows_crc.to_le_bytes());
    let crc = crc32(&disk[header..header + 92]);
    put(disk, header + 16, &crc.to_le_bytes());
}

/// A disk with a GPT in both places; rows of first and last sector.
fn gpt_disk(sector: usize, rows: &[(u64, u64)]) -> Vec<u8> {
    let mut disk = vec![0; DISK_BYTES];
    put_table(&mut disk, 0, &[(0xEE, 1, u32::MAX)]);
    let last = DISK_BYTES / sector - 1;
    let backup_rows = last - 128 * 128 / sector;
    for rows_at in [2, backup_rows] {
        for (index, (first, end)) in rows.iter().enumerate() {
            let row = rows_at * sector + 128 * index;
            put(&mut disk, row, &LINUX);
            put(&mut disk, row + 32, &first.to_le_bytes());
            put(&mut disk, row + 40, &end.to_le_bytes());
        }
    }
    put_gpt_header(&mut disk, sector, 1, 2, 128, 128);
    put_gpt_header(&mut disk, sector, last, backup_rows, 128, 128);
    disk
}

fn read(disk: Vec<u8>) -> Vec<Partition> {
    partitions(&MemoryDevice::new("disk", disk))
}

/// Number, start and length of each partition.
fn places(disk: Vec<u8>) -> Vec<(u32, u64, u64)> {
    read(disk).iter().map(|partition| (partition.number, partition.start, partition.len)).collect()
}

#[test]
fn crc32_is_the_usual_one() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
}

#[test]
fn primaries_and_logical_partitions_are_numbered_as_in_linux() {
    let mut disk = vec![0; DISK_BYTES];
    put_table(&mut disk, 0, &[(0x83, 64, 100), (0x05, 1000, 4000), (0, 0, 0), (0x82, 6000, 1000)]);
    put_table(&mut disk, 1000 * 512, &[(0x83, 8, 200), (0x05, 500, 300)]);
    put_table(&mut disk, 1500 * 512, &[(0x8E, 8, 100)]);
    let expected = [
        (1, 64 * 512, 100 * 512),
        (4, 6000 * 512, 1000 * 512),
        (5, 1008 * 512, 200 * 512),
        (6, 1508 * 512, 100 * 512),
    ];
    assert_eq!(places(disk.clone()), expected);
    let types: Vec<String> = read(disk).into_iter().map(|partition| partition.type_name).collect();
    assert_eq!(types, ["Linux", "Linux swap", "Linux", "Linux LVM"]);
}

#[test]
fn a_chain_of_logical_partitions_that_bites_its_tail_ends() {
    let mut disk = vec![0; DISK_BYTES];
    put_table(&mut disk, 0, &[(0x0F, 1000, 4000)]);
    put_table(&mut disk, 1000 * 512, &[(0x83, 8, 200), (0x05, 500, 300)]);
    put_table(&mut disk, 1500 * 512, &[(0x83, 8, 200), (0x05, 500, 300)]);
    assert_eq!(places(disk).len(), 2);
}

#[test]
fn a_chain_without_end_ends() {
    let mut disk = vec![0; DISK_BYTES];
    put_table(&mut disk, 0, &[(0x05, 1, 8000), (0x05, 1, 8000)]);
    for sector in 1..8000 {
        put_table(&mut disk, sector * 512, &[(0x83, 1, 1), (0x05, sector as u32, 1)]);
    }
    assert_eq!(places(disk).len(), 256);
}

#[test]
fn overlapping_and_cut_off_partitions_are_listed_as_stated() {
    let mut disk = vec![0; DISK_BYTES];
    put_table(&mut disk, 0, &[(0x83, 64, 1000), (0x83, 100, u32::MAX), (0x83, u32::MAX, u32::MAX)]);
    let far = u64::from(u32::MAX) * 512;
    assert_eq!(places(disk), [(1, 64 * 512, 1000 * 512), (2, 100 * 512, far), (3, far, far)]);
}

#[test]
fn sectors_of_4096_bytes_are_found_by_what_lies_in_the_partition() {
    let mut disk = vec![0; DISK_BYTES];
    put_table(&mut disk, 0, &[(0x83, 16, 100)]);
    assert_eq!(places(disk.clone()), [(1, 16 * 512, 100 * 512)]);
    put(&mut disk, 16 * 4096 + 1080, &[0x53, 0xEF]);
    assert_eq!(places(disk), [(1, 16 * 4096, 100 * 4096)]);
}

#[test]
fn gpt_is_read_with_both_sector_sizes() {
    for sector in [512, 4096] {
        let size = sector as u64;
        let disk = gpt_disk(sector, &[(40, 99), (0, 0), (100, 101)]);
        assert_eq!(places(disk.clone()), [(1, 40 * size, 60 * size), (3, 100 * size, 2 * size)]);
        assert_eq!(read(disk)[0].type_name, "Linux");
    }
}

#[test]
fn the_backup_stands_in_for_a_damaged_gpt() {
    let expected = [(1, 40 * 512, 60 * 512)];
    let mut header_damaged = gpt_disk(512, &[(40, 99)]);
    header_damaged[512 + 40] ^= 1;
    assert_eq!(places(header_damaged.clone()), expected);
    let mut rows_damaged = gpt_disk(512, &[(40, 99)]);
    rows_damaged[1024 + 200] ^= 1;
    assert_eq!(places(rows_damaged.clone()), expected);
    // Both copies have damaged rows: better those than nothing.
    let backup = DISK_BYTES - 512 - 128 * 128;
    rows_damaged[backup + 200] ^= 1;
    assert_eq!(places(rows_damaged), expected);
    // A backup that nothing announces is left over.
    put(&mut header_damaged, 0, &[0; 512]);
    assert!(places(header_damaged).is_empty());
}

#[test]
fn a_gpt_from_an_earlier_life_yields_to_an_mbr_with_partitions() {
    let mut disk = gpt_disk(512, &[(40, 99)]);
    put_table(&mut disk, 0, &[(0x83, 64, 100)]);
    assert_eq!(places(disk.clone()), [(1, 64 * 512, 100 * 512)]);
    put(&mut disk, 0, &[0; 512]);
    assert_eq!(places(disk), [(1, 40 * 512, 60 * 512)], "without an MBR it is all there is");
}

#[test]
fn a_protective_mbr_without_gpt_has_no_partitions() {
    let mut disk = vec![0; DISK_BYTES];
    put_table(&mut disk, 0, &[(0xEE, 1, u32::MAX)]);
    assert!(places(disk.clone()).is_empty());
    put_table(&mut disk, 0, &[(0xEE, 1, 63), (0x83, 64, 100)]);
    assert_eq!(places(disk), [(2, 64 * 512, 100 * 512)], "a hybrid one has");
}

#[test]
fn absurd_gpt_headers_are_not_believed() {
    for (count, size) in [(u32::MAX, 128), (128, 0), (1, u32::MAX), (128, 130), (0x0200_0000, 0x80)] {
        let mut disk = gpt_disk(512, &[(40, 99)]);
        for header in [512, DISK_BYTES - 512] {
            put(&mut disk, header + 80, &count.to_le_bytes());
            put(&mut disk, header + 84, &size.to_le_bytes());
            put(&mut disk, header + 16, &[0; 4]);
            let crc = crc32(&disk[header..header + 92]);
            put(&mut disk, header + 16, &crc.to_le_bytes());
        }
        assert!(places(disk).is_empty());
    }
    assert!(
        places(gpt_disk(512, &[(99, 40), (u64::MAX, u64::MAX), (1, u64::MAX)])).is_empty(),
        "impossible rows"
    );
}

#[test]
fn an_ext_file_system_with_boot_code_is_no_partition_table() {
    let mut disk = vec![0; DISK_BYTES];
    put_table(&mut disk, 0, &[(0x83, 64, 100)]);
    assert_eq!(places(disk.clone()).len(), 1);
    put(&mut disk, 1080, &[0x53, 0xEF]);
    assert!(places(disk).is_empty());
    let mut boot_code: Vec<u8> = (0..512).map(|i| i as u8).collect();
    put(&mut boot_code, 510, &[0x55, 0xAA]);
    boot_code.resize(DISK_BYTES, 0);
    assert!(places(boot_code).is_empty(), "code where the rows would be");
}

proptest! {
    #[test]
    fn hostile_tables_are_survived(
        damage in vec((0usize..4096, any::<u8>()), 0..60), extended in any::<u32>(), cut in 0usize..DISK_BYTES,
    ) {
        let mut disk = gpt_disk(512, &[(40, 99), (50, 200)]);
        put_table(&mut disk, 0, &[(0x05, extended % 8192, 10), (0x0F, extended, u32::MAX), (0x85, 1, 1)]);
        for (at, value) in damage {
            disk[at] = value;
        }
        disk.truncate(cut);
        let _ = read(disk);
    }
}
