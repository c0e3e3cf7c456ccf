// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file whose reads take their time: a slow device for tests and benchmarks, which counts the requests that are in flight.
//!
//! The file `image` in the folder holds the bytes of another file. Each request is answered a fixed time after it came, however many others wait,
//! up to a number of requests that the device serves side by side. So a run takes as long as requests it has to wait for one after the other.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use fsmend_base::width;
use fuser::{
    BackgroundSession, Config, Errno, FileHandle, Filesystem, FopenFlags, INodeNo, KernelConfig, LockOwner,
    MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request, Session,
};

use crate::one_file::{BELIEVE, NAME, OneFile};

/// What kind of slow device.
#[derive(Clone, Copy, Debug)]
pub struct Slowness {
    /// How long a request takes.
    pub latency: Duration,
    /// Requests that are served side by side; others wait for their turn.
    pub depth: usize,
    /// Whether the page cache is passed by, as network file systems do.
    pub uncached: bool,
}

/// What was asked of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// Requests.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Most requests that were in flight at one time.
    pub most: u64,
    /// Requests during which no other one was in flight when they came.
    pub alone: u64,
}

/// The slow device, mounted. It goes away when this is dropped.
pub struct SlowFile {
    session: Option<BackgroundSession>,
    counts: Arc<Counts>,
    folder: PathBuf,
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    bytes: AtomicU64,
    flying: AtomicU64,
    most: AtomicU64,
    alone: AtomicU64,
    served: Mutex<usize>,
    changed: Condvar,
}

impl SlowFile {
    /// Shows the bytes of `file` in `folder`, which is there and empty.
    pub fn mount(file: &Path, folder: &Path, slowness: Slowness) -> io::Result<SlowFile> {
        let counts = Arc::new(Counts::default());
        let file = Arc::new(File::open(file)?);
        let len = file.metadata()?.len();
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RO, MountOption::FSName("slow".to_owned())];
        let shown = OneFile { len, permissions: 0o444 };
        let server = Server { file, shown, slowness, counts: Arc::clone(&counts) };
        let session = Session::new(server, folder, &config)?.spawn()?;
        Ok(SlowFile { session: Some(session), counts, folder: folder.to_owned() })
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// What was asked of it since this was asked last.
    pub fn asked(&self) -> Asked {
        let Counts { requests, bytes, most, alone, .. } = &*self.counts;
        let take = |count: &AtomicU64| count.swap(0, SeqCst);
        Asked { requests: take(requests), bytes: take(bytes), most: take(most), alone: take(alone) }
    }
}

impl Drop for SlowFile {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // Who has it open still keeps it alive.
            let _ = session.umount_and_join();
        }
    }
}

impl Counts {
    fn begin(&self, bytes: u64) {
        self.requests.fetch_add(1, SeqCst);
        self.bytes.fetch_add(bytes, SeqCst);
        let flying = self.flying.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(flying, SeqCst);
        self.alone.fetch_add(u64::from(flying == 1), SeqCst);
    }

    fn serve(&self, slowness: Slowness) {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        while *served >= slowness.depth {
            served = self.changed.wait(served).unwrap_or_else(PoisonError::into_inner);
        }
        *served += 1;
        drop(served);
        std::thread::sleep(slowness.latency);
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.changed.notify_one();
    }
}

struct Server {
    file: Arc<File>,
    shown: OneFile,
    slowness: Slowness,
    counts: Arc<Counts>,
}

impl Filesystem for Server {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // As many as the device bears, whatever the kernel thinks is usual.
        let _ = config.set_max_background(256);
        let _ = config.set_congestion_threshold(256);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.shown.lookup(parent, name, reply);
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&BELIEVE, &self.shown.attributes(inode));
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = if self.slowness.uncached { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() };
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (file, counts, slowness) = (Arc::clone(&self.file), Arc::clone(&self.counts), self.slowness);
        let len = width::index(u64::from(size).min(self.shown.len.saturating_sub(offset)));
        counts.begin(len as u64);
        // The next request is taken while this one waits.
        std::thread::spawn(move || {
            let mut bytes = vec![0; len];
            let read = file.read_exact_at(&mut bytes, offset);
            counts.serve(slowness);
            counts.flying.fetch_sub(1, SeqCst);
            match read {
                Ok(()) => reply.data(&bytes),
                Err(_) => reply.error(Errno::EIO),
            }
        });
    }
}
