// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a family offers beside checks and repairs to those who make and mount its file systems.

use std::path::Path;
use std::sync::Arc;

use fsmend_device::WritableDevice;
use fsmend_vfs::{FileSystem, Time};

/// Makes and mounts the file systems of one family.
pub trait Driver: Sync {
    /// What the family is called in a sentence about its options.
    fn title(&self) -> &'static str;

    /// The types of file systems that it makes.
    fn kinds(&self) -> &'static [Kind];

    /// The extended options, each with an example value, for the help of a command.
    fn extended(&self) -> &'static str;

    /// The longest label, in bytes.
    fn label_max(&self) -> usize;

    /// What makes the file system that `wanted` describes, or why there can be none, before anything is opened.
    fn maker(&self, wanted: NewFileSystem) -> Result<Box<Maker>, String>;

    /// Mounts what `device` holds.
    fn mount(&self, device: Arc<dyn WritableDevice>, how: &Mounting) -> Result<Driven, String>;

    /// `device` with the log at `path`, for a file system whose log is on another device.
    fn with_log(
        &self,
        device: Arc<dyn WritableDevice>,
        path: &Path,
        read_only: bool,
    ) -> Result<Arc<dyn WritableDevice>, String> {
        let _ = (device, path, read_only);
        Err("its log is on no other device".to_owned())
    }

    /// Whether blocks can be claimed for a file without writing them.
    fn claims_unwritten(&self) -> bool {
        true
    }
}

/// A type of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// What it is called on a command line.
    pub name: &'static str,
    /// What tells it from others, without a period.
    pub help: &'static str,
}

/// A file system to be made.
#[derive(Clone)]
pub struct NewFileSystem {
    /// The name of its [`Kind`].
    pub kind: &'static str,
    /// The extended options, `name=value`.
    pub extended: Vec<String>,
    /// Fragments of the metadata area of each group, where it was asked for.
    pub metadata_area: Option<u64>,
    /// The label.
    pub label: Vec<u8>,
    /// Random bytes, for its identity.
    pub random: [u8; 32],
    /// When it is made.
    pub now: Time,
    /// What keeps another device from being overwritten, in words; `None` where nothing does.
    pub obstacle: Obstacle,
}

/// What keeps a device from being overwritten, in words.
pub type Obstacle = fn(&Arc<dyn WritableDevice>) -> Option<String>;

/// Writes a file system to a device, which is blank if the second argument says so, and returns a summary: sentences that follow the name of the target
/// and a colon.
pub type Maker = dyn Fn(Arc<dyn WritableDevice>, bool) -> Result<String, String>;

/// How a file system is mounted.
#[derive(Clone, Copy, Debug)]
pub struct Mounting {
    /// The time of the mount.
    pub now: Time,
    /// Nothing is written.
    pub read_only: bool,
    /// Many changes may wait for one commit: nothing on it would be missed after a power cut.
    pub bulk: bool,
    /// Where blocks are placed.
    pub placement: Placement,
}

impl Mounting {
    /// As a format places blocks, at `now`.
    pub fn new(now: Time, read_only: bool) -> Self {
        Mounting { now, read_only, bulk: false, placement: Placement::Format }
    }
}

/// Where blocks are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// As the format does.
    Format,
    /// Indirect blocks and directories at the start of each group; the first indirect block of a file with its data.
    Metacluster,
    /// The same, including the first indirect block of a file.
    MetaclusterAll,
}

/// A mounted file system, and what its user has to know of it: sentences without a period.
pub struct Driven {
    /// The driver.
    pub fs: Box<dyn FileSystem + Send>,
    /// What it does not obey, or does differently.
    pub notes: Vec<String>,
}

/// A UUID of version 4, which is random (RFC 9562).
pub fn uuid(random: &[u8; 32]) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&random[..16]);
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_of_version_4() {
        let bytes = |fill| u128::from_be_bytes(uuid(&[fill; 32]));
        assert_eq!(bytes(0xff), 0xffff_ffff_ffff_4fff_bfff_ffff_ffff_ffff);
        assert_eq!(bytes(0), 0x0000_0000_0000_4000_8000_0000_0000_0000);
    }
}
