// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file in memory that records what is written to it, and each flush: the kernel mounts a file system on it through a loop device, and a test plays
//! the record back up to any request.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fsmend_base::width;
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileHandle, Filesystem, FopenFlags, INodeNo, LockOwner,
    MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    Session, TimeOrNow, WriteFlags,
};

use crate::one_file::{BELIEVE, NAME, OneFile};

/// A request that changed something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Bytes were written.
    Write {
        /// Where.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// All that was written before is durable.
    Sync,
}

/// The file, mounted. It goes away when this is dropped.
pub struct RecordedFile {
    session: Option<BackgroundSession>,
    state: Arc<Mutex<State>>,
    folder: PathBuf,
}

struct State {
    bytes: Vec<u8>,
    changes: Vec<Change>,
}

impl RecordedFile {
    /// Shows a file that holds `bytes` in `folder`, which is there and empty.
    pub fn mount(bytes: Vec<u8>, folder: &Path) -> io::Result<RecordedFile> {
        let file = OneFile { len: bytes.len() as u64, permissions: 0o600 };
        let state = Arc::new(Mutex::new(State { bytes, changes: Vec::new() }));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RW, MountOption::FSName("recorded".to_owned())];
        let server = Server { file, state: Arc::clone(&state) };
        let session = Session::new(server, folder, &config)?.spawn()?;
        Ok(RecordedFile { session: Some(session), state, folder: folder.to_owned() })
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// How many requests have changed something so far.
    pub fn changes_so_far(&self) -> usize {
        lock(&self.state).changes.len()
    }

    /// Ends it; returns every change, in the order in which they came.
    pub fn into_changes(mut self) -> Vec<Change> {
        self.end();
        std::mem::take(&mut lock(&self.state).changes)
    }

    fn end(&mut self) {
        if let Some(session) = self.session.take() {
            // Who has it open still keeps it alive.
            let _ = session.umount_and_join();
        }
    }
}

impl Drop for RecordedFile {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Server {
    file: OneFile,
    state: Arc<Mutex<State>>,
}

impl Filesystem for Server {
    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.file.lookup(parent, name, reply);
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&BELIEVE, &self.file.attributes(inode));
    }

    fn setattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<std::time::SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<std::time::SystemTime>,
        _chgtime: Option<std::time::SystemTime>,
        _bkuptime: Option<std::time::SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match size {
            None => reply.attr(&BELIEVE, &self.file.attributes(inode)),
            Some(_) => reply.error(Errno::EPERM),
        }
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // Past the page cache, which would change the order of writes.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
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
        let state = lock(&self.state);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(state.bytes.len());
        let end = start.saturating_add(size as usize).min(state.bytes.len());
        reply.data(&state.bytes[start..end]);
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = lock(&self.state);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let place = state.bytes.get_mut(start..start.saturating_add(data.len()));
        let Some(place) = place else { return reply.error(Errno::ENOSPC) };
        place.copy_from_slice(data);
        state.changes.push(Change::Write { offset, bytes: data.to_vec() });
        reply.written(width::len_u32(data.len()));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        lock(&self.state).changes.push(Change::Sync);
        reply.ok();
    }
}
