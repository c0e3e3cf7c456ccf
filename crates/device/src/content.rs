//! What lies in a partition, as far as one can tell from a few bytes at fixed places.

use crate::Device;

/// What the bytes of a device look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// ext2, ext3, ext4 or an external journal of theirs: the superblock or one of its backups is there.
    Ext,
    /// Something else that we know by its mark.
    Other(&'static str),
    /// Nothing that we know.
    Unknown,
}

/// Byte of the primary ext superblock, and within any: its magic number, its block size, its group.
const SUPERBLOCK: u64 = 1024;
const S_LOG_BLOCK_SIZE: u64 = 24;
const S_MAGIC: u64 = 56;
const S_BLOCK_GROUP_NR: u64 = 90;
const EXT_MAGIC: [u8; 2] = [0x53, 0xEF];

/// Logarithm (over 1 KiB) of the largest ext block: 64 KiB.
const LOG_BLOCK_SIZE_MAX: u32 = 6;

/// Marks of other formats: where, which bytes, what.
const MARKS: &[(u64, &[u8], &str)] = &[
    (0, b"XFSB", "XFS"),
    (0x1_0040, b"_BHRfS_M", "btrfs"),
    (0, b"LUKS\xba\xbe", "a LUKS container"),
    (4086, b"SWAPSPACE2", "swap space"),
    (4096, b"\xfc\x4e\x2b\xa9", "part of a RAID"),
    (512, b"LABELONE", "an LVM physical volume"),
    (1024, b"\x10\x20\xf5\xf2", "F2FS"),
    (0, b"hsqs", "squashfs"),
    (3, b"NTFS    ", "NTFS"),
    (3, b"EXFAT   ", "exFAT"),
    (82, b"FAT32   ", "FAT"),
    (54, b"FAT1", "FAT"),
    (0x8001, b"CD001", "an ISO 9660 image"),
];

/// Tells by marks what `device` holds. A read error counts as no mark.
pub fn recognise(device: &dyn Device) -> Content {
    if has_ext_superblock(device) {
        return Content::Ext;
    }
    if let Some((_, _, what)) = MARKS.iter().find(|(at, mark, _)| has_bytes(device, *at, mark)) {
        return Content::Other(what);
    }
    if has_ext_backup(device) { Content::Ext } else { Content::Unknown }
}

/// Whether the magic number of ext stands where the primary superblock has it.
pub(crate) fn has_ext_superblock(device: &dyn Device) -> bool {
    has_bytes(device, SUPERBLOCK + S_MAGIC, &EXT_MAGIC)
}

/// Whether there is a primary superblock with a possible block size, so that the magic number is hardly chance.
pub(crate) fn has_plausible_ext_superblock(device: &dyn Device) -> bool {
    let log_block_size = read(device, SUPERBLOCK + S_LOG_BLOCK_SIZE).map(u32::from_le_bytes);
    has_ext_superblock(device) && log_block_size.is_some_and(|log| log <= LOG_BLOCK_SIZE_MAX)
}

/// Whether the backup in group 1 is there, for each block size with the usual number of blocks per group (8 bits in
/// each byte of a bitmap block). It names its own group, and its own block size, so that it is not taken for the
/// superblock of something inside the file system.
fn has_ext_backup(device: &dyn Device) -> bool {
    (0..=LOG_BLOCK_SIZE_MAX).any(|log| {
        let block_bytes = 1024u64 << log;
        let first_block = u64::from(log == 0);
        let backup = (first_block + (8 * block_bytes).min(65_528)) * block_bytes;
        has_bytes(device, backup + S_MAGIC, &EXT_MAGIC)
            && read(device, backup + S_LOG_BLOCK_SIZE) == Some(log.to_le_bytes())
            && read(device, backup + S_BLOCK_GROUP_NR) == Some([1, 0])
    })
}

fn has_bytes(device: &dyn Device, at: u64, expected: &[u8]) -> bool {
    let mut bytes = [0; 16];
    let bytes = &mut bytes[..expected.len()];
    device.read_at(at, bytes).is_ok() && bytes == expected
}

fn read<const N: usize>(device: &dyn Device, at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    device.read_at(at, &mut bytes).is_ok().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    fn with_mark(at: u64, mark: &[u8]) -> MemoryDevice {
        let mut bytes = vec![0; 128 << 10];
        bytes[at as usize..at as usize + mark.len()].copy_from_slice(mark);
        MemoryDevice::new("m", bytes)
    }

    #[test]
    fn each_mark_is_recognised() {
        for (at, mark, what) in MARKS {
            assert!(mark.len() <= 16);
            assert_eq!(recognise(&with_mark(*at, mark)), Content::Other(what));
        }
        assert_eq!(recognise(&with_mark(1080, &EXT_MAGIC)), Content::Ext);
        assert_eq!(recognise(&with_mark(0, &[])), Content::Unknown);
        assert_eq!(recognise(&MemoryDevice::new("m", vec![])), Content::Unknown);
    }

    #[test]
    fn a_backup_is_enough() {
        let mut bytes = vec![0; 9 << 20];
        let backup = 8193 * 1024;
        bytes[backup + 56..backup + 58].copy_from_slice(&EXT_MAGIC);
        bytes[backup + 90] = 1;
        assert_eq!(recognise(&MemoryDevice::new("m", bytes.clone())), Content::Ext);
        bytes[backup + 24] = 1;
        assert_eq!(
            recognise(&MemoryDevice::new("m", bytes)),
            Content::Unknown,
            "the wrong block size for its place"
        );
    }
}
