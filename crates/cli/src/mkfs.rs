// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend mkfs`: a new file system where there was none, or where its owner says that what was there may go.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use fsmend_device::{Content, OpenOptions, Whatever, WritableDevice, WriteOptions, open_writable, recognise};
use fsmend_ext_driver::mkfs::{Kind, Options, mkfs};
use fsmend_ext_format::features::Compat;
use fsmend_ext_format::geometry::Geometry;
use fsmend_ext_format::superblock::written_uuid;
use fsmend_vfs::Time;

use crate::{exit, identity, machine, numbers, target};

mod hybridfs;
mod ufs;

/// Within so many bytes lie the marks by which formats and partition tables are known.
const MARKS_LEN: u64 = 132 << 10;

/// `fsmend mkfs`.
#[derive(Args, Debug)]
pub struct MkfsArgs {
    /// Image file or block device. A missing file is created with SIZE bytes
    pub target: PathBuf,

    /// Size of the file system, e.g. 512M [default: the whole target]
    #[arg(value_name = "SIZE", value_parser = crate::numbers::parse_size)]
    pub size: Option<u64>,

    /// File system type
    #[arg(short = 't', long = "type", value_enum, default_value_t = Type::Ext4)]
    pub kind: Type,

    /// Extended options, separated by commas: block-size=4096, inode-size=256, inodes=N, inode-ratio=BYTES, blocks-per-group=N, journal-blocks=N,
    /// reserved-percent=5, resize-inode=1, orphan-file=1, checksum-seed=1 (or 0), and for rext3 indirect-region=BLOCKS; for UFS block-size=32768, fragment-size=4096,
    /// inode-ratio=BYTES, byte-order=little (or big), check-hashes=1 (or 0), access-lists=1 (or 0); for hybridfs block-size=16384, fragment-size=4096, log-size=BYTES, log-device=PATH, segment-size=BYTES,
    /// group-size=BYTES, inodes=N, preset=paper
    #[arg(short = 'E', value_name = "OPTIONS")]
    pub extended: Vec<String>,

    /// UFS: fragments of the metadata area of each cylinder group, 0 for none [default: half of the reserved space]
    #[arg(short = 'k', long, value_name = "FRAGMENTS")]
    pub metadata_area: Option<u64>,

    /// Volume label, up to 16 bytes (UFS: 31, hybridfs: 32)
    #[arg(short = 'L', long, value_name = "NAME", default_value = "")]
    pub label: String,

    /// Overwrite an existing file system or partition table
    #[arg(long)]
    pub force: bool,
}

/// Types of file systems.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// Without a journal
    Ext2,
    /// With a journal
    Ext3,
    /// Ext3 with a layout for fast checks. Only fsmend can mount it, no kernel can
    Rext3,
    /// With a journal, extents and checksums
    Ext4,
    /// FreeBSD's older format, with 32-bit addresses
    Ufs1,
    /// FreeBSD's format, with check hashes
    Ufs2,
    /// Small files and metadata in a log, larger files in place. Only fsmend can mount it, no kernel can
    Hybridfs,
}

impl Type {
    /// What the driver of ext makes; `None` for other families.
    fn kind(self) -> Option<Kind> {
        match self {
            Type::Ext2 => Some(Kind::Ext2),
            Type::Ext3 => Some(Kind::Ext3),
            Type::Rext3 => Some(Kind::Rext3),
            Type::Ext4 => Some(Kind::Ext4),
            Type::Ufs1 | Type::Ufs2 | Type::Hybridfs => None,
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Type::Ext2 => "ext2",
            Type::Ext3 => "ext3",
            Type::Rext3 => "rext3",
            Type::Ext4 => "ext4",
            Type::Ufs1 => "ufs1",
            Type::Ufs2 => "ufs2",
            Type::Hybridfs => "hybridfs",
        }
    }
}

/// Why there is no file system now.
enum Refusal {
    Usage(String),
    Other(String),
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Refusal::Other(why)
    }
}

/// Runs the command and returns the exit code.
pub fn run(arguments: &MkfsArgs) -> u8 {
    match make(arguments) {
        Ok(summary) => {
            println!("{summary}");
            exit::CLEAN
        }
        Err(Refusal::Usage(why)) => {
            eprintln!("fsmend: {why}.");
            exit::USAGE
        }
        Err(Refusal::Other(why)) => {
            eprintln!("fsmend: {}: {why}.", arguments.target.display());
            exit::OPERATIONAL
        }
    }
}

fn make(arguments: &MkfsArgs) -> Result<String, Refusal> {
    let random = random().map_err(|error| format!("cannot read random numbers for a UUID ({error})"))?;
    let writer = writer(arguments, &Luck { random, now: machine::time() }).map_err(Refusal::Usage)?;
    let is_new = make_file(arguments)?;
    let made = make_on(arguments, is_new, &*writer);
    if made.is_err() && is_new {
        // It was not there before. What remains of it if this fails is an empty image.
        let _ = std::fs::remove_file(&arguments.target);
    }
    made
}

