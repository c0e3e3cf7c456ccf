// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inode under inspection: its mended copy, and what has been raised about it.

use fsmend_base::InodeNo;
use fsmend_engine::inodes::Kind;
use fsmend_engine::shared_maps::MapWalkLimiter;
use fsmend_engine::{Findings, Problem, Row};
use fsmend_ext_format::features::{Incompat, RoCompat};
use fsmend_ext_format::inode::{RawInode, mode};

use crate::Fs;

/// The inode under inspection. `raw` is the mended copy of the fixed fields; `record` is brought up to date with
/// [`store`](Self::store), and `raw` with [`reload`](Self::reload) after other code has mended the record.
pub(crate) struct Subject<'a, 'd> {
    pub fs: &'a Fs<'d>,
    pub inode: InodeNo,
    pub raw: RawInode,
    pub record: Vec<u8>,
    /// What has been raised about this inode.
    pub findings: Findings,
    /// Blocks of its map that were read.
    pub map_reads: u64,
    /// Counts blocks of maps, and decides which are not walked again.
    pub limiter: Option<&'a mut MapWalkLimiter>,
    /// Whether the limiter did not let its map be walked.
    pub is_given_up: bool,
}

impl<'a, 'd> Subject<'a, 'd> {
    pub fn new(fs: &'a Fs<'d>, inode: InodeNo, record: &[u8], findings: Findings) -> Self {
        let raw = RawInode::from_record(record);
        Subject {
            fs,
            inode,
            raw,
            record: record.to_vec(),
            findings,
            map_reads: 0,
            limiter: None,
            is_given_up: false,
        }
    }

    /// A problem of this inode.
    pub fn problem(&self, row: &'static Row) -> Problem {
        Problem::new(row).inode(self.inode)
    }

    pub fn raise(&mut self, problem: Problem) {
        self.findings.raise(problem);
    }

    /// Whether nothing has been raised so far.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    pub fn store(&mut self) {
        self.raw.store(&mut self.record);
    }

    pub fn reload(&mut self) {
        self.raw = RawInode::from_record(&self.record);
    }

    /// What the mode says that it is; `None` for a mode of no known type.
    pub fn kind(&self) -> Option<Kind> {
        kind_of(self.raw.file_type())
    }

    pub fn is_directory(&self) -> bool {
        self.raw.file_type() == mode::DIRECTORY
    }

    pub fn is_regular(&self) -> bool {
        self.raw.file_type() == mode::REGULAR
    }

    pub fn is_symlink(&self) -> bool {
        self.raw.file_type() == mode::SYMLINK
    }

    /// Whether it is a device, pipe or socket.
    pub fn is_special_file(&self) -> bool {
        matches!(self.raw.file_type(), mode::CHAR_DEVICE | mode::BLOCK_DEVICE | mode::FIFO | mode::SOCKET)
    }

    pub fn has_incompat(&self, feature: Incompat) -> bool {
        self.fs.geometry.features.has_incompat(feature)
    }

    pub fn has_ro_compat(&self, feature: RoCompat) -> bool {
        self.fs.geometry.features.has_ro_compat(feature)
    }

    /// The attribute block; the high half counts where the field is there and the feature makes it count.
    pub fn file_acl(&self) -> u64 {
        let wide = self.has_incompat(Incompat::BIT64) && !self.fs.geometry.hurd;
        self.raw.file_acl(wide)
    }

    /// Notes that a block of the map is going to be read; `false` when the limiter does not let it.
    pub fn may_read_map_block(&mut self, block: u64) -> bool {
        let admitted = self.limiter.as_mut().is_none_or(|limiter| limiter.admits(block, 1));
        self.map_reads += u64::from(admitted);
        self.is_given_up |= !admitted;
        admitted
    }

    pub fn block_size(&self) -> u64 {
        u64::from(self.fs.geometry.block_size)
    }

    /// Largest number of blocks that a directory can have: 2 GiB of them without `large_dir`.
    pub fn directory_blocks_max(&self) -> u64 {
        let large = self.has_incompat(Incompat::LARGEDIR);
        if large { u64::MAX } else { (1 << 31) / self.block_size() }
    }
}

/// What the type bits of a mode say; `None` for no known type.
pub(crate) fn kind_of(file_type: u16) -> Option<Kind> {
    Some(match file_type {
        mode::REGULAR => Kind::Regular,
        mode::DIRECTORY => Kind::Directory,
        mode::CHAR_DEVICE => Kind::CharDevice,
        mode::BLOCK_DEVICE => Kind::BlockDevice,
        mode::FIFO => Kind::Fifo,
        mode::SOCKET => Kind::Socket,
        mode::SYMLINK => Kind::Symlink,
        _ => return None,
    })
}
