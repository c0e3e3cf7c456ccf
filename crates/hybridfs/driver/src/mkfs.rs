// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making a hybridfs.

use fsmend_blockcache::{HeldInodes, MountState};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use fsmend_base::{crc32c, width};
use fsmend_device::WritableDevice;
use fsmend_hybridfs_format::{
    Incompat, Inode, Map, OWNER_BFILE, ROOT, STATIC_LEN, Superblock, Totals, usual_log,
};
use fsmend_vfs::{Caller, Errno, Time};

use crate::group::Groups;
use crate::io::Io;
use crate::space::Space;
use crate::tree::{Leaves, Tree};
use crate::volume::{Commit, Contents, Last, Live, Volume, ifile, stamp};

/// What is to be made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes in a fragment.
    pub fragment_size: u32,
    /// Bytes in a block.
    pub block_size: u32,
    /// Bytes of the log; [`None`] for an eighth of the device.
    pub log_bytes: Option<u64>,
    /// Bytes of a segment at most; [`None`] for 16 MiB, or a 64th of the log if that is less.
    pub segment_bytes: Option<u64>,
    /// Bytes of an allocation group of data.
    pub group_bytes: u64,
    /// Identity of the device of the log, if that is another one ([`log_place`]).
    pub log_device: Option<[u8; 16]>,
    /// Inodes; [`None`] for as many as take half of the log.
    pub inodes: Option<u64>,
    /// Identity.
    pub uuid: [u8; 16],
    /// Name, at most 32 bytes.
    pub label: Vec<u8>,
    /// The time.
    pub now: Time,
}

impl Options {
    /// Our defaults.
    pub fn new(uuid: [u8; 16], now: Time) -> Self {
        Options {
            fragment_size: 4096,
            block_size: 16384,
            log_bytes: None,
            segment_bytes: None,
            group_bytes: 178 << 20,
            log_device: None,
            inodes: None,
            uuid,
            label: Vec::new(),
            now,
        }
    }

    /// The sizes of the paper: segments of 1 MiB, fragments of 2 KiB, blocks of 16 KiB.
    pub fn paper(uuid: [u8; 16], now: Time) -> Self {
        Options { fragment_size: 2048, segment_bytes: Some(1 << 20), ..Options::new(uuid, now) }
    }
}

/// Why it cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MkfsError {
    /// The device could not be written.
    Io(String),
    /// The options and the device do not go together.
    Geometry(String),
}

impl fmt::Display for MkfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MkfsError::Io(why) => f.write_str(why),
            MkfsError::Geometry(why) => write!(f, "cannot make such a file system: {why}"),
        }
    }
}

impl std::error::Error for MkfsError {}

/// Where the log will be on a device of `len` bytes: its first byte, and how many. A log on another device takes this place among the bytes of both.
pub fn log_place(len: u64, options: &Options) -> Result<(u64, u64), MkfsError> {
    let sb = superblock(len, options)?;
    let fragment = u64::from(sb.fragment_size);
    Ok((sb.log_start * fragment, sb.log_fragments * fragment))
}

/// Makes a file system on all of `device`.
pub fn mkfs(device: Arc<dyn WritableDevice>, options: &Options) -> Result<(), MkfsError> {
    let sb = superblock(device.len(), options)?;
    let written = |error: fsmend_device::WriteError| MkfsError::Io(error.to_string());
    // What stood here before must not be taken for anything.
    let zeroes = vec![0; 128 << 10];
    device.write_at(0, &zeroes).map_err(written)?;
    let log = sb.log_start * u64::from(sb.fragment_size);
    let head = sb.log_head() * u64::from(sb.fragment_size);
    device.write_at(log, &zeroes[..width::index(head)]).map_err(written)?;
    device.write_at(sb.last_copy_offset(), &zeroes[..width::index(STATIC_LEN)]).map_err(written)?;
    let copies = sb.copies();
    let io = Io::new(Arc::clone(&device), sb.clone());
    let mut volume = empty(io, options);
    let made = root(&mut volume, options).and_then(|()| volume.commit(options.now, Commit::Clean));
    made.map_err(|error| {
        MkfsError::Io(volume.io.trouble.get().cloned().unwrap_or_else(|| error.to_string()))
    })?;
    // With the superblocks it is one.
    for offset in copies {
        device.write_at(offset, &sb.store()).map_err(written)?;
    }
    device.sync().map_err(written)
}

