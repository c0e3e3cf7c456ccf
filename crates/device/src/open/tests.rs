// SPDX-License-Identifier: MIT OR Apache-2.0

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{OpenErrorKind, OpenOptions, Opened, missing_permission, open};
use crate::testing::{OneFamily, TempFile};

const SECTOR: usize = 512;

/// A disk with three partitions: at sector 64 a known file system, at 128 swap space, at 5000 (beyond the end) whatever.
fn disk() -> Vec<u8> {
    let mut disk = vec![0; 512 * SECTOR];
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    for (index, (kind, first)) in [(0x83, 64u32), (0x82, 128), (0x83, 5000)].into_iter().enumerate() {
        let row = 446 + 16 * index;
        disk[row + 4] = kind;
        disk[row + 8..row + 12].copy_from_slice(&first.to_le_bytes());
        disk[row + 12..row + 16].copy_from_slice(&64u32.to_le_bytes());
    }
    disk[64 * SECTOR + 1080..64 * SECTOR + 1082].copy_from_slice(&[0x53, 0xEF]);
    disk[128 * SECTOR + 4086..128 * SECTOR + 4096].copy_from_slice(b"SWAPSPACE2");
    disk
}

fn open_with(
    bytes: &[u8],
    offset: Option<u64>,
    partition: Option<u32>,
) -> Result<Opened, (OpenErrorKind, String)> {
    let file = TempFile::new("open", bytes);
    open(file.path(), &OpenOptions { offset, partition }, &OneFamily).map_err(|error| {
        let text = error.to_string();
        assert!(text.starts_with(&file.path().display().to_string()), "an error names its target");
        (error.kind, text)
    })
}

fn lengths(opened: &Opened) -> Vec<u64> {
    opened.targets.iter().map(|target| target.device.len()).collect()
}

#[test]
fn a_plain_image_is_one_target() {
    let opened = open_with(&[7; 5000], None, None).unwrap();
    assert_eq!(lengths(&opened), [5000]);
    assert!(opened.skipped.is_empty() && opened.usage.is_empty());
}

#[test]
fn a_disk_gives_its_known_partitions_and_tells_what_the_others_are() {
    let opened = open_with(&disk(), None, None).unwrap();
    assert_eq!(lengths(&opened), [64 * 512]);
    assert!(opened.targets[0].label.ends_with(" partition 1"));
    assert_eq!(opened.targets[0].device.name(), opened.targets[0].label);
    assert_eq!(opened.targets[0].partition, Some(1));
    let why: Vec<&str> = opened.skipped.iter().map(|skipped| skipped.why.as_str()).collect();
    assert_eq!(why, ["it holds swap space", "it starts beyond the end of the disk"]);
}

#[test]
fn a_named_partition_is_taken_whatever_it_holds() {
    let opened = open_with(&disk(), None, Some(2)).unwrap();
    assert_eq!(lengths(&opened), [64 * 512]);
    let (kind, text) = open_with(&disk(), None, Some(9)).err().unwrap();
    assert!(matches!(kind, OpenErrorKind::NoSuchPartition { wanted: 9, there } if there.len() == 3));
    assert!(text.contains("2 (Linux swap, 32.0 KiB at byte 65536)"), "{text}");
    let (kind, _) = open_with(&disk(), None, Some(3)).err().unwrap();
    assert!(matches!(kind, OpenErrorKind::PartitionBeyondEnd { .. }));
    let (_, text) = open_with(&[7; 5000], None, Some(1)).err().unwrap();
    assert!(text.contains("no partition table"));
}

#[test]
fn offsets_lie_within_the_disk_or_the_named_partition() {
    assert_eq!(lengths(&open_with(&disk(), Some(32768), None).unwrap()), [512 * 512 - 32768]);
    assert_eq!(lengths(&open_with(&disk(), Some(512), Some(1)).unwrap()), [63 * 512]);
    assert_eq!(lengths(&open_with(&disk(), Some(0), None).unwrap()), [512 * 512], "all of it, table or not");
    for (offset, partition) in [(1 << 20, None), (64 * 512, Some(1)), (u64::MAX, None)] {
        let (kind, _) = open_with(&disk(), Some(offset), partition).err().unwrap();
        assert!(matches!(kind, OpenErrorKind::OffsetBeyondEnd { .. }));
    }
}

#[test]
fn a_disk_without_a_known_file_system_lists_what_it_has() {
    let mut bytes = disk();
    bytes[64 * SECTOR + 1080] = 0;
    let (_, text) = open_with(&bytes, None, None).err().unwrap();
    assert!(text.contains("1 (Linux, 32.0 KiB at byte 32768): no superblock was found in it"), "{text}");
}

#[test]
fn each_refusal_says_what_it_is() {
    let kind = |path: &str| open(Path::new(path), &OpenOptions::default(), &OneFamily).err().unwrap().kind;
    assert!(matches!(kind("/nowhere/at/all"), OpenErrorKind::NotFound));
    assert!(matches!(kind("/"), OpenErrorKind::Directory));
    assert!(matches!(kind("/dev/null"), OpenErrorKind::NotSeekable));
    assert!(matches!(open_with(b"", None, None).err().unwrap().0, OpenErrorKind::Empty));
    assert!(matches!(open_with(b"QFI\xfb\0\0\0\x03", None, None).err().unwrap().0, OpenErrorKind::Image(_)));
    let file = TempFile::new("secret", b"x");
    std::fs::set_permissions(file.path(), PermissionsExt::from_mode(0o000)).unwrap();
    // Root may read everything.
    if let Err(error) = open(file.path(), &OpenOptions::default(), &OneFamily) {
        assert!(matches!(error.kind, OpenErrorKind::PermissionDenied(_)));
    }
}

#[test]
fn a_device_that_a_container_may_not_use_is_no_matter_of_root() {
    use rustix::io::Errno;
    let of = |error, is_root| super::permission_of(Some(error), is_root, "read");
    assert!(
        of(Errno::PERM, true).contains("device cgroup") && of(Errno::PERM, false).contains("device cgroup")
    );
    assert!(
        of(Errno::ACCESS, true).contains("CAP_DAC_OVERRIDE")
            && !of(Errno::ACCESS, true).contains("run as root")
    );
    assert!(of(Errno::ACCESS, false).contains("run as root"));
    let error = std::io::Error::from(Errno::PERM);
    assert!(missing_permission(&error, "write").contains("write the device"));
}
