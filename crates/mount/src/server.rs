// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server: what its answers have in common. The requests themselves are in `requests`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use fsmend_base::InodeNo;
use fsmend_vfs::{Attributes, Caller, FileSystem, NewFile, NewKind, Permissions, Time};
use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, INodeNo, InitFlags, ReplyDirectoryPlus, ReplyEntry,
    ReplyOpen, Request,
};

use crate::convert::{errno, file_attr, file_type, no_attributes};
use crate::idle::Polling;
use crate::seek::Entry;
use crate::{Event, Options, Shared};

/// How long the kernel may believe what it was told. Only its own requests change anything, and it knows what they do; this is for what
/// it may have missed all the same.
pub(crate) const BELIEVE: Duration = Duration::from_secs(60);

/// Most bytes of one request to write or read; more than the kernel puts into one today.
pub(crate) const WRITE_BYTES_MAX: u32 = 1 << 20;

/// What the kernel is asked for. `READDIRPLUS_AUTO`: a program that lists a directory and looks at what is in it gets both at once.
pub(crate) const WISHES: [InitFlags; 4] = [
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
];

pub(crate) type Answer<T> = Result<T, Errno>;

/// Answers requests.
pub(crate) struct Server {
    shared: Arc<Shared>,
    pub(crate) events: Sender<Event>,
    root: InodeNo,
    block_size: u32,
    uid: Option<u32>,
    gid: Option<u32>,
    pub(crate) opens: Opens,
    /// The kernel obeys access control lists.
    pub(crate) obeys_lists: bool,
    /// The set-user-ID and set-group-ID bits go by us, not by the kernel.
    pub(crate) drops_privileges: bool,
    /// The kernel shall keep what is written, and send it later.
    pub(crate) wants_late_writes: bool,
    /// It does.
    pub(crate) late_writes: bool,
}

/// What the kernel tells when it is opened.
#[derive(Clone, Copy)]
pub(crate) struct Opens {
    pub(crate) files: bool,
    pub(crate) directories: bool,
}

impl Server {
    /// `events` is told when the last request has been answered.
    pub fn new(shared: Arc<Shared>, events: Sender<Event>, options: &Options) -> Self {
        let (root, block_size) = match shared.state.lock() {
            Ok(mut state) => {
                let space = state.file_system.statfs().unwrap_or_default();
                (state.file_system.root(), space.block_size)
            }
            Err(_) => (InodeNo(0), 0),
        };
        let (uid, gid) = (options.uid, options.gid);
        Server {
            shared,
            events,
            root,
            block_size: block_size.max(512),
            uid,
            gid,
            opens: Opens { files: true, directories: true },
            obeys_lists: false,
            drops_privileges: false,
            wants_late_writes: options.late_writes && !options.synchronous && !options.read_only,
            late_writes: false,
        }
    }

    /// Counts a request for `idle=poll`.
    fn note_request(&self) {
        if self.shared.polling.as_ref().is_some_and(Polling::request) {
            // The thread in `Mounted::wait` receives as long as there are requests.
            let _ = self.events.send(Event::Burst);
        }
    }

    /// Looks at the file system.
    pub(crate) fn look<T>(
        &self,
        look: impl FnOnce(&mut dyn FileSystem) -> fsmend_vfs::Result<T>,
    ) -> Answer<T> {
        self.note_request();
        let mut state = self.shared.state.lock().map_err(|_| Errno::EIO)?;
        look(&mut *state.file_system).map_err(errno)
    }

