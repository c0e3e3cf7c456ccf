// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a path to the devices that are to be checked: the one place where a target is chosen.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::mounts::{Usage, usage_of, writer_of};
use crate::qcow2::is_qcow2;
use crate::{Content, Device, FileDevice, Partition, Qcow2Device, Recognise, Slice, partitions, recognise};

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
    /// The number of the partition, if it is one.
    pub partition: Option<u32>,
    /// Byte of the disk at which it starts.
    pub start: u64,
    /// Its bytes.
    pub device: Arc<dyn Device>,
}

/// A partition that holds no file system of a known family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The partition.
    pub partition: Partition,
    /// Why it is not checked: what is in it instead.
    pub why: String,
}

/// Why a target cannot be opened. Displayed, it names the path, what was expected, and the way out.
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
    PermissionDenied(io::Error),
    /// We may read it, but not write it.
    WritePermissionDenied(io::Error),
    /// It cannot be written: the device is write-protected, or the file lies on a file system that is mounted for reading only.
    ReadOnly,
    /// Another process uses it: these, or one that has locked it.
    Busy(Vec<Usage>),
    /// It can be checked and repaired, but not written otherwise: what it is.
    ImageFormat(&'static str),
    /// It can be read, but not written safely: why.
    NotWritable(String),
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
    /// There are partitions, but none with a file system of a known family.
    NoKnownPartition(Vec<Skipped>),
}

/// Opens `path` for reading and finds out what is to be checked: the whole of it, or every partition with a file
/// system of one of the `families` if it is a disk with a partition table, or what `options` name.
pub fn open(path: &Path, options: &OpenOptions, families: &dyn Recognise) -> Result<Opened, OpenError> {
    let mut usage = usage_of(path);
    if !usage.iter().any(|usage| matches!(usage, Usage::Mounted { .. })) {
        usage.extend(writer_of(path).map(|by| Usage::Locked { by }));
    }
    let (targets, skipped) = open_device(path)
        .and_then(|device| choose(&path.display().to_string(), device, options, families))
        .map_err(|kind| OpenError { path: path.to_owned(), kind })?;
    Ok(Opened { targets, skipped, usage })
}

/// The bytes behind the path: those of the file, or of the disk inside the image.
fn open_device(path: &Path) -> Result<Arc<dyn Device>, OpenErrorKind> {
    let file = FileDevice::open(path).map_err(refusal)?;
    if file.is_empty() {
        return Err(OpenErrorKind::Empty);
    }
    if starts_like_qcow2(&file) {
        let image = Qcow2Device::open(path).map_err(OpenErrorKind::Image)?;
        return if image.is_empty() { Err(OpenErrorKind::Empty) } else { Ok(Arc::new(image)) };
    }
    Ok(Arc::new(file))
}

pub(crate) fn starts_like_qcow2(file: &dyn Device) -> bool {
    let mut start = [0; 8];
    file.read_at(0, &mut start).is_ok() && is_qcow2(&start)
}

pub(crate) fn refusal(error: io::Error) -> OpenErrorKind {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => OpenErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => OpenErrorKind::PermissionDenied(error),
        io::ErrorKind::IsADirectory => OpenErrorKind::Directory,
        io::ErrorKind::InvalidInput => OpenErrorKind::NotSeekable,
        _ => OpenErrorKind::Io(error),
    }
}

type Choice = (Vec<Target>, Vec<Skipped>);

pub(crate) fn choose(
    label: &str,
    device: Arc<dyn Device>,
    options: &OpenOptions,
    families: &dyn Recognise,
) -> Result<Choice, OpenErrorKind> {
    if options.partition.is_none() && options.offset.is_none() {
        return choose_all(label, device, families);
    }
    let mut target = Target { label: label.to_owned(), partition: None, start: 0, device };
    if let Some(wanted) = options.partition {
        target = choose_partition(target, wanted, families)?;
    }
    if let Some(offset) = options.offset {
        target = choose_offset(target, offset)?;
    }
    Ok((vec![target], Vec::new()))
}

/// The whole device, or all its partitions with a known file system.
fn choose_all(
    label: &str,
    device: Arc<dyn Device>,
    families: &dyn Recognise,
) -> Result<Choice, OpenErrorKind> {
    let table = partitions(&device, families);
    if table.is_empty() {
        return Ok((vec![Target { label: label.to_owned(), partition: None, start: 0, device }], Vec::new()));
    }
    let (mut targets, mut skipped) = (Vec::new(), Vec::new());
    for partition in table {
        let target = window(label, &device, &partition);
        match why_skipped(&target.device, families) {
            None => targets.push(target),
            Some(why) => skipped.push(Skipped { partition, why }),
        }
    }
    if targets.is_empty() { Err(OpenErrorKind::NoKnownPartition(skipped)) } else { Ok((targets, skipped)) }
}

fn why_skipped(device: &dyn Device, families: &dyn Recognise) -> Option<String> {
    if device.is_empty() {
        return Some("it starts beyond the end of the disk".to_owned());
    }
    match recognise(device, families) {
        Content::Known(_) => None,
        Content::Other(what) => Some(format!("it holds {what}")),
        Content::Unknown => Some("no superblock was found in it".to_owned()),
    }
}

fn choose_partition(disk: Target, wanted: u32, families: &dyn Recognise) -> Result<Target, OpenErrorKind> {
    let mut there = partitions(&disk.device, families);
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
    let label = if offset == 0 { target.label.clone() } else { format!("{} at byte {offset}", target.label) };
    let device = Arc::new(Slice::new(label.clone(), Arc::clone(&target.device), offset, len - offset));
    Ok(Target { label, device, start: target.start.saturating_add(offset), ..target })
}

