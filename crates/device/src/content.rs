// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies on a device or in a file, as far as one can tell from a few bytes at fixed places.

use crate::Device;

/// How much of a file system of a known family is on a device: the more the later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trace {
    /// A copy of the superblock, at one of its usual places.
    Copy,
    /// The magic number of the superblock; it may be chance.
    Magic,
    /// A superblock that can be one.
    Superblock,
}

/// What knows families of file systems.
pub trait Recognise {
    /// What `device` holds of a family: how much, and what it would be, with its article. A read error counts as nothing.
    fn trace(&self, device: &dyn Device) -> Option<(Trace, &'static str)>;
}

/// Knows no family: for devices that are opened whatever is on them.
pub struct Whatever;

impl Recognise for Whatever {
    fn trace(&self, _device: &dyn Device) -> Option<(Trace, &'static str)> {
        None
    }
}

/// What the bytes of a device look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A file system of a known family, or what is left of one: what it is, with its article.
    Known(&'static str),
    /// Something else that we know by its mark.
    Other(&'static str),
    /// Nothing that we know.
    Unknown,
}

/// Longest mark.
const MAGIC_BYTES_MAX: usize = 24;

/// What to do with something that is of no known family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// A file system of another kind. This command checks it and writes nothing; `FILE` stands for the name.
    Tools(&'static str),
    /// Something of another kind, in which there is nothing to check.
    Nothing,
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
    Mark::new(0, b"XFSB", "an XFS file system", Remedy::Tools("xfs_repair -n FILE")),
    Mark::new(0x1_0040, b"_BHRfS_M", "a Btrfs file system", Remedy::Tools("btrfs check --readonly FILE")),
    Mark::new(
        0,
        b"LUKS\xba\xbe",
        "a LUKS encrypted volume",
        Remedy::Convert("cryptsetup open --readonly FILE NAME"),
    ),
    Mark::new(4086, b"SWAPSPACE2", "swap space", Remedy::Nothing),
    Mark::new(4086, b"SWAP-SPACE", "swap space", Remedy::Nothing),
    Mark::new(
        4096,
        b"\xfc\x4e\x2b\xa9",
        "a member of a Linux software RAID",
        Remedy::Convert("mdadm --assemble --readonly /dev/md0 FILE ..."),
    ),
    Mark::new(512, b"LABELONE", "an LVM physical volume", Remedy::Convert("vgchange -ay")),
    Mark::new(512, b"EFI PART", "a disk with a GPT partition table", Remedy::Partition),
    Mark::new(1024, b"\x10\x20\xf5\xf2", "an F2FS file system", Remedy::Tools("fsck.f2fs --dry-run FILE")),
    Mark::new(1024, b"\xe2\xe1\xf5\xe0", "an EROFS file system", Remedy::Tools("fsck.erofs FILE")),
    Mark::new(0, b"hsqs", "a SquashFS image", Remedy::Nothing),
    Mark::new(3, b"NTFS    ", "an NTFS file system", Remedy::Tools("ntfsfix --no-action FILE")),
    Mark::new(3, b"EXFAT   ", "an exFAT file system", Remedy::Tools("fsck.exfat -n FILE")),
    Mark::new(82, b"FAT32   ", "a FAT file system", Remedy::Tools("fsck.fat -n FILE")),
    Mark::new(54, b"FAT1", "a FAT file system", Remedy::Tools("fsck.fat -n FILE")),
    Mark::new(0x8001, b"CD001", "an ISO 9660 file system", Remedy::Nothing),
    Mark::new(0x8000, b"JFS1", "a JFS file system", Remedy::Tools("fsck.jfs -n FILE")),
    Mark::new(0x1_0034, b"ReIsEr", "a ReiserFS file system", Remedy::Tools("reiserfsck --check FILE")),
    Mark::new(
        0,
        b"QFI\xfb\x00\x00\x00\x01",
        "a QCOW image of version 1",
        Remedy::Convert("qemu-img convert -f qcow -O raw FILE FILE.raw"),
    ),
    Mark::new(0, b"QED\0", "a QED image", Remedy::Convert("qemu-img convert -f qed -O raw FILE FILE.raw")),
    Mark::new(
        0,
        b"WithoutFreeSpace",
        "a Parallels image",
        Remedy::Convert("qemu-img convert -f parallels -O raw FILE FILE.raw"),
    ),
    Mark::new(
        0,
        b"partclone-image",
        "a Partclone image",
        Remedy::Convert("partclone.restore --restore_raw_file -C -s FILE -O FILE.raw"),
    ),
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
    Mark::new(0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", Remedy::Convert("7z x FILE")),
    Mark::new(0, b"PK\x03\x04", "a ZIP archive", Remedy::Convert("unzip FILE")),
    Mark::new(257, b"ustar", "a tar archive", Remedy::Convert("tar -xf FILE")),
    Mark::new(0, b"\x89PNG\r\n\x1a\n", "a PNG picture", Remedy::NoFileSystem),
    Mark::new(0, b"%PDF-", "a PDF document", Remedy::NoFileSystem),
    Mark::new(0, b"\x7fELF", "an ELF program", Remedy::NoFileSystem),
    Mark::new(0, b"FSMNDPLN", "a plan of fsmend", Remedy::NoFileSystem),
    Mark::new(0, b"FSMNDLOG", "an undo file of fsmend", Remedy::NoFileSystem),
];

/// The mark of another format that `device` bears, if it is one that is known. A read error counts as no mark.
pub fn foreign_mark(device: &dyn Device) -> Option<&'static Mark> {
    MARKS.iter().find(|mark| has_bytes(device, mark.at, mark.magic))
}

/// Tells by marks what `device` holds. A read error counts as no mark.
pub fn recognise(device: &dyn Device, families: &dyn Recognise) -> Content {
    let known = families.trace(device);
    match known {
        Some((trace, title)) if trace > Trace::Copy => Content::Known(title),
        // A copy may be left from an earlier life of the device.
        _ => match (foreign_mark(device), known) {
            (Some(mark), _) => Content::Other(mark.name),
            (None, Some((_, title))) => Content::Known(title),
            (None, None) => Content::Unknown,
        },
    }
}

fn has_bytes(device: &dyn Device, at: u64, expected: &[u8]) -> bool {
    let mut bytes = [0; MAGIC_BYTES_MAX];
    bytes
        .get_mut(..expected.len())
        .is_some_and(|bytes| device.read_at(at, bytes).is_ok() && bytes == expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;
    use crate::testing::{KNOWN_AT, KNOWN_COPY_AT, KNOWN_MAGIC, KNOWN_TITLE, OneFamily};

    fn with_mark(at: u64, mark: &[u8]) -> MemoryDevice {
        let mut bytes = vec![0; 128 << 10];
        bytes[at as usize..at as usize + mark.len()].copy_from_slice(mark);
        MemoryDevice::new("m", bytes)
    }

    #[test]
    fn each_mark_is_recognised() {
        for mark in MARKS {
            assert_eq!(recognise(&with_mark(mark.at, mark.magic), &OneFamily), Content::Other(mark.name));
        }
        assert_eq!(recognise(&with_mark(KNOWN_AT, &KNOWN_MAGIC), &OneFamily), Content::Known(KNOWN_TITLE));
        assert_eq!(recognise(&with_mark(KNOWN_AT, &KNOWN_MAGIC), &Whatever), Content::Unknown);
        assert_eq!(recognise(&with_mark(0, &[]), &OneFamily), Content::Unknown);
        assert_eq!(recognise(&MemoryDevice::new("m", vec![]), &OneFamily), Content::Unknown);
    }

    #[test]
    fn a_copy_is_enough_unless_something_else_took_the_place() {
        let copy = with_mark(KNOWN_COPY_AT, &KNOWN_MAGIC);
        assert_eq!(recognise(&copy, &OneFamily), Content::Known(KNOWN_TITLE));
        let mut bytes = vec![0; 128 << 10];
        bytes[..4].copy_from_slice(b"XFSB");
        bytes[KNOWN_COPY_AT as usize..][..2].copy_from_slice(&KNOWN_MAGIC);
        let taken = MemoryDevice::new("m", bytes);
        assert_eq!(recognise(&taken, &OneFamily), Content::Other("an XFS file system"));
    }
}