    /// Changes the file system without a caller.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut dyn FileSystem, Time) -> fsmend_vfs::Result<T>,
    ) -> Answer<T> {
        self.change_as(Caller::SUPERUSER, change)
    }

    /// Changes the file system on behalf of who asks for it.
    pub(crate) fn change_for<T>(
        &self,
        who: &Request,
        change: impl FnOnce(&mut dyn FileSystem, Time) -> fsmend_vfs::Result<T>,
    ) -> Answer<T> {
        self.change_as(caller(who, 0), change)
    }

    fn change_as<T>(
        &self,
        caller: Caller,
        change: impl FnOnce(&mut dyn FileSystem, Time) -> fsmend_vfs::Result<T>,
    ) -> Answer<T> {
        self.note_request();
        let mut state = self.shared.state.lock().map_err(|_| Errno::EIO)?;
        state.changed = true;
        state.file_system.act_for(caller);
        let now = (self.shared.clock)();
        let changed = change(&mut *state.file_system, now).map_err(errno)?;
        if state.synchronous {
            state.commit(now).map_err(errno)?;
        }
        Ok(changed)
    }

    /// The inode that the kernel means. It calls the root 1, whatever that is called on the disk.
    pub(crate) fn inode(&self, node: INodeNo) -> Answer<InodeNo> {
        match node.0 {
            1 => Ok(self.root),
            number => u32::try_from(number).map(InodeNo).map_err(|_| Errno::ENOENT),
        }
    }

    /// What the kernel calls an inode.
    pub(crate) fn attr(&self, of: &Attributes) -> FileAttr {
        let node = if of.inode == self.root { 1 } else { u64::from(of.inode.0) };
        let shown = file_attr(of, INodeNo(node), self.block_size);
        FileAttr { uid: self.uid.unwrap_or(shown.uid), gid: self.gid.unwrap_or(shown.gid), ..shown }
    }

    /// Sends an entry that the kernel may keep; it is held already. (Should the answer not reach the kernel because the one who asked is gone, the
    /// inode stays held until the end; that costs nothing but memory, and a file without names its room until then.)
    pub(crate) fn entry(&self, answer: Answer<Attributes>, reply: ReplyEntry) {
        match answer {
            Ok(of) => reply.entry(&BELIEVE, &self.attr(&of), Generation(u64::from(of.generation))),
            Err(error) => reply.error(error),
        }
    }

    pub(crate) fn make(
        &self,
        who: &Request,
        parent: INodeNo,
        name: &OsStr,
        kind: NewKind<'_>,
        (mode, umask): (u32, u32),
    ) -> Answer<Attributes> {
        let parent = self.inode(parent)?;
        let of = Permissions { mode: (mode & 0o7777) as u16, uid: who.uid(), gid: who.gid() };
        self.change_as(caller(who, umask), |fs, now| {
            let made = fs.make(parent, name.as_bytes(), &NewFile { kind, of }, now)?;
            fs.hold(made.inode)?;
            Ok(made)
        })
    }

    fn hold(&self, node: INodeNo) -> Answer<()> {
        let inode = self.inode(node)?;
        self.look(|fs| fs.hold(inode))
    }

    pub(crate) fn let_go(&self, node: INodeNo, count: u64) -> Answer<()> {
        let inode = self.inode(node)?;
        // Whether the last one goes, and with it the file, only the file system knows.
        self.change(|fs, now| fs.release(inode, count, now))
    }

    /// Adds an entry with what is known about its inode, which the kernel keeps; false if there is no room for it.
    pub(crate) fn add_with_attributes(
        &self,
        fs: &mut dyn FileSystem,
        entry: &Entry,
        reply: &mut ReplyDirectoryPlus,
    ) -> fsmend_vfs::Result<bool> {
        let name = OsStr::from_bytes(&entry.name);
        let is_dot = matches!(&*entry.name, b"." | b"..");
        let inode = u32::try_from(entry.number).map(InodeNo).map_err(|_| fsmend_vfs::Errno::Corrupt)?;
        // Where an inode cannot be read, the rest of the folder can: of that one nothing is believed, so that a caller that needs it gets the error.
        let (attr, generation, believe) = match fs.getattr(inode) {
            Ok(of) => (self.attr(&of), of.generation, BELIEVE),
            Err(_) => {
                let kind = file_type(entry.kind);
                (FileAttr { ino: INodeNo(entry.number), kind, ..no_attributes() }, 0, Duration::ZERO)
            }
        };
        let generation = Generation(u64::from(generation));
        let is_full = reply.add(attr.ino, entry.cookie, name, &believe, &attr, generation);
        if !is_full && !is_dot {
            // The kernel keeps the others, and forgets them one day.
            let _ = fs.hold(inode);
        }
        Ok(!is_full)
    }

    pub(crate) fn open_file(&self, node: INodeNo, is_supported: bool, reply: ReplyOpen) {
        if !is_supported {
            return reply.error(Errno::ENOSYS);
        }
        match self.hold(node) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
        }
    }
}

/// On whose behalf a request is.
fn caller(who: &Request, umask: u32) -> Caller {
    Caller { uid: who.uid(), gid: who.gid(), umask: (umask & 0o777) as u16 }
}