/// What the identity of a new file system comes from, and its times.
pub struct Luck {
    random: [u8; 32],
    now: Time,
}

impl Luck {
    /// What follows from a seed: always the same.
    pub fn seeded(seed: u64) -> Luck {
        let mut drawn = fsmend_base::SeededRandom::new(seed);
        let mut random = [0; 32];
        random.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&drawn.next_u64().to_le_bytes()));
        Luck { random, now: Time::at(1_000_000_000) }
    }
}

/// Writes a file system on a device that may be blank, and says what was made.
pub type Writer<'a> = dyn Fn(Arc<dyn WritableDevice>, bool) -> Result<String, String> + 'a;

/// What makes the file system that is asked for.
pub fn writer<'a>(arguments: &'a MkfsArgs, luck: &Luck) -> Result<Box<Writer<'a>>, String> {
    match arguments.kind.kind() {
        Some(kind) => ext_writer(arguments, kind, luck),
        None if arguments.kind == Type::Hybridfs => hybridfs::writer(arguments, luck),
        None => ufs::writer(arguments, luck),
    }
}

fn ext_writer<'a>(
    arguments: &'a MkfsArgs,
    kind: Kind,
    Luck { random, now }: &Luck,
) -> Result<Box<Writer<'a>>, String> {
    if arguments.metadata_area.is_some() {
        return Err("-k is for UFS; a rext3 takes -E indirect-region=BLOCKS".into());
    }
    let mut options = Options::new(kind, uuid(random), *now);
    options.hash_seed =
        [16, 20, 24, 28].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|byte| random[at + byte])));
    options.label = arguments.label.clone().into_bytes();
    for list in &arguments.extended {
        take(&mut options, list)?;
    }
    Ok(Box::new(move |device: Arc<dyn WritableDevice>, blank| {
        let options = Options { blank, ..options.clone() };
        mkfs(Arc::clone(&device), &options).map_err(|error| error.to_string())?;
        summary(arguments, &*device)
    }))
}

fn make_on(arguments: &MkfsArgs, is_new: bool, writer: &Writer<'_>) -> Result<String, Refusal> {
    let whole = OpenOptions { offset: Some(0), partition: None };
    let opened = open_writable(&arguments.target, &whole, WriteOptions::without_image_formats(), &Whatever)
        .map_err(|error| target::refusal(&error).to_string())?;
    let only = opened.targets.into_iter().next().ok_or_else(|| "nothing was found in it".to_owned())?;
    let device = only.device;
    if let Some(what) = there(&device)
        && !arguments.force
    {
        return Err(Refusal::Other(format!("it holds {what}, which would be lost; --force overwrites it")));
    }
    let len = device.len();
    let size = arguments.size.unwrap_or(len);
    if size > len {
        return Err(Refusal::Other(format!("it has only {}", numbers::bytes(len))));
    }
    if !is_new {
        forget_marks(&*device, len).map_err(|error| error.to_string())?;
    }
    let window = fsmend_device::Slice::new(only.label, Arc::clone(&device), 0, size);
    writer(Arc::new(window), is_new).map_err(Refusal::Other)
}

/// Makes the file if it is not there; whether it was made.
fn make_file(arguments: &MkfsArgs) -> Result<bool, Refusal> {
    if std::fs::symlink_metadata(&arguments.target).is_ok() {
        return Ok(false);
    }
    let size = arguments
        .size
        .ok_or_else(|| "no such file; to create it, give its size (fsmend mkfs TARGET SIZE)".to_owned())?;
    let made = File::create_new(&arguments.target).and_then(|file| file.set_len(size));
    made.map(|()| true).map_err(|error| Refusal::Other(format!("it cannot be made: {error}")))
}

/// Makes a file that is not there yet, and a file system in it.
pub fn make_blank(path: &Path, size: u64, writer: &Writer<'_>) -> Result<(), String> {
    let made = File::create_new(path).and_then(|file| file.set_len(size));
    made.map_err(|error| format!("it cannot be made: {error}"))?;
    let device = fsmend_device::WritableFile::open(path, false).map_err(|error| error.to_string());
    let done = device.and_then(|device| writer(Arc::new(device), true)).map(drop);
    if done.is_err() {
        // It was not there before.
        let _ = std::fs::remove_file(path);
    }
    done
}

/// What is on the device that its owner may want to keep, in words.
fn there(device: &Arc<dyn WritableDevice>) -> Option<String> {
    match recognise(&**device, &target::FAMILIES) {
        Content::Known(title) => {
            let label = identity::superblock(&**device)
                .map(|raw| identity::label(&raw))
                .filter(|label| !label.is_empty());
            let label = label.map(|label| format!(" with the label \"{label}\"")).unwrap_or_default();
            return Some(format!("{title}{label}"));
        }
        Content::Other(what) => return Some(what.to_owned()),
        Content::Unknown => {}
    }
    if let Some(family) = target::FAMILIES.recognise(&**device) {
        return Some(format!("a file system of the {} family", family.name()));
    }
    let partitions = fsmend_device::partitions(&**device, &target::FAMILIES);
    let count = partitions.len() as u64;
    (count > 0)
        .then(|| format!("a partition table with {}", numbers::counted(count, "partition", "partitions")))
}

