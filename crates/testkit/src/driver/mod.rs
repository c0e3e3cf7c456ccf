// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounted file systems against what stands for them: a model in memory, the kernel, e2fsck and our own check.

pub mod crash;
pub mod history;
pub mod model;
pub mod mounting;
pub mod snapshot;
pub mod workload;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsmend_device::{Device, MemoryDevice, WritableDevice, WritableMemory};
use fsmend_engine::{Progress, Severity};
use fsmend_ext_check::run::{CheckOptions, check};
use fsmend_ext_driver::mkfs::{self, Kind, mkfs};
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_ext_format::checksum;
use fsmend_ext_format::features::Incompat;
use fsmend_ext_format::superblock::{RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use fsmend_vfs::{FileSystem, Time};
use zerocopy::FromBytes;

use self::workload::Workload;
use crate::host;
use crate::repair::{E2fsck, Scratch};
use crate::within::{Manner, options};

/// The time at which tests begin.
pub const NOW: i64 = 1_700_000_000;

/// A file system to be made.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    /// What it is called in messages.
    pub name: &'static str,
    /// Which member of the family.
    pub kind: Kind,
    /// Bytes in a block.
    pub block_size: u32,
    /// Bytes in an inode.
    pub inode_size: u32,
    /// Bytes of the image.
    pub bytes: u64,
    /// Blocks in a group, if they are to be few.
    pub blocks_per_group: Option<u32>,
    /// Blocks of each indirect region of a rext3, if they are not to be as many as usual.
    pub indirect_region: Option<u32>,
    /// What mke2fs is asked for, where it and not our mkfs makes it.
    pub mke2fs: Option<&'static str>,
}

/// Every type, with small and large blocks; small groups, so that there are many.
pub const BASES: &[Base] = &[
    base("ext2-1k", Kind::Ext2, 1024, 128, 24 << 20, None),
    base("ext2-4k", Kind::Ext2, 4096, 256, 64 << 20, Some(2048)),
    base("ext3-1k", Kind::Ext3, 1024, 256, 24 << 20, None),
    base("ext3-4k", Kind::Ext3, 4096, 128, 64 << 20, Some(2048)),
    base("ext4-1k", Kind::Ext4, 1024, 256, 24 << 20, Some(2048)),
    base("ext4-4k", Kind::Ext4, 4096, 256, 64 << 20, Some(2048)),
    base("rext3-1k", Kind::Rext3, 1024, 256, 24 << 20, Some(2048)),
    base("rext3-4k", Kind::Rext3, 4096, 128, 64 << 20, Some(2048)),
];

/// What our mkfs does not make, and others do: quotas of all kinds, contents in inodes, clusters; and all of them together.
pub const FOREIGN: &[Base] = &[
    foreign("quota-4k", 4096, 64 << 20, "-b 4096 -O quota"),
    foreign("quota-project-1k", 1024, 24 << 20, "-b 1024 -O quota,project"),
    Base {
        kind: Kind::Ext3,
        ..foreign(
            "quota-without-extents",
            1024,
            24 << 20,
            "-b 1024 -O ^extent,^64bit,^flex_bg,^metadata_csum_seed,^metadata_csum,quota",
        )
    },
    foreign("inline-4k", 4096, 64 << 20, "-b 4096 -O inline_data"),
    foreign("inline-1k", 1024, 24 << 20, "-b 1024 -I 1024 -O inline_data,^dir_index"),
    foreign("bigalloc-16k", 4096, 96 << 20, "-b 4096 -O bigalloc -C 16384"),
    foreign("bigalloc-1k", 1024, 48 << 20, "-b 1024 -O bigalloc -C 8192 -g 8192"),
    foreign("all-of-it", 1024, 48 << 20, "-b 1024 -I 512 -O bigalloc,inline_data,quota,project -C 4096"),
];

const fn base(
    name: &'static str,
    kind: Kind,
    block_size: u32,
    inode_size: u32,
    bytes: u64,
    blocks_per_group: Option<u32>,
) -> Base {
    Base { name, kind, block_size, inode_size, bytes, blocks_per_group, indirect_region: None, mke2fs: None }
}

const fn foreign(name: &'static str, block_size: u32, bytes: u64, mke2fs: &'static str) -> Base {
    Base { mke2fs: Some(mke2fs), ..base(name, Kind::Ext4, block_size, 256, bytes, None) }
}

impl Base {
    /// What mkfs is asked for.
    pub fn options(&self) -> mkfs::Options {
        mkfs::Options {
            block_size: Some(self.block_size),
            inode_size: self.inode_size,
            blocks_per_group: self.blocks_per_group,
            indirect_region: self.indirect_region,
            label: b"made by a test".to_vec(),
            ..mkfs::Options::new(self.kind, *b"0123456789abcdef", Time::at(NOW))
        }
    }

    /// Makes it in memory.
    pub fn make(&self) -> Result<Arc<WritableMemory>, String> {
        if let Some(mke2fs) = self.mke2fs {
            return Ok(Arc::new(WritableMemory::new(self.name, made_by_mke2fs(mke2fs, self.bytes)?)));
        }
        // What stood on the device before must not matter.
        let device = Arc::new(WritableMemory::new(self.name, vec![0xA5; self.bytes as usize]));
        mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, &self.options()).map_err(|e| e.to_string())?;
        Ok(device)
    }
}

