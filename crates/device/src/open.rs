//! From a path to the devices that are to be checked: the one place where a target is chosen.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::mounts::{Usage, usage_of};
use crate::qcow2::is_qcow2;
use crate::{Content, Device, FileDevice, Partition, Qcow2Device, Slice, partitions, recognise};

/// What of a target is meant, if not all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Byte at which the file system starts (within the partition, if one is named too).
    pub offset: Option<u64>,
    /// Number of the partition.
    pub partition: Option<u32>,
}

/// What was found behind a path.
pub struct Opened {
    /// What is to be checked, in the order of the disk's partition table; never empty.
    pub targets: Vec<Target>,
    /// Partitions that are not to be checked.
    pub skipped: Vec<Skipped>,
    /// Who else uses the target just now.
    pub usage: Vec<Usage>,
}

/// One file system to be checked.
pub struct Target {
    /// What to call it: the path, with the partition where there are several.
    pub label: String,
    /// Its bytes.
    pub device: Arc<dyn Device>,
}

/// A partition that holds no ext file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The partition.
    pub partition: Partition,
    /// Why it is not checked: what is in it instead.
    pub why: String,
}

/// Why a target cannot be opened. The text names the path, what was expected, and the way out.
#[derive(Debug)]
pub struct OpenError {
    /// The path as given.
    pub path: PathBuf,
    /// What is wrong.
    pub kind: OpenErrorKind,
}

/// What is wrong with a target.
#[derive(Debug)]
pub enum OpenErrorKind {
    /// Nothing there.
    NotFound,
    /// We may not read it.
    PermissionDenied,
    /// It is a directory.
    Directory,
    /// It is something that has no bytes at offsets.
    NotSeekable,
    /// It has no bytes at all.
    Empty,
    /// Opening or the first read failed.
    Io(io::Error),
    /// It is a disk image that cannot be read.
    Image(io::Error),
    /// The partition is not in the table.
    NoSuchPartition {
        /// The one that was asked for.
        wanted: u32,
        /// Those that there are.
        there: Vec<Partition>,
    },
    /// The partition starts beyond the end of the disk.
    PartitionBeyondEnd {
        /// The one that was asked for.
        wanted: Partition,
        /// Length of the disk.
        disk_len: u64,
    },
    /// The offset lies beyond the end.
    OffsetBeyondEnd {
        /// The offset that was asked for.
        offset: u64,
        /// Length of what it should lie in.
        len: u64,
    },
    /// There are partitions, but none with an ext file system.
    NoExtPartition(Vec<Skipped>),
}

/// Opens `path` for reading and finds out what is to be checked: the whole of it, or every ext partition if it is a disk
/// with a partition table, or what `options` name.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Opened, OpenError> {
    let usage = usage_of(path);
    let (targets, skipped) = open_device(path)
        .and_then(|device| choose(&path.display().to_string(), device, options))
        .map_err(|kind| OpenError { path: path.to_owned(), kind })?;
    Ok(Opened { targets, skipped, usage })
}

/// The bytes behind the path: those of the file, or of the disk inside the image.
fn open_device(path: &Path) -> Result<Arc<dyn Device>, OpenErrorKind> {
    let file = FileDevice::open(path).map_err(refusal)?;
    let mut start = [0; 4];
    if file.is_empty() {
        return Err(OpenErrorKind::Empty);
    }
    if file.read_at(0, &mut start).is_ok() && is_qcow2(&start) {
        let image = Qcow2Device::open(path).map_err(OpenErrorKind::Image)?;
        return if image.is_empty() { Err(OpenErrorKind::Empty) } else { Ok(Arc::new(image)) };
    }
    Ok(Arc::new(file))
}

fn refusal(error: io::Error) -> OpenErrorKind {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => OpenErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => OpenErrorKind::PermissionDenied,
        io::ErrorKind::IsADirectory => OpenErrorKind::Directory,
        io::ErrorKind::InvalidInput => OpenErrorKind::NotSeekable,
        _ => OpenErrorKind::Io(error),
    }
}

type Choice = (Vec<Target>, Vec<Skipped>);

fn choose(label: &str, device: Arc<dyn Device>, options: &OpenOptions) -> Result<Choice, OpenErrorKind> {
    if options.partition.is_none() && options.offset.is_none() {
        return choose_all(label, device);
    }
    let mut target = Target { label: label.to_owned(), device };
    if let Some(wanted) = options.partition {
        target = choose_partition(target, wanted)?;
    }
    if let Some(offset) = options.offset {
        target = choose_offset(target, offset)?;
    }
    Ok((vec![target], Vec::new()))
}