/// Overwrites what other formats are known by.
fn forget_marks(device: &dyn WritableDevice, len: u64) -> Result<(), fsmend_device::WriteError> {
    let zeroes = vec![0; MARKS_LEN.min(len) as usize];
    device.write_at(0, &zeroes)?;
    device.sync()
}

/// What was made.
fn summary(arguments: &MkfsArgs, device: &dyn fsmend_device::Device) -> Result<String, String> {
    let raw = identity::superblock(device).ok_or("it cannot be read again")?;
    let geometry = Geometry::from_superblock(&raw, device.len()).map_err(|error| error.to_string())?;
    let journal =
        if raw.features().has_compat(Compat::HAS_JOURNAL) { "with a journal" } else { "without a journal" };
    let size = u64::from(geometry.block_size);
    let regions = match geometry.region_blocks {
        0 => String::new(),
        count => format!(
            " with an indirect region of {} each",
            numbers::counted(u64::from(count), "block", "blocks")
        ),
    };
    Ok(format!(
        "{}: {}, {journal}.\n{} blocks of {} ({}), {} inodes of {} bytes, {} groups{regions}.\nUUID {}{}",
        arguments.target.display(),
        arguments.kind.name(),
        numbers::thousands(geometry.blocks_count),
        numbers::bytes(size),
        numbers::bytes(geometry.blocks_count.saturating_mul(size)),
        numbers::thousands(u64::from(geometry.inodes_count)),
        geometry.inode_size,
        numbers::thousands(u64::from(geometry.group_count)),
        written_uuid(&raw.s_uuid),
        Some(identity::label(&raw))
            .filter(|label| !label.is_empty())
            .map(|label| format!(", label \"{label}\""))
            .unwrap_or_default(),
    ))
}

/// 32 bytes that cannot be guessed.
fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    File::open(Path::new("/dev/urandom"))?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A UUID of version 4, which is random (RFC 9562).
fn uuid(random: &[u8; 32]) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&random[..16]);
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// Takes in what follows `-E`.
fn take(options: &mut Options, list: &str) -> Result<(), String> {
    list.split(',').filter(|word| !word.is_empty()).try_for_each(|word| {
        take_word(options, word).ok_or_else(|| {
            format!(
                "-E does not know \"{word}\"; there are block-size, inode-size, inodes, inode-ratio, blocks-per-group, journal-blocks, \
                 reserved-percent, resize-inode, orphan-file, checksum-seed and indirect-region, each with = and a number"
            )
        })
    })
}

fn take_word(options: &mut Options, word: &str) -> Option<()> {
    let (name, value) = word.split_once('=')?;
    let number = numbers::parse_size(value).ok()?;
    let small = u32::try_from(number).ok();
    match name {
        "block-size" => options.block_size = Some(small?),
        "inode-size" => options.inode_size = small?,
        "inodes" => options.inodes = Some(small?),
        "inode-ratio" => options.inode_ratio = Some(number),
        "blocks-per-group" => options.blocks_per_group = Some(small?),
        "journal-blocks" => options.journal_blocks = Some(small?),
        "indirect-region" => options.indirect_region = Some(small?),
        "resize-inode" => options.resize_inode = is_on(number)?,
        "orphan-file" => options.orphan_file = is_on(number)?,
        "checksum-seed" => options.checksum_seed = is_on(number)?,
        "reserved-percent" => options.reserved_percent = small.filter(|percent| *percent <= 50)?,
        _ => return None,
    }
    Some(())
}

fn is_on(number: u64) -> Option<bool> {
    (number <= 1).then_some(number == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsmend_vfs::Time;

    #[test]
    fn extended_options_are_understood() {
        let mut options = Options::new(Kind::Ext3, [0; 16], Time::at(0));
        take(&mut options, "block-size=4K,inodes=5000,,journal-blocks=1024").expect("all are known");
        take(&mut options, "reserved-percent=0,inode-size=128,indirect-region=300").expect("all are known");
        assert_eq!((options.block_size, options.inodes), (Some(4096), Some(5000)));
        assert_eq!((options.journal_blocks, options.reserved_percent), (Some(1024), 0));
        assert_eq!((options.inode_size, options.indirect_region), (128, Some(300)));
        take(&mut options, "resize-inode=1,orphan-file=0").expect("all are known");
        assert_eq!((options.resize_inode, options.orphan_file, options.checksum_seed), (true, false, false));
        for wrong in [
            "stride=4",
            "orphan-file=2",
            "inodes",
            "inodes=many",
            "reserved-percent=51",
            "inodes=99999999999",
        ] {
            let error = take(&mut options, wrong).expect_err("it is not known");
            assert!(error.contains(&format!("\"{wrong}\"")), "{error}");
        }
    }

    #[test]
    fn uuids_are_of_version_4() {
        assert_eq!(written_uuid(&uuid(&[0xff; 32])), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(written_uuid(&uuid(&[0; 32])), "00000000-0000-4000-8000-000000000000");
    }
}