/// What mke2fs makes of an image of so many bytes; always the same.
pub fn made_by_mke2fs(arguments: &str, bytes: u64) -> Result<Vec<u8>, String> {
    let text = |error: io::Error| error.to_string();
    let file =
        Scratch::with(&vec![0; usize::try_from(bytes).map_err(|error| error.to_string())?]).map_err(text)?;
    const ID: &str = "01234567-89ab-4cde-8f01-23456789abcd";
    let extended = format!("lazy_itable_init=0,lazy_journal_init=0,nodiscard,hash_seed={ID}");
    let mut command = host::command("mke2fs");
    command.args(["-q", "-F", "-t", "ext4", "-U", ID, "-E", &extended]);
    command.args(arguments.split_whitespace()).arg(file.path());
    let output = command.env("E2FSPROGS_FAKE_TIME", NOW.to_string()).output().map_err(text)?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    std::fs::read(file.path()).map_err(text)
}

/// An image on which the work of `seed` was done, with `steps` operations, and left clean; and the time at the end.
pub fn worked(base: &Base, seed: u64, steps: u64) -> Result<(Vec<u8>, i64), String> {
    let device = base.make()?;
    let options = MountOptions::new(Time::at(NOW));
    let mut fs = Ext::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, options)
        .map_err(|error| error.to_string())?;
    let mut work = Workload::new(&mut fs, seed, base.kind == Kind::Ext4)?;
    (0..steps).try_for_each(|_| work.step())?;
    work.release_all()?;
    let end = work.clock;
    fs.unmount(Time::at(end)).map_err(|error| error.to_string())?;
    Ok((device.bytes(), end))
}

/// Whether an image is one of our own format, which no other tool knows.
pub fn is_rext3(image: &[u8]) -> bool {
    let word = image.get(1024 + 0x60..1024 + 0x64).and_then(|bytes| bytes.first_chunk());
    word.is_some_and(|word| Incompat::from_bits_retain(u32::from_le_bytes(*word)).contains(Incompat::REXT3))
}

/// What e2fsck and our own check have to say against an image; `None` if nothing. A rext3 is judged by our check alone, but e2fsck has
/// to refuse it.
pub fn complaint(image: &[u8], now: i64) -> io::Result<Option<String>> {
    let e2fsck = E2fsck { now: now.unsigned_abs() + 1 };
    match (e2fsck.complaint_about_bytes(image)?, is_rext3(image)) {
        (Some(said), true) if said.contains("Get a newer version") => {}
        (said, true) => return Ok(Some(format!("e2fsck does not refuse a rext3: {said:?}"))),
        (Some(said), false) => return Ok(Some(format!("e2fsck: {said}"))),
        (None, false) => {}
    }
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("image", image.to_vec()));
    let options = CheckOptions { now: now.unsigned_abs() + 1, ..options(Manner::default()) };
    let report = match check(&device, &options, &Progress::new(), &AtomicBool::new(false)) {
        Ok(report) => report,
        Err(refused) => return Ok(Some(format!("fsmend: {refused}"))),
    };
    let problems = report.findings.into_sorted();
    let said: Vec<String> =
        problems.iter().map(|problem| format!("{} {}", problem.row.code, problem.message())).collect();
    Ok((!said.is_empty()).then(|| format!("fsmend: {}", said.join("\n"))))
}

/// What `fsmend check` calls damage in an image as a crash has left it, its journal not replayed. A superblock that was cut in two while it was
/// written is more than a check can know about: `None`.
pub fn damage_after_crash(image: &[u8], now: i64) -> Option<String> {
    if is_superblock_torn(image) {
        return None;
    }
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("image", image.to_vec()));
    let options = CheckOptions { now: now.unsigned_abs() + 1, ..options(Manner::default()) };
    let report = match check(&device, &options, &Progress::new(), &AtomicBool::new(false)) {
        Ok(report) => report,
        Err(refused) => return Some(format!("fsmend: {refused}")),
    };
    let problems = report.findings.into_sorted();
    let damage = problems.iter().filter(|problem| problem.row.severity > Severity::Note);
    let said: Vec<String> =
        damage.map(|problem| format!("{} {}", problem.row.code, problem.message())).collect();
    (!said.is_empty()).then(|| said.join("\n"))
}

/// Whether the superblock has to have a checksum and has a wrong one: two halves of two superblocks.
pub fn is_superblock_torn(image: &[u8]) -> bool {
    let start = SUPERBLOCK_OFFSET as usize;
    let superblock = image.get(start..start + SUPERBLOCK_SIZE);
    let superblock = superblock.and_then(|bytes| RawSuperblock::read_from_bytes(bytes).ok());
    superblock.is_some_and(|raw| raw.features().metadata_csum() && !checksum::superblock(&raw).is_right())
}

/// Keeps an image that a test has failed with, if the environment says where to.
pub fn keep(name: &str, image: &[u8]) {
    if let Some(folder) = std::env::var_os("FSMEND_DRIVER_KEEP") {
        let _ = std::fs::write(Path::new(&folder).join(format!("{name}.img")), image);
    }
}
