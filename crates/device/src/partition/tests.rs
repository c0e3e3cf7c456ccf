// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::prelude::{any, proptest};

use super::gpt::crc32;
use super::{Partition, partitions};
use crate::MemoryDevice;
use crate::testing::OneFamily;

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
    partitions(&MemoryDevice::new("disk", disk), &OneFamily)
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
fn a_known_file_system_with_boot_code_is_no_partition_table() {
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

/// Writes a disklabel at byte `at`: rows of type, first sector, count.
fn put_label(disk: &mut [u8], at: usize, is_big: bool, rows: &[(u8, u32, u32)]) {
    let number = |value: u32| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let count = rows.len() as u16;
    let end = at + 148 + 16 * rows.len();
    put(disk, at, &number(0x8256_4557));
    put(disk, at + 40, &number(512));
    put(disk, at + 132, &number(0x8256_4557));
    put(disk, at + 138, &if is_big { count.to_be_bytes() } else { count.to_le_bytes() });
    for (index, (kind, first, count)) in rows.iter().enumerate() {
        let row = at + 148 + 16 * index;
        put(disk, row, &number(*count));
        put(disk, row + 4, &number(*first));
        disk[row + 12] = *kind;
    }
    put(disk, at + 136, &[0, 0]);
    let sum = disk[at..end].chunks_exact(2).fold([0, 0], |sum, word| [sum[0] ^ word[0], sum[1] ^ word[1]]);
    put(disk, at + 136, &sum);
}

#[test]
fn a_slice_is_divided_by_its_disklabel_in_either_byte_order() {
    for is_big in [false, true] {
        let mut disk = vec![0; DISK_BYTES];
        put_table(&mut disk, 0, &[(0xA5, 1000, 4000), (0x83, 6000, 100), (0xA5, 6200, 100)]);
        let rows = [(7, 16, 1000), (1, 1016, 500), (0, 0, 4000), (7, 1516, 2484)];
        put_label(&mut disk, 1001 * 512, is_big, &rows);
        let expected = [
            (2, 6000 * 512, 100 * 512),
            // A slice without a label is a partition like others.
            (3, 6200 * 512, 100 * 512),
            (5, 1016 * 512, 1000 * 512),
            (6, 2016 * 512, 500 * 512),
            (7, 2516 * 512, 2484 * 512),
        ];
        assert_eq!(places(disk.clone()), expected);
        let types: Vec<String> = read(disk).into_iter().map(|partition| partition.type_name).collect();
        assert_eq!(types[..2], ["Linux", "FreeBSD"]);
        assert!(
            types[2].starts_with("a: ") && types[3] == "b: swap" && types[4].starts_with("d: "),
            "{types:?}"
        );
    }
}

#[test]
fn rows_of_a_disklabel_may_count_from_the_start_of_the_disk() {
    let absolute = [(7, 1016, 1000), (0, 0, 0), (0, 1000, 4000)];
    for (kind, whole) in [(0xA5, (0, 1000, 4000)), (0xA9, (0, 1000, 4000)), (0xA6, (0, 0, 8192))] {
        let mut disk = vec![0; DISK_BYTES];
        put_table(&mut disk, 0, &[(kind, 1000, 4000)]);
        put_label(&mut disk, 1001 * 512, false, &[absolute[0], absolute[1], whole]);
        assert_eq!(places(disk), [(5, 1016 * 512, 1000 * 512)], "{kind:#x}");
    }
}

#[test]
fn a_disk_may_have_nothing_but_a_disklabel() {
    for (at, is_big) in [(512, false), (512, true), (128, true), (64, false)] {
        let mut disk = vec![0; DISK_BYTES];
        put_label(&mut disk, at, is_big, &[(7, 0, 1000), (1, 1000, 500), (0, 0, 8192), (7, 1500, 500)]);
        let expected = [(1, 0, 1000 * 512), (2, 1000 * 512, 500 * 512), (4, 1500 * 512, 500 * 512)];
        assert_eq!(places(disk.clone()), expected);
        // The boot code may end like an MBR, and the first partition holds a file system in whose boot area the label stands.
        put(&mut disk, 510, &[0x55, 0xAA]);
        put(&mut disk, 1080, &[0x53, 0xEF]);
        assert_eq!(places(disk.clone()), expected);
        // A wrong sum: no label.
        disk[at + 150] ^= 1;
        assert!(places(disk).is_empty());
    }
}

#[test]
fn a_label_that_has_no_place_for_the_file_system_that_is_there_is_left_over() {
    let mut disk = vec![0; DISK_BYTES];
    put_label(&mut disk, 512, false, &[(7, 16, 1000)]);
    assert_eq!(places(disk.clone()).len(), 1);
    put(&mut disk, 1080, &[0x53, 0xEF]);
    assert!(places(disk).is_empty());
}

#[test]
fn a_gpt_partition_may_have_a_disklabel() {
    let mut disk = gpt_disk(512, &[(40, 99), (100, 1099)]);
    let freebsd =
        [0xB4, 0x7C, 0x6E, 0x51, 0xCF, 0x6E, 0xD6, 0x11, 0x8F, 0xF8, 0, 0x02, 0x2D, 0x09, 0x71, 0x2B];
    put(&mut disk, 1024 + 128, &freebsd);
    let last = DISK_BYTES / 512 - 1;
    put(&mut disk, (last - 32) * 512 + 128, &freebsd);
    put_gpt_header(&mut disk, 512, 1, 2, 128, 128);
    assert_eq!(places(disk.clone()), [(1, 40 * 512, 60 * 512), (2, 100 * 512, 1000 * 512)]);
    put_label(&mut disk, 101 * 512, false, &[(7, 16, 500)]);
    assert_eq!(places(disk), [(1, 40 * 512, 60 * 512), (3, 116 * 512, 500 * 512)]);
}

proptest! {
    #[test]
    fn hostile_labels_are_survived(
        rows in vec((any::<u8>(), any::<u32>(), any::<u32>()), 0..22), start in any::<u32>(), is_big in any::<bool>(),
    ) {
        let mut disk = vec![0; DISK_BYTES];
        put_label(&mut disk, 512, is_big, &rows);
        let _ = read(disk.clone());
        put_table(&mut disk, 0, &[(0xA5, start % 8000, start), (0xA6, start, 1)]);
        put_label(&mut disk, (start % 8000 + 1) as usize * 512, is_big, &rows);
        let _ = read(disk);
    }

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
