// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a path to the file systems that are to be written: like [`crate::open`], but no other process may use the target.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{GrowingFile, WritableDevice, WritableFile};
use crate::WritableQcow2;
use crate::mounts::{Usage, usage_of};
use crate::open::{choose, refusal, starts_like_qcow2};
use crate::{Device, OpenError, OpenErrorKind, OpenOptions, Recognise, Skipped, Slice};

/// What may be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// A file system that is mounted, but for reading only, may be written (the root, at boot).
    pub mounted_read_only: bool,
    /// Image formats are refused that need room elsewhere before some of their blocks can be written: for programs that write a lot.
    pub no_image_formats: bool,
}

impl WriteOptions {
    /// For programs that make a file system or live in one.
    pub fn without_image_formats() -> Self {
        WriteOptions { no_image_formats: true, ..WriteOptions::default() }
    }
}

/// What was found behind a path.
pub struct OpenedForWriting {
    /// What can be repaired, in the order of the disk's partition table; never empty.
    pub targets: Vec<WritableTarget>,
    /// Partitions that hold no file system of a known family.
    pub skipped: Vec<Skipped>,
}

/// One file system that can be written.
pub struct WritableTarget {
    /// What to call it: the path, with the partition where there are several.
    pub label: String,
    /// The number of the partition, if it is one.
    pub partition: Option<u32>,
    /// Byte of the file, block device or disk in an image at which it starts.
    pub start: u64,
    /// Its bytes. `Arc<dyn WritableDevice>` is an `Arc<dyn Device>`, too: check through it, and the lock is held from the
    /// check to the last write.
    pub device: Arc<dyn WritableDevice>,
}

/// Opens `path` for reading and writing and finds out what is meant, as [`crate::open`] does. A target that another process uses
/// is refused, and so are image formats that cannot be written safely.
pub fn open_writable(
    path: &Path,
    options: &OpenOptions,
    rights: WriteOptions,
    families: &dyn Recognise,
) -> Result<OpenedForWriting, OpenError> {
    open_path(path, options, rights, families).map_err(|kind| OpenError { path: path.to_owned(), kind })
}

fn open_path(
    path: &Path,
    options: &OpenOptions,
    rights: WriteOptions,
    families: &dyn Recognise,
) -> Result<OpenedForWriting, OpenErrorKind> {
    let usage = usage_of(path);
    let tolerated = |usage: &Usage| rights.mounted_read_only && !usage.may_write();
    if !usage.iter().all(tolerated) {
        return Err(OpenErrorKind::Busy(usage));
    }
    let file = WritableFile::open(path, !usage.is_empty()).map_err(write_refusal)?;
    if file.is_empty() {
        return Err(OpenErrorKind::Empty);
    }
    let file: Arc<dyn WritableDevice> = match starts_like_qcow2(&file) {
        false => Arc::new(file),
        true if rights.no_image_formats => {
            return Err(OpenErrorKind::ImageFormat("a qcow2 image"));
        }
        true => {
            let image = WritableQcow2::open(path, Arc::new(GrowingFile::new(file)));
            Arc::new(image.map_err(|why| {
                OpenErrorKind::NotWritable(format!("the qcow2 image is not written: {why}"))
            })?)
        }
    };
    if file.is_empty() {
        return Err(OpenErrorKind::Empty);
    }
    let as_device: Arc<dyn Device> = Arc::<dyn WritableDevice>::clone(&file);
    let (targets, skipped) = choose(&path.display().to_string(), as_device, options, families)?;
    let writable = |target: crate::Target| {
        let len = target.device.len();
        let device = Slice::new(target.label.clone(), Arc::clone(&file), target.start, len);
        let (label, partition, start) = (target.label, target.partition, target.start);
        WritableTarget { label, partition, start, device: Arc::new(device) }
    };
    Ok(OpenedForWriting { targets: targets.into_iter().map(writable).collect(), skipped })
}

fn write_refusal(error: io::Error) -> OpenErrorKind {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy => OpenErrorKind::Busy(Vec::new()),
        io::ErrorKind::PermissionDenied => OpenErrorKind::WritePermissionDenied(error),
        io::ErrorKind::ReadOnlyFilesystem => OpenErrorKind::ReadOnly,
        _ => refusal(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::testing::TempFile;

    fn refused(path: &Path) -> OpenErrorKind {
        match open_writable(path, &OpenOptions::default(), WriteOptions::default(), &crate::Whatever) {
            Err(error) => error.kind,
            Ok(_) => panic!("opened"),
        }
    }

    #[test]
    fn a_window_of_a_file_is_written() {
        let file = TempFile::new("open-writable", &[0; 8192]);
        let options = OpenOptions { offset: Some(4096), partition: None };
        let opened = open_writable(file.path(), &options, WriteOptions::default(), &crate::Whatever).unwrap();
        let target = &opened.targets[0];
        assert_eq!((target.start, target.device.len()), (4096, 4096));
        target.device.write_at(0, &[9]).unwrap();
        target.device.write_at(4096, &[9]).unwrap_err();
        assert_eq!(std::fs::read(file.path()).unwrap()[4096], 9);
        assert!(matches!(refused(file.path()), OpenErrorKind::Busy(_)), "it is locked");
    }

    #[test]
    fn what_cannot_be_written_safely_is_refused() {
        let mut qcow2 = vec![0; 512];
        qcow2[..4].copy_from_slice(b"QFI\xfb");
        let qcow2 = TempFile::new("open-writable", &qcow2);
        assert!(matches!(refused(qcow2.path()), OpenErrorKind::NotWritable(_)));
        let rights = WriteOptions::without_image_formats();
        let opened = open_writable(qcow2.path(), &OpenOptions::default(), rights, &crate::Whatever);
        assert!(opened.is_err_and(|error| matches!(error.kind, OpenErrorKind::ImageFormat(_))));
        let empty = TempFile::new("open-writable", &[]);
        assert!(matches!(refused(empty.path()), OpenErrorKind::Empty));
        assert!(matches!(refused(Path::new("/nowhere/at/all")), OpenErrorKind::NotFound));
        assert!(matches!(refused(Path::new("/")), OpenErrorKind::Directory));
    }
}
