// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounting: from a device to a file system that can be worked with, and everything refused that cannot.

use std::fmt;
use std::sync::Arc;

use fsmend_base::width;
use fsmend_blockcache::{BlockCache, HeldInodes, MountState};
use fsmend_device::WritableDevice;
use fsmend_ufs_format::geometry::{Flaw, Geometry, ROOT};
use fsmend_ufs_format::order::Version;
use fsmend_ufs_format::quota;
use fsmend_ufs_format::summary::{COUNTS_SIZE, Counts};
use fsmend_ufs_format::superblock::{SEARCH, SUPERBLOCK_MAX, Superblock, SuperblockFlags, UFS2_PLACE};
use fsmend_vfs::{Caller, Errno, InodeNo, Time};

use crate::groups::{GroupTable, layout};
use crate::hints::Hints;
use crate::policy::{FfsPolicy, MetaspacePolicy, Policy};
use crate::volume::Volume;

/// Bytes of metadata that stay in memory if nothing else is said.
const CACHE_BYTES: usize = 256 << 20;

/// How a file system is to be mounted.
pub struct MountOptions {
    /// Nothing is written to the device.
    pub read_only: bool,
    /// Where blocks are wished for; `None`: `metaspace` where the superblock names a metadata area, else `ffs`.
    pub policy: Option<Box<dyn Policy>>,
    /// How many bytes of unchanged metadata are kept in memory, more or less.
    pub cache_bytes: usize,
    /// The time.
    pub now: Time,
}

impl MountOptions {
    /// For reading and writing, at this time, with the policy that the superblock asks for.
    pub fn new(now: Time) -> Self {
        MountOptions { read_only: false, policy: None, cache_bytes: CACHE_BYTES, now }
    }

    /// For reading only.
    pub fn read_only(now: Time) -> Self {
        MountOptions { read_only: true, ..MountOptions::new(now) }
    }

    /// With another policy.
    pub fn with_policy(self, policy: impl Policy + 'static) -> Self {
        MountOptions { policy: Some(Box::new(policy)), ..self }
    }
}

/// Why a file system cannot be mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MountError {
    /// The device could not be read or written.
    Io(String),
    /// There is no superblock.
    NoSuperblock,
    /// Values of the superblock with which nothing can be computed.
    Superblock(Vec<Flaw>),
    /// It could be mounted for reading only, and why.
    ReadOnly(&'static str),
    /// It is damaged, and how.
    Corrupt(String),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountError::Io(why) => write!(f, "{why}"),
            MountError::NoSuperblock => f.write_str("no UFS superblock found"),
            MountError::Superblock(flaws) => {
                let fields: Vec<_> =
                    flaws.iter().map(|flaw| format!("{} {}", flaw.field, flaw.stored)).collect();
                write!(f, "the superblock is no good: {}", fields.join(", "))
            }
            MountError::ReadOnly(why) => write!(f, "can be mounted for reading only (-o ro): {why}"),
            MountError::Corrupt(what) => write!(f, "damaged: {what}"),
        }
    }
}

impl std::error::Error for MountError {}

/// The superblock of a device, and what follows from it.
fn find_superblock(device: &dyn WritableDevice) -> Result<(Superblock, Geometry), MountError> {
    let mut first_error = None;
    for place in SEARCH {
        let Some(length) = device.len().checked_sub(place) else { continue };
        let mut bytes = vec![0; SUPERBLOCK_MAX.min(usize::try_from(length).unwrap_or(usize::MAX))];
        device.read_at(place, &mut bytes).map_err(|error| MountError::Io(error.to_string()))?;
        let Some(mut superblock) = Superblock::parse(&bytes) else { continue };
        // The first copy of a UFS1 with blocks of 64 KiB lies where UFS2 has its superblock.
        let is_copy = superblock.version() == Version::Ufs1 && place == UFS2_PLACE;
        if is_copy || superblock.sblockloc() != width::signed(place) {
            continue;
        }
        if !superblock.hash_is_right() {
            first_error.get_or_insert(MountError::Corrupt("the superblock has a wrong check hash".into()));
            continue;
        }
        superblock.modernise();
        match Geometry::of(&superblock) {
            Ok((geometry, _)) => return Ok((superblock, geometry)),
            Err(flaws) => {
                first_error.get_or_insert(MountError::Superblock(flaws));
            }
        }
    }
    Err(first_error.unwrap_or(MountError::NoSuperblock))
}