fn window(label: &str, disk: &Arc<dyn Device>, partition: &Partition) -> Target {
    let label = format!("{label} partition {}", partition.number);
    let device = Slice::new(label.clone(), Arc::clone(disk), partition.start, partition.len);
    Target { label, partition: Some(partition.number), start: partition.start, device: Arc::new(device) }
}

impl OpenError {
    /// What is wrong and what was expected, without the path.
    pub fn message(&self) -> String {
        self.kind.text().0
    }

    /// What to do about it; begins in lower case.
    pub fn hint(&self) -> String {
        self.kind.text().1
    }
}

/// The way out where the kernel has refused to open something to `verb` it ("read" or "write"): which permission is missing.
pub fn missing_permission(error: &io::Error, verb: &str) -> String {
    permission_of(
        error.raw_os_error().map(Errno::from_raw_os_error),
        rustix::process::geteuid().is_root(),
        verb,
    )
}

fn permission_of(error: Option<Errno>, is_root: bool, verb: &str) -> String {
    match error {
        // A device cgroup answers with this, whatever the user and the mode of the node.
        Some(Errno::PERM) => format!(
            "a device cgroup or a security module does not let this process {verb} the device; a container must be given it \
             (docker run --device, DeviceAllow= of systemd)"
        ),
        _ if is_root => format!(
            "root may not {verb} it here: the capability CAP_DAC_OVERRIDE is missing, or a security module or a network file system \
             refuses"
        ),
        _ => format!("run as root or as a user who may {verb} it"),
    }
}

impl OpenErrorKind {
    /// What is wrong, and the way out.
    fn text(&self) -> (String, String) {
        let (message, hint) = match self {
            OpenErrorKind::NotFound => (
                "no such file (expected an image file or a block device)",
                "check the name (lsblk lists block devices)",
            ),
            OpenErrorKind::PermissionDenied(error) => {
                return (format!("no permission to read it: {error}"), missing_permission(error, "read"));
            }
            OpenErrorKind::WritePermissionDenied(error) => {
                return (format!("it cannot be written: {error}"), missing_permission(error, "write"));
            }
            OpenErrorKind::ReadOnly => (
                "it cannot be written: the device is write-protected, or the file system on which the image lies is mounted \
                 for reading only",
                "make it writable (blockdev --setrw, mount -o remount,rw), or repair a copy",
            ),
            OpenErrorKind::Busy(usage) => return busy(usage),
            OpenErrorKind::ImageFormat(what) => {
                let hint = "convert it first (qemu-img convert -O raw)";
                return (
                    format!("it is {what}, which can be checked and repaired, but not used otherwise"),
                    hint.into(),
                );
            }
            OpenErrorKind::NotWritable(why) => {
                let hint = "put the image right first (qemu-img check -r all), or convert it (qemu-img convert -O raw)";
                return (why.clone(), hint.into());
            }
            OpenErrorKind::Directory => (
                "it is a directory (expected an image file or a block device)",
                "give the device that holds the directory (findmnt shows it)",
            ),
            OpenErrorKind::NotSeekable => (
                "it is neither a regular file nor a block device",
                "copy its output to a file and check the file",
            ),
            OpenErrorKind::Empty => (
                "it is empty (expected a file system image)",
                "check that the copy is complete, or that a medium is inserted",
            ),
            OpenErrorKind::Io(error) => {
                return (
                    format!("it cannot be opened: {error}"),
                    "check the name and where it points".into(),
                );
            }
            OpenErrorKind::Image(error) => {
                let hint = "convert it (qemu-img convert -O raw) and check the result";
                return (error.to_string(), hint.into());
            }
            OpenErrorKind::NoSuchPartition { wanted, there } => return no_such_partition(*wanted, there),
            OpenErrorKind::PartitionBeyondEnd { wanted, disk_len } => {
                let Partition { number, start, .. } = wanted;
                let message = format!(
                    "partition {number} starts at byte {start}, beyond the end of the disk at byte {disk_len}"
                );
                return (message, "check that the image is a complete copy".into());
            }
            OpenErrorKind::OffsetBeyondEnd { offset, len } => {
                let message = format!("offset {offset} is beyond the end at byte {len}");
                return (message, "give the byte offset of the file system".into());
            }
            OpenErrorKind::NoKnownPartition(skipped) => {
                let rows = skipped.iter().map(|Skipped { partition, why }| format!("{partition}: {why}"));
                let hint = format!("select one with --partition to check it anyway: {}", list(rows));
                return ("none of its partitions holds a file system of a known type".into(), hint);
            }
        };
        (message.into(), hint.into())
    }
}

fn busy(usage: &[Usage]) -> (String, String) {
    let who = match usage {
        [] => "another program has locked it".to_owned(),
        usage => list(usage.iter().map(Usage::to_string)),
    };
    let hint = "unmount or detach it, or end the program that uses it, and start again";
    (format!("it is in use: {who}"), hint.into())
}

fn no_such_partition(wanted: u32, there: &[Partition]) -> (String, String) {
    if there.is_empty() {
        let message = format!("it has no partition table, so no partition {wanted}");
        return (message, "omit --partition to check all of it".into());
    }
    let rows = there.iter().map(Partition::to_string);
    (format!("it has no partition {wanted}"), format!("select one of: {}", list(rows)))
}

/// One after the other, on one line.
fn list(rows: impl Iterator<Item = String>) -> String {
    rows.collect::<Vec<String>>().join(", ")
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path.display(), self.message(), self.hint())
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Partition { number, start, len, type_name } = self;
        write!(f, "{number} ({type_name}, {} at byte {start})", fsmend_base::ByteLen(*len))
    }
}

impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests;
