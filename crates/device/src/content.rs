//! What lies on a device or in a file, as far as one can tell from a few bytes at fixed places.

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

/// Longest mark.
const MAGIC_BYTES_MAX: usize = 24;

/// Logarithm (over 1 KiB) of the largest ext block: 64 KiB.
const LOG_BLOCK_SIZE_MAX: u32 = 6;

/// What to do with something that is not ext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// A file system or volume of another kind, with tools of its own.
    Tools,
    /// A disk: the file system is in a partition of it.
    Partition,
    /// A file system may be inside. This command takes it out or shows it; `FILE` stands for the name.
    Convert(&'static str),
    /// A file of another kind.
    NoFileSystem,
}

/// The mark of another format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    at: u64,
    magic: &'static [u8],
    /// What it is, with its article.
    pub name: &'static str,
    /// What to do with it.
    pub remedy: Remedy,
}

impl Mark {
    const fn new(at: u64, magic: &'static [u8], name: &'static str, remedy: Remedy) -> Mark {
        Mark { at, magic, name, remedy }
    }
}

/// Marks of other formats: where, which bytes, what.
const MARKS: &[Mark] = &[
    Mark::new(0, b"XFSB", "an XFS file system", Remedy::Tools),
    Mark::new(0x1_0040, b"_BHRfS_M", "a Btrfs file system", Remedy::Tools),
    Mark::new(
        0,
        b"LUKS\xba\xbe",
        "a LUKS encrypted volume",
        Remedy::Convert("cryptsetup open --readonly FILE NAME"),
    ),
    Mark::new(4086, b"SWAPSPACE2", "swap space", Remedy::Tools),
    Mark::new(4086, b"SWAP-SPACE", "swap space", Remedy::Tools),
    Mark::new(
        4096,
        b"\xfc\x4e\x2b\xa9",
        "a member of a Linux software RAID",
        Remedy::Convert("mdadm --assemble --readonly /dev/md0 FILE ..."),
    ),
    Mark::new(512, b"LABELONE", "an LVM physical volume", Remedy::Convert("vgchange -ay")),
    Mark::new(512, b"EFI PART", "a disk with a GPT partition table", Remedy::Partition),
    Mark::new(1024, b"\x10\x20\xf5\xf2", "an F2FS file system", Remedy::Tools),
    Mark::new(1024, b"\xe2\xe1\xf5\xe0", "an EROFS file system", Remedy::Tools),
    Mark::new(0, b"hsqs", "a SquashFS image", Remedy::Tools),
    Mark::new(3, b"NTFS    ", "an NTFS file system", Remedy::Tools),
    Mark::new(3, b"EXFAT   ", "an exFAT file system", Remedy::Tools),
    Mark::new(82, b"FAT32   ", "a FAT file system", Remedy::Tools),
    Mark::new(54, b"FAT1", "a FAT file system", Remedy::Tools),
    Mark::new(0x8001, b"CD001", "an ISO 9660 file system", Remedy::Tools),
    Mark::new(0x8000, b"JFS1", "a JFS file system", Remedy::Tools),
    Mark::new(0x1_0034, b"ReIsEr", "a ReiserFS file system", Remedy::Tools),
    Mark::new(8192 + 1372, b"\x54\x19\x01\x00", "a UFS1 file system", Remedy::Tools),
    Mark::new(0x1_0000 + 1372, b"\x19\x01\x54\x19", "a UFS2 file system", Remedy::Tools),
    Mark::new(
        0,
        b"QFI\xfb",
        "a qcow2 image",
        Remedy::Convert("qemu-img convert -f qcow2 -O raw FILE FILE.raw"),
    ),
    Mark::new(0, b"KDMV", "a VMDK image", Remedy::Convert("qemu-img convert -f vmdk -O raw FILE FILE.raw")),
    Mark::new(
        0,
        b"# Disk Descriptor",
        "the descriptor of a VMDK image",
        Remedy::Convert("qemu-img convert -f vmdk -O raw FILE FILE.raw"),
    ),
    Mark::new(0, b"conectix", "a VHD image", Remedy::Convert("qemu-img convert -f vpc -O raw FILE FILE.raw")),
    Mark::new(
        0,
        b"vhdxfile",
        "a VHDX image",
        Remedy::Convert("qemu-img convert -f vhdx -O raw FILE FILE.raw"),
    ),
    Mark::new(
        0x40,
        b"\x7f\x10\xda\xbe",
        "a VDI image",
        Remedy::Convert("qemu-img convert -f vdi -O raw FILE FILE.raw"),
    ),
    Mark::new(0, b"\x3a\xff\x26\xed", "an Android sparse image", Remedy::Convert("simg2img FILE FILE.raw")),
    Mark::new(0, b"\x1f\x8b\x08", "a gzip archive", Remedy::Convert("gzip -dc FILE > FILE.raw")),
    Mark::new(0, b"BZh", "a bzip2 archive", Remedy::Convert("bzip2 -dc FILE > FILE.raw")),
    Mark::new(0, b"\xfd7zXZ\x00", "an xz archive", Remedy::Convert("xz -dc FILE > FILE.raw")),
    Mark::new(0, b"\x28\xb5\x2f\xfd", "a zstd archive", Remedy::Convert("zstd -dc FILE > FILE.raw")),
    Mark::new(0, b"\x04\x22\x4d\x18", "an lz4 archive", Remedy::Convert("lz4 -dc FILE > FILE.raw")),
    Mark::new(0, b"PK\x03\x04", "a ZIP archive", Remedy::Convert("unzip FILE")),
    Mark::new(257, b"ustar", "a tar archive", Remedy::Convert("tar -xf FILE")),
    Mark::new(0, b"\x89PNG\r\n\x1a\n", "a PNG picture", Remedy::NoFileSystem),
    Mark::new(0, b"%PDF-", "a PDF document", Remedy::NoFileSystem),
    Mark::new(0, b"\x7fELF", "an ELF program", Remedy::NoFileSystem),
];

/// The mark of another format that `device` bears, if it is one that is known. A read error counts as no mark.
pub fn foreign_mark(device: &dyn Device) -> Option<&'static Mark> {
    MARKS.iter().find(|mark| has_bytes(device, mark.at, mark.magic))
}

/// Tells by marks what `device` holds. A read error counts as no mark.
pub fn recognise(device: &dyn Device) -> Content {
    if has_ext_superblock(device) {
        return Content::Ext;
    }
    if let Some(mark) = foreign_mark(device) {
        return Content::Other(mark.name);
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
    let mut bytes = [0; MAGIC_BYTES_MAX];
    bytes
        .get_mut(..expected.len())
        .is_some_and(|bytes| device.read_at(at, bytes).is_ok() && bytes == expected)
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
        for mark in MARKS {
            assert_eq!(recognise(&with_mark(mark.at, mark.magic)), Content::Other(mark.name));
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
