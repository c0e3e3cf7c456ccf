// SPDX-License-Identifier: MIT OR Apache-2.0
//! A journal on a device of its own: an ext superblock that says so, then the journal.

use fsmend_device::Device;
use fsmend_engine::Findings;
use fsmend_engine::problem::{Problem, Value};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::superblock::{
    EXT_MAGIC, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, written_uuid,
};
use zerocopy::FromBytes;

use super::log::Log;
use super::problems::EXTERNAL_CHECKSUM;
use crate::{Fs, Refusal};

/// Opens the journal of `fs` on `device`.
pub(crate) fn open<'d>(
    fs: &Fs<'_>,
    device: Option<&'d dyn Device>,
    findings: &mut Findings,
) -> Result<Log<'d>, Refusal> {
    let uuid = written_uuid(&fs.superblock.s_journal_uuid);
    let Some(device) = device else {
        return Err(Refusal {
            code: "external-journal-missing",
            message: format!("the file system has its journal on another device, the one with UUID {uuid}"),
            hint: "Attach that device, pass it or an image of it with -j, or check with --no-replay"
                .to_owned(),
        });
    };
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    if let Err(error) = device.read_at(SUPERBLOCK_OFFSET, &mut bytes) {
        return Err(refusal(
            device,
            "external-journal-unreadable",
            &error.to_string(),
            "Try the device again, or a copy of it",
        ));
    }
    let raw = RawSuperblock::read_from_bytes(&bytes)
        .ok()
        .filter(|raw| raw.s_magic.get() == EXT_MAGIC && raw.features().has_incompat(Incompat::JOURNAL_DEV));
    let Some(raw) = raw else {
        let why = "it is not a journal device: its superblock is missing or of another type";
        return Err(refusal(device, "external-journal-invalid", why, "Select the right device with -j"));
    };
    if raw.s_uuid != fs.superblock.s_journal_uuid {
        let why =
            format!("its UUID is {}, but the file system's journal has {uuid}", written_uuid(&raw.s_uuid));
        return Err(refusal(device, "external-journal-uuid", &why, "Select the right device with -j"));
    }
    let checked = checksum::superblock(&raw);
    if raw.features().metadata_csum() && !checked.is_right() {
        let problem = Problem::new(&EXTERNAL_CHECKSUM).stored(Value::Hex(u64::from(checked.stored)));
        findings.raise(problem.observed(Value::Hex(u64::from(checked.computed))));
    }
    // The journal follows the ext superblock: in block 2 with 1 KiB blocks, else in block 1.
    let head = if fs.geometry.block_size == 1024 { 2 } else { 1 };
    Ok(Log::external(device, fs.geometry.block_size, head, raw.blocks_count()))
}

fn refusal(device: &dyn Device, code: &'static str, why: &str, hint: &str) -> Refusal {
    Refusal {
        code,
        message: format!("{} cannot serve as the journal: {why}", device.name()),
        hint: hint.to_owned(),
    }
}

/// The journal has features that are not known here.
pub(crate) fn unknown_features(incompat: u32, ro_compat: u32) -> Refusal {
    Refusal {
        code: "journal-unknown-feature",
        message: format!(
            "the journal has unknown features (incompatible {incompat:#x}, read-only compatible {ro_compat:#x})"
        ),
        hint: "Check with --no-replay, or with a newer version of this program".to_owned(),
    }
}

/// The journal's superblock is of an unknown kind.
pub(crate) fn unknown_kind(kind: u32) -> Refusal {
    Refusal {
        code: "journal-unknown-version",
        message: format!("the journal superblock has unknown type {kind}"),
        hint: "Check with --no-replay, or with a newer version of this program".to_owned(),
    }
}

/// The journal serves several file systems.
pub(crate) fn shared(users: u32) -> Refusal {
    Refusal {
        code: "journal-shared",
        message: format!("the journal serves {users} file systems, which is not supported"),
        hint: "Check with --no-replay".to_owned(),
    }
}
