// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file system in user space: whatever implements [`fsmend_vfs::FileSystem`] is shown to the kernel, through FUSE, as a folder of this machine.
//! The only crate that knows FUSE.
//!
//! - The kernel keeps what it has looked up: every entry that it is told of is [held](FileSystem::hold) until the kernel forgets it, and every open file
//!   until it is closed, so that no number is used again while anybody remembers it.
//! - No other program changes the file system, and the kernel knows what it changes itself. So names, attributes and pages that it has may stay with it.
//! - The kernel checks permissions (`default_permissions`) by owner, mode and access control lists; the driver lets new files inherit lists and keeps
//!   list and mode the same.
//! - Reading changes no access time (`noatime`). To note it would mean one more change of an inode for every read, and the trait cannot do that
//!   without changing the change time as well, on which backups and git rely.
//! - Requests are served one after the other; what they changed is made durable when a process asks for it (fsync), every few seconds
//!   ([`Options::commit`]), and at the end.
//!
//! [`Mounted::mount`] begins it, [`Mounted::wait`] serves until the folder is unmounted or a [`Stopper`] ends it, and leaves the file system clean.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod allocate;
mod attach;
mod attributes;
mod convert;
mod flags;
mod idle;
#[cfg(feature = "testing")]
mod one_file;
mod options;
mod privileges;
#[cfg(feature = "testing")]
pub mod recorded;
mod requests;
mod seek;
mod server;
#[cfg(feature = "testing")]
pub mod slow;
mod state;
mod unmount;

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fsmend_vfs::{FileSystem, Time};
use fuser::{BackgroundSession, Session};

pub use attach::{place, remount};
pub use options::{Options, UnknownOption};

use idle::{Polling, SHORT};
use server::Server;
use state::State;

/// A file system that can be served: requests come from a thread of their own.
pub type Served = Box<dyn FileSystem + Send>;

/// Tells the time.
pub type Clock = fn() -> Time;

/// A file system that is mounted.
pub struct Mounted {
    /// Never dropped: when it is dropped, fuser unmounts whatever is mounted at that path by then, be it ours or a later one.
    /// What stays behind is one descriptor of `/dev/fuse`.
    session: ManuallyDrop<BackgroundSession>,
    shared: Arc<Shared>,
    place: PathBuf,
    commit: Duration,
    sender: Sender<Event>,
    events: Receiver<Event>,
}

/// What the thread that serves and the one that waits have in common.
struct Shared {
    state: Mutex<State>,
    clock: Clock,
    /// With `idle=poll`.
    polling: Option<Polling>,
}

/// What [`Mounted::wait`] waits for.
enum Event {
    /// It was asked to end.
    Stop,
    /// The kernel sends no requests any more.
    Gone,
    /// Requests follow each other closely.
    Burst,
}

/// Ends a mount, from any thread.
#[derive(Clone)]
pub struct Stopper(Sender<Event>);

impl Stopper {
    /// Unmounts; [`Mounted::wait`] returns when that is done. After the end it does nothing.
    pub fn stop(&self) {
        // The receiver is gone once it has ended.
        let _ = self.0.send(Event::Stop);
    }
}

/// How a mount ended. In all cases everything is durable, and the file system clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The directory was unmounted.
    Unmounted,
    /// It was stopped.
    Stopped,
    /// It was stopped while files were open in it; those who have them open get errors from now on.
    StoppedInUse,
}

/// Why a file system could not be left clean.
#[derive(Debug)]
pub enum Failure {
    /// What was in memory did not come to the device, or something is wrong with what stands there: the first thing that went wrong, in words.
    Device(fsmend_vfs::Errno, Option<String>),
    /// The folder could not be unmounted. The file system is clean all the same.
    Unmount(io::Error),
    /// A request ended in a panic, so that the state in memory is unknown: nothing of it was written.
    Panic,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Device(error, None) => write!(f, "it could not be left clean: {error}"),
            Failure::Device(error, Some(trouble)) => {
                write!(f, "it could not be left clean: {error} ({trouble})")
            }
            Failure::Unmount(error) => write!(f, "the folder cannot be unmounted: {error}"),
            Failure::Panic => {
                write!(f, "a request ended in a panic; what was not durable by then was not written")
            }
        }
    }
}

impl std::error::Error for Failure {}

impl Mounted {
    /// Shows `file_system` in the folder `place`. When this returns it can be used.
    pub fn mount(
        file_system: Served,
        place: &Path,
        options: &Options,
        clock: Clock,
    ) -> Result<Mounted, Refused> {
        match Mounted::begin(file_system, place, options, clock) {
            Ok(mounted) => Ok(mounted),
            Err((error, shared)) => {
                // Nothing was changed yet; what mounting itself has noted is taken back.
                let clean = shared.end();
                Err(Refused { error, clean })
            }
        }
    }

