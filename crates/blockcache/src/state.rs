// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a mounted file system can be used for, and which of its inodes are held.

use std::collections::HashMap;

use fsmend_vfs::{Errno, InodeNo, Result};

/// What a mounted file system can be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MountState {
    /// Reading.
    ReadOnly,
    /// Reading and writing.
    Writable,
    /// Nothing: it is unmounted.
    Unmounted,
    /// Reading: a write failed, so what is in memory is not what is on the device.
    Failed,
}

impl MountState {
    /// An error if the file system may not be changed.
    pub fn check_writable(self) -> Result<()> {
        match self {
            MountState::Writable => Ok(()),
            MountState::ReadOnly => Err(Errno::ReadOnly),
            MountState::Unmounted => Err(Errno::NotMounted),
            MountState::Failed => Err(Errno::Io),
        }
    }

    /// An error if the file system is unmounted.
    pub fn check_mounted(self) -> Result<()> {
        if self == MountState::Unmounted { Err(Errno::NotMounted) } else { Ok(()) }
    }
}

/// Inodes that stay as long as they are held, even without a name, and how often each one is.
#[derive(Debug, Default)]
pub struct HeldInodes(HashMap<u32, u64>);

impl HeldInodes {
    /// Holds `inode` once more.
    pub fn hold(&mut self, inode: InodeNo) {
        *self.0.entry(inode.0).or_default() += 1;
    }

    /// Holds `inode` fewer times, by `count`. Returns whether it is not held any more.
    pub fn release(&mut self, inode: InodeNo, count: u64) -> Result<bool> {
        let held = self.0.get_mut(&inode.0).ok_or(Errno::Invalid)?;
        *held = held.saturating_sub(count);
        if *held > 0 {
            return Ok(false);
        }
        self.0.remove(&inode.0);
        Ok(true)
    }

    /// Whether `inode` is held.
    pub fn contains(&self, inode: InodeNo) -> bool {
        self.0.contains_key(&inode.0)
    }

    /// Releases all inodes, and returns them, sorted.
    pub fn release_all(&mut self) -> Vec<InodeNo> {
        let mut held: Vec<InodeNo> = self.0.drain().map(|(inode, _)| InodeNo(inode)).collect();
        held.sort_unstable();
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_release_ends_it() {
        let mut held = HeldInodes::default();
        held.hold(InodeNo(12));
        held.hold(InodeNo(12));
        held.hold(InodeNo(5));
        assert_eq!(held.release(InodeNo(12), 1), Ok(false));
        assert!(held.contains(InodeNo(12)));
        assert_eq!(held.release(InodeNo(12), 1), Ok(true));
        assert_eq!(held.release(InodeNo(12), 1), Err(Errno::Invalid));
        held.hold(InodeNo(2));
        assert_eq!(held.release_all(), [InodeNo(2), InodeNo(5)]);
        assert!(!held.contains(InodeNo(5)));
    }
}
