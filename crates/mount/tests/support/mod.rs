// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts and images for the tests of this folder.

#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

use fsmend_device::{Device, WritableDevice, WritableMemory};
use fsmend_ext_driver::mkfs::{self, Kind, mkfs};
use fsmend_ext_driver::{Ext, MountOptions};
use fsmend_mount::{Ended, Failure, Mounted, Options, Served, Stopper};
use fsmend_testkit::driver::complaint;
use fsmend_testkit::host::{is_root, skip, unmount};
use fsmend_vfs::Time;

/// A clock that runs as usual, but begins in 2022: programs that look at the images are given times of those years.
pub fn now() -> Time {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    let since = STARTED.get_or_init(Instant::now).elapsed();
    Time { seconds: 1_650_000_000 + since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}

/// Whether file systems can be mounted here.
pub fn may_mount(test: &str) -> bool {
    let may = is_root() && Path::new("/dev/fuse").exists();
    if !may {
        skip(test, "mounting takes the superuser and /dev/fuse");
    }
    may
}

/// A folder of this test alone.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fsmend-mount-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn sub(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Only if nothing is mounted below any more.
        let _ = fs::remove_dir(self.0.join("here"));
        let _ = fs::remove_dir(self.0.join("there"));
        let _ = fs::remove_file(self.0.join("image"));
        let _ = fs::remove_dir(&self.0);
    }
}

/// A mount that is served by a thread of ours, and goes with the test, however that ends.
pub struct Guarded {
    pub place: PathBuf,
    pub stopper: Stopper,
    waiting: Option<JoinHandle<Result<Ended, Failure>>>,
}

impl Guarded {
    pub fn new(file_system: Served, place: &Path, options: &Options) -> Self {
        let mounted = Mounted::mount(file_system, place, options, now).unwrap();
        let (place, stopper) = (mounted.place().to_owned(), mounted.stopper());
        Guarded { place, stopper, waiting: Some(std::thread::spawn(|| mounted.wait())) }
    }

    pub fn end(&mut self) -> Result<Ended, Failure> {
        self.waiting.take().unwrap().join().unwrap()
    }

    /// Unmounts as `umount` does.
    pub fn unmount(mut self) {
        unmount(&self.place).unwrap();
        assert!(matches!(self.end(), Ok(Ended::Unmounted)));
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            self.stopper.stop();
            let _ = waiting.join();
        }
    }
}

/// A file system in memory, made and driven by us.
pub fn made(kind: Kind, bytes: usize) -> (Arc<WritableMemory>, Served) {
    let device = Arc::new(WritableMemory::new("image", vec![0; bytes]));
    let options = mkfs::Options {
        block_size: Some(4096),
        inodes: Some(16 << 10),
        blank: true,
        ..mkfs::Options::new(kind, *b"0123456789abcdef", now())
    };
    mkfs(Arc::clone(&device) as Arc<dyn WritableDevice>, &options).unwrap();
    let ext = Ext::mount(Arc::clone(&device) as Arc<dyn WritableDevice>, MountOptions::new(now())).unwrap();
    (device, Box::new(ext))
}

pub fn assert_sound(device: &WritableMemory) {
    let mut image = vec![0; device.len() as usize];
    device.read_at(0, &mut image).unwrap();
    assert_eq!(complaint(&image, now().seconds).unwrap(), None);
}
