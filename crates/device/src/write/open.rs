//! From a path to the file systems that are to be written: like [`crate::open`], but no other process may use the target.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{WritableDevice, WritableFile};
use crate::mounts::{Usage, usage_of};
use crate::open::{choose, refusal, starts_like_qcow2};
use crate::{Device, OpenError, OpenErrorKind, OpenOptions, Skipped, Slice};

/// What may be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// A file system that is mounted, but for reading only, may be written (the root, at boot).
    pub mounted_read_only: bool,
}

/// What was found behind a path.
pub struct OpenedForWriting {
    /// What can be repaired, in the order of the disk's partition table; never empty.
    pub targets: Vec<WritableTarget>,
    /// Partitions that hold no ext file system.
    pub skipped: Vec<Skipped>,
}

/// One file system that can be written.
pub struct WritableTarget {
    /// What to call it: the path, with the partition where there are several.
    pub label: String,
    /// The number of the partition, if it is one.
    pub partition: Option<u32>,
    /// Byte of the file or block device at which it starts.
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
) -> Result<OpenedForWriting, OpenError> {
    open_path(path, options, rights).map_err(|kind| OpenError { path: path.to_owned(), kind })
}

fn open_path(
    path: &Path,
    options: &OpenOptions,
    rights: WriteOptions,
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
    if starts_like_qcow2(&file) {
        return Err(OpenErrorKind::NotWritable("a qcow2 image"));
    }
    let file: Arc<dyn WritableDevice> = Arc::new(file);
    let as_device: Arc<dyn Device> = Arc::<dyn WritableDevice>::clone(&file);
    let (targets, skipped) = choose(&path.display().to_string(), as_device, options)?;
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
        match open_writable(path, &OpenOptions::default(), WriteOptions::default()) {
            Err(error) => error.kind,
            Ok(_) => panic!("opened"),
        }
    }

    #[test]
    fn a_window_of_a_file_is_written() {
        let file = TempFile::new("open-writable", &[0; 8192]);
        let options = OpenOptions { offset: Some(4096), partition: None };
        let opened = open_writable(file.path(), &options, WriteOptions::default()).unwrap();
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
        let empty = TempFile::new("open-writable", &[]);
        assert!(matches!(refused(empty.path()), OpenErrorKind::Empty));
        assert!(matches!(refused(Path::new("/nowhere/at/all")), OpenErrorKind::NotFound));
        assert!(matches!(refused(Path::new("/")), OpenErrorKind::Directory));
    }
}