    fn begin(
        file_system: Served,
        place: &Path,
        options: &Options,
        clock: Clock,
    ) -> Result<Mounted, (io::Error, Arc<Shared>)> {
        let (polling, refused) = match options.poll_idle.then(Polling::new).transpose() {
            Ok(polling) => (polling, None),
            Err(error) => (None, Some(error)),
        };
        let state = Mutex::new(State::new(file_system, options.synchronous));
        let shared = Arc::new(Shared { state, clock, polling });
        let (sender, events) = channel();
        let server = Server::new(Arc::clone(&shared), sender.clone(), options);
        let begun = || {
            if let Some(error) = refused {
                return Err(io::Error::other(format!(
                    "idle=poll: /dev/cpu_dma_latency: {error}; it takes the superuser"
                )));
            }
            let place = attach::place(place)?;
            let config = options.config();
            let session = match attach::attach(&place, options)? {
                None => Session::new(server, &place, &config)?,
                Some(fuse) => {
                    let begun = Session::from_fd(server, fuse, config.acl, config);
                    begun.inspect_err(|_| drop(unmount::unmount(&place)))?
                }
            };
            let session = ManuallyDrop::new(session.spawn()?);
            attach::read_ahead(&place);
            Ok((place, session))
        };
        match begun() {
            Ok((place, session)) => {
                Ok(Mounted { session, shared, place, commit: options.commit, sender, events })
            }
            Err(error) => Err((error, shared)),
        }
    }

    /// The folder, as the kernel calls it.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Something to end it by.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }

    /// Serves until the folder is unmounted or a [`Stopper`] says so.
    pub fn wait(self) -> Result<Ended, Failure> {
        let mut ended = Ended::Unmounted;
        let mut unmounted = Ok(());
        // In a burst of requests, whether it is over is looked at in between; commits come when they are due all the same.
        let mut burst: Option<&Polling> = None;
        let mut due = Instant::now() + self.commit;
        loop {
            let rest = due.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(burst.map_or(rest, |_| rest.min(SHORT))) {
                Err(RecvTimeoutError::Timeout) => {
                    burst = burst.filter(|polling| !polling.is_over());
                    if Instant::now() >= due {
                        self.shared.commit();
                        due = Instant::now() + self.commit;
                    }
                }
                Ok(Event::Burst) => burst = self.shared.polling.as_ref(),
                Ok(Event::Gone) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Event::Stop) if self.session.guard.is_finished() => break,
                // A second request is ignored: by now something else may be mounted there.
                Ok(Event::Stop) if ended == Ended::Stopped => {}
                Ok(Event::Stop) => match unmount::unmount(&self.place) {
                    // The kernel sends what it still has, and then it is gone.
                    Ok(()) => ended = Ended::Stopped,
                    Err(error) if unmount::is_busy(&error) => {
                        ended = Ended::StoppedInUse;
                        unmounted = unmount::detach(&self.place);
                        break;
                    }
                    Err(error) => {
                        unmounted = Err(error);
                        break;
                    }
                },
            }
        }
        self.shared.end()?;
        unmounted.map_err(Failure::Unmount).map(|()| ended)
    }
}

/// Why a file system was not mounted.
#[derive(Debug)]
pub struct Refused {
    /// What the system said.
    pub error: io::Error,
    /// Whether the file system was left as clean as it was.
    pub clean: Result<(), Failure>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = &self.error;
        match error.kind() {
            io::ErrorKind::NotFound => {
                write!(f, "{error} (the folder has to be there, and so has /dev/fuse: modprobe fuse)")
            }
            io::ErrorKind::PermissionDenied => {
                write!(
                    f,
                    "{error} (those who are not root need fusermount3, of the package fuse3, and a folder of their own)"
                )
            }
            _ => write!(f, "{error}"),
        }?;
        self.clean.as_ref().map_or_else(|failure| write!(f, "; {failure}"), |()| Ok(()))
    }
}

impl std::error::Error for Refused {}

impl Shared {
    /// Makes durable what has changed, if something has. What goes wrong is reported to the next caller, and in the end.
    fn commit(&self) {
        let Ok(mut state) = self.state.lock() else { return };
        let _ = state.commit((self.clock)());
    }

    /// Unmounts the file system. There are no requests after that.
    fn end(&self) -> Result<(), Failure> {
        let Ok(mut state) = self.state.lock() else { return Err(Failure::Panic) };
        let ended = state.end((self.clock)());
        ended.map_err(|error| Failure::Device(error, state.trouble()))
    }
}
