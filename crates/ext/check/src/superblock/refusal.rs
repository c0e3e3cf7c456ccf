// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a device cannot be checked at all, in words.

use fsmend_device::{Device, Mark, Remedy};
use fsmend_ext_format::features::{Features, Incompat};

use crate::Refusal;

/// Names of incompatible features that we do not check.
const INCOMPAT_NAMES: &[(Incompat, &str)] =
    &[(Incompat::COMPRESSION, "compression"), (Incompat::DIRDATA, "data in directory entries (dirdata)")];

/// The bits of `features` in plain words, `incompatible 0x20000000, read-only compatible 0x800`; empty when none is set.
pub(super) fn feature_bits(features: Features) -> String {
    let names = ["compatible", "incompatible", "read-only compatible"];
    let mut parts = Vec::new();
    for (word, bits) in names.into_iter().zip(features.words()) {
        for bit in (0..32).map(|shift| 1 << shift).filter(|bit| bits & bit != 0) {
            let known =
                INCOMPAT_NAMES.iter().find(|(value, _)| word == "incompatible" && value.bits() == bit);
            match known {
                Some((_, name)) => parts.push((*name).to_owned()),
                None => parts.push(format!("{word} {bit:#x}")),
            }
        }
    }
    parts.join(", ")
}

pub(super) fn unknown_feature(device: &dyn Device, features: Features) -> Refusal {
    let unknown = Features { incompat: features.incompat & !Incompat::SUPPORTED, ..Features::default() };
    Refusal {
        code: "unknown-feature",
        message: format!(
            "{} uses features that this program does not know: {}",
            device.name(),
            feature_bits(unknown)
        ),
        hint: "Use a newer version, or the tool that made the file system".to_owned(),
    }
}

/// Why a file system with `features` is not written, if it has some that do not keep it from being looked at, but are not known: what is correct by
/// them may look wrong here.
pub(crate) fn unknown_to_repairs(features: Features) -> Option<Refusal> {
    let bits = feature_bits(features.unknown_but_readable());
    (!bits.is_empty()).then(|| Refusal {
        code: "unknown-feature",
        message: format!("The file system is damaged, and has features that this program does not know: {bits}. A check without them may give false positives, so nothing is written"),
        hint: "Use a newer version. If these bits are damage, select a superblock without them (-b)".to_owned(),
    })
}

pub(super) fn journal_device(device: &dyn Device) -> Refusal {
    Refusal {
        code: "journal-device",
        message: format!("{} is an external journal, not a file system", device.name()),
        hint: "Check the file system that it belongs to, with -j and this device".to_owned(),
    }
}

pub(super) fn too_short(device: &dyn Device) -> Refusal {
    Refusal {
        code: "not-ext",
        message: format!("{} has only {} bytes, too small for a file system", device.name(), device.len()),
        hint: "Check that it is the right file and a complete copy".to_owned(),
    }
}

pub(super) fn unreadable(device: &dyn Device) -> Refusal {
    Refusal {
        code: "superblock-unreadable",
        message: format!("{}: the superblock cannot be read, and no backup of it was found", device.name()),
        hint: "Copy the device to an image with a rescue tool and check the image".to_owned(),
    }
}

pub(super) fn foreign(device: &dyn Device, mark: &Mark) -> Refusal {
    let name = device.name();
    let relation =
        if matches!(mark.remedy, Remedy::NoFileSystem | Remedy::Convert(_)) { "is" } else { "holds" };
    Refusal {
        code: "not-ext",
        message: format!("{name} {relation} {}, which fsmend does not check", mark.name),
        hint: match mark.remedy {
            Remedy::Partition => "Select a partition with --partition".to_owned(),
            Remedy::Convert(command) => {
                format!("Check the file system in it: \"{}\"", command.replace("FILE", name))
            }
            Remedy::NoFileSystem => "Check that it is the right file".to_owned(),
            Remedy::Tools(command) => format!(
                "Check it with its own tool: \"{}\"; if it was an ext file system before, give a backup superblock with -b",
                command.replace("FILE", name)
            ),
            Remedy::Nothing => {
                "Check that it is the right device; if it was an ext file system before, give a backup superblock with -b"
                    .to_owned()
            }
        },
    }
}

/// Whether the first sector ends with the signature of a boot sector or partition table.
fn has_boot_signature(device: &dyn Device) -> bool {
    let mut bytes = [0; 2];
    device.read_at(510, &mut bytes).is_ok() && bytes == [0x55, 0xAA]
}

pub(super) fn no_magic(device: &dyn Device) -> Refusal {
    let boot = has_boot_signature(device);
    let hint = if boot { " (it starts like a boot sector or a disk with a partition table)" } else { "" };
    Refusal {
        code: "not-ext",
        message: format!(
            "{} holds no file system that was recognised: no superblock was found, nor a backup of one{hint}",
            device.name()
        ),
        hint: "Check that it is the right device or partition; a backup in an unusual location can be given with -b".to_owned(),
    }
}

pub(super) fn bad_superblock(device: &dyn Device, why: &str) -> Refusal {
    Refusal {
        code: "superblock-unusable",
        message: format!(
            "{}: the superblock cannot be used ({why}), and no usable backup of it was found",
            device.name()
        ),
        hint: "If you know the location of a backup, pass it with -b BLOCK (mke2fs -n shows the usual locations)"
            .to_owned(),
    }
}

pub(super) fn bad_choice(device: &dyn Device, block: u64, why: &str) -> Refusal {
    Refusal {
        code: "superblock-unusable",
        message: format!("{}: no usable superblock in block {block} ({why})", device.name()),
        hint: "Give another block, or omit -b to search all usual locations".to_owned(),
    }
}