/// The whole device, or all its ext partitions.
fn choose_all(label: &str, device: Arc<dyn Device>) -> Result<Choice, OpenErrorKind> {
    let table = partitions(&device);
    if table.is_empty() {
        return Ok((vec![Target { label: label.to_owned(), device }], Vec::new()));
    }
    let (mut targets, mut skipped) = (Vec::new(), Vec::new());
    for partition in table {
        let target = window(label, &device, &partition);
        match why_skipped(&target.device) {
            None => targets.push(target),
            Some(why) => skipped.push(Skipped { partition, why }),
        }
    }
    if targets.is_empty() { Err(OpenErrorKind::NoExtPartition(skipped)) } else { Ok((targets, skipped)) }
}

fn why_skipped(device: &dyn Device) -> Option<String> {
    if device.is_empty() {
        return Some("it starts beyond the end of the disk".to_owned());
    }
    match recognise(device) {
        Content::Ext => None,
        Content::Other(what) => Some(format!("it holds {what}")),
        Content::Unknown => Some("no ext superblock was found in it".to_owned()),
    }
}

fn choose_partition(disk: Target, wanted: u32) -> Result<Target, OpenErrorKind> {
    let mut there = partitions(&disk.device);
    let Some(index) = there.iter().position(|partition| partition.number == wanted) else {
        return Err(OpenErrorKind::NoSuchPartition { wanted, there });
    };
    let target = window(&disk.label, &disk.device, &there[index]);
    if target.device.is_empty() {
        let (wanted, disk_len) = (there.swap_remove(index), disk.device.len());
        return Err(OpenErrorKind::PartitionBeyondEnd { wanted, disk_len });
    }
    Ok(target)
}

fn choose_offset(target: Target, offset: u64) -> Result<Target, OpenErrorKind> {
    let len = target.device.len();
    if offset >= len {
        return Err(OpenErrorKind::OffsetBeyondEnd { offset, len });
    }
    let label = if offset == 0 { target.label } else { format!("{} at byte {offset}", target.label) };
    let device = Arc::new(Slice::new(label.clone(), target.device, offset, len - offset));
    Ok(Target { label, device })
}

fn window(label: &str, disk: &Arc<dyn Device>, partition: &Partition) -> Target {
    let label = format!("{label} partition {}", partition.number);
    let device = Slice::new(label.clone(), Arc::clone(disk), partition.start, partition.len);
    Target { label, device: Arc::new(device) }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.kind {
            OpenErrorKind::NotFound => {
                f.write_str("there is no such file; expected an image file or a block device (lsblk lists those)")
            }
            OpenErrorKind::PermissionDenied => {
                f.write_str("no permission to read it; run as root or as a user who may read it (a container must be given the device)")
            }
            OpenErrorKind::Directory => f.write_str(
                "is a directory; expected an image file or a block device (findmnt tells which one a directory is on)",
            ),
            OpenErrorKind::NotSeekable => f.write_str(
                "is neither a regular file nor a block device; copy what it delivers to a file and check that",
            ),
            OpenErrorKind::Empty => {
                f.write_str("has no bytes; expected a file system image: was it copied completely, is a medium inserted?")
            }
            OpenErrorKind::Io(error) => write!(f, "cannot be opened: {error}"),
            OpenErrorKind::Image(error) => write!(
                f,
                "{error}; qemu-img check tells more, and qemu-img convert -O raw makes an image that can be checked if it can be read at all"
            ),
            OpenErrorKind::NoSuchPartition { wanted, there } => write_no_such_partition(f, *wanted, there),
            OpenErrorKind::PartitionBeyondEnd { wanted, disk_len } => write!(
                f,
                "partition {} starts at byte {}, beyond the end of the disk at byte {disk_len}; was the image cut off?",
                wanted.number, wanted.start
            ),
            OpenErrorKind::OffsetBeyondEnd { offset, len } => {
                write!(f, "offset {offset} lies beyond the end at byte {len}; expected the byte at which the file system starts")
            }
            OpenErrorKind::NoExtPartition(skipped) => {
                f.write_str("none of its partitions holds an ext file system; name one with --partition to check it nevertheless:")?;
                skipped.iter().try_for_each(|Skipped { partition, why }| write!(f, "\n  {partition}: {why}"))
            }
        }
    }
}

fn write_no_such_partition(f: &mut fmt::Formatter<'_>, wanted: u32, there: &[Partition]) -> fmt::Result {
    if there.is_empty() {
        return write!(
            f,
            "has no partition table, so no partition {wanted}; leave --partition out to check all of it"
        );
    }
    write!(f, "has no partition {wanted}; there are:")?;
    there.iter().try_for_each(|partition| write!(f, "\n  {partition}"))
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Partition { number, start, len, type_name } = self;
        write!(f, "{number}: {type_name}, {} at byte {start}", fsmend_base::ByteLen(*len))
    }
}

impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests;
