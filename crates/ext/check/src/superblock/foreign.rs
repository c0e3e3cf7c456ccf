//! What else a device may hold: enough to say "this is XFS" instead of "the superblock is bad", and to keep old
//! ext backups on a device that was formatted anew from being taken for the file system.

use fsmend_device::Device;

/// A name and a magic string at an offset.
struct Sign {
    name: &'static str,
    offset: u64,
    magic: &'static [u8],
}

const SIGNS: &[Sign] = &[
    Sign { name: "an XFS file system", offset: 0, magic: b"XFSB" },
    Sign { name: "a LUKS encrypted volume", offset: 0, magic: b"LUKS\xBA\xBE" },
    Sign { name: "a qcow2 image", offset: 0, magic: b"QFI\xFB" },
    Sign { name: "a SquashFS image", offset: 0, magic: b"hsqs" },
    Sign { name: "an NTFS file system", offset: 3, magic: b"NTFS    " },
    Sign { name: "an exFAT file system", offset: 3, magic: b"EXFAT   " },
    Sign { name: "a FAT file system", offset: 54, magic: b"FAT1" },
    Sign { name: "a FAT file system", offset: 82, magic: b"FAT32   " },
    Sign { name: "a disk with a GPT partition table", offset: 512, magic: b"EFI PART" },
    Sign { name: "an LVM physical volume", offset: 512, magic: b"LABELONE" },
    Sign { name: "an F2FS file system", offset: 1024, magic: b"\x10\x20\xF5\xF2" },
    Sign { name: "an EROFS file system", offset: 1024, magic: b"\xE2\xE1\xF5\xE0" },
    Sign { name: "swap space", offset: 4086, magic: b"SWAPSPACE2" },
    Sign { name: "swap space", offset: 4086, magic: b"SWAP-SPACE" },
    Sign { name: "a member of a Linux software RAID", offset: 4096, magic: b"\xFC\x4E\x2B\xA9" },
    Sign { name: "a UFS1 file system", offset: 8192 + 1372, magic: b"\x54\x19\x01\x00" },
    Sign { name: "a UFS2 file system", offset: 65536 + 1372, magic: b"\x19\x01\x54\x19" },
    Sign { name: "an ISO 9660 file system", offset: 32769, magic: b"CD001" },
    Sign { name: "a JFS file system", offset: 32768, magic: b"JFS1" },
    Sign { name: "a ReiserFS file system", offset: 65536 + 52, magic: b"ReIsEr" },
    Sign { name: "a Btrfs file system", offset: 65536 + 64, magic: b"_BHRfS_M" },
];

/// What the device seems to hold, if it is something well known that is not ext.
pub(super) fn identify(device: &dyn Device) -> Option<&'static str> {
    SIGNS.iter().find(|sign| starts_with(device, sign.offset, sign.magic)).map(|sign| sign.name)
}

/// Whether the first sector ends with the signature of a boot sector or partition table.
pub(super) fn has_boot_signature(device: &dyn Device) -> bool {
    starts_with(device, 510, &[0x55, 0xAA])
}

fn starts_with(device: &dyn Device, offset: u64, magic: &[u8]) -> bool {
    let mut bytes = vec![0; magic.len()];
    device.read_at(offset, &mut bytes).is_ok() && bytes == magic
}