fn superblock(len: u64, options: &Options) -> Result<Superblock, MkfsError> {
    let wrong = |why: &str| MkfsError::Geometry(why.to_owned());
    let (fragment, block) = (u64::from(options.fragment_size), u64::from(options.block_size));
    if !options.block_size.is_power_of_two() || !(4096..=65536).contains(&block) {
        return Err(wrong("the block size is no power of two from 4096 to 65536"));
    }
    if !options.fragment_size.is_power_of_two() || !(512..=block).contains(&fragment) {
        return Err(wrong("the fragment size is no power of two from 512 to the block size"));
    }
    let per_block = block / fragment;
    let (log_start, log_blocks) =
        usual_log(len, block, options.log_bytes).ok_or_else(|| wrong("the device is too small"))?;
    let segment = options.segment_bytes.unwrap_or((16 << 20).min(log_blocks * block / 64)).max(16 * block);
    let inodes = options.inodes.unwrap_or(log_blocks * block / 1024).clamp(64, u64::from(u32::MAX));
    let made = stamp(options.now).0;
    let crc =
        |salt: u8| crc32c(crc32c(u32::MAX, &options.uuid), &[&made.to_le_bytes()[..], &[salt]].concat());
    let mut hash_key = [0; 16];
    for (salt, part) in hash_key.chunks_exact_mut(4).enumerate() {
        part.copy_from_slice(&crc(width::len_u8(salt)).to_le_bytes());
    }
    let mut label = [0; 32];
    let label_len = options.label.len().min(32);
    label[..label_len].copy_from_slice(&options.label[..label_len]);
    let units = (block - 64) * 8;
    let mut sb = Superblock {
        compat: 0,
        ro_compat: 0,
        incompat: if options.log_device.is_some() { Incompat::LOG_DEVICE } else { Incompat::empty() },
        uuid: options.uuid,
        label,
        fragment_size: options.fragment_size,
        block_size: options.block_size,
        fragments: len / fragment,
        log_start: log_start * per_block,
        log_fragments: log_blocks * per_block,
        ag_blocks: u32::try_from((options.group_bytes / block).clamp(64, units)).unwrap_or(u32::MAX),
        checkpoint_segments: u32::try_from((log_blocks / 32).clamp(4, 64)).unwrap_or(64),
        segment_fragments: u32::try_from(segment / fragment).unwrap_or(u32::MAX),
        reserve_blocks: 0,
        inodes,
        hash_key,
        made,
        log_uuid: options.log_device.unwrap_or_default(),
    };
    // The largest operation and a checkpoint, three times, since what is given back waits for two segments more.
    let bitmaps = sb.log_bitmaps() + sb.ags();
    sb.reserve_blocks = u32::try_from((log_blocks / 32).max(3 * (12 + 2 * bitmaps))).unwrap_or(u32::MAX);
    if u64::from(sb.reserve_blocks) * 2 > log_blocks {
        return Err(wrong("the log is too small"));
    }
    sb.check().map_err(|error| MkfsError::Geometry(error.to_string()))?;
    Ok(sb)
}

fn empty(io: Io, options: &Options) -> Volume {
    let mut space = Space::new(&io.sb, Vec::new(), Vec::new(), Totals::default());
    let first = space.take_block().unwrap_or(0);
    Volume {
        space,
        ifile: ifile(Map::default()),
        bfile: Tree::new(Leaves::Bitmaps, OWNER_BFILE, 0, Map::default()),
        inodes: HashMap::new(),
        blocks: BTreeMap::new(),
        held: HeldInodes::default(),
        caller: Caller::SUPERUSER,
        last: Last { next: first, ..Last::default() },
        summaries: Vec::new(),
        dirty: BTreeSet::new(),
        waiting: 0,
        waiting_data: 0,
        doomed: Vec::new(),
        groups: Groups::default(),
        written: [0; 2],
        pin: None,
        cleaner: None,
        generation: crc32c(u32::MAX, &options.uuid),
        hint: 0,
        mode: MountState::Writable,
        io,
    }
}

fn root(volume: &mut Volume, options: &Options) -> Result<(), Errno> {
    let number = volume.new_number(ROOT)?;
    let mut live = Live {
        disk: Inode::empty_directory(u64::from(number), volume.generation, stamp(options.now)),
        contents: Contents::Directory(Tree::new(
            Leaves::Directories,
            u64::from(number),
            volume.generation,
            Map::default(),
        )),
        attributes: Vec::new(),
        attributes_at: None,
        attributes_dirty: false,
        dirty: false,
        ssn: 0,
    };
    live.set_parent(number, volume.generation);
    volume.space.totals.directories += 1;
    volume.mark(&mut live)?;
    volume.inodes.insert(number, live);
    Ok(())
}
