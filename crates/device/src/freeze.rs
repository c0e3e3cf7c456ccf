// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holding a mounted file system still for a moment.
//!
//! While it is frozen, writers wait; everything that was written lies on the disk, and the journal is empty. The
//! kernel keeps it frozen until it is thawed, even if the process that froze it is gone: so [`Frozen`] thaws when it is dropped,
//! and a program that freezes for real has a second process ready that thaws should the first one die (`cli` does).

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open, syncfs};
use rustix::ioctl::{NoArg, Opcode, ioctl, opcode};

const FIFREEZE: Opcode = opcode::read_write::<i32>(b'X', 119);
const FITHAW: Opcode = opcode::read_write::<i32>(b'X', 120);

/// The root of a mounted file system, held open.
#[derive(Debug)]
pub struct MountPoint {
    folder: File,
    at: PathBuf,
}

impl MountPoint {
    /// Opens the folder `at`, which has to lie on the block device `number` (major, minor): so that never another file system is
    /// frozen than the one that was meant.
    pub fn open(at: &Path, number: (u32, u32)) -> io::Result<Self> {
        let folder =
            File::from(open(at, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?);
        let lies_on = folder.metadata()?.dev();
        if (rustix::fs::major(lies_on), rustix::fs::minor(lies_on)) != number {
            return Err(io::Error::other("another file system is mounted there"));
        }
        Ok(MountPoint { folder, at: at.to_owned() })
    }

    /// Where it is mounted.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Writes everything that waits in memory, and waits for it: a freeze right afterwards has little to do.
    pub fn sync(&self) -> io::Result<()> {
        Ok(syncfs(&self.folder)?)
    }

    /// Freezes it. Fails if it is frozen already (by whomever) or cannot be frozen.
    pub fn freeze(&self) -> io::Result<Frozen<'_>> {
        // SAFETY: FIFREEZE takes no argument and touches no memory of ours.
        #[allow(unsafe_code)]
        unsafe {
            ioctl(&self.folder, NoArg::<FIFREEZE>::new())?;
        }
        Ok(Frozen { mount: self, is_over: false })
    }

    /// Thaws it, whichever process froze it. Fails if it was not frozen.
    pub fn thaw(&self) -> io::Result<()> {
        // SAFETY: FITHAW takes no argument and touches no memory of ours.
        #[allow(unsafe_code)]
        unsafe {
            ioctl(&self.folder, NoArg::<FITHAW>::new())?;
        }
        Ok(())
    }
}

/// A frozen file system. Thaws when dropped, also while a panic unwinds.
#[derive(Debug)]
pub struct Frozen<'m> {
    mount: &'m MountPoint,
    is_over: bool,
}

impl Frozen<'_> {
    /// Thaws. An error means that it was not frozen any more: what was read meanwhile is worth nothing.
    pub fn thaw(mut self) -> io::Result<()> {
        self.is_over = true;
        self.mount.thaw()
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // A thaw by another process does no harm here: the results are not used any more.
            let _ = self.mount.thaw();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn opcodes_are_those_of_the_kernel() {
        assert_eq!((FIFREEZE, FITHAW), (0xC004_5877, 0xC004_5878));
    }

    #[test]
    fn only_the_device_that_was_meant() {
        let error = MountPoint::open(Path::new("/proc"), (7, 250)).unwrap_err();
        assert_eq!(error.to_string(), "another file system is mounted there");
        assert!(MountPoint::open(Path::new("/proc/version"), (0, 0)).is_err());
    }
}
