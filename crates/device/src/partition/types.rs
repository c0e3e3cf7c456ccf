// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for the types that partition tables state.

/// Types of MBR partitions that people meet.
const MBR_TYPES: &[(u8, &str)] = &[
    (0x01, "FAT12"),
    (0x04, "FAT16"),
    (0x06, "FAT16"),
    (0x07, "NTFS or exFAT"),
    (0x0B, "FAT32"),
    (0x0C, "FAT32"),
    (0x0E, "FAT16"),
    (0x82, "Linux swap"),
    (0x83, "Linux"),
    (0x8E, "Linux LVM"),
    (0xA5, "FreeBSD"),
    (0xA6, "OpenBSD"),
    (0xA9, "NetBSD"),
    (0xEF, "EFI system"),
    (0xFD, "Linux RAID"),
];

/// Types of GPT partitions that people meet (UEFI specification; Discoverable Partitions Specification).
const GPT_TYPES: &[(&str, &str)] = &[
    ("C12A7328-F81F-11D2-BA4B-00A0C93EC93B", "EFI system"),
    ("21686148-6449-6E6F-744E-656564454649", "BIOS boot"),
    ("0FC63DAF-8483-4772-8E79-3D69D8477DE4", "Linux"),
    ("44479540-F297-41B2-9AF7-D131D5F0458A", "Linux root (x86)"),
    ("4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709", "Linux root (x86-64)"),
    ("69DAD710-2CE4-4E3C-B16C-21A1D49ABED3", "Linux root (ARM)"),
    ("B921B045-1DF0-41C3-AF44-4C6F280D3FAE", "Linux root (ARM64)"),
    ("933AC7E1-2EB4-4F13-B844-0E14E2AEF915", "Linux home"),
    ("3B8F8425-20E0-4F3B-907F-1A25A76F98E8", "Linux server data"),
    ("4D21B016-B534-45C2-A9FB-5C16E091FD2D", "Linux variable data"),
    ("BC13C2FF-59E6-4262-A352-B275FD6F7172", "Linux extended boot"),
    ("8DA63339-0007-60C0-C436-083AC8230908", "Linux reserved"),
    ("0657FD6D-A4AB-43C4-84E5-0933C84B4F4F", "Linux swap"),
    ("E6D6D379-F507-44C2-A23C-238F2A3DF928", "Linux LVM"),
    ("A19D880F-05FC-4D3B-A006-743F0F84911E", "Linux RAID"),
    ("CA7D7CCB-63ED-4C53-861C-1742536059CC", "LUKS"),
    ("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7", "Microsoft basic data"),
    ("E3C9E316-0B5C-4DB8-817D-F92DF00215AE", "Microsoft reserved"),
    ("DE94BBA4-06D1-4D40-A16A-BFD50179D6AC", "Windows recovery"),
    ("83BD6B9D-7F41-11DC-BE0B-001560B84F0F", "FreeBSD boot"),
    (FREEBSD_LABELLED, "FreeBSD with a disklabel"),
    ("516E7CB5-6ECF-11D6-8FF8-00022D09712B", "FreeBSD swap"),
    ("516E7CB6-6ECF-11D6-8FF8-00022D09712B", "FreeBSD UFS"),
    ("516E7CB8-6ECF-11D6-8FF8-00022D09712B", "FreeBSD Vinum"),
    ("516E7CBA-6ECF-11D6-8FF8-00022D09712B", "FreeBSD ZFS"),
    ("49F48D5A-B10E-11DC-B99B-0019D1879648", "NetBSD FFS"),
    ("824CC7A0-36A8-11E3-890A-952519AD3F61", "OpenBSD"),
];

/// A partition that FreeBSD divides by a disklabel.
const FREEBSD_LABELLED: &str = "516E7CB4-6ECF-11D6-8FF8-00022D09712B";

/// Types of the rows of disklabels that people meet.
const DISKLABEL_TYPES: &[(u8, &str)] = &[
    (1, "swap"),
    (7, "UFS"),
    (8, "MSDOS"),
    (9, "LFS"),
    (11, "HPFS"),
    (12, "ISO 9660"),
    (14, "Vinum"),
    (17, "ext2"),
    (18, "NTFS"),
    (27, "ZFS"),
];

/// What the type of a row of a disklabel means.
pub(super) fn disklabel_type_name(kind: u8) -> String {
    let known = DISKLABEL_TYPES.iter().find(|(number, _)| *number == kind);
    known.map_or_else(|| format!("type {kind}"), |(_, name)| (*name).to_owned())
}

/// Whether a GPT type says that the partition has a disklabel.
pub(super) fn is_labelled(guid: [u8; 16]) -> bool {
    guid_text(guid) == FREEBSD_LABELLED
}

/// What an MBR type byte means.
pub(super) fn mbr_type_name(kind: u8) -> String {
    let known = MBR_TYPES.iter().find(|(number, _)| *number == kind);
    known.map_or_else(|| format!("type {kind:#04x}"), |(_, name)| (*name).to_owned())
}

/// What a GPT type means; the GUID itself if we do not know.
pub(super) fn gpt_type_name(guid: [u8; 16]) -> String {
    let text = guid_text(guid);
    let known = GPT_TYPES.iter().find(|(guid, _)| *guid == text);
    known.map_or(text, |(_, name)| (*name).to_owned())
}

/// The usual way to write a GUID: its first three fields are little-endian on disk.
fn guid_text(guid: [u8; 16]) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = guid;
    let rest: String = rest.iter().map(|byte| format!("{byte:02X}")).collect();
    let (clock, node) = rest.split_at(4);
    format!("{d:02X}{c:02X}{b:02X}{a:02X}-{f:02X}{e:02X}-{h:02X}{g:02X}-{clock}-{node}")
}
