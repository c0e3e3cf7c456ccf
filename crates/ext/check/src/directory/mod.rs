//! Inspection of one directory: every entry, the index, `.` and `..`, checksums, with all inode facts at hand.

pub mod problems;

use fsmend_base::InodeNo;
use fsmend_engine::Findings;
use fsmend_engine::inodes::InodeTable;

use crate::Fs;
use crate::inode::MapRun;

/// A directory to be inspected.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The directory.
    pub inode: InodeNo,
    /// Its mended record.
    pub record: Vec<u8>,
    /// Its blocks in the order of the file (empty when inline).
    pub runs: Vec<MapRun>,
    /// Whether its entries live in the inode.
    pub inline: bool,
}

/// Inspects `directory` after every inode has been scanned. Entries that stay are counted with
/// `inodes.observe_link`, subdirectories get their parent with `inodes.set_parent`, and the directory's own parent
/// entry is stored in its `DirectoryFact`.
pub fn inspect(_fs: &Fs<'_>, _inodes: &InodeTable, _directory: &Directory, _findings: &mut Findings) {}