/// Why a file system cannot be written here, if it cannot.
fn why_read_only(superblock: &Superblock) -> Option<&'static str> {
    let flags = superblock.flags();
    if superblock.clean() != 1 || flags.intersects(SuperblockFlags::UNCLEAN | SuperblockFlags::NEEDS_FSCK) {
        Some("it was not unmounted cleanly and has to be checked first")
    } else if flags.contains(SuperblockFlags::GJOURNAL) {
        Some("it is journalled by the block layer")
    } else if superblock.snapshots().next().is_some() {
        Some("it has snapshots, which would have to be kept up to date")
    } else if superblock.sujfree() != 0 {
        Some("its journal lists files without names")
    } else if flags.contains(SuperblockFlags::NFS4_ACLS) {
        Some("it has NFSv4 access control lists, which new files would have to inherit")
    } else if superblock.is_old() {
        Some("it has the form of before 2002")
    } else {
        None
    }
}

impl Volume {
    /// Mounts what lies on `device`.
    pub fn mount(device: Arc<dyn WritableDevice>, options: MountOptions) -> Result<Volume, MountError> {
        let (superblock, geometry) = find_superblock(&*device)?;
        if geometry.size > device.len() / geometry.fragment_size {
            return Err(MountError::Corrupt("the file system is larger than its device".into()));
        }
        if let Some(why) = why_read_only(&superblock).filter(|_| !options.read_only) {
            return Err(MountError::ReadOnly(why));
        }
        let fragment_size = u32::try_from(geometry.fragment_size).map_err(|_| MountError::NoSuperblock)?;
        let cache = BlockCache::new(device, fragment_size, geometry.size, options.cache_bytes);
        let own_policy = || -> Box<dyn Policy> {
            if geometry.metadata_area > 0 {
                Box::new(MetaspacePolicy::new(&geometry, &superblock))
            } else {
                Box::new(FfsPolicy::new(&geometry, &superblock))
            }
        };
        let policy = options.policy.unwrap_or_else(own_policy);
        let mut volume = Volume {
            cache,
            layout: layout(&geometry),
            geometry,
            superblock,
            policy,
            mode: MountState::ReadOnly,
            groups: GroupTable::default(),
            held: HeldInodes::default(),
            caller: Caller::SUPERUSER,
            hints: Hints::default(),
            generation: options.now.nanoseconds ^ width::low_u32(options.now.seconds.cast_unsigned()),
        };
        volume.read_summary().map_err(|error| volume.why(error))?;
        if !options.read_only {
            volume.mode = MountState::Writable;
            volume.open_for_writing(options.now).map_err(|error| volume.why(error))?;
        }
        Ok(volume)
    }

    /// What is on the file system that this mount does not obey, or does not keep up to date: sentences without a full stop.
    pub fn notes(&mut self) -> Vec<String> {
        let bits = self.superblock.flags();
        let mut notes = Vec::new();
        if bits.contains(SuperblockFlags::NFS4_ACLS) {
            notes.push(
                "NFSv4 access control lists are not obeyed: the mode alone says who may do what".to_owned(),
            );
        }
        if bits.contains(SuperblockFlags::ACLS) && !self.obeys_lists() {
            notes.push(
                "access control lists are obeyed on UFS2 only: the mode alone says who may do what"
                    .to_owned(),
            );
        }
        if bits.contains(SuperblockFlags::MULTILABEL) {
            notes
                .push("labels of mandatory access control are not obeyed, and new files get none".to_owned());
        }
        for name in quota::NAMES {
            if self.mode == MountState::Writable && self.find(InodeNo(ROOT), name).is_ok() {
                let name = String::from_utf8_lossy(name);
                notes.push(format!(
                    "/{name} is not kept up to date, and limits are not obeyed: fsmend repair or quotacheck has to count anew after unmounting"
                ));
            }
        }
        notes
    }

    fn why(&self, error: Errno) -> MountError {
        let what = self.cache.trouble().map_or_else(|| error.to_string(), str::to_owned);
        if error == Errno::Io { MountError::Io(what) } else { MountError::Corrupt(what) }
    }

    fn read_summary(&mut self) -> Result<(), Errno> {
        let (first, length) = self.geometry.summary;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        self.read_place(self.geometry.place(first), &mut bytes)?;
        let order = self.geometry.order;
        let groups = bytes.chunks_exact(COUNTS_SIZE).take(self.geometry.groups as usize);
        self.groups = GroupTable::new(groups.map(|place| Counts::parse(place, order)).collect());
        Ok(())
    }
}
