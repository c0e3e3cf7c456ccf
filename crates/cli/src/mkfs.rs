// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fsmend mkfs`: a new file system where there was none, or where its owner says that what was there may go.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fsmend_base::width;
use fsmend_device::{Content, OpenOptions, Whatever, WritableDevice, WriteOptions, open_writable, recognise};
use fsmend_session::driver::{Driver, Kind, Maker, NewFileSystem};
use fsmend_vfs::Time;

use crate::{exit, machine, numbers, target};

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
    #[arg(short = 't', long = "type", default_value = fsmend::DEFAULT_KIND, value_parser = kinds())]
    pub kind: &'static str,

    /// Block size: the same as -E block-size=BYTES
    #[arg(short = 'b', value_name = "BYTES", value_parser = crate::numbers::parse_size)]
    pub block_size: Option<u64>,

    /// Fragment size, for types with fragments: the same as -E fragment-size=BYTES
    #[arg(short = 'f', value_name = "BYTES", value_parser = crate::numbers::parse_size)]
    pub fragment_size: Option<u64>,

    /// One inode for so many bytes: the same as -E inode-ratio=BYTES
    #[arg(short = 'i', value_name = "BYTES", value_parser = crate::numbers::parse_size)]
    pub inode_ratio: Option<u64>,

    #[arg(short = 'E', value_name = "OPTIONS", help = extended_help())]
    pub extended: Vec<String>,

    /// UFS: fragments of the metadata area of each cylinder group, 0 for none [default: half of the reserved space]
    #[arg(short = 'k', long, value_name = "FRAGMENTS")]
    pub metadata_area: Option<u64>,

    #[arg(short = 'L', long, value_name = "NAME", default_value = "", help = label_help())]
    pub label: String,

    /// Overwrite an existing file system or partition table
    #[arg(long)]
    pub force: bool,
}

/// The types of file systems that can be made, as values of an option.
pub fn kinds() -> impl TypedValueParser<Value = &'static str> {
    let values = target::FAMILIES.kinds().map(|(kind, _)| PossibleValue::new(kind.name).help(kind.help));
    PossibleValuesParser::new(values).map(|name| known(&name).map_or("", |(kind, _)| kind.name))
}

/// The type `name`, and what makes it.
fn known(name: &str) -> Option<(Kind, &'static dyn Driver)> {
    target::FAMILIES.kinds().find(|(kind, _)| kind.name == name)
}

/// The extended options of all families.
fn extended_help() -> String {
    let drivers = target::FAMILIES.all().filter_map(|family| family.driver());
    let options = drivers.enumerate().map(|(at, driver)| match at {
        0 => format!("Extended options, separated by commas: {}", driver.extended()),
        _ => format!("for {} {}", driver.title(), driver.extended()),
    });
    options.collect::<Vec<_>>().join("; ")
}

/// How long a label may be.
fn label_help() -> String {
    let mut drivers = target::FAMILIES.all().filter_map(|family| family.driver());
    let first = drivers.next().map_or(0, |driver| driver.label_max());
    let others: Vec<String> =
        drivers.map(|driver| format!("{}: {}", driver.title(), driver.label_max())).collect();
    format!("Volume label, up to {first} bytes ({})", others.join(", "))
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
            println!("{}: {summary}", arguments.target.display());
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

/// What makes the file system that is asked for.
pub fn writer(arguments: &MkfsArgs, Luck { random, now }: &Luck) -> Result<Box<Maker>, String> {
    let (kind, driver) =
        known(arguments.kind).ok_or_else(|| format!("there is no type \"{}\"", arguments.kind))?;
    let short = [
        ("block-size", arguments.block_size),
        ("fragment-size", arguments.fragment_size),
        ("inode-ratio", arguments.inode_ratio),
    ];
    let short = short.iter().filter_map(|(name, value)| value.map(|value| format!("{name}={value}")));
    let listed = arguments.extended.iter().flat_map(|list| list.split(','));
    driver.maker(NewFileSystem {
        kind: kind.name,
        extended: short.chain(listed.filter(|word| !word.is_empty()).map(ToOwned::to_owned)).collect(),
        metadata_area: arguments.metadata_area,
        label: arguments.label.clone().into_bytes(),
        random: *random,
        now: *now,
        obstacle: if arguments.force { |_| None } else { obstacle },
    })
}

/// What keeps a device from being overwritten.
fn obstacle(device: &Arc<dyn WritableDevice>) -> Option<String> {
    there(device).map(|what| format!("it holds {what}, which would be lost; --force overwrites it"))
}

fn make_on(arguments: &MkfsArgs, is_new: bool, writer: &Maker) -> Result<String, Refusal> {
    let whole = OpenOptions { offset: Some(0), partition: None };
    let opened = open_writable(&arguments.target, &whole, WriteOptions::without_image_formats(), &Whatever)
        .map_err(|error| target::refusal(&error).to_string())?;
    let only = opened.targets.into_iter().next().ok_or_else(|| "nothing was found in it".to_owned())?;
    let device = only.device;
    if let Some(why) = obstacle(&device).filter(|_| !arguments.force) {
        return Err(Refusal::Other(why));
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
pub fn make_blank(path: &Path, size: u64, writer: &Maker) -> Result<(), String> {
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
            let label = target::FAMILIES.recognise(&**device).and_then(|family| family.label(&**device));
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
    let zeroes = vec![0; width::index(MARKS_LEN.min(len))];
    device.write_at(0, &zeroes)?;
    device.sync()
}

/// 32 bytes that cannot be guessed.
fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    File::open(Path::new("/dev/urandom"))?.read_exact(&mut bytes)?;
    Ok(bytes)
}
